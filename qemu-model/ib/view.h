/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The payload of a packet that is not behind its headers, but still where the sender has it: in
 * pieces of memory, which are good until the call returns that the view was given to. Nobody keeps
 * a view; who has to keep the packet copies it. The bytes may change meanwhile, as a machine may
 * write to its memory at any time: who looks at them before he copies them copies them first.
 */
#ifndef OHCA_IB_VIEW_H
#define OHCA_IB_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define IB_VIEW_PIECES	32u

/** struct ib_piece - @len bytes at @p */
struct ib_piece {
	const uint8_t *p;
	uint32_t len;
};

/**
 * struct ib_view - where a payload is
 * @hdr_len: bytes of the headers before it
 * @packets: it is of so many packets, all of one length, without pad, whose headers differ in the
 *	PSN, which counts up, and as @ext says
 * @len: bytes of it: all pieces, without the pad
 * @num: pieces
 * @ext_len, @ext: not 0: each packet is a message of its own, and has its own last @ext_len bytes
 *	of the headers, one after the other at @ext; 0: they are of one message, and only the last
 *	may have AckReq
 */
struct ib_view {
	uint32_t hdr_len;
	uint32_t packets;
	uint32_t len;
	uint32_t num;
	uint32_t ext_len;
	const uint8_t *ext;
	struct ib_piece piece[IB_VIEW_PIECES];
};

/** ib_view_begin() - nothing is in @v yet; it will be of @packets packets */
static inline void ib_view_begin(struct ib_view *v, uint32_t packets)
{
	v->packets = packets;
	v->len = v->num = v->ext_len = 0;
}

/** ib_view_add() - @len bytes at @p follow. Return: false: there are too many pieces. */
static inline bool ib_view_add(struct ib_view *v, const void *p, uint32_t len)
{
	struct ib_piece *last = &v->piece[v->num ? v->num - 1 : 0];

	if (v->num && last->p + last->len == (const uint8_t *)p) {
		last->len += len;
	} else {
		if (v->num == IB_VIEW_PIECES)
			return false;
		v->piece[v->num++] = (struct ib_piece){ .p = p, .len = len };
	}
	v->len += len;
	return true;
}

/** ib_view_part() - @part becomes the payload of packet @i of @v */
static inline void ib_view_part(const struct ib_view *v, uint32_t i, struct ib_view *part)
{
	uint32_t len = v->len / v->packets, skip = i * len;

	ib_view_begin(part, 1);
	part->hdr_len = v->hdr_len;
	for (uint32_t k = 0; k < v->num && part->len < len; k++) {
		const struct ib_piece *piece = &v->piece[k];
		uint32_t n = piece->len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n = n - skip < len - part->len ? n - skip : len - part->len;
		ib_view_add(part, piece->p + skip, n);
		skip = 0;
	}
}

/** ib_view_ends_whole() - the last 8 bytes of @v are in one piece */
static inline bool ib_view_ends_whole(const struct ib_view *v)
{
	return v->num == 1 || v->piece[v->num - 1].len >= 8;
}

/** ib_view_copy() - all of @v to @to */
static inline void ib_view_copy(uint8_t *to, const struct ib_view *v)
{
	for (uint32_t i = 0; i < v->num; i++) {
		memcpy(to, v->piece[i].p, v->piece[i].len);
		to += v->piece[i].len;
	}
}

#endif
