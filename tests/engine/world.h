/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Three engines at a switch of a fabric, all in one thread: connected by real links, or hosted by
 * the fabric's process. A fourth end port is the subnet manager, which uses directed routes over
 * the wire. Time passes only in pass().
 */
#ifndef OHCA_TEST_WORLD_H
#define OHCA_TEST_WORLD_H

#include "engine/base/state.h"
#include "ib/rate.h"
#include "fabric/hca/hca.h"
#include "fabric/net.h"
#include "rig.h"

#ifndef HOSTS
#define HOSTS	3u
#endif
#define SM_LID	2u
#define LID(i)	(uint16_t)(3 + (i))
#define MR_LEN	(2u << 20)

/**
 * struct node - an engine and what it needs for traffic; a second port is at the switch's next port
 */
struct node {
	struct host *h;
	struct host_seat seat;
	struct fab_hca *hca;	/* hosted: the HCA that has its engine */
	struct ohca_page *page;	/* with a front: the page of both sides */
	struct ohca_doorbells bells;
	unsigned int told, attns;	/* notifications of the front: of a vector; of a message */
	struct world *w;
	struct ep ep;		/* its end of the link; hosted: only @port */
	bool up, moved;
	struct host_cq cq;
	struct host_mr mr;
};

/** struct world - the fabric and its hosts; @n: hosts, of which a test may free the last ones */
struct world {
	struct net *net;
	struct fab_hcas *hcas;	/* hosted: HCAs of the fabric */
	bool paged;		/* hosts have fronts, whose part this file plays */
	bool deaf;		/* the fronts do not read vectors */
	unsigned int n;
	struct ep *sm;
	struct node node[HOSTS];
	struct host *h[HOSTS];
};

/* ---- links under ports ---- */

static inline uint8_t *wire_tx_begin(void *arg, unsigned int vl, uint32_t len)
{
	struct node *n = arg;

	return n->ep.l && n->up ? ohca_link_tx_begin(n->ep.l, vl, len) : NULL;
}

static inline void wire_tx_commit(void *arg, unsigned int vl, uint32_t len)
{
	struct node *n = arg;

	ohca_link_tx_commit(n->ep.l, vl, len, 0);
	n->moved = true;
}

static inline struct ohca_link_phy wire_phy(const struct node *n, bool enable)
{
	const struct ohca_link_rate *rate = &n->h->port[0].rate;

	return (struct ohca_link_phy){
		.enabled = enable,
		.width_en = rate->width,
		.speed_en = rate->speed,
		.speed_ext_en = rate->speed_ext,
	};
}

static inline void wire_link_ctl(void *arg, bool enable)
{
	struct node *n = arg;
	struct ohca_link_phy phy = wire_phy(n, enable);

	if (n->ep.l)
		ohca_link_train(n->ep.l, &phy);
	n->moved = true;
}

static inline bool wire_step(void *arg, struct host *h, unsigned int port)
{
	struct node *n = arg;
	struct ohca_link_state st = { 0 };
	struct ohca_link_frame f;
	enum ohca_link_event ev;
	bool any = n->moved;

	n->moved = false;
	if (n->ep.l) {
		struct ohca_link_phy phy = wire_phy(n, true);

		ohca_link_set_phy(n->ep.l, &phy);
		while ((ev = ohca_link_ctrl(n->ep.l)) != OHCA_LINK_EV_NONE) {
			if (*ohca_link_error(n->ep.l))
				break;
			/* it may be up again already */
			if (ev == OHCA_LINK_EV_DOWN && n->up) {
				n->up = false;
				ohca_link_change(h->e, port, NULL);
				any = true;
			}
		}
		ohca_link_get_state(n->ep.l, &st);
	}
	if (st.up != n->up) {
		struct ohca_link_rate rate = { st.width, st.speed, st.speed_ext };

		n->up = st.up;
		ohca_link_change(h->e, port, st.up ? &rate : NULL);
		any = true;
	}
	if (!n->up)
		return any;
	for (unsigned int vl = 0; vl < 16; vl++) {
		if (vl >= ohca_link_vls(n->ep.l) && vl != 15)
			continue;
		while (ohca_link_rx_peek(n->ep.l, vl, &f)) {
			any = true;
			if (!ohca_rx_room(h->e, 1, 0))
				break;
			ohca_rx(h->e, port, &(struct ohca_frame){
				.data = f.data, .len = f.len, .vl = (uint8_t)vl,
				.flags = (uint8_t)f.flags, .vcrc = f.vcrc });
			ohca_link_rx_release(n->ep.l, vl);
		}
	}
	/* there may be new credits */
	ohca_tx_ready(h->e, port, 0xffff);
	ohca_link_kick(n->ep.l);
	ohca_link_awake(n->ep.l);
	return any;
}

