/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PCI device "ohca": what its files share.
 *
 * ohca-pci.c     the QOM type: properties, BARs, MSI-X, reset
 * ohca-mem.c     guest memory as the engine sees it
 * ohca-thread.c  who owns the engine when: vCPU threads, the owner thread, a BH
 * ohca-irq.c     interrupts
 * ohca-persist.c FLUSH for persistence
 * ohca-wire.c    the link of each port
 *
 * The engine (core/engine) is the card itself and knows nothing of QEMU. With
 * host=daemon the fabric's process has it, and in place of the middle four are
 *
 * ohca-hosted.c      registers, doorbells, life: what is told to that process
 * ohca-hosted-mem.c  guest memory that it is given
 * ohca-hosted-iommu.c    what an IOMMU translates of it
 *
 * Locks: OhcaState.lock makes its holder the owner of the engine, of the links
 * and of everything below that says "owner". The order is BQL, then lock; neither
 * the holder of the lock nor the owner thread ever waits for the BQL.
 */
#ifndef HW_RDMA_OHCA_H
#define HW_RDMA_OHCA_H

#include <poll.h>
#include "ohca-compat.h"
#include "hw/pci/pci_device.h"
#include "qemu/event_notifier.h"
#include "qemu/main-loop.h"
#include "qemu/thread.h"
#include "qemu/timer.h"
#include "qom/object.h"
#include "core/engine/engine.h"
#include "core/front/client.h"
#include "core/link/link.h"

#define TYPE_OHCA "ohca"
OBJECT_DECLARE_SIMPLE_TYPE(OhcaState, OHCA)

#define OHCA_PORTS          2
#define OHCA_LANES          16
#define OHCA_UARS           1024u
#define OHCA_UAR_MIN_SHIFT  12
#define OHCA_UAR_MAX_SHIFT  16
#define OHCA_DM_MIN         (64 * KiB)
#define OHCA_DM_MAX         (16 * MiB)
#define OHCA_MEM_MIN        (1 * MiB)
#define OHCA_IRQ_WORDS      32      /* 2048 MSI-X vectors */

/* What the owner thread waits for; of each port: events, then control. */
enum { OHCA_FD_KICK, OHCA_FD_TIMER, OHCA_FD_PORT };

/* A stretch of the bus address space that is plain RAM. */
typedef struct OhcaRam {
    uint64_t iova;
    uint64_t len;
    uint8_t *hva;
    MemoryRegion *mr;
    bool readonly;
} OhcaRam;

typedef struct OhcaMem {
    MemoryListener listener;
    GArray *ram;                /* owner: OhcaRam, sorted, no overlaps */
    unsigned int last;          /* owner: index of the last hit */
    GArray *next;               /* BQL: what becomes @ram at commit */
    bool iommu;                 /* an IOMMU translates; written by the owner */
    OhcaRam translated;         /* owner: the last translation */
    bool next_iommu;            /* BQL */
} OhcaMem;

/* One port's link. All of it is the owner's. */
typedef struct OhcaPort {
    struct ohca_link *link;
    struct ohca_link_cfg cfg;
    bool enabled;               /* what the SMA asked for last */
    struct ohca_link_rate rate; /* widths and speeds it has enabled */
    bool up;                    /* what the engine was told last */
    bool ctrl_due;              /* ohca_link_ctrl() has something to do */
    uint32_t blocked;           /* lanes on which tx_begin failed */
    uint16_t blocked_len[OHCA_LANES];
    uint8_t next_vl;            /* round robin of the receiver */
    unsigned int unkicked;      /* frames since the last kick */
    uint64_t vl15_dropped;      /* VL15 frames for us that found no room */
    uint32_t vl15_seen;         /* of this link, in @vl15_dropped */
    int listen_fd;              /* or -1 */
    int pending_fd;             /* no HELLO from there yet; or -1 */
    int64_t due_ns;             /* real time: no longer wait for it, or connect
                                   again; 0: nothing is due */
    unsigned int retry_ms;      /* between attempts to connect */
    bool told;                  /* why the last one failed */
    bool had;                   /* a fabric, before */
} OhcaPort;

/* A connection to the process that hosts the engine. */
typedef struct OhcaFront {
    struct rcu_head rcu;
    struct ohca_front *f;
} OhcaFront;

/* Memory that the process which hosts the engine has mapped; its id is an index. */
typedef struct OhcaBlock {
    MemoryRegion *mr;           /* NULL: there is none; else with a reference */
    bool used;                  /* by what becomes the table */
} OhcaBlock;

