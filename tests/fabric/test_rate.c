// SPDX-License-Identifier: GPL-2.0-or-later
/* Wires with rates: throughput, latency, shares of a wire, and PortXmitWait, in virtual time. */
#include "paced.h"

#include "fabric/data/buffer.h"

#include <math.h>

/* @got is within @per_mille of @want. */
static void expect_near(double got_value, double want, double per_mille)
{
	if (fabs(got_value - want) > want * per_mille / 1000)
		fail_msg("%g is not %g", got_value, want);
}

/* ---- throughput and latency ---------------------------------------------------- */

struct rate {
	const char *name;
	uint8_t width, speed, ext;
	double gbps;		/* of data */
};

static const struct rate rates[] = {
	{ "SDR 1x", IB_WIDTH_1X, IB_SPEED_SDR, 0, 2 },
	{ "SDR 4x", IB_WIDTH_4X, IB_SPEED_SDR, 0, 8 },
	{ "DDR 4x", IB_WIDTH_4X, IB_SPEED_DDR, 0, 16 },
	{ "QDR 4x", IB_WIDTH_4X, IB_SPEED_QDR, 0, 32 },
	{ "FDR10 4x", IB_WIDTH_4X, IB_SPEED_FDR10, 0, 40 },
	{ "FDR 4x", IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_FDR, 4 * 14.0625 * 64 / 66 },
	{ "EDR 4x", IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_EDR, 100 },
	{ "HDR 2x", IB_WIDTH_2X, IB_SPEED_QDR, IB_SPEED_EXT_HDR, 100 },
	{ "HDR 4x", IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_HDR, 200 },
	{ "NDR 4x", IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_NDR, 400 },
	{ "XDR 4x", IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_XDR, 800 },
};

/* One flow uses the full rate of its wires, whatever the size of its packets and the scale. */
static void test_throughput(void **st)
{
	static const uint32_t lens[] = { 64, 1048, 4120 };
	static const unsigned int scales[] = { 1, 1000 };

	(void)st;
	for (unsigned int k = 0; k < 2; k++) {
		begin_paced("star:4", scales[k]);
		sim_place(0, 1);
		sim_place(1, 2);
		for (unsigned int i = 0; i < IB_ARRAY_SIZE(rates); i++) {
			const struct rate *r = &rates[i];
			const double byte_ns = 8 / r->gbps * scales[k];

			set_rates(r->width, r->speed, r->ext);
			for (unsigned int n = 0; n < IB_ARRAY_SIZE(lens); n++) {
				const uint64_t ns = (uint64_t)(byte_ns * lens[n] * 2000);
				double got_byte_ns;

				sim[0].flows = 0;
				add_flow(0, 2, 0, lens[n], UINT32_MAX);
				run_until(now + ns / 10);
				count_anew();
				run_until(now + ns);
				got_byte_ns = (double)ns / (double)all_bytes(&sim[1]);
				expect_near(got_byte_ns, byte_ns, 2);
			}
			/* packets in flight keep the earlier rate */
			sim[0].flows = 0;
			run_until(now + (uint64_t)(byte_ns * 10000));
		}
		end_paced();
	}
}

/* The time at which a packet of @len bytes that began at @ns has crossed the link. */
static uint64_t crossed(uint64_t ns, uint32_t len, const struct rate *r, unsigned int scale)
{
	return ns + (uint64_t)ceil((len + IB_VCRC_LEN) * 8 / r->gbps * scale - 1e-4);
}

/* Each switch stores and forwards the packet: the times of the wires, each in whole ns, add up. */
static void test_latency(void **st)
{
	static const uint32_t lens[] = { 28, 64, 333 * 4, 4120 };
	static const unsigned int scales[] = { 1, 7, 1000 };
	uint32_t at;

	(void)st;
	for (unsigned int k = 0; k < IB_ARRAY_SIZE(scales); k++) {
		/* host 1 is at leaf 8, and host 7 at leaf 11: four wires */
		begin_paced("fat-tree:4", scales[k]);
		sim_place(0, 1);
		sim_place(1, 7);
		for (unsigned int i = 0; i < IB_ARRAY_SIZE(rates) * IB_ARRAY_SIZE(lens); i++) {
			const uint32_t len = lens[i % IB_ARRAY_SIZE(lens)];
			uint64_t want = now, delay = 0;
			unsigned int n = 0;

			for (at = fab_port_of(&f->node[1], 1); n < 4; n++) {
				const struct rate *r = &rates[(i + 3 * n) % IB_ARRAY_SIZE(rates)];
				const struct fab_node *sw = &f->node[f->port[f->port[at].peer].node];

				set_rate(at, r->width, r->speed, r->ext);
				want = crossed(want, len, r, scales[k]);
				/* a cable has its own delay */
				if (n == 1) {
					delay = i % 3 * 12345;
					assert_true(fab_fault_delay(&m, at, delay));
				}
				if (sw->sw != FAB_NONE)
					at = fab_port_of(sw, fab_route(f, sw, LID(7)));
			}
			sim[0].flows = 0;
			add_flow(0, 7, 0, len, 1);
			run_until(now + 100000000);
			assert_int_equal(sim[1].packets, i + 1);
			assert_int_equal(sim[1].last_ns, want + delay);
		}
		end_paced();
	}
}

