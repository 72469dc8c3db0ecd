// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Heads that wait for a wire with a rate. Most of what waits in a fabric with load does so for a wire
 * that is busy, or for a buffer that is full, and to ask all of it in each round again costs as much as
 * there is. So an output that can send nothing keeps its requests from round to round, and their
 * lanes are not looked at, until fab_wake(): the wire is ready, or the next buffer has room.
 *
 * A head that is parked may become too old, and management may change what was decided on it. Both are
 * rare: then all that is parked is looked at again. What has to be known of each round, who waits,
 * is so of what is parked, too: @want, @ucast and @waiting of the output.
 *
 * The outputs of a round have their turns in the order in which the inputs have had something to send,
 * whether they were parked or not, so parking changes nothing but the time that it takes.
 */
#include "data_priv.h"

#include <string.h>

#define RUN	8u	/* outputs that are sorted one by one */

void fab_unpark(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	in->parked &= (uint16_t)~(1u << vl);
	if (in->queued)
		return;
	in->queued = true;
	d->queue[d->queues++] = in;
}

/* Nothing that is parked at @out, or would be, is so any more. */
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

/* Nothing of what @out has is in a link's ring. */
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

/* Lane @vl of @in, whose head waits for @out, is parked there. */
static void lane_parks(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		       struct fab_dport *out)
{
	const uint64_t order = fab_order(in, vl, out);
	uint64_t expiry;

	fab_block(d, in, vl);
	in->parked |= (uint16_t)(1u << vl);
	expiry = fab_expiry(d, in, &in->lane[vl], out);
	if (expiry < d->park_ns)
		d->park_ns = expiry;
	if (order < out->order)
		out->order = order;
}

void fab_park(struct fab_data *d, struct fab_dport *out, bool may, uint16_t starved)
{
	if (!may || !parkable(d, out)) {
		unpark_all(d, out);
		return;
	}
	out->order = UINT64_MAX;
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
		/* it waits no more if nothing is refused in this round */
		fab_touch(d, out);
	}
	d->park_version = d->version;
	d->park_ns = UINT64_MAX;
}

/* @n outputs in the order of their turns, those of the same order as they are; @room for as many. */
static void sort_outs(struct fab_dport **outs, struct fab_dport **room, uint32_t n)
{
	for (uint32_t begin = 0; begin < n; begin += RUN) {
		for (uint32_t i = begin + 1; i < n && i < begin + RUN; i++) {
			struct fab_dport *out = outs[i];
			uint32_t k = i;

			for (; k > begin && outs[k - 1]->order > out->order; k--)
				outs[k] = outs[k - 1];
			outs[k] = out;
		}
	}
	for (uint32_t run = RUN; run < n; run *= 2) {
		for (uint32_t begin = 0; begin + run < n; begin += 2 * run) {
			const uint32_t middle = begin + run;
			const uint32_t end = n - middle > run ? middle + run : n;
			uint32_t a = begin, b = middle, to = begin;

			if (outs[middle - 1]->order <= outs[middle]->order)
				continue;
			memcpy(&room[begin], &outs[begin], run * sizeof(*outs));
			while (a < middle && b < end)
				outs[to++] = room[a]->order <= outs[b]->order ? room[a++] : outs[b++];
			memcpy(&outs[to], &room[a], (middle - a) * sizeof(*outs));
		}
	}
}

void fab_park_order(struct fab_data *d)
{
	d->serve++;
	while (d->nwoken) {
		struct fab_dport *out = d->woken[--d->nwoken];

		out->woken = false;
		if (!out->parks || out->out_listed)
			continue;
		out->out_listed = true;
		d->outs[d->nouts++] = out;
	}
	/* nobody is woken now */
	sort_outs(d->outs, d->woken, d->nouts);
}

/* @out has its turn in this round, whose outputs have theirs now. */
static void insert(struct fab_data *d, struct fab_dport *out)
{
	uint32_t i = d->nouts++;

	for (; i > d->serving && d->outs[i - 1]->order > out->order; i--)
		d->outs[i] = d->outs[i - 1];
	d->outs[i] = out;
	out->out_listed = true;
}

void fab_wake(struct fab_data *d, struct fab_dport *out)
{
	if (!out->parks || out->woken || out->out_listed)
		return;
	if (d->serving && out->served != d->serve && out->order > d->order_now) {
		insert(d, out);
		return;
	}
	out->woken = true;
	d->woken[d->nwoken++] = out;
}
