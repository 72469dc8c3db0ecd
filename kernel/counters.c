// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device counters, as `rdma statistic` and sysfs show them.
 */
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "aq.h"
#include "counters.h"
#include "dev.h"
#include "fatal.h"
#include "qp.h"
#include "trace.h"

/* The driver's own counters follow the device's. */
enum {
	OHCA_STAT_BAD_CQES = OHCA_CNT_NUM,
	OHCA_STAT_BAD_EQES,
	OHCA_STAT_LATE_EQES,
	OHCA_STAT_STRAY_CMDS,
	OHCA_STAT_NUM
};

static const struct rdma_stat_desc ohca_stat_descs[] = {
	[OHCA_CNT_DB_BAD_SIZE].name = "doorbell_bad_size",
	[OHCA_CNT_DB_BAD_HANDLE].name = "doorbell_bad_handle",
	[OHCA_CNT_DB_BAD_UAR].name = "doorbell_bad_uar",
	[OHCA_CNT_DB_BAD_INDEX].name = "doorbell_bad_index",
	[OHCA_CNT_CMDS].name = "cmds",
	[OHCA_CNT_CMDS_BAD].name = "cmds_refused",
	[OHCA_CNT_DMA_ERR].name = "dma_errors",
	[OHCA_CNT_RX_PKTS].name = "rx_pkts",
	[OHCA_CNT_TX_PKTS].name = "tx_pkts",
	[OHCA_CNT_RX_BAD_PKT].name = "rx_malformed",
	[OHCA_CNT_RX_BAD_QP].name = "rx_bad_qp",
	[OHCA_CNT_RX_BAD_PKEY].name = "rx_bad_pkey",
	[OHCA_CNT_RX_BAD_QKEY].name = "rx_bad_qkey",
	[OHCA_CNT_RX_NO_WQE].name = "rx_no_wqe",
	[OHCA_CNT_RX_DUP].name = "duplicate_request",
	[OHCA_CNT_RX_OUT_OF_SEQ].name = "out_of_sequence",
	[OHCA_CNT_RNR_NAK_TX].name = "rnr_nak_tx",
	[OHCA_CNT_RNR_NAK_RX].name = "rnr_nak_rx",
	[OHCA_CNT_SEQ_NAK_RX].name = "packet_seq_err",
	[OHCA_CNT_ACK_TIMEOUT].name = "local_ack_timeout_err",
	[OHCA_CNT_RETRY_EXCEEDED].name = "retry_exceeded_err",
	[OHCA_CNT_RNR_RETRY_EXCEEDED].name = "rnr_retry_exceeded_err",
	[OHCA_CNT_LOCAL_ERR].name = "wqe_local_err",
	[OHCA_CNT_REMOTE_ERR].name = "wqe_remote_err",
	[OHCA_CNT_CQ_OVERFLOW].name = "cq_overflow",
	[OHCA_CNT_EQE].name = "events",
	[OHCA_CNT_EQE_DEFERRED].name = "events_deferred",
	[OHCA_CNT_MADS_RX].name = "mads_handled",
	[OHCA_CNT_MCAST_DROP].name = "mcast_drop",
	[OHCA_CNT_PAGE_FAULT].name = "page_faults",
	[OHCA_CNT_PAGE_FAULT_FAIL].name = "page_faults_failed",
	[OHCA_CNT_RX_BAD_TMH].name = "rx_bad_tag_headers",
	[OHCA_CNT_NO_MEMORY].name = "no_memory",
	[OHCA_CNT_MEMORY].name = "memory_bytes",
	[OHCA_CNT_RX_BYTES].name = "rx_bytes",
	[OHCA_CNT_TX_BYTES].name = "tx_bytes",
	[OHCA_STAT_BAD_CQES].name = "completions_bad",
	[OHCA_STAT_BAD_EQES].name = "events_bad",
	[OHCA_STAT_LATE_EQES].name = "events_late",
	[OHCA_STAT_STRAY_CMDS].name = "cmds_stray",
};

/** ohca_alloc_hw_device_stats - ib_device_ops.alloc_hw_device_stats */
struct rdma_hw_stats *ohca_alloc_hw_device_stats(struct ib_device *ibdev)
{
	static_assert(ARRAY_SIZE(ohca_stat_descs) == OHCA_STAT_NUM);
	static_assert(OHCA_CNT_NUM * sizeof(__le64) <= OHCA_MAILBOX_SIZE);

	return rdma_alloc_hw_stats_struct(ohca_stat_descs, OHCA_STAT_NUM,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * ohca_alloc_hw_port_stats - ib_device_ops.alloc_hw_port_stats
 * @ibdev: the device
 * @port: the port
 *
 * `rdma statistic` shows counters of ports only. If the device has one port, these are the counters
 * of the device and the driver. If it has several, each port has those counters of the device that
 * belong to it; the others, and those of the driver, are 0.
 */
static struct rdma_hw_stats *ohca_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return ohca_alloc_hw_device_stats(ibdev);
}

/* For a device whose counters can be read by port. */
static const struct ib_device_ops ohca_port_stats_ops = {
	.alloc_hw_port_stats = ohca_alloc_hw_port_stats,
};

/**
 * ohca_counters_init - set the operations for counters of ports, if the device counts by port
 * @dev: the device, not registered
 */
void ohca_counters_init(struct ohca_dev *dev)
{
	if (dev->attr.num_ports == 1 || ohca_has(dev, OHCA_FEATURE_QP_COUNTERS))
		ib_set_device_ops(&dev->ibdev, &ohca_port_stats_ops);
}

/**
 * ohca_get_hw_stats - ib_device_ops.get_hw_stats: all counters at once
 * @ibdev: the device
 * @stats: set to the values on success
 * @port: 0: the counters of the whole device; else those of the port, without the counters of sets,
 *	which the core adds
 * @index: ignored
 *
 * Process context. Return: the number of counters, or a negative errno.
 */
int ohca_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	u32 num = min_t(u32, OHCA_CNT_NUM, le32_to_cpu(dev->attr.num_counters));
	__le64 values[OHCA_CNT_NUM] = {};
	u32 i;
	int ret;

