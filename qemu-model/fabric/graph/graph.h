/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The graph of a fabric: nodes, ports, and the cables between ports.
 *
 * Two flat arrays contain it; a node or a port is an index. Data that most nodes do not have, or
 * that is equal in most of them, is stored elsewhere: forwarding tables grow as far as a subnet
 * manager writes them, and P_Key, SLtoVLMapping and VLArbitration tables are interned (pool.h). So
 * a host costs some hundred bytes, and a subnet of 49,151 LIDs fits into a small process.
 *
 * A graph is filled in with fab_add_node() and fab_cable(), by a topology file or a generator,
 * and then sealed: fab_seal() sets the PortInfo of every port and trains the links. Owner
 * thread only.
 */
#ifndef OHCA_FABRIC_GRAPH_H
#define OHCA_FABRIC_GRAPH_H

#include "fabric/base/timers.h"
#include "hash.h"
#include "ib/cc.h"
#include "ib/pma_agent.h"
#include "ib/portinfo.h"
#include "ib/sma.h"
#include "ib/smp.h"
#include "pool.h"

#define FAB_MAX_NODES	65536u		/* more than there are unicast LIDs */
#define FAB_MAX_PORTS	2097152u
#define FAB_MAX_NODE_PORTS 254u		/* 255 means "none" or "all" */
#define FAB_DESC_LEN	IB_SMP_DATA_LEN
#define FAB_NO_PORT	0u		/* peer of a port without a cable */

#define FAB_LFT_CAP	49152u		/* LinearFDBCap: every unicast LID */
#define FAB_MFT_CAP	4096u		/* MulticastFDBCap */
/*
 * Maximum entries of a P_KeyTable. OpenSM enables no enforcement at a switch port whose table is
 * smaller than that of its host, so a switch has one block more.
 */
#define FAB_CA_PKEYS	128u
#define FAB_SW_PKEYS	160u
#define FAB_SIM_PKEYS	64u	/* if no machine can attach: as in ibsim */
#define FAB_VLARB_CAP	IB_VLARB_MAX
#define FAB_DATA_VLS	8u	/* default of a fabric */

/**
 * struct fab_node - a switch, channel adapter or router
 * @guid: NodeGUID
 * @sys_guid: SystemImageGUID
 * @first: port *n* is @first + *n*; only a switch has port 0
 * @sw: index of its struct fab_switch, or FAB_NONE
 * @claims: GUIDs that its agent reports: 0: its own, FAB_NONE: GUID 0, else those of node @claims -
 *	1
 * @pma: its performance agent once something was set there, else NULL
 * @vendor_id: 24 bits
 * @type: enum ib_node_type
 * @nports: external ports
 * @base_port0: a switch with a base port 0, not an enhanced one
 * @off: it is switched off: its links stay down
 * @empty: only ports that a machine replaces have a link
 */
struct fab_node {
	uint64_t guid;
	uint64_t sys_guid;
	uint32_t first;
	uint32_t sw;
	uint32_t claims;
	struct fab_pma *pma;
	uint32_t vendor_id;
	uint16_t device_id;
	uint8_t type;
	uint8_t nports;
	bool base_port0;
	bool off;
	bool empty;
};

struct fab_adaptive;
struct fab_fault;

/** struct fab_limit - masks of the widths and speeds that a cable supports, as of PortInfo */
struct fab_limit {
	uint8_t width;
	uint8_t speed;
	uint8_t speed_ext;
};

#define FAB_TRAPS	4u	/* pending traps of a port: 128 or 144, 129, and two of 256 to 259 */

/**
 * struct fab_extra - rare part of a port, which few ports have: traps, an M_Key lease, alias GUIDs,
 *	counters of packets other than MADs
 * @port: the port
 * @timer: of fab_mgmt.ends
 * @outside: its wire leaves the process, or it is the port of a host that is replaced
 * @remote: it is for a wire to another host's fabric, see remote.h
 * @unplugged: its cable is pulled, see fault.h
 * @limit: of its cable, see fault.h
 * @fault: effects of its wire on packets that leave, or NULL
 * @end: state of a port with a LID; its traps are in @trap
 * @guid: GUIDInfo, the first the PortGUID
 * @stuck: a bit for each counter of mgmt/counter.h that reads as all ones, see fault.h
 * @ctr: counters, without the port's rcv_mads and xmit_mads
 * @pma: bases of all counters
 */
