/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counter sets, and the counters of a QP. */
#ifndef OHCA_OBJECT_COUNTERS_H
#define OHCA_OBJECT_COUNTERS_H

#include <stdint.h>

#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "ohca_hw.h"

struct ohca_cmd;

/**
 * struct ohca_counter_set - counters of the QPs that are bound to the set
 * @n: number of the set
 * @refs: number of QPs bound to it
 * @cnt: the counters
 */
struct ohca_counter_set {
	uint32_t n;
	uint32_t refs;
	uint64_t cnt[OHCA_CNT_NUM];
};

/* Add @n to counter @id of the QP's set. The caller counts for the port or the device. */
static inline void ohca_count_sets(ohca_engine *e, const struct ohca_qp *qp, enum ohca_counter id,
				   uint64_t n)
{
	if (qp->counters) {
		qp->counters->cnt[id] += n;
		e->set_cnt[qp->port][id] += n;
	}
}

static inline void ohca_count_set(ohca_engine *e, const struct ohca_qp *qp, enum ohca_counter id)
{
	ohca_count_sets(e, qp, id, 1);
}

/* Count @n packets that the QP has received, or sent; @len: bytes of each, LRH to ICRC. */
static inline void ohca_count_rx(ohca_engine *e, const struct ohca_qp *qp, uint32_t n,
				 uint32_t len)
{
	ohca_count_sets(e, qp, OHCA_CNT_RX_PKTS, n);
	ohca_count_sets(e, qp, OHCA_CNT_RX_BYTES, (uint64_t)n * len);
}

static inline void ohca_count_tx(ohca_engine *e, const struct ohca_qp *qp, uint32_t n,
				 uint32_t len)
{
	ohca_count_sets(e, qp, OHCA_CNT_TX_PKTS, n);
	ohca_count_sets(e, qp, OHCA_CNT_TX_BYTES, (uint64_t)n * len);
}

static inline void ohca_count_qp(ohca_engine *e, const struct ohca_qp *qp, enum ohca_counter id)
{
	ohca_count_port(e, qp->port, id);
	ohca_count_set(e, qp, id);
}

/* Free the object at destroy or reset; nothing refers to it. */
void ohca_counter_set_free(ohca_engine *e, struct ohca_counter_set *s);
/* Unbind the QP from its set */
void ohca_counters_unbind(struct ohca_qp *qp);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_alloc_counters(struct ohca_cmd *c);
int ohca_cmd_free_counters(struct ohca_cmd *c);
int ohca_cmd_query_counter_set(struct ohca_cmd *c);
int ohca_cmd_bind_counters(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_COUNTERS_H */
