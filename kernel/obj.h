/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: reference counts of objects that are looked up by number; obj.c. */
#ifndef OHCA_OBJ_H
#define OHCA_OBJ_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <linux/types.h>

struct xarray;

/**
 * struct ohca_obj - reference count of an object
 * @ref: references of the driver, until destroy, and of code that has looked the object up
 * @released: completed when @ref is 0
 */
struct ohca_obj {
	refcount_t ref;
	struct completion released;
};

void ohca_obj_init(struct ohca_obj *obj);
struct ohca_obj *ohca_obj_get(struct xarray *objs, u32 handle);
struct ohca_obj *ohca_obj_get_locked(struct xarray *objs, u32 handle);
struct ohca_obj *ohca_obj_next(struct xarray *objs, unsigned long *index);
void ohca_obj_put(struct ohca_obj *obj);
void ohca_obj_release(struct ohca_obj *obj);

#endif /* OHCA_OBJ_H */
