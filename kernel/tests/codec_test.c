// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Contents of WQEs and commands, byte by byte, and conversion of CQEs and attributes. */
#include <rdma/ib_verbs.h>

#include "compat.h"
#include "cq.h"
#include "eq.h"
#include "mr.h"
#include "ohca_test.h"
#include "port.h"
#include "qp.h"
#include "ring.h"
#include "verbs.h"
#include "wr.h"

struct wqe {
	u8 b[OHCA_MAX_WQE_BBS * OHCA_BB_SIZE];
};

static struct ohca_qp *make_qp(struct kunit *test, enum ib_qp_type type)
{
	struct ohca_qp *qp = ohca_test_alloc(test, sizeof(*qp));

	qp->ibqp.qp_type = type;
	qp->sq.max_sge = 4;
	qp->sq.max_inline = 40;
	return qp;
}

/* A WQE filled with a pattern, which shows bytes that the builder does not write. */
static struct wqe *make_wqe(struct kunit *test)
{
	struct wqe *wqe = ohca_test_alloc(test, sizeof(*wqe));

	memset(wqe, 0xa5, sizeof(*wqe));
	return wqe;
}

/* A send WQE is padded with zeroes to a whole BB; the next BB is unchanged. */
static void expect_bytes(struct kunit *test, const struct wqe *wqe, const u8 *want, size_t n)
{
	size_t end = ALIGN(n, OHCA_BB_SIZE);

	KUNIT_EXPECT_MEMEQ(test, wqe->b, want, n);
	KUNIT_EXPECT_PTR_EQ(test, NULL, memchr_inv(wqe->b + n, 0, end - n));
	if (end < sizeof(wqe->b))
		KUNIT_EXPECT_EQ(test, 0xa5, wqe->b[end]);
}

static struct ib_sge sges[2] = {
	{ .addr = 0x1122334455667788, .length = 0x100, .lkey = 0x0a0b0c0d },
	{ .addr = 0x99, .length = 0x20, .lkey = 1 },
};

static void send_imm(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_RC);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ib_send_wr wr = {
		.wr_id = 0xfeed,
		.sg_list = sges,
		.num_sge = 2,
		.opcode = IB_WR_SEND_WITH_IMM,
		.send_flags = IB_SEND_SIGNALED | IB_SEND_SOLICITED | IB_SEND_FENCE,
		.ex.imm_data = cpu_to_be32(0x01020304),
	};
	static const u8 want[] = {
		3, 3, 7, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
		0x99, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 1, 0, 0, 0,
	};

	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr, wqe->b, &shadow));
	expect_bytes(test, wqe, want, sizeof(want));
	KUNIT_EXPECT_EQ(test, 0xfeed, shadow.wr_id);
	KUNIT_EXPECT_EQ(test, IB_WC_SEND, shadow.opcode);
	KUNIT_EXPECT_EQ(test, 1, shadow.bbs);
	KUNIT_EXPECT_EQ(test, 0x120, shadow.byte_len);
}

static void rdma_write(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_RC);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ib_rdma_wr wr = {
		.wr.sg_list = sges,
		.wr.num_sge = 1,
		.wr.opcode = IB_WR_RDMA_WRITE,
		.remote_addr = 0x0102030405060708,
		.rkey = 0x11223344,
	};
	static const u8 want[] = {
		0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		8, 7, 6, 5, 4, 3, 2, 1, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
	};

	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	expect_bytes(test, wqe, want, sizeof(want));
	KUNIT_EXPECT_EQ(test, IB_WC_RDMA_WRITE, shadow.opcode);
}

static void atomics(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_RC);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ib_atomic_wr wr = {
		.wr.sg_list = sges,
		.wr.num_sge = 1,
		.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP,
		.remote_addr = 0x10,
		.rkey = 2,
		.compare_add = 3,
		.swap = 4,
	};
	static const u8 cmp_swap[] = {
		5, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
	};
	static const u8 fetch_add[] = {
		6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
	};

	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	expect_bytes(test, wqe, cmp_swap, sizeof(cmp_swap));
	KUNIT_EXPECT_EQ(test, IB_WC_COMP_SWAP, shadow.opcode);
	wr.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD;
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	expect_bytes(test, wqe, fetch_add, sizeof(fetch_add));
	KUNIT_EXPECT_EQ(test, IB_WC_FETCH_ADD, shadow.opcode);
}

