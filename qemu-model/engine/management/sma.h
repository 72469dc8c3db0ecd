/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The HCA's part of its subnet management agent (ib/sma.h).
 *
 * It stores everything that a subnet manager sets at a port: PortInfo, P_Key table, GUIDs, SL to VL
 * mapping and VL arbitration. The engine keeps copies for its data path and refreshes them in
 * @port_changed. It does not access guest memory and does not read a clock: the caller passes the
 * time. It sends only through struct ohca_sma_ops. Only the owner of the engine calls.
 */
#ifndef OHCA_ENGINE_SMA_H
#define OHCA_ENGINE_SMA_H

#include "ib/sma.h"

#define OHCA_SMA_MAX_PORTS	2u
#define OHCA_SMA_PKEYS		128u
#define OHCA_SMA_GUIDS		256u
/* how many traps can wait at a port: struct ib_trap_room */
#define OHCA_TRAP_SLOTS		8u
#define OHCA_TRAP_SECURITY	6u
#define OHCA_TRAP_EACH		5u

/** enum ohca_sma_verdict - numbered as enum ohca_mad_verdict of firmware-if */
enum ohca_sma_verdict {
	OHCA_SMA_UNHANDLED	= 0,	/* deliver the MAD, unchanged, to the driver's QP */
	OHCA_SMA_CONSUMED	= 1,	/* done, no response */
	OHCA_SMA_REPLY		= 2,	/* @out is the response */
};

/** enum ohca_sma_event - asynchronous events of a port, IBTA volume 1, 11.6.3 */
enum ohca_sma_event {
	OHCA_SMA_EV_PORT_ACTIVE,
	OHCA_SMA_EV_PORT_ERR,
	OHCA_SMA_EV_LID_CHANGE,
	OHCA_SMA_EV_PKEY_CHANGE,
	OHCA_SMA_EV_SM_CHANGE,
	OHCA_SMA_EV_CLIENT_REREGISTER,
	OHCA_SMA_EV_GID_CHANGE,
};

/** enum ohca_sma_link - the SMA's request for the physical link */
enum ohca_sma_link {
	OHCA_SMA_LINK_DISABLE,		/* take the link down and keep it down */
	OHCA_SMA_LINK_ENABLE,		/* let it train */
	OHCA_SMA_LINK_BOUNCE,		/* take it down and let it train again */
};

/**
 * struct ohca_sma_ops - functions by which the SMA acts on the engine; ports count from 0
 *
 * The functions below call them. They must not call functions of the SMA, except those whose @s is
 * const.
 */
struct ohca_sma_ops {
	/** @event: raise an asynchronous event for the driver */
	void (*event)(void *ctx, unsigned int port, enum ohca_sma_event ev);
	/** @port_changed: state, LID, P_Keys, GIDs, VLs or MTU changed: refresh copies */
	void (*port_changed)(void *ctx, unsigned int port);
	/**
	 * @send_trap: send a LID routed SMP, QP0 to QP0, on VL15
	 * @dlid, @sl: LID and SL of the subnet manager; @dlid may be the port's own LID
	 * @mad: 256 bytes
	 */
	void (*send_trap)(void *ctx, unsigned int port, uint16_t dlid, uint8_t sl,
			  const uint8_t *mad);
	/** @link: change the physical link; only ohca_sma_timer() calls it */
	void (*link)(void *ctx, unsigned int port, enum ohca_sma_link act);
};

/**
 * struct ohca_sma_cfg - the configuration of the HCA, CPU order
 * @vl_cap: VLCap code 1..5 (1, 2, 4, 8, 15 data VLs)
 */
struct ohca_sma_cfg {
	uint64_t sys_guid;
	uint64_t node_guid;
	uint64_t port_guid[OHCA_SMA_MAX_PORTS];
	uint32_t vendor_id;
	uint16_t device_id;
	uint32_t revision;
	uint8_t num_ports;
	uint8_t width;			/* LinkWidthSupported */
	uint8_t speed;			/* LinkSpeedSupported */
	uint8_t speed_ext;		/* LinkSpeedExtSupported */
	uint8_t mtu_cap;
	uint8_t vl_cap;
	char node_desc[64];
};

/**
 * struct ohca_sma_port - one port; the engine reads it, only the SMA writes it
 * @pi: PortInfo in force
 * @pkey: P_Key table, CPU order; 0: free
 * @guid: GUIDInfo, CPU order; 0: free. GID i is @pi.gid_prefix followed by @guid[i]
 * @sl2vl: SL to VL mapping table
 * @arb: VL arbiter with the tables in force
 * @end: state of traps and M_Key lease
 * @trap: slots of waiting traps
 * @link_due: IB_PI_EFF_LINK_*: changes of the link that the next ohca_sma_timer() makes
 */
