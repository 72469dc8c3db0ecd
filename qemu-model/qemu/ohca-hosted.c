/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connection of the PCI device to its HCA, which runs in the process
 * ohca-fabric.
 *
 * Doorbells, reads of registers and interrupts use a page that both processes
 * have mapped, without messages and locks. All else is a message with an
 * answer, sent under the BQL: writes of registers, reset, pause, and changes of
 * memory. They take effect before the call returns. A call waits at most
 * OHCA_FRONT_CALL_MS. When an IOMMU removes many mappings, or QEMU sends all of
 * them, QEMU makes several calls, which wait at most OHCA_FRONT_UNMAP_MS
 * together.
 *
 * If the process ends or does not answer, the connection is lost: doorbells do
 * nothing, and STATUS reads as AWAY. QEMU connects again; the device is then as
 * after power-on.
 *
 * A vCPU rings doorbells without the BQL, so it may use a connection that is
 * being replaced. RCU frees the old connection.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/memfd.h"
#include "qemu/rcu.h"
#include "ohca.h"
#include "core/firmware-if/ohca_hw.h"
#include "core/front/slice.h"
#include "trace.h"

/* Limits for the answer to HELLO: QEMU starts; hotplug; later attempts. */
#define OHCA_START_MS       5000
#define OHCA_PLUG_MS        1000
#define OHCA_AGAIN_MS       2000

/* Delay between attempts to connect: the first one, and the longest one. */
#define OHCA_RETRY_MS       100
#define OHCA_RETRY_MAX_MS   2000

/* ---- loss of the connection ---- */

static void ohca_hosted_later(OhcaState *s, unsigned int ms)
{
    timer_mod(s->host.timer, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + ms);
}

/**
 * ohca_hosted_again: start attempts to connect
 */
void ohca_hosted_again(OhcaState *s)
{
    s->host.told = false;
    s->host.retry_ms = OHCA_RETRY_MS;
    ohca_hosted_later(s, OHCA_RETRY_MS);
}

/* An attempt to connect failed: try again after a delay, and warn once. */
static void ohca_hosted_failed(OhcaState *s, const struct ohca_front_err *err)
{
    OhcaHosted *h = &s->host;

    /* A missing listener causes no warning. */
    if (!h->told && !err->absent) {
        warn_report("%s: %s; trying again", ohca_name(s), err->text);
        h->told = true;
    }
    h->retry_ms = MIN(2 * h->retry_ms, OHCA_RETRY_MAX_MS);
    ohca_hosted_later(s, h->retry_ms);
}

/* End the connection because of @why. */
static void ohca_hosted_end(OhcaState *s, const char *why)
{
    OhcaHosted *h = &s->host;
    struct ohca_front *f = ohca_front_of(s);

    h->there = false;
    h->works = false;
    qemu_set_fd_handler(ohca_front_sock(f), NULL, NULL, NULL);
    ohca_front_lose(f, why);
    /* no deadlock: the thread never waits for the BQL */
    qemu_thread_join(&h->irq_thread);
    ohca_hosted_mem_forget(s);
}

/*
 * If the connection is lost, report that and connect again. If it was never
 * usable, this is like a failed attempt to connect: the process refused the
 * machine's memory, for example.
 */
static void ohca_hosted_see(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    const char *why = h->there ? ohca_front_lost(ohca_front_of(s)) : NULL;
    struct ohca_front_err err = { };
    bool worked;

    if (!why) {
        return;
    }
    worked = h->works;
    snprintf(err.text, sizeof(err.text), "%s", why);
    ohca_hosted_end(s, why);
    if (h->held) {
        /* do not connect: the machine may run at another QEMU */
        return;
    }
    if (!worked) {
        ohca_hosted_failed(s, &err);
        return;
    }
    warn_report("%s lost its HCA: %s; trying to get it back", ohca_name(s),
                err.text);
    ohca_hosted_again(s);
}

/**
 * ohca_hosted_give_up: end the connection, because of @why
 */
