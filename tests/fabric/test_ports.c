// SPDX-License-Identifier: GPL-2.0-or-later
/* A switch with so many ports that no port mask fits one word, and multicast by rounds. */
#include "net.h"

static const unsigned int ports[NET_EPS] = { 64, 63, 128, 200 };

static struct net *net_many(void)
{
	struct net *t = net_new(200, 0, 2, 0);
	struct ohca_link_err err;

	for (; t->n < NET_EPS; t->n++)
		assert_int_equal(net_attach(t, &t->ep[t->n], 0x100 + t->n, ports[t->n], NULL, &err),
				 0);
	assert_int_equal(ep_bring_up(t->ep, NET_EPS), 0);
	return t;
}

/* Entry @idx of multicast forwarding has all end ports except those in @not. */
static void join(struct net *t, unsigned int idx, unsigned int not)
{
	for (uint32_t pos = 0; pos < 16; pos++) {
		uint16_t mask = 0;
		uint8_t d[64] = { 0 };

		for (unsigned int i = 0; i < t->n; i++)
			if (t->ep[i].port / 16 == pos && !(not >> i & 1))
				mask |= (uint16_t)(1u << t->ep[i].port % 16);
		ib_mft_block_put(d, idx, mask);
		if (pos <= net_node(t)->nports / 16)
			assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_MFT,
						   pos << 28, d), 0);
	}
}

static void test_ucast(void **state)
{
	struct net *t = net_many();

	(void)state;
	for (unsigned int from = 0; from < NET_EPS; from++) {
		/* one packet to each other end port in one round */
		for (unsigned int to = 0; to < NET_EPS; to++)
			if (to != from)
				assert_true(net_send(&t->ep[from], to & 1, to & 1, t->ep[to].lid,
						     0xffff, 100 + 4 * to, (uint8_t)to));
		net_round(t);
		net_round(t);
		for (unsigned int to = 0; to < NET_EPS; to++)
			for (unsigned int vl = 0; vl < 2; vl++)
				assert_int_equal(net_got(&t->ep[to], vl, 100 + 4 * to, (int)to),
						 to != from && vl == (to & 1));
	}
	net_free(t);
}

static void test_mcast(void **state)
{
	struct net *t = net_many();

	(void)state;
	join(t, 0, 0);
	for (unsigned int from = 0; from < NET_EPS; from++) {
		assert_true(net_send(&t->ep[from], 0, 0, 0xc000, 0xffff, 100, 1));
		net_pump(t);
		for (unsigned int to = 0; to < NET_EPS; to++)
			assert_int_equal(net_got(&t->ep[to], 0, 100, 1), to != from);
	}
	for (unsigned int out = 1; out < NET_EPS; out++) {
		join(t, 1, 1u << out);
		assert_true(net_send(&t->ep[0], 0, 0, 0xc001, 0xffff, 100, 1));
		net_pump(t);
		for (unsigned int to = 0; to < NET_EPS; to++)
			assert_int_equal(net_got(&t->ep[to], 0, 100, 1), to && to != out);
	}
	/* a MLID without an entry goes by the default port, unless it arrived there */
	net_switch(t)->si.mcast_top = 0xc001;
	net_switch(t)->si.def_mcast_primary = 64;
	assert_true(net_send(&t->ep[1], 0, 0, 0xc002, 0xffff, 100, 2));
	assert_true(net_send(&t->ep[0], 0, 0, 0xc002, 0xffff, 100, 3));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[0], 0, 100, 2), 1);
	for (unsigned int to = 0; to < NET_EPS; to++)
		assert_int_equal(net_got(&t->ep[to], 0, 0, -1), 0);
	/* from that port it goes by the other default port, if that differs (14.2.5.4) */
	for (unsigned int other = 0; other < NET_EPS; other++) {
		net_switch(t)->si.def_mcast_primary = (uint8_t)ports[1];
		net_switch(t)->si.def_mcast_not_primary = (uint8_t)ports[other];
		assert_true(net_send(&t->ep[1], 0, 0, 0xc002, 0xffff, 100, 4));
		assert_true(net_send(&t->ep[3], 0, 0, 0xc002, 0xffff, 100, 5));
		net_pump(t);
		for (unsigned int to = 0; to < NET_EPS; to++)
			assert_int_equal(net_got(&t->ep[to], 0, 100, -1),
					 (to == 1) + (to == other && to != 1));
	}
	net_free(t);
}

