// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Attributes of the device.
 */
#include <linux/pci.h>
#include <rdma/ib_verbs.h>

#include "aq.h"
#include "buf.h"
#include "compat.h"
#include "dev.h"
#include "port.h"
#include "verbs.h"

/* Refuses attributes that the driver cannot use safely. */
static int ohca_check_attr(struct ohca_dev *dev)
{
	const struct ohca_hw_device_attr *a = &dev->attr;
	const char *what = NULL;

	if (!a->num_ports || a->num_ports > OHCA_MAX_PORTS)
		what = "number of ports";
	else if (!(le64_to_cpu(a->page_size_cap) & BIT_ULL(PAGE_SHIFT)))
		what = "page sizes";
	else if (!a->log_max_sq_bbs || a->log_max_sq_bbs > 20 || a->log_max_rq_wqes > 20 ||
		 a->log_max_srq_wqes > 20 || a->log_max_tm_ops > 20 || !a->log_max_cqe ||
		 a->log_max_cqe > 22)
		what = "queue sizes";
	else if (a->max_sge < 2 || a->max_sge > OHCA_MAX_SGE || !a->max_sge_rd ||
		 a->max_sge_rd > a->max_sge)
		what = "SGE limits";
	else if (le16_to_cpu(a->max_inline) > OHCA_MAX_INLINE)
		what = "inline limit";
	else if (!le16_to_cpu(a->max_pkeys) || a->log_max_gids > 8)
		what = "table sizes";
	else if (ohca_has_odp(dev) && a->log_max_faults > OHCA_FAULT_SLOT_BITS)
		what = "number of page faults";
	else if (ohca_has(dev, OHCA_FEATURE_DM) &&
		 (le64_to_cpu(a->dm_size) < PAGE_SIZE ||
		  le64_to_cpu(a->dm_size) > pci_resource_len(dev->pdev, OHCA_BAR_DM)))
		what = "device memory";
	if (!what)
		return 0;
	return dev_err_probe(&dev->pdev->dev, -EPROTO, "device attributes: bad %s\n", what);
}

/**
 * ohca_device_init - read the device's attributes and set those of struct ib_device
 * @dev: enabled device; commands are still polled
 *
 * Return: 0 or a negative errno; an error is logged.
 */
int ohca_device_init(struct ohca_dev *dev)
{
	struct ib_device *ibdev = &dev->ibdev;
	struct ib_smp smp;
	int ret;

	ret = ohca_cmd_query_device(dev, &dev->attr);
	if (ret)
		return dev_err_probe(&dev->pdev->dev, ret, "QUERY_DEVICE failed\n");
	ret = ohca_check_attr(dev);
	if (ret)
		return ret;

	ibdev->dev.parent = &dev->pdev->dev;
	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->node_guid = dev->attr.node_guid;
	ibdev->phys_port_cnt = dev->attr.num_ports;
	ibdev->local_dma_lkey = le32_to_cpu(dev->attr.local_dma_lkey);
	ret = ohca_smp_get(dev, 1, IB_SMP_ATTR_NODE_DESC, 0, true, &smp);
	if (ret)
		return dev_err_probe(&dev->pdev->dev, ret, "cannot get the NodeDescription\n");
	memcpy(ibdev->node_desc, smp.data, IB_DEVICE_NODE_DESC_MAX);
	return 0;
}

/* ibstat and other programs read the files hw_rev, hca_type and board_id. */
static ssize_t hw_rev_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct ohca_dev *dev = rdma_device_to_drv_device(d, struct ohca_dev, ibdev);

	return sysfs_emit(buf, "%x\n", le32_to_cpu(dev->attr.hw_ver));
}
static DEVICE_ATTR_RO(hw_rev);

static ssize_t hca_type_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct ohca_dev *dev = rdma_device_to_drv_device(d, struct ohca_dev, ibdev);

	return sysfs_emit(buf, "OHCA%x\n", le32_to_cpu(dev->attr.vendor_part_id));
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct ohca_dev *dev = rdma_device_to_drv_device(d, struct ohca_dev, ibdev);

	return sysfs_emit(buf, "OHCA_%04x%04x\n", dev->pdev->vendor, dev->pdev->device);
}
static DEVICE_ATTR_RO(board_id);

static struct attribute *ohca_attrs[] = {
	&dev_attr_hw_rev.attr,
	&dev_attr_hca_type.attr,
	&dev_attr_board_id.attr,
	NULL,
};

const struct attribute_group ohca_attr_group = {
	.attrs = ohca_attrs,
};

