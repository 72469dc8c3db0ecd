// SPDX-License-Identifier: GPL-2.0-or-later
/* Agents of libohca-umad.so without a link: which responses belong to them, and how many wait. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "umad/agent.h"
#include "umad/node.h"
#include "umad/rmpp.h"
#include "umad/wire.h"

static struct ib_mad sent;
static int64_t clock_ns;

void um_node_send(const ib_mad_addr_t *to, const struct ib_mad *mad)
{
	(void)to;
	sent = *mad;
}

void um_wire_wake(int64_t due_ns)
{
	(void)due_ns;
}

int64_t um_now_ns(void)
{
	return clock_ns;
}

/*
 * Sends a request of an agent of @class, with a time limit of 1 ms; it is in @sent. Return: the
 * file.
 */
static int request(uint8_t class, uint8_t method)
{
	struct umad_reg_attr attr = { .mgmt_class = class, .rmpp_version = 1 };
	struct {
		struct ib_user_mad h;
		struct ib_mad mad;
	} m = { .mad.hdr = { .mgmt_class = class, .method = method } };
	const int fd = um_file_open();

	assert_true(fd >= 0);
	assert_int_equal(um_agent_add(fd, &attr), 0);
	assert_int_equal(um_agent_send(fd, 0, &m, sizeof(m.mad), 1, 0, 0), 0);
	return fd;
}

/* Sends another request of the same agent. */
static void request_again(int fd, uint32_t tid)
{
	struct {
		struct ib_user_mad h;
		struct ib_mad mad;
	} m = { .mad.hdr = { .mgmt_class = IB_CLASS_SUBN_ADM, .method = IB_METHOD_GET } };

	m.mad.hdr.tid = ib_to_be64(tid);
	assert_int_equal(um_agent_send(fd, 0, &m, sizeof(m.mad), 1, 0, 0), 0);
}

static void read_whole(int fd, size_t len)
{
	uint8_t *buf = malloc(sizeof(struct ib_user_mad) + len);

	assert_non_null(buf);
	assert_int_equal(um_file_receive(fd, buf, &len), 0);
	free(buf);
}

static int receive(int fd, struct ib_user_mad *h)
{
	static uint8_t buf[sizeof(*h) + 4096];
	size_t len = 4096;
	const int r = um_file_receive(fd, buf, &len);

	memcpy(h, buf, sizeof(*h));
	return r;
}

/* Delivers a message in one segment, the response to @sent. */
static void answer(void)
{
	static const uint8_t rmpp[12] = { 1, 1, 7, [7] = 1, [11] = 220 };
	const ib_mad_addr_t from = { 0 };
	struct ib_mad mad = sent;

	mad.hdr.method |= IB_METHOD_RESP;
	memcpy((uint8_t *)&mad + sizeof(mad.hdr), rmpp, sizeof(rmpp));
	um_agent_deliver(&mad, &from);
}

static void test_late_message(void **st)
{
	const int fd = request(IB_CLASS_SUBN_ADM, IB_METHOD_GET);
	struct ib_user_mad h;

	(void)st;
	um_agent_timer(1000000);
	assert_int_equal(receive(fd, &h), 0);
	assert_int_equal(h.status, ETIMEDOUT);
	answer();
	assert_int_equal(receive(fd, &h), -EAGAIN);
	um_file_close(fd);
}

static void test_trap_repress(void **st)
{
	const int fd = request(IB_CLASS_SUBN_ADM, IB_METHOD_TRAP);
	const ib_mad_addr_t from = { 0 };
	struct ib_mad mad = sent;
	struct ib_user_mad h;

	(void)st;
	mad.hdr.method = IB_METHOD_TRAP_REPRESS;
	assert_true(um_agent_deliver(&mad, &from));
	assert_int_equal(receive(fd, &h), 0);
	assert_int_equal(h.status, 0);
	um_file_close(fd);
}

