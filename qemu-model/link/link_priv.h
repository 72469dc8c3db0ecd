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

/* Shared words are accessed through these only. */
#define shm_load(p)		__atomic_load_n((p), __ATOMIC_RELAXED)
#define shm_load_acquire(p)	__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define shm_store(p, v)		__atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define shm_store_release(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define shm_xchg(p, v)		__atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#define full_fence()		__atomic_thread_fence(__ATOMIC_SEQ_CST)

/* A counter with one writer and racy readers. */
#define stat_add(p, v) \
	__atomic_store_n((p), __atomic_load_n((p), __ATOMIC_RELAXED) + (v), __ATOMIC_RELAXED)

/**
 * struct shm_lane - the mapping of one lane of one direction
 * @desc: descriptor array
 * @data: mirror-mapped data area: [0, size) and [size, 2 * size) are the same
 * @blocks: power of two, 0 if the lane does not exist
 * @bshift: log2 of the block size
 */
struct shm_lane {
	struct ohca_shm_desc *desc;
	uint8_t *data;
	uint32_t blocks;
	uint32_t bshift;
};

/**
 * struct shm_map - all of the mapped shared memory
 * @ctl: first page and descriptors
 * @ctl_size: bytes of that mapping
 * @lane: per direction and VL
 */
struct shm_map {
	struct ohca_shm_ctl *ctl;
	size_t ctl_size;
	struct shm_lane lane[2][OHCA_SHM_LANES];
};

/**
 * struct tx_lane - the sender's end of a lane
 * @lane: copy of the mapping
 * @fctbs: blocks sent, modulo 4096
 * @fccl: last credit limit read
 * @want: blocks the last failed tx_begin needed, 0 if it did not fail
 * @training: when the last tx_begin was, see struct ohca_link
 */
struct tx_lane {
	struct shm_lane lane;
	uint32_t fctbs;
	uint32_t fccl;
	uint32_t want;
	uint32_t training;
};

/**
 * struct rx_lane - the receiver's end of a lane
 * @lane: copy of the mapping
 * @pos: blocks consumed, modulo 4096
 * @cur: blocks of the frame last peeked, 0 if none
 * @cur_len: its length
 * @unpub: blocks consumed and not yet published as credit
 */
struct rx_lane {
	struct shm_lane lane;
	uint32_t pos;
	uint32_t cur;
	uint32_t cur_len;
	uint32_t unpub;
};

struct link_stream;

/** struct ohca_link - one end of a link */
struct ohca_link {
	/* Constant after the handshake. */
	struct shm_map map;
	struct ohca_shm_dir *tx_dir, *rx_dir;
	struct ohca_shm_side *self, *other;
	unsigned int vls;
	unsigned int shift;
	int sock;			/* -1 after CLOSED or ERROR */
	int mem;			/* file of @map, for the closer; -1: there is none */
	int my_wake, peer_wake;		/* pipes, opened by us alone; stream: epoll set, -1 */
	struct link_stream *stream;	/* NULL: the rings are shared with the peer */
	uint32_t training;		/* times that the link went down */
	struct ohca_link_cfg cfg, peer;

	/* Of both directions. */
	_Alignas(64) atomic_int up;
	atomic_int asleep;
	atomic_uint tx_blocked;		/* lanes whose tx_lane.want is set */
	atomic_int tx_broken;		/* an impossible FCCL was seen */

	/* Transmitting. */
	_Alignas(64) bool tx_dirty;	/* commits since the last kick */
	uint64_t tx_frames, tx_bytes, tx_nocredit, tx_vl15_dropped, tx_wakeups;
	struct tx_lane tx[OHCA_SHM_LANES];

	/* Receiving. */
	_Alignas(64) bool rx_dirty;	/* credits published since the last kick */
	bool rx_broken;
	uint32_t rx_unpub;		/* lanes with unpublished credits */
	uint64_t rx_frames, rx_bytes, rx_wakeups, sleeps, retrains;
	struct rx_lane rx[OHCA_SHM_LANES];

