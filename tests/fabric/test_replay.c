// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The same script of faults with the same seed has the same result. Four hosts send all to all over
 * three spines, unicast and multicast, while links flap, lose, delay and damage packets and a spine
 * is killed and restarts. Time is virtual.
 */
#include "scripts.h"

#include <inttypes.h>

#include "fabric/fault/fault.h"
#include "fabric/watch/capture.h"
#include "fabric/mgmt/counter.h"
#include "ib/crc.h"
#include "ib/rate.h"
#include "fabric/graph/names.h"

#define MLID	0xc001u
#define LEAF(n)	(18 + (n))	/* nodes of fat-tree:6 */
#define SPINE(n) (24 + (n))

/* ---- a subnet manager that configures links that come up ----------------------- */

/* Whether the response has arrived when no MAD is in flight any more. */
static bool answered(enum fab_fate fate, uint16_t attr)
{
	for (unsigned int i = 0; m.flights && i < 1000; i++) {
		now += MS / 100;
		fab_mgmt_timer(&m, now);
	}
	return fate != FAB_LOST && got.mad.hdr.method == IB_METHOD_GET_RESP &&
	       ib_be16(got.mad.hdr.attr_id) == attr;
}

/* Repeats the request, because wires may lose or delay it. */
static void tell(uint8_t method, uint16_t attr, uint32_t mod, const char *route, const void *data)
{
	for (unsigned int i = 0; i < 50; i++)
		if (answered(ask(method, attr, mod, route, data), attr))
			return;
	fail_msg("no answer");
}

static void tell_state(const char *route, unsigned int num, uint8_t state, uint16_t lid)
{
	uint8_t data[IB_SMP_DATA_LEN];
	struct ib_port_info pi;

	tell(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, num, route, NULL);
	ib_port_info_unpack(got.smp.data, &pi);
	pi.state = state;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	pi.lid = lid ? lid : pi.lid;
	ib_port_info_pack(&pi, data);
	tell(IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, num, route, data);
}

static const uint32_t places[HOSTS] = { 1, 5, 6, 16 };

/* Destinations are shared among spines; the root of the multicast tree is the first spine. */
static void tell_tables(uint32_t node, const char *route)
{
	const bool leaf = node < SPINE(0);
	uint8_t lft[IB_SMP_DATA_LEN], mft[IB_SMP_DATA_LEN] = { 0 }, data[IB_SMP_DATA_LEN];
	struct ib_switch_info si = f->sw[f->node[node].sw].si;
	uint16_t mask = leaf ? 1u << 4 : 0;

	memset(lft, IB_LFT_NO_PORT, sizeof(lft));
	for (uint32_t i = 0; i < LEAF(0); i++)
		lft[LID(i)] = (uint8_t)(!leaf ? i / 3 + 1 : LEAF(i / 3) == node ? i % 3 + 1 :
					4 + i % 3);
	lft[LID(node)] = 0;
	for (unsigned int i = 0; i < HOSTS; i++) {
		if (!leaf)
			mask |= (uint16_t)(1u << (places[i] / 3 + 1));
		else if (LEAF(places[i] / 3) == node)
			mask |= (uint16_t)(1u << (places[i] % 3 + 1));
	}
	ib_mft_block_put(mft, MLID - 0xc000, node > SPINE(0) ? 0 : mask);
	tell_state(route, 0, IB_PS_NO_CHANGE, LID(node));
	si.linear_top = LID(f->nodes - 1);
	ib_switch_info_pack(&si, data);
	tell(IB_METHOD_SET, IB_SMP_ATTR_SWITCH_INFO, 0, route, data);
	tell(IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, route, lft);
	tell(IB_METHOD_SET, IB_SMP_ATTR_MFT, 0, route, mft);
}

/* Routes to the switches from the manager's leaf, over links that are up. Return: how many. */
static unsigned int reach(uint32_t *sw, char route[][8])
{
	bool known[32] = { false };
	unsigned int n = 1;

	sw[0] = LEAF(0);
	known[LEAF(0)] = true;
	strcpy(route[0], "1");
	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int k = 1; k <= 6; k++) {
			const struct fab_port *p = &f->port[fab_port_of(&f->node[sw[i]], k)];
			const uint32_t to = f->port[p->peer].node;

			if (p->pi.state == IB_PS_DOWN || f->node[to].sw == FAB_NONE || known[to])
				continue;
			known[to] = true;
			assert_true(strlen(route[i]) < 7);
			strcpy(route[n], route[i]);
			strcat(route[n], (const char[]){ (char)('0' + k), '\0' });
			sw[n++] = to;
		}
	}
	return n;
}

