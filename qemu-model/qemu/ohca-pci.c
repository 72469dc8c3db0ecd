/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * OpenHCA, a native InfiniBand host channel adapter: the PCI device.
 *
 * core/firmware-if defines the interface to the driver.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/guest-random.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "system/system.h"
#include "ohca.h"
#include "core/firmware-if/ohca_hw.h"
#include "core/front/hello.h"
#include "trace.h"

/* ---- registers and doorbells ---- */

/* Value of a register after the properties x-version and x-command-ms. */
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

/* Set the stride of the UAR pages, which the driver selects by PAGE_SHIFT. */
void ohca_set_stride(OhcaState *s, uint64_t shift)
{
    if (shift < OHCA_UAR_MIN_SHIFT || shift > OHCA_UAR_MAX_SHIFT) {
        shift = OHCA_UAR_MIN_SHIFT;
    }
    qatomic_set(&s->page_shift, shift);
}

/* ---- properties ---- */

static bool ohca_parse_rate(OhcaState *s, struct ohca_front_hello *m, Error **errp)
{
    const char *speed = s->speed ?: "edr";
    const char *width = s->width ?: "4x";

    if (!ohca_hello_speed(m, speed)) {
        error_setg(errp, "speed must be one of " OHCA_HELLO_SPEEDS ", not '%s'",
                   speed);
        return false;
    }
    if (!ohca_hello_width(m, width)) {
        error_setg(errp, "width must be one of " OHCA_HELLO_WIDTHS ", not '%s'",
                   width);
        return false;
    }
    return true;
}

static uint64_t ohca_make_guid(void)
{
    uint64_t r = 0;

    qemu_guest_getrandom_nofail(&r, sizeof(r));
    return ohca_hello_guid(r);
}

/* Check the sizes and features of the device. */
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
    if (!s->vendor_id || s->vendor_id == 0xffff) {
        error_setg(errp, "x-vendor-id must be 0x1 to 0xfffe, not 0x%x",
                   s->vendor_id);
        return false;
    }
    if (!s->vectors || s->vectors > OHCA_PAGE_VECTORS) {
        error_setg(errp, "x-vectors must be 1 to %u, not %u",
                   OHCA_PAGE_VECTORS, s->vectors);
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
    if (s->mem_max < OHCA_MEM_MIN || s->mem_max > OHCA_MEM_MAX) {
        error_setg(errp, "x-memory must be 1M to 1G");
        return false;
    }
    if (s->mw_type2 && g_ascii_strcasecmp(s->mw_type2, "2a") &&
        g_ascii_strcasecmp(s->mw_type2, "2b")) {
        error_setg(errp, "mw-type2 must be 2a or 2b, not '%s'", s->mw_type2);
        return false;
    }
    return true;
}

/* Check fabric= and fabric-port=. */
static bool ohca_check_fabric(OhcaState *s, Error **errp)
{
    if (!s->fabric) {
        error_setg(errp, "fabric= is missing: give the socket of ohca-fabric");
        return false;
    }
    if (s->fabric_port + s->ports > 255) {
        error_setg(errp, "fabric-port must be at most %u with ports=%u",
                   255 - s->ports, s->ports);
        return false;
    }
    return true;
}

/* Check NodeDescription and NodeGUID, and set a missing NodeGUID. */
static bool ohca_check_names(OhcaState *s, Error **errp)
{
    const size_t most = sizeof(s->host.hello.desc) - 1;

    if (s->node_desc && strlen(s->node_desc) > most) {
        error_setg(errp, "node-desc has more than %zu bytes", most);
        return false;
    }
    if (!s->guid) {
        s->guid_is_made = true;
        s->guid = ohca_make_guid();
    }
    if (s->guid > UINT64_MAX - OHCA_PORTS) {
        error_setg(errp, "guid is too large: the ports need the GUIDs after it");
        return false;
    }
    return true;
}

