// SPDX-License-Identifier: GPL-2.0-or-later
/* libibumad's functions about devices: there is one, with the process's port; see umad.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/umad.h>

#include "ib/rate.h"
#include "issm.h"
#include "node.h"
#include "wire.h"

#define CA	"ohca_umad0"

/* A program requests no name, or the one that it got from this library. */
static bool is_ours(const char *ca_name, int portnum)
{
	return (!ca_name || !strcmp(ca_name, CA)) && (portnum == UMAD_ANY_PORT || portnum == 1);
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	if (max < 1)
		return 0;
	strcpy(cas[0], CA);
	return 1;
}

struct umad_device_node *umad_get_ca_device_list(void)
{
	struct umad_device_node *node = calloc(1, sizeof(*node));

	if (node)
		node->ca_name = CA;
	return node;
}

void umad_free_ca_device_list(struct umad_device_node *head)
{
	free(head);
}

int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max)
{
	if (!max)
		return 0;
	memset(&cas[0], 0, sizeof(cas[0]));
	strcpy(cas[0].smi_name, CA);
	strcpy(cas[0].gsi_name, CA);
	cas[0].smi_preferred_port = 1;
	cas[0].gsi_preferred_port = 1;
	return 1;
}

int umad_get_smi_gsi_pair_by_ca_name(const char *devname, uint8_t portnum,
				     struct umad_ca_pair *ca_pair, unsigned int enforce_smi)
{
	(void)enforce_smi;
	if (devname && !*devname)
		devname = NULL;
	if (!is_ours(devname, portnum))
		return -ENODEV;
	return umad_get_smi_gsi_pairs(ca_pair, 1) == 1 ? 0 : -ENODEV;
}

/* Gb/s as in sysfs: a whole number. */
static unsigned int port_rate(const struct ib_port_info *pi)
{
	return ib_link_mbps(pi->width_active, pi->speed_active, pi->speed_ext_active) / 1000;
}

static void fill_port(umad_port_t *port)
{
	const struct ib_port_info *pi = &um_node.pi;

	strcpy(port->ca_name, CA);
	strcpy(port->link_layer, "InfiniBand");
	port->portnum = 1;
	port->base_lid = pi->lid;
	port->lmc = pi->lmc;
	port->sm_lid = pi->sm_lid;
	port->sm_sl = pi->sm_sl;
	port->state = pi->state;
	port->phys_state = pi->phys_state;
	port->rate = port_rate(pi);
	port->capmask = ib_to_be32(pi->cap_mask);
	port->gid_prefix = ib_to_be64(pi->gid_prefix);
	port->port_guid = ib_to_be64(um_node.guid + 1);
	port->pkeys_size = UM_PKEYS;
	memcpy(port->pkeys, um_node.pkey, sizeof(um_node.pkey));
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	if (!is_ours(ca_name, portnum))
		return -ENODEV;
	if (um_wire_open())
		return -EIO;
	memset(port, 0, sizeof(*port));
	port->pkeys = malloc(sizeof(um_node.pkey));
	if (!port->pkeys)
		return -ENOMEM;
	um_lock();
	fill_port(port);
	um_unlock();
	return 0;
}

int umad_release_port(umad_port_t *port)
{
	free(port->pkeys);
	port->pkeys = NULL;
	return 0;
}

int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	umad_port_t *port;
	int r;

	if (!is_ours(ca_name, 1))
		return -ENODEV;
	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	r = umad_get_port(CA, 1, port);
	if (r) {
		free(port);
		return r;
	}
	memset(ca, 0, sizeof(*ca));
	strcpy(ca->ca_name, CA);
	strcpy(ca->ca_type, "ohca-umad");
	ca->node_type = IB_NODE_CHANNEL_ADAPTER;
	ca->numports = 1;
	ca->node_guid = ib_to_be64(um_node.guid);
	ca->system_guid = ca->node_guid;
	ca->ports[1] = port;
	return 0;
}

int umad_release_ca(umad_ca_t *ca)
{
	if (ca->ports[1])
		umad_release_port(ca->ports[1]);
	free(ca->ports[1]);
	ca->ports[1] = NULL;
	return 0;
}

int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max)
{
	if (!is_ours(ca_name, 1))
		return -ENODEV;
	if (um_wire_open())
		return -EIO;
	if (!portguids)
		return 0;
	if (max < 2)
		return -ENOMEM;
	portguids[0] = 0;
	portguids[1] = ib_to_be64(um_node.guid + 1);
	return 2;
}

int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	int r;

	if (!is_ours(ca_name, portnum))
		return -ENODEV;
	if (max <= 0 || um_wire_open())
		return -EIO;
	um_lock();
	r = um_issm_path(path, (size_t)max);
	um_wire_wake(0);
	um_unlock();
	return r;
}
