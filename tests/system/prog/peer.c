// SPDX-License-Identifier: GPL-2.0-or-later
/* Common parts of the tests of ohca-peer: connection, queue pair, completions, patterns. */
#include "peer.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS	20000	/* for expected events */
#define MOST_WORDS	16	/* of one TCP message */

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("FAILED: ", stdout);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	fflush(stdout);
	_exit(1);
}

void must(int rc, const char *what)
{
	if (rc)
		fail("%s: %s", what, strerror(rc));
}

void *must_have(void *p, const char *what)
{
	if (!p)
		fail("%s: %s", what, strerror(errno));
	return p;
}

void *zeroes(size_t len)
{
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return m;
}

int64_t ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ll + ts.tv_nsec / 1000000;
}

uint64_t rnd(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

struct ibv_context *device_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	if (!list || !list[0])
		fail("no verbs device");
	ctx = ibv_open_device(list[0]);
	if (!ctx)
		fail("ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	fcntl(ctx->async_fd, F_SETFL, fcntl(ctx->async_fd, F_GETFL) | O_NONBLOCK);
	return ctx;
}

uint64_t hw_counter(const struct ibv_context *ctx, const char *name)
{
	unsigned long long v;
	char path[256];
	FILE *f;

	usleep(20000);	/* the kernel reads counters from the device at most every 10 ms */
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/hw_counters/%s",
		 ibv_get_device_name(ctx->device), name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", &v) != 1)
		fail("cannot read %s", path);
	fclose(f);
	return v;
}

uint64_t counter_wait(const struct ibv_context *ctx, const char *name, uint64_t before)
{
	int64_t end = ms_now() + WAIT_MS;
	uint64_t now;

	do
		now = hw_counter(ctx, name);
	while (now == before && ms_now() < end);
	return now - before;
}

int peer_meet(const char *host)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(PEER_PORT) };
	int64_t end = ms_now() + WAIT_MS;
	int fd = socket(AF_INET, SOCK_STREAM, 0), s, one = 1;
	struct hostent *h;

	if (!host) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 1))
			fail("listen: %s", strerror(errno));
		s = accept(fd, NULL, NULL);
		if (s < 0)
			fail("accept: %s", strerror(errno));
		close(fd);
		return s;
	}
	h = gethostbyname(host);
	if (!h)
		fail("no host %s", host);
	memcpy(&sa.sin_addr, h->h_addr, sizeof(sa.sin_addr));
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		if (ms_now() > end)
			fail("connect to %s: %s", host, strerror(errno));
		close(fd);
		usleep(50000);
		fd = socket(AF_INET, SOCK_STREAM, 0);
	}
	return fd;
}

void tcp_send(struct peer *p, const void *out, size_t size)
{
	uint64_t words[MOST_WORDS];

	if (size > sizeof(words) || size % 8)
		fail("%zu bytes to send", size);
	memcpy(words, out, size);
	for (size_t i = 0; i < size / 8; i++)
		words[i] = htobe64(words[i]);
	if (send(p->sock, words, size, 0) != (ssize_t)size)
		fail("the other side is gone");
}

void tcp_recv(struct peer *p, void *in, size_t size)
{
	uint64_t words[MOST_WORDS];

	if (size > sizeof(words) || size % 8)
		fail("%zu bytes to receive", size);
	if (recv(p->sock, words, size, MSG_WAITALL) != (ssize_t)size)
		fail("the other side is gone");
	for (size_t i = 0; i < size / 8; i++)
		words[i] = be64toh(words[i]);
	memcpy(in, words, size);
}

void tcp_swap(struct peer *p, const void *out, void *in, size_t size)
{
	tcp_send(p, out, size);
	tcp_recv(p, in, size);
}

void sync_at(struct peer *p, uint32_t step)
{
	uint64_t here = step, other;

	tcp_swap(p, &here, &other, sizeof(here));
	if (other != here)
		fail("at step %u, the other side at %llu", step, (unsigned long long)other);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *buf, int access)
{
	return must_have(ibv_reg_mr(pd, buf, PEER_BUF, access), "ibv_reg_mr");
}

struct ibv_qp *peer_qp_of(struct peer *p, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	struct ibv_qp *qp = must_have(ibv_create_qp(pd, init), "ibv_create_qp");

	if (p->type == IBV_QPT_UD) {
		attr.qkey = PEER_QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (p->type == IBV_QPT_RC)
			attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ |
						IBV_ACCESS_REMOTE_ATOMIC;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	must(ibv_modify_qp(qp, &attr, mask), "to INIT");
	return qp;
}

struct ibv_qp *peer_qp(struct peer *p, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {
		.send_cq = p->scq, .recv_cq = p->rcq, .qp_type = p->type,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 2,
			 .max_recv_sge = 2 },
	};

	return peer_qp_of(p, pd, &init);
}

