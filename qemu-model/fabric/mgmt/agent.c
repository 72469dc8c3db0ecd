// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Callbacks of the agents of a node (ib/sma.h, ib/pma_agent.h). A Set of an interned table
 * changes a copy, which becomes another table when the Set is complete.
 */
#include "mgmt.h"

#include <stdlib.h>
#include <string.h>

#include "ib/mad_packet.h"
#include "ib/mlnx.h"

/* LRH, BTH, DETH, MAD and ICRC, in words of 4 bytes. */
#define MAD_WORDS	(IB_MAD_PKT_LEN / 4)

static struct fab_node *agent_node(struct fab_mgmt *m)
{
	return &m->f->node[m->job.node];
}

static struct fab_port *agent_port_of(struct fab_mgmt *m, unsigned int num)
{
	return &m->f->port[fab_port_of(agent_node(m), num)];
}

static struct fab_pool *pkey_pool(struct fab_mgmt *m)
{
	return agent_node(m)->sw != FAB_NONE ? &m->f->sw_pkeys : &m->f->ca_pkeys;
}

/* The rare part of end port @p, or the spare one in its place. */
static struct fab_extra *agent_end_of(struct fab_mgmt *m, uint32_t p)
{
	if (m->job.end && m->job.end->port == p)
		return m->job.end;
	fab_agent_end(m);
	m->job.end = fab_extra_of(m->f, p);
	if (!m->job.end) {
		fab_extra_init(&m->job.spare, m->f, p);
		m->job.end = &m->job.spare;
	}
	return m->job.end;
}

static void agent_port(void *ctx, unsigned int num, struct ib_sma_port *v)
{
	struct fab_mgmt *m = ctx;
	const bool is_switch = agent_node(m)->sw != FAB_NONE;
	struct fab_port *p = agent_port_of(m, num);
	struct fab_extra *x;

	memset(v, 0, sizeof(*v));
	v->pi = &p->pi;
	v->link_due = &m->job.link_due;
	v->num_pkeys = is_switch ? m->f->sw_num_pkeys : m->f->ca_num_pkeys;
	/* a Get reads the shared tables, a Set writes copies */
	v->pkey = (uint16_t *)fab_pool_at(pkey_pool(m), p->pkeys);
	v->arb = (struct ib_vlarb *)fab_pool_at(&m->f->vlarb, p->vlarb);
	if (m->job.is_set) {
		memcpy(m->job.pkeys, v->pkey, pkey_pool(m)->size);
		m->job.arb = *v->arb;
		v->pkey = m->job.pkeys;
		v->arb = &m->job.arb;
		m->job.due_port = fab_port_of(agent_node(m), num);
	}
	if (is_switch && num)
		return;
	x = agent_end_of(m, fab_port_of(agent_node(m), num));
	v->guid = x->guid;
	v->num_guids = IB_GUIDS_PER_BLOCK;
	v->end = &x->end;
}

/* Index of the table: of a switch by input and output port, of any other node the port's. */
static uint32_t *sl2vl_index(struct fab_mgmt *m, unsigned int in, unsigned int out)
{
	const struct fab_node *n = agent_node(m);

	if (n->sw != FAB_NONE && m->f->sw[n->sw].sl2vl)
		return &m->f->sw[n->sw].sl2vl[in * (n->nports + 1u) + out];
	return &agent_port_of(m, out)->sl2vl;
}

static struct ib_sl2vl *agent_sl2vl(void *ctx, unsigned int in, unsigned int out)
{
	struct fab_mgmt *m = ctx;

	m->job.sl2vl_in = in;
	m->job.sl2vl_out = out;
	/* a Set of all tables is answered with what it writes: any table will do */
	if (in == IB_SMA_ALL_PORTS)
		in = 0;
	if (out == IB_SMA_ALL_PORTS)
		out = 0;
	memcpy(&m->job.sl2vl, fab_pool_at(&m->f->sl2vl, *sl2vl_index(m, in, out)),
	       sizeof(m->job.sl2vl));
	return &m->job.sl2vl;
}

/*
 * A switch gets a table for each input port before a Set for one; before, those of the output ports
 * count.
 */
static bool own_sl2vl(struct fab_mgmt *m)
{
	const struct fab_node *n = agent_node(m);

	if (n->sw == FAB_NONE || fab_own_sl2vl(m->f, n))
		return true;
	m->job.starved = true;
	return false;
}

/*
 * Replace the table at @index by one that equals @v. Return: false: out of memory; nothing changes.
 */
