/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dirty pages of guest memory that the process ohca-fabric has written.
 *
 * QEMU must mark them dirty: TCG may have translated code from that memory, and
 * a migration may have sent it already. The process always records the pages in
 * a log of each block (core/front/dirty.h), which costs it some stores. This
 * file reads and clears the logs and marks the pages.
 *
 * With TCG it does so before each interrupt of the device and after each
 * doorbell: a driver gets an interrupt, or polls and then rings a doorbell,
 * before the guest executes code that the device has written. A guest that
 * polls and executes the code without a doorbell is not covered. With or without
 * TCG it does so when QEMU synchronizes the dirty log of memory.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/memfd.h"
#include "system/tcg.h"
#include "ohca.h"
#include "trace.h"

/*
 * Mark pages dirty for all clients. address_space_unmap() is the one public
 * call that does exactly this. It drops a reference to the region.
 */
static void ohca_dirty_run(void *opaque, uint64_t off, uint64_t len)
{
    const OhcaLog *log = opaque;
    /* @off is an offset in the file, of which the region may be a part */
    uint64_t first = log->mr->ram_block->fd_offset;
    uint64_t begin = MAX(off, first) - first;
    uint64_t end = MIN(off + len, first + memory_region_size(log->mr)) - first;

    if (off + len <= first || begin >= end) {
        return;
    }
    trace_ohca_dirty(log->mr->name, begin, end - begin);
    if (memory_region_get_dirty_log_mask(log->mr)) {
        memory_region_ref(log->mr);
        address_space_unmap(&address_space_memory,
                            (uint8_t *)memory_region_get_ram_ptr(log->mr) +
                            begin, end - begin, true, end - begin);
    }
}

static void ohca_log_take(OhcaLog *log)
{
    if (log->mem) {
        ohca_dirty_take(&log->dirty, ohca_dirty_run, log);
    }
}

/**
 * ohca_hosted_dirty: mark pages that the process has written
 */
void ohca_hosted_dirty(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    unsigned int i;

    if (likely(!ohca_front_dirty(h->front->f))) {
        return;
    }
    for (i = 0; i < OHCA_FRONT_BLOCKS; i++) {
        ohca_log_take(&h->block[i].log);
    }
    ohca_log_take(&h->dm_log);
}

/**
 * ohca_hosted_told: with TCG, call ohca_hosted_dirty()
 *
 * Before an interrupt, and after a doorbell.
 */
void ohca_hosted_told(OhcaState *s)
{
    if (tcg_enabled()) {
        ohca_hosted_dirty(s);
    }
}

/**
 * ohca_log_open: create a log for the first @size bytes of the file of a region
 *
 * Returns: its file descriptor, which the caller closes; -1: out of memory
 */
int ohca_log_open(OhcaLog *log, MemoryRegion *mr, uint64_t size)
{
    int fd;

    log->bytes = OHCA_DIRTY_BYTES(size);
    log->mem = qemu_memfd_alloc("ohca-dirty", log->bytes,
                                F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL, &fd,
                                NULL);
    if (!log->mem) {
        return -1;
    }
    log->mr = mr;
    ohca_dirty_place(&log->dirty, size, log->mem);
    return fd;
}

/**
 * ohca_log_close: mark the remaining pages and free a log
 *
 * The process must not write to the block any more.
 */
void ohca_log_close(OhcaLog *log)
{
    if (!log->mem) {
        return;
    }
    ohca_log_take(log);
    qemu_memfd_free(log->mem, log->bytes, -1);
    *log = (OhcaLog) { };
}
