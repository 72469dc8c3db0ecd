/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA provider: its objects, and what its files share.
 *
 * A queue lies in the process's own memory, laid out as ohca_layout.h says. All
 * indices are free running modulo 2^32; masks are applied where memory is touched.
 */

#ifndef OHCA_H
#define OHCA_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <ccan/list.h>
#include <infiniband/driver.h>
#include <util/compiler.h>
#include <util/mmio.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "lock.h"
#include "ohca_hw.h"

#define OHCA_MAX_PORTS 2

/**
 * enum ohca_res_type - the use of memory from a parent domain's allocator
 *
 * Passed as resource_type to the callbacks of struct ibv_parent_domain_init_attr.
 */
enum ohca_res_type {
	OHCA_RES_QP = 1,
	OHCA_RES_SRQ = 2,
	OHCA_RES_CQ = 3,
};

/**
 * struct ohca_context - one open device
 * @uar: its doorbell page
 * @dying: QPs that are being destroyed
 * @dying_srqs: the same for XRC SRQs
 * @dying_lock: guards @dying and @dying_srqs. No command runs under it, and no thread waits for
 *	another lock under it
 * @cleaned: an object of @dying or @dying_srqs is OHCA_CLEAN
 */
struct ohca_context {
	struct verbs_context ibv_ctx;
	uint8_t *uar;
	size_t uar_size;
	size_t page_size;
	uint64_t features;	/* bits of enum ohca_feature */
	uint32_t max_inline;
	uint32_t max_sge;
	uint8_t log_max_sq_bbs;
	uint8_t log_max_rq_wqes;
	uint8_t log_max_srq_wqes;
	uint8_t log_max_cqe;
	uint8_t num_ports;
	/* GID table length of each port; 0: not queried yet */
	atomic_int gid_tbl_len[OHCA_MAX_PORTS];
	struct list_head dying;
	struct list_head dying_srqs;
	pthread_mutex_t dying_lock;
	pthread_cond_t cleaned;
};

/** enum ohca_cleaning - completions of an object that is being destroyed */
enum ohca_cleaning {
	OHCA_UNCLEAN,	/* may be in its CQs */
	OHCA_CLEANING,	/* a thread removes them */
	OHCA_CLEAN,
};

/** struct ohca_td - thread domain; @refs counts the parent domains that name it */
struct ohca_td {
	struct ibv_td ibv_td;
	atomic_int refs;
};

/**
 * struct ohca_pd - protection domain or parent domain
 * @ibv_pd: the library's part
 * @pdn: its number; of a parent domain that of @base
 * @refs: parent domains, queues and AHs that refer to it from user space
 * @base: parent domain: its protection domain; else NULL
 * @td: parent domain: its thread domain or NULL
 * @alloc: parent domain: the consumer's allocator or NULL
 * @free: the reverse of @alloc
 * @pd_context: argument of @alloc and @free
 */
struct ohca_pd {
	struct ibv_pd ibv_pd;
	uint32_t pdn;
	atomic_int refs;
	struct ohca_pd *base;
	struct ohca_td *td;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr,
		     uint64_t resource_type);
	void *pd_context;
};

/**
 * struct ohca_buf - memory of one queue
 * @addr: page aligned
 * @size: bytes, a multiple of the page size
 * @pd: parent domain whose allocator it came from; NULL: mmap
 * @type: enum ohca_res_type
 */
struct ohca_buf {
	void *addr;
	size_t size;
	struct ohca_pd *pd;
	uint64_t type;
};

/**
 * struct ohca_dm - device memory
 * @vdm: the library's part
 * @addr: address of the mapping
 * @map_size: bytes mapped, whole pages
 * @length: its bytes
 */
struct ohca_dm {
	struct verbs_dm vdm;
	uint8_t *addr;
	size_t map_size;
	uint64_t length;
};

/**
 * struct ohca_ah - address handle
 * @ibv_ah: the library's part
 * @pdn: number of the protection domain whose QPs may send by it
 * @av: ready to be copied into a WQE
 * @pd: refers to it
 */
struct ohca_ah {
	struct ibv_ah ibv_ah;
	uint32_t pdn;
	struct ohca_hw_av av;
	struct ohca_pd *pd;
};

struct ohca_srq;

