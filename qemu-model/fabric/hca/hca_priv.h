/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of hca/. */
#ifndef OHCA_FABRIC_HCA_PRIV_H
#define OHCA_FABRIC_HCA_PRIV_H

#include <stdatomic.h>

#include "fabric/data/data.h"
#include "hca.h"

/**
 * struct fab_hca - an HCA
 * @s: its fabric's
 * @e: its engine; NULL while that is made
 * @cfg: as it was made
 * @port: [@cfg.engine.num_ports] at the switches; @smps: since its last turn; @refused:
 *	lanes of which the engine does not know yet that they have room again
 * @range: [@ranges] its memory, in the order of addresses
 * @hit: of @range, where it last was
 * @kicked: any thread: it has something to do
 * @listed: it waits for its turn, before @next
 * @in_call: its engine is at work: it takes no packet
 * @due_ns: deadline of its engine
 * @all: the next of all HCAs
 */
struct fab_hca {
	struct fab_hcas *s;
	ohca_engine *e;
	struct fab_hca_cfg cfg;
	struct fab_hca_port {
		struct fab_hca *h;
		struct fab_hport *wire;
		unsigned int num;
		unsigned int smps;
		uint16_t refused;
	} port[FAB_HCA_PORTS];
	struct fab_hca_range *range;
	unsigned int ranges, hit;
	_Atomic bool kicked;
	bool listed, in_call;
	uint64_t due_ns;
	struct fab_hca *next, *all;
};

/**
 * struct fab_hcas - the HCAs of a fabric
 * @d, @wake, @arg: as of fab_hcas_new()
 * @all: all of them
 * @first, @last: those that have something to do, @listed in all
 * @refused: one of them perhaps has a lane that was refused
 * @kicked: any thread: one of them was kicked
 * @asleep: the owner sleeps; who clears it calls @wake
 * @due_ns: no deadline is earlier
 */
struct fab_hcas {
	struct fab_data *d;
	void (*wake)(void *arg);
	void *arg;
	struct fab_hca *all;
	struct fab_hca *first, *last;
	unsigned int listed;
	bool refused;
	_Atomic bool kicked, asleep;
	uint64_t due_ns;
};

/** fab_hca_list() - @h has something to do */
void fab_hca_list(struct fab_hca *h);

/** fab_hca_plug() - the ports of @h are at their places. Return: false: out of memory */
bool fab_hca_plug(struct fab_hca *h);

/** fab_hca_unplug() - they are not */
void fab_hca_unplug(struct fab_hca *h);

/** fab_hca_credits() - tell the engine which lanes have room again. Return: others have not. */
bool fab_hca_credits(struct fab_hca *h);

/** fab_hca_tx_begin() - tx_begin of struct ohca_host_ops */
uint8_t *fab_hca_tx_begin(void *h, unsigned int port, unsigned int vl, uint32_t len);

/** fab_hca_tx_commit() - tx_commit of struct ohca_host_ops */
void fab_hca_tx_commit(void *h, unsigned int port, unsigned int vl, uint32_t len);

/** fab_hca_link_ctl() - link_ctl of struct ohca_host_ops */
void fab_hca_link_ctl(void *h, unsigned int port, bool enable);

/** fab_hca_link_rate() - link_rate of struct ohca_host_ops */
void fab_hca_link_rate(void *h, unsigned int port, const struct ohca_link_rate *rate);

/** fab_hca_vl15_dropped() - vl15_dropped of struct ohca_host_ops */
uint64_t fab_hca_vl15_dropped(void *h, unsigned int port);

/** fab_hca_map() - dma_map of struct ohca_host_ops */
void *fab_hca_map(void *h, uint64_t iova, size_t *len, int prot);

#endif