/* ---- shares -------------------------------------------------------------------- */

/* Two hosts that send to one get half of its wire each, three hosts a third. */
static void test_halves(void **st)
{
	uint64_t of[3];

	(void)st;
	begin_paced("star:8", 1000);
	for (unsigned int i = 0; i < 4; i++)
		sim_place(i, i + 1);
	for (unsigned int n = 2; n <= 3; n++) {
		uint64_t before[3], all = 0;

		for (unsigned int i = 0; i < 3; i++) {
			sim[i + 1].flows = 0;
			if (i < n)
				add_flow(i + 1, 1, 0, 2048, UINT32_MAX);
		}
		run_until(now + 100000000);
		for (unsigned int i = 0; i < n; i++)
			before[i] = counters_of(port_of_host(i + 2))->rcv_data;
		count_anew();
		run_until(now + 1000000000);
		for (unsigned int i = 0; i < n; i++) {
			of[i] = counters_of(port_of_host(i + 2))->rcv_data - before[i];
			all += of[i];
		}
		for (unsigned int i = 0; i < n; i++)
			expect_near((double)of[i], (double)all / n, 10);
		expect_near((double)all_bytes(&sim[0]), 12.5e6, 2);
	}
	end_paced();
}

static void set_tables(uint32_t p, const struct ib_vlarb_entry *low, unsigned int nlow,
		       const struct ib_vlarb_entry *high, unsigned int nhigh, uint8_t limit)
{
	static const char *const route = "1";
	struct ib_vlarb_entry e[2][IB_VLARB_BLOCK] = { 0 };

	memcpy(e[0], low, nlow * sizeof(*low));
	if (nhigh)
		memcpy(e[1], high, nhigh * sizeof(*high));
	for (unsigned int t = 0; t < 2; t++) {
		uint8_t data[IB_SMP_DATA_LEN];

		ib_vlarb_block_pack(e[t], data);
		assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_VLARB,
				     (1 + 2 * t) << 16 | fab_port_num(f, p), route, data),
				 FAB_DELIVERED);
		assert_int_equal(status(), 0);
	}
	f->port[p].pi.vl_high_limit = limit;
	fab_changed(&m, p);
}

/* Hosts 2 to 5 send to host 1, each on its own lane, without end, packets of these lengths. */
static uint32_t lanes(unsigned int n, const uint32_t *len, unsigned int scale)
{
	begin_paced("star:8", scale);
	sim_place(0, 1);
	for (unsigned int i = 0; i < n; i++) {
		sim_place(i + 1, i + 2);
		add_flow(i + 1, 1, (uint8_t)i, len[i], UINT32_MAX);
	}
	return port_of_host(1);
}

/* In 10 s each lane has its share, and the wire is never idle. */
static void expect_shares(const double *share, unsigned int n)
{
	const double all = 125e9 / d->cfg.rate_scale;

	run_until(now + 1000000000);
	count_anew();
	run_until(now + 10000000000u);
	expect_near((double)all_bytes(&sim[0]), all, 2);
	for (unsigned int i = 0; i < n; i++)
		expect_near((double)sim[0].bytes[i] / all, share[i], 30);
}

static void test_weights(void **st)
{
	static const uint32_t len[] = { 2048, 1024, 4096 };
	static const struct ib_vlarb_entry one_three[] = { { 0, 64 }, { 1, 192 } };
	static const struct ib_vlarb_entry three[] = { { 0, 30 }, { 1, 210 }, { 2, 240 } };
	uint32_t out;

	(void)st;
	out = lanes(2, len, 1000);
	set_tables(out, one_three, 2, NULL, 0, 0);
	expect_shares((const double []){ 0.25, 0.75 }, 2);
	end_paced();
	out = lanes(3, len, 1000);
	set_tables(out, three, 3, NULL, 0, 0);
	expect_shares((const double []){ 1 / 16.0, 7 / 16.0, 8 / 16.0 }, 3);
	end_paced();
}

