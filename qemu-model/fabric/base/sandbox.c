// SPDX-License-Identifier: GPL-2.0-or-later
/* Landlock and seccomp; see sandbox.h. */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* AddressSanitizer reads files for its reports, and starts a process that searches for leaks. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED	1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED	1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED	0
#endif

static struct fab_sandbox held;

/* ---- Landlock ------------------------------------------------------------------ */

/* Rights to files of each version, from 1. Later versions use the last entry. */
static const uint64_t fs_rights[] = {
	LANDLOCK_ACCESS_FS_MAKE_SYM * 2 - 1,
	LANDLOCK_ACCESS_FS_REFER * 2 - 1,
	LANDLOCK_ACCESS_FS_TRUNCATE * 2 - 1,
	LANDLOCK_ACCESS_FS_TRUNCATE * 2 - 1,
	LANDLOCK_ACCESS_FS_IOCTL_DEV * 2 - 1,
};

/* Allow @rights below @dir. Return: false: errno is set. */
static bool allow_below(int ruleset, const char *dir, uint64_t rights)
{
	struct landlock_path_beneath_attr below = { .allowed_access = rights };
	bool ok;

	below.parent_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (below.parent_fd < 0)
		return false;
	ok = !syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
	close(below.parent_fd);
	return ok;
}

/* Allow the removal of files in the directory of @path. Return: false: errno is set. */
static bool allow_removal(int ruleset, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[4096];

	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path) + 1, path);
	else
		strcpy(dir, ".");
	return allow_below(ruleset, dir, LANDLOCK_ACCESS_FS_REMOVE_FILE);
}

/* Allow connections to TCP port @port. Return: false: errno is set. */
static bool allow_tcp(int ruleset, unsigned int port)
{
	const struct landlock_net_port_attr at = {
		.allowed_access = LANDLOCK_ACCESS_NET_CONNECT_TCP,
		.port = port,
	};

	return !syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_NET_PORT, &at, 0);
}

/* Return: version of Landlock; -1: it is not in force, errno has the reason. */
static int enter_landlock(const struct fab_sandbox_cfg *cfg)
{
	const int last = (int)(sizeof(fs_rights) / sizeof(fs_rights[0]));
	const int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0,
				     LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr attr = { 0 };
	int ruleset, error;
	bool ok;

	if (abi < 1)
		return -1;
	attr.handled_access_fs = fs_rights[(abi < last ? abi : last) - 1];
	if (abi >= 4)
		attr.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP |
					  LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (abi >= 6)
		attr.scoped = LANDLOCK_SCOPE_SIGNAL |
			      (cfg->abstract ? 0 : LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (ruleset < 0)
		return -1;
	ok = !SANITIZED || allow_below(ruleset, "/", LANDLOCK_ACCESS_FS_READ_FILE |
				       LANDLOCK_ACCESS_FS_READ_DIR);
	for (unsigned int i = 0; ok && i < FAB_SANDBOX_FILES; i++)
		ok = !cfg->file[i] || allow_removal(ruleset, cfg->file[i]);
	for (unsigned int i = 0; ok && abi >= 4 && i < FAB_SANDBOX_PORTS; i++)
		ok = !cfg->tcp[i] || allow_tcp(ruleset, cfg->tcp[i]);
	ok = ok && !syscall(SYS_landlock_restrict_self, ruleset, 0);
	error = errno;
	close(ruleset);
	errno = error;
	return ok ? abi : -1;
}

/* ---- seccomp ------------------------------------------------------------------- */

/* System calls that may have any arguments. */
static const int allowed[] = {
	/* open descriptors, of which a link has three and a front seven or more */
	SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(lseek),
	SCMP_SYS(close), SCMP_SYS(dup), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(fstatfs),
	SCMP_SYS(statx), SCMP_SYS(pread64),
	SCMP_SYS(ftruncate), SCMP_SYS(memfd_create),
	SCMP_SYS(eventfd2), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2), SCMP_SYS(poll), SCMP_SYS(ppoll),
	/* sockets; the calls that create, connect and send are below */
	SCMP_SYS(accept4), SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt),
	SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(recvmmsg), SCMP_SYS(shutdown),
	/* removal of the files of its own sockets */
	SCMP_SYS(unlink), SCMP_SYS(unlinkat),
	/* memory; mmap() and mprotect() are below */
	SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(msync), SCMP_SYS(mremap), SCMP_SYS(munmap), SCMP_SYS(futex),
	SCMP_SYS(getrandom),
	/* time */
	SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(gettimeofday),
	SCMP_SYS(nanosleep), SCMP_SYS(restart_syscall),
	/* end of the process */
	SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(getpid), SCMP_SYS(gettid),
	SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
#if SANITIZED
	SCMP_SYS(arch_prctl), SCMP_SYS(clone), SCMP_SYS(clone3), SCMP_SYS(getdents64),
	SCMP_SYS(getppid), SCMP_SYS(getrlimit), SCMP_SYS(open), SCMP_SYS(openat),
	SCMP_SYS(prctl), SCMP_SYS(prlimit64), SCMP_SYS(process_vm_readv), SCMP_SYS(ptrace),
	SCMP_SYS(readlink), SCMP_SYS(readlinkat),
	SCMP_SYS(sched_yield), SCMP_SYS(set_robust_list), SCMP_SYS(setrlimit),
	SCMP_SYS(sigaltstack), SCMP_SYS(stat), SCMP_SYS(tkill), SCMP_SYS(wait4),
