/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory for the engine.
 *
 * The device can access RAM and ROM of this QEMU, anywhere on the
 * bus: also where it is another device's BAR (ivshmem, or device memory of an
 * HCA). Accesses to other regions are refused, with any owner and with or without an
 * IOMMU: registers, because another device handles a write there under
 * the BQL; ROM devices such as flash, which are registers half of the time; and
 * BARs of assigned devices, which may not be accessed with arbitrary sizes.
 *
 * A memory listener on the device's bus master address space, which is empty
 * while the guest has bus mastering off, keeps a sorted table of it. The table
 * is exchanged by the owner of the engine: whoever changes the memory map waits
 * until the engine is outside of a burst of DMA, and when that call returns the
 * device can no longer reach what is gone. Where there is an IOMMU each access
 * is translated instead.
 *
 * An IOMMU model's translation is only safe under the BQL with some of them
 * (amd-iommu): while there is one, the owner holds the BQL as well.
 */
#include "qemu/osdep.h"
#include "ohca.h"
#include "trace.h"

static AddressSpace *ohca_as(OhcaState *s)
{
    return pci_get_address_space(PCI_DEVICE(s));
}

void ohca_ram_free(GArray *ram)
{
    unsigned int i;

    if (!ram) {
        return;
    }
    for (i = 0; i < ram->len; i++) {
        memory_region_unref(g_array_index(ram, OhcaRam, i).mr);
    }
    g_array_free(ram, true);
}

static void ohca_mem_begin(MemoryListener *listener)
{
    OhcaMem *m = container_of(listener, OhcaMem, listener);

    m->next = g_array_new(false, false, sizeof(OhcaRam));
    m->next_iommu = false;
}

/**
 * ohca_ram_section: the memory of a section that the device may access
 *
 * Returns: false: there is none. Else @r has a reference to its region.
 */
bool ohca_ram_section(const MemoryRegionSection *sec, OhcaRam *r)
{
    if (!memory_region_is_ram(sec->mr) ||
        memory_region_is_ram_device(sec->mr)) {
        return false;
    }
    *r = (OhcaRam) {
        .iova = sec->offset_within_address_space,
        .len = int128_get64(sec->size),
        .hva = (uint8_t *)memory_region_get_ram_ptr(sec->mr) +
               sec->offset_within_region,
        .mr = sec->mr,
        .readonly = sec->readonly,
    };
    memory_region_ref(r->mr);
    return true;
}

static void ohca_mem_add(MemoryListener *listener, MemoryRegionSection *sec)
{
    OhcaMem *m = container_of(listener, OhcaMem, listener);
    OhcaRam r;

    if (memory_region_is_iommu(sec->mr)) {
        m->next_iommu = true;
    } else if (ohca_ram_section(sec, &r)) {
        g_array_append_val(m->next, r);
    }
}

gint ohca_ram_cmp(gconstpointer a, gconstpointer b)
{
    const OhcaRam *x = a, *y = b;

    return x->iova < y->iova ? -1 : x->iova > y->iova;
}

static void ohca_mem_commit(MemoryListener *listener)
{
    OhcaMem *m = container_of(listener, OhcaMem, listener);
    OhcaState *s = container_of(m, OhcaState, mem);
    GArray *old;

    g_array_sort(m->next, ohca_ram_cmp);
    trace_ohca_mem(m->next->len, m->next_iommu);
    ohca_lock(s);
    old = m->ram;
    m->ram = g_steal_pointer(&m->next);
    m->last = 0;
    qatomic_set(&m->iommu, m->next_iommu);
    ohca_unlock(s);
    ohca_ram_free(old);
}

void ohca_mem_init(OhcaState *s)
{
    s->mem.listener = (MemoryListener) {
        .name = "ohca",
        .priority = 10,
        .begin = ohca_mem_begin,
        .region_add = ohca_mem_add,
        .region_nop = ohca_mem_add,
        .commit = ohca_mem_commit,
    };
    memory_listener_register(&s->mem.listener, ohca_as(s));
}

