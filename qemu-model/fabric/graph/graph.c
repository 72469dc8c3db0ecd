// SPDX-License-Identifier: GPL-2.0-or-later
/* Nodes, ports and cables; see graph.h. */
#include "adaptive.h"
#include "names.h"
#include "subnet.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "ib/packet.h"
#include "ib/rate.h"

/* The same as those of our switch and HCA. */
#define SW_VENDOR	0x525400u
#define SW_DEVICE	0x0ca8u
#define CA_DEVICE	0x0ca0u
#define CA_CAPS		(IB_CAP_NOTICE | IB_CAP_TRAP | IB_CAP_SL_MAP | IB_CAP_SYS_IMAGE_GUID | \
			 IB_CAP_DR_NOTICE | IB_CAP_CAP_MASK_NOTICE | IB_CAP_CLIENT_REREG | \
			 IB_CAP_OTHER_LOCAL_CHANGES)

struct fab *fab_new(void)
{
	struct fab *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	fab_pool_init(&f->ca_pkeys, FAB_CA_PKEYS * sizeof(uint16_t));
	fab_pool_init(&f->sw_pkeys, FAB_SW_PKEYS * sizeof(uint16_t));
	fab_pool_init(&f->sl2vl, sizeof(struct ib_sl2vl));
	fab_pool_init(&f->vlarb, sizeof(struct ib_vlarb));
	f->ports = 1;
	f->extras = 1;
	f->vls = FAB_DATA_VLS;
	f->mtu = IB_MTU_CODE_4096;
	f->ca_num_pkeys = FAB_CA_PKEYS;
	f->sw_num_pkeys = FAB_SW_PKEYS;
	return f;
}

static void free_switch(struct fab_switch *sw)
{
	for (unsigned int i = 0; sw->mft && i < FAB_MFT_CAP / IB_MFT_PER_BLOCK; i++)
		free(sw->mft[i]);
	free(sw->mft);
	free(sw->lft);
	free(sw->sl2vl);
	free(sw->lids);
	fab_adaptive_free(sw);
}

void fab_free(struct fab *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->switches; i++)
		free_switch(&f->sw[i]);
	fab_free_cc(f);
	free(f->turns);
	for (uint32_t i = 0; i < f->nodes; i++)
		free(f->node[i].pma);
	for (uint32_t i = 1; i < f->extras; i++) {
		free(f->extra[i]->fault);
		free(f->extra[i]);
	}
	free(f->extra);
	free(f->bases);
	free(f->node);
	free(f->desc);
	free(f->port);
	free(f->sw);
	fab_hash_free(&f->by_guid);
	fab_hash_free(&f->by_desc);
	fab_hash_free(&f->by_port_guid);
	fab_pool_free(&f->ca_pkeys);
	fab_pool_free(&f->sw_pkeys);
	fab_pool_free(&f->sl2vl);
	fab_pool_free(&f->vlarb);
	free(f);
}

/* Make room for @want entries of @size bytes in the array *@p. Return: false if out of memory. */
static bool graph_room(void *p, uint32_t *cap, uint32_t want, size_t size)
{
	uint32_t n = *cap ? *cap : 64;
	void *old, *grown;

	if (want <= *cap)
		return true;
	while (n < want)
		n += n / 2;
	memcpy(&old, p, sizeof(old));
	grown = realloc(old, n * size);
	if (!grown)
		return false;
	memcpy(p, &grown, sizeof(grown));
	*cap = n;
	return true;
}

static bool room_for_node(struct fab *f, uint32_t nports, bool is_switch)
{
	uint32_t cap = f->nodes_cap;

	return graph_room(&f->port, &f->ports_cap, f->ports + nports, sizeof(*f->port)) &&
	       (!is_switch ||
		graph_room(&f->sw, &f->switches_cap, f->switches + 1, sizeof(*f->sw))) &&
	       graph_room(&f->desc, &cap, f->nodes + 1, sizeof(*f->desc)) &&
	       graph_room(&f->node, &f->nodes_cap, f->nodes + 1, sizeof(*f->node));
}

