/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process's link to a fabric, the thread that serves it, and the lock of all that the library
 * keeps: programs have threads of their own.
 */
#ifndef OHCA_UMAD_WIRE_H
#define OHCA_UMAD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * um_lock() - a thread that has it is not cancelled, as OpenSM does with those that receive
 *
 * The library's thread gives it up after 64 packets, or 4 events of the link, to those who wait for it:
 * they do not wait until the fabric has nothing more to say.
 */
void um_lock(void);
void um_unlock(void);

/** um_now_ns() - a monotonic clock */
int64_t um_now_ns(void);

/**
 * um_wire_init() - read OHCA_UMAD and OHCA_UMAD_WAIT; um_wire_open() reads OHCA_UMAD_TOKEN
 *
 * Says on standard error what is wrong with them. Without the lock. Return: 0 or -1.
 */
int um_wire_init(void);

/**
 * um_wire_open() - take the place in the fabric, once; wait until the port is of use
 *
 * That is Init in a process that may be the subnet manager, and Active in others, for
 * OHCA_UMAD_WAIT seconds; a port that is not so by then is left as it is, and standard error says
 * so. Without the lock.
 *
 * Return: 0, or -1 if there is no fabric, or it refuses, or um_wire_is_dead(); standard error has
 * the reason.
 */
int um_wire_open(void);

/**
 * um_wire_is_dead() - the process is a child that fork() has made of one with an open port
 *
 * The link and the thread are the parent's; nothing works in the child.
 */
bool um_wire_is_dead(void);

/** um_wire_send() - a packet by lane @vl; with the lock. Return: false: lost */
bool um_wire_send(unsigned int vl, const void *pkt, size_t len);

/** um_wire_wake() - the thread is to run at @due_ns, or before; with the lock */
void um_wire_wake(int64_t due_ns);

#endif
