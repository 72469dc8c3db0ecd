/* SPDX-License-Identifier: GPL-2.0 */
/* RC QPs that are connected within a device. */
#ifndef CONNECT_H
#define CONNECT_H

#include <rdma/ib_verbs.h>

#define ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		 IB_ACCESS_REMOTE_ATOMIC)

/**
 * connect_qp - move a new RC QP to RTS, with all remote ACCESS
 * @qp: the QP, of port 1
 * @to: number of a QP of the same port
 * @mtu: 0: the port's
 * @min_rnr_timer: encoded (volume 1, table 45)
 *
 * Process context, may sleep. Return: 0, or the errno of the verb that failed.
 */
static inline int connect_qp(struct ib_qp *qp, u32 to, enum ib_mtu mtu, u8 min_rnr_timer)
{
	struct ib_qp_attr a = { .qp_state = IB_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS };
	struct ib_port_attr port;
	int ret;

	ret = ib_query_port(qp->device, 1, &port);
	if (ret)
		return ret;
	ret = ib_modify_qp(qp, &a, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			   IB_QP_ACCESS_FLAGS);
	if (ret)
		return ret;
	memset(&a, 0, sizeof(a));
	a.qp_state = IB_QPS_RTR;
	a.path_mtu = mtu ? mtu : port.active_mtu;
	a.dest_qp_num = to;
	a.max_dest_rd_atomic = 4;
	a.min_rnr_timer = min_rnr_timer;
	a.ah_attr.type = rdma_ah_find_type(qp->device, 1);
	rdma_ah_set_dlid(&a.ah_attr, port.lid);
	rdma_ah_set_port_num(&a.ah_attr, 1);
	ret = ib_modify_qp(qp, &a, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
			   IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (ret)
		return ret;
	memset(&a, 0, sizeof(a));
	a.qp_state = IB_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 4;
	return ib_modify_qp(qp, &a, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			    IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

#endif /* CONNECT_H */
