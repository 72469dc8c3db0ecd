/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counters of a port by the specification's names (16.1.3). Their numbers are their places in
 * struct ohca_port_counters.
 */
#ifndef OHCA_FABRIC_COUNTER_H
#define OHCA_FABRIC_COUNTER_H

#include "fabric/graph/graph.h"
#include "ib/pma.h"

#define FAB_COUNTERS	22u

/** struct fab_link_counts - cables, those with a link, and those whose both ends are Active */
struct fab_link_counts {
	uint32_t cables, up, active;
};

/** fab_count_links() - all of @f; of a machine's cable the switch's end tells what its link is */
void fab_count_links(const struct fab *f, struct fab_link_counts *n);

/** fab_counter_name() - name of counter @i, below FAB_COUNTERS */
const char *fab_counter_name(unsigned int i);

/** fab_counter() - counter @i of @c */
uint64_t fab_counter(const struct ohca_port_counters *c, unsigned int i);

/** fab_counter_number() - of the counter @name; FAB_COUNTERS: there is none */
unsigned int fab_counter_number(const char *name);

/** fab_counter_set() - counter @name of @c is @v from now on. Return: false: there is none. */
bool fab_counter_set(struct ohca_port_counters *c, const char *name, uint64_t v);

#endif
