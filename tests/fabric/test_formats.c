// SPDX-License-Identifier: GPL-2.0-or-later
/* Topology files of many tools: what is read, warned about, refused and written. */
#include "cases.h"

#include "ib/rate.h"
#include "fabric/graph/names.h"

/* Errors and warnings of one file. */
struct findings {
	struct errors errors, warnings;
};

static void keep_warning(void *ctx, unsigned int line, const char *text)
{
	keep_error(&((struct findings *)ctx)->warnings, line, text);
}

static void keep_failure(void *ctx, unsigned int line, const char *text)
{
	keep_error(&((struct findings *)ctx)->errors, line, text);
}

/* Makes @w empty, for the reports of a reader. @parts: as in struct fab_report. */
static struct fab_report report_to(struct findings *w, bool parts)
{
	memset(w, 0, sizeof(*w));
	return (struct fab_report){ .say = keep_failure, .ctx = w, .warn = keep_warning,
				    .parts = parts };
}

/* Return: @f, sealed, if it was read @well; otherwise NULL, and @w must have the reason. */
static struct fab *sealed(struct fab *f, bool well, const struct findings *w)
{
	if (well) {
		assert_int_equal(w->errors.n, 0);
		assert_true(fab_seal(f));
		return f;
	}
	assert_true(w->errors.n > 0);
	fab_free(f);
	return NULL;
}

/* Return: a sealed fabric, or NULL. */
static struct fab *parse_parts(const char *text, size_t len, struct findings *w, bool parts)
{
	const struct fab_report r = report_to(w, parts);
	struct fab *f = fab_new();

	assert_non_null(f);
	return sealed(f, fab_topology_parse(f, text, len, &r), w);
}

static struct fab *parse(const char *text, size_t len, struct findings *w)
{
	return parse_parts(text, len, w, false);
}

static struct fab *zoo(const char *name, struct findings *w)
{
	const struct fab_report r = report_to(w, false);
	struct fab *f = fab_new();
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", getenv("TOPOLOGIES"), name);
	assert_non_null(f);
	f = sealed(f, fab_topology_load(f, path, &r), w);
	if (!f)
		fail_msg("%s:%u: %s", path, w->errors.line[0], w->errors.text[0]);
	return f;
}

