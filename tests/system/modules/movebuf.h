/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/movebuf: DMA-BUFs that move and are revoked on request of a test. CREATE creates a buffer.
 * mmap() can map its memory, shared. The other calls get its file descriptor; for a buffer of
 * another exporter they return -EINVAL.
 */
#ifndef MOVEBUF_H
#define MOVEBUF_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MOVEBUF_MAX_PAGES	1024

/**
 * struct movebuf_status - history of a buffer
 * @fd: of the buffer
 * @pins: importers that have pinned it now
 * @mapped: mappings of importers now
 * @revoked: it provides no memory any more
 * @maps: mappings of importers since CREATE
 * @refused: mappings and pins that were refused since it was revoked
 * @moves: completed MOVEs
 * @stray: pages that were written after their removal
 * @peers: attachments since CREATE that allow memory behind a BAR of another function
 */
struct movebuf_status {
	__s32 fd;
	__u32 pins;
	__u32 mapped;
	__u32 revoked;
	__u64 maps;
	__u64 refused;
	__u64 moves;
	__u64 stray;
	__u64 peers;
};

/* Pages of a new buffer, zeroed; returns its file descriptor */
#define MOVEBUF_CREATE	_IOW('M', 0x70, __u32)
/* File descriptor: its contents move to other pages. -EBUSY if it is pinned */
#define MOVEBUF_MOVE	_IOW('M', 0x71, __s32)
/* File descriptor: its pages are removed for ever. -EBUSY if it is pinned */
#define MOVEBUF_REVOKE	_IOW('M', 0x72, __s32)
#define MOVEBUF_STATUS	_IOWR('M', 0x73, struct movebuf_status)

#endif /* MOVEBUF_H */