void ohca_hosted_give_up(OhcaState *s, const char *why)
{
    if (s->host.there) {
        ohca_front_lose(ohca_front_of(s), why);
        ohca_hosted_see(s);
    }
}

/**
 * ohca_hosted_say: send a message and wait for its answer
 *
 * Returns: enum ohca_front_status; -1: the connection is lost
 */
int ohca_hosted_say(OhcaState *s, enum ohca_front_type type, void *msg,
                    size_t len, int fd, uint64_t *value)
{
    int r;

    if (!s->host.there) {
        return -1;
    }
    r = ohca_front_call(ohca_front_of(s), type, msg, len, fd, value);
    if (r < 0) {
        ohca_hosted_see(s);
    }
    return r;
}

static void ohca_hosted_event(void *opaque)
{
    OhcaState *s = opaque;

    ohca_front_event(ohca_front_of(s));
    ohca_hosted_see(s);
}

/* ---- registers and doorbells ---- */

static uint64_t ohca_hosted_reg(OhcaState *s, hwaddr addr, unsigned int size)
{
    struct ohca_front *f = ohca_front_of(s);
    struct ohca_front_reg m = { .off = cpu_to_le32(addr), .size = size };
    uint64_t val;

    if (!ohca_front_slow_reads(f)) {
        val = ohca_front_reg(f, addr, size);
    } else if (ohca_hosted_say(s, OHCA_FRONT_REG, &m, sizeof(m), -1, &val)) {
        val = 0;
    }
    return ohca_read_as_told(s, addr, s->host.there ? val
                                                    : ohca_front_away(addr, size));
}

static uint64_t ohca_hosted_ctrl_read(void *opaque, hwaddr addr,
                                      unsigned int size)
{
    uint64_t val = ohca_hosted_reg(opaque, addr, size);

    trace_ohca_ctrl_read(addr, size, val);
    return val;
}

/* After a reset of the HCA, by the driver or by QEMU. */
static void ohca_hosted_was_reset(OhcaState *s)
{
    ohca_front_irq_clear(ohca_front_of(s));
    if (qatomic_xchg(&s->deaf, false)) {
        ohca_hosted_stay(s, NULL);
    }
}

static void ohca_hosted_stride(OhcaState *s)
{
    ohca_set_stride(s, ohca_front_reg(ohca_front_of(s), OHCA_REG_PAGE_SHIFT,
                                      4));
}

static void ohca_hosted_ctrl_write(void *opaque, hwaddr addr, uint64_t val,
                                   unsigned int size)
{
    OhcaState *s = opaque;
    struct ohca_front_reg m = {
        .off = cpu_to_le32(addr),
        .size = size,
        .flags = OHCA_FRONT_REG_WRITE,
        .value = cpu_to_le64(val),
    };

    trace_ohca_ctrl_write(addr, size, val);
    if (addr == OHCA_REG_AQ_DB && size == 4) {
        if (!qatomic_read(&s->deaf)) {
            ohca_front_admin(ohca_front_of(s), val);
        }
        return;
    }
    ohca_hosted_say(s, OHCA_FRONT_REG, &m, sizeof(m), -1, NULL);
    if (addr == OHCA_REG_CTRL && (val & OHCA_CTRL_RESET)) {
        ohca_hosted_was_reset(s);
    }
    ohca_hosted_stride(s);
}

const MemoryRegionOps ohca_hosted_ctrl_ops = {
    .read = ohca_hosted_ctrl_read,
    .write = ohca_hosted_ctrl_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 4,
    .valid.max_access_size = 8,
    .impl.min_access_size = 4,
    .impl.max_access_size = 8,
};

/* Any thread, like ohca_hosted_pages_write(). */
static uint64_t ohca_hosted_pages_read(void *opaque, hwaddr addr,
                                       unsigned int size)
{
    OhcaState *s = opaque;
    uint32_t shift = qatomic_read(&s->page_shift);
    struct ohca_front *f;

    RCU_READ_LOCK_GUARD();
    f = ohca_front_of(s);
    return ohca_front_lost(f) ? MAKE_64BIT_MASK(0, 8 * size)
                              : ohca_front_clock(f, addr & ((1u << shift) - 1),
                                                 size);
}

