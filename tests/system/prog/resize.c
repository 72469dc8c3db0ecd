// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A QP whose queues are resized while one thread posts receives, another one sends, and a third one
 * resizes: nothing is lost, and the order stays. The same with other kinds of QPs; and invalid
 * requests, also of a process that bypasses the provider. The QPs are connected to themselves.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ohca-abi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MESSAGES	20000u
#define SIZES		40u
#define LEN		128u
#define SLOTS		256u	/* receive buffers, more than are ever posted */
#define THERE		(PEER_BUF / 2)
#define SOURCE		(PEER_BUF / 4)	/* source of READs */
#define MOST		150u	/* receives outstanding */
#define UNDER_WAY	64u	/* sends outstanding */
#define GRH		40u

static struct peer p = { .sock = -1 };
static struct ibv_device_attr dev;
static atomic_uint posted, got, resized, too_small;
static atomic_bool over;

static struct ibv_qp_cap cap_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int rc = ibv_query_qp(qp, &attr, IBV_QP_CAP, &init);

	if (rc)
		fail("ibv_query_qp: %s", strerror(rc));
	if (memcmp(&attr.cap, &init.cap, sizeof(attr.cap)))
		fail("ibv_query_qp contradicts itself");
	return attr.cap;
}

static int resize(struct ibv_qp *qp, uint32_t send, uint32_t recv)
{
	struct ibv_qp_attr attr = { .cap = cap_of(qp) };
	struct ibv_qp_cap now;
	int rc;

	attr.cap.max_send_wr = send;
	attr.cap.max_recv_wr = recv;
	rc = ibv_modify_qp(qp, &attr, IBV_QP_CAP);
	now = cap_of(qp);
	if (!rc && (memcmp(&attr.cap, &now, sizeof(now)) || now.max_send_wr < send ||
		    (!qp->srq && qp->qp_type != IBV_QPT_XRC_SEND && now.max_recv_wr < recv)))
		fail("to %u and %u: has %u and %u, says %u and %u", send, recv, now.max_send_wr,
		     now.max_recv_wr, attr.cap.max_send_wr, attr.cap.max_recv_wr);
	return rc;
}

