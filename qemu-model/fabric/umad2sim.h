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
 * Whoever may run programs in the same network namespace can attach; what a client sends is not
 * trusted.
 */
#ifndef OHCA_FABRIC_UMAD2SIM_H
#define OHCA_FABRIC_UMAD2SIM_H

#include "mgmt.h"

#define FAB_SIM_CLIENTS		1024u

struct fab_sim;

/**
 * fab_sim_new() - open the control socket
 * @m: management of a sealed fabric; its deliver and ctx are this one's from now on
 * @name: NAME above
 * @epfd: epoll descriptor; events have what fab_sim_event() takes in data.u64
 *
 * Return: NULL, errno says why.
 */
struct fab_sim *fab_sim_new(struct fab_mgmt *m, const char *name, int epfd);

/** fab_sim_free() - close all sockets */
void fab_sim_free(struct fab_sim *s);

#define FAB_SIM_CTL	FAB_SIM_CLIENTS		/* event of the control socket */

/**
 * fab_sim_event() - a socket can be read
 * @which: number of a client, or FAB_SIM_CTL
 * @now_ns: as of fab_mgmt_send()
 *
 * Handles one datagram. A client that does not read its answers loses them.
 */
void fab_sim_event(struct fab_sim *s, uint32_t which, uint64_t now_ns);

#endif
