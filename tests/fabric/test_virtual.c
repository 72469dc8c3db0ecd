// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Virtual time of a running fabric: requests during a run are answered after it, and signals take
 * effect.
 */
#include "accept.h"
#include "cases.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fabric/fault/script.h"
#include "fabric/serve.h"

#define SECOND	1000000000ull
#define YEAR	(365 * 86400 * SECOND)
#define CLIENTS	3u

/* Instead of signals: end, continue, or post @held and wait for @go. */
enum { STOP = 'x', LOOK = 'l', HOLD = 'h' };

static struct {
	struct fab *f;
	struct fab_serve_cfg cfg;
	struct fab_serve_hooks hooks;
	struct fab_serve_time time;
	pthread_t thread;
	int pipe[2];
	int client[CLIENTS];
	char path[64];
	sem_t ready, held, go;
	bool ended;
} v;

static void on_ready(void *arg, struct fab_data *d, struct fab_hcas *hcas)
{
	(void)arg;
	(void)d;
	(void)hcas;
	sem_post(&v.ready);
}

static bool on_event(void *arg, int fd)
{
	char c;

	(void)arg;
	assert_int_equal(read(fd, &c, 1), 1);
	if (c == HOLD) {
		sem_post(&v.held);
		sem_wait(&v.go);
	}
	return c != STOP;
}

static void *serve(void *arg)
{
	(void)arg;
	assert_int_equal(fab_serve(v.f, &v.cfg), 0);
	return NULL;
}

static void signal_loop(char c)
{
	assert_int_equal(write(v.pipe[1], &c, 1), 1);
}

static void say(unsigned int client, const char *text)
{
	assert_int_equal(send(v.client[client], text, strlen(text), 0), strlen(text));
}

/* The number @key of the next reply. */
static json_int_t hear(unsigned int client, const char *key)
{
	char text[4096];
	size_t n = 0;
	json_int_t r;
	json_t *reply;

	do {
		const ssize_t got = recv(v.client[client], text + n, sizeof(text) - n, 0);

		assert_true(got > 0);
		n += (size_t)got;
	} while (text[n - 1] != '\n');
	reply = json_loadb(text, n, 0, NULL);
	assert_non_null(json_object_get(reply, key));
	r = json_integer_value(json_object_get(reply, key));
	json_decref(reply);
	return r;
}

static void dial(unsigned int client)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	strcpy(un.sun_path, v.path);
	v.client[client] = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(v.client[client], (struct sockaddr *)&un, sizeof(un)), 0);
}

static int setup(void **st)
{
	(void)st;
	memset(&v, 0, sizeof(v));
	v.f = from_spec("fat-tree:4");
	assert_int_equal(pipe(v.pipe), 0);
	sem_init(&v.ready, 0, 0);
	sem_init(&v.held, 0, 0);
	sem_init(&v.go, 0, 0);
	snprintf(v.path, sizeof(v.path), "/tmp/test_virtual-%d", (int)getpid());
	v.time = (struct fab_serve_time){ SECOND, SECOND };
	v.hooks = (struct fab_serve_hooks){ v.pipe[0], on_ready, on_event, NULL };
	v.cfg = (struct fab_serve_cfg){ .control = v.path, .quiet = true, .time = &v.time, .hooks = &v.hooks };
	v.cfg.data.shift = OHCA_LINK_SHIFT_DEFAULT;
	v.cfg.data.hoq_scale = 1;
	v.cfg.data.clock = fab_serve_clock;
	v.cfg.data.arg = &v.time;
	assert_int_equal(pthread_create(&v.thread, NULL, serve, NULL), 0);
	sem_wait(&v.ready);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		dial(i);
		say(i, "{\"command\": \"log\"}\n");
		assert_int_equal(hear(i, "now_ns"), SECOND);
	}
	return 0;
}

static void end_loop(void)
{
	signal_loop(STOP);
	pthread_join(v.thread, NULL);
	v.ended = true;
}

static int teardown(void **st)
{
	(void)st;
	if (!v.ended) {		/* a test has failed */
		sem_post(&v.go);
		end_loop();
	}
	for (unsigned int i = 0; i < CLIENTS; i++)
		close(v.client[i]);
	fab_free(v.f);
	close(v.pipe[0]);
	close(v.pipe[1]);
	return access(v.path, F_OK) ? 0 : -1;
}

static void hold(void)
{
	signal_loop(HOLD);
	sem_wait(&v.held);
}

/*
 * Requests that wait together are answered one after another: the times of two run requests add up.
 */
static void test_together(void **st)
{
	(void)st;
	hold();
	say(0, "{\"command\": \"run\", \"time_ns\": 1000000000}\n");
	say(1, "{\"command\": \"run\", \"time_ns\": 2000000000}\n");
	say(2, "{\"command\": \"log\"}\n");
	sem_post(&v.go);
	assert_int_equal(hear(0, "now_ns"), SECOND);
	assert_int_equal(hear(1, "now_ns"), 2 * SECOND);
	assert_int_equal(hear(2, "now_ns"), 4 * SECOND);
	end_loop();
}

/* A signal that does not end the fabric lets no request run while time runs. */
static void test_signal(void **st)
{
	(void)st;
	hold();
	signal_loop(LOOK);
	signal_loop(LOOK);
	say(0, "{\"command\": \"run\", \"time_ns\": 1000000000}\n");
	say(1, "{\"command\": \"log\"}\n");
	sem_post(&v.go);
	assert_int_equal(hear(0, "now_ns"), SECOND);
	assert_int_equal(hear(1, "now_ns"), 2 * SECOND);
	end_loop();
}

/* A year with a fault each ms, and a condition that is checked as often, is ended by a signal. */
static void test_year(void **st)
{
	(void)st;
	say(0, "{\"command\": \"script\", \"text\": \"every 1ms for 1000s link down leaf1:any\\n"
	       "when traps above 1000000 for 86400s do link up leaf1:1\\n\"}\n");
	hear(0, "done");
	say(0, "{\"command\": \"run\", \"time_ns\": 31536000000000000}\n");
	assert_int_equal(hear(0, "now_ns"), SECOND);
	end_loop();
	assert_true(v.time.now_ns < v.time.until_ns);
	assert_int_equal(v.time.until_ns, SECOND + YEAR);
}

/* A client that the fabric cannot accept waits by the clock of the host, and no time passes. */
static void test_cannot_accept(void **st)
{
	struct timespec begin, end;

	(void)st;
	close(v.client[0]);
	say(1, "{\"command\": \"log\"}\n");
	hear(1, "now_ns");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	atomic_store(&fail_accept, ENFILE);
	dial(0);
	say(0, "{\"command\": \"log\"}\n");
	for (unsigned int i = 0; atomic_load(&accepts) < 3; i++) {
		assert_true(i < 20000);
		poll(NULL, 0, 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_true((end.tv_sec - begin.tv_sec) * (long)SECOND + end.tv_nsec - begin.tv_nsec >=
		    200000000);
	/* another client may still let time run */
	say(1, "{\"command\": \"run\", \"time_ns\": 1000000000}\n");
	assert_int_equal(hear(1, "now_ns"), SECOND);
	atomic_store(&fail_accept, 0);
	assert_int_equal(poll(&(struct pollfd){ v.client[0], POLLIN, 0 }, 1, 20000), 1);
	assert_int_equal(hear(0, "now_ns"), 2 * SECOND);
	end_loop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_together, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_year, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cannot_accept, setup, teardown),
	};

	return cmocka_run_group_tests_name("virtual", tests, NULL, NULL);
}
