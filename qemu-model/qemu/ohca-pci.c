/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * OpenHCA, a native InfiniBand host channel adapter: the PCI device.
 *
 * The engine (core/engine) implements the registers and doorbells; the contract
 * with the driver is core/firmware-if.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/guest-random.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "migration/vmstate.h"
#include "system/system.h"
#include "ohca.h"
#include "core/firmware-if/ohca_hw.h"
#include "trace.h"

/* ---- registers and doorbells ---- */

/* What a register reads, after the properties that say something else. */
uint64_t ohca_read_as_told(OhcaState *s, hwaddr addr, uint64_t val)
{
    if (addr == OHCA_REG_VERSION && s->version) {
        val = s->version;
    }
    if (addr == OHCA_REG_TIMEOUTS && s->command_ms) {
        val &= ~(uint64_t)OHCA_TIMEOUTS_CMD;
        val |= OHCA_FIELD_PREP(OHCA_TIMEOUTS_CMD, s->command_ms & UINT16_MAX);
    }
    return val;
}

static uint64_t ohca_ctrl_read(void *opaque, hwaddr addr, unsigned int size)
{
    OhcaState *s = opaque;
    uint64_t val = ohca_mmio_read(s->engine, addr, size);

    val = ohca_read_as_told(s, addr, val);
    val = ohca_lie_in_register(s->engine, val, size);
    trace_ohca_ctrl_read(addr, size, val);
    return val;
}

/* Sets the stride of the UAR pages, which the driver chooses by PAGE_SHIFT. */
void ohca_set_stride(OhcaState *s, uint64_t shift)
{
    if (shift < OHCA_UAR_MIN_SHIFT || shift > OHCA_UAR_MAX_SHIFT) {
        shift = OHCA_UAR_MIN_SHIFT;
    }
    qatomic_set(&s->page_shift, shift);
}

static void ohca_update_stride(OhcaState *s)
{
    ohca_set_stride(s, ohca_mmio_read(s->engine, OHCA_REG_PAGE_SHIFT, 4));
}

static void ohca_ctrl_write(void *opaque, hwaddr addr, uint64_t val,
                            unsigned int size)
{
    OhcaState *s = opaque;

    trace_ohca_ctrl_write(addr, size, val);
    if (addr == OHCA_REG_AQ_DB && size == 4) {
        /* Commands may take long: the thread executes them, not under the BQL. */
        if (!qatomic_read(&s->deaf)) {
            ohca_admin_doorbell(s->engine, val);
            ohca_wake(s);
        }
        return;
    }
    ohca_lock(s);
    ohca_mmio_write(s->engine, addr, val, size);
    if (addr == OHCA_REG_CTRL && (val & OHCA_CTRL_RESET)) {
        ohca_irq_clear(s);
        qatomic_set(&s->deaf, false);
    }
    ohca_update_stride(s);
    ohca_kick(s);
    ohca_unlock_serve(s);
}

static const MemoryRegionOps ohca_ctrl_ops = {
    .read = ohca_ctrl_read,
    .write = ohca_ctrl_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 4,
    .valid.max_access_size = 8,
    .impl.min_access_size = 4,
    .impl.max_access_size = 8,
};

static uint64_t ohca_pages_read(void *opaque, hwaddr addr, unsigned int size)
{
    OhcaState *s = opaque;
    uint32_t shift = qatomic_read(&s->page_shift);

    return ohca_uar_read(s->engine, addr & ((1u << shift) - 1), size);
}

static void ohca_pages_write(void *opaque, hwaddr addr, uint64_t val,
                             unsigned int size)
{
    OhcaState *s = opaque;
    uint32_t shift = qatomic_read(&s->page_shift);

    ohca_doorbell(s->engine, addr >> shift, addr & ((1u << shift) - 1), val,
                  size);
    ohca_serve(s);
}

/* The engine gets accesses of every size and alignment, and counts bad ones. */
static const MemoryRegionOps ohca_uar_ops = {
    .read = ohca_pages_read,
    .write = ohca_pages_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 1,
    .valid.max_access_size = 8,
    .valid.unaligned = true,
    .impl.min_access_size = 1,
    .impl.max_access_size = 8,
    .impl.unaligned = true,
};

/* ---- what the engine tells ---- */

