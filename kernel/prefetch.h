/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: limits of prefetches; prefetch.c. */
#ifndef OHCA_PREFETCH_H
#define OHCA_PREFETCH_H

#include <linux/types.h>

struct ohca_dev;
struct ohca_ucontext;

/*
 * Limits of queued prefetches, of one context and of all. WQ_MAX_ACTIVE is larger than the second,
 * and so is the part of it that one of four memory nodes gets: no prefetch waits for another.
 */
#define OHCA_PREFETCH_CONTEXT	32
#define OHCA_PREFETCH_ALL	128

#if IS_ENABLED(CONFIG_KUNIT)
bool ohca_prefetch_admit(struct ohca_dev *dev, struct ohca_ucontext *ctx);
void ohca_prefetch_leave(struct ohca_dev *dev, struct ohca_ucontext *ctx);
#endif

#endif /* OHCA_PREFETCH_H */
