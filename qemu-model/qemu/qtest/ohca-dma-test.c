/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qtest of DMA and interrupts of the card, with and without an IOMMU. */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "libqtest.h"
#include "hw/pci/pci_regs.h"
#include "ohca-card.h"

/* A vCPU delivers the interrupt, so it may arrive after the completion. */
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
 * An interrupt is also delivered if the engine raises it while no vCPU accesses
 * the device: here after "cont", for a command that was posted while the
 * machine was paused. The MSI-X message is a write to memory, which the test
 * can read.
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
    /* no interrupts of later commands, which could be late for the next call */
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_INTR, 0);
    qpci_msix_disable(c->dev);
}

static void test_irq_later(void)
{
    Card c;

    card_open(&c, "");
    card_start(&c);
    expect_irq_later(&c);
    card_close(&c);
}

/*
 * Execute QUERY_DEVICE with the mailbox @to, once with the doorbell of a
 * running machine, once with a doorbell that the engine reads after "cont".
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

/* The card can access memory, but not registers or firmware. */
static void test_no_memory(void)
{
    Card c;

    card_open(&c, "");
    card_start(&c);
    expect_query(&c, c.mbox, OHCA_ADMIN_OK);
    expect_query(&c, c.uar.addr, OHCA_ADMIN_DMA);
    expect_query(&c, 0xfee00000, OHCA_ADMIN_DMA);
    expect_query(&c, 0xfffff000, OHCA_ADMIN_DMA);
    expect_nop(&c);
    card_close(&c);
}

/* Behind an IOMMU: commands and interrupts, translation on and off, unrealize. */
static void test_iommu(void)
{
    Card c;
    int i;

    card_boot(&c, VTD_MACHINE, VTD_CARD);
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

/*
 * The card can use an address while the guest maps it, and not before or after
 * that. A restarted process has all mappings.
 */
static void test_mappings(void)
{
    uint64_t root, level3, level2, level1, page[2];
    const uint64_t iova = 1ull << 30;
    struct ohca_hw_device_attr attr;
    Card c;
    int i;

    card_boot(&c, VTD_MACHINE, VTD_CARD);
    root = vtd_tables(&c);
    level3 = qtest_readq(c.qs->qts, qtest_readq(c.qs->qts, root) - 1 +
                         16 * c.dev->devfn) - 1;
    level2 = vtd_page(&c);
    level1 = vtd_page(&c);
    qtest_writeq(c.qs->qts, level3 + 8, level2 | 3);
    qtest_writeq(c.qs->qts, level2, level1 | 3);
    qtest_writeq(c.qs->qts, VTD_BASE + VTD_RTADDR, root);
    vtd_command(&c, VTD_SRTP, VTD_SRTP);
    vtd_command(&c, VTD_TE, VTD_TE);
    card_start(&c);
    expect_query(&c, iova, OHCA_ADMIN_DMA);
    for (i = 0; i < 6; i++) {
        page[i % 2] = vtd_page(&c);
        qtest_writeq(c.qs->qts, level1, page[i % 2] | 3);
        vtd_invalidate(&c);
        if (i == 4) {
            fabric_kill(&c.fabric);
            expect_status(&c, OHCA_STATUS_AWAY);
            fabric_start(&c.fabric);
            expect_status(&c, OHCA_STATUS_READY);
            card_start(&c);
        }
        expect_query(&c, iova, OHCA_ADMIN_OK);
        qtest_memread(c.qs->qts, page[i % 2], &attr, sizeof(attr));
        g_assert_cmphex(be64_to_cpu(attr.node_guid), ==, GUID);
        qtest_writeq(c.qs->qts, level1, i % 2 ? 0 : page[0] | 1);
        vtd_invalidate(&c);
        expect_query(&c, iova, OHCA_ADMIN_DMA);
    }
    card_close(&c);
}

/*
 * If an IOMMU invalidates all addresses, but there are no mappings, QEMU does
 * not call the process, which is stopped here.
 */
static void test_no_mappings(void)
{
    uint64_t root, level3;
    Card c;

    card_boot(&c, VTD_MACHINE, VTD_CARD);
    root = vtd_tables(&c);
    level3 = qtest_readq(c.qs->qts, qtest_readq(c.qs->qts, root) - 1 +
                         16 * c.dev->devfn) - 1;
    qtest_writeq(c.qs->qts, level3, 0);
    qtest_writeq(c.qs->qts, VTD_BASE + VTD_RTADDR, root);
    vtd_command(&c, VTD_SRTP, VTD_SRTP);
    vtd_command(&c, VTD_TE, VTD_TE);
    card_start(&c);
    kill(c.fabric.pid, SIGSTOP);
    qtest_writeq(c.qs->qts, VTD_BASE + VTD_CCMD, VTD_ICC | VTD_ALL);
    kill(c.fabric.pid, SIGCONT);
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS), !=, OHCA_STATUS_AWAY);
    qtest_writeq(c.qs->qts, level3, 0x83);
    vtd_invalidate(&c);
    expect_nop(&c);
    card_close(&c);
}

