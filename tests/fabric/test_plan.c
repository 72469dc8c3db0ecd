// SPDX-License-Identifier: GPL-2.0-or-later
/* Generated fabrics with more than a SPEC: names, products, rails, rates, chassis, damage. */
#include "cases.h"

#include <regex.h>

#include "fabric/graph/names.h"
#include "ib/mlnx.h"

static struct fab *from_plan(const struct fab_plan *plan, struct fab_damages *damages)
{
	struct fab *f = fab_new();
	char why[1024];

	assert_non_null(f);
	if (!fab_generate_plan(f, plan, damages, why, sizeof(why)))
		fail_msg("%s: %s", plan->spec, why);
	assert_true(fab_seal(f));
	return f;
}

/* The topology file of a fabric loads, and is written the same again. */
static void comes_back(const struct fab *f)
{
	size_t len, len2;
	char *text = text_of(f, &len), *again;
	struct errors e;
	struct fab *g = from_text(text, len, &e);

	if (!g)
		fail_msg("line %u: %s", e.line[0], e.text[0]);
	again = text_of(g, &len2);
	assert_int_equal(len, len2);
	assert_memory_equal(text, again, len);
	free(text);
	free(again);
	fab_free(g);
}

static uint32_t peer_node(const struct fab *f, uint32_t node, unsigned int num)
{
	const uint32_t peer = f->port[fab_port_of(&f->node[node], num)].peer;

	assert_int_not_equal(peer, FAB_NO_PORT);
	return f->port[peer].node;
}

static bool matches(const char *pattern, const char *text)
{
	regex_t re;
	bool ok;

	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	ok = !regexec(&re, text, 0, NULL, 0);
	regfree(&re);
	return ok;
}

/* A product of each speed, and the names that programs parse: "HOST DEVICE", "X;NAME:MODEL/U1". */
static void products(void **st)
{
	static const struct {
		const char *speed, *model, *device;
		unsigned int ports, switch_id, adapter_id;
	} want[] = {
		{ "QDR", "IS5030", "mlx4_0", 36, 0xbd36, 0x673c },
		{ "FDR10", "SX6036", "mlx5_0", 36, 0xc738, 0x1011 },
		{ "FDR", "SX6036", "mlx5_0", 36, 0xc738, 0x1011 },
		{ "EDR", "MSB7800", "mlx5_0", 37, 0xcf08, 0x1017 },
		{ "2xHDR", "MQM8700", "mlx5_0", 81, 0xd2f0, 0x101b },
		{ "HDR", "MQM8700", "mlx5_0", 41, 0xd2f0, 0x101b },
		{ "HDR,NDR", "MQM9700", "mlx5_0", 65, 0xd2f2, 0x101b },
		{ "2xNDR,NDR", "MQM9700", "mlx5_0", 129, 0xd2f2, 0x1021 },
		{ "XDR", "Q3400_RA", "mlx5_0", 145, 0xd2f4, 0x1023 },
	};
	char pattern[128];

	(void)st;
	for (unsigned int k = 0; k < sizeof(want) / sizeof(want[0]); k++) {
		struct fab *f = from_plan(&(struct fab_plan){
			.spec = "fat-tree:4,3", .nvidia = true, .speed = want[k].speed }, NULL);
		unsigned int leaves = 0;

		for (uint32_t i = 0; i < f->nodes; i++) {
			const struct fab_node *n = &f->node[i];
			const bool sw = n->type == IB_NODE_SWITCH_DEVICE;

			snprintf(pattern, sizeof(pattern), sw ?
				 "^MF0;(pod0[1-4]-(leaf|spine)|core)0[1-4]:%s/U1$" :
				 "^node0(0[1-9]|1[0-6]) %s$", sw ? want[k].model : want[k].device);
			/*
			 * the leaf's product has the faster of the two speeds, a core's has the
			 * last
			 */
			if (sw && strstr(want[k].speed, "2x") && strstr(f->desc[i].text, "core"))
				continue;
			if (!matches(pattern, f->desc[i].text))
				fail_msg("%s: '%s'", want[k].speed, f->desc[i].text);
			leaves += sw;
			assert_int_equal(n->vendor_id, 0x2c9);
			assert_true(ib_mlnx_ids(n->vendor_id, n->device_id));
			assert_int_equal(n->device_id, sw ? want[k].switch_id : want[k].adapter_id);
			if (sw && !strstr(want[k].speed, "2xNDR,"))
				assert_int_equal(n->nports, want[k].ports);
			assert_true(n->guid >> 40 == (sw ? 0xb8599f : 0x0c42a1));
		}
		assert_true(leaves >= 16);
		comes_back(f);
		fab_free(f);
	}
}

