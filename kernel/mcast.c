// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Multicast groups of UD QPs.
 */
#include "aq.h"
#include "dev.h"
#include "qp.h"
#include "verbs.h"

/** ohca_attach_mcast - ib_device_ops.attach_mcast */
int ohca_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);

	if (!ohca_has(dev, OHCA_FEATURE_MCAST))
		return -EOPNOTSUPP;
	return ohca_cmd_mcast(dev, OHCA_CMD_ATTACH_MCAST, to_ohca_qp(ibqp)->handle, mgid, mlid);
}

/** ohca_detach_mcast - ib_device_ops.detach_mcast */
int ohca_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid)
{
	return ohca_cmd_mcast(to_ohca_dev(ibqp->device), OHCA_CMD_DETACH_MCAST,
			      to_ohca_qp(ibqp)->handle, mgid, mlid);
}
