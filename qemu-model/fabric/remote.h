/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Wires to fabrics of other hosts, by TCP: between a port of a switch here and one of a switch
 * there. One end of a wire waits for the other, which connects, and does so again when the wire is
 * lost.
 *
 * Such a port has no cable in the topology, or one to a host, which the wire replaces. Machines do
 * not get it. A listener (attach.h) accepts wires that connect; each proves that it has the token.
 */
#ifndef OHCA_FABRIC_REMOTE_H
#define OHCA_FABRIC_REMOTE_H

#include "fabric/data/data.h"

#define FAB_REMOTE_WIRES	64u

/**
 * struct fab_remote_wire - one end of a wire
 * @port: NODE:PORT of the switch here
 * @to: HOST:PORT of the listener there, with an optional /NODE:PORT of the switch there; NULL: it
 *	waits
 */
struct fab_remote_wire {
	char port[96];
	const char *to;
};

struct fab_remote;

/**
 * fab_remote_parse() - parse @arg, NODE:PORT[=HOST:PORT[/NODE:PORT]], into @w
 * Return: false: it is not valid.
 */
bool fab_remote_parse(struct fab_remote_wire *w, const char *arg);

/**
 * fab_remote_ports() - prepare the ports of @n wires in a graph that is not sealed: a port without
 *	a cable gets a stub at its other end
 * @why: [@size] filled in on failure
 *
 * Return: false: one is not suitable, or out of memory.
 */
bool fab_remote_ports(struct fab *f, const struct fab_remote_wire *w, unsigned int n, char *why,
		      size_t size);

/**
 * fab_remote_new() - create the wires of a fabric whose graph is sealed
 * @epfd: epoll descriptor; its events of FAB_EVENT_REMOTE are for fab_remote_event()
 * @token: the secret, or NULL: none; stays the caller's
 * @w: [@n]; names of hosts are looked up, which may wait for a name server
 * @err: filled in on failure
 *
 * Return: NULL on failure.
 */
struct fab_remote *fab_remote_new(struct fab_data *d, int epfd, const char *token,
				  const struct fab_remote_wire *w, unsigned int n,
				  struct ohca_link_err *err);

/** fab_remote_free() - end all attempts to connect; NULL does nothing. Links stay. */
void fab_remote_free(struct fab_remote *r);

/** fab_remote_token() - the token that peers must prove, or NULL */
const char *fab_remote_token(const struct fab_remote *r);

/** fab_remote_connects() - TCP port to which wire @i connects; 0: it waits, or does not exist */
unsigned int fab_remote_connects(const struct fab_remote *r, unsigned int i);

/**
 * fab_remote_place() - choose the port of a peer that has connected and has proved the token
 * @peer: its HELLO
 * @err: the reason if there is none, for the peer's user
 *
 * It is the port that the peer names; else the port that it had before; else the first free one.
 * Only ports of wires that wait are chosen.
 *
 * Return: a port of the graph, or FAB_NO_PORT.
 */
uint32_t fab_remote_place(const struct fab_remote *r, const struct ohca_link_cfg *peer,
			  struct ohca_link_err *err);

/** fab_remote_event() - the descriptor of the event's @index is readable; never blocks */
void fab_remote_event(struct fab_remote *r, uint32_t index);

/**
 * fab_remote_timer() - begin the connections that are due
 * Return: ns until it must run again, or UINT64_MAX.
 */
uint64_t fab_remote_timer(struct fab_remote *r, uint64_t now_ns);

#endif
