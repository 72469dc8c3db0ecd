// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The data path of a link: lanes, credits, waking.
 *
 * Per lane the sender owns FCTBS (blocks sent) and the receiver owns FCCL (blocks
 * sent + blocks free, as the receiver sees them); both live in shared memory modulo
 * 4096. A frame starts at block FCTBS mod (blocks of the lane) and its descriptor
 * stands at the same index. Each value read from there is checked before its use.
 */
#include "link_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

struct ohca_link *link_new(const struct shm_map *map, bool listener, unsigned int vls,
			   unsigned int shift)
{
	unsigned int tx = listener ? 0 : 1;
	struct ohca_link *l;

	if (posix_memalign((void **)&l, 64, sizeof(*l)))
		return NULL;
	memset(l, 0, sizeof(*l));
	l->map = *map;
	l->mem = -1;
	l->tx_dir = &map->ctl->dir[tx];
	l->rx_dir = &map->ctl->dir[!tx];
	l->self = &map->ctl->side[tx];
	l->other = &map->ctl->side[!tx];
	l->vls = vls;
	l->shift = shift;
	l->state.phys = 3;
	for (unsigned int vl = 0; vl < OHCA_SHM_LANES; vl++) {
		l->tx[vl].lane = map->lane[tx][vl];
		l->rx[vl].lane = map->lane[!tx][vl];
		l->tx[vl].fccl = l->tx[vl].lane.blocks;
		shm_store_release(&l->rx_dir->fccl[vl], l->rx[vl].lane.blocks);
	}
	/*
	 * The other side may not have written its credit limits yet; they are the same
	 * constants, and no frame is sent before the link has trained, which takes a
	 * message of the other side.
	 */
	return l;
}

bool ohca_link_is_up(const struct ohca_link *l)
{
	return atomic_load_explicit(&l->up, memory_order_acquire);
}

/* ---- transmitting -------------------------------------------------------------- */

static bool tx_fits(struct ohca_link *l, unsigned int vl, uint32_t n)
{
	struct tx_lane *t = &l->tx[vl];
	uint32_t fccl;

	if (likely(((t->fccl - (t->fctbs + n)) & FC_MASK) <= OHCA_LINK_BLOCKS))
		return true;
	fccl = shm_load_acquire(&l->tx_dir->fccl[vl]) & FC_MASK;
	if (unlikely(((fccl - t->fctbs) & FC_MASK) > t->lane.blocks)) {
		/* The receiver grants more than it has, or revokes credits. */
		atomic_store(&l->tx_broken, 1);
		return false;
	}
	t->fccl = fccl;
	return ((fccl - (t->fctbs + n)) & FC_MASK) <= OHCA_LINK_BLOCKS;
}

/* No credit: record it and, if a thread sleeps on the link already, request a signal. */
static bool tx_blocked(struct ohca_link *l, unsigned int vl, uint32_t n)
{
	shm_store(&l->tx[vl].want, n);
	atomic_fetch_or(&l->tx_blocked, 1u << vl);
	full_fence();
	if (!atomic_load_explicit(&l->asleep, memory_order_relaxed))
		return true;
	shm_store(&l->self->tx_wait, 1);
	full_fence();
	return !tx_fits(l, vl, n);
}

void *ohca_link_tx_begin(struct ohca_link *l, unsigned int vl, size_t len)
{
	struct tx_lane *t;
	uint32_t n;

	if (unlikely(vl >= OHCA_SHM_LANES || len < OHCA_LINK_MIN_FRAME ||
		     len > OHCA_LINK_MAX_FRAME || !ohca_link_is_up(l)))
		return NULL;
	t = &l->tx[vl];
	if (unlikely(!t->lane.blocks))
		return NULL;
	n = link_blocks(&t->lane, len);
	if (unlikely(!tx_fits(l, vl, n))) {
		if (vl == OHCA_LINK_VL15) {
			stat_add(&l->tx_vl15_dropped, 1);
			shm_store(&l->tx_dir->vl15_dropped, (uint32_t)l->tx_vl15_dropped);
			return NULL;
		}
		stat_add(&l->tx_nocredit, 1);
		if (tx_blocked(l, vl, n))
			return NULL;
	}
	if (unlikely(t->want)) {
		shm_store(&t->want, 0);
		atomic_fetch_and(&l->tx_blocked, ~(1u << vl));
	}
	t->training = l->training;
	return t->lane.data + ((size_t)(t->fctbs & (t->lane.blocks - 1)) << t->lane.bshift);
}

