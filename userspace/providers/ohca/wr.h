/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Construction of send WQEs, for both posting interfaces. */

#ifndef OHCA_WR_H
#define OHCA_WR_H

#include "compat.h"
#include "ohca.h"

static_assert((int)IBV_WR_RDMA_WRITE == (int)OHCA_OP_RDMA_WRITE &&
	      (int)IBV_WR_RDMA_WRITE_WITH_IMM == (int)OHCA_OP_RDMA_WRITE_IMM &&
	      (int)IBV_WR_SEND == (int)OHCA_OP_SEND &&
	      (int)IBV_WR_SEND_WITH_IMM == (int)OHCA_OP_SEND_IMM &&
	      (int)IBV_WR_RDMA_READ == (int)OHCA_OP_RDMA_READ &&
	      (int)IBV_WR_ATOMIC_CMP_AND_SWP == (int)OHCA_OP_CMP_SWAP &&
	      (int)IBV_WR_ATOMIC_FETCH_AND_ADD == (int)OHCA_OP_FETCH_ADD &&
	      (int)IBV_WR_LOCAL_INV == (int)OHCA_OP_LOCAL_INV &&
	      (int)IBV_WR_BIND_MW == (int)OHCA_OP_BIND_MW &&
	      (int)IBV_WR_SEND_WITH_INV == (int)OHCA_OP_SEND_INV &&
	      (int)IBV_WR_FLUSH == (int)OHCA_OP_FLUSH &&
	      (int)IBV_WR_ATOMIC_WRITE == (int)OHCA_OP_ATOMIC_WRITE,
	      "operations must have the numbers of enum ibv_wr_opcode");
static_assert((int)IBV_SEND_FENCE == OHCA_WQE_FENCE &&
	      (int)IBV_SEND_SIGNALED == OHCA_WQE_SIGNALED &&
	      (int)IBV_SEND_SOLICITED == OHCA_WQE_SOLICITED &&
	      (int)IBV_SEND_INLINE == OHCA_WQE_INLINE &&
	      (int)IBV_SEND_IP_CSUM == OHCA_WQE_IP_CSUM,
	      "WQE flags must have the numbers of enum ibv_send_flags");
static_assert(sizeof(struct ibv_sge) == sizeof(struct ohca_hw_sge) &&
	      offsetof(struct ibv_sge, length) ==
		      offsetof(struct ohca_hw_sge, length) &&
	      offsetof(struct ibv_sge, lkey) ==
		      offsetof(struct ohca_hw_sge, lkey),
	      "an SGE must have the layout of struct ibv_sge");

/* Operations whose data may come from the WQE itself. */
#define OHCA_INLINE_OPS                                                        \
	(OHCA_BIT(OHCA_OP_RDMA_WRITE) | OHCA_BIT(OHCA_OP_RDMA_WRITE_IMM) |     \
	 OHCA_BIT(OHCA_OP_SEND) | OHCA_BIT(OHCA_OP_SEND_IMM) |                 \
	 OHCA_BIT(OHCA_OP_SEND_INV) | OHCA_BIT(OHCA_OP_ATOMIC_WRITE))

/* Operations without data: their SGEs are ignored. */
#define OHCA_NO_DATA_OPS                                                       \
	(OHCA_BIT(OHCA_OP_LOCAL_INV) | OHCA_BIT(OHCA_OP_BIND_MW))

/* Operations that carry a key where others have immediate data. */
#define OHCA_KEY_OPS                                                           \
	(OHCA_BIT(OHCA_OP_LOCAL_INV) | OHCA_BIT(OHCA_OP_SEND_INV))

/* Flags that are copied into the WQE as they are. */
#define OHCA_USER_FLAGS                                                        \
	(OHCA_WQE_FENCE | OHCA_WQE_SIGNALED | OHCA_WQE_SOLICITED |             \
	 OHCA_WQE_IP_CSUM)

#define OHCA_SEGS_PER_BB (OHCA_BB_SIZE / OHCA_SEG_SIZE)

/** ohca_segs_to_bbs - basic blocks that @nseg segments take */
static inline uint32_t ohca_segs_to_bbs(uint32_t nseg)
{
	return (nseg + OHCA_SEGS_PER_BB - 1) / OHCA_SEGS_PER_BB;
}