struct fab_extra {
	uint32_t port;
	uint32_t stuck;
	bool outside;
	bool remote;
	bool unplugged;
	struct fab_limit limit;
	struct fab_fault *fault;
	struct fab_timer timer;
	struct ib_sma_end end;
	struct ib_trap trap[FAB_TRAPS];
	uint64_t guid[IB_GUIDS_PER_BLOCK];
	struct ohca_port_counters ctr;
	struct ib_pma_port pma;
};

#define FAB_MAD_BASES	14u

/**
 * struct fab_mad_bases - bases of a port without a rare part, which has counted MADs only
 * @value: the members of its struct ib_pma_port that may differ from 0, see bases.c
 *
 * A performance manager may reset the counters of all ports of a large fabric. A rare part for each
 * of them would need 20 times as much memory.
 */
struct fab_mad_bases {
	uint64_t value[FAB_MAD_BASES];
};

/**
 * struct fab_pma - performance agent of a node at which something was set
 * @agent: the agent
 * @node: its node
 * @timer: of fab_mgmt.samples
 */
struct fab_pma {
	struct ib_pma agent;
	uint32_t node;
	struct fab_timer timer;
};

/**
 * struct fab_port - a port; those of a node follow each other
 * @pi: PortInfo in force. Before fab_seal() only the LID, the LMC and the supported widths and
 *	speeds, 0: as the node's other ports
 * @guid: PortGUID of a port with a LID, else 0
 * @rcv_mads, @xmit_mads: MAD packets that were received and sent, all of them of the same length;
 *	of port 0 those of the switch's agents
 * @extra: index in fab.extra, 0: it has no rare part yet
 * @peer: port at the other end of the cable, or FAB_NO_PORT
 * @node: its node
 * @sl2vl_set: a subnet manager has written a table for this output
 * @pkeys: P_Key table, in fab.ca_pkeys or fab.sw_pkeys
 * @sl2vl: SLtoVLMappingTable, in fab.sl2vl; of a switch's port, for packets from any port, until
 *	struct fab_switch has tables of its own
 * @vlarb: VLArbitrationTables, in fab.vlarb
 */
struct fab_port {
	struct ib_port_info pi;
	uint64_t guid;
	uint64_t rcv_mads;
	uint64_t xmit_mads;
	uint32_t extra;
	uint32_t peer;
	uint32_t node : 31;
	uint32_t sl2vl_set : 1;
	uint32_t pkeys;
	uint32_t sl2vl;
	uint32_t vlarb;
};
static_assert(sizeof(struct fab_port) == 128, "a port is the most of a large fabric");

/** struct fab_lids - the unicast LIDs that a switch sends by a port: the first, and their number */
struct fab_lids {
	uint16_t first;
	uint16_t count;
};

/**
 * struct fab_switch - data that only a switch has
 * @si: SwitchInfo
 * @lft: [@lft_blocks] blocks of 64 ports; later LIDs have no route
 * @mft: [FAB_MFT_CAP / IB_MFT_PER_BLOCK] blocks, or NULL; a block has
 *	[IB_MFT_PER_BLOCK][@mft_positions] masks, NULL: all zero
 * @sl2vl: [(ports + 1) * (ports + 1)] tables in fab.sl2vl by input and output port, or NULL: the
 *	table of each output port is the same for all input ports
 * @lids: [ports + 1] LIDs by port in the LinearForwardingTable, if a machine was ever at the
 *	switch; else NULL. @lids_old: the table has changed since
 * @subnet: number of its subnet, see subnet.h
 * @adaptive: adaptive routing, see adaptive.h; NULL: it is off
 * @lft_sum: checksum of the LinearForwardingTable with which groups for adaptive routing were made;
 *	@lft_differs: the table has changed, and is counted in fab.lfts_differ
 */
