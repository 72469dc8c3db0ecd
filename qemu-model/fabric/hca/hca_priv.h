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
 * @s: its fabric's
 * @e: its engine; NULL while that is made
 * @cfg: as it was made
 * @port: [@cfg.engine.num_ports] at the switches; @smps: since its last turn; @refused:
 *	lanes of which the engine does not know yet that they have room again; @missed: what its link
 *	did while the machine was paused
 * @reach: its memory
 * @mapped: entries that @cfg.maps has taken in this turn
 * @kicked: it has something to do
 * @listed: it waits for its turn, before @next
 * @in_call: its engine is at work: it takes no packet
 * @running: its machine is not paused
 * @clock: as of struct ohca_page, whether it has one or not; written by the owner
 * @bells: in its page
 * @status: the register, as the page has it
 * @raised: a vector, since the front was told
 * @due_ns: deadline of its engine, by the host's clock
 * @all: the next of all HCAs, or of those that have gone
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
 * @gone: @num_gone that are freed, but for what their engines have; @gone_last has gone last
 * @first, @last: those that have something to do, @listed in all
 * @refused: one of them perhaps has a lane that was refused
 * @kicked: one of them was kicked
 * @due_ns: no deadline is earlier
 * @now_ns: the host's clock as the turn of one of them began
 * @events: as of fab_hcas_trace()
 * @any_order: as of fab_data_any_order(), as the engines know it
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

/** fab_hca_list() - @h has something to do; nothing while its machine is paused */
void fab_hca_list(struct fab_hca *h);

/** fab_hca_unlist() - it has not, any more */
void fab_hca_unlist(struct fab_hca *h);

/** fab_hca_plug() - the ports of @h are at their places. Return: false: out of memory */
bool fab_hca_plug(struct fab_hca *h);

/** fab_hca_unplug() - they are not */
void fab_hca_unplug(struct fab_hca *h);

/** fab_hca_links() - tell the engine what its links did while the machine was paused */
void fab_hca_links(struct fab_hca *h);

/**
 * fab_page_open() - @h has the page of its configuration, if that has one; before its engine is made
 * Return: false: the page does not fit the engine, or that is not usable.
 */
bool fab_page_open(struct fab_hca *h);

/** fab_page_move() - its page is this one from now on, which has no doorbells yet */
void fab_page_move(struct fab_hca *h, struct ohca_page *page);

/** fab_page_close() - it has not, any more; its engine has retired, and may still be there */
void fab_page_close(struct fab_hca *h);

/** fab_pages_collect() - list whose doorbells were rung */
void fab_pages_collect(struct fab_hcas *s);

/** fab_pages_sleep() - as fab_hcas_sleep() */
bool fab_pages_sleep(struct fab_hcas *s);

/** fab_pages_awake() - as fab_hcas_awake() */
void fab_pages_awake(struct fab_hcas *s);

/** fab_page_show() - the page has all registers as they are */
void fab_page_show(struct fab_hca *h);

/** fab_page_clock() - the page has the clock as it is */
void fab_page_clock(struct fab_hca *h);

/** fab_page_irq() - vector @vec is raised; @h has a page, and fab_page_turned() follows */
void fab_page_irq(struct fab_hca *h, unsigned int vec);

/** fab_page_turned() - @h has worked: what that has changed is in the page, and the front is told */
void fab_page_turned(struct fab_hca *h);

/** fab_hca_credits() - tell the engine which lanes have room again. Return: others have not. */
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

/** fab_hca_range_is_valid() - whether @r is what fab_hca_memory() takes, but for other ranges */
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
