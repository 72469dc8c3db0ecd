/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: its objects and what its files offer one another.
 *
 * Locks, outermost first: ohca_function.lock, ohca_qp.mutex, ohca_cq.resize_lock,
 * ohca_srq.resize_lock, ohca_dev.kqp_lock, ohca_port.lock, ohca_dev.fatal_lock,
 * ohca_cq.lock, ohca_srq.lock. ohca_sq.lock, ohca_rq.lock and ohca_aq.lock are
 * innermost. A completion moves a queue's tail under the CQ's lock and a post its head
 * under the queue's; they meet in acquire and release alone.
 */
#ifndef OHCA_H
#define OHCA_H

#include <linux/completion.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#ifdef OHCA_HAVE_RDMA_ITER	/* else it is in the headers above */
#include <rdma/iter.h>
#endif
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "ohca_hw.h"

#ifndef CONFIG_64BIT
#error "OpenHCA doorbells need 64-bit MMIO writes"
#endif

#define OHCA_DRV_NAME		"ohca"
#define OHCA_ASYNC_EQ_MIN_LOG	13
#define OHCA_EQ_MAX_LOG		20
#define OHCA_COMP_EQ_MAX_LOG	16
#define OHCA_MAX_PORTS		2
#define OHCA_MAX_HANDLE		0xffffffu	/* doorbells carry 24 bits */
#define OHCA_MAX_MS		30000u	/* whatever a device asks for, no answer takes longer */
#define OHCA_HEALTH_PERIOD	(2 * HZ)
#define OHCA_RECOVER_TRIES	5
#define OHCA_RECOVER_DELAY	(HZ / 4)
#define OHCA_RECOVER_CALM	(600 * HZ)

/**
 * struct ohca_eq - an event queue
 * @dev: the device
 * @buf: ring of struct ohca_hw_eqe
 * @eqn: number
 * @log_size: log2 of its entries
 * @ci: consumer index
 * @vector: MSI-X vector
 * @created: the device knows it
 * @armed: the interrupt handler may touch it
 * @name: of its interrupt
 */
struct ohca_eq {
	struct ohca_dev *dev;
	struct ohca_buf buf;
	u32 eqn;
	u32 log_size;
	u32 ci;
	u32 vector;
	bool created;
	bool armed;
	char name[32];
};

/**
 * struct ohca_port - what the driver keeps of a port
 * @lock: protects the rest
 * @pkey_block: number of the P_Key block in @pkeys
 * @guid_block: number of the GUIDInfo block in @guids
 * @pkey_until: jiffies until which @pkeys may be used, 0: not valid
 * @guid_until: of @guids
 * @prefix_until: of @prefix
 * @pkeys: P_Key block
 * @guids: GUIDInfo block
 * @prefix: GID prefix
 *
 * The core reads the tables entry by entry on each event, while one MAD yields a
 * block; a block is therefore kept for a few milliseconds, and never across an
 * event of the port.
 */
struct ohca_port {
	struct mutex lock;	/* see above */
	u16 pkey_block;
	u16 guid_block;
	unsigned long pkey_until;
	unsigned long guid_until;
	unsigned long prefix_until;
	__be16 pkeys[32];
	__be64 guids[8];
	__be64 prefix;
};

struct ohca_fault;
struct ohca_paged;

/**
 * struct ohca_function - a PCI function that the driver is bound to; outlives its devices
 * @pdev: the function
 * @lock: held by who makes or takes the device; outermost
 * @dev: the device, or NULL while there is none
 * @stopped: no device is made until somebody starts the function again
 * @config: configuration space as it was when the device was first identified: it decodes memory,
 *	but is no bus master; or NULL
 * @recover: makes another device of one that failed
 * @tries: attempts since the device last ran for OHCA_RECOVER_CALM
 * @since: jiffies of the last attempt that succeeded
 */
struct ohca_function {
	struct pci_dev *pdev;
	struct mutex lock;	/* see above */
	struct ohca_dev *dev;
	bool stopped;
	struct pci_saved_state *config;
	struct delayed_work recover;
	u32 tries;
	unsigned long since;
};