/* The engine has stopped all DMA. */
void ohca_mem_exit(OhcaState *s)
{
    if (s->mem.listener.address_space) {
        memory_listener_unregister(&s->mem.listener);
    }
    ohca_ram_free(g_steal_pointer(&s->mem.ram));
}

void ohca_mem_enter(void *opaque)
{
    rcu_read_lock();
}

void ohca_mem_leave(void *opaque)
{
    rcu_read_unlock();
}

/* RAM behind an IOMMU; valid until the end of the burst, as any translation. */
static const OhcaRam *ohca_mem_translate(OhcaState *s, uint64_t iova,
                                         size_t len, int prot)
{
    MemTxAttrs attrs = { .requester_id = pci_requester_id(PCI_DEVICE(s)) };
    bool write = prot & OHCA_DMA_WRITE;
    OhcaRam *r = &s->mem.translated;
    MemoryRegion *mr;
    hwaddr xlat, l = len;

    mr = address_space_translate(ohca_as(s), iova, &xlat, &l, write, attrs);
    if (!l || !memory_region_is_ram(mr) || memory_region_is_ram_device(mr)) {
        return NULL;
    }
    *r = (OhcaRam) {
        .iova = iova,
        .len = l,
        .hva = (uint8_t *)memory_region_get_ram_ptr(mr) + xlat,
        .mr = mr,
        .readonly = memory_region_is_rom(mr),
    };
    return r;
}

/**
 * ohca_mem_find: the memory at a bus address, of at least one byte; owner
 *
 * Valid until the end of the burst of DMA, or the next call; NULL if there is none.
 */
const OhcaRam *ohca_mem_find(OhcaState *s, uint64_t iova, size_t len, int prot)
{
    const GArray *ram = s->mem.ram;
    const OhcaRam *r;
    unsigned int lo = 0, hi;

    if (unlikely(s->mem.iommu)) {
        return ohca_mem_translate(s, iova, len, prot);
    }
    if (!ram || !ram->len) {
        return NULL;
    }
    r = &g_array_index(ram, OhcaRam, s->mem.last);
    if (likely(iova - r->iova < r->len)) {
        return r;
    }
    for (hi = ram->len; lo < hi;) {
        unsigned int mid = (lo + hi) / 2;

        r = &g_array_index(ram, OhcaRam, mid);
        if (iova - r->iova < r->len) {
            s->mem.last = mid;
            return r;
        }
        if (iova < r->iova) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return NULL;
}

void *ohca_mem_map(void *opaque, uint64_t iova, size_t *len, int prot)
{
    const OhcaRam *r = ohca_mem_find(opaque, iova, *len, prot);
    uint64_t off;

    if (unlikely(!r || (r->readonly && (prot & OHCA_DMA_WRITE)))) {
        return NULL;
    }
    off = iova - r->iova;
    *len = MIN(*len, r->len - off);
    return r->hva + off;
}

/*
 * What the guest wrote by DMA into a page that holds translated code, or that
 * somebody watches, must be announced. address_space_unmap() is the one call
 * that does exactly this; it drops a reference to the region.
 */
void ohca_mem_dirty(void *opaque, uint64_t iova, size_t n)
{
    while (n) {
        const OhcaRam *r = ohca_mem_find(opaque, iova, n, OHCA_DMA_WRITE);
        uint64_t off, len;

        if (!r) {
            return;
        }
        off = iova - r->iova;
        len = MIN(n, r->len - off);
        if (memory_region_get_dirty_log_mask(r->mr)) {
            memory_region_ref(r->mr);
            address_space_unmap(ohca_as(opaque), r->hva + off, len, true, len);
        }
        iova += len;
        n -= len;
    }
}

/* As ohca_mem_dirty(), for device memory, which is BAR 5. */
void ohca_mem_dm_dirty(void *opaque, uint64_t off, size_t n)
{
    OhcaState *s = opaque;

    if (memory_region_get_dirty_log_mask(&s->dm)) {
        memory_region_ref(&s->dm);
        address_space_unmap(ohca_as(s),
                            (uint8_t *)memory_region_get_ram_ptr(&s->dm) + off,
                            n, true, n);
    }
}
