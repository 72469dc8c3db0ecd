// SPDX-License-Identifier: GPL-2.0-or-later
/* A front's messages and their answers; see front_priv.h. */
#include <endian.h>
#include <errno.h>
#include <stdatomic.h>

#include "front_priv.h"
#include "iotlb.h"
#include "ohca_regs.h"

_Static_assert(OHCA_FRONT_ALIGN == FAB_HCA_PAGE && OHCA_FRONT_RANGES <= FAB_HCA_RANGES,
	       "a MEM with other ranges than those of an HCA");
_Static_assert(OHCA_FRONT_MAPS == FAB_IOTLB_MOST && OHCA_FRONT_UNMAP_STEP == FAB_IOTLB_STEP &&
	       OHCA_PAGE_MAPS <= FAB_HCA_MAPS / 2,
	       "more mappings than an HCA has room for");

typedef enum ohca_front_status front_act(struct fab_front *f, struct front_msg *m, uint64_t *value);

/* ---- memory -------------------------------------------------------------------- */

static void front_unblock(struct fab_front *f, uint32_t id)
{
	fab_persist_forget(f->persist, f->block[id]);
	fab_front_discharge(f, fab_block_size(f->block[id]));
	fab_block_free(f->block[id]);
	f->block[id] = NULL;
	if (f->log_block[id])
		fab_front_discharge(f, fab_block_size(f->log_block[id]));
	fab_block_free(f->log_block[id]);
	f->log_block[id] = NULL;
	f->log[id] = (struct fab_hca_log){ 0 };
}

static enum ohca_front_status on_block(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const struct ohca_front_block *b = &f->s->in.block;
	const uint32_t id = le32toh(b->id);
	const uint64_t size = le64toh(b->size);
	enum ohca_front_status status;

	(void)value;
	if (m->starved)
		return OHCA_FRONT_NO_MEMORY;
	if (m->fd < 0 || id >= OHCA_FRONT_BLOCKS || f->block[id])
		return OHCA_FRONT_INVALID;
	if (!fab_front_charge(f, size))
		return OHCA_FRONT_LIMIT;
	f->block[id] = fab_block_new(m->fd, size, f->s->cfg.closer, f->s->persister.runs, &f->vanished,
				     &status);
	if (!f->block[id]) {
		fab_front_discharge(f, size);
		return status;
	}
	m->fd = -1;
	if (f->persist || !fab_block_on_disk(f->block[id]))
		return OHCA_FRONT_OK;
	f->persist = fab_persist_new(&f->s->persister);
	if (f->persist)
		return OHCA_FRONT_OK;
	front_unblock(f, id);
	return OHCA_FRONT_NO_MEMORY;
}

static enum ohca_front_status on_unblock(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const uint32_t id = le32toh(f->s->in.block.id);

	(void)m;
	(void)value;
	if (id >= OHCA_FRONT_BLOCKS || !f->block[id] || f->ranges[id] || f->maps[id])
		return OHCA_FRONT_INVALID;
	front_unblock(f, id);
	return OHCA_FRONT_OK;
}

static enum ohca_front_status on_log(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const uint32_t id = le32toh(f->s->in.log.id);
	const struct fab_block *b = id < OHCA_FRONT_BLOCKS ? f->block[id] :
				    id == OHCA_FRONT_LOG_DM ? f->dm : NULL;
	enum ohca_front_status status;
	uint64_t size;

	(void)value;
	if (m->starved)
		return OHCA_FRONT_NO_MEMORY;
	if (m->fd < 0 || !b || f->log_block[id])
		return OHCA_FRONT_INVALID;
	size = OHCA_DIRTY_BYTES(fab_block_size(b));
	if (!fab_front_charge(f, size))
		return OHCA_FRONT_LIMIT;
	f->log_block[id] = fab_block_new(m->fd, size, f->s->cfg.closer, false, &f->vanished,
					&status);
	if (!f->log_block[id]) {
		fab_front_discharge(f, size);
		return status;
	}
	m->fd = -1;
	f->log[id].mem = fab_block_mem(b);
	f->log[id].some = &f->page->dirty;
	ohca_dirty_place(&f->log[id].dirty, fab_block_size(b), fab_block_mem(f->log_block[id]));
	return OHCA_FRONT_OK;
}

