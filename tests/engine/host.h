/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine for engines under test: flat guest memory, a clock that the test sets, a driver for the
 * admin queue and the queues, and wires between ports.
 *
 * Nothing runs by itself: host_run() polls engines, carries frames and moves the clock. An event
 * that no test may cause (no memory left, a command that never ends, DMA outside of a burst) ends
 * the process with a message.
 */
#ifndef OHCA_TEST_HOST_H
#define OHCA_TEST_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/engine.h"
#include "ohca_hw.h"
#include "ib/smp.h"

#define HOST_BASE	0x40000000ull	/* bus address of the first byte of memory */
#define HOST_DM		(256u << 10)	/* device memory */
#define HOST_MEM	(64u << 20)	/* default size */
#define HOST_PAGE	4096u
#define HOST_VECTORS	8u
#define HOST_UARS	8u
#define HOST_MS		1000000ull	/* ns */

/* States of a page of memory: it may have been written; it was allocated. */
#define HOST_PAGE_DIRTY	0x1u
#define HOST_PAGE_GIVEN	0x2u

struct ib_cc_ca;
struct host;

/** Fates of a frame. */
enum host_fate {
	HOST_DELIVER,
	HOST_DROP,
	HOST_DUP,	/* deliver it twice */
	HOST_SWAP,	/* deliver it after the next frame of that direction */
};

/**
 * host_hook - called for every frame that leaves a port, before it is queued
 * @frame: the hook may change it
 */
typedef enum host_fate (*host_hook)(void *arg, struct host *from, unsigned int port,
				    uint8_t *frame, uint32_t len);

/**
 * struct host_wire - replaces another port of a test host as the peer of a port
 * @tx_begin, @tx_commit: as of struct ohca_host_ops
 * @link_ctl: as of struct ohca_host_ops
 * @step: delivers frames and link changes; Return: whether there were any
 */
struct host_wire {
	uint8_t *(*tx_begin)(void *arg, unsigned int vl, uint32_t len);
	void (*tx_commit)(void *arg, unsigned int vl, uint32_t len);
	void (*link_ctl)(void *arg, bool enable);
	bool (*step)(void *arg, struct host *h, unsigned int port);
};

struct host_frame {
	struct host_frame *next;
	uint32_t len;
	uint8_t vl;
	uint8_t data[];
};

/** struct host_port - a port and its end of a wire */
struct host_port {
	const struct host_wire *wire;	/* NULL: the fields below count */
	void *wire_arg;
	struct host *peer;		/* NULL: frames are lost */
	unsigned int peer_port;
	bool cable;			/* the link may train */
	bool enabled;			/* by link_ctl() of the SMA */
	struct ohca_link_rate rate;	/* by link_rate() of the SMA */
	bool up, changed;		/* link state as reported; still to report */
	bool bounce;			/* link_ctl() has taken the link down meanwhile */
	uint16_t blocked;		/* lanes whose tx_begin() was refused */
	unsigned int credits;		/* frames of a lane that may be outstanding */
	unsigned int queued[16];
	struct host_frame *head, **tail;	/* outstanding, from here to the peer */
	struct host_frame *held;		/* HOST_SWAP */
	host_hook hook;
	void *hook_arg;
	uint64_t frames, refused;	/* sent; tx_begin() refusals */
	uint64_t vl15_dropped;		/* frames for the port that the wire reports as dropped */
};

/**
 * struct host_seat - replaces the test host as the owner of a machine's engine
 * @make: makes the engine; @h has its configuration and its memory
 * @turn: instead of ohca_poll()
 * @leave: instead of ohca_free()
 * @memory: allocates @n bytes, which @leave frees: device memory, or the machine's; or NULL
 * @read, @write: instead of ohca_mmio_read() and ohca_mmio_write(), or NULL
 * @ring: instead of ohca_doorbell(), of 8 bytes, or NULL
 */
