/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Asynchronous events of an object that wait for room in the EQ. */
#ifndef OHCA_BASE_ASYNC_H
#define OHCA_BASE_ASYNC_H

#include <stdint.h>

#include "engine/base/list.h"

/**
 * struct ohca_async - asynchronous events of an object that wait for room
 * @link: on the asynchronous EQ's list of deferred while there are some
 * @pending: bit n: event OHCA_EVENT_ASYNC + n; the same event again says nothing new
 */
struct ohca_async {
	struct ohca_list link;
	uint32_t handle;
	uint32_t pending : 24, port : 8;
};

/* To be called when the object is made, and when it goes: nothing is told of it any more. */
static inline void ohca_async_init(struct ohca_async *a, uint32_t handle, unsigned int port)
{
	ohca_list_init(&a->link);
	a->handle = handle;
	a->pending = 0;
	a->port = (uint8_t)port;
}

static inline void ohca_async_forget(struct ohca_async *a)
{
	ohca_list_del(&a->link);
	a->pending = 0;
}

#endif /* OHCA_BASE_ASYNC_H */
