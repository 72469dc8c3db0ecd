/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory windows: the regions that they may be bound to, by whom, their rights and their end. */
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/mr.h"
#include "engine/object/pd.h"
#include "engine/object/rwqe.h"
#include "mr_rig.h"

static void test_windows(void **state)
{
	struct rig *r = *state;
	uint32_t mw2 = reg(r, OHCA_MR_MW2, r->upd, 0, 0);
	uint32_t mw1 = reg(r, OHCA_MR_MW1, r->upd, 0, 0);
	struct ohca_hw_wqe_reg w = { .access = OHCA_ACCESS_REMOTE_WRITE };
	struct host_mr mr, nobind;

	host_mr_create(r->h, &mr, 10000, r->upd, OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_MW_BIND);
	host_mr_create(r->h, &nobind, 10000, r->upd, OHCA_ACCESS_LOCAL_WRITE);
	w.key = mw2 = (mw2 & ~0xffu) | 9;
	w.mr_key = mr.key;
	w.iova = mr.iova + 1000;
	w.length = 500;
	assert_int_equal(ohca_mw_bind(r->h->e, r->k, &w), OHCA_VE_PD);
	w.mr_key = nobind.key;
	w.iova = nobind.iova;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_ACCESS);
	w.mr_key = mr.key;
	w.iova = mr.iova + 9501;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_BOUNDS);
	w.iova = mr.iova + 1000;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	/* type 2: through this QP alone, no L_Key, exactly these bytes and rights */
	assert_int_equal(rkey(r, r->u, mw2, mr.iova + 1000, 500, OHCA_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(rkey(r, r->u, mw2, mr.iova + 999, 2, OHCA_ACCESS_REMOTE_WRITE),
			 OHCA_VE_BOUNDS);
	assert_int_equal(rkey(r, r->u, mw2, mr.iova + 1000, 501, OHCA_ACCESS_REMOTE_WRITE),
			 OHCA_VE_BOUNDS);
	assert_int_equal(rkey(r, r->u, mw2, mr.iova + 1000, 1, OHCA_ACCESS_REMOTE_READ),
			 OHCA_VE_ACCESS);
	assert_int_equal(rkey(r, r->u2, mw2, mr.iova + 1000, 1, OHCA_ACCESS_REMOTE_WRITE),
			 OHCA_VE_PD);
	assert_int_equal(lkey(r, r->u, mw2, mr.iova + 1000, 1, false), OHCA_VE_LKEY);
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_MR_STATE);
	assert_int_equal(dereg(r, mr.key), OHCA_ADMIN_BUSY);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u2, mw2, true), OHCA_VE_MR_STATE);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u2, mw2, false), OHCA_VE_MR_STATE);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u, mw2, true), 0);
	assert_int_equal(rkey(r, r->u, mw2, mr.iova + 1000, 1, OHCA_ACCESS_REMOTE_WRITE),
			 OHCA_VE_LKEY);
	/* type 1, zero based: any QP of the PD; bound again, and unbound by length 0 */
	w.key = mw1 = (mw1 & ~0xffu) | 5;
	w.access |= OHCA_ACCESS_ZERO_BASED;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	assert_int_equal(rkey(r, r->u2, mw1, 0, 500, OHCA_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(rkey(r, r->u2, mw1, mr.iova + 1000, 1, OHCA_ACCESS_REMOTE_WRITE),
			 OHCA_VE_BOUNDS);
	w.key = ++mw1;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	assert_int_equal(rkey(r, r->u2, mw1 - 1, 0, 1, OHCA_ACCESS_REMOTE_WRITE), OHCA_VE_LKEY);
	w.key = ++mw1;
	w.length = 0;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	assert_int_equal(rkey(r, r->u2, mw1, 0, 0, OHCA_ACCESS_REMOTE_WRITE), OHCA_VE_LKEY);
	/* a window over a window, over nothing, over a key that is not registered */
	w.length = 1;
	w.mr_key = mw2;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_LKEY);
	w.mr_key = 0xffffff00;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_LKEY);
	w.mr_key = reg(r, OHCA_MR_FRMR, r->upd, 0, 4);
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_LKEY);
	/* fields of REG_MR */
	w.mr_key = mr.key;
	w.iova = mr.iova;
	w.pl.root = 4096;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_WQE_FLAGS);
	w.pl.root = 0;
	w.pl.levels = 1;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_WQE_FLAGS);
	w.pl.levels = 0;
	w.pl_offset = 1;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_WQE_FLAGS);
	w.pl_offset = 0;
	assert_int_equal(dereg(r, mr.key), OHCA_ADMIN_OK);
	assert_int_equal(dereg(r, mw1), OHCA_ADMIN_OK);
	assert_int_equal(dereg(r, mw2), OHCA_ADMIN_OK);
	host_buf_free(&mr.buf);
	host_buf_free(&nobind.buf);
}