static void ohca_hosted_pages_write(void *opaque, hwaddr addr, uint64_t val,
                                    unsigned int size)
{
    OhcaState *s = opaque;
    uint32_t shift = qatomic_read(&s->page_shift);

    RCU_READ_LOCK_GUARD();
    ohca_front_ring(ohca_front_of(s), addr >> shift,
                    addr & ((1u << shift) - 1), val, size);
    if (bql_locked()) {
        ohca_hosted_told(s);
        ohca_irq_flush(s);
    }
}

const MemoryRegionOps ohca_hosted_uar_ops = {
    .read = ohca_hosted_pages_read,
    .write = ohca_hosted_pages_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid.min_access_size = 1,
    .valid.max_access_size = 8,
    .valid.unaligned = true,
    .impl.min_access_size = 1,
    .impl.max_access_size = 8,
    .impl.unaligned = true,
};

/* ---- interrupts ---- */

static void *ohca_hosted_irqs(void *opaque)
{
    OhcaState *s = opaque;
    struct ohca_front *f = ohca_front_of(s);
    int err = ohca_short_slice();

    rcu_register_thread();
    if (err) {
        trace_ohca_no_slice(err);
    }
    while (ohca_front_irq_wait(f)) {
        ohca_irq_flush(s);
    }
    rcu_unregister_thread();
    return NULL;
}

/* ---- pause, reset, lies ---- */

static void ohca_hosted_run(OhcaState *s, bool running)
{
    struct ohca_front_run m = { .running = cpu_to_le32(running) };

    ohca_hosted_say(s, OHCA_FRONT_RUN, &m, sizeof(m), -1, NULL);
    /* deliver vectors that were raised before the pause */
    ohca_irq_flush(s);
}

static void ohca_hosted_vm_state(void *opaque, bool running, RunState state)
{
    OhcaState *s = opaque;
    OhcaHosted *h = &s->host;

    ohca_hosted_run(s, running);
    if (!running || !h->held) {
        return;
    }
    h->held = h->awaited = false;
    if (!h->there) {
        warn_report("%s lost its HCA while the machine did not run; trying to get "
                    "it back", ohca_name(s));
        ohca_hosted_again(s);
    }
}

/**
 * ohca_hosted_reset: reset the HCA to its state after power-on
 *
 * The HCA does no DMA after this.
 */
void ohca_hosted_reset(OhcaState *s)
{
    struct ohca_front_hdr m;

    ohca_hosted_say(s, OHCA_FRONT_RESET, &m, sizeof(m), -1, NULL);
    ohca_hosted_was_reset(s);
    ohca_hosted_stride(s);
}

/**
 * ohca_hosted_lies: send the properties x-lies* to the process
 */
void ohca_hosted_lies(OhcaState *s)
{
    struct ohca_front_lies m = {
        .seed = cpu_to_le64(s->lies_seed),
        .kinds = cpu_to_le32(s->lies_kinds & OHCA_FRONT_LIES_ALL),
        .one_of = cpu_to_le32(MIN(s->lies, UINT32_MAX)),
    };

    ohca_hosted_say(s, OHCA_FRONT_LIES, &m, sizeof(m), -1, NULL);
}

uint64_t ohca_hosted_lies_told(OhcaState *s)
{
    struct ohca_front_lies m = { .ask = cpu_to_le32(1) };
    uint64_t told = 0;

    ohca_hosted_say(s, OHCA_FRONT_LIES, &m, sizeof(m), -1, &told);
    return told;
}

/* ---- connecting ---- */

static void ohca_front_reclaim(OhcaFront *front)
{
    ohca_front_free(front->f);
    g_free(front);
}

