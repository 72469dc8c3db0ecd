/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls for the daemon's side of a front that hardly use a kernel, for one thread: pairs of
 * sockets, with messages and with descriptors in them, eventfds and memfds. calls.syms has the
 * names; the Makefile replaces those in the objects of fronts. A target uses the same functions for
 * its front.
 *
 * A call behaves as in Linux, as far as a daemon can detect. A call that no daemon makes ends the
 * process. So do a call with a descriptor that is not open, and a close that leaves a descriptor
 * watched. Only the memory of memfds is the kernel's (pages.h).
 */
#ifndef FUZZ_CALLS_H
#define FUZZ_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

#define CALL_EPOLL	(-1)	/* the only epoll descriptor */

/** calls_end() - the end of an input: aborts unless @n descriptors are open, nothing is mapped */
void calls_end(unsigned int n);

int call_socketpair(int domain, int type, int protocol, int sv[2]);
ssize_t call_sendmsg(int fd, const struct msghdr *h, int flags);
ssize_t call_recvmsg(int fd, struct msghdr *h, int flags);
ssize_t call_send(int fd, const void *buf, size_t n, int flags);
ssize_t call_recv(int fd, void *buf, size_t n, int flags);
int call_shutdown(int fd, int how);
int call_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int call_eventfd(unsigned int value, int flags);
int call_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int call_memfd_create(const char *name, unsigned int flags);
int call_ftruncate(int fd, off_t size);
int call_fcntl(int fd, int cmd, ...);
int call_fstat(int fd, struct stat *st);
int call_fstatfs(int fd, struct statfs *fs);
ssize_t call_pwrite(int fd, const void *buf, size_t n, off_t at);
void *call_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t at);
int call_munmap(void *addr, size_t n);
int call_close(int fd);

#endif /* FUZZ_CALLS_H */