/* @all: not only switches that have lost their tables */
static void sweep(bool all)
{
	uint32_t sw[9];
	char route[9][8];
	const unsigned int n = reach(sw, route);

	for (unsigned int i = 0; i < n; i++)
		if (all || !f->port[fab_port_of(&f->node[sw[i]], 0)].pi.lid)
			tell_tables(sw[i], route[i]);
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++)
		for (unsigned int i = 0; i < n; i++)
			for (unsigned int k = 1; k <= 6; k++)
				if (f->port[fab_port_of(&f->node[sw[i]], k)].pi.state == state - 1)
					tell_state(route[i], k, state, 0);
}

/* ---- all to all ---------------------------------------------------------------- */

static const char faults[] =
	"# what a bad day has\n"
	"at 0 loss leaf1:5 0.02\n"
	"at 0 loss host7:1 0.02\n"
	"at 50ms corrupt leaf2:4 0.01\n"
	"every 100ms from 100ms for 500ms link flap spine2:any --down 20ms\n"
	"at 150ms node kill spine3\n"
	"at 320ms node revive spine3\n"
	"at 200ms delay leaf6:4 3ms\n"
	"at 350ms link down spine1:2\n"
	"at 400ms link up spine1:2\n"
	"at 450ms link degrade leaf3:6 --width 1 --speed DDR\n"
	"at 500ms delay leaf6:4 0\n";

/* The results of one run. */
struct result {
	uint64_t hash;			/* of the capture */
	uint32_t ports;
	uint64_t count[256][FAB_COUNTERS];
	uint64_t sent[HOSTS], got[HOSTS], damaged[HOSTS], lost[HOSTS];
	uint64_t drop[FAB_DROPS];
};

static bool hash_file(void *ctx, const void *buf, size_t len)
{
	struct result *r = ctx;

	for (size_t i = 0; i < len; i++)
		r->hash = (r->hash ^ ((const uint8_t *)buf)[i]) * 0x100000001b3ull;
	return true;
}

/* Each packet that host[i] has received is one that was sent, unless faults have damaged it. */
static void receive(struct result *r, unsigned int i)
{
	struct ohca_link_frame fr;

	for (unsigned int vl = 0; vl < 2; vl++) {
		while (ohca_link_rx_peek(host[i].l, vl, &fr)) {
			const uint8_t fill = fr.data[IB_LRH_LEN + IB_BTH_LEN];

			if (fr.flags & OHCA_FRAME_VCRC) {
				assert_int_not_equal(ib_vcrc(fr.data, fr.len), fr.vcrc);
				r->lost[i]++;
			} else if (fr.flags & OHCA_FRAME_ICRC) {
				r->damaged[i]++;
			} else {
				assert_int_equal(ib_get_be16(fr.data + 6), host[fill >> 6].lid);
				for (size_t k = IB_LRH_LEN + IB_BTH_LEN; k < fr.len; k++)
					assert_int_equal(fr.data[k], fill);
				r->got[i]++;
			}
			ohca_link_rx_release(host[i].l, vl);
		}
	}
	ohca_link_kick(host[i].l);
}

static void exchange(struct result *r, unsigned int n, bool mcast)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		const uint8_t fill = (uint8_t)(i << 6 | (n & 63));

		for (unsigned int k = 0; k < HOSTS; k++)
			if (i != k)
				r->sent[i] += send_data(i, (n + k) & 1, host[k].lid,
							64 + 4 * ((n * 7 + k) % 200), fill);
		if (mcast && n % HOSTS == i)
			r->sent[i] += send_data(i, n & 1, MLID, 256, fill);
	}
}

static void run_for(struct result *r, unsigned int ms, bool traffic, bool mcast)
{
	for (unsigned int n = 0; n < ms; n++) {
		if (n % 10 == 0)
			sweep(false);
		if (traffic)
			exchange(r, n, mcast);
		for (unsigned int k = 0; k < 3; k++)
			pump_once();
		for (unsigned int i = 0; i < HOSTS; i++)
			receive(r, i);
		now += MS;
	}
}

