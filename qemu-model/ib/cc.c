// SPDX-License-Identifier: GPL-2.0-or-later
/* Congestion control: CCTIs of a channel adapter, settings and log of a switch; see cc.h. */
#include "cc.h"

/* Limit @ccti to CCTI_Min, CCTI_Limit and the size of the table. */
static uint16_t clamp(const struct ib_cc_ca *ca, unsigned int sl, uint32_t ccti)
{
	const uint16_t limit = ca->ccti_limit < IB_CCT_ENTRIES ? ca->ccti_limit : IB_CCT_ENTRIES - 1;

	if (ccti < ca->sl[sl].ccti_min)
		ccti = ca->sl[sl].ccti_min;
	return ccti < limit ? (uint16_t)ccti : limit;
}

uint16_t ib_cc_ccti(const struct ib_cc_ca *ca, struct ib_cc_flow *fl, unsigned int sl,
		    uint64_t now_ns, unsigned int scale)
{
	const uint64_t tick = (uint64_t)IB_CC_TIMER_NS * ca->sl[sl].ccti_timer * scale;
	/* count the ticks of one timer of the port, which does not restart with each packet */
	const uint64_t ticks = tick ? now_ns / tick - fl->seen_ns / tick : 0;

	fl->seen_ns = now_ns;
	fl->ccti = clamp(ca, sl, ticks < fl->ccti ? fl->ccti - (uint32_t)ticks : 0);
	return fl->ccti;
}

uint16_t ib_cc_becn(const struct ib_cc_ca *ca, struct ib_cc_flow *fl, unsigned int sl,
		    uint64_t now_ns, unsigned int scale)
{
	const uint16_t ccti = ib_cc_ccti(ca, fl, sl, now_ns, scale);

	fl->ccti = clamp(ca, sl, (uint32_t)ccti + ca->sl[sl].ccti_increase);
	return fl->ccti;
}

uint64_t ib_cc_delay_ns(const struct ib_cc_ca *ca, uint16_t ccti, uint64_t packet_ns)
{
	const uint16_t e = ca->cct[ccti < IB_CCT_ENTRIES ? ccti : IB_CCT_ENTRIES - 1];

	return packet_ns * IB_CCT_MULTIPLIER(e) >> IB_CCT_SHIFT(e);
}

struct ib_cc_port ib_cc_of_port(const struct ib_cc *cc, unsigned int num)
{
	const struct ib_cc_port *own = &cc->port[num];

	if (own->valid && !own->control_type)
		return *own;
	return (struct ib_cc_port){
		.valid = true,
		.threshold = cc->sw.threshold,
		.packet_size = cc->sw.packet_size,
		.marking_rate = cc->sw.marking_rate,
	};
}

void ib_cc_event(struct ib_cc *cc, unsigned int num, uint16_t slid, uint16_t dlid, uint8_t sl,
		 uint64_t now_ns)
{
	struct ib_cc_log *log = &cc->log;
	const unsigned int at = (log->first + log->kept) % IB_CC_SWITCH_EVENTS;

	log->events += log->events < UINT16_MAX;
	log->port_map[IB_CC_PORT_MASK - 1 - num / 8] |= (uint8_t)(1u << num % 8);
	log->event[at].slid = slid;
	log->event[at].dlid = dlid;
	log->event[at].sl = sl;
	log->event[at].stamp = ib_cc_stamp(now_ns);
	if (log->kept < IB_CC_SWITCH_EVENTS)
		log->kept++;
	else
		log->first = (uint8_t)((log->first + 1) % IB_CC_SWITCH_EVENTS);
}
