// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Measures the longest round of a fabric's loop, in processor time: for that time it serves no
 * other client. A fat tree of 11,664 hosts has much to do at once. Each case has a bound.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "fabric/attach.h"
#include "fabric/base/event.h"
#include "fabric/data/data.h"
#include "fabric/fault/fault.h"
#include "fabric/fault/script.h"
#include "fabric/graph/generate.h"
#include "fabric/graph/names.h"

#define SPEC	"fat-tree:36,3"
#define ROUNDS	20000u
#define MS	1000000ull
#define MACHINES	300u
#define EVENTS	32

static struct fab *f;
static struct fab_mgmt m;
static struct fab_data *d;
static uint64_t now = 1000 * MS;
static bool failed;
static struct fab_attach *door;
static struct ohca_link *machine[MACHINES];
static bool flaps_machine;	/* the link of the first machine goes down and up */
static char dir[32], sock[48];
static int epfd;

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

/* One pass of the loop between two checks of its sockets, with the check. Return: its ms. */
static double one_round(void)
{
	const double begin = cpu_ms();
	struct epoll_event ev[EVENTS];
	int n;

	if (!fab_data_round(d))
		fab_data_sleep(d);

	fab_script_timer(&m, now);
	fab_mgmt_timer(&m, now);
	fab_data_timer(d);
	fab_attach_timer(door, now);
	n = epoll_wait(epfd, ev, EVENTS, 0);
	for (int i = 0; i < n; i++)
		fab_attach_event(door, fab_event_of(&ev[i]).index);
	return cpu_ms() - begin;
}

/* Lets the other end of @l do its work. */
static void machine_turn(struct ohca_link *l)
{
	enum ohca_link_event e;

	do {
		e = ohca_link_ctrl(l);
	} while (e == OHCA_LINK_EV_UP || e == OHCA_LINK_EV_DOWN);
}

static void train(struct ohca_link *l, bool enabled)
{
	const struct ohca_link_phy phy = {
		.enabled = enabled, .width_en = 0xff, .speed_en = 0xff, .speed_ext_en = 0xff,
	};

	ohca_link_train(l, &phy);
	machine_turn(l);
}

/* Return: ms of the longest of @n rounds, each @step_ns after the one before. */
static double longest(unsigned int n, uint64_t step_ns)
{
	double most = 0;

	for (unsigned int i = 0; i < n; i++) {
		const double ms = one_round();

		most = ms > most ? ms : most;
		now += step_ns;
		if (flaps_machine)
			train(machine[0], i & 1);
	}
	return most;
}

static void attach_machines(void)
{
	for (unsigned int i = 0; i < MACHINES; i++) {
		struct ohca_link_cfg cfg;
		struct ohca_link_err err = { .text = "no answer" };
		int fd, r = 0;

		ohca_link_cfg_init(&cfg);
		cfg.port_guid = 0x100000 + i;
		fd = ohca_link_connect_start(sock, &cfg, 0, &err);
		for (unsigned int k = 0; fd >= 0 && !r && k < 100; k++) {
			one_round();
			r = ohca_link_connect_finish(fd, &cfg, &machine[i], &err);
		}
		if (r <= 0) {
			fprintf(stderr, "machine %u: %s\n", i, err.text);
			exit(EXIT_FAILURE);
		}
		train(machine[i], true);
	}
	for (unsigned int k = 0; k < 100; k++) {
		one_round();
		for (unsigned int i = 0; i < MACHINES; i++)
			machine_turn(machine[i]);
	}
}

static void report(const char *what, double ms, double bound)
{
	printf("%-52s %7.3f ms, at most %g ms%s\n", what, ms, bound, ms > bound ? ": TOO LONG" : "");
	failed |= ms > bound;
}

static void start(void)
{
	const struct fab_data_cfg cfg = { .hoq_scale = 1, .clock = bench_clock };
	struct fab_attach_cfg listener = { .path = sock, .type = FAB_EVENT_ATTACH,
					   .tenant = FAB_NONE };
	struct ohca_link_err err;
	char why[256];

	f = fab_new();
	if (!f || !fab_generate(f, SPEC, why, sizeof(why)) || !fab_seal(f))
		abort();
	fab_mgmt_init(&m, f, nobody, NULL);
	m.now_ns = now;
	d = fab_data_new(&m, &cfg);
	strcpy(dir, "/tmp/ohca-fab-XXXXXX");
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (!d || epfd < 0 || !mkdtemp(dir))
		abort();
	snprintf(sock, sizeof(sock), "%s/s", dir);
	listener.epfd = epfd;
	door = fab_attach_new(d, &listener, &err);
	if (!door)
		abort();
}

static void stop(void)
{
	fab_script_stop(&m);
	fab_mad_forget(&m);
	fab_attach_free(door);
	fab_data_free(d);
	for (unsigned int i = 0; i < MACHINES; i++) {
		ohca_link_free(machine[i]);
		machine[i] = NULL;
	}
	flaps_machine = false;
	close(epfd);
	rmdir(dir);
	fab_free(f);
}

/*
 * Lines that pull and plug in cables of the last switches each millisecond, and one that is
 * invalid.
 */
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

static void start_flaps(void)
{
	char name[32];

	for (unsigned int i = 1; i <= FAB_FLAPS; i++) {
		snprintf(name, sizeof(name), "core%u:1", i);
		if (!fab_fault_flap(&m, fab_find_port(f, name), MS, 2 * MS, 1000000, now))
			abort();
	}
}

static void flaps(void)
{
	start();
	start_flaps();
	report("16 cables flap every 2 ms", longest(ROUNDS, MS / 10), 1);
	now += 3600 * 1000 * MS;
	report("they flap after the fabric stood for an hour", longest(ROUNDS, MS / 10), 1);
	stop();
}

static void machines(void)
{
	start();
	attach_machines();
	report("300 idle machines", longest(ROUNDS, MS / 10), 1);
	flaps_machine = true;
	report("the link of one of them comes and goes for ever", longest(ROUNDS, MS / 10), 1);
	script(false);
	start_flaps();
	report("that, the script and the flaps at once", longest(ROUNDS, MS / 10), 5);
	stop();
}

int main(void)
{
	struct rlimit r;

	/* both ends of all links are in this process */
	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	scripts();
	flaps();
	machines();
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
