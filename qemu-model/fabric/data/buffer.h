/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Input buffers, and the packets in them; see buffer.c. */
#ifndef OHCA_FABRIC_DATA_BUFFER_H
#define OHCA_FABRIC_DATA_BUFFER_H

#include "data_priv.h"

#define FAB_HEADERS	64u	/* bytes that are kept of a packet whose payload is not read */

/**
 * struct fab_buffer - a packet that waits in an input buffer, or is on its way over a wire
 * @next: next one of its lane, or of the spare ones
 * @due_ns: time at which it arrives
 * @came_ns: time at which it arrived at the switch
 * @len: bytes
 * @flags: OHCA_FRAME_*
 * @vcrc: the VCRC, with OHCA_FRAME_VCRC
 * @size: index of its size, below FAB_BUFFER_SIZES
 * @lost: the link loses it
 * @moved: it was the head of a lane, and is on its way over the next wire
 * @agent: as in struct fab_frame
 * @hops: as in struct fab_frame
 * @out, @ovl: the lane of an output for which it is counted as queued, see congestion.c; NULL: none
 */
struct fab_buffer {
	struct fab_buffer *next;
	uint64_t due_ns;
	uint64_t came_ns;
	uint32_t len;
	uint16_t flags;
	uint16_t vcrc;
	uint8_t size;
	bool lost;
	bool moved;
	bool agent;
	uint8_t hops;
	uint8_t ovl;
	struct fab_dport *out;
	uint8_t data[];
};

/**
 * fab_store() - copy a packet into the input buffer of @in
 * @front: it is the head of its lane, and was decided on
 *
 * Return: false if out of memory.
 */
bool fab_store(struct fab_data *d, struct fab_dport *in, unsigned int vl,
	       const struct fab_frame *f, bool front);

/**
 * fab_store_own() - leave the head of lane @vl of @in in its buffer @b, and put that into the input
 *	buffer
 */
void fab_store_own(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/**
 * fab_free_room() - at the end of a round with rates: free the room of packets that fab_release()
 *	ended
 */
void fab_free_room(struct fab_data *d);

/** fab_fits() - whether the input buffer of lane @vl of @in has room for @len bytes */
bool fab_fits(const struct fab_dport *in, unsigned int vl, uint32_t len);

/** fab_peek() - make the first packet of lane @vl of @in its head. Return: false: there is none. */
bool fab_peek(struct fab_dport *in, unsigned int vl);

/**
 * fab_release() - remove the head @b from the input buffer
 * @next: the packet behind it
 */
void fab_release(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b,
		 struct fab_buffer *next);

/** fab_append() - append @b to lane @vl of the input buffer of @in */
void fab_append(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/** fab_buffer_frame() - fill in @f, the packet in @b as the head of lane @vl */
void fab_buffer_frame(const struct fab_buffer *b, unsigned int vl, struct fab_frame *f);

/** fab_buffer_get() - a buffer for @len bytes. Return: NULL: out of memory. */
struct fab_buffer *fab_buffer_get(struct fab_data *d, uint32_t len);

/** fab_buffer_put() - return @b, which is not used any more */
void fab_buffer_put(struct fab_data *d, struct fab_buffer *b);

/**
 * fab_buffers_trim() - free spare buffers that were not needed in the last minute, a bounded number
 * Return: ns until it must run again; UINT64_MAX: there is nothing that it could free.
 */
uint64_t fab_buffers_trim(struct fab_data *d);

/** fab_buffers_free() - free the packets that wait at @dp; NULL: the spare buffers */
void fab_buffers_free(struct fab_data *d, struct fab_dport *dp);

/** fab_copy_head() - write to @b the headers of @f, with lane @vl, that may differ from @f->data */
void fab_copy_head(uint8_t *b, const struct fab_frame *f, unsigned int vl);

/** fab_kept() - bytes that a buffer keeps of a packet of @len bytes */
static inline uint32_t fab_kept(const struct fab_data *d, uint32_t len)
{
	return fab_unlikely(d->cfg.headers) && len > FAB_HEADERS ? FAB_HEADERS : len;
}

/** fab_copy() - write @f with lane @vl to @b, fab_kept() bytes of it */
void fab_copy(const struct fab_data *d, uint8_t *b, const struct fab_frame *f, unsigned int vl);

/**
 * fab_damage() - flip a bit of packet @b, which has a BTH: the ICRC is wrong then, the VCRC is not
 */
void fab_damage(uint8_t *b, uint32_t len);

/**
 * fab_icrc_flag() - OHCA_FRAME_ICRC if the copy that fab_copy() makes of @f has an ICRC, right or
 *	wrong
 */
static inline uint16_t fab_icrc_flag(const struct fab_frame *f)
{
	return f->corrupt ? OHCA_FRAME_ICRC : f->flags & OHCA_FRAME_ICRC;
}

#endif