void ohca_link_tx_commit_vcrc(struct ohca_link *l, unsigned int vl, size_t len,
			      uint16_t flags, uint16_t vcrc)
{
	struct tx_lane *t = &l->tx[vl];
	struct ohca_shm_desc d = {
		.len = (uint16_t)len,
		.flags = flags,
		.vcrc = vcrc,
	};
	uint64_t word;

	/* The frame belongs to an earlier training; its block is free. */
	if (unlikely(t->training != l->training))
		return;
	memcpy(&word, &d, sizeof(word));
	shm_store((uint64_t *)(void *)&t->lane.desc[t->fctbs & (t->lane.blocks - 1)], word);
	shm_store(&t->fctbs, (t->fctbs + link_blocks(&t->lane, len)) & FC_MASK);
	shm_store_release(&l->tx_dir->fctbs[vl], t->fctbs);
	l->tx_dirty = true;
	stat_add(&l->tx_frames, 1);
	stat_add(&l->tx_bytes, len);
}

void ohca_link_tx_commit(struct ohca_link *l, unsigned int vl, size_t len, uint16_t flags)
{
	ohca_link_tx_commit_vcrc(l, vl, len, flags & (uint16_t)~OHCA_FRAME_VCRC, 0);
}

unsigned int ohca_link_tx_credits(struct ohca_link *l, unsigned int vl)
{
	uint32_t n;

	if (vl >= OHCA_SHM_LANES || !l->tx[vl].lane.blocks || !ohca_link_is_up(l))
		return 0;
	n = (shm_load_acquire(&l->tx_dir->fccl[vl]) - l->tx[vl].fctbs) & FC_MASK;
	return n <= l->tx[vl].lane.blocks ? n : 0;
}

bool ohca_link_get_flow(const struct ohca_link *l, unsigned int vl, struct ohca_link_flow *f)
{
	if (vl >= l->vls || !ohca_link_is_up(l))
		return false;
	*f = (struct ohca_link_flow){
		.sent_fctbs = (uint16_t)(l->tx[vl].fctbs & FC_MASK),
		.sent_fccl = (uint16_t)(shm_load(&l->rx_dir->fccl[vl]) & FC_MASK),
		.rcvd_fctbs = (uint16_t)(shm_load(&l->rx_dir->fctbs[vl]) & FC_MASK),
		.rcvd_fccl = (uint16_t)(shm_load(&l->tx_dir->fccl[vl]) & FC_MASK),
	};
	return true;
}

/* ---- receiving ----------------------------------------------------------------- */

int link_rx_bad(struct ohca_link *l, unsigned int vl, const char *what, uint32_t v)
{
	if (!l->rx_broken) {
		l->rx_broken = true;
		snprintf(l->error, sizeof(l->error),
			 "the peer broke the link's rules: %s %u on VL %u", what, v, vl);
	}
	return -1;
}

static bool ring_broken(const struct ohca_link *l)
{
	return l->rx_broken || atomic_load_explicit(&l->tx_broken, memory_order_relaxed);
}

uint32_t ohca_link_rx_pending(struct ohca_link *l)
{
	uint32_t mask = 0;

	if (!ohca_link_is_up(l))
		return 0;
	if (unlikely(ring_broken(l)))
		return 1u << OHCA_LINK_VL15;	/* whose peek then returns an error */
	for (unsigned int vl = 0; vl < l->vls; vl++)
		if ((shm_load(&l->rx_dir->fctbs[vl]) & FC_MASK) != l->rx[vl].pos)
			mask |= 1u << vl;
	if ((shm_load(&l->rx_dir->fctbs[OHCA_LINK_VL15]) & FC_MASK) !=
	    l->rx[OHCA_LINK_VL15].pos)
		mask |= 1u << OHCA_LINK_VL15;
	return mask;
}

