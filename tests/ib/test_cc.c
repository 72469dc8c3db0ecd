// SPDX-License-Identifier: GPL-2.0-or-later
/* The congestion control agent: attributes, statuses, keys and leases, and the log of a switch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ib/cc_agent.h"

#define PORTS	100u
#define S	1000000000ull

static const struct ib_cc_node sw = { .is_switch = true, .nports = PORTS, .resp_time = 8 };
static const struct ib_cc_node ca = { .nports = 1, .resp_time = 8 };

static struct ib_cc *cc;
static struct ib_mad mad;
static uint8_t *const data = (uint8_t *)&mad + IB_CC_DATA_OFF;
static uint8_t *const log_data = (uint8_t *)&mad + IB_CC_LOG_OFF;
static uint64_t key, now;

static int setup(void **st)
{
	(void)st;
	cc = calloc(1, sizeof(*cc) + (PORTS + 1) * sizeof(cc->port[0]));
	memset(&mad, 0, sizeof(mad));
	key = 0;
	now = 1000 * S;
	return cc ? 0 : -1;
}

static int teardown(void **st)
{
	(void)st;
	free(cc);
	return 0;
}

#define NO_ANSWER	-1

/* Return: the status of the answer, or NO_ANSWER. */
static int ask(const struct ib_cc_node *n, uint8_t method, uint16_t attr, uint32_t mod)
{
	mad.hdr = (struct ib_mad_hdr){
		.base_version = 1, .mgmt_class = IB_CLASS_CC, .class_version = 2, .method = method,
		.attr_id = ib_to_be16(attr), .attr_mod = ib_to_be32(mod),
	};
	ib_put_be64((uint8_t *)&mad + IB_CC_KEY_OFF, key);
	switch (ib_cc_process(n, cc, &mad, now)) {
	case IB_CC_DROP:
		assert_int_equal(mad.hdr.method, method);
		return NO_ANSWER;
	case IB_CC_CHANGED:
		assert_int_equal(method, IB_METHOD_SET);
		assert_int_equal(ib_be16(mad.hdr.status), IB_MAD_OK);
		/* fall through */
	default:
		assert_int_equal(mad.hdr.method, IB_METHOD_GET_RESP);
		return ib_be16(mad.hdr.status);
	}
}

