/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls for the daemon's side of a front that hardly use a kernel, for one thread: pairs of
 * sockets, with messages and with descriptors in them, eventfds and memfds. fds.syms has the names;
 * the Makefile replaces those in the objects of fronts. A target uses the same functions for its
 * front.
 *
 * A call behaves as in Linux, as far as a daemon can detect. A call that no daemon makes ends the
 * process. So do a call with a descriptor that is not open, and a close that leaves a descriptor
 * watched. Only the memory of memfds is the kernel's (pages.h).
 */
#ifndef FUZZ_FDS_H
#define FUZZ_FDS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

#define FDS_EPOLL	(-1)	/* the only epoll descriptor */

/** fds_end() - the end of an input: aborts unless @n descriptors are open and nothing is mapped */
void fds_end(unsigned int n);

int fds_socketpair(int domain, int type, int protocol, int sv[2]);
ssize_t fds_sendmsg(int fd, const struct msghdr *h, int flags);
ssize_t fds_recvmsg(int fd, struct msghdr *h, int flags);
ssize_t fds_send(int fd, const void *buf, size_t n, int flags);
ssize_t fds_recv(int fd, void *buf, size_t n, int flags);
int fds_shutdown(int fd, int how);
int fds_eventfd(unsigned int value, int flags);
int fds_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
int fds_memfd_create(const char *name, unsigned int flags);
int fds_ftruncate(int fd, off_t size);
int fds_fcntl(int fd, int cmd, ...);
int fds_fstat(int fd, struct stat *st);
int fds_fstatfs(int fd, struct statfs *fs);
ssize_t fds_pwrite(int fd, const void *buf, size_t n, off_t at);
void *fds_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t at);
int fds_munmap(void *addr, size_t n);
int fds_close(int fd);

#endif /* FUZZ_FDS_H */
