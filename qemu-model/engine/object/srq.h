/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared receive queues. */
#ifndef OHCA_OBJECT_SRQ_H
#define OHCA_OBJECT_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/async.h"
#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/engine.h"

struct ohca_cmd;
struct ohca_cq;
struct ohca_pd;
struct ohca_tm;
struct ohca_xrcd;

/**
 * struct ohca_srq - shared receive queue
 * @uar: doorbell page that may ring it
 * @ci: consumer index of the WQEs
 * @limit: SRQ limit; 0: not armed
 * @error: no WQE can be taken from it any more
 * @going: its destruction has begun; no XRC target may use it
 * @xrcd: XRC domain of an XRC SRQ, else NULL
 * @tm: tag list of an SRQ with tags, else NULL
 * @cq: CQ of an XRC SRQ or an SRQ with tags, else NULL
 */
struct ohca_srq {
	uint32_t srqn;
	uint32_t refs;
	uint32_t uar;
	uint32_t pi, ci;
	uint32_t limit;
	uint8_t log_size, log_stride;
	bool error;
	bool going;
	struct ohca_pd *pd;
	struct ohca_xrcd *xrcd;
	struct ohca_tm *tm;
	struct ohca_cq *cq;
	struct ohca_pages buf;
	struct ohca_async async;
};

/* The SRQ with number @srqn; NULL: there is none. */
static inline struct ohca_srq *ohca_srq_get(ohca_engine *e, uint32_t srqn)
{
	return srqn < e->max_srq ? e->srq[srqn] : NULL;
}

/*
 * Serve a doorbell of the SRQ: set the event index so that the consumer rings no further one, and
 * execute list operations
 */
void ohca_srq_kick(ohca_engine *e, struct ohca_srq *srq);
/* Free the object at destroy or reset; nothing refers to it. */
void ohca_srq_free(ohca_engine *e, struct ohca_srq *srq);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_create_srq(struct ohca_cmd *c);
int ohca_cmd_destroy_srq(struct ohca_cmd *c);
int ohca_cmd_modify_srq(struct ohca_cmd *c);
int ohca_cmd_query_srq(struct ohca_cmd *c);
int ohca_cmd_resize_srq(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_SRQ_H */