static void ohca_engine_trace(void *opaque, unsigned int ev,
                              const uint64_t a[4])
{
    switch (ev) {
    case OHCA_TR_CMD:
        trace_ohca_cmd(a[0], a[1], a[2], a[3]);
        break;
    case OHCA_TR_FATAL:
        trace_ohca_err_fatal(a[0]);
        break;
    case OHCA_TR_QP_STATE:
        trace_ohca_qp_state(a[0], a[1], a[2], a[3]);
        break;
    case OHCA_TR_PKT:
        trace_ohca_pkt(a[0], a[1], a[2], a[3]);
        break;
    case OHCA_TR_RX_DROP:
        trace_ohca_err_rx_drop(a[0], a[1], a[2], a[3]);
        break;
    case OHCA_TR_WQE_ERR:
        trace_ohca_err_wqe(a[0], a[1], a[2], a[3]);
        break;
    case OHCA_TR_TIMEOUT:
        trace_ohca_err_timeout(a[0], a[1], a[2]);
        break;
    case OHCA_TR_PORT_STATE:
        trace_ohca_port_state(a[0], a[1], a[2]);
        break;
    case OHCA_TR_MAD:
        trace_ohca_mad(a[0], a[1], a[2] >> 16, a[2] & 0xffff, a[3]);
        break;
    }
}

static const struct ohca_host_ops ohca_host_ops = {
    .dma_enter = ohca_mem_enter,
    .dma_exit = ohca_mem_leave,
    .dma_map = ohca_mem_map,
    .dma_dirty = ohca_mem_dirty,
    .dma_persist = ohca_persist_start,
    .dm_dirty = ohca_mem_dm_dirty,
    .irq = ohca_irq,
    .now_ns = ohca_now_ns,
    .kick = ohca_kick,
    .tx_begin = ohca_wire_tx_begin,
    .tx_commit = ohca_wire_tx_commit,
    .link_ctl = ohca_wire_link_ctl,
    .link_rate = ohca_wire_link_rate,
    .vl15_dropped = ohca_wire_vl15_dropped,
    .trace = ohca_engine_trace,
};

/* ---- properties ---- */

typedef struct OhcaSpeed {
    const char *name;
    uint8_t speed;          /* LinkSpeedSupported */
    uint8_t ext;            /* LinkSpeedExtSupported */
} OhcaSpeed;

static const OhcaSpeed ohca_speeds[] = {
    { "sdr", 1, 0 },
    { "ddr", 3, 0 },
    { "qdr", 7, 0 },
    { "fdr", 7, 1 },
    { "edr", 7, 3 },
    { "hdr", 7, 7 },
    { "ndr", 7, 15 },
    { "xdr", 7, 47 },
};

typedef struct OhcaWidth {
    const char *name;
    uint8_t width;          /* LinkWidthSupported */
} OhcaWidth;

static const OhcaWidth ohca_widths[] = {
    { "1x", 1 },
    { "2x", 17 },
    { "4x", 3 },
    { "8x", 7 },
    { "12x", 11 },
};

static bool ohca_parse_rate(OhcaState *s, struct ohca_cfg *cfg, Error **errp)
{
    const char *speed = s->speed ?: "edr";
    const char *width = s->width ?: "4x";
    unsigned int i;

    for (i = 0; i < ARRAY_SIZE(ohca_speeds); i++) {
        if (!g_ascii_strcasecmp(speed, ohca_speeds[i].name)) {
            cfg->speed_sup = ohca_speeds[i].speed;
            cfg->speed_ext_sup = ohca_speeds[i].ext;
        }
    }
    if (!cfg->speed_sup) {
        error_setg(errp, "speed must be one of sdr, ddr, qdr, fdr, edr, hdr, "
                   "ndr and xdr, not '%s'", speed);
        return false;
    }
    for (i = 0; i < ARRAY_SIZE(ohca_widths); i++) {
        if (!g_ascii_strcasecmp(width, ohca_widths[i].name)) {
            cfg->width_sup = ohca_widths[i].width;
        }
    }
    if (!cfg->width_sup) {
        error_setg(errp, "width must be one of 1x, 2x, 4x, 8x and 12x, "
                   "not '%s'", width);
        return false;
    }
    return true;
}

/*
 * A unique GUID: our OUI, local bit set, and 40 random bits. Its
 * first byte is not 2, although that would be the simplest local one: a
 * target's service ID is its GUID, and service IDs that begin with 2 are for
 * the operating system to give out (IBTA vol 1, annex A3).
 */
