/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Doorbells: the owner page of each number, and delivery to the objects. */
#ifndef OHCA_OBJECT_DOORBELL_H
#define OHCA_OBJECT_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "front/doorbell.h"

/**
 * struct ohca_db - the doorbells of an engine; those of a life that has ended have none
 * @at: where they are
 * @own: their memory; NULL: the host's
 * @next: [enum ohca_ring_kind] the first number that the last run has not looked at; 0: it was
 *	complete
 */
struct ohca_db {
	struct ohca_doorbells at;
	void *own;
	uint32_t next[OHCA_RING_NUM];
};

/* ohca_new(): 0 or -1 (memory). */
int ohca_db_init(ohca_engine *e, const struct ohca_db_sizes *s);
void ohca_db_free(ohca_engine *e);
/* They are in @mem from now on, which is all 0, with what they have. */
void ohca_db_move(ohca_engine *e, void *mem);
/* Doorbells of number @n are accepted from page @uar; from no page. */
void ohca_db_own(ohca_engine *e, enum ohca_db_kind kind, uint32_t n, uint32_t uar);
void ohca_db_disown(ohca_engine *e, enum ohca_db_kind kind, uint32_t n);
/* A new EQ has this number. */
void ohca_db_eq_clear(ohca_engine *e, uint32_t eqn);
/* Doorbells of no number of the engine are accepted. */
void ohca_db_disown_all(ohca_engine *e);
/* Drop all doorbells. */
void ohca_db_clear(ohca_engine *e);
/* The device does not run: what was written asks for nothing. */
void ohca_db_ignore(ohca_engine *e);
/* Whether a doorbell is pending. */
bool ohca_db_pending(const ohca_engine *e);
/* Set the SRQ's doorbell pending */
void ohca_db_srq_again(ohca_engine *e, uint32_t srqn);
/* Doorbells that were ignored. */
uint64_t ohca_db_bad(const ohca_engine *e, enum ohca_db_bad why);
/* The admin queue's producer index, as last written; it is 0. */
uint32_t ohca_db_admin(const ohca_engine *e);
void ohca_db_admin_reset(ohca_engine *e);
/* Deliver the pending doorbells to ohca_xp_kick_sq/rq, cq arm, eq ci.
 * Return true if any was found. */
bool ohca_doorbells_run(ohca_engine *e);

#endif /* OHCA_OBJECT_DOORBELL_H */
