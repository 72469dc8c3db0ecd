/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The performance management agent of an HCA or a switch (IBTA volume 1, 16.1).
 *
 * The agent uses only the memory of its caller, reads no clock (the caller passes the time) and
 * sends nothing. It gets the state of a port by a callback, so the caller needs no memory for a
 * port that has never counted anything.
 */
#ifndef OHCA_IB_PMA_AGENT_H
#define OHCA_IB_PMA_AGENT_H

#include "pma.h"

/**
 * struct ib_pma_port - performance state of one port
 * @ctr: the live counters, which the data path increments; the caller's memory
 * @base: their values when the classic, saturating counters were last reset
 * @ext_base: their values when the extended counters were last reset
 * @stuck: a bit for each of the first 32 counters of struct ohca_port_counters: if set, the counter
 *	always reads as all ones, in both sets
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
 * @begin_ns, @end_ns: start and end of the interval, ns
 * @value: value of each counter at the start of the interval; after its end the difference
 */
struct ib_pma_samples {
	struct ib_pma_samples_control ctl;
	uint64_t begin_ns, end_ns;
	uint64_t value[IB_PMA_SAMPLE_COUNTERS];
};

/**
 * struct ib_pma - a node's performance management agent
 * @port: callback: update the counters of port @num and return its state; NULL: there is no such
 *	port. Called only for ports of a MAD or a sample; the agent does not keep the result
 * @ctx: first argument of @port
 * @nports: largest number of ports
 * @first_port: number of the first port: 1 in an HCA, 0 in a switch
 * @resp_time: ClassPortInfo.RespTimeValue, 4.096 us * 2^n
 * @samples: all zero: no sample was requested
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
	IB_PMA_DROP,		/* no request, or not of this class: send nothing */
	IB_PMA_REPLY,		/* @out is the response */
};

/**
 * ib_pma_process() - answer one performance management MAD
 * @a: the agent
 * @in: request; may be the same memory as @out
 * @out: response
 * @now_ns: time, ns, of the same clock as for ib_pma_timer()
 *
 * The agent answers every request of the class. The status of a wrong one is IB_MAD_BAD_VERSION,
 * IB_MAD_BAD_METHOD, IB_MAD_BAD_METHOD_ATTR or IB_MAD_BAD_FIELD. Owner thread only.
 */
enum ib_pma_verdict ib_pma_process(struct ib_pma *a, const struct ib_mad *in, struct ib_mad *out,
				   uint64_t now_ns);

/**
 * ib_pma_preset() - counters of port @num were set to other values
 * @was, @now: their values before and after
 *
 * A running sample interval does not count the difference. Owner thread only.
 */
void ib_pma_preset(struct ib_pma *a, unsigned int num, const struct ohca_port_counters *was,
		   const struct ohca_port_counters *now);

/** ib_pma_deadline() - when ib_pma_timer() must run, ns; UINT64_MAX: never */
uint64_t ib_pma_deadline(const struct ib_pma *a);

/**
 * ib_pma_timer() - begin or end the sample interval if that is due
 * @now_ns: time, ns; always of the same monotonic clock
 *
 * Owner thread only.
 */
void ib_pma_timer(struct ib_pma *a, uint64_t now_ns);

#endif
