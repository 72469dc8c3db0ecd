/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qtest of FLUSH for persistence, over an RC QP that is connected to itself. */
#include "qemu/osdep.h"
#include <linux/magic.h>
#include <sys/statfs.h>
#include "qemu/bswap.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "libqtest.h"
#include "ohca-card.h"

/* Set LID 1 and state Active, like a subnet manager. */
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
/* Far from other memory: the host may track dirty memory in units of 2 MiB. */
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
        /* after an RNR NAK the requester repeats the FLUSH */
        qtest_clock_step(c->qs->qts, SCALE_MS);
    }
    g_assert_cmpint(i, <, 30000);
    g_assert_cmpint(cqe.status, ==, 0);
    l->posted++;
}

/* Returns: KiB of QEMU's mapping of @file that are dirty */
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
 * When a FLUSH for persistence completes, its range is on the disk. The guest's
 * memory is a file in the working directory. If that is a tmpfs, its pages stay
 * dirty, and the test checks only the completion.
 */
static void test_persist(void)
{
    char file[] = "ohca-ram-XXXXXX";
    int fd = g_mkstemp(file);
    g_autofree char *before = g_strdup_printf(
        " -m 128M -machine memory-backend=disk -object memory-backend-file,"
        "id=disk,size=128M,share=on,mem-path=%s", file);
    unsigned int was, is, i;
    struct statfs fs;
    bool on_disk;
    Card c;
    Loop l;

    g_assert_cmpint(fd, >=, 0);
    g_assert(!fstatfs(fd, &fs));
    on_disk = fs.f_type != TMPFS_MAGIC;
    close(fd);
    card_boot(&c, before, "");
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
    card_close(&c);
    unlink(file);
}

int main(int argc, char **argv)
{
    card_test_init(&argc, &argv);
    qtest_add_func("/ohca/persist", test_persist);
    return card_test_run();
}