/**
 * struct ohca_cq - completion queue
 * @ring: first CQE
 * @db: doorbell record
 * @mask: entries of the ring - 1
 * @log_size: log2 of the entries of the ring
 * @ci: consumer index
 * @lock: guards the members above
 * @cur: extended polling: entry of the read functions
 * @tm_srqs: SRQs with tags that complete here
 * @wall_offset: offset from a timestamp to the time of day, in ns
 * @wall_until: CLOCK_MONOTONIC, in ns, end of the validity of @wall_offset
 * @arm_sn: events taken from this CQ
 * @cqn: number of the CQ
 * @uar: doorbell page
 * @buf: holds @ring and @db
 * @pd: parent domain it refers to, or NULL
 */
struct ohca_cq {
	struct verbs_cq vcq;
	struct ohca_hw_cqe *ring;
	struct ohca_hw_db *db;
	uint32_t mask;
	uint32_t log_size;
	_Atomic(uint32_t) ci;
	struct ohca_lock lock;
	const struct ohca_hw_cqe *cur;
	struct ohca_srq *tm_srqs;
	uint64_t wall_offset;
	uint64_t wall_until;
	atomic_uint arm_sn;
	uint32_t cqn;
	uint8_t *uar;
	struct ohca_buf buf;
	struct ohca_pd *pd;
};

/**
 * struct ohca_rq - receive queue of a QP, or an SRQ
 * @ring: first WQE
 * @db: doorbell record
 * @doorbell: register of the UAR page to which the producer index is written
 * @number: number of the QP or SRQ that is written with it
 * @pi: producer index in WQEs
 * @ci: the device's consumer index as last seen
 * @size: WQEs of the ring
 * @log_stride: log2 of the stride in bytes
 * @offset_mask: mask from an index in bytes to an offset in @ring
 * @sge_limit: SGEs a WQE may have + 1; 0 while nothing may be posted
 * @lock: guards the members above
 */
struct ohca_rq {
	uint8_t *ring;
	struct ohca_hw_db *db;
	uint8_t *doorbell;
	uint32_t number;
	uint32_t pi;
	uint32_t ci;
	uint32_t size;
	uint32_t log_stride;
	uint32_t offset_mask;
	uint32_t sge_limit;
	struct ohca_lock lock;
};

/**
 * struct ohca_sq - send queue of a QP
 * @ring: first basic block
 * @end: behind the last basic block
 * @pi: producer index in basic blocks
 * @ci: the device's consumer index as last seen
 * @size: basic blocks of the ring
 * @ops: bit n: operation n of enum ohca_wqe_op may be posted now; 0 in states in
 *	which none may, so that one test covers type, state and opcode
 * @post_ops: of these, those that ibv_post_send() can express
 * @fast_ops: of these, those with data, without an XRC segment
 * @no_flags: bits of enum ibv_send_flags that are invalid
 * @slow_flags: @no_flags, inline, and all undefined bits
 * @sge_limit: SGEs a WQE may have + 1
 * @max_inline: inline bytes a WQE may have
 * @max_tso_header: largest headers before a large segment, bytes; 0: no large segments
 * @dgram: every WQE carries an address vector
 * @pdn: number of the QP's protection domain
 * @xrc: every WQE that sends a packet carries an XRC segment
 * @room: most basic blocks in use with which the largest WQE still fits
 * @offset_mask: mask from an index in bytes to an offset in @ring
 * @lock: guards the members above and below; a builder holds it from wr_start() on
 * @wqe: builder: WQE under construction or NULL
 * @wqe_pi: builder: index of its first block; without @wqe the PI of the complete WQEs
 * @wqe_bbs: builder: its blocks so far
 * @wqe_hdr: builder: its segments before the SGEs or inline data
 * @err: builder: first error
 */
struct ohca_sq {
	uint8_t *ring;
	uint8_t *end;
	uint32_t pi;
	uint32_t ci;
	uint32_t size;
	uint32_t ops;
	uint32_t post_ops;
	uint32_t fast_ops;
	uint32_t no_flags;
	uint32_t slow_flags;
	uint32_t sge_limit;
	uint32_t max_inline;
	uint32_t max_tso_header;
	bool dgram;
	bool xrc;
	uint32_t pdn;
	uint32_t room;
	uint32_t offset_mask;
	struct ohca_lock lock;
	struct ohca_hw_wqe_ctrl *wqe;
	uint32_t wqe_pi;
	uint32_t wqe_bbs;
	uint32_t wqe_hdr;
	int err;
};

#define OHCA_CACHE_LINE 64

