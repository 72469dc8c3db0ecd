/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The performance management agent. */
#include "cm.h"

#include <stdlib.h>

#include "ib/pma_agent.h"

static struct ohca_port_counters ctr[3];
static struct ib_pma_port port[3];

/* A switch without port 2. The ports of an adapter start with 1. */
static struct ib_pma_port *state_of(void *ctx, unsigned int num)
{
	static struct ib_pma_port *const ptr[] = { &port[0], &port[1], NULL, &port[2] };

	assert_true(ctx == port && num < IB_ARRAY_SIZE(ptr));
	return ptr[num];
}

static struct ib_pma pma = {
	.port = state_of, .ctx = port, .nports = 4, .first_port = 0, .resp_time = 8,
};

static uint64_t now = 1000;

static int setup(void **st)
{
	(void)st;
	memset(&pma.samples, 0, sizeof(pma.samples));
	memset(ctr, 0, sizeof(ctr));
	memset(port, 0, sizeof(port));
	for (unsigned int i = 0; i < 3; i++)
		port[i].ctr = &ctr[i];
	return 0;
}

static struct ib_mad request(uint8_t method, uint16_t attr, uint8_t sel_port, uint16_t select,
			     uint32_t select2)
{
	struct ib_mad m;
	uint8_t *d = (uint8_t *)&m + IB_PMA_DATA_OFF;

	memset(&m, 0, sizeof(m));
	m.hdr.base_version = 1;
	m.hdr.mgmt_class = IB_CLASS_PERF;
	m.hdr.class_version = 1;
	m.hdr.method = method;
	m.hdr.tid = ib_to_be64(0x1234);
	m.hdr.attr_id = ib_to_be16(attr);
	d[1] = sel_port;
	ib_put_be16(d + 2, select);
	if (attr == IB_PMA_ATTR_PORT_COUNTERS_EXT)
		ib_put_be32(d + 4, select2);
	else
		d[18] = (uint8_t)select2;
	return m;
}

static uint16_t ask(struct ib_mad *m)
{
	uint64_t tid = ib_be64(m->hdr.tid);

	assert_int_equal(ib_pma_process(&pma, m, m, now), IB_PMA_REPLY);
	assert_int_equal(m->hdr.method, IB_METHOD_GET_RESP);
	assert_true(ib_be64(m->hdr.tid) == tid);
	return ib_be16(m->hdr.status);
}

static struct ib_pma_port_counters classic(uint8_t method, uint8_t p, uint16_t sel, uint8_t sel2)
{
	struct ib_mad m = request(method, IB_PMA_ATTR_PORT_COUNTERS, p, sel, sel2);
	struct ib_pma_port_counters v;

	assert_int_equal(ask(&m), IB_MAD_OK);
	ib_pma_pc_unpack((uint8_t *)&m + IB_PMA_DATA_OFF, &v);
	assert_int_equal(v.port_select, p);
	assert_int_equal(v.counter_select, sel);
	return v;
}

static struct ib_pma_port_counters_ext extended(uint8_t method, uint8_t p, uint16_t sel,
						uint32_t sel2)
{
	struct ib_mad m = request(method, IB_PMA_ATTR_PORT_COUNTERS_EXT, p, sel, sel2);
	struct ib_pma_port_counters_ext v;

	assert_int_equal(ask(&m), IB_MAD_OK);
	ib_pma_pce_unpack((uint8_t *)&m + IB_PMA_DATA_OFF, &v);
	assert_int_equal(v.counter_select2, sel2);
	return v;
}

static void class_port_info(void **st)
{
	struct ib_mad m = request(IB_METHOD_GET, IB_PMA_ATTR_CLASS_PORT_INFO, 0, 0, 0);
	struct ib_pma_class_port_info v;

	(void)st;
	assert_int_equal(ask(&m), IB_MAD_OK);
	ib_pma_cpi_unpack((uint8_t *)&m + IB_PMA_DATA_OFF, &v);
	assert_int_equal(v.cap_mask, 1 << 8 | 1 << 9 | 1 << 12);
	assert_int_equal(v.cap_mask2, 2);
	assert_true(v.base_version == 1 && v.class_version == 1 && v.resp_time == 8);
}

