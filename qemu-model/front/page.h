/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page of an HCA that the fabric's process hosts: memory that it shares with the front, which is
 * the process with the PCI device (QEMU, or a test). It is a memfd of the daemon, sealed against
 * resizing, of OHCA_PAGE_BYTES(): this structure, then the doorbells (front/doorbell.h).
 *
 * Doorbells, reads of registers and of the clock, and interrupts need no message. All else is a
 * message (front/proto.h). Values are in host byte order. D: the daemon writes; F: the front.
 * Neither trusts what the other has written.
 *
 * A doorbell, and the sleep of the daemon, each a store, a full barrier and a load:
 *
 *	front				daemon
 *	set bits, OR @pending		set @asleep of each page
 *	if (@asleep && exchange it)	look at @pending of each page
 *		write the eventfd	none: sleep until the eventfd is written
 *
 * An interrupt: the daemon ORs @irq, and if @irq_any was 0 it becomes 1, and a byte is sent by the
 * interrupt socket. Who delivers sets @irq_any to 0 first and then takes the bits.
 */
#ifndef OHCA_FRONT_PAGE_H
#define OHCA_FRONT_PAGE_H

#include "doorbell.h"

#define OHCA_PAGE_REGS		32u	/* 32-bit registers at the begin of BAR 0 */
#define OHCA_PAGE_VECTORS	2048u

/**
 * struct ohca_page - what a front and the daemon share, beside the doorbells
 * @reg: D: BAR 0 as it reads, by offset / 4
 * @clock_ns: D: with @running what the device's clock is ahead of CLOCK_MONOTONIC, modulo 2^64;
 *	without it the clock itself, which stands
 * @running: D: 0: the machine is paused
 * @clock_ok: D: the driver has acknowledged OHCA_FEATURE_CLOCK
 * @slow_reads: D: reads of BAR 0 are messages: the device lies in them
 * @asleep: D sets 1, and 0 when it is awake; F exchanges 0: the daemon sleeps
 * @irq_any: D sets 1, F exchanges 0: a vector is raised
 * @irq: D ORs, F exchanges 0: a bit for each vector
 */
struct ohca_page {
	_Atomic uint32_t reg[OHCA_PAGE_REGS];
	_Alignas(64) _Atomic uint64_t clock_ns;
	_Atomic uint32_t running;
	_Atomic uint32_t clock_ok;
	_Atomic uint32_t slow_reads;
	_Alignas(64) _Atomic uint32_t asleep;
	_Alignas(64) _Atomic uint32_t irq_any;
	_Alignas(64) _Atomic uint64_t irq[OHCA_PAGE_VECTORS / 64];
};

/** OHCA_PAGE_DOORBELLS - where the doorbells begin */
#define OHCA_PAGE_DOORBELLS	4096u

_Static_assert(sizeof(struct ohca_page) <= OHCA_PAGE_DOORBELLS, "the page overlaps the doorbells");

/** OHCA_PAGE_BYTES() - of the whole memfd, for doorbells of ohca_doorbells_bytes() */
#define OHCA_PAGE_BYTES(doorbells)	(OHCA_PAGE_DOORBELLS + (doorbells))

#endif /* OHCA_FRONT_PAGE_H */
