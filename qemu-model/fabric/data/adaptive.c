// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Adaptive routing: a group is a set of ports that all lead nearer to the destination of a packet.
 * The packet leaves by the port of the group with the smallest load. The load of a port is the
 * blocks in the buffer behind its wire and on their way to it, plus the blocks of the heads that
 * wait for the wire.
 *
 * A flow keeps its port until none of its packets has arrived for a time (flowlets): its earlier
 * packets have arrived by then. If receivers accept packets in any order, packets of UC and RDMA
 * WRITEs of RC that are one packet change their port as soon as its load is more than STAY_BLOCKS
 * above the smallest; their port is kept apart from that of the flow's other packets. HCAs send
 * everything that may arrive in any order as WRITEs of one packet (engine/transport/ahead.h). All
 * other packets of RC, XRC and UD keep their order: a responder answers a PSN that is not the next
 * one by NAK, and IPoIB expects its packets in order. Among equal ports the switch chooses that of
 * the LinearForwardingTable, or the one that the flow has, so without load a fabric forwards
 * exactly by that table.
 *
 * If the port of the LinearForwardingTable has no link, or is not Active, packets of all service
 * levels leave by other ports of the group, without a subnet manager. Packets that are not spread
 * leave by a port that depends on their LIDs.
 */
#include "adaptive.h"
#include "clock.h"

#include "ib/vl.h"

#define STAY_BLOCKS	16u	/* of 64 bytes */
#define FULL		UINT32_MAX

/* Whether a packet that arrived by @in may leave by output @num of switch @n. */
static bool usable(const struct fab_data *d, const struct fab_dport *in, const struct fab_node *n,
		   unsigned int num)
{
	const uint32_t p = fab_port_of(n, num);
	const struct fab_dport *out = d->by_port[p];

	if (num == in->num)
		return false;
	/* no packet has left by it yet */
	if (!out)
		return d->f->port[p].pi.state == IB_PS_ACTIVE && !fab_outside(d->f, p);
	return out->up && out->active;
}

/* The load of output @num, in blocks, for packets of @sl that have arrived by @in. */
static uint32_t load_of(const struct fab_data *d, const struct fab_dport *in,
			const struct fab_node *n, unsigned int num, uint8_t sl)
{
	const struct fab_dport *out = d->by_port[fab_port_of(n, num)];
	int vl;

	if (!usable(d, in, n, num))
		return FULL;
	if (!out)
		return 0;
	vl = ib_sl2vl_lookup(fab_sl2vl(d->f, n, in->num, num), sl, out->nvls);
	if (vl < 0 || out->stalled >> vl & 1)
		return FULL - 1;
	return out->out[vl].heads + (out->peer ? out->peer->lane[vl].used : 0);
}

/*
 * Find the port of @g with the smallest load. @*best and @*load begin with a port and its load: a
 * port with an equal load does not replace it.
 */
static void find_least(const struct fab_data *d, const struct fab_dport *in,
		       const struct fab_node *n, const struct fab_adaptive_group *g, uint8_t sl,
		       unsigned int *best, uint32_t *load)
{
	const unsigned int begin = *best;
	unsigned int num = begin;

	while (*load) {
		uint32_t other;

		num = fab_adaptive_next(g, num);
		if (!num)
			num = fab_adaptive_next(g, 0);
		if (num == begin)
			return;
		other = load_of(d, in, n, num, sl);
		if (other >= *load)
			continue;
		*load = other;
		*best = num;
	}
}

/* A hash of the flow. */
static uint32_t flow_number(const uint8_t *lrh)
{
	const uint32_t lids = (uint32_t)ib_get_be16(lrh + 6) << 16 | ib_get_be16(lrh + 2);
	uint32_t key = (lids ^ (uint32_t)(lrh[1] >> 4) << 12) * 2654435761u;

	key ^= key >> 15;
	return key * 2246822519u >> 8;
}

