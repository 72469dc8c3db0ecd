// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Datagrams of libumad2sim with a wrong byte, or cut short: a datagram that is too short has no
 * answer and no effect; others are refused or have another meaning, for the client that they name.
 * A client at another host is not affected.
 */
#include "bad_state.h"
#include "sim.h"

#include <errno.h>

/*
 * Clients: the one that sends, and one that must not be affected. No flipped bit makes the number
 * of the first one that of the other, or those of their sockets.
 */
#define TRIED	0u
#define OTHER	3u
#define CLIENTS	4u
#define ID(n)	(0x100u + (n))

static struct port_state *was;
static int ctl, in[CLIENTS];
static unsigned int answered, refused, silent;

static struct sim_ctl message(uint32_t client, uint32_t type)
{
	return (struct sim_ctl){ .magic = SIM_MAGIC, .client = client, .type = type };
}

/* Client @n connects at its own host. */
static struct sim_ctl hello(unsigned int n)
{
	struct sim_connect cc = { .id = ID(n), .issm = 1 };
	struct sim_ctl c = message(0, SIM_CONNECT);

	snprintf(cc.nodeid, sizeof(cc.nodeid), "host%u", n + 1);
	memcpy(c.data, &cc, sizeof(cc));
	return c;
}

/* Return: type of the answer; UINT32_MAX if there is none. */
static uint32_t tell(const void *p, size_t len, struct sim_ctl *answer)
{
	assert_int_equal(send(ctl, p, len, 0), len);
	turn();
	if (recv(ctl, answer, sizeof(*answer), 0) != sizeof(*answer))
		return UINT32_MAX;
	assert_int_equal(answer->magic, SIM_MAGIC);
	return answer->type;
}

/* All clients are attached and have no MADs. The first one may connect again. */
static void attach_all(void)
{
	const struct sockaddr nobody_else = { .sa_family = AF_UNSPEC };
	struct sim_ctl answer;
	char mail[512];

	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct sim_ctl bye = message(i, SIM_DISCONNECT);

		tell(&bye, sizeof(bye), &answer);
		assert_int_equal(connect(in[i], &nobody_else, sizeof(nobody_else)), 0);
	}
	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct sim_ctl c = hello(i);
		struct sim_connect cc;

		assert_int_equal(tell(&c, sizeof(c), &answer), SIM_CONNECT);
		memcpy(&cc, answer.data, sizeof(cc));
		assert_int_equal(cc.id, i);
		if (i != TRIED)
			join(in[i], "out", i);
		while (recv(in[i], mail, sizeof(mail), 0) > 0)
			;
	}
}

/* The other client answers for its host, has no MADs, and is its subnet manager. */
static void undisturbed(void)
{
	struct sim_ctl c = message(OTHER, SIM_GET_GUID), answer;
	char mail[512];

	assert_int_equal(recv(in[OTHER], mail, sizeof(mail), 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(tell(&c, sizeof(c), &answer), SIM_GET_GUID);
	assert_true(ib_get_be64(answer.data) == f->node[OTHER].guid);
	assert_true(is_sm(OTHER));
	assert_false(has_changed(f, was, f->node[OTHER].first + 1));
}

static void try_ctl(struct bad *b)
{
	struct sim_ctl answer;
	const uint32_t type = tell(b->p, b->len, &answer);
	uint32_t asked = SIM_ERROR;

	if (b->len == sizeof(answer))
		memcpy(&asked, b->p + offsetof(struct sim_ctl, type), sizeof(asked));
	/* no magic, no answer; an answer has no answer either */
	if (b->bit < 32 || asked == SIM_ERROR) {
		assert_int_equal(type, UINT32_MAX);
		assert_int_equal(first_change(f, was), FAB_NO_PORT);
		silent++;
	} else {
		assert_true(type == SIM_ERROR || type == asked);
		if (type == SIM_ERROR)
			refused++;
		else
			answered++;
		/* if the client has left, it attaches again */
		undisturbed();
		attach_all();
	}
	if (b->len < sizeof(answer) && b->len % 16 == 0)
		undisturbed();
}

static void control(void **st)
{
	(void)st;
	for (uint32_t type = SIM_CONNECT; type <= SIM_GET_PKEYS; type++) {
		struct sim_ctl c = message(TRIED, type);

		if (type == SIM_CONNECT)
			c = hello(TRIED);
		answered = refused = silent = 0;
		each_truncation(&c, sizeof(c), try_ctl, NULL);
		assert_int_equal(silent, sizeof(c));
		/* the server reads only the first bytes of the data of most types */
		each_flip(&c, sizeof(c), 0, type == SIM_CONNECT ? sizeof(c) : 24, try_ctl, NULL);
		/* types with a single bit set include SIM_ERROR among their flips */
		assert_int_equal(silent, sizeof(c) + 32 + !(type & (type - 1)));
		assert_true(refused > 40 && answered > 90);
	}
}

/* ---- MADs ---------------------------------------------------------------------- */

/* Each MAD has an answer, or an error that none comes; a datagram that is cut has neither. */
static void try_mad(struct bad *b)
{
	struct sim_mad r;

	assert_int_equal(send(in[TRIED], b->p, b->len, 0), b->len);
	turn();
	if (recv(in[TRIED], &r, sizeof(r), 0) != sizeof(r)) {
		silent++;
	} else if (r.status) {
		assert_int_equal(ib_be32(r.status), ETIMEDOUT);
		refused++;
	} else {
		assert_int_equal(r.mad.hdr.method, IB_METHOD_GET_RESP);
		answered++;
	}
	assert_int_equal(recv(in[TRIED], &r, sizeof(r), 0), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(first_change(f, was), FAB_NO_PORT);
	if (b->bit % 16 == 0 || b->bit == NO_BIT)
		undisturbed();
}

static void mads(void **st)
{
	const struct sim_mad r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);

	(void)st;
	join(in[TRIED], "out", TRIED);
	answered = refused = silent = 0;
	each_truncation(&r, sizeof(r), try_mad, NULL);
	assert_int_equal(silent, sizeof(r));
	each_flip(&r, sizeof(r), 0, sizeof(r), try_mad, NULL);
	assert_int_equal(answered + refused + silent, 9 * sizeof(r));
	assert_true(answered > 1000 && refused > 20);
}

static int setup(void **st)
{
	begin_sim(st);
	now = 1000;
	ctl = bound("me", 0);
	join(ctl, "ctl", UINT32_MAX);
	for (unsigned int i = 0; i < CLIENTS; i++)
		in[i] = bound("in", ID(i));
	attach_all();
	was = state_of(f);
	return 0;
}

static int teardown(void **st)
{
	free(was);
	for (unsigned int i = 0; i < CLIENTS; i++)
		close(in[i]);
	close(ctl);
	return end_sim(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control),
		cmocka_unit_test(mads),
	};

	return cmocka_run_group_tests_name("bad datagrams", tests, setup, teardown);
}
