// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric topology --format: writes a running fabric or a file in the format of a tool. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "fabric/graph/generate.h"
#include "fabric/graph/topology.h"
#include "usage.h"

/* The source of the topology: one of them; and the format of the output. */
struct source {
	const char *control, *file, *spec;
	enum fab_format format;
};

static void print_finding(const char *name, unsigned int line, const char *kind, const char *text)
{
	if (line)
		fprintf(stderr, "%s:%u: %s%s\n", name, line, kind, text);
	else
		fprintf(stderr, "%s: %s%s\n", name, kind, text);
}

void fab_client_say(void *ctx, unsigned int line, const char *text)
{
	print_finding(ctx, line, "", text);
}

void fab_client_warn(void *ctx, unsigned int line, const char *text)
{
	print_finding(ctx, line, "warning: ", text);
}

/* Return: whether @f is filled in; if not the error was printed. */
static bool fill_in(struct fab *f, const struct source *src)
{
	const struct fab_report r = { fab_client_say, (void *)src->file, fab_client_warn, false };
	char why[1024];
	FILE *s;
	bool ok;

	if (src->spec) {
		ok = fab_generate(f, src->spec, why, sizeof(why));
		if (!ok)
			fprintf(stderr, "ohca-fabric: %s\n", why);
		return ok;
	}
	if (src->file)
		return fab_topology_load(f, src->file, &r);
	s = fab_client_dial(src->control);
	ok = s && fab_client_topology(s, f, src->control);
	if (s)
		fclose(s);
	return ok;
}

/* Return: false: the command line is not valid; the error was printed. */
static bool parse_source(struct source *src, int argc, char **argv)
{
	static const struct option options[] = {
		{ "control", required_argument, NULL, 'c' },
		{ "topology", required_argument, NULL, 't' },
		{ "generate", required_argument, NULL, 'g' },
		{ "format", required_argument, NULL, 'f' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "c:t:g:", options, NULL)) != -1) {
		if (c == 'c') {
			src->control = optarg;
		} else if (c == 't') {
			src->file = optarg;
		} else if (c == 'g') {
			src->spec = optarg;
		} else if (c != 'f') {
			goto wrong;
		} else if (!fab_format_by_name(optarg, &src->format)) {
			fab_usage_error("--format must be ibnetdiscover, ports, lst, slurm or dot");
			return false;
		}
	}
	if (optind == argc && !!src->control + !!src->file + !!src->spec == 1)
		return true;
wrong:
	fab_usage_error("write topology --format FORMAT and one of --control PATH, --topology FILE "
			"and --generate SPEC");
	return false;
}

bool fab_is_conversion(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--f", 3) || !strncmp(argv[i], "--t", 3) ||
		    !strncmp(argv[i], "--g", 3) || !strncmp(argv[i], "-t", 2) ||
		    !strncmp(argv[i], "-g", 2))
			return true;
	return false;
}

int fab_topology_client(int argc, char **argv)
{
	struct source src = { .format = FAB_FORMAT_IBNETDISCOVER };
	int rc = EXIT_FAILURE;
	struct fab *f;

	if (!parse_source(&src, argc, argv))
		return FAB_EXIT_USAGE;
	f = fab_new();
	if (f && fill_in(f, &src) && fab_seal(f)) {
		rc = EXIT_SUCCESS;
		if (!fab_topology_write_as(f, src.format, stdout) || fflush(stdout) ||
		    ferror(stdout)) {
			perror("ohca-fabric: standard output");
			rc = EXIT_FAILURE;
		}
	}
	fab_free(f);
	return rc;
}
