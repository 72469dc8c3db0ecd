/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory for the process ohca-fabric.
 *
 * The process maps the files of the machine's RAM, each as a block, and
 * receives a table of their bus addresses. A memory listener makes the table
 * and sends it when it changes. When that call returns, the HCA does not access
 * removed memory any more. QEMU announces a block before the table, or the
 * mapping of an IOMMU, that needs it. It removes blocks after a table without
 * them is in use. Behind an IOMMU the table is empty, so QEMU also removes a
 * block when the machine does not have its memory any more, and when another
 * block needs its id. The process refuses that while it has mappings of the
 * block.
 *
 * Memory without a shared file (firmware, frame buffers) is no target of DMA.
 * The process may refuse a file on a disk, for example of persistent memory.
 * While bus mastering is off, the table is empty and the blocks stay.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/units.h"
#include "ohca.h"
#include "trace.h"

/* A larger region that cannot be shared is taken for the machine's RAM. */
#define OHCA_SMALL_RAM      (16 * MiB)

#define OHCA_SHARE_IT       "-object memory-backend-memfd,id=ram,size=...," \
                            "share=on -machine memory-backend=ram, or a " \
                            "memory-backend-file of tmpfs or hugetlbfs"
#define OHCA_NOT_SHARED     "guest memory '%s' is not shared: " OHCA_SHARE_IT
#define OHCA_ON_DISK        "guest memory '%s' is not in tmpfs or hugetlbfs: " \
                            OHCA_SHARE_IT \
                            ", or ohca-fabric --disk-memory if it is in a " \
                            "file system of a block device (ext4, xfs)"
#define OHCA_LIMIT          "the machine has more memory than " \
                            "ohca-fabric --front-memory allows"

/**
 * ohca_hosted_is_shared: whether a region is memory that the process can map
 */
bool ohca_hosted_is_shared(const MemoryRegion *mr)
{
    return mr->ram_block && mr->ram_block->fd >= 0 &&
           (mr->ram_block->flags & (RAM_SHARED | RAM_READONLY_FD)) ==
           RAM_SHARED;
}

/* Whether a region is the machine's RAM, but the process cannot map it. */
static bool ohca_is_private(const MemoryRegion *mr, uint64_t len)
{
    return len > OHCA_SMALL_RAM && mr->ram && !mr->ram_device &&
           !ohca_hosted_is_shared(mr) &&
           !object_dynamic_cast(mr->owner, TYPE_PCI_DEVICE);
}

static bool ohca_find_private(Int128 start, Int128 len, const MemoryRegion *mr,
                              hwaddr offset, void *opaque)
{
    const MemoryRegion **found = opaque;

    if (ohca_is_private(mr, int128_get64(len))) {
        *found = mr;
    }
    return *found;
}

/**
 * ohca_hosted_mem_check: check that the process can map the machine's memory
 */
bool ohca_hosted_mem_check(OhcaState *s, Error **errp)
{
    const MemoryRegion *found = NULL;

    RCU_READ_LOCK_GUARD();
    flatview_for_each_range(address_space_to_flatview(&address_space_memory),
                            ohca_find_private, &found);
    if (found) {
        error_setg(errp, OHCA_NOT_SHARED, found->name);
    }
    return !found;
}

/* ---- blocks ---- */

static void ohca_block_clear(OhcaBlock *b)
{
    ohca_log_close(&b->log);
    memory_region_unref(b->mr);
    *b = (OhcaBlock) { };
}

/*
 * Returns: the id of the block of @mr, or of a free block if @mr is NULL;
 * OHCA_FRONT_BLOCKS: there is none
 */
static unsigned int ohca_block_find(OhcaState *s, const MemoryRegion *mr)
{
    unsigned int i;

    for (i = 0; i < OHCA_FRONT_BLOCKS && s->host.block[i].mr != mr; i++) {
        /* next */
    }
    return i;
}

/**
 * ohca_hosted_log: give the process a log for a block
 *
 * Returns: false: there is no log, and the connection has been ended
 */
bool ohca_hosted_log(OhcaState *s, OhcaLog *log, MemoryRegion *mr,
                     unsigned int id, uint64_t size)
{
    struct ohca_front_log m = { .id = cpu_to_le32(id) };
    int fd = ohca_log_open(log, mr, size), r;

    if (fd < 0) {
        ohca_hosted_give_up(s, "QEMU is out of memory");
        return false;
    }
    r = ohca_hosted_say(s, OHCA_FRONT_LOG, &m, sizeof(m), fd, NULL);
    close(fd);
    if (r) {
        ohca_log_close(log);
        ohca_hosted_give_up(s, r == OHCA_FRONT_LIMIT ? OHCA_LIMIT :
                            "ohca-fabric refused a log of the memory that it writes");
    }
    return !r;
}

