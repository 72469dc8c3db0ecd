/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages on a link's control socket, and the layout of its shared memory.
 *
 * Socket messages are little-endian, packed by construction, one per SOCK_SEQPACKET
 * record. Every message starts with struct ohca_wire_hdr; a receiver accepts a
 * message longer than it knows and ignores the rest, so that fields can be added at
 * the end without a new version.
 *
 *	connecting side			listening side
 *	HELLO			->
 *				<-	HELLO with memfd, the pipe that wakes the listener
 *					and the one that wakes the connector, or ERROR
 *					and close
 *	STATE			<->	STATE, whenever a port (re)trains
 *	ERROR			<->	ERROR, before closing because of the peer
 *
 * Shared memory is in host byte order: both ends are on one host.
 *
 * A stream, which TCP is, carries the same messages. The first message of each side has
 * OHCA_WIRE_MSG_MAX bytes, the rest zeros, so that a receiver needs no room for a part of one:
 *
 *	connecting side			listening side
 *				<-	GREETING with a nonce
 *	HELLO with the proof	->
 *				<-	HELLO or ERROR
 *
 * Records follow (struct ohca_wire_rec): frames, credits, and messages. Each side has the rings of
 * both directions for itself. A frame has the same place in the receiver's ring as in the
 * sender's: FCTBS and FCCL are those of the shared memory, and the sender's ring holds a frame
 * as long as its credits do. All of it is little-endian.
 */
#ifndef OHCA_LINK_WIRE_H
#define OHCA_LINK_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"

/** "OHCL" as it stands in memory. */
#define OHCA_WIRE_MAGIC		0x4c43484fu

/** Types of messages. */
enum ohca_wire_type {
	OHCA_WIRE_HELLO = 1,
	OHCA_WIRE_ERROR = 2,
	OHCA_WIRE_STATE = 3,
	OHCA_WIRE_GREETING = 4,		/* of a stream alone */
};

/** Feature bits of a HELLO. A receiver refuses one that lacks the bit of its kind of socket. */
#define OHCA_WIRE_FEAT_SHM	0x1ull	/* shared-memory rings, this file's layout */
#define OHCA_WIRE_FEAT_STREAM	0x2ull	/* frames go by the socket, as struct ohca_wire_rec */

/**
 * struct ohca_wire_hdr - start of every message
 * @magic: OHCA_WIRE_MAGIC
 * @version: OHCA_LINK_VERSION
 * @type: enum ohca_wire_type
 * @len: of the whole message
 * @rsvd: 0, ignored
 */
struct ohca_wire_hdr {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t len;
	uint32_t rsvd;
};
static_assert(sizeof(struct ohca_wire_hdr) == 16, "wire header");

/**
 * struct ohca_wire_hello - identity and capabilities of a port
 * @features: OHCA_WIRE_FEAT_*
 * @node_guid: NodeGUID
 * @port_guid: PortGUID
 * @node_type .. @speed_ext_sup: as in struct ohca_link_cfg
 * @vls: data VLs agreed; only in the listener's HELLO, else 0
 * @shift: credit_shift agreed; only in the listener's HELLO, else 0
 * @mem_size: bytes of the shared memory; only in the listener's HELLO, else 0
 * @desc: name, padded with zeros
 */
struct ohca_wire_hello {
	struct ohca_wire_hdr hdr;
	uint64_t features;
	uint64_t node_guid;
	uint64_t port_guid;
	uint8_t node_type;
	uint8_t port_num;
	uint8_t want_port;
	uint8_t vl_cap;
	uint8_t mtu_cap;
	uint8_t shift_min;
	uint8_t shift_max;
	uint8_t shift_pref;
	uint8_t width_sup;
	uint8_t speed_sup;
	uint8_t speed_ext_sup;
	uint8_t vls;
	uint8_t shift;
	uint8_t rsvd[3];
	uint64_t mem_size;
	uint8_t desc[64];
};
static_assert(offsetof(struct ohca_wire_hello, node_type) == 40, "hello layout");
static_assert(offsetof(struct ohca_wire_hello, mem_size) == 56, "hello layout");
static_assert(sizeof(struct ohca_wire_hello) == 128, "hello layout");

/**
 * struct ohca_wire_error - the reason why the sender closes
 * @code: enum ohca_link_errcode
 * @text: one line, padded with zeros
 */
struct ohca_wire_error {
	struct ohca_wire_hdr hdr;
	uint32_t code;
	uint8_t text[204];
};
static_assert(sizeof(struct ohca_wire_error) == 224, "error layout");

/**
 * struct ohca_wire_state - one step of training
 * @seq: number of the sender's training; it changes whenever the sender's link goes
 *       down, also for a moment. Never 0.
 * @ack: @seq of the last STATE seen from the peer, 0 before the first
 * @enabled: 0: disabled; 1: wants to be up
 * @width_en: LinkWidthEnabled
 * @speed_en: LinkSpeedEnabled
 * @speed_ext_en: LinkSpeedExtEnabled
 * @rsvd: 0, ignored
 * @fctbs: FCTBS per VL when this was sent: frames before that are of an earlier
 *         training and are discarded when the link comes up
 *
 * A port is LinkUp when both are enabled, a common width and speed exist, and the
 * peer's last STATE acknowledged the port's own @seq.
 */
struct ohca_wire_state {
	struct ohca_wire_hdr hdr;
	uint32_t seq;
	uint32_t ack;
	uint8_t enabled;
	uint8_t width_en;
	uint8_t speed_en;
	uint8_t speed_ext_en;
	uint8_t rsvd[4];
	uint16_t fctbs[16];
};
static_assert(sizeof(struct ohca_wire_state) == 64, "state layout");

