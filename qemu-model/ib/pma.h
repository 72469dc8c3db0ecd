/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Performance management: port counters, attribute layouts, counter semantics
 * (IBTA volume 1, 16.1).
 *
 * The data path of an HCA port or a switch port counts in struct ohca_port_counters. The PMA
 * derives all its attributes from it (pma_agent.h).
 */
#ifndef OHCA_IB_PMA_H
#define OHCA_IB_PMA_H

#include "mad.h"

#define IB_PMA_CLASS_VERSION	1u
#define IB_PMA_DATA_OFF		64u
#define IB_PMA_DATA_LEN		192u
#define IB_PMA_ALL_PORTS	0xFFu

enum ib_pma_attr {
	IB_PMA_ATTR_CLASS_PORT_INFO	= 0x0001,
	IB_PMA_ATTR_SAMPLES_CONTROL	= 0x0010,
	IB_PMA_ATTR_SAMPLES_RESULT	= 0x0011,
	IB_PMA_ATTR_PORT_COUNTERS	= 0x0012,
	IB_PMA_ATTR_RCV_ERROR_DETAILS	= 0x0015,
	IB_PMA_ATTR_XMIT_DISCARD_DETAILS = 0x0016,
	IB_PMA_ATTR_FLOW_CTL		= 0x0018,
	IB_PMA_ATTR_VL_FLOW_CTL_ERRORS	= 0x001B,
	IB_PMA_ATTR_VL_XMIT_WAIT	= 0x001C,
	IB_PMA_ATTR_PORT_COUNTERS_EXT	= 0x001D,
	IB_PMA_ATTR_SAMPLES_RESULT_EXT	= 0x001E,
	IB_PMA_ATTR_EXT_SPEEDS		= 0x001F,
	IB_PMA_ATTR_SW_VL_CONGESTION	= 0x0030,
	IB_PMA_ATTR_RCV_CON_CTRL	= 0x0031,
	IB_PMA_ATTR_SL_RCV_FECN		= 0x0032,
	IB_PMA_ATTR_SL_RCV_BECN		= 0x0033,
	IB_PMA_ATTR_XMIT_CON_CTRL	= 0x0034,
	IB_PMA_ATTR_VL_XMIT_TIME_CONG	= 0x0035,
	IB_PMA_ATTR_XMIT_DATA_SL	= 0x0036,
	IB_PMA_ATTR_RCV_DATA_SL		= 0x0037,
	IB_PMA_ATTR_XMIT_DATA_SL_EXT	= 0x0038,
	IB_PMA_ATTR_RCV_DATA_SL_EXT	= 0x0039,
};

/* ClassPortInfo.CapabilityMask of the performance class */
#define IB_PMA_CAP_ALL_PORT_SELECT	(1u << 8)
#define IB_PMA_CAP_EXT_WIDTH		(1u << 9)
#define IB_PMA_CAP_EXT_WIDTH_NOIETF	(1u << 10)
#define IB_PMA_CAP_SAMPLES_ONLY		(1u << 11)
#define IB_PMA_CAP_XMIT_WAIT		(1u << 12)
/* ClassPortInfo.CapabilityMask2 */
#define IB_PMA_CAP2_ADD_PORT_CTRS_EXT	(1u << 1)

/**
 * struct ohca_port_counters - the counters of one port since the engine was created
 *
 * The port's owner thread only increments them; 64 bits do not wrap. A reset sets no counter to 0:
 * the agent stores the current values as a base, and attributes are the difference to it,
 * saturated. So a reset does not race with the data path.
 *
 * Data counters are in 4-byte words from the first byte of the LRH to the last byte of the ICRC.
 * Data and packet counters include packets of all VLs, also of VL15, and packets with errors, but
 * no link packets (16.1.3.5). ibsim and hfi1 also count VL15 in them.
 */
