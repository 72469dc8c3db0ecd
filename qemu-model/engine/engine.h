/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The HCA engine: everything the card does, behind a dozen functions.
 *
 * No QEMU header, no thread, no global, no socket in here. The host (the
 * fabric's process, unit test, fuzzer, benchmark) implements struct ohca_host_ops, owns the
 * thread and the clock, and calls ohca_poll(). Many engines live in one process.
 *
 * Ownership: at any time one thread is the owner of an engine, and only it may
 * call functions marked "owner". The host hands ownership over as it likes (a
 * mutex will do).
 * Functions marked "any" may be called by every thread at every time between
 * ohca_new() and ohca_free().
 */
#ifndef OHCA_ENGINE_H
#define OHCA_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ib_view;

typedef struct ohca_engine ohca_engine;
struct ohca_db_sizes;

/** Direction of DMA, seen from the device. */
enum { OHCA_DMA_READ = 1, OHCA_DMA_WRITE = 2 };

/** The value of ohca_next_deadline() when no timer runs. */
#define OHCA_NO_DEADLINE	UINT64_MAX

/** Budget of memory if struct ohca_cfg has none. */
#define OHCA_MEM_DEFAULT	(1ull << 30)

/** Widths and speeds as PortInfo has them. */
struct ohca_link_rate {
	uint8_t width;		/* LinkWidth: 1: 1x, 2: 4x, 4: 8x, 8: 12x */
	uint8_t speed;		/* LinkSpeed: 1 SDR, 2 DDR, 4 QDR */
	uint8_t speed_ext;	/* LinkSpeedExt: 0, 1 FDR, 2 EDR, 4 HDR, 8 NDR */
};

/** struct ohca_run - a stretch of guest memory: bus address, bytes */
struct ohca_run {
	uint64_t iova;
	uint64_t len;
};

/** Stretches in one call of dma_persist, at most. */
#define OHCA_PERSIST_RUNS	512u

/** Calls of dma_persist whose ohca_persisted() has not come yet, at most; a reset ends none. */
#define OHCA_PERSISTS		8u

/**
 * struct ohca_host_ops - what the engine needs of its host
 *
 * All are called with the @h given to ohca_new(). Except @irq, @kick and @now_ns they are
 * called by the owner only, inside a call of an owner function. None may call
 * back into the engine.
 */
struct ohca_host_ops {
	/**
	 * @dma_map: host address of guest memory, valid until the owner function returns
	 * @iova: bus address
	 * @len: in: bytes wanted; out: bytes that lie contiguous from there, at
	 *	most what was wanted, at least 1
	 * @prot: OHCA_DMA_READ or OHCA_DMA_WRITE (or both)
	 * Return: the address, or NULL if the device cannot reach memory there.
	 */
	void *(*dma_map)(void *h, uint64_t iova, size_t *len, int prot);
	/** @dma_dirty: guest memory was written through a mapped pointer */
	void (*dma_dirty)(void *h, uint64_t iova, size_t n);
	/**
	 * @dma_persist: guest memory shall survive a power failure as it is now,
	 * if it is of a kind that can. Does not block: what takes time is done
	 * elsewhere, and ohca_persisted() is called then. May be NULL for a host that
	 * has no such memory.
	 * @run: @n stretches, 1 to OHCA_PERSIST_RUNS; gone after the call
	 * @tag: for ohca_persisted()
	 * Return: true if there is nothing to do, false if ohca_persisted() will come.
	 */
	bool (*dma_persist)(void *h, const struct ohca_run *run, unsigned int n, uint64_t tag);
	/** @dm_dirty: device memory was written, @n bytes at @off; may be NULL */
	void (*dm_dirty)(void *h, uint64_t off, size_t n);
	/** @irq: raise MSI-X vector @vec. Never blocks. */
	void (*irq)(void *h, unsigned int vec);
	/** @now_ns: any thread: monotonic nanoseconds; stands while the VM is paused */
	uint64_t (*now_ns)(void *h);
	/**
	 * @turn_ns: the same, read by the host just before ohca_poll(): a clock that costs nothing.
	 * May be NULL.
	 */
	uint64_t (*turn_ns)(void *h);
	/** @kick: any thread: there is work, see to it that ohca_poll() is called */
	void (*kick)(void *h);
	/**
	 * @tx_begin: room for one packet on the wire
	 * @port: from 0
	 * @vl: virtual lane, 0-14 or 15
	 * @len: LRH through ICRC field, bytes, multiple of 4
	 * Return: where to build it, writable and readable until the next tx_begin
	 * or tx_commit; NULL if the lane has no credits (the engine tries again
	 * after ohca_tx_ready()) or the link is down. VL15 has no flow control:
	 * NULL means that the packet is lost.
	 */
	uint8_t *(*tx_begin)(void *h, unsigned int port, unsigned int vl, uint32_t len);
	/** @tx_commit: the packet of the last tx_begin is complete and may go */
	void (*tx_commit)(void *h, unsigned int port, unsigned int vl, uint32_t len);
	/**
	 * @tx_commit_view: the same, of a packet of which only the headers were built
	 * @view: where its payload is. Pad and ICRC field, which follow it, are zeros.
	 *
	 * The host copies the payload, or gives the packet to ohca_rx() of another engine, before
	 * it returns. May be NULL: every packet is built completely.
	 */
	void (*tx_commit_view)(void *h, unsigned int port, unsigned int vl, uint32_t len,
			       const struct ib_view *view);
	/**
	 * @tx_series: whether packets, of a message or one message each, may leave as one, with a
	 * view of all of them
	 * @len: bytes of each, for which @tx_begin has returned room; the headers of the first are
	 *	there up to the BTH
	 * @n: as many at most
	 *
	 * Only if they meet nothing on their way that would treat them differently, and the
	 * receiver has room for all. False: they leave one by one. May be NULL: they always do.
	 * It is called only if there is @tx_commit_view.
	 */
	bool (*tx_series)(void *h, unsigned int port, unsigned int vl, uint32_t len,
			  unsigned int n);
	/**
	 * @tx_soon: a packet may leave soon, behind others: who has the memory of its receiver at
	 * hand may call ohca_rx_soon()
	 * @lrh: its LRH, but for the length; @pkey: P_Key; @dqpn: destination QP
	 *
	 * May be NULL.
	 */
	void (*tx_soon)(void *h, unsigned int port, const uint8_t *lrh, uint16_t pkey,
			uint32_t dqpn);
	/** @link_ctl: the SMA wants the physical link up (true: train) or disabled */
	void (*link_ctl)(void *h, unsigned int port, bool enable);
	/**
	 * @link_rate: LinkWidthEnabled, LinkSpeedEnabled and LinkSpeedExtEnabled, sets of
	 * bits: what the link may come up with when it is trained next, by either end.
	 * A link that is up stays as it is. Before the first call: what struct ohca_cfg says.
	 */
	void (*link_rate)(void *h, unsigned int port, const struct ohca_link_rate *rate);
	/**
	 * @vl15_dropped: frames for the port that the wire dropped since ohca_new(),
	 * because VL15 has no flow control and the port no room. May be NULL: none.
	 */
	uint64_t (*vl15_dropped)(void *h, unsigned int port);
	/**
	 * @trace: event @ev of enum ohca_trace, for diagnosis, if ohca_set_trace() wants it;
	 * may be NULL
	 */
	void (*trace)(void *h, unsigned int ev, const uint64_t a[4]);
};

/** Trace events; arguments as named. */
enum ohca_trace {
	OHCA_TR_CMD,		/* opcode, status, syndrome, result */
	OHCA_TR_FATAL,		/* reason */
	OHCA_TR_QP_STATE,	/* handle, old, new, vendor error */
	OHCA_TR_PKT,		/* handle, opcode, PSN, PSN expected: of a connected QP, received */
	OHCA_TR_RX_DROP,	/* counter, port, opcode, qpn */
	OHCA_TR_WQE_ERR,	/* handle, status, vendor error, opcode */
	OHCA_TR_TIMEOUT,	/* handle, PSN, retries left */
	OHCA_TR_PORT_STATE,	/* port, old, new */
	OHCA_TR_MAD,		/* port, class, method << 16 | attribute, verdict */
	OHCA_TR_NUM
};

/**
 * struct ohca_cfg - what the card is
 * @node_guid: NodeGUID, host order; port n (from 1) gets node_guid + n
 * @sys_guid: SystemImageGUID; 0: as node_guid
 * @num_ports: 1 or 2
 * @vl_cap: data VLs: 1, 2, 4, 8 or 15
 * @mtu_cap: largest MTU, 1 to 5 (256 to 4096)
 * @width_sup: LinkWidthSupported
 * @speed_sup: LinkSpeedSupported
 * @speed_ext_sup: LinkSpeedExtSupported
 * @num_vectors: MSI-X vectors the host has, at least 1
 * @num_uars: UAR pages the host exposes, at least 1
 * @log_max_qp, @log_max_cq, @log_max_srq, @log_max_mr: log2 of table sizes;
 *	0: the default (16, 16, 16, 20)
 * @dm: device memory, which the host shows the guest as BAR 5; 8-byte aligned
 * @dm_size: its bytes, a multiple of 64 KiB, at most 1 GiB; 0: none
 * @doorbells: memory of ohca_doorbells_bytes() for ohca_doorbell_sizes(), set to 0 and aligned to 64
 *	bytes, in which other processes may ring; it stays until ohca_free(), and may hold anything
 *	at any time. NULL: the engine has its own
 * @mem_max: bytes that all that a guest makes may take, tables of fixed size apart; 0:
 *	OHCA_MEM_DEFAULT
 * @hash_seed: a random number that guests do not know: with it a guest cannot choose MGIDs that all
 *	fall into one chain of a hash table
 * @mw_type_2a: windows of type 2 are announced as 2A, not 2B
 * @lacks: features, bits of enum ohca_feature, that the device does not offer
 * @smp_off: the driver's software sends and receives no SMPs: what its QP0 sends is discarded,
 *	requests that the agent does not know are refused, MAD_IFC only reads, and no port
 *	can be said to have a subnet manager. The agents answer as ever.
 * @rate_scale: wires take so many times as long for a packet, so static rates and delays by congestion
 *	control do, too; 0: as 1
 * @node_desc: NodeDescription before a driver sets another; terminated
 */
struct ohca_cfg {
	uint64_t node_guid;
	uint64_t sys_guid;
	uint8_t num_ports;
	uint8_t vl_cap;
	uint8_t mtu_cap;
	uint8_t width_sup;
	uint8_t speed_sup;
	uint8_t speed_ext_sup;
	uint16_t num_vectors;
	uint32_t num_uars;
	uint8_t log_max_qp;
	uint8_t log_max_cq;
	uint8_t log_max_srq;
	uint8_t log_max_mr;
	void *dm;
	uint64_t dm_size;
	void *doorbells;
	uint64_t mem_max;
	uint64_t hash_seed;
	uint64_t lacks;
	unsigned int rate_scale;
	bool mw_type_2a;
	bool smp_off;
	char node_desc[64];
};

/**
 * ohca_new - make an engine, in the state after reset
 * Return: the engine, or NULL if out of memory or @cfg is not usable. @cfg and
 * @ops are copied.
 */
ohca_engine *ohca_new(const struct ohca_cfg *cfg, const struct ohca_host_ops *ops, void *h);

/**
 * ohca_doorbell_sizes() - the doorbells of an engine that @cfg makes (front/doorbell.h). any
 * @s: filled in
 *
 * Return: false: @cfg is not usable.
 */
bool ohca_doorbell_sizes(const struct ohca_cfg *cfg, struct ohca_db_sizes *s);

/**
 * ohca_move() - the host's memory is elsewhere from now on; owner; no other thread may be inside
 * @dm: device memory, with the same in it
 * @doorbells: as of struct ohca_cfg, which had them: gets what they have of numbers that are in use
 */
void ohca_move(ohca_engine *e, void *dm, void *doorbells);

/**
 * ohca_retire() - the end of an engine, as fast as ohca_reset(); owner; no other thread may be inside
 *
 * It calls the host no more, and does not use the host's memory. What it has is freed by
 * ohca_sweep(); no other function but that and ohca_free() may be called.
 */
void ohca_retire(ohca_engine *e);

/**
 * ohca_sweep() - free some of what resets and ohca_retire() have left, some 50 us long; owner
 *
 * ohca_poll() does it, too.
 *
 * Return: whether there is more; of an engine that is retired: more than ohca_free() frees at once.
 */
bool ohca_sweep(ohca_engine *e);

/** ohca_free - give everything back, however long it takes; owner; no other thread may be inside */
void ohca_free(ohca_engine *e);

/**
 * ohca_mmio_read - read of BAR 0. any
 * @off: byte offset; @size: 4 or 8
 * Return: value in CPU order; 0 for what is no register.
 */
uint64_t ohca_mmio_read(ohca_engine *e, uint64_t off, unsigned int size);

/** ohca_mmio_write - write of BAR 0. owner (RESET and ENABLE act at once) */
void ohca_mmio_write(ohca_engine *e, uint64_t off, uint64_t val, unsigned int size);

/**
 * ohca_admin_doorbell - write of OHCA_REG_AQ_DB. any; no lock
 * @pi: producer index of the admin queue
 * Calls host_ops.kick if the device runs.
 */
void ohca_admin_doorbell(ohca_engine *e, uint32_t pi);

/**
 * ohca_doorbell - write of a UAR page. any; no lock, no allocation
 * @uar: page index; @off: offset in the page; @size: bytes, only 8 counts
 * Calls host_ops.kick if there is something to do.
 */
void ohca_doorbell(ohca_engine *e, uint32_t uar, uint32_t off, uint64_t val, unsigned int size);

/**
 * ohca_poll - do work. owner
 * @budget: roughly how many packets and WQEs to handle at most
 * Return: true if there is more to do at once; else the host may sleep until a
 * kick, a frame, ohca_tx_ready or ohca_next_deadline(). Before it returns false the
 * engine has re-armed the doorbells of its queues and looked at them once more.
 */
bool ohca_poll(ohca_engine *e, unsigned int budget);

/** ohca_next_deadline - when ohca_poll() must be called at the latest, ns. owner */
uint64_t ohca_next_deadline(const ohca_engine *e);

/** Flags of struct ohca_frame. */
#define OHCA_RX_ICRC	0x1u	/* the ICRC field holds one, which is checked */
#define OHCA_RX_VCRC	0x2u	/* @vcrc holds one, which is checked */
#define OHCA_RX_EBP	0x4u	/* ended with End of Bad Packet: only counted */

/**
 * struct ohca_frame - a frame as it came from the wire
 * @data: LRH through ICRC field, may change under our hands (copy, check, use)
 * @view: NULL, or where the payload is: then @data has only the headers, and there is no CRC
 * @len: bytes of the packet; @vl: lane; @flags: OHCA_RX_*; @vcrc: host byte order
 */
struct ohca_frame {
	const uint8_t *data;
	const struct ib_view *view;
	uint32_t len;
	uint8_t vl;
	uint8_t flags;
	uint16_t vcrc;
};

/**
 * ohca_rx - a frame arrived. owner
 * @port: from 0
 * Always consumes the frame: what cannot be handled is dropped and counted. The host asks
 * ohca_rx_room() before each frame.
 */
void ohca_rx(ohca_engine *e, unsigned int port, const struct ohca_frame *f);

/**
 * ohca_rx_soon - a frame for a QP may come soon: what that needs comes into the cache. owner
 * @port: from 0; @qpn: the number in the BTH
 */
void ohca_rx_soon(const ohca_engine *e, unsigned int port, uint32_t qpn);

/**
 * ohca_rx_room - whether frames may come, of any port. owner
 * @n: so many, as one view; 1: any frame
 * @len: bytes of each
 * Return: false: there were enough of them for now, and ohca_poll() is due. It is no error to
 * call ohca_rx() nevertheless, but what a turn costs is not bounded then.
 */
bool ohca_rx_room(const ohca_engine *e, unsigned int n, uint32_t len);

/**
 * ohca_tx_ready - credits came for lanes that tx_begin refused. owner
 * @lanes: bit n: VL n. What waits for them is sent by the ohca_poll() that must follow, as
 * far as the credits go: no more is tried than the first that is refused again.
 */
void ohca_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes);

