// SPDX-License-Identifier: GPL-2.0-or-later
/* Routes of SMPs through a switch: directed, by LID, mixed; counters of VL15 packets. */
#include "query.h"

#include "ib/crc.h"

static void test_dr_forward(void **state)
{
	static const uint8_t path[] = { 1, 2 };
	struct net *t = net_new(8, 2, 4, 0);
	struct ib_smp smp, in;
	uint8_t out;

	(void)state;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, path);
	assert_true(ep_send_smp(&t->ep[0], &smp, 0));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(ib_smp_hop_ptr(&in), 2);
	assert_int_equal(in.ret_path[1], 1);
	/* The adapter responds. */
	assert_int_equal(ib_dr_recv(&in, false, 1, 1, &out), IB_DR_LOCAL);
	ib_smp_make_resp(&in, 0);
	in.data[0] = 77;
	assert_int_equal(ib_dr_send(&in, false, 1, &out), IB_DR_FORWARD);
	assert_int_equal(out, 1);
	assert_true(ep_send_smp(&t->ep[1], &in, 0));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[0], &in));
	assert_int_equal(in.data[0], 77);
	assert_int_equal(ib_dr_recv(&in, false, 1, 1, &out), IB_DR_LOCAL);
	assert_int_equal(in.hdr.tid, smp.hdr.tid);
	net_free(t);
}

static void test_dr_bad(void **state)
{
	static const struct {
		uint8_t path[3], hops, ptr, cnt;
	} bad[] = {
		{ { 1, 3 }, 2, 1, 2 },		/* port 3 is down */
		{ { 1, 0 }, 2, 1, 2 },		/* port 0 has no wire */
		{ { 1, 9 }, 2, 1, 2 },		/* no such port */
		{ { 1, 255 }, 2, 1, 2 },
		{ { 1, 2 }, 2, 1, 64 },		/* more hops than a path can have */
		{ { 1, 2 }, 2, 255, 255 },
		{ { 1, 2 }, 2, 4, 2 },		/* beyond the end of the path */
		{ { 1, 2 }, 2, 0, 2 },		/* as if from this node's manager */
		{ { 1, 2 }, 2, 62, 63 },		/* onward from port 0 */
	};
	struct net *t = net_new(8, 2, 4, 0);
	struct ib_smp smp, in;
	uint8_t d[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL,
			    bad[i].hops, bad[i].path);
		ib_smp_set_hops(&smp, bad[i].ptr, bad[i].cnt);
		assert_int_equal(ep_query(&t->ep[0], &smp), -1);
		assert_false(ep_recv_smp(&t->ep[1], &in));
	}
	/* Unsolicited responses with forged return paths. */
	for (unsigned int ptr = 0; ptr < 5; ptr++) {
		ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET_RESP, IB_SMP_ATTR_NODE_INFO, 0, NULL,
			    2, bad[0].path);
		smp.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
		memset(smp.ret_path, 200, sizeof(smp.ret_path));
		ib_smp_set_hops(&smp, (uint8_t)ptr, 2);
		assert_int_equal(ep_query(&t->ep[0], &smp), -1);
	}
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	net_free(t);
}

static void test_vl15_garbage(void **state)
{
	struct net *t = net_new(8, 2, 4, 0);
	uint8_t pkt[512] = { 0 }, mad[256] = { 0 }, d[64];
	unsigned int r = 1;

	(void)state;
	for (unsigned int i = 0; i < 3000; i++) {
		size_t len = ep_build(pkt, 15, 0, 0xffff, 0xffff, 0, 0, 0xffff, mad);

		mad[i % 24] = (uint8_t)rand_r(&r);
		if (i % 3 == 0)
			len = 12 + 4 * ((unsigned int)rand_r(&r) % 100);
		for (unsigned int k = 0; k < 1 + i % 4; k++)
			pkt[(unsigned int)rand_r(&r) % len] = (uint8_t)rand_r(&r);
		ep_send_raw(&t->ep[0], 15, pkt, len);
		net_pump(t);
		while (ep_recv(&t->ep[0], 15, pkt, sizeof(pkt)) ||
		       ep_recv(&t->ep[1], 15, pkt, sizeof(pkt)))
			;
	}
	assert_true(net_ctr(t, 1)->rcv_errors > 500);
	/* A random Set may have changed a port; the agent still responds. */
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	net_free(t);
}

