// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A switch; attaching and detaching of its ports.
 */
#include "switch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ib/rate.h"

#define CTRL_EVENTS	8	/* of one link in a turn */
#define LOG_BURST	200u	/* lines that may come at once, and ... */
#define LOG_NS		100000000u	/* ... how long it takes for another */

void sw_cfg_init(struct sw_cfg *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	cfg->nports = 36;
	cfg->vls = 8;
	cfg->mtu_cap = IB_MTU_CODE_4096;
	cfg->width = IB_WIDTH_1X | IB_WIDTH_4X;
	cfg->speed = IB_SPEED_SDR | IB_SPEED_DDR | IB_SPEED_QDR;
	cfg->speed_ext = IB_SPEED_EXT_FDR | IB_SPEED_EXT_EDR;
	cfg->shift = OHCA_LINK_SHIFT_DEFAULT;
	cfg->hoq_scale = 1;
	strcpy(cfg->desc, "ohca-switch");
}

/* VLCap code of a number of data VLs. */
static uint8_t vl_code(unsigned int vls)
{
	for (uint8_t c = 5; c > 0; c--)
		if (ib_opvls_count(c) <= vls)
			return c;
	return 1;
}

/* SLs in turn on the VLs that lead out of port @out. */
static void init_sl2vl(struct sw *sw, unsigned int out, unsigned int vls)
{
	for (unsigned int in = 0; in <= sw->nports; in++)
		ib_sl2vl_init(sw_sl2vl(sw, in, out), vls);
}

static void init_port(struct sw *sw, unsigned int n)
{
	struct sw_port *p = &sw->port[n];
	struct ib_port_profile prof = {
		.width = sw->cfg.width,
		.speed = sw->cfg.speed,
		.speed_ext = sw->cfg.speed_ext,
		.mtu_cap = sw->cfg.mtu_cap,
		.vl_cap = vl_code(sw->cfg.vls),
		.vlarb_cap = SW_VLARB_CAP,
	};

	p->num = (uint8_t)n;
	if (n == 0) {
		prof.guid_cap = SW_GUIDS;
		prof.cap_mask = IB_CAPS_SWITCH;
	}
	ib_port_info_init(&p->pi, &prof, (uint8_t)n,
			  n ? IB_PI_SWITCH_EXT : IB_PI_SWITCH_PORT0);
	ib_vlarb_init(&p->arb, SW_VLARB_CAP, ib_opvls_count(prof.vl_cap));
	p->pkeys[0] = IB_DEFAULT_PKEY;
	p->num_pkeys = 1;
	init_sl2vl(sw, n, ib_opvls_count(prof.vl_cap));
	p->pma.ctr = &p->ctr;
	sw_port_changed(sw, p);
}

struct sw *sw_new(const struct sw_cfg *cfg)
{
	unsigned int n = cfg->nports + 1;
	struct sw *sw = calloc(1, sizeof(*sw));

	if (!sw)
		return NULL;
	sw->cfg = *cfg;
	sw->nports = cfg->nports;
	sw->epoch = 1;
	sw->port = calloc(n, sizeof(*sw->port));
	sw->sl2vl = calloc((size_t)n * n, sizeof(*sw->sl2vl));
	sw->mft = calloc(SW_MFT_CAP, sizeof(*sw->mft));
	sw->mcast = calloc(n, SW_DATA_VLS * sizeof(*sw->mcast));
	if (!sw->port || !sw->sl2vl || !sw->mft || !sw->mcast) {
		sw_free(sw);
		return NULL;
	}
	memset(sw->lft, IB_LFT_NO_PORT, sizeof(sw->lft));
	sw_sma_init(sw);
	for (unsigned int i = 0; i < SW_REPLIES; i++)
		sw->reply_order[i] = (uint8_t)i;
	sw->pma.nports = n;
	sw->pma.port = sw_pma_port;
	sw->pma.ctx = sw;
	sw->pma.resp_time = 8;
	for (unsigned int i = 0; i < n; i++)
		init_port(sw, i);
	return sw;
}

void sw_free(struct sw *sw)
{
	if (!sw)
		return;
	for (unsigned int i = 1; sw->port && i <= sw->nports; i++)
		ohca_link_free(sw->port[i].link);
	free(sw->port);
	free(sw->sl2vl);
	free(sw->mft);
	free(sw->mcast);
	free(sw);
}

