/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings of an IOMMU for the process ohca-fabric.
 *
 * The IOMMU notifies the device of each mapping that is added or removed. The
 * device keeps all of them in a tree, because not every IOMMU can replay them.
 * It sends them to the process after a new connection, and when the guest has
 * enabled bus mastering again.
 *
 * QEMU writes an added mapping to a ring, which the process reads before it
 * rejects an address. It removes a mapping by a call: when that returns, the
 * HCA does no DMA by the mapping.
 *
 * When QEMU sends many mappings, the ring becomes full again and again, and each
 * time a call empties it. All these calls have one time limit, OHCA_MAPS_MS,
 * because QEMU holds the BQL meanwhile.
 *
 * An IOMMU model without notifications of added mappings (SMMUv3, intel-iommu
 * without caching-mode=on) is refused.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "ohca.h"
#include "trace.h"

/* Longest time for all mappings, and for all of a replay. */
#define OHCA_MAPS_MS        OHCA_FRONT_UNMAP_MS

#define OHCA_MAPS_SLOW      "it needs more than 2 s for the mappings of the " \
                            "IOMMU: give ohca-fabric more processor time, or " \
                            "use larger pages in the guest"

QEMU_BUILD_BUG_ON(OHCA_MAPS_MS != 2000);

/*
 * A mapping of bus addresses @iova to @last to memory. The tree is sorted by
 * @iova.
 */
typedef struct OhcaMap {
    uint64_t iova;
    uint64_t last;
    MemoryRegion *mr;           /* with a reference */
    uint64_t off;               /* in @mr */
    bool readonly;
} OhcaMap;

/* A region of the bus that an IOMMU translates. */
struct OhcaIommu {
    OhcaState *s;
    IOMMUNotifier n;
    IOMMUMemoryRegion *mr;
    hwaddr offset;              /* bus address minus address in @mr */
    QLIST_ENTRY(OhcaIommu) next;
};

/* ---- the tree ---- */

/* Entries do not overlap. A lookup finds an entry that overlaps the key. */
static gint ohca_map_cmp(gconstpointer a, gconstpointer b, gpointer opaque)
{
    const OhcaMap *x = a, *y = b;

    return x->last < y->iova ? -1 : x->iova > y->last;
}

static void ohca_map_free(gpointer opaque)
{
    OhcaMap *m = opaque;

    memory_region_unref(m->mr);
    g_free(m);
}

static void ohca_map_keep(OhcaHosted *h, const OhcaMap *m)
{
    OhcaMap *kept = g_memdup2(m, sizeof(*m));

    memory_region_ref(m->mr);
    g_tree_insert(h->maps, kept, kept);
}

/* Remove addresses from @iova to @last from the tree. */
static void ohca_maps_cut(OhcaHosted *h, uint64_t iova, uint64_t last)
{
    const OhcaMap key = { .iova = iova, .last = last };
    const OhcaMap *found;

    while ((found = g_tree_lookup(h->maps, &key))) {
        OhcaMap before = *found, behind = *found;

        memory_region_ref(before.mr);
        g_tree_remove(h->maps, found);
        if (before.iova < iova) {
            before.last = iova - 1;
            ohca_map_keep(h, &before);
        }
        if (behind.last > last) {
            behind.off += last + 1 - behind.iova;
            behind.iova = last + 1;
            ohca_map_keep(h, &behind);
        }
        memory_region_unref(before.mr);
    }
}

/* ---- messages to the process ---- */

/* Limit the time of all messages until ohca_maps_unlimit(). */
static void ohca_maps_limit(OhcaHosted *h)
{
    h->maps_end = g_get_monotonic_time() + OHCA_MAPS_MS * 1000;
}

static void ohca_maps_unlimit(OhcaHosted *h)
{
    h->maps_end = 0;
}

/* If the limit is exceeded, end the connection. Returns: whether there is one */
static bool ohca_maps_in_time(OhcaState *s)
{
    int64_t end = s->host.maps_end;

    if (end && g_get_monotonic_time() >= end) {
        ohca_hosted_give_up(s, OHCA_MAPS_SLOW);
    }
    return s->host.there;
}

static bool ohca_map_tell(OhcaState *s, const OhcaMap *m)
{
    OhcaHosted *h = &s->host;
    uint64_t off = m->off + m->mr->ram_block->fd_offset;
    int block = ohca_maps_in_time(s) ? ohca_hosted_block(s, m->mr) : -1;

    if (block >= 0 &&
        ohca_front_map(h->front->f, m->iova, m->last - m->iova + 1, block, off,
                       m->readonly ? OHCA_FRONT_READ_ONLY : 0)) {
        ohca_hosted_give_up(s, "it does not accept mappings of the IOMMU");
    }
    return h->there;
}

static void ohca_maps_untell(OhcaState *s, uint64_t iova, uint64_t last)
{
    if (ohca_maps_in_time(s) &&
        ohca_front_unmap(s->host.front->f, iova, last)) {
        ohca_hosted_give_up(s, "it does not remove mappings of the IOMMU");
    }
}

