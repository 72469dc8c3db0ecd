/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random writes of a guest ("lies") to configuration space, all BARs, guest
 * memory, the admin queue and the fabric's socket.
 *
 * OHCA_SEED sets the seed, OHCA_SECONDS the duration. The card may refuse or
 * fail. After a function-level reset it must work again. QEMU and the process
 * ohca-fabric must not exit.
 */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include <sys/un.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "hw/pci/pci_regs.h"
#include "ohca-card.h"

#define PAGES       32u         /* pages of guest memory in commands */
#define PAGE        4096u
#define EPISODE     300         /* lies between two resets */
#define CONFIG      256u        /* bytes of configuration space */

typedef struct Guest {
    QOSState *qs;
    QTestState *qts;
    QPCIDevice *dev;
    QPCIBar bar[4];             /* registers, UAR, MSI-X, device memory */
    uint64_t size[4];
    uint32_t config[CONFIG / 4];
    uint64_t aq, acq, mem;
    uint32_t pi;
    uint32_t last;              /* handle that the last command returned */
    GRand *rand;
    const char *path;
    int peer;
} Guest;

static uint64_t lies;

static const int bars[4] = {
    OHCA_BAR_CTRL, OHCA_BAR_UAR, OHCA_BAR_MSIX, OHCA_BAR_DM,
};

static uint32_t draw(Guest *g, uint32_t n)
{
    return g_rand_int(g->rand) % n;
}

/* Numbers are mostly small, or near a power of two. */
static uint64_t number(Guest *g)
{
    uint64_t any = (uint64_t)g_rand_int(g->rand) << 32 | g_rand_int(g->rand);

    switch (draw(g, 4)) {
    case 0:
        return any;
    case 1:
        return (1ull << draw(g, 64)) + any % 3 - 1;
    default:
        return any % 16;
    }
}

static uint64_t page(Guest *g)
{
    return g->mem + (uint64_t)draw(g, PAGES) * PAGE;
}

/* ---- lies ---- */

static void lie_config(Guest *g)
{
    unsigned int at = 4 + draw(g, CONFIG - 4);
    uint64_t v = number(g);

    switch (draw(g, 3)) {
    case 0:
        qpci_config_writeb(g->dev, at, v);
        break;
    case 1:
        qpci_config_writew(g->dev, at & ~1u, v);
        break;
    default:
        qpci_config_writel(g->dev, at & ~3u, v);
    }
    /* mostly, keep the card accessible */
    if (draw(g, 4)) {
        qpci_config_writew(g->dev, PCI_COMMAND, PCI_COMMAND_MEMORY |
                           PCI_COMMAND_MASTER);
    }
}

static void lie_mmio(Guest *g)
{
    unsigned int i = draw(g, 4);
    uint64_t span = i == 0 ? 0x60 : MIN(g->size[i], 0x3000);
    uint64_t addr = g->bar[i].addr + draw(g, span), v = number(g);

    switch (draw(g, 8)) {
    case 0:
        qtest_readb(g->qts, addr);
        break;
    case 1:
        qtest_readl(g->qts, addr);
        break;
    case 2:
        qtest_readq(g->qts, addr);
        break;
    case 3:
        qtest_writeb(g->qts, addr, v);
        break;
    case 4:
        qtest_writew(g->qts, addr & ~1ull, v);
        break;
    case 5:
        qtest_writel(g->qts, addr & ~3ull, v);
        break;
    default:
        qtest_writeq(g->qts, addr & ~7ull, v);
    }
}

/* Any page may be a page table, a ring or a mailbox. */
static void lie_memory(Guest *g)
{
    uint64_t buf[16], at = page(g) + draw(g, PAGE / sizeof(buf)) * sizeof(buf);
    unsigned int i;

    for (i = 0; i < G_N_ELEMENTS(buf); i++) {
        buf[i] = cpu_to_le64(draw(g, 2) ? page(g) : number(g));
    }
    qtest_memwrite(g->qts, at, buf, sizeof(buf));
}