static char *write_as(const struct fab *f, enum fab_format format, size_t *len)
{
	char *text;
	FILE *out = open_memstream(&text, len);

	assert_non_null(out);
	assert_true(fab_topology_write_as(f, format, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

/*
 * Checks that both have the same nodes and cables. @ids: also device IDs and NodeGUIDs; otherwise a
 * node is identified by the PortGUID of its first port with a cable.
 */
static void same_graph(const struct fab *a, const struct fab *b, bool ids)
{
	assert_int_equal(a->nodes, b->nodes);
	assert_int_equal(cables_of(a), cables_of(b));
	for (uint32_t p = 1; p < a->ports; p++) {
		const struct fab_port *x = &a->port[p], *y = NULL;
		const struct fab_node *n = &a->node[x->node], *m;
		uint32_t other = FAB_NONE;

		if (x->peer == FAB_NO_PORT)
			continue;
		for (uint32_t q = 1; q < b->ports && !y; q++) {
			m = &b->node[b->port[q].node];
			if (m->type != n->type || fab_port_num(b, q) != fab_port_num(a, p))
				continue;
			if (n->type == IB_NODE_SWITCH_DEVICE ? m->guid == n->guid :
							       b->port[q].guid == x->guid) {
				y = &b->port[q];
				other = b->port[q].node;
			}
		}
		assert_non_null(y);
		m = &b->node[other];
		assert_string_equal(a->desc[x->node].text, b->desc[other].text);
		assert_int_equal(fab_port_num(a, x->peer), fab_port_num(b, y->peer));
		assert_string_equal(a->desc[a->port[x->peer].node].text,
				    b->desc[b->port[y->peer].node].text);
		assert_int_equal(x->pi.width_active, y->pi.width_active);
		assert_int_equal(x->pi.speed_active, y->pi.speed_active);
		assert_int_equal(x->pi.speed_ext_active, y->pi.speed_ext_active);
		assert_int_equal(x->pi.lid, y->pi.lid);
		if (!ids)
			continue;
		assert_true(n->guid == m->guid && n->sys_guid == m->sys_guid);
		assert_int_equal(n->device_id, m->device_id);
		assert_int_equal(n->vendor_id, m->vendor_id);
		assert_int_equal(n->nports, m->nports);
	}
}

/* Lists of ibdiagnet and OpenSM, and ports of ibnetdiscover -p, describe the same fabric. */
static void lists(void **st)
{
	struct findings w;
	struct fab *csv = zoo("ibdiagnet2.db_csv", &w), *lst = zoo("ibdiagnet2.lst", &w);
	struct fab *osm = zoo("opensm-subnet.lst", &w), *ports = zoo("ports.ibnetdiscover-p", &w);
	const struct fab_node *n;
	uint32_t i;

	(void)st;
	assert_int_equal(w.warnings.n, 0);
	assert_int_equal(csv->nodes, 8);
	assert_int_equal(csv->switches, 3);
	assert_int_equal(cables_of(csv), 10);
	i = fab_find_guid(csv, 0x2c5eab0300000140);
	assert_true(i != FAB_NONE);
	n = &csv->node[i];
	assert_int_equal(n->nports, 36);
	assert_int_equal(n->device_id, 0xcf08);
	assert_int_equal(n->vendor_id, 0x2c9);
	assert_string_equal(csv->desc[i].text, "MF0;leaf-1:MSB7800/U1");
	assert_int_equal(csv->port[fab_port_of(n, 0)].pi.lid, 11);
	assert_int_equal(csv->port[fab_port_of(n, 33)].pi.speed_ext_active, IB_SPEED_EXT_EDR);
	assert_int_equal(csv->port[fab_port_of(n, 3)].pi.speed_ext_active, IB_SPEED_EXT_FDR);
	i = fab_find_guid(csv, 0x2c90300000500);
	assert_true(i != FAB_NONE);
	assert_int_equal(csv->port[fab_port_of(&csv->node[i], 2)].pi.lid, 26);
	assert_true(csv->port[fab_port_of(&csv->node[i], 2)].guid == 0x2c90300000502);
	/* ports with consecutive GUIDs and numbers belong to one adapter */
	i = fab_find_guid(ports, 0x2c90300000500);
	assert_true(i != FAB_NONE);
	assert_int_equal(ports->node[i].nports, 2);
	i = fab_find_guid(ports, 0x2c5eab0300000140);
	assert_true(i != FAB_NONE);
	assert_int_equal(ports->node[i].nports, 36);
	same_graph(csv, lst, true);
	same_graph(csv, osm, true);
	same_graph(csv, ports, false);
	fab_free(csv);
	fab_free(lst);
	fab_free(osm);
	fab_free(ports);
}

static void ibdm(void **st)
{
	struct findings w;
	struct fab *f = zoo("two-level.topo", &w);
	const struct fab_node *n = &f->node[0];

	(void)st;
	assert_int_equal(f->nodes, 8);
	assert_int_equal(f->switches, 4);
	assert_int_equal(cables_of(f), 8);
	assert_string_equal(f->desc[0].text, "SL1-1");
	assert_int_equal(n->nports, 13 + 1);
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.speed_active, IB_SPEED_DDR);
	assert_int_equal(f->port[fab_port_of(n, 13)].pi.speed_active, IB_SPEED_QDR);
	fab_free(f);
}

/* A message, rates that were not determined or differ, and the extra text of -f. */
static void warned(void **st)
{
	struct findings w;
	struct fab *f = zoo("full.ibnetdiscover", &w);
	const struct fab_node *n = &f->node[0];

	(void)st;
	assert_int_equal(w.warnings.n, 2);
	assert_int_equal(w.warnings.line[0], 1);
	assert_non_null(strstr(w.warnings.text[0], "message"));
	assert_int_equal(w.warnings.line[1], 13);
	assert_non_null(strstr(w.warnings.text[1], "1xSDR, the other in line 43 2xHDR: it gets "
			       "1xSDR"));
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.width_active, IB_WIDTH_1X);
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.speed_active, IB_SPEED_SDR);
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.speed_ext_active, 0);
	assert_int_equal(f->port[fab_port_of(n, 2)].pi.width_active, IB_WIDTH_2X);
	assert_int_equal(f->port[fab_port_of(n, 2)].pi.speed_ext_active, IB_SPEED_EXT_HDR);
	/* ??? stands for the value of the other end */
	assert_int_equal(f->port[fab_port_of(n, 33)].pi.width_active, IB_WIDTH_4X);
	assert_int_equal(f->port[fab_port_of(n, 33)].pi.speed_ext_active, IB_SPEED_EXT_HDR);
	fab_free(f);
	f = zoo("xdr.ibnetdiscover", &w);
	assert_int_equal(w.warnings.n, 0);
	n = &f->node[0];
	assert_int_equal(f->port[fab_port_of(n, 33)].pi.speed_ext_active, IB_SPEED_EXT_XDR);
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.width_active, IB_WIDTH_2X);
	fab_free(f);
}

