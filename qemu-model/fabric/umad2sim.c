// SPDX-License-Identifier: GPL-2.0-or-later
/* The server's side of libumad2sim's protocol; see umad2sim.h. */
#include "umad2sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ib/packet.h"
#include "sim_wire.h"

#define TIMED_OUT	110u		/* status of a MAD that nobody answered */
#define TID_CLIENT	48u		/* from this bit on a transaction ID has the client */

/*
 * A client; @fd -1: none; @id: its socket is in<id>; @gone: to be dropped when the datagram at
 * hand is dealt with
 */
struct client {
	int fd;
	uint32_t id;
	uint32_t port;
	bool is_sm;
	bool gone;
};

struct fab_sim {
	struct fab_mgmt *m;
	int epfd;
	int ctl;
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

/* A datagram socket at that address, with events. Return: -1, errno says why. */
static int bound_socket(const struct fab_sim *s, const char *suffix, uint32_t event)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = event };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un un;
	socklen_t len = address(s, suffix, &un);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&un, len) ||
	    epoll_ctl(s->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

/* ---- clients ------------------------------------------------------------------- */

/* A port has IsSM while a subnet manager is attached to it. */
static void update_issm(struct fab_sim *s, uint32_t port)
{
	bool is_sm = false;

	for (uint32_t i = 0; i < s->clients; i++)
		if (s->client[i].fd >= 0 && s->client[i].port == port)
			is_sm |= s->client[i].is_sm;
	fab_mgmt_set_issm(s->m, port, is_sm, s->now_ns);
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

		if (c->fd >= 0 && (c->id == id || !reach(s, c->fd, c->id)))
			drop_client(s, c);
	}
}

static bool connect_client(struct fab_sim *s, struct sim_connect *cc)
{
	char suffix[24];
	uint32_t i, port;
	int fd;

	cc->nodeid[SIM_NODEID_LEN - 1] = 0;
	drop_dead(s, cc->id);
	port = fab_sim_find_host(s->m->f, cc->nodeid);
	for (i = 0; i < FAB_SIM_CLIENTS && s->client[i].fd >= 0; i++)
		;
	if (port == FAB_NO_PORT || i == FAB_SIM_CLIENTS)
		return false;
	snprintf(suffix, sizeof(suffix), "out%u", i);
	fd = bound_socket(s, suffix, i);
	if (fd < 0)
		return false;
	if (!reach(s, fd, cc->id)) {
		close(fd);
		return false;
	}
	s->client[i] = (struct client){ .fd = fd, .id = cc->id, .port = port, .is_sm = cc->issm };
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

static void control(struct fab_sim *s, struct sim_ctl *ctl)
{
	struct sim_connect cc;
	struct client *c;
	uint32_t on;

	if (ctl->type == SIM_CONNECT) {
		memcpy(&cc, ctl->data, sizeof(cc));
		if (connect_client(s, &cc))
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

static void read_control(struct fab_sim *s)
{
	struct sockaddr_un from;
	socklen_t len = sizeof(from);
	struct sim_ctl ctl;

	if (recvfrom(s->ctl, &ctl, sizeof(ctl), 0, (struct sockaddr *)&from, &len) != sizeof(ctl) ||
	    ctl.magic != SIM_MAGIC)
		return;
	control(s, &ctl);
	sendto(s->ctl, &ctl, sizeof(ctl), 0, (struct sockaddr *)&from, len);
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

static void read_mad(struct fab_sim *s, uint32_t id)
{
	struct sim_mad r;
	ssize_t n = recv(s->client[id].fd, &r, sizeof(r), 0);

	if (n == sizeof(r))
		from_client(s, id, &r);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		s->client[id].gone = s->any_gone = true;
}

void fab_sim_event(struct fab_sim *s, uint32_t which, uint64_t now_ns)
{
	s->now_ns = now_ns;
	if (which == FAB_SIM_CTL)
		read_control(s);
	else if (which < FAB_SIM_CLIENTS && s->client[which].fd >= 0)
		read_mad(s, which);
	for (uint32_t i = 0; s->any_gone && i < s->clients; i++)
		if (s->client[i].fd >= 0 && s->client[i].gone)
			drop_client(s, &s->client[i]);
	s->any_gone = false;
}

struct fab_sim *fab_sim_new(struct fab_mgmt *m, const char *name, int epfd)
{
	struct fab_sim *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->m = m;
	s->epfd = epfd;
	snprintf(s->name, sizeof(s->name), "%s", name);
	for (uint32_t i = 0; i < FAB_SIM_CLIENTS; i++)
		s->client[i].fd = -1;
	s->ctl = bound_socket(s, "ctl", FAB_SIM_CTL);
	if (s->ctl < 0) {
		free(s);
		return NULL;
	}
	m->deliver = deliver;
	m->ctx = s;
	return s;
}

void fab_sim_free(struct fab_sim *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->clients; i++)
		if (s->client[i].fd >= 0)
			close(s->client[i].fd);
	close(s->ctl);
	free(s);
}
