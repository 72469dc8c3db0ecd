/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages between a front and the fabric's process, which hosts its HCA.
 *
 * The socket is the fabric's (--listen), SOCK_SEQPACKET, one message a record. The first message of
 * a connection identifies it: a link's HELLO (link/wire.h) or a front's. All numbers are
 * little-endian. Messages may grow at their end: a message that is longer than known is valid.
 *
 *	type	from	answer	what
 *	HELLO	front	WELCOME	the HCA; with a descriptor of device memory, if it has some
 *	WELCOME	daemon		with three descriptors: page, eventfd, interrupt socket
 *	BLOCK	front	DONE	a block of memory, with its descriptor
 *	UNBLOCK	front	DONE	removes a block; no range of the last MEM, and no mapping, is in it
 *	MEM	front	DONE	all ranges of bus addresses that the HCA can access from now on
 *	UNMAP	front	DONE	removes translations of an IOMMU; @value 1: repeat it
 *	LOG	front	DONE	logs writes to a block from now on
 *	REG	front	DONE	writes a register of BAR 0, or reads one into @value of the answer
 *	RESET	front	DONE	as power-on: no DMA, and no vector is raised after the answer
 *	RUN	front	DONE	pauses the machine, or lets it run
 *	LIES	front	DONE	ohca_set_lies(); @value of the answer: ohca_lies_told()
 *	LEAVE	front	DONE	lets the paused machine move: by a HELLO with @value of the answer
 *	BYE	front	DONE	frees the HCA; the daemon closes after its answer
 *	ERROR	daemon		why it closes
 *
 * Vectors that were raised before RESET are still in the page: the front clears them after the
 * answer. Everything else of the device is as after power-on.
 *
 * A machine that migrates has two fronts for a while. The first one pauses, and sends LEAVE. The
 * HELLO of the second one has OHCA_FRONT_MOVE, and that token, once. The second front sends its
 * memory as usual, while the HCA still belongs to the first one, which stays paused. RUN 1, RESET,
 * or the write of a register by either decides: by the second one, that the HCA with all its state
 * is now its own; by the first one, that the machine stays there. The daemon ends the other front.
 * If the first front ends before, the second one gets the HCA; if the second one ends, the first
 * one keeps it. The token is valid until the first one runs, sends RESET, writes a register, ends,
 * or sends LEAVE again.
 *
 * DONE and WELCOME have @seq of the message that they answer. A front has one message outstanding
 * at a time. After it has sent one it sets OHCA_PEND_ATTN in its page, and wakes the daemon as for
 * a doorbell.
 *
 * The peer is not trusted. A message of an unknown type is answered by DONE with
 * OHCA_FRONT_UNKNOWN, one whose contents are not valid by another status, and it changes nothing
 * else. A violation of the protocol itself (another magic or version, a message that is shorter
 * than its type or longer than OHCA_FRONT_MAX, descriptors where none belong, no HELLO first, an
 * entry of the ring of mappings that is not valid) ends the connection, and the HCA with it.
 */
#ifndef OHCA_FRONT_PROTO_H
#define OHCA_FRONT_PROTO_H

#include <stdint.h>

/** ohca_front_char() - byte @c of a text of the peer as a printable character */
static inline char ohca_front_char(uint8_t c)
{
	return c >= 0x20 && c < 0x7f ? (char)c : '?';
}

#define OHCA_FRONT_MAGIC	0x4643484fu	/* "OHCF" in memory; a link's is "OHCL" */
#define OHCA_FRONT_VERSION	4		/* of the messages, and of the page (page.h) */
#define OHCA_FRONT_MAX		65536u		/* bytes of a message */
#define OHCA_FRONT_BLOCKS	64u		/* at a time; their ids are from 0 to 63 */
#define OHCA_FRONT_RANGES	1024u
#define OHCA_FRONT_ALIGN	4096u		/* of bus addresses, lengths and offsets */

/** enum ohca_front_type - types of messages; see the head of this file */
enum ohca_front_type {
	OHCA_FRONT_HELLO = 1,
	OHCA_FRONT_WELCOME = 2,
	OHCA_FRONT_ERROR = 3,
	OHCA_FRONT_BLOCK = 4,
	OHCA_FRONT_UNBLOCK = 5,
	OHCA_FRONT_MEM = 6,
	OHCA_FRONT_REG = 7,
	OHCA_FRONT_RESET = 8,
	OHCA_FRONT_RUN = 9,
	OHCA_FRONT_LIES = 10,
	OHCA_FRONT_BYE = 11,
	OHCA_FRONT_UNMAP = 12,
	OHCA_FRONT_LOG = 13,
	OHCA_FRONT_LEAVE = 14,
	OHCA_FRONT_DONE = 0x8000,
};

