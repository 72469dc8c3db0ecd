// SPDX-License-Identifier: GPL-2.0-or-later
/* Data packets through the switch: tables, headers, multicast, partitions, links that go down. */
#include "net.h"

#include "fabric/mgmt/adaptive.h"
#include "ib/crc.h"
#include "link/link_priv.h"

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

/* The LRH leaves unchanged, except for the VL. */
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
	net_switch(t)->lft[9] = 7;						/* no peer there */
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

/* Invalid packets. */
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
	/* Init: only VL15 passes. */
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 64, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 0, -1), 0);
	assert_int_equal(net_ctr(t, 1)->rcv_switch_relay_errors, 0);
	assert_int_equal(ep_bring_up(t->ep, 2), 0);
	/* Data makes an Armed port that receives it Active; an Armed port sends none. */
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

	assert_int_equal(net_set_pi(t, 2, lower_mtu), 0);
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 256 + 24, 1));
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 512 + 24, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 0, 256 + 24, 1), 1);
	assert_int_equal(net_ctr(t, 2)->xmit_mtu_discards, 1);
	assert_int_equal(t->d->n.drop[FAB_DROP_MTU], 1);
	assert_true(net_send(&t->ep[1], 0, 0, 2, 0xffff, 512 + 24, 1));
	net_pump(t);
	assert_int_equal(net_ctr(t, 2)->rcv_malformed, 1);
	net_free(t);
}

/* ---- multicast ----------------------------------------------------------------- */

static void test_multicast(void **state)
{
	struct net *t = net_up(4, 2, 0);
	unsigned int sent = 0, got[4] = { 0 };

	(void)state;
	net_join(t, 5, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 0);
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
	/* A sender that is no member reaches all members. */
	assert_true(net_send(&t->ep[3], 0, 0, 0xc005, 0xffff, 100, 5));
	net_pump(t);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(net_got(&t->ep[i], 0, 100, 5), 1);

	/* One member does not read: the others get their copies, nothing is lost or doubled. */
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
	assert_true(net_send(&t->ep[from], 0, 6, dlid, pkey, 300, 3));
	net_pump(t);
	return net_got(&t->ep[to], 0, 300, 3) == 1;
}

