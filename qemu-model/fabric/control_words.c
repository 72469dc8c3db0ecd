// SPDX-License-Identifier: GPL-2.0-or-later
/* Words of a command line as requests; see control_words.h. */
#include "control_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Adds "node" and "port" of NODE:P, in which NODE may have colons. Return: false: it is not that. */
static bool put_port(json_t *v, const char *word)
{
	const char *colon = strrchr(word, ':');
	char *end;
	long port;

	if (!colon || colon == word || !colon[1])
		return false;
	port = strtol(colon + 1, &end, 10);
	return !*end && !json_object_set_new(v, "node", json_stringn(word, (size_t)(colon - word))) &&
	       !json_object_set_new(v, "port", json_integer(port));
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

static bool link_words(json_t *v, int n, char **w)
{
	return n == 2 && put_text(v, "state", w[0]) && put_port(v, w[1]);
}

static bool node_words(json_t *v, int n, char **w)
{
	return n == 2 && put_text(v, "state", w[0]) && put_text(v, "node", w[1]);
}

static bool wire_words(json_t *v, int n, char **w)
{
	char *end;

	if (n < 2 || n > 3 || !put_port(v, w[0]) ||
	    json_object_set_new(v, "rate", json_real(strtod(w[1], &end))) || !*w[1] || *end)
		return false;
	return n == 2 || put_integer(v, "seed", w[2]);
}

static bool drop_words(json_t *v, int n, char **w)
{
	return n == 3 && put_text(v, "node", w[0]) && put_integer(v, "attribute", w[1]) &&
	       put_integer(v, "nth", w[2]);
}

static bool preset_words(json_t *v, int n, char **w)
{
	return n == 3 && put_port(v, w[0]) && put_text(v, "counter", w[1]) &&
	       put_integer(v, "value", w[2]);
}

static const struct {
	const char *verb;
	bool (*put)(json_t *v, int n, char **w);
	const char *why;
} words[] = {
	{ "link", link_words, "write link up|down NODE:PORT" },
	{ "node", node_words, "write node kill|revive NODE" },
	{ "loss", wire_words, "write loss NODE:PORT RATE [SEED]" },
	{ "corrupt", wire_words, "write corrupt NODE:PORT RATE [SEED]" },
	{ "drop", drop_words, "write drop NODE ATTRIBUTE NTH" },
	{ "preset", preset_words, "write preset NODE:PORT COUNTER VALUE" },
};

static unsigned int find(const char *verb)
{
	unsigned int i;

	for (i = 0; i < sizeof(words) / sizeof(*words) && strcmp(verb, words[i].verb); i++)
		;
	return i;
}

bool fab_is_fault_verb(const char *verb)
{
	return find(verb) < sizeof(words) / sizeof(*words);
}

json_t *fab_fault_words(const char *verb, int n, char **w, const char **why)
{
	const unsigned int i = find(verb);
	json_t *v = json_pack("{s:s}", "command", verb);

	*why = words[i].why;
	if (v && words[i].put(v, n, w))
		return v;
	json_decref(v);
	return NULL;
}
