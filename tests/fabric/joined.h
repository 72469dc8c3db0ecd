/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Daemons that wires of TCP join to one fabric, each a process with its own switch, and end ports
 * at them. The first daemon listens; ports 4 and 3 of its switch lead to port 1 of the others. The
 * manager is the end port at port 1 of the first switch.
 */
#ifndef JOINED_H
#define JOINED_H

#include "ep.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SITES	3u
#define EPS	4u

/**
 * struct site - a daemon; @wire: port of the first switch that leads to it, 0: the first daemon
 * itself
 */
struct site {
	pid_t pid;
	uint8_t wire;
};

static struct site site[SITES] = { { .wire = 0 }, { .wire = 4 }, { .wire = 3 } };
static struct ep ep[EPS];
/* the site of each end port, and its port of that switch */
static const struct { unsigned int site; uint8_t port; } at[EPS] = {
	{ 0, 1 }, { 0, 2 }, { 1, 2 }, { 2, 2 },
};
static char dir[] = "/tmp/ohca-joined-XXXXXX", listener[64];
static const char *program, *token = "0123456789abcdef";

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("FAIL: ", stdout);
	vprintf(fmt, ap);
	puts("");
	va_end(ap);
	exit(1);
}

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static inline const char *in_dir(const char *name, unsigned int i)
{
	static char path[4][64];
	static unsigned int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s%u", dir, name, i);
	return path[turn];
}

/*
 * Finds the line of standard output that begins with @what, and stores the rest. Return: false if
 * there is none.
 */
static inline bool said(unsigned int i, const char *what, char *rest, size_t size)
{
	FILE *f = fopen(in_dir("out", i), "r");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		found = !strncmp(line, what, strlen(what)) && strchr(line, '\n');
		if (found && rest)
			snprintf(rest, size, "%.*s", (int)strcspn(line + strlen(what), "\n"),
				 line + strlen(what));
	}
	if (f)
		fclose(f);
	return found;
}

/* Starts daemon @i. */
static inline void serve(unsigned int i)
{
	char number[8], wire[160], path[64];
	FILE *f = fopen(in_dir("token", i), "w");

	if (!f || fputs(token, f) < 0 || fclose(f))
		die("no token");
	unlink(in_dir("out", i));
	snprintf(number, sizeof(number), "%u", i + 1);
	snprintf(wire, sizeof(wire), "switch1:1=%s/switch1:%u", listener, site[i].wire);
	site[i].pid = fork();
	if (!site[i].pid) {
		const char *args[24] = { program, "serve", "--generate", "star:4", "--site", number,
					 "--listen", in_dir("s", i), "--token", in_dir("token", i),
					 "--hosts-off", "--hoq-scale", "0", "--quiet", "--wire",
					 i ? wire : "switch1:4" };
		static const char * const first[] = { "--wire", "switch1:3", "--listen-tcp" };

		for (unsigned int k = 0; !i && k < 3; k++)
			args[16 + k] = first[k];
		if (!i)
			args[19] = listener;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!freopen(in_dir("out", i), "w", stdout))
			_exit(127);
		execv(program, (char **)(uintptr_t)args);
		_exit(127);
	}
	for (double end = seconds() + 30; !said(i, "ohca-fabric: ready", NULL, 0); usleep(2000))
		if (seconds() > end || waitpid(site[i].pid, NULL, WNOHANG))
			die("daemon %u does not begin", i);
	if (!i && said(i, "ohca-fabric: listens at tcp:", path, sizeof(path)))
		strcpy(listener, path);
}

static inline void end(unsigned int i, int signal)
{
	kill(site[i].pid, signal);
	waitpid(site[i].pid, NULL, 0);
}

