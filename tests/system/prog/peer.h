/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ohca-peer: a test program. Two copies of it communicate over one queue pair, and over a TCP
 * connection. The client requests, the server responds; both check.
 */
#ifndef PEER_H
#define PEER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_PORT	18600
#define PEER_BUF	(1u << 21)	/* registered bytes on each side */
#define PEER_QKEY	0x1234567u
/* ACK timeout for tests without a time limit: with 7 retries a peer may pause for 17 s */
#define PEER_TIMEOUT	17

/** struct peer_info - values that both sides exchange by tcp_swap() */
struct peer_info {
	uint64_t addr;
	uint64_t other_addr;
	uint64_t ro_addr;
	uint64_t rkey;
	uint64_t other_rkey;	/* of memory in another protection domain */
	uint64_t ro_rkey;	/* of read-only memory */
	uint64_t qpn;
	uint64_t psn;
	uint64_t lid;
};

/**
 * struct peer - one side
 * @client: the requesting side
 * @sock: TCP connection to the other side; -1: none, the QP is connected to itself
 * @type: transport service of @qp
 * @srq: receive queue of @qp, or NULL
 * @pd2: another protection domain
 * @scq: send completions, @rcq: receive completions
 * @mr: @buf with all rights, @mr2: @buf2 with all rights in @pd2, @mr_ro: @buf_ro, remote read only
 * @sge: maximum of a WQE
 */
struct peer {
	bool client;
	int sock;
	enum ibv_qp_type type;
	struct ibv_context *ctx;
	struct ibv_pd *pd, *pd2;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mr *mr, *mr2, *mr_ro;
	uint8_t *buf, *buf2, *buf_ro;
	struct peer_info me, you;
	int timeout, retry_cnt, rnr_retry, min_rnr_timer;
	int mtu;	/* 0: 4096 bytes */
};

/** fail - prints the reason and ends with status 1 */
void fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/** must - ends the program if @rc, an errno, is not 0 */
void must(int rc, const char *what);

/** must_have - returns @p; ends with errno's text if it is NULL */
void *must_have(void *p, const char *what);

/** zeroes - @len zero bytes, page-aligned; munmap() frees them */
void *zeroes(size_t len);

/** ms_now - monotonic milliseconds */
int64_t ms_now(void);

/** rnd - next number of the pseudo-random sequence in @state */
uint64_t rnd(uint64_t *state);

/** least - the smaller of two numbers */
uint32_t least(uint32_t a, uint32_t b);

/** device_open - opens the first verbs device */
struct ibv_context *device_open(void);

/** hw_counter - a counter of the device, by its name in sysfs */
uint64_t hw_counter(const struct ibv_context *ctx, const char *name);

/**
 * counter_wait - waits until a counter is not @before any more; returns the increase, 0 on timeout
 */
uint64_t counter_wait(const struct ibv_context *ctx, const char *name, uint64_t before);

/** peer_meet - TCP: the client connects to @host, the server (@host NULL) waits for it */
int peer_meet(const char *host);

/** peer_open - creates device, domains, memory, CQs, and a QP of @type in INIT */
void peer_open(struct peer *p, enum ibv_qp_type type);

/** peer_open_on - the same in an existing context and protection domain */
void peer_open_on(struct peer *p, enum ibv_qp_type type, struct ibv_context *ctx,
		  struct ibv_pd *pd);

/** peer_qp - another QP as peer_open() makes it, in INIT */
struct ibv_qp *peer_qp(struct peer *p, struct ibv_pd *pd);

/** peer_connect - exchanges struct peer_info, and moves the QP to RTS */
void peer_connect(struct peer *p);

/** peer_rts - moves a QP to RTS, connected to @to */
void peer_rts(struct peer *p, struct ibv_qp *qp, const struct peer_info *to, uint32_t sq_psn);

/** peer_rtr() - the first half of peer_rts() */
void peer_rtr(struct peer *p, struct ibv_qp *qp, const struct peer_info *to);

/** peer_qp_of() - as peer_qp(), with these attributes */
struct ibv_qp *peer_qp_of(struct peer *p, struct ibv_pd *pd, struct ibv_qp_init_attr *init);

/**
 * peer_reconnect() - connects the QP that has replaced the first one, on both sides at once
 * @off: added to the peer's LID
 */
void peer_reconnect(struct peer *p, uint16_t off);

/** struct scenario - one of errors.c, events.c and tags.c; @impatient: with few retries */
struct scenario {
	const char *name;
	void (*run)(struct peer *p);
	enum ibv_qp_type type;
	bool impatient;
};

/* The last element has no name. */
extern const struct scenario more_scenarios[], tag_scenarios[];