static void real_counts(void **st)
{
	struct ib_pma_port_counters v;
	struct ib_pma_port_counters_ext x;

	(void)st;
	ctr[1].xmit_data = 1000;
	ctr[1].rcv_pkts = 7;
	ctr[1].vl15_dropped = 3;
	ctr[1].xmit_wait = 12;
	ctr[1].qp1_dropped = 2;
	ctr[1].mcast_rcv_pkts = 5;
	v = classic(IB_METHOD_GET, 1, 0, 0);
	assert_true(v.xmit_data == 1000 && v.rcv_pkts == 7 && v.vl15_dropped == 3 &&
		    v.xmit_wait == 12 && v.qp1_dropped == 2 && v.symbol_error == 0);
	x = extended(IB_METHOD_GET, 1, 0, 0);
	assert_true(x.xmit_data == 1000 && x.rcv_pkts == 7 && x.vl15_dropped == 3 &&
		    x.xmit_wait == 12 && x.mcast_rcv_pkts == 5);
	v = classic(IB_METHOD_GET, 0, 0, 0);
	assert_int_equal(v.xmit_data, 0);
}

static void saturation(void **st)
{
	struct ib_pma_port_counters v;
	struct ib_pma_port_counters_ext x;

	(void)st;
	for (unsigned int i = 0; i < sizeof(ctr[1]) / 8; i++)
		((uint64_t *)&ctr[1])[i] = 0x123456789aull;
	v = classic(IB_METHOD_GET, 1, 0, 0);
	assert_true(v.symbol_error == 0xffff && v.link_error_recovery == 0xff &&
		    v.link_downed == 0xff && v.rcv_errors == 0xffff &&
		    v.local_link_integrity_errors == 15 && v.excessive_buffer_overruns == 15 &&
		    v.vl15_dropped == 0xffff && v.xmit_data == 0xffffffff &&
		    v.rcv_pkts == 0xffffffff && v.xmit_wait == 0xffffffff);
	x = extended(IB_METHOD_GET, 1, 0, 0);
	assert_true(x.xmit_data == 0x123456789aull && x.qp1_dropped == 0x123456789aull);
	/* they count again after a reset */
	classic(IB_METHOD_SET, 1, 0xffff, 0xff);
	ctr[1].symbol_error += 2;
	v = classic(IB_METHOD_GET, 1, 0, 0);
	assert_true(v.symbol_error == 2 && v.xmit_data == 0 && v.xmit_wait == 0);
}

static void select_reset(void **st)
{
	struct ib_pma_port_counters v;
	struct ib_pma_port_counters_ext x;

	(void)st;
	/* each CounterSelect bit resets its own counter only */
	for (unsigned int bit = 0; bit < 17; bit++) {
		struct ib_mad m;
		unsigned int zero = 0;
		static const struct { uint8_t at, len; } f[] = {
			{ 4, 2 }, { 6, 1 }, { 7, 1 }, { 8, 2 }, { 10, 2 }, { 12, 2 }, { 14, 2 },
			{ 16, 1 }, { 17, 1 }, { 19, 0 }, { 19, 0 }, { 22, 2 }, { 24, 4 },
			{ 28, 4 }, { 32, 4 }, { 36, 4 }, { 40, 4 },
		};

		setup(NULL);
		for (unsigned int i = 0; i < sizeof(ctr[1]) / 8; i++)
			((uint64_t *)&ctr[1])[i] = 3;
		m = request(IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS, 1,
			    (uint16_t)(1u << bit), bit == 16);
		assert_int_equal(ask(&m), IB_MAD_OK);
		for (unsigned int i = 0; i < IB_ARRAY_SIZE(f); i++) {
			const uint8_t *d = (uint8_t *)&m + IB_PMA_DATA_OFF + f[i].at;
			unsigned int v0 = f[i].len ? d[f[i].len - 1] : i == 9 ? *d >> 4 : *d & 15;

			assert_int_equal(v0, i == bit ? 0 : 3);
			zero += v0 == 0;
		}
		assert_int_equal(zero, 1);
	}
	/* classic and extended counters are reset separately */
	setup(NULL);
	ctr[1].xmit_data = 50;
	ctr[1].rcv_errors = 4;
	extended(IB_METHOD_SET, 1, 1, 0);
	x = extended(IB_METHOD_GET, 1, 0, 0);
	assert_true(x.xmit_data == 0 && x.rcv_errors == 4);
	extended(IB_METHOD_SET, 1, 0, 1 << 3);
	x = extended(IB_METHOD_GET, 1, 0, 0);
	assert_int_equal(x.rcv_errors, 0);
	v = classic(IB_METHOD_GET, 1, 0, 0);
	assert_true(v.xmit_data == 50 && v.rcv_errors == 4);
}

