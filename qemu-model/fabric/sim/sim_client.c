// SPDX-License-Identifier: GPL-2.0-or-later
/* Clients: attach, and detection of those that have ended; see umad2sim.h. */
#include "sim_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum fab_occupant fab_sim_occupied(void *ctx, uint32_t port)
{
	const struct fab_sim *s = ctx;
	enum fab_occupant who = FAB_NOBODY;

	for (uint32_t i = 0; i < s->clients && who != FAB_SUBNET_MANAGER; i++)
		if (s->client[i].fd >= 0 && s->client[i].port == port)
			who = s->client[i].is_sm ? FAB_SUBNET_MANAGER : FAB_PROGRAM;
	return who;
}

void fab_sim_update_issm(struct fab_sim *s, uint32_t port)
{
	fab_mgmt_set_issm(s->m, port, fab_sim_occupied(s, port) == FAB_SUBNET_MANAGER, s->now_ns);
}

void fab_sim_detach(struct fab_sim *s, struct sim_client *c)
{
	s->waiting -= c->waiting;
	free(c->answers);
	c->answers = NULL;
	c->waiting = 0;
	fab_sim_forget(s, c);
	fab_sim_close(s, c->fd);
	c->fd = -1;
	fab_sim_left(s);
	if (c->is_sm)
		fab_sim_update_issm(s, c->port);
}

/* Connect @fd to the client's socket. Return: false: it does not exist. */
static bool reach_client(const struct fab_sim *s, int fd, uint32_t id)
{
	struct sockaddr_un un;
	char suffix[24];
	socklen_t len;

	snprintf(suffix, sizeof(suffix), "in%u", id);
	len = fab_sim_address(s, suffix, &un);
	return !connect(fd, (struct sockaddr *)&un, len);
}

/*
 * Drop clients whose process has ended: a process that was killed did not disconnect, and a
 * datagram socket does not report it. A client with the number @id of the process that attaches is
 * an earlier process.
 */
static void drop_dead(struct fab_sim *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->clients; i++) {
		struct sim_client *c = &s->client[i];

		if (c->fd >= 0 && !c->remote.sin_family &&
		    (c->id == id || !reach_client(s, c->fd, c->id)))
			fab_sim_detach(s, c);
	}
}

/*
 * Create the socket of client @i, whose process is @id. Return: -1: there is no such process, or
 * errno is EADDRINUSE: another program has client @i's address.
 */
static int socket_to(struct fab_sim *s, uint32_t i, uint32_t id)
{
	char suffix[24];
	int fd;

	snprintf(suffix, sizeof(suffix), "out%u", i);
	fd = fab_sim_bind_local(s, suffix, i);
	if (fd >= 0 && !reach_client(s, fd, id)) {
		fab_sim_close(s, fd);
		errno = ECONNREFUSED;
		return -1;
	}
	/* what the socket received before it was connected may be from any sender */
	if (fd >= 0)
		fab_sim_drain(s, fd);
	return fd;
}

/*
 * The same for a remote client: its UDP port is @id, on the host of @from. The socket is
 * connected, so that the kernel then drops datagrams from other addresses. Return: -1, errno is
 * EADDRINUSE: another program has client @i's port.
 */
static int socket_to_remote(struct fab_sim *s, uint32_t i, uint32_t id,
			    const struct sockaddr_in *from)
{
	struct sockaddr_in in = *from;
	int fd;

	in.sin_port = htons((uint16_t)id);
	fd = fab_sim_bind_udp(s, i + 1, i);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&in, sizeof(in))) {
		fab_sim_close(s, fd);
		errno = EHOSTUNREACH;
		return -1;
	}
	if (fd >= 0)
		fab_sim_drain(s, fd);
	return fd;
}

/* A known address is a program that has restarted; UDP reports ended programs only on a send. */
static void drop_remote(struct fab_sim *s, uint32_t id, const struct sockaddr_in *from)
{
	for (uint32_t i = 0; i < s->clients; i++) {
		struct sim_client *c = &s->client[i];

		if (c->fd >= 0 && c->remote.sin_family &&
		    c->remote.sin_addr.s_addr == from->sin_addr.s_addr &&
		    (c->id == id || c->remote.sin_port == from->sin_port))
			fab_sim_detach(s, c);
	}
}

/* Drop the remote client that was silent for longest. Return: its number, or FAB_SIM_REMOTE. */
static uint32_t drop_silent(struct fab_sim *s)
{
	uint32_t i = FAB_SIM_REMOTE;

	for (uint32_t k = 0; k < FAB_SIM_REMOTE; k++)
		if (s->client[k].fd >= 0 &&
		    s->now_ns - s->client[k].heard_ns >= FAB_SIM_SILENT_NS &&
		    (i == FAB_SIM_REMOTE || s->client[k].heard_ns < s->client[i].heard_ns))
			i = k;
	if (i < FAB_SIM_REMOTE)
		fab_sim_detach(s, &s->client[i]);
	return i;
}

/* Assign a number, and a socket, to the process @id. Return: the socket, -1: there is none. */
static int add_local(struct fab_sim *s, uint32_t id, uint32_t *number)
{
	/* the first numbers are reserved for remote clients: they determine UDP ports */
	uint32_t i = s->udp >= 0 ? FAB_SIM_REMOTE : 0;
	int fd = -1;

	for (; i < FAB_SIM_CLIENTS; i++) {
		if (s->client[i].fd >= 0)
			continue;
		fd = socket_to(s, i, id);
		if (fd >= 0 || errno != EADDRINUSE)
			break;
	}
	*number = i;
	return fd;
}

/* The same for a remote client. */
static int add_remote(struct fab_sim *s, uint32_t id, const struct sockaddr_in *from,
		      uint32_t *number)
{
	uint32_t i;
	int fd = -1;

	if (!id || id > UINT16_MAX)
		return -1;
	for (i = 0; i < FAB_SIM_REMOTE; i++) {
		if (s->client[i].fd >= 0)
			continue;
		fd = socket_to_remote(s, i, id, from);
		if (fd >= 0 || errno != EADDRINUSE)
			break;
	}
	if (i == FAB_SIM_REMOTE) {
		i = drop_silent(s);
		if (i < FAB_SIM_REMOTE)
			fd = socket_to_remote(s, i, id, from);
	}
	*number = i;
	return fd;
}

bool fab_sim_attach(struct fab_sim *s, struct sim_connect *cc, const struct sockaddr_in *from)
{
	uint32_t i, port;
	int fd;

	cc->nodeid[SIM_NODEID_LEN - 1] = 0;
	if (from)
		drop_remote(s, cc->id, from);
	else
		drop_dead(s, cc->id);
	port = fab_sim_find_host(s->m->f, cc->nodeid);
	if (port == FAB_NO_PORT)
		return false;
	fd = from ? add_remote(s, cc->id, from, &i) : add_local(s, cc->id, &i);
	if (fd < 0)
		return false;
	s->client[i] = (struct sim_client){
		.fd = fd, .id = cc->id, .port = port, .heard_ns = s->now_ns, .is_sm = cc->issm,
		.events = EPOLLIN, .serial = ++s->serials,
	};
	if (from)
		s->client[i].remote = *from;
	if (i >= s->clients)
		s->clients = i + 1;
	if (cc->issm)
		fab_sim_update_issm(s, port);
	cc->id = i;
	snprintf(cc->nodeid, sizeof(cc->nodeid), "H-%016llx",
		 (unsigned long long)s->m->f->node[s->m->f->port[port].node].guid);
	return true;
}
