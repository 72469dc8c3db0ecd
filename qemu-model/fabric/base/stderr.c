// SPDX-License-Identifier: GPL-2.0-or-later
/* Standard error, to which writes do not block; see stderr.h. */
#include "stderr.h"

#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

bool fab_stderr_write(const char *text, size_t len)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	while (len) {
		const size_t n = len < PIPE_BUF ? len : PIPE_BUF;
		ssize_t done;

		if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
			return false;
		done = write(STDERR_FILENO, text, n);
		if (done <= 0)
			return false;
		text += done;
		len -= (size_t)done;
	}
	return true;
}

void fab_stderr_line(void *arg, const char *fmt, va_list ap)
{
	static unsigned int lost;
	char line[1024];
	int n = 0, more;

	(void)arg;
	if (lost)
		n = snprintf(line, sizeof(line), "ohca-fabric: %u lines were not written\n", lost);
	n += snprintf(line + n, sizeof(line) - (size_t)n, "ohca-fabric: ");
	more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	n += more < 0 ? 0 : more;
	n = n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (fab_stderr_write(line, (size_t)n))
		lost = 0;
	else
		lost++;
}
