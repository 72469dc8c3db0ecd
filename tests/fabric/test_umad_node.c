// SPDX-License-Identifier: GPL-2.0-or-later
/* The channel adapter of a process with libohca-umad.so: states of its port without a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ib/portinfo.h"
#include "ib/sma.h"
#include "umad/agent.h"
#include "umad/node.h"
#include "umad/wire.h"

static int64_t now;
static struct ib_smp answer;

/* ---- its link and its agents ----------------------------------------------------- */

int64_t um_now_ns(void)
{
	return now;
}

bool um_wire_send(unsigned int vl, const void *pkt, size_t len)
{
	(void)vl;
	(void)pkt;
	(void)len;
	return true;
}

void um_wire_wake(int64_t due_ns)
{
	(void)due_ns;
}

bool um_agent_deliver(const struct ib_mad *mad, const ib_mad_addr_t *from)
{
	(void)from;
	memcpy(&answer, mad, sizeof(answer));
	return true;
}

/* ---- a subnet manager in the process itself -------------------------------------- */

/* Sends an SMP on a directed route without hops. Return: its status. */
static uint16_t port_info(uint8_t method, struct ib_port_info *pi)
{
	const ib_mad_addr_t to = { .lid = ib_to_be16(IB_LID_PERMISSIVE) };
	struct ib_smp smp = {
		.hdr = {
			.base_version = IB_MAD_BASE_VERSION,
			.mgmt_class = IB_CLASS_SUBN_DR,
			.class_version = 1,
			.method = method,
			.attr_id = ib_to_be16(IB_SMP_ATTR_PORT_INFO),
			.attr_mod = ib_to_be32(1),
		},
		.dr_slid = ib_to_be16(IB_LID_PERMISSIVE),
		.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE),
	};
	struct ib_mad mad;

	if (method == IB_METHOD_SET)
		ib_port_info_pack(pi, smp.data);
	memcpy(&mad, &smp, sizeof(mad));
	memset(&answer, 0, sizeof(answer));
	um_node_send(&to, &mad);
	assert_int_equal(answer.hdr.method, IB_METHOD_GET_RESP);
	ib_port_info_unpack(answer.data, pi);
	return ib_be16(answer.hdr.status) & 0x7fff;
}

static uint8_t phys(void)
{
	struct ib_port_info pi;

	assert_int_equal(port_info(IB_METHOD_GET, &pi), 0);
	return pi.phys_state;
}

/* A Set of PortInfo with these states; 0: no change. */
static void set_port(uint8_t state, uint8_t phys_state, uint8_t down_default)
{
	struct ib_port_info pi;

	assert_int_equal(port_info(IB_METHOD_GET, &pi), 0);
	pi.lid = 1;
	pi.sm_lid = 1;
	pi.op_vls = 1;
	pi.state = state;
	pi.phys_state = phys_state;
	pi.down_default = down_default;
	assert_int_equal(port_info(IB_METHOD_SET, &pi), 0);
}

static void train(void)
{
	const struct ohca_link_state st = { .width = 2, .speed = 1, .speed_ext = 0 };
	struct ohca_link_cfg peer;

	um_node_link_cfg(&peer);
	peer.vl_cap = 8;
	peer.mtu_cap = 5;
	um_node_link_up(&st, &peer);
	/* give it a LID */
	set_port(IB_PS_NO_CHANGE, IB_PHYS_NO_CHANGE, 0);
	assert_int_equal(phys(), IB_PHYS_LINK_UP);
}

static uint64_t downs(void)
{
	const ib_mad_addr_t to = { .lid = ib_to_be16(um_node.pi.lid), .qpn = ib_to_be32(1) };
	struct ib_mad mad = {
		.hdr = {
			.base_version = IB_MAD_BASE_VERSION,
			.mgmt_class = IB_CLASS_PERF,
			.class_version = 1,
			.method = IB_METHOD_GET,
			.attr_id = ib_to_be16(0x12),
		},
	};
	uint8_t *d = (uint8_t *)&mad + 64;

	/* to the own port, by its LID: request and response are delivered by the timer */
	d[1] = 1;
	um_node_send(&to, &mad);
	um_node_timer(now);
	um_node_timer(now);
	assert_int_equal(answer.hdr.mgmt_class, IB_CLASS_PERF);
	return ((const uint8_t *)&answer)[64 + 7];
}

/* A link that goes down by itself leaves the port in LinkDownDefaultState, and is counted. */
static void test_by_itself(void **st)
{
	uint64_t before;

	(void)st;
	train();
	set_port(IB_PS_NO_CHANGE, IB_PHYS_NO_CHANGE, IB_PHYS_POLLING);
	before = downs();
	um_node_link_down();
	assert_int_equal(phys(), IB_PHYS_POLLING);
	assert_int_equal(downs(), before + 1);
	/* counted once */
	um_node_link_down();
	assert_int_equal(downs(), before + 1);
	train();
	set_port(IB_PS_NO_CHANGE, IB_PHYS_NO_CHANGE, IB_PHYS_SLEEP);
	um_node_link_down();
	assert_int_equal(phys(), IB_PHYS_SLEEP);
}

/* A Set decides the state, and counts no error; Disabled stays until another Set. */
static void test_by_set(void **st)
{
	static const struct {
		uint8_t asked, phys;
	} set[] = {
		{ IB_PHYS_NO_CHANGE, IB_PHYS_SLEEP },
		{ IB_PHYS_POLLING, IB_PHYS_POLLING },
		{ IB_PHYS_SLEEP, IB_PHYS_SLEEP },
		{ IB_PHYS_DISABLED, IB_PHYS_DISABLED },
	};
	struct ohca_link_phy phy;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(set); i++) {
		uint64_t before;

		train();
		before = downs();
		set_port(IB_PS_DOWN, set[i].asked, IB_PHYS_SLEEP);
		assert_true(um_node_phy(&phy));
		assert_int_equal(phy.enabled, set[i].phys != IB_PHYS_DISABLED);
		um_node_link_down();		/* the link confirms */
		assert_int_equal(phys(), set[i].phys);
		assert_int_equal(downs(), before);
		assert_false(um_node_phy(&phy));
	}
	/* the port is still disabled for a new link, and a failing link does not enable it */
	um_node_link_down();
	assert_false(um_node_phy(&phy));
	assert_false(phy.enabled);
	assert_int_equal(phys(), IB_PHYS_DISABLED);
	set_port(IB_PS_DOWN, IB_PHYS_POLLING, IB_PHYS_POLLING);
	assert_true(um_node_phy(&phy));
	assert_true(phy.enabled);
	assert_int_equal(phys(), IB_PHYS_POLLING);
}

static int setup(void **st)
{
	(void)st;
	um_node_init(0x5254, "a process");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_by_itself, setup),
		cmocka_unit_test_setup(test_by_set, setup),
	};

	return cmocka_run_group_tests_name("the node of a process", tests, NULL, NULL);
}
