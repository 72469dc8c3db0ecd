/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The link of each port: joining the fabric, moving frames, up and down.
 *
 * Without listen=on a port connects to its fabric= socket (ohca-fabric, or
 * another HCA that listens) when the device is realized; without a listener
 * there the device is not realized. QEMU waits for the listener's answer only
 * while it starts, where no other work waits; a mismatch is an
 * error there. A device that is plugged in later does not wait: it handles the
 * answer when it arrives, and a mismatch is a warning. With listen=on a port
 * accepts one peer at a time.
 *
 * A link that is lost later is a warning and, for the guest, a cable that was
 * pulled. A port without its fabric keeps trying to get it: when its switch was
 * restarted the cable is plugged in again.
 *
 * Nothing here blocks but ohca_wire_open() while QEMU starts. A peer must
 * send HELLO within a time limit, so that a silent peer cannot occupy a
 * port. These times are real ones, also while the VM is paused, and kept by
 * one timer of the main loop.
 */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "ohca.h"
#include "trace.h"

/* For a peer to say HELLO, or to answer ours; and while QEMU starts. */
#define OHCA_HELLO_MS       2000
#define OHCA_START_MS       5000

/* Between attempts to connect again: at first, and at most. */
#define OHCA_RETRY_MS       100
#define OHCA_RETRY_MAX_MS   2000

/* Frames after which a sleeping peer is woken in the middle of a batch. */
#define OHCA_KICK_FRAMES    8

/* Link events in a turn: bounds the work for a peer that flaps. */
#define OHCA_CTRL_EVENTS    8

/* Management frames in a turn before the data lanes have theirs. */
#define OHCA_VL15_BURST     8
#define OHCA_DATA_LANES     MAKE_64BIT_MASK(0, OHCA_LINK_VL15)

/* Schedule ohca_wire_due() for the port in @ms. */
static void ohca_wire_later(OhcaState *s, OhcaPort *p, unsigned int ms)
{
    p->due_ns = qemu_clock_get_ns(QEMU_CLOCK_REALTIME) + ms * (int64_t)SCALE_MS;
    timer_mod_anticipate_ns(s->wire_timer, p->due_ns);
}

static void ohca_wire_joined(OhcaPort *p, unsigned int port)
{
    trace_ohca_link_peer(port + 1, ohca_link_peer(p->link)->node_guid,
                         ohca_link_peer(p->link)->port_num,
                         ohca_link_vls(p->link));
}

/*
 * Reach the listener, say HELLO, and wait up to @ms for the answer. Returns 1
 * if the link is there, 0 if it is not yet, -1 with @err if it will not be.
 */
static int ohca_wire_connect(OhcaState *s, unsigned int port, int ms,
                             struct ohca_link_err *err)
{
    OhcaPort *p = &s->port[port];
    struct pollfd fd = { .events = POLLIN };
    int r;

    p->pending_fd = ohca_link_connect_start(s->fabric[port], &p->cfg, ms, err);
    if (p->pending_fd < 0) {
        return -1;
    }
    fd.fd = p->pending_fd;
    if (ms) {
        poll(&fd, 1, ms);
    }
    r = ohca_link_connect_finish(p->pending_fd, &p->cfg, &p->link, err);
    if (r) {
        p->pending_fd = -1;     /* the link's, or closed */
    } else {
        ohca_wire_later(s, p, OHCA_HELLO_MS);
    }
    return r;
}

/**
 * ohca_wire_open: make the port's socket, or connect it to its fabric
 *
 * After ohca_thread_init(). Waits only while QEMU starts, OHCA_START_MS at most.
 */
bool ohca_wire_open(OhcaState *s, unsigned int port, Error **errp)
{
    OhcaPort *p = &s->port[port];
    int ms = DEVICE(s)->hotplugged ? 0 : OHCA_START_MS;
    struct ohca_link_err err = { };

    p->told = p->had = false;
    p->retry_ms = OHCA_RETRY_MS;
    if (s->listen) {
        p->listen_fd = ohca_link_listen(s->fabric[port], &err);
        if (p->listen_fd >= 0) {
            return true;
        }
    } else {
        int r = ohca_wire_connect(s, port, ms, &err);

        if (r >= 0) {
            if (r) {
                ohca_wire_joined(p, port);
            }
            return true;
        }
        if (err.code == OHCA_LINK_E_TIMEOUT) {
            /* The listener is busy. */
            ohca_wire_later(s, p, p->retry_ms);
            return true;
        }
    }
    error_setg(errp, "port %u: %s", port + 1, err.text);
    return false;
}

