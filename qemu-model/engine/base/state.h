/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of the engine, and its basic queries. */
#ifndef OHCA_BASE_STATE_H
#define OHCA_BASE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/guestmem.h"
#include "engine/base/heap.h"
#include "engine/base/ids.h"
#include "engine/base/job.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/port.h"
#include "engine/engine.h"
#include "ohca_hw.h"

struct ohca_counter_set;
struct ohca_cq;
struct ohca_db;
struct ohca_dm;
struct ohca_eq;
struct ohca_fault;
struct ohca_mad;
struct ohca_mcast_grp;
struct ohca_mr;
struct ohca_pd;
struct ohca_qp;
struct ohca_sched;
struct ohca_srq;
struct ohca_xrcd;

/**
 * struct ohca_lies - lies of the device (lies.c); all zero: none
 * @state: state of the random numbers
 * @told: number of lies
 * @one_of: the device uses one of so many chances to lie; 0: none
 * @kinds: OHCA_LIE_*
 * @late_index: ACQ entry for @late; @is_late: @late is valid
 * @less_set: @less was drawn since the last reset
 * @less: how many of the next answers with sizes have smaller ones
 * @late: an answer that is delayed
 *
 * Any thread uses @state, @told, @one_of and @kinds, because any thread reads registers. Only the
 * owner uses the others.
 */
struct ohca_lies {
	_Atomic uint64_t state;
	_Atomic uint64_t told;
	_Atomic uint32_t one_of;
	_Atomic uint32_t kinds;
	uint32_t late_index;
	bool is_late;
	bool less_set;
	uint32_t less;
	struct ohca_hw_acqe late;
};

struct ohca_engine {
	struct ohca_cfg cfg;
	struct ohca_host_ops ops;
	void *h;
	uint32_t trace;			/* bit n: trace event n of enum ohca_trace */
	uint16_t any_order;		/* bit n: packets of SL n may arrive in any order */

	/* registers; read by any thread, written by the owner */
	_Atomic uint32_t status, fatal_reason;
	_Atomic uint64_t features_ack;
	_Atomic uint64_t aq_base, acq_base;
	_Atomic uint32_t page_shift, aq_log_size, aq_intr;
	uint32_t aq_ci;			/* AQ entries executed */
	bool aq_more;			/* the next command, @aqe, has begun */
	struct ohca_hw_aqe aqe;
	struct ohca_job job;
	uint64_t work, work_end;	/* work since ohca_new(), and its limit now (work.h) */
	uint64_t rx_end;		/* at this @work frames should wait for the next poll */
	uint64_t stamp;			/* timestamp of the next CQEs; 0: read the clock for each */

	/* doorbells: any thread writes them, the owner serves them (doorbell.c) */
	struct ohca_db *db;

	/*
	 * Ended lives, the oldest first: engines without doorbells, ports and host. They contain
	 * the objects of earlier lives, until the sweep has freed these (device/life.c).
	 */
	struct ohca_engine *dead[OHCA_MAX_DEAD];
	uint32_t num_dead;
	struct ohca_engine *spare;	/* empty ones, chained by this member */
	bool ended;			/* this engine is an ended life */
	uint32_t sweep, sweep_at;	/* step of the sweep, and position in the step */

