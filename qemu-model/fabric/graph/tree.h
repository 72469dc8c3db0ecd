/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks whether a fabric is the tree that was planned. The plan is not known: most cables are
 * right, so a cable that differs from most is wrong.
 *
 * A leaf is a switch with hosts, unless a quarter of its cables to switches lead to ones with at
 * least twice as many hosts, and to several of them: then it is above these. Any other switch is
 * one rank above switches to which a quarter of its cables to switches lead. But there is no rank 2
 * if most switches of rank 1 have no cable to it, and so on. The switches of a rank and of the next
 * one form blocks: each switch of the lower rank in a block has the same number of cables to each
 * switch of the upper rank in it. Fat trees of any number of levels, with pods or without, and
 * rail-optimised trees are of this form.
 */
#ifndef OHCA_FABRIC_TREE_H
#define OHCA_FABRIC_TREE_H

#include <stdio.h>

#include "graph.h"

/**
 * enum fab_finding_kind - kind of finding
 * @FAB_FINDING_MISWIRED: a cable leads to another switch than planned: port @port leads to the node
 *	of @to, and @node misses a cable
 * @FAB_FINDING_EXTRA: port @port leads to the node of @to, and should not lead to a switch
 * @FAB_FINDING_MISSING: the node of @port has @is cables to @node, and should have @want; FAB_NONE:
 *	it has none to any switch above it
 * @FAB_FINDING_SLOW: the link of port @port and @to has the rate @is, others of the level have
 *	@want
 * @FAB_FINDING_RAIL: port @port of a host is at the leaf of @to, where most adapters have number
 *	@want in their hosts; this one has number @is, and its host has number @want elsewhere
 * @FAB_FINDING_NO_TREE: @node is not part of the tree: it is not a leaf, and above no rank
 */
enum fab_finding_kind {
	FAB_FINDING_MISWIRED,
	FAB_FINDING_EXTRA,
	FAB_FINDING_MISSING,
	FAB_FINDING_SLOW,
	FAB_FINDING_RAIL,
	FAB_FINDING_NO_TREE,
};

/**
 * struct fab_finding - a finding; members that its kind does not use are FAB_NO_PORT, FAB_NONE or 0
 */
struct fab_finding {
	enum fab_finding_kind kind;
	uint32_t port, to;
	uint32_t node;
	uint32_t is, want;
};

/** struct fab_tree - the tree: switches by rank, and cables below each rank */
#define FAB_TREE_RANKS	8u
struct fab_tree {
	uint32_t ranks;
	uint32_t switches[FAB_TREE_RANKS];
	uint32_t cables[FAB_TREE_RANKS];
	uint32_t findings;
};

/**
 * fab_tree_check() - find cables that differ from most cables of their level
 * @f: sealed
 * @found: called for each finding
 * @ctx: its first argument
 * @tree: filled in
 *
 * Time grows with the number of cables times the ports of a switch, memory with the number of
 * ports.
 * Return: false if out of memory.
 */
bool fab_tree_check(const struct fab *f, void (*found)(void *ctx, const struct fab_finding *finding),
		    void *ctx, struct fab_tree *tree);

/** fab_finding_write() - write a finding as a line of text */
void fab_finding_write(const struct fab *f, const struct fab_finding *finding, FILE *out);

#endif
