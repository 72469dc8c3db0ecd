// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Measures the cost of an SMP for the fabric itself, without sockets and without a subnet manager:
 * microseconds by attribute and number of hops, in a fat tree of 11,664 hosts.
 *
 *	bench_smp [SPEC]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fabric/graph/generate.h"
#include "fabric/mgmt/mgmt.h"
#include "ib/packet.h"

#define TIMES	200000u

static struct fab_mad answer;

static bool deliver(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	answer = *mad;
	return true;
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* A route of @hops from port 1 of the first host, up to the spines and down again. */
static struct fab_mad request(const struct fab *f, uint8_t method, uint16_t attr, uint32_t mod,
			      unsigned int hops)
{
	struct fab_mad mad = { .dlid = IB_LID_PERMISSIVE, .slid = IB_LID_PERMISSIVE };
	uint32_t at = 1;

	mad.smp.hdr.base_version = IB_MAD_BASE_VERSION;
	mad.smp.hdr.class_version = IB_SMP_CLASS_VERSION;
	mad.smp.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	mad.smp.hdr.method = method;
	mad.smp.hdr.attr_id = ib_to_be16(attr);
	mad.smp.hdr.attr_mod = ib_to_be32(mod);
	mad.smp.dr_slid = mad.smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	for (unsigned int i = 1; i <= hops; i++) {
		const struct fab_node *n;
		unsigned int out;

		/* hosts are cabled to the low ports of a switch, higher ones lead up */
		mad.smp.init_path[i] = (uint8_t)fab_port_num(f, at);
		at = f->port[at].peer;
		n = &f->node[f->port[at].node];
		out = i < 3 && i + 1 < hops ? n->nports : 1;
		if (fab_port_of(n, out) == at)
			out = 2;
		at = fab_port_of(n, out);
	}
	ib_smp_set_hops(&mad.smp, 0, (uint8_t)hops);
	return mad;
}

static void measure(struct fab_mgmt *m, const char *what, const struct fab_mad *mad)
{
	const unsigned int hops = ib_smp_hop_cnt(&mad->smp);
	const uint64_t lost = m->stats.lost;
	double best = 1e9;

	for (unsigned int round = 0; round < 5; round++) {
		const double begin = now_us();
		double took;

		for (unsigned int i = 0; i < TIMES / 5; i++) {
			struct fab_mad copy = *mad;

			fab_mgmt_send(m, 1, &copy, 1);
		}
		took = (now_us() - begin) / (TIMES / 5);
		if (took < best)
			best = took;
	}
	printf("%-28s %u hops  %6.3f us\n", what, hops, best);
	if (m->stats.lost != lost || ib_be16(answer.smp.hdr.status) & 0x7fff) {
		fprintf(stderr, "bench_smp: %s was not answered well\n", what);
		exit(EXIT_FAILURE);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *what;
		uint8_t method;
		uint16_t attr;
		uint32_t mod;
		unsigned int hops;
	} smp[] = {
		{ "Get NodeInfo", IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, 0 },
		{ "Get NodeInfo, a switch", IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, 1 },
		{ "Get NodeInfo, a spine", IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, 3 },
		{ "Get NodeInfo, a host", IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, 6 },
		{ "Get NodeDescription", IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0, 6 },
		{ "Get PortInfo", IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1, 6 },
		{ "Get P_KeyTable", IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, 0, 6 },
		{ "Get SwitchInfo, a spine", IB_METHOD_GET, IB_SMP_ATTR_SWITCH_INFO, 0, 3 },
		{ "Set PortInfo", IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 1, 6 },
		{ "Set LFT, a spine", IB_METHOD_SET, IB_SMP_ATTR_LFT, 207, 3 },
	};
	const char *spec = argc > 1 ? argv[1] : "fat-tree:36,3";
	struct fab_mgmt *m = calloc(1, sizeof(*m));
	struct fab *f = fab_new();
	char why[1024];

	if (!f || !m || !fab_generate(f, spec, why, sizeof(why)) || !fab_seal(f)) {
		fprintf(stderr, "bench_smp: %s\n", why);
		return EXIT_FAILURE;
	}
	fab_mgmt_init(m, f, deliver, NULL);
	printf("%s: %u switches, %u others, %zu KiB\n", spec, f->switches, f->nodes - f->switches,
	       fab_bytes(f) >> 10);
	for (unsigned int i = 0; i < sizeof(smp) / sizeof(smp[0]); i++) {
		struct fab_mad mad = request(f, smp[i].method, smp[i].attr, smp[i].mod, smp[i].hops);

		if (smp[i].method == IB_METHOD_SET && smp[i].attr == IB_SMP_ATTR_PORT_INFO) {
			struct fab_mad get = request(f, IB_METHOD_GET, smp[i].attr, 1, 6);

			fab_mgmt_send(m, 1, &get, 1);
			memcpy(mad.smp.data, answer.smp.data, IB_SMP_DATA_LEN);
			/* no change of state, and a LID */
			mad.smp.data[32] &= 0xf0;
			mad.smp.data[33] &= 0x0f;
			ib_put_be16(mad.smp.data + 16, 7);
			ib_put_be16(mad.smp.data + 18, 1);
		}
		measure(m, smp[i].what, &mad);
	}
	fab_free(f);
	free(m);
	return EXIT_SUCCESS;
}