struct ohca_port_counters {
	uint64_t xmit_data;
	uint64_t rcv_data;
	uint64_t xmit_pkts;
	uint64_t rcv_pkts;
	uint64_t ucast_xmit_pkts;
	uint64_t ucast_rcv_pkts;
	uint64_t mcast_xmit_pkts;
	uint64_t mcast_rcv_pkts;
	uint64_t symbol_error;
	uint64_t link_error_recovery;
	uint64_t link_downed;
	uint64_t rcv_errors;
	uint64_t rcv_remote_phys_errors;	/* packets marked bad by EBP */
	uint64_t rcv_switch_relay_errors;
	uint64_t xmit_discards;
	uint64_t xmit_constraint_errors;
	uint64_t rcv_constraint_errors;
	uint64_t local_link_integrity_errors;
	uint64_t excessive_buffer_overruns;
	uint64_t vl15_dropped;
	uint64_t xmit_wait;			/* ticks with a packet to send, but none sent */
	uint64_t qp1_dropped;
	/* PortRcvErrorDetails: parts of rcv_errors and rcv_switch_relay_errors */
	uint64_t rcv_local_phys_errors;
	uint64_t rcv_malformed;
	uint64_t rcv_buffer_overrun;
	uint64_t rcv_dlid_mapping;
	uint64_t rcv_vl_mapping;
	uint64_t rcv_looping;
	/* PortXmitDiscardDetails: parts of xmit_discards */
	uint64_t xmit_inactive_discards;
	uint64_t xmit_mtu_discards;
	uint64_t xmit_lifetime_discards;
	uint64_t xmit_hoq_discards;
	/* xmit_wait by VL, data counters by SL */
	uint64_t xmit_wait_vl[16];
	uint64_t xmit_data_sl[16];
	uint64_t rcv_data_sl[16];
	/*
	 * Switch only: how often each VL has become congested; ticks during which any VL was
	 * congested, and each VL was
	 */
	uint64_t vl_congestion[16];
	uint64_t xmit_time_cong;
	uint64_t xmit_time_cong_vl[16];
	/* Channel adapter only: received packets with FECN and with BECN, also by SL */
	uint64_t rcv_fecn, rcv_becn;
	uint64_t rcv_fecn_sl[16], rcv_becn_sl[16];
};

/** ib_pma_count_xmit() - count a sent packet of @len bytes, LRH to ICRC, on SL @sl */
static inline void ib_pma_count_xmit(struct ohca_port_counters *c, uint32_t len, unsigned int sl,
				     bool mcast)
{
	c->xmit_pkts++;
	c->xmit_data += len / 4;
	c->xmit_data_sl[sl & 15] += len / 4;
	if (mcast)
		c->mcast_xmit_pkts++;
	else
		c->ucast_xmit_pkts++;
}

/** ib_pma_count_rcv() - count a received packet, with or without errors; as ib_pma_count_xmit() */
static inline void ib_pma_count_rcv(struct ohca_port_counters *c, uint32_t len, unsigned int sl,
				    bool mcast)
{
	c->rcv_pkts++;
	c->rcv_data += len / 4;
	c->rcv_data_sl[sl & 15] += len / 4;
	if (mcast)
		c->mcast_rcv_pkts++;
	else
		c->ucast_rcv_pkts++;
}

/** ib_pma_count_xmits() - count @n sent unicast packets, each of @len bytes, on SL @sl */
static inline void ib_pma_count_xmits(struct ohca_port_counters *c, uint32_t n, uint32_t len,
				      unsigned int sl)
{
	const uint64_t data = (uint64_t)n * (len / 4);

	c->xmit_pkts += n;
	c->ucast_xmit_pkts += n;
	c->xmit_data += data;
	c->xmit_data_sl[sl & 15] += data;
}

/** ib_pma_count_rcvs() - count @n received unicast packets; as ib_pma_count_xmits() */
static inline void ib_pma_count_rcvs(struct ohca_port_counters *c, uint32_t n, uint32_t len,
				     unsigned int sl)
{
	const uint64_t data = (uint64_t)n * (len / 4);

	c->rcv_pkts += n;
	c->ucast_rcv_pkts += n;
	c->rcv_data += data;
	c->rcv_data_sl[sl & 15] += data;
}

/** struct ib_pma_class_port_info - ClassPortInfo (13.4.8.1); no redirection, no traps. */
struct ib_pma_class_port_info {
	uint8_t base_version;
	uint8_t class_version;
	uint16_t cap_mask;
	uint32_t cap_mask2;		/* 27 bits */
	uint8_t resp_time;		/* 5 bits */
};

/** struct ib_pma_port_counters - PortCounters (16.1.3.5), host order. */
struct ib_pma_port_counters {
	uint8_t port_select;
	uint16_t counter_select;
	uint16_t symbol_error;
	uint8_t link_error_recovery;
	uint8_t link_downed;
	uint16_t rcv_errors;
	uint16_t rcv_remote_phys_errors;
	uint16_t rcv_switch_relay_errors;
	uint16_t xmit_discards;
	uint8_t xmit_constraint_errors;
	uint8_t rcv_constraint_errors;
	uint8_t counter_select2;
	uint8_t local_link_integrity_errors;
	uint8_t excessive_buffer_overruns;
	uint16_t qp1_dropped;
	uint16_t vl15_dropped;
	uint32_t xmit_data;
	uint32_t rcv_data;
	uint32_t xmit_pkts;
	uint32_t rcv_pkts;
	uint32_t xmit_wait;
};

