/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attribute layouts, compared with libibmad, which is independent of this project: it reads each
 * field that we pack, and we unpack what we packed.
 */
#include "cm.h"

#include <stdlib.h>

#include <infiniband/mad.h>

#include "ib/pma.h"
#include "ib/smp.h"

struct row {
	enum MAD_FIELDS f;
	unsigned int off, size, width;
};

#define R(type, member, field, bits) \
	{ field, offsetof(struct type, member), sizeof(((struct type *)0)->member), bits }

static uint64_t rnd(unsigned int width)
{
	uint64_t v = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();

	return width == 64 ? v : v & ((1ull << width) - 1);
}

static void put(void *host, const struct row *r, uint64_t v)
{
	uint8_t *m = (uint8_t *)host + r->off;
	uint16_t v16 = (uint16_t)v;
	uint32_t v32 = (uint32_t)v;

	switch (r->size) {
	case 1:
		*m = (uint8_t)v;
		break;
	case 2:
		memcpy(m, &v16, 2);
		break;
	case 4:
		memcpy(m, &v32, 4);
		break;
	default:
		memcpy(m, &v, 8);
	}
}

typedef void pack_fn(const void *v, uint8_t *d);
typedef void unpack_fn(const uint8_t *d, void *v);

static void check(const struct row *r, unsigned int n, size_t host_size, unsigned int len,
		  pack_fn *pack, unpack_fn *unpack)
{
	srand(3);
	for (unsigned int round = 0; round < 100; round++) {
		uint64_t host[64] = { 0 }, back[64] = { 0 }, want[64];
		uint8_t d[256], e[256];

		assert_true(host_size <= sizeof(host));
		for (unsigned int i = 0; i < n; i++) {
			want[i] = rnd(r[i].width);
			put(host, &r[i], want[i]);
		}
		memset(d, 0xff, sizeof(d));
		pack(host, d);
		for (unsigned int i = 0; i < n; i++) {
			uint64_t got;

			if (r[i].width == 64)
				got = mad_get_field64(d, 0, r[i].f);
			else
				got = mad_get_field(d, 0, r[i].f);
			if (got != want[i])
				fail_msg("field %d (row %u): %llx, libibmad reads %llx", r[i].f, i,
					 (unsigned long long)want[i], (unsigned long long)got);
		}
		unpack(d, back);
		assert_memory_equal(host, back, host_size);
		memset(e, 0, sizeof(e));
		pack(back, e);
		assert_memory_equal(d, e, len);
	}
}

