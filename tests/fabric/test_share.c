// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PortXmitWait of every port on a blocked route, and the shares of lanes at an output by its
 * VLArbitrationTables (IBTA volume 1, 7.6.9 and 16.1.3.5). Time passes only by changes of now.
 * Wires have no rates here, so an arbiter decides only if a round of the data path ends before the
 * packets of an output do: at a switch that all of them reach by links. With rates it always
 * decides: test_rate.c.
 */
#include "hosts.h"

#define PKT	4116u		/* a lane has room for 31 packets */
#define LANES	8u

static int setup_wait(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4,3"));
	return 0;
}

static int setup_share(void **st)
{
	(void)st;
	begin_hosts(from_spec("star:8"));
	return 0;
}

/* @got is within 5 % of @want. */
static void expect_near(uint64_t got_value, uint64_t want)
{
	assert_in_range(got_value * 100, want * 95, want * 105);
}

/* ---- PortXmitWait -------------------------------------------------------------- */

/* PortXmitWait of port @p, and PortVLXmitWait of @vl, as the PMA reports them now. */
static uint64_t wait_of(uint32_t p, unsigned int vl, uint64_t *vl_wait)
{
	struct ib_pma_port_counters_ext pc = { .port_select = (uint8_t)fab_port_num(f, p) };
	struct fab_mad mad = new_mad(IB_CLASS_PERF, IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS_EXT,
				     0);
	uint8_t *data = (uint8_t *)&mad.mad + IB_PMA_DATA_OFF;

	ib_pma_pce_pack(&pc, data);
	assert_int_equal(ask_lid(&mad, LID(f->port[p].node)), FAB_DELIVERED);
	assert_int_equal(status(), 0);
	ib_pma_pce_unpack((uint8_t *)&got.mad + IB_PMA_DATA_OFF, &pc);
	mad = new_mad(IB_CLASS_PERF, IB_METHOD_GET, IB_PMA_ATTR_VL_XMIT_WAIT, 0);
	data[1] = (uint8_t)fab_port_num(f, p);
	assert_int_equal(ask_lid(&mad, LID(f->port[p].node)), FAB_DELIVERED);
	*vl_wait = ib_get_be16((uint8_t *)&got.mad + IB_PMA_DATA_OFF + 4 + 2 * vl);
	return pc.xmit_wait;
}

/* Time passes while nothing can move, also by fractions of a tick. */
static void stand(uint64_t ns)
{
	const uint64_t end = now + ns;

	while (now < end) {
		now += end - now < 700300 ? end - now : 700300;
		pump(NULL);
	}
}

/*
 * A reader stops and continues. Each of the five ports on the route counts the time in which it had
 * packets and could not send, and reports it while it is blocked.
 */
static void test_wait(void **st)
{
	uint64_t blocked_us = 0, vl_wait;
	uint32_t out[8], sent = 0;
	unsigned int n;

	(void)st;
	place(0, 2);
	place(1, 15);
	n = path(2, LID(15), out, 8);
	assert_int_equal(n, 5);
	for (unsigned int i = 0; i < n; i++)
		f->port[out[i]].pi.hoq_life = 20;	/* never */
	for (unsigned int k = 1; k <= 6; k++) {
		while (send_data(0, 1, LID(15), PKT, (uint8_t)sent)) {
			sent++;
			pump(NULL);
		}
		assert_int_equal(send_data(0, 1, LID(15), PKT, 0), false);
		for (unsigned int part = 1; part <= 3; part++) {
			stand(k * 1000000);
			blocked_us += k * 1000;
			for (unsigned int i = 0; i < n; i++) {
				expect_near(wait_of(out[i], 1, &vl_wait), blocked_us);
				expect_near(vl_wait, blocked_us < 65535 ? blocked_us : 65535);
			}
		}
		/* other routes, and the way back, do not wait */
		for (unsigned int i = 0; i < n; i++)
			if (f->port[f->port[out[i]].peer].node != 15)
				assert_int_equal(wait_of(f->port[out[i]].peer, 1, &vl_wait), 0);
		/* all packets leave; then nothing waits, and no time counts */
		while (count_data(1, 1))
			pump(NULL);
		stand(5000000);
	}
	assert_int_equal(sent, 6 * (n + 1) * 31);
	assert_int_equal(d->blocked, 0);
}

