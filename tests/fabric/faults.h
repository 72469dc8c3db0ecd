/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two machines at hosts of a tree, and the wires between them, for faults. */
#ifndef TESTS_FABRIC_FAULTS_H
#define TESTS_FABRIC_FAULTS_H

#include "fabric/data/gsi.h"
#include "fabric/fault/fault.h"
#include "hosts.h"

static inline int setup_hosts(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4"));
	place(0, 1);
	place(1, 7);
	return 0;
}

/* Return: the first wire between switches from host[0] to host[1]. */
static inline uint32_t inner(void)
{
	uint32_t out[8];

	assert_true(path(1, LID(7), out, 8) >= 3);
	return out[0];
}

/* Sends @n packets. Return: the number that arrived. */
static inline unsigned int send_many(unsigned int n)
{
	unsigned int got = 0;

	for (unsigned int i = 0; i < n; i++) {
		assert_true(send_data(0, 0, LID(7), 64, (uint8_t)i));
		pump_once();
		got += count_data(1, 0);
	}
	pump(NULL);
	return got + count_data(1, 0);
}

/* Sends a GMP from host[0] to the agent of @lid. */
static inline void send_gmp(uint16_t lid)
{
	struct fab_mad mad = new_mad(IB_CLASS_PERF, IB_METHOD_GET, IB_ATTR_CLASS_PORT_INFO, 0);
	uint8_t pkt[IB_MAD_PKT_LEN];

	mad.dlid = lid;
	mad.slid = LID(1);
	mad.dqp = mad.sqp = 1;
	assert_true(ep_send_raw(&host[0], 0, pkt, fab_mad_packet(pkt, &mad, 0)));
}

/* Return: the trap 129 that waits at the end port of port @p, or NULL. */
static inline const struct ib_notice *integrity_trap(uint32_t p)
{
	const struct fab_extra *x = fab_extra_of(f, fab_end_port(f, p));

	for (unsigned int i = 0; x && i < FAB_TRAPS; i++)
		if (x->trap[i].used && x->trap[i].n.trap == IB_TRAP_LOCAL_LINK_INTEGRITY)
			return &x->trap[i].n;
	return NULL;
}

static inline void later(uint64_t ns)
{
	now += ns;
	pump(NULL);
}

#endif
