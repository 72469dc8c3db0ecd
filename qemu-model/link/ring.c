// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rings of a link: lanes, credits, sleeping. stream.c moves their contents.
 *
 * Per lane the sender counts FCTBS (blocks sent), and the receiver FCCL (blocks sent + blocks free,
 * as the receiver sees them), modulo 4096. A frame starts at block FCTBS mod (blocks of the lane)
 * and its descriptor is at the same index, in the sender's ring as in the receiver's.
 */
#include "link_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#define LINE		64u	/* of a cache; each frame begins one */

/* ---- memory -------------------------------------------------------------------- */

static unsigned int lane_blocks(unsigned int vl, unsigned int vls)
{
	if (vl == OHCA_LINK_VL15)
		return OHCA_WIRE_VL15_BLOCKS;
	return vl < vls ? OHCA_LINK_BLOCKS : 0;
}

static unsigned int lane_bshift(unsigned int vl, unsigned int shift)
{
	return 6 + (vl == OHCA_LINK_VL15 ? 0 : shift);
}

/*
 * Make a lane at @p, or only compute its length (NULL). A frame that begins in the last block of
 * the ring continues behind the ring, so that it is contiguous.
 */
static size_t lane_make(struct lane *lane, uint8_t *p, unsigned int blocks, unsigned int bshift)
{
	const size_t desc = blocks * sizeof(struct frame_desc);

	if (!blocks)
		return 0;
	if (p)
		*lane = (struct lane){
			.desc = (void *)p, .data = p + desc, .blocks = blocks, .bshift = bshift,
		};
	return desc + ((size_t)blocks << bshift) + OHCA_LINK_MAX_FRAME;
}

/* Make all lanes at @p, or compute their length. */
static size_t lanes_make(struct ohca_link *l, uint8_t *p)
{
	size_t n = 0;

	static_assert(OHCA_LINK_MAX_FRAME % LINE == 0, "what follows begins with a line");
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++) {
		const unsigned int blocks = lane_blocks(vl, l->vls);
		const unsigned int bshift = lane_bshift(vl, l->shift);

		n += lane_make(&l->tx[vl].lane, p ? p + n : NULL, blocks, bshift);
		n += lane_make(&l->rx[vl].lane, p ? p + n : NULL, blocks, bshift);
	}
	return n;
}

/* Map the lanes' memory, a file, so that a closer frees its pages. Return: 0 or -1 with errno. */
static int map_lanes(struct ohca_link *l, const struct ohca_link_closer *closer)
{
	void *p = MAP_FAILED;
	int e;

	l->mem = memfd_create("ohca-link", MFD_CLOEXEC);
	l->map_size = lanes_make(l, NULL);
	if (l->mem >= 0 && !ftruncate(l->mem, (off_t)l->map_size))
		p = mmap(NULL, l->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, l->mem, 0);
	e = errno;
	if (l->mem >= 0 && (p == MAP_FAILED || !closer)) {
		close(l->mem);
		l->mem = -1;
	}
	errno = e;
	if (p == MAP_FAILED)
		return -1;
	l->map = p;
	lanes_make(l, p);
	return 0;
}

struct ohca_link *link_new(const struct ohca_link_cfg *cfg, const struct ohca_link_cfg *peer,
			   unsigned int vls, unsigned int shift)
{
	struct ohca_link *l;

	if (posix_memalign((void **)&l, LINE, sizeof(*l))) {
		errno = ENOMEM;
		return NULL;
	}
	memset(l, 0, sizeof(*l));
	l->vls = vls;
	l->shift = shift;
	l->cfg = *cfg;
	l->peer = *peer;
	l->sock = -1;
	l->my_wake = -1;
	l->state.phys = 3;
	if (map_lanes(l, cfg->closer)) {
		free(l);
		return NULL;
	}
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++) {
		l->tx[vl].fccl = l->tx[vl].lane.blocks;
		l->rx[vl].told = l->rx[vl].lane.blocks;
	}
	return l;
}

void link_unmap(struct ohca_link *l)
{
	munmap(l->map, l->map_size);
	/* the close of the file, not the unmapping, frees its pages */
	link_close(l->cfg.closer, l->mem);
}

size_t ohca_link_bytes(const struct ohca_link *l)
{
	return sizeof(*l) + l->map_size + link_stream_bytes(l);
}

