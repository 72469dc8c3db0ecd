/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What /proc shows of the test's own process. */
#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H

#include <dirent.h>
#include <stdlib.h>

/* Entries of a directory, with . and .. */
static inline unsigned int process_entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned int n = 0;

	if (!d)
		abort();
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/** open_fds() - the number of open descriptors, with a constant more. */
static inline unsigned int open_fds(void)
{
	return process_entries("/proc/self/fd");
}

/** threads() - the number of threads, with a constant more. */
static inline unsigned int threads(void)
{
	return process_entries("/proc/self/task");
}

#endif /* TEST_PROCESS_H */