struct host_seat {
	ohca_engine *(*make)(void *arg, struct host *h);
	bool (*turn)(void *arg);
	void (*leave)(void *arg);
	void *(*memory)(void *arg, size_t n, bool device);
	uint64_t (*read)(void *arg, uint32_t off, unsigned int size);
	void (*write)(void *arg, uint32_t off, uint64_t val, unsigned int size);
	void (*ring)(void *arg, uint32_t uar, uint32_t off, uint64_t val);
	void *arg;
};

/** struct host_buf - memory with its page list */
struct host_buf {
	struct ohca_hw_pl pl;
	uint32_t npages;
	uint64_t *page;		/* bus addresses */
};

/** struct host_cost - cost of a call of the engine; @work: see base/work.h; @dma: bytes */
struct host_cost {
	uint64_t work, dma, ns;
};

struct host {
	ohca_engine *e;
	const struct host_seat *seat;	/* of @e, or NULL */
	struct ohca_cfg cfg;
	uint8_t *mem;
	uint64_t mem_size, next_page;
	uint8_t *page_state;	/* HOST_PAGE_* of each page of memory */
	bool guard;		/* a page after each allocation must not be written */
	/*
	 * called for each piece of memory that the device maps, before the device gets its address
	 */
	void (*on_map)(void *arg, struct host *h, uint64_t addr, size_t n, int prot);
	void *on_map_arg;
	bool verbose;		/* trace events are printed */
	uint8_t *dm;		/* device memory, cfg.dm_size bytes */
	void *doorbells;	/* of the engine; NULL: it has its own */
	uint64_t dm_dirty;	/* bytes announced */
	uint8_t page_shift;	/* for host_enable(); 0: 12 */
	bool scatter;		/* page lists name pages that are not contiguous */
	bool pieces;		/* 8 bytes of memory are contiguous, not a page */
	uint64_t hole, hole_len;	/* memory that was removed */
	uint64_t fixed, fixed_len;	/* memory that cannot be written, from @fixed on */
	struct host_buf spare;	/* buffer that an SRQ or QP has left; the next one moves there */
	uint64_t dma_bytes;	/* bytes read and written */
	struct host_cost most;	/* highest cost of a poll so far; a test may zero it */
	uint64_t most_rx;	/* highest work for a frame so far */
	uint64_t persisted;	/* bytes that were to become persistent */
	unsigned int persist_calls, persist_runs;
	bool persist_later;	/* done later by ohca_persisted() with one of these tags */
	unsigned int persist_num;
	uint64_t persist_tag[8];
	uint64_t own_clock, *now;
	unsigned int kicks;
	bool kicked;
	unsigned int irqs[HOST_VECTORS];
	uint64_t traces[OHCA_TR_NUM];
	uint8_t tx_buf[8192];
	/* for QPs that host_qp_connect() connects; @hop_limit 0: without a GRH */
	uint8_t sl, static_rate, hop_limit, dgid[16];
	struct host_port port[2];
	/* admin queue */
	uint64_t aq, acq;
	uint32_t aq_pi;
	uint16_t syndrome;	/* of the last command */
	/* mailboxes for commands */
	uint64_t mbox[2];
	/* made by host_start() */
	struct host_eq {
		uint32_t eqn, ci;
		uint64_t ring;
		uint8_t log;
	} async, comp;
	uint32_t pdn;
};

struct host_cq {
	struct host *h;
	struct host_buf buf;
	uint32_t cqn, uar, ci, sn;
	uint8_t log;
};

struct host_srq {
	struct host *h;
	struct host_buf buf;
	uint32_t srqn, uar, pi, op_pi;
	uint8_t log, log_stride, log_ops;
	bool tm;
};

struct host_qp {
	struct host *h;
	struct host_buf buf;
	struct host_cq *scq, *rcq;
	uint32_t handle, qpn, uar;
	uint8_t type, log_sq, log_rq, log_stride;
	bool has_rq;
	uint64_t sq_off;
	uint32_t sq_pi, rq_pi;
};

