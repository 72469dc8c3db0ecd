// SPDX-License-Identifier: GPL-2.0-or-later
/* Topology files: valid input, errors, and output. */
#include "cases.h"

#include "fabric/graph/hash.h"
#include "fabric/graph/pool.h"
#include "ib/rate.h"
#include "fabric/graph/names.h"

static struct fab *load(const char *name)
{
	struct errors e = { 0 };
	const struct fab_report r = { .say = keep_error, .ctx = &e };
	struct fab *f = fab_new();
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", getenv("TOPOLOGIES"), name);
	assert_non_null(f);
	if (!fab_topology_load(f, path, &r))
		fail_msg("%s:%u: %s", path, e.line[0], e.text[0]);
	assert_true(fab_seal(f));
	return f;
}

/* The output for a fabric loads as the same fabric. */
static void reload(const struct fab *f)
{
	size_t len, len2;
	char *text = text_of(f, &len), *again;
	struct errors e;
	struct fab *g = from_text(text, len, &e);

	if (!g)
		fail_msg("line %u of what was written: %s", e.line[0], e.text[0]);
	assert_int_equal(g->nodes, f->nodes);
	assert_int_equal(cables_of(g), cables_of(f));
	again = text_of(g, &len2);
	assert_int_equal(len2, len);
	assert_memory_equal(again, text, len);
	fab_free(g);
	free(text);
	free(again);
}

static const struct fab_node *node(const struct fab *f, uint64_t guid)
{
	uint32_t n = fab_find_guid(f, guid);

	assert_true(n != FAB_NONE);
	return &f->node[n];
}

/* The output of a real ibnetdiscover -g, with all that it can contain. */
static void ibnetdiscover(void **st)
{
	struct fab *f = load("cluster.ibnetdiscover");
	const struct fab_node *n;
	const struct fab_port *p;

	(void)st;
	assert_int_equal(f->nodes, 6);
	assert_int_equal(cables_of(f), 7);
	n = node(f, 0x2c90200400020);
	assert_int_equal(n->type, IB_NODE_SWITCH_DEVICE);
	assert_int_equal(n->nports, 36);
	assert_int_equal(n->vendor_id, 0x2c9);
	assert_int_equal(n->device_id, 0xc738);
	assert_true(n->sys_guid == 0x2c90200400003);
	assert_false(n->base_port0);
	assert_string_equal(f->desc[n - f->node].text, "MF0;big switch:IS5200/L01/U1");
	assert_int_equal(f->port[fab_port_of(n, 0)].pi.lid, 5);
	assert_true(f->port[fab_port_of(n, 0)].guid == 0x2c90200400020);
	p = &f->port[fab_port_of(n, 4)];
	assert_int_equal(p->pi.width_active, IB_WIDTH_12X);
	assert_int_equal(p->pi.speed_active, IB_SPEED_DDR);
	assert_int_equal(p->pi.speed_ext_active, 0);
	assert_int_equal(p->pi.state, IB_PS_INIT);
	assert_int_equal(fab_port_num(f, p->peer), 24);
	/* a free port has the capabilities of the others */
	p = &f->port[fab_port_of(n, 5)];
	assert_int_equal(p->pi.state, IB_PS_DOWN);
	assert_int_equal(p->pi.width_supported, IB_WIDTH_1X | IB_WIDTH_4X | IB_WIDTH_12X);
	n = node(f, 0x8f10400411f56);
	assert_true(n->base_port0);
	assert_false(f->sw[n->sw].si.enhanced_port0);
	n = node(f, 0x2c90300a1b2d0);
	assert_int_equal(n->type, IB_NODE_CHANNEL_ADAPTER);
	p = &f->port[fab_port_of(n, 2)];
	assert_true(p->guid == 0x2c90300a1b2d2);
	assert_int_equal(p->pi.lid, 12);
	assert_int_equal(p->pi.lmc, 2);
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.width_active, IB_WIDTH_1X);
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.speed_active, IB_SPEED_SDR);
	n = node(f, 0x2c90300a1b2c0);
	assert_string_equal(f->desc[n - f->node].text, "login \"1\" mlx4_0");
	assert_int_equal(node(f, 0x2c90300a1b2e0)->type, IB_NODE_ROUTER_DEVICE);
	reload(f);
	fab_free(f);
}

