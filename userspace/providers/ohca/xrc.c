// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * XRC domains and targets. The kernel owns targets, which have no queue: their
 * receives are in XRC SRQs (srq.c). Initiators are ordinary QPs (qp.c).
 */

#include <stdlib.h>

#include "compat.h"
#include "ohca.h"
#include "ohca_abi.h"

/** ohca_open_xrcd - ibv_open_xrcd(); NULL with errno set if the kernel refuses */
struct ibv_xrcd *ohca_open_xrcd(struct ibv_context *ibctx,
				struct ibv_xrcd_init_attr *attr)
{
	struct ib_uverbs_open_xrcd_resp resp = {};
	struct ibv_open_xrcd cmd = {};
	struct verbs_xrcd *xrcd;
	int err;

	if (!ohca_has_feature(to_octx(ibctx), OHCA_FEATURE_XRC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd) {
		errno = ENOMEM;
		return NULL;
	}
	err = ibv_cmd_open_xrcd(ibctx, xrcd, sizeof(*xrcd), attr, &cmd,
				sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(xrcd);
		errno = err;
		return NULL;
	}
	return &xrcd->xrcd;
}

/** ohca_close_xrcd - ibv_close_xrcd() */
int ohca_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct verbs_xrcd *xrcd = container_of(ibxrcd, struct verbs_xrcd, xrcd);
	int err = ibv_cmd_close_xrcd(xrcd);

	if (err)
		return err;
	free(xrcd);
	return 0;
}

/** ohca_open_qp - ibv_open_qp(): a target that another process has created */
struct ibv_qp *ohca_open_qp(struct ibv_context *ibctx,
			    struct ibv_qp_open_attr *attr)
{
	struct ib_uverbs_create_qp_resp resp = {};
	struct ibv_open_qp cmd = {};
	struct ohca_qp *qp;
	int err;

	qp = ohca_qp_new();
	if (!qp) {
		errno = ENOMEM;
		return NULL;
	}
	err = ibv_cmd_open_qp(ibctx, &qp->vqp, sizeof(qp->vqp), attr, &cmd,
			      sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(qp);
		errno = err;
		return NULL;
	}
	qp->handle = attr->qp_num;
	return &qp->vqp.qp;
}

/**
 * ohca_create_target - ibv_create_qp_ex() of type IBV_QPT_XRC_RECV
 *
 * Nothing can be posted to it; its capabilities are reported as zero.
 */
struct ibv_qp *ohca_create_target(struct ibv_context *ibctx,
				  struct ibv_qp_init_attr_ex *attr)
{
	struct uohca_create_qp_ex_resp resp = {};
	struct uohca_create_qp_ex cmd = {};
	struct ohca_qp *qp;
	int err;

	qp = ohca_qp_new();
	if (!qp) {
		errno = ENOMEM;
		return NULL;
	}
	err = ohca_cmd_create_qp_ex2(ibctx, &qp->vqp, attr, &cmd.ibv_cmd,
				     sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err) {
		free(qp);
		errno = err;
		return NULL;
	}
	qp->handle = qp->vqp.qp.qp_num;
	ohca_qp_take_number(to_octx(ibctx), qp->handle);
	memset(&attr->cap, 0, sizeof(attr->cap));
	return &qp->vqp.qp;
}
