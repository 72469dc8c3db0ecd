/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inside the engine: the objects and who owns them.
 *
 * Two halves. The control half (regs.c, admin.c, doorbell.c, dma.c, eq.c, cq.c, srq.c,
 * tm.c, mr.c, dm.c, pd.c, qp.c, apm.c, xrc.c, mcast.c, mad.c) creates, looks up and destroys
 * objects and knows guest memory. The transport half (sched.c, tx.c, rx.c, sq.c, req.c,
 * comp.c, resp.c, tagged.c, ud.c) moves packets; its state hangs off struct ohca_qp as
 * struct ohca_xport, declared in transport.h. Everything in here is called by the owner
 * only, and, unless it says otherwise, between dma_enter and dma_exit.
 */
#ifndef OHCA_ENGINE_INTERNAL_H
#define OHCA_ENGINE_INTERNAL_H

#include <stdatomic.h>
#include <string.h>

#include "engine.h"
#include "ohca_hw.h"	/* firmware-if/ */
#include "../ib/packet.h"
#include "../ib/pma.h"
#include "../ib/smp.h"

#define OHCA_MAX_PORTS	2
#define OHCA_FIRST_QP	4	/* handles below are the ports' SMI and GSI QPs */
#define OHCA_MAX_EQ	64
#define OHCA_MAX_PKEYS	128
#define OHCA_MAX_GIDS	256
#define OHCA_MAX_COUNTER_SETS	4096
#define OHCA_LOCAL_DMA_LKEY	0x00000100u	/* index 1, tag 0: reserved */
#define OHCA_LOG_MAX_FAULTS	7u
#define OHCA_MAX_FAULTS		(1u << OHCA_LOG_MAX_FAULTS)
#define OHCA_MAX_TAGS		1024u	/* of one SRQ */
#define OHCA_MAX_ALL_TAGS	(1u << 17)
_Static_assert(OHCA_MAX_FAULTS <= 1u << OHCA_FAULT_SLOT_BITS &&
	       OHCA_FAULT_SLOT == (1u << OHCA_FAULT_SLOT_BITS) - 1, "numbers of faults");

/* ---- byte order of the contract ------------------------------------------------- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline uint16_t ohca_le16(__le16 v) { return (IB_FORCE uint16_t)v; }
static inline uint32_t ohca_le32(__le32 v) { return (IB_FORCE uint32_t)v; }
static inline uint64_t ohca_le64(__le64 v) { return (IB_FORCE uint64_t)v; }
#else
static inline uint16_t ohca_le16(__le16 v) { return __builtin_bswap16((IB_FORCE uint16_t)v); }
static inline uint32_t ohca_le32(__le32 v) { return __builtin_bswap32((IB_FORCE uint32_t)v); }
static inline uint64_t ohca_le64(__le64 v) { return __builtin_bswap64((IB_FORCE uint64_t)v); }
#endif
static inline __le16 ohca_to_le16(uint16_t v)
{
	return (IB_FORCE __le16)ohca_le16((IB_FORCE __le16)v);
}

static inline __le32 ohca_to_le32(uint32_t v)
{
	return (IB_FORCE __le32)ohca_le32((IB_FORCE __le32)v);
}

static inline __le64 ohca_to_le64(uint64_t v)
{
	return (IB_FORCE __le64)ohca_le64((IB_FORCE __le64)v);
}


/* ---- intrusive list ------------------------------------------------------------ */

struct ohca_list {
	struct ohca_list *next, *prev;
};

static inline void ohca_list_init(struct ohca_list *l)
{
	l->next = l->prev = l;
}

static inline bool ohca_list_empty(const struct ohca_list *l)
{
	return l->next == l;
}

static inline void ohca_list_del(struct ohca_list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	ohca_list_init(n);
}

