/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qtest of live migration: the other QEMU takes over the HCA with its state. */
#include "qemu/osdep.h"
#include <linux/magic.h>
#include <sys/statfs.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "qobject/qbool.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"
#include "hw/pci/pci_regs.h"
#include "libqos/virtio.h"
#include "libqos/virtio-pci.h"
#include "standard-headers/linux/virtio_config.h"
#include "standard-headers/linux/virtio_iommu.h"
#include "standard-headers/linux/virtio_ring.h"
#include "ohca-card.h"

#define LID     0x123
#define ROUNDS  3
#define SLOW    20000   /* bytes a second: all of memory takes 15 s */

/* A virtio-iommu that translates from power-on; a card behind it. */
#define VIOMMU_MACHINE  " -machine q35 -device virtio-iommu-pci,addr=3,boot-bypass=off"
#define VIOMMU_CARD     ",addr=4"
#define VIOMMU_DOMAIN   1

/* Returns: a file name in a new directory, for a stream; the caller frees it */
static char *state_path(void)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-move-XXXXXX", NULL);

    return g_strdup_printf("%s/state", dir);
}

static void state_remove(const char *path)
{
    g_autofree char *dir = g_path_get_dirname(path);

    unlink(path);
    rmdir(dir);
}

/* Start a machine like that of @c, with @before, @props and -incoming @from. */
static void await(Card *to, const Card *c, const char *from, const char *before,
                  const char *props)
{
    *to = *c;
    to->qs = qtest_pc_boot("-nodefaults -bios %s " SHARED "%s -device ohca,"
                           "guid=0x%" PRIx64 ",id=card,fabric=%s%s -incoming %s",
                           bios, before, (uint64_t)GUID, c->fabric.path, props,
                           from);
    to->dev = card_find(to->qs);
}

static char *status_of(QTestState *qts, const char *command)
{
    QDict *r = qtest_qmp(qts, "{'execute': %s}", command);
    QDict *ret = qdict_get_qdict(r, "return");
    const char *s = qdict_get_try_str(ret, "status");
    char *status = g_strdup(s ?: "none");

    qobject_unref(r);
    return status;
}

static void expect_state(QTestState *qts, const char *command, const char *want)
{
    g_autofree char *status = NULL;
    int i;

    for (i = 0; i < 30000; i++) {
        g_free(status);
        status = status_of(qts, command);
        if (!strcmp(status, want)) {
            return;
        }
        g_usleep(1000);
    }
    g_error("%s says %s, not %s", command, status, want);
}

static void send_to(Card *c, const char *to)
{
    qtest_qmp_assert_success(c->qs->qts, "{'execute': 'migrate', 'arguments': "
                             "{'uri': %s}}", to);
}

static void set_speed(Card *c, int64_t speed)
{
    qtest_qmp_assert_success(c->qs->qts, "{'execute': 'migrate-set-parameters', "
                             "'arguments': {'max-bandwidth': %" PRId64 "}}", speed);
}

/* Returns: whether this QEMU and this host support the capability */
static bool set_capability(QTestState *qts, const char *name, bool on)
{
    QDict *r = qtest_qmp(qts, "{'execute': 'migrate-set-capabilities', 'arguments': "
                         "{'capabilities': [{'capability': %s, 'state': %i}]}}",
                         name, on);
    bool has = !qdict_haskey(r, "error");

    qobject_unref(r);
    return has;
}

/* End this QEMU, but not the fabric, which the other QEMU still uses. */
static void part(Card *c)
{
    g_free(c->dev);
    qtest_pc_shutdown(c->qs);
}

/* Set the LID of @port to LID + @port. */
static void set_lid_of(Card *c, uint8_t port)
{
    uint8_t pi[64] = { };

    card_info_of_port(c, port, 1, pi);
    stw_be_p(pi + 16, LID + port);
    stw_be_p(pi + 18, 1);
    /* do not change the states */
    pi[32] &= 0xf0;
    pi[33] &= 0x0f;
    card_info_of_port(c, port, 2, pi);
}

static void expect_lid_of(Card *c, uint8_t port)
{
    uint8_t pi[64] = { };

    card_info_of_port(c, port, 1, pi);
    g_assert_cmphex(lduw_be_p(pi + 16), ==, LID + port);
    g_assert_cmphex(pi[33] >> 4, ==, PHYS_LINK_UP);
}

