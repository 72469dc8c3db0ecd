/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Set(PortInfo), as OpenSM sends it and with errors; states; M_Keys. */
#include "cm.h"

#include "ib/packet.h"
#include "ib/portinfo.h"
#include "ib/rate.h"

static const struct ib_port_profile edr = {
	.width = IB_WIDTH_1X | IB_WIDTH_4X,
	.speed = IB_SPEED_SDR | IB_SPEED_DDR | IB_SPEED_QDR,
	.speed_ext = IB_SPEED_EXT_FDR | IB_SPEED_EXT_EDR,
	.mtu_cap = IB_MTU_CODE_4096,
	.vl_cap = 4,
	.vlarb_cap = 8,
	.guid_cap = 128,
	.cap_mask = IB_CAP_TRAP | IB_CAP_CLIENT_REREG,
};

static struct ib_port_info fresh(enum ib_pi_kind kind)
{
	struct ib_port_info pi;

	ib_port_info_init(&pi, &edr, 1, kind);
	assert_int_equal(ib_port_negotiate(&pi, 3, 7, 3, 5, 4), 0);
	ib_port_link_up(&pi);
	return pi;
}

/* The Set of a manager: the PortInfo that it has read, without a change of state. */
static struct ib_port_info request(const struct ib_port_info *pi)
{
	struct ib_port_info r = *pi;

	r.state = IB_PS_NO_CHANGE;
	r.phys_state = IB_PHYS_NO_CHANGE;
	return r;
}

static void bring_up(void **st)
{
	struct ib_port_info pi = fresh(IB_PI_CA), r;
	uint32_t eff;

	(void)st;
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_int_equal(pi.phys_state, IB_PHYS_LINK_UP);
	assert_true(pi.cap_mask & IB_CAP_EXT_SPEEDS);
	assert_int_equal(pi.cap_mask2, 0);
	assert_int_equal(pi.speed_ext_active, IB_SPEED_EXT_EDR);
	assert_int_equal(pi.width_active, IB_WIDTH_4X);

	r = request(&pi);
	r.lid = 5;
	r.sm_lid = 1;
	r.client_reregister = 1;
	r.mtu = IB_MTU_CODE_2048;
	r.op_vls = 2;
	r.mkey_prot = 1;
	r.mkey = 0x1234;
	r.subnet_timeout = 17;
	r.init_type = 9;
	r.lmc = 0;
	r.sm_sl = 6;
	r.mkey_lease = 33;
	r.local_phy_errors = 3;
	r.overrun_errors = 4;
	r.down_default = IB_PHYS_SLEEP;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_LID | IB_PI_EFF_SM | IB_PI_EFF_REREG | IB_PI_EFF_MTU |
			 IB_PI_EFF_VLS | IB_PI_EFF_MKEY);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_true(pi.lid == 5 && pi.sm_lid == 1 && pi.mtu == 4 && pi.op_vls == 2);
	assert_int_equal(pi.client_reregister, 0);
	assert_true(pi.mkey == 0x1234 && pi.mkey_prot == 1 && pi.mkey_lease == 33);
	assert_true(pi.subnet_timeout == 17 && pi.init_type == 9 && pi.sm_sl == 6);
	assert_true(pi.local_phy_errors == 3 && pi.overrun_errors == 4);
	assert_int_equal(pi.down_default, IB_PHYS_SLEEP);
	r = request(&pi);
	r.lid = 8;
	r.lmc = 3;
	r.mtu = 0;				/* 0 keeps these four */
	r.op_vls = 0;
	r.down_default = 0;
	r.width_enabled = 0;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_LID);
	assert_true(pi.lid == 8 && pi.lmc == 3 && pi.mtu == 4 && pi.op_vls == 2);
	assert_true(pi.down_default == IB_PHYS_SLEEP && pi.width_enabled == 3);

	/* no change at all */
	r = request(&pi);
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, 0);

	/* the state can become Active only from Armed */
	r.state = IB_PS_ACTIVE;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_BAD_FIELD);
	assert_int_equal(pi.state, IB_PS_INIT);
	r.state = IB_PS_ARMED;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_STATE);
	assert_int_equal(pi.state, IB_PS_ARMED);
	r.state = IB_PS_ACTIVE;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_STATE);
	assert_int_equal(pi.state, IB_PS_ACTIVE);
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, 0);
	r.state = IB_PS_ARMED;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_BAD_FIELD);

	/* the link goes down and comes up */
	assert_true(ib_port_link_down(&pi, IB_PHYS_POLLING));
	assert_false(ib_port_link_down(&pi, IB_PHYS_POLLING));
	r.state = IB_PS_ARMED;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_BAD_FIELD);
	assert_true(ib_port_link_up(&pi));
	assert_false(ib_port_link_up(&pi));
	assert_false(ib_port_rx_data(&pi));
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_true(ib_port_rx_data(&pi));
	assert_int_equal(pi.state, IB_PS_ACTIVE);
}