/* VL15 packets that the wire has damaged, packets for a port that is down, and too many packets. */
static void test_vl15_counters(void **state)
{
	static const uint8_t path[] = { 1, 3 };
	struct net *t = net_new(8, 2, 4, 0);
	struct ohca_port_counters *c = net_ctr(t, 1);
	unsigned int fits = 0, lost, asked;
	uint64_t sent, dropped;
	uint8_t pkt[EP_SMP_PKT], *b;
	struct ib_smp smp, in;

	(void)state;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	ep_build(pkt, IB_MGMT_VL, 0, IB_LID_PERMISSIVE, IB_LID_PERMISSIVE, 0, 0, IB_DEFAULT_PKEY,
		 &smp);
	for (unsigned int bad = 0; bad < 3; bad++) {
		uint64_t pkts = c->rcv_pkts;

		b = ohca_link_tx_begin(t->ep[0].l, IB_MGMT_VL, sizeof(pkt));
		memcpy(b, pkt, sizeof(pkt));
		if (bad == 1)
			ohca_link_tx_commit(t->ep[0].l, IB_MGMT_VL, sizeof(pkt), OHCA_FRAME_EBP);
		else
			ohca_link_tx_commit_vcrc(t->ep[0].l, IB_MGMT_VL, sizeof(pkt),
						 OHCA_FRAME_VCRC,
						 ib_vcrc(pkt, sizeof(pkt)) ^ (bad == 2));
		net_pump(t);
		assert_int_equal(ep_recv_smp(&t->ep[0], &in), !bad);
		assert_int_equal(c->rcv_pkts, pkts + 1);
	}
	assert_int_equal(c->rcv_remote_phys_errors, 1);
	assert_int_equal(c->rcv_local_phys_errors, 1);
	assert_int_equal(c->rcv_errors, 1);
	ep_build(pkt, IB_MGMT_VL, 3, IB_LID_PERMISSIVE, IB_LID_PERMISSIVE, 0, 0, IB_DEFAULT_PKEY,
		 &smp);
	for (unsigned int bad = 0; bad < 2; bad++) {
		b = ohca_link_tx_begin(t->ep[0].l, IB_MGMT_VL, sizeof(pkt));
		memcpy(b, pkt, sizeof(pkt));
		ohca_link_tx_commit(t->ep[0].l, IB_MGMT_VL, sizeof(pkt), bad ? OHCA_FRAME_EBP : 0);
		net_pump(t);
		assert_int_equal(c->rcv_data_sl[3], (bad + 1) * sizeof(pkt) / 4);
		assert_int_equal(ep_recv_smp(&t->ep[0], &in), !bad);
	}

	/* A packet longer than any MAD. */
	sent = c->rcv_errors;
	b = ohca_link_tx_begin(t->ep[0].l, IB_MGMT_VL, MAX_MAD_PKT + 4);
	memset(b, 0, MAX_MAD_PKT + 4);
	ohca_link_tx_commit(t->ep[0].l, IB_MGMT_VL, MAX_MAD_PKT + 4, 0);
	net_pump(t);
	assert_int_equal(c->rcv_errors, sent + 1);
	assert_int_equal(c->rcv_malformed, 1);

	/*
	 * A response that does not fit the peer's buffer was sent; the peer counts it as dropped.
	 */
	sent = c->xmit_pkts;
	dropped = t->m.stats.lost;
	for (asked = 0; t->m.stats.lost == dropped && asked < 1000; asked++) {
		assert_true(ep_send_smp(&t->ep[0], &smp, 0));
		net_pump(t);
	}
	assert_int_equal(t->m.stats.lost, dropped + 1);
	assert_int_equal(c->xmit_pkts, sent + asked);
	while (ep_recv_smp(&t->ep[0], &in))
		;

	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, path);
	assert_true(ep_send_smp(&t->ep[0], &smp, 0));
	net_pump(t);
	assert_int_equal(net_ctr(t, 3)->xmit_discards, 1);
	assert_int_equal(net_ctr(t, 3)->xmit_inactive_discards, 1);

	/* A packet that found no room is counted even if the link goes down before a query. */
	while (ep_send_smp(&t->ep[1], &smp, 0))
		fits++;
	assert_true(fits > 0);
	for (lost = 1; lost < 5; lost++)
		assert_false(ep_send_smp(&t->ep[1], &smp, 0));
	for (unsigned int i = 0; i < 8; i++) {
		simple_step(t->ep[1].l);
		fab_data_ctrl(t->d, net_index(t, 2));
	}
	t->m.wires->count(t->m.wires_ctx, net_index(t, 2));
	t->m.wires->count(t->m.wires_ctx, net_index(t, 2));
	assert_int_equal(net_ctr(t, 2)->vl15_dropped, lost);
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_int_equal(net_ctr(t, 2)->vl15_dropped, lost);
	net_free(t);
}