/* Check the block of range @r, and fill in @to. Return: false: it is not valid. */
static bool take_range(const struct fab_front *f, const struct ohca_front_range *r,
		       struct fab_hca_range *to)
{
	const uint64_t len = le64toh(r->len), off = le64toh(r->off);
	const uint32_t id = le32toh(r->block), flags = le32toh(r->flags);
	const struct fab_block *b = id < OHCA_FRONT_BLOCKS ? f->block[id] : NULL;

	if (!b || off % OHCA_FRONT_ALIGN || flags & ~OHCA_FRONT_READ_ONLY ||
	    off >= fab_block_size(b) || len > fab_block_size(b) - off)
		return false;
	*to = (struct fab_hca_range){
		.iova = le64toh(r->iova),
		.len = len,
		.mem = (uint8_t *)fab_block_mem(b) + off,
		.read_only = flags & OHCA_FRONT_READ_ONLY,
		.log = &f->log[id],
	};
	return true;
}

static enum ohca_front_status on_mem(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const struct ohca_front_mem *mem = &f->s->in.mem;
	const uint32_t n = le32toh(mem->n);

	(void)value;
	if (n > OHCA_FRONT_RANGES || (m->len - sizeof(*mem)) / sizeof(mem->range[0]) < n)
		return OHCA_FRONT_INVALID;
	for (uint32_t i = 0; i < n; i++)
		if (!take_range(f, &mem->range[i], &f->s->range[i]))
			return OHCA_FRONT_INVALID;
	if (!fab_hca_reach_set(fab_front_reach(f), f->s->range, n))
		return errno == ENOMEM ? OHCA_FRONT_NO_MEMORY : OHCA_FRONT_INVALID;
	for (unsigned int i = 0; i < OHCA_FRONT_BLOCKS; i++)
		f->ranges[i] = 0;
	for (uint32_t i = 0; i < n; i++)
		f->ranges[le32toh(mem->range[i].block)]++;
	return OHCA_FRONT_OK;
}

/*
 * Add the part of @mem in block @b, on a disk, to the next FLUSH; @mem may cross into another
 * block.
 */
static void flush_stretch(struct fab_front *f, struct fab_block *b, const struct iovec *mem)
{
	const uintptr_t begin = (uintptr_t)fab_block_mem(b), end = begin + fab_block_size(b);
	const uintptr_t from = (uintptr_t)mem->iov_base, to = from + mem->iov_len;
	const uintptr_t first = from > begin ? from : begin, last = to < end ? to : end;

	if (first < last)
		fab_persist_add(f->persist, b, first - begin, last - first);
}

bool fab_front_persist(void *arg, const struct iovec *mem, unsigned int n, uint64_t tag)
{
	struct fab_front *f = arg;

	for (unsigned int id = 0; f->persist && id < OHCA_FRONT_BLOCKS; id++) {
		struct fab_block *b = f->block[id];

		if (!b || !fab_block_on_disk(b))
			continue;
		if (!n)
			fab_persist_add(f->persist, b, 0, fab_block_size(b));
		for (unsigned int i = 0; i < n; i++)
			flush_stretch(f, b, &mem[i]);
	}
	return f->persist && fab_persist_begin(f->persist, tag);
}

/* ---- translations of an IOMMU ---------------------------------------------------- */

