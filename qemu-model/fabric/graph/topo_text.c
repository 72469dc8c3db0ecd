// SPDX-License-Identifier: GPL-2.0-or-later
/* Pieces of a line of a topology file; see topo_text.h. */
#include "topo_text.h"

#include <stddef.h>
#include <string.h>

void topo_skip_space(struct topo_cur *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

bool topo_take(struct topo_cur *c, char ch)
{
	if (c->p == c->end || *c->p != ch)
		return false;
	c->p++;
	return true;
}

bool topo_starts(const struct topo_cur *c, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(c->end - c->p) >= n && !memcmp(c->p, word, n);
}

bool topo_take_word(struct topo_cur *c, const char *word)
{
	if (!topo_starts(c, word))
		return false;
	c->p += strlen(word);
	return true;
}

static int digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	return ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : 16;
}

bool topo_number(struct topo_cur *c, unsigned int base, uint64_t max, uint64_t *v)
{
	const char *begin = c->p;

	for (*v = 0; c->p < c->end && (unsigned int)digit(*c->p) < base; c->p++) {
		unsigned int d = (unsigned int)digit(*c->p);

		if (d > max || *v > (max - d) / base)
			return false;
		*v = *v * base + d;
	}
	return c->p != begin;
}

bool topo_hex(struct topo_cur *c, uint64_t max, uint64_t *v)
{
	if (topo_starts(c, "0x") || topo_starts(c, "0X"))
		c->p += 2;
	return topo_number(c, 16, max, v);
}

bool topo_value(struct topo_cur *c, uint64_t max, uint64_t *v)
{
	return topo_starts(c, "0x") ? topo_hex(c, max, v) : topo_number(c, 10, max, v);
}

bool topo_quoted(struct topo_cur *c, struct topo_name *n)
{
	const char *end;

	if (!topo_take(c, '"'))
		return false;
	end = memchr(c->p, '"', (size_t)(c->end - c->p));
	if (!end)
		return false;
	*n = (struct topo_name){ c->p, (uint32_t)(end - c->p) };
	c->p = end + 1;
	return true;
}

bool topo_is(const struct topo_name *n, const char *word)
{
	return n->len == strlen(word) && !memcmp(n->p, word, n->len);
}

bool topo_word(struct topo_cur *c, struct topo_name *n)
{
	topo_skip_space(c);
	n->p = c->p;
	while (c->p < c->end && *c->p != ' ' && *c->p != '\t')
		c->p++;
	n->len = (uint32_t)(c->p - n->p);
	return n->len;
}

void topo_trim(struct topo_name *n)
{
	while (n->len && (*n->p == ' ' || *n->p == '\t')) {
		n->p++;
		n->len--;
	}
	while (n->len && (n->p[n->len - 1] == ' ' || n->p[n->len - 1] == '\t'))
		n->len--;
}
