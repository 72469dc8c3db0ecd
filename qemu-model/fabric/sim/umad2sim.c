// SPDX-License-Identifier: GPL-2.0-or-later
/* The server's side of libumad2sim's protocol; see umad2sim.h. */
#include "umad2sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fabric/base/event.h"
#include "ib/packet.h"
#include "sim_wire.h"

/* Indices of events: the number of a client, or these. */
#define EV_CTL		FAB_SIM_CLIENTS
#define EV_UDP		(FAB_SIM_CLIENTS + 1u)

#define BATCH		8u
#define TIMED_OUT	110u		/* status of a MAD that nobody answered */
#define TID_CLIENT	48u		/* from this bit on a transaction ID has the client */

/*
 * A client; @fd -1: none; @id: its socket is in<id>, or has this UDP port; @remote: where its
 * control messages come from by UDP, sin_family 0: it is no remote one; @heard_ns: when something
 * came from it last; @gone: to be dropped when the datagrams at hand are dealt with
 */
struct client {
	int fd;
	uint32_t id;
	uint32_t port;
	struct sockaddr_in remote;
	uint64_t heard_ns;
	bool is_sm;
	bool gone;
};

struct fab_sim {
	struct fab_mgmt *m;
	int epfd;
	int ctl;
	int udp;			/* control socket of remote clients; -1: none */
	struct sockaddr_in at;		/* its address */
	char name[64];
	uint64_t now_ns;
	uint32_t clients;		/* the highest number in use, plus 1 */
	bool any_gone;
	struct client client[FAB_SIM_CLIENTS];
};

static uint32_t lid_to_wire(uint16_t lid)
{
	uint16_t v;

	ib_put_be16(&v, lid);
	return v;
}

static uint16_t lid_from_wire(uint32_t w)
{
	uint16_t v = (uint16_t)w;

	return ib_get_be16(&v);
}

/* The abstract address NAME:@suffix, to which a final zero belongs. Return: its length. */
static socklen_t address(const struct fab_sim *s, const char *suffix, struct sockaddr_un *un)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "%s:%s", s->name, suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 2 + strlen(un->sun_path + 1));
}

/* A datagram socket at @addr, with events of @index. Return: -1, errno says why. */
static int open_socket(const struct fab_sim *s, const struct sockaddr *addr, socklen_t len,
		       uint32_t index)
{
	int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, addr, len) ||
	    !fab_event_watch(s->epfd, EPOLL_CTL_ADD, fd, EPOLLIN, FAB_EVENT_SIM, index)) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

/* The same at the abstract address of @suffix. */
static int bound_socket(const struct fab_sim *s, const char *suffix, uint32_t index)
{
	struct sockaddr_un un;
	socklen_t len = address(s, suffix, &un);

	return open_socket(s, (struct sockaddr *)&un, len, index);
}

/* The same at UDP port @above of the control socket's. */
static int bound_udp(const struct fab_sim *s, uint32_t above, uint32_t index)
{
	struct sockaddr_in in = s->at;

	in.sin_port = htons((uint16_t)(ntohs(in.sin_port) + above));
	return open_socket(s, (struct sockaddr *)&in, sizeof(in), index);
}

static bool same_address(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_family == b->sin_family && a->sin_port == b->sin_port &&
	       a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* ---- clients ------------------------------------------------------------------- */

static enum fab_occupant occupied(void *ctx, uint32_t port)
{
	const struct fab_sim *s = ctx;
	enum fab_occupant who = FAB_NOBODY;

	for (uint32_t i = 0; i < s->clients && who != FAB_SUBNET_MANAGER; i++)
		if (s->client[i].fd >= 0 && s->client[i].port == port)
			who = s->client[i].is_sm ? FAB_SUBNET_MANAGER : FAB_PROGRAM;
	return who;
}

/* A port has IsSM while a subnet manager is attached to it. */
static void update_issm(struct fab_sim *s, uint32_t port)
{
	fab_mgmt_set_issm(s->m, port, occupied(s, port) == FAB_SUBNET_MANAGER, s->now_ns);
}

static void drop_client(struct fab_sim *s, struct client *c)
{
	close(c->fd);
	c->fd = -1;
	if (c->is_sm)
		update_issm(s, c->port);
}

/* Connect @fd to the client's socket. Return: false: there is none. */
static bool reach(const struct fab_sim *s, int fd, uint32_t id)
{
	struct sockaddr_un un;
	char suffix[24];
	socklen_t len;

	snprintf(suffix, sizeof(suffix), "in%u", id);
	len = address(s, suffix, &un);
	return !connect(fd, (struct sockaddr *)&un, len);
}

/*
 * Drop clients whose process is gone: one that was killed did not disconnect, and a datagram socket
 * does not tell. A client with the number @id of the process that attaches is an earlier process.
 */
static void drop_dead(struct fab_sim *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->clients; i++) {
		struct client *c = &s->client[i];

		if (c->fd >= 0 && !c->remote.sin_family &&
		    (c->id == id || !reach(s, c->fd, c->id)))
			drop_client(s, c);
	}
}