/* A bad component changes nothing, the good ones take effect, and the status reports the error. */
#define BAD(kind, stmt) do {								\
	struct ib_port_info pi_ = fresh(kind), r = request(&pi_), old = pi_;		\
	uint32_t eff_;									\
	r.vl_high_limit = 99;								\
	stmt;										\
	assert_int_equal(ib_port_info_set(&pi_, &r, kind, &eff_), IB_MAD_BAD_FIELD);	\
	assert_int_equal(pi_.vl_high_limit, 99);					\
	pi_.vl_high_limit = old.vl_high_limit;						\
	assert_memory_equal(&pi_, &old, sizeof(old));					\
	assert_int_equal(eff_, IB_PI_EFF_VLARB);					\
} while (0)

static void bad_fields(void **st)
{
	(void)st;
	BAD(IB_PI_CA, r.lid = 0xc000);
	BAD(IB_PI_CA, r.lid = 0xffff);
	BAD(IB_PI_CA, (r.lid = 5, r.lmc = 1));
	BAD(IB_PI_CA, (r.lid = 0, r.lmc = 1));
	BAD(IB_PI_CA, r.sm_lid = 0xc000);
	BAD(IB_PI_CA, (r.sm_lid = 0, r.sm_sl = 1));
	BAD(IB_PI_CA, r.mtu = 6);
	BAD(IB_PI_CA, r.op_vls = 5);
	BAD(IB_PI_CA, r.op_vls = 9);
	BAD(IB_PI_CA, r.width_enabled = IB_WIDTH_12X);
	BAD(IB_PI_CA, r.speed_enabled = 8);
	BAD(IB_PI_CA, r.speed_ext_enabled = IB_SPEED_EXT_HDR);
	BAD(IB_PI_CA, r.down_default = 3);
	BAD(IB_PI_CA, r.state = IB_PS_INIT);
	BAD(IB_PI_CA, r.state = 5);
	BAD(IB_PI_CA, r.phys_state = IB_PHYS_TRAINING);
	BAD(IB_PI_CA, (r.state = IB_PS_ARMED, r.phys_state = IB_PHYS_POLLING));
	BAD(IB_PI_SWITCH_PORT0, r.phys_state = IB_PHYS_DISABLED);
	BAD(IB_PI_SWITCH_PORT0, r.state = IB_PS_DOWN);
	BAD(IB_PI_SWITCH_EXT, r.state = IB_PS_ACTIVE);
}

