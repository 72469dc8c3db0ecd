/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a port accepts from the wire (IBTA vol 1, 9.6.1): one good packet is caught, spoilt
 * in one place at a time, and given to the engine; at last it arrives as it was.
 */
#include <stdlib.h>

#include "ib/crc.h"
#include "ib/packet.h"
#include "rig.h"

struct caught {
	uint8_t data[5000];
	uint32_t len;
};

static enum host_fate catch(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	struct caught *c = arg;

	(void)from;
	(void)port;
	memcpy(c->data, frame, len);
	c->len = len;
	return HOST_DROP;
}

/* Give @c to side 1; with @icrc the ICRC is said to be there. */
static void inject(struct rig *r, const struct caught *c, bool icrc)
{
	ohca_rx(r->h[1]->e, 0, c->data[0] >> 4, c->data, c->len, icrc);
	rig_run(r);
}

/* The first byte of side 1's memory: has the WRITE or the SEND come? */
static bool arrived(struct rig *r)
{
	return *(uint8_t *)host_buf_ptr(r->h[1], &r->mr[1].buf, 50) != 0;
}

static void caught_write(struct rig *r, struct caught *c, struct rig_opt opt)
{
	rig_up(r, opt);
	host_hook_set(r->h[0], 0, catch, c);
	memset(host_buf_ptr(r->h[0], &r->mr[0].buf, 0), 0x77, 101);
	if (opt.type == OHCA_QPT_UD) {
		rig_recv(r, 1, 5, 0, 200);
		rig_send(r, 0, 1, 0, 101);
	} else {
		rig_write(r, 0, 1, 0, 0, 101);
	}
	rig_run(r);
	host_hook_set(r->h[0], 0, NULL, NULL);
	assert_true(c->len > 100);
}

/** struct spoil - byte @off of the packet is xored with @x; @cnt must count it */
struct spoil {
	const char *what;
	unsigned int off;
	uint8_t x;
	enum ohca_counter cnt;
};

static void spoilt(uint8_t type, const struct spoil *s, unsigned int n)
{
	struct caught c, bad;
	struct rig r;

	caught_write(&r, &c, (struct rig_opt){ .type = type, .mtu = 1 });
	for (unsigned int i = 0; i < n; i++) {
		uint64_t before = host_counter(r.h[1], s[i].cnt);

		bad = c;
		bad.data[s[i].off] ^= s[i].x;
		inject(&r, &bad, false);
		if (host_counter(r.h[1], s[i].cnt) != before + 1)
			fail_msg("%s: not counted", s[i].what);
		if (arrived(&r))
			fail_msg("%s: accepted", s[i].what);
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
		no_event(r.h[1]);
	}
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
}

static void test_rc(void **state)
{
	static const struct spoil s[] = {
		{ "link version", 0, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "management lane", 0, 0xf0, OHCA_CNT_RX_BAD_PKT },
		{ "raw", 1, 0x02, OHCA_CNT_RX_BAD_PKT },
		{ "GRH that is none", 1, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "DLID of another", 3, 0x04, OHCA_CNT_RX_BAD_PKT },
		{ "DLID 0", 3, 0x02, OHCA_CNT_RX_BAD_PKT },
		{ "multicast DLID", 2, 0xc0, OHCA_CNT_RX_BAD_PKT },
		{ "length", 5, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "SLID of another", 7, 0x08, OHCA_CNT_RX_BAD_QP },
		{ "multicast SLID", 6, 0xc0, OHCA_CNT_RX_BAD_PKT },
		{ "opcode not assigned", 8, 0x15, OHCA_CNT_RX_BAD_PKT },
		{ "opcode of UC", 8, 0x20, OHCA_CNT_RX_BAD_QP },
		{ "opcode of RD", 8, 0x40, OHCA_CNT_RX_BAD_QP },
		{ "transport version", 9, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "P_Key", 11, 0x01, OHCA_CNT_RX_BAD_PKEY },
		{ "invalid P_Key", 10, 0x7f, OHCA_CNT_RX_BAD_PKEY },
		{ "no such QP", 15, 0x40, OHCA_CNT_RX_BAD_QP },
		{ "QP out of range", 13, 0x40, OHCA_CNT_RX_BAD_QP },
	};

	(void)state;
	spoilt(OHCA_QPT_RC, s, sizeof(s) / sizeof(s[0]));
}