/* The regions that a window may be bound to, and by whom. */
static void test_window_refused(void **state)
{
	struct rig *r = *state;
	uint32_t mw2 = reg(r, OHCA_MR_MW2, r->upd, 0, 0), mw1 = reg(r, OHCA_MR_MW1, r->upd, 0, 0);
	uint32_t other = reg(r, OHCA_MR_MW1, r->h->pdn, 0, 0);
	struct ohca_hw_wqe_reg w = { .access = OHCA_ACCESS_REMOTE_READ, .key = mw2, .length = 8 };
	struct host_mr mr, foreign, fixed;

	host_mr_create(r->h, &mr, 4096, r->upd, OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_MW_BIND);
	host_mr_create(r->h, &fixed, 4096, r->upd, OHCA_ACCESS_MW_BIND);
	host_mr_create(r->h, &foreign, 4096, r->h->pdn, OHCA_ACCESS_MW_BIND);
	w.mr_key = foreign.key;
	w.iova = foreign.iova;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_PD);
	w.mr_key = mr.key;
	w.iova = mr.iova;
	w.key = other;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_PD);
	w.key = mr.key;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_LKEY);
	w.key = 0xffffff00;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_LKEY);
	/* length 0 unbinds a window of type 1 only */
	w.key = mw2;
	w.length = 0;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_MR_STATE);
	w.length = 8;
	w.access = OHCA_ACCESS_MW_BIND;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_ACCESS);
	/* the peer may write only if the region's owner may */
	w.mr_key = fixed.key;
	w.iova = fixed.iova;
	w.access = OHCA_ACCESS_REMOTE_WRITE;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_ACCESS);
	w.access = OHCA_ACCESS_REMOTE_ATOMIC;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), OHCA_VE_ACCESS);
	w.access = OHCA_ACCESS_REMOTE_READ;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u, mw2, false), 0);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u, mw2, false), OHCA_VE_MR_STATE);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u, mw1, false), OHCA_VE_LKEY);
	/* one byte, the whole region, and its last byte; a byte more on either side */
	w.mr_key = mr.key;
	for (unsigned int i = 0; i < 6; i++) {
		static const struct { int64_t at; uint64_t len; int ve; } part[] = {
			{ 0, 1, 0 }, { 0, 4096, 0 }, { 4095, 1, 0 }, { -1, 2, OHCA_VE_BOUNDS },
			{ 4096, 1, OHCA_VE_BOUNDS }, { 0, 4097, OHCA_VE_BOUNDS },
		};

		w.iova = mr.iova + (uint64_t)part[i].at;
		w.length = part[i].len;
		assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), part[i].ve);
		assert_int_equal(ohca_mr_get(r->h->e, mr.key)->refs, !part[i].ve);
		if (!part[i].ve)
			assert_int_equal(ohca_mr_invalidate(r->h->e, r->u, mw2, false), 0);
	}
	host_buf_free(&mr.buf);
	host_buf_free(&fixed.buf);
	host_buf_free(&foreign.buf);
}