/* Masked atomics need OHCA_FEATURE_EXT_ATOMIC. */
static void masked_atomics(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_RC);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ib_atomic_wr wr = {
		.wr.sg_list = sges,
		.wr.num_sge = 1,
		.wr.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP,
		.remote_addr = 0x10,
		.rkey = 2,
		.compare_add = 3,
		.swap = 4,
		.compare_add_mask = 5,
		.swap_mask = 6,
	};
	static const u8 cmp_swap[] = {
		0x21, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
		6, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
	};
	static const u8 fetch_add[] = {
		0x22, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
	};

	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	qp->features = BIT_ULL(OHCA_FEATURE_EXT_ATOMIC);
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	expect_bytes(test, wqe, cmp_swap, sizeof(cmp_swap));
	KUNIT_EXPECT_EQ(test, IB_WC_MASKED_COMP_SWAP, shadow.opcode);
	KUNIT_EXPECT_EQ(test, 2, shadow.bbs);
	memset(wqe, 0xa5, sizeof(*wqe));
	wr.wr.opcode = IB_WR_MASKED_ATOMIC_FETCH_AND_ADD;
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	expect_bytes(test, wqe, fetch_add, sizeof(fetch_add));
	KUNIT_EXPECT_EQ(test, IB_WC_MASKED_FETCH_ADD, shadow.opcode);
	qp->ibqp.qp_type = IB_QPT_UC;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
}

static void atomic_write(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_RC);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	u64 data = cpu_to_le64(0x0807060504030201);
	struct ib_sge sge = { .addr = (uintptr_t)&data, .length = 8 };
	struct ib_rdma_wr wr = {
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.wr.opcode = IB_WR_ATOMIC_WRITE,
		.wr.send_flags = IB_SEND_INLINE,
		.remote_addr = 0x10,
		.rkey = 2,
	};
	static const u8 want[] = {
		15, 3, 8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
	};

	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	qp->features = BIT_ULL(OHCA_FEATURE_MPE);
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	expect_bytes(test, wqe, want, sizeof(want));
	KUNIT_EXPECT_EQ(test, IB_WC_ATOMIC_WRITE, shadow.opcode);
}

static void reg_and_inval(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_RC);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ohca_mr *mr = ohca_test_alloc(test, sizeof(*mr));
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = &mr->ibmr,
		.key = 0x1234,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
			  IB_ACCESS_RELAXED_ORDERING,
	};
	struct ib_send_wr inv = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = 0x1234,
		.send_flags = IB_SEND_SIGNALED,
	};
	static const u8 reg[] = {
		0x20, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x34, 0x12, 0, 0, 5, 0, 0, 0, 0x23, 0x01, 0, 0, 0, 0, 0, 0,
		0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xee, 0, 0, 0, 0,
		5, 0, 0, 0, 12, 1, 0, 0, 0, 0, 0, 0, 0x23, 0x01, 0, 0,
	};
	static const u8 local_inv[] = { 7, 1, 2, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

	mr->ibmr.iova = 0x123;
	mr->ibmr.length = 0x4000;
	mr->ibmr.page_size = 4096;
	mr->pl.hw.root = cpu_to_le64(0xee000000);
	mr->pl.hw.npages = cpu_to_le32(5);
	mr->pl.hw.page_shift = 12;
	mr->pl.hw.levels = 1;
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	expect_bytes(test, wqe, reg, sizeof(reg));
	KUNIT_EXPECT_EQ(test, IB_WC_REG_MR, shadow.opcode);

	memset(wqe, 0xa5, sizeof(*wqe));
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &inv, wqe->b, &shadow));
	expect_bytes(test, wqe, local_inv, sizeof(local_inv));
	KUNIT_EXPECT_EQ(test, IB_WC_LOCAL_INV, shadow.opcode);
}

