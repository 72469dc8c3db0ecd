// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Routes of packets through irregular fabrics. The ports that count a packet are those of the
 * forwarding tables and of a trace. Each packet is delivered, or is a discard with a reason.
 */
#include "hosts.h"

#include "fabric/watch/trace.h"
#include "fabric/graph/names.h"

#define PAIRS	1000

static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static int setup_random(void **st)
{
	(void)st;
	seed = 20;
	begin_hosts(from_spec("random:11,16,3,2"));
	return 0;
}

/* The node of a random host other than @but. */
static uint32_t any_host(uint32_t but)
{
	uint32_t n;

	do
		n = 1 + rnd(f->nodes - 1);
	while (f->node[n].sw != FAB_NONE || n == but);
	return n;
}

/* The counts of packets sent and received, of all ports. */
static void snapshot(uint64_t *x)
{
	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_extra *e = fab_extra_of(f, p);

		x[2 * p] = e ? e->ctr.xmit_pkts : 0;
		x[2 * p + 1] = e ? e->ctr.rcv_pkts : 0;
	}
}

/* A trace from host[i] to node @to shows the @n output ports @out. */
static void check_trace(unsigned int i, uint32_t to, const uint32_t *out, unsigned int n)
{
	const uint32_t from = fab_port_of(&f->node[node_of[i]], 1);
	const uint32_t end = fab_port_of(&f->node[to], 1);
	struct fab_way w;

	assert_int_equal(fab_end_lid(f, end), LID(to));
	fab_trace(f, from, LID(to), &w);
	assert_int_equal(w.end, FAB_WAY_ARRIVES);
	assert_int_equal(w.n, n + 2);
	assert_int_equal(w.hop[0].out, from);
	for (unsigned int k = 0; k < n; k++)
		assert_int_equal(w.hop[k + 1].out, out[k]);
	assert_int_equal(w.hop[n + 1].in, end);
}

/* The packet from host[i] to node @to was counted on its route, and nowhere else. */
static void check_way(unsigned int i, uint32_t to, const uint64_t *before, const uint64_t *after)
{
	uint64_t *want = malloc(2 * f->ports * sizeof(*want));
	uint32_t out[64];
	unsigned int n = path(node_of[i], LID(to), out, 64);

	assert_non_null(want);
	assert_true(n < 64);
	check_trace(i, to, out, n);
	memcpy(want, before, 2 * f->ports * sizeof(*want));
	want[2 * port_of_host(node_of[i]) + 1]++;
	for (unsigned int k = 0; k < n; k++) {
		want[2 * out[k]]++;
		if (!fab_outside(f, out[k]))
			want[2 * f->port[out[k]].peer + 1]++;
	}
	for (uint32_t p = 2; p < 2 * f->ports; p++)
		assert_int_equal(after[p], want[p]);
	free(want);
}

/* The topology file of a fabric with machines loads as the same fabric, with their LIDs. */
static void check_topology(void)
{
	struct errors e;
	struct fab *same;
	char *text, *again;
	size_t len, len2;

	/* a subnet manager sets the LID in the machine, not in the graph */
	for (unsigned int i = 0; i < HOSTS; i++)
		f->port[fab_port_of(&f->node[node_of[i]], 1)].pi.lid = 0;
	text = text_of(f, &len);
	same = from_text(text, len, &e);
	if (!same)
		fail_msg("line %u: %s", e.line[0], e.text[0]);
	assert_int_equal(cables_of(same), cables_of(f));
	for (uint32_t i = 0; i < f->nodes; i++) {
		const uint32_t n = fab_find_guid(same, f->node[i].guid);
		uint32_t p;

		assert_int_not_equal(n, FAB_NONE);
		p = fab_end_port(same, fab_port_of(&same->node[n], 1));
		assert_int_equal(same->port[p].pi.lid, LID(i));
	}
	again = text_of(same, &len2);
	assert_int_equal(len2, len);
	assert_memory_equal(again, text, len);
	free(again);
	free(text);
	fab_free(same);
}

