/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Internals of a link, for the files of this directory only.
 */
#ifndef OHCA_LINK_PRIV_H
#define OHCA_LINK_PRIV_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "link.h"
#include "wire.h"

#define FC_MASK		0xfffu		/* FCTBS and FCCL have 12 bits */

/* A counter with one writer, and readers in other threads. */
#define stat_load(p)	__atomic_load_n((p), __ATOMIC_RELAXED)
#define stat_add(p, v)	__atomic_store_n((p), stat_load(p) + (v), __ATOMIC_RELAXED)

/**
 * struct frame_desc - one frame, indexed by its first block modulo the lane's blocks
 * @len: bytes, LRH through ICRC field
 * @flags: OHCA_FRAME_*
 * @vcrc: VCRC if OHCA_FRAME_VCRC
 */
struct frame_desc {
	uint16_t len;
	uint16_t flags;
	uint16_t vcrc;
};

/**
 * struct lane - the ring of one lane of one direction
 * @desc: [@blocks] descriptors
 * @data: @blocks blocks, and room behind them for a frame that begins in the last one
 * @blocks: power of two, 0 if the lane does not exist
 * @bshift: log2 of the block size
 */
struct lane {
	struct frame_desc *desc;
	uint8_t *data;
	uint32_t blocks;
	uint32_t bshift;
};

/**
 * struct tx_lane - the sender's end of a lane; counts are of blocks, modulo 4096
 * @fctbs: committed
 * @sent: those of the frames that have gone into the socket
 * @fccl: credit limit
 * @want: what the last failed tx_begin needed, of a lane in struct ohca_link's tx_blocked
 * @training: when the last tx_begin was, see struct ohca_link
 */
struct tx_lane {
	struct lane lane;
	uint32_t fctbs;
	uint32_t sent;
	uint32_t fccl;
	uint32_t want;
	uint32_t training;
};

/**
 * struct rx_lane - the receiver's end of a lane; counts are of blocks, modulo 4096
 * @fctbs: received
 * @told: credit limit as the peer knows it
 * @pos: taken
 * @cur: bytes of the frame last peeked, 0 if none
 */
struct rx_lane {
	struct lane lane;
	uint32_t fctbs;
	uint32_t told;
	uint32_t pos;
	uint32_t cur;
};

struct link_stream;

/** struct ohca_link - one end of a link */
struct ohca_link {
	/* Constant after the handshake. */
	unsigned int vls;
	unsigned int shift;
	int sock;			/* -1 after CLOSED or ERROR */
	int mem;			/* file of @map, for the closer; -1: there is none */
	int my_wake;			/* epoll set: the socket takes more */
	void *map;			/* memory of all lanes */
	size_t map_size;
	struct link_stream *stream;
	uint32_t training;		/* times that the link went down */
	struct ohca_link_cfg cfg, peer;

	/* Transmitting. */
	_Alignas(64) atomic_int up;
	bool tx_dirty;			/* commits since the last kick */
	uint32_t tx_blocked;		/* lanes whose last tx_begin had no credits */
	uint64_t tx_frames, tx_bytes, tx_nocredit, tx_vl15_dropped, sends;
	struct tx_lane tx[OHCA_WIRE_LANES];

	/* Receiving. */
	_Alignas(64) bool rx_broken;	/* the peer has broken the rules, as @error says */
	uint32_t rx_news;		/* lanes with credits of which the peer does not know */
	uint32_t rx_vl15_dropped;
	uint64_t rx_frames, rx_bytes, sleeps, retrains;
	struct rx_lane rx[OHCA_WIRE_LANES];

	/* Training. */
	struct ohca_link_phy phy;
	uint32_t seq;			/* of our training, 0 before the first */
	uint32_t sent_seq;		/* last that was sent to the peer */
	uint32_t peer_trainings;	/* of the peer, in what the last recv() has brought */
	bool peer_seen, ev_down;
	struct ohca_wire_state peer_state;	/* host byte order */
	struct ohca_link_state state;
	char error[240];
};

/**
 * link_err() - fill in an error
 * @err: or NULL
 * @code: enum ohca_link_errcode
 * @sys: errno, appended to the text if not 0
 * @fmt: text
 *
 * Return: -1, for the caller to return.
 */
__attribute__((format(printf, 4, 5)))
int link_err(struct ohca_link_err *err, int code, int sys, const char *fmt, ...);

/* ---- ring.c ---- */

/**
 * link_new() - a link without a socket, not trained
 * @cfg: our end
 * @peer: the other one
 * @vls: data VLs
 * @shift: credit_shift
 *
 * Return: link or NULL with errno.
 */
struct ohca_link *link_new(const struct ohca_link_cfg *cfg, const struct ohca_link_cfg *peer,
			   unsigned int vls, unsigned int shift);

/** link_unmap() - give the memory of the lanes back */
void link_unmap(struct ohca_link *l);

/** link_rx_resync() - discard all before the peer's @fctbs; false if impossible. */
bool link_rx_resync(struct ohca_link *l, const uint16_t *fctbs);

/** link_hdr_init() - fill in a message header (little-endian). */
void link_hdr_init(struct ohca_wire_hdr *h, unsigned int type, size_t len);

