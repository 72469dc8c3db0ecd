/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qtest of the OpenHCA device: the PCI side of it, and that the engine behind
 * is alive. What the engine does is tested without QEMU.
 */
#include "qemu/osdep.h"
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include "qemu/bswap.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "libqtest.h"
#include "libqos/libqos-pc.h"
#include "libqos/pci.h"
#include "qobject/qdict.h"
#include "hw/pci/pci_regs.h"
#include "hw/rdma/core/firmware-if/ohca_hw.h"

#define LOG_AQ      4
#define SLOTS       (1u << LOG_AQ)
#define GUID        0x0002c90300001000ull

/* ACPI's register of slots to be ejected */
#define ACPI_EJECT  0xae08

/* Registers of intel-iommu */
#define VTD_BASE    0xfed90000ull
#define VTD_GCMD    0x18
#define VTD_GSTS    0x1c
#define VTD_RTADDR  0x20
#define VTD_TE      (1u << 31)
#define VTD_SRTP    (1u << 30)

/* PortInfo.PortPhysicalState */
#define PHYS_POLLING    2
#define PHYS_LINK_UP    5

/* Nothing runs in the machine, so any firmware will do. */
#define BIOS_SIZE   65536
static char *bios;

typedef struct Card {
    QOSState *qs;
    QPCIDevice *dev;
    QPCIBar ctrl, uar;
    uint64_t aq, acq, mbox;
    uint32_t pi;
} Card;

/* The first one is it. */
static void found(QPCIDevice *dev, int devfn, void *data)
{
    QPCIDevice **first = data;

    if (*first) {
        g_free(dev);
    } else {
        *first = dev;
    }
}

static uint32_t reg(Card *c, unsigned int off)
{
    return qpci_io_readl(c->dev, c->ctrl, off);
}

/* Get at the registers of the card that @c->dev is. */
static void card_map(Card *c)
{
    g_assert(c->dev);
    qpci_device_enable(c->dev);
    c->ctrl = qpci_iomap(c->dev, OHCA_BAR_CTRL, NULL);
    c->aq = guest_alloc(&c->qs->alloc, 1 << 14);
    c->acq = guest_alloc(&c->qs->alloc, 1 << 14);
    c->mbox = guest_alloc(&c->qs->alloc, OHCA_MAILBOX_SIZE);
}

/* @before: arguments before the card's; @props: properties, and arguments after. */
static void card_boot(Card *c, const char *before, const char *props)
{
    memset(c, 0, sizeof(*c));
    c->qs = qtest_pc_boot("-nodefaults -bios %s%s -device ohca,guid=0x%" PRIx64
                          ",id=card%s", bios, before, (uint64_t)GUID, props);
    qpci_device_foreach(c->qs->pcibus, OHCA_PCI_VENDOR_ID,
                        OHCA_PCI_DEVICE_ID_PF, found, &c->dev);
    card_map(c);
    c->uar = qpci_iomap(c->dev, OHCA_BAR_UAR, NULL);
}

static void card_open(Card *c, const char *props)
{
    card_boot(c, "", props);
}

static void card_close(Card *c)
{
    g_free(c->dev);
    qtest_pc_shutdown(c->qs);
}

static void card_reset(Card *c)
{
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_CTRL, OHCA_CTRL_RESET);
    g_assert_cmphex(reg(c, OHCA_REG_STATUS), ==, OHCA_STATUS_READY);
}

/* The handshake, up to and including the write of ENABLE. */
static void card_start(Card *c)
{
    card_reset(c);
    qtest_memset(c->qs->qts, c->aq, 0, 1 << 14);
    qtest_memset(c->qs->qts, c->acq, 0, 1 << 14);
    c->pi = 0;
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_PAGE_SHIFT, 12);
    qpci_io_writeq(c->dev, c->ctrl, OHCA_REG_FEATURES_ACK,
                   qpci_io_readq(c->dev, c->ctrl, OHCA_REG_FEATURES));
    qpci_io_writeq(c->dev, c->ctrl, OHCA_REG_AQ_BASE, c->aq);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_ACQ_BASE, c->acq);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_ACQ_BASE + 4, c->acq >> 32);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_LOG_SIZE, LOG_AQ);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_CTRL, OHCA_CTRL_ENABLE);
}

static void card_post(Card *c, struct ohca_hw_aqe *cmd)
{
    uint32_t slot = c->pi % SLOTS;

    cmd->hdr.cookie = cpu_to_le32(0xc0de0000 + c->pi);
    qtest_memwrite(c->qs->qts, c->aq + slot * sizeof(*cmd), cmd, sizeof(*cmd));
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_DB, ++c->pi);
}

/* Whether the last command has completed. */
static bool card_done(Card *c, struct ohca_hw_acqe *r)
{
    uint32_t slot = (c->pi - 1) % SLOTS, pass = (c->pi - 1) / SLOTS;

    qtest_memread(c->qs->qts, c->acq + slot * sizeof(*r), r, sizeof(*r));
    return (r->phase & 1) == !(pass & 1);
}

static struct ohca_hw_acqe card_wait(Card *c)
{
    struct ohca_hw_acqe r;
    int i;

