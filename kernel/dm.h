/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: device memory; dm.c. */
#ifndef OHCA_DM_H
#define OHCA_DM_H

#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

struct ohca_mmap;

/**
 * struct ohca_dm - device memory
 * @ibdm: the core's part
 * @mmap: its pages
 * @length: bytes that the consumer requested
 */
struct ohca_dm {
	struct ib_dm ibdm;
	struct ohca_mmap *mmap;
	u64 length;
};

static inline struct ohca_dm *to_ohca_dm(struct ib_dm *ib)
{
	return container_of(ib, struct ohca_dm, ibdm);
}

extern const struct uapi_definition ohca_dm_defs[];
struct ib_dm *ohca_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibucontext,
			    struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs);
int ohca_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);

#endif /* OHCA_DM_H */
