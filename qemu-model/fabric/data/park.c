// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Heads that wait for a wire with a rate. In a fabric with load most packets wait for a wire that
 * is busy, or for a buffer that is full. To check all of them in each round would cost as much as
 * there are. So an output that can send nothing keeps its requests from round to round, and rounds
 * skip their lanes, until fab_wake(): the wire is ready, or the next buffer has room.
 *
 * A parked head may become too old, and management may change the tables of its decision. Both are
 * rare: all parked requests are processed again then. In each round @want, @ucast and @waiting of
 * an output include its parked requests.
 *
 * Parking must not change the order in which packets are sent. So in a fabric with rates all events
 * of the same time have equal chances: a packet that arrives waits for the arbiter even if no other
 * does, which then chooses among all that have arrived; and room that a round makes in a buffer is
 * used only in the next round. The order in which a round serves the outputs then changes nothing.
 */
#include "park.h"
#include "clock.h"
#include "pace.h"
#include "wait.h"

void fab_unpark(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	in->parked &= (uint16_t)~(1u << vl);
	if (in->queued)
		return;
	in->queued = true;
	d->queue[d->queues++] = in;
}

/* Process all requests that are parked at @out, or that fab_park() got, in the next round. */
static void unpark_all(struct fab_data *d, struct fab_dport *out)
{
	for (; out->want; out->want &= (uint16_t)(out->want - 1)) {
		uint32_t id = out->out[__builtin_ctz(out->want)].head;

		for (; id != FAB_NONE_LANE; id = fab_lane_at(d, id)->next) {
			struct fab_dport *in = d->all[id / FAB_DATA_LANES];

			if (in->parked >> id % FAB_DATA_LANES & 1)
				fab_unpark(d, in, id % FAB_DATA_LANES);
		}
	}
}

/* Whether no request of @out is of a head in a link's ring. */
static bool parkable(const struct fab_data *d, const struct fab_dport *out)
{
	for (uint16_t m = out->want; m; m &= (uint16_t)(m - 1)) {
		uint32_t id = out->out[__builtin_ctz(m)].head;

		for (; id != FAB_NONE_LANE; id = fab_lane_at(d, id)->next)
			if (!d->all[id / FAB_DATA_LANES]->buffers)
				return false;
	}
	return true;
}

/* Park lane @vl of @in, whose head waits for @out. */
static void lane_parks(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		       struct fab_dport *out)
{
	uint64_t expiry;

	fab_block(d, in, vl);
	in->parked |= (uint16_t)(1u << vl);
	expiry = fab_expiry(d, in, &in->lane[vl], out);
	if (expiry < d->park_ns)
		d->park_ns = expiry;
}

void fab_park(struct fab_data *d, struct fab_dport *out, bool may, uint16_t starved)
{
	/*
	 * even without a park: the next packet begins when the wire has sent this one, to a part of
	 * a ns
	 */
	if (fab_is_paced(out))
		fab_pace_busy(d, out->fault);
	if (!may || !parkable(d, out)) {
		unpark_all(d, out);
		return;
	}
	out->ucast = 0;
	for (uint16_t m = out->want; m; m &= (uint16_t)(m - 1)) {
		uint32_t id = out->out[__builtin_ctz(m)].head;

		for (; id != FAB_NONE_LANE; id = fab_lane_at(d, id)->next) {
			lane_parks(d, d->all[id / FAB_DATA_LANES], id % FAB_DATA_LANES, out);
			out->ucast++;
		}
	}
	out->parks = true;
	out->starved = starved;
	d->parks++;
}

bool fab_park_joins(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		    struct fab_dport *out)
{
	const unsigned int ovl = in->lane[vl].ovl;

	if (out->out_listed || !in->buffers || fab_wire_ready(out->fault) <= fab_data_clock(d))
		return false;
	fab_enqueue(d, out, fab_lane_id(in, vl));
	lane_parks(d, in, vl, out);
	if (!(out->waiting >> ovl & 1))
		fab_touch(d, out);
	return true;
}

void fab_park_begin(struct fab_data *d)
{
	if (d->version == d->park_version && fab_data_now(d) <= d->park_ns)
		return;
	for (uint32_t i = 0; i < d->count && d->parks; i++) {
		struct fab_dport *out = d->all[i];

		if (!out->parks)
			continue;
		unpark_all(d, out);
		out->parks = false;
		out->starved = 0;
		out->ucast = 0;
		d->parks--;
		/* fab_settle() ends its wait if it refuses nothing in this round */
		fab_touch(d, out);
	}
	d->park_version = d->version;
	d->park_ns = UINT64_MAX;
}

void fab_park_join(struct fab_data *d)
{
	while (d->nwoken) {
		struct fab_dport *out = d->woken[--d->nwoken];

		out->woken = false;
		if (!out->parks || out->out_listed)
			continue;
		out->out_listed = true;
		d->outs[d->nouts++] = out;
	}
}

void fab_wake(struct fab_data *d, struct fab_dport *out)
{
	if (!out->parks || out->woken || out->out_listed)
		return;
	out->woken = true;
	d->woken[d->nwoken++] = out;
}