static const struct host_wire wire = {
	.tx_begin = wire_tx_begin,
	.tx_commit = wire_tx_commit,
	.link_ctl = wire_link_ctl,
	.step = wire_step,
};

/* ---- engines that the fabric hosts ---- */

/* The front reads the vectors, and raises them. */
static inline void front_take(struct node *n)
{
	atomic_exchange(&n->page->irq_any, 0);
	for (unsigned int i = 0; i < OHCA_PAGE_VECTORS / 64; i++) {
		uint64_t bits = atomic_exchange(&n->page->irq[i], 0);

		for (; bits; bits &= bits - 1)
			host_irq(n->h, i * 64 + (unsigned int)__builtin_ctzll(bits));
	}
}

static inline void front_irq(void *arg, unsigned int vec)
{
	struct node *n = arg;

	(void)vec;
	n->told++;
	if (!n->w->deaf)
		front_take(n);
}

static inline void front_attn(void *arg)
{
	struct node *n = arg;

	n->attns++;
}

static inline uint64_t front_read(void *arg, uint32_t off, unsigned int size)
{
	const struct node *n = arg;
	const uint64_t low = n->page->reg[off / 4];

	return size == 4 ? low : low | (uint64_t)n->page->reg[off / 4 + 1] << 32;
}

static inline void front_write(void *arg, uint32_t off, uint64_t val, unsigned int size)
{
	struct node *n = arg;

	if (off == OHCA_REG_AQ_DB)
		ohca_doorbells_admin(&n->bells, (uint32_t)val);
	else
		fab_hca_write_reg(n->hca, off, val, size);
}

static inline void front_ring(void *arg, uint32_t uar, uint32_t off, uint64_t val)
{
	const struct node *n = arg;

	ohca_doorbells_ring(&n->bells, uar, off, val, 8);
}

/* Makes a page, and fills what the fabric does not read with data of a hostile front. */
static inline void front_open(struct node *n, struct fab_hca_cfg *cfg)
{
	struct ohca_db_sizes sizes;
	size_t bytes;

	assert_true(ohca_doorbell_sizes(&cfg->engine, &sizes));
	bytes = OHCA_PAGE_BYTES(ohca_doorbells_bytes(&sizes));
	n->page = aligned_alloc(4096, bytes);
	assert_non_null(n->page);
	memset(n->page, 0, bytes);
	ohca_doorbells_place(&n->bells, &sizes, (uint8_t *)n->page + OHCA_PAGE_DOORBELLS);
	cfg->page = n->page;
	cfg->irq = front_irq;
	cfg->attn = front_attn;
	cfg->arg = n;
	n->seat.read = front_read;
	n->seat.write = front_write;
	n->seat.ring = front_ring;
}

static inline ohca_engine *seat_make(void *arg, struct host *h)
{
	struct node *n = arg;
	const struct fab_hca_range memory = { HOST_BASE, h->mem_size, h->mem, false, NULL };
	struct fab_hca_cfg cfg = {
		.engine = h->cfg,
		.place = { net_index(n->w->net, n->ep.port),
			   net_index(n->w->net, n->ep.port + 1) },
		.irq = host_irq,
		.arg = h,
	};

	n->h = h;
	if (n->w->paged)
		front_open(n, &cfg);
	n->hca = fab_hca_new(n->w->hcas, &cfg);
	assert_non_null(n->hca);
	assert_true(fab_hca_memory(n->hca, &memory, 1));
	return fab_hca_engine(n->hca);
}

