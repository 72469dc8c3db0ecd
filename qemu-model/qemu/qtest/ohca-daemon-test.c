/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qtest of cards that the fabric's process has: what is refused, plugged, lost. */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include <sys/un.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "hw/pci/pci_regs.h"
#include "ohca-card.h"

/* A second card, which is plugged in. */
static Card plug(Card *c, const char *id)
{
    Card second = { .qs = c->qs };

    qtest_qmp_device_add(c->qs->qts, "ohca", id, "{'host': 'daemon', "
                         "'fabric': %s, 'addr': '6', 'dm': 65536}",
                         c->fabric.path);
    second.dev = qpci_device_find(c->qs->pcibus, QPCI_DEVFN(6, 0));
    card_map(&second);
    return second;
}

/* Cards come and go while the machine runs; each is at the switch. */
static void test_plug(void)
{
    Card c, second;
    int i;

    card_open(&c, ",host=daemon");
    card_start(&c);
    for (i = 0; i < 3; i++) {
        second = plug(&c, "second");
        card_start(&second);
        expect_phys_state(&second, PHYS_LINK_UP);
        g_free(second.dev);
        qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);
    }
    expect_nop(&c);
    card_close(&c);
}

static void expect_query(Card *c, uint64_t to, unsigned int status)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_QUERY_DEVICE };

    cmd.mbox.addr = cpu_to_le64(to);
    g_assert_cmpint(card_cmd(c, &cmd).status, ==, status);
}

/* Another device's memory is reached while it is there; it is shared, too. */
static void test_peer_to_peer(void)
{
    struct ohca_hw_device_attr attr;
    Card c, peer;
    QPCIBar dm;

    card_open(&c, ",host=daemon");
    card_start(&c);
    peer = plug(&c, "peer");
    dm = qpci_iomap(peer.dev, OHCA_BAR_DM, NULL);
    expect_query(&c, dm.addr, OHCA_ADMIN_OK);
    qpci_memread(peer.dev, dm, 0, &attr, sizeof(attr));
    g_assert_cmphex(be64_to_cpu(attr.node_guid), ==, GUID);
    expect_query(&c, peer.ctrl.addr, OHCA_ADMIN_DMA);
    g_free(peer.dev);
    qpci_unplug_acpi_device_test(c.qs->qts, "peer", 6);
    expect_query(&c, dm.addr, OHCA_ADMIN_DMA);
    expect_nop(&c);
    card_close(&c);
}

/* The device as no process has it: it says so, and everything else goes on. */
static void expect_away(Card *c, uint32_t version)
{
    expect_status(c, OHCA_STATUS_AWAY);
    g_assert_cmphex(reg(c, OHCA_REG_MAGIC), ==, OHCA_MAGIC);
    g_assert_cmphex(reg(c, OHCA_REG_VERSION), ==, version);
    g_assert_cmphex(qpci_io_readq(c->dev, c->ctrl, OHCA_REG_MAGIC), ==,
                    OHCA_MAGIC | (uint64_t)version << 32);
    g_assert_cmphex(qpci_io_readq(c->dev, c->ctrl, OHCA_REG_CTRL), ==,
                    (uint64_t)OHCA_STATUS_AWAY << 32);
    g_assert_cmphex(reg(c, OHCA_REG_LIMITS), ==, 0);
    g_assert_cmphex(qpci_io_readq(c->dev, c->ctrl, OHCA_REG_FEATURES), ==, 0);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_DB, 1);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_CTRL, OHCA_CTRL_RESET);
    qpci_io_writeq(c->dev, c->uar, OHCA_UAR_SQ, 0);
    g_assert_cmphex(qpci_io_readq(c->dev, c->uar, OHCA_UAR_CLOCK), ==,
                    UINT64_MAX);
    qtest_qmp_assert_success(c->qs->qts, "{'execute': 'stop'}");
    qtest_qmp_assert_success(c->qs->qts, "{'execute': 'cont'}");
}

/* The process ends, and another one has the card then, as after power-on. */
static void test_killed(void)
{
    uint32_t version;
    Card c;

    card_open(&c, ",host=daemon");
    version = reg(&c, OHCA_REG_VERSION);
    card_start(&c);
    expect_nop(&c);
    fabric_kill(&c.fabric);
    expect_away(&c, version);
    fabric_start(&c.fabric);
    expect_status(&c, OHCA_STATUS_READY);
    card_start(&c);
    expect_nop(&c);
    expect_phys_state(&c, PHYS_LINK_UP);
    card_close(&c);
}

/* One that stands still is lost at the first call, and found when it goes on. */
static void test_stopped(void)
{
    uint32_t version;
    int64_t begin;
    Card c;

    card_open(&c, ",host=daemon");
    version = reg(&c, OHCA_REG_VERSION);
    card_start(&c);
    expect_nop(&c);
    kill(c.fabric.pid, SIGSTOP);
    begin = g_get_monotonic_time();
    qpci_io_writel(c.dev, c.ctrl, OHCA_REG_AQ_INTR, 1);
    g_assert_cmpint(g_get_monotonic_time() - begin, <, 20 * G_USEC_PER_SEC);
    expect_away(&c, version);
    kill(c.fabric.pid, SIGCONT);
    expect_status(&c, OHCA_STATUS_READY);
    card_start(&c);
    expect_nop(&c);
    card_close(&c);
}

