// SPDX-License-Identifier: GPL-2.0-or-later
/* Names, GUIDs, IDs and numbers of ports of a generated fabric; see gen.h. */
#include "gen.h"

#include <string.h>

#include "ib/rate.h"
#include "topo_rate.h"

#define VENDOR		0x2c9u
#define SWITCH_GUIDS	0xb8599f0300000000ull	/* prefixes of this vendor */
#define ADAPTER_GUIDS	0x0c42a10300000000ull
#define CHASSIS_GUIDS	0x0000000000800000ull	/* added to those of switches */
#define AGGREGATION_ID	0xcf09u
#define AGGREGATION	0x10u			/* its GUID minus that of its switch */
#define IMAGE_OF_MLX4	3u			/* SystemImageGUID minus NodeGUID */

/*
 * A switch has the ports of its front, and ibnetdiscover shows one more if it has an
 * aggregation node. Q3400 has four chips, one for each plane; here it has one.
 */
static const struct gen_model models[] = {
	{ "4xQDR", "IS5030", "IS5300", 0xbd36, 0x673c, 36, 36, .mlx4 = true },
	{ "4xFDR10", "SX6036", "SX6536", 0xc738, 0x1011, 36, 36, .split = false },
	{ "4xFDR", "SX6036", "SX6536", 0xc738, 0x1011, 36, 36, .split = false },
	{ "4xEDR", "MSB7800", "CS7500", 0xcf08, 0x1017, 36, 36, .sharp = true },
	{ "4xHDR", "MQM8700", "CS8500", 0xd2f0, 0x101b, 40, 40, .split = true, .sharp = true },
	{ "4xNDR", "MQM9700", "", 0xd2f2, 0x1021, 64, 0, .split = true, .sharp = true },
	{ "4xXDR", "Q3400_RA", "", 0xd2f4, 0x1023, 144, 0, .sharp = true },
};

static const struct gen_model *model_of_speed(uint8_t rate)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(models); i++)
		if (!strcmp(topo_rate_speed(rate), models[i].speed + 2))
			return &models[i];
	return NULL;
}

const struct gen_model *gen_model(const struct gen *g, unsigned int level)
{
	const struct gen_model *down, *up;

	if (!g->plan->nvidia)
		return NULL;
	down = model_of_speed(g->rate[level]);
	up = model_of_speed(g->rate[level + 1 < GEN_LEVELS ? level + 1 : level]);
	return up > down ? up : down;
}

static bool is_split(const struct gen *g, unsigned int level)
{
	return !strcmp(topo_rate_lanes(g->rate[level]), "2") ||
	       (level + 1 < GEN_LEVELS && !strcmp(topo_rate_lanes(g->rate[level + 1]), "2"));
}

/* Parse a rate; "HDR" is "4xHDR". Return: 0: not valid. */
static uint8_t rate_of(const char *s, size_t len)
{
	char text[16];

	if (memchr(s, 'x', len))
		return topo_rate(s, len);
	snprintf(text, sizeof(text), "4x%.*s", (int)(len > 8 ? 8 : len), s);
	return topo_rate(text, strlen(text));
}

bool gen_rates(struct gen *g)
{
	const char *p = g->plan->speed ? g->plan->speed : "4xEDR";
	unsigned int n = 0;

	for (; *p && n < GEN_LEVELS; n++) {
		const size_t len = strcspn(p, ",");

		g->rate[n] = rate_of(p, len);
		if (!g->rate[n] || g->rate[n] == TOPO_RATE_UNKNOWN)
			break;
		p += len + (p[len] == ',' && p[len + 1]);
	}
	if (!n || *p)
		return gen_fail(g, "speed '%s' is not a list of 1 to %u rates as HDR or 2xHDR, of SDR, "
				"DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR", g->plan->speed,
				GEN_LEVELS);
	for (; n < GEN_LEVELS; n++)
		g->rate[n] = g->rate[n - 1];
	for (n = 0; n < GEN_LEVELS; n++) {
		const struct gen_model *m = model_of_speed(g->rate[n]);
		const char *lanes = topo_rate_lanes(g->rate[n]);
		char text[16];

		if (!g->plan->nvidia) {
			if (!strcmp(topo_rate_speed(g->rate[n]), "FDR10"))
				return gen_fail(g, "only nodes with --names nvidia have FDR10");
		} else if (!m || (strcmp(lanes, "4") && !(m->split && !strcmp(lanes, "2")))) {
			return gen_fail(g, "%s: no switch is known with it; --names nvidia has 4x of QDR "
					"and faster, and 2x of HDR and NDR",
					topo_rate_name(g->rate[n], text));
		}
	}
	return true;
}

unsigned int gen_switch_ports(struct gen *g, unsigned int level, unsigned int ports)
{
	const struct gen_model *m = gen_model(g, level);
	unsigned int has;

	if (!m)
		return ports;
	has = m->split && is_split(g, level) ? 2u * m->ports : m->ports;
	if (ports > has) {
		gen_fail(g, "%s has %u ports, and a switch needs %u: use a smaller fabric or "
			 "another --speed", m->name, has, ports);
		return 0;
	}
	if (g->plan->aggregation && !m->sharp) {
		gen_fail(g, "%s has no aggregation node: --speed EDR or faster", m->name);
		return 0;
	}
	return has + m->sharp;
}

