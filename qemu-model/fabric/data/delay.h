/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets on wires with a delay or a rate; see delay.c. */
#ifndef OHCA_FABRIC_DATA_DELAY_H
#define OHCA_FABRIC_DATA_DELAY_H

#include "data_priv.h"

/**
 * fab_is_delayed() - whether a packet that leaves now arrives later
 * @dp, @out: as in struct fab_flight: the port where it arrives, or by whose link it leaves
 * @x: fault of that wire
 */
bool fab_is_delayed(const struct fab_dport *dp, bool out, unsigned int vl,
		    const struct fab_fault *x);

/** fab_delay_fits() - whether another packet of @len bytes may be on its way by the link of @dp */
bool fab_delay_fits(const struct fab_dport *dp, unsigned int vl, uint32_t len);

/** fab_delay_lands() - whether a packet is on its way by that lane of @dp and is not overdue */
bool fab_delay_lands(struct fab_data *d, const struct fab_dport *dp, unsigned int vl);

/** fab_delay_empty() - whether no packet of that lane is on its way by the link of @dp */
bool fab_delay_empty(const struct fab_dport *dp, unsigned int vl);

/**
 * fab_delay() - put @f on its way, or drop it; arguments as of fab_is_delayed()
 * @lost: it is damaged on its way
 * @left_ns: when it has left, from fab_pace_take()
 */
void fab_delay(struct fab_data *d, struct fab_dport *dp, bool out, unsigned int vl,
	       const struct fab_frame *f, struct fab_fault *x, bool lost, uint64_t left_ns);

/**
 * fab_delay_take() - put packets that the link of @in received on their way. Return: whether any
 *	was.
 */
bool fab_delay_take(struct fab_data *d, struct fab_dport *in);

/** fab_delay_round() - let packets that are due arrive. Return: whether any did. */
bool fab_delay_round(struct fab_data *d);

/** fab_delay_due() - ns until a packet is due; UINT64_MAX: none is on its way */
uint64_t fab_delay_due(struct fab_data *d);

/** fab_delay_forget() - lose packets on their way at @dp: those of links that are down, or @all */
void fab_delay_forget(struct fab_data *d, struct fab_dport *dp, bool all);

/** fab_delay_free() - free all packets on their way */
void fab_delay_free(struct fab_data *d);

#endif
