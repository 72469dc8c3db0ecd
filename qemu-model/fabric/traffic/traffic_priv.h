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

#define TRAFFIC_CNPS	16u	/* that wait at a host; it sends no more than that behind each other */

/**
 * struct traffic_host - a channel adapter that sends and receives
 * @timer: of fab_traffic.due, when it has something to do next
 * @t: whose it is
 * @rng: of what it does by chance, so that nothing depends on the order of those that have their turn at the
 *	same time
 * @h: its port; @leaf: the switch's port that it is at, and @port its own
 * @lid: of that; @node: whose that is
 * @sl, @vl: service level and lane of what it sends
 * @fixed: host to which it sends, of a permutation
 * @to: of the message at hand, which is to begin at @begin_ns; UINT64_MAX: when another one has come
 * @next: number of that message, and @left bytes of it, from PSN @psn on
 * @gap_ns: mean time between two messages
 * @refused: the next one of fab_traffic.refused, if @is_refused
 * @cc: its CCTI; @may_ns: when the next packet of a message may begin
 * @cnp: [@cnps] messages whose senders are to be notified
 * @acks: messages whose senders are to have an ACK, from @ack_first to @ack_last; the next one leaves by @ack_sl
 *	and @ack_vl, and could since @ack_ns
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
 * struct traffic_flow - what a host gets from one, or from all
 * @bytes: have come; @half: of them when half of all had, at @half_ns; the last at @last_ns
 */
struct traffic_flow {
	uint64_t bytes, half;
	uint64_t half_ns, last_ns;
};

/**
 * struct traffic_flows - what comes of each host's messages, for cfg.watcher
 * @slot: [hosts] in the interval that began at @slot_ns, after @rows of them; NULL: nobody watches
 * @steady: [hosts] from @begin_ns, when the first host had sent half, to @end_ns, when one had sent all; 0:
 *	not yet
 */
struct traffic_flows {
	struct fab_traffic_sender *slot, *steady;
	uint64_t slot_ns;
	uint32_t rows;
	uint64_t begin_ns, end_ns;
};

/**
 * struct traffic_message - bytes that have not come, and when it was to begin
 * @top: the next PSN after the highest that has come; a message begins with 0. When all has come, and an ACK
 *	is to leave: the message behind it in its host's
 */
struct traffic_message {
	uint32_t left;
	uint32_t top;
	uint64_t begin_ns;
};

/**
 * struct fab_traffic - all of it
 * @f, @m, @d: the fabric, its management, which does nothing, and its data path
 * @cfg: as of fab_traffic_run(), with all numbers
 * @reduces: all-reduces, whose steps are @cfg.messages
 * @now_ns: the time
 * @rng: of what happens by chance, before the begin
 * @mtu: payload of a packet
 * @host: [@hosts]
 * @net: where all of it happens, or NULL: in the data path
 * @due: timers of those that have something to do at a time
 * @refused: those that wait for credits
 * @msg: [@hosts * @cfg.messages]
 * @took: [@done] ns of those that have come, and whose ACKs have if there are any
 * @sent: packets; @came: so many of them, with @bytes, the last at @last_ns. @becns of both are
 *	notifications, @acks ACKs
 * @reordered, @hops: as of struct fab_traffic_result
 * @victim_to: target of the last host beside an incast
 * @share, @share_ns: as of struct fab_traffic_result, at the clock's time; 0: no host has sent all
 * @hot, @victim: of an incast; @ccti_max: as of struct fab_traffic_result
 * @flows: of all hosts
 * @fault_ns: when cfg.script, or what it has begun, does something next; @has_faults: there are more lines
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

/** traffic_deth_len() - of what is between BTH and payload: a datagram's DETH, or nothing */
static inline uint32_t traffic_deth_len(const struct fab_traffic *t)
{
	return t->cfg.transport == FAB_TRANSPORT_UD ? IB_DETH_LEN : 0;
}

/** traffic_len() - of a packet with @bytes of a message, LRH to ICRC */
static inline uint32_t traffic_len(const struct fab_traffic *t, uint32_t bytes)
{
	return IB_LRH_LEN + IB_BTH_LEN + traffic_deth_len(t) + bytes + (-bytes & 3) + IB_ICRC_LEN;
}

/** traffic_sender() - the host that sends message @number */
static inline const struct traffic_host *traffic_sender(const struct fab_traffic *t, uint32_t number)
{
	return &t->host[number / t->cfg.messages];
}

/** traffic_message_of() - the number of the message at hand of @h, in which packets have it */
static inline uint32_t traffic_message_of(const struct traffic_host *h)
{
	return (uint32_t)(h - h->t->host) * h->t->cfg.messages + h->next;
}

/** traffic_packet_bytes() - of that message which the next packet has */
static inline uint32_t traffic_packet_bytes(const struct traffic_host *h)
{
	return h->left < h->t->mtu ? h->left : h->t->mtu;
}

/** traffic_host_sent() - that packet has begun to leave */
void traffic_host_sent(struct traffic_host *h, uint32_t bytes);

/** traffic_host_got() - packet @psn of message @number has come to @h by service level @sl, with @bytes */
void traffic_host_got(struct traffic_host *h, uint32_t number, uint32_t psn, uint32_t bytes, uint8_t sl);

