/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Automatic path migration (IBTA vol 1, 17.2.8): the alternate path of a connected QP, and its
 * three states.
 *
 * MIGRATED: there is no alternate path to migrate to. Every packet has MigReq set.
 * REARM: the driver has loaded an alternate path. Packets have MigReq clear. The first packet from
 * the peer with MigReq clear makes the QP ARMED: the peer has loaded an alternate path, too.
 * ARMED: the alternate path becomes the primary one when the retries of the primary path
 * are exhausted, when a packet with MigReq set arrives over it, or on MODIFY_QP. Then the QP is
 * MIGRATED, and has no alternate path until the driver loads another one.
 */
#include "engine/base/le.h"
#include "engine/base/mem.h"
#include "engine/object/apm.h"
#include "engine/object/eq.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "ohca_hw.h"

struct ohca_alt_path *ohca_alt_alloc(ohca_engine *e)
{
	return ohca_mem_get(e, sizeof(struct ohca_alt_path));
}

void ohca_mig_load(struct ohca_qp *qp, const struct ohca_hw_qp_attr *a)
{
	*qp->alt = (struct ohca_alt_path){
		.av = a->alt_av,
		.pkey_index = ohca_le16(a->alt_pkey_index),
		.port = a->alt_av.port - 1,
		.timeout = a->alt_timeout,
	};
}

void ohca_mig_forget(ohca_engine *e, struct ohca_qp *qp)
{
	ohca_mem_put(e, qp->alt, sizeof(*qp->alt));
	qp->alt = NULL;
	qp->mig_state = OHCA_MIG_MIGRATED;
	qp->mig_refused = false;
}

void ohca_mig_rearm(struct ohca_qp *qp)
{
	qp->mig_state = OHCA_MIG_REARM;
	qp->mig_refused = false;
}

bool ohca_mig_go(ohca_engine *e, struct ohca_qp *qp)
{
	const struct ohca_alt_path *alt = qp->alt;

	if (qp->mig_state != OHCA_MIG_ARMED)
		return false;
	qp->av = alt->av;
	qp->port = alt->port;
	qp->pkey_index = alt->pkey_index;
	qp->timeout = alt->timeout;
	ohca_mig_forget(e, qp);
	ohca_xp_migrated(e, qp);
	ohca_async_event(e, OHCA_EVENT_PATH_MIG, &qp->async);
	return true;
}

void ohca_mig_refuse(ohca_engine *e, struct ohca_qp *qp)
{
	if (qp->mig_state == OHCA_MIG_MIGRATED || qp->mig_refused)
		return;
	/* once until the driver rearms, so that no peer can fill the EQ */
	qp->mig_refused = true;
	ohca_async_event(e, OHCA_EVENT_PATH_MIG_ERR, &qp->async);
}
