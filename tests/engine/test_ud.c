/* SPDX-License-Identifier: GPL-2.0-or-later */
/* UD and multicast. */
#include "engine/base/limits.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/object/mcast.h"
#include "ib/packet.h"
#include "rig.h"

static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0,
				  0xff, 0xff, 0xff, 0xff };

static struct rig_opt ud(void)
{
	return (struct rig_opt){ .type = OHCA_QPT_UD };
}

static void test_sizes(void **state)
{
	struct rig r;
	struct ohca_hw_cqe c;
	uint8_t *guard;

	(void)state;
	rig_up(&r, ud());
	for (uint32_t len = 0; len <= 4096; len = len * 2 + 1) {
		rig_fill(&r, 0, 3, len, len);
		rig_recv(&r, 1, 1, 0, len + 41);
		guard = host_buf_ptr(r.h[1], &r.mr[1].buf, 40 + len);
		*guard = 0x5a;
		rig_send(&r, 0, 2, 3, len);
		rig_run(&r);
		wc(&r.scq[0], 2, WC_SUCCESS);
		c = wc(&r.rcq[1], 1, WC_SUCCESS);
		assert_int_equal(c.byte_len, len + 40);
		assert_int_equal(c.opcode, 128);
		assert_int_equal(c.wc_flags, 0);
		assert_int_equal(c.src_qp, r.qp[0].qpn);
		assert_int_equal(c.slid, 1);
		rig_check(&r, 1, 40, len, len);
		assert_int_equal(*guard, 0x5a);
	}
	rig_down(&r);
}

static struct ohca_hw_av av_to(struct rig *r, unsigned int i)
{
	return (struct ohca_hw_av){
		.dlid = r->opt.loop ? 1 : (uint16_t)(2 - i),
		.dqpn = r->qp[1 - i].qpn,
		.qkey = RIG_QKEY,
	};
}

static void send_av(struct rig *r, unsigned int i, uint64_t wr_id, const struct ohca_hw_av *av,
		    uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_SEND_IMM, OHCA_WQE_SIGNALED | OHCA_WQE_SOLICITED, wr_id);

	wqe_imm(&w, 0x11223344);
	memcpy(w.b + 16, av, sizeof(*av));
	w.nseg = 4;
	wqe_sge(&w, r->mr[i].iova, len, r->mr[i].key);
	wqe_post(&r->qp[i], &w);
}

static void gid_of(struct host *h, uint8_t gid[16])
{
	static const uint8_t prefix[8] = { 0xfe, 0x80 };

	memcpy(gid, prefix, 8);
	ib_put_be64(gid + 8, h->cfg.node_guid + 1);
}

static void test_grh(void **state)
{
	struct rig r;
	struct ohca_hw_av av;
	struct ohca_hw_cqe c;
	struct ib_grh grh;
	uint8_t gid[2][16];

	(void)state;
	rig_up(&r, ud());
	gid_of(r.h[0], gid[0]);
	gid_of(r.h[1], gid[1]);
	av = av_to(&r, 0);
	av.flags = OHCA_AV_GRH;
	av.hop_limit = 7;
	av.sl = 3;
	av.flow_tclass = 0xab << 20 | 0x12345;
	memcpy(av.dgid, gid[1], 16);
	rig_fill(&r, 0, 0, 100, 1);
	rig_recv(&r, 1, 1, 0, 140);
	send_av(&r, 0, 2, &av, 100);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	c = wc(&r.rcq[1], 1, WC_SUCCESS);
	assert_int_equal(c.wc_flags, 3);
	assert_int_equal(c.imm, 0x11223344);
	assert_int_equal(c.sl, 3);
	rig_check(&r, 1, 40, 100, 1);
	host_buf_read(r.h[1], &r.mr[1].buf, 0, &grh, 40);
	assert_int_equal(ib_be32(grh.ver_tc_flow), 0x6ab12345);
	assert_int_equal(grh.hoplimit, 7);
	assert_int_equal(grh.nxthdr, 0x1b);
	assert_int_equal(ib_be16(grh.paylen), 12 + 8 + 4 + 100 + 4);
	assert_memory_equal(grh.sgid, gid[0], 16);
	assert_memory_equal(grh.dgid, gid[1], 16);
	rig_down(&r);
}

