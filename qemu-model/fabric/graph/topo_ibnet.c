// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the lines that ibnetdiscover prints and ibsim reads; see topology.h. */
#include "topo_file.h"

#include <string.h>

#include "ib/rate.h"

#define EXT_SPEEDS	(15u | IB_SPEED_EXT_XDR)	/* mask of e= and extspeed= */

/* Parse a node's name: not empty, not too long. */
static bool node_id(struct topo *t, struct topo_cur *c, struct topo_name *id)
{
	topo_skip_space(c);
	if (!topo_quoted(c, id)) {
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
 * Split what ibnetdiscover writes behind #: a part before, a description in quotes, a part behind.
 * A description may itself contain quotes. Return: false if it has no closing quote.
 */
static bool comment(struct topo *t, struct topo_cur *c, struct topo_cur *before,
		    struct topo_name *desc, struct topo_cur *after)
{
	const char *open, *close = c->end;

	*desc = (struct topo_name){ NULL, 0 };
	*before = *after = (struct topo_cur){ c->end, c->end };
	topo_skip_space(c);
	if (!topo_take(c, '#'))
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

/* The number behind @word anywhere in @c, UINT32_MAX if it is larger; 0: there is none. */
static uint32_t number_after(struct topo_cur c, const char *word)
{
	uint64_t v;

	for (const char *begin = c.p; c.p < c.end; c.p++) {
		if ((c.p > begin && c.p[-1] != ' ') || !topo_take_word(&c, word))
			continue;
		topo_skip_space(&c);
		if (c.p == c.end || *c.p < '0' || *c.p > '9')
			return 0;
		return topo_number(&c, 10, UINT32_MAX, &v) ? (uint32_t)v : UINT32_MAX;
	}
	return 0;
}

static bool set_lid(struct topo *t, struct fab_port *p, const struct topo_cur *c)
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

/* Switch 36 "S-..."	# "description" enhanced port 0 lid 1 lmc 0 */
static void ibnet_section(struct topo *t, enum ib_node_type type, struct topo_cur *c)
{
	struct topo_cur before, after;
	struct topo_name id, desc;
	uint64_t nports;

	t->current = FAB_NONE;
	topo_skip_space(c);
	if (!topo_number(c, 10, FAB_MAX_NODE_PORTS, &nports) || !nports) {
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
	if (!topo_new_node(t, type, (unsigned int)nports, &id, &desc))
		return;
	t->attrs = (struct topo_attrs){ 0 };
	if (type == IB_NODE_SWITCH_DEVICE) {
		struct fab_node *n = &t->f->node[t->current];

		topo_skip_space(&after);
		n->base_port0 = topo_starts(&after, "base port 0");
		set_lid(t, &t->f->port[fab_port_of(n, 0)], &after);
	}
}

/* ---- ports --------------------------------------------------------------------- */

/* Parse (guid) and [ext 5] in any order behind a port. Return: false after an error. */
static bool port_extras(struct topo *t, struct topo_cur *c, uint64_t *guid)
{
	uint64_t v;

	for (;;) {
		if (topo_take_word(c, "[ext ")) {
			if (!topo_number(c, 10, 0xffff, &v) || !topo_take(c, ']'))
				break;
		} else if (topo_take(c, '(')) {
			if (!topo_hex(c, UINT64_MAX, &v) || !topo_take(c, ')') || !v)
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

/* Parse w=4 s=7 e=3: masks of what the port supports, as in ibsim's files */
static bool port_options(struct topo *t, struct topo_cur *c, struct ib_port_info *pi)
{
	for (;;) {
		uint64_t v;
		char what;

		topo_skip_space(c);
		if (c->p == c->end || *c->p == '#')
			return true;
		what = *c->p++;
		if (!topo_take(c, '=') || !topo_value(c, 63, &v))
			break;
		if (what == 'w' && v && v <= 31)
			pi->width_supported = (uint8_t)v;
		else if (what == 's' && v <= 7)
			pi->speed_supported = v ? (uint8_t)v : 7;
		else if (what == 'e' && !(v & ~(uint64_t)EXT_SPEEDS))
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

/*
 * The last word of a comment that looks like a rate: ibnetdiscover -f writes more behind it.
 * Return: 0: there is none.
 */
static uint8_t comment_rate(struct topo *t, struct topo_cur c)
{
	struct topo_name w, last = { NULL, 0 };
	uint8_t rate;

	while (topo_word(&c, &w))
		if (topo_starts(&(struct topo_cur){ w.p, c.p }, "??") ||
		    (*w.p >= '1' && *w.p <= '9' && memchr(w.p, 'x', w.len)))
			last = w;
	if (!last.p)
		return 0;
	/* most cables have the rate of the previous one */
	if (last.len == t->rate_text.len && !memcmp(last.p, t->rate_text.p, last.len))
		return t->rate;
	rate = topo_rate(last.p, last.len);
	if (rate) {
		t->rate_text = last;
		t->rate = rate;
	} else {
		topo_error(t, t->line, "rate %.*s is not known: 1x, 2x, 4x, 8x or 12x with SDR, "
			   "DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR, or ???", (int)last.len,
			   last.p);
	}
	return rate;
}

/* [1](guid) "H-..."[1](guid)	# lid 4 lmc 0 "description" lid 5 4xEDR; @c is behind the first [ */
static void port_line(struct topo *t, struct topo_cur *c)
{
	struct topo_cable cable = { .line = t->line, .far = FAB_NO_PORT };
	const struct fab_node *n = &t->f->node[t->current];
	struct topo_cur before, after;
	struct topo_name desc;
	struct fab_port *p;
	uint64_t num, guid = 0;

	if (!topo_number(c, 10, 9999, &num) || !topo_take(c, ']')) {
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
	topo_skip_space(c);
	num = 1;		/* ibsim's default */
	if (!topo_starts(c, "[ext ") && topo_take(c, '[') &&
	    (!topo_number(c, 10, FAB_MAX_NODE_PORTS, &num) || !num || !topo_take(c, ']'))) {
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
	cable.rate = comment_rate(t, after);
	if (n->type != IB_NODE_SWITCH_DEVICE && !set_lid(t, p, &before))
		return;
	topo_add_cable(t, &cable);
}

/* ---- lines --------------------------------------------------------------------- */

/* Parse name=value above a section. Return: false if it is not a known one. */
static bool ibnet_attribute(struct topo *t, struct topo_cur *c)
{
	struct topo_attrs *a = &t->attrs;
	struct topo_cur was = *c;
	uint64_t v = 0;
	bool ok = false;

	if (topo_take_word(c, "vendid=")) {
		ok = a->has_vendor = topo_hex(c, 0xffffff, &v);
		a->vendor_id = (uint32_t)v;
	} else if (topo_take_word(c, "devid=")) {
		ok = a->has_device = topo_hex(c, 0xffff, &v);
		a->device_id = (uint32_t)v;
	} else if (topo_take_word(c, "sysimgguid=")) {
		ok = a->has_sys = topo_hex(c, UINT64_MAX, &a->sys_guid);
	} else if (topo_take_word(c, "switchguid=") || topo_take_word(c, "caguid=") ||
		   topo_take_word(c, "rtguid=")) {
		a->guid_type = *was.p == 's' ? IB_NODE_SWITCH_DEVICE :
			       *was.p == 'c' ? IB_NODE_CHANNEL_ADAPTER : IB_NODE_ROUTER_DEVICE;
		ok = a->has_guid = topo_hex(c, UINT64_MAX, &a->guid) && a->guid;
		if (ok && *was.p == 's' && topo_take(c, '('))
			ok = a->has_port0 = topo_hex(c, UINT64_MAX, &a->port0_guid) &&
					    a->port0_guid && topo_take(c, ')');
	} else if (topo_take_word(c, "width=")) {
		ok = topo_value(c, 31, &v);
		t->width = (uint8_t)v;
	} else if (topo_take_word(c, "speed=")) {
		ok = topo_value(c, 7, &v);
		t->speed = (uint8_t)v;
	} else if (topo_take_word(c, "extspeed=")) {
		ok = topo_value(c, EXT_SPEEDS, &v) && !(v & ~(uint64_t)EXT_SPEEDS);
		t->speed_ext = (uint8_t)v;
		if (!t->speed)
			t->speed = 7;
	} else {
		return false;
	}
	topo_skip_space(c);
	if (!ok || (c->p < c->end && *c->p != '#'))
		topo_error(t, t->line, "%.*s is no value: hexadecimal, and not too large",
			   (int)(was.end - was.p > 60 ? 60 : was.end - was.p), was.p);
	if (!a->line)
		a->line = t->line;
	t->current = FAB_NONE;
	return true;
}

static const struct {
	char word[8];
	enum ib_node_type type;
} kinds[] = {
	{ "Switch", IB_NODE_SWITCH_DEVICE },
	{ "Ca", IB_NODE_CHANNEL_ADAPTER },
	{ "Hca", IB_NODE_CHANNEL_ADAPTER },
	{ "Rt", IB_NODE_ROUTER_DEVICE },
};

/* The kind of node whose section begins at @c. Return: 0: none does; else *@rest follows it. */
static uint8_t section_kind(const struct topo_cur *c, struct topo_cur *rest)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(kinds); i++) {
		*rest = *c;
		if (topo_take_word(rest, kinds[i].word) && rest->p < rest->end &&
		    (*rest->p == ' ' || *rest->p == '\t'))
			return kinds[i].type;
	}
	return 0;
}

static void ibnet_line(struct topo *t, struct topo_cur *c)
{
	struct topo_cur rest;
	uint8_t type;

	if (topo_take(c, '[')) {
		if (t->current == FAB_NONE)
			topo_error(t, t->line, "a port without a node: it belongs below a line "
				   "Switch, Ca or Rt");
		else
			port_line(t, c);
		return;
	}
	type = section_kind(c, &rest);
	if (type) {
		ibnet_section(t, type, &rest);
		return;
	}
	/* ibnetdiscover -g writes which chassis contains nodes */
	if (topo_starts(c, "Chassis ") || topo_starts(c, "Non-Chassis Nodes"))
		return;
	if (!ibnet_attribute(t, c))
		topo_error(t, t->line, "not understood: a line is Switch, Ca, Hca or Rt, a port "
			   "[N], NAME=VALUE, or a comment with # before it");
}

/* Whether it is a section, a port, NAME=VALUE, or a line of -g. */
static bool ibnet_is(struct topo_cur c)
{
	struct topo_cur rest;

	if (section_kind(&c, &rest) || *c.p == '[' || topo_starts(&c, "Chassis "))
		return true;
	rest = c;
	while (rest.p < rest.end && *rest.p >= 'a' && *rest.p <= 'z')
		rest.p++;
	return rest.p > c.p && rest.p < rest.end && *rest.p == '=';
}

static void ibnet_end(struct topo *t)
{
	if (!t->errors && t->attrs.line)
		topo_error(t, t->attrs.line, "no node follows these attributes of a node");
}

const struct topo_format topo_ibnet = { ibnet_is, ibnet_line, ibnet_end };
