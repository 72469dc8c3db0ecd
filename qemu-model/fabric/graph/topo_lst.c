// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Lists of links as ibdiagnet (ibdiagnet2.lst) and OpenSM (opensm-subnet.lst) write them, a line
 * for each cable or each of its ends; numbers are hexadecimal:
 *	{ SW Ports:24 SystemGUID:.. NodeGUID:.. PortGUID:.. VenID:0002C9 DevID:C738 Rev:000000A1
 *	{leaf} LID:0005 PN:01 } { CA-SM .. } PHY=4x LOG=ACT SPD=25
 */
#include "topo_file.h"

#include <string.h>

#include "ib/packet.h"

static uint8_t lst_kind(const struct topo_name *w)
{
	struct topo_name k = *w;

	/* -SM: a subnet manager runs there */
	if (k.len > 3 && !memcmp(k.p + k.len - 3, "-SM", 3))
		k.len -= 3;
	return topo_is(&k, "SW") ? IB_NODE_SWITCH_DEVICE :
	       topo_is(&k, "CA") ? IB_NODE_CHANNEL_ADAPTER :
	       topo_is(&k, "Rt") || topo_is(&k, "RT") ? IB_NODE_ROUTER_DEVICE : 0;
}

/* Parse NAME:VALUE, hexadecimal */
static bool lst_field(struct topo_cur *c, const char *name, uint64_t max, uint64_t *v)
{
	topo_skip_space(c);
	return topo_take_word(c, name) && topo_hex(c, max, v);
}

/* Parse {DESCRIPTION}, which may contain braces, or nothing; LID: follows */
static bool lst_name(struct topo_cur *c, struct topo_name *n)
{
	topo_skip_space(c);
	if (!topo_take(c, '{'))
		return true;
	n->p = c->p;
	for (; c->p < c->end; c->p++) {
		struct topo_cur behind = { c->p + 1, c->end };

		if (*c->p != '}')
			continue;
		topo_skip_space(&behind);
		if (!topo_starts(&behind, "LID:"))
			continue;
		n->len = (uint32_t)(c->p - n->p);
		*c = behind;
		return true;
	}
	return false;
}

/* Parse the contents of braces. Return: false: not valid. */
static bool lst_end(struct topo_cur *c, struct topo_end *e)
{
	uint64_t nports, vendor, device, rev, lid, num;
	const char *digits;
	struct topo_name w;

	topo_skip_space(c);
	if (!topo_take(c, '{') || !topo_word(c, &w))
		return false;
	e->type = lst_kind(&w);
	if (!e->type || !lst_field(c, "Ports:", FAB_MAX_NODE_PORTS, &nports) ||
	    !lst_field(c, "SystemGUID:", UINT64_MAX, &e->sys_guid) ||
	    !lst_field(c, "NodeGUID:", UINT64_MAX, &e->guid) || !e->guid ||
	    !lst_field(c, "PortGUID:", UINT64_MAX, &e->port_guid) ||
	    !lst_field(c, "VenID:", UINT32_MAX, &vendor))
		return false;
	topo_skip_space(c);
	digits = c->p;
	if (!lst_field(c, "DevID:", UINT32_MAX, &device))
		return false;
	/* for the second end OpenSM writes 16 bits and four zeros behind them */
	if (c->p - digits == 8 + (ptrdiff_t)strlen("DevID:"))
		device >>= 16;
	if (device > 0xffff || !lst_field(c, "Rev:", UINT32_MAX, &rev) || !lst_name(c, &e->name) ||
	    !lst_field(c, "LID:", IB_LID_UCAST_MAX, &lid) ||
	    !lst_field(c, "PN:", FAB_MAX_NODE_PORTS, &num) || !num)
		return false;
	topo_skip_space(c);
	e->key = e->guid;
	e->nports = (uint8_t)nports;
	e->has_ids = true;
	e->vendor_id = (uint32_t)vendor & 0xffffff;
	e->device_id = (uint16_t)device;
	e->lid = (uint16_t)lid;
	e->num = (uint8_t)num;
	return topo_take(c, '}');
}

/* Parse NAME=VALUE */
static bool lst_word(struct topo_cur *c, const char *name, struct topo_name *n)
{
	topo_skip_space(c);
	return topo_take_word(c, name) && topo_word(c, n);
}

static void lst_line(struct topo *t, struct topo_cur *c)
{
	struct topo_name width, state, speed = { "2.5", 3 };
	struct topo_end a = { 0 }, b = { 0 };

	if (!lst_end(c, &a) || !lst_end(c, &b) || !lst_word(c, "PHY=", &width) ||
	    !lst_word(c, "LOG=", &state)) {
		topo_error(t, t->line, "not understood: a line is { END } { END } PHY=WIDTH "
			   "LOG=STATE SPD=SPEED, an END KIND Ports: SystemGUID: NodeGUID: "
			   "PortGUID: VenID: DevID: Rev: {NAME} LID: PN:");
		return;
	}
	topo_skip_space(c);
	if (c->p < c->end)
		lst_word(c, "SPD=", &speed);
	a.rate = topo_rate_by_speed(&width, &speed);
	b.rate = a.rate;
	if (!a.rate) {
		topo_error(t, t->line, "PHY=%.*s SPD=%.*s is no rate that is known", (int)width.len,
			   width.p, (int)speed.len, speed.p);
		return;
	}
	if (topo_is(&state, "DWN")) {
		topo_list_end(t, &a);
		topo_list_end(t, &b);
		return;
	}
	topo_list_cable(t, &a, &b);
}

static bool lst_is(struct topo_cur c)
{
	struct topo_name w;

	return topo_take(&c, '{') && topo_word(&c, &w) && lst_kind(&w);
}

const struct topo_format topo_lst = { lst_is, lst_line, topo_list_build };
