// SPDX-License-Identifier: GPL-2.0-or-later
/* Scripts of faults; see script.h. */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"
#include "words.h"
#include "fault.h"
#include "fabric/graph/wire.h"

#define MAX_WORDS	24
#define MS		1000000ull
#define DAY		(86400 * 1000 * MS)

/**
 * struct event - a line with a fault, or with an expectation
 * @line: its number, from 1
 * @request: as on the control socket
 * @node: the node that it names
 * @next_ns: its next time, of the clock of the script
 * @every_ns: time between repetitions
 * @random: @every_ns is the mean time; the generator of the times
 * @left: repetitions that are left; with @random 1 while there is one more
 * @last_ns: time of the last one; with @random all are before it
 * @until_ns: end of the time in which the expectation, or @when, may be met
 * @when: condition, as a request expect for node @when_node; NULL: the line has a time
 */
struct event {
	unsigned int line;
	json_t *request;
	uint32_t node;
	uint64_t next_ns;
	uint64_t every_ns;
	uint64_t random;
	uint32_t left;
	uint64_t last_ns;
	uint64_t until_ns;
	json_t *when;
	uint32_t when_node;
};

/**
 * struct fab_script - a script that is running
 * @start_ns: time of its start
 * @due_ns: time of the next fault; UINT64_MAX: there is none
 * @failed: faults that failed
 * @look_ns: time between two checks of a condition
 * @event: [@n] its lines
 * @played: number of lines that were executed, the last ones are in @log
 * @heap: [@heaped] heap of the lines that are still to be executed
 */
struct fab_script {
	uint64_t start_ns;
	uint64_t due_ns;
	uint64_t failed;
	uint64_t look_ns;
	uint64_t played;
	unsigned int n, heaped;
	struct event event[FAB_SCRIPT_LINES];
	uint16_t heap[FAB_SCRIPT_LINES];
	struct fab_script_entry log[FAB_SCRIPT_LOG];
};

/* A script that is being parsed. */
struct reader {
	struct fab_mgmt *m;
	struct fab_script *s;
	unsigned int line;
	struct fab_script_error *error;
	unsigned int errors;
};

static bool wrong(struct reader *r, const char *what, const char *word)
{
	struct fab_script_error *e;

	if (r->errors == FAB_SCRIPT_ERRORS)
		return false;
	e = &r->error[r->errors++];
	e->line = r->line;
	snprintf(e->text, sizeof(e->text), what, word);
	return false;
}

/* ---- words --------------------------------------------------------------------- */

/*
 * Split the line @p, which is changed, into words: by blanks, unless they are in quotes; #
 * begins a comment. Return: how many; -1: it is not valid.
 */
static int split(struct reader *r, char *p, char **word)
{
	int n = 0;

	for (;;) {
		char *to, quote = 0;

		p += strspn(p, " \t\r");
		if (!*p || *p == '#')
			return n;
		if (n == MAX_WORDS) {
			wrong(r, "the line has too many words: leave out those after '%s'",
			      word[n - 1]);
			return -1;
		}
		to = p;
		word[n++] = p;
		for (; *p && (quote || !strchr(" \t\r", *p)); p++) {
			if (quote ? *p == quote : *p == '\'' || *p == '"')
				quote = quote ? 0 : *p;
			else
				*to++ = *p;
		}
		if (quote) {
			wrong(r, "a quote is open at the end of the line: add one after '%s'",
			      word[n - 1]);
			return -1;
		}
		if (*p)
			p++;
		*to = 0;
	}
}

static bool take_time(struct reader *r, const char *word, uint64_t *ns)
{
	if (word && fab_word_time(word, ns) && *ns <= DAY)
		return true;
	return wrong(r, "'%s' is not a time up to a day: write a number and ns, us, ms or s, such as 1.5s",
		     word ? word : "");
}

/*
 * Draw the next random time, if there is one. The number of repetitions is known only when it ends.
 */
static void draw_next(struct event *e)
{
	e->next_ns += fab_random_gap(&e->random, e->every_ns);
	e->left = e->next_ns < e->last_ns;
}

/*
 * Parse at TIME, or every or about TIME [from TIME] for TIME. Return: number of words, or 0: not
 * valid.
 */
