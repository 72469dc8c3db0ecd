// SPDX-License-Identifier: GPL-2.0-or-later
/* Counters of a switch, as its performance agent reports them, and PortXmitWait; MADs to QP1. */
#include "query.h"

#include "ib/crc.h"

static int gsi(struct net *t, struct ep *e, struct ib_mad *mad)
{
	uint8_t pkt[512];
	uint64_t tid = ++e->tid;
	size_t len;

	mad->hdr.base_version = 1;
	mad->hdr.class_version = 1;
	mad->hdr.tid = ib_to_be64(tid);
	len = ep_build(pkt, 0, 0, 1, e->lid, 1, IB_QKEY_GSI, 0xffff, mad);
	assert_true(ep_send_raw(e, 0, pkt, len));
	net_pump(t);
	len = ep_recv(e, 0, pkt, sizeof(pkt));
	if (!len)
		return -1;
	assert_int_equal(len, EP_SMP_PKT);
	assert_int_equal(ib_lrh_slid(ib_pkt_lrh(pkt)), 1);
	assert_int_equal(ib_get_be32(pkt + len - IB_ICRC_LEN), 0);	/* not computed */
	assert_int_equal(ib_get_be32(pkt + IB_LRH_LEN + IB_BTH_LEN), IB_QKEY_GSI);
	assert_int_equal(ib_get_be32(pkt + IB_LRH_LEN + IB_BTH_LEN + 4), IB_QP1);
	memcpy(mad, pkt + EP_SMP_HDR, sizeof(*mad));
	assert_int_equal(ib_be64(mad->hdr.tid), tid);
	assert_int_equal(mad->hdr.method, IB_METHOD_GET_RESP);
	return ib_be16(mad->hdr.status);
}

static void test_pma(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_pma_port_counters pc;
	struct ib_mad mad = { .hdr.mgmt_class = IB_CLASS_PERF, .hdr.method = IB_METHOD_GET };

	(void)state;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	assert_int_equal(((uint8_t *)&mad)[IB_PMA_DATA_OFF + 7] & 31, 8);	/* RespTimeValue */

	for (int i = 0; i < 5; i++)
		assert_true(net_send(&t->ep[1], 0, 0, 2, 0xffff, 400, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[0], 0, 400, 1), 5);
	memset(&mad, 0, sizeof(mad));
	memset(&pc, 0, sizeof(pc));
	mad.hdr.mgmt_class = IB_CLASS_PERF;
	mad.hdr.method = IB_METHOD_GET;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_PORT_COUNTERS);
	pc.port_select = 2;
	ib_pma_pc_pack(&pc, (uint8_t *)&mad + IB_PMA_DATA_OFF);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	ib_pma_pc_unpack((uint8_t *)&mad + IB_PMA_DATA_OFF, &pc);
	assert_int_equal(pc.rcv_pkts, 5);
	assert_int_equal(pc.rcv_data, 500);
	assert_int_equal(pc.xmit_pkts, 0);

	/* Requests of other classes get an error status; responses are ignored. */
	memset(&mad, 0, sizeof(mad));
	mad.hdr.mgmt_class = IB_CLASS_DEV_MGT;
	mad.hdr.method = IB_METHOD_SET;
	assert_int_equal(gsi(t, &t->ep[0], &mad), IB_MAD_BAD_METHOD_ATTR);
	memset(&mad, 0, sizeof(mad));
	mad.hdr.mgmt_class = 0x32;
	mad.hdr.method = IB_METHOD_GET;
	assert_int_equal(gsi(t, &t->ep[0], &mad), IB_MAD_BAD_METHOD_ATTR);
	memset(&mad, 0, sizeof(mad));
	mad.hdr.mgmt_class = IB_CLASS_PERF;
	mad.hdr.method = IB_METHOD_GET_RESP;
	assert_int_equal(gsi(t, &t->ep[0], &mad), -1);
	net_free(t);
}