void peer_open(struct peer *p, enum ibv_qp_type type)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd = must_have(ibv_alloc_pd(ctx), "ibv_alloc_pd");

	peer_open_on(p, type, ctx, pd);
}

void peer_open_on(struct peer *p, enum ibv_qp_type type, struct ibv_context *ctx, struct ibv_pd *pd)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC;

	p->type = type;
	if (!p->timeout) {
		p->timeout = PEER_TIMEOUT;
		p->retry_cnt = 7;
		p->rnr_retry = 7;
		p->min_rnr_timer = 12;
	}
	p->ctx = ctx;
	p->pd = pd;
	p->pd2 = ibv_alloc_pd(p->ctx);
	p->scq = ibv_create_cq(p->ctx, 256, NULL, NULL, 0);
	p->rcq = ibv_create_cq(p->ctx, 256, NULL, NULL, 0);
	if (!p->pd2 || !p->scq || !p->rcq)
		fail("PD or CQ: %s", strerror(errno));
	p->buf = zeroes(PEER_BUF);
	p->buf2 = zeroes(PEER_BUF);
	p->buf_ro = zeroes(PEER_BUF);
	p->mr = reg(p->pd, p->buf, all);
	p->mr2 = reg(p->pd2, p->buf2, all);
	p->mr_ro = reg(p->pd, p->buf_ro, IBV_ACCESS_REMOTE_READ);
	p->qp = peer_qp(p, p->pd);
}

void peer_rtr(struct peer *p, struct ibv_qp *qp, const struct peer_info *to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = p->mtu ? p->mtu : IBV_MTU_4096,
		.dest_qp_num = to->qpn,
		.rq_psn = to->psn, .max_dest_rd_atomic = 4, .min_rnr_timer = p->min_rnr_timer,
		.ah_attr = { .dlid = to->lid, .port_num = 1 },
	};
	int mask = IBV_QP_STATE;

	if (p->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (p->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	must(ibv_modify_qp(qp, &a, mask), "to RTR");
}

void peer_rts(struct peer *p, struct ibv_qp *qp, const struct peer_info *to, uint32_t sq_psn)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .sq_psn = sq_psn, .timeout = p->timeout,
		.retry_cnt = p->retry_cnt, .rnr_retry = p->rnr_retry, .max_rd_atomic = 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	peer_rtr(p, qp, to);
	if (p->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	must(ibv_modify_qp(qp, &a, mask), "to RTS");
}

void peer_connect(struct peer *p)
{
	struct ibv_port_attr port;

	if (ibv_query_port(p->ctx, 1, &port) || port.state != IBV_PORT_ACTIVE)
		fail("port 1 is not ACTIVE");
	p->me = (struct peer_info) {
		.addr = (uintptr_t)p->buf, .other_addr = (uintptr_t)p->buf2,
		.ro_addr = (uintptr_t)p->buf_ro, .rkey = p->mr->rkey, .other_rkey = p->mr2->rkey,
		.ro_rkey = p->mr_ro->rkey, .qpn = p->qp->qp_num,
		.psn = (p->qp->qp_num * 2654435761u) & 0xffffff, .lid = port.lid,
	};
	if (p->sock >= 0)
		tcp_swap(p, &p->me, &p->you, sizeof(p->me));
	else
		p->you = p->me;
	peer_rts(p, p->qp, &p->you, p->me.psn);
	if (p->type == IBV_QPT_UD) {
		struct ibv_ah_attr ah = { .dlid = p->you.lid, .port_num = 1 };

		p->ah = must_have(ibv_create_ah(p->pd, &ah), "ibv_create_ah");
	}
	if (p->sock >= 0)
		sync_at(p, 0xc0);
}

void peer_close(struct peer *p)
{
	peer_close_on(p);
	must(ibv_dealloc_pd(p->pd), "ibv_dealloc_pd");
	must(ibv_close_device(p->ctx), "ibv_close_device");
}

void peer_close_on(struct peer *p)
{
	if (p->ah)
		must(ibv_destroy_ah(p->ah), "ibv_destroy_ah");
	p->ah = NULL;
	if (p->qp)
		must(ibv_destroy_qp(p->qp), "ibv_destroy_qp");
	p->qp = NULL;
	must(ibv_destroy_cq(p->scq), "ibv_destroy_cq");
	must(ibv_destroy_cq(p->rcq), "ibv_destroy_cq");
	must(ibv_dereg_mr(p->mr), "ibv_dereg_mr");
	must(ibv_dereg_mr(p->mr2), "ibv_dereg_mr");
	must(ibv_dereg_mr(p->mr_ro), "ibv_dereg_mr");
	must(ibv_dealloc_pd(p->pd2), "ibv_dealloc_pd");
	munmap(p->buf, PEER_BUF);
	munmap(p->buf2, PEER_BUF);
	munmap(p->buf_ro, PEER_BUF);
}

void recv_post(struct peer *p, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)p->buf + off, len, p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(p->qp, &wr, &bad), "ibv_post_recv");
}

