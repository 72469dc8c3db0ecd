// SPDX-License-Identifier: GPL-2.0-or-later
/* Wires to fabrics of other hosts; see remote.h. */
#include "remote.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "fabric/base/event.h"
#include "fabric/graph/names.h"

#define ANSWER_NS	5000000000ull	/* for the whole handshake */
#define RETRY_NS	100000000ull	/* after the first failure; doubled by each further one */
#define RETRY_MOST_NS	5000000000ull

/* Index of fab_remote_event(): 3 * wire and one of these. */
enum { EV_CONNECT, EV_CTRL, EV_FRAMES, EVENTS };

/**
 * struct wire - our end of a wire
 * @p: its port
 * @path: of the listener, "": it waits for a peer
 * @place: port that it wants there, or ""
 * @fd: of the current handshake, -1: there is none
 * @deadline_ns: time at which the handshake fails
 * @due_ns: time at which the next one begins, 0: there is a link
 * @fails: failures in sequence
 */
struct wire {
	uint32_t p;
	char path[OHCA_LINK_TCP_MAX];
	char place[64];
	int fd;
	uint64_t deadline_ns;
	uint64_t due_ns;
	unsigned int fails;
};

struct fab_remote {
	struct fab_data *d;
	int epfd;
	const char *token;
	unsigned int n;
	struct wire wire[FAB_REMOTE_WIRES];
};

bool fab_remote_parse(struct fab_remote_wire *w, const char *arg)
{
	/* the last one: a NodeDescription may contain '=', a host's name does not */
	const char *equals = strrchr(arg, '=');
	const size_t n = equals ? (size_t)(equals - arg) : strlen(arg);

	if (!n || n >= sizeof(w->port) || (equals && !equals[1]))
		return false;
	memcpy(w->port, arg, n);
	w->port[n] = 0;
	w->to = equals ? equals + 1 : NULL;
	return true;
}

/* ---- ports --------------------------------------------------------------------- */

/*
 * The port must be a switch's, without a cable or with one to a host. Return: NULL, or the error.
 */
static const char *unfit(const struct fab *f, uint32_t p)
{
	const uint32_t peer = p == FAB_NO_PORT ? FAB_NO_PORT : f->port[p].peer;

	if (p == FAB_NO_PORT)
		return "there is no such port: write NODE:PORT";
	if (f->node[f->port[p].node].sw == FAB_NONE || !fab_port_num(f, p))
		return "it is not a port of a switch";
	if (peer != FAB_NO_PORT && f->node[f->port[peer].node].type != IB_NODE_CHANNEL_ADAPTER)
		return "its cable leads to a switch: use a port without a cable or with a cable to a host";
	return NULL;
}

/* Add the other end of port @p, which has no cable: a node that represents the other fabric. */
static bool add_stub(struct fab *f, uint32_t p, unsigned int i)
{
	char desc[32];
	const int len = snprintf(desc, sizeof(desc), "wire%u", i + 1);
	const uint32_t n = fab_add_node(f, IB_NODE_CHANNEL_ADAPTER, 1,
					fab_made_guid(IB_NODE_CHANNEL_ADAPTER, 0xffff00u + i),
					desc, (size_t)len);
	struct ib_port_info *pi;

	if (n == FAB_NONE)
		return false;
	pi = &f->port[fab_port_of(&f->node[n], 1)].pi;
	pi->width_supported = f->port[p].pi.width_supported;
	pi->speed_supported = f->port[p].pi.speed_supported;
	pi->speed_ext_supported = f->port[p].pi.speed_ext_supported;
	fab_cable(f, p, fab_port_of(&f->node[n], 1));
	return true;
}

bool fab_remote_ports(struct fab *f, const struct fab_remote_wire *w, unsigned int n, char *why,
		      size_t size)
{
	const char *no;

	if (n && !fab_names_seal(f)) {
		snprintf(why, size, "out of memory");
		return false;
	}
	for (unsigned int i = 0; i < n; i++) {
		const uint32_t p = fab_find_port(f, w[i].port);

		no = unfit(f, p);
		if (!no && f->port[p].peer == FAB_NO_PORT && !add_stub(f, p, i))
			no = "there is no room for another node";
		if (no) {
			snprintf(why, size, "--wire %s: %s", w[i].port, no);
			return false;
		}
	}
	return true;
}

