// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Polling and arming of CQs, in both interfaces. */

#include "ohca.h"

static_assert(offsetof(struct ibv_wc, wr_id) ==
		      offsetof(struct ohca_hw_cqe, wr_id) &&
	      offsetof(struct ibv_wc, status) ==
		      offsetof(struct ohca_hw_cqe, status) &&
	      offsetof(struct ibv_wc, opcode) ==
		      offsetof(struct ohca_hw_cqe, opcode) &&
	      offsetof(struct ibv_wc, vendor_err) ==
		      offsetof(struct ohca_hw_cqe, vendor_err) &&
	      offsetof(struct ibv_wc, byte_len) ==
		      offsetof(struct ohca_hw_cqe, byte_len) &&
	      offsetof(struct ibv_wc, imm_data) ==
		      offsetof(struct ohca_hw_cqe, imm) &&
	      offsetof(struct ibv_wc, qp_num) ==
		      offsetof(struct ohca_hw_cqe, qp_num) &&
	      offsetof(struct ibv_wc, src_qp) ==
		      offsetof(struct ohca_hw_cqe, src_qp) &&
	      offsetof(struct ibv_wc, wc_flags) ==
		      offsetof(struct ohca_hw_cqe, wc_flags) &&
	      offsetof(struct ibv_wc, pkey_index) ==
		      offsetof(struct ohca_hw_cqe, pkey_index) &&
	      offsetof(struct ibv_wc, slid) ==
		      offsetof(struct ohca_hw_cqe, slid) &&
	      offsetof(struct ibv_wc, sl) == offsetof(struct ohca_hw_cqe, sl) &&
	      offsetof(struct ibv_wc, dlid_path_bits) ==
		      offsetof(struct ohca_hw_cqe, dlid_path_bits) &&
	      sizeof(struct ibv_wc) == offsetof(struct ohca_hw_cqe, timestamp),
	      "the head of a CQE must be a struct ibv_wc");

static inline struct ohca_hw_cqe *ohca_cq_entry(const struct ohca_cq *cq,
						uint32_t i)
{
	return &cq->ring[i & cq->mask];
}

/* Whether the device has written @cqe, the entry with free running index @ci. */
static inline bool ohca_cq_written(const struct ohca_cq *cq,
				   const struct ohca_hw_cqe *cqe, uint32_t ci)
{
	uint8_t owner;

	owner = atomic_load_explicit((const _Atomic(uint8_t) *)&cqe->owner,
				     memory_order_acquire);
	if (!ohca_cqe_valid(owner, ci, cq->log_size))
		return false;
#if !defined(__x86_64__) && !defined(__i386__)
	/* DMA needs more than the acquire. Loads of x86 stay in order anyway. */
	udma_from_device_barrier();
#endif
	return true;
}

/* The entry with free running index @ci if the device has written it, or NULL. */
static inline const struct ohca_hw_cqe *ohca_cq_peek(const struct ohca_cq *cq,
						     uint32_t ci)
{
	const struct ohca_hw_cqe *cqe = ohca_cq_entry(cq, ci);

	return ohca_cq_written(cq, cqe, ci) ? cqe : NULL;
}

static inline uint32_t ohca_cq_ci(const struct ohca_cq *cq)
{
	return atomic_load_explicit(&cq->ci, memory_order_relaxed);
}

/* Entries before @ci are read: the device may overwrite them. */
static inline void ohca_cq_consume(struct ohca_cq *cq, uint32_t ci)
{
	atomic_store_explicit(&cq->ci, ci, memory_order_relaxed);
	ohca_store_le32(&cq->db->cq_ci, ci);
}