static u64 ohca_device_caps(const struct ohca_dev *dev)
{
	u64 caps = IB_DEVICE_CURR_QP_STATE_MOD | IB_DEVICE_PORT_ACTIVE_EVENT |
		   IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_BAD_PKEY_CNTR |
		   IB_DEVICE_BAD_QKEY_CNTR;

	if (ohca_has(dev, OHCA_FEATURE_FRMR))
		caps |= IB_DEVICE_MEM_MGT_EXTENSIONS;
	if (ohca_has_xrc(dev))
		caps |= IB_DEVICE_XRC;
	if (ohca_has(dev, OHCA_FEATURE_SRQ) && ohca_has(dev, OHCA_FEATURE_SRQ_RESIZE))
		caps |= IB_DEVICE_SRQ_RESIZE;
	if (ohca_has(dev, OHCA_FEATURE_QP_RESIZE))
		caps |= IB_DEVICE_RESIZE_MAX_WR;
	if (ohca_has(dev, OHCA_FEATURE_MW))
		caps |= IB_DEVICE_MEM_WINDOW | (ohca_has(dev, OHCA_FEATURE_MW_TYPE_2A) ?
						IB_DEVICE_MEM_WINDOW_TYPE_2A :
						IB_DEVICE_MEM_WINDOW_TYPE_2B);
	if (ohca_has(dev, OHCA_FEATURE_UD_CSUM))
		caps |= IB_DEVICE_UD_IP_CSUM;
	if (ohca_has(dev, OHCA_FEATURE_MPE))
		caps |= IB_DEVICE_FLUSH_GLOBAL | IB_DEVICE_FLUSH_PERSISTENT |
			IB_DEVICE_ATOMIC_WRITE;
	if (ohca_has(dev, OHCA_FEATURE_APM))
		caps |= IB_DEVICE_AUTO_PATH_MIG;
	return caps;
}

/**
 * ohca_max_dm - size of the largest device memory
 * @dev: the device
 *
 * Any context. REG_MR has 32 bits for the offset of a region in device memory.
 * Return: bytes.
 */
u64 ohca_max_dm(const struct ohca_dev *dev)
{
	return min_t(u64, le64_to_cpu(dev->attr.dm_size), BIT_ULL(32));
}

/* A device without OHCA_FEATURE_BIG_ENDIAN reads the numbers of a big-endian host wrongly. */
static enum ib_atomic_cap ohca_atomic_cap(const struct ohca_dev *dev)
{
	if (IS_ENABLED(CONFIG_CPU_BIG_ENDIAN) && !ohca_has(dev, OHCA_FEATURE_BIG_ENDIAN))
		return IB_ATOMIC_NONE;
	return IB_ATOMIC_HCA;
}

/* Sets the limits of queues, regions and other objects. */
static void ohca_limits(const struct ohca_hw_device_attr *a, struct ib_device_attr *props)
{
	props->max_qp = le32_to_cpu(a->max_qp);
	props->max_qp_wr = ohca_max_qp_wr(a);
	props->max_send_sge = a->max_sge;
	props->max_recv_sge = a->max_sge;
	props->max_sge_rd = a->max_sge_rd;
	props->max_cq = min_t(u32, le32_to_cpu(a->max_cq), INT_MAX);
	props->max_cqe = 1 << a->log_max_cqe;
	props->max_mr = le32_to_cpu(a->max_mr);
	props->max_pd = le32_to_cpu(a->max_pd);
	props->max_qp_rd_atom = a->max_rd_atomic;
	props->max_qp_init_rd_atom = a->max_init_rd_atomic;
	props->max_res_rd_atom = min_t(u64, (u64)a->max_rd_atomic * props->max_qp, INT_MAX);
	props->max_ah = min_t(u32, le32_to_cpu(a->max_ah), INT_MAX);
	props->max_pkeys = le16_to_cpu(a->max_pkeys);
	props->cq_caps.max_cq_moderation_count = U16_MAX;
	props->cq_caps.max_cq_moderation_period = U16_MAX;
}

static void ohca_srq_attr(const struct ohca_dev *dev, struct ib_device_attr *props)
{
	const struct ohca_hw_device_attr *a = &dev->attr;

	if (!ohca_has(dev, OHCA_FEATURE_SRQ))
		return;
	props->max_srq = le32_to_cpu(a->max_srq);
	props->max_srq_wr = 1 << a->log_max_srq_wqes;
	props->max_srq_sge = a->max_sge;
	if (!ohca_has(dev, OHCA_FEATURE_TM))
		return;
	props->tm_caps.max_rndv_hdr_size = OHCA_TM_RNDV_MAX;
	props->tm_caps.max_num_tags = le16_to_cpu(a->max_tags);
	props->tm_caps.max_ops = 1 << a->log_max_tm_ops;
	props->tm_caps.max_sge = 1;
	props->tm_caps.flags = IB_TM_CAP_RNDV_RC;
}

