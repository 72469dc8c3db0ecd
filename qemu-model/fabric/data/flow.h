/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flows: cached paths of unicast packets from one HCA of this process to another, over the switches
 * of the graph, as decide.c has found them. A packet whose flow is known, and that does not have to
 * wait, crosses all hops at once: each hop only counts it.
 */
#ifndef OHCA_FABRIC_FLOW_H
#define OHCA_FABRIC_FLOW_H

#include "data_priv.h"

#define FAB_FLOWS	64u	/* flows that a port of an HCA caches; a power of two */
#define FAB_FLOW_HOPS	8u	/* switches of a flow; a longer path has no flow */

/**
 * struct fab_flow_hop - a switch: packets arrive by lane @in_vl of @in, and leave by @out_vl of
 *	@out
 */
struct fab_flow_hop {
	struct fab_dport *in, *out;
	uint8_t in_vl, out_vl;
};

/**
 * struct fab_flow - a path; valid while @version equals the data path's
 * @dlid, @pkey, @sl, @vl: of its packets, as the HCA sends them
 * @hops: entries of @hop; 0: there is no such flow
 * @max_len: longest packet in bytes
 */
struct fab_flow {
	uint32_t version;
	uint16_t dlid;
	uint16_t pkey;
	uint8_t sl;
	uint8_t vl;
	uint8_t hops;
	uint32_t max_len;
	struct fab_flow_hop hop[FAB_FLOW_HOPS];
};

/**
 * fab_flow_ready() - find the flow for @n packets like @f, whose data begins with its headers
 * @vl: lane by which they leave the HCA
 * @n: packets of @f's length
 *
 * Return: NULL: there is no flow (as without @h->flow), or its packets would have to wait, or the
 * HCA at its end has no room for @n packets now. The caller then sends them one at a time, hop by
 * hop.
 */
const struct fab_flow *fab_flow_ready(struct fab_hport *h, unsigned int vl,
				      const struct fab_frame *f, unsigned int n);

/** fab_flow_end() - the HCA at the end of the flow of such packets; NULL: unknown */
const struct fab_hport *fab_flow_end(const struct fab_hport *h, const uint8_t *lrh, uint16_t pkey);

/** fab_flow_send() - send @f by flow @fl, which fab_flow_ready() has just returned */
void fab_flow_send(struct fab_data *d, const struct fab_flow *fl, struct fab_frame *f);

#endif