/* Check the properties, and describe the HCA in the HELLO message. */
static bool ohca_parse(OhcaState *s, Error **errp)
{
    struct ohca_front_hello *m = &s->host.hello;
    bool is_2a = s->mw_type2 && !g_ascii_strcasecmp(s->mw_type2, "2a");

    if (!ohca_check_device(s, errp) || !ohca_check_fabric(s, errp) ||
        !ohca_check_names(s, errp) || !ohca_hosted_check(s, errp)) {
        return false;
    }
    *m = (struct ohca_front_hello) {
        .node_guid = cpu_to_le64(s->guid),
        .sys_guid = cpu_to_le64(s->sys_guid),
        .dm_size = cpu_to_le64(s->dm_size),
        .mem_max = cpu_to_le64(s->mem_max),
        .lacks = cpu_to_le64(s->lacks),
        .flags = cpu_to_le32((s->smp ? 0 : OHCA_FRONT_SMP_OFF) |
                             (is_2a ? OHCA_FRONT_MW_2A : 0)),
        .vectors = cpu_to_le16(s->vectors),
        .uars = cpu_to_le16(s->uars),
        .ports = s->ports,
        .vl_cap = s->vls,
        .mtu_cap = ctz32(s->mtu) - 7,
        .want_port = s->fabric_port,
        .log_max_qp = s->log_max_qp,
        .log_max_cq = s->log_max_cq,
        .log_max_srq = s->log_max_srq,
        .log_max_mr = s->log_max_mr,
    };
    g_strlcpy((char *)m->desc, s->node_desc ?: "OpenHCA", sizeof(m->desc));
    g_strlcpy((char *)m->id, ohca_name(s), sizeof(m->id));
    return ohca_parse_rate(s, m, errp);
}

/* ---- realize and exit ---- */

/*
 * Under the BQL, so that no other thread uses a partly removed device. The
 * device memory is freed after an RCU grace period; its name is unregistered
 * at once, so that a device in the same slot can use it.
 */
static void ohca_teardown(OhcaState *s)
{
    if (s->dm_size) {
        vmstate_unregister_ram(&s->dm, DEVICE(s));
    }
    ohca_hosted_unrealize(s);
    /* a vCPU may still deliver interrupts, but MSI-X is removed next */
    s->num_vectors = 0;
}

/* Register all BARs except that of MSI-X. */
static bool ohca_init_bars(OhcaState *s, Error **errp)
{
    PCIDevice *pdev = PCI_DEVICE(s);

    memory_region_init_io(&s->ctrl, OBJECT(s), &ohca_hosted_ctrl_ops, s,
                          "ohca-ctrl", OHCA_CTRL_BAR_SIZE);
    memory_region_init_io(&s->uar, OBJECT(s), &ohca_hosted_uar_ops, s,
                          "ohca-uar",
                          (uint64_t)s->uars << OHCA_UAR_MAX_SHIFT);
    memory_region_enable_lockless_io(&s->uar);
    pci_register_bar(pdev, OHCA_BAR_CTRL, PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64, &s->ctrl);
    pci_register_bar(pdev, OHCA_BAR_UAR, PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64, &s->uar);

    if (s->dm_size) {
        /* a 32-bit BAR: the other BARs leave only one slot, and dm= is small */
        if (!ohca_hosted_init_dm(s, errp)) {
            return false;
        }
        pci_register_bar(pdev, OHCA_BAR_DM, PCI_BASE_ADDRESS_SPACE_MEMORY |
                         PCI_BASE_ADDRESS_MEM_PREFETCH, &s->dm);
    }
    return true;
}

