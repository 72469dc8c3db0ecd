// SPDX-License-Identifier: GPL-2.0-or-later
/* The journal of a fabric; see journal.h. */
#include "journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "request.h"
#include "script.h"
#include "words.h"

/* Members after the command, in their order; @: "node", with "port" if there is one. */
static const struct {
	const char *command;
	const char *members;
} orders[] = {
	{ "link", "state @" },
	{ "node", "state @" },
	{ "swap", "@ with" },
	{ "loss", "@ rate seed" },
	{ "ber", "@ rate seed" },
	{ "corrupt", "@ rate seed" },
	{ "delay", "@ attribute time_ns" },
	{ "stall", "@ time_ns" },
	{ "resume", "@" },
	{ "credits", "@ vl blocks" },
	{ "drop", "@ attribute nth" },
	{ "refuse", "@ attribute status" },
	{ "guid", "@ as" },
	{ "preset", "@ counter value" },
	{ "adaptive", "state @" },
	{ "run", "time_ns" },
};

/* A text that grows, and is cut at the end of its buffer. */
struct words {
	char *text;
	size_t len;
};

static void put(struct words *w, const char *text)
{
	const size_t n = strlen(text), room = FAB_JOURNAL_TEXT - 1 - w->len;
	const size_t take = n < room ? n : room;

	memcpy(w->text + w->len, text, take);
	w->len += take;
	w->text[w->len] = 0;
}

/*
 * Append a word, in quotes if it needs them. Machines choose their names: characters that would end
 * a line or control a terminal become ?.
 */
static void put_word(struct words *w, const char *word)
{
	const char *quote = "";
	const size_t from = w->len;

	if (!*word || strpbrk(word, " \t#\""))
		quote = strchr(word, '\'') ? "\"" : "'";
	else if (strchr(word, '\''))
		quote = "\"";
	put(w, quote);
	put(w, word);
	put(w, quote);
	for (size_t i = from; i < w->len; i++)
		if ((unsigned char)w->text[i] < ' ' || w->text[i] == 0x7f)
			w->text[i] = '?';
}

static void put_span(struct words *w, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *unit;
	} units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" } };
	unsigned int i = 0;
	char text[32];

	while (ns % units[i].ns)
		i++;
	snprintf(text, sizeof(text), "%" PRIu64 "%s", ns / units[i].ns, units[i].unit);
	put(w, ns ? text : "0");
}

static void put_value(struct words *w, const char *key, const json_t *v)
{
	const size_t len = strlen(key);
	char text[32];

	if (json_is_string(v)) {
		put_word(w, json_string_value(v));
	} else if (len > 3 && !strcmp(key + len - 3, "_ns")) {
		put_span(w, (uint64_t)json_integer_value(v));
	} else {
		if (json_is_real(v))
			snprintf(text, sizeof(text), "%.15g", json_real_value(v));
		else
			snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		put(w, text);
	}
}

static void put_node(struct words *w, const struct fab_request *r)
{
	char port[16];

	put_word(w, r->node);
	if (!json_object_get(r->in, "port"))
		return;
	snprintf(port, sizeof(port), ":%u", r->num);
	put(w, port);
}

static void put_members(struct words *w, const struct fab_request *r, const char *members)
{
	while (*members) {
		const size_t n = strcspn(members, " ");
		char key[16] = "";
		const json_t *v;

		memcpy(key, members, n < sizeof(key) ? n : sizeof(key) - 1);
		members += n + (members[n] == ' ');
		v = *key == '@' ? json_object_get(r->in, "node") : json_object_get(r->in, key);
		if (!v)
			continue;
		put(w, " ");
		if (*key == '@')
			put_node(w, r);
		else
			put_value(w, key, v);
	}
	for (unsigned int i = 0; i < FAB_WORD_OPTIONS; i++) {
		const char *key = fab_word_option_key(i);
		const json_t *v = json_object_get(r->in, key);

		if (!v)
			continue;
		put(w, " ");
		put(w, fab_word_option(i));
		put(w, " ");
		put_value(w, key, v);
	}
}

/* Append service levels, a bit for each, as 0,2-5. */
static void put_sls(struct words *w, json_int_t sls)
{
	const char *comma = "";
	char text[16];

	for (unsigned int first = 0, last; first < 16; first = last + 1) {
		last = first;
		if (!(sls >> first & 1))
			continue;
		while (sls >> (last + 1) & 1)
			last++;
		if (last > first)
			snprintf(text, sizeof(text), "%s%u-%u", comma, first, last);
		else
			snprintf(text, sizeof(text), "%s%u", comma, first);
		put(w, text);
		comma = ",";
	}
}

/* Append the words of command adaptive after its state and its switch. */
static void put_adaptive(struct words *w, const struct fab_request *r)
{
	const json_t *order = json_object_get(r->in, "order"), *sls = json_object_get(r->in, "sls");
	const json_t *gap = json_object_get(r->in, "gap_ns");

	if (order) {
		put(w, " --order ");
		put_word(w, json_string_value(order));
	}
	if (sls) {
		put(w, " --sls ");
		put_sls(w, json_integer_value(sls));
	}
	if (gap) {
		put(w, " --gap ");
		put_span(w, (uint64_t)json_integer_value(gap));
	}
}

static void put_script(struct words *w, const struct fab_request *r)
{
	char number[32];

	if (json_object_get(r->in, "stop")) {
		put(w, " --stop");
		return;
	}
	snprintf(number, sizeof(number), " number %" PRIu64, fab_script_number(r->m));
	put(w, number);
}

void fab_journal_add(const struct fab_request *r)
{
	const char *command = json_string_value(json_object_get(r->in, "command"));
	struct fab_journal *j = r->m->journal;
	struct fab_journal_entry *e;
	unsigned int i = 0;
	struct words w;

	if (!j)
		return;
	e = &j->entry[j->count++ % FAB_JOURNAL];
	*e = (struct fab_journal_entry){
		.ns = r->m->now_ns,
		.script = r->line ? fab_script_number(r->m) : 0,
		.line = r->line,
		.pid = r->line ? 0 : j->pid,
	};
	w = (struct words){ .text = e->text };
	put(&w, command);
	while (i < IB_ARRAY_SIZE(orders) && strcmp(command, orders[i].command))
		i++;
	if (i < IB_ARRAY_SIZE(orders))
		put_members(&w, r, orders[i].members);
	else
		put_script(&w, r);
	if (!strcmp(command, "adaptive"))
		put_adaptive(&w, r);
}
