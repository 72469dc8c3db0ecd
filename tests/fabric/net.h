/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fabric of one switch whose hosts are switched off, and end ports in their places, in one
 * thread: nothing happens except in net_pump(), so every test is deterministic.
 */
#ifndef NET_H
#define NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <pthread.h>

#include "ep.h"
#include "fabric/attach.h"
#include "fabric/data/data_priv.h"

#define NET_EPS 4

/**
 * struct net - a fabric of one switch, and end ports
 * @sw: node of the switch
 * @ep: [@n] end ports
 * @now_ns: time for the fabric; 0: the host's
 * @log: reports of the fabric
 */
struct net {
	struct fab *f;
	struct fab_mgmt m;
	struct fab_data *d;
	uint32_t sw;
	struct ep ep[NET_EPS];
	unsigned int n;
	int ls;
	char dir[32], path[48];
	uint64_t now_ns;
	char log[8192];
};

static inline struct fab_node *net_node(const struct net *t)
{
	return &t->f->node[t->sw];
}

static inline struct fab_switch *net_switch(const struct net *t)
{
	return &t->f->sw[net_node(t)->sw];
}

/* Return: index of port @n of the switch. */
static inline uint32_t net_index(const struct net *t, unsigned int n)
{
	return fab_port_of(net_node(t), n);
}

/* PortInfo of port @n; a test that changes it must increment t->m.epoch. */
static inline struct ib_port_info *net_pi(const struct net *t, unsigned int n)
{
	return &t->f->port[net_index(t, n)].pi;
}

/* Counters of port @n, in which waits and drops of peers are not up to date. */
static inline struct ohca_port_counters *net_ctr(const struct net *t, unsigned int n)
{
	return &fab_extra(t->f, net_index(t, n))->ctr;
}

/* Port @n in the data path. */
static inline struct fab_dport *net_port(const struct net *t, unsigned int n)
{
	return fab_dport(t->d, net_index(t, n));
}

/* The end of port 0: traps and leases that wait. */
static inline struct ib_sma_end *net_end(const struct net *t)
{
	return &fab_extra(t->f, net_index(t, 0))->end;
}

struct net_connect {
	const char *path;
	const struct ohca_link_cfg *cfg;
	struct ohca_link *l;
	struct ohca_link_err err;
};

static inline void *net_connect_thread(void *p)
{
	struct net_connect *c = p;

	c->l = ohca_link_connect(c->path, c->cfg, 5000, &c->err);
	return NULL;
}

