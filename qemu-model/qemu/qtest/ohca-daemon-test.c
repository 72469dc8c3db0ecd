/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qtest of cards and ohca-fabric: refusals, hotplug, connections, dirty memory. */
#include "qemu/osdep.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "hw/pci/pci_regs.h"
#include "hw/rdma/core/front/proto.h"
#include "ohca-card.h"

/* Register of ACPI that ejects slots */
#define ACPI_EJECT  0xae08

/* ---- a fabric whose answers change ---- */

/*
 * A thread that has the fabric's socket and passes messages between QEMU and
 * the fabric. The test may change the fields that follow @thread at any time.
 */
typedef struct Proxy {
    int listener;
    char *real;                 /* path of the fabric's socket now */
    GThread *thread;
    unsigned int type;          /* of messages whose answers it changes */
    unsigned int delay_ms;      /* before such an answer */
    unsigned int status;        /* of such an answer, if not 0 */
    bool end;                   /* end the connection instead of an answer */
    unsigned int seen;          /* such messages so far */
} Proxy;

static int proxy_connect(const char *path)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    g_strlcpy(sa.sun_path, path, sizeof(sa.sun_path));
    g_assert(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
    return fd;
}

/* Change an answer. Returns: false: end the connection */
static bool proxy_change(Proxy *p, struct ohca_front_done *done)
{
    g_usleep(p->delay_ms * 1000);
    if (p->status) {
        done->status = cpu_to_le32(p->status);
    }
    return !p->end;
}

/*
 * Pass a message from @from to @to. @type is the type of QEMU's last message.
 *
 * Returns: false: there is no message, or no connection
 */
static bool proxy_pass(Proxy *p, int from, int to, bool from_qemu, int *type)
{
    static uint8_t buf[OHCA_FRONT_MAX];
    union {
        char buf[CMSG_SPACE(OHCA_FRONT_FDS * sizeof(int))];
        struct cmsghdr align;
    } c;
    struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
                        .msg_controllen = sizeof(c.buf) };
    ssize_t n = recvmsg(from, &m, 0);
    struct cmsghdr *cm = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    unsigned int i, fds = cm ? (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    bool ok = n > 0;

    if (ok && from_qemu) {
        *type = le16_to_cpu(((struct ohca_front_hdr *)buf)->type);
        p->seen += *type == p->type;
    } else if (ok && *type == p->type) {
        ok = proxy_change(p, (void *)buf);
    }
    iov.iov_len = MAX(n, 0);
    ok = ok && sendmsg(to, &m, MSG_NOSIGNAL) == n;
    for (i = 0; i < fds; i++) {
        close(((int *)CMSG_DATA(cm))[i]);
    }
    return ok;
}

static void *proxy_run(void *opaque)
{
    Proxy *p = opaque;
    int qemu, type;

    while ((qemu = accept(p->listener, NULL, NULL)) >= 0) {
        struct pollfd fds[2] = {
            { .fd = qemu, .events = POLLIN },
            { .fd = proxy_connect(p->real), .events = POLLIN },
        };
        bool ok = true;

        type = 0;
        while (ok && poll(fds, 2, -1) > 0) {
            bool from_qemu = fds[0].revents;

            ok = proxy_pass(p, fds[!from_qemu].fd, fds[from_qemu].fd, from_qemu,
                            &type);
        }
        close(fds[0].fd);
        close(fds[1].fd);
    }
    return NULL;
}

/* Put a proxy in front of a fabric. */
static void proxy_open(Proxy *p, Fabric *f)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };

    *p = (Proxy) { .real = g_strdup_printf("%s.real", f->path) };
    g_assert(!rename(f->path, p->real));
    p->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    g_strlcpy(sa.sun_path, f->path, sizeof(sa.sun_path));
    g_assert(!bind(p->listener, (struct sockaddr *)&sa, sizeof(sa)));
    g_assert(!listen(p->listener, 8));
    p->thread = g_thread_new("proxy", proxy_run, p);
}

/* Only after all machines have ended. */
static void proxy_close(Proxy *p)
{
    shutdown(p->listener, SHUT_RDWR);
    g_thread_join(p->thread);
    close(p->listener);
    unlink(p->real);
    g_free(p->real);
}

/* ---- tests ---- */