/* A member that does not read delays the others; without it they continue. */
static void test_mcast_waits(void **state)
{
	struct net *t = net_many();

	(void)state;
	join(t, 0, 0);
	for (unsigned int stuck = 1; stuck < NET_EPS; stuck++) {
		struct fab_dport *p = net_port(t, ports[stuck]);
		unsigned int sent = 0, more, got[NET_EPS] = { 0 };

		for (int i = 0; i < 100; i++) {
			if (net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 4000, 1))
				sent++;
			net_pump(t);
			for (unsigned int k = 1; k < NET_EPS; k++)
				if (k != stuck)
					got[k] += net_got(&t->ep[k], 0, 4000, 1);
		}
		assert_int_equal(t->d->blocked, 1);
		/* the port is Init, then Active again: the head is examined anew */
		net_pi(t, p->num)->state = IB_PS_INIT;
		t->m.epoch++;
		do {
			more = 0;
			net_pump(t);
			for (unsigned int k = 1; k < NET_EPS; k++) {
				const unsigned int n = k == stuck ? 0 :
						       net_got(&t->ep[k], 0, 4000, 1);

				got[k] += n;
				more += n;
			}
		} while (more);
		assert_int_equal(t->d->blocked, 0);
		for (unsigned int k = 1; k < NET_EPS; k++)
			if (k != stuck)
				assert_int_equal(got[k], sent);
		assert_true(net_got(&t->ep[stuck], 0, 4000, 1) < sent);
		net_pi(t, p->num)->state = IB_PS_ACTIVE;
		t->m.epoch++;
	}
	net_free(t);
}

/* A discarded copy is counted once, however often tables change while the others wait. */
static void test_mcast_once(void **state)
{
	struct net *t = net_many();
	struct ohca_port_counters *c = net_ctr(t, ports[1]);
	unsigned int sent = 0, got = 0;
	uint64_t ended = 0, was, delivered, forks;

	(void)state;
	join(t, 0, 0);
	net_pi(t, ports[1])->state = IB_PS_INIT;
	t->m.epoch++;
	net_pump(t);
	was = c->xmit_inactive_discards;
	delivered = t->d->n.delivered;
	forks = t->d->n.forks;
	for (unsigned int i = 0; i < NET_EPS; i++)
		net_got(&t->ep[i], 0, 0, -1);
	for (int i = 0; i < 60; i++) {
		sent += net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 4000, 1);
		t->m.epoch++;
		net_pump(t);
		net_got(&t->ep[3], 0, 4000, 1);
	}
	assert_int_equal(t->d->blocked, 1);
	for (int i = 0; i < 60; i++) {
		t->m.epoch++;
		net_pump(t);
		got += net_got(&t->ep[2], 0, 4000, 1);
		net_got(&t->ep[3], 0, 4000, 1);
	}
	assert_int_equal(got, sent);
	assert_int_equal(c->xmit_inactive_discards - was, sent);
	/* a port's link goes down: the discard has another reason, and no counter */
	net_pi(t, ports[1])->state = IB_PS_DOWN;
	t->m.epoch++;
	assert_true(net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 4000, 1));
	net_pump(t);
	assert_int_equal(c->xmit_inactive_discards - was, sent);
	assert_int_equal(t->d->n.drop[FAB_DROP_NO_LINK], 1);
	/* each copy has arrived, or was discarded with a reason */
	for (unsigned int i = 0; i < FAB_DROPS; i++)
		ended += t->d->n.drop[i];
	assert_int_equal(t->d->n.forks - forks, 2 * (sent + 1));
	assert_int_equal(sent + 1 + t->d->n.forks - forks, t->d->n.delivered - delivered + ended);
	net_free(t);
}

/* A multicast source sends as many packets in a round as a unicast source. */
static void test_mcast_round(void **state)
{
	struct net *t = net_many();

	(void)state;
	join(t, 0, 0);
	for (unsigned int i = 0; i < 40; i++)
		assert_true(net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 100, 1));
	assert_true(net_round(t));
	for (unsigned int i = 1; i < NET_EPS; i++)
		assert_int_equal(net_got(&t->ep[i], 0, 100, 1), 40);
	net_free(t);
}

