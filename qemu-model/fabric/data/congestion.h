/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Outputs of a switch that are congested, whose packets are marked by FECN; see congestion.c. */
#ifndef OHCA_FABRIC_CONGESTION_H
#define OHCA_FABRIC_CONGESTION_H

#include "data_priv.h"

/**
 * struct fab_congestion - state of a switch port, if the SM has set congestion control at the
 *	switch
 * @queued: blocks in the input buffers of the switch for this output, by output lane
 * @limit: blocks of a lane from which on the lane is congested; 0: the port marks nothing
 * @min_len: shortest packet that may be marked, in bytes
 * @rate: mean number of packets that are not marked between two that are
 * @victim: packets of @starved lanes are marked, too
 * @starved: lanes that have waited for credits since their queue was last below @limit
 * @logged: lanes that have marked packets since then, which is in the switch's log
 * @since_ns, @vl_since_ns: time up to which the congestion of @logged lanes is counted; without
 *	such lanes, the rest below one tick that was not counted
 * @busy_ns, @idle_ns: recent time in which the wire has sent, and has not
 * @ready_ns: when it has sent the last packet
 * @rng: state of the generator that chooses packets
 */
struct fab_congestion {
	uint32_t queued[FAB_DATA_LANES];
	uint32_t limit;
	uint32_t min_len;
	uint16_t rate;
	bool victim;
	uint16_t starved, logged;
	uint64_t since_ns, vl_since_ns[FAB_DATA_LANES];
	uint64_t busy_ns, idle_ns;
	uint64_t ready_ns;
	uint64_t rng;
};

/** fab_congestion_refresh() - copy what management has set at the switch of @dp */
void fab_congestion_refresh(struct fab_data *d, struct fab_dport *dp);

/**
 * fab_congestion_queue() - count @b, in the input buffer of @in, for its output, if the switch has
 *	settings
 */
void fab_congestion_queue(const struct fab_data *d, const struct fab_dport *in, struct fab_buffer *b);

/** fab_congestion_leave() - end the count of @b for its output: it was sent or discarded */
void fab_congestion_leave(struct fab_data *d, struct fab_buffer *b);

/** fab_congestion_marks() - whether @f is to be marked if it leaves by lane @vl of @out */
bool fab_congestion_marks(const struct fab_dport *out, unsigned int vl, const struct fab_frame *f);

/** fab_congestion_sent() - @f has left, with the result @marked of fab_congestion_marks() */
void fab_congestion_sent(struct fab_data *d, const struct fab_dport *out, unsigned int vl,
			 const struct fab_frame *f, bool marked);

/**
 * fab_congestion_count() - bring PortXmitTimeCong of @dp up to date, and end congestion that is
 *	over
 */
void fab_congestion_count(struct fab_data *d, const struct fab_dport *dp);

/**
 * fab_congestion_starves() - a packet could not leave although the wire is ready: there are no
 *	credits
 */
void fab_congestion_starves(const struct fab_dport *out, unsigned int vl);

#endif