/* A response from a LID other than the destination of the request belongs to another agent. */
static void test_other_sender(void **st)
{
	const int fd = request(IB_CLASS_PERF, IB_METHOD_GET);
	const ib_mad_addr_t other = { .lid = ib_to_be16(7) }, from = { 0 };
	struct ib_mad mad = sent;
	struct ib_user_mad h;

	(void)st;
	mad.hdr.method |= IB_METHOD_RESP;
	assert_false(um_agent_deliver(&mad, &other));
	assert_int_equal(receive(fd, &h), -EAGAIN);
	assert_true(um_agent_deliver(&mad, &from));
	assert_int_equal(receive(fd, &h), 0);
	um_file_close(fd);
}

/* Segment @n of a response with many; all its bytes are data. */
static void a_segment(uint32_t n, bool last)
{
	uint8_t rmpp[12] = { 1, 1, (uint8_t)((n == 1 ? 3 : 1) | (last ? 4 : 0)), [11] = 220 };
	const ib_mad_addr_t from = { 0 };
	struct ib_mad mad = sent;

	ib_put_be32(rmpp + 4, n);
	mad.hdr.method |= IB_METHOD_RESP;
	memcpy((uint8_t *)&mad + sizeof(mad.hdr), rmpp, sizeof(rmpp));
	um_agent_deliver(&mad, &from);
}

static void segment(uint32_t n)
{
	a_segment(n, false);
}

static void last_segment(uint32_t n)
{
	a_segment(n, true);
}

/* A repeated segment does not extend the time limit of the request; the next segment does. */
static void test_repeated_segment(void **st)
{
	const int fd = request(IB_CLASS_SUBN_ADM, IB_METHOD_GET);
	struct ib_user_mad h;

	(void)st;
	clock_ns = 500000;
	segment(1);
	assert_true(um_agent_timer(1200000) == 1500000);
	clock_ns = 1300000;
	segment(2);
	clock_ns = 2000000;
	segment(2);
	segment(1);
	um_agent_timer(2300000);
	assert_int_equal(receive(fd, &h), 0);
	assert_int_equal(h.status, ETIMEDOUT);
	clock_ns = 0;
	um_file_close(fd);
}

/* 64 complete messages do not displace one whose segments still arrive. */
static void test_long_message(void **st)
{
	const int fd = request(IB_CLASS_SUBN_ADM, IB_METHOD_GET);
	const struct ib_mad first = sent;
	struct ib_user_mad h;

	(void)st;
	segment(1);
	for (uint32_t i = 0; i < 2 * UM_RMPP_RECVS; i++) {
		request_again(fd, i + 1);
		answer();
		assert_int_equal(receive(fd, &h), 0);
		assert_int_equal(h.status, 0);
	}
	sent = first;
	segment(2);
	assert_int_equal(receive(fd, &h), -EAGAIN);
	last_segment(3);
	assert_int_equal(receive(fd, &h), 0);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.length, sizeof(h) + 56 + 3 * 200);
	um_file_close(fd);
}

/*
 * A program that does not read has a limited number of bytes in its queue. A request whose response
 * does not fit fails.
 */
static void test_bytes(void **st)
{
	static uint8_t buf[sizeof(struct ib_user_mad) + 1000];
	const int fd = request(IB_CLASS_SUBN_ADM, IB_METHOD_GET);
	size_t all = 0, ended = 0, len;

	(void)st;
	/* a megabyte each */
	for (uint32_t i = 0; i < 80; i++) {
		for (uint32_t n = 1; n < 5000; n++)
			segment(n);
		last_segment(5000);
		request_again(fd, i + 1);
	}
	for (;;) {
		len = 0;
		if (um_file_receive(fd, buf, &len) == -EAGAIN)
			break;
		all += len;
		ended += len == sizeof(struct ib_mad_hdr);
		read_whole(fd, len);
	}
	assert_in_range(all, UM_QUEUE_BYTES - (2u << 20), UM_QUEUE_BYTES + 4096);
	assert_in_range(ended, 80 - 67, 80 - 60);
	um_file_close(fd);
}

