// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device counters, as `rdma statistic` and sysfs show them.
 */
#include <linux/slab.h>

#include "ohca.h"

#define OHCA_COUNTERS(X)				\
	X(DB_BAD_SIZE, "doorbell_bad_size")		\
	X(DB_BAD_HANDLE, "doorbell_bad_handle")		\
	X(DB_BAD_UAR, "doorbell_bad_uar")		\
	X(DB_BAD_INDEX, "doorbell_bad_index")		\
	X(CMDS, "cmds")					\
	X(CMDS_BAD, "cmds_refused")			\
	X(DMA_ERR, "dma_errors")			\
	X(RX_PKTS, "rx_pkts")				\
	X(TX_PKTS, "tx_pkts")				\
	X(RX_BAD_PKT, "rx_malformed")			\
	X(RX_BAD_QP, "rx_bad_qp")			\
	X(RX_BAD_PKEY, "rx_bad_pkey")			\
	X(RX_BAD_QKEY, "rx_bad_qkey")			\
	X(RX_NO_WQE, "rx_no_wqe")			\
	X(RX_DUP, "duplicate_request")			\
	X(RX_OUT_OF_SEQ, "out_of_sequence")		\
	X(RNR_NAK_TX, "rnr_nak_tx")			\
	X(RNR_NAK_RX, "rnr_nak_rx")			\
	X(SEQ_NAK_RX, "packet_seq_err")			\
	X(ACK_TIMEOUT, "local_ack_timeout_err")		\
	X(RETRY_EXCEEDED, "retry_exceeded_err")		\
	X(RNR_RETRY_EXCEEDED, "rnr_retry_exceeded_err")	\
	X(LOCAL_ERR, "wqe_local_err")			\
	X(REMOTE_ERR, "wqe_remote_err")			\
	X(CQ_OVERFLOW, "cq_overflow")			\
	X(EQE, "events")				\
	X(EQE_DEFERRED, "events_deferred")		\
	X(MADS_RX, "mads_handled")			\
	X(MCAST_DROP, "mcast_drop")

static const struct rdma_stat_desc ohca_stat_descs[] = {
#define X(id, str) [OHCA_CNT_##id].name = str,
	OHCA_COUNTERS(X)
#undef X
};

/** ohca_alloc_hw_device_stats - ib_device_ops.alloc_hw_device_stats */
struct rdma_hw_stats *ohca_alloc_hw_device_stats(struct ib_device *ibdev)
{
	static_assert(ARRAY_SIZE(ohca_stat_descs) == OHCA_CNT_NUM);
	static_assert(OHCA_CNT_NUM * sizeof(__le64) <= OHCA_MAILBOX_SIZE);

	return rdma_alloc_hw_stats_struct(ohca_stat_descs, OHCA_CNT_NUM,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/** ohca_get_hw_stats - ib_device_ops.get_hw_stats: all at once */
int ohca_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	u32 num = min_t(u32, OHCA_CNT_NUM, le32_to_cpu(dev->attr.num_counters));
	__le64 values[OHCA_CNT_NUM] = {};
	u32 i;
	int ret;

	if (port)
		return -EINVAL;
	ret = ohca_cmd_query_counters(dev, values, num);
	if (ret)
		return ret;
	for (i = 0; i < num; i++)
		stats->value[i] = le64_to_cpu(values[i]);
	return OHCA_CNT_NUM;
}