/**
 * ohca_persisted - what dma_persist() returned false for has been done. owner
 * @tag: as there
 * Whatever became of the engine since then, except ohca_free().
 */
void ohca_persisted(ohca_engine *e, uint64_t tag);

/** ohca_link_change - the physical link went up (@rate given) or down (NULL). owner */
void ohca_link_change(ohca_engine *e, unsigned int port, const struct ohca_link_rate *rate);

/**
 * ohca_any_order - of which service levels the fabric may deliver packets in any order. owner
 * @sls: bit n: SL n; after ohca_new() none
 *
 * All ports of all HCAs that talk to each other on them have to know it. RDMA WRITEs of RC that begin
 * from now on leave so that their packets may come in any order, and those that come before their turn
 * are taken; all else keeps its order (transport/ahead.h).
 */
void ohca_any_order(ohca_engine *e, uint16_t sls);

/**
 * ohca_set_trace - which events the host wants. owner
 * @events: bit n: event n of enum ohca_trace; after ohca_new() all of them
 */
void ohca_set_trace(ohca_engine *e, uint32_t events);

/**
 * ohca_reset - as power-on, FLR and OHCA_CTRL_RESET do; no DMA after it. owner
 *
 * It takes some 0.2 ms at most, whatever the driver has made: ohca_poll(), or ohca_sweep(), frees
 * that. The driver has all of its budget again; after a second reset meanwhile its commands wait
 * until what was there before the first one is freed, so an engine has no more than twice the
 * budget. Calls host_ops.kick if there is something to free.
 *
 * One exception: while what was there before the last reset is not freed, a further one needs memory
 * for tables. If the host has none, the reset itself frees what the driver has made.
 */
