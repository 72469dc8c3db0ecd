// SPDX-License-Identifier: GPL-2.0-or-later
/* Converts words of a command line to requests; see words.h. */
#include "words.h"

#include "ib/mad.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Add "node" and "port" of NODE:P; NODE may have colons. Return: false: it is not valid. */
static bool put_node_port(json_t *v, const char *word)
{
	const char *colon = strrchr(word, ':');
	char *end;
	long port;

	if (!colon || colon == word || !colon[1])
		return false;
	if (json_object_set_new(v, "node", json_stringn(word, (size_t)(colon - word))))
		return false;
	if (!strcmp(colon + 1, "any"))
		return !json_object_set_new(v, "port", json_string("any"));
	port = strtol(colon + 1, &end, 10);
	return !*end && !json_object_set_new(v, "port", json_integer(port));
}

static bool put_integer(json_t *v, const char *key, const char *word)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(word, &end, 0);
	return *word && !*end && !errno && !json_object_set_new(v, key, json_integer(n));
}

static bool put_text(json_t *v, const char *key, const char *word)
{
	return !json_object_set_new(v, key, json_string(word));
}

bool fab_word_time(const char *word, uint64_t *ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	const char *unit = word + strspn(word, "0123456789.");
	char *end;
	const double n = strtod(word, &end);
	unsigned int i = 0;

	*ns = 0;
	if (!strcmp(word, "0"))
		return true;
	while (i < sizeof(units) / sizeof(*units) && strcmp(unit, units[i].name))
		i++;
	if (unit == word || end != unit || i == sizeof(units) / sizeof(*units) ||
	    n * units[i].ns > 1e15)
		return false;
	*ns = (uint64_t)(n * units[i].ns + 0.5);
	return true;
}

static bool put_time(json_t *v, const char *key, const char *word)
{
	uint64_t ns;

	return fab_word_time(word, &ns) &&
	       !json_object_set_new(v, key, json_integer((json_int_t)ns));
}

/* Options, which may be anywhere after the verb, each with an argument. */
static const struct {
	const char *word;
	const char *key;
	bool (*put)(json_t *v, const char *key, const char *word);
} options[FAB_WORD_OPTIONS] = {
	{ "--down", "down_ns", put_time },
	{ "--interval", "interval_ns", put_time },
	{ "--count", "count", put_integer },
	{ "--width", "width", put_integer },
	{ "--speed", "speed", put_text },
	{ "--within", "within_ns", put_time },
	{ "--burst", "burst", put_integer },
};

const char *fab_word_option(unsigned int i)
{
	return options[i].word;
}

const char *fab_word_option_key(unsigned int i)
{
	return options[i].key;
}

/* Remove options from the @n words @w. Return: number of words left, or -1: one is not valid. */
static int take_options(json_t *v, int n, char **w)
{
	int left = 0;

	for (int i = 0; i < n; i++) {
		unsigned int o = 0;

		while (o < FAB_WORD_OPTIONS && strcmp(w[i], options[o].word))
			o++;
		if (o == FAB_WORD_OPTIONS) {
			w[left++] = w[i];
			continue;
		}
		if (++i == n || json_object_get(v, options[o].key) ||
		    !options[o].put(v, options[o].key, w[i]))
			return -1;
	}
	return left;
}

static bool link_words(json_t *v, int n, char **w)
{
	return n == 2 && put_text(v, "state", w[0]) && put_node_port(v, w[1]);
}

static bool node_words(json_t *v, int n, char **w)
{
	return n == 2 && put_text(v, "state", w[0]) && put_text(v, "node", w[1]);
}

static bool swap_words(json_t *v, int n, char **w)
{
	return n == 2 && put_node_port(v, w[0]) && put_text(v, "with", w[1]);
}

static bool wire_words(json_t *v, int n, char **w)
{
	char *end;

	if (n < 2 || n > 3 || !put_node_port(v, w[0]) ||
	    json_object_set_new(v, "rate", json_real(strtod(w[1], &end))) || !*w[1] || *end)
		return false;
	return n == 2 || put_integer(v, "seed", w[2]);
}

static bool delay_words(json_t *v, int n, char **w)
{
	if (n == 3)
		return put_text(v, "node", w[0]) && put_text(v, "attribute", w[1]) && put_time(v, "time_ns", w[2]);
	return n == 2 && put_node_port(v, w[0]) && put_time(v, "time_ns", w[1]);
}

static bool stall_words(json_t *v, int n, char **w)
{
	return (n == 1 || n == 2) && put_node_port(v, w[0]) && (n == 1 || put_time(v, "time_ns", w[1]));
}

static bool resume_words(json_t *v, int n, char **w)
{
	return n == 1 && put_node_port(v, w[0]);
}

static bool credits_words(json_t *v, int n, char **w)
{
	return n == 3 && put_node_port(v, w[0]) && put_integer(v, "vl", w[1]) &&
	       put_integer(v, "blocks", w[2]);
}

