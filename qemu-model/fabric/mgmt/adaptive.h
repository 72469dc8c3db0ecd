/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A manager of adaptive routing: which ports of switches are the groups of graph/adaptive.h. */
#ifndef OHCA_FABRIC_MGMT_ADAPTIVE_H
#define OHCA_FABRIC_MGMT_ADAPTIVE_H

#include "fabric/graph/adaptive.h"
#include "mgmt.h"

/** enum fab_adaptive_error - why there are no groups */
enum fab_adaptive_error {
	FAB_ADAPTIVE_NO_MEMORY = -1,	/* no switch has adaptive routing any more */
	/* a table has, or those of the LIDs before are not made: another client has begun, or nobody */
	FAB_ADAPTIVE_CHANGED = -2,
	/* packets might wait for each other for ever: no switch has adaptive routing any more */
	FAB_ADAPTIVE_CIRCLE = -3,
};

/**
 * fab_adaptive_on() - switch @node has adaptive routing from now on, or FAB_NONE: all have
 *
 * All groups of all switches are to be made anew by fab_adaptive_fill(); until then none has any.
 *
 * Return: false: out of memory; those that have not got it have none.
 */
bool fab_adaptive_on(struct fab_mgmt *m, uint32_t node, const struct fab_adaptive_cfg *cfg);

/** fab_adaptive_off() - it has none, or FAB_NONE: none has */
void fab_adaptive_off(struct fab_mgmt *m, uint32_t node);

/**
 * fab_adaptive_fill() - make the groups of LIDs from @lid on, 0 or what the call before has returned, some at a time
 *
 * A group has the ports that lead to another switch from which the way by forwarding tables is one
 * switch shorter than from here. So ways by any of them end, after as many switches as by the
 * tables alone. Cables count, not links: one that is down may come up. There is no group of one
 * port.
 *
 * Return: LID to go on with; 0: all are made, and in use; or one of enum fab_adaptive_error.
 */
int fab_adaptive_fill(struct fab_mgmt *m, uint32_t lid);

#endif