/* A window ends with its QP, even if another QP gets the same number. */
static void test_window_and_qp(void **state)
{
	struct rig *r = *state;
	uint32_t mw = reg(r, OHCA_MR_MW2, r->upd, 0, 0), handle = r->uqp.handle;
	struct ohca_hw_wqe_reg w = { .access = OHCA_ACCESS_REMOTE_READ, .length = 10 };
	struct host_qp_init in = { .scq = &r->ucq, .rcq = &r->ucq, .uar = 1, .pdn = r->upd,
				   .log_sq = 1, .log_rq = 1 };
	uint32_t mw2 = reg(r, OHCA_MR_MW2, r->upd, 0, 0), mw1 = reg(r, OHCA_MR_MW1, r->upd, 0, 0);
	struct ohca_qp *other;
	struct host_mr mr;

	host_mr_create(r->h, &mr, 100, r->upd, OHCA_ACCESS_MW_BIND);
	w.key = ++mw;
	w.mr_key = mr.key;
	w.iova = mr.iova;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	w.key = ++mw1;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	/* one that is deallocated before, and one of another QP */
	w.key = mw2;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u, &w), 0);
	assert_int_equal(dereg(r, mw2), OHCA_ADMIN_OK);
	mw2 = reg(r, OHCA_MR_MW2, r->upd, 0, 0);
	w.key = mw2;
	assert_int_equal(ohca_mw_bind(r->h->e, r->u2, &w), 0);
	host_qp_destroy(&r->uqp);
	assert_int_equal(ohca_mr_get(r->h->e, mr.key)->refs, 2);
	assert_int_equal(rkey(r, r->u2, mw2, mr.iova, 1, OHCA_ACCESS_REMOTE_READ), 0);
	/* a window of type 1 belongs to the PD */
	assert_int_equal(rkey(r, r->u2, mw1, mr.iova, 1, OHCA_ACCESS_REMOTE_READ), 0);
	while (host_qp_create(r->h, &r->uqp, &in) == 0 && r->uqp.handle != handle)
		host_qp_destroy(&r->uqp);
	other = ohca_qp_get(r->h->e, handle);
	assert_non_null(other);
	assert_int_equal(rkey(r, other, mw, mr.iova, 1, OHCA_ACCESS_REMOTE_READ), OHCA_VE_LKEY);
	/* it is not bound any more: the region can be deregistered, and the window bound again */
	w.key = ++mw;
	assert_int_equal(ohca_mw_bind(r->h->e, other, &w), 0);
	assert_int_equal(rkey(r, other, mw, mr.iova, 1, OHCA_ACCESS_REMOTE_READ), 0);
	assert_int_equal(dereg(r, mr.key), OHCA_ADMIN_BUSY);
	host_qp_destroy(&r->uqp);
	assert_int_equal(dereg(r, mw1), OHCA_ADMIN_OK);
	assert_int_equal(dereg(r, mw2), OHCA_ADMIN_OK);
	assert_int_equal(dereg(r, mr.key), OHCA_ADMIN_OK);
	assert_int_equal(dereg(r, mw), OHCA_ADMIN_OK);
	/* teardown expects a QP */
	assert_int_equal(host_qp_create(r->h, &r->uqp, &in), 0);
	host_buf_free(&mr.buf);
}

/* An HCA has windows of type 2A or 2B; the driver reads which type it is, and acknowledges it. */
static void test_window_type(void **state)
{
	const uint64_t bit = 1ull << OHCA_FEATURE_MW_TYPE_2A;
	struct rig *r = *state;
	struct ohca_cfg cfg = r->h->cfg;
	struct host *h;

	assert_false(ohca_mmio_read(r->h->e, OHCA_REG_FEATURES, 8) & bit);
	cfg.dm_size = 0;
	cfg.mw_type_2a = true;
	h = host_new_cfg(&cfg, HOST_MEM);
	assert_true(ohca_mmio_read(h->e, OHCA_REG_FEATURES, 8) & bit);
	host_enable(h, ~bit);
	host_free(h);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(windows), T(window_refused), T(window_and_qp), T(window_type),
	};

	return cmocka_run_group_tests_name("memory windows", tests, NULL, NULL);
}