/**
 * struct ohca_qp - queue pair
 * @db: doorbell record of both
 * @uar: doorbell page
 * @handle: the number doorbells and CQEs use
 * @all_ops: value of @sq.ops in the states in which posting is allowed
 * @rq_sge_limit: value of @rq.sge_limit in such states
 * @tags: its SRQ has tags: the device uses the send queue
 * @wqe_bbs: basic blocks of the largest send WQE
 * @cap: capabilities as last reported
 * @buf: holds the rings and @db
 * @pd: parent domain it refers to, or NULL
 * @dying: in @ohca_context.dying
 * @cleaning: of its CQs; guarded by @ohca_context.dying_lock
 * @sq: send queue
 * @rq: receive queue; unused with an SRQ
 *
 * Different threads may send and receive. Each queue has its own cache lines; members that both
 * read rarely change. Allocated by ohca_qp_new().
 */
struct ohca_qp {
	struct verbs_qp vqp;
	struct ohca_hw_db *db;
	uint8_t *uar;
	uint32_t handle;
	uint32_t all_ops;
	uint32_t rq_sge_limit;
	bool tags;
	uint32_t wqe_bbs;
	struct ibv_qp_cap cap;
	struct ohca_buf buf;
	struct ohca_pd *pd;
	struct list_node dying;
	enum ohca_cleaning cleaning;
	struct ohca_sq sq __attribute__((aligned(OHCA_CACHE_LINE)));
	struct ohca_rq rq __attribute__((aligned(OHCA_CACHE_LINE)));
};

/**
 * struct ohca_tm - list operations and tags of an SRQ
 * @ring: list operations
 * @size: entries of the ring
 * @pi: producer index
 * @ci: operations whose result has been read
 * @num_tags: tags
 * @free: first free tag; @num_tags: none is free
 * @lock: guards the members above, and @tag; taken with the CQ's lock held, or the SRQ's; always
 *	needed
 * @cq: CQ of the SRQ
 * @next: next SRQ with tags of the same CQ
 * @tag: by number; @tag.next is the next free one
 */
struct ohca_tm {
	struct ohca_hw_tm_wqe *ring;
	uint32_t size;
	uint32_t pi;
	uint32_t ci;
	uint32_t num_tags;
	uint32_t free;
	struct ohca_lock lock;
	struct ohca_cq *cq;
	struct ohca_srq *next;
	struct {
		uint32_t next;
		bool used;
	} tag[];
};

/**
 * struct ohca_srq - shared receive queue; fields as in struct ohca_qp
 * @tm: tags, or NULL
 * @xrc_cq: the CQ of an XRC SRQ, else NULL
 * @dying: in @ohca_context.dying_srqs
 * @cleaning: as of struct ohca_qp
 */
struct ohca_srq {
	struct verbs_srq vsrq;
	struct ohca_rq rq;
	struct ohca_tm *tm;
	struct ohca_cq *xrc_cq;
	struct list_node dying;
	enum ohca_cleaning cleaning;
	struct ohca_buf buf;
	struct ohca_pd *pd;
};

static inline struct ohca_context *to_octx(struct ibv_context *ibctx)
{
	return container_of(ibctx, struct ohca_context, ibv_ctx.context);
}

static inline struct ohca_pd *to_opd(struct ibv_pd *ibpd)
{
	return container_of(ibpd, struct ohca_pd, ibv_pd);
}

static inline struct ohca_td *to_otd(struct ibv_td *ibtd)
{
	return container_of(ibtd, struct ohca_td, ibv_td);
}

static inline struct ohca_ah *to_oah(struct ibv_ah *ibah)
{
	return container_of(ibah, struct ohca_ah, ibv_ah);
}

static inline struct ohca_dm *to_odm(struct ibv_dm *ibdm)
{
	return container_of(ibdm, struct ohca_dm, vdm.dm);
}

static inline struct ohca_cq *to_ocq(struct ibv_cq *ibcq)
{
	return container_of(ibcq, struct ohca_cq, vcq.cq);
}

static inline struct ohca_cq *to_ocq_ex(struct ibv_cq_ex *ibcq)
{
	return container_of(ibcq, struct ohca_cq, vcq.cq_ex);
}

static inline struct ohca_qp *to_oqp(struct ibv_qp *ibqp)
{
	return container_of(ibqp, struct ohca_qp, vqp.qp);
}

static inline struct ohca_qp *to_oqp_ex(struct ibv_qp_ex *ibqp)
{
	return container_of(ibqp, struct ohca_qp, vqp.qp_ex);
}

