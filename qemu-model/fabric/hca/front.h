/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fronts: processes with the PCI device of an HCA that this process hosts (front/proto.h). The
 * first message of a connection to the fabric's socket says that it is one (attach.h); from then
 * on it is here until its end, at which its HCA goes away.
 *
 * A front is not trusted. What it sends is copied, checked and then used, its descriptors too; what
 * violates the protocol ends it with a reason on both sides, and no other one has to do with it.
 * There is one look at a front in a pass of the loop. It takes FAB_FRONT_BURST messages, or up to one
 * that resets the HCA, changes its memory, or ends it: these take longer than a packet. None of them
 * waits for a disk, or for the server of a file system: descriptors that are no memory are refused
 * without a look (block.h), unless the memory of machines may be on a disk. To write it there is the work
 * of a thread (persist.h).
 *
 *	front.c		fronts that come and go
 *	hello.c		the HCA that a HELLO asks for
 *	message.c	messages and their answers
 *	front_sock.c	messages as bytes and descriptors
 *	move.c		a machine that goes on in another process
 *	block.c		memory that a front shares
 *	persist.c	FLUSH for persistence, by a thread of its own
 *
 * Owner thread only.
 */
#ifndef OHCA_FABRIC_FRONT_H
#define OHCA_FABRIC_FRONT_H

#include "fabric/base/closer.h"
#include "fabric/hca/hca.h"

#define FAB_FRONT_BURST		8u		/* messages of a front in a look */
#define FAB_FRONT_BYTES		(1ull << 42)	/* of all memory of a front, if nobody says less */
#define FAB_FRONTS_BYTES	(1ull << 46)	/* of all fronts: half of what a process can map */
#define FAB_FRONT_HCA_LEAST	(1ull << 20)	/* what drivers may make takes as much, or more */

struct fab_fronts;

/**
 * struct fab_fronts_cfg - what fronts need of the fabric
 * @hcas: where their HCAs go
 * @d: its data path
 * @closer: closes what may take long: files that came, and sockets, in which others may wait; NULL: this
 *	thread does
 * @disk: blocks may be files of a disk
 * @front_max: bytes of a front's blocks, logs and device memory; 0: FAB_FRONT_BYTES
 * @all_max: of all fronts; 0: FAB_FRONTS_BYTES
 * @hca_max: what its driver makes may take, at least FAB_FRONT_HCA_LEAST; 0: OHCA_MEM_DEFAULT
 * @epfd: epoll descriptor; its events of FAB_EVENT_FRONT are for fab_fronts_event()
 * @place: the switch port for the port that @peer describes, but not @taken; FAB_NO_PORT: @err says
 *	why there is none. @door: the socket that the front came by
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

/** fab_fronts_new() - no front yet. Return: NULL if out of memory. */
struct fab_fronts *fab_fronts_new(const struct fab_fronts_cfg *cfg);

/**
 * fab_fronts_start() - if blocks may be on a disk start the thread that writes them (persist.h); without
 *	it they may not. fab_fronts_free() ends it
 *
 * Return: false: errno says why it is missing.
 */
bool fab_fronts_start(struct fab_fronts *s);

/** fab_fronts_free() - end all, before the HCAs are freed; NULL is none */
void fab_fronts_free(struct fab_fronts *s);

/** fab_is_front() - whether the message that waits at socket @fd is a front's */
bool fab_is_front(int fd);

/**
 * fab_fronts_take() - the HELLO that waits at socket @fd is answered; @fd is ours, and watched
 * @door: for place of struct fab_fronts_cfg
 */
void fab_fronts_take(struct fab_fronts *s, int fd, void *door);

/** fab_fronts_pass() - a pass of the loop begins: each front may be looked at once */
void fab_fronts_pass(struct fab_fronts *s);

/** fab_fronts_event() - a front, the event's @index, has something to say, or has gone */
void fab_fronts_event(struct fab_fronts *s, uint32_t index);

/**
 * fab_fronts_settle() - before turns of HCAs: look at fronts that have called (OHCA_PEND_ATTN), end those
 *	whose memory has vanished in the last ones, give back some of what others have left
 *
 * Return: whether there is more to give back.
 */
bool fab_fronts_settle(struct fab_fronts *s);

/** fab_fronts_due() - ns until fab_fronts_settle() is due, if nothing else is; UINT64_MAX: never */
uint64_t fab_fronts_due(void);

#endif
