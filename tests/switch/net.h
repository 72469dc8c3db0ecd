/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A switch and end ports in one thread: nothing happens but in net_pump(), so every
 * test is deterministic.
 */
#ifndef TEST_SWITCH_NET_H
#define TEST_SWITCH_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <pthread.h>

#include "ep.h"
#include "switch/switch.h"

#define NET_EPS 4

/** struct net - @sw and the end ports @ep[0..n-1] */
struct net {
	struct sw *sw;
	struct ep ep[NET_EPS];
	unsigned int n;
	int ls;
	char dir[32], path[48];
	uint64_t now_ns;	/* time for the switch; 0: the host's */
	char log[8192];		/* what the switch reported */
};

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

/** net_pump() - run until nothing moves. */
static inline void net_pump(void *arg)
{
	struct net *t = arg;
	bool more = true;

	for (int i = 0; more && i < 1000; i++) {
		more = false;
		for (unsigned int k = 1; k <= t->sw->nports; k++)
			if (t->sw->port[k].link)
				sw_port_ctrl(t->sw, k);
		for (unsigned int k = 0; k < t->n; k++)
			while (t->ep[k].l && ohca_link_ctrl(t->ep[k].l) != OHCA_LINK_EV_NONE)
				more = true;
		more |= sw_round(t->sw);
	}
	assert_false(more);
}

/**
 * net_attach() - connect one more end port, wanting switch port @want (0: any)
 * @base: what it is, or NULL: the default, with as many VLs as the switch
 * Return: 0, or -1 with the reason in @err.
 */
static inline int net_attach(struct net *t, struct ep *e, uint64_t guid, unsigned int want,
			     const struct ohca_link_cfg *base, struct ohca_link_err *err)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg cfg, peer, mine;
	struct net_connect c = { .path = t->path, .cfg = &cfg };
	struct ohca_link *l;
	unsigned int port;
	pthread_t th;
	int fd;

	if (base)
		cfg = *base;
	else
		ohca_link_cfg_init(&cfg);
	if (!base && t->sw->cfg.vls > cfg.vl_cap)
		cfg.vl_cap = t->sw->cfg.vls;
	cfg.port_guid = guid;
	cfg.want_port = (uint8_t)want;
	snprintf(cfg.desc, sizeof(cfg.desc), "node %u", (unsigned int)guid);
	assert_int_equal(pthread_create(&th, NULL, net_connect_thread, &c), 0);
	do {
		fd = accept4(t->ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (fd < 0);
	while (!ohca_link_hello_recv(fd, &peer, err))
		usleep(100);
	port = sw_pick_port(t->sw, &peer, err);
	if (!port) {
		ohca_link_hello_reject(fd, err->code, err->text);
		close(fd);
		pthread_join(th, NULL);
		*err = c.err;
		return -1;
	}
	sw_link_cfg(t->sw, port, &mine);
	l = ohca_link_hello_reply(fd, &peer, &mine, err);
	pthread_join(th, NULL);
	if (!l || !c.l) {
		ohca_link_free(l);
		ohca_link_free(c.l);
		return -1;
	}
	sw_attach(t->sw, port, l);
	memset(e, 0, sizeof(*e));
	e->l = c.l;
	e->port = port;
	e->drive = net_pump;
	e->arg = t;
	ohca_link_train(e->l, &phy);
	/* It may not be among t->ep yet. */
	for (int i = 0; i < 4; i++) {
		net_pump(t);
		while (ohca_link_ctrl(e->l) != OHCA_LINK_EV_NONE)
			;
	}
	return 0;
}

static inline uint64_t net_clock(void *arg)
{
	struct net *t = arg;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return t->now_ns ? t->now_ns :
	       (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/** net_stop_clock() - from here on time passes only by t->now_ns += ... */
static inline void net_stop_clock(struct net *t)
{
	t->now_ns = net_clock(t);
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

/** net_new() - a switch with @ports ports and @n end ports at 1..n. */
static inline struct net *net_new(unsigned int ports, unsigned int n, unsigned int vls,
				  unsigned int shift)
{
	struct net *t = calloc(1, sizeof(*t));
	struct ohca_link_err err;
	struct sw_cfg cfg;

	assert_non_null(t);
	strcpy(t->dir, "/tmp/ohca-sw-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	snprintf(t->path, sizeof(t->path), "%s/s", t->dir);
	sw_cfg_init(&cfg);
	cfg.nports = ports;
	cfg.node_guid = 0x1234;
	cfg.sys_guid = 0x1235;
	cfg.vls = (uint8_t)vls;
	cfg.shift = (uint8_t)shift;
	cfg.log = net_log;
	cfg.log_arg = t;
	cfg.clock = net_clock;
	cfg.clock_arg = t;
	t->sw = sw_new(&cfg);
	assert_non_null(t->sw);
	t->ls = ohca_link_listen(t->path, &err);
	assert_true(t->ls >= 0);
	for (; t->n < n; t->n++)
		assert_int_equal(net_attach(t, &t->ep[t->n], 0x100 + t->n, 0, NULL, &err), 0);
	return t;
}

/** net_free() - everything. */
static inline void net_free(struct net *t)
{
	for (unsigned int i = 0; i < t->n; i++)
		ohca_link_free(t->ep[i].l);
	sw_free(t->sw);
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

/** net_send() - a UC packet of @len bytes, its payload filled with @fill. */
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
 * net_got() - number of packets on a lane; all must be @len bytes and filled with
 * @fill (-1: any content, -2: any length, too).
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

#endif /* TEST_SWITCH_NET_H */
