/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asynchronous events of an object: pending ones, and the last one that is in the EQ. */
#ifndef OHCA_BASE_ASYNC_H
#define OHCA_BASE_ASYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/list.h"

struct ohca_async;
typedef struct ohca_engine ohca_engine;

/**
 * struct ohca_async - asynchronous events of an object
 * @link: on the deferred list of the asynchronous EQ while @pending is not 0; for a destroyed
 *	object on the gone list of this EQ
 * @handle: number of the object, for EQEs
 * @pending: bit n: event OHCA_EVENT_ASYNC + n waits; a second one of the same type is dropped
 * @port: port, from 1, for EQEs; 0: none
 * @eqe_out: an event was written to the EQ; @eqe_idx: EQ index of the last one
 * @release: frees the number and the memory of a destroyed object
 */
struct ohca_async {
	struct ohca_list link;
	uint32_t handle;
	uint32_t pending : 24, port : 8;
	uint32_t eqe_idx;
	bool eqe_out;
	void (*release)(ohca_engine *e, struct ohca_async *a);
};

/* Initialize; called when the object is created. */
static inline void ohca_async_init(struct ohca_async *a, uint32_t handle, unsigned int port)
{
	ohca_list_init(&a->link);
	a->handle = handle;
	a->pending = 0;
	a->port = (uint8_t)port;
	a->eqe_out = false;
}

/* Drop the object's pending events; called at the latest when the object is destroyed. */
static inline void ohca_async_forget(struct ohca_async *a)
{
	ohca_list_del(&a->link);
	a->pending = 0;
}

#endif /* OHCA_BASE_ASYNC_H */
