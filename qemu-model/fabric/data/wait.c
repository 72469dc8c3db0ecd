// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets that wait for credit or for their turn: the limits of their waits (HOQLife,
 * LifeTimeValue, VLStallCount: IBTA volume 1, 18.2.5.4), and the counters of waits (PortXmitWait:
 * 16.1.3.5).
 */
#include "wait.h"
#include "clock.h"
#include "pace.h"

#include "ib/rate.h"

void fab_block(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];

	if (l->blocked_ns)
		return;
	l->blocked_ns = fab_data_now(d);
	d->blocked++;
	if (in->buffers || l->mark_ns)
		return;
	l->mark_ns = l->blocked_ns;
	l->mark = (uint16_t)ohca_link_rx_mark(in->link, vl);
}

void fab_came(struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];

	if (ohca_link_rx_before(in->link, vl, l->mark))
		l->came_ns = l->mark_ns;
	else
		l->mark_ns = 0;
}

void fab_unblock(struct fab_data *d, struct fab_lane *l)
{
	if (fab_likely(!l->blocked_ns))
		return;
	l->blocked_ns = 0;
	d->blocked--;
}

uint32_t fab_blocked_lanes(const struct fab_data *d, const struct fab_dport *dp)
{
	uint32_t mask = dp->full;

	if (!d->blocked)
		return mask;
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++)
		if (dp->lane[vl].blocked_ns)
			mask |= 1u << vl;
	return mask;
}

uint64_t fab_limit_ns(const struct fab_data *d, uint8_t n)
{
	uint64_t scale = d->cfg.hoq_scale;

	if (fab_unlikely(d->cfg.rate_scale))
		scale *= d->cfg.rate_scale;
	return n > 19 || !scale || scale > UINT64_MAX / ib_time_ns(n) ? UINT64_MAX :
									 ib_time_ns(n) * scale;
}

/*
 * HOQLife of a switch. A router has none: the switch behind it discards packets that wait
 * (14.2.5.6).
 */
static uint64_t hoq_ns(const struct fab_data *d, const struct fab_dport *out)
{
	return !out->is_switch ? UINT64_MAX : fab_limit_ns(d, d->f->port[out->p].pi.hoq_life);
}

bool fab_too_old(struct fab_data *d, const struct fab_dport *out, uint64_t since_ns)
{
	return since_ns && fab_data_now(d) - since_ns > hoq_ns(d, out);
}

bool fab_outlived(struct fab_data *d, const struct fab_dport *dp, uint64_t since_ns)
{
	return since_ns && fab_data_now(d) - since_ns > dp->life_ns;
}

bool fab_expire(struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		struct fab_dport *out, unsigned int vl)
{
	if (fab_too_old(d, out, l->blocked_ns))
		fab_hoq_discard(d, out, vl);
	else if (fab_outlived(d, in, l->came_ns ? l->came_ns : l->blocked_ns))
		fab_discard(d, out, &out->ctr->xmit_lifetime_discards, FAB_DROP_LIFETIME);
	else
		return false;
	return true;
}

static uint64_t after(uint64_t since_ns, uint64_t limit_ns)
{
	return limit_ns < UINT64_MAX - since_ns ? since_ns + limit_ns : UINT64_MAX;
}

uint64_t fab_expiry(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		    const struct fab_dport *out)
{
	const uint64_t hoq = after(l->blocked_ns, hoq_ns(d, out));
	const uint64_t life = after(l->came_ns ? l->came_ns : l->blocked_ns, in->life_ns);

	return hoq < life ? hoq : life;
}

void fab_hoq_discard(struct fab_data *d, struct fab_dport *out, unsigned int vl)
{
	const uint8_t limit = d->f->port[out->p].pi.vl_stall_count;

	fab_discard(d, out, &out->ctr->xmit_hoq_discards, FAB_DROP_HOQ);
	if (out->stalled >> vl & 1)
		return;
		/*
		 * A sequence ends when a packet leaves, not when the stall ends: a peer that gives
		 * no credits for minutes blocks the lane once per stall, not VLStallCount times.
		 */
	if (out->hoq_drops[vl] < UINT8_MAX)
		out->hoq_drops[vl]++;
	if (!limit || out->hoq_drops[vl] < limit)
		return;
	out->stalled |= (uint16_t)(1u << vl);
	out->out[vl].stall_end_ns = fab_data_now(d) + 8 * hoq_ns(d, out);
	if (!d->nstall || out->out[vl].stall_end_ns < d->stall_due_ns)
		d->stall_due_ns = out->out[vl].stall_end_ns;
	if (!out->stall_listed)
		d->stall[d->nstall++] = out;
	out->stall_listed = true;
	d->stalls++;
	d->version++;
}

