// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets that a wire loses. */
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
