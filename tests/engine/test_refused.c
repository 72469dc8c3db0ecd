/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that are refused, for one reason at a time: a feature, a handle, a field that must be
 * zero.
 */
#include "engine/base/features.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "rig.h"

#define NO_HANDLE	0x00ffffffu

/** struct use - a command that needs a feature */
struct use {
	enum ohca_feature feature;
	uint8_t opcode;
	int status;		/* without the feature */
	uint16_t syndrome;
	struct ohca_hw_aqe c;
};

#define AT(member)	((uint16_t)(offsetof(struct ohca_hw_aqe, member)))
#define USES	16u

static void uses(struct use u[USES], struct host *h, const struct host_buf *buf,
		 const struct host_cq *cq)
{
	const struct ohca_hw_pl pl = buf->pl;
	unsigned int n = 0;

#define USE(f, op, rc, syn, ...)							\
	u[n++] = (struct use){ OHCA_FEATURE_##f, OHCA_CMD_##op, OHCA_ADMIN_##rc, syn,	\
			       HOST_AQE(__VA_ARGS__) }
	USE(FRMR, REG_MR, BAD_PARAM, AT(reg_mr.type), reg_mr, .pdn = h->pdn, .type = OHCA_MR_FRMR,
	    .length = 4);
	USE(MW, REG_MR, BAD_PARAM, AT(reg_mr.type), reg_mr, .pdn = h->pdn, .type = OHCA_MR_MW1);
	USE(MW, REG_MR, BAD_PARAM, AT(reg_mr.type), reg_mr, .pdn = h->pdn, .type = OHCA_MR_MW2);
	USE(DM, ALLOC_DM, BAD_OPCODE, 0, alloc_dm, .length = 64);
	USE(DM, REG_MR, BAD_PARAM, AT(reg_mr.type), reg_mr, .pdn = h->pdn, .type = OHCA_MR_DM,
	    .access = OHCA_ACCESS_ZERO_BASED, .length = 64);
	USE(MPE, REG_MR, BAD_PARAM, AT(reg_mr.access), reg_mr, .pdn = h->pdn,
	    .type = OHCA_MR_USER, .access = OHCA_ACCESS_FLUSH_GLOBAL, .length = HOST_PAGE,
	    .pl = pl);
	USE(MPE, REG_MR, BAD_PARAM, AT(reg_mr.access), reg_mr, .pdn = h->pdn,
	    .type = OHCA_MR_USER, .access = OHCA_ACCESS_FLUSH_PERSISTENT, .length = HOST_PAGE,
	    .pl = pl);
	USE(ODP, CREATE_EQ, BAD_PARAM, AT(create_eq.kind), create_eq, .log_size = 8,
	    .kind = OHCA_EQ_FAULT, .pl = pl);
	USE(XRC, ALLOC_XRCD, BAD_OPCODE, 0, alloc_pd, .uar = 0);
	USE(SRQ, CREATE_SRQ, BAD_OPCODE, 0, create_srq, .pdn = h->pdn, .log_size = 2,
	    .log_stride = 6, .pl = pl);
	USE(TM, CREATE_SRQ, BAD_PARAM, AT(create_srq.type), create_srq, .pdn = h->pdn,
	    .log_size = 2, .log_stride = 6, .type = OHCA_SRQT_TM, .cqn = cq->cqn, .num_tags = 4,
	    .pl = pl);
	USE(QP_COUNTERS, ALLOC_COUNTERS, BAD_OPCODE, 0, alloc_pd, .uar = 0);
	USE(CQ_RESIZE, RESIZE_CQ, BAD_OPCODE, 0, resize_cq, .cqn = cq->cqn, .log_size = 5,
	    .pl = pl);
	USE(QUERY_CONTEXT, QUERY_CONTEXT, BAD_OPCODE, 0, query_context,
	    .kind = OHCA_CONTEXT_CQ, .handle = cq->cqn, .addr = h->mbox[0]);
	USE(SRQ_RESIZE, RESIZE_SRQ, BAD_OPCODE, 0, resize_srq, .srqn = NO_HANDLE);
	USE(QP_RESIZE, RESIZE_QP, BAD_OPCODE, 0, resize_qp, .handle = NO_HANDLE);
#undef USE
	assert_int_equal(n, USES);
}

/* Each command needs its own feature and no other. */
static void test_features(void **state)
{
	static struct use u[USES];

	(void)state;
	for (unsigned int f = 1; f < 64; f++) {
		struct host_buf buf;
		struct host_cq cq;
		struct host *h;

		if (!(OHCA_ALL_FEATURES >> f & 1) || f == OHCA_FEATURE_BIG_ENDIAN ||
		    f == OHCA_FEATURE_MW_TYPE_2A)
			continue;
		h = host_new(1, 0x100);
		host_start_with(h, OHCA_ALL_FEATURES & ~(1ull << OHCA_FEATURE_BIG_ENDIAN) &
				~(1ull << f));
		host_cq_create(h, &cq, 4, 0);
		host_buf_alloc(h, &buf, 64 * HOST_PAGE);
		uses(u, h, &buf, &cq);
		for (unsigned int i = 0; i < USES; i++) {
			bool none = u[i].opcode == OHCA_CMD_RESIZE_SRQ ||
				    u[i].opcode == OHCA_CMD_RESIZE_QP;
			int rc = host_cmd(h, u[i].opcode, &u[i].c, NULL);

			if (u[i].feature == f) {
				assert_int_equal(rc, u[i].status);
				assert_int_equal(h->syndrome, u[i].syndrome);
			} else if (u[i].c.reg_mr.type == OHCA_MR_DM &&
				   u[i].opcode == OHCA_CMD_REG_MR) {
				/* the first memory has handle 0 */
				assert_int_equal(rc, f == OHCA_FEATURE_DM ?
						 OHCA_ADMIN_BAD_PARAM : 0);
			} else if (f != OHCA_FEATURE_SRQ || u[i].opcode != OHCA_CMD_CREATE_SRQ) {
				assert_int_equal(rc, none ? OHCA_ADMIN_BAD_HANDLE : 0);
			}
		}
		host_buf_free(&buf);
		host_buf_free(&cq.buf);
		host_free(h);
	}
}

