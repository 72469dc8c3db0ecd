// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * LifeTimeValue (IBTA volume 1, 18.2.5.4): a packet that stays in a switch longer is discarded,
 * wherever it waits there. Hosts of a fat tree; time passes only by now.
 */
#include "hosts.h"

#include "ib/rate.h"

#define PKT	4116u		/* 65 blocks: 31 packets fit a lane */
#define FIT	31u
#define LIFE	10u		/* 4.096 us * 2^10 */
#define NEVER	20u

static const uint64_t life_ns = 4096ull << LIFE;

static int setup_life(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4"));
	return 0;
}

/* The subnet manager sets LifeTimeValue of switch @sw. */
static void set_life(uint32_t sw, uint8_t value)
{
	struct ib_switch_info si = f->sw[f->node[sw].sw].si;
	struct way *w = calloc(f->nodes, sizeof(*w));
	uint8_t d[IB_SMP_DATA_LEN];

	assert_non_null(w);
	ways(HOST, w);
	si.life_time = value;
	si.port_state_change = 0;
	ib_switch_info_pack(&si, d);
	assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_SWITCH_INFO, 0, w[sw].route, d),
			 FAB_DELIVERED);
	assert_int_equal(status(), 0);
	free(w);
}

/* Checks PortXmitDiscards of port @p, and its part by LifeTimeValue, in the answer of the PMA. */
static void expect_discards(uint32_t p, unsigned int n)
{
	struct fab_mad mad = new_mad(IB_CLASS_PERF, IB_METHOD_GET,
				     IB_PMA_ATTR_XMIT_DISCARD_DETAILS, 0);
	uint8_t *d = (uint8_t *)&mad.mad + IB_PMA_DATA_OFF;

	d[1] = (uint8_t)fab_port_num(f, p);
	assert_int_equal(ask_lid(&mad, LID(f->port[p].node)), FAB_DELIVERED);
	d = (uint8_t *)&got.mad + IB_PMA_DATA_OFF;
	assert_int_equal(ib_get_be16(d + 4), 0);	/* inactive, MTU, HOQLife */
	assert_int_equal(ib_get_be16(d + 6), 0);
	assert_int_equal(ib_get_be16(d + 8), n);
	assert_int_equal(ib_get_be16(d + 10), 0);
	assert_int_equal(counters(p)->xmit_discards, n);
}

/*
 * host[0] fills all buffers on its way to host[1], which does not read. No HOQLife expires. Return:
 * outputs on the way, in @out; *@sent packets.
 */
static unsigned int fill(uint32_t out[8], unsigned int *sent)
{
	unsigned int n;

	place(0, 1);
	place(1, 7);
	n = path(1, LID(7), out, 8);
	assert_int_equal(n, 3);
	for (unsigned int i = 0; i < n; i++) {
		set_life(f->port[out[i]].node, NEVER);
		f->port[out[i]].pi.hoq_life = NEVER;
		f->port[out[i]].pi.vl_stall_count = 1;
	}
	m.epoch++;
	*sent = 0;
	for (int i = 0; i < 100; i++) {
		while (send_data(0, 1, LID(7), PKT, (uint8_t)*sent))
			++*sent;
		pump(NULL);
	}
	assert_int_equal(*sent, (n + 1) * FIT);
	return n;
}

static void pass_time(uint64_t ns)
{
	const uint64_t end = now + ns;

	while (now < end) {
		now += end - now < 1000000 ? end - now : 1000000;
		pump(NULL);
	}
}

/* The time of every packet begins when it arrives in the buffer of the switch. */
static void test_buffer(void **st)
{
	unsigned int sent, n;
	uint32_t out[8];

	(void)st;
	n = fill(out, &sent);
	set_life(f->port[out[1]].node, LIFE);
	pass_time(life_ns);
	expect_discards(out[1], 0);
	/*
	 * all packets that arrived then are gone, and those after them have their places, and times
	 */
	pass_time(1);
	expect_discards(out[1], FIT);
	pass_time(life_ns);
	expect_discards(out[1], FIT);
	pass_time(1);
	expect_discards(out[1], 2 * FIT);
	/* unlike HOQLife, it stalls no lane */
	assert_int_equal(d->stalls, 0);
	assert_int_equal(d->n.drop[FAB_DROP_LIFETIME], 2 * FIT);
	for (unsigned int i = 0; i < n; i++)
		if (i != 1)
			expect_discards(out[i], 0);
	for (unsigned int i = 0; i < 2 * FIT; i++) {
		expect_data(1, 1, PKT, (uint8_t)i);
		pump(NULL);
	}
	assert_int_equal(count_data(1, 1), 0);
	assert_int_equal(sent, 4 * FIT);
	/* packets that are not too old pass */
	assert_true(send_data(0, 1, LID(7), PKT, 99));
	pump(NULL);
	expect_data(1, 1, PKT, 99);
}

