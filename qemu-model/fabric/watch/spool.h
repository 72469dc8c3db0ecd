/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture that is written to a descriptor: packets are put into a buffer, which is written when
 * the fabric has time. A slow reader does not delay the fabric: packets for which the buffer has no
 * room are lost, and counted. Owner thread only.
 */
#ifndef OHCA_FABRIC_SPOOL_H
#define OHCA_FABRIC_SPOOL_H

#include "capture.h"

#define FAB_SPOOL_BYTES		(4u << 20)
#define FAB_SPOOL_LAST		8192u	/* of these, reserved for the blocks at the end */

/**
 * struct fab_spool_cfg - configuration of a capture
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
 * @d: data path of the fabric
 * @fd: the descriptor: a socket, or a file; fab_spool_flush() waits for its disk
 * @is_socket: it is a socket
 * @gone: nothing more can be written to @fd
 * @at, @len: bytes of @ring that wait
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
 * @fd: stays the caller's; writes to a socket do not wait
 *
 * Return: NULL: out of memory, or @cfg has no port or too many.
 */
struct fab_spool *fab_spool_new(struct fab_data *d, const struct fab_spool_cfg *cfg, int fd);

/**
 * fab_spool_free() - end and free it; data that @fd does not accept now is lost; NULL does nothing
 */
void fab_spool_free(struct fab_spool *s);

/** fab_spool_end() - end the capture, and append the number of lost packets */
void fab_spool_end(struct fab_spool *s);

/**
 * fab_spool_flush() - write as much as @fd accepts; ends a capture at its limit
 * Return: false: @s->gone; errno has the reason.
 */
bool fab_spool_flush(struct fab_spool *s);

#endif
