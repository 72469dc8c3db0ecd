// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Copies a running fabric to a graph of this process: nodes, links, and the tables that a manager
 * wrote.
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "fabric/graph/names.h"
#include "fabric/graph/topology.h"
#include "ib/rate.h"

/**
 * struct copy - the copy of a fabric
 * @out: text of its topology file
 * @tables: replies of command tables
 * @node: the switch whose forwarding table is read
 * @unready: links that are up and not Active
 */
struct copy {
	struct fab *f;
	FILE *out;
	json_t *tables;
	uint32_t node;
	unsigned int unready;
};

/* ---- topology ------------------------------------------------------------------ */

static bool take_text(void *ctx, json_t *v)
{
	const char *text = json_string_value(json_object_get(v, "text"));

	/* without memory only this fails: ferror() and fclose() return 0 */
	return text && fputs(text, ((struct copy *)ctx)->out) != EOF;
}

bool fab_client_topology(FILE *s, struct fab *f, const char *path)
{
	/* links may have failed: a graph of several parts is not an error */
	const struct fab_report r = { fab_client_say, (void *)path, fab_client_warn, true };
	struct copy c = { .f = f };
	char *text = NULL;
	size_t len;
	bool ok;

	c.out = open_memstream(&text, &len);
	if (!c.out)
		return false;
	ok = fab_client_pages(s, "topology", NULL, true, take_text, &c);
	ok = !fclose(c.out) && ok && fab_topology_parse(f, text, len, &r);
	free(text);
	return ok;
}

/* ---- tables -------------------------------------------------------------------- */

static bool keep_tables(void *ctx, json_t *v)
{
	return fab_client_complete(v, "nodes") &&
	       !json_array_append(((struct copy *)ctx)->tables, v);
}

/* Read a member from 0 to @most. Return: false: it is not valid. */
static bool small(const json_t *v, const char *key, unsigned int most, uint8_t *n)
{
	const json_t *m = json_object_get(v, key);

	*n = (uint8_t)json_integer_value(m);
	return json_is_integer(m) && json_integer_value(m) >= 0 && json_integer_value(m) <= most;
}

/* Set the table at @index to @v. Return: false: out of memory. */
static bool take(struct fab_pool *pool, uint32_t *index, const void *v)
{
	const uint32_t i = fab_pool_get(pool, v);

	if (i == FAB_NONE)
		return false;
	fab_pool_put(pool, *index);
	*index = i;
	return true;
}

static bool take_map(struct fab *f, uint32_t *index, const json_t *v)
{
	static const char digits[] = "0123456789abcdef";
	const char *text = json_string_value(v);
	struct ib_sl2vl map;

	if (!text || strlen(text) != IB_NUM_SLS || strspn(text, digits) != IB_NUM_SLS)
		return false;
	for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
		map.vl[sl] = (uint8_t)(strchr(digits, text[sl]) - digits);
	return take(&f->sl2vl, index, &map);
}

/* Read SLtoVLMappingTables to port @out: one, or one of each input port. */
static bool take_maps(struct fab *f, const struct fab_node *n, unsigned int out, const json_t *v)
{
	struct fab_port *p = &f->port[fab_port_of(n, out)];
	const unsigned int dim = n->nports + 1u;
	uint32_t *own;

	p->sl2vl_set = 1;
	if (json_is_string(v) && !take_map(f, &p->sl2vl, v))
		return false;
	if (n->sw == FAB_NONE)
		return json_is_string(v);
	if (!json_is_string(v) && (json_array_size(v) != dim || !fab_own_sl2vl(f, n)))
		return false;
	own = f->sw[n->sw].sl2vl;
	for (unsigned int in = 0; own && in < dim; in++)
		if (!take_map(f, &own[in * dim + out], json_is_string(v) ? v : json_array_get(v, in)))
			return false;
	return true;
}

/* Parse VL:WEIGHT,... Return: false: it is not valid, or has too many entries. */
static bool parse_vlarb(const char *text, struct ib_vlarb_entry e[IB_VLARB_MAX])
{
	char *end;

	for (unsigned int i = 0; text && *text && i < IB_VLARB_MAX; i++) {
		e[i].vl = (uint8_t)strtoul(text, &end, 10);
		if (end == text || *end != ':')
			return false;
		text = end + 1;
		e[i].weight = (uint8_t)strtoul(text, &end, 10);
		if (end == text || (*end && *end != ','))
			return false;
		text = *end ? end + 1 : end;
	}
	return text && !*text;
}

static bool take_vlarb(struct fab *f, struct fab_port *p, const json_t *v)
{
	struct ib_vlarb_entry low[IB_VLARB_MAX] = { 0 }, high[IB_VLARB_MAX] = { 0 };
	struct ib_vlarb arb;

	if (!parse_vlarb(json_string_value(json_object_get(v, "vlarb_low")), low) ||
	    !parse_vlarb(json_string_value(json_object_get(v, "vlarb_high")), high))
		return false;
	ib_vlarb_init(&arb, FAB_VLARB_CAP, 0);
	for (unsigned int i = 0; i < 2; i++) {
		ib_vlarb_set_block(&arb, 1 + i, low + i * IB_VLARB_BLOCK);
		ib_vlarb_set_block(&arb, 3 + i, high + i * IB_VLARB_BLOCK);
	}
	return take(&f->vlarb, &p->vlarb, &arb);
}

