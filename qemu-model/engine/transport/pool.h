/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pools of the memory that a QP has only while it is busy. */
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

#define OHCA_POOL_KEEP		256u	/* of each kind, when QPs are idle again */

/*
 * The memory that a QP needs at least is reserved when it first leaves RESET: the smallest window,
 * a receive WQE and, with responder resources, a ring of responses. A larger window comes from
 * the rest of the budget; without that the QP uses the smallest. So does what notes the packets
 * that came before their turn, up to 1/OHCA_AHEAD_SHARE of the budget; without that they count as
 * lost.
 * NULL: the host has no memory.
 */
size_t ohca_win_bytes(unsigned int log);
struct ohca_sqwin *ohca_win_get(ohca_engine *e, unsigned int log_sq);
void ohca_win_put(ohca_engine *e, struct ohca_sqwin *w);
struct ohca_rwqe *ohca_rwqe_get(ohca_engine *e);	/* NULL: memory */
void ohca_rwqe_put(ohca_engine *e, struct ohca_rwqe *r);
struct ohca_rdring *ohca_rdring_get(ohca_engine *e);	/* NULL: memory */
void ohca_rdring_put(ohca_engine *e, struct ohca_rdring *r);
struct ohca_ahead *ohca_ahead_get(ohca_engine *e);	/* empty; NULL: memory, budget */
void ohca_ahead_put(ohca_engine *e, struct ohca_ahead *a);
/* Free the contents of the pools, a step of it. Return: it is done */
bool ohca_pools_free_some(ohca_engine *e);

#endif /* OHCA_TRANSPORT_POOL_H */
