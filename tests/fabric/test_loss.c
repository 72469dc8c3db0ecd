// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets that a wire loses and damages: as many as the fault says, and both ends count them. */
#include "faults.h"

#include "ib/crc.h"

/*
 * A wire that loses one of 16: the missing packets are counted by the fault and by the other end.
 */
static void test_loss(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	const struct fab_fault *x;
	unsigned int got;

	(void)st;
	assert_true(fab_fault_wire(&m, p, 1u << 28, 0, 5));
	got = send_many(2000);
	x = fab_extra_of(f, p)->fault;
	assert_in_range(x->lost, 90, 160);
	assert_int_equal(got + x->lost, 2000);
	assert_int_equal(d->n.drop[FAB_DROP_LOSS], x->lost);
	assert_int_equal(counters(q)->symbol_error, x->lost);
	assert_int_equal(counters(q)->rcv_errors, x->lost);
	assert_int_equal(counters(p)->symbol_error, 0);
	/* the same seed loses the same packets; without the fault nothing is lost */
	assert_true(fab_fault_wire(&m, p, 1u << 28, 0, 5));
	assert_int_equal(send_many(2000), got);
	assert_true(fab_fault_wire(&m, p, 0, 0, 5));
	assert_int_equal(send_many(500), 500);
}

/* Return: how many of 200,000 packets of @len bytes the wire loses. */
static unsigned int lost_of_len(struct fab_fault *x, uint32_t len)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < 200000; i++)
		n += fab_fault_loses(x, len);
	return n;
}

/* Bit errors: a packet with a wrong bit is lost, and longer packets are lost more often. */
static void test_bit_errors(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	struct fab_fault *x;
	unsigned int got;

	(void)st;
	assert_true(fab_fault_errors(&m, p, 100000, 5));
	x = fab_extra_of(f, p)->fault;
	/* 1 - e^(-bits / 100000) of 528 and 32,976 bits: 1,053 and 56,180 within 5 std. deviations */
	assert_in_range(lost_of_len(x, 64), 893, 1213);
	assert_in_range(lost_of_len(x, 4120), 55175, 57185);
	/* the other direction has errors of its own */
	assert_in_range(lost_of_len(fab_extra_of(f, q)->fault, 64), 893, 1213);
	/* packets on a wire: 528 bits each, one error in 4,000 bits */
	assert_true(fab_fault_errors(&m, p, 4000, 5));
	got = send_many(2000);
	assert_in_range(x->lost, 200, 300);
	assert_int_equal(got + x->lost, 2000);
	assert_int_equal(counters(q)->symbol_error, x->lost);
	assert_int_equal(counters(q)->rcv_errors, x->lost);
	assert_int_equal(counters(p)->symbol_error, 0);
	/* by the seed */
	assert_true(fab_fault_errors(&m, p, 4000, 5));
	assert_int_equal(send_many(2000), got);
	assert_true(fab_fault_errors(&m, p, 4000, 6));
	assert_int_not_equal(send_many(2000), got);
	/* MADs have bit errors, too */
	got = 0;
	for (unsigned int i = 0; i < 100; i++)
		got += get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0,
			       LID(f->port[q].node)) == FAB_LOST;
	assert_in_range(got, 40, 85);
	/* losses by packets are added, and stay */
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 5));
	assert_in_range(send_many(2000), 750, 970);
	assert_true(fab_fault_errors(&m, p, 0, 5));
	assert_in_range(send_many(2000), 900, 1100);
	assert_true(fab_fault_wire(&m, p, 0, 0, 5));
	assert_int_equal(send_many(500), 500);
}

/*
 * More errors than LocalPhyErrors without good packets between them are an error of the link's
 * integrity, at the end that receives them. A trap reports it to the subnet manager.
 */
