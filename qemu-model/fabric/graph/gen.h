/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fabric while it is generated. generate.c reads the plan. gen_kinds.c has a function for each
 * kind of fabric, which adds nodes and cables by gen_build.c; gen_names.c gives them their names;
 * gen_damage.c changes cables at the end. Private to these.
 */
#ifndef OHCA_FABRIC_GEN_H
#define OHCA_FABRIC_GEN_H

#include "generate.h"

#define GEN_MAX_ARGS	4u
#define GEN_LEVELS	3u	/* of cables: from hosts, from leaves, from spines upwards */

/**
 * struct gen_cable - a cable; cables are plugged when all are known
 * @a, @b: its ports, that of the lower level first
 * @level: below GEN_LEVELS
 * @rate: as topo_rate() numbers them
 * @inner: between a switch and its aggregation node
 */
struct gen_cable {
	uint32_t a, b;
	uint8_t level;
	uint8_t rate;
	bool inner;
};

/**
 * struct gen_model - a product: a switch and the adapter of its speed
 * @speed: number of its fastest rate, 4x
 * @name, @director: of the switch, and of one of several boards, or empty
 * @switch_id, @adapter_id: device IDs
 * @ports: of the switch, 4x
 * @boards: most leaves of a director; it has half as many spines
 * @split: each port can be two of 2x
 * @sharp: it has one more port, for an aggregation node
 * @mlx4: the driver of the adapter is mlx4; else it is mlx5
 */
struct gen_model {
	const char *speed;
	const char *name, *director;
	uint16_t switch_id, adapter_id;
	uint8_t ports;
	uint8_t boards;
	bool split;
	bool sharp;
	bool mlx4;
};

/**
 * struct gen - the fabric while it is generated
 * @f: the fabric
 * @plan: its plan
 * @arg: [@args] the numbers of the SPEC
 * @count: nodes by enum ib_node_type
 * @next_port: [FAB_MAX_NODES] the first free port
 * @cable: [@cables], room for @cables_cap
 * @rate: of cables by level
 * @machines: number of machines; @adapters: adapters of each. 0: one, and the name of a host is
 *	@role and its number, which is @first for the first one: "host1"
 * @failed: an error was written to @why[@size]
 */
struct gen {
	struct fab *f;
	const struct fab_plan *plan;
	uint64_t arg[GEN_MAX_ARGS];
	unsigned int args;
	uint32_t count[4];
	uint32_t *next_port;
	struct gen_cable *cable;
	uint32_t cables, cables_cap;
	uint8_t rate[GEN_LEVELS];
	uint32_t machines, adapters;
	const char *role;
	uint32_t first;
	bool failed;
	char *why;
	size_t size;
};

/**
 * struct gen_place - place of a switch
 * @level: 0: it has hosts or all switches are alike, 1: it is above these, 2: above those
 * @group, @group_num: the part that contains it; NULL: none
 * @role, @num: its role in this part, "leaf" 1
 */
struct gen_place {
	unsigned int level;
	const char *group;
	uint32_t group_num;
	const char *role;
	uint32_t num;
};

/**
 * gen_fail() - report that the plan is impossible; only the first reason is kept. Return: false.
 */
__attribute__((format(printf, 2, 3))) bool gen_fail(struct gen *g, const char *fmt, ...);

/* ---- gen_names.c ---- */

/**
 * gen_rates() - set @g->rate by the plan's speed
 * Return: false after gen_fail(), also if no product has them.
 */
bool gen_rates(struct gen *g);

/** gen_model() - the product for a switch of @level; NULL: names are plain */
const struct gen_model *gen_model(const struct gen *g, unsigned int level);

/** gen_switch_ports() - ports of a switch of @level if @ports are needed; 0 after gen_fail() */
unsigned int gen_switch_ports(struct gen *g, unsigned int level, unsigned int ports);

/** gen_host_name() - write the name of adapter @adapter of machine @machine, both from 0 */
void gen_host_name(const struct gen *g, uint32_t machine, uint32_t adapter,
		   char name[FAB_DESC_LEN + 1]);

/** gen_switch_name() - write the name of a switch */
void gen_switch_name(const struct gen *g, const struct gen_place *at, char name[FAB_DESC_LEN + 1]);

/** gen_guid() - NodeGUID number @n, from 1, of that type */
uint64_t gen_guid(const struct gen *g, enum ib_node_type type, uint32_t n);

/** gen_host_ids() - set IDs and GUIDs of adapter @node, except for its NodeGUID */
void gen_host_ids(struct gen *g, uint32_t node);

/** gen_switch_ids() - the same for switch @node */
void gen_switch_ids(struct gen *g, uint32_t node, const struct gen_place *at);

/** gen_aggregation() - add an aggregation node at the last port of each switch */
void gen_aggregation(struct gen *g);

/* ---- gen_build.c ---- */

/**
 * gen_fits() - whether @hosts and @switches that need @ports ports are possible
 * Return: false after gen_fail().
 */
bool gen_fits(struct gen *g, uint64_t hosts, uint64_t switches, uint64_t ports);

/**
 * gen_hosts() - add the hosts: @n channel adapters of @ports ports, @each of every machine; 0: see
 *	struct gen
 */
void gen_hosts(struct gen *g, uint32_t n, uint32_t each, unsigned int ports);

/** gen_switch() - add a switch that needs @ports ports */
void gen_switch(struct gen *g, unsigned int ports, struct gen_place at);

/**
 * gen_node() - add a node with that name and GUID. Return: its index; FAB_NONE after gen_fail().
 */
uint32_t gen_node(struct gen *g, enum ib_node_type type, unsigned int ports, uint64_t guid,
		  const char *name);

/** gen_cable() - add a cable of @level between the next free ports of two nodes */
void gen_cable(struct gen *g, unsigned int level, uint32_t a, uint32_t b);

/** gen_add_cable() - add a cable between two ports */
void gen_add_cable(struct gen *g, const struct gen_cable *c);

/** gen_plug() - connect the cables, when all are known */
void gen_plug(struct gen *g);

/* ---- gen_kinds.c ---- */

/** gen_make() - read the SPEC and make the fabric. Return: false after gen_fail(). */
bool gen_make(struct gen *g);

/* ---- gen_damage.c ---- */

/** gen_damage() - apply the plan's damage. Return: false after gen_fail(). */
bool gen_damage(struct gen *g, struct fab_damages *damages);

#endif
