// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Data packets through the switch: tables, lanes, credits, arbitration, enforcement.
 */
#include "net.h"

#include "ib/crc.h"

static int set_pi_of(struct net *t, unsigned int n, void (*change)(struct ib_port_info *pi))
{
	struct ib_port_info pi;
	uint8_t d[64] = { 0 };
	int s = ep_switch(&t->ep[0], IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, n, d);

	ib_port_info_unpack(d, &pi);
	pi.state = 0;
	pi.phys_state = 0;
	change(&pi);
	ib_port_info_pack(&pi, d);
	return s | ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, n, d);
}

static void test_unicast(void **state)
{
	struct net *t = net_up(3, 4, 0);
	struct ohca_port_counters *c1 = net_ctr(t, 1), *c2 = net_ctr(t, 2);
	struct ohca_port_counters was1, was2;
	uint8_t fill = 0;

	(void)state;
	was1 = *c1;
	was2 = *c2;
	for (size_t len = 24; len <= 4096 + 120; len += 4) {
		assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, len, ++fill));
		net_pump(t);
		assert_int_equal(net_got(&t->ep[1], 0, len, fill), 1);
	}
	assert_int_equal(c1->rcv_pkts - was1.rcv_pkts, 1049);
	assert_int_equal(c1->ucast_rcv_pkts - was1.ucast_rcv_pkts, 1049);
	assert_int_equal(c1->rcv_data - was1.rcv_data, (24 + 4216) / 8 * 1049);
	assert_int_equal(c2->xmit_pkts - was2.xmit_pkts, 1049);
	assert_int_equal(c2->xmit_data - was2.xmit_data, (24 + 4216) / 8 * 1049);
	assert_int_equal(c2->rcv_pkts, was2.rcv_pkts);
	assert_int_equal(net_got(&t->ep[2], 0, 0, -1), 0);
	net_free(t);
}

/* The LRH leaves as it came, but for the VL. */
static void test_headers(void **state)
{
	struct net *t = net_up(2, 2, 0);
	uint8_t pkt[64], got[64];

	(void)state;
	memset(pkt, 0x5a, sizeof(pkt));
	ib_build_bth(ib_build_lrh(pkt, 1, 3, IB_LNH_IBA_LOCAL, t->ep[1].lid, sizeof(pkt) / 4,
				  0x1234), IB_OP_UC_SEND_ONLY, 0, 0, 0xffff, 7, false, 1);
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(ep_send_raw(&t->ep[0], 1, pkt, sizeof(pkt)));
		net_pump(t);
		assert_int_equal(ep_recv(&t->ep[1], 1, got, sizeof(got)), sizeof(pkt));
		assert_memory_equal(got, pkt, sizeof(pkt));
	}
	net_free(t);
}

static void test_no_route(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ohca_port_counters *c = net_ctr(t, 1);

	(void)state;
	assert_true(net_send(&t->ep[0], 0, 0, 9, 0xffff, 64, 1));	/* entry 0xff */
	assert_true(net_send(&t->ep[0], 0, 0, 64, 0xffff, 64, 1));	/* above the top */
	net_pump(t);
	assert_int_equal(c->rcv_switch_relay_errors, 2);
	assert_int_equal(c->rcv_dlid_mapping, 2);
	assert_true(net_send(&t->ep[0], 0, 0, 2, 0xffff, 64, 1));	/* to itself */
	net_pump(t);
	assert_int_equal(c->rcv_switch_relay_errors, 3);
	assert_int_equal(c->rcv_looping, 1);
	assert_true(net_send(&t->ep[0], 0, 0, 0, 0xffff, 64, 1));	/* reserved LIDs */
	assert_true(net_send(&t->ep[0], 0, 0, 0xffff, 0xffff, 64, 1));
	net_pump(t);
	assert_int_equal(c->rcv_malformed, 2);
	net_switch(t)->lft[9] = 7;						/* nobody there */
	assert_true(net_send(&t->ep[0], 0, 0, 9, 0xffff, 64, 1));
	net_pump(t);
	assert_int_equal(net_ctr(t, 7)->xmit_discards, 1);
	assert_int_equal(net_ctr(t, 7)->xmit_inactive_discards, 1);
	assert_int_equal(net_got(&t->ep[1], 0, 0, -1), 0);
	assert_int_equal(net_got(&t->ep[0], 0, 0, -1), 0);
	/* The lane still works. */
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 64, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 64, 1), 1);
	net_free(t);
}

