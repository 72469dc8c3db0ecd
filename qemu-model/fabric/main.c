// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric: one program for a whole fabric. */
#include <errno.h>
#include <getopt.h>
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
#include "fabric/hca/front.h"
#include "fabric/hca/hca.h"
#include "ib/rate.h"
#include "front/proto.h"
#include "serve.h"
#include "fabric/graph/prefix_route.h"
#include "fabric/graph/topology.h"
#include "fabric/graph/tree.h"
#include "fabric/client/client_traffic.h"
#include "fabric/client/usage.h"

static const char usage_text[] =
	"Usage: ohca-fabric generate SPEC [OPTION...]  write the topology of SPEC to stdout\n"
	"       ohca-fabric check [--fat-tree] [--bisection] FILE... say what is wrong with topology\n"
	"                                     files (-: standard input), and with their cables as a\n"
	"                                     tree's; how much these can carry\n"
	"       ohca-fabric hosts OPTION      list the channel adapters: NodeGUID, ports, rate of\n"
	"                                     the first, NodeGUID of its switch, name\n"
	"       ohca-fabric serve OPTION...   run a fabric\n"
	"       ohca-fabric traffic OPTION... let its hosts send to each other, in virtual time\n"
	"       ohca-fabric VERB OPTION...    ask a fabric that runs; VERBs below\n"
	"       ohca-fabric --help            this text\n"
	"       ohca-fabric --version         versions of the link, front and control protocols\n\n"
	"The fabric, of hosts, serve and traffic:\n"
	"  -t, --topology FILE       a file,\n"
	"  -g, --generate SPEC       or made from a SPEC\n"
	"      --site N              with --generate: GUIDs differ from those of other sites, 0 to 255\n"
	"                            (0)\n\n"
	"Options of generate:\n"
	"      --names nvidia        names, GUIDs, IDs and numbers of ports as of real products\n"
	"      --aggregation         with an aggregation node at each of these switches\n"
	"      --chassis             leaves and spines of a fat tree are boards of directors\n"
	"      --rails N             adapters of each machine of a fat tree (1)\n"
	"      --speed RATE[,RATE[,RATE]]  of cables of hosts, leaves and spines, as 2xHDR,NDR\n"
	"                            (EDR)\n"
	"      --broken N            cables that are missing (0)\n"
	"      --slow N              cables with a lower width or speed (0)\n"
	"      --swapped N           pairs of cables whose ends are swapped (0)\n"
	"      --seed N              chooses these cables (1)\n\n"
	"Options of serve:\n"
	"  -u, --umad2sim[=NAME]     let programs with libumad2sim.so attach, OpenSM for one;\n"
	"                            NAME is their IBSIM_SOCKNAME (sim)\n"
	"      --umad2sim-udp ADDRESS:PORT  let them attach from other hosts, too: ADDRESS is one\n"
	"                            of this host's, their IBSIM_SERVER_NAME, PORT their\n"
	"                            IBSIM_SERVER_PORT; whoever reaches it may manage the fabric\n"
	"  -c, --control PATH        let the VERBs ask it, by a UNIX socket with that PATH\n"
	"  -l, --listen PATH         UNIX socket for virtual machines; each has a host's place\n"
	"      --listen-node NODE=PATH  UNIX socket of its own for the machine of this host, which\n"
	"                            has its place by no other one; up to 64\n"
	"      --front-memory SIZE[,ALL]  what a machine's memory may be, and that of all of them:\n"
	"                            bytes, or with K, M, G or T (4T,64T)\n"
	"      --hca-memory SIZE     what the daemon keeps of an HCA's objects may take, 1M to 1G\n"
	"                            (1G)\n"
	"      --disk-memory         take machines, too, whose memory is in part files of a disk, as\n"
	"                            persistent memory is: who has such may keep all of them\n"
	"                            waiting for the disk\n"
	"      --wire NODE:PORT[=HOST:PORT[/NODE:PORT]]  a wire from this port of a switch, which\n"
	"                            has no cable or a host's, to a fabric of another host: it waits\n"
	"                            for one that comes, or connects to the listener at HOST:PORT,\n"
	"                            there to NODE:PORT, or to any port that waits; up to 64\n"
	"      --prefix-route ROUTER=PREFIX,GUID  the way of a router to the subnet with that prefix,\n"
	"                            or * for any, in which it has no port: to the router port\n"
	"                            with that GUID; up to 64\n"
	"      --listen-tcp [HOST:]PORT  where wires and programs of other hosts come\n"
	"                            (127.0.0.1)\n"
	"      --token FILE          the secret that those have who come by TCP\n"
	"  -m, --mtu BYTES           of all ports: 256, 512, 1024, 2048 or 4096 (4096)\n"
	"  -v, --vls N               data VLs of all ports: 1, 2, 4, 8 or 15 (8)\n"
	"      --pkeys N             entries of P_KeyTables, 32, 64, 96 or 128 (64; with --listen\n"
	"                            128, and those of switches have 160)\n"
	"      --capture FILE        write what ports send and receive from the first packet on\n"
	"                            to FILE, as pcapng\n"
	"      --capture-port NODE:P a port of the capture; up to 32\n"
	"      --hosts-off           hosts are switched off until a machine has their place\n"
	"      --credit-shift N      blocks of 64 << N bytes a credit of their links, 0 to 6 (2)\n"
	"      --hoq-scale N         stretch HOQLife and LifeTimeValue by N, 0: never discard (1)\n"
	"      --rate-scale N        wires have the rates of their widths and speeds, divided by N;\n"
	"                            0: data packets take no time on them (0)\n"
	"      --seed N              what faults do by chance depends on it (1)\n"
	"      --spin-us N|auto      wait awake for N us before sleeping; auto: for up to 50 us,\n"
	"                            while that pays and nobody else wants the processors (auto)\n"
	"  -q, --quiet               do not report links that come and go\n"
	"      --stats               print counts of links at the end\n"
	"      --trace PATTERN       report events of HCAs of this process whose names match:\n"
	"                            'ohca_*' all, 'ohca_err_*' what should not be\n"
	"      --virtual             time stands, but while the verb run lets it run, as fast as the\n"
	"                            processor can: without machines and wires of others\n"
	"      --no-sandbox          keep the rights of the user: files, system calls\n\n";

