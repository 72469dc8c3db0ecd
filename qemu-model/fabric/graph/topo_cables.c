// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks that need the whole topology file: both ends of each cable, parts, duplicate values. */
#include "topo_file.h"
#include "subnet.h"

#include <stdlib.h>

#include "ib/mlnx.h"
#include "ib/rate.h"

/* Arguments of "%.*s" */
#define ID(n)	(int)(n).len, (n).p

static const struct topo_node *cable_node_of(const struct topo *t, uint32_t port)
{
	return &t->node[t->f->port[port].node];
}

/* FDR10 is set only where a tool can read it. */
static void set_rate(const struct topo *t, uint32_t port, uint8_t rate)
{
	const struct fab_node *n = &t->f->node[t->f->port[port].node];
	struct ib_port_info *pi = &t->f->port[port].pi;

	topo_rate_set(rate, pi);
	if (!ib_mlnx_ids(n->vendor_id, n->device_id))
		pi->speed_supported &= (uint8_t)~IB_SPEED_FDR10;
}

/* The port at the other end, as in the line, or FAB_NO_PORT: there is no such port. */
static uint32_t named_end(const struct topo *t, const struct topo_cable *c)
{
	uint32_t n;

	if (c->far != FAB_NO_PORT)
		return c->far;
	n = topo_find(t, &c->id);
	return n == FAB_NONE || c->num > t->f->node[n].nports ? FAB_NO_PORT :
		fab_port_of(&t->f->node[n], c->num);
}

/* The same; FAB_NO_PORT after an error. */
static uint32_t far_end(struct topo *t, const struct topo_cable *c)
{
	const uint32_t port = named_end(t, c);
	uint32_t n;

	if (port == c->port) {
		topo_error(t, c->line, "the port is connected to itself: a cable has two ends");
		return FAB_NO_PORT;
	}
	if (port != FAB_NO_PORT)
		return port;
	n = topo_find(t, &c->id);
	if (n == FAB_NONE)
		topo_error(t, c->line, "there is no node \"%.*s\": write a section for it, or "
			   "remove this line", ID(c->id));
	else
		topo_error(t, c->line, "\"%.*s\" has no port %u: line %u says that it has %u",
			   ID(c->id), c->num, t->node[n].line, t->f->node[n].nports);
	return FAB_NO_PORT;
}

/* The line of @c names @far; check that the line of @far, @back, names @c. */
static bool ends_agree(struct topo *t, const struct topo_cable *c, uint32_t far,
		       const struct topo_cable *back)
{
	if (!back) {
		topo_error(t, c->line, "the cable has one end only: add [%u] \"%.*s\"[%u] below "
			   "\"%.*s\" in line %u, or remove this line", c->num,
			   ID(cable_node_of(t, c->port)->id), fab_port_num(t->f, c->port),
			   ID(c->id),
			   cable_node_of(t, far)->line);
		return false;
	}
	if (named_end(t, back) == c->port)
		return true;
	topo_error(t, c->line, "\"%.*s\"[%u] is connected to \"%.*s\"[%u] by line %u: correct "
		   "one of the lines", ID(c->id), c->num, ID(back->id), back->num, back->line);
	return false;
}

/* The rate of the end @c of a cable: the lower one if the ends differ. 0: it is not given */
static uint8_t end_rate(const struct topo_cable *c, const struct topo_cable *back)
{
	const uint8_t a = c->rate, b = back->rate;

	/* the tool did not know it at one end */
	if (a == TOPO_RATE_UNKNOWN)
		return b == TOPO_RATE_UNKNOWN ? 0 : b;
	return a && b && b != TOPO_RATE_UNKNOWN && a != b ? topo_rate_lower(a, b) : a;
}

