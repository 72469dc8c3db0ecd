// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An SRQ that is resized while one thread posts to it, another one sends to its QP, and a third one
 * resizes: no receive is lost, and the order stays. Also invalid requests, and SRQs of the other
 * types. The QP is connected to itself.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES	20000u
#define SIZES		40u
#define LEN		128u
#define SLOTS		256u	/* receive buffers, more than are ever posted */
#define THERE		(PEER_BUF / 2)
#define MOST		200u	/* receives outstanding */
#define UNDER_WAY	16u

static struct peer p = { .sock = -1 };
static struct ibv_srq *srq;
static struct ibv_device_attr dev;
static atomic_uint posted, got, resized, too_small;
static atomic_bool over;

static int post(struct ibv_srq *q, uint32_t i)
{
	struct ibv_sge sge = { (uintptr_t)p.buf + THERE + i % SLOTS * LEN, LEN, p.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(q, &wr, &bad);
}

/* Posts whenever there is room in the SRQ. */
static void *poster(void *arg)
{
	uint32_t i = 0;
	int rc;

	(void)arg;
	while (!atomic_load(&over)) {
		if (i - atomic_load(&got) >= MOST)
			continue;
		rc = post(srq, i);
		if (rc && rc != ENOMEM)
			fail("ibv_post_srq_recv: %s", strerror(rc));
		if (!rc)
			atomic_store(&posted, ++i);
	}
	return NULL;
}

static uint32_t size_of(struct ibv_srq *q)
{
	struct ibv_srq_attr attr;
	int rc = ibv_query_srq(q, &attr);

	if (rc)
		fail("ibv_query_srq: %s", strerror(rc));
	return attr.max_wr;
}

static int resize(struct ibv_srq *q, uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr };

	return ibv_modify_srq(q, &attr, IBV_SRQ_MAX_WR);
}

static void *resizer(void *arg)
{
	static const uint32_t sizes[] = { 128, 4096, 16, 300, 1, 65536, 64, 1000, 8, 256 };
	int rc;

	(void)arg;
	for (unsigned int i = 0; !atomic_load(&over); i++) {
		uint32_t want = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];

		rc = resize(srq, want);
		if (rc == EINVAL && want < MOST)
			atomic_fetch_add(&too_small, 1);
		else if (rc)
			fail("to %u: %s", want, strerror(rc));
		else if (size_of(srq) < want)
			fail("to %u: has %u", want, size_of(srq));
		else
			atomic_fetch_add(&resized, 1);
	}
	return NULL;
}

static void use_srq(void)
{
	/* a new SRQ has no limit, whatever srq_limit is */
	struct ibv_srq_init_attr sa = {
		.attr = { .max_wr = 32, .max_sge = 1, .srq_limit = UINT32_MAX },
	};
	struct ibv_qp_init_attr qa = {
		.send_cq = p.scq, .recv_cq = p.rcq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_send_sge = 1 },
	};
	struct ibv_port_attr port;
	struct peer_info me = { 0 };
	struct ibv_srq_attr now;

	srq = ibv_create_srq(p.pd, &sa);
	if (!srq || ibv_query_port(p.ctx, 1, &port))
		fail("ibv_create_srq: %s", strerror(errno));
	if (ibv_query_srq(srq, &now) || now.srq_limit)
		fail("a new SRQ has limit %u", now.srq_limit);
	ibv_destroy_qp(p.qp);
	qa.srq = srq;
	p.qp = peer_qp_of(&p, p.pd, &qa);
	me.lid = port.lid;
	me.qpn = p.qp->qp_num;
	p.you = me;
	peer_rts(&p, p.qp, &me, 0);
}

/* Message @n, from one of few slots and with its number first. */
static void send_one(uint32_t n)
{
	uint32_t off = n % (2 * UNDER_WAY) * LEN;

	fill(p.buf + off, LEN, n);
	send_post(&p, IBV_WR_SEND, n, off, LEN, 0);
}

