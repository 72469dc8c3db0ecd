/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A topology file while it is read. A reader of one format parses its lines (topo_ibnet.c,
 * topo_ports.c, topo_lst.c, topo_csv.c, topo_ibdm.c). A format with a section for each node makes
 * nodes at once (topo_build.c). One that lists cables fills in a struct topo_list, whose nodes are
 * made when all lines are read, since only then the number of their ports is known (topo_list.c).
 * At the end topo_cables.c connects the cables. Private to these.
 */
#ifndef OHCA_FABRIC_TOPO_FILE_H
#define OHCA_FABRIC_TOPO_FILE_H

#include "topo_list.h"
#include "topo_rate.h"
#include "topo_text.h"
#include "topology.h"

/** struct topo_node - a node's name and the begin of its section; index as in struct fab */
struct topo_node {
	struct topo_name id;
	uint32_t line;
};

/**
 * struct topo_cable - one end of a cable, as in a line
 * @id: the node at the other end, if @far is FAB_NO_PORT
 * @port: its port, index in struct fab
 * @far: the port at the other end, index in struct fab, if it is known already
 * @num: else its number, at node @id
 * @rate: as topo_rate() numbers them, 0: not given
 */
struct topo_cable {
	struct topo_name id;
	uint32_t line;
	uint32_t port;
	uint32_t far;
	uint8_t num;
	uint8_t rate;
};

/**
 * struct topo_attrs - attributes of the next node, in lines above its section
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

struct topo;

/**
 * struct topo_format - a format of topology files
 * @is: whether a line that is neither empty nor a comment can be of this format: the first such
 *	line determines the format
 * @line: parses a line, without its end; t->line is its number
 * @end: called after all lines; NULL: nothing is left to do
 */
struct topo_format {
	bool (*is)(struct topo_cur c);
	void (*line)(struct topo *t, struct topo_cur *c);
	void (*end)(struct topo *t);
};

extern const struct topo_format topo_ibnet, topo_ports, topo_lst, topo_csv, topo_ibdm;

#define TOPO_CSV_COLUMNS	256u	/* of a section; later ones are left out */

/**
 * struct topo_csv - state of topo_csv.c
 * @section: enum csv_section
 * @named: the line with the names of its columns was read
 * @column: [@columns] enum csv_column
 */
struct topo_csv {
	uint8_t section;
	bool named;
	unsigned int columns;
	uint8_t column[TOPO_CSV_COLUMNS];
};

/**
 * struct topo - the file
 * @line: number of the current line
 * @node: [@f->nodes]
 * @by_id: index of @node by name
 * @current: the node whose ports follow, or FAB_NONE
 * @attrs: of the next node
 * @width, @speed, @speed_ext: of the following ports, 0: not given
 * @rate: of @rate_text, the text of the last rate that was read
 * @list: of a format that lists cables
 * @csv: of topo_csv.c
 * @system_kind, @system: of topo_ibdm.c: the system whose cables follow
 */
struct topo {
	struct fab *f;
	const struct fab_report *report;
	unsigned int errors, warnings;
	uint32_t line;
	struct topo_node *node;
	uint32_t nodes_cap;
	struct topo_cable *cable;
	uint32_t cables, cables_cap;
	struct fab_hash by_id;
	uint32_t current;
	struct topo_attrs attrs;
	uint32_t generated[4];		/* GUIDs made up, by enum ib_node_type */
	uint8_t width, speed, speed_ext, rate;
	struct topo_name rate_text;
	struct topo_list list;
	struct topo_csv csv;
	struct topo_name system_kind, system;
};

/** topo_error() - report an error in line @line; the file is refused */
__attribute__((format(printf, 3, 4))) void topo_error(struct topo *t, uint32_t line,
						      const char *fmt, ...);

/** topo_warn() - report a warning about line @line; the file is not refused */
__attribute__((format(printf, 3, 4))) void topo_warn(struct topo *t, uint32_t line,
						     const char *fmt, ...);

/** topo_full() - report that a limit is reached or memory is short; it is the last error */
void topo_full(struct topo *t);

/** topo_too_many() - whether so many errors were reported that the rest is not read */
bool topo_too_many(const struct topo *t);

/** topo_find() - node with the name @id, or FAB_NONE */
uint32_t topo_find(const struct topo *t, const struct topo_name *id);

/** topo_made_guid() - make a NodeGUID for a node without one, always the same for the same file */
uint64_t topo_made_guid(struct topo *t, enum ib_node_type type);

/**
 * topo_add_node() - add a node to the fabric, which line @t->line defines
 * @id: its name in messages
 * @desc: its NodeDescription
 *
 * Return: its index, or FAB_NONE after an error.
 */
uint32_t topo_add_node(struct topo *t, enum ib_node_type type, unsigned int nports, uint64_t guid,
		       const struct topo_name *id, const struct topo_name *desc);

/**
 * topo_new_node() - the same for a section with a unique name, and with @t->attrs; it becomes the
 *	current node
 *
 * Return: false after an error.
 */
bool topo_new_node(struct topo *t, enum ib_node_type type, unsigned int nports,
		   const struct topo_name *id, const struct topo_name *desc);

/** topo_add_cable() - add an end of a cable. Return: false after an error. */
bool topo_add_cable(struct topo *t, const struct topo_cable *new);

/** topo_connect() - after all lines: connect the cables, check what needs the whole file */
void topo_connect(struct topo *t);

/* ---- writing ---- */

/** topo_end_lid() - the LID of port @p: its own, or the switch's; 0: none */
unsigned int topo_end_lid(const struct fab *f, uint32_t p);

/**
 * topo_link_info() - PortInfo of the link at port @p; for a machine's port that of the switch's end
 */
const struct ib_port_info *topo_link_info(const struct fab *f, uint32_t p);

/** topo_is_up() - whether port @p has a cable with a link that is up */
bool topo_is_up(const struct fab *f, uint32_t p);

/** topo_write_slurm() - write Slurm's topology.conf. Return: false if out of memory. */
bool topo_write_slurm(const struct fab *f, FILE *out);

#endif