static void datagram(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_GSI);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ohca_ah *ah = ohca_test_alloc(test, sizeof(*ah));
	struct ib_ud_wr wr = {
		.wr.opcode = IB_WR_SEND,
		.wr.sg_list = sges,
		.wr.num_sge = 2,
		.ah = &ah->ibah,
		.remote_qpn = 1,
		.remote_qkey = 0x80010000,
		.pkey_index = 0x0201,
	};
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_IB };
	static const u8 want[] = {
		2, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 1, 0x80, 0x05, 0xc0, 3, 2, 1, 7, 9, 64,
		0x45, 0x23, 0xb1, 0x0a, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0x77, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
		0x99, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 1, 0, 0, 0,
	};

	rdma_ah_set_dlid(&attr, 0xc005);
	rdma_ah_set_sl(&attr, 3);
	rdma_ah_set_path_bits(&attr, 2);
	rdma_ah_set_static_rate(&attr, 7);
	rdma_ah_set_port_num(&attr, 2);
	rdma_ah_set_grh(&attr, NULL, 0x12345, 9, 64, 0xab);
	attr.grh.dgid.raw[0] = 0xfe;
	attr.grh.dgid.raw[1] = 0x80;
	attr.grh.dgid.raw[15] = 0x77;
	ohca_av_pack(&ah->av, &attr);
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	KUNIT_EXPECT_EQ(test, 2, shadow.bbs);
	KUNIT_EXPECT_EQ(test, 0xab, (want[34] >> 4) | (want[35] << 4));
	expect_bytes(test, wqe, want, sizeof(want));

	/* an AH of another PD */
	ah->ibah.pd = ohca_test_alloc(test, sizeof(*ah->ibah.pd));
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	qp->ibqp.pd = ah->ibah.pd;
	KUNIT_EXPECT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));

	/* only a WQE of QP1 has a P_Key index */
	qp->ibqp.qp_type = IB_QPT_UD;
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	KUNIT_EXPECT_EQ(test, 0, wqe->b[52]);
	KUNIT_EXPECT_EQ(test, 0, wqe->b[53]);
}

static void large_send(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_UD);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ohca_ah *ah = ohca_test_alloc(test, sizeof(*ah));
	u8 header[OHCA_MAX_TSO_HDR];
	struct ib_ud_wr wr = {
		.wr.opcode = IB_WR_LSO,
		.wr.sg_list = sges,
		.wr.num_sge = 1,
		.wr.send_flags = IB_SEND_IP_CSUM,
		.ah = &ah->ibah,
		.remote_qpn = 5,
		.header = header,
		.hlen = 44,
		.mss = 0x1234,
	};

	memset(header, 0x77, sizeof(header));
	qp->create_flags = IB_QP_CREATE_IPOIB_UD_LSO;
	qp->features = BIT_ULL(OHCA_FEATURE_UD_CSUM) | BIT_ULL(OHCA_FEATURE_TSO);
	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	KUNIT_EXPECT_EQ(test, IB_WC_LSO, shadow.opcode);
	KUNIT_EXPECT_EQ(test, 3, shadow.bbs);
	KUNIT_EXPECT_EQ(test, 10, wqe->b[0]);
	/* control, address vector 3, TSO, headers 3, SGE */
	KUNIT_EXPECT_EQ(test, 9, wqe->b[1]);
	KUNIT_EXPECT_EQ(test, OHCA_WQE_IP_CSUM, wqe->b[2]);
	KUNIT_EXPECT_EQ(test, 0x34, wqe->b[64]);
	KUNIT_EXPECT_EQ(test, 0x12, wqe->b[65]);
	KUNIT_EXPECT_EQ(test, 44, wqe->b[66]);
	KUNIT_EXPECT_EQ(test, 0x77, wqe->b[80 + 43]);
	KUNIT_EXPECT_EQ(test, 0, wqe->b[80 + 44]);
	KUNIT_EXPECT_EQ(test, 0x88, wqe->b[128]);

	/* sizes out of range, and too many segments */
	wr.hlen = OHCA_MAX_TSO_HDR;
	KUNIT_EXPECT_EQ(test, 0, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	wr.hlen++;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	wr.hlen = 44;
	wr.mss = 0;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	wr.mss = 0x10000;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
	wr.mss = 1000;
	wr.hlen = OHCA_MAX_TSO_HDR;
	qp->sq.max_sge = OHCA_MAX_SGE;
	wr.wr.num_sge = 24;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr.wr, wqe->b, &shadow));
}

