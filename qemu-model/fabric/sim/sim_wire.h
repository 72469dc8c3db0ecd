/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages of libumad2sim, as of ibsim 0.12; see umad2sim.h. */
#ifndef OHCA_FABRIC_SIM_WIRE_H
#define OHCA_FABRIC_SIM_WIRE_H

#include "fabric/graph/graph.h"

#define SIM_MAGIC	0xdeadbeefu
#define SIM_NODEID_LEN	32u

/**
 * enum sim_ctl_type - sim_ctl.type; SIM_ERROR is the answer to a refused request, and is not
 *	answered
 */
enum sim_ctl_type {
	SIM_ERROR,
	SIM_CONNECT,
	SIM_DISCONNECT,
	SIM_GET_PORT,
	SIM_GET_VENDOR,
	SIM_GET_GID,
	SIM_GET_GUID,
	SIM_GET_NODEINFO,
	SIM_GET_PORTINFO,
	SIM_SET_ISSM,
	SIM_GET_PKEYS,
};

/**
 * struct sim_ctl - a control message, which is answered in place
 * @client: number of the client, from the answer to SIM_CONNECT
 * @len: valid bytes of @data; ignored
 */
struct sim_ctl {
	uint32_t magic;
	uint32_t client;
	uint32_t type;
	uint32_t len;
	uint8_t data[64];
};
static_assert(sizeof(struct sim_ctl) == 80, "control message");

/**
 * struct sim_connect - data of SIM_CONNECT
 * @id: process of the client, whose socket is in<id>; in the answer the client's number
 * @qp: ignored
 * @issm: it is a subnet manager
 * @nodeid: SIM_HOST of the client; in the answer H- and the NodeGUID
 */
struct sim_connect {
	uint32_t id;
	uint32_t qp;
	uint32_t issm;
	char nodeid[SIM_NODEID_LEN];
};

/** struct sim_vendor - data of the answer to SIM_GET_VENDOR */
struct sim_vendor {
	uint32_t vendor_id;
	uint32_t part_id;
	uint32_t hw_ver;
	uint32_t pad;
	uint64_t fw_ver;
};

/**
 * struct sim_mad - a MAD to or from a client
 * @dlid, @slid: LIDs, 16 bits in network order, in the low half of a word in host order
 * @status: to a client: 0, or an errno of a request that will not be answered
 * @length: bytes of @mad
 */
struct sim_mad {
	uint32_t dlid;
	uint32_t slid;
	__be32 dqp;
	__be32 sqp;
	__be32 status;
	uint32_t pad;
	__be64 length;
	struct ib_mad mad;
};
static_assert(sizeof(struct sim_mad) == 288, "MAD of a client");

/**
 * fab_sim_find_host() - find the port to which a client attaches
 * @name: terminated: H- and the NodeGUID in hexadecimal, or a NodeDescription, cut to what fits;
 *	empty: the first host with a link
 *
 * Hosts that a machine replaces, or that are switched off, are not found.
 *
 * Return: the first port with a link of the channel adapter with that name, else its first;
 * FAB_NO_PORT if there is none.
 */
uint32_t fab_sim_find_host(const struct fab *f, const char name[SIM_NODEID_LEN]);

#endif