static inline struct ohca_srq *to_osrq(struct ibv_srq *ibsrq)
{
	return container_of(ibsrq, struct ohca_srq, vsrq.srq);
}

static inline bool ohca_has_feature(const struct ohca_context *ctx,
				    enum ohca_feature bit)
{
	return (ctx->features >> bit) & 1;
}

/*
 * ohca_errno - what a verb returns
 * @err: 0, or the errno value of a refusal of the provider's own
 *
 * Applications look at errno after any verb. A refusal of the kernel sets it; one of the provider
 * must do so, too. Not for what only says that there is nothing, as ENOENT of a poll.
 *
 * Return: @err.
 */
static inline int ohca_errno(int err)
{
	if (unlikely(err))
		errno = err;
	return err;
}

/*
 * Words shared with the device. A load sees all that the device wrote before the word;
 * the device sees all that was written before a store when it sees the store.
 * On x86 both are plain moves.
 */
static inline uint32_t ohca_load_le32(const __le32 *p)
{
	return le32toh((__force __le32)atomic_load_explicit(
		(const _Atomic(uint32_t) *)p, memory_order_acquire));
}

static inline void ohca_store_le32(__le32 *p, uint32_t v)
{
	atomic_store_explicit((_Atomic(uint32_t) *)p, (__force uint32_t)htole32(v),
			      memory_order_release);
}

/*
 * ohca_full_barrier - the stores before it are visible to the device before a load after it
 *
 * Compilers for x86 make a locked instruction of a fence. QEMU emulates a machine of one
 * processor without the lock, since no other processor could see the difference. The device
 * is a thread of the host and sees it. mfence is a barrier of the host in each case.
 */
static inline void ohca_full_barrier(void)
{
#ifdef __x86_64__
	asm volatile("mfence" ::: "memory");
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * ohca_ring - publish a producer index, and ring the doorbell if the device requested it
 * @pi: producer index in the doorbell record
 * @event: the device's event index
 * @old_pi: published before
 * @new_pi: to publish
 * @db: doorbell of the UAR page
 * @handle: number of the queue
 *
 * Called with the queue's lock held. The full barrier pairs with the device's,
 * between its store of the event index and its last read of the producer index:
 * one of the two sees the other's store.
 */
static inline void ohca_ring(__le32 *pi, const __le32 *event, uint32_t old_pi,
			     uint32_t new_pi, void *db, uint32_t handle)
{
	udma_to_device_barrier();
	ohca_store_le32(pi, new_pi);
	ohca_full_barrier();
	if (unlikely(ohca_db_needed(ohca_load_le32(event), new_pi, old_pi))) {
		/* the fence orders processors; the index must reach the device first */
		udma_to_device_barrier();
		mmio_write64_le(db, htole64((uint64_t)new_pi << 32 | handle));
	}
}

/* buf.c */
int ohca_buf_alloc(struct ohca_context *ctx, struct ohca_buf *buf,
		   struct ohca_pd *pd, uint64_t size, enum ohca_res_type type);
void ohca_buf_free(struct ohca_buf *buf);

/* pd.c */
struct ibv_pd *ohca_alloc_pd(struct ibv_context *ibctx);
int ohca_dealloc_pd(struct ibv_pd *ibpd);
struct ibv_pd *ohca_import_pd(struct ibv_context *ibctx, uint32_t handle);
void ohca_unimport_pd(struct ibv_pd *ibpd);
struct ibv_td *ohca_alloc_td(struct ibv_context *ibctx,
			     struct ibv_td_init_attr *attr);
int ohca_dealloc_td(struct ibv_td *ibtd);
struct ibv_pd *ohca_alloc_parent_domain(struct ibv_context *ibctx,
					struct ibv_parent_domain_init_attr *attr);
struct ohca_pd *ohca_parent_domain_get(struct ibv_pd *ibpd);
void ohca_parent_domain_put(struct ohca_pd *pd);

/* xrc.c */
struct ibv_xrcd *ohca_open_xrcd(struct ibv_context *ibctx,
				struct ibv_xrcd_init_attr *attr);
int ohca_close_xrcd(struct ibv_xrcd *ibxrcd);
struct ibv_qp *ohca_open_qp(struct ibv_context *ibctx,
			    struct ibv_qp_open_attr *attr);
struct ibv_qp *ohca_create_target(struct ibv_context *ibctx,
				  struct ibv_qp_init_attr_ex *attr);

/* mr.c */
struct ibv_mr *ohca_reg_mr(struct ibv_pd *ibpd, void *addr, size_t length,
			   uint64_t hca_va, int access);
struct ibv_mr *ohca_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access);
int ohca_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *ibpd,
		  void *addr, size_t length, int access);
