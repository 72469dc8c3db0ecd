/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Directed routes hop by hop, attributes that are tables, details of traps. */
#include "cm.h"

#include <stdlib.h>

#include "ib/field.h"
#include "ib/smp.h"
#include "vectors.h"

static struct ib_smp dr_request(uint8_t hops)
{
	struct ib_smp s;

	memset(&s, 0, sizeof(s));
	s.hdr.base_version = 1;
	s.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	s.hdr.class_version = 1;
	s.hdr.method = IB_METHOD_GET;
	s.hdr.attr_id = ib_to_be16(IB_SMP_ATTR_NODE_INFO);
	s.dr_slid = s.dr_dlid = ib_to_be16(0xffff);
	ib_smp_set_hops(&s, 0, hops);
	return s;
}

/*
 * A line of switches. The manager's CA sends through port 1; an SMP enters switch i through port 10
 * + i and leaves it through port 20 + i. The last node is a CA, which it enters through port 2 of
 * 2, or a switch.
 */
static void line(uint8_t hops, bool to_switch)
{
	struct ib_smp s = dr_request(hops);
	uint8_t port, i;

	for (i = 1; i <= hops; i++)
		s.init_path[i] = i == 1 ? 1 : (uint8_t)(20 + i - 1);
	assert_int_equal(ib_dr_send(&s, false, 1, &port), hops ? IB_DR_FORWARD : IB_DR_LOCAL);
	assert_int_equal(ib_smp_hop_ptr(&s), 1);
	if (!hops)
		return;
	assert_int_equal(port, 1);
	for (i = 1; i < hops; i++) {
		assert_int_equal(ib_dr_recv(&s, true, (uint8_t)(10 + i), 36, &port),
				 IB_DR_FORWARD);
		assert_int_equal(port, 20 + i);
		assert_int_equal(s.ret_path[i], 10 + i);
		assert_int_equal(ib_smp_hop_ptr(&s), i + 1);
	}
	assert_int_equal(ib_dr_recv(&s, to_switch, 2, to_switch ? 36 : 2, &port), IB_DR_LOCAL);
	assert_int_equal(s.ret_path[hops], 2);
	assert_int_equal(ib_smp_hop_ptr(&s), hops + 1);

	ib_smp_make_resp(&s, IB_MAD_OK);
	assert_true(ib_smp_returning(&s));
	assert_int_equal(ib_dr_send(&s, to_switch, to_switch ? 36 : 2, &port), IB_DR_FORWARD);
	assert_int_equal(port, 2);
	for (i = (uint8_t)(hops - 1); i >= 1; i--) {
		assert_int_equal(ib_smp_hop_ptr(&s), i + 1);
		assert_int_equal(ib_dr_recv(&s, true, (uint8_t)(20 + i), 36, &port),
				 IB_DR_FORWARD);
		assert_int_equal(port, 10 + i);
	}
	assert_int_equal(ib_smp_hop_ptr(&s), 1);
	assert_int_equal(ib_dr_recv(&s, false, 1, 1, &port), IB_DR_LOCAL);
	assert_int_equal(ib_smp_hop_ptr(&s), 0);
}

static void lines(void **st)
{
	(void)st;
	for (uint8_t hops = 0; hops < IB_SMP_MAX_HOPS; hops++) {
		if (hops < 15)
			line(hops, false);
		if (hops < 15)
			line(hops, true);
	}
}

static void captured_route(void **st)
{
	/* The SMPs of the capture, as their receivers got them. */
	struct ib_smp s;
	uint8_t port;

	(void)st;
	memcpy(&s, frame_1 + 28, sizeof(s));
	assert_int_equal(ib_be16(s.hdr.attr_id), IB_SMP_ATTR_SM_INFO);
	assert_int_equal(ib_dr_recv(&s, true, 6, 24, &port), IB_DR_FORWARD);
	assert_int_equal(port, 3);
	assert_int_equal(s.ret_path[1], 6);
	memcpy(&s, frame_2 + 28, sizeof(s));
	assert_int_equal(ib_dr_recv(&s, false, 2, 2, &port), IB_DR_LOCAL);
}

