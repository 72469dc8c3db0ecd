// SPDX-License-Identifier: GPL-2.0-or-later
/* The command line of ohca-fabric hosts, serve and traffic; see options.h. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "fabric/base/sandbox.h"
#include "fabric/client/usage.h"
#include "fabric/hca/front.h"
#include "ib/rate.h"

enum { O_SHIFT = 256, O_HOQ, O_SPIN, O_STATS, O_HOSTS_OFF, O_CAPTURE, O_CAPTURE_PORT, O_PKEYS,
       O_UDP, O_SEED, O_TRACE, O_NO_SANDBOX, O_WIRE, O_LISTEN_TCP, O_TOKEN, O_SITE, O_DISK_MEMORY,
       O_PREFIX_ROUTE, O_LISTEN_NODE, O_FRONT_MEMORY, O_HCA_MEMORY, O_RATE, O_VIRTUAL };

/* Parse SIZE[,ALL] */
static bool set_front_memory(struct fab_options *o, const char *arg)
{
	uint64_t *one = &o->cfg.front_memory, *all = &o->cfg.fronts_memory;
	const char *rest = fab_option_size(arg, one);

	*all = FAB_FRONTS_BYTES;
	if (rest && *rest)
		rest = fab_option_size(rest + 1, all);
	if (rest && !*rest && *one && *all && *one <= FAB_FRONT_BYTES && *all <= FAB_FRONTS_BYTES)
		return true;
	fprintf(stderr, "ohca-fabric: --front-memory: '%s' is not SIZE[,ALL], up to 4T and 64T\n",
		arg);
	return false;
}

static bool set_hca_memory(struct fab_options *o, const char *arg)
{
	const char *rest = fab_option_size(arg, &o->cfg.hca_memory);

	if (rest && !*rest && o->cfg.hca_memory >= FAB_FRONT_HCA_LEAST &&
	    o->cfg.hca_memory <= OHCA_MEM_DEFAULT)
		return true;
	fprintf(stderr, "ohca-fabric: --hca-memory: '%s' is not a size from 1M to 1G\n", arg);
	return false;
}

static bool set_vls(struct fab_options *o, const char *arg)
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

static bool set_mtu(struct fab_options *o, const char *arg)
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

static bool set_pkeys(struct fab_options *o, const char *arg)
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

static bool add_wire(struct fab_options *o, const char *arg)
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
static bool add_tenant(struct fab_options *o, char *arg)
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

static bool set_listen_tcp(struct fab_options *o, const char *arg)
{
	struct ohca_link_err err;

	if (ohca_link_resolve(arg, o->listen_tcp, &err)) {
		fprintf(stderr, "ohca-fabric: --listen-tcp: %s\n", err.text);
		return false;
	}
	o->cfg.listen_tcp = o->listen_tcp;
	return true;
}

static bool read_token(struct fab_options *o, const char *name)
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
static bool set_wire_option(struct fab_options *o, int c, const char *arg)
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
static bool set_machine_option(struct fab_options *o, int c, char *arg)
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
static bool set_option(struct fab_options *o, int c, char *arg)
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

int fab_options_parse(struct fab_options *o, int argc, char **argv)
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
		return fab_usage_error("write options only, and a NAME as --umad2sim=NAME");
	if (o->cfg.umad2sim_udp && !o->cfg.umad2sim)
		return fab_usage_error("--umad2sim-udp needs --umad2sim");
	if (o->cfg.disk && !o->cfg.listen && !o->cfg.ntenants)
		return fab_usage_error("--disk-memory needs --listen or --listen-node");
	if (o->site && !o->spec)
		return fab_usage_error("--site needs --generate: a topology file has its own GUIDs");
	if (o->is_virtual &&
	    (o->cfg.listen || o->cfg.ntenants || o->cfg.nwires || o->cfg.listen_tcp))
		return fab_usage_error("--virtual excludes --listen, --listen-node, --listen-tcp and "
				       "--wire: machines and other daemons run in real time");
	if (o->is_virtual && o->cfg.spin_us != FAB_SPIN_AUTO)
		return fab_usage_error("--virtual excludes --spin-us: no virtual time passes while the "
				       "daemon polls");
	if (o->is_virtual && !o->cfg.control)
		return fab_usage_error("--virtual needs --control: only the verb run advances the time");
	if (o->cfg.listen_tcp && !o->cfg.token && !o->cfg.nwires)
		return fab_usage_error("--listen-tcp needs --token, for programs, or --wire");
	if (o->cfg.listen_tcp && !o->cfg.token && !ohca_link_is_loopback(o->cfg.listen_tcp))
		return fab_usage_error("--listen-tcp needs --token: other hosts reach that address");
	if (!o->cfg.capture != !o->cfg.ncaptured)
		return fab_usage_error("--capture needs --capture-port");
	return EXIT_SUCCESS;
}