/* The rest of the help: the length of a string is limited. */
static const char usage_rest[] =
	"Options of traffic, beside --mtu, --vls, --rate-scale (1), --hoq-scale and --seed:\n"
	FAB_TRAFFIC_HELP
	"VERBs that ask a fabric:\n"
	FAB_CONTROL_HELP "\n"
	"A topology is a file of ibnetdiscover (also -f, -g, -p), ibsim, ibdiagnet (.lst,\n"
	".db_csv), OpenSM (opensm-subnet.lst) or IBDM (.topo), or made from a SPEC:\n\n"
	FAB_GENERATE_HELP;

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

/*
 * Options of hosts and serve; @vls, @mtu: as in struct fab; @pkeys: entries of a P_KeyTable; 0: the
 * default. @route: [@nroutes] as of fab_prefix_route_add(). @token, @listen_tcp: buffers to which
 * @cfg points; @is_virtual: virtual time
 */
struct serve_options {
	struct fab_serve_cfg cfg;
	const char *file;
	const char *spec;
	uint8_t vls;
	uint8_t mtu;
	uint16_t pkeys;
	uint8_t site;
	const char *route[FAB_PREFIX_ROUTES];
	unsigned int nroutes;
	struct fab_traffic_options traffic;
	char token[OHCA_LINK_TOKEN_MAX + 1];
	char listen_tcp[OHCA_LINK_TCP_MAX];
	bool is_virtual;
};

/* Make a sealed fabric of the SPEC or else the file. Return: NULL, the error was printed. */
static struct fab *make(const struct serve_options *o)
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
	struct fab *f = make(&(struct serve_options){ .file = name });
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
			return fab_usage_error("leave out what --help does not list");
	}
	if (argc <= first)
		return fab_usage_error("check has arguments, topology files");
	for (int i = first; i < argc; i++)
		if (check_topology(argv[i], tree, cuts) != EXIT_SUCCESS)
			rc = EXIT_FAILURE;
	return rc;
}