/**
 * struct ohca_dev - one HCA
 * @ibdev: what ib_core knows; must be first
 * @pdev: its PCI function
 * @fn: what the driver keeps of that function; NULL in unit tests
 * @regs: BAR 0
 * @uar: doorbell page 0, the kernel's
 * @features: FEATURES_ACK in force
 * @version: register VERSION
 * @reset_ms: longest reset
 * @cmd_ms: longest command
 * @num_uars: doorbell pages
 * @attr: result of QUERY_DEVICE
 * @aq: admin queue
 * @async_eq: EQ of vector 0
 * @fault_eq: EQ for page faults, of vector 0, too
 * @faults: page faults by slot
 * @fault_wq: answers them, and follows advice
 * @comp_eqs: completion EQs
 * @num_comp_eqs: how many
 * @num_vectors: MSI-X vectors
 * @irq_requested: vectors whose interrupt is requested
 * @uars: doorbell pages in use
 * @qps: QPs by handle
 * @cqs: CQs by number
 * @srqs: SRQs by number
 * @paged: regions whose pages come and go, by key
 * @odp_lock: protects @odp_mms
 * @odp_mms: struct ohca_odp_mm, one for each address space with such regions
 * @odp_children: pieces of implicit regions that have tables
 * @ports: by port number - 1
 * @fatal: the device is given up; no command is accepted any more
 * @quiet: and it is reset: no DMA happens any more, so that buffers may be given back
 * @wedged: it did not even answer a reset: memory it knew is never freed
 * @registered: ib_core knows it
 * @early_events: by port number - 1: events before that, bits of enum ib_event_type
 * @fatal_lock: serializes ohca_fatal()
 * @fatal_work: tells consumers of the end
 * @flush_work: completes what kernel consumers post after the end
 * @health: looks at STATUS now and then
 * @kqp_lock: a handle of a kernel QP is not used again before its CQEs are gone
 * @bad_cqes: CQEs that made no sense
 * @bad_eqes: EQEs that made no sense
 * @late_eqes: EQEs of objects that are gone
 * @debugfs: directory of its state
 */
struct ohca_dev {
	struct ib_device ibdev;
	struct pci_dev *pdev;
	struct ohca_function *fn;
	void __iomem *regs;
	void __iomem *uar;
	u64 features;
	u32 version;
	u32 reset_ms;
	u32 cmd_ms;
	u32 num_uars;
	struct ohca_hw_device_attr attr;
	struct ohca_aq aq;
	struct ohca_eq async_eq;
	struct ohca_eq fault_eq;
	struct ohca_fault *faults;
	struct workqueue_struct *fault_wq;
	struct ohca_eq *comp_eqs;
	u32 num_comp_eqs;
	u32 num_vectors;
	u32 irq_requested;
	struct ida uars;
	struct xarray qps;
	struct xarray cqs;
	struct xarray srqs;
	struct xarray paged;
	struct mutex odp_lock;	/* see above */
	struct list_head odp_mms;
	atomic_t odp_children;
	struct ohca_port ports[OHCA_MAX_PORTS];
	bool fatal;
	bool quiet;
	bool wedged;
	bool registered;
	unsigned long early_events[OHCA_MAX_PORTS];
	struct mutex fatal_lock;	/* see above */
	struct work_struct fatal_work;
	struct work_struct flush_work;
	struct delayed_work health;
	struct mutex kqp_lock;	/* see above */
	atomic_t bad_cqes;
	atomic_t bad_eqes;
	atomic_t late_eqes;
	struct dentry *debugfs;
};

/** enum ohca_mmap_kind - what a process may map */
enum ohca_mmap_kind {
	OHCA_MMAP_UAR,	/* its doorbell page */
	OHCA_MMAP_DM,	/* device memory */
};

/**
 * struct ohca_mmap - something that a process may map
 * @rdma: the core's part; counts those who map it
 * @dev: the device
 * @kind: enum ohca_mmap_kind
 * @num: number of the doorbell page, or handle of the device memory; given back with the entry
 * @offset: where it is in its BAR, bytes
 */
struct ohca_mmap {
	struct rdma_user_mmap_entry rdma;
	struct ohca_dev *dev;
	enum ohca_mmap_kind kind;
	u32 num;
	u64 offset;
};

/**
 * struct ohca_dm - device memory
 * @ibdm: the core's part
 * @mmap: its pages
 * @length: bytes as asked for
 */
struct ohca_dm {
	struct ib_dm ibdm;
	struct ohca_mmap *mmap;
	u64 length;
};