/* insert @n at the tail of @head; @n must not be on a list */
static inline void ohca_list_add_tail(struct ohca_list *head, struct ohca_list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

#define ohca_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* ---- memory: mem.c ---------------------------------------------------------------- */

/*
 * One budget, struct ohca_cfg.mem_max, for all that a guest can make the device allocate:
 * objects, page lists, windows, responses under way. A command that finds it used up fails with
 * NO_RESOURCE and OHCA_CNT_NO_MEMORY counts it. What work requests and packets cannot do without
 * was reserved when the object was made; a larger window is taken if the budget has it
 * (transport.h), and its refusal is counted as well. OHCA_CNT_MEMORY says what is taken.
 */
/* Reserve, or give back, @n bytes of it. False: there are not so many left. */
bool ohca_mem_reserve(ohca_engine *e, size_t n);
void ohca_mem_release(ohca_engine *e, size_t n);
/* @n zeroed bytes out of the budget, or NULL. */
void *ohca_mem_get(ohca_engine *e, size_t n);
/* As realloc(), of what has @old bytes. To NULL, which leaves @p: no memory, or none left */
void *ohca_mem_resize(ohca_engine *e, void *p, size_t old, size_t new);
/* Give back; @p may be NULL. */
void ohca_mem_put(ohca_engine *e, void *p, size_t n);

/* ---- guest memory: dma.c -------------------------------------------------------- */

/**
 * struct ohca_pages - a page list, copied from the guest
 * @page: bus address of each page; NULL if @contig
 * @base: address of the first page if @contig
 * @npages: pages; @shift: log2 of the page size
 * @contig: all pages follow each other from @base
 */
struct ohca_pages {
	uint64_t *page;
	uint64_t base;
	uint32_t npages;
	uint8_t shift;
	bool contig;
};

/*
 * Load and check a page list. 0, or enum ohca_admin_status. @bytes: needed at least.
 */
int ohca_pages_load(ohca_engine *e, struct ohca_pages *p, const struct ohca_hw_pl *pl,
		    uint64_t bytes, uint32_t max_pages);

/**
 * struct ohca_walk - a page list that is loaded in steps; all zero: none
 * @p: as far as it is
 * @done: addresses taken; @cap: size of p.page
 * @fill: of them followed each other before one did not; @filled: written down of those
 */
struct ohca_walk {
	struct ohca_pages p;
	uint32_t done, cap, fill, filled;
};

/* No enum ohca_admin_status: a step is done, and the command is to be run again for the next. */
#define OHCA_CMD_MORE	(-1)
/* The same, a step of it: OHCA_CMD_MORE: call again with the same arguments. */
int ohca_pages_load_some(ohca_engine *e, struct ohca_walk *w, struct ohca_pages *p,
			 const struct ohca_hw_pl *pl, uint64_t bytes, uint32_t max_pages);
/* Give back what was loaded so far. */
void ohca_walk_end(ohca_engine *e, struct ohca_walk *w);
void ohca_pages_free(ohca_engine *e, struct ohca_pages *p);
/* The same, a step of it. Return: it is done */
bool ohca_pages_free_some(ohca_engine *e, struct ohca_pages *p);
#define OHCA_MAX_MR_PAGES	(1u << 27)

/*
 * A burst of DMA: every owner function that may touch guest memory opens one around
 * all it does; nesting is allowed. Nothing is read or written outside, nor while the
 * device is not enabled.
 */
void ohca_dma_enter(ohca_engine *e);
void ohca_dma_exit(ohca_engine *e);

static inline uint64_t ohca_pages_bytes(const struct ohca_pages *p)
{
	return (uint64_t)p->npages << p->shift;
}

/* bus address of byte @off, which must lie inside; *@run: bytes to the page's end
 * (or to the end of all if contiguous) */
static inline uint64_t ohca_pages_addr(const struct ohca_pages *p, uint64_t off, uint64_t *run)
{
	uint64_t mask = (1ull << p->shift) - 1;

	if (p->contig) {
		*run = ohca_pages_bytes(p) - off;
		return p->base + off;
	}
	*run = mask + 1 - (off & mask);
	return p->page[off >> p->shift] + (off & mask);
}

/* Copy; 0 or -1 (counts OHCA_CNT_DMA_ERR). */
int ohca_dma_read(ohca_engine *e, uint64_t iova, void *buf, size_t n);
int ohca_dma_write(ohca_engine *e, uint64_t iova, const void *buf, size_t n);
int ohca_pages_read(ohca_engine *e, const struct ohca_pages *p, uint64_t off, void *buf, size_t n);
int ohca_pages_write(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		     size_t n);
/* @n bytes at @from of @src to @to of @dst */
int ohca_pages_copy(ohca_engine *e, const struct ohca_pages *dst, uint64_t to,
		    const struct ohca_pages *src, uint64_t from, uint64_t n);

/**
 * ohca_work() - @bytes were moved for a command. Return: whether it may go on in this step
 *
 * Who holds the engine keeps doorbells, frames and the machine's own threads waiting, so a run
 * of the admin queue moves no more than OHCA_CMD_WORK and what it is in the middle of: some
 * 100 us. Whatever the guest gives a size is moved by commands that can stop here. Two things are
 * not: the list of pages that REREG_MR replaces, and one that was refused, go back in one step.
 */
#define ohca_work(e, bytes)	((e)->work -= (e)->work < (bytes) ? (e)->work : (uint32_t)(bytes))
#define OHCA_CMD_WORK	(256u << 10)

/**
 * struct ohca_job - how far the command that is being executed is; all zero: not begun
 * @walk: its page list; @buf: the list, once @loaded
 * @begun: @at and @blank say where it goes on: the next index to copy, of each ring, and the
 *	next slot to make invalid
 */
struct ohca_job {
	struct ohca_walk walk;
	struct ohca_pages buf;
	bool loaded, begun;
	uint32_t at[2], blank;
};

/* Forget the job, and give back what it has. */
void ohca_job_end(ohca_engine *e);

/** struct ohca_ring - a ring of WQEs or blocks; @off: of the first in @buf */
struct ohca_ring {
	const struct ohca_pages *buf;
	uint64_t off;
	uint8_t log_size, log_stride;
};
/* What has the free running indices from *@at up to @to in @src gets them in @dst, which is
 * of the same stride, as far as this step goes: *@at is where it ends. 0 or -1. */
int ohca_ring_copy(ohca_engine *e, const struct ohca_ring *dst, const struct ohca_ring *src,
		   uint32_t *at, uint32_t to);
/* aligned __le32 in queue memory: atomic load with acquire / store with release; -1 on error */
int ohca_pages_load32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t *val);
int ohca_pages_store32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t val);

/*
 * Write @n bytes (a multiple of 8) so that a reader who sees the last 8 sees the others;
 * the address is a multiple of 8. For entries with an owner or phase bit at their end.
 */
int ohca_dma_publish(ohca_engine *e, uint64_t iova, const void *buf, size_t n);
int ohca_pages_publish(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		       size_t n);

/**
 * struct ohca_atomic - an atomic operation on 8 bytes
 * @op: OHCA_OP_CMP_SWAP, _FETCH_ADD, _MASKED_CMP_SWAP or _MASKED_FETCH_ADD
 * @swap_add, @compare: operands; @swap_mask, @compare_mask: of the masked ones
 */
struct ohca_atomic {
	uint8_t op;
	uint64_t swap_add, compare;
	uint64_t swap_mask, compare_mask;
};

/* Do it to the number at @p, a multiple of 8. Return: what it was */
uint64_t ohca_atomic_do(__le64 *p, const struct ohca_atomic *a);
/* Atomic operation on 8 bytes of guest memory at a multiple of 8; the numbers in it are
 * little-endian. *@old: before. 0 or -1 (no memory, or none that can be mapped). */