#define SECOND_NS	1000000000u	/* begin of virtual time, which is never 0 */

enum { O_SHIFT = 256, O_HOQ, O_SPIN, O_STATS, O_HOSTS_OFF, O_CAPTURE, O_CAPTURE_PORT, O_PKEYS,
       O_UDP, O_SEED, O_TRACE, O_NO_SANDBOX, O_WIRE, O_LISTEN_TCP, O_TOKEN, O_SITE, O_DISK_MEMORY, O_PREFIX_ROUTE,
       O_LISTEN_NODE, O_FRONT_MEMORY, O_HCA_MEMORY, O_RATE, O_VIRTUAL };

/* Parse SIZE[,ALL] */
static bool set_front_memory(struct serve_options *o, const char *arg)
{
	uint64_t *one = &o->cfg.front_memory, *all = &o->cfg.fronts_memory;
	const char *rest = fab_option_size(arg, one);

	*all = FAB_FRONTS_BYTES;
	if (rest && *rest)
		rest = fab_option_size(rest + 1, all);
	if (rest && !*rest && *one && *all && *one <= FAB_FRONT_BYTES && *all <= FAB_FRONTS_BYTES)
		return true;
	fprintf(stderr, "ohca-fabric: --front-memory: '%s' is not SIZE[,ALL], up to 4T and 64T\n", arg);
	return false;
}

static bool set_hca_memory(struct serve_options *o, const char *arg)
{
	const char *rest = fab_option_size(arg, &o->cfg.hca_memory);

	if (rest && !*rest && o->cfg.hca_memory >= FAB_FRONT_HCA_LEAST &&
	    o->cfg.hca_memory <= OHCA_MEM_DEFAULT)
		return true;
	fprintf(stderr, "ohca-fabric: --hca-memory: '%s' is not a size from 1M to 1G\n", arg);
	return false;
}

static bool set_vls(struct serve_options *o, const char *arg)
{
	unsigned int v;

	if (!fab_option_number("--vls", arg, 15, &v))
		return false;
	o->vls = (uint8_t)v;
	if (v && ib_opvls_count(fab_vl_code(v)) == v)
		return true;
	fprintf(stderr, "ohca-fabric: --vls: '%s' is none of 1, 2, 4, 8, 15\n", arg);
	return false;
}

static bool set_mtu(struct serve_options *o, const char *arg)
{
	unsigned int v;

	if (!fab_option_number("--mtu", arg, 4096, &v))
		return false;
	o->mtu = ib_mtu_code(v);
	if (v && ib_mtu_bytes(o->mtu) == v)
		return true;
	fprintf(stderr, "ohca-fabric: --mtu: '%s' is none of 256, 512, 1024, 2048, 4096\n", arg);
	return false;
}

static bool set_pkeys(struct serve_options *o, const char *arg)
{
	unsigned int v;

	if (!fab_option_number("--pkeys", arg, FAB_CA_PKEYS, &v))
		return false;
	o->pkeys = (uint16_t)v;
	if (v && v % IB_PKEYS_PER_BLOCK == 0)
		return true;
	fprintf(stderr, "ohca-fabric: --pkeys: '%s' is none of 32, 64, 96, 128\n", arg);
	return false;
}

static bool add_wire(struct serve_options *o, const char *arg)
{
	if (o->cfg.nwires == FAB_REMOTE_WIRES) {
		fab_usage_error("--wire: no more than 64");
		return false;
	}
	if (fab_remote_parse(&o->cfg.wire[o->cfg.nwires], arg)) {
		o->cfg.nwires++;
		return true;
	}
	fprintf(stderr, "ohca-fabric: --wire: '%s' is not NODE:PORT[=HOST:PORT[/NODE:PORT]]\n",
		arg);
	return false;
}

