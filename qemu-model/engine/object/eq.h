/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Event queues, and asynchronous events, which the device writes to them. */
#ifndef OHCA_OBJECT_EQ_H
#define OHCA_OBJECT_EQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/async.h"
#include "engine/base/guestmem.h"
#include "engine/base/list.h"
#include "engine/base/state.h"
#include "ohca_hw.h"

struct ohca_cmd;

/**
 * struct ohca_eq - event queue
 * @refs: CQs that use it
 * @pi, @ci: producer and consumer index, free running
 * @armed: an interrupt was requested
 * @tries: how many entries of @deferred are still to be tried since the last doorbell
 * @gone_tries: the same for @gone
 * @deferred: CQs, or objects of asynchronous events, that wait for room
 * @gone: destroyed objects with an EQE in the ring: CQs by defer, or, in the asynchronous EQ,
 *	objects of all kinds by async.link
 */
struct ohca_eq {
	uint32_t eqn;
	uint32_t refs;
	uint32_t pi, ci;
	uint16_t vector;
	uint8_t log_size;
	uint8_t kind;		/* enum ohca_eq_kind */
	bool armed;
	uint32_t tries, gone_tries;
	struct ohca_pages buf;
	struct ohca_list deferred;
	struct ohca_list gone;
};

static inline struct ohca_eq *ohca_eq_get(ohca_engine *e, uint32_t eqn)
{
	return eqn < OHCA_MAX_EQ ? e->eq[eqn] : NULL;
}

/*
 * Raise the asynchronous event @type of the object, or port, that @a belongs to. If the EQ is full,
 * the event waits at its object and needs no memory, so no guest and no peer can overflow the EQ.
 */
void ohca_async_event(ohca_engine *e, enum ohca_event type, struct ohca_async *a);
/*
 * Call @release for a destroyed object: at once, or after the driver has consumed its last EQE.
 * Otherwise the driver would take this EQE for an event of the next object with the same number.
 */
void ohca_async_release(ohca_engine *e, struct ohca_async *a,
			void (*release)(ohca_engine *e, struct ohca_async *a));
/* Whether there is room for one more EQE. */
bool ohca_eq_room(const struct ohca_eq *eq);
/* Append @eqe, 32 bytes; sets its phase. Otherwise as ohca_eq_push(). */
int ohca_eq_put(ohca_engine *e, struct ohca_eq *eq, void *eqe);
/*
 * Append an EQE; the caller has checked for room. 0, or -1 if the EQ's memory cannot be written;
 * the device is then in the fatal state.
 */
int ohca_eq_push(ohca_engine *e, struct ohca_eq *eq, uint8_t type, uint32_t handle,
		 unsigned int port, uint32_t count);
/*
 * Serve a doorbell of @eq: the driver has consumed the EQEs before @ci; @arm: it requests an
 * interrupt. Delivers deferred events as far as the allowance of work covers; ohca_eq_serve()
 * continues.
 */
void ohca_eq_doorbell(ohca_engine *e, struct ohca_eq *eq, uint32_t ci, bool arm);
/*
 * Deliver deferred events and free the numbers of destroyed objects, as the last doorbell of @eq
 * allows. Return: true if the allowance of work ended before that was done.
 */
bool ohca_eq_serve(ohca_engine *e, struct ohca_eq *eq);
/*
 * Drop what waits for room in @eq, or for the driver to consume an EQE of it, as far as the
 * allowance of work covers. Return: true if it is done
 */
bool ohca_eq_forget(ohca_engine *e, struct ohca_eq *eq);
/* Free the object at destroy or reset; nothing refers to it, and ohca_eq_forget() is done. */
void ohca_eq_free(ohca_engine *e, struct ohca_eq *eq);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_create_eq(struct ohca_cmd *c);
int ohca_cmd_destroy_eq(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_EQ_H */