int ohca_dma_atomic(ohca_engine *e, uint64_t iova, const struct ohca_atomic *a, uint64_t *old);

/* Have the host make memory persistent, if it has such memory; false: it is at it. */
bool ohca_dma_persist(ohca_engine *e, const struct ohca_run *run, unsigned int n, uint64_t tag);

/* ---- numbers of objects: engine.c ------------------------------------------------- */

/** struct ohca_ids - which numbers below @max are in use; given out cyclically */
struct ohca_ids {
	uint64_t *used;
	uint32_t max, next, num;
};

/* ---- objects --------------------------------------------------------------------- */

struct ohca_pd {
	uint32_t pdn;
	uint32_t uar;
	uint32_t refs;
};

/**
 * struct ohca_async - asynchronous events of an object that wait for room
 * @link: on the asynchronous EQ's list of deferred while there are some
 * @pending: bit n: event OHCA_EVENT_ASYNC + n; the same event again says nothing new
 */
struct ohca_async {
	struct ohca_list link;
	uint32_t handle;
	uint32_t pending : 24, port : 8;
};

/* To be called when the object is made, and when it goes: nothing is told of it any more. */
static inline void ohca_async_init(struct ohca_async *a, uint32_t handle, unsigned int port)
{
	ohca_list_init(&a->link);
	a->handle = handle;
	a->pending = 0;
	a->port = (uint8_t)port;
}

static inline void ohca_async_forget(struct ohca_async *a)
{
	ohca_list_del(&a->link);
	a->pending = 0;
}

/** struct ohca_eq - event queue; @deferred: CQs, or what async events tell of, without room */
struct ohca_eq {
	uint32_t eqn;
	uint32_t refs;
	uint32_t pi, ci;
	uint16_t vector;
	uint8_t log_size;
	uint8_t kind;		/* enum ohca_eq_kind */
	bool armed;
	struct ohca_pages buf;
	struct ohca_list deferred;
	struct ohca_list gone;	/* destroyed CQs, by defer, that it still has an EQE of */
};

/**
 * struct ohca_cq - completion queue
 * @pi: entries written; @ci: consumer index last read from the record
 * @arm_sn: events delivered, modulo 4 in the doorbell
 * @armed: an event is wanted; @arm_sol: solicited only
 * @sol_pi: pi after the last solicited or failed entry
 * @told: pi when the last event was written to the EQ
 * @eqe_idx: EQ index of the last EQE; @eqe_out: it may not have been taken yet
 * @eqe_due: fired, but the EQE waits until the one before it has been taken
 */
struct ohca_cq {
	uint32_t cqn;
	uint32_t refs;
	uint32_t uar;
	uint32_t pi, ci, sol_pi, told;
	uint8_t log_size;
	uint8_t arm_sn;
	bool armed, arm_sol, error, eqe_out, eqe_due;
	uint32_t eqe_idx;
	uint32_t fired;
	struct ohca_eq *eq;
	struct ohca_pages buf;
	struct ohca_list defer;		/* on eq->deferred while eqe_due */
	struct ohca_list mod;		/* on e->mod while an event waits for more CQEs */
	struct ohca_async async;
	uint16_t mod_count, mod_period;	/* CQEs, microseconds */
	uint32_t mod_left;
	uint64_t mod_deadline;
};

/** struct ohca_xrcd - XRC domain; @targets: its XRC_TGT QPs; @refs: they and its SRQs */
struct ohca_xrcd {
	uint32_t xrcdn;
	uint32_t refs;
	struct ohca_list targets;
};

/**
 * struct ohca_srq - shared receive queue
 * @xrcd: of an XRC SRQ, else NULL; @tm: of one with tags, else NULL; @cq: of both, else NULL
 */
struct ohca_srq {
	uint32_t srqn;
	uint32_t refs;
	uint32_t uar;
	uint32_t pi, ci;
	uint32_t limit;
	uint8_t log_size, log_stride;
	bool error;
	struct ohca_pd *pd;
	struct ohca_xrcd *xrcd;
	struct ohca_tm *tm;
	struct ohca_cq *cq;
	struct ohca_pages buf;
	struct ohca_async async;
};

/**
 * struct ohca_dm - a stretch of device memory
 * @length: bytes that were asked for
 * @off, @size: where it is, whole pages
 * @refs: regions
 * @link: on e->dm_used, in order of @off
 */
struct ohca_dm {
	uint32_t handle, refs;
	uint64_t length, off, size;
	struct ohca_list link;
};

struct ohca_mr {
	uint32_t key;		/* index << 8 | tag, as it must be presented */
	uint8_t type;		/* enum ohca_mr_type */
	bool valid;		/* FRMR, MW2: registered / bound */
	uint32_t access;
	uint32_t refs;		/* windows bound to it */
	uint32_t max_pages;	/* FRMR; their list is reserved for it, as far as there is none */
	uint64_t iova, length;
	uint64_t pl_offset;	/* of the first byte in the pages (window: of its MR) */
	struct ohca_pd *pd;
	struct ohca_pages pages;
	struct ohca_dm *dm;	/* DM; pl_offset is in it */
	struct ohca_odp *odp;	/* of type ODP: in place of @pages */
	struct ohca_mr *bound;	/* MW: region behind the window */
	struct ohca_qp *qp;	/* MW2: the QP it is bound to */
	struct ohca_list qp_link;	/* MW2: on its list of windows while bound */
};

/** struct ohca_missing - what the last access that returned OHCA_MR_FAULT wants */
struct ohca_missing {
	uint64_t addr;		/* first byte that is missing, as the region counts */
	uint64_t len;		/* of the access, from there on */
	uint32_t key;
	bool write;
};

