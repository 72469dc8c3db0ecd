/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A view: the payload of a packet that is still in the sender's memory and does not follow its
 * headers. Its pieces are valid until the call returns that the view was passed to. No function
 * stores a view; one that has to store the packet copies the payload. A guest may write to its
 * memory at any time, so a function that checks the bytes copies them first.
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
 * struct ib_view - the payload of one packet, or of several
 * @hdr_len: bytes of the headers of each packet
 * @packets: number of packets, all of the same length; several have no pad. Their headers differ
 *	only in the PSN, which increases by one, and in @ext
 * @len: bytes of all pieces, without the pad
 * @num: number of pieces
 * @ext_len: bytes of each packet in @ext; 0: the packets are one message, and only the last may
 *	have AckReq
 * @ext: if @ext_len is not 0, each packet is a message, and this is the end of its headers, packet
 *	after packet
 * @piece: the pieces
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

/** ib_view_begin() - begin an empty view @v of @packets packets */
static inline void ib_view_begin(struct ib_view *v, uint32_t packets)
{
	v->packets = packets;
	v->len = v->num = v->ext_len = 0;
}

/** ib_view_add() - append @len bytes at @p. Return: false if there are too many pieces. */
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

/** ib_view_part() - set @part to the payload of packet @i of @v */
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

/** ib_view_ends_whole() - whether the last 8 bytes of @v, or all if fewer, are in one piece */
static inline bool ib_view_ends_whole(const struct ib_view *v)
{
	return v->num == 1 || v->piece[v->num - 1].len >= 8;
}

/** ib_view_copy() - copy all of @v to @to */
static inline void ib_view_copy(uint8_t *to, const struct ib_view *v)
{
	for (uint32_t i = 0; i < v->num; i++) {
		memcpy(to, v->piece[i].p, v->piece[i].len);
		to += v->piece[i].len;
	}
}

#endif
