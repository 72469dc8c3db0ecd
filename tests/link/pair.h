/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two ends of a link in one process, for tests and benchmarks.
 */
#ifndef TEST_LINK_PAIR_H
#define TEST_LINK_PAIR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simple.h"

/** struct pair - @a listened, @b connected */
struct pair {
	struct ohca_link *a, *b;
};

struct pair_arg {
	const char *path;
	const struct ohca_link_cfg *cfg;
	struct ohca_link *l;
	struct ohca_link_err err;
};

static inline void *pair_connect(void *p)
{
	struct pair_arg *c = p;

	c->l = ohca_link_connect(c->path, c->cfg, 5000, &c->err);
	return NULL;
}

/** pair_phy() - everything enabled. */
static inline struct ohca_link_phy pair_phy(void)
{
	return (struct ohca_link_phy){
		.enabled = true,
		.width_en = 0xff,
		.speed_en = 0xff,
		.speed_ext_en = 0xff,
	};
}

/** pair_meet() - handshake only. Return: 0 or -1 with the listener's error in @err. */
static inline int pair_meet(struct pair *p, const struct ohca_link_cfg *ca,
			    const struct ohca_link_cfg *cb, struct ohca_link_err *ea,
			    struct ohca_link_err *eb)
{
	char dir[] = "/tmp/ohca-link-XXXXXX", path[64];
	struct pair_arg c = { .path = path, .cfg = cb };
	pthread_t t;
	int fd;

	p->a = NULL;
	p->b = NULL;
	memset(ea, 0, sizeof(*ea));
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/s", dir);
	fd = ohca_link_listen(path, ea);
	if (fd >= 0) {
		if (!pthread_create(&t, NULL, pair_connect, &c)) {
			p->a = simple_accept(fd, ca, 5000, ea);
			pthread_join(t, NULL);
		}
		p->b = c.l;
		close(fd);
		unlink(path);
	}
	rmdir(dir);
	*eb = c.err;
	return p->a && p->b ? 0 : -1;
}

/** pair_free() - both ends. */
static inline void pair_free(struct pair *p)
{
	ohca_link_free(p->a);
	ohca_link_free(p->b);
}

/** pair_up() - handshake and training. Return: 0 or -1. */
static inline int pair_up(struct pair *p, unsigned int vls, unsigned int shift)
{
	struct ohca_link_phy phy = pair_phy();
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg c;

	ohca_link_cfg_init(&c);
	c.vl_cap = (uint8_t)vls;
	c.shift_pref = (uint8_t)shift;
	if (pair_meet(p, &c, &c, &ea, &eb)) {
		fprintf(stderr, "%s\n%s\n", ea.text, eb.text);
		pair_free(p);
		return -1;
	}
	ohca_link_train(p->a, &phy);
	ohca_link_train(p->b, &phy);
	/* Each end needs the answers of the other. */
	for (int i = 0; i < 100; i++) {
		if (!simple_up(p->a, 1) && !simple_up(p->b, 1))
			return 0;
		simple_up(p->b, 1);
	}
	pair_free(p);
	return -1;
}

#endif /* TEST_LINK_PAIR_H */
