/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Doorbells: which doorbell page may ring each number, and delivery to the objects. */
#ifndef OHCA_OBJECT_DOORBELL_H
#define OHCA_OBJECT_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "front/doorbell.h"

/**
 * struct ohca_db - the doorbells of an engine (the engine of an ended life has none)
 * @at: their arrays
 * @own: memory of the arrays if the engine allocated it; NULL: it is the host's
 * @next: [enum ohca_ring_kind] the first number that the last run has not served; 0: the last run
 *	was complete
 */
struct ohca_db {
	struct ohca_doorbells at;
	void *own;
	uint32_t next[OHCA_RING_NUM];
};

/* ohca_new(): 0 or -1 (memory). */
int ohca_db_init(ohca_engine *e, const struct ohca_db_sizes *s);
void ohca_db_free(ohca_engine *e);
/* Move the arrays, with the doorbells of numbers in use, to @mem, which is all zeros. */
void ohca_db_move(ohca_engine *e, void *mem);
/* Accept doorbells of number @n from page @uar only; accept them from no page. */
void ohca_db_own(ohca_engine *e, enum ohca_db_kind kind, uint32_t n, uint32_t uar);
void ohca_db_disown(ohca_engine *e, enum ohca_db_kind kind, uint32_t n);
/* Clear the doorbell of @eqn, the number of a new EQ. */
void ohca_db_eq_clear(ohca_engine *e, uint32_t eqn);
/* Accept no doorbells of any number in use. */
void ohca_db_disown_all(ohca_engine *e);
/* Drop all doorbells. */
void ohca_db_clear(ohca_engine *e);
/* Clear the pending kinds without serving them, since the device does not run. */
void ohca_db_ignore(ohca_engine *e);
/* Whether a doorbell is pending. */
bool ohca_db_pending(const ohca_engine *e);
/* Ring the doorbell of the SRQ again */
void ohca_db_srq_again(ohca_engine *e, uint32_t srqn);
/* How many doorbells were ignored because of @why. */
uint64_t ohca_db_bad(const ohca_engine *e, enum ohca_db_bad why);
/* The admin queue's producer index, as last written; set it to 0. */
uint32_t ohca_db_admin(const ohca_engine *e);
void ohca_db_admin_reset(ohca_engine *e);
/*
 * Deliver pending doorbells to EQs, QPs, SRQs and CQs, as far as the allowance of work covers.
 * Return: true if any were pending.
 */
bool ohca_doorbells_run(ohca_engine *e);

#endif /* OHCA_OBJECT_DOORBELL_H */