/* More datagrams than the receive buffer of a socket holds. */
#define MOST_STRAYS	4096u

/* What came to @fd before it was connected is from anybody, not from the client. */
static void forget(int fd)
{
	uint8_t byte;

	/* the client itself may go on sending */
	for (unsigned int i = 0; i < MOST_STRAYS; i++)
		if (recv(fd, &byte, sizeof(byte), 0) < 0)
			break;
}

/* The socket of client @i, whose process is @id. Return: -1: there is no such process. */
static int socket_to(struct fab_sim *s, uint32_t i, uint32_t id)
{
	char suffix[24];
	int fd;

	snprintf(suffix, sizeof(suffix), "out%u", i);
	fd = bound_socket(s, suffix, i);
	if (fd >= 0 && !reach(s, fd, id)) {
		close(fd);
		return -1;
	}
	if (fd >= 0)
		forget(fd);
	return fd;
}

/*
 * The same of a remote client: its UDP port @id of the host that @from is at. The socket is
 * connected, so that the kernel drops what comes from elsewhere from then on. Return: -1, errno is
 * EADDRINUSE: client @i's port is somebody else's.
 */
static int socket_to_remote(struct fab_sim *s, uint32_t i, uint32_t id,
			    const struct sockaddr_in *from)
{
	struct sockaddr_in in = *from;
	int fd;

	in.sin_port = htons((uint16_t)id);
	fd = bound_udp(s, i + 1, i);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&in, sizeof(in))) {
		close(fd);
		errno = EHOSTUNREACH;
		return -1;
	}
	if (fd >= 0)
		forget(fd);
	return fd;
}

/* A program whose port was another's is a new one; UDP tells of dead ones when it is sent to. */
static void drop_remote(struct fab_sim *s, uint32_t id, const struct sockaddr_in *from)
{
	for (uint32_t i = 0; i < s->clients; i++) {
		struct client *c = &s->client[i];

		if (c->fd >= 0 && c->remote.sin_family &&
		    c->remote.sin_addr.s_addr == from->sin_addr.s_addr &&
		    (c->id == id || c->remote.sin_port == from->sin_port))
			drop_client(s, c);
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
		drop_client(s, &s->client[i]);
	return i;
}

/* A number, and a socket, for the process @id. Return: the socket, -1: there is none. */
static int add_local(struct fab_sim *s, uint32_t id, uint32_t *number)
{
	/* the first numbers are for remote clients only: they are UDP ports */
	uint32_t i = s->udp >= 0 ? FAB_SIM_REMOTE : 0;

	while (i < FAB_SIM_CLIENTS && s->client[i].fd >= 0)
		i++;
	*number = i;
	return i < FAB_SIM_CLIENTS ? socket_to(s, i, id) : -1;
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

/* @from: of a remote client, else NULL */
static bool connect_client(struct fab_sim *s, struct sim_connect *cc,
			   const struct sockaddr_in *from)
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
	s->client[i] = (struct client){
		.fd = fd, .id = cc->id, .port = port, .heard_ns = s->now_ns, .is_sm = cc->issm,
	};
	if (from)
		s->client[i].remote = *from;
	if (i >= s->clients)
		s->clients = i + 1;
	if (cc->issm)
		update_issm(s, port);
	cc->id = i;
	snprintf(cc->nodeid, sizeof(cc->nodeid), "H-%016llx",
		 (unsigned long long)s->m->f->node[s->m->f->port[port].node].guid);
	return true;
}

/* ---- control ------------------------------------------------------------------- */

/* @from: of a remote client, else NULL */
static void control(struct fab_sim *s, struct sim_ctl *ctl, const struct sockaddr_in *from)
{
	struct sim_connect cc;
	struct client *c;
	uint32_t on;

	if (ctl->type == SIM_CONNECT) {
		memcpy(&cc, ctl->data, sizeof(cc));
		if (connect_client(s, &cc, from))
			memcpy(ctl->data, &cc, sizeof(cc));
		else
			ctl->type = SIM_ERROR;
		return;
	}
	if (ctl->client >= FAB_SIM_CLIENTS || s->client[ctl->client].fd < 0) {
		ctl->type = SIM_ERROR;
		return;
	}
	c = &s->client[ctl->client];
	if (from ? !same_address(from, &c->remote) : c->remote.sin_family != 0) {
		ctl->type = SIM_ERROR;
		return;
	}
	c->heard_ns = s->now_ns;
	if (ctl->type == SIM_DISCONNECT) {
		drop_client(s, c);
	} else if (ctl->type == SIM_SET_ISSM) {
		memcpy(&on, ctl->data, sizeof(on));
		c->is_sm = on;
		update_issm(s, c->port);
	} else {
		fab_sim_get(s->m->f, c->port, ctl);
	}
}

/*
 * Return: whether a request has come to @fd, and nothing longer. SIM_ERROR is an answer: with two
 * servers to which somebody writes in the name of the other one, an answer to it would be answered,
 * too, and so on.
 */
static bool read_ctl(int fd, struct sim_ctl *ctl, void *from, socklen_t *len)
{
	return recvfrom(fd, ctl, sizeof(*ctl), MSG_TRUNC, from, len) == sizeof(*ctl) &&
	       ctl->magic == SIM_MAGIC && ctl->type != SIM_ERROR;
}

static void read_control(struct fab_sim *s)
{
	struct sockaddr_un from;
	socklen_t len = sizeof(from);
	struct sim_ctl ctl;

	if (!read_ctl(s->ctl, &ctl, &from, &len))
		return;
	control(s, &ctl, NULL);
	sendto(s->ctl, &ctl, sizeof(ctl), 0, (struct sockaddr *)&from, len);
}

/* The reply is as long as the request, and goes to where that came from. */
static void read_udp(struct fab_sim *s)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct sim_ctl ctl;

	if (!read_ctl(s->udp, &ctl, &from, &len) || len != sizeof(from) ||
	    from.sin_family != AF_INET)
		return;
	control(s, &ctl, &from);
	sendto(s->udp, &ctl, sizeof(ctl), 0, (struct sockaddr *)&from, len);
}