/* Only files of tmpfs and hugetlbfs support seals. */
static bool ohca_is_on_disk(const MemoryRegion *mr)
{
    return fcntl(mr->ram_block->fd, F_GET_SEALS) < 0;
}

/* Announce @mr as block @i, which is free. Returns: as ohca_hosted_say() */
static int ohca_block_tell(OhcaState *s, unsigned int i, MemoryRegion *mr)
{
    uint64_t size = mr->ram_block->fd_offset +
                    ROUND_UP(memory_region_size(mr), OHCA_FRONT_ALIGN);
    struct ohca_front_block m = {
        .id = cpu_to_le32(i),
        .size = cpu_to_le64(size),
    };
    OhcaBlock *b = &s->host.block[i];
    int r = ohca_hosted_say(s, OHCA_FRONT_BLOCK, &m, sizeof(m),
                            mr->ram_block->fd, NULL);

    if (r) {
        return r;
    }
    memory_region_ref(mr);
    b->mr = mr;
    if (ohca_is_on_disk(mr) && !s->host.on_disk) {
        s->host.on_disk = true;
        /* on failure a migration is under way; the process will refuse LEAVE */
        ohca_hosted_stay(s, NULL);
    }
    return ohca_hosted_log(s, &b->log, mr, i, size) ? 0 : -1;
}

/*
 * Returns: why the process has refused a block of @mr with the status @r, which
 * the caller frees
 */
static char *ohca_block_refused(const MemoryRegion *mr, int r)
{
    switch (r) {
    case OHCA_FRONT_NO_MEMORY:
        return g_strdup("ohca-fabric is out of memory");
    case OHCA_FRONT_LIMIT:
        return g_strdup(OHCA_LIMIT);
    default:
        return g_strdup_printf(OHCA_ON_DISK, mr->name);
    }
}

/* Remove the block @i, unless the process has mappings of it. */
static void ohca_block_drop(OhcaState *s, unsigned int i)
{
    struct ohca_front_block m = { .id = cpu_to_le32(i) };

    ohca_hosted_iommu_settle(s);
    if (!ohca_hosted_say(s, OHCA_FRONT_UNBLOCK, &m,
                         offsetof(struct ohca_front_block, size), -1, NULL)) {
        ohca_block_clear(&s->host.block[i]);
    }
}

/* Remove blocks that neither the table nor a mapping of an IOMMU uses. */
static void ohca_blocks_drop(OhcaState *s)
{
    unsigned int i;

    for (i = 0; i < OHCA_FRONT_BLOCKS; i++) {
        if (s->host.block[i].mr && !s->host.block[i].used) {
            ohca_block_drop(s, i);
        }
    }
}

/* Remove blocks of memory that the machine does not have any more. */
static void ohca_blocks_drop_unplugged(OhcaState *s)
{
    unsigned int i;

    for (i = 0; i < OHCA_FRONT_BLOCKS; i++) {
        MemoryRegion *mr = s->host.block[i].mr;

        if (mr && !memory_region_is_mapped(mr)) {
            ohca_block_drop(s, i);
        }
    }
}

/**
 * ohca_hosted_block: id of the block of a region; announces a new block
 *
 * Returns: the id; -1: there is none, and the connection has been ended
 */
int ohca_hosted_block(OhcaState *s, MemoryRegion *mr)
{
    unsigned int i = ohca_block_find(s, mr);
    int r;

    if (i == OHCA_FRONT_BLOCKS) {
        g_autofree char *why = NULL;

        i = ohca_block_find(s, NULL);
        if (i == OHCA_FRONT_BLOCKS) {
            ohca_blocks_drop(s);
            i = ohca_block_find(s, NULL);
        }
        if (i == OHCA_FRONT_BLOCKS) {
            ohca_hosted_give_up(s, "the machine has too many memory backends");
            return -1;
        }
        r = ohca_block_tell(s, i, mr);
        if (r) {
            why = ohca_block_refused(mr, r);
            ohca_hosted_give_up(s, why);
            return -1;
        }
    }
    return i;
}

/* A device, and memory that its process has not accepted. */
typedef struct OhcaTaken {
    OhcaState *s;
    const MemoryRegion *refused;
    int r;                      /* why: as ohca_hosted_say() */
} OhcaTaken;

/*
 * Announce @mr if it is on a disk. Returns: whether the process has not
 * accepted it.
 */
static bool ohca_find_refused(Int128 start, Int128 len, const MemoryRegion *mr,
                              hwaddr offset, void *opaque)
{
    OhcaTaken *t = opaque;
    unsigned int i = ohca_block_find(t->s, NULL);

    if (i < OHCA_FRONT_BLOCKS && ohca_hosted_is_shared(mr) &&
        ohca_is_on_disk(mr) &&
        ohca_block_find(t->s, mr) == OHCA_FRONT_BLOCKS) {
        t->r = ohca_block_tell(t->s, i, (MemoryRegion *)mr);
        t->refused = t->r ? mr : NULL;
    }
    return t->refused;
}

