// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Traffic in virtual time. A generator with a seed chooses the configurations: patterns, sizes,
 * lanes, MTUs, rates, HOQLife, congestion control, adaptive routing. The results in the data path,
 * and the counters of all ports, are as recorded (recorded.h), so optimizations change nothing.
 * Without the data path (traffic/net.h) the results are the same, to the ns, in these fabrics and
 * in small fabrics of any shape, with any rates of cables, any tables and limits of ports, and
 * errors in LinearForwardingTables.
 *
 * test_same [CASES SEED] number of small fabrics, and the seed of the first
 */
#include "recorded.h"

#include "fabric/mgmt/mgmt.h"
#include "fabric/traffic/traffic.h"

#define CASES	12u	/* for each fabric */
#define PAIRS	12u	/* for each fabric, with and without the data path */
#define ODD	120u	/* small fabrics */

static struct recorded rec;
static uint64_t rng;
static unsigned int odd = ODD;
static uint64_t odd_seed = 1;

static uint32_t any(uint32_t n)
{
	return fab_random(&rng) % n;
}

/* Waiting packets are discarded soon, and lanes stall. */
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
	/* these patterns have steps of their own, and ignore the load */
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

/* The fabric of @spec, and its traffic. */
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

/*
 * The result of @cfg in @f, which is freed. @whole: use the data path; on return: whether it was
 * used
 */
static char *outcome(struct fab *f, struct fab_traffic_cfg *cfg, bool *whole)
{
	struct fab_traffic_result r;
	char why[1024], *text;
	FILE *out;
	size_t len;

	out = open_memstream(&text, &len);
	assert_non_null(out);
	cfg->whole = *whole;
	cfg->cc = NULL;
	cfg->adaptive = NULL;
	if (fab_traffic_run(f, cfg, &r, why, sizeof(why))) {
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

/* A case: a fabric of @spec, and its traffic. */
typedef struct fab *(*make_fn)(const char *spec, struct fab_traffic_cfg *cfg);

static struct fab *usual(const char *spec, struct fab_traffic_cfg *cfg)
{
	struct fab_congestion_cfg cc;
	struct fab_adaptive_cfg adaptive;

	return make(spec, cfg, &cc, &adaptive);
}

/* Case @seed has the same result with and without the data path. Return: whether it ran without. */
static bool is_same(make_fn fabric, const char *spec, uint64_t seed)
{
	bool whole = true, net = false;
	struct fab_traffic_cfg cfg;
	char *a, *b;

	rng = fab_random_state(seed);
	a = outcome(fabric(spec, &cfg), &cfg, &whole);
	rng = fab_random_state(seed);
	b = outcome(fabric(spec, &cfg), &cfg, &net);
	if (strcmp(a, b))
		fail_msg("%s, seed %llu: in the data path\n%s\nwithout it\n%s", spec,
			 (unsigned long long)seed, a, b);
	free(a);
	free(b);
	return !net;
}

static void test_net(void **st)
{
	unsigned int cases = 0;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(specs); i++)
		for (unsigned int n = 0; n < PAIRS; n++)
			cases += is_same(usual, specs[i], 1000 * (i + 1) + n);
	print_message("%u of %u cases without the data path\n", cases,
		      (unsigned int)IB_ARRAY_SIZE(specs) * PAIRS);
	/* the other cases discard packets, or their traffic is impossible */
	assert_true(cases > IB_ARRAY_SIZE(specs) * PAIRS / 2);
}

/* ---- small fabrics of any shape ------------------------------------------------- */

static struct fab *any_shape(void)
{
	struct fab *f = fab_new();
	char spec[64], why[1024];

	assert_non_null(f);
	switch (any(6)) {
	case 0:
		snprintf(spec, sizeof(spec), "star:%u", 2 + any(20));
		break;
	case 1:
		snprintf(spec, sizeof(spec), "fat-tree:%u", 2 * (1 + any(3)));
		break;
	case 2:
		snprintf(spec, sizeof(spec), "ring:%u,%u", 3 + any(4), 1 + any(3));
		break;
	case 3:
		snprintf(spec, sizeof(spec), "torus:%ux3", 3 + any(2));
		break;
	case 4:
		/* with enough ports of its switches for a tree */
		snprintf(spec, sizeof(spec), "random:%u,%u,%u,%u", any(1000), 3 + any(6), 3 + any(3),
			 1 + any(3));
		break;
	default:
		snprintf(spec, sizeof(spec), "star:%u", 2 + any(4));
		break;
	}
	if (!fab_generate(f, spec, why, sizeof(why)))
		fail_msg("%s: %s", spec, why);
	return f;
}

/* Any rates of cables; at some the link is down. */
static void any_rates(struct fab *f)
{
	static const uint8_t widths[] = { 1, 2, 3, 8, 11, 17 };
	static const uint8_t exts[] = { 0, 0, 0, 1, 3, 7, 15, 47 };
	static const uint8_t speeds[] = { 1, 3, 7, 7, 7, 7, 7, 7 };

	for (uint32_t i = 1; i < f->ports; i++) {
		struct fab_port *p = &f->port[i];
		const unsigned int speed = any(IB_ARRAY_SIZE(speeds));

		p->pi.width_supported = widths[any(IB_ARRAY_SIZE(widths))];
		p->pi.speed_supported = speeds[speed];
		p->pi.speed_ext_supported = exts[speed];
		if (!any(8) || p->peer == FAB_NO_PORT)
			continue;
		f->port[p->peer].pi.width_supported = p->pi.width_supported;
		f->port[p->peer].pi.speed_supported = p->pi.speed_supported;
		f->port[p->peer].pi.speed_ext_supported = p->pi.speed_ext_supported;
	}
}

/* Any lanes of SLs, none for some; any weights of arbiters. */
static void any_lanes(struct fab *f, struct fab_port *p)
{
	struct ib_sl2vl map;
	struct ib_vlarb arb;

	memset(&arb, 0, sizeof(arb));
	ib_vlarb_init(&arb, FAB_VLARB_CAP, f->vls);
	for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
		map.vl[sl] = (uint8_t)(any(200) ? any(f->vls) : IB_SL2VL_DROP);
	for (unsigned int block = 1; block <= 4; block++) {
		struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { 0 } };

		for (unsigned int i = any(IB_VLARB_BLOCK); i; i--)
			e[i] = (struct ib_vlarb_entry){ (uint8_t)any(f->vls), (uint8_t)any(any(3) ? 4 : 256) };
		/* most lanes have some weight */
		for (unsigned int i = 0; block == 1 && any(50) && i < f->vls; i++)
			e[i + 1] = (struct ib_vlarb_entry){ (uint8_t)i, (uint8_t)(1 + any(4)) };
		if (any(2))
			assert_int_equal(ib_vlarb_set_block(&arb, block, e), 0);
	}
	p->sl2vl = fab_pool_get(&f->sl2vl, &map);
	p->vlarb = fab_pool_get(&f->vlarb, &arb);
	assert_true(p->sl2vl != FAB_NONE && p->vlarb != FAB_NONE);
	p->pi.vl_high_limit = (uint8_t)any(any(2) ? 4 : 256);
}

