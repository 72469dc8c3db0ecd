// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Traffic in virtual time, by configurations that a generator with a seed chooses: patterns, sizes,
 * lanes, MTUs, rates, HOQLife, congestion control, adaptive routing. What becomes of it in the data path, and
 * the counters of all ports, are as recorded (recorded.h), so what makes it faster changes nothing. The same
 * becomes of it without the data path (traffic/net.h), to the ns.
 */
#include "recorded.h"

#include "fabric/mgmt/mgmt.h"
#include "fabric/traffic/traffic.h"

#define CASES	12u	/* of a fabric */
#define PAIRS	12u	/* of a fabric, with and without the data path */

static struct recorded rec;
static uint64_t rng;

static uint32_t any(uint32_t n)
{
	return fab_random(&rng) % n;
}

/* Packets that wait are discarded soon, and lanes stall. */
static void impatient(struct fab *f, struct fab_traffic_cfg *cfg)
{
	const uint8_t hoq = (uint8_t)any(6), stalls = (uint8_t)any(4), life = (uint8_t)any(12);

	assert_true(fab_routes_make(f, cfg->routing));
	cfg->routing = FAB_ROUTING_LOADED;
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		for (unsigned int num = fab_first_num(n); num <= n->nports; num++) {
			struct ib_port_info *pi = &f->port[fab_port_of(n, num)].pi;

			pi->hoq_life = hoq;
			pi->vl_stall_count = stalls;
			pi->vl_high_limit = (uint8_t)(any(3) * 100);
		}
		if (n->sw != FAB_NONE)
			f->sw[n->sw].si.life_time = life;
	}
}

static void choose(struct fab_traffic_cfg *cfg, struct fab_congestion_cfg *cc,
		   struct fab_adaptive_cfg *adaptive)
{
	static const uint32_t sizes[] = { 1, 100, 2000, 4096, 4097, 16384, 20003, 65536 };

	*adaptive = (struct fab_adaptive_cfg){
		.sls = UINT16_MAX, .any_order = any(2), .gap_ns = FAB_ADAPTIVE_GAP_NS,
	};
	*cfg = (struct fab_traffic_cfg){
		.pattern = (enum fab_pattern)any(FAB_PATTERNS),
		.routing = any(2) ? FAB_ROUTING_MINHOP : FAB_ROUTING_UPDN,
		.size = sizes[any(IB_ARRAY_SIZE(sizes))],
		.messages = 1 + any(8),
		.load = any(2) ? 100 : 1 + any(100),
		.sls = any(2) ? 4 : 0,
		.rate_scale = any(4) ? 1 : 1 + any(1000),
		.hoq_scale = any(3),
		.seed = any(1000),
	};
	for (unsigned int i = 0; i < 4; i++)
		cfg->sl[i] = (uint8_t)any(16);
	fab_congestion_usual(cc);
	cc->sw.threshold = (uint8_t)any(16);
	cc->sw.marking_rate = any(2) ? 0 : (uint16_t)any(10);
	if (!any(4))
		cfg->cc = cc;
	if (!any(4))
		cfg->adaptive = adaptive;
	/* these have steps of their own, and no load */
	if (cfg->pattern >= FAB_PATTERN_ALL_REDUCE_RING)
		cfg->load = 100;
}

static void print_result(FILE *out, const struct fab_traffic_result *r)
{
	const uint64_t *v[] = {
		&r->messages, &r->lost, &r->packets, &r->hops, &r->bytes, &r->ns, &r->p50_ns, &r->p90_ns,
		&r->p99_ns, &r->max_ns, &r->hot.bytes, &r->hot.ns, &r->victim.bytes, &r->victim.ns,
		&r->share_ns, &r->fecns, &r->becns, &r->ccti_max, &r->adaptive, &r->reordered,
	};

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(v); i++)
		fprintf(out, "%llu ", (unsigned long long)*v[i]);
	for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
		fprintf(out, "%llu ", (unsigned long long)r->share[sl]);
}

static void print_outcome(FILE *out, const struct fab *f, const struct fab_traffic_result *r)
{
	print_result(out, r);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		for (unsigned int num = fab_first_num(n); num <= n->nports; num++) {
			const struct fab_extra *x = fab_extra_of(f, fab_port_of(n, num));

			if (x)
				fprintf(out, "%08lx ", crc32(0, (const uint8_t *)&x->ctr, sizeof(x->ctr)));
		}
	}
}