bool ohca_link_is_up(const struct ohca_link *l)
{
	return atomic_load_explicit(&l->up, memory_order_acquire);
}

/* ---- transmitting -------------------------------------------------------------- */

static uint32_t tx_free(const struct tx_lane *t)
{
	return (t->fccl - t->fctbs) & FC_MASK;
}

void *ohca_link_tx_begin(struct ohca_link *l, unsigned int vl, size_t len)
{
	struct tx_lane *t;
	uint32_t n;

	if (unlikely(vl >= OHCA_WIRE_LANES || len < OHCA_LINK_MIN_FRAME ||
		     len > OHCA_LINK_MAX_FRAME || !ohca_link_is_up(l)))
		return NULL;
	t = &l->tx[vl];
	if (unlikely(!t->lane.blocks))
		return NULL;
	n = link_blocks(&t->lane, len);
	if (unlikely(tx_free(t) < n)) {
		if (vl == OHCA_LINK_VL15) {
			stat_add(&l->tx_vl15_dropped, 1);
			return NULL;
		}
		stat_add(&l->tx_nocredit, 1);
		t->want = n;
		l->tx_blocked |= 1u << vl;
		return NULL;
	}
	l->tx_blocked &= ~(1u << vl);
	t->training = l->training;
	return t->lane.data + ((size_t)(t->fctbs & (t->lane.blocks - 1)) << t->lane.bshift);
}

void ohca_link_tx_commit_vcrc(struct ohca_link *l, unsigned int vl, size_t len,
			      uint16_t flags, uint16_t vcrc)
{
	struct tx_lane *t = &l->tx[vl];

	/* The frame belongs to an earlier training; its block is free. */
	if (unlikely(t->training != l->training))
		return;
	t->lane.desc[t->fctbs & (t->lane.blocks - 1)] = (struct frame_desc){
		.len = (uint16_t)len, .flags = flags, .vcrc = vcrc,
	};
	t->fctbs = (t->fctbs + link_blocks(&t->lane, len)) & FC_MASK;
	l->tx_dirty = true;
	stat_add(&l->tx_frames, 1);
	stat_add(&l->tx_bytes, len);
}

void ohca_link_tx_commit(struct ohca_link *l, unsigned int vl, size_t len, uint16_t flags)
{
	ohca_link_tx_commit_vcrc(l, vl, len, flags & (uint16_t)~OHCA_FRAME_VCRC, 0);
}

unsigned int ohca_link_tx_credits(const struct ohca_link *l, unsigned int vl)
{
	return vl < OHCA_WIRE_LANES && ohca_link_is_up(l) ? tx_free(&l->tx[vl]) : 0;
}

bool ohca_link_get_flow(const struct ohca_link *l, unsigned int vl, struct ohca_link_flow *f)
{
	if (vl >= l->vls || !ohca_link_is_up(l))
		return false;
	*f = (struct ohca_link_flow){
		.sent_fctbs = (uint16_t)l->tx[vl].fctbs,
		.sent_fccl = (uint16_t)l->rx[vl].told,
		.rcvd_fctbs = (uint16_t)l->rx[vl].fctbs,
		.rcvd_fccl = (uint16_t)l->tx[vl].fccl,
	};
	return true;
}

/* ---- receiving ----------------------------------------------------------------- */

uint32_t ohca_link_rx_pending(const struct ohca_link *l)
{
	uint32_t mask = 0;

	if (!ohca_link_is_up(l))
		return 0;
	for (unsigned int vl = 0; vl < l->vls; vl++)
		if (l->rx[vl].fctbs != l->rx[vl].pos)
			mask |= 1u << vl;
	if (l->rx[OHCA_LINK_VL15].fctbs != l->rx[OHCA_LINK_VL15].pos)
		mask |= 1u << OHCA_LINK_VL15;
	return mask;
}

bool ohca_link_rx_peek(struct ohca_link *l, unsigned int vl, struct ohca_link_frame *f)
{
	const struct frame_desc *d;
	struct rx_lane *r;
	uint32_t idx;

	if (unlikely(vl >= OHCA_WIRE_LANES || !ohca_link_is_up(l)))
		return false;
	r = &l->rx[vl];
	if (r->fctbs == r->pos)
		return false;
	idx = r->pos & (r->lane.blocks - 1);
	d = &r->lane.desc[idx];
	r->cur = d->len;
	*f = (struct ohca_link_frame){
		.data = r->lane.data + ((size_t)idx << r->lane.bshift),
		.len = d->len,
		.flags = d->flags,
		.vcrc = d->vcrc,
		.vl = (uint8_t)vl,
	};
	return true;
}