static void enables(void **st)
{
	struct ib_port_info pi = fresh(IB_PI_CA), r = request(&pi);
	uint32_t eff;

	(void)st;
	r.width_enabled = IB_WIDTH_1X;
	r.speed_enabled = IB_SPEED_SDR;
	r.speed_ext_enabled = IB_SPEED_EXT_DISABLE;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_WIDTH_SPEED);
	assert_int_equal(ib_port_negotiate(&pi, 3, 7, 3, 4, 2), 0);
	assert_true(pi.width_active == IB_WIDTH_1X && pi.speed_active == IB_SPEED_SDR &&
		    pi.speed_ext_active == 0 && pi.mtu == 4 && pi.op_vls == 2);
	r.width_enabled = IB_WIDTH_SET_SUPPORTED;
	r.speed_enabled = IB_SPEED_SET_SUPPORTED;
	r.speed_ext_enabled = IB_SPEED_EXT_SET_SUPPORTED;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_true(pi.width_enabled == 3 && pi.speed_enabled == 7 && pi.speed_ext_enabled == 3);
	r.width_enabled = r.speed_enabled = r.speed_ext_enabled = 0;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, 0);
	/* no common width, no common speed, invalid values of the peer */
	assert_int_equal(ib_port_negotiate(&pi, IB_WIDTH_12X, 7, 3, 5, 4), -1);
	assert_int_equal(ib_port_negotiate(&pi, 3, 0, IB_SPEED_EXT_HDR, 5, 4), -1);
	assert_int_equal(ib_port_negotiate(&pi, 3, 7, 3, 0, 4), -1);
	assert_int_equal(ib_port_negotiate(&pi, 3, 7, 3, 5, 9), -1);
}

static void link_requests(void **st)
{
	struct ib_port_info pi = fresh(IB_PI_SWITCH_EXT), r = request(&pi);
	uint32_t eff;

	(void)st;
	r.phys_state = IB_PHYS_DISABLED;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_SWITCH_EXT, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_LINK_DISABLE);
	ib_port_link_down(&pi, IB_PHYS_DISABLED);
	/* Down alone does not enable a disabled port; Polling does. */
	r.state = IB_PS_DOWN;
	r.phys_state = 0;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_SWITCH_EXT, &eff), IB_MAD_OK);
	assert_int_equal(eff, 0);
	r.phys_state = IB_PHYS_POLLING;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_SWITCH_EXT, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_LINK_DOWN);
	/* Down alone leads to LinkDownDefaultState */
	ib_port_link_up(&pi);
	r.phys_state = IB_PHYS_NO_CHANGE;
	r.down_default = IB_PHYS_SLEEP;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_SWITCH_EXT, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_LINK_DOWN | IB_PI_EFF_LINK_SLEEP);
	assert_int_equal(ib_port_due_phys(eff), IB_PHYS_SLEEP);
	/* LIDs and keys of an external port cannot be set */
	r = request(&pi);
	r.lid = 77;
	r.mkey = 1;
	r.part_enf_in = 1;
	r.hoq_life = 9;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_SWITCH_EXT, &eff), IB_MAD_OK);
	assert_int_equal(eff, IB_PI_EFF_ENFORCE);
	for (unsigned int i = 0; i < 3; i++) {
		uint8_t *f[] = { &r.part_enf_out, &r.filter_raw_in, &r.filter_raw_out };

		*f[i] = 1;
		assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_SWITCH_EXT, &eff), IB_MAD_OK);
		assert_int_equal(eff, IB_PI_EFF_ENFORCE);
	}
	assert_true(pi.part_enf_out && pi.filter_raw_in && pi.filter_raw_out);
	assert_true(pi.lid == 0 && pi.mkey == 0 && pi.part_enf_in == 1 && pi.hoq_life == 9);
}

static void profiles(void **st)
{
	struct ib_port_profile hdr = edr;
	struct ib_port_info pi;

	(void)st;
	hdr.width |= IB_WIDTH_2X;
	hdr.speed_ext |= IB_SPEED_EXT_HDR;
	ib_port_info_init(&pi, &hdr, 1, IB_PI_CA);
	assert_int_equal(pi.cap_mask2, IB_CAP2_SPEED_HDR | IB_CAP2_WIDTH_2X);
	assert_true(pi.cap_mask & IB_CAP_CAP_MASK2);
	hdr.speed_ext = IB_SPEED_EXT_NDR;
	ib_port_info_init(&pi, &hdr, 1, IB_PI_CA);
	assert_int_equal(pi.cap_mask2, IB_CAP2_SPEED_NDR | IB_CAP2_WIDTH_2X);
	ib_port_info_init(&pi, &hdr, 1, IB_PI_SWITCH_EXT);
	assert_true(pi.cap_mask == 0 && pi.cap_mask2 == 0 && pi.guid_cap == 0);
	hdr.speed_ext = 0;
	ib_port_info_init(&pi, &hdr, 0, IB_PI_SWITCH_PORT0);
	assert_true(pi.state == IB_PS_ACTIVE && pi.phys_state == IB_PHYS_LINK_UP);
	assert_false(pi.cap_mask & IB_CAP_EXT_SPEEDS);
}

