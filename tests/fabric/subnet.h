/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fabric with one manager at its first host, which sends requests by directed routes or by LIDs.
 */
#ifndef SUBNET_H
#define SUBNET_H

#include "cases.h"

#include "fabric/mgmt/mgmt.h"
#include "ib/packet.h"

#define HOST	0u		/* the manager's node, and its port */
#define PORT	1u
#define LID(n)	((uint16_t)((n) + 1))	/* of node n, once subnet_up() has run */

static struct fab *f;
static struct fab_mgmt m;
static struct fab_mad got;	/* the last MAD that the manager received, and the number of all */
static uint32_t got_port;
static unsigned int got_n;
static uint64_t now;

static bool deliver(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	if (f->port[port].node != HOST)
		return false;
	got = *mad;
	got_port = port;
	got_n++;
	return true;
}

static inline void begin(struct fab *fabric)
{
	f = fabric;
	fab_mgmt_init(&m, f, deliver, NULL);
	now = 1000;
	got_n = 0;
	memset(&got, 0, sizeof(got));
}

/* 8 hosts, leaves 8 to 11, spines 12 and 13 */
static inline int setup(void **st)
{
	(void)st;
	begin(from_spec("fat-tree:4"));
	return 0;
}

static inline int teardown(void **st)
{
	(void)st;
	fab_mad_forget(&m);
	fab_free(f);
	return 0;
}

static inline struct fab_mad new_mad(uint8_t class, uint8_t method, uint16_t attr, uint32_t mod)
{
	struct fab_mad mad = { .dlid = IB_LID_PERMISSIVE, .slid = IB_LID_PERMISSIVE };
	struct ib_mad_hdr *h = &mad.mad.hdr;

	h->base_version = IB_MAD_BASE_VERSION;
	h->class_version = 1;
	h->mgmt_class = class;
	h->method = method;
	h->attr_id = ib_to_be16(attr);
	h->attr_mod = ib_to_be32(mod);
	return mad;
}

/* Sends an SMP of the manager by a directed route, a string of ports. @data: NULL: zeros. */
static inline enum fab_fate ask(uint8_t method, uint16_t attr, uint32_t mod, const char *route,
				const void *data)
{
	struct fab_mad mad = new_mad(IB_CLASS_SUBN_DR, method, attr, mod);

	mad.smp.dr_slid = mad.smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	for (unsigned int i = 0; route[i]; i++)
		mad.smp.init_path[i + 1] = (uint8_t)(route[i] - '0');
	ib_smp_set_hops(&mad.smp, 0, (uint8_t)strlen(route));
	if (data)
		memcpy(mad.smp.data, data, IB_SMP_DATA_LEN);
	memset(&got, 0, sizeof(got));
	return fab_mgmt_send(&m, PORT, &mad, now);
}

/* Sends a LID routed MAD of the manager. */
static inline enum fab_fate ask_lid(struct fab_mad *mad, uint16_t lid)
{
	const uint32_t qp = ib_mad_is_smp(&mad->mad.hdr) ? 0 : 1;

	mad->dlid = lid;
	mad->slid = f->port[PORT].pi.lid;
	mad->dqp = mad->sqp = qp;
	memset(&got, 0, sizeof(got));
	return fab_mgmt_send(&m, PORT, mad, now);
}

static inline enum fab_fate get_lid(uint8_t class, uint16_t attr, uint32_t mod, uint16_t lid)
{
	struct fab_mad mad = new_mad(class, IB_METHOD_GET, attr, mod);

	return ask_lid(&mad, lid);
}

static inline uint16_t status(void)
{
	return ib_be16(got.smp.hdr.status) & 0x7fff;
}

/*
 * Return: PortInfo of port @num, 0: the port that receives the Get, for a Set without a change of
 * state.
 */
static inline struct ib_port_info get_port(const char *route, unsigned int num)
{
	struct ib_port_info pi;

	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, num, route, NULL),
			 FAB_DELIVERED);
	ib_port_info_unpack(got.smp.data, &pi);
	pi.state = IB_PS_NO_CHANGE;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	return pi;
}

static inline void set_port(const char *route, unsigned int num, const struct ib_port_info *pi)
{
	uint8_t d[IB_SMP_DATA_LEN];

	ib_port_info_pack(pi, d);
	assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, num, route, d), FAB_DELIVERED);
	assert_int_equal(status(), 0);
}

static inline void set_state(const char *route, unsigned int num, uint8_t state, uint8_t phys)
{
	struct ib_port_info pi = get_port(route, num);

	pi.state = state;
	pi.phys_state = phys;
	set_port(route, num, &pi);
}

/* ---- a small subnet manager ---------------------------------------------------- */

struct way {
	bool known;
	uint32_t from;		/* port where the way continues */
	char route[64];
};

/* Finds ways from node @start to all others. */
static inline void ways(uint32_t start, struct way *w)
{
	uint32_t *queue = calloc(f->nodes, sizeof(*queue)), head = 0, tail = 1;

	assert_non_null(queue);
	memset(w, 0, f->nodes * sizeof(*w));
	w[start].known = true;
	queue[0] = start;
	while (head < tail) {
		const uint32_t at = queue[head++];
		const struct fab_node *n = &f->node[at];

		for (unsigned int i = 1; i <= n->nports && (at == start || n->sw != FAB_NONE); i++) {
			const uint32_t peer = f->port[fab_port_of(n, i)].peer;
			struct way *to = &w[f->port[peer].node];

			if (peer == FAB_NO_PORT || to->known)
				continue;
			*to = w[at];
			to->from = peer;
			to->route[strlen(to->route)] = (char)('0' + i);
			queue[tail++] = f->port[peer].node;
		}
	}
	free(queue);
}

static inline void set_lft(uint32_t sw, const char *route)
{
	struct way *back = calloc(f->nodes, sizeof(*back));
	struct ib_switch_info si = f->sw[f->node[sw].sw].si;
	uint8_t lft[IB_SMP_DATA_LEN], d[IB_SMP_DATA_LEN];

	assert_non_null(back);
	memset(lft, IB_LFT_NO_PORT, sizeof(lft));
	lft[LID(sw)] = 0;
	for (uint32_t i = 0; i < f->nodes; i++) {
		if (i == sw)
			continue;
		ways(i, back);
		lft[LID(i)] = (uint8_t)fab_port_num(f, back[sw].from);
	}
	si.linear_top = LID(f->nodes - 1);
	ib_switch_info_pack(&si, d);
	assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_SWITCH_INFO, 0, route, d), FAB_DELIVERED);
	assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, route, lft), FAB_DELIVERED);
	free(back);
}

/* Sets LIDs and forwarding tables, and makes links Active; all with SMPs. */
static inline void subnet_up(void)
{
	struct way *w = calloc(f->nodes, sizeof(*w));

	assert_non_null(w);
	assert_true(LID(f->nodes) <= IB_LFT_PER_BLOCK);
	ways(HOST, w);
	for (uint32_t i = 0; i < f->nodes; i++) {
		struct ib_port_info pi = get_port(w[i].route, 0);

		pi.lid = LID(i);
		pi.sm_lid = LID(HOST);
		set_port(w[i].route, 0, &pi);
		if (f->node[i].sw != FAB_NONE)
			set_lft(i, w[i].route);
	}
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++)
		for (uint32_t p = 1; p < f->ports; p++)
			if (f->port[p].peer != FAB_NO_PORT)
				set_state(w[f->port[p].node].route, fab_port_num(f, p), state,
					  IB_PHYS_NO_CHANGE);
	free(w);
}

#endif
