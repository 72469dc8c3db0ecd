/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory: the VMM maps it for DMA, and the fabric's process gets it as blocks, which are the
 * files, and a table of ranges, which are the mappings. The table is empty while the guest does not
 * let the device be bus master. No global, no thread.
 *
 * Memory without a descriptor cannot be passed on. A small mapping of this kind is firmware and the
 * like, and not a target of DMA; a larger one is the machine's RAM, and is refused.
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
#define VU_SMALL	(16ull << 20)	/* largest mapping without a descriptor, in bytes */
#define VU_NO_BLOCK	UINT32_MAX

/** struct vu_map - @len bytes at bus address @iova are those at @off in @block, or VU_NO_BLOCK */
struct vu_map {
	uint64_t iova, len, off;
	uint32_t block;
	bool readonly;
};

/**
 * struct vu_block - a file with guest memory; its id for the fabric's process is its index
 * @fd: -1: there is none
 * @dev, @ino: identify the file
 * @size: bytes, a multiple of OHCA_FRONT_ALIGN
 * @maps: number of mappings in it
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
 * @refused: memory that the device needs was refused
 */
struct vu_mem {
	struct vu_map map[VU_MAPS];
	unsigned int n;
	struct vu_block block[OHCA_FRONT_BLOCKS];
	bool refused;
};

/** vu_mem_init() - initialise: there is no memory */
void vu_mem_init(struct vu_mem *m);

/** vu_mem_free() - close all files, without a message to the fabric's process */
void vu_mem_free(struct vu_mem *m);

/**
 * vu_mem_map() - DMA_MAP
 * @f: has the HCA; if it is lost vu_mem_tell() passes the block later
 * @d: not checked before
 * @fd: descriptor that was passed with it, or -1; becomes -1 if it is kept
 * @why: why it is refused, for the user
 *
 * vu_mem_tell() must follow: it sends the table.
 * Return: errno, or 0. With errno only @refused has changed.
 */
int vu_mem_map(struct vu_mem *m, struct ohca_front *f, const struct vu_dma_map *d, int *fd,
	       const char **why);

/**
 * vu_mem_unmap() - DMA_UNMAP of all mappings that are within @d, which is not checked before
 *
 * Files stay until vu_mem_tell(), which must follow.
 * Return: errno, or 0: EINVAL: there is none, or one is only partly within @d.
 */
int vu_mem_unmap(struct vu_mem *m, const struct vu_dma_unmap *d);

/** vu_mem_forget() - the fabric's process is a new one, which has no blocks */
void vu_mem_forget(struct vu_mem *m);

/**
 * vu_mem_tell() - pass the memory to the fabric's process; there is no DMA to other memory
 *	afterwards
 * @master: whether the device is bus master
 *
 * Return: NULL, or an error: the HCA cannot be used. NULL if @f is lost.
 */
const char *vu_mem_tell(struct vu_mem *m, struct ohca_front *f, bool master);

/** vu_mem_read() - read @n bytes at bus address @iova. Return: false: they are not mapped. */
bool vu_mem_read(const struct vu_mem *m, uint64_t iova, void *buf, size_t n);

#endif /* OHCA_VFIO_USER_MEM_H */
