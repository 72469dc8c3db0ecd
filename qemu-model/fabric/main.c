// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric: one program for a whole fabric. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "serve.h"
#include "topology.h"

#define EXIT_USAGE	2

static const char usage_text[] =
	"Usage: ohca-fabric generate SPEC     write the topology of SPEC to standard output\n"
	"       ohca-fabric check FILE...     say what is wrong with topology files (-: standard input)\n"
	"       ohca-fabric serve OPTION...   run a fabric\n"
	"       ohca-fabric --help            this text\n\n"
	"Options of serve:\n"
	"  -t, --topology FILE       the fabric: a file,\n"
	"  -g, --generate SPEC       or made from a SPEC\n"
	"  -u, --umad2sim[=NAME]     let programs with libumad2sim.so attach, OpenSM for one; NAME\n"
	"                            is their IBSIM_SOCKNAME (sim)\n"
	"      --stats               print counts of MADs at the end\n\n"
	"A topology is a file in the format of ibnetdiscover or ibsim, or made from a SPEC:\n\n"
	FAB_GENERATE_HELP;

static int usage_error(const char *what)
{
	fprintf(stderr, "ohca-fabric: %s; ohca-fabric --help says more\n", what);
	return EXIT_USAGE;
}

/* ctx: the file's name */
static void say(void *ctx, unsigned int line, const char *text)
{
	if (line)
		fprintf(stderr, "%s:%u: %s\n", (const char *)ctx, line, text);
	else
		fprintf(stderr, "%s: %s\n", (const char *)ctx, text);
}

static int out_of_memory(void)
{
	fputs("ohca-fabric: out of memory\n", stderr);
	return EXIT_FAILURE;
}

/* A sealed fabric of the SPEC or else the file. Return: NULL, what is wrong was printed. */
static struct fab *make(const char *spec, const char *file)
{
	const struct fab_report report = { say, (void *)file };
	struct fab *f = fab_new();
	char why[1024];
	bool ok;

	if (!f) {
		out_of_memory();
		return NULL;
	}
	if (spec) {
		ok = fab_generate(f, spec, why, sizeof(why));
		if (!ok)
			fprintf(stderr, "ohca-fabric: %s\n", why);
	} else {
		ok = fab_topology_load(f, file, &report);
	}
	if (ok && fab_seal(f))
		return f;
	if (ok)
		out_of_memory();
	fab_free(f);
	return NULL;
}

static int generate(const char *spec)
{
	struct fab *f = make(spec, NULL);
	int rc = EXIT_SUCCESS;

	if (!f)
		return EXIT_USAGE;
	printf("# Topology file: ohca-fabric generate %s\n", spec);
	fab_topology_write(f, stdout);
	if (fflush(stdout) || ferror(stdout)) {
		perror("ohca-fabric: standard output");
		rc = EXIT_FAILURE;
	}
	fab_free(f);
	return rc;
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

static int check(const char *name)
{
	struct fab *f = make(NULL, name);

	if (!f)
		return EXIT_FAILURE;
	summary(f, name);
	fab_free(f);
	return EXIT_SUCCESS;
}

static int serve(int argc, char **argv)
{
	static const struct option options[] = {
		{ "topology", required_argument, NULL, 't' },
		{ "generate", required_argument, NULL, 'g' },
		{ "umad2sim", optional_argument, NULL, 'u' },
		{ "stats", no_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	struct fab_serve_cfg cfg = { 0 };
	const char *file = NULL, *spec = NULL;
	struct fab *f;
	int c, rc;

	while ((c = getopt_long(argc, argv, "t:g:u::", options, NULL)) != -1) {
		switch (c) {
		case 't':
			file = optarg;
			break;
		case 'g':
			spec = optarg;
			break;
		case 'u':
			cfg.umad2sim = optarg ? optarg : "sim";
			break;
		case 's':
			cfg.stats = true;
			break;
		default:
			return usage_error("serve has other options");
		}
	}
	if (optind < argc)
		return usage_error("serve has options only, and NAME comes behind a =");
	if (!file == !spec)
		return usage_error("serve wants either --topology or --generate");
	f = make(spec, file);
	if (!f)
		return EXIT_FAILURE;
	rc = fab_serve(f, &cfg);
	fab_free(f);
	return rc;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	int rc = EXIT_SUCCESS;

	if (!strcmp(verb, "--help") || !strcmp(verb, "-h")) {
		fputs(usage_text, stdout);
		return EXIT_SUCCESS;
	}
	if (!strcmp(verb, "generate")) {
		if (argc != 3)
			return usage_error("generate has one argument, a SPEC");
		return generate(argv[2]);
	}
	if (!strcmp(verb, "check")) {
		if (argc < 3)
			return usage_error("check has arguments, topology files");
		for (int i = 2; i < argc; i++)
			if (check(argv[i]) != EXIT_SUCCESS)
				rc = EXIT_FAILURE;
		return rc;
	}
	if (!strcmp(verb, "serve"))
		return serve(argc - 1, argv + 1);
	return usage_error("the first argument is generate, check or serve");
}