static void init_switch(const struct fab *f, struct fab_switch *sw, unsigned int nports,
			bool base_port0)
{
	*sw = (struct fab_switch){
		.mft_positions = (uint8_t)(nports / IB_MFT_PORTS_PER_MASK + 1),
	};
	ib_switch_info_init(&sw->si, FAB_LFT_CAP, FAB_MFT_CAP, f->sw_num_pkeys, !base_port0);
}

uint32_t fab_add_node(struct fab *f, enum ib_node_type type, unsigned int nports, uint64_t guid,
		      const char *desc, size_t len)
{
	const bool is_switch = type == IB_NODE_SWITCH_DEVICE;
	const unsigned int first = is_switch ? 0 : 1, count = nports + 1 - first;
	struct fab_port *p;

	guid ^= (uint64_t)f->site << 32;
	if (!nports || nports > FAB_MAX_NODE_PORTS || f->nodes >= FAB_MAX_NODES ||
	    f->ports + count > FAB_MAX_PORTS || fab_find_guid(f, guid) != FAB_NONE ||
	    !room_for_node(f, count, is_switch) ||
	    !fab_hash_add(&f->by_guid, fab_hash_u64(guid), f->nodes))
		return FAB_NONE;
	f->node[f->nodes] = (struct fab_node){
		.guid = guid,
		.sys_guid = guid,
		.first = f->ports - first,
		.sw = is_switch ? f->switches : FAB_NONE,
		.vendor_id = SW_VENDOR,
		.device_id = is_switch ? SW_DEVICE : CA_DEVICE,
		.type = (uint8_t)type,
		.nports = (uint8_t)nports,
	};
	memset(&f->desc[f->nodes], 0, sizeof(*f->desc));
	memcpy(f->desc[f->nodes].text, desc, len < FAB_DESC_LEN ? len : FAB_DESC_LEN);
	p = &f->port[f->ports];
	memset(p, 0, count * sizeof(*p));
	for (unsigned int i = 0; i < count; i++) {
		p[i].node = f->nodes;
		if (!is_switch || !i)
			p[i].guid = guid + i + first;
	}
	f->ports += count;
	if (is_switch)
		init_switch(f, &f->sw[f->switches++], nports, false);
	return f->nodes++;
}

void fab_cable(struct fab *f, uint32_t a, uint32_t b)
{
	f->port[a].peer = b;
	f->port[b].peer = a;
}

uint8_t fab_vl_code(unsigned int vls)
{
	for (uint8_t c = 5; c > 1; c--)
		if (ib_opvls_count(c) <= vls)
			return c;
	return 1;
}

/* ---- sealing ------------------------------------------------------------------- */

/* Indices of the initial tables of every port. */
struct defaults {
	uint32_t ca_pkeys, sw_pkeys, sl2vl, vlarb;
};

/* Get one reference to each, which is kept, so that they stay. */
static bool get_defaults(struct fab *f, struct defaults *d)
{
	uint16_t pkeys[FAB_SW_PKEYS] = { IB_DEFAULT_PKEY };
	struct ib_sl2vl sl2vl;
	struct ib_vlarb arb;

	memset(&arb, 0, sizeof(arb));
	ib_vlarb_init(&arb, FAB_VLARB_CAP, f->vls);
	ib_sl2vl_init(&sl2vl, f->vls);
	d->ca_pkeys = fab_pool_get(&f->ca_pkeys, pkeys);
	d->sw_pkeys = fab_pool_get(&f->sw_pkeys, pkeys);
	d->sl2vl = fab_pool_get(&f->sl2vl, &sl2vl);
	d->vlarb = fab_pool_get(&f->vlarb, &arb);
	return d->ca_pkeys != FAB_NONE && d->sw_pkeys != FAB_NONE && d->sl2vl != FAB_NONE &&
	       d->vlarb != FAB_NONE;
}

