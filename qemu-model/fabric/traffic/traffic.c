// SPDX-License-Identifier: GPL-2.0-or-later
/* The simulation of messages between hosts, and its results; see traffic.h. */
#include "traffic_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/graph/wire.h"
#include "fabric/mgmt/adaptive.h"
#include "ib/rate.h"
#include "net.h"
#include "routes.h"

#define BEGIN_NS	1000000000u
#define MESSAGES	16u
#define LONGEST_LIFE	19u	/* longest HOQLife and LifeTimeValue that is not infinite */
#define STALL		10u	/* times HOQLife: longer than a stall by VLStallCount */

static uint64_t virtual_clock(void *arg)
{
	const struct fab_traffic *t = arg;

	return t->now_ns;
}

/* There is no subnet manager. */
static bool no_manager(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static uint64_t dropped(const struct fab_traffic *t)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < FAB_DROPS; i++)
		n += fab_data_counts(t->d)->drop[i];
	return n;
}

/* Do all that can be done at the current time. Return: whether anything was. */
static bool run_instant(struct fab_traffic *t)
{
	bool moved = true, any = false;

	while (moved) {
		fab_data_refresh(t->d);
		moved = traffic_hosts_turn(t);
		moved |= fab_data_round(t->d);
		any |= moved;
	}
	return any;
}

/*
 * A packet that waits for longer than this waits for ever, unless a fault ends: all limits are
 * shorter.
 */
static uint64_t patience(const struct fab_traffic *t)
{
	const uint64_t scale = (uint64_t)t->cfg.rate_scale * (t->cfg.hoq_scale ? t->cfg.hoq_scale : 1);
	const uint64_t limit = STALL * ib_time_ns(LONGEST_LIFE);

	return scale < UINT64_MAX / limit ? scale * limit : UINT64_MAX;
}

/* Whether a fault that makes packets wait may end, or another fault may begin. */
static bool may_resume(const struct fab_traffic *t)
{
	return t->has_faults || t->m->resumes.first;
}

static void run_all(struct fab_traffic *t)
{
	const uint64_t patience_ns = patience(t);
	uint64_t moved_ns = t->now_ns;

	for (run_instant(t); t->sent > t->came + dropped(t) || t->due.first || t->refused || t->has_faults;) {
		const uint64_t host = fab_timers_due(&t->due), data = fab_data_timer(t->d);
		uint64_t next = host > t->now_ns && host != UINT64_MAX ? host - t->now_ns : data;

		next = data < next ? data : next;
		if (t->fault_ns != UINT64_MAX && t->fault_ns - t->now_ns < next)
			next = t->fault_ns - t->now_ns;
		/* nothing will ever happen again: the rest is lost */
		if (next == UINT64_MAX || (host == UINT64_MAX && !may_resume(t) &&
					   t->now_ns - moved_ns > patience_ns))
			return;
		t->now_ns += next;
		if (t->fault_ns <= t->now_ns)
			traffic_faults_turn(t);
		if (run_instant(t))
			moved_ns = t->now_ns;
	}
}

