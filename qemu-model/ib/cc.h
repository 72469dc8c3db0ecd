/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Congestion control (IBTA volume 1, annex A10): the settings of a manager, and the reaction of a
 * channel adapter. A switch sets FECN in packets of a congested port, the receiver answers with
 * BECN, and the sender delays its packets by the entry of the Congestion Control Table (CCT) at its
 * index (CCTI). Each BECN raises the CCTI, a timer lowers it.
 *
 * These functions keep no state of their own and read no clock.
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
#define IB_CC_TIMER_NS		1024u	/* unit of CCTI_Timer and time stamps, ns */
#define IB_CNP_DATA_LEN		16u	/* bytes after the BTH of a CNP */

#define IB_CCT_SHIFT(e)		((e) >> 14)
#define IB_CCT_MULTIPLIER(e)	((e) & 0x3fffu)
#define IB_CCT_ENTRY(shift, multiplier)	((uint16_t)((shift) << 14 | (multiplier)))

/**
 * struct ib_cc_switch - SwitchCongestionSetting
 * @control_map: which of the others a manager has set, IB_CC_SW_*
 * @victim_mask: ports, the first one in the lowest bit of the last byte, whose packets are marked
 *	even if the port is not the root of the congestion but waits for credits
 * @credit_mask: ports for which credit starvation is set; stored, not used
 * @threshold: 0: mark nothing; 1 to 15: a higher value marks earlier
 * @packet_size: shorter packets are not marked, units of 64 bytes
 * @cs_threshold, @cs_return_delay: settings of credit starvation; stored, not used
 * @marking_rate: mean number of eligible packets between two marked ones
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
 * struct ib_cc_sl - CACongestionEntry of a service level
 * @ccti_timer: time after which the CCTI decreases by one, units of IB_CC_TIMER_NS; 0: never
 * @ccti_increase: amount that a BECN adds to the CCTI
 * @trigger_threshold: CCTI at which an event would be logged; stored, not used
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
 * @port_control: bit 0: one CCTI for each service level; else one for each QP
 * @control_map: service levels that a manager has set
 * @sl: settings of each service level
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
 * @valid: a manager has set it; it replaces the settings of struct ib_cc_switch for the port
 * @control_type: it controls credit starvation, not marking
 * @threshold, @packet_size, @marking_rate: as in struct ib_cc_switch
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
 * @events: how often a lane of a port has become congested since the log was read last; saturates
 * @port_map: the ports, as in a Victim_Mask
 * @event: ring of the last @kept events, the oldest at @first: first marked packet and its time
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
 * struct ib_cc - state of the agent of a switch or of a channel adapter's port; initially all zero
 * @key: CC_Key; 0: requests need no key
 * @protect: requests with another key do not get @key
 * @lease: CC_KeyLeasePeriod, seconds; 0: the lease never ends
 * @violations: MADs with another key; saturates
 * @lease_ns: time when the lease ends and clears @protect, ns; 0: the lease does not run
 * @sw, @log: only in a switch
 * @ca: only in a port of a channel adapter
 * @port: only in a switch: [ports + 1]
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

/** ib_cc_stamp() - TimeStamp value at time @now_ns */
static inline uint32_t ib_cc_stamp(uint64_t now_ns)
{
	return (uint32_t)(now_ns / IB_CC_TIMER_NS);
}

/** ib_cc_in_mask() - whether a mask of ports contains port @num */
static inline bool ib_cc_in_mask(const uint8_t mask[IB_CC_PORT_MASK], unsigned int num)
{
	return mask[IB_CC_PORT_MASK - 1 - num / 8] >> num % 8 & 1;
}

/**
 * ib_cc_of_port() - effective settings of port @num of a switch
 *
 * Return: a valid element; its threshold is 0 if nothing is marked.
 */
struct ib_cc_port ib_cc_of_port(const struct ib_cc *cc, unsigned int num);

/**
 * ib_cc_event() - log that a lane of port @num of a switch has become congested
 * @slid, @dlid, @sl: of the first marked packet
 * @now_ns: time, ns
 */
void ib_cc_event(struct ib_cc *cc, unsigned int num, uint16_t slid, uint16_t dlid, uint8_t sl,
		 uint64_t now_ns);

/**
 * struct ib_cc_flow - packets that share one CCTI
 * @ccti: the CCTI at @seen_ns
 * @seen_ns: time of the last update, ns
 */
struct ib_cc_flow {
	uint16_t ccti;
	uint64_t seen_ns;
};

/**
 * ib_cc_ccti() - update the CCTI of @fl
 * @ca: settings of the port
 * @sl: service level of the packets
 * @now_ns: time, ns; not before that of the last call
 * @scale: factor that lengthens CCTI_Timer; not 0
 *
 * Return: the CCTI.
 */
uint16_t ib_cc_ccti(const struct ib_cc_ca *ca, struct ib_cc_flow *fl, unsigned int sl,
		    uint64_t now_ns, unsigned int scale);

/** ib_cc_becn() - a BECN for @fl was received. Arguments and return value: as of ib_cc_ccti() */
uint16_t ib_cc_becn(const struct ib_cc_ca *ca, struct ib_cc_flow *fl, unsigned int sl,
		    uint64_t now_ns, unsigned int scale);

/**
 * ib_cc_delay_ns() - time from the end of a packet to the start of the next one, ns
 * @ccti: CCTI of the packet's flow
 * @packet_ns: duration of the packet on the link, ns
 */
uint64_t ib_cc_delay_ns(const struct ib_cc_ca *ca, uint16_t ccti, uint64_t packet_ns);

#endif
