// SPDX-License-Identifier: GPL-2.0-or-later
/* Sockets by which peers attach to a fabric; see attach.h. */
#include "attach.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/base/event.h"

#define HELLO_NS	2000000000ull	/* time limit of a peer that has connected */
#define ACCEPT_NS	100000000ull	/* between attempts to accept without descriptors */

/* Index of fab_attach_event(): a pending peer, the socket, or a port's link. */
#define EV_LISTEN	FAB_ATTACH_PENDING
#define EV_LINK		(FAB_ATTACH_PENDING + 1)	/* + 2 * port: control, + 1: frames */

struct pending {
	int fd;			/* -1: free */
	uint64_t deadline_ns;
	uint8_t nonce[OHCA_LINK_NONCE];
};

struct fab_attach {
	struct fab_data *d;
	struct fab_attach_cfg cfg;
	char *path;
	int listen_fd;
	unsigned int accepts, hellos;	/* left of their shares in this pass of the loop */
	bool listening;		/* listen_fd is in the epoll set */
	bool starved;		/* the last attempt to accept found no descriptor */
	struct fab_fronts *fronts;	/* NULL: fronts are not accepted */
	uint64_t accept_due_ns;	/* if not listening; UINT64_MAX: when a pending peer is done */
	unsigned int npending;
	struct pending pending[FAB_ATTACH_PENDING];
};

static bool watch(const struct fab_attach *a, int fd, uint32_t index)
{
	return fab_event_watch(a->cfg.epfd, EPOLL_CTL_ADD, fd, EPOLLIN, a->cfg.type, index);
}

static void begin_pass(struct fab_attach *a)
{
	a->accepts = FAB_ATTACH_ACCEPTS;
	a->hellos = 1;
}

struct fab_attach *fab_attach_new(struct fab_data *d, const struct fab_attach_cfg *cfg,
				  struct ohca_link_err *err)
{
	struct fab_attach *a = calloc(1, sizeof(*a));

	memset(err, 0, sizeof(*err));
	err->code = OHCA_LINK_E_SYS;
	snprintf(err->text, sizeof(err->text), "out of memory");
	if (!a)
		return NULL;
	a->d = d;
	a->cfg = *cfg;
	a->listen_fd = -1;
	begin_pass(a);
	for (unsigned int i = 0; i < FAB_ATTACH_PENDING; i++)
		a->pending[i].fd = -1;
	a->path = strdup(cfg->path);
	if (a->path)
		a->listen_fd = ohca_link_listen(a->path, err);
	if (a->listen_fd >= 0) {
		if (watch(a, a->listen_fd, EV_LISTEN)) {
			a->listening = true;
			return a;
		}
		snprintf(err->text, sizeof(err->text), "epoll: %s", strerror(errno));
	}
	fab_attach_free(a);
	return NULL;
}

static void close_pending(const struct fab_attach *a, uint32_t i)
{
	ohca_link_close(fab_data_closer(a->d), a->pending[i].fd);
}

void fab_attach_free(struct fab_attach *a)
{
	if (!a)
		return;
	for (unsigned int i = 0; i < FAB_ATTACH_PENDING; i++)
		if (a->pending[i].fd >= 0)
			close_pending(a, i);
	if (a->listen_fd >= 0) {
		if (!a->cfg.remote)
			unlink(a->path);
		close(a->listen_fd);
	}
	free(a->path);
	free(a);
}

void fab_attach_bound(const struct fab_attach *a, char *path)
{
	if (ohca_link_bound(a->listen_fd, path))
		path[0] = 0;
}

/* ---- places -------------------------------------------------------------------- */

/* Whether port @p is a switch's, and its cable leads to a channel adapter. */
static bool is_place(const struct fab *f, uint32_t p)
{
	const uint32_t peer = f->port[p].peer;
	const struct fab_extra *x = fab_extra_of(f, p);

	return peer != FAB_NO_PORT && !(x && x->remote) && f->node[f->port[p].node].sw != FAB_NONE &&
	       f->node[f->port[peer].node].type == IB_NODE_CHANNEL_ADAPTER;
}