void send_post_raw(struct peer *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	must(ibv_post_send(p->qp, wr, &bad), "ibv_post_send");
}

void send_post(struct peer *p, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t off, uint32_t len,
	       uint32_t remote_off)
{
	struct ibv_sge sge = { (uintptr_t)p->buf + off, len, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htonl((uint32_t)wr_id),
	};

	if (p->type == IBV_QPT_UD) {
		wr.wr.ud.ah = p->ah;
		wr.wr.ud.remote_qpn = p->you.qpn;
		wr.wr.ud.remote_qkey = PEER_QKEY;
	} else if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = p->you.addr + remote_off;
		wr.wr.atomic.rkey = p->you.rkey;
	} else {
		wr.wr.rdma.remote_addr = p->you.addr + remote_off;
		wr.wr.rdma.rkey = p->you.rkey;
	}
	send_post_raw(p, &wr);
}

/* Statuses and events that occurred, as bits. */
static uint32_t seen_statuses, seen_events;

void seen_print(void)
{
	for (unsigned int i = 0; i < 32; i++) {
		if (seen_statuses >> i & 1)
			printf("seen status %u %s\n", i, ibv_wc_status_str(i));
		if (seen_events >> i & 1)
			printf("seen event %u %s\n", i, ibv_event_type_str(i));
	}
}

bool wc_get(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
	int64_t end = ms_now() + ms;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
		if (n < 0)
			fail("ibv_poll_cq: %d", n);
		if (n) {
			seen_statuses |= 1u << wc->status;
			return true;
		}
	} while (ms_now() < end);
	return false;
}

struct ibv_wc wc_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
			const char *what)
{
	struct ibv_wc wc;

	if (!wc_get(cq, &wc, WAIT_MS))
		fail("%s: no completion", what);
	if (wc.wr_id != wr_id || wc.status != status)
		fail("%s: completion of %llu, %s (vendor_err %#x), instead of %llu, %s", what,
		     (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.vendor_err,
		     (unsigned long long)wr_id, ibv_wc_status_str(status));
	return wc;
}

void wc_none(struct ibv_cq *cq, int ms, const char *what)
{
	struct ibv_wc wc;

	if (wc_get(cq, &wc, ms))
		fail("%s: completion of %llu, %s", what, (unsigned long long)wc.wr_id,
		     ibv_wc_status_str(wc.status));
}

void event_expect(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct pollfd f = { .fd = ctx->async_fd, .events = POLLIN };
	int64_t end = ms_now() + WAIT_MS;
	struct ibv_async_event ev;
	bool found = false;

	while (!found && ms_now() < end && poll(&f, 1, (int)(end - ms_now())) == 1) {
		if (ibv_get_async_event(ctx, &ev))
			continue;
		found = ev.event_type == type;
		seen_events |= 1u << ev.event_type;
		ibv_ack_async_event(&ev);
	}
	if (!found)
		fail("event '%s' did not come", ibv_event_type_str(type));
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
	return attr.qp_state;
}

void qp_to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to ERR");
}

void fill(uint8_t *buf, size_t len, uint32_t seed)
{
	uint64_t s = seed;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = htole64(rnd(&s));

		memcpy(buf + i, &v, len - i < 8 ? len - i : 8);
	}
}

void check(const uint8_t *buf, size_t len, uint32_t seed, const char *what)
{
	uint64_t s = seed;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = htole64(rnd(&s));

		if (memcmp(buf + i, &v, len - i < 8 ? len - i : 8))
			fail("%s: wrong data at byte %zu of %zu", what, i, len);
	}
}
