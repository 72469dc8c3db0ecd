// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds a circle of channels: the graph of channels that wait for each other, from all routes, and
 * a depth-first search in it; see circle.h.
 */
#include "circle.h"

#include <stdlib.h>

#include "ib/packet.h"
#include "ib/vl.h"

#define VLS	16u	/* channels of a port */

/** enum colour - state of a channel in the search: not visited, on the current path, done */
enum colour { WHITE, GREY, BLACK };

/**
 * struct channels - the graph; a channel is the port's index * VLS + its VL
 * @sls, @paths: as of fab_circle_find()
 * @seen: [channels] number of the last route that was followed from this channel; routes to one LID
 *	by one SL have the same number
 * @ways: the current number
 * @waits: [channels] NULL: no packet uses it; else a bit for each channel of the next switch, its
 *	port's number * VLS + the VL
 * @colour: [channels]
 * @stack, @bit: [used] channels of the current path, and the next bit of each
 * @used: channels that packets use
 */
struct channels {
	const struct fab *f;
	uint16_t sls;
	const struct fab_paths *paths;
	uint32_t *seen;
	uint32_t ways;
	uint64_t **waits;
	uint8_t *colour;
	uint32_t *stack, *bit;
	uint32_t used;
};

/* Number of channels of the switch to which port @out leads. */
static uint32_t bits_of(const struct fab *f, uint32_t out)
{
	return (f->node[fab_next_switch(f, out)].nports + 1u) * VLS;
}

/*
 * Find the channel by which a packet for @lid with @sl leaves the switch that it reached by port
 * @in, to another switch. Return: false: there is none.
 */
static bool channel_of(const struct channels *c, uint32_t in, uint16_t lid, uint8_t sl,
		       uint32_t *channel)
{
	const struct fab *f = c->f;
	const struct fab_node *n = &f->node[f->port[in].node];
	const struct fab_switch *sw = &f->sw[n->sw];
	unsigned int num;
	uint32_t out;
	int vl;

	if (lid / IB_LFT_PER_BLOCK >= sw->lft_blocks)
		return false;
	num = sw->lft[lid];
	if (!num || num > n->nports)
		return false;
	out = fab_port_of(n, num);
	if (fab_next_switch(f, out) == FAB_NONE)
		return false;
	vl = ib_sl2vl_lookup(fab_sl2vl(f, n, fab_port_num(f, in), num), sl,
			     ib_opvls_count(f->port[out].pi.op_vls));
	if (vl < 0)
		return false;
	*channel = out * VLS + (uint32_t)vl;
	return true;
}

/*
 * Follow packets for @lid with @sl that reach a switch by port @in. Return: false: out of memory.
 */
static bool follow(struct channels *c, uint32_t in, uint16_t lid, uint8_t sl)
{
	uint64_t *waits = NULL;
	uint32_t channel;

	/* a channel is followed once, so this ends even for a route that never ends */
	while (channel_of(c, in, lid, sl, &channel)) {
		const uint32_t out = channel / VLS;
		const uint32_t bit = fab_port_num(c->f, out) * VLS + channel % VLS;

		if (waits)
			waits[bit / 64] |= 1ull << (bit % 64);
		if (c->seen[channel] == c->ways)
			return true;
		c->seen[channel] = c->ways;
		if (!c->waits[channel]) {
			c->waits[channel] = calloc((bits_of(c->f, out) + 63) / 64, sizeof(*waits));
			if (!c->waits[channel])
				return false;
			c->used++;
		}
		waits = c->waits[channel];
		in = c->f->port[out].peer;
	}
	return true;
}

/* Whether packets from port @p to @lid may have @sl. */
static bool has_sl(const struct channels *c, uint32_t p, uint16_t lid, uint8_t sl)
{
	const uint8_t known = fab_paths_sl(c->paths, c->f->port[p].pi.lid, lid, IB_NUM_SLS);

	return known < IB_NUM_SLS ? known == sl : c->sls >> sl & 1;
}

/* Follow the routes from all other channel adapters. Return: as of follow(). */
static bool follow_all(struct channels *c, uint32_t to, uint16_t lid, uint8_t sl)
{
	const struct fab *f = c->f;

	c->ways++;
	for (uint32_t p = 1; p < f->ports; p++)
		if (p != to && f->node[f->port[p].node].type == IB_NODE_CHANNEL_ADAPTER &&
		    fab_next_switch(f, p) != FAB_NONE && has_sl(c, p, lid, sl) &&
		    !follow(c, f->port[p].peer, lid, sl))
			return false;
	return true;
}