bool fab_attach_has_place(const struct fab *f, uint32_t node)
{
	const struct fab_node *n = &f->node[node];

	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t peer = f->port[fab_port_of(n, i)].peer;

		if (peer != FAB_NO_PORT && is_place(f, peer))
			return true;
	}
	return false;
}

static bool is_taken(const struct fab_data *d, uint32_t p)
{
	return fab_data_peer(d, p);
}

static bool is_named(const struct fab *f, uint32_t host, const struct ohca_link_cfg *peer)
{
	const char *desc = f->desc[f->port[host].node].text;
	const size_t len = strnlen(peer->desc, sizeof(peer->desc));

	return len && strnlen(desc, FAB_DESC_LEN) == len && !memcmp(desc, peer->desc, len);
}

/* Whether programs are at the host whose place @p is: they would lose their link. */
static bool has_programs(const struct fab_data *d, uint32_t p)
{
	return fab_occupied(fab_data_mgmt(d), fab_data_mgmt(d)->f->port[p].peer) != FAB_NOBODY;
}

/* Whether a socket of @tenant leads to place @p, as in struct fab_attach_cfg. */
static bool leads_to(const struct fab *f, const struct fab_tenants *tenants, uint32_t tenant,
		     uint32_t p)
{
	const uint32_t host = f->port[f->port[p].peer].node;

	if (tenant != FAB_NONE)
		return host == tenant;
	for (unsigned int i = 0; tenants && i < tenants->n; i++)
		if (tenants->node[i] == host)
			return false;
	return true;
}

#define CLAIM_MEANT	5u	/* from here on the HELLO names this place */

/* How well place @p matches @peer: the largest is best, 0: not at all. */
static unsigned int place_claim(const struct fab_data *d, uint32_t p, uint32_t first_switch,
			  const struct ohca_link_cfg *peer, uint32_t taken)
{
	const struct fab *f = fab_data_mgmt(d)->f;

	if (f->port[f->port[p].peer].guid == peer->port_guid)
		return 7;
	if (is_named(f, f->port[p].peer, peer))
		return 6;
	if (peer->want_port)
		return f->port[p].node == first_switch &&
		       fab_port_num(f, p) == peer->want_port ? CLAIM_MEANT : 0;
	if (fab_data_last_guid(d, p) == peer->port_guid)
		return 4;
	if (p == taken || is_taken(d, p))
		return 0;
	if (has_programs(d, p))
		return 1;
	return fab_data_last_guid(d, p) ? 2 : 3;
}

/* A restarted machine may connect before its old link has ended: check that link now. */
static bool is_attached(struct fab_data *d, uint64_t guid, struct ohca_link_err *err)
{
	const uint32_t p = fab_data_find_guid(d, guid);

	if (p == FAB_NO_PORT || !fab_data_ctrl(d, p))
		return false;
	err->code = OHCA_LINK_E_CONFIG;
	snprintf(err->text, sizeof(err->text),
		 "port GUID 0x%016" PRIx64 " is attached to switch port %u already", guid,
		 fab_port_num(fab_data_mgmt(d)->f, p));
	return true;
}

/* Write to @err why there is no place for @peer. */
static void say_full(const struct fab_data *d, uint32_t tenant, uint32_t places,
		     const struct ohca_link_cfg *peer, struct ohca_link_err *err)
{
	const struct fab *f = fab_data_mgmt(d)->f;

	if (tenant != FAB_NONE)
		snprintf(err->text, sizeof(err->text), "'%.64s' is not at port %u of the first switch",
			 f->desc[tenant].text, peer->want_port);
	else if (peer->want_port)
		snprintf(err->text, sizeof(err->text), "no host is at port %u of the first switch",
			 peer->want_port);
	else
		snprintf(err->text, sizeof(err->text), "all %u hosts of the fabric are taken",
			 places);
}

