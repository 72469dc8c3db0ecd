// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric capture: a client of the control socket that writes captured data to a file. */
#include "client.h"
#include "usage.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/watch/pcapng.h"

#define BUFFER		(1u << 20)	/* more than the longest block */

/* Options of a capture. */
struct options {
	const char *path;
	const char *file;
	json_int_t count;
	json_int_t seconds;
	bool links;
};

/*
 * A running capture. @buf: [@have] data that was received and not written yet; @packets, @lost:
 * final counts of the fabric
 */
struct run {
	int from;
	int to;
	size_t have;
	uint64_t packets, lost;
	bool complete;
	uint8_t buf[BUFFER];
};

static int capture_fd;

/* Shut down our direction: the fabric then ends the capture, and sends the rest of it. */
static void end_capture(int sig)
{
	(void)sig;
	shutdown(capture_fd, SHUT_WR);
}

/* The first signal of its kind ends the capture, a second one the program. */
static void catch_signals(int fd, unsigned int seconds)
{
	struct sigaction sa = {
		.sa_handler = end_capture,
		.sa_flags = (int)(SA_RESETHAND | SA_RESTART),
	};

	capture_fd = fd;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	alarm(seconds);
}

static bool write_all(int fd, const uint8_t *b, size_t len)
{
	while (len) {
		ssize_t n = write(fd, b, len);

		if (n < 0 && errno != EINTR)
			return false;
		b += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

static uint32_t word(const uint8_t *b)
{
	uint32_t v;

	memcpy(&v, b, sizeof(v));
	return v;
}

/* Add the counts of one interface, which follow its capture. */
static void take_statistics(struct run *r, const uint8_t *b, uint32_t len)
{
	for (uint32_t at = 20; at + 16 <= len; at += 12) {
		uint64_t v;

		memcpy(&v, b + at + 4, sizeof(v));
		if (word(b + at) == (8u << 16 | PCAPNG_ISB_IFRECV))
			r->packets += v;
		else if (word(b + at) == (8u << 16 | PCAPNG_ISB_IFDROP))
			r->lost += v;
	}
	r->complete = true;
}

/* Length of the whole blocks in the buffer, or -1: these are not blocks. */
static ssize_t whole_blocks(struct run *r)
{
	size_t at = 0;

	while (r->have - at >= 8) {
		const uint32_t len = word(r->buf + at + 4);

		if (len < 12 || len % 4 || len > BUFFER)
			return -1;
		if (len > r->have - at)
			break;
		if (word(r->buf + at) == PCAPNG_STATISTICS)
			take_statistics(r, r->buf + at, len);
		at += len;
	}
	return (ssize_t)at;
}

static int failed(const char *what, const char *why)
{
	fprintf(stderr, "ohca-fabric: %s: %s\n", what, why);
	return EXIT_FAILURE;
}

/* Write received data, whole blocks only, until the fabric has sent all. Return: exit status. */
static int copy(struct run *r, const char *file)
{
	ssize_t n, whole;

	while ((n = read(r->from, r->buf + r->have, BUFFER - r->have)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		r->have += (size_t)n;
		whole = whole_blocks(r);
		if (whole < 0)
			return failed(file, "the fabric does not send a capture: use the same release of both programs");
		if (!write_all(r->to, r->buf, (size_t)whole))
			return failed(file, strerror(errno));
		r->have -= (size_t)whole;
		memmove(r->buf, r->buf + whole, r->have);
	}
	if (!r->complete)
		return failed(file, "the fabric has ended: the last packets are missing");
	fprintf(stderr, "ohca-fabric: %" PRIu64 " packets, %" PRIu64 " lost\n",
		r->packets, r->lost);
	return EXIT_SUCCESS;
}

static json_t *capture_request(const struct options *o, int n, char **ports)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_string(ports[i]));
	return json_pack("{s:s, s:o, s:o*, s:b}", "command", "capture", "ports", list, "count",
			 o->count ? json_integer(o->count) : NULL, "link_packets", o->links);
}

/* Capture the [@n] @ports. Return: exit status. */
static int capture(const struct options *o, int n, char **ports)
{
	FILE *s = fab_client_dial(o->path);
	struct run *r = calloc(1, sizeof(*r));
	int rc = EXIT_FAILURE;
	char *line = NULL;
	json_t *v = NULL;
	size_t size = 0;

	if (s && r) {
		/* binary data follows the reply: do not read it into the stream's buffer */
		setvbuf(s, NULL, _IONBF, 0);
		fab_client_send(fileno(s), capture_request(o, n, ports));
		v = fab_client_reply(s, NULL, &line, &size);
	}
	if (v) {
		r->from = fileno(s);
		r->to = strcmp(o->file, "-") ?
			open(o->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) :
			STDOUT_FILENO;
		catch_signals(r->from, (unsigned int)o->seconds);
		rc = r->to < 0 ? failed(o->file, strerror(errno)) : copy(r, o->file);
		if (r->to >= 0 && close(r->to))
			rc = failed(o->file, strerror(errno));
	}
	json_decref(v);
	free(line);
	free(r);
	if (s)
		fclose(s);
	return rc;
}

/* Return: false: it is not a number from 1 on. */
static bool option_number(const char *text, json_int_t *v)
{
	char *end;

	errno = 0;
	*v = strtoll(text, &end, 10);
	return *text && !*end && !errno && *v > 0 && *v < 1000000000;
}

int fab_capture_client(int argc, char **argv)
{
	static const struct option options[] = {
		{ "control", required_argument, NULL, 'c' },
		{ "write", required_argument, NULL, 'w' },
		{ "count", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 's' },
		{ "link-packets", no_argument, NULL, 'l' },
		{ 0 },
	};
	struct options o = { .path = NULL };
	int c;

	while ((c = getopt_long(argc, argv, "c:w:n:s:", options, NULL)) != -1) {
		if (c == 'c')
			o.path = optarg;
		else if (c == 'w')
			o.file = optarg;
		else if (c == 'l')
			o.links = true;
		else if (c == 'n' ? !option_number(optarg, &o.count) :
			 c == 's' ? !option_number(optarg, &o.seconds) : true)
			return fab_usage_error("the options of capture are -w FILE, --link-packets, --count N "
					       "and --seconds N, with N from 1");
	}
	if (!o.path)
		return fab_usage_error("give the control socket of the fabric: --control PATH");
	if (!o.file || optind == argc)
		return fab_usage_error("write capture NODE:PORT... -w FILE, or -w - for standard "
				       "output");
	if (!strcmp(o.file, "-") && isatty(STDOUT_FILENO))
		return fab_usage_error("a capture is not text: pipe it to a program such as "
				       "tshark -i -");
	return capture(&o, argc - optind, argv + optind);
}
