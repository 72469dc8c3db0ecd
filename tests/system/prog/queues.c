// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every operation of every transport service by the builder interface, its completions through an
 * extended CQ with all their fields; and a CQ that is resized while completions arrive. The QPs are
 * connected to themselves.
 */
#include "peer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HERE	0u
#define THERE	(PEER_BUF / 2)
#define LEN	96u
#define GRH	40u
#define IMM	0x11223344u
#define TSO_HDR	44u		/* headers of IPoIB, IPv4 and TCP */
#define MSS	1000u
#define SEGMENT	2500u
#define FLAGS	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |	\
		 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |	\
		 IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |	\
		 IBV_WC_EX_WITH_TM_INFO | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define WALL_SLACK	50000000u	/* ns of error when two clocks are compared */

static struct peer p = { .sock = -1 };
static struct ibv_cq_ex *cq;
static struct ibv_qp *qp;
static struct ibv_qp_ex *ex;
static struct ibv_ah *ah;
static struct ibv_port_attr port;
static enum ibv_qp_type type;
static uint64_t number, before, wall;
static uint32_t tried;

/* ---- every operation ------------------------------------------------------------------- */

static const uint64_t ud_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			       IBV_QP_EX_WITH_TSO;
static const uint64_t uc_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			       IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			       IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
static const uint64_t rc_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			       IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			       IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
			       IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;

static struct ibv_qp *make(uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4,
			 .max_recv_sge = 1, .max_inline_data = LEN },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = p.pd, .send_ops_flags = ops,
	};

	if (ops & IBV_QP_EX_WITH_TSO) {
		init.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
		init.max_tso_header = TSO_HDR;
	}
	return ibv_create_qp_ex(p.ctx, &init);
}

/** struct want - expected completion of a work request */
struct want {
	enum ibv_wc_opcode op;
	bool recv, imm;
	uint32_t len, inv;
};

static uint64_t own_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Checks all fields of the completion that is polled now. */
static void look(const struct want *w)
{
	uint32_t flags = ibv_wc_read_wc_flags(cq);
	uint64_t ts = ibv_wc_read_completion_ts(cq);
	bool ud = type == IBV_QPT_UD;

	if (cq->status || cq->wr_id != number || ibv_wc_read_opcode(cq) != w->op)
		fail("request %llu, opcode %d: %s, wr_id %llu, opcode %d",
		     (unsigned long long)number, w->op, ibv_wc_status_str(cq->status),
		     (unsigned long long)cq->wr_id, ibv_wc_read_opcode(cq));
	if (ibv_wc_read_qp_num(cq) != qp->qp_num || ibv_wc_read_vendor_err(cq))
		fail("qp_num %u, vendor_err %#x", ibv_wc_read_qp_num(cq),
		     ibv_wc_read_vendor_err(cq));
	if (!ts || ts < before)
		fail("time goes from %llu to %llu", (unsigned long long)before,
		     (unsigned long long)ts);
	before = ts;
	ts = ibv_wc_read_completion_wallclock_ns(cq);
	if (ts + WALL_SLACK < wall || ts > own_ns(CLOCK_REALTIME) + WALL_SLACK)
		fail("completed at %llu, posted at %llu", (unsigned long long)ts,
		     (unsigned long long)wall);
	if (!w->recv)
		return;
	if (ibv_wc_read_byte_len(cq) != w->len + (ud ? GRH : 0))
		fail("byte_len %u", ibv_wc_read_byte_len(cq));
	if (w->imm != !!(flags & IBV_WC_WITH_IMM) ||
	    (w->imm && ibv_wc_read_imm_data(cq) != htobe32(IMM)))
		fail("immediate data: flags %#x, %#x", flags, ibv_wc_read_imm_data(cq));
	if (!w->inv != !(flags & IBV_WC_WITH_INV) ||
	    (w->inv && ibv_wc_read_invalidated_rkey(cq) != w->inv))
		fail("invalidated key: flags %#x", flags);
	if (ibv_wc_read_src_qp(cq) != qp->qp_num || flags & IBV_WC_GRH)
		fail("src_qp %u, flags %#x", ibv_wc_read_src_qp(cq), flags);
	if (ud && (ibv_wc_read_slid(cq) != port.lid || ibv_wc_read_sl(cq) != 0 ||
		   ibv_wc_read_dlid_path_bits(cq) != 0))
		fail("slid %u, sl %u, path bits %u", ibv_wc_read_slid(cq), ibv_wc_read_sl(cq),
		     ibv_wc_read_dlid_path_bits(cq));
}

