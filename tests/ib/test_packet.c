/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The opcode table, the decoder and the builders of packets. */
#include "cm.h"

#include <stdlib.h>

#include "build_op.h"
#include "vectors.h"

static uint8_t buf[IB_MAX_PKT_LEN + 64];

static unsigned int hdrs_len(unsigned int h)
{
	static const unsigned int len[] = { 4, 8, 4, 4, 16, 28, 4, 8, 4, 4, 44 };
	unsigned int n = IB_BTH_LEN;

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(len); i++)
		if (h >> i & 1)
			n += len[i];
	return n;
}

static void opcode_table(void **st)
{
	unsigned int valid = 0;

	(void)st;
	for (unsigned int op = 0; op < 256; op++) {
		const struct ib_opcode_info *o = &ib_opcodes[op];
		unsigned int pos = 0;

		assert_int_equal(!!o->name, !!(o->flags & IB_OPF_VALID));
		if (!o->name) {
			assert_string_equal(ib_opcode_name((uint8_t)op), "reserved");
			continue;
		}
		valid++;
		assert_int_equal(o->hdr_len, hdrs_len(o->hdrs));
		for (unsigned int f = IB_OPF_FIRST; f <= IB_OPF_ONLY; f <<= 1)
			pos += !!(o->flags & f);
		assert_int_equal(pos, 1);
		assert_int_equal(!!(o->flags & IB_OPF_IMM), !!(o->hdrs & IB_HDR_IMMDT));
		assert_int_equal(!!(o->flags & IB_OPF_INV), !!(o->hdrs & IB_HDR_IETH));
		if (op != IB_OP_CNP)
			assert_int_equal(!!(o->flags & IB_OPF_REQUEST) +
					 !!(o->flags & IB_OPF_RESPONSE), 1);
	}
	/* RC 25, UC 12, RD 24, UD 2, CNP 1, XRC 25, OpenHCA's own 2 */
	assert_int_equal(valid, 91);
	assert_string_equal(ib_opcode_name(IB_OP_RC_WRITE_ONLY), "RC RDMA WRITE Only");
	assert_int_equal(ib_opcodes[IB_OP_RC_WRITE_ONLY_IMM].hdrs, IB_HDR_RETH | IB_HDR_IMMDT);
	assert_int_equal(ib_opcodes[IB_OP_UD_SEND_ONLY].hdrs, IB_HDR_DETH);
	assert_int_equal(ib_opcodes[IB_OP_RC_READ_RESP_MIDDLE].hdrs, 0);
	assert_int_equal(IB_OP(UC, SEND_ONLY), IB_OP_UC_SEND_ONLY);
}

