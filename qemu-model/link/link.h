/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The wire between two InfiniBand ports of two processes, on one host or on two.
 *
 * The processes connect by a UNIX or a TCP socket, exchange a versioned HELLO, and then packets.
 * Each end has, per direction and per virtual lane, a ring; the ring of received packets is the
 * receiver's buffer of that lane. Credits are the specification's own (IBTA vol. 1, 7.9): the
 * sender counts FCTBS, the receiver sends FCCL, both modulo 4096 and in blocks of 64 <<
 * credit_shift bytes, from end to end. So an end that does not read delays only the lanes that lead
 * to it, and needs no more memory. VL15 has no credits: a packet for which the peer has no room is
 * dropped and counted.
 *
 * A frame is a packet from the first byte of its LRH to the last byte of its ICRC field, so its
 * length is 4 * LRH.PktLen. The ICRC field is always present, but valid only with OHCA_FRAME_ICRC;
 * the VCRC is stored beside the frame. Both are computed only if a capture or a fault needs them.
 *
 * Frames and credits are received only in ohca_link_ctrl(). They are sent in ohca_link_kick() and
 * ohca_link_prepare_sleep(), with messages of ohca_link_ctrl() and ohca_link_train(), and when the
 * socket is writable again, in ohca_link_awake(). The path of a TCP socket is OHCA_LINK_TCP and a
 * numeric ADDRESS:PORT, see ohca_link_resolve().
 *
 * Threads: one at a time uses a link; several threads that use it serialize by a
 * lock. Only ohca_link_is_up() is for any thread at any time. Nothing on the data path logs
 * or allocates. A kick with something to send is a system call, as is each reception.
 *
 * The peer is not trusted: received data that is not valid ends the link (OHCA_LINK_EV_ERROR, the
 * reason in ohca_link_error()), and has no other effect. No action or omission of the peer makes a
 * call wait.
 */
#ifndef OHCA_LINK_H
#define OHCA_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the protocol of a link's socket; must be equal. */
#define OHCA_LINK_VERSION	3
/** The longest frame: MTU 4096 plus all headers and ICRC, rounded up. */
#define OHCA_LINK_MAX_FRAME	4224
/** The shortest frame: LRH, BTH, ICRC (or a raw packet's LRH and one word). */
#define OHCA_LINK_MIN_FRAME	12
/** Number of the management lane. */
#define OHCA_LINK_VL15		15
/** Credits a receiver can grant at most, in blocks; the size of a lane's buffer. */
#define OHCA_LINK_BLOCKS	2048
/** Largest exponent for the block size: 64 << 6 = 4096 bytes. */
#define OHCA_LINK_SHIFT_MAX	6
/**
 * Default exponent of the block size: a lane of 512 KiB. Larger ones need fewer wake-ups, but a
 * ring is written from end to end and then no longer fits the second-level caches.
 */
#define OHCA_LINK_SHIFT_DEFAULT	2

/** Frame flags (tx_commit, struct ohca_link_frame). */
#define OHCA_FRAME_ICRC		0x0001	/* the ICRC field holds the ICRC */
#define OHCA_FRAME_VCRC		0x0002	/* @vcrc holds the VCRC */
#define OHCA_FRAME_EBP		0x0004	/* ended with End of Bad Packet: discard */
#define OHCA_FRAME_FLAGS	0x0007	/* all that are defined */

/** Error codes, also sent to the peer in an ERROR message of the handshake. */
enum ohca_link_errcode {
	OHCA_LINK_OK = 0,
	OHCA_LINK_E_SYS = 1,		/* a system call failed, see text */
	OHCA_LINK_E_PROTO = 2,		/* not our protocol, or malformed */
	OHCA_LINK_E_VERSION = 3,	/* another version of the protocol */
	OHCA_LINK_E_CONFIG = 4,		/* no common capabilities */
	OHCA_LINK_E_NOPORT = 5,		/* no such port, or none free */
	OHCA_LINK_E_TIMEOUT = 6,	/* the peer did not answer, or accept, in time */
	OHCA_LINK_E_PATH = 7,		/* the socket's path is unusable */
	OHCA_LINK_E_PEER = 8,		/* the peer violated the protocol later */
};

/**
 * struct ohca_link_err - the reason of a failure
 * @code: one of enum ohca_link_errcode
 * @sys: errno of the system call that failed, or 0
 * @text: one line for the user, without newline, always terminated
 */
struct ohca_link_err {
	int code;
	int sys;
	char text[240];
};

