/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adaptive routing of a switch: groups of output ports, each of which leads a LID one switch nearer
 * to its port. Which ports these are is a matter of cables and forwarding tables alone
 * (mgmt/adaptive.c); by which of them a packet leaves is one of what waits there (data/adaptive.c).
 */
#ifndef OHCA_FABRIC_GRAPH_ADAPTIVE_H
#define OHCA_FABRIC_GRAPH_ADAPTIVE_H

#include "graph.h"

#define FAB_ADAPTIVE_GROUPS	255u	/* of a switch; LIDs that would need one more have none */
#define FAB_ADAPTIVE_FLOWS	2048u	/* of a switch, which its groups share */
#define FAB_ADAPTIVE_GAP_NS	1000000u	/* usual gap */

/**
 * struct fab_adaptive_cfg - how packets of groups are spread
 * @sls: service levels whose packets are, a bit for each; those of others leave by the port of the
 *	LinearForwardingTable while that has a link
 * @any_order: their receivers take packets of UC and RDMA WRITEs of RC in any order
 * @gap_ns: of which nothing has come for so long, times the rate scale, is a flow that may go
 *	another way. Packets of before that are supposed to have arrived
 */
struct fab_adaptive_cfg {
	uint16_t sls;
	bool any_order;
	uint64_t gap_ns;
};

/**
 * struct fab_adaptive_group - ports
 * @port: a bit for each
 * @first, @mask: the flows of this group are @first to @first + @mask of struct fab_adaptive.flow
 */
struct fab_adaptive_group {
	uint64_t port[4];
	uint16_t first, mask;
};

/**
 * struct fab_adaptive - of a switch with adaptive routing
 * @lids: LIDs that may have groups; 0: they are not all made yet. @room: elements of @of
 * @groups: of @group
 * @of: group of a LID, from 1; 0: it has none
 * @group: [@groups]
 * @flow: the port by which packets of a flow leave, and from bit 8 on, in ns, when the last one
 *	came; a flow is all packets whose SLIDs, DLIDs and SLs lead here, 0: there was none
 * @any: the port of those that may come in any order
 */
struct fab_adaptive {
	struct fab_adaptive_cfg cfg;
	uint16_t lids, room;
	uint16_t groups;
	uint8_t *of;
	struct fab_adaptive_group *group;
	uint64_t flow[FAB_ADAPTIVE_FLOWS];
	uint8_t any[FAB_ADAPTIVE_FLOWS];
};

/** fab_adaptive_free() - the switch @sw has no adaptive routing, if it had any */
void fab_adaptive_free(struct fab_switch *sw);

/** fab_adaptive_changed() - what switches have of it is another: fab.any_order is what they say now */
void fab_adaptive_changed(struct fab *f);

/** fab_adaptive_bytes() - memory that it takes */
size_t fab_adaptive_bytes(const struct fab_switch *sw);

/** fab_adaptive_has() - port @num, at most 255, is one of @g */
static inline bool fab_adaptive_has(const struct fab_adaptive_group *g, unsigned int num)
{
	return g->port[num / 64] >> (num % 64) & 1;
}

/**
 * fab_adaptive_group() - the group of @lid at switch @sw
 * @num: its port in the LinearForwardingTable
 *
 * While any table of the fabric is another one than when groups were made, ways by these might lead
 * in a circle: there are none then.
 *
 * Return: NULL: it has none.
 */
static inline const struct fab_adaptive_group *fab_adaptive_group(const struct fab *f,
								  const struct fab_switch *sw,
								  uint16_t lid, unsigned int num)
{
	const struct fab_adaptive *a = sw->adaptive;
	const struct fab_adaptive_group *g;

	if (!a || f->lfts_differ || lid >= a->lids || !a->of[lid])
		return NULL;
	g = &a->group[a->of[lid] - 1];
	return fab_adaptive_has(g, num) ? g : NULL;
}

/**
 * fab_adaptive_varies() - packets with @lid and @sl may leave @sw by other ports than @num, which
 *	the LinearForwardingTable says, though that has a link
 */
static inline bool fab_adaptive_varies(const struct fab *f, const struct fab_switch *sw,
				       uint16_t lid, uint8_t sl, unsigned int num)
{
	return sw->adaptive && sw->adaptive->cfg.sls >> sl & 1 &&
	       fab_adaptive_group(f, sw, lid, num);
}

/** fab_adaptive_next() - the port of @g after @num, or 0; begin with 0, no group has port 0 */
static inline unsigned int fab_adaptive_next(const struct fab_adaptive_group *g, unsigned int num)
{
	for (unsigned int from = num + 1; from < 256; from = (from / 64 + 1) * 64) {
		const uint64_t m = g->port[from / 64] >> (from % 64);

		if (m)
			return from + (unsigned int)__builtin_ctzll(m);
	}
	return 0;
}

#endif