static void inline_data(struct kunit *test)
{
	struct ohca_qp *qp = make_qp(test, IB_QPT_RC);
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	static const char text[] = "0123456789abcdefghijklmnopqrstuvwxyz0123456789";
	struct ib_sge sge[2] = {
		{ .addr = (uintptr_t)text, .length = 3 },
		{ .addr = (uintptr_t)text + 3, .length = 16 },
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.sg_list = sge,
		.num_sge = 2,
		.send_flags = IB_SEND_INLINE,
	};
	static const u8 ctrl[] = { 2, 3, 0xc8, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

	KUNIT_ASSERT_EQ(test, 0, ohca_build_send_wqe(qp, &wr, wqe->b, &shadow));
	KUNIT_EXPECT_MEMEQ(test, wqe->b, ctrl, sizeof(ctrl));
	KUNIT_EXPECT_MEMEQ(test, wqe->b + 16, text, 19);
	KUNIT_EXPECT_EQ(test, 0, wqe->b[35]);
	KUNIT_EXPECT_EQ(test, 0, wqe->b[47]);
	KUNIT_EXPECT_EQ(test, 0, wqe->b[63]);
	KUNIT_EXPECT_EQ(test, 0xa5, wqe->b[64]);
	sge[1].length = 37;
	KUNIT_EXPECT_EQ(test, 0, ohca_build_send_wqe(qp, &wr, wqe->b, &shadow));
	sge[1].length = 38;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr, wqe->b, &shadow));
	sge[1].length = U32_MAX;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_build_send_wqe(qp, &wr, wqe->b, &shadow));
}

static void refused(struct kunit *test)
{
	struct wqe *wqe = make_wqe(test);
	struct ohca_sq_shadow shadow;
	struct ib_rdma_wr wr = { .wr.sg_list = sges };
	static const struct {
		enum ib_qp_type type;
		enum ib_wr_opcode opcode;
		int nsge, flags;
	} bad[] = {
		{ IB_QPT_RC, IB_WR_RDMA_READ_WITH_INV },
		{ IB_QPT_RC, IB_WR_LSO },
		{ IB_QPT_RC, IB_WR_MASKED_ATOMIC_CMP_AND_SWP },
		{ IB_QPT_RC, 0x7fff },
		{ IB_QPT_RC, IB_WR_SEND, 5 },
		{ IB_QPT_RC, IB_WR_SEND, -1 },
		{ IB_QPT_RC, IB_WR_RDMA_READ, 1, IB_SEND_INLINE },
		{ IB_QPT_UC, IB_WR_RDMA_READ },
		{ IB_QPT_UC, IB_WR_SEND_WITH_INV },
		{ IB_QPT_UC, IB_WR_ATOMIC_FETCH_AND_ADD },
		{ IB_QPT_UD, IB_WR_RDMA_WRITE },
		{ IB_QPT_SMI, IB_WR_REG_MR },
		{ IB_QPT_UD, IB_WR_LSO },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		wr.wr.opcode = bad[i].opcode;
		wr.wr.num_sge = bad[i].nsge;
		wr.wr.send_flags = bad[i].flags;
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL,
				    ohca_build_send_wqe(make_qp(test, bad[i].type), &wr.wr,
							wqe->b, &shadow), "case %u", i);
	}
}

static void recv_wqe(struct kunit *test)
{
	struct wqe *wqe = make_wqe(test);
	struct ib_recv_wr wr = { .sg_list = sges, .num_sge = 2 };
	static const u8 want[] = {
		0x0d, 0xf0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a,
		0x99, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 1, 0, 0, 0,
	};

	KUNIT_EXPECT_EQ(test, 0x120, ohca_build_recv_wqe(&wr, 0xf00d, wqe->b));
	KUNIT_EXPECT_MEMEQ(test, wqe->b, want, sizeof(want));
	KUNIT_EXPECT_EQ(test, 0xa5, wqe->b[sizeof(want)]);
}

