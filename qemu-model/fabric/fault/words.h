/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests that change a fabric, as words of a command line or of a script. */
#ifndef OHCA_FABRIC_CONTROL_WORDS_H
#define OHCA_FABRIC_CONTROL_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define FAB_WORD_OPTIONS	7u

/** fab_word_option() - option @i of any verb, with its dashes; it has an argument */
const char *fab_word_option(unsigned int i);

/** fab_word_option_key() - the member of a request for option @i */
const char *fab_word_option_key(unsigned int i);

#define FAB_FAULT_VERBS	"link, node, swap, loss, ber, corrupt, delay, stall, resume, credits, drop, refuse, guid, preset or expect"

/** fab_word_time() - parse a number with a unit, or 0, into *@ns. Return: false: not valid. */
bool fab_word_time(const char *word, uint64_t *ns);

/** fab_is_fault_verb() - whether fab_fault_words() knows @verb */
bool fab_is_fault_verb(const char *verb);

/**
 * fab_fault_words() - make the request of "VERB WORD..."
 * @words: [@n]; their order changes
 * @why: if it is not valid, what to write instead
 *
 * Return: the request, or NULL.
 */
json_t *fab_fault_words(const char *verb, int n, char **words, const char **why);

#endif
