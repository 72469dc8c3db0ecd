/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls of libumad2sim's server, without a system: datagram sockets of both families,
 * in one thread, in no namespace of the host. dgram.syms has the names; the Makefile gives those
 * to umad2sim.o. A target has its clients' sockets by the same functions.
 *
 * A socket takes a few datagrams before it is full.
 *
 * A call does what Linux does with it, as far as a server can see: a socket that is connected gets
 * nothing from elsewhere; what is sent to nobody is refused at once at an abstract address, and by
 * UDP at the next call.
 */
#ifndef FUZZ_DGRAM_H
#define FUZZ_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/**
 * dgram_event() - a socket that epoll_ctl() has got has an event that it waits for, or an error
 * @which: its data.u64; each in its turn
 *
 * Return: false: there is none.
 */
bool dgram_event(uint64_t *which);

/** dgram_spoof() - a UDP datagram that says it is from @from. Return: false: nobody gets it. */
bool dgram_spoof(const struct sockaddr *from, const struct sockaddr *to, socklen_t len,
		 const void *buf, size_t n);

/** dgram_at_bind() - [@n] @buf comes to each socket of the server's as soon as it has an address */
void dgram_at_bind(const void *buf, size_t n);

/** dgram_end() - the end of an input: abort if a socket is open */
void dgram_end(void);

int dgram_socket(int domain, int type, int protocol);
int dgram_bind(int fd, const struct sockaddr *addr, socklen_t len);
int dgram_connect(int fd, const struct sockaddr *addr, socklen_t len);
int dgram_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
ssize_t dgram_send(int fd, const void *buf, size_t n, int flags);
ssize_t dgram_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		     socklen_t len);
ssize_t dgram_recv(int fd, void *buf, size_t n, int flags);
ssize_t dgram_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *from,
		       socklen_t *len);
int dgram_recvmmsg(int fd, struct mmsghdr *msg, unsigned int num, int flags, struct timespec *t);
int dgram_close(int fd);

#endif /* FUZZ_DGRAM_H */
