// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes a fabric in the formats of other tools; see topology.h. ibnetdiscover's own is in
 * topo_io.c.
 */
#include <inttypes.h>
#include <string.h>

#include "topo_file.h"

static const char * const format_names[FAB_FORMATS] = {
	[FAB_FORMAT_IBNETDISCOVER] = "ibnetdiscover",
	[FAB_FORMAT_PORTS] = "ports",
	[FAB_FORMAT_LST] = "lst",
	[FAB_FORMAT_SLURM] = "slurm",
	[FAB_FORMAT_DOT] = "dot",
};

bool fab_format_by_name(const char *name, enum fab_format *format)
{
	for (unsigned int i = 0; i < FAB_FORMATS; i++) {
		if (strcmp(name, format_names[i]))
			continue;
		*format = (enum fab_format)i;
		return true;
	}
	return false;
}

static const char *kind_of(const struct fab_node *n)
{
	return n->type == IB_NODE_SWITCH_DEVICE ? "SW" :
	       n->type == IB_NODE_CHANNEL_ADAPTER ? "CA" : "RT";
}

/* The PortGUID that tools show for a port: for a switch's port that of port 0. */
static uint64_t shown_guid(const struct fab *f, uint32_t p)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	return f->port[n->type == IB_NODE_SWITCH_DEVICE ? fab_port_of(n, 0) : p].guid;
}

/* Write a description without bytes that would end its line. */
static void put_name(const struct fab *f, uint32_t n, FILE *out)
{
	const char *d = f->desc[n].text;

	for (unsigned int i = 0; i < FAB_DESC_LEN && d[i]; i++)
		putc(d[i] == '\n' || d[i] == '\r' ? ' ' : d[i], out);
}

static void ports_port(const struct fab *f, uint32_t p, FILE *out)
{
	const struct fab_port *port = &f->port[p];
	const struct fab_node *n = &f->node[port->node];
	const uint8_t rate = topo_rate_of(topo_link_info(f, p));
	uint32_t peer;

	fprintf(out, "%2s %5u %2u 0x%016" PRIx64 " %sx %s", kind_of(n), topo_end_lid(f, p),
		fab_port_num(f, p), shown_guid(f, p), topo_rate_lanes(rate), topo_rate_speed(rate));
	if (!topo_is_up(f, p)) {
		fprintf(out, "%36s'", "");
		put_name(f, port->node, out);
		fputs("'\n", out);
		return;
	}
	peer = port->peer;
	fprintf(out, " - %2s %5u %2u 0x%016" PRIx64 " ( '", kind_of(&f->node[f->port[peer].node]),
		topo_end_lid(f, peer), fab_port_num(f, peer), shown_guid(f, peer));
	put_name(f, port->node, out);
	fputs("' - '", out);
	put_name(f, f->port[peer].node, out);
	fputs("' )\n", out);
}

/* Write in the format of ibnetdiscover -p: the last port of a node first. */
static void write_ports(const struct fab *f, FILE *out)
{
	for (uint32_t i = 0; i < f->nodes; i++)
		for (unsigned int num = f->node[i].nports; num >= 1; num--)
			ports_port(f, fab_port_of(&f->node[i], num), out);
}

static void lst_put_end(const struct fab *f, uint32_t p, FILE *out)
{
	const uint32_t i = f->port[p].node;
	const struct fab_node *n = &f->node[i];

	fprintf(out, "{ %s Ports:%02X SystemGUID:%016" PRIx64 " NodeGUID:%016" PRIx64
		" PortGUID:%016" PRIx64 " VenID:%06X DevID:%04X Rev:%08X {", kind_of(n), n->nports,
		n->sys_guid, n->guid, shown_guid(f, p), n->vendor_id, n->device_id, 1u);
	put_name(f, i, out);
	fprintf(out, "} LID:%04X PN:%02X } ", topo_end_lid(f, p), fab_port_num(f, p));
}

static void write_lst(const struct fab *f, FILE *out)
{
	for (uint32_t p = 1; p < f->ports; p++) {
		const struct ib_port_info *pi;
		uint8_t rate;

		if (!topo_is_up(f, p) || f->port[p].peer < p)
			continue;
		pi = topo_link_info(f, p);
		rate = topo_rate_of(pi);
		lst_put_end(f, p, out);
		lst_put_end(f, f->port[p].peer, out);
		fprintf(out, "PHY=%sx LOG=%s SPD=%s\n", topo_rate_lanes(rate),
			pi->state == IB_PS_ACTIVE ? "ACT" :
			pi->state == IB_PS_ARMED ? "ARM" : "INI",
			topo_rate_gbps(rate));
	}
}

/* Write for Graphviz: switches are boxes, all cables between two nodes are one edge. */
static void write_dot(const struct fab *f, FILE *out)
{
	fputs("graph fabric {\n", out);
	for (uint32_t i = 0; i < f->nodes; i++) {
		fprintf(out, "\t\"0x%016" PRIx64 "\" [label=\"", f->node[i].guid);
		for (unsigned int k = 0; k < FAB_DESC_LEN && f->desc[i].text[k]; k++) {
			const char ch = f->desc[i].text[k];

			if (ch == '"' || ch == '\\')
				putc('\\', out);
			putc(ch == '\n' || ch == '\r' ? ' ' : ch, out);
		}
		fprintf(out, "\"%s];\n",
			f->node[i].type == IB_NODE_SWITCH_DEVICE ? ", shape=box" : "");
	}
	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_port *port = &f->port[p];
		char rate[16];

		if (!topo_is_up(f, p) || port->peer < p)
			continue;
		fprintf(out, "\t\"0x%016" PRIx64 "\" -- \"0x%016" PRIx64 "\" [taillabel=\"%u\", "
			"headlabel=\"%u\", label=\"%s\"];\n", f->node[port->node].guid,
			f->node[f->port[port->peer].node].guid, fab_port_num(f, p),
			fab_port_num(f, port->peer),
			topo_rate_name(topo_rate_of(topo_link_info(f, p)), rate));
	}
	fputs("}\n", out);
}

bool fab_topology_write_as(const struct fab *f, enum fab_format format, FILE *out)
{
	switch (format) {
	case FAB_FORMAT_PORTS:
		write_ports(f, out);
		return true;
	case FAB_FORMAT_LST:
		write_lst(f, out);
		return true;
	case FAB_FORMAT_SLURM:
		return topo_write_slurm(f, out);
	case FAB_FORMAT_DOT:
		write_dot(f, out);
		return true;
	default:
		fab_topology_write(f, out);
		return true;
	}
}
