// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests that do something to the fabric (fault.h), and their replies. */
#include "control_request.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fault.h"

#define PORT_HINT "give \"node\", as topology says it, and \"port\", which has a cable"

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static json_t *refuse(struct fab_request *r, const char *why)
{
	snprintf(r->why, sizeof(r->why), "%s", why);
	return NULL;
}

static json_t *done(void)
{
	return json_pack("{s:b}", "done", 1);
}

/* The integer member @key of the request, from 0 to @most, or @missing without one; -1: wrong. */
static json_int_t number(const struct fab_request *r, const char *key, json_int_t most,
			 json_int_t missing)
{
	const json_t *v = json_object_get(r->in, key);
	const json_int_t n = json_integer_value(v);

	if (!v)
		return missing;
	return json_is_integer(v) && n >= 0 && n <= most ? n : -1;
}

/* The port that the request names, or FAB_NO_PORT. */
static uint32_t port_of(const struct fab_request *r)
{
	const struct fab *f = r->m->f;
	const uint32_t i = r->node ? fab_find_node(f, r->node) : FAB_NONE;
	const json_int_t num = number(r, "port", FAB_MAX_NODE_PORTS, -1);

	if (i == FAB_NONE || num < (json_int_t)fab_first_num(&f->node[i]) || num > f->node[i].nports)
		return FAB_NO_PORT;
	return fab_port_of(&f->node[i], (unsigned int)num);
}

/* Whether the member "state" is @text. */
static bool state_is(const struct fab_request *r, const char *text)
{
	const char *v = json_string_value(json_object_get(r->in, "state"));

	return v && !strcmp(v, text);
}

static json_t *link_fault(struct fab_request *r)
{
	const uint32_t p = port_of(r);

	if (!state_is(r, "up") && !state_is(r, "down"))
		return refuse(r, "give \"state\", which is \"up\" or \"down\"");
	if (p == FAB_NO_PORT || !fab_fault_link(r->m, p, state_is(r, "up"), now_ns()))
		return refuse(r, PORT_HINT);
	return done();
}

static json_t *node_fault(struct fab_request *r)
{
	const uint32_t i = r->node ? fab_find_node(r->m->f, r->node) : FAB_NONE;

	if (!state_is(r, "kill") && !state_is(r, "revive"))
		return refuse(r, "give \"state\", which is \"kill\" or \"revive\"");
	if (i == FAB_NONE)
		return refuse(r, "give \"node\", as topology says it");
	if (!fab_fault_node(r->m, i, state_is(r, "revive"), now_ns()))
		return refuse(r, "out of memory");
	return done();
}

/* @corrupt: damage packets, do not lose them. The other of the two stays as it was. */
static json_t *wire_fault(struct fab_request *r, bool corrupt)
{
	const json_t *v = json_object_get(r->in, "rate");
	const double rate = json_number_value(v);
	const json_int_t seed = number(r, "seed", INT64_MAX, 1);
	const uint32_t p = port_of(r);
	const struct fab_extra *x;
	uint32_t was[2] = { 0, 0 }, of;

	if (!json_is_number(v) || !(rate >= 0 && rate <= 1) || seed < 0)
		return refuse(r, "give \"rate\", a number from 0 to 1, and perhaps \"seed\", a "
			      "number from 0");
	if (p == FAB_NO_PORT || r->m->f->port[p].peer == FAB_NO_PORT)
		return refuse(r, PORT_HINT);
	x = fab_extra_of(r->m->f, p);
	if (x && x->fault) {
		was[0] = x->fault->loss;
		was[1] = x->fault->corrupt;
	}
	of = rate < 1 ? (uint32_t)(rate * 4294967296.0) : UINT32_MAX;
	was[corrupt] = of || rate <= 0 ? of : 1;
	if (!fab_fault_wire(r->m, p, was[0], was[1], (uint64_t)seed))
		return refuse(r, "out of memory");
	return done();
}

static json_t *drop_fault(struct fab_request *r)
{
	const uint32_t i = r->node ? fab_find_node(r->m->f, r->node) : FAB_NONE;
	const json_int_t attr = number(r, "attribute", UINT16_MAX, -1);
	const json_int_t nth = number(r, "nth", UINT32_MAX, -1);

	if (i == FAB_NONE || attr < 0 || nth < 0)
		return refuse(r, "give \"node\", \"attribute\", its number, and \"nth\": each nth "
			      "SMP with it is lost, 0: none");
	if (!fab_fault_smp(r->m, i, (uint16_t)attr, (uint32_t)nth))
		return refuse(r, "16 attributes are dropped already: set the nth of one to 0");
	return done();
}

static json_t *preset(struct fab_request *r)
{
	const char *name = json_string_value(json_object_get(r->in, "counter"));
	const json_int_t v = number(r, "value", INT64_MAX, -1);
	const uint32_t p = port_of(r);

	if (p == FAB_NO_PORT)
		return refuse(r, "give \"node\" and \"port\", as topology says them");
	if (v < 0 || !name || !fab_fault_preset(r->m->f, p, name, (uint64_t)v))
		return refuse(r, "give \"counter\", a name as counters says it, and \"value\", a "
			      "number from 0");
	return done();
}

bool fab_is_fault_member(const char *key)
{
	static const char * const keys[] = { "port", "state", "rate", "seed", "attribute", "nth",
					     "counter", "value" };

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(keys); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

json_t *fab_request_fault(struct fab_request *r, const char *command)
{
	if (!strcmp(command, "link"))
		return link_fault(r);
	if (!strcmp(command, "node"))
		return node_fault(r);
	if (!strcmp(command, "loss"))
		return wire_fault(r, false);
	if (!strcmp(command, "corrupt"))
		return wire_fault(r, true);
	if (!strcmp(command, "drop"))
		return drop_fault(r);
	if (!strcmp(command, "preset"))
		return preset(r);
	return NULL;
}