/* A response is counted at its output port by its SL, which is the request's. */
static void test_reply_sl(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_mad mad = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF,
				       .class_version = 1, .method = IB_METHOD_GET } };
	uint8_t pkt[512];

	(void)state;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	ep_build(pkt, 1, 5, 1, t->ep[1].lid, IB_QP1, IB_QKEY_GSI, 0xffff, &mad);
	assert_true(ep_send_raw(&t->ep[1], 1, pkt, EP_SMP_PKT));
	net_pump(t);
	assert_int_equal(ep_recv(&t->ep[1], 1, pkt, sizeof(pkt)), EP_SMP_PKT);
	for (unsigned int i = 0; i <= 2; i++) {
		const struct ohca_port_counters *c = net_ctr(t, i);

		assert_int_equal(c->xmit_data_sl[5], i == 2 ? EP_SMP_PKT / 4 : 0);
		assert_int_equal(c->xmit_data_sl[1], 0);
		/* packets to port 0's agents are counted by number only */
		assert_int_equal(c->rcv_data_sl[5], i == 2 ? EP_SMP_PKT / 4 : 0);
		assert_int_equal(c->rcv_data_sl[1], 0);
	}
	net_free(t);
}

/* A Get of ClassPortInfo to the switch, with a GRH if @dgid is set. Return: its length. */
static size_t class_port_info(const struct ep *e, uint8_t *pkt, const uint8_t *dgid)
{
	struct ib_mad mad = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF,
				       .class_version = 1, .method = IB_METHOD_GET } };
	struct ib_mad_path path = {
		.slid = e->lid, .dlid = 1, .pkey = IB_DEFAULT_PKEY, .dqpn = IB_QP1,
		.sqpn = IB_QP1, .qkey = IB_QKEY_GSI, .global = dgid, .tclass = 0x5a,
		.flow = 0x12345, .hop_limit = 7,
	};

	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	memset(path.sgid, 0xa1, sizeof(path.sgid));
	if (dgid)
		memcpy(path.dgid, dgid, sizeof(path.dgid));
	return ib_build_mad(pkt, &path, &mad);
}

