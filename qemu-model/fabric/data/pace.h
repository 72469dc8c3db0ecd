/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Wires with a rate; see pace.c. */
#ifndef OHCA_FABRIC_DATA_PACE_H
#define OHCA_FABRIC_DATA_PACE_H

#include "data_priv.h"

/** fab_is_paced() - whether the wire of output @out has a rate */
static inline bool fab_is_paced(const struct fab_dport *out)
{
	return fab_unlikely(out->fault) && out->fault->byte_fs;
}

/**
 * fab_pace_set() - give the wire of @dp the rate of its link; in both directions if it leaves the
 *	graph
 */
void fab_pace_set(struct fab_data *d, const struct fab_dport *dp);

/**
 * fab_pace_busy() - whether the wire sends a packet now; if so, a round follows when it is ready
 */
bool fab_pace_busy(struct fab_data *d, struct fab_fault *x);

/**
 * fab_pace_take() - let the wire send a packet of @len bytes of lane @vl, now or when it is ready
 * Return: the time at which it has left.
 */
uint64_t fab_pace_take(struct fab_data *d, struct fab_fault *x, unsigned int vl, uint32_t len);

/** fab_pace_round() - serve the outputs whose wires have become ready. Return: whether any is. */
bool fab_pace_round(struct fab_data *d);

/** fab_pace_due() - ns until a wire is ready for which packets wait; UINT64_MAX: there is none */
uint64_t fab_pace_due(struct fab_data *d);

/** fab_pace_free() - end all waits for wires */
void fab_pace_free(struct fab_data *d);

#endif
