// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rates of wires (wire.h). A wire sends one packet at a time: one that begins at t has left at t +
 * len / rate, and arrives then, as a whole (delay.c): each switch stores and forwards it. A packet
 * that finds the wire busy stays in its buffer, with its credits. When the wire is ready the
 * arbiters choose among all packets that wait then. So at most one packet of a wire has been chosen
 * and is not sent yet.
 *
 * Timers of a daemon are late, and that would lower the rate. So if a packet has waited for a wire,
 * the wire begins to send it at the time at which it was ready, up to FAB_LATE_NS before now. Time
 * in which no packet waited is not made up for.
 */
#include "pace.h"
#include "clock.h"
#include "park.h"

#include <stddef.h>

#include "ib/rate.h"

#define FAB_LATE_NS	1000000u
#define FS_BITS		8000000000000ull	/* of a byte at 1 kb/s */

uint64_t fab_pace_byte_fs(const struct fab_data *d, uint32_t p)
{
	const struct ib_port_info *pi = &d->f->port[p].pi;
	const uint32_t kbps = ib_link_data_kbps(pi->width_active, pi->speed_active, pi->speed_ext_active);

	/* without a link: no rate */
	return kbps ? FS_BITS * d->cfg.rate_scale / kbps : 0;
}

static void set_rate(const struct fab_data *d, uint32_t p, uint64_t byte_fs)
{
	struct fab_fault *x = fab_wire_at(d->f, p);

	/* without memory the wire has no rate */
	if (x)
		x->byte_fs = byte_fs;
}

void fab_pace_set(struct fab_data *d, const struct fab_dport *dp)
{
	const struct fab_port *p = &d->f->port[dp->p];
	const struct fab_extra *x = fab_extra_of(d->f, dp->p);
	const uint64_t byte_fs = fab_pace_byte_fs(d, dp->p);

	set_rate(d, dp->p, byte_fs);
	/* a wire to another daemon: that daemon applies the rate to what it sends */
	if (fab_leads_out(dp) && p->peer != FAB_NO_PORT && !(x && x->remote))
		set_rate(d, p->peer, byte_fs);
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

/* Time at which the next packet begins. */
static struct fab_moment begins(struct fab_data *d, const struct fab_fault *x)
{
	const uint64_t now = fab_data_clock(d), ready = fab_wire_ready(x);
	const uint64_t late = d->cfg.clock ? 0 : FAB_LATE_NS;

	/* a packet behind one that began late is late, too */
	const bool owed = x->owed || x->late_ns == now;

	if (ready > now || (owed && now - ready <= late))
		return x->free;
	if (!owed)
		return (struct fab_moment){ .ns = now };
	d->n.late_ns += now - ready - late;
	return (struct fab_moment){ .ns = now - late };
}

uint64_t fab_pace_take(struct fab_data *d, struct fab_fault *x, unsigned int vl, uint32_t len)
{
	struct fab_moment begin;

	if (!x->byte_fs)
		return fab_data_clock(d);
	begin = begins(d, x);
	x->began_ns = begin.ns;
	x->free = fab_sent_at(begin, x->byte_fs, len);
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
