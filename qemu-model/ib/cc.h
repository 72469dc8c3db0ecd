/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Congestion control (IBTA volume 1, annex A10): what a manager sets, and what a channel adapter makes of
 * it. A switch marks packets of a congested port by FECN, the receiver answers by BECN, and the sender
 * waits between its packets for as long as the entry of the Congestion Control Table (CCT) says that its
 * index (CCTI) has: more with each BECN, less with the time.
 */
#ifndef OHCA_IB_CC_H
#define OHCA_IB_CC_H

#include <stdbool.h>
#include <stdint.h>

#define IB_CC_PORT_MASK		32u	/* bytes of a mask of ports */
#define IB_CC_SLS		16u
#define IB_CCT_PER_BLOCK	64u	/* entries of the CCT in an attribute */
#define IB_CCT_BLOCKS		2u	/* ControlTableCap */
#define IB_CCT_ENTRIES		(IB_CCT_PER_BLOCK * IB_CCT_BLOCKS)
#define IB_CC_THRESHOLD_MAX	15u
#define IB_CC_TIMER_NS		1024u	/* of CCTI_Timer and time stamps */
#define IB_CNP_DATA_LEN		16u	/* of a congestion notification packet, behind its BTH */

#define IB_CCT_SHIFT(e)		((e) >> 14)
#define IB_CCT_MULTIPLIER(e)	((e) & 0x3fffu)
#define IB_CCT_ENTRY(shift, multiplier)	((uint16_t)((shift) << 14 | (multiplier)))

/**
 * struct ib_cc_switch - SwitchCongestionSetting
 * @control_map: which of the others a manager has set, IB_CC_SW_*
 * @victim_mask: ports, the first in the lowest bit of the last byte, whose packets are marked also when
 *	the port is not the root of the congestion: it waits for credits
 * @credit_mask: ports whose credits the switch returns later
 * @threshold: 0: marks nothing; 1 to 15: marks the later, the less; so 15 is the first to mark
 * @packet_size: packets that are shorter are not marked, in credits of 64 bytes
 * @cs_threshold, @cs_return_delay: when and how the switch returns credits of @credit_mask later
 * @marking_rate: mean number of packets that could be marked between two that are
 */
struct ib_cc_switch {
	uint32_t control_map;
	uint8_t victim_mask[IB_CC_PORT_MASK];
	uint8_t credit_mask[IB_CC_PORT_MASK];
	uint8_t threshold;
	uint8_t packet_size;
	uint8_t cs_threshold;
	uint16_t cs_return_delay;
	uint16_t marking_rate;
};

/**
 * struct ib_cc_sl - CACongestionEntry, of a service level
 * @ccti_timer: time after which the CCTI is one less, in IB_CC_TIMER_NS; 0: never
 * @ccti_increase: what a BECN adds to it
 * @trigger_threshold: CCTI at which an event is logged; 0: none is
 * @ccti_min: the lowest CCTI
 */
struct ib_cc_sl {
	uint16_t ccti_timer;
	uint8_t ccti_increase;
	uint8_t trigger_threshold;
	uint8_t ccti_min;
};

/**
 * struct ib_cc_ca - CACongestionSetting and the CongestionControlTable
 * @port_control: bit 0: a CCTI of each service level; else of each QP
 * @control_map: service levels that a manager has set
 * @sl: of each service level
 * @ccti_limit: the highest CCTI
 * @cct: IB_CCT_ENTRY() of each CCTI
 */
struct ib_cc_ca {
	uint16_t port_control;
	uint16_t control_map;
	struct ib_cc_sl sl[IB_CC_SLS];
	uint16_t ccti_limit;
	uint16_t cct[IB_CCT_ENTRIES];
};

/**
 * struct ib_cc_port - SwitchPortCongestionSettingElement
 * @valid: a manager has set it: it takes the place of what struct ib_cc_switch says of the port
 * @control_type: it is about the return of credits, not about marks
 * @threshold, @packet_size, @marking_rate: as of struct ib_cc_switch
 */