/* Parse NODE=PATH; a NODE may contain a '=', a PATH not. */
static bool add_tenant(struct serve_options *o, char *arg)
{
	struct fab_serve_tenant *t = &o->cfg.tenant[o->cfg.ntenants];
	char *path = strrchr(arg, '=');

	if (o->cfg.ntenants == FAB_SERVE_TENANTS) {
		fab_usage_error("--listen-node: no more than 64");
		return false;
	}
	if (!path || path == arg || !path[1]) {
		fprintf(stderr, "ohca-fabric: --listen-node: '%s' is not NODE=PATH\n", arg);
		return false;
	}
	*path = 0;
	t->node = arg;
	t->path = path + 1;
	o->cfg.ntenants++;
	return true;
}

static bool set_listen_tcp(struct serve_options *o, const char *arg)
{
	struct ohca_link_err err;

	if (ohca_link_resolve(arg, o->listen_tcp, &err)) {
		fprintf(stderr, "ohca-fabric: --listen-tcp: %s\n", err.text);
		return false;
	}
	o->cfg.listen_tcp = o->listen_tcp;
	return true;
}

static bool read_token(struct serve_options *o, const char *name)
{
	struct ohca_link_err err;

	if (ohca_link_read_token(name, o->token, &err)) {
		fprintf(stderr, "ohca-fabric: %s\n", err.text);
		return false;
	}
	o->cfg.token = o->token;
	return true;
}

/* Process an option of wires to other hosts. */
static bool set_wire_option(struct serve_options *o, int c, const char *arg)
{
	unsigned int v;

	switch (c) {
	case O_WIRE:
		return add_wire(o, arg);
	case O_PREFIX_ROUTE:
		if (o->nroutes == FAB_PREFIX_ROUTES) {
			fab_usage_error("--prefix-route: no more than 64");
			return false;
		}
		o->route[o->nroutes++] = arg;
		return true;
	case O_LISTEN_TCP:
		return set_listen_tcp(o, arg);
	case O_TOKEN:
		return read_token(o, arg);
	case O_SITE:
		if (!fab_option_number("--site", arg, 255, &v))
			return false;
		o->site = (uint8_t)v;
		return true;
	default:
		return fab_traffic_option(&o->traffic, c, arg);
	}
}

/* Process an option of virtual machines. */
static bool set_machine_option(struct serve_options *o, int c, char *arg)
{
	switch (c) {
	case 'l':
		o->cfg.listen = arg;
		return true;
	case O_LISTEN_NODE:
		return add_tenant(o, arg);
	case O_FRONT_MEMORY:
		return set_front_memory(o, arg);
	case O_HCA_MEMORY:
		return set_hca_memory(o, arg);
	case O_DISK_MEMORY:
		o->cfg.disk = true;
		return true;
	case O_HOSTS_OFF:
		o->cfg.hosts_off = true;
		return true;
	default:
		return set_wire_option(o, c, arg);
	}
}

