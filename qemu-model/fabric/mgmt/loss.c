// SPDX-License-Identifier: GPL-2.0-or-later
/* What is lost: packets by a wire, SMPs that an agent does not get. */
#include "mgmt.h"

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

/* Whether the way of @s, which has come in by port @at, ends here. */
static bool ends_here(const struct fab *f, uint32_t at, const struct ib_smp *s)
{
	const struct fab_node *n = &f->node[f->port[at].node];
	struct ib_smp copy = *s;
	uint8_t by;

	return !ib_smp_is_dr(s) || ib_dr_recv(&copy, n->sw != FAB_NONE,
					      (uint8_t)fab_port_num(f, at), n->nports,
					      &by) == IB_DR_LOCAL;
}

bool fab_fault_drops(struct fab_mgmt *m, uint32_t at, bool from_wire, const struct ib_smp *s)
{
	const uint32_t node = m->f->port[at].node;

	for (unsigned int i = 0; i < m->smp_faults; i++) {
		struct fab_smp_fault *x = &m->smp_fault[i];

		if (x->node != node || x->attr != ib_be16(s->hdr.attr_id) ||
		    (s->hdr.method & IB_METHOD_RESP))
			continue;
		if (from_wire && !ends_here(m->f, at, s))
			return false;
		if (++x->seen % x->nth)
			continue;
		x->dropped++;
		return true;
	}
	return false;
}