void ohca_reset(ohca_engine *e);

/** ohca_counter - value of a device counter, enum ohca_counter. any */
uint64_t ohca_counter(const ohca_engine *e, unsigned int id);

/* Kinds of lies, to be combined. */
#define OHCA_LIE_CQE_RESULT	0x01u	/* status, opcode, length and the like of a completion */
#define OHCA_LIE_CQE_NAME	0x02u	/* what is complete; an entry twice */
#define OHCA_LIE_EQE		0x04u	/* an entry of an event queue */
#define OHCA_LIE_OUTPUT		0x08u	/* what a command returns: handles, attributes, counters */
#define OHCA_LIE_STATUS		0x10u	/* refused, or said to be; said to be done */
#define OHCA_LIE_ANSWER		0x20u	/* an answer to another command, twice, late or never */
#define OHCA_LIE_REGISTER	0x40u	/* what is read from a control register */
#define OHCA_LIE_LESS		0x80u	/* sizes that are smaller when they are first read */
#define OHCA_LIE_ALL		0xffu

/**
 * ohca_set_lies() - have the device lie to its driver, to test that (base/lies.h); any thread
 * @seed: what is drawn depends on it alone
 * @kinds: OHCA_LIE_*
 * @one_of: of so many chances to lie one is used; 0: the truth from now on
 */
void ohca_set_lies(ohca_engine *e, uint64_t seed, unsigned int kinds, uint32_t one_of);

/** ohca_lies_told() - how often it has lied since ohca_new(); any thread */
uint64_t ohca_lies_told(const ohca_engine *e);

/**
 * ohca_lie_in_register() - by chance something else than a register's value; any thread
 * @v: what ohca_mmio_read() has returned for the guest
 * @size: bytes that the guest gets: 4 or 8
 *
 * Return: what the guest is to get. The host's own reads get the truth.
 */
uint64_t ohca_lie_in_register(ohca_engine *e, uint64_t v, unsigned int size);

#endif /* OHCA_ENGINE_H */
