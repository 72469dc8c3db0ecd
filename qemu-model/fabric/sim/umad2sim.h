/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Managers in processes of their own: the datagrams that libumad2sim, ibsim's library, exchanges
 * with a simulator. A program that is started with LD_PRELOAD=libumad2sim.so, OpenSM for example,
 * has one of the fabric's channel adapters as its local one.
 *
 * Abstract UNIX sockets: NAME:ctl for control, NAME:out<client> for MADs of a client, which creates
 * NAME:in<id> itself. The environment of a client has IBSIM_SOCKNAME=NAME, and SIM_HOST= for its
 * node: a name as in a topology file or a NodeDescription. Structures and numbers are those of
 * ibsim 0.12, in host byte order unless the comments below state another.
 *
 * A remote client has IBSIM_SERVER_NAME and IBSIM_SERVER_PORT in its environment. It sends control
 * messages to that UDP port, and MADs to that port plus its number plus 1.
 *
 * Any user who can run programs in the same network namespace can attach, and by UDP any host that
 * can send to these ports, even with a forged address; what a client sends is not trusted. A remote
 * client is the address and port that have attached: datagrams from another are dropped, or
 * answered with SIM_ERROR.
 *
 * UDP does not report that a client was killed before something is sent to it. When the number of
 * remote clients has reached its limit, a new one replaces the one that was silent for longest, if
 * that was silent for at least FAB_SIM_SILENT_NS.
 *
 * The path of a datagram:
 *
 *	1. It arrives at the socket of a client. sim_mad.c reads a few at a time and gives each its
 *	   SLID; the upper 16 bits of a request's transaction ID become the client's number.
 *	2. fab_mgmt_send() moves the MAD from port to port. Without wires with a delay the answer
 *	   has arrived when it returns: fab_sim_deliver() receives it, and finds the client by
 *	   the transaction ID.
 *	3. The answer is sent. An answer for which the client's socket has no room waits in a ring
 *	   of the client, and is sent when the socket has room, in order.
 *	4. A request that was lost has an answer, too: the request itself, with the status
 *	   ETIMEDOUT. The library has no clock, so a program would otherwise wait for ever.
 *	5. A request to a recipient that answers later, as another program or a machine, waits in
 *	   sim_wait.c. When its answer is lost, when that program ends, or after
 *	   FAB_SIM_PATIENCE_NS, the header of the request is returned with that status.
 *	6. An answer to nothing that was asked waits only if few answers wait for that client.
 *
 * Goals: each request of a local client has one answer or error, however late the client reads; no
 * client makes another one wait; memory is bounded whatever a client does. No message has a
 * descriptor; those that come are closed by the closer (base/passed.h).
 *
 * A client is read even if its socket is full. The library writes with a lock held that its
 * receiver needs, so a server that waited before it reads would cause a deadlock. A client is not
 * read only while more than FAB_SIM_ANSWERS / 2 of its answers wait, until half of them have left.
 *
 * Limits: of the requests of a client that wait for others, FAB_SIM_REQUESTS have a time limit; for
 * others a missing answer is not reported. Requests of others to a client whose socket is full are
 * lost, and that is reported to the sender. Datagrams for which the socket of a remote client has
 * no room are lost on the client's host without a report.
 *
 *	umad2sim.c	the server
 *	sim_socket.c	its sockets
 *	sim_client.c	clients: attach, and end
 *	sim_ctl.c	control messages
 *	sim_mad.c	MADs
 *	sim_wait.c	requests that are answered later
 */
#ifndef OHCA_FABRIC_UMAD2SIM_H
#define OHCA_FABRIC_UMAD2SIM_H

#include "fabric/base/closer.h"
#include "fabric/mgmt/mgmt.h"

#define FAB_SIM_CLIENTS		1024u
#define FAB_SIM_REMOTE		128u	/* of these by UDP at most */
#define FAB_SIM_SILENT_NS	60000000000u	/* after that a remote client may be replaced */
#define FAB_SIM_ANSWERS		65536u	/* that wait for a client which does not read */
#define FAB_SIM_PATIENCE_NS	2000000000u	/* wait for an answer */
#define FAB_SIM_REQUESTS	4096u	/* of a client that wait for answers of others */
#define FAB_SIM_ALL_ANSWERS	262144u	/* for all clients */

struct fab_sim;

/**
 * fab_sim_new() - open the control socket
 * @m: management of a sealed fabric; its @deliver and @ctx are set
 * @name: NAME above, at most 63 bytes
 * @epfd: epoll descriptor; its events of FAB_EVENT_SIM are for fab_sim_event()
 * @closer: closes descriptors that a client passes; NULL: they are closed at once
 *
 * Return: NULL, errno has the reason.
 */
struct fab_sim *fab_sim_new(struct fab_mgmt *m, const char *name, int epfd,
			    struct fab_closer *closer);

/**
 * fab_sim_listen() - let remote clients attach
 * @at: ADDRESS:PORT of the control socket, IPv4; the FAB_SIM_REMOTE ports above are for MADs
 *
 * Call it once, before the first event. Return: false: errno has the reason.
 */
bool fab_sim_listen(struct fab_sim *s, const char *at);

/** fab_sim_free() - close all sockets */
void fab_sim_free(struct fab_sim *s);

/**
 * fab_sim_event() - a socket is readable, or has room
 * @index: of the event
 * @now_ns: as of fab_mgmt_send()
 *
 * Processes datagrams that have arrived, a few at most, and sends answers that have waited.
 */
void fab_sim_event(struct fab_sim *s, uint32_t index, uint64_t now_ns);

/**
 * fab_sim_timer() - notify clients of requests without an answer in time
 * @now_ns: as of fab_mgmt_send()
 *
 * Notifies of a few requests at most. Return: ns until the next one is due, UINT64_MAX: none.
 */
uint64_t fab_sim_timer(struct fab_sim *s, uint64_t now_ns);

#endif
