/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The graph of a fabric: nodes, ports, and which port is cabled to which.
 *
 * Two flat arrays hold all of it; a node or a port is an index. Data that most nodes do not have,
 * or that is equal in most of them, is stored elsewhere: forwarding tables grow as far as a subnet
 * manager writes them, and P_Key, SLtoVLMapping and VLArbitration tables are interned (pool.h). So
 * a host costs some hundred bytes, and a subnet of 49,151 LIDs fits into a small process.
 *
 * A graph is filled in with fab_add_node() and fab_cable(), by a topology file or a generator,
 * and then sealed: fab_seal() makes the PortInfo of every port and trains the links. Owner
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
 * Entries of a P_KeyTable at most. OpenSM does not enforce on a switch port whose table is smaller
 * than that of the host it leads to: one block more.
 */
#define FAB_CA_PKEYS	128u
#define FAB_SW_PKEYS	160u
#define FAB_SIM_PKEYS	64u	/* where no machine attaches: as in ibsim */
#define FAB_VLARB_CAP	IB_VLARB_MAX
#define FAB_DATA_VLS	8u	/* unless a fabric has another number */

/**
 * struct fab_node - a switch, channel adapter or router
 * @guid: NodeGUID
 * @sys_guid: SystemImageGUID
 * @first: port *n* is @first + *n*; only a switch has port 0
 * @sw: index of its struct fab_switch, or FAB_NONE
 * @claims: whose GUIDs its agent tells: 0: its own, FAB_NONE: GUID 0, else those of the node before that index
 * @pma: its performance agent once something was set there, else NULL
 * @vendor_id: 24 bits
 * @type: enum ib_node_type
 * @nports: external ports
 * @base_port0: a switch with a base port 0, not an enhanced one
 * @off: it is switched off: its links stay down
 * @empty: only those of its ports have a link whose place a machine has
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

/** struct fab_limit - masks of the widths and speeds that a cable lets through, as of PortInfo */
struct fab_limit {
	uint8_t width;
	uint8_t speed;
	uint8_t speed_ext;
};

#define FAB_TRAPS	4u	/* of a port that may wait: 128 or 144, 129, 256, and one more */

/**
 * struct fab_extra - what few ports ever have: traps, an M_Key lease, alias GUIDs, counters of
 *	other than MADs
 * @port: whose it is
 * @timer: of fab_mgmt.ends
 * @outside: its wire leads out of the process, or it is that of the host whose place is there
 * @remote: a wire to another host's fabric is for it, see remote.h
 * @unplugged: its cable is pulled, see fault.h
 * @limit: of its cable, see fault.h
 * @fault: what its wire does to packets that leave, or NULL
 * @end: of a port with a LID; its traps are in @trap
 * @guid: GUIDInfo, the first the PortGUID
 * @stuck: a bit for each counter of mgmt/counter.h that reads as all ones, see fault.h
 * @ctr: what was counted, without the port's rcv_mads and xmit_mads
 * @pma: bases of all that was counted
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
 * @value: what of its struct ib_pma_port may differ from 0, see bases.c
 *
 * A performance manager may reset the counters of all ports of a large fabric. A rare part for each
 * of them would take 20 times as much memory.
 */
struct fab_mad_bases {
	uint64_t value[FAB_MAD_BASES];
};

/**
 * struct fab_pma - performance agent of a node that was asked to sample
 * @agent: the agent
 * @node: whose it is
 * @timer: of fab_mgmt.samples
 */
struct fab_pma {
	struct ib_pma agent;
	uint32_t node;
	struct fab_timer timer;
};

/**
 * struct fab_port - a port; those of a node follow each other
 * @pi: PortInfo in force. Before fab_seal() only the LID, the LMC and what it supports of
 *	widths and speeds, 0: as the node's other ports
 * @guid: PortGUID of a port with a LID, else 0
 * @rcv_mads, @xmit_mads: packets with a MAD that came and left, all of them of the same length;
 *	of port 0 those of the switch's agents
 * @extra: index in fab.extra, 0: nothing of it was needed yet
 * @peer: port at the other end of the cable, or FAB_NO_PORT
 * @node: its node
 * @sl2vl_set: a subnet manager wrote a table that leads out of it
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

/** struct fab_lids - the unicast LIDs that a switch sends out of a port: the first, and how many */
struct fab_lids {
	uint16_t first;
	uint16_t count;
};

