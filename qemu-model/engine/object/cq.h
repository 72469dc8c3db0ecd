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
 * @flags: OHCA_CQ_*
 * @pi: entries written; @ci: consumer index last read from the record
 * @arm_sn: events delivered, modulo 4 in the doorbell
 * @armed: an event was requested; @arm_sol: for solicited entries only
 * @sol_pi: pi after the last solicited or failed entry
 * @told: pi when the last EQE was written
 * @eqe_idx: EQ index of the last EQE; @eqe_out: there is one, and the driver may not have
 *	consumed it yet
 * @eqe_due: the CQ has fired, but its EQE waits until the driver consumes the previous one, or
 *	for room in the EQ
 * @fired: how often the CQ has fired
 * @mod_count, @mod_period: moderation: CQEs, microseconds
 * @mod_left: CQEs until the moderated event
 */
struct ohca_cq {
	uint32_t cqn;
	uint32_t refs;
	uint32_t uar;
	uint32_t pi, ci, sol_pi, told;
	uint8_t log_size, flags;
	uint8_t arm_sn;
	bool armed, arm_sol, error, eqe_out, eqe_due;
	uint32_t eqe_idx;
	uint32_t fired;
	struct ohca_eq *eq;
	struct ohca_pages buf;
	struct ohca_list defer;		/* on eq->deferred while eqe_due */
	struct ohca_due mod;		/* in e->mod while an event waits for more CQEs */
	struct ohca_async async;
	uint16_t mod_count, mod_period;
	uint32_t mod_left;
};

/* The wqe_idx of a CQE for the WQE with the free running index @idx in a ring of 1 << @log. */
static inline uint32_t ohca_wqe_idx(const ohca_engine *e, uint32_t idx, uint8_t log)
{
	/* if the ring can be resized, the driver may use another size when it reads the CQE */
	return ohca_feature(e, OHCA_FEATURE_QP_RESIZE) ? idx : idx & ((1u << log) - 1);
}

/*
 * Append an entry. @cqe: little-endian, complete except for owner and timestamp. @solicited: the
 * entry fires a CQ that is armed for solicited (or failed) entries. On overflow the CQ enters the
 * error state and raises CQ_ERR. Return: 0, or -1 on overflow or if the CQ is in error; the caller
 * then moves its QP to ERR.
 */
int ohca_cq_push(ohca_engine *e, struct ohca_cq *cq, struct ohca_hw_cqe *cqe, bool solicited);
/* Whether @n entries are known to have room. False: unknown, as this does not read the record. */
bool ohca_cq_holds(const ohca_engine *e, const struct ohca_cq *cq, uint32_t n);
/* The object with this number; NULL: there is none. */
struct ohca_cq *ohca_cq_get(ohca_engine *e, uint32_t cqn);
/*
 * A request to arm, whose SN matches. @any: for any entry, else for solicited ones only; @ci: the
 * consumer index, 24 bits
 */
void ohca_cq_arm(ohca_engine *e, struct ohca_cq *cq, bool any, uint32_t ci);
/*
 * Deliver moderated events that are due at @now, ns, as far as the allowance of work covers.
 * Return: true if some are left.
 */
bool ohca_cq_moderate(ohca_engine *e, uint64_t now);
/* When the next moderated event is due, ns; OHCA_NO_DEADLINE: there is none */
uint64_t ohca_cq_deadline(const ohca_engine *e);
/*
 * Write the EQE of @cq that is due. Return: false if the driver has not consumed the previous one,
 * or the EQ has no room.
 */
bool ohca_cq_deliver(ohca_engine *e, struct ohca_cq *cq);
/* Free the object at destroy or reset; nothing refers to it. */
void ohca_cq_free(ohca_engine *e, struct ohca_cq *cq);
/*
 * Free the number of the first destroyed CQ of @eq, which has at least one, if the driver has
 * consumed its EQE, or if @all. Otherwise move the CQ to the end of the list.
 */
void ohca_cq_gone(ohca_engine *e, struct ohca_eq *eq, bool all);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_create_cq(struct ohca_cmd *c);
int ohca_cmd_destroy_cq(struct ohca_cmd *c);
int ohca_cmd_modify_cq(struct ohca_cmd *c);
int ohca_cmd_resize_cq(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_CQ_H */