/* The fabric of @spec, and what is sent there. */
static struct fab *make(const char *spec, struct fab_traffic_cfg *cfg, struct fab_congestion_cfg *cc,
			struct fab_adaptive_cfg *adaptive)
{
	static const uint8_t vls[] = { 1, 2, 4, 8, 15 };
	struct fab *f = fab_new();
	char why[1024];

	choose(cfg, cc, adaptive);
	assert_non_null(f);
	assert_true(fab_generate(f, spec, why, sizeof(why)));
	f->vls = vls[any(IB_ARRAY_SIZE(vls))];
	f->mtu = (uint8_t)(any(2) ? 1 + any(5) : f->mtu);
	assert_true(fab_seal(f));
	if (!any(2))
		impatient(f, cfg);
	return f;
}

static void run(const char *spec)
{
	struct fab_congestion_cfg cc;
	struct fab_adaptive_cfg adaptive;
	struct fab_traffic_result r;
	struct fab_traffic_cfg cfg;
	char why[1024], *text;
	struct fab *f = make(spec, &cfg, &cc, &adaptive);
	FILE *out;
	size_t len;

	out = open_memstream(&text, &len);
	assert_non_null(out);
	cfg.whole = true;
	if (fab_traffic_run(f, &cfg, &r, why, sizeof(why))) {
		print_outcome(out, f, &r);
		fab_circle_end(&r.circle);
	} else {
		fputs(why, out);
	}
	fclose(out);
	recorded_case(&rec, fab_pattern_name(cfg.pattern), text, len);
	free(text);
	fab_free(f);
}

static const char *const specs[] = {
	"star:8", "star:24", "fat-tree:4,3", "fat-tree:8", "ring:6,2", "torus:4x4",
	"dragonfly:2,4,2", "fat-tree:12",
};

/* Outcome of case @seed of @spec. @whole: in the data path; written: where it was */
static char *outcome(const char *spec, uint64_t seed, bool *whole)
{
	struct fab_congestion_cfg cc;
	struct fab_adaptive_cfg adaptive;
	struct fab_traffic_result r;
	struct fab_traffic_cfg cfg;
	char why[1024], *text;
	struct fab *f;
	FILE *out;
	size_t len;

	rng = fab_random_state(seed);
	f = make(spec, &cfg, &cc, &adaptive);
	out = open_memstream(&text, &len);
	assert_non_null(out);
	cfg.whole = *whole;
	cfg.cc = NULL;
	cfg.adaptive = NULL;
	if (fab_traffic_run(f, &cfg, &r, why, sizeof(why))) {
		print_result(out, &r);
		fab_circle_end(&r.circle);
		*whole = r.whole;
	} else {
		fputs(why, out);
		*whole = true;
	}
	fclose(out);
	fab_free(f);
	return text;
}

static void test_net(void **st)
{
	unsigned int cases = 0;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(specs); i++) {
		for (unsigned int n = 0; n < PAIRS; n++) {
			const uint64_t seed = 1000 * (i + 1) + n;
			bool whole = true, net = false;
			char *a = outcome(specs[i], seed, &whole), *b = outcome(specs[i], seed, &net);

			if (strcmp(a, b))
				fail_msg("%s, seed %llu: in the data path\n%s\nwithout it\n%s", specs[i],
					 (unsigned long long)seed, a, b);
			cases += !net;
			free(a);
			free(b);
		}
	}
	print_message("%u of %u cases without the data path\n", cases,
		      (unsigned int)IB_ARRAY_SIZE(specs) * PAIRS);
	/* in others packets are discarded, or there is no such traffic */
	assert_true(cases > IB_ARRAY_SIZE(specs) * PAIRS / 2);
}

static void test_recorded(void **st)
{
	(void)st;
	recorded_begin(&rec, "same");
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(specs); i++) {
		rng = fab_random_state(i);
		recorded_section(&rec, specs[i]);
		for (unsigned int n = 0; n < CASES; n++)
			run(specs[i]);
	}
	recorded_end(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_recorded), cmocka_unit_test(test_net) };

	return cmocka_run_group_tests_name("traffic is the same", tests, NULL, NULL);
}
