/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MADs from and to links and HCAs, and agents' answers; see gsi.c. */
#ifndef OHCA_FABRIC_DATA_GSI_H
#define OHCA_FABRIC_DATA_GSI_H

#include "data_priv.h"

/**
 * fab_vl15_rx() - receive a VL15 packet by the link of @in; @data is copied, then checked
 * @flags: OHCA_FRAME_*
 */
void fab_vl15_rx(struct fab_data *d, struct fab_dport *in, const uint8_t *data, size_t len,
		 uint16_t flags);

/**
 * fab_gsi_rx() - receive a packet for an agent of the node of @in, or one that fab_gsi_held() has
 *	chosen
 * @tap: captures of @in that record it, or NULL
 */
void fab_gsi_rx(struct fab_data *d, struct fab_dport *in, const struct fab_frame *f,
		const struct fab_tap *tap);

/**
 * fab_gmp_faulty() - whether a fault of the machine at @dp applies to MADs in packets of data lanes
 */
static inline bool fab_gmp_faulty(const struct fab_data *d, const struct fab_dport *dp)
{
	return fab_unlikely(d->m->mad_faults) && fab_leads_out(dp) &&
	       fab_mad_faulty(d->m, d->f->port[d->f->port[dp->p].peer].node);
}

/**
 * fab_gsi_held() - whether a fault of a machine at @in or @out applies to the MAD in @f, on its way
 *	from @in to @out
 */
bool fab_gsi_held(struct fab_data *d, const struct fab_dport *in, const struct fab_dport *out,
		  const struct fab_frame *f);

/**
 * fab_mad_packet() - write a packet with @mad, LRH to ICRC
 * @pkt: buffer of IB_MAD_PKT_MAX bytes
 * @vl: its lane
 *
 * Return: its length in bytes.
 */
size_t fab_mad_packet(uint8_t *pkt, const struct fab_mad *mad, uint8_t vl);

/** fab_gsi_send() - send MAD @mad by the link of switch port @port. Return: false: it is lost. */
bool fab_gsi_send(void *ctx, uint32_t port, const struct fab_mad *mad);

/**
 * fab_gsi_land() - SMP @mad has arrived over the link at port @port, after the delay of its wire
 * @ctx: the data path
 * @port: the port by which it left: a switch's, or a machine's
 */
void fab_gsi_land(void *ctx, uint32_t port, const struct fab_mad *mad);

/** fab_reply_flush() - send MADs of agents that wait. Return: whether any left. */
bool fab_reply_flush(struct fab_data *d);

#endif
