/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fabric's process has written.
 *
 * QEMU does not see it, and has to know: an emulated processor may have
 * translated code of that memory, and a migration, or whoever else watches
 * memory, may have seen it before. The process notes the pages in a log of each
 * block (core/front/dirty.h), all the time, which costs it some stores; here they
 * are taken and announced.
 *
 * With TCG that is before each interrupt of the device, and after each doorbell:
 * a driver hears of data by an interrupt, or polls and says by a doorbell that it
 * has, before anybody runs what was placed. Not covered is who polls alone and
 * runs it at once. Otherwise it is when somebody synchronizes the log of dirty
 * memory.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/memfd.h"
#include "system/tcg.h"
#include "ohca.h"
#include "trace.h"

/*
 * What is written must be announced to all who watch the page.
 * address_space_unmap() is the one call that does exactly this; it drops a
 * reference to the region.
 */
static void ohca_dirty_run(void *opaque, uint64_t off, uint64_t len)
{
    const OhcaLog *log = opaque;
    /* of the file, of which the region may be a part */
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
 * ohca_hosted_dirty: announce what the process has written since the last time
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
 * ohca_hosted_told: the guest is about to be told of something, or has polled
 */
void ohca_hosted_told(OhcaState *s)
{
    if (tcg_enabled()) {
        ohca_hosted_dirty(s);
    }
}

/**
 * ohca_log_open: a log of @size bytes of the file that is behind a region
 *
 * Returns: its descriptor, which the caller closes; -1: out of memory
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
 * ohca_log_close: the process does not write there any more
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