static int post_recv(uint32_t i)
{
	struct ibv_sge sge = { (uintptr_t)p.buf + THERE + i % SLOTS * (LEN + GRH), LEN + GRH,
			       p.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return p.qp->srq ? ibv_post_srq_recv(p.qp->srq, &wr, &bad) :
			   ibv_post_recv(p.qp, &wr, &bad);
}

/* Posts whenever there is room in the RQ. */
static void *poster(void *arg)
{
	uint32_t i = 0;
	int rc;

	(void)arg;
	while (!atomic_load(&over)) {
		if (i - atomic_load(&got) >= MOST)
			continue;
		rc = post_recv(i);
		if (rc && rc != ENOMEM)
			fail("ibv_post_recv: %s", strerror(rc));
		if (!rc)
			atomic_store(&posted, ++i);
	}
	return NULL;
}

static void *resizer(void *arg)
{
	static const uint32_t sizes[] = { 128, 4096, 16, 300, 1, 64, 1000, 8, 256 };
	const unsigned int n = sizeof(sizes) / sizeof(sizes[0]);
	uint32_t send, recv;
	int rc;

	(void)arg;
	for (unsigned int i = 0; !atomic_load(&over); i++) {
		send = sizes[i % n];
		recv = sizes[(i / 2 + 3) % n];
		rc = resize(p.qp, send, recv);
		if (rc == EINVAL && (send < UNDER_WAY || recv < MOST))
			atomic_fetch_add(&too_small, 1);
		else if (rc)
			fail("to %u and %u: %s", send, recv, strerror(rc));
		else
			atomic_fetch_add(&resized, 1);
	}
	return NULL;
}

static bool is_read(uint32_t n)
{
	return p.type == IBV_QPT_RC && n % 4 == 3;
}

/* Message @n, from one of few slots and with its number first; or a READ. */
static int send_one(uint32_t n, uint32_t srqn)
{
	uint32_t off = n % (2 * UNDER_WAY) * LEN;
	struct ibv_sge sge = { (uintptr_t)p.buf + off, LEN, p.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = srqn,
	}, *bad;

	if (p.type == IBV_QPT_UD) {
		wr.wr.ud.ah = p.ah;
		wr.wr.ud.remote_qpn = p.qp->qp_num;
		wr.wr.ud.remote_qkey = PEER_QKEY;
	}
	if (is_read(n)) {
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = (uintptr_t)p.buf + SOURCE + n % 64 * LEN;
		wr.wr.rdma.rkey = p.mr->rkey;
		memset(p.buf + off, 0, LEN);
	} else {
		fill(p.buf + off, LEN, n);
	}
	return ibv_post_send(p.qp, &wr, &bad);
}

static void sent_one(const struct ibv_wc *wc, uint32_t n)
{
	if (wc->status || wc->wr_id != n)
		fail("send of %llu, %s, with %u before", (unsigned long long)wc->wr_id,
		     ibv_wc_status_str(wc->status), n);
	if (is_read(n))
		check(p.buf + n % (2 * UNDER_WAY) * LEN, LEN, 1000000 + n % 64, "what was read");
}

/* Checks receive @n, of message @msg. */
static void received(const struct ibv_wc *wc, uint32_t n, uint32_t msg)
{
	uint32_t grh = p.type == IBV_QPT_UD ? GRH : 0;

	if (wc->status || wc->wr_id != n || wc->byte_len != LEN + grh)
		fail("receive of %llu, %s, %u bytes, with %u before",
		     (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->byte_len, n);
	check(p.buf + THERE + n % SLOTS * (LEN + GRH) + grh, LEN, msg, "message");
}

/* The message for receive @n: all but READs. */
static uint32_t msg_of(uint32_t n)
{
	return p.type == IBV_QPT_RC ? n / 3 * 4 + n % 3 : n;
}

static uint32_t traffic(void)
{
	uint32_t sent = 0, done = 0, msgs = 0, total = MESSAGES;
	pthread_t t[2];
	int n, rc;

	for (uint32_t i = 0; i < 64; i++)
		fill(p.buf + SOURCE + i * LEN, LEN, 1000000 + i);
	if (pthread_create(&t[0], NULL, poster, NULL) || pthread_create(&t[1], NULL, resizer, NULL))
		fail("thread");
	for (int64_t end = ms_now() + 60000; atomic_load(&got) < msgs || done < total;) {
		struct ibv_wc wc[16];

		while (sent < total && sent - done < UNDER_WAY &&
		       (is_read(sent) || msgs < atomic_load(&posted))) {
			rc = send_one(sent, 0);
			if (rc == ENOMEM)
				break;
			if (rc)
				fail("ibv_post_send: %s", strerror(rc));
			msgs += !is_read(sent++);
		}
		n = ibv_poll_cq(p.rcq, 16, wc);
		for (int i = 0; i < n; i++) {
			received(&wc[i], atomic_load(&got), msg_of(atomic_load(&got)));
			atomic_fetch_add(&got, 1);
		}
		if (n < 0 || ms_now() > end)
			fail("after %u of %u and %u, %u posted: %d", done, sent, atomic_load(&got),
			     atomic_load(&posted), n);
		n = ibv_poll_cq(p.scq, 16, wc);
		for (int i = 0; i < n; i++)
			sent_one(&wc[i], done++);
		/* until there were some sizes, even with a slow kernel */
		if (done == total && atomic_load(&got) == msgs && atomic_load(&resized) < SIZES)
			total += MESSAGES / 10;
	}
	atomic_store(&over, true);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	printf("resized %u times under %u messages, %u times too small\n", atomic_load(&resized),
	       total, atomic_load(&too_small));
	return done;
}

/* @qp refuses, and stays unchanged. */
static void refuse(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what)
{
	struct ibv_qp_cap before = cap_of(qp), after;
	int rc = ibv_modify_qp(qp, attr, mask);

	if (rc != EINVAL)
		fail("%s: %s", what, strerror(rc));
	after = cap_of(qp);
	if (memcmp(&before, &after, sizeof(after)))
		fail("%s: refused, and not as before", what);
}

static void refused(struct ibv_qp *qp, bool has_rq)
{
	struct ibv_qp_attr good = { .cap = cap_of(qp), .qp_state = qp->state }, a;

	a = good;
	a.cap.max_send_wr = (uint32_t)dev.max_qp_wr + 1;
	refuse(qp, &a, IBV_QP_CAP, "one send more than the limit");
	a.cap.max_send_wr = UINT32_MAX;
	refuse(qp, &a, IBV_QP_CAP, "sends without end");
	a = good;
	a.cap.max_recv_wr = (uint32_t)dev.max_qp_wr + 1;
	refuse(qp, &a, IBV_QP_CAP, "one receive more than the limit");
	a = good;
	a.cap.max_send_sge++;
	refuse(qp, &a, IBV_QP_CAP, "another max_send_sge");
	a = good;
	a.cap.max_recv_sge++;
	if (has_rq)
		refuse(qp, &a, IBV_QP_CAP, "another max_recv_sge");
	a = good;
	a.cap.max_inline_data++;
	refuse(qp, &a, IBV_QP_CAP, "another max_inline_data");
	refuse(qp, &good, IBV_QP_CAP | IBV_QP_STATE, "a state along with it");
	refuse(qp, &good, IBV_QP_CAP | IBV_QP_MIN_RNR_TIMER, "an attribute along with it");
}

/* A command to the driver that bypasses the provider. Return: an errno. */
static int raw(struct ibv_qp *qp, uint32_t mask, const struct ohca_modify_qp_req *req, size_t len)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_modify_qp cmd;
		uint8_t drv[64];
	} b = {
		.hdr.command = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP,
		.hdr.in_words = sizeof(b.cmd) / 8,
		.ex.provider_in_words = (uint16_t)(len / 8),
		.cmd.base = { .qp_handle = qp->handle, .attr_mask = mask },
	};
	ssize_t want = (ssize_t)(sizeof(b) - sizeof(b.drv) + len);
	ssize_t n;

	memcpy(b.drv, req, len < sizeof(*req) ? len : sizeof(*req));
	if (len > sizeof(*req))
		b.drv[sizeof(*req)] = 1;
	n = write(p.ctx->cmd_fd, &b, (size_t)want);
	return n == want ? 0 : n < 0 ? errno : EIO;
}