struct fab_switch {
	struct ib_switch_info si;
	uint16_t lft_blocks;
	uint8_t mft_positions;
	uint8_t *lft;
	uint16_t **mft;
	uint32_t *sl2vl;
	struct fab_lids *lids;
	bool lids_old;
	struct fab_adaptive *adaptive;
	uint32_t subnet;
	uint32_t lft_sum;
	bool lft_differs;
};

#define FAB_PREFIX_ROUTES 64u

/**
 * struct fab_prefix_route - route of a router to a subnet in which it has no port, see
 *	prefix_route.h
 * @router: its node
 * @prefix: GIDPrefix of the subnet; 0: default route of the router
 * @next: port of another router, in a subnet of both
 */
struct fab_prefix_route {
	uint32_t router;
	uint32_t next;
	uint64_t prefix;
};

/** struct fab_desc - NodeDescription, padded with zeros */
struct fab_desc {
	char text[FAB_DESC_LEN];
};

/**
 * struct fab - a fabric
 * @node: [@nodes]
 * @desc: [@nodes]
 * @port: [@ports]; the first, FAB_NO_PORT, is not used
 * @sw: [@switches]
 * @extra: [@extras]; the first is NULL
 * @bases: [@ports], or NULL: no port without a rare part has any
 * @cc: [@ports] congestion control settings of ports with a LID, NULL: none; or NULL: no port has
 *	any
 * @adaptive: number of switches with adaptive routing
 * @lfts_differ: number of these whose LinearForwardingTable has changed since groups were made
 * @turns: [@ports] while groups are made, see mgmt/adaptive.c; @filled_to: the first LID whose
 *	groups are not made yet
 * @any_order: service levels, a bit for each, whose packets some switch spreads in any order
 * @vls: data VLs of every port: 1, 2, 4, 8 or 15
 * @mtu: MTU code of every port
 * @site: in bits 32 to 39 of each NodeGUID, so that several fabrics that are joined have different
 *	GUIDs; 0 unless the fabric is generated
 * @ca_num_pkeys, @sw_num_pkeys: entries of a P_KeyTable of a host, and of a switch, that agents
 *	show: multiples of IB_PKEYS_PER_BLOCK, FAB_CA_PKEYS and FAB_SW_PKEYS at most. The others are
 *	0
 * @route: [@routes] routes of routers
 * @by_guid: nodes by NodeGUID
 * @by_desc: nodes by NodeDescription, the first of several with the same one, once it is sealed
 * @by_port_guid: ports by PortGUID, once it is sealed
 */
struct fab {
	struct fab_node *node;
	struct fab_desc *desc;
	struct fab_port *port;
	struct fab_switch *sw;
	uint32_t nodes, nodes_cap;
	uint32_t ports, ports_cap;
	uint32_t switches, switches_cap;
	uint32_t extras, extras_cap;
	struct fab_extra **extra;
	struct fab_mad_bases *bases;
	struct ib_cc **cc;
	uint32_t adaptive, lfts_differ;
	uint64_t (*turns)[4];
	uint32_t filled_to;
	uint16_t any_order;
	uint8_t vls;
	uint8_t mtu;
	uint8_t site;
	uint16_t ca_num_pkeys;
	uint16_t sw_num_pkeys;
	struct fab_prefix_route route[FAB_PREFIX_ROUTES];
	uint32_t routes;
	struct fab_hash by_guid;
	struct fab_hash by_desc;
	struct fab_hash by_port_guid;
	struct fab_pool ca_pkeys;
	struct fab_pool sw_pkeys;
	struct fab_pool sl2vl;
	struct fab_pool vlarb;
};

/**
 * fab_new() - create an empty fabric; FAB_DATA_VLS, MTU 4096, P_KeyTables of the largest size
 *
 * Until a node is added the caller may change these. Return: NULL if out of memory.
 */
struct fab *fab_new(void);

/** fab_free() - free the fabric; NULL does nothing */
void fab_free(struct fab *f);

/**
 * fab_add_node() - add a node; its ports have no cables yet
 * @nports: external ports, 1 to FAB_MAX_NODE_PORTS
 * @guid: NodeGUID, which no other node has, without fab.site. PortGUIDs are the same for a switch,
 *	and @guid + n for port n of any other node
 * @desc: NodeDescription, not terminated
 * @len: its length; bytes beyond FAB_DESC_LEN are left out
 *
 * Return: its index; FAB_NONE if out of memory, or a limit is reached, or a node has that GUID
 * already.
 */