/** struct host_qp_init - parameters of a QP; zeroes mean: RC, 64 BBs, 16 WQEs, 128-byte stride */
struct host_qp_init {
	uint8_t type;		/* enum ohca_qp_type; SMI is 0: set @special */
	bool special;
	uint8_t port;
	uint8_t flags;
	uint8_t log_sq, log_rq, log_stride;
	bool no_sq;		/* the device owns it: for an SRQ with tags */
	uint32_t pdn, uar;	/* 0: those of host_start() */
	uint32_t xrcdn;		/* for an XRC_TGT QP, which needs nothing else but its type */
	struct host_srq *srq;
	struct host_cq *scq, *rcq;
};

struct host_mr {
	struct host_buf buf;
	uint32_t key;
	uint64_t iova, len;
};

/* ---- machines ---- */

/** host_new() - @ports: 1 or 2; @guid: NodeGUID. The engine is reset, not enabled. */
struct host *host_new(unsigned int ports, uint64_t guid);
/** host_new_cfg() - the same with a whole configuration except dm, and bytes of memory */
struct host *host_new_cfg(const struct ohca_cfg *cfg, uint64_t mem);
/** host_new_seat() - as host_new(), but @seat owns the engine */
struct host *host_new_seat(unsigned int ports, uint64_t guid, const struct host_seat *seat);
/** host_irq() - the device raises vector @vec of @h, a struct host */
void host_irq(void *h, unsigned int vec);
void host_free(struct host *h);
/**
 * host_renew() - restores everything except the engine as after host_new_cfg(), with zeroed memory
 * @as_new: copy of *@h of that time
 */
void host_renew(struct host *h, const struct host *as_new);
/** host_enable() - handshake and AQ; @features: acknowledged */
void host_enable(struct host *h, uint64_t features);
/**
 * host_start() - host_enable() with all features of a little-endian host, async and completion EQ
 * (armed), a PD
 */
void host_start(struct host *h);
/** host_start_with() - the same with @features acknowledged */
void host_start_with(struct host *h, uint64_t features);

/** host_connect() - a cable between two ports; also one clock for both */
void host_connect(struct host *a, unsigned int pa, struct host *b, unsigned int pb);
/** host_cable() - plugs in or pulls a cable, which leads to the peer if ports are connected */
void host_cable(struct host *h, unsigned int port, bool in);
/** host_hook_set() - sets the hook for frames that leave a port; NULL: none */
void host_hook_set(struct host *h, unsigned int port, host_hook hook, void *arg);
/** host_poll() - calls ohca_poll(); ends the process if the poll exceeds its bound */
bool host_poll(struct host *h, unsigned int budget);
/*
 * Prints the longest poll since the last call, or since the test zeroed @most, with its @bound in
 * units of base/work.h, and the longest frame. Ends the process if they exceed their bounds. "make
 * attacks" shows these lines.
 */
void host_attack(struct host *h, const char *name, uint64_t bound);
/** host_drop() - a hook that drops every frame */
enum host_fate host_drop(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			 uint32_t len);

/** host_rx() - ohca_rx() of @frame, LRH to ICRC field, received on @vl; @flags: OHCA_RX_* */
void host_rx(struct host *h, unsigned int port, unsigned int vl, const uint8_t *frame,
	     uint32_t len, unsigned int flags);
/**
 * host_step() - polls each machine once and delivers what is outstanding. False: nothing happened.
 */
bool host_step(struct host *const *h, unsigned int n);
/** host_settle() - steps until nothing happens; time stands still */
void host_settle(struct host *const *h, unsigned int n);
/** host_run() - settles, then moves from deadline to deadline for @ns in all */
void host_run(struct host *const *h, unsigned int n, uint64_t ns);

/* ---- memory ---- */