static void test_statuses(void **st)
{
	static const uint16_t read_only[] = { 0x01, 0x11, 0x13, 0x18 }, of_switch[] = { 0x14, 0x15 },
			      of_ca[] = { 0x16, 0x17 };
	struct ib_mad other;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(read_only); i++) {
		assert_int_equal(ask(&sw, IB_METHOD_GET, read_only[i], 0), IB_MAD_OK);
		assert_int_equal(ask(&ca, IB_METHOD_GET, read_only[i], 0), IB_MAD_OK);
		assert_int_equal(ask(&sw, IB_METHOD_SET, read_only[i], 0), IB_MAD_BAD_METHOD_ATTR);
		assert_int_equal(ask(&sw, IB_METHOD_GET, read_only[i], 1), IB_MAD_BAD_FIELD);
	}
	for (unsigned int i = 0; i < 2; i++) {
		for (uint8_t method = IB_METHOD_GET; method <= IB_METHOD_SET; method++) {
			memset(data, 0, IB_CC_DATA_LEN);
			assert_int_equal(ask(&sw, method, of_switch[i], 0), IB_MAD_OK);
			assert_int_equal(ask(&ca, method, of_switch[i], 0), IB_MAD_BAD_METHOD_ATTR);
			assert_int_equal(ask(&ca, method, of_ca[i], 0), IB_MAD_OK);
			assert_int_equal(ask(&sw, method, of_ca[i], 0), IB_MAD_BAD_METHOD_ATTR);
		}
	}
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x19, 0), IB_MAD_BAD_METHOD_ATTR);
	assert_int_equal(ask(&sw, 0x14, 0x14, 0), IB_MAD_BAD_METHOD);
	assert_int_equal(ask(&sw, IB_METHOD_GET_RESP, 0x14, 0), NO_ANSWER);
	assert_int_equal(ask(&sw, IB_METHOD_TRAP, 0x02, 0), NO_ANSWER);
	assert_int_equal(ask(&sw, IB_METHOD_TRAP_REPRESS, 0x02, 0), NO_ANSWER);
	/* the version of the class is 2 */
	ask(&sw, IB_METHOD_GET, 0x14, 0);
	other = mad;
	other.hdr.method = IB_METHOD_GET;
	other.hdr.class_version = 1;
	assert_int_equal(ib_cc_process(&sw, cc, &other, now), IB_CC_REPLY);
	assert_int_equal(ib_be16(other.hdr.status), IB_MAD_BAD_VERSION);
	/* 101 ports are in three blocks of 48, and a CCT has two blocks */
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x15, 2), IB_MAD_OK);
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x15, 3), IB_MAD_BAD_FIELD);
	assert_int_equal(ask(&sw, IB_METHOD_SET, 0x15, 0xffffffff), IB_MAD_BAD_FIELD);
	assert_int_equal(ask(&ca, IB_METHOD_SET, 0x17, 1), IB_MAD_OK);
	assert_int_equal(ask(&ca, IB_METHOD_SET, 0x17, 2), IB_MAD_BAD_FIELD);
	memset(data, 0, IB_CC_DATA_LEN);
	ib_put_be16(data, IB_CCT_ENTRIES);
	assert_int_equal(ask(&ca, IB_METHOD_SET, 0x17, 0), IB_MAD_BAD_FIELD);
	ib_put_be16(data, IB_CCT_ENTRIES - 1);
	assert_int_equal(ask(&ca, IB_METHOD_SET, 0x17, 0), IB_MAD_OK);
}

/* Random MADs: the agent writes only its own state, and a Get shows what a Set wrote. */
static void test_any_bits(void **st)
{
	uint64_t rng = 1;

	(void)st;
	for (unsigned int i = 0; i < 20000; i++) {
		const struct ib_cc_node *n = &sw;
		uint8_t *b = (uint8_t *)&mad;

		for (unsigned int k = 0; k < sizeof(mad); k += 8) {
			rng ^= rng << 13;
			rng ^= rng >> 7;
			rng ^= rng << 17;
			memcpy(b + k, &rng, 8);
		}
		/* switch and adapter share the memory of their state, so it begins empty */
		memset(cc, 0, sizeof(*cc));
		if (rng & 1)
			n = &ca;
		ask(n, (uint8_t)(rng >> 8 & 3), (uint16_t)(0x10 + (rng >> 16 & 15)), (uint32_t)(rng >> 60));
		assert_true(cc->ca.ccti_limit < IB_CCT_ENTRIES || n == &sw);
	}
}