static void cqe(struct kunit *test)
{
	struct ohca_hw_cqe cqe = {
		.status = cpu_to_le32(12),
		.opcode = cpu_to_le32(129),
		.vendor_err = cpu_to_le32(0x30),
		.byte_len = cpu_to_le32(77),
		.imm = cpu_to_be32(0xcafe),
		.src_qp = cpu_to_le32(5),
		.wc_flags = cpu_to_le32(1 | 2),
		.pkey_index = cpu_to_le16(3),
		.slid = cpu_to_le16(9),
		.sl = 2,
		.dlid_path_bits = 1,
	};
	struct ib_wc wc;

	ohca_cqe_to_wc(&cqe, &wc);
	KUNIT_EXPECT_EQ(test, IB_WC_RETRY_EXC_ERR, wc.status);
	KUNIT_EXPECT_EQ(test, IB_WC_RECV_RDMA_WITH_IMM, wc.opcode);
	KUNIT_EXPECT_EQ(test, 0x30, wc.vendor_err);
	KUNIT_EXPECT_EQ(test, 77, wc.byte_len);
	KUNIT_EXPECT_EQ(test, 0xcafe, be32_to_cpu(wc.ex.imm_data));
	KUNIT_EXPECT_EQ(test, IB_WC_GRH | IB_WC_WITH_IMM, wc.wc_flags);
	KUNIT_EXPECT_EQ(test, 5, wc.src_qp);
	KUNIT_EXPECT_EQ(test, 9, wc.slid);
	KUNIT_EXPECT_EQ(test, 3, wc.pkey_index);
	cqe.inv_key = cpu_to_le32(0x1234);
	cqe.wc_flags = cpu_to_le32(8);
	cqe.status = cpu_to_le32(1000);
	cqe.opcode = cpu_to_le32(0xffff);
	ohca_cqe_to_wc(&cqe, &wc);
	KUNIT_EXPECT_EQ(test, IB_WC_WITH_INVALIDATE, wc.wc_flags);
	KUNIT_EXPECT_EQ(test, 0x1234, wc.ex.invalidate_rkey);
	KUNIT_EXPECT_EQ(test, IB_WC_GENERAL_ERR, wc.status);
	KUNIT_EXPECT_EQ(test, IB_WC_RECV, wc.opcode);
	KUNIT_EXPECT_EQ(test, IB_WC_IP_CSUM_OK, ohca_wc_flags(4));
	KUNIT_EXPECT_EQ(test, 0, ohca_wc_flags(~0xfu));
}