/** seen_print() - prints the statuses and events that occurred so far */
void seen_print(void);

/** peer_close - frees everything of peer_open() and peer_connect(); the TCP connection stays */
void peer_close(struct peer *p);

/** peer_close_on - frees everything of peer_open_on() and peer_connect() */
void peer_close_on(struct peer *p);

/** sync - waits until both sides are at step @step */
void sync_at(struct peer *p, uint32_t step);

/** tcp_send - sends @size bytes of uint64_t to the other side, in big endian */
void tcp_send(struct peer *p, const void *out, size_t size);

/** tcp_recv - receives the other side's tcp_send() */
void tcp_recv(struct peer *p, void *in, size_t size);

/** tcp_swap - tcp_send() and tcp_recv() of the same size */
void tcp_swap(struct peer *p, const void *out, void *in, size_t size);

/** recv_post - posts one receive WQE for @len bytes at @buf + @off */
void recv_post(struct peer *p, uint64_t wr_id, uint32_t off, uint32_t len);

/** send_post - posts one signaled WQE of @len bytes at @buf + @off to the peer's @remote_off */
void send_post(struct peer *p, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t off, uint32_t len,
	       uint32_t remote_off);

/** send_post_raw - as ibv_post_send(); ends the program on error */
void send_post_raw(struct peer *p, struct ibv_send_wr *wr);

/** wc_get - the next completion of @cq; false: none in @ms */
bool wc_get(struct ibv_cq *cq, struct ibv_wc *wc, int ms);

/** wc_expect - the next completion must be of @wr_id with @status */
struct ibv_wc wc_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
			const char *what);

/** wc_none - no completion must come for @ms */
void wc_none(struct ibv_cq *cq, int ms, const char *what);

/** event_expect - an asynchronous event of @type must arrive within a second */
void event_expect(struct ibv_context *ctx, enum ibv_event_type type);

/** qp_state - state of @qp as the device reports it */
enum ibv_qp_state qp_state(struct ibv_qp *qp);

/** qp_to_err - moves @qp to the error state */
void qp_to_err(struct ibv_qp *qp);

/** fill - writes a pattern that depends on @seed */
void fill(uint8_t *buf, size_t len, uint32_t seed);

/** check - compares with the pattern of fill(); ends the program if it differs */
void check(const uint8_t *buf, size_t len, uint32_t seed, const char *what);

/** verify_main - every operation, many sizes, data compared */
void verify_main(struct peer *p, const char *type);

/** errors_main - one scenario with an error completion */
void errors_main(struct peer *p, const char *name);

/** hostile_main - one scenario of a process that corrupts its own queues */
void hostile_main(const char *name);

/** attack_main - requests without end for @seconds, from a process without privileges */
void attack_main(const char *how, double seconds);

/** limits_main - one limit that the device announces: reached, and exceeded by one */
void limits_main(const char *what);

/** probe_main - one query of transports to a device, on one node; see probes.c */
void probe_main(struct peer *p, const char *what);

/** roce_main - a connection by GID with DLID 0 fails, one with the LID works */
void roce_main(struct peer *p);

/** queues_main - the builder interface and extended CQs, or a CQ that is resized under load */
void queues_main(const char *what);

/** srq_main - an SRQ that is resized under load */
void srq_main(const char *what);

/** resize_main - QPs whose queues are resized under load */
void resize_main(const char *what);

/** scale_main - @nqp QPs and @nmr MRs at once */
void scale_main(uint32_t nqp, uint32_t nmr);

/** paged_main - memory that is not pinned ("odp"), and memory of others ("dmabuf") */
void paged_main(struct peer *p, const char *what);

/** movable_main - a dma-buf that moves under traffic and is revoked */
void movable_main(struct peer *p);

/** migrate_main - a path fails, or the driver requests another one: nothing is lost */
void migrate_main(struct peer *p, const char *how);

/** tenant_main - packets with a P_Key: "P_KEY,MLID,0|1", 1: all must arrive */
void tenant_main(struct peer *p, const char *what);

/** endure_main - verified traffic for @seconds with a peer at @host, with any losses */
void endure_main(double seconds, const char *host);

/** alltoall_main - the same with all other nodes at once, with messages of all kinds */
void alltoall_main(double seconds, int node, int nodes);

/** xrc_main - XRC between processes of one node */
void xrc_main(const char *name);

/** deceived_main - commands and messages for @seconds, whatever the device responds */
void deceived_main(double seconds);

/** placed_main - repeatedly receives and runs code; notified by "event" or "doorbell" */
void placed_main(struct peer *p, const char *how);

/** stream_main - verified traffic for @seconds, or until the other side has exited */
void stream_main(struct peer *p, double seconds, bool until_error);

#endif
