// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's counts of this thread's processor time; see schedstat.h. */
#include "schedstat.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

int fab_schedstat_open(void)
{
	return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

bool fab_schedstat_read(int fd, struct fab_spin_look *look)
{
	struct rusage usage;
	char text[128];
	/* "RUN_NS WAIT_NS RUNS" */
	const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0 || getrusage(RUSAGE_THREAD, &usage))
		return false;
	text[n] = '\0';
	look->sleeps = (uint64_t)usage.ru_nvcsw;
	return sscanf(text, "%*u %" SCNu64, &look->delay_ns) == 1;
}
