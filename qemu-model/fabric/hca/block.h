/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of another process, mapped: the memory of a machine that HCAs reach.
 *
 * The process that has passed a file may make it shorter, or its file system may have no room for
 * a page: an access is a bus error then. A signal handler maps other memory in the place of the page
 * and notes that it has vanished; what was under way goes on with zeros, and the front is ended
 * after the turn. Only files in memory are mapped (memfd, tmpfs, hugetlbfs): a disk, or the server
 * of a file system (FUSE, NFS), could keep an access waiting, and with it the whole fabric. Of other
 * descriptors nothing is asked but F_GET_SEALS, which none but these answers.
 *
 * Who runs the fabric may allow files of a disk, for machines with persistent memory, and takes it
 * that an access waits for the disk. Files of a server are refused also then: a file system of a disk
 * is one of a block device, and who asks for no more than the number of that asks no server.
 *
 * All functions but two are for one thread, which alone accesses the blocks that it has mapped.
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
 * @fd: the file; the block's if there is one, else it stays the caller's
 * @size: bytes from its begin
 * @closer: closes @fd, after the block was unmapped: to unmap the last of a file that nobody has
 *	open frees all its pages; outlives the block
 * @disk: it may be on a disk
 * @vanished: set when an access has found no memory; outlives the block
 * @status: why there is none
 *
 * Return: NULL on failure.
 */
struct fab_block *fab_block_new(int fd, uint64_t size, struct fab_closer *closer, bool disk,
				bool *vanished, enum ohca_front_status *status);

/** fab_block_free() - the block is not accessed any more; fab_blocks_reap() unmaps it. NULL is none */
void fab_block_free(struct fab_block *b);

/** fab_block_mem() - where it is */
void *fab_block_mem(const struct fab_block *b);

/** fab_block_size() - bytes of it */
uint64_t fab_block_size(const struct fab_block *b);

/** fab_block_on_disk() - whether it is a file of a disk */
bool fab_block_on_disk(const struct fab_block *b);

/** fab_block_hold() - it stays mapped until fab_block_let_go(), even if it is freed. Any thread, one. */
void fab_block_hold(struct fab_block *b);

/** fab_block_let_go() - who has held it does not look at it any more. Any thread, one. */
void fab_block_let_go(struct fab_block *b);

/**
 * fab_blocks_reap() - unmap some of what was freed
 *
 * To unmap memory takes as long as it has pages: this ends after some 100 us.
 *
 * Return: whether there is more that can be unmapped now.
 */
bool fab_blocks_reap(void);

/** fab_blocks_left() - whether some is to be unmapped still: of what is held, after it is let go */
bool fab_blocks_left(void);

/** fab_blocks_vanished() - whether a block has vanished since the last call */
bool fab_blocks_vanished(void);

#endif
