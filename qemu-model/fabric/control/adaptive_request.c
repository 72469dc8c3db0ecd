// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests that switch adaptive routing on and off (mgmt/adaptive.h), see
 * Documentation/adaptive.rst.
 */
#include "requests.h"

#include <stdio.h>
#include <string.h>

#include "fabric/data/data.h"
#include "fabric/mgmt/adaptive.h"

#define GAP_MOST	1000000000	/* ns */

bool fab_is_adaptive_member(const char *key)
{
	return !strcmp(key, "state") || !strcmp(key, "order") || !strcmp(key, "sls") ||
	       !strcmp(key, "gap_ns");
}

static json_t *refuse_adaptive(struct fab_request *r, const char *why)
{
	snprintf(r->why, sizeof(r->why), "%s", why);
	return NULL;
}

/*
 * Read the member @key, a number up to @most. Return: @usual: there is none; -1: it is not valid.
 */
static json_int_t member_of(const struct fab_request *r, const char *key, json_int_t most,
			    json_int_t usual)
{
	const json_t *v = json_object_get(r->in, key);
	const json_int_t n = json_integer_value(v);

	if (!v)
		return usual;
	return json_is_integer(v) && n >= 0 && n <= most ? n : -1;
}

/* Return: false: r->why has the error. */
static bool read_cfg(struct fab_request *r, struct fab_adaptive_cfg *cfg)
{
	const json_t *order = json_object_get(r->in, "order");
	const char *name = order ? json_string_value(order) : "kept";
	const json_int_t sls = member_of(r, "sls", UINT16_MAX, UINT16_MAX);
	const json_int_t gap = member_of(r, "gap_ns", GAP_MOST, FAB_ADAPTIVE_GAP_NS);

	if (!name || (strcmp(name, "kept") && strcmp(name, "any")) || sls < 0 || gap < 0) {
		refuse_adaptive(r, "give \"order\", kept or any, \"sls\", a bit for each service "
				   "level, from 0 to 65535, and \"gap_ns\", a number from 0 to "
				   "1000000000, or leave them out");
		return false;
	}
	*cfg = (struct fab_adaptive_cfg){
		.sls = (uint16_t)sls, .any_order = !strcmp(name, "any"), .gap_ns = (uint64_t)gap,
	};
	return true;
}

/* Make some of the groups. */
static json_t *go_on(struct fab_request *r)
{
	const int lid = fab_adaptive_fill(r->m, r->first);

	switch (lid) {
	case 0:
		return json_pack("{s:b}", "done", true);
	case FAB_ADAPTIVE_NO_MEMORY:
		return refuse_adaptive(r, "out of memory: adaptive routing is off");
	case FAB_ADAPTIVE_CHANGED:
		return refuse_adaptive(r, "a forwarding table has changed meanwhile, or another client "
					  "has begun or ended adaptive routing: try again later");
	case FAB_ADAPTIVE_CIRCLE:
		return refuse_adaptive(r, "packets on paths of the same length might wait for each "
					  "other for ever in this fabric: adaptive routing is off, "
					  "at all switches");
	default:
		return json_pack("{s:b, s:i}", "done", true, "next", lid);
	}
}

json_t *fab_request_adaptive(struct fab_request *r)
{
	const char *state = json_string_value(json_object_get(r->in, "state"));
	const bool on = state && !strcmp(state, "on");
	uint32_t node = FAB_NONE;
	struct fab_adaptive_cfg cfg;

	if (!state || (!on && strcmp(state, "off")))
		return refuse_adaptive(r, "give \"state\", on or off");
	if (r->node) {
		node = fab_request_node(r);
		if (node == FAB_NONE)
			return NULL;
		if (r->m->f->node[node].sw == FAB_NONE)
			return refuse_adaptive(r, "that node is not a switch: give \"node\", a switch "
						  "as topology shows it, or leave it out for all "
						  "switches");
	}
	if (!read_cfg(r, &cfg))
		return NULL;
	if (on && r->first)
		return go_on(r);
	if (!on) {
		fab_adaptive_off(r->m, node);
		return json_pack("{s:b}", "done", true);
	}
	if (!fab_adaptive_on(r->m, node, &cfg)) {
		fab_adaptive_off(r->m, node);
		return refuse_adaptive(r, "out of memory: adaptive routing is off");
	}
	return go_on(r);
}

json_t *fab_adaptive_json(const struct fab *f, const struct fab_data *d)
{
	json_int_t groups = 0, lids = 0;

	if (!f->adaptive)
		return NULL;
	for (uint32_t i = 0; i < f->switches; i++) {
		const struct fab_adaptive *a = f->sw[i].adaptive;

		for (uint32_t lid = 0; a && lid < a->lids; lid++)
			lids += a->of[lid] > 0;
		groups += a && a->lids ? a->groups : 0;
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "switches", (json_int_t)f->adaptive,
			 "groups", groups, "lids", lids,
			 "tables_changed", (json_int_t)f->lfts_differ,
			 "packets", d ? (json_int_t)fab_data_counts(d)->adaptive : 0,
			 "failovers", d ? (json_int_t)fab_data_counts(d)->failovers : 0);
}