/** struct ohca_ucontext - a process's context; @uar: its doorbell page */
struct ohca_ucontext {
	struct ib_ucontext ibucontext;
	struct ohca_mmap *mmap;
	u32 uar;
};

/**
 * struct ohca_pd - a protection domain
 * @ibpd: the core's part
 * @pdn: number
 * @uar: doorbell page of its owner
 * @windows: memory windows that there are, or may be
 * @windows_made: how many there have ever been
 */
struct ohca_pd {
	struct ib_pd ibpd;
	u32 pdn;
	u32 uar;
	atomic_t windows;
	atomic_t windows_made;
};

/** struct ohca_xrcd - an XRC domain; @xrcdn: number */
struct ohca_xrcd {
	struct ib_xrcd ibxrcd;
	u32 xrcdn;
};

/** struct ohca_ah - an address handle: nothing but its address vector */
struct ohca_ah {
	struct ib_ah ibah;
	struct ohca_hw_av av;
};

/**
 * struct ohca_cq - a completion queue
 * @ibcq: the core's part
 * @cqn: number
 * @log_size: log2 of its entries
 * @eq: its EQ
 * @ref: held by the driver until destroy, and by event handlers
 * @released: completed when @ref is 0
 * @resize_lock: user CQ: serializes resize, and so what @umem and @log_size become
 * @umem: memory of a user CQ
 * @buf: memory of a kernel CQ
 * @lock: kernel CQ: protects all that follows
 * @ci: consumer index
 * @arm_sn: events taken
 * @gone: the device has destroyed it, or is about to: it is armed no more
 * @qps: kernel QPs that complete here, by handle; a CQE is looked up nowhere else
 * @send_qps: kernel QPs that complete sends here
 * @recv_qps: kernel QPs that complete receives here
 */
struct ohca_cq {
	struct ib_cq ibcq;
	u32 cqn;
	u32 log_size;
	struct ohca_eq *eq;
	refcount_t ref;
	struct completion released;
	struct mutex resize_lock;	/* see above */
	struct ib_umem *umem;
	struct ohca_buf buf;
	spinlock_t lock;	/* see above */
	u32 ci;
	u32 arm_sn;
	bool gone;
	struct xarray qps;
	struct list_head send_qps;
	struct list_head recv_qps;
};

/**
 * struct ohca_sq_shadow - what the driver remembers of a send WQE
 * @wr_id: the consumer's
 * @byte_len: of a READ or atomic
 * @opcode: enum ib_wc_opcode
 * @bbs: basic blocks, 0: no WQE starts here
 */
struct ohca_sq_shadow {
	u64 wr_id;
	u32 byte_len;
	u8 opcode;
	u8 bbs;
};

/** struct ohca_rq_shadow - of a receive WQE; @length: bytes posted */
struct ohca_rq_shadow {
	u64 wr_id;
	u32 length;
	bool used;
};

/**
 * struct ohca_sq - send queue of a kernel QP
 * @lock: protects posting
 * @log: log2 of its BBs
 * @head: BB that the next WQE takes, free running
 * @tail: first BB not yet completed, free running; moved by polling
 * @room: how many BBs may be posted and not completed; all the ring, or less while it is replaced
 * @max_sge: SGEs a WQE
 * @max_inline: inline bytes a WQE
 * @off: where it lies in the QP's buffer
 * @shadow: by BB
 */
struct ohca_sq {
	spinlock_t lock;	/* see above */
	u32 log;
	u32 head;
	u32 tail;
	u32 room;
	u32 max_sge;
	u32 max_inline;
	size_t off;
	struct ohca_sq_shadow *shadow;
};

/** struct ohca_rq - RQ of a kernel QP, of a user QP its stride; fields as in struct ohca_sq */
struct ohca_rq {
	spinlock_t lock;	/* see above */
	u32 log;
	u32 log_stride;
	u32 head;
	u32 tail;
	u32 room;
	u32 max_sge;
	struct ohca_rq_shadow *shadow;
};

/**
 * struct ohca_qp_mem - what a kernel QP takes up, and what changes with the size of its queues
 * @buf: rings and doorbell record
 * @log_sq: log2 of the SQ in BBs
 * @log_rq: log2 of the RQ in WQEs
 * @sq: shadow of the SQ
 * @rq: shadow of the RQ; NULL if there is none
 */
struct ohca_qp_mem {
	struct ohca_buf buf;
	u32 log_sq;
	u32 log_rq;
	struct ohca_sq_shadow *sq;
	struct ohca_rq_shadow *rq;
};

