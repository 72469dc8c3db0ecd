/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fronts: processes with the PCI device of an HCA that this process hosts (front/proto.h). The
 * first message of a connection to the fabric's socket identifies a front (attach.h). This code
 * then owns the connection until it ends, and its HCA ends with it.
 *
 * A front is not trusted. Its messages and descriptors are copied, checked and then used. A
 * violation of the protocol ends the front with a reason on both sides, and affects no other front.
 * A pass of the loop processes messages of a front once: FAB_FRONT_BURST messages, or up to one
 * that resets the HCA (RESET, or REG with OHCA_REG_CTRL), changes its memory, or ends it, since
 * these take longer than a packet. No message waits for a disk, or for the server of a file system:
 * descriptors that are not memory are refused without access (block.h), unless the memory of
 * machines may be on a disk. A thread writes it there (persist.h).
 *
 *	front.c		fronts: begin, events, end
 *	hello.c		the HCA that a HELLO requests
 *	message.c	messages and their answers
 *	front_sock.c	messages as bytes and descriptors
 *	move.c		moves a machine to another process
 *	block.c		memory that a front shares
 *	persist.c	FLUSH for persistence, by a thread of its own
 *
 * Owner thread only.
 */
#ifndef OHCA_FABRIC_FRONT_H
#define OHCA_FABRIC_FRONT_H

#include "fabric/base/closer.h"
#include "fabric/hca/hca.h"

#define FAB_FRONT_BURST		8u		/* messages of a front in a pass */
#define FAB_FRONT_BYTES		(1ull << 42)	/* default limit of a front's memory */
#define FAB_FRONTS_BYTES	(1ull << 46)	/* of all fronts: half of what a process can map */
#define FAB_FRONT_HCA_LEAST	(1ull << 20)	/* smallest limit for the objects of a driver */

struct fab_fronts;

/**
 * struct fab_fronts_cfg - configuration of the fronts
 * @hcas: their HCAs are created here
 * @d: its data path
 * @closer: closes descriptors whose close may take long: files that were received, and sockets with
 *	descriptors in them; NULL: this thread closes them
 * @disk: blocks may be files of a disk
 * @front_max: limit of a front's blocks, logs and device memory in bytes; 0: FAB_FRONT_BYTES
 * @all_max: of all fronts; 0: FAB_FRONTS_BYTES
 * @hca_max: limit of the objects of one driver in bytes, at least FAB_FRONT_HCA_LEAST; 0:
 *	OHCA_MEM_DEFAULT
 * @epfd: epoll descriptor; its events of FAB_EVENT_FRONT are for fab_fronts_event()
 * @place: returns the switch port, other than @taken, for the port that @peer describes;
 *	FAB_NO_PORT: @err has the reason. @door: the socket by which the front connected
 */
struct fab_fronts_cfg {
	struct fab_hcas *hcas;
	struct fab_data *d;
	struct fab_closer *closer;
	bool disk;
	uint64_t front_max, all_max, hca_max;
	int epfd;
	uint32_t (*place)(void *door, const struct ohca_link_cfg *peer, uint32_t taken,
			  struct ohca_link_err *err);
};

/** fab_fronts_new() - create the set of fronts, which is empty. Return: NULL if out of memory. */
struct fab_fronts *fab_fronts_new(const struct fab_fronts_cfg *cfg);

/**
 * fab_fronts_start() - if blocks may be on a disk, start the thread that writes them (persist.h);
 *	if that fails they may not be on a disk. fab_fronts_free() ends the thread
 *
 * Return: false: the thread does not run, errno has the reason.
 */
bool fab_fronts_start(struct fab_fronts *s);

/** fab_fronts_free() - end all fronts, before the HCAs are freed; NULL does nothing */
void fab_fronts_free(struct fab_fronts *s);

/** fab_is_front() - whether the message that waits at socket @fd is one of a front */
bool fab_is_front(int fd);

/**
 * fab_fronts_take() - answer the HELLO that waits at socket @fd, watch @fd, and own it
 * @door: for @place of struct fab_fronts_cfg
 */
void fab_fronts_take(struct fab_fronts *s, int fd, void *door);

/**
 * fab_fronts_pass() - begin a pass of the loop: messages of each front may be processed once in it
 */
void fab_fronts_pass(struct fab_fronts *s);

/** fab_fronts_event() - process messages, or the end, of the front with the event's @index */
void fab_fronts_event(struct fab_fronts *s, uint32_t index);

/**
 * fab_fronts_settle() - before turns of HCAs: process messages of fronts with OHCA_PEND_ATTN, end
 *	fronts whose memory has vanished in the last turns, free some memory of fronts that have
 *	ended
 *
 * Return: whether there is more to free.
 */
bool fab_fronts_settle(struct fab_fronts *s);

/** fab_fronts_due() - ns until fab_fronts_settle() is due, if nothing else is; UINT64_MAX: never */
uint64_t fab_fronts_due(void);

#endif