static void test_integrity(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	const struct ib_notice *n;
	uint64_t before;

	(void)st;
	assert_int_equal(f->port[q].pi.local_phy_errors, 8);
	/* one of four: the good ones reset the count */
	assert_true(fab_fault_wire(&m, p, 1u << 30, 0, 5));
	send_many(2000);
	assert_true(counters(q)->symbol_error > 400);
	assert_int_equal(counters(q)->local_link_integrity_errors, 0);
	assert_null(integrity_trap(q));
	/* all: the ninth */
	assert_true(fab_fault_wire(&m, p, UINT32_MAX, 0, 5));
	assert_int_equal(send_many(8), 0);
	assert_int_equal(counters(q)->local_link_integrity_errors, 0);
	before = m.stats.traps;
	assert_int_equal(send_many(1), 0);
	assert_int_equal(counters(q)->local_link_integrity_errors, 1);
	assert_int_equal(counters(p)->local_link_integrity_errors, 0);
	assert_true(m.stats.traps > before);
	n = integrity_trap(q);
	assert_non_null(n);
	assert_int_equal(n->type, IB_NOTICE_URGENT);
	assert_int_equal(ib_get_be16(n->details + 2), LID(f->port[q].node));
	assert_int_equal(n->details[4], fab_port_num(f, q));
	assert_null(integrity_trap(p));
	/* the count continues, but traps are limited */
	before = m.stats.traps;
	assert_int_equal(send_many(900), 0);
	assert_int_equal(counters(q)->local_link_integrity_errors, 101);
	assert_int_equal(m.stats.traps, before);
	/* another threshold; packets of a machine are errors of the switch's port */
	assert_true(fab_fault_wire(&m, p, 0, 0, 5));
	f->port[port_of_host(1)].pi.local_phy_errors = 3;
	assert_true(fab_fault_wire(&m, port_of_host(1), UINT32_MAX, 0, 5));
	assert_int_equal(send_many(3), 0);
	assert_int_equal(counters(port_of_host(1))->local_link_integrity_errors, 0);
	assert_int_equal(send_many(1), 0);
	assert_int_equal(counters(port_of_host(1))->local_link_integrity_errors, 1);
}

/* MADs are lost, too. */
static void test_loss_of_mads(void **st)
{
	const uint32_t p = inner();
	unsigned int lost = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 7));
	for (unsigned int i = 0; i < 100; i++)
		lost += get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0,
				LID(f->port[f->port[p].peer].node)) == FAB_LOST;
	assert_in_range(lost, 50, 95);
}

/* The cable of a machine: packets to it have a wrong VCRC, packets from it do not arrive. */
static void test_loss_at_machine(void **st)
{
	const uint32_t p = port_of_host(7);
	struct ohca_link_frame fr;
	unsigned int good = 0, bad = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 9));
	for (unsigned int i = 0; i < 100; i++) {
		assert_true(send_data(0, 0, LID(7), 64, (uint8_t)i));
		pump(NULL);
		assert_true(ohca_link_rx_peek(host[1].l, 0, &fr));
		if (!(fr.flags & OHCA_FRAME_VCRC))
			good++;
		else if (ib_vcrc(fr.data, fr.len) != fr.vcrc)
			bad++;
		ohca_link_rx_release(host[1].l, 0);
	}
	assert_int_equal(good + bad, 100);
	assert_int_equal(bad, d->n.drop[FAB_DROP_LOSS]);
	assert_in_range(bad, 30, 70);
	good = (unsigned int)d->n.delivered;
	for (unsigned int i = 0; i < 100; i++)
		assert_true(send_data(1, 0, LID(1), 64, (uint8_t)i));
	pump(NULL);
	assert_int_equal(counters(p)->symbol_error, d->n.drop[FAB_DROP_LOSS] - bad);
	assert_int_equal(d->n.delivered - good + counters(p)->symbol_error, 100);
	assert_in_range(counters(p)->symbol_error, 30, 70);
}