/* Invalid lengths, addresses and sizes from a process have no effect. */
static void hostile(struct ibv_qp *qp)
{
	struct ibv_qp_cap before = cap_of(qp), after;
	const size_t len = sizeof(struct ohca_modify_qp_req), size = 1 << 20;
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *ro = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ohca_modify_qp_req good = {
		.log_sq = 9, .log_rq = 8, .buf_addr = (uintptr_t)mem, .buf_size = size,
		.max_send_wr = 64, .max_recv_wr = 64,
	}, r;

	if (mem == MAP_FAILED || ro == MAP_FAILED)
		fail("mmap");
#define BAD(field, value, error) do {						\
	r = good;								\
	r.field = (value);							\
	int rc_ = raw(qp, IBV_QP_CAP, &r, len);					\
	if (rc_ != (error))							\
		fail(#field " %llx: %s", (unsigned long long)(value), strerror(rc_));	\
} while (0)
	BAD(comp_mask, 1u, EOPNOTSUPP);
	BAD(reserved, 1u, EOPNOTSUPP);
	BAD(log_sq, 255u, EINVAL);
	BAD(log_sq, 5u, EINVAL);
	BAD(log_rq, 255u, EINVAL);
	BAD(log_rq, 5u, EINVAL);
	BAD(max_send_wr, UINT32_MAX, EINVAL);
	BAD(max_send_wr, (uint32_t)dev.max_qp_wr + 1, EINVAL);
	BAD(max_recv_wr, UINT32_MAX, EINVAL);
	BAD(buf_size, 0u, EINVAL);
	BAD(buf_size, 4096u, EINVAL);
	BAD(buf_addr, (uintptr_t)mem + 64, EINVAL);
	BAD(buf_addr, 0u, EFAULT);
	BAD(buf_addr, (uintptr_t)ro, EFAULT);
	BAD(buf_addr, 0x7ffffffff000ull - 4096, EFAULT);
	BAD(buf_addr, UINT64_MAX - 4095, EINVAL);
#undef BAD
	/* omitted fields are zero */
	for (size_t n = 0; n < offsetof(struct ohca_modify_qp_req, max_send_wr); n += 8)
		if (raw(qp, IBV_QP_CAP, &good, n) != EINVAL)
			fail("%zu of %zu bytes are not refused", n, len);
	if (raw(qp, IBV_QP_CAP, &good, len + 8) != EOPNOTSUPP)
		fail("bytes that nobody knows are not refused");
	if (raw(qp, IBV_QP_CAP | IBV_QP_STATE, &good, len) != EINVAL)
		fail("other attributes are not refused");
	if (raw(qp, IBV_QP_CAP, &good, 0) != EINVAL)
		fail("nothing is not refused");
	after = cap_of(qp);
	if (memcmp(&before, &after, sizeof(after)))
		fail("what was refused has changed the QP");
	munmap(mem, size);
	munmap(ro, size);
}