/* Each sent packet has arrived, or was discarded with a reason. */
static void check_conservation(const struct result *r, bool mcast)
{
	uint64_t sent = 0, dropped = 0, arrived = 0;

	for (unsigned int i = 0; i < HOSTS; i++) {
		const uint32_t p = port_of_host(node_of[i]);

		/* a port counts a packet before it is lost */
		assert_int_equal(counters(p)->rcv_pkts, r->sent[i]);
		assert_int_equal(counters(p)->xmit_pkts, r->got[i] + r->damaged[i] + r->lost[i]);
		sent += r->sent[i];
		arrived += r->got[i] + r->damaged[i];
	}
	assert_int_equal(arrived, d->n.delivered);
	assert_int_equal(d->flying, 0);
	for (unsigned int i = 0; i < FAB_DROPS; i++)
		dropped += d->n.drop[i];
	if (!mcast)
		assert_int_equal(sent, d->n.delivered + dropped);
	counts_anew[fab_find_node(f, "spine3")] = true;
	wires_are_conserved();
}

/* The counters show the faults. */
static void check_story(void)
{
	const uint32_t lossy = fab_find_port(f, "leaf1:5"), slow = fab_find_port(f, "leaf3:6");
	const struct fab_extra *x = fab_extra_of(f, lossy);
	uint64_t flaps = 0, failed;

	assert_int_equal(fab_script_left(&m, &failed), 0);
	assert_int_equal(failed, 0);
	assert_true(x->fault->lost > 0);
	/* at most as many symbol errors as lost MADs and data packets */
	assert_in_range(counters(f->port[lossy].peer)->symbol_error, 1, x->fault->lost);
	for (unsigned int i = 1; i <= 6; i++)
		flaps += counters(fab_port_of(&f->node[SPINE(1)], i))->link_downed;
	assert_int_equal(flaps, 5);
	for (unsigned int i = 1; i <= 6; i++) {
		const uint32_t p = fab_port_of(&f->node[SPINE(2)], i);

		assert_true(counters(f->port[p].peer)->link_downed >= 1);
		/* its counters restarted with it; then one of its links was degraded */
		assert_int_equal(counters(p)->link_downed, f->port[p].peer == slow);
	}
	assert_int_equal(f->port[slow].pi.width_active, IB_WIDTH_1X);
	assert_int_equal(f->port[f->port[slow].peer].pi.speed_active, IB_SPEED_DDR);
	assert_true(d->n.drop[FAB_DROP_INACTIVE] > 0);
	assert_true(d->n.drop[FAB_DROP_LOSS] > 0);
}

static void keep_counters(struct result *r)
{
	r->ports = f->ports;
	assert_true(f->ports <= IB_ARRAY_SIZE(r->count));
	for (uint32_t p = 1; p < f->ports; p++) {
		struct ohca_port_counters c;

		fab_counters(&m, p, &c);
		for (unsigned int i = 0; i < FAB_COUNTERS; i++)
			r->count[p][i] = fab_counter(&c, i);
	}
	memcpy(r->drop, d->n.drop, sizeof(r->drop));
}

static struct result *play(uint64_t seed, bool mcast)
{
	static const char *const ports[] = { "leaf1:5", "spine1:1", "spine2:2", "leaf6:4" };
	struct result *r = calloc(1, sizeof(*r));
	struct fab_capture *c;
	uint32_t port[4];

	assert_non_null(r);
	begin_hosts(from_spec("fat-tree:6"));
	m.seed = seed;
	for (unsigned int i = 0; i < HOSTS; i++)
		place(i, places[i]);
	sweep(true);
	for (unsigned int i = 0; i < 4; i++)
		port[i] = fab_find_port(f, ports[i]);
	r->hash = 0xcbf29ce484222325ull;
	c = fab_capture_start(d, port, 4, 0, false, hash_file, r);
	assert_non_null(c);
	plays(faults, 500 * MS);
	run_for(r, 600, true, mcast);
	/* packets that wait or are in flight */
	run_for(r, 1500, false, mcast);
	fab_capture_stop(c);
	check_conservation(r, mcast);
	check_story();
	keep_counters(r);
	teardown_hosts(NULL);
	return r;
}

static void test_same(void **st)
{
	struct result *a = play(5, true), *b = play(5, true), *c = play(6, true);

	(void)st;
	for (uint32_t p = 1; p < a->ports; p++)
		for (unsigned int i = 0; i < FAB_COUNTERS; i++)
			if (a->count[p][i] != b->count[p][i])
				fail_msg("%s of port %u: %" PRIu64 ", then %" PRIu64,
					 fab_counter_name(i), p, a->count[p][i], b->count[p][i]);
	assert_memory_equal(a, b, sizeof(*a));
	assert_true(a->hash != c->hash);
	assert_memory_not_equal(a->count, c->count, sizeof(a->count));
	free(a);
	free(b);
	free(c);
}

/* Without multicast copies the sums are exact for the whole fabric. */
static void test_unicast(void **st)
{
	(void)st;
	free(play(7, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_unicast),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