static void ibsim(void **st)
{
	struct fab *f = load("two-switches.net");
	const struct fab_node *n = &f->node[0];

	(void)st;
	assert_int_equal(f->nodes, 4);
	assert_int_equal(cables_of(f), 5);
	assert_string_equal(f->desc[0].text, "left");
	assert_true(n->guid == fab_made_guid(IB_NODE_SWITCH_DEVICE, 1));
	/* without a number of the other port, it is port 1 */
	assert_int_equal(f->port[fab_port_of(&f->node[3], 1)].peer, fab_port_of(&f->node[1], 1));
	assert_true(f->port[fab_port_of(&f->node[3], 1)].guid == f->node[3].guid + 1);
	/* masks */
	assert_int_equal(f->port[fab_port_of(n, 2)].pi.speed_ext_active, IB_SPEED_EXT_FDR);
	assert_int_equal(f->port[fab_port_of(n, 2)].pi.width_supported, 3);
	assert_int_equal(f->port[fab_port_of(n, 1)].pi.speed_ext_active, IB_SPEED_EXT_FDR);
	reload(f);
	fab_free(f);
}

/* The GUID of a port is that of its line. */
static void port_guid(void **st)
{
	static const char text[] = "Switch 2 \"a\"\n[1] \"b\"[2]\n"
				   "caguid=0x10\nCa 2 \"b\"\n[2](77) \"a\"[1]\n";
	struct errors e;
	struct fab *f = from_text(text, sizeof(text) - 1, &e);
	const struct fab_node *n;

	(void)st;
	assert_non_null(f);
	n = node(f, 0x10);
	assert_true(f->port[fab_port_of(n, 1)].guid == 0x11);
	assert_true(f->port[fab_port_of(n, 2)].guid == 0x77);
	reload(f);
	fab_free(f);
}

/* ---- errors -------------------------------------------------------------------- */

#define A "Switch 2 \"a\"\n"
#define B "Ca 1 \"b\"\n"

