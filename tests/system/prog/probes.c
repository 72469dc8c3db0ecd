// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Queries of a device by transports for collectives, with the results of real adapters: DMA-BUFs by
 * an invalid descriptor, the speed of a port, regions with a chosen address and relaxed ordering,
 * enhanced connections (ECE), and the order of a port's events.
 */
#include "peer.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_DEVICES	16

static void dmabuf_refused(struct ibv_pd *pd, size_t len, int fd, int why)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, 0, len, 0, fd, 0);
	if (mr || errno != why)
		fail("a DMA-BUF of %zu bytes by descriptor %d: %s instead of %s", len, fd,
		     mr ? "a region" : strerror(errno), strerror(why));
}

/* EOPNOTSUPP and EPROTONOSUPPORT would mean that the device does not support DMA-BUFs. */
static void dmabuf(struct peer *p)
{
	int fd = open("/dev/null", O_RDWR);

	dmabuf_refused(p->pd, 0, -1, EBADF);
	dmabuf_refused(p->pd, 4096, -1, EBADF);
	dmabuf_refused(p->pd, 0, fd, EINVAL);
	dmabuf_refused(p->pd, 4096, fd, EINVAL);
	close(fd);
	printf("no descriptor: EBADF\n");
}

/* Speed in units of 100 Mb/s, from the port's attributes; volume 1, 14.2.5.6. */
static uint64_t speed_of(const struct ibv_port_attr *a)
{
	static const struct {
		unsigned int code, speed;
	} lane[] = {
		{ 1, 25 }, { 2, 50 }, { 4, 100 }, { 8, 100 }, { 16, 140 }, { 32, 250 }, { 64, 500 },
		{ 128, 1000 }, { 256, 2000 },
	}, width[] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };
	unsigned int code = a->active_speed_ex ? a->active_speed_ex : a->active_speed;
	uint64_t speed = 0, lanes = 0;

	for (size_t i = 0; i < sizeof(lane) / sizeof(*lane); i++)
		if (lane[i].code == code)
			speed = lane[i].speed;
	for (size_t i = 0; i < sizeof(width) / sizeof(*width); i++)
		if (width[i].code == a->active_width)
			lanes = width[i].speed;
	if (!speed || !lanes)
		fail("a port of speed %u and width %u", code, a->active_width);
	return speed * lanes;
}

/*
 * rdma-core has the verb since 62, Linux since 7.0; older versions compute it from the attributes.
 */
static void speed(struct peer *p)
{
	int (*query)(struct ibv_context *ctx, uint32_t port, uint64_t *speed);
	struct ibv_port_attr port;
	uint64_t got = 0, want;
	char path[128];
	double rate;
	FILE *f;
	int rc;

	if (ibv_query_port(p->ctx, 1, &port))
		fail("ibv_query_port");
	want = speed_of(&port);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/rate",
		 ibv_get_device_name(p->ctx->device));
	f = fopen(path, "r");
	if (!f || fscanf(f, "%lf", &rate) != 1 || (uint64_t)(rate * 10) != want)
		fail("%s is not %llu", path, (unsigned long long)want);
	fclose(f);
	*(void **)&query = dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
	if (!query) {
		printf("%llu by attributes\n", (unsigned long long)want);
		return;
	}
	rc = query(p->ctx, 1, &got);
	if (rc && rc != EOPNOTSUPP)
		fail("ibv_query_port_speed: %s", strerror(rc));
	if (!rc && got != want)
		fail("ibv_query_port_speed: %llu instead of %llu", (unsigned long long)got,
		     (unsigned long long)want);
	if (!query(p->ctx, 77, &got))
		fail("port 77 has a speed");
	printf("%llu by %s\n", (unsigned long long)want,
	       rc ? "attributes" : "ibv_query_port_speed");
}

/* WRITE and READ at an address outside of the process. */
static void iova2(struct peer *p)
{
	const uint64_t iova = 0x123456780000ull;
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
	struct ibv_mr *mr = ibv_reg_mr_iova2(p->pd, p->buf2, PEER_BUF, iova, access);

	if (!mr)
		fail("ibv_reg_mr_iova2 with relaxed ordering: %s", strerror(errno));
	if (mr->rkey == p->mr->rkey)
		fail("two regions with one R_Key");
	peer_connect(p);
	p->you.addr = iova;
	p->you.rkey = mr->rkey;
	fill(p->buf, 100000, 1);
	send_post(p, IBV_WR_RDMA_WRITE, 1, 0, 100000, 77);
	wc_expect(p->scq, 1, IBV_WC_SUCCESS, "WRITE to an address of its own");
	check(p->buf2 + 77, 100000, 1, "WRITE to an address of its own");
	send_post(p, IBV_WR_RDMA_READ, 2, PEER_BUF / 2, 100000, 77);
	wc_expect(p->scq, 2, IBV_WC_SUCCESS, "READ from an address of its own");
	check(p->buf + PEER_BUF / 2, 100000, 1, "READ from an address of its own");
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr");
	printf("an address of its own, relaxed ordering\n");
}

