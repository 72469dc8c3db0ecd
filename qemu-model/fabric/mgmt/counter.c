// SPDX-License-Identifier: GPL-2.0-or-later
/* Counters by name; see counter.h. */
#include "counter.h"

#include <stddef.h>
#include <string.h>

#define COUNTER(name, member)	[offsetof(struct ohca_port_counters, member) / sizeof(uint64_t)] = name

static const char *const counters[] = {
	COUNTER("PortXmitData", xmit_data),
	COUNTER("PortRcvData", rcv_data),
	COUNTER("PortXmitPkts", xmit_pkts),
	COUNTER("PortRcvPkts", rcv_pkts),
	COUNTER("PortUnicastXmitPkts", ucast_xmit_pkts),
	COUNTER("PortUnicastRcvPkts", ucast_rcv_pkts),
	COUNTER("PortMulticastXmitPkts", mcast_xmit_pkts),
	COUNTER("PortMulticastRcvPkts", mcast_rcv_pkts),
	COUNTER("SymbolErrorCounter", symbol_error),
	COUNTER("LinkErrorRecoveryCounter", link_error_recovery),
	COUNTER("LinkDownedCounter", link_downed),
	COUNTER("PortRcvErrors", rcv_errors),
	COUNTER("PortRcvRemotePhysicalErrors", rcv_remote_phys_errors),
	COUNTER("PortRcvSwitchRelayErrors", rcv_switch_relay_errors),
	COUNTER("PortXmitDiscards", xmit_discards),
	COUNTER("PortXmitConstraintErrors", xmit_constraint_errors),
	COUNTER("PortRcvConstraintErrors", rcv_constraint_errors),
	COUNTER("LocalLinkIntegrityErrors", local_link_integrity_errors),
	COUNTER("ExcessiveBufferOverrunErrors", excessive_buffer_overruns),
	COUNTER("VL15Dropped", vl15_dropped),
	COUNTER("PortXmitWait", xmit_wait),
	COUNTER("QP1Dropped", qp1_dropped),
};

static_assert(sizeof(counters) / sizeof(*counters) == FAB_COUNTERS, "all of them");

const char *fab_counter_name(unsigned int i)
{
	return counters[i];
}

uint64_t fab_counter(const struct ohca_port_counters *c, unsigned int i)
{
	uint64_t v;

	memcpy(&v, (const char *)c + i * sizeof(v), sizeof(v));
	return v;
}

unsigned int fab_counter_number(const char *name)
{
	unsigned int i;

	for (i = 0; i < FAB_COUNTERS && strcmp(counters[i], name); i++)
		;
	return i;
}

bool fab_counter_set(struct ohca_port_counters *c, const char *name, uint64_t v)
{
	const unsigned int i = fab_counter_number(name);

	if (i < FAB_COUNTERS)
		memcpy((char *)c + i * sizeof(v), &v, sizeof(v));
	return i < FAB_COUNTERS;
}

void fab_count_links(const struct fab *f, struct fab_link_counts *n)
{
	*n = (struct fab_link_counts){ 0 };
	for (uint32_t i = 1; i < f->ports; i++) {
		const struct fab_port *a = &f->port[i], *b = &f->port[a->peer];

		if (a->peer <= i)
			continue;
		if (fab_outside(f, i) && f->node[a->node].sw == FAB_NONE)
			a = b;
		else if (fab_outside(f, i))
			b = a;
		n->cables++;
		n->up += a->pi.state != IB_PS_DOWN;
		n->active += a->pi.state == IB_PS_ACTIVE && b->pi.state == IB_PS_ACTIVE;
	}
}