static uint64_t ohca_make_guid(void)
{
    uint64_t r = 0;

    qemu_guest_getrandom_nofail(&r, sizeof(r));
    return 0x0600ca0000000000ull | (r & 0xfffffffff0ull);
}

/* Checks the sizes and features of the device. */
static bool ohca_check_device(OhcaState *s, Error **errp)
{
    if (!s->ports || s->ports > OHCA_PORTS) {
        error_setg(errp, "ports must be 1 or 2, not %u", s->ports);
        return false;
    }
    if (s->vls != 1 && s->vls != 2 && s->vls != 4 && s->vls != 8 &&
        s->vls != 15) {
        error_setg(errp, "vls must be 1, 2, 4, 8 or 15, not %u", s->vls);
        return false;
    }
    if (s->mtu < 256 || s->mtu > 4096 || !is_power_of_2(s->mtu)) {
        error_setg(errp, "mtu must be 256, 512, 1024, 2048 or 4096, not %u",
                   s->mtu);
        return false;
    }
    if (!s->vectors || s->vectors > OHCA_IRQ_WORDS * 64) {
        error_setg(errp, "x-vectors must be 1 to %u, not %u",
                   OHCA_IRQ_WORDS * 64, s->vectors);
        return false;
    }
    if (s->uars < 2 || s->uars > OHCA_UARS || !is_power_of_2(s->uars)) {
        error_setg(errp, "x-uars must be a power of two from 2 to %u, not %u",
                   OHCA_UARS, s->uars);
        return false;
    }
    if (s->log_max_qp < 3 || s->log_max_qp > 16 ||
        !s->log_max_cq || s->log_max_cq > 16 ||
        !s->log_max_srq || s->log_max_srq > 16 ||
        s->log_max_mr < 2 || s->log_max_mr > 20) {
        error_setg(errp, "x-log-max-qp must be 3 to 16, x-log-max-cq and "
                   "x-log-max-srq 1 to 16, x-log-max-mr 2 to 20");
        return false;
    }
    if (s->dm_size && (s->dm_size < OHCA_DM_MIN || s->dm_size > OHCA_DM_MAX ||
                       !is_power_of_2(s->dm_size))) {
        error_setg(errp, "dm must be 0 or a power of two from 64K to 16M");
        return false;
    }
    if (s->mem_max < OHCA_MEM_MIN) {
        error_setg(errp, "x-memory must be at least 1M");
        return false;
    }
    if (s->mw_type2 && g_ascii_strcasecmp(s->mw_type2, "2a") &&
        g_ascii_strcasecmp(s->mw_type2, "2b")) {
        error_setg(errp, "mw-type2 must be 2a or 2b, not '%s'", s->mw_type2);
        return false;
    }
    if (s->poll_us > 1000000 || !s->inline_budget || !s->thread_budget) {
        error_setg(errp, "x-poll-us must be at most 1000000, x-inline-budget "
                   "and x-thread-budget at least 1");
        return false;
    }
    return true;
}

/* Checks where the engine is. */
static bool ohca_check_host(OhcaState *s, Error **errp)
{
    s->hosted = s->host_name && !strcmp(s->host_name, "daemon");
    if (s->host_name && !s->hosted && strcmp(s->host_name, "qemu")) {
        error_setg(errp, "host must be qemu or daemon, not '%s'", s->host_name);
        return false;
    }
    return !s->hosted || ohca_hosted_check(s, errp);
}

/* Checks the sockets of the ports. */
static bool ohca_check_fabric(OhcaState *s, Error **errp)
{
    if (s->fabric_port + s->ports > 255) {
        error_setg(errp, "fabric-port must be at most %u with ports=%u",
                   255 - s->ports, s->ports);
        return false;
    }
    if (s->fabric[1] && s->ports < 2) {
        error_setg(errp, "fabric2 needs ports=2");
        return false;
    }
    if (s->listen && (!s->fabric[0] || (s->ports > 1 && !s->fabric[1]))) {
        error_setg(errp, "listen=on needs a socket of its own for each port: "
                   "fabric, and fabric2 with ports=2");
        return false;
    }
    if (s->ports > 1 && !s->fabric[1]) {
        s->fabric[1] = g_strdup(s->fabric[0]);
    }
    return true;
}

