// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Congestion at the outputs of a switch (IBTA volume 1, annex A10). A lane of an output is
 * congested while the packets that are queued for it, in all input buffers of the switch, exceed
 * the threshold. It is the root of the congestion if only its wire makes packets wait: it has not
 * waited for credits since the queue was last below the threshold, and the wire, if it has a rate,
 * was recently idle for a small part of the time. Otherwise it is a victim of congestion elsewhere:
 * its packets wait for credits, or behind packets for another output. Packets that leave a root are
 * marked, and those of a victim if the port is in the Victim_Mask.
 *
 * A packet is counted for its output when it enters an input buffer, by the tables at that time,
 * and until it leaves the buffer, even if its decision changes. Multicast packets are not counted.
 * If the SM has set nothing at a switch, it counts nothing; otherwise all of its input buffers
 * count, also for ports that mark nothing.
 */
#include "congestion.h"
#include "buffer.h"
#include "clock.h"
#include "pace.h"
#include "fabric/graph/adaptive.h"

#include <stdlib.h>
#include <string.h>

#define LATELY		(4ull * 64 * FAB_LANE_BLOCKS)	/* bytes */
#define IDLE_PART	16u	/* a root is idle for less than this part of the time */
#define FS_PER_NS	1000000u
#define THRESHOLDS	(IB_CC_THRESHOLD_MAX + 1u)

/* The congestion control settings of the switch of @dp, or NULL. */
static struct ib_cc *settings_of(const struct fab_data *d, const struct fab_dport *dp)
{
	return dp->is_switch ? fab_cc_of(d->f, fab_end_port(d->f, dp->p)) : NULL;
}

/* The output of a unicast packet with this LRH at @in, or NULL; *@vl is its lane there. */
static struct fab_dport *output_of(const struct fab_data *d, const struct fab_dport *in,
				   const uint8_t *lrh, uint8_t *vl)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];
	const uint16_t dlid = ib_get_be16(lrh + 2);
	struct fab_dport *out;
	unsigned int num;
	int ovl;

	if (dlid >= IB_LID_MCAST_MIN)
		return NULL;
	num = fab_route(d->f, n, dlid);
	/* the port of a group is not chosen yet */
	if (!num || num > n->nports ||
	    fab_adaptive_varies(d->f, &d->f->sw[n->sw], dlid, lrh[1] >> 4, num))
		return NULL;
	out = d->by_port[fab_port_of(n, num)];
	if (!out || !out->congestion)
		return NULL;
	ovl = ib_sl2vl_lookup(fab_sl2vl(d->f, n, in->num, num), lrh[1] >> 4, out->nvls);
	if (ovl < 0)
		return NULL;
	*vl = (uint8_t)ovl;
	return out;
}

void fab_congestion_queue(const struct fab_data *d, const struct fab_dport *in, struct fab_buffer *b)
{
	b->out = output_of(d, in, b->data, &b->ovl);
	if (b->out)
		b->out->congestion->queued[b->ovl] += fab_blocks(b->len);
}

void fab_congestion_leave(struct fab_data *d, struct fab_buffer *b)
{
	struct fab_dport *out = b->out;
	struct fab_congestion *c = out->congestion;

	c->queued[b->ovl] -= fab_blocks(b->len);
	b->out = NULL;
	if (c->logged >> b->ovl & 1 && c->queued[b->ovl] < c->limit)
		fab_congestion_count(d, out);
}

/* Whether more packets arrive for @out than its wire can send, and nothing else makes them wait. */
static bool is_root(const struct fab_dport *out, unsigned int vl)
{
	const struct fab_congestion *c = out->congestion;

	return !(c->starved >> vl & 1) &&
	       (!fab_is_paced(out) || IDLE_PART * c->idle_ns <= c->idle_ns + c->busy_ns);
}

bool fab_congestion_marks(const struct fab_dport *out, unsigned int vl, const struct fab_frame *f)
{
	struct fab_congestion *c = out->congestion;

	if (!c->limit || c->queued[vl] < c->limit || f->len < c->min_len ||
	    (f->lrh[1] & 3) < IB_LNH_IBA_LOCAL || ib_get_be16(f->lrh + 2) >= IB_LID_MCAST_MIN ||
	    !(c->victim || is_root(out, vl)))
		return false;
	return (uint64_t)fab_random(&c->rng) * (c->rate + 1u) < 1ull << 32;
}