/* host=daemon: all of it is the BQL's, but where noted. */
typedef struct OhcaHosted {
    OhcaFront *front;           /* RCU: the last one; NULL before the first */
    bool there;                 /* it is not lost */
    struct ohca_front_hello hello;
    int dm_fd;                  /* device memory, or -1; the region's */
    QemuThread irq_thread;
    QEMUTimer *timer;           /* connect again, or wait no longer */
    struct ohca_front *trying;  /* has said HELLO */
    unsigned int retry_ms;      /* between attempts to connect */
    bool told;                  /* why the last one failed */
    VMChangeStateEntry *vmstate;

    /* memory, see ohca-hosted-mem.c */
    MemoryListener listener;
    GArray *ram;                /* OhcaRam, sorted: what the bus has */
    GArray *next;               /* what becomes @ram at commit */
    char *refused;              /* why @next cannot be given away, or NULL */
    OhcaBlock block[OHCA_FRONT_BLOCKS];
    GByteArray *sent;           /* the last MEM */
    bool iommu, next_iommu;     /* an IOMMU translates; as @ram and @next */

    /* what an IOMMU translates, see ohca-hosted-iommu.c */
    MemoryListener iommu_listener;
    QLIST_HEAD(, OhcaIommu) iommus;
    GTree *maps;                /* all mappings; NULL: there is no IOMMU */
    bool maps_told;             /* the process has them, too */
    char *iommu_refused;        /* why an IOMMU does not tell of them, or NULL */
} OhcaHosted;

struct OhcaState {
    PCIDevice parent_obj;

    MemoryRegion ctrl;
    MemoryRegion uar;
    MemoryRegion dm;            /* device memory, if there is any */
    ohca_engine *engine;
    uint32_t engines;           /* BQL: how many there have been */
    uint32_t page_shift;        /* log2 of the UAR stride; atomic */

    OhcaMem mem;
    OhcaPort port[OHCA_PORTS];

    /* ownership, see ohca-thread.c */
    QemuMutex lock;
    uint32_t waiters;           /* threads that block on @lock; atomic */
    uint32_t work;              /* somebody must poll; atomic */
    uint32_t asleep;            /* the owner thread waits in poll(); atomic */
    uint32_t stopping;          /* atomic */
    bool started;               /* BQL: @thread is to be joined */
    bool paused;                /* owner: the VM does not run */
    bool use_thread;
    int loop_fd[2 * OHCA_PORTS];    /* inline mode: with a handler */
    unsigned int num_loop_fds;
    QemuThread thread;
    EventNotifier kick;
    int timer_fd;
    struct pollfd fds[OHCA_FD_PORT + 2 * OHCA_PORTS];   /* thread only */
    unsigned int num_fds;       /* thread only; 0: no sleep since the last turn */
    bool more;                  /* what the turn in the main loop returned */
    QemuEvent turned;           /* the turn in the main loop is over */
    uint64_t armed;             /* owner: what the timer is set to, ns */
    QEMUTimer *timer;           /* inline mode */
    QEMUTimer *wire_timer;      /* earliest due_ns of the ports */
    QEMUBH *bh;                 /* inline mode, or an IOMMU: a turn */
    int64_t poll_ns;
    VMChangeStateEntry *vmstate;
    Notifier exit;

    /* FLUSH for persistence, see ohca-persist.c */
    QSIMPLEQ_HEAD(, OhcaPersist) persist;   /* owner: not begun yet */
    QEMUBH *persist_bh;

    /* interrupts raised and not yet delivered; atomic */
    uint32_t irq_any;
    uint64_t irq[OHCA_IRQ_WORDS];
    uint32_t irq_queued;        /* a vCPU is about to deliver them; atomic */
    uint16_t num_vectors;
    uint8_t first_port;         /* takes frames first in this turn; owner */

    bool hosted;                /* host=daemon: no engine, no owner, no links */
    OhcaHosted host;

    /* properties */
    char *host_name;
    char *fabric[OHCA_PORTS];
    bool listen;
    bool smp;
    uint8_t fabric_port;
    uint64_t guid;
    uint64_t sys_guid;
    uint8_t ports;
    uint8_t vls;
    uint16_t mtu;
    char *speed;
    char *width;
    char *node_desc;
    char *mw_type2;
    uint64_t dm_size;
    uint64_t mem_max;           /* what the guest's objects may take */
    char *engine_mode;
    uint16_t vectors;
    uint16_t uars;
    uint8_t log_max_qp, log_max_cq, log_max_srq, log_max_mr;
    uint64_t lacks;             /* features that are not offered */
    uint32_t version;
    bool deaf;                  /* admin doorbells are lost, until a reset;
                                   atomic */
    uint64_t lies, lies_kinds, lies_seed;   /* of ohca_set_lies() */
    uint64_t command_ms;        /* instead of the engine's; 0: that */
    int32_t poll_us;
    uint32_t inline_budget;
    uint32_t thread_budget;
};

/* Of the device, for messages. */
static inline const char *ohca_name(OhcaState *s)
{
    return DEVICE(s)->id ?: TYPE_OHCA;
}

/* ohca-pci.c */
void ohca_set_stride(OhcaState *s, uint64_t shift);
uint64_t ohca_read_as_told(OhcaState *s, hwaddr addr, uint64_t val);