static bool take_map(struct fab_front *f, const struct ohca_page_map *from)
{
	const uint64_t block = atomic_load_explicit(&from->block, memory_order_relaxed);
	const struct ohca_front_range r = {
		.iova = htole64(atomic_load_explicit(&from->iova, memory_order_relaxed)),
		.len = htole64(atomic_load_explicit(&from->len, memory_order_relaxed)),
		.off = htole64(atomic_load_explicit(&from->off, memory_order_relaxed)),
		.block = htole32((uint32_t)block),
		.flags = htole32((uint32_t)(block >> 32)),
	};
	struct fab_hca_range to;

	f->bad = "a mapping is not valid";
	if (!take_range(f, &r, &to))
		return false;
	if (fab_iotlb_map(&fab_front_reach(f)->iotlb, &to, &f->maps[(uint32_t)block]))
		f->bad = NULL;
	else if (errno == ENOMEM)
		f->bad = "there are too many mappings";
	return !f->bad;
}

unsigned int fab_front_maps(void *arg)
{
	struct fab_front *f = arg;
	const struct ohca_page_map *ring = (void *)((uint8_t *)f->page + OHCA_PAGE_RING);
	const uint32_t n = atomic_load(&f->page->map_head) - f->map_tail;
	uint32_t i;

	if (!n || f->bad)
		return 0;
	if (n > OHCA_PAGE_MAPS)
		f->bad = "its ring of mappings has too many entries";
	for (i = 0; i < n && !f->bad; i++)
		take_map(f, &ring[f->map_tail++ % OHCA_PAGE_MAPS]);
	atomic_store(&f->page->map_tail, f->map_tail);
	/* f->bad ends the front after the turn */
	f->s->calls |= f->bad != NULL;
	return i;
}

static enum ohca_front_status on_unmap(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const struct ohca_front_unmap *u = &f->s->in.unmap;
	bool more;

	(void)m;
	fab_front_maps(f);
	if (f->bad)
		return OHCA_FRONT_INVALID;
	if ((le64toh(u->iova) | (le64toh(u->last) + 1)) % OHCA_FRONT_ALIGN)
		return OHCA_FRONT_INVALID;
	if (!fab_iotlb_unmap(&fab_front_reach(f)->iotlb, le64toh(u->iova), le64toh(u->last), &more))
		return OHCA_FRONT_NO_MEMORY;
	*value = more;
	return OHCA_FRONT_OK;
}

/* ---- the device ---------------------------------------------------------------- */

static enum ohca_front_status on_reg(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const struct ohca_front_reg *r = &f->s->in.reg;
	const uint32_t off = le32toh(r->off);

	if ((r->size != 4 && r->size != 8) || off % r->size || r->flags & ~OHCA_FRONT_REG_WRITE)
		return OHCA_FRONT_INVALID;
	if (r->flags & OHCA_FRONT_REG_WRITE)
		fab_front_decide(f);
	if (!f->hca)
		return OHCA_FRONT_INVALID;
	/* it may reset the HCA; other registers are written at once */
	m->last |= r->flags & OHCA_FRONT_REG_WRITE && off == OHCA_REG_CTRL;
	if (r->flags & OHCA_FRONT_REG_WRITE)
		fab_hca_write_reg(f->hca, off, le64toh(r->value), r->size);
	else
		*value = fab_hca_read_reg(f->hca, off, r->size);
	return OHCA_FRONT_OK;
}

static enum ohca_front_status on_reset(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	(void)m;
	(void)value;
	fab_front_decide(f);
	fab_hca_reset(f->hca);
	return OHCA_FRONT_OK;
}

static enum ohca_front_status on_run(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const uint32_t running = le32toh(f->s->in.run.running);

	(void)m;
	(void)value;
	if (running > 1)
		return OHCA_FRONT_INVALID;
	if (running)
		fab_front_decide(f);
	/* a front that has joined has no HCA yet */
	if (f->hca)
		fab_hca_run(f->hca, running);
	return OHCA_FRONT_OK;
}

