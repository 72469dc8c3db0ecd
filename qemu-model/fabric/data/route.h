/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routers: the output of a packet, and its headers there; see route.c. */
#ifndef OHCA_FABRIC_DATA_ROUTE_H
#define OHCA_FABRIC_DATA_ROUTE_H

#include "data_priv.h"

/**
 * fab_route_find() - find the output of the head @l, which has arrived at router port @in
 * @out: written for FAB_HEAD_UCAST; the head is @routed then
 *
 * Return: FAB_HEAD_UCAST: it leaves by *@out; FAB_HEAD_LOCAL: it is for the port itself;
 * FAB_HEAD_DROP: it is dropped, and was counted.
 */
enum fab_kind fab_route_find(struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
			     uint32_t *out);

/**
 * fab_route_frame() - fill in @f: the head @l, which is @routed, with the headers for its next
 *	subnet
 */
void fab_route_frame(const struct fab_lane *l, struct fab_frame *f);

#endif