/*
 * Addresses from @iova to @last are not translated any more. IOMMUs send such
 * notifications for large ranges, all addresses after a flush. A range without
 * mappings needs no call.
 */
static void ohca_maps_end(OhcaState *s, uint64_t iova, uint64_t last)
{
    const OhcaMap key = { .iova = iova, .last = last };

    if (!g_tree_lookup(s->host.maps, &key)) {
        return;
    }
    ohca_maps_cut(&s->host, iova, last);
    if (s->host.maps_told) {
        ohca_maps_untell(s, iova, last);
    }
}

static gboolean ohca_map_tell_one(gpointer key, gpointer value, gpointer opaque)
{
    return !ohca_map_tell(opaque, value);
}

/**
 * ohca_hosted_iommu_send: send all mappings to the process, or remove them
 *
 * The process has mappings only while the IOMMU translates for the device,
 * which needs bus mastering. If it does not accept all of them within
 * OHCA_MAPS_MS, QEMU ends the connection.
 */
void ohca_hosted_iommu_send(OhcaState *s)
{
    OhcaHosted *h = &s->host;

    if (!h->there || !h->maps || h->maps_told == h->iommu) {
        return;
    }
    h->maps_told = h->iommu;
    if (h->iommu) {
        ohca_maps_limit(h);
        g_tree_foreach(h->maps, ohca_map_tell_one, s);
        ohca_maps_unlimit(h);
    } else {
        ohca_maps_untell(s, 0, UINT64_MAX);
    }
}

/**
 * ohca_hosted_iommu_settle: have the process read the ring of mappings
 *
 * Call this before UNBLOCK, which the process refuses if it has mappings of the
 * block.
 */
void ohca_hosted_iommu_settle(OhcaState *s)
{
    if (s->host.there && ohca_front_maps_read(s->host.front->f)) {
        ohca_hosted_give_up(s, "it does not accept mappings of the IOMMU");
    }
}

/* ---- notifications of an IOMMU ---- */

static void ohca_iommu_map_ram(OhcaState *s, const OhcaMap *m)
{
    OhcaHosted *h = &s->host;

    if (g_tree_nnodes(h->maps) >= OHCA_FRONT_MAPS) {
        ohca_hosted_give_up(s, "the IOMMU has too many mappings");
        return;
    }
    ohca_map_keep(h, m);
    if (h->there && h->maps_told) {
        ohca_map_tell(s, m);
    }
}

/* Add the parts of a mapping that are memory. */
static void ohca_iommu_map(OhcaState *s, const IOMMUTLBEntry *entry,
                           uint64_t iova)
{
    uint64_t at = entry->translated_addr, end = at + entry->addr_mask + 1;

    while (at < end) {
        MemoryRegionSection sec = memory_region_find(entry->target_as->root, at,
                                                     end - at);
        uint64_t first = sec.offset_within_address_space;
        uint64_t len = int128_get64(sec.size);
        OhcaMap m = {
            .iova = iova + (first - entry->translated_addr),
            .last = iova + (first - entry->translated_addr) + len - 1,
            .mr = sec.mr,
            .off = sec.offset_within_region,
            .readonly = sec.readonly || !(entry->perm & IOMMU_WO),
        };

        if (!sec.mr) {
            return;
        }
        if (ohca_hosted_is_shared(sec.mr) &&
            QEMU_IS_ALIGNED(m.iova | (m.last + 1) | m.off, OHCA_FRONT_ALIGN)) {
            ohca_iommu_map_ram(s, &m);
        }
        memory_region_unref(sec.mr);
        at = first + len;
    }
}

static void ohca_iommu_notify(IOMMUNotifier *n, IOMMUTLBEntry *entry)
{
    struct OhcaIommu *i = container_of(n, struct OhcaIommu, n);
    OhcaState *s = i->s;
    uint64_t iova = entry->iova + i->offset;
    uint64_t last = iova + entry->addr_mask;

    trace_ohca_iommu(iova, last, entry->perm);
    /* the entry may replace, or repeat, a mapping: remove that first */
    ohca_maps_end(s, iova, last);
    if (entry->perm != IOMMU_NONE) {
        ohca_iommu_map(s, entry, iova);
    }
}

/* ---- the listener of the device's address space behind the IOMMU ---- */

/* Replay the mappings of a region, with the time limit of sending all. */
static void ohca_iommu_replay(struct OhcaIommu *i)
{
    OhcaHosted *h = &i->s->host;

    ohca_maps_limit(h);
    memory_region_iommu_replay(i->mr, &i->n);
    ohca_maps_unlimit(h);
}

static void ohca_notifier_init(IOMMUNotifier *n, MemoryRegion *mr, hwaddr first,
                               hwaddr last)
{
    iommu_notifier_init(n, ohca_iommu_notify, IOMMU_NOTIFIER_IOTLB_EVENTS, first,
                        last,
                        memory_region_iommu_attrs_to_index(
                            IOMMU_MEMORY_REGION(mr), MEMTXATTRS_UNSPECIFIED));
}

