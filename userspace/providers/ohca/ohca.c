// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Device matching, opening a device, queries. */

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compat.h"
#include "ohca.h"
#include "ohca_abi.h"
#include "version.h"

static int ohca_query_device_ex(struct ibv_context *ibctx,
				const struct ibv_query_device_ex_input *input,
				struct ibv_device_attr_ex *attr,
				size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t ver;
	int err;

	err = ibv_cmd_query_device_any(ibctx, input, attr, attr_size, &resp,
				       &resp_size);
	if (err)
		return err;
	ver = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%u.%u.%u", (unsigned int)(ver >> 32),
		 (unsigned int)(ver >> 16) & 0xffff, (unsigned int)ver & 0xffff);
	if (attr_size >= offsetofend(struct ibv_device_attr_ex, tso_caps) &&
	    ohca_has_feature(to_octx(ibctx), OHCA_FEATURE_TSO)) {
		/* as long as any message (IBTA vol 1, 9.7.7) */
		attr->tso_caps.max_tso = 1u << 31;
		attr->tso_caps.supported_qpts = 1 << IBV_QPT_UD;
	}
	return 0;
}

static int ohca_query_port(struct ibv_context *ibctx, uint8_t port,
			   struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(ibctx, port, attr, &cmd, sizeof(cmd));
}

#if OHCA_RDMA_CORE >= 62
/* ibv_query_port_speed(): EOPNOTSUPP from a kernel that does not have it (before Linux 7.0) */
static int ohca_query_port_speed(struct ibv_context *ibctx, uint32_t port,
				 uint64_t *speed)
{
	return ibv_cmd_query_port_speed(ibctx, port, speed);
}
#endif

static void ohca_free_context(struct ibv_context *ibctx)
{
	struct ohca_context *ctx = to_octx(ibctx);

	munmap(ctx->uar, ctx->uar_size);
	pthread_cond_destroy(&ctx->cleaned);
	pthread_mutex_destroy(&ctx->dying_lock);
	verbs_uninit_context(&ctx->ibv_ctx);
	free(ctx);
}

/* Operations that are not listed here fail with EOPNOTSUPP. */
static const struct verbs_context_ops ohca_ctx_ops = {
	.advise_mr = ibv_cmd_advise_mr,
	.alloc_dm = ohca_alloc_dm,
	.alloc_mw = ohca_alloc_mw,
	.alloc_parent_domain = ohca_alloc_parent_domain,
	.alloc_pd = ohca_alloc_pd,
	.alloc_td = ohca_alloc_td,
	.attach_mcast = ibv_cmd_attach_mcast,
	.bind_mw = ohca_bind_mw,
	.close_xrcd = ohca_close_xrcd,
	.cq_event = ohca_cq_event,
	.create_ah = ohca_create_ah,
	.create_cq = ohca_create_cq,
	.create_cq_ex = ohca_create_cq_ex,
	.create_qp = ohca_create_qp,
	.create_qp_ex = ohca_create_qp_ex,
	.create_srq = ohca_create_srq,
	.create_srq_ex = ohca_create_srq_ex,
	.dealloc_mw = ohca_dealloc_mw,
	.dealloc_pd = ohca_dealloc_pd,
	.dealloc_td = ohca_dealloc_td,
	.dereg_mr = ohca_dereg_mr,
	.destroy_ah = ohca_destroy_ah,
	.destroy_cq = ohca_destroy_cq,
	.destroy_qp = ohca_destroy_qp,
	.destroy_srq = ohca_destroy_srq,
	.detach_mcast = ibv_cmd_detach_mcast,
	.free_context = ohca_free_context,
	.free_dm = ohca_free_dm,
	.get_srq_num = ohca_get_srq_num,
	.import_dm = ohca_import_dm,
	.import_mr = ohca_import_mr,
	.import_pd = ohca_import_pd,
	.modify_cq = ohca_modify_cq,
	.modify_qp = ohca_modify_qp,
	.modify_srq = ohca_modify_srq,
	.open_qp = ohca_open_qp,
	.open_xrcd = ohca_open_xrcd,
	.poll_cq = ohca_poll_cq,
	.post_recv = ohca_post_recv,
	.post_send = ohca_post_send,
	.post_srq_ops = ohca_post_srq_ops,
	.post_srq_recv = ohca_post_srq_recv,
	.query_device_ex = ohca_query_device_ex,
	.query_port = ohca_query_port,
#if OHCA_RDMA_CORE >= 62
	.query_port_speed = ohca_query_port_speed,
#endif
	.query_qp = ohca_query_qp,
	.query_rt_values = ohca_query_rt_values,
	.query_srq = ohca_query_srq,
	.reg_dmabuf_mr = ohca_reg_dmabuf_mr,
	.reg_dm_mr = ohca_reg_dm_mr,
	.reg_mr = ohca_reg_mr,
	.req_notify_cq = ohca_req_notify_cq,
	.rereg_mr = ohca_rereg_mr,
	.resize_cq = ohca_resize_cq,
	.unimport_dm = ohca_unimport_dm,
	.unimport_mr = ohca_unimport_mr,
	.unimport_pd = ohca_unimport_pd,
};

