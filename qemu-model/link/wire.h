/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol of a link's socket. All of it is little-endian, and packed by construction.
 *
 *	connecting side			listening side
 *				<-	GREETING with a nonce, by TCP
 *	HELLO with the proof	->
 *				<-	HELLO or ERROR
 *
 * Every message starts with struct ohca_wire_hdr; a receiver accepts a message longer than it knows
 * and ignores the rest, so that fields can be added at the end without a new version. On a host
 * each of these first messages is a packet of its own (SOCK_SEQPACKET). By TCP it has
 * OHCA_WIRE_MSG_MAX bytes, the rest zeros, so that a receiver needs no memory for a part of one.
 *
 * Records follow (struct ohca_wire_rec): frames, credits, and messages: STATE, whenever a port
 * (re)trains, and ERROR, before an end closes because of a violation by the other one. Boundaries
 * of packets have no meaning.
 *
 * Each side has the rings of both directions for itself. A frame has the same position in the
 * receiver's ring as in the sender's, which keeps it until its credits return.
 */
#ifndef OHCA_LINK_WIRE_H
#define OHCA_LINK_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"

/** "OHCL" in memory. */
#define OHCA_WIRE_MAGIC		0x4c43484fu

/** Types of messages. */
enum ohca_wire_type {
	OHCA_WIRE_HELLO = 1,
	OHCA_WIRE_ERROR = 2,
	OHCA_WIRE_STATE = 3,
	OHCA_WIRE_GREETING = 4,
};

#define OHCA_WIRE_LANES		16	/* VL0-14 and VL15 */
#define OHCA_WIRE_VL15_BLOCKS	1024	/* buffer of VL15, in blocks of 64 bytes */
#define OHCA_WIRE_NONCE		16	/* bytes of a challenge */
#define OHCA_WIRE_PROOF		32	/* of HMAC-SHA256 */

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
 * struct ohca_wire_greeting - first message of the listener, by TCP
 * @nonce: challenge by which the peer proves that it has the token
 */
struct ohca_wire_greeting {
	struct ohca_wire_hdr hdr;
	uint8_t nonce[OHCA_WIRE_NONCE];
};
static_assert(sizeof(struct ohca_wire_greeting) == 32, "greeting layout");

/**
 * struct ohca_wire_hello - identity and capabilities of a port
 * @node_guid: NodeGUID
 * @port_guid: PortGUID
 * @node_type .. @speed_ext_sup: as in struct ohca_link_cfg
 * @vls: data VLs agreed; only in the listener's HELLO, else 0
 * @shift: credit_shift agreed; only in the listener's HELLO, else 0
 * @desc: name, padded with zeros
 * @proof: HMAC-SHA256 of the listener's nonce, with the token as key; zeros if there is no nonce or
 *	no token, and in the listener's HELLO
 * @place: port that the connecting side wants, NODE:PORT, padded with zeros
 */
struct ohca_wire_hello {
	struct ohca_wire_hdr hdr;
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
	uint8_t desc[64];
	uint8_t proof[OHCA_WIRE_PROOF];
	uint8_t place[64];
};
static_assert(offsetof(struct ohca_wire_hello, desc) == 48, "hello layout");
static_assert(sizeof(struct ohca_wire_hello) == 208, "hello layout");

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
 *       down, also for a moment. Never 0. A new one is sent when the peer has acknowledged the one
 *       before, or to answer a training of the peer.
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
	uint16_t fctbs[OHCA_WIRE_LANES];
};
static_assert(sizeof(struct ohca_wire_state) == 64, "state layout");

/** Room for any message, also for longer ones of later versions. */
#define OHCA_WIRE_MSG_MAX	512

/* ---- records -------------------------------------------------------------------- */

/** Kinds of records, which follow each other behind the first messages. */
enum ohca_wire_kind {
	OHCA_WIRE_FRAME = 1,	/* a frame */
	OHCA_WIRE_MESSAGE = 2,	/* a message */
	OHCA_WIRE_CREDIT = 3,	/* struct ohca_wire_credit */
};

/**
 * struct ohca_wire_rec - header of each record
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
 * struct ohca_wire_credit - credits that a receiver grants
 * @fccl: per lane, modulo 4096; 0 for lanes that do not exist
 * @vl15_dropped: VL15 frames that the sender of this dropped, since the receiver's buffer was full
 * @rsvd: 0, ignored
 */
struct ohca_wire_credit {
	uint16_t fccl[OHCA_WIRE_LANES];
	uint32_t vl15_dropped;
	uint32_t rsvd;
};
static_assert(sizeof(struct ohca_wire_credit) == 40, "credit layout");

#endif /* OHCA_LINK_WIRE_H */
