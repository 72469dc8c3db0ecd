/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface of the HCA engine, which implements all functions of the adapter.
 *
 * The engine uses no QEMU header, thread, global variable or socket. Its host (the fabric's
 * process, a unit test, fuzzer or benchmark) implements struct ohca_host_ops, provides the thread
 * and the clock, and calls ohca_poll(). One process can have many engines.
 *
 * Ownership: at any time one thread is the owner of an engine, and only the owner may call
 * functions marked "owner". The host decides which thread that is, for example by a mutex.
 * Any thread may call functions marked "any" at any time between ohca_new() and ohca_free().
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

/** Budget of memory if struct ohca_cfg sets none, bytes. */
#define OHCA_MEM_DEFAULT	(1ull << 30)

/** Widths and speeds, encoded as in PortInfo. */
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

/** Most stretches in one call of dma_persist. */
#define OHCA_PERSIST_RUNS	512u

/** Most calls of dma_persist that wait for ohca_persisted(); a reset does not end these. */
#define OHCA_PERSISTS		8u

/**
 * struct ohca_host_ops - functions of the host that the engine calls
 *
 * @h is that of ohca_new(). Only the owner calls them, inside an owner function, except @irq, @kick
 * and @now_ns. None may call a function of the engine.
 */
struct ohca_host_ops {
	/**
	 * @dma_map: host address of guest memory, valid until the owner function returns
	 * @iova: bus address
	 * @len: in: bytes requested; out: bytes that are contiguous from there, at least 1, at most
	 *	those requested
	 * @prot: OHCA_DMA_READ, OHCA_DMA_WRITE or both
	 * Return: the address, or NULL if the device cannot reach memory there.
	 */
	void *(*dma_map)(void *h, uint64_t iova, size_t *len, int prot);
	/** @dma_dirty: guest memory was written through a mapped pointer */
	void (*dma_dirty)(void *h, uint64_t iova, size_t n);
	/**
	 * @dma_persist: make the current contents of guest memory persistent, if the memory can
	 * survive a power failure. Does not block: the host does what takes time elsewhere, and
	 * then calls ohca_persisted(). May be NULL if the host has no such memory.
	 * @run: @n stretches, 1 to OHCA_PERSIST_RUNS; valid during the call
	 * @tag: for ohca_persisted()
	 * Return: true if there is nothing to do, false if the host will call ohca_persisted().
	 */
	bool (*dma_persist)(void *h, const struct ohca_run *run, unsigned int n, uint64_t tag);
	/** @dm_dirty: device memory was written, @n bytes at @off; may be NULL */
	void (*dm_dirty)(void *h, uint64_t off, size_t n);
	/** @irq: raise MSI-X vector @vec. Never blocks. */
	void (*irq)(void *h, unsigned int vec);
	/** @now_ns: any thread: monotonic time, ns; it does not advance while the VM is paused */
	uint64_t (*now_ns)(void *h);
	/**
	 * @turn_ns: the time that the host read just before ohca_poll(), ns, without the cost of
	 * reading a clock. May be NULL.
	 */
	uint64_t (*turn_ns)(void *h);
	/** @kick: any thread: there is work, so the host must call ohca_poll() */
	void (*kick)(void *h);
	/**
	 * @tx_begin: get a buffer for one packet
	 * @port: from 0
	 * @vl: virtual lane, 0-14 or 15
	 * @len: LRH through ICRC field, bytes, a multiple of 4
	 * Return: the buffer, writable and readable until the next tx_begin or tx_commit; NULL if
	 * the lane has no credits (the engine tries again after ohca_tx_ready()) or the link is
	 * down. VL15 has no flow control: NULL means that the packet is lost.
	 */
	uint8_t *(*tx_begin)(void *h, unsigned int port, unsigned int vl, uint32_t len);
	/** @tx_commit: send the packet of the last tx_begin, which is complete */
	void (*tx_commit)(void *h, unsigned int port, unsigned int vl, uint32_t len);
	/**
	 * @tx_commit_view: the same for a packet whose buffer contains only the headers
	 * @view: the payload. The pad and the ICRC field, which follow it, are zeros.
	 *
	 * The host copies the payload, or passes the packet to ohca_rx() of another engine, before
	 * it returns. May be NULL: the engine then builds every packet completely.
	 */
	void (*tx_commit_view)(void *h, unsigned int port, unsigned int vl, uint32_t len,
			       const struct ib_view *view);
	/**
	 * @tx_series: ask whether several packets, of one message or one message each, may be sent
	 * as one, with a view of all of them
	 * @len: bytes of each packet; the buffer of @tx_begin contains the headers of the first one
	 *	up to the BTH
	 * @n: most packets
	 *
	 * Return: true only if nothing on the path would treat the packets differently, and the
	 * receiver has room for all. False: the engine sends them one by one. May be NULL: as
	 * false. The engine calls it only if there is @tx_commit_view.
	 */
	bool (*tx_series)(void *h, unsigned int port, unsigned int vl, uint32_t len,
			  unsigned int n);
	/**
	 * @tx_soon: the engine may send a packet soon, after others: a host that also has the
	 * receiving engine may call its ohca_rx_soon()
	 * @lrh: LRH of the packet, without the length; @pkey: P_Key; @dqpn: destination QP
	 *
	 * May be NULL.
	 */
	void (*tx_soon)(void *h, unsigned int port, const uint8_t *lrh, uint16_t pkey,
			uint32_t dqpn);
	/** @link_ctl: let the physical link train (true), or disable it */
	void (*link_ctl)(void *h, unsigned int port, bool enable);
	/**
	 * @link_rate: set LinkWidthEnabled, LinkSpeedEnabled and LinkSpeedExtEnabled, sets of bits,
	 * for the next training of the link, which either end may start. A link that is up does not
	 * change. Before the first call the values are those of struct ohca_cfg.
	 */
	void (*link_rate)(void *h, unsigned int port, const struct ohca_link_rate *rate);
	/**
	 * @vl15_dropped: number of VL15 frames to the port that were dropped since ohca_new(),
	 * because VL15 has no flow control and the port had no room. May be NULL: none.
	 */
	uint64_t (*vl15_dropped)(void *h, unsigned int port);
	/**
	 * @trace: report event @ev of enum ohca_trace, for diagnosis, if ohca_set_trace() has
	 * enabled it; may be NULL
	 */
	void (*trace)(void *h, unsigned int ev, const uint64_t a[4]);
};

