/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures of the packets that ports send and receive, as pcapng (draft-ietf-opsawg-pcapng) with
 * ERF records of type 21: LRH to VCRC, both CRCs right; and of type 25: link packets. Each port has
 * two interfaces, one for each direction. A packet that is dropped at a port has the reason as a
 * comment. Without a capture a packet, and a round, cost one more test of a pointer. Owner thread
 * only.
 */
#ifndef OHCA_FABRIC_CAPTURE_H
#define OHCA_FABRIC_CAPTURE_H

#include "fabric/data/data.h"

#define FAB_CAPTURE_PORTS	32u	/* of one capture */

struct fab_capture;

/**
 * fab_capture_start() - begin a capture, with the blocks that describe it
 * @port: [@n] ports of the graph, at most FAB_CAPTURE_PORTS
 * @limit: packets after which it is full, 0: none; later ones are neither written nor counted
 * @links: link packets, too: fab_capture_links()
 *
 * Return: NULL: out of memory, or @write had no room for them.
 */
struct fab_capture *fab_capture_start(struct fab_data *d, const uint32_t *port, unsigned int n,
				      uint64_t limit, bool links,
				      bool (*write)(void *ctx, const void *buf, size_t len),
				      void *ctx);

/** fab_capture_full() - whether it has reached its limit */
bool fab_capture_full(const struct fab_capture *c);

/** fab_capture_stop() - write the number of lost packets, and end; NULL does nothing */
void fab_capture_stop(struct fab_capture *c);

#endif
