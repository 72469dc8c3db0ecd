/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For tests of CQs and EQs: a machine, entries of a CQ, and the events that it receives. */
#ifndef OHCA_TEST_EVENTS_H
#define OHCA_TEST_EVENTS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/object/cq.h"
#include "host.h"

static inline int setup(void **state)
{
	struct host *h = host_new(1, 0x100);

	host_start(h);
	host_settle(&h, 1);
	*state = h;
	return 0;
}

static inline int teardown(void **state)
{
	host_free(*state);
	return 0;
}

/* The engine completes a WQE. */
static inline int push(struct host_cq *cq, uint64_t wr_id, bool solicited)
{
	struct ohca_hw_cqe cqe = { .wr_id = wr_id };
	int rc;

	ohca_dma_enter(cq->h->e);
	rc = ohca_cq_push(cq->h->e, ohca_cq_get(cq->h->e, cq->cqn), &cqe, solicited);
	ohca_dma_exit(cq->h->e);
	return rc;
}

static inline unsigned int events(struct host *h, uint32_t cqn)
{
	struct ohca_hw_eqe eqe;
	unsigned int n = 0;

	while (host_eq_poll(h, &h->comp, &eqe)) {
		assert_int_equal(eqe.type, OHCA_EVENT_COMP);
		assert_int_equal(eqe.handle, cqn);
		n++;
	}
	return n;
}

static inline void async_is(struct host *h, uint8_t type, uint32_t handle)
{
	struct ohca_hw_eqe eqe;

	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, type);
	assert_int_equal(eqe.handle, handle);
	host_eq_db(h, &h->async, true);
	host_settle(&h, 1);
}

#endif /* OHCA_TEST_EVENTS_H */