/* Limits are used in shifts and divisions, so values that the contract forbids are refused. */
static int ohca_take_limits(struct ohca_context *ctx,
			    const struct ohca_alloc_ucontext_resp *resp)
{
	const char *device = ctx->ibv_ctx.context.device->name;

	if (OHCA_FIELD_GET(OHCA_VERSION_MAJOR, resp->hw_version) !=
	    OHCA_MAJOR) {
		ohca_refuse(
			device,
			"the device has interface version %u.%u, this library is for %u: " OHCA_ONE_RELEASE,
			OHCA_FIELD_GET(OHCA_VERSION_MAJOR, resp->hw_version),
			OHCA_FIELD_GET(OHCA_VERSION_MINOR, resp->hw_version),
			OHCA_MAJOR);
		return EPROTO;
	}
	if (!resp->uar_mmap_size || !resp->max_sge ||
	    resp->max_sge > OHCA_MAX_SGE ||
	    resp->max_inline > OHCA_MAX_INLINE || resp->log_max_sq_bbs > 24 ||
	    resp->log_max_rq_wqes > 20 || resp->log_max_srq_wqes > 20 ||
	    resp->log_max_cqe > 24) {
		ohca_refuse(
			device,
			"the driver reports limits that interface version %u does not allow: " OHCA_ONE_RELEASE,
			OHCA_MAJOR);
		return EPROTO;
	}
	ctx->features = resp->features;
	ctx->max_inline = resp->max_inline;
	ctx->max_sge = resp->max_sge;
	ctx->log_max_sq_bbs = resp->log_max_sq_bbs;
	ctx->log_max_rq_wqes = resp->log_max_rq_wqes;
	ctx->log_max_srq_wqes = resp->log_max_srq_wqes;
	ctx->log_max_cqe = resp->log_max_cqe;
	return 0;
}

/* Initializes a context from the kernel's response: 0 or an errno value. */
static int ohca_context_init(struct ohca_context *ctx,
			     const struct ohca_alloc_ucontext_resp *resp)
{
	struct ibv_device_attr_ex attr = {};
	int err;

	err = ohca_take_limits(ctx, resp);
	if (err)
		return err;
	ctx->page_size = sysconf(_SC_PAGESIZE);
	ctx->uar_size = resp->uar_mmap_size;
	/* mapped readable for the clock */
	ctx->uar = mmap(NULL, ctx->uar_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			ctx->ibv_ctx.context.cmd_fd, resp->uar_mmap_key);
	if (ctx->uar == MAP_FAILED)
		return errno;

	verbs_set_ops(&ctx->ibv_ctx, &ohca_ctx_ops);
	err = ohca_query_device_ex(&ctx->ibv_ctx.context, NULL, &attr,
				   sizeof(attr.orig_attr));
	if (!err && attr.orig_attr.phys_port_cnt > OHCA_MAX_PORTS)
		err = EPROTO;
	if (err) {
		munmap(ctx->uar, ctx->uar_size);
		return err;
	}
	ctx->num_ports = attr.orig_attr.phys_port_cnt;
	list_head_init(&ctx->dying);
	list_head_init(&ctx->dying_srqs);
	pthread_mutex_init(&ctx->dying_lock, NULL);
	pthread_cond_init(&ctx->cleaned, NULL);
	return 0;
}

/* Size of this program's words; tests build the file with another one. */
#ifndef OHCA_PROGRAM_BITS
#define OHCA_PROGRAM_BITS (8 * sizeof(void *))
#endif