/* Set up wire @w of a sealed graph at port @name. Return: NULL, or the error. */
static const char *take_port(struct fab_remote *r, const char *name, struct wire *w)
{
	struct fab *f = fab_data_mgmt(r->d)->f;
	const char *no;
	struct fab_extra *x;

	w->p = fab_find_port(f, name);
	no = unfit(f, w->p);
	if (no)
		return no;
	if (f->port[w->p].peer == FAB_NO_PORT)
		return "it has no cable";
	x = fab_extra(f, w->p);
	if (!x)
		return "out of memory";
	if (x->remote)
		return "it has a wire already";
	x->remote = true;
	fab_switch_off(f, f->port[f->port[w->p].peer].node);
	return NULL;
}

static int take_address(struct wire *w, const char *to, struct ohca_link_err *err)
{
	const char *slash = strchr(to, '/');
	char name[256];

	if (slash && (strlen(slash + 1) >= sizeof(w->place) || !slash[1])) {
		snprintf(err->text, sizeof(err->text), "'%.80s' is not NODE:PORT", slash + 1);
		return -1;
	}
	if (slash)
		strcpy(w->place, slash + 1);
	snprintf(name, sizeof(name), "%.*s", slash ? (int)(slash - to) : (int)strlen(to), to);
	return ohca_link_resolve(name, w->path, err);
}

struct fab_remote *fab_remote_new(struct fab_data *d, int epfd, const char *token,
				  const struct fab_remote_wire *w, unsigned int n,
				  struct ohca_link_err *err)
{
	struct fab_remote *r = calloc(1, sizeof(*r));

	memset(err, 0, sizeof(*err));
	err->code = OHCA_LINK_E_CONFIG;
	snprintf(err->text, sizeof(err->text), "out of memory");
	if (!r)
		return NULL;
	r->d = d;
	r->epfd = epfd;
	r->token = token;
	for (r->n = 0; r->n < n; r->n++) {
		struct wire *x = &r->wire[r->n];
		const char *no = take_port(r, w[r->n].port, x);
		struct ohca_link_err e = { 0 };

		x->fd = -1;
		/* the first attempt begins at once */
		x->due_ns = 1;
		if (!no && w[r->n].to && take_address(x, w[r->n].to, &e))
			no = e.text;
		if (!no)
			continue;
		snprintf(err->text, sizeof(err->text), "--wire %.90s: %.120s", w[r->n].port, no);
		fab_remote_free(r);
		return NULL;
	}
	return r;
}

void fab_remote_free(struct fab_remote *r)
{
	if (!r)
		return;
	for (unsigned int i = 0; i < r->n; i++)
		if (r->wire[i].fd >= 0)
			ohca_link_close(fab_data_closer(r->d), r->wire[i].fd);
	free(r);
}

const char *fab_remote_token(const struct fab_remote *r)
{
	return r->token;
}

unsigned int fab_remote_connects(const struct fab_remote *r, unsigned int i)
{
	if (i >= r->n || !r->wire[i].path[0])
		return 0;
	return (unsigned int)strtoul(strrchr(r->wire[i].path, ':') + 1, NULL, 10);
}

/* ---- peers that connect to us ---------------------------------------------------- */

uint32_t fab_remote_place(const struct fab_remote *r, const struct ohca_link_cfg *peer,
			  struct ohca_link_err *err)
{
	const struct fab *f = fab_data_mgmt(r->d)->f;
	const uint32_t named = peer->place[0] ? fab_find_port(f, peer->place) : FAB_NO_PORT;
	uint32_t best = FAB_NO_PORT;
	bool known = false;

	memset(err, 0, sizeof(*err));
	err->code = OHCA_LINK_E_NOPORT;
	for (unsigned int i = 0; i < r->n; i++) {
		const struct wire *w = &r->wire[i];

		if (w->path[0] || (peer->place[0] && w->p != named))
			continue;
		known = true;
		/* fab_data_ctrl(): the peer at that port may have closed its link */
		if (fab_data_peer(r->d, w->p) && fab_data_ctrl(r->d, w->p))
			continue;
		if (fab_data_last_guid(r->d, w->p) == peer->port_guid)
			return w->p;
		if (best == FAB_NO_PORT)
			best = w->p;
	}
	if (best == FAB_NO_PORT && peer->place[0])
		snprintf(err->text, sizeof(err->text), known ? "'%s' has a wire already" :
			 "no wire is expected at '%s'", peer->place);
	else if (best == FAB_NO_PORT)
		snprintf(err->text, sizeof(err->text), "no wire is expected");
	return best;
}

/* ---- connecting ------------------------------------------------------------------ */

static const char *name_of(const struct fab_remote *r, const struct wire *w)
{
	const struct fab *f = fab_data_mgmt(r->d)->f;

	return f->desc[f->port[w->p].node].text;
}