/* The ring of a link is the buffer of its switch. */
static void test_ring(void **st)
{
	unsigned int sent;
	uint32_t out[8];

	(void)st;
	fill(out, &sent);
	set_life(f->port[out[0]].node, LIFE);
	pass_time(life_ns);
	expect_discards(out[0], 0);
	pass_time(1);
	assert_true(counters(out[0])->xmit_lifetime_discards >= 1);
	/* the arrival times of packets behind others are known soon enough */
	pass_time(life_ns + 1);
	expect_discards(out[0], FIT);
	for (unsigned int i = 0; i < 3 * FIT; i++) {
		expect_data(1, 1, PKT, (uint8_t)i);
		pump(NULL);
	}
	assert_int_equal(count_data(1, 1), 0);
}

/* A reader that is too slow for a queue gets no packet that is older. */
static void test_slow_reader(void **st)
{
	uint64_t born[256] = { 0 };
	uint8_t pkt[OHCA_LINK_MAX_FRAME], id = 0;
	unsigned int got_pkts = 0;
	uint32_t last;
	size_t len;

	(void)st;
	place(0, 2);
	place(1, 3);
	last = port_of_host(3);
	assert_int_equal(f->port[port_of_host(2)].node, f->port[last].node);
	f->port[last].pi.hoq_life = NEVER;
	set_life(f->port[last].node, LIFE);
	for (int i = 0; i < 1000; i++) {
		while (send_data(0, 0, LID(3), PKT, id))
			born[id++] = now;
		pump(NULL);
		now += life_ns / 20;
		pump(NULL);
		if (i % 4)
			continue;
		len = ep_recv(&host[1], 0, pkt, sizeof(pkt));
		if (!len)
			continue;
		assert_int_equal(len, PKT);
		got_pkts++;
		/*
		 * in the ring after the switch: 31 packets, of which it reads one in a fifth of the
		 * time
		 */
		assert_true(now - born[pkt[100]] <= 2 * life_ns + (FIT + 1) * life_ns / 5);
	}
	assert_in_range(got_pkts, 249, 250);
	assert_true(counters(last)->xmit_lifetime_discards > 100);
}

/* A copy that waits for one member is discarded; the other member gets its own. */
static void test_multicast(void **st)
{
	const uint32_t slow = port_of_host(2), sw = f->port[slow].node;
	struct fab_switch *s = &f->sw[f->node[sw].sw];
	unsigned int sent = 0;

	(void)st;
	place(0, 2);
	place(1, 3);
	assert_int_equal(f->port[port_of_host(3)].node, sw);
	s->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*s->mft));
	assert_non_null(s->mft);
	s->mft[0] = calloc(IB_MFT_PER_BLOCK * s->mft_positions, sizeof(**s->mft));
	assert_non_null(s->mft[0]);
	s->mft[0][0] = (uint16_t)(1u << fab_port_num(f, slow) |
				  1u << fab_port_num(f, port_of_host(3)));
	f->port[slow].pi.hoq_life = NEVER;
	set_life(sw, LIFE);
	/* host 0 of the graph cannot send data, so a machine at another leaf sends to both */
	place(2, 7);
	for (uint32_t p = port_of_host(7), q = p; f->port[p].node != sw; p = q) {
		const struct fab_node *at = &f->node[f->port[p].node];
		const unsigned int num = fab_route(f, at, LID(2));
		struct fab_switch *x = &f->sw[at->sw];

		x->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*x->mft));
		assert_non_null(x->mft);
		x->mft[0] = calloc(IB_MFT_PER_BLOCK * x->mft_positions, sizeof(**x->mft));
		assert_non_null(x->mft[0]);
		x->mft[0][0] = (uint16_t)(1u << num);
		q = f->port[fab_port_of(at, num)].peer;
	}
	for (unsigned int i = 0; i < FIT + 1; i++, sent++) {
		assert_true(send_data(2, 0, IB_LID_MCAST_MIN, PKT, 5));
		pump(NULL);
		expect_data(1, 0, PKT, 5);
	}
	assert_int_equal(d->blocked, 1);
	pass_time(life_ns);
	expect_discards(slow, 0);
	pass_time(1);
	expect_discards(slow, 1);
	assert_int_equal(d->blocked, 0);
	assert_int_equal(count_data(0, 0), FIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_life, teardown_hosts)
		T(test_buffer), T(test_ring), T(test_slow_reader), T(test_multicast),
#undef T
	};

	return cmocka_run_group_tests_name("LifeTimeValue", tests, NULL, NULL);
}