static void put_defaults(struct fab *f, const struct defaults *d)
{
	fab_pool_put(&f->ca_pkeys, d->ca_pkeys);
	fab_pool_put(&f->sw_pkeys, d->sw_pkeys);
	fab_pool_put(&f->sl2vl, d->sl2vl);
	fab_pool_put(&f->vlarb, d->vlarb);
}

static void init_port(struct fab *f, struct fab_port *p, unsigned int num,
		      const struct ib_port_profile *node_prof, const struct defaults *d)
{
	const bool sw = f->node[p->node].type == IB_NODE_SWITCH_DEVICE;
	enum ib_pi_kind kind = !sw ? IB_PI_CA : num ? IB_PI_SWITCH_EXT : IB_PI_SWITCH_PORT0;
	struct ib_port_profile prof = *node_prof;
	const uint16_t lid = p->pi.lid;
	const uint8_t lmc = p->pi.lmc;

	if (p->pi.width_supported)
		prof.width = p->pi.width_supported;
	if (p->pi.speed_supported) {
		prof.speed = p->pi.speed_supported;
		prof.speed_ext = p->pi.speed_ext_supported;
	}
	prof.cap_mask = sw ? IB_CAPS_SWITCH : CA_CAPS;
	prof.guid_cap = IB_GUIDS_PER_BLOCK;
	ib_port_info_init(&p->pi, &prof, (uint8_t)num, kind);
	p->pi.lid = lid;
	p->pi.lmc = lmc;
	p->pkeys = sw ? d->sw_pkeys : d->ca_pkeys;
	fab_pool_ref(sw ? &f->sw_pkeys : &f->ca_pkeys, p->pkeys);
	p->sl2vl = d->sl2vl;
	fab_pool_ref(&f->sl2vl, p->sl2vl);
	p->vlarb = d->vlarb;
	fab_pool_ref(&f->vlarb, p->vlarb);
}

static void init_node(struct fab *f, const struct fab_node *n, const struct defaults *d)
{
	struct ib_port_profile prof = {
		.mtu_cap = f->mtu,
		.vl_cap = fab_vl_code(f->vls),
		.vlarb_cap = FAB_VLARB_CAP,
	};

	for (unsigned int i = fab_first_num(n); i <= n->nports; i++) {
		const struct ib_port_info *pi = &f->port[fab_port_of(n, i)].pi;

		prof.width |= pi->width_supported;
		prof.speed |= pi->speed_supported;
		prof.speed_ext |= pi->speed_ext_supported;
	}
	if (!prof.width)
		prof.width = IB_WIDTH_1X | IB_WIDTH_4X;
	if (!prof.speed) {
		prof.speed = IB_SPEED_SDR | IB_SPEED_DDR | IB_SPEED_QDR;
		prof.speed_ext = IB_SPEED_EXT_FDR | IB_SPEED_EXT_EDR;
	}
	for (unsigned int i = fab_first_num(n); i <= n->nports; i++)
		init_port(f, &f->port[fab_port_of(n, i)], i, &prof, d);
}

static bool negotiate(struct fab_port *p, const struct fab_port *q, struct fab_limit at_most)
{
	const uint8_t ext = q->pi.speed_ext_enabled == IB_SPEED_EXT_DISABLE ?
			    0 : q->pi.speed_ext_enabled;

	return !ib_port_negotiate(&p->pi, q->pi.width_enabled & at_most.width,
				  q->pi.speed_enabled & at_most.speed, ext & at_most.speed_ext,
				  q->pi.mtu_cap, q->pi.vl_cap);
}

/* Whether port @p is in use, so that its link can come up. */
static bool is_on(const struct fab *f, uint32_t p)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	return !n->off && (!n->empty || fab_outside(f, p));
}

bool fab_may_train(const struct fab *f, uint32_t p)
{
	const uint32_t peer = f->port[p].peer;
	const struct fab_extra *x = fab_extra_of(f, p);

	return peer != FAB_NO_PORT && !(x && x->unplugged) && is_on(f, p) && is_on(f, peer);
}

