/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FLUSH for persistence: guest memory with a file behind it is written to disk.
 *
 * A driver grants this for the guest's persistent memory only (-device nvdimm),
 * and QEMU has the operation that makes its backend persistent. It takes as long
 * as the disk, so neither the owner nor a thread with the BQL waits for it:
 * QEMU's thread pool executes it. The engine limits the number under way.
 *
 * A job belongs to the owner until the main loop has it. It holds references to
 * the memory, which may be unplugged meanwhile, and to the device.
 */
#include "qemu/osdep.h"
#include "block/thread-pool.h"
#include "ohca.h"
#include "trace.h"

/* A stretch of a memory region. */
typedef struct OhcaSync {
    MemoryRegion *mr;
    uint64_t off;
    uint64_t len;
} OhcaSync;

typedef struct OhcaPersist {
    OhcaState *s;
    uint32_t engine;            /* OhcaState.engines when it began */
    uint64_t tag;
    GArray *sync;               /* OhcaSync */
    QSIMPLEQ_ENTRY(OhcaPersist) next;
} OhcaPersist;

/* Add memory; memory without a file is not persistent and is skipped. */
static void ohca_sync_add(GArray *sync, const OhcaRam *r, uint64_t iova,
                          uint64_t len)
{
    OhcaSync new = {
        .mr = r->mr,
        .off = r->hva + (iova - r->iova) -
               (uint8_t *)memory_region_get_ram_ptr(r->mr),
        .len = len,
    };

    if (memory_region_get_fd(r->mr) < 0) {
        return;
    }
    if (sync->len) {
        OhcaSync *last = &g_array_index(sync, OhcaSync, sync->len - 1);

        if (last->mr == new.mr && last->off + last->len == new.off) {
            last->len += len;
            return;
        }
    }
    memory_region_ref(new.mr);
    g_array_append_val(sync, new);
}

/* Host operation; owner. */
bool ohca_persist_start(void *opaque, const struct ohca_run *run,
                        unsigned int n, uint64_t tag)
{
    GArray *sync = g_array_new(false, false, sizeof(OhcaSync));
    OhcaState *s = opaque;
    OhcaPersist *job;
    unsigned int i;

    for (i = 0; i < n; i++) {
        uint64_t iova = run[i].iova, left = run[i].len;

        while (left) {
            const OhcaRam *r = ohca_mem_find(s, iova, left, OHCA_DMA_READ);
            uint64_t len;

            if (!r) {
                break;          /* removed since the driver registered it */
            }
            len = MIN(left, r->len - (iova - r->iova));
            ohca_sync_add(sync, r, iova, len);
            iova += len;
            left -= len;
        }
    }
    if (!sync->len) {
        g_array_free(sync, true);
        return true;
    }
    trace_ohca_persist(tag, sync->len);
    job = g_new(OhcaPersist, 1);
    *job = (OhcaPersist) {
        .s = s, .engine = s->engines, .tag = tag, .sync = sync,
    };
    object_ref(OBJECT(s));
    QSIMPLEQ_INSERT_TAIL(&s->persist, job, next);
    qemu_bh_schedule(s->persist_bh);
    return false;
}

/* In a thread of the pool. */
static int ohca_persist_work(void *opaque)
{
    OhcaPersist *job = opaque;
    unsigned int i;

    for (i = 0; i < job->sync->len; i++) {
        OhcaSync *sync = &g_array_index(job->sync, OhcaSync, i);

        memory_region_msync(sync->mr, sync->off, sync->len);
    }
    return 0;
}

/* In the main loop. */
static void ohca_persist_done(void *opaque, int ret)
{
    OhcaPersist *job = opaque;
    OhcaState *s = job->s;
    unsigned int i;

    trace_ohca_persisted(job->tag);
    ohca_lock(s);
    /* a device that was realized again has another engine, with its own tags */
    if (job->engine == s->engines) {
        ohca_persisted(s->engine, job->tag);
    }
    ohca_unlock(s);
    for (i = 0; i < job->sync->len; i++) {
        memory_region_unref(g_array_index(job->sync, OhcaSync, i).mr);
    }
    g_array_free(job->sync, true);
    g_free(job);
    object_unref(OBJECT(s));
}

static void ohca_persist_bh(void *opaque)
{
    OhcaState *s = opaque;
    OhcaPersist *job;

    do {
        ohca_lock(s);
        job = QSIMPLEQ_FIRST(&s->persist);
        if (job) {
            QSIMPLEQ_REMOVE_HEAD(&s->persist, next);
        }
        ohca_unlock(s);
        if (job) {
            thread_pool_submit_aio(ohca_persist_work, job, ohca_persist_done,
                                   job);
        }
    } while (job);
}

/**
 * ohca_persist_init: before the engine runs; BQL
 */
void ohca_persist_init(OhcaState *s)
{
    if (!s->persist_bh) {
        QSIMPLEQ_INIT(&s->persist);
        s->persist_bh = qemu_bh_new(ohca_persist_bh, s);
    }
}

/**
 * ohca_persist_exit: delete the bottom half; no job is left, since each holds a
 * reference to the device; BQL
 */
void ohca_persist_exit(OhcaState *s)
{
    if (s->persist_bh) {
        qemu_bh_delete(s->persist_bh);
    }
}