/* An unknown line is a warning only before the topology. */
static void messages(void **st)
{
	static const char front[] = "ibwarn: [7] connect\n-W- odd\n\nSwitch 2 \"a\"\n";
	static const char behind[] = "Switch 2 \"a\"\nibwarn: [7] connect\n";
	static const char nothing[] = "ibwarn: [7] connect\n";
	struct findings w;
	struct fab *f = parse(front, sizeof(front) - 1, &w);

	(void)st;
	assert_non_null(f);
	assert_int_equal(w.warnings.n, 2);
	fab_free(f);
	assert_null(parse(behind, sizeof(behind) - 1, &w));
	assert_int_equal(w.errors.line[0], 2);
	assert_null(parse(nothing, sizeof(nothing) - 1, &w));
	assert_non_null(strstr(w.errors.text[0], "no node"));
}

/* A limited number of warnings is reported, and that there are more. */
static void many_warnings(void **st)
{
	static const char all[] = "Switch 2 \"a\"\n";
	char text[64 * 8 + sizeof(all)];
	struct findings w;
	struct fab *f;

	(void)st;
	for (unsigned int n = 49; n <= 60; n += 11) {
		for (unsigned int i = 0; i < n; i++)
			memcpy(text + 8 * i, "ibwarn:\n", 8);
		memcpy(text + 8 * n, all, sizeof(all));
		f = parse(text, 8 * n + sizeof(all) - 1, &w);
		assert_non_null(f);
		fab_free(f);
		assert_int_equal(w.warnings.n, n == 49 ? 49 : 51);
		assert_int_equal(w.warnings.line[w.warnings.n - 1], n == 49 ? 49 : 50);
		assert_int_equal(!strcmp(w.warnings.text[w.warnings.n - 1],
					 "there are more warnings"), n != 49);
	}
}

/* Lines may end as in DOS. */
static void dos(void **st)
{
	static const char text[] = "Switch 2 \"a\"\r\n[1] \"b\"[1]\r\n\r\nCa 1 \"b\" # \"x\"\r\n"
				   "[1] \"a\"[1]\r";
	struct findings w;
	struct fab *f = parse(text, sizeof(text) - 1, &w);

	(void)st;
	if (!f)
		fail_msg("%u: %s", w.errors.line[0], w.errors.text[0]);
	assert_int_equal(w.warnings.n, 0);
	assert_string_equal(f->desc[0].text, "a");
	assert_string_equal(f->desc[1].text, "x");
	fab_free(f);
}

