// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets with a MAD that are cut, or have a wrong bit in a header: an invalid one is counted and
 * has no answer. The other machine receives nothing unless the packet has its LID.
 */
#include "query.h"

#include "bad.h"
#include "ib/pma.h"

#define MINE	2u	/* LIDs: of the machine that sends, ... */
#define OTHERS	3u	/* ... and of the other one */

static struct net *t;
static unsigned int answered, passed, errors;

static size_t smp(uint8_t *pkt)
{
	struct ib_smp s;

	ep_smp_init(&t->ep[0], &s, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 0, NULL);
	s.hdr.mgmt_class = IB_CLASS_SUBN_LID;
	s.hdr.class_specific = 0;
	return ep_build(pkt, IB_MGMT_VL, 0, 1, MINE, 0, 0, IB_DEFAULT_PKEY, &s);
}

static size_t gs_mad(uint8_t *pkt)
{
	const struct ib_mad mad = { .hdr = {
		.base_version = IB_MAD_BASE_VERSION, .mgmt_class = IB_CLASS_PERF,
		.class_version = 1, .method = IB_METHOD_GET,
		.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO),
	} };

	return ep_build(pkt, 0, 0, 1, MINE, IB_QP1, IB_QKEY_GSI, IB_DEFAULT_PKEY, &mad);
}

/* Return: all errors of packets that arrive by port 1, and of those for port 0. */
static uint64_t errors_now(void)
{
	const struct ohca_port_counters *in = net_ctr(t, 1), *own = net_ctr(t, 0);

	return in->rcv_errors + in->rcv_switch_relay_errors + in->rcv_constraint_errors +
	       own->rcv_errors + t->m.stats.lost + net_pi(t, 0)->pkey_violations +
	       net_pi(t, 0)->qkey_violations;
}

static unsigned int received(struct ep *e)
{
	uint8_t pkt[512];
	unsigned int n = 0;

	for (unsigned int vl = 0; vl <= IB_MGMT_VL; vl++)
		while (ep_recv(e, vl, pkt, sizeof(pkt)))
			n++;
	return n;
}

static void try(struct bad *b)
{
	const unsigned int vl = *(const unsigned int *)b->ctx;
	const uint64_t before = errors_now();
	unsigned int got;

	if (!ep_send_raw(&t->ep[0], vl, b->p, b->len))
		return;
	net_pump(t);
	got = received(&t->ep[0]);
	assert_true(got <= 1);
	if (received(&t->ep[1])) {
		/* the packet, or the answer to it */
		assert_true(ib_lrh_dlid(ib_pkt_lrh(b->p)) == OTHERS ||
			    ib_lrh_slid(ib_pkt_lrh(b->p)) == OTHERS);
		passed++;
	} else if (got) {
		answered++;
	} else if (errors_now() > before) {
		errors++;
	} else {
		fail_msg("VL %u, %zu bytes, bit %zu of byte %zu: nobody has it, nobody counts it",
			 vl, b->len, b->bit % 8, b->bit / 8);
	}
	if (b->bit == NO_BIT)
		assert_int_equal(got, 0);
	assert_non_null(net_port(t, 1)->link);
	assert_int_equal(net_pi(t, 1)->state, IB_PS_ACTIVE);
	assert_int_equal(net_pi(t, 2)->state, IB_PS_ACTIVE);
}

/* The sample is valid: it has an answer. */
static void intact(unsigned int vl, const uint8_t *pkt, size_t len)
{
	assert_true(ep_send_raw(&t->ep[0], vl, pkt, len));
	net_pump(t);
	assert_int_equal(received(&t->ep[0]), 1);
	assert_int_equal(received(&t->ep[1]), 0);
}

static void test_packets(void **state)
{
	uint8_t pkt[512];

	(void)state;
	t = net_up(2, 4, 0);
	for (unsigned int vl = 0; vl <= IB_MGMT_VL; vl += IB_MGMT_VL) {
		const size_t len = vl ? smp(pkt) : gs_mad(pkt);

		answered = passed = errors = 0;
		intact(vl, pkt, len);
		each_truncation(pkt, len, try, &vl);
		/* a link does not send shorter ones */
		assert_in_range(errors, len - 16, len);
		errors = 0;
		each_flip(pkt, len, 0, EP_SMP_HDR + 24, try, &vl);
		intact(vl, pkt, len);
		assert_int_equal(passed, 2);
		assert_true(answered > 200 && errors > 50);
	}
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packets),
	};

	return cmocka_run_group_tests_name("bad packets", tests, NULL, NULL);
}
