/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: resize of rings of WQEs; ring.c. */
#ifndef OHCA_RING_H
#define OHCA_RING_H

#include <linux/types.h>

struct ohca_buf;

/** ohca_entries - entries of a ring; @log: log2 of them. Return: 0 if @log is out of range */
static inline u32 ohca_entries(u8 log)
{
	return log < 32 ? 1u << log : 0;
}

/** struct ohca_ring - a ring of WQEs or BBs in a buffer; @off: its offset in bytes */
struct ohca_ring {
	struct ohca_buf *buf;
	size_t off;
	u32 log;
	u32 log_stride;
};

int ohca_ring_narrow(u32 *room, u32 outstanding, u32 num);
u32 ohca_ring_move(const struct ohca_ring *dst, const struct ohca_ring *src, u32 head, u32 pi,
		   u32 most);

#endif /* OHCA_RING_H */
