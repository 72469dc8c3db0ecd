/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Receive WQEs, of an RQ or an SRQ: taking them, and doorbell suppression of an RQ. */
#ifndef OHCA_OBJECT_RWQE_H
#define OHCA_OBJECT_RWQE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ohca_hw.h"

struct ohca_qp;

/** struct ohca_sge - SGE in CPU order */
struct ohca_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/** enum ohca_rwqe_use - what a message is for which an SRQ with tags gave a buffer */
enum ohca_rwqe_use {
	OHCA_USE_PLAIN,		/* WRITE with immediate data; any of another queue */
	OHCA_USE_NO_TAG,
	OHCA_USE_UNEXPECTED,
	OHCA_USE_EAGER,		/* matched: @tag */
	OHCA_USE_RNDV,		/* the same; its data will be read */
	OHCA_USE_NO_ROOM,	/* the same, but there is more than fits */
};

/**
 * struct ohca_rwqe - a receive WQE, copied and checked for form, or a tagged buffer
 * @tag: number of the tag, as @use says; @told: the consumer knows of the match
 */
struct ohca_rwqe {
	uint64_t wr_id;
	uint32_t wqe_idx;
	uint32_t total;		/* bytes of all SGEs; more than 2^31 is refused */
	uint8_t num_sge;
	bool from_srq;
	bool told;
	uint8_t use;		/* enum ohca_rwqe_use */
	uint16_t tag;
	struct ohca_sge sge[OHCA_MAX_SGE];
};

/* ohca_rwqe_take(): the RQ of the QP has an unreadable record, or one that cannot be true */
#define OHCA_RWQE_NO_RQ	(-0x10000)

/* Take the next receive WQE of @qp (its RQ or SRQ).
 * 1: taken into @out; 0: none posted; OHCA_RWQE_NO_RQ: nothing can be taken any more, an error of
 * the QP; else <0: malformed: out->wr_id and wqe_idx are set and the negated enum ohca_vendor_err
 * is returned. Raises SRQ_LIMIT when due. */
int ohca_rwqe_take(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *out);
/* Doorbell suppression of a QP's own RQ. @want: ring from the next post on (for a QP
 * in ERR); else never. Return: whether WQEs are posted that have not been taken. */
bool ohca_rq_notify(ohca_engine *e, struct ohca_qp *qp, bool want);
/* WQEs posted to a QP's own RQ and not taken; -1: its record is unreadable or cannot be true */
int64_t ohca_rq_posted(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_OBJECT_RWQE_H */
