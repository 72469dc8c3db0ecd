// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio-user/mem.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARE_IT "-object memory-backend-memfd,id=ram,size=...,share=on -machine memory-backend=ram"

void vu_mem_init(struct vu_mem *m)
{
	memset(m, 0, sizeof(*m));
	for (unsigned int i = 0; i < OHCA_FRONT_BLOCKS; i++)
		m->block[i].fd = -1;
}

static void block_close(struct vu_block *b)
{
	close(b->fd);
	*b = (struct vu_block){ .fd = -1 };
}

void vu_mem_free(struct vu_mem *m)
{
	for (unsigned int i = 0; i < OHCA_FRONT_BLOCKS; i++)
		if (m->block[i].fd >= 0)
			block_close(&m->block[i]);
	vu_mem_init(m);
}

void vu_mem_forget(struct vu_mem *m)
{
	for (unsigned int i = 0; i < OHCA_FRONT_BLOCKS; i++)
		m->block[i].told = false;
}

/* ---- blocks ---------------------------------------------------------------------------- */

/* Pass a block to the fabric's process. Return: NULL, or the error. */
static const char *block_tell(struct vu_mem *m, struct ohca_front *f, uint32_t i)
{
	struct ohca_front_block msg = { .id = htole32(i), .size = htole64(m->block[i].size) };
	int r = ohca_front_lost(f) ? -1 : ohca_front_call(f, OHCA_FRONT_BLOCK, &msg, sizeof(msg),
							 m->block[i].fd, NULL);

	m->block[i].told = !r;
	switch (r) {
	case OHCA_FRONT_OK:
	case -1:
		return NULL;
	case OHCA_FRONT_NO_MEMORY:
		return "the fabric's process is out of memory";
	case OHCA_FRONT_LIMIT:
		return "the machine has more memory than ohca-fabric --front-memory allows";
	default:
		return "guest memory is not in tmpfs or hugetlbfs: " SHARE_IT
		       ", or ohca-fabric --disk-memory if it is in a file system of a block "
		       "device (ext4, xfs)";
	}
}

/* The block of a file, or else a free one, or OHCA_FRONT_BLOCKS. */
static uint32_t block_of(const struct vu_mem *m, const struct stat *st)
{
	uint32_t i, none = OHCA_FRONT_BLOCKS;

	for (i = 0; i < OHCA_FRONT_BLOCKS; i++) {
		const struct vu_block *b = &m->block[i];

		if (b->fd >= 0 && b->dev == st->st_dev && b->ino == st->st_ino)
			return i;
		if (b->fd < 0 && none == OHCA_FRONT_BLOCKS)
			none = i;
	}
	return none;
}

/* Get the block for a mapping with a descriptor. Return: errno, or 0. */
static int block_get(struct vu_mem *m, struct ohca_front *f, const struct vu_dma_map *d, int *fd,
		     uint32_t *id, const char **why)
{
	const uint64_t end = d->off + d->len;
	struct vu_block *b;
	struct stat st;

	if (fstat(*fd, &st) || !S_ISREG(st.st_mode) || end < d->off || end > (uint64_t)st.st_size) {
		*why = "a mapping is not within its file";
		return EINVAL;
	}
	*id = block_of(m, &st);
	if (*id == OHCA_FRONT_BLOCKS) {
		*why = "the machine has too many memory backends";
		return ENOSPC;
	}
	b = &m->block[*id];
	if (b->fd >= 0) {
		if (end <= b->size)
			return 0;
		*why = "a file of guest memory has grown";
		return EINVAL;
	}
	*b = (struct vu_block){
		.fd = *fd, .dev = st.st_dev, .ino = st.st_ino,
		.size = (uint64_t)st.st_size & ~(uint64_t)(OHCA_FRONT_ALIGN - 1),
	};
	*why = block_tell(m, f, *id);
	if (*why) {
		*b = (struct vu_block){ .fd = -1 };
		return EINVAL;
	}
	*fd = -1;
	return 0;
}

/* ---- mappings -------------------------------------------------------------------------- */