/* The DGID must be one of the port's, or one that every port has with the default prefix. */
static void test_dgid(void **state)
{
	static const uint8_t subnet[8] = { 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1 };
	static const struct {
		unsigned int off;	/* byte of the DGID that is changed */
		uint8_t x;
		bool ok;
	} dgid[] = {
		{ 0, 0, true }, { 15, 1, false }, { 8, 0x80, false }, { 7, 1, false },
		{ 0, 0xdf, false },	/* multicast */
	};
	struct ohca_hw_av av;
	unsigned int bad;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 4; k++) {
		struct rig_opt o = ud();
		struct ohca_port *port;

		o.loop = k & 1;
		rig_up(&r, o);
		port = &r.h[1]->e->port[0];
		av = av_to(&r, 0);
		av.flags = OHCA_AV_GRH;
		bad = 0;
		for (unsigned int i = 0; i < sizeof(dgid) / sizeof(dgid[0]); i++) {
			gid_of(r.h[1], av.dgid);
			if (k & 2) {
				/* the SM has given the subnet a prefix */
				memcpy(port->gid[0], subnet, 8);
				if (i & 1)
					memcpy(av.dgid, subnet, 8);
			}
			av.dgid[dgid[i].off] ^= dgid[i].x;
			rig_recv(&r, 1, i, 0, 200);
			send_av(&r, 0, 9, &av, 100);
			rig_run(&r);
			wc(&r.scq[0], 9, WC_SUCCESS);
			if (dgid[i].ok) {
				wc(&r.rcq[1], i, WC_SUCCESS);
				continue;
			}
			no_wc(&r.rcq[1]);
			assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), ++bad);
			/* the next datagram uses the WQE */
			rig_send(&r, 0, 8, 0, 10);
			rig_run(&r);
			wc(&r.scq[0], 8, WC_SUCCESS);
			wc(&r.rcq[1], i, WC_SUCCESS);
		}
		/* with the subnet's own prefix */
		memcpy(av.dgid, port->gid[0], 16);
		rig_recv(&r, 1, 7, 0, 200);
		send_av(&r, 0, 9, &av, 100);
		rig_run(&r);
		wc(&r.scq[0], 9, WC_SUCCESS);
		wc(&r.rcq[1], 7, WC_SUCCESS);
		rig_down(&r);
	}
}

/* Reasons for which a datagram is dropped, without an error for the sender. */
static void test_drops(void **state)
{
	struct rig r;
	struct ohca_hw_av av;

	(void)state;
	rig_up(&r, ud());
	rig_recv(&r, 1, 1, 0, 4096);
	av = av_to(&r, 0);
	av.qkey++;
	send_av(&r, 0, 2, &av, 100);
	av.qkey--;
	av.dqpn = 77;
	send_av(&r, 0, 3, &av, 100);
	av.dqpn = r.qp[1].qpn;
	av.dlid = 9;
	send_av(&r, 0, 4, &av, 100);
	/* with the GID of the peer, as for RoCE: only the LID determines where a packet goes */
	av.dlid = 0;
	av.flags = OHCA_AV_GRH;
	gid_of(r.h[1], av.dgid);
	send_av(&r, 0, 7, &av, 100);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.scq[0], 3, WC_SUCCESS);
	wc(&r.scq[0], 4, WC_SUCCESS);
	wc(&r.scq[0], 7, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), 2);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_QKEY), 1);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_QP), 1);
	/* the WQE is still there; after this one there is none */
	rig_send(&r, 0, 5, 0, 10);
	rig_send(&r, 0, 6, 0, 10);
	rig_run(&r);
	wc(&r.scq[0], 5, WC_SUCCESS);
	wc(&r.scq[0], 6, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_NO_WQE), 1);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
	rig_down(&r);
}

/* The first datagram before RTS causes one COMM_EST event. */
static void test_comm_est(void **state)
{
	struct ohca_hw_qp_attr a = { .state = OHCA_QPS_INIT, .port = 1, .qkey = RIG_QKEY };
	struct rig_opt o = ud();
	struct rig r;

	(void)state;
	o.cold = true;
	rig_up(&r, o);
	host_qp_datagram(&r.qp[0], 0, RIG_QKEY);
	assert_int_equal(host_qp_modify(&r.qp[1], OHCA_ATTR_STATE | OHCA_ATTR_PKEY_INDEX |
					OHCA_ATTR_PORT | OHCA_ATTR_QKEY, &a), 0);
	a.state = OHCA_QPS_RTR;
	assert_int_equal(host_qp_modify(&r.qp[1], OHCA_ATTR_STATE, &a), 0);
	no_event(r.h[1]);
	for (unsigned int i = 0; i < 2; i++) {
		rig_recv(&r, 1, 1, 0, 100);
		rig_send(&r, 0, 2, 0, 10);
		rig_run(&r);
		wc(&r.rcq[1], 1, WC_SUCCESS);
		if (i == 0)
			event(r.h[1], OHCA_EVENT_COMM_EST, r.qp[1].handle);
		no_event(r.h[1]);
	}
	rig_down(&r);
}

