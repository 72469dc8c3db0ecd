// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Three daemons that are joined by TCP wires. Packets that end ports send over a wire arrive
 * unchanged and in order, also while a daemon at one end is stopped; another wire continues
 * meanwhile. A wire whose daemon is killed goes down, and comes up again when the daemon restarts.
 *
 * test_remote FABRIC [SECONDS] time for which a daemon is stopped (0.3)
 */
#include "joined.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define HDR	(IB_LRH_LEN + IB_BTH_LEN)
#define LANES	2u

/* Numbers of packets sent from end port @from to @to, and received. */
struct flow {
	unsigned int from, to;
	uint32_t sent[LANES], got[LANES];
};

static uint32_t length_of(uint32_t seq)
{
	return HDR + 4 * (2 + seq * 7919 % 1000) + IB_ICRC_LEN;
}

static uint8_t filling(uint32_t seq, uint32_t i)
{
	return (uint8_t)(seq * 13 + i * 7);
}

static bool put(struct flow *f, unsigned int vl)
{
	const uint32_t seq = f->sent[vl], len = length_of(seq);
	uint8_t *p = ohca_link_tx_begin(ep[f->from].l, vl, len);

	if (!p)
		return false;
	p = ib_build_lrh(p, (uint8_t)vl, (uint8_t)vl, IB_LNH_IBA_LOCAL, lid_of(f->to),
			 (uint16_t)(len / 4), lid_of(f->from));
	p = ib_build_bth(p, IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 5, false, 0);
	memcpy(p, &seq, sizeof(seq));
	for (uint32_t i = sizeof(seq); i < len - HDR; i++)
		p[i] = filling(seq, i);
	ohca_link_tx_commit(ep[f->from].l, vl, len, 0);
	f->sent[vl]++;
	return true;
}

/* Return: whether there was a packet. */
static bool get(struct flow *f, unsigned int vl)
{
	struct ohca_link_frame in;
	uint32_t seq;

	if (!ohca_link_rx_peek(ep[f->to].l, vl, &in))
		return false;
	if (in.len < HDR + sizeof(seq))
		die("a packet of %u bytes", in.len);
	memcpy(&seq, in.data + HDR, sizeof(seq));
	if (seq != f->got[vl] || in.len != length_of(seq))
		die("%u to %u, VL %u: packet %u of %u bytes instead of %u", f->from, f->to, vl, seq,
		    in.len, f->got[vl]);
	for (uint32_t i = sizeof(seq); i < in.len - HDR - IB_ICRC_LEN; i++)
		if (in.data[HDR + i] != filling(seq, i))
			die("%u to %u, VL %u: packet %u is damaged", f->from, f->to, vl, seq);
	ohca_link_rx_release(ep[f->to].l, vl);
	f->got[vl]++;
	return true;
}

/* Send at most @burst packets on each lane, and receive all. Return: whether anything moved. */
static bool turn(struct flow *f, unsigned int burst)
{
	bool moved = false;

	for (unsigned int vl = 0; vl < LANES; vl++) {
		for (unsigned int i = 0; i < burst && put(f, vl); i++)
			moved = true;
		while (get(f, vl))
			moved = true;
	}
	simple_step(ep[f->from].l);
	simple_step(ep[f->to].l);
	return moved;
}

static uint32_t done(const struct flow *f)
{
	return f->got[0] + f->got[1];
}

static bool all_there(const struct flow *f)
{
	return f->got[0] == f->sent[0] && f->got[1] == f->sent[1];
}

/* All sent packets arrive. */
static void settle(struct flow *f, unsigned int n)
{
	const double limit = seconds() + 60;
	bool more = true;

	while (more) {
		bool moved = false;

		more = false;
		for (unsigned int i = 0; i < n; i++) {
			moved |= turn(&f[i], 0);
			more |= !all_there(&f[i]);
		}
		if (seconds() > limit)
			die("%u to %u: %u and %u of %u and %u packets came", f->from, f->to,
			    f->got[0], f->got[1], f->sent[0], f->sent[1]);
		if (!moved)
			usleep(100);
	}
}

