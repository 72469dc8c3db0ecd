// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes nodes and cables of what readers of topology files have parsed; see topo_file.h. */
#include "topo_file.h"
#include "names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ERRORS	50u

static void tell(const struct topo *t, uint32_t line, const char *fmt, va_list ap, bool error)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (error)
		t->report->say(t->report->ctx, line, text);
	else if (t->report->warn)
		t->report->warn(t->report->ctx, line, text);
}

void topo_error(struct topo *t, uint32_t line, const char *fmt, ...)
{
	va_list ap;

	if (t->errors++ >= MAX_ERRORS)
		return;
	va_start(ap, fmt);
	tell(t, line, fmt, ap, true);
	va_end(ap);
	if (t->errors == MAX_ERRORS)
		t->report->say(t->report->ctx, line, "there are more errors: correct these first");
}

void topo_warn(struct topo *t, uint32_t line, const char *fmt, ...)
{
	va_list ap;

	if (t->warnings++ >= MAX_ERRORS)
		return;
	va_start(ap, fmt);
	tell(t, line, fmt, ap, false);
	va_end(ap);
	if (t->warnings == MAX_ERRORS && t->report->warn)
		t->report->warn(t->report->ctx, line, "there are more warnings");
}

bool topo_too_many(const struct topo *t)
{
	return t->errors >= MAX_ERRORS;
}

static bool id_is(const void *ctx, uint32_t index, const void *key)
{
	const struct topo *t = ctx;
	const struct topo_name *id = key;

	return t->node[index].id.len == id->len && !memcmp(t->node[index].id.p, id->p, id->len);
}

uint32_t topo_find(const struct topo *t, const struct topo_name *id)
{
	return fab_hash_find(&t->by_id, fab_hash_bytes(id->p, id->len), id_is, t, id);
}

uint64_t topo_made_guid(struct topo *t, enum ib_node_type type)
{
	uint64_t v;

	do {
		v = fab_made_guid(type, ++t->generated[type]);
	} while (fab_find_guid(t->f, v) != FAB_NONE);
	return v;
}

/* GUID of a node without an attribute for it: from a name S-, H- or R- and GUID, else generated. */
static uint64_t guid_of(struct topo *t, enum ib_node_type type, const struct topo_name *id)
{
	struct topo_cur c = { id->p + 2, id->p + id->len };
	uint64_t v;

	if (id->len == 18 && id->p[1] == '-' && topo_hex(&c, UINT64_MAX, &v) && c.p == c.end && v)
		return v;
	return topo_made_guid(t, type);
}

static void node_attrs(struct topo *t, uint32_t n)
{
	struct fab_node *node = &t->f->node[n];
	const struct topo_attrs *a = &t->attrs;

	if (a->has_sys)
		node->sys_guid = a->sys_guid;
	if (a->has_vendor)
		node->vendor_id = a->vendor_id;
	if (a->has_device)
		node->device_id = (uint16_t)a->device_id;
	if (a->has_port0)
		t->f->port[fab_port_of(node, 0)].guid = a->port0_guid;
	for (unsigned int i = fab_first_num(node); i <= node->nports; i++) {
		struct ib_port_info *pi = &t->f->port[fab_port_of(node, i)].pi;

		pi->width_supported = t->width;
		pi->speed_supported = t->speed;
		pi->speed_ext_supported = t->speed_ext;
	}
}

void topo_full(struct topo *t)
{
	topo_error(t, t->line, "too large: %u nodes and %u ports are possible, or memory is short",
		   FAB_MAX_NODES, FAB_MAX_PORTS);
	t->errors += MAX_ERRORS;	/* later errors would only be consequences of this one */
}

uint32_t topo_add_node(struct topo *t, enum ib_node_type type, unsigned int nports, uint64_t guid,
		       const struct topo_name *id, const struct topo_name *desc)
{
	const uint32_t other = fab_find_guid(t->f, guid);
	uint32_t n;

	if (other != FAB_NONE) {
		topo_error(t, t->line, "node GUID 0x%016llx is that of \"%.*s\" already, in line "
			   "%u: give one of them another", (unsigned long long)guid,
			   (int)t->node[other].id.len, t->node[other].id.p, t->node[other].line);
		return FAB_NONE;
	}
	if (t->f->nodes == t->nodes_cap) {
		uint32_t cap = t->nodes_cap ? 2 * t->nodes_cap : 256;
		struct topo_node *grown = realloc(t->node, cap * sizeof(*grown));

		if (!grown)
			goto full;
		t->node = grown;
		t->nodes_cap = cap;
	}
	t->node[t->f->nodes] = (struct topo_node){ *id, t->line };
	n = fab_add_node(t->f, type, nports, guid, desc->p, desc->len);
	if (n != FAB_NONE)
		return n;
full:
	topo_full(t);
	return FAB_NONE;
}

bool topo_new_node(struct topo *t, enum ib_node_type type, unsigned int nports,
		   const struct topo_name *id, const struct topo_name *desc)
{
	const uint32_t other = topo_find(t, id);

	if (other != FAB_NONE) {
		topo_error(t, t->line, "\"%.*s\" is there already, in line %u: remove one of them",
			   (int)id->len, id->p, t->node[other].line);
		return false;
	}
	if (t->attrs.has_guid && t->attrs.guid_type != type) {
		topo_error(t, t->attrs.line, "a GUID of another kind of node than the section "
			   "below: a switch has switchguid=, a Ca caguid=, an Rt rtguid=");
		return false;
	}
	if (!fab_hash_add(&t->by_id, fab_hash_bytes(id->p, id->len), t->f->nodes)) {
		topo_full(t);
		return false;
	}
	t->current = topo_add_node(t, type, nports,
				   t->attrs.has_guid ? t->attrs.guid : guid_of(t, type, id), id,
				   desc->p ? desc : id);
	if (t->current == FAB_NONE)
		return false;
	node_attrs(t, t->current);
	return true;
}

bool topo_add_cable(struct topo *t, const struct topo_cable *new)
{
	if (t->cables == t->cables_cap) {
		uint32_t cap = t->cables_cap ? 2 * t->cables_cap : 1024;
		struct topo_cable *grown = realloc(t->cable, cap * sizeof(*grown));

		if (!grown) {
			topo_error(t, t->line, "out of memory");
			return false;
		}
		t->cable = grown;
		t->cables_cap = cap;
	}
	t->cable[t->cables++] = *new;
	return true;
}

