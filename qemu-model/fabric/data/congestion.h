/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Outputs of a switch that are congested, whose packets are marked by FECN; see congestion.c. */
#ifndef OHCA_FABRIC_CONGESTION_H
#define OHCA_FABRIC_CONGESTION_H

#include "data_priv.h"

/**
 * struct fab_congestion - of a port of a switch of which anything was set
 * @queued: blocks in the input buffers of the switch for this output, by its lane
 * @limit: blocks of a lane from which on it is congested; 0: it marks nothing
 * @min_len: bytes of packets that may be marked
 * @rate: mean number of packets that are left out between two that are marked
 * @victim: packets of @starved lanes are marked, too
 * @starved: lanes that have waited for credits since less than @limit was queued; @logged: and that have
 *	marked packets since, which is in the switch's log
 * @since_ns, @vl_since_ns: the time that @logged lanes are congested is counted up to there; of others, and
 *	if there are none, what is less than a tick and was not counted
 * @busy_ns, @idle_ns: times that its wire has sent, and has not, lately; @ready_ns: when it has sent the last
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

/** fab_congestion_refresh() - @dp has what management has set of its switch */
void fab_congestion_refresh(struct fab_data *d, struct fab_dport *dp);

/** fab_congestion_queue() - @b is in the input buffer of @in, of whose switch something was set */
void fab_congestion_queue(const struct fab_data *d, const struct fab_dport *in, struct fab_buffer *b);

/** fab_congestion_leave() - @b, which is counted for an output, is not there any more, sent or discarded */
void fab_congestion_leave(struct fab_data *d, struct fab_buffer *b);

/** fab_congestion_marks() - whether @f, which leaves lane @vl of @out if it can, is marked */
bool fab_congestion_marks(const struct fab_dport *out, unsigned int vl, const struct fab_frame *f);

/** fab_congestion_sent() - @f, which had that @marked, has left */
void fab_congestion_sent(struct fab_data *d, const struct fab_dport *out, unsigned int vl,
			 const struct fab_frame *f, bool marked);

/** fab_congestion_count() - bring PortXmitTimeCong of @dp up to date; what is not congested any more ends */
void fab_congestion_count(struct fab_data *d, const struct fab_dport *dp);

/** fab_congestion_starves() - it has not, though its wire is ready: there are no credits */
void fab_congestion_starves(const struct fab_dport *out, unsigned int vl);

#endif
