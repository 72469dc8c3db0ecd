// SPDX-License-Identifier: GPL-2.0-or-later
/* Reports about links: log lines, and counts. */
#include "buffer.h"
#include "hport_priv.h"

#include <inttypes.h>
#include <string.h>

#define LOG_BURST	200u		/* lines at once */
#define LOG_NS		100000000u	/* and one more line in that time */

__attribute__((format(printf, 2, 3)))
static void report_line(struct fab_data *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	d->cfg.log(d->cfg.arg, fmt, ap);
	va_end(ap);
}

/* Peers cause the log lines: one that flaps must not fill the disk. */
static bool log_allowed(struct fab_data *d)
{
	const uint64_t now = fab_data_host_ns(d), more = (now - d->log_ns) / LOG_NS;

	d->log_ns += more * LOG_NS;
	d->log_left = more > LOG_BURST - d->log_left ? LOG_BURST :
		      d->log_left + (unsigned int)more;
	if (!d->log_left) {
		d->log_lost++;
		return false;
	}
	d->log_left--;
	if (d->log_lost)
		report_line(d, "%" PRIu64 " events were not reported", d->log_lost);
	d->log_lost = 0;
	return true;
}

void fab_data_log(struct fab_data *d, const char *fmt, ...)
{
	va_list ap;

	if (!d->cfg.log || !log_allowed(d))
		return;
	va_start(ap, fmt);
	d->cfg.log(d->cfg.arg, fmt, ap);
	va_end(ap);
}

void fab_data_trace(struct fab_data *d, const char *fmt, ...)
{
	va_list ap;

	if (!d->cfg.log)
		return;
	va_start(ap, fmt);
	d->cfg.log(d->cfg.arg, fmt, ap);
	va_end(ap);
}

static void print_port(const struct fab_data *d, const struct fab_dport *dp, FILE *to)
{
	static const char * const state[] = { "?", "Down", "Init", "Armed", "Active" };
	const struct fab_port *p = &d->f->port[dp->p];
	const struct ohca_port_counters *c = dp->ctr;
	const char *desc = dp->link ? ohca_link_peer(dp->link)->desc : dp->hport->cfg.desc;
	struct ohca_link_stats st = { 0 };

	if (dp->link)
		ohca_link_get_stats(dp->link, &st);
	fprintf(to, "'%.64s' port %u '%.64s' %s rcv %" PRIu64 " pkts %" PRIu64 " words, xmit %"
		PRIu64 " pkts %" PRIu64 " words, errors %" PRIu64 " relay %" PRIu64 " discards %"
		PRIu64 ", no credit %" PRIu64 " times, sends %" PRIu64 ", sleeps %" PRIu64 "\n",
		d->f->desc[p->node].text, dp->num, desc,
		state[p->pi.state <= IB_PS_ACTIVE ? p->pi.state : 0], c->rcv_pkts, c->rcv_data,
		c->xmit_pkts, c->xmit_data, c->rcv_errors, c->rcv_switch_relay_errors,
		c->xmit_discards, st.tx_nocredit, st.sends, st.sleeps);
}

static const char * const drop_names[FAB_DROPS] = {
	[FAB_DROP_DAMAGED] = "damaged",
	[FAB_DROP_LOSS] = "lost by a fault of the wire",
	[FAB_DROP_MALFORMED] = "malformed",
	[FAB_DROP_NOT_ARMED] = "the port is not Armed",
	[FAB_DROP_FILTER] = "P_Key enforcement or raw filter",
	[FAB_DROP_ROUTE] = "no route",
	[FAB_DROP_VL] = "SLtoVLMappingTable",
	[FAB_DROP_INACTIVE] = "the output is not Active",
	[FAB_DROP_MTU] = "longer than the MTU of the output",
	[FAB_DROP_HOQ] = "HOQLife",
	[FAB_DROP_LIFETIME] = "LifeTimeValue",
	[FAB_DROP_HOPS] = "in a circle",
	[FAB_DROP_MEMORY] = "no memory",
	[FAB_DROP_PHANTOM] = "a host without a machine",
	[FAB_DROP_NO_MEMBER] = "multicast without a member",
	[FAB_DROP_NO_LINK] = "multicast out of a port whose link is down",
	[FAB_DROP_HOP_LIMIT] = "HopLmt",
	[FAB_DROP_NO_SUBNET] = "no port of the router is in the subnet",
	[FAB_DROP_NO_GUID] = "no port of the subnet has the GUID",
	[FAB_DROP_LINK_LOCAL] = "a link-local GID at a router",
};

const char *fab_drop_name(enum fab_drop why)
{
	return drop_names[why];
}

size_t fab_data_link_bytes(const struct fab_data *d)
{
	size_t n = 0;

	for (uint32_t i = 0; i < d->links; i++)
		n += d->linked[i]->link ? ohca_link_bytes(d->linked[i]->link) : 0;
	return n;
}

const struct fab_data_counts *fab_data_counts(const struct fab_data *d)
{
	return &d->n;
}

size_t fab_data_bytes(const struct fab_data *d)
{
	size_t n = sizeof(*d) + d->f->ports * sizeof(*d->by_port);

	n += d->by_guid.size * sizeof(*d->by_guid.slot);
	/* @all and the other arrays of its size */
	n += d->cap * (8 * sizeof(*d->all) + FAB_DATA_LANES * sizeof(*d->mcast));
	n += d->count * sizeof(struct fab_dport);
	n += d->n.buffer_bytes;
	for (unsigned int i = 0; i < FAB_BUFFER_SIZES; i++)
		n += d->made[i] * sizeof(struct fab_buffer);
	for (uint32_t i = 0; i < d->links; i++)
		n += d->linked[i]->hport ? sizeof(struct fab_hport) : 0;
	for (uint32_t i = 0; i < d->links && !d->cfg.headers; i++)
		n += d->linked[i]->hport ? FAB_HPORT_MADS * sizeof(struct fab_hport_mad) : 0;
	return n + d->flight_bytes + d->congestion_bytes + fab_data_link_bytes(d) + d->n.capture_bytes;
}

static void print_data(const struct fab_data *d, FILE *to)
{
	fprintf(to, "packets delivered %" PRIu64 ", over %" PRIu64 " wires, forks %" PRIu64
		", that waited %" PRIu64 "; buffers %" PRIu64 " bytes, stood %" PRIu64 " ns, late %"
		PRIu64 " ns\n",
		d->n.delivered, d->n.hops, d->n.forks, d->n.copies, d->n.buffer_bytes,
		d->n.stood_ns, d->n.late_ns);
	for (unsigned int i = FAB_DROP_NONE + 1; i < FAB_DROPS; i++)
		if (d->n.drop[i])
			fprintf(to, "packets dropped: %s: %" PRIu64 "\n", drop_names[i],
				d->n.drop[i]);
}

void fab_data_print(const struct fab_data *d, FILE *to)
{
	fprintf(to, "MADs in %" PRIu64 " out %" PRIu64 " dropped %" PRIu64
		", stopped accepting %" PRIu64 " times\n", d->n.mads_in, d->n.mads_out,
		d->m->stats.lost, d->accept_stops);
	print_data(d, to);
	for (uint32_t i = 0; i < d->links; i++)
		print_port(d, d->linked[i], to);
}
