// SPDX-License-Identifier: GPL-2.0-or-later
/* The clock of the data path: the host's clock without the times in which the daemon stood still.
 * */
#include "clock.h"

#include <time.h>

#define STOOD_NS	50000000u	/* longer between rounds: the daemon stood still */

uint64_t fab_data_host_ns(const struct fab_data *d)
{
	struct timespec ts;

	if (d->cfg.clock)
		return d->cfg.clock(d->cfg.arg);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * While a packet waits there is a round at least every FAB_LOOK_NS. If there was none for much
 * longer, the host had no processor for the daemon, and perhaps none for its peers, whose credits
 * were due. A subnet manager does not set HOQLife for such times, so they do not count.
 */
uint64_t fab_clock_read(struct fab_data *d)
{
	const uint64_t t = fab_data_host_ns(d);

	if ((d->blocked || d->reply_count) && t - d->seen_ns > STOOD_NS)
		d->n.stood_ns += t - d->seen_ns - FAB_LOOK_NS;
	d->seen_ns = t;
	d->now_ns = t - d->n.stood_ns;
	return d->now_ns;
}