static void received(const struct ibv_wc *wc, uint32_t n)
{
	if (wc->status || wc->wr_id != n || wc->byte_len != LEN)
		fail("receive of %llu, %s, %u bytes, with %u before",
		     (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->byte_len, n);
	check(p.buf + THERE + n % SLOTS * LEN, LEN, n, "message");
}

static void traffic(void)
{
	uint32_t sent = 0, done = 0, total = MESSAGES;
	pthread_t t[2];
	int n;

	if (pthread_create(&t[0], NULL, poster, NULL) || pthread_create(&t[1], NULL, resizer, NULL))
		fail("thread");
	for (int64_t end = ms_now() + 80000; atomic_load(&got) < total || done < total;) {
		struct ibv_wc wc[16];

		while (sent < total && sent < atomic_load(&posted) &&
		       sent - atomic_load(&got) < UNDER_WAY && sent - done < UNDER_WAY)
			send_one(sent++);
		n = ibv_poll_cq(p.rcq, 16, wc);
		for (int i = 0; i < n; i++) {
			received(&wc[i], atomic_load(&got));
			atomic_fetch_add(&got, 1);
		}
		if (n < 0 || ms_now() > end)
			fail("after %u of %u, %u posted: %d", atomic_load(&got), sent,
			     atomic_load(&posted), n);
		n = ibv_poll_cq(p.scq, 16, wc);
		for (int i = 0; i < n; i++)
			if (wc[i].status || wc[i].wr_id != done++)
				fail("send of %llu: %s", (unsigned long long)wc[i].wr_id,
				     ibv_wc_status_str(wc[i].status));
		/* until there were some sizes, even with a slow kernel */
		if (done == total && atomic_load(&got) == total && atomic_load(&resized) < SIZES)
			total += MESSAGES / 10;
	}
	atomic_store(&over, true);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	printf("resized %u times under %u messages, %u times too small\n", atomic_load(&resized),
	       total, atomic_load(&too_small));
}

/* All posted receives from @first on are outstanding. */
static void refused(uint32_t first)
{
	struct ibv_srq_attr attr = { 0 };
	uint32_t n, end = atomic_load(&posted);
	struct ibv_wc wc;
	int rc;

	rc = resize(srq, 1024);
	if (rc || size_of(srq) != 1024)
		fail("to 1024: %s", strerror(rc));
	for (; end - first < 40; end++)
		if (post(srq, end))
			fail("a receive is refused");
	if (resize(srq, 0) != EINVAL || resize(srq, (uint32_t)dev.max_srq_wr + 1) != EINVAL)
		fail("sizes that cannot be are not refused with EINVAL");
	if (resize(srq, 32) != EINVAL)
		fail("%u receives go into 32", end - first);
	attr.max_wr = 512;
	attr.srq_limit = 513;
	if (ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != EINVAL)
		fail("a limit past the size is not refused");
	if (size_of(srq) != 1024)
		fail("what was refused made it %u", size_of(srq));
	/* the limit in the same call; and the receive that passes it */
	attr.srq_limit = end - first;
	rc = ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	if (rc || ibv_query_srq(srq, &attr) || attr.max_wr != 512 || attr.srq_limit != end - first)
		fail("size and limit: %s, %u, %u", strerror(rc), attr.max_wr, attr.srq_limit);
	/* the limit stays when only the size changes */
	rc = resize(srq, (uint32_t)dev.max_srq_wr);
	if (rc || ibv_query_srq(srq, &attr) || attr.srq_limit != end - first)
		fail("limit: %s, %u", strerror(rc), attr.srq_limit);
	for (n = first; n != end; n++) {
		send_one(n);
		if (!wc_get(p.rcq, &wc, 20000))
			fail("receive %u of %u is lost", n - first, end - first);
		received(&wc, n);
		if (!wc_get(p.scq, &wc, 20000) || wc.status)
			fail("send %u", n);
		if (n == first)
			event_expect(p.ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	}
	/* an empty SRQ can have any size */
	if (resize(srq, 1) || size_of(srq) != 1)
		fail("an empty SRQ does not go into 1");
}

/* XRC SRQs and SRQs with tags can be resized, too; other tests send messages to them. */
static void other_types(void)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex sa = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ,
		.pd = p.pd, .cq = p.rcq, .tm_cap = { .max_num_tags = 8, .max_ops = 8 },
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(p.ctx, &xa);

	if (!xrcd)
		fail("ibv_open_xrcd: %s", strerror(errno));
	sa.xrcd = xrcd;
	for (unsigned int tm = 0; tm < 2; tm++) {
		struct ibv_srq_init_attr_ex a = sa;
		struct ibv_srq *q;

		a.attr = (struct ibv_srq_attr){ .max_wr = 8, .max_sge = 1 };
		a.srq_type = tm ? IBV_SRQT_TM : IBV_SRQT_XRC;
		a.comp_mask |= tm ? IBV_SRQ_INIT_ATTR_TM : IBV_SRQ_INIT_ATTR_XRCD;
		q = ibv_create_srq_ex(p.ctx, &a);
		if (!q)
			fail("ibv_create_srq_ex: %s", strerror(errno));
		for (uint32_t i = 0; i < 8; i++)
			if (post(q, i))
				fail("a receive is refused");
		if (post(q, 8) != ENOMEM || resize(q, 4) != EINVAL || resize(q, 100) ||
		    size_of(q) != 128)
			fail("an SRQ of type %u of 8: now %u", a.srq_type, size_of(q));
		for (uint32_t i = 8; i < 128; i++)
			if (post(q, i))
				fail("receive %u is refused", i);
		if (post(q, 128) != ENOMEM)
			fail("a receive too many is not refused");
		if (ibv_destroy_srq(q))
			fail("ibv_destroy_srq: %s", strerror(errno));
	}
	if (ibv_close_xrcd(xrcd))
		fail("ibv_close_xrcd: %s", strerror(errno));
}

void srq_main(const char *what)
{
	if (strcmp(what, "resize"))
		fail("no such test: %s", what);
	peer_open(&p, IBV_QPT_RC);
	if (ibv_query_device(p.ctx, &dev) || !(dev.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
		fail("the device does not say that SRQs can be resized");
	use_srq();
	traffic();
	refused(atomic_load(&got));
	other_types();
	if (ibv_destroy_qp(p.qp) || ibv_destroy_srq(srq))
		fail("destroy");
	p.qp = NULL;
	peer_close(&p);
	printf("srq end\n");
}
