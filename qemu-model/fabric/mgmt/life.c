// SPDX-License-Identifier: GPL-2.0-or-later
/* Events of a fabric: links that change state, traps, timers. */
#include "to_fault.h"

#include <stddef.h>

void fab_raise_trap(struct fab_mgmt *m, uint32_t p, enum ib_notice_type type,
		    enum ib_trap_num num, const uint8_t details[54])
{
	const struct fab *f = m->f;
	uint32_t end = fab_end_port(f, p);
	const struct ib_sma *s;

	if (f->node[f->port[p].node].off)
		return;
	s = fab_agent_begin(m, f->port[p].node, false);
	ib_sma_trap(s, fab_port_num(f, end), type, num, details, m->now_ns);
	fab_agent_end(m);
}

/* Report that the state of a switch's port has changed by itself. */
static void state_change(struct fab_mgmt *m, uint32_t p)
{
	const struct fab_node *n = &m->f->node[m->f->port[p].node];
	uint8_t details[54];

	if (n->sw == FAB_NONE)
		return;
	m->f->sw[n->sw].si.port_state_change = 1;
	ib_trap128(details, m->f->port[fab_port_of(n, 0)].pi.lid);
	fab_raise_trap(m, p, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE, details);
}

/* Take the link of port @p down. @by_sm: a subnet manager disabled or reset it at this end */
static void port_link_down(struct fab_mgmt *m, uint32_t p, uint8_t phys, bool by_sm)
{
	struct fab_extra *x = fab_extra_of(m->f, p), *peer;

	fab_changed(m, p);
	if (!ib_port_link_down(&m->f->port[p].pi, phys))
		return;
	if (x && x->fault)
		fab_fault_down(x->fault);
	/* in the graph the machine's end is always Down */
	peer = fab_outside(m->f, p) ? fab_extra_of(m->f, m->f->port[p].peer) : NULL;
	if (peer && peer->fault)
		fab_fault_down(peer->fault);
	/* a host without a link cannot send its traps */
	if (x && fab_end_port(m->f, p) == p) {
		ib_trap_clear(&x->end.traps);
		fab_wait(m, x);
	}
	if (by_sm)
		return;
	x = fab_extra(m->f, p);
	if (x)
		x->ctr.link_downed++;
	state_change(m, p);
}

void fab_wire_up(struct fab_mgmt *m, uint32_t p)
{
	fab_changed(m, p);
	ib_port_link_up(&m->f->port[p].pi);
	state_change(m, p);
}

void fab_wire_down(struct fab_mgmt *m, uint32_t p)
{
	const struct ib_port_info *pi = &m->f->port[p].pi;
	const bool disabled = pi->phys_state == IB_PHYS_DISABLED;

	port_link_down(m, p, disabled ? IB_PHYS_DISABLED : pi->down_default, false);
}

void fab_link_effects(struct fab_mgmt *m)
{
	const uint32_t due = m->job.link_due, p = m->job.due_port, peer = m->f->port[p].peer;
	const bool disable = due & IB_PI_EFF_LINK_DISABLE;

	m->job.link_due = 0;
	port_link_down(m, p, ib_port_due_phys(due), true);
	if (fab_outside(m->f, p)) {
		if (m->wires)
			m->wires->train(m->wires_ctx, p, !disable);
		return;
	}
	if (peer == FAB_NO_PORT)
		return;
	fab_wire_down(m, peer);
	if (disable || !fab_link_up(m->f, p))
		return;
	fab_changed(m, p);
	state_change(m, p);
	state_change(m, peer);
}

/* ---- time ---------------------------------------------------------------------- */

void fab_wait(struct fab_mgmt *m, struct fab_extra *x)
{
	const uint64_t ns = ib_sma_end_deadline(&x->end);

	fab_timer_set(&m->ends, &x->timer, ns);
	fab_due(m, ns);
}

void fab_wait_samples(struct fab_mgmt *m, struct fab_pma *a)
{
	const uint64_t ns = ib_pma_deadline(&a->agent);

	fab_timer_set(&m->samples, &a->timer, ns);
	fab_due(m, ns);
}

/* The rare part, or the agent, that contains the timer @at. */
#define OWNER(type, at)	((type *)(void *)((char *)(at) - offsetof(type, timer)))

/*
 * Process ends that are due. A trap may be lost, which another end must report: that end is due at
 * once.
 */
static void run_ends(struct fab_mgmt *m)
{
	for (unsigned int n = 0; n < FAB_TIMER_TURN && fab_timers_due(&m->ends) <= m->now_ns; n++) {
		struct fab_extra *x = OWNER(struct fab_extra, m->ends.first);

		/* the event may have ended meanwhile */
		if (ib_sma_end_deadline(&x->end) <= m->now_ns) {
			ib_sma_timer(fab_agent_begin(m, m->f->port[x->port].node, false),
				     m->now_ns);
			fab_agent_end(m);
		}
		fab_wait(m, x);
	}
	fab_due(m, fab_timers_due(&m->ends));
}

static void run_samples(struct fab_mgmt *m)
{
	for (unsigned int n = 0; n < FAB_TIMER_TURN && fab_timers_due(&m->samples) <= m->now_ns;
	     n++) {
		struct fab_pma *a = OWNER(struct fab_pma, m->samples.first);

		if (ib_pma_deadline(&a->agent) <= m->now_ns) {
			m->job.node = a->node;
			m->job.is_set = false;
			ib_pma_timer(&a->agent, m->now_ns);
		}
		fab_wait_samples(m, a);
	}
	fab_due(m, fab_timers_due(&m->samples));
}

/* Resume ports that stalled. */
static void run_resumes(struct fab_mgmt *m)
{
	for (unsigned int n = 0; n < FAB_TIMER_TURN && fab_timers_due(&m->resumes) <= m->now_ns; n++) {
		struct fab_timer *at = m->resumes.first;
		struct fab_fault *x = (void *)((char *)at - offsetof(struct fab_fault, resume));

		fab_fault_stall(m, x, false, UINT64_MAX);
	}
	fab_due(m, fab_timers_due(&m->resumes));
}

void fab_fault_stall(struct fab_mgmt *m, struct fab_fault *x, bool stalls, uint64_t until_ns)
{
	x->stalls = stalls;
	fab_timer_set(&m->resumes, &x->resume, until_ns);
	fab_due(m, until_ns);
	fab_changed(m, x->port);
}

void fab_mgmt_timer(struct fab_mgmt *m, uint64_t now_ns)
{
	m->now_ns = now_ns;
	if (now_ns < m->deadline_ns)
		return;
	m->deadline_ns = UINT64_MAX;
	fab_mad_timer(m);
	fab_flap_timer(m, now_ns);
	m->now_ns = now_ns;
	run_resumes(m);
	run_ends(m);
	run_samples(m);
}

void fab_mgmt_set_issm(struct fab_mgmt *m, uint32_t port, bool is_sm, uint64_t now_ns)
{
	struct ib_port_info *pi = &m->f->port[port].pi;
	const uint32_t was = pi->cap_mask;
	uint8_t details[54];

	m->now_ns = now_ns;
	pi->cap_mask = is_sm ? was | IB_CAP_SM : was & ~IB_CAP_SM;
	if (pi->cap_mask == was)
		return;
	ib_trap144(details, pi->lid, pi->cap_mask, 0, pi->cap_mask2);
	fab_raise_trap(m, port, IB_NOTICE_INFO, IB_TRAP_CAP_MASK_CHANGE, details);
}
