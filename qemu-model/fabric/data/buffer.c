// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Input buffers of ports at local wires. Credits (7.9.4): a lane has FAB_LANE_BLOCKS blocks of
 * 64 bytes; the previous port sends only packets that fit. A buffer is at most twice the blocks
 * that are charged for its packet, so the packets of a full lane use at most twice its memory,
 * whatever their sizes. Used buffers are kept for later packets: memory is allocated only when more
 * packets of a size wait than in the last minutes. Buffers that were not needed for a minute are
 * freed.
 */
#include "buffer.h"
#include "clock.h"
#include "congestion.h"
#include "park.h"

#include <stdlib.h>
#include <string.h>

#include "ib/crc.h"

/*
 * Buffer sizes in bytes: a short packet; an MTU of 256, or a MAD, up to an MTU of 4,096, each with
 * the longest headers; and the headers that are kept of a packet whose payload is not read.
 */
static const uint16_t room[FAB_BUFFER_SIZES] = { 128, 384, 640, 1152, 2176, OHCA_LINK_MAX_FRAME, FAB_HEADERS };

#define HEADERS_SIZE	(FAB_BUFFER_SIZES - 1u)

#define TRIM_NS		60000000000u	/* between checks for buffers that were not used */
#define TRIM_BURST	1024u		/* buffers that are freed at once */

bool fab_fits(const struct fab_dport *in, unsigned int vl, uint32_t len)
{
	return in->lane[vl].used + fab_blocks(len) <= FAB_LANE_BLOCKS;
}

struct fab_buffer *fab_buffer_get(struct fab_data *d, uint32_t len)
{
	struct fab_buffer *b;
	uint8_t size = d->cfg.headers ? HEADERS_SIZE : 0;

	while (fab_kept(d, len) > room[size])
		size++;
	b = d->spare[size];
	if (b) {
		d->spare[size] = b->next;
	} else {
		b = malloc(sizeof(*b) + room[size]);
		if (!b)
			return NULL;
		b->size = size;
		d->made[size]++;
		d->n.buffer_bytes += room[size];
	}
	b->out = NULL;
	b->moved = false;
	if (++d->in_use[size] > d->peak[size])
		d->peak[size] = d->in_use[size];
	return b;
}

void fab_buffer_put(struct fab_data *d, struct fab_buffer *b)
{
	b->next = d->spare[b->size];
	d->spare[b->size] = b;
	d->in_use[b->size]--;
}

uint64_t fab_buffers_trim(struct fab_data *d)
{
	unsigned int left = TRIM_BURST;
	uint64_t now;
	bool any = false;

	if (fab_likely(!d->n.buffer_bytes))
		return UINT64_MAX;
	now = fab_data_host_ns(d);
	if (now < d->trim_due_ns)
		return d->trim_due_ns - now;
	for (unsigned int size = 0; size < FAB_BUFFER_SIZES; size++) {
		for (; d->made[size] > d->peak[size] && d->spare[size] && left; left--) {
			struct fab_buffer *b = d->spare[size];

			d->spare[size] = b->next;
			d->made[size]--;
			d->n.buffer_bytes -= room[size];
			free(b);
		}
		any |= d->spare[size] != NULL;
	}
	if (!left)
		return FAB_LOOK_NS;
	memcpy(d->peak, d->in_use, sizeof(d->peak));
	d->trim_due_ns = now + TRIM_NS;
	return any ? TRIM_NS : UINT64_MAX;
}

/* The ICRC is that of the packet that was sent; one byte before it is changed. */
void fab_damage(uint8_t *b, uint32_t len)
{
	uint32_t icrc = 0;

	ib_icrc(b, len - IB_ICRC_LEN, &icrc);
	ib_icrc_put(b + len - IB_ICRC_LEN, icrc);
	b[len - IB_ICRC_LEN - 1] ^= 1;
}

void fab_copy_head(uint8_t *b, const struct fab_frame *f, unsigned int vl)
{
	memcpy(b, f->lrh, IB_LRH_LEN);
	b[0] = (uint8_t)(vl << 4);
	if (fab_likely(!(f->patch | f->hop_limit | f->fecn)))
		return;
	if (f->patch)
		memcpy(b + f->patch, f->pkey, 2);
	if (f->hop_limit)
		b[IB_LRH_LEN + offsetof(struct ib_grh, hoplimit)] = f->hop_limit;
	if (f->fecn)
		ib_set_fecn(b + IB_LRH_LEN + ((b[1] & 3) == IB_LNH_IBA_GLOBAL ? IB_GRH_LEN : 0));
}

/* The headers, the payload, then pad and ICRC. */
static void copy_view(uint8_t *b, const struct fab_frame *f)
{
	const uint32_t end = f->view->hdr_len + f->view->len;

	memcpy(b, f->data, f->view->hdr_len);
	ib_view_copy(b + f->view->hdr_len, f->view);
	memset(b + end, 0, f->len - end);
}

