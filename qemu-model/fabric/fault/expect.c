// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Expectations of a fabric: a request that changes nothing, and fails if the expectation is not
 * met.
 */
#include "expect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fabric/mgmt/counter.h"

#define HINT "give \"node\" and \"port\", and with these \"state\", which is \"Down\", \"Init\", \"Armed\" or " \
	"\"Active\", or \"counter\"; or \"counter\" alone, which is links_up, links_active, subnet_managers, " \
	"traps or lost_mads; and with a counter \"is\", \"above\" or \"below\", a number"

static const char *const states[] = { NULL, "Down", "Init", "Armed", "Active" };

static json_t *refuse_words(struct fab_request *r)
{
	snprintf(r->why, sizeof(r->why), HINT);
	return NULL;
}

static json_t *met(void)
{
	return json_pack("{s:b}", "done", 1);
}

static uint64_t managers(const struct fab *f)
{
	uint64_t n = 0;

	for (uint32_t p = 1; p < f->ports; p++)
		n += f->port[p].guid && (f->port[p].pi.cap_mask & IB_CAP_SM);
	return n;
}

/* Read the number @name of the whole fabric. Return: false: there is no such number. */
static bool whole(const struct fab_mgmt *m, const char *name, uint64_t *v)
{
	struct fab_link_counts links;

	if (!strcmp(name, "subnet_managers")) {
		*v = managers(m->f);
	} else if (!strcmp(name, "traps")) {
		*v = m->stats.traps;
	} else if (!strcmp(name, "lost_mads")) {
		*v = m->stats.lost;
	} else if (!strcmp(name, "links_up") || !strcmp(name, "links_active")) {
		fab_count_links(m->f, &links);
		*v = strcmp(name, "links_up") ? links.active : links.up;
	} else {
		return false;
	}
	return true;
}

/* Read counter @name of port @p. Return: false: there is no such counter. */
static bool of_port(const struct fab_mgmt *m, uint32_t p, const char *name, uint64_t *v)
{
	struct ohca_port_counters c;

	fab_counters(m, p, &c);
	for (unsigned int i = 0; i < FAB_COUNTERS; i++) {
		if (strcmp(name, fab_counter_name(i)))
			continue;
		*v = fab_counter(&c, i);
		return true;
	}
	return false;
}

/* Read the relation of the request. Return: false: it has none, or more than one. */
static bool relation(const struct fab_request *r, const char **word, uint64_t *limit)
{
	static const char *const words[] = { "is", "above", "below" };
	unsigned int n = 0;

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(words); i++) {
		const json_t *v = json_object_get(r->in, words[i]);

		if (!v)
			continue;
		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return false;
		*word = words[i];
		*limit = (uint64_t)json_integer_value(v);
		n++;
	}
	return n == 1;
}

/* Expect a value of a counter. @p: its port, or FAB_NO_PORT: the number is of the whole fabric */
static json_t *expect_number(struct fab_request *r, uint32_t p)
{
	const char *name = json_string_value(json_object_get(r->in, "counter")), *word;
	uint64_t v, limit;
	bool ok;

	if (!name || !relation(r, &word, &limit) ||
	    !(p != FAB_NO_PORT ? of_port(r->m, p, name, &v) : whole(r->m, name, &v)))
		return refuse_words(r);
	ok = *word == 'i' ? v == limit : *word == 'a' ? v > limit : v < limit;
	if (ok || r->dry)
		return met();
	snprintf(r->why, sizeof(r->why), "%s is %" PRIu64 ", which was not expected", name, v);
	return NULL;
}

static json_t *expect_state(struct fab_request *r, uint32_t p)
{
	const char *want = json_string_value(json_object_get(r->in, "state"));
	const uint32_t at = fab_machine_at(r->m->f, p);
	/*
	 * in the graph a machine's port is always Down: the switch's end has the state of its link
	 */
	const uint8_t state = r->m->f->port[at != FAB_NO_PORT ? at : p].pi.state;
	unsigned int i = IB_PS_DOWN;

	while (i <= IB_PS_ACTIVE && (!want || strcmp(want, states[i])))
		i++;
	if (i > IB_PS_ACTIVE || json_object_get(r->in, "counter"))
		return refuse_words(r);
	if (r->dry || state == i)
		return met();
	snprintf(r->why, sizeof(r->why), "it is %s, which was not expected",
		 state <= IB_PS_ACTIVE && state ? states[state] : "?");
	return NULL;
}

json_t *fab_request_expect(struct fab_request *r)
{
	const json_t *num = json_object_get(r->in, "port");
	const struct fab_node *n;
	uint32_t i, p;

	if (!fab_request_only(r, "node port state counter is above below"))
		return NULL;
	if (!r->node)
		return json_object_get(r->in, "state") || num ? refuse_words(r) : expect_number(r, FAB_NO_PORT);
	i = fab_request_node(r);
	if (i == FAB_NONE)
		return NULL;
	n = &r->m->f->node[i];
	if (!json_is_integer(num) || json_integer_value(num) < (json_int_t)fab_first_num(n) ||
	    json_integer_value(num) > n->nports)
		return refuse_words(r);
	p = fab_port_of(n, (unsigned int)json_integer_value(num));
	return json_object_get(r->in, "state") ? expect_state(r, p) : expect_number(r, p);
}