/**
 * struct ohca_link_closer - closes the descriptors that links do not need any more
 * @close: closes @fd, which it owns from now on, and which may be in an epoll set. It must not wait
 * @arg: first argument of @close
 *
 * The last close of a file in memory frees its pages, and that of a UNIX socket closes the
 * descriptors in it that were not received: a peer decides how long that takes.
 */
struct ohca_link_closer {
	void (*close)(void *arg, int fd);
	void *arg;
};

/**
 * struct ohca_link_cfg - the configuration of one end of a link
 * @node_guid: NodeGUID, host byte order
 * @port_guid: PortGUID, host byte order
 * @node_type: 1 CA, 2 switch, 3 router (NodeInfo.NodeType)
 * @port_num: number of this port on its node
 * @want_port: port of the listener to be attached to, 0 for any; connecting side only
 * @vl_cap: data VLs this end has: 1, 2, 4, 8 or 15
 * @mtu_cap: largest MTU as coded in PortInfo: 1 (256) to 5 (4096)
 * @shift_min: smallest acceptable credit_shift
 * @shift_max: largest acceptable credit_shift
 * @shift_pref: preferred credit_shift; the listener's preference decides, within both ranges
 * @width_sup: LinkWidthSupported (1: 1x, 2: 4x, 4: 8x, 8: 12x)
 * @speed_sup: LinkSpeedSupported (1: 2.5, 2: 5, 4: 10 Gb/s)
 * @speed_ext_sup: LinkSpeedExtSupported (1: FDR, 2: EDR, 4: HDR, 8: NDR)
 * @desc: name for messages, e.g. the NodeDescription; need not be terminated
 *
 * @closer: closes the descriptors that the link does not need any more, also after a failure; NULL:
 *	close(2). The caller's, until the link is freed; not part of the peer's configuration
 * @token: by TCP, the secret that a listener requires proof of, or that the connecting side proves;
 *	NULL: none. The caller's, as long as the configuration is used; not part of the peer's
 *	configuration
 * @place: by TCP, the port that the connecting side wants, NODE:PORT, or ""
 * @proof: by TCP, the proof of the peer; for ohca_link_proven()
 *
 * ohca_link_cfg_init() fills in everything but the GUIDs and numbers.
 */
struct ohca_link_cfg {
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
	char desc[64];
	const struct ohca_link_closer *closer;
	const char *token;
	char place[64];
	uint8_t proof[32];
};

/**
 * struct ohca_link_phy - one end's settings of the physical link
 * @enabled: false: Disabled, the link is down; true: train
 * @width_en: LinkWidthEnabled
 * @speed_en: LinkSpeedEnabled
 * @speed_ext_en: LinkSpeedExtEnabled
 */
struct ohca_link_phy {
	bool enabled;
	uint8_t width_en;
	uint8_t speed_en;
	uint8_t speed_ext_en;
};

/**
 * struct ohca_link_state - the physical link as this end sees it
 * @up: trained; frames can be exchanged
 * @phys: PortPhysicalState: 2 Polling, 3 Disabled, 5 LinkUp
 * @width: LinkWidthActive, valid while @up
 * @speed: LinkSpeedActive, valid while @up
 * @speed_ext: LinkSpeedExtActive, 0 if no extended speed, valid while @up
 */
struct ohca_link_state {
	bool up;
	uint8_t phys;
	uint8_t width;
	uint8_t speed;
	uint8_t speed_ext;
};

/**
 * struct ohca_link_frame - a received frame, still in its ring
 * @data: first byte of the LRH
 * @len: bytes from LRH through ICRC field, OHCA_LINK_MIN_FRAME..OHCA_LINK_MAX_FRAME
 * @flags: OHCA_FRAME_*
 * @vcrc: the VCRC if OHCA_FRAME_VCRC, host byte order
 * @vl: its lane
 */
struct ohca_link_frame {
	const uint8_t *data;
	uint32_t len;
	uint16_t flags;
	uint16_t vcrc;
	uint8_t vl;
};

/**
 * struct ohca_link_stats - counters of one end; 64-bit, monotonic
 * @tx_frames: frames committed
 * @tx_bytes: their bytes
 * @rx_frames: frames released
 * @rx_bytes: their bytes
 * @tx_nocredit: times tx_begin failed on a data VL for lack of credit
 * @tx_vl15_dropped: own VL15 frames that found the peer's ring full
 * @rx_vl15_dropped: frames for us that the peer dropped since our VL15 ring was full
 *                   (PortCounters.VL15Dropped; as the peer reports it)
 * @sends: system calls that sent
 * @sleeps: times ohca_link_prepare_sleep() agreed
 * @retrains: times the link came up
 */
