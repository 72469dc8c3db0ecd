/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ports of HCAs that this process hosts (hca/). Such a port replaces a host of the graph, as a
 * virtual machine does that attaches by a link, but its wire is a function call. A packet from the
 * HCA crosses switches, until it has to wait, before fab_hport_commit() returns. A packet for the
 * HCA is passed to it in place.
 *
 *	from the HCA	fab_hport_begin() checks its credit: room in the input buffer of the
 *			switch's port, as at wires of the graph, and a wire that is ready. A packet
 *			that cannot go on waits there. VL15 packets wait for the next round in a
 *			queue of FAB_HPORT_MADS; those that do not fit count as VL15Dropped
 *	to the HCA	ops.room() is the credit of a lane. Without it data waits at the switch,
 *			and VL15 packets are dropped
 *	training	either end may train the wire at any time; in the next round the link goes
 *			down, and up if both ends are enabled
 *
 * So fab_data_round(), fab_data_timer(), fab_mgmt_timer() and other functions of the fabric call an
 * HCA, also while another HCA of the process sends. While an HCA itself sends, the fabric calls
 * only its ops.room(), for packets that return to it, which must return false.
 *
 * Owner thread only.
 */
#ifndef OHCA_FABRIC_HPORT_H
#define OHCA_FABRIC_HPORT_H

#include "data.h"
#include "ib/view.h"

#define FAB_HPORT_MADS		64u	/* VL15 packets that can wait for the next round */
#define FAB_HPORT_MAD_LEN	512u	/* longest of them, in bytes */

/**
 * struct fab_hport_rate - active width and speed, or sets of bits of the enabled ones (14.2.5.6)
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
 * struct fab_hport_ops - functions of the HCA that the fabric calls
 * @room: whether the HCA has room for @n packets of @len bytes in lane @vl now; 15: SMPs. If not,
 *	data waits and fab_data_round() asks again; an SMP is dropped. Must return false while the
 *	HCA sends
 * @soon: a packet for its QP @qpn may arrive soon, behind others, or not at all. May be NULL
 * @rx: receive packet @f, for which there was room; @f is invalid after the call. With @view, @f
 *	has only the headers, and @view the payload
 * @link: the link is up with @rate, or down: NULL
 *
 * They may call fab_hport_enable() and fab_hport_dropped(), but not fab_hport_begin(),
 * fab_hport_commit(), fab_hport_train() and fab_hport_detach(): the HCA sends and trains the link
 * later, in its own turn.
 */
struct fab_hport_ops {
	bool (*room)(void *ctx, unsigned int vl, unsigned int n, uint32_t len);
	void (*soon)(void *ctx, uint32_t qpn);
	void (*rx)(void *ctx, const struct ohca_link_frame *f, const struct ib_view *view);
	void (*link)(void *ctx, const struct fab_hport_rate *rate);
};

struct fab_hport;

/**
 * fab_hport_attach() - make an HCA's port replace the host at switch port @p
 * @p: a port of a switch, whose cable leads to a host; neither a link nor an HCA is attached
 * @cfg: description of the port, as in a machine's HELLO; copied
 * @ops: not copied, must stay valid
 * @ctx: first argument of @ops
 *
 * Removes the host from the graph. The link stays down until fab_hport_train().
 *
 * Return: NULL if out of memory.
 */
struct fab_hport *fab_hport_attach(struct fab_data *d, uint32_t p, const struct ohca_link_cfg *cfg,
				   const struct fab_hport_ops *ops, void *ctx);

/** fab_hport_detach() - detach and free the port; ops are not called any more */
void fab_hport_detach(struct fab_hport *h);

/**
 * fab_hport_begin() - reserve room for one packet from the HCA
 * @vl: its lane: 0 to 14, or 15
 * @len: bytes from LRH to the end of the ICRC field
 *
 * Return: the buffer to build it in, valid until fab_hport_commit(), for one HCA at a time. NULL:
 * the link is down, the lane has no credits, or the wire is sending another packet;
 * fab_hport_ready() reports when the lane has room. A packet of VL15 is lost then.
 */
uint8_t *fab_hport_begin(struct fab_hport *h, unsigned int vl, uint32_t len);

/**
 * fab_hport_series() - whether @n packets of a message can leave at once
 * @len: bytes of each; the buffer of fab_hport_begin() has the headers of the first, up to the BTH
 * @n: number of packets; @view of the next fab_hport_commit() then has all of them
 *
 * Return: false: they have to leave one by one.
 */
bool fab_hport_series(struct fab_hport *h, unsigned int vl, uint32_t len, unsigned int n);

/**
 * fab_hport_soon() - announce a packet that may leave soon, behind others, to the HCA of this
 *	process that is its destination, if its flow is known
 * @lrh: its LRH; the length is not used
 * @pkey: its P_Key
 * @dqpn: its destination QP
 */
void fab_hport_soon(const struct fab_hport *h, const uint8_t *lrh, uint16_t pkey, uint32_t dqpn);

/**
 * fab_hport_commit() - send the packet of the last fab_hport_begin(), without an ICRC
 * @view: its payload, if only the headers were built; NULL: the whole packet was. Not for VL15
 *
 * The packet reaches another HCA of this process without a copy if it does not have to wait;
 * otherwise it is copied once.
 *
 * May call other HCAs; of this one only ops.room(), which must return false.
 */
void fab_hport_commit(struct fab_hport *h, unsigned int vl, uint32_t len,
		      const struct ib_view *view);

/**
 * fab_hport_ready() - lanes for which fab_hport_begin() has failed and that now have room for any
 *	packet
 *
 * Return: bit n: lane n. Each failure is reported once.
 */
uint16_t fab_hport_ready(struct fab_hport *h);

/**
 * fab_hport_free_ns() - when its wire has sent all packets up to now, by the clock of the data path
 */
uint64_t fab_hport_free_ns(const struct fab_hport *h);

/** fab_hport_place() - the switch's port to which it is attached */
uint32_t fab_hport_place(const struct fab_hport *h);

/** fab_hport_train() - the HCA's end trains the link, or disables it */
void fab_hport_train(struct fab_hport *h, bool enable);

/**
 * fab_hport_enable() - set the widths and speeds that the HCA's end enables, for the next training
 */
void fab_hport_enable(struct fab_hport *h, const struct fab_hport_rate *rate);

/** fab_hport_dropped() - SMPs for which ops.room() has returned false since the HCA was attached */
uint64_t fab_hport_dropped(const struct fab_hport *h);

/**
 * fab_data_refresh() - copy what management has changed into the data path, and read the clock
 *
 * Call it before an HCA works, since that sends packets outside of fab_data_round().
 */
void fab_data_refresh(struct fab_data *d);

#endif