#define P_SW "SW 1 1 0x10 4x EDR - CA 2 1 0x20 ( 'a' - 'b' )\n"
#define L_SW "{ SW Ports:24 SystemGUID:10 NodeGUID:10 PortGUID:10 VenID:2c9 DevID:1 Rev:0 {a} LID:1 "
#define L_CA "{ CA Ports:01 SystemGUID:20 NodeGUID:20 PortGUID:20 VenID:2c9 DevID:1 Rev:0 {b} LID:2 "
#define L_RATE "PHY=4x LOG=ACT SPD=25\n"
#define C_NODES "START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n"
#define C_ROW(ports, guid, device, vendor)						\
	"START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID,DeviceID,VendorID\n"		\
	"\"a\"," ports ",2," guid "," device "," vendor "\n"
#define C_ALONE "\"b\",1,1,0x20,1,1\nEND_NODES\n" C_LINKS "0x10,1,0x20,1\nEND_LINKS\n"
#define C_PORT(lid, lmc, width, speed)							\
	C_TWO "START_PORTS\nNodeGuid,PortGuid,PortNum,LID,LMC,LinkWidthActv,LinkSpeedActv\n"	\
	"0x20,0x20,1," lid "," lmc "," width "," speed "\nEND_PORTS\n" C_LINKS		\
	"0x10,1,0x20,1\nEND_LINKS\n"
#define C_TWO C_NODES "\"a\",4,2,0x10\n\"b\",1,1,0x20\nEND_NODES\n"
#define C_LINKS "START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n"
#define T_A "MTS2400 a\n"