/* The response to a request with a GRH has a GRH with the GIDs exchanged (13.5.4). */
static void test_reply_grh(void **state)
{
	struct net *t = net_up(2, 4, 0);
	uint8_t pkt[512], dgid[16], asker[16];
	const struct ib_grh *grh = (const void *)(pkt + IB_LRH_LEN);
	size_t len;

	(void)state;
	memset(dgid, 0xb2, sizeof(dgid));
	memset(asker, 0xa1, sizeof(asker));
	len = class_port_info(&t->ep[1], pkt, dgid);
	assert_true(ep_send_raw(&t->ep[1], 0, pkt, len));
	net_pump(t);
	memset(pkt, 0, sizeof(pkt));
	assert_int_equal(ep_recv(&t->ep[1], 0, pkt, sizeof(pkt)), IB_MAD_PKT_MAX);
	assert_int_equal(pkt[1] & 3, IB_LNH_IBA_GLOBAL);
	assert_memory_equal(grh->sgid, dgid, sizeof(dgid));
	assert_memory_equal(grh->dgid, asker, sizeof(asker));
	assert_int_equal(ib_grh_tclass(grh), 0x5a);
	assert_int_equal(ib_grh_flow(grh), 0x12345);
	assert_int_equal(grh->hoplimit, 255);
	assert_int_equal(ib_be16(grh->paylen), IB_MAD_PKT_LEN - IB_LRH_LEN);
	/* a response to a request without a GRH has none */
	len = class_port_info(&t->ep[1], pkt, NULL);
	assert_true(ep_send_raw(&t->ep[1], 0, pkt, len));
	net_pump(t);
	assert_int_equal(ep_recv(&t->ep[1], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
	net_free(t);
}

/* Sends @pkt with its ICRC by @vl of @e; @wrong: with one bit changed that the ICRC covers. */
static void send_icrc(struct net *t, struct ep *e, unsigned int vl, uint8_t *pkt, size_t len,
		      bool wrong)
{
	uint32_t icrc = 0;
	uint8_t *b = ohca_link_tx_begin(e->l, vl, len);

	assert_non_null(b);
	assert_int_equal(ib_icrc(pkt, len - IB_ICRC_LEN, &icrc), 0);
	ib_icrc_put(pkt + len - IB_ICRC_LEN, icrc);
	memcpy(b, pkt, len);
	b[len - IB_ICRC_LEN - 1] ^= wrong;
	ohca_link_tx_commit(e->l, vl, len, OHCA_FRAME_ICRC);
	ohca_link_kick(e->l);
	net_pump(t);
}

/* No agent gets a MAD with a wrong ICRC; the port that received it counts it (7.8). */
static void test_wrong_icrc(void **state)
{
	struct net *t = net_up(2, 4, 0);
	const uint8_t path[] = { 0 };
	struct ib_smp smp;
	uint8_t pkt[512];
	size_t len;

	(void)state;
	len = class_port_info(&t->ep[1], pkt, NULL);
	send_icrc(t, &t->ep[1], 0, pkt, len, false);
	assert_int_equal(ep_recv(&t->ep[1], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
	len = class_port_info(&t->ep[1], pkt, NULL);
	send_icrc(t, &t->ep[1], 0, pkt, len, true);
	assert_int_equal(ep_recv(&t->ep[1], 0, pkt, sizeof(pkt)), 0);
	assert_int_equal(t->d->n.drop[FAB_DROP_DAMAGED], 1);
	assert_int_equal(net_ctr(t, 0)->rcv_local_phys_errors, 1);
	assert_int_equal(net_ctr(t, 0)->rcv_errors, 1);

	ep_smp_init(&t->ep[1], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 0, path);
	len = ep_build(pkt, IB_MGMT_VL, 0, IB_LID_PERMISSIVE, IB_LID_PERMISSIVE, 0, 0,
		       IB_DEFAULT_PKEY, &smp);
	send_icrc(t, &t->ep[1], IB_MGMT_VL, pkt, len, true);
	assert_int_equal(ep_recv(&t->ep[1], IB_MGMT_VL, pkt, sizeof(pkt)), 0);
	assert_int_equal(net_ctr(t, 2)->rcv_local_phys_errors, 1);
	len = ep_build(pkt, IB_MGMT_VL, 0, IB_LID_PERMISSIVE, IB_LID_PERMISSIVE, 0, 0,
		       IB_DEFAULT_PKEY, &smp);
	send_icrc(t, &t->ep[1], IB_MGMT_VL, pkt, len, false);
	assert_int_equal(ep_recv(&t->ep[1], IB_MGMT_VL, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
	net_free(t);
}

/* 64 responses wait for a client that does not read; further ones are counted as QP1Dropped. */
static void test_replies_full(void **state)
{
	enum { ASKED = 600 };
	struct net *t = net_up(2, 1, 0);
	struct ib_mad mad = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF,
				       .class_version = 1, .method = IB_METHOD_GET } };
	const uint64_t *dropped = &net_ctr(t, 2)->qp1_dropped;
	uint8_t pkt[512];
	unsigned int got = 0;

	(void)state;
	net_stop_clock(t);
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	for (unsigned int i = 0; i < ASKED; i++) {
		ep_build(pkt, 0, 0, 1, t->ep[1].lid, IB_QP1, IB_QKEY_GSI, 0xffff, &mad);
		assert_true(ep_send_raw(&t->ep[1], 0, pkt, EP_SMP_PKT));
		net_pump(t);
	}
	assert_int_equal(t->d->reply_count, FAB_PORT_REPLIES);
	assert_true(*dropped > 0);
	do {
		while (ep_recv(&t->ep[1], 0, pkt, sizeof(pkt)))
			got++;
		net_pump(t);
	} while (t->d->reply_count);
	got += net_got(&t->ep[1], 0, EP_SMP_PKT, -1);
	assert_int_equal(got, ASKED - *dropped);
	net_free(t);
}

/* Sampling begins and ends by the fabric's timers, at its times and not before. */
static void test_sampling(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_mad mad = { .hdr = { .mgmt_class = IB_CLASS_PERF, .method = IB_METHOD_SET } };
	struct ib_pma_samples_control c = { .port_select = 1, .sample_start = 30,
					    .sample_interval = 50 };
	const struct ib_pma_samples *s;

	(void)state;
	net_stop_clock(t);
	assert_true(net_timers(t) == UINT64_MAX);
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_SAMPLES_CONTROL);
	ib_pma_psc_pack(&c, (uint8_t *)&mad + IB_PMA_DATA_OFF);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	s = &net_node(t)->pma->agent.samples;
	assert_int_equal(s->ctl.sample_status, IB_PMA_SAMPLE_STARTED);
	t->now_ns = s->begin_ns - 1;
	assert_int_equal(net_timers(t), 1);
	assert_int_equal(s->ctl.sample_status, IB_PMA_SAMPLE_STARTED);
	t->now_ns++;
	assert_int_equal(net_timers(t), 50 * IB_PMA_TICK_NS);
	assert_int_equal(s->ctl.sample_status, IB_PMA_SAMPLE_RUNNING);
	t->now_ns += 50 * IB_PMA_TICK_NS - 1;
	assert_int_equal(net_timers(t), 1);
	assert_int_equal(s->ctl.sample_status, IB_PMA_SAMPLE_RUNNING);
	t->now_ns++;
	assert_true(net_timers(t) == UINT64_MAX);
	assert_int_equal(s->ctl.sample_status, IB_PMA_SAMPLE_DONE);
	net_free(t);
}

/* Changes of port 0's packets received and sent since @was. */
static void expect_port0(struct net *t, struct ohca_port_counters *was, unsigned int rcv,
			 unsigned int xmit)
{
	const unsigned int words = EP_SMP_PKT / 4;
	struct ohca_port_counters c;

	fab_counters(&t->m, net_index(t, 0), &c);
	assert_int_equal(c.rcv_pkts - was->rcv_pkts, rcv);
	assert_int_equal(c.ucast_rcv_pkts - was->ucast_rcv_pkts, rcv);
	assert_int_equal(c.rcv_data - was->rcv_data, words * rcv);
	assert_int_equal(c.xmit_pkts - was->xmit_pkts, xmit);
	assert_int_equal(c.ucast_xmit_pkts - was->ucast_xmit_pkts, xmit);
	assert_int_equal(c.xmit_data - was->xmit_data, words * xmit);
	*was = c;
}

/* Port 0 counts what the switch's agents receive and send, and no forwarded packets. */
static void test_port0(void **state)
{
	struct net *t = net_up(2, 4, 0);
	static const uint8_t to_peer[] = { 1, 2 };
	struct ib_mad mad = { .hdr = { .mgmt_class = IB_CLASS_PERF, .method = IB_METHOD_GET,
				       .attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO) } };
	struct ohca_port_counters was;
	struct ib_smp smp;
	uint8_t d[64], pkt[512];

	(void)state;
	net_stop_clock(t);
	fab_counters(&t->m, net_index(t, 0), &was);
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	expect_port0(t, &was, 1, 1);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	expect_port0(t, &was, 1, 1);
	/* a class without an agent; a wrong P_Key, which causes a trap */
	mad.hdr.mgmt_class = 0x32;
	mad.hdr.method = IB_METHOD_GET;
	assert_int_equal(gsi(t, &t->ep[0], &mad), IB_MAD_BAD_METHOD_ATTR);
	expect_port0(t, &was, 1, 1);
	ep_build(pkt, 0, 0, 1, 2, IB_QP1, IB_QKEY_GSI, 0x8001, &mad);
	assert_true(ep_send_raw(&t->ep[0], 0, pkt, EP_SMP_PKT));
	net_pump(t);
	expect_port0(t, &was, 1, 1);
	/* an SMP to the peer, and data */
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, to_peer);
	assert_true(ep_send_smp(&t->ep[0], &smp, IB_LID_PERMISSIVE));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[1], &smp));
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 100, 1));
	net_pump(t);
	expect_port0(t, &was, 0, 0);
	/* as its PMA reports: the request is counted, the response not yet */
	memset(&mad, 0, sizeof(mad));
	mad.hdr.mgmt_class = IB_CLASS_PERF;
	mad.hdr.method = IB_METHOD_GET;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_PORT_COUNTERS_EXT);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	assert_int_equal(ib_get_be64((uint8_t *)&mad + IB_PMA_DATA_OFF + 24), was.xmit_pkts);
	assert_int_equal(ib_get_be64((uint8_t *)&mad + IB_PMA_DATA_OFF + 32), was.rcv_pkts + 1);
	net_free(t);
}