/* Packets as nobody should send them. */
static void test_malformed(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ohca_port_counters *c = net_ctr(t, 1);
	uint8_t pkt[256], good[256];
	unsigned int r = 7;
	uint8_t *b;

	(void)state;
	memset(good, 0, sizeof(good));
	ib_build_bth(ib_build_lrh(good, 0, 0, IB_LNH_IBA_LOCAL, 3, 16, 2), IB_OP_UC_SEND_ONLY, 0, 0,
		     0xffff, 7, false, 0);
	memcpy(pkt, good, 64);
	pkt[0] = 0x10;				/* VL 1 on lane 0 */
	ep_send_raw(&t->ep[0], 0, pkt, 64);
	pkt[0] = 0x01;				/* LVer 1 */
	ep_send_raw(&t->ep[0], 0, pkt, 64);
	memcpy(pkt, good, 64);
	ep_send_raw(&t->ep[0], 0, pkt, 68);	/* PktLen too short, too long */
	ep_send_raw(&t->ep[0], 0, pkt, 60);
	pkt[1] = IB_LNH_IBA_GLOBAL;		/* no room for a GRH */
	pkt[5] = 15;
	ep_send_raw(&t->ep[0], 0, pkt, 60);
	net_pump(t);
	assert_int_equal(c->rcv_malformed, 5);
	assert_int_equal(c->rcv_errors, 5);
	assert_int_equal(net_ctr(t, 0)->rcv_pkts, 0);
	assert_int_equal(net_got(&t->ep[1], 0, 0, -1), 0);

	/* Flags of the link: a bad packet's end, a wrong VCRC, a right one. */
	b = ohca_link_tx_begin(t->ep[0].l, 0, 64);
	memcpy(b, good, 64);
	ohca_link_tx_commit(t->ep[0].l, 0, 64, OHCA_FRAME_EBP);
	b = ohca_link_tx_begin(t->ep[0].l, 0, 64);
	memcpy(b, good, 64);
	ohca_link_tx_commit_vcrc(t->ep[0].l, 0, 64, OHCA_FRAME_VCRC, (uint16_t)~ib_vcrc(good, 64));
	net_pump(t);
	assert_int_equal(c->rcv_remote_phys_errors, 1);
	assert_int_equal(c->rcv_local_phys_errors, 1);
	assert_int_equal(net_got(&t->ep[1], 0, 0, -1), 0);
	b = ohca_link_tx_begin(t->ep[0].l, 0, 64);
	memcpy(b, good, 64);
	ohca_link_tx_commit_vcrc(t->ep[0].l, 0, 64, OHCA_FRAME_VCRC | OHCA_FRAME_ICRC,
				 ib_vcrc(good, 64));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 64, 0), 1);

	for (int i = 0; i < 20000; i++) {
		size_t len = 12 + 4 * ((unsigned int)rand_r(&r) % 40);

		memcpy(pkt, good, sizeof(pkt));
		for (int k = rand_r(&r) % 4; k >= 0; k--)
			pkt[rand_r(&r) % 28] = (uint8_t)rand_r(&r);
		if (rand_r(&r) % 2)
			ib_put_be16(pkt + 4, (uint16_t)(len / 4));
		ep_send_raw(&t->ep[0], (unsigned int)rand_r(&r) % 4, pkt, len);
		net_pump(t);
		for (unsigned int e = 0; e < 2; e++)
			for (unsigned int vl = 0; vl < 4; vl++)
				net_got(&t->ep[e], vl, 0, -2);
	}
	net_free(t);
}

static void lower_mtu(struct ib_port_info *pi)
{
	pi->mtu = 1;
}

static void test_states_and_mtu(void **state)
{
	struct net *t = net_new(8, 2, 4, 0);

	(void)state;
	/* Init: nothing but VL15. */
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 64, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 0, -1), 0);
	assert_int_equal(net_ctr(t, 1)->rcv_switch_relay_errors, 0);
	assert_int_equal(ep_bring_up(t->ep, 2), 0);
	/* An Armed port that receives data becomes Active, an Armed port sends none. */
	net_pi(t, 1)->state = IB_PS_ARMED;
	t->m.epoch++;
	assert_true(net_send(&t->ep[1], 0, 0, 2, 0xffff, 64, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[0], 0, 0, -1), 0);
	assert_int_equal(net_ctr(t, 1)->xmit_discards, 1);
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 64, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 64, 1), 1);
	assert_int_equal(net_pi(t, 1)->state, IB_PS_ACTIVE);

	assert_int_equal(set_pi_of(t, 2, lower_mtu), 0);
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 256 + 24, 1));
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 512 + 24, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 256 + 24, 1), 1);
	assert_int_equal(net_ctr(t, 2)->xmit_mtu_discards, 1);
	assert_true(net_send(&t->ep[1], 0, 0, 2, 0xffff, 512 + 24, 1));
	net_pump(t);
	assert_int_equal(net_ctr(t, 2)->rcv_malformed, 1);
	net_free(t);
}

/* ---- multicast ----------------------------------------------------------------- */

static void join(struct net *t, unsigned int idx, uint16_t mask)
{
	uint8_t d[64] = { 0 };

	ib_mft_block_put(d, idx, mask);
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_MFT, 0, d), 0);
}

static void test_multicast(void **state)
{
	struct net *t = net_up(4, 2, 0);
	unsigned int sent = 0, got[4] = { 0 };

	(void)state;
	join(t, 5, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 0);
	assert_true(net_send(&t->ep[0], 0, 0, 0xc005, 0xffff, 200, 4));
	assert_true(net_send(&t->ep[0], 0, 0, 0xc006, 0xffff, 200, 4));	/* no members */
	assert_true(net_send(&t->ep[0], 0, 0, 0xd000, 0xffff, 200, 4));	/* no such entry */
	net_pump(t);
	assert_int_equal(net_got(&t->ep[0], 0, 200, 4), 0);
	assert_int_equal(net_got(&t->ep[1], 0, 200, 4), 1);
	assert_int_equal(net_got(&t->ep[2], 0, 200, 4), 1);
	assert_int_equal(net_got(&t->ep[3], 0, 200, 4), 0);
	assert_int_equal(net_ctr(t, 1)->mcast_rcv_pkts, 3);
	assert_int_equal(net_ctr(t, 2)->mcast_xmit_pkts, 1);
	/* A sender that is no member reaches all. */
	assert_true(net_send(&t->ep[3], 0, 0, 0xc005, 0xffff, 100, 5));
	net_pump(t);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(net_got(&t->ep[i], 0, 100, 5), 1);

	/* One member does not read: the others get theirs, nothing is lost or doubled. */
	for (int i = 0; i < 200; i++) {
		if (net_send(&t->ep[0], 0, 0, 0xc005, 0xffff, 4000, (uint8_t)sent))
			sent++;
		net_pump(t);
		got[1] += net_got(&t->ep[1], 0, 4000, (uint8_t)got[1]);
	}
	assert_true(sent < 200);
	assert_true(got[1] > 30);
	assert_true(got[1] < sent);		/* the head of the lane waits for member 2 */
	for (int i = 0; i < 200; i++) {
		got[1] += net_got(&t->ep[1], 0, 4000, -1);
		got[2] += net_got(&t->ep[2], 0, 4000, -1);
		net_pump(t);
	}
	assert_int_equal(got[1], sent);
	assert_int_equal(got[2], sent);
	assert_int_equal(t->d->blocked, 0);
	net_free(t);
}

