// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reliable messages: the receiver of a message sends an ACK, which leaves before messages, by the
 * service level of the message. A message is complete when its sender has received the ACK. Nothing
 * is sent again.
 */
#include "traffic_priv.h"

/* The next ACK of @h is the first with a lane; one without a lane is dropped. */
static void find_first(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;

	for (; h->acks; h->acks--, h->ack_first = t->msg[h->ack_first].top) {
		h->ack_sl = traffic_sl(traffic_sender(t, h->ack_first), h);
		if (traffic_lane(h, h->ack_sl, &h->ack_vl))
			return;
	}
}

void traffic_ack_add(struct traffic_host *h, uint32_t number)
{
	struct fab_traffic *t = h->t;

	if (h->acks++) {
		t->msg[h->ack_last].top = number;
		h->ack_last = number;
		return;
	}
	h->ack_first = number;
	h->ack_last = number;
	h->ack_ns = t->now_ns;
	find_first(h);
	if (h->acks)
		traffic_wake(h);
}

void traffic_ack_sent(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;

	t->sent++;
	h->ack_ns = t->now_ns;
	h->acks--;
	h->ack_first = t->msg[h->ack_first].top;
	find_first(h);
}

void traffic_ack_got(struct fab_traffic *t, uint32_t number)
{
	t->came++;
	t->acks++;
	t->last_ns = t->now_ns;
	t->took[t->done++] = t->now_ns - t->msg[number].begin_ns;
}