static inline bool seat_turn(void *arg)
{
	struct node *n = arg;

	return fab_hcas_turn(n->w->hcas);
}

static inline void seat_leave(void *arg)
{
	struct node *n = arg;

	fab_hca_free(n->hca);
	free(n->page);
}

/* ---- running ---- */

static inline void pump(void *arg)
{
	struct world *w = arg;
	unsigned int quiet = 0;
	bool any;

	/* a link that trains reports it only at the end, some messages later */
	for (unsigned int i = 0; quiet < 4; i++, quiet = any ? 0 : quiet + 1) {
		assert_true(i < 100000);
		any = host_step(w->h, w->n);
		for (unsigned int k = 0; k < w->net->n; k++)
			any |= simple_step(w->net->ep[k].l);
		any |= net_round(w->net);
		net_timers(w->net);
	}
}

/* Lets @ns pass, from deadline to deadline of engines and fabric. */
static inline void pass(struct world *w, uint64_t ns)
{
	uint64_t *now = &w->net->now_ns, end = *now + ns;

	for (;;) {
		uint64_t next = end + 1, fabric;

		pump(w);
		fabric = net_timers(w->net);
		if (fabric <= end - *now)
			next = *now + fabric;
		fabric = w->hcas ? fab_hcas_due(w->hcas) : UINT64_MAX;
		if (fabric <= end - *now && *now + fabric < next)
			next = *now + fabric;
		for (unsigned int i = 0; i < w->n && !w->hcas; i++) {
			uint64_t d = ohca_next_deadline(w->h[i]->e);

			next = d < next ? d : next;
		}
		if (next > end)
			break;
		*now = next > *now ? next : *now + 1;
	}
	*now = end;
	pump(w);
}

/* ---- the subnet manager ---- */

/* Sends a Get or Set to an engine's port, through the port of the switch that it is at. */
static inline int hca(struct world *w, unsigned int i, uint8_t method, uint16_t attr,
		      uint32_t mod, uint8_t data[64])
{
	const uint8_t path[2] = { 1, (uint8_t)w->node[i].ep.port };
	struct ib_smp smp;
	int status;

	ep_smp_init(w->sm, &smp, method, attr, mod, data, 2, path);
	status = ep_query(w->sm, &smp);
	if (status >= 0)
		memcpy(data, smp.data, 64);
	return status;
}

static inline void set_state(struct world *w, unsigned int i, uint8_t state)
{
	struct ib_port_info pi;
	uint8_t d[64] = { 0 };

	assert_int_equal(hca(w, i, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1, d), 0);
	ib_port_info_unpack(d, &pi);
	pi.lid = LID(i);
	pi.sm_lid = SM_LID;
	pi.state = state;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	pi.down_default = 0;
	ib_port_info_pack(&pi, d);
	assert_int_equal(hca(w, i, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 1, d), 0);
	ib_port_info_unpack(d, &pi);
	assert_int_equal(pi.state, state);
}

static inline void bring_up(struct world *w)
{
	uint8_t d[64];

	assert_int_equal(ep_bring_up(w->sm, 1), 0);
	memset(d, IB_LFT_NO_PORT, sizeof(d));
	d[1] = 0;
	d[SM_LID] = (uint8_t)w->sm->port;
	for (unsigned int i = 0; i < HOSTS; i++)
		d[LID(i)] = (uint8_t)w->node[i].ep.port;
	assert_int_equal(ep_switch(w->sm, IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, d), 0);
	for (unsigned int i = 0; i < HOSTS; i++) {
		set_state(w, i, IB_PS_ARMED);
		assert_int_equal(ep_set_state(w->sm, w->node[i].ep.port, IB_PS_ACTIVE), 0);
		set_state(w, i, IB_PS_ACTIVE);
		assert_int_equal(w->h[i]->e->port[0].lid, LID(i));
	}
}

/* Adds machine @i with a link. */
static inline void connect_node(struct world *w, unsigned int i)
{
	struct node *n = &w->node[i];
	struct ohca_link_err err;

	n->h = w->h[i] = host_new(1, 0x1000 * (i + 1));
	assert_int_equal(net_attach(w->net, &n->ep, 0x1000 * (i + 1) + 1, 0, NULL, &err), 0);
	n->h->port[0].wire = &wire;
	n->h->port[0].wire_arg = n;
}