static void ohca_iommu_add(MemoryListener *listener, MemoryRegionSection *sec)
{
    OhcaHosted *h = container_of(listener, OhcaHosted, iommu_listener);
    struct OhcaIommu *i;
    Error *err = NULL;
    Int128 end;

    if (!memory_region_is_iommu(sec->mr)) {
        return;
    }
    i = g_new0(struct OhcaIommu, 1);
    i->s = container_of(h, OhcaState, host);
    i->mr = IOMMU_MEMORY_REGION(sec->mr);
    i->offset = sec->offset_within_address_space - sec->offset_within_region;
    end = int128_add(int128_make64(sec->offset_within_region), sec->size);
    ohca_notifier_init(&i->n, sec->mr, sec->offset_within_region,
                       int128_get64(int128_sub(end, int128_one())));
    if (memory_region_register_iommu_notifier(sec->mr, &i->n, &err)) {
        g_free(h->iommu_refused);
        h->iommu_refused = g_strdup(error_get_pretty(err));
        error_free(err);
        g_free(i);
        return;
    }
    QLIST_INSERT_HEAD(&h->iommus, i, next);
    ohca_iommu_replay(i);
}

/**
 * ohca_hosted_iommu_loaded: replay the IOMMU after its state is loaded
 *
 * Loading the state does not always notify: if the region translates from
 * power-on, the listener sees no change of regions. Mappings that were notified
 * before are replaced by the same mappings.
 */
void ohca_hosted_iommu_loaded(OhcaState *s)
{
    struct OhcaIommu *i;

    QLIST_FOREACH(i, &s->host.iommus, next) {
        ohca_iommu_replay(i);
    }
}

static void ohca_iommu_drop(struct OhcaIommu *i)
{
    OhcaState *s = i->s;
    uint64_t first = i->n.start + i->offset, last = i->n.end + i->offset;

    memory_region_unregister_iommu_notifier(MEMORY_REGION(i->mr), &i->n);
    QLIST_REMOVE(i, next);
    g_free(i);
    ohca_maps_end(s, first, last);
}

static void ohca_iommu_del(MemoryListener *listener, MemoryRegionSection *sec)
{
    OhcaHosted *h = container_of(listener, OhcaHosted, iommu_listener);
    struct OhcaIommu *i;

    QLIST_FOREACH(i, &h->iommus, next) {
        if (MEMORY_REGION(i->mr) == sec->mr &&
            i->n.start == sec->offset_within_region) {
            ohca_iommu_drop(i);
            return;
        }
    }
}

/* Returns: the region of an IOMMU, also while it does not translate, or NULL */
static MemoryRegion *ohca_iommu_find(MemoryRegion *root)
{
    MemoryRegion *sub;

    if (memory_region_is_iommu(root)) {
        return root;
    }
    QTAILQ_FOREACH(sub, &root->subregions, subregions_link) {
        if (memory_region_is_iommu(sub)) {
            return sub;
        }
    }
    return NULL;
}

/**
 * ohca_hosted_iommu_check: check that the IOMMU, if any, has notifications
 */
bool ohca_hosted_iommu_check(OhcaState *s, Error **errp)
{
    AddressSpace *as = pci_device_iommu_address_space(PCI_DEVICE(s));
    MemoryRegion *mr = ohca_iommu_find(as->root);
    IOMMUNotifier n;

    if (!mr) {
        return true;
    }
    ohca_notifier_init(&n, mr, 0, 0);
    if (memory_region_register_iommu_notifier(mr, &n, errp)) {
        error_prepend(errp,
                      "the device needs an IOMMU that reports mappings: ");
        return false;
    }
    memory_region_unregister_iommu_notifier(mr, &n);
    return true;
}

/**
 * ohca_hosted_iommu_refused: why the device cannot use its IOMMU, or NULL
 */
const char *ohca_hosted_iommu_refused(OhcaState *s)
{
    if (!s->host.maps) {
        return "create the IOMMU before the device";
    }
    return s->host.iommu_refused;
}

void ohca_hosted_iommu_init(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    AddressSpace *as = pci_device_iommu_address_space(PCI_DEVICE(s));

    if (as == &address_space_memory) {
        return;
    }
    h->maps = g_tree_new_full(ohca_map_cmp, NULL, NULL, ohca_map_free);
    h->iommu_listener = (MemoryListener) {
        .name = "ohca-iommu",
        .priority = 10,
        .region_add = ohca_iommu_add,
        .region_del = ohca_iommu_del,
    };
    memory_listener_register(&h->iommu_listener, as);
}

void ohca_hosted_iommu_exit(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    struct OhcaIommu *i, *next;

    if (!h->maps) {
        return;
    }
    memory_listener_unregister(&h->iommu_listener);
    QLIST_FOREACH_SAFE(i, &h->iommus, next, next) {
        ohca_iommu_drop(i);
    }
    g_tree_destroy(g_steal_pointer(&h->maps));
    g_free(g_steal_pointer(&h->iommu_refused));
}