static void ohca_close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* The peer counts them, from 0 for each link. */
static void ohca_wire_count_vl15(OhcaPort *p)
{
    if (p->link) {
        uint32_t n = ohca_link_vl15_dropped_by_peer(p->link);

        p->vl15_dropped += (uint32_t)(n - p->vl15_seen);
        p->vl15_seen = n;
    }
}

/* Keeps the counts of a link that ends. */
static void ohca_wire_free_link(OhcaPort *p)
{
    ohca_wire_count_vl15(p);
    p->vl15_seen = 0;
    ohca_link_free(g_steal_pointer(&p->link));
}

void ohca_wire_close(OhcaState *s, unsigned int port)
{
    OhcaPort *p = &s->port[port];

    ohca_wire_free_link(p);
    ohca_close_fd(&p->pending_fd);
    p->due_ns = 0;
    if (p->listen_fd >= 0) {
        unlink(s->fabric[port]);
        ohca_close_fd(&p->listen_fd);
    }
}

/* ---- control: training, accepting, losing ---- */

static struct ohca_link_phy ohca_wire_phy(const OhcaPort *p)
{
    return (struct ohca_link_phy) {
        .enabled = p->enabled,
        .width_en = p->rate.width,
        .speed_en = p->rate.speed,
        .speed_ext_en = p->rate.speed_ext,
    };
}

static void ohca_wire_train(OhcaPort *p)
{
    struct ohca_link_phy phy = ohca_wire_phy(p);

    if (p->link) {
        ohca_link_train(p->link, &phy);
        p->ctrl_due = true;
    }
}

/* Host operation; owner. */
void ohca_wire_link_ctl(void *opaque, unsigned int port, bool enable)
{
    OhcaState *s = opaque;
    OhcaPort *p = &s->port[port];

    if (!enable && !p->enabled) {
        return;
    }
    trace_ohca_link_ctl(port + 1, enable);
    p->enabled = enable;
    ohca_wire_train(p);
}

/* Host operation; owner. For the next training, by either end. */
void ohca_wire_link_rate(void *opaque, unsigned int port,
                         const struct ohca_link_rate *rate)
{
    OhcaState *s = opaque;
    OhcaPort *p = &s->port[port];
    struct ohca_link_phy phy;

    p->rate = *rate;
    if (p->link) {
        phy = ohca_wire_phy(p);
        ohca_link_set_phy(p->link, &phy);
    }
}

static void ohca_wire_change(OhcaState *s, unsigned int port, bool up)
{
    OhcaPort *p = &s->port[port];
    struct ohca_link_state st = { };

    p->blocked = 0;
    if (!up) {
        if (p->up) {
            p->up = false;
            trace_ohca_link_down(port + 1);
            ohca_link_change(s->engine, port, NULL);
        }
        return;
    }
    ohca_link_get_state(p->link, &st);
    p->up = true;
    trace_ohca_link_up(port + 1, st.width, st.speed, st.speed_ext);
    ohca_link_change(s->engine, port, &(struct ohca_link_rate) {
        .width = st.width,
        .speed = st.speed,
        .speed_ext = st.speed_ext,
    });
}