/** Trace events; arguments as named. */
enum ohca_trace {
	OHCA_TR_CMD,		/* opcode, status, syndrome, result */
	OHCA_TR_FATAL,		/* reason */
	OHCA_TR_QP_STATE,	/* handle, old, new, vendor error */
	OHCA_TR_PKT,		/* a connected QP received: handle, opcode, PSN, expected PSN */
	OHCA_TR_RX_DROP,	/* counter, port, opcode, qpn */
	OHCA_TR_WQE_ERR,	/* handle, status, vendor error, opcode */
	OHCA_TR_TIMEOUT,	/* handle, PSN, retries left */
	OHCA_TR_PORT_STATE,	/* port, old, new */
	OHCA_TR_MAD,		/* port, class, method << 16 | attribute, verdict */
	OHCA_TR_NUM
};

/**
 * struct ohca_cfg - configuration of the adapter
 * @node_guid: NodeGUID, CPU order; the PortGUID of port n (from 1) is node_guid + n
 * @sys_guid: SystemImageGUID, CPU order; 0: as node_guid
 * @num_ports: 1 or 2
 * @vl_cap: number of data VLs: 1, 2, 4, 8 or 15
 * @mtu_cap: largest MTU, 1 to 5 (256 to 4096)
 * @width_sup: LinkWidthSupported
 * @speed_sup: LinkSpeedSupported
 * @speed_ext_sup: LinkSpeedExtSupported
 * @num_vectors: MSI-X vectors of the device, at least 1
 * @num_uars: UAR pages that the host exposes, 1 to 65535
 * @log_max_qp, @log_max_cq, @log_max_srq, @log_max_mr: log2 of table sizes;
 *	0: the default (16, 16, 16, 20)
 * @dm: device memory, which the guest accesses as BAR 5; 8-byte aligned
 * @dm_size: its bytes, a multiple of 64 KiB, at most 1 GiB; 0: none
 * @doorbells: memory of ohca_doorbells_bytes() for ohca_doorbell_sizes(), set to 0 and aligned to
 *	64 bytes, in which other processes may ring doorbells; valid until ohca_free(). The engine
 *	does not trust its contents. NULL: the engine allocates it
 * @mem_max: most bytes that the engine allocates for objects of the guest, without tables of fixed
 *	size; 0: OHCA_MEM_DEFAULT
 * @hash_seed: a random number that guests do not know, so that a guest cannot choose MGIDs that
 *	share one chain of a hash table
 * @mw_type_2a: the device offers type 2 memory windows as 2A, not as 2B
 * @lacks: features, bits of enum ohca_feature, that the device does not offer
 * @smp_off: the driver's software sends and receives no SMPs: the engine discards what its QP0
 *	sends, refuses requests that the agent does not support, executes only reads of MAD_IFC, and
 *	does not let the driver set IsSM. The agents answer as usual.
 * @rate_scale: factor by which the links are slower than their rates; static rates and delays by
 *	congestion control are slowed in the same way; 0: as 1
 * @node_desc: NodeDescription before the driver sets another; terminated
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
 * ohca_new - create an engine, in the state after reset
 * @cfg, @ops: copied
 * @h: first argument of all @ops
 * Return: the engine, or NULL if there is no memory, or @cfg or @ops is not usable.
 */
