// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many hosts that ask the subnet administration for paths: clients LIBRARY PATHS SECONDS <HOSTS
 *
 * HOSTS has a line for each client with the NodeGUID of its host (16 digits) and the LID. Each
 * client is a process with LIBRARY, ibsim's libumad2sim.so, preloaded. When all clients are
 * attached, the program prints one line. Then each client asks for PATHS paths to the hosts that
 * follow its own in HOSTS, again from the first one after the last. It asks the subnet manager that
 * its port names. Each request is counted as one of: answered, with the path; wrong, with another
 * path; refused, with a status; undelivered, if the fabric reports so or no subnet manager is
 * known; silent, if nothing has arrived after SECONDS. A client repeats a request that is refused
 * or undelivered up to 300 times, with 100 ms in between. The program prints a line when half of
 * the clients have asked for half of their paths. The last line has the sums. The status is 0 if no
 * request was silent or wrong, and each path was answered.
 */
#include <fcntl.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_CLIENTS	1000u
#define MAD_LEN		256
#define SA_DATA		56		/* offset of the record in a MAD */
#define PATH_DLID	(SA_DATA + 40)
#define PATH_SLID	(SA_DATA + 42)
#define ATTR_PORT_INFO	0x15
#define ATTR_PATH	0x35
#define CLASS_DR	0x81
#define CLASS_SA	3
#define QP1_QKEY	0x80010000
#define GATE		3		/* descriptor that is closed when all clients may begin */

#define ATTEMPTS	300u
#define PAUSE_MS	100

enum message { ATTACHED, HALF, DONE };

/* Results of a client's requests; one write to a pipe. */
struct count {
	enum message what;
	uint32_t answered, refused, undelivered, silent, wrong, longest_ms;
};

struct port {
	int fd, smp_agent, sa_agent;
	uint32_t tid;
	void *umad;
};