static inline uint64_t net_clock(void *arg)
{
	struct net *t = arg;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return t->now_ns ? t->now_ns :
	       (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/** net_stop_clock() - afterwards time passes only by t->now_ns += ... */
static inline void net_stop_clock(struct net *t)
{
	t->now_ns = net_clock(t);
}

/** net_timers() - runs what is due. Return: ns until the next, or UINT64_MAX. */
static inline uint64_t net_timers(struct net *t)
{
	uint64_t now = net_clock(t), due = UINT64_MAX, data;

	fab_mgmt_timer(&t->m, now);
	data = fab_data_timer(t->d);
	for (uint32_t i = 1; i < t->m.f->extras; i++) {
		const uint64_t ns = ib_sma_end_deadline(&t->m.f->extra[i]->end);

		due = ns < due ? ns : due;
	}
	for (uint32_t i = 0; i < t->m.f->nodes; i++) {
		const struct fab_pma *p = t->m.f->node[i].pma;
		const uint64_t ns = p ? ib_pma_deadline(&p->agent) : UINT64_MAX;

		due = ns < due ? ns : due;
	}
	assert_true(t->m.deadline_ns <= due);
	due = due == UINT64_MAX ? due : due - now;
	return due < data ? due : data;
}

/** net_state_change() - the switch reports that the state of a port has changed */
static inline void net_state_change(struct net *t)
{
	uint8_t details[54];

	t->m.now_ns = net_clock(t);
	net_switch(t)->si.port_state_change = 1;
	ib_trap128(details, net_pi(t, 0)->lid);
	fab_raise_trap(&t->m, net_index(t, 0), IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
		       details);
	net_timers(t);
}

/** net_round() - the fabric checks its sockets, and has a round */
static inline bool net_round(struct net *t)
{
	for (uint32_t p = 1; p < t->f->ports; p++) {
		fab_data_woke(t->d, p);
		fab_data_ctrl(t->d, p);
	}
	return fab_data_round(t->d);
}

/** net_pump() - runs until nothing moves. */
static inline void net_pump(void *arg)
{
	struct net *t = arg;
	bool more = true;

	for (int i = 0; more && i < 1000; i++) {
		more = false;
		for (unsigned int k = 0; k < t->n; k++)
			more |= t->ep[k].l && simple_step(t->ep[k].l);
		more |= net_round(t);
		fab_mgmt_timer(&t->m, net_clock(t));
	}
	assert_false(more);
}

/**
 * net_attach() - connects one more end port to switch port @want (0: any)
 * @base: its configuration, or NULL: the default, with as many VLs as the fabric
 *
 * Return: 0, or -1 with the reason in @err.
 */
static inline int net_attach(struct net *t, struct ep *e, uint64_t guid, unsigned int want,
			     const struct ohca_link_cfg *base, struct ohca_link_err *err)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg cfg, peer, mine;
	struct net_connect c = { .path = t->path, .cfg = &cfg };
	struct ohca_link *l;
	uint32_t port;
	pthread_t th;
	int fd;

	if (base)
		cfg = *base;
	else
		ohca_link_cfg_init(&cfg);
	if (!base && t->f->vls > cfg.vl_cap)
		cfg.vl_cap = t->f->vls;
	cfg.port_guid = guid;
	cfg.want_port = (uint8_t)want;
	snprintf(cfg.desc, sizeof(cfg.desc), "node %u", (unsigned int)guid);
	assert_int_equal(pthread_create(&th, NULL, net_connect_thread, &c), 0);
	do {
		fd = accept4(t->ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (fd < 0);
	while (!ohca_link_hello_recv(fd, NULL, &peer, err))
		usleep(100);
	port = fab_attach_place(t->d, NULL, FAB_NONE, &peer, FAB_NO_PORT, err);
	if (port == FAB_NO_PORT) {
		ohca_link_hello_reject(fd, err->code, err->text);
		close(fd);
		pthread_join(th, NULL);
		*err = c.err;
		return -1;
	}
	fab_data_link_cfg(t->d, port, &mine);
	l = ohca_link_hello_reply(fd, &peer, &mine, err);
	pthread_join(th, NULL);
	if (!l || !c.l) {
		ohca_link_free(l);
		ohca_link_free(c.l);
		return -1;
	}
	assert_true(fab_data_attach(t->d, port, l));
	memset(e, 0, sizeof(*e));
	e->l = c.l;
	e->port = fab_port_num(t->f, port);
	e->drive = net_pump;
	e->arg = t;
	ohca_link_train(e->l, &phy);
	/* @e may not be among t->ep yet. */
	for (int i = 0; i < 4; i++) {
		net_pump(t);
		simple_take(e->l);
	}
	return 0;
}

static inline void net_log(void *arg, const char *fmt, va_list ap)
{
	struct net *t = arg;
	size_t used = strlen(t->log);

	if (used + 256 > sizeof(t->log))
		used = 0;
	vsnprintf(t->log + used, sizeof(t->log) - used, fmt, ap);
	strcat(t->log, "\n");
}

static inline bool net_nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

/* A switch with a host, which is switched off, at each of @ports ports. */
static inline struct fab *net_fabric(unsigned int ports, unsigned int vls, uint32_t *sw)
{
	struct fab *f = fab_new();

	assert_non_null(f);
	f->vls = (uint8_t)vls;
	*sw = fab_add_node(f, IB_NODE_SWITCH_DEVICE, ports, 0x1234, "the switch", 10);
	f->node[*sw].sys_guid = 0x1235;
	for (unsigned int i = 1; i <= ports; i++) {
		char name[16];
		int len = snprintf(name, sizeof(name), "host %u", i);
		uint32_t n = fab_add_node(f, IB_NODE_CHANNEL_ADAPTER, 1, 0x10000 + 16 * i, name,
					  (size_t)len);

		assert_int_not_equal(n, FAB_NONE);
		fab_cable(f, fab_port_of(&f->node[*sw], i), fab_port_of(&f->node[n], 1));
	}
	assert_true(fab_seal(f));
	for (uint32_t i = 0; i < f->nodes; i++)
		if (i != *sw)
			fab_switch_off(f, i);
	return f;
}

/** net_of() - fabric @f, whose switch is node @sw, without end ports */
static inline struct net *net_of(struct fab *f, uint32_t sw, unsigned int shift)
{
	struct net *t = calloc(1, sizeof(*t));
	struct fab_data_cfg cfg = {
		.shift = (uint8_t)shift,
		.hoq_scale = 1,
		.log = net_log,
		.clock = net_clock,
		.arg = t,
	};
	struct ohca_link_err err;

	assert_non_null(t);
	strcpy(t->dir, "/tmp/ohca-fab-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	snprintf(t->path, sizeof(t->path), "%s/s", t->dir);
	t->f = f;
	t->sw = sw;
	fab_mgmt_init(&t->m, t->f, net_nobody, NULL);
	t->d = fab_data_new(&t->m, &cfg);
	assert_non_null(t->d);
	t->ls = ohca_link_listen(t->path, &err);
	assert_true(t->ls >= 0);
	return t;
}

/** net_new() - a switch with @ports ports and @n end ports at 1..n. */
static inline struct net *net_new(unsigned int ports, unsigned int n, unsigned int vls,
				  unsigned int shift)
{
	uint32_t sw;
	struct fab *f = net_fabric(ports, vls, &sw);
	struct net *t = net_of(f, sw, shift);
	struct ohca_link_err err;

	for (; t->n < n; t->n++)
		assert_int_equal(net_attach(t, &t->ep[t->n], 0x100 + t->n, 0, NULL, &err), 0);
	return t;
}

/** net_free() - frees everything. */
static inline void net_free(struct net *t)
{
	for (unsigned int i = 0; i < t->n; i++)
		ohca_link_free(t->ep[i].l);
	fab_data_free(t->d);
	fab_free(t->f);
	close(t->ls);
	unlink(t->path);
	rmdir(t->dir);
	free(t);
}

/** net_up() - net_new() and ep_bring_up(). */
static inline struct net *net_up(unsigned int n, unsigned int vls, unsigned int shift)
{
	struct net *t = net_new(8, n, vls, shift);

	assert_int_equal(ep_bring_up(t->ep, n), 0);
	return t;
}

/** net_set_pi() - changes PortInfo of port @n of the switch by @change. Return: MAD status. */
static inline int net_set_pi(struct net *t, unsigned int n,
			     void (*change)(struct ib_port_info *pi))
{
	struct ib_port_info pi;
	uint8_t d[64] = { 0 };
	int s = ep_switch(&t->ep[0], IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, n, d);

	ib_port_info_unpack(d, &pi);
	pi.state = 0;
	pi.phys_state = 0;
	change(&pi);
	ib_port_info_pack(&pi, d);
	return s | ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, n, d);
}

/** net_join() - sets @mask of ports in entry @idx of the MulticastForwardingTable. */
static inline void net_join(struct net *t, unsigned int idx, uint16_t mask)
{
	uint8_t d[64] = { 0 };

	ib_mft_block_put(d, idx, mask);
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SET, IB_SMP_ATTR_MFT, 0, d), 0);
}

/** net_send() - sends a UC packet of @len bytes with payload @fill. */
static inline bool net_send(struct ep *e, unsigned int vl, unsigned int sl, uint16_t dlid,
			    uint16_t pkey, size_t len, uint8_t fill)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	uint8_t *p = ib_build_lrh(pkt, (uint8_t)vl, (uint8_t)sl, IB_LNH_IBA_LOCAL, dlid,
				  (uint16_t)(len / 4), e->lid);

	p = ib_build_bth(p, IB_OP_UC_SEND_ONLY, 0, 0, pkey, 7, false, fill);
	memset(p, fill, len - (size_t)(p - pkt));
	return ep_send_raw(e, vl, pkt, len);
}

/**
 * net_got() - reads the packets of a lane; all must be @len bytes with payload @fill (-1: any
 * content, -2: any length, too)
 *
 * Return: their number.
 */
static inline unsigned int net_got(struct ep *e, unsigned int vl, size_t len, int fill)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	unsigned int n = 0;
	size_t got;

	while ((got = ep_recv(e, vl, pkt, sizeof(pkt)))) {
		if (fill != -2)
			assert_int_equal(got, len);
		assert_int_equal(pkt[0] >> 4, vl);
		for (size_t i = 20; fill >= 0 && i < got; i++)
			assert_int_equal(pkt[i], fill);
		n++;
	}
	return n;
}

#endif
