// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Wires with a delay, or a rate (wire.h): data packets on their way are queued here, in order,
 * until they arrive. They occupy their credits as soon as they leave: on a wire of the graph those
 * of the input buffer at the other end; on a link those of a buffer of the same size here, so at
 * most FAB_LANE_BLOCKS of a lane are on their way. On a link with a rate and no delay, one packet
 * of a lane can be on its way, and has the link's credit when it leaves. Packets on their way are
 * lost when the link goes down. A packet waits at a switch in the buffer in which it arrived, and
 * the next such wire takes that buffer over.
 */
#include "delay.h"
#include "buffer.h"
#include "clock.h"
#include "hop.h"
#include "links.h"
#include "pace.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ib/crc.h"

/**
 * struct fab_flight - packets on their way over a wire, in one direction
 * @next: of all that there are
 * @landing: of fab_data.landings: when the first packet of all lanes but @starved arrives
 * @next_starved: of fab_data.starved, which lists this one while it has @starved
 * @next_again: of those with packets left for the next round
 * @round: number of the last fab_delay_round() that processed it
 * @starved: lanes in which packets are due and have no credit
 * @dp: the port where they arrive; with @out that by whose link they leave
 * @fault: of that wire and direction
 * @downs: value in @fault when this was last empty
 * @count: packets
 * @lanes: lanes with packets
 * @turn: lane that was read last from the ring
 * @lane: packets of each lane, in order, and with @out the blocks that they use
 */
struct fab_flight {
	struct fab_timer landing;
	struct fab_flight *next, *next_starved, *next_again;
	uint8_t turn;
	uint16_t lanes, starved;
	uint32_t round;
	struct fab_dport *dp;
	struct fab_fault *fault;
	bool out;
	uint32_t downs;
	uint32_t count;
	struct {
		struct fab_buffer *first, *last;
		uint16_t used;
	} lane[FAB_DATA_LANES];
};

/* Blocks in use by lane @vl of the credits that @fl occupies. */
static uint16_t *used(struct fab_flight *fl, unsigned int vl)
{
	return fl->out ? &fl->lane[vl].used : &fl->dp->lane[vl].used;
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
	return (x->delay_ns | x->byte_fs) || (dp->flight[out] && dp->flight[out]->lane[vl].first);
}

bool fab_delay_fits(const struct fab_dport *dp, unsigned int vl, uint32_t len)
{
	return !dp->flight[true] || dp->flight[true]->lane[vl].used + fab_blocks(len) <= FAB_LANE_BLOCKS;
}

bool fab_delay_lands(struct fab_data *d, const struct fab_dport *dp, unsigned int vl)
{
	const struct fab_flight *fl = dp->flight[true];

	return fl && fl->lane[vl].first && fl->lane[vl].first->due_ns >= fab_data_clock(d);
}

bool fab_delay_empty(const struct fab_dport *dp, unsigned int vl)
{
	return !dp->flight[true] || !dp->flight[true]->lane[vl].first;
}

/* Put @b on its way; it has left at @left_ns. */
static void depart(struct fab_data *d, struct fab_flight *fl, unsigned int vl, struct fab_buffer *b,
		   uint64_t left_ns)
{
	const struct fab_buffer *before = fl->lane[vl].last;

	b->due_ns = fab_fault_due(fl->fault, left_ns, before ? before->due_ns : 0);
	b->next = NULL;
	if (before)
		fl->lane[vl].last->next = b;
	else
		fl->lane[vl].first = b;
	fl->lane[vl].last = b;
	fl->lanes |= (uint16_t)(1u << vl);
	if (!(fl->starved >> vl & 1) && (!fl->landing.set || b->due_ns < fl->landing.due_ns))
		fab_timer_set(&d->landings, &fl->landing, b->due_ns);
	*used(fl, vl) += fab_blocks(b->len);
	fl->count++;
	d->flying++;
}

/* Count a packet that is dropped on its way. @agent: it is a MAD that an agent has sent */
static void flight_end(struct fab_data *d, enum fab_drop why, bool agent)
{
	if (agent)
		d->m->stats.lost++;
	else
		fab_dropped(d, why);
}

static struct fab_buffer *buffer_of(const struct fab_frame *f)
{
	return (struct fab_buffer *)((uintptr_t)f->data - offsetof(struct fab_buffer, data));
}

