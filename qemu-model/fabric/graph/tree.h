/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a fabric is the tree that it was meant to be. Nobody says what was meant: most cables are
 * right, so what differs from them is wrong.
 *
 * A leaf is a switch with hosts, unless a quarter of its cables to switches lead to ones with at least
 * twice as many hosts, and to several of them: then it is above these. Another switch is a rank above those to
 * which a quarter of its cables to switches lead; but there is no rank 2 if most switches of rank 1 have no cable
 * to it, and so on. The cables between a rank and the next one are those of blocks: each switch of the lower
 * rank in a block has as many cables to each switch of the upper rank in it. That is so in fat trees of any
 * number of levels, with pods or without, and in rail-optimised trees.
 */
#ifndef OHCA_FABRIC_TREE_H
#define OHCA_FABRIC_TREE_H

#include <stdio.h>

#include "graph.h"

/**
 * enum fab_finding_kind - what is wrong
 * @FAB_FINDING_MISWIRED: a cable leads to another switch than it should: port @port leads to the node of @to,
 *	and @node misses a cable
 * @FAB_FINDING_EXTRA: port @port leads to the node of @to, and should lead to no switch
 * @FAB_FINDING_MISSING: the node of @port has @is cables to @node, and should have @want; FAB_NONE: it has none
 *	to any switch above it
 * @FAB_FINDING_SLOW: the link of port @port and @to has the rate @is, others of the level have @want
 * @FAB_FINDING_RAIL: port @port of a host is at the leaf of @to, where most adapters are those with
 *	number @want of their hosts; this one has number @is, and its host has number @want elsewhere
 * @FAB_FINDING_NO_TREE: @node is no part of the tree: it is no leaf, and above no rank
 */
enum fab_finding_kind {
	FAB_FINDING_MISWIRED,
	FAB_FINDING_EXTRA,
	FAB_FINDING_MISSING,
	FAB_FINDING_SLOW,
	FAB_FINDING_RAIL,
	FAB_FINDING_NO_TREE,
};

/** struct fab_finding - a thing that is wrong; what the kind does not name is FAB_NO_PORT, FAB_NONE or 0 */
struct fab_finding {
	enum fab_finding_kind kind;
	uint32_t port, to;
	uint32_t node;
	uint32_t is, want;
};

/** struct fab_tree - what was found: switches by rank, and cables below each rank */
#define FAB_TREE_RANKS	8u
struct fab_tree {
	uint32_t ranks;
	uint32_t switches[FAB_TREE_RANKS];
	uint32_t cables[FAB_TREE_RANKS];
	uint32_t findings;
};

/**
 * fab_tree_check() - looks for cables that differ from most of their like
 * @f: sealed
 * @found: called for each finding
 * @ctx: its first argument
 * @tree: filled in
 *
 * Time grows with the number of cables times the ports of a switch, memory with the number of ports. Return: false if out of memory.
 */
bool fab_tree_check(const struct fab *f, void (*found)(void *ctx, const struct fab_finding *finding),
		    void *ctx, struct fab_tree *tree);

/** fab_finding_write() - a finding as a line of text */
void fab_finding_write(const struct fab *f, const struct fab_finding *finding, FILE *out);

#endif
