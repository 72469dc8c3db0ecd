/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nodes, ports and cables of a topology file that lists cables. Private to the readers. */
#ifndef OHCA_FABRIC_TOPO_LIST_H
#define OHCA_FABRIC_TOPO_LIST_H

#include "graph.h"
#include "topo_text.h"

struct topo;

/**
 * struct topo_end - a port of a node, as in a line; 0: the line does not have the value
 * @key: identifies the node
 * @by_name: nodes with the same @key and another @name are different ones
 * @type: enum ib_node_type
 * @nports: of the node
 * @num: the port; 0: a switch itself
 * @name: NodeDescription
 * @guid: NodeGUID. Without one a node with one port has its PortGUID, and any other node @key
 * @port_guid: PortGUID
 * @rate: of its link, as topo_rate() numbers them
 *
 * Without a @type a node with more than two ports is a switch, another one a channel adapter.
 */
struct topo_end {
	uint64_t key;
	bool by_name;
	bool has_ids;			/* @vendor_id and @device_id are given */
	uint8_t type;
	uint8_t nports;
	uint8_t num;
	uint8_t lmc;
	uint8_t rate;
	uint16_t lid;
	uint16_t device_id;
	uint32_t vendor_id;
	struct topo_name name;
	uint64_t guid;
	uint64_t sys_guid;
	uint64_t port_guid;
};

/** struct topo_list - all nodes and their ports, and cables */
struct topo_list {
	struct topo_item *item;
	uint32_t items, items_cap;
	struct topo_seen *seen;
	uint32_t seens, seens_cap;
	struct topo_link *link;
	uint32_t links, links_cap;
	struct fab_hash by_key;
};

/** topo_list_end() - add the end in line @t->line. Return: the node, or FAB_NONE after an error. */
uint32_t topo_list_end(struct topo *t, const struct topo_end *e);

/** topo_list_cable() - add the cable in line @t->line, which has these ends */
void topo_list_cable(struct topo *t, const struct topo_end *a, const struct topo_end *b);

/** topo_list_find() - the node with that key, or FAB_NONE */
uint32_t topo_list_find(const struct topo *t, uint64_t key);

/** topo_list_build() - after all lines: make the nodes and the ends of the cables */
void topo_list_build(struct topo *t);

/** topo_list_free() - free its memory */
void topo_list_free(struct topo_list *l);

#endif
