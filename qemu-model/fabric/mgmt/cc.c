// SPDX-License-Identifier: GPL-2.0-or-later
/* The congestion control agents of switches and hosts (ib/cc_agent.h). */
#include "mgmt.h"

#include <string.h>

#include "ib/cc_agent.h"

#define RESP_TIME	8u	/* as of the performance agent */

bool fab_answer_cc(struct fab_mgmt *m, uint32_t at, struct ib_mad *mad)
{
	const uint32_t end = fab_end_port(m->f, at);
	const struct fab_node *n = &m->f->node[m->f->port[end].node];
	const struct ib_cc_node node = {
		.is_switch = n->sw != FAB_NONE, .nports = n->nports, .resp_time = RESP_TIME,
	};
	/* all 0: used while nothing is set */
	union {
		struct ib_cc cc;
		uint8_t room[sizeof(struct ib_cc) + (FAB_MAX_NODE_PORTS + 1) * sizeof(struct ib_cc_port)];
	} none;
	struct ib_cc *cc = fab_cc_of(m->f, end);
	enum ib_cc_verdict v;

	if (cc) {
		v = ib_cc_process(&node, cc, mad, m->now_ns);
	} else {
		memset(&none, 0, sizeof(none));
		v = ib_cc_process(&node, &none.cc, mad, m->now_ns);
		/* only a Set needs memory */
		if (v == IB_CC_CHANGED) {
			cc = fab_cc(m->f, end);
			if (!cc)
				return false;
			memcpy(cc, &none, sizeof(*cc));
			if (node.is_switch)
				memcpy(cc->port, none.cc.port, (n->nports + 1u) * sizeof(*cc->port));
		}
	}
	if (v == IB_CC_CHANGED && node.is_switch)
		fab_changed(m, end);
	return v != IB_CC_DROP;
}
