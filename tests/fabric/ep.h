/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An end port for tests: a link to a switch, directed-route SMPs, and the few Sets of a subnet
 * manager that let traffic pass.
 */
#ifndef EP_H
#define EP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ib/mad_packet.h"
#include "ib/smp.h"
#include "../link/simple.h"

#define EP_SMP_HDR	IB_MAD_PKT_HDR
#define EP_SMP_PKT	IB_MAD_PKT_LEN

/**
 * struct ep - one end port
 * @l: its link
 * @port: port of the switch that it is attached to
 * @lid: its LID
 * @drive: runs the rest of the fabric for a moment
 * @arg: of @drive
 * @tid: last transaction ID
 */
struct ep {
	struct ohca_link *l;
	unsigned int port;
	uint16_t lid;
	void (*drive)(void *arg);
	void *arg;
	uint64_t tid;
};

/** ep_build() - builds a UD packet with a MAD. Return: its length. */
static inline size_t ep_build(uint8_t *pkt, uint8_t vl, uint8_t sl, uint16_t dlid, uint16_t slid,
			      uint32_t qpn, uint32_t qkey, uint16_t pkey, const void *mad)
{
	const struct ib_mad_path path = {
		.vl = vl,
		.sl = sl,
		.dlid = dlid,
		.slid = slid,
		.dqpn = qpn,
		.sqpn = qpn,
		.qkey = qkey,
		.pkey = pkey,
	};

	return ib_build_mad(pkt, &path, mad);
}

/** ep_send_raw() - sends any packet. Return: false if there was no room. */
static inline bool ep_send_raw(struct ep *e, unsigned int vl, const void *pkt, size_t len)
{
	void *b = ohca_link_tx_begin(e->l, vl, len);

	if (!b && vl != IB_MGMT_VL) {
		simple_take(e->l);
		b = ohca_link_tx_begin(e->l, vl, len);
	}
	if (!b)
		return false;
	memcpy(b, pkt, len);
	ohca_link_tx_commit(e->l, vl, len, 0);
	ohca_link_kick(e->l);
	return true;
}

/** ep_send_smp() - sends an SMP by VL15; directed-route ones with the permissive LID. */
static inline bool ep_send_smp(struct ep *e, const struct ib_smp *smp, uint16_t dlid)
{
	uint8_t pkt[EP_SMP_PKT];
	bool dr = ib_smp_is_dr(smp);

	return ep_send_raw(e, IB_MGMT_VL, pkt,
			   ep_build(pkt, IB_MGMT_VL, 0, dr ? IB_LID_PERMISSIVE : dlid,
				    dr ? IB_LID_PERMISSIVE : e->lid, 0, 0, IB_DEFAULT_PKEY, smp));
}

/** ep_recv() - reads the next packet of a lane into @pkt. Return: its length, 0 if none. */
static inline size_t ep_recv(struct ep *e, unsigned int vl, uint8_t *pkt, size_t size)
{
	struct ohca_link_frame f;
	size_t len = 0;

	if (!(ohca_link_rx_pending(e->l) >> vl & 1))
		simple_take(e->l);
	if (ohca_link_rx_peek(e->l, vl, &f)) {
		len = f.len <= size ? f.len : size;
		memcpy(pkt, f.data, len);
		ohca_link_rx_release(e->l, vl);
		ohca_link_kick(e->l);
	}
	return len;
}

/** ep_recv_smp() - reads the next SMP. Return: whether there was one, in a packet without a GRH. */
static inline bool ep_recv_smp(struct ep *e, struct ib_smp *smp)
{
	uint8_t pkt[512];

	if (ep_recv(e, IB_MGMT_VL, pkt, sizeof(pkt)) != EP_SMP_PKT ||
	    (pkt[1] & 3) != IB_LNH_IBA_LOCAL)
		return false;
	memcpy(smp, pkt + EP_SMP_HDR, sizeof(*smp));
	return true;
}