/**
 * ohca_hosted_mem_take: announce memory on a disk, which the process may refuse
 *
 * This is done when the device is realized, so that realize can fail.
 */
bool ohca_hosted_mem_take(OhcaState *s, Error **errp)
{
    OhcaTaken t = { .s = s };

    RCU_READ_LOCK_GUARD();
    flatview_for_each_range(address_space_to_flatview(&address_space_memory),
                            ohca_find_refused, &t);
    if (t.refused) {
        g_autofree char *why = t.r < 0 ?
                               g_strdup(ohca_front_lost(ohca_front_of(s))) :
                               ohca_block_refused(t.refused, t.r);

        error_setg(errp, "%s", why);
    }
    return !t.refused;
}

/* ---- the table ---- */

/* Add a range of memory to a table, or to its last entry. */
static void ohca_table_add(GByteArray *table, const OhcaRam *ram, int block)
{
    uint64_t iova = ROUND_UP(ram->iova, OHCA_FRONT_ALIGN);
    uint64_t len = ROUND_DOWN(ram->iova + ram->len, OHCA_FRONT_ALIGN) - iova;
    uint64_t off = ram->hva - (uint8_t *)memory_region_get_ram_ptr(ram->mr) +
                   (iova - ram->iova) + ram->mr->ram_block->fd_offset;
    struct ohca_front_range r = {
        .iova = cpu_to_le64(iova),
        .len = cpu_to_le64(len),
        .off = cpu_to_le64(off),
        .block = cpu_to_le32(block),
        .flags = cpu_to_le32(ram->readonly ? OHCA_FRONT_READ_ONLY : 0),
    };
    struct ohca_front_range *last;

    if (ram->iova + ram->len < iova + OHCA_FRONT_ALIGN ||
        !QEMU_IS_ALIGNED(off, OHCA_FRONT_ALIGN)) {
        return;
    }
    if (table->len > sizeof(struct ohca_front_mem)) {
        last = (void *)(table->data + table->len - sizeof(r));
        if (last->block == r.block && last->flags == r.flags &&
            le64_to_cpu(last->iova) + le64_to_cpu(last->len) == iova &&
            le64_to_cpu(last->off) + le64_to_cpu(last->len) == off) {
            last->len = cpu_to_le64(le64_to_cpu(last->len) + len);
            return;
        }
    }
    g_byte_array_append(table, (void *)&r, sizeof(r));
}

/* Returns: the MEM message with the table; NULL: the connection is lost */
static GByteArray *ohca_table_make(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    GByteArray *table = g_byte_array_new();
    struct ohca_front_mem head = { };
    unsigned int i, n;

    g_byte_array_append(table, (void *)&head, sizeof(head));
    for (i = 0; i < OHCA_FRONT_BLOCKS; i++) {
        h->block[i].used = false;
    }
    for (i = 0; i < h->ram->len; i++) {
        OhcaRam *ram = &g_array_index(h->ram, OhcaRam, i);
        int block = ohca_hosted_is_shared(ram->mr) ? ohca_hosted_block(s, ram->mr) : 0;

        if (block < 0) {
            g_byte_array_unref(table);
            return NULL;
        }
        if (ohca_hosted_is_shared(ram->mr)) {
            h->block[block].used = true;
            ohca_table_add(table, ram, block);
        }
    }
    n = (table->len - sizeof(head)) / sizeof(struct ohca_front_range);
    ((struct ohca_front_mem *)table->data)->n = cpu_to_le32(n);
    return table;
}

static bool ohca_table_same(const GByteArray *a, const GByteArray *b)
{
    size_t head = offsetof(struct ohca_front_mem, n);

    return a && a->len == b->len &&
           !memcmp(a->data + head, b->data + head, a->len - head);
}

/* Send the table if it differs from the last one. */
static void ohca_table_send(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    GByteArray *table;
    unsigned int n;

    if (!h->there || !h->ram) {
        return;
    }
    if (h->refused) {
        ohca_hosted_give_up(s, h->refused);
        return;
    }
    table = ohca_table_make(s);
    if (!table) {
        return;
    }
    if (ohca_table_same(h->sent, table)) {
        g_byte_array_unref(table);
        return;
    }
    n = (table->len - sizeof(struct ohca_front_mem)) /
        sizeof(struct ohca_front_range);
    trace_ohca_mem(n);
    if (n > OHCA_FRONT_RANGES) {
        g_byte_array_unref(table);
        /* ohca_hosted_begin() clears @refused when the memory changes */
        h->refused = g_strdup_printf("guest memory has %u ranges, more than %u",
                                     n, OHCA_FRONT_RANGES);
        ohca_hosted_give_up(s, h->refused);
        return;
    }
    if (ohca_hosted_say(s, OHCA_FRONT_MEM, table->data, table->len, -1, NULL)) {
        g_byte_array_unref(table);
        ohca_hosted_give_up(s, "it refused the table of guest memory");
        return;
    }
    if (h->sent) {
        g_byte_array_unref(h->sent);
    }
    h->sent = table;
    if (table->len > sizeof(struct ohca_front_mem)) {
        ohca_blocks_drop(s);
    }
}

