/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Timers of QPs. */
#ifndef OHCA_TRANSPORT_TIMER_H
#define OHCA_TRANSPORT_TIMER_H

#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/qp.h"
#include "ib/rate.h"

struct ohca_sched;
struct ohca_xport;

#define OHCA_MIN_RTO_NS		16000000ull	/* a host may delay a thread by milliseconds */

/* How long the requester of @qp waits for a response, ns. */
static inline uint64_t ohca_rto_ns(const struct ohca_qp *qp)
{
	/* the timeout may be up to four times the code's value (IBTA vol 1, 9.7.6.1.3) */
	uint64_t t = 4 * ib_time_ns(qp->timeout);

	return t < OHCA_MIN_RTO_NS ? OHCA_MIN_RTO_NS : t;
}

/* Set the timer to expire at @t, ns; OHCA_NO_DEADLINE stops it. */
void ohca_timer_set(ohca_engine *e, struct ohca_xport *xp, uint64_t t);
/* Remove @xp from the heap. */
void ohca_timer_forget(struct ohca_sched *s, struct ohca_xport *xp);
/* Run the timers that are due at sched->now, as far as the allowance of work covers. */
void ohca_timers_run(ohca_engine *e);
/* Make room for the timer of one more QP. 0 or -1 (memory) */
int ohca_timers_grow(ohca_engine *e);

#endif /* OHCA_TRANSPORT_TIMER_H */