static void compose(Guest *g, struct ohca_hw_aqe *cmd)
{
    struct ohca_hw_pl pl = {
        .root = cpu_to_le64(page(g)),
        .npages = cpu_to_le32(1 << draw(g, 4)),
        .page_shift = 12,
        .levels = draw(g, 4) == 0,
    };
    unsigned int i;

    memset(cmd, 0, sizeof(*cmd));
    switch (draw(g, 8)) {
    case 0:
        cmd->hdr.opcode = OHCA_CMD_CREATE_EQ;
        cmd->create_eq.pl = pl;
        cmd->create_eq.log_size = 5;
        cmd->create_eq.vector = cpu_to_le16(draw(g, 32));
        break;
    case 1:
        cmd->hdr.opcode = OHCA_CMD_CREATE_CQ;
        cmd->create_cq.pl = pl;
        cmd->create_cq.eqn = cpu_to_le32(draw(g, 3));
        cmd->create_cq.log_size = draw(g, 8);
        break;
    case 2:
        cmd->hdr.opcode = OHCA_CMD_ALLOC_PD;
        break;
    case 3:
        cmd->hdr.opcode = OHCA_CMD_REG_MR;
        cmd->reg_mr.pl = pl;
        cmd->reg_mr.length = cpu_to_le64(PAGE);
        cmd->reg_mr.access = cpu_to_le16(draw(g, 32));
        break;
    case 4:
        cmd->hdr.opcode = OHCA_CMD_CREATE_QP;
        cmd->create_qp.pl = pl;
        cmd->create_qp.type = draw(g, 5);
        cmd->create_qp.log_sq = 2;
        cmd->create_qp.log_rq = 2;
        cmd->create_qp.log_rq_stride = 6;
        break;
    case 5:
        cmd->hdr.opcode = OHCA_CMD_ALLOC_DM;
        cmd->alloc_dm.length = cpu_to_le64(PAGE);
        break;
    default:
        cmd->hdr.opcode = draw(g, 64);
        cmd->handle.handle = cpu_to_le32(draw(g, 2) ? g->last : draw(g, 8));
        cmd->handle.addr = cpu_to_le64(page(g));
    }
    for (i = draw(g, 3); i; i--) {
        ((uint8_t *)cmd)[draw(g, sizeof(*cmd))] = number(g);
    }
}

static void lie_command(Guest *g)
{
    struct ohca_hw_aqe cmd;
    struct ohca_hw_acqe r;
    uint32_t slot = g->pi % SLOTS;

    compose(g, &cmd);
    qtest_memwrite(g->qts, g->aq + slot * sizeof(cmd), &cmd, sizeof(cmd));
    qtest_writel(g->qts, g->bar[0].addr + OHCA_REG_AQ_DB, ++g->pi);
    qtest_memread(g->qts, g->acq + slot * sizeof(r), &r, sizeof(r));
    if (r.status == OHCA_ADMIN_OK) {
        g->last = le32_to_cpu(r.handle.handle);
    }
}

/* Send a random message to the fabric by a connection of the test's own. */
static void lie_fabric(Guest *g)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    uint64_t buf[32];
    unsigned int i;

    if (g->peer >= 0 && !draw(g, 8)) {
        close(g->peer);
        g->peer = -1;
    }
    if (g->peer < 0) {
        g_strlcpy(sa.sun_path, g->path, sizeof(sa.sun_path));
        g->peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        g_assert_cmpint(g->peer, >=, 0);
        if (connect(g->peer, (struct sockaddr *)&sa, sizeof(sa))) {
            close(g->peer);
            g->peer = -1;
            return;
        }
    }
    for (i = 0; i < G_N_ELEMENTS(buf); i++) {
        buf[i] = number(g);
    }
    if (send(g->peer, buf, 1 + draw(g, sizeof(buf)),
             MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        close(g->peer);
        g->peer = -1;
    }
}

static void lie(Guest *g)
{
    lies++;
    switch (draw(g, 16)) {
    case 0:
        lie_config(g);
        break;
    case 1 ... 6:
        lie_mmio(g);
        break;
    case 7 ... 8:
        lie_memory(g);
        break;
    case 9:
        lie_fabric(g);
        break;
    case 10:
        qtest_clock_step(g->qts, 1 + number(g) % 10000000);
        break;
    default:
        lie_command(g);
    }
}

/* ---- correct accesses ---- */

/* Reset the card to its state after power-on, with its configuration space. */
static void guest_reset(Guest *g)
{
    uint8_t cap = 0;
    unsigned int i;

    for (i = 1; i < CONFIG / 4; i++) {
        qpci_config_writel(g->dev, 4 * i, g->config[i]);
    }
    cap = qpci_find_capability(g->dev, PCI_CAP_ID_EXP, 0);
    g_assert_cmpint(cap, !=, 0);
    qpci_config_writew(g->dev, cap + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_BCR_FLR);
    for (i = 1; i < CONFIG / 4; i++) {
        qpci_config_writel(g->dev, 4 * i, g->config[i]);
    }
    g_assert_cmphex(qpci_io_readl(g->dev, g->bar[0], OHCA_REG_MAGIC), ==,
                    OHCA_MAGIC);
    g_assert_cmphex(qpci_io_readl(g->dev, g->bar[0], OHCA_REG_STATUS), ==,
                    OHCA_STATUS_READY);
    g_assert_cmphex(qpci_io_readq(g->dev, g->bar[0], OHCA_REG_AQ_BASE), ==, 0);
}