/* The completions of a request at both of its ends, in any order. */
static void completions(const struct want *send, const struct want *recv)
{
	struct ibv_poll_cq_attr none = { 0 };
	int64_t end = ms_now() + 20000;
	bool s = false, r = !recv;
	int rc;

	while (!s || !r) {
		rc = ibv_start_poll(cq, &none);
		if (rc == ENOENT && ms_now() < end)
			continue;
		if (rc)
			fail("ibv_start_poll: %s", strerror(rc));
		do {
			if (ibv_wc_read_opcode(cq) & IBV_WC_RECV) {
				if (r)
					fail("one receive too many");
				look(recv);
				r = true;
			} else {
				if (s)
					fail("one send too many");
				look(send);
				s = true;
			}
			rc = ibv_next_poll(cq);
		} while (!rc);
		ibv_end_poll(cq);
		if (rc != ENOENT)
			fail("ibv_next_poll: %s", strerror(rc));
	}
}

/* Ways to specify the data. */
enum how { SGE, SGE_LIST, INLINE, INLINE_LIST, HOWS };

static void data(enum how how)
{
	uint8_t *b = p.buf + HERE;
	struct ibv_sge sge[3] = {
		{ (uintptr_t)b, 10, p.mr->lkey }, { (uintptr_t)b + 10, 50, p.mr->lkey },
		{ (uintptr_t)b + 60, LEN - 60, p.mr->lkey },
	};
	struct ibv_data_buf buf[3] = { { b, 10 }, { b + 10, 50 }, { b + 60, LEN - 60 } };

	if (how == SGE)
		ibv_wr_set_sge(ex, p.mr->lkey, (uintptr_t)b, LEN);
	else if (how == SGE_LIST)
		ibv_wr_set_sge_list(ex, 3, sge);
	else if (how == INLINE)
		ibv_wr_set_inline_data(ex, b, LEN);
	else
		ibv_wr_set_inline_data_list(ex, 3, buf);
}

static void begin(void)
{
	number++;
	tried++;
	wall = own_ns(CLOCK_REALTIME);
	fill(p.buf + HERE, LEN, (uint32_t)number);
	memset(p.buf + THERE, 0xee, LEN + GRH + 8);
	ibv_wr_start(ex);
	ex->wr_id = number;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

static void complete(void)
{
	int rc = ibv_wr_complete(ex);

	if (rc)
		fail("ibv_wr_complete, request %llu: %s", (unsigned long long)number,
		     strerror(rc));
}

static void receive(uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)p.buf + THERE, len, p.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = number + 1, .sg_list = &sge, .num_sge = !!len }, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		fail("receive");
}

static void arrived(uint32_t skip, const char *what)
{
	/* UC's completion does not mean that the data have arrived */
	for (int64_t end = ms_now() + 5000; ms_now() < end;)
		if (!memcmp(p.buf + THERE + skip + LEN - 8, p.buf + HERE + LEN - 8, 8))
			break;
	check(p.buf + THERE + skip, LEN, (uint32_t)number, what);
	if (p.buf[THERE + skip + LEN] != 0xee)
		fail("%s: wrote too much", what);
}