/*
 * A doorbell is one store of 64 bits: the device ignores others (enum ohca_uar_off). A 32-bit
 * program may split it into two, which the device ignores; its queues would stall. Return: 0 or
 * EOPNOTSUPP.
 */
static int ohca_check_program(struct ohca_context *ctx)
{
	if (OHCA_PROGRAM_BITS >= 64)
		return 0;
	verbs_err(&ctx->ibv_ctx,
		  "32-bit programs cannot ring the doorbells of this device\n");
	return EOPNOTSUPP;
}

static struct verbs_context *ohca_context_fail(struct ohca_context *ctx,
					       int err)
{
	verbs_uninit_context(&ctx->ibv_ctx);
	free(ctx);
	errno = err;
	return NULL;
}

static struct verbs_context *ohca_alloc_context(struct ibv_device *ibdev,
						int cmd_fd, void *private_data)
{
	struct uohca_alloc_context_resp resp = {};
	struct uohca_alloc_context cmd = {};
	struct ohca_context *ctx;
	int err;

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, ibv_ctx,
					   RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	cmd.hw_major = OHCA_MAJOR;
	err = ohca_check_program(ctx);
	if (!err)
		err = ohca_cmd_get_context(&ctx->ibv_ctx, &cmd.ibv_cmd,
					   sizeof(cmd), &resp.ibv_resp,
					   sizeof(resp));
	if (err == EPROTO)
		ohca_refuse(
			ibdev->name,
			"the driver refuses interface version %u, which this library uses: " OHCA_ONE_RELEASE,
			OHCA_MAJOR);
	if (!err)
		err = ohca_context_init(ctx, &resp.drv_payload);
	return err ? ohca_context_fail(ctx, err) : &ctx->ibv_ctx;
}

/*
 * Imports a context that another process has opened and passed as @cmd_fd. It is the same
 * context: its doorbell page is mapped again, and both processes can use objects that either
 * creates.
 */
static struct verbs_context *ohca_import_context(struct ibv_device *ibdev,
						 int cmd_fd)
{
	DECLARE_COMMAND_BUFFER_LINK(drv, UVERBS_OBJECT_DEVICE,
				    UVERBS_METHOD_QUERY_CONTEXT, 1, NULL);
	struct ohca_alloc_ucontext_resp resp = {};
	struct ohca_context *ctx;
	int err;

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, ibv_ctx,
					   RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	fill_attr_out_ptr(drv, OHCA_ATTR_QUERY_CONTEXT_RESP, &resp);
	err = ohca_check_program(ctx);
	if (!err)
		err = ibv_cmd_query_context(&ctx->ibv_ctx.context, drv);
	if (!err)
		err = ohca_context_init(ctx, &resp);
	return err ? ohca_context_fail(ctx, err) : &ctx->ibv_ctx;
}

static struct verbs_device *ohca_device_alloc(struct verbs_sysfs_dev *sysfs_dev)
{
	if (!ohca_check_library(sysfs_dev->ibdev_name))
		return NULL;
	return calloc(1, sizeof(struct verbs_device));
}

static void ohca_device_free(struct verbs_device *vdev)
{
	free(vdev);
}

static const struct verbs_match_ent ohca_match_table[] = {
	VERBS_PCI_MATCH(OHCA_PCI_VENDOR_ID, OHCA_PCI_DEVICE_ID_PF, NULL),
	VERBS_PCI_MATCH(OHCA_PCI_VENDOR_ID, OHCA_PCI_DEVICE_ID_VF, NULL),
	/* a PF with another vendor ID; the numbers are OHCA_PCI_DEVICE_ID_PF and its subsystem's */
	VERBS_MODALIAS_MATCH("pci:v*d00000CA0sv00001234sd00000CA0*", NULL),
	{},
};

static const struct verbs_device_ops ohca_dev_ops = {
	.name = "ohca",
	.match_min_abi_version = OHCA_UVERBS_ABI_VERSION,
	.match_max_abi_version = OHCA_UVERBS_ABI_VERSION,
	.match_table = ohca_match_table,
	.alloc_device = ohca_device_alloc,
	.uninit_device = ohca_device_free,
	.alloc_context = ohca_alloc_context,
	.import_context = ohca_import_context,
};

PROVIDER_DRIVER(ohca, ohca_dev_ops);
