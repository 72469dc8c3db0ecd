/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine with a kernel's QP and a process's QP, and calls for its regions and windows. */
#ifndef TESTS_MR_RIG_H
#define TESTS_MR_RIG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "host.h"

#define RW	(OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE | \
		 OHCA_ACCESS_REMOTE_READ | OHCA_ACCESS_REMOTE_ATOMIC)

/** struct rig - a machine with a kernel's QP and a process's */
struct rig {
	struct host *h;
	struct host_cq kcq, ucq;
	struct host_qp kqp, uqp, uqp2;
	uint32_t upd;
	struct ohca_qp *k, *u, *u2;
};

/** setup - makes the rig, for cmocka */
static inline int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct host *h = host_new(1, 0x100);
	struct host_qp_init in = { .scq = &r->kcq, .rcq = &r->kcq,
				   .flags = OHCA_QP_PRIVILEGED };

	r->h = h;
	host_start(h);
	host_cq_create(h, &r->kcq, 4, 0);
	assert_int_equal(host_qp_create(h, &r->kqp, &in), 0);
	r->upd = host_pd(h, 1);
	host_cq_create(h, &r->ucq, 4, 1);
	in = (struct host_qp_init){ .scq = &r->ucq, .rcq = &r->ucq, .uar = 1, .pdn = r->upd };
	assert_int_equal(host_qp_create(h, &r->uqp, &in), 0);
	assert_int_equal(host_qp_create(h, &r->uqp2, &in), 0);
	r->k = ohca_qp_get(h->e, r->kqp.handle);
	r->u = ohca_qp_get(h->e, r->uqp.handle);
	r->u2 = ohca_qp_get(h->e, r->uqp2.handle);
	ohca_dma_enter(h->e);
	*state = r;
	return 0;
}

/** teardown - frees it, for cmocka */
static inline int teardown(void **state)
{
	struct rig *r = *state;

	ohca_dma_exit(r->h->e);
	host_buf_free(&r->kcq.buf);
	host_buf_free(&r->ucq.buf);
	host_buf_free(&r->kqp.buf);
	host_buf_free(&r->uqp.buf);
	host_buf_free(&r->uqp2.buf);
	host_free(r->h);
	free(r);
	return 0;
}

/** cmd - executes a command; returns its status, and the handle in @key unless NULL */
static inline int cmd(struct rig *r, uint8_t op, struct ohca_hw_aqe *c, uint32_t *key)
{
	struct ohca_hw_acqe rsp;
	int rc = host_cmd(r->h, op, c, &rsp);

	if (key)
		*key = rsp.handle.handle;
	return rc;
}

/** dereg - DEREG_MR; returns its status */
static inline int dereg(struct rig *r, uint32_t key)
{
	return host_cmd_handle(r->h, OHCA_CMD_DEREG_MR, key, 0);
}

/** reg - REG_MR, which must succeed; returns the key */
static inline uint32_t reg(struct rig *r, uint8_t type, uint32_t pdn, uint16_t access, uint64_t length)
{
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .type = type, .pdn = pdn, .access = access,
					     .length = length);
	uint32_t key;

	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &key), OHCA_ADMIN_OK);
	return key;
}

/* Checks the range that a key check returned; @range had other contents before. */
static inline int ranged(struct rig *r, int ve, uint32_t key, uint64_t len,
			 const struct ohca_mr_range *range)
{
	const struct ohca_mr *mr = ohca_mr_get(r->h->e, key);

	if (ve)
		return ve;
	mr = mr ? mr : r->h->e->local_dma;
	assert_ptr_equal(range->mr, mr->bound ? mr->bound : mr);
	assert_int_equal(range->len, len);
	return 0;
}

/** lkey - the result of ohca_lkey_check() */
static inline int lkey(struct rig *r, struct ohca_qp *qp, uint32_t key, uint64_t addr,
		       uint64_t len, bool write)
{
	struct ohca_mr_range range;

	memset(&range, 0xa5, sizeof(range));
	return ranged(r, ohca_lkey_check(r->h->e, qp, qp->pd, key, addr, len, write, &range), key,
		      len, &range);
}

/** rkey - the result of ohca_rkey_check() */
static inline int rkey(struct rig *r, struct ohca_qp *qp, uint32_t key, uint64_t addr,
		       uint64_t len, uint32_t access)
{
	struct ohca_mr_range range;

	memset(&range, 0xa5, sizeof(range));
	return ranged(r, ohca_rkey_check(r->h->e, qp, qp->pd, key, addr, len, access, &range), key,
		      len, &range);
}

#endif