static void ohca_wire_ctrl(OhcaState *s, unsigned int port)
{
    OhcaPort *p = &s->port[port];
    unsigned int n;

    p->ctrl_due = false;
    for (n = 0; p->link; n++) {
        if (n == OHCA_CTRL_EVENTS) {
            p->ctrl_due = true;
            return;
        }
        switch (ohca_link_ctrl(p->link)) {
        case OHCA_LINK_EV_UP:
            ohca_wire_change(s, port, true);
            break;
        case OHCA_LINK_EV_DOWN:
            ohca_wire_change(s, port, false);
            break;
        case OHCA_LINK_EV_CLOSED:
        case OHCA_LINK_EV_ERROR:
            warn_report("%s: port %u lost its fabric: %s%s", ohca_name(s),
                        port + 1, ohca_link_error(p->link),
                        s->listen ? "" : "; trying to get it back");
            ohca_wire_change(s, port, false);
            ohca_wire_free_link(p);
            if (!s->listen) {
                p->told = false;
                p->had = true;
                p->retry_ms = OHCA_RETRY_MS;
                ohca_wire_later(s, p, p->retry_ms);
            }
            break;
        case OHCA_LINK_EV_NONE:
            return;
        }
    }
}

/* A peer connects to a listening port; one link at a time. */
static void ohca_wire_accept(OhcaState *s, unsigned int port)
{
    OhcaPort *p = &s->port[port];
    struct ohca_link_cfg peer;
    struct ohca_link_err err;
    int fd, r;

    if (p->pending_fd < 0) {
        p->pending_fd = accept4(p->listen_fd, NULL, NULL,
                                SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (p->pending_fd < 0) {
            return;
        }
        ohca_wire_later(s, p, OHCA_HELLO_MS);
    }
    r = ohca_link_hello_recv(p->pending_fd, &peer, &err);
    if (!r) {
        return;
    }
    fd = p->pending_fd;
    p->pending_fd = -1;
    p->due_ns = 0;
    if (r < 0) {
        warn_report("%s: port %u refused a peer: %s", ohca_name(s), port + 1,
                    err.text);
        close(fd);
        return;
    }
    p->link = ohca_link_hello_reply(fd, &peer, &p->cfg, &err);
    if (!p->link) {
        warn_report("%s: port %u refused a peer: %s", ohca_name(s), port + 1,
                    err.text);
        return;
    }
    ohca_wire_joined(p, port);
    ohca_wire_train(p);
}

/* Not connected: try again after a delay, and warn once. */
static void ohca_wire_failed(OhcaState *s, unsigned int port,
                             const struct ohca_link_err *err)
{
    OhcaPort *p = &s->port[port];

    /* A missing listener causes no warning. */
    if (!p->told && err->code != OHCA_LINK_E_PATH) {
        warn_report("%s: port %u: %s; trying again", ohca_name(s), port + 1,
                    err->text);
        p->told = true;
    }
    p->retry_ms = MIN(2 * p->retry_ms, OHCA_RETRY_MAX_MS);
    ohca_wire_later(s, p, p->retry_ms);
}

/* Connected (@r is 1), or not (-1). */
static void ohca_wire_connected(OhcaState *s, unsigned int port, int r,
                                const struct ohca_link_err *err)
{
    OhcaPort *p = &s->port[port];

    p->due_ns = 0;
    if (r < 0) {
        ohca_wire_failed(s, port, err);
        return;
    }
    if (p->had || p->told) {
        info_report("%s: port %u has its fabric%s", ohca_name(s), port + 1,
                    p->had ? " again" : "");
    }
    ohca_wire_joined(p, port);
    ohca_wire_train(p);
}

/* The listener may have answered our HELLO. */
static void ohca_wire_answer(OhcaState *s, unsigned int port)
{
    OhcaPort *p = &s->port[port];
    struct ohca_link_err err;
    int r = ohca_link_connect_finish(p->pending_fd, &p->cfg, &p->link, &err);

    if (r) {
        p->pending_fd = -1;     /* the link's, or closed */
        ohca_wire_connected(s, port, r, &err);
    }
}

/**
 * ohca_wire_due: the timer expired: drop a silent peer, connect again
 *
 * In the main loop, where no descriptor has a handler; owner.
 */
void ohca_wire_due(OhcaState *s)
{
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_REALTIME);
    struct ohca_link_err err = {
        .code = OHCA_LINK_E_TIMEOUT,
        .text = "no HELLO within 2 s",
    };
    unsigned int i;

    for (i = 0; i < s->ports; i++) {
        OhcaPort *p = &s->port[i];

        if (!p->due_ns) {
            continue;
        }
        if (p->due_ns > now) {
            timer_mod_anticipate_ns(s->wire_timer, p->due_ns);
            continue;
        }
        p->due_ns = 0;
        if (p->pending_fd >= 0) {
            ohca_link_hello_reject(p->pending_fd, err.code, err.text);
            ohca_close_fd(&p->pending_fd);
            if (s->listen) {
                warn_report("%s: port %u refused a peer: %s", ohca_name(s),
                            i + 1, err.text);
            } else {
                ohca_wire_failed(s, i, &err);
            }
        } else if (!p->link && !s->listen) {
            int r = ohca_wire_connect(s, i, 0, &err);

            if (r) {
                ohca_wire_connected(s, i, r, &err);
            }
        }
    }
}

