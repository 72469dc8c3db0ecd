/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Managers in processes of their own: the datagrams that libumad2sim, ibsim's library, exchanges
 * with a simulator. A program that is started with LD_PRELOAD=libumad2sim.so, OpenSM for one,
 * sees a local channel adapter that is one of the fabric.
 *
 * Abstract UNIX sockets: NAME:ctl for control, NAME:out<client> for MADs of a client, which has
 * NAME:in<id> itself. The environment of a client says IBSIM_SOCKNAME=NAME, and SIM_HOST= which
 * node it is at: a name as in a topology file or a NodeDescription. Structures and numbers are
 * those of ibsim 0.12, in host byte order where the comments below say nothing else.
 *
 * A remote client says IBSIM_SERVER_NAME and IBSIM_SERVER_PORT in its environment. Its control
 * messages go to that UDP port, its MADs to the port that is as much higher as its number, plus 1.
 *
 * Whoever may run programs in the same network namespace can attach, and by UDP whoever can send
 * to these ports, whatever address he says he has; what a client sends is not trusted. A remote
 * client is the address and port that have attached: what comes from another is dropped, or
 * answered with SIM_ERROR.
 *
 * UDP does not tell of a client that was killed before something is sent to it. When there are as
 * many remote clients as may be, the one that was silent for longest, and for FAB_SIM_SILENT_NS at
 * least, gives way to the next.
 *
 * The life of a datagram:
 *
 *	1. It comes to the socket of a client. sim_mad.c reads a few at a time and gives each its
 *	   SLID; the upper 16 bits of a request's transaction ID become the client's number.
 *	2. fab_mgmt_send() takes the MAD from port to port. Without wires that delay, the answer is
 *	   there when it returns: fab_sim_deliver() has it, and finds the client by the
 *	   transaction ID.
 *	3. The answer is sent. One that the client's socket has no room for waits in a ring of the
 *	   client's, and leaves when the socket has room, in order.
 *	4. A request that got lost has an answer, too: the request itself, with the status
 *	   ETIMEDOUT. The library has no clock, so a program would wait for ever otherwise.
 *	5. A request that somebody has who answers later, as another program or a machine, waits in
 *	   sim_wait.c. When its answer gets lost, when that program goes, or after
 *	   FAB_SIM_PATIENCE_NS, the header of the request comes back with that status.
 *
 * Goals: each request of a local client has one answer or error, however late the client reads; no
 * client makes another one wait; memory is bounded whatever a client does.
 *
 * A client is read although its socket is full. The library writes with a lock held that its
 * receiver needs, so a server that waits with reading makes both stand for ever. Only with
 * FAB_SIM_ANSWERS / 2 answers that wait a client is not read any more, until half of them have
 * left.
 *
 * Limits: of the requests of a client that wait for others FAB_SIM_REQUESTS have a time; nobody
 * tells of more. What others want of a client whose socket is full is lost, and the sender is told.
 * What the socket of a remote client has no room for is lost on the client's host, and nobody is
 * told.
 *
 *	umad2sim.c	the server
 *	sim_socket.c	its sockets
 *	sim_client.c	clients that attach, and those that are gone
 *	sim_ctl.c	control messages
 *	sim_mad.c	MADs
 *	sim_wait.c	requests that are answered later
 */
#ifndef OHCA_FABRIC_UMAD2SIM_H
#define OHCA_FABRIC_UMAD2SIM_H

#include "fabric/mgmt/mgmt.h"

#define FAB_SIM_CLIENTS		1024u
#define FAB_SIM_REMOTE		128u	/* of these by UDP at most */
#define FAB_SIM_SILENT_NS	60000000000u	/* after that a remote one may have to give way */
#define FAB_SIM_ANSWERS		65536u	/* that wait for a client which does not read */
#define FAB_SIM_PATIENCE_NS	2000000000u	/* for an answer */
#define FAB_SIM_REQUESTS	4096u	/* of a client, that others have */
#define FAB_SIM_ALL_ANSWERS	262144u	/* for all clients */

struct fab_sim;

/**
 * fab_sim_new() - open the control socket
 * @m: management of a sealed fabric; its deliver and ctx are this one's from now on
 * @name: NAME above, at most 63 bytes
 * @epfd: epoll descriptor; its events of FAB_EVENT_SIM are for fab_sim_event()
 *
 * Return: NULL, errno says why.
 */
struct fab_sim *fab_sim_new(struct fab_mgmt *m, const char *name, int epfd);

/**
 * fab_sim_listen() - let remote clients attach
 * @at: ADDRESS:PORT of the control socket, IPv4; the FAB_SIM_REMOTE ports above are for MADs
 *
 * Once, before the first event. Return: false: errno says why.
 */
bool fab_sim_listen(struct fab_sim *s, const char *at);

/** fab_sim_free() - close all sockets */
void fab_sim_free(struct fab_sim *s);

/**
 * fab_sim_event() - a socket can be read
 * @index: of the event
 * @now_ns: as of fab_mgmt_send()
 *
 * Handles the datagrams that have come, a few at most, and sends answers that have waited.
 */
void fab_sim_event(struct fab_sim *s, uint32_t index, uint64_t now_ns);

/**
 * fab_sim_timer() - tell clients of requests that nobody has answered in time
 * @now_ns: as of fab_mgmt_send()
 *
 * Return: ns until there is something to tell, UINT64_MAX: nothing.
 */
uint64_t fab_sim_timer(struct fab_sim *s, uint64_t now_ns);

#endif
