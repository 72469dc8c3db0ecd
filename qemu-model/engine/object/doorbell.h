/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Doorbells: the owner page of each number, and delivery to the objects. */
#ifndef OHCA_OBJECT_DOORBELL_H
#define OHCA_OBJECT_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

/* Objects with an owner page. */
enum ohca_db_kind { OHCA_DB_QP, OHCA_DB_SRQ, OHCA_DB_CQ, OHCA_DB_NUM };
/* ohca_new(): 0 or -1 (memory). */
int ohca_db_init(ohca_engine *e);
void ohca_db_free(ohca_engine *e);
/* Doorbells of number @n are accepted from page @uar; from no page. */
void ohca_db_own(ohca_engine *e, enum ohca_db_kind kind, uint32_t n, uint32_t uar);
void ohca_db_disown(ohca_engine *e, enum ohca_db_kind kind, uint32_t n);
/* A new EQ has this number. */
void ohca_db_eq_clear(ohca_engine *e, uint32_t eqn);
/* Drop all doorbells. */
void ohca_db_clear(ohca_engine *e);
/* Whether a doorbell is pending. */
bool ohca_db_pending(const ohca_engine *e);
/* Set the SRQ's doorbell pending */
void ohca_db_srq_again(ohca_engine *e, uint32_t srqn);
/* Deliver the pending doorbells to ohca_xp_kick_sq/rq, cq arm, eq ci, admin.
 * Return true if any was found. */
bool ohca_doorbells_run(ohca_engine *e);

#endif /* OHCA_OBJECT_DOORBELL_H */