static void set_lid(Card *c)
{
    set_lid_of(c, 1);
}

static void expect_lid(Card *c)
{
    expect_lid_of(c, 1);
}

static uint64_t guid_of(Card *c)
{
    struct ohca_hw_aqe query = {
        .hdr.opcode = OHCA_CMD_QUERY_DEVICE,
        .mbox.addr = cpu_to_le64(c->mbox),
    };
    struct ohca_hw_device_attr attr;

    g_assert_cmpint(card_cmd(c, &query).status, ==, OHCA_ADMIN_OK);
    qtest_memread(c->qs->qts, c->mbox, &attr, sizeof(attr));
    return be64_to_cpu(attr.node_guid);
}

/* Check that both machines have the same @n bytes at @at. */
static void expect_same(Card *c, Card *to, uint64_t at, size_t n)
{
    g_autofree uint8_t *a = g_malloc(n), *b = g_malloc(n);

    qtest_memread(c->qs->qts, at, a, n);
    qtest_memread(to->qs->qts, at, b, n);
    g_assert(!memcmp(a, b, n));
}

static void test_moves(void)
{
    struct ohca_hw_aqe query = { .hdr.opcode = OHCA_CMD_QUERY_DEVICE };
    g_autofree char *dir = g_dir_make_tmp("ohca-move-XXXXXX", NULL);
    Card c, to;
    int i, n;

    card_open(&c, "");
    card_start(&c);
    expect_phys_state(&c, PHYS_LINK_UP);
    set_lid(&c);
    qpci_msix_enable(c.dev);
    query.mbox.addr = cpu_to_le64(c.mbox);
    for (i = 0; i < ROUNDS; i++) {
        g_autofree char *uri = g_strdup_printf("unix:%s/%d", dir, i);
        g_autofree char *path = g_strdup_printf("%s/%d", dir, i);

        await(&to, &c, uri, "", "");
        set_speed(&c, SLOW);
        send_to(&c, uri);
        expect_state(c.qs->qts, "query-migrate", "active");
        for (n = 0; n < 50; n++) {
            g_assert_cmpint(card_cmd(&c, &query).status, ==, OHCA_ADMIN_OK);
        }
        expect_state(c.qs->qts, "query-migrate", "active");
        set_speed(&c, INT64_MAX);
        expect_state(c.qs->qts, "query-migrate", "completed");
        expect_state(to.qs->qts, "query-status", "running");
        to.pi = c.pi;
        expect_same(&c, &to, c.mbox, OHCA_MAILBOX_SIZE);
        expect_same(&c, &to, c.acq, 1 << 14);
        g_assert_cmphex(reg(&to, OHCA_REG_STATUS), ==,
                        OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
        g_assert(qpci_config_readw(to.dev, PCI_COMMAND) & PCI_COMMAND_MASTER);
        expect_lid(&to);
        expect_nop(&to);
        part(&c);
        /* the HCA remains when the first QEMU ends */
        expect_lid(&to);
        c = to;
        unlink(path);
    }
    card_close(&c);
    rmdir(dir);
}

/* A doorbell and writes to memory just before the migration are not lost. */
static void test_last(void)
{
    struct ohca_hw_aqe query = { .hdr.opcode = OHCA_CMD_QUERY_DEVICE };
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    struct ohca_hw_acqe r;
    Card c, to;

    card_open(&c, "");
    card_start(&c);
    query.mbox.addr = cpu_to_le64(c.mbox);
    g_assert_cmpint(card_cmd(&c, &query).status, ==, OHCA_ADMIN_OK);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
    card_post(&c, &query);
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "completed");
    g_assert(!card_done(&c, &r));
    await(&to, &c, uri, "", "");
    expect_state(to.qs->qts, "query-status", "paused");
    to.pi = c.pi;
    expect_same(&c, &to, c.mbox, OHCA_MAILBOX_SIZE);
    expect_same(&c, &to, c.aq, 1 << 14);
    expect_same(&c, &to, c.acq, 1 << 14);
    g_assert(!card_done(&to, &r));
    qtest_qmp_assert_success(to.qs->qts, "{'execute': 'cont'}");
    g_assert_cmpint(card_wait(&to).status, ==, OHCA_ADMIN_OK);
    /* the HCA has written only to the memory of the other QEMU */
    g_assert(!card_done(&c, &r));
    part(&c);
    expect_nop(&to);
    card_close(&to);
    state_remove(path);
}

