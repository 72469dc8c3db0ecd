/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's counts of this thread's processor time. */
#ifndef OHCA_FABRIC_SCHEDSTAT_H
#define OHCA_FABRIC_SCHEDSTAT_H

#include "spin.h"

/**
 * fab_schedstat_open() - open the counts; before fab_sandbox_enter(), which forbids to open files
 * Return: a descriptor for the caller's thread, to be closed; -1: errno has the reason.
 */
int fab_schedstat_open(void);

/**
 * fab_schedstat_read() - read the counts; in the thread that has opened @fd
 * Return: false: the kernel does not count.
 */
bool fab_schedstat_read(int fd, struct fab_spin_look *look);

#endif