struct ohca_link_stats {
	uint64_t tx_frames;
	uint64_t tx_bytes;
	uint64_t rx_frames;
	uint64_t rx_bytes;
	uint64_t tx_nocredit;
	uint64_t tx_vl15_dropped;
	uint64_t rx_vl15_dropped;
	uint64_t sends;
	uint64_t sleeps;
	uint64_t retrains;
};

/** What ohca_link_ctrl() reports; one per call. */
enum ohca_link_event {
	OHCA_LINK_EV_NONE = 0,	/* nothing (more) to report */
	OHCA_LINK_EV_UP,	/* trained: LinkUp, both rings empty, credits full */
	OHCA_LINK_EV_DOWN,	/* was up and is down; the socket is still connected */
	OHCA_LINK_EV_CLOSED,	/* the peer has closed; only ohca_link_free() is left */
	OHCA_LINK_EV_ERROR,	/* the peer violated the protocol; as CLOSED */
};

struct ohca_link;

/* ---- establishing -------------------------------------------------------------- */

/** Begin of the path of a TCP socket. */
#define OHCA_LINK_TCP		"tcp:"
/** Room for such a path. */
#define OHCA_LINK_TCP_MAX	96
/** Bytes of a listener's challenge. */
#define OHCA_LINK_NONCE		16

/**
 * ohca_link_resolve() - path of a TCP socket
 * @name: HOST:PORT, [ADDRESS]:PORT or PORT, which is one of 127.0.0.1; may wait for a name server
 * @path: [OHCA_LINK_TCP_MAX] written: OHCA_LINK_TCP, the first numeric address, and the port
 * @err: filled in on failure
 *
 * Return: 0 or -1.
 */
int ohca_link_resolve(const char *name, char *path, struct ohca_link_err *err);

#define OHCA_LINK_TOKEN_MIN	16u	/* characters of a token */
#define OHCA_LINK_TOKEN_MAX	1024u

/**
 * ohca_link_read_token() - read the first line of a file
 * @name: of the file
 * @token: [OHCA_LINK_TOKEN_MAX + 1] written
 * @err: filled in on failure
 *
 * Return: 0 or -1.
 */
int ohca_link_read_token(const char *name, char *token, struct ohca_link_err *err);

/** ohca_link_is_loopback() - whether only this host can reach the TCP socket with @path */
bool ohca_link_is_loopback(const char *path);

/**
 * ohca_link_bound() - path of a TCP socket that listens
 * @fd: from ohca_link_listen()
 * @path: [OHCA_LINK_TCP_MAX] written; the port is the one that the kernel has chosen for port 0
 *
 * Return: 0 or -1.
 */
int ohca_link_bound(int fd, char *path);

/**
 * ohca_link_greet() - begin to accept; by TCP sends the listener's first message
 * @fd: connection from accept4(..., SOCK_NONBLOCK | SOCK_CLOEXEC)
 * @nonce: written: the challenge, for ohca_link_proven(); zeros if the socket is not TCP
 * @err: filled in on failure
 *
 * Return: 0 or -1 (close @fd).
 */
int ohca_link_greet(int fd, uint8_t nonce[OHCA_LINK_NONCE], struct ohca_link_err *err);

/**
 * ohca_link_proven() - whether a peer has proved that it has the token
 * @peer: its HELLO
 * @nonce: of ohca_link_greet() of this connection
 * @token: the secret, or NULL: none is required
 *
 * Its time does not depend on what is wrong.
 */
bool ohca_link_proven(const struct ohca_link_cfg *peer, const uint8_t nonce[OHCA_LINK_NONCE],
		      const char *token);

/**
 * ohca_link_cfg_init() - set defaults: CA, port 1, 8 data VLs, MTU 4096, 4x, SDR to EDR
 * @cfg: to be filled in, all of it
 */
void ohca_link_cfg_init(struct ohca_link_cfg *cfg);

/**
 * ohca_link_close() - end the connection @fd, which is not a link yet, or not any more
 * @closer: closes it, or NULL: close(2). Its peer detects the end at once
 */
void ohca_link_close(const struct ohca_link_closer *closer, int fd);