/* A WQE that does nothing, in its place among others. */
static void test_nop(void **state)
{
	struct wqe w = wqe_new(OHCA_OP_NOP, OHCA_WQE_SIGNALED, 2);
	uint64_t frames;
	struct rig r;

	(void)state;
	rig_up(&r, ud());
	frames = r.h[0]->port[0].frames;
	rig_send(&r, 0, 1, 0, 10);
	wqe_post(&r.qp[0], &w);
	rig_send(&r, 0, 3, 0, 10);
	rig_run(&r);
	for (unsigned int i = 1; i <= 3; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	no_wc(&r.scq[0]);
	assert_int_equal(r.h[0]->port[0].frames, frames + 2);
	rig_down(&r);
}

/* Only the path bits below LMC count (4.1.3). */
static void test_path_bits(void **state)
{
	static const struct {
		uint8_t lmc, bits;
		uint16_t slid;
	} cases[] = { { 0, 3, 8 }, { 0, 127, 8 }, { 2, 1, 9 }, { 2, 126, 10 }, { 7, 127, 0xff } };
	struct ohca_hw_av av;
	struct rig r;

	(void)state;
	rig_up(&r, ud());
	av = av_to(&r, 0);
	for (unsigned int k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		r.h[0]->e->port[0].lid = cases[k].lmc == 7 ? 0x80 : 8;
		r.h[0]->e->port[0].lmc = cases[k].lmc;
		av.src_path_bits = cases[k].bits;
		rig_recv(&r, 1, 1, 0, 140);
		send_av(&r, 0, 2, &av, 100);
		rig_run(&r);
		wc(&r.scq[0], 2, WC_SUCCESS);
		assert_int_equal(wc(&r.rcq[1], 1, WC_SUCCESS).slid, cases[k].slid);
	}
	rig_down(&r);
}

/* Local errors of the sender: SQE, flush, and back. */
static void test_sqe(void **state)
{
	struct ohca_hw_qp_attr to_rts = { .state = OHCA_QPS_RTS };
	struct rig r;
	struct ohca_hw_av av;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 5; k++) {
		static const uint8_t want[] = { WC_LOC_LEN, WC_LOC_PROT, WC_LOC_QP_OP, WC_LOC_QP_OP,
						WC_LOC_QP_OP };

		rig_up(&r, ud());
		av = av_to(&r, 0);
		switch (k) {
		case 0:		/* longer than the port's MTU */
			send_av(&r, 0, 1, &av, 4097);
			break;
		case 1:		/* no memory of ours */
			r.mr[0].key ^= 0x100;
			send_av(&r, 0, 1, &av, 100);
			r.mr[0].key ^= 0x100;
			break;
		case 2:		/* the permissive LID is for SMPs */
			av.dlid = 0xffff;
			send_av(&r, 0, 1, &av, 100);
			break;
		case 3:		/* no such GID */
			av.flags = OHCA_AV_GRH;
			av.sgid_index = 200;
			send_av(&r, 0, 1, &av, 100);
			break;
		default:	/* not an operation of UD */
			w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);
			wqe_raddr(&w, 0, 0);
			wqe_post(&r.qp[0], &w);
		}
		rig_send(&r, 0, 2, 0, 10);
		rig_run(&r);
		wc(&r.scq[0], 1, want[k]);
		wc(&r.scq[0], 2, WC_WR_FLUSH);
		assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_SQE);
		/* later posts are flushed, too; receiving continues */
		rig_send(&r, 0, 3, 0, 10);
		rig_recv(&r, 0, 4, 0, 100);
		rig_send(&r, 1, 5, 0, 10);
		rig_run(&r);
		wc(&r.scq[0], 3, WC_WR_FLUSH);
		wc(&r.rcq[0], 4, WC_SUCCESS);
		assert_int_equal(host_qp_modify(&r.qp[0], OHCA_ATTR_STATE, &to_rts), 0);
		rig_recv(&r, 1, 6, 0, 100);
		rig_send(&r, 0, 7, 0, 10);
		rig_run(&r);
		wc(&r.scq[0], 7, WC_SUCCESS);
		wc(&r.rcq[1], 6, WC_SUCCESS);
		rig_down(&r);
	}
}