static const struct {
	const char *text;
	unsigned int line;	/* of the first error */
	const char *says;
} wrong[] = {
	{ "", 0, "no node" },
	{ "# only a comment\n", 0, "no node" },
	{ "Swich 2 \"a\"\n", 1, "not understood" },
	{ "include \"x\"\n", 1, "not understood" },
	{ "Switch \"a\"\n", 1, "how many ports" },
	{ "Switch 0 \"a\"\n", 1, "how many ports" },
	{ "Switch 255 \"a\"\n", 1, "1 to 254" },
	{ "Switch 2 a\n", 1, "closing quote" },
	{ "Switch 2 \"a\n", 1, "closing quote" },
	{ "Switch 2 \"\"\n", 1, "0 characters" },
	{ "Switch 2 \"0123456789012345678901234567890123456789012345678901234567890123\"\n", 1,
	  "64 characters" },
	{ "Switch 2 \"a\" # \"text\n", 1, "closing quote" },
	{ "Switch 2 \"a\" text\n", 1, "unexpected text" },
	{ "Switch 2 \"a\" # \"d\" base port 0 lid 49152 lmc 0\n", 1, "LID is 1 to 49151" },
	{ "Switch 2 \"a\" # \"d\" base port 0 lid 1 lmc 8\n", 1, "LMC 0 to 7" },
	{ "Switch 2 \"a\" # \"d\" base port 0 lid 65536 lmc 0\n", 1, "LID is 1 to 49151" },
	{ "switchguid=0x1(0)\n" A, 1, "is no value" },
	{ "speed=8\n" A, 1, "is no value" },
	{ "speed=0xf\n" A, 1, "is no value" },
	{ A "[1] \"b\"[1]\n" B "[1] \"a\"[1]\n" A, 5, "in line 1: remove one" },
	{ "[1] \"b\"[1]\n", 1, "a port without a node" },
	{ A "[x] \"b\"[1]\n", 2, "a port is [1] to [2]" },
	{ A "[0] \"b\"[1]\n", 2, "ports 1 to 2" },
	{ A "[3] \"b\"[1]\n", 2, "ports 1 to 2" },
	{ A "[1] \"b[1]\n", 2, "closing quote" },
	{ A "[1] \"b\"[0]\n" B, 2, "[1] to [254]" },
	{ A "[1] \"b\"[1\n" B, 2, "[1] to [254]" },
	{ A "[1](xy) \"b\"[1]\n" B, 2, "hexadecimal" },
	{ A "[1] \"b\"[1] q=1\n" B, 2, "w=, s=, e=" },
	{ A "[1] \"b\"[1] # 4xFAST\n" B, 2, "rate 4xFAST is not known" },
	{ A "[1] \"c\"[1]\n" B "[1] \"a\"[1]\n", 2, "no node \"c\"" },
	{ A "[1] \"b\"[2]\n" B "[1] \"a\"[1]\n", 2, "has no port 2" },
	{ A "[1] \"a\"[1]\n", 2, "connected to itself" },
	{ A "[1] \"b\"[1]\n" B, 2, "add [1] \"a\"[1] below \"b\" in line 3" },
	{ A "[1] \"b\"[1]\n[1] \"b\"[1]\n" B "[1] \"a\"[1]\n", 3, "in line 2 already" },
	{ A "[1] \"b\"[1]\n[2] \"b\"[1]\n" B "[1] \"a\"[1]\n", 3, "by line 5: correct" },
	{ A "[1] \"b\"[1]\n" B "[1] \"a\"[1]\nCa 1 \"c\"\n", 5, "\"c\" is not connected to \"a\"" },
	{ "switchguid=0x1\n" B, 1, "another kind of node" },
	{ "caguid=0\n" B, 1, "no value" },
	{ "caguid=0x11112222333344445\n" B, 1, "no value" },
	{ "vendid=0x1000000\n" B, 1, "no value" },
	{ "devid=0x1 x\n" B, 1, "no value" },
	{ "switchguid=0x1\n" A "[1] \"b\"[1]\ncaguid=0x1\n" B "[1] \"a\"[1]\n", 5,
	  "node GUID 0x0000000000000001" },
	{ "switchguid=0x12\n" A "[1] \"b\"[1]\ncaguid=0x11\n" B "[1] \"a\"[1]\n", 5,
	  "port GUID 0x0000000000000012" },
	{ "Switch 2 \"a\" # \"d\" base port 0 lid 6 lmc 0\n[1] \"b\"[1]\n" B
	  "[1] \"a\"[1] # lid 4 lmc 2 \"d\" lid 6 4xEDR\n", 3, "LID 6" },
	{ A "[1] \"b\"[1]\n" B "[1] \"a\"[1]\ncaguid=0x5\n", 5, "no node follows" },
};

static void refused(void **st)
{
	(void)st;
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct errors e;

		if (from_text(wrong[i].text, strlen(wrong[i].text), &e))
			fail_msg("accepted: %s", wrong[i].text);
		if (e.line[0] != wrong[i].line || !strstr(e.text[0], wrong[i].says))
			fail_msg("%s: line %u: %s", wrong[i].text, e.line[0], e.text[0]);
	}
}

static void refused_bytes(void **st)
{
	static const char zero[] = "Switch 2 \"a\"\n\0[1]";
	struct errors e;
	char *text;
	size_t n = 0;

	(void)st;
	assert_null(from_text(zero, sizeof(zero), &e));
	assert_int_equal(e.line[0], 2);
	assert_non_null(strstr(e.text[0], "zero byte"));
	/* the last line may end without a newline */
	assert_null(from_text("Switch 2 \"a\"", 11, &e));
	assert_non_null(strstr(e.text[0], "closing quote"));
	/* every line has an error: the number of reported errors is limited */
	text = malloc(200000);
	assert_non_null(text);
	for (; n + 2 <= 200000; n += 2)
		memcpy(text + n, "?\n", 2);
	assert_null(from_text(text, n, &e));
	assert_int_equal(e.n, 51);
	free(text);
}

