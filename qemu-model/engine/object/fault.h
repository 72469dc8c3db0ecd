/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Outstanding page faults. */
#ifndef OHCA_OBJECT_FAULT_H
#define OHCA_OBJECT_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/limits.h"
#include "engine/engine.h"
#include "ohca_hw.h"

struct ohca_cmd;
struct ohca_missing;
struct ohca_qp;

/** enum ohca_fault_side - the part of a QP that waits for a page */
enum ohca_fault_side {
	OHCA_FAULT_REQ,		/* requester: packets to send, or a response to write */
	OHCA_FAULT_RECV,	/* responder: a request */
	OHCA_FAULT_READ,	/* responder: a READ response */
	OHCA_FAULT_SIDES
};

/**
 * struct ohca_fault - slot of a page fault that the driver has not answered
 * @qp: the QP that waits; NULL: none
 * @id: identifies the fault to the driver; @gen: generation, which makes the next @id differ
 * @uar: the doorbell page that the fault counts against
 * @wqe_idx: OHCA_FAULT_REQ: the send WQE that needs the page
 * @side: the part of the QP that waits
 * @busy: the slot is in use
 */
struct ohca_fault {
	struct ohca_qp *qp;
	uint32_t id, gen;
	uint32_t uar;
	uint32_t wqe_idx;
	uint8_t side;		/* enum ohca_fault_side */
	bool busy;
};

_Static_assert(OHCA_MAX_FAULTS <= UINT8_MAX, "ohca_engine.uar_faults");
_Static_assert(OHCA_MAX_FAULTS <= 1u << OHCA_FAULT_SLOT_BITS &&
	       OHCA_FAULT_SLOT == (1u << OHCA_FAULT_SLOT_BITS) - 1, "numbers of faults");

/*
 * Whether a fault of a QP of doorbell page @uar may use a slot: only if the page has fewer slots
 * than are free. So one process whose pages do not arrive uses at most half of the slots, two such
 * processes use at most a third each, and one slot is free for any other process.
 */
bool ohca_fault_may(const ohca_engine *e, uint32_t uar);
/*
 * Report to the driver that the pages @m are missing; @side of @qp waits for them until
 * ohca_xp_resume(). Return: a reference for ohca_fault_forget(), or 0 if the device has no fault EQ
 * with room, or the doorbell page may not use another slot; ohca_xp_fault_room() is called when
 * there is room again.
 */
uint16_t ohca_fault_tell(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
			 uint32_t wqe_idx, const struct ohca_missing *m);
/* The QP no longer waits for @ref; its slot stays in use until the driver answers */
void ohca_fault_forget(ohca_engine *e, uint16_t ref);
/* Free all slots */
void ohca_fault_reset(ohca_engine *e);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_page_fault_resume(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_FAULT_H */
