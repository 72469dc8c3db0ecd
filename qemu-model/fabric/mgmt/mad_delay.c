// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * MADs on their way over wires with a delay (wire.h): those of agents wait here, in the order of
 * time, until they arrive. Those of one wire keep their order. What is on its way when the link
 * goes down is lost.
 */
#include "mgmt.h"

#include <stdlib.h>

#define FAB_MAD_TURN	512u	/* that arrive before the fabric sees to others */

/**
 * struct fab_mad_flight - a MAD on its way
 * @next: the one that is due after it
 * @due_ns: when it arrives
 * @fault: of the wire and direction that it is on
 * @downs: of @fault, when it left
 * @port: that it has left by
 * @mad: a copy
 */
struct fab_mad_flight {
	struct fab_mad_flight *next;
	uint64_t due_ns;
	struct fab_fault *fault;
	uint32_t downs;
	uint32_t port;
	struct fab_mad mad;
};

enum fab_fate fab_mad_delay(struct fab_mgmt *m, uint32_t p, struct fab_fault *x,
			    const struct fab_mad *mad)
{
	const uint64_t due = fab_fault_due(x, m->now_ns, x->mad_due_ns);
	struct fab_mad_flight *fl, **at;

	if (due == m->now_ns)
		return FAB_GOES_ON;
	fl = m->flights < FAB_MAD_FLIGHTS ? malloc(sizeof(*fl)) : NULL;
	if (!fl) {
		x->lost++;
		return FAB_LOST;
	}
	x->mad_due_ns = due;
	*fl = (struct fab_mad_flight){ .due_ns = due, .fault = x, .downs = x->downs,
				       .port = p, .mad = *mad };
	at = m->last_flight && m->last_flight->due_ns <= fl->due_ns ? &m->last_flight->next :
								       &m->flight;
	while (*at && (*at)->due_ns <= fl->due_ns)
		at = &(*at)->next;
	fl->next = *at;
	*at = fl;
	if (!fl->next)
		m->last_flight = fl;
	m->flights++;
	fab_due(m, fl->due_ns);
	return FAB_UNDER_WAY;
}

/* The first one is not on its way any more. */
static struct fab_mad_flight *first_landed(struct fab_mgmt *m)
{
	struct fab_mad_flight *fl = m->flight;

	m->flight = fl->next;
	if (!fl->next)
		m->last_flight = NULL;
	m->flights--;
	return fl;
}

void fab_mad_timer(struct fab_mgmt *m)
{
	for (unsigned int n = 0; n < FAB_MAD_TURN && m->flight && m->flight->due_ns <= m->now_ns;
	     n++) {
		struct fab_mad_flight *fl = first_landed(m);

		if (fab_fault_cut(fl->fault, fl->downs)) {
			fl->fault->lost++;
			m->stats.lost++;
		} else {
			fab_mgmt_landed(m, fl->port, &fl->mad);
		}
		free(fl);
	}
	if (m->flight)
		fab_due(m, m->flight->due_ns);
}

void fab_mad_forget(struct fab_mgmt *m)
{
	while (m->flight)
		free(first_landed(m));
}