uint32_t fab_add_node(struct fab *f, enum ib_node_type type, unsigned int nports, uint64_t guid,
		      const char *desc, size_t len);

/** fab_cable() - connect ports @a and @b, neither of which has a cable */
void fab_cable(struct fab *f, uint32_t a, uint32_t b);

/**
 * fab_seal() - complete the fabric: set every port's PortInfo, train the links
 *
 * A port without a width or speed of its own has the best of its node's others; if there is
 * none, 4x and EDR. Links come up in state Init. Two ends without a common width or speed stay
 * down.
 *
 * Return: false if out of memory.
 */
bool fab_seal(struct fab *f);

/** fab_claimed_guid() - the NodeGUID that the agent of @node reports, see fault.h */
uint64_t fab_claimed_guid(const struct fab *f, uint32_t node);

/** fab_claimed_port_guid() - the PortGUID that it reports for port @p */
uint64_t fab_claimed_port_guid(const struct fab *f, uint32_t p);

/** fab_extra() - get or create the rare part of port @p. Return: NULL if out of memory. */
struct fab_extra *fab_extra(struct fab *f, uint32_t p);

/** fab_extra_init() - initialise a rare part of port @p */
void fab_extra_init(struct fab_extra *x, const struct fab *f, uint32_t p);

/** fab_extra_of() - the rare part of port @p, or NULL */
static inline struct fab_extra *fab_extra_of(const struct fab *f, uint32_t p)
{
	return f->port[p].extra ? f->extra[f->port[p].extra] : NULL;
}

/** fab_bases() - fill in the bases of port @p, which has no rare part; pma->ctr is not changed */
void fab_bases(const struct fab *f, uint32_t p, struct ib_pma_port *pma);

/**
 * fab_keep_bases() - store the bases @pma of port @p of a sealed fabric; the port has no
 *	rare part, and only counters of MADs were reset
 *
 * Return: false if out of memory: they are unchanged.
 */
bool fab_keep_bases(struct fab *f, uint32_t p, const struct ib_pma_port *pma);

/** fab_forget_bases() - remove the bases of fab_keep_bases() of port @p, if it has any */
void fab_forget_bases(struct fab *f, uint32_t p);

/** fab_cc_of() - congestion control settings of end port @p, or NULL */
static inline struct ib_cc *fab_cc_of(const struct fab *f, uint32_t p)
{
	return f->cc ? f->cc[p] : NULL;
}

/** fab_cc() - get or create them, in a sealed fabric. Return: NULL if out of memory. */
struct ib_cc *fab_cc(struct fab *f, uint32_t p);

/** fab_forget_cc() - remove the settings of end port @p, if there are any */
void fab_forget_cc(struct fab *f, uint32_t p);

/** fab_free_cc() - remove the settings of all ports, and free the array */
void fab_free_cc(struct fab *f);

/** fab_cc_bytes() - bytes of their memory */
size_t fab_cc_bytes(const struct fab *f);

/** fab_limit_of() - widths and speeds that the cable at port @p supports */
static inline struct fab_limit fab_limit_of(const struct fab *f, uint32_t p)
{
	return f->port[p].extra ? f->extra[f->port[p].extra]->limit :
				  (struct fab_limit){ 0xff, 0xff, 0xff };
}

/** fab_outside() - whether the wire of port @p is not one of the graph, see struct fab_extra */
static inline bool fab_outside(const struct fab *f, uint32_t p)
{
	return f->port[p].extra && f->extra[f->port[p].extra]->outside;
}

/** fab_switch_off() - take each link of host @node down until a machine replaces the port */
void fab_switch_off(struct fab *f, uint32_t node);

/**
 * fab_reset_node() - clear what managers wrote to @node, and its counters
 * Return: false if out of memory.
 */
bool fab_reset_node(struct fab *f, uint32_t node);

/**
 * fab_own_sl2vl() - give switch @n SLtoVLMappingTables for each pair of ports, equal to those of
 *	its output ports
 *
 * Does nothing if it has them already. Return: false if out of memory.
 */
