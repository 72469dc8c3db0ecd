/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Layouts of performance management attributes; see pma.h. */
#include "field.h"
#include "pma.h"

#define CODEC(fn, type, table)								\
void fn##_pack(const struct type *v, uint8_t d[IB_PMA_DATA_LEN])			\
{											\
	ib_fields_pack(table, IB_ARRAY_SIZE(table), v, d, IB_PMA_DATA_LEN);		\
}											\
void fn##_unpack(const uint8_t d[IB_PMA_DATA_LEN], struct type *v)			\
{											\
	memset(v, 0, sizeof(*v));							\
	ib_fields_unpack(table, IB_ARRAY_SIZE(table), d, v);				\
}

#define CPI(member, bit, width) IB_FIELD(ib_pma_class_port_info, member, bit, width)
static const struct ib_field cpi_fields[] = {
	CPI(base_version, 0, 8),
	CPI(class_version, 8, 8),
	CPI(cap_mask, 16, 16),
	CPI(cap_mask2, 32, 27),
	CPI(resp_time, 59, 5),
};
CODEC(ib_pma_cpi, ib_pma_class_port_info, cpi_fields)

#define PC(member, bit, width) IB_FIELD(ib_pma_port_counters, member, bit, width)
static const struct ib_field pc_fields[] = {
	PC(port_select, 8, 8),
	PC(counter_select, 16, 16),
	PC(symbol_error, 32, 16),
	PC(link_error_recovery, 48, 8),
	PC(link_downed, 56, 8),
	PC(rcv_errors, 64, 16),
	PC(rcv_remote_phys_errors, 80, 16),
	PC(rcv_switch_relay_errors, 96, 16),
	PC(xmit_discards, 112, 16),
	PC(xmit_constraint_errors, 128, 8),
	PC(rcv_constraint_errors, 136, 8),
	PC(counter_select2, 144, 8),
	PC(local_link_integrity_errors, 152, 4),
	PC(excessive_buffer_overruns, 156, 4),
	PC(qp1_dropped, 160, 16),
	PC(vl15_dropped, 176, 16),
	PC(xmit_data, 192, 32),
	PC(rcv_data, 224, 32),
	PC(xmit_pkts, 256, 32),
	PC(rcv_pkts, 288, 32),
	PC(xmit_wait, 320, 32),
};
CODEC(ib_pma_pc, ib_pma_port_counters, pc_fields)

#define PE(member, bit, width) IB_FIELD(ib_pma_port_counters_ext, member, bit, width)
static const struct ib_field pce_fields[] = {
	PE(port_select, 8, 8),
	PE(counter_select, 16, 16),
	PE(counter_select2, 32, 32),
	PE(xmit_data, 64, 64),
	PE(rcv_data, 128, 64),
	PE(xmit_pkts, 192, 64),
	PE(rcv_pkts, 256, 64),
	PE(ucast_xmit_pkts, 320, 64),
	PE(ucast_rcv_pkts, 384, 64),
	PE(mcast_xmit_pkts, 448, 64),
	PE(mcast_rcv_pkts, 512, 64),
	PE(symbol_error, 576, 64),
	PE(link_error_recovery, 640, 64),
	PE(link_downed, 704, 64),
	PE(rcv_errors, 768, 64),
	PE(rcv_remote_phys_errors, 832, 64),
	PE(rcv_switch_relay_errors, 896, 64),
	PE(xmit_discards, 960, 64),
	PE(xmit_constraint_errors, 1024, 64),
	PE(rcv_constraint_errors, 1088, 64),
	PE(local_link_integrity_errors, 1152, 64),
	PE(excessive_buffer_overruns, 1216, 64),
	PE(vl15_dropped, 1280, 64),
	PE(xmit_wait, 1344, 64),
	PE(qp1_dropped, 1408, 64),
};
CODEC(ib_pma_pce, ib_pma_port_counters_ext, pce_fields)

#define SC(member, bit, width) IB_FIELD(ib_pma_samples_control, member, bit, width)
#define SEL(n) SC(counter_select[n], 304 + 16 * (n), 16)
static const struct ib_field psc_fields[] = {
	SC(port_select, 8, 8),
	SC(tick, 16, 8),
	SC(counter_width, 29, 3),
	SC(counter_masks, 34, 30),
	SC(counter_masks_hi, 65, 15),
	SC(sample_mechanisms, 80, 8),
	SC(sample_status, 94, 2),
	/* 96..223: OptionMask and VendorMask: 0, since none of their counters can be sampled */
	SC(sample_start, 224, 32),
	SC(sample_interval, 256, 32),
	SC(tag, 288, 16),
	SEL(0), SEL(1), SEL(2), SEL(3), SEL(4), SEL(5), SEL(6), SEL(7), SEL(8), SEL(9),
	SEL(10), SEL(11), SEL(12), SEL(13), SEL(14),
};
CODEC(ib_pma_psc, ib_pma_samples_control, psc_fields)