/* WQEs that were posted before RTS are flushed, even if the driver is faster than the flushing. */
static void test_sqe_many(void **state)
{
	struct rig_opt o = ud();
	struct rig r;
	struct wqe w;

	(void)state;
	o.log_sq = 10;
	rig_up(&r, o);
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 0);
	wqe_raddr(&w, 0, 0);
	wqe_post(&r.qp[0], &w);
	for (unsigned int i = 1; i <= 300; i++)
		rig_send(&r, 0, i, 0, 10);
	ohca_poll(r.h[0]->e, 1);
	wc(&r.scq[0], 0, WC_LOC_QP_OP);
	rig_modify(&r.qp[0], OHCA_QPS_RTS);
	rig_recv(&r, 1, 1, 0, 100);
	rig_send(&r, 0, 301, 0, 10);
	rig_run(&r);
	for (unsigned int i = 1; i <= 300; i++)
		wc(&r.scq[0], i, WC_WR_FLUSH);
	wc(&r.scq[0], 301, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_SUCCESS);
	rig_down(&r);
}

/* A receive buffer without access rights, or a malformed receive WQE: an error of the receiver. */
static void test_recv_errors(void **state)
{
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		rig_up(&r, ud());
		if (k == 0)
			r.mr[1].key ^= 0x100;
		rig_recv(&r, 1, 1, 0, 4096);
		if (k == 1)
			*((uint8_t *)host_buf_ptr(r.h[1], &r.qp[1].buf, 512 + 8)) = 31;
		rig_recv(&r, 1, 2, 0, 200);
		rig_send(&r, 0, 3, 0, 100);
		rig_run(&r);
		wc(&r.scq[0], 3, WC_SUCCESS);
		wc(&r.rcq[1], 1, k ? WC_LOC_QP_OP : WC_LOC_PROT);
		wc(&r.rcq[1], 2, WC_WR_FLUSH);
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_ERR);
		rig_down(&r);
	}
}

/*
 * A datagram that is longer than the receive buffer is lost, without another effect. A WQE of the
 * QP's own RQ serves the next one; a WQE of an SRQ ends as aborted.
 */
static void test_too_long(void **state)
{
	static const uint32_t lens[] = { 0, 39, 139 };
	struct rig_opt o = ud();
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 6; k++) {
		uint32_t len = lens[k / 2];

		o.srq = k & 1;
		rig_up(&r, o);
		rig_recv(&r, 1, 1, 0, len);
		rig_recv(&r, 1, 2, 4096, 200);
		for (unsigned int i = 0; i < 3; i++) {
			rig_send(&r, 0, i, 0, len == 139 && i == 1 ? 99 : 100);
			rig_run(&r);
			wc(&r.scq[0], i, WC_SUCCESS);
			if (o.srq && i == 0)
				wc(&r.rcq[1], 1, WC_REM_ABORT);
			else if (o.srq && i == 1)
				assert_int_equal(wc(&r.rcq[1], 2, WC_SUCCESS).byte_len,
						 len == 139 ? 139 : 140);
			else if (!o.srq && len == 139 && i == 1)
				assert_int_equal(wc(&r.rcq[1], 1, WC_SUCCESS).byte_len, 139);
			else if (!o.srq && len == 139 && i == 2)
				assert_int_equal(wc(&r.rcq[1], 2, WC_SUCCESS).byte_len, 140);
			no_wc(&r.rcq[1]);
			assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
		}
		no_event(r.h[1]);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_LOCAL_ERR), 0);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_NO_WQE),
				 o.srq ? 2 : len == 139 ? 1 : 3);
		if (!o.srq && len < 139) {
			/* WQEs that were kept are flushed like the others */
			rig_modify(&r.qp[1], OHCA_QPS_ERR);
			rig_run(&r);
			wc(&r.rcq[1], 1, WC_WR_FLUSH);
			wc(&r.rcq[1], 2, WC_WR_FLUSH);
		}
		rig_down(&r);
	}
}