int ohca_wire_ctrl_fd(const OhcaPort *p)
{
    if (p->link) {
        return ohca_link_ctrl_fd(p->link);
    }
    return p->pending_fd >= 0 ? p->pending_fd : p->listen_fd;
}

int ohca_wire_event_fd(const OhcaPort *p)
{
    return p->link ? ohca_link_event_fd(p->link) : -1;
}

/* ---- transmitting ---- */

uint8_t *ohca_wire_tx_begin(void *opaque, unsigned int port, unsigned int vl,
                            uint32_t len)
{
    OhcaState *s = opaque;
    OhcaPort *p = &s->port[port];
    uint8_t *buf;

    if (unlikely(!p->link)) {
        return NULL;
    }
    buf = ohca_link_tx_begin(p->link, vl, len);
    /* VL15 has no credits to wait for. */
    if (unlikely(!buf) && vl < OHCA_LINK_VL15 && ohca_link_is_up(p->link)) {
        p->blocked |= 1u << vl;
        p->blocked_len[vl] = len;
    }
    return buf;
}

void ohca_wire_tx_commit(void *opaque, unsigned int port, unsigned int vl,
                         uint32_t len)
{
    OhcaState *s = opaque;
    OhcaPort *p = &s->port[port];

    ohca_link_tx_commit(p->link, vl, len, 0);
    if (++p->unkicked == OHCA_KICK_FRAMES) {
        p->unkicked = 0;
        ohca_link_kick_tx(p->link);
    }
}

/* The refused lanes that have credits now. */
static uint16_t ohca_wire_unblocked(OhcaPort *p)
{
    uint32_t mask = p->blocked;
    uint16_t lanes = 0;

    for (; mask; mask &= mask - 1) {
        unsigned int vl = ctz32(mask);
        unsigned int shift = 6 + ohca_link_shift(p->link);
        unsigned int need = DIV_ROUND_UP(p->blocked_len[vl] + 2, 1u << shift);

        if (ohca_link_tx_credits(p->link, vl) >= need) {
            p->blocked &= ~(1u << vl);
            lanes |= 1u << vl;
        }
    }
    return lanes;
}

void ohca_wire_flush(OhcaState *s)
{
    unsigned int i;

    for (i = 0; i < s->ports; i++) {
        if (s->port[i].link) {
            s->port[i].unkicked = 0;
            ohca_link_kick(s->port[i].link);
        }
    }
}

/* ---- receiving ---- */

QEMU_BUILD_BUG_ON(OHCA_RX_ICRC != OHCA_FRAME_ICRC ||
                  OHCA_RX_VCRC != OHCA_FRAME_VCRC ||
                  OHCA_RX_EBP != OHCA_FRAME_EBP);

/* Host operation; owner. */
uint64_t ohca_wire_vl15_dropped(void *opaque, unsigned int port)
{
    OhcaState *s = opaque;

    ohca_wire_count_vl15(&s->port[port]);
    return s->port[port].vl15_dropped;
}

