// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults of a fabric; see fault.h. */
#include "fault.h"

#include <string.h>

#include "fabric/graph/subnet.h"
#include "fabric/mgmt/counter.h"

static void set_wire(struct fab_fault *x, uint32_t loss, uint32_t corrupt, uint64_t seed)
{
	x->loss = loss;
	x->stays = loss;
	x->loses = false;
	x->corrupt = corrupt;
	x->marginal = 0;
	x->rng = fab_random_state(seed);
}

bool fab_fault_wire(struct fab_mgmt *m, uint32_t p, uint32_t loss, uint32_t corrupt,
		    uint64_t seed)
{
	const uint32_t peer = m->f->port[p].peer;
	struct fab_fault *a, *b;

	if (peer == FAB_NO_PORT)
		return false;
	a = fab_wire_at(m->f, p);
	b = fab_wire_at(m->f, peer);
	if (!a || !b)
		return false;
	set_wire(a, loss, corrupt, seed);
	set_wire(b, loss, corrupt, ~seed);
	fab_changed(m, p);
	return true;
}

void fab_fault_burst(struct fab_mgmt *m, uint32_t p, uint32_t stays)
{
	fab_wire_at(m->f, p)->stays = stays;
	fab_wire_at(m->f, m->f->port[p].peer)->stays = stays;
}

static void set_errors(struct fab_fault *x, uint64_t bits, uint64_t seed)
{
	x->rng = fab_random_state(seed);
	x->error_bits = bits;
	x->clean_bits = bits ? fab_random_gap(&x->rng, bits) : 0;
}

bool fab_fault_errors(struct fab_mgmt *m, uint32_t p, uint64_t bits, uint64_t seed)
{
	const uint32_t peer = m->f->port[p].peer;
	struct fab_fault *a, *b;

	if (peer == FAB_NO_PORT)
		return false;
	a = fab_wire_at(m->f, p);
	b = fab_wire_at(m->f, peer);
	if (!a || !b)
		return false;
	set_errors(a, bits, seed);
	set_errors(b, bits, ~seed);
	fab_changed(m, p);
	return true;
}

bool fab_fault_delay(struct fab_mgmt *m, uint32_t p, uint64_t ns)
{
	struct fab_fault *x = m->f->port[p].peer != FAB_NO_PORT ? fab_wire_at(m->f, p) : NULL;

	if (!x)
		return false;
	x->delay_ns = ns;
	fab_changed(m, p);
	return true;
}

bool fab_fault_port_stall(struct fab_mgmt *m, uint32_t p, uint64_t until_ns)
{
	const uint32_t from = m->f->port[p].peer;
	struct fab_fault *x = from != FAB_NO_PORT ? fab_wire_at(m->f, from) : NULL;

	if (!x)
		return false;
	fab_fault_stall(m, x, true, until_ns);
	return true;
}

void fab_fault_port_resume(struct fab_mgmt *m, uint32_t p)
{
	const uint32_t from = m->f->port[p].peer;
	const struct fab_extra *x = from != FAB_NO_PORT ? fab_extra_of(m->f, from) : NULL;

	if (x && x->fault && x->fault->stalls)
		fab_fault_stall(m, x->fault, false, UINT64_MAX);
}

bool fab_fault_credits(struct fab_mgmt *m, uint32_t p, unsigned int vl, uint16_t blocks)
{
	struct fab_fault *x = fab_wire_at(m->f, p);

	if (!x)
		return false;
	x->gone[vl] = blocks;
	x->leaks = false;
	for (unsigned int i = 0; i < FAB_WIRE_LANES; i++)
		x->leaks |= x->gone[i] != 0;
	fab_changed(m, p);
	return true;
}

/* ---- cables -------------------------------------------------------------------- */

/* Take a link that is up down, at both ends. */
static void down(struct fab_mgmt *m, uint32_t p)
{
	const uint32_t peer = m->f->port[p].peer;

	if (!fab_outside(m->f, p)) {
		fab_wire_down(m, p);
		fab_wire_down(m, peer);
	} else if (m->wires) {
		m->wires->train(m->wires_ctx, p, false);
		m->wires->train(m->wires_ctx, peer, false);
		/* the host's end is Down already */
		fab_wire_down(m, p);
		fab_wire_down(m, peer);
	}
}