bool fab_link_up(struct fab *f, uint32_t p)
{
	struct fab_port *a = &f->port[p], *b = &f->port[a->peer];
	const struct fab_limit at_most = fab_limit_of(f, p);

	if (fab_outside(f, p) || !fab_may_train(f, p) || a->pi.phys_state == IB_PHYS_DISABLED ||
	    b->pi.phys_state == IB_PHYS_DISABLED)
		return false;
	/* a port that sleeps answers one that polls (5.7), but two sleeping ports do not train */
	if (a->pi.phys_state == IB_PHYS_SLEEP && b->pi.phys_state == IB_PHYS_SLEEP)
		return false;
	if (!negotiate(a, b, at_most) || !negotiate(b, a, at_most))
		return false;
	ib_port_link_up(&a->pi);
	ib_port_link_up(&b->pi);
	return true;
}

void fab_switch_off(struct fab *f, uint32_t node)
{
	struct fab_node *n = &f->node[node];

	n->empty = true;
	for (unsigned int i = 1; i <= n->nports; i++) {
		struct fab_port *p = &f->port[fab_port_of(n, i)];

		ib_port_link_down(&p->pi, IB_PHYS_POLLING);
		if (p->peer != FAB_NO_PORT)
			ib_port_link_down(&f->port[p->peer].pi, IB_PHYS_POLLING);
	}
}

uint64_t fab_claimed_guid(const struct fab *f, uint32_t node)
{
	const uint32_t claims = f->node[node].claims;

	if (claims == FAB_NONE)
		return 0;
	return f->node[claims ? claims - 1 : node].guid;
}

uint64_t fab_claimed_port_guid(const struct fab *f, uint32_t p)
{
	const uint32_t claims = f->node[f->port[p].node].claims;
	const struct fab_node *n;
	unsigned int num = fab_port_num(f, p);

	if (!claims || !f->port[p].guid)
		return f->port[p].guid;
	if (claims == FAB_NONE)
		return 0;
	n = &f->node[claims - 1];
	/* choose a port that exists and has a GUID */
	if (n->sw != FAB_NONE)
		num = 0;
	else if (!num || num > n->nports)
		num = 1;
	return f->port[fab_port_of(n, num)].guid;
}

void fab_extra_init(struct fab_extra *x, const struct fab *f, uint32_t p)
{
	static const struct ib_trap_room slots = { .slots = FAB_TRAPS, .security = 2, .each = 1 };

	memset(x, 0, sizeof(*x));
	x->port = p;
	ib_trap_init(&x->end.traps, x->trap, &slots, 1);
	x->end.lease_ns = UINT64_MAX;
	x->limit = (struct fab_limit){ 0xff, 0xff, 0xff };
	x->guid[0] = fab_claimed_port_guid(f, p);
}

struct fab_extra *fab_extra(struct fab *f, uint32_t p)
{
	struct fab_extra *x = fab_extra_of(f, p);

	if (x)
		return x;
	if (!graph_room(&f->extra, &f->extras_cap, f->extras + 1, sizeof(*f->extra)))
		return NULL;
	x = malloc(sizeof(*x));
	if (!x)
		return NULL;
	fab_extra_init(x, f, p);
	fab_bases(f, p, &x->pma);
	f->extra[f->extras] = x;
	f->port[p].extra = f->extras++;
	return x;
}

bool fab_seal(struct fab *f)
{
	struct defaults d;

	if (!get_defaults(f, &d))
		return false;
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		init_node(f, n, &d);
		if (n->sw != FAB_NONE)
			f->sw[n->sw].si.enhanced_port0 = !n->base_port0;
	}
	for (uint32_t i = 1; i < f->ports; i++)
		if (f->port[i].peer > i)
			fab_link_up(f, i);
	return fab_subnets_find(f) && fab_names_seal(f);
}

