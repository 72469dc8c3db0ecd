/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Event queues: entries, interrupts, asynchronous events. */
#include "engine/base/async.h"
#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/le.h"
#include "engine/base/lies.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/fatal.h"
#include "engine/object/to_transport.h"
#include "ohca_hw.h"

static uint32_t eq_size(const struct ohca_eq *eq)
{
	return 1u << eq->log_size;
}

bool ohca_eq_room(const struct ohca_eq *eq)
{
	return eq->pi - eq->ci < eq_size(eq);
}

static void eq_interrupt(ohca_engine *e, struct ohca_eq *eq)
{
	eq->armed = false;
	e->ops.irq(e->h, eq->vector);
}

int ohca_eq_put(ohca_engine *e, struct ohca_eq *eq, void *eqe)
{
	const size_t size = sizeof(struct ohca_hw_eqe);
	uint32_t slot = eq->pi & (eq_size(eq) - 1);

	if (ohca_lies(e))
		ohca_lie_in_eqe(e, eqe);
	((uint8_t *)eqe)[offsetof(struct ohca_hw_eqe, phase)] = !(eq->pi >> eq->log_size & 1);
	if (ohca_pages_publish(e, &eq->buf, (uint64_t)slot * size, eqe, size)) {
		ohca_fatal(e, OHCA_FATAL_EQ_DMA);
		return -1;
	}
	eq->pi++;
	ohca_count(e, OHCA_CNT_EQE);
	if (eq->armed)
		eq_interrupt(e, eq);
	return 0;
}

int ohca_eq_push(ohca_engine *e, struct ohca_eq *eq, uint8_t type, uint32_t handle,
		 unsigned int port, uint32_t count)
{
	struct ohca_hw_eqe eqe = {
		.type = type,
		.port = (uint8_t)port,
		.handle = ohca_to_le32(handle),
		.count = ohca_to_le32(count),
	};

	return ohca_eq_put(e, eq, &eqe);
}

/*
 * Try to write the EQE of the first deferred CQ. If the CQ still has an EQE in the ring, it is
 * moved to the end of the list. At most as many CQs as the ring has entries have an EQE in it. So
 * as many tries as the ring has entries fill the ring, however many CQs are deferred.
 */
static void cq_try(ohca_engine *e, struct ohca_eq *eq)
{
	struct ohca_cq *cq = ohca_container_of(eq->deferred.next, struct ohca_cq, defer);

	ohca_list_del(&cq->defer);
	if (!ohca_cq_deliver(e, cq))
		ohca_list_add_tail(&eq->deferred, &cq->defer);
}

/* ---- asynchronous events ---------------------------------------------------------- */

static uint32_t async_bit(enum ohca_event type)
{
	return 1u << (type - OHCA_EVENT_ASYNC);
}

static void async_defer(ohca_engine *e, struct ohca_eq *eq, struct ohca_async *a,
			enum ohca_event type)
{
	const uint32_t up_down = async_bit(OHCA_EVENT_PORT_ACTIVE) |
				 async_bit(OHCA_EVENT_PORT_ERR);

	/* only the last of PORT_ACTIVE and PORT_ERR stays pending */
	if (async_bit(type) & up_down)
		a->pending &= ~up_down;
	a->pending |= async_bit(type);
	if (ohca_list_empty(&a->link))
		ohca_list_add_tail(&eq->deferred, &a->link);
	ohca_count(e, OHCA_CNT_EQE_DEFERRED);
}

static void async_push(ohca_engine *e, struct ohca_eq *eq, uint8_t type, struct ohca_async *a)
{
	a->eqe_out = true;
	a->eqe_idx = eq->pi;
	ohca_eq_push(e, eq, type, a->handle, a->port, 0);
}