    for (i = 0; i < 30000 && !card_done(c, &r); i++) {
        g_usleep(1000);
    }
    g_assert_cmpint(i, <, 30000);
    g_assert_cmphex(le32_to_cpu(r.cookie), ==, 0xc0de0000 + c->pi - 1);
    return r;
}

/* Execute one command and return its completion. */
static struct ohca_hw_acqe card_cmd(Card *c, struct ohca_hw_aqe *cmd)
{
    struct ohca_hw_acqe r;

    card_post(c, cmd);
    r = card_wait(c);
    g_assert_cmpint(r.opcode, ==, cmd->hdr.opcode);
    return r;
}

static void expect_nop(Card *c)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_NOP };

    g_assert_cmpint(card_cmd(c, &cmd).status, ==, OHCA_ADMIN_OK);
}

static void test_identity(void)
{
    Card c;

    card_open(&c, "");
    g_assert_cmphex(reg(&c, OHCA_REG_MAGIC), ==, OHCA_MAGIC);
    g_assert_cmpint(OHCA_FIELD_GET(OHCA_VERSION_MAJOR,
                                   reg(&c, OHCA_REG_VERSION)), ==, OHCA_MAJOR);
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS), ==, OHCA_STATUS_READY);
    g_assert_cmpint(OHCA_FIELD_GET(OHCA_LIMITS_VECTORS,
                                   reg(&c, OHCA_REG_LIMITS)), ==, 32);
    g_assert_cmphex(qpci_config_readw(c.dev, PCI_CLASS_DEVICE), ==,
                    OHCA_PCI_CLASS);
    /* no register, and no access that fits one */
    g_assert_cmphex(reg(&c, OHCA_CTRL_BAR_SIZE - 4), ==, 0);
    qpci_io_writeb(c.dev, c.ctrl, OHCA_REG_CTRL, 0xff);
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS), ==, OHCA_STATUS_READY);
    card_close(&c);
}

static void test_admin(const void *props)
{
    struct ohca_hw_device_attr attr;
    struct ohca_hw_aqe cmd = { };
    struct ohca_hw_acqe r;
    uint64_t mbox;
    Card c;
    int i;

    card_open(&c, props);
    card_start(&c);
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS), ==,
                    OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
    /* more than twice around the rings */
    for (i = 0; i < 40; i++) {
        expect_nop(&c);
    }

    cmd.hdr.opcode = 0xff;
    r = card_cmd(&c, &cmd);
    g_assert_cmpint(r.status, ==, OHCA_ADMIN_BAD_OPCODE);

    mbox = guest_alloc(&c.qs->alloc, OHCA_MAILBOX_SIZE);
    cmd.hdr.opcode = OHCA_CMD_QUERY_DEVICE;
    cmd.mbox.addr = cpu_to_le64(mbox);
    r = card_cmd(&c, &cmd);
    g_assert_cmpint(r.status, ==, OHCA_ADMIN_OK);
    qtest_memread(c.qs->qts, mbox, &attr, sizeof(attr));
    g_assert_cmphex(be64_to_cpu(attr.node_guid), ==, GUID);
    g_assert_cmpint(attr.num_ports, ==, 1);

    /* memory that is none, and a device's registers, are refused */
    cmd.mbox.addr = cpu_to_le64(0xffull << 40);
    g_assert_cmpint(card_cmd(&c, &cmd).status, ==, OHCA_ADMIN_DMA);
    cmd.mbox.addr = cpu_to_le64(0xfee00000);
    g_assert_cmpint(card_cmd(&c, &cmd).status, ==, OHCA_ADMIN_DMA);
    expect_nop(&c);

    /* a reset forgets it all, and it all works again */
    card_reset(&c);
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
}

static void test_flr(void)
{
    uint16_t ctl;
    uint8_t cap;
    Card c;

    card_open(&c, "");
    card_start(&c);
    expect_nop(&c);
    cap = qpci_find_capability(c.dev, PCI_CAP_ID_EXP, 0);
    g_assert_cmpint(cap, !=, 0);
    g_assert_cmphex(qpci_config_readl(c.dev, cap + PCI_EXP_DEVCAP) &
                    PCI_EXP_DEVCAP_FLR, !=, 0);
    ctl = qpci_config_readw(c.dev, cap + PCI_EXP_DEVCTL);
    qpci_config_writew(c.dev, cap + PCI_EXP_DEVCTL,
                       ctl | PCI_EXP_DEVCTL_BCR_FLR);
    /* configuration space is as after power-on: find the BARs again */
    qpci_device_enable(c.dev);
    c.ctrl = qpci_iomap(c.dev, OHCA_BAR_CTRL, NULL);
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS), ==, OHCA_STATUS_READY);
    g_assert_cmphex(qpci_io_readq(c.dev, c.ctrl, OHCA_REG_AQ_BASE), ==, 0);
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
}

/* Without bus mastering no memory is in reach. */
static void test_no_master(void)
{
    uint16_t cmd;
    Card c;
    int i;

    card_open(&c, "");
    card_start(&c);
    expect_nop(&c);
    cmd = qpci_config_readw(c.dev, PCI_COMMAND);
    qpci_config_writew(c.dev, PCI_COMMAND, cmd & ~PCI_COMMAND_MASTER);
    qpci_io_writel(c.dev, c.ctrl, OHCA_REG_AQ_DB, ++c.pi);
    for (i = 0; i < 30000 && !(reg(&c, OHCA_REG_STATUS) & OHCA_STATUS_FATAL);
         i++) {
        g_usleep(1000);
    }
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS) & OHCA_STATUS_FATAL, !=, 0);
    g_assert_cmpint(reg(&c, OHCA_REG_FATAL_REASON), ==, OHCA_FATAL_AQ_DMA);

    qpci_config_writew(c.dev, PCI_COMMAND, cmd | PCI_COMMAND_MASTER);
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
}

