/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hosts with a socket of their own: which machines may connect there. */
#include "front_world.h"

#define QUEUE	200u		/* more connections than listen() and the daemon have room for */

/* All hosts except the fifth one have a socket. */
static const struct {
	const char *node;
	unsigned int port;
} tenant[] = { { "host1", 1 }, { "host2", 2 }, { "host3", 3 }, { "host4", 4 }, { "host6", 6 } };
#define TENANTS	(sizeof(tenant) / sizeof(tenant[0]))

static char path[TENANTS][64];
static const char *third, *fourth;

/* The clock stands still, so no connection times out. */
static uint64_t standing_clock(void *arg)
{
	(void)arg;
	return 1000000000;
}

static void with_tenants(struct world *w)
{
	for (unsigned int i = 0; i < TENANTS; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%s", w->dir, tenant[i].node);
		w->cfg.tenant[i] = (struct fab_serve_tenant){ tenant[i].node, path[i] };
	}
	w->cfg.ntenants = TENANTS;
	w->cfg.data.clock = standing_clock;
	third = path[2];
	fourth = path[3];
}

static int setup(void **state)
{
	return world_start(state, with_tenants);
}

static struct ohca_front_hello a_hello(uint64_t guid, unsigned int want, const char *desc)
{
	const struct ohca_cfg c = card(guid);
	struct ohca_front_hello h = hello_of(&c);

	h.want_port = (uint8_t)want;
	if (desc)
		strncpy((char *)h.desc, desc, sizeof(h.desc) - 1);
	return h;
}

/* Connects a front to socket @at. */
static void come(struct front *f, const char *at, struct ohca_front_hello h)
{
	front_dial(f, at);
	if (!front_hello(f, &h, -1))
		fail_msg("%s", f->why);
}

static void refused(const char *at, struct ohca_front_hello h, const char *why)
{
	struct front f;

	front_dial(&f, at);
	assert_false(front_hello(&f, &h, -1));
	assert_string_equal(f.why, why);
	front_close(&f);
}

/* Return: NodeGUID of the host at port @num of the switch, by the topology. */
static uint64_t guid_of(const struct world *w, unsigned int num)
{
	const struct fab *f = w->f;

	return f->node[f->port[f->port[fab_port_of(the_switch(w), num)].peer].node].guid;
}

/* Whatever name a machine has, it gets the place of its socket, once. */
static void test_own_place(void **state)
{
	struct world *w = *state;
	struct front f, g;

	for (unsigned int i = 0; i < 2; i++) {
		come(&f, third, a_hello(0x7000 + 0x100 * i, 0, NULL));
		expect_at(w, 3, "a card");
		refused(third, a_hello(0x8000, 0, "another"),
			"the place of 'host3' is taken by 'a card'");
		refused(third, a_hello(0x8000, 3, "another"),
			"the place of 'host3' is taken by 'a card'");
		come(&g, fourth, a_hello(0x9000, 4, "host4"));
		expect_at(w, 4, "host4");
		front_close(&f);
		front_close(&g);
		wait_free(w, 3);
		wait_free(w, 4);
	}
	come(&f, third, a_hello(guid_of(w, 3), 3, NULL));
	expect_at(w, 3, "a card");
	front_close(&f);
	wait_free(w, 3);
}

/*
 * A socket gives access to no other place, and a machine cannot block another one by using its
 * GUID.
 */
static void test_no_other_place(void **state)
{
	struct world *w = *state;

	refused(third, a_hello(0x7000, 4, NULL), "this socket leads to 'host3', not to 'host4'");
	refused(third, a_hello(0x7000, 5, NULL), "this socket leads to 'host3', not to 'host5'");
	refused(third, a_hello(0x7000, 0, "host4"), "this socket leads to 'host3', not to 'host4'");
	refused(third, a_hello(guid_of(w, 4), 0, NULL),
		"this socket leads to 'host3', not to 'host4'");
	/* a name does not override a GUID */
	refused(third, a_hello(guid_of(w, 4), 0, "host3"),
		"this socket leads to 'host3', not to 'host4'");
	refused(third, a_hello(0x7000, 7, NULL), "'host3' is not at port 7 of the first switch");
	for (unsigned int i = 1; i <= PLACES; i++)
		expect_at(w, i, "");
}

/*
 * The general socket leads to no place with its own socket, in whatever way a machine asks for it.
 */