void *host_ptr(struct host *h, uint64_t addr);
uint64_t host_pages(struct host *h, unsigned int n);	/* zeroed, contiguous */
/**
 * host_buf_alloc() - allocates at least @bytes, zeroed, with a page list as host.scatter demands
 */
void host_buf_alloc(struct host *h, struct host_buf *b, uint64_t bytes);
void host_buf_free(struct host_buf *b);			/* frees the list; memory is not reused */
/** host_buf_ptr() - address of byte @off; valid to the end of its page */
void *host_buf_ptr(struct host *h, const struct host_buf *b, uint64_t off);
void host_buf_write(struct host *h, const struct host_buf *b, uint64_t off, const void *src,
		    size_t n);
void host_buf_read(struct host *h, const struct host_buf *b, uint64_t off, void *dst, size_t n);

/* ---- commands ---- */

/**
 * HOST_AQE - a command; @member of the body's union, then its initializers
 *
 * An initializer of a union leaves the bytes behind its member undefined, and the device
 * refuses a command in which they are not zero.
 */
#define HOST_AQE(member, ...)							\
	host_aqe(&(__typeof__(((struct ohca_hw_aqe *)0)->member)){ __VA_ARGS__ },	\
		 sizeof(((struct ohca_hw_aqe *)0)->member))
static inline struct ohca_hw_aqe host_aqe(const void *body, size_t n)
{
	struct ohca_hw_aqe a;

	memset(&a, 0, sizeof(a));
	memcpy(a.body, body, n);
	return a;
}

/**
 * host_cmd() - executes a command, with opcode and cookie set. @rsp may be NULL. Return: status.
 */
int host_cmd(struct host *h, uint8_t opcode, struct ohca_hw_aqe *cmd, struct ohca_hw_acqe *rsp);
/** host_cmd_handle() - a command with one handle; @mbox: bus address or 0 */
int host_cmd_handle(struct host *h, uint8_t opcode, uint32_t handle, uint64_t mbox);
uint32_t host_pd(struct host *h, uint32_t uar);
void host_eq_create(struct host *h, struct host_eq *eq, uint8_t log, uint8_t kind, uint16_t vec);
/** host_eq_poll() - next EQE, if any; does not return it to the device */
bool host_eq_poll(struct host *h, struct host_eq *eq, struct ohca_hw_eqe *out);
/** host_eq_db() - returns polled EQEs to the device, and arms */
void host_eq_db(struct host *h, struct host_eq *eq, bool arm);
/* @flags: OHCA_CQ_* */
void host_cq_create_flags(struct host *h, struct host_cq *cq, uint8_t log, uint32_t uar,
			  uint8_t flags);
/* A CQ with timestamps, if the driver has acknowledged them. */
void host_cq_create(struct host *h, struct host_cq *cq, uint8_t log, uint32_t uar);
void host_cq_destroy(struct host_cq *cq);
bool host_cq_poll(struct host_cq *cq, struct ohca_hw_cqe *out);
void host_cq_arm(struct host_cq *cq, bool solicited);
void host_srq_create(struct host *h, struct host_srq *srq, uint8_t log, uint32_t pdn,
		     uint32_t uar, uint32_t limit);
/** host_xrcd() - makes an XRC domain. Return: its number. */
uint32_t host_xrcd(struct host *h);
/** host_xrc_srq_create() - an XRC SRQ of domain @xrcdn that completes to @cq; fills @srq
 * Return: status */
int host_xrc_srq_create(struct host *h, struct host_srq *srq, uint8_t log, uint32_t pdn,
			uint32_t xrcdn, const struct host_cq *cq);
/** host_tm_srq_create() - an SRQ of @tags tags, with a ring of 1 << @log_ops; else as above */
int host_tm_srq_create(struct host *h, struct host_srq *srq, uint8_t log, uint32_t pdn,
		       uint16_t tags, uint8_t log_ops, const struct host_cq *cq);
