/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts of engine states that inputs have reached. See reach.h. */
#include <stdio.h>

#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/xport.h"
#include "reach.h"

static uint64_t count[REACH_NUM];
static bool looked;		/* the target must reach all of them */
static bool peer;		/* and it has a peer */

void reached(enum reach what, bool yes)
{
	peer |= what == REACH_AHEAD;
	count[what] += yes;
}

void reach_look(struct host *h)
{
	struct ohca_hw_eqe e;

	looked = true;
	for (unsigned int n = 0; n < 64 && host_eq_poll(h, &h->async, &e); n++)
		reached(REACH_MIGRATED, e.type == OHCA_EVENT_PATH_MIG);
	for (uint32_t i = 0; i < h->e->max_qp; i++) {
		const struct ohca_qp *qp = h->e->qp[i];

		if (!qp || !qp->xp)
			continue;
		reached(REACH_ARMED, qp->mig_state == OHCA_MIG_ARMED);
		reached(REACH_PACED, qp->xp->sched.paced);
		reached(REACH_PORT2, qp->port == 1 && qp->xp->resp.msn);
	}
}

/* Reports at the end of the process. */
__attribute__((destructor)) static void report(void)
{
	static const char *const name[REACH_NUM] = {
		[REACH_SQD] = "attributes changed in SQD", [REACH_REARM] = "rearmed",
		[REACH_ARMED] = "armed", [REACH_MIGRATED] = "migrated",
		[REACH_PACED] = "paced", [REACH_PORT2] = "received by the second port",
		[REACH_AHEAD] = "before their turn",
	};

	for (unsigned int i = 0; i < REACH_NUM && looked; i++)
		if (i != REACH_AHEAD || peer)
			fprintf(stderr, "reach: %s: %llu\n", name[i],
				(unsigned long long)count[i]);
}
