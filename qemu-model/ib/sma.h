/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The subnet management agent of an HCA or a switch (IBTA volume 1, 14.2 and 14.3). An HCA has a
 * driver and perhaps a subnet manager; a switch has neither.
 *
 * The agent uses only the memory of its owner, reads no clock (the caller passes the time) and
 * sends only through struct ib_sma_ops. It gets the state of a port by a callback. It does not
 * change struct ib_sma, so a node may build one for each MAD. Owner thread only.
 *
 * Port numbers are those of the specification: ports of an HCA count from 1, and port 0 of a switch
 * is the switch itself. An end port is a port with a LID: each port of an HCA, port 0 of a switch.
 *
 * The agent answers every request, except an M_Key violation, which the specification forbids to
 * answer (14.2.4).
 */
#ifndef OHCA_IB_SMA_H
#define OHCA_IB_SMA_H

#include "portinfo.h"
#include "smp.h"
#include "trap.h"
#include "vl.h"

/** enum ib_sma_verdict - what to do with an SMP */
enum ib_sma_verdict {
	IB_SMA_UNHANDLED,	/* deliver it to a manager in software */
	IB_SMA_CONSUMED,	/* done, nothing to send */
	IB_SMA_REPLY,		/* send it: it is the response now */
	IB_SMA_FORWARD,		/* a switch forwards it along its directed route */
	IB_SMA_DISCARD,		/* invalid route, or a bad M_Key: no answer */
};

/* ib_sma_ops.changed(): what a Set has written, beside IB_PI_EFF_* of portinfo.h */
#define IB_SMA_CH_PORT_INFO	(1u << 16)	/* PortInfo, even if no value changed */
#define IB_SMA_CH_PKEYS		(1u << 17)	/* a value of the P_Key table changed */
#define IB_SMA_CH_GUIDS		(1u << 18)	/* a value of GUIDInfo changed */
#define IB_SMA_CH_SL2VL		(1u << 19)	/* table of an output port; port 0: of all */
#define IB_SMA_CH_VLARB		(1u << 20)
#define IB_SMA_CH_SWITCH	(1u << 21)	/* SwitchInfo or a forwarding table */

#define IB_SMA_ALL_PORTS	0x100u		/* ib_sma_ops.sl2vl(): every port of a switch */

/**
 * struct ib_sma_end - state of the agent for an end port
 * @traps: the owner calls ib_trap_init()
 * @lease_ns: time when the M_Key lease ends, ns; UINT64_MAX: it does not run
 */
struct ib_sma_end {
	struct ib_trap_queue traps;
	uint64_t lease_ns;
};

/** ib_sma_end_deadline() - when ib_sma_timer() must run for an end port, ns; UINT64_MAX: never */
static inline uint64_t ib_sma_end_deadline(const struct ib_sma_end *end)
{
	uint64_t t = ib_trap_deadline(&end->traps);

	return t < end->lease_ns ? t : end->lease_ns;
}

/**
 * struct ib_sma_port - pointers to the state of a port
 * @pi: PortInfo in force
 * @link_due: IB_PI_EFF_LINK_*: change of the link that the owner makes after the answer has left;
 *	then the owner clears it
 * @pkey: P_Key table, host order; 0: free
 * @num_pkeys: entries of @pkey, whole blocks
 * @arb: VL arbiter with the tables in force
 * @guid: GUIDInfo of an end port, the first is the PortGUID; 0: free
 * @num_guids: entries of @guid, whole blocks
 * @end: state of an end port, else NULL
 */
struct ib_sma_port {
	struct ib_port_info *pi;
	uint32_t *link_due;
	uint16_t *pkey;
	unsigned int num_pkeys;
	struct ib_vlarb *arb;
	uint64_t *guid;
	unsigned int num_guids;
	struct ib_sma_end *end;
};

/**
 * struct ib_sma_ops - functions of the node that the agent calls
 * @port: fill in @p for port @num, which exists
 * @sl2vl: return the table for packets from port @in to port @out; in an HCA both are the port. For
 *	a Set, @in or @out may be IB_SMA_ALL_PORTS, which includes port 0, if SwitchInfo allows that
 *	(14.2.5.8): then the agent writes the table of all of them
 * @changed: a Set has written @what of port @num (0: of the switch): refresh copies, raise events.
 *	Not called for a Set that was refused completely
 * @send_trap: send a LID routed SMP from QP0 of end port @num, to the SM LID of its PortInfo, on
 *	its SM SL
 * @set_node_desc: set NodeDescription for the driver; NULL: the node has no driver
 * @lft: return the [IB_LFT_PER_BLOCK] ports of @block, which is below LinearFDBCap; NULL in an HCA
 * @mft: return the port mask at @pos of the multicast LID with index @entry, which is below
 *	MulticastFDBCap; NULL in an HCA
 *
 * They may not call the agent, except that @set_node_desc may call ib_sma_trap().
 */