/**
 * struct ohca_qp - a queue pair
 * @ibqp: the core's part
 * @handle: number in doorbells, commands and CQEs
 * @port: SMI and GSI: port, from 1
 * @mutex: serializes modify, and so what @cap and @umem become
 * @state: as last set or seen; posting reads it under no lock
 * @last_wqe: the device is dead and the consumer knows that no WQE of the SRQ completes here
 * @ref: held by the driver until destroy, and by event handlers
 * @released: completed when @ref is 0
 * @user: belongs to a process; an XRC target to those that opened its domain
 * @has_rq: has a receive queue of its own
 * @signal_all: every send completes
 * @features: of the device, for posting
 * @create_flags: as given
 * @cap: as granted
 * @umem: memory of a user QP
 * @buf: memory of a kernel QP
 * @db: kernel QP: doorbell record
 * @sq: kernel QP: send queue
 * @rq: kernel QP: receive queue
 * @send_link: in ohca_cq.send_qps
 * @recv_link: in ohca_cq.recv_qps
 */
struct ohca_qp {
	struct ib_qp ibqp;
	u32 handle;
	u32 port;
	struct mutex mutex;	/* see above */
	enum ib_qp_state state;
	int last_wqe;
	refcount_t ref;
	struct completion released;
	bool user;
	bool has_rq;
	bool signal_all;
	u64 features;
	u32 create_flags;
	struct ib_qp_cap cap;
	struct ib_umem *umem;
	struct ohca_buf buf;
	struct ohca_hw_db *db;
	struct ohca_sq sq;
	struct ohca_rq rq;
	struct list_head send_link;
	struct list_head recv_link;
};

/**
 * struct ohca_srq - a shared receive queue
 * @ibsrq: the core's part
 * @srqn: number
 * @log: log2 of its WQEs
 * @log_stride: log2 of the stride
 * @max_sge: SGEs a WQE
 * @ref: held by the driver until destroy, and by event handlers
 * @released: completed when @ref is 0
 * @ops_size: bytes of list operations behind the WQEs, 0 without tags
 * @resize_lock: serializes resize, and so what @umem and @log become
 * @umem: memory of a user SRQ
 * @lock: kernel SRQ: protects all that follows, and @log
 * @buf: memory
 * @db: doorbell record
 * @head: producer index, free running
 * @used: WQEs posted and not completed
 * @room: how many these may be; all the ring, or less while it is replaced
 * @num: entries of @shadow, never less than there are WQEs
 * @free: first free entry of @shadow, or one past the last
 * @shadow: by the index that the WQE carries as wr_id
 * @next: free list over @shadow
 */
struct ohca_srq {
	struct ib_srq ibsrq;
	u32 srqn;
	u32 log;
	u32 log_stride;
	u32 max_sge;
	refcount_t ref;
	struct completion released;
	u64 ops_size;
	struct mutex resize_lock;	/* see above */
	struct ib_umem *umem;
	spinlock_t lock;	/* see above */
	struct ohca_buf buf;
	struct ohca_hw_db *db;
	u32 head;
	u32 used;
	u32 room;
	u32 num;
	u32 free;
	struct ohca_rq_shadow *shadow;
	u32 *next;
};

/**
 * struct ohca_mr - a memory region
 * @ibmr: the core's part
 * @umem: user memory; NULL if it is device memory or the kernel's
 * @access: enum ib_access_flags as registered
 * @paged: in place of @umem: its pages come and go
 * @pl: FRMR: page list that REG_MR names
 * @npages: FRMR: pages mapped
 */
struct ohca_mr {
	struct ib_mr ibmr;
	struct ib_umem *umem;
	struct ohca_paged *paged;
	int access;
	struct ohca_pl pl;
	u32 npages;
};

/** struct ohca_mw - a memory window: all of it is in the device */
struct ohca_mw {
	struct ib_mw ibmw;
};

#define OHCA_TO(name)								\
static inline struct ohca_##name *to_ohca_##name(struct ib_##name *ib)		\
{										\
	return container_of(ib, struct ohca_##name, ib##name);			\
}

OHCA_TO(ucontext)
OHCA_TO(pd)
OHCA_TO(ah)
OHCA_TO(cq)
OHCA_TO(qp)
OHCA_TO(srq)
OHCA_TO(mr)
OHCA_TO(xrcd)
OHCA_TO(dm)

static inline struct ohca_dev *to_ohca_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct ohca_dev, ibdev);
}

