/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CRCs, compared with frames of a real fabric and with bitwise implementations. */
#include "cm.h"

#include <stdlib.h>

#include "build_op.h"
#include "pcap.h"
#include "vectors.h"

static uint16_t vcrc_bitwise(const uint8_t *p, size_t n)
{
	uint16_t crc = 0xffff;

	for (; n; n--) {
		crc ^= *p++;
		for (int b = 0; b < 8; b++)
			crc = (uint16_t)(crc & 1 ? crc >> 1 ^ 0xd008 : crc >> 1);
	}
	return (uint16_t)~crc;
}

static void tables(void **st)
{
	uint8_t b[300];

	(void)st;
	srand(2);
	for (unsigned int i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)rand();
	for (size_t n = 0; n < sizeof(b); n++) {
		uint16_t parts = ib_vcrc_update(IB_VCRC_INIT, b, n / 3);

		parts = ib_vcrc_update(parts, b + n / 3, n - n / 3);
		assert_int_equal(ib_vcrc(b, n), vcrc_bitwise(b, n));
		assert_int_equal(ib_vcrc_final(parts), vcrc_bitwise(b, n));
	}
}

static void committed_frames(void **st)
{
	uint32_t icrc;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(vectors); i++) {
		const uint8_t *p = vectors[i].p;
		size_t n = vectors[i].len - IB_VCRC_LEN;

		assert_int_equal(ib_vcrc(p, n), ib_vcrc_get(p + n));
		assert_true(ib_icrc_ok(p, n));
	}
	assert_int_equal(ib_icrc(frame_1, 284, &icrc), 0);
	assert_int_equal(icrc, 0x88ef6510);
	assert_int_equal(ib_vcrc(frame_1, 288), 0x3700);
	assert_int_equal(ib_icrc(frame_2, 284, &icrc), 0);
	assert_int_equal(icrc, 0xbe5d0972);
	assert_int_equal(ib_vcrc(frame_2, 288), 0x03e7);
}

static void whole_capture(void **st)
{
	const char *path = getenv("OHCA_DATA");
	unsigned int frames = 0, vcrcs = 0, icrcs = 0, grhs = 0;
	static uint8_t b[8192];
	FILE *f;
	int n;

	(void)st;
	if (!path)
		path = "../../../shared/data/ib-sample.pcap";
	f = pcap_open(path);
	if (!f) {
		print_message("no capture at %s (set OHCA_DATA): only the committed frames\n", path);
		skip();
	}
	while ((n = pcap_next(f, b, sizeof(b))) > 0) {
		struct ib_pkt_info pi;

		frames++;
		assert_int_equal(ib_pkt_parse(b, (size_t)n, &pi), IB_PKT_OK);
		assert_int_equal(pi.len + IB_VCRC_LEN, n);
		vcrcs += ib_vcrc(b, pi.len) == ib_vcrc_get(b + pi.len);
		grhs += pi.has_grh;
		icrcs += ib_icrc_ok(b, pi.len);
	}
	fclose(f);
	assert_int_equal(n, 0);
	assert_int_equal(frames, 43);
	assert_int_equal(vcrcs, 43);
	assert_int_equal(grhs, 6);
	assert_int_equal(icrcs, 43);
}

/* Fields that switches and routers change do not change the ICRC; all others do. */
static void invariance(void **st)
{
	uint8_t b[512];
	size_t n = build_op(b, IB_OP_RC_WRITE_ONLY, true, 37) - IB_VCRC_LEN;

	(void)st;
	assert_true(ib_icrc_ok(b, n));
	for (size_t bit = 0; bit < 8 * (n - IB_ICRC_LEN); bit++) {
		size_t byte = bit / 8;
		unsigned int m = 0x80u >> bit % 8;
		bool variant = byte < IB_LRH_LEN || (byte == 8 && (m & 0x0f)) ||
			       (byte > 8 && byte < 12) || byte == 15 || byte == 52;

		if (byte == 1 && (m & 3))
			continue;		/* LNH determines which headers follow */
		b[byte] ^= (uint8_t)m;
		assert_int_equal(ib_icrc_ok(b, n), variant);
		b[byte] ^= (uint8_t)m;
	}
}

static void pieces(void **st)
{
	uint8_t b[512];
	size_t n = build_op(b, IB_OP_UD_SEND_ONLY, false, 100) - IB_VCRC_LEN;
	uint32_t whole, parts;

	(void)st;
	assert_int_equal(ib_icrc(b, n - 4, &whole), 0);
	for (size_t cut = 20; cut < n - 4; cut++) {
		struct iovec iov[3] = {
			{ b, cut }, { NULL, 0 }, { b + cut, n - 4 - cut },
		};

		assert_int_equal(ib_icrc_iov(iov, 3, &parts), 0);
		assert_int_equal(parts, whole);
	}
	for (size_t cut = 0; cut < 20; cut++) {
		struct iovec iov = { b, cut };

		assert_int_equal(ib_icrc_iov(&iov, 1, &parts), -1);
	}
	assert_int_equal(ib_icrc_iov(NULL, 0, &parts), -1);
	assert_true(ib_icrc_ok(b, n));
	for (size_t len = 0; len < n; len++)
		assert_false(ib_icrc_ok(b, len));
	b[1] &= 0xfc;
	assert_int_equal(ib_icrc(b, n - 4, &parts), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables),
		cmocka_unit_test(committed_frames),
		cmocka_unit_test(whole_capture),
		cmocka_unit_test(invariance),
		cmocka_unit_test(pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
