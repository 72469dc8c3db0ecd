// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A topology file of any bytes. If it is accepted, it is written and read again, and then written
 * as the same text. The test also checks it as a tree.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric/graph/topology.h"
#include "fabric/graph/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void say(void *ctx, unsigned int line, const char *text)
{
	unsigned int *n = ctx;

	(void)line;
	if (!*text)
		abort();
	++*n;
}

/* Return: the fabric of @text, or NULL if there was an error. */
static struct fab *load(const char *text, size_t len)
{
	unsigned int errors = 0;
	const struct fab_report r = { .say = say, .ctx = &errors };
	struct fab *f = fab_new();

	if (!f)
		abort();
	if (!fab_topology_parse(f, text, len, &r)) {
		if (!errors)
			abort();
		fab_free(f);
		return NULL;
	}
	if (errors || !fab_seal(f))
		abort();
	return f;
}

struct findings {
	const struct fab *f;
	uint32_t n;
};

/* Counts findings, and checks that each has a line of text. */
static void found(void *ctx, const struct fab_finding *finding)
{
	static char line[1024];
	struct findings *to = ctx;
	FILE *out = fmemopen(line, sizeof(line), "w");

	if (!out)
		abort();
	fab_finding_write(to->f, finding, out);
	if (fclose(out) || !strchr(line, '\n'))
		abort();
	to->n++;
}

static char *write_text(const struct fab *f, size_t *len)
{
	char *text;
	FILE *out = open_memstream(&text, len);

	fab_topology_write(f, out);
	if (fclose(out))
		abort();
	return text;
}

static bool all_up(const struct fab *f)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].peer != FAB_NO_PORT && f->port[p].pi.state == IB_PS_DOWN)
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fab *f = load((const char *)data, size), *g;
	struct findings findings = { .f = f };
	struct fab_tree tree;
	size_t len, len2;
	char *text, *again;

	if (!f)
		return 0;
	if (!fab_tree_check(f, found, &findings, &tree) || tree.findings != findings.n)
		abort();
	/* a link that is down is not written, so the parts could be unconnected */
	if (all_up(f)) {
		text = write_text(f, &len);
		g = load(text, len);
		if (!g)
			abort();
		again = write_text(g, &len2);
		if (len != len2 || memcmp(text, again, len))
			abort();
		free(text);
		free(again);
		fab_free(g);
	}
	for (unsigned int i = FAB_FORMAT_PORTS; i < FAB_FORMATS; i++) {
		FILE *out = open_memstream(&text, &len);

		if (!fab_topology_write_as(f, (enum fab_format)i, out) || fclose(out))
			abort();
		free(text);
	}
	fab_free(f);
	return 0;
}