static uint64_t counter(struct net *t, unsigned int port, bool vl)
{
	struct ib_mad mad = { .hdr = { .mgmt_class = IB_CLASS_PERF, .method = IB_METHOD_GET } };
	struct ib_pma_port_counters_ext pc = { .port_select = (uint8_t)port };
	uint8_t *d = (uint8_t *)&mad + IB_PMA_DATA_OFF;

	mad.hdr.attr_id = ib_to_be16(vl ? IB_PMA_ATTR_VL_XMIT_WAIT : IB_PMA_ATTR_PORT_COUNTERS_EXT);
	ib_pma_pce_pack(&pc, d);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	if (vl)
		return ib_get_be16(d + 4 + 2);
	ib_pma_pce_unpack(d, &pc);
	return pc.xmit_wait;
}

/* PortXmitWait of @port, and that of its VL 1, which has 16 bits. */
#define expect_wait(t, port, us) do {							\
	assert_int_equal(counter(t, port, false), us);					\
	assert_int_equal(counter(t, port, true), (us) < 65535 ? (us) : 65535);		\
} while (0)

static void set_hoq(struct net *t, unsigned int n, uint8_t life)
{
	struct ib_port_info pi;

	get_pi(t, n, &pi);
	pi.state = 0;
	pi.phys_state = 0;
	pi.hoq_life = life;
	pi.vl_stall_count = 0;
	assert_int_equal(set_pi(t, n, &pi), 0);
}

