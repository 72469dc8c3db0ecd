// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Replacement of a ring of WQEs by a longer or shorter one while consumers post. First the driver
 * limits the outstanding WQEs to those that both rings can hold. Then the device copies WQEs to the
 * new ring and returns the index up to which it has copied. The driver copies the rest and posts to
 * the new ring.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "buf.h"
#include "ring.h"

/**
 * ohca_ring_narrow - limit outstanding WQEs to those that both rings can hold
 * @room: limit of WQEs or BBs posted and not completed; reduced to @num if it is larger
 * @outstanding: WQEs or BBs posted and not completed
 * @num: WQEs or BBs of the new ring
 *
 * Under the lock that protects @room.
 * Return: 0, or -EINVAL if @outstanding is larger than @num; then @room is unchanged.
 */
int ohca_ring_narrow(u32 *room, u32 outstanding, u32 num)
{
	if (outstanding > num)
		return -EINVAL;
	*room = min(*room, num);
	return 0;
}

/**
 * ohca_ring_move - copy the WQEs that were posted after the device had copied to the new ring
 * @dst: the new ring
 * @src: the old ring, of the same stride
 * @head: producer index, free running
 * @pi: producer index up to which the device reports that it has copied
 * @most: upper limit of the number to copy, at most the size of either ring
 *
 * A WQE keeps its free running index. The limit of ohca_ring_narrow() ensures that no WQE has been
 * overwritten. Under the lock that protects @head.
 * Return: the number of WQEs or BBs copied; 0 if the device has copied all.
 */
u32 ohca_ring_move(const struct ohca_ring *dst, const struct ohca_ring *src, u32 head, u32 pi,
		   u32 most)
{
	u32 mask = (1u << dst->log) - 1, old_mask = (1u << src->log) - 1;
	u32 late = min(head - pi, most);	/* @pi is from the device and may be wrong */
	u32 i;

	for (i = head - late; i != head; i++)
		memcpy(ohca_buf_at(dst->buf, dst->off + ((size_t)(i & mask) << dst->log_stride)),
		       ohca_buf_at(src->buf, src->off + ((size_t)(i & old_mask) <<
							 src->log_stride)),
		       1u << src->log_stride);
	return late;
}
