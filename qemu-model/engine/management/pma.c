/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HCA's performance management agent; see pma.h. */
#include "engine/management/pma.h"

void ohca_pma_init(struct ohca_pma *p, unsigned int num_ports,
		   const struct ohca_port_counters *const ctr[])
{
	memset(p, 0, sizeof(*p));
	if (num_ports > OHCA_SMA_MAX_PORTS)
		num_ports = OHCA_SMA_MAX_PORTS;
	for (unsigned int i = 0; i < num_ports; i++) {
		p->port[i].ctr = ctr[i];
		p->ptr[i] = &p->port[i];
	}
	p->agent.ports = p->ptr;
	p->agent.nports = num_ports;
	p->agent.first_port = 1;
	p->agent.resp_time = 8;		/* 1 ms */
}

enum ohca_sma_verdict ohca_pma_process(struct ohca_pma *p, const uint8_t *in, uint8_t *out,
				       uint64_t now_ns)
{
	enum ib_pma_verdict v;

	v = ib_pma_process(&p->agent, (const struct ib_mad *)(const void *)in,
			   (struct ib_mad *)(void *)out, now_ns);
	return v == IB_PMA_REPLY ? OHCA_SMA_REPLY : OHCA_SMA_UNHANDLED;
}