/* An interrupt comes in a vCPU's time, so it may come after what it is of. */
static void test_irq(void)
{
    Card c;
    int n;

    card_open(&c, "");
    g_assert_cmpint(qpci_msix_table_size(c.dev), ==, 32);
    qpci_msix_enable(c.dev);
    g_assert(qpci_msix_masked(c.dev, 0));
    card_start(&c);
    expect_nop(&c);
    g_assert(!qpci_msix_pending(c.dev, 0));
    qpci_io_writel(c.dev, c.ctrl, OHCA_REG_AQ_INTR, 1);
    expect_nop(&c);
    for (n = 0; n < 30000 && !qpci_msix_pending(c.dev, 0); n++) {
        g_usleep(1000);
    }
    g_assert_cmpint(n, <, 30000);
    qpci_msix_disable(c.dev);
    card_close(&c);
}

/*
 * What the engine raises while no vCPU is in the device, which is what happens
 * when the machine goes on with work to do, gets to the guest, too. The message
 * is one that can be seen: a write to memory.
 */
static void expect_irq_later(Card *c)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_NOP };
    uint64_t to = guest_alloc(&c->qs->alloc, 4), entry;
    struct ohca_hw_acqe r;
    int i, n;

    qpci_msix_enable(c->dev);
    entry = c->dev->msix_table_off;
    qpci_io_writel(c->dev, c->dev->msix_table_bar,
                   entry + PCI_MSIX_ENTRY_LOWER_ADDR, to);
    qpci_io_writel(c->dev, c->dev->msix_table_bar,
                   entry + PCI_MSIX_ENTRY_UPPER_ADDR, to >> 32);
    qpci_io_writel(c->dev, c->dev->msix_table_bar,
                   entry + PCI_MSIX_ENTRY_DATA, 0x1234);
    qpci_io_writel(c->dev, c->dev->msix_table_bar,
                   entry + PCI_MSIX_ENTRY_VECTOR_CTRL, 0);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_INTR, 1);
    for (i = 0; i < 3; i++) {
        qtest_writel(c->qs->qts, to, 0);
        qtest_qmp_assert_success(c->qs->qts, "{'execute': 'stop'}");
        card_post(c, &cmd);
        g_assert(!card_done(c, &r));
        g_assert_cmphex(qtest_readl(c->qs->qts, to), ==, 0);
        qtest_qmp_assert_success(c->qs->qts, "{'execute': 'cont'}");
        card_wait(c);
        for (n = 0; n < 30000 && qtest_readl(c->qs->qts, to) != 0x1234; n++) {
            g_usleep(1000);
        }
        g_assert_cmpint(n, <, 30000);
    }
    qpci_msix_disable(c->dev);
}

static void test_irq_later(const void *props)
{
    Card c;

    card_open(&c, props);
    card_start(&c);
    expect_irq_later(&c);
    card_close(&c);
}

/*
 * What is asked of @c goes to @to, once while a vCPU is in the device and once
 * while none is.
 */
static void expect_query(Card *c, uint64_t to, unsigned int status)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_QUERY_DEVICE };
    bool later;

    cmd.mbox.addr = cpu_to_le64(to);
    for (later = false; ; later = true) {
        if (later) {
            qtest_qmp_assert_success(c->qs->qts, "{'execute': 'stop'}");
        }
        card_post(c, &cmd);
        if (later) {
            qtest_qmp_assert_success(c->qs->qts, "{'execute': 'cont'}");
        }
        g_assert_cmpint(card_wait(c).status, ==, status);
        if (later) {
            break;
        }
    }
}

/* Another device's memory is reached, its registers and flash are not. */
static void test_peer_to_peer(const void *props)
{
    g_autofree char *args = g_strdup_printf("%s -device ohca,addr=6,dm=64K",
                                            (const char *)props);
    struct ohca_hw_device_attr attr;
    Card c, peer;
    QPCIBar dm;

    card_open(&c, args);
    card_start(&c);
    peer = (Card) {
        .qs = c.qs,
        .dev = qpci_device_find(c.qs->pcibus, QPCI_DEVFN(6, 0)),
    };
    card_map(&peer);
    dm = qpci_iomap(peer.dev, OHCA_BAR_DM, NULL);
    expect_query(&c, dm.addr, OHCA_ADMIN_OK);
    qpci_memread(peer.dev, dm, 0, &attr, sizeof(attr));
    g_assert_cmphex(be64_to_cpu(attr.node_guid), ==, GUID);
    expect_query(&c, peer.ctrl.addr, OHCA_ADMIN_DMA);
    expect_query(&c, 0xfee00000, OHCA_ADMIN_DMA);
    /* the firmware can be read, but not written */
    expect_query(&c, 0xfffff000, OHCA_ADMIN_DMA);
    g_free(peer.dev);
    card_close(&c);
}

