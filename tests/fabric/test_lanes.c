// SPDX-License-Identifier: GPL-2.0-or-later
/* Lanes of the switch: SL to VL, credits, packets that are too old, stalled lanes, arbitration. */
#include "net.h"

#include "fabric/data/clock.h"
#include "fabric/data/wait.h"

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

/* The maximum number of VLs: each SL has its own, and all of them carry traffic. */
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
	/* All at once, and more than fits: the arbiter serves each lane. */
	for (unsigned int n = 0; n < 20; n++)
		for (unsigned int sl = 0; sl < 15; sl++)
			assert_true(net_send(&t->ep[0], sl, sl, 3, 0xffff, 1000, (uint8_t)sl));
	net_pump(t);
	for (unsigned int sl = 0; sl < 15; sl++)
		assert_int_equal(net_got(&t->ep[1], sl, 1000, (int)sl), 20);

	/* A peer with fewer VLs: its SLs share them, until an SM sets the port's table. */
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
	/* VL 1 on the same ports, and VL 0 between others, pass. */
	for (int i = 0; i < 500; i++) {
		assert_true(net_send(&t->ep[0], 1, 1, 3, 0xffff, 2000, 9));
		assert_true(net_send(&t->ep[2], 0, 0, 2, 0xffff, 2000, 8));
		net_pump(t);
		assert_int_equal(net_got(&t->ep[1], 1, 2000, 9), 1);
		assert_int_equal(net_got(&t->ep[0], 0, 2000, 8), 1);
	}
	/* So do SMPs. */
	assert_int_equal(ep_set_state(&t->ep[0], 2, IB_PS_ACTIVE), 0);
	/* The end port reads again: everything arrives, in order. */
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
	assert_int_equal(net_set_pi(t, 2, short_hoq), 0);
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
	/* Packets that did not fit into the end port's buffer are discarded; others are not. */
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

/* Runs until the port has discarded @n packets in all; at most 10 s. */
static void pump_until_discards(struct net *t, unsigned int port, uint64_t n)
{
	for (int i = 0; i < 5000 && net_ctr(t, port)->xmit_discards < n; i++) {
		usleep(2000);
		net_pump(t);
	}
	assert_true(net_ctr(t, port)->xmit_discards >= n);
}

/* If a lane is not read, its first packets delay others; then it is stalled. */
static void test_vl_stall(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct fab_dport *out = net_port(t, 2);
	uint64_t before;
	unsigned int n;

	(void)state;
	assert_int_equal(t->d->cfg.hoq_scale, 1);
	assert_int_equal(net_set_pi(t, 2, short_stall), 0);
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
	/* Its other lanes are not affected. */
	assert_true(net_send(&t->ep[0], 1, 1, 3, 0xffff, 2000, 9));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[1], 1, 2000, 9), 1);

	/* The stall ends without credit: one packet waits for HOQLife, not three. */
	assert_in_range(out->out[0].stall_end_ns - fab_data_now(t->d), 0, 8 * 67200000ull);
	out->out[0].stall_end_ns = 0;
	t->d->stall_due_ns = 0;
	net_pump(t);
	assert_int_equal(out->stalled, 0);
	before = out->ctr->xmit_discards;
	assert_true(net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1));
	net_pump(t);
	assert_int_equal(t->d->blocked, 1);
	pump_until_discards(t, 2, before + 1);
	assert_int_equal(out->stalled, 1 << 0);

	/* The lane is read again: after the stall packets pass, and the count starts again. */
	assert_true(net_got(&t->ep[1], 0, 4000, 1) > 0);
	out->out[0].stall_end_ns = 0;
	t->d->stall_due_ns = 0;
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