/*
 * Behind an IOMMU: the other QEMU sends the mappings to the HCA, and removes a
 * mapping when the guest does so.
 */
static void test_iommu(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    struct ohca_hw_aqe query = { .hdr.opcode = OHCA_CMD_QUERY_DEVICE };
    const uint64_t iova = 1ull << 30;
    struct ohca_hw_device_attr attr;
    uint64_t root, level3, level2, level1, page;
    Card c, to;

    card_boot(&c, VTD_MACHINE, VTD_CARD);
    root = vtd_tables(&c);
    level3 = qtest_readq(c.qs->qts, qtest_readq(c.qs->qts, root) - 1 +
                         16 * c.dev->devfn) - 1;
    level2 = vtd_page(&c);
    level1 = vtd_page(&c);
    page = vtd_page(&c);
    qtest_writeq(c.qs->qts, level3 + 8, level2 | 3);
    qtest_writeq(c.qs->qts, level2, level1 | 3);
    qtest_writeq(c.qs->qts, level1, page | 3);
    qtest_writeq(c.qs->qts, VTD_BASE + VTD_RTADDR, root);
    vtd_command(&c, VTD_SRTP, VTD_SRTP);
    vtd_command(&c, VTD_TE, VTD_TE);
    card_start(&c);
    query.mbox.addr = cpu_to_le64(iova);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
    card_post(&c, &query);
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "completed");
    await(&to, &c, uri, VTD_MACHINE, VTD_CARD);
    expect_state(to.qs->qts, "query-status", "paused");
    part(&c);
    to.pi = c.pi;
    qtest_qmp_assert_success(to.qs->qts, "{'execute': 'cont'}");
    g_assert_cmpint(card_wait(&to).status, ==, OHCA_ADMIN_OK);
    qtest_memread(to.qs->qts, page, &attr, sizeof(attr));
    g_assert_cmphex(be64_to_cpu(attr.node_guid), ==, GUID);
    qtest_writeq(to.qs->qts, level1, 0);
    vtd_invalidate(&to);
    g_assert_cmpint(card_cmd(&to, &query).status, ==, OHCA_ADMIN_DMA);
    expect_nop(&to);
    card_close(&to);
    state_remove(path);
}

/* ---- virtio-iommu ---- */

static QVirtQueue *viommu_open(Card *c)
{
    QPCIAddress addr = { .devfn = QPCI_DEVFN(3, 0) };
    QVirtioPCIDevice *d = virtio_pci_new(c->qs->pcibus, &addr);
    QVirtQueue *vq;

    qvirtio_pci_device_enable(d);
    qvirtio_start_device(&d->vdev);
    qvirtio_set_features(&d->vdev, qvirtio_get_features(&d->vdev) &
                         ~(QVIRTIO_F_BAD_FEATURE |
                           (1ull << VIRTIO_RING_F_INDIRECT_DESC) |
                           (1ull << VIRTIO_RING_F_EVENT_IDX)));
    vq = qvirtqueue_setup(&d->vdev, &c->qs->alloc, 0);
    qvirtio_set_driver_ok(&d->vdev);
    return vq;
}

/* Execute a request of @n bytes without its tail. */
static void viommu_request(Card *c, QVirtQueue *vq, const void *req, size_t n)
{
    struct virtio_iommu_req_tail tail = { .status = 0xff };
    uint64_t out = vtd_page(c), in = vtd_page(c);
    QTestState *qts = c->qs->qts;
    uint32_t head;

    qtest_memwrite(qts, out, req, n);
    head = qvirtqueue_add(qts, vq, out, n, false, true);
    qvirtqueue_add(qts, vq, in, sizeof(tail), true, false);
    qvirtqueue_kick(qts, vq->vdev, vq, head);
    qvirtio_wait_used_elem(qts, vq->vdev, vq, head, NULL, 30 * G_USEC_PER_SEC);
    qtest_memread(qts, in, &tail, sizeof(tail));
    g_assert_cmpint(tail.status, ==, VIRTIO_IOMMU_S_OK);
}

static void viommu_attach(Card *c, QVirtQueue *vq)
{
    struct virtio_iommu_req_attach r = {
        .head.type = VIRTIO_IOMMU_T_ATTACH,
        .domain = cpu_to_le32(VIOMMU_DOMAIN),
        .endpoint = cpu_to_le32(c->dev->devfn),
    };

    viommu_request(c, vq, &r, offsetof(struct virtio_iommu_req_attach, tail));
}