static void qp_attr_round_trip(struct kunit *test)
{
	struct ib_qp_attr *in = ohca_test_alloc(test, sizeof(*in));
	struct ib_qp_attr *out = ohca_test_alloc(test, sizeof(*out));
	struct ohca_hw_qp_attr hw;

	in->qp_state = IB_QPS_RTR;
	in->path_mtu = IB_MTU_4096;
	in->dest_qp_num = 0x123456;
	in->rq_psn = 0xabcdef;
	in->sq_psn = 0x1111111;
	in->max_dest_rd_atomic = 16;
	in->min_rnr_timer = 12;
	in->qkey = 0x80010000;
	in->pkey_index = 5;
	in->port_num = 2;
	in->timeout = 14;
	in->retry_cnt = 7;
	in->rnr_retry = 6;
	in->qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC;
	in->ah_attr.type = RDMA_AH_ATTR_TYPE_IB;
	rdma_ah_set_dlid(&in->ah_attr, 0x21);
	rdma_ah_set_sl(&in->ah_attr, 4);
	rdma_ah_set_port_num(&in->ah_attr, 1);
	rdma_ah_set_grh(&in->ah_attr, NULL, 0xfffff, 3, 255, 0xff);
	in->path_mig_state = IB_MIG_REARM;
	in->alt_port_num = 2;
	in->alt_pkey_index = 6;
	in->alt_timeout = 15;
	in->alt_ah_attr.type = RDMA_AH_ATTR_TYPE_IB;
	rdma_ah_set_dlid(&in->alt_ah_attr, 0x22);
	rdma_ah_set_path_bits(&in->alt_ah_attr, 1);
	ohca_qp_attr_pack(&hw, in, IB_QP_ATTR_STANDARD_BITS);
	KUNIT_ASSERT_EQ(test, 0, ohca_qp_attr_unpack(NULL, out, &hw));
	KUNIT_EXPECT_EQ(test, IB_QPS_RTR, out->qp_state);
	KUNIT_EXPECT_EQ(test, IB_MTU_4096, out->path_mtu);
	KUNIT_EXPECT_EQ(test, 0x123456, out->dest_qp_num);
	KUNIT_EXPECT_EQ(test, 0xabcdef, out->rq_psn);
	KUNIT_EXPECT_EQ(test, 0x111111, out->sq_psn);
	KUNIT_EXPECT_EQ(test, 16, out->max_dest_rd_atomic);
	KUNIT_EXPECT_EQ(test, 12, out->min_rnr_timer);
	KUNIT_EXPECT_EQ(test, 0x80010000, out->qkey);
	KUNIT_EXPECT_EQ(test, 5, out->pkey_index);
	KUNIT_EXPECT_EQ(test, 2, out->port_num);
	KUNIT_EXPECT_EQ(test, 14, out->timeout);
	KUNIT_EXPECT_EQ(test, 7, out->retry_cnt);
	KUNIT_EXPECT_EQ(test, 6, out->rnr_retry);
	KUNIT_EXPECT_EQ(test, in->qp_access_flags, out->qp_access_flags);
	KUNIT_EXPECT_EQ(test, 0x21, rdma_ah_get_dlid(&out->ah_attr));
	KUNIT_EXPECT_EQ(test, IB_AH_GRH, rdma_ah_get_ah_flags(&out->ah_attr));
	KUNIT_EXPECT_EQ(test, 0xfffff, rdma_ah_read_grh(&out->ah_attr)->flow_label);
	KUNIT_EXPECT_EQ(test, 0xff, rdma_ah_read_grh(&out->ah_attr)->traffic_class);
	KUNIT_EXPECT_EQ(test, 3, rdma_ah_read_grh(&out->ah_attr)->sgid_index);

	KUNIT_EXPECT_EQ(test, IB_MIG_REARM, out->path_mig_state);
	KUNIT_EXPECT_EQ(test, 2, out->alt_port_num);
	KUNIT_EXPECT_EQ(test, 6, out->alt_pkey_index);
	KUNIT_EXPECT_EQ(test, 15, out->alt_timeout);
	KUNIT_EXPECT_EQ(test, 0x22, rdma_ah_get_dlid(&out->alt_ah_attr));
	KUNIT_EXPECT_EQ(test, 1, rdma_ah_get_path_bits(&out->alt_ah_attr));
	KUNIT_EXPECT_EQ(test, 0, rdma_ah_get_ah_flags(&out->alt_ah_attr));

	/* attributes that are not in the mask are zero */
	ohca_qp_attr_pack(&hw, in, IB_QP_STATE);
	KUNIT_EXPECT_EQ(test, OHCA_QPS_RTR, hw.state);
	hw.state = 0;
	KUNIT_EXPECT_TRUE(test, !memchr_inv(&hw, 0, sizeof(hw)));
	hw.state = 7;
	KUNIT_EXPECT_EQ(test, -EIO, ohca_qp_attr_unpack(NULL, out, &hw));
}

