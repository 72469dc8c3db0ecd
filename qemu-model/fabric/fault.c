// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults of a fabric; see fault.h. */
#include "fault.h"

#include <stdlib.h>
#include <string.h>

#include "counter.h"

/* A state of the generator, other than 0, in which all bits of @seed count (SplitMix64). */
static uint64_t mixed(uint64_t seed)
{
	seed += 0x9e3779b97f4a7c15ull;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
	seed ^= seed >> 31;
	return seed ? seed : 1;
}

/* What happens to packets that leave by port @p, made if there is none; NULL: out of memory. */
static struct fab_fault *fault_of(struct fab *f, uint32_t p)
{
	struct fab_extra *x = fab_extra(f, p);

	if (!x)
		return NULL;
	if (!x->fault)
		x->fault = calloc(1, sizeof(*x->fault));
	return x->fault;
}

static void set_wire(struct fab_fault *x, uint32_t loss, uint32_t corrupt, uint64_t seed)
{
	x->loss = loss;
	x->corrupt = corrupt;
	x->marginal = 0;
	x->rng = mixed(seed);
}

bool fab_fault_wire(struct fab_mgmt *m, uint32_t p, uint32_t loss, uint32_t corrupt,
		    uint64_t seed)
{
	const uint32_t peer = m->f->port[p].peer;
	struct fab_fault *a, *b;

	if (peer == FAB_NO_PORT)
		return false;
	a = fault_of(m->f, p);
	b = fault_of(m->f, peer);
	if (!a || !b)
		return false;
	set_wire(a, loss, corrupt, seed);
	set_wire(b, loss, corrupt, ~seed);
	m->epoch++;
	return true;
}

void fab_fault_damage(struct fab_mgmt *m, struct fab_fault *x, uint32_t p)
{
	struct fab_extra *at = fab_extra(m->f, p);
	uint8_t details[54];

	x->lost++;
	if (!at)
		return;
	at->ctr.symbol_error++;
	at->ctr.rcv_errors++;
	at->ctr.rcv_local_phys_errors++;
	if (++x->marginal <= m->f->port[p].pi.local_phy_errors)
		return;
	x->marginal = 0;
	at->ctr.local_link_integrity_errors++;
	ib_trap129_131(details, m->f->port[fab_end_port(m->f, p)].pi.lid,
		       (uint8_t)fab_port_num(m->f, p));
	fab_raise_trap(m, p, IB_NOTICE_URGENT, IB_TRAP_LOCAL_LINK_INTEGRITY, details);
}

/* A link that is up goes down by itself, at both ends. */
static void down(struct fab_mgmt *m, uint32_t p)
{
	const uint32_t peer = m->f->port[p].peer;

	if (!fab_outside(m->f, p)) {
		fab_wire_down(m, p);
		fab_wire_down(m, peer);
	} else if (m->wires) {
		m->wires->train(m->wires_ctx, p, false);
		m->wires->train(m->wires_ctx, peer, false);
		fab_wire_down(m, p);
	}
}

/* A link that nothing is in the way of comes up. */
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

bool fab_fault_link(struct fab_mgmt *m, uint32_t p, bool plugged, uint64_t now_ns)
{
	const uint32_t peer = m->f->port[p].peer;
	struct fab_extra *a, *b;

	if (peer == FAB_NO_PORT)
		return false;
	a = fab_extra(m->f, p);
	b = fab_extra(m->f, peer);
	if (!a || !b)
		return false;
	m->now_ns = now_ns;
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
	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t p = fab_port_of(n, i);

		if (m->f->port[p].peer == FAB_NO_PORT)
			continue;
		if (on)
			up(m, p);
		else
			down(m, p);
	}
	return true;
}

/* ---- SMPs ---------------------------------------------------------------------- */

bool fab_fault_smp(struct fab_mgmt *m, uint32_t node, uint16_t attr, uint32_t nth)
{
	struct fab_smp_fault *x, *spare = NULL;

	for (unsigned int i = 0; i < FAB_SMP_FAULTS; i++) {
		x = &m->smp_fault[i];
		if (x->nth && x->node == node && x->attr == attr) {
			x->nth = nth;
			x->seen = 0;
			return true;
		}
		if (!x->nth && !spare)
			spare = x;
	}
	if (!nth)
		return true;
	if (!spare)
		return false;
	*spare = (struct fab_smp_fault){ .node = node, .attr = attr, .nth = nth };
	return true;
}

bool fab_fault_drops(struct fab_mgmt *m, uint32_t node, const struct ib_smp *s)
{
	for (unsigned int i = 0; i < FAB_SMP_FAULTS; i++) {
		struct fab_smp_fault *x = &m->smp_fault[i];

		if (!x->nth || x->node != node || x->attr != ib_be16(s->hdr.attr_id) ||
		    (s->hdr.method & IB_METHOD_RESP) || ++x->seen % x->nth)
			continue;
		x->dropped++;
		return true;
	}
	return false;
}

bool fab_fault_preset(struct fab *f, uint32_t p, const char *name, uint64_t v)
{
	struct fab_extra *x = fab_extra(f, p);

	return x && fab_counter_set(&x->ctr, name, v);
}
