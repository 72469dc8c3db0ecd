/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures of what ports send and receive, as pcapng (draft-ietf-opsawg-pcapng) of ERF records of
 * type 21: LRH to VCRC, both CRCs right; and of type 25: link packets. Each port has two
 * interfaces, one of each direction. A packet that ends at a port has the reason as a comment.
 * Without a capture a packet costs one test of a pointer more, and a round one. Owner thread only.
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
 * Return: NULL: out of memory, or @write took none of it.
 */
struct fab_capture *fab_capture_start(struct fab_data *d, const uint32_t *port, unsigned int n,
				      uint64_t limit, bool links,
				      bool (*write)(void *ctx, const void *buf, size_t len),
				      void *ctx);

/** fab_capture_full() - it has as many packets as it is to have */
bool fab_capture_full(const struct fab_capture *c);

/** fab_capture_stop() - write how many packets were lost, and end; NULL is none */
void fab_capture_stop(struct fab_capture *c);

#endif