/** ohca_inline_segs - segments that @len bytes of inline data take */
static inline uint32_t ohca_inline_segs(uint32_t len)
{
	return (len + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE;
}

/** ohca_tso_segs - segments that @hdr_sz bytes of headers take before a large segment */
static inline uint32_t ohca_tso_segs(uint32_t hdr_sz)
{
	return 1 + (hdr_sz + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE;
}

/** ohca_sq_bb - address of the basic block with free running index @pi */
static inline void *ohca_sq_bb(const struct ohca_sq *sq, uint32_t pi)
{
	return sq->ring + (pi << OHCA_BB_SHIFT & sq->offset_mask);
}

/**
 * ohca_sq_full - whether @bbs basic blocks from index @pi on are not free yet
 *
 * Called with the lock held. Reads the device's consumer index only if the last
 * value is not enough.
 */
static inline bool ohca_sq_full(struct ohca_qp *qp, uint32_t pi, uint32_t bbs)
{
	struct ohca_sq *sq = &qp->sq;

	if (likely(pi + bbs - sq->ci <= sq->size))
		return false;
	sq->ci = ohca_load_le32(&qp->db->sq_ci);
	return pi + bbs - sq->ci > sq->size;
}

/** ohca_put_le64 - write 8 bytes of a WQE */
static inline void ohca_put_le64(void *p, uint64_t v)
{
	__le64 word = htole64(v);

	memcpy(p, &word, sizeof(word));
}

/**
 * ohca_put_ctrl - write the control segment
 * @op_nseg: operation, segments << 8
 * @flags: OHCA_WQE_*
 * @imm: immediate data as the consumer gave it, or a key in little-endian
 */
static inline void ohca_put_ctrl(void *seg, uint32_t op_nseg, uint32_t flags,
				 uint32_t imm, uint64_t wr_id)
{
	ohca_put_le64(seg, (uint64_t)le32toh((__force __le32)imm) << 32 |
				   flags << 16 | op_nseg);
	ohca_put_le64(seg + offsetof(struct ohca_hw_wqe_ctrl, wr_id), wr_id);
}

/** ohca_put_raddr - write a remote address segment */
static inline void ohca_put_raddr(void *seg, uint64_t raddr, uint32_t rkey)
{
	ohca_put_le64(seg, raddr);
	ohca_put_le64(seg + offsetof(struct ohca_hw_wqe_raddr, rkey), rkey);
}

/** ohca_put_xrc - write an XRC segment */
static inline void ohca_put_xrc(void *seg, uint32_t srqn)
{
	ohca_put_le64(seg, srqn);
	ohca_put_le64(seg + sizeof(__le64), 0);
}

/** ohca_put_atomic - write remote address and operands: two segments */
static inline void ohca_put_atomic(void *seg, uint64_t raddr, uint32_t rkey,
				   uint64_t swap_add, uint64_t compare)
{
	struct ohca_hw_wqe_atomic *a = seg + sizeof(struct ohca_hw_wqe_raddr);

	ohca_put_raddr(seg, raddr, rkey);
	a->swap_add = htole64(swap_add);
	a->compare = htole64(compare);
}

/** ohca_put_flush - write remote address and what to flush: two segments */
static inline void ohca_put_flush(void *seg, uint64_t raddr, uint32_t rkey,
				  size_t len, uint8_t placement, uint8_t level)
{
	struct ohca_hw_wqe_flush *f = seg + sizeof(struct ohca_hw_wqe_raddr);

	ohca_put_raddr(seg, raddr, rkey);
	memset(f, 0, sizeof(*f));
	f->length = htole32(len);
	f->placement = placement;
	f->level = level;
}

/**
 * ohca_ah_ok - whether a QP may send by an AH
 *
 * Both are of one protection domain (IBTA vol 1, C10-10); if not, the request is refused and
 * not completed in error, which the verb leaves to the implementation. It can only be checked
 * where AHs exist, which is not the device: a process that writes its WQEs itself can send to
 * any path by any QP of its own. An AH of its own in the QP's domain would allow it the same.
 */
static inline bool ohca_ah_ok(const struct ohca_sq *sq,
			      const struct ohca_ah *ah)
{
	return likely(ah->pdn == sq->pdn);
}

/** ohca_put_av - write an address vector: three segments */
static inline void ohca_put_av(void *seg, const struct ohca_ah *ah,
			       uint32_t qpn, uint32_t qkey)
{
	memcpy(seg, &ah->av, sizeof(ah->av));
	ohca_put_le64(seg, (uint64_t)qkey << 32 | qpn);
}

/**
 * ohca_mw_ok - whether @rkey may become the key of a window
 *
 * Only its low byte is the consumer's choice (IBTA vol 1, 10.6.7.2.1): the rest is the window's
 * index, by which the device knows what to bind.
 */
static inline bool ohca_mw_ok(const struct ibv_mw *mw, uint32_t rkey)
{
	return (mw->rkey ^ rkey) < 0x100;
}

/**
 * ohca_put_bind - write the registration segment of BIND_MW: three segments
 *
 * Consumers set local write along with remote write, as for an MR; a window has
 * remote rights only, so local write is dropped.
 */
static inline void ohca_put_bind(void *seg, uint32_t rkey,
				 const struct ibv_mw_bind_info *info)
{
	struct ohca_hw_wqe_reg *r = seg;

	memset(r, 0, sizeof(*r));
	r->key = htole32(rkey);
	r->access = htole32(info->mw_access_flags & ~IBV_ACCESS_LOCAL_WRITE);
	r->iova = htole64(info->addr);
	r->length = htole64(info->length);
	if (info->mr)
		r->mr_key = htole32(info->mr->lkey);
}

/** ohca_put_sge - write one SGE */
static inline void ohca_put_sge(void *seg, const struct ibv_sge *sge)
{
#if __BYTE_ORDER == __LITTLE_ENDIAN
	memcpy(seg, sge, sizeof(struct ohca_hw_sge));
#else
	struct ohca_hw_sge *s = seg;

	s->addr = htole64(sge->addr);
	s->length = htole32(sge->length);
	s->lkey = htole32(sge->lkey);
#endif
}

/**
 * ohca_put_sges - write @num SGEs from @seg on, over the end of the ring if need be
 */
static inline void ohca_put_sges(const struct ohca_sq *sq, uint8_t *seg,
				 const struct ibv_sge *sge, uint32_t num)
{
	for (; num; num--, sge++, seg += OHCA_SEG_SIZE) {
		if (unlikely(seg == sq->end))
			seg = sq->ring;
		ohca_put_sge(seg, sge);
	}
}

/**
 * ohca_copy - memcpy() of inline data
 *
 * Inline data is short: a call, with the registers that are saved for it, costs more than these
 * moves. The last one may overlap the one before.
 */
OHCA_INLINE void ohca_copy(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t i;

	if (len >= 32) {
		for (i = 0; i < len - 32; i += 32)
			memcpy(dst + i, src + i, 32);
		memcpy(dst + len - 32, src + len - 32, 32);
	} else if (len >= 16) {
		memcpy(dst, src, 16);
		memcpy(dst + len - 16, src + len - 16, 16);
	} else if (len >= 8) {
		memcpy(dst, src, 8);
		memcpy(dst + len - 8, src + len - 8, 8);
	} else if (len >= 4) {
		memcpy(dst, src, 4);
		memcpy(dst + len - 4, src + len - 4, 4);
	} else if (len) {
		dst[0] = src[0];
		dst[len / 2] = src[len / 2];
		dst[len - 1] = src[len - 1];
	}
}

/**
 * ohca_put_inline - append @len bytes of inline data at @dst
 *
 * Return: where the next bytes go.
 */
OHCA_INLINE uint8_t *ohca_put_inline(const struct ohca_sq *sq, uint8_t *dst,
				     const uint8_t *src, size_t len)
{
	size_t room = sq->end - dst;

	if (unlikely(len > room)) {
		ohca_copy(dst, src, room);
		src += room;
		len -= room;
		dst = sq->ring;
	}
	ohca_copy(dst, src, len);
	return dst + len;
}

/** ohca_put_inline_sges - write the bytes of @num SGEs from @dst on */
static inline void ohca_put_inline_sges(const struct ohca_sq *sq, uint8_t *dst,
					const struct ibv_sge *sge, uint32_t num)
{
	for (; num; num--, sge++)
		dst = ohca_put_inline(sq, dst, (void *)(uintptr_t)sge->addr,
				      sge->length);
}

#endif /* OHCA_WR_H */