/** ohca_has - whether a feature, enum ohca_feature, is in force */
static inline bool ohca_has(const struct ohca_dev *dev, enum ohca_feature feature)
{
	return dev->features & BIT_ULL(feature);
}

/** ohca_qp_has - the same, asked of a QP */
static inline bool ohca_qp_has(const struct ohca_qp *qp, enum ohca_feature feature)
{
	return qp->features & BIT_ULL(feature);
}

/** ohca_has_xrc - whether there are XRC domains, SRQs and QPs */
static inline bool ohca_has_xrc(const struct ohca_dev *dev)
{
	return ohca_has(dev, OHCA_FEATURE_XRC) && ohca_has(dev, OHCA_FEATURE_SRQ);
}

/** ohca_has_odp - whether there are regions whose pages come and go, here and there */
static inline bool ohca_has_odp(const struct ohca_dev *dev)
{
	return IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) && ohca_has(dev, OHCA_FEATURE_ODP);
}

/** ohca_page_sizes - bits of the page sizes that a page list can name and the device takes */
static inline unsigned long ohca_page_sizes(const struct ohca_dev *dev)
{
	return le64_to_cpu(dev->attr.page_size_cap) & GENMASK(OHCA_PL_MAX_SHIFT, OHCA_PL_MIN_SHIFT);
}

/** ohca_entries - entries of a ring whose log2 the device has told; 0 if there is no such ring */
static inline u32 ohca_entries(u8 log)
{
	return log < 32 ? 1u << log : 0;
}

/** ohca_max_qp_wr - requests that a queue of a QP may be created for */
static inline u32 ohca_max_qp_wr(const struct ohca_hw_device_attr *a)
{
	return 1u << min(a->log_max_sq_bbs, a->log_max_rq_wqes);
}

/**
 * ohca_is_quiet - whether the device is dead and has stopped all DMA
 * @dev: the device
 *
 * Any context. Only then may software complete what the device was given.
 */
static inline bool ohca_is_quiet(const struct ohca_dev *dev)
{
	return smp_load_acquire(&dev->quiet);	/* pairs with ohca_quiesce() */
}

/** ohca_uar_write - ring a doorbell of page 0; any context */
static inline void ohca_uar_write(struct ohca_dev *dev, enum ohca_uar_off off, u64 val)
{
	writeq(val, dev->uar + off);
}

/* pci.c */
void ohca_recover(struct ohca_function *fn);

/* main.c */
#if IS_ENABLED(CONFIG_KUNIT)
int ohca_wait_status(struct ohca_dev *dev, u32 mask, u32 bits);
#endif
int ohca_reset_hw(struct ohca_dev *dev);
bool ohca_is_gone(struct ohca_dev *dev);
int ohca_attach(struct ohca_function *fn);
void ohca_detach(struct ohca_function *fn);

/* device.c */
extern const struct attribute_group ohca_attr_group;
int ohca_device_init(struct ohca_dev *dev);
u64 ohca_max_dm(const struct ohca_dev *dev);
int ohca_query_device(struct ib_device *ibdev, struct ib_device_attr *props,
		      struct ib_udata *udata);
int ohca_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *modify);
void ohca_get_dev_fw_str(struct ib_device *ibdev, char *str);

/* fatal.c */
void ohca_fatal_init(struct ohca_dev *dev);
void ohca_fatal_stop(struct ohca_dev *dev);
void ohca_fatal(struct ohca_dev *dev, const char *why);
void ohca_halt(struct ohca_dev *dev);
void ohca_flush_kick(struct ohca_dev *dev);

/* eq.c */
u32 ohca_vectors_wanted(u32 max_eq, u32 limit, u32 cpus, bool faults);
int ohca_eqs_init(struct ohca_dev *dev);
void ohca_early_events(struct ohca_dev *dev);
void ohca_eqs_free(struct ohca_dev *dev);
void ohca_eqs_stop(struct ohca_dev *dev);
bool ohca_eqe_valid(const struct ohca_hw_eqe *eqe, u32 ci, u32 log_size);
void ohca_sync_events(struct ohca_dev *dev, bool comp);

