/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PCI device "ohca": what its files share.
 *
 * ohca-pci.c             the QOM type: properties, BARs, MSI-X, reset
 * ohca-hosted.c          registers, doorbells, life
 * ohca-hosted-mem.c      guest memory
 * ohca-hosted-iommu.c    what an IOMMU translates of it
 * ohca-hosted-dirty.c    what was written of it
 * ohca-hosted-move.c     migration
 * ohca-irq.c             interrupts
 *
 * The HCA itself is in the process of the fabric, ohca-fabric. This device is its
 * front: it gives that process the guest's memory and doorbells, and gets
 * interrupts (core/front).
 */
#ifndef HW_RDMA_OHCA_H
#define HW_RDMA_OHCA_H

#include "ohca-compat.h"
#include "hw/pci/pci_device.h"
#include "migration/vmstate.h"
#include "qemu/main-loop.h"
#include "qemu/notify.h"
#include "qemu/thread.h"
#include "qemu/timer.h"
#include "qom/object.h"
#include "core/front/client.h"
#include "core/front/dirty.h"

#define TYPE_OHCA "ohca"
OBJECT_DECLARE_SIMPLE_TYPE(OhcaState, OHCA)

#define OHCA_PORTS          2
#define OHCA_UARS           1024u
#define OHCA_UAR_MIN_SHIFT  12
#define OHCA_UAR_MAX_SHIFT  16
#define OHCA_DM_MIN         (64 * KiB)
#define OHCA_DM_MAX         (16 * MiB)
#define OHCA_MEM_MIN        (1 * MiB)
#define OHCA_MEM_MAX        (1 * GiB)

/* A stretch of the bus address space that is plain RAM. */
typedef struct OhcaRam {
    uint64_t iova;
    uint64_t len;
    uint8_t *hva;
    MemoryRegion *mr;
    bool readonly;
} OhcaRam;

/* A connection to the process that hosts the engine. */
typedef struct OhcaFront {
    struct rcu_head rcu;
    struct ohca_front *f;
} OhcaFront;

/* What the process which hosts the engine has written of a block. */
typedef struct OhcaLog {
    void *mem;                  /* NULL: there is none */
    size_t bytes;
    struct ohca_dirty dirty;
    MemoryRegion *mr;           /* the block is */
} OhcaLog;

/* Memory that the process which hosts the engine has mapped; its id is an index. */
typedef struct OhcaBlock {
    MemoryRegion *mr;           /* NULL: there is none; else with a reference */
    bool used;                  /* by what becomes the table */
    OhcaLog log;
} OhcaBlock;

/* The HCA in that process: all of it is the BQL's, but where noted. */
typedef struct OhcaHosted {
    OhcaFront *front;           /* RCU: the last one; NULL before the first */
    bool there;                 /* it is not lost */
    bool works;                 /* the device was used with it: a loss is news */
    struct ohca_front_hello hello;
    int dm_fd;                  /* device memory, or -1; the region's */
    OhcaLog dm_log;
    QemuThread irq_thread;
    QEMUTimer *timer;           /* connect again, or wait no longer */
    struct ohca_front *trying;  /* has said HELLO */
    unsigned int retry_ms;      /* between attempts to connect */
    bool told;                  /* why the last one failed */
    VMChangeStateEntry *vmstate;

    /* migration, see ohca-hosted-move.c */
    bool awaited;               /* by -incoming: the state has not come yet */
    bool held;                  /* until it runs here it may run elsewhere */
    uint64_t token;             /* by which it does; 0: there is none */
    uint64_t move_guid;         /* NodeGUID of the machine that moves */
    NotifierWithReturn postcopy;    /* and @begins: only with a function */
    NotifierWithReturn begins;
    Error *no_cpr, *no_move;    /* reasons of blockers */

    /* memory, see ohca-hosted-mem.c */
    MemoryListener listener;
    GArray *ram;                /* OhcaRam, sorted: what the bus has */
    GArray *next;               /* what becomes @ram at commit */
    char *refused;              /* why @next cannot be given away, or NULL */
    OhcaBlock block[OHCA_FRONT_BLOCKS];
    bool on_disk;               /* the process has had one that is there */
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
    uint32_t page_shift;        /* log2 of the UAR stride; atomic */
    uint16_t num_vectors;
    uint32_t irq_queued;        /* a vCPU is about to deliver them; atomic */
    OhcaHosted host;

    /* properties */
    char *fabric;
    bool smp;
    uint8_t fabric_port;
    uint64_t guid;
    bool guid_is_made;          /* no property has set it */
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
    uint16_t vendor_id;         /* PCI */
    uint16_t vectors;
    uint16_t uars;
    uint8_t log_max_qp, log_max_cq, log_max_srq, log_max_mr;
    uint64_t lacks;             /* features that are not offered */
    uint32_t version;
    bool deaf;                  /* admin doorbells are lost, until a reset;
                                   atomic */
    uint64_t lies, lies_kinds, lies_seed;   /* as of LIES (core/front/proto.h) */
    uint64_t command_ms;        /* instead of the engine's; 0: that */
};

/* Of the device, for messages. */
static inline const char *ohca_name(OhcaState *s)
{
    return DEVICE(s)->id ?: TYPE_OHCA;
}

/* The connection, perhaps a lost one: in an RCU critical section, or under the BQL. */
static inline struct ohca_front *ohca_front_of(OhcaState *s)
{
    return qatomic_rcu_read(&s->host.front)->f;
}

/* ohca-pci.c */
void ohca_set_stride(OhcaState *s, uint64_t shift);
uint64_t ohca_read_as_told(OhcaState *s, hwaddr addr, uint64_t val);

/* ohca-irq.c */
void ohca_irq_flush(OhcaState *s);

/* ohca-hosted.c; all under the BQL */
extern const MemoryRegionOps ohca_hosted_ctrl_ops;
extern const MemoryRegionOps ohca_hosted_uar_ops;
bool ohca_hosted_check(OhcaState *s, Error **errp);
bool ohca_hosted_init_dm(OhcaState *s, Error **errp);
bool ohca_hosted_realize(OhcaState *s, Error **errp);
bool ohca_hosted_connect(OhcaState *s, Error **errp);
void ohca_hosted_again(OhcaState *s);
void ohca_hosted_hold(OhcaState *s);
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
bool ohca_hosted_log(OhcaState *s, OhcaLog *log, MemoryRegion *mr,
                     unsigned int id, uint64_t size);

/* ohca-hosted-iommu.c; all under the BQL */
bool ohca_hosted_iommu_check(OhcaState *s, Error **errp);
const char *ohca_hosted_iommu_refused(OhcaState *s);
void ohca_hosted_iommu_init(OhcaState *s);
void ohca_hosted_iommu_exit(OhcaState *s);
void ohca_hosted_iommu_send(OhcaState *s);
void ohca_hosted_iommu_loaded(OhcaState *s);

/* ohca-hosted-move.c; all under the BQL */
extern const VMStateDescription ohca_vmstate;
bool ohca_hosted_await(OhcaState *s);
bool ohca_hosted_move_init(OhcaState *s, Error **errp);
void ohca_hosted_move_exit(OhcaState *s);
bool ohca_hosted_stay(OhcaState *s, Error **errp);

/* ohca-hosted-dirty.c; all under the BQL */
void ohca_hosted_dirty(OhcaState *s);
void ohca_hosted_told(OhcaState *s);
int ohca_log_open(OhcaLog *log, MemoryRegion *mr, uint64_t size);
void ohca_log_close(OhcaLog *log);

#endif /* HW_RDMA_OHCA_H */
