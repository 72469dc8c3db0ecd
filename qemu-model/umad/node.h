/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The channel adapter of a process: one port with its SMA and PMA, and the packets that it receives
 * and sends. All functions need the lock of wire.h.
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
 * struct um_node - attributes of the node for programs
 * @guid: NodeGUID and SystemImageGUID, host byte order; the PortGUID is one more
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

/** um_node_init() - set the state after power-on, with @guid and @desc */
void um_node_init(uint64_t guid, const char *desc);

/** um_node_link_cfg() - fill in the node's HELLO */
void um_node_link_cfg(struct ohca_link_cfg *cfg);

/** um_node_link_up() - the link has trained */
void um_node_link_up(const struct ohca_link_state *st, const struct ohca_link_cfg *peer);

/** um_node_link_down() - the link is down, or there is none */
void um_node_link_down(void);

/** um_node_phy() - settings of the link by the subnet manager. Return: whether @phy has changed */
bool um_node_phy(struct ohca_link_phy *phy);

/**
 * um_node_receive() - process a received packet
 * @pkt: a copy, from the LRH
 * @len: bytes
 */
void um_node_receive(const uint8_t *pkt, size_t len);

/** um_node_damaged() - count a damaged packet; @remote: an earlier port has marked it */
void um_node_damaged(bool remote);

/** um_node_send() - send an agent's MAD; it may be lost */
void um_node_send(const ib_mad_addr_t *to, const struct ib_mad *mad);

/** um_node_set_sm() - set whether a subnet manager is here: PortInfo, and trap 144 */
void um_node_set_sm(bool is_sm);

/** um_node_timer() - traps and samples. Return: when to call again, INT64_MAX: not needed */
int64_t um_node_timer(int64_t now_ns);

#endif
