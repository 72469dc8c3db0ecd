/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Receive WQEs of an RQ or an SRQ, and doorbell suppression of an RQ. */
#ifndef OHCA_OBJECT_RWQE_H
#define OHCA_OBJECT_RWQE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ohca_hw.h"

struct ohca_qp;

/** struct ohca_sge - scatter/gather element in CPU order */
struct ohca_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/** enum ohca_rwqe_use - kind of the message that uses a buffer of an SRQ with tags */
enum ohca_rwqe_use {
	OHCA_USE_PLAIN,		/* WRITE with immediate data; any message of another queue */
	OHCA_USE_NO_TAG,
	OHCA_USE_UNEXPECTED,
	OHCA_USE_EAGER,		/* matches @tag */
	OHCA_USE_RNDV,		/* matches @tag; the device will read its data */
	OHCA_USE_NO_ROOM,	/* matches @tag, but does not fit into the buffer */
};

/**
 * struct ohca_rwqe - a receive WQE, copied and checked for its form, or a tagged buffer
 * @total: bytes of all SGEs, at most 2^31
 * @told: the match was reported to the consumer
 * @use: kind of the message, enum ohca_rwqe_use
 * @tag: number of the tag, if @use has one
 */
struct ohca_rwqe {
	uint64_t wr_id;
	uint32_t wqe_idx;
	uint32_t total;
	uint8_t num_sge;
	bool from_srq;
	bool told;
	uint8_t use;
	uint16_t tag;
	struct ohca_sge sge[OHCA_MAX_SGE];
};

/* ohca_rwqe_take(): the RQ's record is unreadable or has an invalid index, or an SRQ is in error */
#define OHCA_RWQE_NO_RQ	(-0x10000)

/*
 * Take the next receive WQE of @qp, from its RQ or SRQ. Raises SRQ_LIMIT or SRQ_ERR if it is due.
 * Return: 1: @out is the WQE; 0: no WQE is posted; OHCA_RWQE_NO_RQ: the RQ or SRQ cannot be used
 * any more, which is an error of the QP; else negative: the WQE is malformed: a negated enum
 * ohca_vendor_err, and out->wr_id and out->wqe_idx are set.
 */
int ohca_rwqe_take(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *out);
/*
 * Doorbell suppression of a QP's own RQ. @want: request a doorbell for the next post (for a QP in
 * ERR); else request none. Return: whether posted WQEs have not been taken.
 */
bool ohca_rq_notify(ohca_engine *e, struct ohca_qp *qp, bool want);
/* WQEs posted to a QP's own RQ and not taken; -1: its record is unreadable or its index invalid */
int64_t ohca_rq_posted(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_OBJECT_RWQE_H */
