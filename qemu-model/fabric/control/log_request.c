// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests for the journal (fault/journal.h). */
#include "requests.h"

#include <stdio.h>
#include <string.h>

#include "fabric/fault/journal.h"

#define PAGE_LOG	256u	/* commands of a reply */

static json_t *entry_json(const struct fab_journal_entry *e, uint64_t number)
{
	json_t *v = json_pack("{s:I, s:I}", "number", (json_int_t)number, "ns", (json_int_t)e->ns);

	if (e->line) {
		json_object_set_new(v, "script", json_integer((json_int_t)e->script));
		json_object_set_new(v, "line", json_integer(e->line));
	} else {
		json_object_set_new(v, "pid", json_integer(e->pid));
	}
	json_object_set_new(v, "text", fab_text_json(e->text, strlen(e->text)));
	return v;
}

json_t *fab_request_log(struct fab_request *r)
{
	const struct fab_journal *j = r->m->journal;
	const uint64_t end = j ? j->count : 0;
	uint64_t n = r->first;
	json_t *list, *v;

	if (end > FAB_JOURNAL && n < end - FAB_JOURNAL)
		n = end - FAB_JOURNAL;
	list = json_array();
	for (; n < end && json_array_size(list) < PAGE_LOG; n++)
		json_array_append_new(list, entry_json(&j->entry[n % FAB_JOURNAL], n));
	v = json_pack("{s:o, s:I}", "log", list, "now_ns", (json_int_t)r->m->now_ns);
	if (r->m->until_ns)
		json_object_set_new(v, "virtual", json_true());
	if (n < end)
		json_object_set_new(v, "next", json_integer((json_int_t)n));
	return v;
}
