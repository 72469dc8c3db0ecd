// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a data packet costs the fabric's thread: end ports and the data path in one thread, so that
 * nothing sleeps. Prints ns a packet over 1, 3 and 5 switches, to a host that reads at once and to
 * one that reads late, so that packets wait in each buffer on their way.
 */
#include "hosts.h"

#define ROUNDS	2000
#define BATCH	24

/* Processor time, which others on the machine change little. */
static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void drain(unsigned int i)
{
	struct ohca_link_frame fr;

	while (ohca_link_rx_peek(host[i].l, 0, &fr))
		ohca_link_rx_release(host[i].l, 0);
	ohca_link_kick(host[i].l);
}

/* ns a packet from host[from] to host[to]; @late: that one reads every 32nd time. */
static double cost(unsigned int from, unsigned int to, size_t len, bool late)
{
	double spent = 0, t;
	uint64_t n = 0;

	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < BATCH && send_data(from, 0, host[to].lid, len, (uint8_t)i); i++)
			n++;
		t = seconds();
		while (fab_data_round(d))
			;
		spent += seconds() - t;
		if (!late || r % 32 == 31)
			drain(to);
	}
	do {
		drain(to);
		t = seconds();
	} while (fab_data_round(d));
	return spent / (double)n * 1e9;
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
