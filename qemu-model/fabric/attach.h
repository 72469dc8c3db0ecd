/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A socket that peers connect to. By a UNIX socket it is that which virtual machines connect to, by a link or as the front of an HCA that this process
 * hosts: the first message says which. Each has the place of a host of the topology: a host's port
 * whose cable leads to a switch. By TCP come wires of other hosts' fabrics (remote.h).
 */
#ifndef OHCA_FABRIC_ATTACH_H
#define OHCA_FABRIC_ATTACH_H

#include "fabric/hca/front.h"
#include "remote.h"

#define FAB_ATTACH_PENDING	64u	/* peers that have not sent HELLO yet */

struct fab_attach;

/**
 * fab_attach_new() - listen on @path
 * @epfd: epoll descriptor; its events of FAB_EVENT_ATTACH, or with @remote FAB_EVENT_DOOR, are for
 *	fab_attach_event()
 * @remote: where those that come get a port, if @path is of TCP; else NULL
 * @err: filled in on failure
 *
 * Return: NULL on failure.
 */
struct fab_attach *fab_attach_new(struct fab_data *d, const char *path, int epfd,
				  struct fab_remote *remote, struct ohca_link_err *err);

/** fab_attach_bound() - [OHCA_LINK_TCP_MAX] where it listens by TCP */
void fab_attach_bound(const struct fab_attach *a, char *path);

/** fab_attach_free() - close and unlink the socket; NULL is none. Links stay. */
void fab_attach_free(struct fab_attach *a);

/**
 * fab_attach_fronts() - take fronts, too
 * @hcas: where their HCAs go
 * @disk: the memory of their machines may be on a disk
 *
 * Return: the fronts, which the caller frees after @a and before @hcas; NULL if out of memory.
 */
struct fab_fronts *fab_attach_fronts(struct fab_attach *a, struct fab_hcas *hcas, bool disk);

/** fab_attach_event() - a descriptor, the event's @index, can be read; never blocks */
void fab_attach_event(struct fab_attach *a, uint32_t index);

/**
 * fab_attach_timer() - refuse peers that are silent, accept again what had to wait
 * Return: ns until it is to run again, or UINT64_MAX.
 */
uint64_t fab_attach_timer(struct fab_attach *a, uint64_t now_ns);

/**
 * fab_attach_place() - the switch port that leads to the place of a peer
 * @peer: its HELLO
 * @taken: a place that is another port's of the peer, or FAB_NO_PORT
 * @err: the reason if there is none, for the peer's user
 *
 * The place is that of the port with the peer's PortGUID; else of the host whose NodeDescription
 * is the peer's; else, for a peer that wants port *n*, at port *n* of the first switch; else that
 * which the peer had before; else the first one that nobody has had yet, or has now; of these,
 * one of a host with programs (fab_occupied()) last.
 *
 * Return: a port of the graph, or FAB_NO_PORT.
 */
uint32_t fab_attach_place(struct fab_data *d, const struct ohca_link_cfg *peer, uint32_t taken,
			  struct ohca_link_err *err);

#endif