static int take_when(struct reader *r, char **word, struct event *e)
{
	const bool about = word[0] && !strcmp(word[0], "about");
	uint64_t span, count;
	int n = 2;

	e->every_ns = 0;
	e->next_ns = 0;
	e->left = 1;
	if (word[0] && !strcmp(word[0], "at"))
		return take_time(r, word[1], &e->next_ns) ? n : 0;
	if (!about && (!word[0] || strcmp(word[0], "every"))) {
		wrong(r, "'%s' is not a time of a fault: begin the line with at TIME, or every TIME "
		      "for TIME, or about TIME for TIME, or when", word[0] ? word[0] : "");
		return 0;
	}
	if (!take_time(r, word[1], &e->every_ns))
		return 0;
	if (word[n] && !strcmp(word[n], "from")) {
		if (!take_time(r, word[n + 1], &e->next_ns))
			return 0;
		n += 2;
	}
	if (!word[n] || strcmp(word[n], "for")) {
		wrong(r, "how long it is repeated is missing: write for TIME instead of '%s'",
		      word[n] ? word[n] : "");
		return 0;
	}
	if (!take_time(r, word[n + 1], &span))
		return 0;
	count = e->every_ns < MS ? 0 : (span + e->every_ns - 1) / e->every_ns;
	if (!count || count > FAB_SCRIPT_REPEATS) {
		wrong(r, "%s is not possible: repeat it every 1ms or more, from once to "
		      "1000000 times", word[1]);
		return 0;
	}
	if (about) {
		e->last_ns = e->next_ns + span;
		e->random = fab_random_state(fab_random_state(r->m->seed) + r->line);
		draw_next(e);
	} else {
		e->left = (uint32_t)count;
		e->last_ns = e->next_ns + (count - 1) * e->every_ns;
	}
	return n + 2;
}

/* ---- lines --------------------------------------------------------------------- */

/* Check whether @request can be done. @node: the node that it names; @why: the error */
static bool script_check(struct fab_mgmt *m, json_t *request, uint32_t *node, char why[FAB_REQUEST_WHY])
{
	struct fab_request r = { .m = m, .in = request, .dry = true };
	json_t *reply;

	r.node = json_string_value(json_object_get(r.in, "node"));
	reply = fab_request_fault(&r, json_string_value(json_object_get(r.in, "command")));
	if (!reply)
		memcpy(why, r.why, sizeof(r.why));
	*node = r.at;
	json_decref(reply);
	return reply;
}

/*
 * Do @request of @line at @node. Return: whether it succeeded, or the expectation is met; @why: the
 * error.
 */
static bool script_perform(struct fab_mgmt *m, json_t *request, uint32_t node, unsigned int line,
			   char why[FAB_REQUEST_WHY])
{
	struct fab_request r = { .m = m, .in = request, .found = true, .at = node, .line = line };
	json_t *reply;

	r.node = json_string_value(json_object_get(r.in, "node"));
	reply = fab_request_fault(&r, json_string_value(json_object_get(r.in, "command")));
	memcpy(why, r.why, sizeof(r.why));
	json_decref(reply);
	return reply;
}

/* Read the time in which an expectation has to be met. */
static bool take_within(struct event *e, char why[FAB_REQUEST_WHY])
{
	const json_t *within = json_object_get(e->request, "within_ns");
	const json_int_t ns = json_integer_value(within);
	const bool expects = !strcmp(json_string_value(json_object_get(e->request, "command")), "expect");

	if (!e->when)
		e->until_ns = e->every_ns ? 0 : e->next_ns + (uint64_t)ns;
	if (within && expects && !e->every_ns && !e->when && (uint64_t)ns <= DAY)
		return !json_object_del(e->request, "within_ns");
	if (!within)
		return true;
	snprintf(why, FAB_REQUEST_WHY, "--within is for what is expected once, at TIME, and up to a day");
	return false;
}

/* Parse the fault of @n words. Return: false: it is not valid. */
static bool take_fault(struct reader *r, int n, char **word, struct event *e)
{
	char why[FAB_REQUEST_WHY] = "out of memory";
	const char *hint;

	if (!n || !fab_is_fault_verb(word[0]))
		return wrong(r, "'%s' is not a fault: write " FAB_FAULT_VERBS, n ? word[0] : "");
	e->request = fab_fault_words(word[0], n - 1, word + 1, &hint);
	if (!e->request)
		return wrong(r, "%s", hint);
	if (take_within(e, why) && script_check(r->m, e->request, &e->node, why))
		return true;
	json_decref(e->request);
	return wrong(r, "%s", why);
}

/*
 * Parse when CONDITION [from TIME] for TIME do; a condition has the words of expect. Return: number
 * of words, or 0: not valid.
 */
