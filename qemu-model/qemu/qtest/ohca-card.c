/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Helpers of the qtests: a machine with a card, a fabric, driver functions. */
#include "qemu/osdep.h"
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "qobject/qdict.h"
#include "ohca-card.h"

/* The machine executes no code, so the firmware may be empty. */
#define BIOS_SIZE   65536
char *bios;

void card_test_init(int *argc, char ***argv)
{
    int fd = g_file_open_tmp("ohca-bios-XXXXXX", &bios, NULL);

    g_assert(fd >= 0 && !ftruncate(fd, BIOS_SIZE));
    close(fd);
    g_test_init(argc, argv, NULL);
}

int card_test_run(void)
{
    int ret = g_test_run();

    unlink(bios);
    g_free(bios);
    return ret;
}

/* Keep the first card. */
static void found(QPCIDevice *dev, int devfn, void *data)
{
    QPCIDevice **first = data;

    if (*first) {
        g_free(dev);
    } else {
        *first = dev;
    }
}

QPCIDevice *card_find(QOSState *qs)
{
    QPCIDevice *dev = NULL;

    qpci_device_foreach(qs->pcibus, OHCA_PCI_VENDOR_ID,
                        OHCA_PCI_DEVICE_ID_PF, found, &dev);
    return dev;
}

uint32_t reg(Card *c, unsigned int off)
{
    return qpci_io_readl(c->dev, c->ctrl, off);
}

void expect_status(Card *c, uint32_t status)
{
    int i;

    for (i = 0; i < 30000 && reg(c, OHCA_REG_STATUS) != status; i++) {
        g_usleep(1000);
    }
    g_assert_cmphex(reg(c, OHCA_REG_STATUS), ==, status);
}

/* Map the registers of @c->dev, and allocate memory for its queues. */
void card_map(Card *c)
{
    g_assert(c->dev);
    qpci_device_enable(c->dev);
    c->ctrl = qpci_iomap(c->dev, OHCA_BAR_CTRL, NULL);
    c->aq = guest_alloc(&c->qs->alloc, 1 << 14);
    c->acq = guest_alloc(&c->qs->alloc, 1 << 14);
    c->mbox = guest_alloc(&c->qs->alloc, OHCA_MAILBOX_SIZE);
}

/* ---- the fabric ---- */

/* Whether a process listens at a socket. */
static bool listens(const char *path)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), r;

    g_strlcpy(sa.sun_path, path, sizeof(sa.sun_path));
    r = connect(fd, (struct sockaddr *)&sa, sizeof(sa));
    close(fd);
    return !r;
}

void fabric_start(Fabric *f)
{
    const char *program = g_getenv("OHCA_FABRIC");
    int i;

    g_assert(program);
    f->pid = fork();
    if (!f->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(program, program, "serve", "--generate", "star:4", "--hosts-off",
              "--quiet", "--listen", f->path,
              f->disk ? "--disk-memory" : NULL, NULL);
        _exit(127);
    }
    for (i = 0; i < 30000 && !listens(f->path); i++) {
        g_assert_cmpint(waitpid(f->pid, NULL, WNOHANG), ==, 0);
        g_usleep(1000);
    }
    g_assert_cmpint(i, <, 30000);
}

void fabric_kill(Fabric *f)
{
    kill(f->pid, SIGKILL);
    waitpid(f->pid, NULL, 0);
    f->pid = 0;
}

void fabric_open(Fabric *f)
{
    f->dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    f->path = g_strdup_printf("%s/fabric", f->dir);
    fabric_start(f);
}

void fabric_close(Fabric *f)
{
    fabric_kill(f);
    unlink(f->path);
    rmdir(f->dir);
    g_free(f->path);
    g_free(f->dir);
}

/* ---- the machine ---- */

void card_boot_at(Card *c, const char *before, const char *props)
{
    c->qs = qtest_pc_boot("-nodefaults -bios %s " SHARED "%s -device ohca,"
                          "guid=0x%" PRIx64 ",id=card,fabric=%s%s", bios, before,
                          (uint64_t)GUID, c->fabric.path, props);
    c->dev = card_find(c->qs);
    card_map(c);
    c->uar = qpci_iomap(c->dev, OHCA_BAR_UAR, NULL);
}

void card_boot(Card *c, const char *before, const char *props)
{
    memset(c, 0, sizeof(*c));
    c->fabric.disk = strstr(before, "mem-path=");
    fabric_open(&c->fabric);
    card_boot_at(c, before, props);
}

void card_open(Card *c, const char *props)
{
    card_boot(c, "", props);
}

void card_close(Card *c)
{
    g_free(c->dev);
    qtest_pc_shutdown(c->qs);
    fabric_close(&c->fabric);
}

void card_reset(Card *c)
{
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_CTRL, OHCA_CTRL_RESET);
    g_assert_cmphex(reg(c, OHCA_REG_STATUS), ==, OHCA_STATUS_READY);
}

/* The handshake, up to and including the write of ENABLE. */
void card_start(Card *c)
{
    card_reset(c);
    qtest_memset(c->qs->qts, c->aq, 0, 1 << 14);
    qtest_memset(c->qs->qts, c->acq, 0, 1 << 14);
    c->pi = 0;
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_PAGE_SHIFT, 12);
    qpci_io_writeq(c->dev, c->ctrl, OHCA_REG_FEATURES_ACK,
                   qpci_io_readq(c->dev, c->ctrl, OHCA_REG_FEATURES) &
                   ~(1ull << OHCA_FEATURE_BIG_ENDIAN));
    qpci_io_writeq(c->dev, c->ctrl, OHCA_REG_AQ_BASE, c->aq);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_ACQ_BASE, c->acq);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_ACQ_BASE + 4, c->acq >> 32);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_LOG_SIZE, LOG_AQ);
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_CTRL, OHCA_CTRL_ENABLE);
}

