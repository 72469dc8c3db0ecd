// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The agent's checks of an SMP before it looks at the attribute (M_Keys, methods, routes), and
 * traps.
 */
#include "node.h"

/* ---- M_Keys ---- */

static enum ib_sma_verdict with_key(struct node *n, unsigned int port, uint8_t method,
				    uint16_t attr, uint32_t mod, uint64_t key)
{
	struct ib_smp smp;
	uint8_t d[64];

	memset(d, 0, sizeof(d));
	if (attr == IB_SMP_ATTR_PORT_INFO) {
		struct ib_port_info pi = request(n, mod ? mod : n->sma.si ? 0 : port);

		ib_port_info_pack(&pi, d);
	}
	smp_init(&smp, method, attr, mod, d);
	smp.mkey = ib_to_be64(key);
	return give(n, port, &smp);
}

static void mkeys(void **st)
{
	struct ib_port_info pi;
	struct ib_notice notice;
	struct ib_smp smp;
	struct port *p;
	struct node n;
	uint8_t out;

	(void)st;
	node_init(&n, false);
	p = &n.port[1];
	pi = request(&n, 1);
	p->end.lease_ns = 5;
	pi.mkey = 0xabc;
	pi.mkey_prot = 1;
	pi.mkey_lease = 60;
	pi.lid = 7;
	pi.sm_lid = 8;
	assert_int_equal(set_pi(&n, 1, 0, &pi), 0);
	assert_int_equal(p->end.lease_ns, UINT64_MAX);
	p->pi.state = IB_PS_ACTIVE;

	/* a Get without the key succeeds but does not show the key; a Get with the key shows it */
	assert_int_equal(get_pi(&n, 1, 0, &pi), 0);
	assert_int_equal(pi.mkey, 0);
	smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0, NULL);
	smp.mkey = ib_to_be64(0xabc);
	assert_int_equal(give(&n, 1, &smp), IB_SMA_REPLY);
	assert_int_equal(ib_be64(smp.mkey), 0);
	ib_port_info_unpack(smp.data, &pi);
	assert_int_equal(pi.mkey, 0xabc);

	/* a Set fails: the counter stays at its maximum, the lease starts, a trap is sent */
	p->pi.mkey_violations = 0xfffe;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(with_key(&n, 1, IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0x1234, 5),
				 IB_SMA_DISCARD);
		assert_int_equal(p->pi.mkey_violations, 0xffff);
	}
	assert_int_equal(p->end.lease_ns, NOW + 60000000000ull);
	assert_int_equal(n.traps, 0);
	ib_sma_timer(&n.sma, NOW);
	assert_int_equal(n.traps, 1);
	assert_int_equal(n.trap_num, 1);
	assert_int_equal(ib_be64(n.trap.hdr.tid), 2000);
	assert_int_equal(ib_be64(n.trap.mkey), 0xabc);
	ib_notice_unpack(n.trap.data, &notice);
	assert_int_equal(notice.generic, 1);
	assert_int_equal(notice.type, IB_NOTICE_SECURITY);
	assert_int_equal(notice.producer, IB_NODE_CHANNEL_ADAPTER);
	assert_int_equal(notice.trap, IB_TRAP_BAD_MKEY);
	assert_int_equal(notice.issuer_lid, 7);
	assert_int_equal(ib_get_be16(notice.details + 2), 9);
	assert_int_equal(notice.details[6], IB_METHOD_SET);
	assert_int_equal(ib_get_be16(notice.details + 8), IB_SMP_ATTR_SL2VL);
	assert_int_equal(ib_get_be32(notice.details + 10), 0x1234);
	assert_int_equal(ib_get_be64(notice.details + 14), 5);
	/* the right key stops the lease; a request that needs no key does not */
	assert_int_equal(get_pi(&n, 1, 0, &pi), 0);
	assert_int_equal(p->end.lease_ns, NOW + 60000000000ull);
	assert_int_equal(with_key(&n, 1, IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0, 0xabc), IB_SMA_REPLY);
	assert_int_equal(p->end.lease_ns, UINT64_MAX);

	/* only the driver may omit the key, and only in a Get */
	p->pi.mkey_prot = 2;
	for (unsigned int i = 0; i < 8; i++) {
		const struct ib_sma_in in = { .port = 1, .from_wire = i & 1, .ignore_mkey = i & 2 };

		smp_init(&smp, i & 4 ? IB_METHOD_GET : IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0, NULL);
		assert_int_equal(ib_sma_process(&n.sma, &in, &smp, &out),
				 i == 6 ? IB_SMA_REPLY : IB_SMA_DISCARD);
	}
	/* without a lease period no lease starts */
	p->pi.mkey_lease = 0;
	p->end.lease_ns = UINT64_MAX;
	assert_int_equal(with_key(&n, 1, IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0, 5), IB_SMA_DISCARD);
	assert_int_equal(p->end.lease_ns, UINT64_MAX);
}

