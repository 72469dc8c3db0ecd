// SPDX-License-Identifier: GPL-2.0-or-later
/* Determines the format of a topology file, and reads its lines; see topology.h and topo_file.h. */
#include "topology.h"

#include <stdlib.h>
#include <string.h>

#include "topo_file.h"

static const struct topo_format *const formats[] = {
	&topo_ibnet, &topo_ports, &topo_lst, &topo_csv, &topo_ibdm,
};

/*
 * Whether it is a message of the tool that wrote the file, which a shell has redirected into it:
 * "ibwarn: ...", "src/x.c:195; ...", "-W- ...".
 */
static bool is_message(const struct topo_cur *c)
{
	return memchr(c->p, ':', (size_t)(c->end - c->p)) || *c->p == '-';
}

/* The format of the line; NULL: none. */
static const struct topo_format *recognise(const struct topo_cur *c)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(formats); i++)
		if (formats[i]->is(*c))
			return formats[i];
	return NULL;
}

static void one_line(struct topo *t, const struct topo_format **format, struct topo_cur *c)
{
	topo_skip_space(c);
	if (c->p == c->end || *c->p == '#')
		return;
	if (!*format)
		*format = recognise(c);
	if (*format)
		(*format)->line(t, c);
	else if (is_message(c))
		topo_warn(t, t->line, "this line is not understood and left out: it looks like a "
			  "message in front of the topology");
	else
		topo_ibnet.line(t, c);
}

/* Read each line. Return: the format. */
static const struct topo_format *all_lines(struct topo *t, const char *text, size_t len)
{
	const char *end = text + len, *nul = len ? memchr(text, 0, len) : NULL;
	const struct topo_format *format = NULL;

	for (const char *p = text; p < end && !topo_too_many(t);) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		struct topo_cur c = { p, eol ? eol : end };

		t->line++;
		p = eol ? eol + 1 : end;
		if (nul && nul < p) {
			topo_error(t, t->line, "a zero byte: this is no text");
			break;
		}
		if (c.end > c.p && c.end[-1] == '\r')
			c.end--;
		one_line(t, &format, &c);
	}
	return format;
}

bool fab_topology_parse(struct fab *f, const char *text, size_t len, const struct fab_report *r)
{
	struct topo t = { .f = f, .report = r, .current = FAB_NONE };
	const struct topo_format *format;

	if (len > FAB_MAX_FILE) {
		topo_error(&t, 0, "the file is larger than %u MiB", FAB_MAX_FILE >> 20);
		return false;
	}
	format = all_lines(&t, text, len);
	if (format && !t.errors)
		format->end(&t);
	if (!t.errors)
		topo_connect(&t);
	free(t.node);
	free(t.cable);
	fab_hash_free(&t.by_id);
	topo_list_free(&t.list);
	return !t.errors;
}
