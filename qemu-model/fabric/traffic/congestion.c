// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Congestion control of hosts (ib/cc.h): the receiver of a marked packet sends a congestion
 * notification packet (CNP), and the receiver of that waits longer between the packets of its
 * messages. A host has one CCTI, that of its service level. CNPs leave before messages, and wait
 * only for the wire.
 */
#include "traffic_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ib/packet.h"

bool traffic_congestion_set(struct fab_traffic *t)
{
	for (uint32_t i = 0; t->cfg.cc && i < t->f->nodes; i++) {
		struct ib_cc *cc;

		if (t->f->node[i].sw == FAB_NONE)
			continue;
		cc = fab_cc(t->f, fab_port_of(&t->f->node[i], 0));
		if (!cc)
			return false;
		cc->sw = t->cfg.cc->sw;
	}
	return true;
}

void traffic_fecn(struct traffic_host *h, uint32_t msg)
{
	for (unsigned int i = 0; i < h->cnps; i++)
		if (h->cnp[i] == msg)
			return;
	if (h->cnps == TRAFFIC_CNPS)
		return;
	h->cnp[h->cnps++] = msg;
	traffic_wake(h);
}

bool traffic_send_cnp(struct traffic_host *h)
{
	const uint32_t len = IB_LRH_LEN + IB_BTH_LEN + IB_CNP_DATA_LEN + IB_ICRC_LEN;
	struct fab_traffic *t = h->t;
	uint8_t *b = fab_hport_begin(h->h, h->vl, len);
	const uint32_t msg = h->cnp[0];

	if (!b)
		return false;
	b = ib_build_lrh(b, h->vl, h->sl, IB_LNH_IBA_LOCAL, traffic_sender(t, msg)->lid,
			 (uint16_t)(len / 4), h->lid);
	ib_build_bth(b, IB_OP_CNP, 0, 0, IB_DEFAULT_PKEY, msg, false, 0);
	ib_set_becn(b);
	memset(b + IB_BTH_LEN, 0, IB_CNP_DATA_LEN);
	t->sent++;
	h->cnps--;
	memmove(h->cnp, h->cnp + 1, h->cnps * sizeof(*h->cnp));
	fab_hport_commit(h->h, h->vl, len, NULL);
	return true;
}

void traffic_becn(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;
	uint16_t ccti;

	t->becns++;
	if (!t->cfg.cc)
		return;
	ccti = ib_cc_becn(&t->cfg.cc->ca, &h->cc, h->sl, t->now_ns, t->cfg.rate_scale);
	if (ccti > t->ccti_max)
		t->ccti_max = ccti;
}

void traffic_sent(struct traffic_host *h)
{
	const struct ib_cc_ca *ca = &h->t->cfg.cc->ca;
	const uint64_t now = h->t->now_ns, free_ns = fab_hport_free_ns(h->h);
	const uint16_t ccti = ib_cc_ccti(ca, &h->cc, h->sl, now, h->t->cfg.rate_scale);
	const uint64_t delay_ns = ib_cc_delay_ns(ca, ccti, free_ns > now ? free_ns - now : 0);

	/* 0: only the wire knows when it is ready, to a fraction of a ns */
	h->may_ns = delay_ns ? free_ns + delay_ns : 0;
}

/* ---- settings ------------------------------------------------------------------ */

void fab_congestion_usual(struct fab_congestion_cfg *cc)
{
	*cc = (struct fab_congestion_cfg){ .sw = { .threshold = 12 } };
	for (unsigned int i = 0; i < IB_CC_SLS; i++)
		cc->ca.sl[i] = (struct ib_cc_sl){ .ccti_timer = 8, .ccti_increase = 1 };
	cc->ca.port_control = 1;
	cc->ca.ccti_limit = IB_CCT_ENTRIES - 1;
	for (unsigned int i = 0; i < IB_CCT_ENTRIES; i++)
		cc->ca.cct[i] = IB_CCT_ENTRY(2, i);
}

enum setting {
	S_THRESHOLD, S_PACKET_SIZE, S_MARKING_RATE, S_CCTI_TIMER, S_CCTI_INCREASE, S_CCTI_MIN,
	S_CCTI_LIMIT, S_CCT_SHIFT, SETTINGS
};

static const struct {
	const char *name;
	unsigned long most;
} settings[SETTINGS] = {
	[S_THRESHOLD] = { "threshold", IB_CC_THRESHOLD_MAX },
	[S_PACKET_SIZE] = { "packet_size", 255 },
	[S_MARKING_RATE] = { "marking_rate", 65535 },
	[S_CCTI_TIMER] = { "ccti_timer", 65535 },
	[S_CCTI_INCREASE] = { "ccti_increase", 255 },
	[S_CCTI_MIN] = { "ccti_min", IB_CCT_ENTRIES - 1 },
	[S_CCTI_LIMIT] = { "ccti_limit", IB_CCT_ENTRIES - 1 },
	[S_CCT_SHIFT] = { "cct_shift", 3 },
};

static void set(struct fab_congestion_cfg *cc, enum setting s, unsigned long v)
{
	switch (s) {
	case S_THRESHOLD:
		cc->sw.threshold = (uint8_t)v;
		break;
	case S_PACKET_SIZE:
		cc->sw.packet_size = (uint8_t)v;
		break;
	case S_MARKING_RATE:
		cc->sw.marking_rate = (uint16_t)v;
		break;
	case S_CCTI_LIMIT:
		cc->ca.ccti_limit = (uint16_t)v;
		break;
	case S_CCT_SHIFT:
		for (unsigned int i = 0; i < IB_CCT_ENTRIES; i++)
			cc->ca.cct[i] = IB_CCT_ENTRY((unsigned int)v, i);
		break;
	default:
		for (unsigned int i = 0; i < IB_CC_SLS; i++) {
			struct ib_cc_sl *sl = &cc->ca.sl[i];

			if (s == S_CCTI_TIMER)
				sl->ccti_timer = (uint16_t)v;
			else if (s == S_CCTI_INCREASE)
				sl->ccti_increase = (uint8_t)v;
			else
				sl->ccti_min = (uint8_t)v;
		}
	}
}

bool fab_congestion_parse(struct fab_congestion_cfg *cc, const char *text, char *why, size_t len)
{
	while (*text) {
		const size_t name = strcspn(text, "=,");
		unsigned int s = 0;
		unsigned long v;
		char *end;

		while (s < SETTINGS && (strlen(settings[s].name) != name ||
					memcmp(settings[s].name, text, name)))
			s++;
		if (s == SETTINGS) {
			snprintf(why, len, "'%.*s' is none of threshold, packet_size, marking_rate, "
				 "ccti_timer, ccti_increase, ccti_min, ccti_limit, cct_shift",
				 (int)name, text);
			return false;
		}
		text += name + (text[name] == '=');
		v = strtoul(text, &end, 0);
		if (*text < '0' || *text > '9' || (*end && *end != ',') || v > settings[s].most) {
			snprintf(why, len, "%s is a number from 0 to %lu", settings[s].name,
				 settings[s].most);
			return false;
		}
		set(cc, (enum setting)s, v);
		text = end + (*end == ',');
	}
	return true;
}