static void bad_routes(void **st)
{
	struct ib_smp s;
	uint8_t port;

	(void)st;
	/* the sender has not moved it; beyond the end; too long */
	s = dr_request(3);
	assert_int_equal(ib_dr_recv(&s, true, 1, 36, &port), IB_DR_DISCARD);
	ib_smp_set_hops(&s, 5, 3);
	assert_int_equal(ib_dr_recv(&s, true, 1, 36, &port), IB_DR_DISCARD);
	ib_smp_set_hops(&s, 1, 64);
	assert_int_equal(ib_dr_recv(&s, true, 1, 36, &port), IB_DR_DISCARD);
	assert_int_equal(ib_dr_send(&s, true, 36, &port), IB_DR_DISCARD);
	/* a CA does not forward */
	ib_smp_set_hops(&s, 1, 3);
	s.init_path[2] = 1;
	assert_int_equal(ib_dr_recv(&s, false, 1, 2, &port), IB_DR_DISCARD);
	/* ports that do not exist */
	s = dr_request(3);
	ib_smp_set_hops(&s, 1, 3);
	s.init_path[2] = 37;
	assert_int_equal(ib_dr_recv(&s, true, 1, 36, &port), IB_DR_DISCARD);
	s = dr_request(3);
	ib_smp_set_hops(&s, 1, 3);
	assert_int_equal(ib_dr_recv(&s, true, 1, 36, &port), IB_DR_DISCARD);
	s = dr_request(1);
	s.init_path[1] = 3;
	assert_int_equal(ib_dr_send(&s, false, 2, &port), IB_DR_DISCARD);
	/* returning: pointer beyond the count, missing path */
	s = dr_request(2);
	ib_smp_make_resp(&s, 0);
	ib_smp_set_hops(&s, 3, 2);
	assert_int_equal(ib_dr_recv(&s, true, 1, 36, &port), IB_DR_DISCARD);
	ib_smp_set_hops(&s, 2, 2);
	assert_int_equal(ib_dr_recv(&s, true, 1, 36, &port), IB_DR_DISCARD);
	ib_smp_set_hops(&s, 2, 2);
	assert_int_equal(ib_dr_send(&s, true, 36, &port), IB_DR_DISCARD);
}

static void mixed_routes(void **st)
{
	struct ib_smp s = dr_request(1), hca;
	uint8_t port;

	(void)st;
	/* The directed part ends at a switch, a LID routed one follows. */
	s.dr_dlid = ib_to_be16(7);
	ib_smp_set_hops(&s, 1, 1);
	assert_int_equal(ib_dr_recv(&s, true, 4, 36, &port), IB_DR_FORWARD);
	assert_int_equal(port, IB_DR_PORT_BY_LID);
	assert_int_equal(ib_smp_hop_ptr(&s), 2);
	/* ... and arrives at its end node. */
	assert_int_equal(ib_dr_recv(&s, false, 1, 1, &port), IB_DR_LOCAL);
	/* The answer goes by LIDs to that switch, which begins its directed part. */
	ib_smp_make_resp(&s, 0);
	assert_int_equal(ib_dr_send(&s, false, 1, &port), IB_DR_FORWARD);
	assert_int_equal(port, IB_DR_PORT_BY_LID);
	assert_int_equal(ib_smp_hop_ptr(&s), 2);
	assert_true(ib_smp_ends_by_lid(&s));
	hca = s;
	assert_int_equal(ib_dr_recv(&hca, false, 1, 1, &port), IB_DR_DISCARD);
	assert_int_equal(ib_dr_recv(&s, true, 9, 36, &port), IB_DR_FORWARD);
	assert_int_equal(port, 4);
	assert_int_equal(ib_smp_hop_ptr(&s), 1);
	assert_false(ib_smp_ends_by_lid(&s));
	assert_int_equal(ib_dr_recv(&s, false, 1, 1, &port), IB_DR_LOCAL);
	/* No directed part: by LIDs both ways. */
	s = dr_request(0);
	s.dr_dlid = ib_to_be16(7);
	assert_int_equal(ib_dr_send(&s, false, 1, &port), IB_DR_FORWARD);
	assert_int_equal(port, IB_DR_PORT_BY_LID);
	assert_int_equal(ib_dr_recv(&s, false, 1, 1, &port), IB_DR_LOCAL);
	ib_smp_make_resp(&s, 0);
	assert_int_equal(ib_dr_send(&s, false, 1, &port), IB_DR_FORWARD);
	assert_int_equal(port, IB_DR_PORT_BY_LID);
	assert_int_equal(ib_dr_recv(&s, false, 1, 1, &port), IB_DR_LOCAL);
	assert_int_equal(ib_smp_hop_ptr(&s), 0);
	/* On return the directed part ends and DrSLID is a LID. */
	s = dr_request(1);
	ib_smp_make_resp(&s, 0);
	s.dr_slid = ib_to_be16(9);
	ib_smp_set_hops(&s, 1, 1);
	assert_int_equal(ib_dr_recv(&s, true, 4, 36, &port), IB_DR_FORWARD);
	assert_int_equal(port, IB_DR_PORT_BY_LID);
	ib_smp_set_hops(&s, 1, 1);
	assert_int_equal(ib_dr_recv(&s, false, 1, 1, &port), IB_DR_DISCARD);
}