/** enum ohca_fault_side - what of a QP waits for a page */
enum ohca_fault_side {
	OHCA_FAULT_REQ,		/* requester: packets to send, or a response to put down */
	OHCA_FAULT_RECV,	/* responder: a request */
	OHCA_FAULT_READ,	/* responder: a READ response */
	OHCA_FAULT_SIDES
};

/**
 * struct ohca_fault - a page fault that the driver has not answered
 * @qp: who waits; NULL: nobody any more
 * @wqe_idx: OHCA_FAULT_REQ: the send WQE that wants the page
 */
struct ohca_fault {
	struct ohca_qp *qp;
	uint32_t id, gen;
	uint32_t wqe_idx;
	uint8_t side;		/* enum ohca_fault_side */
	bool busy;
};

/** struct ohca_sge - SGE in CPU order */
struct ohca_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* Headers that begin a message for an SRQ with tags, as in libibverbs' tm_types.h. */
#define OHCA_TMH_LEN	16u
#define OHCA_RVH_LEN	16u
enum ohca_tmh_op {
	OHCA_TMH_NO_TAG	= 0,
	OHCA_TMH_RNDV	= 1,
	OHCA_TMH_FIN	= 2,
	OHCA_TMH_EAGER	= 3,
};

enum ohca_tag_state {
	OHCA_TAG_FREE,
	OHCA_TAG_LISTED,	/* on the list or waiting for it */
	OHCA_TAG_TAKEN,		/* by a message */
};

/**
 * struct ohca_tag - a tagged buffer
 * @link: on a list of struct ohca_tm, or of the QP whose rendezvous it is for
 * @hdr: TMH and, of a rendezvous, RVH of the message that has taken it
 */
struct ohca_tag {
	struct ohca_list link;
	uint64_t wr_id;
	uint64_t tag, mask;
	struct ohca_sge sge;
	uint8_t num_sge;
	uint8_t state;		/* enum ohca_tag_state */
	uint8_t hdr[OHCA_TMH_LEN + OHCA_RVH_LEN];
};

/**
 * struct ohca_tm - tag list of an SRQ
 * @list: tags that messages are matched with, in order; @wait: those added while the
 *	numbers of unexpected messages differed
 * @seen: unexpected messages; @told: that number as the consumer has last given it
 * @ci: list operations executed
 */
struct ohca_tm {
	struct ohca_list list, wait;
	uint16_t seen, told;
	uint32_t num_tags;
	uint32_t ci;
	uint8_t log_ops;
	struct ohca_tag tag[];
};

/** enum ohca_rwqe_use - what a message is for which an SRQ with tags gave a buffer */
enum ohca_rwqe_use {
	OHCA_USE_PLAIN,		/* WRITE with immediate data; any of another queue */
	OHCA_USE_NO_TAG,
	OHCA_USE_UNEXPECTED,
	OHCA_USE_EAGER,		/* matched: @tag */
	OHCA_USE_RNDV,		/* the same; its data will be read */
	OHCA_USE_NO_ROOM,	/* the same, but there is more than fits */
};

/**
 * struct ohca_rwqe - a receive WQE, copied and checked for form, or a tagged buffer
 * @tag: number of the tag, as @use says; @told: the consumer knows of the match
 */
struct ohca_rwqe {
	uint64_t wr_id;
	uint32_t wqe_idx;
	uint32_t total;		/* bytes of all SGEs; more than 2^31 is refused */
	uint8_t num_sge;
	bool from_srq;
	bool told;
	uint8_t use;		/* enum ohca_rwqe_use */
	uint16_t tag;
	struct ohca_sge sge[OHCA_MAX_SGE];
};

/** struct ohca_counter_set - what the QPs bound to it have counted; @refs: these QPs */
struct ohca_counter_set {
	uint32_t n;
	uint32_t refs;
	uint64_t cnt[OHCA_CNT_NUM];
};

struct ohca_xport;

/** struct ohca_alt_path - alternate path of a QP; @av little-endian as given, @port from 0 */
struct ohca_alt_path {
	struct ohca_hw_av av;
	uint16_t pkey_index;
	uint8_t port, timeout;
};

/**
 * struct ohca_qp - queue pair, control half
 * @handle: what doorbells and CQEs use; @wire_qpn: number on the wire
 * @xrcd: of an XRC_TGT QP, else NULL; @target: on its list. Such a QP refers to no @pd,
 *	@rcq and @srq of its own, see xrc.c
 * @mig_state: enum ohca_mig_state; @alt: there is one, except in MIGRATED perhaps
 * @mig_refused: the driver was told of a request to migrate that was none
 * @counters: set in which it counts, or NULL
 * @xp: the transport's part
 */
struct ohca_qp {
	uint32_t handle, wire_qpn;
	uint8_t type;		/* enum ohca_qp_type */
	uint8_t state;		/* enum ohca_qp_state */
	uint8_t flags;		/* OHCA_QP_* */
	uint8_t port;		/* index from 0; valid from INIT on */
	uint32_t uar;
	struct ohca_pd *pd;
	struct ohca_cq *scq, *rcq;
	struct ohca_srq *srq;
	struct ohca_xrcd *xrcd;
	struct ohca_list target;
	struct ohca_pages buf;
	uint64_t sq_off, rq_off;
	uint8_t log_sq, log_rq, log_rq_stride;
	uint32_t rq_ci;		/* RQ WQEs taken */
	uint32_t rq_pi;		/* RQ producer index as seen then, or in INIT */
	/* attributes, CPU order */
	uint32_t qkey, dest_qpn, access;
	uint32_t rq_psn, sq_psn;	/* as given by MODIFY */
	uint16_t pkey_index;
	uint8_t path_mtu;	/* 1 to 5 */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, timeout, retry_cnt, rnr_retry;
	bool en_sqd_notify, sqd_draining;
	struct ohca_hw_av av;		/* primary path, little-endian as given */
	struct ohca_alt_path *alt;
	uint8_t mig_state;
	bool mig_refused;
	uint32_t mcast_refs;
	struct ohca_list windows;	/* of type 2 that are bound to it */
	struct ohca_async async;
	struct ohca_counter_set *counters;
	struct ohca_xport *xp;
};

