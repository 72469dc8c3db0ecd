/* SPDX-License-Identifier: GPL-2.0-or-later */
/* By which port of a group a packet leaves; see adaptive.c. */
#ifndef OHCA_FABRIC_DATA_ADAPTIVE_H
#define OHCA_FABRIC_DATA_ADAPTIVE_H

#include "data_priv.h"
#include "fabric/graph/adaptive.h"

/**
 * fab_adaptive_port() - the port by which the unicast head of @l leaves switch @n, that has
 *	adaptive routing
 * @in: by which it came
 * @dlid: its DLID
 * @num: the port that the LinearForwardingTable says
 */
unsigned int fab_adaptive_port(struct fab_data *d, const struct fab_dport *in,
			       const struct fab_lane *l, const struct fab_node *n, uint16_t dlid,
			       unsigned int num);

/**
 * fab_adaptive_wait() - the head @l, which is FAB_HEAD_UCAST, waits for its output if it does not
 *	leave now
 */
static inline void fab_adaptive_wait(struct fab_lane *l)
{
	l->counted = fab_blocks(l->f.len);
	l->out->out[l->ovl].heads += l->counted;
}

/** fab_adaptive_left() - it does not any more */
static inline void fab_adaptive_left(struct fab_lane *l)
{
	l->out->out[l->ovl].heads -= l->counted;
	l->counted = 0;
}

#endif
