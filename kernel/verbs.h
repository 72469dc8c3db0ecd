/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: objects without queues and memory: protection domains and XRC domains, pd.c;
 * address handles, ah.c; multicast groups, mcast.c; MADs, mad.c.
 */
#ifndef OHCA_VERBS_H
#define OHCA_VERBS_H

#include <linux/atomic.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "ohca_hw.h"

struct ohca_dev;

/**
 * struct ohca_pd - a protection domain
 * @ibpd: the core's part
 * @pdn: number
 * @uar: doorbell page of its owner
 * @windows: memory windows that exist or are being allocated
 * @windows_made: number of allocations of windows so far
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

/** struct ohca_ah - an address handle; @av: its address vector, copied into each WQE */
struct ohca_ah {
	struct ib_ah ibah;
	struct ohca_hw_av av;
};

static inline struct ohca_pd *to_ohca_pd(struct ib_pd *ib)
{
	return container_of(ib, struct ohca_pd, ibpd);
}

static inline struct ohca_xrcd *to_ohca_xrcd(struct ib_xrcd *ib)
{
	return container_of(ib, struct ohca_xrcd, ibxrcd);
}

static inline struct ohca_ah *to_ohca_ah(struct ib_ah *ib)
{
	return container_of(ib, struct ohca_ah, ibah);
}

/* pd.c */
extern const struct uapi_definition ohca_pd_defs[];
int ohca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int ohca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int ohca_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int ohca_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

/* ah.c */
int ohca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int ohca_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int ohca_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int ohca_destroy_ah(struct ib_ah *ibah, u32 flags);

/* mcast.c */
int ohca_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);
int ohca_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);

/* mad.c */
int ohca_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
		     const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index);
int ohca_smp_get(struct ohca_dev *dev, u32 port, __be16 attr_id, u32 attr_mod, bool must,
		 struct ib_smp *out);
#if IS_ENABLED(CONFIG_KUNIT)
bool ohca_mad_for_device(const struct ib_mad *mad);
#endif

#endif /* OHCA_VERBS_H */
