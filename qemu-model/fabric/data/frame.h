/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A packet at one hop. */
#ifndef OHCA_FABRIC_DATA_FRAME_H
#define OHCA_FABRIC_DATA_FRAME_H

#include <assert.h>
#include <stdint.h>
#include "ib/view.h"
#include "ib/packet.h"

/**
 * struct fab_frame - a packet at one hop
 * @data: from the LRH to the ICRC, or with @view only to the end of the headers. The copies below
 *	of the LRH and of a checked P_Key are valid, not those in @data: a peer may write to a ring
 *	at any time
 * @view: the payload, if that is not in @data; invalid as soon as the packet has left the HCA
 * @len: bytes
 * @vcrc: the VCRC, with OHCA_FRAME_VCRC
 * @flags: OHCA_FRAME_*
 * @vl: its lane
 * @patch: offset of a checked BTH.P_Key, 0 if none was checked
 * @hops: switches and routers that it has crossed
 * @corrupt: copies of it get one wrong bit
 * @fecn: copies of it get FECN
 * @agent: it is a MAD that an agent sends to a machine
 * @owned: @data is that of a struct fab_buffer, which the next wire may use instead of a copy
 * @hop_limit: HopLmt of copies of it; 0: as in @data
 * @lrh: copy of the LRH
 * @pkey: copy of the P_Key, in wire order
 */
struct fab_frame {
	const uint8_t *data;
	const struct ib_view *view;
	uint32_t len;
	uint16_t vcrc;
	uint8_t flags;
	uint8_t vl;
	uint8_t patch;
	uint8_t hops;
	uint8_t hop_limit;
	uint8_t corrupt : 1;
	uint8_t fecn : 1;
	uint8_t agent : 1;
	uint8_t owned : 1;
	uint8_t lrh[IB_LRH_LEN];
	uint8_t pkey[2];
};
static_assert(sizeof(struct fab_frame) == 40, "it is copied at each hop");

#endif