/* Every command with the number of an object. */
static void test_handles(void **state)
{
	static const uint8_t opcode[] = {
		OHCA_CMD_DESTROY_EQ, OHCA_CMD_DEALLOC_PD, OHCA_CMD_DESTROY_CQ, OHCA_CMD_MODIFY_CQ,
		OHCA_CMD_DESTROY_SRQ, OHCA_CMD_MODIFY_SRQ, OHCA_CMD_QUERY_SRQ, OHCA_CMD_DESTROY_QP,
		OHCA_CMD_DEREG_MR, OHCA_CMD_DEALLOC_XRCD, OHCA_CMD_FREE_DM, OHCA_CMD_FREE_COUNTERS,
	};
	static const uint32_t number[] = { NO_HANDLE, 0xffffffffu, 200, 0x10000 };
	struct host *h = host_new(1, 0x100);
	struct ohca_hw_aqe c;

	(void)state;
	host_start(h);
	for (unsigned int n = 0; n < sizeof(number) / sizeof(number[0]); n++) {
		for (unsigned int i = 0; i < sizeof(opcode); i++) {
			c = HOST_AQE(handle, .handle = number[n]);
			assert_int_equal(host_cmd(h, opcode[i], &c, NULL), OHCA_ADMIN_BAD_HANDLE);
		}
#define NONE(op, ...)									\
		c = HOST_AQE(__VA_ARGS__);						\
		assert_int_equal(host_cmd(h, OHCA_CMD_##op, &c, NULL), OHCA_ADMIN_BAD_HANDLE)
		NONE(RESIZE_CQ, resize_cq, .cqn = number[n]);
		NONE(RESIZE_SRQ, resize_srq, .srqn = number[n]);
		NONE(RESIZE_QP, resize_qp, .handle = number[n]);
		NONE(QUERY_QP, handle, .handle = number[n]);
		NONE(REREG_MR, reg_mr, .key = number[n], .rereg = OHCA_REREG_ACCESS);
		NONE(UPDATE_MR_PAGES, update_mr, .key = number[n], .npages = 1);
		NONE(PAGE_FAULT_RESUME, fault_resume, .id = number[n]);
		NONE(ATTACH_MCAST, mcast, .qp = number[n], .mgid = { 0xff, 1 });
		NONE(DETACH_MCAST, mcast, .qp = number[n], .mgid = { 0xff, 1 });
#undef NONE
	}
	host_free(h);
}

/* Each byte of a reserved field; the syndrome names the field. */
static void test_reserved(void **state)
{
	struct host_buf buf;
	struct host_cq cq;
	struct host_qp ud;
	struct host *h;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .srq = true });
	h = r.h[0];
	host_cq_create(h, &cq, 4, 0);
	assert_int_equal(host_qp_create(h, &ud, &(struct host_qp_init){
		.type = OHCA_QPT_UD, .scq = &cq, .rcq = &cq }), 0);
	host_buf_alloc(h, &buf, 64 * HOST_PAGE);
#define RESERVED(op, body, member, ...)							\
	for (unsigned int i = 0; i < sizeof(((struct ohca_hw_aqe *)0)->body.member); i++) {	\
		struct ohca_hw_aqe c_ = HOST_AQE(body, __VA_ARGS__);			\
											\
		((uint8_t *)&c_)[AT(body.member) + i] = 1;				\
		assert_int_equal(host_cmd(h, OHCA_CMD_##op, &c_, NULL), OHCA_ADMIN_BAD_PARAM);	\
		assert_int_equal(h->syndrome, AT(body.member));				\
	}
	RESERVED(RESIZE_CQ, resize_cq, reserved, .cqn = cq.cqn, .log_size = 5, .pl = buf.pl)
	RESERVED(CREATE_QP, create_qp, reserved, .pdn = h->pdn, .send_cqn = cq.cqn,
		 .recv_cqn = cq.cqn, .type = OHCA_QPT_RC, .log_sq = 4, .log_rq = 4,
		 .log_rq_stride = 7, .pl = buf.pl)
	RESERVED(RESIZE_QP, resize_qp, reserved, .handle = r.qp[0].handle, .log_sq = 7,
		 .pl = buf.pl)
	RESERVED(CREATE_SRQ, create_srq, reserved, .pdn = h->pdn, .log_size = 4, .log_stride = 7,
		 .pl = buf.pl)
	RESERVED(RESIZE_SRQ, resize_srq, reserved, .srqn = r.srq[0].srqn, .log_size = 7,
		 .pl = buf.pl)
	RESERVED(REG_MR, reg_mr, reserved, .pdn = h->pdn, .type = OHCA_MR_USER,
		 .length = HOST_PAGE, .pl = buf.pl)
	RESERVED(ATTACH_MCAST, mcast, reserved, .qp = ud.handle, .mgid = { 0xff, 1 })
#undef RESERVED
	host_buf_free(&buf);
	host_qp_destroy(&ud);
	host_cq_destroy(&cq);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_features),
		cmocka_unit_test(test_handles),
		cmocka_unit_test(test_reserved),
	};

	return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