static void remote_forget(struct fab_remote *r, struct wire *w)
{
	struct epoll_event ev = { 0 };

	epoll_ctl(r->epfd, EPOLL_CTL_DEL, w->fd, &ev);
	w->fd = -1;
}

static void failed(struct fab_remote *r, struct wire *w, const char *why)
{
	uint64_t wait = RETRY_NS;

	for (unsigned int i = 0; i < w->fails && wait < RETRY_MOST_NS; i++)
		wait *= 2;
	if (!w->fails++)
		fab_data_log(r->d, "'%.64s' port %u: cannot connect the wire to %s: %s; trying again",
			     name_of(r, w), fab_port_num(fab_data_mgmt(r->d)->f, w->p), w->path,
			     why);
	w->due_ns = fab_data_host_ns(r->d) + (wait < RETRY_MOST_NS ? wait : RETRY_MOST_NS);
}

/* The HELLO of our end; the same port has the same GUID each time, and no other port has it. */
static void wire_cfg(const struct fab_remote *r, const struct wire *w, struct ohca_link_cfg *cfg)
{
	fab_data_link_cfg(r->d, w->p, cfg);
	cfg->port_guid ^= (uint64_t)cfg->port_num << 56;
	cfg->token = r->token;
	memcpy(cfg->place, w->place, sizeof(cfg->place));
}

static bool remote_watch(const struct fab_remote *r, int fd, const struct wire *w,
			 unsigned int what)
{
	return fab_event_watch(r->epfd, EPOLL_CTL_ADD, fd, EPOLLIN, FAB_EVENT_REMOTE,
			       (uint32_t)(w - r->wire) * EVENTS + what);
}

static void remote_begin(struct fab_remote *r, struct wire *w)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	wire_cfg(r, w, &cfg);
	w->fd = ohca_link_connect_start(w->path, &cfg, 0, &err);
	if (w->fd < 0) {
		failed(r, w, err.text);
		return;
	}
	w->deadline_ns = fab_data_host_ns(r->d) + ANSWER_NS;
	if (remote_watch(r, w->fd, w, EV_CONNECT))
		return;
	failed(r, w, strerror(errno));
	ohca_link_close(fab_data_closer(r->d), w->fd);
	w->fd = -1;
}

static void go_on(struct fab_remote *r, struct wire *w)
{
	struct ohca_link *l = NULL;
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	const int fd = w->fd;
	int done;

	if (fd < 0)
		return;
	wire_cfg(r, w, &cfg);
	done = ohca_link_connect_finish(fd, &cfg, &l, &err);
	if (!done)
		return;
	if (done < 0) {
		/* the closer removes it from the epoll set */
		w->fd = -1;
		failed(r, w, err.text);
		return;
	}
	remote_forget(r, w);
	if (remote_watch(r, ohca_link_ctrl_fd(l), w, EV_CTRL) &&
	    remote_watch(r, ohca_link_event_fd(l), w, EV_FRAMES) &&
	    fab_data_attach(r->d, w->p, l)) {
		w->due_ns = 0;
		w->fails = 0;
		return;
	}
	ohca_link_free(l);
	failed(r, w, strerror(errno));
}

void fab_remote_event(struct fab_remote *r, uint32_t index)
{
	struct wire *w = &r->wire[index / EVENTS];

	if (index / EVENTS >= r->n)
		return;
	if (index % EVENTS == EV_CONNECT)
		go_on(r, w);
	else if (index % EVENTS == EV_CTRL)
		fab_data_ctrl(r->d, w->p);
	else
		fab_data_woke(r->d, w->p);
}

uint64_t fab_remote_timer(struct fab_remote *r, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX, due;

	for (unsigned int i = 0; i < r->n; i++) {
		struct wire *w = &r->wire[i];

		if (!w->path[0] || (w->fd < 0 && fab_data_peer(r->d, w->p)))
			continue;
		if (w->fd >= 0 && w->deadline_ns <= now_ns) {
			const int fd = w->fd;

			remote_forget(r, w);
			ohca_link_close(fab_data_closer(r->d), fd);
			failed(r, w, "no answer within 5 s");
		} else if (w->fd < 0 && !w->due_ns) {
			/* the link is lost: its listener may need a moment to restart */
			w->due_ns = now_ns + RETRY_NS;
		} else if (w->fd < 0 && w->due_ns <= now_ns) {
			remote_begin(r, w);
		}
		due = w->fd >= 0 ? w->deadline_ns : w->due_ns;
		due = due > now_ns ? due - now_ns : 0;
		next = due < next ? due : next;
	}
	return next;
}
