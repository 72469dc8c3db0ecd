// SPDX-License-Identifier: GPL-2.0-or-later
/* Every command accepts every name of a node, and lists the names if there is no such node. */
#include "subnet.h"

#include <inttypes.h>
#include <jansson.h>

#include "fabric/control/control.h"
#include "fabric/fault/script.h"
#include "fabric/graph/names.h"
#include "fabric/graph/topology.h"

static const char file[] =
	"caguid=0x99\nCa 2 \"H-0000000000000099\" # \"a host: of two ports\"\n"
	"[1](77) \"S-00000000000000aa\"[1]\n"
	"[2](88) \"S-00000000000000aa\"[2]\n"
	"caguid=0x9900\nCa 1 \"H-0000000000009900\" # \"twin\"\n"
	"[1](9901) \"S-00000000000000aa\"[3]\n"
	"caguid=0x9a00\nCa 1 \"H-0000000000009a00\" # \"twin\"\n"
	"[1](9a01) \"S-00000000000000aa\"[4]\n"
	"switchguid=0xaa\nSwitch 8 \"S-00000000000000aa\" # \"leaf 1:a\"\n"
	"[1] \"H-0000000000000099\"[1]\n"
	"[2] \"H-0000000000000099\"[2]\n"
	"[3] \"H-0000000000009900\"[1]\n"
	"[4] \"H-0000000000009a00\"[1]\n";

static void wrong_line(void *ctx, unsigned int line, const char *text)
{
	(void)ctx;
	fail_msg("%u: %s", line, text);
}

static int setup_file(void **st)
{
	const struct fab_report r = { .say = wrong_line };
	struct fab *g = fab_new();

	(void)st;
	assert_non_null(g);
	assert_true(fab_topology_parse(g, file, sizeof(file) - 1, &r));
	assert_true(fab_seal(g));
	begin(g);
	return 0;
}

/* Return: the reply to a request with @name in place of each @. */
static json_t *reply_to(const char *request, const char *name)
{
	char text[1024], *reply;
	size_t n = 0;
	json_t *v;

	for (; *request; request++) {
		if (*request == '@')
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", name);
		else
			text[n++] = *request;
	}
	m.now_ns = now;
	reply = fab_control_answer(&m, NULL, text, n, &(struct fab_spool_cfg){ .n = 0 });
	assert_non_null(reply);
	v = json_loads(reply, 0, NULL);
	free(reply);
	assert_non_null(v);
	return v;
}

static const char *const requests[] = {
	"{\"command\": \"lft\", \"node\": \"@\"}",
	"{\"command\": \"counters\", \"node\": \"@\"}",
	"{\"command\": \"topology\", \"node\": \"@\"}",
	"{\"command\": \"topology\", \"node\": \"@\", \"file\": true}",
	"{\"command\": \"capture\", \"ports\": [\"@:1\"]}",
	"{\"command\": \"link\", \"state\": \"down\", \"node\": \"@\", \"port\": 1}",
	"{\"command\": \"link\", \"state\": \"up\", \"node\": \"@\", \"port\": \"any\"}",
	"{\"command\": \"link\", \"state\": \"flap\", \"node\": \"@\", \"port\": 1}",
	"{\"command\": \"link\", \"state\": \"degrade\", \"node\": \"@\", \"port\": 1, \"width\": 1}",
	"{\"command\": \"node\", \"state\": \"kill\", \"node\": \"@\"}",
	"{\"command\": \"node\", \"state\": \"revive\", \"node\": \"@\"}",
	"{\"command\": \"loss\", \"node\": \"@\", \"port\": 1, \"rate\": 0}",
	"{\"command\": \"corrupt\", \"node\": \"@\", \"port\": 1, \"rate\": 0}",
	"{\"command\": \"delay\", \"node\": \"@\", \"port\": 1, \"time_ns\": 0}",
	"{\"command\": \"drop\", \"node\": \"@\", \"attribute\": \"NodeInfo\", \"nth\": 0}",
	"{\"command\": \"preset\", \"node\": \"@\", \"port\": 1, "
		"\"counter\": \"PortXmitWait\", \"value\": 1}",
	"{\"command\": \"script\", \"text\": \"at 0 link down '@:1'\", \"replace\": true}",
	"{\"command\": \"script\", \"text\": \"at 0 node kill '@'\", \"replace\": true}",
};