/* All requests except two Gets need the CC_Key, and the end of a lease ends the protection. */
static void test_key(void **st)
{
	(void)st;
	memset(data, 0, IB_CC_DATA_LEN);
	ib_put_be64(data, 0x1234);
	data[8] = 0x80;
	ib_put_be16(data + 10, 5);
	assert_int_equal(ask(&sw, IB_METHOD_SET, 0x12, 0), IB_MAD_OK);
	assert_int_equal(ib_get_be64(data), 0x1234);	/* the setter may see the key */
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x01, 0), IB_MAD_OK);
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x12, 0), IB_MAD_OK);
	assert_int_equal(ib_get_be64(data), 0);
	assert_int_equal(ib_get_be16(data + 12), 0);
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x14, 0), NO_ANSWER);
	assert_int_equal(ask(&sw, IB_METHOD_SET, 0x12, 0), NO_ANSWER);
	/* the lease of 5 s began with the first of these requests */
	now += 5 * S - 1;
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x12, 0), IB_MAD_OK);
	assert_int_equal(ib_get_be64(data), 0);
	assert_int_equal(ib_get_be16(data + 12), 2);
	now += 1;
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x12, 0), IB_MAD_OK);
	assert_int_equal(ib_get_be64(data), 0x1234);
	assert_int_equal(data[8], 0);
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x14, 0), NO_ANSWER);
	/* a request with the key ends the lease */
	key = 0x1234;
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x13, 0), IB_MAD_OK);
	assert_int_equal(log_data[1], 0);
	key = 0;
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x11, 0), NO_ANSWER);
	key = 0x1234;
	memset(data, 0, IB_CC_DATA_LEN);
	ib_put_be64(data, 0x1234);
	ib_put_be16(data + 12, 1);
	assert_int_equal(ask(&sw, IB_METHOD_SET, 0x12, 0), IB_MAD_OK);
	assert_int_equal(ib_get_be16(data + 12), 4);	/* 1 keeps the counter, 0 resets it */
	ib_put_be16(data + 12, 0);
	assert_int_equal(ask(&sw, IB_METHOD_SET, 0x12, 0), IB_MAD_OK);
	assert_int_equal(ib_get_be16(data + 12), 0);
}

/* The last 15 events, the newest first; a read resets the counter and the map. */
static void test_log(void **st)
{
	(void)st;
	for (unsigned int i = 0; i < 20; i++)
		ib_cc_event(cc, i, (uint16_t)(100 + i), 7, 3, now + IB_CC_TIMER_NS * i);
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x13, 0), IB_MAD_OK);
	assert_int_equal(log_data[0], 1);
	assert_int_equal(ib_get_be16(log_data + 2), 20);
	assert_int_equal(ib_get_be32(log_data + 4), (uint32_t)(now / 1024));
	assert_int_equal(ib_get_be32(log_data + 8 + 28), 0xfffff);
	for (unsigned int i = 0; i < 15; i++) {
		const uint8_t *e = log_data + 40 + 12 * i;

		assert_int_equal(ib_get_be16(e), 119 - i);
		assert_int_equal(ib_get_be16(e + 2), 7);
		assert_int_equal(e[4], 0x30);
		assert_int_equal(ib_get_be32(e + 8), (uint32_t)(now / 1024) + 19 - i);
	}
	assert_int_equal(ask(&sw, IB_METHOD_GET, 0x13, 0), IB_MAD_OK);
	assert_int_equal(ib_get_be16(log_data + 2), 0);
	assert_int_equal(ib_get_be32(log_data + 8 + 28), 0);
	assert_int_equal(ib_get_be16(log_data + 40), 119);
}

/* A port has settings of its own, or uses those of the switch. */
static void test_port(void **st)
{
	struct ib_cc_port p;

	(void)st;
	cc->sw.threshold = 9;
	cc->sw.marking_rate = 2;
	memset(data, 0, IB_CC_DATA_LEN);
	data[4] = 0x85;			/* port 49: valid, threshold 5 */
	data[5] = 6;
	ib_put_be16(data + 6, 700);
	data[8] = 0xc5;			/* port 50: by credits */
	assert_int_equal(ask(&sw, IB_METHOD_SET, 0x15, 1), IB_MAD_OK);
	p = ib_cc_of_port(cc, 49);
	assert_int_equal(p.threshold, 5);
	assert_int_equal(p.packet_size, 6);
	assert_int_equal(p.marking_rate, 700);
	for (unsigned int num = 48; num <= 50; num += 2) {
		p = ib_cc_of_port(cc, num);
		assert_int_equal(p.threshold, 9);
		assert_int_equal(p.packet_size, 0);
		assert_int_equal(p.marking_rate, 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_statuses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_any_bits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_log, setup, teardown),
		cmocka_unit_test_setup_teardown(test_port, setup, teardown),
	};

	return cmocka_run_group_tests_name("congestion control agent", tests, NULL, NULL);
}
