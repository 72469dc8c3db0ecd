/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of all ports of a fabric, to find those that bad input has changed. */
#ifndef BAD_STATE_H
#define BAD_STATE_H

#include "bad.h"

#include "fabric/fault/fault.h"

/* struct port_state - a port from a manager's view; for port 0 also the state of its switch */
struct port_state {
	struct ib_port_info pi;
	uint64_t guid;
	uint64_t guids[IB_GUIDS_PER_BLOCK];
	uint16_t pkeys[FAB_CA_PKEYS];
	struct ib_sl2vl sl2vl;
	struct ib_vlarb vlarb;
	struct ib_switch_info si;
	uint8_t lft[IB_LFT_PER_BLOCK];
	uint16_t mft[IB_MFT_PER_BLOCK];
	bool off, unplugged;
	struct fab_limit limit;
	uint32_t loss, corrupt;
	uint64_t delay_ns;
};

static inline void port_state(const struct fab *f, uint32_t p, struct port_state *s)
{
	const struct fab_port *port = &f->port[p];
	const struct fab_node *n = &f->node[port->node];
	const struct fab_extra *x = fab_extra_of(f, p);
	const struct fab_switch *sw = n->sw != FAB_NONE ? &f->sw[n->sw] : NULL;
	const uint32_t sl2vl = sw && sw->sl2vl ? sw->sl2vl[fab_port_num(f, p)] : port->sl2vl;

	memset(s, 0, sizeof(*s));
	memcpy(&s->pi, &port->pi, sizeof(s->pi));
	s->guid = port->guid;
	s->guids[0] = port->guid;
	memcpy(s->pkeys, fab_pool_at(sw ? &f->sw_pkeys : &f->ca_pkeys, port->pkeys),
	       sizeof(s->pkeys));
	memcpy(&s->sl2vl, fab_pool_at(&f->sl2vl, sl2vl), sizeof(s->sl2vl));
	memcpy(&s->vlarb, fab_pool_at(&f->vlarb, port->vlarb), sizeof(s->vlarb));
	s->off = n->off;
	s->limit = fab_limit_of(f, p);
	if (x) {
		memcpy(s->guids, x->guid, sizeof(s->guids));
		s->unplugged = x->unplugged;
		s->loss = x->fault ? x->fault->loss : 0;
		s->corrupt = x->fault ? x->fault->corrupt : 0;
		s->delay_ns = x->fault ? x->fault->delay_ns : 0;
	}
	memset(s->lft, IB_LFT_NO_PORT, sizeof(s->lft));
	if (!sw || p != fab_port_of(n, 0))
		return;
	memcpy(&s->si, &sw->si, sizeof(s->si));
	if (sw->lft_blocks)
		memcpy(s->lft, sw->lft, sizeof(s->lft));
	for (unsigned int i = 0; sw->mft && sw->mft[0] && i < IB_MFT_PER_BLOCK; i++)
		s->mft[i] = sw->mft[0][i * sw->mft_positions];
}

/* Return: the state of all ports; the caller frees it. */
static inline struct port_state *state_of(const struct fab *f)
{
	struct port_state *s = calloc(f->ports, sizeof(*s));

	assert_non_null(s);
	for (uint32_t p = 1; p < f->ports; p++)
		port_state(f, p, &s[p]);
	return s;
}

/* Return: whether port @p differs from its state in @was. */
static inline bool has_changed(const struct fab *f, const struct port_state *was, uint32_t p)
{
	struct port_state s;

	port_state(f, p, &s);
	return memcmp(&s, &was[p], sizeof(s));
}

/* Return: the first port that has changed, or FAB_NO_PORT. */
static inline uint32_t first_change(const struct fab *f, const struct port_state *was)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (has_changed(f, was, p))
			return p;
	return FAB_NO_PORT;
}

/* Return: whether port @p is one of @node's, or the other end of one of its cables. */
static inline bool is_near(const struct fab *f, uint32_t p, uint32_t node)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	if (f->port[p].node == node)
		return true;
	/* port 0 of such a switch shows the change of one of its ports */
	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t peer = f->port[fab_port_of(n, i)].peer;

		if (peer != FAB_NO_PORT && f->port[peer].node == node &&
		    (p == fab_port_of(n, i) || p == fab_port_of(n, 0)))
			return true;
	}
	return false;
}

/* Return: whether only @node, and ports at the other ends of its cables, have changed. */
static inline bool only_near(const struct fab *f, const struct port_state *was, uint32_t node)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (has_changed(f, was, p) && !is_near(f, p, node))
			return false;
	return true;
}

#endif