/*
 * Up to MOST receives become outstanding; @n messages were sent before, and @r receives completed.
 */
static void fill_up(uint32_t n, uint32_t r)
{
	struct ibv_qp_cap cap;
	struct ibv_wc wc;
	uint32_t end = atomic_load(&posted);
	int rc;

	rc = resize(p.qp, 100, MOST);
	if (rc)
		fail("to %u: %s", MOST, strerror(rc));
	cap = cap_of(p.qp);
	for (; end - r < cap.max_recv_wr; end++)
		if (post_recv(end))
			fail("receive %u of %u is refused", end - r, cap.max_recv_wr);
	if (end - r > cap.max_recv_wr || post_recv(end) != ENOMEM)
		fail("more than %u receives are taken", cap.max_recv_wr);
	if (resize(p.qp, 100, cap.max_recv_wr / 2) != EINVAL)
		fail("%u receives go into %u", end - r, cap.max_recv_wr / 2);
	rc = resize(p.qp, (uint32_t)dev.max_qp_wr, (uint32_t)dev.max_qp_wr);
	if (rc)
		fail("to %d: %s", dev.max_qp_wr, strerror(rc));
	/* one after another: they complete in the order of posting */
	for (; r != end; n++) {
		if (send_one(n, 0) || !wc_get(p.scq, &wc, 20000))
			fail("message %u", n);
		sent_one(&wc, n);
		if (is_read(n))
			continue;
		if (!wc_get(p.rcq, &wc, 20000))
			fail("receive %u of %u is lost", r, end);
		received(&wc, r, n);
		r++;
		if (r % 16 == 0 && resize(p.qp, 1 + r % 100, end - r + 1))
			fail("with %u outstanding", end - r);
	}
	atomic_store(&posted, end);
	if (resize(p.qp, 1, 1))
		fail("empty queues do not become short");
}

/* One message at a time, through every size and with @held receives outstanding. */
static void small_steps(bool has_rq, uint32_t srqn, uint32_t messages)
{
	uint32_t end = 0, held = 5;
	struct ibv_wc wc;
	int rc;

	for (uint32_t n = 0; n < messages; n++) {
		for (; end - n < held; end++)
			if (post_recv(end))
				fail("a receive is refused");
		if (has_rq && resize(p.qp, 1 + n * 37 % 400, 4) != EINVAL)
			fail("%u receives go into 4", end - n);
		/* without a receive queue this size is ignored */
		rc = resize(p.qp, 1 + n * 37 % 400, 5 + n * 17 % 300);
		if (rc)
			fail("size %u: %s", n, strerror(rc));
		if (send_one(n, srqn) || !wc_get(p.scq, &wc, 20000))
			fail("message %u", n);
		sent_one(&wc, n);
		if (!wc_get(p.rcq, &wc, 20000))
			fail("receive %u is lost", n);
		received(&wc, n, n);
	}
}

static void close_qp(void)
{
	struct ibv_srq *srq = p.qp->srq;

	if (ibv_destroy_qp(p.qp) || (srq && ibv_destroy_srq(srq)))
		fail("destroy");
	p.qp = NULL;
	peer_close(&p);
}

