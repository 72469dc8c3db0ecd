/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads: the owner of the engine, and the owner thread.
 *
 * The holder of OhcaState.lock owns the engine. A vCPU that rings a doorbell
 * does the work itself if the lock is free, up to a budget: no other thread has
 * to be scheduled. The owner thread does the rest: frames that arrive, timers,
 * and work beyond the budget.
 *
 * No work is lost:
 *  - a thread with work sets @work, then tries the lock; if it is taken, the
 *    holder reads @work after it has unlocked, and wakes the owner thread;
 *  - the owner thread sets @asleep before it unlocks and reads @work for the
 *    last time; a thread that finds @asleep set after it set @work signals the
 *    eventfd. Each pair is a store, a full barrier and a load on both sides.
 *
 * Timers are one timerfd. It is only ever set to earlier than it is, so the
 * timeouts that every packet moves into the future cost nothing; when it expires
 * early it is set again. Time is the virtual clock, which stops while the
 * VM is paused; the engine does not run then.
 *
 * The thread never waits for the BQL, so a holder of the BQL may wait for the
 * thread. While there is an IOMMU the owner must hold the BQL (see ohca-mem.c):
 * the thread then has a bottom half do its turn and only waits for descriptors.
 *
 * A doorbell may still be under way in a vCPU when the device is unrealized,
 * where doorbells need no BQL. So what it touches lives as long as the object
 * (timers, bottom halves, the eventfd) or until the device is realized again
 * (the engine), and @paused, which is set under the lock before anything else
 * ends, makes all of it do nothing.
 *
 * With x-engine=inline (always with icount) there is no thread: a bottom half,
 * descriptors in the main loop and a QEMUTimer take its place, and doorbells
 * only schedule the bottom half.
 */
#include "qemu/osdep.h"
#include <poll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include "qapi/error.h"
#include "qemu/rcu.h"
#include "ohca.h"
#include "trace.h"

/* Longest slice that the owner thread requests, to preempt spinning vCPUs soon. */
#define OHCA_SLICE_NS       100000
/* With more than this many CPUs the thread polls a while before it sleeps. */
#define OHCA_POLL_CPUS      4
#define OHCA_POLL_NS        20000
/* Shortest timer, and the shortest while the clock of a running VM stands. */
#define OHCA_FLOOR_NS       1000
#define OHCA_STUCK_NS       1000000

uint64_t ohca_now_ns(void *opaque)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

/* ---- ownership ---- */

static bool ohca_need_bql(OhcaState *s)
{
    return unlikely(qatomic_read(&s->mem.iommu));
}

/**
 * ohca_lock: become the owner
 *
 * Under the BQL or not; bounded, since the lock is never held for long.
 */
void ohca_lock(OhcaState *s)
{
    qatomic_inc(&s->waiters);
    qemu_mutex_lock(&s->lock);
    qatomic_dec(&s->waiters);
}

/**
 * ohca_unlock: no longer be the owner
 *
 * Delivers interrupts, and ensures that work added meanwhile is seen.
 * Never waits.
 */
void ohca_unlock(OhcaState *s)
{
    qemu_mutex_unlock(&s->lock);
    ohca_irq_flush(s);
    smp_mb();       /* pairs with ohca_kick(): unlock, then look at work */
    if (qatomic_read(&s->work)) {
        ohca_wake(s);
    }
}

/* Host operation; any thread. */
void ohca_kick(void *opaque)
{
    OhcaState *s = opaque;

    qatomic_set(&s->work, 1);
    smp_mb();       /* set work, then look at the lock and at asleep */
}

/* Have the thread, or the bottom half, do the work. Any thread. */
void ohca_wake(OhcaState *s)
{
    ohca_kick(s);
    if (!s->use_thread) {
        qemu_bh_schedule(s->bh);
    } else if (qatomic_read(&s->asleep) && qatomic_xchg(&s->asleep, 0)) {
        event_notifier_set(&s->kick);
    }
}

/* ---- work ---- */

/*
 * Owner. Returns whether there is more to do at once. @commands: execute those
 * of the admin queue, too: not on a vCPU, which may hold the BQL.
 */
static bool ohca_step(OhcaState *s, unsigned int budget, bool commands)
{
    bool more;

    qatomic_set(&s->work, 0);
    smp_mb();       /* later kicks set it again */
    if (unlikely(s->paused)) {
        return false;
    }
    /* Packets are many: the engine does not call for each while nobody wants it. */
    ohca_set_trace(s->engine, trace_event_get_state_backends(TRACE_OHCA_PKT) ?
                   ~0u : ~(1u << OHCA_TR_PKT));
    more = ohca_wire_work(s, budget);
    more |= commands ? ohca_poll(s->engine, budget)
                     : ohca_poll_packets(s->engine, budget);
    ohca_wire_flush(s);
    return more;
}

