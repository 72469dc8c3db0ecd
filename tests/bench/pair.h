/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two machines for benchmarks, in one thread with the driver: the test hosts, with memory that costs
 * nothing. Their ports are joined by a wire that costs nothing, or are where struct pair_home says.
 */
#ifndef OHCA_BENCH_PAIR_H
#define OHCA_BENCH_PAIR_H

#include "engine/base/state.h"
#include "host.h"

#define PAIR_DEPTH	64u		/* WQEs under way */
#define PAIR_MR_LEN	(8u << 20)
#define PAIR_MAX_QPS	65000u		/* of 64 Ki numbers, without those that are special */

/**
 * struct pair_home - where the engines of both machines are instead
 * @make: machine @i; its port is Active, with the LID of struct pair_work
 * @spin: both engines work for a moment, and what they send comes
 */
struct pair_home {
	struct host *(*make)(unsigned int i);
	void (*spin)(void);
};

/**
 * struct pair_work - what the first machine does
 * @type: enum ohca_qp_type; @op: enum of OHCA_OP_*; @len: bytes of a message
 * @depth: WQEs under way; @qps: QPs that take turns, at most PAIR_MAX_QPS; 0: 1
 * @loop: both ends are in the first machine
 * @home: NULL: the engines are the bench's; @lid: of the machines with @home
 */
struct pair_work {
	uint8_t type, op;
	uint32_t len;
	unsigned int depth, qps;
	bool loop;
	const struct pair_home *home;
	uint16_t lid[2];
};

/** pair_seconds() - processor time: what others do on the machine does not count */
double pair_seconds(void);
/** pair_host() - machine @i, 0 or 1, from pair_up() to pair_down() */
struct host *pair_host(unsigned int i);
/** pair_up() - machines and QPs for @w; ends the process if it fails */
void pair_up(const struct pair_work *w);
void pair_down(void);
/** pair_qp_bytes() - what a QP takes of the memory of its device */
uint64_t pair_qp_bytes(void);
/** pair_rate() - messages a second of processor time, over about @seconds */
double pair_rate(double seconds);
/**
 * pair_latency() - one message at a time, from the WQE to the CQE that it makes. At the receiver of a
 * SEND that is the time of the CQE: here it is polled only when what comes after it, the ACK, is done,
 * but a program on another processor sees it then. At the sender of all else it is when the sender has
 * polled it, with one more reading of the clock.
 * @ns: room for @n times, sorted when it returns
 */
void pair_latency(uint32_t *ns, unsigned int n);
/** pair_memcpy() - copies a second of @len bytes between the memory of the QPs; 0 without bytes */
double pair_memcpy(uint32_t len, double seconds);

#endif
