/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Regions with on-demand paging: the page table, which has nodes only for present pages, the
 * command that changes it, and accesses through it.
 */
#include "engine/base/cmd.h"
#include "engine/base/guestmem.h"
#include "engine/base/job.h"
#include "engine/base/le.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/object/odp.h"
#include "ohca_hw.h"

#define LOG_NODE	9u
#define NODE_ENTRIES	(1u << LOG_NODE)
#define ODP_RIGHTS	(OHCA_ODP_READ | OHCA_ODP_WRITE)

/**
 * struct ohca_odp_node - one level of the table
 * @used: number of entries that are not zero; a node without any is freed
 * @page: in a leaf: pages, as UPDATE_MR_PAGES has them
 * @node: in other nodes: the nodes of the next level
 */
struct ohca_odp_node {
	uint32_t used;
	union {
		uint64_t page[NODE_ENTRIES];
		struct ohca_odp_node *node[NODE_ENTRIES];
	};
};

/**
 * struct ohca_odp - table of pages
 * @npages: pages of the region
 * @shift: log2 of the page size; @levels: levels of nodes
 * @root: NULL: no page is present
 */
struct ohca_odp {
	uint64_t npages;
	uint8_t shift, levels;
	struct ohca_odp_node *root;
};

/* ---- the table -------------------------------------------------------------------- */

static struct ohca_odp_node *node_new(ohca_engine *e)
{
	struct ohca_odp_node *n;

	n = ohca_mem_get(e, sizeof(*n));
	if (n)
		e->page_entries += NODE_ENTRIES;
	return n;
}

static void node_free(ohca_engine *e, struct ohca_odp_node *n)
{
	e->page_entries -= NODE_ENTRIES;
	ohca_mem_put(e, n, sizeof(*n));
}

static unsigned int level_shift(unsigned int level)
{
	return LOG_NODE * (level - 1);
}

/* Entry of page @index; 0: the page is not present. */
static uint64_t page_get(const struct ohca_odp *o, uint64_t index)
{
	const struct ohca_odp_node *n = o->root;

	for (unsigned int level = o->levels; n && level > 1; level--)
		n = n->node[index >> level_shift(level) & (NODE_ENTRIES - 1)];
	return n ? n->page[index & (NODE_ENTRIES - 1)] : 0;
}

/* Set the entry of page @index; @page is not 0. OHCA_ADMIN_OK or _NO_RESOURCE (memory) */
static int page_set(ohca_engine *e, struct ohca_odp *o, uint64_t index, uint64_t page)
{
	struct ohca_odp_node **link = &o->root, *above = NULL;
	uint64_t *p;

	for (unsigned int level = o->levels;; level--) {
		if (!*link) {
			*link = node_new(e);
			if (!*link)
				return OHCA_ADMIN_NO_RESOURCE;
			if (above)
				above->used++;
		}
		if (level == 1)
			break;
		above = *link;
		link = &above->node[index >> level_shift(level) & (NODE_ENTRIES - 1)];
	}
	p = &(*link)->page[index & (NODE_ENTRIES - 1)];
	(*link)->used += !*p;
	*p = page;
	return OHCA_ADMIN_OK;
}

/*
 * Invalidate the pages [first, last] below @n, where @base is the first page of @n. Visits only
 * present nodes; the recursion is as deep as the table. Without @all it ends when the allowance of
 * work is used up; the next call begins again and does not visit freed nodes. Return: whether @n
 * became empty and was freed.
 */
static bool node_clear(ohca_engine *e, struct ohca_odp_node *n, unsigned int level, uint64_t base,
		       uint64_t first, uint64_t last, bool all)
{
	unsigned int shift = level_shift(level);
	uint64_t from = first > base ? (first - base) >> shift : 0;
	uint64_t to = (last - base) >> shift;

	if (to > NODE_ENTRIES - 1)
		to = NODE_ENTRIES - 1;
	/* removal page by page visits one entry of each level, a range visits whole nodes */
	ohca_work(e, OHCA_WORK_STEP + (to - from + 1) * sizeof(n->page[0]));
	for (uint64_t i = from; i <= to && n->used; i++) {
		if (level == 1) {
			n->used -= n->page[i] != 0;
			n->page[i] = 0;
		} else if (n->node[i]) {
			if (!all && !ohca_work_left(e))
				break;
			if (node_clear(e, n->node[i], level - 1, base + (i << shift), first, last,
				       all)) {
				n->node[i] = NULL;
				n->used--;
			}
		}
	}
	if (n->used)
		return false;
	ohca_work_free(e, sizeof(*n));
	node_free(e, n);
	return true;
}

static void pages_clear(ohca_engine *e, struct ohca_odp *o, uint64_t first, uint64_t npages,
			bool all)
{
	if (o->root && npages &&
	    node_clear(e, o->root, o->levels, 0, first, first + (npages - 1), all))
		o->root = NULL;
}

bool ohca_odp_clear(ohca_engine *e, struct ohca_odp *o)
{
	pages_clear(e, o, 0, o->npages, false);
	return !o->root;
}

int ohca_odp_create(ohca_engine *e, struct ohca_odp **out, uint64_t bytes, uint8_t shift)
{
	struct ohca_odp *o = ohca_mem_get(e, sizeof(*o));

	if (!o)
		return OHCA_ADMIN_NO_RESOURCE;
	o->shift = shift;
	o->npages = ((bytes - 1) >> shift) + 1;
	o->levels = 1;
	while (o->npages > 1ull << (LOG_NODE * o->levels))
		o->levels++;
	*out = o;
	return OHCA_ADMIN_OK;
}

