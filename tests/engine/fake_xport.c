/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A transport that only records calls. See fake_xport.h. */
#include <string.h>

#include "engine/base/guestmem.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "engine/transport/madq.h"
#include "engine/transport/sched.h"
#include "engine/transport/tx.h"
#include "fake_xport.h"

struct fake_xport fake;

void ohca_xp_migrated(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
}

int ohca_sched_init(ohca_engine *e)
{
	(void)e;
	return 0;
}

void ohca_sched_free(ohca_engine *e)
{
	(void)e;
}

void ohca_sched_reset(ohca_engine *e)
{
	(void)e;
	fake.resets++;
}

bool ohca_sched_empty(ohca_engine *e)
{
	(void)e;
	return true;
}

void ohca_sched_continue(ohca_engine *e, const ohca_engine *was)
{
	(void)e;
	(void)was;
}

bool ohca_sched_run(ohca_engine *e, unsigned int budget)
{
	(void)e;
	(void)budget;
	return false;
}

uint64_t ohca_sched_deadline(const ohca_engine *e)
{
	(void)e;
	return OHCA_NO_DEADLINE;
}

int ohca_xp_reserve(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
	return 0;
}

size_t ohca_xp_bytes(void)
{
	return 0;
}

void ohca_xp_soon(const struct ohca_qp *qp)
{
	(void)qp;
}

int ohca_xp_create(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
	if (fake.fail_create)
		return -1;
	fake.created++;
	return 0;
}

int ohca_xp_sq_posted(ohca_engine *e, const struct ohca_qp *qp, uint32_t *ci, uint32_t *pi)
{
	*ci = 0;
	return ohca_pages_load32(e, &qp->buf, offsetof(struct ohca_hw_db, sq_pi), pi);
}

void ohca_xp_sq_moved(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
}

void ohca_xp_last_words(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
	fake.last_words++;
}

bool ohca_xp_tags_flush(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
	return true;
}

void ohca_xp_destroy(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
	fake.destroyed++;
}

int ohca_xp_state(ohca_engine *e, struct ohca_qp *qp, uint8_t old, uint32_t mask)
{
	(void)e;
	fake.states++;
	fake.last_handle = qp->handle;
	fake.last_old = old;
	fake.last_mask = mask;
	return fake.fail_state ? -1 : 0;
}

void ohca_xp_srq_gone(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	(void)qp;
	fake.srqs_gone++;
}

void ohca_xp_kick_sq(ohca_engine *e, struct ohca_qp *qp, bool several)
{
	(void)several;
	(void)e;
	fake.kicks_sq++;
	fake.last_handle = qp->handle;
	if (fake.on_kick_sq)
		fake.on_kick_sq(qp->handle);
}

void ohca_xp_kick_rq(ohca_engine *e, struct ohca_qp *qp)
{
	(void)e;
	fake.kicks_rq++;
	fake.last_handle = qp->handle;
}

void ohca_xp_query(ohca_engine *e, const struct ohca_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn,
		   bool *draining)
{
	(void)e;
	*sq_psn = qp->sq_psn;
	*rq_psn = qp->rq_psn;
	*draining = false;
}

void ohca_xp_context(const struct ohca_qp *qp, struct ohca_hw_qp_context *x)
{
	(void)qp;
	(void)x;
}

void ohca_xp_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes)
{
	(void)e;
	(void)port;
	(void)lanes;
}

void ohca_xp_port(ohca_engine *e, unsigned int port)
{
	(void)e;
	(void)port;
	fake.ports++;
}

void ohca_mad_send(ohca_engine *e, unsigned int port, unsigned int src_qp,
		   const struct ohca_hw_av *av, uint16_t pkey, uint16_t slid, const uint8_t *mad)
{
	(void)e;
	(void)port;
	fake.mads++;
	fake.mad_qp = src_qp;
	fake.mad_av = *av;
	fake.mad_pkey = pkey;
	fake.mad_slid = slid;
	memcpy(fake.mad, mad, 256);
}

void ohca_rx(ohca_engine *e, unsigned int port, const struct ohca_frame *f)
{
	(void)e;
	(void)port;
	(void)f;
}

bool ohca_rx_room(const ohca_engine *e, unsigned int n, uint32_t len)
{
	(void)e;
	(void)n;
	(void)len;
	return true;
}

void ohca_xp_mcast_left(ohca_engine *e, const uint8_t mgid[16], uint32_t index)
{
	(void)e;
	(void)mgid;
	(void)index;
}

void ohca_congestion_set(ohca_engine *e, unsigned int port, const struct ib_cc_ca *ca)
{
	(void)e;
	(void)port;
	(void)ca;
}

void ohca_xp_wait_update(ohca_engine *e)
{
	(void)e;
}

void ohca_xp_resume(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		    uint32_t wqe_idx, bool ok)
{
	(void)e;
	(void)qp;
	(void)side;
	(void)wqe_idx;
	(void)ok;
	fake.resumes++;
}

void ohca_xp_fault_room(ohca_engine *e, uint32_t n)
{
	(void)e;
	(void)n;
}