/* Owner. Set the timer to the engine's next deadline. */
static void ohca_arm(OhcaState *s, uint64_t floor)
{
    uint64_t deadline = ohca_next_deadline(s->engine);
    struct itimerspec its = { };
    uint64_t now, delta;

    if (likely(deadline >= s->armed) || s->paused) {
        return;
    }
    s->armed = deadline;
    if (!s->use_thread) {
        timer_mod(s->timer, MIN(deadline, INT64_MAX));
        return;
    }
    now = ohca_now_ns(s);
    delta = MAX(deadline > now ? deadline - now : 0, floor);
    its.it_value.tv_sec = delta / NANOSECONDS_PER_SECOND;
    its.it_value.tv_nsec = delta % NANOSECONDS_PER_SECOND;
    if (timerfd_settime(s->timer_fd, 0, &its, NULL)) {
        s->armed = OHCA_NO_DEADLINE;
    }
}

/**
 * ohca_unlock_serve: do the pending work, then no longer be the owner
 */
void ohca_unlock_serve(OhcaState *s)
{
    if (s->use_thread) {
        if (ohca_step(s, s->inline_budget, false)) {
            ohca_kick(s);
        }
        ohca_arm(s, OHCA_FLOOR_NS);
    }
    ohca_unlock(s);
}

/**
 * ohca_serve: the vCPU's part, after ohca_doorbell()
 *
 * Does the work at once if the lock is free.
 */
void ohca_serve(OhcaState *s)
{
    if (!qatomic_read(&s->work)) {
        return;
    }
    if (!s->use_thread) {
        ohca_wake(s);
    } else if (!qemu_mutex_trylock(&s->lock)) {
        if (ohca_need_bql(s) && !bql_locked()) {
            ohca_unlock(s);     /* which leaves it to the thread */
        } else {
            ohca_unlock_serve(s);
        }
    }
}

/*
 * Owner. No work is left: poll for a while, then prepare to sleep.
 * Returns whether to sleep.
 */
static bool ohca_settle(OhcaState *s)
{
    int64_t end;

    if (s->poll_ns && !s->paused) {
        end = get_clock() + s->poll_ns;
        do {
            if (qatomic_read(&s->work) || ohca_wire_pending(s)) {
                return false;
            }
            cpu_relax();
        } while (!qatomic_read(&s->waiters) && get_clock() < end);
    }
    return s->paused || ohca_wire_prepare_sleep(s);
}

/* ---- the owner thread ---- */

/* From linux/sched/types.h, which clashes with the C library's sched.h. */
typedef struct OhcaSchedAttr {
    uint32_t size;
    uint32_t sched_policy;
    uint64_t sched_flags;
    int32_t sched_nice;
    uint32_t sched_priority;
    uint64_t sched_runtime;
    uint64_t sched_deadline;
    uint64_t sched_period;
} OhcaSchedAttr;

/* A short slice gets a waking thread onto a busy CPU within microseconds. */
void ohca_short_slice(void)
{
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
    OhcaSchedAttr attr = { .size = sizeof(attr) };

    if (!syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0)) {
        attr.size = sizeof(attr);
        attr.sched_flags = 0;
        attr.sched_runtime = OHCA_SLICE_NS;
        /* Older kernels refuse it; the slices are longer then. */
        if (syscall(SYS_sched_setattr, 0, &attr, 0)) {
            trace_ohca_no_slice(errno);
        }
    }
#endif
}

static void ohca_poll_fd(struct pollfd *p, int fd, bool wanted)
{
    p->fd = wanted ? fd : -1;
    p->events = POLLIN;
    p->revents = 0;
}

/* While the VM is paused a port without a link still finds a peer. */
static unsigned int ohca_poll_set(OhcaState *s, struct pollfd *fds)
{
    unsigned int i;

    ohca_poll_fd(&fds[OHCA_FD_KICK], event_notifier_get_fd(&s->kick), true);
    ohca_poll_fd(&fds[OHCA_FD_TIMER], s->timer_fd, !s->paused);
    for (i = 0; i < s->ports; i++) {
        OhcaPort *p = &s->port[i];

        ohca_poll_fd(&fds[OHCA_FD_PORT + 2 * i], ohca_wire_event_fd(p),
                     !s->paused);
        ohca_poll_fd(&fds[OHCA_FD_PORT + 2 * i + 1], ohca_wire_ctrl_fd(p),
                     !s->paused || !p->link);
    }
    return OHCA_FD_PORT + 2 * s->ports;
}