static void put16(uint8_t *at, unsigned int v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static unsigned int get16(const uint8_t *at)
{
	return (unsigned int)at[0] << 8 | at[1];
}

static uint8_t *begin(struct port *p, uint8_t mgmt_class, uint8_t version, uint8_t attr)
{
	uint8_t *mad;

	memset(p->umad, 0, umad_size() + MAD_LEN);
	mad = umad_get_mad(p->umad);
	mad[0] = 1;
	mad[1] = mgmt_class;
	mad[2] = version;
	mad[3] = 1;			/* Get */
	p->tid++;
	put16(mad + 12, p->tid >> 16);
	put16(mad + 14, p->tid);
	mad[17] = attr;
	return mad;
}

/* Sends the MAD and waits for its end. Return: 0: an answer, 1: undelivered, 2: silence. */
static int ask(struct port *p, int agent, int ms)
{
	uint8_t *mad = umad_get_mad(p->umad);
	int len = MAD_LEN;

	if (umad_send(p->fd, agent, p->umad, MAD_LEN, ms, 0) < 0)
		return 1;
	for (;;) {
		if (umad_recv(p->fd, p->umad, &len, ms) < 0)
			return 2;
		/* an answer after its request was reported as undelivered has no reader */
		if ((get16(mad + 12) << 16 | get16(mad + 14)) == p->tid)
			return umad_status(p->umad) ? 1 : 0;
	}
}

/* Return: MasterSMLID of this port; 0 if there is none. */
static unsigned int sm_lid(struct port *p, int ms)
{
	uint8_t *mad = begin(p, CLASS_DR, 1, ATTR_PORT_INFO);

	memset(mad + 32, 0xff, 4);
	umad_set_addr(p->umad, 0xffff, 0, 0, 0);
	if (ask(p, p->smp_agent, ms))
		return 0;
	return get16(mad + 64 + 18);
}

/* Return: whether the answer says that there is no path now. */
static bool ask_path(struct port *p, unsigned int from, unsigned int to, int ms, struct count *n)
{
	const unsigned int lid = sm_lid(p, ms);
	uint8_t *mad = begin(p, CLASS_SA, 2, ATTR_PATH);

	mad[55] = 1 << 4 | 1 << 5;	/* ComponentMask: DLID, SLID */
	put16(mad + PATH_DLID, to);
	put16(mad + PATH_SLID, from);
	umad_set_addr(p->umad, (int)lid, 1, 0, QP1_QKEY);
	switch (lid ? ask(p, p->sa_agent, ms) : 1) {
	case 0:
		if (get16(mad + 4) & 0x7fff)
			n->refused++;
		else if (get16(mad + PATH_DLID) == to && get16(mad + PATH_SLID) == from)
			n->answered++;
		else
			n->wrong++;
		return get16(mad + 4) & 0x7fff;
	case 1:
		n->undelivered++;
		return true;
	default:
		n->silent++;
		return false;
	}
}

static uint32_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint32_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* A client with the arguments FROM PATHS SECONDS, and the LIDs in the environment. */
static int client(char **argv)
{
	const unsigned int from = (unsigned int)atoi(argv[0]);
	const unsigned int paths = (unsigned int)atoi(argv[1]);
	const int ms = atoi(argv[2]) * 1000;
	char *lids = getenv("CLIENT_LIDS"), *next = lids, byte = 0;
	struct count n = { 0 };
	struct port p = { .tid = from << 12 };

	p.fd = umad_open_port(NULL, 1);
	p.umad = calloc(1, umad_size() + MAD_LEN);
	if (p.fd < 0 || !p.umad || !lids)
		return 2;
	p.smp_agent = umad_register(p.fd, CLASS_DR, 1, 0, NULL);
	p.sa_agent = umad_register(p.fd, CLASS_SA, 2, 0, NULL);
	if (write(1, &n, sizeof(n)) != sizeof(n) || read(GATE, &byte, 1))
		return 2;
	for (unsigned int i = 0; i < paths; i++) {
		unsigned int to = (unsigned int)strtoul(next, &next, 10);

		if (!to)
			to = (unsigned int)strtoul(lids, &next, 10);

		for (unsigned int k = 0; k < ATTEMPTS; k++) {
			const uint32_t began = now_ms();
			const bool told = ask_path(&p, from, to, ms, &n);

			if (now_ms() - began > n.longest_ms)
				n.longest_ms = now_ms() - began;
			if (!told)
				break;
			poll(NULL, 0, PAUSE_MS);
		}
		n.what = HALF;
		if (i == paths / 2 && write(1, &n, sizeof(n)) != sizeof(n))
			return 2;
	}
	n.what = DONE;
	return write(1, &n, sizeof(n)) != sizeof(n);
}

static pid_t start(const char *library, const char *guid, char **argv, int out, int gate)
{
	char host[32];
	const pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(host, sizeof(host), "H-%s", guid);
	setenv("SIM_HOST", host, 1);
	setenv("LD_PRELOAD", library, 1);
	dup2(gate, GATE);
	dup2(out, 1);
	execv("/proc/self/exe", argv);
	_exit(2);
}

/* Receives a client's message. Return: false if there is none within @ms. */
static bool next_count(int fd, struct count *n, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && read(fd, n, sizeof(*n)) == sizeof(*n);
}

int main(int argc, char **argv)
{
	static char guid[MAX_CLIENTS][17], lids[8 * MAX_CLIENTS];
	static unsigned int lid[MAX_CLIENTS];
	struct count sum = { 0 }, n;
	unsigned int count = 0, half = 0, i;
	int out[2], gate[2], ms;

	if (argc == 5 && !strcmp(argv[1], "client"))
		return client(argv + 2);
	if (argc != 4 || pipe2(out, O_CLOEXEC) || pipe2(gate, O_CLOEXEC))
		return 2;
	ms = atoi(argv[3]) * 1000;
	while (count < MAX_CLIENTS && scanf("%16s %u", guid[count], &lid[count]) == 2)
		count++;
	for (i = 0; i < count; i++) {
		char from[12];
		char *args[] = { argv[0], "client", from, argv[2], argv[3], NULL };
		int len = 0;

		for (unsigned int k = 1; k < count; k++)
			len += snprintf(lids + len, sizeof(lids) - (size_t)len, "%u ",
					lid[(i + k) % count]);
		setenv("CLIENT_LIDS", lids, 1);
		snprintf(from, sizeof(from), "%u", lid[i]);
		if (start(argv[1], guid[i], args, out[1], gate[0]) < 0)
			return 2;
	}
	/* the first message of each client reports that it is attached */
	for (i = 0; i < count && next_count(out[0], &n, 60000); i++)
		;
	printf("%u clients attached\n", i);
	fflush(stdout);
	if (i < count) {
		signal(SIGTERM, SIG_IGN);
		kill(0, SIGTERM);
		return 1;
	}
	close(gate[0]);
	close(gate[1]);
	for (i = 0; i < count && next_count(out[0], &n, 100 * ms);) {
		if (n.what == HALF) {
			if (++half == count / 2) {
				printf("half\n");
				fflush(stdout);
			}
			continue;
		}
		i++;
		sum.answered += n.answered;
		sum.refused += n.refused;
		sum.undelivered += n.undelivered;
		sum.silent += n.silent;
		sum.wrong += n.wrong;
		if (n.longest_ms > sum.longest_ms)
			sum.longest_ms = n.longest_ms;
	}
	while (wait(NULL) > 0)
		;
	printf("%u clients: %u answered, %u refused, %u undelivered, %u silent, %u wrong, "
	       "longest %u ms\n", i, sum.answered, sum.refused, sum.undelivered, sum.silent,
	       sum.wrong, sum.longest_ms);
	return i != count || sum.silent || sum.wrong ||
	       sum.answered != count * (unsigned int)atoi(argv[2]);
}
