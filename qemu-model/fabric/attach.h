/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A socket to which peers connect. Virtual machines attach by a UNIX socket, with a link or as the
 * front of an HCA that this process hosts: the first message decides. Each replaces a host of the
 * topology: it gets the place of a host's port whose cable leads to a switch. A host may have a
 * socket of its own: a peer of that socket gets its place and no other, and no peer of another
 * socket gets it. By TCP wires of other hosts' fabrics attach (remote.h), and programs of other
 * hosts, which get places, too.
 *
 * Each socket has its own backlog, its own peers that have not sent HELLO yet, and its own share of
 * a pass of the loop: it accepts FAB_ATTACH_ACCEPTS peers, and answers one HELLO.
 */
#ifndef OHCA_FABRIC_ATTACH_H
#define OHCA_FABRIC_ATTACH_H

#include "fabric/base/event.h"
#include "fabric/hca/front.h"
#include "remote.h"

#define FAB_ATTACH_PENDING	64u	/* peers that have not sent HELLO yet */
#define FAB_ATTACH_ACCEPTS	8u	/* in a pass of the loop */

struct fab_attach;

/**
 * struct fab_tenants - hosts with a socket of their own
 * @node: [@n] nodes of the graph
 */
struct fab_tenants {
	const uint32_t *node;
	unsigned int n;
};

/**
 * struct fab_attach_cfg - a socket
 * @path: of the socket
 * @epfd: epoll descriptor; its events of @type are for fab_attach_event()
 * @remote: wires to other fabrics, if @path is of TCP; else NULL
 * @tenants: the hosts with a socket of their own, or NULL: there are none
 * @tenant: the host of this socket, in @tenants; FAB_NONE: the socket is for all other hosts
 */
struct fab_attach_cfg {
	const char *path;
	int epfd;
	enum fab_event_type type;
	struct fab_remote *remote;
	const struct fab_tenants *tenants;
	uint32_t tenant;
};

/**
 * fab_attach_new() - create the socket and listen
 * @err: filled in on failure
 *
 * Return: NULL on failure.
 */
struct fab_attach *fab_attach_new(struct fab_data *d, const struct fab_attach_cfg *cfg,
				  struct ohca_link_err *err);

/** fab_attach_has_place() - whether a peer can replace @node, at one of its ports */
bool fab_attach_has_place(const struct fab *f, uint32_t node);

/** fab_attach_bound() - [OHCA_LINK_TCP_MAX] path at which it listens by TCP */
void fab_attach_bound(const struct fab_attach *a, char *path);

/** fab_attach_free() - close and unlink the socket; NULL does nothing. Links stay. */
void fab_attach_free(struct fab_attach *a);

/** fab_attach_fronts() - accept fronts, too, into @fronts, which uses fab_attach_front_place() */
void fab_attach_fronts(struct fab_attach *a, struct fab_fronts *fronts);

/** fab_attach_front_place() - @place of struct fab_fronts_cfg; @a: the socket of the front */
uint32_t fab_attach_front_place(void *a, const struct ohca_link_cfg *peer, uint32_t taken,
				struct ohca_link_err *err);

/**
 * fab_attach_event() - the descriptor of the event's @index is readable; never blocks
 *
 * What exceeds the share of a pass stays readable.
 */
void fab_attach_event(struct fab_attach *a, uint32_t index);

/**
 * fab_attach_timer() - refuse peers that send no HELLO in time, and accept again; begins a pass of
 *	the loop
 * Return: ns until it must run again, or UINT64_MAX.
 */
uint64_t fab_attach_timer(struct fab_attach *a, uint64_t now_ns);

/**
 * fab_attach_place() - choose the switch port that leads to the place of a peer
 * @tenants, @tenant: as in struct fab_attach_cfg
 * @peer: its HELLO
 * @taken: a place that another port of the peer has, or FAB_NO_PORT
 * @err: the reason if there is none, for the peer's user
 *
 * The place is that of the port with the peer's PortGUID; else of the host whose NodeDescription is
 * the peer's; else, for a peer that wants port *n*, at port *n* of the first switch; else the place
 * that the peer had before; else the first free one that no peer has had yet; else the first free
 * one. Of the last two kinds, hosts with programs (fab_occupied()) come last. A peer that names a
 * host of another socket, by PortGUID, NodeDescription or port, is refused.
 *
 * Return: a port of the graph, or FAB_NO_PORT.
 */
uint32_t fab_attach_place(struct fab_data *d, const struct fab_tenants *tenants, uint32_t tenant,
			  const struct ohca_link_cfg *peer, uint32_t taken, struct ohca_link_err *err);

#endif