/** traffic_sl() - by which service level @from sends to @to, and has ACKs from there */
uint8_t traffic_sl(const struct traffic_host *from, const struct traffic_host *to);

/** traffic_lane() - the lane that @h has for @sl, in *@vl. Return: false: it has none. */
bool traffic_lane(const struct traffic_host *h, uint8_t sl, uint8_t *vl);

/** traffic_wake() - @h has something to send now */
void traffic_wake(struct traffic_host *h);

/** traffic_ack_add() - message @number has come to @h, which sends an ACK */
void traffic_ack_add(struct traffic_host *h, uint32_t number);

/** traffic_ack_sent() - the ACK that was the next one of @h has begun to leave */
void traffic_ack_sent(struct traffic_host *h);

/** traffic_ack_got() - that of message @number has come to its sender */
void traffic_ack_got(struct fab_traffic *t, uint32_t number);

/** traffic_service_levels() - those of @cfg without paths, a bit for each */
uint16_t traffic_service_levels(const struct fab_traffic_cfg *cfg);

/** traffic_net_due() - the message at hand of @h begins at @ns; UINT64_MAX: there is none */
void traffic_net_due(struct traffic_host *h, uint64_t ns);

/**
 * traffic_net_run() - until all have come, or what is left waits for ever
 * Return: false: the data path has to do it, from the begin.
 */
bool traffic_net_run(struct traffic_net *n);

/** traffic_below() - by chance, with the generator @rng, a number below @n */
uint32_t traffic_below(uint64_t *rng, uint32_t n);

/** traffic_choose_fixed() - permutation: to whom each host sends. Return: false: out of memory. */
bool traffic_choose_fixed(struct fab_traffic *t);

/** traffic_target() - the host to which message @i of host @from goes, another one than that */
uint32_t traffic_target(struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_is_incast() - the pattern has a first host that sends nothing */
static inline bool traffic_is_incast(const struct fab_traffic *t)
{
	return t->cfg.pattern == FAB_PATTERN_INCAST || t->cfg.pattern == FAB_PATTERN_INCAST_VICTIM;
}

/** traffic_is_reduce() - the pattern is an all-reduce, whose messages are steps */
bool traffic_is_reduce(const struct fab_traffic *t);

/** traffic_reduce_plan() - so many steps are messages. Return: NULL, or why there is none. */
const char *traffic_reduce_plan(struct fab_traffic *t);

/** traffic_reduce_target() - the host to which step @i of host @from sends */
uint32_t traffic_reduce_target(const struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_reduce_bytes() - bytes that it sends */
uint32_t traffic_reduce_bytes(const struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_reduce_waits() - what that step needs has not come yet */
bool traffic_reduce_waits(const struct fab_traffic *t, uint32_t from, uint32_t i);

/** traffic_choose_victim() - beside an incast: to whom the last host sends */
void traffic_choose_victim(struct fab_traffic *t);

/** traffic_flows_make() - for cfg.watcher. Return: NULL, or why not. */
const char *traffic_flows_make(struct fab_traffic *t);

/** traffic_flows_free() - of which there may be none */
void traffic_flows_free(struct fab_traffic *t);

/** traffic_flows_came() - @bytes of message @number have come; cfg.watcher is there, as below */
void traffic_flows_came(struct fab_traffic *t, uint32_t number, uint32_t bytes);

/** traffic_flows_sent() - @h has sent a message */
void traffic_flows_sent(const struct traffic_host *h);

/** traffic_flows_end() - all is over: the rest is told */
void traffic_flows_end(struct fab_traffic *t);

/** traffic_faults_begin() - cfg.script, if there is one, begins. Return: false: @why, [@len], says why not. */
bool traffic_faults_begin(struct fab_traffic *t, char *why, size_t len);

/** traffic_faults_turn() - what is due of it is done */
void traffic_faults_turn(struct fab_traffic *t);

/** traffic_faults_end() - cfg.script is told what became of its lines. Return: how many have failed. */
uint64_t traffic_faults_end(struct fab_traffic *t);

/** traffic_congestion_set() - switches mark packets. Return: false: out of memory. */
bool traffic_congestion_set(struct fab_traffic *t);

/** traffic_fecn() - a packet of message @msg has come to @h marked */
void traffic_fecn(struct traffic_host *h, uint32_t msg);

/** traffic_becn() - @h was notified */
void traffic_becn(struct traffic_host *h);

/** traffic_send_cnp() - @h, which has notifications, sends one. Return: false: it cannot yet. */
bool traffic_send_cnp(struct traffic_host *h);

/** traffic_sent() - @h has sent a packet of a message, and waits before the next one */
void traffic_sent(struct traffic_host *h);

/** traffic_hosts_make() - all channel adapters at a switch, linked to it. Return: false: no memory. */
bool traffic_hosts_make(struct fab_traffic *t);

/** traffic_hosts_begin() - their first messages are to begin; links are Active */
void traffic_hosts_begin(struct fab_traffic *t);

/** traffic_hosts_turn() - those that can send do so. Return: whether any did. */
bool traffic_hosts_turn(struct fab_traffic *t);

#endif
