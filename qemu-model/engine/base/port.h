/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The data path's copy of a port: state, LID, P_Keys, GIDs, counters.
 *
 * States (IBTA vol 1, 7.2.7):
 *
 *	         the link trains         PortInfo              PortInfo, or a data packet
 *	 DOWN ------------------> INIT ----------> ARMED ------------------------------> ACTIVE
 *	   ^                       |                 |                                      |
 *	   +-----------------------+-----------------+--------------------------------------+
 *	                the link goes down, or PortInfo takes the port down
 *
 * INIT sends and receives VL15 packets only. ARMED also receives data packets. ACTIVE also sends
 * them.
 */
#ifndef OHCA_BASE_PORT_H
#define OHCA_BASE_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/async.h"
#include "engine/base/limits.h"
#include "ib/packet.h"
#include "ib/pma.h"

/**
 * struct ohca_port - one port
 * @pkey: P_Key table in force, CPU order; @gid: GID table, as on the wire
 * @num_gids: one past the index of the last valid GID, which bounds searches
 * @cnt: counters that the PMA reads (ib/pma.h)
 *
 * This is the data path's copy. The SMA (management/sma.h) has the original, and port_update() in
 * mad.c refreshes the copy after every change.
 */
struct ohca_port {
	uint8_t state;		/* 1 Down, 2 Init, 3 Armed, 4 Active */
	bool link_up;
	uint16_t lid;		/* 0: none yet */
	uint8_t lmc;
	uint8_t mtu;		/* NeighborMTU, 1 to 5 */
	uint8_t op_vls;		/* number of data VLs in use */
	uint32_t mbps;		/* rate of the link, as it trained last, Mbit/s */
	uint8_t sl2vl[16];
	uint16_t num_pkeys;
	uint16_t pkey[OHCA_MAX_PKEYS];
	uint16_t num_gids;
	uint8_t gid_valid[OHCA_MAX_GIDS];
	uint8_t gid[OHCA_MAX_GIDS][16];
	struct ohca_port_counters cnt;
	struct ohca_async async;
};

/* The SLID of packets with these path bits; bits beyond LMC are ignored (4.1.3). */
static inline uint16_t ohca_port_slid(const struct ohca_port *port, uint8_t path_bits)
{
	return port->lid | (path_bits & ((1u << port->lmc) - 1));
}

/* Whether the P_Key of a packet matches the one at @index of the port's table (10.9.3). */
static inline bool ohca_pkey_accepts(const struct ohca_port *port, uint16_t index, uint16_t pkey)
{
	return index < port->num_pkeys && ib_pkey_match(pkey, port->pkey[index]);
}

/* Index of the port's GID that accepts @dgid, also with the default subnet prefix; or -1. */
static inline int ohca_gid_accepts(const struct ohca_port *port, const uint8_t dgid[16])
{
	for (unsigned int i = 0; i < port->num_gids; i++)
		if (port->gid_valid[i] && ib_gid_is(dgid, port->gid[i]))
			return (int)i;
	return -1;
}

/* Index of a GID of the port, or -1. */
static inline int ohca_gid_find(const struct ohca_port *port, const uint8_t gid[16])
{
	for (unsigned int i = 0; i < port->num_gids; i++)
		if (port->gid_valid[i] && memcmp(port->gid[i], gid, 16) == 0)
			return (int)i;
	return -1;
}

#endif /* OHCA_BASE_PORT_H */