static void test_general(void **state)
{
	struct world *w = *state;
	struct front f;

	for (unsigned int i = 0; i < 2; i++) {
		refused(w->path, a_hello(0x7000, 3, NULL),
			"the place of 'host3' has a socket of its own");
		refused(w->path, a_hello(0x7000, 0, "host3"),
			"the place of 'host3' has a socket of its own");
		refused(w->path, a_hello(guid_of(w, 3), 0, NULL),
			"the place of 'host3' has a socket of its own");
		/* nor after its machine was there */
		come(&f, third, a_hello(0x8000, 0, NULL));
		front_close(&f);
		wait_free(w, 3);
	}
	/* not even for the machine that had it last */
	come(&f, w->path, a_hello(0x8000, 0, NULL));
	expect_at(w, 5, "a card");
	refused(w->path, a_hello(0x7000, 0, NULL), "all 1 hosts of the fabric are taken");
	front_close(&f);
	wait_free(w, 5);
}

/* The same rules apply to ports that are attached by a link. */
static void test_links(void **state)
{
	struct world *w = *state;
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	struct ohca_link *l;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x7001;
	strcpy(cfg.desc, "host4");
	assert_null(ohca_link_connect(third, &cfg, LIMIT_MS, &err));
	assert_non_null(strstr(err.text, "this socket leads to 'host3', not to 'host4'"));
	assert_null(ohca_link_connect(w->path, &cfg, LIMIT_MS, &err));
	assert_non_null(strstr(err.text, "the place of 'host4' has a socket of its own"));
	l = ohca_link_connect(fourth, &cfg, LIMIT_MS, &err);
	if (!l)
		fail_msg("%s", err.text);
	expect_at(w, 4, "host4");
	ohca_link_free(l);
	wait_free(w, 4);
}

/* An HCA that moves keeps its place, so its new front must use the socket of that place. */
static void test_move(void **state)
{
	struct ohca_front_hello h = a_hello(0x7000, 0, NULL);
	const char *why = "the HCA to be taken over is attached by another socket";
	struct world *w = *state;
	struct front f, g;
	union message m;
	uint64_t token;

	come(&f, third, h);
	assert_int_equal(call_run(&f, 0), OHCA_FRONT_OK);
	assert_int_equal(call(&f, &m, OHCA_FRONT_LEAVE, sizeof(m.hdr), &token), OHCA_FRONT_OK);
	h.token = htole64(token);
	h.flags = htole32(OHCA_FRONT_MOVE | OHCA_FRONT_PAUSED);
	refused(fourth, h, why);
	refused(w->path, h, why);
	come(&g, third, h);
	assert_int_equal(call_run(&g, 1), OHCA_FRONT_OK);
	expect_at(w, 3, "a card");
	front_close(&f);
	front_close(&g);
	wait_free(w, 3);
}

/* Connects without sending anything, until @at has no room. Return: the number of connections. */
static unsigned int fill(const char *at, int fd[QUEUE])
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	unsigned int n;

	strcpy(sa.sun_path, at);
	for (n = 0; n < QUEUE; n++) {
		fd[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(fd[n] >= 0);
		/* the daemon may be about to accept some */
		for (unsigned int i = 0; connect(fd[n], (struct sockaddr *)&sa, sizeof(sa)); i++) {
			assert_int_equal(errno, EAGAIN);
			if (i == 100) {
				close(fd[n]);
				return n;
			}
			usleep(1000);
		}
	}
	fail_msg("the queue has no end");
	return 0;
}

/* As many silent peers as one socket can have do not delay a peer of another socket. */
static void test_full_queue(void **state)
{
	struct world *w = *state;
	int fd[QUEUE];
	unsigned int n = fill(third, fd);
	struct front f, g;

	assert_true(n > 64);
	come(&f, fourth, a_hello(0x7000, 0, NULL));
	come(&g, w->path, a_hello(0x8000, 0, NULL));
	expect_at(w, 4, "a card");
	expect_at(w, 5, "a card");
	front_close(&f);
	front_close(&g);
	while (n)
		close(fd[--n]);
	wait_free(w, 4);
	wait_free(w, 5);
	/* nor for ever at that one */
	come(&f, third, a_hello(0x9000, 0, NULL));
	front_close(&f);
	wait_free(w, 3);
}

int main(void)
{
#define WITH_WORLD(t)	cmocka_unit_test_setup_teardown(t, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		WITH_WORLD(test_own_place),
		WITH_WORLD(test_no_other_place),
		WITH_WORLD(test_general),
		WITH_WORLD(test_links),
		WITH_WORLD(test_move),
		WITH_WORLD(test_full_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