static inline void ohca_read_cqe(struct ibv_wc *wc,
				 const struct ohca_hw_cqe *cqe)
{
#if __BYTE_ORDER == __LITTLE_ENDIAN
	memcpy(wc, cqe, sizeof(*wc));
#else
	wc->wr_id = le64toh(cqe->wr_id);
	wc->status = le32toh(cqe->status);
	wc->opcode = le32toh(cqe->opcode);
	wc->vendor_err = le32toh(cqe->vendor_err);
	wc->byte_len = le32toh(cqe->byte_len);
	wc->qp_num = le32toh(cqe->qp_num);
	wc->src_qp = le32toh(cqe->src_qp);
	wc->wc_flags = le32toh(cqe->wc_flags);
	if (wc->wc_flags & IBV_WC_WITH_INV)
		wc->invalidated_rkey = le32toh(cqe->inv_key);
	else
		wc->imm_data = cqe->imm;
	wc->pkey_index = le16toh(cqe->pkey_index);
	wc->slid = le16toh(cqe->slid);
	wc->sl = cqe->sl;
	wc->dlid_path_bits = cqe->dlid_path_bits;
#endif
}

/* With the lock held, which it drops: among the next @n entries some free tags. */
static OHCA_COLD int ohca_poll_tags(struct ohca_cq *cq, int n)
{
	uint32_t ci = ohca_cq_ci(cq);
	int i;

	for (i = 0; i < n; i++)
		ohca_tm_free_tag(cq, ohca_cq_entry(cq, ci + i));
	ohca_cq_consume(cq, ci + n);
	ohca_unlock(&cq->lock);
	return n;
}

/* With the lock held, which it drops; @num is not 0. It calls nothing: no frame is needed. */
OHCA_INLINE int ohca_poll_locked(struct ohca_cq *cq, int num, struct ibv_wc *wc)
{
	uint32_t begin = ohca_cq_ci(cq), ci = begin;
	const struct ohca_hw_cqe *cqe = ohca_cq_entry(cq, ci);
	uint8_t flags = 0;

	/* most looks find nothing */
	if (!ohca_cq_written(cq, cqe, ci)) {
		ohca_unlock(&cq->lock);
		return 0;
	}
	do {
		flags |= cqe->flags;
		ohca_read_cqe(wc++, cqe);
		cqe = ohca_cq_entry(cq, ++ci);
	} while (--num && ohca_cq_written(cq, cqe, ci));
	if (unlikely(flags & OHCA_CQE_TAG_FREE))
		return ohca_poll_tags(cq, ci - begin);
	ohca_cq_consume(cq, ci);
	ohca_unlock(&cq->lock);
	return ci - begin;
}

static OHCA_COLD int ohca_poll_contended(struct ohca_cq *cq, int num,
					 struct ibv_wc *wc)
{
	ohca_lock_contended(&cq->lock);
	return ohca_poll_locked(cq, num, wc);
}

/** ohca_poll_cq - ibv_poll_cq(): number of completions returned, 0 to @num */
int ohca_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct ohca_cq *cq = to_ocq(ibcq);

	if (unlikely(num <= 0))
		return 0;
	if (!ohca_trylock(&cq->lock))
		return ohca_poll_contended(cq, num, wc);
	return ohca_poll_locked(cq, num, wc);
}

/**
 * ohca_req_notify_cq - ibv_req_notify_cq()
 *
 * The consumer index goes along: if entries past it are there already that no
 * event has told of, the device fires at once. So nothing is lost between the last
 * poll and this call.
 */
int ohca_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct ohca_cq *cq = to_ocq(ibcq);
	uint64_t sn = atomic_load_explicit(&cq->arm_sn, memory_order_relaxed);
	uint64_t ci = ohca_cq_ci(cq);
	uint64_t db = OHCA_FIELD_PREP(OHCA_CQ_ARM_CQN, (uint64_t)cq->cqn) |
		      OHCA_FIELD_PREP(OHCA_CQ_ARM_SN, sn) |
		      OHCA_FIELD_PREP(OHCA_CQ_ARM_CI, ci);

	if (solicited_only)
		db |= OHCA_CQ_ARM_SOLICITED;
	udma_to_device_barrier();
	mmio_write64_le(cq->uar + OHCA_UAR_CQ_ARM, htole64(db));
	return 0;
}

/** ohca_cq_event - an event of the CQ was taken from its channel */
void ohca_cq_event(struct ibv_cq *ibcq)
{
	atomic_fetch_add_explicit(&to_ocq(ibcq)->arm_sn, 1,
				  memory_order_relaxed);
}

