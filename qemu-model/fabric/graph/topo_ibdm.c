// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Topology files of IBDM (ibdiagnet -t, ibdmchk, ibmgtsim), with a section for each system:
 *	MTS2400 SL1-1
 *		P1 -4x-5G-> MT23108 H-1 P1
 * kind and name of a system, and for each cable its port, the rate, which is optional, and
 * kind, name and port of the other end. One of the ends is enough. A system with several chips
 * has inner cables that only IBDM's own definitions of systems (.ibnl) describe, so its ports,
 * as L1/P1, are refused.
 */
#include "topo_file.h"

#include <string.h>

/* Parse P7, or 7, or U1/P7 */
static bool ibdm_port(const struct topo_name *w, uint8_t *num)
{
	struct topo_cur c = { w->p, w->p + w->len };
	uint64_t v;

	topo_take_word(&c, "U1/");
	topo_take(&c, 'P');
	if (!topo_number(&c, 10, FAB_MAX_NODE_PORTS, &v) || !v || c.p != c.end)
		return false;
	*num = (uint8_t)v;
	return true;
}

/* Fill in a system: its name, and its type if its kind looks like that of a switch. */
static void ibdm_system(const struct topo_name *kind, const struct topo_name *name,
			struct topo_end *e)
{
	static const char * const switches[] = { "MTS", "MSX", "MSB", "MQM", "SW", "IS", "SX" };

	e->name = *name;
	e->by_name = true;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(switches); i++)
		if (kind->len >= strlen(switches[i]) &&
		    !memcmp(kind->p, switches[i], strlen(switches[i])))
			e->type = IB_NODE_SWITCH_DEVICE;
}

/* Parse -> or -4x-10G->. Return: false: it is neither. */
static bool ibdm_arrow(const struct topo_name *w, uint8_t *rate)
{
	struct topo_cur c = { w->p, w->p + w->len };
	struct topo_name width, speed;

	*rate = 0;
	if (topo_is(w, "->"))
		return true;
	if (!topo_take(&c, '-'))
		return false;
	width.p = c.p;
	while (c.p < c.end && *c.p != '-')
		c.p++;
	width.len = (uint32_t)(c.p - width.p);
	if (!topo_take(&c, '-'))
		return false;
	speed.p = c.p;
	while (c.p < c.end && *c.p != 'G' && *c.p != '-')
		c.p++;
	speed.len = (uint32_t)(c.p - speed.p);
	topo_take(&c, 'G');
	if (!topo_take_word(&c, "->") || c.p != c.end)
		return false;
	*rate = topo_rate_by_speed(&width, &speed);
	return *rate;
}

/* Parse what follows a port's name. */
static void ibdm_cable(struct topo *t, const struct topo_name *port, struct topo_cur *c)
{
	struct topo_name arrow, kind, name, far, more;
	struct topo_end a = { 0 }, b = { 0 };
	uint8_t rate;

	if (!topo_word(c, &arrow) || !ibdm_arrow(&arrow, &rate) || !topo_word(c, &kind) ||
	    !topo_word(c, &name) || !topo_word(c, &far) ||
	    (topo_word(c, &more) && *more.p != '#')) {
		topo_error(t, t->line, "not understood: a cable is PORT -WIDTHx-SPEEDG-> KIND NAME "
			   "PORT, or PORT -> KIND NAME PORT");
		return;
	}
	if (!t->system.len) {
		topo_error(t, t->line, "a cable without a system: it belongs below a line KIND "
			   "NAME");
		return;
	}
	ibdm_system(&t->system_kind, &t->system, &a);
	ibdm_system(&kind, &name, &b);
	if (!ibdm_port(port, &a.num) || !ibdm_port(&far, &b.num)) {
		topo_error(t, t->line, "ports are P1 to P%u: systems with several chips have "
			   "cables inside that this file does not have", FAB_MAX_NODE_PORTS);
		return;
	}
	a.rate = rate;
	b.rate = rate;
	topo_list_cable(t, &a, &b);
}

static bool is_arrow(const struct topo_name *w)
{
	return w->len >= 2 && w->p[0] == '-' && w->p[w->len - 1] == '>';
}

static void ibdm_line(struct topo *t, struct topo_cur *c)
{
	struct topo_name first, second;
	struct topo_cur rest;

	if (!topo_word(c, &first))
		return;
	rest = *c;
	if (topo_word(c, &second) && is_arrow(&second)) {
		ibdm_cable(t, &first, &rest);
		return;
	}
	topo_skip_space(c);
	if (!second.len || (c->p < c->end && *c->p != '#')) {
		topo_error(t, t->line, "not understood: a system is KIND NAME, a cable has an "
			   "arrow");
		return;
	}
	t->system_kind = first;
	t->system = second;
}

/* KIND NAME: two words that no other format begins with */
static bool ibdm_is(struct topo_cur c)
{
	struct topo_name kind, name, more;

	return topo_word(&c, &kind) && topo_word(&c, &name) && !topo_word(&c, &more) &&
	       ((*kind.p >= 'A' && *kind.p <= 'Z') || (*kind.p >= 'a' && *kind.p <= 'z')) &&
	       !memchr(kind.p, ':', kind.len) && !memchr(kind.p, '"', kind.len) &&
	       !memchr(name.p, '"', name.len);
}

const struct topo_format topo_ibdm = { ibdm_is, ibdm_line, topo_list_build };
