// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ohca-liar SEED CALLS: runs processes without privileges, three at a time, that make invalid calls
 * of uverbs, until there were CALLS calls. They exit, end by a signal, or are killed. Each must be
 * gone soon after that, whatever the kernel has to clean up. Any exit status is allowed, because a
 * process that lies cannot expect correct results.
 */
#define _GNU_SOURCE
#include "liar.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE		3
#define NOBODY		65534
#define LIFE		6	/* seconds; a process that still waits is killed */
#define PATIENCE	120	/* seconds within which a killed process ends */

struct liar {
	pid_t pid;
	time_t end;	/* time to kill it; after that, time limit of its end */
	bool killed;
};

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static void limit(int what, rlim_t most)
{
	struct rlimit r = { most, most };

	if (setrlimit(what, &r)) {
		perror("setrlimit");
		_exit(3);
	}
}

/* The kernel wrote to the wrong address, or the provider trusted a lie. */
static void crashed(int sig)
{
	shared->crashed++;
	_exit(0);
}

static void lie(uint64_t seed)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE };
	struct sigaction act = { .sa_handler = crashed, .sa_flags = SA_RESETHAND };
	unsigned int steps;

	for (unsigned int i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &act, NULL);
	setpgid(0, 0);	/* also done by the parent, to avoid a race */
	liar_begin(seed);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_MEMLOCK, 32u << 20);
	limit(RLIMIT_AS, 512u << 20);
	limit(RLIMIT_NPROC, 64);
	limit(RLIMIT_FSIZE, 0);
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)) {
		perror("setuid");
		_exit(3);
	}
	steps = 50 + rnd(1000);
	if (!rnd(4))
		alarm(1 + rnd(3));	/* at a random moment */
	verbs_run(steps);
	_exit(0);
}

/* Kills a process after its time, with its children. Return: false if one does not end. */
static bool watch(struct liar *l)
{
	int status;
	pid_t got;

	if (!l->pid)
		return true;
	while ((got = waitpid(-l->pid, &status, WNOHANG)) > 0) {
		if (got != l->pid)
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
			return false;
		kill(-l->pid, SIGKILL);
	}
	if (got < 0) {
		l->pid = 0;	/* the process group is empty */
		return true;
	}
	if (now() < l->end)
		return true;
	if (l->killed) {
		printf("process %d or a child does not end\n", l->pid);
		return false;
	}
	kill(-l->pid, SIGKILL);
	l->killed = true;
	l->end = now() + PATIENCE;
	return true;
}

/* Kills all of them, and reports the reason. */
static int give_up(const struct liar *l, const char *why)
{
	for (int i = 0; i < AT_ONCE; i++)
		if (l[i].pid > 0)
			kill(-l[i].pid, SIGKILL);
	if (why)
		printf("%s\n", why);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 2 ? strtoull(argv[1], NULL, 0) : 0;
	uint64_t want = argc > 2 ? strtoull(argv[2], NULL, 0) : 0, begun = 0;
	struct liar liars[AT_ONCE] = { 0 };
	unsigned int busy = 1;

	if (argc < 3) {
		fprintf(stderr, "usage: ohca-liar SEED CALLS\n");
		return 2;
	}
	/* wait for children of processes that have ended, too */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("mmap");
		return 3;
	}
	while (busy) {
		busy = 0;
		for (int i = 0; i < AT_ONCE; i++) {
			if (!watch(&liars[i]))
				return give_up(liars, NULL);
			if (begun > 50 && !shared->calls)
				return give_up(liars, "no process has made a call");
			if (!liars[i].pid && shared->calls < want) {
				uint64_t s = seed * 1000003 + begun++;

				fflush(stdout);
				liars[i] = (struct liar){ .pid = fork(), .end = now() + LIFE };
				if (!liars[i].pid)
					lie(s);
				if (liars[i].pid < 0) {
					perror("fork");
					liars[i].pid = 0;
					return give_up(liars, NULL);
				}
				setpgid(liars[i].pid, 0);
			}
			busy += !!liars[i].pid;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	}
	printf("seed %llu: %llu processes, %llu crashed, %llu calls, %llu writes, %llu lies, "
	       "%llu taken\n", (unsigned long long)seed, (unsigned long long)begun,
	       (unsigned long long)shared->crashed, (unsigned long long)shared->calls,
	       (unsigned long long)shared->writes, (unsigned long long)shared->lies,
	       (unsigned long long)shared->taken);
	return 0;
}