/* ---- shares of lanes ----------------------------------------------------------- */

struct source {
	unsigned int from;
	unsigned int vl;
	uint16_t dlid;
	size_t len;
};

static void set_arb(uint32_t p, unsigned int block, const struct ib_vlarb_entry *e)
{
	struct way *w = calloc(f->nodes, sizeof(*w));
	uint8_t data[IB_SMP_DATA_LEN];

	assert_non_null(w);
	ways(HOST, w);
	ib_vlarb_block_pack(e, data);
	assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_VLARB, block << 16 | fab_port_num(f, p),
			     w[f->port[p].node].route, data), FAB_DELIVERED);
	assert_int_equal(status(), 0);
	free(w);
}

/* Tables of the output @p: low, high, LimitOfHighPriority. */
static void set_tables(uint32_t p, const struct ib_vlarb_entry *low,
		       const struct ib_vlarb_entry *high, uint8_t limit)
{
	set_arb(p, 1, low);
	set_arb(p, 3, high);
	f->port[p].pi.vl_high_limit = limit;
	m.epoch++;
}

/* All hosts read all packets. Return: bytes on the wire to host[to], added by lane. */
static uint64_t read_all(unsigned int to, uint64_t bytes[LANES])
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	uint64_t all = 0;
	size_t len;

	for (unsigned int i = 0; i < HOSTS; i++) {
		for (unsigned int vl = 0; vl < LANES; vl++) {
			while ((len = ep_recv(&host[i], vl, pkt, sizeof(pkt)))) {
				if (i != to)
					continue;
				bytes[vl] += len + IB_VCRC_LEN;
				all += len + IB_VCRC_LEN;
			}
		}
	}
	return all;
}

/*
 * Bytes on the wire by lane at the output to host[to], while all @n sources always have packets and
 * the receivers read at once.
 */
static void shares(const struct source *s, unsigned int n, unsigned int to, uint64_t bytes[LANES])
{
	/* packets of earlier sources */
	do {
		pump(NULL);
	} while (read_all(to, bytes));
	memset(bytes, 0, LANES * sizeof(*bytes));
	for (uint64_t all = 0; all < 2000000; all += read_all(to, bytes)) {
		for (unsigned int i = 0; i < n; i++)
			while (send_data(s[i].from, s[i].vl, s[i].dlid, s[i].len, 1))
				;
		pump_once();
	}
}

/* Lane @vl had @share of 1,000,000 of all bytes. */
static void expect_share(const uint64_t bytes[LANES], unsigned int vl, unsigned int share)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < LANES; i++)
		all += bytes[i];
	expect_near(bytes[vl] * 1000000 / all, share);
}

/* Places all machines; host[0] receives. Return: the output to it. */
static uint32_t place_all(void)
{
	for (unsigned int i = 0; i < HOSTS; i++)
		place(i, i + 2);
	return port_of_host(2);
}

static void test_low_table(void **st)
{
	static const struct ib_vlarb_entry none[IB_VLARB_BLOCK];
	/* one lane has two entries, another never has packets; packets have several lengths */
	static const struct ib_vlarb_entry low[IB_VLARB_BLOCK] = {
		{ 0, 40 }, { 1, 120 }, { 5, 255 }, { 2, 160 }, { 0, 80 }, { 3, 0 },
	};
	const struct source s[] = {
		{ 1, 0, LID(2), 200 }, { 1, 1, LID(2), 1000 }, { 2, 2, LID(2), 72 },
	};
	const uint32_t out = place_all();
	uint64_t bytes[LANES] = { 0 };

	(void)st;
	set_tables(out, low, none, 0);
	shares(s, 3, 0, bytes);
	expect_share(bytes, 0, 300000);
	expect_share(bytes, 1, 300000);
	expect_share(bytes, 2, 400000);
}

