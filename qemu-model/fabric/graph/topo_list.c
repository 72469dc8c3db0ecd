// SPDX-License-Identifier: GPL-2.0-or-later
/* Topologies that are lists of cables; see topo_list.h. */
#include "topo_list.h"

#include <stdlib.h>
#include <string.h>

#include "topo_file.h"

/*
 * A node; @end.nports: at least the largest port that was seen. @many: more than one of its ports
 * was seen; @node: its index in the fabric
 */
struct topo_item {
	struct topo_end end;
	uint32_t line;
	uint32_t node;
	bool many;
	bool said_nports;
};

/* Data of a port. */
struct topo_seen {
	uint64_t guid;
	uint32_t item;
	uint16_t lid;
	uint8_t num;
	uint8_t lmc;
	uint8_t rate;
};

/* A cable, as in a line. */
struct topo_link {
	uint32_t line;
	uint32_t item[2];
	uint8_t num[2];
};

/* Make room for one more of @size bytes. Return: NULL after an error. */
static void *list_room(struct topo *t, void **array, uint32_t n, uint32_t *cap, size_t size)
{
	if (n == *cap) {
		const uint32_t more = n ? 2 * n : 256;
		void *grown = realloc(*array, more * size);

		if (!grown) {
			topo_full(t);
			return NULL;
		}
		*array = grown;
		*cap = more;
	}
	return (char *)*array + n * size;
}

static uint64_t list_hash(const struct topo_end *e)
{
	return fab_hash_u64(e->key) ^ (e->by_name ? fab_hash_bytes(e->name.p, e->name.len) : 0);
}

static bool item_is(const void *ctx, uint32_t index, const void *key)
{
	const struct topo *t = ctx;
	const struct topo_end *a = &t->list.item[index].end, *b = key;

	return a->key == b->key && a->by_name == b->by_name &&
	       (!a->by_name ||
		(a->name.len == b->name.len && !memcmp(a->name.p, b->name.p, a->name.len)));
}

uint32_t topo_list_find(const struct topo *t, uint64_t key)
{
	const struct topo_end e = { .key = key };

	return fab_hash_find(&t->list.by_key, list_hash(&e), item_is, t, &e);
}

static uint32_t new_item(struct topo *t, const struct topo_end *e)
{
	struct topo_list *l = &t->list;
	struct topo_item *item = list_room(t, (void **)&l->item, l->items, &l->items_cap,
					   sizeof(*item));

	if (!item)
		return FAB_NONE;
	*item = (struct topo_item){ .end = *e, .line = t->line, .node = FAB_NONE };
	item->end.num = 0;
	item->end.port_guid = 0;
	if (!fab_hash_add(&l->by_key, list_hash(e), l->items)) {
		topo_full(t);
		return FAB_NONE;
	}
	return l->items++;
}

/* Add the data in @e to that of its node. After an error the result is not used. */
static void merge(struct topo *t, struct topo_item *item, const struct topo_end *e)
{
	struct topo_end *i = &item->end;

	if (e->type && i->type && e->type != i->type) {
		topo_error(t, t->line, "\"%.*s\" is another kind of node in line %u: correct one "
			   "of the lines", (int)i->name.len, i->name.p, item->line);
		return;
	}
	i->type |= e->type;
	if (e->nports && item->said_nports && e->nports != i->nports) {
		topo_error(t, t->line, "\"%.*s\" has %u ports here, and %u in line %u: correct one "
			   "of the lines", (int)i->name.len, i->name.p, e->nports, i->nports,
			   item->line);
		return;
	}
	if (e->nports)
		item->said_nports = true;
	if (e->nports > i->nports)
		i->nports = e->nports;
	if (item->said_nports && e->num > i->nports) {
		topo_error(t, t->line, "port %u of \"%.*s\", which has ports 1 to %u", e->num,
			   (int)i->name.len, i->name.p, i->nports);
		return;
	}
	if (e->num > i->nports)
		i->nports = e->num;
	if (!i->name.len)
		i->name = e->name;
	if (e->sys_guid)
		i->sys_guid = e->sys_guid;
	if (e->has_ids) {
		i->has_ids = true;
		i->vendor_id = e->vendor_id;
		i->device_id = e->device_id;
	}
	if (i->num && e->num && i->num != e->num)
		item->many = true;
	if (e->num)
		i->num = e->num;
	if (e->port_guid)
		i->port_guid = e->port_guid;
}

uint32_t topo_list_end(struct topo *t, const struct topo_end *e)
{
	struct topo_list *l = &t->list;
	uint32_t n = fab_hash_find(&l->by_key, list_hash(e), item_is, t, e);
	struct topo_seen *seen;

	if (e->name.len > FAB_DESC_LEN) {
		topo_error(t, t->line, "a description has %u characters: at most %u are possible",
			   e->name.len, FAB_DESC_LEN);
		return FAB_NONE;
	}
	if (n == FAB_NONE)
		n = new_item(t, e);
	if (n == FAB_NONE)
		return FAB_NONE;
	merge(t, &l->item[n], e);
	seen = list_room(t, (void **)&l->seen, l->seens, &l->seens_cap, sizeof(*seen));
	if (!seen)
		return FAB_NONE;
	*seen = (struct topo_seen){ e->port_guid, n, e->lid, e->num, e->lmc, e->rate };
	l->seens++;
	return n;
}