static const struct {
	const char *text;
	unsigned int line;	/* of the first error; 0: with @says NULL it is accepted */
	const char *says;
} cases[] = {
	{ P_SW, 0, NULL },
	{ "CA 2 1 0x20 2x XDR - RT 3 1 0x30 ( 'b' - 'r' )\n", 0, NULL },
	{ P_SW "SW 1 2 0x10 4x SDR 'a'\n", 0, NULL },
	{ P_SW "SW 1 2 0x10 4x SDR a\n", 2, "line of ibnetdiscover -p" },
	{ P_SW "SW 1 0 0x10 4x SDR 'a'\n", 2, "line of ibnetdiscover -p" },
	{ P_SW "SW 1 255 0x10 4x SDR 'a'\n", 2, "line of ibnetdiscover -p" },
	{ P_SW "SW 49152 2 0x10 4x SDR 'a'\n", 2, "line of ibnetdiscover -p" },
	{ P_SW "SW 1 2 0x0 4x SDR 'a'\n", 2, "line of ibnetdiscover -p" },
	{ P_SW "Switch 2 \"a\"\n", 2, "line of ibnetdiscover -p" },
	{ "SW 1 1 0x10 4x FAST - CA 2 1 0x20 ( 'a' - 'b' )\n", 1, "rate 4x FAST is not known" },
	{ "SW 1 1 0x10 4x EDR - CA 2 1 0x20 ( 'a - 'b' )\n", 1, "line of ibnetdiscover -p" },
	{ "SW 1 1 0x10 4x EDR - XX 2 1 0x20 ( 'a' - 'b' )\n", 1, "line of ibnetdiscover -p" },
	{ P_SW "SW 1 1 0x10 4x EDR - CA 2 2 0x21 ( 'a' - 'b' )\n", 2, "in line 1 already" },
	{ "SW 1 1 0x10 4x EDR - SW 1 1 0x10 ( 'a' - 'a' )\n", 1, "connected to itself" },
	{ "SW 1 1 0x10 4x EDR - CA 2 1 0x20 ( 'a' - '0123456789012345678901234567890123456789"
	  "0123456789012345678901234' )\n", 1, "65 characters" },
	{ P_SW "CA 4 1 0x40 4x EDR - CA 5 1 0x50 ( 'c' - 'd' )\n", 2, "not connected" },
	{ L_SW "PN:01 } " L_CA "PN:01 } " L_RATE, 0, NULL },
	{ L_SW "PN:01 } " L_CA "PN:01 } PHY=4x LOG=INI\n", 0, NULL },
	{ L_SW "PN:25 } " L_CA "PN:01 } " L_RATE, 1, "port 37 of \"a\", which has ports 1 to 36" },
	{ L_SW "PN:00 } " L_CA "PN:01 } " L_RATE, 1, "a line is { END } { END }" },
	{ L_SW "PN:01 " L_CA "PN:01 } " L_RATE, 1, "a line is { END } { END }" },
	{ L_SW "PN:01 } " L_CA "PN:01 } PHY=4x\n", 1, "a line is { END } { END }" },
	{ L_SW "PN:01 } " L_CA "PN:01 } PHY=3x LOG=ACT SPD=25\n", 1, "PHY=3x SPD=25 is no rate" },
	{ L_SW "PN:01 } " L_CA "PN:01 } " L_RATE "START_NODES\n", 2, "a line is" },
	{ C_TWO C_LINKS "0x10,1,0x20,1\nEND_LINKS\n", 0, NULL },
	{ C_TWO C_LINKS "0x10,1,0x20,2\n", 8, "port 2 of \"b\", which has ports 1 to 1" },
	{ C_TWO C_LINKS "0x10,1,0x21,1\n", 8, "that the section NODES does not have" },
	{ C_TWO C_LINKS "0x10,1,0x20\n", 8, "row of the section LINKS with its 4 columns" },
	{ C_TWO C_LINKS "0x10,1,0x20,x\n", 8, "row of the section LINKS" },
	{ C_TWO "START_LINKS\nNodeGuid1,PortNum1,NodeGuid2\n", 7, "has not all of its columns" },
	{ C_NODES "\"a\",4,5,0x10\n", 3, "row of the section NODES" },
	{ C_NODES "\"a\",255,2,0x10\n", 3, "row of the section NODES" },
	{ C_ROW("4", "0x10", "65535", "0xffffffff") C_ALONE, 0, NULL },
	{ C_ROW("4", "0x10", "N/A", "N/A") C_ALONE, 0, NULL },
	{ C_ROW("0", "0x10", "1", "1"), 3, "row of the section NODES" },
	{ C_ROW("4", "0", "1", "1"), 3, "row of the section NODES" },
	{ C_ROW("4", "0x10000000000000000", "1", "1"), 3, "row of the section NODES" },
	{ C_ROW("4", "0x10", "65536", "1"), 3, "row of the section NODES" },
	{ C_ROW("4", "0x10", "0x1fffe", "1"), 3, "row of the section NODES" },
	{ C_ROW("4", "0x10", "1", "0x100000000"), 3, "row of the section NODES" },
	{ C_ROW("4", "0x10", "1x", "1"), 3, "row of the section NODES" },
	{ C_PORT("0xffff", "7", "255", "0x1ffff"), 0, NULL },
	{ C_PORT("0x10000", "0", "2", "4"), 8, "row of the section PORTS" },
	{ C_PORT("1", "8", "2", "4"), 8, "row of the section PORTS" },
	{ C_PORT("1", "0", "256", "4"), 8, "row of the section PORTS" },
	{ C_PORT("1", "0", "2", "0x20000"), 8, "row of the section PORTS" },
	{ C_NODES "\"a\",4,2,0x10\n\"a\",5,2,0x10\n", 4, "has 5 ports here, and 4 in line 3" },
	{ C_NODES "\"a\",4,2,0x10\n\"a\",4,1,0x10\n", 4, "another kind of node in line 3" },
	{ T_A "P1 -4x-10G-> HCA b P1\n", 0, NULL },
	{ T_A "P1 -> HCA b P1 # rack 3\n", 0, NULL },
	{ T_A "P1 -> HCA b L1/P1\n", 2, "several chips" },
	{ T_A "P1 -> HCA b\n", 2, "a cable is PORT" },
	{ T_A "P1 -4y-10G-> HCA b P1\n", 2, "a cable is PORT" },
	{ T_A "P1 -4x-11G-> HCA b P1\n", 2, "a cable is PORT" },
	{ T_A "P1 HCA b P1\n", 2, "a cable has an arrow" },
	{ T_A "P1 -> HCA b P1\nP1 -> HCA b P2\n", 3, "in line 2 already" },
};