static bool replace_table(struct fab_pool *pool, uint32_t *index, const void *v)
{
	uint32_t i = fab_pool_get(pool, v);

	if (i == FAB_NONE)
		return false;
	fab_pool_put(pool, *index);
	*index = i;
	return true;
}

/* replace_table() for a Set. */
static void set_table(struct fab_mgmt *m, struct fab_pool *pool, uint32_t *index, const void *v)
{
	if (!replace_table(pool, index, v))
		m->job.starved = true;
}

/* Set the table that was written for output port @num. */
static void set_sl2vl(struct fab_mgmt *m, unsigned int num)
{
	const struct fab_node *n = agent_node(m);
	uint32_t *t = n->sw != FAB_NONE ? m->f->sw[n->sw].sl2vl : NULL;
	struct fab_port *p = agent_port_of(m, num);

	p->sl2vl_set = 1;
	if (n->sw != FAB_NONE && m->job.sl2vl_in != IB_SMA_ALL_PORTS) {
		set_table(m, &m->f->sl2vl, sl2vl_index(m, m->job.sl2vl_in, num), &m->job.sl2vl);
		return;
	}
	set_table(m, &m->f->sl2vl, &p->sl2vl, &m->job.sl2vl);
	for (unsigned int in = 0; t && in <= n->nports; in++)
		set_table(m, &m->f->sl2vl, sl2vl_index(m, in, num), &m->job.sl2vl);
}

/* A Set of SLtoVLMappingTables is complete. */
static void sl2vl_written(struct fab_mgmt *m)
{
	const struct fab_node *n = agent_node(m);
	const bool all_in = m->job.sl2vl_in == IB_SMA_ALL_PORTS;

	if (m->job.sl2vl_out != IB_SMA_ALL_PORTS) {
		if (all_in || own_sl2vl(m))
			set_sl2vl(m, m->job.sl2vl_out);
		return;
	}
	if (all_in)
		fab_drop_sl2vl(m->f, n);
	else if (!own_sl2vl(m))
		return;
	for (unsigned int num = 0; num <= n->nports; num++)
		set_sl2vl(m, num);
}

bool fab_fold_sl2vl(struct fab_mgmt *m, uint32_t p, unsigned int vls)
{
	struct fab_pool *pool = &m->f->sl2vl;
	struct fab_port *port = &m->f->port[p];
	const unsigned int num = fab_port_num(m->f, p);
	const struct fab_node *n = &m->f->node[port->node];
	const unsigned int dim = n->nports + 1u;
	struct ib_sl2vl map;
	uint32_t *t;

	if (port->sl2vl_set)
		return true;
	ib_sl2vl_init(&map, vls);
	if (!replace_table(pool, &port->sl2vl, &map))
		return false;
	/* cannot fail: the table exists now, and further references need no memory */
	t = n->sw != FAB_NONE ? m->f->sw[n->sw].sl2vl : NULL;
	for (unsigned int in = 0; t && in < dim; in++)
		replace_table(pool, &t[in * dim + num], &map);
	return true;
}

static void agent_changed(void *ctx, unsigned int num, uint32_t what)
{
	struct fab_mgmt *m = ctx;
	struct fab_port *p = agent_port_of(m, num);

	/* when a pool grows, the P_Key tables of all ports move */
	if (what & IB_SMA_CH_PKEYS)
		m->epoch++;
	else
		fab_changed(m, fab_port_of(agent_node(m), num));
	if (what & IB_SMA_CH_SWITCH)
		fab_lft_changed(m->f, &m->f->sw[agent_node(m)->sw]);
	if (what & IB_SMA_CH_PKEYS)
		set_table(m, pkey_pool(m), &p->pkeys, m->job.pkeys);
	if (what & (IB_SMA_CH_VLARB | IB_PI_EFF_VLARB))
		set_table(m, &m->f->vlarb, &p->vlarb, &m->job.arb);
	if (what & IB_SMA_CH_SL2VL)
		sl2vl_written(m);
	if ((what & IB_SMA_CH_GUIDS) && m->job.end == &m->job.spare) {
		struct fab_extra *x = fab_extra(m->f, m->job.spare.port);

		if (x)
			memcpy(x->guid, m->job.spare.guid, sizeof(x->guid));
		else
			m->job.starved = true;
	}
}