/* Write to @err that this socket does not lead to place @p, which the peer has named. */
static void say_foreign(const struct fab_data *d, uint32_t tenant, uint32_t p,
			struct ohca_link_err *err)
{
	const struct fab *f = fab_data_mgmt(d)->f;
	const char *desc = f->desc[f->port[f->port[p].peer].node].text;

	if (tenant == FAB_NONE)
		snprintf(err->text, sizeof(err->text), "the place of '%.64s' has a socket of its own",
			 desc);
	else
		snprintf(err->text, sizeof(err->text), "this socket leads to '%.64s', not to '%.64s'",
			 f->desc[tenant].text, desc);
}

uint32_t fab_attach_place(struct fab_data *d, const struct fab_tenants *tenants, uint32_t tenant,
			  const struct ohca_link_cfg *peer, uint32_t taken, struct ohca_link_err *err)
{
	const struct fab *f = fab_data_mgmt(d)->f;
	uint32_t best = FAB_NO_PORT, first_switch = FAB_NONE, places = 0;
	unsigned int most = 0, c;

	memset(err, 0, sizeof(*err));
	err->code = OHCA_LINK_E_NOPORT;
	if (!peer->port_guid) {
		snprintf(err->text, sizeof(err->text), "the port has no GUID");
		return FAB_NO_PORT;
	}
	if (is_attached(d, peer->port_guid, err))
		return FAB_NO_PORT;
	for (uint32_t i = 0; i < f->nodes && first_switch == FAB_NONE; i++)
		if (f->node[i].sw != FAB_NONE)
			first_switch = i;
	for (uint32_t p = 1; p < f->ports; p++) {
		bool leads;

		if (!is_place(f, p))
			continue;
		leads = leads_to(f, tenants, tenant, p);
		places += leads;
		c = place_claim(d, p, first_switch, peer, taken);
		if (!leads && c < CLAIM_MEANT)
			continue;
		/* a host with its own socket has no other place, whichever peer had it before */
		if (leads && tenant != FAB_NONE && !peer->want_port && !c)
			c = 1;
		/* a host may have several ports with that name: prefer a free one */
		c = 2 * c + (c && leads && p != taken && !is_taken(d, p));
		if (c > most) {
			most = c;
			best = p;
		}
	}
	if (best == FAB_NO_PORT)
		say_full(d, tenant, places, peer, err);
	else if (!leads_to(f, tenants, tenant, best))
		say_foreign(d, tenant, best, err);
	/* fab_data_ctrl(): the peer at that port may have closed its link */
	else if (best == taken || (is_taken(d, best) && fab_data_ctrl(d, best)))
		snprintf(err->text, sizeof(err->text), "the place of '%.64s' is taken by '%.64s'",
			 f->desc[f->port[f->port[best].peer].node].text,
			 best == taken ? peer->desc : fab_data_peer(d, best)->desc);
	else
		return best;
	return FAB_NO_PORT;
}

/* ---- peers that arrive --------------------------------------------------------- */

static void listen_again(struct fab_attach *a)
{
	if (a->listening)
		return;
	a->listening = watch(a, a->listen_fd, EV_LISTEN);
	a->accept_due_ns = fab_data_host_ns(a->d) + ACCEPT_NS;
}

/* Do not accept until @due_ns, or until a pending peer is done. */
static void stop_listening(struct fab_attach *a, uint64_t due_ns)
{
	struct epoll_event ev = { 0 };

	epoll_ctl(a->cfg.epfd, EPOLL_CTL_DEL, a->listen_fd, &ev);
	a->listening = false;
	a->accept_due_ns = due_ns;
}

static void drop_pending(struct fab_attach *a, uint32_t i, bool do_close)
{
	struct epoll_event ev = { 0 };

	epoll_ctl(a->cfg.epfd, EPOLL_CTL_DEL, a->pending[i].fd, &ev);
	if (do_close)
		close_pending(a, i);
	a->pending[i].fd = -1;
	a->npending--;
	listen_again(a);
}