static void refused(void **st)
{
	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(cases); i++) {
		struct findings w;
		struct fab *f = parse(cases[i].text, strlen(cases[i].text), &w);

		if (!f != !!cases[i].says)
			fail_msg("%s: %s", cases[i].text, f ? "accepted" : w.errors.text[0]);
		if (!f && (w.errors.line[0] != cases[i].line ||
			   !strstr(w.errors.text[0], cases[i].says)))
			fail_msg("%s: line %u: %s", cases[i].text, w.errors.line[0],
				 w.errors.text[0]);
		fab_free(f);
	}
}

/* The fields of nodes in a list are read, and a later line adds or replaces some. */
static void identities(void **st)
{
	static const char lst[] =
		"{ SW Ports:24 SystemGUID:11 NodeGUID:10 PortGUID:10 VenID:2c9 DevID:1 Rev:0 {a} "
		"LID:3 PN:01 } { CA Ports:02 SystemGUID:21 NodeGUID:20 PortGUID:22 VenID:2ca DevID:5 "
		"Rev:0 {b} LID:2 PN:02 } PHY=4x LOG=ACT SPD=25\n"
		"{ CA Ports:02 SystemGUID:23 NodeGUID:20 PortGUID:21 VenID:2cb DevID:7 Rev:0 {b} "
		"LID:5 PN:01 } { SW Ports:24 SystemGUID:11 NodeGUID:10 PortGUID:10 VenID:2c9 "
		"DevID:00010000 Rev:0 {a} LID:3 PN:02 } PHY=4x LOG=ACT SPD=25\n";
	struct findings w;
	struct fab *f = parse(lst, sizeof(lst) - 1, &w);
	const struct fab_node *sw, *ca;

	(void)st;
	if (!f)
		fail_msg("%s", w.errors.text[0]);
	assert_int_equal(w.warnings.n, 0);
	assert_int_equal(f->nodes, 2);
	sw = &f->node[fab_find_guid(f, 0x10)];
	ca = &f->node[fab_find_guid(f, 0x20)];
	assert_int_equal(sw->type, IB_NODE_SWITCH_DEVICE);
	assert_int_equal(sw->nports, 36);
	assert_int_equal(sw->sys_guid, 0x11);
	assert_int_equal(sw->vendor_id, 0x2c9);
	assert_int_equal(sw->device_id, 1);
	assert_int_equal(f->port[fab_port_of(sw, 0)].pi.lid, 3);
	assert_int_equal(ca->type, IB_NODE_CHANNEL_ADAPTER);
	assert_int_equal(ca->nports, 2);
	assert_int_equal(ca->sys_guid, 0x23);
	assert_int_equal(ca->vendor_id, 0x2cb);
	assert_int_equal(ca->device_id, 7);
	assert_int_equal(f->port[fab_port_of(ca, 1)].guid, 0x21);
	assert_int_equal(f->port[fab_port_of(ca, 2)].guid, 0x22);
	assert_int_equal(f->port[fab_port_of(ca, 1)].pi.lid, 5);
	assert_int_equal(f->port[fab_port_of(ca, 2)].pi.lid, 2);
	assert_int_equal(f->port[fab_port_of(ca, 1)].peer, fab_port_of(sw, 2));
	assert_int_equal(f->port[fab_port_of(ca, 2)].peer, fab_port_of(sw, 1));
	fab_free(f);
}

/* A format that can be read and written: the written text is read as the same fabric. */
static void written(void **st)
{
	static const char * const names[] = { "ndr.ibnetdiscover", "xdr.ibnetdiscover",
		"full.ibnetdiscover", "ibdiagnet2.db_csv", "two-level.topo" };

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(names); i++) {
		struct findings w;
		struct fab *f = zoo(names[i], &w), *g;

		for (unsigned int k = 0; k <= FAB_FORMAT_LST; k++) {
			size_t len;
			char *text = write_as(f, (enum fab_format)k, &len);

			g = parse(text, len, &w);
			if (!g)
				fail_msg("%s: line %u: %s", names[i], w.errors.line[0],
					 w.errors.text[0]);
			assert_int_equal(w.warnings.n, 0);
			same_graph(f, g, k != FAB_FORMAT_PORTS);
			fab_free(g);
			free(text);
		}
		fab_free(f);
	}
}

