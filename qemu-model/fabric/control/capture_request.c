// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests for a capture, whose data follows the reply (Documentation/control.rst). */
#include "requests.h"
#include "fabric/graph/names.h"

#include <stdio.h>
#include <string.h>

/* Find port @name, which the data path can capture. Return: FAB_NO_PORT: r->why says what to do. */
static uint32_t captured_port(struct fab_request *r, const char *name)
{
	const struct fab *f = r->m->f;
	const uint32_t p = name ? fab_find_port(f, name) : FAB_NO_PORT;

	if (p == FAB_NO_PORT || !fab_port_num(f, p)) {
		fab_request_unknown(r, "port", name ? name : "", "write NODE:PORT, with a PORT "
				    "from 1, as topology shows them");
		return FAB_NO_PORT;
	}
	if (f->node[f->port[p].node].sw == FAB_NONE && fab_outside(f, p)) {
		const uint32_t q = f->port[p].peer;

		snprintf(r->why, sizeof(r->why), "a machine is attached in place of '%.80s': capture the "
			 "other end of its link, '%.64s:%u'", name,
			 f->desc[f->port[q].node].text, fab_port_num(f, q));
		return FAB_NO_PORT;
	}
	return p;
}

bool fab_is_capture_member(const char *key)
{
	return !strcmp(key, "ports") || !strcmp(key, "count") || !strcmp(key, "link_packets");
}

json_t *fab_request_capture(struct fab_request *r)
{
	const json_t *ports = json_object_get(r->in, "ports");
	const json_t *count = json_object_get(r->in, "count");
	const json_t *links = json_object_get(r->in, "link_packets");
	const size_t n = json_array_size(ports);

	if (!r->capture || !n || n > FAB_CAPTURE_PORTS ||
	    (links && !json_is_boolean(links)) ||
	    (count && (!json_is_integer(count) || json_integer_value(count) < 1))) {
		snprintf(r->why, sizeof(r->why), "give \"ports\", a list of 1 to %u texts "
			 "NODE:PORT, and perhaps \"count\", a number from 1, and "
			 "\"link_packets\", true or false",
			 FAB_CAPTURE_PORTS);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		r->capture->port[i] = captured_port(r, json_string_value(json_array_get(ports, i)));
		if (r->capture->port[i] == FAB_NO_PORT)
			return NULL;
	}
	r->capture->n = (unsigned int)n;
	r->capture->limit = (uint64_t)json_integer_value(count);
	r->capture->links = json_is_true(links);
	return json_pack("{s:s}", "capture", "pcapng");
}
