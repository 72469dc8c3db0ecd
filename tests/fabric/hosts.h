/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hosts of a fabric with the place of a virtual machine: end ports that are attached by links. All
 * run in one thread: nothing happens except in pump(), and time passes only by now.
 */
#ifndef HOSTS_H
#define HOSTS_H

#include <sys/epoll.h>

#include "ep.h"
#include "subnet.h"

#include "fabric/attach.h"
#include "fabric/base/event.h"
#include "fabric/data/data_priv.h"
#include "fabric/fault/script.h"

#define HOSTS	4

static struct fab_data *d;
static struct fab_attach *door;
static struct ep host[HOSTS];
static uint32_t node_of[HOSTS];	/* the host whose place it has */
static int epfd = -1;
static char dir[32], sock[48];
static bool counts_anew[128];	/* nodes that were switched off and on, or have other cables */
static char said[8192];		/* reports of the data path */

static inline uint64_t test_clock(void *arg)
{
	(void)arg;
	return now;
}

static inline void keep_log(void *arg, const char *fmt, va_list ap)
{
	size_t used = strlen(said);

	(void)arg;
	if (used + 256 > sizeof(said))
		used = 0;
	vsnprintf(said + used, sizeof(said) - used, fmt, ap);
	strcat(said, "\n");
}

/* Runs once. Return: whether anything has moved. */
static inline bool pump_once(void)
{
	struct epoll_event ev[16];
	bool moved = false;
	int n = epoll_wait(epfd, ev, 16, 0);

	for (int i = 0; i < n; i++)
		fab_attach_event(door, fab_event_of(&ev[i]).index);
	for (unsigned int i = 0; i < HOSTS; i++)
		moved |= host[i].l && simple_step(host[i].l);
	moved |= fab_data_round(d);
	fab_attach_timer(door, now);
	fab_data_timer(d);
	fab_script_timer(&m, now);
	fab_mgmt_timer(&m, now);
	return moved;
}

/* Runs until nothing moves. */
static inline void pump(void *arg)
{
	(void)arg;
	for (int i = 0, still = 0; still < 4; i++) {
		assert_true(i < 10000);
		still = pump_once() ? 0 : still + 1;
	}
}

/* Return: the port of the switch that host node @node is at. */
static inline uint32_t port_of_host(uint32_t node)
{
	return f->port[fab_port_of(&f->node[node], 1)].peer;
}

/* Connects @e and gets it a place. Return: false if it was refused, with the reason in @err. */
static inline bool connect_host(struct ep *e, const struct ohca_link_cfg *cfg,
				struct ohca_link_err *err)
{
	struct ohca_link_phy phy = ep_phy();
	int fd = ohca_link_connect_start(sock, cfg, 0, err), r = 0;

	assert_true(fd >= 0);
	memset(e, 0, sizeof(*e));
	for (int i = 0; !r && i < 100; i++) {
		pump(NULL);
		r = ohca_link_connect_finish(fd, cfg, &e->l, err);
	}
	assert_int_not_equal(r, 0);
	if (r < 0)
		return false;
	e->drive = pump;
	ohca_link_train(e->l, &phy);
	pump(NULL);
	return true;
}

/*
 * Makes the link of host node @node Active again, as the SM does after its place has changed hands.
 */
static inline void activate(uint32_t node)
{
	const uint32_t p = port_of_host(node), sw = f->port[p].node;
	struct way *w = calloc(f->nodes, sizeof(*w));

	assert_non_null(w);
	ways(HOST, w);
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++)
		set_state(w[sw].route, fab_port_num(f, p), state, IB_PHYS_NO_CHANGE);
	free(w);
}

/* Attaches host[i] at the place of @node, with its LID, and makes its link Active. */
static inline void place(unsigned int i, uint32_t node)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = f->port[fab_port_of(&f->node[node], 1)].guid;
	cfg.node_guid = f->node[node].guid;
	snprintf(cfg.desc, sizeof(cfg.desc), "machine %u", i);
	if (!connect_host(&host[i], &cfg, &err))
		fail_msg("%s", err.text);
	host[i].lid = LID(node);
	node_of[i] = node;
	activate(node);
	pump(NULL);
}

