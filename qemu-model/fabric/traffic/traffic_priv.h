/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of traffic/. */
#ifndef OHCA_FABRIC_TRAFFIC_PRIV_H
#define OHCA_FABRIC_TRAFFIC_PRIV_H

#include "fabric/base/timers.h"
#include "fabric/data/hport.h"
#include "fabric/fault/script.h"
#include "ib/packet.h"
#include "traffic.h"

struct fab_traffic;
struct traffic_net;

#define TRAFFIC_CNPS	16u	/* that can wait at a host, and that it sends one after another */

/**
 * struct traffic_host - a channel adapter that sends and receives
 * @timer: of fab_traffic.due, when it has to send next
 * @t: the traffic
 * @rng: generator of its random choices: results do not depend on the order of hosts with a turn at
 *	the same time
 * @h: its port; @leaf: the switch's port at the other end, and @port its own
 * @lid: of that; @node: its node
 * @sl, @vl: service level and lane of its messages
 * @fixed: destination of all its messages, in a permutation
 * @to: destination of the current message, which begins at @begin_ns; UINT64_MAX: when another one
 *	has arrived
 * @next: number of that message, and @left bytes of it, from PSN @psn on
 * @gap_ns: mean time between two messages
 * @refused: the next one of fab_traffic.refused, if @is_refused
 * @cc: its CCTI; @may_ns: when the next packet of a message may begin
 * @cnp: [@cnps] messages whose senders must be notified
 * @acks: messages whose senders must get an ACK, from @ack_first to @ack_last; the next one leaves
 *	by @ack_sl and @ack_vl, and could since @ack_ns
 */
struct traffic_host {
	struct fab_timer timer;
	struct fab_traffic *t;
	uint64_t rng;
	struct fab_hport *h;
	uint32_t leaf, port;
	uint16_t lid;
	uint8_t sl, vl;
	uint32_t node;
	uint32_t fixed;
	uint32_t to;
	uint64_t begin_ns;
	uint32_t next;
	uint32_t left;
	uint32_t psn;
	uint64_t gap_ns;
	struct traffic_host *refused;
	bool is_refused;
	struct ib_cc_flow cc;
	uint64_t may_ns;
	uint32_t cnp[TRAFFIC_CNPS];
	unsigned int cnps;
	uint32_t acks, ack_first, ack_last;
	uint8_t ack_sl, ack_vl;
	uint64_t ack_ns;
};

/**
 * struct traffic_flow - bytes that a host receives from one, or from all
 * @bytes: received; @half: number of them when half of all had arrived, at @half_ns; the last at
 *	@last_ns
 */
struct traffic_flow {
	uint64_t bytes, half;
	uint64_t half_ns, last_ns;
};

/**
 * struct traffic_flows - received bytes of each host's messages, for cfg.watcher
 * @slot: [hosts] in the interval that began at @slot_ns, after @rows of them; NULL: there is no
 *	watcher
 * @steady: [hosts] from @begin_ns, when the first host had sent half, to @end_ns, when one had sent
 *	all; 0: not yet
 */
struct traffic_flows {
	struct fab_traffic_sender *slot, *steady;
	uint64_t slot_ns;
	uint32_t rows;
	uint64_t begin_ns, end_ns;
};

/**
 * struct traffic_message - bytes that have not arrived, and the planned begin
 * @top: the next PSN after the highest that has arrived; a message begins with 0. When all has
 *	arrived, and an ACK waits: the next message in the list of ACKs of its host
 */
struct traffic_message {
	uint32_t left;
	uint32_t top;
	uint64_t begin_ns;
};

/**
 * struct fab_traffic - state of the simulation
 * @f, @m, @d: the fabric, its management, which does nothing, and its data path
 * @cfg: as of fab_traffic_run(), with defaults replaced by numbers
 * @reduces: all-reduces, whose steps are @cfg.messages
 * @now_ns: virtual time
 * @rng: generator of random choices before the begin
 * @mtu: payload of a packet
 * @host: [@hosts]
 * @net: the fast model, or NULL: the data path is used
 * @due: timers of hosts
 * @refused: hosts that wait for credits
 * @msg: [@hosts * @cfg.messages]
 * @took: [@done] times in ns of complete messages
 * @sent: packets that were sent; @came: packets that have arrived, with @bytes, the last at
 *	@last_ns. Both include @becns notifications, and @acks ACKs
 * @reordered, @hops: as of struct fab_traffic_result
 * @victim_to: destination of the last host beside an incast
 * @share, @share_ns: as of struct fab_traffic_result, in virtual time; 0: no host has sent all
 * @hot, @victim: of an incast; @ccti_max: as of struct fab_traffic_result
 * @flows: of all hosts
 * @fault_ns: next time at which cfg.script, or a fault of it, acts; @has_faults: there are more
 *	lines
 */
