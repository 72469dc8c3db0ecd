/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The decision on the packet at the head of a lane; see decide.c. */
#ifndef OHCA_FABRIC_DATA_DECIDE_H
#define OHCA_FABRIC_DATA_DECIDE_H

#include "data_priv.h"

/** fab_decide() - decide on the packet in @l->f; once for each packet, since it counts errors */
enum fab_kind fab_decide(struct fab_data *d, struct fab_dport *in, struct fab_lane *l);

/** fab_damaged() - whether a packet is damaged as its OHCA_FRAME_* @flags say. Counts it. */
bool fab_damaged(struct fab_data *d, struct fab_dport *in, const uint8_t *data, uint32_t len,
		 uint16_t flags, uint16_t vcrc);

/** fab_pkey_in_table() - whether the node at port @dp may send @pkey (@inbound), or receive it */
bool fab_pkey_in_table(struct fab_dport *dp, uint16_t pkey, bool inbound);

/** fab_mcast_vl() - lane at @out of a multicast head of @in, or -1 if it may not leave there */
int fab_mcast_vl(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		 const struct fab_dport *out);

#endif