/* ---- lanes and credits --------------------------------------------------------- */

static void set_sl2vl(struct net *t, unsigned int in, unsigned int out, uint8_t base)
{
	struct ib_sl2vl map;
	uint8_t d[64] = { 0 };

	for (uint8_t i = 0; i < 16; i++)
		map.vl[i] = (uint8_t)((i + base) & 15);
	ib_sl2vl_pack(&map, d);
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_SL2VL, in << 8 | out, d),
			 0);
}

static void test_sl2vl(void **state)
{
	struct net *t = net_up(2, 4, 0);

	(void)state;
	set_sl2vl(t, 1, 2, 1);
	for (unsigned int sl = 0; sl < 16; sl++) {
		assert_true(net_send(&t->ep[0], 0, sl, 3, 0xffff, 100, (uint8_t)sl));
		net_pump(t);
		for (unsigned int vl = 0; vl < 4; vl++)
			assert_int_equal(net_got(&t->ep[1], vl, 100, (int)sl),
					 ((sl + 1) & 15) == vl);
	}
	/* 14 is VL15: discard; 3 to 13 are VLs that are not operational. */
	assert_int_equal(net_ctr(t, 1)->rcv_vl_mapping, 12);
	net_free(t);
}

/* As many VLs as there can be: each SL has its own, and all of them carry traffic. */
static void test_15_vls(void **state)
{
	struct net *t = net_up(3, 15, 0);
	struct ib_port_info pi;
	struct ohca_link_err err;
	struct ohca_link_cfg few;
	uint8_t d[64] = { 0 };

	(void)state;
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, d), 0);
	ib_port_info_unpack(d, &pi);
	assert_int_equal(pi.op_vls, 5);
	assert_true(pi.vlarb_low_cap >= 15 && pi.vlarb_high_cap >= 15);
	for (unsigned int sl = 0; sl < 15; sl++) {
		assert_true(net_send(&t->ep[0], sl, sl, 3, 0xffff, 100, (uint8_t)sl));
		net_pump(t);
		assert_int_equal(net_got(&t->ep[1], sl, 100, (int)sl), 1);
	}
	/* All at once, and more than fits: the arbiter serves each. */
	for (unsigned int n = 0; n < 20; n++)
		for (unsigned int sl = 0; sl < 15; sl++)
			assert_true(net_send(&t->ep[0], sl, sl, 3, 0xffff, 1000, (uint8_t)sl));
	net_pump(t);
	for (unsigned int sl = 0; sl < 15; sl++)
		assert_int_equal(net_got(&t->ep[1], sl, 1000, (int)sl), 20);

	/* A peer with fewer: its SLs share them, until an SM says otherwise of its port. */
	set_sl2vl(t, 1, 2, 0);
	ohca_link_free(t->ep[2].l);
	ohca_link_cfg_init(&few);
	few.vl_cap = 8;
	assert_int_equal(net_attach(t, &t->ep[2], 0x102, 0, &few, &err), 0);
	t->ep[2].lid = 4;
	assert_int_equal(ep_set_state(&t->ep[0], 3, IB_PS_ACTIVE), 0);
	for (unsigned int sl = 0; sl < 16; sl++) {
		assert_true(net_send(&t->ep[0], 0, sl, 4, 0xffff, 100, (uint8_t)sl));
		net_pump(t);
		assert_int_equal(net_got(&t->ep[2], sl % 8, 100, (int)sl), 1);
	}
	net_free(t);
}

static void test_lanes_do_not_block(void **state)
{
	struct net *t = net_up(3, 2, 0);
	unsigned int sent = 0, got = 0;

	(void)state;
	/* End port 1 does not read VL 0: its buffer fills, then the switch's. */
	while (sent < 1000) {
		if (!net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, (uint8_t)sent))
			break;
		sent++;
		net_pump(t);
	}
	assert_in_range(sent, 60, 64);			/* two buffers of 2048 blocks */
	assert_int_not_equal(fab_blocked_lanes(t->d, net_port(t, 1)), 0);
	/* VL 1 on the same ports, and VL 0 between others, flow. */
	for (int i = 0; i < 500; i++) {
		assert_true(net_send(&t->ep[0], 1, 1, 3, 0xffff, 2000, 9));
		assert_true(net_send(&t->ep[2], 0, 0, 2, 0xffff, 2000, 8));
		net_pump(t);
		assert_int_equal(net_got(&t->ep[1], 1, 2000, 9), 1);
		assert_int_equal(net_got(&t->ep[0], 0, 2000, 8), 1);
	}
	/* So do SMPs. */
	assert_int_equal(ep_set_state(&t->ep[0], 2, IB_PS_ACTIVE), 0);
	/* The sleeper wakes: all comes, in order. */
	for (int i = 0; i < 100; i++) {
		uint8_t pkt[4200];

		while (ep_recv(&t->ep[1], 0, pkt, sizeof(pkt)))
			assert_int_equal(pkt[100], (uint8_t)got++);
		net_pump(t);
	}
	assert_int_equal(got, sent);
	assert_int_equal(t->d->blocked, 0);
	assert_int_equal(net_ctr(t, 2)->xmit_discards, 0);
	net_free(t);
}

