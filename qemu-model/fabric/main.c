// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric: one program for a whole fabric. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fabric/base/sandbox.h"
#include "fabric/client/client_generate.h"
#include "fabric/control/control.h"
#include "fabric/graph/cut.h"
#include "fabric/graph/generate.h"
#include "front/proto.h"
#include "help.h"
#include "options.h"
#include "serve.h"
#include "fabric/graph/prefix_route.h"
#include "fabric/graph/topology.h"
#include "fabric/graph/tree.h"
#include "fabric/client/usage.h"

/* ctx: the file's name */
static void say(void *ctx, unsigned int line, const char *text)
{
	if (line)
		fprintf(stderr, "%s:%u: %s\n", (const char *)ctx, line, text);
	else
		fprintf(stderr, "%s: %s\n", (const char *)ctx, text);
}

static void warn(void *ctx, unsigned int line, const char *text)
{
	fprintf(stderr, "%s:%u: warning: %s\n", (const char *)ctx, line, text);
}

static int out_of_memory(void)
{
	fputs("ohca-fabric: out of memory\n", stderr);
	return EXIT_FAILURE;
}

/* Make a sealed fabric of the SPEC or else the file. Return: NULL, the error was printed. */
static struct fab *make(const struct fab_options *o)
{
	const struct fab_report report = {
		.say = say, .ctx = (void *)o->file, .warn = o->cfg.quiet ? NULL : warn,
	};
	struct fab *f = fab_new();
	char why[1024];
	bool ok;

	if (!f) {
		out_of_memory();
		return NULL;
	}
	f->vls = o->vls ? o->vls : f->vls;
	f->mtu = o->mtu ? o->mtu : f->mtu;
	f->site = o->site;
	/* a machine's adapter has a table of its own size, and its switch's must be larger */
	if (!o->cfg.listen && !o->cfg.ntenants) {
		f->ca_num_pkeys = o->pkeys ? o->pkeys : FAB_SIM_PKEYS;
		f->sw_num_pkeys = f->ca_num_pkeys;
	} else if (o->pkeys) {
		f->ca_num_pkeys = o->pkeys;
	}
	if (o->spec) {
		ok = fab_generate(f, o->spec, why, sizeof(why));
		if (!ok)
			fprintf(stderr, "ohca-fabric: %s\n", why);
	} else {
		ok = fab_topology_load(f, o->file, &report);
	}
	if (ok && !fab_remote_ports(f, o->cfg.wire, o->cfg.nwires, why, sizeof(why))) {
		fprintf(stderr, "ohca-fabric: %s\n", why);
		ok = false;
	}
	if (ok && !fab_seal(f)) {
		out_of_memory();
		ok = false;
	}
	for (unsigned int i = 0; ok && i < o->nroutes; i++) {
		ok = fab_prefix_route_add(f, o->route[i], why, sizeof(why));
		if (!ok)
			fprintf(stderr, "ohca-fabric: --prefix-route: %s\n", why);
	}
	if (ok)
		return f;
	fab_free(f);
	return NULL;
}

static void summary(const struct fab *f, const char *name)
{
	uint32_t hosts = 0, cables = 0;

	for (uint32_t i = 0; i < f->nodes; i++)
		hosts += f->node[i].type == IB_NODE_CHANNEL_ADAPTER;
	for (uint32_t i = 1; i < f->ports; i++)
		cables += f->port[i].peer > i;
	printf("%s: %u switches, %u channel adapters, %u routers, %u cables\n", name, f->switches,
	       hosts, f->nodes - f->switches - hosts, cables);
}

static void print_finding(void *ctx, const struct fab_finding *finding)
{
	fab_finding_write(ctx, finding, stdout);
}

/* Return: whether the cables form a tree. */
static bool check_tree(struct fab *f)
{
	struct fab_tree tree;

	if (!fab_tree_check(f, print_finding, f, &tree)) {
		out_of_memory();
		return false;
	}
	for (uint32_t r = 0; r < tree.ranks; r++)
		printf("rank %u: %u switches, %u cables below\n", r, tree.switches[r], tree.cables[r]);
	if (!tree.ranks)
		printf("no tree: no switch has a host\n");
	else
		printf("%u findings\n", tree.findings);
	return tree.ranks && !tree.findings;
}