/* Write one event of the first deferred object. */
static void async_try(ohca_engine *e, struct ohca_eq *eq)
{
	struct ohca_async *a = ohca_container_of(eq->deferred.next, struct ohca_async, link);
	uint32_t n = (uint32_t)__builtin_ctz(a->pending);

	a->pending &= a->pending - 1u;
	if (!a->pending)
		ohca_list_del(&a->link);
	async_push(e, eq, (uint8_t)(OHCA_EVENT_ASYNC + n), a);
}

void ohca_async_event(ohca_engine *e, enum ohca_event type, struct ohca_async *a)
{
	struct ohca_eq *eq = e->async_eq;

	/* drop events before the driver has created the EQ */
	if (!eq || !ohca_running(e))
		return;
	if (ohca_eq_room(eq)) {
		ohca_dma_enter(e);
		async_push(e, eq, (uint8_t)type, a);
		ohca_dma_exit(e);
		return;
	}
	async_defer(e, eq, a, type);
}

/* Whether the driver has not consumed the object's last EQE yet. */
static bool async_waits(const ohca_engine *e, const struct ohca_async *a)
{
	const struct ohca_eq *eq = e->async_eq;

	return eq && a->eqe_out && eq->pi - 1 - a->eqe_idx < eq->pi - eq->ci;
}

void ohca_async_release(ohca_engine *e, struct ohca_async *a,
			void (*release)(ohca_engine *e, struct ohca_async *a))
{
	ohca_async_forget(a);
	if (!async_waits(e, a)) {
		release(e, a);
		return;
	}
	a->release = release;
	ohca_list_add_tail(&e->async_eq->gone, &a->link);
}

/*
 * Release the first destroyed object if the driver has consumed its EQE; else move it to the end of
 * the list.
 */
static void async_gone(ohca_engine *e, struct ohca_eq *eq)
{
	struct ohca_async *a = ohca_container_of(eq->gone.next, struct ohca_async, link);

	ohca_list_del(&a->link);
	if (async_waits(e, a))
		ohca_list_add_tail(&eq->gone, &a->link);
	else
		a->release(e, a);
}

/* ---- doorbells -------------------------------------------------------------------- */

bool ohca_eq_serve(ohca_engine *e, struct ohca_eq *eq)
{
	const bool async = eq->kind == OHCA_EQ_ASYNC;

	while (eq->tries && !ohca_list_empty(&eq->deferred) && ohca_eq_room(eq) &&
	       ohca_running(e)) {
		if (!ohca_work_left(e))
			return true;
		ohca_work(e, OHCA_WORK_STEP);
		eq->tries--;
		if (async)
			async_try(e, eq);
		else
			cq_try(e, eq);
	}
	while (eq->gone_tries && !ohca_list_empty(&eq->gone)) {
		if (!ohca_work_left(e))
			return true;
		ohca_work(e, OHCA_WORK_STEP);
		eq->gone_tries--;
		if (async)
			async_gone(e, eq);
		else
			ohca_cq_gone(e, eq, false);
	}
	return false;
}

void ohca_eq_doorbell(ohca_engine *e, struct ohca_eq *eq, uint32_t ci, bool arm)
{
	uint32_t freed;

	ohca_work(e, OHCA_WORK_STEP);
	if (ci - eq->ci > eq->pi - eq->ci) {
		ohca_count(e, OHCA_CNT_DB_BAD_INDEX);
		return;
	}
	/* faults wait for entries only while the ring is full */
	freed = ohca_eq_room(eq) ? 0 : ci - eq->ci;
	eq->ci = ci;
	if (eq->kind == OHCA_EQ_FAULT)
		ohca_xp_fault_room(e, freed);
	/* each object in @gone has an EQE in the ring, or had one until now */
	eq->tries = eq->gone_tries = eq_size(eq);
	ohca_eq_serve(e, eq);
	if (arm) {
		if (eq->pi != eq->ci)
			eq_interrupt(e, eq);
		else
			eq->armed = true;
	}
}

/* ---- commands --------------------------------------------------------------------- */

