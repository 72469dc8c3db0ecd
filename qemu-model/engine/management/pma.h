/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HCA's performance management agent: ib/pma.h on the engine's ports. */
#ifndef OHCA_ENGINE_PMA_H
#define OHCA_ENGINE_PMA_H

#include "ib/pma.h"
#include "engine/management/sma.h"

/** struct ohca_pma - agent and per-port state, embedded in the engine. */
struct ohca_pma {
	struct ib_pma agent;
	struct ib_pma_port port[OHCA_SMA_MAX_PORTS];
	struct ib_pma_port *ptr[OHCA_SMA_MAX_PORTS];
};

/**
 * ohca_pma_init() - set up for @num_ports ports
 * @ctr: live counters of each port, written by the data path
 */
void ohca_pma_init(struct ohca_pma *p, unsigned int num_ports,
		   const struct ohca_port_counters *const ctr[]);

/**
 * ohca_pma_process() - one MAD of class IB_CLASS_PERF, from the wire or the driver
 * @in, @out: 256 bytes each; may be the same; @now_ns: engine time
 * Return: OHCA_SMA_REPLY (@out is the response) or OHCA_SMA_UNHANDLED (a response or
 * another MAD that is for software).
 */
enum ohca_sma_verdict ohca_pma_process(struct ohca_pma *p, const uint8_t *in, uint8_t *out,
				       uint64_t now_ns);

#endif
