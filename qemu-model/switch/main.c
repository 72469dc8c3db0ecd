// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ohca-switch: an InfiniBand switch in a process; its ports are sockets.
 */
#include "switch.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ib/rate.h"

#define EXIT_USAGE	2

static void usage(FILE *f)
{
	fputs("Usage: ohca-switch --listen PATH [OPTION]...\n"
	      "An InfiniBand switch; every adapter that connects to PATH gets a port.\n\n"
	      "  -l, --listen PATH     UNIX socket to make\n"
	      "  -u, --uplink PATH[,N] use our highest free port for a link to port N (or any)\n"
	      "                        of the switch that listens on PATH; may be repeated\n"
	      "  -p, --ports N         external ports, 1 to 254 (36)\n"
	      "  -g, --guid GUID       NodeGUID, 16 hex digits (made from PATH)\n"
	      "  -G, --sys-guid GUID   SystemImageGUID (the NodeGUID)\n"
	      "  -d, --desc TEXT       NodeDescription (ohca-switch)\n"
	      "  -s, --speed SPEED     sdr, ddr, qdr, fdr, edr, hdr or ndr (edr)\n"
	      "  -w, --width WIDTH     1x, 4x, 8x or 12x (4x)\n"
	      "  -m, --mtu BYTES       256, 512, 1024, 2048 or 4096 (4096)\n"
	      "  -v, --vls N           data VLs: 1, 2, 4, 8 or 15 (8)\n"
	      "      --credit-shift N  blocks of 64 << N bytes per credit, 0 to 6 (2)\n"
	      "      --hoq-scale N     stretch HOQLife by N, 0: never discard (1)\n"
	      "      --spin-us N       poll N us before sleeping (0)\n"
	      "      --stats           print all counters at the end\n"
	      "  -q, --quiet           do not report links that come and go\n"
	      "  -h, --help            this text\n"
	      "  -V, --version         version of the link protocol\n\n"
	      "Prints one line when ready. SIGUSR1 prints counters to stderr, SIGTERM and\n"
	      "SIGINT end it.\n", f);
}

static void log_event(void *arg, const char *fmt, va_list ap)
{
	(void)arg;
	fputs("ohca-switch: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

__attribute__((format(printf, 1, 2), noreturn)) static void die_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_event(NULL, fmt, ap);
	va_end(ap);
	fputs("Try 'ohca-switch --help'.\n", stderr);
	exit(EXIT_USAGE);
}

static unsigned long number(const char *opt, const char *s, unsigned long lo, unsigned long hi)
{
	unsigned long v;
	char *end;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || *end || end == s || *s == '-' || v < lo || v > hi)
		die_usage("%s: '%s' is not a number from %lu to %lu", opt, s, lo, hi);
	return v;
}

static uint64_t guid(const char *opt, const char *s)
{
	uint64_t v;
	char *end;

	errno = 0;
	v = strtoull(s, &end, 16);
	if (errno || *end || end == s || *s == '-' || !v)
		die_usage("%s: '%s' is not a GUID of up to 16 hex digits", opt, s);
	return v;
}

static void set_speed(struct sw_cfg *cfg, const char *s)
{
	static const char * const names[] = { "sdr", "ddr", "qdr", "fdr", "edr", "hdr", "ndr" };
	unsigned int i;

	for (i = 0; i < 7 && strcmp(s, names[i]); i++)
		;
	if (i == 7)
		die_usage("--speed: '%s' is none of sdr, ddr, qdr, fdr, edr, hdr, ndr", s);
	/* All slower speeds are supported, too. */
	cfg->speed = (uint8_t)((2u << (i < 3 ? i : 2)) - 1);
	cfg->speed_ext = (uint8_t)(i < 3 ? 0 : (2u << (i - 3)) - 1);
}

static void set_width(struct sw_cfg *cfg, const char *s)
{
	static const char * const names[] = { "1x", "4x", "8x", "12x" };
	unsigned int i;

	for (i = 0; i < 4 && strcmp(s, names[i]); i++)
		;
	if (i == 4)
		die_usage("--width: '%s' is none of 1x, 4x, 8x, 12x", s);
	cfg->width = (uint8_t)((2u << i) - 1);
}

