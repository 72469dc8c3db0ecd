/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Topology files. Documentation/topology.rst has the grammars.
 *
 * Clusters keep their topology in the format of some tool. These are read:
 *
 *	ibnetdiscover	a section for each node, also with -f or -g; ibsim's network files are
 *			nearly the same (topo_ibnet.c)
 *	ibnetdiscover -p	a line for each port, as exporters and schedulers keep it
 *			(topo_ports.c)
 *	ibdiagnet2.lst, opensm-subnet.lst	a line for each cable (topo_lst.c)
 *	ibdiagnet2.db_csv	tables of nodes, ports and links (topo_csv.c)
 *	IBDM's .topo	a section for each system of one chip (topo_ibdm.c)
 *
 * The first line that is neither empty nor a comment and that some format recognises determines the
 * format of the file. A line before it with a colon is a message of the tool, and causes a
 * warning. A later line that the format does not allow is an error with its number.
 *
 * Data that a format does not contain is generated, always in the same way. Only sections contain
 * all data: -p has no NodeGUIDs, vendor and device IDs and no ports beyond the last one that is
 * listed, the lists have no ports without a cable, .topo has neither GUIDs nor LIDs.
 *
 * Limits: FAB_MAX_FILE bytes, FAB_MAX_NODES nodes, FAB_MAX_PORTS ports, FAB_MAX_NODE_PORTS ports
 * of a node, 50 errors and 50 warnings that are reported. The time is linear in the bytes, the
 * nodes and the ports.
 */
#ifndef OHCA_FABRIC_TOPOLOGY_H
#define OHCA_FABRIC_TOPOLOGY_H

#include <stdio.h>

#include "graph.h"

#define FAB_MAX_FILE	(256u << 20)	/* bytes of a topology file */
#define FAB_MAX_ID	63u		/* characters of a node's name in one */

/**
 * struct fab_report - functions that report errors of a topology
 * @say: called for each error; @line counts from 1, 0: the file as a whole. @text is a sentence
 *	without a line end: what is wrong and what to do
 * @ctx: its first argument
 * @warn: the same for warnings; NULL: they are not reported
 * @parts: parts that no cable connects are not an error, as in a running fabric, whose links fail
 */
struct fab_report {
	void (*say)(void *ctx, unsigned int line, const char *text);
	void *ctx;
	void (*warn)(void *ctx, unsigned int line, const char *text);
	bool parts;
};

/**
 * fab_topology_parse() - add the contents of a file to a fabric
 * @f: an empty fabric; after an error it may only be freed
 * @text: [@len], any bytes
 * @r: called for each error, a limited number of times
 *
 * Return: false if there was an error. Otherwise call fab_seal() next.
 */
bool fab_topology_parse(struct fab *f, const char *text, size_t len, const struct fab_report *r);

/**
 * fab_topology_load() - the same for the file @path; "-": standard input
 *
 * It is read once, as a whole. Return: as fab_topology_parse(); a file that cannot be read is
 * an error that @r reports.
 */
bool fab_topology_load(struct fab *f, const char *path, const struct fab_report *r);

/**
 * fab_topology_write() - write a sealed fabric in ibnetdiscover's format
 *
 * Loading the output and writing it again gives the same text. Only links that are up are written
 * as cables. Errors are left in @out.
 */
void fab_topology_write(const struct fab *f, FILE *out);

/**
 * enum fab_format - formats in which a topology can be written
 * @FAB_FORMAT_IBNETDISCOVER: as fab_topology_write() does
 * @FAB_FORMAT_PORTS: as ibnetdiscover -p does
 * @FAB_FORMAT_LST: as ibdiagnet2.lst, each cable once
 * @FAB_FORMAT_SLURM: topology.conf for Slurm's topology/tree; only hosts that have a name of their
 *	own
 * @FAB_FORMAT_DOT: for Graphviz
 *
 * The first three can be read, too.
 */
enum fab_format {
	FAB_FORMAT_IBNETDISCOVER,
	FAB_FORMAT_PORTS,
	FAB_FORMAT_LST,
	FAB_FORMAT_SLURM,
	FAB_FORMAT_DOT,
	FAB_FORMATS,
};

/**
 * fab_format_by_name() - "ibnetdiscover", "ports", "lst", "slurm", "dot". Return: false: no such
 *	format.
 */
bool fab_format_by_name(const char *name, enum fab_format *format);

/**
 * fab_topology_write_as() - write a sealed fabric
 *
 * Only links that are up are written as cables. Errors are left in @out. Return: false if out of
 * memory.
 */
bool fab_topology_write_as(const struct fab *f, enum fab_format format, FILE *out);

/**
 * fab_topology_write_node() - write the part of node @i
 *
 * Return: false: it was not written as a whole. If @out is of open_memstream(), this is the only
 * sign that memory was missing.
 */
bool fab_topology_write_node(const struct fab *f, uint32_t i, FILE *out);

/** fab_link_rate() - rate of the link at port @p, "4xEDR"; "-": it is not up */
const char *fab_link_rate(const struct fab *f, uint32_t p, char buf[16]);

/**
 * fab_rate_limit() - make a limit from a width and a speed
 * @lanes: 1, 2, 4, 8 or 12; 0: any
 * @speed: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR; NULL: any
 *
 * Return: false: there is no such width or speed.
 */
bool fab_rate_limit(unsigned int lanes, const char *speed, struct fab_limit *at_most);

#endif