static void aggregation(void **st)
{
	struct fab *f = from_plan(&(struct fab_plan){ .spec = "fat-tree:4", .nvidia = true,
			.speed = "HDR,NDR", .aggregation = true }, NULL);
	unsigned int n = 0;

	(void)st;
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *sw = &f->node[i], *an;
		char rate[16];
		uint32_t p;

		if (sw->type != IB_NODE_SWITCH_DEVICE)
			continue;
		n++;
		assert_int_equal(sw->nports, 65);
		p = fab_port_of(sw, 65);
		an = &f->node[peer_node(f, i, 65)];
		assert_string_equal(f->desc[an - f->node].text, "Mellanox Technologies Aggregation Node");
		assert_int_equal(an->device_id, 0xcf09);
		assert_true(an->sys_guid == sw->sys_guid && an->guid == sw->guid + 0x10);
		assert_true(f->port[f->port[p].peer].guid == an->guid);
		assert_string_equal(fab_link_rate(f, p, rate), "4xNDR");
	}
	assert_int_equal(n, 6);
	assert_int_equal(f->nodes, 6 + 6 + 8);
	comes_back(f);
	fab_free(f);
}

/* Adapter k of each machine is at leaf k of its unit; units are as full as without rails. */
static void on_rails(void **st)
{
	static const struct {
		const char *spec;
		uint32_t rails, machines, unit, leaves;	/* machines and leaves of a unit */
	} want[] = {
		{ "fat-tree:8", 4, 8, 4, 4 }, { "fat-tree:8", 8, 4, 4, 8 }, { "fat-tree:8", 1, 32, 4, 1 },
		{ "fat-tree:8,3", 2, 64, 4, 2 }, { "fat-tree:8,3", 4, 32, 4, 4 },
	};

	(void)st;
	for (unsigned int k = 0; k < sizeof(want) / sizeof(want[0]); k++) {
		const uint32_t rails = want[k].rails, first = want[k].machines * rails;
		struct fab *f = from_plan(&(struct fab_plan){ .spec = want[k].spec, .rails = rails,
				.nvidia = true }, NULL);

		assert_int_equal(f->node[first - 1].type, IB_NODE_CHANNEL_ADAPTER);
		assert_int_equal(f->node[first].type, IB_NODE_SWITCH_DEVICE);
		for (uint32_t i = 0; i < first; i++) {
			char name[32];

			snprintf(name, sizeof(name), "node%03u mlx5_%u", i / rails + 1, i % rails);
			assert_string_equal(f->desc[i].text, name);
			assert_int_equal(peer_node(f, i, 1), first + i % rails +
					 i / rails / want[k].unit * want[k].leaves);
		}
		comes_back(f);
		fab_free(f);
	}
}

static const char *rate_between(const struct fab *f, const char *a, const char *b, char rate[16])
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].peer != FAB_NO_PORT && !strcmp(f->desc[f->port[p].node].text, a) &&
		    !strcmp(f->desc[f->port[f->port[p].peer].node].text, b))
			return fab_link_rate(f, p, rate);
	return "none";
}

static void speeds(void **st)
{
	struct fab *f = from_plan(&(struct fab_plan){ .spec = "fat-tree:4,3", .speed = "2xHDR,4xHDR,NDR" },
				  NULL);
	char rate[16];

	(void)st;
	assert_string_equal(rate_between(f, "host1", "pod1 leaf1", rate), "2xHDR");
	assert_string_equal(rate_between(f, "pod4 leaf2", "pod4 spine1", rate), "4xHDR");
	assert_string_equal(rate_between(f, "core3", "pod2 spine2", rate), "4xNDR");
	comes_back(f);
	fab_free(f);
	f = from_plan(&(struct fab_plan){ .spec = "dragonfly:2,1,1", .speed = "FDR,EDR" }, NULL);
	assert_string_equal(rate_between(f, "host1", "group1 switch1", rate), "4xFDR");
	assert_string_equal(rate_between(f, "group1 switch1", "group1 switch2", rate), "4xEDR");
	assert_string_equal(rate_between(f, "group1 switch1", "group2 switch2", rate), "4xEDR");
	fab_free(f);
}

