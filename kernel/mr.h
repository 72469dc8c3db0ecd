/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: memory regions and windows; mr.c. */
#ifndef OHCA_MR_H
#define OHCA_MR_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "buf.h"

struct ib_dmah;
struct ohca_dev;
struct ohca_paged;

/**
 * struct ohca_mr - a memory region
 * @ibmr: the core's part
 * @umem: user memory; NULL for device memory, kernel memory and on-demand paging
 * @access: enum ib_access_flags as registered
 * @paged: state of a region with on-demand paging, else NULL
 * @pl: FRMR: page list that REG_MR names
 * @npages: FRMR: pages mapped
 */
struct ohca_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;
	struct ohca_paged *paged;
	int access;
	struct ohca_pl pl;
	u32 npages;
};

/** struct ohca_mw - a memory window; only the device has its state */
struct ohca_mw {
	struct ib_mw ibmw;
};

static inline struct ohca_mr *to_ohca_mr(struct ib_mr *ib)
{
	return container_of(ib, struct ohca_mr, ibmr);
}

int ohca_mr_access(const struct ohca_dev *dev, int access, u16 *hw);
struct ib_mr *ohca_reg_umem(struct ib_pd *ibpd, struct ib_umem *umem, u64 length, u64 virt,
			    int access);
struct ib_mr *ohca_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *ohca_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access,
			       struct ib_dmah *dmah, struct ib_udata *udata);
struct ib_mr *ohca_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 virt,
				 int access, struct ib_pd *ibpd, struct ib_udata *udata);
struct ib_mr *ohca_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs);
int ohca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct ib_mr *ohca_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int ohca_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents, unsigned int *offset);
int ohca_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int ohca_dealloc_mw(struct ib_mw *ibmw);
#if IS_ENABLED(CONFIG_KUNIT)
int ohca_mr_hw_dereg(struct ohca_dev *dev, const struct ib_mr *ibmr);
#endif

#endif /* OHCA_MR_H */