/* A packet at another port that waits for the lane when it stalls does not wait any longer. */
static void test_stall_of_others(void **state)
{
	struct net *t = net_up(3, 1, 0);
	const struct fab_dport *out = net_port(t, 2);

	(void)state;
	net_stop_clock(t);
	assert_int_equal(net_set_pi(t, 2, stall_at_once), 0);
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

/* With a HOQLife scale of 0 no packet is ever too old; with 5 HOQLife is five times as long. */
static void test_hoq_scale(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct ohca_port_counters *c = net_ctr(t, 2);

	(void)state;
	net_stop_clock(t);
	assert_int_equal(net_set_pi(t, 2, short_hoq), 0);
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

/* Copies that are too old for one member are discarded, and the other one gets its own. */
static void test_old_mcast(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct ohca_port_counters *c = net_ctr(t, 2);
	unsigned int sent = 0, got = 0;

	(void)state;
	net_stop_clock(t);
	assert_int_equal(net_set_pi(t, 2, short_hoq), 0);
	net_join(t, 0, 1 << 2 | 1 << 3);
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

/* Time during which the switch itself stands still does not count for HOQLife. */
static void test_hoq_standstill(void **state)
{
	struct net *t = net_up(2, 2, 0);
	struct fab_dport *out = net_port(t, 2);

	(void)state;
	assert_int_equal(net_set_pi(t, 2, short_stall), 0);
	while (net_send(&t->ep[0], 0, 0, 3, 0xffff, 4000, 1))
		net_pump(t);
	assert_int_equal(t->d->blocked, 1);
	for (int i = 0; i < 3; i++) {
		usleep(100000);
		net_pump(t);
	}
	assert_int_equal(out->ctr->xmit_discards, 0);
	/* 67 ms with a check every 2 ms count */
	pump_until_discards(t, 2, 1);
	net_free(t);
}

/* Copies for a stalled member are discarded, the others pass. */
static void test_stalled_mcast(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct fab_dport *out = net_port(t, 2);
	uint64_t before;

	(void)state;
	assert_int_equal(net_set_pi(t, 2, short_stall), 0);
	net_join(t, 0, 1 << 2 | 1 << 3);
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
	/* A stall ends when the link goes down. */
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_int_equal(t->d->stalls, 0);
	assert_int_equal(out->stalled, 0);
	assert_int_equal(out->hoq_drops[0], 0);
	net_free(t);
}

/* Two inputs, two lanes, one output: bytes leave by the weights. */
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
	assert_true(net_round(t));
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
	assert_int_equal(net_set_pi(t, 3, short_hoq), 0);
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
		net_round(t);
		for (int n = 0; n < 5 && ep_recv(&t->ep[2], 0, pkt, sizeof(pkt)); n++)
			from[pkt[100]]++;
	}
	assert_in_range(from[0] * 100 / (from[0] + from[1]), 45, 55);
	net_free(t);
}

/* So do unicast and multicast: by packets on one lane, by their weights on two. */
static void test_mcast_fairness(void **state)
{
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { 0, 30 }, { 1, 90 } };
	struct net *t = net_up(4, 2, 0);
	unsigned int from[2] = { 0 }, n0, n1;
	uint8_t pkt[4200], d[64];

	(void)state;
	net_join(t, 0, 1 << 3 | 1 << 4);
	for (int i = 0; i < 2000; i++) {
		while (net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 1000, 0))
			;
		while (net_send(&t->ep[1], 0, 0, 4, 0xffff, 1000, 1))
			;
		net_round(t);
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
		assert_true(net_round(t));
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

/* A member whose port goes back to Init gets no copy of a packet that waits for it. */
static void test_mcast_port_down(void **state)
{
	struct net *t = net_up(3, 2, 0);
	struct fab_dport *out = net_port(t, 2);
	uint64_t sent;

	(void)state;
	net_join(t, 0, 1 << 2 | 1 << 3);
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
	do
		net_pump(t);
	while (net_got(&t->ep[2], 0, 4000, 1));
	assert_int_equal(t->d->blocked, 0);
	assert_int_equal(out->ctr->xmit_pkts, sent);
	assert_true(out->ctr->xmit_inactive_discards > 0);
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests_name("switch lanes", tests, NULL, NULL);
}
