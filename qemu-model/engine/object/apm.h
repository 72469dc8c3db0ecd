/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Automatic path migration. */
#ifndef OHCA_OBJECT_APM_H
#define OHCA_OBJECT_APM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ohca_hw.h"

struct ohca_qp;

/** struct ohca_alt_path - alternate path of a QP; @av little-endian as given, @port from 0 */
struct ohca_alt_path {
	struct ohca_hw_av av;
	uint16_t pkey_index;
	uint8_t port, timeout;
};

/* The alternate path becomes the primary one: PATH_MIG. False: the QP is not ARMED. */
bool ohca_mig_go(ohca_engine *e, struct ohca_qp *qp);
/* A packet that asks for migration is not accepted: PATH_MIG_ERR */
void ohca_mig_refuse(ohca_engine *e, struct ohca_qp *qp);
/* The part of MODIFY_QP for the alternate path, which it has checked */
struct ohca_alt_path *ohca_alt_alloc(ohca_engine *e);	/* for qp->alt; NULL: memory */
void ohca_mig_load(struct ohca_qp *qp, const struct ohca_hw_qp_attr *a);
void ohca_mig_rearm(struct ohca_qp *qp);
/* MIGRATED, without alternate path */
void ohca_mig_forget(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_OBJECT_APM_H */