/* A subnet that is up, and a socket for machines. The manager is at a host of the graph. */
static inline void begin_hosts(struct fab *fabric)
{
	const struct fab_data_cfg cfg = {
		.shift = 0,
		.hoq_scale = 1,
		.log = keep_log,
		.clock = test_clock,
	};
	struct fab_attach_cfg listener = { .path = sock, .type = FAB_EVENT_ATTACH,
					   .tenant = FAB_NONE };
	struct ohca_link_err err;

	begin(fabric);
	memset(counts_anew, 0, sizeof(counts_anew));
	now = 1000000000;
	said[0] = 0;
	subnet_up();
	d = fab_data_new(&m, &cfg);
	assert_non_null(d);
	strcpy(dir, "/tmp/ohca-fab-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(sock, sizeof(sock), "%s/s", dir);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(epfd >= 0);
	listener.epfd = epfd;
	door = fab_attach_new(d, &listener, &err);
	if (!door)
		fail_msg("%s", err.text);
	memset(host, 0, sizeof(host));
}

/*
 * Checks that packets that left one end of a wire arrived at the other end, or were lost by its
 * fault.
 */
static inline void wires_are_conserved(void)
{
	for (uint32_t p = 1; p < f->ports; p++) {
		const uint32_t q = f->port[p].peer;
		const struct fab_extra *a = fab_extra_of(f, p), *b;

		if (q == FAB_NO_PORT || fab_outside(f, p))
			continue;
		if (counts_anew[f->port[p].node] || counts_anew[f->port[q].node])
			continue;
		b = fab_extra_of(f, q);
		assert_int_equal(f->port[p].xmit_mads + (a ? a->ctr.xmit_pkts : 0),
				 f->port[q].rcv_mads + (b ? b->ctr.rcv_pkts : 0) +
				 (a && a->fault ? a->fault->lost : 0));
	}
}

static inline int teardown_hosts(void **st)
{
	wires_are_conserved();
	fab_script_stop(&m);
	fab_attach_free(door);
	fab_data_free(d);
	for (unsigned int i = 0; i < HOSTS; i++)
		ohca_link_free(host[i].l);
	close(epfd);
	rmdir(dir);
	return teardown(st);
}

/*
 * Sends a UC packet of @len bytes from host[i] whose payload is @fill. Return: false without
 * credit.
 */
static inline bool send_data(unsigned int i, unsigned int vl, uint16_t dlid, size_t len,
			     uint8_t fill)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	uint8_t *p = ib_build_lrh(pkt, (uint8_t)vl, (uint8_t)vl, IB_LNH_IBA_LOCAL, dlid,
				  (uint16_t)(len / 4), host[i].lid);

	p = ib_build_bth(p, IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 7, false, fill);
	memset(p, fill, len - (size_t)(p - pkt));
	return ep_send_raw(&host[i], vl, pkt, len);
}

/* Checks that the next packet of host[i] on @vl has @len bytes with payload @fill. */
static inline void expect_data(unsigned int i, unsigned int vl, size_t len, uint8_t fill)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];

	assert_int_equal(ep_recv(&host[i], vl, pkt, sizeof(pkt)), len);
	assert_int_equal(pkt[0], vl << 4);
	for (size_t k = IB_LRH_LEN + IB_BTH_LEN; k < len; k++)
		assert_int_equal(pkt[k], fill);
}

/* Adds port @num to entry @idx of the multicast forwarding of @sw. */
static inline void add_member(uint32_t sw, unsigned int idx, unsigned int num)
{
	struct fab_switch *s = &f->sw[f->node[sw].sw];

	if (!s->mft)
		s->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*s->mft));
	assert_non_null(s->mft);
	if (!s->mft[0])
		s->mft[0] = calloc(IB_MFT_PER_BLOCK * s->mft_positions, sizeof(**s->mft));
	assert_non_null(s->mft[0]);
	s->mft[0][idx * s->mft_positions + num / 16] |= (uint16_t)(1u << num % 16);
}

/* Return: the number of packets that were discarded for a known reason. */
static inline uint64_t ended(void)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < FAB_DROPS; i++)
		n += d->n.drop[i];
	return n;
}

/* Return: the number of packets of host[i] on @vl. */
static inline unsigned int count_data(unsigned int i, unsigned int vl)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	unsigned int n = 0;

	while (ep_recv(&host[i], vl, pkt, sizeof(pkt)))
		n++;
	return n;
}

/* Finds the output ports on the way from host node @from to LID @dlid, by the forwarding tables. */
static inline unsigned int path(uint32_t from, uint16_t dlid, uint32_t *out, unsigned int max)
{
	uint32_t at = port_of_host(from);
	unsigned int n = 0;

	while (f->node[f->port[at].node].sw != FAB_NONE && n < max) {
		const struct fab_node *sw = &f->node[f->port[at].node];
		unsigned int num = fab_route(f, sw, dlid);

		assert_true(num && num <= sw->nports);
		out[n] = fab_port_of(sw, num);
		at = f->port[out[n++]].peer;
	}
	return n;
}

/* Return: counters of port @p, up to date. */
static inline const struct ohca_port_counters *counters(uint32_t p)
{
	struct fab_extra *x = fab_extra(f, p);

	assert_non_null(x);
	m.wires->count(m.wires_ctx, p);
	return &x->ctr;
}

#endif
