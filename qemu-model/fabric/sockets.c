// SPDX-License-Identifier: GPL-2.0-or-later
/* The sockets by which links attach; see sockets.h. */
#include "sockets.h"

#include <stdio.h>

#include "fabric/graph/names.h"

/* Return: false: the error was printed. */
static bool open_remote(struct fab_sockets *s, const struct fab_sockets_cfg *c)
{
	const struct fab_serve_cfg *cfg = c->cfg;
	struct fab_attach_cfg door = { .path = cfg->listen_tcp, .epfd = c->epfd,
				       .type = FAB_EVENT_DOOR };
	struct ohca_link_err err;

	if (!cfg->nwires && !cfg->listen_tcp)
		return true;
	s->remote = fab_remote_new(c->data, c->epfd, cfg->token, cfg->wire, cfg->nwires, &err);
	if (!s->remote) {
		fprintf(stderr, "ohca-fabric: %s\n", err.text);
		return false;
	}
	if (!cfg->listen_tcp)
		return true;
	door.remote = s->remote;
	door.tenants = &s->tenants;
	door.tenant = FAB_NONE;
	s->door = fab_attach_new(c->data, &door, &err);
	if (!s->door)
		fprintf(stderr, "ohca-fabric: --listen-tcp: %s\n", err.text);
	return s->door;
}

/* Find the hosts with a socket of their own. Return: false: the error was printed. */
static bool find_tenants(struct fab_sockets *s, const struct fab_sockets_cfg *c)
{
	const struct fab_serve_cfg *cfg = c->cfg;

	for (unsigned int i = 0; i < cfg->ntenants; i++) {
		const uint32_t node = fab_find_node(c->f, cfg->tenant[i].node);
		const char *wrong = NULL;

		if (node == FAB_NONE)
			wrong = "there is no such node";
		else if (!fab_attach_has_place(c->f, node))
			wrong = "it is no host at a switch";
		for (unsigned int k = 0; !wrong && k < i; k++)
			if (s->tenant_node[k] == node)
				wrong = "it has a socket already";
		if (wrong) {
			fprintf(stderr, "ohca-fabric: --listen-node %s: %s\n", cfg->tenant[i].node,
				wrong);
			return false;
		}
		s->tenant_node[i] = node;
	}
	s->tenants.node = s->tenant_node;
	return true;
}

/* Return: NULL: the error was printed. */
static struct fab_attach *open_attach(const struct fab_sockets *s, struct fab_data *d,
				      const struct fab_attach_cfg *cfg, const char *option)
{
	struct ohca_link_err err;
	struct fab_attach *a = fab_attach_new(d, cfg, &err);

	if (a)
		fab_attach_fronts(a, s->fronts);
	else
		fprintf(stderr, "ohca-fabric: %s %s: %s\n", option, cfg->path, err.text);
	return a;
}

/* Open the sockets for virtual machines. Return: false: the error was printed. */
static bool open_machines(struct fab_sockets *s, const struct fab_sockets_cfg *c)
{
	const struct fab_serve_cfg *cfg = c->cfg;
	const struct fab_fronts_cfg fronts = {
		.hcas = c->hcas,
		.d = c->data,
		.closer = c->closer,
		.disk = cfg->disk,
		.front_max = cfg->front_memory,
		.all_max = cfg->fronts_memory,
		.hca_max = cfg->hca_memory,
		.epfd = c->epfd,
		.place = fab_attach_front_place,
	};
	struct fab_attach_cfg attach = {
		.path = cfg->listen,
		.epfd = c->epfd,
		.type = FAB_EVENT_ATTACH,
		.tenants = &s->tenants,
		.tenant = FAB_NONE,
	};

	if (!fab_serve_has_machines(cfg))
		return true;
	if (!find_tenants(s, c))
		return false;
	s->fronts = fab_fronts_new(&fronts);
	if (!s->fronts) {
		perror("ohca-fabric");
		return false;
	}
	s->attach = cfg->listen ? open_attach(s, c->data, &attach, "--listen") : NULL;
	if (cfg->listen && !s->attach)
		return false;
	for (unsigned int i = 0; i < cfg->ntenants; i++) {
		attach.path = cfg->tenant[i].path;
		attach.type = (enum fab_event_type)(FAB_EVENT_TENANT + i);
		attach.tenant = s->tenant_node[i];
		s->tenant[i] = open_attach(s, c->data, &attach, "--listen-node");
		if (!s->tenant[i])
			return false;
		s->tenants.n++;
	}
	return true;
}

bool fab_sockets_open(struct fab_sockets *s, const struct fab_sockets_cfg *c)
{
	return open_remote(s, c) && open_machines(s, c);
}

uint64_t fab_sockets_timer(struct fab_sockets *s, uint64_t now_ns)
{
	uint64_t next = s->fronts ? fab_fronts_due() : UINT64_MAX;
	uint64_t t;

	t = s->remote ? fab_remote_timer(s->remote, now_ns) : UINT64_MAX;
	next = t < next ? t : next;
	t = s->door ? fab_attach_timer(s->door, now_ns) : UINT64_MAX;
	next = t < next ? t : next;
	t = s->attach ? fab_attach_timer(s->attach, now_ns) : UINT64_MAX;
	next = t < next ? t : next;
	for (unsigned int i = 0; i < s->tenants.n; i++) {
		t = fab_attach_timer(s->tenant[i], now_ns);
		next = t < next ? t : next;
	}
	return next;
}

void fab_sockets_event(struct fab_sockets *s, union fab_event e)
{
	switch (e.type) {
	case FAB_EVENT_ATTACH:
		fab_attach_event(s->attach, e.index);
		break;
	case FAB_EVENT_DOOR:
		fab_attach_event(s->door, e.index);
		break;
	case FAB_EVENT_REMOTE:
		fab_remote_event(s->remote, e.index);
		break;
	case FAB_EVENT_FRONT:
		fab_fronts_event(s->fronts, e.index);
		break;
	default:
		fab_attach_event(s->tenant[e.type - FAB_EVENT_TENANT], e.index);
	}
}

void fab_sockets_close(struct fab_sockets *s)
{
	fab_attach_free(s->attach);
	for (unsigned int i = 0; i < s->tenants.n; i++)
		fab_attach_free(s->tenant[i]);
	fab_attach_free(s->door);
	fab_remote_free(s->remote);
	fab_fronts_free(s->fronts);
}
