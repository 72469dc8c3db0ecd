// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric topology --format: what a running fabric or a file is, in the format of a tool. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "fabric/graph/generate.h"
#include "fabric/graph/topology.h"
#include "usage.h"

/* Where the topology comes from: one of them; and what it is written as. */
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

static void say_error(void *ctx, unsigned int line, const char *text)
{
	print_finding(ctx, line, "", text);
}

static void say_warning(void *ctx, unsigned int line, const char *text)
{
	print_finding(ctx, line, "warning: ", text);
}

/* All of the running fabric's topology file, or NULL; what went wrong was printed. */
static char *ask_text(const char *path, size_t *len)
{
	char *text = NULL, *line = NULL;
	FILE *s = fab_client_dial(path), *out;
	size_t size = 0;
	bool ok = true;

	if (!s)
		return NULL;
	out = open_memstream(&text, len);
	for (json_int_t first = 0; ok && out && first >= 0;) {
		const json_t *part, *next;
		json_t *v;

		fab_client_send(fileno(s), json_pack("{s:s, s:I, s:b}", "command", "topology",
						     "first", first, "file", 1));
		v = fab_client_reply(s, NULL, &line, &size);
		part = json_object_get(v, "text");
		next = json_object_get(v, "next");
		ok = json_is_string(part);
		if (ok)
			fputs(json_string_value(part), out);
		if (ok && next && json_integer_value(next) > first)
			first = json_integer_value(next);
		else
			first = -1;
		json_decref(v);
	}
	fclose(s);
	free(line);
	if (out && !fclose(out) && ok)
		return text;
	free(text);
	return NULL;
}

/* Return: whether @f is filled in; what is wrong was printed. */
static bool fill_in(struct fab *f, const struct source *src)
{
	const char *name = src->file ? src->file : src->control;
	const struct fab_report r = { say_error, (void *)name, say_warning, src->control };
	char why[1024], *text;
	size_t len;
	bool ok;

	if (src->spec) {
		ok = fab_generate(f, src->spec, why, sizeof(why));
		if (!ok)
			fprintf(stderr, "ohca-fabric: %s\n", why);
		return ok;
	}
	if (src->file)
		return fab_topology_load(f, src->file, &r);
	text = ask_text(src->control, &len);
	ok = text && fab_topology_parse(f, text, len, &r);
	free(text);
	return ok;
}

/* Return: false: the command line is wrong, which was said. */
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
			fab_usage_error("--format is ibnetdiscover, ports, lst, slurm or dot");
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
