// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Conversion of attributes of QPs and paths between the core's structures and the device's.
 * Pure functions, any context.
 */
#include <rdma/ib_verbs.h>

#include "compat.h"
#include "qp.h"

/**
 * ohca_av_pack - convert a path to an address vector
 * @av: result; dqpn, qkey and pkey_index are zero
 * @attr: the path
 */
void ohca_av_pack(struct ohca_hw_av *av, const struct rdma_ah_attr *attr)
{
	memset(av, 0, sizeof(*av));
	av->dlid = cpu_to_le16(rdma_ah_get_dlid(attr));
	av->sl = rdma_ah_get_sl(attr);
	av->src_path_bits = rdma_ah_get_path_bits(attr);
	av->static_rate = rdma_ah_get_static_rate(attr);
	av->port = rdma_ah_get_port_num(attr);
	if (rdma_ah_get_ah_flags(attr) & IB_AH_GRH) {
		const struct ib_global_route *grh = rdma_ah_read_grh(attr);

		av->flags = OHCA_AV_GRH;
		av->sgid_index = grh->sgid_index;
		av->hop_limit = grh->hop_limit;
		av->flow_tclass =
			cpu_to_le32(OHCA_FIELD_PREP(OHCA_AV_FLOW_LABEL, grh->flow_label) |
				    OHCA_FIELD_PREP(OHCA_AV_TCLASS, (u32)grh->traffic_class));
		memcpy(av->dgid, grh->dgid.raw, sizeof(av->dgid));
	}
}

/**
 * ohca_av_unpack - convert an address vector to a path
 * @ibdev: the device
 * @attr: result
 * @av: the address vector
 */
void ohca_av_unpack(struct ib_device *ibdev, struct rdma_ah_attr *attr,
		    const struct ohca_hw_av *av)
{
	u32 word = le32_to_cpu(av->flow_tclass);

	memset(attr, 0, sizeof(*attr));
	attr->type = RDMA_AH_ATTR_TYPE_IB;
	rdma_ah_set_dlid(attr, le16_to_cpu(av->dlid));
	rdma_ah_set_sl(attr, av->sl);
	rdma_ah_set_path_bits(attr, av->src_path_bits);
	rdma_ah_set_static_rate(attr, av->static_rate);
	rdma_ah_set_port_num(attr, av->port);
	if (av->flags & OHCA_AV_GRH) {
		rdma_ah_set_grh(attr, NULL, OHCA_FIELD_GET(OHCA_AV_FLOW_LABEL, word),
				av->sgid_index, av->hop_limit,
				OHCA_FIELD_GET(OHCA_AV_TCLASS, word));
		rdma_ah_set_dgid_raw(attr, (void *)av->dgid);
	}
}

/**
 * ohca_qp_attr_pack - convert attributes for MODIFY_QP
 * @hw: result
 * @attr: attributes from the core
 * @mask: enum ib_qp_attr_mask; attributes that are not in it are zero in @hw
 */
void ohca_qp_attr_pack(struct ohca_hw_qp_attr *hw, const struct ib_qp_attr *attr, int mask)
{
	memset(hw, 0, sizeof(*hw));
	if (mask & IB_QP_STATE)
		hw->state = attr->qp_state;
	if (mask & IB_QP_CUR_STATE)
		hw->cur_state = attr->cur_qp_state;
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		hw->en_sqd_notify = !!attr->en_sqd_async_notify;
	if (mask & IB_QP_ACCESS_FLAGS)
		hw->access = cpu_to_le32(attr->qp_access_flags &
					 (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
					  IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |
					  IB_ACCESS_MW_BIND | IB_ACCESS_FLUSH_GLOBAL |
					  IB_ACCESS_FLUSH_PERSISTENT));
	if (mask & IB_QP_PKEY_INDEX)
		hw->pkey_index = cpu_to_le16(attr->pkey_index);
	if (mask & IB_QP_PORT)
		hw->port = attr->port_num;
	if (mask & IB_QP_QKEY)
		hw->qkey = cpu_to_le32(attr->qkey);
	if (mask & IB_QP_AV)
		ohca_av_pack(&hw->av, &attr->ah_attr);
	if (mask & IB_QP_PATH_MTU)
		hw->path_mtu = attr->path_mtu;
	if (mask & IB_QP_TIMEOUT)
		hw->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		hw->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		hw->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_RQ_PSN)
		hw->rq_psn = cpu_to_le32(attr->rq_psn & 0xffffff);
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		hw->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_ALT_PATH) {
		ohca_av_pack(&hw->alt_av, &attr->alt_ah_attr);
		hw->alt_av.port = attr->alt_port_num;
		hw->alt_pkey_index = cpu_to_le16(attr->alt_pkey_index);
		hw->alt_timeout = attr->alt_timeout;
	}
	if (mask & IB_QP_MIN_RNR_TIMER)
		hw->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_SQ_PSN)
		hw->sq_psn = cpu_to_le32(attr->sq_psn & 0xffffff);
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		hw->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_PATH_MIG_STATE)
		hw->path_mig_state = attr->path_mig_state;
	if (mask & IB_QP_DEST_QPN)
		hw->dest_qpn = cpu_to_le32(attr->dest_qp_num & 0xffffff);
}

/**
 * ohca_qp_attr_unpack - convert attributes from QUERY_QP
 * @ibdev: the device
 * @attr: result; the capabilities are unchanged
 * @hw: attributes from the device
 *
 * Return: 0, or -EIO if the state is invalid.
 */
int ohca_qp_attr_unpack(struct ib_device *ibdev, struct ib_qp_attr *attr,
			const struct ohca_hw_qp_attr *hw)
{
	if (hw->state > OHCA_QPS_ERR)
		return -EIO;
	attr->qp_state = hw->state;
	attr->cur_qp_state = hw->state;
	attr->path_mtu = hw->path_mtu;
	attr->path_mig_state = hw->path_mig_state;
	attr->qkey = le32_to_cpu(hw->qkey);
	attr->rq_psn = le32_to_cpu(hw->rq_psn);
	attr->sq_psn = le32_to_cpu(hw->sq_psn);
	attr->dest_qp_num = le32_to_cpu(hw->dest_qpn);
	attr->qp_access_flags = le32_to_cpu(hw->access);
	attr->pkey_index = le16_to_cpu(hw->pkey_index);
	attr->alt_pkey_index = le16_to_cpu(hw->alt_pkey_index);
	attr->en_sqd_async_notify = hw->en_sqd_notify;
	attr->sq_draining = hw->sq_draining;
	attr->max_rd_atomic = hw->max_rd_atomic;
	attr->max_dest_rd_atomic = hw->max_dest_rd_atomic;
	attr->min_rnr_timer = hw->min_rnr_timer;
	attr->port_num = hw->port;
	attr->timeout = hw->timeout;
	attr->retry_cnt = hw->retry_cnt;
	attr->rnr_retry = hw->rnr_retry;
	attr->alt_port_num = hw->alt_av.port;
	attr->alt_timeout = hw->alt_timeout;
	ohca_av_unpack(ibdev, &attr->ah_attr, &hw->av);
	ohca_av_unpack(ibdev, &attr->alt_ah_attr, &hw->alt_av);
	return 0;
}