/* The same for MADs of agents, by VL15 and by a data lane. */
static void test_mads_at_machine(void **st)
{
	const uint32_t p = port_of_host(7);
	const uint8_t path[] = { 1 };
	unsigned int good = 0, bad = 0, came;
	struct ohca_link_frame fr;
	struct ib_smp smp;

	(void)st;
	pump(NULL);
	while (ohca_link_rx_peek(host[1].l, OHCA_LINK_VL15, &fr))
		ohca_link_rx_release(host[1].l, OHCA_LINK_VL15);
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 9));
	for (unsigned int i = 0; i < 200; i++) {
		struct fab_mad mad = new_mad(i & 1 ? IB_CLASS_PERF : IB_CLASS_SUBN_LID,
					     IB_METHOD_GET, IB_ATTR_CLASS_PORT_INFO, 0);
		const unsigned int vl = i & 1 ? 0 : OHCA_LINK_VL15;

		mad.dqp = mad.sqp = i & 1;
		mad.dlid = LID(7);
		mad.slid = LID(8);
		fab_forward(&m, p, &mad);
		pump(NULL);
		assert_true(ohca_link_rx_peek(host[1].l, vl, &fr));
		if (!(fr.flags & OHCA_FRAME_VCRC))
			good++;
		else if (ib_vcrc(fr.data, fr.len) != fr.vcrc)
			bad++;
		ohca_link_rx_release(host[1].l, vl);
	}
	assert_int_equal(good + bad, 200);
	assert_in_range(bad, 60, 140);
	assert_int_equal(fab_extra_of(f, p)->fault->lost, bad);
	/* SMPs that the machine sends to the switch itself and that are lost */
	came = (unsigned int)d->n.mads_in;
	for (unsigned int i = 0; i < 100; i++) {
		ep_smp_init(&host[1], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
		assert_true(ep_send_smp(&host[1], &smp, 0));
		pump(NULL);
	}
	came = (unsigned int)d->n.mads_in - came;
	assert_in_range(came, 30, 70);
	assert_int_equal(counters(p)->symbol_error, 100 - came);
}

/* The least significant byte comes first. */
static uint32_t icrc_of(const uint8_t *b)
{
	return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

/*
 * Damage on an inner wire that only the ICRC reveals; packets that wait on their way have it, too.
 */
static void test_corrupt(void **st)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	struct ohca_link_frame fr;
	unsigned int bad = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, inner(), 0, 1u << 30, 11));
	for (unsigned int i = 0; i < 50; i++)
		assert_true(send_data(0, 0, LID(7), 2048, 0x11));
	pump(NULL);
	for (unsigned int i = 0; i < 50; i++) {
		uint32_t icrc = 0;

		assert_true(ohca_link_rx_peek(host[1].l, 0, &fr));
		memcpy(pkt, fr.data, fr.len);
		ohca_link_rx_release(host[1].l, 0);
		ohca_link_kick(host[1].l);
		pump(NULL);
		if (!(fr.flags & OHCA_FRAME_ICRC)) {
			assert_int_equal(pkt[2043], 0x11);
			continue;
		}
		bad++;
		assert_int_equal(pkt[2043], 0x10);
		assert_int_equal(ib_icrc(pkt, 2044, &icrc), 0);
		assert_int_not_equal(icrc, icrc_of(pkt + 2044));
		pkt[2043] ^= 1;
		assert_int_equal(ib_icrc(pkt, 2044, &icrc), 0);
		assert_int_equal(icrc, icrc_of(pkt + 2044));
	}
	assert_int_equal(bad, fab_extra_of(f, inner())->fault->corrupted);
	assert_in_range(bad, 4, 25);
}

/* A request that was damaged, and has waited at its destination, is not answered either. */
static void test_corrupt_mad(void **st)
{
	const uint32_t p = inner(), far = f->port[f->port[p].peer].node;
	struct ib_mad mad = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF,
				       .class_version = 1, .method = IB_METHOD_GET } };
	uint8_t pkt[512];

	(void)st;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	assert_true(fab_fault_delay(&m, p, 5000000));
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(fab_fault_wire(&m, p, 0, i ? UINT32_MAX : 0, 11));
		ep_build(pkt, 0, 0, LID(far), host[0].lid, IB_QP1, IB_QKEY_GSI, IB_DEFAULT_PKEY,
			 &mad);
		assert_true(ep_send_raw(&host[0], 0, pkt, IB_MAD_PKT_LEN));
		later(1000);
		assert_int_equal(d->flying, 1);
		later(5000000);
		assert_int_equal(d->flying, 0);
		later(5000000);
		assert_int_equal(ep_recv(&host[0], 0, pkt, sizeof(pkt)), i ? 0 : IB_MAD_PKT_LEN);
		assert_int_equal(d->n.drop[FAB_DROP_DAMAGED], i);
	}
}

/* The loss of a packet is decided once, however often tables change while it waits. */
static void test_loss_once(void **st)
{
	unsigned int sent = 0;

	(void)st;
	for (unsigned int i = 0; i < 100; i++) {
		while (send_data(0, 0, LID(7), 4096, 1))
			sent++;
		pump(NULL);
	}
	assert_true(fab_fault_wire(&m, port_of_host(1), 1u << 28, 0, 3));
	for (unsigned int i = 0; i < 1000; i++) {
		m.epoch++;
		pump_once();
	}
	assert_in_range(d->n.drop[FAB_DROP_LOSS], 0, 8);
	assert_true(sent > 31);
}

