// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses pieces of a line of a topology file; see topo_text.h. */
#include "topo_text.h"

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

void topo_trim(struct topo_name *n)
{
	while (n->len && (*n->p == ' ' || *n->p == '\t')) {
		n->p++;
		n->len--;
	}
	while (n->len && (n->p[n->len - 1] == ' ' || n->p[n->len - 1] == '\t'))
		n->len--;
}
