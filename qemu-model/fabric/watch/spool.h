/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture on its way to a descriptor: a buffer that packets are written to, and that is sent when
 * the fabric has time. A reader that is slow does not hold the fabric up: packets for which the
 * buffer has no room are lost, and counted. Owner thread only.
 */
#ifndef OHCA_FABRIC_SPOOL_H
#define OHCA_FABRIC_SPOOL_H

#include "capture.h"

#define FAB_SPOOL_BYTES		(4u << 20)
#define FAB_SPOOL_LAST		8192u	/* of these, for the blocks at the end */

/**
 * struct fab_spool_cfg - what is captured
 * @port: [@n] ports of the graph
 * @limit: packets after which it ends; 0: none
 * @links: link packets, too
 * @hello: text before the file, at most FAB_SPOOL_LAST bytes, or NULL
 */
struct fab_spool_cfg {
	uint32_t port[FAB_CAPTURE_PORTS];
	unsigned int n;
	uint64_t limit;
	bool links;
	const char *hello;
};

/**
 * struct fab_spool - a capture and its buffer
 * @c: the capture; NULL: it has ended
 * @d: of which fabric
 * @fd: where it goes: a socket, or a file, on whose disk fab_spool_flush() waits
 * @is_socket: the former
 * @gone: nothing more can be written to @fd
 * @at, @len: of @ring: what waits
 */
struct fab_spool {
	struct fab_capture *c;
	struct fab_data *d;
	int fd;
	bool is_socket;
	bool gone;
	uint32_t at;
	uint32_t len;
	uint8_t ring[FAB_SPOOL_BYTES];
};

/**
 * fab_spool_new() - begin a capture
 * @fd: stays the caller's; a socket is written to without waiting
 *
 * Return: NULL: out of memory, or @cfg has no port or too many.
 */
struct fab_spool *fab_spool_new(struct fab_data *d, const struct fab_spool_cfg *cfg, int fd);

/** fab_spool_free() - end it and free it; what @fd does not take now is lost; NULL is none */
void fab_spool_free(struct fab_spool *s);

/** fab_spool_end() - the capture ends: how many packets were lost is written behind it */
void fab_spool_end(struct fab_spool *s);

/**
 * fab_spool_flush() - write what waits, as much as @fd takes; ends a capture at its limit
 * Return: false: @s->gone; errno says why.
 */
bool fab_spool_flush(struct fab_spool *s);

#endif