static void viommu_map(Card *c, QVirtQueue *vq, uint64_t iova, uint64_t at,
                       uint64_t n)
{
    struct virtio_iommu_req_map r = {
        .head.type = VIRTIO_IOMMU_T_MAP,
        .domain = cpu_to_le32(VIOMMU_DOMAIN),
        .virt_start = cpu_to_le64(iova),
        .virt_end = cpu_to_le64(iova + n - 1),
        .phys_start = cpu_to_le64(at),
        .flags = cpu_to_le32(VIRTIO_IOMMU_MAP_F_READ | VIRTIO_IOMMU_MAP_F_WRITE),
    };

    viommu_request(c, vq, &r, offsetof(struct virtio_iommu_req_map, tail));
}

/*
 * Behind an IOMMU that translates from power-on: the other QEMU loads its
 * mappings from the stream, without a change of memory regions.
 */
static void test_virtio_iommu(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    struct ohca_hw_aqe query = { .hdr.opcode = OHCA_CMD_QUERY_DEVICE };
    const uint64_t iova = 1ull << 30;
    struct ohca_hw_device_attr attr;
    QVirtQueue *vq;
    uint64_t page;
    Card c, to;

    card_boot(&c, VIOMMU_MACHINE, VIOMMU_CARD);
    vq = viommu_open(&c);
    viommu_attach(&c, vq);
    viommu_map(&c, vq, 1 << 20, 1 << 20, 64 << 20);
    page = vtd_page(&c);
    viommu_map(&c, vq, iova, page, 4096);
    card_start(&c);
    query.mbox.addr = cpu_to_le64(iova);
    g_assert_cmpint(card_cmd(&c, &query).status, ==, OHCA_ADMIN_OK);
    qtest_memset(c.qs->qts, page, 0, sizeof(attr));
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "completed");
    await(&to, &c, uri, VIOMMU_MACHINE, VIOMMU_CARD);
    expect_state(to.qs->qts, "query-status", "paused");
    part(&c);
    to.pi = c.pi;
    qtest_qmp_assert_success(to.qs->qts, "{'execute': 'cont'}");
    g_assert_cmpint(card_cmd(&to, &query).status, ==, OHCA_ADMIN_OK);
    qtest_memread(to.qs->qts, page, &attr, sizeof(attr));
    g_assert_cmphex(be64_to_cpu(attr.node_guid), ==, GUID);
    query.mbox.addr = cpu_to_le64(iova + 4096);
    g_assert_cmpint(card_cmd(&to, &query).status, ==, OHCA_ADMIN_DMA);
    expect_nop(&to);
    card_close(&to);
    state_remove(path);
}

/* ---- failed migrations ---- */

/*
 * Cancel a migration while RAM is sent, or when only the state of devices is
 * left. The machine continues here with its card, and the other QEMU ends.
 */
static void test_cancel(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("unix:%s", path);
    Card c, to;
    int i;

    card_open(&c, "");
    card_start(&c);
    expect_phys_state(&c, PHYS_LINK_UP);
    set_lid(&c);
    for (i = 0; i < 2; i++) {
        await(&to, &c, uri, "", "");
        g_assert(set_capability(c.qs->qts, "pause-before-switchover", i));
        set_speed(&c, i ? INT64_MAX : SLOW);
        send_to(&c, uri);
        expect_state(c.qs->qts, "query-migrate", i ? "pre-switchover" : "active");
        qtest_set_expected_status(to.qs->qts, 1);
        qtest_qmp_assert_success(c.qs->qts, "{'execute': 'migrate_cancel'}");
        expect_state(c.qs->qts, "query-migrate", "cancelled");
        expect_state(c.qs->qts, "query-status", "running");
        expect_lid(&c);
        expect_nop(&c);
        qtest_wait_qemu(to.qs->qts);
        part(&to);
        expect_lid(&c);
    }
    /* a later migration succeeds */
    g_assert(set_capability(c.qs->qts, "pause-before-switchover", false));
    await(&to, &c, uri, "", "");
    send_to(&c, uri);
    expect_state(to.qs->qts, "query-status", "running");
    to.pi = c.pi;
    expect_lid(&to);
    part(&c);
    card_close(&to);
    state_remove(path);
}