/* Warn at the first of two lines about a cable if their rates differ. */
static void warn_of_rates(struct topo *t, const struct topo_cable *c, const struct topo_cable *back)
{
	const uint8_t a = c->rate, b = back->rate;
	char text_a[16], text_b[16];

	if (a == b || !a || !b || a == TOPO_RATE_UNKNOWN || b == TOPO_RATE_UNKNOWN ||
	    c->line > back->line || (c->line == back->line && c > back))
		return;
	topo_warn(t, c->line, "this end of the cable has %s, the other in line %u %s: it gets %s",
		  topo_rate_name(a, text_a), back->line, topo_rate_name(b, text_b),
		  topo_rate_lower(a, b) == a ? text_a : text_b);
}

/* Set the rate of the end @c of a cable. The other end is set by its own line. */
static void set_end(struct topo *t, const struct topo_cable *c, const struct topo_cable *back)
{
	const uint8_t rate = end_rate(c, back);

	if (rate)
		set_rate(t, c->port, rate);
	warn_of_rates(t, c, back);
}

/* @at: [ports] index of each port's cable, FAB_NONE: it has none */
static void connect_all(struct topo *t, uint32_t *at)
{
	for (uint32_t i = 0; i < t->f->ports; i++)
		at[i] = FAB_NONE;
	for (uint32_t i = 0; i < t->cables; i++) {
		const struct topo_cable *c = &t->cable[i];

		if (at[c->port] == FAB_NONE)
			at[c->port] = i;
		else
			topo_error(t, c->line, "port %u of \"%.*s\" is connected in line %u "
				   "already: remove one of the lines", fab_port_num(t->f, c->port),
				   ID(cable_node_of(t, c->port)->id), t->cable[at[c->port]].line);
	}
	if (t->errors)
		return;
	for (uint32_t i = 0; i < t->cables && !topo_too_many(t); i++) {
		const struct topo_cable *c = &t->cable[i];
		const uint32_t far = far_end(t, c);
		const struct topo_cable *back;

		if (far == FAB_NO_PORT)
			continue;
		back = at[far] == FAB_NONE ? NULL : &t->cable[at[far]];
		if (!ends_agree(t, c, far, back))
			continue;
		fab_cable(t->f, c->port, far);
		set_end(t, c, back);
	}
}

/* ---- values that must be unique ------------------------------------------------ */

static bool cable_guid_is(const void *ctx, uint32_t index, const void *key)
{
	const struct fab *f = ctx;

	return f->port[index].guid == *(const uint64_t *)key;
}

/* Check that no earlier port has the PortGUID of port @p. */
static void check_port_guid(struct topo *t, struct fab_hash *h, uint32_t p)
{
	const uint64_t guid = t->f->port[p].guid;
	const uint32_t hash = fab_hash_u64(guid);
	uint32_t other;

	if (!guid)
		return;
	other = fab_hash_find(h, hash, cable_guid_is, t->f, &guid);
	if (other != FAB_NONE)
		topo_error(t, cable_node_of(t, p)->line, "port GUID 0x%016llx of port %u is that "
			   "of \"%.*s\" in line %u: give one of them another",
			   (unsigned long long)guid, fab_port_num(t->f, p),
			   ID(cable_node_of(t, other)->id), cable_node_of(t, other)->line);
	else if (!fab_hash_add(h, hash, p))
		topo_error(t, 0, "out of memory");
}

/* A LID in a subnet. */
struct cable_lid {
	uint32_t subnet;
	uint32_t lid;
};

static bool cable_lid_is(const void *ctx, uint32_t index, const void *key)
{
	const struct fab *f = ctx;
	const struct ib_port_info *pi = &f->port[index].pi;
	const struct cable_lid *k = key;

	return k->lid >= pi->lid && k->lid < pi->lid + (1u << pi->lmc) &&
	       fab_subnet_of(f, index) == k->subnet;
}