	/* Training. */
	struct ohca_link_phy phy;
	uint32_t seq;			/* of our training, 0 before the first */
	uint32_t sent_seq;		/* last that was sent to the peer */
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

/** shm_size() - bytes of the shared memory for @vls data VLs and @shift. */
uint64_t shm_size(unsigned int vls, unsigned int shift);

/**
 * shm_create() - a sealed memfd of that size
 * Return: descriptor or -1 with errno.
 */
int shm_create(unsigned int vls, unsigned int shift);

/**
 * shm_attach() - map shared memory
 * @map: filled in
 * @fd: memfd, still the caller's; its seals and size are checked
 * @vls: data VLs
 * @shift: credit_shift
 * @tx_dir: direction this side sends in; data of the other is mapped read-only. SHM_BOTH: none is
 * @err: filled in on failure
 *
 * Return: 0 or -1.
 */
int shm_attach(struct shm_map *map, int fd, unsigned int vls, unsigned int shift,
	       unsigned int tx_dir, struct ohca_link_err *err);
#define SHM_BOTH	2u

/** shm_detach() - unmap; also after a failed shm_attach(). */
void shm_detach(struct shm_map *map);

/**
 * link_new() - a link over mapped memory, not trained
 * @map: copied
 * @listener: whether this is the listening side
 * @vls: data VLs
 * @shift: credit_shift
 *
 * Return: link or NULL (no memory); then @map is still the caller's.
 */
struct ohca_link *link_new(const struct shm_map *map, bool listener, unsigned int vls,
			   unsigned int shift);

/** link_rx_resync() - discard all before the peer's @fctbs; false if impossible. */
bool link_rx_resync(struct ohca_link *l, const uint16_t *fctbs);

/** link_hdr_init() - fill in a message header (little-endian). */
void link_hdr_init(struct ohca_wire_hdr *h, unsigned int type, size_t len);

/** link_blocks() - credits of a frame of @len bytes; the two bytes of the VCRC take room, too */
static inline uint32_t link_blocks(const struct shm_lane *lane, size_t len)
{
	return (uint32_t)((len + 2 + (1u << lane->bshift) - 1) >> lane->bshift);
}

/** link_rx_bad() - the peer has broken the rules; @v: the value that tells. Return: -1. */
int link_rx_bad(struct ohca_link *l, unsigned int vl, const char *what, uint32_t v);

/* ---- sock.c: descriptors, and messages with descriptors ---- */

/** link_close() - close @fd, or have it closed; NULL is no closer */
void link_close(const struct ohca_link_closer *closer, int fd);

/** link_close_all() - so many, without those that are -1 */
void link_close_all(const struct ohca_link_closer *closer, const int *fds, unsigned int n);

/** link_close_sock() - the same for a connection: its peer finds the end at once */
void link_close_sock(const struct ohca_link_closer *closer, int fd);

/**
 * link_recv() - the next message of a socket of records
 * @closer: closes the descriptors that nobody has asked for: the kernel would do it in this thread
 * @fds: [@nfds] the first that came with it, or -1
 *
 * Return: its length, which may be more than @size; -1 with errno.
 */
ssize_t link_recv(int sock, const struct ohca_link_closer *closer, void *buf, size_t size, int *fds,
		  unsigned int nfds);

/** link_send() - send one message by a socket of records. Return: 0 or -1 with errno. */
int link_send(int sock, const void *msg, size_t len);

/** link_hello_fill() - HELLO with configuration @c, of a socket of records */
void link_hello_fill(struct ohca_wire_hello *h, const struct ohca_link_cfg *c);

/**
 * link_hello_parse() - a received HELLO
 * @buf: the message
 * @len: bytes received
 * @feature: OHCA_WIRE_FEAT_* that it must have
 * @h: filled in, as it came
 * @c: filled in from it, and checked
 *
 * Return: 0 or -1.
 */
int link_hello_parse(const void *buf, size_t len, uint64_t feature, struct ohca_wire_hello *h,
		     struct ohca_link_cfg *c, struct ohca_link_err *err);

/** link_check_cfg() - whether a configuration is possible. Return: 0 or -1. */
int link_check_cfg(const struct ohca_link_cfg *c, const char *whose, struct ohca_link_err *err);

/** link_hello_agree() - VLs and credit_shift of a listener @c and its peer. Return: 0 or -1. */
int link_hello_agree(const struct ohca_link_cfg *c, const struct ohca_link_cfg *peer,
		     unsigned int *vls, unsigned int *shift, struct ohca_link_err *err);

/* ---- tcp.c: how a link over a stream begins ---- */

/** link_tcp_path() - whether @path is one of TCP */
bool link_tcp_path(const char *path);

/** link_tcp_is_stream() - whether @fd is a socket that is a stream */
bool link_tcp_is_stream(int fd);

/* As the functions of link.h that they are for. */
int link_tcp_listen(const char *path, struct ohca_link_err *err);
int link_tcp_connect_start(const char *path, struct ohca_link_err *err);
int link_tcp_hello_recv(int fd, struct ohca_link_cfg *peer, struct ohca_link_err *err);
struct ohca_link *link_tcp_hello_reply(int fd, const struct ohca_link_cfg *peer,
				  const struct ohca_link_cfg *cfg, struct ohca_link_err *err);
int link_tcp_connect_finish(int sock, const struct ohca_link_cfg *cfg, struct ohca_link **link,
		       struct ohca_link_err *err);

/** link_tcp_send_error() - the first message is the reason of the end; a failure is ignored */
void link_tcp_send_error(int fd, int code, const char *text);

/* ---- stream.c: a link over a stream that is established ---- */

/** link_stream_new() - @l has rings of its own and frames go by @l->sock. Return: 0 or -1 with errno. */
int link_stream_new(struct ohca_link *l);

/** link_stream_free() - of a link with or without one */
void link_stream_free(struct ohca_link *l);

/** link_stream_kick() - frames, and credits if there are enough, go into the socket */
void link_stream_kick(struct ohca_link *l);

/** link_stream_writable() - the socket takes more */
void link_stream_writable(struct ohca_link *l);

/** link_stream_idle() - whether all has gone into the socket, or it takes no more now */
bool link_stream_idle(const struct ohca_link *l);

/** link_stream_granted() - FCCL of lane @vl of what we receive has changed */
void link_stream_granted(struct ohca_link *l, unsigned int vl);

/** link_stream_post() - as link_send(), in order with the frames */
int link_stream_post(struct ohca_link *l, const void *msg, size_t len);

/** link_stream_forget() - a training begins: frames that have not gone into the socket will not */
void link_stream_forget(struct ohca_link *l);

/** link_stream_state() - the peer's STATE has come, with its FCTBS. Return: false: impossible. */
bool link_stream_state(struct ohca_link *l, const uint16_t *fctbs);

#define STREAM_BROKEN	(-2)
#define STREAM_READS	4u	/* calls of recv() in one ohca_link_ctrl() */

/**
 * link_stream_recv() - put what has come into the rings, up to the next message
 * @buf: [OHCA_WIRE_MSG_MAX] the message
 * @reads: calls of recv() that are left. Without any, what has been received is handled all the
 *	same, and what waits is in the socket, which stays readable
 *
 * Return: its length; -1: there is none (EAGAIN); 0: the connection has ended, @l->error may say
 * why; STREAM_BROKEN: the peer has broken the rules, as @l->error says.
 */
ssize_t link_stream_recv(struct ohca_link *l, uint8_t *buf, unsigned int *reads);

/** link_stream_bytes() - memory of it, without the rings */
size_t link_stream_bytes(const struct ohca_link *l);

/** link_error_msg() - an ERROR with @code and as much of @text as it holds */
void link_error_msg(struct ohca_wire_error *e, int code, const char *text);

/** link_send_error() - send the reason of the end to the peer; a failure is ignored. */
void link_send_error(int sock, int code, const char *text);

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