/* The boards of a director share its SystemImageGUID; other switches have their own. */
static void chassis(void **st)
{
	struct fab *f = from_plan(&(struct fab_plan){ .spec = "fat-tree:4,3", .speed = "QDR",
			.nvidia = true, .chassis = true }, NULL);
	uint64_t pod[5] = { 0 };
	unsigned int boards = 0;

	(void)st;
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		unsigned int k;

		if (n->type != IB_NODE_SWITCH_DEVICE)
			continue;
		if (!matches("^MF0;pod0[1-4]:IS5300/[LS]0[12]/U1$", f->desc[i].text)) {
			assert_true(matches("^MF0;core0[1-4]:IS5030/U1$", f->desc[i].text));
			assert_true(n->sys_guid == n->guid);
			continue;
		}
		boards++;
		k = (unsigned int)(f->desc[i].text[8] - '0');
		assert_true(!pod[k] || pod[k] == n->sys_guid);
		pod[k] = n->sys_guid;
	}
	assert_int_equal(boards, 16);
	for (unsigned int k = 1; k <= 4; k++)
		assert_true(pod[k] && fab_find_guid(f, pod[k]) == FAB_NONE && pod[k] != pod[k - 1]);
	comes_back(f);
	fab_free(f);
}

/* ---- damage -------------------------------------------------------------------- */

/* Undoing the listed damage gives the intended fabric; both have the same ports. */
static void undo(const struct fab *damaged, const struct fab *good, const struct fab_damages *d,
		 bool rails)
{
	uint32_t *peer = calloc(good->ports, sizeof(*peer));
	unsigned int slow = 0, changed = 0;

	assert_int_equal(damaged->ports, good->ports);
	for (uint32_t p = 1; p < good->ports; p++)
		peer[p] = damaged->port[p].peer;
	for (uint32_t i = 0; i < d->n; i++) {
		const struct fab_damage *x = &d->list[i];
		const uint32_t *p = x->port;
		char rate[16];

		if (x->kind == FAB_DAMAGE_SLOW) {
			assert_int_equal(peer[p[0]], p[1]);
			assert_string_equal(fab_link_rate(damaged, p[0], rate), x->is);
			assert_string_equal(fab_link_rate(good, p[0], rate), x->was);
			assert_string_not_equal(x->is, x->was);
			slow++;
			continue;
		}
		if (x->kind == FAB_DAMAGE_MISSING) {
			assert_int_equal(peer[p[0]], FAB_NO_PORT);
			assert_int_equal(peer[p[1]], FAB_NO_PORT);
			peer[p[0]] = p[1];
			peer[p[1]] = p[0];
			continue;
		}
		assert_true(peer[p[0]] == p[1] && peer[p[2]] == p[3]);
		assert_int_not_equal(good->port[p[0]].node, good->port[p[2]].node);
		assert_int_not_equal(good->port[p[1]].node, good->port[p[3]].node);
		/* of adapters, only those of one machine are swapped: no other swap would show */
		if (good->node[good->port[p[0]].node].type == IB_NODE_CHANNEL_ADAPTER)
			assert_true(rails && good->port[p[0]].node / 2 == good->port[p[2]].node / 2);
		peer[p[0]] = p[3];
		peer[p[3]] = p[0];
		peer[p[2]] = p[1];
		peer[p[1]] = p[2];
	}
	for (uint32_t p = 1; p < good->ports; p++) {
		char a[16], b[16];

		assert_int_equal(peer[p], good->port[p].peer);
		changed += good->port[p].peer > p && damaged->port[p].peer != FAB_NO_PORT &&
			   strcmp(fab_link_rate(damaged, p, a), fab_link_rate(good, p, b));
	}
	assert_int_equal(changed, slow);
	free(peer);
}