/* A root table, a context table and one translation: of 1 GiB to itself. */
static uint64_t vtd_tables(Card *c)
{
    uint64_t root = guest_alloc(&c->qs->alloc, 4096);
    uint64_t context = guest_alloc(&c->qs->alloc, 4096);
    uint64_t level3 = guest_alloc(&c->qs->alloc, 4096);
    unsigned int devfn = c->dev->devfn;

    qtest_memset(c->qs->qts, root, 0, 4096);
    qtest_memset(c->qs->qts, context, 0, 4096);
    qtest_memset(c->qs->qts, level3, 0, 4096);
    qtest_writeq(c->qs->qts, root, context | 1);
    qtest_writeq(c->qs->qts, context + 16 * devfn, level3 | 1);
    qtest_writeq(c->qs->qts, context + 16 * devfn + 8, 1 << 8 | 1);
    qtest_writeq(c->qs->qts, level3, 0x83);
    return root;
}

static void vtd_command(Card *c, uint32_t bit, uint32_t value)
{
    qtest_writel(c->qs->qts, VTD_BASE + VTD_GCMD, value);
    g_assert_cmphex(qtest_readl(c->qs->qts, VTD_BASE + VTD_GSTS) & bit, ==,
                    value & bit);
}

/*
 * Behind an IOMMU the engine only works under the BQL, and still nobody waits
 * for anybody for ever: commands, interrupts, the IOMMU on and off, the end.
 */
static void test_iommu(const void *props)
{
    g_autofree char *args = g_strdup_printf(",addr=4%s", (const char *)props);
    Card c;
    int i;

    card_boot(&c, " -machine q35 -device intel-iommu", args);
    qtest_writeq(c.qs->qts, VTD_BASE + VTD_RTADDR, vtd_tables(&c));
    vtd_command(&c, VTD_SRTP, VTD_SRTP);
    for (i = 0; i < 3; i++) {
        vtd_command(&c, VTD_TE, VTD_TE);
        card_start(&c);
        expect_nop(&c);
        expect_irq_later(&c);
        vtd_command(&c, VTD_TE, 0);
        expect_nop(&c);
        expect_irq_later(&c);
    }
    vtd_command(&c, VTD_TE, VTD_TE);
    expect_nop(&c);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'qom-set', 'arguments': {"
                             "'path': '/machine/peripheral/card', "
                             "'property': 'realized', 'value': false}}");
    card_close(&c);
}

/* Doorbells for nothing, of all sizes, harm nothing and are counted. */
static void test_doorbell(void)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_QUERY_COUNTERS };
    uint64_t cnt[OHCA_CNT_NUM], mbox;
    Card c;

    card_open(&c, "");
    card_start(&c);
    qpci_io_writeq(c.dev, c.uar, OHCA_UAR_SQ, 0x1234);
    qpci_io_writel(c.dev, c.uar, OHCA_UAR_SQ, 0x1234);
    qpci_io_writeb(c.dev, c.uar, OHCA_UAR_RQ, 0x12);
    qpci_io_writeq(c.dev, c.uar, OHCA_UAR_SQ + 4, 0x1234);
    g_assert_cmphex(qpci_io_readq(c.dev, c.uar, 0), ==, 0);
    mbox = guest_alloc(&c.qs->alloc, OHCA_MAILBOX_SIZE);
    cmd.mbox.addr = cpu_to_le64(mbox);
    g_assert_cmpint(card_cmd(&c, &cmd).status, ==, OHCA_ADMIN_OK);
    qtest_memread(c.qs->qts, mbox, cnt, sizeof(cnt));
    g_assert_cmpint(le64_to_cpu(cnt[OHCA_CNT_DB_BAD_HANDLE]), ==, 1);
    g_assert_cmpint(le64_to_cpu(cnt[OHCA_CNT_DB_BAD_SIZE]), ==, 3);
    card_close(&c);
}

static void expect_refusal(QTestState *qts, const char *args, const char *why)
{
    g_autofree char *cmd = g_strdup_printf("{'execute': 'device_add', "
        "'arguments': {'driver': 'ohca', 'id': 'bad'%s}}", args);
    QDict *rsp, *err;

    qtest_qmp_send_raw(qts, "%s", cmd);
    rsp = qtest_qmp_receive(qts);
    err = qdict_get_qdict(rsp, "error");
    g_assert(err);
    g_test_message("%s", qdict_get_str(err, "desc"));
    g_assert(strstr(qdict_get_str(err, "desc"), why));
    qobject_unref(rsp);
}

