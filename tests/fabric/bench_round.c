// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How long a fabric does not see to anybody else: processor time of the longest round of its loop, in
 * a fat tree of 11,664 hosts, while much happens at once. Each case has a bound.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fabric/data/data.h"
#include "fabric/fault/fault.h"
#include "fabric/fault/script.h"
#include "fabric/graph/generate.h"
#include "fabric/graph/names.h"

#define SPEC	"fat-tree:36,3"
#define ROUNDS	20000u
#define MS	1000000ull

static struct fab *f;
static struct fab_mgmt m;
static struct fab_data *d;
static uint64_t now = 1000 * MS;
static bool failed;

static uint64_t bench_clock(void *arg)
{
	(void)arg;
	return now;
}

static bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* What the loop does between two looks at its sockets. Return: ms that it took. */
static double one_round(void)
{
	const double begin = cpu_ms();

	fab_data_round(d);
	fab_script_timer(&m, now);
	fab_mgmt_timer(&m, now);
	fab_data_timer(d);
	return cpu_ms() - begin;
}

/* The longest of @n rounds, each @step_ns after the one before. */
static double longest(unsigned int n, uint64_t step_ns)
{
	double most = 0;

	for (unsigned int i = 0; i < n; i++) {
		const double ms = one_round();

		most = ms > most ? ms : most;
		now += step_ns;
	}
	return most;
}

static void report(const char *what, double ms, double bound)
{
	printf("%-52s %7.3f ms, at most %g ms%s\n", what, ms, bound, ms > bound ? ": TOO LONG" : "");
	failed |= ms > bound;
}

static void start(void)
{
	const struct fab_data_cfg cfg = { .hoq_scale = 1, .clock = bench_clock };
	char why[256];

	f = fab_new();
	if (!f || !fab_generate(f, SPEC, why, sizeof(why)) || !fab_seal(f))
		abort();
	fab_mgmt_init(&m, f, nobody, NULL);
	m.now_ns = now;
	d = fab_data_new(&m, &cfg);
	if (!d)
		abort();
}

static void stop(void)
{
	fab_script_stop(&m);
	fab_mad_forget(&m);
	fab_data_free(d);
	fab_free(f);
}

/* Lines that pull and plug cables of the last switches each millisecond, and one that is wrong. */
static void script(bool wrong)
{
	static struct fab_script_error error[FAB_SCRIPT_ERRORS];
	char *text = malloc(FAB_SCRIPT_LINES * 64);
	uint64_t ends;
	size_t n = 0;
	double begin;

	if (!text)
		abort();
	for (unsigned int i = 0; i < FAB_SCRIPT_LINES; i++)
		n += (size_t)sprintf(text + n, "every 1ms for 1000s link %s %s%u:any\n",
				     i % 2 ? "up" : "down", wrong ? "cor" : "core", 324 - i / 4);
	m.now_ns = now;
	begin = cpu_ms();
	if (!fab_script_start(&m, text, n, error, &ends) == wrong) {
		fprintf(stderr, "line %u: %s\n", error[0].line, error[0].text);
		exit(EXIT_FAILURE);
	}
	report(wrong ? "a script of 1,024 wrong lines is checked" :
		       "a script of 1,024 lines is checked", cpu_ms() - begin, 10);
	free(text);
}

static void scripts(void)
{
	start();
	script(true);
	script(false);
	report("it plays, each line every 1 ms", longest(ROUNDS, MS / 10), 3);
	now += 3600 * 1000 * MS;
	report("it plays after the fabric stood for an hour", longest(ROUNDS, MS / 10), 3);
	stop();
}

static void flaps(void)
{
	char name[32];

	start();
	for (unsigned int i = 1; i <= FAB_FLAPS; i++) {
		snprintf(name, sizeof(name), "core%u:1", i);
		if (!fab_fault_flap(&m, fab_find_port(f, name), MS, 2 * MS, 1000000, now))
			abort();
	}
	report("16 cables flap every 2 ms", longest(ROUNDS, MS / 10), 1);
	now += 3600 * 1000 * MS;
	report("they flap after the fabric stood for an hour", longest(ROUNDS, MS / 10), 1);
	stop();
}

int main(void)
{
	scripts();
	flaps();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
