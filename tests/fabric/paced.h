/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fabric whose wires have rates, in virtual time: hosts without machines send and receive, and
 * time jumps to the next deadline. Nothing is late, so results are exact.
 */
#ifndef TESTS_FABRIC_PACED_H
#define TESTS_FABRIC_PACED_H

#include "subnet.h"

#include "fabric/data/data_priv.h"
#include "fabric/fault/fault.h"
#include "ib/rate.h"

#define SIMS	8u
#define FLOWS	4u
#define VLS	8u

/**
 * struct flow - packets of @len bytes to @dlid by @vl; @left: their number, UINT32_MAX: without end
 */
struct flow {
	uint16_t dlid;
	uint8_t vl;
	uint32_t len;
	uint32_t left;
};

/**
 * struct sim - a host
 * @flow: [@flows] its flows, which send in turn from @turn on
 * @bytes: received on the wire by lane; @packets: received; @last_ns: time of the last one
 * @stalled: it accepts none
 */
struct sim {
	struct fab_hport *h;
	uint32_t node;
	struct flow flow[FLOWS];
	unsigned int flows, turn;
	uint64_t bytes[VLS];
	uint64_t packets, last_ns;
	bool stalled;
};

static struct fab_data *d;
static struct sim sim[SIMS];
static uint8_t sim_op = IB_OP_UC_SEND_ONLY;	/* of all packets */

static inline uint64_t sim_clock(void *arg)
{
	(void)arg;
	return now;
}

static inline bool sim_room(void *ctx, unsigned int vl, unsigned int n, uint32_t len)
{
	const struct sim *s = ctx;

	(void)n;
	(void)len;
	return vl == IB_MGMT_VL || !s->stalled;
}

static inline void sim_rx(void *ctx, const struct ohca_link_frame *f, const struct ib_view *view)
{
	struct sim *s = ctx;

	assert_null(view);
	if (f->vl == IB_MGMT_VL)
		return;
	s->bytes[f->vl] += f->len + IB_VCRC_LEN;
	s->packets++;
	s->last_ns = now;
}

static inline void sim_link(void *ctx, const struct fab_hport_rate *rate)
{
	(void)ctx;
	(void)rate;
}

static const struct fab_hport_ops sim_ops = { .room = sim_room, .rx = sim_rx, .link = sim_link };

static inline uint32_t port_of_host(uint32_t node)
{
	return f->port[fab_port_of(&f->node[node], 1)].peer;
}

/* Sends one packet, if the flow has one and the wire is free. */
static inline bool sim_send(struct sim *s, struct flow *w)
{
	uint8_t *b = w->left ? fab_hport_begin(s->h, w->vl, w->len) : NULL, *p;

	if (!b)
		return false;
	p = ib_build_lrh(b, w->vl, w->vl, IB_LNH_IBA_LOCAL, w->dlid, (uint16_t)(w->len / 4),
			 LID(s->node));
	p = ib_build_bth(p, sim_op, 0, 0, IB_DEFAULT_PKEY, 7, false, 0);
	memset(p, 1, w->len - (size_t)(p - b));
	fab_hport_commit(s->h, w->vl, w->len, NULL);
	if (w->left != UINT32_MAX)
		w->left--;
	return true;
}

static inline bool sim_turn(struct sim *s)
{
	for (unsigned int i = 0; i < s->flows; i++) {
		const unsigned int k = (s->turn + i) % s->flows;

		if (!sim_send(s, &s->flow[k]))
			continue;
		s->turn = k + 1;
		return true;
	}
	return false;
}

/*
 * Runs all that can happen now. A wire may be busy in a turn before a round, so there are two more
 * turns.
 */
static inline void run_now(void)
{
	for (unsigned int still = 0; still < 2;) {
		bool moved = false;

		fab_data_refresh(d);
		for (unsigned int i = 0; i < SIMS; i++)
			moved |= sim[i].h && sim_turn(&sim[i]);
		moved |= fab_data_round(d);
		still = moved ? 0 : still + 1;
	}
}

/* Runs until @end_ns. */
static inline void run_until(uint64_t end_ns)
{
	for (run_now(); now < end_ns; run_now()) {
		uint64_t next;

		fab_mgmt_timer(&m, now);
		if (d->epoch != m.epoch)
			run_now();
		next = fab_data_timer(d);
		assert_int_not_equal(next, 0);
		if (m.deadline_ns < UINT64_MAX && m.deadline_ns > now && m.deadline_ns - now < next)
			next = m.deadline_ns - now;
		now += next < end_ns - now ? next : end_ns - now;
	}
}

/* Sets the rate of both ends of the link at port @p. */
static inline void set_rate(uint32_t p, uint8_t width, uint8_t speed, uint8_t ext)
{
	const uint32_t end[2] = { p, f->port[p].peer };

	for (unsigned int i = 0; i < 2; i++) {
		f->port[end[i]].pi.width_active = width;
		f->port[end[i]].pi.speed_active = speed;
		f->port[end[i]].pi.speed_ext_active = ext;
		fab_changed(&m, end[i]);
	}
}

static inline void set_rates(uint8_t width, uint8_t speed, uint8_t ext)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].peer > p && f->port[p].peer != FAB_NO_PORT)
			set_rate(p, width, speed, ext);
}

/* Gives sim[i] the place of host @node. */
static inline void sim_place(unsigned int i, uint32_t node)
{
	const uint32_t p = port_of_host(node);
	struct way *w = calloc(f->nodes, sizeof(*w));
	struct ohca_link_cfg cfg;

	assert_non_null(w);
	ohca_link_cfg_init(&cfg);
	cfg.port_guid = f->port[fab_port_of(&f->node[node], 1)].guid;
	cfg.vl_cap = VLS;
	sim[i].node = node;
	sim[i].h = fab_hport_attach(d, p, &cfg, &sim_ops, &sim[i]);
	assert_non_null(sim[i].h);
	fab_hport_train(sim[i].h, true);
	run_until(now);
	ways(HOST, w);
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++)
		set_state(w[f->port[p].node].route, fab_port_num(f, p), state, IB_PHYS_NO_CHANGE);
	free(w);
	run_until(now);
}

static inline void begin_paced(const char *spec, unsigned int rate_scale)
{
	const struct fab_data_cfg cfg = { .hoq_scale = 1, .rate_scale = rate_scale,
					  .clock = sim_clock };

	begin(from_spec(spec));
	memset(sim, 0, sizeof(sim));
	now = 1000000000;
	subnet_up();
	d = fab_data_new(&m, &cfg);
	assert_non_null(d);
}

static inline void end_paced(void)
{
	fab_data_free(d);
	fab_free(f);
}

static inline void add_flow(unsigned int from, uint32_t to_node, uint8_t vl, uint32_t len,
			    uint32_t packets)
{
	struct sim *s = &sim[from];

	assert_true(s->flows < FLOWS);
	s->flow[s->flows++] = (struct flow){ LID(to_node), vl, len, packets };
}

/* Return: counters of port @p, up to date. */
static inline const struct ohca_port_counters *counters_of(uint32_t p)
{
	struct fab_extra *x = fab_extra(f, p);

	assert_non_null(x);
	m.wires->count(m.wires_ctx, p);
	return &x->ctr;
}

/* Clears all counts of received packets. */
static inline void count_anew(void)
{
	for (unsigned int i = 0; i < SIMS; i++) {
		memset(sim[i].bytes, 0, sizeof(sim[i].bytes));
		sim[i].packets = 0;
	}
}

static inline uint64_t all_bytes(const struct sim *s)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < VLS; i++)
		n += s->bytes[i];
	return n;
}

#endif