static void agent_send_trap(void *ctx, unsigned int num, const struct ib_smp *trap)
{
	struct fab_mgmt *m = ctx;
	const struct fab_node *n = agent_node(m);
	const struct ib_port_info *pi = &agent_port_of(m, num)->pi;
	struct fab_mad mad = { .smp = *trap, .dlid = pi->sm_lid, .slid = pi->lid, .sl = pi->sm_sl };
	unsigned int out = n->sw != FAB_NONE ? fab_route(m->f, n, pi->sm_lid) : num;
	const struct fab_job was = m->job;

	m->stats.traps++;
	if (!out || out > n->nports)
		return;
	/* agents of other nodes use @m->job while the trap is on its way */
	m->job = (struct fab_job){ .node = was.node };
	if (n->sw == FAB_NONE && fab_own_lid(agent_port_of(m, num), mad.dlid)) {
		fab_mgmt_local(m, fab_port_of(n, num), &mad);
	} else {
		fab_agent_xmit(m, n);
		fab_forward(m, fab_port_of(n, out), &mad);
	}
	m->job = was;
}

/* Allocate blocks up to @block, and up to LinearFDBTop. Return: false if out of memory. */
static bool grow_lft(struct fab_switch *sw, unsigned int block)
{
	unsigned int want = sw->si.linear_top / IB_LFT_PER_BLOCK;
	uint8_t *grown;

	if (want < block)
		want = block;
	want++;
	grown = realloc(sw->lft, want * IB_LFT_PER_BLOCK);
	if (!grown)
		return false;
	memset(grown + sw->lft_blocks * IB_LFT_PER_BLOCK, IB_LFT_NO_PORT,
	       (want - sw->lft_blocks) * IB_LFT_PER_BLOCK);
	sw->lft = grown;
	sw->lft_blocks = (uint16_t)want;
	return true;
}

static uint8_t *agent_lft(void *ctx, unsigned int block)
{
	struct fab_mgmt *m = ctx;
	struct fab_switch *sw = &m->f->sw[agent_node(m)->sw];

	if (block < sw->lft_blocks || (m->job.is_set && grow_lft(sw, block)))
		return sw->lft + block * IB_LFT_PER_BLOCK;
	m->job.starved |= m->job.is_set;
	memset(m->job.lft, IB_LFT_NO_PORT, sizeof(m->job.lft));
	return m->job.lft;
}

static uint16_t *agent_mft(void *ctx, unsigned int entry, unsigned int pos)
{
	struct fab_mgmt *m = ctx;
	struct fab_switch *sw = &m->f->sw[agent_node(m)->sw];
	unsigned int block = entry / IB_MFT_PER_BLOCK;

	if (m->job.is_set && !sw->mft)
		sw->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*sw->mft));
	if (m->job.is_set && sw->mft && !sw->mft[block])
		sw->mft[block] = calloc(IB_MFT_PER_BLOCK * sw->mft_positions, sizeof(**sw->mft));
	if (sw->mft && sw->mft[block])
		return &sw->mft[block][entry % IB_MFT_PER_BLOCK * sw->mft_positions + pos];
	m->job.starved |= m->job.is_set;
	m->job.mft = 0;
	return &m->job.mft;
}

static const struct ib_sma_ops agent_ops = {
	.port = agent_port,
	.sl2vl = agent_sl2vl,
	.changed = agent_changed,
	.send_trap = agent_send_trap,
	.lft = agent_lft,
	.mft = agent_mft,
};

const struct ib_sma *fab_agent_begin(struct fab_mgmt *m, uint32_t node, bool is_set)
{
	const struct fab_node *n = &m->f->node[node];

	m->job.node = node;
	m->job.is_set = is_set;
	m->job.sma = (struct ib_sma){
		.ops = &agent_ops,
		.ctx = m,
		.sys_guid = n->sys_guid,
		.node_guid = fab_claimed_guid(m->f, node),
		.vendor_id = n->vendor_id,
		.revision = 1,
		.device_id = n->device_id,
		.num_ports = n->nports,
		.type = n->type,
		.desc = m->f->desc[node].text,
		.si = n->sw != FAB_NONE ? &m->f->sw[n->sw].si : NULL,
	};
	return &m->job.sma;
}

void fab_agent_end(struct fab_mgmt *m)
{
	const struct fab_extra *spare = &m->job.spare;
	struct fab_extra *x = m->job.end;

	m->job.end = NULL;
	if (!x)
		return;
	if (x == spare) {
		if (ib_sma_end_deadline(&x->end) == UINT64_MAX)
			return;
		x = fab_extra(m->f, spare->port);
		if (!x)
			return;
		x->end = spare->end;
		x->end.traps.t = x->trap;
		memcpy(x->trap, spare->trap, sizeof(x->trap));
	}
	fab_wait(m, x);
}

