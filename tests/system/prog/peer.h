/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ohca-peer: a test program whose two copies talk over one queue pair, and over a TCP
 * connection beside it. The client asks, the server answers; both check.
 */
#ifndef PEER_H
#define PEER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEER_PORT	18600
#define PEER_BUF	(1u << 21)	/* bytes registered on either side */
#define PEER_QKEY	0x1234567u
/* ACK timeout of who has all the time: with 7 retries a peer may stand still for 17 s */
#define PEER_TIMEOUT	17

/** struct peer_info - what one side tells the other, by tcp_swap() */
struct peer_info {
	uint64_t addr;
	uint64_t other_addr;
	uint64_t ro_addr;
	uint64_t rkey;
	uint64_t other_rkey;	/* of memory in another protection domain */
	uint64_t ro_rkey;	/* of memory for reading only */
	uint64_t qpn;
	uint64_t psn;
	uint64_t lid;
};

/**
 * struct peer - one side
 * @client: the asking side
 * @sock: TCP connection to the other; -1: none, the QP is connected to itself
 * @type: transport service of @qp
 * @srq: receive queue of @qp, if wanted
 * @pd2: another protection domain
 * @scq: send completions, @rcq: receive completions
 * @mr: @buf with all rights, @mr2: @buf2 with all rights in @pd2, @mr_ro: @buf_ro, remote
 *	read only. Three pieces of memory.
 * @sge: what one WQE may have
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

/** fail - say why and end with status 1 */
void fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/** must - end if @rc, an errno, is not 0 */
void must(int rc, const char *what);

/** must_have - @p; ends with errno's text if it is NULL */
void *must_have(void *p, const char *what);

/** zeroes - @len bytes of them, page-aligned; munmap() gives them back */
void *zeroes(size_t len);

/** ms_now - monotonic milliseconds */
int64_t ms_now(void);

/** rnd - next number of a fixed sequence that @state goes through */
uint64_t rnd(uint64_t *state);

/** least - the smaller one */
uint32_t least(uint32_t a, uint32_t b);

/** device_open - the first verbs device */
struct ibv_context *device_open(void);

/** hw_counter - a counter of the device, by its name in sysfs */
uint64_t hw_counter(const struct ibv_context *ctx, const char *name);

/** counter_wait - until a counter is not @before any more; what it went up by, 0 if it did not */
uint64_t counter_wait(const struct ibv_context *ctx, const char *name, uint64_t before);

/** peer_meet - TCP: the client connects to @host, the server (@host NULL) waits for it */
int peer_meet(const char *host);

/** peer_open - device, domains, memory, CQs, and a QP of @type in INIT */
void peer_open(struct peer *p, enum ibv_qp_type type);

/** peer_open_on - the same in a context and a protection domain that are there */
void peer_open_on(struct peer *p, enum ibv_qp_type type, struct ibv_context *ctx,
		  struct ibv_pd *pd);

/** peer_qp - another QP as peer_open() makes it, in INIT */
struct ibv_qp *peer_qp(struct peer *p, struct ibv_pd *pd);

/** peer_connect - exchange struct peer_info, bring the QP to RTS */
void peer_connect(struct peer *p);

/** peer_rts - bring a QP to RTS, connected to @to */
void peer_rts(struct peer *p, struct ibv_qp *qp, const struct peer_info *to, uint32_t sq_psn);

/** peer_rtr() - the first half of peer_rts() */
void peer_rtr(struct peer *p, struct ibv_qp *qp, const struct peer_info *to);

/** peer_qp_of() - as peer_qp(), of these attributes */
struct ibv_qp *peer_qp_of(struct peer *p, struct ibv_pd *pd, struct ibv_qp_init_attr *init);

/** peer_reconnect() - connect the QP that has taken the first one's place, both sides at once;
 * @off: added to the peer's LID */
void peer_reconnect(struct peer *p, uint16_t off);

/** struct scenario - one of errors.c, events.c and tags.c; @impatient: retries are few */
struct scenario {
	const char *name;
	void (*run)(struct peer *p);
	enum ibv_qp_type type;
	bool impatient;
};

/* Ends with one that has no name. */
extern const struct scenario more_scenarios[], tag_scenarios[];

/** seen_print() - the statuses and events that came so far */
void seen_print(void);

/** peer_close - all that peer_open() and peer_connect() made; the connection stays */
void peer_close(struct peer *p);

/** peer_close_on - what peer_open_on() and peer_connect() made */
void peer_close_on(struct peer *p);

