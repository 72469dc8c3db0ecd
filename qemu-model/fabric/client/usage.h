/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How ohca-fabric refuses a command line. */
#ifndef OHCA_FABRIC_USAGE_H
#define OHCA_FABRIC_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FAB_EXIT_USAGE	2	/* exit status */

/**
 * fab_usage_error() - print what is wrong with the command line
 * @what: a sentence that says what to write instead
 *
 * Return: FAB_EXIT_USAGE.
 */
static inline int fab_usage_error(const char *what)
{
	fprintf(stderr, "ohca-fabric: %s; ohca-fabric --help says more\n", what);
	return FAB_EXIT_USAGE;
}

/**
 * fab_option_number() - the number from 0 to @most that option @name has
 * Return: false: @s is none, which was said.
 */
bool fab_option_number(const char *name, const char *s, unsigned int most, unsigned int *v);

/**
 * fab_option_size() - bytes, or as many KiB, MiB, GiB or TiB as K, M, G or T says, up to the end or a comma
 * Return: the rest of @s; NULL: it is no such number.
 */
const char *fab_option_size(const char *s, uint64_t *v);

#endif
