/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Protection domains. */
#ifndef OHCA_OBJECT_PD_H
#define OHCA_OBJECT_PD_H

#include <stdint.h>

#include "engine/engine.h"

struct ohca_cmd;

struct ohca_pd {
	uint32_t pdn;
	uint32_t uar;
	uint32_t refs;
};

/* The object with this number; NULL: there is none. */
struct ohca_pd *ohca_pd_get(ohca_engine *e, uint32_t pdn);
/* Free the object at destroy or reset; nothing refers to it. */
void ohca_pd_free(ohca_engine *e, struct ohca_pd *pd);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_alloc_pd(struct ohca_cmd *c);
int ohca_cmd_dealloc_pd(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_PD_H */
