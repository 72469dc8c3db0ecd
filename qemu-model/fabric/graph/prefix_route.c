// SPDX-License-Identifier: GPL-2.0-or-later
/* Routes of routers to other subnets; see prefix_route.h. */
#include "prefix_route.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "subnet.h"

#define MAX_NAME	128u	/* of a router, in the text of a route */

static bool is_router(const struct fab *f, uint32_t node)
{
	return f->node[node].type == IB_NODE_ROUTER_DEVICE;
}

/* Parse the 64 bits of @text up to @end. Return: false: not valid. */
static bool hex64(const char *text, const char *end, uint64_t *v)
{
	char *rest;

	errno = 0;
	*v = strtoull(text, &rest, 16);
	return !errno && rest == end && *text != '-' && *text != '+' && *v;
}

/* Whether it is in FE80::/10, which no router forwards (4.1.1). */
static bool is_link_local(uint64_t prefix)
{
	return prefix >> 54 == 0x3fa;
}

/* Whether another route has the router and the prefix of @r. */
static bool is_there(const struct fab *f, const struct fab_prefix_route *r)
{
	for (uint32_t i = 0; i < f->routes; i++)
		if (f->route[i].router == r->router && f->route[i].prefix == r->prefix)
			return true;
	return false;
}

/* A port of node @router in the subnet of port @p, or FAB_NO_PORT. */
static uint32_t port_beside(const struct fab *f, uint32_t router, uint32_t p)
{
	const struct fab_node *n = &f->node[router];

	for (unsigned int i = 1; i <= n->nports; i++)
		if (fab_subnet_of(f, fab_port_of(n, i)) == fab_subnet_of(f, p))
			return fab_port_of(n, i);
	return FAB_NO_PORT;
}

bool fab_prefix_route_add(struct fab *f, const char *text, char *why, size_t size)
{
	const char *equals = strrchr(text, '='), *comma = equals ? strchr(equals, ',') : NULL;
	struct fab_prefix_route r = { .prefix = 0 };
	char name[MAX_NAME];
	uint64_t guid;
	int len;

	len = equals ? snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text) : 0;
	if (!comma || len <= 0 || len >= (int)sizeof(name) ||
	    !hex64(comma + 1, comma + strlen(comma), &guid) ||
	    (!(comma == equals + 2 && equals[1] == '*') &&
	     !hex64(equals + 1, comma, &r.prefix))) {
		snprintf(why, size, "'%s' is not ROUTER=PREFIX,GUID, as "
			 "router1=0xfec0000000000003,0xf1; any PREFIX is *", text);
		return false;
	}
	r.router = fab_find_node(f, name);
	if (r.router == FAB_NONE || !is_router(f, r.router)) {
		snprintf(why, size, "there is no router '%s': name one of the topology", name);
		return false;
	}
	r.next = fab_port_with_guid(f, guid);
	if (r.next == FAB_NO_PORT || !is_router(f, f->port[r.next].node) ||
	    f->port[r.next].node == r.router || port_beside(f, r.router, r.next) == FAB_NO_PORT) {
		snprintf(why, size, "0x%llx is no PortGUID of another router in a subnet of '%s'",
			 (unsigned long long)guid, name);
		return false;
	}
	if (is_link_local(r.prefix)) {
		snprintf(why, size, "PREFIX 0x%llx is link-local, which no router forwards: give the "
			 "subnet_prefix of the subnet's manager", (unsigned long long)r.prefix);
		return false;
	}
	if (is_there(f, &r)) {
		snprintf(why, size, "'%s' has a route to that PREFIX already: give only one", name);
		return false;
	}
	if (f->routes == FAB_PREFIX_ROUTES) {
		snprintf(why, size, "no more than %u", FAB_PREFIX_ROUTES);
		return false;
	}
	f->route[f->routes++] = r;
	return true;
}

const struct fab_prefix_route *fab_prefix_route_find(const struct fab *f, uint32_t router,
						     uint64_t prefix)
{
	const struct fab_prefix_route *any = NULL;

	for (uint32_t i = 0; i < f->routes; i++) {
		const struct fab_prefix_route *r = &f->route[i];

		if (r->router != router)
			continue;
		if (r->prefix == prefix)
			return r;
		if (!r->prefix && !any)
			any = r;
	}
	return any;
}
