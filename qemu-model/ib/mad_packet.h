/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A MAD in a packet: a UD SEND Only from a management QP (IBTA volume 1, 13.4 and 13.5). */
#ifndef OHCA_IB_MAD_PACKET_H
#define OHCA_IB_MAD_PACKET_H

#include "mad.h"
#include "packet.h"

/* Bytes of a packet with a MAD, from LRH through ICRC, without a GRH; MAX includes a GRH. */
#define IB_MAD_PKT_HDR	(IB_LRH_LEN + IB_BTH_LEN + IB_DETH_LEN)
#define IB_MAD_PKT_LEN	(IB_MAD_PKT_HDR + IB_MAD_LEN + IB_ICRC_LEN)
#define IB_MAD_PKT_MAX	(IB_MAD_PKT_LEN + IB_GRH_LEN)

/**
 * struct ib_mad_path - header fields of a packet with a MAD; host byte order
 * @slid: source LID
 * @dlid: destination LID
 * @pkey: P_Key
 * @vl: lane
 * @sl: service level
 * @dqpn: destination QP, 0 or 1
 * @sqpn: source QP
 * @qkey: Q_Key of the DETH; QP0 does not use it
 * @global: there is a GRH
 * @tclass: TClass of the GRH
 * @hop_limit: HopLmt of the GRH
 * @flow: FlowLabel of the GRH
 * @sgid: source GID of the GRH
 * @dgid: destination GID of the GRH
 */
struct ib_mad_path {
	uint16_t slid;
	uint16_t dlid;
	uint16_t pkey;
	uint8_t vl;
	uint8_t sl;
	uint32_t dqpn;
	uint32_t sqpn;
	uint32_t qkey;
	bool global;
	uint8_t tclass;
	uint8_t hop_limit;
	uint32_t flow;
	uint8_t sgid[16];
	uint8_t dgid[16];
};

/**
 * ib_build_mad() - build a packet with a MAD
 * @pkt: result, up to IB_MAD_PKT_MAX bytes; the ICRC field is zero
 * @path: its header fields
 * @mad: IB_MAD_LEN bytes
 *
 * Return: bytes from LRH through ICRC.
 */
static inline size_t ib_build_mad(uint8_t *pkt, const struct ib_mad_path *path, const void *mad)
{
	const uint32_t grh = path->global ? IB_GRH_LEN : 0;
	const uint16_t words = ib_pkt_words(IB_MAD_PKT_HDR + grh, IB_MAD_LEN);
	uint8_t *p = ib_build_lrh(pkt, path->vl, path->sl,
				  path->global ? IB_LNH_IBA_GLOBAL : IB_LNH_IBA_LOCAL, path->dlid,
				  words, path->slid);

	if (path->global)
		p = ib_build_grh(p, path->tclass, path->flow,
				 (uint16_t)(4u * words - IB_LRH_LEN - IB_GRH_LEN),
				 path->hop_limit, path->sgid, path->dgid);
	p = ib_build_bth(p, IB_OP_UD_SEND_ONLY, 0, 0, path->pkey, path->dqpn, false, 0);
	p = ib_build_deth(p, path->qkey, path->sqpn);
	memcpy(p, mad, IB_MAD_LEN);
	memset(p + IB_MAD_LEN, 0, IB_ICRC_LEN);
	return IB_MAD_PKT_LEN + grh;
}

#endif
