/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: protection domains and XRC domains; pd.c. */
#ifndef OHCA_PD_H
#define OHCA_PD_H

#include <linux/atomic.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/**
 * struct ohca_pd - a protection domain
 * @ibpd: the core's part
 * @pdn: number
 * @uar: doorbell page of its owner
 * @windows: memory windows that exist or are about to be allocated
 * @windows_made: number of windows ever allocated
 */
struct ohca_pd {
	struct ib_pd ibpd;
	u32 pdn;
	u32 uar;
	atomic_t windows;
	atomic_t windows_made;
};

/** struct ohca_xrcd - an XRC domain; @xrcdn: number */
struct ohca_xrcd {
	struct ib_xrcd ibxrcd;
	u32 xrcdn;
};

static inline struct ohca_pd *to_ohca_pd(struct ib_pd *ib)
{
	return container_of(ib, struct ohca_pd, ibpd);
}

static inline struct ohca_xrcd *to_ohca_xrcd(struct ib_xrcd *ib)
{
	return container_of(ib, struct ohca_xrcd, ibxrcd);
}

extern const struct uapi_definition ohca_pd_defs[];
int ohca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int ohca_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int ohca_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int ohca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

#endif /* OHCA_PD_H */