/* A device without enhancements reports that, and its connections work as before. */
static void ece(struct peer *p)
{
	struct ibv_ece e = { .vendor_id = 0x1111, .options = 0x2222, .comp_mask = 0 };
	int rc = ibv_query_ece(p->qp, &e);

	if (rc != EOPNOTSUPP)
		fail("ibv_query_ece: %s instead of %s", strerror(rc), strerror(EOPNOTSUPP));
	if (e.vendor_id != 0x1111 || e.options != 0x2222)
		fail("ibv_query_ece failed, and wrote");
	rc = ibv_set_ece(p->qp, &e);
	if (rc != EOPNOTSUPP)
		fail("ibv_set_ece: %s instead of %s", strerror(rc), strerror(EOPNOTSUPP));
	e.vendor_id = 0;
	rc = ibv_set_ece(p->qp, &e);
	if (rc != EOPNOTSUPP)
		fail("ibv_set_ece of none: %s instead of %s", strerror(rc), strerror(EOPNOTSUPP));
	peer_connect(p);
	recv_post(p, 1, 4096, 64);
	fill(p->buf, 64, 2);
	send_post(p, IBV_WR_SEND, 2, 0, 64, 0);
	wc_expect(p->scq, 2, IBV_WC_SUCCESS, "SEND");
	wc_expect(p->rcq, 1, IBV_WC_SUCCESS, "SEND");
	check(p->buf + 4096, 64, 2, "SEND");
	printf("no ECE\n");
}

/*
 * Prints each event of each device with the port's state from ibv_query_port(), until the process
 * is killed.
 */
static void events(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx[MOST_DEVICES];
	struct pollfd f[MOST_DEVICES];
	struct ibv_async_event ev;
	struct ibv_port_attr port;
	nfds_t n = 0;

	alarm(0);
	for (; list && list[n] && n < MOST_DEVICES; n++) {
		ctx[n] = ibv_open_device(list[n]);
		if (!ctx[n])
			fail("ibv_open_device: %s", strerror(errno));
		f[n] = (struct pollfd) { .fd = ctx[n]->async_fd, .events = POLLIN };
	}
	printf("watching %d devices\n", (int)n);
	while (n && poll(f, n, -1) > 0) {
		for (nfds_t i = 0; i < n; i++) {
			if (!(f[i].revents & POLLIN) || ibv_get_async_event(ctx[i], &ev))
				continue;
			if (ibv_query_port(ctx[i], 1, &port))
				fail("ibv_query_port");
			printf("%s: %s, state %d\n", ibv_get_device_name(list[i]),
			       ibv_event_type_str(ev.event_type), (int)port.state);
			ibv_ack_async_event(&ev);
		}
	}
}

/* The GID of the peer's port; TCP carries it in words of the host's order. */
static union ibv_gid peer_gid(struct peer *p)
{
	uint64_t mine[2], theirs[2];
	union ibv_gid gid;

	if (ibv_query_gid(p->ctx, 1, 0, &gid))
		fail("ibv_query_gid: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		memcpy(&mine[i], gid.raw + 8 * i, 8);
		mine[i] = be64toh(mine[i]);
	}
	tcp_swap(p, mine, theirs, sizeof(mine));
	for (int i = 0; i < 2; i++) {
		theirs[i] = htobe64(theirs[i]);
		memcpy(gid.raw + 8 * i, &theirs[i], 8);
	}
	return gid;
}

/*
 * Connects by the peer's GID and DLID 0, as programs for RoCE do: no packet arrives. Then connects
 * with the LID to the same QP.
 */
void roce_main(struct peer *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .timeout = 12, .retry_cnt = 3, .rnr_retry = 7,
		.max_rd_atomic = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } },
	};
	struct ibv_qp *with_lid;

	p->timeout = PEER_TIMEOUT;
	p->retry_cnt = 7;
	p->rnr_retry = 7;
	p->min_rnr_timer = 12;
	peer_open(p, IBV_QPT_RC);
	peer_connect(p);
	a.ah_attr.grh.dgid = peer_gid(p);
	if (p->client) {
		with_lid = p->qp;
		p->qp = peer_qp(p, p->pd);
		a.dest_qp_num = (uint32_t)p->you.qpn;
		a.rq_psn = (uint32_t)p->you.psn;
		a.sq_psn = (uint32_t)p->me.psn;
		if (ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
			fail("no RTR with DLID 0");
		a.qp_state = IBV_QPS_RTS;
		if (ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
			fail("no RTS with DLID 0");
		send_post(p, IBV_WR_RDMA_WRITE, 1, 0, 64, 0);
		wc_expect(p->scq, 1, IBV_WC_RETRY_EXC_ERR, "WRITE with DLID 0");
		if (ibv_destroy_qp(p->qp))
			fail("ibv_destroy_qp");
		p->qp = with_lid;
		send_post(p, IBV_WR_RDMA_WRITE, 2, 0, 64, 0);
		wc_expect(p->scq, 2, IBV_WC_SUCCESS, "WRITE with the LID");
	}
	sync_at(p, 1);
	peer_close(p);
	printf("DLID 0: retry exceeded\n");
}

void probe_main(struct peer *p, const char *what)
{
	if (!strcmp(what, "events")) {
		events();
		return;
	}
	peer_open(p, IBV_QPT_RC);
	if (!strcmp(what, "dmabuf"))
		dmabuf(p);
	else if (!strcmp(what, "speed"))
		speed(p);
	else if (!strcmp(what, "iova2"))
		iova2(p);
	else if (!strcmp(what, "ece"))
		ece(p);
	else
		fail("no such probe: %s", what);
	peer_close(p);
}