void fab_copy(const struct fab_data *d, uint8_t *b, const struct fab_frame *f, unsigned int vl)
{
	if (f->view)
		copy_view(b, f);
	else
		memcpy(b + IB_LRH_LEN, f->data + IB_LRH_LEN, fab_kept(d, f->len) - IB_LRH_LEN);
	fab_copy_head(b, f, vl);
	if (fab_unlikely(f->corrupt) && !d->cfg.headers)
		fab_damage(b, f->len);
}

static void prepend(struct fab_lane *l, struct fab_buffer *b)
{
	b->next = l->first;
	l->first = b;
	if (!b->next)
		l->last = b;
}

static void lane_append(struct fab_lane *l, struct fab_buffer *b)
{
	b->next = NULL;
	if (l->first)
		l->last->next = b;
	else
		l->first = b;
	l->last = b;
}

/* Count @b as used in lane @vl. */
static void occupy(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		   struct fab_buffer *b)
{
	if (fab_unlikely(in->congestion))
		fab_congestion_queue(d, in, b);
	in->lane[vl].used += fab_blocks(b->len);
	in->buffered |= (uint16_t)(1u << vl);
	if (in->queued || fab_unlikely(in->parked >> vl & 1))
		return;
	d->queue[d->queues++] = in;
	in->queued = true;
}

void fab_append(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b)
{
	lane_append(&in->lane[vl], b);
	occupy(d, in, vl, b);
}

bool fab_store(struct fab_data *d, struct fab_dport *in, unsigned int vl,
	       const struct fab_frame *f, bool front)
{
	struct fab_lane *l = &in->lane[vl];
	struct fab_buffer *b = fab_buffer_get(d, f->len);

	if (!b)
		return false;
	b->len = f->len;
	b->flags = fab_icrc_flag(f);
	b->hops = f->hops;
	b->came_ns = fab_data_now(d);
	fab_copy(d, b->data, f, vl);
	if (!front) {
		lane_append(l, b);
	} else {
		prepend(l, b);
		l->f.data = b->data;
		l->f.view = NULL;
		l->f.owned = true;
		l->f.flags = (uint8_t)b->flags;
		l->f.patch = 0;
		l->f.corrupt = false;
		l->came_ns = b->came_ns;
	}
	occupy(d, in, vl, b);
	d->n.copies++;
	return true;
}

void fab_store_own(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b)
{
	struct fab_lane *l = &in->lane[vl];

	fab_copy_head(b->data, &l->f, vl);
	b->came_ns = fab_data_now(d);
	prepend(l, b);
	l->f.patch = 0;
	l->came_ns = b->came_ns;
	occupy(d, in, vl, b);
	d->n.copies++;
}

void fab_buffer_frame(const struct fab_buffer *b, unsigned int vl, struct fab_frame *f)
{
	*f = (struct fab_frame){
		.data = b->data,
		.owned = true,
		.len = b->len,
		.flags = (uint8_t)(b->flags & OHCA_FRAME_FLAGS),
		.vl = (uint8_t)vl,
		.hops = b->hops,
	};
	memcpy(f->lrh, b->data, IB_LRH_LEN);
}

bool fab_peek(struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];
	struct fab_buffer *b = l->first;

	if (!b)
		return false;
	l->came_ns = b->came_ns;
	fab_buffer_frame(b, vl, &l->f);
	return true;
}

void fab_release(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b,
		 struct fab_buffer *next)
{
	struct fab_lane *l = &in->lane[vl];

	l->first = next;
	if (fab_unlikely(b->out))
		fab_congestion_leave(d, b);
	if (!l->first)
		in->buffered &= (uint16_t)~(1u << vl);
	if (fab_likely(!d->cfg.rate_scale)) {
		l->used -= fab_blocks(b->len);
		fab_credit(d, in);
	} else {
		if (!in->freed)
			d->freed[d->nfreed++] = in;
		in->freed |= (uint16_t)(1u << vl);
		l->freed += fab_blocks(b->len);
	}
	if (!b->moved)
		fab_buffer_put(d, b);
}

void fab_free_room(struct fab_data *d)
{
	while (d->nfreed) {
		struct fab_dport *in = d->freed[--d->nfreed];

		for (; in->freed; in->freed &= (uint16_t)(in->freed - 1)) {
			struct fab_lane *l = &in->lane[__builtin_ctz(in->freed)];

			l->used -= l->freed;
			l->freed = 0;
		}
		fab_credit(d, in);
	}
}

static void free_all(struct fab_buffer *b)
{
	while (b) {
		struct fab_buffer *next = b->next;

		free(b);
		b = next;
	}
}

void fab_buffers_free(struct fab_data *d, struct fab_dport *dp)
{
	if (!dp) {
		for (unsigned int i = 0; i < FAB_BUFFER_SIZES; i++)
			free_all(d->spare[i]);
		return;
	}
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++)
		free_all(dp->lane[vl].first);
}