static int take_condition(struct reader *r, char **word, struct event *e)
{
	static const char say[] = "'%s' does not begin a condition with its time: write when, what expect has without "
				  "--within, perhaps from TIME, for TIME, do, and a fault";
	char why[FAB_REQUEST_WHY] = "out of memory";
	const char *hint;
	uint64_t span;
	int n = 1, end;

	while (word[n] && strcmp(word[n], "do"))
		n++;
	end = n - 2;
	if (!word[n] || end < 2 || strcmp(word[end], "for")) {
		wrong(r, say, word[1] ? word[1] : "");
		return 0;
	}
	if (!take_time(r, word[end + 1], &span))
		return 0;
	if (end > 3 && !strcmp(word[end - 2], "from")) {
		if (!take_time(r, word[end - 1], &e->next_ns))
			return 0;
		end -= 2;
	}
	e->left = 1;
	e->until_ns = e->next_ns + span;
	e->when = fab_fault_words("expect", end - 1, word + 1, &hint);
	if (!e->when || json_object_get(e->when, "within_ns"))
		wrong(r, say, word[1]);
	else if (!script_check(r->m, e->when, &e->when_node, why))
		wrong(r, "%s", why);
	else
		return n + 1;
	json_decref(e->when);
	return 0;
}

static void take_line(struct reader *r, char *text)
{
	char *word[MAX_WORDS + 3] = { NULL };	/* with NULL words after the last */
	int n = split(r, text, word), used;
	struct event e = { .line = r->line };

	if (n <= 0)
		return;
	used = strcmp(word[0], "when") ? take_when(r, word, &e) : take_condition(r, word, &e);
	if (!used)
		return;
	if (!take_fault(r, n - used, word + used, &e)) {
		json_decref(e.when);
		return;
	}
	if (r->s->n == FAB_SCRIPT_LINES) {
		json_decref(e.request);
		json_decref(e.when);
		wrong(r, "the script has too many faults: leave out %s", "all from here on");
		return;
	}
	r->s->event[r->s->n++] = e;
}

static void free_script(struct fab_script *s)
{
	for (unsigned int i = 0; s && i < s->n; i++) {
		json_decref(s->event[i].request);
		json_decref(s->event[i].when);
	}
	free(s);
}

static uint64_t last_ns(const struct fab_script *s)
{
	uint64_t last = 0;

	for (unsigned int i = 0; i < s->n; i++) {
		const struct event *e = &s->event[i];
		const uint64_t ns = e->every_ns ? e->last_ns : e->until_ns;

		last = ns > last ? ns : last;
	}
	return last;
}

/* Whether line @a is executed before line @b. */
static bool is_before(const struct fab_script *s, unsigned int a, unsigned int b)
{
	const struct event *x = &s->event[a], *y = &s->event[b];

	return x->next_ns != y->next_ns ? x->next_ns < y->next_ns : a < b;
}

/* Restore the heap: entry @i may be later than those below it. */
static void sink(struct fab_script *s, unsigned int i)
{
	for (;;) {
		unsigned int least = 2 * i + 1;
		uint16_t line = s->heap[i];

		if (least + 1 < s->heaped && is_before(s, s->heap[least + 1], s->heap[least]))
			least++;
		if (least >= s->heaped || is_before(s, line, s->heap[least]))
			return;
		s->heap[i] = s->heap[least];
		s->heap[least] = line;
		i = least;
	}
}

static void set_due(struct fab_script *s)
{
	s->due_ns = s->heaped ? s->start_ns + s->event[s->heap[0]].next_ns : UINT64_MAX;
}

static void script_order(struct fab_script *s)
{
	/* a random line may have no time at all */
	for (unsigned int i = 0; i < s->n; i++)
		if (s->event[i].left)
			s->heap[s->heaped++] = (uint16_t)i;
	for (unsigned int i = s->heaped / 2; i--;)
		sink(s, i);
	set_due(s);
}

/* Set the next time of the first line, which was executed. */
static void script_advance(struct fab_script *s, struct event *e)
{
	if (e->random) {
		draw_next(e);
	} else {
		e->next_ns += e->every_ns;
		e->left--;
	}
	if (!e->left)
		s->heap[0] = s->heap[--s->heaped];
	sink(s, 0);
	set_due(s);
}

/*
 * Check an expectation again, later. While this process did not run the expectation could not be
 * met, so the clock of the script stops for as long. Return: false: its time is over.
 */
static bool look_again(struct fab_script *s, struct event *e, uint64_t now_ns)
{
	if (e->next_ns >= e->until_ns)
		return false;
	if (now_ns - s->due_ns > s->look_ns)
		s->start_ns += now_ns - s->due_ns - s->look_ns;
	e->next_ns = e->until_ns - e->next_ns < s->look_ns ? e->until_ns : e->next_ns + s->look_ns;
	sink(s, 0);
	set_due(s);
	return true;
}

/*
 * Check the condition of @e again, later; checks that are late by more than their interval are
 * skipped.
 * Return: false: its time is over.
 */
static bool look_later(struct fab_script *s, struct event *e, uint64_t now_ns)
{
	const uint64_t now = now_ns - s->start_ns;

	if (e->next_ns >= e->until_ns)
		return false;
	e->next_ns += s->look_ns;
	if (e->next_ns < now)
		e->next_ns += (now - e->next_ns) / s->look_ns * s->look_ns;
	if (e->next_ns > e->until_ns)
		e->next_ns = e->until_ns;
	sink(s, 0);
	set_due(s);
	return true;
}

