/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Device memory: allocation, regions in it, and what they give access to. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/object/fatal.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "host.h"

#define PAGE	4096u
#define RW	(OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ | \
		 OHCA_ACCESS_REMOTE_ATOMIC | OHCA_ACCESS_ZERO_BASED)

static const struct ohca_atomic add1 = { .op = OHCA_OP_FETCH_ADD, .swap_add = 1 };
static const struct ohca_atomic swap42 = { .op = OHCA_OP_CMP_SWAP, .swap_add = 7, .compare = 42 };

/** struct rig - a machine and two QPs of different PDs */
struct rig {
	struct host *h;
	struct host_cq cq;
	struct host_qp qp[2];
	struct ohca_qp *q[2];
};

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct host_qp_init in = { .scq = &r->cq, .rcq = &r->cq, .uar = 1 };

	r->h = host_new(1, 0x100);
	host_start(r->h);
	host_cq_create(r->h, &r->cq, 4, 1);
	for (unsigned int i = 0; i < 2; i++) {
		in.pdn = host_pd(r->h, 1);
		assert_int_equal(host_qp_create(r->h, &r->qp[i], &in), 0);
		r->q[i] = ohca_qp_get(r->h->e, r->qp[i].handle);
	}
	ohca_dma_enter(r->h->e);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	ohca_dma_exit(r->h->e);
	host_buf_free(&r->cq.buf);
	host_buf_free(&r->qp[0].buf);
	host_buf_free(&r->qp[1].buf);
	host_free(r->h);
	free(r);
	return 0;
}

/* All memory is freed, and the device still runs. */
static void restart(struct rig *r)
{
	ohca_dma_exit(r->h->e);
	host_start(r->h);
	ohca_dma_enter(r->h->e);
}

static int alloc(struct rig *r, uint64_t length, uint8_t log_align, uint32_t *dm, uint64_t *off)
{
	struct ohca_hw_aqe c = HOST_AQE(alloc_dm, .length = length, .log_align = log_align);
	struct ohca_hw_acqe rsp;
	int rc = host_cmd(r->h, OHCA_CMD_ALLOC_DM, &c, &rsp);

	*dm = rsp.alloc_dm.handle;
	*off = rsp.alloc_dm.offset;
	return rc;
}

static int release(struct rig *r, uint32_t dm)
{
	return host_cmd_handle(r->h, OHCA_CMD_FREE_DM, dm, 0);
}

static int reg(struct rig *r, struct ohca_hw_aqe *c, uint32_t *key)
{
	struct ohca_hw_acqe rsp;
	int rc = host_cmd(r->h, OHCA_CMD_REG_MR, c, &rsp);

	*key = rsp.handle.handle;
	return rc;
}

static bool all(const uint8_t *p, uint8_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != v)
			return false;
	return true;
}

