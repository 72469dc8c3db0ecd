/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Errors of ohca-fabric's command line. */
#ifndef OHCA_FABRIC_USAGE_H
#define OHCA_FABRIC_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FAB_EXIT_USAGE	2	/* exit status */

/**
 * fab_usage_error() - print an error of the command line
 * @what: a sentence that says what to write instead
 *
 * Return: FAB_EXIT_USAGE.
 */
static inline int fab_usage_error(const char *what)
{
	fprintf(stderr, "ohca-fabric: %s; see ohca-fabric --help\n", what);
	return FAB_EXIT_USAGE;
}

/**
 * fab_option_number() - parse the number from 0 to @most of option @name
 * Return: false: @s is not valid; the error was printed.
 */
bool fab_option_number(const char *name, const char *s, unsigned int most, unsigned int *v);

/**
 * fab_option_size() - parse bytes, or with K, M, G or T so many KiB, MiB, GiB or TiB, up to the end
 *	or a comma
 * Return: the rest of @s; NULL: not valid.
 */
const char *fab_option_size(const char *s, uint64_t *v);

#endif
