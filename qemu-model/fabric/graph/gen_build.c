// SPDX-License-Identifier: GPL-2.0-or-later
/* Nodes and cables of a generated fabric; see gen.h. */
#include "gen.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "topo_rate.h"

#define MAX_LIDS	49151u

bool gen_fail(struct gen *g, const char *fmt, ...)
{
	va_list ap;

	if (!g->failed) {
		va_start(ap, fmt);
		vsnprintf(g->why, g->size, fmt, ap);
		va_end(ap);
	}
	g->failed = true;
	return false;
}

bool gen_fits(struct gen *g, uint64_t hosts, uint64_t switches, uint64_t ports)
{
	const uint64_t lids = hosts + switches * (g->plan->aggregation ? 2 : 1);
	uint64_t most = ports;

	if (ports > FAB_MAX_NODE_PORTS)
		return gen_fail(g, "switches of %llu ports: at most %u are possible",
				(unsigned long long)ports, FAB_MAX_NODE_PORTS);
	if (hosts > MAX_LIDS || switches > MAX_LIDS || lids > MAX_LIDS)
		return gen_fail(g, "%llu hosts and %llu switches: a subnet has %u LIDs",
				(unsigned long long)hosts, (unsigned long long)switches, MAX_LIDS);
	if (!switches || !ports)
		return gen_fail(g, "a fabric needs a switch, and a switch needs a port");
	for (unsigned int i = 0; i < GEN_LEVELS && gen_model(g, i); i++) {
		const uint64_t n = gen_switch_ports(g, i, 1);

		most = n > most ? n : most;
	}
	if (lids + switches * most >= FAB_MAX_PORTS)
		return gen_fail(g, "more than %u ports", FAB_MAX_PORTS);
	return !g->failed;
}

uint32_t gen_node(struct gen *g, enum ib_node_type type, unsigned int ports, uint64_t guid,
		  const char *name)
{
	const uint32_t n = fab_add_node(g->f, type, ports, guid, name, strlen(name));

	if (n == FAB_NONE)
		gen_fail(g, "out of memory");
	else
		g->next_port[n] = 1;
	return n;
}

void gen_hosts(struct gen *g, uint32_t n, uint32_t each, unsigned int ports)
{
	const uint32_t adapters = each ? each : 1;
	char name[FAB_DESC_LEN + 1];

	g->adapters = each;
	g->machines = n / adapters;
	for (uint32_t i = 0; i < n && !g->failed; i++) {
		uint32_t node;

		gen_host_name(g, i / adapters, i % adapters, name);
		node = gen_node(g, IB_NODE_CHANNEL_ADAPTER, ports,
				gen_guid(g, IB_NODE_CHANNEL_ADAPTER,
					 ++g->count[IB_NODE_CHANNEL_ADAPTER]), name);
		if (node != FAB_NONE)
			gen_host_ids(g, node);
	}
}

void gen_switch(struct gen *g, unsigned int ports, struct gen_place at)
{
	const unsigned int has = gen_switch_ports(g, at.level, ports);
	char name[FAB_DESC_LEN + 1];
	uint32_t node;

	if (g->failed)
		return;
	gen_switch_name(g, &at, name);
	node = gen_node(g, IB_NODE_SWITCH_DEVICE, has,
			gen_guid(g, IB_NODE_SWITCH_DEVICE, ++g->count[IB_NODE_SWITCH_DEVICE]), name);
	if (node != FAB_NONE)
		gen_switch_ids(g, node, &at);
}

void gen_add_cable(struct gen *g, const struct gen_cable *c)
{
	if (g->failed)
		return;
	if (g->cables == g->cables_cap) {
		const uint32_t cap = g->cables_cap ? 2 * g->cables_cap : 256;
		struct gen_cable *grown = realloc(g->cable, cap * sizeof(*grown));

		if (!grown) {
			gen_fail(g, "out of memory");
			return;
		}
		g->cable = grown;
		g->cables_cap = cap;
	}
	g->cable[g->cables++] = *c;
}

void gen_cable(struct gen *g, unsigned int level, uint32_t a, uint32_t b)
{
	struct gen_cable c = { .level = (uint8_t)level, .rate = g->rate[level] };

	if (g->failed)
		return;
	c.a = fab_port_of(&g->f->node[a], g->next_port[a]++);
	c.b = fab_port_of(&g->f->node[b], g->next_port[b]++);
	gen_add_cable(g, &c);
}

void gen_plug(struct gen *g)
{
	for (uint32_t i = 0; i < g->cables; i++) {
		const struct gen_cable *c = &g->cable[i];

		fab_cable(g->f, c->a, c->b);
		topo_rate_set(c->rate, &g->f->port[c->a].pi);
		topo_rate_set(c->rate, &g->f->port[c->b].pi);
	}
}
