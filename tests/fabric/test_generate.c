// SPDX-License-Identifier: GPL-2.0-or-later
/* Generated fabrics: counts that arithmetic gives, cables, GUIDs, refused specs. */
#include "cases.h"

/* The counts of each of tests/topologies/specs; the written fabric is read as the same. */
static void zoo(void **st)
{
	char path[256], line[128], spec[64];
	unsigned int switches, hosts, cables, n = 0;
	FILE *in;

	(void)st;
	snprintf(path, sizeof(path), "%s/specs", getenv("TOPOLOGIES"));
	in = fopen(path, "r");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		size_t len, len2;
		char *text, *again;
		struct fab *f, *g;
		struct errors e;

		if (line[0] == '#')
			continue;
		assert_int_equal(sscanf(line, "%63s %u %u %u", spec, &switches, &hosts, &cables), 4);
		n++;
		f = from_spec(spec);
		if (f->switches != switches || f->nodes - f->switches != hosts ||
		    cables_of(f) != cables)
			fail_msg("%s: %u switches, %u hosts, %u cables", spec, f->switches,
				 f->nodes - f->switches, cables_of(f));
		text = text_of(f, &len);
		fab_free(f);
		g = from_text(text, len, &e);
		if (!g)
			fail_msg("%s: line %u: %s", spec, e.line[0], e.text[0]);
		again = text_of(g, &len2);
		fab_free(g);
		assert_int_equal(len2, len);
		assert_memory_equal(again, text, len);
		free(text);
		free(again);
	}
	fclose(in);
	assert_true(n > 20);
}

/* Return: the number of switches with a host, or in a group, all of whose ports are used. */
static unsigned int free_ports(const struct fab *f)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < f->nodes; i++)
		for (unsigned int p = 1; p <= f->node[i].nports; p++)
			n += f->port[fab_port_of(&f->node[i], p)].peer == FAB_NO_PORT;
	return n;
}

static void all_ports_used(void **st)
{
	static const char * const specs[] = {
		"star:36", "fat-tree:36", "fat-tree:8,3", "ring:5", "torus:3x4x5,2",
		"dragonfly:4,2,2", "dragonfly+:4,3,2,5", "rails:4",
	};

	(void)st;
	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct fab *f = from_spec(specs[i]);

		if (free_ports(f))
			fail_msg("%s: %u free ports", specs[i], free_ports(f));
		fab_free(f);
	}
}

/* Return: the number of nodes within @hops cables of node @from. */
static unsigned int within(const struct fab *f, uint32_t from, unsigned int hops)
{
	uint8_t *dist = calloc(f->nodes, 1);
	unsigned int n = 1;

	dist[from] = 1;
	for (unsigned int d = 1; d <= hops; d++)
		for (uint32_t i = 0; i < f->nodes; i++)
			for (unsigned int p = 1; dist[i] == d && p <= f->node[i].nports; p++) {
				uint32_t peer = f->port[fab_port_of(&f->node[i], p)].peer;

				if (peer == FAB_NO_PORT || dist[f->port[peer].node])
					continue;
				dist[f->port[peer].node] = (uint8_t)(d + 1);
				n++;
			}
	free(dist);
	return n;
}

/* Distances show whether cables are where that kind of fabric needs them. */
static void distances(void **st)
{
	struct fab *f = from_spec("fat-tree:8,3");

	(void)st;
	/* host, leaf; 3 hosts and 4 spines; ... everything within six */
	assert_int_equal(within(f, 0, 1), 2);
	assert_int_equal(within(f, 0, 2), 2 + 3 + 4);
	assert_int_equal(within(f, 0, 6), f->nodes);
	assert_true(within(f, 0, 5) < f->nodes);
	fab_free(f);
	/* every group is one global link away: host, local, global, local, host */
	f = from_spec("dragonfly:4,2,2");
	assert_int_equal(within(f, 0, 5), f->nodes);
	fab_free(f);
	f = from_spec("torus:4x4x4");
	assert_int_equal(within(f, 64, 1), 1 + 1 + 6);
	assert_int_equal(within(f, 64, 7), f->nodes);
	assert_int_equal(within(f, 64, 6), f->nodes - 1);
	fab_free(f);
	/* two nodes of two ports, and a host at the last port */
	f = from_spec("star:5,2,2,7");
	assert_int_equal(f->nodes, 4);
	assert_string_equal(f->desc[0].text, "node7");
	assert_string_equal(f->desc[1].text, "node8");
	assert_string_equal(f->desc[2].text, "host5");
	for (unsigned int p = 1; p <= 5; p++)
		assert_int_equal(f->port[f->port[fab_port_of(&f->node[3], p)].peer].node, (p - 1) / 2);
	assert_int_equal(free_ports(f), 0);
	fab_free(f);
	/* machines of a rail share a leaf */
	f = from_spec("rails:2,4,2");
	assert_int_equal(within(f, 0, 2), 2 + 3 + 2);
	assert_int_equal(f->port[fab_port_of(&f->node[f->port[f->port[fab_port_of(&f->node[0], 1)]
			 .peer].node], 2)].peer, fab_port_of(&f->node[2], 1));
	assert_string_equal(f->desc[2].text, "node2 ohca_0");
	assert_string_equal(f->desc[3].text, "node2 ohca_1");
	fab_free(f);
	/* adapters of two ports: the second adapter of the first machine is at leaves 3 and 4 */
	f = from_spec("rails:1,4,4,2");
	assert_string_equal(f->desc[1].text, "node1 ohca_1");
	assert_int_equal(f->node[1].nports, 2);
	assert_string_equal(f->desc[f->port[f->port[fab_port_of(&f->node[1], 1)].peer].node].text,
			    "unit1 leaf3");
	assert_string_equal(f->desc[f->port[f->port[fab_port_of(&f->node[1], 2)].peer].node].text,
			    "unit1 leaf4");
	fab_free(f);
}

