/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QPs that wait for pages; see suspend.c. */
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
 * @side of @qp needs the pages @m. @wqe_idx: OHCA_FAULT_REQ: the send WQE. Return: true if the
 * fault is reported; ohca_xp_resume() follows. False: no fault slot is free.
 */
bool ohca_suspend(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		  uint32_t wqe_idx, const struct ohca_missing *m);
/* The same for a sender. Return: the result of the sender */
enum ohca_sent ohca_suspend_tx(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t,
			       enum ohca_fault_side side, uint32_t wqe_idx,
			       const struct ohca_missing *m);
/* @side no longer waits, because its work was done or dropped; no side of the QP waits. */
void ohca_suspend_forget(ohca_engine *e, struct ohca_xport *xp, enum ohca_fault_side side);
void ohca_suspend_forget_all(ohca_engine *e, struct ohca_xport *xp);

#endif /* OHCA_TRANSPORT_SUSPEND_H */
