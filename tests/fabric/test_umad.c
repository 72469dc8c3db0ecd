// SPDX-License-Identifier: GPL-2.0-or-later
/* Agents of libohca-umad.so without a link: responses that come late, and those without RESP. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "umad/agent.h"
#include "umad/node.h"
#include "umad/wire.h"

static struct ib_mad sent;

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
	return 0;
}

/* A request of an agent of @class, with a time limit of 1 ms, is in @sent. Return: the file. */
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

static int receive(int fd, struct ib_user_mad *h)
{
	static uint8_t buf[sizeof(*h) + 4096];
	size_t len = 4096;
	const int r = um_file_receive(fd, buf, &len);

	memcpy(h, buf, sizeof(*h));
	return r;
}

/* A message in one segment, the answer to @sent. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_message),
		cmocka_unit_test(test_trap_repress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
