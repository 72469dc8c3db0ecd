/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Wires to fabrics of other hosts, by TCP: a port of a switch here, and one of a switch there. One
 * end of a wire waits for the other, which connects, and does so again when the wire is lost.
 *
 * Such a port has no cable in the topology, or one to a host, whose place the wire has. Machines do
 * not get it. A listener (attach.h) accepts those that come; each proves that it has the token.
 */
#ifndef OHCA_FABRIC_REMOTE_H
#define OHCA_FABRIC_REMOTE_H

#include "fabric/data/data.h"

#define FAB_REMOTE_WIRES	64u

/**
 * struct fab_remote_wire - one end of a wire
 * @port: NODE:PORT of the switch here
 * @to: HOST:PORT of the listener there, and perhaps /NODE:PORT of the switch there; NULL: it waits
 */
struct fab_remote_wire {
	char port[96];
	const char *to;
};

struct fab_remote;

/**
 * fab_remote_parse() - @arg, NODE:PORT[=HOST:PORT[/NODE:PORT]], as @w
 * Return: false: it is none.
 */
bool fab_remote_parse(struct fab_remote_wire *w, const char *arg);

/**
 * fab_remote_ports() - get the ports of @n wires ready in a graph that is not sealed: one without a
 *	cable has a stub at its other end
 * @why: [@size] filled in on failure
 *
 * Return: false: one cannot be such a port, or out of memory.
 */
bool fab_remote_ports(struct fab *f, const struct fab_remote_wire *w, unsigned int n, char *why,
		      size_t size);

/**
 * fab_remote_new() - wires of a fabric whose graph is sealed
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

/** fab_remote_free() - connect no more; NULL is none. Links stay. */
void fab_remote_free(struct fab_remote *r);

/** fab_remote_token() - the secret that peers have to have, or NULL */
const char *fab_remote_token(const struct fab_remote *r);

/** fab_remote_connects() - TCP port that wire @i connects to; 0: it waits, or is none */
unsigned int fab_remote_connects(const struct fab_remote *r, unsigned int i);

/**
 * fab_remote_place() - the port of a peer that has come and has proved what it has to
 * @peer: its HELLO
 * @err: the reason if there is none, for the peer's user
 *
 * It is the port that it names; else that which it had before; else the first one that is free. All
 * of these are ports of wires that wait.
 *
 * Return: a port of the graph, or FAB_NO_PORT.
 */
uint32_t fab_remote_place(const struct fab_remote *r, const struct ohca_link_cfg *peer,
			  struct ohca_link_err *err);

/** fab_remote_event() - a descriptor, the event's @index, can be read; never blocks */
void fab_remote_event(struct fab_remote *r, uint32_t index);

/**
 * fab_remote_timer() - connect what is to be connected now
 * Return: ns until it is to run again, or UINT64_MAX.
 */
uint64_t fab_remote_timer(struct fab_remote *r, uint64_t now_ns);

#endif