ohca_engine *ohca_new(const struct ohca_cfg *cfg, const struct ohca_host_ops *ops, void *h);

/**
 * ohca_doorbell_sizes() - sizes of the doorbells of an engine with @cfg (front/doorbell.h). any
 * @s: result
 *
 * Return: false: @cfg is not usable.
 */
bool ohca_doorbell_sizes(const struct ohca_cfg *cfg, struct ohca_db_sizes *s);

/**
 * ohca_move() - use other memory of the host; owner; no other thread may call the engine
 * @dm: device memory with the same contents
 * @doorbells: as in struct ohca_cfg, which must have set them; the engine copies the doorbells of
 *	numbers in use to it
 */
void ohca_move(ohca_engine *e, void *dm, void *doorbells);

/**
 * ohca_retire() - end an engine, as fast as ohca_reset(); owner; no other thread may call the
 * engine
 *
 * The engine no longer calls the host or uses its memory. ohca_sweep() frees what the engine has
 * allocated. Only ohca_sweep() and ohca_free() may be called from then on.
 */
void ohca_retire(ohca_engine *e);

/**
 * ohca_sweep() - free objects that resets and ohca_retire() have left, for about 50 us; owner
 *
 * ohca_poll() also does this.
 *
 * Return: true if there are more; if false, ohca_free() of a retired engine takes little time.
 */
bool ohca_sweep(ohca_engine *e);

/** ohca_free - free the engine, however long it takes; owner; no other thread may call it */
void ohca_free(ohca_engine *e);

/**
 * ohca_mmio_read - read a register of BAR 0. any
 * @off: byte offset; @size: 4 or 8
 * Return: value in CPU order; 0 if there is no register.
 */
uint64_t ohca_mmio_read(ohca_engine *e, uint64_t off, unsigned int size);

/** ohca_mmio_write - write a register of BAR 0. owner (RESET and ENABLE act at once) */
void ohca_mmio_write(ohca_engine *e, uint64_t off, uint64_t val, unsigned int size);

/**
 * ohca_admin_doorbell - write OHCA_REG_AQ_DB. any; no lock
 * @pi: producer index of the admin queue
 * Calls host_ops.kick if the device runs.
 */
void ohca_admin_doorbell(ohca_engine *e, uint32_t pi);

/**
 * ohca_doorbell - write to a UAR page. any; no lock, no allocation
 * @uar: page index; @off: offset in the page; @val: value; @size: bytes; other sizes than 8 are
 *	ignored
 * Calls host_ops.kick if there is something to do.
 */
void ohca_doorbell(ohca_engine *e, uint32_t uar, uint32_t off, uint64_t val, unsigned int size);

/**
 * ohca_poll - do work. owner
 * @budget: about how many packets and WQEs to process at most
 * Return: true if there is more to do at once. False: the host may sleep until a kick, a frame,
 * ohca_tx_ready() or ohca_next_deadline(); the engine has armed the doorbells of its queues and
 * then checked the queues once more.
 */
bool ohca_poll(ohca_engine *e, unsigned int budget);

/**
 * ohca_host_work - count work of the host in @dma_map, so that the call ends as early. owner
 * @n: units of 0.4 ns; OHCA_WORK_* in base/work.h
 */
void ohca_host_work(ohca_engine *e, uint64_t n);

/** ohca_next_deadline - when ohca_poll() must be called at the latest, ns. owner */
uint64_t ohca_next_deadline(const ohca_engine *e);

/** Flags of struct ohca_frame. */
#define OHCA_RX_ICRC	0x1u	/* the ICRC field contains an ICRC, which is checked */
#define OHCA_RX_VCRC	0x2u	/* @vcrc is valid, and is checked */
#define OHCA_RX_EBP	0x4u	/* the frame ended with End of Bad Packet: it is only counted */

/**
 * struct ohca_frame - a frame as received from the wire
 * @data: LRH through ICRC field; it may change at any time (copy, check, use)
 * @view: NULL, or the payload: then @data contains only the headers, and there is no CRC
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
 * ohca_rx - receive a frame. owner
 * @port: from 0
 * Always consumes the frame: a frame that cannot be handled is dropped and counted. The host calls
 * ohca_rx_room() before each frame.
 */
void ohca_rx(ohca_engine *e, unsigned int port, const struct ohca_frame *f);

