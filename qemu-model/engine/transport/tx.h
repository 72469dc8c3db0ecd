/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Transmission: room for a packet, sending it, and waiting for credits. */
#ifndef OHCA_TRANSPORT_TX_H
#define OHCA_TRANSPORT_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/counters.h"
#include "engine/transport/path.h"
#include "engine/transport/turn.h"

/**
 * struct ohca_tx - a packet being built
 * @buf: from the LRH on; @len: LRH..ICRC
 * @turn: in which it leaves
 * @lost: on VL15, and the peer has no room for it
 * @too_long: for the MTU of the port
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

/* Shorter payloads are copied: that costs less than to find out where they are. */
#define OHCA_VIEW_MIN	256u

/*
 * Room for a packet of @len bytes, LRH to ICRC field. Fills in LRH and GRH and zeroes the
 * ICRC field. False: no room; @t says what for.
 */
bool ohca_tx_open(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *p, uint32_t len,
		  struct ohca_tx *tx);
/* Whether the payload of an open packet of RC, UC or XRC may be a view instead of in its buffer */
bool ohca_tx_views(const ohca_engine *e, const struct ohca_tx *tx);
/* It is @v, behind the headers, which end at @h. */
static inline void ohca_tx_view(struct ohca_tx *tx, struct ib_view *v, const uint8_t *h)
{
	v->hdr_len = (uint32_t)(h - tx->buf);
	tx->view = v;
}
/* Whether the next packet of the QP may have to wait for a time: packets leave alone then. */
bool ohca_tx_paced(ohca_engine *e, const struct ohca_tx *tx);
/*
 * How many packets of a message may leave as one view, with the one whose headers are built: at
 * most @n, which follow each other and are alike, with payloads of @mtu bytes. 1: only that one.
 */
unsigned int ohca_tx_series(ohca_engine *e, const struct ohca_tx *tx, unsigned int n,
			    uint32_t mtu);
/* Send it. A packet that is opened and not closed is not sent. */
void ohca_tx_close(ohca_engine *e, struct ohca_tx *tx);
static inline void ohca_tx_close_qp(ohca_engine *e, const struct ohca_qp *qp, struct ohca_tx *tx)
{
	ohca_tx_close(e, tx);
	if (tx->kind != OHCA_TX_DISCARD)
		ohca_count_tx(e, qp, tx->view ? tx->view->packets : 1, tx->len);
}

/*
 * Keep a multicast frame of @port in the loop for the members from @from on. @hdr: its first @n
 * bytes, as they were checked. False: the loop is full.
 */
bool ohca_loop_keep(ohca_engine *e, unsigned int port, const uint8_t *hdr, uint32_t n,
		    const struct ohca_frame *f, uint16_t from);
/* Update PortXmitWait and PortVLXmitWait to now, and end the waits that are over */
void ohca_xp_wait_update(ohca_engine *e);

#endif /* OHCA_TRANSPORT_TX_H */
