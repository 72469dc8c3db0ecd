/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lies of the device, to test a driver and its consumers: random changes of entries, answers and
 * registers that the device passes to the guest. Off unless the host has turned them on. The
 * device's state and its actions do not change.
 *
 * No driver survives a device that writes to memory after it has reported that it will not. So the
 * device never reports that a WQE is complete, that an object is destroyed, or that a new buffer
 * was refused, if that is false.
 */
#ifndef OHCA_BASE_LIES_H
#define OHCA_BASE_LIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/state.h"
#include "engine/engine.h"
#include "ohca_hw.h"

/** ohca_lies - whether the device lies at all; any thread */
static inline bool ohca_lies(const ohca_engine *e)
{
	return __builtin_expect(atomic_load_explicit(&e->lies.one_of, memory_order_relaxed), 0);
}

/** ohca_lies_turn - draw whether to lie now; @kind: OHCA_LIE_*; any thread */
bool ohca_lies_turn(ohca_engine *e, unsigned int kind);

/** ohca_lies_tell - count a lie; any thread */
void ohca_lies_tell(ohca_engine *e);

/** ohca_lies_number - draw a number below @n, which is not 0; any thread */
uint64_t ohca_lies_number(ohca_engine *e, uint64_t n);

/**
 * ohca_lies_change - change a random part of the @len bytes at @at; any thread
 *
 * At least one byte differs afterwards. Counts nothing.
 */
void ohca_lies_change(ohca_engine *e, void *at, size_t len);

/**
 * ohca_lie_in_cqe - perhaps change an entry before it is written; owner
 * @e: device that lies
 * @cqe: the entry; its owner bit does not change
 * @kernel: the CQ is the kernel's, so the driver chose wr_id
 *
 * Return: whether to write the entry twice. The caller counts this lie.
 */
bool ohca_lie_in_cqe(ohca_engine *e, struct ohca_hw_cqe *cqe, bool kernel);

/**
 * ohca_lie_in_eqe - perhaps change an entry before it is written; owner
 * @e: device that lies
 * @eqe: struct ohca_hw_eqe or struct ohca_hw_fault_eqe; its phase does not change
 */
void ohca_lie_in_eqe(ohca_engine *e, void *eqe);

/**
 * ohca_lie_in_mbox - perhaps change data before it is written to a mailbox; owner
 * @e: device that lies
 * @opcode: enum ohca_admin_op of the command
 * @copy: OHCA_MAILBOX_SIZE bytes of room for the changed data
 * @buf: the true data
 * @n: its bytes
 *
 * OHCA_LIE_LESS changes sizes in QUERY_DEVICE and in PortInfo. The first answers after a reset
 * contain smaller sizes, later answers contain the true ones. This finds a driver that reads the
 * same size twice and relies on both results.
 *
 * Return: the data to write, @buf or @copy.
 */
const void *ohca_lie_in_mbox(ohca_engine *e, uint8_t opcode, void *copy, const void *buf, size_t n);

/**
 * ohca_lies_reset - begin anew after a reset: drop the delayed answer, allow smaller sizes; owner
 */
void ohca_lies_reset(ohca_engine *e);

/**
 * ohca_lie_in_status - perhaps choose a false status for a command; owner
 * @e: device that lies
 * @opcode: enum ohca_admin_op of the command
 * @execute: result: whether to execute the command nevertheless
 * @status: result: the status to answer with, which may be no value of enum ohca_admin_status
 *
 * Return: whether to lie. The caller counts the lie, unless the true status is the same.
 */
bool ohca_lie_in_status(ohca_engine *e, uint8_t opcode, bool *execute, int *status);

/** enum ohca_late - when to write an answer */
enum ohca_late {
	OHCA_ANSWER_NOW,
	OHCA_ANSWER_TWICE,	/* now, also to the entry of the next answer */
	OHCA_ANSWER_LATE,	/* after the next command, if there is one */
};

/** ohca_lie_in_answer - perhaps change an answer, except its status, and choose its time; owner */
enum ohca_late ohca_lie_in_answer(ohca_engine *e, struct ohca_hw_acqe *rsp);

#endif /* OHCA_BASE_LIES_H */