uint32_t ohca_link_rx_mark(const struct ohca_link *l, unsigned int vl)
{
	return l->rx[vl].fctbs;
}

bool ohca_link_rx_before(const struct ohca_link *l, unsigned int vl, uint32_t mark)
{
	const struct rx_lane *r = &l->rx[vl];
	const uint32_t n = (mark - r->pos) & FC_MASK;

	return n && n <= r->lane.blocks;
}

/* Release all frames up to block @pos. */
static void consume(struct ohca_link *l, unsigned int vl, uint32_t pos)
{
	l->rx[vl].pos = pos & FC_MASK;
	l->rx[vl].cur = 0;
	l->rx_news |= 1u << vl;
}

void ohca_link_rx_release(struct ohca_link *l, unsigned int vl)
{
	struct rx_lane *r;

	if (unlikely(vl >= OHCA_WIRE_LANES))
		return;
	r = &l->rx[vl];
	if (unlikely(!r->cur))
		return;
	stat_add(&l->rx_frames, 1);
	stat_add(&l->rx_bytes, r->cur);
	consume(l, vl, r->pos + link_blocks(&r->lane, r->cur));
}

bool link_rx_resync(struct ohca_link *l, const uint16_t *fctbs)
{
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++) {
		const struct rx_lane *r = &l->rx[vl];

		if (!r->lane.blocks)
			continue;
		if (((fctbs[vl] - r->pos) & FC_MASK) > ((r->fctbs - r->pos) & FC_MASK))
			return false;
		consume(l, vl, fctbs[vl]);
	}
	return true;
}

uint32_t ohca_link_vl15_dropped_by_peer(const struct ohca_link *l)
{
	return l->rx_vl15_dropped;
}

/* ---- waking and sleeping ------------------------------------------------------- */

void ohca_link_kick_tx(struct ohca_link *l)
{
	if (!l->tx_dirty)
		return;
	l->tx_dirty = false;
	link_stream_kick(l);
}

void ohca_link_kick(struct ohca_link *l)
{
	if (l->tx_dirty)
		ohca_link_kick_tx(l);
	else if (link_stream_is_due(l))
		link_stream_kick(l);
}

/* Whether a blocked lane has its credits now. Clears the bits of lanes that have them. */
static bool credits_came(struct ohca_link *l)
{
	const uint32_t was = l->tx_blocked;

	for (uint32_t mask = was; mask; mask &= mask - 1) {
		const unsigned int vl = (unsigned int)__builtin_ctz(mask);

		if (tx_free(&l->tx[vl]) >= l->tx[vl].want)
			l->tx_blocked &= ~(1u << vl);
	}
	return l->tx_blocked != was;
}

bool ohca_link_prepare_sleep(struct ohca_link *l)
{
	return ohca_link_prepare_sleep_except(l, 0);
}

bool ohca_link_prepare_sleep_except(struct ohca_link *l, uint32_t lanes)
{
	if (l->sock < 0)
		return true;
	ohca_link_kick(l);
	if (l->rx_broken || !link_stream_idle(l) || credits_came(l) ||
	    ohca_link_rx_pending(l) & ~lanes)
		return false;
	stat_add(&l->sleeps, 1);
	return true;
}

void ohca_link_awake(struct ohca_link *l)
{
	link_stream_writable(l);
}

int ohca_link_event_fd(const struct ohca_link *l)
{
	return l->my_wake;
}

void ohca_link_get_stats(const struct ohca_link *l, struct ohca_link_stats *st)
{
	st->tx_frames = stat_load(&l->tx_frames);
	st->tx_bytes = stat_load(&l->tx_bytes);
	st->rx_frames = stat_load(&l->rx_frames);
	st->rx_bytes = stat_load(&l->rx_bytes);
	st->tx_nocredit = stat_load(&l->tx_nocredit);
	st->tx_vl15_dropped = stat_load(&l->tx_vl15_dropped);
	st->rx_vl15_dropped = ohca_link_vl15_dropped_by_peer(l);
	st->sends = stat_load(&l->sends);
	st->sleeps = stat_load(&l->sleeps);
	st->retrains = stat_load(&l->retrains);
}
