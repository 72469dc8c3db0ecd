// SPDX-License-Identifier: GPL-2.0-or-later
/* Trace events of HCAs: lines of the log. */
#include <fnmatch.h>
#include <inttypes.h>

#include "hca_priv.h"

static const char * const event_name[OHCA_TR_NUM] = {
	[OHCA_TR_CMD] = "ohca_cmd",
	[OHCA_TR_FATAL] = "ohca_err_fatal",
	[OHCA_TR_QP_STATE] = "ohca_qp_state",
	[OHCA_TR_PKT] = "ohca_pkt",
	[OHCA_TR_RX_DROP] = "ohca_err_rx_drop",
	[OHCA_TR_WQE_ERR] = "ohca_err_wqe",
	[OHCA_TR_TIMEOUT] = "ohca_err_timeout",
	[OHCA_TR_PORT_STATE] = "ohca_port_state",
	[OHCA_TR_MAD] = "ohca_mad",
};

uint32_t fab_hca_events(const char *pattern)
{
	uint32_t events = 0;

	for (unsigned int i = 0; i < OHCA_TR_NUM; i++)
		if (!fnmatch(pattern, event_name[i], 0))
			events |= 1u << i;
	return events;
}

void fab_hcas_trace(struct fab_hcas *s, uint32_t events)
{
	s->events = events;
	for (struct fab_hca *h = s->all; h; h = h->all)
		ohca_set_trace(h->e, events);
}

void fab_hca_trace(void *p, unsigned int ev, const uint64_t a[4])
{
	const struct fab_hca *h = p;

	fab_data_trace(h->s->d, "'%.64s' %s 0x%" PRIx64 " 0x%" PRIx64 " 0x%" PRIx64 " 0x%" PRIx64,
		       h->cfg.engine.node_desc, event_name[ev], a[0], a[1], a[2], a[3]);
}