/* Lies are told by the process, also in registers. */
static void test_lies(void)
{
    uint64_t told = 0;
    QDict *rsp;
    Card c;
    int i;

    card_open(&c, ",host=daemon,x-lies-kinds=64,x-version=0x70001");
    g_assert_cmphex(reg(&c, OHCA_REG_VERSION), ==, 0x70001);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'qom-set', 'arguments': {"
                             "'path': '/machine/peripheral/card', "
                             "'property': 'x-lies', 'value': 1}}");
    for (i = 0; i < 100; i++) {
        reg(&c, OHCA_REG_PAGE_SHIFT);
    }
    rsp = qtest_qmp(c.qs->qts, "{'execute': 'qom-get', 'arguments': {"
                    "'path': '/machine/peripheral/card', "
                    "'property': 'x-lies-told'}}");
    told = qdict_get_int(rsp, "return");
    qobject_unref(rsp);
    g_assert_cmpint(told, >=, 100);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'qom-set', 'arguments': {"
                             "'path': '/machine/peripheral/card', "
                             "'property': 'x-lies', 'value': 0}}");
    g_assert_cmphex(reg(&c, OHCA_REG_MAGIC), ==, OHCA_MAGIC);
    card_close(&c);
}

static void expect_refusal(Card *c, const char *args, const char *why)
{
    g_autofree char *cmd = g_strdup_printf("{'execute': 'device_add', "
        "'arguments': {'driver': 'ohca', 'host': 'daemon', 'id': 'bad'%s}}",
        args);
    QDict *rsp, *err;

    qtest_qmp_send_raw(c->qs->qts, "%s", cmd);
    rsp = qtest_qmp_receive(c->qs->qts);
    err = qdict_get_qdict(rsp, "error");
    g_assert(err);
    g_test_message("%s", qdict_get_str(err, "desc"));
    g_assert(strstr(qdict_get_str(err, "desc"), why));
    qobject_unref(rsp);
}

/* What a card of the fabric's process cannot be, and a machine that has none. */
static void test_refused(void)
{
    g_autofree char *fabric = NULL;
    Card c;

    card_open(&c, ",host=daemon");
    fabric = g_strdup_printf(", 'fabric': '%s', 'fabric-port': 99",
                             c.fabric.path);
    expect_refusal(&c, "", "needs fabric=");
    expect_refusal(&c, ", 'fabric': '/x', 'listen': true", "needs fabric=");
    expect_refusal(&c, ", 'fabric': '/x', 'fabric2': '/y', 'ports': 2",
                   "needs fabric=");
    expect_refusal(&c, ", 'fabric': '/x', 'x-engine': 'thread'", "x-engine");
    expect_refusal(&c, ", 'fabric': '/nonexistent/fabric'",
                   "'/nonexistent/fabric'");
    expect_refusal(&c, fabric, "99");
    card_start(&c);
    expect_nop(&c);
    card_close(&c);

    card_open(&c, "");
    expect_refusal(&c, ", 'fabric': '/x'", "is not shared");
    card_close(&c);
}

/* Memory on a disk, of a machine that has another fabric than it would need. */
static void test_disk(void)
{
    char file[] = "ohca-ram-XXXXXX";
    int fd = g_mkstemp(file);
    g_autofree char *before = g_strdup_printf(
        " -machine memory-backend=disk -object memory-backend-file,id=disk,"
        "size=128M,share=on,mem-path=%s", file);
    g_autofree char *fabric = NULL;
    bool in_memory = fcntl(fd, F_GET_SEALS) >= 0;
    Card c, d;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    card_open(&c, ",host=daemon");
    fabric = g_strdup_printf(", 'fabric': '%s'", c.fabric.path);
    card_boot(&d, before, "");
    if (!in_memory) {
        expect_refusal(&d, fabric, "--disk-memory");
        expect_refusal(&d, fabric, "--disk-memory");
    }
    card_start(&c);
    expect_nop(&c);
    card_close(&d);
    card_close(&c);
    unlink(file);
}

/* An IOMMU that does not tell of mappings. */
static void test_iommu(void)
{
    Card c;

    card_boot(&c, " -machine q35 -device intel-iommu"
              " -device pcie-root-port,id=rp,addr=5", ",addr=4");
    expect_refusal(&c, ", 'fabric': '/x', 'bus': 'rp'", "caching mode");
    card_close(&c);
}

int main(int argc, char **argv)
{
    card_test_init(&argc, &argv);
    qtest_add_func("/ohca/daemon/plug", test_plug);
    qtest_add_func("/ohca/daemon/peer-to-peer", test_peer_to_peer);
    qtest_add_func("/ohca/daemon/killed", test_killed);
    qtest_add_func("/ohca/daemon/stopped", test_stopped);
    qtest_add_func("/ohca/daemon/lies", test_lies);
    qtest_add_func("/ohca/daemon/refused", test_refused);
    qtest_add_func("/ohca/daemon/disk", test_disk);
    qtest_add_func("/ohca/daemon/iommu", test_iommu);
    return card_test_run();
}