int ohca_link_rx_peek(struct ohca_link *l, unsigned int vl, struct ohca_link_frame *f)
{
	struct ohca_shm_desc d;
	struct rx_lane *r;
	uint32_t avail, n, idx;
	uint64_t word;

	if (unlikely(vl >= OHCA_SHM_LANES || !ohca_link_is_up(l)))
		return 0;
	if (unlikely(ring_broken(l)))
		return -1;
	r = &l->rx[vl];
	if (unlikely(!r->lane.blocks))
		return 0;
	avail = (shm_load_acquire(&l->rx_dir->fctbs[vl]) - r->pos) & FC_MASK;
	if (!avail)
		return 0;
	if (unlikely(avail > r->lane.blocks))
		return link_rx_bad(l, vl, "credits exceeded, blocks in flight:", avail);

	idx = r->pos & (r->lane.blocks - 1);
	word = shm_load((uint64_t *)(void *)&r->lane.desc[idx]);
	memcpy(&d, &word, sizeof(d));
	if (unlikely(d.len < OHCA_LINK_MIN_FRAME || d.len > OHCA_LINK_MAX_FRAME))
		return link_rx_bad(l, vl, "frame length", d.len);
	if (unlikely(d.flags & ~OHCA_FRAME_FLAGS))
		return link_rx_bad(l, vl, "frame flags", d.flags);
	n = link_blocks(&r->lane, d.len);
	if (unlikely(n > avail))
		return link_rx_bad(l, vl, "frame longer than what was sent, blocks", n);

	r->cur = n;
	r->cur_len = d.len;
	f->data = r->lane.data + ((size_t)idx << r->lane.bshift);
	f->len = d.len;
	f->flags = d.flags;
	f->vcrc = d.vcrc;
	f->vl = (uint8_t)vl;
	return 1;
}

static void publish(struct ohca_link *l, unsigned int vl)
{
	struct rx_lane *r = &l->rx[vl];

	shm_store_release(&l->rx_dir->fccl[vl], (r->pos + r->lane.blocks) & FC_MASK);
	r->unpub = 0;
	l->rx_unpub &= ~(1u << vl);
	l->rx_dirty = true;
	if (l->stream)
		link_stream_granted(l, vl);
}

static void consume(struct ohca_link *l, unsigned int vl, uint32_t n)
{
	struct rx_lane *r = &l->rx[vl];

	r->pos = (r->pos + n) & FC_MASK;
	r->cur = 0;
	r->unpub += n;
	l->rx_unpub |= 1u << vl;
	if (r->unpub >= r->lane.blocks / 8)
		publish(l, vl);
}

uint32_t ohca_link_rx_mark(struct ohca_link *l, unsigned int vl)
{
	return shm_load(&l->rx_dir->fctbs[vl]) & FC_MASK;
}

bool ohca_link_rx_before(const struct ohca_link *l, unsigned int vl, uint32_t mark)
{
	const struct rx_lane *r = &l->rx[vl];
	const uint32_t n = (mark - r->pos) & FC_MASK;

	return n && n <= r->lane.blocks;
}

void ohca_link_rx_release(struct ohca_link *l, unsigned int vl)
{
	struct rx_lane *r;

	if (unlikely(vl >= OHCA_SHM_LANES))
		return;
	r = &l->rx[vl];
	if (unlikely(!r->cur))
		return;
	stat_add(&l->rx_frames, 1);
	stat_add(&l->rx_bytes, r->cur_len);
	consume(l, vl, r->cur);
}

bool link_rx_resync(struct ohca_link *l, const uint16_t *fctbs)
{
	for (unsigned int vl = 0; vl < OHCA_SHM_LANES; vl++) {
		struct rx_lane *r = &l->rx[vl];
		uint32_t avail, skip;

		if (!r->lane.blocks)
			continue;
		avail = (shm_load_acquire(&l->rx_dir->fctbs[vl]) - r->pos) & FC_MASK;
		skip = (fctbs[vl] - r->pos) & FC_MASK;
		if (avail > r->lane.blocks || skip > avail) {
			link_rx_bad(l, vl, "impossible FCTBS in training, blocks", skip);
			return false;
		}
		consume(l, vl, skip);
	}
	return true;
}

uint32_t ohca_link_vl15_dropped_by_peer(const struct ohca_link *l)
{
	return shm_load(&l->rx_dir->vl15_dropped);
}

/* ---- waking and sleeping ------------------------------------------------------- */

static void signal_peer(struct ohca_link *l, uint64_t *stat)
{
	/* EAGAIN means it is full of signals already. */
	if (write(l->peer_wake, "", 1) == 1)
		stat_add(stat, 1);
}

static bool flag_claim(uint32_t *flag)
{
	return shm_load(flag) && shm_xchg(flag, 0);
}