/* Number of switches that are connected to the last one by cables between switches. */
static uint32_t switches_reached(const struct fab *f)
{
	uint32_t *queue = calloc(f->nodes, sizeof(*queue)), n = 1;
	bool *seen = calloc(f->nodes, sizeof(*seen));

	queue[0] = f->nodes - 1;
	seen[queue[0]] = true;
	for (uint32_t i = 0; i < n; i++) {
		const struct fab_node *sw = &f->node[queue[i]];

		for (unsigned int p = 1; p <= sw->nports; p++) {
			const uint32_t peer = f->port[fab_port_of(sw, p)].peer;
			const uint32_t to = peer == FAB_NO_PORT ? queue[0] : f->port[peer].node;

			if (seen[to] || f->node[to].type != IB_NODE_SWITCH_DEVICE)
				continue;
			seen[to] = true;
			queue[n++] = to;
		}
	}
	free(queue);
	free(seen);
	return n;
}

/* Adapters with two ports connect two leaves, but do not forward: they do not connect switches. */
static void damage_two_ports(void **st)
{
	struct fab_plan plan = { .spec = "rails:1,4,8,2" };

	(void)st;
	for (plan.seed = 0; plan.seed < 20; plan.seed++) {
		struct fab_damages d;
		struct fab *f;

		plan.swapped = plan.seed & 1;
		/* 8 * 4 cables, of which 11 are necessary to connect 12 switches */
		plan.missing = 21 - 2 * plan.swapped;
		f = from_plan(&plan, &d);
		assert_int_equal(f->node[f->nodes - 1].type, IB_NODE_SWITCH_DEVICE);
		assert_int_equal(switches_reached(f), f->switches);
		comes_back(f);
		free(d.list);
		fab_free(f);
	}
}

static void damage(void **st)
{
	static const struct fab_plan plans[] = {
		{ .spec = "fat-tree:8", .missing = 5, .slow = 7, .swapped = 3 },
		{ .spec = "fat-tree:8", .missing = 5, .slow = 7, .swapped = 6, .rails = 2, .nvidia = true,
		  .speed = "HDR", .aggregation = true },
		{ .spec = "fat-tree:8,3", .missing = 60, .slow = 100, .swapped = 50, .speed = "EDR,HDR" },
		{ .spec = "dragonfly:4,2,2", .missing = 9, .swapped = 4, .speed = "QDR" },
		{ .spec = "torus:4x4x4,2", .missing = 60, .slow = 320, .speed = "XDR" },
	};

	(void)st;
	for (unsigned int k = 0; k < sizeof(plans) / sizeof(plans[0]); k++) {
		for (uint32_t seed = 0; seed < 20; seed++) {
			struct fab_plan plan = plans[k], was = plans[k];
			struct fab_damages d, none;
			struct fab *f, *g;

			plan.seed = seed;
			was.missing = was.slow = was.swapped = 0;
			if (plan.slow == 320)
				plan.slow -= plan.missing;
			f = from_plan(&plan, &d);
			g = from_plan(&was, &none);
			assert_null(none.list);
			assert_int_equal(d.n, plan.missing + plan.slow + plan.swapped);
			assert_int_equal(cables_of(f), cables_of(g) - plan.missing);
			undo(f, g, &d, plan.rails == 2);
			comes_back(f);
			free(d.list);
			fab_free(f);
			fab_free(g);
		}
	}
}

static char *damage_text(const struct fab *f, const struct fab_damages *d)
{
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	for (uint32_t i = 0; i < d->n; i++)
		fab_damage_write(f, &d->list[i], out);
	fclose(out);
	return text;
}

/*
 * The lines name ports as commands do. The same seed gives the same damage, another seed another.
 */
static void damage_lines(void **st)
{
	struct fab_plan plan = { .spec = "fat-tree:6", .missing = 1, .slow = 1, .swapped = 1, .seed = 3 };
	struct fab_damages d, d2;
	struct fab *f = from_plan(&plan, &d), *g = from_plan(&plan, &d2);
	char *a = damage_text(f, &d), *b = damage_text(g, &d2);

	(void)st;
	assert_string_equal(a, b);
	assert_true(matches("^# damage: swapped( S-[0-9a-f]{16}:[0-9]+){4}( \"(leaf|spine)[0-9]+\"){4}\n"
			    "# damage: missing( S-[0-9a-f]{16}:[0-9]+){2} \"leaf[0-9]+\" \"spine[0-9]+\"\n"
			    "# damage: slow( [SH]-[0-9a-f]{16}:[0-9]+){2} (1xEDR|4xFDR) not 4xEDR"
			    "( \"[a-z]+[0-9]+\"){2}\n$", a));
	for (char *s = a; (s = strpbrk(s, "SH")) && s[1] == '-'; s += 3) {
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(s, " "), s);
		assert_int_not_equal(fab_find_port(f, name), FAB_NO_PORT);
	}
	free(b);
	free(d2.list);
	fab_free(g);
	plan.seed = 4;
	g = from_plan(&plan, &d2);
	b = damage_text(g, &d2);
	assert_string_not_equal(a, b);
	free(a);
	free(b);
	free(d.list);
	free(d2.list);
	fab_free(f);
	fab_free(g);
}

