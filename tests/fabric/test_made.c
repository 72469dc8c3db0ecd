// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fabrics of many SPECs, names, speeds and kinds of damage, in each format: the fabric, or the
 * reason of its refusal, is as recorded (recorded.h).
 */
#include "recorded.h"

#include "fabric/graph/names.h"

static const char * const specs[] = {
	"star:1", "star:5", "fat-tree:2", "fat-tree:4", "fat-tree:6", "fat-tree:2,3",
	"fat-tree:4,3",
	"fat-tree:6,3", "ring:1", "ring:2", "ring:5,2", "ring:3,0", "torus:3", "torus:2x2,1",
	"torus:3x2x4,2",
	"torus:1x3x2,0", "torus:2x1x3", "dragonfly:2,1,1", "dragonfly:3,2,1", "dragonfly:2,0,2",
	"dragonfly+:2,2,1,1", "dragonfly+:3,2,2,2", "dragonfly+:1,2,3,0", "rails:1,4,2",
	"rails:2,4,2",
	"rails:1,4,8,2", "rails:2,3,3", "random:1,6", "random:7,9,3,2", "random:0,5,2,0",
	"random:3,12,4",
	/* each is wrong in some way */
	"", "star", "star:", "star:0", "star:1,1", "star:1x", "star:-1", "star: 1", "star:255",
	"star:65537",
	"fat-tree:1", "fat-tree:3", "fat-tree:4,1", "fat-tree:4,4", "fat-tree:4,2,1",
	"fat-tree:256",
	"ring:0", "ring:1,65537", "torus:2x2x2x2", "torus:2,2,2", "torus:2x2,1,1", "torus:2x",
	"torus:0x1",
	"torus:2x2x", "dragonfly:2,1", "dragonfly:2,1,1,1", "dragonfly+:2,0,1,1",
	"dragonfly+:2,1,0,1",
	"rails:1,4,2,3", "rails:1,4,2,0", "rails:3,4,2", "rails:1,128,1", "random:1",
	"random:1,4,1",
	"random:1,0", "random:18446744073709551615,3,2", "ring:24576", "ring:49152,0",
	"torus:37x37x37",
	"square:3", "stars:3", "sta:3",
};

static const struct fab_plan plans[] = {
	{ 0 },
	{ .speed = "2xHDR,NDR" },
	{ .speed = "1xSDR,12xDDR,8xXDR" },
	{ .nvidia = true, .speed = "QDR" },
	{ .nvidia = true, .speed = "2xNDR,4xNDR", .aggregation = true },
	{ .nvidia = true, .speed = "EDR,HDR", .chassis = true },
	{ .nvidia = true, .speed = "FDR10", .rails = 2 },
	{ .missing = 1, .slow = 1, .swapped = 1, .seed = 1 },
	{ .missing = 2, .slow = 3, .seed = 2, .speed = "4xQDR,2xEDR" },
	{ .missing = 3, .swapped = 1, .seed = 3, .nvidia = true, .speed = "HDR",
	  .aggregation = true },
	{ .slow = 4, .swapped = 2, .seed = 0xffffffff, .rails = 2, .speed = "XDR,DDR,FDR" },
	{ .missing = 1000, .seed = 5 },
	{ .missing = 0, .swapped = 1001 },
};

static void write_text(const struct fab *f, const struct fab_damages *d, FILE *out)
{
	for (uint32_t i = 0; i < d->n; i++)
		fab_damage_write(f, &d->list[i], out);
	for (unsigned int k = 0; k < FAB_FORMATS; k++)
		assert_true(fab_topology_write_as(f, (enum fab_format)k, out));
	/* fields that the texts do not contain */
	for (uint32_t i = 0; i < f->nodes; i++)
		fprintf(out, "%u ", f->node[i].nports);
	for (uint32_t p = 1; p < f->ports; p++)
		fprintf(out, "%u.%u.%u.%u ", f->port[p].pi.width_supported,
			f->port[p].pi.speed_supported, f->port[p].pi.speed_ext_supported,
			f->port[p].pi.vl_cap);
}

static void made(void **st)
{
	struct recorded r;

	(void)st;
	recorded_begin(&r, "made");
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(specs); i++) {
		char section[64];

		snprintf(section, sizeof(section), "%u", i);
		recorded_section(&r, section);
		for (unsigned int k = 0; k < IB_ARRAY_SIZE(plans); k++) {
			struct fab_plan plan = plans[k];
			struct fab_damages d;
			struct fab *f = fab_new();
			char *text, why[1024] = "", what[128];
			size_t len;
			FILE *out = open_memstream(&text, &len);

			assert_non_null(f);
			assert_non_null(out);
			plan.spec = specs[i];
			if (fab_generate_plan(f, &plan, &d, why, sizeof(why))) {
				assert_true(fab_seal(f));
				write_text(f, &d, out);
			}
			fputs(why, out);
			fclose(out);
			snprintf(what, sizeof(what), "%s, plan %u", specs[i], k);
			recorded_case(&r, what, text, len);
			free(text);
			free(d.list);
			fab_free(f);
		}
	}
	recorded_end(&r);
}

/* Names that are nearly those of others: each byte omitted or changed. */
static void names_like(struct recorded *r, const struct fab *f, const char *name)
{
	for (size_t i = 0; i <= strlen(name); i++) {
		for (unsigned int k = 0; k < 4; k++) {
			static const char other[] = { '0', 'x', 'F' };
			char now[160], text[512], near[256];

			snprintf(now, sizeof(now), "%.*s%s", (int)i, name,
				 name + i + (k == 3 && name[i]));
			if (k < 3 && now[i])
				now[i] = other[k];
			fab_names_near(f, now, near, sizeof(near));
			snprintf(text, sizeof(text), "%u %u %u %s", fab_find_node(f, now),
				 fab_find_port(f, now), fab_find_port_guid(f, now), near);
			recorded_case(r, now, text, strlen(text));
		}
	}
}

static void names(void **st)
{
	static const char * const all[] = {
		"host12", "switch1:3", "0x5254010000000301", "5254020000000100",
		"S-5254020000000100:1",
		"H-5254010000000200", "SWITCH3", "0x123456789abcdef01", "5254010000000C01", "R-1:1",
		"",
	};
	struct recorded r;
	struct fab *f = from_spec("ring:4,3");

	(void)st;
	recorded_begin(&r, "names");
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(all); i++) {
		char section[64];

		snprintf(section, sizeof(section), "%u", i);
		recorded_section(&r, section);
		names_like(&r, f, all[i]);
	}
	recorded_end(&r);
	fab_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests_name("fabrics that are made", tests, NULL, NULL);
}
