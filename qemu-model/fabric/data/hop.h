/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a packet gets from the head of a lane to the next lane; see hop.c. */
#ifndef OHCA_FABRIC_HOP_H
#define OHCA_FABRIC_HOP_H

#include "adaptive.h"
#include "decide.h"
#include "to_watch.h"
#include "wait.h"

/** fab_count_rcv() - count @f as received at port @in (16.1.3.5) */
static inline void fab_count_rcv(struct fab_dport *in, const struct fab_frame *f)
{
	ib_pma_count_rcv(in->ctr, f->len, f->lrh[1] >> 4,
			 ib_get_be16(f->lrh + 2) >= IB_LID_MCAST_MIN);
}

/** fab_output() - output @num of the switch of @in, which a decision has chosen: it exists */
static inline struct fab_dport *fab_output(const struct fab_data *d, const struct fab_dport *in,
					   int num)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];

	return d->by_port[fab_port_of(n, (unsigned int)num)];
}

/** fab_head_decide() - decide on the head of lane @vl of @in by the current tables */
static inline void fab_head_decide(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];

	if (fab_unlikely(l->counted))
		fab_adaptive_left(l);
	l->started = false;
	l->routed = false;
	l->forks = 0;
	l->kind = (uint8_t)fab_decide(d, in, l);
	l->version = d->version;
	/* its buffer is needed until all copies are made */
	if (fab_unlikely(l->kind == FAB_HEAD_MCAST))
		l->f.owned = false;
}

/**
 * fab_head_capture() - pass that head, which was received and decided on, to captures
 *
 * Not for packets for an agent: fab_gsi_rx() passes these.
 */
void fab_head_capture(struct fab_data *d, const struct fab_dport *in, unsigned int vl);

/** fab_head_forget() - reset lane @l for its next packet */
static inline void fab_head_forget(struct fab_data *d, struct fab_lane *l)
{
	fab_unblock(d, l);
	if (fab_unlikely(l->counted))
		fab_adaptive_left(l);
	l->came_ns = 0;
	l->kind = FAB_HEAD_NONE;
	l->started = false;
	l->seen = false;
	l->lost = false;
}

/**
 * fab_drop_head() - count the drop of head @l: one packet, or each multicast copy that has not left
 *
 * Packets received plus forks stay equal to packets delivered, dropped and still waiting.
 */
void fab_drop_head(struct fab_data *d, const struct fab_lane *l, enum fab_drop why);

/** fab_forget_heads() - the link of @dp is down: forget the packets in its rings */
void fab_forget_heads(struct fab_data *d, struct fab_dport *dp);

/**
 * fab_commit() - send the packet at @b, for which fab_tx_begin() had room, by @out
 * @view: its payload, if that is not at @b: only to an HCA, and not @lost
 * @flags: OHCA_FRAME_ICRC or 0
 * @lost: it is damaged on its way
 * @agent: it is a MAD that an agent has sent
 */
void fab_commit(struct fab_data *d, const struct fab_dport *out, unsigned int vl, const uint8_t *b,
		const struct ib_view *view, uint32_t len, uint16_t flags, bool lost, bool agent);

/** fab_keep_heads() - move the heads in the rings of @dp's link to its input buffer */
void fab_keep_heads(struct fab_data *d, struct fab_dport *dp);

/** fab_arrived() - @b has arrived at @in over a wire; consumes @b */
void fab_arrived(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/**
 * fab_enter() - packet @f arrives at @in by lane @vl; it fits into the input buffer there
 *
 * Counts it. It goes on at once if nothing waits there.
 */
void fab_enter(struct fab_data *d, struct fab_dport *in, unsigned int vl,
	       const struct fab_frame *f);

/**
 * fab_out_send() - send @f by lane @vl of @out
 *
 * Over a wire of the graph, or to an HCA, it arrives before this returns, and goes on until it has
 * to wait, over at most fab_data.walk wires.
 *
 * Return: false: there is no credit, or the wire is sending another packet.
 */
bool fab_out_send(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		  const struct fab_frame *f);

/** fab_out_pass() - the same for a packet that no arbiter has chosen: reports it to the arbiter */
bool fab_out_pass(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		  const struct fab_frame *f);

#endif