/** host_tm_op() - posts a list operation and rings if asked for */
void host_tm_op(struct host_srq *srq, const struct ohca_hw_tm_wqe *w);
/** host_tm_result() - enum ohca_tm_result of the operation posted @back before the last */
uint32_t host_tm_result(struct host_srq *srq, unsigned int back);
/** host_srq_resize() - move an SRQ to a new buffer of 1 << @log WQEs; *@pi: what the device says.
 * Returns the status; not OK: the SRQ is as before. */
int host_srq_resize(struct host_srq *srq, uint8_t log, uint8_t flags, uint32_t limit,
		    uint32_t *pi);
void host_srq_post(struct host_srq *srq, uint64_t wr_id, const struct ohca_hw_sge *sge,
		   unsigned int n);
/** host_qp_create() - fills @qp if it succeeds. Return: status. */
int host_qp_create(struct host *h, struct host_qp *qp, const struct host_qp_init *in);
void host_qp_destroy(struct host_qp *qp);
int host_qp_modify(struct host_qp *qp, uint32_t mask, const struct ohca_hw_qp_attr *attr);
int host_qp_query(struct host_qp *qp, struct ohca_hw_qp_attr *attr);
/** host_qp_resize() - move a QP to a new buffer of 1 << @log_sq BBs and 1 << @log_rq WQEs; *@pi:
 * what the device says. Returns the status; not OK: the QP is as before. */
int host_qp_resize(struct host_qp *qp, uint8_t log_sq, uint8_t log_rq,
		   struct ohca_resp_resize_qp *pi);
/** host_qp_connect() - RESET to RTS of an RC, UC or XRC QP; @mtu: code; @lid: remote */
void host_qp_connect(struct host_qp *qp, unsigned int port, uint16_t lid, uint32_t dqpn,
		     uint8_t mtu, uint32_t sq_psn, uint32_t rq_psn);
/** host_qp_datagram() - RESET to RTS of a UD, SMI or GSI QP */
void host_qp_datagram(struct host_qp *qp, unsigned int port, uint32_t qkey);
/**
 * host_qp_try_connect() - as host_qp_connect(), of a QP that a peer may already send to. Return:
 * the status that ended it.
 */
int host_qp_try_connect(struct host_qp *qp, unsigned int port, uint16_t lid, uint32_t dqpn,
			uint8_t mtu, uint32_t sq_psn, uint32_t rq_psn);
/** host_qp_try_datagram() - the same for host_qp_datagram() */
int host_qp_try_datagram(struct host_qp *qp, unsigned int port, uint32_t qkey);
/** host_post_recv() - posts to the QP's own RQ */
void host_post_recv(struct host_qp *qp, uint64_t wr_id, const struct ohca_hw_sge *sge,
		    unsigned int n);
/** host_post_wqe() - copies @nseg 16-byte segments to the SQ and rings if asked for */
void host_post_wqe(struct host_qp *qp, const void *wqe, unsigned int nseg);
/** host_mr_create() - user MR with new memory; its iova is no bus address */
void host_mr_create(struct host *h, struct host_mr *mr, uint64_t len, uint32_t pdn,
		    uint16_t access);
/** host_mad_ifc() - sends a MAD by command, which is replaced. Return: enum ohca_mad_verdict. */
int host_mad_ifc(struct host *h, unsigned int port, uint8_t mad[256]);
/** host_congestion() - sets congestion control of a port (annex A10), as its manager */
void host_congestion(struct host *h, unsigned int port, const struct ib_cc_ca *ca);
/** host_port_set() - sets one port as a subnet manager: LID, up to @state; P_Keys stay */
void host_port_set(struct host *h, unsigned int port, uint16_t lid, uint8_t state);

struct ohca_hw_sge host_sge(uint64_t addr, uint32_t len, uint32_t key);
uint64_t host_counter(struct host *h, unsigned int id);

/** host_pair() - starts two machines and joins their @ports, ACTIVE; LIDs 1 and 2, then 3 and 4 */
void host_pair(struct host *h[2], unsigned int ports);

#endif