/*
 * PortInfo of an HCA's other port needs the keys of both; other attributes, and a switch, need one.
 */
static void mkeys_of_two(void **st)
{
	struct node n;

	(void)st;
	node_init(&n, false);
	n.port[2].pi.mkey = 0xdef;
	n.port[2].pi.mkey_prot = 2;
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1, 0), IB_SMA_REPLY);
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, 2, 0),
			 IB_SMA_REPLY);
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0),
			 IB_SMA_DISCARD);
	assert_int_equal(n.port[1].pi.mkey_violations, 0);
	assert_int_equal(n.port[2].pi.mkey_violations, 1);
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0xdef),
			 IB_SMA_REPLY);
	assert_int_equal(with_key(&n, 2, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1, 0),
			 IB_SMA_DISCARD);
	node_init(&n, true);
	n.port[2].pi.mkey = 0xdef;
	n.port[2].pi.mkey_prot = 2;
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0), IB_SMA_REPLY);
	n.port[0].pi.mkey = 0xdef;
	n.port[0].pi.mkey_prot = 2;
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0),
			 IB_SMA_DISCARD);
}

/* ---- SMPs ---- */

static enum ib_sma_verdict verdict(struct node *n, uint8_t method, uint16_t attr)
{
	struct ib_smp smp;

	smp_init(&smp, method, attr, 0, NULL);
	return give(n, 1, &smp);
}

static void methods(void **st)
{
	static const uint8_t manager[] = {
		IB_METHOD_SEND, IB_METHOD_GET_RESP, IB_METHOD_TRAP, IB_METHOD_REPORT,
	};

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		struct ib_smp smp;
		struct node n;
		uint8_t d[64];

		node_init(&n, sw);
		for (unsigned int i = 0; i < IB_ARRAY_SIZE(manager); i++)
			assert_int_equal(verdict(&n, manager[i], IB_SMP_ATTR_NODE_INFO),
					 IB_SMA_UNHANDLED);
		assert_int_equal(verdict(&n, IB_METHOD_TRAP_REPRESS, IB_SMP_ATTR_NOTICE),
				 IB_SMA_CONSUMED);
		memset(d, 0, sizeof(d));
		assert_int_equal(ask(&n, 1, 0x15, IB_SMP_ATTR_NODE_INFO, 0, d), IB_MAD_BAD_METHOD);
		assert_int_equal(get(&n, 1, 0x1ff, 0, d), IB_MAD_BAD_METHOD_ATTR);
		/* SMInfo belongs to the subnet manager if there is one */
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_SM_INFO, 0, d), IB_MAD_BAD_METHOD_ATTR);
		n.port[sw ? 0 : 1].pi.cap_mask |= IB_CAP_SM;
		assert_int_equal(verdict(&n, IB_METHOD_GET, IB_SMP_ATTR_SM_INFO), IB_SMA_UNHANDLED);

		for (unsigned int i = 0; i < 2; i++) {
			smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL);
			smp.hdr.base_version = i ? 1 : 2;
			smp.hdr.class_version = i ? 2 : 1;
			assert_int_equal(give(&n, 1, &smp), IB_SMA_REPLY);
			assert_int_equal(ib_be16(smp.hdr.status), IB_MAD_BAD_VERSION);
		}
		smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL);
		smp.hdr.mgmt_class = IB_CLASS_PERF;
		assert_int_equal(give(&n, 1, &smp), IB_SMA_UNHANDLED);
	}
}

