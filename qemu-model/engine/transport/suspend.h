/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Waiting for pages. */
#ifndef OHCA_TRANSPORT_SUSPEND_H
#define OHCA_TRANSPORT_SUSPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/fault.h"
#include "engine/transport/turn.h"

struct ohca_missing;
struct ohca_qp;
struct ohca_xport;

/*
 * @side needs @m. True: the fault is reported, and ohca_xp_resume() follows; false: no
 * fault slot is free. @wqe_idx: OHCA_FAULT_REQ: the send WQE.
 */
bool ohca_suspend(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		  uint32_t wqe_idx, const struct ohca_missing *m);
/* The same for a sender, and what it returns. */
enum ohca_sent ohca_suspend_tx(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t,
			       enum ohca_fault_side side, uint32_t wqe_idx,
			       const struct ohca_missing *m);
/* @side does not wait any more: its work is done or dropped. */
void ohca_suspend_forget(ohca_engine *e, struct ohca_xport *xp, enum ohca_fault_side side);
void ohca_suspend_forget_all(ohca_engine *e, struct ohca_xport *xp);

#endif /* OHCA_TRANSPORT_SUSPEND_H */