/* Index of the first mapping that ends behind @iova. */
static unsigned int map_after(const struct vu_mem *m, uint64_t iova)
{
	unsigned int lo = 0, hi = m->n;

	while (lo < hi) {
		const unsigned int mid = (lo + hi) / 2;

		if (m->map[mid].iova + m->map[mid].len > iova)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static int map_check(const struct vu_mem *m, const struct vu_dma_map *d, unsigned int at,
		     const char **why)
{
	const uint64_t bits = d->off | d->iova | d->len;

	*why = "a mapping has no length, or is not aligned to 4096 bytes, or ends beyond 2^64";
	if (!d->len || bits & (OHCA_FRONT_ALIGN - 1) || d->iova + d->len <= d->iova ||
	    d->flags & ~(VU_DMA_READ | VU_DMA_WRITE) || !(d->flags & VU_DMA_READ))
		return EINVAL;
	*why = "a mapping overlaps another one";
	if (at < m->n && m->map[at].iova < d->iova + d->len)
		return EEXIST;
	*why = "there are more than 1024 mappings; an IOMMU of the machine is not supported";
	return m->n < VU_MAPS ? 0 : ENOSPC;
}

int vu_mem_map(struct vu_mem *m, struct ohca_front *f, const struct vu_dma_map *d, int *fd,
	       const char **why)
{
	const unsigned int at = map_after(m, d->iova);
	uint32_t block = VU_NO_BLOCK;
	int error = map_check(m, d, at, why);

	if (!error && *fd >= 0)
		error = block_get(m, f, d, fd, &block, why);
	if (!error && block == VU_NO_BLOCK && d->len > VU_SMALL) {
		*why = "guest memory is not shared: " SHARE_IT;
		error = EINVAL;
	}
	if (error) {
		m->refused |= d->len > VU_SMALL && error != EEXIST;
		return error;
	}
	memmove(&m->map[at + 1], &m->map[at], (m->n - at) * sizeof(m->map[0]));
	m->n++;
	m->map[at] = (struct vu_map){
		.iova = d->iova, .len = d->len, .off = d->off, .block = block,
		.readonly = !(d->flags & VU_DMA_WRITE),
	};
	if (block != VU_NO_BLOCK)
		m->block[block].maps++;
	return 0;
}

int vu_mem_unmap(struct vu_mem *m, const struct vu_dma_unmap *d)
{
	const bool all = d->flags & VU_UNMAP_ALL;
	const unsigned int from = all ? 0 : map_after(m, d->iova);
	unsigned int to = all ? m->n : from;

	if (d->flags & ~VU_UNMAP_ALL || (all && (d->iova || d->len)) ||
	    (!all && d->iova + d->len <= d->iova))
		return EINVAL;
	while (!all && to < m->n && m->map[to].iova < d->iova + d->len) {
		const struct vu_map *map = &m->map[to++];

		if (map->iova < d->iova || map->iova + map->len > d->iova + d->len)
			return EINVAL;
	}
	if (!all && from == to)
		return EINVAL;
	for (unsigned int i = from; i < to; i++)
		if (m->map[i].block != VU_NO_BLOCK)
			m->block[m->map[i].block].maps--;
	memmove(&m->map[from], &m->map[to], (m->n - to) * sizeof(m->map[0]));
	m->n -= to - from;
	return 0;
}

bool vu_mem_read(const struct vu_mem *m, uint64_t iova, void *buf, size_t n)
{
	const unsigned int i = map_after(m, iova);
	const struct vu_map *map = &m->map[i];

	if (i == m->n || map->block == VU_NO_BLOCK || iova < map->iova ||
	    map->len - (iova - map->iova) < n)
		return false;
	return pread(m->block[map->block].fd, buf, n, (off_t)(map->off + (iova - map->iova))) ==
	       (ssize_t)n;
}

/* ---- messages to the fabric's process --------------------------------------------------- */

/* Send the table of ranges. Return: as ohca_front_call() */
static int table_tell(const struct vu_mem *m, struct ohca_front *f, bool master)
{
	union {
		struct ohca_front_mem head;
		uint8_t byte[sizeof(struct ohca_front_mem) +
			     VU_MAPS * sizeof(struct ohca_front_range)];
	} msg = { .head = { .n = 0 } };
	uint32_t n = 0;

	for (unsigned int i = 0; master && i < m->n; i++) {
		const struct vu_map *map = &m->map[i];

		if (map->block == VU_NO_BLOCK)
			continue;
		msg.head.range[n++] = (struct ohca_front_range){
			.iova = htole64(map->iova), .len = htole64(map->len),
			.off = htole64(map->off), .block = htole32(map->block),
			.flags = htole32(map->readonly ? OHCA_FRONT_READ_ONLY : 0),
		};
	}
	msg.head.n = htole32(n);
	return ohca_front_call(f, OHCA_FRONT_MEM, &msg, sizeof(msg.head) +
			       n * sizeof(struct ohca_front_range), -1, NULL);
}

/* Close files without a mapping: no range of the fabric's process is in them. */
static void blocks_drop(struct vu_mem *m, struct ohca_front *f)
{
	for (uint32_t i = 0; i < OHCA_FRONT_BLOCKS; i++) {
		struct ohca_front_block msg = { .id = htole32(i) };
		struct vu_block *b = &m->block[i];

		if (b->fd < 0 || b->maps)
			continue;
		if (b->told && !ohca_front_lost(f) &&
		    ohca_front_call(f, OHCA_FRONT_UNBLOCK, &msg,
				    offsetof(struct ohca_front_block, size), -1, NULL) > 0)
			ohca_front_lose(f, "it did not remove memory");
		block_close(b);
	}
}

const char *vu_mem_tell(struct vu_mem *m, struct ohca_front *f, bool master)
{
	const char *why = NULL;

	for (uint32_t i = 0; i < OHCA_FRONT_BLOCKS && !why; i++)
		if (m->block[i].maps && !m->block[i].told)
			why = block_tell(m, f, i);
	if (!why && !ohca_front_lost(f) && table_tell(m, f, master) > 0)
		why = "the fabric's process refused the table of guest memory";
	blocks_drop(m, f);
	return why;
}