#define CHECK(rows, type, len, fn)							\
	check(rows, IB_ARRAY_SIZE(rows), sizeof(struct type), len, p_##fn, u_##fn)
#define WRAP(fn, type)									\
static void p_##fn(const void *v, uint8_t *d) { fn##_pack(v, d); }			\
static void u_##fn(const uint8_t *d, void *v) { fn##_unpack(d, v); }

WRAP(ib_node_info, ib_node_info)
WRAP(ib_switch_info, ib_switch_info)
WRAP(ib_port_info, ib_port_info)
WRAP(ib_sm_info, ib_sm_info)
WRAP(ib_pma_cpi, ib_pma_class_port_info)
WRAP(ib_pma_pc, ib_pma_port_counters)
WRAP(ib_pma_pce, ib_pma_port_counters_ext)

static const struct row node_info[] = {
	R(ib_node_info, base_version, IB_NODE_BASE_VERS_F, 8),
	R(ib_node_info, class_version, IB_NODE_CLASS_VERS_F, 8),
	R(ib_node_info, node_type, IB_NODE_TYPE_F, 8),
	R(ib_node_info, num_ports, IB_NODE_NPORTS_F, 8),
	R(ib_node_info, sys_guid, IB_NODE_SYSTEM_GUID_F, 64),
	R(ib_node_info, node_guid, IB_NODE_GUID_F, 64),
	R(ib_node_info, port_guid, IB_NODE_PORT_GUID_F, 64),
	R(ib_node_info, partition_cap, IB_NODE_PARTITION_CAP_F, 16),
	R(ib_node_info, device_id, IB_NODE_DEVID_F, 16),
	R(ib_node_info, revision, IB_NODE_REVISION_F, 32),
	R(ib_node_info, local_port, IB_NODE_LOCAL_PORT_F, 8),
	R(ib_node_info, vendor_id, IB_NODE_VENDORID_F, 24),
};

static const struct row switch_info[] = {
	R(ib_switch_info, linear_cap, IB_SW_LINEAR_FDB_CAP_F, 16),
	R(ib_switch_info, random_cap, IB_SW_RANDOM_FDB_CAP_F, 16),
	R(ib_switch_info, mcast_cap, IB_SW_MCAST_FDB_CAP_F, 16),
	R(ib_switch_info, linear_top, IB_SW_LINEAR_FDB_TOP_F, 16),
	R(ib_switch_info, def_port, IB_SW_DEF_PORT_F, 8),
	R(ib_switch_info, def_mcast_primary, IB_SW_DEF_MCAST_PRIM_F, 8),
	R(ib_switch_info, def_mcast_not_primary, IB_SW_DEF_MCAST_NOT_PRIM_F, 8),
	R(ib_switch_info, life_time, IB_SW_LIFE_TIME_F, 5),
	R(ib_switch_info, port_state_change, IB_SW_STATE_CHANGE_F, 1),
	R(ib_switch_info, opt_sl2vl, IB_SW_OPT_SLTOVL_MAPPING_F, 2),
	R(ib_switch_info, lids_per_port, IB_SW_LIDS_PER_PORT_F, 16),
	R(ib_switch_info, part_enforce_cap, IB_SW_PARTITION_ENFORCE_CAP_F, 16),
	R(ib_switch_info, inb_enforce_cap, IB_SW_PARTITION_ENF_INB_F, 1),
	R(ib_switch_info, outb_enforce_cap, IB_SW_PARTITION_ENF_OUTB_F, 1),
	R(ib_switch_info, filter_raw_in_cap, IB_SW_FILTER_RAW_INB_F, 1),
	R(ib_switch_info, filter_raw_out_cap, IB_SW_FILTER_RAW_OUTB_F, 1),
	R(ib_switch_info, enhanced_port0, IB_SW_ENHANCED_PORT0_F, 1),
	R(ib_switch_info, mcast_top, IB_SW_MCAST_FDB_TOP_F, 16),
};

static const struct row port_info[] = {
	R(ib_port_info, mkey, IB_PORT_MKEY_F, 64),
	R(ib_port_info, gid_prefix, IB_PORT_GID_PREFIX_F, 64),
	R(ib_port_info, lid, IB_PORT_LID_F, 16),
	R(ib_port_info, sm_lid, IB_PORT_SMLID_F, 16),
	R(ib_port_info, cap_mask, IB_PORT_CAPMASK_F, 32),
	R(ib_port_info, diag_code, IB_PORT_DIAG_F, 16),
	R(ib_port_info, mkey_lease, IB_PORT_MKEY_LEASE_F, 16),
	R(ib_port_info, local_port, IB_PORT_LOCAL_PORT_F, 8),
	R(ib_port_info, width_enabled, IB_PORT_LINK_WIDTH_ENABLED_F, 8),
	R(ib_port_info, width_supported, IB_PORT_LINK_WIDTH_SUPPORTED_F, 8),
	R(ib_port_info, width_active, IB_PORT_LINK_WIDTH_ACTIVE_F, 8),
	R(ib_port_info, speed_supported, IB_PORT_LINK_SPEED_SUPPORTED_F, 4),
	R(ib_port_info, state, IB_PORT_STATE_F, 4),
	R(ib_port_info, phys_state, IB_PORT_PHYS_STATE_F, 4),
	R(ib_port_info, down_default, IB_PORT_LINK_DOWN_DEF_F, 4),
	R(ib_port_info, mkey_prot, IB_PORT_MKEY_PROT_BITS_F, 2),
	R(ib_port_info, lmc, IB_PORT_LMC_F, 3),
	R(ib_port_info, speed_active, IB_PORT_LINK_SPEED_ACTIVE_F, 4),
	R(ib_port_info, speed_enabled, IB_PORT_LINK_SPEED_ENABLED_F, 4),
	R(ib_port_info, mtu, IB_PORT_NEIGHBOR_MTU_F, 4),
	R(ib_port_info, sm_sl, IB_PORT_SMSL_F, 4),
	R(ib_port_info, vl_cap, IB_PORT_VL_CAP_F, 4),
	R(ib_port_info, init_type, IB_PORT_INIT_TYPE_F, 4),
	R(ib_port_info, vl_high_limit, IB_PORT_VL_HIGH_LIMIT_F, 8),
	R(ib_port_info, vlarb_high_cap, IB_PORT_VL_ARBITRATION_HIGH_CAP_F, 8),
	R(ib_port_info, vlarb_low_cap, IB_PORT_VL_ARBITRATION_LOW_CAP_F, 8),
	R(ib_port_info, init_type_reply, IB_PORT_INIT_TYPE_REPLY_F, 4),
	R(ib_port_info, mtu_cap, IB_PORT_MTU_CAP_F, 4),
	R(ib_port_info, vl_stall_count, IB_PORT_VL_STALL_COUNT_F, 3),
	R(ib_port_info, hoq_life, IB_PORT_HOQ_LIFE_F, 5),
	R(ib_port_info, op_vls, IB_PORT_OPER_VLS_F, 4),
	R(ib_port_info, part_enf_in, IB_PORT_PART_EN_INB_F, 1),
	R(ib_port_info, part_enf_out, IB_PORT_PART_EN_OUTB_F, 1),
	R(ib_port_info, filter_raw_in, IB_PORT_FILTER_RAW_INB_F, 1),
	R(ib_port_info, filter_raw_out, IB_PORT_FILTER_RAW_OUTB_F, 1),
	R(ib_port_info, mkey_violations, IB_PORT_MKEY_VIOL_F, 16),
	R(ib_port_info, pkey_violations, IB_PORT_PKEY_VIOL_F, 16),
	R(ib_port_info, qkey_violations, IB_PORT_QKEY_VIOL_F, 16),
	R(ib_port_info, guid_cap, IB_PORT_GUID_CAP_F, 8),
	R(ib_port_info, client_reregister, IB_PORT_CLIENT_REREG_F, 1),
	R(ib_port_info, mcast_pkey_trap_sup, IB_PORT_MCAST_PKEY_SUPR_ENAB_F, 2),
	R(ib_port_info, subnet_timeout, IB_PORT_SUBN_TIMEOUT_F, 5),
	R(ib_port_info, resp_time, IB_PORT_RESP_TIME_VAL_F, 5),
	R(ib_port_info, local_phy_errors, IB_PORT_LOCAL_PHYS_ERR_F, 4),
	R(ib_port_info, overrun_errors, IB_PORT_OVERRUN_ERR_F, 4),
	R(ib_port_info, max_credit_hint, IB_PORT_MAX_CREDIT_HINT_F, 16),
	R(ib_port_info, round_trip, IB_PORT_LINK_ROUND_TRIP_F, 24),
	R(ib_port_info, cap_mask2, IB_PORT_CAPMASK2_F, 16),
	R(ib_port_info, speed_ext_active, IB_PORT_LINK_SPEED_EXT_ACTIVE_F, 4),
	R(ib_port_info, speed_ext_supported, IB_PORT_LINK_SPEED_EXT_SUPPORTED_F, 4),
	R(ib_port_info, speed_ext_enabled, IB_PORT_LINK_SPEED_EXT_ENABLED_F, 5),
};

static const struct row sm_info[] = {
	R(ib_sm_info, guid, IB_SMINFO_GUID_F, 64),
	R(ib_sm_info, sm_key, IB_SMINFO_KEY_F, 64),
	R(ib_sm_info, act_count, IB_SMINFO_ACT_F, 32),
	R(ib_sm_info, priority, IB_SMINFO_PRIO_F, 4),
	R(ib_sm_info, state, IB_SMINFO_STATE_F, 4),
};

static const struct row cpi[] = {
	R(ib_pma_class_port_info, base_version, IB_CPI_BASEVER_F, 8),
	R(ib_pma_class_port_info, class_version, IB_CPI_CLASSVER_F, 8),
	R(ib_pma_class_port_info, cap_mask, IB_CPI_CAPMASK_F, 16),
	R(ib_pma_class_port_info, cap_mask2, IB_CPI_CAPMASK2_F, 27),
	R(ib_pma_class_port_info, resp_time, IB_CPI_RESP_TIME_VALUE_F, 5),
};

static const struct row pc[] = {
	R(ib_pma_port_counters, port_select, IB_PC_PORT_SELECT_F, 8),
	R(ib_pma_port_counters, counter_select, IB_PC_COUNTER_SELECT_F, 16),
	R(ib_pma_port_counters, symbol_error, IB_PC_ERR_SYM_F, 16),
	R(ib_pma_port_counters, link_error_recovery, IB_PC_LINK_RECOVERS_F, 8),
	R(ib_pma_port_counters, link_downed, IB_PC_LINK_DOWNED_F, 8),
	R(ib_pma_port_counters, rcv_errors, IB_PC_ERR_RCV_F, 16),
	R(ib_pma_port_counters, rcv_remote_phys_errors, IB_PC_ERR_PHYSRCV_F, 16),
	R(ib_pma_port_counters, rcv_switch_relay_errors, IB_PC_ERR_SWITCH_REL_F, 16),
	R(ib_pma_port_counters, xmit_discards, IB_PC_XMT_DISCARDS_F, 16),
	R(ib_pma_port_counters, xmit_constraint_errors, IB_PC_ERR_XMTCONSTR_F, 8),
	R(ib_pma_port_counters, rcv_constraint_errors, IB_PC_ERR_RCVCONSTR_F, 8),
	R(ib_pma_port_counters, counter_select2, IB_PC_COUNTER_SELECT2_F, 8),
	R(ib_pma_port_counters, local_link_integrity_errors, IB_PC_ERR_LOCALINTEG_F, 4),
	R(ib_pma_port_counters, excessive_buffer_overruns, IB_PC_ERR_EXCESS_OVR_F, 4),
	/* without qp1_dropped, because libibmad 44 reads VL15Dropped in its place */
	R(ib_pma_port_counters, vl15_dropped, IB_PC_VL15_DROPPED_F, 16),
	R(ib_pma_port_counters, xmit_data, IB_PC_XMT_BYTES_F, 32),
	R(ib_pma_port_counters, rcv_data, IB_PC_RCV_BYTES_F, 32),
	R(ib_pma_port_counters, xmit_pkts, IB_PC_XMT_PKTS_F, 32),
	R(ib_pma_port_counters, rcv_pkts, IB_PC_RCV_PKTS_F, 32),
	R(ib_pma_port_counters, xmit_wait, IB_PC_XMT_WAIT_F, 32),
};

static const struct row pce[] = {
	R(ib_pma_port_counters_ext, port_select, IB_PC_EXT_PORT_SELECT_F, 8),
	R(ib_pma_port_counters_ext, counter_select, IB_PC_EXT_COUNTER_SELECT_F, 16),
	R(ib_pma_port_counters_ext, counter_select2, IB_PC_EXT_COUNTER_SELECT2_F, 32),
	R(ib_pma_port_counters_ext, xmit_data, IB_PC_EXT_XMT_BYTES_F, 64),
	R(ib_pma_port_counters_ext, rcv_data, IB_PC_EXT_RCV_BYTES_F, 64),
	R(ib_pma_port_counters_ext, xmit_pkts, IB_PC_EXT_XMT_PKTS_F, 64),
	R(ib_pma_port_counters_ext, rcv_pkts, IB_PC_EXT_RCV_PKTS_F, 64),
	R(ib_pma_port_counters_ext, ucast_xmit_pkts, IB_PC_EXT_XMT_UPKTS_F, 64),
	R(ib_pma_port_counters_ext, ucast_rcv_pkts, IB_PC_EXT_RCV_UPKTS_F, 64),
	R(ib_pma_port_counters_ext, mcast_xmit_pkts, IB_PC_EXT_XMT_MPKTS_F, 64),
	R(ib_pma_port_counters_ext, mcast_rcv_pkts, IB_PC_EXT_RCV_MPKTS_F, 64),
	R(ib_pma_port_counters_ext, symbol_error, IB_PC_EXT_ERR_SYM_F, 64),
	R(ib_pma_port_counters_ext, link_error_recovery, IB_PC_EXT_LINK_RECOVERS_F, 64),
	R(ib_pma_port_counters_ext, link_downed, IB_PC_EXT_LINK_DOWNED_F, 64),
	R(ib_pma_port_counters_ext, rcv_errors, IB_PC_EXT_ERR_RCV_F, 64),
	R(ib_pma_port_counters_ext, rcv_remote_phys_errors, IB_PC_EXT_ERR_PHYSRCV_F, 64),
	R(ib_pma_port_counters_ext, rcv_switch_relay_errors, IB_PC_EXT_ERR_SWITCH_REL_F, 64),
	R(ib_pma_port_counters_ext, xmit_discards, IB_PC_EXT_XMT_DISCARDS_F, 64),
	R(ib_pma_port_counters_ext, xmit_constraint_errors, IB_PC_EXT_ERR_XMTCONSTR_F, 64),
	R(ib_pma_port_counters_ext, rcv_constraint_errors, IB_PC_EXT_ERR_RCVCONSTR_F, 64),
	R(ib_pma_port_counters_ext, local_link_integrity_errors, IB_PC_EXT_ERR_LOCALINTEG_F, 64),
	R(ib_pma_port_counters_ext, excessive_buffer_overruns, IB_PC_EXT_ERR_EXCESS_OVR_F, 64),
	R(ib_pma_port_counters_ext, vl15_dropped, IB_PC_EXT_VL15_DROPPED_F, 64),
	R(ib_pma_port_counters_ext, xmit_wait, IB_PC_EXT_XMT_WAIT_F, 64),
	R(ib_pma_port_counters_ext, qp1_dropped, IB_PC_EXT_QP1_DROP_F, 64),
};

static void layouts(void **st)
{
	(void)st;
	CHECK(node_info, ib_node_info, 40, ib_node_info);
	CHECK(switch_info, ib_switch_info, 20, ib_switch_info);
	CHECK(port_info, ib_port_info, 64, ib_port_info);
	CHECK(sm_info, ib_sm_info, 24, ib_sm_info);
	CHECK(cpi, ib_pma_class_port_info, 72, ib_pma_cpi);
	CHECK(pc, ib_pma_port_counters, 48, ib_pma_pc);
	CHECK(pce, ib_pma_port_counters_ext, 192, ib_pma_pce);
}

static void notices(void **st)
{
	struct ib_notice n = { 1, 4, 1, 144, 0x123, 1, 0x4567, { 0 } };
	struct ib_smp s;

	(void)st;
	ib_trap144(n.details, 0x123, 0xdeadbeef, 0, 0);
	ib_trap_build(&s, 0x1122334455667788ull, 0x99ull, &n);
	assert_int_equal(mad_get_field(&s, 0, IB_MAD_METHOD_F), IB_MAD_METHOD_TRAP);
	assert_int_equal(mad_get_field(&s, 0, IB_MAD_BASEVER_F), 1);
	assert_int_equal(mad_get_field(&s, 0, IB_MAD_CLASSVER_F), 1);
	assert_int_equal(mad_get_field(&s, 0, IB_MAD_MGMTCLASS_F), 1);
	assert_int_equal(mad_get_field(&s, 0, IB_MAD_ATTRID_F), 2);
	assert_true(mad_get_field64(&s, 0, IB_MAD_TRID_F) == 0x1122334455667788ull);
	assert_true(mad_get_field64(&s, 0, IB_MAD_MKEY_F) == 0x99);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_IS_GENERIC_F), 1);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_TYPE_F), 4);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_PRODUCER_F), 1);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_TRAP_NUMBER_F), 144);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_ISSUER_LID_F), 0x123);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_TOGGLE_F), 1);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_COUNT_F), 0x4567);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_DATA_144_LID_F), 0x123);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_DATA_144_CAPMASK_F), 0xdeadbeef);
	ib_trap128(n.details, 0x321);
	ib_notice_pack(&n, s.data);
	assert_int_equal(mad_get_field(s.data, 0, IB_NOTICE_DATA_LID_F), 0x321);
}

static void directed_route_header(void **st)
{
	struct ib_smp s;

	(void)st;
	memset(&s, 0, sizeof(s));
	s.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	ib_smp_set_hops(&s, 3, 7);
	s.dr_slid = ib_to_be16(0x1234);
	s.dr_dlid = ib_to_be16(0x4321);
	ib_smp_make_resp(&s, IB_MAD_BAD_FIELD);
	assert_int_equal(mad_get_field(&s, 0, IB_DRSMP_HOPPTR_F), 3);
	assert_int_equal(mad_get_field(&s, 0, IB_DRSMP_HOPCNT_F), 7);
	assert_int_equal(mad_get_field(&s, 0, IB_DRSMP_DIRECTION_F), 1);
	assert_int_equal(mad_get_field(&s, 0, IB_DRSMP_STATUS_F), 0x1c);
	assert_int_equal(mad_get_field(&s, 0, IB_DRSMP_DRSLID_F), 0x1234);
	assert_int_equal(mad_get_field(&s, 0, IB_DRSMP_DRDLID_F), 0x4321);
	assert_int_equal(mad_get_field(&s, 0, IB_MAD_RESPONSE_F), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts),
		cmocka_unit_test(notices),
		cmocka_unit_test(directed_route_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
