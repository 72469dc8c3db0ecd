/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process's link to a fabric, the thread that serves it, and the lock of all data of the
 * library: programs have threads of their own.
 */
#ifndef OHCA_UMAD_WIRE_H
#define OHCA_UMAD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * um_lock() - get the lock; a thread that has it is not cancelled, as OpenSM does with receiving
 *	threads
 *
 * The library's thread releases it after 64 packets, or 4 events of the link, to threads that wait
 * for it: they do not wait until all packets of the fabric are processed.
 */
void um_lock(void);
void um_unlock(void);

/** um_now_ns() - time of a monotonic clock in ns */
int64_t um_now_ns(void);

/**
 * um_wire_init() - read OHCA_UMAD and OHCA_UMAD_WAIT; um_wire_open() reads OHCA_UMAD_TOKEN
 *
 * Prints what is wrong with them to standard error. Without the lock. Return: 0 or -1.
 */
int um_wire_init(void);

/**
 * um_wire_open() - attach to the fabric, once, and wait until the port is usable
 *
 * Usable is Init in a process that may be the subnet manager, and Active in others. Waits
 * OHCA_UMAD_WAIT seconds; if the port is not usable then, it stays as it is, and a line is printed
 * to standard error. Without the lock.
 *
 * Return: 0, or -1 if there is no fabric, or it refuses, or um_wire_is_dead(); standard error has
 * the reason.
 */
int um_wire_open(void);

/**
 * um_wire_is_dead() - whether the process is a child by fork() of one with an open port
 *
 * The link and the thread are the parent's; nothing works in the child.
 */
bool um_wire_is_dead(void);

/** um_wire_send() - send a packet by lane @vl; with the lock. Return: false: lost */
bool um_wire_send(unsigned int vl, const void *pkt, size_t len);

/** um_wire_wake() - let the thread run at @due_ns, or before; with the lock */
void um_wire_wake(int64_t due_ns);

#endif