/* A Q_Key with the high bit set selects the QP's own. */
static void test_controlled_qkey(void **state)
{
	struct rig r;
	struct ohca_hw_av av;

	(void)state;
	rig_up(&r, ud());
	av = av_to(&r, 0);
	av.qkey = 0x80010000;
	rig_recv(&r, 1, 1, 0, 200);
	send_av(&r, 0, 2, &av, 100);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_SUCCESS);
	rig_down(&r);
}

/* ---- multicast ---- */

static int mcast(struct host_qp *qp, uint8_t op)
{
	struct ohca_hw_aqe c = HOST_AQE(mcast, .qp = qp->handle, .mlid = 0xc001);

	memcpy(c.mcast.mgid, mgid, 16);
	return host_cmd(qp->h, op, &c, NULL);
}

/* A hash of an MGID that is public. */
static unsigned int known_hash(const uint8_t *gid)
{
	uint32_t h = 2166136261u;

	for (unsigned int i = 0; i < 16; i++)
		h = (h ^ gid[i]) * 16777619u;
	return (h ^ h >> 16) % OHCA_MCAST_BUCKETS;
}

static void attach(struct host_qp *qp, uint32_t n)
{
	struct ohca_hw_aqe c = HOST_AQE(mcast, .qp = qp->handle, .mlid = 0xc001);

	c.mcast.mgid[0] = 0xff;
	memcpy(c.mcast.mgid + 8, &n, 4);
	assert_int_equal(host_cmd(qp->h, OHCA_CMD_ATTACH_MCAST, &c, NULL), 0);
}

/* Return: the length of the longest chain; *@sum depends on the chains that groups are in. */
static unsigned int longest(const struct host *h, uint64_t *sum)
{
	unsigned int max = 0;

	*sum = 0;
	for (unsigned int b = 0; b < OHCA_MCAST_BUCKETS; b++) {
		const struct ohca_mcast_grp *g = h->e->mcast[b];
		unsigned int n = 0;

		for (; g; g = g->next, n++)
			*sum += (uint64_t)(b + 1) * g->mgid[8] * (g->mgid[9] + 1);
		if (n > max)
			max = n;
	}
	return max;
}

/* Groups that an attacker chooses by a hash fill no chain; the chains of each device differ. */
static void test_mcast_hash(void **state)
{
	uint64_t sum[2];

	(void)state;
	for (unsigned int seed = 0; seed < 2; seed++) {
		struct ohca_cfg cfg;
		struct host_qp_init in = { .type = OHCA_QPT_UD };
		uint8_t gid[16] = { 0xff };
		struct host *h = host_new(1, 0x100);
		struct host_qp qp;
		struct host_cq cq;

		cfg = h->cfg;
		host_free(h);
		cfg.hash_seed = seed;
		h = host_new_cfg(&cfg, HOST_MEM);
		host_start(h);
		host_cq_create(h, &cq, 4, 0);
		in.scq = in.rcq = &cq;
		assert_int_equal(host_qp_create(h, &qp, &in), 0);
		for (uint32_t n = 0, found = 0; found < 100; n++) {
			memcpy(gid + 8, &n, 4);
			if (known_hash(gid))
				continue;
			attach(&qp, n);
			found++;
		}
		assert_true(longest(h, &sum[seed]) < 8);
		/* the QP is in use */
		host_buf_free(&qp.buf);
		host_buf_free(&cq.buf);
		host_free(h);
	}
	assert_true(sum[0] != sum[1]);
}

static struct ohca_hw_av mc_av(void)
{
	struct ohca_hw_av av = { .dlid = 0xc001, .flags = OHCA_AV_GRH, .qkey = RIG_QKEY,
				 .dqpn = 0xffffff };

	memcpy(av.dgid, mgid, 16);
	return av;
}