static void all_ports(void **st)
{
	struct ib_pma_port_counters v;

	(void)st;
	ctr[0].rcv_pkts = 1;
	ctr[1].rcv_pkts = 0xfffffff0;
	ctr[2].rcv_pkts = 20;
	ctr[0].link_downed = 2;
	ctr[2].link_downed = 3;
	v = classic(IB_METHOD_GET, 0xff, 0, 0);
	assert_int_equal(v.rcv_pkts, 0xffffffff);
	assert_int_equal(v.link_downed, 5);
	classic(IB_METHOD_SET, 0xff, 0xffff, 0);
	v = classic(IB_METHOD_GET, 3, 0, 0);
	assert_int_equal(v.link_downed, 0);
}

static void details(void **st)
{
	struct ib_mad m;
	uint8_t *d = (uint8_t *)&m + IB_PMA_DATA_OFF;

	(void)st;
	ctr[1].rcv_malformed = 2;
	ctr[1].rcv_looping = 70000;
	ctr[1].xmit_hoq_discards = 9;
	m = request(IB_METHOD_GET, IB_PMA_ATTR_RCV_ERROR_DETAILS, 1, 0, 0);
	assert_int_equal(ask(&m), IB_MAD_OK);
	assert_int_equal(ib_get_be16(d + 6), 2);
	assert_int_equal(ib_get_be16(d + 14), 0xffff);
	m = request(IB_METHOD_SET, IB_PMA_ATTR_XMIT_DISCARD_DETAILS, 1, 7, 0);
	assert_int_equal(ask(&m), IB_MAD_OK);
	assert_int_equal(ib_get_be16(d + 10), 9);
}

/* Counters by VL and SL are where libibmad reads them, and each has its own reset bit. */
static void by_lane(void **st)
{
	static const struct { uint16_t attr; uint8_t bytes; uint64_t *ctr; } a[] = {
		{ IB_PMA_ATTR_VL_XMIT_WAIT, 2, ctr[1].xmit_wait_vl },
		{ IB_PMA_ATTR_XMIT_DATA_SL, 4, ctr[1].xmit_data_sl },
		{ IB_PMA_ATTR_RCV_DATA_SL, 4, ctr[1].rcv_data_sl },
		/* words of 4 bytes, too, in 64 bits from byte 8 on */
		{ IB_PMA_ATTR_XMIT_DATA_SL_EXT, 8, ctr[1].xmit_data_sl },
		{ IB_PMA_ATTR_RCV_DATA_SL_EXT, 8, ctr[1].rcv_data_sl },
	};

	(void)st;
	for (unsigned int k = 0; k < IB_ARRAY_SIZE(a); k++) {
		for (unsigned int round = 0; round < 3; round++) {
			struct ib_mad m = request(round == 1 ? IB_METHOD_SET : IB_METHOD_GET,
						  a[k].attr, 1, round == 1 ? 0x8002 : 0, 0);
			const uint8_t *d = (uint8_t *)&m + IB_PMA_DATA_OFF;

			for (unsigned int i = 0; i < 16 && round == 0; i++)
				a[k].ctr[i] = 100 + i;
			assert_int_equal(ask(&m), IB_MAD_OK);
			for (unsigned int i = 0; i < 16; i++, d += a[k].bytes)
				assert_int_equal(a[k].bytes == 2 ? ib_get_be16(d + 4) :
						 a[k].bytes == 4 ? ib_get_be32(d + 4) :
						 ib_get_be64(d + 8),
						 round && (i == 1 || i == 15) ? 0 : 100 + i);
		}
	}
	ctr[1].xmit_wait_vl[3] += 1u << 20;
	{
		struct ib_mad m = request(IB_METHOD_GET, IB_PMA_ATTR_VL_XMIT_WAIT, 1, 0, 0);

		assert_int_equal(ask(&m), IB_MAD_OK);
		assert_int_equal(ib_get_be16((uint8_t *)&m + IB_PMA_DATA_OFF + 4 + 6), 0xffff);
	}
}