static void test_truth(void **st)
{
	uint64_t *before = calloc(2 * f->ports, sizeof(*before)), sent = 0, got = 0;
	uint64_t *after = calloc(2 * f->ports, sizeof(*after));

	(void)st;
	assert_true(before && after);
	for (unsigned int i = 0; i < HOSTS; i++) {
		uint32_t n = any_host(0);

		for (unsigned int k = 0; k < i; k++)
			while (n == node_of[k])
				n = any_host(0);
		place(i, n);
	}
	for (unsigned int k = 0; k < PAIRS; k++) {
		const unsigned int i = rnd(HOSTS);
		const uint32_t to = rnd(2) ? node_of[(i + 1 + rnd(HOSTS - 1)) % HOSTS] :
					     any_host(node_of[i]);

		snapshot(before);
		assert_true(send_data(i, rnd(8), LID(to), 64 + 4 * rnd(1000), (uint8_t)k));
		sent++;
		pump(NULL);
		snapshot(after);
		check_way(i, to, before, after);
		for (unsigned int h = 0; h < HOSTS; h++)
			for (unsigned int vl = 0; vl < 8; vl++)
				got += count_data(h, vl);
	}
	check_topology();
	assert_int_equal(got, d->n.delivered);
	assert_int_equal(got + d->n.drop[FAB_DROP_PHANTOM], sent);
	assert_true(got > PAIRS / 4);
	free(before);
	free(after);
}

/*
 * Bursts from all to all, read at random. Packets of one host arrive in order on each lane, and in
 * the end all have arrived; wires_are_conserved() follows.
 */
static void test_bursts(void **st)
{
	uint16_t next[HOSTS][HOSTS][8] = { 0 }, seen[HOSTS][HOSTS][8] = { 0 };
	uint64_t sent = 0, got = 0;
	uint8_t pkt[OHCA_LINK_MAX_FRAME];

	(void)st;
	for (unsigned int i = 0; i < HOSTS; i++) {
		uint32_t n = any_host(0);

		for (unsigned int k = 0; k < i; k++)
			while (n == node_of[k])
				n = any_host(0);
		place(i, n);
	}
	for (unsigned int round = 0; round < 600; round++) {
		for (unsigned int k = 0; round < 500 && k < 200; k++) {
			const unsigned int i = rnd(HOSTS), to = (i + 1 + rnd(HOSTS - 1)) % HOSTS;
			const unsigned int vl = rnd(8);
			uint8_t *p = ib_build_lrh(pkt, (uint8_t)vl, (uint8_t)vl,
						  IB_LNH_IBA_LOCAL, host[to].lid, 1028,
						  host[i].lid);

			p = ib_build_bth(p, IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 7, false,
					 next[i][to][vl]);
			memset(p, (int)i, 4112 - (size_t)(p - pkt));
			if (!ep_send_raw(&host[i], vl, pkt, 4112))
				continue;
			next[i][to][vl]++;
			sent++;
		}
		pump_once();
		for (unsigned int k = 0; k < (round < 500 ? 100u : 10000u); k++) {
			const unsigned int h = rnd(HOSTS), vl = rnd(8);
			unsigned int from;

			if (!ep_recv(&host[h], vl, pkt, sizeof(pkt)))
				continue;
			for (from = 0; host[from].lid != ib_get_be16(pkt + 6); from++)
				assert_true(from < HOSTS - 1);
			assert_int_equal(ib_get_be32(pkt + IB_LRH_LEN + 8) & 0xffffff,
					 seen[from][h][vl]);
			assert_int_equal(pkt[4111 - 4], from);
			seen[from][h][vl]++;
			got++;
		}
	}
	assert_int_equal(got, sent);
	assert_int_equal(d->n.delivered, sent);
	assert_true(d->n.copies > 100);
	for (unsigned int i = 1; i < FAB_DROPS; i++)
		assert_int_equal(d->n.drop[i], 0);
	assert_int_equal(d->blocked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_truth, setup_random, teardown_hosts),
		cmocka_unit_test_setup_teardown(test_bursts, setup_random, teardown_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
