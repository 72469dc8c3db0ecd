// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading the lines of a topology file; see topology.h and topo_file.h. */
#include "topo_file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ib/mlnx.h"
#include "ib/rate.h"

#define MAX_ERRORS	50u

/* The rest of a line. */
struct cur {
	const char *p;
	const char *end;
};

void topo_error(struct topo *t, uint32_t line, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (t->errors++ >= MAX_ERRORS)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	t->report->say(t->report->ctx, line, text);
	if (t->errors == MAX_ERRORS)
		t->report->say(t->report->ctx, line, "there are more errors: mend these first");
}

bool topo_too_many(const struct topo *t)
{
	return t->errors >= MAX_ERRORS;
}

/* ---- pieces of a line ---------------------------------------------------------- */

static void skip_space(struct cur *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

static bool take(struct cur *c, char ch)
{
	if (c->p == c->end || *c->p != ch)
		return false;
	c->p++;
	return true;
}

static bool starts(const struct cur *c, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(c->end - c->p) >= n && !memcmp(c->p, word, n);
}

static bool take_word(struct cur *c, const char *word)
{
	if (!starts(c, word))
		return false;
	c->p += strlen(word);
	return true;
}

static int digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	return ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : 16;
}

/* A number up to @max. Return: false if there is none, or a larger one. */
static bool number(struct cur *c, unsigned int base, uint64_t max, uint64_t *v)
{
	const char *begin = c->p;

	for (*v = 0; c->p < c->end && (unsigned int)digit(*c->p) < base; c->p++) {
		unsigned int d = (unsigned int)digit(*c->p);

		if (d > max || *v > (max - d) / base)
			return false;
		*v = *v * base + d;
	}
	return c->p != begin;
}

/* Hexadecimal with 0x or without, as ibnetdiscover writes GUIDs. */
static bool hex(struct cur *c, uint64_t max, uint64_t *v)
{
	if (starts(c, "0x") || starts(c, "0X"))
		c->p += 2;
	return number(c, 16, max, v);
}

/* Decimal, or hexadecimal with 0x. */
static bool value(struct cur *c, uint64_t max, uint64_t *v)
{
	return starts(c, "0x") ? hex(c, max, v) : number(c, 10, max, v);
}

/* "text"; false: there is none that ends */
static bool quoted(struct cur *c, struct topo_name *n)
{
	const char *end;

	if (!take(c, '"'))
		return false;
	end = memchr(c->p, '"', (size_t)(c->end - c->p));
	if (!end)
		return false;
	*n = (struct topo_name){ c->p, (uint32_t)(end - c->p) };
	c->p = end + 1;
	return true;
}

/* A node's name: not empty, not too long. */
static bool node_id(struct topo *t, struct cur *c, struct topo_name *id)
{
	skip_space(c);
	if (!quoted(c, id)) {
		topo_error(t, t->line, "a node's name is missing or has no closing quote: write "
			   "\"NAME\"");
		return false;
	}
	if (!id->len || id->len > FAB_MAX_ID) {
		topo_error(t, t->line, "a node's name has %u characters: 1 to %u are possible",
			   id->len, FAB_MAX_ID);
		return false;
	}
	return true;
}

/*
 * What ibnetdiscover writes behind #: an own part, a description in quotes, another part. A
 * description may hold quotes itself. Return: false if it has no closing quote.
 */
static bool comment(struct topo *t, struct cur *c, struct cur *before, struct topo_name *desc,
		    struct cur *after)
{
	const char *open, *close = c->end;

	*desc = (struct topo_name){ NULL, 0 };
	*before = *after = (struct cur){ c->end, c->end };
	skip_space(c);
	if (!take(c, '#'))
		return true;
	*before = *c;
	open = memchr(c->p, '"', (size_t)(c->end - c->p));
	c->p = c->end;
	if (!open) {
		*after = *before;
		return true;
	}
	while (*--close != '"')
		;
	if (close == open) {
		topo_error(t, t->line, "a description has no closing quote: write # \"TEXT\"");
		return false;
	}
	before->end = open;
	*desc = (struct topo_name){ open + 1, (uint32_t)(close - open - 1) };
	after->p = close + 1;
	return true;
}

/* The number that follows @word somewhere in @c, UINT32_MAX if it is larger; 0: there is none. */
static uint32_t number_after(struct cur c, const char *word)
{
	uint64_t v;

	for (const char *begin = c.p; c.p < c.end; c.p++) {
		if ((c.p > begin && c.p[-1] != ' ') || !take_word(&c, word))
			continue;
		skip_space(&c);
		if (c.p == c.end || *c.p < '0' || *c.p > '9')
			return 0;
		return number(&c, 10, UINT32_MAX, &v) ? (uint32_t)v : UINT32_MAX;
	}
	return 0;
}