#define DIMMS       70          /* more than a process accepts blocks */
#define DIMM_SIZE   (2 << 20)
#define DIMM_BASE   (4ull << 30)
#define DIMM_IOVA   (1ull << 30)

/* Registers of ACPI that select and eject DIMMs */
#define ACPI_DIMM   0xa00
#define ACPI_FLAGS  0xa14
#define ACPI_REMOVE 8

/*
 * Start a machine with slots for DIMMs and a card behind an IOMMU.
 *
 * Returns: address of the entry of the IOMMU for DIMM_IOVA
 */
static uint64_t dimms_open(Card *c)
{
    uint64_t root, level3, level2, level1;

    card_boot(c, VTD_MACHINE " -m 128M,slots=128,maxmem=512M", VTD_CARD);
    root = vtd_tables(c);
    level3 = qtest_readq(c->qs->qts, qtest_readq(c->qs->qts, root) - 1 +
                         16 * c->dev->devfn) - 1;
    level2 = vtd_page(c);
    level1 = vtd_page(c);
    qtest_writeq(c->qs->qts, level3 + 8, level2 | 3);
    qtest_writeq(c->qs->qts, level2, level1 | 3);
    qtest_writeq(c->qs->qts, VTD_BASE + VTD_RTADDR, root);
    vtd_command(c, VTD_SRTP, VTD_SRTP);
    vtd_command(c, VTD_TE, VTD_TE);
    card_start(c);
    expect_nop(c);
    return level1;
}

static void dimm_plug(Card *c, int i)
{
    g_autofree char *mem = g_strdup_printf("mem%d", i);
    g_autofree char *id = g_strdup_printf("dimm%d", i);

    qtest_qmp_assert_success(c->qs->qts, "{'execute': 'object-add', "
                             "'arguments': {'qom-type': 'memory-backend-memfd', "
                             "'id': %s, 'size': %d, 'share': true}}", mem,
                             DIMM_SIZE);
    qtest_qmp_assert_success(c->qs->qts, "{'execute': 'device_add', "
                             "'arguments': {'driver': 'pc-dimm', 'id': %s, "
                             "'memdev': %s, 'slot': %d, 'addr': %" PRIu64 "}}",
                             id, mem, i,
                             (uint64_t)(DIMM_BASE + (uint64_t)i * DIMM_SIZE));
}

static void dimm_unplug(Card *c, int i)
{
    g_autofree char *mem = g_strdup_printf("mem%d", i);
    g_autofree char *id = g_strdup_printf("dimm%d", i);

    qtest_qmp_device_del_send(c->qs->qts, id);
    qtest_outl(c->qs->qts, ACPI_DIMM, i);
    qtest_outb(c->qs->qts, ACPI_FLAGS, ACPI_REMOVE);
    qtest_qmp_eventwait(c->qs->qts, "DEVICE_DELETED");
    qtest_qmp_assert_success(c->qs->qts, "{'execute': 'object-del', "
                             "'arguments': {'id': %s}}", mem);
}