/** enum ohca_front_status - status of an answer */
enum ohca_front_status {
	OHCA_FRONT_OK = 0,
	OHCA_FRONT_UNKNOWN = 1,		/* there is no such message */
	OHCA_FRONT_INVALID = 2,		/* a field, or a combination of them, is not valid */
	OHCA_FRONT_NO_MEMORY = 3,	/* the daemon has no memory */
	OHCA_FRONT_NOT_SHARED = 4,	/* a block cannot be mapped as shared memory of its size */
	OHCA_FRONT_LIMIT = 5,		/* it would exceed the memory limit of the daemon */
};

/** struct ohca_front_hdr - begin of every message; @len: bytes of all of it; @seq: any number */
struct ohca_front_hdr {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t len;
	uint32_t seq;
};

/** struct ohca_front_done - DONE */
struct ohca_front_done {
	struct ohca_front_hdr hdr;
	uint32_t status;			/* enum ohca_front_status */
	uint32_t rsvd;
	uint64_t value;
};

/**
 * struct ohca_front_error - ERROR
 * @code: enum ohca_link_errcode (link/link.h)
 * @text: one line, padded with zeros
 */
struct ohca_front_error {
	struct ohca_front_hdr hdr;
	uint32_t code;
	uint8_t text[204];
};

#define OHCA_FRONT_PAUSED	0x1u	/* the machine does not run yet */
#define OHCA_FRONT_SMP_OFF	0x2u	/* struct ohca_cfg.smp_off */
#define OHCA_FRONT_MW_2A	0x4u	/* struct ohca_cfg.mw_type_2a */
#define OHCA_FRONT_MOVE		0x8u	/* the HCA of a front that has sent LEAVE; with PAUSED */

/**
 * struct ohca_front_hello - HELLO
 * @node_guid: NodeGUID; port n has node_guid + n
 * @sys_guid, @vl_cap ... @lacks: as in struct ohca_cfg of the engine
 * @mem_max: as there; the limit of the daemon may be lower
 * @dm_size: bytes of the descriptor that is passed with it; 0: none is
 * @want_port: the port of the first switch for port 1, 0: any; port 2 gets the next
 * @clock_ns: CLOCK_MONOTONIC of the front when it sent this: both have the same clock
 * @desc: NodeDescription; need not be terminated
 * @id: name for messages: QEMU's id of the device; need not be terminated
 * @token: of the answer to LEAVE, with OHCA_FRONT_MOVE; then all fields but @clock_ns, @desc and
 *	@id are as in the HELLO of the front that has sent LEAVE
 */
struct ohca_front_hello {
	struct ohca_front_hdr hdr;
	uint64_t node_guid;
	uint64_t sys_guid;
	uint64_t dm_size;
	uint64_t mem_max;
	uint64_t lacks;
	uint64_t clock_ns;
	uint32_t flags;
	uint16_t vectors;
	uint16_t uars;
	uint8_t ports;
	uint8_t vl_cap;
	uint8_t mtu_cap;
	uint8_t width_sup;
	uint8_t speed_sup;
	uint8_t speed_ext_sup;
	uint8_t want_port;
	uint8_t rsvd;
	uint8_t log_max_qp;
	uint8_t log_max_cq;
	uint8_t log_max_srq;
	uint8_t log_max_mr;
	uint8_t desc[64];
	uint8_t id[64];
	uint32_t rsvd2;
	uint64_t token;
};

/**
 * struct ohca_front_welcome - WELCOME
 * @page_bytes: of the page's descriptor
 * @max: [enum ohca_db_kind] and @uars: struct ohca_db_sizes of the doorbells in it
 * @release: of the daemon, for messages
 */
struct ohca_front_welcome {
	struct ohca_front_hdr hdr;
	uint64_t page_bytes;
	uint32_t max[3];
	uint32_t uars;
	uint8_t release[64];
};

/** Indices of the descriptors of WELCOME. */
enum { OHCA_FRONT_FD_PAGE, OHCA_FRONT_FD_WAKE, OHCA_FRONT_FD_IRQ, OHCA_FRONT_FDS };

