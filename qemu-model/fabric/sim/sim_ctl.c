// SPDX-License-Identifier: GPL-2.0-or-later
/* Control messages of clients: attach, and requests for information about their node. */
#include "sim_priv.h"
#include "fabric/graph/names.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The first port of host @n with a link; without @up else its first; FAB_NO_PORT: there is none. */
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

/* Whether the name of host @n begins with @name, or is equal to it. */
static bool host_is_named(const struct fab *f, uint32_t n, const char *name)
{
	return f->node[n].type == IB_NODE_CHANNEL_ADAPTER &&
	       !strncmp(name, f->desc[n].text, SIM_NODEID_LEN - 1);
}

uint32_t fab_sim_find_host(const struct fab *f, const char name[SIM_NODEID_LEN])
{
	char whole[SIM_NODEID_LEN + 1] = "";
	uint32_t n = FAB_NONE;

	memcpy(whole, name, SIM_NODEID_LEN);
	if (name[0])
		n = fab_find_node(f, whole);
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

static void put_node_info(const struct fab *f, uint32_t port, uint8_t d[64])
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

/* Answer, in place, a request of a client at @port for information about its node. */
static void get_info(const struct fab *f, uint32_t port, struct sim_ctl *ctl)
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
		put_node_info(f, port, ctl->data);
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

static bool same_address(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_family == b->sin_family && a->sin_port == b->sin_port &&
	       a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* @from: of a remote client, else NULL */
static void answer_control(struct fab_sim *s, struct sim_ctl *ctl, const struct sockaddr_in *from)
{
	struct sim_connect cc;
	struct sim_client *c;
	uint32_t on;

	if (ctl->type == SIM_CONNECT) {
		memcpy(&cc, ctl->data, sizeof(cc));
		if (fab_sim_attach(s, &cc, from))
			memcpy(ctl->data, &cc, sizeof(cc));
		else
			ctl->type = SIM_ERROR;
		return;
	}
	if (ctl->client >= FAB_SIM_CLIENTS || s->client[ctl->client].fd < 0) {
		ctl->type = SIM_ERROR;
		return;
	}
	c = &s->client[ctl->client];
	if (from ? !same_address(from, &c->remote) : c->remote.sin_family != 0) {
		ctl->type = SIM_ERROR;
		return;
	}
	c->heard_ns = s->now_ns;
	if (ctl->type == SIM_DISCONNECT) {
		fab_sim_detach(s, c);
	} else if (ctl->type == SIM_SET_ISSM) {
		memcpy(&on, ctl->data, sizeof(on));
		c->is_sm = on;
		fab_sim_update_issm(s, c->port);
	} else {
		get_info(s->m->f, c->port, ctl);
	}
}

/*
 * Return: whether @fd has received a request, of the right length. SIM_ERROR is an answer and is
 * never answered: otherwise a datagram with a forged address could make two servers answer each
 * other for ever.
 */
static bool read_ctl(struct fab_sim *s, int fd, struct sim_ctl *ctl, void *from, socklen_t *len)
{
	return fab_sim_recv(s, fd, ctl, sizeof(*ctl), from, len) == sizeof(*ctl) &&
	       ctl->magic == SIM_MAGIC && ctl->type != SIM_ERROR;
}

void fab_sim_read_local(struct fab_sim *s)
{
	struct sockaddr_un from;
	socklen_t len = sizeof(from);
	struct sim_ctl ctl;

	if (!read_ctl(s, s->ctl, &ctl, &from, &len))
		return;
	answer_control(s, &ctl, NULL);
	sendto(s->ctl, &ctl, sizeof(ctl), 0, (struct sockaddr *)&from, len);
}

/* The reply is as long as the request, and is sent to its sender. */
void fab_sim_read_udp(struct fab_sim *s)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct sim_ctl ctl;

	if (!read_ctl(s, s->udp, &ctl, &from, &len) || len != sizeof(from) ||
	    from.sin_family != AF_INET)
		return;
	answer_control(s, &ctl, &from);
	sendto(s->udp, &ctl, sizeof(ctl), 0, (struct sockaddr *)&from, len);
}