/* MigReq in the BTH of what the QP sends (IBTA vol 1, 17.2.8) */
static inline uint8_t ohca_qp_migreq(const struct ohca_qp *qp)
{
	return qp->mig_state == OHCA_MIG_MIGRATED ? IB_BTH_MIGREQ : 0;
}

/* Acknowledged: RC and XRC. */
static inline bool ohca_qp_reliable(const struct ohca_qp *qp)
{
	return qp->type == OHCA_QPT_RC || qp->type == OHCA_QPT_XRC_INI ||
	       qp->type == OHCA_QPT_XRC_TGT;
}

/*
 * The PD whose L_Keys the QP's receive WQEs and tagged buffers have: the SRQ's, which need not be
 * the QP's (IBTA vol 1, 10.2.9.2). R_Keys, and L_Keys of send WQEs, are of the QP's PD.
 */
static inline const struct ohca_pd *ohca_recv_pd(const struct ohca_qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}

/* UD, SMI or GSI */
static inline bool ohca_qp_datagram(const struct ohca_qp *qp)
{
	return qp->type == OHCA_QPT_SMI || qp->type == OHCA_QPT_GSI ||
	       qp->type == OHCA_QPT_UD;
}

struct ohca_sma;

/**
 * struct ohca_port - one port
 * @cnt: counters the PMA reads (ib/pma.h)
 * @pkey: P_Key table in force, CPU order; @gid: GID table, as on the wire
 * @num_gids: one past the last valid GID, so that looking for one does not take long
 * What is here is a copy for the data path; the SMA (sma.h) is the master and
 * ohca_mad_port_update() (mad.c) refreshes it after every change.
 */
struct ohca_port {
	uint8_t state;		/* 1 Down, 2 Init, 3 Armed, 4 Active */
	bool link_up;
	uint16_t lid;		/* 0: none yet */
	uint8_t lmc;
	uint8_t mtu;		/* NeighborMTU, 1 to 5 */
	uint8_t op_vls;		/* number of data VLs in use */
	uint32_t mbps;		/* of the link, as it trained last */
	uint8_t sl2vl[16];
	uint16_t num_pkeys;
	uint16_t pkey[OHCA_MAX_PKEYS];
	uint16_t num_gids;
	uint8_t gid_valid[OHCA_MAX_GIDS];
	uint8_t gid[OHCA_MAX_GIDS][16];
	struct ohca_port_counters cnt;
	struct ohca_async async;
};

/* Index of the port's GID that a packet to @dgid is for, by the default prefix as well; or -1. */
static inline int ohca_gid_accepts(const struct ohca_port *port, const uint8_t dgid[16])
{
	for (unsigned int i = 0; i < port->num_gids; i++)
		if (port->gid_valid[i] && ib_gid_is(dgid, port->gid[i]))
			return (int)i;
	return -1;
}

/* Index of a GID of the port, or -1. */
static inline int ohca_gid_find(const struct ohca_port *port, const uint8_t gid[16])
{
	for (unsigned int i = 0; i < port->num_gids; i++)
		if (port->gid_valid[i] && memcmp(port->gid[i], gid, 16) == 0)
			return (int)i;
	return -1;
}

/** struct ohca_mcast_grp - QPs attached to one MGID */
struct ohca_mcast_grp {
	struct ohca_mcast_grp *next;	/* hash chain */
	uint8_t mgid[16];
	uint16_t mlid;
	uint32_t num, cap;
	struct ohca_qp **qp;
};
#define OHCA_MCAST_BUCKETS	1024
#define OHCA_MAX_MCAST_GRP	8192
#define OHCA_MAX_MCAST_QP	256

struct ohca_sched;	/* transport.h */
struct ohca_aq;		/* admin.c */
struct ohca_mad;	/* mad.c */

struct ohca_engine {
	struct ohca_cfg cfg;
	struct ohca_host_ops ops;
	void *h;

	/* registers; read by any thread, written by the owner */
	_Atomic uint32_t status, fatal_reason;
	_Atomic uint64_t features_ack;
	_Atomic uint64_t aq_base, acq_base;
	_Atomic uint32_t page_shift, aq_log_size, aq_intr;
	_Atomic uint32_t aq_db;
	uint32_t aq_ci;			/* entries executed */
	bool aq_more;			/* the next is @aqe, and has begun */
	struct ohca_hw_aqe aqe;
	struct ohca_job job;
	uint32_t work;			/* bytes that this run of the admin queue may still move */

	/* doorbells: written by any thread, consumed by the owner (doorbell.c) */
	struct ohca_doorbells *db;

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
	struct ohca_ids qp_ids, cq_ids, srq_ids, mr_ids, pd_ids, xrcd_ids, dm_ids;
	struct ohca_dm **dm;		/* by handle; as many as there are pages */
	struct ohca_list dm_used;
	uint8_t *mr_tag;		/* rotated at each allocation of an index */
	struct ohca_mr local_dma;	/* what OHCA_LOCAL_DMA_LKEY names; not in the table */
	uint32_t num_tags;		/* of all SRQs */
	uint32_t num_odp;		/* regions of type ODP */
	struct ohca_missing missing;
	struct ohca_fault fault[OHCA_MAX_FAULTS];
	uint32_t num_faults, fault_next;
	uint32_t page_entries;		/* addresses held by all page lists */
	uint64_t mem_max, mem_used;	/* bytes: budget, and what is taken of it */
	uint32_t dma_depth;
	struct ohca_list mod;		/* CQs whose moderated event waits */
	uint64_t mod_deadline;		/* the earliest of them */
	uint32_t num_mcast_grp, mcast_total;	/* groups; attachments */
	struct ohca_mcast_grp *mcast[OHCA_MCAST_BUCKETS];