/* Checks NodeDescription and NodeGUID, and sets a missing NodeGUID. */
static bool ohca_check_names(OhcaState *s, struct ohca_cfg *cfg, Error **errp)
{
    if (s->node_desc && strlen(s->node_desc) >= sizeof(cfg->node_desc)) {
        error_setg(errp, "node-desc has more than %zu bytes",
                   sizeof(cfg->node_desc) - 1);
        return false;
    }
    if (!s->guid) {
        s->guid = ohca_make_guid();
    }
    if (s->guid > UINT64_MAX - OHCA_PORTS) {
        error_setg(errp, "guid leaves no room for the GUIDs of the ports");
        return false;
    }
    return true;
}

/* Sets the configuration of each port's link, and its rate without a link. */
static void ohca_set_links(OhcaState *s, const struct ohca_cfg *cfg)
{
    unsigned int i;

    for (i = 0; i < s->ports; i++) {
        struct ohca_link_cfg *l = &s->port[i].cfg;

        ohca_link_cfg_init(l);
        l->node_guid = cfg->node_guid;
        l->port_guid = cfg->node_guid + 1 + i;
        l->port_num = i + 1;
        l->want_port = s->fabric_port ? s->fabric_port + i : 0;
        l->vl_cap = cfg->vl_cap;
        l->mtu_cap = cfg->mtu_cap;
        l->width_sup = cfg->width_sup;
        l->speed_sup = cfg->speed_sup;
        l->speed_ext_sup = cfg->speed_ext_sup;
        memcpy(l->desc, cfg->node_desc, sizeof(l->desc));
        s->port[i].rate = (struct ohca_link_rate) {
            .width = cfg->width_sup,
            .speed = cfg->speed_sup,
            .speed_ext = cfg->speed_ext_sup,
        };
    }
}

static bool ohca_parse(OhcaState *s, struct ohca_cfg *cfg, Error **errp)
{
    uint64_t seed = 0;

    qemu_guest_getrandom_nofail(&seed, sizeof(seed));
    if (!ohca_check_device(s, errp) || !ohca_check_host(s, errp) ||
        !ohca_check_fabric(s, errp) || !ohca_check_names(s, cfg, errp)) {
        return false;
    }

    *cfg = (struct ohca_cfg) {
        .node_guid = s->guid,
        .sys_guid = s->sys_guid,
        .num_ports = s->ports,
        .vl_cap = s->vls,
        .mtu_cap = ctz32(s->mtu) - 7,
        .num_vectors = s->vectors,
        .num_uars = s->uars,
        .log_max_qp = s->log_max_qp,
        .log_max_cq = s->log_max_cq,
        .log_max_srq = s->log_max_srq,
        .log_max_mr = s->log_max_mr,
        .dm_size = s->dm_size,
        .mem_max = s->mem_max,
        .hash_seed = seed,
        .lacks = s->lacks,
        .smp_off = !s->smp,
        .mw_type_2a = s->mw_type2 && !g_ascii_strcasecmp(s->mw_type2, "2a"),
    };
    g_strlcpy(cfg->node_desc, s->node_desc ?: "OpenHCA",
              sizeof(cfg->node_desc));
    if (!ohca_parse_rate(s, cfg, errp)) {
        return false;
    }
    ohca_set_links(s, cfg);
    return true;
}

/* ---- life ---- */

static void ohca_close_ports(OhcaState *s)
{
    unsigned int i;

    for (i = 0; i < OHCA_PORTS; i++) {
        ohca_wire_close(s, i);
    }
}

/* QEMU exits without unrealizing its devices. */
static void ohca_at_exit(Notifier *n, void *data)
{
    OhcaState *s = container_of(n, OhcaState, exit);
    unsigned int i;

    for (i = 0; i < s->ports; i++) {
        if (s->port[i].listen_fd >= 0) {
            unlink(s->fabric[i]);
        }
    }
}

/*
 * Under the BQL, so that no other thread sees a partly removed device. The
 * device memory outlives this until the RCU grace period ends; its name is
 * free at once, for a device in the same slot.
 */
static void ohca_teardown(OhcaState *s)
{
    if (s->dm_size) {
        vmstate_unregister_ram(&s->dm, DEVICE(s));
    }
    if (s->hosted) {
        ohca_hosted_unrealize(s);
        return;
    }
    ohca_thread_stop(s);
    ohca_lock(s);
    if (s->engine) {
        ohca_reset(s->engine);
    }
    ohca_irq_clear(s);
    ohca_close_ports(s);
    ohca_unlock(s);
    ohca_mem_exit(s);
    if (s->exit.notify) {
        qemu_remove_exit_notifier(&s->exit);
        s->exit.notify = NULL;
    }
}

