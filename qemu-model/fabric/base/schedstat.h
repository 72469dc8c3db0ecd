/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel counts of this thread's processor. */
#ifndef OHCA_FABRIC_SCHEDSTAT_H
#define OHCA_FABRIC_SCHEDSTAT_H

#include "spin.h"

/**
 * fab_schedstat_open() - before fab_sandbox_enter(), after which files cannot be opened any more
 * Return: a descriptor for the caller's thread, to be closed; -1: errno says why there is none.
 */
int fab_schedstat_open(void);

/**
 * fab_schedstat_read() - ask; in the thread that has opened @fd
 * Return: false: the kernel does not say.
 */
bool fab_schedstat_read(int fd, struct fab_spin_look *look);

#endif
