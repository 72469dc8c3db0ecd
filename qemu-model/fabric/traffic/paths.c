// SPDX-License-Identifier: GPL-2.0-or-later
/* Service levels of paths; see paths.h. */
#include "paths.h"

#include <stdlib.h>
#include <string.h>

#include "ib/vl.h"

#define FIRST_ROOM	1024u

static int by_ends(const void *a, const void *b)
{
	const uint32_t x = ((const struct fab_path *)a)->ends, y = ((const struct fab_path *)b)->ends;

	return x < y ? -1 : x > y;
}

/* Parse a number up to @most at *@text, and advance *@text. */
static bool number(const char **text, unsigned long most, unsigned long *v)
{
	char *end;

	*v = strtoul(*text, &end, 0);
	if (end == *text || *v > most || strchr(*text, '-'))
		return false;
	*text = end;
	return true;
}

static bool parse(const char *text, struct fab_path *p)
{
	unsigned long from, to, sl;

	if (!number(&text, UINT16_MAX, &from) || !number(&text, UINT16_MAX, &to) ||
	    !number(&text, IB_NUM_SLS - 1, &sl) || text[strspn(text, " \t\r\n")])
		return false;
	p->ends = (uint32_t)(from << 16 | to);
	p->sl = (uint8_t)sl;
	return true;
}

static bool room(struct fab_paths *p, size_t *cap)
{
	struct fab_path *grown;

	if (p->n < *cap)
		return true;
	*cap = *cap ? 2 * *cap : FIRST_ROOM;
	grown = realloc(p->path, *cap * sizeof(*grown));
	if (!grown)
		return false;
	p->path = grown;
	return true;
}

bool fab_paths_read(struct fab_paths *p, FILE *in, unsigned int *line)
{
	char *text = NULL;
	size_t size = 0, cap = 0;
	bool ok = true;

	for (*line = 1; ok && getline(&text, &size, in) > 0; ++*line) {
		text[strcspn(text, "#")] = 0;
		if (!text[strspn(text, " \t\r\n")])
			continue;
		if (!room(p, &cap)) {
			*line = 0;
			free(text);
			return false;
		}
		ok = parse(text, &p->path[p->n++]);
	}
	free(text);
	if (ok && ferror(in))
		*line = 0;
	else
		--*line;
	if (!ok || ferror(in))
		return false;
	if (p->n)
		qsort(p->path, p->n, sizeof(*p->path), by_ends);
	return true;
}

uint8_t fab_paths_sl(const struct fab_paths *p, uint16_t slid, uint16_t dlid, uint8_t otherwise)
{
	const struct fab_path key = { .ends = (uint32_t)slid << 16 | dlid }, *found;

	found = p && p->n ? bsearch(&key, p->path, p->n, sizeof(key), by_ends) : NULL;
	return found ? found->sl : otherwise;
}

void fab_paths_end(struct fab_paths *p)
{
	free(p->path);
	*p = (struct fab_paths){ 0 };
}