/* Sets the engine's lies to the properties x-lies*. */
static void ohca_apply_lies(OhcaState *s)
{
    ohca_set_lies(s->engine, s->lies_seed, s->lies_kinds & OHCA_LIE_ALL,
                  MIN(s->lies, UINT32_MAX));
}

/* Makes the BARs but that of MSI-X. */
static bool ohca_init_bars(OhcaState *s, struct ohca_cfg *cfg, Error **errp)
{
    PCIDevice *pdev = PCI_DEVICE(s);

    memory_region_init_io(&s->ctrl, OBJECT(s),
                          s->hosted ? &ohca_hosted_ctrl_ops : &ohca_ctrl_ops,
                          s, "ohca-ctrl", OHCA_CTRL_BAR_SIZE);
    memory_region_init_io(&s->uar, OBJECT(s),
                          s->hosted ? &ohca_hosted_uar_ops : &ohca_uar_ops,
                          s, "ohca-uar",
                          (uint64_t)s->uars << OHCA_UAR_MAX_SHIFT);
    memory_region_enable_lockless_io(&s->uar);
    pci_register_bar(pdev, OHCA_BAR_CTRL, PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64, &s->ctrl);
    pci_register_bar(pdev, OHCA_BAR_UAR, PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64, &s->uar);

    if (s->dm_size) {
        /* small enough for 32 bits: the other BARs leave only one */
        if (s->hosted ? !ohca_hosted_init_dm(s, errp)
                      : !memory_region_init_ram(&s->dm, OBJECT(s), "ohca-dm",
                                                s->dm_size, errp)) {
            return false;
        }
        pci_register_bar(pdev, OHCA_BAR_DM, PCI_BASE_ADDRESS_SPACE_MEMORY |
                         PCI_BASE_ADDRESS_MEM_PREFETCH, &s->dm);
        cfg->dm = memory_region_get_ram_ptr(&s->dm);
    }
    return true;
}

/* Makes the engine in this process, with what it needs. */
static bool ohca_init_engine(OhcaState *s, const struct ohca_cfg *cfg,
                             Error **errp)
{
    unsigned int i;

    ohca_persist_init(s);
    if (!ohca_thread_init(s, errp)) {
        return false;
    }
    for (i = 0; i < s->ports; i++) {
        if (s->fabric[i] && !ohca_wire_open(s, i, errp)) {
            return false;
        }
    }
    if (s->engine) {
        ohca_free(s->engine);   /* of the realize before */
    }
    s->engines++;
    s->engine = ohca_new(cfg, &ohca_host_ops, s);
    if (!s->engine) {
        error_setg(errp, "out of memory");
        return false;
    }
    ohca_apply_lies(s);
    ohca_update_stride(s);
    ohca_mem_init(s);
    ohca_thread_start(s);
    s->exit.notify = ohca_at_exit;
    qemu_add_exit_notifier(&s->exit);
    return true;
}

static void ohca_realize(PCIDevice *pdev, Error **errp)
{
    OhcaState *s = OHCA(pdev);
    struct ohca_cfg cfg;
    unsigned int i;

    if (!ohca_parse(s, &cfg, errp) || !ohca_init_bars(s, &cfg, errp)) {
        return;
    }
    if (pcie_endpoint_cap_init(pdev, 0) < 0) {
        error_setg(errp, "no room for the PCI Express capability");
        return;
    }
    pcie_cap_flr_init(pdev);
    if (msix_init_exclusive_bar(pdev, s->vectors, OHCA_BAR_MSIX, errp)) {
        goto err_pcie;
    }
    s->num_vectors = s->vectors;
    for (i = 0; i < s->num_vectors; i++) {
        msix_vector_use(pdev, i);
    }

    if (s->hosted ? ohca_hosted_realize(s, &cfg, errp)
                  : ohca_init_engine(s, &cfg, errp)) {
        return;
    }
    ohca_teardown(s);
    msix_uninit_exclusive_bar(pdev);
err_pcie:
    pcie_cap_exit(pdev);
}

static void ohca_exit(PCIDevice *pdev)
{
    OhcaState *s = OHCA(pdev);

    ohca_teardown(s);
    msix_uninit_exclusive_bar(pdev);
    pcie_cap_exit(pdev);
}

