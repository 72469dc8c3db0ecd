/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clock of the data path; see clock.c. */
#ifndef OHCA_FABRIC_DATA_CLOCK_H
#define OHCA_FABRIC_DATA_CLOCK_H

#include "data_priv.h"

/** fab_clock_read() - read the clock, once a round. Return: as fab_data_now(). */
uint64_t fab_clock_read(struct fab_data *d);

/** fab_data_now() - time of this round in ns, without the times in which the daemon stood still */
static inline uint64_t fab_data_now(struct fab_data *d)
{
	return fab_likely(d->now_ns) ? d->now_ns : fab_clock_read(d);
}

/** fab_data_clock() - the same plus these times, for what is measured and not limited */
static inline uint64_t fab_data_clock(struct fab_data *d)
{
	const uint64_t now = fab_data_now(d);	/* may increase stood_ns */

	return now + d->n.stood_ns;
}

#endif
