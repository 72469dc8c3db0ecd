// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * MADs with a delay: on their way over wires with a delay (wire.h), or held by a fault of a node
 * (mad_fault.c). They wait here, in the order of their times. Those of one wire keep their order.
 * MADs on a wire are lost when the link goes down.
 */
#include "mgmt.h"

#include <stdlib.h>

#define FAB_MAD_TURN	512u	/* that arrive before the fabric does other work */

/**
 * struct fab_mad_flight - a MAD with a delay
 * @next: the one that is due after it
 * @due_ns: time at which it goes on
 * @fault: of the wire and direction that it is on, NULL: it is on none
 * @downs: value in @fault when it left
 * @place: where it is, at @port
 * @mad: a copy
 */
struct fab_mad_flight {
	struct fab_mad_flight *next;
	uint64_t due_ns;
	struct fab_fault *fault;
	uint32_t downs;
	enum fab_mad_place place;
	uint32_t port;
	struct fab_mad mad;
};

/* Hold @mad until @due at @place of port @p, or on the wire there, which has fault @x. */
static enum fab_fate be_late(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p,
			     struct fab_fault *x, uint64_t due, const struct fab_mad *mad)
{
	struct fab_mad_flight *fl, **at;

	fl = m->flights < FAB_MAD_FLIGHTS ? malloc(sizeof(*fl)) : NULL;
	if (!fl)
		return FAB_LOST;
	*fl = (struct fab_mad_flight){ .due_ns = due, .fault = x, .downs = x ? x->downs : 0,
				       .place = place, .port = p, .mad = *mad };
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

enum fab_fate fab_mad_delay(struct fab_mgmt *m, uint32_t p, struct fab_fault *x,
			    const struct fab_mad *mad)
{
	const uint64_t due = fab_fault_due(x, m->now_ns, x->mad_due_ns);

	if (due == m->now_ns)
		return FAB_GOES_ON;
	if (be_late(m, FAB_MAD_ON_WIRE, p, x, due, mad) == FAB_LOST) {
		x->lost++;
		return FAB_LOST;
	}
	x->mad_due_ns = due;
	return FAB_UNDER_WAY;
}

enum fab_fate fab_mad_hold(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p, uint64_t ns,
			   const struct fab_mad *mad)
{
	return be_late(m, place, p, NULL, m->now_ns + ns, mad);
}

/* Remove the first one, which arrives. */
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

		if (fl->fault && fab_fault_cut(fl->fault, fl->downs)) {
			fl->fault->lost++;
			m->stats.lost++;
		} else {
			fab_mgmt_resume(m, fl->place, fl->port, &fl->mad);
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