static void hostile_routes(void **st)
{
	(void)st;
	srand(4);
	for (unsigned int i = 0; i < 200000; i++) {
		struct ib_smp s;
		uint8_t *b = (uint8_t *)&s, port, nports = (uint8_t)(1 + rand() % 36);
		enum ib_dr_verdict v;

		for (size_t k = 0; k < sizeof(s); k++)
			b[k] = (uint8_t)rand();
		if (i & 1)
			ib_smp_set_hops(&s, (uint8_t)(rand() % 66), (uint8_t)(rand() % 66));
		if (i & 2)
			v = ib_dr_recv(&s, i & 4, 1, nports, &port);
		else
			v = ib_dr_send(&s, i & 4, nports, &port);
		if (v == IB_DR_FORWARD)
			assert_true(port == IB_DR_PORT_BY_LID || (port >= 1 && port <= nports));
	}
}

static void tables(void **st)
{
	struct ib_sl2vl t = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } }, u;
	struct ib_vlarb_entry e[IB_VLARB_BLOCK], f[IB_VLARB_BLOCK];
	uint8_t d[IB_SMP_DATA_LEN];

	(void)st;
	ib_sl2vl_pack(&t, d);
	assert_true(ib_get_be64(d) == 0x0123456789abcdefull);
	ib_sl2vl_unpack(d, &u);
	assert_memory_equal(&t, &u, sizeof(t));
	for (unsigned int i = 0; i < IB_VLARB_BLOCK; i++)
		e[i] = (struct ib_vlarb_entry){ i % 15, (uint8_t)(i * 7) };
	ib_vlarb_block_pack(e, d);
	assert_int_equal(d[2 * 9], 9);
	assert_int_equal(d[2 * 9 + 1], 63);
	ib_vlarb_block_unpack(d, f);
	assert_memory_equal(e, f, sizeof(e));
	ib_pkey_block_put(d, 31, 0xffff);
	assert_int_equal(ib_pkey_block_get(d, 31), 0xffff);
	ib_guid_block_put(d, 7, 0x1122334455667788ull);
	assert_true(ib_guid_block_get(d, 7) == 0x1122334455667788ull && d[56] == 0x11);
	ib_mft_block_put(d, 1, 0x8001);
	assert_int_equal(ib_mft_block_get(d, 1), 0x8001);
}

static void bits(void **st)
{
	uint8_t b[16];

	(void)st;
	for (unsigned int bit = 0; bit < 60; bit++)
		for (unsigned int w = 1; w <= 64; w++) {
			uint64_t v = 0xa5c3f00f12345678ull & (~0ull >> (64 - w));

			memset(b, 0xff, sizeof(b));
			ib_bits_put(b, bit, w, v);
			assert_true(ib_bits_get(b, bit, w) == v);
			if (bit)
				assert_true(ib_bits_get(b, 0, bit) == ~0ull >> (64 - bit));
			assert_int_equal(ib_bits_get(b, bit + w, 3), 7);
		}
}

