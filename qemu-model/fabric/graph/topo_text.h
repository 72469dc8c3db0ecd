/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pieces of a line of a topology file. Private to the readers (topo_file.h). */
#ifndef OHCA_FABRIC_TOPO_TEXT_H
#define OHCA_FABRIC_TOPO_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/** struct topo_name - a piece of the file, not terminated; it lives as long as the file's text */
struct topo_name {
	const char *p;
	uint32_t len;
};

/** struct topo_cur - the rest of a line: from @p to before @end */
struct topo_cur {
	const char *p;
	const char *end;
};

/** topo_skip_space() - go past spaces and tabs */
void topo_skip_space(struct topo_cur *c);

/** topo_take() - go past @ch. Return: false: something else is there. */
bool topo_take(struct topo_cur *c, char ch);

/** topo_starts() - whether @word is there */
bool topo_starts(const struct topo_cur *c, const char *word);

/** topo_take_word() - go past @word. Return: false: something else is there. */
bool topo_take_word(struct topo_cur *c, const char *word);

/** topo_is() - whether a piece of the file is @word */
bool topo_is(const struct topo_name *n, const char *word);

/**
 * topo_number() - go past a number of base @base (2 to 16) without a prefix, at most @max
 *
 * Return: false if there is none, or a larger one.
 */
bool topo_number(struct topo_cur *c, unsigned int base, uint64_t max, uint64_t *v);

/** topo_hex() - the same, hexadecimal with 0x or without, as ibnetdiscover writes GUIDs */
bool topo_hex(struct topo_cur *c, uint64_t max, uint64_t *v);

/** topo_value() - the same, decimal, or hexadecimal with 0x */
bool topo_value(struct topo_cur *c, uint64_t max, uint64_t *v);

/** topo_quoted() - go past "text" in double quotes. Return: false: there is none that ends. */
bool topo_quoted(struct topo_cur *c, struct topo_name *n);

/**
 * topo_word() - go past spaces and what follows up to the next space
 *
 * Return: false: the line has ended.
 */
bool topo_word(struct topo_cur *c, struct topo_name *n);

/** topo_trim() - leave spaces and tabs out at both ends */
void topo_trim(struct topo_name *n);

#endif
