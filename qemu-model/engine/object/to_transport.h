/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of the transport that objects call. The transport implements them (xport.c,
 * sched.c, sq.c, responder.c, responder_tx.c, suspend.c); objects use no other part of it.
 */
#ifndef OHCA_OBJECT_TO_TRANSPORT_H
#define OHCA_OBJECT_TO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/fault.h"

struct ohca_hw_qp_context;
struct ohca_qp;

/* Bytes of the transport's part of a QP, a multiple of a cache line. */
size_t ohca_xp_bytes(void);
/*
 * Initialize the transport's part of a new QP, which follows @qp in memory and is all zeros. @qp is
 * in RESET. 0 or -1 (memory)
 */
int ohca_xp_create(ohca_engine *e, struct ohca_qp *qp);
/*
 * @qp is about to leave RESET: reserve the memory that it needs while it is busy. 0, or -1 if the
 * budget has less left. The reservation lasts until @qp is destroyed, so a later transition from
 * RESET cannot fail.
 */
int ohca_xp_reserve(ohca_engine *e, struct ohca_qp *qp);
/* @qp is about to be destroyed or reset: acknowledge what it has received */
void ohca_xp_last_words(ohca_engine *e, struct ohca_qp *qp);
/*
 * Complete the tags that @qp uses, as far as the allowance of work covers. @qp is about to be
 * destroyed or reset, after ohca_xp_last_words(). Return: true when done
 */
bool ohca_xp_tags_flush(ohca_engine *e, struct ohca_qp *qp);
/* Free the transport's part; no list, timer or packet refers to @qp afterwards */
void ohca_xp_destroy(ohca_engine *e, struct ohca_qp *qp);
/*
 * @qp->state changed from @old, and the attributes @mask changed: start, stop or flush. In ERR both
 * queues are flushed, also of WQEs that are posted later. In RESET the transport state is reset;
 * CQEs stay (the driver removes them). 0 or -1 (memory)
 */
int ohca_xp_state(ohca_engine *e, struct ohca_qp *qp, uint8_t old, uint32_t mask);
/* The SRQ from which the XRC target @qp took the WQE of its current message is being destroyed. */
void ohca_xp_srq_gone(ohca_engine *e, struct ohca_qp *qp);
/* @qp has migrated: it does not wait for credits of the old path, and its retries restart */
void ohca_xp_migrated(ohca_engine *e, struct ohca_qp *qp);
/* @qp sends soon, but not next: prefetch the state that this needs. */
void ohca_xp_soon(const struct ohca_qp *qp);
/* The doorbell of the SQ, or of the RQ, was rung; @several: other QPs send before or after it. */
void ohca_xp_kick_sq(ohca_engine *e, struct ohca_qp *qp, bool several);
void ohca_xp_kick_rq(ohca_engine *e, struct ohca_qp *qp);	/* flush in ERR */
/*
 * The contents of the send queue: *@ci is the index of the first BB of the oldest WQE that is not
 * completed, *@pi the producer index of the record. 0, or -1 if the record is unreadable or
 * invalid; the QP's state does not change.
 */
int ohca_xp_sq_posted(ohca_engine *e, const struct ohca_qp *qp, uint32_t *ci, uint32_t *pi);
/* @qp->log_sq and the queue's buffer have changed; the WQEs were copied */
void ohca_xp_sq_moved(ohca_engine *e, struct ohca_qp *qp);
/* Current PSNs, and whether the SQ is draining, for QUERY_QP */
void ohca_xp_query(ohca_engine *e, const struct ohca_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn,
		   bool *draining);
/* Fill in the transport's part of QUERY_CONTEXT */
void ohca_xp_context(const struct ohca_qp *qp, struct ohca_hw_qp_context *x);
/* The driver has answered a page fault of @qp; @ok: repeat the access, else it fails */
void ohca_xp_resume(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		    uint32_t wqe_idx, bool ok);
/* Member @index of a multicast group was removed; the members behind it have moved up */
void ohca_xp_mcast_left(ohca_engine *e, const uint8_t mgid[16], uint32_t index);
/* @n slots for page faults became free: QPs that wait for one may try again */
void ohca_xp_fault_room(ohca_engine *e, uint32_t n);

#endif /* OHCA_OBJECT_TO_TRANSPORT_H */