/* LimitOfHighPriority is in units of 4 KB; then one packet of the low table is sent. */
static void test_high_limit(void **st)
{
	static const uint32_t len[] = { 64, 64, 64, 64 };
	static const struct ib_vlarb_entry low[] = { { 0, 8 }, { 3, 8 } };
	static const struct ib_vlarb_entry high[] = { { 1, 50 }, { 2, 150 } };
	/* 66 bytes on the wire: 63 packets are the first number above 4,096 bytes */
	static const struct {
		uint8_t limit;
		double high, low;
	} c[] = { { 0, 1, 1 }, { 1, 63, 1 }, { 2, 125, 1 }, { 255, 1, 0 } };

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(c); i++) {
		const double all = c[i].high + c[i].low;
		const uint32_t out = lanes(4, len, 10000);

		set_tables(out, low, 2, high, 2, c[i].limit);
		expect_shares((const double []){ c[i].low / all / 2, c[i].high / all / 4,
						 c[i].high / all * 3 / 4, c[i].low / all / 2 }, 4);
		end_paced();
	}
}

/* ---- PortXmitWait -------------------------------------------------------------- */

/*
 * A port that sends does not wait; a lane waits while another one sends. Without credits the port
 * waits from the end of its last packet on.
 */
static void test_wait(void **st)
{
	static const uint32_t len[] = { 2048, 2048 };
	static const struct ib_vlarb_entry low[] = { { 0, 32 }, { 1, 96 } };
	const struct ohca_port_counters *c;
	uint64_t wait[2];
	uint32_t out;

	(void)st;
	out = lanes(2, len, 1000);
	set_tables(out, low, 2, NULL, 0, 0);
	f->port[out].pi.hoq_life = 20;	/* never */
	run_until(now + 10000000);
	c = counters_of(out);
	assert_int_equal(c->xmit_wait, 0);
	wait[0] = c->xmit_wait_vl[0];
	wait[1] = c->xmit_wait_vl[1];
	run_until(now + 1000000000);
	assert_int_equal(counters_of(out)->xmit_wait, 0);
	expect_near((double)(c->xmit_wait_vl[0] - wait[0]), 750000, 10);
	expect_near((double)(c->xmit_wait_vl[1] - wait[1]), 250000, 10);
	/*
	 * packets in flight arrive at a host without room (2,050 bytes take 164 us); then the port
	 * waits
	 */
	sim[0].stalled = true;
	count_anew();
	run_until(now + 1000000);
	assert_int_equal(sim[0].packets, 0);
	wait[0] = counters_of(out)->xmit_wait;
	assert_in_range(wait[0], 1000 - 2 * 165, 1000 - 1);
	run_until(now + 5000000);
	assert_int_equal(counters_of(out)->xmit_wait, wait[0] + 5000);
	sim[0].stalled = false;
	run_until(now + 10000000);
	wait[0] = counters_of(out)->xmit_wait;
	run_until(now + 100000000);
	assert_int_equal(counters_of(out)->xmit_wait, wait[0]);
	end_paced();
}

/* Packets of which only the headers are kept arrive with their full length, at the same time. */
static void test_headers(void **st)
{
	uint64_t last_ns[2];

	(void)st;
	for (unsigned int headers = 0; headers < 2; headers++) {
		begin_paced("star:4", 1);
		d->cfg.headers = headers;
		sim_place(0, 1);
		sim_place(1, 2);
		sim[1].stalled = true;
		add_flow(0, 2, 0, 4120, 10);
		run_until(now + 10000000);
		assert_int_equal(sim[1].packets, 0);
		if (headers)
			assert_int_equal(d->n.buffer_bytes, 10 * FAB_HEADERS);
		else
			assert_true(d->n.buffer_bytes >= 10 * 4120);
		sim[1].stalled = false;
		run_until(now + 20000000);
		assert_int_equal(sim[1].packets, 10);
		assert_int_equal(all_bytes(&sim[1]), 10 * (4120 + IB_VCRC_LEN));
		last_ns[headers] = sim[1].last_ns;
		end_paced();
	}
	assert_true(last_ns[0] == last_ns[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_throughput), cmocka_unit_test(test_latency),
		cmocka_unit_test(test_halves), cmocka_unit_test(test_weights),
		cmocka_unit_test(test_high_limit), cmocka_unit_test(test_wait),
		cmocka_unit_test(test_headers),
	};

	return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