/* The next port of @g with a link, beginning at the position that @which chooses, or 0. */
static unsigned int another(const struct fab_data *d, const struct fab_dport *in,
			    const struct fab_node *n, const struct fab_adaptive_group *g,
			    uint32_t which)
{
	unsigned int ports = 0;

	for (unsigned int num = 0; (num = fab_adaptive_next(g, num)) != 0;)
		ports += usable(d, in, n, num);
	if (!ports)
		return 0;
	which %= ports;
	for (unsigned int num = 0; (num = fab_adaptive_next(g, num)) != 0;)
		if (usable(d, in, n, num) && !which--)
			return num;
	return 0;
}

/* Whether the receiver accepts @f in any order. */
static bool in_any_order(const struct fab_adaptive *a, const struct fab_frame *f)
{
	const unsigned int bth =
		IB_LRH_LEN + ((f->lrh[1] & 3) == IB_LNH_IBA_GLOBAL ? IB_GRH_LEN : 0);
	const uint8_t op = f->data[bth];

	return a->cfg.any_order && ((op & IB_TRANS_MASK) == IB_TRANS_UC ||
				    op == IB_OP_RC_WRITE_ONLY || op == IB_OP_RC_WRITE_ONLY_IMM);
}

/* The port for a packet that may arrive in any order; arguments as of spread(). */
static unsigned int freely(struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
			   const struct fab_node *n, const struct fab_adaptive_group *g,
			   unsigned int num)
{
	struct fab_adaptive *a = d->f->sw[n->sw].adaptive;
	uint8_t *port = &a->any[g->first + (flow_number(l->f.lrh) & g->mask)];
	const uint8_t sl = l->f.lrh[1] >> 4;
	unsigned int best;
	uint32_t load, least;

	if (!*port || !fab_adaptive_has(g, *port) || !usable(d, in, n, *port))
		*port = (uint8_t)num;
	best = *port;
	least = load = load_of(d, in, n, *port, sl);
	if (load <= STAY_BLOCKS)
		return best;
	find_least(d, in, n, g, sl, &best, &least);
	if (load - least > STAY_BLOCKS)
		*port = (uint8_t)best;
	return *port;
}

/* The port of @g for the flow of @l. @num: the port of the LinearForwardingTable */
static unsigned int spread(struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
			   const struct fab_node *n, const struct fab_adaptive_group *g,
			   unsigned int num)
{
	struct fab_adaptive *a = d->f->sw[n->sw].adaptive;
	uint64_t *flow = &a->flow[g->first + (flow_number(l->f.lrh) & g->mask)];
	const uint64_t now = fab_data_clock(d), last = *flow >> 8;
	const uint64_t gap = a->cfg.gap_ns * (d->cfg.rate_scale ? d->cfg.rate_scale : 1);
	const uint8_t sl = l->f.lrh[1] >> 4;
	unsigned int port = *flow & 0xff, best;
	uint32_t load, least;
	bool stays;

	if (in_any_order(a, &l->f))
		return freely(d, in, l, n, g, num);
	stays = port && fab_adaptive_has(g, port) && usable(d, in, n, port);
	if (!stays)
		port = num;
	best = port;
	load = load_of(d, in, n, port, sl);
	if (stays && now - last <= gap) {
		*flow = now << 8 | port;
		return port;
	}
	least = load;
	find_least(d, in, n, g, sl, &best, &least);
	if (!stays || now - last > gap || load - least > STAY_BLOCKS)
		port = best;
	*flow = now << 8 | port;
	return port;
}

unsigned int fab_adaptive_port(struct fab_data *d, const struct fab_dport *in,
			       const struct fab_lane *l, const struct fab_node *n, uint16_t dlid,
			       unsigned int num)
{
	const struct fab_switch *sw = &d->f->sw[n->sw];
	const struct fab_adaptive_group *g = fab_adaptive_group(d->f, sw, dlid, num);
	const bool there = g && usable(d, in, n, num);
	unsigned int port = num;

	if (!g)
		return num;
	if (fab_adaptive_varies(d->f, sw, dlid, l->f.lrh[1] >> 4, num) &&
	    (l->f.lrh[1] & 3) >= IB_LNH_IBA_LOCAL)
		port = spread(d, in, l, n, g, num);
	else if (!there)
		port = another(d, in, n, g, flow_number(l->f.lrh));
	if (!port || !usable(d, in, n, port))
		return num;
	d->n.adaptive += port != num;
	d->n.failovers += !there;
	return port;
}
