/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PCI device "ohca": declarations that its files share.
 *
 * ohca-pci.c             QOM type: properties, BARs, MSI-X, reset
 * ohca-hosted.c          connection to the HCA, registers, doorbells
 * ohca-hosted-mem.c      guest memory
 * ohca-hosted-iommu.c    mappings of an IOMMU
 * ohca-hosted-dirty.c    dirty memory
 * ohca-hosted-move.c     migration
 * ohca-irq.c             interrupts
 *
 * The HCA itself runs in the process of the fabric, ohca-fabric, below "the
 * process". This device shares the guest's memory and doorbells with the
 * process and receives interrupts from it (core/front).
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

/* A range of the bus address space that is RAM. */
typedef struct OhcaRam {
    uint64_t iova;
    uint64_t len;
    uint8_t *hva;
    MemoryRegion *mr;
    bool readonly;
} OhcaRam;

/* A connection to the process, freed by RCU. */
typedef struct OhcaFront {
    struct rcu_head rcu;
    struct ohca_front *f;
} OhcaFront;

/* Log of the pages of a block that the process has written. */
typedef struct OhcaLog {
    void *mem;                  /* NULL: there is no log */
    size_t bytes;
    struct ohca_dirty dirty;
    MemoryRegion *mr;           /* the region of the block */
} OhcaLog;

/* Memory that the process has mapped; its id is the index in @block. */
typedef struct OhcaBlock {
    MemoryRegion *mr;           /* with a reference; NULL: the block is free */
    bool used;                  /* the table that is being made refers to it */
    OhcaLog log;
} OhcaBlock;

/*
 * State of the connection to the HCA. The BQL protects it, except where noted.
 */
typedef struct OhcaHosted {
    OhcaFront *front;           /* last connection, by RCU; NULL at first */
    bool there;                 /* connected */
    bool works;                 /* @front was usable: warn if it is lost */
    struct ohca_front_hello hello;
    int dm_fd;                  /* file of @dm, which owns it; -1: none */
    OhcaLog dm_log;
    QemuThread irq_thread;
    QEMUTimer *timer;           /* next attempt to connect, timeout of @trying */
    struct ohca_front *trying;  /* has sent HELLO and waits for the answer */
    unsigned int retry_ms;      /* delay before the next attempt to connect */
    bool told;                  /* the last failure has been reported */
    VMChangeStateEntry *vmstate;

    /* migration, see ohca-hosted-move.c */
    bool awaited;               /* -incoming: the state is not loaded yet */
    bool held;                  /* do not connect until the machine runs here */
    uint64_t token;             /* for taking the HCA over; 0: none */
    uint64_t move_guid;         /* NodeGUID of the machine that migrates */
    NotifierWithReturn postcopy;    /* registered if begins.notify is set */
    NotifierWithReturn begins;      /* the same */
    Error *no_cpr, *no_move;    /* reasons of migration blockers */

    /* memory, see ohca-hosted-mem.c */
    MemoryListener listener;
    GArray *ram;                /* OhcaRam, sorted: accessible by the device */
    GArray *next;               /* becomes @ram when the listener commits */
    char *refused;              /* why @next cannot be shared, or NULL */
    OhcaBlock block[OHCA_FRONT_BLOCKS];
    bool on_disk;               /* a block was shared whose file is on a disk */
    GByteArray *sent;           /* the last MEM message */
    bool iommu, next_iommu;     /* an IOMMU translates; like @ram and @next */

    /* mappings of an IOMMU, see ohca-hosted-iommu.c */
    MemoryListener iommu_listener;
    QLIST_HEAD(, OhcaIommu) iommus;
    GTree *maps;                /* all mappings; NULL: there is no IOMMU */
    bool maps_told;             /* they have been sent to the process */
    int64_t maps_end;           /* time limit of messages, us; 0: there is none */
    char *iommu_refused;        /* why an IOMMU has no notifications, or NULL */
} OhcaHosted;

struct OhcaState {
    PCIDevice parent_obj;

    MemoryRegion ctrl;
    MemoryRegion uar;
    MemoryRegion dm;            /* device memory, if @dm_size is not 0 */
    uint32_t page_shift;        /* log2 of the UAR stride; atomic */
    uint16_t num_vectors;
    uint32_t irq_queued;        /* delivery is queued on a vCPU; atomic */
    OhcaHosted host;

    /* properties */
    char *fabric;
    bool smp;
    uint8_t fabric_port;
    uint64_t guid;
    bool guid_is_made;          /* @guid is random: no property has set it */
    uint64_t sys_guid;
    uint8_t ports;
    uint8_t vls;
    uint16_t mtu;
    char *speed;
    char *width;
    char *node_desc;
    char *mw_type2;
    uint64_t dm_size;
    uint64_t mem_max;           /* memory limit of the guest's objects, bytes */
    uint16_t vendor_id;         /* PCI vendor ID */
    uint16_t vectors;
    uint16_t uars;
    uint8_t log_max_qp, log_max_cq, log_max_srq, log_max_mr;
    uint64_t lacks;             /* features that the device does not offer */
    uint32_t version;           /* of register VERSION; 0: the real one */
    bool deaf;                  /* ignore AQ doorbells until a reset; atomic */
    uint64_t lies, lies_kinds, lies_seed;   /* see struct ohca_front_lies */
    uint64_t command_ms;        /* command timeout; 0: the engine's */
};

/* Name of the device for messages. */
static inline const char *ohca_name(OhcaState *s)
{
    return DEVICE(s)->id ?: TYPE_OHCA;
}

/*
 * The last connection, possibly lost. In an RCU critical section or under the
 * BQL.
 */
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
void ohca_hosted_iommu_settle(OhcaState *s);
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