static void test_ud(void **state)
{
	static const struct spoil s[] = {
		{ "P_Key", 11, 0x01, OHCA_CNT_RX_BAD_PKEY },
		{ "Q_Key", 23, 0x01, OHCA_CNT_RX_BAD_QKEY },
		{ "opcode of RC", 8, 0x60, OHCA_CNT_RX_BAD_QP },
		{ "multicast without GRH", 2, 0xc0, OHCA_CNT_RX_BAD_PKT },
	};

	(void)state;
	spoilt(OHCA_QPT_UD, s, sizeof(s) / sizeof(s[0]));
}

/* Cut off anywhere, or longer than it says: dropped, and not read beyond its end. */
static void test_length(void **state)
{
	struct caught c;
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	for (uint32_t len = 0; len < c.len; len++) {
		uint8_t *exact = malloc(len + 1);

		memcpy(exact, c.data, len);
		ohca_rx(r.h[1]->e, 0, 0, exact, len, len & 1);
		free(exact);
	}
	ohca_rx(r.h[1]->e, 0, 0, c.data, c.len + 4, false);
	/* what the LRH says and what there is agree, but it is too short for its opcode */
	for (uint32_t len = 8; len < 44; len += 4) {
		uint8_t *exact = malloc(len);

		memcpy(exact, c.data, len);
		ib_put_be16(exact + 4, (uint16_t)(len / 4));
		ohca_rx(r.h[1]->e, 0, 0, exact, len, false);
		free(exact);
	}
	rig_run(&r);
	assert_false(arrived(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), c.len + 1 + 9);
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_down(&r);
}

/* The ICRC is checked when it is there, and only then. */
static void test_icrc(void **state)
{
	struct caught c;
	struct rig r;
	uint32_t icrc;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	inject(&r, &c, true);
	assert_false(arrived(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), 1);
	assert_int_equal(ib_icrc(c.data, c.len - 4, &icrc), 0);
	ib_icrc_put(c.data + c.len - 4, icrc);
	c.data[40] ^= 1;
	inject(&r, &c, true);
	assert_false(arrived(&r));
	c.data[40] ^= 1;
	inject(&r, &c, true);
	assert_true(arrived(&r));
	rig_down(&r);
}

/* Data does not pass a port below Armed; at an Armed one it makes it Active. */
static void test_port_state(void **state)
{
	struct caught c;
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	host_cable(r.h[1], 0, false);
	rig_run(&r);
	inject(&r, &c, false);
	host_cable(r.h[1], 0, true);
	rig_run(&r);
	inject(&r, &c, false);
	assert_false(arrived(&r));
	host_port_set(r.h[1], 0, 2, IB_PS_ARMED);
	host_port_set(r.h[0], 0, 1, IB_PS_ACTIVE);
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
}

/* With a GRH in the QP's path, the packet's GRH must be its reverse. */
static void test_grh(void **state)
{
	struct ohca_hw_qp_attr a[2];
	struct caught c = { .len = 0 }, bad;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .cold = true });
	for (unsigned int i = 0; i < 2; i++) {
		static const uint8_t prefix[8] = { 0xfe, 0x80 };

		a[i] = rig_attr(&r, i);
		a[i].av.flags = OHCA_AV_GRH;
		a[i].av.hop_limit = 1;
		memcpy(a[i].av.dgid, prefix, 8);
		ib_put_be64(a[i].av.dgid + 8, r.h[1 - i]->cfg.node_guid + 1);
		rig_connect(&r, i, a[i]);
	}
	host_hook_set(r.h[0], 0, catch, &c);
	memset(host_buf_ptr(r.h[0], &r.mr[0].buf, 0), 0x77, 101);
	rig_write(&r, 0, 1, 0, 0, 101);
	rig_run(&r);
	host_hook_set(r.h[0], 0, NULL, NULL);
	for (unsigned int off = 16; off < 48; off += 5) {
		bad = c;
		bad.data[off] ^= 2;
		inject(&r, &bad, false);
		assert_false(arrived(&r));
	}
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_QP), 7);
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_down(&r);
}

/* Violations of P_Key and Q_Key are traps for the subnet manager. */
static void test_traps(void **state)
{
	struct caught c, bad, out = { .len = 0 };
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .type = OHCA_QPT_UD });
	host_hook_set(r.h[1], 0, catch, &out);
	bad = c;
	bad.data[11] ^= 1;
	inject(&r, &bad, false);
	assert_int_equal(out.len, 8 + 12 + 8 + 256 + 4);
	assert_int_equal(out.data[0] >> 4, 15);
	assert_int_equal(out.data[28 + 3], IB_METHOD_TRAP);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rc),
		cmocka_unit_test(test_ud),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_icrc),
		cmocka_unit_test(test_port_state),
		cmocka_unit_test(test_grh),
		cmocka_unit_test(test_traps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