bool fab_own_sl2vl(struct fab *f, const struct fab_node *n)
{
	const unsigned int dim = n->nports + 1u;
	struct fab_switch *sw = &f->sw[n->sw];
	uint32_t *t;

	if (sw->sl2vl)
		return true;
	t = malloc(dim * dim * sizeof(*t));
	if (!t)
		return false;
	for (unsigned int i = 0; i < dim * dim; i++) {
		t[i] = f->port[fab_port_of(n, i % dim)].sl2vl;
		fab_pool_ref(&f->sl2vl, t[i]);
	}
	sw->sl2vl = t;
	return true;
}

void fab_drop_sl2vl(struct fab *f, const struct fab_node *n)
{
	struct fab_switch *sw = &f->sw[n->sw];
	const unsigned int dim = n->nports + 1u;

	for (unsigned int i = 0; sw->sl2vl && i < dim * dim; i++)
		fab_pool_put(&f->sl2vl, sw->sl2vl[i]);
	free(sw->sl2vl);
	sw->sl2vl = NULL;
}

static void reset_switch(struct fab *f, const struct fab_node *n)
{
	struct fab_switch *sw = &f->sw[n->sw];
	/* @lft_differs need not be set: nothing is forwarded until a manager writes a table */
	const uint32_t sum = sw->lft_sum, subnet = sw->subnet;
	struct fab_lids *lids = sw->lids;

	sw->lids = NULL;
	fab_drop_sl2vl(f, n);
	f->adaptive -= sw->adaptive != NULL;
	f->lfts_differ -= sw->lft_differs;
	free_switch(sw);
	init_switch(f, sw, n->nports, n->base_port0);
	sw->lft_sum = sum;
	sw->subnet = subnet;
	sw->lids = lids;
	sw->lids_old = true;
	fab_adaptive_changed(f);
}

bool fab_reset_node(struct fab *f, uint32_t node)
{
	const struct fab_node *n = &f->node[node];
	struct defaults d;

	if (!get_defaults(f, &d))
		return false;
	for (unsigned int i = fab_first_num(n); i <= n->nports; i++) {
		struct fab_port *p = &f->port[fab_port_of(n, i)];
		struct fab_extra *x = fab_extra_of(f, fab_port_of(n, i));

		fab_pool_put(n->sw != FAB_NONE ? &f->sw_pkeys : &f->ca_pkeys, p->pkeys);
		fab_pool_put(&f->sl2vl, p->sl2vl);
		fab_pool_put(&f->vlarb, p->vlarb);
		p->pi.lid = 0;
		p->pi.lmc = 0;
		p->sl2vl_set = 0;
		p->rcv_mads = 0;
		p->xmit_mads = 0;
		fab_forget_bases(f, fab_port_of(n, i));
		fab_forget_cc(f, fab_port_of(n, i));
		if (!x)
			continue;
		memset(&x->ctr, 0, sizeof(x->ctr));
		memset(&x->pma, 0, sizeof(x->pma));
		ib_trap_clear(&x->end.traps);
		x->end.lease_ns = UINT64_MAX;
		memset(x->guid, 0, sizeof(x->guid));
		x->guid[0] = fab_claimed_port_guid(f, fab_port_of(n, i));
	}
	if (n->pma)
		memset(&n->pma->agent.samples, 0, sizeof(n->pma->agent.samples));
	init_node(f, n, &d);
	if (n->sw != FAB_NONE)
		reset_switch(f, n);
	put_defaults(f, &d);
	return true;
}

static size_t pool_bytes(const struct fab_pool *p)
{
	return p->cap * (p->size + sizeof(*p->ref)) + p->hash.size * sizeof(*p->hash.slot);
}

