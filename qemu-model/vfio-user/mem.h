/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory: what the VMM maps for DMA, and what the fabric's process is told of it. Files are
 * blocks there, mappings the ranges of its table; of ranges it is told only while the guest lets the
 * device be bus master. No global, no thread.
 *
 * Memory without a descriptor cannot be given away. Little of it is firmware and the like, and no
 * target of DMA; more is the machine's RAM, which is refused.
 */
#ifndef OHCA_VFIO_USER_MEM_H
#define OHCA_VFIO_USER_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "front/client.h"
#include "vfio-user/proto.h"

#define VU_MAPS		OHCA_FRONT_RANGES
#define VU_SMALL	(16ull << 20)	/* without a descriptor it may have so many bytes */
#define VU_NO_BLOCK	UINT32_MAX

/** struct vu_map - @len bytes from bus address @iova are those from @off in @block, or VU_NO_BLOCK */
struct vu_map {
	uint64_t iova, len, off;
	uint32_t block;
	bool readonly;
};

/**
 * struct vu_block - a file with guest memory; its id for the fabric's process is its index
 * @fd: -1: there is none
 * @dev, @ino: which file it is
 * @size: bytes, a multiple of OHCA_FRONT_ALIGN
 * @maps: that are in it
 * @told: the fabric's process has it
 */
struct vu_block {
	int fd;
	dev_t dev;
	ino_t ino;
	uint64_t size;
	unsigned int maps;
	bool told;
};

/**
 * struct vu_mem - guest memory
 * @map: in the order of addresses, @n of them
 * @refused: memory that the device cannot do without was refused
 */
struct vu_mem {
	struct vu_map map[VU_MAPS];
	unsigned int n;
	struct vu_block block[OHCA_FRONT_BLOCKS];
	bool refused;
};

/** vu_mem_init() - there is none */
void vu_mem_init(struct vu_mem *m);

/** vu_mem_free() - close all files; the fabric's process is not told */
void vu_mem_free(struct vu_mem *m);

/**
 * vu_mem_map() - DMA_MAP
 * @f: has the HCA; if it is lost it is told later
 * @d: not checked
 * @fd: descriptor that came along, or -1; becomes -1 if it is kept
 * @why: why it is refused, for the user
 *
 * The table is told by vu_mem_tell().
 * Return: errno, or 0. With errno nothing has changed but @refused.
 */
int vu_mem_map(struct vu_mem *m, struct ohca_front *f, const struct vu_dma_map *d, int *fd,
	       const char **why);

/**
 * vu_mem_unmap() - DMA_UNMAP of all mappings that are within @d, which is not checked
 *
 * Files stay until vu_mem_tell(), which has to follow.
 * Return: errno, or 0: EINVAL: there is none, or one is in it by a part.
 */
int vu_mem_unmap(struct vu_mem *m, const struct vu_dma_unmap *d);

/** vu_mem_forget() - the fabric's process is another one, which was told of nothing */
void vu_mem_forget(struct vu_mem *m);

/**
 * vu_mem_tell() - tell the fabric's process what the device reaches; after it there is no other DMA
 * @master: whether it is bus master
 *
 * Return: NULL, or what is wrong: the HCA cannot be used. It is nothing new if @f is lost.
 */
const char *vu_mem_tell(struct vu_mem *m, struct ohca_front *f, bool master);

/** vu_mem_read() - read @n bytes at bus address @iova. Return: false: there are none. */
bool vu_mem_read(const struct vu_mem *m, uint64_t iova, void *buf, size_t n);

#endif /* OHCA_VFIO_USER_MEM_H */
