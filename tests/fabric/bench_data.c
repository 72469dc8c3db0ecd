// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Measures the cost of a data packet for the fabric's thread, from one socket to another. End ports
 * and the data path run in one thread, so nothing sleeps. Prints ns a packet over 1, 3 and 5
 * switches, to a host that reads at once and to one that reads late, so that packets wait in each
 * buffer on their way.
 */
#include "hosts.h"

#define ROUNDS	2000
#define BATCH	24

/* Processor time, which other processes change little. */
static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void drain(unsigned int i)
{
	struct ohca_link_frame fr;

	do {
		while (ohca_link_rx_peek(host[i].l, 0, &fr))
			ohca_link_rx_release(host[i].l, 0);
	} while (simple_step(host[i].l));
}

/* Sends as many packets of @len bytes from host[from] to host[to] as the credits allow. */
static void send_batch(unsigned int from, unsigned int to, size_t len)
{
	for (int i = 0; i < BATCH; i++) {
		uint8_t *b = ohca_link_tx_begin(host[from].l, 0, len);

		if (!b)
			break;
		b = ib_build_lrh(b, 0, 0, IB_LNH_IBA_LOCAL, host[to].lid, (uint16_t)(len / 4),
				 host[from].lid);
		ib_build_bth(b, IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 7, false, 0);
		ohca_link_tx_commit(host[from].l, 0, len, 0);
	}
	simple_step(host[from].l);
}

/* Return: seconds until the fabric has moved all that it can, from host[from] to host[to]. */
static double moves(unsigned int from, unsigned int to)
{
	const double begin = seconds();

	do {
		assert_true(fab_data_ctrl(d, port_of_host(node_of[from])));
		assert_true(fab_data_ctrl(d, port_of_host(node_of[to])));
	} while (fab_data_round(d));
	return seconds() - begin;
}

/* Return: ns a packet from host[from] to host[to]; @late: the receiver reads every 32nd time. */
static double cost(unsigned int from, unsigned int to, size_t len, bool late)
{
	const uint64_t before = d->n.delivered;
	double spent = 0;

	for (int r = 0; r < ROUNDS; r++) {
		send_batch(from, to, len);
		spent += moves(from, to);
		if (!late || r % 32 == 31)
			drain(to);
	}
	spent /= (double)(d->n.delivered - before);
	/* all packets have arrived before the next measurement */
	do {
		drain(to);
		pump(NULL);
	} while (ohca_link_rx_pending(host[to].l));
	return spent * 1e9;
}

static void bench(void **st)
{
	static const size_t lens[] = { 64, 1048, 4120 };
	static const uint32_t nodes[] = { 3, 1, 15 };

	(void)st;
	place(0, 2);
	for (unsigned int i = 0; i < 3; i++) {
		place(1, nodes[i]);
		for (unsigned int k = 0; k < 3; k++) {
			double quick, behind;

			d->n.hops = d->n.delivered = 0;
			quick = cost(0, 1, lens[k], false);
			behind = cost(0, 1, lens[k], true);
			printf("%llu switches, %4zu B: %5.0f ns a packet, to a late reader %5.0f ns\n",
			       (unsigned long long)(d->n.hops / d->n.delivered + 1), lens[k], quick,
			       behind);
		}
		ohca_link_free(host[1].l);
		host[1].l = NULL;
		pump(NULL);
	}
}

static int setup_bench(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4,3"));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bench, setup_bench, teardown_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