static void unclaimed(void **st)
{
	static const struct {
		uint8_t method;
		bool answered;
	} m[] = {
		{ IB_METHOD_GET, true }, { IB_METHOD_SET, true }, { IB_METHOD_TRAP, false },
		{ IB_METHOD_GET_RESP, false }, { IB_METHOD_SEND, false },
	};
	const struct ib_sma_in in = { .port = 1, .from_wire = true };
	struct ib_smp smp;
	struct node n;
	uint8_t out;

	(void)st;
	node_init(&n, false);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(m); i++) {
		smp_init(&smp, m[i].method, IB_SMP_ATTR_SM_INFO, 0, NULL);
		assert_int_equal(ib_sma_unclaimed(&n.sma, &in, &smp, &out),
				 m[i].answered ? IB_SMA_REPLY : IB_SMA_DISCARD);
		if (m[i].answered)
			assert_int_equal(ib_be16(smp.hdr.status), IB_MAD_BAD_METHOD_ATTR);
	}
	/* this SMP is for another node, or for none */
	smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, 0, NULL);
	smp.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	ib_smp_set_hops(&smp, 1, 2);
	assert_int_equal(ib_sma_unclaimed(&n.sma, &in, &smp, &out), IB_SMA_DISCARD);
}

static enum ib_sma_verdict route(struct node *n, bool from_wire, uint8_t ptr, uint8_t cnt,
				 bool returning, uint8_t *out)
{
	const struct ib_sma_in in = { .port = 2, .from_wire = from_wire };
	struct ib_smp smp;

	smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL);
	smp.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	smp.dr_slid = smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	smp.init_path[1] = smp.init_path[2] = smp.ret_path[1] = 1;
	smp.init_path[3] = 4;
	if (returning)
		smp.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
	ib_smp_set_hops(&smp, ptr, cnt);
	return ib_sma_process(&n->sma, &in, &smp, out);
}

static void routes(void **st)
{
	struct node n;
	uint8_t out;

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		node_init(&n, sw);
		/* the route ends here, and the answer leaves by the port of arrival */
		assert_int_equal(route(&n, true, 1, 1, false, &out), IB_SMA_REPLY);
		assert_int_equal(out, 2);
		/* the same without hops */
		assert_int_equal(route(&n, true, 0, 0, false, &out), IB_SMA_REPLY);
		assert_int_equal(out, 2);
		/*
		 * a switch forwards; a request has no return path; a hop pointer from beyond the
		 * end is invalid
		 */
		assert_int_equal(route(&n, true, 1, 2, false, &out),
				 sw ? IB_SMA_FORWARD : IB_SMA_DISCARD);
		if (sw)
			assert_int_equal(out, 1);
		assert_int_equal(route(&n, true, 2, 3, false, &out), IB_SMA_DISCARD);
		assert_int_equal(route(&n, true, 0, 1, false, &out), IB_SMA_DISCARD);
		assert_int_equal(route(&n, true, 1, 1, true, &out), IB_SMA_DISCARD);
		/* a request of the driver has already followed its route */
		assert_int_equal(route(&n, false, 1, 2, false, &out), IB_SMA_REPLY);
		assert_int_equal(out, IB_DR_PORT_BY_LID);
	}
}

/* ---- traps and time ---- */