/* At least @packets packets of each flow arrive. */
static void exchange(struct flow *f, unsigned int n, uint32_t packets)
{
	const double limit = seconds() + 60;
	uint32_t goal[8];
	bool more = true;

	for (unsigned int i = 0; i < n; i++)
		goal[i] = done(&f[i]) + packets;
	while (more) {
		bool moved = false;

		more = false;
		for (unsigned int i = 0; i < n; i++) {
			moved |= turn(&f[i], 8);
			more |= done(&f[i]) < goal[i];
		}
		if (seconds() > limit)
			die("%u to %u: only %u packets", f->from, f->to, done(f));
		if (!moved)
			usleep(100);
	}
	settle(f, n);
}

/* Daemon @i is stopped; @f needs it, @other does not. */
static void stopped(unsigned int i, struct flow *f, struct flow *other, double time)
{
	const double until = seconds() + time, limit = until + 60;
	const uint32_t before = other ? done(other) : 0;
	uint32_t n = 0;

	stop(i);
	/* a busy host may delay the other flow */
	while (seconds() < until || (other && n < 100 && seconds() < limit)) {
		if (!turn(f, 64))
			usleep(200);
		if (other && !turn(other, 4))
			usleep(200);
		n = other ? done(other) - before : 0;
	}
	if (other && n < 100)
		die("only %u packets of others while daemon %u was stopped", n, i);
	if (all_there(f))
		die("nothing waited for daemon %u", i);
	kill(site[i].pid, SIGCONT);
	settle(f, 1);
	if (other)
		settle(other, 1);
	printf("PASS: daemon %u stopped for %.1f s: %u packets came, %u of others meanwhile\n", i, time,
	       done(f), n);
}

/* Silent connections, more than the listener accepts. */
static void silent(struct flow *f)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd[100];

	to.sin_port = htons((uint16_t)atoi(strrchr(listener, ':') + 1));
	for (unsigned int i = 0; i < 100; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fd[i], (struct sockaddr *)&to, sizeof(to));
	}
	exchange(f, 1, 500);
	for (unsigned int i = 0; i < 100; i++)
		close(fd[i]);
	printf("PASS: 100 peers that say nothing\n");
}

int main(int argc, char **argv)
{
	const double time = argc > 2 ? atof(argv[2]) : 0.3;
	struct flow f[] = {
		{ .from = 0, .to = 2 }, { .from = 1, .to = 3 }, { .from = 2, .to = 1 },
	}, cross[] = { { .from = 3, .to = 2 } };

	if (argc < 2) {
		fprintf(stderr, "usage: test_remote FABRIC [SECONDS]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	join_all(argv[1]);
	exchange(f, 3, 3000);
	printf("PASS: three daemons are one fabric\n");
	exchange(cross, 1, 500);
	printf("PASS: over two wires\n");
	silent(&f[0]);
	stopped(1, &f[0], &f[1], time);
	stopped(0, &f[2], NULL, time);

	/* its port goes down, the switch counts that, and the port comes up again */
	end(1, SIGKILL);
	wait_state(0, site[1].wire, IB_PS_DOWN, IB_PS_DOWN);
	exchange(&f[1], 1, 500);
	serve(1);
	come(2);
	bring_up(1);
	memset(f, 0, sizeof(f[0]));
	f[0].to = 2;
	exchange(f, 2, 1000);
	printf("PASS: a daemon that was killed, and is there again\n");

	/* the listener restarts at the same port: the others reconnect */
	end(0, SIGKILL);
	serve(0);
	for (unsigned int k = 0; k < 2; k++)
		come(k);
	for (unsigned int i = 0; i < SITES; i++)
		bring_up(i);
	memset(f, 0, sizeof(f));
	f[0].to = 2;
	f[1].from = 1;
	f[1].to = 3;
	exchange(f, 2, 1000);
	printf("PASS: the listener was killed, and the wires come back\n");

	/* a daemon with another token cannot connect */
	end(1, SIGTERM);
	token = "fedcba9876543210";
	serve(1);
	for (double until = seconds() + 0.3; seconds() < until; usleep(20000))
		if (port_state(0, site[1].wire) != IB_PS_DOWN)
			die("a wire without the token");
	exchange(&f[1], 1, 500);
	printf("PASS: another token\n");
	part_all();
	return 0;
}