/* uctx.c */
int ohca_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata);
void ohca_dealloc_ucontext(struct ib_ucontext *ibucontext);
void ohca_disassociate_ucontext(struct ib_ucontext *ibucontext);
extern const struct uapi_definition ohca_ucontext_defs[];
int ohca_query_ucontext(struct ib_ucontext *ibucontext, struct uverbs_attr_bundle *attrs);
struct ohca_mmap *ohca_mmap_create(struct ohca_dev *dev, struct ib_ucontext *ibucontext,
				   enum ohca_mmap_kind kind, u32 num, u64 offset, size_t size);
int ohca_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);
void ohca_mmap_free(struct rdma_user_mmap_entry *entry);

/* dm.c */
extern const struct uapi_definition ohca_dm_defs[];
struct ib_dm *ohca_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibucontext,
			    struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs);
int ohca_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);

/* pd.c */
extern const struct uapi_definition ohca_pd_defs[];
int ohca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int ohca_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int ohca_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int ohca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

/* cq.c */
int ohca_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int ohca_pre_destroy_cq(struct ib_cq *ibcq);
void ohca_post_destroy_cq(struct ib_cq *ibcq);
int ohca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int ohca_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int ohca_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata);
struct ohca_cq *ohca_cq_get(struct ohca_dev *dev, u32 cqn);
struct ohca_cq *ohca_cq_next(struct ohca_dev *dev, unsigned long *index);
void ohca_cq_put(struct ohca_cq *cq);
bool ohca_cq_wants_events(const struct ohca_cq *cq);
bool ohca_cq_comp_event(struct ohca_cq *cq);

/* poll.c */
int ohca_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int ohca_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
bool ohca_cq_has_work(struct ohca_cq *cq);
void ohca_cq_clean(struct ohca_cq *cq, struct ohca_qp *qp);
u64 ohca_cq_arm_word(u32 cqn, bool solicited, u32 sn, u32 ci);
int ohca_wc_flags(u32 hw_flags);
void ohca_cqe_to_wc(const struct ohca_hw_cqe *cqe, struct ib_wc *wc);
bool ohca_sq_complete(struct ohca_sq *sq, u32 pos, struct ib_wc *wc);
bool ohca_rq_complete(struct ohca_rq *rq, u32 pos, struct ib_wc *wc);
bool ohca_srq_complete(struct ohca_srq *srq, u64 idx, struct ib_wc *wc);

/* qp.c */
int ohca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int ohca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int ohca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
int ohca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init);
struct ohca_qp *ohca_qp_get(struct ohca_dev *dev, u32 handle);
struct ohca_qp *ohca_qp_next(struct ohca_dev *dev, unsigned long *index);
void ohca_qp_put(struct ohca_qp *qp);
void ohca_qp_last_wqe(struct ohca_qp *qp);

int ohca_qp_alloc_mem(struct ohca_dev *dev, struct ohca_qp *qp, const struct ib_qp_cap *cap,
		      struct ohca_qp_mem *mem);
void ohca_qp_swap_mem(struct ohca_qp *qp, struct ohca_qp_mem *mem);
void ohca_qp_free_mem(struct ohca_dev *dev, struct ohca_qp_mem *mem);
int ohca_qp_user_sizes(struct ohca_dev *dev, const struct ohca_qp *qp, const struct ib_qp_cap *cap,
		       u8 log_sq, u8 log_rq);

/* qp_resize.c */
int ohca_qp_narrow(struct ohca_qp *qp, u32 sq, u32 rq);
void ohca_qp_move(struct ohca_qp *qp, struct ohca_qp_mem *mem,
		  const struct ohca_resp_resize_qp *at);
int ohca_resize_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);

/* qp_attr.c */
void ohca_av_pack(struct ohca_hw_av *av, const struct rdma_ah_attr *attr);
void ohca_av_unpack(struct ib_device *ibdev, struct rdma_ah_attr *attr,
		    const struct ohca_hw_av *av);
void ohca_qp_attr_pack(struct ohca_hw_qp_attr *hw, const struct ib_qp_attr *attr, int mask);
int ohca_qp_attr_unpack(struct ib_device *ibdev, struct ib_qp_attr *attr,
			const struct ohca_hw_qp_attr *hw);

/* wr.c */
int ohca_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr);
int ohca_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);
int ohca_build_send_wqe(const struct ohca_qp *qp, const struct ib_send_wr *wr, void *wqe,
			struct ohca_sq_shadow *shadow);