static int by_ns(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The time within which @percent of the complete messages arrived; 0: there are none. */
static uint64_t percentile(const struct fab_traffic *t, uint64_t percent)
{
	return t->done ? t->took[(t->done * percent + 99) / 100 - 1] : 0;
}

static struct fab_traffic_flow second_half(const struct traffic_flow *flow)
{
	return (struct fab_traffic_flow){ flow->bytes - flow->half, flow->last_ns - flow->half_ns };
}

static void judge(struct fab_traffic *t, struct fab_traffic_result *r)
{
	const uint64_t senders = t->hosts - traffic_is_incast(t);

	qsort(t->took, t->done, sizeof(*t->took), by_ns);
	*r = (struct fab_traffic_result){
		.hosts = t->hosts,
		.messages = senders * t->cfg.messages,
		.lost = senders * t->cfg.messages - t->done,
		.packets = t->came - t->becns - t->acks,
		.hops = t->hops,
		.bytes = t->bytes,
		.bus_bytes = 2ull * t->reduces * (t->hosts - 1) * t->cfg.size / t->hosts,
		.ns = t->last_ns ? t->last_ns - BEGIN_NS : 0,
		.p50_ns = percentile(t, 50),
		.p90_ns = percentile(t, 90),
		.p99_ns = percentile(t, 99),
		.max_ns = percentile(t, 100),
		.hot = second_half(&t->hot),
		.victim = second_half(&t->victim),
		.share_ns = t->share_ns ? t->share_ns - BEGIN_NS : 0,
		.fecns = fab_data_counts(t->d)->fecns,
		.becns = t->becns,
		.ccti_max = t->ccti_max,
		.adaptive = fab_data_counts(t->d)->adaptive,
		.reordered = t->reordered,
	};
	memcpy(r->share, t->share, sizeof(r->share));
}

uint16_t traffic_service_levels(const struct fab_traffic_cfg *cfg)
{
	uint16_t sls = (uint16_t)(1u << cfg->sl[0]);

	for (unsigned int i = 1; i < cfg->sls; i++)
		sls |= (uint16_t)(1u << cfg->sl[i]);
	return sls;
}

/* Return: NULL, or the error. */
static const char *all_adaptive(struct fab_traffic *t)
{
	int lid = 0;

	if (!fab_adaptive_on(t->m, FAB_NONE, t->cfg.adaptive))
		return "out of memory";
	do
		lid = fab_adaptive_fill(t->m, (uint32_t)lid);
	while (lid > 0);
	if (lid == FAB_ADAPTIVE_CIRCLE)
		return "packets on paths of the same length might wait for each other for ever: "
		       "--adaptive is for trees";
	return lid ? "out of memory" : NULL;
}

/*
 * Whether times may overflow: if all messages use the slowest wire one after another. Links have
 * trained.
 */
static bool is_too_long(const struct fab_traffic *t)
{
	const double message = t->cfg.size + (t->cfg.size / t->mtu + 1.0) * (traffic_len(t, 3) + IB_VCRC_LEN);
	uint64_t byte_fs = 0;
	double ns;

	for (uint32_t p = 1; p < t->f->ports; p++) {
		const uint64_t fs = fab_pace_byte_fs(t->d, p);

		byte_fs = fs > byte_fs ? fs : byte_fs;
	}
	ns = message * t->hosts * t->cfg.messages / FAB_FS_PER_NS * (double)byte_fs;
	/* messages of a host begin at most at twice the mean time */
	return ns * 2 * 100 / t->cfg.load + (double)patience(t) > (double)INT64_MAX;
}

/* @circle: circle of the routes. Return: NULL, or the error. */
static const char *prepare_all(struct fab_traffic *t, struct fab_circle *circle)
{
	const struct fab_data_cfg data = {
		.hoq_scale = t->cfg.hoq_scale,
		.rate_scale = t->cfg.rate_scale,
		.clock = virtual_clock,
		.arg = t,
		.headers = true,
	};
	const char *wrong = NULL;
	uint64_t n;

	fab_mgmt_init(t->m, t->f, no_manager, NULL);
	fab_mgmt_seed(t->m, t->cfg.seed);
	if (t->cfg.routing != FAB_ROUTING_LOADED && !fab_routes_make(t->f, t->cfg.routing))
		return "out of memory, or there are more hosts than LIDs";
	if (t->cfg.adaptive)
		wrong = all_adaptive(t);
	if (wrong)
		return wrong;
	if (!traffic_congestion_set(t))
		return "out of memory";
	if (!fab_circle_find(t->f, traffic_service_levels(&t->cfg), t->cfg.paths, circle))
		return "out of memory";
	t->d = fab_data_new(t->m, &data);
	if (!t->d || !traffic_hosts_make(t))
		return "out of memory";
	if (t->hosts < 2)
		return "there are no two hosts with LIDs at switches";
	if (t->cfg.transport == FAB_TRANSPORT_UD && t->cfg.size > t->mtu)
		return "a datagram must not be longer than the MTU: use a smaller --size";
	traffic_choose_victim(t);
	if (traffic_is_reduce(t))
		wrong = traffic_reduce_plan(t);
	if (wrong)
		return wrong;
	if (!t->cfg.messages)
		t->cfg.messages = t->cfg.pattern == FAB_PATTERN_ALL_TO_ALL ? t->hosts - 1 : MESSAGES;
	n = (uint64_t)t->hosts * t->cfg.messages;
	if (n > FAB_TRAFFIC_MESSAGES)
		return "more than 16,777,216 messages";
	t->msg = calloc(n, sizeof(*t->msg));
	t->took = malloc(n * sizeof(*t->took));
	if (!t->msg || !t->took || !traffic_choose_fixed(t))
		return "out of memory";
	if (t->cfg.watcher)
		wrong = traffic_flows_make(t);
	if (wrong)
		return wrong;
	/* links train in one step, then they can become Active */
	run_instant(t);
	fab_routes_active(t->f);
	t->m->epoch++;
	return is_too_long(t) ? "it may take more than 292 years by its clock: use a smaller --rate-scale or "
				"--hoq-scale, or fewer bytes" : NULL;
}

/* Run without the data path. Return: false: not possible; nothing has changed. */
static bool run_net(struct fab_traffic *t)
{
	const size_t hosts = t->hosts * sizeof(*t->host);
	const struct fab_traffic was = *t;
	struct traffic_host *before = malloc(hosts);
	bool ok = false;

	t->net = before ? traffic_net_new(t) : NULL;
	if (t->net) {
		memcpy(before, t->host, hosts);
		traffic_hosts_begin(t);
		ok = traffic_net_run(t->net);
		traffic_net_free(t->net);
		t->net = NULL;
		if (!ok) {
			*t = was;
			memcpy(t->host, before, hosts);
			memset(t->msg, 0, (size_t)t->hosts * t->cfg.messages * sizeof(*t->msg));
		}
	}
	free(before);
	return ok;
}

bool fab_traffic_run(struct fab *f, const struct fab_traffic_cfg *cfg,
		     struct fab_traffic_result *r, char *why, size_t len)
{
	struct fab_traffic t = {
		.f = f,
		.m = calloc(1, sizeof(*t.m)),
		.cfg = *cfg,
		.now_ns = BEGIN_NS,
		.rng = fab_random_state(cfg->seed),
		.mtu = ib_mtu_bytes(f->mtu),
	};
	struct fab_circle circle = { 0 };
	const char *wrong = t.m ? prepare_all(&t, &circle) : "out of memory";

	const bool ok = !wrong && traffic_faults_begin(&t, why, len);

	if (ok) {
		const bool whole = !run_net(&t);

		if (whole) {
			traffic_hosts_begin(&t);
			run_all(&t);
			t.hops = fab_data_counts(t.d)->hops;
		}
		judge(&t, r);
		r->whole = whole;
		r->failed = traffic_faults_end(&t);
		r->circle = circle;
		if (cfg->watcher)
			traffic_flows_end(&t);
	} else {
		if (wrong)
			snprintf(why, len, "%s", wrong);
		fab_circle_end(&circle);
	}
	fab_data_free(t.d);
	if (t.m) {
		fab_script_stop(t.m);
		fab_mad_forget(t.m);
	}
	free(t.m);
	free(t.host);
	free(t.msg);
	free(t.took);
	traffic_flows_free(&t);
	return ok;
}