static void test_pkeys(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct ohca_port_counters *c2 = net_ctr(t, 2), *c3 = net_ctr(t, 3);
	struct ib_key_violation v = {
		.lid1 = 3, .lid2 = 4, .key = 0x8002, .sl = 6, .qp2 = 7, .port = 2, .data_valid = 7,
	};
	uint8_t raw[64] = { 0 }, details[54];
	struct ib_notice n;
	struct ib_smp smp;
	uint64_t errors;

	(void)state;
	assert_true(passes(t, 1, 4, 2, 0x8005));	/* nothing is enforced yet */
	set_pkeys(t, 2, 0x8001, 0x0002);
	set_pkeys(t, 3, 0x8001, 0x8002);
	assert_int_equal(net_set_pi(t, 2, enforce_in), 0);
	while (ep_recv_smp(&t->ep[0], &smp))
		;
	assert_true(passes(t, 1, 4, 2, 0x8001));
	assert_true(passes(t, 1, 4, 2, 0x0001));	/* a full member may send this */
	assert_true(passes(t, 1, 4, 2, 0x0002));	/* a limited member */
	assert_false(passes(t, 1, 4, 2, 0x8002));	/* which claims to be a full one */
	assert_false(passes(t, 1, 4, 2, 0x8005));
	assert_false(passes(t, 1, 4, 2, 0xffff));
	assert_int_equal(c2->rcv_constraint_errors, 3);
	assert_true(passes(t, 2, 3, 1, 0x8005));	/* the other direction is not enforced */
	/* The SM gets a trap. */
	assert_true(ep_recv_smp(&t->ep[0], &smp));
	ib_notice_unpack(smp.data, &n);
	assert_int_equal(n.trap, IB_TRAP_BAD_PKEY_SWITCH);
	v.sw_lid = t->f->port[fab_port_of(net_node(t), 0)].pi.lid;
	ib_trap259(details, &v);
	assert_memory_equal(n.details, details, sizeof(details));
	assert_false(ep_recv_smp(&t->ep[0], &smp));	/* one trap, not one for each packet */

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

	/* For output. */
	assert_int_equal(net_set_pi(t, 3, enforce_out), 0);
	assert_false(passes(t, 0, 4, 2, 0x8005));
	assert_true(passes(t, 0, 4, 2, 0x8002));
	assert_true(passes(t, 0, 4, 2, 0x0002));
	assert_int_equal(c3->xmit_constraint_errors, 1);
	/* A limited member's packet for another limited member. */
	set_pkeys(t, 3, 0x8001, 0x0002);
	assert_false(passes(t, 1, 4, 2, 0x0002));
	assert_true(passes(t, 0, 4, 2, 0x8002));
	assert_int_equal(c3->xmit_constraint_errors, 2);
	/* For each member of a multicast group. */
	net_join(t, 0, 1 << 2 | 1 << 3);
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
		net_round(t);
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
	assert_int_equal(net_set_pi(t, 2, enforce_in), 0);
	assert_int_equal(net_set_pi(t, 3, enforce_out), 0);
	for (unsigned int k = 1; k <= 128; k++)
		assert_true(passes(t, 1, 4, 2, (uint16_t)(0x8000 + k)));
	assert_false(passes(t, 1, 4, 2, 0x8081));
	assert_false(passes(t, 1, 4, 2, 0xffff));
	assert_false(passes(t, 0, 4, 2, 0x8081));
	assert_int_equal(net_ctr(t, 2)->rcv_constraint_errors, 2);
	assert_int_equal(net_ctr(t, 3)->xmit_constraint_errors, 1);
	/* A block that is cleared admits no packet. */
	memset(d, 0, sizeof(d));
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 2 << 16 | 3,
				   d), 0);
	assert_false(passes(t, 1, 4, 2, 0x8080));
	assert_true(passes(t, 1, 4, 2, 0x8060));
	net_free(t);
}

/* ---- links that go down during traffic ----------------------------------------- */

static void test_death_in_traffic(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct ohca_link_err err;
	unsigned int n = 0;

	(void)state;
	/* The receiver closes with full buffers: its packets are discarded, others pass. */
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

	/* The sender closes with a blocked head. */
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

	/* A hostile end port: its link ends, nothing else. */
	assert_int_equal(net_attach(t, &t->ep[1], 0x101, 0, NULL, &err), 0);
	assert_int_equal(send(ohca_link_ctrl_fd(t->ep[1].l), "garbage!", 8, 0), 8);
	net_pump(t);
	assert_null(net_port(t, 2)->link);
	assert_non_null(strstr(t->log, "a record of kind 103"));
	assert_int_equal(net_ctr(t, 2)->local_link_integrity_errors, 1);
	assert_true(net_send(&t->ep[0], 0, 0, 4, 0xffff, 400, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[2], 0, 400, 1), 1);
	net_free(t);
}

/* A Set takes the input's or the output's link down in a round in which it has frames. */
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
		if (i % 3 == 0)		/* and the victim's link ends anyway */
			send(ohca_link_ctrl_fd(t->ep[victim - 1].l), "x", 1, 0);
		assert_true(ep_send_smp(&t->ep[0], &smp, 0));
		for (unsigned int k = 0; k < i % 8; k++)
			t->d->first++;
		net_round(t);
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
		cmocka_unit_test(test_pkeys),
		cmocka_unit_test(test_many_pkeys),
		cmocka_unit_test(test_death_in_traffic),
		cmocka_unit_test(test_set_down_in_round),
	};

	return cmocka_run_group_tests_name("switch forwarding", tests, NULL, NULL);
}
