/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The congestion control agent of a switch, or of a port of a channel adapter (annex A10): class
 * 0x21 at QP1.
 *
 * The agent uses only the memory of its caller, reads no clock and sends nothing. It sends no
 * traps: a manager polls the log and the violation counter.
 *
 * When a CC_Key is set, all requests need it, except Gets of ClassPortInfo and CongestionKeyInfo.
 * The agent does not answer a MAD with another key, as with an M_Key. It counts the violation and
 * starts the lease.
 */
#ifndef OHCA_IB_CC_AGENT_H
#define OHCA_IB_CC_AGENT_H

#include "cc.h"
#include "mad.h"

#define IB_CC_CLASS_VERSION	2u
#define IB_CC_KEY_OFF		24u	/* offset of the CC_Key in a MAD */
#define IB_CC_LOG_OFF		32u	/* offset of a CongestionLog */
#define IB_CC_DATA_OFF		64u	/* offset of any other attribute */
#define IB_CC_DATA_LEN		192u

/*
 * Elements of a SwitchPortCongestionSetting: as many elements of 4 bytes as fit into its data.
 * ibccquery and the Set of ibccconfig use this number, too. The headers of OpenSM and libibmad
 * define 32 (IB_CC_SW_PORT_SETTING_ELEMENTS). Only the Get that ibccconfig sends before its Set
 * uses 32, so for ports from 32 on it reads another block. OpenSM does not use this attribute.
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

/* SwitchCongestionSetting.Control_Map: the fields that a Set changes */
#define IB_CC_SW_VICTIM_MASK	(1u << 0)
#define IB_CC_SW_CREDIT_MASK	(1u << 1)
#define IB_CC_SW_THRESHOLD	(1u << 2)	/* and Packet_Size */
#define IB_CC_SW_STARVATION	(1u << 3)
#define IB_CC_SW_MARKING_RATE	(1u << 4)

/**
 * struct ib_cc_node - the node of the agent
 * @is_switch: a switch, else a port of a channel adapter
 * @nports: ports of a switch, without port 0
 * @resp_time: ClassPortInfo.RespTimeValue
 */
struct ib_cc_node {
	bool is_switch;
	uint8_t nports;
	uint8_t resp_time;
};

/** enum ib_cc_verdict - what to do with a MAD */
enum ib_cc_verdict {
	IB_CC_DROP,	/* no request of this class, or a wrong CC_Key: send nothing */
	IB_CC_REPLY,	/* send the MAD, which is the response now */
	IB_CC_CHANGED,	/* the same; a Set may have changed the settings */
};

/**
 * ib_cc_process() - answer one MAD
 * @n: the node
 * @cc: state of the agent, for a switch with room for struct ib_cc_port of each port
 * @mad: the request; changed in place to the response
 * @now_ns: time, ns
 *
 * The agent answers each request with the right key. The status of a wrong one is
 * IB_MAD_BAD_VERSION, IB_MAD_BAD_METHOD, IB_MAD_BAD_METHOD_ATTR or IB_MAD_BAD_FIELD, and then
 * nothing changes.
 */
enum ib_cc_verdict ib_cc_process(const struct ib_cc_node *n, struct ib_cc *cc, struct ib_mad *mad,
				 uint64_t now_ns);

#endif