/**
 * ohca_link_lock_dir() - lock the directory of @path while a socket is made there
 * @path: file name of the socket
 * @err: filled in on failure
 *
 * Each of several processes that start at the same time checks for a listener, removes a stale
 * socket, binds and listens before the next one checks. Waits up to 2 s.
 *
 * Return: a descriptor, whose close unlocks, or -1.
 */
int ohca_link_lock_dir(const char *path, struct ohca_link_err *err);

/**
 * ohca_link_listen() - create the socket to which peers connect
 * @path: file name; a stale socket there (without a listener) is replaced
 * @err: filled in on failure
 *
 * Of several processes that start at the same time one gets the path. The directory is locked
 * for that, with a wait of up to 2 s.
 *
 * Return: a nonblocking listening descriptor to poll for POLLIN, or -1. Unlink @path
 * when closing it.
 */
int ohca_link_listen(const char *path, struct ohca_link_err *err);

/**
 * ohca_link_listen_stream() - the same for a stream socket of another protocol; @path is not TCP
 */
int ohca_link_listen_stream(const char *path, struct ohca_link_err *err);

/**
 * ohca_link_hello_recv() - first half of accepting, never blocks
 * @fd: connection from accept4(..., SOCK_NONBLOCK | SOCK_CLOEXEC), after ohca_link_greet()
 * @closer: closes descriptors that arrive with it, or NULL: close(2)
 * @peer: the peer's configuration
 * @err: filled in on failure; an ERROR is sent to the peer
 *
 * Return: 1 if @peer is filled in, 0 if the HELLO has not arrived yet (poll for POLLIN),
 * -1 on error (ohca_link_close() @fd).
 */
int ohca_link_hello_recv(int fd, const struct ohca_link_closer *closer, struct ohca_link_cfg *peer,
			 struct ohca_link_err *err);

/**
 * ohca_link_hello_reply() - second half of accepting, never blocks
 * @fd: the connection; owned by the link from here on, also on failure
 * @peer: from ohca_link_hello_recv()
 * @cfg: our end
 * @err: filled in on failure; an ERROR is sent to the peer
 *
 * The link is not up yet: call ohca_link_train(). The caller must check whether the peer has a
 * token (ohca_link_proven()).
 *
 * Return: the link, or NULL.
 */
struct ohca_link *ohca_link_hello_reply(int fd, const struct ohca_link_cfg *peer,
					const struct ohca_link_cfg *cfg,
					struct ohca_link_err *err);

/**
 * ohca_link_hello_reject() - refuse a peer with a reason
 * @fd: the connection; still to be closed by the caller
 * @code: enum ohca_link_errcode
 * @text: one line for the peer's user
 */
void ohca_link_hello_reject(int fd, int code, const char *text);

/**
 * ohca_link_connect() - connect to a listening port, blocking
 * @path: the listener's socket
 * @cfg: our end
 * @timeout_ms: bound for the whole
 * @err: filled in on failure, including the reason a listener refused us
 *
 * Return: the link, not trained yet (call ohca_link_train()), or NULL.
 */
struct ohca_link *ohca_link_connect(const char *path, const struct ohca_link_cfg *cfg,
				    int timeout_ms, struct ohca_link_err *err);

/**
 * ohca_link_connect_start() - first half of connecting: connect to the listener, send HELLO
 * @path: the listener's socket
 * @cfg: our end
 * @timeout_ms: how long to wait while the listener's backlog is full; 0: do not block. By TCP it
 *	does not block: ohca_link_connect_finish() sends HELLO, and reports it if no process listens
 * @err: filled in on failure; OHCA_LINK_E_TIMEOUT: the backlog was full all the time
 *
 * Return: a nonblocking descriptor to poll for POLLIN, or -1.
 */
int ohca_link_connect_start(const char *path, const struct ohca_link_cfg *cfg, int timeout_ms,
			    struct ohca_link_err *err);

/**
 * ohca_link_connect_finish() - second half of connecting, never blocks
 * @sock: from ohca_link_connect_start(); the link's on success, closed on failure
 * @cfg: as there
 * @link: set on success; not trained yet, call ohca_link_train()
 * @err: filled in on failure, including the reason a listener refused us
 *
 * Return: 1 if @link is set, 0 if the answer has not arrived yet (poll for POLLIN), -1 on
 * failure.
 */
int ohca_link_connect_finish(int sock, const struct ohca_link_cfg *cfg, struct ohca_link **link,
			     struct ohca_link_err *err);

/**
 * ohca_link_free() - close the socket (the peer gets CLOSED) and unmap everything. Data that is in
 *	the socket still arrives (ohca_link_is_sent()). With a closer the pages of the memory are
 *	freed when that closes its file, not here
 */