/* Owner. Returns how long the timer must at least be set to next. */
static uint64_t ohca_timer_fired(OhcaState *s)
{
    uint64_t n, armed = s->armed;

    if (read(s->timer_fd, &n, sizeof(n)) != sizeof(n)) {
        return OHCA_FLOOR_NS;   /* set anew since poll() returned */
    }
    s->armed = OHCA_NO_DEADLINE;
    if (armed == OHCA_NO_DEADLINE || ohca_now_ns(s) >= armed) {
        return OHCA_FLOOR_NS;
    }
    return OHCA_STUCK_NS;
}

/* Owner. Handle the result of poll(). */
static void ohca_slept(OhcaState *s)
{
    unsigned int i;

    if (!s->num_fds) {
        return;
    }
    s->num_fds = 0;
    for (i = 0; i < s->ports; i++) {
        ohca_wire_awake(s, i, s->fds[OHCA_FD_PORT + 2 * i].revents,
                        s->fds[OHCA_FD_PORT + 2 * i + 1].revents);
    }
    if (s->fds[OHCA_FD_TIMER].revents &&
        ohca_timer_fired(s) == OHCA_STUCK_NS) {
        ohca_arm(s, OHCA_STUCK_NS);
    }
}

/*
 * One turn of the owner thread, in it or, under the BQL, in the main loop.
 * Returns whether there is more to do at once; if not, @fds is what to wait for.
 */
static bool ohca_turn(OhcaState *s)
{
    bool more;

    ohca_lock(s);
    if (ohca_need_bql(s) && !bql_locked()) {
        ohca_unlock(s);
        return true;
    }
    ohca_slept(s);
    more = ohca_step(s, s->thread_budget, true) || !ohca_settle(s);
    if (!more) {
        ohca_arm(s, OHCA_FLOOR_NS);
        s->num_fds = ohca_poll_set(s, s->fds);
        qatomic_set(&s->asleep, 1);
    }
    ohca_unlock(s);
    return more;
}

/* The thread's turn; without the BQL whatever is needed. */
static bool ohca_thread_turn(OhcaState *s)
{
    if (likely(!ohca_need_bql(s))) {
        return ohca_turn(s);
    }
    s->more = true;
    qemu_event_reset(&s->turned);
    qemu_bh_schedule(s->bh);
    if (!qatomic_read(&s->stopping)) {
        qemu_event_wait(&s->turned);
    }
    return s->more;
}

static void *ohca_thread(void *opaque)
{
    OhcaState *s = opaque;
    unsigned int i;

    rcu_register_thread();
    ohca_short_slice();

    while (!qatomic_read(&s->stopping)) {
        if (ohca_thread_turn(s)) {
            /* The mutex is not fair: yield to waiters. */
            for (i = 0; i < 64 && qatomic_read(&s->waiters); i++) {
                sched_yield();
            }
            continue;
        }
        while (poll(s->fds, s->num_fds, -1) < 0 && errno == EINTR) {
            /* again */
        }
        qatomic_set(&s->asleep, 0);
        if (s->fds[OHCA_FD_KICK].revents) {
            event_notifier_test_and_clear(&s->kick);
        }
    }
    rcu_unregister_thread();
    return NULL;
}

/* ---- without a thread ---- */

static void ohca_loop_fds(OhcaState *s, bool on);

static void ohca_inline_turn(OhcaState *s)
{
    bool more;

    ohca_loop_fds(s, false);
    ohca_lock(s);
    more = ohca_step(s, s->thread_budget, true) ||
           !(s->paused || ohca_wire_prepare_sleep(s));
    ohca_arm(s, 0);
    if (more) {
        ohca_kick(s);
    }
    ohca_unlock(s);
    if (!more) {
        ohca_loop_fds(s, true);
    }
}

static void ohca_bh(void *opaque)
{
    OhcaState *s = opaque;

    if (s->use_thread) {
        s->more = ohca_turn(s);
        qemu_event_set(&s->turned);
    } else {
        ohca_inline_turn(s);
    }
}

static void ohca_loop_event(void *opaque)
{
    OhcaState *s = opaque;
    unsigned int i;

    ohca_loop_fds(s, false);
    ohca_lock(s);
    for (i = 0; i < s->ports; i++) {
        /* Both are nonblocking, so they need not be told apart. */
        ohca_wire_awake(s, i, true, true);
    }
    ohca_kick(s);
    ohca_unlock(s);
}

static void ohca_loop_timer(void *opaque)
{
    OhcaState *s = opaque;

    ohca_lock(s);
    s->armed = OHCA_NO_DEADLINE;
    ohca_kick(s);
    ohca_unlock(s);
}

static void ohca_loop_add(OhcaState *s, int fd)
{
    if (fd >= 0) {
        s->loop_fd[s->num_loop_fds++] = fd;
        qemu_set_fd_handler(fd, ohca_loop_event, NULL, s);
    }
}

/*
 * The same descriptors as in ohca_poll_set(). Before anything can close one its
 * handler must be gone.
 */