/*
 * A link goes down while copies of a head wait. The packets that arrived plus the forks equal those
 * delivered or dropped, whether some of the copies have left or none.
 */
static void test_mcast_lost(void **state)
{
	const struct ohca_link_phy phy = ep_phy();

	(void)state;
	for (unsigned int stuck = 1; stuck < NET_EPS; stuck++) {
		struct net *t = net_many();
		const struct ohca_port_counters *c = net_ctr(t, ports[0]);
		uint64_t came, ended = 0;

		join(t, 0, 0);
		net_pump(t);
		came = c->rcv_pkts;
		for (int i = 0; i < 100; i++) {
			net_send(&t->ep[0], 0, 0, 0xc000, 0xffff, 4000, 1);
			net_pump(t);
			for (unsigned int k = stuck + 1; k < NET_EPS; k++)
				net_got(&t->ep[k], 0, 4000, 1);
		}
		assert_int_equal(t->d->blocked, 1);
		assert_int_equal(ohca_link_train(t->ep[0].l, &phy), 0);
		net_pump(t);
		assert_int_equal(t->d->blocked, 0);
		for (unsigned int i = 0; i < FAB_DROPS; i++)
			ended += t->d->n.drop[i];
		assert_int_equal(ended, stuck == NET_EPS - 1 ? 0 : stuck);
		assert_int_equal(c->rcv_pkts - came + t->d->n.forks, t->d->n.delivered + ended);
		net_free(t);
	}
}

static bool signalled(const struct ep *e)
{
	struct pollfd p = { .fd = ohca_link_ctrl_fd(e->l), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/*
 * Links without packets are idle and cost a round nothing. A packet sent by an idle link reaches
 * its peer even if no round follows.
 */
static void test_idle(void **state)
{
	struct net *t = net_many();

	(void)state;
	net_pump(t);
	assert_true(fab_data_sleep(t->d));
	assert_int_equal(t->d->nawake, 0);
	assert_int_equal(t->d->links, NET_EPS);
	for (unsigned int i = 1; i < NET_EPS; i++) {
		assert_true(ohca_link_prepare_sleep(t->ep[i].l));
	}
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(net_send(&t->ep[0], 0, 0, t->ep[1].lid, 0xffff, 100, 1));
		assert_false(fab_data_round(t->d));
		fab_data_ctrl(t->d, net_index(t, ports[0]));
		assert_int_equal(t->d->nawake, 1);
		assert_true(fab_data_round(t->d));
		while (fab_data_round(t->d))
			;
		assert_int_equal(t->d->nawake, 1);
		assert_true(signalled(&t->ep[1]));
		assert_int_equal(net_got(&t->ep[1], 0, 100, 1), 1);
		assert_true(ohca_link_prepare_sleep(t->ep[1].l));
		assert_true(fab_data_sleep(t->d));
	}
	assert_false(signalled(&t->ep[2]));
	/* credits arrive at an idle link: packets that waited for them leave */
	while (net_send(&t->ep[0], 0, 0, t->ep[1].lid, 0xffff, 4000, 1)) {
		fab_data_ctrl(t->d, net_index(t, ports[0]));
		while (fab_data_round(t->d))
			;
	}
	assert_int_equal(t->d->blocked, 1);
	assert_true(fab_data_sleep(t->d));
	assert_int_equal(t->d->nawake, 1);
	assert_true(net_got(&t->ep[1], 0, 4000, 1) > 1);
	fab_data_ctrl(t->d, net_index(t, ports[1]));
	assert_true(fab_data_round(t->d));
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ucast),
		cmocka_unit_test(test_mcast),
		cmocka_unit_test(test_mcast_waits),
		cmocka_unit_test(test_mcast_once),
		cmocka_unit_test(test_mcast_round),
		cmocka_unit_test(test_mcast_lost),
		cmocka_unit_test(test_idle),
	};

	return cmocka_run_group_tests_name("switch with many ports", tests, NULL, NULL);
}
