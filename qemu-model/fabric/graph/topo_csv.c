// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ibdiagnet2.db_csv of ibdiagnet: sections of tables between START_NAME and END_NAME; the first
 * line of each names its columns. Some columns of the sections NODES, PORTS and LINKS are read,
 * by their names; other sections and columns are ignored.
 */
#include "topo_file.h"

#include <string.h>

#include "ib/packet.h"
#include "ib/rate.h"

/* Columns of all sections; those of one section are at most MAX_COLUMNS in a file. */
enum csv_column {
	CSV_NONE,
	CSV_NODE_DESC,
	CSV_NUM_PORTS,
	CSV_NODE_TYPE,
	CSV_SYS_GUID,
	CSV_NODE_GUID,
	CSV_DEVICE,
	CSV_VENDOR,
	CSV_PORT_GUID,
	CSV_PORT_NUM,
	CSV_LID,
	CSV_LMC,
	CSV_WIDTH,
	CSV_SPEED,
	CSV_GUID1,
	CSV_NUM1,
	CSV_GUID2,
	CSV_NUM2,
	CSV_COLUMNS,
};

enum csv_section { CSV_OUTSIDE, CSV_OTHER, CSV_NODES, CSV_PORTS, CSV_LINKS, CSV_SECTIONS };

#define BIT(c)	(1u << (c))

static const struct {
	const char *name;
	uint32_t needed;	/* columns */
} csv_sections[CSV_SECTIONS] = {
	[CSV_NODES] = { "NODES", BIT(CSV_NODE_GUID) | BIT(CSV_NUM_PORTS) | BIT(CSV_NODE_TYPE) },
	[CSV_PORTS] = { "PORTS", BIT(CSV_NODE_GUID) | BIT(CSV_PORT_NUM) },
	[CSV_LINKS] = { "LINKS", BIT(CSV_GUID1) | BIT(CSV_NUM1) | BIT(CSV_GUID2) | BIT(CSV_NUM2) },
};

static const struct {
	const char *name;
	uint8_t column;
} csv_names[] = {
	{ "NodeDesc", CSV_NODE_DESC }, { "NumPorts", CSV_NUM_PORTS }, { "NodeType", CSV_NODE_TYPE },
	{ "SystemImageGUID", CSV_SYS_GUID }, { "NodeGUID", CSV_NODE_GUID },
	{ "NodeGuid", CSV_NODE_GUID }, { "DeviceID", CSV_DEVICE }, { "VendorID", CSV_VENDOR },
	{ "PortGUID", CSV_PORT_GUID }, { "PortGuid", CSV_PORT_GUID }, { "PortNum", CSV_PORT_NUM },
	{ "LID", CSV_LID }, { "LMC", CSV_LMC }, { "LinkWidthActv", CSV_WIDTH },
	{ "LinkSpeedActv", CSV_SPEED }, { "NodeGuid1", CSV_GUID1 }, { "PortNum1", CSV_NUM1 },
	{ "NodeGuid2", CSV_GUID2 }, { "PortNum2", CSV_NUM2 }, { "NodeGUID1", CSV_GUID1 },
	{ "NodeGUID2", CSV_GUID2 },
};

/* Parse the next field of a line: "text", which may contain commas, or anything up to a comma. */
static bool csv_field(struct topo_cur *c, struct topo_name *n)
{
	struct topo_cur q;

	if (c->p > c->end)
		return false;
	q = *c;
	topo_skip_space(&q);
	if (topo_quoted(&q, n)) {
		*c = q;
	} else {
		n->p = c->p;
		while (c->p < c->end && *c->p != ',')
			c->p++;
		n->len = (uint32_t)(c->p - n->p);
		topo_trim(n);
	}
	while (c->p < c->end && *c->p != ',')
		c->p++;
	c->p++;			/* past the comma, or past the end: there is no more */
	return true;
}

static uint8_t csv_column(const struct topo_name *n)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(csv_names); i++)
		if (topo_is(n, csv_names[i].name))
			return csv_names[i].column;
	return CSV_NONE;
}

/* Parse the line that names the columns. */
static void csv_header(struct topo *t, struct topo_cur *c)
{
	struct topo_csv *s = &t->csv;
	struct topo_name n;
	uint32_t have = 0;

	for (s->columns = 0; s->columns < TOPO_CSV_COLUMNS && csv_field(c, &n); s->columns++) {
		s->column[s->columns] = csv_column(&n);
		have |= BIT(s->column[s->columns]);
	}
	s->named = true;
	if (csv_sections[s->section].needed & ~have)
		topo_error(t, t->line, "the section %s has not all of its columns: it is not a table "
			   "of ibdiagnet2.db_csv", csv_sections[s->section].name);
}

/* Parse a number of a row: decimal or 0x; 0 without the column, and for N/A. */
static bool csv_number(const struct topo_name *text, uint64_t max, uint64_t *v)
{
	struct topo_cur c;

	*v = 0;
	if (!text->p || topo_is(text, "N/A"))
		return true;
	c = (struct topo_cur){ text->p, text->p + text->len };
	return topo_value(&c, max, v) && c.p == c.end;
}

