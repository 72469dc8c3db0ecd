/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rights that a daemon gives up, because it maps memory of machines that are not trusted: what
 * takes it over by that memory is to reach nothing but the fabric.
 *
 *	Landlock	no file is opened, made or renamed, and none is removed but in the
 *			directories of its sockets; no TCP but to ports that it is told; no signal to another process; without
 *			umad2sim no socket is connected that has no file
 *	seccomp		the system calls of sandbox.c and no others: no program is started, no
 *			memory is executed that was written, no process is traced, no file says
 *			whom to signal, and no socket is made or connected but pairs and, with
 *			umad2sim, UNIX sockets of datagrams, and with umad2sim over UDP also those,
 *			and with wires to other hosts TCP sockets, which Landlock lets connect to
 *			the ports of these alone
 *
 * Descriptors that are open stay as they are, and machines may pass further ones.
 */
#ifndef OHCA_FABRIC_SANDBOX_H
#define OHCA_FABRIC_SANDBOX_H

#include <stdbool.h>

#define FAB_SANDBOX_FILES	66u
#define FAB_SANDBOX_PORTS	64u

/* 0: of a program that writes files when it ends, as one that counts its lines does */
#ifndef FAB_SANDBOX
#define FAB_SANDBOX		1
#endif

/**
 * struct fab_sandbox_cfg - what the daemon still needs
 * @file: paths of files that it removes when it ends; NULL: none. Their directories are there
 * @abstract: it makes UNIX sockets of datagrams, and connects to those that have no file. Then it
 *	can also connect to those that have one
 * @udp: it makes UDP sockets; it binds and connects them only with @abstract
 * @tcp: TCP ports that it connects to; 0: none
 * @all: it keeps all rights but new privileges
 * @threads: starts its other threads, which then have no more rights than the first; or NULL: there
 *	are none
 * @arg: its argument
 */
struct fab_sandbox_cfg {
	const char *file[FAB_SANDBOX_FILES];
	bool abstract;
	bool udp;
	unsigned int tcp[FAB_SANDBOX_PORTS];
	bool all;
	void (*threads)(void *arg);
	void *arg;
};

/**
 * struct fab_sandbox - what holds
 * @privileges_errno: why it may get new privileges, and all else is as it was; 0: it gets none
 * @landlock_abi: version of Landlock of the kernel; 0: the kernel has none, or it is off
 * @landlock_errno: why it is 0
 * @seccomp: there is a filter of system calls
 * @seccomp_errno: why there is none
 */
struct fab_sandbox {
	int privileges_errno;
	int landlock_abi;
	int landlock_errno;
	bool seccomp;
	int seccomp_errno;
};

/**
 * fab_sandbox_enter() - give the rights up, for good; the process has one thread, and those that
 *	@cfg->threads starts
 *
 * It goes on without what the kernel does not have.
 *
 * Return: as fab_sandbox().
 */
const struct fab_sandbox *fab_sandbox_enter(const struct fab_sandbox_cfg *cfg);

/** fab_sandbox() - what this process has given up */
const struct fab_sandbox *fab_sandbox(void);

#endif