/**
 * struct fab_switch - what only a switch has
 * @si: SwitchInfo
 * @lft: [@lft_blocks] blocks of 64 ports; of LIDs behind them there is no route
 * @mft: [FAB_MFT_CAP / IB_MFT_PER_BLOCK] blocks, or NULL; a block has
 *	[IB_MFT_PER_BLOCK][@mft_positions] masks, NULL: all zero
 * @sl2vl: [(ports + 1) * (ports + 1)] tables in fab.sl2vl by input and output port, or NULL: no
 *	output port has other tables for some input ports than for others
 * @lids: [ports + 1] of what the LinearForwardingTable has, of a switch with a machine; NULL: it
 *	never had one. @lids_old: the table has changed since
 * @subnet: number of its subnet, see subnet.h
 * @adaptive: adaptive routing, see adaptive.h; NULL: it is off
 * @lft_sum: of the LinearForwardingTable when groups for adaptive routing were made last;
 *	@lft_differs: it is another one, and counted in fab.lfts_differ
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
 * struct fab_prefix_route - the way of a router to a subnet in which it has no port, see prefix_route.h
 * @router: its node
 * @prefix: GIDPrefix of the subnet; 0: of each for which the router has no other way
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
 * @cc: [@ports] congestion control of those with a LID, NULL: nothing was set; or NULL: of none
 * @adaptive: switches with adaptive routing; @lfts_differ: those with another
 *	LinearForwardingTable than when groups were made; @turns: [@ports] while groups are made, see mgmt/adaptive.c;
 *	@filled_to: and those of which LIDs were not; @any_order: service levels, a bit for each, whose
 *	packets some switch spreads in any order
 * @vls: data VLs of every port: 1, 2, 4, 8 or 15
 * @mtu: MTU code of every port
 * @site: in bits 32 to 39 of each NodeGUID, so that several fabrics that are joined have GUIDs of their
 *	own; 0 unless the fabric is generated
 * @ca_num_pkeys, @sw_num_pkeys: entries of a P_KeyTable that agents of a host, and of a switch,
 *	have: multiples of IB_PKEYS_PER_BLOCK, FAB_CA_PKEYS and FAB_SW_PKEYS at most. The others
 *	are 0
 * @route: [@routes] of routers
 * @by_guid: nodes by NodeGUID
 * @by_desc: by NodeDescription, of several with the same one the first, once it is sealed
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
 * fab_new() - an empty fabric; FAB_DATA_VLS, MTU 4096, P_KeyTables of the largest size
 *
 * Until a node is added the caller may change these. Return: NULL if out of memory.
 */
struct fab *fab_new(void);

/** fab_free() - free all of it; NULL is none */
void fab_free(struct fab *f);

/**
 * fab_add_node() - one more node, all its ports without a cable
 * @nports: external ports, 1 to FAB_MAX_NODE_PORTS
 * @guid: NodeGUID, which no other node has, without fab.site. PortGUIDs are the same of a switch, and @guid + n
 *	of port n of any other node
 * @desc: NodeDescription, not terminated
 * @len: its length; what is beyond FAB_DESC_LEN is left out
 *
 * Return: its index; FAB_NONE if out of memory, or a limit is reached, or there is one with that
 * GUID.
 */
uint32_t fab_add_node(struct fab *f, enum ib_node_type type, unsigned int nports, uint64_t guid,
		      const char *desc, size_t len);

/** fab_cable() - a cable between ports @a and @b, neither of which has one */
void fab_cable(struct fab *f, uint32_t a, uint32_t b);

/**
 * fab_seal() - the fabric is complete: make every port's PortInfo, train the links
 *
 * A port without a width or speed of its own has the best of its node's others; if there is
 * none, 4x and EDR. Links come up in state Init. Two ends without a common width or speed stay
 * down.
 *
 * Return: false if out of memory.
 */
bool fab_seal(struct fab *f);

/** fab_claimed_guid() - the NodeGUID that the agent of @node tells, see fault.h */
uint64_t fab_claimed_guid(const struct fab *f, uint32_t node);

/** fab_claimed_port_guid() - the PortGUID that it tells of port @p */
uint64_t fab_claimed_port_guid(const struct fab *f, uint32_t p);

/** fab_extra() - the rare part of port @p, made if there is none. Return: NULL if out of memory. */
struct fab_extra *fab_extra(struct fab *f, uint32_t p);

/** fab_extra_init() - rare part of port @p in which nothing has happened yet */
void fab_extra_init(struct fab_extra *x, const struct fab *f, uint32_t p);