struct ohca_sma_port {
	struct ib_port_info pi;
	uint16_t pkey[OHCA_SMA_PKEYS];
	uint64_t guid[OHCA_SMA_GUIDS];
	struct ib_sl2vl sl2vl;
	struct ib_vlarb arb;
	struct ib_sma_end end;
	struct ib_trap trap[OHCA_TRAP_SLOTS];
	uint32_t link_due;
};

struct ohca_sma {
	struct ib_sma agent;
	struct ohca_sma_cfg cfg;
	struct ohca_sma_ops ops;
	void *ctx;
	struct ohca_sma_port port[OHCA_SMA_MAX_PORTS];
};

/**
 * struct ohca_sma_in - how a MAD arrived
 * @port: from 0
 * @from_wire: it was received in a packet for QP0; false: the driver passed it, after it had
 *	applied the hop rules of a directed route itself
 * @ignore_mkey: a Get needs no M_Key, and its response does not contain it (driver only)
 * @slid: SLID of the LRH, for trap 256
 * @now_ns: time of the engine, ns
 */
struct ohca_sma_in {
	unsigned int port;
	bool from_wire;
	bool ignore_mkey;
	uint16_t slid;
	uint64_t now_ns;
};

/** ohca_sma_init() - set the power-on state: links down, no LIDs, default P_Key only */
void ohca_sma_init(struct ohca_sma *s, const struct ohca_sma_cfg *cfg,
		   const struct ohca_sma_ops *ops, void *ctx);

/**
 * ohca_sma_process() - process one SMP
 * @mad: 256 bytes, a private copy; not changed
 * @out: 256 bytes; written only with OHCA_SMA_REPLY
 *
 * The directed route of a reply to a MAD from the wire is complete: send the reply from the same
 * port. Its DLID and SLID are permissive if it is directed, else its DLID is the request's SLID. If
 * the MAD takes the link down, that happens in the next ohca_sma_timer(), so the reply still
 * leaves.
 */
enum ohca_sma_verdict ohca_sma_process(struct ohca_sma *s, const struct ohca_sma_in *in,
				       const uint8_t *mad, uint8_t *out);

/**
 * ohca_sma_unclaimed() - answer a MAD of any class that was OHCA_SMA_UNHANDLED and has no receiver
 *
 * For QPs that no driver has set up.
 *
 * Return: OHCA_SMA_REPLY with status IB_MAD_BAD_METHOD_ATTR in @out for a Get or
 * Set, else OHCA_SMA_CONSUMED.
 */
enum ohca_sma_verdict ohca_sma_unclaimed(const struct ohca_sma *s, const struct ohca_sma_in *in,
					 const uint8_t *mad, uint8_t *out);

/** ohca_sma_link_up() - the link has trained to these active width and speeds */
void ohca_sma_link_up(struct ohca_sma *s, unsigned int port, uint8_t width, uint8_t speed,
		      uint8_t speed_ext);

/** ohca_sma_link_down() - the link went down */
void ohca_sma_link_down(struct ohca_sma *s, unsigned int port);

/** ohca_sma_rx_data() - a data VL packet has arrived: an Armed port becomes Active */
void ohca_sma_rx_data(struct ohca_sma *s, unsigned int port);

/**
 * ohca_sma_modify_caps() - change bits of CapabilityMask for the driver (trap 144)
 * @set, @clr: only IsSM and the class-supported bits have an effect
 */
void ohca_sma_modify_caps(struct ohca_sma *s, unsigned int port, uint32_t set, uint32_t clr,
			  uint64_t now_ns);

/** ohca_sma_set_node_desc() - set NodeDescription, 64 bytes (trap 144) */
void ohca_sma_set_node_desc(struct ohca_sma *s, const char desc[64], uint64_t now_ns);

/** ohca_sma_bad_pkey() - a received packet had a wrong P_Key (counter, trap 257) */
void ohca_sma_bad_pkey(struct ohca_sma *s, unsigned int port, const struct ib_key_violation *v,
		       uint64_t now_ns);

/** ohca_sma_bad_qkey() - a received packet had a wrong Q_Key (counter, trap 258) */
void ohca_sma_bad_qkey(struct ohca_sma *s, unsigned int port, const struct ib_key_violation *v,
		       uint64_t now_ns);

/** ohca_sma_reset_qkey_violations() - set the Q_Key violation counter to 0, for MODIFY_PORT */
void ohca_sma_reset_qkey_violations(struct ohca_sma *s, unsigned int port);

/** ohca_sma_deadline() - when ohca_sma_timer() must run, ns; 0: at once; UINT64_MAX: never */
uint64_t ohca_sma_deadline(const struct ohca_sma *s);

/** ohca_sma_timer() - send and repeat traps, end M_Key leases, change links */
void ohca_sma_timer(struct ohca_sma *s, uint64_t now_ns);

#endif