/* Properties of a second card of a machine, at slot 5 and the same fabric. */
#define SECOND_GUID     (GUID + 0x1000)
#define SECOND_PROPS    ",addr=4 -device ohca,guid=0x%" PRIx64 ",id=second,ports=2," \
                        "fabric=%s,addr=5"

/* Each of two cards of a machine keeps its HCA, with all ports. */
static void test_two(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    g_autofree char *props = NULL;
    Card c = { }, d, to, to_d;
    uint8_t port;

    fabric_open(&c.fabric);
    props = g_strdup_printf(SECOND_PROPS, (uint64_t)SECOND_GUID, c.fabric.path);
    card_boot_at(&c, "", props);
    d = c;
    d.dev = qpci_device_find(c.qs->pcibus, QPCI_DEVFN(5, 0));
    card_map(&d);
    card_start(&c);
    card_start(&d);
    for (port = 1; port <= 2; port++) {
        expect_phys_state_of(&d, port, PHYS_LINK_UP);
        set_lid_of(&d, port);
    }
    g_assert_cmphex(guid_of(&c), ==, GUID);
    g_assert_cmphex(guid_of(&d), ==, SECOND_GUID);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "completed");
    await(&to, &c, uri, "", props);
    to_d = to;
    to_d.dev = qpci_device_find(to.qs->pcibus, QPCI_DEVFN(5, 0));
    to_d.ctrl = d.ctrl;
    to_d.aq = d.aq;
    to_d.acq = d.acq;
    to_d.mbox = d.mbox;
    expect_state(to.qs->qts, "query-status", "paused");
    g_free(d.dev);
    part(&c);
    qtest_qmp_assert_success(to.qs->qts, "{'execute': 'cont'}");
    to.pi = c.pi;
    to_d.pi = d.pi;
    g_assert_cmphex(guid_of(&to), ==, GUID);
    g_assert_cmphex(guid_of(&to_d), ==, SECOND_GUID);
    for (port = 1; port <= 2; port++) {
        expect_lid_of(&to_d, port);
    }
    g_free(to_d.dev);
    card_close(&to);
    state_remove(path);
}

/* The other QEMU does not run the machine: the machine continues here. */
static void test_stays(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    Card c, to;
    int i;

    card_open(&c, "");
    card_start(&c);
    for (i = 0; i < ROUNDS; i++) {
        expect_nop(&c);
        qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
        send_to(&c, uri);
        expect_state(c.qs->qts, "query-migrate", "completed");
        if (i) {
            await(&to, &c, uri, "", "");
            expect_state(to.qs->qts, "query-status", "paused");
        }
        if (i == 1) {
            part(&to);
        }
        qtest_qmp_assert_success(c.qs->qts, "{'execute': 'cont'}");
        expect_nop(&c);
        if (i == 2) {
            /* this QEMU keeps the HCA; the other one has lost its connection */
            expect_status(&to, OHCA_STATUS_AWAY);
            part(&to);
        }
    }
    expect_nop(&c);
    card_close(&c);
    state_remove(path);
}

/*
 * There is no fabric during the migration. When it is started again, the paused
 * QEMU does not connect, so the other QEMU gets the HCA.
 */
static void test_away(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    Card c, to;

    card_open(&c, "");
    card_start(&c);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
    fabric_kill(&c.fabric);
    expect_status(&c, OHCA_STATUS_AWAY);
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "completed");
    fabric_start(&c.fabric);
    await(&to, &c, uri, "", "");
    expect_state(to.qs->qts, "query-status", "paused");
    /* longer than the delay after which the first QEMU would connect */
    g_usleep(300000);
    qtest_qmp_assert_success(to.qs->qts, "{'execute': 'cont'}");
    expect_status(&to, OHCA_STATUS_READY);
    card_reset(&to);
    card_start(&to);
    expect_nop(&to);
    to.fabric = c.fabric;
    part(&c);
    card_close(&to);
    state_remove(path);
}