void ohca_link_free(struct ohca_link *l);

/** ohca_link_peer() - the other end's HELLO; constant while @l exists. */
const struct ohca_link_cfg *ohca_link_peer(const struct ohca_link *l);

/** ohca_link_vls() - number of data VLs both ends have: lanes 0..n-1 and VL15 exist. */
unsigned int ohca_link_vls(const struct ohca_link *l);

/* ---- physical state ------------------------------------------------------------ */

/**
 * ohca_link_train() - (re)train or disable the link
 * @l: the link
 * @phy: the new settings
 *
 * An up link goes down first at both ends, reported here by the next
 * ohca_link_ctrl(). Frames sent before are never received after. Width and speed
 * become the best that both ends have enabled and support; if there is none the link
 * stays in Polling.
 *
 * May be called any number of times while the peer does not respond: only the last training
 * follows the one that it has not acknowledged yet.
 *
 * Return: 0, or -1 if the link is closed.
 */
int ohca_link_train(struct ohca_link *l, const struct ohca_link_phy *phy);

/**
 * ohca_link_set_phy() - settings for the next training, whichever end begins it
 * @l: the link; an up link does not change
 * @phy: widths and speeds; @phy->enabled is ignored
 */
void ohca_link_set_phy(struct ohca_link *l, const struct ohca_link_phy *phy);

/**
 * ohca_link_ctrl() - handle messages of the socket, nonblocking
 * @l: the link
 *
 * Call when ohca_link_ctrl_fd() is readable and after ohca_link_train(); repeat until it returns
 * OHCA_LINK_EV_NONE. It processes a bounded number of messages of the peer; while there are more,
 * ohca_link_ctrl_fd() stays readable.
 *
 * Return: the next event.
 */
enum ohca_link_event ohca_link_ctrl(struct ohca_link *l);

/** ohca_link_is_up() - whether it is trained. One load; any thread. */
bool ohca_link_is_up(const struct ohca_link *l);

/** ohca_link_get_state() - physical state, width and speed. */
void ohca_link_get_state(const struct ohca_link *l, struct ohca_link_state *st);

/** ohca_link_error() - the reason of CLOSED or ERROR as one line, "" before. */
const char *ohca_link_error(const struct ohca_link *l);

/* ---- transmitting -------------------------------------------------------------- */

/**
 * ohca_link_tx_begin() - reserve room for a frame in the peer's buffer
 * @l: the link
 * @vl: a data VL below ohca_link_vls(), or 15
 * @len: bytes LRH through ICRC field, at most OHCA_LINK_MAX_FRAME
 *
 * Return: where to write the frame (64-byte aligned, contiguous), or NULL: link down, no such lane,
 * bad length, or no credit. After a NULL for lack of credit ohca_link_prepare_sleep() returns false
 * once the credits have arrived. On VL15 NULL means the frame is lost (counted).
 */
void *ohca_link_tx_begin(struct ohca_link *l, unsigned int vl, size_t len);

/**
 * ohca_link_tx_commit() - commit the frame
 * @l: the link
 * @vl: as in tx_begin
 * @len: its final length, not above that of tx_begin
 * @flags: OHCA_FRAME_*
 *
 * Call ohca_link_kick() after a batch. If the link went down since tx_begin, the frame is lost with
 * those of the previous training.
 */
void ohca_link_tx_commit(struct ohca_link *l, unsigned int vl, size_t len, uint16_t flags);

/** ohca_link_tx_commit_vcrc() - the same with a VCRC, if @flags has OHCA_FRAME_VCRC. */
void ohca_link_tx_commit_vcrc(struct ohca_link *l, unsigned int vl, size_t len,
			      uint16_t flags, uint16_t vcrc);

/**
 * ohca_link_tx_credits() - credits, in blocks, that the peer grants on @vl now; approximate
 * ohca_link_tx_credits() - credits, in blocks, that the peer grants on @vl now; a hint
 * @l: the link
 * @vl: lane
 *
 * Return: 0..2048.
 */
unsigned int ohca_link_tx_credits(const struct ohca_link *l, unsigned int vl);

/** ohca_link_is_sent() - whether all committed data is in the socket, or never can be */
bool ohca_link_is_sent(const struct ohca_link *l);

