/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qtest of cards and the fabric's process: what is refused, plugged, lost. */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include <sys/un.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "hw/pci/pci_regs.h"
#include "ohca-card.h"

/* ACPI's register of slots to be ejected */
#define ACPI_EJECT  0xae08

/* A second card, which is plugged in. */
static Card plug(Card *c, const char *id)
{
    Card second = { .qs = c->qs };

    qtest_qmp_device_add(c->qs->qts, "ohca", id, "{'fabric': %s, "
                         "'addr': '6', 'dm': 65536}", c->fabric.path);
    second.dev = qpci_device_find(c->qs->pcibus, QPCI_DEVFN(6, 0));
    card_map(&second);
    return second;
}

/* Cards come and go while the machine runs; each is at the switch. */
static void test_plug(void)
{
    Card c, second;
    int i;

    card_open(&c, "");
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

    card_open(&c, "");
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

    card_open(&c, "");
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

    card_open(&c, "");
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

    card_open(&c, ",x-lies-kinds=64,x-version=0x70001");
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

/* A machine without a card. */
static QTestState *machine(const char *args)
{
    return qtest_initf("-nodefaults -bios %s %s", bios, args);
}

/* A place that is taken, a machine whose memory cannot be shared. */
static void test_refused(void)
{
    g_autofree char *fabric = NULL;
    QTestState *qts;
    Card c;

    card_open(&c, "");
    fabric = g_strdup_printf(", 'fabric': '%s', 'fabric-port': 99",
                             c.fabric.path);
    expect_refusal(c.qs->qts, fabric, "99");
    card_start(&c);
    expect_nop(&c);
    card_close(&c);

    qts = machine("");
    expect_refusal(qts, ", 'fabric': '/x'", "is not shared");
    qtest_quit(qts);
}

/* Memory on a disk, of a machine that has another fabric than it would need. */
static void test_disk(void)
{
    char file[] = "ohca-ram-XXXXXX";
    int fd = g_mkstemp(file);
    g_autofree char *before = g_strdup_printf(
        " -machine memory-backend=disk -object memory-backend-file,id=disk,"
        "size=128M,share=on,mem-path=%s", file);
    g_autofree char *props = NULL;
    bool in_memory = fcntl(fd, F_GET_SEALS) >= 0;
    QTestState *qts;
    Card c;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    card_open(&c, "");
    props = g_strdup_printf(", 'fabric': '%s'", c.fabric.path);
    qts = machine(before);
    if (!in_memory) {
        expect_refusal(qts, props, "--disk-memory");
        expect_refusal(qts, props, "--disk-memory");
    }
    card_start(&c);
    expect_nop(&c);
    qtest_quit(qts);
    card_close(&c);
    unlink(file);
}

/* An IOMMU that does not tell of mappings. */
static void test_iommu(void)
{
    QTestState *qts = machine(SHARED " -machine q35 -device intel-iommu"
                              " -device pcie-root-port,id=rp,addr=5");

    expect_refusal(qts, ", 'fabric': '/x', 'bus': 'rp'", "caching mode");
    qtest_quit(qts);
}

/* Who listens at the socket and says nothing, or is busy, is waited for briefly. */
static void test_silent(void)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    g_autofree char *props = g_strdup_printf(", 'fabric': '%s'", path);
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int i, busy, listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    Card c;

    g_strlcpy(sa.sun_path, path, sizeof(sa.sun_path));
    g_assert(!bind(listener, (struct sockaddr *)&sa, sizeof(sa)));
    g_assert(!listen(listener, 1));
    card_open(&c, "");
    card_start(&c);
    expect_refusal(c.qs->qts, props, "HELLO");
    expect_nop(&c);
    /* the backlog is full now */
    for (i = 0; i < 2; i++) {
        busy = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        if (connect(busy, (struct sockaddr *)&sa, sizeof(sa))) {
            break;
        }
    }
    expect_refusal(c.qs->qts, props, "connections waiting");
    expect_nop(&c);
    card_close(&c);
    close(listener);
    close(busy);
    unlink(path);
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
    card_start(&c);
    for (i = 0; i < 5; i++) {
        second = plug(&c, "second");
        qpci_iomap(second.dev, OHCA_BAR_DM, NULL);
        g_free(second.dev);
        /* whose event tells when RCU gives it up is not waited for */
        qtest_qmp_device_del_send(c.qs->qts, "second");
        qtest_outl(c.qs->qts, ACPI_EJECT, 1 << 6);
    }
    expect_nop(&c);
    card_close(&c);
}

int main(int argc, char **argv)
{
    card_test_init(&argc, &argv);
    qtest_add_func("/ohca/daemon/plug", test_plug);
    qtest_add_func("/ohca/daemon/replug", test_replug);
    qtest_add_func("/ohca/daemon/peer-to-peer", test_peer_to_peer);
    qtest_add_func("/ohca/daemon/killed", test_killed);
    qtest_add_func("/ohca/daemon/stopped", test_stopped);
    qtest_add_func("/ohca/daemon/silent", test_silent);
    qtest_add_func("/ohca/daemon/lies", test_lies);
    qtest_add_func("/ohca/daemon/refused", test_refused);
    qtest_add_func("/ohca/daemon/disk", test_disk);
    qtest_add_func("/ohca/daemon/iommu", test_iommu);
    return card_test_run();
}