/* ---- MADs ---------------------------------------------------------------------- */

static bool put(struct fab_sim *s, struct client *c, const struct sim_mad *r)
{
	if (send(c->fd, r, sizeof(*r), 0) == sizeof(*r))
		return true;
	if (errno == ECONNREFUSED || errno == ENOTCONN)
		c->gone = s->any_gone = true;
	return false;
}

/*
 * The client at @port that gets a MAD. A response goes to the client that sent the request, by its
 * transaction ID. A request for a subnet manager or the subnet administration goes to a client that
 * is a subnet manager; other MADs, Reports among them, preferably to one that is not.
 */
static struct client *client_for(struct fab_sim *s, uint32_t port, const struct ib_mad_hdr *h)
{
	const bool report = h->method == IB_METHOD_REPORT;
	const bool for_sm = !report && (ib_mad_is_smp(h) || h->mgmt_class == IB_CLASS_SUBN_ADM);
	const uint64_t id = ib_be64(h->tid) >> TID_CLIENT;
	struct client *any = NULL;

	if ((h->method & IB_METHOD_RESP) || h->method == IB_METHOD_TRAP_REPRESS) {
		if (id < FAB_SIM_CLIENTS && s->client[id].fd >= 0 && s->client[id].port == port)
			return &s->client[id];
		return NULL;
	}
	for (uint32_t i = 0; i < s->clients; i++) {
		struct client *c = &s->client[i];

		if (c->fd < 0 || c->port != port)
			continue;
		if (c->is_sm == for_sm)
			return c;
		any = c;
	}
	return for_sm ? NULL : any;
}

static bool deliver(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	struct fab_sim *s = ctx;
	struct client *c = client_for(s, port, &mad->mad.hdr);
	struct sim_mad r = {
		.dlid = lid_to_wire(mad->dlid),
		.slid = lid_to_wire(mad->slid),
		.dqp = ib_to_be32(mad->dqp),
		.sqp = ib_to_be32(mad->sqp),
		.length = ib_to_be64(IB_MAD_LEN),
	};

	if (!c)
		return false;
	r.mad = mad->mad;
	return put(s, c, &r);
}

/* Whether the sender of a MAD waits for an answer. */
static bool is_request(const struct ib_mad_hdr *h)
{
	return !(h->method & IB_METHOD_RESP) && h->method != IB_METHOD_TRAP_REPRESS &&
	       h->method != IB_METHOD_TRAP && h->method != IB_METHOD_SEND;
}