static void roundtrip(uint8_t opcode, bool grh, uint32_t payload)
{
	const struct ib_opcode_info *op = &ib_opcodes[opcode];
	size_t len = build_op(buf, opcode, grh, payload);
	struct ib_pkt_info pi;
	const uint8_t *b = buf;

	assert_int_equal(ib_pkt_parse(b, len, &pi), IB_PKT_OK);
	if (!(op->flags & IB_OPF_PAYLOAD))
		payload = 0;
	assert_ptr_equal(pi.op, op);
	assert_int_equal(pi.len, len - 2);
	assert_int_equal(pi.payload_len, payload);
	assert_int_equal(pi.pad, (4 - payload % 4) % 4);
	assert_int_equal(pi.has_grh, grh);
	assert_int_equal(pi.dlid, T_DLID);
	assert_int_equal(pi.slid, T_SLID);
	assert_int_equal(pi.sl, T_SL);
	assert_int_equal(pi.vl, T_VL);
	assert_int_equal(pi.pkey, T_PKEY);
	assert_int_equal(pi.dqpn, T_DQPN);
	assert_int_equal(pi.psn, T_PSN);
	assert_true(pi.se && pi.migreq && pi.ackreq && !pi.fecn && !pi.becn);
	for (uint32_t i = 0; i < payload; i++)
		assert_int_equal(b[pi.hdr_len + i], (uint8_t)i);
	if (op->hdrs & IB_HDR_DETH) {
		assert_int_equal(ib_be32(ib_pkt_deth(b, &pi)->qkey), T_QKEY);
		assert_int_equal(ib_deth_sqpn(ib_pkt_deth(b, &pi)), T_SQPN);
	} else {
		assert_null(ib_pkt_deth(b, &pi));
	}
	if (op->hdrs & IB_HDR_FETH) {
		assert_int_equal(ib_feth_placement(ib_pkt_feth(b, &pi)), T_PLACEMENT);
		assert_int_equal(ib_feth_level(ib_pkt_feth(b, &pi)), T_LEVEL);
	}
	if (op->hdrs & IB_HDR_RETH) {
		assert_true(ib_be64(ib_pkt_reth(b, &pi)->va) == T_VA);
		assert_int_equal(ib_be32(ib_pkt_reth(b, &pi)->rkey), T_RKEY);
		assert_int_equal(ib_be32(ib_pkt_reth(b, &pi)->dmalen), T_DLEN);
	}
	if (op->hdrs & IB_HDR_ATOMIC_ETH) {
		assert_true(ib_be64(ib_pkt_atomic(b, &pi)->va) == T_VA);
		assert_int_equal(ib_be32(ib_pkt_atomic(b, &pi)->rkey), T_RKEY);
		assert_true(ib_be64(ib_pkt_atomic(b, &pi)->swap_add) == T_SWAP);
		assert_true(ib_be64(ib_pkt_atomic(b, &pi)->compare) == T_CMP);
	}
	if (op->hdrs & IB_HDR_MASKED_ATOMIC_ETH) {
		const struct ib_masked_atomic_eth *m = ib_pkt_masked_atomic(b, &pi);

		assert_int_equal(ib_be64(m->eth.va), T_VA);
		assert_int_equal(ib_be32(m->eth.rkey), T_RKEY);
		assert_int_equal(ib_be64(m->eth.swap_add), T_SWAP);
		assert_int_equal(ib_be64(m->eth.compare), T_CMP);
		assert_int_equal(ib_be64(m->swap_mask), T_SWAP_MASK);
		assert_int_equal(ib_be64(m->compare_mask), T_CMP_MASK);
	}
	if (op->hdrs & IB_HDR_AETH) {
		assert_int_equal(ib_aeth_syndrome(ib_pkt_aeth(b, &pi)), T_SYN);
		assert_int_equal(ib_aeth_msn(ib_pkt_aeth(b, &pi)), T_MSN);
	}
	if (op->hdrs & IB_HDR_ATOMIC_ACK_ETH)
		assert_true(ib_be64(ib_pkt_atomic_ack(b, &pi)->orig) == T_ORIG);
	if (op->hdrs & IB_HDR_IMMDT)
		assert_int_equal(ib_be32(ib_pkt_immdt(b, &pi)->imm), T_IMM);
	if (op->hdrs & IB_HDR_IETH)
		assert_int_equal(ib_be32(ib_pkt_ieth(b, &pi)->rkey), T_INV);
	if (op->hdrs & IB_HDR_XRCETH)
		assert_int_equal(ib_be32(ib_pkt_xrceth(b, &pi)->srqn), T_SRQN);
	if (op->hdrs & IB_HDR_RDETH)
		assert_int_equal(ib_be32(ib_pkt_rdeth(b, &pi)->eecn), T_EEC);
	if (grh) {
		assert_int_equal(ib_grh_tclass(ib_pkt_grh(b, &pi)), 0x5a);
		assert_int_equal(ib_grh_flow(ib_pkt_grh(b, &pi)), 0x12345);
		assert_int_equal(ib_pkt_grh(b, &pi)->hoplimit, 64);
		assert_memory_equal(ib_pkt_grh(b, &pi)->sgid, t_sgid, 16);
		assert_memory_equal(ib_pkt_grh(b, &pi)->dgid, t_dgid, 16);
	}
	assert_true(ib_icrc_ok(b, pi.len));

	/* the headers alone are enough; with one byte less they are not */
	assert_int_equal(ib_hdr_parse(b, pi.hdr_len, len - 2, 0, &pi), IB_PKT_OK);
	assert_int_equal(ib_hdr_parse(b, pi.hdr_len - 1u, len - 2, 0, &pi), IB_PKT_ERR_SHORT);
}