/* Take a link up, if nothing prevents it. */
static void up(struct fab_mgmt *m, uint32_t p)
{
	const uint32_t peer = m->f->port[p].peer;

	if (fab_outside(m->f, p)) {
		if (!m->wires || !fab_may_train(m->f, p))
			return;
		m->wires->train(m->wires_ctx, p, true);
		m->wires->train(m->wires_ctx, peer, true);
	} else if (fab_link_up(m->f, p)) {
		fab_wire_up(m, p);
		fab_wire_up(m, peer);
	}
}

/*
 * Get the rare parts of both ends of the cable at port @p. Return: false: no cable, or no memory.
 */
static bool ends(struct fab_mgmt *m, uint32_t p, struct fab_extra **a, struct fab_extra **b)
{
	const uint32_t peer = m->f->port[p].peer;

	*a = peer != FAB_NO_PORT ? fab_extra(m->f, p) : NULL;
	*b = *a ? fab_extra(m->f, peer) : NULL;
	return *b;
}

static bool plug(struct fab_mgmt *m, uint32_t p, bool plugged)
{
	struct fab_extra *a, *b;

	if (!ends(m, p, &a, &b))
		return false;
	if (a->unplugged == !plugged)
		return true;
	a->unplugged = !plugged;
	b->unplugged = !plugged;
	if (plugged)
		up(m, p);
	else
		down(m, p);
	return true;
}

/* The end that represents the cable at port @p. */
static uint32_t first_end(const struct fab *f, uint32_t p)
{
	return f->port[p].peer < p ? f->port[p].peer : p;
}

/* Return: NULL: no flap has this end. */
static struct fab_flap *find_flap(struct fab_mgmt *m, uint32_t end)
{
	for (unsigned int i = 0; i < FAB_FLAPS; i++)
		if (m->flap[i].port == end)
			return &m->flap[i];
	return NULL;
}

bool fab_fault_link(struct fab_mgmt *m, uint32_t p, bool plugged, uint64_t now_ns)
{
	struct fab_flap *x = find_flap(m, first_end(m->f, p));

	m->now_ns = now_ns;
	if (x)
		x->port = FAB_NO_PORT;
	return plug(m, p, plugged);
}

bool fab_fault_degrade(struct fab_mgmt *m, uint32_t p, struct fab_limit at_most, uint64_t now_ns)
{
	struct fab_extra *a, *b;

	if (!ends(m, p, &a, &b))
		return false;
	m->now_ns = now_ns;
	a->limit = at_most;
	b->limit = at_most;
	down(m, p);
	up(m, p);
	return true;
}

bool fab_fault_flap(struct fab_mgmt *m, uint32_t p, uint64_t down_ns, uint64_t every_ns,
		    uint32_t count, uint64_t now_ns)
{
	const uint32_t end = first_end(m->f, p);
	struct fab_flap *x = find_flap(m, end);
	struct fab_extra *a, *b;

	if (!x)
		x = find_flap(m, FAB_NO_PORT);
	if (!x || !ends(m, p, &a, &b))
		return false;
	*x = (struct fab_flap){
		.port = end,
		.left = count,
		.down_ns = down_ns,
		.every_ns = every_ns,
		.next_ns = now_ns,
	};
	fab_flap_timer(m, now_ns);
	return true;
}

static void change_flap(struct fab_mgmt *m, struct fab_flap *x)
{
	m->now_ns = x->next_ns;
	plug(m, x->port, x->pulled);
	x->pulled = !x->pulled;
	x->next_ns += x->pulled ? x->down_ns : x->every_ns - x->down_ns;
	if (!x->pulled && !--x->left)
		x->port = FAB_NO_PORT;
}

/* The flap that changes next, or NULL. */
static struct fab_flap *next_flap(struct fab_mgmt *m)
{
	struct fab_flap *next = NULL;

	for (unsigned int i = 0; i < FAB_FLAPS; i++) {
		struct fab_flap *x = &m->flap[i];

		if (x->port != FAB_NO_PORT && (!next || x->next_ns < next->next_ns))
			next = x;
	}
	return next;
}

/* Skip the periods that have passed while the fabric stood still, except for the last one. */
static void skip_periods(struct fab_mgmt *m, struct fab_flap *x, uint64_t now_ns)
{
	uint64_t n;

	if (x->port == FAB_NO_PORT || x->next_ns > now_ns || now_ns - x->next_ns < FAB_FLAP_LATE_NS)
		return;
	n = (now_ns - x->next_ns) / x->every_ns;
	if (n >= x->left)
		n = x->left - 1;
	x->left -= (uint32_t)n;
	x->next_ns += n * x->every_ns;
	m->stats.flaps_skipped += n;
}