static void short_hoq(struct ib_port_info *pi)
{
	pi->hoq_life = 8;	/* 1 ms */
	pi->vl_stall_count = 0;	/* never */
}

static void test_hoq_life(void **state)
{
	struct net *t = net_up(3, 2, 0);
	const uint64_t *rcv = &net_ctr(t, 1)->rcv_pkts;
	unsigned int sent = 0;
	uint64_t was;

	(void)state;
	assert_int_equal(set_pi_of(t, 2, short_hoq), 0);
	was = *rcv;
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1)) {
		sent++;
		net_pump(t);
	}
	assert_true(net_timers(t) <= 10000000);
	for (int i = 0; i < 300 && *rcv - was < sent; i++) {
		usleep(1500);
		net_pump(t);
	}
	/* What did not fit into the sleeping end port's buffer is gone; others are not. */
	assert_int_equal(*rcv - was, sent);
	assert_int_equal(net_ctr(t, 2)->xmit_discards, sent - net_got(&t->ep[1], 0, 4000, 1));
	assert_int_equal(net_ctr(t, 2)->xmit_hoq_discards, net_ctr(t, 2)->xmit_discards);
	assert_true(net_ctr(t, 2)->xmit_discards > 0);
	assert_true(net_send(&t->ep[0], 0, 0, 4, 0xffff, 4000, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[2], 0, 4000, 1), 1);
	net_free(t);
}

static void short_stall(struct ib_port_info *pi)
{
	pi->hoq_life = 14;	/* 67 ms */
	pi->vl_stall_count = 3;
}

/* Until the port has discarded @n packets in all; 10 s at most. */
static void pump_until_discards(struct net *t, unsigned int port, uint64_t n)
{
	for (int i = 0; i < 5000 && net_ctr(t, port)->xmit_discards < n; i++) {
		usleep(2000);
		net_pump(t);
	}
	assert_true(net_ctr(t, port)->xmit_discards >= n);
}

/* Of a lane nobody empties, the first packets hold others up; then it is stalled. */
static void test_vl_stall(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct fab_dport *out = net_port(t, 2);
	uint64_t before;
	unsigned int n;

	(void)state;
	assert_int_equal(t->d->cfg.hoq_scale, 1);
	assert_int_equal(set_pi_of(t, 2, short_stall), 0);
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1))
		net_pump(t);
	assert_int_equal(out->stalled, 0);
	pump_until_discards(t, 2, 3);
	assert_int_equal(out->stalled, 1 << 0);
	net_pump(t);

	/* Nothing waits for it any more; all of it is counted. */
	before = out->ctr->xmit_discards;
	for (int i = 0; i < 100; i++) {
		assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1));
		assert_true(net_send(&t->ep[0], 0, 0, 4, 0xffff, 4000, 2));
		net_pump(t);
		assert_int_equal(net_got(&t->ep[2], 0, 4000, 2), 1);
	}
	assert_int_equal(out->ctr->xmit_discards, before + 100);
	assert_int_equal(out->ctr->xmit_hoq_discards, out->ctr->xmit_discards);
	assert_int_equal(t->d->blocked, 0);
	/* Its other lanes are as they were. */
	assert_true(net_send(&t->ep[0], 1, 1, 3, 0xffff, 2000, 9));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 1, 2000, 9), 1);

	/* The stall ends; still no credit: one packet waits for HOQLife, not three. */
	assert_in_range(out->stall_end_ns[0] - fab_data_now(t->d), 0, 8 * 67200000ull);
	out->stall_end_ns[0] = 0;
	net_pump(t);
	assert_int_equal(out->stalled, 0);
	before = out->ctr->xmit_discards;
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1));
	net_pump(t);
	assert_int_equal(t->d->blocked, 1);
	pump_until_discards(t, 2, before + 1);
	assert_int_equal(out->stalled, 1 << 0);

	/* It is read again: when the stall is over packets pass, and the count starts anew. */
	assert_true(net_got(&t->ep[1], 0, 4000, 1) > 0);
	out->stall_end_ns[0] = 0;
	net_pump(t);
	for (n = 0; n < 10; n++)
		assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 4000, 1), 10);
	assert_int_equal(out->hoq_drops[0], 0);
	assert_int_equal(t->d->stalls, 0);
	net_free(t);
}

static void stall_at_once(struct ib_port_info *pi)
{
	pi->hoq_life = 8;	/* 1.048576 ms */
	pi->vl_stall_count = 1;
}

/* What waits for a lane when it is stalled, at another port, does not wait any longer. */
static void test_stall_of_others(void **state)
{
	struct net *t = net_up(3, 1, 0);
	const struct fab_dport *out = net_port(t, 2);

	(void)state;
	net_stop_clock(t);
	assert_int_equal(set_pi_of(t, 2, stall_at_once), 0);
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1))
		net_pump(t);
	assert_int_equal(t->d->blocked, 1);
	t->now_ns += 500000;
	assert_true(net_send(&t->ep[2], 0, 0, 3, 0xffff, 4000, 2));
	net_pump(t);
	assert_int_equal(t->d->blocked, 2);
	t->now_ns += 548576;
	net_pump(t);
	assert_int_equal(out->stalled, 0);
	t->now_ns++;
	net_pump(t);
	assert_int_equal(out->stalled, 1 << 0);
	assert_int_equal(t->d->blocked, 0);
	net_free(t);
}