int ohca_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *ohca_import_mr(struct ibv_pd *ibpd, uint32_t handle);
void ohca_unimport_mr(struct ibv_mr *ibmr);
struct ibv_mw *ohca_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type);
int ohca_dealloc_mw(struct ibv_mw *mw);
int ohca_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind);

/* dm.c */
struct ibv_dm *ohca_alloc_dm(struct ibv_context *ibctx,
			     struct ibv_alloc_dm_attr *attr);
int ohca_free_dm(struct ibv_dm *ibdm);
struct ibv_dm *ohca_import_dm(struct ibv_context *ibctx, uint32_t handle);
void ohca_unimport_dm(struct ibv_dm *ibdm);
struct ibv_mr *ohca_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm,
			      uint64_t offset, size_t length,
			      unsigned int access);

/* ah.c */
struct ibv_ah *ohca_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr);
int ohca_destroy_ah(struct ibv_ah *ibah);

/* cq.c */
struct ibv_cq *ohca_create_cq(struct ibv_context *ibctx, int cqe,
			      struct ibv_comp_channel *channel,
			      int comp_vector);
struct ibv_cq_ex *ohca_create_cq_ex(struct ibv_context *ibctx,
				    struct ibv_cq_init_attr_ex *attr);
int ohca_resize_cq(struct ibv_cq *ibcq, int cqe);
int ohca_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr);
int ohca_destroy_cq(struct ibv_cq *ibcq);

/* poll.c */
int ohca_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc);
int ohca_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
void ohca_cq_event(struct ibv_cq *ibcq);
uint32_t ohca_cq_pending(const struct ohca_cq *cq);
void ohca_cq_clean(struct ohca_cq *cq, uint32_t handle);
void ohca_cq_clean_srq(struct ohca_cq *cq, uint32_t srqn);
void ohca_cq_fill_poll_ops(struct ohca_cq *cq, uint64_t wc_flags);

/* clock.c */
uint64_t ohca_device_ns(struct ohca_context *ctx);
int ohca_query_rt_values(struct ibv_context *ibctx,
			 struct ibv_values_ex *values);
uint64_t ohca_wallclock_ns(struct ohca_cq *cq, uint64_t device_ns);

/* qp.c */
struct ohca_qp *ohca_qp_new(void);
bool ohca_clean_begin(struct ohca_context *ctx, enum ohca_cleaning *cleaning);
void ohca_clean_end(struct ohca_context *ctx, enum ohca_cleaning *cleaning);
void ohca_qp_take_number(struct ohca_context *ctx, uint32_t handle);
struct ibv_qp *ohca_create_qp(struct ibv_pd *ibpd,
			      struct ibv_qp_init_attr *attr);
struct ibv_qp *ohca_create_qp_ex(struct ibv_context *ibctx,
				 struct ibv_qp_init_attr_ex *attr);
int ohca_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
		   int attr_mask);
int ohca_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr);
int ohca_destroy_qp(struct ibv_qp *ibqp);

/* srq.c */
struct ibv_srq *ohca_create_srq(struct ibv_pd *ibpd,
				struct ibv_srq_init_attr *attr);
struct ibv_srq *ohca_create_srq_ex(struct ibv_context *ibctx,
				   struct ibv_srq_init_attr_ex *attr);
int ohca_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		    int attr_mask);
int ohca_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int ohca_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num);
int ohca_destroy_srq(struct ibv_srq *ibsrq);

/* tm.c */
int ohca_tm_init(struct ohca_srq *srq, struct ohca_cq *cq, uint32_t log_ops,
		 uint32_t num_tags);
void ohca_tm_attach(struct ohca_srq *srq);
void ohca_tm_detach(struct ohca_srq *srq);
void ohca_tm_settle(struct ohca_srq *srq);
void ohca_tm_free_tag(struct ohca_cq *cq, const struct ohca_hw_cqe *cqe)
	OHCA_COLD;
int ohca_post_srq_ops(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr,
		      struct ibv_ops_wr **bad_wr);

/* wr.c */
int ohca_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr);
int ohca_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr);
int ohca_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr);

/* wr_ex.c */
int ohca_qp_fill_wr_ops(struct ohca_qp *qp, uint64_t send_ops_flags);

#endif /* OHCA_H */
