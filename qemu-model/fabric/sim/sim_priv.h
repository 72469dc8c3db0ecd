/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Private to sim/: the server and its clients; see umad2sim.h. */
#ifndef OHCA_FABRIC_SIM_PRIV_H
#define OHCA_FABRIC_SIM_PRIV_H

#include <netinet/in.h>
#include <sys/un.h>

#include "sim_wire.h"
#include "umad2sim.h"

/* Indices of events: the number of a client, or these. */
#define SIM_EV_CTL	FAB_SIM_CLIENTS
#define SIM_EV_UDP	(FAB_SIM_CLIENTS + 1u)

#define SIM_TID_CLIENT	48u	/* from this bit on a transaction ID has the client's number */

#define SIM_NO_CLIENT	UINT32_MAX

/**
 * struct sim_request - a request that was delivered and will be answered later
 * @hdr, @dlid, @slid, @dqp, @sqp: of the request
 * @until_ns: time at which the client is notified that there is no answer
 * @who: the client that received it, SIM_NO_CLIENT: a machine, a wire with a delay, or none
 * @who_serial: of that client
 * @open: neither answered nor given up
 */
struct sim_request {
	struct ib_mad_hdr hdr;
	uint32_t dlid, slid;
	__be32 dqp, sqp;
	uint64_t until_ns;
	uint32_t who;
	uint64_t who_serial;
	bool open;
};

/**
 * struct sim_client - a client
 * @fd: its socket for MADs; -1: there is no client
 * @serial: distinguishes it from earlier clients of the same number
 * @id: the client's own socket is in<id>, or has this UDP port
 * @port: its port in the graph
 * @remote: address of its control messages by UDP; sin_family 0: it is local
 * @heard_ns: time of the last datagram from it
 * @is_sm: it is a subnet manager
 * @gone: drop it after the current datagrams
 * @stopped: it is not read, since too many of its answers wait
 * @events: current epoll events of @fd
 * @answers: a ring of answers for which its socket had no room
 * @room: size of @answers
 * @first: the oldest one
 * @waiting: their number
 * @request: a ring of requests that were delivered, and perhaps answered since
 * @requests_room: size of @request
 * @oldest: the first one, which is open if there is one
 * @requests: their number
 */
struct sim_client {
	int fd;
	uint64_t serial;
	uint32_t id;
	uint32_t port;
	struct sockaddr_in remote;
	uint64_t heard_ns;
	bool is_sm;
	bool gone;
	bool stopped;
	uint32_t events;
	struct sim_mad *answers;
	uint32_t room, first, waiting;
	struct sim_request *request;
	uint32_t requests_room, oldest, requests;
};

/**
 * struct fab_sim - the server
 * @m: management of the fabric
 * @epfd: epoll descriptor
 * @ctl: control socket of local clients
 * @udp: that of remote ones; -1: none
 * @at: address of @udp
 * @name: begin of all abstract addresses
 * @now_ns: time of the current event
 * @clients: the highest number in use, plus 1
 * @waiting: answers that wait, of all clients
 * @requests: in the rings of all clients
 * @asks: the client whose MAD is being sent, as long as it has no answer
 * @tid: of that MAD, if it is a request
 * @who: the client to which it was delivered, or SIM_NO_CLIENT
 * @any_gone: a client has @gone
 * @serials: serial of the last client that has attached
 * @look_at: requests of the clients below this number may be for a client that is gone
 * @closer: see fab_sim_new()
 * @client: by number
 */
struct fab_sim {
	struct fab_mgmt *m;
	int epfd;
	int ctl;
	int udp;
	struct sockaddr_in at;
	char name[64];
	uint64_t now_ns;
	uint32_t clients;
	uint32_t waiting;
	uint32_t requests;
	struct sim_client *asks;
	__be64 tid;
	uint32_t who;
	bool any_gone;
	uint64_t serials;
	uint32_t look_at;
	struct fab_closer *closer;
	struct sim_client client[FAB_SIM_CLIENTS];
};

/**
 * fab_sim_address() - fill in the abstract address NAME:@suffix, with a final zero. Return: its
 *	length.
 */
socklen_t fab_sim_address(const struct fab_sim *s, const char *suffix, struct sockaddr_un *un);

/**
 * fab_sim_bind_local() - create a datagram socket at the abstract address of @suffix, with events
 * @index: of the events
 *
 * Return: -1, errno has the reason.
 */
int fab_sim_bind_local(const struct fab_sim *s, const char *suffix, uint32_t index);

/** fab_sim_bind_udp() - the same at the control socket's UDP port plus @above */
int fab_sim_bind_udp(const struct fab_sim *s, uint32_t above, uint32_t index);

/**
 * fab_sim_recv() - receive a datagram as recvfrom() with MSG_TRUNC, and no descriptor in it
 * @from, @len: as of recvfrom(), or NULL
 */
ssize_t fab_sim_recv(struct fab_sim *s, int fd, void *buf, size_t size, void *from, socklen_t *len);

/** fab_sim_drain() - discard what @fd has received */
void fab_sim_drain(struct fab_sim *s, int fd);

/** fab_sim_close() - close a socket of the server; its address is free at the return */
void fab_sim_close(struct fab_sim *s, int fd);

/**
 * fab_sim_attach() - assign a number, a socket and a host to a process that attaches
 * @cc: its request; replaced by the answer
 * @from: of a remote client, else NULL
 *
 * Return: false: it is refused.
 */
bool fab_sim_attach(struct fab_sim *s, struct sim_connect *cc, const struct sockaddr_in *from);

/** fab_sim_detach() - close the socket of @c, whose number is then free */
void fab_sim_detach(struct fab_sim *s, struct sim_client *c);

/** fab_sim_occupied() - @occupied of struct fab_mgmt; @ctx is the server */
enum fab_occupant fab_sim_occupied(void *ctx, uint32_t port);

/** fab_sim_update_issm() - set IsSM of @port while a subnet manager is attached to it */
void fab_sim_update_issm(struct fab_sim *s, uint32_t port);

/** fab_sim_read_local() - process a control message of a local client */
void fab_sim_read_local(struct fab_sim *s);

/** fab_sim_read_udp() - process a control message of a remote client */
void fab_sim_read_udp(struct fab_sim *s);

/** fab_sim_deliver() - @deliver of struct fab_mgmt; @ctx is the server */
bool fab_sim_deliver(void *ctx, uint32_t port, const struct fab_mad *mad);

/** fab_sim_time_out() - notify @c that its request @r has no answer */
void fab_sim_time_out(struct fab_sim *s, struct sim_client *c, struct sim_mad *r);

/**
 * fab_sim_await() - the request @r of @c, which @who has received, will be answered later
 *
 * Without room for it the client is not notified if there is no answer.
 */
void fab_sim_await(struct fab_sim *s, struct sim_client *c, const struct sim_mad *r, uint32_t who);

/**
 * fab_sim_answered() - the answer to the request @tid of @c has arrived, or is @lost
 * Return: whether there is such a request.
 */
bool fab_sim_answered(struct fab_sim *s, struct sim_client *c, __be64 tid, bool lost);

/** fab_sim_left() - a client is gone; fab_sim_timer() is due, and notifies those who asked it */
void fab_sim_left(struct fab_sim *s);

/** fab_sim_sweep() - detach all clients that are gone */
void fab_sim_sweep(struct fab_sim *s);

/** fab_sim_forget() - @c is gone: forget its requests */
void fab_sim_forget(struct fab_sim *s, struct sim_client *c);

/** fab_sim_serve() - send what waits for client @i, and process its MADs */
void fab_sim_serve(struct fab_sim *s, uint32_t i);

#endif