/* With HOQLife stretched by 0 nothing is ever too old; by 5 it is five times as long. */
static void test_hoq_scale(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct ohca_port_counters *c = net_ctr(t, 2);

	(void)state;
	net_stop_clock(t);
	assert_int_equal(set_pi_of(t, 2, short_hoq), 0);
	t->d->cfg.hoq_scale = 0;
	t->m.epoch++;
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1))
		net_pump(t);
	for (unsigned int i = 0; i < 100; i++) {
		t->now_ns += 40000000;
		net_pump(t);
	}
	assert_int_equal(c->xmit_hoq_discards, 0);
	/* 1.048576 ms each */
	t->d->cfg.hoq_scale = 5;
	t->m.epoch++;
	net_port(t, 1)->lane[0].blocked_ns = fab_data_now(t->d);
	t->now_ns += 5 * 1048576;
	net_pump(t);
	assert_int_equal(c->xmit_hoq_discards, 0);
	t->now_ns += 1;
	net_pump(t);
	assert_int_equal(c->xmit_hoq_discards, 1);
	net_free(t);
}

/* Copies that are too old for one member are discarded, and the other has its own. */
static void test_old_mcast(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct ohca_port_counters *c = net_ctr(t, 2);
	unsigned int sent = 0, got = 0;

	(void)state;
	net_stop_clock(t);
	assert_int_equal(set_pi_of(t, 2, short_hoq), 0);
	join(t, 0, 1 << 2 | 1 << 3);
	for (unsigned int i = 0; i < 200; i++) {
		sent += net_send(&t->ep[0], 0, 0, IB_LID_MCAST_MIN, 0xffff, 4000, 3);
		t->now_ns += 2000000;
		net_pump(t);
		got += net_got(&t->ep[2], 0, 4000, 3);
	}
	t->now_ns += 2000000;
	net_pump(t);
	got += net_got(&t->ep[2], 0, 4000, 3);
	assert_int_equal(got, sent);
	assert_true(c->xmit_hoq_discards > 100);
	assert_int_equal(c->xmit_hoq_discards + net_got(&t->ep[1], 0, 4000, 3), sent);
	assert_int_equal(t->d->blocked, 0);
	net_free(t);
}

/* Time during which the switch itself stands still is not HOQLife. */
static void test_hoq_standstill(void **state)
{
	struct net *t = net_up(2, 2, 0);
	struct fab_dport *out = net_port(t, 2);

	(void)state;
	assert_int_equal(set_pi_of(t, 2, short_stall), 0);
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1))
		net_pump(t);
	assert_int_equal(t->d->blocked, 1);
	for (int i = 0; i < 3; i++) {
		usleep(100000);
		net_pump(t);
	}
	assert_int_equal(out->ctr->xmit_discards, 0);
	/* 67 ms of looking every 2 ms are. */
	pump_until_discards(t, 2, 1);
	net_free(t);
}

/* Copies for a stalled member are discarded, the others go. */
static void test_stalled_mcast(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct fab_dport *out = net_port(t, 2);
	uint64_t before;

	(void)state;
	assert_int_equal(set_pi_of(t, 2, short_stall), 0);
	join(t, 0, 1 << 2 | 1 << 3);
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1))
		net_pump(t);
	pump_until_discards(t, 2, 3);
	net_pump(t);
	before = out->ctr->xmit_hoq_discards;
	for (int i = 0; i < 50; i++) {
		assert_true(net_send(&t->ep[0], 0, 0, IB_LID_MCAST_MIN, 0xffff, 400, 3));
		net_pump(t);
		assert_int_equal(net_got(&t->ep[2], 0, 400, 3), 1);
	}
	assert_int_equal(out->ctr->xmit_hoq_discards, before + 50);
	/* A link that goes down takes its stall with it. */
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_int_equal(t->d->stalls, 0);
	assert_int_equal(out->stalled, 0);
	assert_int_equal(out->hoq_drops[0], 0);
	net_free(t);
}

/* Two inputs, two lanes, one output: bytes leave as the weights say. */
static void test_arbitration(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { 0, 30 }, { 1, 90 } };
	unsigned int n0, n1;
	uint8_t d[64];

	(void)state;
	ib_vlarb_block_pack(e, d);
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_VLARB, 1 << 16 | 3, d), 0);
	for (int i = 0; i < 200; i++) {
		assert_true(net_send(&t->ep[0], 0, 0, 4, 0xffff, 200, 1));
		assert_true(net_send(&t->ep[1], 1, 1, 4, 0xffff, 200, 2));
	}
	assert_true(fab_data_round(t->d));
	n0 = net_got(&t->ep[2], 0, 200, 1);
	n1 = net_got(&t->ep[2], 1, 200, 2);
	assert_int_equal(n0 + n1, 64);
	assert_in_range(n1, 40, 56);		/* 3 of 4 */
	net_pump(t);
	assert_int_equal(n0 + net_got(&t->ep[2], 0, 200, 1), 200);
	assert_int_equal(n1 + net_got(&t->ep[2], 1, 200, 2), 200);

	/* A lane without weight sends nothing until its packets are too old. */
	memset(e, 0, sizeof(e));
	e[0].weight = 10;
	ib_vlarb_block_pack(e, d);
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_VLARB, 1 << 16 | 3, d), 0);
	assert_true(net_send(&t->ep[1], 1, 1, 4, 0xffff, 200, 2));
	net_pump(t);
	assert_int_equal(fab_blocked_lanes(t->d, net_port(t, 2)), 1 << 1);
	assert_int_equal(set_pi_of(t, 3, short_hoq), 0);
	usleep(3000);
	net_pump(t);
	assert_int_equal(net_got(&t->ep[2], 1, 200, 2), 0);
	assert_int_equal(net_ctr(t, 3)->xmit_hoq_discards, 1);
	net_free(t);
}

