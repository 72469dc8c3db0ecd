/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A port of an HCA in this process, as the data path knows it; see hport.c. */
#ifndef OHCA_FABRIC_DATA_HPORT_PRIV_H
#define OHCA_FABRIC_DATA_HPORT_PRIV_H

#include "data_priv.h"

/** struct fab_hport_mad - a packet of VL15, of @len bytes */
struct fab_hport_mad {
	uint16_t len;
	uint8_t pkt[FAB_HPORT_MAD_LEN];
};

/**
 * struct fab_hport - a port of an HCA in this process, see hport.h
 * @d: the data path
 * @dp: the switch's port at the other end
 * @ops, @ctx: arguments of fab_hport_attach()
 * @cfg: the HCA's description of its port
 * @near, @far: settings of the switch's end, and of the HCA's
 * @vls: lanes that both ends have
 * @up: the state of the link, as both ends know it
 * @due: an end has trained the link; fab_hport_settle() follows
 * @refused: lanes without room when the HCA wanted to send
 * @dropped: packets of VL15 for which the HCA had no room
 * @flow: [FAB_FLOWS] flows of the packets that it sends
 * @series: flow of the packets of the next fab_hport_commit(), if they are a series
 * @next: of fab_data.mad_ports, if @listed
 * @mad: [FAB_HPORT_MADS] packets of VL15, @mads in use from @first_mad; NULL: it sends none
 */
struct fab_hport {
	struct fab_data *d;
	struct fab_dport *dp;
	const struct fab_hport_ops *ops;
	void *ctx;
	struct ohca_link_cfg cfg;
	struct ohca_link_phy near, far;
	uint8_t vls;
	bool up, due, listed;
	uint16_t refused;
	uint64_t dropped;
	struct fab_flow *flow;
	const struct fab_flow *series;
	struct fab_hport *next;
	unsigned int mads, first_mad;
	struct fab_hport_mad *mad;
};

/**
 * fab_hport_takes() - whether @n packets of @len bytes may be sent to the HCA by lane @vl now
 *
 * Counts a VL15 packet that finds the link up and no room: the caller drops it.
 */
static inline bool fab_hport_takes(struct fab_hport *h, unsigned int vl, unsigned int n,
				   uint32_t len)
{
	if (fab_unlikely(!h->up || h->due || (vl >= h->vls && vl != IB_MGMT_VL)))
		return false;
	if (fab_likely(h->ops->room(h->ctx, vl, n, len)))
		return true;
	h->dropped += vl == IB_MGMT_VL;
	return false;
}

/**
 * fab_hport_due() - an end has trained the link of @h: request fab_hport_settle() in the next round
 */
static inline void fab_hport_due(struct fab_hport *h)
{
	h->due = true;
	h->dp->ctrl_due = true;
	h->d->ctrl_due = true;
}

/** fab_hport_settle() - take the link down and up as the ends have trained it */
void fab_hport_settle(struct fab_hport *h);

/** fab_hport_round() - pass MADs of HCAs to management. Return: whether there were any. */
bool fab_hport_round(struct fab_data *d);

#endif