static void port_info(struct kunit *test)
{
	struct ib_port_attr attr = { .gid_tbl_len = 7 };
	u8 data[64] = {
		[8] = 0xfe, [9] = 0x80, [17] = 0x12, [18] = 0x01, [19] = 0x02,
		[20] = 0x00, [21] = 0x01, [22] = 0x40, [23] = 0x02,
		[31] = 2, [32] = 0x74, [33] = 0x52, [34] = 0xc3, [35] = 0x47, [36] = 0x51,
		[37] = 0x40, [41] = 0x05, [47] = 3, [49] = 4, [50] = 2, [51] = 0x92,
		[62] = 0x21,
	};

	ohca_port_info_unpack(&attr, data);
	KUNIT_EXPECT_EQ(test, 0xfe80000000000000ull, attr.subnet_prefix);
	KUNIT_EXPECT_EQ(test, 0x12, attr.lid);
	KUNIT_EXPECT_EQ(test, 0x102, attr.sm_lid);
	KUNIT_EXPECT_EQ(test, IB_PORT_CM_SUP | IB_PORT_EXTENDED_SPEEDS_SUP | IB_PORT_SM,
			attr.port_cap_flags);
	KUNIT_EXPECT_EQ(test, IB_WIDTH_4X, attr.active_width);
	KUNIT_EXPECT_EQ(test, IB_PORT_ACTIVE, attr.state);
	KUNIT_EXPECT_EQ(test, IB_PORT_PHYS_STATE_LINK_UP, attr.phys_state);
	KUNIT_EXPECT_EQ(test, 3, attr.lmc);
	KUNIT_EXPECT_EQ(test, IB_SPEED_EDR, attr.active_speed);
	KUNIT_EXPECT_EQ(test, IB_MTU_4096, attr.active_mtu);
	KUNIT_EXPECT_EQ(test, IB_MTU_4096, attr.max_mtu);
	KUNIT_EXPECT_EQ(test, 1, attr.sm_sl);
	KUNIT_EXPECT_EQ(test, 4, attr.max_vl_num);
	/* GUIDCap (14.2.5.6, offset 400) does not change the table length */
	KUNIT_EXPECT_EQ(test, 7, attr.gid_tbl_len);
	KUNIT_EXPECT_EQ(test, 3, attr.bad_pkey_cntr);
	KUNIT_EXPECT_EQ(test, 4, attr.qkey_viol_cntr);
	KUNIT_EXPECT_EQ(test, 0x12, attr.subnet_timeout);
	/* XDR is in LinkSpeedExtActive2, which is valid only with a bit of CapabilityMask2 */
	data[56] = 1 << 5;
	ohca_port_info_unpack(&attr, data);
	KUNIT_EXPECT_EQ(test, IB_SPEED_EDR, attr.active_speed);
	data[22] |= 0x80;
	data[60] = 0x08;
	ohca_port_info_unpack(&attr, data);
	KUNIT_EXPECT_EQ(test, IB_SPEED_XDR, attr.active_speed);
	/* without IsExtendedSpeedsSupported, LinkSpeedActive is valid */
	data[22] = 0;
	ohca_port_info_unpack(&attr, data);
	KUNIT_EXPECT_EQ(test, IB_SPEED_QDR, attr.active_speed);
}

/* A PortInfo with an invalid MTU or state is refused. */
static void port_info_bad(struct kunit *test)
{
	static const struct {
		u8 off, val;
		bool ok;
	} step[] = {
		{ 36, 0x51, true }, { 36, 0x11, true }, { 36, 0x01, false }, { 36, 0x61, false },
		{ 41, 0x01, true }, { 41, 0x00, false }, { 41, 0x06, false },
		{ 32, 0x71, true }, { 32, 0x70, false }, { 32, 0x75, false },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(step); i++) {
		u8 data[64] = { [32] = 0x74, [33] = 0x52, [36] = 0x51, [41] = 0x05 };
		struct ib_port_attr attr = {};

		data[step[i].off] = step[i].val;
		ohca_port_info_unpack(&attr, data);
		KUNIT_EXPECT_EQ_MSG(test, step[i].ok ? 0 : -EPROTO, ohca_port_info_check(&attr),
				    "byte %u: %#x", step[i].off, step[i].val);
	}
}

