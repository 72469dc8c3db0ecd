/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gets and Sets at a fabric's one switch (net.h), by a subnet manager at the first end port. */
#ifndef TESTS_FABRIC_QUERY_H
#define TESTS_FABRIC_QUERY_H

#include "net.h"

#define MAX_MAD_PKT	512u	/* any packet that carries one MAD */

/* Gets any attribute of the switch. */
static inline int get(struct net *t, uint16_t attr, uint32_t mod, uint8_t d[64])
{
	memset(d, 0, 64);
	return ep_switch(&t->ep[0], IB_METHOD_GET, attr, mod, d);
}

static inline int set(struct net *t, uint16_t attr, uint32_t mod, uint8_t d[64])
{
	return ep_switch(&t->ep[0], IB_METHOD_SET, attr, mod, d);
}

static inline void get_pi(struct net *t, unsigned int n, struct ib_port_info *pi)
{
	uint8_t d[64];

	assert_int_equal(get(t, IB_SMP_ATTR_PORT_INFO, n, d), 0);
	ib_port_info_unpack(d, pi);
}

/* Sets PortInfo as an SM does: without a change of states unless @pi has one. */
static inline int set_pi(struct net *t, uint32_t mod, const struct ib_port_info *pi)
{
	uint8_t d[64];

	ib_port_info_pack(pi, d);
	return set(t, IB_SMP_ATTR_PORT_INFO, mod, d);
}

/* Return: the trap with this number that waits for its TrapRepress, or NULL. */
static inline const struct ib_trap *waiting(const struct net *t, uint16_t num)
{
	const struct fab_extra *x = fab_extra(t->f, net_index(t, 0));

	for (unsigned int i = 0; i < FAB_TRAPS; i++)
		if (x->trap[i].used && x->trap[i].n.trap == num)
			return &x->trap[i];
	return NULL;
}

#endif