/* Whole pages, zeroed, none allocated twice; gaps are used again. */
static void test_alloc(void **state)
{
	struct rig *r = *state;
	uint32_t dm[HOST_DM / PAGE], n = 0, again;
	uint64_t off[HOST_DM / PAGE], at;

	while (n < HOST_DM / PAGE) {
		assert_int_equal(alloc(r, 1 + n, 0, &dm[n], &off[n]), OHCA_ADMIN_OK);
		assert_int_equal(off[n] % PAGE, 0);
		for (uint32_t i = 0; i < n; i++) {
			assert_int_not_equal(off[i], off[n]);
			assert_int_not_equal(dm[i], dm[n]);
		}
		assert_true(all(r->h->dm + off[n], 0, PAGE));
		memset(r->h->dm + off[n], 0x11, PAGE);
		n++;
	}
	assert_int_equal(r->h->dm_dirty, HOST_DM);
	assert_int_equal(alloc(r, 1, 0, &again, &at), OHCA_ADMIN_NO_RESOURCE);
	/* two neighbours make room for both of their pages; nothing else changes */
	assert_int_equal(release(r, dm[5]), OHCA_ADMIN_OK);
	assert_int_equal(release(r, dm[5]), OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(alloc(r, PAGE + 1, 0, &again, &at), OHCA_ADMIN_NO_RESOURCE);
	assert_int_equal(release(r, dm[6]), OHCA_ADMIN_OK);
	assert_int_equal(alloc(r, PAGE + 1, 0, &again, &at), OHCA_ADMIN_OK);
	assert_int_equal(at, off[5]);
	assert_true(all(r->h->dm + at, 0, 2 * PAGE));
	assert_true(all(r->h->dm, 0x11, off[5]));
	assert_true(all(r->h->dm + off[7], 0x11, HOST_DM - off[7]));
	assert_int_equal(release(r, again), OHCA_ADMIN_OK);
	for (uint32_t i = 0; i < n; i++)
		if (i != 5 && i != 6)
			assert_int_equal(release(r, dm[i]), OHCA_ADMIN_OK);
	assert_int_equal(alloc(r, HOST_DM, 18, &again, &at), OHCA_ADMIN_OK);
	assert_int_equal(at, 0);
}

static void test_align(void **state)
{
	struct rig *r = *state;
	uint32_t dm;
	uint64_t off;

	assert_int_equal(alloc(r, 4, 0, &dm, &off), OHCA_ADMIN_OK);
	assert_int_equal(off, 0);
	assert_int_equal(alloc(r, 4, 16, &dm, &off), OHCA_ADMIN_OK);
	assert_int_equal(off, 65536);
	assert_int_equal(alloc(r, 4, 6, &dm, &off), OHCA_ADMIN_OK);
	assert_int_equal(off, PAGE);
	assert_int_equal(alloc(r, 4, 17, &dm, &off), OHCA_ADMIN_OK);
	assert_int_equal(off, 131072);
	/* no room at this alignment, but without it */
	assert_int_equal(alloc(r, 4, 17, &dm, &off), OHCA_ADMIN_NO_RESOURCE);
	assert_int_equal(alloc(r, 65536, 0, &dm, &off), OHCA_ADMIN_OK);
}

static void test_alloc_refused(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(alloc_dm, .length = 4);
	struct ohca_hw_acqe rsp;
	uint32_t dm;
	uint64_t off;

	assert_int_equal(alloc(r, 0, 0, &dm, &off), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x08);
	assert_int_equal(alloc(r, HOST_DM + 1, 0, &dm, &off), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(alloc(r, ~0ull, 0, &dm, &off), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(alloc(r, 4, 19, &dm, &off), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x10);
	assert_int_equal(alloc(r, 4, 255, &dm, &off), OHCA_ADMIN_BAD_PARAM);
	c.alloc_dm.reserved[6] = 1;
	assert_int_equal(host_cmd(r->h, OHCA_CMD_ALLOC_DM, &c, &rsp), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x11);
	assert_int_equal(release(r, 0), OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(release(r, ~0u), OHCA_ADMIN_BAD_HANDLE);
}

static int rkey_check(ohca_engine *e, const struct ohca_qp *qp, uint32_t key, uint64_t addr,
		      uint64_t len, uint32_t access, struct ohca_mr_range *range)
{
	return ohca_rkey_check(e, qp, qp->pd, key, addr, len, access, range);
}

static void test_reg_refused(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe good = HOST_AQE(reg_mr, .length = 100, .pdn = r->q[0]->pd->pdn,
					   .pl_offset = 900, .access = RW, .type = OHCA_MR_DM), c;
	struct ohca_mr_range range;
	uint32_t dm, key;
	uint64_t off;

	assert_int_equal(alloc(r, 1000, 0, &dm, &off), OHCA_ADMIN_OK);
	good.reg_mr.dm = dm;
#define REFUSED(field, value, syn)						\
	c = good;								\
	c.reg_mr.field = (value);						\
	assert_int_equal(reg(r, &c, &key), OHCA_ADMIN_BAD_PARAM);		\
	assert_int_equal(r->h->syndrome, syn)
	REFUSED(length, 101, 0x20);	/* the page continues after the length that was asked for */
	REFUSED(length, ~0ull, 0x20);
	REFUSED(pl_offset, 901, 0x20);
	REFUSED(pl_offset, 1001, 0x30);
	REFUSED(pl_offset, ~0u, 0x30);
	REFUSED(iova, 1, 0x18);
	REFUSED(pl.npages, 1, 0x08);
	REFUSED(pl.root, 4096, 0x08);
	REFUSED(dm, dm + 1, 0x38);
	REFUSED(dm, ~0u, 0x38);
	REFUSED(reserved, 1, 0x3c);
	REFUSED(access, OHCA_ACCESS_LOCAL_WRITE, 0x34);
	/* it does not last */
	REFUSED(access, RW | OHCA_ACCESS_FLUSH_PERSISTENT, 0x34);
#undef REFUSED
	/* without bytes nothing can be accessed */
	c = good;
	c.reg_mr.length = 0;
	assert_int_equal(reg(r, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(rkey_check(r->h->e, r->q[0], key, 0, 1, OHCA_ACCESS_REMOTE_READ,
				    &range), OHCA_VE_BOUNDS);
	assert_int_equal(host_cmd_handle(r->h, OHCA_CMD_DEREG_MR, key, 0), OHCA_ADMIN_OK);
	/* the handle counts for this type only; other types require 0 */
	assert_int_equal(alloc(r, 1000, 0, &key, &off), OHCA_ADMIN_OK);
	c = (struct ohca_hw_aqe)HOST_AQE(reg_mr, .pdn = r->h->pdn, .type = OHCA_MR_DMA,
					 .dm = key);
	assert_int_not_equal(key, 0);
	assert_int_equal(reg(r, &c, &key), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x38);
	assert_int_equal(release(r, dm), OHCA_ADMIN_OK);
	assert_int_equal(reg(r, &good, &key), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x38);
}

static void test_access(void **state)
{
	struct rig *r = *state;
	ohca_engine *e = r->h->e;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = 2000, .pdn = r->q[0]->pd->pdn,
					.pl_offset = 104, .access = RW, .type = OHCA_MR_DM);
	struct ohca_mr_range range;
	uint8_t want[2000], got[2000];
	uint32_t other, key, dm;
	uint64_t off, at, old, v;

	assert_int_equal(alloc(r, 10, 0, &other, &off), OHCA_ADMIN_OK);
	assert_int_equal(alloc(r, 3000, 0, &dm, &off), OHCA_ADMIN_OK);
	c.reg_mr.dm = dm;
	at = off + 104;
	assert_int_equal(reg(r, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(release(r, dm), OHCA_ADMIN_BUSY);
	for (unsigned int i = 0; i < sizeof(want); i++)
		want[i] = (uint8_t)(i * 3 + 1);
	/* as local memory, and as remote memory */
	assert_int_equal(ohca_lkey_check(e, r->q[0], r->q[0]->pd, key, 0, 2000, true, &range), 0);
	assert_int_equal(ohca_mr_write(e, &range, 0, want, 2000, NULL), 0);
	assert_memory_equal(r->h->dm + at, want, 2000);
	assert_true(all(r->h->dm + off, 0, 104));
	assert_true(all(r->h->dm + at + 2000, 0, PAGE - 2104));
	assert_int_equal(ohca_mr_write(e, &range, 1, want, 2000, NULL), -1);
	assert_int_equal(rkey_check(e, r->q[0], key, 500, 100, OHCA_ACCESS_REMOTE_READ,
				    &range), 0);
	assert_int_equal(ohca_mr_read(e, &range, 0, got, 100, NULL), 0);
	assert_memory_equal(got, want + 500, 100);
	assert_int_equal(rkey_check(e, r->q[0], key, 0, 2001, OHCA_ACCESS_REMOTE_READ,
				    &range), OHCA_VE_BOUNDS);
	assert_int_equal(rkey_check(e, r->q[0], key, ~0ull, 1, OHCA_ACCESS_REMOTE_READ,
				    &range), OHCA_VE_BOUNDS);
	assert_int_equal(rkey_check(e, r->q[1], key, 0, 1, OHCA_ACCESS_REMOTE_READ, &range),
			 OHCA_VE_PD);
	/* the guest reads the results of atomics, and they read what the guest wrote */
	v = 41;
	memcpy(r->h->dm + at + 8, &v, 8);
	assert_int_equal(rkey_check(e, r->q[0], key, 8, 8, OHCA_ACCESS_REMOTE_ATOMIC, &range),
			 0);
	assert_int_equal(ohca_mr_atomic(e, &range, &add1, &old, NULL), 0);
	assert_int_equal(old, 41);
	assert_int_equal(ohca_mr_atomic(e, &range, &swap42, &old, NULL), 0);
	assert_int_equal(old, 42);
	memcpy(&v, r->h->dm + at + 8, 8);
	assert_int_equal(v, 7);
	assert_int_equal(rkey_check(e, r->q[0], key, 9, 8, OHCA_ACCESS_REMOTE_ATOMIC, &range),
			 0);
	assert_int_equal(ohca_mr_atomic(e, &range, &add1, &old, NULL), -1);
	/* ATOMIC_WRITE, too, needs alignment */
	assert_int_equal(ohca_mr_write8(e, &range, want, NULL), -1);
	range.off--;
	assert_int_equal(ohca_mr_write8(e, &range, want, NULL), 0);
	assert_memory_equal(r->h->dm + at + 8, want, 8);
	/* REREG_MR is for memory of the guest */
	c = (struct ohca_hw_aqe)HOST_AQE(reg_mr, .key = key, .rereg = OHCA_REREG_ACCESS);
	assert_int_equal(host_cmd(r->h, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_HANDLE);
	/* after the region is deregistered the memory can be freed */
	assert_int_equal(host_cmd_handle(r->h, OHCA_CMD_DEREG_MR, key, 0), OHCA_ADMIN_OK);
	assert_int_equal(ohca_lkey_check(e, r->q[0], r->q[0]->pd, key, 0, 1, true, &range),
			 OHCA_VE_LKEY);
	assert_int_equal(release(r, dm), OHCA_ADMIN_OK);
}

static void test_window(void **state)
{
	struct rig *r = *state;
	ohca_engine *e = r->h->e;
	uint32_t pdn = r->q[0]->pd->pdn;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = 1000, .pdn = pdn, .pl_offset = 16,
					.access = RW | OHCA_ACCESS_MW_BIND, .type = OHCA_MR_DM);
	struct ohca_hw_aqe cw = HOST_AQE(reg_mr, .pdn = pdn, .type = OHCA_MR_MW2);
	struct ohca_hw_wqe_reg w = { .access = OHCA_ACCESS_REMOTE_WRITE, .iova = 100,
				     .length = 50 };
	struct ohca_mr_range range;
	uint32_t key, mw, dm;
	uint64_t off;

	assert_int_equal(alloc(r, 1016, 0, &dm, &off), OHCA_ADMIN_OK);
	c.reg_mr.dm = dm;
	assert_int_equal(reg(r, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(reg(r, &cw, &mw), OHCA_ADMIN_OK);
	w.key = ++mw;
	w.mr_key = key;
	assert_int_equal(ohca_mw_bind(e, r->q[0], &w), 0);
	assert_int_equal(rkey_check(e, r->q[0], mw, 99, 1, OHCA_ACCESS_REMOTE_WRITE, &range),
			 OHCA_VE_BOUNDS);
	assert_int_equal(rkey_check(e, r->q[0], mw, 149, 1, OHCA_ACCESS_REMOTE_WRITE, &range),
			 0);
	assert_int_equal(ohca_mr_write(e, &range, 0, "x", 1, NULL), 0);
	assert_int_equal(r->h->dm[off + 16 + 149], 'x');
	assert_int_equal(host_cmd_handle(r->h, OHCA_CMD_DEREG_MR, key, 0), OHCA_ADMIN_BUSY);
}

/* A device in FATAL does not access it; a reset frees all of it. */
static void test_reset(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = HOST_DM, .pdn = r->q[0]->pd->pdn,
					.access = RW, .type = OHCA_MR_DM);
	struct ohca_mr_range range;
	uint64_t off, old;
	uint32_t dm, key;
	uint8_t byte;

	assert_int_equal(alloc(r, HOST_DM, 0, &dm, &off), OHCA_ADMIN_OK);
	c.reg_mr.dm = dm;
	assert_int_equal(reg(r, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(ohca_lkey_check(r->h->e, r->q[0], r->q[0]->pd, key, 0, 8, true, &range),
			 0);
	assert_int_equal(ohca_mr_read(r->h->e, &range, 0, &byte, 1, NULL), 0);
	ohca_fatal(r->h->e, OHCA_FATAL_INTERNAL);
	assert_int_equal(ohca_mr_write(r->h->e, &range, 0, "x", 1, NULL), -1);
	assert_int_equal(ohca_mr_read(r->h->e, &range, 0, &byte, 1, NULL), -1);
	assert_int_equal(ohca_mr_atomic(r->h->e, &range, &add1, &old, NULL), -1);
	assert_int_equal(r->h->dm[0], 0);
	restart(r);
	memset(r->h->dm, 0x77, HOST_DM);
	assert_int_equal(alloc(r, HOST_DM, 0, &dm, &off), OHCA_ADMIN_OK);
	assert_true(all(r->h->dm, 0, HOST_DM));
}

/* Larger pages of the guest: no two allocations share a page. */
static void test_page_shift(void **state)
{
	struct rig *r = *state;
	uint32_t dm;
	uint64_t off;

	r->h->page_shift = 16;
	restart(r);
	for (uint64_t i = 0; i < HOST_DM; i += 65536) {
		assert_int_equal(alloc(r, 4, 0, &dm, &off), OHCA_ADMIN_OK);
		assert_int_equal(off, i);
	}
	assert_int_equal(alloc(r, 4, 0, &dm, &off), OHCA_ADMIN_NO_RESOURCE);
}

/* Refused without the memory, and without the feature bit. */
static void test_absent(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = 4, .access = RW, .type = OHCA_MR_DM);
	struct ohca_cfg cfg = r->h->cfg;

	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_device_attr attr;
		struct ohca_hw_aqe q;
		struct rig none;
		uint32_t dm;
		uint64_t off;

		cfg.dm_size = i ? 65536 : 0;
		none.h = host_new_cfg(&cfg, HOST_MEM);
		assert_int_equal(ohca_mmio_read(none.h->e, OHCA_REG_FEATURES, 8) >>
				 OHCA_FEATURE_DM & 1, i);
		host_enable(none.h, ~(1ull << OHCA_FEATURE_DM));
		q = (struct ohca_hw_aqe)HOST_AQE(mbox, .addr = none.h->mbox[0]);
		assert_int_equal(host_cmd(none.h, OHCA_CMD_QUERY_DEVICE, &q, NULL), 0);
		memcpy(&attr, host_ptr(none.h, none.h->mbox[0]), sizeof(attr));
		assert_int_equal(attr.dm_size, 0);
		c.reg_mr.pdn = host_pd(none.h, 0);
		assert_int_equal(alloc(&none, 4, 0, &dm, &off), OHCA_ADMIN_BAD_OPCODE);
		assert_int_equal(release(&none, 0), OHCA_ADMIN_BAD_OPCODE);
		assert_int_equal(reg(&none, &c, &dm), OHCA_ADMIN_BAD_PARAM);
		assert_int_equal(none.h->syndrome, 0x36);
		host_free(none.h);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(alloc), T(align), T(alloc_refused), T(reg_refused), T(access), T(window),
		T(reset), T(page_shift), T(absent),
	};

	return cmocka_run_group_tests_name("device memory", tests, NULL, NULL);
}