/* Plug a second card. */
static Card plug(Card *c, const char *id)
{
    Card second = { .qs = c->qs };

    qtest_qmp_device_add(c->qs->qts, "ohca", id, "{'fabric': %s, "
                         "'addr': '6', 'dm': 65536}", c->fabric.path);
    second.dev = qpci_device_find(c->qs->pcibus, QPCI_DEVFN(6, 0));
    card_map(&second);
    return second;
}

/* Plug and unplug cards while the machine runs; each gets a link. */
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

/* A card can access the device memory of a peer, but not its registers. */
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

/* Without a process the device is AWAY and ignores writes. */
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

/* The process ends. After its restart the card is as after power-on. */
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

/* A stopped process is lost at the first call; QEMU connects again later. */
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

/* With x-lies the process returns wrong values, also in registers. */
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

/* Refused: a port that the fabric does not have; memory that is not shared. */
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

/* Memory on a disk is refused by a fabric without --disk-memory. */
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

/*
 * When a device is realized, the process does not accept memory on a disk, for
 * another reason than that it is on a disk. The error has the reason.
 */
static void test_disk_reasons(void)
{
    static const struct {
        unsigned int type, status;
        bool end;
        const char *why;
    } reasons[] = {
        { OHCA_FRONT_BLOCK, OHCA_FRONT_NOT_SHARED, false, "--disk-memory" },
        { OHCA_FRONT_BLOCK, OHCA_FRONT_LIMIT, false, "--front-memory" },
        { OHCA_FRONT_BLOCK, OHCA_FRONT_NO_MEMORY, false,
          "ohca-fabric is out of memory" },
        { OHCA_FRONT_BLOCK, 0, true, "closed the socket" },
        { OHCA_FRONT_LOG, OHCA_FRONT_LIMIT, false, "--front-memory" },
        { OHCA_FRONT_LOG, OHCA_FRONT_INVALID, false, "refused a log" },
    };
    char file[] = "ohca-ram-XXXXXX";
    int fd = g_mkstemp(file);
    g_autofree char *args = g_strdup_printf(
        "-machine memory-backend=disk -object memory-backend-file,id=disk,"
        "size=128M,share=on,mem-path=%s", file);
    Fabric f = { .disk = true };
    g_autofree char *props = NULL;
    QTestState *qts;
    unsigned int i;
    Proxy p;

    g_assert_cmpint(fd, >=, 0);
    if (fcntl(fd, F_GET_SEALS) >= 0) {
        g_test_skip("the directory is in memory");
        close(fd);
        unlink(file);
        return;
    }
    close(fd);
    fabric_open(&f);
    proxy_open(&p, &f);
    props = g_strdup_printf(", 'fabric': '%s'", f.path);
    qts = machine(args);
    for (i = 0; i < ARRAY_SIZE(reasons); i++) {
        p.type = reasons[i].type;
        p.status = reasons[i].status;
        p.end = reasons[i].end;
        expect_refusal(qts, props, reasons[i].why);
    }
    qtest_quit(qts);
    proxy_close(&p);
    fabric_close(&f);
    unlink(file);
}

/* An IOMMU without notifications of mappings is refused. */
static void test_iommu(void)
{
    QTestState *qts = machine(SHARED " -machine q35 -device intel-iommu"
                              " -device pcie-root-port,id=rp,addr=5");

    expect_refusal(qts, ", 'fabric': '/x', 'bus': 'rp'", "caching mode");
    qtest_quit(qts);
}

/* QEMU waits briefly for a process that does not answer or does not accept. */
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
    /* fill the backlog */
    for (i = 0; i < 2; i++) {
        busy = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        if (connect(busy, (struct sockaddr *)&sa, sizeof(sa))) {
            break;
        }
    }
    expect_refusal(c.qs->qts, props, "too many connections wait");
    expect_nop(&c);
    card_close(&c);
    close(listener);
    close(busy);
    unlink(path);
    rmdir(dir);
}

#define MAPS_TABLES 128         /* of 512 mappings */
#define MAPS_CALLS  (MAPS_TABLES * 512 / 256)
#define SLOW_MS     40

/*
 * The guest enables bus mastering behind an IOMMU with many mappings. QEMU does
 * not wait for a slow process as long as that needs for all of them.
 */
