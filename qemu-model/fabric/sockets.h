/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sockets of a running fabric by which links attach: those for virtual machines, and the TCP
 * socket for wires and programs of other hosts; with the fronts and wires that use them.
 */
#ifndef OHCA_FABRIC_SOCKETS_H
#define OHCA_FABRIC_SOCKETS_H

#include "attach.h"
#include "fabric/base/closer.h"
#include "serve_cfg.h"

/**
 * struct fab_sockets - the sockets; all 0: none is open
 * @attach: socket for virtual machines; NULL: there is none but those of @tenant
 * @tenant: [@tenants.n] sockets of the hosts that have one of their own
 * @tenant_node: nodes of these hosts
 * @tenants: the same hosts, for all sockets
 * @remote: wires to other hosts; NULL: there are none
 * @door: the TCP socket, or NULL
 * @fronts: HCAs of virtual machines; NULL: no virtual machine may attach
 */
struct fab_sockets {
	struct fab_attach *attach;
	struct fab_attach *tenant[FAB_SERVE_TENANTS];
	uint32_t tenant_node[FAB_SERVE_TENANTS];
	struct fab_tenants tenants;
	struct fab_remote *remote;
	struct fab_attach *door;
	struct fab_fronts *fronts;
};

/**
 * struct fab_sockets_cfg - what fab_sockets_open() needs; @data, @hcas and @closer must outlive the
 *	sockets
 * @cfg: the sockets and wires to open
 * @f: the graph
 * @data: its data path
 * @hcas: the HCAs of the process
 * @closer: closes descriptors of fronts
 * @epfd: epoll descriptor to which the sockets are added
 */
struct fab_sockets_cfg {
	const struct fab_serve_cfg *cfg;
	const struct fab *f;
	struct fab_data *data;
	struct fab_hcas *hcas;
	struct fab_closer *closer;
	int epfd;
};

/**
 * fab_sockets_open() - open the sockets that @c->cfg names, and connect its wires
 * @s: all 0; must not move until fab_sockets_close()
 *
 * Return: false: the error was printed; the caller calls fab_sockets_close().
 */
bool fab_sockets_open(struct fab_sockets *s, const struct fab_sockets_cfg *c);

/**
 * fab_sockets_timer() - run the timers that are due
 * Return: ns until the next one is due; UINT64_MAX: never
 */
uint64_t fab_sockets_timer(struct fab_sockets *s, uint64_t now_ns);

/**
 * fab_sockets_event() - handle event @e of a socket; never blocks
 * @e: its type is FAB_EVENT_ATTACH, _DOOR, _REMOTE, _FRONT, or one from FAB_EVENT_TENANT on
 */
void fab_sockets_event(struct fab_sockets *s, union fab_event e);

/** fab_sockets_close() - close what is open, and free the fronts and wires; links stay */
void fab_sockets_close(struct fab_sockets *s);

#endif
