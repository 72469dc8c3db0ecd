// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Each fault at each place of a route between two machines: at the cable and node at its end, in
 * the middle, and at its begin; for SMPs and data packets, in both directions.
 */
#include "fabric/fault/fault.h"
#include "hosts.h"

#include "ib/crc.h"
#include "ib/rate.h"

#define DELAY	5000000u

enum place { AT_END, IN_TRANSIT, AT_BEGIN, PLACES };

enum fault { LOSS, CORRUPT, LATE, PULL, FLAP, DEGRADE, RESTORE, KILL, DROP, PRESET, FAULTS };

/* The result for a packet. */
enum fate { NOW, LATER, NEVER, DAMAGED };

static const struct fab_attribute node_info = { IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO };
static const char *const places[] = { "at its end", "in transit", "at its begin" };
static const char *const faults[] = {
	"loss", "corrupt", "delay", "link down", "link flap", "link degrade", "link restore",
	"node kill", "drop", "preset",
};
static const char *const fates[] = { "arrives", "arrives later", "is lost", "is damaged" };

/* Output ports from host[0] to host[1]; the first is the machine's. */
static uint32_t out[4];

/* Machines at hosts 1 and 7; packets return by the same route. */
static void set_up(void)
{
	begin_hosts(from_spec("fat-tree:4"));
	place(0, 1);
	place(1, 7);
	out[0] = fab_port_of(&f->node[1], 1);
	assert_int_equal(path(1, LID(7), out + 1, 3), 3);
	for (unsigned int i = 1; i < 3; i++) {
		const uint32_t back = f->port[out[i]].peer;
		const struct fab_node *n = &f->node[f->port[back].node];

		f->sw[n->sw].lft[LID(1)] = (uint8_t)fab_port_num(f, back);
	}
	m.epoch++;
	pump(NULL);
	for (unsigned int i = 0; i < 2; i++)
		while (ep_recv(&host[i], IB_MGMT_VL, (uint8_t [IB_MAD_PKT_LEN]){ 0 },
			       IB_MAD_PKT_LEN))
			;
}

/* Injects the fault at the cable or the node of that place on the route from host[0] to host[1]. */
static void make(enum fault fault, enum place at)
{
	static const struct fab_limit slow = { IB_WIDTH_1X, 0xff, 0xff };
	static const struct fab_limit all = { 0xff, 0xff, 0xff };
	const uint32_t p = at == AT_END ? out[3] : at == IN_TRANSIT ? out[1] : out[0];
	const uint32_t node = at == AT_BEGIN ? 1 : f->port[f->port[p].peer].node;

	switch (fault) {
	case LOSS:
	case CORRUPT:
		assert_true(fab_fault_wire(&m, p, fault == LOSS ? UINT32_MAX : 0,
					   fault == CORRUPT ? UINT32_MAX : 0, 1));
		break;
	case LATE:
		assert_true(fab_fault_delay(&m, p, DELAY));
		break;
	case PULL:
		assert_true(fab_fault_link(&m, p, false, now));
		break;
	case FLAP:
		assert_true(fab_fault_flap(&m, p, 1000 * DELAY, 2000ull * DELAY, 1, now));
		break;
	case DEGRADE:
	case RESTORE:
		assert_true(fab_fault_degrade(&m, p, fault == DEGRADE ? slow : all, now));
		break;
	case KILL:
		assert_true(fab_fault_node(&m, node, false, now));
		break;
	case DROP:
		assert_true(fab_fault_drop(&m, node, &node_info, 1));
		break;
	default:
		assert_true(fab_fault_preset(f, p, "SymbolErrorCounter", 7));
	}
	pump(NULL);
}

static enum fate expected(enum fault fault, enum place at, bool smp, bool back)
{
	switch (fault) {
	case CORRUPT:
		return smp ? NOW : DAMAGED;
	case LATE:
		return back ? NOW : LATER;
	case DEGRADE:
	case RESTORE:
		/* the link has trained and is in Init */
		return smp ? NOW : NEVER;
	case DROP:
		return smp && at == (back ? AT_BEGIN : AT_END) ? NEVER : NOW;
	case PRESET:
		return NOW;
	default:
		return NEVER;
	}
}

static void send_smp(unsigned int from)
{
	uint8_t route[4] = { 1 };
	struct ib_smp smp;

	for (unsigned int i = 1; i < 4; i++)
		route[i] = (uint8_t)fab_port_num(f, from ? f->port[out[3 - i]].peer : out[i]);
	ep_smp_init(&host[from], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 4, route);
	assert_true(ep_send_smp(&host[from], &smp, 0));
}

/* The result from the ring of host[i], which has one packet or none. */
static enum fate come(unsigned int i, unsigned int vl)
{
	uint8_t pkt[512];
	struct ohca_link_frame fr;
	uint32_t icrc = 0;

	if (!ohca_link_rx_peek(host[i].l, vl, &fr))
		return NEVER;
	assert_true(fr.len <= sizeof(pkt));
	memcpy(pkt, fr.data, fr.len);
	ohca_link_rx_release(host[i].l, vl);
	assert_false(ohca_link_rx_peek(host[i].l, vl, &(struct ohca_link_frame){ 0 }));
	if (fr.flags & OHCA_FRAME_VCRC)
		return ib_vcrc(pkt, fr.len) == fr.vcrc ? NOW : NEVER;
	if (!(fr.flags & OHCA_FRAME_ICRC))
		return NOW;
	assert_int_equal(ib_icrc(pkt, fr.len - IB_ICRC_LEN, &icrc), 0);
	return icrc == ((uint32_t)pkt[fr.len - 1] << 24 | (uint32_t)pkt[fr.len - 2] << 16 |
			(uint32_t)pkt[fr.len - 3] << 8 | pkt[fr.len - 4]) ? NOW : DAMAGED;
}

static enum fate sent(bool smp, bool back)
{
	const unsigned int vl = smp ? IB_MGMT_VL : 0;
	enum fate fate;

	if (smp)
		send_smp(back);
	else
		assert_true(send_data(back, 0, LID(back ? 1 : 7), 256, 5));
	pump(NULL);
	fate = come(1 - back, vl);
	if (fate != NEVER)
		return fate;
	now += DELAY - 1;
	pump(NULL);
	if (come(1 - back, vl) != NEVER)
		fail_msg("it is too early");
	now += 1;
	pump(NULL);
	return come(1 - back, vl) == NOW ? LATER : NEVER;
}

static void test_everywhere(void **st)
{
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < FAULTS * PLACES * 4; i++) {
		const enum fault fault = i / 4 / PLACES;
		const enum place at = i / 4 % PLACES;
		const bool smp = i & 1, back = i & 2;
		enum fate want = expected(fault, at, smp, back), got_fate;

		set_up();
		make(fault, at);
		/* a link that is down has no credits: nothing can be sent */
		got_fate = ohca_link_is_up(host[back].l) ? sent(smp, back) : NEVER;
		if (got_fate != want) {
			print_error("%s %s: %s %s %s, not %s\n", faults[fault], places[at],
				    smp ? "an SMP" : "a data packet", back ? "back" : "forth",
				    fates[got_fate], fates[want]);
			wrong++;
		}
		teardown_hosts(st);
	}
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everywhere),
	};

	return cmocka_run_group_tests_name("faults everywhere", tests, NULL, NULL);
}