	struct ohca_port port[OHCA_MAX_PORTS];
	struct ohca_mad *mad;
	struct ohca_sched *sched;

	_Atomic uint64_t cnt[OHCA_CNT_NUM];
	uint64_t set_cnt[OHCA_CNT_NUM];	/* what of that was counted in sets, those gone too */
	struct ohca_ids set_ids;
	struct ohca_counter_set *set[OHCA_MAX_COUNTER_SETS];
};

static inline void ohca_count(ohca_engine *e, enum ohca_counter id)
{
	/* only the owner counts here, so this need not be one atomic step */
	atomic_store_explicit(&e->cnt[id],
			      atomic_load_explicit(&e->cnt[id], memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* The device has counted: so does the set of the QP that it counted for. */
static inline void ohca_count_set(ohca_engine *e, const struct ohca_qp *qp, enum ohca_counter id)
{
	if (qp->counters) {
		qp->counters->cnt[id]++;
		e->set_cnt[id]++;
	}
}

static inline void ohca_count_qp(ohca_engine *e, const struct ohca_qp *qp, enum ohca_counter id)
{
	ohca_count(e, id);
	ohca_count_set(e, qp, id);
}

static inline void ohca_trace(ohca_engine *e, enum ohca_trace ev, uint64_t a, uint64_t b,
			      uint64_t c, uint64_t d)
{
	if (e->ops.trace) {
		uint64_t args[4] = { a, b, c, d };

		e->ops.trace(e->h, ev, args);
	}
}

/* Raise OHCA_STATUS_FATAL; no DMA after it until reset. (regs.c) */
void ohca_fatal(ohca_engine *e, enum ohca_fatal reason);

/* Whether the driver has enabled the device and it has not failed: else there is no DMA. */
static inline bool ohca_running(const ohca_engine *e)
{
	uint32_t s = atomic_load_explicit(&e->status, memory_order_relaxed);

	return (s & (OHCA_STATUS_ENABLED | OHCA_STATUS_FATAL)) == OHCA_STATUS_ENABLED;
}

/* Whether the driver has acknowledged a feature (ohca_new() offers them all) */
static inline bool ohca_feature(const ohca_engine *e, enum ohca_feature f)
{
	return atomic_load_explicit(&e->features_ack, memory_order_relaxed) >> f & 1;
}

/* What a CQE says of the WQE with this free running index in a ring of 1 << @log. */
static inline uint32_t ohca_wqe_idx(const ohca_engine *e, uint32_t idx, uint8_t log)
{
	/* the size of a ring that can change says nothing to who reads the CQE later */
	return ohca_feature(e, OHCA_FEATURE_QP_RESIZE) ? idx : idx & ((1u << log) - 1);
}

static inline uint64_t ohca_now(const ohca_engine *e)
{
	return e->ops.now_ns(e->h);
}

/* ---- control half, used by the transport ----------------------------------------- */

/* doorbell.c: hand the collected doorbells to ohca_xp_kick_sq/rq, cq arm, eq ci, admin.
 * Return true if any was found. */
bool ohca_doorbells_run(ohca_engine *e);

/* admin.c: execute up to @budget AQ entries; true if more wait */
bool ohca_admin_run(ohca_engine *e, unsigned int budget);

/*
 * cq.c: append an entry. @cqe: complete but for owner and timestamp, little-endian.
 * @solicited: counts as solicited (or failed) for solicited arming. On overflow the
 * CQ goes to error: CQ_ERR event, and the QP that completes into it to error.
 * Return 0, or -1 on overflow or error (the caller moves its QP to error).
 */
int ohca_cq_push(ohca_engine *e, struct ohca_cq *cq, struct ohca_hw_cqe *cqe, bool solicited);

/* eq.c: asynchronous event; @handle 0 for device and port events; @port from 1 or 0. Without
 * room it waits at its object, which costs nothing: so no guest and no peer can overflow
 * the EQ. */
void ohca_async_event(ohca_engine *e, enum ohca_event type, uint32_t handle, unsigned int port);

/* srq.c / qp.c: take the next receive WQE of @qp (its RQ or SRQ).
 * 1: taken into @out; 0: none posted; <0: malformed: out->wr_id and wqe_idx are set and
 * the negated enum ohca_vendor_err is returned. Raises SRQ_LIMIT when due. */
int ohca_rwqe_take(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *out);
/* qp.c: doorbell suppression of a QP's own RQ. @want: ring from the next post on (for a QP
 * in ERR); else never. Return: whether WQEs are posted that have not been taken. */
bool ohca_rq_notify(ohca_engine *e, struct ohca_qp *qp, bool want);
/* WQEs posted to a QP's own RQ and not taken; -1: its record is unreadable or cannot be true */
int64_t ohca_rq_posted(ohca_engine *e, struct ohca_qp *qp);

/* mr.c */
/**
 * struct ohca_mr_range - checked permission for [addr, addr + len)
 *
 * Good until the owner function that got it returns: the next command may take the MR
 * away. Work that lasts longer keeps the key and checks it again.
 */
struct ohca_mr_range {
	struct ohca_mr *mr;
	uint64_t off;		/* of addr in the MR's pages; bus address for DMA MRs;
				 * in the device memory for DM MRs */
	uint64_t len;
};
/* Check a local key of @qp. @pd: that it must be of, of a receive WQE: ohca_recv_pd(). @write:
 * device will write (LOCAL_WRITE needed). 0 or vendor error */
int ohca_lkey_check(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t lkey, uint64_t addr, uint64_t len, bool write,
		    struct ohca_mr_range *r);
/* Check a remote key for @access (one OHCA_ACCESS_REMOTE_*). 0 or vendor error. len 0 is
 * always allowed by the caller without a check (IBTA vol 1, 9.7.4.1.4) */
int ohca_rkey_check(ohca_engine *e, const struct ohca_qp *qp, uint32_t rkey, uint64_t addr,
		    uint64_t len, uint32_t access, struct ohca_mr_range *r);
/* The same for all of what the key names, wherever that is. */
int ohca_rkey_whole(ohca_engine *e, const struct ohca_qp *qp, uint32_t rkey, uint32_t access,
		    struct ohca_mr_range *r);
/* Copy; 0, -1 when memory behind the range is gone, or OHCA_MR_FAULT: a page is missing,
 * which e->missing names. Then any part may have been copied. */
#define OHCA_MR_FAULT	(-2)
int ohca_mr_read(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, void *buf, size_t n);
int ohca_mr_write(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, const void *buf,
		  size_t n);
/* Atomic on 8 aligned bytes in host order of the guest (x86: LE) memory: returns the
 * previous value in *@old. 0, -1 or OHCA_MR_FAULT. */
int ohca_mr_atomic(ohca_engine *e, const struct ohca_mr_range *r, const struct ohca_atomic *a,
		   uint64_t *old);
/* Write 8 bytes, of which nobody sees a part. 0, -1: no such memory, or not aligned, or
 * OHCA_MR_FAULT. */
int ohca_mr_write8(ohca_engine *e, const struct ohca_mr_range *r, const void *buf);
/*
 * Memory of a range from byte *@done on that could be persistent, as at most @max stretches
 * of the bus; *@done moves behind them. Pages that follow each other are one stretch. The
 * number of stretches; 0: that was all.
 */
unsigned int ohca_mr_runs(const struct ohca_mr_range *r, uint64_t *done, struct ohca_run *run,
			  unsigned int max);
/* Gather @len bytes of the SGE list of a send WQE, from byte @off of the message on, to @dst;
 * scatter the other way, with keys of @pd. Every key is checked at every call. 0, vendor error or
 * OHCA_MR_FAULT. */
int ohca_sgl_gather(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_sge *sge,
		    unsigned int num, uint32_t off, void *dst, uint32_t len);
int ohca_sgl_scatter(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		     const struct ohca_sge *sge, unsigned int num, uint32_t off, const void *src,
		     uint32_t len);
/* WQE operations on keys; 0 or vendor error */
int ohca_mr_fast_reg(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_hw_wqe_reg *reg);
int ohca_mr_invalidate(ohca_engine *e, const struct ohca_qp *qp, uint32_t key, bool remote);
int ohca_mw_bind(ohca_engine *e, struct ohca_qp *qp, const struct ohca_hw_wqe_reg *reg);

/*
 * fault.c: tell the driver of e->missing; @qp waits for it at @side. Return: a reference for
 * ohca_fault_forget(), or 0: too many are unanswered; ohca_xp_fault_room() is called when
 * one fewer is. ohca_xp_resume() ends the wait.
 */
uint16_t ohca_fault_tell(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
			 uint32_t wqe_idx);
/* nobody waits for @ref any more */
void ohca_fault_forget(ohca_engine *e, uint16_t ref);

/* xrc.c: the XRC SRQ of the target @qp's domain with this number. 0, OHCA_VE_XRC_SRQ if
 * there is none, OHCA_VE_PD if it is of another domain */
int ohca_xrc_srq(ohca_engine *e, const struct ohca_qp *qp, uint32_t srqn, struct ohca_srq **srq);

/* tm.c: the first tag that matches, taken off the list; NULL if there is none */
struct ohca_tag *ohca_tm_take(struct ohca_srq *srq, uint64_t tag);
/* a message is unexpected, or will not have been: its receive failed */
void ohca_tm_unexpected(struct ohca_tm *tm);
void ohca_tm_not_unexpected(struct ohca_tm *tm);
/* whether the consumer should say soon how many of them he has seen */
bool ohca_tm_far_behind(const struct ohca_tm *tm);
/* fill in what a CQE says of the SRQ and of the message that has taken @t (or NULL) */
void ohca_tm_cqe(const struct ohca_srq *srq, const struct ohca_tag *t, struct ohca_hw_cqe *c);
/* the message that has taken @t is done: @t is free, and @c says so */
void ohca_tm_done(struct ohca_srq *srq, struct ohca_tag *t, struct ohca_hw_cqe *c);

/* mcast.c: group of @mgid or NULL */
struct ohca_mcast_grp *ohca_mcast_find(ohca_engine *e, const uint8_t mgid[16]);

/* qp.c: QP by its number on the wire at a port (0 and 1 are the port's SMI and GSI) */
struct ohca_qp *ohca_qp_by_wire(ohca_engine *e, unsigned int port, uint32_t qpn);
/* qp.c: move to ERR because of an error. @ev: asynchronous event to raise, or 0. Calls
 * ohca_xp_state(); safe to call from the transport at any point of packet handling. */
void ohca_qp_error(ohca_engine *e, struct ohca_qp *qp, enum ohca_event ev, uint32_t vendor_err);
/* qp.c: move an RTS UC, UD, SMI or GSI QP to SQE after a send completed in error */
void ohca_qp_sqe(ohca_engine *e, struct ohca_qp *qp, uint32_t vendor_err);

/* apm.c */
/* The alternate path becomes the primary one: PATH_MIG. False: the QP is not ARMED. */
bool ohca_mig_go(ohca_engine *e, struct ohca_qp *qp);
/* A packet that asks for migration is not accepted: PATH_MIG_ERR */
void ohca_mig_refuse(ohca_engine *e, struct ohca_qp *qp);

/* mad.c: a datagram for QP0 or QP1 came from the wire or by loopback. @hdr: its headers
 * (LRH on; source QP in the DETH, GRH if any) and @mad: 256 bytes, both private copies.
 * True: SMA or PMA took it (a reply, if any, is sent by ohca_mad_send()). False: deliver
 * it to the QP. */
bool ohca_mad_rx(ohca_engine *e, unsigned int port, const struct ib_pkt_info *pkt,
		 const uint8_t *hdr, const uint8_t *mad);
void ohca_mad_link(ohca_engine *e, unsigned int port, const struct ohca_link_rate *rate);
void ohca_mad_port_update(ohca_engine *e, unsigned int port);
/* The arbiter of the port's data VLs, with the tables in force. */
struct ib_vlarb *ohca_mad_vlarb(ohca_engine *e, unsigned int port);
/* a packet with a P_Key or Q_Key that does not match arrived: counter and trap */
void ohca_mad_bad_pkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v);
void ohca_mad_bad_qkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v);
/* a packet on a data VL arrived at a port that is Armed: it becomes Active */
void ohca_mad_rx_data(ohca_engine *e, unsigned int port);
uint64_t ohca_mad_deadline(const ohca_engine *e);
void ohca_mad_timer(ohca_engine *e, uint64_t now);

/* ---- transport half, used by the control half ------------------------------------ */

int ohca_sched_init(ohca_engine *e);		/* ohca_new: 0 or -1 (memory) */
void ohca_sched_free(ohca_engine *e);
void ohca_sched_reset(ohca_engine *e);		/* forget queued MADs and looped packets */
/* Move packets; @budget as of ohca_poll(). True if there is more to do at once. */
bool ohca_sched_run(ohca_engine *e, unsigned int budget);
uint64_t ohca_sched_deadline(const ohca_engine *e);	/* or OHCA_NO_DEADLINE */
int ohca_xp_create(ohca_engine *e, struct ohca_qp *qp);	/* 0 or -1 (memory) */
/* @qp is about to be destroyed or reset: what it has received is acknowledged */
void ohca_xp_last_words(ohca_engine *e, struct ohca_qp *qp);
/* no list, timer or packet refers to @qp afterwards */
void ohca_xp_destroy(ohca_engine *e, struct ohca_qp *qp);
/* @qp->state changed from @old (and attributes with @mask): start, stop, flush, ... A
 * transition to ERR flushes both queues, now and whenever more is posted. To RESET:
 * forget everything, remove nothing from CQs (drivers do). -1: memory */
int ohca_xp_state(ohca_engine *e, struct ohca_qp *qp, uint8_t old, uint32_t mask);
/* The SRQ of the message that the target @qp is receiving goes, and its WQE with it. */
void ohca_xp_srq_gone(ohca_engine *e, struct ohca_qp *qp);
/* @qp has another path: it waits for no credits of the old one and has all its retries */
void ohca_xp_migrated(ohca_engine *e, struct ohca_qp *qp);
void ohca_xp_kick_sq(ohca_engine *e, struct ohca_qp *qp);
void ohca_xp_kick_rq(ohca_engine *e, struct ohca_qp *qp);	/* flush in ERR */
/*
 * What is in the send queue: from the BB of the oldest WQE not completed, *@ci, up to *@pi, as
 * the record says. -1: the record is unreadable or cannot be true, which harms nobody yet.
 */
int ohca_xp_sq_posted(ohca_engine *e, const struct ohca_qp *qp, uint32_t *ci, uint32_t *pi);
/* @qp->log_sq and where the queue lies have changed, and what is in it is there */
void ohca_xp_sq_moved(ohca_engine *e, struct ohca_qp *qp);
/* current PSNs and draining for QUERY */
void ohca_xp_query(ohca_engine *e, const struct ohca_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn,
		   bool *draining);
/* the transport's part of QUERY_CONTEXT */
void ohca_xp_context(const struct ohca_qp *qp, struct ohca_hw_qp_context *x);
void ohca_xp_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes);
/* tx.c: PortXmitWait and PortVLXmitWait have the time until now; who waits no more has waited */
void ohca_xp_wait_update(ohca_engine *e);
/* suspend.c: a fault of @qp is answered; @ok: try again, else what wanted the page fails */
void ohca_xp_resume(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		    uint32_t wqe_idx, bool ok);
/* sched.c: who could not tell of a fault may try again */
void ohca_xp_fault_room(ohca_engine *e);
/* a port left Armed/Active or its LID, P_Keys, VLs changed: nothing is sent on a port
 * that is not Active except SMPs */
void ohca_xp_port(ohca_engine *e, unsigned int port);
/* tx.c: send one 256-byte MAD as a UD packet from QP @src_qp (0 or 1) with @av (dqpn,
 * qkey, dlid, sl, path bits, GRH); VL15 for QP0. @pkey: CPU order. Queued if there are no
 * credits (bounded; the oldest is dropped and counted). slid: 0xffff for directed route */
void ohca_mad_send(ohca_engine *e, unsigned int port, unsigned int src_qp,
		   const struct ohca_hw_av *av, uint16_t pkey, uint16_t slid, const uint8_t *mad);

#endif /* OHCA_ENGINE_INTERNAL_H */
