// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rates of wires (wire.h). A wire sends one packet at a time: one that begins at t has left at
 * t + len / rate, and arrives then, as a whole (delay.c), so each switch stores it and forwards it.
 * What finds the wire busy stays where it is, with its credits, and when the wire is ready the arbiters
 * choose among all that wait then. So no more than one packet of a wire waits behind their choice.
 *
 * A daemon is late for its timers, and what is late would be lost rate. So a wire that something has
 * waited for begins when it was ready, up to FAB_LATE_NS before now. Of what has waited for none
 * nothing is made up for.
 */
#include "data_priv.h"

#include <stddef.h>

#include "ib/rate.h"

#define FAB_LATE_NS	1000000u
#define FS_PER_NS	1000000u
#define FS_BITS		8000000000000ull	/* of a byte at 1 kb/s */

static void set_rate(const struct fab_data *d, uint32_t p, uint32_t kbps)
{
	struct fab_fault *x = fab_wire_at(d->f, p);

	/* without memory, or a link, it takes no time */
	if (x)
		x->byte_fs = kbps ? FS_BITS * d->cfg.rate_scale / kbps : 0;
}

void fab_pace_set(struct fab_data *d, const struct fab_dport *dp)
{
	const struct fab_port *p = &d->f->port[dp->p];
	const struct fab_extra *x = fab_extra_of(d->f, dp->p);
	const uint32_t kbps = ib_link_data_kbps(p->pi.width_active, p->pi.speed_active,
						p->pi.speed_ext_active);

	set_rate(d, dp->p, kbps);
	/* what another daemon sends has had its time there */
	if (fab_leads_out(dp) && p->peer != FAB_NO_PORT && !(x && x->remote))
		set_rate(d, p->peer, kbps);
}

bool fab_pace_busy(struct fab_data *d, struct fab_fault *x)
{
	const uint64_t ready = fab_wire_ready(x);

	if (!x->byte_fs || ready <= fab_data_clock(d))
		return false;
	x->owed = true;
	fab_timer_set(&d->paced, &x->timer, ready);
	return true;
}

/* When the next packet begins, in ns, and *@fs later. */
static uint64_t begins(struct fab_data *d, const struct fab_fault *x, uint64_t *fs)
{
	const uint64_t now = fab_data_clock(d), ready = fab_wire_ready(x);
	const uint64_t late = d->cfg.clock ? 0 : FAB_LATE_NS;

	/* what follows something that was late is late, too */
	const bool owed = x->owed || x->late_ns == now;

	*fs = 0;
	if (ready > now || (owed && now - ready <= late)) {
		*fs = x->free_fs;
		return x->free_ns;
	}
	if (!owed)
		return now;
	d->n.late_ns += now - ready - late;
	return now - late;
}

uint64_t fab_pace_take(struct fab_data *d, struct fab_fault *x, unsigned int vl, uint32_t len)
{
	uint64_t fs;

	if (!x->byte_fs)
		return fab_data_clock(d);
	x->began_ns = begins(d, x, &fs);
	fs += (len + IB_VCRC_LEN) * x->byte_fs;
	x->free_ns = x->began_ns + fs / FS_PER_NS;
	x->free_fs = (uint32_t)(fs % FS_PER_NS);
	x->vl = (uint8_t)vl;
	x->late_ns = x->began_ns < fab_data_clock(d) ? fab_data_clock(d) : 0;
	x->owed = false;
	return fab_wire_ready(x);
}

/* The wire whose timer @t is. */
static const struct fab_fault *fault_of(const struct fab_timer *t)
{
	return (const struct fab_fault *)((const char *)t - offsetof(struct fab_fault, timer));
}

bool fab_pace_round(struct fab_data *d)
{
	const uint64_t now = fab_data_clock(d);
	bool any = false;

	while (fab_timers_due(&d->paced) <= now) {
		const struct fab_fault *x = fault_of(d->paced.first);
		struct fab_dport *out = d->by_port[x->port];

		fab_timer_set(&d->paced, d->paced.first, UINT64_MAX);
		if (out)
			fab_wake(d, out);
		any = true;
	}
	return any;
}

uint64_t fab_pace_due(struct fab_data *d)
{
	const uint64_t due = fab_timers_due(&d->paced), now = fab_data_clock(d);

	return due == UINT64_MAX ? UINT64_MAX : due > now ? due - now : 0;
}

void fab_pace_free(struct fab_data *d)
{
	while (d->paced.first)
		fab_timer_set(&d->paced, d->paced.first, UINT64_MAX);
}
