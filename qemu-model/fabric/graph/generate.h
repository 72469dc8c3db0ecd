/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fabrics made by a rule. The same SPEC always gives the same names, GUIDs and cables. */
#ifndef OHCA_FABRIC_GENERATE_H
#define OHCA_FABRIC_GENERATE_H

#include "graph.h"

/* One line for each SPEC, for a usage text. */
#define FAB_GENERATE_HELP \
	"  star:N                N hosts at one switch\n" \
	"  fat-tree:K[,LEVELS]   of K-port switches; 2 levels (K^2/2 hosts) or 3 (K^3/4)\n" \
	"  ring:N[,HOSTS]        N switches, each with HOSTS hosts (1)\n" \
	"  torus:AxB[xC][,HOSTS] switches in a grid that wraps around, each with HOSTS hosts (1)\n" \
	"  dragonfly:A,P,H       A*H+1 groups of A switches, each with P hosts and H global links\n" \
	"  dragonfly+:G,L,S,P    G groups of L leaves with P hosts each, and S spines\n" \
	"  rails:U[,NODES,RAILS] U units of NODES (32) machines with RAILS (8) adapters\n" \
	"  random:SEED,N[,D,P]   N switches with D links (4) at random and P hosts (1) each\n"

/**
 * fab_generate() - fill in an empty fabric
 * @spec: as above
 * @why: of an error: what is wrong and what is possible
 * @size: of @why
 *
 * Hosts come before switches: node 0 is a host. Links are 4x and EDR.
 *
 * Return: false if @spec is none or the fabric would be too large; it may only be freed then.
 * Otherwise fab_seal() is next.
 */
bool fab_generate(struct fab *f, const char *spec, char *why, size_t size);

#endif