/* Two inputs share an output's lane evenly. */
static void test_fairness(void **state)
{
	struct net *t = net_up(3, 1, 0);
	unsigned int from[2] = { 0 };
	uint8_t pkt[4200];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		for (unsigned int k = 0; k < 2; k++)
			while (net_send(&t->ep[k], 0, 0, 4, 0xffff, 1000, (uint8_t)k))
				;
		fab_data_round(t->d);
		for (int n = 0; n < 5 && ep_recv(&t->ep[2], 0, pkt, sizeof(pkt)); n++)
			from[pkt[100]]++;
	}
	assert_in_range(from[0] * 100 / (from[0] + from[1]), 45, 55);
	net_free(t);
}

/* So do unicast and multicast, by the packet on a lane and by their weights on two. */
static void test_mcast_fairness(void **state)
{
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { 0, 30 }, { 1, 90 } };
	struct net *t = net_up(4, 2, 0);
	unsigned int from[2] = { 0 }, n0, n1;
	uint8_t pkt[4200], d[64];

	(void)state;
	join(t, 0, 1 << 3 | 1 << 4);
	for (int i = 0; i < 2000; i++) {
		while (net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 1000, 0))
			;
		while (net_send(&t->ep[1], 0, 0, 4, 0xffff, 1000, 1))
			;
		fab_data_round(t->d);
		net_got(&t->ep[3], 0, 1000, 0);
		for (int n = 0; n < 5 && ep_recv(&t->ep[2], 0, pkt, sizeof(pkt)); n++)
			from[pkt[100]]++;
	}
	assert_in_range(from[0] * 100 / (from[0] + from[1]), 45, 55);
	for (int i = 0; i < 200; i++) {
		net_got(&t->ep[2], 0, 0, -2);
		net_got(&t->ep[3], 0, 0, -2);
		net_pump(t);
	}

	ib_vlarb_block_pack(e, d);
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_VLARB, 1 << 16 | 3, d), 0);
	for (int i = 0; i < 200; i++) {
		assert_true(net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 200, 1));
		assert_true(net_send(&t->ep[1], 1, 1, 4, 0xffff, 200, 2));
	}
	for (n0 = n1 = 0; n0 + n1 < 64;) {
		assert_true(fab_data_round(t->d));
		n0 += net_got(&t->ep[2], 0, 200, 1);
		n1 += net_got(&t->ep[2], 1, 200, 2);
	}
	assert_in_range(n1 * 100 / (n0 + n1), 62, 88);	/* 3 of 4 */
	net_pump(t);
	assert_int_equal(n0 + net_got(&t->ep[2], 0, 200, 1), 200);
	assert_int_equal(n1 + net_got(&t->ep[2], 1, 200, 2), 200);
	assert_int_equal(net_got(&t->ep[3], 0, 200, 1), 200);
	net_free(t);
}

/* A member whose port goes back to Init gets no more of a packet that waits for it. */
static void test_mcast_port_down(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct fab_dport *out = net_port(t, 2);
	uint64_t sent;

	(void)state;
	join(t, 0, 1 << 2 | 1 << 3);
	for (int i = 0; i < 100; i++) {
		net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 4000, 1);
		net_pump(t);
		net_got(&t->ep[2], 0, 4000, 1);
	}
	assert_int_not_equal(t->d->blocked, 0);
	sent = out->ctr->xmit_pkts;
	/* It is up again, and empty, by the time of the next round. */
	net_got(&t->ep[1], 0, 4000, 1);
	net_pi(t, out->num)->state = IB_PS_INIT;
	t->m.epoch++;
	net_pump(t);
	assert_int_equal(t->d->blocked, 0);
	assert_int_equal(out->ctr->xmit_pkts, sent);
	assert_true(out->ctr->xmit_inactive_discards > 0);
	net_free(t);
}

/* ---- partitions ---------------------------------------------------------------- */

static void set_pkeys(struct net *t, unsigned int port, uint16_t k0, uint16_t k1)
{
	uint8_t d[64] = { 0 };

	ib_pkey_block_put(d, 0, k0);
	ib_pkey_block_put(d, 1, k1);
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, port << 16, d),
			 0);
}

static void enforce_in(struct ib_port_info *pi)
{
	pi->part_enf_in = 1;
	pi->filter_raw_in = 1;
}

static void enforce_out(struct ib_port_info *pi)
{
	pi->part_enf_out = 1;
}

static bool passes(struct net *t, unsigned int from, uint16_t dlid, unsigned int to, uint16_t pkey)
{
	assert_true(net_send(&t->ep[from], 0, 0, dlid, pkey, 300, 3));
	net_pump(t);
	return net_got(&t->ep[to], 0, 300, 3) == 1;
}