static void trap_details(void **st)
{
	struct ib_key_violation v = {
		.lid1 = 1, .lid2 = 2, .key = 0x89abcdef, .sl = 3, .qp1 = 0x111111, .qp2 = 0x222222,
		.gid1 = { 0xfe }, .gid2 = { 0xff }, .sw_lid = 0x77, .port = 5, .data_valid = 0xf,
	};
	struct ib_smp s = dr_request(2);
	const uint8_t zero[54] = { 0 };
	uint8_t d[54];

	(void)st;
	/* details that are not used are 0 */
	memset(d, 0xff, sizeof(d));
	ib_trap128(d, 0x102);
	assert_int_equal(ib_get_be16(d), 0x102);
	assert_memory_equal(d + 2, zero, 52);
	memset(d, 0xff, sizeof(d));
	ib_trap129_131(d, 9, 4);
	assert_true(d[3] == 9 && d[4] == 4);
	assert_memory_equal(d + 5, zero, 49);
	memset(d, 0xff, sizeof(d));
	ib_trap144(d, 9, 0x01020304, IB_TRAP144_NODE_DESC, 0x0506);
	assert_int_equal(d[5], 1);
	assert_int_equal(ib_get_be32(d + 6), 0x01020304);
	assert_int_equal(ib_get_be16(d + 10), 1);
	assert_int_equal(ib_get_be16(d + 12), 0x0506);
	assert_int_equal(ib_get_be16(d + 2), 9);
	assert_memory_equal(d + 14, zero, 40);
	s.mkey = ib_to_be64(0x1234);
	s.hdr.method = IB_METHOD_SET;
	s.ret_path[1] = 6;
	s.ret_path[2] = 1;
	memset(d, 0xff, sizeof(d));
	ib_trap256(d, 0x31, &s);
	assert_memory_equal(d + 27, zero, 27);
	assert_int_equal(ib_get_be16(d + 2), 0x31);
	assert_int_equal(ib_get_be16(d + 4), 0xffff);
	assert_int_equal(d[6], IB_METHOD_SET);
	assert_int_equal(ib_get_be16(d + 8), IB_SMP_ATTR_NODE_INFO);
	assert_true(ib_get_be64(d + 14) == 0x1234);
	assert_int_equal(d[23], 0x82);
	assert_true(d[25] == 6 && d[26] == 1);
	ib_smp_set_hops(&s, 0, 29);	/* hops 0..29 fill the 30 bytes */
	ib_trap256(d, 0x31, &s);
	assert_int_equal(d[23], 0x80 | 29);
	ib_smp_set_hops(&s, 0, 30);
	ib_trap256(d, 0x31, &s);
	assert_int_equal(d[23], 0xc0 | 30);
	s.ret_path[29] = 29;
	s.ret_path[30] = 30;
	ib_trap256(d, 0x31, &s);
	assert_int_equal(d[53], 29);
	ib_smp_set_hops(&s, 0, 63);
	ib_trap256(d, 0x31, &s);
	assert_int_equal(d[23], 0xff);
	memset(d, 0xff, sizeof(d));
	ib_trap257_258(d, &v);
	assert_int_equal(ib_get_be32(d), 1);
	assert_int_equal(ib_get_be16(d + 4), 2);
	assert_memory_equal(d + 50, zero, 4);
	assert_int_equal(ib_get_be32(d + 6), 0x89abcdef);
	assert_int_equal(ib_get_be32(d + 10), 0x30111111);
	assert_int_equal(ib_get_be32(d + 14), 0x222222);
	assert_true(d[18] == 0xfe && d[34] == 0xff);
	memset(d, 0xff, sizeof(d));
	ib_trap259(d, &v);
	assert_int_equal(ib_get_be16(d), 0xf);
	assert_int_equal(ib_get_be16(d + 2), 1);
	assert_int_equal(ib_get_be16(d + 4), 2);
	assert_memory_equal(d + 51, zero, 3);
	assert_int_equal(ib_get_be16(d + 6), 0xcdef);
	assert_int_equal(ib_get_be32(d + 8), 0x30111111);
	assert_int_equal(ib_get_be16(d + 48), 0x77);
	assert_int_equal(d[50], 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),
		cmocka_unit_test(captured_route),
		cmocka_unit_test(bad_routes),
		cmocka_unit_test(mixed_routes),
		cmocka_unit_test(hostile_routes),
		cmocka_unit_test(tables),
		cmocka_unit_test(bits),
		cmocka_unit_test(trap_details),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
