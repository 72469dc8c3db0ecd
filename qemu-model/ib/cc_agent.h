/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The congestion control agent of a switch, or of a port of a channel adapter (annex A10): class 0x21 by QP1.
 *
 * Pure logic: no memory but the caller's, no clock, nothing is sent. There are no traps: who wants to know of
 * congestion, or of wrong keys, asks.
 *
 * Once a CC_Key is set all need it but Gets of ClassPortInfo and CongestionKeyInfo. A MAD with another one has
 * no answer, as with an M_Key; it is counted, and begins the lease.
 */
#ifndef OHCA_IB_CC_AGENT_H
#define OHCA_IB_CC_AGENT_H

#include "cc.h"
#include "mad.h"

#define IB_CC_CLASS_VERSION	2u
#define IB_CC_KEY_OFF		24u	/* of the CC_Key in a MAD */
#define IB_CC_LOG_OFF		32u	/* of a CongestionLog, */
#define IB_CC_DATA_OFF		64u	/* and of any other attribute */
#define IB_CC_DATA_LEN		192u

/*
 * Elements of a SwitchPortCongestionSetting: as many of 4 bytes as its data have room for. So ibccquery and the Set of
 * ibccconfig count them. The headers of OpenSM and libibmad have 32 (IB_CC_SW_PORT_SETTING_ELEMENTS), which
 * nothing uses but the Get that ibccconfig sends before its Set: of ports from 32 on that is of another
 * block. OpenSM does not ask for this attribute.
 */
#define IB_CC_PORTS_PER_BLOCK	48u

enum ib_cc_attr {
	IB_CC_ATTR_CLASS_PORT_INFO	= 0x0001,
	IB_CC_ATTR_INFO			= 0x0011,
	IB_CC_ATTR_KEY_INFO		= 0x0012,
	IB_CC_ATTR_LOG			= 0x0013,
	IB_CC_ATTR_SWITCH_SETTING	= 0x0014,
	IB_CC_ATTR_SWITCH_PORT_SETTING	= 0x0015,
	IB_CC_ATTR_CA_SETTING		= 0x0016,
	IB_CC_ATTR_TABLE		= 0x0017,
	IB_CC_ATTR_TIME_STAMP		= 0x0018,
};

/* SwitchCongestionSetting.Control_Map: what a Set changes */
#define IB_CC_SW_VICTIM_MASK	(1u << 0)
#define IB_CC_SW_CREDIT_MASK	(1u << 1)
#define IB_CC_SW_THRESHOLD	(1u << 2)	/* and Packet_Size */
#define IB_CC_SW_STARVATION	(1u << 3)
#define IB_CC_SW_MARKING_RATE	(1u << 4)

/**
 * struct ib_cc_node - whose agent it is
 * @is_switch: a switch, else a port of a channel adapter
 * @nports: of a switch, without port 0
 * @resp_time: ClassPortInfo.RespTimeValue
 */
struct ib_cc_node {
	bool is_switch;
	uint8_t nports;
	uint8_t resp_time;
};

/** enum ib_cc_verdict - what is to be done with a MAD */
enum ib_cc_verdict {
	IB_CC_DROP,	/* no request of this class, or a wrong CC_Key */
	IB_CC_REPLY,	/* it is the response now */
	IB_CC_CHANGED,	/* the same, and what is marked or delayed may be something else now */
};

/**
 * ib_cc_process() - answer one MAD
 * @cc: what the agent keeps, with room for struct ib_cc_port of a switch
 * @mad: changed in place
 * @now_ns: time
 *
 * Each Get and Set that has the key is answered, with IB_MAD_BAD_VERSION, IB_MAD_BAD_METHOD,
 * IB_MAD_BAD_METHOD_ATTR or IB_MAD_BAD_FIELD if it is wrong; then nothing changes.
 */
enum ib_cc_verdict ib_cc_process(const struct ib_cc_node *n, struct ib_cc *cc, struct ib_mad *mad,
				 uint64_t now_ns);

#endif