static void sends(bool imm)
{
	uint32_t skip = type == IBV_QPT_UD ? GRH : 0;

	for (enum how how = 0; how < HOWS; how++) {
		const struct want s = { .op = IBV_WC_SEND };
		const struct want r = { .op = IBV_WC_RECV, .recv = true, .imm = imm, .len = LEN };

		receive(LEN + skip);
		begin();
		if (imm)
			ibv_wr_send_imm(ex, htobe32(IMM));
		else
			ibv_wr_send(ex);
		if (type == IBV_QPT_UD)
			ibv_wr_set_ud_addr(ex, ah, qp->qp_num, PEER_QKEY);
		data(how);
		complete();
		completions(&s, &r);
		arrived(skip, "SEND");
	}
}

static void writes(bool imm)
{
	for (enum how how = 0; how < HOWS; how++) {
		const struct want s = { .op = IBV_WC_RDMA_WRITE };
		const struct want r = { .op = IBV_WC_RECV_RDMA_WITH_IMM, .recv = true,
					.imm = true, .len = LEN };
		uint64_t to = (uintptr_t)p.buf + THERE;

		if (imm)
			receive(0);
		begin();
		if (imm)
			ibv_wr_rdma_write_imm(ex, p.mr->rkey, to, htobe32(IMM));
		else
			ibv_wr_rdma_write(ex, p.mr->rkey, to);
		data(how);
		complete();
		completions(&s, imm ? &r : NULL);
		arrived(0, "RDMA WRITE");
	}
}

static void read_and_atomics(void)
{
	const struct want rd = { .op = IBV_WC_RDMA_READ }, cs = { .op = IBV_WC_COMP_SWAP },
			  fa = { .op = IBV_WC_FETCH_ADD };
	volatile uint64_t *word = (uint64_t *)(p.buf + THERE), *old = (uint64_t *)(p.buf + 4096);
	struct ibv_sge sge[2] = {
		{ (uintptr_t)p.buf + THERE, 40, p.mr->lkey },
		{ (uintptr_t)p.buf + THERE + 40, LEN - 40, p.mr->lkey },
	};

	begin();
	ibv_wr_rdma_read(ex, p.mr->rkey, (uintptr_t)p.buf + HERE);
	ibv_wr_set_sge_list(ex, 2, sge);
	complete();
	completions(&rd, NULL);
	arrived(0, "RDMA READ");

	begin();
	*word = 5;
	ibv_wr_atomic_cmp_swp(ex, p.mr->rkey, (uintptr_t)word, 5, 77);
	ibv_wr_set_sge(ex, p.mr->lkey, (uintptr_t)old, 8);
	complete();
	completions(&cs, NULL);
	if (*word != 77 || *old != 5)
		fail("compare and swap: %llu, %llu", (unsigned long long)*word,
		     (unsigned long long)*old);

	begin();
	*word = 77;
	ibv_wr_atomic_fetch_add(ex, p.mr->rkey, (uintptr_t)word, 23);
	ibv_wr_set_sge(ex, p.mr->lkey, (uintptr_t)old, 8);
	complete();
	completions(&fa, NULL);
	if (*word != 100 || *old != 77)
		fail("fetch and add: %llu, %llu", (unsigned long long)*word,
		     (unsigned long long)*old);
}

