// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric: one program for a whole fabric. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "topology.h"

#define EXIT_USAGE	2

static const char usage_text[] =
	"Usage: ohca-fabric generate SPEC     write the topology of SPEC to standard output\n"
	"       ohca-fabric check FILE...     say what is wrong with topology files (-: standard input)\n"
	"       ohca-fabric --help            this text\n\n"
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

static int generate(const char *spec)
{
	struct fab *f = fab_new();
	char why[1024];
	int rc = EXIT_SUCCESS;

	if (!f)
		return out_of_memory();
	if (!fab_generate(f, spec, why, sizeof(why))) {
		fprintf(stderr, "ohca-fabric: %s\n", why);
		rc = EXIT_USAGE;
	} else if (!fab_seal(f)) {
		rc = out_of_memory();
	} else {
		printf("# Topology file: ohca-fabric generate %s\n", spec);
		fab_topology_write(f, stdout);
		if (fflush(stdout) || ferror(stdout)) {
			perror("ohca-fabric: standard output");
			rc = EXIT_FAILURE;
		}
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
	const struct fab_report report = { say, (void *)name };
	struct fab *f = fab_new();
	int rc = EXIT_FAILURE;

	if (!f)
		return out_of_memory();
	if (fab_topology_load(f, name, &report)) {
		if (fab_seal(f))
			rc = EXIT_SUCCESS;
		else
			out_of_memory();
	}
	if (rc == EXIT_SUCCESS)
		summary(f, name);
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
	return usage_error("the first argument is generate or check");
}
