/* SPDX-License-Identifier: GPL-2.0-or-later */
/* XRC domains, and the SRQs of their XRC_TGT QPs. */
#ifndef OHCA_OBJECT_XRC_H
#define OHCA_OBJECT_XRC_H

#include <stdint.h>

#include "engine/base/list.h"
#include "engine/engine.h"

struct ohca_cmd;
struct ohca_qp;
struct ohca_srq;

/**
 * struct ohca_xrcd - XRC domain
 * @xrcdn: its number
 * @refs: its XRC_TGT QPs and its SRQs
 * @targets: its XRC_TGT QPs
 */
struct ohca_xrcd {
	uint32_t xrcdn;
	uint32_t refs;
	struct ohca_list targets;
};

/*
 * Look up the XRC SRQ @srqn for the XRC_TGT QP @qp. 0; OHCA_VE_XRC_SRQ: there is none; OHCA_VE_PD:
 * it belongs to another domain
 */
int ohca_xrc_srq(ohca_engine *e, const struct ohca_qp *qp, uint32_t srqn, struct ohca_srq **srq);
/*
 * Remove @srq, which is being destroyed, from all targets, as far as the allowance of work covers.
 * Return: true if it is done
 */
bool ohca_xrc_srq_gone(ohca_engine *e, const struct ohca_srq *srq);
/* The object with this number; NULL: there is none. */
struct ohca_xrcd *ohca_xrcd_get(ohca_engine *e, uint32_t xrcdn);
/* Free the object at destroy or reset; nothing refers to it. */
void ohca_xrcd_free(ohca_engine *e, struct ohca_xrcd *xrcd);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_alloc_xrcd(struct ohca_cmd *c);
int ohca_cmd_dealloc_xrcd(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_XRC_H */