bool fab_own_sl2vl(struct fab *f, const struct fab_node *n);

/**
 * fab_drop_sl2vl() - remove these tables of switch @n: those of its output ports are valid again
 */
void fab_drop_sl2vl(struct fab *f, const struct fab_node *n);

/** fab_may_train() - whether the cable at port @p is plugged, and the nodes at both ends are on */
bool fab_may_train(const struct fab *f, uint32_t p);

/** fab_link_up() - train the link of port @p and its peer. Return: false: it stays down. */
bool fab_link_up(struct fab *f, uint32_t p);

/** fab_vl_code() - VLCap code of @vls data VLs, or of the next smaller number that has one */
uint8_t fab_vl_code(unsigned int vls);

/** fab_made_guid() - NodeGUID number @n, from 1, for a node without its own; @n below 2^24 */
static inline uint64_t fab_made_guid(enum ib_node_type type, uint32_t n)
{
	return 0x5254000000000000ull | (uint64_t)type << 40 | (uint64_t)n << 8;
}

/** fab_port_of() - index of port @num of @node, which has it */
static inline uint32_t fab_port_of(const struct fab_node *node, unsigned int num)
{
	return node->first + num;
}

/**
 * fab_next_switch() - the switch at the other end of the link at port @p; FAB_NONE: there is none
 */
static inline uint32_t fab_next_switch(const struct fab *f, uint32_t p)
{
	const uint32_t peer = f->port[p].peer;
	uint32_t node;

	if (peer == FAB_NO_PORT || f->port[p].pi.state == IB_PS_DOWN)
		return FAB_NONE;
	node = f->port[peer].node;
	return f->node[node].sw != FAB_NONE ? node : FAB_NONE;
}

/** fab_sl2vl() - table for packets from port @in to port @out of node @n */
static inline const struct ib_sl2vl *fab_sl2vl(const struct fab *f, const struct fab_node *n,
					       unsigned int in, unsigned int out)
{
	const uint32_t *t = n->sw != FAB_NONE ? f->sw[n->sw].sl2vl : NULL;

	return fab_pool_at(&f->sl2vl, t ? t[in * (n->nports + 1u) + out] :
				      f->port[fab_port_of(n, out)].sl2vl);
}

/** fab_port_num() - number of port @p in its node */
static inline unsigned int fab_port_num(const struct fab *f, uint32_t p)
{
	return p - f->node[f->port[p].node].first;
}

/** fab_first_num() - number of a node's first port */
static inline unsigned int fab_first_num(const struct fab_node *node)
{
	return node->type == IB_NODE_SWITCH_DEVICE ? 0 : 1;
}

/** fab_last_end() - number of its last port with a GUID and LIDs: a switch has port 0 alone */
static inline unsigned int fab_last_end(const struct fab_node *node)
{
	return node->type == IB_NODE_SWITCH_DEVICE ? 0 : node->nports;
}

/** fab_bytes() - bytes of memory of the fabric, without the allocator's own */
size_t fab_bytes(const struct fab *f);

/**
 * fab_machine_at() - the switch's port at which a machine replaces host port @p
 *
 * Return: FAB_NO_PORT: @p is a switch's, or no machine replaces it.
 */
uint32_t fab_machine_at(const struct fab *f, uint32_t p);

/**
 * fab_end_lid() - the LID of end port @p, 0: none
 *
 * The port of a machine is not in the graph: its LID is the first for which its switch has a route.
 */
uint16_t fab_end_lid(const struct fab *f, uint32_t p);

/** fab_end_lmc() - its LMC; for a machine's port by the LIDs for which its switch has a route */
uint8_t fab_end_lmc(const struct fab *f, uint32_t p);

/**
 * fab_lids_make() - allocate what fab_end_lid() needs for machines at switch @n
 * Return: false: out of memory.
 */
bool fab_lids_make(struct fab *f, const struct fab_node *n);

/** fab_lft_changed() - the LinearForwardingTable of @sw, or its length, may have changed */
void fab_lft_changed(struct fab *f, struct fab_switch *sw);

/** fab_lft_sum() - a checksum of the LinearForwardingTable */
uint32_t fab_lft_sum(const struct fab_switch *sw);

#endif
