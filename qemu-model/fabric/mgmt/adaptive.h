/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The manager of adaptive routing: finds the ports of the groups of graph/adaptive.h. */
#ifndef OHCA_FABRIC_MGMT_ADAPTIVE_H
#define OHCA_FABRIC_MGMT_ADAPTIVE_H

#include "fabric/graph/adaptive.h"
#include "mgmt.h"

/** enum fab_adaptive_error - why there are no groups */
enum fab_adaptive_error {
	FAB_ADAPTIVE_NO_MEMORY = -1,	/* no switch has adaptive routing any more */
	/*
	 * a table has changed, or the groups of lower LIDs are missing: another client has begun,
	 * or none
	 */
	FAB_ADAPTIVE_CHANGED = -2,
	/* packets might wait for each other for ever: no switch has adaptive routing any more */
	FAB_ADAPTIVE_CIRCLE = -3,
};

/**
 * fab_adaptive_on() - switch adaptive routing on at switch @node, or FAB_NONE: at all switches
 *
 * All groups of all switches must then be made again by fab_adaptive_fill(); until then none
 * exists.
 *
 * Return: false: out of memory; it stays off at switches where it is not on yet.
 */
bool fab_adaptive_on(struct fab_mgmt *m, uint32_t node, const struct fab_adaptive_cfg *cfg);

/** fab_adaptive_off() - switch it off at switch @node, or FAB_NONE: at all */
void fab_adaptive_off(struct fab_mgmt *m, uint32_t node);

/**
 * fab_adaptive_fill() - make the groups of some LIDs from @lid on; 0, or what the last call has
 *	returned
 *
 * A group has the ports that lead to another switch from which the path by forwarding tables is one
 * switch shorter than from here. So paths by any of them end, after as many switches as by the
 * tables alone. Cables count, not links: a link that is down may come up. A group has at least two
 * ports.
 *
 * Return: LID for the next call; 0: all are made, and in use; or one of enum fab_adaptive_error.
 */
int fab_adaptive_fill(struct fab_mgmt *m, uint32_t lid);

#endif