void ohca_link_kick_tx(struct ohca_link *l)
{
	if (!l->tx_dirty)
		return;
	l->tx_dirty = false;
	if (l->stream) {
		link_stream_kick(l);
		return;
	}
	full_fence();		/* commits before the flag; pairs with prepare_sleep */
	if (flag_claim(&l->other->rx_wait))
		signal_peer(l, &l->tx_wakeups);
}

static void kick_rx(struct ohca_link *l)
{
	while (l->rx_unpub)
		publish(l, (unsigned int)__builtin_ctz(l->rx_unpub));
	if (!l->rx_dirty)
		return;
	l->rx_dirty = false;
	if (l->stream) {
		/* with the frames, if there are any */
		if (!l->tx_dirty)
			link_stream_kick(l);
		return;
	}
	full_fence();		/* credits before the flag */
	if (flag_claim(&l->other->tx_wait))
		signal_peer(l, &l->rx_wakeups);
}

void ohca_link_kick(struct ohca_link *l)
{
	kick_rx(l);
	ohca_link_kick_tx(l);
}

/* Whether a blocked lane has its credits now. Clears the lanes that have. */
static bool credits_came(struct ohca_link *l)
{
	unsigned int mask = atomic_load(&l->tx_blocked);
	bool came = false;

	for (; mask; mask &= mask - 1) {
		unsigned int vl = (unsigned int)__builtin_ctz(mask);
		struct tx_lane *t = &l->tx[vl];
		uint32_t free = (shm_load_acquire(&l->tx_dir->fccl[vl]) -
				 shm_load(&t->fctbs)) & FC_MASK;

		if (free < shm_load(&t->want))
			continue;
		atomic_fetch_and(&l->tx_blocked, ~(1u << vl));
		came = true;
	}
	return came;
}

bool ohca_link_prepare_sleep(struct ohca_link *l)
{
	return ohca_link_prepare_sleep_except(l, 0);
}

bool ohca_link_prepare_sleep_except(struct ohca_link *l, uint32_t lanes)
{
	if (l->sock < 0)
		return true;
	kick_rx(l);
	if (l->stream)
		ohca_link_kick_tx(l);
	if (ring_broken(l) || (l->stream && !link_stream_idle(l)))
		return false;
	atomic_store_explicit(&l->asleep, 1, memory_order_relaxed);
	shm_store(&l->self->rx_wait, 1);
	full_fence();		/* flags before the checks */
	if (atomic_load_explicit(&l->tx_blocked, memory_order_relaxed)) {
		shm_store(&l->self->tx_wait, 1);
		full_fence();
		if (credits_came(l))
			goto stay;
	}
	if (ohca_link_rx_pending(l) & ~lanes)
		goto stay;
	stat_add(&l->sleeps, 1);
	return true;
stay:
	ohca_link_awake(l, false);
	return false;
}

void ohca_link_awake(struct ohca_link *l, bool drain)
{
	uint8_t signals[256];

	atomic_store_explicit(&l->asleep, 0, memory_order_relaxed);
	shm_store(&l->self->rx_wait, 0);
	shm_store(&l->self->tx_wait, 0);
	if (l->stream) {
		if (drain)
			link_stream_writable(l);
		return;
	}
	if (drain && read(l->my_wake, signals, sizeof(signals)) < 0) {
		/* The pipe is empty: the socket woke us, or the peer has read the signal. */
	}
}

int ohca_link_event_fd(const struct ohca_link *l)
{
	return l->my_wake;
}

void ohca_link_get_stats(const struct ohca_link *l, struct ohca_link_stats *st)
{
	st->tx_frames = shm_load(&l->tx_frames);
	st->tx_bytes = shm_load(&l->tx_bytes);
	st->rx_frames = shm_load(&l->rx_frames);
	st->rx_bytes = shm_load(&l->rx_bytes);
	st->tx_nocredit = shm_load(&l->tx_nocredit);
	st->tx_vl15_dropped = shm_load(&l->tx_vl15_dropped);
	st->rx_vl15_dropped = ohca_link_vl15_dropped_by_peer(l);
	st->wakeups_sent = shm_load(&l->tx_wakeups) + shm_load(&l->rx_wakeups);
	st->sleeps = shm_load(&l->sleeps);
	st->retrains = shm_load(&l->retrains);
}
