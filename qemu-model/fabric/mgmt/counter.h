/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counters of a port by the specification's names (16.1.3). Their numbers are their positions
 * in struct ohca_port_counters.
 */
#ifndef OHCA_FABRIC_COUNTER_H
#define OHCA_FABRIC_COUNTER_H

#include "fabric/graph/graph.h"
#include "ib/pma.h"

#define FAB_COUNTERS	22u

/**
 * struct fab_link_counts - numbers of cables, of those with a link, and of those with both ends
 *	Active
 */
struct fab_link_counts {
	uint32_t cables, up, active;
};

/**
 * fab_count_links() - count all cables of @f; the state of a machine's link is that of the switch's
 *	end
 */
void fab_count_links(const struct fab *f, struct fab_link_counts *n);

/** fab_counter_name() - name of counter @i, below FAB_COUNTERS */
const char *fab_counter_name(unsigned int i);

/** fab_counter() - counter @i of @c */
uint64_t fab_counter(const struct ohca_port_counters *c, unsigned int i);

/** fab_counter_number() - number of the counter @name; FAB_COUNTERS: there is none */
unsigned int fab_counter_number(const char *name);

/** fab_counter_set() - set counter @name of @c to @v. Return: false: there is none. */
bool fab_counter_set(struct ohca_port_counters *c, const char *name, uint64_t v);

#endif