static void test_slow_maps(void)
{
    uint64_t root, level3, level2, level1, table[512];
    int64_t begin, end;
    uint16_t command;
    Proxy p;
    Card c;
    int i;

    memset(&c, 0, sizeof(c));
    fabric_open(&c.fabric);
    proxy_open(&p, &c.fabric);
    card_boot_at(&c, VTD_MACHINE, VTD_CARD);
    command = qpci_config_readw(c.dev, PCI_COMMAND);
    g_assert(command & PCI_COMMAND_MASTER);
    qpci_config_writew(c.dev, PCI_COMMAND, command & ~PCI_COMMAND_MASTER);
    root = vtd_tables(&c);
    level3 = qtest_readq(c.qs->qts, qtest_readq(c.qs->qts, root) - 1 +
                         16 * c.dev->devfn) - 1;
    level2 = vtd_page(&c);
    qtest_writeq(c.qs->qts, level3 + 8, level2 | 3);
    for (i = 0; i < 512; i++) {
        table[i] = cpu_to_le64(c.mbox | 3);
    }
    for (i = 0; i < MAPS_TABLES; i++) {
        level1 = vtd_page(&c);
        qtest_memwrite(c.qs->qts, level1, table, sizeof(table));
        qtest_writeq(c.qs->qts, level2 + 8 * i, level1 | 3);
    }
    qtest_writeq(c.qs->qts, VTD_BASE + VTD_RTADDR, root);
    vtd_command(&c, VTD_SRTP, VTD_SRTP);
    vtd_command(&c, VTD_TE, VTD_TE);
    p.delay_ms = SLOW_MS;
    p.type = OHCA_FRONT_UNMAP;
    begin = g_get_monotonic_time();
    qpci_config_writew(c.dev, PCI_COMMAND, command);
    end = g_get_monotonic_time();
    g_test_message("%u calls, %u ms", p.seen, (int)(end - begin) / 1000);
    g_assert_cmpint(p.seen, >=, 1);
    g_assert_cmpint(end - begin, <, MAPS_CALLS * SLOW_MS * 1000 / 2);
    expect_status(&c, OHCA_STATUS_AWAY);
    /* the process has become faster */
    p.delay_ms = 0;
    expect_status(&c, OHCA_STATUS_READY);
    card_start(&c);
    expect_nop(&c);
    g_free(c.dev);
    qtest_pc_shutdown(c.qs);
    proxy_close(&p);
    fabric_close(&c.fabric);
}

/*
 * Plug a card into a slot whose last card was just unplugged, and whose memory
 * RCU has not freed yet. Its BARs were mapped, so the memory was in an address
 * space.
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
        /* do not wait for DEVICE_DELETED, which follows an RCU grace period */
        qtest_qmp_device_del_send(c.qs->qts, "second");
        qtest_outl(c.qs->qts, ACPI_EJECT, 1 << 6);
    }
    expect_nop(&c);
    card_close(&c);
}

/* ---- dirty memory ---- */

/* Addresses of a MAD whose TransactionID is a function, and of its result. */
#define CODE        0x8000
#define RESULT      0x7000
#define VERSIONS    200

/* Write firmware of @n bytes, at most 0xfff0. */
static void write_firmware(const uint8_t *code, size_t n)
{
    /* ljmp $0xf000, $0 */
    static const uint8_t reset[] = { 0xea, 0x00, 0x00, 0x00, 0xf0 };
    int fd = open(bios, O_WRONLY);

    g_assert(fd >= 0);
    g_assert_cmpint(pwrite(fd, code, n, 0), ==, n);
    g_assert_cmpint(pwrite(fd, reset, sizeof(reset), 0xfff0), ==,
                    sizeof(reset));
    close(fd);
}

/* Write firmware that calls the function in a loop. */
static void write_caller(void)
{
    static const uint8_t caller[] = {
        0xfa,                           /* cli */
        0x31, 0xc0,                     /* xor %ax, %ax */
        0x8e, 0xd8,                     /* mov %ax, %ds */
        0x8e, 0xd0,                     /* mov %ax, %ss */
        0xbc, 0x00, 0x70,               /* mov $0x7000, %sp */
        0x9a, 0x08, 0x80, 0x00, 0x00,   /* lcall $0, $0x8008 */
        0xa3, 0x00, 0x70,               /* mov %ax, 0x7000 */
        0xeb, 0xf6,                     /* jmp to the lcall */
    };

    write_firmware(caller, sizeof(caller));
}

/* Make a MAD with a function that returns @version. */
static void make_mad(uint8_t mad[256], uint16_t version)
{
    /* mov $version, %ax; lret */
    const uint8_t code[4] = { 0xb8, version, version >> 8, 0xcb };

    memset(mad, 0, 256);
    mad[0] = mad[1] = mad[2] = mad[3] = mad[23] = 1;
    mad[17] = 0x15;
    memcpy(mad + 8, code, sizeof(code));
}