/** struct ohca_front_block - BLOCK; UNBLOCK has only @id */
struct ohca_front_block {
	struct ohca_front_hdr hdr;
	uint32_t id;
	uint32_t rsvd;
	uint64_t size;			/* bytes from the begin of the descriptor's file */
};

#define OHCA_FRONT_LOG_DM	OHCA_FRONT_BLOCKS	/* instead of an id: device memory */

/**
 * struct ohca_front_log - LOG, with a descriptor of the log (front/dirty.h)
 * @id: of a block without a log; it keeps this one as long as it exists
 */
struct ohca_front_log {
	struct ohca_front_hdr hdr;
	uint32_t id;
	uint32_t rsvd;
};

#define OHCA_FRONT_READ_ONLY	0x1u

/** struct ohca_front_range - bus addresses that are memory of a block */
struct ohca_front_range {
	uint64_t iova;
	uint64_t len;
	uint64_t off;			/* in the block */
	uint32_t block;
	uint32_t flags;			/* OHCA_FRONT_READ_ONLY */
};

/** struct ohca_front_mem - MEM: @n ranges in the order of addresses, without overlap */
struct ohca_front_mem {
	struct ohca_front_hdr hdr;
	uint32_t n;
	uint32_t rsvd;
	struct ohca_front_range range[];
};

#define OHCA_FRONT_MAPS		(1u << 20)	/* at a time */
/* ranges that one UNMAP removes, after which there may be more */
#define OHCA_FRONT_UNMAP_STEP	256u

/**
 * struct ohca_front_unmap - UNMAP
 * @iova: the first address that is not translated after the answer
 * @last: the last one; less than @iova: there is none
 *
 * The daemon reads the ring of mappings (front/page.h) before. Ranges of MEM stay.
 */
struct ohca_front_unmap {
	struct ohca_front_hdr hdr;
	uint64_t iova;
	uint64_t last;
};

#define OHCA_FRONT_REG_WRITE	0x1u

/** struct ohca_front_reg - REG */
struct ohca_front_reg {
	struct ohca_front_hdr hdr;
	uint32_t off;
	uint8_t size;			/* 4 or 8 */
	uint8_t flags;			/* OHCA_FRONT_REG_WRITE; else a read */
	uint16_t rsvd;
	uint64_t value;
};

/** struct ohca_front_run - RUN */
struct ohca_front_run {
	struct ohca_front_hdr hdr;
	uint32_t running;			/* 0: no DMA, no interrupt after the answer */
	uint32_t rsvd;
};

/* All kinds of faults: OHCA_LIE_ALL of the engine */
#define OHCA_FRONT_LIES_ALL	0xffu

/** struct ohca_front_lies - LIES */
struct ohca_front_lies {
	struct ohca_front_hdr hdr;
	uint64_t seed;
	uint32_t kinds;
	uint32_t one_of;			/* 0: none from now on */
	uint32_t ask;			/* 1: only the answer's @value is wanted */
	uint32_t rsvd;
};

_Static_assert(sizeof(struct ohca_front_hdr) == 16, "struct ohca_front_hdr");
_Static_assert(sizeof(struct ohca_front_done) == 32, "struct ohca_front_done");
_Static_assert(sizeof(struct ohca_front_error) == 224, "struct ohca_front_error");
_Static_assert(sizeof(struct ohca_front_hello) == 224, "struct ohca_front_hello");
_Static_assert(sizeof(struct ohca_front_welcome) == 104, "struct ohca_front_welcome");
_Static_assert(sizeof(struct ohca_front_block) == 32, "struct ohca_front_block");
_Static_assert(sizeof(struct ohca_front_log) == 24, "struct ohca_front_log");
_Static_assert(sizeof(struct ohca_front_range) == 32, "struct ohca_front_range");
_Static_assert(sizeof(struct ohca_front_mem) == 24, "struct ohca_front_mem");
_Static_assert(sizeof(struct ohca_front_unmap) == 32, "struct ohca_front_unmap");
_Static_assert(sizeof(struct ohca_front_reg) == 32, "struct ohca_front_reg");
_Static_assert(sizeof(struct ohca_front_run) == 24, "struct ohca_front_run");
_Static_assert(sizeof(struct ohca_front_lies) == 40, "struct ohca_front_lies");

#endif /* OHCA_FRONT_PROTO_H */