/*
 * A node whose name is the GUID of another one is not found by it; others may have the same name.
 */
static void test_guid(void **st)
{
	static const char text[] =
		"caguid=0x99\nCa 1 \"H-0000000000000099\" # \"0x00000000000000aa\"\n"
		"[1](9901) \"S-00000000000000aa\"[1]\n"
		"caguid=0x98\nCa 1 \"H-0000000000000098\" # \"0x0000000000000bbb\"\n"
		"[1](9801) \"S-00000000000000aa\"[2]\n"
		"switchguid=0xaa\nSwitch 2 \"S-00000000000000aa\" # \"leaf\"\n"
		"[1] \"H-0000000000000099\"[1]\n"
		"[2] \"H-0000000000000098\"[1]\n";
	const struct fab_report r = { .say = wrong_line };
	struct fab *g = fab_new();

	(void)st;
	assert_non_null(g);
	assert_true(fab_topology_parse(g, text, sizeof(text) - 1, &r));
	assert_true(fab_seal(g));
	assert_int_equal(g->node[fab_find_node(g, "0x00000000000000aa")].guid, 0xaa);
	assert_int_equal(g->port[fab_find_port(g, "0x00000000000000aa:2")].node, fab_find_guid(g, 0xaa));
	assert_int_equal(g->node[fab_find_node(g, "0xaa")].guid, 0xaa);
	assert_int_equal(g->node[fab_find_node(g, "0x0000000000000bbb")].guid, 0x98);
	fab_free(g);
}

/*
 * All names of a node denote one node, for all commands; an unknown one gets an error with the
 * names that exist.
 */
static void test_commands(void **st)
{
	static const char *const names[] = {
		"leaf 1:a", "0xaa", "0x00000000000000AA", "00000000000000aa",
		"S-00000000000000aa", "S-aa", "H-00000000000000aa",
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(requests); i++) {
		json_t *v;
		const char *error;

		for (unsigned int k = 0; k < IB_ARRAY_SIZE(names); k++) {
			v = reply_to(requests[i], names[k]);
			error = json_string_value(json_object_get(v, "error"));
			if (error)
				fail_msg("%s, %s: %s", requests[i], names[k], error);
			json_decref(v);
		}
		v = reply_to(requests[i], "LEAF 2");
		error = json_string_value(json_object_get(v, "error"));
		if (!error || !strstr(error, "'LEAF 2") || !strstr(error, "nearest are 'leaf 1:a', "))
			fail_msg("%s: %s", requests[i], error ? error : "no error");
		json_decref(v);
	}
	fab_script_stop(&m);
}

