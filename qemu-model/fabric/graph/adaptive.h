/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adaptive routing of a switch: groups of output ports, each of which leads a LID one switch nearer
 * to its port. Cables and forwarding tables alone determine these ports (mgmt/adaptive.c). The load
 * determines by which of them a packet leaves (data/adaptive.c).
 */
#ifndef OHCA_FABRIC_GRAPH_ADAPTIVE_H
#define OHCA_FABRIC_GRAPH_ADAPTIVE_H

#include "graph.h"

#define FAB_ADAPTIVE_GROUPS	255u	/* of a switch; LIDs that would need one more have none */
#define FAB_ADAPTIVE_FLOWS	2048u	/* of a switch, which its groups share */
#define FAB_ADAPTIVE_GAP_NS	1000000u	/* default gap */

/**
 * struct fab_adaptive_cfg - configuration of adaptive routing
 * @sls: service levels whose packets are spread, a bit for each; packets of others leave by the
 *	port of the LinearForwardingTable while that has a link
 * @any_order: receivers accept packets of UC and RDMA WRITEs of RC in any order
 * @gap_ns: a flow without packets for this time, multiplied by the rate scale, may change its port:
 *	its earlier packets are assumed to have arrived
 */
struct fab_adaptive_cfg {
	uint16_t sls;
	bool any_order;
	uint64_t gap_ns;
};

/**
 * struct fab_adaptive_group - a group of ports
 * @port: a bit for each
 * @first, @mask: the flows of this group are @first to @first + @mask of struct fab_adaptive.flow
 */
struct fab_adaptive_group {
	uint64_t port[4];
	uint16_t first, mask;
};

/**
 * struct fab_adaptive - state of a switch with adaptive routing
 * @lids: LIDs that may have groups; 0: not all groups are made yet
 * @room: elements of @of
 * @groups: elements of @group
 * @of: group of a LID, from 1; 0: it has none
 * @group: [@groups]
 * @flow: the port by which packets of a flow leave, and from bit 8 on the time of the last one, in
 *	ns; 0: there was none. A flow is all packets whose SLIDs, DLIDs and SLs have this index
 * @any: the port for packets of a flow that may arrive in any order
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

/** fab_adaptive_free() - switch adaptive routing off at switch @sw, if it is on */
void fab_adaptive_free(struct fab_switch *sw);

/** fab_adaptive_changed() - update fab.any_order after a change of a switch's configuration */
void fab_adaptive_changed(struct fab *f);

/** fab_adaptive_bytes() - bytes of its memory */
size_t fab_adaptive_bytes(const struct fab_switch *sw);

/** fab_adaptive_has() - whether port @num, at most 255, is in @g */
static inline bool fab_adaptive_has(const struct fab_adaptive_group *g, unsigned int num)
{
	return g->port[num / 64] >> (num % 64) & 1;
}

/**
 * fab_adaptive_group() - the group of @lid at switch @sw
 * @num: its port in the LinearForwardingTable
 *
 * While any table of the fabric differs from the one with which groups were made, paths by groups
 * might form a loop: then there are no groups.
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
 * fab_adaptive_varies() - whether packets with @lid and @sl may leave @sw by other ports than @num,
 *	the port of the LinearForwardingTable, even if that has a link
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
