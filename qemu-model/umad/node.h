/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The channel adapter that a process is: one port with its SMA and PMA, and what comes and goes by
 * it. All functions want the lock of wire.h.
 */
#ifndef OHCA_UMAD_NODE_H
#define OHCA_UMAD_NODE_H

#include <infiniband/umad.h>

#include "ib/mad.h"
#include "ib/packet.h"
#include "ib/smp.h"
#include "link/link.h"

#define UM_PKEYS	128u	/* of the port; as many as a machine's has */

/**
 * struct um_node - what programs ask about the node
 * @guid: NodeGUID and SystemImageGUID, host byte order; that of the port is one more
 * @desc: NodeDescription
 * @pi: PortInfo
 * @pkey: P_KeyTable
 */
struct um_node {
	uint64_t guid;
	char desc[IB_SMP_DATA_LEN];
	struct ib_port_info pi;
	uint16_t pkey[UM_PKEYS];
};

extern struct um_node um_node;

/** um_node_init() - as after power-on, with @guid and @desc */
void um_node_init(uint64_t guid, const char *desc);

/** um_node_link_cfg() - the node's HELLO */
void um_node_link_cfg(struct ohca_link_cfg *cfg);

/** um_node_link_up() - the link has trained */
void um_node_link_up(const struct ohca_link_state *st, const struct ohca_link_cfg *peer);

/** um_node_link_down() - the link is down, or there is none */
void um_node_link_down(void);

/** um_node_phy() - what the subnet manager lets the link do. Return: whether @phy is news */
bool um_node_phy(struct ohca_link_phy *phy);

/**
 * um_node_receive() - a packet has come
 * @pkt: a copy, from the LRH
 * @len: bytes
 */
void um_node_receive(const uint8_t *pkt, size_t len);

/** um_node_damaged() - what has come is no packet; @remote: an earlier port says so */
void um_node_damaged(bool remote);

/** um_node_send() - an agent's MAD; a lost one is lost */
void um_node_send(const ib_mad_addr_t *to, const struct ib_mad *mad);

/** um_node_set_sm() - whether a subnet manager is here: PortInfo says so, and trap 144 */
void um_node_set_sm(bool is_sm);

/** um_node_timer() - traps and samples; Return: when to call again, INT64_MAX: not by itself */
int64_t um_node_timer(int64_t now_ns);

#endif