static double gbps(uint64_t kbps)
{
	return (double)kbps / 1e6;
}

/* Print what the cables can carry. Return: false: the error was printed. */
static bool print_cuts(const struct fab *f)
{
	struct fab_cuts c;

	if (!fab_cuts_find(f, &c)) {
		fputs("ohca-fabric: out of memory, or there are no two hosts at switches\n", stderr);
		return false;
	}
	printf("bisection: %.3f Gb/s of %.3f, from %u hosts to %u\n", gbps(c.half.kbps),
	       gbps(c.half.sent_kbps), c.half.hosts, c.half.others);
	if (c.node != FAB_NONE)
		printf("leaf: %.3f Gb/s of %.3f, from %u hosts of '%.64s' to %u\n", gbps(c.leaf.kbps),
		       gbps(c.leaf.sent_kbps), c.leaf.hosts, f->desc[c.node].text, c.leaf.others);
	printf("all-to-all: %.3f Gb/s of each host\n", gbps(c.each_kbps));
	return true;
}

static int check_topology(const char *name, bool tree, bool cuts)
{
	struct fab *f = make(&(struct fab_options){ .file = name });
	bool ok;

	if (!f)
		return EXIT_FAILURE;
	summary(f, name);
	ok = !tree || check_tree(f);
	ok = (!cuts || print_cuts(f)) && ok;
	fab_free(f);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int check_files(int argc, char **argv)
{
	bool tree = false, cuts = false;
	int rc = EXIT_SUCCESS, first = 2;

	for (; first < argc && !strncmp(argv[first], "--", 2); first++) {
		if (!strcmp(argv[first], "--fat-tree"))
			tree = true;
		else if (!strcmp(argv[first], "--bisection"))
			cuts = true;
		else
			return fab_usage_error("unknown option or argument");
	}
	if (argc <= first)
		return fab_usage_error("check needs topology files");
	for (int i = first; i < argc; i++)
		if (check_topology(argv[i], tree, cuts) != EXIT_SUCCESS)
			rc = EXIT_FAILURE;
	return rc;
}

#define SECOND_NS	1000000000u	/* begin of virtual time, which is never 0 */

/* A machine needs three descriptors. The soft limit, often 1,024, is for programs with select(). */
static void raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r))
		perror("ohca-fabric: RLIMIT_NOFILE");
}

/*
 * One thread serves all, so free() of a block must not take longer than its size explains: it must
 * not merge blocks that were freed before (fast bins), nor return memory to the system when much is
 * free. Large blocks are mappings of their own, of which a process may have about 65,000.
 */
static void steady_malloc(void)
{
	mallopt(M_MXFAST, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	mallopt(M_MMAP_THRESHOLD, 512 << 10);
	mallopt(M_MMAP_MAX, 1 << 14);
}

static int serve(struct fab *f, const struct fab_options *o)
{
	struct fab_serve_time time = { .now_ns = SECOND_NS, .until_ns = SECOND_NS };
	struct fab_serve_cfg cfg = o->cfg;

	raise_files();
	steady_malloc();
	if (o->is_virtual) {
		cfg.time = &time;
		cfg.data.clock = fab_serve_clock;
		cfg.data.arg = &time;
	}
	return fab_serve(f, &cfg);
}

static int traffic(struct fab *f, const struct fab_options *o)
{
	struct fab_traffic_options to = o->traffic;

	to.cfg.rate_scale = o->cfg.data.rate_scale ? o->cfg.data.rate_scale : 1;
	to.cfg.hoq_scale = o->cfg.data.hoq_scale;
	to.cfg.seed = o->cfg.seed;
	if (o->cfg.control)
		to.cfg.routing = FAB_ROUTING_LOADED;
	return fab_traffic_client(f, &to);
}

static int hosts(struct fab *f, const struct fab_options *o)
{
	(void)o;
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		const uint32_t p = fab_port_of(n, 1), peer = f->port[p].peer;
		char rate[16], leaf[32] = "-";

		if (n->type != IB_NODE_CHANNEL_ADAPTER)
			continue;
		if (peer != FAB_NO_PORT)
			snprintf(leaf, sizeof(leaf), "0x%016" PRIx64,
				 f->node[f->port[peer].node].guid);
		printf("0x%016" PRIx64 " %u %s %s %.64s\n", n->guid, n->nports,
		       fab_link_rate(f, p, rate), leaf, f->desc[i].text);
	}
	return EXIT_SUCCESS;
}