#endif
};

/*
 * Fronts seal memory, and the control socket keeps a descriptor. F_SETOWN could signal other
 * processes.
 */
static const int fcntls[] = { F_DUPFD_CLOEXEC, F_ADD_SEALS, F_GET_SEALS };

/*
 * All listeners exist, and accept4() makes their connections. Landlock cannot restrict which socket
 * with a path is connected: so only umad2sim and wires to other hosts may connect sockets, and
 * create only datagram and TCP sockets. Landlock does not restrict ports of MPTCP, nor connections
 * that a send makes.
 * Return: 0, or a negative errno.
 */
static int allow_sockets(scmp_filter_ctx s, const struct fab_sandbox_cfg *cfg)
{
	const struct scmp_arg_cmp datagrams = SCMP_A1(SCMP_CMP_MASKED_EQ, 0xff, SOCK_DGRAM);
	const struct scmp_arg_cmp streams = SCMP_A1(SCMP_CMP_MASKED_EQ, 0xff, SOCK_STREAM);
	const struct scmp_arg_cmp usual = SCMP_A2(SCMP_CMP_EQ, 0, 0);
	const uint32_t yes = SCMP_ACT_ALLOW;
	unsigned int tcp = 0;
	int e;

	/* for the interrupts of a front: a pair reaches no other process */
	e = seccomp_rule_add(s, yes, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
	e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(sendto), 1,
				     SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
	e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(sendmsg), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
	if (cfg->abstract) {
		e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(bind), 0);
		e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(connect), 0);
		e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(socket), 3,
					     SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0), datagrams, usual);
	}
	for (unsigned int i = 0; i < FAB_SANDBOX_PORTS; i++)
		tcp |= cfg->tcp[i];
	/* Landlock restricts the ports of TCP sockets */
	if (tcp) {
		e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(connect), 0);
		e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(socket), 3,
					     SCMP_A0(SCMP_CMP_EQ, AF_INET, 0), streams, usual);
		e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(socket), 3,
					     SCMP_A0(SCMP_CMP_EQ, AF_INET6, 0), streams, usual);
	}
	if (cfg->udp)
		e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(socket), 3,
					     SCMP_A0(SCMP_CMP_EQ, AF_INET, 0), datagrams, usual);
	return e;
}

/* Allow system calls with some arguments. Return: 0, or a negative errno. */
static int allow_some(scmp_filter_ctx s, const struct fab_sandbox_cfg *cfg)
{
	const uint32_t yes = SCMP_ACT_ALLOW;
	const struct scmp_arg_cmp no_exec = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	int e;

	e = seccomp_rule_add(s, yes, SCMP_SYS(mmap), 1, no_exec);
	e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(mprotect), 1, no_exec);
	for (unsigned int i = 0; !e && i < sizeof(fcntls) / sizeof(fcntls[0]); i++)
		e = seccomp_rule_add(s, yes, SCMP_SYS(fcntl), 1,
				     SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)fcntls[i], 0));
	e = e ? e : allow_sockets(s, cfg);
	/* abort() */
	e = e ? e : seccomp_rule_add(s, yes, SCMP_SYS(tgkill), 1,
				     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
	return e;
}

/* Return: 0, or a negative errno. */
static int enter_seccomp(const struct fab_sandbox_cfg *cfg)
{
	scmp_filter_ctx s = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int e = s ? 0 : -ENOMEM;

	for (unsigned int i = 0; !e && i < sizeof(allowed) / sizeof(allowed[0]); i++)
		e = seccomp_rule_add(s, SCMP_ACT_ALLOW, allowed[i], 0);
	e = e ? e : allow_some(s, cfg);
	/* a tree instead of a list; up to Linux 5.15 a filter makes branches slower otherwise */
	e = e ? e : seccomp_attr_set(s, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	e = e ? e : seccomp_attr_set(s, SCMP_FLTATR_CTL_SSB, 1);
	/* for all threads: one with more rights shares its memory with the others */
	e = e ? e : seccomp_attr_set(s, SCMP_FLTATR_CTL_TSYNC, 1);
	e = e ? e : seccomp_load(s);
	seccomp_release(s);
	return e;
}

/* -------------------------------------------------------------------------------- */

const struct fab_sandbox *fab_sandbox_enter(const struct fab_sandbox_cfg *cfg)
{
	int e;

	/* Landlock and seccomp need it; every kernel with them has it */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		held.privileges_errno = held.landlock_errno = held.seccomp_errno = errno;
	else if (!cfg->all)
		held.landlock_abi = enter_landlock(cfg);
	if (held.landlock_abi < 0) {
		held.landlock_errno = errno;
		held.landlock_abi = 0;
	}
	/*
	 * A new thread inherits the privileges and the Landlock of its creator. The filter of
	 * system calls forbids new threads, so they start before it.
	 */
	if (cfg->threads)
		cfg->threads(cfg->arg);
	if (cfg->all || held.privileges_errno)
		return &held;
	e = enter_seccomp(cfg);
	held.seccomp = !e;
	held.seccomp_errno = -e;
	return &held;
}

const struct fab_sandbox *fab_sandbox(void)
{
	return &held;
}
