/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The subnet management agent of any node (IBTA volume 1, 14.2 and 14.3): an HCA's, with a
 * driver and perhaps a subnet manager above it, or a switch's, with neither.
 *
 * Pure logic: no memory but the caller's, no clock (time is passed in), nothing is sent but
 * through struct ib_sma_ops. The owner says where the state of a port lies when it is asked for,
 * and struct ib_sma has none that changes: a node with few means may make it up for each MAD.
 * Owner thread only.
 *
 * Ports have the numbers of the specification: an HCA's count from 1, a switch has port 0 for
 * itself. An end port is one with a LID: each port of an HCA, port 0 of a switch.
 *
 * An M_Key violation is the one request that the specification forbids to answer (14.2.4);
 * everything else that is a request gets a response.
 */
#ifndef OHCA_IB_SMA_H
#define OHCA_IB_SMA_H

#include "portinfo.h"
#include "smp.h"
#include "trap.h"
#include "vl.h"

/** enum ib_sma_verdict - what is to be done with an SMP */
enum ib_sma_verdict {
	IB_SMA_UNHANDLED,	/* for a manager in software, as it came */
	IB_SMA_CONSUMED,	/* done, nothing to send */
	IB_SMA_REPLY,		/* it is the response now */
	IB_SMA_FORWARD,		/* a switch passes it on along its directed route */
	IB_SMA_DISCARD,		/* a route that is none, or a bad M_Key: no answer */
};

/* ib_sma_ops.changed(): what a Set has written, beside IB_PI_EFF_* of portinfo.h */
#define IB_SMA_CH_PORT_INFO	(1u << 16)	/* PortInfo, whether or not anything is new */
#define IB_SMA_CH_PKEYS		(1u << 17)	/* another value in the P_Key table */
#define IB_SMA_CH_GUIDS		(1u << 18)	/* another value in GUIDInfo */
#define IB_SMA_CH_SL2VL		(1u << 19)	/* a table that leads out of it; 0: of all */
#define IB_SMA_CH_VLARB		(1u << 20)
#define IB_SMA_CH_SWITCH	(1u << 21)	/* SwitchInfo or a forwarding table */

#define IB_SMA_ALL_PORTS	0x100u		/* ib_sma_ops.sl2vl(): every port of a switch */

/**
 * struct ib_sma_end - what the agent itself keeps of an end port
 * @traps: ib_trap_init() by the owner
 * @lease_ns: the M_Key lease runs out then; UINT64_MAX: it does not run
 */
struct ib_sma_end {
	struct ib_trap_queue traps;
	uint64_t lease_ns;
};

/** ib_sma_end_deadline() - when ib_sma_timer() must run for this end port; UINT64_MAX: never */
static inline uint64_t ib_sma_end_deadline(const struct ib_sma_end *end)
{
	uint64_t t = ib_trap_deadline(&end->traps);

	return t < end->lease_ns ? t : end->lease_ns;
}

/**
 * struct ib_sma_port - where the state of a port lies
 * @pi: PortInfo in force
 * @link_due: IB_PI_EFF_LINK_*: what the owner has to do to the link once the answer has left,
 *	and takes back then
 * @pkey: P_Key table, host order; 0: free
 * @num_pkeys: entries of @pkey, whole blocks
 * @arb: VL arbiter with the tables in force
 * @guid: of an end port: GUIDInfo, the first the PortGUID; 0: free
 * @num_guids: entries of @guid, whole blocks
 * @end: of an end port, else NULL
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
 * struct ib_sma_ops - how a node gives its agent what it needs
 * @port: fill in @p for port @num, which exists
 * @sl2vl: the table for packets from @in to @out; in an HCA both are the port. For a Set either of
 *	them may be IB_SMA_ALL_PORTS, port 0 among them, if SwitchInfo says that the switch can do
 *	so (14.2.5.8): what is written there is the table of all of them
 * @changed: a Set has written @what of port @num (of a switch as such: 0): refresh copies,
 *	raise events. Not called for a Set that was refused as a whole
 * @send_trap: send a LID routed SMP from QP0 of end port @num, to the SM LID of its PortInfo,
 *	by its SM SL
 * @set_node_desc: the driver renames the node; NULL: it has no driver
 * @lft: [IB_LFT_PER_BLOCK] ports of block @block, which is below LinearFDBCap; NULL in an HCA
 * @mft: the port mask at @pos of the multicast LID with index @entry, which is below
 *	MulticastFDBCap; NULL in an HCA
 *
 * None of them may call the agent, but ib_sma_trap() may be called from @set_node_desc.
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
 * struct ib_sma - what a node is
 * @ctx: of @ops
 * @sys_guid: SystemImageGUID
 * @desc: NodeDescription, 64 bytes
 * @type: enum ib_node_type; a router answers as an HCA does
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
	uint8_t num_ports;		/* without a switch's port 0 */
	uint8_t type;
	const char *desc;
	struct ib_switch_info *si;
};