/* Attributes that count nothing here contain PortSelect and CounterSelect alone. */
static void never_counted(void **st)
{
	static const uint16_t attr[] = {
		IB_PMA_ATTR_FLOW_CTL, IB_PMA_ATTR_VL_FLOW_CTL_ERRORS, IB_PMA_ATTR_EXT_SPEEDS,
	};

	(void)st;
	for (unsigned int i = 0; i < 2 * IB_ARRAY_SIZE(attr); i++) {
		const uint16_t a = attr[i / 2];
		const bool lanes = a == IB_PMA_ATTR_EXT_SPEEDS;
		struct ib_mad m = request(i % 2 ? IB_METHOD_SET : IB_METHOD_GET, a, 1, 0x1234, 0);
		uint8_t *d = (uint8_t *)&m + IB_PMA_DATA_OFF, want[IB_PMA_DATA_LEN] = { 0, 1 };

		memset(d + 4, 0x5a, IB_PMA_DATA_LEN - 4);
		if (lanes)
			memset(want + 8, 0x5a, 8);
		else
			ib_put_be16(want + 2, 0x1234);
		assert_int_equal(ask(&m), IB_MAD_OK);
		assert_memory_equal(d, want, sizeof(want));
		m = request(IB_METHOD_GET, a, 2, 0, 0);		/* no such port */
		assert_int_equal(ask(&m), IB_MAD_BAD_FIELD);
	}
}

/* ---- sampling ---- */

/* PortSamplesControl as a layout of 16.1.3.2 in bytes, independent of the code's table. */
static void sample_bytes(struct ib_mad *m, uint8_t sel_port, uint32_t start, uint32_t interval,
			 uint16_t tag, const uint16_t *select, unsigned int n)
{
	uint8_t *d = (uint8_t *)m + IB_PMA_DATA_OFF;

	*m = request(IB_METHOD_SET, IB_PMA_ATTR_SAMPLES_CONTROL, sel_port, 0, 0);
	ib_put_be32(d + 28, start);
	ib_put_be32(d + 32, interval);
	ib_put_be16(d + 36, tag);
	for (unsigned int i = 0; i < n; i++)
		ib_put_be16(d + 38 + 2 * i, select[i]);
}

static const uint8_t *result(struct ib_mad *m, uint16_t attr)
{
	*m = request(IB_METHOD_GET, attr, 0, 0, 0);
	assert_int_equal(ask(m), IB_MAD_OK);
	return (uint8_t *)m + IB_PMA_DATA_OFF;
}