static void test_mcast(void **state)
{
	struct ohca_hw_av av = mc_av();
	struct host_qp more[3];
	struct rig r;

	(void)state;
	rig_up(&r, ud());
	for (unsigned int i = 0; i < 3; i++) {
		struct host_qp_init in = { .type = OHCA_QPT_UD, .scq = &r.scq[1], .rcq = &r.rcq[1] };

		assert_int_equal(host_qp_create(r.h[1], &more[i], &in), 0);
		/* the Q_Key of the last one differs */
		host_qp_datagram(&more[i], 0, i == 2 ? 1 : RIG_QKEY);
		assert_int_equal(mcast(&more[i], OHCA_CMD_ATTACH_MCAST), 0);
		for (unsigned int k = 0; k < 3; k++) {
			struct ohca_hw_sge s = host_sge(r.mr[1].iova + 4096 * (i + 1), 200,
							r.mr[1].key);

			host_post_recv(&more[i], 10 + i, &s, 1);
		}
	}
	rig_recv(&r, 1, 1, 0, 200);
	/* no QP of our side is attached: no copy here */
	rig_fill(&r, 0, 0, 100, 8);
	rig_recv(&r, 0, 5, 4096, 200);
	rig_recv(&r, 0, 6, 4096, 200);
	send_av(&r, 0, 2, &av, 100);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.rcq[1], 10, WC_SUCCESS);
	wc(&r.rcq[1], 11, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	no_wc(&r.rcq[0]);
	rig_check(&r, 1, 4096 + 40, 100, 8);
	rig_check(&r, 1, 8192 + 40, 100, 8);
	/* the sender is attached: it gets its own copy */
	assert_int_equal(mcast(&r.qp[0], OHCA_CMD_ATTACH_MCAST), 0);
	send_av(&r, 0, 3, &av, 100);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_SUCCESS);
	wc(&r.rcq[1], 10, WC_SUCCESS);
	wc(&r.rcq[1], 11, WC_SUCCESS);
	wc(&r.rcq[0], 5, WC_SUCCESS);
	no_wc(&r.rcq[0]);
	assert_int_equal(mcast(&r.qp[0], OHCA_CMD_DETACH_MCAST), 0);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(mcast(&more[i], OHCA_CMD_DETACH_MCAST), 0);
	send_av(&r, 0, 4, &av, 100);
	rig_run(&r);
	wc(&r.scq[0], 4, WC_SUCCESS);
	no_wc(&r.rcq[0]);
	no_wc(&r.rcq[1]);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_MCAST_DROP), 1);
	for (unsigned int i = 0; i < 3; i++)
		host_qp_destroy(&more[i]);
	rig_down(&r);
}

static void test_block_loopback(void **state)
{
	struct ohca_hw_av av = mc_av();
	struct host_qp_init in = { .type = OHCA_QPT_UD, .flags = OHCA_QP_BLOCK_LOOPBACK };
	struct host_qp q;
	struct ohca_hw_sge s;
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, ud());
	in.scq = &r.scq[0];
	in.rcq = &r.rcq[0];
	assert_int_equal(host_qp_create(r.h[0], &q, &in), 0);
	host_qp_datagram(&q, 0, RIG_QKEY);
	assert_int_equal(mcast(&q, OHCA_CMD_ATTACH_MCAST), 0);
	assert_int_equal(mcast(&r.qp[0], OHCA_CMD_ATTACH_MCAST), 0);
	s = host_sge(r.mr[0].iova + 4096, 200, r.mr[0].key);
	host_post_recv(&q, 1, &s, 1);
	rig_recv(&r, 0, 2, 8192, 200);
	/* the sender does not get its own, but the other QP of this port does */
	w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 3);
	memcpy(w.b + 16, &av, sizeof(av));
	w.nseg = 4;
	wqe_sge(&w, r.mr[0].iova, 10, r.mr[0].key);
	wqe_post(&q, &w);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_SUCCESS);
	wc(&r.rcq[0], 2, WC_SUCCESS);
	no_wc(&r.rcq[0]);
	send_av(&r, 0, 4, &av, 10);
	rig_run(&r);
	wc(&r.scq[0], 4, WC_SUCCESS);
	wc(&r.rcq[0], 1, WC_SUCCESS);
	assert_int_equal(mcast(&q, OHCA_CMD_DETACH_MCAST), 0);
	assert_int_equal(mcast(&r.qp[0], OHCA_CMD_DETACH_MCAST), 0);
	host_qp_destroy(&q);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_grh),
		cmocka_unit_test(test_dgid),
		cmocka_unit_test(test_drops),
		cmocka_unit_test(test_comm_est),
		cmocka_unit_test(test_nop),
		cmocka_unit_test(test_path_bits),
		cmocka_unit_test(test_sqe),
		cmocka_unit_test(test_sqe_many),
		cmocka_unit_test(test_recv_errors),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_controlled_qkey),
		cmocka_unit_test(test_mcast_hash),
		cmocka_unit_test(test_mcast),
		cmocka_unit_test(test_block_loopback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