static void from_client(struct fab_sim *s, uint32_t id, struct sim_mad *r)
{
	struct client *c = &s->client[id];
	const struct fab_port *p = &s->m->f->port[c->port];
	struct fab_mad mad = {
		.dlid = lid_from_wire(r->dlid),
		.dqp = ib_be32(r->dqp),
		.sqp = ib_be32(r->sqp),
	};

	mad.mad = r->mad;
	mad.slid = p->pi.lid;
	if (ib_smp_is_dr(&mad.smp))
		mad.slid = mad.dlid = IB_LID_PERMISSIVE;
	if (is_request(&mad.mad.hdr)) {
		uint64_t tid = ib_be64(mad.mad.hdr.tid) & ((1ull << TID_CLIENT) - 1);

		mad.mad.hdr.tid = ib_to_be64(tid | (uint64_t)id << TID_CLIENT);
	}
	r->mad = mad.mad;
	if (fab_mgmt_send(s->m, c->port, &mad, s->now_ns) != FAB_LOST || !is_request(&r->mad.hdr))
		return;
	/* the library has no clock: it is told at once that no answer comes */
	r->status = ib_to_be32(TIMED_OUT);
	put(s, c, r);
}

/* What has come from a client, BATCH of it at most: one system call and one wait for all. */
static void read_mads(struct fab_sim *s, uint32_t id)
{
	struct mmsghdr msg[BATCH];
	struct iovec iov[BATCH];
	struct sim_mad r[BATCH];
	int n;

	for (unsigned int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ &r[i], sizeof(r[i]) };
		msg[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	n = recvmmsg(s->client[id].fd, msg, BATCH, 0, NULL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		s->client[id].gone = s->any_gone = true;
	s->client[id].heard_ns = s->now_ns;
	for (int i = 0; i < n; i++)
		if (msg[i].msg_len == sizeof(r[i]) && !(msg[i].msg_hdr.msg_flags & MSG_TRUNC))
			from_client(s, id, &r[i]);
}

void fab_sim_event(struct fab_sim *s, uint32_t index, uint64_t now_ns)
{
	s->now_ns = now_ns;
	if (index == EV_CTL)
		read_control(s);
	else if (index == EV_UDP)
		read_udp(s);
	else if (index < FAB_SIM_CLIENTS && s->client[index].fd >= 0)
		read_mads(s, index);
	for (uint32_t i = 0; s->any_gone && i < s->clients; i++)
		if (s->client[i].fd >= 0 && s->client[i].gone)
			drop_client(s, &s->client[i]);
	s->any_gone = false;
}

struct fab_sim *fab_sim_new(struct fab_mgmt *m, const char *name, int epfd)
{
	struct fab_sim *s;

	if (strlen(name) >= sizeof(s->name)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->m = m;
	s->epfd = epfd;
	s->udp = -1;
	memcpy(s->name, name, strlen(name) + 1);
	for (uint32_t i = 0; i < FAB_SIM_CLIENTS; i++)
		s->client[i].fd = -1;
	s->ctl = bound_socket(s, "ctl", EV_CTL);
	if (s->ctl < 0) {
		free(s);
		return NULL;
	}
	m->deliver = deliver;
	m->occupied = occupied;
	m->ctx = s;
	return s;
}

bool fab_sim_listen(struct fab_sim *s, const char *at)
{
	const char *colon = strrchr(at, ':');
	char addr[INET_ADDRSTRLEN] = "", *end;
	unsigned long port = 0;

	s->at = (struct sockaddr_in){ .sin_family = AF_INET };
	if (colon && (size_t)(colon - at) < sizeof(addr) && colon[1] >= '0' && colon[1] <= '9') {
		memcpy(addr, at, (size_t)(colon - at));
		port = strtoul(colon + 1, &end, 10);
		if (*end)
			port = 0;
	}
	if (!port || port > UINT16_MAX - FAB_SIM_REMOTE ||
	    inet_pton(AF_INET, addr, &s->at.sin_addr) != 1) {
		errno = EINVAL;
		return false;
	}
	s->at.sin_port = htons((uint16_t)port);
	s->udp = bound_udp(s, 0, EV_UDP);
	return s->udp >= 0;
}

void fab_sim_free(struct fab_sim *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->clients; i++)
		if (s->client[i].fd >= 0)
			close(s->client[i].fd);
	close(s->ctl);
	if (s->udp >= 0)
		close(s->udp);
	free(s);
}