/* Process option @c of getopt_long(). Return: false: not valid; the error was printed. */
static bool set_option(struct serve_options *o, int c, char *arg)
{
	unsigned int v;

	switch (c) {
	case 't':
		o->file = arg;
		return true;
	case 'g':
		o->spec = arg;
		return true;
	case 'u':
		o->cfg.umad2sim = arg ? arg : "sim";
		return true;
	case 'c':
		o->cfg.control = arg;
		return true;
	case 'm':
		return set_mtu(o, arg);
	case 'v':
		return set_vls(o, arg);
	case O_UDP:
		o->cfg.umad2sim_udp = arg;
		return true;
	case O_PKEYS:
		return set_pkeys(o, arg);
	case 'q':
		o->cfg.quiet = true;
		return true;
	case O_STATS:
		o->cfg.stats = true;
		return true;
	case O_VIRTUAL:
		o->is_virtual = true;
		return true;
	case O_NO_SANDBOX:
		o->cfg.sandbox = false;
		return true;
	case O_CAPTURE:
		o->cfg.capture = arg;
		return true;
	case O_CAPTURE_PORT:
		if (o->cfg.ncaptured == FAB_CAPTURE_PORTS) {
			fab_usage_error("--capture-port: no more than 32");
			return false;
		}
		o->cfg.captured[o->cfg.ncaptured++] = arg;
		return true;
	case O_SHIFT:
		if (!fab_option_number("--credit-shift", arg, OHCA_LINK_SHIFT_MAX, &v))
			return false;
		o->cfg.data.shift = (uint8_t)v;
		return true;
	case O_HOQ:
		return fab_option_number("--hoq-scale", arg, 1000000, &o->cfg.data.hoq_scale);
	case O_RATE:
		return fab_option_number("--rate-scale", arg, 1000000, &o->cfg.data.rate_scale);
	case O_SEED:
		return fab_option_number("--seed", arg, UINT32_MAX, &o->cfg.seed);
	case O_TRACE:
		o->cfg.events |= fab_hca_events(arg);
		if (fab_hca_events(arg))
			return true;
		fprintf(stderr, "ohca-fabric: --trace: no event of an HCA matches '%s'\n", arg);
		return false;
	case O_SPIN:
		o->cfg.spin_us = FAB_SPIN_AUTO;
		return !strcmp(arg, "auto") ||
		       fab_option_number("--spin-us", arg, 1000000, &o->cfg.spin_us);
	default:
		return set_machine_option(o, c, arg);
	}
}

/*
 * Parse the options of hosts and serve. Return: EXIT_SUCCESS, or an exit status; the error was
 * printed.
 */
static int parse_options(struct serve_options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{ "topology", required_argument, NULL, 't' },
		{ "generate", required_argument, NULL, 'g' },
		{ "umad2sim", optional_argument, NULL, 'u' },
		{ "umad2sim-udp", required_argument, NULL, O_UDP },
		{ "control", required_argument, NULL, 'c' },
		{ "listen", required_argument, NULL, 'l' },
		{ "listen-node", required_argument, NULL, O_LISTEN_NODE },
		{ "front-memory", required_argument, NULL, O_FRONT_MEMORY },
		{ "hca-memory", required_argument, NULL, O_HCA_MEMORY },
		{ "disk-memory", no_argument, NULL, O_DISK_MEMORY },
		{ "mtu", required_argument, NULL, 'm' },
		{ "vls", required_argument, NULL, 'v' },
		{ "pkeys", required_argument, NULL, O_PKEYS },
		{ "quiet", no_argument, NULL, 'q' },
		{ "capture", required_argument, NULL, O_CAPTURE },
		{ "capture-port", required_argument, NULL, O_CAPTURE_PORT },
		{ "hosts-off", no_argument, NULL, O_HOSTS_OFF },
		{ "credit-shift", required_argument, NULL, O_SHIFT },
		{ "hoq-scale", required_argument, NULL, O_HOQ },
		{ "rate-scale", required_argument, NULL, O_RATE },
		{ "seed", required_argument, NULL, O_SEED },
		FAB_TRAFFIC_OPTIONS,
		{ "spin-us", required_argument, NULL, O_SPIN },
		{ "stats", no_argument, NULL, O_STATS },
		{ "trace", required_argument, NULL, O_TRACE },
		{ "wire", required_argument, NULL, O_WIRE },
		{ "prefix-route", required_argument, NULL, O_PREFIX_ROUTE },
		{ "listen-tcp", required_argument, NULL, O_LISTEN_TCP },
		{ "token", required_argument, NULL, O_TOKEN },
		{ "site", required_argument, NULL, O_SITE },
		{ "virtual", no_argument, NULL, O_VIRTUAL },
		{ "no-sandbox", no_argument, NULL, O_NO_SANDBOX },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "t:g:u::c:l:m:v:q", options, NULL)) != -1)
		if (!set_option(o, c, optarg))
			return FAB_EXIT_USAGE;
	if (optind < argc)
		return fab_usage_error("options only, and NAME comes behind a =");
	if (o->cfg.umad2sim_udp && !o->cfg.umad2sim)
		return fab_usage_error("--umad2sim-udp needs --umad2sim");
	if (o->cfg.disk && !o->cfg.listen && !o->cfg.ntenants)
		return fab_usage_error("--disk-memory needs --listen or --listen-node");
	if (o->site && !o->spec)
		return fab_usage_error("--site needs --generate: a file has the GUIDs that it has");
	if (o->is_virtual && (o->cfg.listen || o->cfg.ntenants || o->cfg.nwires || o->cfg.listen_tcp))
		return fab_usage_error("--virtual is without --listen, --listen-node, --listen-tcp and --wire: machines "
				       "and other daemons live by the real clock");
	if (o->is_virtual && o->cfg.spin_us != FAB_SPIN_AUTO)
		return fab_usage_error("--virtual is without --spin-us: there is no time to wait awake for");
	if (o->is_virtual && !o->cfg.control)
		return fab_usage_error("--virtual needs --control: the verb run lets the time run");
	if (o->cfg.listen_tcp && !o->cfg.token && !o->cfg.nwires)
		return fab_usage_error("--listen-tcp needs --token, for programs, or --wire");
	if (o->cfg.listen_tcp && !o->cfg.token && !ohca_link_is_loopback(o->cfg.listen_tcp))
		return fab_usage_error("--listen-tcp needs --token: other hosts reach that address");
	if (!o->cfg.capture != !o->cfg.ncaptured)
		return fab_usage_error("--capture needs --capture-port");
	return EXIT_SUCCESS;
}

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