/* Use the connection @f from now on. */
static void ohca_hosted_adopt(OhcaState *s, struct ohca_front *f)
{
    OhcaHosted *h = &s->host;
    OhcaFront *front = g_new0(OhcaFront, 1), *old = h->front;

    front->f = f;
    qatomic_rcu_set(&h->front, front);
    if (old) {
        call_rcu(old, ohca_front_reclaim, rcu);
    }
    h->there = true;
    qemu_set_fd_handler(ohca_front_sock(f), ohca_hosted_event, NULL, s);
    qemu_thread_create(&h->irq_thread, "ohca-irq", ohca_hosted_irqs, s,
                       QEMU_THREAD_JOINABLE);
    ohca_hosted_stride(s);
    if (h->dm_fd >= 0) {
        ohca_hosted_log(s, &h->dm_log, &s->dm, OHCA_FRONT_LOG_DM, s->dm_size);
    }
    if (s->lies) {
        ohca_hosted_lies(s);
    }
}

static struct ohca_front_hello *ohca_hosted_hello(OhcaState *s)
{
    struct ohca_front_hello *m = &s->host.hello;

    m->flags &= ~cpu_to_le32(OHCA_FRONT_PAUSED | OHCA_FRONT_MOVE);
    if (!runstate_is_running()) {
        m->flags |= cpu_to_le32(OHCA_FRONT_PAUSED);
    }
    m->token = 0;
    return m;
}

/* Returns: @trying, which the caller owns afterwards */
static struct ohca_front *ohca_hosted_tried(OhcaState *s)
{
    struct ohca_front *f = g_steal_pointer(&s->host.trying);

    qemu_set_fd_handler(ohca_front_sock(f), NULL, NULL, NULL);
    return f;
}

/**
 * ohca_hosted_hold: make no attempts to connect until the machine runs here
 *
 * The machine may run at another QEMU, and a new HCA here would use the fabric
 * port that it needs. A present connection stays.
 */
void ohca_hosted_hold(OhcaState *s)
{
    s->host.held = true;
    timer_del(s->host.timer);
    if (s->host.trying) {
        ohca_front_free(ohca_hosted_tried(s));
    }
}

static void ohca_hosted_answer(void *opaque)
{
    OhcaState *s = opaque;
    struct ohca_front_err err;
    int r = ohca_front_welcome(s->host.trying, 0, &err);
    struct ohca_front *f;

    if (!r) {
        return;
    }
    f = ohca_hosted_tried(s);
    if (r < 0) {
        ohca_front_free(f);
        ohca_hosted_failed(s, &err);
        return;
    }
    timer_del(s->host.timer);
    ohca_hosted_adopt(s, f);
    ohca_hosted_mem_send(s);
    /* the machine may have been paused or resumed since HELLO */
    ohca_hosted_run(s, runstate_is_running());
    if (s->host.there) {
        s->host.works = true;
        info_report("%s has its HCA again", ohca_name(s));
    }
}

static void ohca_hosted_due(void *opaque)
{
    OhcaState *s = opaque;
    OhcaHosted *h = &s->host;
    struct ohca_front_err err = { .text = "no answer to HELLO" };

    if (h->trying) {
        ohca_front_free(ohca_hosted_tried(s));
        ohca_hosted_failed(s, &err);
        return;
    }
    if (h->refused) {
        ohca_hosted_later(s, OHCA_RETRY_MAX_MS);
        return;
    }
    h->trying = ohca_front_start(s->fabric, ohca_hosted_hello(s), h->dm_fd,
                                 &err);
    if (!h->trying) {
        ohca_hosted_failed(s, &err);
        return;
    }
    qemu_set_fd_handler(ohca_front_sock(h->trying), ohca_hosted_answer, NULL,
                        s);
    ohca_hosted_later(s, OHCA_AGAIN_MS);
}

/* ---- realize and unrealize ---- */

/**
 * ohca_hosted_check: check that the machine supports the device
 */
bool ohca_hosted_check(OhcaState *s, Error **errp)
{
    if (icount_enabled()) {
        error_setg(errp, "the device does not work with -icount: the fabric's "
                   "process has its own clock");
        return false;
    }
    return ohca_hosted_iommu_check(s, errp) && ohca_hosted_mem_check(s, errp);
}