/** ep_smp_init() - makes a directed-route request along @path of @hops ports. */
static inline void ep_smp_init(struct ep *e, struct ib_smp *smp, uint8_t method, uint16_t attr,
			       uint32_t mod, const uint8_t *data, unsigned int hops,
			       const uint8_t *path)
{
	memset(smp, 0, sizeof(*smp));
	smp->hdr.base_version = IB_MAD_BASE_VERSION;
	smp->hdr.mgmt_class = IB_CLASS_SUBN_DR;
	smp->hdr.class_version = IB_SMP_CLASS_VERSION;
	smp->hdr.method = method;
	smp->hdr.tid = ib_to_be64(++e->tid);
	smp->hdr.attr_id = ib_to_be16(attr);
	smp->hdr.attr_mod = ib_to_be32(mod);
	smp->dr_slid = smp->dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	if (data)
		memcpy(smp->data, data, sizeof(smp->data));
	if (hops)
		memcpy(&smp->init_path[1], path, hops);
	ib_smp_set_hops(smp, 1, (uint8_t)hops);	/* its state on the wire */
}

/**
 * ep_query() - sends an SMP and waits for the answer, up to half a minute
 *
 * Return: status without the D bit, or -1 without an answer; @smp is unchanged then.
 */
static inline int ep_query(struct ep *e, struct ib_smp *smp)
{
	struct ib_smp in;

	if (!ep_send_smp(e, smp, 0))
		return -1;
	for (int i = 0; i < 30000; i++) {
		if (e->drive)
			e->drive(e->arg);
		while (ep_recv_smp(e, &in)) {
			if (ib_be64(in.hdr.tid) != ib_be64(smp->hdr.tid) ||
			    in.hdr.method != IB_METHOD_GET_RESP)
				continue;
			*smp = in;
			return ib_be16(in.hdr.status) & 0x7fff;
		}
		if (!e->drive)
			usleep(1000);
		else if (i > 20)
			break;
	}
	return -1;
}

/** ep_switch() - Get or Set at the switch that @e is attached to; @data in and out. */
static inline int ep_switch(struct ep *e, uint8_t method, uint16_t attr, uint32_t mod,
			    uint8_t data[64])
{
	static const uint8_t path[1] = { 1 };
	struct ib_smp smp;
	int status;

	ep_smp_init(e, &smp, method, attr, mod, data, 1, path);
	status = ep_query(e, &smp);
	if (status >= 0)
		memcpy(data, smp.data, 64);
	return status;
}

/** ep_set_state() - moves PortState of switch port @n through Armed to @state. */
static inline int ep_set_state(struct ep *e, unsigned int n, uint8_t state)
{
	struct ib_port_info pi;
	uint8_t d[64] = { 0 };
	int status = ep_switch(e, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, n, d);

	for (uint8_t s = IB_PS_ARMED; !status && s <= state; s++) {
		ib_port_info_unpack(d, &pi);
		if (pi.state >= s)
			continue;
		pi.state = s;
		pi.phys_state = 0;
		ib_port_info_pack(&pi, d);
		status = ep_switch(e, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, n, d);
	}
	return status;
}

/** ep_bring_up() - sets LIDs: 1 for the switch, i + 2 for eps[i]; makes all ports Active. */
static inline int ep_bring_up(struct ep *eps, unsigned int n)
{
	struct ib_switch_info si;
	struct ib_port_info pi;
	uint8_t d[64] = { 0 };
	int s = 0;

	s |= ep_switch(&eps[0], IB_METHOD_GET, IB_SMP_ATTR_SWITCH_INFO, 0, d);
	ib_switch_info_unpack(d, &si);
	si.linear_top = 63;
	si.port_state_change = 1;
	ib_switch_info_pack(&si, d);
	s |= ep_switch(&eps[0], IB_METHOD_SET, IB_SMP_ATTR_SWITCH_INFO, 0, d);
	memset(d, IB_LFT_NO_PORT, sizeof(d));
	d[1] = 0;
	for (unsigned int i = 0; i < n; i++) {
		eps[i].lid = (uint16_t)(i + 2);
		d[i + 2] = (uint8_t)eps[i].port;
	}
	s |= ep_switch(&eps[0], IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, d);
	s |= ep_switch(&eps[0], IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0, d);
	ib_port_info_unpack(d, &pi);
	pi.lid = 1;
	pi.sm_lid = 2;
	pi.state = 0;
	pi.phys_state = 0;
	ib_port_info_pack(&pi, d);
	s |= ep_switch(&eps[0], IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 0, d);
	for (unsigned int i = 0; i < n; i++)
		s |= ep_set_state(&eps[0], eps[i].port, IB_PS_ACTIVE);
	return s;
}

/** ep_phy() - everything enabled. */
static inline struct ohca_link_phy ep_phy(void)
{
	return (struct ohca_link_phy){
		.enabled = true,
		.width_en = 0xff,
		.speed_en = 0xff,
		.speed_ext_en = 0xff,
	};
}

#endif
