// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's tables of regions with on-demand paging: all processes together have a limit, and a
 * process that ends frees its part.
 */
#include "paged.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/** struct holder - a process that has registered its maximum; @error: the reason for a failure */
struct holder {
	pid_t pid;
	int error;
};

/* The memory need not be mapped. */
static struct holder hold(void)
{
	const uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE;
	struct holder h;
	int tell[2];

	if (pipe(tell))
		fail("pipe: %s", strerror(errno));
	h.pid = fork();
	if (h.pid < 0)
		fail("fork: %s", strerror(errno));
	if (!h.pid) {
		struct ibv_pd *pd = ibv_alloc_pd(device_open());
		struct ibv_mr *mr;

		alarm(120);
		if (!pd)
			fail("ibv_alloc_pd: %s", strerror(errno));
		mr = ibv_reg_mr(pd, (void *)0x100000000000ull, 15 * ram, ODP);
		h.error = mr ? 0 : errno;
		if (write(tell[1], &h.error, sizeof(h.error)) != sizeof(h.error))
			fail("pipe: %s", strerror(errno));
		pause();
		exit(1);
	}
	close(tell[1]);
	if (read(tell[0], &h.error, sizeof(h.error)) != sizeof(h.error))
		fail("a process ended before it told");
	close(tell[0]);
	return h;
}

static void end(struct holder h)
{
	int status;

	if (kill(h.pid, SIGKILL) || waitpid(h.pid, &status, 0) != h.pid)
		fail("kill: %s", strerror(errno));
}

static void expect(const struct holder *h, int error, const char *which)
{
	if (h->error != error)
		fail("the %s process: %s", which, strerror(h->error));
}

void tables(void)
{
	struct holder first = hold(), second = hold(), other;

	expect(&first, 0, "first");
	expect(&second, 0, "second");
	other = hold();
	expect(&other, ENOMEM, "third");
	end(other);
	end(first);
	other = hold();
	expect(&other, 0, "next");
	end(other);
	end(second);
}
