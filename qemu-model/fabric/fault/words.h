/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests that do something to a fabric, as words of a command line or of a script. */
#ifndef OHCA_FABRIC_CONTROL_WORDS_H
#define OHCA_FABRIC_CONTROL_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define FAB_WORD_OPTIONS	7u

/** fab_word_option() - option @i of any verb, with its dashes; it has an argument */
const char *fab_word_option(unsigned int i);

/** fab_word_option_key() - the member of a request that it becomes */
const char *fab_word_option_key(unsigned int i);

#define FAB_FAULT_VERBS	"link, node, swap, loss, ber, corrupt, delay, stall, resume, credits, drop, refuse, guid, preset or expect"

/** fab_word_time() - *@ns of a number with a unit, or 0. Return: false: it is none. */
bool fab_word_time(const char *word, uint64_t *ns);

/** fab_is_fault_verb() - fab_fault_words() knows @verb */
bool fab_is_fault_verb(const char *verb);

/**
 * fab_fault_words() - the request of "VERB WORD..."
 * @words: [@n]; their order changes
 * @why: what to write instead, if it is wrong
 *
 * Return: the request, or NULL.
 */
json_t *fab_fault_words(const char *verb, int n, char **words, const char **why);

#endif