/* Follow the routes by all SLs. */
static bool follow_sls(struct channels *c, uint32_t to, uint16_t lid)
{
	for (uint8_t sl = 0; sl < IB_NUM_SLS; sl++)
		if ((c->paths || c->sls >> sl & 1) && !follow_all(c, to, lid, sl))
			return false;
	return true;
}

static bool make_graph(struct channels *c)
{
	const struct fab *f = c->f;

	for (uint32_t p = 1; p < f->ports; p++) {
		const struct ib_port_info *pi = &f->port[p].pi;

		if (f->node[f->port[p].node].type != IB_NODE_CHANNEL_ADAPTER || !pi->lid)
			continue;
		for (uint32_t i = 0; i < 1u << pi->lmc; i++)
			if (!follow_sls(c, p, (uint16_t)(pi->lid + i)))
				return false;
	}
	return true;
}

/* The next channel for which @channel may wait, from bit @*bit on; 0: there is none. */
static uint32_t waits_for(const struct channels *c, uint32_t channel, uint32_t *bit)
{
	const struct fab_node *n = &c->f->node[fab_next_switch(c->f, channel / VLS)];
	const uint64_t *waits = c->waits[channel];
	const uint32_t end = bits_of(c->f, channel / VLS);

	while (*bit < end) {
		const uint32_t i = (*bit)++;

		if (!(waits[i / 64] >> (i % 64)))
			*bit = (i / 64 + 1) * 64;
		else if (waits[i / 64] >> (i % 64) & 1)
			return fab_port_of(n, i / VLS) * VLS + i % VLS;
	}
	return 0;
}

/*
 * Depth-first search from @channel. Return: whether there is a circle: its begin in c->stack,
 * @*depth its end.
 */
static bool search(struct channels *c, uint32_t channel, uint32_t *begin, uint32_t *depth)
{
	uint32_t n = 1;

	c->stack[0] = channel;
	c->bit[0] = 0;
	c->colour[channel] = GREY;
	while (n) {
		const uint32_t next = waits_for(c, c->stack[n - 1], &c->bit[n - 1]);

		if (!next) {
			c->colour[c->stack[--n]] = BLACK;
		} else if (c->colour[next] == GREY) {
			for (*begin = 0; c->stack[*begin] != next;)
				++*begin;
			*depth = n;
			return true;
		} else if (c->colour[next] == WHITE) {
			c->colour[next] = GREY;
			c->stack[n] = next;
			c->bit[n++] = 0;
		}
	}
	return false;
}

/* Return: false: out of memory. */
static bool find(struct channels *c, struct fab_circle *circle)
{
	const uint32_t all = c->f->ports * VLS;
	uint32_t begin = 0, depth = 0, channel = 0;

	c->stack = calloc(c->used + 1, sizeof(*c->stack));
	c->bit = calloc(c->used + 1, sizeof(*c->bit));
	if (!c->stack || !c->bit)
		return false;
	while (channel < all && (!c->waits[channel] || c->colour[channel] != WHITE ||
				 !search(c, channel, &begin, &depth)))
		channel++;
	if (channel == all)
		return true;
	circle->port = calloc(depth - begin, sizeof(*circle->port));
	circle->vl = calloc(depth - begin, sizeof(*circle->vl));
	if (!circle->port || !circle->vl)
		return false;
	for (uint32_t i = begin; i < depth; i++) {
		circle->port[circle->n] = c->stack[i] / VLS;
		circle->vl[circle->n++] = (uint8_t)(c->stack[i] % VLS);
	}
	return true;
}

bool fab_circle_find(const struct fab *f, uint16_t sls, const struct fab_paths *paths,
		     struct fab_circle *circle)
{
	const size_t all = (size_t)f->ports * VLS;
	struct channels c = {
		.f = f,
		.sls = sls,
		.paths = paths,
		.seen = calloc(all, sizeof(*c.seen)),
		.waits = calloc(all, sizeof(*c.waits)),
		.colour = calloc(all, sizeof(*c.colour)),
	};
	bool ok;

	*circle = (struct fab_circle){ 0 };
	ok = c.seen && c.waits && c.colour && make_graph(&c) && find(&c, circle);
	for (size_t i = 0; c.waits && i < all; i++)
		free(c.waits[i]);
	free(c.seen);
	free(c.waits);
	free(c.colour);
	free(c.stack);
	free(c.bit);
	if (!ok)
		fab_circle_end(circle);
	return ok;
}

void fab_circle_end(struct fab_circle *c)
{
	free(c->port);
	free(c->vl);
	*c = (struct fab_circle){ 0 };
}