/* The GUID is a hash of the path: different for each socket, and the same at each start. */
static uint64_t guid_of_path(const char *path)
{
	uint64_t h = 14695981039346656037ull;

	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * 1099511628211ull;
	return 0x001234f000000000ull | (h >> 32 ^ (h & 0xffffffff));
}

struct sched_attr_v0 {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime;
	uint64_t deadline;
	uint64_t period;
};

/*
 * A short slice: when a frame wakes the switch while virtual CPUs spin on every core, the
 * kernel runs it within microseconds instead of at the end of their slice. Older
 * kernels ignore or refuse it.
 */
static void short_slice(void)
{
	struct sched_attr_v0 a = { .size = sizeof(a), .runtime = 100000 };

	if (syscall(SYS_sched_setattr, 0, &a, 0)) {
		/* Without it wake-ups take longer. */
	}
}

struct uplink_arg {
	char path[256];
	unsigned int port;
};

/* The command line. */
struct options {
	struct sw_cfg cfg;
	const char *path;
	struct uplink_arg uplink[SW_MAX_PORTS];
	unsigned int nuplinks;
	unsigned int spin_us;
	bool stats;
};

static void parse_uplink(struct uplink_arg *u, const char *arg)
{
	const char *comma = strrchr(arg, ',');
	size_t len = comma ? (size_t)(comma - arg) : strlen(arg);

	if (!len || len >= sizeof(u->path))
		die_usage("--uplink: '%s' is not PATH or PATH,PORT", arg);
	memcpy(u->path, arg, len);
	u->path[len] = 0;
	u->port = comma ? (unsigned int)number("--uplink", comma + 1, 1, SW_MAX_PORTS) : 0;
}