static int serve(struct fab *f, const struct serve_options *o)
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

static int traffic(struct fab *f, const struct serve_options *o)
{
	struct fab_traffic_options to = o->traffic;

	to.cfg.rate_scale = o->cfg.data.rate_scale ? o->cfg.data.rate_scale : 1;
	to.cfg.hoq_scale = o->cfg.data.hoq_scale;
	to.cfg.seed = o->cfg.seed;
	if (o->cfg.control)
		to.cfg.routing = FAB_ROUTING_LOADED;
	return fab_traffic_client(f, &to);
}

static int hosts(struct fab *f, const struct serve_options *o)
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

/* @runs: the source may be a running fabric. Return: as of parse_options(). */
static int check_source(const struct serve_options *o, bool runs)
{
	const bool control = runs && o->cfg.control;

	if (!!o->file + !!o->spec + control != 1)
		return fab_usage_error(runs ? "one of --topology, --generate and --control is needed" :
					      "either --topology or --generate is needed");
	if (control && (o->traffic.cfg.routing || o->vls || o->mtu))
		return fab_usage_error("--routing, --vls and --mtu are those of the fabric of --control");
	return EXIT_SUCCESS;
}

/* Do @verb with the fabric that the options describe. */
static int with_fabric(int argc, char **argv,
		       int (*verb)(struct fab *f, const struct serve_options *o))
{
	struct serve_options o = {
		.cfg.seed = 1,
		.cfg.spin_us = FAB_SPIN_AUTO,
		.cfg.sandbox = FAB_SANDBOX,
		.cfg.data = { .shift = OHCA_LINK_SHIFT_DEFAULT, .hoq_scale = 1 },
		.traffic = { .cfg = { .size = 65536, .load = 100 }, .interval_ns = 10000 },
	};
	int rc = parse_options(&o, argc, argv);
	struct fab *f;

	if (!rc && o.traffic.any && verb != traffic)
		rc = fab_usage_error("--pattern, --routing, --size, --messages, --load, --sl, --path-sl, "
				     "--transport, --congestion-control, --adaptive, --flows, --series, --interval and --script "
				     "are of traffic");
	if (!rc)
		rc = check_source(&o, verb == traffic);
	f = rc ? NULL : verb == traffic && o.cfg.control ? fab_client_fabric(o.cfg.control) : make(&o);
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
		fputs(usage_text, stdout);
		fputs(usage_rest, stdout);
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
	return fab_usage_error("the first argument is generate, check, hosts, serve, traffic, or a "
			       "VERB that asks a fabric");
}