static void ohca_config_write(PCIDevice *pdev, uint32_t addr, uint32_t val,
                              int len)
{
    pci_default_write_config(pdev, addr, val, len);
    pcie_cap_flr_write_config(pdev, addr, val, len);
}

/* When this returns all DMA has ended. */
static void ohca_reset_hold(Object *obj, ResetType type)
{
    OhcaState *s = OHCA(obj);

    trace_ohca_reset();
    if (s->hosted) {
        ohca_hosted_reset(s);
        return;
    }
    ohca_lock(s);
    ohca_reset(s->engine);
    ohca_update_stride(s);
    ohca_irq_clear(s);
    qatomic_set(&s->deaf, false);
    ohca_kick(s);
    ohca_unlock(s);
}

static void ohca_instance_init(Object *obj)
{
    OhcaState *s = OHCA(obj);
    unsigned int i;

    qemu_mutex_init(&s->lock);
    qemu_event_init(&s->turned, false);
    s->timer_fd = -1;
    s->host.dm_fd = -1;
    s->lies_kinds = OHCA_LIE_ALL;
    for (i = 0; i < OHCA_PORTS; i++) {
        s->port[i].listen_fd = -1;
        s->port[i].pending_fd = -1;
    }
}

static void ohca_instance_finalize(Object *obj)
{
    OhcaState *s = OHCA(obj);

    if (s->engine) {
        ohca_free(s->engine);
    }
    ohca_thread_exit(s);
    ohca_persist_exit(s);
    ohca_hosted_finalize(s);
    qemu_event_destroy(&s->turned);
    qemu_mutex_destroy(&s->lock);
}

static const VMStateDescription ohca_vmstate = {
    .name = TYPE_OHCA,
    .unmigratable = 1,
};

static const Property ohca_props[] = {
    DEFINE_PROP_STRING("host", OhcaState, host_name),
    DEFINE_PROP_STRING("fabric", OhcaState, fabric[0]),
    DEFINE_PROP_STRING("fabric2", OhcaState, fabric[1]),
    DEFINE_PROP_BOOL("listen", OhcaState, listen, false),
    DEFINE_PROP_BOOL("smp", OhcaState, smp, true),
    DEFINE_PROP_UINT8("fabric-port", OhcaState, fabric_port, 0),
    DEFINE_PROP_UINT64("guid", OhcaState, guid, 0),
    DEFINE_PROP_UINT64("sys-guid", OhcaState, sys_guid, 0),
    DEFINE_PROP_UINT8("ports", OhcaState, ports, 1),
    DEFINE_PROP_UINT8("vls", OhcaState, vls, 8),
    DEFINE_PROP_UINT16("mtu", OhcaState, mtu, 4096),
    DEFINE_PROP_STRING("speed", OhcaState, speed),
    DEFINE_PROP_STRING("width", OhcaState, width),
    DEFINE_PROP_STRING("node-desc", OhcaState, node_desc),
    DEFINE_PROP_SIZE("dm", OhcaState, dm_size, 1 * MiB),
    DEFINE_PROP_STRING("mw-type2", OhcaState, mw_type2),
    DEFINE_PROP_UINT16("x-vectors", OhcaState, vectors, 32),
    DEFINE_PROP_UINT16("x-uars", OhcaState, uars, OHCA_UARS),
    DEFINE_PROP_SIZE("x-memory", OhcaState, mem_max, OHCA_MEM_DEFAULT),
    DEFINE_PROP_UINT8("x-log-max-qp", OhcaState, log_max_qp, 16),
    DEFINE_PROP_UINT8("x-log-max-cq", OhcaState, log_max_cq, 16),
    DEFINE_PROP_UINT8("x-log-max-srq", OhcaState, log_max_srq, 16),
    DEFINE_PROP_UINT8("x-log-max-mr", OhcaState, log_max_mr, 20),
    DEFINE_PROP_UINT64("x-lacks", OhcaState, lacks, 0),
    DEFINE_PROP_UINT32("x-version", OhcaState, version, 0),
    DEFINE_PROP_STRING("x-engine", OhcaState, engine_mode),
    DEFINE_PROP_INT32("x-poll-us", OhcaState, poll_us, -1),
    DEFINE_PROP_UINT32("x-inline-budget", OhcaState, inline_budget, 64),
    DEFINE_PROP_UINT32("x-thread-budget", OhcaState, thread_budget, 64),
};