size_t fab_bytes(const struct fab *f)
{
	size_t n = sizeof(*f) + f->nodes_cap * (sizeof(*f->node) + sizeof(*f->desc)) +
		   f->ports_cap * sizeof(*f->port) + f->switches_cap * sizeof(*f->sw) +
		   f->by_guid.size * sizeof(*f->by_guid.slot);

	n += pool_bytes(&f->ca_pkeys) + pool_bytes(&f->sw_pkeys) + pool_bytes(&f->sl2vl) +
	     pool_bytes(&f->vlarb);
	n += f->extras_cap * sizeof(*f->extra) + (f->extras - 1) * sizeof(**f->extra);
	n += f->bases ? f->ports * sizeof(*f->bases) : 0;
	n += fab_cc_bytes(f);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *x = &f->node[i];

		n += x->pma ? sizeof(*x->pma) : 0;
		if (x->sw != FAB_NONE && f->sw[x->sw].lids)
			n += (x->nports + 1u) * sizeof(struct fab_lids);
	}
	for (uint32_t i = 0; i < f->switches; i++) {
		const struct fab_switch *sw = &f->sw[i];

		n += (size_t)sw->lft_blocks * IB_LFT_PER_BLOCK + fab_adaptive_bytes(sw);
		for (unsigned int b = 0; sw->mft && b < FAB_MFT_CAP / IB_MFT_PER_BLOCK; b++)
			if (sw->mft[b])
				n += IB_MFT_PER_BLOCK * sw->mft_positions * sizeof(**sw->mft);
	}
	return n;
}

uint32_t fab_machine_at(const struct fab *f, uint32_t p)
{
	const struct fab_port *port = &f->port[p];

	return f->node[port->node].sw == FAB_NONE && fab_outside(f, p) ? port->peer : FAB_NO_PORT;
}

uint32_t fab_lft_sum(const struct fab_switch *sw)
{
	uint32_t end = sw->lft_blocks * IB_LFT_PER_BLOCK;

	if (end > sw->si.linear_top + 1u)
		end = sw->si.linear_top + 1u;
	return (uint32_t)crc32(0, sw->lft, end);
}

void fab_lft_changed(struct fab *f, struct fab_switch *sw)
{
	sw->lids_old = true;
	if (!f->adaptive)
		return;
	f->lfts_differ -= sw->lft_differs;
	sw->lft_differs = fab_lft_sum(sw) != sw->lft_sum;
	f->lfts_differ += sw->lft_differs;
}

bool fab_lids_make(struct fab *f, const struct fab_node *n)
{
	struct fab_switch *sw = &f->sw[n->sw];

	if (sw->lids)
		return true;
	sw->lids = calloc(n->nports + 1u, sizeof(*sw->lids));
	sw->lids_old = true;
	return sw->lids;
}

/* Done once for each change of the table, however often LIDs are read. */
static void find_lids(struct fab_switch *sw, unsigned int nports)
{
	memset(sw->lids, 0, (nports + 1) * sizeof(*sw->lids));
	for (uint32_t lid = 1; lid <= sw->si.linear_top &&
	     lid / IB_LFT_PER_BLOCK < sw->lft_blocks; lid++) {
		const unsigned int num = sw->lft[lid];

		if (num <= nports && !sw->lids[num].count++)
			sw->lids[num].first = (uint16_t)lid;
	}
	sw->lids_old = false;
}

/* The LIDs that lead to the machine at port @at of a switch. */
static struct fab_lids machine_lids(const struct fab *f, uint32_t at)
{
	const struct fab_node *n = &f->node[f->port[at].node];
	struct fab_switch *sw = &f->sw[n->sw];

	if (!sw->lids)
		return (struct fab_lids){ 0, 0 };
	if (sw->lids_old)
		find_lids(sw, n->nports);
	return sw->lids[fab_port_num(f, at)];
}

uint16_t fab_end_lid(const struct fab *f, uint32_t p)
{
	const uint32_t at = fab_machine_at(f, p);

	return at == FAB_NO_PORT ? f->port[p].pi.lid : machine_lids(f, at).first;
}

uint8_t fab_end_lmc(const struct fab *f, uint32_t p)
{
	const uint32_t at = fab_machine_at(f, p);
	uint8_t lmc = 0;

	if (at == FAB_NO_PORT)
		return f->port[p].pi.lmc;
	for (unsigned int n = machine_lids(f, at).count; n > 1 && lmc < 7; n /= 2)
		lmc++;
	return lmc;
}