static void test_pkeys(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct ohca_port_counters *c2 = net_ctr(t, 2), *c3 = net_ctr(t, 3);
	struct ib_notice n;
	struct ib_smp smp;
	uint8_t raw[64] = { 0 };
	uint64_t errors;

	(void)state;
	assert_true(passes(t, 1, 4, 2, 0x8005));	/* nothing is enforced yet */
	set_pkeys(t, 2, 0x8001, 0x0002);
	set_pkeys(t, 3, 0x8001, 0x8002);
	assert_int_equal(set_pi_of(t, 2, enforce_in), 0);
	while (ep_recv_smp(&t->ep[0], &smp))
		;
	assert_true(passes(t, 1, 4, 2, 0x8001));
	assert_true(passes(t, 1, 4, 2, 0x0001));	/* who is a full member may send so */
	assert_true(passes(t, 1, 4, 2, 0x0002));	/* a limited member */
	assert_false(passes(t, 1, 4, 2, 0x8002));	/* that says it is a full one */
	assert_false(passes(t, 1, 4, 2, 0x8005));
	assert_false(passes(t, 1, 4, 2, 0xffff));
	assert_int_equal(c2->rcv_constraint_errors, 3);
	assert_true(passes(t, 2, 3, 1, 0x8005));	/* the other way is not enforced */
	/* The SM was told. */
	assert_true(ep_recv_smp(&t->ep[0], &smp));
	ib_notice_unpack(smp.data, &n);
	assert_int_equal(n.trap, IB_TRAP_BAD_PKEY_SWITCH);
	assert_int_equal(ib_get_be16(n.details + 2), 3);	/* from, to, P_Key */
	assert_int_equal(ib_get_be16(n.details + 4), 4);
	assert_int_equal(ib_get_be16(n.details + 6), 0x8002);
	assert_false(ep_recv_smp(&t->ep[0], &smp));	/* once, not by the packet */

	/* Raw packets. */
	ib_build_lrh(raw, 0, 0, IB_LNH_RAW, 4, 16, 3);
	assert_true(ep_send_raw(&t->ep[1], 0, raw, 64));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[2], 0, 64, -1), 0);
	assert_int_equal(c2->rcv_constraint_errors, 4);
	ib_build_lrh(raw, 0, 0, IB_LNH_RAW, 3, 16, 4);
	assert_true(ep_send_raw(&t->ep[2], 0, raw, 64));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 64, -1), 1);

	/* On output. */
	assert_int_equal(set_pi_of(t, 3, enforce_out), 0);
	assert_false(passes(t, 0, 4, 2, 0x8005));
	assert_true(passes(t, 0, 4, 2, 0x8002));
	assert_true(passes(t, 0, 4, 2, 0x0002));
	assert_int_equal(c3->xmit_constraint_errors, 1);
	/* Of a limited member, to one that is limited, too. */
	set_pkeys(t, 3, 0x8001, 0x0002);
	assert_false(passes(t, 1, 4, 2, 0x0002));
	assert_true(passes(t, 0, 4, 2, 0x8002));
	assert_int_equal(c3->xmit_constraint_errors, 2);
	/* Per member of a multicast group. */
	join(t, 0, 1 << 2 | 1 << 3);
	assert_true(net_send(&t->ep[0], 0, 0, 0xc000, 0x8005, 300, 3));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 300, 3), 1);
	assert_int_equal(net_got(&t->ep[2], 0, 300, 3), 0);
	assert_int_equal(c3->xmit_constraint_errors, 3);
	/* Once for each packet, however long it waits for the other member. */
	while (net_send(&t->ep[0], 0, 0, 0xc000, 0x8005, 4000, 3))
		net_pump(t);
	assert_int_equal(t->d->blocked, 1);
	errors = c3->xmit_constraint_errors;
	for (unsigned int i = 0; i < 10; i++)
		fab_data_round(t->d);
	assert_int_equal(c3->xmit_constraint_errors, errors);
	/* SMPs are never filtered. */
	assert_int_equal(ep_set_state(&t->ep[0], 2, IB_PS_ACTIVE), 0);
	net_free(t);
}

/* As many P_Keys as an HCA's port holds, on both sides of a switch port that enforces. */
static void test_many_pkeys(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct ib_switch_info si;
	uint8_t d[64] = { 0 };

	(void)state;
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_GET, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_true(si.part_enforce_cap > 128);
	for (unsigned int block = 0; block < 4; block++) {
		for (unsigned int i = 0; i < 32; i++)
			ib_pkey_block_put(d, i, (uint16_t)(0x8001 + block * 32 + i));
		for (unsigned int port = 2; port <= 3; port++)
			assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE,
						   port << 16 | block, d), 0);
	}
	assert_int_equal(set_pi_of(t, 2, enforce_in), 0);
	assert_int_equal(set_pi_of(t, 3, enforce_out), 0);
	for (unsigned int k = 1; k <= 128; k++)
		assert_true(passes(t, 1, 4, 2, (uint16_t)(0x8000 + k)));
	assert_false(passes(t, 1, 4, 2, 0x8081));
	assert_false(passes(t, 1, 4, 2, 0xffff));
	assert_false(passes(t, 0, 4, 2, 0x8081));
	assert_int_equal(net_ctr(t, 2)->rcv_constraint_errors, 2);
	assert_int_equal(net_ctr(t, 3)->xmit_constraint_errors, 1);
	/* A block that is emptied no longer admits anybody. */
	memset(d, 0, sizeof(d));
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 2 << 16 | 3,
				   d), 0);
	assert_false(passes(t, 1, 4, 2, 0x8080));
	assert_true(passes(t, 1, 4, 2, 0x8060));
	net_free(t);
}

