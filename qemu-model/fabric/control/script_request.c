// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests for scripts of faults. */
#include "requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fault/script.h"

static json_t *errors_json(const struct fab_script_error *e, unsigned int n)
{
	json_t *list = json_array();
	char first[sizeof(e->text) + 32];
	int len = snprintf(first, sizeof(first), "line %u: %s", e->line, e->text);

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:i, s:o}", "line", (int)e[i].line, "error",
						      fab_text_json(e[i].text,
								    strlen(e[i].text))));
	return json_pack("{s:o, s:o}", "error", fab_text_json(first, (size_t)len), "errors", list);
}

static json_t *play(struct fab_request *r, const json_t *text)
{
	struct fab_script_error *e = calloc(FAB_SCRIPT_ERRORS, sizeof(*e));
	uint64_t ends_ns = 0;
	unsigned int n;
	json_t *v;

	if (!e) {
		snprintf(r->why, sizeof(r->why), "out of memory");
		return NULL;
	}
	n = fab_script_start(r->m, json_string_value(text), json_string_length(text), e, &ends_ns);
	v = n ? errors_json(e, n) :
		json_pack("{s:b, s:I, s:I}", "done", 1, "script",
			  (json_int_t)fab_script_number(r->m), "ends_ns", (json_int_t)ends_ns);
	free(e);
	return v;
}

#define PAGE_LOG	512u	/* lines of a reply */

/* The results of the lines that were executed, from number @first on. */
static json_t *log_json(const struct fab_request *r, json_int_t first)
{
	const uint64_t end = fab_script_played(r->m);
	uint64_t n = first > 0 ? (uint64_t)first : 0, left, failed;
	json_t *list = json_array();

	if (end > FAB_SCRIPT_LOG && n < end - FAB_SCRIPT_LOG)
		n = end - FAB_SCRIPT_LOG;
	left = fab_script_left(r->m, &failed);
	for (; n < end && json_array_size(list) < PAGE_LOG; n++) {
		const struct fab_script_entry *e = fab_script_entry(r->m, n);
		json_t *v = json_pack("{s:I, s:i}", "ns", (json_int_t)e->ns, "line", (int)e->line);

		if (e->skipped)
			json_object_set_new(v, "skipped", json_true());
		if (e->why[0])
			json_object_set_new(v, "error", fab_text_json(e->why, strlen(e->why)));
		json_array_append_new(list, v);
	}
	return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I}", "script",
			 (json_int_t)fab_script_number(r->m), "log", list, "end", (json_int_t)n, "played", (json_int_t)end,
			 "left", (json_int_t)left, "failed", (json_int_t)failed);
}

json_t *fab_request_script(struct fab_request *r)
{
	const json_t *text = json_object_get(r->in, "text"), *stop = json_object_get(r->in, "stop");
	const json_t *replace = json_object_get(r->in, "replace");
	const json_t *log = json_object_get(r->in, "log");
	uint64_t failed;

	if (json_is_integer(log) && json_object_size(r->in) == 2)
		return log_json(r, json_integer_value(log));
	if (json_object_size(r->in) != 2u + !!replace ||
	    !(json_is_true(stop) || json_is_string(text)) || (stop && replace) ||
	    (replace && !json_is_boolean(replace))) {
		snprintf(r->why, sizeof(r->why), "give \"text\", the script, and perhaps "
			 "\"replace\": true; or \"stop\": true; or \"log\", a number");
		return NULL;
	}
	if (stop) {
		fab_script_stop(r->m);
		return json_pack("{s:b}", "done", 1);
	}
	if (!json_is_true(replace) && fab_script_left(r->m, &failed)) {
		snprintf(r->why, sizeof(r->why), "a script is running: wait until it ends, stop it with "
			 "script --stop, or replace it with script --replace FILE");
		return NULL;
	}
	return play(r, text);
}