static void script_log(struct fab_script *s, const struct event *e, const char *why, bool skipped)
{
	struct fab_script_entry *entry = &s->log[s->played++ % FAB_SCRIPT_LOG];

	entry->ns = e->next_ns;
	entry->line = e->line;
	entry->skipped = skipped;
	snprintf(entry->why, sizeof(entry->why), "%.95s", why);
}

/* Parse all lines of @text, which is changed. */
static void take_lines(struct reader *r, char *text, size_t len)
{
	/* stop at FAB_SCRIPT_ERRORS: no more are reported */
	for (char *end = text + len; text < end && r->errors < FAB_SCRIPT_ERRORS;) {
		char *nl = memchr(text, '\n', (size_t)(end - text));

		if (!nl)
			nl = end;
		*nl = 0;
		r->line++;
		if (strlen(text) != (size_t)(nl - text))
			wrong(r, "a byte is 0 after '%s': write text", text);
		else
			take_line(r, text);
		text = nl + 1;
	}
	if (!r->errors && !r->s->n) {
		r->line = r->line ? r->line : 1;
		wrong(r, "there is no fault in it: write lines such as %s",
		      "at 1s link down NODE:PORT");
	}
}

unsigned int fab_script_start(struct fab_mgmt *m, const char *text, size_t len,
			      struct fab_script_error *error, uint64_t *ends_ns)
{
	struct reader r = { .m = m, .error = error };
	char *copy = malloc(len + 1);

	r.s = calloc(1, sizeof(*r.s));
	if (copy && r.s) {
		memcpy(copy, text, len);
		take_lines(&r, copy, len);
	} else {
		wrong(&r, "out of %s", "memory");
	}
	free(copy);
	if (r.errors) {
		free_script(r.s);
		return r.errors;
	}
	fab_script_stop(m);
	m->scripts++;
	r.s->start_ns = m->now_ns;
	r.s->look_ns = m->look_ns ? m->look_ns : MS;
	script_order(r.s);
	m->script = r.s;
	fab_mgmt_seed(m, m->seed);
	*ends_ns = last_ns(r.s);
	return 0;
}

/* ---- playing ------------------------------------------------------------------- */

void fab_script_stop(struct fab_mgmt *m)
{
	free_script(m->script);
	m->script = NULL;
}

uint64_t fab_script_left(const struct fab_mgmt *m, uint64_t *failed)
{
	const struct fab_script *s = m->script;
	uint64_t left = 0;

	*failed = s ? s->failed : 0;
	for (unsigned int i = 0; s && i < s->n; i++)
		left += s->event[i].left;
	return left;
}

uint64_t fab_script_played(const struct fab_mgmt *m)
{
	return m->script ? m->script->played : 0;
}

const struct fab_script_entry *fab_script_entry(const struct fab_mgmt *m, uint64_t n)
{
	const struct fab_script *s = m->script;

	if (!s || n >= s->played || s->played - n > FAB_SCRIPT_LOG)
		return NULL;
	return &s->log[n % FAB_SCRIPT_LOG];
}

uint64_t fab_script_late(const struct fab_mgmt *m)
{
	const struct fab_script *s = m->script;

	return s && s->due_ns < m->now_ns ? m->now_ns - s->due_ns : 0;
}

/* Execute the first event, which is due, or check it again later. */
static void play_first(struct fab_mgmt *m, struct fab_script *s, uint64_t now_ns)
{
	struct event *e = &s->event[s->heap[0]];
	char why[FAB_REQUEST_WHY];
	bool ok;

	m->now_ns = s->due_ns;
	if (e->when && !script_perform(m, e->when, e->when_node, e->line, why)) {
		if (look_later(s, e, now_ns))
			return;
		script_log(s, e, "", true);
		script_advance(s, e);
		return;
	}
	ok = script_perform(m, e->request, e->node, e->line, why);
	if (!ok && !e->when && look_again(s, e, now_ns))
		return;
	s->failed += !ok;
	script_log(s, e, ok ? "" : why, false);
	script_advance(s, e);
}

uint64_t fab_script_timer(struct fab_mgmt *m, uint64_t now_ns)
{
	struct fab_script *s = m->script;

	if (!s)
		return UINT64_MAX;
	for (unsigned int n = 0; s->due_ns <= now_ns; n++) {
		/* first the changes of flapping cables that are due before */
		if (n == FAB_SCRIPT_TURN || !fab_flap_timer(m, s->due_ns))
			return 0;
		play_first(m, s, now_ns);
	}
	return s->due_ns == UINT64_MAX ? UINT64_MAX : s->due_ns - now_ns;
}
