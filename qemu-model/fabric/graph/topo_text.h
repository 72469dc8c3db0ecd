/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pieces of a line of a topology file. Private to the readers (topo_file.h). */
#ifndef OHCA_FABRIC_TOPO_TEXT_H
#define OHCA_FABRIC_TOPO_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** struct topo_name - a piece of the file, not terminated; valid as long as the file's text */
struct topo_name {
	const char *p;
	uint32_t len;
};

/** struct topo_cur - the rest of a line: from @p to before @end */
struct topo_cur {
	const char *p;
	const char *end;
};

/** topo_skip_space() - skip spaces and tabs */
static inline void topo_skip_space(struct topo_cur *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

/** topo_take() - skip @ch. Return: false: the next character is another one. */
static inline bool topo_take(struct topo_cur *c, char ch)
{
	if (c->p == c->end || *c->p != ch)
		return false;
	c->p++;
	return true;
}

/** topo_starts() - whether @word follows */
static inline bool topo_starts(const struct topo_cur *c, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(c->end - c->p) >= n && !memcmp(c->p, word, n);
}

/** topo_take_word() - skip @word. Return: false: it does not follow. */
static inline bool topo_take_word(struct topo_cur *c, const char *word)
{
	if (!topo_starts(c, word))
		return false;
	c->p += strlen(word);
	return true;
}

/** topo_is() - whether a piece of the file is @word */
bool topo_is(const struct topo_name *n, const char *word);

/** topo_digit() - value of a hexadecimal digit; 16: it is not one */
static inline unsigned int topo_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return (unsigned int)(ch - '0');
	if (ch >= 'a' && ch <= 'f')
		return (unsigned int)(ch - 'a' + 10);
	return ch >= 'A' && ch <= 'F' ? (unsigned int)(ch - 'A' + 10) : 16;
}

/**
 * topo_number() - parse and skip a number of base @base (2 to 16) without a prefix, at most @max
 *
 * Return: false if there is none, or a larger one; then *@v is undefined.
 */
static inline bool topo_number(struct topo_cur *c, unsigned int base, uint64_t max, uint64_t *v)
{
	const char *p = c->p;
	uint64_t n = 0;
	unsigned int d;
	bool fits = true;

	for (; fits && p < c->end && (d = topo_digit(*p)) < base; p++)
		fits = !__builtin_mul_overflow(n, base, &n) &&
		       !__builtin_add_overflow(n, d, &n) && n <= max;
	fits = fits && p != c->p;
	c->p = p;
	*v = n;
	return fits;
}

/** topo_hex() - the same, hexadecimal with 0x or without, as ibnetdiscover writes GUIDs */
bool topo_hex(struct topo_cur *c, uint64_t max, uint64_t *v);

/** topo_value() - the same, decimal, or hexadecimal with 0x */
bool topo_value(struct topo_cur *c, uint64_t max, uint64_t *v);

/**
 * topo_quoted() - skip "text" in double quotes. Return: false: there is none, or it does not end.
 */
bool topo_quoted(struct topo_cur *c, struct topo_name *n);

/**
 * topo_word() - skip spaces, and the word up to the next space
 *
 * Return: false: the line has ended.
 */
static inline bool topo_word(struct topo_cur *c, struct topo_name *n)
{
	topo_skip_space(c);
	n->p = c->p;
	while (c->p < c->end && *c->p != ' ' && *c->p != '\t')
		c->p++;
	n->len = (uint32_t)(c->p - n->p);
	return n->len;
}

/** topo_trim() - remove spaces and tabs at both ends */
void topo_trim(struct topo_name *n);

#endif