/* Returns: how many mappings of memory backends a process has */
static unsigned int backends(pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/maps", pid);
    g_autofree char *text = NULL;
    unsigned int n = 0;
    char *at;

    g_assert(g_file_get_contents(path, &text, NULL, NULL));
    for (at = text; (at = strstr(at, "memory-backend-memfd")); at++) {
        n++;
    }
    return n;
}

/* The process unmaps removed memory in steps. */
static void expect_backends(Card *c, unsigned int n)
{
    int i;

    for (i = 0; i < 30000 && backends(c->fabric.pid) != n; i++) {
        g_usleep(1000);
    }
    g_assert_cmpint(backends(c->fabric.pid), ==, n);
}

/*
 * Behind an IOMMU: after a DIMM is unplugged its memory is freed, and the guest
 * can map more DIMMs one after the other than a process accepts blocks.
 */
static void test_dimms(void)
{
    unsigned int before;
    uint64_t level1;
    Card c;
    int i;

    level1 = dimms_open(&c);
    before = backends(c.fabric.pid);
    g_assert_cmpint(before, ==, 1);
    for (i = 0; i < DIMMS; i++) {
        dimm_plug(&c, i);
        qtest_writeq(c.qs->qts, level1, (DIMM_BASE + (uint64_t)i * DIMM_SIZE) | 3);
        vtd_invalidate(&c);
        if (i < 2) {
            expect_query(&c, DIMM_IOVA, OHCA_ADMIN_OK);
            g_assert_cmpint(backends(c.fabric.pid), ==, before + 1);
        }
        qtest_writeq(c.qs->qts, level1, 0);
        vtd_invalidate(&c);
        if (i < 2) {
            expect_query(&c, DIMM_IOVA, OHCA_ADMIN_DMA);
            dimm_unplug(&c, i);
            expect_backends(&c, before);
        }
    }
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS), !=, OHCA_STATUS_AWAY);
    expect_nop(&c);
    card_close(&c);
}

/*
 * Behind an IOMMU: a DIMM is unplugged while the guest maps it, and its mapping
 * is new.
 */
static void test_pulled_dimm(void)
{
    uint64_t level1;
    Card c;

    level1 = dimms_open(&c);
    dimm_plug(&c, 0);
    qtest_writeq(c.qs->qts, level1, DIMM_BASE | 3);
    vtd_invalidate(&c);
    dimm_unplug(&c, 0);
    expect_nop(&c);
    qtest_writeq(c.qs->qts, level1, 0);
    vtd_invalidate(&c);
    expect_query(&c, DIMM_IOVA, OHCA_ADMIN_DMA);
    /* any change of memory regions */
    qpci_config_writew(c.dev, PCI_COMMAND, PCI_COMMAND_MASTER);
    expect_backends(&c, 1);
    qpci_config_writew(c.dev, PCI_COMMAND, PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
    expect_nop(&c);
    card_close(&c);
}

int main(int argc, char **argv)
{
    card_test_init(&argc, &argv);
    qtest_add_func("/ohca/irq", test_irq);
    qtest_add_func("/ohca/irq-later", test_irq_later);
    qtest_add_func("/ohca/no-memory", test_no_memory);
    qtest_add_func("/ohca/iommu", test_iommu);
    qtest_add_func("/ohca/iommu/mappings", test_mappings);
    qtest_add_func("/ohca/iommu/no-mappings", test_no_mappings);
    qtest_add_func("/ohca/iommu/dimms", test_dimms);
    qtest_add_func("/ohca/iommu/pulled-dimm", test_pulled_dimm);
    return card_test_run();
}
