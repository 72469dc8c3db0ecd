/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Automatic path migration. */
#ifndef OHCA_OBJECT_APM_H
#define OHCA_OBJECT_APM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ohca_hw.h"

struct ohca_qp;

/**
 * struct ohca_alt_path - alternate path of a QP
 * @av: address vector as the driver gave it, little-endian
 * @pkey_index: P_Key index, CPU order
 * @port: from 0
 * @timeout: code of the local ACK timeout
 */
struct ohca_alt_path {
	struct ohca_hw_av av;
	uint16_t pkey_index;
	uint8_t port, timeout;
};

/*
 * Migrate: the alternate path becomes the primary one. Raises PATH_MIG. Return: false if the QP is
 * not ARMED.
 */
bool ohca_mig_go(ohca_engine *e, struct ohca_qp *qp);
/*
 * The device refuses a packet that requests a migration. Raises PATH_MIG_ERR, once until a rearm.
 */
void ohca_mig_refuse(ohca_engine *e, struct ohca_qp *qp);
/* Used by MODIFY_QP, which has checked the attributes */
struct ohca_alt_path *ohca_alt_alloc(ohca_engine *e);	/* for qp->alt; NULL: no memory */
void ohca_mig_load(struct ohca_qp *qp, const struct ohca_hw_qp_attr *a);
void ohca_mig_rearm(struct ohca_qp *qp);
/* Set MIGRATED, and free the alternate path */
void ohca_mig_forget(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_OBJECT_APM_H */