/* ---- cables that are swapped --------------------------------------------------- */

static void exchange(struct fab *f, uint32_t a, uint32_t b)
{
	const uint32_t far_a = f->port[a].peer, far_b = f->port[b].peer;

	f->port[a].peer = far_b;
	f->port[far_b].peer = a;
	f->port[b].peer = far_a;
	f->port[far_a].peer = b;
}

/* Allocate what both ends of both cables need, @a and @b first. Return: false: out of memory. */
static bool make_ready(struct fab_mgmt *m, const uint32_t end[4])
{
	for (unsigned int i = 0; i < 4; i++)
		if (!fab_wire_at(m->f, end[i]))
			return false;
	return !m->wires || (m->wires->meet(m->wires_ctx, end[0], end[2]) &&
			     m->wires->meet(m->wires_ctx, end[1], end[3]));
}

/* Exchange the states and faults of two cables at their far ends @p and @q. */
static void swap_cables(struct fab *f, uint32_t p, uint32_t q)
{
	struct fab_extra *x = fab_extra_of(f, p), *y = fab_extra_of(f, q);
	const struct fab_extra was = *x;
	const struct fab_fault fault = *x->fault;

	x->unplugged = y->unplugged;
	x->limit = y->limit;
	y->unplugged = was.unplugged;
	y->limit = was.limit;
	fab_fault_take(x->fault, y->fault);
	fab_fault_take(y->fault, &fault);
}

/* Exchange the stalls of the wires from @p and from @q. */
static void swap_stalls(struct fab_mgmt *m, uint32_t p, uint32_t q)
{
	struct fab_fault *x = fab_extra_of(m->f, p)->fault, *y = fab_extra_of(m->f, q)->fault;
	const bool x_stalls = x->stalls, y_stalls = y->stalls;
	const uint64_t x_ns = x->resume.set ? x->resume.due_ns : UINT64_MAX;
	const uint64_t y_ns = y->resume.set ? y->resume.due_ns : UINT64_MAX;

	fab_fault_stall(m, x, y_stalls, y_ns);
	fab_fault_stall(m, y, x_stalls, x_ns);
}

bool fab_fault_swap(struct fab_mgmt *m, uint32_t a, uint32_t b, uint64_t now_ns)
{
	const uint32_t end[4] = { a, b, m->f->port[a].peer, m->f->port[b].peer };
	struct fab_flap *flap_a, *flap_b;

	if (a == b || end[2] == b || end[2] == FAB_NO_PORT || end[3] == FAB_NO_PORT ||
	    fab_outside(m->f, a) || fab_outside(m->f, b) || !make_ready(m, end))
		return false;
	flap_a = find_flap(m, first_end(m->f, a));
	flap_b = find_flap(m, first_end(m->f, b));
	m->now_ns = now_ns;
	down(m, a);
	down(m, b);
	exchange(m->f, a, b);
	if (!fab_subnets_find(m->f)) {
		exchange(m->f, a, b);
		up(m, a);
		up(m, b);
		return false;
	}
	swap_cables(m->f, end[2], end[3]);
	swap_stalls(m, a, b);
	swap_stalls(m, end[2], end[3]);
	if (flap_a)
		flap_a->port = first_end(m->f, a);
	if (flap_b)
		flap_b->port = first_end(m->f, b);
	if (m->wires) {
		m->wires->meet(m->wires_ctx, a, end[3]);
		m->wires->meet(m->wires_ctx, b, end[2]);
	}
	up(m, a);
	up(m, b);
	/* force clients that follow the fabric to read the topology again */
	m->log.count += FAB_LOG + 1;
	return true;
}

bool fab_flap_timer(struct fab_mgmt *m, uint64_t now_ns)
{
	struct fab_flap *next;

	for (unsigned int i = 0; i < FAB_FLAPS; i++)
		skip_periods(m, &m->flap[i], now_ns);
	next = next_flap(m);

	for (unsigned int n = 0; next && next->next_ns <= now_ns && n < FAB_FLAP_TURN; n++) {
		change_flap(m, next);
		next = next_flap(m);
	}
	if (next)
		fab_due(m, next->next_ns);
	return !next || next->next_ns > now_ns;
}