/*
 * Ticks in which a port had something to send and sent nothing. They are counted while it still
 * waits, once for three inputs, also for packets that HOQLife discards and for multicast.
 */
static void test_xmit_wait(void **state)
{
	struct net *t = net_up(4, 2, 0);
	uint8_t d[64] = { 0 };

	(void)state;
	net_stop_clock(t);
	set_hoq(t, 4, 31);		/* never */
	while (net_send(&t->ep[0], 1, 1, 5, 0xffff, 4000, 1))
		net_pump(t);
	for (unsigned int i = 1; i < 3; i++)
		assert_true(net_send(&t->ep[i], 1, 1, 5, 0xffff, 4000, 1));
	net_pump(t);
	expect_wait(t, 4, 0);
	t->now_ns += 51000000;
	expect_wait(t, 4, 51000);
	expect_wait(t, 4, 51000);
	for (int i = 0; i < 1000; i++) {	/* also by fractions of a tick */
		t->now_ns += 150100;
		net_pump(t);
	}
	expect_wait(t, 4, 201100);
	expect_wait(t, 1, 0);
	/*
	 * The port sends on another lane: only that tick is not counted, and the first lane still
	 * waits.
	 */
	assert_true(net_send(&t->ep[1], 0, 0, 5, 0xffff, 100, 2));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[3], 0, 100, 2), 1);
	t->now_ns += 1000000;
	expect_wait(t, 4, 202100);
	/* All packets leave: nothing waits any more. */
	for (int i = 0; i < 200; i++) {
		net_got(&t->ep[3], 1, 4000, 1);
		net_pump(t);
	}
	t->now_ns += 5000000;
	net_pump(t);
	expect_wait(t, 4, 202100);
	assert_int_equal(net_ctr(t, 4)->xmit_discards, 0);

	/* The time of packets that are discarded for their age counts, too. */
	set_hoq(t, 4, 8);		/* 1 ms */
	while (net_send(&t->ep[0], 1, 1, 5, 0xffff, 4000, 1))
		net_pump(t);
	for (int i = 0; i < 20; i++) {
		t->now_ns += 500000;
		net_pump(t);
	}
	assert_in_range(net_ctr(t, 4)->xmit_hoq_discards, 5, 10);
	expect_wait(t, 4, 212100);
	for (int i = 0; i < 200; i++) {
		t->now_ns += 2000000;
		net_pump(t);
	}
	assert_int_equal(t->d->blocked, 0);
	assert_true(counter(t, 4, false) > 220000);
	for (int i = 0; i < 200; i++)
		net_got(&t->ep[3], 1, 4000, 1);
	net_pump(t);

	/* A multicast group with a member that does not read, and one that does. */
	set_hoq(t, 4, 31);
	ib_mft_block_put(d, 0, 1 << 3 | 1 << 4);
	assert_int_equal(set(t, IB_SMP_ATTR_MFT, 0, d), 0);
	for (int i = 0; i < 100; i++) {
		net_send(&t->ep[0], 1, 1, 0xc000, 0xffff, 4000, 1);
		net_pump(t);
		net_got(&t->ep[2], 1, 4000, 1);
	}
	assert_int_not_equal(t->d->blocked, 0);
	net_ctr(t, 4)->xmit_wait = 0;
	net_ctr(t, 4)->xmit_wait_vl[1] = 0;
	t->now_ns += 20000000;
	expect_wait(t, 4, 20000);
	expect_wait(t, 3, 0);
	net_free(t);
}