/* @runs: the source may be a running fabric. Return: as of fab_options_parse(). */
static int check_source(const struct fab_options *o, bool runs)
{
	const bool control = runs && o->cfg.control;

	if (!!o->file + !!o->spec + control != 1)
		return fab_usage_error(runs ? "one of --topology, --generate and --control is needed" :
					      "either --topology or --generate is needed");
	if (control && (o->traffic.cfg.routing || o->vls || o->mtu))
		return fab_usage_error("--control excludes --routing, --vls and --mtu: the running "
				       "fabric has its own");
	return EXIT_SUCCESS;
}

/* Do @verb with the fabric that the options describe. */
static int with_fabric(int argc, char **argv,
		       int (*verb)(struct fab *f, const struct fab_options *o))
{
	struct fab_options o = {
		.cfg.seed = 1,
		.cfg.spin_us = FAB_SPIN_AUTO,
		.cfg.sandbox = FAB_SANDBOX,
		.cfg.data = { .shift = OHCA_LINK_SHIFT_DEFAULT, .hoq_scale = 1 },
		.traffic = { .cfg = { .size = 65536, .load = 100 }, .interval_ns = 10000 },
	};
	int rc = fab_options_parse(&o, argc, argv);
	struct fab *f;

	if (!rc && o.traffic.any && verb != traffic)
		rc = fab_usage_error("--pattern, --routing, --size, --messages, --load, --sl, "
				     "--path-sl, --transport, --congestion-control, --adaptive, "
				     "--flows, --series, --interval and --script are options of "
				     "traffic");
	if (!rc)
		rc = check_source(&o, verb == traffic);
	if (rc)
		f = NULL;
	else if (verb == traffic && o.cfg.control)
		f = fab_client_fabric(o.cfg.control);
	else
		f = make(&o);
	if (f)
		rc = verb(f, &o);
	else if (!rc)
		rc = EXIT_FAILURE;
	fab_paths_end(&o.traffic.paths);
	fab_free(f);
	return rc;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (!strcmp(verb, "--help") || !strcmp(verb, "-h")) {
		fab_help_print();
		return EXIT_SUCCESS;
	}
	if (!strcmp(verb, "--version") || !strcmp(verb, "-V")) {
		printf("ohca-fabric, link protocol %u, front protocol %u, control protocol %u\n",
		       OHCA_LINK_VERSION, OHCA_FRONT_VERSION, FAB_CONTROL_VERSION);
		return EXIT_SUCCESS;
	}
	if (!strcmp(verb, "generate"))
		return fab_generate_client(argc - 1, argv + 1);
	if (!strcmp(verb, "check"))
		return check_files(argc, argv);
	if (!strcmp(verb, "serve"))
		return with_fabric(argc - 1, argv + 1, serve);
	if (!strcmp(verb, "hosts"))
		return with_fabric(argc - 1, argv + 1, hosts);
	if (!strcmp(verb, "traffic"))
		return with_fabric(argc - 1, argv + 1, traffic);
	if (!strcmp(verb, "topology") && fab_is_conversion(argc - 1, argv + 1))
		return fab_topology_client(argc - 1, argv + 1);
	if (fab_is_control_verb(verb))
		return fab_control_client(argc - 1, argv + 1);
	return fab_usage_error("the first argument is generate, check, hosts, serve, traffic or a "
			       "VERB");
}