static inline void stop(unsigned int i)
{
	int status;

	kill(site[i].pid, SIGSTOP);
	if (waitpid(site[i].pid, &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
		die("daemon %u does not stop", i);
}

/* Connects end port @k to its daemon. */
static inline void come(unsigned int k)
{
	const struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	ohca_link_free(ep[k].l);
	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x100 + k;
	cfg.want_port = at[k].port;
	ep[k].l = ohca_link_connect(in_dir("s", at[k].site), &cfg, 30000, &err);
	if (!ep[k].l)
		die("end port %u: %s", k, err.text);
	ep[k].port = at[k].port;
	ohca_link_train(ep[k].l, &phy);
	if (simple_up(ep[k].l, 30000))
		die("end port %u has no link", k);
}

/* LIDs of the switch of daemon @i, and of end port @k. */
static inline uint16_t lid_of_switch(unsigned int i)
{
	return (uint16_t)(1 + i);
}

static inline uint16_t lid_of(unsigned int k)
{
	return (uint16_t)(10 + k);
}

/* Get or Set at the switch of daemon @i, from end port 0. Return: status, -1 without an answer. */
static inline int query(unsigned int i, uint8_t method, uint16_t attr, uint32_t mod, uint8_t data[64])
{
	const uint8_t path[2] = { 1, site[i].wire };
	struct ib_smp smp;
	int status = -1;

	for (unsigned int n = 0; status < 0 && n < 100; n++) {
		ep_smp_init(&ep[0], &smp, method, attr, mod, data, i ? 2 : 1, path);
		for (unsigned int k = 0; k < 1 + (i ? 1 : 0); k++)
			smp.init_path[1 + k] = path[k];
		if (!ep_send_smp(&ep[0], &smp, 0))
			continue;
		for (unsigned int k = 0; status < 0 && k < 200; k++) {
			struct ib_smp in;

			while (ep_recv_smp(&ep[0], &in))
				if (ib_be64(in.hdr.tid) == ib_be64(smp.hdr.tid) &&
				    in.hdr.method == IB_METHOD_GET_RESP) {
					memcpy(data, in.data, 64);
					status = ib_be16(in.hdr.status) & 0x7fff;
				}
			usleep(status < 0 ? 500 : 0);
		}
	}
	return status;
}

/* Sets PortState of port @num of a switch. */
static inline unsigned int port_state(unsigned int i, unsigned int num)
{
	uint8_t d[64] = { 0 };
	struct ib_port_info pi;

	if (query(i, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, num, d))
		die("no PortInfo of switch %u", i);
	ib_port_info_unpack(d, &pi);
	return pi.state;
}

static inline void wait_state(unsigned int i, unsigned int num, unsigned int least, unsigned int most)
{
	const double limit = seconds() + 30;

	for (;;) {
		const unsigned int state = port_state(i, num);

		if (state >= least && state <= most)
			return;
		if (seconds() > limit)
			die("port %u of switch %u is in state %u, not %u to %u", num, i, state, least,
			    most);
		usleep(2000);
	}
}

static inline void activate_port(unsigned int i, unsigned int num)
{
	struct ib_port_info pi;
	uint8_t d[64] = { 0 };

	wait_state(i, num, IB_PS_INIT, IB_PS_ACTIVE);
	for (uint8_t s = IB_PS_ARMED; s <= IB_PS_ACTIVE; s++) {
		query(i, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, num, d);
		ib_port_info_unpack(d, &pi);
		if (pi.state >= s)
			continue;
		pi.state = s;
		pi.phys_state = 0;
		ib_port_info_pack(&pi, d);
		if (query(i, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, num, d))
			die("port %u of switch %u does not become Active", num, i);
	}
}

/*
 * Sets up the forwarding table and ports of the switch of daemon @i, and the port of the first that
 * leads there.
 */
static inline void bring_up(unsigned int i)
{
	struct ib_switch_info si;
	uint8_t d[64] = { 0 };

	if (i)
		wait_state(0, site[i].wire, IB_PS_INIT, IB_PS_ACTIVE);
	if (query(i, IB_METHOD_GET, IB_SMP_ATTR_SWITCH_INFO, 0, d))
		die("no SwitchInfo of switch %u", i);
	ib_switch_info_unpack(d, &si);
	si.linear_top = 63;
	si.port_state_change = 1;
	ib_switch_info_pack(&si, d);
	query(i, IB_METHOD_SET, IB_SMP_ATTR_SWITCH_INFO, 0, d);
	memset(d, IB_LFT_NO_PORT, sizeof(d));
	d[lid_of_switch(i)] = 0;
	for (unsigned int k = 0; k < EPS; k++) {
		if (at[k].site == i)
			d[lid_of(k)] = at[k].port;
		else
			d[lid_of(k)] = i ? 1 : site[at[k].site].wire;
	}
	if (query(i, IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, d))
		die("no forwarding table of switch %u", i);
	if (i)
		activate_port(0, site[i].wire);
	for (unsigned int k = 0; k < EPS; k++)
		if (at[k].site == i)
			activate_port(i, at[k].port);
	if (i)
		activate_port(i, 1);
}

/* Starts all daemons and end ports, and makes all links Active. */
static inline void join_all(const char *fabric)
{
	program = fabric;
	strcpy(listener, "127.0.0.1:0");
	if (!mkdtemp(dir))
		die("no directory");
	for (unsigned int i = 0; i < SITES; i++)
		serve(i);
	for (unsigned int k = 0; k < EPS; k++) {
		come(k);
		ep[k].lid = lid_of(k);
	}
	for (unsigned int i = 0; i < SITES; i++)
		bring_up(i);
}

static inline void part_all(void)
{
	for (unsigned int i = 0; i < SITES; i++) {
		kill(site[i].pid, SIGTERM);
		waitpid(site[i].pid, NULL, 0);
		unlink(in_dir("out", i));
		unlink(in_dir("token", i));
		unlink(in_dir("s", i));
	}
	for (unsigned int k = 0; k < EPS; k++)
		ohca_link_free(ep[k].l);
	rmdir(dir);
}

#endif