/** sync - both sides wait until both are at step @step */
void sync_at(struct peer *p, uint32_t step);

/** tcp_send - tell the other side @size bytes, of uint64_t: they are big endian on the way */
void tcp_send(struct peer *p, const void *out, size_t size);

/** tcp_recv - what the other side's tcp_send() tells */
void tcp_recv(struct peer *p, void *in, size_t size);

/** tcp_swap - tcp_send() and tcp_recv() of as many bytes */
void tcp_swap(struct peer *p, const void *out, void *in, size_t size);

/** recv_post - one receive WQE for @len bytes at @buf + @off */
void recv_post(struct peer *p, uint64_t wr_id, uint32_t off, uint32_t len);

/** send_post - one signaled WQE of @len bytes at @buf + @off to @remote_off there */
void send_post(struct peer *p, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t off, uint32_t len,
	       uint32_t remote_off);

/** send_post_raw - as ibv_post_send(), ends on error */
void send_post_raw(struct peer *p, struct ibv_send_wr *wr);

/** wc_get - the next completion of @cq; false: none in @ms */
bool wc_get(struct ibv_cq *cq, struct ibv_wc *wc, int ms);

/** wc_expect - the next completion must be of @wr_id with @status */
struct ibv_wc wc_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
			const char *what);

/** wc_none - no completion must come for @ms */
void wc_none(struct ibv_cq *cq, int ms, const char *what);

/** event_expect - an asynchronous event of @type must come in a second */
void event_expect(struct ibv_context *ctx, enum ibv_event_type type);

/** qp_state - state of @qp as the device says */
enum ibv_qp_state qp_state(struct ibv_qp *qp);

/** qp_to_err - move @qp to the error state */
void qp_to_err(struct ibv_qp *qp);

/** fill - a pattern that depends on @seed */
void fill(uint8_t *buf, size_t len, uint32_t seed);

/** check - that fill() was here; ends if not */
void check(const uint8_t *buf, size_t len, uint32_t seed, const char *what);

/** verify_main - every operation, many sizes, data compared */
void verify_main(struct peer *p, const char *type);

/** errors_main - one scenario that ends in an error completion */
void errors_main(struct peer *p, const char *name);

/** hostile_main - one scenario of a process that scribbles over its own queues */
void hostile_main(const char *name);

/** attack_main - work for the device for @seconds, from a process without rights */
void attack_main(const char *how, double seconds);

/** limits_main - one limit that the device announces: reached, and one past it */
void limits_main(const char *what);

/** probe_main - one question that transports ask of a device, on one node; see probes.c */
void probe_main(struct peer *p, const char *what);

/** roce_main - a connection by GID with DLID 0 fails, one with the LID works */
void roce_main(struct peer *p);

/** queues_main - the builder interface and extended CQs, or a CQ resized under load */
void queues_main(const char *what);

/** srq_main - an SRQ that changes its size under load */
void srq_main(const char *what);

/** resize_main - QPs whose queues change their sizes under load */
void resize_main(const char *what);

/** scale_main - @nqp QPs and @nmr MRs at once */
void scale_main(uint32_t nqp, uint32_t nmr);

/** paged_main - memory that is not pinned ("odp"), and memory of others ("dmabuf") */
void paged_main(struct peer *p, const char *what);

/** movable_main - a dma-buf that moves under traffic and is revoked */
void movable_main(struct peer *p);

/** migrate_main - a path fails, or the driver wants another one: nothing is lost */
void migrate_main(struct peer *p, const char *how);

/** tenant_main - what arrives of what is sent with a P_Key: "P_KEY,MLID,0|1", 1: all is to */
void tenant_main(struct peer *p, const char *what);

/** endure_main - verified traffic for @seconds with who asks at @host, whatever is lost meanwhile */
void endure_main(double seconds, const char *host);

/** alltoall_main - the same with all other nodes at once, by all kinds of messages */
void alltoall_main(double seconds, int node, int nodes);

/** xrc_main - XRC between processes of one node */
void xrc_main(const char *name);

/** deceived_main - commands and messages for @seconds, whatever the device says */
void deceived_main(double seconds);

/** placed_main - code comes by RDMA and is run, again and again: told by "event" or "doorbell" */
void placed_main(struct peer *p, const char *how);

/** stream_main - verified traffic for @seconds, or until the other side is gone */
void stream_main(struct peer *p, double seconds, bool until_error);

#endif