void ohca_odp_free(ohca_engine *e, struct ohca_odp *o)
{
	if (!o)
		return;
	pages_clear(e, o, 0, o->npages, true);
	ohca_mem_put(e, o, sizeof(*o));
}

/* ---- the command ------------------------------------------------------------------ */

/* Set @n pages from @first on to those in the mailbox, after a check of all of them. */
static int pages_name(struct ohca_cmd *c, struct ohca_odp *o, uint64_t first, uint32_t n)
{
	__le64 raw[OHCA_ODP_BATCH];
	int rc = ohca_cmd_mbox_read(c, OHCA_AT(update_mr.addr), 0, raw, n * sizeof(raw[0]));

	if (rc)
		return rc;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t page = ohca_le64(raw[i]), size = 1ull << o->shift;

		if (!(page & ODP_RIGHTS))
			continue;
		if ((page & ~ODP_RIGHTS) & (size - 1) || !(page & OHCA_ODP_READ)) {
			c->syndrome = (uint16_t)(OHCA_AQ_ENTRY_SIZE + i * sizeof(raw[0]));
			return OHCA_ADMIN_BAD_PARAM;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t page = ohca_le64(raw[i]);

		if (!(page & ODP_RIGHTS))
			pages_clear(c->e, o, first + i, 1, true);
		else if (page_set(c->e, o, first + i, page))
			return OHCA_ADMIN_NO_RESOURCE;
	}
	return OHCA_ADMIN_OK;
}

int ohca_cmd_update_mr_pages(struct ohca_cmd *c)
{
	const struct ohca_cmd_update_mr *cmd = &c->aqe.update_mr;
	struct ohca_mr *mr = ohca_mr_get(c->e, ohca_le32(cmd->key));
	uint64_t first = ohca_le64(cmd->first), npages = ohca_le64(cmd->npages);
	uint32_t flags = ohca_le32(cmd->flags);

	if (!mr || !mr->odp)
		return OHCA_ADMIN_BAD_HANDLE;
	if (flags & ~OHCA_UPDATE_MR_INVALIDATE)
		return OHCA_BAD(c, update_mr.flags);
	if (first >= mr->odp->npages)
		return OHCA_BAD(c, update_mr.first);
	if (!npages || npages > mr->odp->npages - first)
		return OHCA_BAD(c, update_mr.npages);
	if (flags & OHCA_UPDATE_MR_INVALIDATE) {
		if (cmd->addr)
			return OHCA_BAD(c, update_mr.addr);
		/* only the owner does DMA, so no DMA is under way now */
		pages_clear(c->e, mr->odp, first, npages, false);
		/* if the allowance of work is not used up, all pages were visited */
		return ohca_work_left(c->e) ? OHCA_ADMIN_OK : OHCA_CMD_MORE;
	}
	if (npages > OHCA_ODP_BATCH)
		return OHCA_BAD(c, update_mr.npages);
	return pages_name(c, mr->odp, first, (uint32_t)npages);
}

/* ---- access ----------------------------------------------------------------------- */

/* The page at @off of @mr is not present: describe in *@m what is missing. */
static int missing(struct ohca_missing *m, const struct ohca_mr *mr, uint64_t off, uint64_t n,
		   bool write)
{
	*m = (struct ohca_missing){
		.key = mr->key,
		.addr = mr->iova + (off - mr->pl_offset),
		.len = n,
		.write = write,
	};
	return OHCA_MR_FAULT;
}

int ohca_odp_copy(ohca_engine *e, const struct ohca_mr *mr, uint64_t off, uint8_t *buf, size_t n,
		  bool write, struct ohca_missing *m)
{
	const struct ohca_odp *o = mr->odp;
	uint64_t mask = (1ull << o->shift) - 1;

	while (n) {
		uint64_t page = page_get(o, off >> o->shift), run = mask + 1 - (off & mask);
		size_t len = run < n ? (size_t)run : n;
		uint64_t addr = (page & OHCA_ODP_ADDR) + (off & mask);

		if (!(page & (write ? OHCA_ODP_WRITE : OHCA_ODP_READ)))
			return missing(m, mr, off, n, write);
		if (write ? ohca_dma_write(e, addr, buf, len) : ohca_dma_read(e, addr, buf, len))
			return -1;
		buf += len;
		off += len;
		n -= len;
	}
	return 0;
}

bool ohca_odp_view(ohca_engine *e, const struct ohca_mr *mr, uint64_t off, struct ib_view *v,
		   size_t n)
{
	const struct ohca_odp *o = mr->odp;
	uint64_t mask = (1ull << o->shift) - 1;

	while (n) {
		uint64_t page = page_get(o, off >> o->shift), run = mask + 1 - (off & mask);
		size_t len = run < n ? (size_t)run : n;

		if (!(page & OHCA_ODP_READ) ||
		    !ohca_dma_view(e, (page & OHCA_ODP_ADDR) + (off & mask), v, len))
			return false;
		off += len;
		n -= len;
	}
	return true;
}

int ohca_odp_addr(const struct ohca_mr *mr, uint64_t off, uint64_t *addr, struct ohca_missing *m)
{
	uint64_t page = page_get(mr->odp, off >> mr->odp->shift);

	if (!(page & OHCA_ODP_WRITE))
		return missing(m, mr, off, 8, true);
	*addr = (page & OHCA_ODP_ADDR) + (off & ((1ull << mr->odp->shift) - 1));
	return 0;
}