/* The wire of @out has begun to send a packet. */
static void count_busy(const struct fab_dport *out)
{
	const struct fab_fault *x = out->fault;
	const uint64_t ready_ns = fab_wire_ready(x), lately_ns = LATELY * x->byte_fs / FS_PER_NS;
	struct fab_congestion *c = out->congestion;

	if (x->began_ns > c->ready_ns)
		c->idle_ns += x->began_ns - c->ready_ns;
	c->busy_ns += ready_ns - x->began_ns;
	c->ready_ns = ready_ns;
	/* halved below, so that old times have less and less weight */
	if (c->idle_ns > lately_ns)
		c->idle_ns = lately_ns;
	if (c->idle_ns + c->busy_ns < 2 * lately_ns)
		return;
	c->idle_ns /= 2;
	c->busy_ns /= 2;
}

void fab_congestion_count(struct fab_data *d, const struct fab_dport *dp)
{
	struct fab_congestion *c = dp->congestion;
	const uint64_t now = fab_data_clock(d);

	if (!settings_of(d, dp)) {
		/* congestion control was switched off: start from 0 */
		c->logged = 0;
		c->since_ns = 0;
		memset(c->vl_since_ns, 0, sizeof(c->vl_since_ns));
		return;
	}
	if (!c->logged)
		return;
	dp->ctr->xmit_time_cong += ib_pma_ticks(&c->since_ns, now);
	for (uint16_t m = c->logged; m; m &= (uint16_t)(m - 1)) {
		const unsigned int vl = (unsigned int)__builtin_ctz(m);

		dp->ctr->xmit_time_cong_vl[vl] += ib_pma_ticks(&c->vl_since_ns[vl], now);
		if (c->queued[vl] >= c->limit && c->limit)
			continue;
		c->logged &= (uint16_t)~(1u << vl);
		c->vl_since_ns[vl] = now - c->vl_since_ns[vl];
	}
	if (!c->logged)
		c->since_ns = now - c->since_ns;
}

/* Lane @vl of @out has become congested: @f is marked. */
static void congested(struct fab_data *d, const struct fab_dport *out, unsigned int vl,
		      const struct fab_frame *f)
{
	struct fab_congestion *c = out->congestion;
	const uint64_t now = fab_data_clock(d);
	/* the SM may have removed all settings of the switch since fab_congestion_refresh() */
	struct ib_cc *cc = settings_of(d, out);

	if (cc)
		ib_cc_event(cc, out->num, ib_get_be16(f->lrh + 6), ib_get_be16(f->lrh + 2),
			    f->lrh[1] >> 4, now);
	out->ctr->vl_congestion[vl]++;
	if (!c->logged)
		c->since_ns = now - c->since_ns;
	c->vl_since_ns[vl] = now - c->vl_since_ns[vl];
	c->logged |= (uint16_t)(1u << vl);
}

void fab_congestion_sent(struct fab_data *d, const struct fab_dport *out, unsigned int vl,
			 const struct fab_frame *f, bool marked)
{
	struct fab_congestion *c = out->congestion;
	const uint16_t lane = (uint16_t)(1u << vl);

	if (c->queued[vl] < c->limit)
		c->starved &= (uint16_t)~lane;
	if (fab_is_paced(out))
		count_busy(out);
	if (!marked)
		return;
	d->n.fecns++;
	if (!(c->logged & lane))
		congested(d, out, vl, f);
}

void fab_congestion_starves(const struct fab_dport *out, unsigned int vl)
{
	if (out->congestion->limit)
		out->congestion->starved |= (uint16_t)(1u << vl);
}

void fab_congestion_refresh(struct fab_data *d, struct fab_dport *dp)
{
	const struct ib_cc *cc = settings_of(d, dp);
	struct fab_congestion *c = dp->congestion;
	struct ib_cc_port set = { 0 };

	if (cc)
		set = ib_cc_of_port(cc, dp->num);
	if (!c && !cc)
		return;
	if (!c) {
		/* on failure the port marks nothing */
		c = calloc(1, sizeof(*c));
		if (!c)
			return;
		c->rng = fab_random_state(d->m->seed + dp->p);
		dp->congestion = c;
		d->congestion_bytes += sizeof(*c);
	}
	/* without a limit nothing would clear it */
	if (!set.threshold)
		c->starved = 0;
	c->limit = set.threshold ? FAB_LANE_BLOCKS * (THRESHOLDS - set.threshold) / THRESHOLDS : 0;
	c->min_len = 64u * set.packet_size;
	c->rate = set.marking_rate;
	c->victim = cc && ib_cc_in_mask(cc->sw.victim_mask, dp->num);
	if (c->logged)
		fab_congestion_count(d, dp);
}
