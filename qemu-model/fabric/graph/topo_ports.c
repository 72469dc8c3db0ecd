// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The output of ibnetdiscover -p, a line for each port:
 *	SW    12  1 0x0002c90200400020 4x EDR - CA     5  1 0x0002c90300a1b2c1 ( 'leaf' - 'node1' )
 * kind, LID, port, PortGUID, width, speed, and the same of the other end; without a cable only
 * the name. It has no NodeGUIDs: see struct topo_end.
 */
#include "topo_file.h"

#include <string.h>

#include "ib/packet.h"

/* Parse "SW", "CA" or "RT". Return: enum ib_node_type, 0: none of them. */
static uint8_t ports_kind(const struct topo_name *w)
{
	return topo_is(w, "SW") ? IB_NODE_SWITCH_DEVICE :
	       topo_is(w, "CA") ? IB_NODE_CHANNEL_ADAPTER :
	       topo_is(w, "RT") ? IB_NODE_ROUTER_DEVICE : 0;
}

/* Parse kind, LID, port and PortGUID. Return: false: not valid. */
static bool ports_end(struct topo_cur *c, struct topo_end *e)
{
	struct topo_name w;
	uint64_t v;

	if (!topo_word(c, &w))
		return false;
	e->type = ports_kind(&w);
	topo_skip_space(c);
	if (!e->type || !topo_number(c, 10, IB_LID_UCAST_MAX, &v))
		return false;
	e->lid = (uint16_t)v;
	topo_skip_space(c);
	if (!topo_number(c, 10, FAB_MAX_NODE_PORTS, &v) || !v)
		return false;
	e->num = (uint8_t)v;
	topo_skip_space(c);
	if (!topo_hex(c, UINT64_MAX, &e->port_guid) || !e->port_guid)
		return false;
	return true;
}

/* Set the key of the node, whose name is known. */
static void ports_key(struct topo_end *e)
{
	if (e->type == IB_NODE_SWITCH_DEVICE) {
		e->key = e->port_guid;
		e->guid = e->port_guid;
		return;
	}
	/* ports of one adapter have consecutive GUIDs, like their numbers */
	e->key = e->port_guid - e->num;
	e->by_name = true;
}

/* Parse 'NAME' up to @end. Return: false: it does not follow. */
static bool ports_name(struct topo_cur *c, const char *end, struct topo_name *n)
{
	const size_t len = strlen(end);

	topo_skip_space(c);
	if (!topo_take(c, '\''))
		return false;
	n->p = c->p;
	for (; (size_t)(c->end - c->p) >= len; c->p++) {
		if (memcmp(c->p, end, len))
			continue;
		n->len = (uint32_t)(c->p - n->p);
		c->p += len;
		return true;
	}
	return false;
}

/* Parse what follows the first end: width and speed, and the other end or the name. */
static bool ports_rest(struct topo *t, struct topo_cur *c, struct topo_end *a)
{
	struct topo_name width, speed;
	struct topo_end b = { 0 };

	if (!topo_word(c, &width) || !topo_word(c, &speed))
		return false;
	a->rate = topo_rate_by_speed(&width, &speed);
	topo_skip_space(c);
	if (!topo_take(c, '-')) {
		/* no cable: the last quote is the end of the name */
		struct topo_name line = { c->p, (uint32_t)(c->end - c->p) };

		topo_trim(&line);
		if (line.len < 2 || line.p[0] != '\'' || line.p[line.len - 1] != '\'')
			return false;
		a->name = (struct topo_name){ line.p + 1, line.len - 2 };
		ports_key(a);
		topo_list_end(t, a);
		return true;
	}
	topo_skip_space(c);
	if (!ports_end(c, &b))
		return false;
	topo_skip_space(c);
	if (!topo_take(c, '(') || !ports_name(c, "' - ", &a->name) ||
	    !ports_name(c, "' )", &b.name))
		return false;
	if (!a->rate) {
		topo_error(t, t->line, "rate %.*s %.*s is not known", (int)width.len, width.p,
			   (int)speed.len, speed.p);
		return true;
	}
	ports_key(a);
	ports_key(&b);
	topo_list_cable(t, a, &b);
	return true;
}

static void ports_line(struct topo *t, struct topo_cur *c)
{
	struct topo_end a = { 0 };

	if (!ports_end(c, &a) || !ports_rest(t, c, &a))
		topo_error(t, t->line, "not understood: a line of ibnetdiscover -p is KIND LID "
			   "PORT GUID WIDTH SPEED - KIND LID PORT GUID ( 'NAME' - 'NAME' )");
}

static bool ports_is(struct topo_cur c)
{
	struct topo_name w;

	if (!topo_word(&c, &w) || !ports_kind(&w))
		return false;
	topo_skip_space(&c);
	return c.p < c.end && *c.p >= '0' && *c.p <= '9';
}

const struct topo_format topo_ports = { ports_is, ports_line, topo_list_build };
