/* SPDX-License-Identifier: GPL-2.0-or-later */
/* XRC domains, and the SRQs that their targets use. */
#ifndef OHCA_OBJECT_XRC_H
#define OHCA_OBJECT_XRC_H

#include <stdint.h>

#include "engine/base/list.h"
#include "engine/engine.h"

struct ohca_cmd;
struct ohca_qp;
struct ohca_srq;

/** struct ohca_xrcd - XRC domain; @targets: its XRC_TGT QPs; @refs: they and its SRQs */
struct ohca_xrcd {
	uint32_t xrcdn;
	uint32_t refs;
	struct ohca_list targets;
};

/* The XRC SRQ of the target @qp's domain with this number. 0, OHCA_VE_XRC_SRQ if
 * there is none, OHCA_VE_PD if it is of another domain */
int ohca_xrc_srq(ohca_engine *e, const struct ohca_qp *qp, uint32_t srqn, struct ohca_srq **srq);
/* Clear @srq, which is destroyed, from all targets, a step of it. Return: it is done */
bool ohca_xrc_srq_gone(ohca_engine *e, const struct ohca_srq *srq);
/* The object with this number; NULL: there is none. */
struct ohca_xrcd *ohca_xrcd_get(ohca_engine *e, uint32_t xrcdn);
/* Free the object at destroy or reset; nothing refers to it. */
void ohca_xrcd_free(ohca_engine *e, struct ohca_xrcd *xrcd);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_alloc_xrcd(struct ohca_cmd *c);
int ohca_cmd_dealloc_xrcd(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_XRC_H */
