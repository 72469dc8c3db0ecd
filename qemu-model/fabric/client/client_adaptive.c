// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric adaptive on|off [SWITCH...]: adaptive routing of a running fabric. */
#include "client.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fault/words.h"
#include "usage.h"

#define SLS	16

/* Options; @sls, @gap_ns: -1: not given */
struct options {
	const char *path, *order;
	json_int_t sls, gap_ns;
	bool json;
};

/* Parse service levels as 0,2-5. Return: a bit for each; -1: not valid. */
static json_int_t parse_sls(const char *text)
{
	json_int_t sls = 0;

	for (;;) {
		char *end;
		long first, last;

		first = last = strtol(text, &end, 10);
		if (*text < '0' || *text > '9')
			return -1;
		if (*end == '-') {
			text = end + 1;
			last = strtol(text, &end, 10);
			if (*text < '0' || *text > '9')
				return -1;
		}
		if (last >= SLS || first > last || (*end && *end != ','))
			return -1;
		for (; first <= last; first++)
			sls |= 1 << first;
		if (!*end)
			return sls;
		text = end + 1;
	}
}

/* Return: NULL: the option was not given. */
static json_t *number_or_none(json_int_t n)
{
	return n < 0 ? NULL : json_integer(n);
}

/*
 * Send requests until there is no further part. @node: or NULL: all switches. Return: exit status.
 */
static int ask_switch(FILE *s, const struct options *o, const char *state, const char *node)
{
	int rc = EXIT_SUCCESS;
	char *line = NULL;
	size_t size = 0;

	for (json_int_t first = 0; rc == EXIT_SUCCESS && first >= 0;) {
		json_t *v, *next;

		fab_client_send(fileno(s),
				json_pack("{s:s, s:s, s:I, s:s*, s:s*, s:o*, s:o*}",
					  "command", "adaptive", "state", state, "first", first,
					  "node", node, "order", o->order,
					  "sls", number_or_none(o->sls),
					  "gap_ns", number_or_none(o->gap_ns)));
		v = fab_client_reply(s, NULL, &line, &size);
		next = json_object_get(v, "next");
		if (!v || !fab_client_complete(v, "done"))
			rc = EXIT_FAILURE;
		else if (o->json)
			fputs(line, stdout);
		first = next && json_integer_value(next) > first ? json_integer_value(next) : -1;
		json_decref(v);
	}
	free(line);
	return rc;
}

/* Return: false: it is not valid. */
static bool set_option(struct options *o, int c, const char *arg)
{
	uint64_t gap;

	switch (c) {
	case 'c':
		o->path = arg;
		return true;
	case 'j':
		o->json = true;
		return true;
	case 'o':
		o->order = arg;
		return !strcmp(arg, "kept") || !strcmp(arg, "any");
	case 's':
		o->sls = parse_sls(arg);
		return o->sls >= 0;
	case 'g':
		if (!fab_word_time(arg, &gap) || gap > 1000000000)
			return false;
		o->gap_ns = (json_int_t)gap;
		return true;
	default:
		return false;
	}
}

int fab_adaptive_client(int argc, char **argv)
{
	static const struct option options[] = {
		{ "control", required_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "order", required_argument, NULL, 'o' },
		{ "sls", required_argument, NULL, 's' },
		{ "gap", required_argument, NULL, 'g' },
		{ 0 },
	};
	struct options o = { .sls = -1, .gap_ns = -1 };
	const char *state;
	int c, rc;
	FILE *s;

	while ((c = getopt_long(argc, argv, "c:j", options, NULL)) != -1)
		if (!set_option(&o, c, optarg))
			return fab_usage_error("the options of adaptive are --order kept or any, --sls such "
					       "as 0,2-5, and --gap TIME up to 1s");
	if (!o.path)
		return fab_usage_error("give the control socket of the fabric: --control PATH");
	state = optind < argc ? argv[optind++] : "";
	if (strcmp(state, "on") && strcmp(state, "off"))
		return fab_usage_error("write adaptive on, or adaptive off, and perhaps switches");
	s = fab_client_dial(o.path);
	if (!s)
		return EXIT_FAILURE;
	rc = optind == argc ? ask_switch(s, &o, state, NULL) : EXIT_SUCCESS;
	for (; optind < argc && rc == EXIT_SUCCESS; optind++)
		rc = ask_switch(s, &o, state, argv[optind]);
	fclose(s);
	return rc;
}