struct ib_cc_port {
	bool valid;
	bool control_type;
	uint8_t threshold;
	uint8_t packet_size;
	uint16_t marking_rate;
};

#define IB_CC_SWITCH_EVENTS	15u

/**
 * struct ib_cc_log - CongestionLog of a switch
 * @events: lanes of ports that have become congested since it was read last
 * @port_map: the ports, as in a Victim_Mask
 * @event: the last @kept of them, from @first on: first packet that was marked, and when
 */
struct ib_cc_log {
	uint16_t events;
	uint8_t port_map[IB_CC_PORT_MASK];
	uint8_t kept, first;
	struct {
		uint16_t slid, dlid;
		uint8_t sl;
		uint32_t stamp;
	} event[IB_CC_SWITCH_EVENTS];
};

/**
 * struct ib_cc - what the agent of a switch, or of a port of a channel adapter, keeps; all zero at first
 * @key: CC_Key; 0: nobody needs one
 * @protect: who has another one does not see it
 * @lease: CC_KeyLeasePeriod in s; 0: for ever
 * @violations: MADs with another key; stays at the top
 * @lease_ns: @protect ends then; 0: the lease does not run
 * @sw, @log: of a switch
 * @ca: of a port of a channel adapter
 * @port: of a switch, [ports + 1]; else there is none
 */
struct ib_cc {
	uint64_t key;
	bool protect;
	uint16_t lease;
	uint16_t violations;
	uint64_t lease_ns;
	union {
		struct {
			struct ib_cc_switch sw;
			struct ib_cc_log log;
		};
		struct ib_cc_ca ca;
	};
	struct ib_cc_port port[];
};

/** ib_cc_stamp() - TimeStamp at @now_ns */
static inline uint32_t ib_cc_stamp(uint64_t now_ns)
{
	return (uint32_t)(now_ns / IB_CC_TIMER_NS);
}

/** ib_cc_in_mask() - a mask of ports has port @num */
static inline bool ib_cc_in_mask(const uint8_t mask[IB_CC_PORT_MASK], unsigned int num)
{
	return mask[IB_CC_PORT_MASK - 1 - num / 8] >> num % 8 & 1;
}

/**
 * ib_cc_of_port() - what holds for port @num of a switch
 *
 * Return: as an element that is valid, with the threshold 0 if nothing is marked.
 */
struct ib_cc_port ib_cc_of_port(const struct ib_cc *cc, unsigned int num);

/** ib_cc_event() - a lane of port @num of a switch has become congested: its first marked packet */
void ib_cc_event(struct ib_cc *cc, unsigned int num, uint16_t slid, uint16_t dlid, uint8_t sl,
		 uint64_t now_ns);

/**
 * struct ib_cc_flow - packets that have one CCTI
 * @ccti: as of @seen_ns
 */
struct ib_cc_flow {
	uint16_t ccti;
	uint64_t seen_ns;
};

/**
 * ib_cc_ccti() - the CCTI of @fl at @now_ns, which is not before the last call
 * @ca: settings of the port
 * @sl: service level of the packets
 * @scale: a CCTI_Timer takes so many times as long; not 0
 */
uint16_t ib_cc_ccti(const struct ib_cc_ca *ca, struct ib_cc_flow *fl, unsigned int sl,
		    uint64_t now_ns, unsigned int scale);

/** ib_cc_becn() - a BECN has come for @fl. Return: the CCTI, as of ib_cc_ccti(). */
uint16_t ib_cc_becn(const struct ib_cc_ca *ca, struct ib_cc_flow *fl, unsigned int sl,
		    uint64_t now_ns, unsigned int scale);

/**
 * ib_cc_delay_ns() - time from the end of a packet to the begin of the next one
 * @packet_ns: that the packet takes
 */
uint64_t ib_cc_delay_ns(const struct ib_cc_ca *ca, uint16_t ccti, uint64_t packet_ns);

#endif
