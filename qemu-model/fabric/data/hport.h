/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ports of HCAs that this process hosts (hca/). Such a port has the place of a host of the graph,
 * as a virtual machine's has that comes by a link, but its wire is a function call: a packet that
 * the HCA builds goes over all switches, as far as nothing is in its way, before
 * fab_hport_commit() returns, and one for the HCA is given to it where it lies.
 *
 *	from the HCA	fab_hport_begin() is its credit: the room in the input buffer of the
 *			switch's port, as at wires of the graph, and the wire that is ready. A packet
 *			that cannot go on waits there. MADs by VL15 wait for the next round in a
 *			queue of FAB_HPORT_MADS;
 *			what does not fit is VL15Dropped
 *	to the HCA	ops.room() is the credit of a lane. Without it data waits at the switch,
 *			and VL15 is dropped
 *	training	either end may train the wire at any time; the link goes down, and up if
 *			both ends are enabled, in the next round
 *
 * So an HCA is called by fab_data_round(), fab_data_timer(), fab_mgmt_timer() and other calls of
 * the fabric, and while another HCA of the process sends. While it sends itself only ops.room()
 * is asked of it, for packets that come back to it, and has to say no.
 *
 * Owner thread only.
 */
#ifndef OHCA_FABRIC_HPORT_H
#define OHCA_FABRIC_HPORT_H

#include "data.h"
#include "ib/view.h"

#define FAB_HPORT_MADS		64u	/* that wait for the next round */
#define FAB_HPORT_MAD_LEN	512u	/* of their packets */

/**
 * struct fab_hport_rate - what is active, or sets of bits of what is enabled (14.2.5.6)
 * @width: LinkWidth
 * @speed: LinkSpeed
 * @speed_ext: LinkSpeedExt; 0: none
 */
struct fab_hport_rate {
	uint8_t width;
	uint8_t speed;
	uint8_t speed_ext;
};

/**
 * struct fab_hport_ops - what the fabric asks of the HCA
 * @room: whether @n packets of @len bytes may come by lane @vl now, 15: an SMP. If not, data waits,
 *	and fab_data_round() asks again; an SMP is dropped. An HCA that sends is asked, too, and has
 *	to say no
 * @soon: a packet for its QP @qpn may come soon, behind others, or not at all. May be NULL
 * @rx: packet @f, for which there was room; it is gone after the call. With @view only its headers
 *	are in @f, and @view has the payload
 * @link: the link is up with @rate, or down: NULL
 *
 * They may call fab_hport_enable() and fab_hport_dropped(), but not fab_hport_begin(),
 * fab_hport_commit(), fab_hport_train() and fab_hport_detach(): what they have to send, and how
 * they train the link, waits for a turn of the HCA.
 */
struct fab_hport_ops {
	bool (*room)(void *ctx, unsigned int vl, unsigned int n, uint32_t len);
	void (*soon)(void *ctx, uint32_t qpn);
	void (*rx)(void *ctx, const struct ohca_link_frame *f, const struct ib_view *view);
	void (*link)(void *ctx, const struct fab_hport_rate *rate);
};

struct fab_hport;

/**
 * fab_hport_attach() - an HCA's port has the place of the host at switch port @p
 * @p: a port of a switch, whose cable leads to a host; neither a link nor an HCA is there
 * @cfg: what the port is, as a machine says it in its HELLO; copied
 * @ops: kept
 * @ctx: first argument of @ops
 *
 * The host is out of the graph from now on. The link stays down until fab_hport_train().
 *
 * Return: NULL if out of memory.
 */
struct fab_hport *fab_hport_attach(struct fab_data *d, uint32_t p, const struct ohca_link_cfg *cfg,
				   const struct fab_hport_ops *ops, void *ctx);

/** fab_hport_detach() - the port goes away, and is freed; ops are not called any more */
void fab_hport_detach(struct fab_hport *h);

/**
 * fab_hport_begin() - room for one packet from the HCA
 * @vl: its lane: 0 to 14, or 15
 * @len: bytes from LRH to ICRC field
 *
 * Return: where to build it, until fab_hport_commit(), of one HCA at a time; NULL: the link is down
 * or the lane has no credits, or the wire sends another packet, which fab_hport_ready() reports when
 * that is over. A packet of VL15 is then lost.
 */
uint8_t *fab_hport_begin(struct fab_hport *h, unsigned int vl, uint32_t len);

/**
 * fab_hport_series() - whether packets of a message can leave at once
 * @len: bytes of each; the headers of the first, up to the BTH, are where fab_hport_begin() said
 * @n: as many; @view of the next fab_hport_commit() has them then
 *
 * Return: false: they have to leave one by one.
 */
bool fab_hport_series(struct fab_hport *h, unsigned int vl, uint32_t len, unsigned int n);

/**
 * fab_hport_soon() - a packet may leave soon, behind others: an HCA of this process that is to get
 * it is told, if the way is known
 * @lrh: its LRH, but for the length
 * @pkey: its P_Key
 * @dqpn: for this QP
 */
void fab_hport_soon(const struct fab_hport *h, const uint8_t *lrh, uint16_t pkey, uint32_t dqpn);

/**
 * fab_hport_commit() - the packet of the last fab_hport_begin() leaves the HCA, without an ICRC
 * @view: where its payload is, if only the headers were built; NULL: all was. Not of VL15
 *
 * Without a copy if nothing keeps the packet from another HCA of this process, else it is copied
 * once.
 *
 * Other HCAs may be called meanwhile; of this one only ops.room() is asked, and has to say no.
 */
void fab_hport_commit(struct fab_hport *h, unsigned int vl, uint32_t len,
		      const struct ib_view *view);

/**
 * fab_hport_ready() - lanes that fab_hport_begin() has refused, with room for any packet by now
 *
 * Return: bit n: lane n; each is reported once.
 */
uint16_t fab_hport_ready(struct fab_hport *h);

/** fab_hport_free_ns() - when its wire has sent what it has got, by the clock of the data path */
uint64_t fab_hport_free_ns(const struct fab_hport *h);

/** fab_hport_place() - the switch's port that it is at */
uint32_t fab_hport_place(const struct fab_hport *h);

/** fab_hport_train() - the HCA's end trains the link, or disables it */
void fab_hport_train(struct fab_hport *h, bool enable);

/** fab_hport_enable() - what the HCA's end has enabled; counts when the link is trained next */
void fab_hport_enable(struct fab_hport *h, const struct fab_hport_rate *rate);

/** fab_hport_dropped() - SMPs for which ops.room() has said no since the HCA was attached */
uint64_t fab_hport_dropped(const struct fab_hport *h);

/**
 * fab_data_refresh() - the data path has what management has changed, and the time of now
 *
 * Before an HCA works, which sends packets outside of fab_data_round().
 */
void fab_data_refresh(struct fab_data *d);

#endif