static void refused(void **st)
{
	static const struct {
		struct fab_plan plan;
		const char *why;
	} bad[] = {
		{ { .spec = "fat-tree:4", .speed = "FDR10" }, "nvidia" },
		{ { .spec = "fat-tree:4", .speed = "" }, "list" },
		{ { .spec = "fat-tree:4", .speed = "EDR," }, "list" },
		{ { .spec = "fat-tree:4", .speed = "EDR,EDR,EDR,EDR" }, "1 to 3" },
		{ { .spec = "fat-tree:4", .speed = "4x???" }, "list" },
		{ { .spec = "fat-tree:4", .speed = "EDRR" }, "list" },
		{ { .spec = "fat-tree:4", .speed = "DDR", .nvidia = true }, "no switch" },
		{ { .spec = "fat-tree:4", .speed = "2xEDR", .nvidia = true }, "no switch" },
		{ { .spec = "fat-tree:4", .aggregation = true }, "nvidia" },
		{ { .spec = "fat-tree:4", .chassis = true }, "nvidia" },
		{ { .spec = "fat-tree:4", .speed = "FDR", .nvidia = true, .aggregation = true }, "SX6036" },
		{ { .spec = "fat-tree:38", .nvidia = true }, "36 ports" },
		{ { .spec = "fat-tree:4", .nvidia = true, .chassis = true, .speed = "NDR" }, "36 leaves" },
		{ { .spec = "star:4", .nvidia = true, .chassis = true }, "need fat-tree" },
		{ { .spec = "star:4", .rails = 2 }, "need fat-tree" },
		{ { .spec = "fat-tree:4", .rails = 3 }, "3 rails" },
		{ { .spec = "fat-tree:8,3", .rails = 8 }, "of a pod" },
		{ { .spec = "star:4", .missing = 1 }, "missing" },
		{ { .spec = "fat-tree:4", .missing = 4 }, "1 of the missing cables" },
		{ { .spec = "rails:1,4,8,2", .missing = 25 }, "4 of the missing cables" },
		{ { .spec = "star:4", .swapped = 1 }, "swapped" },
		{ { .spec = "star:4", .slow = 5 }, "slow" },
		{ { .spec = "star:4", .slow = 1, .speed = "1xSDR" }, "slow" },
		{ { .spec = "star:4", .slow = FAB_MAX_DAMAGE + 1 }, "1000" },
		{ { .spec = "fat-tree:36,3", .nvidia = true, .speed = "XDR" }, NULL },
		{ { .spec = "ring:20000", .nvidia = true, .aggregation = true }, "49151 LIDs" },
		{ { .spec = "ring:24000", .nvidia = true, .speed = "XDR" }, "ports" },
	};

	(void)st;
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fab_damages d;
		struct fab *f = fab_new();
		char why[1024] = "";

		if (fab_generate_plan(f, &bad[i].plan, &d, why, sizeof(why)) != !bad[i].why)
			fail_msg("case %u, %s: %s", i, bad[i].plan.spec, why);
		if (bad[i].why && !strstr(why, bad[i].why))
			fail_msg("case %u, %s: %s", i, bad[i].plan.spec, why);
		assert_null(d.list);
		fab_free(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products),
		cmocka_unit_test(aggregation),
		cmocka_unit_test(on_rails),
		cmocka_unit_test(speeds),
		cmocka_unit_test(chassis),
		cmocka_unit_test(damage),
		cmocka_unit_test(damage_two_ports),
		cmocka_unit_test(damage_lines),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
