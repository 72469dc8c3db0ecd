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
/* @qp is created, with zeros behind it for the transport's part; it is in RESET. */
int ohca_xp_create(ohca_engine *e, struct ohca_qp *qp);	/* 0 or -1 (memory) */
/* @qp is to leave RESET: the budget is to have the memory that it needs while it is busy. 0 or -1:
 * it has less left. It stays until the end of @qp: who comes back from RESET is not refused. */
int ohca_xp_reserve(ohca_engine *e, struct ohca_qp *qp);
/* @qp is about to be destroyed or reset: acknowledge what it has received */
void ohca_xp_last_words(ohca_engine *e, struct ohca_qp *qp);
/*
 * @qp, after its last words, is about to be destroyed or reset, and sends and receives nothing any
 * more: complete the tags that it has taken, a step of it. Return: it is done
 */
bool ohca_xp_tags_flush(ohca_engine *e, struct ohca_qp *qp);
/* no list, timer or packet refers to @qp afterwards */
void ohca_xp_destroy(ohca_engine *e, struct ohca_qp *qp);
/* @qp->state changed from @old (and attributes with @mask): start, stop, flush, ... A
 * transition to ERR flushes both queues, now and whenever more is posted. To RESET:
 * reset the transport state; CQEs stay (drivers remove them). -1: memory */
int ohca_xp_state(ohca_engine *e, struct ohca_qp *qp, uint8_t old, uint32_t mask);
/* The SRQ of the message that the target @qp is receiving goes, and its WQE with it. */
void ohca_xp_srq_gone(ohca_engine *e, struct ohca_qp *qp);
/* @qp has migrated: it does not wait for credits of the old path, and its retries restart */
void ohca_xp_migrated(ohca_engine *e, struct ohca_qp *qp);
/* @qp sends soon, not as the next one: what that needs of it comes into the cache. */
void ohca_xp_soon(const struct ohca_qp *qp);
/* The doorbell of the SQ, or of the RQ, was rung; @several: others send before it or after it. */
void ohca_xp_kick_sq(ohca_engine *e, struct ohca_qp *qp, bool several);
void ohca_xp_kick_rq(ohca_engine *e, struct ohca_qp *qp);	/* flush in ERR */
/*
 * The contents of the send queue: from the BB of the oldest WQE not completed, *@ci, up to *@pi
 * of the record. -1: the record is unreadable or invalid; the QP's state does not change.
 */
int ohca_xp_sq_posted(ohca_engine *e, const struct ohca_qp *qp, uint32_t *ci, uint32_t *pi);
/* @qp->log_sq and the queue's buffer have changed; its WQEs are copied */
void ohca_xp_sq_moved(ohca_engine *e, struct ohca_qp *qp);
/* current PSNs and draining for QUERY */
void ohca_xp_query(ohca_engine *e, const struct ohca_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn,
		   bool *draining);
/* the transport's part of QUERY_CONTEXT */
void ohca_xp_context(const struct ohca_qp *qp, struct ohca_hw_qp_context *x);
/* A fault of @qp is answered; @ok: repeat the access, else it fails */
void ohca_xp_resume(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		    uint32_t wqe_idx, bool ok);
/* Member @index of a multicast group leaves; those behind it move up */
void ohca_xp_mcast_left(ohca_engine *e, const uint8_t mgid[16], uint32_t index);
/* @n slots for page faults became free: as many of the QPs that wait for one may have them */
void ohca_xp_fault_room(ohca_engine *e, uint32_t n);

#endif /* OHCA_OBJECT_TO_TRANSPORT_H */