static void test_bad_properties(void)
{
    g_autofree char *file = NULL;
    g_autofree char *args = NULL;
    int fd = g_file_open_tmp("ohca-XXXXXX", &file, NULL);
    Card c;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    card_open(&c, "");
    expect_refusal(c.qs->qts, ", 'fabric': '/nonexistent/fabric'",
                   "'/nonexistent/fabric'");
    args = g_strdup_printf(", 'fabric': '%s'", file);
    expect_refusal(c.qs->qts, args, file);
    expect_refusal(c.qs->qts, ", 'ports': 3", "ports");
    expect_refusal(c.qs->qts, ", 'speed': 'fast'", "speed");
    expect_refusal(c.qs->qts, ", 'width': '2x'", "width");
    expect_refusal(c.qs->qts, ", 'vls': 3", "vls");
    expect_refusal(c.qs->qts, ", 'mtu': 1500", "mtu");
    expect_refusal(c.qs->qts, ", 'listen': true", "listen");
    expect_refusal(c.qs->qts, ", 'dm': 98304", "dm");
    expect_refusal(c.qs->qts, ", 'dm': 33554432", "dm");
    expect_refusal(c.qs->qts, ", 'x-memory': 65536", "x-memory");
    expect_refusal(c.qs->qts, ", 'mw-type2': '2c'", "mw-type2");
    expect_refusal(c.qs->qts, ", 'x-engine': 'warp'", "x-engine");
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
    unlink(file);
}

/* PortInfo of port 1, from the card's own SMA; @method: 1 Get, 2 Set. */
static void card_port_info(Card *c, uint8_t method, uint8_t pi[64])
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_MAD_IFC };
    /* LID routed */
    uint8_t mad[256] = { 1, 1, 1, method, [17] = 0x15, [23] = 1 };

    memcpy(mad + 64, pi, 64);
    qtest_memwrite(c->qs->qts, c->mbox, mad, sizeof(mad));
    cmd.mad_ifc.in_addr = cpu_to_le64(c->mbox);
    cmd.mad_ifc.out_addr = cpu_to_le64(c->mbox);
    cmd.mad_ifc.port = 1;
    cmd.mad_ifc.flags = OHCA_MAD_IFC_IGNORE_MKEY;
    g_assert_cmpint(card_cmd(c, &cmd).status, ==, OHCA_ADMIN_OK);
    qtest_memread(c->qs->qts, c->mbox, mad, sizeof(mad));
    g_assert_cmphex(mad[3], ==, 0x81);
    memcpy(pi, mad + 64, 64);
}

static unsigned int card_phys_state(Card *c)
{
    uint8_t pi[64] = { };

    card_port_info(c, 1, pi);
    return pi[33] >> 4;
}

static void expect_phys_state(Card *c, unsigned int state)
{
    int i;

    for (i = 0; i < 30000 && card_phys_state(c) != state; i++) {
        g_usleep(1000);
    }
    g_assert_cmpint(i, <, 30000);
}

/*
 * Two cards back to back, one of them plugged in and out while all runs. With
 * x-engine=inline the listener can answer only after device_add.
 */
static void test_plug(const void *mode)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    g_autofree char *props = g_strdup_printf(",fabric=%s,listen=on%s", path,
                                             (const char *)mode);
    Card c, second;
    int i;

    card_open(&c, props);
    card_start(&c);
    expect_nop(&c);
    for (i = 0; i < 3; i++) {
        qtest_qmp_device_add(c.qs->qts, "ohca", "second",
                             "{'fabric': %s, 'addr': '6', 'ports': 1}", path);
        second = (Card) {
            .qs = c.qs,
            .dev = qpci_device_find(c.qs->pcibus, QPCI_DEVFN(6, 0)),
        };
        card_map(&second);
        card_start(&second);
        expect_phys_state(&c, PHYS_LINK_UP);
        g_free(second.dev);
        qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);
        expect_phys_state(&c, PHYS_POLLING);
    }
    card_close(&c);
    g_assert(!g_file_test(path, G_FILE_TEST_EXISTS));
    rmdir(dir);
}

/*
 * A card takes the place of one that was just pulled, whose memory RCU still
 * has. Its BARs were mapped: the memory is part of an address space.
 */
static void test_replug(void)
{
    Card c, second;
    int i;

    card_open(&c, "");
    for (i = 0; i < 5; i++) {
        qtest_qmp_device_add(c.qs->qts, "ohca", "second", "{'addr': '6'}");
        second = (Card) {
            .qs = c.qs,
            .dev = qpci_device_find(c.qs->pcibus, QPCI_DEVFN(6, 0)),
        };
        card_map(&second);
        qpci_iomap(second.dev, OHCA_BAR_DM, NULL);
        g_free(second.dev);
        /* whose event tells when RCU gives it up is not waited for */
        qtest_qmp_device_del_send(c.qs->qts, "second");
        qtest_outl(c.qs->qts, ACPI_EJECT, 1 << 6);
    }
    card_close(&c);
}

/* LID 1 and Active, as a subnet manager does it. */
static void card_activate(Card *c)
{
    uint8_t pi[64] = { }, state;

    expect_phys_state(c, PHYS_LINK_UP);
    for (state = 3; state <= 4; state++) {
        card_port_info(c, 1, pi);
        pi[17] = 1;                         /* LID */
        pi[19] = 1;                         /* MasterSMLID */
        pi[32] = (pi[32] & 0xf0) | state;   /* PortState: Armed, Active */
        pi[33] = 0;                         /* no change */
        card_port_info(c, 2, pi);
        g_assert_cmpint(pi[32] & 0xf, ==, state);
    }
}

static struct ohca_hw_pl flat_list(uint64_t addr, uint32_t pages)
{
    return (struct ohca_hw_pl) {
        .root = cpu_to_le64(addr),
        .npages = cpu_to_le32(pages),
        .page_shift = 12,
    };
}

static uint32_t card_create(Card *c, unsigned int opcode,
                            struct ohca_hw_aqe *cmd)
{
    struct ohca_hw_acqe r;