static void every_opcode(void **st)
{
	static const uint32_t sizes[] = { 0, 1, 2, 3, 4, 255, 256, 4095, 4096 };

	(void)st;
	for (unsigned int op = 0; op < 256; op++)
		for (unsigned int i = 0; ib_opcodes[op].name && i < IB_ARRAY_SIZE(sizes); i++) {
			roundtrip((uint8_t)op, false, sizes[i]);
			roundtrip((uint8_t)op, true, sizes[i]);
		}
}

static void capture_vectors(void **st)
{
	struct ib_pkt_info pi;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(vectors); i++)
		assert_int_equal(ib_pkt_parse(vectors[i].p, vectors[i].len, &pi), IB_PKT_OK);
	ib_pkt_parse(frame_10, sizeof(frame_10), &pi);
	assert_int_equal(pi.opcode, IB_OP_RC_SEND_ONLY);
	assert_int_equal(pi.slid, 4);
	assert_int_equal(pi.dlid, 1);
	assert_int_equal(pi.payload_len, 88);
	ib_pkt_parse(frame_11, sizeof(frame_11), &pi);
	assert_int_equal(pi.opcode, IB_OP_RC_ACK);
	assert_int_equal(pi.payload_len, 0);
	ib_pkt_parse(frame_26, sizeof(frame_26), &pi);
	assert_true(pi.has_grh && ib_gid_is_mcast(ib_pkt_grh(frame_26, &pi)->dgid));
	assert_int_equal(pi.dqpn, IB_QP_MULTICAST);
	assert_true(ib_lid_is_mcast(pi.dlid));
	ib_pkt_parse(frame_1, sizeof(frame_1), &pi);
	assert_int_equal(pi.vl, 15);
	assert_int_equal(pi.dlid, IB_LID_PERMISSIVE);
	assert_int_equal(pi.payload_len, 256);
}

/* FECN and BECN are the first two bits of the byte before the destination QP. */
static void congestion(void **st)
{
	struct ib_pkt_info pi;
	size_t len;

	(void)st;
	for (unsigned int bits = 0; bits < 4; bits++) {
		len = build_op(buf, IB_OP_RC_SEND_ONLY, false, 4);
		buf[IB_LRH_LEN + 4] |= (uint8_t)(bits << 6);
		assert_int_equal(ib_pkt_parse(buf, len, &pi), IB_PKT_OK);
		assert_int_equal(pi.fecn, bits >> 1);
		assert_int_equal(pi.becn, bits & 1);
		assert_int_equal(pi.dqpn, T_DQPN);
	}
}

/* The decoder reports a wrong GRH as soon as the header has its last byte. */
static void short_grh(void **st)
{
	struct ib_pkt_info pi;
	size_t len = build_op(buf, IB_OP_RC_SEND_ONLY, true, 4) - 2;

	(void)st;
	buf[8] = 0x40;
	assert_int_equal(ib_hdr_parse(buf, 47, len, 0, &pi), IB_PKT_ERR_SHORT);
	assert_int_equal(ib_hdr_parse(buf, 48, len, 0, &pi), IB_PKT_ERR_GRH);
}

