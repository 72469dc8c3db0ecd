/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two machines for benchmarks, in one thread with the driver: the test hosts, with memory that has
 * no cost of its own. A wire without a cost of its own joins their ports, unless struct pair_home
 * replaces it.
 */
#ifndef OHCA_BENCH_PAIR_H
#define OHCA_BENCH_PAIR_H

#include "engine/base/state.h"
#include "host.h"

#define PAIR_DEPTH	64u		/* WQEs outstanding at a time */
#define PAIR_ACTIVE	16u		/* WQEs of each QP if all QPs are active */
#define PAIR_MR_LEN	(8u << 20)
#define PAIR_MAX_QPS	65000u		/* of 64 Ki numbers, without the special ones */

/**
 * struct pair_home - other engines for the two machines
 * @make: makes machine @i; its port is Active, with the LID of struct pair_work
 * @spin: runs both engines for a moment and delivers what they send
 */
struct pair_home {
	struct host *(*make)(unsigned int i);
	void (*spin)(void);
};

/**
 * struct pair_work - what the first machine does
 * @type: enum ohca_qp_type; @op: enum of OHCA_OP_*; @len: bytes of a message
 * @depth: WQEs outstanding; @qps: QPs that are used in turn, at most PAIR_MAX_QPS, 1 for UD; 0: 1
 * @active: all QPs are active at once, each with PAIR_ACTIVE WQEs, instead of @depth
 * @loop: both ends are in the first machine
 * @home: the engines, or NULL for those of the benchmark; @lid: of the machines with @home
 */
struct pair_work {
	uint8_t type, op;
	uint32_t len;
	unsigned int depth, qps;
	bool active, loop;
	const struct pair_home *home;
	uint16_t lid[2];
};

/** pair_seconds() - processor time of this process, which other processes do not change */
double pair_seconds(void);
/** pair_host() - machine @i, 0 or 1, from pair_up() to pair_down() */
struct host *pair_host(unsigned int i);
/** pair_up() - makes machines and QPs for @w; ends the process if it fails */
void pair_up(const struct pair_work *w);
void pair_down(void);
/** pair_qp_bytes() - bytes that a QP needs of the memory of its device */
uint64_t pair_qp_bytes(void);
/** pair_rate() - messages a second of processor time, measured over about @seconds */
double pair_rate(double seconds);
/**
 * pair_latency() - measures one message at a time, from the WQE to the CQE that it causes
 * @ns: room for @n times, sorted when it returns
 *
 * At the receiver of a SEND the time is that of the CQE. The benchmark polls the CQE only after the
 * ACK that follows it, but a program on another processor would see it at once. For other
 * operations, the time ends when the sender has polled the CQE, and includes one more reading of
 * the clock.
 */
void pair_latency(uint32_t *ns, unsigned int n);
/** pair_memcpy() - copies of @len bytes a second between the memory of the QPs; 0 if @len is 0 */
double pair_memcpy(uint32_t len, double seconds);

#endif