/* A link that is not Active carries no data: it is down in the copy. */
static void take_state(struct copy *c, struct fab_port *p, bool active)
{
	if (active) {
		p->pi.state = p->pi.state == IB_PS_INIT ? IB_PS_ACTIVE : p->pi.state;
		return;
	}
	c->unready += p->pi.state != IB_PS_DOWN;
	ib_port_link_down(&p->pi, IB_PHYS_POLLING);
	ib_port_link_down(&c->f->port[p->peer].pi, IB_PHYS_POLLING);
}

static bool take_port(struct copy *c, const struct fab_node *n, const json_t *v)
{
	struct fab_port *p;
	uint8_t num, vls;

	if (!small(v, "port", n->nports, &num) || !num)
		return false;
	p = &c->f->port[fab_port_of(n, num)];
	/* the link went down since the topology was read */
	if (p->peer == FAB_NO_PORT)
		return true;
	if (!small(v, "vls", 15, &vls) || !small(v, "hoq_life", 31, &p->pi.hoq_life) ||
	    !small(v, "vl_stall_count", 7, &p->pi.vl_stall_count) ||
	    !small(v, "high_limit", 255, &p->pi.vl_high_limit))
		return false;
	p->pi.op_vls = fab_vl_code(vls);
	take_state(c, p, json_is_true(json_object_get(v, "active")));
	return take_vlarb(c->f, p, v) && take_maps(c->f, n, num, json_object_get(v, "sl2vl"));
}

static bool take_node(struct copy *c, const json_t *v)
{
	const char *guid = json_string_value(json_object_get(v, "guid"));
	const uint32_t i = guid ? fab_find_guid(c->f, strtoull(guid, NULL, 16)) : FAB_NONE;
	const json_t *port;
	size_t k;

	if (i == FAB_NONE)
		return false;
	if (c->f->node[i].sw != FAB_NONE &&
	    !small(v, "life_time", 31, &c->f->sw[c->f->node[i].sw].si.life_time))
		return false;
	json_array_foreach(json_object_get(v, "ports"), k, port)
		if (!take_port(c, &c->f->node[i], port))
			return false;
	return true;
}

static bool take_tables(struct copy *c)
{
	const json_t *reply, *node;
	size_t i, k;

	json_array_foreach(c->tables, i, reply)
		json_array_foreach(json_object_get(reply, "nodes"), k, node)
			if (!take_node(c, node))
				return false;
	return true;
}

/* Read the properties that all ports have in common, before there is any port. */
static bool take_profile(struct copy *c)
{
	const json_t *first = json_array_get(c->tables, 0);
	const unsigned int mtu = (unsigned int)json_integer_value(json_object_get(first, "mtu"));

	if (!small(first, "vls", 15, &c->f->vls))
		return false;
	c->f->mtu = ib_mtu_code(mtu);
	return c->f->mtu && c->f->vls && ib_mtu_bytes(c->f->mtu) == mtu;
}

/* ---- forwarding tables --------------------------------------------------------- */

static bool take_lft(void *ctx, json_t *v)
{
	struct copy *c = ctx;
	struct fab_switch *sw = &c->f->sw[c->f->node[c->node].sw];
	const json_t *list = json_object_get(v, "lft"), *port;
	const json_int_t first = json_integer_value(json_object_get(v, "first"));
	size_t i;

	if (!json_is_array(list) || first < 0 || (size_t)first + json_array_size(list) > FAB_LFT_CAP)
		return false;
	if (!sw->lft) {
		sw->lft = malloc(FAB_LFT_CAP);
		if (!sw->lft)
			return false;
		memset(sw->lft, IB_LFT_NO_PORT, FAB_LFT_CAP);
		sw->lft_blocks = FAB_LFT_CAP / IB_LFT_PER_BLOCK;
	}
	json_array_foreach(list, i, port) {
		sw->lft[(size_t)first + i] = (uint8_t)json_integer_value(port);
		sw->si.linear_top = (uint16_t)((size_t)first + i);
	}
	return true;
}

static bool take_lfts(struct copy *c, FILE *s)
{
	char guid[24];

	for (c->node = 0; c->node < c->f->nodes; c->node++) {
		if (c->f->node[c->node].sw == FAB_NONE)
			continue;
		snprintf(guid, sizeof(guid), "0x%016llx", (unsigned long long)c->f->node[c->node].guid);
		if (!fab_client_pages(s, "lft", guid, false, take_lft, c))
			return false;
	}
	return true;
}

/* ---- all of it ----------------------------------------------------------------- */

static bool copy_all(struct copy *c, FILE *s, const char *path)
{
	if (!fab_client_pages(s, "tables", NULL, false, keep_tables, c))
		return false;
	if (!take_profile(c) || !fab_client_topology(s, c->f, path) || !fab_seal(c->f) ||
	    !take_tables(c) || !take_lfts(c, s)) {
		fprintf(stderr, "ohca-fabric: --control %s: its tables cannot be read: it has changed "
			"meanwhile, or has another version than this program; try again\n", path);
		return false;
	}
	if (c->unready)
		fprintf(stderr, "ohca-fabric: links that are not Active carry nothing: %u\n", c->unready);
	return true;
}

struct fab *fab_client_fabric(const char *path)
{
	struct copy c = { .tables = json_array() };
	FILE *s = fab_client_dial(path);

	c.f = s ? fab_new() : NULL;
	if (c.f && !copy_all(&c, s, path)) {
		fab_free(c.f);
		c.f = NULL;
	}
	if (s)
		fclose(s);
	json_decref(c.tables);
	return c.f;
}
