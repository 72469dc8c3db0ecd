// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric generate; see client_generate.h. */
#include "client_generate.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/graph/generate.h"
#include "fabric/graph/topology.h"
#include "usage.h"

/* Return: false: it is not a number; the error was printed. */
static bool number(const char *name, const char *s, uint32_t *v)
{
	unsigned long long n;
	char *end;

	n = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || n > UINT32_MAX) {
		fprintf(stderr, "ohca-fabric: --%s: '%s' is not a number from 0 to %u\n", name, s,
			UINT32_MAX);
		return false;
	}
	*v = (uint32_t)n;
	return true;
}

/* Return: false: the command line is not valid; the error was printed. */
static bool parse_plan(struct fab_plan *p, int argc, char **argv)
{
	enum { NAMES, AGGREGATION, CHASSIS, RAILS, SPEED, BROKEN, SLOW, SWAPPED, SEED };
	static const struct option options[] = {
		{ "names", required_argument, NULL, NAMES },
		{ "aggregation", no_argument, NULL, AGGREGATION },
		{ "chassis", no_argument, NULL, CHASSIS },
		{ "rails", required_argument, NULL, RAILS },
		{ "speed", required_argument, NULL, SPEED },
		{ "broken", required_argument, NULL, BROKEN },
		{ "slow", required_argument, NULL, SLOW },
		{ "swapped", required_argument, NULL, SWAPPED },
		{ "seed", required_argument, NULL, SEED },
		{ 0 },
	};
	uint32_t * const numbers[] = {
		[RAILS] = &p->rails, [BROKEN] = &p->missing, [SLOW] = &p->slow,
		[SWAPPED] = &p->swapped, [SEED] = &p->seed,
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == NAMES) {
			p->nvidia = !strcmp(optarg, "nvidia");
			if (!p->nvidia) {
				fab_usage_error("--names must be nvidia");
				return false;
			}
		} else if (c == AGGREGATION) {
			p->aggregation = true;
		} else if (c == CHASSIS) {
			p->chassis = true;
		} else if (c == SPEED) {
			p->speed = optarg;
		} else if (c == '?') {
			fab_usage_error("unknown option or argument");
			return false;
		} else if (!number(options[c].name, optarg, numbers[c])) {
			return false;
		}
	}
	if (optind != argc - 1) {
		fab_usage_error("generate has one argument, a SPEC");
		return false;
	}
	p->spec = argv[optind];
	return true;
}

static void write_file(const struct fab *f, const struct fab_damages *damages, int argc, char **argv)
{
	/* getopt_long() has put the SPEC last */
	printf("# Topology file: ohca-fabric generate %s", argv[argc - 1]);
	for (int i = 1; i < argc - 1; i++)
		printf(" %s", argv[i]);
	putchar('\n');
	for (uint32_t i = 0; i < damages->n; i++)
		fab_damage_write(f, &damages->list[i], stdout);
	fab_topology_write(f, stdout);
}

int fab_generate_client(int argc, char **argv)
{
	struct fab_damages damages = { 0 };
	struct fab_plan plan = { .seed = 1 };
	int rc = FAB_EXIT_USAGE;
	struct fab *f;
	char why[1024];

	if (!parse_plan(&plan, argc, argv))
		return rc;
	f = fab_new();
	if (!f || !fab_generate_plan(f, &plan, &damages, why, sizeof(why))) {
		fprintf(stderr, "ohca-fabric: %s\n", f ? why : "out of memory");
		goto out;
	}
	rc = EXIT_FAILURE;
	if (!fab_seal(f)) {
		fputs("ohca-fabric: out of memory\n", stderr);
		goto out;
	}
	write_file(f, &damages, argc, argv);
	if (fflush(stdout) || ferror(stdout))
		perror("ohca-fabric: standard output");
	else
		rc = EXIT_SUCCESS;
out:
	free(damages.list);
	fab_free(f);
	return rc;
}