static void unstall(struct fab_data *d, struct fab_dport *out, unsigned int vl)
{
	out->stalled &= (uint16_t)~(1u << vl);
	d->stalls--;
	d->version++;
}

void fab_end_stalls(struct fab_data *d)
{
	const uint64_t now = fab_data_now(d);
	uint64_t due = UINT64_MAX;
	uint32_t kept = 0;

	if (now < d->stall_due_ns)
		return;
	for (uint32_t i = 0; i < d->nstall; i++) {
		struct fab_dport *dp = d->stall[i];

		for (uint16_t s = dp->stalled; s; s &= (uint16_t)(s - 1)) {
			unsigned int vl = (unsigned int)__builtin_ctz(s);

			if (now >= dp->out[vl].stall_end_ns)
				unstall(d, dp, vl);
			else if (dp->out[vl].stall_end_ns < due)
				due = dp->out[vl].stall_end_ns;
		}
		dp->stall_listed = dp->stalled;
		if (dp->stall_listed)
			d->stall[kept++] = dp;
	}
	d->nstall = kept;
	d->stall_due_ns = due;
}

void fab_unstall_all(struct fab_data *d, struct fab_dport *dp)
{
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++) {
		dp->hoq_drops[vl] = 0;
		if (dp->stalled >> vl & 1)
			unstall(d, dp, vl);
	}
}

/* Ticks from *@since to @until; *@since is later than @until while the wire sends. */
static uint64_t wait_ticks(uint64_t *since, uint64_t until)
{
	return until > *since ? ib_pma_ticks(since, until) : 0;
}

static void count_until(struct fab_dport *dp, uint64_t until)
{
	const uint64_t ticks = wait_ticks(&dp->wait_ns, until);

		/* most waits for a wire are shorter than one tick */
	if (ticks)
		dp->ctr->xmit_wait += ticks;
	for (uint16_t w = dp->waiting; w; w &= (uint16_t)(w - 1)) {
		unsigned int vl = (unsigned int)__builtin_ctz(w);

		const uint64_t n = wait_ticks(&dp->out[vl].wait_vl_ns, until);

		if (n)
			dp->ctr->xmit_wait_vl[vl] += n;
	}
}

void fab_count_wait(struct fab_data *d, struct fab_dport *dp)
{
	if (dp->waiting)
		count_until(dp, fab_data_clock(d));
}

/* settle() for a wire with a rate that is or was busy: waits do not count the time of sending. */
static void settle_paced(struct fab_data *d, struct fab_dport *dp, uint16_t sent, uint16_t refused)
{
	const struct fab_fault *x = dp->fault;
	const uint64_t now = fab_data_clock(d), ready = fab_wire_ready(x);
	const uint64_t free_ns = ready > now ? ready : now;
	uint16_t from_now = refused & (uint16_t)(sent | ~dp->waiting);

	/* the packet may have begun before now, if the daemon is late */
	if (dp->waiting)
		count_until(dp, sent && x->began_ns < now ? x->began_ns : now);
	if (sent || !dp->waiting)
		dp->wait_ns = free_ns;
	for (; from_now; from_now &= (uint16_t)(from_now - 1)) {
		const unsigned int vl = (unsigned int)__builtin_ctz(from_now);

		dp->out[vl].wait_vl_ns = vl == x->vl ? free_ns : now;
	}
	dp->waiting = refused;
}

static void settle(struct fab_data *d, struct fab_dport *dp)
{
	const uint16_t sent = dp->sent, refused = dp->refused | (dp->parks ? dp->want : 0);
	uint16_t from_now;
	uint64_t now;

	dp->sent = 0;
	dp->refused = 0;
	if (fab_likely(!(refused | dp->waiting)) || (!sent && refused == dp->waiting))
		return;
	if (fab_is_paced(dp)) {
		settle_paced(d, dp, sent, refused);
		return;
	}
	fab_count_wait(d, dp);
	now = fab_data_clock(d);
	if (sent || !dp->waiting)
		dp->wait_ns = now;
	from_now = refused & (uint16_t)(sent | ~dp->waiting);
	for (; from_now; from_now &= (uint16_t)(from_now - 1))
		dp->out[__builtin_ctz(from_now)].wait_vl_ns = now;
	dp->waiting = refused;
}

void fab_touch(struct fab_data *d, struct fab_dport *dp)
{
	if (dp->touched)
		return;
	dp->touched = true;
	d->touch[d->touches++] = dp;
}

void fab_settle(struct fab_data *d)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < d->touches; i++) {
		struct fab_dport *dp = d->touch[i];

		settle(d, dp);
		/* parked requests continue to wait */
		dp->touched = dp->waiting && !dp->parks;
		if (dp->touched)
			d->touch[kept++] = dp;
	}
	d->touches = kept;
}