/* A response to a node that grants no credits does not delay other responses. */
static void test_reply_waits_alone(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct ib_mad mad = { .hdr.mgmt_class = IB_CLASS_PERF, .hdr.method = IB_METHOD_GET };
	uint64_t before;
	unsigned int n;

	(void)state;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	/* Fill the buffer of end port 1 to the last block. */
	for (size_t len = 4000; len >= 24; len = len > 400 ? len - 400 : len - 4)
		for (n = 0; n < 100; n++) {
			if (ohca_link_tx_credits(net_port(t, 2)->link, 0) < (len + 2 + 63) / 64)
				break;
			assert_true(net_send(&t->ep[2], 0, 0, 3, 0xffff, len, 1));
			net_pump(t);
		}
	assert_int_equal(ohca_link_tx_credits(net_port(t, 2)->link, 0), 0);
	for (n = 0; n < 5; n++) {
		uint8_t pkt[512];
		struct ib_mad m = mad;
		size_t len;

		m.hdr.base_version = 1;
		m.hdr.class_version = 1;
		len = ep_build(pkt, 0, 0, 1, t->ep[1].lid, 1, IB_QKEY_GSI, 0xffff, &m);
		assert_true(ep_send_raw(&t->ep[1], 0, pkt, len));
		net_pump(t);
		assert_int_equal(t->d->reply_count, n + 1);
	}
	/* nor does a response that arrives with others and is the last of them */
	for (n = 0; n < 2; n++) {
		uint8_t pkt[512];
		struct ib_mad m = mad;

		m.hdr.base_version = 1;
		m.hdr.class_version = 1;
		ep_build(pkt, 0, 0, 1, t->ep[n].lid, 1, IB_QKEY_GSI, 0xffff, &m);
		assert_true(ep_send_raw(&t->ep[n], 0, pkt, EP_SMP_PKT));
	}
	net_pump(t);
	assert_int_equal(t->d->reply_count, 6);
	assert_int_equal(net_got(&t->ep[0], 0, EP_SMP_PKT, -1), 1);
	for (n = 0; n < 200; n++) {
		struct ib_mad m = mad;

		assert_int_equal(gsi(t, &t->ep[n & 2], &m), 0);
		assert_int_equal(t->d->reply_count, 6);
	}
	/* They do not wait for ever, and the timer returns the time of the next check. */
	assert_true(net_timers(t) <= 10000000);
	before = net_ctr(t, 2)->xmit_hoq_discards;
	net_pi(t, 2)->hoq_life = 0;
	for (n = 0; n < 5000 && t->d->reply_count; n++)
		net_pump(t);
	assert_int_equal(t->d->reply_count, 0);
	assert_int_equal(net_ctr(t, 2)->xmit_hoq_discards, before + 6);
	net_free(t);
}

