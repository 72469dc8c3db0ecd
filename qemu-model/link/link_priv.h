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
 * struct frame_desc - descriptor of a frame, at the index of its first block modulo the lane's
 *	blocks
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
 * @fctbs: blocks committed
 * @sent: blocks of the frames that are in the socket
 * @fccl: credit limit
 * @want: what the last failed tx_begin needed, of a lane in struct ohca_link's tx_blocked
 * @training: number of the training at the last tx_begin, see struct ohca_link
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
 * @fctbs: blocks received
 * @told: credit limit that was sent to the peer
 * @pos: blocks released
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
	int my_wake;			/* epoll set: the socket is writable */
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
	_Alignas(64) bool rx_broken;	/* the peer has violated the protocol, see @error */
	uint32_t rx_news;		/* lanes with credits not sent to the peer yet */
	uint32_t rx_vl15_dropped;
	uint64_t rx_frames, rx_bytes, sleeps, retrains;
	struct rx_lane rx[OHCA_WIRE_LANES];

	/* Training. */
	struct ohca_link_phy phy;
	uint32_t seq;			/* of our training, 0 before the first */
	uint32_t sent_seq;		/* last that was sent to the peer */
	uint32_t peer_trainings;	/* of the peer, in the data of the last recv() */
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
 * link_new() - create a link without a socket, not trained
 * @cfg: our end
 * @peer: the other one
 * @vls: data VLs
 * @shift: credit_shift
 *
 * Return: link or NULL with errno.
 */
struct ohca_link *link_new(const struct ohca_link_cfg *cfg, const struct ohca_link_cfg *peer,
			   unsigned int vls, unsigned int shift);

/** link_unmap() - unmap the memory of the lanes */
void link_unmap(struct ohca_link *l);

/** link_rx_resync() - discard all frames before the peer's @fctbs; false if impossible. */
bool link_rx_resync(struct ohca_link *l, const uint16_t *fctbs);

/** link_hdr_init() - fill in a message header (little-endian). */
void link_hdr_init(struct ohca_wire_hdr *h, unsigned int type, size_t len);

/** link_blocks() - credits of a frame of @len bytes; the two bytes of the VCRC need room, too */
static inline uint32_t link_blocks(const struct lane *lane, size_t len)
{
	return (uint32_t)((len + 2 + (1u << lane->bshift) - 1) >> lane->bshift);
}

/* ---- sock.c: descriptors, and those that peers pass ---- */

/** link_close() - close @fd by @closer, NULL: close(2); -1: does nothing */
void link_close(const struct ohca_link_closer *closer, int fd);

/** link_close_sock() - the same for a connection: its peer detects the end at once */
void link_close_sock(const struct ohca_link_closer *closer, int fd);

/**
 * link_recv() - as recv(), never blocks
 * @closer: closes descriptors that arrive with the data: the kernel would close them in this thread
 *
 * Return: bytes, of one packet if the socket has packets; -1 with errno, EMSGSIZE: it was longer.
 */
ssize_t link_recv(int sock, const struct ohca_link_closer *closer, void *buf, size_t size);

/** link_send() - send all of @msg, or nothing. Return: 0 or -1 with errno. */
int link_send(int sock, const void *msg, size_t len);

/* ---- hello.c ---- */

/** link_hello_fill() - fill in HELLO with configuration @c */
void link_hello_fill(struct ohca_wire_hello *h, const struct ohca_link_cfg *c);

/** link_check_cfg() - check a configuration. Return: 0 or -1. */
int link_check_cfg(const struct ohca_link_cfg *c, const char *whose, struct ohca_link_err *err);

/* ---- unix.c and tcp.c: kinds of sockets; as the functions of link.h with these names ---- */

int link_unix_listen(const char *path, struct ohca_link_err *err);
int link_unix_connect(const char *path, int timeout_ms, struct ohca_link_err *err);
int link_tcp_listen(const char *path, struct ohca_link_err *err);
int link_tcp_connect(const char *path, struct ohca_link_err *err);

/** link_path_is_tcp() - whether @path is one of a TCP socket */
bool link_path_is_tcp(const char *path);

/** link_is_tcp() - whether @fd is a stream; else it has packets */
bool link_is_tcp(int fd);

/** link_tcp_prepare() - set options of a socket before its first message */
void link_tcp_prepare(int fd);

/**
 * link_tcp_begun() - the first messages have been exchanged: from now on a byte makes it readable
 */
void link_tcp_begun(int fd);

/** link_now_ms() - time of a monotonic clock in ms */
int64_t link_now_ms(void);

/* ---- stream.c: rings and socket ---- */

/** link_stream_new() - create the stream of @l->sock. Return: 0 or -1 with errno. */
int link_stream_new(struct ohca_link *l);

/** link_stream_free() - free the stream, if there is one */
void link_stream_free(struct ohca_link *l);

/** link_stream_kick() - put frames, and credits if there are enough, into the socket */
void link_stream_kick(struct ohca_link *l);

/** link_stream_writable() - the socket is writable again: send what waits */
void link_stream_writable(struct ohca_link *l);

/** link_stream_idle() - whether all is in the socket, or the socket accepts no more now */
bool link_stream_idle(const struct ohca_link *l);

/** link_stream_is_due() - whether there are enough credits for a message */
bool link_stream_is_due(const struct ohca_link *l);

/** link_stream_post() - send message @msg, in order with the frames. Return: 0 or -1 with errno. */
int link_stream_post(struct ohca_link *l, const void *msg, size_t len);

/** link_stream_forget() - at the begin of a training: discard frames that are not in the socket */
void link_stream_forget(struct ohca_link *l);

/** link_stream_state() - process FCTBS of a received STATE. Return: false: impossible. */
bool link_stream_state(struct ohca_link *l, const uint16_t *fctbs);

#define STREAM_BROKEN	(-2)

/** link_stream_reads() - how much one ohca_link_ctrl() may receive, for link_stream_recv() */
unsigned int link_stream_reads(const struct ohca_link *l);

/**
 * link_stream_recv() - put received data into the rings, up to the next message
 * @buf: [OHCA_WIRE_MSG_MAX] the message
 * @reads: what is left of link_stream_reads(). At 0, received data is still processed, and other
 *	data waits in the socket, which stays readable
 *
 * Return: its length; -1: there is none (EAGAIN); 0: the connection has ended, @l->error may have
 * the reason; STREAM_BROKEN: the peer has violated the protocol, as @l->error describes.
 */
ssize_t link_stream_recv(struct ohca_link *l, uint8_t *buf, unsigned int *reads);

/** link_stream_bytes() - bytes of its memory, without the rings */
size_t link_stream_bytes(const struct ohca_link *l);

/** link_error_msg() - fill in an ERROR with @code and as much of @text as fits */
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
