/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long packets wait, and limits of that; see wait.c. */
#ifndef OHCA_FABRIC_DATA_WAIT_H
#define OHCA_FABRIC_DATA_WAIT_H

#include "data_priv.h"

/** fab_touch() - request that fab_settle() processes @dp when this round ends */
void fab_touch(struct fab_data *d, struct fab_dport *dp);

/** fab_blocked_lanes() - bits of the input lanes of @dp whose heads wait */
uint32_t fab_blocked_lanes(const struct fab_data *d, const struct fab_dport *dp);

/** fab_block() - the head of lane @vl of @in begins to wait */
void fab_block(struct fab_data *d, struct fab_dport *in, unsigned int vl);

/** fab_came() - lane @vl of @in, which has a mark, has a new head: find out when that arrived */
void fab_came(struct fab_dport *in, unsigned int vl);

/** fab_unblock() - the wait of the head ends */
void fab_unblock(struct fab_data *d, struct fab_lane *l);

/**
 * fab_too_old() - whether a packet that waits for @out since @since_ns (0: does not) exceeds
 *	HOQLife
 */
bool fab_too_old(struct fab_data *d, const struct fab_dport *out, uint64_t since_ns);

/** fab_outlived() - whether a packet at the switch of @dp since @since_ns exceeds LifeTimeValue */
bool fab_outlived(struct fab_data *d, const struct fab_dport *dp, uint64_t since_ns);

/**
 * fab_expire() - discard the head @l of @in if it is too old to leave by lane @vl of @out
 *
 * Counts the packet as discarded by HOQLife or LifeTimeValue (18.2.5.4).
 *
 * Return: whether it was discarded.
 */
bool fab_expire(struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		struct fab_dport *out, unsigned int vl);

/**
 * fab_expiry() - time after which fab_expire() discards @l if nothing changes; UINT64_MAX: never
 */
uint64_t fab_expiry(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		    const struct fab_dport *out);

/**
 * fab_hoq_discard() - count a packet that HOQLife or VLStalled discards at lane @vl of @out
 *
 * After VLStallCount discards in sequence the lane is stalled: for 8 * HOQLife all its packets are
 * discarded at once (18.2.5.4).
 */
void fab_hoq_discard(struct fab_data *d, struct fab_dport *out, unsigned int vl);

/** fab_end_stalls() - end stalls that have expired */
void fab_end_stalls(struct fab_data *d);

/** fab_unstall_all() - end all stalls of @dp */
void fab_unstall_all(struct fab_data *d, struct fab_dport *dp);

/** fab_count_wait() - bring PortXmitWait and PortVLXmitWait of @dp up to date (16.1.3.5) */
void fab_count_wait(struct fab_data *d, struct fab_dport *dp);

/** fab_settle() - at the end of a round: begin and end waits of output lanes */
void fab_settle(struct fab_data *d);

#endif
