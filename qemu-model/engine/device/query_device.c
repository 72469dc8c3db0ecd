/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QUERY_DEVICE and QUERY_COUNTERS: attributes and counters. */
#include <stdatomic.h>

#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/device/query_device.h"
#include "ohca_hw.h"

int ohca_cmd_query_device(struct ohca_cmd *c)
{
	ohca_engine *e = c->e;
	struct ohca_hw_device_attr a = { 0 };

	a.features = ohca_to_le64(atomic_load(&e->features_ack));
	a.node_guid = ib_to_be64(e->cfg.node_guid);
	a.sys_image_guid = ib_to_be64(e->cfg.sys_guid);
	a.fw_ver = ohca_to_le64(OHCA_FW_VER);
	a.max_mr_size = ohca_to_le64(OHCA_MAX_MR_SIZE);
	a.page_size_cap = ohca_to_le64(OHCA_GENMASK64(OHCA_PL_MAX_SHIFT, OHCA_PL_MIN_SHIFT));
	a.timestamp_khz = ohca_to_le64(1000000);
	a.max_qp = ohca_to_le32(e->max_qp - OHCA_FIRST_QP);
	a.max_cq = ohca_to_le32(e->max_cq);
	a.max_mr = ohca_to_le32(e->max_mr - 2);
	a.max_pd = ohca_to_le32(e->max_pd);
	a.max_srq = ohca_to_le32(e->max_srq);
	a.max_eq = ohca_to_le32(OHCA_MAX_EQ);
	a.max_ah = ohca_to_le32(INT32_MAX);
	a.max_mcast_grp = ohca_to_le32(OHCA_MAX_MCAST_GRP);
	a.max_mcast_qp_attach = ohca_to_le32(OHCA_MAX_MCAST_QP);
	a.max_total_mcast_qp_attach = ohca_to_le32(OHCA_MAX_TOTAL_MCAST);
	a.max_frmr_pages = ohca_to_le32(OHCA_MAX_FRMR_PAGES);
	a.local_dma_lkey = ohca_to_le32(OHCA_LOCAL_DMA_LKEY);
	a.log_max_sq_bbs = OHCA_LOG_MAX_SQ_BBS;
	a.log_max_rq_wqes = OHCA_LOG_MAX_RQ_WQES;
	a.log_max_srq_wqes = OHCA_LOG_MAX_SRQ_WQES;
	a.log_max_cqe = OHCA_LOG_MAX_CQE;
	a.max_sge = OHCA_MAX_SGE;
	a.max_sge_rd = OHCA_MAX_SGE;
	a.max_rd_atomic = OHCA_MAX_RD_ATOMIC;
	a.max_init_rd_atomic = OHCA_MAX_RD_ATOMIC;
	a.max_inline = ohca_to_le16(OHCA_MAX_INLINE);
	a.max_pkeys = ohca_to_le16(OHCA_MAX_PKEYS);
	a.num_ports = e->cfg.num_ports;
	a.log_max_gids = 8;
	a.local_ca_ack_delay = 12;	/* 16 ms: the host may run the engine with a delay */
	a.vendor_id = ohca_to_le32(OHCA_VENDOR_OUI);
	a.vendor_part_id = ohca_to_le32(OHCA_PART_ID);
	a.hw_ver = ohca_to_le32(OHCA_HW_REVISION);
	a.num_counters = ohca_to_le32(OHCA_CNT_NUM);
	if (ohca_feature(e, OHCA_FEATURE_TM)) {
		a.log_max_tm_ops = OHCA_LOG_MAX_TM_OPS;
		a.max_tags = ohca_to_le16(OHCA_MAX_TAGS);
	}
	if (ohca_feature(e, OHCA_FEATURE_ODP)) {
		a.max_odp_size = ohca_to_le64(OHCA_MAX_ODP_SIZE);
		a.odp_rc = OHCA_ODP_CAP_SEND | OHCA_ODP_CAP_RECV | OHCA_ODP_CAP_RDMA_WRITE |
			   OHCA_ODP_CAP_RDMA_READ | OHCA_ODP_CAP_ATOMIC | OHCA_ODP_CAP_SRQ_RECV;
		/* an XRC target uses only WQEs of SRQs, and is otherwise a responder of RC */
		if (ohca_feature(e, OHCA_FEATURE_XRC))
			a.odp_xrc = a.odp_rc & ~OHCA_ODP_CAP_RECV;
		/* no receives of UC and UD: a message whose page is missing is lost */
		a.odp_uc = OHCA_ODP_CAP_SEND;
		a.odp_ud = OHCA_ODP_CAP_SEND;
		a.log_max_faults = OHCA_LOG_MAX_FAULTS;
	}
	a.dm_size = ohca_to_le64(ohca_feature(e, OHCA_FEATURE_DM) ? e->cfg.dm_size : 0);
	return ohca_cmd_mbox_write(c, OHCA_AT(mbox.addr), 0, &a, sizeof(a));
}
_Static_assert(OHCA_MAX_GIDS == 1 << 8, "log_max_gids");

int ohca_cmd_query_counters(struct ohca_cmd *c)
{
	__le64 v[OHCA_CNT_NUM];

	for (unsigned int i = 0; i < OHCA_CNT_NUM; i++)
		v[i] = ohca_to_le64(ohca_counter(c->e, i));
	return ohca_cmd_mbox_write(c, OHCA_AT(mbox.addr), 0, v, sizeof(v));
}
