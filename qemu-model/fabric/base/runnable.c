// SPDX-License-Identifier: GPL-2.0-or-later
/* How many threads want a processor; see runnable.h. */
#include "runnable.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

int fab_runnable_open(void)
{
	return open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
}

bool fab_runnable_read(int fd, uint32_t *threads)
{
	char text[128];
	/* "AVERAGE AVERAGE AVERAGE RUNNABLE/ALL LAST_PID" */
	const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return sscanf(text, "%*s %*s %*s %" SCNu32 "/", threads) == 1;
}

uint32_t fab_processors(void)
{
	cpu_set_t set;
	long n;

	if (!sched_getaffinity(0, sizeof(set), &set))
		return (uint32_t)CPU_COUNT(&set);
	/* more processors than the set has room for */
	n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (uint32_t)n : 1;
}