/* The high table has its limit in units of 4 KB; then one packet of the low table is sent. */
static void test_high_table(void **st)
{
	static const struct ib_vlarb_entry low[IB_VLARB_BLOCK] = { { 0, 1 }, { 3, 1 } };
	static const struct ib_vlarb_entry high[IB_VLARB_BLOCK] = { { 1, 50 }, { 2, 150 } };
	/* 66 bytes on the wire: 63 packets are the first number above 4,096 bytes */
	const struct source s[] = {
		{ 1, 0, LID(2), 64 }, { 1, 1, LID(2), 64 }, { 2, 2, LID(2), 64 },
		{ 3, 3, LID(2), 64 },
	};
	static const struct {
		uint8_t limit;
		unsigned int high, low;		/* packets in turn */
	} c[] = {
		{ 0, 1, 1 }, { 1, 63, 1 }, { 2, 125, 1 }, { 255, 1, 0 },
	};
	const uint32_t out = place_all();
	uint64_t bytes[LANES] = { 0 };

	(void)st;
	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		const unsigned int all = c[i].high + c[i].low;

		set_tables(out, low, high, c[i].limit);
		shares(s, 4, 0, bytes);
		expect_share(bytes, 1, 250000 * c[i].high / all);
		expect_share(bytes, 2, 750000 * c[i].high / all);
		expect_share(bytes, 0, 500000 * c[i].low / all);
		expect_share(bytes, 3, 500000 * c[i].low / all);
	}
}

/* Multicast gets the same share as unicast, among lanes and among the inputs of one lane. */
static void test_multicast_share(void **st)
{
	static const struct ib_vlarb_entry none[IB_VLARB_BLOCK];
	static const struct ib_vlarb_entry low[IB_VLARB_BLOCK] = { { 0, 30 }, { 1, 90 } };
	const struct source two[] = {
		{ 1, 0, IB_LID_MCAST_MIN, 200 }, { 3, 1, LID(2), 200 },
	};
	const struct source swapped[] = {
		{ 1, 1, IB_LID_MCAST_MIN, 200 }, { 3, 0, LID(2), 200 },
	};
	const struct source both[] = {
		{ 1, 0, IB_LID_MCAST_MIN, 200 }, { 3, 1, IB_LID_MCAST_MIN, 200 },
	};
	const struct source mixed[] = {
		{ 1, 0, IB_LID_MCAST_MIN, 200 }, { 3, 0, LID(2), 200 },
		{ 1, 1, LID(2), 200 }, { 3, 1, IB_LID_MCAST_MIN, 200 },
	};
	const uint32_t out = place_all();
	struct fab_switch *sw = &f->sw[f->node[f->port[out].node].sw];
	uint64_t bytes[LANES] = { 0 };

	(void)st;
	/* members: host[0] and host[2], which does not send */
	sw->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*sw->mft));
	assert_non_null(sw->mft);
	sw->mft[0] = calloc(IB_MFT_PER_BLOCK * sw->mft_positions, sizeof(**sw->mft));
	assert_non_null(sw->mft[0]);
	sw->mft[0][0] = (uint16_t)(1u << fab_port_num(f, out) |
				   1u << fab_port_num(f, port_of_host(4)));
	set_tables(out, low, none, 0);
	shares(two, 2, 0, bytes);
	expect_share(bytes, 0, 250000);
	expect_share(bytes, 1, 750000);
	shares(swapped, 2, 0, bytes);
	expect_share(bytes, 0, 250000);
	expect_share(bytes, 1, 750000);
	/* a packet for two outputs has its share if both outputs grant the same one */
	set_tables(port_of_host(4), low, none, 0);
	shares(both, 2, 0, bytes);
	expect_share(bytes, 0, 250000);
	expect_share(bytes, 1, 750000);
	shares(mixed, 4, 0, bytes);
	expect_share(bytes, 0, 250000);
	expect_share(bytes, 1, 750000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_share, teardown_hosts)
		cmocka_unit_test_setup_teardown(test_wait, setup_wait, teardown_hosts),
		T(test_low_table), T(test_high_table), T(test_multicast_share),
#undef T
	};

	return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
