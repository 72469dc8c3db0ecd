/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Topology files: what ibnetdiscover prints, and what ibsim reads, which is nearly the same.
 * Documentation/topology.rst has the grammar.
 */
#ifndef OHCA_FABRIC_TOPOLOGY_H
#define OHCA_FABRIC_TOPOLOGY_H

#include <stdio.h>

#include "graph.h"

#define FAB_MAX_FILE	(256u << 20)	/* bytes of a topology file */
#define FAB_MAX_ID	63u		/* characters of a node's name in one */

/**
 * struct fab_report - where findings about a topology go
 * @say: called for each; @line counts from 1, 0: the file as a whole. @text is a sentence
 *	without a line end: what is wrong and what to do
 * @ctx: its first argument
 */
struct fab_report {
	void (*say)(void *ctx, unsigned int line, const char *text);
	void *ctx;
};

/**
 * fab_topology_parse() - add what a file says to a fabric
 * @f: an empty fabric; after an error it may only be freed
 * @text: [@len], any bytes
 * @r: is told each error, but not endlessly many
 *
 * Return: false if there was an error. Otherwise fab_seal() is next.
 */
bool fab_topology_parse(struct fab *f, const char *text, size_t len, const struct fab_report *r);

/**
 * fab_topology_load() - the same of the file @path; "-": standard input
 *
 * It is read once, as a whole. Return: as fab_topology_parse(); a file that cannot be read is
 * an error that @r is told.
 */
bool fab_topology_load(struct fab *f, const char *path, const struct fab_report *r);

/**
 * fab_topology_write() - write a sealed fabric in ibnetdiscover's format
 *
 * Loading what was written gives the same text again. Only links that are up have a cable
 * there. Errors are left in @out.
 */
void fab_topology_write(const struct fab *f, FILE *out);

/** fab_topology_write_node() - the part of node @i */
void fab_topology_write_node(const struct fab *f, uint32_t i, FILE *out);

/**
 * fab_rate_limit() - at most a width and a speed
 * @lanes: 1, 2, 4, 8 or 12; 0: any
 * @speed: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR; NULL: any
 *
 * Return: false: there is no such width or speed.
 */
bool fab_rate_limit(unsigned int lanes, const char *speed, struct fab_limit *at_most);

#endif