static bool csv_node(struct topo *t, const struct topo_name *f)
{
	struct topo_end e = {
		.has_ids = f[CSV_VENDOR].p && f[CSV_DEVICE].p, .name = f[CSV_NODE_DESC],
	};
	uint64_t type, nports, vendor, device;

	if (!csv_number(&f[CSV_NODE_GUID], UINT64_MAX, &e.guid) || !e.guid ||
	    !csv_number(&f[CSV_SYS_GUID], UINT64_MAX, &e.sys_guid) ||
	    !csv_number(&f[CSV_NODE_TYPE], IB_NODE_ROUTER_DEVICE, &type) || !type ||
	    !csv_number(&f[CSV_NUM_PORTS], FAB_MAX_NODE_PORTS, &nports) || !nports ||
	    !csv_number(&f[CSV_VENDOR], UINT32_MAX, &vendor) ||
	    !csv_number(&f[CSV_DEVICE], 0xffff, &device))
		return false;
	e.key = e.guid;
	e.type = (uint8_t)type;
	e.nports = (uint8_t)nports;
	e.vendor_id = (uint32_t)vendor & 0xffffff;
	e.device_id = (uint16_t)device;
	topo_list_end(t, &e);
	return true;
}

/* LinkWidthActv and LinkSpeedActv, which has extended speeds from bit 8 on and FDR10 in bit 16 */
static uint8_t csv_rate(uint64_t width, uint64_t speed)
{
	struct ib_port_info pi = { .width_active = (uint8_t)width };

	if (speed == 1u << 16)
		pi.speed_active = IB_SPEED_FDR10;
	else if (speed > 0xff)
		pi.speed_ext_active = (uint8_t)(speed >> 8);
	else
		pi.speed_active = (uint8_t)speed;
	return ib_link_mbps(pi.width_active, pi.speed_active, pi.speed_ext_active) ?
		topo_rate_of(&pi) : TOPO_RATE_UNKNOWN;
}

static bool csv_port(struct topo *t, const struct topo_name *f)
{
	struct topo_end e = { 0 };
	uint64_t num, lid, lmc, width, speed;

	if (!csv_number(&f[CSV_NODE_GUID], UINT64_MAX, &e.key) ||
	    !csv_number(&f[CSV_PORT_GUID], UINT64_MAX, &e.port_guid) ||
	    !csv_number(&f[CSV_PORT_NUM], FAB_MAX_NODE_PORTS, &num) ||
	    !csv_number(&f[CSV_LID], 0xffff, &lid) || !csv_number(&f[CSV_LMC], 7, &lmc) ||
	    !csv_number(&f[CSV_WIDTH], 0xff, &width) || !csv_number(&f[CSV_SPEED], 0x1ffff, &speed))
		return false;
	if (topo_list_find(t, e.key) == FAB_NONE) {
		topo_error(t, t->line, "a port of a node that the section NODES does not have");
		return true;
	}
	e.num = (uint8_t)num;
	e.lid = lid <= IB_LID_UCAST_MAX ? (uint16_t)lid : 0;
	e.lmc = (uint8_t)lmc;
	e.rate = f[CSV_WIDTH].p && f[CSV_SPEED].p ? csv_rate(width, speed) : 0;
	topo_list_end(t, &e);
	return true;
}

static bool csv_link(struct topo *t, const struct topo_name *f)
{
	struct topo_end a = { 0 }, b = { 0 };
	uint64_t na, nb;

	if (!csv_number(&f[CSV_GUID1], UINT64_MAX, &a.key) ||
	    !csv_number(&f[CSV_GUID2], UINT64_MAX, &b.key) ||
	    !csv_number(&f[CSV_NUM1], FAB_MAX_NODE_PORTS, &na) || !na ||
	    !csv_number(&f[CSV_NUM2], FAB_MAX_NODE_PORTS, &nb) || !nb)
		return false;
	if (topo_list_find(t, a.key) == FAB_NONE || topo_list_find(t, b.key) == FAB_NONE) {
		topo_error(t, t->line, "a link of a node that the section NODES does not have");
		return true;
	}
	a.num = (uint8_t)na;
	b.num = (uint8_t)nb;
	topo_list_cable(t, &a, &b);
	return true;
}

static void csv_row(struct topo *t, struct topo_cur *c)
{
	static bool (*const row[CSV_SECTIONS])(struct topo *t, const struct topo_name *f) = {
		[CSV_NODES] = csv_node, [CSV_PORTS] = csv_port, [CSV_LINKS] = csv_link,
	};
	const struct topo_csv *s = &t->csv;
	struct topo_name f[CSV_COLUMNS] = { 0 }, n;
	unsigned int i = 0;

	for (; i < s->columns && csv_field(c, &n); i++)
		f[s->column[i]] = n;
	if (i < s->columns || !row[s->section](t, f))
		topo_error(t, t->line, "not understood: a row of the section %s with its %u "
			   "columns, numbers decimal or 0x", csv_sections[s->section].name,
			   s->columns);
}

static void csv_start(struct topo *t, const struct topo_cur *name)
{
	const struct topo_name n = { name->p, (uint32_t)(name->end - name->p) };

	t->csv.section = CSV_OTHER;
	t->csv.named = false;
	for (unsigned int i = CSV_NODES; i < CSV_SECTIONS; i++)
		if (topo_is(&n, csv_sections[i].name))
			t->csv.section = (uint8_t)i;
}

static void csv_line(struct topo *t, struct topo_cur *c)
{
	if (topo_take_word(c, "START_"))
		csv_start(t, c);
	else if (topo_starts(c, "END_"))
		t->csv.section = CSV_OUTSIDE;
	else if (t->csv.section >= CSV_NODES && !t->csv.named)
		csv_header(t, c);
	else if (t->csv.section >= CSV_NODES)
		csv_row(t, c);
}

static bool csv_is(struct topo_cur c)
{
	return topo_starts(&c, "START_");
}

const struct topo_format topo_csv = { csv_is, csv_line, topo_list_build };