static void ohca_mcast_attr(const struct ohca_dev *dev, struct ib_device_attr *props)
{
	const struct ohca_hw_device_attr *a = &dev->attr;

	if (!ohca_has(dev, OHCA_FEATURE_MCAST))
		return;
	props->max_mcast_grp = le32_to_cpu(a->max_mcast_grp);
	props->max_mcast_qp_attach = le32_to_cpu(a->max_mcast_qp_attach);
	props->max_total_mcast_qp_attach = le32_to_cpu(a->max_total_mcast_qp_attach);
}

static void ohca_memory_attr(const struct ohca_dev *dev, struct ib_device_attr *props)
{
	const struct ohca_hw_device_attr *a = &dev->attr;

	props->max_mr_size = le64_to_cpu(a->max_mr_size);
	props->page_size_cap = le64_to_cpu(a->page_size_cap);
	if (ohca_has(dev, OHCA_FEATURE_FRMR))
		props->max_fast_reg_page_list_len = le32_to_cpu(a->max_frmr_pages);
	if (ohca_has(dev, OHCA_FEATURE_MW))
		props->max_mw = le32_to_cpu(a->max_mr);
	if (ohca_has(dev, OHCA_FEATURE_DM))
		props->max_dm_size = ohca_max_dm(dev);
}

static void ohca_odp_attr(const struct ohca_dev *dev, struct ib_device_attr *props)
{
	const struct ohca_hw_device_attr *a = &dev->attr;

	if (!ohca_has_odp(dev))
		return;
	props->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	props->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	props->odp_caps.per_transport_caps.rc_odp_caps = a->odp_rc;
	props->odp_caps.per_transport_caps.uc_odp_caps = a->odp_uc;
	props->odp_caps.per_transport_caps.ud_odp_caps = a->odp_ud;
	props->odp_caps.per_transport_caps.xrc_odp_caps = a->odp_xrc;
}

/** ohca_query_device - ib_device_ops.query_device */
int ohca_query_device(struct ib_device *ibdev, struct ib_device_attr *props,
		      struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	const struct ohca_hw_device_attr *a = &dev->attr;
	int ret = ohca_udata_none(udata);

	if (ret)
		return ret;

	memset(props, 0, sizeof(*props));
	props->fw_ver = le64_to_cpu(a->fw_ver);
	props->sys_image_guid = a->sys_image_guid;
	props->vendor_id = le32_to_cpu(a->vendor_id);
	props->vendor_part_id = le32_to_cpu(a->vendor_part_id);
	props->hw_ver = le32_to_cpu(a->hw_ver);
	props->local_ca_ack_delay = a->local_ca_ack_delay;
	props->device_cap_flags = ohca_device_caps(dev);
	props->kernel_cap_flags = IBK_LOCAL_DMA_LKEY | IBK_BLOCK_MULTICAST_LOOPBACK;
	if (ohca_has(dev, OHCA_FEATURE_TSO))
		props->kernel_cap_flags |= IBK_UD_TSO;
	props->atomic_cap = ohca_atomic_cap(dev);
	props->masked_atomic_cap = ohca_has(dev, OHCA_FEATURE_EXT_ATOMIC) ? props->atomic_cap :
									    IB_ATOMIC_NONE;
	if (ohca_has(dev, OHCA_FEATURE_TIMESTAMP)) {
		props->timestamp_mask = ~0ull;
		props->hca_core_clock = le64_to_cpu(a->timestamp_khz);
	}
	ohca_limits(a, props);
	ohca_memory_attr(dev, props);
	ohca_srq_attr(dev, props);
	ohca_mcast_attr(dev, props);
	ohca_odp_attr(dev, props);
	return 0;
}

/** ohca_modify_device - ib_device_ops.modify_device: the NodeDescription */
int ohca_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *modify)
{
	int ret;

	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (!(mask & IB_DEVICE_MODIFY_NODE_DESC))
		return 0;
	ret = ohca_cmd_modify_device(to_ohca_dev(ibdev), modify->node_desc);
	if (!ret)
		memcpy(ibdev->node_desc, modify->node_desc, IB_DEVICE_NODE_DESC_MAX);
	return ret;
}

/** ohca_get_dev_fw_str - ib_device_ops.get_dev_fw_str */
void ohca_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	u64 ver = le64_to_cpu(to_ohca_dev(ibdev)->attr.fw_ver);

	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u.%u", (u32)(ver >> 32),
		 (u32)(ver >> 16) & 0xffff, (u32)ver & 0xffff);
}