/* Start a QEMU that cannot get the card: it must print @why and exit. */
static void expect_no_machine(const Card *c, const char *uri, const char *props,
                              const char *why)
{
    g_autofree char *cmd = g_strdup_printf("%s -M pc -accel qtest -display none "
        "-nodefaults -bios %s " SHARED " -device ohca,id=card,fabric=%s,%s "
        "-incoming %s", g_getenv("QTEST_QEMU_BINARY"), bios, c->fabric.path, props,
        uri);
    g_autofree char *err = NULL;
    int status;

    g_assert(g_spawn_command_line_sync(cmd, NULL, &err, &status, NULL));
    g_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    g_test_message("%s", err);
    g_assert(strstr(err, why));
}

/*
 * Restart the fabric after the stream is written. A QEMU that loads the stream
 * later finds no HCA to take over, reports this and exits; a QEMU that has
 * loaded it before has lost the HCA. Where the machine continues, its card is
 * as after power-on.
 */
static void test_restart(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    g_autofree char *log = g_strdup_printf("%s-log", path);
    g_autofree char *log_to = g_strdup_printf(" 2>%s", log);
    g_autofree char *said = NULL;
    Card c, to;
    int i;

    card_open(&c, "");
    for (i = 0; i < 2; i++) {
        card_start(&c);
        expect_nop(&c);
        qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
        send_to(&c, uri);
        expect_state(c.qs->qts, "query-migrate", "completed");
        if (i) {
            await(&to, &c, uri, "", log_to);
            expect_state(to.qs->qts, "query-status", "paused");
        }
        fabric_kill(&c.fabric);
        expect_status(&c, OHCA_STATUS_AWAY);
        fabric_start(&c.fabric);
        if (i) {
            expect_status(&to, OHCA_STATUS_AWAY);
            part(&c);
            qtest_qmp_assert_success(to.qs->qts, "{'execute': 'cont'}");
            expect_status(&to, OHCA_STATUS_READY);
        } else {
            expect_no_machine(&c, uri, "vls=8", "no HCA to be taken over");
            qtest_qmp_assert_success(c.qs->qts, "{'execute': 'cont'}");
            expect_status(&c, OHCA_STATUS_READY);
        }
    }
    card_start(&to);
    expect_nop(&to);
    g_assert(g_file_get_contents(log, &said, NULL, NULL));
    g_test_message("%s", said);
    g_assert(strstr(said, "card lost its HCA while the machine did not run"));
    unlink(log);
    to.fabric = c.fabric;
    card_close(&to);
    state_remove(path);
}

static void test_strangers(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    Card c;

    card_open(&c, "");
    card_start(&c);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "completed");
    expect_no_machine(&c, uri, "guid=0x5", "card: guid is 0x5, but the machine's state");
    expect_no_machine(&c, uri, "vls=4", "other properties");
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'cont'}");
    /* the stream is of a machine that has continued here */
    expect_no_machine(&c, uri, "vls=8", "no HCA to be taken over");
    expect_nop(&c);
    card_close(&c);
    state_remove(path);
}

/* A stream with an invalid GUID is refused. */
static void test_guid(void)
{
    static const uint64_t bad[] = { 0, UINT64_MAX, UINT64_MAX - 1 };
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    const uint64_t guid = cpu_to_be64(GUID);
    g_autofree char *state = NULL;
    char *at, *last;
    size_t i, n;
    Card c;

    card_open(&c, "");
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'stop'}");
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "completed");
    g_assert(g_file_get_contents(path, &state, &n, NULL));
    /* the stream has the GUID only once: it is not in guest memory */
    at = memmem(state, n, &guid, sizeof(guid));
    g_assert(at);
    last = at + sizeof(guid);
    g_assert(!memmem(last, state + n - last, &guid, sizeof(guid)));
    for (i = 0; i < ARRAY_SIZE(bad); i++) {
        stq_be_p(at, bad[i]);
        g_assert(g_file_set_contents(path, state, n, NULL));
        expect_no_machine(&c, uri, "vls=8", "is not a GUID");
    }
    stq_be_p(at, GUID + 1);
    g_assert(g_file_set_contents(path, state, n, NULL));
    /* a valid GUID, but not that of the HCA of the token */
    expect_no_machine(&c, uri, "vls=8", "other properties");
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'cont'}");
    card_start(&c);
    g_assert_cmphex(guid_of(&c), ==, GUID);
    card_close(&c);
    state_remove(path);
}

