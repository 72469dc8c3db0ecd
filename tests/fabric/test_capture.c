// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Captures: blocks as pcapng has them, CRCs, comments, and the same bytes for the same traffic. With
 * an argument the capture is written there as well, for a dissector.
 */
#include "hosts.h"

#include "fabric/capture.h"
#include "ib/crc.h"

static uint8_t file[1 << 20];
static size_t used, room = sizeof(file);
static const char *copy;

static bool keep(void *ctx, const void *buf, size_t len)
{
	(void)ctx;
	if (len > room - used)
		return false;
	memcpy(file + used, buf, len);
	used += len;
	return true;
}

static int setup_hosts(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4"));
	place(0, 1);
	place(1, 7);
	used = 0;
	room = sizeof(file);
	return 0;
}

static uint32_t word(size_t at)
{
	uint32_t v;

	memcpy(&v, file + at, sizeof(v));
	return v;
}

struct seen {
	unsigned int packets[8];	/* by interface */
	unsigned int comments;
	unsigned int mads;
	char comment[64];		/* the last */
};

/* An ERF record of @len bytes with a packet whose CRCs are right. Return: whether it has a MAD. */
static bool check_packet(const uint8_t *erf, size_t len)
{
	const uint8_t *pkt = erf + 16;
	uint32_t icrc = 0;
	uint8_t want[4];

	assert_int_equal(erf[8], 21);
	assert_int_equal(ib_get_be16(erf + 10), len);
	assert_int_equal(ib_get_be16(erf + 14), len - 16);
	len -= 16;
	assert_int_equal(ib_vcrc(pkt, len - 2), ib_vcrc_get(pkt + len - 2));
	assert_true((pkt[1] & 3) >= IB_LNH_IBA_LOCAL);
	assert_int_equal(ib_icrc(pkt, len - 6, &icrc), 0);
	ib_icrc_put(want, icrc);
	assert_memory_equal(want, pkt + len - 6, 4);
	return pkt[IB_LRH_LEN] == IB_OP_UD_SEND_ONLY;
}

/* Checks all blocks and packets. */
static struct seen check_file(void)
{
	struct seen s = { 0 };
	unsigned int ifaces = 0;
	size_t len;

	for (size_t at = 0; at < used; at += len) {
		const uint32_t type = word(at);
		size_t body;

		len = word(at + 4);
		assert_int_equal(len % 4, 0);
		assert_true(at + len <= used);
		assert_int_equal(word(at + len - 4), len);
		if (!at) {
			assert_int_equal(type, 0x0a0d0d0a);
			assert_int_equal(word(8), 0x1a2b3c4d);
		}
		ifaces += type == 1;
		if (type != 6)
			continue;
		assert_true(word(at + 8) < ifaces);
		s.packets[word(at + 8)]++;
		body = word(at + 20);
		assert_int_equal(word(at + 24), body);
		s.mads += check_packet(file + at + 28, body);
		body = 28 + (body + 3) / 4 * 4;
		if (body + 8 < len && word(at + body)) {
			uint16_t n;

			memcpy(&n, file + at + body + 2, sizeof(n));
			snprintf(s.comment, sizeof(s.comment), "%.*s", n,
				 (const char *)file + at + body + 4);
			s.comments++;
		}
	}
	return s;
}

/* Traffic of all kinds past both ends of a wire between switches. */
static struct seen traffic(void)
{
	uint32_t out[8], port[2];
	struct fab_capture *c;

	path(1, LID(7), out, 8);
	port[0] = out[0];
	port[1] = f->port[out[0]].peer;
	c = fab_capture_start(d, port, 2, keep, NULL);
	assert_non_null(c);
	for (unsigned int i = 0; i < 10; i++) {
		assert_true(send_data(0, 0, LID(7), 64 + 4 * i, (uint8_t)i));
		now += 1000;
		pump(NULL);
	}
	get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0, LID(f->port[port[1]].node));
	f->sw[f->node[f->port[port[1]].node].sw].lft[LID(7)] = IB_LFT_NO_PORT;
	m.epoch++;
	assert_true(send_data(0, 0, LID(7), 64, 1));
	pump(NULL);
	fab_capture_stop(c);
	assert_int_equal(m.taps, 0);
	assert_null(d->by_port[port[0]]->tap);
	/* no longer captured */
	assert_true(send_data(0, 0, LID(6), 64, 1));
	pump(NULL);
	return check_file();
}

static void test_file(void **st)
{
	struct seen s = traffic();
	FILE *to;

	(void)st;
	/* 0: received by the output's port, 1: sent, 2: received at the other end, 3: sent there */
	assert_int_equal(s.packets[1], 11 + s.mads / 4);
	assert_int_equal(s.packets[2], s.packets[1]);
	assert_int_equal(s.packets[0], s.packets[3]);
	assert_int_equal(s.comments, 1);
	assert_string_equal(s.comment, "dropped: no route");
	if (!copy)
		return;
	to = fopen(copy, "wb");
	assert_non_null(to);
	assert_int_equal(fwrite(file, 1, used, to), used);
	fclose(to);
}

static void test_same(void **st)
{
	static uint8_t first[sizeof(file)];
	size_t len;

	traffic();
	len = used;
	memcpy(first, file, len);
	teardown_hosts(st);
	setup_hosts(st);
	traffic();
	assert_int_equal(used, len);
	assert_memory_equal(file, first, len);
}

/* Without room packets are lost and counted; the blocks that are there are whole. */
static void test_room(void **st)
{
	const uint32_t port = port_of_host(7);
	struct fab_capture *c;
	uint64_t lost;

	(void)st;
	room = 0;
	assert_null(fab_capture_start(d, &port, 1, keep, NULL));
	room = 2000;
	c = fab_capture_start(d, &port, 1, keep, NULL);
	assert_non_null(c);
	for (unsigned int i = 0; i < 20; i++)
		assert_true(send_data(0, 0, LID(7), 512, (uint8_t)i));
	pump(NULL);
	lost = c->lost[1];
	assert_in_range(lost, 1, 19);
	assert_int_equal(c->packets[1] + lost, 20);
	room = sizeof(file);
	fab_capture_stop(c);
	assert_int_equal(check_file().packets[1], 20 - lost);
	assert_int_equal(count_data(1, 0), 20);
}

/* At a machine's port: what comes by its link, and what leaves by it. */
static void test_machine(void **st)
{
	const uint32_t port[2] = { port_of_host(1), port_of_host(7) };
	struct fab_capture *c = fab_capture_start(d, port, 2, keep, NULL);
	struct seen s;

	(void)st;
	assert_non_null(c);
	for (unsigned int i = 0; i < 5; i++)
		assert_true(send_data(0, 0, LID(7), 512, (uint8_t)i));
	assert_true(send_data(0, 0, LID(3), 512, 0));
	pump(NULL);
	fab_capture_stop(c);
	s = check_file();
	assert_int_equal(s.packets[0], 6);
	assert_int_equal(s.packets[3], 5);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_file), T(test_same), T(test_room), T(test_machine),
#undef T
	};

	copy = argc > 1 ? argv[1] : NULL;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
