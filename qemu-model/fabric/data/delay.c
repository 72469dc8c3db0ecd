// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Wires with a delay (wire.h): data packets on their way wait here, in their order, until they
 * arrive. They have their credits from when they left: of a wire of the graph in the input buffer
 * that they come to, of a link in as large a buffer of its own, so at most FAB_LANE_BLOCKS of a
 * lane are on their way. What is on its way when the link goes down is lost.
 */
#include "hop.h"

#include <stdlib.h>
#include <string.h>

#include "ib/crc.h"

/**
 * struct fab_flight - packets on their way over a wire, in one direction
 * @next: of all that there are
 * @dp: the port where they arrive; with @out that by whose link they leave
 * @fault: of that wire and direction
 * @downs: of @fault, when this was empty last
 * @count: packets
 * @used: blocks of each lane, with @out
 * @first, @last: of each lane
 */
struct fab_flight {
	struct fab_flight *next;
	struct fab_dport *dp;
	struct fab_fault *fault;
	bool out;
	uint32_t downs;
	uint32_t count;
	uint16_t used[FAB_DATA_LANES];
	struct fab_buffer *first[FAB_DATA_LANES], *last[FAB_DATA_LANES];
};

/* Blocks in use by lane @vl of what has its credits at @fl. */
static uint16_t *used(struct fab_flight *fl, unsigned int vl)
{
	return fl->out ? &fl->used[vl] : &fl->dp->lane[vl].used;
}

static struct fab_flight *flight(struct fab_data *d, struct fab_dport *dp, bool out,
				 struct fab_fault *x)
{
	struct fab_flight *fl = dp->flight[out];

	if (!fl) {
		fl = calloc(1, sizeof(*fl));
		if (!fl)
			return NULL;
		fl->dp = dp;
		fl->out = out;
		fl->next = d->flights;
		d->flights = fl;
		d->flight_bytes += sizeof(*fl);
		dp->flight[out] = fl;
	}
	if (!fl->count) {
		fl->fault = x;
		fl->downs = x->downs;
	}
	return fl;
}

bool fab_is_delayed(const struct fab_dport *dp, bool out, unsigned int vl,
		    const struct fab_fault *x)
{
	return x->delay_ns || (dp->flight[out] && dp->flight[out]->first[vl]);
}

bool fab_delay_fits(const struct fab_dport *dp, unsigned int vl, uint32_t len)
{
	return !dp->flight[true] || dp->flight[true]->used[vl] + fab_blocks(len) <= FAB_LANE_BLOCKS;
}

/* @b is on its way from now on. */
static void depart(struct fab_data *d, struct fab_flight *fl, unsigned int vl, struct fab_buffer *b)
{
	const struct fab_buffer *before = fl->last[vl];

	b->due_ns = fab_fault_due(fl->fault, fab_data_clock(d), before ? before->due_ns : 0);
	b->next = NULL;
	if (before)
		fl->last[vl]->next = b;
	else
		fl->first[vl] = b;
	fl->last[vl] = b;
	*used(fl, vl) += fab_blocks(b->len);
	fl->count++;
	d->flying++;
}

/* A packet on its way ends there. @agent: it is a MAD that an agent has sent */
static void flight_end(struct fab_data *d, enum fab_drop why, bool agent)
{
	if (agent)
		d->m->stats.lost++;
	else
		fab_dropped(d, why);
}

void fab_delay(struct fab_data *d, struct fab_dport *dp, bool out, unsigned int vl,
	       const struct fab_frame *f, struct fab_fault *x, bool lost)
{
	struct fab_flight *fl = flight(d, dp, out, x);
	struct fab_buffer *b = fl ? fab_buffer_get(d, f->len) : NULL;

	if (!b) {
		/* what leaves was counted as that, and as lost if it is; what comes was not yet */
		if (!out)
			fab_count_rcv(dp, f);
		if (!out || !lost)
			flight_end(d, FAB_DROP_MEMORY, f->agent);
		return;
	}
	b->len = f->len;
	b->flags = fab_icrc_flag(f);
	b->hops = f->hops;
	b->lost = lost;
	b->agent = f->agent;
	fab_copy(b->data, f, vl);
	depart(d, fl, vl, b);
}

/* The oldest packet of lane @vl is not on its way any more. */
static struct fab_buffer *land(struct fab_data *d, struct fab_flight *fl, unsigned int vl)
{
	struct fab_buffer *b = fl->first[vl];

	fl->first[vl] = b->next;
	if (!b->next)
		fl->last[vl] = NULL;
	*used(fl, vl) -= fab_blocks(b->len);
	fl->count--;
	d->flying--;
	return b;
}

/* @b leaves by the link of @dp. Return: false: there is no credit. */
static bool leave(struct fab_data *d, struct fab_dport *dp, unsigned int vl,
		  const struct fab_buffer *b)
{
	uint8_t *to = fab_tx_begin(d, dp, vl, b->len);

	if (!to)
		return false;
	memcpy(to, b->data, b->len);
	fab_commit(d, dp, vl, to, NULL, b->len, b->flags, b->lost, b->agent);
	return true;
}

/*
 * Packets of lane @vl that are due arrive, no more than a burst in a round: each may be a multicast
 * packet with many copies. Return: whether any did.
 */
