/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Adaptive routing: chooses the port of a group; see adaptive.c. */
#ifndef OHCA_FABRIC_DATA_ADAPTIVE_H
#define OHCA_FABRIC_DATA_ADAPTIVE_H

#include "data_priv.h"
#include "fabric/graph/adaptive.h"

/**
 * fab_adaptive_port() - choose the port by which the unicast head of @l leaves switch @n, which has
 *	adaptive routing
 * @in: the port by which it arrived
 * @dlid: its DLID
 * @num: the port of the LinearForwardingTable
 *
 * Return: number of the port.
 */
unsigned int fab_adaptive_port(struct fab_data *d, const struct fab_dport *in,
			       const struct fab_lane *l, const struct fab_node *n, uint16_t dlid,
			       unsigned int num);

/** fab_adaptive_wait() - count the FAB_HEAD_UCAST head @l as waiting for its output */
static inline void fab_adaptive_wait(struct fab_lane *l)
{
	l->counted = fab_blocks(l->f.len);
	l->out->out[l->ovl].heads += l->counted;
}

/** fab_adaptive_left() - end that count */
static inline void fab_adaptive_left(struct fab_lane *l)
{
	l->out->out[l->ovl].heads -= l->counted;
	l->counted = 0;
}

#endif