void topo_list_cable(struct topo *t, const struct topo_end *a, const struct topo_end *b)
{
	struct topo_list *l = &t->list;
	const uint32_t ia = topo_list_end(t, a), ib = topo_list_end(t, b);
	struct topo_link *link;

	if (ia == FAB_NONE || ib == FAB_NONE)
		return;
	link = list_room(t, (void **)&l->link, l->links, &l->links_cap, sizeof(*link));
	if (!link)
		return;
	*link = (struct topo_link){ t->line, { ia, ib }, { a->num, b->num } };
	l->links++;
}

/* ---- when all lines are read --------------------------------------------------- */

static void build_node(struct topo *t, struct topo_item *item)
{
	const struct topo_end *e = &item->end;
	const enum ib_node_type type = e->type ? e->type : e->nports > 2 ? IB_NODE_SWITCH_DEVICE :
							   IB_NODE_CHANNEL_ADAPTER;
	uint64_t guid = e->guid ? e->guid : item->many ? e->key : e->port_guid;
	struct fab_node *n;

	t->line = item->line;
	if (!e->name.p)
		item->end.name = (struct topo_name){ "", 0 };
	if (!e->nports || e->nports > FAB_MAX_NODE_PORTS) {
		topo_error(t, t->line, "\"%.*s\" has %u ports: 1 to %u are possible",
			   (int)e->name.len, e->name.p, e->nports, FAB_MAX_NODE_PORTS);
		return;
	}
	if (!guid)
		guid = topo_made_guid(t, type);
	item->node = topo_add_node(t, type, e->nports, guid, &e->name, &e->name);
	if (item->node == FAB_NONE)
		return;
	n = &t->f->node[item->node];
	if (e->sys_guid)
		n->sys_guid = e->sys_guid;
	if (e->has_ids) {
		n->vendor_id = e->vendor_id;
		n->device_id = e->device_id;
	}
}

/* Set PortGUID and LID: a switch has one of each, at its port 0. */
static void build_port(struct topo *t, const struct topo_seen *s)
{
	const struct topo_item *item = &t->list.item[s->item];
	const struct fab_node *n = &t->f->node[item->node];
	const bool sw = n->type == IB_NODE_SWITCH_DEVICE;
	struct fab_port *p = &t->f->port[fab_port_of(n, sw ? 0 : s->num)];

	if (!sw && !s->num)
		return;
	if (s->guid)
		p->guid = s->guid;
	if (s->lid) {
		p->pi.lid = s->lid;
		p->pi.lmc = s->lmc;
	}
}

/* Add the end of cable @c at @port; a cable may be in two lines, one from each of its ends. */
static void build_end(struct topo *t, uint32_t *at, const struct topo_cable *c)
{
	struct topo_cable *was;

	if (at[c->port] == FAB_NONE) {
		if (topo_add_cable(t, c))
			at[c->port] = t->cables - 1;
		return;
	}
	was = &t->cable[at[c->port]];
	if (was->far != c->far)
		topo_error(t, c->line, "port %u of \"%.*s\" is connected in line %u already, to "
			   "another port: remove one of the lines", fab_port_num(t->f, c->port),
			   (int)t->node[t->f->port[c->port].node].id.len,
			   t->node[t->f->port[c->port].node].id.p, was->line);
}

static void build_cables(struct topo *t)
{
	const struct topo_list *l = &t->list;
	uint32_t *at = malloc((t->f->ports + 1) * sizeof(*at));

	if (!at) {
		topo_full(t);
		return;
	}
	for (uint32_t i = 0; i <= t->f->ports; i++)
		at[i] = FAB_NONE;
	for (uint32_t i = 0; i < l->links && !topo_too_many(t); i++) {
		const struct topo_link *k = &l->link[i];
		uint32_t port[2];

		for (unsigned int e = 0; e < 2; e++)
			port[e] = fab_port_of(&t->f->node[l->item[k->item[e]].node], k->num[e]);
		for (unsigned int e = 0; e < 2; e++) {
			const struct topo_cable c = {
				.line = k->line, .port = port[e], .far = port[!e],
			};

			if (port[0] != port[1])
				build_end(t, at, &c);
			else if (!e)
				topo_error(t, k->line, "the port is connected to itself: a cable "
					   "has two ends");
		}
	}
	for (uint32_t i = 0; i < l->seens; i++) {
		const struct topo_seen *s = &l->seen[i];
		const uint32_t p = fab_port_of(&t->f->node[l->item[s->item].node], s->num);

		if (s->num && s->rate && at[p] != FAB_NONE)
			t->cable[at[p]].rate = s->rate;
	}
	free(at);
}

void topo_list_build(struct topo *t)
{
	struct topo_list *l = &t->list;

	for (uint32_t i = 0; i < l->items && !topo_too_many(t); i++)
		build_node(t, &l->item[i]);
	if (t->errors)
		return;
	for (uint32_t i = 0; i < l->seens; i++)
		build_port(t, &l->seen[i]);
	build_cables(t);
}

void topo_list_free(struct topo_list *l)
{
	free(l->item);
	free(l->seen);
	free(l->link);
	fab_hash_free(&l->by_key);
}
