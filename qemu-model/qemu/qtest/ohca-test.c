/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qtest of the OpenHCA device: the PCI function, and commands that need the
 * engine. The tests of the engine itself need no QEMU.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "libqtest.h"
#include "hw/pci/pci_regs.h"
#include "ohca-card.h"

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
    /* an offset without a register, and an access of the wrong size */
    g_assert_cmphex(reg(&c, OHCA_CTRL_BAR_SIZE - 4), ==, 0);
    qpci_io_writeb(c.dev, c.ctrl, OHCA_REG_CTRL, 0xff);
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS), ==, OHCA_STATUS_READY);
    card_close(&c);
}

static void test_admin(void)
{
    struct ohca_hw_device_attr attr;
    struct ohca_hw_aqe cmd = { };
    struct ohca_hw_acqe r;
    uint64_t mbox;
    Card c;
    int i;

    card_open(&c, "");
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

    /* addresses without memory, and registers of a device, are refused */
    cmd.mbox.addr = cpu_to_le64(0xffull << 40);
    g_assert_cmpint(card_cmd(&c, &cmd).status, ==, OHCA_ADMIN_DMA);
    cmd.mbox.addr = cpu_to_le64(0xfee00000);
    g_assert_cmpint(card_cmd(&c, &cmd).status, ==, OHCA_ADMIN_DMA);
    expect_nop(&c);

    /* the card works again after a reset */
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

/* Without bus mastering the card cannot access memory. */
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

/* The card ignores and counts doorbells for no object and of a wrong size. */
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

static void test_bad_properties(void)
{
    g_autofree char *file = NULL, *args = NULL;
    int fd = g_file_open_tmp("ohca-XXXXXX", &file, NULL);
    Card c;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    card_open(&c, "");
    expect_refusal(c.qs->qts, "", "fabric= is missing");
    expect_refusal(c.qs->qts, ", 'fabric': '/nonexistent/fabric'",
                   "'/nonexistent/fabric'");
    args = g_strdup_printf(", 'fabric': '%s'", file);
    expect_refusal(c.qs->qts, args, file);
    expect_refusal(c.qs->qts, ", 'ports': 3", "ports");
    expect_refusal(c.qs->qts, ", 'fabric': '/x', 'speed': 'fast'", "speed");
    expect_refusal(c.qs->qts, ", 'fabric': '/x', 'width': '3x'", "width");
    expect_refusal(c.qs->qts, ", 'fabric': '/x', 'fabric-port': 255",
                   "fabric-port");
    expect_refusal(c.qs->qts, ", 'vls': 3", "vls");
    expect_refusal(c.qs->qts, ", 'mtu': 1500", "mtu");
    expect_refusal(c.qs->qts, ", 'dm': 98304", "dm");
    expect_refusal(c.qs->qts, ", 'dm': 33554432", "dm");
    expect_refusal(c.qs->qts, ", 'x-memory': 65536", "x-memory");
    expect_refusal(c.qs->qts, ", 'x-memory': 2147483648", "x-memory");
    expect_refusal(c.qs->qts, ", 'mw-type2': '2c'", "mw-type2");
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
    unlink(file);
}

int main(int argc, char **argv)
{
    card_test_init(&argc, &argv);
    qtest_add_func("/ohca/identity", test_identity);
    qtest_add_func("/ohca/admin", test_admin);
    qtest_add_func("/ohca/flr", test_flr);
    qtest_add_func("/ohca/no-master", test_no_master);
    qtest_add_func("/ohca/doorbell", test_doorbell);
    qtest_add_func("/ohca/bad-properties", test_bad_properties);
    return card_test_run();
}