/* PortInfo of a CA before its link first comes up; all other fields are 0. */
static void initial(void **st)
{
	static const struct ib_port_info want = {
		.local_port = 1,
		.width_enabled = 3, .width_supported = 3, .width_active = IB_WIDTH_4X,
		.speed_enabled = 7, .speed_supported = 7, .speed_active = IB_SPEED_QDR,
		.speed_ext_enabled = 3, .speed_ext_supported = 3,
		.speed_ext_active = IB_SPEED_EXT_EDR,
		.down_default = IB_PHYS_POLLING, .state = IB_PS_DOWN, .phys_state = IB_PHYS_POLLING,
		.mtu_cap = 5, .mtu = 5, .vl_cap = 4, .op_vls = 4,
		.vlarb_high_cap = 8, .vlarb_low_cap = 8,
		.resp_time = 8, .subnet_timeout = 18, .local_phy_errors = 8, .overrun_errors = 8,
		.guid_cap = 128, .gid_prefix = 0xfe80000000000000ull,
		.cap_mask = IB_CAP_TRAP | IB_CAP_CLIENT_REREG | IB_CAP_EXT_SPEEDS,
	};
	struct ib_port_info pi;

	(void)st;
	ib_port_info_init(&pi, &edr, 1, IB_PI_CA);
	assert_memory_equal(&pi, &want, sizeof(want));
	ib_port_info_init(&pi, &edr, 1, IB_PI_SWITCH_EXT);
	assert_true(pi.vl_stall_count == 7 && pi.hoq_life == 18 && pi.gid_prefix == 0);
	/* the values of both ends of a link count */
	assert_int_equal(ib_port_negotiate(&pi, 3, 0, 1, IB_MTU_CODE_2048, 3), 0);
	assert_true(pi.speed_active == IB_SPEED_SDR && pi.speed_ext_active == IB_SPEED_EXT_FDR);
	assert_true(pi.mtu == IB_MTU_CODE_2048 && pi.op_vls == 3);
}

static void violations(void **st)
{
	struct ib_port_info pi = fresh(IB_PI_CA), r;
	uint32_t eff;

	(void)st;
	pi.mkey_violations = 3;
	pi.pkey_violations = 4;
	pi.qkey_violations = 5;
	r = request(&pi);
	r.pkey_violations = 0;
	r.qkey_violations = 77;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_true(pi.mkey_violations == 3 && pi.pkey_violations == 0 &&
		    pi.qkey_violations == 5);
}

static void mkeys(void **st)
{
	struct ib_port_info pi = { .mkey = 0 };
	struct ib_smp s;

	(void)st;
	memset(&s, 0, sizeof(s));
	for (unsigned int prot = 0; prot < 4; prot++)
		for (unsigned int key = 0; key < 3; key++) {
			bool match = key != 1;		/* 0: none set, 1: wrong, 2: right */
			enum ib_mkey_verdict get;

			pi.mkey_prot = (uint8_t)prot;
			pi.mkey = key ? 0x99 : 0;
			s.mkey = ib_to_be64(key == 2 ? 0x99 : 0x77);
			get = match || prot == 0 ? IB_MKEY_OK :
			      prot == 1 ? IB_MKEY_OK_HIDE : IB_MKEY_BAD;
			s.hdr.method = IB_METHOD_GET;
			assert_int_equal(ib_mkey_check(&pi, &s), get);
			s.hdr.method = IB_METHOD_SET;
			assert_int_equal(ib_mkey_check(&pi, &s), match ? IB_MKEY_OK : IB_MKEY_BAD);
			s.hdr.method = IB_METHOD_TRAP_REPRESS;
			assert_int_equal(ib_mkey_check(&pi, &s), match ? IB_MKEY_OK : IB_MKEY_BAD);
			s.hdr.method = IB_METHOD_TRAP;
			assert_int_equal(ib_mkey_check(&pi, &s), IB_MKEY_OK);
		}
}

