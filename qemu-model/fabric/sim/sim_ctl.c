// SPDX-License-Identifier: GPL-2.0-or-later
/* What a client of libumad2sim asks about the node that it is at. */
#include "sim_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The first port with a link of host @n, else its first unless @up; FAB_NO_PORT: there is none. */
static uint32_t host_port(const struct fab *f, uint32_t n, bool up)
{
	const struct fab_node *node = &f->node[n];
	uint32_t first = FAB_NO_PORT;

	if (node->off || node->empty)
		return FAB_NO_PORT;
	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t p = fab_port_of(node, i);

		if (fab_outside(f, p))
			continue;
		if (f->port[p].pi.state != IB_PS_DOWN)
			return p;
		if (first == FAB_NO_PORT && !up)
			first = p;
	}
	return first;
}

/* The name of host @n begins with @name, or is it. */
static bool host_is_named(const struct fab *f, uint32_t n, const char *name)
{
	return f->node[n].type == IB_NODE_CHANNEL_ADAPTER &&
	       !strncmp(name, f->desc[n].text, SIM_NODEID_LEN - 1);
}

uint32_t fab_sim_find_host(const struct fab *f, const char name[SIM_NODEID_LEN])
{
	uint64_t guid = 0;
	uint32_t n = FAB_NONE;

	if (sscanf(name, "H-%16" SCNx64, &guid) == 1)
		n = fab_find_guid(f, guid);
	if (n != FAB_NONE && f->node[n].type == IB_NODE_CHANNEL_ADAPTER)
		return host_port(f, n, false);
	for (n = 0; n < f->nodes; n++) {
		if (name[0] && host_is_named(f, n, name))
			return host_port(f, n, false);
		if (!name[0] && f->node[n].type == IB_NODE_CHANNEL_ADAPTER &&
		    host_port(f, n, true) != FAB_NO_PORT)
			return host_port(f, n, true);
	}
	return FAB_NO_PORT;
}

static void node_info(const struct fab *f, uint32_t port, uint8_t d[64])
{
	const struct fab_node *n = &f->node[f->port[port].node];
	const struct ib_node_info ni = {
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_SMP_CLASS_VERSION,
		.node_type = n->type,
		.num_ports = n->nports,
		.sys_guid = n->sys_guid,
		.node_guid = n->guid,
		.port_guid = f->port[port].guid,
		.partition_cap = f->ca_num_pkeys,
		.device_id = n->device_id,
		.revision = 1,
		.local_port = (uint8_t)fab_port_num(f, port),
		.vendor_id = n->vendor_id,
	};

	ib_node_info_pack(&ni, d);
}

void fab_sim_get(const struct fab *f, uint32_t port, struct sim_ctl *ctl)
{
	const struct fab_port *p = &f->port[port];
	const struct fab_node *n = &f->node[p->node];
	const uint8_t num = ctl->data[0];
	const uint16_t *pkeys;
	struct sim_vendor v;

	memset(ctl->data, 0, sizeof(ctl->data));
	switch (ctl->type) {
	case SIM_GET_PORT:
		memcpy(ctl->data, &p->pi.lid, sizeof(p->pi.lid));
		ctl->data[2] = p->pi.state;
		break;
	case SIM_GET_VENDOR:
		v = (struct sim_vendor){ n->vendor_id, n->device_id, 1, 0, 1 };
		memcpy(ctl->data, &v, sizeof(v));
		break;
	case SIM_GET_GID:
		ib_put_be64(ctl->data, p->pi.gid_prefix);
		ib_put_be64(ctl->data + 8, p->guid);
		break;
	case SIM_GET_GUID:
		ib_put_be64(ctl->data, n->guid);
		break;
	case SIM_GET_NODEINFO:
		node_info(f, port, ctl->data);
		break;
	case SIM_GET_PORTINFO:
		if (num && num <= n->nports)
			p = &f->port[fab_port_of(n, num)];
		ib_port_info_pack(&p->pi, ctl->data);
		break;
	case SIM_GET_PKEYS:
		pkeys = fab_pool_at(&f->ca_pkeys, p->pkeys);
		for (unsigned int i = 0; i < IB_PKEYS_PER_BLOCK; i++)
			ib_pkey_block_put(ctl->data, i, pkeys[i]);
		break;
	default:
		ctl->type = SIM_ERROR;
	}
}