static void is_text(const struct fab *f, enum fab_format format, const char *want)
{
	size_t len;
	char *text = write_as(f, format, &len);

	assert_string_equal(text, want);
	free(text);
}

#define SLURM "# topology.conf of Slurm, for TopologyPlugin=topology/tree\n"

/* Slurm's tree: spines of one level are one switch, and a machine is in it once. */
static void slurm(void **st)
{
	static const char rails[] =
		"Switch 4 \"a\" # \"rail 1\" base port 0 lid 0 lmc 0\n[1] \"x1\"[1]\n[2] \"y1\"[1]\n"
		"[3] \"s\"[1]\n"
		"Switch 4 \"b\" # \"rail 1\" base port 0 lid 0 lmc 0\n[1] \"x2\"[1]\n[2] \"y2\"[1]\n"
		"[3] \"s\"[2]\n[4] \"z\"[1]\n"
		"Switch 4 \"s\" # \"spine/1\" base port 0 lid 0 lmc 0\n[1] \"a\"[3]\n[2] \"b\"[3]\n"
		"Ca 1 \"x1\" # \"x mlx5_0\"\n[1] \"a\"[1]\nCa 1 \"x2\" # \"x mlx5_1\"\n[1] \"b\"[1]\n"
		"Ca 1 \"y1\" # \"y mlx5_0\"\n[1] \"a\"[2]\nCa 1 \"y2\" # \"y mlx5_1\"\n[1] \"b\"[2]\n"
		"Ca 1 \"z\" # \"MT4129 ConnectX7   Mellanox Technologies\"\n[1] \"b\"[4]\n";
	/* between two switches there is one with second adapters only, which is not in the file */
	static const char between[] =
		"Switch 2 \"a\" # \"a\" base port 0 lid 0 lmc 0\n[1] \"x1\"[1]\n[2] \"c\"[1]\n"
		"Switch 2 \"b\" # \"b\" base port 0 lid 0 lmc 0\n[1] \"y1\"[1]\n[2] \"c\"[2]\n"
		"Switch 4 \"c\" # \"c\" base port 0 lid 0 lmc 0\n[1] \"a\"[2]\n[2] \"b\"[2]\n"
		"[3] \"x2\"[1]\n[4] \"y2\"[1]\n"
		"Ca 1 \"x1\" # \"x mlx5_0\"\n[1] \"a\"[1]\nCa 1 \"x2\" # \"x mlx5_1\"\n[1] \"c\"[3]\n"
		"Ca 1 \"y1\" # \"y mlx5_0\"\n[1] \"b\"[1]\nCa 1 \"y2\" # \"y mlx5_1\"\n[1] \"c\"[4]\n";
	/* a leaf without hosts, and what is only above it, count as above the spine */
	static const char empty[] =
		"Switch 2 \"a\" # \"a\" base port 0 lid 0 lmc 0\n[1] \"x\"[1]\n[2] \"s\"[1]\n"
		"Switch 2 \"b\" # \"b\" base port 0 lid 0 lmc 0\n[1] \"y\"[1]\n[2] \"s\"[2]\n"
		"Switch 2 \"c\" # \"c\" base port 0 lid 0 lmc 0\n[1] \"d\"[1]\n[2] \"s\"[3]\n"
		"Switch 1 \"d\" # \"d\" base port 0 lid 0 lmc 0\n[1] \"c\"[1]\n"
		"Switch 3 \"s\" # \"s\" base port 0 lid 0 lmc 0\n[1] \"a\"[2]\n[2] \"b\"[2]\n"
		"[3] \"c\"[2]\n"
		"Ca 1 \"x\" # \"x\"\n[1] \"a\"[1]\nCa 1 \"y\" # \"y\"\n[1] \"b\"[1]\n";
	struct findings w;
	struct fab *f = from_spec("fat-tree:4");

	(void)st;
	is_text(f, FAB_FORMAT_SLURM, SLURM
		"SwitchName=leaf1 Nodes=host1,host2\nSwitchName=leaf2 Nodes=host3,host4\n"
		"SwitchName=leaf3 Nodes=host5,host6\nSwitchName=leaf4 Nodes=host7,host8\n"
		"SwitchName=spine1 Switches=leaf1,leaf2,leaf3,leaf4\n");
	fab_free(f);
	f = from_spec("ring:2");
	is_text(f, FAB_FORMAT_SLURM, SLURM
		"SwitchName=switch1 Nodes=host1\nSwitchName=switch2 Nodes=host2\n"
		"SwitchName=fabric Switches=switch1,switch2\n");
	fab_free(f);
	f = parse(rails, sizeof(rails) - 1, &w);
	assert_non_null(f);
	is_text(f, FAB_FORMAT_SLURM, SLURM
		"SwitchName=rail-1 Nodes=x,y\n");
	fab_free(f);
	f = parse(between, sizeof(between) - 1, &w);
	assert_non_null(f);
	is_text(f, FAB_FORMAT_SLURM, SLURM
		"SwitchName=a Nodes=x\nSwitchName=b Nodes=y\nSwitchName=fabric Switches=a,b\n");
	fab_free(f);
	f = parse(empty, sizeof(empty) - 1, &w);
	assert_non_null(f);
	is_text(f, FAB_FORMAT_SLURM, SLURM
		"SwitchName=a Nodes=x\nSwitchName=b Nodes=y\nSwitchName=s Switches=a,b\n");
	fab_free(f);
	f = zoo("ndr.ibnetdiscover", &w);
	is_text(f, FAB_FORMAT_SLURM, SLURM
		"SwitchName=leaf-1 Nodes=node1,node2\nSwitchName=leaf-2 Nodes=node3,node4\n"
		"SwitchName=spine-1 Switches=leaf-1,leaf-2\n");
	fab_free(f);
}

