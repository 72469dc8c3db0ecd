/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: address handles; ah.c. */
#ifndef OHCA_AH_H
#define OHCA_AH_H

#include <rdma/ib_verbs.h>

#include "ohca_hw.h"

/** struct ohca_ah - an address handle: nothing but its address vector */
struct ohca_ah {
	struct ib_ah ibah;
	struct ohca_hw_av av;
};

static inline struct ohca_ah *to_ohca_ah(struct ib_ah *ib)
{
	return container_of(ib, struct ohca_ah, ibah);
}

int ohca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int ohca_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int ohca_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int ohca_destroy_ah(struct ib_ah *ibah, u32 flags);

#endif /* OHCA_AH_H */