	/* tables, indexed by number; NULL: free. MR index is key >> 8 */
	uint32_t max_qp, max_cq, max_srq, max_mr, max_pd, max_xrcd;
	struct ohca_qp **qp;
	struct ohca_cq **cq;
	struct ohca_srq **srq;
	struct ohca_mr **mr;
	struct ohca_pd **pd;
	struct ohca_xrcd **xrcd;
	struct ohca_eq *eq[OHCA_MAX_EQ];
	struct ohca_eq *async_eq, *fault_eq;
	uint8_t special_gone;		/* bit n: the special QP with handle n is destroyed, but */
					/* the driver may not have consumed its last event */
	struct ohca_ids qp_ids, cq_ids, srq_ids, mr_ids, pd_ids, xrcd_ids, dm_ids;
	struct ohca_dm **dm;		/* by handle; one entry for each page */
	struct ohca_list dm_used;
	uint8_t *mr_tag;		/* last tag of each index; each allocation increments it */
	struct ohca_mr *local_dma;	/* the MR of OHCA_LOCAL_DMA_LKEY; not in the table */
	uint32_t num_tags;		/* in all SRQs */
	uint32_t num_odp;		/* regions of type ODP */
	struct ohca_fault *fault;	/* OHCA_MAX_FAULTS slots */
	uint32_t num_faults, fault_next;	/* slots in use; where the next search begins */
	uint8_t *uar_faults;		/* slots in use, by doorbell page */
	uint32_t page_entries;		/* addresses stored in all page lists */
	uint64_t mem_max, mem_used;	/* the budget and its use, bytes */
	uint32_t dma_depth;
	struct ohca_heap mod;		/* CQs with a pending moderated event, by its time */
	uint32_t num_mcast_grp, mcast_total;	/* groups; attachments */
	uint64_t mcast_key[5];			/* of the hash of MGIDs */
	struct ohca_mcast_grp *mcast[OHCA_MCAST_BUCKETS];

	struct ohca_port port[OHCA_MAX_PORTS];
	struct ohca_mad *mad;
	struct ohca_sched *sched;
	struct ohca_lies lies;

	/* counts of no port, and of each port; a counter of the device is their sum */
	_Atomic uint64_t cnt[OHCA_CNT_NUM];
	_Atomic uint64_t port_cnt[OHCA_CNT_NUM][OHCA_MAX_PORTS];
	/* the part of @port_cnt that was counted in sets, including freed ones */
	uint64_t set_cnt[OHCA_MAX_PORTS][OHCA_CNT_NUM];
	struct ohca_ids set_ids;
	struct ohca_counter_set *set[OHCA_MAX_COUNTER_SETS];
};

/* Only the owner writes these counters, so a load and a store suffice. */
static inline void ohca_count_add(_Atomic uint64_t *cnt, uint64_t n)
{
	atomic_store_explicit(cnt, atomic_load_explicit(cnt, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline void ohca_count_one(_Atomic uint64_t *cnt)
{
	ohca_count_add(cnt, 1);
}

static inline void ohca_count(ohca_engine *e, enum ohca_counter id)
{
	ohca_count_one(&e->cnt[id]);
}

/* Count an event of a port, which also counts for the device. @port: from 0 */
static inline void ohca_count_port(ohca_engine *e, unsigned int port, enum ohca_counter id)
{
	ohca_count_one(&e->port_cnt[id][port]);
}

static inline void ohca_trace(ohca_engine *e, enum ohca_trace ev, uint64_t a, uint64_t b,
			      uint64_t c, uint64_t d)
{
	if (__builtin_expect(e->trace >> ev & 1, 0)) {
		uint64_t args[4] = { a, b, c, d };

		e->ops.trace(e->h, ev, args);
	}
}

/* Whether the driver has enabled the device and it has not failed. Else it does no DMA. */
static inline bool ohca_running(const ohca_engine *e)
{
	uint32_t s = atomic_load_explicit(&e->status, memory_order_relaxed);

	return (s & (OHCA_STATUS_ENABLED | OHCA_STATUS_FATAL)) == OHCA_STATUS_ENABLED;
}

static inline uint64_t ohca_now(const ohca_engine *e)
{
	return e->ops.now_ns(e->h);
}

/* Time of this ohca_poll(), ns, to compare with deadlines. */
static inline uint64_t ohca_turn_now(const ohca_engine *e)
{
	return e->ops.turn_ns ? e->ops.turn_ns(e->h) : ohca_now(e);
}

#endif /* OHCA_BASE_STATE_H */