/* In a running fabric a link may have failed, so that its host is not connected. */
static void parts(void **st)
{
	static const char alone[] = "Switch 2 \"a\" # \"a\" base port 0 lid 0 lmc 0\n[1] \"x\"[1]\n"
		"Ca 1 \"x\" # \"x\"\n[1] \"a\"[1]\nCa 1 \"y\" # \"y\"\n";
	struct findings w;
	struct fab *f;

	(void)st;
	assert_null(parse(alone, sizeof(alone) - 1, &w));
	f = parse_parts(alone, sizeof(alone) - 1, &w, true);
	assert_non_null(f);
	is_text(f, FAB_FORMAT_SLURM, SLURM "SwitchName=a Nodes=x\n");
	fab_free(f);
}

static void dot(void **st)
{
	struct fab *f = from_spec("star:1");

	(void)st;
	is_text(f, FAB_FORMAT_DOT, "graph fabric {\n"
		"\t\"0x5254010000000100\" [label=\"host1\"];\n"
		"\t\"0x5254020000000100\" [label=\"switch1\", shape=box];\n"
		"\t\"0x5254010000000100\" -- \"0x5254020000000100\" [taillabel=\"1\", "
		"headlabel=\"1\", label=\"4xEDR\"];\n}\n");
	fab_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(ibdm),
		cmocka_unit_test(warned),
		cmocka_unit_test(messages),
		cmocka_unit_test(many_warnings),
		cmocka_unit_test(dos),
		cmocka_unit_test(refused),
		cmocka_unit_test(identities),
		cmocka_unit_test(written),
		cmocka_unit_test(slurm),
		cmocka_unit_test(parts),
		cmocka_unit_test(dot),
	};

	return cmocka_run_group_tests_name("formats of topology files", tests, NULL, NULL);
}
