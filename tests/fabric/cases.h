/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the tests of fabrics: cmocka's headers, collected errors, the text of a fabric. */
#ifndef CASES_H
#define CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fabric/graph/generate.h"
#include "fabric/graph/topology.h"

/* Errors of a topology, the first ones with their text. */
struct errors {
	unsigned int n;
	unsigned int line[64];
	char text[64][256];
};

static inline void keep_error(void *ctx, unsigned int line, const char *text)
{
	struct errors *e = ctx;

	if (e->n < 64) {
		e->line[e->n] = line;
		snprintf(e->text[e->n], sizeof(e->text[0]), "%s", text);
	}
	e->n++;
}

/* Return: a sealed fabric, or NULL with @e filled in. */
static inline struct fab *from_text(const char *text, size_t len, struct errors *e)
{
	const struct fab_report r = { .say = keep_error, .ctx = e };
	struct fab *f = fab_new();

	memset(e, 0, sizeof(*e));
	assert_non_null(f);
	if (fab_topology_parse(f, text, len, &r)) {
		assert_true(fab_seal(f));
		return f;
	}
	assert_true(e->n > 0);
	fab_free(f);
	return NULL;
}

static inline struct fab *from_spec(const char *spec)
{
	struct fab *f = fab_new();
	char why[1024];

	assert_non_null(f);
	if (!fab_generate(f, spec, why, sizeof(why)))
		fail_msg("%s: %s", spec, why);
	assert_true(fab_seal(f));
	return f;
}

/* Return: the text of fab_topology_write(); the caller frees it. */
static inline char *text_of(const struct fab *f, size_t *len)
{
	char *text;
	FILE *out = open_memstream(&text, len);

	assert_non_null(out);
	fab_topology_write(f, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

/* Return: the number of cables, each of which has two ends. */
static inline unsigned int cables_of(const struct fab *f)
{
	unsigned int n = 0;

	for (uint32_t p = 1; p < f->ports; p++) {
		if (f->port[p].peer == FAB_NO_PORT)
			continue;
		assert_int_equal(f->port[f->port[p].peer].peer, p);
		n += f->port[p].peer > p;
	}
	return n;
}

#endif
