// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Measures a wire between two processes by TCP on loopback, and one TCP stream between two
 * processes for comparison, which sends blocks of 128 KiB as iperf3 does. Neither fills or reads
 * the payload.
 *
 *	wire_bench SECONDS	for tests/bench/run: TABLE, ROW, COLUMN and VALUE, with tabs
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../link/simple.h"

#define BLOCK	(128u << 10)	/* as iperf3 */
#define HEADERS	20u

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Starts a child that runs @f with one end of a pipe; *@fd is the other end. */
static pid_t child(void (*f)(int to, int listener, size_t len), int listener, size_t len, int *fd)
{
	int p[2];
	pid_t pid;

	if (pipe(p))
		die("pipe");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		f(p[1], listener, len);
		_exit(0);
	}
	close(p[1]);
	*fd = p[0];
	return pid;
}

/* Reads the bytes that the child has received and the time that they took. Return: GB/s. */
static double result(pid_t pid, int fd)
{
	double r[2] = { 0, 1 };

	if (read(fd, r, sizeof(r)) != sizeof(r))
		die("the other process");
	close(fd);
	waitpid(pid, NULL, 0);
	return r[0] / r[1] / 1e9;
}

static void tell(int to, double bytes, double seconds)
{
	const double r[2] = { bytes, seconds };

	if (write(to, r, sizeof(r)) != sizeof(r))
		_exit(1);
}

/* ---- TCP ------------------------------------------------------------------------ */

static void take_stream(int to, int listener, size_t len)
{
	char *buf = malloc(len);
	const int fd = accept(listener, NULL, NULL);
	double bytes = 0, begin = 0;
	ssize_t n;

	while ((n = recv(fd, buf, len, 0)) > 0) {
		if (!bytes)
			begin = now();
		bytes += (double)n;
	}
	tell(to, bytes, now() - begin);
}

static double stream(double seconds)
{
	static char buf[BLOCK];
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd, p;
	double end;
	pid_t pid;

	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &len))
		die("listen");
	pid = child(take_stream, listener, BLOCK, &p);
	close(listener);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect");
	for (end = now() + seconds; now() < end;)
		if (send(fd, buf, sizeof(buf), 0) < 0)
			die("send");
	close(fd);
	return result(pid, p);
}

/* ---- the wire ------------------------------------------------------------------- */

/* Waits until the link has something to do. Return: false if the link has ended. */
static bool nap(struct ohca_link *l)
{
	simple_nap(l, 1000);
	return ohca_link_ctrl_fd(l) >= 0;
}

static void up(struct ohca_link *l)
{
	const struct ohca_link_phy phy = { true, 0xff, 0xff, 0xff };

	if (!l)
		die("no link");
	ohca_link_train(l, &phy);
	if (simple_up(l, 10000))
		die("the link stays down");
}

static void take_frames(int to, int listener, size_t len)
{
	struct ohca_link_err err;
	struct ohca_link_cfg c;
	struct ohca_link *l;
	uint8_t head[HEADERS];
	double bytes = 0, begin = 0;

	(void)len;
	ohca_link_cfg_init(&c);
	l = simple_accept(listener, &c, 10000, &err);
	up(l);
	do {
		struct ohca_link_frame f;

		while (ohca_link_rx_peek(l, 0, &f)) {
			if (!bytes)
				begin = now();
			memcpy(head, f.data, sizeof(head));
			bytes += f.len;
			ohca_link_rx_release(l, 0);
		}
		ohca_link_kick(l);
	} while (nap(l));
	tell(to, bytes, now() - begin);
	ohca_link_free(l);
}

static double wire(double seconds, size_t len)
{
	const uint8_t head[HEADERS] = { 0 };
	char path[OHCA_LINK_TCP_MAX];
	struct ohca_link_err err;
	struct ohca_link_cfg c;
	struct ohca_link *l;
	double end;
	pid_t pid;
	int listener = ohca_link_listen("tcp:127.0.0.1:0", &err), p;

	if (listener < 0 || ohca_link_bound(listener, path))
		die(err.text);
	pid = child(take_frames, listener, len, &p);
	close(listener);
	ohca_link_cfg_init(&c);
	l = ohca_link_connect(path, &c, 10000, &err);
	up(l);
	for (end = now() + seconds; now() < end;) {
		unsigned int n;

		for (n = 0; n < 64; n++) {
			uint8_t *b = ohca_link_tx_begin(l, 0, len);

			if (!b)
				break;
			memcpy(b, head, sizeof(head));
			ohca_link_tx_commit(l, 0, len, 0);
		}
		ohca_link_kick(l);
		if (n < 64 && !nap(l))
			die("the link ended");
	}
	ohca_link_free(l);
	return result(pid, p);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 64, 1024 + 24, 4096 + 24 };
	const double seconds = argc > 1 ? atof(argv[1]) : 1;

	signal(SIGPIPE, SIG_IGN);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		printf("wire\t%zu\twire\t%.3f\n", sizes[i], wire(seconds, sizes[i]));
		printf("wire\t%zu\tTCP\t%.3f\n", sizes[i], stream(seconds));
		fflush(stdout);
	}
	return 0;
}
