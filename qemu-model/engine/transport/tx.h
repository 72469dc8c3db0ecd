/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Transmission: get room for a packet, send it, or wait for credits. */
#ifndef OHCA_TRANSPORT_TX_H
#define OHCA_TRANSPORT_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/counters.h"
#include "engine/transport/path.h"
#include "engine/transport/turn.h"

/**
 * struct ohca_tx - a packet that is being built
 * @buf: the packet, from the LRH on
 * @turn: the turn in which it leaves
 * @len: LRH to ICRC field, bytes
 * @pace: as in struct ohca_path
 * @kind: enum ohca_tx_kind
 * @loop_copy: multicast: the port delivers a copy to its own members
 * @too_long: it exceeds the MTU of the port
 * @lost: it is on VL15, and the peer has no room for it
 * @view: its payload, if that is not in @buf
 */
struct ohca_tx {
	uint8_t *buf;
	struct ohca_turn *turn;
	uint32_t len;
	uint16_t pace;
	uint8_t port, vl, sl, kind;
	bool mcast, loop_copy, too_long, lost;
	const struct ib_view *view;
};

/* Shorter payloads are copied, which costs less than a view; bytes. */
#define OHCA_VIEW_MIN	256u

/*
 * Get room for a packet of @len bytes, LRH to ICRC field; sets LRH and GRH, and zeroes the ICRC
 * field. False: no room; @t->wait is the reason.
 */
bool ohca_tx_open(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *p, uint32_t len,
		  struct ohca_tx *tx);
/* Whether the payload of an open packet of RC, UC or XRC may be a view */
bool ohca_tx_views(const ohca_engine *e, const struct ohca_tx *tx);
/* Set the payload to the view @v; @h: end of the headers in the buffer. */
static inline void ohca_tx_view(struct ohca_tx *tx, struct ib_view *v, const uint8_t *h)
{
	v->hdr_len = (uint32_t)(h - tx->buf);
	tx->view = v;
}
/* Whether the next packet of the QP may be delayed, so that packets must leave one by one. */
bool ohca_tx_paced(ohca_engine *e, const struct ohca_tx *tx);
/*
 * How many packets of a message may leave as one view: @tx, whose headers are built, and those
 * after it, at most @n, with payloads of @mtu bytes and headers that differ only in the PSN. 1:
 * only @tx
 */
unsigned int ohca_tx_series(ohca_engine *e, const struct ohca_tx *tx, unsigned int n,
			    uint32_t mtu);
/* Send the packet. A packet that is opened and not closed is not sent. */
void ohca_tx_close(ohca_engine *e, struct ohca_tx *tx);
static inline void ohca_tx_close_qp(ohca_engine *e, const struct ohca_qp *qp, struct ohca_tx *tx)
{
	ohca_tx_close(e, tx);
	if (tx->kind != OHCA_TX_DISCARD)
		ohca_count_tx(e, qp, tx->view ? tx->view->packets : 1, tx->len);
}

/*
 * Store a multicast frame of @port in the loop, for the members of its group from index @from on.
 * @hdr: its first @n bytes, as they were checked. False: the loop is full.
 */
bool ohca_loop_keep(ohca_engine *e, unsigned int port, const uint8_t *hdr, uint32_t n,
		    const struct ohca_frame *f, uint16_t from);
/* Update PortXmitWait and PortVLXmitWait, and end waits that no sender has any more */
void ohca_xp_wait_update(ohca_engine *e);

#endif /* OHCA_TRANSPORT_TX_H */