/* Breaks one field of a good packet and expects one error. */
static void errors(void **st)
{
	struct ib_pkt_info pi;
	size_t len;

	(void)st;
#define FRESH(op, grh, n) (len = build_op(buf, op, grh, n))
#define EXPECT(err) assert_int_equal(ib_pkt_parse(buf, len, &pi), err)
	FRESH(IB_OP_RC_SEND_ONLY, false, 10);
	buf[0] |= 1;
	EXPECT(IB_PKT_ERR_LVER);
	FRESH(IB_OP_RC_SEND_ONLY, false, 10);
	buf[5]++;
	EXPECT(IB_PKT_ERR_LEN);
	FRESH(IB_OP_RC_SEND_ONLY, false, 10);
	len -= 4;
	EXPECT(IB_PKT_ERR_LEN);
	FRESH(IB_OP_RC_SEND_ONLY, false, 10);
	buf[1] &= 0xfc;
	EXPECT(IB_PKT_ERR_RAW);
	buf[1] |= 1;
	EXPECT(IB_PKT_ERR_RAW);
	FRESH(IB_OP_RC_SEND_ONLY, true, 10);
	buf[8] = 0x40;
	EXPECT(IB_PKT_ERR_GRH);
	FRESH(IB_OP_RC_SEND_ONLY, true, 10);
	buf[13]++;
	EXPECT(IB_PKT_ERR_GRH);
	FRESH(IB_OP_RC_SEND_ONLY, true, 10);
	buf[14] = 17;
	EXPECT(IB_PKT_ERR_GRH);
	FRESH(IB_OP_RC_SEND_ONLY, false, 10);
	buf[9] |= 1;
	EXPECT(IB_PKT_ERR_TVER);
	FRESH(IB_OP_RC_SEND_ONLY, false, 10);
	buf[8] = 0xff;
	EXPECT(IB_PKT_ERR_OPCODE);
	FRESH(IB_OP_RC_SEND_ONLY, false, 0);
	buf[9] |= 0x10;
	EXPECT(IB_PKT_ERR_PAYLOAD);
	FRESH(IB_OP_RC_SEND_ONLY, false, 4);
	buf[8] = IB_OP_RC_ACK;		/* 4 bytes of AETH, no payload: fits */
	EXPECT(IB_PKT_OK);
	FRESH(IB_OP_RC_SEND_ONLY, false, 8);
	buf[8] = IB_OP_RC_ACK;
	EXPECT(IB_PKT_ERR_PAYLOAD);
	FRESH(IB_OP_RC_SEND_ONLY, false, 0);
	buf[8] = IB_OP_RC_WRITE_ONLY;	/* RETH does not fit */
	assert_int_not_equal(ib_pkt_parse(buf, len, &pi), IB_PKT_OK);

	/* VL15 and QP0 occur only together, and on UD without GRH. */
	FRESH(IB_OP_UD_SEND_ONLY, false, 256);
	buf[0] = 0xf0;
	EXPECT(IB_PKT_ERR_VL15);
	ib_put_be24(buf + 13, 0);
	EXPECT(IB_PKT_OK);
	buf[0] = 0;
	EXPECT(IB_PKT_ERR_VL15);
	FRESH(IB_OP_RC_SEND_ONLY, false, 0);
	buf[0] = 0xf0;
	ib_put_be24(buf + 13, 0);
	EXPECT(IB_PKT_ERR_VL15);

	FRESH(IB_OP_UD_SEND_ONLY, false, 16);
	ib_put_be16(buf + 2, 0);
	EXPECT(IB_PKT_ERR_DLID);
	ib_put_be16(buf + 2, 0xffff);
	EXPECT(IB_PKT_ERR_DLID);
	ib_put_be16(buf + 2, 0xc000);
	EXPECT(IB_PKT_ERR_DLID);
	FRESH(IB_OP_UD_SEND_ONLY, true, 16);
	ib_put_be16(buf + 2, 0xc000);
	EXPECT(IB_PKT_OK);
	FRESH(IB_OP_UD_SEND_ONLY, false, 16);
	ib_put_be16(buf + 6, 0xc000);
	EXPECT(IB_PKT_ERR_SLID);
	ib_put_be16(buf + 6, 0);
	EXPECT(IB_PKT_ERR_SLID);

	assert_int_equal(ib_pkt_parse(buf, 0, &pi), IB_PKT_ERR_SHORT);
#undef FRESH
#undef EXPECT
}