/**
 * ohca_hosted_mem_send: send changes of memory and of mappings
 */
void ohca_hosted_mem_send(OhcaState *s)
{
    ohca_table_send(s);
    ohca_hosted_iommu_send(s);
}

/**
 * ohca_hosted_mem_forget: free the state of a connection that is lost
 */
void ohca_hosted_mem_forget(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    unsigned int i;

    for (i = 0; i < OHCA_FRONT_BLOCKS; i++) {
        if (h->block[i].mr) {
            ohca_block_clear(&h->block[i]);
        }
    }
    ohca_log_close(&h->dm_log);
    if (h->sent) {
        g_byte_array_unref(g_steal_pointer(&h->sent));
    }
    h->maps_told = false;
    if (h->on_disk) {
        h->on_disk = false;
        ohca_hosted_stay(s, NULL);
    }
}

/* ---- the listener ---- */

static void ohca_ram_free(GArray *ram)
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

/*
 * Set @r to the memory of a section that the device may access.
 *
 * Returns: false: there is none; true: @r has a reference to its region
 */
static bool ohca_ram_section(const MemoryRegionSection *sec, OhcaRam *r)
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

static gint ohca_ram_cmp(gconstpointer a, gconstpointer b)
{
    const OhcaRam *x = a, *y = b;

    return x->iova < y->iova ? -1 : x->iova > y->iova;
}

static void ohca_hosted_begin(MemoryListener *listener)
{
    OhcaHosted *h = container_of(listener, OhcaHosted, listener);

    h->next = g_array_new(false, false, sizeof(OhcaRam));
    h->next_iommu = false;
    g_free(g_steal_pointer(&h->refused));
}

static void ohca_hosted_add(MemoryListener *listener, MemoryRegionSection *sec)
{
    OhcaHosted *h = container_of(listener, OhcaHosted, listener);
    OhcaRam r;

    if (memory_region_is_iommu(sec->mr)) {
        h->next_iommu = true;
    } else if (!h->refused &&
               ohca_is_private(sec->mr, int128_get64(sec->size))) {
        h->refused = g_strdup_printf(OHCA_NOT_SHARED, sec->mr->name);
    }
    if (ohca_ram_section(sec, &r)) {
        g_array_append_val(h->next, r);
    }
}

static void ohca_hosted_commit(MemoryListener *listener)
{
    OhcaHosted *h = container_of(listener, OhcaHosted, listener);
    OhcaState *s = container_of(h, OhcaState, host);
    GArray *old = h->ram;

    g_array_sort(h->next, ohca_ram_cmp);
    h->ram = g_steal_pointer(&h->next);
    h->iommu = h->next_iommu;
    if (h->iommu && !h->refused) {
        h->refused = g_strdup(ohca_hosted_iommu_refused(s));
    }
    ohca_hosted_mem_send(s);
    ohca_blocks_drop_unplugged(s);
    ohca_ram_free(old);
}

/* The dirty log is synchronized: mark pages that the process has written. */
static void ohca_hosted_log_sync(MemoryListener *listener, bool last_stage)
{
    OhcaHosted *h = container_of(listener, OhcaHosted, listener);

    ohca_hosted_dirty(container_of(h, OhcaState, host));
}

void ohca_hosted_mem_init(OhcaState *s)
{
    ohca_hosted_iommu_init(s);
    s->host.listener = (MemoryListener) {
        .name = "ohca",
        .priority = 10,
        .begin = ohca_hosted_begin,
        .region_add = ohca_hosted_add,
        .region_nop = ohca_hosted_add,
        .commit = ohca_hosted_commit,
        .log_sync_global = ohca_hosted_log_sync,
    };
    memory_listener_register(&s->host.listener,
                             pci_get_address_space(PCI_DEVICE(s)));
}

void ohca_hosted_mem_exit(OhcaState *s)
{
    if (s->host.listener.address_space) {
        memory_listener_unregister(&s->host.listener);
    }
    ohca_hosted_iommu_exit(s);
    ohca_ram_free(g_steal_pointer(&s->host.ram));
}