static void sampling(void **st)
{
	static const uint16_t select[] = { 1, 2, 3, 4, 5, 0, 6, 0x4000, 1 };
	struct ib_mad m;
	const uint8_t *d = (uint8_t *)&m + IB_PMA_DATA_OFF;

	(void)st;
	now = 7000;
	/* the abilities of the agent, before the first request */
	m = request(IB_METHOD_GET, IB_PMA_ATTR_SAMPLES_CONTROL, 1, 0, 0);
	assert_int_equal(ask(&m), IB_MAD_OK);
	assert_true(d[1] == 1 && d[2] == 249 && d[3] == 4 && d[10] == 0 && d[11] == 0);
	assert_int_equal(ib_get_be32(d + 4), 0x09249249);
	assert_int_equal(ib_get_be16(d + 8), 0x1249);
	for (unsigned int i = 12; i < 28; i++)
		assert_int_equal(d[i], 0);
	assert_true(ib_pma_deadline(&pma) == UINT64_MAX);

	ctr[1].xmit_data = 100;
	sample_bytes(&m, 1, 50, 200, 0xbeef, select, IB_ARRAY_SIZE(select));
	assert_int_equal(ask(&m), IB_MAD_OK);
	assert_int_equal(d[11], IB_PMA_SAMPLE_STARTED);
	assert_true(ib_pma_deadline(&pma) == 7000 + 50000);
	now += 49999;
	ctr[1].xmit_data += 10;		/* before the interval */
	ib_pma_timer(&pma, now);
	assert_int_equal(ib_get_be16(result(&m, IB_PMA_ATTR_SAMPLES_RESULT) + 2),
			 IB_PMA_SAMPLE_STARTED);
	now++;
	ib_pma_timer(&pma, now);
	assert_true(ib_pma_deadline(&pma) == 7000 + 250000);

	/* another Set does not disturb the sampling that runs, and its answer shows that */
	sample_bytes(&m, 3, 0, 1, 0x1111, select, 1);
	assert_int_equal(ask(&m), IB_MAD_OK);
	assert_true(d[1] == 1 && d[11] == IB_PMA_SAMPLE_RUNNING && ib_get_be16(d + 36) == 0xbeef);
	ctr[1].xmit_data += 1000;
	ctr[1].rcv_data += 2000;
	ctr[1].xmit_pkts += 3;
	ctr[1].rcv_pkts += 0x100000004ull;
	ctr[1].xmit_wait += 5;
	ctr[2].xmit_data += 77;		/* another port */
	d = result(&m, IB_PMA_ATTR_SAMPLES_RESULT);
	assert_true(ib_get_be16(d) == 0xbeef && ib_get_be16(d + 2) == IB_PMA_SAMPLE_RUNNING);
	assert_int_equal(ib_get_be32(d + 4), 0);
	now += 200000;
	ib_pma_timer(&pma, now);
	ctr[1].xmit_data += 999;	/* after the interval */
	d = result(&m, IB_PMA_ATTR_SAMPLES_RESULT);
	assert_true(ib_get_be16(d) == 0xbeef && ib_get_be16(d + 2) == IB_PMA_SAMPLE_DONE);
	assert_int_equal(ib_get_be32(d + 4), 1000);
	assert_int_equal(ib_get_be32(d + 8), 2000);
	assert_int_equal(ib_get_be32(d + 12), 3);
	assert_int_equal(ib_get_be32(d + 16), 0xffffffff);
	assert_int_equal(ib_get_be32(d + 20), 5);
	for (unsigned int i = 24; i < 36; i += 4)
		assert_int_equal(ib_get_be32(d + i), 0);
	assert_int_equal(ib_get_be32(d + 36), 1000);
	d = result(&m, IB_PMA_ATTR_SAMPLES_RESULT_EXT);
	assert_true(ib_get_be32(d + 4) == 0x80000000 && ib_get_be64(d + 8) == 1000 &&
		    ib_get_be64(d + 32) == 0x100000004ull);
	/* sampling does not change the counters themselves */
	assert_int_equal(classic(IB_METHOD_GET, 1, 0, 0).xmit_data, 2109);

	/* all ports at once, without delay; a late request ends the interval, too */
	sample_bytes(&m, 0xff, 0, 10, 1, select, 1);
	assert_int_equal(ask(&m), IB_MAD_OK);
	assert_int_equal(((uint8_t *)&m)[IB_PMA_DATA_OFF + 11], IB_PMA_SAMPLE_RUNNING);
	ctr[0].xmit_data += 1;
	ctr[2].xmit_data += 2;
	now += 10000;
	assert_int_equal(ib_get_be32(result(&m, IB_PMA_ATTR_SAMPLES_RESULT) + 4), 3);

	m = request(IB_METHOD_SET, IB_PMA_ATTR_SAMPLES_RESULT, 1, 0, 0);
	assert_int_equal(ask(&m), IB_MAD_BAD_METHOD_ATTR);
	sample_bytes(&m, 2, 0, 10, 1, select, 1);		/* no such port */
	assert_int_equal(ask(&m), IB_MAD_BAD_FIELD);
	sample_bytes(&m, 1, 0, 10, 1, select, 1);
	m.hdr.attr_mod = ib_to_be32(1);				/* no such mechanism */
	assert_int_equal(ask(&m), IB_MAD_BAD_FIELD);
}