/* ---- counters ------------------------------------------------------------------ */

void fab_counters(const struct fab_mgmt *m, uint32_t port, struct ohca_port_counters *c)
{
	const struct fab_port *p = &m->f->port[port];
	const struct fab_extra *x = fab_extra_of(m->f, port);

	if (m->wires)
		m->wires->count(m->wires_ctx, port);
	if (x)
		*c = x->ctr;
	else
		memset(c, 0, sizeof(*c));
	c->rcv_pkts += p->rcv_mads;
	c->ucast_rcv_pkts += p->rcv_mads;
	c->rcv_data += MAD_WORDS * p->rcv_mads;
	c->rcv_data_sl[0] += MAD_WORDS * p->rcv_mads;
	c->xmit_pkts += p->xmit_mads;
	c->ucast_xmit_pkts += p->xmit_mads;
	c->xmit_data += MAD_WORDS * p->xmit_mads;
	c->xmit_data_sl[0] += MAD_WORDS * p->xmit_mads;
}

/*
 * Keep what a Set has written to the spare performance state for the port. A reset of counters that
 * were 0 changes nothing, and needs no memory.
 */
static void pma_keep(struct fab_mgmt *m)
{
	static const struct ib_pma_port none;
	const uint32_t p = m->job.fresh_port;

	m->job.fresh_port = FAB_NO_PORT;
	m->job.fresh.ctr = NULL;
	if (p == FAB_NO_PORT || !memcmp(&m->job.fresh, &none, sizeof(none)))
		return;
	if (!fab_keep_bases(m->f, p, &m->job.fresh))
		m->job.starved = true;
}

/* The agent is done with a port's counters before it asks for the next port. */
static struct ib_pma_port *pma_port(void *ctx, unsigned int num)
{
	struct fab_mgmt *m = ctx;
	const uint32_t index = fab_port_of(agent_node(m), num);
	struct fab_extra *x;
	struct ib_pma_port *v;

	pma_keep(m);
	x = fab_extra_of(m->f, index);
	v = x ? &x->pma : &m->job.fresh;
	m->job.fresh_port = x || !m->job.is_set ? FAB_NO_PORT : index;
	if (!x)
		fab_bases(m->f, index, v);
	fab_counters(m, index, &m->job.shown);
	v->stuck = x ? x->stuck : 0;
	v->ctr = &m->job.shown;
	return v;
}

bool fab_mlnx(const struct fab_mgmt *m, uint32_t node, struct ib_mad *mad)
{
	const struct fab_node *n = &m->f->node[node];
	const struct ib_mlnx_info info = {
		.device_id = n->device_id,
		.uptime = (uint32_t)(m->now_ns / 1000000000u),
		.psid = "OHCA_FABRIC",
	};

	return mad->hdr.mgmt_class == IB_CLASS_MLNX && ib_mlnx_ids(n->vendor_id, n->device_id) &&
	       ib_mlnx_process(&info, mad);
}

bool fab_pma(struct fab_mgmt *m, uint32_t node, struct ib_mad *mad)
{
	struct fab_node *n = &m->f->node[node];
	const unsigned int first = fab_first_num(n);
	struct ib_pma fresh = {
		.port = pma_port,
		.ctx = m,
		.nports = n->nports + 1u - first,
		.first_port = first,
		.resp_time = 8,
	};
	enum ib_pma_verdict v;

	m->job.node = node;
	m->job.is_set = mad->hdr.method == IB_METHOD_SET;
	m->job.starved = false;
	if (m->job.is_set && ib_be16(mad->hdr.attr_id) == IB_PMA_ATTR_SAMPLES_CONTROL && !n->pma) {
		n->pma = malloc(sizeof(*n->pma));
		if (!n->pma)
			return false;
		*n->pma = (struct fab_pma){ .agent = fresh, .node = node };
	}
	m->job.fresh_port = FAB_NO_PORT;
	v = ib_pma_process(n->pma ? &n->pma->agent : &fresh, mad, mad, m->now_ns);
	pma_keep(m);
	if (v != IB_PMA_REPLY || m->job.starved)
		return false;
	if (n->pma)
		fab_wait_samples(m, n->pma);
	return true;
}
