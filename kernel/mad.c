// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * MADs. The device's SMA and PMA answer their MADs from the wire; QP0 and QP1 receive the
 * others. This file passes MADs of software on this node to these agents (a subnet manager's
 * SMPs with 0 hops, the counters in sysfs), and requests of the driver.
 */
#include <kunit/visibility.h>

#include "aq.h"
#include "dev.h"
#include "verbs.h"

/**
 * ohca_mad_for_device - whether a MAD may be for the device's SMA or PMA
 * @mad: the MAD
 *
 * Avoids the command for responses and for classes that only software answers. Any context.
 * Return: true if it may.
 */
VISIBLE_IF_KUNIT bool ohca_mad_for_device(const struct ib_mad *mad)
{
	u8 method = mad->mad_hdr.method;

	switch (mad->mad_hdr.mgmt_class) {
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
		return mad->mad_hdr.attr_id != IB_SMP_ATTR_SM_INFO &&
		       (method == IB_MGMT_METHOD_GET || method == IB_MGMT_METHOD_SET ||
			method == IB_MGMT_METHOD_TRAP_REPRESS);
	case IB_MGMT_CLASS_PERF_MGMT:
		return method == IB_MGMT_METHOD_GET || method == IB_MGMT_METHOD_SET;
	default:
		return false;
	}
}

static void ohca_mad_wc(struct ohca_hw_mad_in_wc *hw, const struct ib_wc *wc,
			const struct ib_grh *grh)
{
	memset(hw, 0, sizeof(*hw));
	hw->src_qp = cpu_to_le32(wc->src_qp);
	hw->slid = cpu_to_le16(wc->slid);
	hw->pkey_index = cpu_to_le16(wc->pkey_index);
	hw->sl = wc->sl;
	hw->dlid_path_bits = wc->dlid_path_bits;
	if (grh && (wc->wc_flags & IB_WC_GRH)) {
		BUILD_BUG_ON(sizeof(*grh) != sizeof(hw->grh));
		hw->grh_valid = 1;
		memcpy(hw->grh, grh, sizeof(hw->grh));
	}
}

/** ohca_process_mad - ib_device_ops.process_mad; process context */
int ohca_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
		     const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	struct ohca_hw_mad_in_wc wc;
	u8 verdict, hw_flags = 0;
	int ret;

	if (!ohca_mad_for_device(in))
		return IB_MAD_RESULT_SUCCESS;
	if (in_wc)
		ohca_mad_wc(&wc, in_wc, in_grh);
	if (flags & IB_MAD_IGNORE_MKEY)
		hw_flags |= OHCA_MAD_IFC_IGNORE_MKEY;
	/* a MAD without a completion is from a process that reads a counter in sysfs */
	ret = ohca_cmd_mad_ifc(dev, port, hw_flags, in, in_wc ? &wc : NULL, out, in_wc,
			       &verdict);
	if (ret)
		return IB_MAD_RESULT_FAILURE;

	switch (verdict) {
	case OHCA_MAD_CONSUMED:
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED;
	case OHCA_MAD_REPLY:
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
	default:
		return IB_MAD_RESULT_SUCCESS;
	}
}

/**
 * ohca_smp_get - Get an attribute from the device's SMA
 * @dev: the device
 * @port: port, from 1
 * @attr_id: IB_SMP_ATTR_*
 * @attr_mod: attribute modifier, CPU order
 * @must: ohca_cmd.must
 * @out: the response
 *
 * Process context.
 * Return: 0, -EIO if the agent does not answer, -EINVAL if it answers with an error, -EINTR if the
 *	caller was killed, without @must.
 */
int ohca_smp_get(struct ohca_dev *dev, u32 port, __be16 attr_id, u32 attr_mod, bool must,
		 struct ib_smp *out)
{
	struct ib_smp in = {};
	u8 verdict;
	int ret;

	BUILD_BUG_ON(sizeof(in) != IB_MGMT_MAD_SIZE);
	ib_init_query_mad(&in);
	in.attr_id = attr_id;
	in.attr_mod = cpu_to_be32(attr_mod);
	ret = ohca_cmd_mad_ifc(dev, port, OHCA_MAD_IFC_IGNORE_MKEY, &in, NULL, out, must,
			       &verdict);
	if (ret)
		return ret;
	if (verdict != OHCA_MAD_REPLY)
		return -EIO;
	return out->status & ~IB_SMP_DIRECTION ? -EINVAL : 0;
}
