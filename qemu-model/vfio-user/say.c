// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio-user/say.h"

#include <stdarg.h>
#include <stdio.h>

void vu_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("ohca-vfio-user: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}
