/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flows: the ways of unicast packets from one HCA of this process to another, over the switches of
 * the graph, as decide.c has found them. A packet whose flow is known, and that nothing keeps
 * waiting, goes the whole way at once: what each hop would do to it is to count it.
 */
#ifndef OHCA_FABRIC_FLOW_H
#define OHCA_FABRIC_FLOW_H

#include "data_priv.h"

#define FAB_FLOWS	64u	/* that a port of an HCA knows; a power of two */
#define FAB_FLOW_HOPS	8u	/* switches of one; a longer way is no flow */

/** struct fab_flow_hop - a switch: it comes by lane @in_vl of @in, and leaves by @out_vl of @out */
struct fab_flow_hop {
	struct fab_dport *in, *out;
	uint8_t in_vl, out_vl;
};

/**
 * struct fab_flow - a way; it holds while @version is the data path's
 * @dlid, @pkey, @sl, @vl: of its packets, as the HCA sends them
 * @hops: of @hop; 0: there is no such flow
 * @max_len: bytes of its packets at most
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
 * fab_flow_ready() - the flow of packets like @f, which begins with its headers
 * @vl: lane by which they leave the HCA
 * @n: packets of @f's length
 *
 * Return: NULL: there is none, or something is in the way, or the HCA at its end does not take @n
 * packets now: they go the long way, one at a time, which finds out what it is. Without @h->flow all
 * do.
 */
const struct fab_flow *fab_flow_ready(struct fab_hport *h, unsigned int vl,
				      const struct fab_frame *f, unsigned int n);

/** fab_flow_end() - the HCA at the end of the flow of such packets; NULL: it is not known */
const struct fab_hport *fab_flow_end(const struct fab_hport *h, const uint8_t *lrh, uint16_t pkey);

/** fab_flow_send() - @f goes the way of @fl, for which fab_flow_ready() has just been called */
void fab_flow_send(struct fab_data *d, const struct fab_flow *fl, struct fab_frame *f);

#endif
