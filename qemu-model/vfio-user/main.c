// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-vfio-user: an OpenHCA card for a virtual machine monitor that speaks vfio-user. */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "front/hello.h"
#include "front/slice.h"
#include "link/link.h"
#include "vfio-user/say.h"
#include "vfio-user/serve.h"

#define EXIT_USAGE	2
#define UARS_MAX	1024u

static const char usage_text[] =
	"Usage: ohca-vfio-user --fabric PATH --socket PATH [OPTION...]\n"
	"An OpenHCA card for one machine of an unchanged QEMU, 10.1 or later, or of another VMM with a\n"
	"client of vfio-user. The ohca-fabric that listens at --fabric runs its HCA. The program serves one\n"
	"VMM after the other, until a signal. The HCA is in the fabric while a VMM is connected.\n\n"
	"  -f, --fabric PATH         socket of the fabric: --listen of ohca-fabric serve\n"
	"  -s, --socket PATH         socket for the VMM; with QEMU: -device\n"
	"                            '{\"driver\": \"vfio-user-pci\", \"socket\": {\"type\": \"unix\", \"path\": \"PATH\"}}'\n"
	"      --node-desc TEXT      NodeDescription: selects a host of the fabric (OpenHCA)\n"
	"      --guid GUID           NodeGUID (a random one)\n"
	"      --ports N             1 or 2 (1)\n"
	"      --fabric-port N       port of the first switch for the first port (any)\n"
	"      --speed NAME          highest speed: " OHCA_HELLO_SPEEDS " (edr)\n"
	"      --width NAME          greatest width: " OHCA_HELLO_WIDTHS " (4x)\n"
	"      --uars N              doorbell pages of 64 KiB, a power of two from 2 to 1024 (1024)\n"
	"      --help                this text\n"
	"      --version             the version of the front protocol\n\n"
	"This is experimental. Each doorbell is a message, so latency is several times that of -device ohca\n"
	"of our QEMU. Guest memory must be shared (memory-backend-memfd,share=on): other memory is refused.\n"
	"There is no device memory. Do not migrate the machine: vfio-user does not report a migration to the\n"
	"card. Do not use a vIOMMU: it makes more mappings than the 1024 that the card supports. A machine\n"
	"that is stopped still receives. Without KVM, QEMU does not detect what the card writes: a guest\n"
	"must not execute code that RDMA has written over code.\n";

static int usage_error(const char *what)
{
	vu_say("%s; see ohca-vfio-user --help", what);
	return EXIT_USAGE;
}

/* Parse a number from @least to @most. Return: false: not valid. */
static bool number(const char *s, unsigned long long least, unsigned long long most,
		   unsigned long long *v)
{
	char *end;

	errno = 0;
	*v = strtoull(s, &end, 0);
	return *s >= '0' && *s <= '9' && !*end && !errno && *v >= least && *v <= most;
}

enum { O_DESC = 256, O_GUID, O_PORTS, O_FABRIC_PORT, O_SPEED, O_WIDTH, O_UARS, O_VERSION, O_HELP };

/* Return: the error, or NULL. */
static const char *set_option(struct vu_cfg *cfg, const char **socket_path, int c, const char *arg)
{
	struct ohca_front_hello *m = &cfg->hello;
	unsigned long long v;

	switch (c) {
	case 'f':
		cfg->fabric = arg;
		return NULL;
	case 's':
		*socket_path = arg;
		return NULL;
	case O_DESC:
		memset(m->desc, 0, sizeof(m->desc));
		memcpy(m->desc, arg, strnlen(arg, sizeof(m->desc)));
		return strlen(arg) < sizeof(m->desc) ? NULL : "--node-desc must have at most 63 bytes";
	case O_GUID:
		if (!number(arg, 1, UINT64_MAX - 2, &v))
			return "--guid must be a number such as 0x0600ca0000000010";
		m->node_guid = htole64(v);
		return NULL;
	case O_PORTS:
		if (!number(arg, 1, 2, &v))
			return "--ports must be 1 or 2";
		m->ports = (uint8_t)v;
		return NULL;
	case O_FABRIC_PORT:
		if (!number(arg, 0, 254, &v))
			return "--fabric-port must be a number from 0 to 254";
		m->want_port = (uint8_t)v;
		return NULL;
	case O_SPEED:
		return ohca_hello_speed(m, arg) ? NULL : "--speed must be one of " OHCA_HELLO_SPEEDS;
	case O_WIDTH:
		return ohca_hello_width(m, arg) ? NULL : "--width must be one of " OHCA_HELLO_WIDTHS;
	case O_UARS:
		if (!number(arg, 2, UARS_MAX, &v) || v & (v - 1))
			return "--uars must be a power of two from 2 to 1024";
		cfg->uars = (unsigned int)v;
		return NULL;
	default:
		return "an option is unknown, or its value is missing";
	}
}