struct fab_traffic {
	struct fab *f;
	struct fab_mgmt *m;
	struct fab_data *d;
	struct fab_traffic_cfg cfg;
	uint32_t reduces;
	uint64_t now_ns;
	uint64_t rng;
	uint32_t mtu;
	struct traffic_host *host;
	uint32_t hosts;
	struct traffic_net *net;
	struct fab_timers due;
	struct traffic_host *refused;
	struct traffic_message *msg;
	uint64_t *took;
	uint32_t done;
	uint64_t sent, came, becns, acks, bytes, last_ns;
	uint64_t reordered, hops;
	uint32_t victim_to;
	uint64_t share[IB_NUM_SLS], share_ns;
	struct traffic_flow hot, victim;
	uint16_t ccti_max;
	struct traffic_flows flows;
	uint64_t fault_ns;
	bool has_faults;
};

#define TRAFFIC_ACK_LEN	(IB_LRH_LEN + IB_BTH_LEN + IB_AETH_LEN + IB_ICRC_LEN)

/** traffic_deth_len() - bytes between BTH and payload: a datagram's DETH, or none */
static inline uint32_t traffic_deth_len(const struct fab_traffic *t)
{
	return t->cfg.transport == FAB_TRANSPORT_UD ? IB_DETH_LEN : 0;
}

/** traffic_len() - length of a packet with @bytes of a message, LRH to ICRC */
static inline uint32_t traffic_len(const struct fab_traffic *t, uint32_t bytes)
{
	return IB_LRH_LEN + IB_BTH_LEN + traffic_deth_len(t) + bytes + (-bytes & 3) + IB_ICRC_LEN;
}

/** traffic_sender() - the host that sends message @number */
static inline const struct traffic_host *traffic_sender(const struct fab_traffic *t, uint32_t number)
{
	return &t->host[number / t->cfg.messages];
}

/** traffic_message_of() - number of the current message of @h, as in its packets */
static inline uint32_t traffic_message_of(const struct traffic_host *h)
{
	return (uint32_t)(h - h->t->host) * h->t->cfg.messages + h->next;
}

/** traffic_packet_bytes() - bytes of that message in the next packet */
static inline uint32_t traffic_packet_bytes(const struct traffic_host *h)
{
	return h->left < h->t->mtu ? h->left : h->t->mtu;
}

/** traffic_host_sent() - that packet has begun to leave */
void traffic_host_sent(struct traffic_host *h, uint32_t bytes);

/**
 * traffic_host_got() - packet @psn of message @number has arrived at @h by service level @sl, with
 *	@bytes
 */
void traffic_host_got(struct traffic_host *h, uint32_t number, uint32_t psn, uint32_t bytes, uint8_t sl);

/** traffic_sl() - service level of packets from @from to @to, and of ACKs in return */
uint8_t traffic_sl(const struct traffic_host *from, const struct traffic_host *to);

/** traffic_lane() - get the lane of @h for @sl, in *@vl. Return: false: there is none. */
bool traffic_lane(const struct traffic_host *h, uint8_t sl, uint8_t *vl);

/** traffic_wake() - @h has something to send now */
void traffic_wake(struct traffic_host *h);

/** traffic_ack_add() - queue an ACK of @h for message @number, which has arrived */
void traffic_ack_add(struct traffic_host *h, uint32_t number);

/** traffic_ack_sent() - the first queued ACK of @h has begun to leave */
void traffic_ack_sent(struct traffic_host *h);

/** traffic_ack_got() - the ACK of message @number has arrived at its sender */
void traffic_ack_got(struct fab_traffic *t, uint32_t number);