/* Returns the frames taken, @budget if there may be more. VL15 first, the others in turn. */
static unsigned int ohca_wire_rx(OhcaState *s, unsigned int port,
                                 unsigned int budget)
{
    OhcaPort *p = &s->port[port];
    uint32_t pending = ohca_link_rx_pending(p->link);
    struct ohca_link_frame f;
    unsigned int done = 0, mgmt = 0, vl;

    while (pending && done < budget) {
        if (!ohca_rx_room(s->engine, 1, 0)) {
            return budget;
        }
        if ((pending & (1u << OHCA_LINK_VL15)) &&
            (mgmt < OHCA_VL15_BURST || !(pending & OHCA_DATA_LANES))) {
            vl = OHCA_LINK_VL15;
            mgmt++;
        } else {
            uint32_t data = pending & OHCA_DATA_LANES;
            uint32_t after = data & (~0u << p->next_vl);

            vl = ctz32(after ?: data);
            p->next_vl = vl + 1;
            mgmt = 0;
        }
        switch (ohca_link_rx_peek(p->link, vl, &f)) {
        case 1:
            ohca_rx(s->engine, port, &(struct ohca_frame) {
                .data = f.data,
                .len = f.len,
                .vl = vl,
                .flags = f.flags,
                .vcrc = f.vcrc,
            });
            ohca_link_rx_release(p->link, vl);
            done++;
            break;
        case 0:
            pending &= ~(1u << vl);
            break;
        default:
            p->ctrl_due = true;
            return done;
        }
    }
    return done;
}

/**
 * ohca_wire_work: everything the links have for us
 * @budget: frames to take at most, each port
 *
 * Returns: true if the budget was used up
 */
bool ohca_wire_work(OhcaState *s, unsigned int budget)
{
    bool more = false;
    unsigned int n;

    /* The ports share what the engine takes in a turn: they are first by turns. */
    s->first_port = (s->first_port + 1) % s->ports;
    for (n = 0; n < s->ports; n++) {
        unsigned int i = (s->first_port + n) % s->ports;
        OhcaPort *p = &s->port[i];

        if (!p->link) {
            continue;
        }
        if (unlikely(p->ctrl_due)) {
            ohca_wire_ctrl(s, i);
            if (!p->link) {
                continue;
            }
        }
        if (unlikely(p->blocked)) {
            uint16_t lanes = ohca_wire_unblocked(p);

            if (lanes) {
                ohca_tx_ready(s->engine, i, lanes);
            }
        }
        more |= ohca_wire_rx(s, i, budget) >= budget || p->ctrl_due;
    }
    return more;
}

bool ohca_wire_pending(OhcaState *s)
{
    unsigned int i;

    for (i = 0; i < s->ports; i++) {
        if (s->port[i].link && ohca_link_rx_pending(s->port[i].link)) {
            return true;
        }
    }
    return false;
}

/* ---- sleeping ---- */

/**
 * ohca_wire_prepare_sleep: ask every peer to wake us
 *
 * Returns: true if there is nothing to do; false undoes it all
 */
bool ohca_wire_prepare_sleep(OhcaState *s)
{
    unsigned int i, n;

    for (n = 0; n < s->ports; n++) {
        OhcaPort *p = &s->port[n];

        if (p->link && (p->ctrl_due || !ohca_link_prepare_sleep(p->link))) {
            /* frames, credits, or a peer that broke the rules */
            p->ctrl_due |= !ohca_link_rx_pending(p->link) && !p->blocked;
            break;
        }
    }
    if (n == s->ports) {
        return true;
    }
    for (i = 0; i < n; i++) {
        if (s->port[i].link) {
            ohca_link_awake(s->port[i].link, false);
        }
    }
    return false;
}

/**
 * ohca_wire_awake: the sleep is over
 * @event: the descriptor of ohca_wire_event_fd() is readable
 * @ctrl: the descriptor of ohca_wire_ctrl_fd() is readable
 */
void ohca_wire_awake(OhcaState *s, unsigned int port, bool event, bool ctrl)
{
    OhcaPort *p = &s->port[port];

    if (p->link) {
        ohca_link_awake(p->link, event);
        p->ctrl_due |= ctrl;
    } else if (ctrl && s->listen) {
        ohca_wire_accept(s, port);
    } else if (ctrl && p->pending_fd >= 0) {
        ohca_wire_answer(s, port);
    }
}