/* At a small rate the first packets are not lost, whatever the seed. */
static void test_seeds(void **st)
{
	struct fab_fault *x;

	(void)st;
	for (uint64_t seed = 0; seed < 50; seed++) {
		assert_true(fab_fault_wire(&m, inner(), 4295, 0, seed));
		x = fab_extra_of(f, inner())->fault;
		assert_false(fab_fault_hits(x, x->loss));
	}
}

/* A frame with a VCRC: a good one is damaged after the check; a bad one stays as it is. */
static void test_corrupt_vcrc(void **st)
{
	const uint32_t in = port_of_host(1);
	uint8_t pkt[256];
	uint8_t *p = ib_build_lrh(pkt, 0, 0, IB_LNH_IBA_LOCAL, LID(7), sizeof(pkt) / 4, LID(1));
	struct ohca_link_frame fr;

	(void)st;
	p = ib_build_bth(p, IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 7, false, 3);
	memset(p, 0x11, sizeof(pkt) - (size_t)(p - pkt));
	assert_true(fab_fault_wire(&m, port_of_host(1), 0, UINT32_MAX, 11));
	for (unsigned int later = 0; later < 2; later++) {
		assert_true(fab_fault_delay(&m, port_of_host(1), later * 1000000));
		for (unsigned int wrong = 0; wrong < 2; wrong++) {
			uint8_t *b = ohca_link_tx_begin(host[0].l, 0, sizeof(pkt));

			assert_non_null(b);
			memcpy(b, pkt, sizeof(pkt));
			ohca_link_tx_commit_vcrc(host[0].l, 0, sizeof(pkt), OHCA_FRAME_VCRC,
						 (uint16_t)(ib_vcrc(pkt, sizeof(pkt)) ^ wrong));
			ohca_link_kick(host[0].l);
			pump(NULL);
			now += 1000000;
			pump(NULL);
			assert_int_equal(counters(in)->rcv_errors, later + wrong);
			assert_int_equal(counters(in)->rcv_local_phys_errors, later + wrong);
			if (wrong) {
				assert_int_equal(count_data(1, 0), 0);
				continue;
			}
			assert_true(ohca_link_rx_peek(host[1].l, 0, &fr));
			assert_int_equal(fr.flags, OHCA_FRAME_ICRC);
			assert_int_equal(fr.data[251], 0x10);
			ohca_link_rx_release(host[1].l, 0);
			ohca_link_kick(host[1].l);
		}
	}
}

/* A machine's own cable damages packets from it, and packets to it, with and without a delay. */
static void test_corrupt_at_machine(void **st)
{
	struct ohca_link_frame fr;
	unsigned int sent = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, port_of_host(1), 0, UINT32_MAX, 11));
	for (unsigned int later_ns = 0; later_ns <= 2000000; later_ns += 1000000) {
		for (unsigned int back = 0; back < 2; back++) {
			struct ep *to = &host[1 - back];

			assert_true(fab_fault_delay(&m, f->port[port_of_host(1)].peer, later_ns));
			assert_true(fab_fault_delay(&m, port_of_host(1), later_ns));
			/* the first one is decided twice, and damaged once */
			assert_true(send_data(back, 0, LID(back ? 1 : 7), 256, 0x11));
			pump_once();
			m.epoch++;
			pump(NULL);
			now += later_ns;
			pump(NULL);
			sent++;
			assert_true(ohca_link_rx_peek(to->l, 0, &fr));
			assert_int_equal(fr.flags & OHCA_FRAME_ICRC, OHCA_FRAME_ICRC);
			assert_int_equal(fr.data[251], 0x10);
			ohca_link_rx_release(to->l, 0);
			ohca_link_kick(to->l);
			pump(NULL);
		}
	}
	assert_int_equal(fab_extra_of(f, port_of_host(1))->fault->corrupted +
			 fab_extra_of(f, f->port[port_of_host(1)].peer)->fault->corrupted, sent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_loss), T(test_bit_errors), T(test_integrity), T(test_loss_of_mads), T(test_loss_at_machine),
		T(test_mads_at_machine), T(test_corrupt), T(test_corrupt_mad),
		T(test_loss_once), T(test_seeds), T(test_corrupt_at_machine), T(test_corrupt_vcrc),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