static void unreadable(void **st)
{
	struct errors e = { 0 };
	const struct fab_report r = { .say = keep_error, .ctx = &e };
	struct fab *f = fab_new();

	(void)st;
	assert_false(fab_topology_load(f, "/nonexistent/file", &r));
	assert_int_equal(e.n, 1);
	assert_int_equal(e.line[0], 0);
	assert_non_null(strstr(e.text[0], "No such file"));
	e.n = 0;
	assert_false(fab_topology_load(f, "/", &r));
	assert_int_equal(e.n, 1);
	fab_free(f);
}

static void too_many_nodes(void **st)
{
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);
	struct errors e;

	(void)st;
	for (unsigned int i = 0; i <= FAB_MAX_NODES; i++)
		fprintf(out, "Ca 1 \"%u\"\n", i);
	fclose(out);
	assert_null(from_text(text, len, &e));
	assert_int_equal(e.line[0], FAB_MAX_NODES + 1);
	assert_non_null(strstr(e.text[0], "too large"));
	free(text);
}

/* ---- hash tables and pools ----------------------------------------------------- */

static bool is_key(const void *ctx, uint32_t index, const void *key)
{
	return ((const uint64_t *)ctx)[index] == *(const uint64_t *)key;
}

/* Compared with an array; few hash values, so that runs are long and wrap around. */
static void hashes(void **st)
{
	uint64_t key[500];
	bool in[500] = { false };
	struct fab_hash h = { 0 };
	uint32_t seed = 1;

	(void)st;
	for (uint32_t i = 0; i < 500; i++)
		key[i] = i;
	for (unsigned int step = 0; step < 20000; step++) {
		uint32_t i, hash;

		seed = seed * 1664525 + 1013904223;
		i = (seed >> 16) % 500;
		hash = i % 7 ? (i % 13) - 3 : fab_hash_u64(i);
		assert_int_equal(fab_hash_find(&h, hash, is_key, key, &key[i]), in[i] ? i : FAB_NONE);
		if (in[i])
			fab_hash_del(&h, hash, i);
		else
			assert_true(fab_hash_add(&h, hash, i));
		in[i] = !in[i];
	}
	for (uint32_t i = 0; i < 500; i++)
		assert_int_equal(fab_hash_find(&h, i % 7 ? (i % 13) - 3 : fab_hash_u64(i), is_key,
					       key, &key[i]), in[i] ? i : FAB_NONE);
	fab_hash_free(&h);
}

static void pools(void **st)
{
	struct fab_pool p;
	uint32_t a, b, c, at[100];
	uint64_t v[2] = { 1, 2 };

	(void)st;
	fab_pool_init(&p, sizeof(v));
	a = fab_pool_get(&p, v);
	assert_int_equal(fab_pool_get(&p, v), a);
	v[1] = 3;
	b = fab_pool_get(&p, v);
	assert_true(b != a);
	assert_memory_equal(fab_pool_at(&p, b), v, sizeof(v));
	/* the last reference frees an entry, which is then used again */
	fab_pool_put(&p, a);
	v[1] = 2;
	assert_int_equal(fab_pool_get(&p, v), a);
	fab_pool_put(&p, a);
	fab_pool_put(&p, a);
	v[0] = 7;
	c = fab_pool_get(&p, v);
	assert_int_equal(c, a);
	assert_memory_equal(fab_pool_at(&p, c), v, sizeof(v));
	for (unsigned int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 100; i++) {
			v[0] = 1000 + i;
			at[i] = fab_pool_get(&p, v);
		}
		for (unsigned int i = 0; i < 100; i++)
			fab_pool_put(&p, at[i]);
	}
	assert_true(p.top <= 102);
	fab_pool_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibnetdiscover),
		cmocka_unit_test(ibsim),
		cmocka_unit_test(port_guid),
		cmocka_unit_test(refused),
		cmocka_unit_test(refused_bytes),
		cmocka_unit_test(unreadable),
		cmocka_unit_test(too_many_nodes),
		cmocka_unit_test(hashes),
		cmocka_unit_test(pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
