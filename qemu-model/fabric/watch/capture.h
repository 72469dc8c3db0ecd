/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures of what ports send and receive, as pcapng (draft-ietf-opsawg-pcapng) of ERF records of
 * type 21: LRH to VCRC, both CRCs right; and of type 25: link packets. Each port has two
 * interfaces, one of each direction. A packet that ends at a port has the reason as a comment.
 * Without a capture a packet costs one test of a pointer more, and a round one. Owner thread only.
 */
#ifndef OHCA_FABRIC_CAPTURE_H
#define OHCA_FABRIC_CAPTURE_H

#include "fabric/data/to_watch.h"

#define FAB_CAPTURE_PORTS	32u	/* of one capture */

/**
 * struct fab_tap - one port of a capture
 * @c: the capture
 * @next: of another capture of the same port
 * @p: the port, in the graph
 * @iface: pcapng interface of what it receives; what it sends has the next number
 * @blocks: [1] sent and [0] received since the capture began, by lane; of link packets
 * @flow: [1] the last link packet sent and [0] received, by lane: FCTBS << 16 | FCCL
 * @flow_lanes: lanes of @flow that have had one
 */
struct fab_tap {
	struct fab_capture *c;
	struct fab_tap *next;
	uint32_t p;
	uint32_t iface;
	uint16_t blocks[2][FAB_DATA_LANES];
	uint32_t flow[2][FAB_DATA_LANES];
	uint16_t flow_lanes[2];
};

/**
 * struct fab_capture - a capture
 * @d: of which fabric
 * @write: takes @len bytes of the file. Return: false: no room; nothing was taken
 * @ctx: its argument
 * @epoch_ns: what the clock needs to be that of the calendar; 0 with a clock of a test
 * @left: packets that it takes before it is full
 * @links: it has link packets; @next_links: of fab_data.link_captures
 * @ntaps: ports
 * @packets: packets in the file, by interface
 * @lost: packets for which @write had no room, by interface
 * @tap: [@ntaps]
 */
struct fab_capture {
	struct fab_data *d;
	bool (*write)(void *ctx, const void *buf, size_t len);
	void *ctx;
	uint64_t epoch_ns;
	uint64_t left;
	bool links;
	struct fab_capture *next_links;
	unsigned int ntaps;
	uint64_t packets[2 * FAB_CAPTURE_PORTS];
	uint64_t lost[2 * FAB_CAPTURE_PORTS];
	struct fab_tap tap[FAB_CAPTURE_PORTS];
};

/**
 * fab_capture_start() - begin a capture, with the blocks that describe it
 * @port: [@n] ports of the graph, at most FAB_CAPTURE_PORTS
 * @limit: packets after which it is full, 0: none; later ones are neither written nor counted
 * @links: link packets, too: fab_capture_links()
 *
 * Return: NULL: out of memory, or @write took none of it.
 */
struct fab_capture *fab_capture_start(struct fab_data *d, const uint32_t *port, unsigned int n,
				      uint64_t limit, bool links,
				      bool (*write)(void *ctx, const void *buf, size_t len),
				      void *ctx);

/** fab_capture_full() - it has as many packets as it is to have */
static inline bool fab_capture_full(const struct fab_capture *c)
{
	return !c->left;
}

/** fab_capture_stop() - write how many packets were lost, and end; NULL is none */
void fab_capture_stop(struct fab_capture *c);

#endif
