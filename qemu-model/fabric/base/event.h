/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The events of the fabric's epoll descriptor. */
#ifndef OHCA_FABRIC_EVENT_H
#define OHCA_FABRIC_EVENT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/** enum fab_event_type - the part of the daemon that handles an event */
enum fab_event_type {
	FAB_EVENT_SIGNAL = 1,	/* serve.c; no index */
	FAB_EVENT_ATTACH,	/* fab_attach_event() */
	FAB_EVENT_CONTROL,	/* fab_control_event() */
	FAB_EVENT_SIM,		/* fab_sim_event() */
	FAB_EVENT_HCA,		/* fab_hcas_turn(); nothing to read */
	FAB_EVENT_FRONT,	/* fab_fronts_event() */
	FAB_EVENT_DOOR,		/* fab_attach_event() of the TCP socket */
	FAB_EVENT_REMOTE,	/* fab_remote_event() */
	FAB_EVENT_TENANT,	/* from here on: fab_attach_event() of sockets of single hosts */
};

/**
 * union fab_event - data.u64 of an epoll_event
 * @type: enum fab_event_type
 * @index: the descriptor; each part has its own numbers
 */
union fab_event {
	struct {
		uint32_t type;
		uint32_t index;
	};
	uint64_t u64;
};
static_assert(sizeof(union fab_event) == sizeof(uint64_t), "data of an epoll_event");

/** fab_event_of() - the event in @ev, which epoll_wait() has filled in */
static inline union fab_event fab_event_of(const struct epoll_event *ev)
{
	return (union fab_event){ .u64 = ev->data.u64 };
}

/**
 * fab_event_watch() - epoll_ctl() with the event of a descriptor
 * @epfd: epoll descriptor
 * @op: EPOLL_CTL_ADD or EPOLL_CTL_MOD
 * @fd: descriptor
 * @events: EPOLLIN, EPOLLOUT or both, perhaps with EPOLLET
 * @type: the part that handles it
 * @index: of @fd in that part
 *
 * Return: false: errno is epoll_ctl()'s.
 */
static inline bool fab_event_watch(int epfd, int op, int fd, uint32_t events,
				   enum fab_event_type type, uint32_t index)
{
	const union fab_event e = { .type = type, .index = index };
	struct epoll_event ev = { .events = events, .data.u64 = e.u64 };

	return !epoll_ctl(epfd, op, fd, &ev);
}

#endif