/** traffic_service_levels() - service levels of @cfg without paths, a bit for each */
uint16_t traffic_service_levels(const struct fab_traffic_cfg *cfg);

/**
 * traffic_net_due() - set the begin of the current message of @h to @ns; UINT64_MAX: there is none
 */
void traffic_net_due(struct traffic_host *h, uint64_t ns);

/**
 * traffic_net_run() - run until all packets have arrived, or the rest waits for ever
 * Return: false: the data path must do it, from the begin.
 */
bool traffic_net_run(struct traffic_net *n);

/** traffic_below() - a random number below @n, from the generator @rng */
uint32_t traffic_below(uint64_t *rng, uint32_t n);

/**
 * traffic_choose_fixed() - permutation: choose the destination of each host. Return: false: out of
 *	memory.
 */
bool traffic_choose_fixed(struct fab_traffic *t);

/** traffic_target() - destination of message @i of host @from; never @from itself */
uint32_t traffic_target(struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_is_incast() - whether the pattern has a first host that sends nothing */
static inline bool traffic_is_incast(const struct fab_traffic *t)
{
	return t->cfg.pattern == FAB_PATTERN_INCAST || t->cfg.pattern == FAB_PATTERN_INCAST_VICTIM;
}

/** traffic_is_reduce() - whether the pattern is an all-reduce, whose messages are steps */
bool traffic_is_reduce(const struct fab_traffic *t);

/** traffic_reduce_plan() - make the steps messages. Return: NULL, or the error. */
const char *traffic_reduce_plan(struct fab_traffic *t);

/** traffic_reduce_target() - the host to which step @i of host @from sends */
uint32_t traffic_reduce_target(const struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_reduce_bytes() - bytes of that step */
uint32_t traffic_reduce_bytes(const struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_reduce_waits() - whether data for that step has not arrived yet */
bool traffic_reduce_waits(const struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_choose_victim() - choose the destination of the last host beside an incast */
void traffic_choose_victim(struct fab_traffic *t);

/** traffic_flows_make() - allocate for cfg.watcher. Return: NULL, or the error. */
const char *traffic_flows_make(struct fab_traffic *t);

/** traffic_flows_free() - free it, if there is any */
void traffic_flows_free(struct fab_traffic *t);

/** traffic_flows_came() - count @bytes of message @number as received; only with cfg.watcher */
void traffic_flows_came(struct fab_traffic *t, uint32_t number, uint32_t bytes);

/** traffic_flows_sent() - @h has sent a message */
void traffic_flows_sent(const struct traffic_host *h);

/** traffic_flows_end() - report the rest at the end */
void traffic_flows_end(struct fab_traffic *t);

/**
 * traffic_faults_begin() - start cfg.script, if there is one. Return: false: @why, [@len], has the
 *	error.
 */
bool traffic_faults_begin(struct fab_traffic *t, char *why, size_t len);

/** traffic_faults_turn() - make the faults that are due */
void traffic_faults_turn(struct fab_traffic *t);

/**
 * traffic_faults_end() - report the results of the lines of cfg.script. Return: how many have
 *	failed.
 */
uint64_t traffic_faults_end(struct fab_traffic *t);

/** traffic_congestion_set() - let switches mark packets. Return: false: out of memory. */
bool traffic_congestion_set(struct fab_traffic *t);

/** traffic_fecn() - a packet of message @msg has arrived at @h with FECN */
void traffic_fecn(struct traffic_host *h, uint32_t msg);

/** traffic_becn() - @h was notified */
void traffic_becn(struct traffic_host *h);

/** traffic_send_cnp() - send a queued notification of @h. Return: false: it cannot leave yet. */
bool traffic_send_cnp(struct traffic_host *h);

/** traffic_sent() - @h has sent a packet of a message: set the delay before the next one */
void traffic_sent(struct traffic_host *h);

/**
 * traffic_hosts_make() - make hosts of all channel adapters at a switch, and link them. Return:
 *	false: no memory.
 */
bool traffic_hosts_make(struct fab_traffic *t);

/** traffic_hosts_begin() - begin their first messages; links are Active */
void traffic_hosts_begin(struct fab_traffic *t);

/** traffic_hosts_turn() - let hosts send that can. Return: whether any did. */
bool traffic_hosts_turn(struct fab_traffic *t);

#endif