static void traps(void **st)
{
	struct ib_notice notice;
	uint8_t details[54], d[64];

	(void)st;
	for (unsigned int i = 0; i < sizeof(details); i++)
		details[i] = (uint8_t)i;
	for (unsigned int sw = 0; sw < 2; sw++) {
		unsigned int num = sw ? 0 : 2;
		const uint64_t timeout = ib_time_ns(19);
		struct port *p;
		struct ib_smp smp;
		struct node n;

		node_init(&n, sw);
		p = &n.port[num];
		p->pi.subnet_timeout = 19;
		p->pi.lid = 7;
		p->pi.sm_lid = 8;
		p->pi.state = IB_PS_ARMED;
		assert_int_equal(ib_sma_deadline(&n.sma), UINT64_MAX);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_NOTICE, 0, d), 0);
		ib_notice_unpack(d, &notice);
		assert_int_equal(notice.type, IB_NOTICE_EMPTY);
		/* no trap is sent before Active or without a manager */
		assert_false(ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
					 details, NOW));
		p->pi.state = IB_PS_ACTIVE;
		p->pi.sm_lid = 0;
		assert_false(ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
					 details, NOW));
		p->pi.sm_lid = 8;
		assert_true(ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
					details, NOW));
		assert_int_equal(ib_sma_deadline(&n.sma), NOW);
		ib_sma_timer(&n.sma, NOW - 1);
		assert_int_equal(n.traps, 0);
		ib_sma_timer(&n.sma, NOW);
		assert_int_equal(n.traps, 1);
		assert_int_equal(n.trap_num, num);
		assert_int_equal(n.trap.hdr.base_version, IB_MAD_BASE_VERSION);
		assert_int_equal(n.trap.hdr.class_version, IB_SMP_CLASS_VERSION);
		assert_int_equal(n.trap.hdr.mgmt_class, IB_CLASS_SUBN_LID);
		assert_int_equal(n.trap.hdr.method, IB_METHOD_TRAP);
		assert_int_equal(n.trap.hdr.status, 0);
		assert_int_equal(ib_be16(n.trap.hdr.attr_id), IB_SMP_ATTR_NOTICE);
		assert_int_equal(n.trap.ret_path[63], 0);
		ib_notice_unpack(n.trap.data, &notice);
		assert_int_equal(notice.generic, 1);
		assert_int_equal(notice.type, IB_NOTICE_URGENT);
		assert_int_equal(notice.producer, sw ? 2 : 1);
		assert_int_equal(notice.trap, IB_TRAP_LINK_STATE_CHANGE);
		assert_int_equal(notice.issuer_lid, 7);
		assert_memory_equal(notice.details, details, 54);
		assert_int_equal(ib_sma_deadline(&n.sma), NOW + timeout);
		/* Get shows the notice; Set and TrapRepress remove it */
		for (unsigned int i = 0; i < 2; i++) {
			assert_int_equal(get(&n, 2, IB_SMP_ATTR_NOTICE, 0, d), 0);
			ib_notice_unpack(d, &notice);
			assert_int_equal(notice.trap, IB_TRAP_LINK_STATE_CHANGE);
			assert_int_equal(notice.issuer_lid, 7);
			if (i) {
				assert_int_equal(set(&n, 2, IB_SMP_ATTR_NOTICE, 0, d), 0);
			} else {
				smp = n.trap;
				smp.hdr.method = IB_METHOD_TRAP_REPRESS;
				assert_int_equal(give(&n, 2, &smp), IB_SMA_CONSUMED);
			}
			assert_int_equal(p->end.traps.repressed, i + 1);
			assert_int_equal(ib_sma_deadline(&n.sma), UINT64_MAX);
			ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
				    details, NOW);
		}
	}
}

/* When the lease of a port expires, its protection ends, and that of no other port. */
static void leases(void **st)
{
	struct node n;

	(void)st;
	node_init(&n, false);
	for (unsigned int i = 1; i <= 2; i++) {
		n.port[i].pi.mkey = 1;
		n.port[i].pi.mkey_prot = 1;
		n.port[i].end.lease_ns = NOW + i;
	}
	for (unsigned int i = 1; i <= 2; i++) {
		assert_int_equal(ib_sma_deadline(&n.sma), NOW + i);
		ib_sma_timer(&n.sma, NOW + i - 1);
		assert_int_equal(n.port[i].pi.mkey_prot, 1);
		ib_sma_timer(&n.sma, NOW + i);
		assert_int_equal(n.port[i].pi.mkey_prot, 0);
		assert_int_equal(n.port[i].pi.mkey, 1);
		assert_int_equal(n.port[i].end.lease_ns, UINT64_MAX);
	}
	assert_int_equal(ib_sma_deadline(&n.sma), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mkeys),
		cmocka_unit_test(mkeys_of_two),
		cmocka_unit_test(methods),
		cmocka_unit_test(unclaimed),
		cmocka_unit_test(routes),
		cmocka_unit_test(traps),
		cmocka_unit_test(leases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