    cmd->hdr.opcode = opcode;
    r = card_cmd(c, cmd);
    if (r.status) {
        g_test_message("opcode 0x%02x: status %u, syndrome %u", opcode,
                       r.status, le16_to_cpu(r.syndrome));
    }
    g_assert_cmpint(r.status, ==, OHCA_ADMIN_OK);
    return le32_to_cpu(r.handle.handle);
}

static uint64_t card_alloc(Card *c, size_t size)
{
    uint64_t addr = guest_alloc(&c->qs->alloc, size);

    qtest_memset(c->qs->qts, addr, 0, size);
    return addr;
}

/* An RC QP that is connected to itself, and a region that can be flushed. */
typedef struct Loop {
    uint64_t cq, qp;
    uint32_t pdn, cqn, qpn, key, posted;
} Loop;

#define LOOP_LOG    4
/* Far from all else: a host may know of 2 MiB at a time whether it is dirty. */
#define LOOP_MEM    (64 * MiB)
#define LOOP_LEN    (4 * MiB)
#define LOOP_DIRTY  (2 * MiB)

static void loop_modify(Card *c, Loop *l, uint8_t state, uint32_t mask)
{
    uint32_t access = OHCA_ACCESS_FLUSH_GLOBAL | OHCA_ACCESS_FLUSH_PERSISTENT;
    struct ohca_hw_qp_attr a = {
        .state = state, .port = 1, .access = cpu_to_le32(access),
        .path_mtu = 3, .dest_qpn = cpu_to_le32(l->qpn),
        .max_rd_atomic = 4, .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
        .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
        .av.dlid = cpu_to_le16(1),
    };
    struct ohca_hw_aqe cmd = {
        .modify_qp.handle = cpu_to_le32(l->qpn),
        .modify_qp.attr_mask = cpu_to_le32(OHCA_ATTR_STATE | mask),
        .modify_qp.addr = cpu_to_le64(c->mbox),
    };

    qtest_memwrite(c->qs->qts, c->mbox, &a, sizeof(a));
    card_create(c, OHCA_CMD_MODIFY_QP, &cmd);
}

static void loop_open(Card *c, Loop *l)
{
    struct ohca_hw_aqe cmd = { };
    uint32_t eqn;

    *l = (Loop) {
        .cq = card_alloc(c, 4096), .qp = card_alloc(c, 8192),
    };
    l->pdn = card_create(c, OHCA_CMD_ALLOC_PD, &cmd);
    cmd = (struct ohca_hw_aqe) {
        .create_eq.pl = flat_list(card_alloc(c, 4096), 1),
        .create_eq.log_size = 6,
    };
    eqn = card_create(c, OHCA_CMD_CREATE_EQ, &cmd);
    cmd = (struct ohca_hw_aqe) {
        .create_cq.pl = flat_list(l->cq, 1),
        .create_cq.eqn = cpu_to_le32(eqn),
        .create_cq.log_size = LOOP_LOG,
    };
    l->cqn = card_create(c, OHCA_CMD_CREATE_CQ, &cmd);
    cmd = (struct ohca_hw_aqe) {
        .create_qp.pl = flat_list(l->qp, 2),
        .create_qp.pdn = cpu_to_le32(l->pdn),
        .create_qp.send_cqn = cpu_to_le32(l->cqn),
        .create_qp.recv_cqn = cpu_to_le32(l->cqn),
        .create_qp.type = OHCA_QPT_RC,
        .create_qp.log_sq = LOOP_LOG,
        .create_qp.log_rq = 1,
        .create_qp.log_rq_stride = OHCA_MIN_LOG_RQ_STRIDE,
    };
    l->qpn = card_create(c, OHCA_CMD_CREATE_QP, &cmd);
    cmd = (struct ohca_hw_aqe) {
        .reg_mr.pl = flat_list(LOOP_MEM, LOOP_LEN / 4096),
        .reg_mr.iova = cpu_to_le64(LOOP_MEM),
        .reg_mr.length = cpu_to_le64(LOOP_LEN),
        .reg_mr.pdn = cpu_to_le32(l->pdn),
        .reg_mr.access = cpu_to_le16(OHCA_ACCESS_FLUSH_GLOBAL |
                                     OHCA_ACCESS_FLUSH_PERSISTENT),
        .reg_mr.type = OHCA_MR_USER,
    };
    l->key = card_create(c, OHCA_CMD_REG_MR, &cmd);
    loop_modify(c, l, OHCA_QPS_INIT, OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT |
                OHCA_ATTR_ACCESS);
    loop_modify(c, l, OHCA_QPS_RTR, OHCA_ATTR_AV | OHCA_ATTR_PATH_MTU |
                OHCA_ATTR_DEST_QPN | OHCA_ATTR_RQ_PSN |
                OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER);
    loop_modify(c, l, OHCA_QPS_RTS, OHCA_ATTR_SQ_PSN | OHCA_ATTR_TIMEOUT |
                OHCA_ATTR_RETRY_CNT | OHCA_ATTR_RNR_RETRY |
                OHCA_ATTR_MAX_RD_ATOMIC);
}