/* Number of digits of @n, at least @least. */
static int digits(uint32_t n, int least)
{
	int d = 1;

	while (n /= 10)
		d++;
	return d > least ? d : least;
}

void gen_host_name(const struct gen *g, uint32_t machine, uint32_t adapter,
		   char name[FAB_DESC_LEN + 1])
{
	if (g->plan->nvidia)
		snprintf(name, FAB_DESC_LEN + 1, "node%0*u %s_%u", digits(g->machines, 3),
			 machine + 1, model_of_speed(g->rate[0])->mlx4 ? "mlx4" : "mlx5", adapter);
	else if (g->adapters)
		snprintf(name, FAB_DESC_LEN + 1, "node%u ohca_%u", machine + 1, adapter);
	else
		snprintf(name, FAB_DESC_LEN + 1, "%s%u", g->role, machine + g->first);
}

static bool is_board(const struct gen *g, const struct gen_place *at)
{
	return g->plan->chassis && at->level < 2;
}

void gen_switch_name(const struct gen *g, const struct gen_place *at, char name[FAB_DESC_LEN + 1])
{
	const struct gen_model *m = gen_model(g, at->level);
	char group[24] = "";

	if (!m) {
		if (at->group)
			snprintf(group, sizeof(group), "%s%u ", at->group, at->group_num);
		snprintf(name, FAB_DESC_LEN + 1, "%s%s%u", group, at->role, at->num);
		return;
	}
	if (at->group)
		snprintf(group, sizeof(group), "%s%02u", at->group, at->group_num);
	if (is_board(g, at))
		snprintf(name, FAB_DESC_LEN + 1, "MF0;%s:%s/%c%02u/U1",
			 at->group ? group : "director01", m->director, at->level ? 'S' : 'L',
			 at->num);
	else
		snprintf(name, FAB_DESC_LEN + 1, "MF0;%s%s%s%02u:%s/U1", group,
			 at->group ? "-" : "", at->role, at->num, m->name);
}

uint64_t gen_guid(const struct gen *g, enum ib_node_type type, uint32_t n)
{
	if (!g->plan->nvidia)
		return fab_made_guid(type, n);
	return type == IB_NODE_SWITCH_DEVICE ? SWITCH_GUIDS | (uint64_t)n << 6 :
					       ADAPTER_GUIDS | (uint64_t)n << 4;
}

void gen_host_ids(struct gen *g, uint32_t node)
{
	struct fab_node *n = &g->f->node[node];
	const struct gen_model *m;

	if (!g->plan->nvidia)
		return;
	m = model_of_speed(g->rate[0]);
	n->vendor_id = VENDOR;
	n->device_id = m->adapter_id;
	if (m->mlx4)
		n->sys_guid = n->guid + IMAGE_OF_MLX4;
	else
		g->f->port[fab_port_of(n, 1)].guid = n->guid;
}

void gen_switch_ids(struct gen *g, uint32_t node, const struct gen_place *at)
{
	const struct gen_model *m = gen_model(g, at->level);
	struct fab_node *n = &g->f->node[node];

	if (!m)
		return;
	n->vendor_id = VENDOR;
	n->device_id = m->switch_id;
	if (!is_board(g, at))
		return;
	if (at->num > m->boards / (at->level ? 2u : 1u))
		gen_fail(g, "chassis have up to 36 leaves and 18 spines of QDR, FDR and EDR, or 40 and 20 "
			 "of HDR");
	n->sys_guid = SWITCH_GUIDS | CHASSIS_GUIDS | (uint64_t)(at->group ? at->group_num : 1) << 6;
	n->sys_guid ^= (uint64_t)g->f->site << 32;
}

void gen_aggregation(struct gen *g)
{
	const uint32_t nodes = g->f->nodes;

	for (uint32_t i = 0; i < nodes && !g->failed; i++) {
		struct gen_cable c = { .inner = true };
		struct fab_node *n;
		uint32_t an;

		if (g->f->node[i].type != IB_NODE_SWITCH_DEVICE)
			continue;
		an = gen_node(g, IB_NODE_CHANNEL_ADAPTER, 1, g->f->node[i].guid + AGGREGATION,
			      "Mellanox Technologies Aggregation Node");
		if (an == FAB_NONE)
			return;
		n = &g->f->node[an];
		n->vendor_id = VENDOR;
		n->device_id = AGGREGATION_ID;
		n->sys_guid = g->f->node[i].sys_guid;
		c.a = fab_port_of(n, 1);
		g->f->port[c.a].guid = n->guid;
		c.b = fab_port_of(&g->f->node[i], g->f->node[i].nports);
		for (unsigned int m = 0; m < IB_ARRAY_SIZE(models); m++)
			if (models[m].switch_id == g->f->node[i].device_id)
				c.rate = topo_rate(models[m].speed, strlen(models[m].speed));
		gen_add_cable(g, &c);
	}
}