/**
 * struct ib_sma_in - how an SMP came
 * @port: by this port
 * @from_wire: in a packet for QP0; false: handed in by the driver, which has done the directed
 *	route's hop rules itself
 * @ignore_mkey: a Get needs no M_Key, and its response does not have it (driver only)
 * @slid: LRH.SLID, for trap 256
 * @now_ns: time
 */
struct ib_sma_in {
	unsigned int port;
	bool from_wire;
	bool ignore_mkey;
	uint16_t slid;
	uint64_t now_ns;
};

/**
 * ib_sma_process() - one SMP, for this node or, at a switch, perhaps for another
 * @smp: a private copy; changed in place as the verdict says. With IB_SMA_UNHANDLED a directed
 *	route may have been moved past its end
 * @out_port: of IB_SMA_FORWARD and IB_SMA_REPLY: the port to send it out of. IB_DR_PORT_BY_LID:
 *	by the LID that the directed route ends in front of, or, of the reply to a request that
 *	came by LIDs, by the SLID of that
 *
 * A trap that the SMP causes is left to ib_sma_timer(). What it wants of links is left to the
 * owner, so that the reply still leaves; it is shown as done already.
 */
enum ib_sma_verdict ib_sma_process(const struct ib_sma *s, const struct ib_sma_in *in,
				   struct ib_smp *smp, uint8_t *out_port);

/**
 * ib_sma_unclaimed() - nobody takes an SMP that was IB_SMA_UNHANDLED
 * @smp: as it came
 * @out_port: as of ib_sma_process()
 *
 * Return: IB_SMA_REPLY with status IB_MAD_BAD_METHOD_ATTR for a Get or Set, else
 * IB_SMA_DISCARD.
 */
enum ib_sma_verdict ib_sma_unclaimed(const struct ib_sma *s, const struct ib_sma_in *in,
				     struct ib_smp *smp, uint8_t *out_port);

/**
 * ib_sma_trap() - raise a trap of end port @num
 * @details: as one of the packers of smp.h wrote
 *
 * Before the port is Active and knows its subnet manager there is nobody to tell, and none.
 * ib_sma_timer() sends it.
 *
 * Return: true if ib_sma_timer() has more to send than before.
 */
bool ib_sma_trap(const struct ib_sma *s, unsigned int num, enum ib_notice_type type,
		 enum ib_trap_num trap, const uint8_t details[54], uint64_t now_ns);

/** ib_sma_deadline() - when ib_sma_timer() must run; UINT64_MAX: never */
uint64_t ib_sma_deadline(const struct ib_sma *s);

/** ib_sma_timer() - send and repeat traps, run out leases */
void ib_sma_timer(const struct ib_sma *s, uint64_t now_ns);

/** ib_sma_count16() - one more violation; such counters stick at the top (14.2.5.6) */
static inline void ib_sma_count16(uint16_t *v)
{
	*v = (uint16_t)(*v + (*v != 0xffff));
}

#endif