/* Create an image by a job of QEMU. */
static void create(QTestState *qts, QDict *options)
{
    g_autofree char *status = NULL;
    int i;

    qtest_qmp_assert_success(qts, "{'execute': 'blockdev-create', 'arguments': "
                             "{'job-id': 'job', 'options': %p}}", options);
    for (i = 0; i < 30000 && g_strcmp0(status, "concluded"); i++) {
        QDict *rsp = qtest_qmp(qts, "{'execute': 'query-jobs'}");
        QDict *job = qobject_to(QDict, qlist_peek(qdict_get_qlist(rsp, "return")));

        g_free(status);
        status = g_strdup(qdict_get_str(job, "status"));
        g_assert(!qdict_haskey(job, "error"));
        qobject_unref(rsp);
        g_usleep(1000);
    }
    g_assert_cmpstr(status, ==, "concluded");
    qtest_qmp_assert_success(qts, "{'execute': 'job-dismiss', 'arguments': "
                             "{'id': 'job'}}");
}

/* Add a disk that supports snapshots. */
static void add_disk(QTestState *qts, const char *path)
{
    create(qts, qdict_from_jsonf_nofail("{'driver': 'file', 'filename': %s, "
                                        "'size': 0}", path));
    qtest_qmp_assert_success(qts, "{'execute': 'blockdev-add', 'arguments': "
                             "{'driver': 'file', 'filename': %s, "
                             "'node-name': 'file'}}", path);
    create(qts, qdict_from_jsonf_nofail("{'driver': 'qcow2', 'file': 'file', "
                                        "'size': 1048576}"));
    qtest_qmp_assert_success(qts, "{'execute': 'blockdev-add', 'arguments': "
                             "{'driver': 'qcow2', 'file': 'file', "
                             "'node-name': 'disk'}}");
}

/* Check that a QMP command failed with @why. */
static void expect_error(QDict *r, const char *why)
{
    const char *desc = qdict_get_str(qdict_get_qdict(r, "error"), "desc");

    g_test_message("%s", desc);
    g_assert(strstr(desc, why));
    qobject_unref(r);
}

static void expect_blocked(Card *c, const char *uri, const char *why)
{
    expect_error(qtest_qmp(c->qs->qts, "{'execute': 'migrate', 'arguments': "
                           "{'uri': %s}}", uri), why);
    expect_nop(c);
}

/* A migration with this capability fails at once; the machine does not stop. */
static void expect_no_capability(Card *c, const char *uri, const char *name,
                                 const char *why)
{
    QTestState *qts = c->qs->qts;
    QDict *r;

    if (!set_capability(qts, name, true)) {
        g_test_message("QEMU has no %s here", name);
        return;
    }
    send_to(c, uri);
    expect_state(qts, "query-migrate", "failed");
    r = qtest_qmp(qts, "{'execute': 'query-migrate'}");
    g_test_message("%s", qdict_get_str(qdict_get_qdict(r, "return"), "error-desc"));
    g_assert(strstr(qdict_get_str(qdict_get_qdict(r, "return"), "error-desc"), why));
    qobject_unref(r);
    expect_state(qts, "query-status", "running");
    g_assert(!qtest_qmp_event_ref(qts, "STOP"));
    expect_nop(c);
    g_assert(set_capability(qts, name, false));
}

/* Unsupported kinds of migration are refused, and the machine continues. */
static void test_refused(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    g_autofree char *disk = g_strdup_printf("%s-disk", path);
    QDict *r;
    Card c, to;

    card_open(&c, "");
    card_start(&c);
    expect_no_capability(&c, uri, "postcopy-ram", "does not support postcopy");
    expect_no_capability(&c, uri, "x-colo", "does not support COLO");
    expect_no_capability(&c, uri, "background-snapshot", "has no snapshot");
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'migrate-set-parameters', "
                             "'arguments': {'mode': 'cpr-reboot'}}");
    expect_blocked(&c, uri, "supports only live migration");
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'migrate-set-parameters', "
                             "'arguments': {'mode': 'normal'}}");
    await(&to, &c, "defer", "", "");
    g_assert(!set_capability(to.qs->qts, "postcopy-ram", true));
    part(&to);
    add_disk(c.qs->qts, disk);
    r = qtest_qmp(c.qs->qts, "{'execute': 'human-monitor-command', 'arguments': "
                  "{'command-line': 'savevm x'}}");
    g_test_message("%s", qdict_get_str(r, "return"));
    g_assert(strstr(qdict_get_str(r, "return"), "has no snapshot"));
    qobject_unref(r);
    expect_nop(&c);
    card_close(&c);
    unlink(disk);
    state_remove(path);
}