/*
 * accept4() has failed with @error. If resources are missing the listener stays readable, so stop.
 */
static void accept_failed(struct fab_attach *a, int error)
{
	if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
		return;
	fab_data_accept_stopped(a->d);
	if (!a->starved)
		fab_data_log(a->d, "cannot accept connections: %s; trying again", strerror(error));
	a->starved = true;
	stop_listening(a, fab_data_host_ns(a->d) + ACCEPT_NS);
}

static void do_accept(struct fab_attach *a)
{
	for (uint32_t i = 0; i < FAB_ATTACH_PENDING && a->accepts; i++) {
		int fd;

		if (a->pending[i].fd >= 0)
			continue;
		a->accepts--;
		fd = accept4(a->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			accept_failed(a, errno);
			return;
		}
		if (a->starved)
			fab_data_log(a->d, "accepting connections again");
		a->starved = false;
		a->pending[i].fd = fd;
		a->pending[i].deadline_ns = fab_data_host_ns(a->d) + HELLO_NS;
		a->npending++;
		if (ohca_link_greet(fd, a->pending[i].nonce, NULL) || !watch(a, fd, i))
			drop_pending(a, i, true);
	}
	/* other peers wait in the backlog until one of these is done */
	if (a->npending == FAB_ATTACH_PENDING)
		stop_listening(a, UINT64_MAX);
}

/* Log that the machine @desc replaces the host at switch port @p, if programs lose their link. */
static void tell_programs(struct fab_data *d, uint32_t p, const char *desc)
{
	const struct fab *f = fab_data_mgmt(d)->f;

	if (has_programs(d, p))
		fab_data_log(d, "'%.64s' replaces '%.64s': its programs that "
			     "use libumad2sim have no link any more", desc,
			     f->desc[f->port[f->port[p].peer].node].text);
}

/* Attach a link after its handshake to switch port @p. */
static void adopt(struct fab_attach *a, uint32_t p, struct ohca_link *l)
{
	tell_programs(a->d, p, ohca_link_peer(l)->desc);
	if (watch(a, ohca_link_ctrl_fd(l), EV_LINK + 2 * p) &&
	    watch(a, ohca_link_event_fd(l), EV_LINK + 2 * p + 1) &&
	    fab_data_attach(a->d, p, l))
		return;
	fab_data_log(a->d, "'%.64s' cannot be attached: %s", ohca_link_peer(l)->desc,
		     strerror(errno));
	ohca_link_free(l);
}

static void turn_away(struct fab_attach *a, uint32_t i, const struct ohca_link_cfg *peer,
		      const struct ohca_link_err *err)
{
	fab_data_log(a->d, "refused '%.64s': %s", peer ? peer->desc : "a peer", err->text);
	if (peer)
		ohca_link_hello_reject(a->pending[i].fd, err->code, err->text);
	drop_pending(a, i, true);
}

static uint32_t host_place(const struct fab_attach *a, const struct ohca_link_cfg *peer,
			   struct ohca_link_err *err)
{
	return fab_attach_place(a->d, a->cfg.tenants, a->cfg.tenant, peer, FAB_NO_PORT, err);
}

/*
 * A peer by TCP is a wire of another fabric, whose node is a switch, or a program. A peer without
 * the token learns nothing else. A fabric without a token accepts wires at their ports, but no
 * programs: any user of this host could connect one, whereas the file of a UNIX socket has
 * permissions.
 */
