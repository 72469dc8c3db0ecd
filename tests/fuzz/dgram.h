/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls for libumad2sim's server that use no kernel: datagram sockets of both families, in
 * one thread, in no namespace of the host. dgram.syms has the names; the Makefile replaces those in
 * umad2sim.o. A target uses the same functions for the sockets of its clients. A socket stores a
 * few datagrams before it is full.
 *
 * A call behaves as in Linux, as far as a server can detect: a connected socket receives only from
 * its peer; a send to an abstract address without a socket fails at once, and by UDP the next call
 * fails.
 */
#ifndef FUZZ_DGRAM_H
#define FUZZ_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/**
 * dgram_event() - finds a socket of epoll_ctl() with an event that it waits for, or an error
 * @which: receives its data.u64; the sockets take turns
 *
 * Return: false if there is none.
 */
bool dgram_event(uint64_t *which);

/**
 * dgram_spoof() - sends a UDP datagram with source @from. Return: false if no socket receives it.
 */
bool dgram_spoof(const struct sockaddr *from, const struct sockaddr *to, socklen_t len,
		 const void *buf, size_t n);

/** dgram_at_bind() - [@n] @buf arrives at each socket of the server as soon as it has an address */
void dgram_at_bind(const void *buf, size_t n);

/** dgram_end() - the end of an input: aborts if a socket is open */
void dgram_end(void);

int dgram_socket(int domain, int type, int protocol);
int dgram_bind(int fd, const struct sockaddr *addr, socklen_t len);
int dgram_connect(int fd, const struct sockaddr *addr, socklen_t len);
int dgram_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
ssize_t dgram_send(int fd, const void *buf, size_t n, int flags);
ssize_t dgram_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		     socklen_t len);
ssize_t dgram_recv(int fd, void *buf, size_t n, int flags);
ssize_t dgram_recvmsg(int fd, struct msghdr *h, int flags);
int dgram_shutdown(int fd, int how);
int dgram_recvmmsg(int fd, struct mmsghdr *msg, unsigned int num, int flags, struct timespec *t);
int dgram_close(int fd);

#endif /* FUZZ_DGRAM_H */