/* Post a FLUSH, which fills one block of the ring, and wait for it. */
static void loop_flush(Card *c, Loop *l, uint64_t addr, uint32_t len)
{
    struct {
        struct ohca_hw_wqe_ctrl ctrl;
        struct ohca_hw_wqe_raddr raddr;
        struct ohca_hw_wqe_flush flush;
        uint8_t pad[16];
    } wqe = {
        .ctrl.opcode = OHCA_OP_FLUSH,
        .ctrl.nseg = 3,
        .ctrl.flags = cpu_to_le16(OHCA_WQE_SIGNALED),
        .raddr.raddr = cpu_to_le64(addr),
        .raddr.rkey = cpu_to_le32(l->key),
        .flush.length = cpu_to_le32(len),
        .flush.placement = OHCA_FLUSH_PERSISTENT,
        .flush.level = OHCA_FLUSH_RANGE,
    };
    uint32_t slot = l->posted & ((1 << LOOP_LOG) - 1);
    struct ohca_hw_cqe cqe;
    int i;

    QEMU_BUILD_BUG_ON(sizeof(wqe) != OHCA_BB_SIZE);
    qtest_memwrite(c->qs->qts, l->qp + ohca_sq_offset(1, 1,
                   OHCA_MIN_LOG_RQ_STRIDE) + slot * sizeof(wqe),
                   &wqe, sizeof(wqe));
    qtest_writel(c->qs->qts, l->qp, l->posted + 1);     /* sq_pi */
    qpci_io_writeq(c->dev, c->uar, OHCA_UAR_SQ,
                   l->qpn | (uint64_t)(l->posted + 1) << 32);
    for (i = 0; i < 30000; i++) {
        qtest_memread(c->qs->qts, l->cq + OHCA_CQ_RING_OFFSET +
                      slot * sizeof(cqe), &cqe, sizeof(cqe));
        if (ohca_cqe_valid(cqe.owner, l->posted, LOOP_LOG)) {
            break;
        }
        g_usleep(1000);
        /* it is asked for again after an RNR NAK */
        qtest_clock_step(c->qs->qts, SCALE_MS);
    }
    g_assert_cmpint(i, <, 30000);
    g_assert_cmpint(cqe.status, ==, 0);
    l->posted++;
}

/* KiB of QEMU's mapping of @file that its disk does not have. */
static unsigned int dirty_kib(Card *c, const char *file)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/smaps",
                                            qtest_pid(c->qs->qts));
    g_autofree char *text = NULL;
    unsigned int kib = 0, n;
    bool inside = false;
    char **lines, **at;

    g_assert(g_file_get_contents(path, &text, NULL, NULL));
    lines = g_strsplit(text, "\n", -1);
    for (at = lines; *at; at++) {
        if (g_ascii_isxdigit(**at) && !g_ascii_isupper(**at)) {
            inside = g_str_has_suffix(*at, file);
        } else if (inside && (sscanf(*at, "Shared_Dirty: %u", &n) == 1 ||
                              sscanf(*at, "Private_Dirty: %u", &n) == 1)) {
            kib += n;
        }
    }
    g_strfreev(lines);
    return kib;
}

/*
 * What a FLUSH for persistence names is on the disk when it completes. Memory of
 * the guest is a file in the working directory; if that is itself in memory,
 * nothing is ever cleaned there, and only the completion can be seen.
 */
static void test_persist(const void *props)
{
    char file[] = "ohca-ram-XXXXXX";
    int fd = g_mkstemp(file);
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    g_autofree char *before = g_strdup_printf(
        " -m 128M -machine memory-backend=ram -object memory-backend-file,"
        "id=ram,size=128M,share=on,mem-path=%s", file);
    g_autofree char *args = g_strdup_printf(
        ",fabric=%s,listen=on%s -device ohca,addr=6,fabric=%s", path,
        (const char *)props, path);
    unsigned int was, is, i;
    struct statfs fs;
    bool on_disk;
    Card c, peer;
    Loop l;

    g_assert_cmpint(fd, >=, 0);
    g_assert(!fstatfs(fd, &fs));
    on_disk = fs.f_type != TMPFS_MAGIC;
    close(fd);
    card_boot(&c, before, args);
    peer = (Card) {
        .qs = c.qs,
        .dev = qpci_device_find(c.qs->pcibus, QPCI_DEVFN(6, 0)),
    };
    card_map(&peer);
    card_start(&peer);
    card_start(&c);
    card_activate(&c);
    loop_open(&c, &l);
    for (i = 1; i <= 3; i++) {
        qtest_memset(c.qs->qts, LOOP_MEM, i, LOOP_LEN);
        was = dirty_kib(&c, file);
        loop_flush(&c, &l, LOOP_MEM, LOOP_DIRTY);
        is = dirty_kib(&c, file);
        g_test_message("dirty: %u KiB, after FLUSH %u", was, is);
        g_assert_cmpint(was, >=, LOOP_LEN / KiB);
        if (on_disk) {
            g_assert_cmpint(is, <=, was - LOOP_DIRTY / KiB + 512);
        }
    }
    g_free(peer.dev);
    card_close(&c);
    unlink(file);
    rmdir(dir);
}