/* ---- links that go away in mid-traffic ----------------------------------------- */

static void test_death_in_traffic(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct ohca_link_err err;
	unsigned int n = 0;

	(void)state;
	/* The receiver dies with full buffers: its packets are discarded, others go on. */
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1))
		net_pump(t);
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_true(net_ctr(t, 2)->xmit_inactive_discards >= 30);
	assert_int_equal(t->d->blocked, 0);
	assert_true(net_send(&t->ep[0], 0, 0, 4, 0xffff, 400, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[2], 0, 400, 1), 1);

	/* The sender dies with a blocked head. */
	assert_int_equal(net_attach(t, &t->ep[1], 0x101, 0, NULL, &err), 0);
	assert_int_equal(t->ep[1].port, 2);
	t->ep[1].lid = 3;
	assert_int_equal(ep_set_state(&t->ep[0], 2, IB_PS_ACTIVE), 0);
	while (net_send(&t->ep[1], 0, 0, 4, 0xffff, 4000, 1))
		net_pump(t);
	assert_int_not_equal(t->d->blocked, 0);
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_int_equal(t->d->blocked, 0);
	for (unsigned int k; (k = net_got(&t->ep[2], 0, 4000, 1)); n += k)
		net_pump(t);
	assert_in_range(n, 30, 35);

	/* A hostile one: its link ends, nothing else. */
	assert_int_equal(net_attach(t, &t->ep[1], 0x101, 0, NULL, &err), 0);
	assert_int_equal(send(ohca_link_ctrl_fd(t->ep[1].l), "garbage", 7, 0), 7);
	net_pump(t);
	assert_null(net_port(t, 2)->link);
	assert_non_null(strstr(t->log, "does not speak"));
	assert_int_equal(net_ctr(t, 2)->local_link_integrity_errors, 1);
	assert_true(net_send(&t->ep[0], 0, 0, 4, 0xffff, 400, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[2], 0, 400, 1), 1);
	net_free(t);
}

/* A Set takes the input's or the output's link down in the very round it has frames. */
static void test_set_down_in_round(void **state)
{
	struct net *t = net_up(3, 2, 0);
	static const uint8_t path[] = { 1 };

	(void)state;
	for (unsigned int i = 0; i < 40; i++) {
		unsigned int victim = 2 + i % 2;
		struct ib_port_info pi = *net_pi(t, victim);
		struct ib_smp smp, in;
		uint8_t d[64];

		pi.state = IB_PS_DOWN;
		pi.phys_state = i % 4 < 2 ? IB_PHYS_DISABLED : 0;
		ib_port_info_pack(&pi, d);
		ep_smp_init(&t->ep[0], &smp, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, victim, d, 1,
			    path);
		assert_true(net_send(&t->ep[1], 0, 0, 4, 0xffff, 1000, 1));
		assert_true(net_send(&t->ep[2], 0, 0, 3, 0xffff, 1000, 1));
		assert_true(net_send(&t->ep[1], 1, 1, 4, 0xffff, 1000, 1));
		if (i % 3 == 0)		/* and the victim is dying anyway */
			send(ohca_link_ctrl_fd(t->ep[victim - 1].l), "x", 1, 0);
		assert_true(ep_send_smp(&t->ep[0], &smp, 0));
		for (unsigned int k = 0; k < i % 8; k++)
			t->d->first++;
		fab_data_round(t->d);
		net_pump(t);
		for (unsigned int k = 1; k < 3; k++) {
			struct ohca_link_err err;

			net_got(&t->ep[k], 0, 0, -2);
			net_got(&t->ep[k], 1, 0, -2);
			if (net_port(t, k + 1)->link)
				continue;
			ohca_link_free(t->ep[k].l);
			t->ep[k].l = NULL;
			assert_int_equal(net_attach(t, &t->ep[k], 0x100 + k, 0, NULL, &err), 0);
			t->ep[k].lid = (uint16_t)(k + 2);
		}
		pi.phys_state = IB_PHYS_POLLING;
		ib_port_info_pack(&pi, d);
		assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, victim,
					   d), 0);
		net_pump(t);
		assert_int_equal(ep_set_state(&t->ep[0], victim, IB_PS_ACTIVE), 0);
		while (ep_recv_smp(&t->ep[0], &in))
			;
	}
	assert_true(passes(t, 1, 4, 2, 0xffff));
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unicast),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_no_route),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_states_and_mtu),
		cmocka_unit_test(test_multicast),
		cmocka_unit_test(test_sl2vl),
		cmocka_unit_test(test_15_vls),
		cmocka_unit_test(test_lanes_do_not_block),
		cmocka_unit_test(test_hoq_life),
		cmocka_unit_test(test_vl_stall),
		cmocka_unit_test(test_stall_of_others),
		cmocka_unit_test(test_hoq_scale),
		cmocka_unit_test(test_old_mcast),
		cmocka_unit_test(test_hoq_standstill),
		cmocka_unit_test(test_stalled_mcast),
		cmocka_unit_test(test_arbitration),
		cmocka_unit_test(test_fairness),
		cmocka_unit_test(test_mcast_fairness),
		cmocka_unit_test(test_mcast_port_down),
		cmocka_unit_test(test_pkeys),
		cmocka_unit_test(test_many_pkeys),
		cmocka_unit_test(test_death_in_traffic),
		cmocka_unit_test(test_set_down_in_round),
	};

	return cmocka_run_group_tests_name("switch forwarding", tests, NULL, NULL);
}