/* Check that no port of its subnet in @h has one of its LIDs, and add them. */
static void check_lid(struct topo *t, struct fab_hash *h, uint32_t p)
{
	const struct ib_port_info *pi = &t->f->port[p].pi;
	struct cable_lid k = { fab_subnet_of(t->f, p), pi->lid };

	for (uint32_t i = 0; pi->lid && i < 1u << pi->lmc; i++, k.lid++) {
		const uint32_t hash = fab_hash_u64((uint64_t)k.subnet << 32 | k.lid);
		const uint32_t other = fab_hash_find(h, hash, cable_lid_is, t->f, &k);

		if (other != FAB_NONE) {
			topo_error(t, cable_node_of(t, p)->line, "LID %u is that of \"%.*s\" in "
				   "line %u, too: correct one, or remove both", k.lid,
				   ID(cable_node_of(t, other)->id), cable_node_of(t, other)->line);
			return;
		}
		if (!fab_hash_add(h, hash, p)) {
			topo_error(t, 0, "out of memory");
			return;
		}
	}
}

static void check_ends(struct topo *t)
{
	struct fab_hash h = { 0 }, lids = { 0 };
	const bool found = fab_subnets_find(t->f);

	if (!found)
		topo_error(t, 0, "out of memory");
	for (uint32_t i = 0; found && i < t->f->nodes; i++) {
		const struct fab_node *n = &t->f->node[i];

		for (unsigned int k = fab_first_num(n); k <= fab_last_end(n); k++) {
			if (topo_too_many(t))
				break;
			check_port_guid(t, &h, fab_port_of(n, k));
			check_lid(t, &lids, fab_port_of(n, k));
		}
	}
	fab_hash_free(&h);
	fab_hash_free(&lids);
}

/* ---- parts --------------------------------------------------------------------- */

/* Mark all nodes that are connected to @start. Return: how many. @stack: [nodes] */
static uint32_t walk(const struct fab *f, uint32_t start, uint32_t part, uint32_t *part_of,
		     uint32_t *stack)
{
	uint32_t depth = 0, count = 0;

	stack[depth++] = start;
	part_of[start] = part;
	while (depth) {
		const struct fab_node *n = &f->node[stack[--depth]];

		count++;
		for (unsigned int i = 1; i <= n->nports; i++) {
			uint32_t peer = f->port[fab_port_of(n, i)].peer, next;

			if (peer == FAB_NO_PORT)
				continue;
			next = f->port[peer].node;
			if (part_of[next])
				continue;
			part_of[next] = part;
			stack[depth++] = next;
		}
	}
	return count;
}

/* Check that all nodes are in the part of the first node. */
static void check_parts(struct topo *t)
{
	const struct fab *f = t->f;
	uint32_t *part_of = calloc(f->nodes, sizeof(*part_of));
	uint32_t *stack = calloc(f->nodes, sizeof(*stack));

	if (!part_of || !stack)
		topo_error(t, 0, "out of memory");
	for (uint32_t i = 0, part = 0; part_of && stack && i < f->nodes && !topo_too_many(t); i++) {
		uint32_t count;

		if (part_of[i])
			continue;
		count = walk(f, i, ++part, part_of, stack);
		if (part == 1)
			continue;
		topo_error(t, t->node[i].line, "\"%.*s\"%s not connected to \"%.*s\" in line %u: "
			   "add a cable, or put them into a file of their own", ID(t->node[i].id),
			   count == 1 ? " is" : " and what hangs together with it are",
			   ID(t->node[0].id), t->node[0].line);
	}
	free(part_of);
	free(stack);
}

void topo_connect(struct topo *t)
{
	uint32_t *at;

	if (!t->f->nodes) {
		topo_error(t, 0, "there is no node in it: a node is a line Switch, Ca, Hca or Rt");
		return;
	}
	at = malloc(t->f->ports * sizeof(*at));
	if (!at) {
		topo_error(t, 0, "out of memory");
		return;
	}
	connect_all(t, at);
	free(at);
	check_ends(t);
	if (!t->errors && !t->report->parts)
		check_parts(t);
}