static void test_gsi_checks(void **state)
{
	struct net *t = net_up(1, 4, 0);
	struct ib_mad mad = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1,
			 .method = IB_METHOD_GET },
	};
	static const struct {
		uint32_t qpn, qkey;
		uint16_t pkey;
		bool ok;
	} c[] = {
		{ 1, IB_QKEY_GSI, 0xffff, true },
		{ 1, IB_QKEY_GSI, 0x7fff, true },
		{ 1, IB_QKEY_GSI, 0x8001, false },
		{ 1, 1, 0xffff, false },
		{ 0, IB_QKEY_GSI, 0xffff, false },
		{ 2, IB_QKEY_GSI, 0xffff, false },
	};
	const struct ib_trap *v;
	uint8_t pkt[512];

	(void)state;
	net_stop_clock(t);
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		size_t len = ep_build(pkt, 0, 0, 1, 2, c[i].qpn, c[i].qkey, c[i].pkey, &mad);

		assert_true(ep_send_raw(&t->ep[0], 0, pkt, len));
		net_pump(t);
		assert_int_equal(ep_recv(&t->ep[0], 0, pkt, sizeof(pkt)) != 0, c[i].ok);
	}
	assert_int_equal(net_pi(t, 0)->pkey_violations, 1);
	assert_int_equal(net_pi(t, 0)->qkey_violations, 1);
	assert_int_equal(t->m.stats.lost, 4);
	/* both cause traps, one in SubnetTimeOut */
	v = waiting(t, IB_TRAP_BAD_PKEY);
	assert_non_null(v);
	assert_int_equal(v->n.type, IB_NOTICE_SECURITY);
	assert_int_equal(ib_get_be16(v->n.details + 2), 2);
	assert_int_equal(ib_get_be16(v->n.details + 4), 1);
	assert_int_equal(ib_get_be32(v->n.details + 6), 0x8001);
	v = waiting(t, IB_TRAP_BAD_QKEY);
	assert_non_null(v);
	assert_int_equal(ib_get_be32(v->n.details + 6), 1);
	assert_int_equal(v->sent + waiting(t, IB_TRAP_BAD_PKEY)->sent, 1);

	/* The response has the SL of the request, and that SL's VL. */
	ep_build(pkt, 2, 2, 1, 2, IB_QP1, IB_QKEY_GSI, 0xffff, &mad);
	assert_true(ep_send_raw(&t->ep[0], 2, pkt, EP_SMP_PKT));
	net_pump(t);
	assert_int_equal(ep_recv(&t->ep[0], 2, pkt, sizeof(pkt)), EP_SMP_PKT);
	assert_int_equal(pkt[0], 2 << 4);
	assert_int_equal(pkt[1] >> 4, 2);
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pma),
		cmocka_unit_test(test_sampling),
		cmocka_unit_test(test_reply_sl),
		cmocka_unit_test(test_reply_grh),
		cmocka_unit_test(test_wrong_icrc),
		cmocka_unit_test(test_replies_full),
		cmocka_unit_test(test_gsi_checks),
		cmocka_unit_test(test_port0),
		cmocka_unit_test(test_xmit_wait),
		cmocka_unit_test(test_reply_waits_alone),
	};

	return cmocka_run_group_tests_name("switch counters", tests, NULL, NULL);
}