/** ohca_cq_pending - entries that the device has written and that are not polled yet; lock held */
uint32_t ohca_cq_pending(const struct ohca_cq *cq)
{
	uint32_t ci = ohca_cq_ci(cq);
	uint32_t n = 0;

	while (n <= cq->mask && ohca_cq_peek(cq, ci + n))
		n++;
	return n;
}

/*
 * Whether @cqe belongs to the QP with @number, or if @xrc to that XRC SRQ. Receives of a target,
 * or by tags, belong to the SRQ.
 */
static bool ohca_cqe_is_of(const struct ohca_hw_cqe *cqe, bool xrc,
			   uint32_t number)
{
	if (xrc)
		return cqe->flags & OHCA_CQE_XRC &&
		       le32toh(cqe->wqe_idx) == number;
	return !(cqe->flags & (OHCA_CQE_XRC | OHCA_CQE_TM)) &&
	       le32toh(cqe->qp_num) == number;
}

/*
 * Moves the entries of other QPs towards the producer index, which keeps their order, so that one
 * step of the consumer index frees the space. The owner bit belongs to the slot and is not moved.
 */
static void ohca_cq_remove(struct ohca_cq *cq, bool xrc, uint32_t number)
{
	struct ohca_hw_cqe *from, *to;
	uint32_t ci, i, freed = 0;
	uint8_t owner;

	ohca_lock(&cq->lock);
	ci = ohca_cq_ci(cq);
	for (i = ci + ohca_cq_pending(cq); i != ci;) {
		from = ohca_cq_entry(cq, --i);
		if (ohca_cqe_is_of(from, xrc, number)) {
			freed++;
		} else if (freed) {
			to = ohca_cq_entry(cq, i + freed);
			owner = to->owner;
			*to = *from;
			to->owner = owner;
		}
	}
	if (freed)
		ohca_cq_consume(cq, ci + freed);
	ohca_unlock(&cq->lock);
}

/**
 * ohca_cq_clean - remove the completions of a QP that is destroyed or reset
 * @cq: CQ
 * @handle: the QP; the device writes no further entries of it
 */
void ohca_cq_clean(struct ohca_cq *cq, uint32_t handle)
{
	ohca_cq_remove(cq, false, handle);
}

/**
 * ohca_cq_clean_srq - remove the completions of an XRC SRQ that is destroyed
 * @cq: the SRQ's CQ
 * @srqn: the SRQ; the device writes no further entries of it
 */
void ohca_cq_clean_srq(struct ohca_cq *cq, uint32_t srqn)
{
	ohca_cq_remove(cq, true, srqn);
}

/* extended polling */

static OHCA_COLD int ohca_cq_show_tag(struct ohca_cq *cq,
				      const struct ohca_hw_cqe *cqe)
{
	ohca_tm_free_tag(cq, cqe);
	return 0;
}

/* Sets @cqe as the entry of the read functions. Return: 0. */
static inline int ohca_cq_show(struct ohca_cq *cq,
			       const struct ohca_hw_cqe *cqe)
{
	cq->cur = cqe;
	cq->vcq.cq_ex.wr_id = le64toh(cqe->wr_id);
	cq->vcq.cq_ex.status = le32toh(cqe->status);
	if (unlikely(cqe->flags & OHCA_CQE_TAG_FREE))
		return ohca_cq_show_tag(cq, cqe);
	return 0;
}

/* Entries stay in the ring for the read functions until ohca_end_poll(). */
static int ohca_start_poll(struct ibv_cq_ex *ibcq,
			   struct ibv_poll_cq_attr *attr)
{
	struct ohca_cq *cq = to_ocq_ex(ibcq);
	const struct ohca_hw_cqe *cqe;
	uint32_t ci;

	if (unlikely(attr->comp_mask))
		return ohca_errno(EINVAL);
	ohca_lock(&cq->lock);
	ci = ohca_cq_ci(cq);
	cqe = ohca_cq_peek(cq, ci);
	if (!cqe) {
		ohca_unlock(&cq->lock);
		return ENOENT;
	}
	atomic_store_explicit(&cq->ci, ci + 1, memory_order_relaxed);
	return ohca_cq_show(cq, cqe);
}

