// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rings of WQEs that are replaced by longer or shorter ones while consumers post. First the driver
 * limits posting to what both rings can hold; then the device copies the WQEs that it has seen,
 * and returns the index up to which it copied; the driver copies the rest, and posts to the new
 * ring.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "buf.h"
#include "ring.h"

/**
 * ohca_ring_narrow - limit posting to what the new ring can hold, too
 * @room: limit of WQEs or blocks posted and not completed; may become less
 * @outstanding: WQEs or blocks posted and not completed
 * @num: WQEs or blocks of the new ring
 *
 * Under the lock that protects @room.
 * Return: 0, or -EINVAL if too much is outstanding already; then @room is unchanged.
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
 * @pi: producer index up to which the device says it has copied
 * @most: limit of ohca_ring_narrow(); neither ring is shorter
 *
 * A WQE keeps its free running index. No WQE can have been overwritten, because
 * ohca_ring_narrow() was in force. Under the lock that protects @head.
 * Return: how many were copied; 0: the device has copied all.
 */
u32 ohca_ring_move(const struct ohca_ring *dst, const struct ohca_ring *src, u32 head, u32 pi,
		   u32 most)
{
	u32 mask = (1u << dst->log) - 1, old_mask = (1u << src->log) - 1;
	u32 late = min(head - pi, most);	/* no more can be outstanding */
	u32 i;

	for (i = head - late; i != head; i++)
		memcpy(ohca_buf_at(dst->buf, dst->off + ((size_t)(i & mask) << dst->log_stride)),
		       ohca_buf_at(src->buf, src->off + ((size_t)(i & old_mask) <<
							 src->log_stride)),
		       1u << src->log_stride);
	return late;
}