uint64_t sw_host_ns(const struct sw *sw)
{
	struct timespec ts;

	if (sw->cfg.clock)
		return sw->cfg.clock(sw->cfg.clock_arg);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static void log_line(struct sw *sw, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sw->cfg.log(sw->cfg.log_arg, fmt, ap);
	va_end(ap);
}

/* Peers cause the log lines: one that flaps must not fill the disk. */
static bool log_allowed(struct sw *sw)
{
	uint64_t now = sw_host_ns(sw), more = (now - sw->log_ns) / LOG_NS;

	sw->log_ns += more * LOG_NS;
	sw->log_left = more > LOG_BURST - sw->log_left ? LOG_BURST :
		       sw->log_left + (unsigned int)more;
	if (!sw->log_left) {
		sw->log_lost++;
		return false;
	}
	sw->log_left--;
	if (sw->log_lost)
		log_line(sw, "%" PRIu64 " events were not reported", sw->log_lost);
	sw->log_lost = 0;
	return true;
}

void sw_log(struct sw *sw, const char *fmt, ...)
{
	va_list ap;

	if (!sw->cfg.log || !log_allowed(sw))
		return;
	va_start(ap, fmt);
	sw->cfg.log(sw->cfg.log_arg, fmt, ap);
	va_end(ap);
}

/*
 * While something waits for credit there is a round every SW_LOOK_NS at least. If there was
 * none for much longer, the host had no processor for the switch, and perhaps none for its
 * peers, whose credits were due: that is not the time for which a subnet manager set HOQLife.
 */
uint64_t sw_now(struct sw *sw)
{
	uint64_t t;

	if (!sw->now_ns) {
		t = sw_host_ns(sw);
		if ((sw->blocked || sw->reply_count) && t - sw->seen_ns > SW_STOOD_NS)
			sw->stood_ns += t - sw->seen_ns - SW_LOOK_NS;
		sw->seen_ns = t;
		sw->now_ns = t - sw->stood_ns;
	}
	return sw->now_ns;
}

uint64_t sw_clock(struct sw *sw)
{
	uint64_t now = sw_now(sw);	/* which may add to stood_ns */

	return now + sw->stood_ns;
}

/* ---- ports --------------------------------------------------------------------- */

static struct ohca_link_phy phy_of(const struct sw_port *p, bool enabled)
{
	return (struct ohca_link_phy){
		.enabled = enabled,
		.width_en = p->pi.width_enabled,
		.speed_en = p->pi.speed_enabled,
		.speed_ext_en = p->pi.speed_ext_enabled == IB_SPEED_EXT_DISABLE ?
				0 : p->pi.speed_ext_enabled,
	};
}

static void train(struct sw_port *p, bool enabled)
{
	struct ohca_link_phy phy = phy_of(p, enabled);

	ohca_link_train(p->link, &phy);
}

void sw_port_changed(struct sw *sw, struct sw_port *p)
{
	struct ohca_link_phy phy = phy_of(p, true);

	sw->epoch++;
	/* For when the link trains next. */
	if (p->link)
		ohca_link_set_phy(p->link, &phy);
	p->nvls = (uint8_t)ib_opvls_count(p->pi.op_vls);
	/* All headers but LRH..payload's own: 8 LRH + 40 GRH + 12 BTH + 64 others. */
	p->max_len = ib_mtu_bytes(p->pi.mtu) + 124;
	p->receives = p->pi.state == IB_PS_ARMED || p->pi.state == IB_PS_ACTIVE;
	p->active = p->pi.state == IB_PS_ACTIVE;
	p->arb.high_limit = p->pi.vl_high_limit;
	p->arb_vls = 0;
	for (unsigned int t = 0; t < 2; t++)
		for (unsigned int i = 0; i < p->arb.t[t].n && i < IB_VLARB_MAX; i++)
			if (p->arb.t[t].e[i].weight && p->arb.t[t].e[i].vl < SW_DATA_VLS)
				p->arb_vls |= (uint16_t)(1u << p->arb.t[t].e[i].vl);
}

uint64_t sw_peer_key(const struct ohca_link_cfg *peer)
{
	if (peer->node_type != IB_NODE_SWITCH_DEVICE)
		return peer->port_guid;
	return peer->port_guid ^ (uint64_t)peer->port_num << 56;
}

unsigned int sw_pick_port(struct sw *sw, const struct ohca_link_cfg *peer,
			  struct ohca_link_err *err)
{
	uint64_t key = sw_peer_key(peer);
	unsigned int pick = 0;

	memset(err, 0, sizeof(*err));
	err->code = OHCA_LINK_E_NOPORT;
	/* A restarted node may connect before the end of its old link is seen. */
	for (unsigned int i = 1; i <= sw->nports; i++)
		if (sw->port[i].link && (sw->port[i].peer_guid == key ||
					 i == peer->want_port))
			sw_port_ctrl(sw, i);
	for (unsigned int i = 1; key && i <= sw->nports; i++) {
		if (sw->port[i].link && sw->port[i].peer_guid == key) {
			err->code = OHCA_LINK_E_CONFIG;
			snprintf(err->text, sizeof(err->text),
				 "port GUID 0x%016" PRIx64 " is attached to switch port %u already",
				 peer->port_guid, i);
			return 0;
		}
	}
	if (peer->want_port) {
		if (peer->want_port > sw->nports)
			snprintf(err->text, sizeof(err->text),
				 "switch has no port %u, only 1 to %u", peer->want_port,
				 sw->nports);
		else if (sw->port[peer->want_port].reserved)
			snprintf(err->text, sizeof(err->text),
				 "switch port %u is reserved for a link to another switch",
				 peer->want_port);
		else if (sw->port[peer->want_port].link)
			snprintf(err->text, sizeof(err->text),
				 "switch port %u is taken by '%s'", peer->want_port,
				 ohca_link_peer(sw->port[peer->want_port].link)->desc);
		else
			pick = peer->want_port;
		return pick;
	}
	/* The peer's previous port, else a port never used, else any free one. */
	for (unsigned int i = sw->nports; i >= 1; i--)
		if (!sw->port[i].link && !sw->port[i].reserved)
			pick = i;
	for (unsigned int i = sw->nports; i >= 1; i--)
		if (!sw->port[i].link && !sw->port[i].reserved && !sw->port[i].peer_guid)
			pick = i;
	for (unsigned int i = 1; key && i <= sw->nports; i++)
		if (!sw->port[i].link && !sw->port[i].reserved && sw->port[i].peer_guid == key)
			pick = i;
	if (!pick)
		snprintf(err->text, sizeof(err->text), "all %u ports of the switch are taken",
			 sw->nports);
	return pick;
}

void sw_link_cfg(const struct sw *sw, unsigned int n, struct ohca_link_cfg *cfg)
{
	ohca_link_cfg_init(cfg);
	cfg->node_guid = sw->cfg.node_guid;
	cfg->port_guid = sw->cfg.node_guid;
	cfg->node_type = IB_NODE_SWITCH_DEVICE;
	cfg->port_num = (uint8_t)n;
	cfg->vl_cap = sw->cfg.vls;
	cfg->mtu_cap = sw->cfg.mtu_cap;
	cfg->shift_pref = sw->cfg.shift;
	cfg->width_sup = sw->cfg.width;
	cfg->speed_sup = sw->cfg.speed;
	cfg->speed_ext_sup = sw->cfg.speed_ext;
	memcpy(cfg->desc, sw->cfg.desc, sizeof(cfg->desc));
}

void sw_attach(struct sw *sw, unsigned int n, struct ohca_link *l)
{
	const struct ohca_link_cfg *peer = ohca_link_peer(l);
	struct sw_port *p = &sw->port[n];

	p->link = l;
	p->up = false;
	p->peer_guid = sw_peer_key(peer);
	p->vl15_seen = ohca_link_vl15_dropped_by_peer(l);
	sw_log(sw, "port %u: '%s' attached, port GUID 0x%016" PRIx64, n, peer->desc,
	       peer->port_guid);
	train(p, p->pi.phys_state != IB_PHYS_DISABLED);
}

static void link_up(struct sw *sw, struct sw_port *p)
{
	const struct ohca_link_cfg *peer = ohca_link_peer(p->link);
	struct ohca_link_state st;

	ohca_link_get_state(p->link, &st);
	if (ib_port_negotiate(&p->pi, st.width, st.speed, st.speed_ext, peer->mtu_cap,
			      vl_code(ohca_link_vls(p->link)))) {
		sw_log(sw, "port %u: nothing in common with '%s'", p->num, peer->desc);
		return;
	}
	/* Until an SM has written tables, every SL has a VL that both ends have. */
	if (!p->sl2vl_set)
		init_sl2vl(sw, p->num, ib_opvls_count(p->pi.op_vls));
	p->up = true;
	ib_port_link_up(&p->pi);
	sw_port_changed(sw, p);
	sw_log(sw, "port %u: link up, %ux, %u Gb/s", p->num, ib_width_lanes(st.width),
	       ib_link_mbps(st.width, st.speed, st.speed_ext) / 1000);
	sw_trap_state_change(sw);
}

/*
 * @by_sm: a Set(PortInfo) asked for it. The SM knows then, so PortStateChange and trap 128,
 * which report what the link's own state machine did (14.2.5.4), are not due, and no link
 * error recovery has failed (LinkDowned, 16.1.3.5).
 */
static void link_down(struct sw *sw, struct sw_port *p, uint8_t phys, bool by_sm)
{
	bool was_up = p->up;

	p->up = false;
	sw_forget_heads(sw, p);
	ib_port_link_down(&p->pi, phys);
	sw_port_changed(sw, p);
	if (!was_up)
		return;
	if (by_sm) {
		sw_log(sw, "port %u: link down, by management", p->num);
		return;
	}
	p->ctr.link_downed++;
	sw_log(sw, "port %u: link down", p->num);
	sw_trap_state_change(sw);
}

void sw_port_detach(struct sw *sw, unsigned int n, const char *why)
{
	struct sw_port *p = &sw->port[n];

	sw_log(sw, "port %u: '%s' detached: %s", n, ohca_link_peer(p->link)->desc, why);
	link_down(sw, p, p->pi.phys_state == IB_PHYS_DISABLED ? IB_PHYS_DISABLED :
		  IB_PHYS_POLLING, false);
	sw_count_vl15(p);
	ohca_link_free(p->link);
	p->link = NULL;
}

bool sw_port_ctrl(struct sw *sw, unsigned int n)
{
	struct sw_port *p = &sw->port[n];

	p->ctrl_due = false;
	for (int i = 0; p->link; i++) {
		if (i == CTRL_EVENTS) {
			p->ctrl_due = true;
			sw->ctrl_due = true;
			return true;
		}
		switch (ohca_link_ctrl(p->link)) {
		case OHCA_LINK_EV_NONE:
			return true;
		case OHCA_LINK_EV_UP:
			link_up(sw, p);
			break;
		case OHCA_LINK_EV_DOWN:
			link_down(sw, p, p->pi.phys_state == IB_PHYS_DISABLED ?
				  IB_PHYS_DISABLED : IB_PHYS_POLLING, false);
			break;
		case OHCA_LINK_EV_ERROR:
			p->ctr.local_link_integrity_errors++;
			/* fall through */
		case OHCA_LINK_EV_CLOSED:
			sw_port_detach(sw, n, ohca_link_error(p->link));
			return false;
		}
	}
	return false;
}

void sw_link_effects(struct sw *sw)
{
	for (unsigned int i = 1; i <= sw->nports; i++) {
		struct sw_port *p = &sw->port[i];
		uint32_t eff = p->pending_eff;

		if (!eff)
			continue;
		p->pending_eff = 0;
		link_down(sw, p, eff & IB_PI_EFF_LINK_DISABLE ? IB_PHYS_DISABLED :
			  IB_PHYS_POLLING, true);
		if (p->link) {
			train(p, !(eff & IB_PI_EFF_LINK_DISABLE));
			sw_port_ctrl(sw, i);
		}
	}
}

void sw_print_stats(struct sw *sw, void *file)
{
	static const char * const state[] = { "?", "Down", "Init", "Armed", "Active" };
	FILE *f = file;

	fprintf(f, "MADs in %" PRIu64 " out %" PRIu64 " dropped %" PRIu64 ", stopped accepting %"
		PRIu64 " times\n", sw->mads_in, sw->mads_out, sw->mads_dropped, sw->accept_stops);
	for (unsigned int i = 1; i <= sw->nports; i++) {
		struct sw_port *p = &sw->port[i];
		const struct ohca_port_counters *c = &p->ctr;
		struct ohca_link_stats st;

		if (!p->link)
			continue;
		ohca_link_get_stats(p->link, &st);
		fprintf(f, "port %u '%s' %s rcv %" PRIu64 " pkts %" PRIu64 " words, xmit %" PRIu64
			" pkts %" PRIu64 " words, errors %" PRIu64 " relay %" PRIu64
			" discards %" PRIu64 ", no credit %" PRIu64 " times, wakeups %" PRIu64
			", sleeps %" PRIu64 "\n", i, ohca_link_peer(p->link)->desc,
			state[p->pi.state <= IB_PS_ACTIVE ? p->pi.state : 0], c->rcv_pkts,
			c->rcv_data, c->xmit_pkts, c->xmit_data, c->rcv_errors,
			c->rcv_switch_relay_errors, c->xmit_discards, st.tx_nocredit,
			st.wakeups_sent, st.sleeps);
	}
	fflush(f);
}