/* ohca-mem.c: the dma_* functions are the engine's host operations */
void ohca_mem_init(OhcaState *s);
void ohca_mem_exit(OhcaState *s);
void ohca_mem_enter(void *opaque);
void ohca_mem_leave(void *opaque);
void *ohca_mem_map(void *opaque, uint64_t iova, size_t *len, int prot);
void ohca_mem_dirty(void *opaque, uint64_t iova, size_t n);
const OhcaRam *ohca_mem_find(OhcaState *s, uint64_t iova, size_t len, int prot);
void ohca_mem_dm_dirty(void *opaque, uint64_t off, size_t n);
void ohca_ram_free(GArray *ram);
bool ohca_ram_section(const MemoryRegionSection *sec, OhcaRam *r);
gint ohca_ram_cmp(gconstpointer a, gconstpointer b);

/* ohca-thread.c */
bool ohca_thread_init(OhcaState *s, Error **errp);
void ohca_thread_exit(OhcaState *s);
void ohca_thread_start(OhcaState *s);
void ohca_thread_stop(OhcaState *s);
void ohca_lock(OhcaState *s);
void ohca_unlock(OhcaState *s);
void ohca_unlock_serve(OhcaState *s);
void ohca_serve(OhcaState *s);
void ohca_wake(OhcaState *s);
void ohca_kick(void *opaque);
uint64_t ohca_now_ns(void *opaque);
void ohca_short_slice(void);

/* ohca-persist.c */
void ohca_persist_init(OhcaState *s);
void ohca_persist_exit(OhcaState *s);
bool ohca_persist_start(void *opaque, const struct ohca_run *run,
                        unsigned int n, uint64_t tag);

/* ohca-irq.c */
void ohca_irq(void *opaque, unsigned int vec);
void ohca_irq_clear(OhcaState *s);
void ohca_irq_flush(OhcaState *s);

/* ohca-wire.c; all but open are called by the owner */
bool ohca_wire_open(OhcaState *s, unsigned int port, Error **errp);
void ohca_wire_close(OhcaState *s, unsigned int port);
bool ohca_wire_work(OhcaState *s, unsigned int budget);
void ohca_wire_flush(OhcaState *s);
bool ohca_wire_prepare_sleep(OhcaState *s);
void ohca_wire_awake(OhcaState *s, unsigned int port, bool event, bool ctrl);
bool ohca_wire_pending(OhcaState *s);
int ohca_wire_ctrl_fd(const OhcaPort *p);
int ohca_wire_event_fd(const OhcaPort *p);
uint8_t *ohca_wire_tx_begin(void *opaque, unsigned int port, unsigned int vl,
                            uint32_t len);
void ohca_wire_tx_commit(void *opaque, unsigned int port, unsigned int vl,
                         uint32_t len);
uint64_t ohca_wire_vl15_dropped(void *opaque, unsigned int port);
void ohca_wire_link_ctl(void *opaque, unsigned int port, bool enable);
void ohca_wire_link_rate(void *opaque, unsigned int port,
                         const struct ohca_link_rate *rate);
void ohca_wire_due(OhcaState *s);

/* ohca-hosted.c; all under the BQL */
extern const MemoryRegionOps ohca_hosted_ctrl_ops;
extern const MemoryRegionOps ohca_hosted_uar_ops;
bool ohca_hosted_check(OhcaState *s, Error **errp);
bool ohca_hosted_init_dm(OhcaState *s, Error **errp);
bool ohca_hosted_realize(OhcaState *s, const struct ohca_cfg *cfg, Error **errp);
void ohca_hosted_unrealize(OhcaState *s);
void ohca_hosted_finalize(OhcaState *s);
void ohca_hosted_reset(OhcaState *s);
void ohca_hosted_lies(OhcaState *s);
uint64_t ohca_hosted_lies_told(OhcaState *s);
int ohca_hosted_say(OhcaState *s, enum ohca_front_type type, void *msg,
                   size_t len, int fd, uint64_t *value);
void ohca_hosted_give_up(OhcaState *s, const char *why);

/* ohca-hosted-mem.c; all under the BQL */
bool ohca_hosted_mem_check(OhcaState *s, Error **errp);
bool ohca_hosted_mem_take(OhcaState *s, Error **errp);
void ohca_hosted_mem_init(OhcaState *s);
void ohca_hosted_mem_exit(OhcaState *s);
void ohca_hosted_mem_send(OhcaState *s);
void ohca_hosted_mem_forget(OhcaState *s);
bool ohca_hosted_is_shared(const MemoryRegion *mr);
int ohca_hosted_block(OhcaState *s, MemoryRegion *mr);

/* ohca-hosted-iommu.c; all under the BQL */
bool ohca_hosted_iommu_check(OhcaState *s, Error **errp);
const char *ohca_hosted_iommu_refused(OhcaState *s);
void ohca_hosted_iommu_init(OhcaState *s);
void ohca_hosted_iommu_exit(OhcaState *s);
void ohca_hosted_iommu_send(OhcaState *s);

#endif /* HW_RDMA_OHCA_H */