/* Have the card overwrite the function by the answer of its SMA. */
static void replace(Card *c, uint16_t version)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_MAD_IFC };
    uint8_t mad[256];

    make_mad(mad, version);
    qtest_memwrite(c->qs->qts, c->mbox, mad, sizeof(mad));
    cmd.mad_ifc.in_addr = cpu_to_le64(c->mbox);
    cmd.mad_ifc.out_addr = cpu_to_le64(CODE);
    cmd.mad_ifc.port = 1;
    cmd.mad_ifc.flags = OHCA_MAD_IFC_IGNORE_MKEY;
    g_assert_cmpint(card_cmd(c, &cmd).status, ==, OHCA_ADMIN_OK);
}

static void expect_result(Card *c, uint16_t version)
{
    int i;

    for (i = 0; i < 30000 && qtest_readw(c->qs->qts, RESULT) != version; i++) {
        g_usleep(1000);
    }
    g_assert_cmpint(qtest_readw(c->qs->qts, RESULT), ==, version);
}

/*
 * A vCPU of TCG executes the code that the card has written, not code that it
 * has translated before: after an interrupt, and after a doorbell.
 */
static void test_code(void)
{
    uint8_t mad[256];
    Card c;
    int i;

    write_caller();
    card_boot(&c, " -accel tcg -S", "");
    make_mad(mad, 0xffff);
    qtest_memwrite(c.qs->qts, CODE, mad, sizeof(mad));
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'cont'}");
    card_start(&c);
    expect_result(&c, 0xffff);
    for (i = 1; i <= VERSIONS; i++) {
        qpci_io_writel(c.dev, c.ctrl, OHCA_REG_AQ_INTR, i % 2);
        replace(&c, i);
        if (i % 2 == 0) {
            qpci_io_writeq(c.dev, c.uar, OHCA_UAR_EQ, 0);
        }
        expect_result(&c, i);
    }
    card_close(&c);
}

#define COUNT       0x7000      /* of reads */
#define WRONG       0x7004      /* of reads that returned something else */
#define CHANGES     1000        /* at least so many, and so many reads */

/* Write firmware that reads the version of the local APIC in a loop. */
static void write_reader(void)
{
    static const uint8_t reader[] = {
        0xfa,                           /* cli */
        0x2e, 0x66, 0x0f, 0x01, 0x16, 0x40, 0x00,       /* lgdtl %cs:0x40 */
        0x0f, 0x20, 0xc0,               /* mov %cr0, %eax */
        0x0c, 0x01,                     /* or $1, %al */
        0x0f, 0x22, 0xc0,               /* mov %eax, %cr0 */
        0x66, 0xea, 0x18, 0x00, 0x0f, 0x00, 0x08, 0x00, /* ljmpl $8, $0xf0018 */
        0x66, 0xb8, 0x10, 0x00,         /* mov $16, %ax */
        0x8e, 0xd8,                     /* mov %ax, %ds */
        0xbb, 0x30, 0x00, 0xe0, 0xfe,   /* mov $0xfee00030, %ebx */
        0xbf, 0x00, 0x70, 0x00, 0x00,   /* mov $0x7000, %edi */
        /* work between two reads, in which the memory map may change */
        0xb9, 0xc8, 0x00, 0x00, 0x00,   /* mov $200, %ecx */
        0x49,                           /* dec %ecx */
        0x75, 0xfd,                     /* jnz to the dec */
        0x8b, 0x03,                     /* mov (%ebx), %eax */
        0xff, 0x07,                     /* incl (%edi) */
        0x3d, 0x14, 0x00, 0x05, 0x00,   /* cmp $0x50014, %eax */
        0x74, 0xed,                     /* je to the mov $200 */
        0xff, 0x47, 0x04,               /* incl 4(%edi) */
        0xeb, 0xe8,                     /* jmp to the mov $200 */
        /* 0x40: GDTR, and the GDT at 0x48: code and data, from 0 to 4 GiB */
        0x17, 0x00, 0x48, 0x00, 0x0f, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0xff, 0xff, 0x00, 0x00, 0x00, 0x9b, 0xcf, 0x00,
        0xff, 0xff, 0x00, 0x00, 0x00, 0x93, 0xcf, 0x00,
    };

    write_firmware(reader, sizeof(reader));
}