static void refusals(void **st)
{
	struct ib_mad m;

	(void)st;
	m = request(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 2, 0, 0);	/* the missing port */
	assert_int_equal(ask(&m), IB_MAD_BAD_FIELD);
	m = request(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 4, 0, 0);
	assert_int_equal(ask(&m), IB_MAD_BAD_FIELD);
	m = request(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 1, 0, 0);
	m.hdr.attr_mod = ib_to_be32(1);
	assert_int_equal(ask(&m), IB_MAD_BAD_FIELD);
	m = request(IB_METHOD_GET, 0x33, 1, 0, 0);
	assert_int_equal(ask(&m), IB_MAD_BAD_METHOD_ATTR);
	m = request(IB_METHOD_SET, IB_PMA_ATTR_CLASS_PORT_INFO, 1, 0, 0);
	assert_int_equal(ask(&m), IB_MAD_BAD_METHOD_ATTR);
	m = request(0x15, IB_PMA_ATTR_PORT_COUNTERS, 1, 0, 0);
	assert_int_equal(ask(&m), IB_MAD_BAD_METHOD);
	m = request(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 1, 0, 0);
	m.hdr.class_version = 2;
	assert_int_equal(ask(&m), IB_MAD_BAD_VERSION);
	m = request(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 1, 0, 0);
	m.hdr.base_version = 0x80;
	assert_int_equal(ask(&m), IB_MAD_BAD_VERSION);
	m = request(IB_METHOD_GET_RESP, IB_PMA_ATTR_PORT_COUNTERS, 1, 0, 0);
	assert_int_equal(ib_pma_process(&pma, &m, &m, now), IB_PMA_DROP);
	m = request(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 1, 0, 0);
	m.hdr.mgmt_class = IB_CLASS_CM;
	assert_int_equal(ib_pma_process(&pma, &m, &m, now), IB_PMA_DROP);
}

/* The ports of an adapter start with 1, and port 0 of a switch does not count among them. */
static void adapter(void **st)
{
	struct ib_pma all = pma;
	struct ib_mad m;

	(void)st;
	pma.first_port = 1;
	pma.nports = 1;
	ctr[1].xmit_pkts = 42;
	assert_int_equal(classic(IB_METHOD_GET, 1, 0, 0).xmit_pkts, 42);
	assert_int_equal(classic(IB_METHOD_GET, IB_PMA_ALL_PORTS, 0, 0).xmit_pkts, 42);
	for (uint8_t i = 0; i <= 2; i += 2) {
		m = request(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, i, 0, 0);
		assert_int_equal(ask(&m), IB_MAD_BAD_FIELD);
	}
	pma = all;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(class_port_info, setup),
		cmocka_unit_test_setup(never_counted, setup),
		cmocka_unit_test_setup(real_counts, setup),
		cmocka_unit_test_setup(saturation, setup),
		cmocka_unit_test_setup(select_reset, setup),
		cmocka_unit_test_setup(all_ports, setup),
		cmocka_unit_test_setup(details, setup),
		cmocka_unit_test_setup(by_lane, setup),
		cmocka_unit_test_setup(sampling, setup),
		cmocka_unit_test_setup(refusals, setup),
		cmocka_unit_test_setup(adapter, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
