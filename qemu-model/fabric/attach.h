/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A socket that peers connect to. Virtual machines come by a UNIX socket, by a link or as the front
 * of an HCA that this process hosts: the first message says which. Each has the place of a host of
 * the topology: a host's port whose cable leads to a switch. A host may have a socket of its own:
 * who comes by that gets its place and no other, and nobody gets it by another socket. By TCP come
 * wires of other hosts' fabrics (remote.h), and programs of other hosts, which have places, too.
 *
 * Each socket has its own queue, its own peers that have not said HELLO yet, and its own share of a
 * pass of the loop: FAB_ATTACH_ACCEPTS of them are accepted in it, and one HELLO is answered.
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
 * @path: where it listens
 * @epfd: epoll descriptor; its events of @type are for fab_attach_event()
 * @remote: where those that come get a port, if @path is of TCP; else NULL
 * @tenants: the hosts with a socket of their own, or NULL: there are none
 * @tenant: whose socket this is, of @tenants; FAB_NONE: it is that of all others
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
 * fab_attach_new() - listen
 * @err: filled in on failure
 *
 * Return: NULL on failure.
 */
struct fab_attach *fab_attach_new(struct fab_data *d, const struct fab_attach_cfg *cfg,
				  struct ohca_link_err *err);

/** fab_attach_has_place() - whether a peer may have the place of @node, at one of its ports */
bool fab_attach_has_place(const struct fab *f, uint32_t node);

/** fab_attach_bound() - [OHCA_LINK_TCP_MAX] where it listens by TCP */
void fab_attach_bound(const struct fab_attach *a, char *path);

/** fab_attach_free() - close and unlink the socket; NULL is none. Links stay. */
void fab_attach_free(struct fab_attach *a);

/** fab_attach_fronts() - take fronts, too, as some of @fronts, which has fab_attach_front_place() */
void fab_attach_fronts(struct fab_attach *a, struct fab_fronts *fronts);

/** fab_attach_front_place() - place of struct fab_fronts_cfg; @a: the socket that the front came by */
uint32_t fab_attach_front_place(void *a, const struct ohca_link_cfg *peer, uint32_t taken,
				struct ohca_link_err *err);

/**
 * fab_attach_event() - a descriptor, the event's @index, can be read; never blocks
 *
 * What is more than the share of a pass stays readable.
 */
void fab_attach_event(struct fab_attach *a, uint32_t index);

/**
 * fab_attach_timer() - refuse peers that are silent, accept again what had to wait; the next pass of
 *	the loop begins
 * Return: ns until it is to run again, or UINT64_MAX.
 */
uint64_t fab_attach_timer(struct fab_attach *a, uint64_t now_ns);

/**
 * fab_attach_place() - the switch port that leads to the place of a peer
 * @tenants, @tenant: as in struct fab_attach_cfg
 * @peer: its HELLO
 * @taken: a place that is another port's of the peer, or FAB_NO_PORT
 * @err: the reason if there is none, for the peer's user
 *
 * The place is that of the port with the peer's PortGUID; else of the host whose NodeDescription
 * is the peer's; else, for a peer that wants port *n*, at port *n* of the first switch; else that
 * which the peer had before; else the first one that nobody has had yet, or has now; of these,
 * one of a host with programs (fab_occupied()) last. Who means a host that is not this socket's, by
 * PortGUID, NodeDescription or port, is refused.
 *
 * Return: a port of the graph, or FAB_NO_PORT.
 */
uint32_t fab_attach_place(struct fab_data *d, const struct fab_tenants *tenants, uint32_t tenant,
			  const struct ohca_link_cfg *peer, uint32_t taken, struct ohca_link_err *err);

#endif