static void ohca_loop_fds(OhcaState *s, bool on)
{
    unsigned int i;

    for (i = 0; i < s->num_loop_fds; i++) {
        qemu_set_fd_handler(s->loop_fd[i], NULL, NULL, NULL);
    }
    s->num_loop_fds = 0;
    for (i = 0; on && i < s->ports; i++) {
        OhcaPort *p = &s->port[i];

        if (!s->paused) {
            ohca_loop_add(s, ohca_wire_event_fd(p));
        }
        if (!s->paused || !p->link) {
            ohca_loop_add(s, ohca_wire_ctrl_fd(p));
        }
    }
}

/* ---- in both modes ---- */

static void ohca_wire_timer(void *opaque)
{
    OhcaState *s = opaque;

    ohca_loop_fds(s, false);
    ohca_lock(s);
    ohca_wire_due(s);
    ohca_kick(s);       /* there are other descriptors to wait for */
    ohca_unlock(s);
}

/* ---- life ---- */

static void ohca_vm_state(void *opaque, bool running, RunState state)
{
    OhcaState *s = opaque;

    ohca_lock(s);
    s->paused = !running;
    s->armed = OHCA_NO_DEADLINE;
    ohca_kick(s);
    ohca_unlock(s);
}

static int64_t ohca_auto_poll_ns(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) ||
        CPU_COUNT(&set) <= OHCA_POLL_CPUS) {
        return 0;
    }
    return OHCA_POLL_NS;
}

/**
 * ohca_thread_init: create what doorbells and links need, until ohca_thread_exit()
 *
 * Under the BQL. Again after it failed, or for a device that is realized again.
 */
bool ohca_thread_init(OhcaState *s, Error **errp)
{
    int r;

    s->use_thread = !icount_enabled();
    if (!g_strcmp0(s->engine_mode, "inline")) {
        s->use_thread = false;
    } else if (s->engine_mode && strcmp(s->engine_mode, "thread")) {
        error_setg(errp, "x-engine must be 'thread' or 'inline', not '%s'",
                   s->engine_mode);
        return false;
    }
    s->poll_ns = s->poll_us < 0 ? ohca_auto_poll_ns() : s->poll_us * 1000LL;
    if (s->bh) {
        return true;
    }
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (s->timer_fd < 0) {
        error_setg_errno(errp, errno, "timerfd");
        return false;
    }
    r = event_notifier_init(&s->kick, 0);
    if (r < 0) {
        error_setg_errno(errp, -r, "eventfd");
        close(s->timer_fd);
        s->timer_fd = -1;
        return false;
    }
    s->bh = qemu_bh_new_guarded(ohca_bh, s, &DEVICE(s)->mem_reentrancy_guard);
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, ohca_loop_timer, s);
    s->wire_timer = timer_new_ns(QEMU_CLOCK_REALTIME, ohca_wire_timer, s);
    return true;
}

/**
 * ohca_thread_exit: the object is freed; no vCPU uses it
 */
void ohca_thread_exit(OhcaState *s)
{
    if (!s->bh) {
        return;
    }
    qemu_bh_delete(s->bh);
    timer_free(s->timer);
    timer_free(s->wire_timer);
    event_notifier_cleanup(&s->kick);
    close(s->timer_fd);
}

/**
 * ohca_thread_start: from now on the engine is polled
 */
void ohca_thread_start(OhcaState *s)
{
    s->vmstate = qdev_add_vm_change_state_handler(DEVICE(s), ohca_vm_state,
                                                  NULL, s);
    qatomic_set(&s->stopping, 0);
    ohca_lock(s);
    s->armed = OHCA_NO_DEADLINE;
    s->paused = !runstate_is_running();
    s->num_fds = 0;
    ohca_unlock(s);
    if (s->use_thread) {
        qemu_thread_create(&s->thread, "ohca", ohca_thread, s,
                           QEMU_THREAD_JOINABLE);
        s->started = true;
    } else {
        ohca_wake(s);
    }
}

/**
 * ohca_thread_stop: stop polling; under the BQL
 *
 * The thread never waits for the BQL: its turn ends soon. Does
 * nothing but pause the engine if ohca_thread_start() was not called.
 */
void ohca_thread_stop(OhcaState *s)
{
    if (s->vmstate) {
        qemu_del_vm_change_state_handler(g_steal_pointer(&s->vmstate));
    }
    ohca_lock(s);
    s->paused = true;
    ohca_unlock(s);
    if (s->started) {
        qatomic_set(&s->stopping, 1);
        qemu_event_set(&s->turned);
        event_notifier_set(&s->kick);
        qemu_thread_join(&s->thread);
        s->started = false;
    }
    if (s->bh) {
        ohca_loop_fds(s, false);
        qemu_bh_cancel(s->bh);
        timer_del(s->timer);
        timer_del(s->wire_timer);
    }
}