void fab_delay(struct fab_data *d, struct fab_dport *dp, bool out, unsigned int vl,
	       const struct fab_frame *f, struct fab_fault *x, bool lost, uint64_t left_ns)
{
	struct fab_flight *fl = flight(d, dp, out, x);
	struct fab_buffer *b = NULL;

	if (fl)
		b = f->owned ? buffer_of(f) : fab_buffer_get(d, f->len);
	if (!b) {
		/*
		 * a packet that leaves was counted already, also if it is lost; one that arrives
		 * was not
		 */
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
	if (f->owned) {
		b->moved = true;
		fab_copy_head(b->data, f, vl);
		if (fab_unlikely(f->corrupt) && !d->cfg.headers)
			fab_damage(b->data, f->len);
	} else {
		fab_copy(d, b->data, f, vl);
	}
	depart(d, fl, vl, b, left_ns);
}

/* Remove the oldest packet of lane @vl, which arrives. */
static struct fab_buffer *land(struct fab_data *d, struct fab_flight *fl, unsigned int vl)
{
	struct fab_buffer *b = fl->lane[vl].first;

	fl->lane[vl].first = b->next;
	if (!b->next) {
		fl->lane[vl].last = NULL;
		fl->lanes &= (uint16_t)~(1u << vl);
	}
	*used(fl, vl) -= fab_blocks(b->len);
	fl->count--;
	d->flying--;
	return b;
}

/* Send @b by the link of @dp. Return: false: there is no credit. */
static bool leave(struct fab_data *d, struct fab_dport *dp, unsigned int vl,
		  const struct fab_buffer *b)
{
	uint8_t *to = fab_tx_begin(d, dp, vl, b->len);

	if (!to)
		return false;
	memcpy(to, b->data, fab_kept(d, b->len));
	fab_commit(d, dp, vl, to, NULL, b->len, b->flags, b->lost, b->agent);
	return true;
}

/*
 * Let packets of lane @vl that are due arrive, at most a burst in a round: each may be a multicast
 * packet with many copies. Return: whether any did.
 */
static bool arrivals(struct fab_data *d, struct fab_flight *fl, unsigned int vl, uint64_t now)
{
	unsigned int n;

	for (n = 0; n < FAB_BURST && fl->lane[vl].first && fl->lane[vl].first->due_ns <= now; n++) {
		if (!fl->out) {
			fab_arrived(d, fl->dp, vl, land(d, fl, vl));
		} else {
			if (!leave(d, fl->dp, vl, fl->lane[vl].first))
				break;
			fab_buffer_put(d, land(d, fl, vl));
		}
	}
	return n;
}

/* The flight whose timer @t is, or NULL. */
static struct fab_flight *flight_of(struct fab_timer *t)
{
	return t ? (struct fab_flight *)((char *)t - offsetof(struct fab_flight, landing)) : NULL;
}

/*
 * Time at which the first packet of the lanes that do not starve is due; UINT64_MAX: there is none.
 */
static uint64_t first_due(const struct fab_flight *fl)
{
	uint64_t due = UINT64_MAX;

	for (uint16_t m = fl->lanes & (uint16_t)~fl->starved; m; m &= (uint16_t)(m - 1)) {
		const struct fab_buffer *b = fl->lane[__builtin_ctz(m)].first;

		due = b->due_ns < due ? b->due_ns : due;
	}
	return due;
}

/* Prefetch the port and lane where the packets of @fl arrive. */
static void prefetch_landing(const struct fab_flight *fl)
{
	const unsigned int vl = (unsigned int)__builtin_ctz(fl->lanes | 1u << FAB_DATA_LANES);

	if (fl->out || vl == FAB_DATA_LANES)
		return;
	fab_prefetch(fl->dp, FAB_DPORT_HOT);
	fab_prefetch(&fl->dp->lane[vl], sizeof(fl->dp->lane[vl]));
	fab_prefetch(fl->lane[vl].first, sizeof(struct fab_buffer) + IB_LRH_LEN);
}

/* Let due packets of @fl arrive, and set the wait for the others. Return: whether any did. */
static bool flight_land(struct fab_data *d, struct fab_flight *fl, uint64_t now)
{
	bool moved = false;

	prefetch_landing(fl);
	fl->starved = 0;
	fl->round = d->landing;
	for (uint16_t m = fl->lanes; m; m &= (uint16_t)(m - 1)) {
		const unsigned int vl = (unsigned int)__builtin_ctz(m);

		moved |= arrivals(d, fl, vl, now);
		/* without credit, or more than a burst: then the next round follows at once */
		if (fl->out && fl->lane[vl].first && fl->lane[vl].first->due_ns <= now)
			fl->starved |= (uint16_t)(1u << vl);
	}
	if (fl->starved) {
		fl->next_starved = d->starved;
		d->starved = fl;
	}
	fab_timer_set(&d->landings, &fl->landing, first_due(fl));
	return moved;
}

/*
 * Processes each wire once in a round: what is left is more than a burst, and waits for the next.
 */
bool fab_delay_round(struct fab_data *d)
{
	const uint64_t now = fab_data_clock(d);
	struct fab_flight *starved = d->starved, *again = NULL;
	bool moved = false;

	d->landing++;
	d->starved = NULL;
	while (starved) {
		struct fab_flight *fl = starved;

		starved = fl->next_starved;
		moved |= flight_land(d, fl, now);
	}
	while (fab_timers_due(&d->landings) <= now) {
		struct fab_flight *fl = flight_of(d->landings.first);

		if (fl->round != d->landing) {
			moved |= flight_land(d, fl, now);
			continue;
		}
		fab_timer_set(&d->landings, &fl->landing, UINT64_MAX);
		fl->next_again = again;
		again = fl;
	}
	for (; again; again = again->next_again)
		fab_timer_set(&d->landings, &again->landing, first_due(again));
	return moved;
}

uint64_t fab_delay_due(struct fab_data *d)
{
	const uint64_t now = fab_data_clock(d), due = fab_timers_due(&d->landings);
	uint64_t next = due == UINT64_MAX ? UINT64_MAX : due > now ? due - now : 0;

	/* due packets wait for the credit of a link */
	if (d->starved && FAB_LOOK_NS < next)
		next = FAB_LOOK_NS;
	return next;
}

static void flight_forget(struct fab_data *d, struct fab_flight *fl)
{
	for (unsigned int vl = 0; fl->count && vl < FAB_DATA_LANES; vl++) {
		while (fl->lane[vl].first) {
			struct fab_buffer *b = land(d, fl, vl);

			/* that one was counted when it left */
			if (!b->lost || !fl->out) {
				fl->fault->lost++;
				flight_end(d, FAB_DROP_LOSS, b->agent);
			}
			fab_buffer_put(d, b);
		}
	}
	fab_timer_set(&d->landings, &fl->landing, UINT64_MAX);
		/* the wire is idle */
	fl->fault->free = (struct fab_moment){ 0 };
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

/* ---- packets that arrive by a link --------------------------------------------- */

/* The cable damages @b; the VCRC does not show it. */
static void damage(struct fab_buffer *b)
{
		/* leave a packet that is malformed or damaged already */
	if (b->len < IB_LRH_LEN + IB_BTH_LEN + IB_ICRC_LEN || b->flags & OHCA_FRAME_EBP ||
	    (b->flags & OHCA_FRAME_VCRC && ib_vcrc(b->data, b->len) != b->vcrc))
		return;
	fab_damage(b->data, b->len);
	b->flags = OHCA_FRAME_ICRC;
}

/* Put packets of lane @vl of the link's ring on their way. Return: whether any is. */
static bool ring_take(struct fab_data *d, struct fab_flight *fl, unsigned int vl)
{
	struct fab_dport *in = fl->dp;
	struct ohca_link_frame lf;
	unsigned int n;

	in->full &= (uint16_t)~(1u << vl);
	for (n = 0; n < FAB_BURST && ohca_link_rx_peek(in->link, vl, &lf); n++) {
		struct fab_buffer *b = NULL;

		if (!fab_fits(in, vl, lf.len) || fab_pace_busy(d, fl->fault)) {
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
			b->lost = fab_fault_loses(fl->fault, lf.len);
			memcpy(b->data, lf.data, fab_kept(d, lf.len));
			if (!b->lost && fab_fault_corrupts(fl->fault) && !d->cfg.headers)
				damage(b);
			depart(d, fl, vl, b, fab_pace_take(d, fl->fault, vl, lf.len));
			fl->turn = (uint8_t)vl;
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
	while (in->up && lanes) {
		/* a wire that accepts one packet at a time accepts one of each lane in turn */
		const uint32_t behind = lanes & ~((2u << fl->turn) - 1);
		const unsigned int vl = (unsigned int)__builtin_ctz(behind ? behind : lanes);

		lanes &= ~(1u << vl);
		moved |= ring_take(d, fl, vl);
	}
	if (!(in->rx_fault->delay_ns | in->rx_fault->byte_fs) && !fl->count && !in->buffered) {
		in->buffers = false;
		in->full = 0;
	}
	return moved;
}