/* A response without records, as a subnet manager writes it, is one segment without data. */
static void test_empty_table(void **st)
{
	static const uint8_t rmpp[12] = { 1, 1, 7, [7] = 1, [11] = 20 };
	struct umad_reg_attr attr = { .mgmt_class = IB_CLASS_SUBN_ADM, .rmpp_version = 1 };
	struct {
		struct ib_user_mad h;
		uint8_t mad[56];
	} m = { .mad = { 1, IB_CLASS_SUBN_ADM, 2, 0x92, [26] = 1 } };
	const int fd = um_file_open();

	(void)st;
	assert_true(fd >= 0);
	assert_int_equal(um_agent_add(fd, &attr), 0);
	memset(&sent, 0, sizeof(sent));
	assert_int_equal(um_agent_send(fd, 0, &m, sizeof(m.mad), 0, 0, 0), 0);
	assert_int_equal(sent.hdr.method, 0x92);
	assert_memory_equal((uint8_t *)&sent + sizeof(sent.hdr), rmpp, sizeof(rmpp));
	um_file_close(fd);
}

static int send_two_segments(int fd, unsigned int retries)
{
	struct {
		struct ib_user_mad h;
		uint8_t mad[56 + 300];
	} m = { .mad = { 1, IB_CLASS_SUBN_ADM, 2, 0x14, [15] = 5, [26] = 1 } };

	return um_agent_send(fd, 0, &m, sizeof(m.mad), 1, retries, 0);
}

/* A request of two segments, with a time limit of 1 ms; the first one is in @sent. */
static int request_by_rmpp(unsigned int retries)
{
	struct umad_reg_attr attr = { .mgmt_class = IB_CLASS_SUBN_ADM, .rmpp_version = 1 };
	const int fd = um_file_open();

	assert_true(fd >= 0);
	assert_int_equal(um_agent_add(fd, &attr), 0);
	assert_int_equal(send_two_segments(fd, retries), 0);
	assert_int_equal(sent.hdr.method, 0x14);
	assert_int_not_equal(sent.hdr.tid, ib_to_be64(5));
	return fd;
}

/* Acknowledges segment @n; two more may follow. */
static void acknowledge(uint32_t n)
{
	uint8_t rmpp[12] = { 1, 2, 1 };
	const ib_mad_addr_t from = { 0 };
	struct ib_mad mad = sent;

	ib_put_be32(rmpp + 4, n);
	ib_put_be32(rmpp + 8, n + 2);
	mad.hdr.method ^= IB_METHOD_RESP;
	memcpy((uint8_t *)&mad + sizeof(mad.hdr), rmpp, sizeof(rmpp));
	assert_true(um_agent_deliver(&mad, &from));
}

/*
 * A request of several MADs gets a response of several; the time limit begins with its
 * acknowledgment.
 */
static void test_both_directions(void **st)
{
	const int fd = request_by_rmpp(0);
	struct ib_user_mad h;

	(void)st;
	clock_ns = 900000;
	acknowledge(1);
	um_agent_timer(1800000);
	clock_ns = 1900000;
	acknowledge(2);
	assert_true(um_agent_timer(2800000) == 2900000);
	clock_ns = 2800000;
	segment(1);
	um_agent_timer(3700000);
	assert_int_equal(receive(fd, &h), -EAGAIN);
	last_segment(2);
	assert_int_equal(receive(fd, &h), 0);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.length, sizeof(h) + 56 + 2 * 200);
	um_agent_timer(100000000);
	assert_int_equal(receive(fd, &h), -EAGAIN);
	clock_ns = 0;
	um_file_close(fd);
}

/*
 * Without an acknowledgment, or with one but without a response, the request fails once. Segments
 * that have arrived are not sent again.
 */
static void test_unanswered_message(void **st)
{
	struct ib_user_mad h;

	(void)st;
	for (unsigned int acknowledged = 0; acknowledged <= 2; acknowledged += 2) {
		const int fd = request_by_rmpp(acknowledged);

		for (uint32_t i = 1; i <= acknowledged; i++)
			acknowledge(i);
		memset(&sent, 0, sizeof(sent));
		for (unsigned int i = 1; i < 20; i++)
			um_agent_timer(i * 1000000);
		assert_int_equal(sent.hdr.method != 0, !acknowledged);
		assert_int_equal(receive(fd, &h), 0);
		assert_int_equal(h.status, ETIMEDOUT);
		assert_int_equal(receive(fd, &h), -EAGAIN);
		um_file_close(fd);
	}
}

/*
 * A response is valid even if the acknowledgment of the request is lost; the request has not
 * failed.
 */