static bool arrivals(struct fab_data *d, struct fab_flight *fl, unsigned int vl, uint64_t now)
{
	unsigned int n;

	for (n = 0; n < FAB_BURST && fl->first[vl] && fl->first[vl]->due_ns <= now; n++) {
		if (!fl->out) {
			fab_arrived(d, fl->dp, vl, land(d, fl, vl));
		} else {
			if (!leave(d, fl->dp, vl, fl->first[vl]))
				break;
			fab_buffer_put(d, land(d, fl, vl));
		}
	}
	return n;
}

bool fab_delay_round(struct fab_data *d)
{
	const uint64_t now = fab_data_clock(d);
	bool moved = false;

	for (struct fab_flight *fl = d->flights; fl; fl = fl->next)
		for (unsigned int vl = 0; fl->count && vl < FAB_DATA_LANES; vl++)
			moved |= arrivals(d, fl, vl, now);
	return moved;
}

uint64_t fab_delay_due(struct fab_data *d)
{
	const uint64_t now = fab_data_clock(d);
	uint64_t next = UINT64_MAX;

	for (const struct fab_flight *fl = d->flights; fl; fl = fl->next) {
		for (unsigned int vl = 0; fl->count && vl < FAB_DATA_LANES; vl++) {
			const struct fab_buffer *b = fl->first[vl];
			/* what is due waits for the credit of a link, or is more than a burst */
			const uint64_t ns = !b ? UINT64_MAX : b->due_ns > now ? b->due_ns - now :
					    fl->out ? FAB_LOOK_NS : 0;

			next = ns < next ? ns : next;
		}
	}
	return next;
}

static void flight_forget(struct fab_data *d, struct fab_flight *fl)
{
	for (unsigned int vl = 0; fl->count && vl < FAB_DATA_LANES; vl++) {
		while (fl->first[vl]) {
			struct fab_buffer *b = land(d, fl, vl);

			/* that one was counted when it left */
			if (!b->lost || !fl->out) {
				fl->fault->lost++;
				flight_end(d, FAB_DROP_LOSS, b->agent);
			}
			fab_buffer_put(d, b);
		}
	}
}

void fab_delay_forget(struct fab_data *d, struct fab_dport *dp, bool all)
{
	for (unsigned int out = 0; out < 2; out++) {
		struct fab_flight *fl = dp->flight[out];

		if (fl && (all || fab_fault_cut(fl->fault, fl->downs)))
			flight_forget(d, fl);
	}
}

void fab_delay_free(struct fab_data *d)
{
	while (d->flights) {
		struct fab_flight *fl = d->flights;

		flight_forget(d, fl);
		d->flights = fl->next;
		free(fl);
	}
}

/* ---- what comes by a link ------------------------------------------------------ */

/* The cable damages @b behind its VCRC. */
static void damage(struct fab_buffer *b)
{
	/* what is malformed or damaged already stays so */
	if (b->len < IB_LRH_LEN + IB_BTH_LEN + IB_ICRC_LEN || b->flags & OHCA_FRAME_EBP ||
	    (b->flags & OHCA_FRAME_VCRC && ib_vcrc(b->data, b->len) != b->vcrc))
		return;
	fab_damage(b->data, b->len);
	b->flags = OHCA_FRAME_ICRC;
}

/* Packets of lane @vl of the link's ring are on their way. Return: whether any is. */
static bool ring_take(struct fab_data *d, struct fab_flight *fl, unsigned int vl)
{
	struct fab_dport *in = fl->dp;
	struct ohca_link_frame lf;
	unsigned int n;

	in->full &= (uint16_t)~(1u << vl);
	for (n = 0; n < FAB_BURST && ohca_link_rx_peek(in->link, vl, &lf) > 0; n++) {
		struct fab_buffer *b = NULL;

		if (!fab_fits(in, vl, lf.len)) {
			in->full |= (uint16_t)(1u << vl);
			break;
		}
		b = fab_buffer_get(d, lf.len);
		if (!b) {
			uint8_t lrh[IB_LRH_LEN];

			memcpy(lrh, lf.data, sizeof(lrh));
			ib_pma_count_rcv(in->ctr, lf.len, lrh[1] >> 4,
					 ib_get_be16(lrh + 2) >= IB_LID_MCAST_MIN);
			fab_dropped(d, FAB_DROP_MEMORY);
		} else {
			b->len = lf.len;
			b->flags = lf.flags;
			b->vcrc = lf.vcrc;
			b->hops = 0;
			b->agent = false;
			b->lost = fab_fault_loses(fl->fault);
			memcpy(b->data, lf.data, lf.len);
			if (!b->lost && fab_fault_corrupts(fl->fault))
				damage(b);
			depart(d, fl, vl, b);
		}
		ohca_link_rx_release(in->link, vl);
	}
	return n;
}

bool fab_delay_take(struct fab_data *d, struct fab_dport *in)
{
	struct fab_flight *fl = in->rx_fault ? flight(d, in, false, in->rx_fault) : NULL;
	uint32_t lanes = in->pending & ((1u << FAB_DATA_LANES) - 1);
	bool moved = false;

	if (!fl)
		return false;
	for (; in->up && lanes; lanes &= lanes - 1)
		moved |= ring_take(d, fl, (unsigned int)__builtin_ctz(lanes));
	if (!in->rx_fault->delay_ns && !fl->count && !in->buffered) {
		in->buffers = false;
		in->full = 0;
	}
	return moved;
}