static enum ohca_front_status on_leave(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	(void)m;
	*value = fab_front_leave(f);
	return *value ? OHCA_FRONT_OK : OHCA_FRONT_INVALID;
}

_Static_assert(OHCA_FRONT_LIES_ALL == OHCA_LIE_ALL, "kinds of lies");

static enum ohca_front_status on_lies(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	const struct ohca_front_lies *l = &f->s->in.lies;
	const uint32_t kinds = le32toh(l->kinds), one_of = le32toh(l->one_of);
	ohca_engine *e;

	(void)m;
	if (!f->hca || le32toh(l->ask) > 1 || kinds & ~OHCA_LIE_ALL)
		return OHCA_FRONT_INVALID;
	e = fab_hca_engine(f->hca);
	if (!l->ask) {
		ohca_set_lies(e, le64toh(l->seed), kinds, one_of);
		atomic_store(&f->page->slow_reads, one_of && kinds & OHCA_LIE_REGISTER);
	}
	*value = ohca_lies_told(e);
	return OHCA_FRONT_OK;
}

static enum ohca_front_status on_bye(struct fab_front *f, struct front_msg *m, uint64_t *value)
{
	(void)m;
	(void)value;
	fab_front_unhost(f);
	return OHCA_FRONT_OK;
}

/* ---- messages ------------------------------------------------------------------ */

/* For each type: smallest length, whether it has a descriptor, and whether it always takes long. */
static const struct {
	uint16_t type;
	bool has_fd, is_long;
	size_t least;
	front_act *act;
} messages[] = {
	{ OHCA_FRONT_BLOCK, true, true, sizeof(struct ohca_front_block), on_block },
	{ OHCA_FRONT_UNBLOCK, false, true, offsetof(struct ohca_front_block, size), on_unblock },
	{ OHCA_FRONT_LOG, true, true, sizeof(struct ohca_front_log), on_log },
	{ OHCA_FRONT_MEM, false, true, sizeof(struct ohca_front_mem), on_mem },
	{ OHCA_FRONT_UNMAP, false, true, sizeof(struct ohca_front_unmap), on_unmap },
	{ OHCA_FRONT_REG, false, false, sizeof(struct ohca_front_reg), on_reg },
	{ OHCA_FRONT_RESET, false, true, sizeof(struct ohca_front_hdr), on_reset },
	{ OHCA_FRONT_RUN, false, false, sizeof(struct ohca_front_run), on_run },
	{ OHCA_FRONT_LIES, false, false, sizeof(struct ohca_front_lies), on_lies },
	{ OHCA_FRONT_LEAVE, false, true, sizeof(struct ohca_front_hdr), on_leave },
	{ OHCA_FRONT_BYE, false, true, sizeof(struct ohca_front_hdr), on_bye },
};

const char *fab_front_message(struct fab_front *f, struct front_msg *m)
{
	const uint16_t type = le16toh(f->s->in.hdr.type);
	enum ohca_front_status status = OHCA_FRONT_UNKNOWN;
	struct ohca_front_done done = { 0 };
	uint64_t value = 0;
	unsigned int i;

	for (i = 0; i < IB_ARRAY_SIZE(messages) && messages[i].type != type; i++)
		;
	if (m->fd >= 0 && (i == IB_ARRAY_SIZE(messages) || !messages[i].has_fd))
		return "a message has an unexpected descriptor";
	if (i < IB_ARRAY_SIZE(messages)) {
		if (m->len < messages[i].least)
			return "a message is shorter than its type";
		/* any message may end the other front of a move */
		m->last = messages[i].is_long || f->to || f->from;
		status = messages[i].act(f, m, &value);
	}
	done.status = htole32(status);
	done.value = htole64(value);
	if (fab_front_send(f->sock, &done.hdr, OHCA_FRONT_DONE, sizeof(done), f->s->in.hdr.seq, NULL))
		return NULL;
	return "it does not read its answers";
}