/** link_blocks() - credits of a frame of @len bytes; the two bytes of the VCRC take room, too */
static inline uint32_t link_blocks(const struct lane *lane, size_t len)
{
	return (uint32_t)((len + 2 + (1u << lane->bshift) - 1) >> lane->bshift);
}

/* ---- sock.c: descriptors, and what comes with them ---- */

/** link_close() - close @fd, or have it closed; NULL is no closer; -1: there is nothing to close */
void link_close(const struct ohca_link_closer *closer, int fd);

/** link_close_sock() - the same for a connection: its peer finds the end at once */
void link_close_sock(const struct ohca_link_closer *closer, int fd);

/**
 * link_recv() - as recv(), never blocks
 * @closer: closes the descriptors that come with it: the kernel would do it in this thread
 *
 * Return: bytes, of a socket of packets those of one; -1 with errno, EMSGSIZE: it was longer.
 */
ssize_t link_recv(int sock, const struct ohca_link_closer *closer, void *buf, size_t size);

/** link_send() - send all of @msg, or nothing. Return: 0 or -1 with errno. */
int link_send(int sock, const void *msg, size_t len);

/* ---- hello.c ---- */

/** link_hello_fill() - HELLO with configuration @c */
void link_hello_fill(struct ohca_wire_hello *h, const struct ohca_link_cfg *c);

/** link_check_cfg() - whether a configuration is possible. Return: 0 or -1. */
int link_check_cfg(const struct ohca_link_cfg *c, const char *whose, struct ohca_link_err *err);

/* ---- unix.c and tcp.c: where the socket is; as the functions of link.h that they are for ---- */

int link_unix_listen(const char *path, struct ohca_link_err *err);
int link_unix_connect(const char *path, int timeout_ms, struct ohca_link_err *err);
int link_tcp_listen(const char *path, struct ohca_link_err *err);
int link_tcp_connect(const char *path, struct ohca_link_err *err);

/** link_path_is_tcp() - whether @path is one of TCP */
bool link_path_is_tcp(const char *path);

/** link_is_tcp() - whether @fd is a stream; else it has packets */
bool link_is_tcp(int fd);

/** link_tcp_prepare() - options of a socket before its first message */
void link_tcp_prepare(int fd);

/** link_tcp_begun() - the first messages have been exchanged: each byte counts */
void link_tcp_begun(int fd);

/** link_now_ms() - a monotonic clock */
int64_t link_now_ms(void);

/* ---- stream.c: rings and socket ---- */

/** link_stream_new() - frames go by @l->sock. Return: 0 or -1 with errno. */
int link_stream_new(struct ohca_link *l);

/** link_stream_free() - of a link with or without one */
void link_stream_free(struct ohca_link *l);

/** link_stream_kick() - frames, and credits if there are enough, go into the socket */
void link_stream_kick(struct ohca_link *l);

/** link_stream_writable() - the socket takes more */
void link_stream_writable(struct ohca_link *l);

/** link_stream_idle() - whether all has gone into the socket, or it takes no more now */
bool link_stream_idle(const struct ohca_link *l);

/** link_stream_is_due() - whether there are credits that are worth a message */
bool link_stream_is_due(const struct ohca_link *l);

/** link_stream_post() - send message @msg, in order with the frames. Return: 0 or -1 with errno. */
int link_stream_post(struct ohca_link *l, const void *msg, size_t len);

/** link_stream_forget() - a training begins: frames that have not gone into the socket will not */
void link_stream_forget(struct ohca_link *l);

/** link_stream_state() - the peer's STATE has come, with its FCTBS. Return: false: impossible. */
bool link_stream_state(struct ohca_link *l, const uint16_t *fctbs);

#define STREAM_BROKEN	(-2)

/** link_stream_reads() - what one ohca_link_ctrl() may receive, for link_stream_recv() */
unsigned int link_stream_reads(const struct ohca_link *l);

/**
 * link_stream_recv() - put what has come into the rings, up to the next message
 * @buf: [OHCA_WIRE_MSG_MAX] the message
 * @reads: what is left of link_stream_reads(). Without any, what has been received is handled all
 *	the same, and what waits is in the socket, which stays readable
 *
 * Return: its length; -1: there is none (EAGAIN); 0: the connection has ended, @l->error may say
 * why; STREAM_BROKEN: the peer has broken the rules, as @l->error says.
 */
ssize_t link_stream_recv(struct ohca_link *l, uint8_t *buf, unsigned int *reads);

/** link_stream_bytes() - memory of it, without the rings */
size_t link_stream_bytes(const struct ohca_link *l);

/** link_error_msg() - an ERROR with @code and as much of @text as it holds */
void link_error_msg(struct ohca_wire_error *e, int code, const char *text);

/**
 * link_check_hdr() - check a received message's header
 * @buf: the message
 * @len: bytes received
 * @err: filled in on failure; for an ERROR message with its code and text
 *
 * Return: type of the message, or -1 (also for ERROR messages).
 */
int link_check_hdr(const void *buf, size_t len, struct ohca_link_err *err);

#endif /* OHCA_LINK_PRIV_H */