/**
 * ohca_hosted_init_dm: create the device memory and its file
 *
 * QEMU creates the file, so that the memory remains when the process ends.
 */
bool ohca_hosted_init_dm(OhcaState *s, Error **errp)
{
    int fd = qemu_memfd_create("ohca-dm", s->dm_size, false, 0,
                               F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
                               errp);

    if (fd < 0) {
        return false;
    }
    if (!memory_region_init_ram_from_fd(&s->dm, OBJECT(s), "ohca-dm",
                                        s->dm_size, RAM_SHARED, fd, 0, errp)) {
        close(fd);
        return false;
    }
    vmstate_register_ram(&s->dm, DEVICE(s));
    s->host.dm_fd = fd;
    return true;
}

/**
 * ohca_hosted_connect: create the HCA, or take over that of the token
 *
 * Waits at most OHCA_START_MS while QEMU starts, and OHCA_PLUG_MS later. Sends
 * the memory table to an HCA that was taken over.
 */
bool ohca_hosted_connect(OhcaState *s, Error **errp)
{
    OhcaHosted *h = &s->host;
    struct ohca_front_hello *hello = ohca_hosted_hello(s);
    struct ohca_front_err err;
    struct ohca_front *f;

    if (h->token) {
        hello->flags |= cpu_to_le32(OHCA_FRONT_MOVE);
        hello->token = cpu_to_le64(h->token);
    }
    f = ohca_front_connect(s->fabric, hello, h->dm_fd,
                           DEVICE(s)->hotplugged ? OHCA_PLUG_MS : OHCA_START_MS,
                           &err);
    if (!f) {
        error_setg(errp, "%s", err.text);
        return false;
    }
    h->works = true;
    ohca_hosted_adopt(s, f);
    if (!ohca_hosted_mem_take(s, errp)) {
        return false;
    }
    if (h->token) {
        ohca_hosted_mem_send(s);
        if (!h->there) {
            error_setg(errp, "%s", ohca_front_lost(f));
            return false;
        }
    }
    return true;
}

/**
 * ohca_hosted_realize: connect, or prepare for an incoming migration
 */
bool ohca_hosted_realize(OhcaState *s, Error **errp)
{
    OhcaHosted *h = &s->host;

    if (runstate_check(RUN_STATE_INMIGRATE) && !ohca_hosted_await(s)) {
        error_setg(errp, "out of memory");
        return false;
    }
    h->move_guid = s->guid;
    h->timer = timer_new_ms(QEMU_CLOCK_REALTIME, ohca_hosted_due, s);
    if (!h->awaited && !ohca_hosted_connect(s, errp)) {
        return false;
    }
    if (!ohca_hosted_move_init(s, errp)) {
        return false;
    }
    h->vmstate = qdev_add_vm_change_state_handler(DEVICE(s),
                                                  ohca_hosted_vm_state, NULL,
                                                  s);
    ohca_hosted_mem_init(s);
    return true;
}

/**
 * ohca_hosted_unrealize: end the HCA; also after a failed ohca_hosted_realize()
 */
void ohca_hosted_unrealize(OhcaState *s)
{
    OhcaHosted *h = &s->host;
    struct ohca_front_hdr m;

    h->dm_fd = -1;
    if (!h->timer) {
        return;
    }
    ohca_hosted_move_exit(s);
    if (h->vmstate) {
        qemu_del_vm_change_state_handler(g_steal_pointer(&h->vmstate));
    }
    ohca_hosted_say(s, OHCA_FRONT_BYE, &m, sizeof(m), -1, NULL);
    if (h->there) {
        ohca_hosted_end(s, "the device was unplugged");
    }
    if (h->trying) {
        ohca_front_free(ohca_hosted_tried(s));
    }
    timer_free(g_steal_pointer(&h->timer));
    ohca_hosted_mem_exit(s);
}

/**
 * ohca_hosted_finalize: free the connection; no vCPU uses the device any more
 */
void ohca_hosted_finalize(OhcaState *s)
{
    if (s->host.front) {
        ohca_front_reclaim(s->host.front);
    }
}
