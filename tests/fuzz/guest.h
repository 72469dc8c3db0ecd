/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of a hostile guest that targets share: a machine with objects of all kinds, and the
 * actions that the bytes of an input select. Most of what it writes are good commands, requests and
 * MADs with a few bytes changed; otherwise nothing would pass the first check.
 */
#ifndef FUZZ_GUEST_H
#define FUZZ_GUEST_H

#include "host.h"
#include "ohca_hw.h"

#define GUEST_MEM	(2u << 20)
#define SCRATCH		64u	/* pages that commands point into */
#define MR_LEN		(8u * HOST_PAGE)
enum { QP_RC0, QP_RC1, QP_UC0, QP_UC1, QP_UD, QPS };

/** struct input - the rest of the fuzzer's bytes; zeros when they are used up */
struct input {
	const uint8_t *p, *end;
};

/**
 * struct guest - the guest
 * @scratch: bus address of SCRATCH pages
 * @wild: registers were written at random, so that no command may be waited for
 * @strict: the guest names no memory but its own, see guest_start()
 * @qp, @cq, @srq, @mr, @pd, @eq, @dm, @xrcd: the last ones made
 * @cqs, @srqs, @qps, @mem: good ones, until commands spoil them
 */
struct guest {
	struct host *h;
	struct input in;
	uint64_t scratch;
	bool wild, strict;
	uint32_t qp, cq, srq, mr, pd, eq, dm, xrcd;
	struct host_cq cqs;
	struct host_srq srqs;
	struct host_qp qps[QPS];
	struct host_mr mem;
};

static inline uint8_t get(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static inline uint64_t get_n(struct input *in, unsigned int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | get(in);
	return v;
}

/** guest_page() - bus address of a scratch page that the input selects */
static inline uint64_t guest_page(struct guest *g)
{
	return g->scratch + (uint64_t)(get(&g->in) % SCRATCH) * HOST_PAGE;
}

/**
 * guest_new() - starts a guest on the process's machine, whose two ports are joined
 * @data, @size: the input
 * @strict: the guest lies about everything but the place of its memory, and owns a part of it. A
 *	write of the device to any other page ends the process.
 */
void guest_new(struct guest *g, const uint8_t *data, size_t size, bool strict);
/** guest_start() - resets and enables the device, makes the objects again if there is memory */
void guest_start(struct guest *g);
/** guest_end() - ends the guest; the machine is reset and must be empty then */
void guest_end(struct guest *g);

/** guest_list() - a page list in scratch memory */
struct ohca_hw_pl guest_list(struct guest *g);
/** guest_compose() - a command, opcode included, that is good in its form */
void guest_compose(struct guest *g, struct ohca_hw_aqe *c);
/** guest_command() - executes such a command */
void guest_command(struct guest *g);

/* Each does one action that the input selects. */
void guest_change(struct guest *g);	/* attributes in SQD, an alternate path, and back */
void guest_write(struct guest *g);	/* a page table over scratch pages, or bytes of the input */
void guest_doorbell(struct guest *g);
void guest_port(struct guest *g);	/* an SMP of the guest's own, or a cable */
void guest_post(struct guest *g);	/* a work request, good except for a byte now and then */

#endif /* FUZZ_GUEST_H */
