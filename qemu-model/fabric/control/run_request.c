// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests to run virtual time. */
#include "requests.h"

#include <stdio.h>
#include <string.h>

#define MOST_NS	(365 * 86400 * 1000000000ll)	/* a year */

bool fab_is_run_member(const char *key)
{
	return !strcmp(key, "time_ns");
}

json_t *fab_request_run(struct fab_request *r)
{
	const json_t *time = json_object_get(r->in, "time_ns");
	const json_int_t ns = json_integer_value(time);

	if (!r->m->until_ns) {
		snprintf(r->why, sizeof(r->why), "this fabric uses the time of its host: start it with serve "
			 "--virtual");
		return NULL;
	}
	if (!json_is_integer(time) || ns < 0 || ns > MOST_NS) {
		snprintf(r->why, sizeof(r->why), "give \"time_ns\", from 0 to a year");
		return NULL;
	}
	*r->m->until_ns = r->m->now_ns + (uint64_t)ns;
	return json_pack("{s:b, s:I}", ns ? "done" : "stands", 1, "now_ns", (json_int_t)r->m->now_ns);
}
