/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completion queues. */
#ifndef OHCA_OBJECT_CQ_H
#define OHCA_OBJECT_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/async.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/heap.h"
#include "engine/base/list.h"
#include "engine/base/state.h"
#include "ohca_hw.h"

struct ohca_cmd;
struct ohca_eq;

/**
 * struct ohca_cq - completion queue
 * @pi: entries written; @ci: consumer index last read from the record
 * @arm_sn: events delivered, modulo 4 in the doorbell
 * @armed: an event is wanted; @arm_sol: solicited only
 * @sol_pi: pi after the last solicited or failed entry
 * @told: pi when the last event was written to the EQ
 * @eqe_idx: EQ index of the last EQE; @eqe_out: the driver may not have taken it yet
 * @eqe_due: fired, but its EQE waits until the driver takes the previous one
 */
struct ohca_cq {
	uint32_t cqn;
	uint32_t refs;
	uint32_t uar;
	uint32_t pi, ci, sol_pi, told;
	uint8_t log_size;
	uint8_t arm_sn;
	bool armed, arm_sol, error, eqe_out, eqe_due;
	uint32_t eqe_idx;
	uint32_t fired;
	struct ohca_eq *eq;
	struct ohca_pages buf;
	struct ohca_list defer;		/* on eq->deferred while eqe_due */
	struct ohca_due mod;		/* in e->mod while an event waits for more CQEs */
	struct ohca_async async;
	uint16_t mod_count, mod_period;	/* CQEs, microseconds */
	uint32_t mod_left;
};

/* The wqe_idx of a CQE for the WQE with this free running index in a ring of 1 << @log. */
static inline uint32_t ohca_wqe_idx(const ohca_engine *e, uint32_t idx, uint8_t log)
{
	/* the reader of the CQE may have another size of a ring that can be resized */
	return ohca_feature(e, OHCA_FEATURE_QP_RESIZE) ? idx : idx & ((1u << log) - 1);
}

/*
 * Append an entry. @cqe: complete but for owner and timestamp, little-endian.
 * @solicited: counts as solicited (or failed) for solicited arming. On overflow the
 * CQ goes to error: CQ_ERR event, and the QP that completes into it to error.
 * Return 0, or -1 on overflow or error (the caller moves its QP to error).
 */
int ohca_cq_push(ohca_engine *e, struct ohca_cq *cq, struct ohca_hw_cqe *cqe, bool solicited);
/* Whether @n entries are known to have room. False: that may be so all the same. */
bool ohca_cq_holds(const ohca_engine *e, const struct ohca_cq *cq, uint32_t n);
/* The object with this number; NULL: there is none. */
struct ohca_cq *ohca_cq_get(ohca_engine *e, uint32_t cqn);
/* A request to arm with the right SN. @any: any entry, else solicited ones; @ci: 24 bits */
void ohca_cq_arm(ohca_engine *e, struct ohca_cq *cq, bool any, uint32_t ci);
/*
 * Deliver moderated events that are due, as many as the allowance of work covers: true, some are
 * left. When the next is due, ns or OHCA_NO_DEADLINE.
 */
bool ohca_cq_moderate(ohca_engine *e, uint64_t now);
uint64_t ohca_cq_deadline(const ohca_engine *e);
/* Write the EQE of @cq that is due, if the driver has taken the previous one and there is room. */
bool ohca_cq_deliver(ohca_engine *e, struct ohca_cq *cq);
/* Free the object at destroy or reset; nothing refers to it. */
void ohca_cq_free(ohca_engine *e, struct ohca_cq *cq);
/*
 * The first destroyed CQ of @eq, which has one: frees its number if the driver has taken its EQE,
 * or with @all in any case; else it becomes the last one.
 */
void ohca_cq_gone(ohca_engine *e, struct ohca_eq *eq, bool all);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_create_cq(struct ohca_cmd *c);
int ohca_cmd_destroy_cq(struct ohca_cmd *c);
int ohca_cmd_modify_cq(struct ohca_cmd *c);
int ohca_cmd_resize_cq(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_CQ_H */