static void same_again(void **st)
{
	struct fab *f = from_spec("random:42,40,5,2"), *g = from_spec("random:42,40,5,2");
	struct fab *h = from_spec("random:43,40,5,2");
	size_t len, len2;
	char *a = text_of(f, &len), *b = text_of(g, &len2);

	(void)st;
	assert_int_equal(len, len2);
	assert_memory_equal(a, b, len);
	free(b);
	b = text_of(h, &len2);
	assert_true(len != len2 || memcmp(a, b, len));
	free(a);
	free(b);
	fab_free(f);
	fab_free(g);
	fab_free(h);
}

/* Lists of rates, one for each level, beginning with the hosts. */
static void speeds(void **st)
{
	static const struct {
		const char *list;
		bool right;
	} cases[] = {
		{ "EDR", true }, { "2xHDR", true }, { "EDR,HDR,NDR", true }, { "SDR,12xDDR", true },
		{ "", false }, { ",", false }, { "EDR,", false }, { ",EDR", false },
		{ "EDR,,HDR", false }, { "EDR,FAST", false }, { "FAST", false }, { "4x", false },
		{ "3xEDR", false }, { "???", false }, { "2x???", false },
		{ "EDR,HDR,NDR,XDR", false }, { "EDR HDR", false },
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(cases); i++) {
		const struct fab_plan plan = { .spec = "fat-tree:4", .speed = cases[i].list };
		struct fab_damages d;
		struct fab *f = fab_new();
		char why[1024] = "";

		assert_non_null(f);
		if (fab_generate_plan(f, &plan, &d, why, sizeof(why)) != cases[i].right ||
		    !cases[i].right == !strstr(why, "is not a list of 1 to 3 rates"))
			fail_msg("'%s': %s", cases[i].list, why);
		if (cases[i].right)
			free(d.list);
		fab_free(f);
	}
}

static void refused(void **st)
{
	static const char * const specs[] = {
		"", "star", "star:", "star:0", "star:255", "star:1,2", "star:5,3,2", "star:5,1,0", "star:5,1,1,1,1", "star:x", "star:1 ",
		"starr:1", "fat-tree:5", "fat-tree:0", "fat-tree:36,1", "fat-tree:36,4",
		"fat-tree:60,3", "fat-tree:256", "torus:3x3x3x3", "torus:x", "torus:2x", "torus:1x1,0",
		"ring:0", "ring:40000,2", "dragonfly:2,1", "dragonfly:200,200,200", "dragonfly+:0,1,1,1",
		"torus:3x0", "torus:3x0x2,1", "dragonfly:1,0,0", "dragonfly+:1,0,1,1",
		"dragonfly+:2,1,0,1", "rails:1,0", "rails:1,32,0",
		"rails:3", "rails:200", "rails:1,4,3,2", "rails:1,4,2,0", "rails:1,4,2,1,1",
		"random:1", "random:1,0", "random:1,10,1",
		"ring:99999999999999999999",
	};

	(void)st;
	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct fab *f = fab_new();
		char why[1024] = "";

		if (fab_generate(f, specs[i], why, sizeof(why)))
			fail_msg("'%s' was accepted", specs[i]);
		assert_true(strlen(why) > 10);
		assert_true(strcmp(specs[i], "ring:40000,2") || strstr(why, "has 49151 LIDs"));
		fab_free(f);
	}
}

/*
 * A switch has at most 254 ports. A fabric that needs so many is made. One that needs one port
 * more, or two where ports are in pairs, is refused, although LIDs and the total number of ports
 * would suffice.
 */
static void widest(void **st)
{
	static const struct {
		const char *good, *bad;
	} specs[] = {
		{ "star:254", "star:255" }, { "ring:3,252", "ring:3,253" },
		{ "torus:3x3x3,248", "torus:3x3x3,249" },
		{ "dragonfly:2,252,1", "dragonfly:2,253,1" },
		{ "dragonfly+:1,1,1,253", "dragonfly+:1,1,1,254" },
		{ "rails:1,127,1", "rails:1,128,1" }, { "random:1,4,3,251", "random:1,4,3,252" },
	};

	(void)st;
	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct fab *f = from_spec(specs[i].good), *g = fab_new();
		unsigned int most = 0;
		char why[1024] = "";

		for (uint32_t k = 0; k < f->nodes; k++)
			most = f->node[k].nports > most ? f->node[k].nports : most;
		assert_int_equal(most, 254);
		fab_free(f);
		if (fab_generate(g, specs[i].bad, why, sizeof(why)))
			fail_msg("'%s' was accepted", specs[i].bad);
		if (!strstr(why, "at most 254 are possible"))
			fail_msg("'%s': %s", specs[i].bad, why);
		fab_free(g);
	}
}

/* The memory of a host and of a switch, which large fabrics multiply. */
static void memory(void **st)
{
	struct fab *f = from_spec("fat-tree:36,3");

	(void)st;
	assert_true(sizeof(struct fab_node) <= 64);
	assert_true(sizeof(struct fab_port) <= 144);
	assert_true(fab_bytes(f) < 24u << 20);
	fab_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zoo),
		cmocka_unit_test(all_ports_used),
		cmocka_unit_test(distances),
		cmocka_unit_test(same_again),
		cmocka_unit_test(speeds),
		cmocka_unit_test(refused),
		cmocka_unit_test(widest),
		cmocka_unit_test(memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
