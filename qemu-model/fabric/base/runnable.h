/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many threads want a processor, and how many processors there are. */
#ifndef OHCA_FABRIC_RUNNABLE_H
#define OHCA_FABRIC_RUNNABLE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * fab_runnable_open() - open the kernel's count; before fab_sandbox_enter(), which forbids to open
 * files
 *
 * Return: a descriptor, to be closed; -1: errno has the reason.
 */
int fab_runnable_open(void);

/**
 * fab_runnable_read() - read the kernel's count (proc_loadavg(5))
 * @fd: of fab_runnable_open()
 * @threads: threads of the host that run or wait for a processor, with the caller
 *
 * Return: false: the kernel does not count.
 */
bool fab_runnable_read(int fd, uint32_t *threads);

/** fab_processors() - Return: how many processors the caller may use, at least 1. */
uint32_t fab_processors(void);

#endif