/* Limits of some ports differ. */
static void any_port(struct fab_port *p)
{
	if (!any(40))
		p->pi.mtu = (uint8_t)(1 + any(5));
	if (!any(40))
		p->pi.op_vls = (uint8_t)(1 + any(5));
	if (!any(60))
		p->pi.state = any(2) ? IB_PS_ARMED : IB_PS_DOWN;
}

static void any_limits(struct fab *f, const struct fab_node *n, uint8_t hoq)
{
	for (unsigned int num = 0; num <= n->nports; num++) {
		struct ib_port_info *pi = &f->port[fab_port_of(n, num)].pi;

		pi->hoq_life = any(4) ? hoq : (uint8_t)any(21);
		pi->vl_stall_count = (uint8_t)any(8);
	}
	f->sw[n->sw].si.life_time = (uint8_t)(any(4) ? 20 : any(20));
}

static struct fab *strange(const char *spec, struct fab_traffic_cfg *cfg)
{
	static const uint8_t vls[] = { 1, 2, 4, 8, 15 };
	const bool rates = any(2), lanes = any(2), ports = !any(4), limits = any(2), ways = !any(4);
	const uint8_t hoq = (uint8_t)any(21);
	struct fab_congestion_cfg cc;
	struct fab_adaptive_cfg adaptive;
	struct fab *f = any_shape();

	(void)spec;
	choose(cfg, &cc, &adaptive);
	if (cfg->pattern < FAB_PATTERN_ALL_REDUCE_RING)
		cfg->size = 1 + any(any(2) ? 300 : 20000);
	cfg->messages = 1 + any(12);
	cfg->transport = (enum fab_transport)any(FAB_TRANSPORTS);
	if (cfg->transport == FAB_TRANSPORT_UD && cfg->pattern < FAB_PATTERN_ALL_REDUCE_RING)
		cfg->size = 1 + any(256);
	/* a deadlock lasts longer with slower wires */
	cfg->rate_scale = 1 + any(20);
	cfg->hoq_scale = any(3);
	if (rates)
		any_rates(f);
	f->vls = vls[any(IB_ARRAY_SIZE(vls))];
	f->mtu = (uint8_t)(any(2) ? 1 + any(5) : f->mtu);
	assert_true(fab_seal(f));
	assert_true(fab_routes_make(f, cfg->routing));
	cfg->routing = FAB_ROUTING_LOADED;
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		for (unsigned int num = fab_first_num(n); num <= n->nports; num++) {
			if (lanes)
				any_lanes(f, &f->port[fab_port_of(n, num)]);
			if (ports)
				any_port(&f->port[fab_port_of(n, num)]);
		}
		if (n->sw == FAB_NONE)
			continue;
		if (limits)
			any_limits(f, n, hoq);
		if (ways && !any(4))
			f->sw[n->sw].lft[1 + any(20)] = (uint8_t)any(n->nports + 3u);
	}
	return f;
}

static void test_odd(void **st)
{
	unsigned int cases = 0;

	(void)st;
	for (unsigned int n = 0; n < odd; n++)
		cases += is_same(strange, "a small fabric", odd_seed + n);
	print_message("%u of %u cases without the data path\n", cases, odd);
	assert_true(cases > odd / 3);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_odd), cmocka_unit_test(test_net), cmocka_unit_test(test_recorded),
	};

	if (argc == 3) {
		odd = (unsigned int)strtoul(argv[1], NULL, 10);
		odd_seed = strtoull(argv[2], NULL, 10);
	}
	return cmocka_run_group_tests_name("traffic is the same", tests, NULL, NULL);
}