/** Room for any message, also for later, longer ones. */
#define OHCA_WIRE_MSG_MAX	512

/* ---- a stream ------------------------------------------------------------------- */

#define OHCA_WIRE_NONCE		16	/* bytes of a challenge */
#define OHCA_WIRE_PROOF		32	/* of HMAC-SHA256 */
#define OHCA_WIRE_PLACE		64

/**
 * struct ohca_wire_greeting - the listener of a stream speaks first
 * @nonce: the peer proves that it has the token with this
 */
struct ohca_wire_greeting {
	struct ohca_wire_hdr hdr;
	uint8_t nonce[OHCA_WIRE_NONCE];
};
static_assert(sizeof(struct ohca_wire_greeting) == 32, "greeting layout");

/**
 * struct ohca_wire_join - HELLO of a stream
 * @hello: as of any link; no memory is passed
 * @proof: HMAC-SHA256 of the listener's nonce, with the token as key; zeros without a token, and
 *	of the listener
 * @place: port that the connecting side wants to be attached to, NODE:PORT, padded with zeros
 */
struct ohca_wire_join {
	struct ohca_wire_hello hello;
	uint8_t proof[OHCA_WIRE_PROOF];
	uint8_t place[OHCA_WIRE_PLACE];
};
static_assert(sizeof(struct ohca_wire_join) == 224, "join layout");

/** Kinds of records that follow each other in a stream, behind the first message of each side. */
enum ohca_wire_kind {
	OHCA_WIRE_FRAME = 1,	/* a frame */
	OHCA_WIRE_MESSAGE = 2,	/* a message as on a socket of records */
	OHCA_WIRE_CREDIT = 3,	/* struct ohca_wire_credit */
};

/**
 * struct ohca_wire_rec - what is in front of each record
 * @kind: enum ohca_wire_kind
 * @vl: lane of a frame, else 0
 * @len: bytes that follow
 * @flags: OHCA_FRAME_* of a frame, else 0
 * @vcrc: VCRC of a frame that has OHCA_FRAME_VCRC, else 0
 */
struct ohca_wire_rec {
	uint8_t kind;
	uint8_t vl;
	uint16_t len;
	uint16_t flags;
	uint16_t vcrc;
};
static_assert(sizeof(struct ohca_wire_rec) == 8, "record layout");

/**
 * struct ohca_wire_credit - what a receiver grants
 * @fccl: per lane, modulo 4096; of those that do not exist 0
 * @vl15_dropped: VL15 frames that the sender of this had no room for, as in struct ohca_shm_dir
 * @rsvd: 0, ignored
 */
struct ohca_wire_credit {
	uint16_t fccl[16];
	uint32_t vl15_dropped;
	uint32_t rsvd;
};
static_assert(sizeof(struct ohca_wire_credit) == 40, "credit layout");

/* ---- shared memory ------------------------------------------------------------- */

#define OHCA_SHM_LANES		16	/* VL0-14 and VL15 */
#define OHCA_SHM_VL15_BLOCKS	1024	/* buffer of VL15, in blocks of 64 bytes */
#define OHCA_SHM_ALIGN		65536u	/* of each lane's data, >= any page size */

/**
 * struct ohca_shm_desc - one frame, indexed by its first block modulo the lane's blocks
 * @len: bytes, LRH through ICRC field
 * @flags: OHCA_FRAME_*
 * @vcrc: VCRC if OHCA_FRAME_VCRC
 * @rsvd: 0
 */
struct ohca_shm_desc {
	uint16_t len;
	uint16_t flags;
	uint16_t vcrc;
	uint16_t rsvd;
};
static_assert(sizeof(struct ohca_shm_desc) == 8, "descriptors are loaded as one word");

/**
 * struct ohca_shm_dir - one direction's indices, one cache line per writer
 * @fctbs: per lane, written by the sender: blocks sent, modulo 4096
 * @fccl: per lane, written by the receiver: credit limit, modulo 4096
 * @vl15_dropped: written by the sender: VL15 frames that found the ring full
 */
struct ohca_shm_dir {
	_Alignas(64) uint32_t fctbs[OHCA_SHM_LANES];
	_Alignas(64) uint32_t fccl[OHCA_SHM_LANES];
	_Alignas(64) uint32_t vl15_dropped;
};
static_assert(sizeof(struct ohca_shm_dir) == 192, "shm layout");

/**
 * struct ohca_shm_side - a side's requests for signals; it sets, its peer clears
 * @rx_wait: nonzero: signal when frames were committed
 * @tx_wait: nonzero: signal when credits were published
 */
struct ohca_shm_side {
	_Alignas(64) uint32_t rx_wait;
	_Alignas(64) uint32_t tx_wait;
};
static_assert(sizeof(struct ohca_shm_side) == 128, "shm layout");

/**
 * struct ohca_shm_ctl - first page of the shared memory
 * @dir: [0] from the listener to the connector, [1] back
 * @side: [0] the listener, [1] the connector
 *
 * From OHCA_SHM_DESC_OFF on follow, per direction and then per data VL and at last
 * VL15, the descriptor arrays; then, aligned to OHCA_SHM_ALIGN and in the same order,
 * the data areas of (blocks << (6 + credit_shift)) bytes; VL15's blocks always have
 * 64 bytes.
 */
struct ohca_shm_ctl {
	struct ohca_shm_dir dir[2];
	struct ohca_shm_side side[2];
};
static_assert(offsetof(struct ohca_shm_ctl, side) == 384, "shm layout");
static_assert(sizeof(struct ohca_shm_ctl) == 640, "shm layout");

#define OHCA_SHM_DESC_OFF	4096u

#endif /* OHCA_LINK_WIRE_H */