static void mad_filter(struct kunit *test)
{
	struct ib_mad *mad = ohca_test_alloc(test, sizeof(*mad));

	mad->mad_hdr.mgmt_class = IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE;
	mad->mad_hdr.method = IB_MGMT_METHOD_GET;
	mad->mad_hdr.attr_id = IB_SMP_ATTR_PORT_INFO;
	KUNIT_EXPECT_TRUE(test, ohca_mad_for_device(mad));
	mad->mad_hdr.attr_id = IB_SMP_ATTR_SM_INFO;
	KUNIT_EXPECT_FALSE(test, ohca_mad_for_device(mad));
	mad->mad_hdr.attr_id = IB_SMP_ATTR_PORT_INFO;
	mad->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	KUNIT_EXPECT_FALSE(test, ohca_mad_for_device(mad));
	mad->mad_hdr.mgmt_class = IB_MGMT_CLASS_PERF_MGMT;
	KUNIT_EXPECT_FALSE(test, ohca_mad_for_device(mad));
	mad->mad_hdr.method = IB_MGMT_METHOD_SET;
	KUNIT_EXPECT_TRUE(test, ohca_mad_for_device(mad));
	mad->mad_hdr.mgmt_class = IB_MGMT_CLASS_CM;
	KUNIT_EXPECT_FALSE(test, ohca_mad_for_device(mad));
}

static void db_needed(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, ohca_db_needed(0, 1, 0));
	KUNIT_EXPECT_FALSE(test, ohca_db_needed(0, 2, 1));
	KUNIT_EXPECT_TRUE(test, ohca_db_needed(3, 5, 2));
	KUNIT_EXPECT_FALSE(test, ohca_db_needed(5, 5, 2));
	KUNIT_EXPECT_TRUE(test, ohca_db_needed(U32_MAX, 3, U32_MAX - 1));
	KUNIT_EXPECT_FALSE(test, ohca_db_needed(5, 3, U32_MAX - 1));
}

/* ohca_entries() accepts any log2 from the device. */
static void entries(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, ohca_entries(0));
	KUNIT_EXPECT_EQ(test, 1u << 31, ohca_entries(31));
	KUNIT_EXPECT_EQ(test, 0, ohca_entries(32));
	KUNIT_EXPECT_EQ(test, 0, ohca_entries(255));
}

/* The EQs of the requested vectors are not more than the device has. */
static void vectors(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 5, ohca_vectors_wanted(64, 32, 4, true));
	KUNIT_EXPECT_EQ(test, 32, ohca_vectors_wanted(64, 32, 200, true));
	KUNIT_EXPECT_EQ(test, 63, ohca_vectors_wanted(64, 2048, 200, true));
	KUNIT_EXPECT_EQ(test, 64, ohca_vectors_wanted(64, 2048, 200, false));
	KUNIT_EXPECT_EQ(test, 1, ohca_vectors_wanted(64, 1, 4, true));
	KUNIT_EXPECT_EQ(test, 2, ohca_vectors_wanted(3, 32, 4, true));
	KUNIT_EXPECT_EQ(test, 0, ohca_vectors_wanted(2, 32, 4, true));
	KUNIT_EXPECT_EQ(test, 2, ohca_vectors_wanted(2, 32, 4, false));
	KUNIT_EXPECT_EQ(test, 0, ohca_vectors_wanted(64, 0, 4, false));
}

static struct kunit_case codec_cases[] = {
	KUNIT_CASE(send_imm),
	KUNIT_CASE(rdma_write),
	KUNIT_CASE(atomics),
	KUNIT_CASE(masked_atomics),
	KUNIT_CASE(atomic_write),
	KUNIT_CASE(reg_and_inval),
	KUNIT_CASE(datagram),
	KUNIT_CASE(large_send),
	KUNIT_CASE(inline_data),
	KUNIT_CASE(refused),
	KUNIT_CASE(recv_wqe),
	KUNIT_CASE(cqe),
	KUNIT_CASE(qp_attr_round_trip),
	KUNIT_CASE(port_info),
	KUNIT_CASE(port_info_bad),
	KUNIT_CASE(mad_filter),
	KUNIT_CASE(db_needed),
	KUNIT_CASE(entries),
	KUNIT_CASE(vectors),
	{}
};

static struct kunit_suite codec_suite = {
	.name = "ohca-codec",
	.test_cases = codec_cases,
};

kunit_test_suite(codec_suite);