/* XDR has fields of its own, of two and three bits, and CapabilityMask2. */
static void xdr(void **st)
{
	struct ib_port_profile prof = edr;
	struct ib_port_info pi, r;
	uint8_t d[64];
	uint32_t eff;

	(void)st;
	prof.speed_ext = IB_SPEED_EXT_FDR | IB_SPEED_EXT_EDR | IB_SPEED_EXT_HDR |
			 IB_SPEED_EXT_NDR | IB_SPEED_EXT_XDR;
	ib_port_info_init(&pi, &prof, 1, IB_PI_CA);
	assert_int_equal(pi.cap_mask2, 1 << 5 | 1 << 10 | 1 << 11 | 1 << 12);
	assert_true(pi.cap_mask & IB_CAP_CAP_MASK2);
	assert_int_equal(ib_port_negotiate(&pi, 3, 7, prof.speed_ext, 5, 4), 0);
	assert_int_equal(pi.speed_ext_active, IB_SPEED_EXT_XDR);
	assert_int_equal(pi.speed_active, IB_SPEED_QDR);
	ib_port_info_pack(&pi, d);
	assert_int_equal(d[56], 1 << 5 | 1 << 3 | 1);
	assert_int_equal(d[62], 0 << 4 | 15);
	assert_int_equal(d[63], 15);
	ib_port_info_unpack(d, &r);
	assert_memory_equal(&r, &pi, sizeof(r));

	/* the value that was read may be written; 0 keeps it, 7 enables all that is supported */
	r = request(&pi);
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, 0);
	r.speed_ext_enabled = 0;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, 0);
	r.speed_ext_enabled = 7 << 5 | IB_SPEED_EXT_SET_SUPPORTED;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(eff, 0);
	r.speed_ext_enabled = 2 << 5;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_BAD_FIELD);
	assert_int_equal(pi.speed_ext_enabled, prof.speed_ext);
	/* a manager that does not support XDR */
	r.speed_ext_enabled = IB_SPEED_EXT_NDR;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(pi.speed_ext_enabled, IB_SPEED_EXT_NDR | IB_SPEED_EXT_XDR);
	r.speed_ext_enabled = IB_SPEED_EXT_DISABLE;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(pi.speed_ext_enabled, IB_SPEED_EXT_DISABLE);
	assert_int_equal(ib_port_negotiate(&pi, 3, 7, prof.speed_ext, 5, 4), 0);
	assert_int_equal(pi.speed_ext_active, 0);
	r.speed_ext_enabled = 0;
	assert_int_equal(ib_port_info_set(&pi, &r, IB_PI_CA, &eff), IB_MAD_OK);
	assert_int_equal(pi.speed_ext_enabled, IB_SPEED_EXT_DISABLE);

	assert_int_equal(ib_link_mbps(IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_XDR), 800000);
	assert_int_equal(ib_rate_code(IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_XDR), 23);
	assert_int_equal(ib_rate_code(IB_WIDTH_8X, IB_SPEED_QDR, IB_SPEED_EXT_XDR), 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bring_up),
		cmocka_unit_test(bad_fields),
		cmocka_unit_test(enables),
		cmocka_unit_test(link_requests),
		cmocka_unit_test(profiles),
		cmocka_unit_test(initial),
		cmocka_unit_test(violations),
		cmocka_unit_test(mkeys),
		cmocka_unit_test(xdr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