/* Every truncation and many random bytes: the decoder neither crashes nor reads past the end. */
static void hostile(void **st)
{
	struct ib_pkt_info pi;

	(void)st;
	for (unsigned int op = 0; op < 256; op++) {
		size_t len;

		if (!ib_opcodes[op].name)
			continue;
		len = build_op(buf, (uint8_t)op, true, 16);
		for (size_t n = 0; n < len; n++) {
			uint8_t *exact = malloc(n ? n : 1);

			assert_non_null(exact);
			memcpy(exact, buf, n);
			if (n < len - 2)
				assert_int_not_equal(ib_pkt_parse(exact, n, &pi), IB_PKT_OK);
			free(exact);
		}
	}
	srand(1);
	for (unsigned int i = 0; i < 200000; i++) {
		size_t n = (size_t)rand() % 120;
		uint8_t *r = malloc(n ? n : 1);

		assert_non_null(r);
		for (size_t k = 0; k < n; k++)
			r[k] = (uint8_t)rand();
		if (n >= 8) {
			r[0] &= 0xf0;
			ib_put_be16(r + 4, (uint16_t)(n / 4));
		}
		if (ib_pkt_parse(r, n, &pi) == IB_PKT_OK)
			assert_true(pi.hdr_len + pi.payload_len + pi.pad + IB_ICRC_LEN == pi.len &&
				    pi.len <= n);
		ib_icrc_ok(r, n);
		free(r);
	}
}

static void helpers(void **st)
{
	(void)st;
	assert_int_equal(ib_psn_diff(0, 0xffffff), 1);
	assert_int_equal(ib_psn_diff(0xffffff, 0), -1);
	assert_int_equal(ib_psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(ib_psn_add(0xffffff, 2), 1);
	assert_true(ib_pkey_match(0xffff, 0x7fff));
	assert_true(ib_pkey_match(0x8001, 0x8001));
	assert_false(ib_pkey_match(0x0001, 0x0001));
	assert_true(ib_pkey_sends(0x0001, 0x0001));
	assert_true(ib_pkey_sends(0x8001, 0x0001));
	assert_true(ib_pkey_sends(0x8001, 0x8001));
	assert_false(ib_pkey_sends(0x0001, 0x8001));
	assert_false(ib_pkey_sends(0x8001, 0x8002));
	assert_false(ib_pkey_sends(0x8000, 0x0000));
	assert_false(ib_pkey_match(0x8000, 0x8000));
	assert_false(ib_pkey_match(0x8001, 0x8002));
	assert_true(ib_lid_is_ucast(1) && ib_lid_is_ucast(0xbfff) && !ib_lid_is_ucast(0));
	assert_true(ib_lid_is_mcast(0xc000) && !ib_lid_is_mcast(0xffff));
	assert_int_equal(ib_pad(1), 3);
}

/* The table of 9.7.7.2, and the counts between its lines. */
static void credit_codes(void **st)
{
	static const uint16_t count[] = {
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	};
	uint8_t code = 0;

	(void)st;
	assert_int_equal(sizeof(count) / sizeof(count[0]), IB_AETH_CREDIT_INVALID);
	for (uint32_t n = 0; n < 70000; n++) {
		if (code < 30 && n == count[code + 1])
			code++;
		assert_int_equal(ib_credit_code(n), code);
		assert_int_equal(ib_credit_count(code), count[code]);
	}
	assert_int_equal(ib_credit_code(0xffffffff), 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credit_codes),
		cmocka_unit_test(congestion),
		cmocka_unit_test(short_grh),
		cmocka_unit_test(opcode_table),
		cmocka_unit_test(every_opcode),
		cmocka_unit_test(capture_vectors),
		cmocka_unit_test(errors),
		cmocka_unit_test(hostile),
		cmocka_unit_test(helpers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