static bool on_signal(void *arg, int fd)
{
	struct signalfd_siginfo si;

	if (read(fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return true;
	if (si.ssi_signo != SIGUSR1)
		return false;
	sw_print_stats(arg, stderr);
	return true;
}

enum { O_SHIFT = 256, O_HOQ, O_SPIN, O_STATS };

static const struct option long_options[] = {
	{ "listen", required_argument, NULL, 'l' },
	{ "uplink", required_argument, NULL, 'u' },
	{ "ports", required_argument, NULL, 'p' },
	{ "guid", required_argument, NULL, 'g' },
	{ "sys-guid", required_argument, NULL, 'G' },
	{ "desc", required_argument, NULL, 'd' },
	{ "speed", required_argument, NULL, 's' },
	{ "width", required_argument, NULL, 'w' },
	{ "mtu", required_argument, NULL, 'm' },
	{ "vls", required_argument, NULL, 'v' },
	{ "credit-shift", required_argument, NULL, O_SHIFT },
	{ "hoq-scale", required_argument, NULL, O_HOQ },
	{ "spin-us", required_argument, NULL, O_SPIN },
	{ "stats", no_argument, NULL, O_STATS },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

static void set_desc(struct sw_cfg *cfg, const char *s)
{
	if (strlen(s) > sizeof(cfg->desc))
		die_usage("--desc: longer than 64 characters");
	memset(cfg->desc, 0, sizeof(cfg->desc));
	memcpy(cfg->desc, s, strlen(s));
}

static void set_mtu(struct sw_cfg *cfg, const char *s)
{
	unsigned long mtu = number("--mtu", s, 256, 4096);

	cfg->mtu_cap = ib_mtu_code((uint32_t)mtu);
	if (ib_mtu_bytes(cfg->mtu_cap) != mtu)
		die_usage("--mtu: '%s' is none of 256, 512, 1024, 2048, 4096", s);
}

static void set_vls(struct sw_cfg *cfg, const char *s)
{
	cfg->vls = (uint8_t)number("--vls", s, 1, 15);
	if (cfg->vls != 15 && (cfg->vls & (cfg->vls - 1)))
		die_usage("--vls: '%s' is none of 1, 2, 4, 8, 15", s);
}

static void add_uplink(struct options *o, const char *s)
{
	if (o->nuplinks == SW_MAX_PORTS)
		die_usage("--uplink: more than %u", SW_MAX_PORTS);
	parse_uplink(&o->uplink[o->nuplinks++], s);
}

/* One option of the command line that getopt_long() returned as @c. */
static void set_option(struct options *o, int c, const char *arg)
{
	struct sw_cfg *cfg = &o->cfg;

	switch (c) {
	case 'l':
		o->path = arg;
		break;
	case 'u':
		add_uplink(o, arg);
		break;
	case 'p':
		cfg->nports = (unsigned int)number("--ports", arg, 1, SW_MAX_PORTS);
		break;
	case 'g':
		cfg->node_guid = guid("--guid", arg);
		break;
	case 'G':
		cfg->sys_guid = guid("--sys-guid", arg);
		break;
	case 'd':
		set_desc(cfg, arg);
		break;
	case 's':
		set_speed(cfg, arg);
		break;
	case 'w':
		set_width(cfg, arg);
		break;
	case 'm':
		set_mtu(cfg, arg);
		break;
	case 'v':
		set_vls(cfg, arg);
		break;
	case O_SHIFT:
		cfg->shift = (uint8_t)number("--credit-shift", arg, 0, OHCA_LINK_SHIFT_MAX);
		break;
	case O_HOQ:
		cfg->hoq_scale = (unsigned int)number("--hoq-scale", arg, 0, 1000000);
		break;
	case O_SPIN:
		o->spin_us = (unsigned int)number("--spin-us", arg, 0, 1000000);
		break;
	case O_STATS:
		o->stats = true;
		break;
	case 'q':
		cfg->log = NULL;
		break;
	case 'h':
		usage(stdout);
		exit(0);
	case 'V':
		printf("ohca-switch, link protocol %u\n", OHCA_LINK_VERSION);
		exit(0);
	default:
		fputs("Try 'ohca-switch --help'.\n", stderr);
		exit(EXIT_USAGE);
	}
}

static void parse_options(struct options *o, int argc, char **argv)
{
	struct sw_cfg *cfg = &o->cfg;
	int c;

	sw_cfg_init(cfg);
	cfg->log = log_event;
	while ((c = getopt_long(argc, argv, "l:u:p:g:G:d:s:w:m:v:qhV", long_options, NULL)) != -1)
		set_option(o, c, optarg);
	if (optind < argc)
		die_usage("unexpected argument '%s'", argv[optind]);
	if (!o->path)
		die_usage("--listen PATH is missing");
	if (o->nuplinks > cfg->nports)
		die_usage("--uplink: more of them than ports");
	if (!cfg->node_guid)
		cfg->node_guid = guid_of_path(o->path);
	if (!cfg->sys_guid)
		cfg->sys_guid = cfg->node_guid;
}

/* Return: a descriptor of the signals of on_signal(); -1: errno is set. */
static int open_signals(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
	static struct options o;
	struct ohca_link_err err;
	struct sw_loop *lp;
	struct sw *sw;
	int r, sigfd;

	parse_options(&o, argc, argv);
	sigfd = open_signals();
	sw = sw_new(&o.cfg);
	if (!sw || sigfd < 0) {
		fprintf(stderr, "ohca-switch: starting: %s\n", strerror(errno));
		return 1;
	}
	lp = sw_loop_new(sw, o.path, o.spin_us, &err);
	if (!lp) {
		fprintf(stderr, "ohca-switch: %s\n", err.text);
		sw_free(sw);
		return 1;
	}
	for (unsigned int i = 0; i < o.nuplinks; i++)
		sw_loop_uplink(lp, o.uplink[i].path, o.uplink[i].port);
	short_slice();
	printf("ohca-switch: ready, %u ports, GUID 0x%016" PRIx64 ", listening on %s\n",
	       o.cfg.nports, o.cfg.node_guid, o.path);
	fflush(stdout);

	r = sw_loop_run(lp, sigfd, on_signal, sw);
	if (r)
		fprintf(stderr, "ohca-switch: epoll: %s\n", strerror(errno));
	if (o.stats)
		sw_print_stats(sw, stderr);
	sw_loop_free(lp);
	sw_free(sw);
	close(sigfd);
	return r ? 1 : 0;
}
