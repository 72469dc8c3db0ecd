/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A topology file while it is read: topology.c takes its lines, topo_cables.c then finds the
 * other end of each cable. Private to these.
 */
#ifndef OHCA_FABRIC_TOPO_FILE_H
#define OHCA_FABRIC_TOPO_FILE_H

#include "topology.h"

/** struct topo_name - a piece of the file */
struct topo_name {
	const char *p;
	uint32_t len;
};

/** struct topo_node - a node's name and where its section begins; index as in struct fab */
struct topo_node {
	struct topo_name id;
	uint32_t line;
};

/**
 * struct topo_cable - one line of a port
 * @port: its port, index in struct fab
 * @num: port at the other end, of the node @id
 * @rate: as topo_rate() numbers them, 0: not said
 */
struct topo_cable {
	struct topo_name id;
	uint32_t line;
	uint32_t port;
	uint8_t num;
	uint8_t rate;
};

/**
 * struct topo_attrs - lines above a section that are about the node in it
 * @line: of the first, 0: there is none
 */
struct topo_attrs {
	uint32_t line;
	uint64_t guid, port0_guid, sys_guid;
	uint32_t vendor_id;
	uint32_t device_id;
	bool has_guid, has_port0, has_sys, has_vendor, has_device;
	uint8_t guid_type;		/* enum ib_node_type */
};

/**
 * struct topo - the file
 * @node: [@f->nodes]
 * @by_id: index of @node by name
 * @current: the node whose ports follow, or FAB_NONE
 * @attrs: of the next node
 * @width, @speed, @speed_ext: that ports have from here on, 0: not said
 */
struct topo {
	struct fab *f;
	const struct fab_report *report;
	unsigned int errors;
	uint32_t line;
	struct topo_node *node;
	uint32_t nodes_cap;
	struct topo_cable *cable;
	uint32_t cables, cables_cap;
	struct fab_hash by_id;
	uint32_t current;
	struct topo_attrs attrs;
	uint32_t generated[4];		/* GUIDs made up, by enum ib_node_type */
	uint8_t width, speed, speed_ext;
};

/** topo_error() - an error in line @line */
__attribute__((format(printf, 3, 4))) void topo_error(struct topo *t, uint32_t line,
						      const char *fmt, ...);

/** topo_too_many() - so many errors were reported that the rest is not worth reading */
bool topo_too_many(const struct topo *t);

/** topo_find() - node with the name @id, or FAB_NONE */
uint32_t topo_find(const struct topo *t, const struct topo_name *id);

/** topo_rate_name() - text of a rate, "4xEDR" */
const char *topo_rate_name(uint8_t rate, char buf[16]);

/** topo_rate() - number of the rate @s[@len], 0 if it is none */
uint8_t topo_rate(const char *s, size_t len);

/** topo_rate_set() - what a port with that rate supports */
void topo_rate_set(uint8_t rate, struct ib_port_info *pi);

/** topo_rate_of() - rate of a link that is up */
uint8_t topo_rate_of(const struct ib_port_info *pi);

/** topo_connect() - all lines are read: connect the cables, check what only the whole shows */
void topo_connect(struct topo *t);

#endif