static void test_lid_route(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_smp smp, in;
	uint8_t pkt[EP_SMP_PKT];

	(void)state;
	/* To the switch by its LID. */
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 0, NULL);
	smp.hdr.mgmt_class = IB_CLASS_SUBN_LID;
	smp.hdr.class_specific = 0;
	assert_true(ep_send_smp(&t->ep[1], &smp, 1));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(in.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(ib_be16(in.hdr.status), 0);
	assert_int_equal(in.data[2], 2);
	/* Between end ports, the SMP stays unchanged. */
	assert_true(ep_send_smp(&t->ep[1], &smp, 2));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[0], &in));
	assert_memory_equal(&in, &smp, sizeof(in));
	/* With any SL, although VL15 has none. */
	ep_build(pkt, IB_MGMT_VL, 3, 2, t->ep[1].lid, 0, 0, IB_DEFAULT_PKEY, &smp);
	assert_true(ep_send_raw(&t->ep[1], IB_MGMT_VL, pkt, sizeof(pkt)));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[0], &in));
	assert_int_equal(net_ctr(t, 1)->xmit_data_sl[3], sizeof(pkt) / 4);
	assert_int_equal(net_ctr(t, 2)->rcv_data_sl[3], sizeof(pkt) / 4);
	/* From a LID without a route: the response leaves by the port of the request. */
	t->ep[1].lid = 100;
	assert_true(ep_send_smp(&t->ep[1], &smp, 1));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(in.hdr.method, IB_METHOD_GET_RESP);
	/* To a LID without a route, and to a LID of the port itself. */
	assert_true(ep_send_smp(&t->ep[1], &smp, 50));
	assert_true(ep_send_smp(&t->ep[1], &smp, 3));
	net_pump(t);
	assert_false(ep_recv_smp(&t->ep[0], &in));
	assert_false(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(net_ctr(t, 2)->rcv_switch_relay_errors, 2);
	assert_int_equal(net_ctr(t, 2)->rcv_looping, 1);
	net_free(t);
}

/* A directed route that continues by LID after its hops. */
static void test_mixed_route(void **state)
{
	static const uint8_t path[] = { 1 };
	struct net *t = net_up(2, 4, 0);
	uint8_t got[512];
	struct ib_smp smp;

	(void)state;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	smp.dr_dlid = ib_to_be16(3);
	assert_true(ep_send_smp(&t->ep[0], &smp, 0));
	net_pump(t);
	assert_int_equal(ep_recv(&t->ep[1], 15, got, sizeof(got)), EP_SMP_PKT);
	assert_int_equal(ib_lrh_dlid(ib_pkt_lrh(got)), 3);
	assert_int_equal(ib_lrh_slid(ib_pkt_lrh(got)), 1);
	memcpy(&smp, got + EP_SMP_HDR, sizeof(smp));
	assert_int_equal(ib_smp_hop_ptr(&smp), 2);
	/* To a LID without a route: dropped. */
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	smp.dr_dlid = ib_to_be16(60);
	assert_int_equal(ep_query(&t->ep[0], &smp), -1);
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dr_forward),
		cmocka_unit_test(test_dr_bad),
		cmocka_unit_test(test_vl15_garbage),
		cmocka_unit_test(test_vl15_counters),
		cmocka_unit_test(test_lid_route),
		cmocka_unit_test(test_mixed_route),
	};

	return cmocka_run_group_tests_name("switch routes", tests, NULL, NULL);
}