int ohca_cmd_create_eq(struct ohca_cmd *c)
{
	const struct ohca_cmd_create_eq *cmd = &c->aqe.create_eq;
	ohca_engine *e = c->e;
	struct ohca_eq *eq;
	uint32_t eqn;
	int rc;

	if (cmd->log_size < OHCA_LOG_MIN_EQE || cmd->log_size > OHCA_LOG_MAX_EQE)
		return OHCA_BAD(c, create_eq.log_size);
	if (cmd->kind > OHCA_EQ_FAULT || (cmd->kind == OHCA_EQ_ASYNC && e->async_eq) ||
	    (cmd->kind == OHCA_EQ_FAULT && (e->fault_eq || !ohca_feature(e, OHCA_FEATURE_ODP))))
		return OHCA_BAD(c, create_eq.kind);
	if (cmd->kind == OHCA_EQ_FAULT && cmd->log_size < OHCA_LOG_MAX_FAULTS)
		return OHCA_BAD(c, create_eq.log_size);
	if (ohca_le16(cmd->vector) >= e->cfg.num_vectors)
		return OHCA_BAD(c, create_eq.vector);
	for (eqn = 0; eqn < OHCA_MAX_EQ && e->eq[eqn]; eqn++)
		;
	if (eqn == OHCA_MAX_EQ)
		return OHCA_ADMIN_NO_RESOURCE;
	eq = ohca_mem_get(e, sizeof(*eq));
	if (!eq)
		return OHCA_ADMIN_NO_RESOURCE;
	rc = OHCA_CMD_PAGES(c, &eq->buf, create_eq.pl,
			    sizeof(struct ohca_hw_eqe) << cmd->log_size, OHCA_MAX_QUEUE_PAGES);
	if (rc) {
		ohca_mem_put(e, eq, sizeof(*eq));
		return rc;
	}
	eq->eqn = eqn;
	eq->log_size = cmd->log_size;
	eq->vector = ohca_le16(cmd->vector);
	eq->kind = cmd->kind;
	ohca_list_init(&eq->deferred);
	ohca_list_init(&eq->gone);
	ohca_db_eq_clear(e, eqn);
	e->eq[eqn] = eq;
	if (eq->kind == OHCA_EQ_ASYNC)
		e->async_eq = eq;
	else if (eq->kind == OHCA_EQ_FAULT)
		e->fault_eq = eq;
	ohca_cmd_result(c, eqn);
	return OHCA_ADMIN_OK;
}

bool ohca_eq_forget(ohca_engine *e, struct ohca_eq *eq)
{
	if (e->async_eq == eq)
		e->async_eq = NULL;
	if (e->fault_eq == eq)
		e->fault_eq = NULL;
	/* no object of the asynchronous EQ waits for the driver from now on */
	while (!ohca_list_empty(&eq->gone)) {
		if (!ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_STEP);
		if (eq->kind == OHCA_EQ_ASYNC)
			async_gone(e, eq);
		else
			ohca_cq_gone(e, eq, true);
	}
	/* a completion EQ has no deferred CQ left, since it has no references */
	while (!ohca_list_empty(&eq->deferred)) {
		if (!ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_STEP);
		ohca_async_forget(ohca_container_of(eq->deferred.next, struct ohca_async, link));
	}
	return true;
}

void ohca_eq_free(ohca_engine *e, struct ohca_eq *eq)
{
	e->eq[eq->eqn] = NULL;
	ohca_pages_free(e, &eq->buf);
	ohca_mem_put(e, eq, sizeof(*eq));
}

int ohca_cmd_destroy_eq(struct ohca_cmd *c)
{
	struct ohca_eq *eq = ohca_eq_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!eq)
		return OHCA_ADMIN_BAD_HANDLE;
	/* page faults of ODP regions need this EQ */
	if (eq->refs || (eq == c->e->fault_eq && c->e->num_odp))
		return OHCA_ADMIN_BUSY;
	if (!ohca_eq_forget(c->e, eq))
		return OHCA_CMD_MORE;
	ohca_eq_free(c->e, eq);
	return OHCA_ADMIN_OK;
}
