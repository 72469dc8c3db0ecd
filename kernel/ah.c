// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles. The driver copies the address vector of a handle into each WQE. The device
 * has no object for them, so they can be created and destroyed in atomic context.
 */
#include "buf.h"
#include "dev.h"
#include "qp.h"
#include "verbs.h"

static int ohca_ah_check(struct ohca_dev *dev, const struct rdma_ah_attr *attr)
{
	u32 port = rdma_ah_get_port_num(attr);

	if (attr->type != RDMA_AH_ATTR_TYPE_IB || !port || port > dev->attr.num_ports)
		return -EINVAL;
	return 0;
}

/** ohca_create_ah - ib_device_ops.create_ah, .create_user_ah; atomic context */
int ohca_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	int ret = ohca_ah_check(to_ohca_dev(ibah->device), init->ah_attr);

	if (ret)
		return ret;
	ret = ohca_udata_none(udata);
	if (ret)
		return ret;
	ohca_av_pack(&to_ohca_ah(ibah)->av, init->ah_attr);
	return 0;
}

/** ohca_modify_ah - ib_device_ops.modify_ah */
int ohca_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	int ret = ohca_ah_check(to_ohca_dev(ibah->device), attr);

	if (!ret)
		ohca_av_pack(&to_ohca_ah(ibah)->av, attr);
	return ret;
}

/** ohca_query_ah - ib_device_ops.query_ah */
int ohca_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	ohca_av_unpack(ibah->device, attr, &to_ohca_ah(ibah)->av);
	return 0;
}

/** ohca_destroy_ah - ib_device_ops.destroy_ah; atomic context */
int ohca_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}
