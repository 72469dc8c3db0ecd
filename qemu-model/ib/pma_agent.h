/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The performance management agent of any node (IBTA volume 1, 16.1): an HCA's or a switch's.
 *
 * Pure logic: no memory but the caller's, no clock (time is passed in), nothing is sent. The
 * caller gives the state of a port when it is asked for, so a port that never counted anything
 * need not have any of its own.
 */
#ifndef OHCA_IB_PMA_AGENT_H
#define OHCA_IB_PMA_AGENT_H

#include "pma.h"

/**
 * struct ib_pma_port - performance state of one port
 * @ctr: the live counters, incremented by the data path; the caller's
 * @base: their values when the classic, saturating counters were last reset
 * @ext_base: their values when the extended counters were last reset
 * @stuck: a bit for each of the first 32 counters of struct ohca_port_counters: it reads as all
 *	ones in both sets, whatever was counted and reset
 *
 * Set of PortCounters resets only the classic set and Set of
 * PortCountersExtended only the extended set: they are separate counters (16.1.4).
 */
struct ib_pma_port {
	const struct ohca_port_counters *ctr;
	struct ohca_port_counters base;
	struct ohca_port_counters ext_base;
	uint32_t stuck;
};

/**
 * struct ib_pma_samples - the sampling mechanism of a node
 * @ctl: as last set, with the current status
 * @begin_ns, @end_ns: of the interval
 * @value: each counter's value at the begin of the interval; after its end the difference
 */
struct ib_pma_samples {
	struct ib_pma_samples_control ctl;
	uint64_t begin_ns, end_ns;
	uint64_t value[IB_PMA_SAMPLE_COUNTERS];
};

/**
 * struct ib_pma - a node's performance management agent
 * @port: state of port @num, its counters brought up to date; NULL: there is no such port.
 *	Called only for ports of a MAD or a sample; not kept
 * @ctx: its first argument
 * @nports: ports that there may be
 * @first_port: number of the first of them: 1 in an HCA, 0 in a switch
 * @resp_time: ClassPortInfo.RespTimeValue, 4.096 us * 2^n
 * @samples: all zero: none was asked for
 */
struct ib_pma {
	struct ib_pma_port *(*port)(void *ctx, unsigned int num);
	void *ctx;
	unsigned int nports;
	unsigned int first_port;
	uint8_t resp_time;
	struct ib_pma_samples samples;
};

/* Results of ib_pma_process() */
enum ib_pma_verdict {
	IB_PMA_DROP,		/* nothing to answer (not a request, not this class) */
	IB_PMA_REPLY,		/* @out is the response */
};

/**
 * ib_pma_process() - answer one performance management MAD
 * @a: the agent
 * @in: request; may be the same memory as @out
 * @out: response
 * @now_ns: time of the clock that ib_pma_timer() has
 *
 * Every Get and Set of the class is answered, with IB_MAD_BAD_VERSION, IB_MAD_BAD_METHOD_ATTR
 * or IB_MAD_BAD_FIELD if it is wrong. Owner thread only.
 */
enum ib_pma_verdict ib_pma_process(struct ib_pma *a, const struct ib_mad *in, struct ib_mad *out,
				   uint64_t now_ns);

/**
 * ib_pma_preset() - counters of port @num have other values, without anything having happened
 * @was, @now: their values before and after
 *
 * A sample interval that runs does not count the difference. Owner thread only.
 */
void ib_pma_preset(struct ib_pma *a, unsigned int num, const struct ohca_port_counters *was,
		   const struct ohca_port_counters *now);

/** ib_pma_deadline() - when ib_pma_timer() has something to do; UINT64_MAX: never */
uint64_t ib_pma_deadline(const struct ib_pma *a);

/**
 * ib_pma_timer() - begin or end the sample interval if it is time
 * @now_ns: time; any monotonic clock, always the same
 *
 * Owner thread only.
 */
void ib_pma_timer(struct ib_pma *a, uint64_t now_ns);

#endif