bool fab_fault_node(struct fab_mgmt *m, uint32_t node, bool on, uint64_t now_ns)
{
	struct fab_node *n = &m->f->node[node];

	m->now_ns = now_ns;
	if (n->off == !on)
		return true;
	if (on && !fab_reset_node(m->f, node))
		return false;
	n->off = !on;
	m->epoch++;
	for (unsigned int i = fab_first_num(n); i <= n->nports; i++) {
		const uint32_t p = fab_port_of(n, i);
		struct fab_extra *x = fab_extra_of(m->f, p);

		/* it has lost its LID */
		if (on && fab_end_port(m->f, p) == p)
			fab_changed(m, p);
		/* the programs at a host still run */
		if (on && fab_occupied(m, p) == FAB_SUBNET_MANAGER)
			m->f->port[p].pi.cap_mask |= IB_CAP_SM;
		if (!on)
			fab_fault_port_resume(m, p);
		/* its pending traps are lost */
		if (!on && x)
			ib_trap_clear(&x->end.traps);
		if (x)
			fab_wait(m, x);
		if (m->f->port[p].peer == FAB_NO_PORT)
			continue;
		if (on)
			up(m, p);
		else
			down(m, p);
	}
	return true;
}

/* ---- MADs ---------------------------------------------------------------------- */

static bool same_attribute(const struct fab_attribute *a, const struct fab_attribute *b)
{
	return a->mgmt_class == b->mgmt_class && a->id == b->id;
}

/* Get or create the fault of @node for @a. Return: NULL: there is no room. */
static struct fab_mad_fault *mad_fault(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a)
{
	struct fab_mad_fault *x = m->mad_fault, *end = x + m->mad_faults;

	while (x < end && (x->node != node || !same_attribute(&x->attr, a)))
		x++;
	if (x < end)
		return x;
	if (x == m->mad_fault + FAB_MAD_FAULTS)
		return NULL;
	*x = (struct fab_mad_fault){ .node = node, .attr = *a };
	m->mad_faults++;
	return x;
}

/* After a change of @x: remove it if it has no effect any more. */
static void set_mad_fault(struct fab_mgmt *m, struct fab_mad_fault *x)
{
	/* the data path must check packets of data lanes for it */
	m->epoch += x->attr.mgmt_class != IB_CLASS_SUBN_LID;
	if (!x->nth && !x->delay_ns && !x->status)
		*x = m->mad_fault[--m->mad_faults];
}

bool fab_fault_drop(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint32_t nth)
{
	struct fab_mad_fault *x = mad_fault(m, node, a);

	if (!x)
		return !nth;
	x->nth = nth;
	x->seen = 0;
	set_mad_fault(m, x);
	return true;
}

bool fab_fault_late(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint64_t ns)
{
	struct fab_mad_fault *x = mad_fault(m, node, a);

	if (!x)
		return !ns;
	x->delay_ns = ns;
	set_mad_fault(m, x);
	return true;
}

bool fab_fault_refuse(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint16_t status)
{
	struct fab_mad_fault *x = mad_fault(m, node, a);

	if (!x)
		return !status;
	x->status = status;
	set_mad_fault(m, x);
	return true;
}

void fab_fault_guid(struct fab *f, uint32_t node, uint32_t other)
{
	struct fab_node *n = &f->node[node];

	n->claims = other == node ? 0 : other == FAB_NONE ? FAB_NONE : other + 1;
	for (unsigned int i = fab_first_num(n); i <= n->nports; i++) {
		struct fab_extra *x = fab_extra_of(f, fab_port_of(n, i));

		if (x)
			x->guid[0] = fab_claimed_port_guid(f, fab_port_of(n, i));
	}
}

bool fab_fault_stick(struct fab *f, uint32_t p, const char *name)
{
	const unsigned int i = fab_counter_number(name);
	struct fab_extra *x = i < FAB_COUNTERS ? fab_extra(f, p) : NULL;

	if (!x)
		return false;
	x->stuck |= 1u << i;
	return true;
}

bool fab_fault_preset(struct fab *f, uint32_t p, const char *name, uint64_t v)
{
	const struct fab_node *n = &f->node[f->port[p].node];
	struct fab_extra *x = fab_extra(f, p);
	struct ohca_port_counters was;

	if (!x)
		return false;
	was = x->ctr;
	if (!fab_counter_set(&x->ctr, name, v))
		return false;
	fab_counter_set(&x->pma.base, name, 0);
	fab_counter_set(&x->pma.ext_base, name, 0);
	x->stuck &= ~(1u << fab_counter_number(name));
	if (n->pma)
		ib_pma_preset(&n->pma->agent, fab_port_num(f, p), &was, &x->ctr);
	return true;
}