/* The handshake, and a command that must succeed. */
static void guest_start(Guest *g)
{
    struct ohca_hw_aqe nop = { .hdr.opcode = OHCA_CMD_NOP,
                               .hdr.cookie = cpu_to_le32(0xc0de) };
    struct ohca_hw_acqe r;
    int i;

    qtest_memset(g->qts, g->aq, 0, PAGE);
    qtest_memset(g->qts, g->acq, 0, PAGE);
    qpci_io_writel(g->dev, g->bar[0], OHCA_REG_PAGE_SHIFT, 12);
    qpci_io_writeq(g->dev, g->bar[0], OHCA_REG_FEATURES_ACK,
                   qpci_io_readq(g->dev, g->bar[0], OHCA_REG_FEATURES) &
                   ~(1ull << OHCA_FEATURE_BIG_ENDIAN));
    qpci_io_writeq(g->dev, g->bar[0], OHCA_REG_AQ_BASE, g->aq);
    qpci_io_writeq(g->dev, g->bar[0], OHCA_REG_ACQ_BASE, g->acq);
    qpci_io_writel(g->dev, g->bar[0], OHCA_REG_AQ_LOG_SIZE, LOG_AQ);
    qpci_io_writel(g->dev, g->bar[0], OHCA_REG_CTRL, OHCA_CTRL_ENABLE);
    g_assert_cmphex(qpci_io_readl(g->dev, g->bar[0], OHCA_REG_STATUS) &
                    OHCA_STATUS_FATAL, ==, 0);
    qtest_memwrite(g->qts, g->aq, &nop, sizeof(nop));
    g->pi = 1;
    qpci_io_writel(g->dev, g->bar[0], OHCA_REG_AQ_DB, 1);
    for (i = 0; i < 30000; i++) {
        qtest_memread(g->qts, g->acq, &r, sizeof(r));
        if (r.phase & 1) {
            break;
        }
        g_usleep(1000);
    }
    g_assert_cmpint(i, <, 30000);
    g_assert_cmphex(le32_to_cpu(r.cookie), ==, 0xc0de);
    g_assert_cmpint(r.status, ==, OHCA_ADMIN_OK);
}

static void test_lies(void)
{
    const char *seed = getenv("OHCA_SEED"), *seconds = getenv("OHCA_SECONDS");
    Fabric fabric = { };
    Guest g = { .peer = -1 };
    gint64 end;
    int i;

    fabric_open(&fabric);
    g.path = fabric.path;
    g.rand = g_rand_new_with_seed(seed ? atoi(seed) : 1);
    g.qs = qtest_pc_boot("-nodefaults -bios %s " SHARED " -device ohca,"
                         "guid=0x1000,x-memory=64M,fabric=%s", bios, g.path);
    g.qts = g.qs->qts;
    g.dev = card_find(g.qs);
    g_assert(g.dev);
    qpci_device_enable(g.dev);
    for (i = 0; i < 4; i++) {
        g.bar[i] = qpci_iomap(g.dev, bars[i], &g.size[i]);
    }
    for (i = 0; i < CONFIG / 4; i++) {
        g.config[i] = qpci_config_readl(g.dev, 4 * i);
    }
    g.aq = guest_alloc(&g.qs->alloc, PAGE);
    g.acq = guest_alloc(&g.qs->alloc, PAGE);
    g.mem = guest_alloc(&g.qs->alloc, PAGES * PAGE);
    end = g_get_monotonic_time() + (seconds ? atoi(seconds) : 2) * G_USEC_PER_SEC;
    do {
        guest_reset(&g);
        guest_start(&g);
        for (i = 0; i < EPISODE; i++) {
            lie(&g);
        }
    } while (g_get_monotonic_time() < end);
    guest_reset(&g);
    guest_start(&g);
    if (g.peer >= 0) {
        close(g.peer);
    }
    g_free(g.dev);
    qtest_pc_shutdown(g.qs);
    g_rand_free(g.rand);
    fabric_close(&fabric);
}

int main(int argc, char **argv)
{
    int ret;

    card_test_init(&argc, &argv);
    qtest_add_func("/ohca/guest", test_lies);
    ret = card_test_run();
    printf("# campaign: %" PRIu64 " accesses\n", lies);
    return ret;
}
