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
 */
#ifndef OHCA_FABRIC_UMAD2SIM_H
#define OHCA_FABRIC_UMAD2SIM_H

#include "fabric/mgmt/mgmt.h"

#define FAB_SIM_CLIENTS		1024u
#define FAB_SIM_REMOTE		128u	/* of these by UDP at most */
#define FAB_SIM_SILENT_NS	60000000000u	/* after that a remote one may have to give way */

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
 * Handles the datagrams that have come, a few at most. A client that does not read its answers
 * loses them.
 */
void fab_sim_event(struct fab_sim *s, uint32_t index, uint64_t now_ns);

#endif