/* A socket that connects to @path, or listens there. */
static int peer_open(const char *path, bool listening)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = 60 };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    g_strlcpy(sa.sun_path, path, sizeof(sa.sun_path));
    g_assert_cmpint(fd, >=, 0);
    g_assert(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
                         sizeof(patience)));
    if (listening) {
        g_assert(!bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
        g_assert(!listen(fd, 0));   /* one may wait */
    } else {
        g_assert(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
    }
    return fd;
}

/* The next card that connects has said HELLO. */
static int peer_accept(int listener)
{
    char hello[512];
    int fd = accept(listener, NULL, NULL);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(recv(fd, hello, sizeof(hello), 0), >, 0);
    return fd;
}

/* The card refuses: an error message that says @why, then the end. */
static void peer_refused(int fd, const char *why)
{
    char buf[513];
    ssize_t i, n = recv(fd, buf, sizeof(buf) - 1, 0);

    g_assert_cmpint(n, >, 0);
    for (i = 0; i < n; i++) {
        buf[i] = buf[i] ?: ' ';
    }
    buf[n] = 0;
    g_test_message("%s", buf);
    g_assert(strstr(buf, why));
    g_assert_cmpint(recv(fd, buf, sizeof(buf), 0), ==, 0);
    close(fd);
}

/* Who connects and says nothing does not keep a listening port from others. */
static void test_silent_peer(const void *props)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    g_autofree char *args = g_strdup_printf(",fabric=%s,listen=on%s", path,
                                            (const char *)props);
    int silent, other;
    Card c;

    card_open(&c, args);
    card_start(&c);
    silent = peer_open(path, false);
    other = peer_open(path, false);
    g_assert_cmpint(send(other, "hello", 5, 0), ==, 5);
    peer_refused(silent, "no HELLO within 2 s");
    peer_refused(other, "does not speak");
    expect_nop(&c);
    card_close(&c);
    rmdir(dir);
}

/*
 * A card that is plugged in does not wait for its listener: QEMU goes on. It
 * tries again while the listener is busy, and when the answer is none.
 */
static void test_silent_listener(const void *mode)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    int listener = peer_open(path, true), fd;
    int busy = peer_open(path, false);
    Card c;

    card_open(&c, "");
    card_start(&c);
    /* the backlog is full */
    qtest_qmp_device_add(c.qs->qts, "ohca", "second", "{'fabric': %s, "
                         "'addr': '6', 'x-engine': %s}", path,
                         (const char *)mode);
    expect_nop(&c);
    close(accept(listener, NULL, NULL));
    close(busy);
    /* it has said HELLO and waits */
    fd = peer_accept(listener);
    expect_nop(&c);
    g_assert_cmpint(send(fd, "what?", 5, 0), ==, 5);
    close(fd);
    close(peer_accept(listener));
    qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);

    /* the same without anything in the way: no wait for the answer */
    qtest_qmp_device_add(c.qs->qts, "ohca", "second", "{'fabric': %s, "
                         "'addr': '6', 'x-engine': %s}", path,
                         (const char *)mode);
    expect_nop(&c);
    close(peer_accept(listener));
    qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);
    card_close(&c);
    close(listener);
    unlink(path);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    int fd = g_file_open_tmp("ohca-bios-XXXXXX", &bios, NULL);
    int ret;

    g_assert(fd >= 0 && !ftruncate(fd, BIOS_SIZE));
    close(fd);
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/ohca/identity", test_identity);
    qtest_add_data_func("/ohca/admin/thread", "", test_admin);
    qtest_add_data_func("/ohca/admin/inline", ",x-engine=inline", test_admin);
    qtest_add_func("/ohca/flr", test_flr);
    qtest_add_func("/ohca/no-master", test_no_master);
    qtest_add_func("/ohca/irq", test_irq);
    qtest_add_data_func("/ohca/irq-later/thread", "", test_irq_later);
    qtest_add_data_func("/ohca/irq-later/inline", ",x-engine=inline",
                        test_irq_later);
    qtest_add_data_func("/ohca/persist/thread", "", test_persist);
    qtest_add_data_func("/ohca/persist/inline", ",x-engine=inline",
                        test_persist);
    qtest_add_data_func("/ohca/peer-to-peer/thread", "", test_peer_to_peer);
    qtest_add_data_func("/ohca/peer-to-peer/inline", ",x-engine=inline",
                        test_peer_to_peer);
    qtest_add_data_func("/ohca/iommu/thread", "", test_iommu);
    qtest_add_data_func("/ohca/iommu/inline", ",x-engine=inline", test_iommu);
    qtest_add_func("/ohca/doorbell", test_doorbell);
    qtest_add_func("/ohca/bad-properties", test_bad_properties);
    qtest_add_data_func("/ohca/plug/thread", "", test_plug);
    qtest_add_data_func("/ohca/plug/inline", ",x-engine=inline", test_plug);
    qtest_add_func("/ohca/plug/again", test_replug);
    qtest_add_data_func("/ohca/silent-peer/thread", "", test_silent_peer);
    qtest_add_data_func("/ohca/silent-peer/inline", ",x-engine=inline",
                        test_silent_peer);
    qtest_add_data_func("/ohca/silent-listener/thread", "thread",
                        test_silent_listener);
    qtest_add_data_func("/ohca/silent-listener/inline", "inline",
                        test_silent_listener);
    ret = g_test_run();
    unlink(bios);
    g_free(bios);
    return ret;
}
