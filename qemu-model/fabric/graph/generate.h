/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Generated fabrics. The same plan always gives the same names, GUIDs, cables and damage.
 * Documentation/topology.rst has the rules.
 */
#ifndef OHCA_FABRIC_GENERATE_H
#define OHCA_FABRIC_GENERATE_H

#include <stdio.h>

#include "graph.h"

/* One line for each SPEC, for a usage text. */
#define FAB_GENERATE_HELP \
	"  star:N[,NODES[,PORTS[,FIRST]]] N hosts at one switch; the first ones are NODES nodes of\n" \
	"                        PORTS (1) ports, of which node FIRST (1) is the first\n" \
	"  fat-tree:K[,LEVELS]   of K-port switches; 2 levels (K^2/2 hosts) or 3 (K^3/4)\n" \
	"  ring:N[,HOSTS]        N switches, each with HOSTS hosts (1)\n" \
	"  torus:AxB[xC][,HOSTS] switches in a grid that wraps around, each with HOSTS hosts (1)\n" \
	"  dragonfly:A,P,H       A*H+1 groups of A switches, each with P hosts and H global links\n" \
	"  dragonfly+:G,L,S,P    G groups of L leaves with P hosts each, and S spines\n" \
	"  rails:U[,NODES,RAILS[,PORTS]] U units of NODES (32) machines at RAILS (8) leaves; an\n" \
	"                        adapter for each PORTS (1) of them\n" \
	"  random:SEED,N[,D,P]   N switches with D links (4) at random and P hosts (1) each\n"

#define FAB_MAX_DAMAGE	1000u	/* cables of each kind of damage */

/**
 * struct fab_plan - plan of a fabric
 * @spec: as above
 * @speed: rates of cables by level, hosts' first, as "4xHDR,NDR"; the last one is valid for higher
 *	levels; NULL: 4xEDR
 * @nvidia: names, GUIDs, IDs and numbers of ports as in NVIDIA's products
 * @aggregation: with @nvidia an aggregation node at each switch
 * @chassis: with @nvidia leaves and spines of a fat tree are boards of directors
 * @rails: adapters of each machine of a fat tree, 0: 1
 * @seed: chooses the cables with damage
 * @missing, @slow, @swapped: numbers of cables that are missing, of slow ones, and of pairs whose
 *	ends are swapped; at most FAB_MAX_DAMAGE
 */
struct fab_plan {
	const char *spec;
	const char *speed;
	bool nvidia;
	bool aggregation;
	bool chassis;
	uint32_t rails;
	uint32_t seed;
	uint32_t missing;
	uint32_t slow;
	uint32_t swapped;
};

/**
 * enum fab_damage_kind - kind of damage of a cable
 * @FAB_DAMAGE_MISSING: the cable does not exist
 * @FAB_DAMAGE_SLOW: its rate is lower than that of others
 * @FAB_DAMAGE_SWAPPED: two cables have each other's second end
 */
enum fab_damage_kind {
	FAB_DAMAGE_MISSING,
	FAB_DAMAGE_SLOW,
	FAB_DAMAGE_SWAPPED,
};

/**
 * struct fab_damage - one damage
 * @port: the ends, as index in struct fab, of the cable as planned. Swapped: @port[0] is
 *	connected to @port[1] and @port[2] to @port[3]; planned are [0] to [3] and [2] to [1]
 * @is, @was: for a slow cable its rate, and its planned rate
 */
struct fab_damage {
	enum fab_damage_kind kind;
	uint32_t port[4];
	char is[16], was[16];
};

/** struct fab_damages - all damage of a fabric. The caller frees @list. */
struct fab_damages {
	struct fab_damage *list;
	uint32_t n;
};

/**
 * fab_generate() - fill in an empty fabric
 * @spec: as above
 * @why: for an error: what is wrong and what is possible
 * @size: of @why
 *
 * Hosts come before switches: node 0 is a host. Links are 4x and EDR.
 *
 * Return: false if @spec is not valid or the fabric would be too large; then it may only be freed.
 * Otherwise call fab_seal() next.
 */
bool fab_generate(struct fab *f, const char *spec, char *why, size_t size);

/**
 * fab_generate_plan() - the same with a whole plan
 * @damages: filled in, empty after an error; may be NULL if the plan has no damage
 *
 * With any damage, cables between switches still connect all switches, and no host loses a cable.
 * Aggregation nodes come last, and their cables have no damage.
 */
bool fab_generate_plan(struct fab *f, const struct fab_plan *plan, struct fab_damages *damages,
		       char *why, size_t size);

/** fab_damage_write() - write a comment of a topology file about @d (Documentation/topology.rst) */
void fab_damage_write(const struct fab *f, const struct fab_damage *d, FILE *out);

#endif
