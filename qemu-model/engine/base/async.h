/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asynchronous events of an object: those that wait for room in the EQ, and the last one in it. */
#ifndef OHCA_BASE_ASYNC_H
#define OHCA_BASE_ASYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/list.h"

struct ohca_async;
typedef struct ohca_engine ohca_engine;

/**
 * struct ohca_async - asynchronous events of an object
 * @link: on the asynchronous EQ's deferred list while @pending is not 0; of an object that is
 *	destroyed on its list of those
 * @pending: bit n: event OHCA_EVENT_ASYNC + n; a second one of the same type is dropped
 * @eqe_out: an event was written to the EQ, the last one as entry @eqe_idx
 * @release: gives back the number of an object that is destroyed, and its memory
 */
struct ohca_async {
	struct ohca_list link;
	uint32_t handle;
	uint32_t pending : 24, port : 8;
	uint32_t eqe_idx;
	bool eqe_out;
	void (*release)(ohca_engine *e, struct ohca_async *a);
};

/* Called when the object is created. */
static inline void ohca_async_init(struct ohca_async *a, uint32_t handle, unsigned int port)
{
	ohca_list_init(&a->link);
	a->handle = handle;
	a->pending = 0;
	a->port = (uint8_t)port;
	a->eqe_out = false;
}

/* Drops the object's deferred events; called at the latest when it is destroyed. */
static inline void ohca_async_forget(struct ohca_async *a)
{
	ohca_list_del(&a->link);
	a->pending = 0;
}

#endif /* OHCA_BASE_ASYNC_H */