static bool drop_words(json_t *v, int n, char **w)
{
	return n == 3 && put_text(v, "node", w[0]) && put_text(v, "attribute", w[1]) &&
	       put_integer(v, "nth", w[2]);
}

/* A status of a MAD by its number, or its meaning (13.4.7). */
static bool put_status(json_t *v, const char *word)
{
	static const struct {
		const char *name;
		uint16_t status;
	} names[] = {
		{ "none", IB_MAD_OK }, { "busy", IB_MAD_BUSY }, { "unsupported", IB_MAD_BAD_METHOD_ATTR },
		{ "invalid", IB_MAD_BAD_FIELD },
	};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i].name, word))
			return !json_object_set_new(v, "status", json_integer(names[i].status));
	return put_integer(v, "status", word);
}

static bool status_words(json_t *v, int n, char **w)
{
	return n == 3 && put_text(v, "node", w[0]) && put_text(v, "attribute", w[1]) && put_status(v, w[2]);
}

static bool guid_words(json_t *v, int n, char **w)
{
	return n == 2 && put_text(v, "node", w[0]) && put_text(v, "as", w[1]);
}

static bool preset_words(json_t *v, int n, char **w)
{
	return n == 3 && put_node_port(v, w[0]) && put_text(v, "counter", w[1]) &&
	       (strcmp(w[2], "stuck") ? put_integer : put_text)(v, "value", w[2]);
}

/* NODE:PORT STATE, NODE:PORT COUNTER RELATION N, or COUNTER RELATION N. */
static bool expect_words(json_t *v, int n, char **w)
{
	if ((n == 2 || n == 4) && !put_node_port(v, w[0]))
		return false;
	if (n == 2)
		return put_text(v, "state", w[1]);
	w += n == 4;
	return (n == 3 || n == 4) && put_text(v, "counter", w[0]) && put_integer(v, w[1], w[2]);
}

static const struct {
	const char *verb;
	bool (*put)(json_t *v, int n, char **w);
	const char *why;
} words[] = {
	{ "link", link_words, "write link up|down|restore NODE:PORT, link flap NODE:PORT "
	  "[--down TIME] [--interval TIME] [--count N] or link degrade NODE:PORT [--width N] "
	  "[--speed NAME]; a TIME is as 20us, 5ms or 1.5s" },
	{ "node", node_words, "write node kill|revive NODE" },
	{ "swap", swap_words, "write swap NODE:PORT NODE:PORT" },
	{ "loss", wire_words, "write loss NODE:PORT RATE [SEED] [--burst N]" },
	{ "ber", wire_words, "write ber NODE:PORT RATE [SEED]" },
	{ "corrupt", wire_words, "write corrupt NODE:PORT RATE [SEED]" },
	{ "delay", delay_words, "write delay NODE:PORT TIME, or delay NODE ATTRIBUTE TIME; a TIME is as 20us, 5ms, "
	  "1.5s, or 0" },
	{ "stall", stall_words, "write stall NODE:PORT [TIME], a TIME is as 20us, 5ms or 1.5s" },
	{ "resume", resume_words, "write resume NODE:PORT" },
	{ "credits", credits_words, "write credits NODE:PORT VL BLOCKS" },
	{ "drop", drop_words, "write drop NODE ATTRIBUTE NTH, an ATTRIBUTE is as PathRecord, Perf:ClassPortInfo, "
	  "SubnAdm:0x35 or SubnAdm" },
	{ "refuse", status_words, "write refuse NODE ATTRIBUTE unsupported|invalid|busy|none, or a number, an "
	  "ATTRIBUTE is as PortCountersExtended, Perf:ClassPortInfo or SubnAdm" },
	{ "guid", guid_words, "write guid NODE OTHER, whose GUIDs it reports, or guid NODE 0; guid NODE NODE ends it" },
	{ "preset", preset_words, "write preset NODE:PORT COUNTER VALUE|stuck" },
	{ "expect", expect_words, "write expect NODE:PORT Down|Init|Armed|Active, expect NODE:PORT COUNTER "
	  "is|above|below N or expect links_up|links_active|subnet_managers|traps|lost_mads is|above|below N; in "
	  "a script with --within TIME perhaps" },
};

static unsigned int find_words(const char *verb)
{
	unsigned int i;

	for (i = 0; i < sizeof(words) / sizeof(*words) && strcmp(verb, words[i].verb); i++)
		;
	return i;
}

bool fab_is_fault_verb(const char *verb)
{
	return find_words(verb) < sizeof(words) / sizeof(*words);
}

json_t *fab_fault_words(const char *verb, int n, char **w, const char **why)
{
	const unsigned int i = find_words(verb);
	json_t *v = json_pack("{s:s}", "command", verb);

	*why = words[i].why;
	n = v ? take_options(v, n, w) : -1;
	if (n >= 0 && words[i].put(v, n, w))
		return v;
	json_decref(v);
	return NULL;
}