/* A window is bound, used for a WRITE and invalidated: first locally, then by the peer. */
static void windows(void)
{
	const struct want b = { .op = IBV_WC_BIND_MW }, li = { .op = IBV_WC_LOCAL_INV },
			  s = { .op = IBV_WC_SEND }, wr = { .op = IBV_WC_RDMA_WRITE };
	struct ibv_mr *mr = ibv_reg_mr(p.pd, p.buf, PEER_BUF, IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {
		.mr = mr, .addr = (uintptr_t)p.buf + THERE, .length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	uint32_t key;

	if (!mr || !mw)
		fail("memory window: %s", strerror(errno));
	key = mw->rkey;
	for (bool by_peer = false;; by_peer = true) {
		struct want r = { .op = IBV_WC_RECV, .recv = true };

		key = ibv_inc_rkey(key);
		begin();
		ibv_wr_bind_mw(ex, mw, key, &info);
		complete();
		completions(&b, NULL);
		begin();
		ibv_wr_rdma_write(ex, key, (uintptr_t)p.buf + THERE);
		data(SGE);
		complete();
		completions(&wr, NULL);
		arrived(0, "RDMA WRITE through a window");
		if (by_peer) {
			r.inv = key;
			receive(0);
			begin();
			ibv_wr_send_inv(ex, key);
			ibv_wr_set_sge_list(ex, 0, NULL);
			complete();
			completions(&s, &r);
			break;
		}
		begin();
		ibv_wr_local_inv(ex, key);
		complete();
		completions(&li, NULL);
		if (type != IBV_QPT_RC)
			break;
	}
	if (ibv_dealloc_mw(mw) || ibv_dereg_mr(mr))
		fail("the window does not go");
}

static uint32_t be32_at(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Checks packet @i of the segment: its own headers, and its part of the data. */
static void look_segment(const uint8_t *b, uint32_t i)
{
	uint32_t n = SEGMENT - i * MSS < MSS ? SEGMENT - i * MSS : MSS;
	bool last = (i + 1) * MSS >= SEGMENT;

	if (ibv_wc_read_byte_len(cq) != GRH + TSO_HDR + n ||
	    !(ibv_wc_read_wc_flags(cq) & IBV_WC_IP_CSUM_OK))
		fail("packet %u: %u bytes, flags %#x", i, ibv_wc_read_byte_len(cq),
		     ibv_wc_read_wc_flags(cq));
	if ((b[6] << 8 | b[7]) != 40 + (int)n || (b[8] << 8 | b[9]) != 0x1234 + (int)i ||
	    be32_at(b + 28) != 0xfffffc00 + i * MSS || b[37] != (last ? 0x18 : 0x10))
		fail("packet %u: %d bytes, sequence number %#x, flags %#x", i, b[6] << 8 | b[7],
		     be32_at(b + 28), b[37]);
	if (memcmp(b + TSO_HDR, p.buf + HERE + i * MSS, n))
		fail("packet %u: wrong data", i);
}

/* A TCP segment that the device cuts; the sequence number wraps. */
static void large_segment(void)
{
	uint8_t hdr[TSO_HDR] = {
		[0] = 0x08, [4] = 0x45, [8] = 0x12, 0x34, [12] = 64, 6, [16] = 10, 0, 0, 1,
		10, 0, 0, 2, [24] = 0x12, 0x34, 0x56, 0x78, 0xff, 0xff, 0xfc, 0x00, [36] = 0x50,
		0x18,
	};
	struct ibv_sge sge[2] = {
		{ (uintptr_t)p.buf + HERE, 1201, p.mr->lkey },
		{ (uintptr_t)p.buf + HERE + 1201, SEGMENT - 1201, p.mr->lkey },
	};
	struct ibv_poll_cq_attr none = { 0 };
	uint32_t got = 0, sent = 0;

	for (uint32_t i = 0; i * MSS < SEGMENT; i++) {
		struct ibv_sge in = { (uintptr_t)p.buf + THERE + i * 2048, 2048, p.mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &in, .num_sge = 1 }, *bad;

		if (ibv_post_recv(qp, &wr, &bad))
			fail("receive");
	}
	begin();
	fill(p.buf + HERE, SEGMENT, 77);
	ibv_wr_send_tso(ex, hdr, TSO_HDR, MSS);
	ibv_wr_set_ud_addr(ex, ah, qp->qp_num, PEER_QKEY);
	ibv_wr_set_sge_list(ex, 2, sge);
	complete();
	for (int64_t end = ms_now() + 20000; got * MSS < SEGMENT || !sent; ibv_end_poll(cq)) {
		int rc;

		while ((rc = ibv_start_poll(cq, &none)) == ENOENT && ms_now() < end)
			;
		if (rc || cq->status)
			fail("large segment: %s, %s", strerror(rc), ibv_wc_status_str(cq->status));
		if (!(ibv_wc_read_opcode(cq) & IBV_WC_RECV)) {
			if (ibv_wc_read_opcode(cq) != IBV_WC_TSO || cq->wr_id != number || sent++)
				fail("large segment: opcode %d", ibv_wc_read_opcode(cq));
		} else if (cq->wr_id != got) {
			fail("packet %u came as %llu", got, (unsigned long long)cq->wr_id);
		} else {
			look_segment(p.buf + THERE + got * 2048 + GRH, got);
			got++;
		}
	}
}

/* A batch of several requests, and one that is aborted. */
static void batch(void)
{
	const struct want s = { .op = IBV_WC_RDMA_WRITE };

	begin();
	ibv_wr_rdma_write(ex, p.mr->rkey, (uintptr_t)p.buf + THERE);
	data(SGE);
	ibv_wr_abort(ex);
	number--;
	begin();
	for (uint32_t i = 0; i < 6; i++) {
		ex->wr_flags = i == 5 ? IBV_SEND_SIGNALED : 0;
		ibv_wr_rdma_write(ex, p.mr->rkey, (uintptr_t)p.buf + THERE + 16 * i);
		ibv_wr_set_inline_data(ex, p.buf + HERE + 16 * i, 16);
	}
	complete();
	completions(&s, NULL);
	arrived(0, "batch");
}

static void make_connected(uint64_t ops)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = PEER_QKEY,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct peer_info me = { .lid = port.lid, .psn = 99 };

	qp = make(ops);
	if (!qp)
		fail("a QP of service %d: %s", type, strerror(errno));
	ex = ibv_qp_to_qp_ex(qp);
	if (type == IBV_QPT_RC)
		a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		fail("to INIT");
	me.qpn = qp->qp_num;
	peer_rts(&p, qp, &me, me.psn);
}

static void service(enum ibv_qp_type t, uint64_t ops, uint64_t not)
{
	type = t;
	p.type = t;
	for (uint64_t bit = 1; not; bit <<= 1)
		if (not & bit) {
			not &= ~bit;
			if (make(ops | bit) || errno != EOPNOTSUPP)
				fail("operation %#llx of service %d: %s", (unsigned long long)bit, t,
				     strerror(errno));
		}
	make_connected(ops);
	tried = 0;
	sends(false);
	sends(true);
	if (t != IBV_QPT_UD) {
		writes(false);
		writes(true);
		windows();
		batch();
	}
	if (t == IBV_QPT_UD)
		large_segment();
	if (t == IBV_QPT_RC)
		read_and_atomics();
	if (ibv_destroy_qp(qp))
		fail("the QP does not go");
	printf("service %d: %u requests\n", t, tried);
}

static void every_operation(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 64, .wc_flags = FLAGS };
	struct ibv_ah_attr to = { .port_num = 1 };

	for (uint64_t bit = 1; bit <= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK; bit <<= 1) {
		struct ibv_cq_init_attr_ex one = { .cqe = 1, .wc_flags = bit };
		struct ibv_cq_ex *c = ibv_create_cq_ex(p.ctx, &one);

		if (!c != !(bit & FLAGS) || (!c && errno != EOPNOTSUPP))
			fail("wc_flags %#llx: %s", (unsigned long long)bit,
			     c ? "accepted" : strerror(errno));
		if (c)
			ibv_destroy_cq(ibv_cq_ex_to_cq(c));
	}
	cq = ibv_create_cq_ex(p.ctx, &init);
	if (!cq)
		fail("ibv_create_cq_ex: %s", strerror(errno));
	to.dlid = port.lid;
	ah = ibv_create_ah(p.pd, &to);
	if (!ah)
		fail("ibv_create_ah: %s", strerror(errno));
	service(IBV_QPT_UD, ud_ops, rc_ops & ~ud_ops);
	service(IBV_QPT_UC, uc_ops, (rc_ops & ~uc_ops) | IBV_QP_EX_WITH_TSO);
	service(IBV_QPT_RC, rc_ops, IBV_QP_EX_WITH_TSO);
	ibv_destroy_ah(ah);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

/* ---- a CQ that is resized under load ------------------------------------------------------ */

#define UNDER_WAY	32u
#define MESSAGES	20000u
#define SIZES		20u

static atomic_bool over;
static atomic_uint resized;

static void *resizer(void *arg)
{
	static const int sizes[] = { 128, 4096, 64, 100000, 256, 65, 1024 };
	struct ibv_cq *c = arg;
	int rc;

	for (unsigned int i = 0; !atomic_load(&over); i++) {
		int want = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];

		rc = ibv_resize_cq(c, want);
		if (rc || c->cqe < want)
			fail("to %d: %s, has %d", want, strerror(rc), c->cqe);
		atomic_fetch_add(&resized, 1);
	}
	return NULL;
}

static void resize(void)
{
	struct ibv_cq *c = ibv_create_cq(p.ctx, 64, NULL, NULL, 0);
	struct peer_info me = { .lid = port.lid };
	uint32_t posted = 0, total = MESSAGES, got[2] = { 0, 0 };
	struct ibv_wc wc[16];
	pthread_t t;

	p.type = IBV_QPT_RC;
	p.scq = p.rcq = c;
	p.qp = peer_qp(&p, p.pd);
	me.qpn = p.qp->qp_num;
	p.you = me;
	peer_rts(&p, p.qp, &me, 0);
	if (pthread_create(&t, NULL, resizer, c))
		fail("thread");
	for (int64_t end = ms_now() + 60000; got[0] < total || got[1] < total;) {
		int n;

		/* outstanding requests fit the smallest size, with both completions */
		while (posted < total && posted - got[0] < UNDER_WAY &&
		       posted - got[1] < UNDER_WAY) {
			recv_post(&p, posted, THERE, 64);
			send_post(&p, IBV_WR_SEND, posted, HERE, 64, 0);
			posted++;
		}
		n = ibv_poll_cq(c, 16, wc);
		if (n < 0 || ms_now() > end)
			fail("after %u and %u of %u: %d", got[0], got[1], posted, n);
		for (int i = 0; i < n; i++)
			if (wc[i].status || wc[i].wr_id != got[!!(wc[i].opcode & IBV_WC_RECV)]++)
				fail("completion of %llu, %s, with %u and %u before",
				     (unsigned long long)wc[i].wr_id,
				     ibv_wc_status_str(wc[i].status), got[0], got[1]);
		/* until there were some sizes, even with a slow kernel */
		if (got[0] == total && got[1] == total && atomic_load(&resized) < SIZES)
			total += MESSAGES / 10;
	}
	atomic_store(&over, true);
	pthread_join(t, NULL);
	/* completions that were not polled stay, and prevent a smaller size */
	if (ibv_resize_cq(c, 64))
		fail("to 64 at the end");
	for (uint32_t i = 0; i < 20; i++) {
		recv_post(&p, total + i, THERE, 64);
		send_post(&p, IBV_WR_SEND, total + i, HERE, 64, 0);
	}
	for (int64_t end = ms_now() + 5000; !ibv_resize_cq(c, 20);)
		if (ms_now() > end)
			fail("a CQ of 40 entries goes into one of 20");
	for (uint32_t n = 0; n < 40; n++) {
		struct ibv_wc w;

		if (!wc_get(c, &w, 20000) || w.status)
			fail("entry %u of 40 is lost", n);
	}
	ibv_destroy_qp(p.qp);
	p.qp = NULL;
	ibv_destroy_cq(c);
	printf("resized %u times under %u messages\n", atomic_load(&resized), total);
}

/* ---- the clock of the timestamps --------------------------------------------------------- */

static uint64_t device_ns(void)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	int rc = ibv_query_rt_values_ex(p.ctx, &v);

	if (rc || v.comp_mask != IBV_VALUES_MASK_RAW_CLOCK)
		fail("ibv_query_rt_values_ex: %s, mask %#x", strerror(rc), v.comp_mask);
	return (uint64_t)v.raw_clock.tv_sec * 1000000000 + (uint64_t)v.raw_clock.tv_nsec;
}