/** struct ib_pma_port_counters_ext - PortCountersExtended (16.1.4.11), host order. */
struct ib_pma_port_counters_ext {
	uint8_t port_select;
	uint16_t counter_select;
	uint32_t counter_select2;
	uint64_t xmit_data;
	uint64_t rcv_data;
	uint64_t xmit_pkts;
	uint64_t rcv_pkts;
	uint64_t ucast_xmit_pkts;
	uint64_t ucast_rcv_pkts;
	uint64_t mcast_xmit_pkts;
	uint64_t mcast_rcv_pkts;
	uint64_t symbol_error;
	uint64_t link_error_recovery;
	uint64_t link_downed;
	uint64_t rcv_errors;
	uint64_t rcv_remote_phys_errors;
	uint64_t rcv_switch_relay_errors;
	uint64_t xmit_discards;
	uint64_t xmit_constraint_errors;
	uint64_t rcv_constraint_errors;
	uint64_t local_link_integrity_errors;
	uint64_t excessive_buffer_overruns;
	uint64_t vl15_dropped;
	uint64_t xmit_wait;
	uint64_t qp1_dropped;
};

void ib_pma_cpi_pack(const struct ib_pma_class_port_info *v, uint8_t d[IB_PMA_DATA_LEN]);
void ib_pma_cpi_unpack(const uint8_t d[IB_PMA_DATA_LEN], struct ib_pma_class_port_info *v);
void ib_pma_pc_pack(const struct ib_pma_port_counters *v, uint8_t d[IB_PMA_DATA_LEN]);
void ib_pma_pc_unpack(const uint8_t d[IB_PMA_DATA_LEN], struct ib_pma_port_counters *v);
void ib_pma_pce_pack(const struct ib_pma_port_counters_ext *v, uint8_t d[IB_PMA_DATA_LEN]);
void ib_pma_pce_unpack(const uint8_t d[IB_PMA_DATA_LEN], struct ib_pma_port_counters_ext *v);

/* The tick of PortXmitWait and of sampling, in ns. */
#define IB_PMA_TICK_NS		1000u
/** ib_pma_ticks() - whole ticks from *@since to @now, both in ns; adds their time to *@since. */
static inline uint64_t ib_pma_ticks(uint64_t *since, uint64_t now)
{
	uint64_t n = (now - *since) / IB_PMA_TICK_NS;

	*since += n * IB_PMA_TICK_NS;
	return n;
}

/*
 * PortSamplesControl.Tick: 250 units of 4 ns, minus one. The unit is ten bit times of a lane at
 * 2.5 Gb/s. In bit times of faster speeds no value of the field is a microsecond, so the tick is
 * the same at all speeds.
 */
#define IB_PMA_TICK		(IB_PMA_TICK_NS / 4 - 1)
#define IB_PMA_SAMPLE_COUNTERS	15u

/* PortSamplesControl.SampleStatus (16.1.3.2) */
enum ib_pma_sample_status {
	IB_PMA_SAMPLE_DONE	= 0,
	IB_PMA_SAMPLE_STARTED	= 1,	/* during SampleStart */
	IB_PMA_SAMPLE_RUNNING	= 2,	/* during SampleInterval */
};

/* CounterSelect: the quantities that any agent can sample (16.1.3.2) */
enum ib_pma_sample_select {
	IB_PMA_SAMPLE_XMIT_DATA	= 0x0001,
	IB_PMA_SAMPLE_RCV_DATA	= 0x0002,
	IB_PMA_SAMPLE_XMIT_PKTS	= 0x0003,
	IB_PMA_SAMPLE_RCV_PKTS	= 0x0004,
	IB_PMA_SAMPLE_XMIT_WAIT	= 0x0005,
};

/** struct ib_pma_samples_control - PortSamplesControl (16.1.3.2), host order. */
struct ib_pma_samples_control {
	uint8_t port_select;
	uint8_t tick;
	uint8_t counter_width;		/* 4: 32 bits */
	uint32_t counter_masks;		/* of counters 0 to 9, 3 bits each */
	uint16_t counter_masks_hi;	/* of counters 10 to 14 */
	uint8_t sample_mechanisms;
	uint8_t sample_status;		/* enum ib_pma_sample_status */
	uint32_t sample_start;		/* ticks until the interval begins */
	uint32_t sample_interval;	/* ticks */
	uint16_t tag;
	uint16_t counter_select[IB_PMA_SAMPLE_COUNTERS];
};

void ib_pma_psc_pack(const struct ib_pma_samples_control *v, uint8_t d[IB_PMA_DATA_LEN]);
void ib_pma_psc_unpack(const uint8_t d[IB_PMA_DATA_LEN], struct ib_pma_samples_control *v);

/** ib_sat() - @v limited to the largest value of @bits (1..32) bits, for saturating counters. */
static inline uint32_t ib_sat(uint64_t v, unsigned int bits)
{
	uint64_t max = (1ull << bits) - 1;

	return (uint32_t)(v < max ? v : max);
}

#endif
