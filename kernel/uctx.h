/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: user contexts and their mappings; uctx.c. */
#ifndef OHCA_UCTX_H
#define OHCA_UCTX_H

#include <linux/atomic.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

struct ohca_dev;

/** enum ohca_mmap_kind - kind of memory that a process may map */
enum ohca_mmap_kind {
	OHCA_MMAP_UAR,	/* its doorbell page */
	OHCA_MMAP_DM,	/* device memory */
};

/**
 * struct ohca_mmap - an mmap entry
 * @rdma: the core's part; counts the mappings
 * @dev: the device
 * @kind: enum ohca_mmap_kind
 * @num: number of the doorbell page, or handle of the device memory; freed with the entry
 * @offset: offset in its BAR, bytes
 */
struct ohca_mmap {
	struct rdma_user_mmap_entry rdma;
	struct ohca_dev *dev;
	enum ohca_mmap_kind kind;
	u32 num;
	u64 offset;
};

/**
 * struct ohca_ucontext - a process's context
 * @ibucontext: the core's part
 * @mmap: its doorbell page
 * @uar: number of that page
 * @prefetches: queued prefetches of its regions
 */
struct ohca_ucontext {
	struct ib_ucontext ibucontext;
	struct ohca_mmap *mmap;
	u32 uar;
	atomic_t prefetches;
};

static inline struct ohca_ucontext *to_ohca_ucontext(struct ib_ucontext *ib)
{
	return container_of(ib, struct ohca_ucontext, ibucontext);
}

int ohca_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata);
void ohca_dealloc_ucontext(struct ib_ucontext *ibucontext);
void ohca_disassociate_ucontext(struct ib_ucontext *ibucontext);
extern const struct uapi_definition ohca_ucontext_defs[];
int ohca_query_ucontext(struct ib_ucontext *ibucontext, struct uverbs_attr_bundle *attrs);
struct ohca_mmap *ohca_mmap_create(struct ohca_dev *dev, struct ib_ucontext *ibucontext,
				   enum ohca_mmap_kind kind, u32 num, u64 offset, size_t size);
int ohca_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);
void ohca_mmap_free(struct rdma_user_mmap_entry *entry);

#endif /* OHCA_UCTX_H */
