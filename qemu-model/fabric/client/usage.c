// SPDX-License-Identifier: GPL-2.0-or-later
/* Numbers of a command line; see usage.h. */
#include "usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool fab_option_number(const char *name, const char *s, unsigned int most, unsigned int *v)
{
	unsigned long n;
	char *end;

	n = strtoul(s, &end, 10);
	if (end == s || *end || *s == '-' || n > most) {
		fprintf(stderr, "ohca-fabric: %s: '%s' is not a number from 0 to %u\n", name, s,
			most);
		return false;
	}
	*v = (unsigned int)n;
	return true;
}

const char *fab_option_size(const char *s, uint64_t *v)
{
	static const char units[] = "KMGT";
	const char *unit;
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || errno)
		return NULL;
	unit = *end ? strchr(units, *end) : NULL;
	for (const char *u = units; unit && u <= unit; u++) {
		if (n > UINT64_MAX >> 10)
			return NULL;
		n <<= 10;
	}
	*v = n;
	end += unit ? 1 : 0;
	return *end && *end != ',' ? NULL : end;
}
