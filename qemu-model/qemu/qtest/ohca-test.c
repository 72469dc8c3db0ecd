/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qtest of the OpenHCA device: the PCI side of it, and that the engine behind
 * is alive. What the engine does is tested without QEMU.
 */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include <sys/un.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "libqos/libqos-pc.h"
#include "libqos/pci.h"
#include "qobject/qdict.h"
#include "hw/pci/pci_regs.h"
#include "hw/rdma/core/firmware-if/ohca_hw.h"

#define LOG_AQ      4
#define SLOTS       (1u << LOG_AQ)
#define GUID        0x0002c90300001000ull

/* Nothing runs in the machine, so any firmware will do. */
#define BIOS_SIZE   65536
static char *bios;

typedef struct Card {
    QOSState *qs;
    QPCIDevice *dev;
    QPCIBar ctrl, uar;
    uint64_t aq, acq;
    uint32_t pi;
} Card;

static void found(QPCIDevice *dev, int devfn, void *data)
{
    *(QPCIDevice **)data = dev;
}

static uint32_t reg(Card *c, unsigned int off)
{
    return qpci_io_readl(c->dev, c->ctrl, off);
}

static void card_open(Card *c, const char *props)
{
    memset(c, 0, sizeof(*c));
    c->qs = qtest_pc_boot("-nodefaults -bios %s -device ohca,guid=0x%" PRIx64 "%s", bios,
                          (uint64_t)GUID, props);
    qpci_device_foreach(c->qs->pcibus, OHCA_PCI_VENDOR_ID,
                        OHCA_PCI_DEVICE_ID_PF, found, &c->dev);
    g_assert(c->dev);
    qpci_device_enable(c->dev);
    c->ctrl = qpci_iomap(c->dev, OHCA_BAR_CTRL, NULL);
    c->uar = qpci_iomap(c->dev, OHCA_BAR_UAR, NULL);
    c->aq = guest_alloc(&c->qs->alloc, 1 << 14);
    c->acq = guest_alloc(&c->qs->alloc, 1 << 14);
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

/* Execute one command and return its completion. */
static struct ohca_hw_acqe card_cmd(Card *c, struct ohca_hw_aqe *cmd)
{
    uint32_t slot = c->pi % SLOTS, pass = c->pi / SLOTS;
    uint64_t at = c->acq + slot * sizeof(struct ohca_hw_acqe);
    struct ohca_hw_acqe r = { };
    int i;

    cmd->hdr.cookie = cpu_to_le32(0xc0de0000 + c->pi);
    qtest_memwrite(c->qs->qts, c->aq + slot * sizeof(*cmd), cmd, sizeof(*cmd));
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_DB, ++c->pi);
    for (i = 0; i < 30000; i++) {
        qtest_memread(c->qs->qts, at, &r, sizeof(r));
        if ((r.phase & 1) == !(pass & 1)) {
            break;
        }
        g_usleep(1000);
    }
    g_assert_cmpint(i, <, 30000);
    g_assert_cmphex(le32_to_cpu(r.cookie), ==, le32_to_cpu(cmd->hdr.cookie));
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

    card_open(&c, "");
    card_start(&c);
    expect_nop(&c);
    cmd = qpci_config_readw(c.dev, PCI_COMMAND);
    qpci_config_writew(c.dev, PCI_COMMAND, cmd & ~PCI_COMMAND_MASTER);
    qpci_io_writel(c.dev, c.ctrl, OHCA_REG_AQ_DB, ++c.pi);
    g_assert_cmphex(reg(&c, OHCA_REG_STATUS) & OHCA_STATUS_FATAL, !=, 0);
    g_assert_cmpint(reg(&c, OHCA_REG_FATAL_REASON), ==, OHCA_FATAL_AQ_DMA);

    qpci_config_writew(c.dev, PCI_COMMAND, cmd | PCI_COMMAND_MASTER);
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
}

static void test_irq(void)
{
    Card c;

    card_open(&c, "");
    g_assert_cmpint(qpci_msix_table_size(c.dev), ==, 32);
    qpci_msix_enable(c.dev);
    g_assert(qpci_msix_masked(c.dev, 0));
    card_start(&c);
    expect_nop(&c);
    g_assert(!qpci_msix_pending(c.dev, 0));
    qpci_io_writel(c.dev, c.ctrl, OHCA_REG_AQ_INTR, 1);
    expect_nop(&c);
    g_assert(qpci_msix_pending(c.dev, 0));
    qpci_msix_disable(c.dev);
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
    expect_refusal(c.qs->qts, ", 'mw-type2': '2c'", "mw-type2");
    expect_refusal(c.qs->qts, ", 'x-engine': 'warp'", "x-engine");
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
    unlink(file);
}

/* Two cards back to back, one of them plugged in and out while all runs. */
static void test_plug(void)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    g_autofree char *props = g_strdup_printf(",fabric=%s,listen=on", path);
    Card c;
    int i;

    card_open(&c, props);
    card_start(&c);
    expect_nop(&c);
    for (i = 0; i < 3; i++) {
        qtest_qmp_device_add(c.qs->qts, "ohca", "second",
                             "{'fabric': %s, 'addr': '6', 'ports': 1}", path);
        expect_nop(&c);
        qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);
        expect_nop(&c);
    }
    card_close(&c);
    g_assert(!g_file_test(path, G_FILE_TEST_EXISTS));
    rmdir(dir);
}

static int peer_connect(const char *path)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = 60 };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    g_strlcpy(sa.sun_path, path, sizeof(sa.sun_path));
    g_assert_cmpint(fd, >=, 0);
    g_assert(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
                         sizeof(patience)));
    g_assert(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
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
    silent = peer_connect(path);
    other = peer_connect(path);
    g_assert_cmpint(send(other, "hello", 5, 0), ==, 5);
    peer_refused(silent, "no HELLO within 2 s");
    peer_refused(other, "does not speak");
    expect_nop(&c);
    card_close(&c);
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
    qtest_add_func("/ohca/doorbell", test_doorbell);
    qtest_add_func("/ohca/bad-properties", test_bad_properties);
    qtest_add_func("/ohca/plug", test_plug);
    qtest_add_data_func("/ohca/silent-peer/thread", "", test_silent_peer);
    qtest_add_data_func("/ohca/silent-peer/inline", ",x-engine=inline",
                        test_silent_peer);
    ret = g_test_run();
    unlink(bios);
    g_free(bios);
    return ret;
}