static bool ohca_get_deaf(Object *obj, Error **errp)
{
    return qatomic_read(&OHCA(obj)->deaf);
}

static void ohca_set_deaf(Object *obj, bool value, Error **errp)
{
    qatomic_set(&OHCA(obj)->deaf, value);
}

/* Properties that may be set while the VM runs; @offset: in OhcaState */
static void ohca_get_number(Object *obj, Visitor *v, const char *name,
                            void *offset, Error **errp)
{
    visit_type_uint64(v, name, (void *)obj + (uintptr_t)offset, errp);
}

static void ohca_set_number(Object *obj, Visitor *v, const char *name,
                            void *offset, Error **errp)
{
    visit_type_uint64(v, name, (void *)obj + (uintptr_t)offset, errp);
}

static void ohca_set_lies_prop(Object *obj, Visitor *v, const char *name,
                               void *offset, Error **errp)
{
    OhcaState *s = OHCA(obj);

    if (!visit_type_uint64(v, name, &s->lies, errp)) {
        return;
    }
    if (s->hosted) {
        ohca_hosted_lies(s);
    } else if (s->engine) {
        ohca_apply_lies(s);
    }
}

static void ohca_get_lies_told(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    OhcaState *s = OHCA(obj);
    uint64_t told = 0;

    if (s->hosted) {
        told = ohca_hosted_lies_told(s);
    } else if (s->engine) {
        told = ohca_lies_told(s->engine);
    }
    visit_type_uint64(v, name, &told, errp);
}

static void ohca_add_lies(ObjectClass *oc)
{
    object_class_property_add(oc, "x-lies", "uint64", ohca_get_number,
                              ohca_set_lies_prop, NULL,
                              (void *)offsetof(OhcaState, lies));
    object_class_property_set_description(oc, "x-lies", "of so many chances to "
                                          "lie to the driver one is used");
    object_class_property_add(oc, "x-lies-kinds", "uint64", ohca_get_number,
                              ohca_set_number, NULL,
                              (void *)offsetof(OhcaState, lies_kinds));
    object_class_property_add(oc, "x-lies-seed", "uint64", ohca_get_number,
                              ohca_set_number, NULL,
                              (void *)offsetof(OhcaState, lies_seed));
    object_class_property_add(oc, "x-lies-told", "uint64", ohca_get_lies_told,
                              NULL, NULL, NULL);
    object_class_property_add(oc, "x-command-ms", "uint64", ohca_get_number,
                              ohca_set_number, NULL,
                              (void *)offsetof(OhcaState, command_ms));
    object_class_property_set_description(oc, "x-command-ms", "command timeout "
                                          "that the device reports, in ms");
}

static void ohca_class_init(ObjectClass *oc, OhcaClassData *data)
{
    DeviceClass *dc = DEVICE_CLASS(oc);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(oc);
    ResettableClass *rc = RESETTABLE_CLASS(oc);

    pc->realize = ohca_realize;
    pc->exit = ohca_exit;
    pc->config_write = ohca_config_write;
    pc->vendor_id = OHCA_PCI_VENDOR_ID;
    pc->device_id = OHCA_PCI_DEVICE_ID_PF;
    pc->revision = OHCA_MAJOR;
    pc->class_id = OHCA_PCI_CLASS;
    rc->phases.hold = ohca_reset_hold;
    dc->desc = "OpenHCA InfiniBand host channel adapter, interface "
               stringify(OHCA_MAJOR) "." stringify(OHCA_MINOR)
               ", link protocol " stringify(OHCA_LINK_VERSION);
    dc->vmsd = &ohca_vmstate;
    device_class_set_props(dc, ohca_props);
    /* Unlike the others, for qom-set while the VM runs. */
    object_class_property_add_bool(oc, "x-deaf", ohca_get_deaf, ohca_set_deaf);
    object_class_property_set_description(oc, "x-deaf",
                                          "admin doorbells are lost, until a "
                                          "reset");
    ohca_add_lies(oc);
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
}

static const TypeInfo ohca_types[] = {
    {
        .name = TYPE_OHCA,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(OhcaState),
        .instance_init = ohca_instance_init,
        .instance_finalize = ohca_instance_finalize,
        .class_init = ohca_class_init,
        .interfaces = (OhcaInterfaceInfo[]) {
            { INTERFACE_PCIE_DEVICE },
            { }
        },
    },
};

DEFINE_TYPES(ohca_types)