/** fab_extra_of() - the rare part of port @p, or NULL */
static inline struct fab_extra *fab_extra_of(const struct fab *f, uint32_t p)
{
	return f->port[p].extra ? f->extra[f->port[p].extra] : NULL;
}

/** fab_bases() - bases of port @p, which has no rare part; pma->ctr is left as it is */
void fab_bases(const struct fab *f, uint32_t p, struct ib_pma_port *pma);

/**
 * fab_keep_bases() - @pma are the bases of port @p of a sealed fabric from now on; the port has no
 *	rare part, and counters of MADs alone were reset
 *
 * Return: false if out of memory: they are as before.
 */
bool fab_keep_bases(struct fab *f, uint32_t p, const struct ib_pma_port *pma);

/** fab_forget_bases() - port @p, which may have a rare part, has none of fab_keep_bases() */
void fab_forget_bases(struct fab *f, uint32_t p);

/** fab_cc_of() - what was set of congestion control at end port @p, or NULL */
static inline struct ib_cc *fab_cc_of(const struct fab *f, uint32_t p)
{
	return f->cc ? f->cc[p] : NULL;
}

/** fab_cc() - the same of a sealed fabric, made if there is none. Return: NULL if out of memory. */
struct ib_cc *fab_cc(struct fab *f, uint32_t p);

/** fab_forget_cc() - nothing was set at end port @p, if anything was */
void fab_forget_cc(struct fab *f, uint32_t p);

/** fab_free_cc() - the same of all ports, whose array goes, too */
void fab_free_cc(struct fab *f);

/** fab_cc_bytes() - memory that it takes */
size_t fab_cc_bytes(const struct fab *f);

/** fab_limit_of() - what the cable at port @p lets through */
static inline struct fab_limit fab_limit_of(const struct fab *f, uint32_t p)
{
	return f->port[p].extra ? f->extra[f->port[p].extra]->limit :
				  (struct fab_limit){ 0xff, 0xff, 0xff };
}

/** fab_outside() - the wire of port @p is not one of the graph, see struct fab_extra */
static inline bool fab_outside(const struct fab *f, uint32_t p)
{
	return f->port[p].extra && f->extra[f->port[p].extra]->outside;
}

/** fab_switch_off() - each link of host @node goes down until a machine has the port's place */
void fab_switch_off(struct fab *f, uint32_t node);

/**
 * fab_reset_node() - forget what managers wrote to @node, and what it has counted
 * Return: false if out of memory.
 */
bool fab_reset_node(struct fab *f, uint32_t node);

/**
 * fab_own_sl2vl() - switch @n has SLtoVLMappingTables for each pair of ports, those of its output ports
 *
 * Nothing changes if it has them already. Return: false if out of memory.
 */
bool fab_own_sl2vl(struct fab *f, const struct fab_node *n);

/** fab_drop_sl2vl() - switch @n has the SLtoVLMappingTables of its output ports again */
void fab_drop_sl2vl(struct fab *f, const struct fab_node *n);

/** fab_may_train() - the cable at port @p is plugged, and the nodes at both ends are on */
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

/** fab_next_switch() - the switch at the other end of the link at port @p; FAB_NONE: there is none */
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

/** fab_bytes() - memory that the fabric takes now, without the allocator's own */
size_t fab_bytes(const struct fab *f);

/**
 * fab_machine_at() - the switch's port at which the machine that has the place of host port @p is
 *
 * Return: FAB_NO_PORT: @p is a switch's, or no machine has its place.
 */
uint32_t fab_machine_at(const struct fab *f, uint32_t p);

/**
 * fab_end_lid() - the LID of end port @p, 0: none
 *
 * The port of a machine is not in the graph: its LID is the first that its switch has a route for.
 */
uint16_t fab_end_lid(const struct fab *f, uint32_t p);

/** fab_end_lmc() - its LMC; that of a machine's port by the LIDs that its switch has a route for */
uint8_t fab_end_lmc(const struct fab *f, uint32_t p);

/**
 * fab_lids_make() - make room for what fab_end_lid() finds of machines at switch @n
 * Return: false: out of memory.
 */
bool fab_lids_make(struct fab *f, const struct fab_node *n);

/** fab_lft_changed() - the LinearForwardingTable of @sw may be another one, or end elsewhere */
void fab_lft_changed(struct fab *f, struct fab_switch *sw);

/** fab_lft_sum() - a number that is another one of another LinearForwardingTable */
uint32_t fab_lft_sum(const struct fab_switch *sw);

#endif