/* The port that a name without a port denotes, or the name of a port. */
static void test_ports(void **st)
{
	static const struct {
		const char *name;
		uint32_t node;
	} nodes[] = {
		{ "a host: of two ports", 0 }, { "0x99", 0 }, { "0x77", 0 }, { "0x88", 0 },
		{ "0000000000000088", 0 }, { "H-77", 0 }, { "twin", 1 }, { "0x9a00", 2 },
		{ "0x9a01", 2 }, { "0xab", FAB_NONE }, { "aa", FAB_NONE }, { "S-", FAB_NONE },
		{ "S-aax", FAB_NONE }, { "X-aa", FAB_NONE }, { "0x", FAB_NONE }, { "0", FAB_NONE },
		{ "0x0", FAB_NONE }, { "", FAB_NONE }, { "leaf 1:", FAB_NONE }, { "leaf", FAB_NONE },
		{ "0x100000000000000aa", FAB_NONE }, { "twi", FAB_NONE }, { "twins", FAB_NONE },
	};
	static const struct {
		const char *name;
		uint32_t node, port;
	} ports[] = {
		{ "leaf 1:a:8", 3, 8 }, { "leaf 1:a:0", 3, 0 }, { "S-aa:2", 3, 2 }, { "0xaa:4", 3, 4 },
		{ "a host: of two ports:2", 0, 2 }, { "0x77:2", 0, 2 },
		{ "leaf 1:a", FAB_NONE, 0 }, { "leaf 1:a:9", FAB_NONE, 0 },
		{ "leaf 1:a:-1", FAB_NONE, 0 }, { "leaf 1:a: 1", FAB_NONE, 0 },
		{ "leaf 1:a:1x", FAB_NONE, 0 }, { "twin:0", FAB_NONE, 0 }, { ":1", FAB_NONE, 0 },
		{ "leaf 1:a:99999999999999999999", FAB_NONE, 0 },
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(nodes); i++)
		if (fab_find_node(f, nodes[i].name) != nodes[i].node)
			fail_msg("%s", nodes[i].name);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(ports); i++) {
		const uint32_t p = ports[i].node == FAB_NONE ? FAB_NO_PORT :
				   fab_port_of(&f->node[ports[i].node], ports[i].port);

		if (fab_find_port(f, ports[i].name) != p)
			fail_msg("%s", ports[i].name);
	}
	assert_int_equal(fab_find_port_guid(f, "0x88"), fab_port_of(&f->node[0], 2));
	assert_int_equal(fab_find_port_guid(f, "0x99"), FAB_NO_PORT);
}

/* The list of names is short, however long they are, and whatever the request asks for. */
static void test_near(void **st)
{
	char text[512], small[20];

	(void)st;
	fab_names_near(f, "TWINS", text, sizeof(text));
	assert_memory_equal(text, "the nearest are 'twin', 'twin', ", 32);
	fab_names_near(f, "", text, sizeof(text));
	assert_non_null(strstr(text, "'leaf 1:a'"));
	fab_names_near(f, "leaf", small, sizeof(small));
	assert_int_equal(strlen(small), sizeof(small) - 1);
}

/* A node among many is found without a search of the others. */
static void test_many(void **st)
{
	char name[32];

	(void)st;
	begin(from_spec("fat-tree:36,3"));
	for (unsigned int i = 1; i <= 11664; i++) {
		snprintf(name, sizeof(name), "host%u", i);
		assert_int_equal(fab_find_node(f, name), i - 1);
		snprintf(name, sizeof(name), "H-%016" PRIx64,
			 f->port[fab_port_of(&f->node[i - 1], 1)].guid);
		assert_int_equal(fab_find_node(f, name), i - 1);
	}
	fab_free(f);
}

/* A NodeDescription has up to 64 bytes, all of which count; a longer name denotes no node. */
static void longest(void **st)
{
	char desc[FAB_DESC_LEN + 2];
	struct fab *g = fab_new();

	(void)st;
	assert_non_null(g);
	memset(desc, 'x', sizeof(desc));
	desc[FAB_DESC_LEN + 1] = 0;
	fab_add_node(g, IB_NODE_SWITCH_DEVICE, 2, 1, desc, FAB_DESC_LEN - 1);
	fab_add_node(g, IB_NODE_SWITCH_DEVICE, 2, 2, desc, FAB_DESC_LEN);
	assert_true(fab_seal(g));
	assert_int_equal(fab_find_node(g, desc), FAB_NONE);
	desc[FAB_DESC_LEN] = 0;
	assert_int_equal(fab_find_node(g, desc), 1);
	desc[FAB_DESC_LEN - 1] = 0;
	assert_int_equal(fab_find_node(g, desc), 0);
	desc[FAB_DESC_LEN - 2] = 0;
	assert_int_equal(fab_find_node(g, desc), FAB_NONE);
	fab_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(longest),
		cmocka_unit_test(test_guid),
		cmocka_unit_test_setup_teardown(test_commands, setup_file, teardown),
		cmocka_unit_test_setup_teardown(test_ports, setup_file, teardown),
		cmocka_unit_test_setup_teardown(test_near, setup_file, teardown),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