static bool set_lid(struct topo *t, struct fab_port *p, const struct cur *c)
{
	uint32_t lid = number_after(*c, "lid "), lmc = number_after(*c, "lmc ");

	if (lid > 0xbfff || lmc > 7) {
		topo_error(t, t->line, "lid %u lmc %u: a LID is 1 to 49151, 0 for none, an LMC 0 "
			   "to 7", lid, lmc);
		return false;
	}
	p->pi.lid = (uint16_t)lid;
	p->pi.lmc = (uint8_t)lmc;
	return true;
}

/* ---- sections ------------------------------------------------------------------ */

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

/* GUID of a node without an attribute for it: from a name S-, H- or R- and GUID, else generated. */
static uint64_t guid_of(struct topo *t, enum ib_node_type type, const struct topo_name *id)
{
	struct cur c = { id->p + 2, id->p + id->len };
	uint64_t v;

	if (id->len == 18 && id->p[1] == '-' && hex(&c, UINT64_MAX, &v) && c.p == c.end && v)
		return v;
	do {
		v = fab_made_guid(type, ++t->generated[type]);
	} while (fab_find_guid(t->f, v) != FAB_NONE);
	return v;
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

static bool new_node(struct topo *t, enum ib_node_type type, unsigned int nports,
		     const struct topo_name *id, const struct topo_name *desc)
{
	const struct topo_name *d = desc->p ? desc : id;
	uint64_t guid;
	uint32_t other = topo_find(t, id);

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
	guid = t->attrs.has_guid ? t->attrs.guid : guid_of(t, type, id);
	other = fab_find_guid(t->f, guid);
	if (other != FAB_NONE) {
		topo_error(t, t->line, "node GUID 0x%016llx is that of \"%.*s\" already, in line "
			   "%u: give one of them another", (unsigned long long)guid,
			   (int)t->node[other].id.len, t->node[other].id.p, t->node[other].line);
		return false;
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
	if (!fab_hash_add(&t->by_id, fab_hash_bytes(id->p, id->len), t->f->nodes))
		goto full;
	t->current = fab_add_node(t->f, type, nports, guid, d->p, d->len);
	if (t->current == FAB_NONE)
		goto full;
	node_attrs(t, t->current);
	return true;
full:
	topo_error(t, t->line, "too large: %u nodes and %u ports are possible, or memory is short",
		   FAB_MAX_NODES, FAB_MAX_PORTS);
	t->errors += MAX_ERRORS;	/* later errors would only follow from this one */
	return false;
}

/* Switch 36 "S-..."	# "description" enhanced port 0 lid 1 lmc 0 */
static void section(struct topo *t, enum ib_node_type type, struct cur *c)
{
	struct cur before, after;
	struct topo_name id, desc;
	uint64_t nports;

	t->current = FAB_NONE;
	skip_space(c);
	if (!number(c, 10, FAB_MAX_NODE_PORTS, &nports) || !nports) {
		topo_error(t, t->line, "how many ports? 1 to %u, behind the kind of node",
			   FAB_MAX_NODE_PORTS);
		return;
	}
	if (!node_id(t, c, &id) || !comment(t, c, &before, &desc, &after))
		return;
	if (desc.len > FAB_DESC_LEN) {
		topo_error(t, t->line, "a description has %u characters: at most %u are possible",
			   desc.len, FAB_DESC_LEN);
		return;
	}
	if (c->p < c->end)
		topo_error(t, t->line, "unexpected text behind the name: put # before a comment");
	if (!new_node(t, type, (unsigned int)nports, &id, &desc))
		return;
	t->attrs = (struct topo_attrs){ 0 };
	if (type == IB_NODE_SWITCH_DEVICE) {
		struct fab_node *n = &t->f->node[t->current];

		skip_space(&after);
		n->base_port0 = starts(&after, "base port 0");
		set_lid(t, &t->f->port[fab_port_of(n, 0)], &after);
	}
}

/* ---- ports --------------------------------------------------------------------- */

/* (guid) and [ext 5] in any order behind a port. Return: false after an error. */
static bool port_extras(struct topo *t, struct cur *c, uint64_t *guid)
{
	uint64_t v;

	for (;;) {
		if (take_word(c, "[ext ")) {
			if (!number(c, 10, 0xffff, &v) || !take(c, ']'))
				break;
		} else if (take(c, '(')) {
			if (!hex(c, UINT64_MAX, &v) || !take(c, ')') || !v)
				break;
			if (guid)
				*guid = v;
		} else {
			return true;
		}
	}
	topo_error(t, t->line, "a port GUID is 1 to 16 hexadecimal digits in parentheses, an "
		   "external port [ext N]");
	return false;
}

/* w=4 s=7 e=3: masks of what the port supports, as ibsim has them */
static bool port_options(struct topo *t, struct cur *c, struct ib_port_info *pi)
{
	for (;;) {
		uint64_t v;
		char what;

		skip_space(c);
		if (c->p == c->end || *c->p == '#')
			return true;
		what = *c->p++;
		if (!take(c, '=') || !value(c, 31, &v))
			break;
		if (what == 'w' && v)
			pi->width_supported = (uint8_t)v;
		else if (what == 's' && v <= 7)
			pi->speed_supported = v ? (uint8_t)v : 7;
		else if (what == 'e' && v <= 15)
			pi->speed_ext_supported = (uint8_t)v;
		else
			break;
		if (what == 'e' && !pi->speed_supported)
			pi->speed_supported = 7;
	}
	topo_error(t, t->line, "behind the other end come w=, s=, e= (masks of widths, speeds and "
		   "extended speeds), or # and a comment");
	return false;
}

/* The last word of a comment, if it looks like a rate. */
static uint8_t comment_rate(struct topo *t, const struct cur *c)
{
	const char *end = c->end, *p;
	uint8_t rate;

	while (end > c->p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	for (p = end; p > c->p && p[-1] != ' ' && p[-1] != '\t'; p--)
		;
	if (p == end || *p < '0' || *p > '9' || !memchr(p, 'x', (size_t)(end - p)))
		return 0;
	rate = topo_rate(p, (size_t)(end - p));
	if (!rate)
		topo_error(t, t->line, "rate %.*s is not known: 1x, 2x, 4x, 8x or 12x with SDR, "
			   "DDR, QDR, FDR10, FDR, EDR, HDR or NDR", (int)(end - p), p);
	return rate;
}

static bool add_cable(struct topo *t, const struct topo_cable *new)
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

/* [1](guid) "H-..."[1](guid)	# lid 4 lmc 0 "description" lid 5 4xEDR; @c is behind the first [ */
static void port_line(struct topo *t, struct cur *c)
{
	struct topo_cable cable = { .line = t->line };
	const struct fab_node *n = &t->f->node[t->current];
	struct cur before, after;
	struct topo_name desc;
	struct fab_port *p;
	uint64_t num, guid = 0;

	if (!number(c, 10, 9999, &num) || !take(c, ']')) {
		topo_error(t, t->line, "a port is [1] to [%u]", n->nports);
		return;
	}
	if (!num || num > n->nports) {
		topo_error(t, t->line, "port %u of \"%.*s\", which has ports 1 to %u: correct the "
			   "port, or the number of ports in line %u", (unsigned int)num,
			   (int)t->node[t->current].id.len, t->node[t->current].id.p, n->nports,
			   t->node[t->current].line);
		return;
	}
	cable.port = fab_port_of(n, (unsigned int)num);
	p = &t->f->port[cable.port];
	if (!port_extras(t, c, &guid) || !node_id(t, c, &cable.id))
		return;
	skip_space(c);
	num = 1;		/* ibsim's default */
	if (!starts(c, "[ext ") && take(c, '[') &&
	    (!number(c, 10, FAB_MAX_NODE_PORTS, &num) || !num || !take(c, ']'))) {
		topo_error(t, t->line, "the port at the other end is [1] to [%u]",
			   FAB_MAX_NODE_PORTS);
		return;
	}
	cable.num = (uint8_t)num;
	if (!port_extras(t, c, NULL))
		return;
	if (n->type != IB_NODE_SWITCH_DEVICE && guid)
		p->guid = guid;
	if (!port_options(t, c, &p->pi) || !comment(t, c, &before, &desc, &after))
		return;
	cable.rate = comment_rate(t, &after);
	if (cable.rate)
		topo_rate_set(cable.rate, &p->pi);
	/* what no tool can ask for */
	if (!ib_mlnx_ids(n->vendor_id, n->device_id))
		p->pi.speed_supported &= (uint8_t)~IB_SPEED_FDR10;
	if (n->type != IB_NODE_SWITCH_DEVICE && !set_lid(t, p, &before))
		return;
	add_cable(t, &cable);
}

/* ---- lines --------------------------------------------------------------------- */

/* name=value above a section. Return: false if it is none that is known. */
static bool attribute(struct topo *t, struct cur *c)
{
	struct topo_attrs *a = &t->attrs;
	struct cur was = *c;
	uint64_t v = 0;
	bool ok = false;

	if (take_word(c, "vendid=")) {
		ok = a->has_vendor = hex(c, 0xffffff, &v);
		a->vendor_id = (uint32_t)v;
	} else if (take_word(c, "devid=")) {
		ok = a->has_device = hex(c, 0xffff, &v);
		a->device_id = (uint32_t)v;
	} else if (take_word(c, "sysimgguid=")) {
		ok = a->has_sys = hex(c, UINT64_MAX, &a->sys_guid);
	} else if (take_word(c, "switchguid=") || take_word(c, "caguid=") ||
		   take_word(c, "rtguid=")) {
		a->guid_type = *was.p == 's' ? IB_NODE_SWITCH_DEVICE :
			       *was.p == 'c' ? IB_NODE_CHANNEL_ADAPTER : IB_NODE_ROUTER_DEVICE;
		ok = a->has_guid = hex(c, UINT64_MAX, &a->guid) && a->guid;
		if (ok && *was.p == 's' && take(c, '('))
			ok = a->has_port0 = hex(c, UINT64_MAX, &a->port0_guid) &&
					    a->port0_guid && take(c, ')');
	} else if (take_word(c, "width=")) {
		ok = value(c, 31, &v);
		t->width = (uint8_t)v;
	} else if (take_word(c, "speed=")) {
		ok = value(c, 7, &v);
		t->speed = (uint8_t)v;
	} else if (take_word(c, "extspeed=")) {
		ok = value(c, 15, &v);
		t->speed_ext = (uint8_t)v;
		if (!t->speed)
			t->speed = 7;
	} else {
		return false;
	}
	skip_space(c);
	if (!ok || (c->p < c->end && *c->p != '#'))
		topo_error(t, t->line, "%.*s is no value: hexadecimal, and not too large",
			   (int)(was.end - was.p > 60 ? 60 : was.end - was.p), was.p);
	if (!a->line)
		a->line = t->line;
	t->current = FAB_NONE;
	return true;
}

static void one_line(struct topo *t, struct cur *c)
{
	static const struct {
		char word[8];
		enum ib_node_type type;
	} kinds[] = {
		{ "Switch", IB_NODE_SWITCH_DEVICE },
		{ "Ca", IB_NODE_CHANNEL_ADAPTER },
		{ "Hca", IB_NODE_CHANNEL_ADAPTER },
		{ "Rt", IB_NODE_ROUTER_DEVICE },
	};

	skip_space(c);
	if (c->p == c->end || *c->p == '#')
		return;
	if (take(c, '[')) {
		if (t->current == FAB_NONE)
			topo_error(t, t->line, "a port without a node: it belongs below a line "
				   "Switch, Ca or Rt");
		else
			port_line(t, c);
		return;
	}
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(kinds); i++) {
		struct cur rest = *c;

		if (take_word(&rest, kinds[i].word) && rest.p < rest.end &&
		    (*rest.p == ' ' || *rest.p == '\t')) {
			section(t, kinds[i].type, &rest);
			return;
		}
	}
	/* with -g ibnetdiscover says which chassis nodes are in */
	if (starts(c, "Chassis ") || starts(c, "Non-Chassis Nodes"))
		return;
	if (!attribute(t, c))
		topo_error(t, t->line, "not understood: a line is Switch, Ca, Hca or Rt, a port "
			   "[N], NAME=VALUE, or a comment with # before it");
}

bool fab_topology_parse(struct fab *f, const char *text, size_t len, const struct fab_report *r)
{
	struct topo t = { .f = f, .report = r, .current = FAB_NONE };
	const char *end = text + len, *nul = len ? memchr(text, 0, len) : NULL;

	if (len > FAB_MAX_FILE) {
		topo_error(&t, 0, "the file is larger than %u MiB", FAB_MAX_FILE >> 20);
		return false;
	}
	for (const char *p = text; p < end && !topo_too_many(&t);) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		struct cur c = { p, eol ? eol : end };

		t.line++;
		p = eol ? eol + 1 : end;
		if (nul && nul < p) {
			topo_error(&t, t.line, "a zero byte: this is no text");
			break;
		}
		if (c.end > c.p && c.end[-1] == '\r')
			c.end--;
		one_line(&t, &c);
	}
	if (!t.errors && t.attrs.line)
		topo_error(&t, t.attrs.line, "no node follows what is said about it");
	if (!t.errors)
		topo_connect(&t);
	free(t.node);
	free(t.cable);
	fab_hash_free(&t.by_id);
	return !t.errors;
}