static QDict *set_card(Card *c, const char *name, QObject *value)
{
    return qtest_qmp(c->qs->qts, "{'execute': 'qom-set', 'arguments': {'path': "
                     "'/machine/peripheral/card', 'property': %s, 'value': %p}}",
                     name, value);
}

static void expect_set(Card *c, const char *name, QObject *value)
{
    QDict *r = set_card(c, name, value);

    g_assert(!qdict_haskey(r, "error"));
    qobject_unref(r);
}

/*
 * A migration is refused at once while the card has state that cannot migrate
 * (x-deaf, x-lies). Such state cannot be set during a migration.
 */
static void test_blocked(void)
{
    g_autofree char *path = state_path();
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    Card c;

    card_open(&c, "");
    card_start(&c);
    expect_set(&c, "x-lies", QOBJECT(qnum_from_int(1 << 30)));
    expect_blocked(&c, uri, "card cannot migrate: x-lies");
    expect_set(&c, "x-deaf", QOBJECT(qbool_from_bool(true)));
    expect_set(&c, "x-lies", QOBJECT(qnum_from_int(0)));
    expect_error(qtest_qmp(c.qs->qts, "{'execute': 'migrate', 'arguments': "
                           "{'uri': %s}}", uri), "card cannot migrate: x-deaf");
    /* a reset clears x-deaf */
    card_reset(&c);
    card_start(&c);
    set_speed(&c, SLOW);
    send_to(&c, uri);
    expect_state(c.qs->qts, "query-migrate", "active");
    expect_error(set_card(&c, "x-deaf", QOBJECT(qbool_from_bool(true))), "in progress");
    expect_error(set_card(&c, "x-lies", QOBJECT(qnum_from_int(1))), "in progress");
    expect_nop(&c);
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'migrate_cancel'}");
    expect_state(c.qs->qts, "query-migrate", "cancelled");
    expect_nop(&c);
    expect_no_machine(&c, "defer", "x-lies=5 -only-migratable",
                      "disallowing migration blocker");
    card_close(&c);
    state_remove(path);
}

/* With memory on a disk a migration is refused. */
static void test_disk(void)
{
    char file[] = "ohca-ram-XXXXXX";
    int fd = g_mkstemp(file);
    g_autofree char *before = g_strdup_printf(
        " -m 128M -machine memory-backend=disk -object memory-backend-file,"
        "id=disk,size=128M,share=on,mem-path=%s", file);
    struct statfs fs;
    bool on_disk;
    Card c;

    g_assert_cmpint(fd, >=, 0);
    g_assert(!fstatfs(fd, &fs));
    on_disk = fs.f_type != TMPFS_MAGIC;
    close(fd);
    card_boot(&c, before, "");
    card_start(&c);
    if (on_disk) {
        expect_blocked(&c, "file:/dev/null", "has guest memory on a disk");
        /* the same after a restart of the fabric */
        fabric_kill(&c.fabric);
        expect_status(&c, OHCA_STATUS_AWAY);
        fabric_start(&c.fabric);
        expect_status(&c, OHCA_STATUS_READY);
        card_start(&c);
        expect_blocked(&c, "file:/dev/null", "has guest memory on a disk");
    }
    card_close(&c);
    unlink(file);
}

int main(int argc, char **argv)
{
    card_test_init(&argc, &argv);
    qtest_add_func("/ohca/move/moves", test_moves);
    qtest_add_func("/ohca/move/last", test_last);
    qtest_add_func("/ohca/move/iommu", test_iommu);
    qtest_add_func("/ohca/move/virtio-iommu", test_virtio_iommu);
    qtest_add_func("/ohca/move/two", test_two);
    qtest_add_func("/ohca/move/cancel", test_cancel);
    qtest_add_func("/ohca/move/stays", test_stays);
    qtest_add_func("/ohca/move/away", test_away);
    qtest_add_func("/ohca/move/restart", test_restart);
    qtest_add_func("/ohca/move/strangers", test_strangers);
    qtest_add_func("/ohca/move/guid", test_guid);
    qtest_add_func("/ohca/move/refused", test_refused);
    qtest_add_func("/ohca/move/blocked", test_blocked);
    qtest_add_func("/ohca/move/disk", test_disk);
    return card_test_run();
}
