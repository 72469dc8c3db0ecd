/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests that wait at an output until it may be able to send; see park.c. */
#ifndef OHCA_FABRIC_DATA_PARK_H
#define OHCA_FABRIC_DATA_PARK_H

#include "data_priv.h"

/**
 * fab_park() - park the requests that are left at @out after its turn
 * @may: they may be parked: only fab_wake() can let @out send
 * @starved: lanes of these that wait for credit of the next buffer
 */
void fab_park(struct fab_data *d, struct fab_dport *out, bool may, uint16_t starved);

/** fab_park_begin() - at the begin of a round: unpark all if anything has changed or is too old */
void fab_park_begin(struct fab_data *d);

/**
 * fab_park_joins() - park the head of @in's lane @vl at @out, if that has parked. Return: whether
 *	it did.
 */
bool fab_park_joins(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		    struct fab_dport *out);

/** fab_park_join() - add the outputs in fab_data.woken to those of this round */
void fab_park_join(struct fab_data *d);

/** fab_unpark() - let the next round process lane @vl of @in */
void fab_unpark(struct fab_data *d, struct fab_dport *in, unsigned int vl);

/** fab_wake() - @out may be able to send its parked requests */
void fab_wake(struct fab_data *d, struct fab_dport *out);

/** fab_credit() - the input buffer of @in has more room: wake an output that waits for it */
static inline void fab_credit(struct fab_data *d, const struct fab_dport *in)
{
	if (in->peer && fab_unlikely(in->peer->starved))
		fab_wake(d, in->peer);
}

#endif