static void test_answer_alone(void **st)
{
	const int fd = request_by_rmpp(0);
	struct ib_user_mad h;

	(void)st;
	segment(1);
	last_segment(2);
	assert_int_equal(receive(fd, &h), 0);
	assert_int_equal(h.status, 0);
	for (unsigned int i = 1; i < 20; i++)
		um_agent_timer(i * 1000000);
	assert_int_equal(receive(fd, &h), -EAGAIN);
	um_file_close(fd);
}

/* A request without room is refused, gets no response, and leaves nothing behind. */
static void test_no_room(void **st)
{
	const int fd = request_by_rmpp(0);
	struct ib_user_mad h;

	(void)st;
	for (unsigned int i = 1; i < UM_RMPP_SENDS; i++)
		assert_int_equal(send_two_segments(fd, 0), 0);
	assert_int_equal(send_two_segments(fd, 0), -ENOSPC);
	for (unsigned int i = 1; i < 20; i++)
		um_agent_timer(i * 1000000);
	for (unsigned int i = 0; i < UM_RMPP_SENDS; i++) {
		assert_int_equal(receive(fd, &h), 0);
		assert_int_equal(h.status, ETIMEDOUT);
	}
	assert_int_equal(receive(fd, &h), -EAGAIN);
	segment(1);
	last_segment(2);
	assert_int_equal(receive(fd, &h), -EAGAIN);
	um_file_close(fd);
}

/* ---- two ends of RMPP ---------------------------------------------------------- */

static struct um_rmpp sender, receiver;
static struct ib_mad wire[128];
static bool to_receiver[128];
static unsigned int on_wire, arrived, lost;

static void carry(const ib_mad_addr_t *to, const struct ib_mad *mad)
{
	assert_true(on_wire < 128);
	to_receiver[on_wire] = to->lid == ib_to_be16(2);
	wire[on_wire++] = *mad;
}

static void has_arrived(uint32_t agent, const ib_mad_addr_t *from, const uint8_t *msg, size_t len)
{
	(void)agent;
	(void)from;
	(void)msg;
	arrived = (unsigned int)len;
}

static void is_lost(uint32_t agent, const ib_mad_addr_t *to, const uint8_t *msg)
{
	(void)agent;
	(void)to;
	(void)msg;
	lost++;
}

/*
 * A message of some segments on a wire without loss is acknowledged to its end. Its sender waits
 * for nothing more, and reports no failure later.
 */
static void test_acknowledged(void **st)
{
	static const struct um_rmpp_ops ops = { carry, has_arrived, is_lost };
	const ib_mad_addr_t one = { .lid = ib_to_be16(1) }, two = { .lid = ib_to_be16(2) };
	uint8_t msg[56 + 70 * 200] = { 1, IB_CLASS_SUBN_ADM, 2, 0x92, [26] = 1 };

	(void)st;
	for (unsigned int segments = 0; segments <= 70; segments++) {
		const size_t len = 56 + segments * 200u;

		sender = receiver = (struct um_rmpp){ .ops = &ops };
		on_wire = arrived = lost = 0;
		msg[15] = (uint8_t)segments;
		assert_int_equal(um_rmpp_send(&sender, 1, &two, msg, len, 100, 3, 0), 0);
		while (on_wire) {
			const struct ib_mad mad = wire[0];
			const bool to = to_receiver[0];

			on_wire--;
			memmove(wire, wire + 1, on_wire * sizeof(wire[0]));
			memmove(to_receiver, to_receiver + 1, on_wire * sizeof(to_receiver[0]));
			um_rmpp_receive(to ? &receiver : &sender, 1, to ? &one : &two, &mad, 0);
		}
		assert_int_equal(arrived, len);
		assert_int_equal(sender.nsends, 0);
		um_rmpp_forget(&sender, 1);
		um_rmpp_forget(&receiver, 1);
		assert_int_equal(lost, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_message),
		cmocka_unit_test(test_trap_repress),
		cmocka_unit_test(test_other_sender),
		cmocka_unit_test(test_repeated_segment),
		cmocka_unit_test(test_long_message),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_empty_table),
		cmocka_unit_test(test_both_directions),
		cmocka_unit_test(test_unanswered_message),
		cmocka_unit_test(test_answer_alone),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
