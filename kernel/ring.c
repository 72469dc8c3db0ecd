// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rings of WQEs that are replaced by longer or shorter ones while consumers go on posting. First
 * no more may be outstanding than both rings can take; then the device copies what it knows of,
 * and says up to where; the driver copies the rest, and posts in the new ring.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "buf.h"
#include "ring.h"

/**
 * ohca_ring_narrow - let no more be posted than a ring that is to come can take, too
 * @room: how many WQEs or blocks may be posted and not completed; becomes less
 * @outstanding: how many are
 * @num: how many the ring to come has
 *
 * Under the lock that protects @room.
 * Return: 0, or -EINVAL if too much is outstanding already; then @room is what it was.
 */
int ohca_ring_narrow(u32 *room, u32 outstanding, u32 num)
{
	if (outstanding > num)
		return -EINVAL;
	*room = min(*room, num);
	return 0;
}

/**
 * ohca_ring_move - copy to another ring what was posted after the device had copied
 * @dst: ring to post in from now on
 * @src: the ring before, of the same stride
 * @head: producer index, free running
 * @pi: producer index up to which the device says it has copied
 * @most: how many can be outstanding; neither ring has less
 *
 * What has an index in one ring gets it in the other one. None of it can have been overwritten,
 * because ohca_ring_narrow() was in force. Under the lock that protects @head.
 * Return: how many were copied; 0: there is nothing that the device does not know of.
 */
u32 ohca_ring_move(const struct ohca_ring *dst, const struct ohca_ring *src, u32 head, u32 pi,
		   u32 most)
{
	u32 mask = (1u << dst->log) - 1, old_mask = (1u << src->log) - 1;
	u32 late = min(head - pi, most);	/* more cannot be true */
	u32 i;

	for (i = head - late; i != head; i++)
		memcpy(ohca_buf_at(dst->buf, dst->off + ((size_t)(i & mask) << dst->log_stride)),
		       ohca_buf_at(src->buf, src->off + ((size_t)(i & old_mask) <<
							 src->log_stride)),
		       1u << src->log_stride);
	return late;
}