void card_post(Card *c, struct ohca_hw_aqe *cmd)
{
    uint32_t slot = c->pi % SLOTS;

    cmd->hdr.cookie = cpu_to_le32(0xc0de0000 + c->pi);
    qtest_memwrite(c->qs->qts, c->aq + slot * sizeof(*cmd), cmd, sizeof(*cmd));
    qpci_io_writel(c->dev, c->ctrl, OHCA_REG_AQ_DB, ++c->pi);
}

/* Whether the last command has completed. */
bool card_done(Card *c, struct ohca_hw_acqe *r)
{
    uint32_t slot = (c->pi - 1) % SLOTS, pass = (c->pi - 1) / SLOTS;

    qtest_memread(c->qs->qts, c->acq + slot * sizeof(*r), r, sizeof(*r));
    return (r->phase & 1) == !(pass & 1);
}

struct ohca_hw_acqe card_wait(Card *c)
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
struct ohca_hw_acqe card_cmd(Card *c, struct ohca_hw_aqe *cmd)
{
    struct ohca_hw_acqe r;

    card_post(c, cmd);
    r = card_wait(c);
    g_assert_cmpint(r.opcode, ==, cmd->hdr.opcode);
    return r;
}

void expect_nop(Card *c)
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_NOP };

    g_assert_cmpint(card_cmd(c, &cmd).status, ==, OHCA_ADMIN_OK);
}

/* Get (@method 1) or Set (2) PortInfo of a port by the card's own SMA. */
void card_info_of_port(Card *c, uint8_t port, uint8_t method, uint8_t pi[64])
{
    struct ohca_hw_aqe cmd = { .hdr.opcode = OHCA_CMD_MAD_IFC };
    /* an LID routed SMP */
    uint8_t mad[256] = { 1, 1, 1, method, [17] = 0x15, [23] = port };

    memcpy(mad + 64, pi, 64);
    qtest_memwrite(c->qs->qts, c->mbox, mad, sizeof(mad));
    cmd.mad_ifc.in_addr = cpu_to_le64(c->mbox);
    cmd.mad_ifc.out_addr = cpu_to_le64(c->mbox);
    cmd.mad_ifc.port = port;
    cmd.mad_ifc.flags = OHCA_MAD_IFC_IGNORE_MKEY;
    g_assert_cmpint(card_cmd(c, &cmd).status, ==, OHCA_ADMIN_OK);
    qtest_memread(c->qs->qts, c->mbox, mad, sizeof(mad));
    g_assert_cmphex(mad[3], ==, 0x81);
    memcpy(pi, mad + 64, 64);
}

void card_port_info(Card *c, uint8_t method, uint8_t pi[64])
{
    card_info_of_port(c, 1, method, pi);
}

static unsigned int card_phys_state(Card *c, uint8_t port)
{
    uint8_t pi[64] = { };

    card_info_of_port(c, port, 1, pi);
    return pi[33] >> 4;
}

void expect_phys_state_of(Card *c, uint8_t port, unsigned int state)
{
    int i;

    for (i = 0; i < 30000 && card_phys_state(c, port) != state; i++) {
        g_usleep(1000);
    }
    g_assert_cmpint(i, <, 30000);
}

void expect_phys_state(Card *c, unsigned int state)
{
    expect_phys_state_of(c, 1, state);
}

/* ---- an IOMMU ---- */

/* Allocate a zeroed page. */
uint64_t vtd_page(Card *c)
{
    uint64_t page = guest_alloc(&c->qs->alloc, 4096);

    qtest_memset(c->qs->qts, page, 0, 4096);
    return page;
}

/* A root table, a context table and one mapping, of 1 GiB to itself. */
uint64_t vtd_tables(Card *c)
{
    uint64_t root = vtd_page(c), context = vtd_page(c), level3 = vtd_page(c);
    unsigned int devfn = c->dev->devfn;

    qtest_writeq(c->qs->qts, root, context | 1);
    qtest_writeq(c->qs->qts, context + 16 * devfn, level3 | 1);
    qtest_writeq(c->qs->qts, context + 16 * devfn + 8, 1 << 8 | 1);
    qtest_writeq(c->qs->qts, level3, 0x83);
    return root;
}

/* Invalidate the IOTLB, after a change of the tables. */
void vtd_invalidate(Card *c)
{
    qtest_writeq(c->qs->qts, VTD_BASE + VTD_IOTLB, VTD_IVT | VTD_GLOBAL);
}

void vtd_command(Card *c, uint32_t bit, uint32_t value)
{
    qtest_writel(c->qs->qts, VTD_BASE + VTD_GCMD, value);
    g_assert_cmphex(qtest_readl(c->qs->qts, VTD_BASE + VTD_GSTS) & bit, ==,
                    value & bit);
}

/* ---- refusals ---- */

void expect_refusal(QTestState *qts, const char *props, const char *why)
{
    g_autofree char *cmd = g_strdup_printf("{'execute': 'device_add', "
        "'arguments': {'driver': 'ohca', 'id': 'bad'%s}}", props);
    QDict *rsp, *err;

    qtest_qmp_send_raw(qts, "%s", cmd);
    rsp = qtest_qmp_receive(qts);
    err = qdict_get_qdict(rsp, "error");
    g_assert(err);
    g_test_message("%s", qdict_get_str(err, "desc"));
    g_assert(strstr(qdict_get_str(err, "desc"), why));
    qobject_unref(rsp);
}
