// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains and XRC domains.
 */
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "dev.h"
#include "uctx.h"
#include "verbs.h"

#define UVERBS_MODULE_NAME ohca
#include <rdma/uverbs_named_ioctl.h>

/** ohca_alloc_pd - ib_device_ops.alloc_pd */
int ohca_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct ohca_ucontext *ctx =
		rdma_udata_to_drv_context(udata, struct ohca_ucontext, ibucontext);
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ohca_pd *pd = to_ohca_pd(ibpd);
	struct ohca_alloc_pd_resp resp = {};
	int ret;

	ret = ohca_udata_none(udata);
	if (ret)
		return ret;
	pd->uar = ctx ? ctx->uar : 0;
	ret = ohca_cmd_alloc_pd(dev, pd->uar, &pd->pdn);
	if (ret || !udata)
		return ret;
	resp.pdn = pd->pdn;
	ret = ohca_udata_out(udata, &resp, sizeof(resp));
	if (ret)
		ohca_cmd_undo(dev, OHCA_CMD_DEALLOC_PD, pd->pdn, ret);
	return ret;
}

/** ohca_dealloc_pd - ib_device_ops.dealloc_pd */
int ohca_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	ohca_cmd_destroy(to_ohca_dev(ibpd->device), OHCA_CMD_DEALLOC_PD, to_ohca_pd(ibpd)->pdn);
	return 0;
}

/**
 * ohca_alloc_xrcd - ib_device_ops.alloc_xrcd
 * @ibxrcd: the core's part
 * @udata: not used
 *
 * A domain has no doorbell page, because its SRQs may belong to several processes. Process context.
 * Return: 0, -EOPNOTSUPP if the device has no XRC, or the errno of the command.
 */
int ohca_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibxrcd->device);
	int ret = ohca_udata_none(udata);

	if (ret)
		return ret;
	if (!ohca_has_xrc(dev))
		return -EOPNOTSUPP;
	return ohca_cmd_alloc_xrcd(dev, &to_ohca_xrcd(ibxrcd)->xrcdn);
}

/** ohca_dealloc_xrcd - ib_device_ops.dealloc_xrcd */
int ohca_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	ohca_cmd_destroy(to_ohca_dev(ibxrcd->device), OHCA_CMD_DEALLOC_XRCD,
			 to_ohca_xrcd(ibxrcd)->xrcdn);
	return 0;
}

/* Returns the PD's number to a process that imports the handle of another process. */
static int UVERBS_HANDLER(OHCA_METHOD_PD_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *ibpd = uverbs_attr_get_obj(attrs, OHCA_ATTR_QUERY_PD_HANDLE);
	struct ohca_alloc_pd_resp resp = { .pdn = to_ohca_pd(ibpd)->pdn };

	return uverbs_copy_to_struct_or_zero(attrs, OHCA_ATTR_QUERY_PD_RESP, &resp, sizeof(resp));
}

DECLARE_UVERBS_NAMED_METHOD(
	OHCA_METHOD_PD_QUERY,
	UVERBS_ATTR_IDR(OHCA_ATTR_QUERY_PD_HANDLE, UVERBS_OBJECT_PD, UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(OHCA_ATTR_QUERY_PD_RESP,
			    UVERBS_ATTR_STRUCT(struct ohca_alloc_pd_resp, pdn), UA_MANDATORY));

ADD_UVERBS_METHODS(ohca_pd_methods, UVERBS_OBJECT_PD, &UVERBS_METHOD(OHCA_METHOD_PD_QUERY));

const struct uapi_definition ohca_pd_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_PD, &ohca_pd_methods),
	{}
};