u32 ohca_build_recv_wqe(const struct ib_recv_wr *wr, u64 wr_id, void *wqe);

/* srq.c */
int ohca_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int ohca_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		    struct ib_udata *udata);
int ohca_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int ohca_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int ohca_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);
int ohca_srq_grow(struct ohca_srq *srq, u32 num);
int ohca_srq_narrow(struct ohca_srq *srq, u32 num);
void ohca_srq_move(struct ohca_srq *srq, struct ohca_buf *buf, u32 log, u32 pi);
struct ohca_srq *ohca_srq_get(struct ohca_dev *dev, u32 srqn);
struct ohca_srq *ohca_srq_next(struct ohca_dev *dev, unsigned long *index);
void ohca_srq_put(struct ohca_srq *srq);

/* paged.c */
void ohca_paged_leave(struct ohca_paged *p, bool leaving);
void ohca_paged_end(struct ohca_paged *p);
int ohca_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg, u32 num, struct uverbs_attr_bundle *attrs);

/* odp.c */
struct ib_mr *ohca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access);

/* fault.c */
int ohca_faults_init(struct ohca_dev *dev);
void ohca_faults_free(struct ohca_dev *dev);
bool ohca_fault_take(struct ohca_dev *dev, const struct ohca_hw_fault_eqe *eqe);

/* dmabuf.c */
struct ib_mr *ohca_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt, int fd,
				      int access, struct uverbs_attr_bundle *attrs);

/* mr.c */
int ohca_mr_access(const struct ohca_dev *dev, int access, u16 *hw);
struct ib_mr *ohca_reg_umem(struct ib_pd *ibpd, struct ib_umem *umem, u64 length, u64 virt,
			    int access);
struct ib_mr *ohca_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *ohca_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access,
			       struct ib_udata *udata);
struct ib_mr *ohca_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 virt,
				 int access, struct ib_pd *ibpd, struct ib_udata *udata);
struct ib_mr *ohca_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs);
int ohca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct ib_mr *ohca_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int ohca_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents, unsigned int *offset);
int ohca_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int ohca_dealloc_mw(struct ib_mw *ibmw);

/* ah.c */
int ohca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int ohca_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int ohca_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int ohca_destroy_ah(struct ib_ah *ibah, u32 flags);

/* mcast.c */
int ohca_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);
int ohca_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);

/* mad.c */
int ohca_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
		     const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index);
int ohca_smp_get(struct ohca_dev *dev, u32 port, __be16 attr_id, u32 attr_mod,
		 struct ib_smp *out);
bool ohca_mad_for_device(const struct ib_mad *mad);

/* port.c */
void ohca_ports_init(struct ohca_dev *dev);
void ohca_port_changed(struct ohca_dev *dev, u32 port);
int ohca_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr);
int ohca_modify_port(struct ib_device *ibdev, u32 port, int mask, struct ib_port_modify *modify);
int ohca_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int ohca_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid);
int ohca_get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *imm);
void ohca_port_info_unpack(struct ib_port_attr *attr, const u8 *data);
int ohca_port_info_check(const struct ib_port_attr *attr);

/* counters.c */
struct rdma_hw_stats *ohca_alloc_hw_device_stats(struct ib_device *ibdev);
struct rdma_hw_stats *ohca_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int ohca_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);
int ohca_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp);
int ohca_counter_unbind_qp(struct ib_qp *ibqp);
int ohca_counter_dealloc(struct rdma_counter *counter);
struct rdma_hw_stats *ohca_counter_alloc_stats(struct rdma_counter *counter);
int ohca_counter_update_stats(struct rdma_counter *counter);

/* restrack.c */
int ohca_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int ohca_fill_res_mr_entry_raw(struct sk_buff *msg, struct ib_mr *ibmr);
int ohca_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int ohca_fill_res_cq_entry_raw(struct sk_buff *msg, struct ib_cq *ibcq);
int ohca_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int ohca_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp);
int ohca_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);
int ohca_fill_res_srq_entry_raw(struct sk_buff *msg, struct ib_srq *ibsrq);

/* debugfs.c */
void ohca_debugfs_init(void);
void ohca_debugfs_exit(void);
void ohca_debugfs_add(struct ohca_dev *dev);
void ohca_debugfs_remove(struct ohca_dev *dev);

#endif /* OHCA_H */
