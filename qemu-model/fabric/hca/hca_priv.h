/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of hca/. */
#ifndef OHCA_FABRIC_HCA_PRIV_H
#define OHCA_FABRIC_HCA_PRIV_H

#include <stdatomic.h>

#include "fabric/data/data.h"
#include "hca.h"
#include "iotlb.h"

/**
 * struct fab_hca - an HCA
 * @s: the set that contains it
 * @e: its engine; NULL while that is made
 * @cfg: its configuration
 * @port: [@cfg.engine.num_ports] ports at the switches; @smps: SMPs since its last turn; @refused:
 *	lanes that had no room and whose credit the engine does not know of yet; @missed: event of
 *	its link while the machine was paused
 * @reach: its memory
 * @mapped: entries that @cfg.maps has read in this turn, or since it
 * @kicked: its engine has requested a turn
 * @listed: it waits for its turn, before @next
 * @in_call: its engine is working: it accepts no packet
 * @running: its machine is not paused
 * @clock: as of struct ohca_page, with or without a page; written by the owner
 * @bells: doorbells in its page
 * @status: the register, as in the page
 * @raised: vectors were raised since the last notification of the front
 * @due_ns: deadline of its engine, by the host's clock
 * @all: the next of all HCAs, or of those that are gone
 * @paged: the next of those with a page
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
		struct fab_hca_missed {
			bool down, up;
			struct ohca_link_rate rate;
		} missed;
	} port[FAB_HCA_PORTS];
	struct fab_hca_reach reach;
	unsigned int mapped;
	bool kicked, listed, in_call;
	bool running;
	_Atomic uint64_t clock;
	struct ohca_doorbells bells;
	uint32_t status;
	bool raised;
	uint64_t due_ns;
	struct fab_hca *next, *all, *paged;
};

/**
 * struct fab_hcas - the HCAs of a fabric
 * @d: as of fab_hcas_new()
 * @all: all of them
 * @paged: those with a page
 * @gone: @num_gone that were freed, except for the objects of their engines; @gone_last is the
 *	newest
 * @first, @last: those with work, @listed in all
 * @refused: perhaps a lane of one of them had no room
 * @kicked: @kicked of one of them is set
 * @due_ns: no deadline is earlier
 * @now_ns: the host's clock when the current turn began
 * @events: as of fab_hcas_trace()
 * @any_order: value of fab_data_any_order() that the engines know
 */
struct fab_hcas {
	struct fab_data *d;
	struct fab_hca *all, *paged, *gone, *gone_last;
	unsigned int num_gone;
	struct fab_hca *first, *last;
	unsigned int listed;
	bool refused, kicked;
	uint64_t due_ns, now_ns;
	uint32_t events;
	uint16_t any_order;
};

/** fab_hca_trace() - struct ohca_host_ops.trace */
void fab_hca_trace(void *p, unsigned int ev, const uint64_t a[4]);

/** fab_hca_list() - give @h a turn; does nothing while its machine is paused */
void fab_hca_list(struct fab_hca *h);

/** fab_hca_unlist() - take its turn back */
void fab_hca_unlist(struct fab_hca *h);

/** fab_hca_plug() - attach the ports of @h to their places. Return: false: out of memory */
bool fab_hca_plug(struct fab_hca *h);

/** fab_hca_unplug() - detach them */
void fab_hca_unplug(struct fab_hca *h);

/** fab_hca_links() - notify the engine of the events of its links while the machine was paused */
void fab_hca_links(struct fab_hca *h);

/**
 * fab_page_open() - begin to use the page of its configuration, if it has one; before its engine is
 *	made
 * Return: false: the page does not fit the engine, or the engine is not usable.
 */
bool fab_page_open(struct fab_hca *h);

/** fab_page_move() - use page @page instead, whose doorbells are not copied yet */
void fab_page_move(struct fab_hca *h, struct ohca_page *page);

/** fab_page_close() - end the use of the page; its engine has retired, and may still exist */
void fab_page_close(struct fab_hca *h);

/** fab_pages_collect() - list the HCAs whose doorbells were rung */
void fab_pages_collect(struct fab_hcas *s);

/** fab_pages_sleep() - as fab_hcas_sleep() */
bool fab_pages_sleep(struct fab_hcas *s);

/** fab_pages_awake() - as fab_hcas_awake() */
void fab_pages_awake(struct fab_hcas *s);

/** fab_page_show() - write the current values of all registers to the page */
void fab_page_show(struct fab_hca *h);

/** fab_page_clock() - write the current clock to the page */
void fab_page_clock(struct fab_hca *h);

/** fab_page_irq() - raise vector @vec in the page, which @h has; fab_page_turned() must follow */
void fab_page_irq(struct fab_hca *h, unsigned int vec);

/** fab_page_turned() - after work of @h: write its changes to the page, and notify the front */
void fab_page_turned(struct fab_hca *h);

/**
 * fab_hca_credits() - notify the engine of lanes that have room again. Return: others have none
 *	yet.
 */
bool fab_hca_credits(struct fab_hca *h);

/** fab_hca_tx_begin() - tx_begin of struct ohca_host_ops */
uint8_t *fab_hca_tx_begin(void *h, unsigned int port, unsigned int vl, uint32_t len);

/** fab_hca_tx_commit() - tx_commit of struct ohca_host_ops */
void fab_hca_tx_commit(void *h, unsigned int port, unsigned int vl, uint32_t len);

/** fab_hca_tx_series() - tx_series of struct ohca_host_ops */
bool fab_hca_tx_series(void *h, unsigned int port, unsigned int vl, uint32_t len, unsigned int n);

/** fab_hca_tx_commit_view() - tx_commit_view of struct ohca_host_ops */
void fab_hca_tx_commit_view(void *h, unsigned int port, unsigned int vl, uint32_t len,
			    const struct ib_view *view);

/** fab_hca_tx_soon() - tx_soon of struct ohca_host_ops */
void fab_hca_tx_soon(void *h, unsigned int port, const uint8_t *lrh, uint16_t pkey, uint32_t dqpn);

/** fab_hca_link_ctl() - link_ctl of struct ohca_host_ops */
void fab_hca_link_ctl(void *h, unsigned int port, bool enable);

/** fab_hca_link_rate() - link_rate of struct ohca_host_ops */
void fab_hca_link_rate(void *h, unsigned int port, const struct ohca_link_rate *rate);

/** fab_hca_vl15_dropped() - vl15_dropped of struct ohca_host_ops */
uint64_t fab_hca_vl15_dropped(void *h, unsigned int port);

/**
 * fab_hca_range_is_valid() - whether fab_hca_memory() accepts @r, without a look at other ranges
 */
bool fab_hca_range_is_valid(const struct fab_hca_range *r);

/** fab_hca_persist() - dma_persist of struct ohca_host_ops */
bool fab_hca_persist(void *h, const struct ohca_run *run, unsigned int n, uint64_t tag);

/** fab_hca_map() - dma_map of struct ohca_host_ops */
void *fab_hca_map(void *h, uint64_t iova, size_t *len, int prot);

/** fab_hca_dirty() - dma_dirty of struct ohca_host_ops */
void fab_hca_dirty(void *h, uint64_t iova, size_t n);

/** fab_hca_dm_dirty() - dm_dirty of struct ohca_host_ops */
void fab_hca_dm_dirty(void *h, uint64_t off, size_t n);

#endif