/**
 * struct ohca_link_flow - values in flow control packets of a lane (IBTA vol. 1, 7.9.4)
 * @sent_fctbs, @sent_fccl: ours: blocks that we have sent, and limit up to which the peer may send
 * @rcvd_fctbs, @rcvd_fccl: the peer's, as received
 *
 * All modulo 4096, in blocks of 64 << credit_shift bytes.
 */
struct ohca_link_flow {
	uint16_t sent_fctbs, sent_fccl;
	uint16_t rcvd_fctbs, rcvd_fccl;
};

/**
 * ohca_link_get_flow() - read the values of data lane @vl. Return: false: no such lane, or down.
 */
bool ohca_link_get_flow(const struct ohca_link *l, unsigned int vl, struct ohca_link_flow *f);

/* ---- receiving ----------------------------------------------------------------- */

/**
 * ohca_link_rx_pending() - lanes that hold frames
 * @l: the link
 *
 * Return: bit mask of VLs, 0 when idle or down.
 */
uint32_t ohca_link_rx_pending(const struct ohca_link *l);

/**
 * ohca_link_rx_peek() - the oldest frame of a lane
 * @l: the link
 * @vl: lane
 * @f: filled in if there is one; stays valid until ohca_link_rx_release()
 *
 * Return: false: there is none.
 */
bool ohca_link_rx_peek(struct ohca_link *l, unsigned int vl, struct ohca_link_frame *f);

/**
 * ohca_link_rx_mark() - mark the current end of a lane's ring
 * @l: the link
 * @vl: lane
 *
 * Return: the position behind its newest frame, for ohca_link_rx_before().
 */
uint32_t ohca_link_rx_mark(const struct ohca_link *l, unsigned int vl);

/**
 * ohca_link_rx_before() - whether the frame that is peeked next had arrived before a mark
 * @l: the link
 * @vl: lane
 * @mark: of this lane; valid until the first frame that had not arrived before it
 */
bool ohca_link_rx_before(const struct ohca_link *l, unsigned int vl, uint32_t mark);

/**
 * ohca_link_rx_release() - release the frame last peeked
 * @l: the link
 * @vl: lane
 *
 * Credits are sent with ohca_link_kick() when they are an eighth of the lane, or when the peer may
 * have less credits than a longest frame needs; otherwise together with other data.
 */
void ohca_link_rx_release(struct ohca_link *l, unsigned int vl);

/* ---- waking and sleeping ------------------------------------------------------- */

/**
 * ohca_link_kick() - end a batch: put frames and credits into the socket
 * @l: the link
 *
 * Call after commits and after releases, once per batch. Cheap without
 * work.
 */
void ohca_link_kick(struct ohca_link *l);

/** ohca_link_kick_tx() - the same, only if there were commits */
void ohca_link_kick_tx(struct ohca_link *l);

/**
 * ohca_link_prepare_sleep() - end the batch before a sleep
 * @l: the link
 *
 * Return: true if there is no work: poll ohca_link_event_fd() and ohca_link_ctrl_fd() for POLLIN.
 * False if frames or awaited credits have arrived, or the link broke: do not sleep.
 */
bool ohca_link_prepare_sleep(struct ohca_link *l);

/**
 * ohca_link_prepare_sleep_except() - the same for a reader that cannot empty its lanes
 * @l: the link
 * @lanes: bit mask of VLs whose frames do not count, since they wait for another
 *         port (a switch whose output has no credit)
 */
bool ohca_link_prepare_sleep_except(struct ohca_link *l, uint32_t lanes);

/**
 * ohca_link_awake() - ohca_link_event_fd() was readable: send what the socket did not accept before
 */
void ohca_link_awake(struct ohca_link *l);

/** ohca_link_event_fd() - readable when the socket accepts data that it did not accept before */
int ohca_link_event_fd(const struct ohca_link *l);

/** ohca_link_ctrl_fd() - the socket; readable when ohca_link_ctrl() has work. */
int ohca_link_ctrl_fd(const struct ohca_link *l);

/** ohca_link_get_stats() - counters; any thread, exact if none is active. */
void ohca_link_get_stats(const struct ohca_link *l, struct ohca_link_stats *st);

/** ohca_link_bytes() - bytes of memory of its rings and of @l */
size_t ohca_link_bytes(const struct ohca_link *l);

/**
 * ohca_link_vl15_dropped_by_peer() - see rx_vl15_dropped; one load
 * @l: the link
 */
uint32_t ohca_link_vl15_dropped_by_peer(const struct ohca_link *l);

#ifdef __cplusplus
}
#endif

#endif /* OHCA_LINK_H */
