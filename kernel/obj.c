// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Reference counts of objects that are looked up by number. A CQ, QP or SRQ is destroyed in this
 * order: the driver removes it from its array, the device destroys it, ohca_sync_events() waits for
 * handlers that may have found it, ohca_obj_release() waits for the other references. A region with
 * on-demand paging stays in its array until the device has deregistered it, because the driver
 * resolves its page faults until then (paged.c).
 */
#include <linux/xarray.h>

#include "obj.h"

/** ohca_obj_init - set the first reference of an object that is in no array yet; any context */
void ohca_obj_init(struct ohca_obj *obj)
{
	refcount_set(&obj->ref, 1);
	init_completion(&obj->released);
}

/**
 * ohca_obj_get - look an object up by number
 * @objs: array of struct ohca_obj
 * @handle: number from the device
 *
 * Only in an interrupt handler or its thread. It needs no lock, because destroy waits for both.
 * Return: the object with a reference, or NULL.
 */
struct ohca_obj *ohca_obj_get(struct xarray *objs, u32 handle)
{
	struct ohca_obj *obj = xa_load(objs, handle);

	return obj && refcount_inc_not_zero(&obj->ref) ? obj : NULL;
}

/**
 * ohca_obj_get_locked - look an object up by number, outside interrupt handlers
 * @objs: array of struct ohca_obj
 * @handle: number from the device
 *
 * Process context.
 * Return: the object with a reference, or NULL.
 */
struct ohca_obj *ohca_obj_get_locked(struct xarray *objs, u32 handle)
{
	struct ohca_obj *obj;

	/* an object that is in the array is not freed */
	xa_lock(objs);
	obj = ohca_obj_get(objs, handle);
	xa_unlock(objs);
	return obj;
}

/**
 * ohca_obj_next - iterate over all objects
 * @objs: array of struct ohca_obj
 * @index: number to start at; set to the number of the object that is returned
 *
 * Process context; the caller increments *@index before the next call.
 * Return: the next object with a reference, or NULL.
 */
struct ohca_obj *ohca_obj_next(struct xarray *objs, unsigned long *index)
{
	struct ohca_obj *obj;

	/* an object that is in the array is not freed */
	xa_lock(objs);
	do {
		obj = xa_find(objs, index, ULONG_MAX, XA_PRESENT);
		if (obj && refcount_inc_not_zero(&obj->ref))
			break;
		(*index)++;
	} while (obj);
	xa_unlock(objs);
	return obj;
}

/** ohca_obj_put - drop a reference; any context */
void ohca_obj_put(struct ohca_obj *obj)
{
	if (refcount_dec_and_test(&obj->ref))
		complete(&obj->released);
}

/**
 * ohca_obj_release - drop the first reference, and wait until no other is left
 * @obj: object that has been removed from its array
 *
 * Process context.
 */
void ohca_obj_release(struct ohca_obj *obj)
{
	ohca_obj_put(obj);
	wait_for_completion(&obj->released);
}
