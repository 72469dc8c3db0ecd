/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rights that a daemon gives up, because it maps memory of machines that are not trusted: an
 * attacker that takes it over through that memory must reach nothing but the fabric.
 *
 *	Landlock	no file is opened, created or renamed, and none is removed except in the
 *			directories of its sockets; no TCP connection except to the configured
 *			ports; no signal to another process; without umad2sim no connection to an
 *			abstract socket
 *	seccomp		the system calls of sandbox.c and no others: no program is started, no
 *			memory is executed that was written, no process is traced, no file gets an
 *			owner for signals, and no socket is created or connected except pairs and,
 *			with umad2sim, UNIX datagram sockets, with umad2sim over UDP also UDP
 *			sockets, and with wires to other hosts TCP sockets, which Landlock allows to
 *			connect to the ports of these alone
 *
 * Open descriptors stay as they are, and machines may pass further ones.
 */
#ifndef OHCA_FABRIC_SANDBOX_H
#define OHCA_FABRIC_SANDBOX_H

#include <stdbool.h>

#define FAB_SANDBOX_FILES	66u
#define FAB_SANDBOX_PORTS	64u

/* 0: for a program that writes files when it ends, as one that measures its coverage does */
#ifndef FAB_SANDBOX
#define FAB_SANDBOX		1
#endif

/**
 * struct fab_sandbox_cfg - the rights that the daemon still needs
 * @file: paths of files that it removes when it ends; NULL: none. Their directories exist
 * @abstract: it creates UNIX datagram sockets, and connects to abstract ones. It can then also
 *	connect to those with a path
 * @udp: it creates UDP sockets; it binds and connects them only with @abstract
 * @tcp: TCP ports to which it connects; 0: none
 * @all: it keeps all rights but new privileges
 * @threads: starts its other threads, which then have no more rights than the first; or NULL: there
 *	are none
 * @arg: argument of @threads
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
 * struct fab_sandbox - the restrictions in force
 * @privileges_errno: why it may get new privileges, and nothing else is restricted; 0: it gets none
 * @landlock_abi: version of Landlock of the kernel; 0: the kernel has none, or it is off
 * @landlock_errno: why it is 0
 * @seccomp: whether there is a filter of system calls
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
 * fab_sandbox_enter() - give the rights up, for good; the process has only this thread, and those
 *	that @cfg->threads starts
 *
 * A restriction that the kernel does not support is left out.
 *
 * Return: as fab_sandbox().
 */
const struct fab_sandbox *fab_sandbox_enter(const struct fab_sandbox_cfg *cfg);

/** fab_sandbox() - the restrictions of this process */
const struct fab_sandbox *fab_sandbox(void);

#endif