/*
 * The default card: that of -device ohca, without device memory. Return: false: there is no GUID
 * for it.
 */
static bool card_default(struct vu_cfg *cfg)
{
	struct ohca_front_hello *m = &cfg->hello;
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
		vu_say("no random number for a GUID: %s", strerror(errno));
		return false;
	}
	*cfg = (struct vu_cfg){
		.uars = UARS_MAX,
		.hello = {
			.node_guid = htole64(ohca_hello_guid(random)),
			.mem_max = htole64(1ull << 30),
			.vectors = htole16(VU_VECTORS),
			.ports = 1,
			.vl_cap = 8,
			.mtu_cap = 5,
			.log_max_qp = 16,
			.log_max_cq = 16,
			.log_max_srq = 16,
			.log_max_mr = 20,
			.desc = "OpenHCA",
			.id = "vfio-user",
		},
	};
	ohca_hello_speed(m, "edr");
	ohca_hello_width(m, "4x");
	return true;
}

/* A descriptor that is readable when the process must end; -1: there is none. */
static int stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -1;
	/* continue when no process reads the output any longer */
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(const struct vu_cfg *cfg, const char *path)
{
	struct ohca_link_err err;
	int listener, stop = stop_signals();
	bool ok;

	if (stop < 0) {
		vu_say("signals: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	/* any process that can connect controls the card: only the same user may */
	umask(077);
	listener = ohca_link_listen_stream(path, &err);
	if (listener < 0) {
		vu_say("--socket: %s", err.text);
		return EXIT_FAILURE;
	}
	/* otherwise doorbells and interrupts take longer while virtual CPUs spin */
	ohca_short_slice();
	puts("ohca-vfio-user: ready");
	fflush(stdout);
	ok = vu_serve(cfg, listener, stop);
	unlink(path);
	close(listener);
	close(stop);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "fabric", required_argument, NULL, 'f' },
		{ "socket", required_argument, NULL, 's' },
		{ "node-desc", required_argument, NULL, O_DESC },
		{ "guid", required_argument, NULL, O_GUID },
		{ "ports", required_argument, NULL, O_PORTS },
		{ "fabric-port", required_argument, NULL, O_FABRIC_PORT },
		{ "speed", required_argument, NULL, O_SPEED },
		{ "width", required_argument, NULL, O_WIDTH },
		{ "uars", required_argument, NULL, O_UARS },
		{ "version", no_argument, NULL, O_VERSION },
		{ "help", no_argument, NULL, O_HELP },
		{ 0 },
	};
	const char *path = NULL, *wrong;
	struct vu_cfg cfg;
	int c;

	if (!card_default(&cfg))
		return EXIT_FAILURE;
	while ((c = getopt_long(argc, argv, "f:s:", options, NULL)) != -1) {
		if (c == O_HELP) {
			fputs(usage_text, stdout);
			return EXIT_SUCCESS;
		}
		if (c == O_VERSION) {
			printf("ohca-vfio-user, front protocol %u\n", OHCA_FRONT_VERSION);
			return EXIT_SUCCESS;
		}
		wrong = set_option(&cfg, &path, c, optarg);
		if (wrong)
			return usage_error(wrong);
	}
	if (optind < argc || !cfg.fabric || !path)
		return usage_error("give --fabric, --socket and only options");
	cfg.hello.uars = htole16((uint16_t)cfg.uars);
	return run(&cfg, path);
}