/* A request completed between two readings of the clock has a timestamp between the two. */
static void clock_and_timestamps(void)
{
	struct ibv_cq_init_attr_ex init = { .cqe = 64, .wc_flags = FLAGS };
	struct ibv_values_ex bad = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK << 1 };
	const struct want sent = { .op = IBV_WC_RDMA_WRITE };
	struct ibv_device_attr_ex attr;
	uint64_t early, own, first, last, shorter, longer;

	if (ibv_query_device_ex(p.ctx, NULL, &attr) ||
	    attr.hca_core_clock != 1000000 || attr.completion_timestamp_mask != UINT64_MAX)
		fail("hca_core_clock %llu kHz, mask %#llx",
		     (unsigned long long)attr.hca_core_clock,
		     (unsigned long long)attr.completion_timestamp_mask);
	if (ibv_query_rt_values_ex(p.ctx, &bad) != EINVAL)
		fail("an unknown value is answered");
	cq = ibv_create_cq_ex(p.ctx, &init);
	if (!cq)
		fail("ibv_create_cq_ex: %s", strerror(errno));
	type = IBV_QPT_RC;
	p.type = type;
	make_connected(rc_ops);
	early = own_ns(CLOCK_MONOTONIC);
	first = device_ns();
	own = own_ns(CLOCK_MONOTONIC);
	for (number = 1; number <= 100; number++) {
		before = device_ns();
		wall = own_ns(CLOCK_REALTIME);
		ibv_wr_start(ex);
		ex->wr_id = number;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex, p.mr->rkey, (uintptr_t)p.buf + THERE);
		ibv_wr_set_sge(ex, p.mr->lkey, (uintptr_t)p.buf, LEN);
		if (ibv_wr_complete(ex))
			fail("ibv_wr_complete");
		/* checks that it is not before the clock */
		completions(&sent, NULL);
		if (before > device_ns())
			fail("completed after the clock's time now");
	}
	/*
	 * The clock's rate is the announced one; 200 ms suffice. The process may be preempted
	 * anywhere: the time between the device's readings is at least the shorter and at most the
	 * longer one.
	 */
	do {
		shorter = own_ns(CLOCK_MONOTONIC) - own;
		last = device_ns();
		longer = own_ns(CLOCK_MONOTONIC) - early;
	} while (shorter < 200000000);
	if ((last - first) / 100 < shorter / 105 || (last - first) / 105 > longer / 100)
		fail("%llu ns of the device in %llu to %llu ns", (unsigned long long)(last - first),
		     (unsigned long long)shorter, (unsigned long long)longer);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

void queues_main(const char *what)
{
	peer_open(&p, IBV_QPT_RC);
	ibv_destroy_qp(p.qp);
	p.qp = NULL;
	if (ibv_query_port(p.ctx, 1, &port))
		fail("port");
	if (!strcmp(what, "builder")) {
		every_operation();
	} else if (!strcmp(what, "clock")) {
		clock_and_timestamps();
	} else if (!strcmp(what, "resize")) {
		struct ibv_cq *scq = p.scq, *rcq = p.rcq;

		resize();
		p.scq = scq;
		p.rcq = rcq;
	} else {
		fail("no such test: %s", what);
	}
	peer_close(&p);
	printf("queues end\n");
}
