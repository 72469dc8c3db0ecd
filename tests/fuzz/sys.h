/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls of a link, without a system: socket pairs, pipes and shared memory for both
 * ends in one thread, and mappings that outlive an input. sys.syms has the names; the Makefile
 * gives those to the objects of a link and of the targets that use one.
 *
 * A call does what Linux does with it, as far as a link can see. What is unmapped is poisoned.
 */
#ifndef FUZZ_SYS_H
#define FUZZ_SYS_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

/** sys_end() - the end of an input: abort if a descriptor is open or memory is mapped */
void sys_end(void);

int sys_close(int fd);
int sys_fchmod(int fd, mode_t mode);
int sys_fcntl(int fd, int cmd, int arg);
int sys_fstat(int fd, struct stat *st);
int sys_ftruncate(int fd, off_t size);
int sys_memfd_create(const char *name, unsigned int flags);
void *sys_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
int sys_munmap(void *addr, size_t len);
int sys_open(const char *path, int flags);
int sys_pipe2(int fds[2], int flags);
ssize_t sys_read(int fd, void *buf, size_t n);
ssize_t sys_readlink(const char *path, char *buf, size_t size);
ssize_t sys_recv(int fd, void *buf, size_t size, int flags);
ssize_t sys_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t sys_send(int fd, const void *buf, size_t n, int flags);
ssize_t sys_sendmsg(int fd, const struct msghdr *m, int flags);
int sys_shutdown(int fd, int how);
int sys_socketpair(int domain, int type, int protocol, int sv[2]);
ssize_t sys_write(int fd, const void *buf, size_t n);

#endif /* FUZZ_SYS_H */