/*
 * While the memory map changes, a vCPU of TCG accesses the register that it
 * means (tools/qemu.patch).
 */
static void test_map(void)
{
    uint32_t first;
    Card c;
    int i;

    write_reader();
    card_boot(&c, " -accel tcg", "");
    for (i = 0; i < 30000 && !qtest_readl(c.qs->qts, COUNT); i++) {
        g_usleep(1000);
    }
    first = qtest_readl(c.qs->qts, COUNT);
    g_assert_cmpint(first, !=, 0);
    for (i = 0; i < CHANGES ||
         (i < 100 * CHANGES &&
          qtest_readl(c.qs->qts, COUNT) - first < CHANGES); i++) {
        qpci_config_writew(c.dev, PCI_COMMAND, i % 2 ? PCI_COMMAND_MEMORY : 0);
    }
    g_assert_cmpint(qtest_readl(c.qs->qts, WRONG), ==, 0);
    g_assert_cmpint(qtest_readl(c.qs->qts, COUNT) - first, >=, CHANGES);
    card_close(&c);
}

/* Whether a log of QEMU shows that the page with @addr was marked dirty. */
static bool was_announced(const char *path, uint64_t addr)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    char **line;

    g_assert(g_file_get_contents(path, &text, NULL, NULL));
    lines = g_strsplit(text, "\n", 0);
    for (line = lines; *line; line++) {
        const char *at = strstr(*line, " at 0x");
        uint64_t off, len;

        if (at && sscanf(at, " at 0x%" SCNx64 ", %" SCNu64, &off, &len) == 2 &&
            addr - off < len) {
            return true;
        }
    }
    return false;
}

/* Pages that the card has written are in the dirty log of QEMU. */
static void test_dirty(void)
{
    g_autofree char *log = NULL, *args = NULL;
    int fd = g_file_open_tmp("ohca-log-XXXXXX", &log, NULL);
    Card c;

    g_assert(fd >= 0);
    close(fd);
    args = g_strdup_printf(" -trace ohca_dirty -D %s", log);
    card_boot(&c, args, "");
    card_start(&c);
    expect_nop(&c);
    g_assert(!was_announced(log, c.acq));
    qtest_qmp_assert_success(c.qs->qts, "{'execute': 'calc-dirty-rate', "
                             "'arguments': {'calc-time': 1, "
                             "'mode': 'dirty-bitmap'}}");
    for (;;) {
        QDict *rsp = qtest_qmp_assert_success_ref(c.qs->qts,
            "{'execute': 'query-dirty-rate'}");
        bool measured = g_str_equal(qdict_get_str(rsp, "status"), "measured");

        qobject_unref(rsp);
        if (measured) {
            break;
        }
        g_usleep(10000);
    }
    g_assert(was_announced(log, c.acq));
    g_assert(!was_announced(log, c.mbox));
    expect_nop(&c);
    card_close(&c);
    unlink(log);
}

/* Unplug a card while the delivery of its interrupt is queued on a vCPU. */
static void test_pulled(void)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_NOP };
    Card c, second;
    int i;

    card_open(&c, "");
    card_start(&c);
    for (i = 0; i < 20; i++) {
        second = plug(&c, "second");
        qpci_msix_enable(second.dev);
        card_start(&second);
        qpci_io_writel(second.dev, second.ctrl, OHCA_REG_AQ_INTR, 1);
        expect_nop(&second);
        card_post(&second, &cmd);
        g_free(second.dev);
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
    qtest_add_func("/ohca/daemon/pulled", test_pulled);
    qtest_add_func("/ohca/daemon/peer-to-peer", test_peer_to_peer);
    qtest_add_func("/ohca/daemon/killed", test_killed);
    qtest_add_func("/ohca/daemon/stopped", test_stopped);
    qtest_add_func("/ohca/daemon/silent", test_silent);
    qtest_add_func("/ohca/daemon/lies", test_lies);
    qtest_add_func("/ohca/daemon/refused", test_refused);
    qtest_add_func("/ohca/daemon/disk", test_disk);
    qtest_add_func("/ohca/daemon/disk-reasons", test_disk_reasons);
    qtest_add_func("/ohca/daemon/iommu", test_iommu);
    qtest_add_func("/ohca/daemon/slow-maps", test_slow_maps);
    qtest_add_func("/ohca/daemon/code", test_code);
    qtest_add_func("/ohca/daemon/map", test_map);
    qtest_add_func("/ohca/daemon/dirty", test_dirty);
    return card_test_run();
}