/* Adds machine @i, whose engine the fabric hosts, at port @port of the switch. */
static inline void host_node(struct world *w, unsigned int i, unsigned int port)
{
	struct node *n = &w->node[i];

	n->w = w;
	n->ep.port = port;
	n->seat = (struct host_seat){
		.make = seat_make,
		.turn = seat_turn,
		.leave = seat_leave,
		.arg = n,
	};
	n->h = w->h[i] = host_new_seat(1, 0x1000 * (i + 1), &n->seat);
}

static inline int setup_world(void **state, bool hosted, bool paged)
{
	struct world *w = calloc(1, sizeof(*w));

	w->net = net_new(8, 1, 8, 3);
	w->sm = &w->net->ep[0];
	w->sm->drive = pump;
	w->sm->arg = w;
	w->paged = paged;
	net_stop_clock(w->net);
	if (hosted) {
		w->hcas = fab_hcas_new(w->net->d);
		assert_non_null(w->hcas);
	}
	for (unsigned int i = 0; i < HOSTS; i++) {
		struct node *n = &w->node[i];

		if (hosted)
			host_node(w, i, i + 2);
		else
			connect_node(w, i);
		n->h->now = &w->net->now_ns;
		w->n++;
		host_start(n->h);
		host_cq_create(n->h, &n->cq, 8, 0);
		host_mr_create(n->h, &n->mr, MR_LEN, n->h->pdn, 0xf);
	}
	pump(w);
	bring_up(w);
	*state = w;
	return 0;
}

static inline int setup(void **state)
{
	return setup_world(state, false, false);
}

static inline int setup_hosted(void **state)
{
	return setup_world(state, true, false);
}

static inline int setup_paged(void **state)
{
	return setup_world(state, true, true);
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	for (unsigned int i = w->n; i-- > 0;) {
		host_buf_free(&w->node[i].cq.buf);
		host_buf_free(&w->node[i].mr.buf);
		host_free(w->h[i]);
		ohca_link_free(w->node[i].ep.l);
	}
	fab_hcas_free(w->hcas);
	net_free(w->net);
	free(w);
	return 0;
}

/* ---- helpers ---- */

static inline void connect_rc(struct world *w, unsigned int a, unsigned int b,
			      struct host_qp qp[2], uint8_t type)
{
	const unsigned int side[2] = { a, b };

	for (unsigned int k = 0; k < 2; k++) {
		struct node *n = &w->node[side[k]];
		struct host_qp_init in = { .type = type, .scq = &n->cq, .rcq = &n->cq };

		assert_int_equal(host_qp_create(n->h, &qp[k], &in), 0);
	}
	for (unsigned int k = 0; k < 2; k++)
		host_qp_connect(&qp[k], 0, LID(side[!k]), qp[!k].qpn, 5, 100 + k, 101 - k);
}

static inline void done(struct host_qp qp[2])
{
	host_qp_destroy(&qp[0]);
	host_qp_destroy(&qp[1]);
}

static inline uint8_t pattern(uint32_t i, uint32_t seed)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + seed);
}

static inline void fill(struct node *n, uint32_t off, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		*(uint8_t *)host_buf_ptr(n->h, &n->mr.buf, off + i) = pattern(i, seed);
}

static inline void check(struct node *n, uint32_t off, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(*(uint8_t *)host_buf_ptr(n->h, &n->mr.buf, off + i),
				 pattern(i, seed));
}

/* Posts an RDMA operation of @len bytes between offsets of two MRs. */
static inline void rdma(struct host_qp *qp, struct node *n, struct node *to, uint8_t op,
			uint32_t off, uint32_t roff, uint32_t len)
{
	struct wqe q = wqe_new(op, OHCA_WQE_SIGNALED, op);

	wqe_raddr(&q, to->mr.iova + roff, to->mr.key);
	wqe_sge(&q, n->mr.iova + off, len, n->mr.key);
	wqe_post(qp, &q);
}

#endif