static int ohca_next_poll(struct ibv_cq_ex *ibcq)
{
	struct ohca_cq *cq = to_ocq_ex(ibcq);
	uint32_t ci = ohca_cq_ci(cq);
	const struct ohca_hw_cqe *cqe = ohca_cq_peek(cq, ci);

	if (!cqe)
		return ENOENT;
	atomic_store_explicit(&cq->ci, ci + 1, memory_order_relaxed);
	return ohca_cq_show(cq, cqe);
}

static void ohca_end_poll(struct ibv_cq_ex *ibcq)
{
	struct ohca_cq *cq = to_ocq_ex(ibcq);

	ohca_cq_consume(cq, ohca_cq_ci(cq));
	ohca_unlock(&cq->lock);
}

static enum ibv_wc_opcode ohca_read_opcode(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_ocq_ex(ibcq)->cur->opcode);
}

static uint32_t ohca_read_vendor_err(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_ocq_ex(ibcq)->cur->vendor_err);
}

static uint32_t ohca_read_byte_len(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_ocq_ex(ibcq)->cur->byte_len);
}

/* Also read for the invalidated R_Key, which is in host order for the consumer. */
static __be32 ohca_read_imm_data(struct ibv_cq_ex *ibcq)
{
	const struct ohca_hw_cqe *cqe = to_ocq_ex(ibcq)->cur;

	if (le32toh(cqe->wc_flags) & IBV_WC_WITH_INV)
		return (__force __be32)le32toh(cqe->inv_key);
	return cqe->imm;
}

static uint32_t ohca_read_qp_num(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_ocq_ex(ibcq)->cur->qp_num);
}

static uint32_t ohca_read_src_qp(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_ocq_ex(ibcq)->cur->src_qp);
}

static unsigned int ohca_read_wc_flags(struct ibv_cq_ex *ibcq)
{
	return le32toh(to_ocq_ex(ibcq)->cur->wc_flags);
}

static uint32_t ohca_read_slid(struct ibv_cq_ex *ibcq)
{
	return le16toh(to_ocq_ex(ibcq)->cur->slid);
}

static uint8_t ohca_read_sl(struct ibv_cq_ex *ibcq)
{
	return to_ocq_ex(ibcq)->cur->sl;
}

static uint8_t ohca_read_dlid_path_bits(struct ibv_cq_ex *ibcq)
{
	return to_ocq_ex(ibcq)->cur->dlid_path_bits;
}

static uint64_t ohca_read_completion_ts(struct ibv_cq_ex *ibcq)
{
	return le64toh(to_ocq_ex(ibcq)->cur->timestamp);
}

static uint64_t ohca_read_wallclock_ns(struct ibv_cq_ex *ibcq)
{
	return ohca_wallclock_ns(to_ocq_ex(ibcq), ohca_read_completion_ts(ibcq));
}

static void ohca_read_tm_info(struct ibv_cq_ex *ibcq,
			      struct ibv_wc_tm_info *tm_info)
{
	const struct ohca_hw_cqe *cqe = to_ocq_ex(ibcq)->cur;
	bool tm = cqe->flags & OHCA_CQE_TM;

	tm_info->tag = tm ? le64toh(cqe->tag) : 0;
	tm_info->priv = tm ? le32toh(cqe->src_qp) : 0;
}

/** ohca_cq_fill_poll_ops - set what ibv_start_poll() and the readers of @wc_flags call */
void ohca_cq_fill_poll_ops(struct ohca_cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;

	ex->start_poll = ohca_start_poll;
	ex->next_poll = ohca_next_poll;
	ex->end_poll = ohca_end_poll;
	ex->read_opcode = ohca_read_opcode;
	ex->read_vendor_err = ohca_read_vendor_err;
	ex->read_wc_flags = ohca_read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = ohca_read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = ohca_read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = ohca_read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = ohca_read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = ohca_read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = ohca_read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = ohca_read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = ohca_read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = ohca_read_wallclock_ns;
	if (wc_flags & IBV_WC_EX_WITH_TM_INFO)
		ex->read_tm_info = ohca_read_tm_info;
}