static uint32_t remote_place(const struct fab_attach *a, uint32_t i,
			     const struct ohca_link_cfg *peer, struct ohca_link_err *err)
{
	const char *token = fab_remote_token(a->cfg.remote);
	const bool proven = ohca_link_proven(peer, a->pending[i].nonce, token);

	if (proven && peer->node_type != IB_NODE_CHANNEL_ADAPTER)
		return fab_remote_place(a->cfg.remote, peer, err);
	if (proven && token)
		return host_place(a, peer, err);
	memset(err, 0, sizeof(*err));
	/* no GUID conflict: the peer must not try another GUID */
	err->code = OHCA_LINK_E_NOPORT;
	snprintf(err->text, sizeof(err->text), proven ?
		 "programs attach by TCP only to a fabric that has a --token" :
		 "the token is wrong, or missing");
	return FAB_NO_PORT;
}

static void do_hello(struct fab_attach *a, uint32_t i)
{
	int fd = a->pending[i].fd;
	struct ohca_link_cfg peer, cfg;
	struct ohca_link_err err;
	struct ohca_link *l;
	uint32_t p;
	int r;

	if (fd < 0 || !a->hellos)
		return;
	a->hellos--;
	if (a->fronts && fab_is_front(fd)) {
		drop_pending(a, i, false);
		fab_fronts_take(a->fronts, fd, a);
		return;
	}
	r = ohca_link_hello_recv(fd, fab_data_closer(a->d), &peer, &err);
	if (r == 0) {
		/* a peer whose HELLO is not complete does not delay another one */
		a->hellos++;
		return;
	}
	if (r < 0) {
		turn_away(a, i, NULL, &err);
		return;
	}
	p = a->cfg.remote ? remote_place(a, i, &peer, &err) : host_place(a, &peer, &err);
	if (p == FAB_NO_PORT) {
		turn_away(a, i, &peer, &err);
		return;
	}
	fab_data_link_cfg(a->d, p, &cfg);
	drop_pending(a, i, false);
	l = ohca_link_hello_reply(fd, &peer, &cfg, &err);
	if (l)
		adopt(a, p, l);
	else
		fab_data_log(a->d, "refused '%.64s': %s", peer.desc, err.text);
}

uint32_t fab_attach_front_place(void *arg, const struct ohca_link_cfg *peer, uint32_t taken,
				struct ohca_link_err *err)
{
	const struct fab_attach *a = arg;
	const uint32_t p = fab_attach_place(a->d, a->cfg.tenants, a->cfg.tenant, peer, taken, err);

	if (p != FAB_NO_PORT)
		tell_programs(a->d, p, peer->desc);
	return p;
}

void fab_attach_fronts(struct fab_attach *a, struct fab_fronts *fronts)
{
	a->fronts = fronts;
}

static uint64_t hello_timeouts(struct fab_attach *a, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; a->npending && i < FAB_ATTACH_PENDING; i++) {
		struct pending *p = &a->pending[i];

		if (p->fd < 0)
			continue;
		if (p->deadline_ns <= now_ns) {
			fab_data_log(a->d, "refused a peer: no HELLO within 2 s");
			ohca_link_hello_reject(p->fd, OHCA_LINK_E_TIMEOUT, "no HELLO within 2 s");
			drop_pending(a, i, true);
		} else if (p->deadline_ns - now_ns < next) {
			next = p->deadline_ns - now_ns;
		}
	}
	return next;
}

uint64_t fab_attach_timer(struct fab_attach *a, uint64_t now_ns)
{
	uint64_t next = hello_timeouts(a, now_ns), left;

	begin_pass(a);
	if (a->listening)
		return next;
	if (a->accept_due_ns <= now_ns)
		listen_again(a);
	left = a->accept_due_ns > now_ns ? a->accept_due_ns - now_ns : ACCEPT_NS;
	return a->listening || next < left ? next : left;
}

void fab_attach_event(struct fab_attach *a, uint32_t index)
{
	if (index < FAB_ATTACH_PENDING)
		do_hello(a, index);
	else if (index == EV_LISTEN)
		do_accept(a);
	else if ((index - EV_LINK) % 2)
		fab_data_woke(a->d, (index - EV_LINK) / 2);
	else
		fab_data_ctrl(a->d, (index - EV_LINK) / 2);
}
