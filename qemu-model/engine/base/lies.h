/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lies of the device, to test a driver and its consumers: entries, answers and registers are
 * changed by chance on their way to the guest. Off unless the host has turned them on. What the
 * device does itself is not changed, nor is what it knows.
 *
 * No driver survives a device that writes to memory after it has said that it will not. So these
 * are never told: that a WQE is complete which is not, that an object is gone which is not, that
 * a buffer was refused to which the device has moved.
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

/** ohca_lies_turn - whether it is the turn of a lie of @kind, OHCA_LIE_*; any thread */
bool ohca_lies_turn(ohca_engine *e, unsigned int kind);

/** ohca_lies_tell - counts a lie: what the guest is given is not the truth; any thread */
void ohca_lies_tell(ohca_engine *e);

/** ohca_lies_number - a number below @n, which is not 0; any thread */
uint64_t ohca_lies_number(ohca_engine *e, uint64_t n);

/**
 * ohca_lies_change - changes a field, wherever one may be, of @len bytes at @at; any thread
 *
 * They are not what they were when it returns. Counts nothing.
 */
void ohca_lies_change(ohca_engine *e, void *at, size_t len);

/**
 * ohca_lie_in_cqe - by chance changes an entry that is about to be written
 * @e: device that lies; owner
 * @cqe: the entry; its owner bit stays as it is
 * @kernel: of a CQ without a doorbell page of a process: wr_id is a number of the driver's
 *
 * Return: whether the entry is to be written twice. That lie the caller counts.
 */
bool ohca_lie_in_cqe(ohca_engine *e, struct ohca_hw_cqe *cqe, bool kernel);

/**
 * ohca_lie_in_eqe - by chance changes an entry that is about to be written
 * @e: device that lies; owner
 * @eqe: struct ohca_hw_eqe or struct ohca_hw_fault_eqe; its phase stays as it is
 */
void ohca_lie_in_eqe(ohca_engine *e, void *eqe);

/**
 * ohca_lie_in_mbox - by chance changes what is about to be written to a mailbox
 * @e: device that lies; owner
 * @opcode: enum ohca_admin_op of the command
 * @copy: OHCA_MAILBOX_SIZE bytes for what is to be written instead
 * @buf: what is true
 * @n: its bytes
 *
 * The sizes of OHCA_LIE_LESS are those of QUERY_DEVICE and of PortInfo. After a reset a few answers
 * have smaller ones, and those that follow have the true ones: a driver that takes one size from
 * the first answer and another from the second has two sizes of one thing.
 * Return: @buf or @copy.
 */
const void *ohca_lie_in_mbox(ohca_engine *e, uint8_t opcode, void *copy, const void *buf, size_t n);

/** ohca_lies_reset - what the device says next is the first that its driver hears; owner */
void ohca_lies_reset(ohca_engine *e);

/**
 * ohca_lie_in_status - by chance another status than that of a command
 * @e: device that lies; owner
 * @opcode: enum ohca_admin_op of the command
 * @execute: result: whether the command is to be executed nevertheless
 * @status: result: enum ohca_admin_status to answer with, or a number that is none
 *
 * Return: whether it lies. The caller counts that, unless the status turns out to be the true one.
 */
bool ohca_lie_in_status(ohca_engine *e, uint8_t opcode, bool *execute, int *status);

/** enum ohca_late - what becomes of an answer */
enum ohca_late {
	OHCA_ANSWER_NOW,
	OHCA_ANSWER_TWICE,	/* also in the place of the next */
	OHCA_ANSWER_LATE,	/* when the next command is executed, if there is one */
};

/** ohca_lie_in_answer - by chance changes all but the status of an answer, and its time; owner */
enum ohca_late ohca_lie_in_answer(ohca_engine *e, struct ohca_hw_acqe *rsp);

#endif /* OHCA_BASE_LIES_H */