/**
 * ohca_rx_soon - prefetch the state that a frame to a QP needs, which may arrive soon. owner
 * @port: from 0; @qpn: destination QP of the BTH
 */
void ohca_rx_soon(const ohca_engine *e, unsigned int port, uint32_t qpn);

/**
 * ohca_rx_room - whether the host may pass frames, of any port. owner
 * @n: number of packets in one view; 1: any frame
 * @len: bytes of each
 * Return: false if the engine has received enough frames for now, and the host must call
 * ohca_poll(). ohca_rx() is no error then, but its work is not bounded.
 */
bool ohca_rx_room(const ohca_engine *e, unsigned int n, uint32_t len);

/**
 * ohca_tx_ready - lanes for which tx_begin returned NULL have credits. owner
 * @lanes: bit n: VL n. The host must call ohca_poll() afterwards, which sends packets of these
 *	lanes until tx_begin returns NULL again.
 */
void ohca_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes);

/**
 * ohca_persisted - a flush for which dma_persist() returned false is complete. owner
 * @tag: that of dma_persist()
 * The host calls it even after a reset, but not after ohca_free().
 */
void ohca_persisted(ohca_engine *e, uint64_t tag);

/** ohca_link_change - the physical link went up (@rate given) or down (NULL). owner */
void ohca_link_change(ohca_engine *e, unsigned int port, const struct ohca_link_rate *rate);

/**
 * ohca_any_order - set the service levels whose packets the fabric may deliver in any order. owner
 * @sls: bit n: SL n; after ohca_new() none
 *
 * All HCAs that communicate on these SLs need the same setting. It applies to RDMA WRITEs of RC
 * that begin from now on: their packets may arrive in any order, and the responder accepts packets
 * that arrive early. All other packets stay in order (transport/ahead.h).
 */
void ohca_any_order(ohca_engine *e, uint16_t sls);

/**
 * ohca_set_trace - select the events that the engine reports by host_ops.trace. owner
 * @events: bit n: event n of enum ohca_trace; after ohca_new() all events
 */
void ohca_set_trace(ohca_engine *e, uint32_t events);

/**
 * ohca_reset - reset the device as power-on, FLR and OHCA_CTRL_RESET do; no DMA after it. owner
 *
 * It takes about 0.2 ms at most, however many objects the driver has created: ohca_poll() or
 * ohca_sweep() frees these. The driver has the whole budget of memory again. If a second reset
 * follows before the objects from before the first one are freed, commands wait until they are, so
 * an engine uses at most twice the budget. Calls host_ops.kick if there are objects to free.
 *
 * Exception: while objects from before the last reset are not freed, a further reset needs memory
 * for tables. If the host has none, the reset itself frees all objects.
 */
void ohca_reset(ohca_engine *e);

/** ohca_counter - value of a device counter, enum ohca_counter. any */
uint64_t ohca_counter(const ohca_engine *e, unsigned int id);

/* Kinds of lies, a set of bits. */
#define OHCA_LIE_CQE_RESULT	0x01u	/* status, opcode, length and the like of a completion */
#define OHCA_LIE_CQE_NAME	0x02u	/* which WQE is complete; an entry twice */
#define OHCA_LIE_EQE		0x04u	/* an entry of an event queue */
#define OHCA_LIE_OUTPUT		0x08u	/* results of commands: handles, attributes, counters */
#define OHCA_LIE_STATUS		0x10u	/* status of a command, executed or not */
#define OHCA_LIE_ANSWER		0x20u	/* an answer to another command, twice, late or never */
#define OHCA_LIE_REGISTER	0x40u	/* value of a control register */
#define OHCA_LIE_LESS		0x80u	/* smaller sizes when they are first read */
#define OHCA_LIE_ALL		0xffu

/**
 * ohca_set_lies() - let the device lie to its driver, to test the driver (base/lies.h); any thread
 * @seed: seed of the random numbers
 * @kinds: OHCA_LIE_*
 * @one_of: the device uses one of so many chances to lie; 0: no lies from now on
 */
void ohca_set_lies(ohca_engine *e, uint64_t seed, unsigned int kinds, uint32_t one_of);

/** ohca_lies_told() - number of lies since ohca_new(); any thread */
uint64_t ohca_lies_told(const ohca_engine *e);

/**
 * ohca_lie_in_register() - perhaps change the value of a register; any thread
 * @v: result of ohca_mmio_read() for a read of the guest
 * @size: bytes of the read: 4 or 8
 *
 * Return: the value for the guest. The host does not call it for its own reads.
 */
uint64_t ohca_lie_in_register(ohca_engine *e, uint64_t v, unsigned int size);

#endif /* OHCA_ENGINE_H */
