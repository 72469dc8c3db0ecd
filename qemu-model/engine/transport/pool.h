/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pools of memory that a QP needs only while it is busy. The owner calls. */
#ifndef OHCA_TRANSPORT_POOL_H
#define OHCA_TRANSPORT_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

struct ohca_ahead;
struct ohca_rdring;
struct ohca_rwqe;
struct ohca_sched;
struct ohca_sqwin;

#define OHCA_POOL_KEEP		256u	/* most free entries of each pool */

/*
 * When a QP first leaves RESET, the minimum that it needs is reserved from the budget: the smallest
 * window, a receive WQE and, with responder resources, a ring of responses. A larger window needs
 * more of the budget; if there is none, the QP uses the smallest one. The notes of early packets
 * also need more of the budget, at most 1/OHCA_AHEAD_SHARE of it; without them early packets count
 * as lost.
 *
 * ohca_win_bytes() is the size of a window of 1 << @log BBs, bytes. Each ohca_*_get() returns NULL
 * if the host has no memory.
 */
size_t ohca_win_bytes(unsigned int log);
struct ohca_sqwin *ohca_win_get(ohca_engine *e, unsigned int log_sq);
void ohca_win_put(ohca_engine *e, struct ohca_sqwin *w);
struct ohca_rwqe *ohca_rwqe_get(ohca_engine *e);
void ohca_rwqe_put(ohca_engine *e, struct ohca_rwqe *r);
struct ohca_rdring *ohca_rdring_get(ohca_engine *e);
void ohca_rdring_put(ohca_engine *e, struct ohca_rdring *r);
struct ohca_ahead *ohca_ahead_get(ohca_engine *e);	/* empty; NULL also without budget */
void ohca_ahead_put(ohca_engine *e, struct ohca_ahead *a);
/* Free the pools, as far as the allowance of work covers. Return: true if they are empty */
bool ohca_pools_free_some(ohca_engine *e);

#endif /* OHCA_TRANSPORT_POOL_H */
