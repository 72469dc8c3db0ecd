/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How ohca-fabric refuses a command line. */
#ifndef OHCA_FABRIC_USAGE_H
#define OHCA_FABRIC_USAGE_H

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

#endif