struct ib_sma_ops {
	void (*port)(void *ctx, unsigned int num, struct ib_sma_port *p);
	struct ib_sl2vl *(*sl2vl)(void *ctx, unsigned int in, unsigned int out);
	void (*changed)(void *ctx, unsigned int num, uint32_t what);
	void (*send_trap)(void *ctx, unsigned int num, const struct ib_smp *trap);
	void (*set_node_desc)(void *ctx, const char desc[IB_SMP_DATA_LEN], uint64_t now_ns);
	uint8_t *(*lft)(void *ctx, unsigned int block);
	uint16_t *(*mft)(void *ctx, unsigned int entry, unsigned int pos);
};

/**
 * struct ib_sma - description of a node
 * @ctx: first argument of @ops
 * @sys_guid: SystemImageGUID
 * @desc: NodeDescription, 64 bytes
 * @type: enum ib_node_type; a router answers like an HCA
 * @si: SwitchInfo of a switch, else NULL
 */
struct ib_sma {
	const struct ib_sma_ops *ops;
	void *ctx;
	uint64_t sys_guid;
	uint64_t node_guid;
	uint32_t vendor_id;
	uint32_t revision;
	uint16_t device_id;
	uint8_t num_ports;		/* without port 0 of a switch */
	uint8_t type;
	const char *desc;
	struct ib_switch_info *si;
};

/**
 * struct ib_sma_in - how an SMP arrived
 * @port: the port that received it
 * @from_wire: it was received in a packet for QP0; false: the driver passed it, after it had
 *	applied the hop rules of a directed route itself
 * @ignore_mkey: a Get needs no M_Key, and its response does not contain it (driver only)
 * @slid: SLID of the LRH, for trap 256
 * @now_ns: time, ns
 */
struct ib_sma_in {
	unsigned int port;
	bool from_wire;
	bool ignore_mkey;
	uint16_t slid;
	uint64_t now_ns;
};

/**
 * ib_sma_process() - process one SMP, for this node or, at a switch, perhaps for another node
 * @smp: a private copy; changed in place according to the verdict. With IB_SMA_UNHANDLED the hop
 *	pointer of a directed route may have been advanced past its end
 * @out_port: result, for IB_SMA_FORWARD and IB_SMA_REPLY: the port to send it from.
 *	IB_DR_PORT_BY_LID: send it to the LID after the directed route; the reply to a LID routed
 *	request: to the SLID of the request
 *
 * ib_sma_timer() sends a trap that the SMP causes. The owner makes the changes of links after the
 * reply has left; the reply shows them as done.
 */
enum ib_sma_verdict ib_sma_process(const struct ib_sma *s, const struct ib_sma_in *in,
				   struct ib_smp *smp, uint8_t *out_port);

/**
 * ib_sma_unclaimed() - answer an SMP that was IB_SMA_UNHANDLED and has no receiver
 * @smp: the SMP as received; changed in place
 * @out_port: as of ib_sma_process()
 *
 * Return: IB_SMA_REPLY with status IB_MAD_BAD_METHOD_ATTR for a Get or Set, else
 * IB_SMA_DISCARD.
 */
enum ib_sma_verdict ib_sma_unclaimed(const struct ib_sma *s, const struct ib_sma_in *in,
				     struct ib_smp *smp, uint8_t *out_port);

/**
 * ib_sma_trap() - raise a trap of end port @num
 * @details: written by one of the ib_trap*() functions of smp.h
 *
 * ib_sma_timer() sends it. No trap is raised before the port is Active and has an SM LID.
 *
 * Return: true if ib_sma_timer() has more to send than before.
 */
bool ib_sma_trap(const struct ib_sma *s, unsigned int num, enum ib_notice_type type,
		 enum ib_trap_num trap, const uint8_t details[54], uint64_t now_ns);

/** ib_sma_deadline() - when ib_sma_timer() must run, ns; UINT64_MAX: never */
uint64_t ib_sma_deadline(const struct ib_sma *s);

/** ib_sma_timer() - send and repeat traps, end M_Key leases */
void ib_sma_timer(const struct ib_sma *s, uint64_t now_ns);

/** ib_sma_count16() - increment a violation counter, which saturates (14.2.5.6) */
static inline void ib_sma_count16(uint16_t *v)
{
	*v = (uint16_t)(*v + (*v != 0xffff));
}

#endif
