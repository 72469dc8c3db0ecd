/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A wire with faults or a rate, in one direction: the part that MADs and data packets have in
 * common.
 */
#ifndef OHCA_FABRIC_WIRE_H
#define OHCA_FABRIC_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/base/timers.h"
#include "ib/packet.h"

#define FAB_WIRE_LANES	15u	/* for data */
#define FAB_WIRE_BLOCKS	2048u	/* of 64 bytes: credits of a lane */
#define FAB_FS_PER_NS	1000000u

/** fab_blocks() - credits, of 64 bytes, of a packet with @len bytes */
static inline uint16_t fab_blocks(uint32_t len)
{
	return (uint16_t)((len + IB_VCRC_LEN + 63) / 64);
}

/** struct fab_moment - a time: @ns, and @fs later, below a ns */
struct fab_moment {
	uint64_t ns;
	uint32_t fs;
};

/** fab_moment_ns() - the first whole ns that is not before it */
static inline uint64_t fab_moment_ns(const struct fab_moment *at)
{
	return at->ns + (at->fs != 0);
}

/**
 * fab_sent_at() - time at which a wire has sent a packet of @len bytes that begins at @begin, at
 *	@byte_fs a byte
 */
static inline struct fab_moment fab_sent_at(struct fab_moment begin, uint64_t byte_fs, uint32_t len)
{
	const uint64_t fs = begin.fs + (len + IB_VCRC_LEN) * byte_fs;

	return (struct fab_moment){ begin.ns + fs / FAB_FS_PER_NS, (uint32_t)(fs % FAB_FS_PER_NS) };
}

/**
 * struct fab_fault - effects of a wire on packets that leave by a port
 * @port: that port
 * @loss: number of 2^32 packets that are lost; the other end counts an error for each
 * @stays: the same for packets behind a lost one
 * @loses: the last packet was lost
 * @error_bits: mean number of bits between two bit errors; 0: no errors
 * @clean_bits: number of bits to the next error
 * @corrupt: number of 2^32 data packets that get a bit error, and a wrong ICRC
 * @delay_ns: delay of packets
 * @mad_due_ns: time at which the MAD that left last arrives
 * @rng: state of the generator that chooses them
 * @lost, @corrupted: numbers of such packets; @lost includes those on their way when the link went
 *	down
 * @marginal: local physical errors of the other end, less the good packets since
 * @downs: times that the link went down
 * @byte_fs: time in fs to send a byte of data packets; 0: none
 * @began_ns: time at which it began to send the last packet
 * @free: time at which it has sent that
 * @timer: of fab_data.paced, set while a packet waits until then
 * @stalls: the other end accepts no packets of data lanes; @resume: of fab_mgmt.resumes, end of
 *	that
 * @leaks: some of @gone are not 0
 * @gone: lost blocks of each lane, until the link trains
 * @owed: a packet has waited for the wire, and has not begun yet
 * @late_ns: time at which it began to send a packet that could have begun before
 * @vl: lane of the last packet
 */
struct fab_fault {
	uint64_t byte_fs;
	struct fab_moment free;
	uint64_t began_ns;
	uint64_t late_ns;
	uint64_t delay_ns;
	uint64_t rng;
	uint32_t loss, stays;
	uint8_t marginal;
	bool owed, loses, stalls, leaks;
	uint8_t vl;
	struct fab_timer timer, resume;
	uint32_t port;
	uint32_t corrupt;
	uint64_t mad_due_ns;
	uint64_t lost;
	uint64_t corrupted;
	uint32_t downs;
	uint64_t error_bits, clean_bits;
	uint16_t gone[FAB_WIRE_LANES];
};

struct fab;

/**
 * fab_wire_at() - get or create the fault of the wire from port @p
 * Return: NULL if out of memory.
 */
struct fab_fault *fab_wire_at(struct fab *f, uint32_t p);

/** fab_random_state() - make a state of the generator that depends on all bits of @seed */
uint64_t fab_random_state(uint64_t seed);

/** fab_random() - the next number of the generator with that state */
static inline uint32_t fab_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 32);
}

/**
 * fab_random_gap() - draw the gap between two independent events, which is @mean on the average
 *
 * Gaps are exponentially distributed, so the events are a Poisson process. Gaps are limited to
 * UINT64_MAX.
 */
uint64_t fab_random_gap(uint64_t *state, uint64_t mean);

/** fab_fault_hits() - decide whether an event of probability @rate / 2^32 happens now */
static inline bool fab_fault_hits(struct fab_fault *x, uint32_t rate)
{
	return fab_random(&x->rng) < rate;
}

/**
 * fab_fault_due() - time at which a packet that leaves at @now_ns arrives
 * @before_ns: time at which the previous one arrives: if the delay was reduced since, it is still
 *	not overtaken
 */
static inline uint64_t fab_fault_due(const struct fab_fault *x, uint64_t now_ns,
				     uint64_t before_ns)
{
	const uint64_t due = now_ns + x->delay_ns;

	return due > before_ns ? due : before_ns;
}

/** fab_wire_ready() - time at which it can send the next packet, in whole ns */
static inline uint64_t fab_wire_ready(const struct fab_fault *x)
{
	return fab_moment_ns(&x->free);
}

/** fab_fault_take() - copy losses, damage and delay from @from to @x */
void fab_fault_take(struct fab_fault *x, const struct fab_fault *from);

/**
 * fab_fault_down() - the link goes down: packets on their way are lost, and lost credits are
 *	restored
 */
void fab_fault_down(struct fab_fault *x);

/** fab_fault_cut() - whether the link went down since @downs: packets on their way then are lost */
static inline bool fab_fault_cut(const struct fab_fault *x, uint32_t downs)
{
	return x->downs != downs;
}

/** fab_fault_corrupts() - whether the wire damages the next packet, which it does not lose */
static inline bool fab_fault_corrupts(struct fab_fault *x)
{
	if (!fab_fault_hits(x, x->corrupt))
		return false;
	x->corrupted++;
	return true;
}

/** fab_fault_errs() - whether the next packet, of @len bytes plus the VCRC, has a bit error */
bool fab_fault_errs(struct fab_fault *x, uint32_t len);

/** fab_fault_loses() - whether the wire loses the next packet, of @len bytes from LRH to ICRC */
static inline bool fab_fault_loses(struct fab_fault *x, uint32_t len)
{
	const bool errs = x->error_bits && fab_fault_errs(x, len);

	x->loses = fab_fault_hits(x, x->loses ? x->stays : x->loss);
	if (x->loses || errs)
		return true;
	x->marginal -= x->marginal != 0;
	return false;
}

/**
 * fab_fault_takes() - the same for a packet to a machine, which counts the error itself; counts
 *	the loss
 */
static inline bool fab_fault_takes(struct fab_fault *x, uint32_t len)
{
	const bool lost = fab_fault_loses(x, len);

	x->lost += lost;
	return lost;
}

#endif