	if (port && ohca_has(dev, OHCA_FEATURE_QP_COUNTERS))
		ret = ohca_cmd_query_counter_set(dev, 0, dev->attr.num_ports > 1 ? port : 0,
						 values, num);
	else
		ret = ohca_cmd_query_counters(dev, values, num);
	if (ret)
		return ret;
	for (i = 0; i < num; i++)
		stats->value[i] = le64_to_cpu(values[i]);
	/* the driver's counters belong to no port */
	if (port && dev->attr.num_ports > 1)
		return OHCA_STAT_NUM;
	stats->value[OHCA_STAT_BAD_CQES] = atomic_read(&dev->bad_cqes);
	stats->value[OHCA_STAT_BAD_EQES] = atomic_read(&dev->bad_eqes);
	stats->value[OHCA_STAT_LATE_EQES] = atomic_read(&dev->late_eqes);
	stats->value[OHCA_STAT_STRAY_CMDS] = READ_ONCE(dev->aq.stray);
	return OHCA_STAT_NUM;
}

/**
 * ohca_counter_bind_qp - ib_device_ops.counter_bind_qp: bind a QP to a counter set
 * @counter: the core's counter; its first QP allocates a counter set of the device
 * @ibqp: QP of a process
 * @port: not used: a set counts for QPs of any port
 *
 * Under the counter's lock.
 * Return: 0, or a negative errno; then the QP's binding is unchanged.
 */
int ohca_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	u32 set = counter->id;
	int ret;

	if (!ohca_has(dev, OHCA_FEATURE_QP_COUNTERS))
		return -EOPNOTSUPP;
	if (!set) {
		ret = ohca_cmd_alloc_counters(dev, &set);
		if (ret)
			return ret;
		if (!set) {
			ohca_fatal(dev, "the device returned the reserved counter set 0");
			return -EIO;
		}
	}
	ret = ohca_cmd_bind_counters(dev, to_ohca_qp(ibqp)->handle, set);
	if (!ret) {
		counter->id = set;
		ibqp->counter = counter;
	} else if (!counter->id) {
		ohca_cmd_destroy(dev, OHCA_CMD_FREE_COUNTERS, set);
	}
	return ret;
}

/**
 * ohca_counter_unbind_qp - ib_device_ops.counter_unbind_qp: unbind a QP from its counter set
 * @ibqp: QP that is bound to one
 * @port: not used
 *
 * Return: 0, also if the device is dead, or a negative errno; then the binding is unchanged.
 */
int ohca_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	int ret = ohca_cmd_bind_counters(dev, to_ohca_qp(ibqp)->handle, 0);

	if (ret && !ohca_is_quiet(dev))
		return ret;
	ibqp->counter = NULL;
	return 0;
}

/** ohca_counter_alloc_stats - ib_device_ops.counter_alloc_stats; same layout as that of a port */
struct rdma_hw_stats *ohca_counter_alloc_stats(struct rdma_counter *counter)
{
	return ohca_alloc_hw_device_stats(counter->device);
}

/** ohca_counter_update_stats - ib_device_ops.counter_update_stats: read a set */
int ohca_counter_update_stats(struct rdma_counter *counter)
{
	struct ohca_dev *dev = to_ohca_dev(counter->device);
	u32 num = min_t(u32, OHCA_CNT_NUM, le32_to_cpu(dev->attr.num_counters));
	__le64 values[OHCA_CNT_NUM] = {};
	u32 i;
	int ret;

	ret = ohca_cmd_query_counter_set(dev, counter->id, 0, values, num);
	if (ret)
		return ret;
	for (i = 0; i < num; i++)
		counter->stats->value[i] = le64_to_cpu(values[i]);
	return 0;
}

/* Traces the last counts of a set. After it is freed, the core has only sums of several sets. */
static void ohca_trace_set(struct rdma_counter *counter)
{
	const u64 *value = counter->stats->value;
	int type = counter->mode.mask & RDMA_COUNTER_MASK_QP_TYPE ?
		   counter->mode.param.qp_type : -1;

	if (!ohca_counter_update_stats(counter))
		trace_ohca_counters(to_ohca_dev(counter->device), counter->id, type,
				    value[OHCA_CNT_TX_PKTS], value[OHCA_CNT_TX_BYTES],
				    value[OHCA_CNT_RX_PKTS], value[OHCA_CNT_RX_BYTES]);
}

/** ohca_counter_dealloc - ib_device_ops.counter_dealloc: free a set to which no QP is bound */
int ohca_counter_dealloc(struct rdma_counter *counter)
{
	if (!counter->id)
		return 0;
	if (trace_ohca_counters_enabled())
		ohca_trace_set(counter);
	ohca_cmd_destroy(to_ohca_dev(counter->device), OHCA_CMD_FREE_COUNTERS, counter->id);
	return 0;
}
