/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of another process, mapped: the memory of a machine that HCAs access.
 *
 * The process that has passed a file may truncate it, or its file system may have no room for a
 * page: an access is a bus error then. A signal handler maps other memory in place of the page and
 * records that memory has vanished. The current access continues with zeros, the HCA maps no more
 * memory (hca.h), and the front is ended after the turn.
 *
 * Only files in memory are mapped (memfd, tmpfs, hugetlbfs): with a disk, or the server of a file
 * system (FUSE, NFS), an access could wait, and with it the whole fabric. Of other descriptors only
 * F_GET_SEALS is requested, which only files in memory answer.
 *
 * The operator of the fabric may allow files of a disk, for machines with persistent memory, and
 * then accepts that an access waits for the disk. Files of a server are refused even then: the file
 * system must be one of a block device (ext4, xfs), and not FUSE, which may have such a device, too
 * (ntfs-3g). The first questions are of a kind that no server answers. Files of btrfs and overlayfs
 * are refused, because these have no number of a device.
 *
 * All functions but two are for one thread, and only that thread accesses the blocks that it has
 * mapped.
 */
#ifndef OHCA_FABRIC_BLOCK_H
#define OHCA_FABRIC_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/base/closer.h"
#include "front/proto.h"

struct fab_block;

/**
 * fab_block_new() - map a file
 * @fd: the file; owned by the block on success, else the caller's
 * @size: bytes from its begin
 * @closer: closes @fd, after the block was unmapped: unmapping the last mapping of a file that is
 *	not open frees all its pages; outlives the block
 * @disk: it may be on a disk
 * @vanished: set when an access has found no memory; outlives the block
 * @status: on failure, the reason
 *
 * Return: NULL on failure.
 */
struct fab_block *fab_block_new(int fd, uint64_t size, struct fab_closer *closer, bool disk,
				bool *vanished, enum ohca_front_status *status);

/** fab_block_free() - give up the block; fab_blocks_reap() unmaps it. NULL does nothing */
void fab_block_free(struct fab_block *b);

/** fab_block_mem() - address of its memory */
void *fab_block_mem(const struct fab_block *b);

/** fab_block_size() - bytes of it */
uint64_t fab_block_size(const struct fab_block *b);

/** fab_block_on_disk() - whether it is a file of a disk */
bool fab_block_on_disk(const struct fab_block *b);

/**
 * fab_block_hold() - keep it mapped until fab_block_let_go(), even if it is freed. One thread, any.
 */
void fab_block_hold(struct fab_block *b);

/** fab_block_let_go() - end a hold: its holder does not access it any more. One thread, any. */
void fab_block_let_go(struct fab_block *b);

/**
 * fab_blocks_reap() - unmap some of the freed blocks
 *
 * The time to unmap memory depends on the number of its pages: this ends after about 100 us.
 *
 * Return: whether there is more that can be unmapped now.
 */
bool fab_blocks_reap(void);

/**
 * fab_blocks_left() - whether freed blocks are still mapped; held ones are unmapped after their
 *	holds
 */
bool fab_blocks_left(void);

/** fab_blocks_vanished() - whether a block has vanished since the last call */
bool fab_blocks_vanished(void);

#endif