static void ohca_realize(PCIDevice *pdev, Error **errp)
{
    OhcaState *s = OHCA(pdev);
    unsigned int i;

    if (!ohca_parse(s, errp) || !ohca_init_bars(s, errp)) {
        return;
    }
    pci_config_set_vendor_id(pdev->config, s->vendor_id);
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

    if (ohca_hosted_realize(s, errp)) {
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

/* The device does no DMA after this. */
static void ohca_reset_hold(Object *obj, ResetType type)
{
    OhcaState *s = OHCA(obj);

    trace_ohca_reset();
    ohca_hosted_reset(s);
}

static void ohca_instance_init(Object *obj)
{
    OhcaState *s = OHCA(obj);

    s->host.dm_fd = -1;
    s->lies_kinds = OHCA_FRONT_LIES_ALL;
}

static void ohca_instance_finalize(Object *obj)
{
    ohca_hosted_finalize(OHCA(obj));
}

static const Property ohca_props[] = {
    DEFINE_PROP_STRING("fabric", OhcaState, fabric),
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
    DEFINE_PROP_UINT16("x-vendor-id", OhcaState, vendor_id, OHCA_PCI_VENDOR_ID),
    DEFINE_PROP_UINT16("x-vectors", OhcaState, vectors, 32),
    DEFINE_PROP_UINT16("x-uars", OhcaState, uars, OHCA_UARS),
    DEFINE_PROP_SIZE("x-memory", OhcaState, mem_max, OHCA_MEM_MAX),
    DEFINE_PROP_UINT8("x-log-max-qp", OhcaState, log_max_qp, 16),
    DEFINE_PROP_UINT8("x-log-max-cq", OhcaState, log_max_cq, 16),
    DEFINE_PROP_UINT8("x-log-max-srq", OhcaState, log_max_srq, 16),
    DEFINE_PROP_UINT8("x-log-max-mr", OhcaState, log_max_mr, 20),
    DEFINE_PROP_UINT64("x-lacks", OhcaState, lacks, 0),
    DEFINE_PROP_UINT32("x-version", OhcaState, version, 0),
};

static bool ohca_get_deaf(Object *obj, Error **errp)
{
    return qatomic_read(&OHCA(obj)->deaf);
}

static void ohca_set_deaf(Object *obj, bool value, Error **errp)
{
    OhcaState *s = OHCA(obj);
    bool was = qatomic_xchg(&s->deaf, value);

    if (!ohca_hosted_stay(s, errp)) {
        qatomic_set(&s->deaf, was);
    }
}

/* Properties that may be set while the VM runs; @offset: offset in OhcaState */
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
    uint64_t was = s->lies;

    if (!visit_type_uint64(v, name, &s->lies, errp)) {
        return;
    }
    if (!ohca_hosted_stay(s, errp)) {
        s->lies = was;
        return;
    }
    ohca_hosted_lies(s);
}

static void ohca_get_lies_told(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    uint64_t told = ohca_hosted_lies_told(OHCA(obj));

    visit_type_uint64(v, name, &told, errp);
}

static void ohca_add_lies(ObjectClass *oc)
{
    object_class_property_add(oc, "x-lies", "uint64", ohca_get_number,
                              ohca_set_lies_prop, NULL,
                              (void *)offsetof(OhcaState, lies));
    object_class_property_set_description(oc, "x-lies", "a false answer to "
                                          "the driver at one of N "
                                          "opportunities; 0: never");
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
    pc->subsystem_vendor_id = OHCA_PCI_VENDOR_ID;
    pc->subsystem_id = OHCA_PCI_DEVICE_ID_PF;
    pc->revision = OHCA_MAJOR;
    pc->class_id = OHCA_PCI_CLASS;
    rc->phases.hold = ohca_reset_hold;
    dc->desc = "OpenHCA InfiniBand host channel adapter, interface "
               stringify(OHCA_MAJOR) "." stringify(OHCA_MINOR)
               ", front protocol " stringify(OHCA_FRONT_VERSION);
    dc->vmsd = &ohca_vmstate;
    device_class_set_props(dc, ohca_props);
    /* Not in ohca_props, so that qom-set works while the VM runs. */
    object_class_property_add_bool(oc, "x-deaf", ohca_get_deaf, ohca_set_deaf);
    object_class_property_set_description(oc, "x-deaf",
                                          "the device ignores admin "
                                          "doorbells until a reset");
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