static void rc(void)
{
	uint32_t n;

	peer_open(&p, IBV_QPT_RC);
	/* also before it is connected */
	if (resize(p.qp, 7, 300))
		fail("in INIT");
	peer_connect(&p);
	n = traffic();
	refused(p.qp, true);
	hostile(p.qp);
	fill_up(n, atomic_load(&got));
	qp_to_err(p.qp);
	if (resize(p.qp, 33, 3))
		fail("in the error state");
	close_qp();
}

static void ud(void)
{
	peer_open(&p, IBV_QPT_UD);
	peer_connect(&p);
	small_steps(true, 0, 300);
	refused(p.qp, true);
	close_qp();
}

static void with_srq(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 32, .max_sge = 1 } };
	struct ibv_qp_init_attr qa = { .qp_type = IBV_QPT_UC,
				       .cap = { .max_send_wr = 4, .max_send_sge = 3 } };

	peer_open(&p, IBV_QPT_UC);
	ibv_destroy_qp(p.qp);
	qa.srq = ibv_create_srq(p.pd, &sa);
	if (!qa.srq)
		fail("ibv_create_srq: %s", strerror(errno));
	qa.send_cq = p.scq;
	qa.recv_cq = p.rcq;
	p.qp = peer_qp_of(&p, p.pd, &qa);
	peer_connect(&p);
	small_steps(false, 0, 200);
	if (cap_of(p.qp).max_recv_wr)
		fail("a QP with an SRQ has a receive queue");
	refused(p.qp, false);
	close_qp();
}

/* An initiator has no receive queue, a target has no queues. */
static void xrc(void)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex sa = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_XRCD,
		.srq_type = IBV_SRQT_XRC, .attr = { .max_wr = 32, .max_sge = 1 },
	};
	struct ibv_qp_init_attr_ex qa = { .qp_type = IBV_QPT_XRC_RECV,
					  .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr cap = { .cap = { .max_send_wr = 8 } };
	struct ibv_qp *ini, *tgt;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;

	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	ibv_destroy_qp(p.qp);
	xrcd = ibv_open_xrcd(p.ctx, &xa);
	sa.pd = p.pd;
	sa.cq = p.rcq;
	sa.xrcd = xrcd;
	srq = xrcd ? ibv_create_srq_ex(p.ctx, &sa) : NULL;
	qa.xrcd = xrcd;
	tgt = srq ? ibv_create_qp_ex(p.ctx, &qa) : NULL;
	qa = (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = p.pd,
		.send_cq = p.scq, .cap = { .max_send_wr = 4, .max_send_sge = 2 },
	};
	ini = tgt ? ibv_create_qp_ex(p.ctx, &qa) : NULL;
	if (!ini || ibv_get_srq_num(srq, &srqn))
		fail("XRC: %s", strerror(errno));
	if (ibv_modify_qp(tgt, &cap, IBV_QP_CAP) != EINVAL)
		fail("a target has queues");
	if (ibv_modify_qp(tgt, &init, mask) || ibv_modify_qp(ini, &init, mask))
		fail("to INIT");
	p.you.qpn = ini->qp_num;
	peer_rts(&p, tgt, &p.you, 0);
	p.you.qpn = tgt->qp_num;
	p.you.psn = 0;
	peer_rts(&p, ini, &p.you, p.me.psn);
	/* receives are posted to its SRQ */
	ini->srq = srq;
	p.qp = ini;
	p.type = IBV_QPT_XRC_SEND;
	small_steps(false, srqn, 200);
	ini->srq = NULL;
	refused(ini, false);
	if (ibv_destroy_qp(ini) || ibv_destroy_qp(tgt) || ibv_destroy_srq(srq) ||
	    ibv_close_xrcd(xrcd))
		fail("destroy");
	p.qp = NULL;
	peer_close(&p);
}

void resize_main(const char *what)
{
	struct ibv_context *ctx = device_open();

	if (strcmp(what, "qp"))
		fail("no such test: %s", what);
	if (ibv_query_device(ctx, &dev) || !(dev.device_cap_flags & IBV_DEVICE_RESIZE_MAX_WR))
		fail("the device does not say that QPs can be resized");
	ibv_close_device(ctx);
	rc();
	ud();
	with_srq();
	xrc();
	printf("resize end\n");
}
