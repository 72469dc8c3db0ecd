// SPDX-License-Identifier: GPL-2.0-or-later
/* See fake.h. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

/* Arguments that versions of rdma-core added, with their commas; the provider passes NULL. */
#if OHCA_RDMA_CORE >= 54
#define MR_ATTRS , struct ibv_command_buffer *mr_attrs
#else
#define MR_ATTRS
#endif
#if OHCA_RDMA_CORE >= 57
#define FD_ARR struct ibv_fd_arr *fd_arr,
#else
#define FD_ARR
#endif
#if OHCA_RDMA_CORE >= 59
#define CQ_MEMORY struct verbs_create_cq_prov_attr *memory,
#else
#define CQ_MEMORY
#endif
#if OHCA_RDMA_CORE >= 64
#define QP_ATTRS , struct ibv_command_buffer *qp_attrs
#else
#define QP_ATTRS
#endif

struct fake_kernel fake;
struct verbs_context_ops ops;

static const struct verbs_device_ops *driver;
static struct ibv_device the_device = { .name = "ohca_0" };
static int uar_fd = -1;
static uint64_t *uar;

static int fake_fail(void)
{
	if (fake.skip) {
		fake.skip--;
		return 0;
	}
	return atomic_exchange(&fake.fail, 0);
}

/* what a provider calls to register itself */

void verbs_register_driver(const struct verbs_device_ops *dev_ops)
{
	driver = dev_ops;
}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd,
				    size_t alloc_size,
				    struct verbs_context *context_offset,
				    uint32_t driver_id)
{
	uint8_t *drv = calloc(1, alloc_size);
	struct verbs_context *vctx = (void *)(drv + (uintptr_t)context_offset);

	if (driver_id != RDMA_DRIVER_UNKNOWN)
		abort();
	vctx->context.device = device;
	vctx->context.cmd_fd = cmd_fd;
	fake.opens++;
	return drv;
}

void verbs_uninit_context(struct verbs_context *vctx)
{
	fake.opens--;
}

void verbs_set_ops(struct verbs_context *vctx, const struct verbs_context_ops *o)
{
	ops = *o;
}

void __verbs_log(struct verbs_context *vctx, uint32_t level, const char *fmt, ...)
{
	fake.logs++;
}

int ibv_dontfork_range(void *base, size_t size)
{
	int err = fake_fail();

	if (!err)
		fake.bufs++;
	return err;
}

int ibv_dofork_range(void *base, size_t size)
{
	fake.bufs--;
	return 0;
}

/* commands */

static void fake_context(struct ohca_alloc_ucontext_resp *resp)
{
	resp->hw_version = fake.hw_version;
	resp->features = fake.features;
	resp->uar_mmap_key = 0;
	resp->uar_mmap_size = FAKE_PAGE;
	resp->max_inline = fake.max_inline;
	resp->log_max_sq_bbs = 17;
	resp->log_max_rq_wqes = 14;
	resp->log_max_srq_wqes = 14;
	resp->log_max_cqe = 20;
	resp->max_sge = fake.max_sge;
}

int ibv_cmd_get_context(struct verbs_context *vctx, struct ibv_get_context *cmd,
			size_t cmd_size, FD_ARR struct ib_uverbs_get_context_resp *r,
			size_t resp_size)
{
	struct uohca_alloc_context *c = (void *)cmd;
	struct uohca_alloc_context_resp *resp = (void *)r;

	fake.context_req = c->drv_payload;
	fake_context(&resp->drv_payload);
	return fake_fail();
}

int ibv_cmd_query_device_any(struct ibv_context *context,
			     const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp,
			     size_t *resp_size)
{
	memset(attr, 0, attr_size);
	memset(resp, 0, *resp_size);
	attr->orig_attr.phys_port_cnt = fake.ports;
	resp->base.fw_ver = 1ull << 32 | 2 << 16 | 3;
	return fake_fail();
}

int ibv_cmd_query_port(struct ibv_context *context, uint8_t port,
		       struct ibv_port_attr *attr, struct ibv_query_port *cmd,
		       size_t cmd_size)
{
	memset(attr, 0, sizeof(*attr));
	attr->gid_tbl_len = 8;
	return fake_fail();
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd,
		     struct ibv_alloc_pd *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	struct uohca_alloc_pd_resp *r = (void *)resp;

	pd->context = context;
	pd->handle = fake.next_handle++;
	r->pdn = FAKE_PDN(pd->handle);
	return fake_fail();
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	return fake_fail();
}

int ibv_cmd_create_cq_ex(struct ibv_context *context,
			 const struct ibv_cq_init_attr_ex *attr,
			 CQ_MEMORY struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
			 size_t cmd_size, struct ib_uverbs_ex_create_cq_resp *r,
			 size_t resp_size, uint32_t cmd_flags)
{
	struct uohca_create_cq_ex *c = (void *)cmd;
	struct uohca_create_cq_ex_resp *resp = (void *)r;

	if (attr->wc_flags & ~(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) ||
	    attr->comp_mask)
		return EOPNOTSUPP;
	fake.cmd_wc_flags = attr->wc_flags;
	fake.cq_req = c->drv_payload;
	fake.cmd_cqe = attr->cqe;
	fake.cmd_vector = attr->comp_vector;
	cq->cq.context = context;
	cq->cq.cqe = attr->cqe;
	resp->cqn = fake.next_handle++;
	return fake_fail();
}

int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd,
		      size_t cmd_size, struct ib_uverbs_resize_cq_resp *resp,
		      size_t resp_size)
{
	struct uohca_resize_cq *c = (void *)cmd;
	int err = fake_fail();

	fake.resize_req = c->drv_payload;
	fake.cmd_cqe = cqe;
	if (!err && fake.on_resize)
		fake.on_resize(&fake.resize_req);
	return err;
}

int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr,
		      struct ibv_modify_cq *cmd, size_t cmd_size)
{
	return fake_fail();
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	return fake_fail();
}

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr,
			  struct ibv_create_xsrq *cmd, size_t cmd_size,
			  struct ib_uverbs_create_srq_resp *r, size_t resp_size)
{
	struct uohca_create_srq_ex *c = (void *)cmd;
	struct uohca_create_srq_ex_resp *resp = (void *)r;

	fake.srq_req = c->drv_payload;
	fake.srq_attrs = attr->comp_mask;
	srq->srq.context = context;
	srq->srq_type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type :
								   IBV_SRQT_BASIC;
	resp->drv_payload.srqn = fake.next_handle++;
	return fake_fail();
}

int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd,
		      int vxrcd_size, struct ibv_xrcd_init_attr *attr,
		      struct ibv_open_xrcd *cmd, size_t cmd_size,
		      struct ib_uverbs_open_xrcd_resp *resp, size_t resp_size)
{
	xrcd->xrcd.context = context;
	return fake_fail();
}

int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd)
{
	return fake_fail();
}

int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *qp, int vqp_sz,
		    struct ibv_qp_open_attr *attr, struct ibv_open_qp *cmd,
		    size_t cmd_size, struct ib_uverbs_create_qp_resp *resp,
		    size_t resp_size)
{
	qp->qp.context = context;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.qp_num = attr->qp_num;
	return fake_fail();
}

int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask,
		       struct ibv_modify_srq *cmd, size_t cmd_size)
{
	struct uohca_modify_srq *c = (void *)cmd;
	int err = fake_fail();

	fake.srq_mask = mask;
	if (!(mask & IBV_SRQ_MAX_WR))
		return cmd_size == sizeof(*cmd) ? err : EOPNOTSUPP;
	fake.modify_srq_req = c->drv_payload;
	if (!err && fake.on_modify_srq)
		err = fake.on_modify_srq(&fake.modify_srq_req);
	return err;
}

int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
		      struct ibv_query_srq *cmd, size_t cmd_size)
{
	memset(attr, 0, sizeof(*attr));
	return fake_fail();
}

int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	if (fake.on_destroy)
		fake.on_destroy();
	return fake_fail();
}

int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp,
			  struct ibv_qp_init_attr_ex *attr,
			  struct ibv_create_qp_ex *cmd, size_t cmd_size,
			  struct ib_uverbs_ex_create_qp_resp *r, size_t resp_size QP_ATTRS)
{
	struct uohca_create_qp_ex *c = (void *)cmd;
	struct uohca_create_qp_ex_resp *resp = (void *)r;

	fake.qp_req = c->drv_payload;
	qp->qp.context = context;
	qp->qp.pd = attr->pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.srq = attr->srq;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.qp_num = fake.next_handle;
	qp->comp_mask = 0;
	resp->drv_payload.handle = fake.next_handle++;
	return fake_fail();
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_modify_qp *cmd, size_t cmd_size)
{
	return fake_fail();
}

int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			 struct ibv_modify_qp_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_modify_qp_resp *resp, size_t resp_size)
{
	struct uohca_modify_qp_ex *c = (void *)cmd;
	int err = fake_fail();

	if (mask != IBV_QP_CAP || cmd_size != sizeof(*c))
		abort();
	fake.modify_qp_req = c->drv_payload;
	if (!err && fake.on_modify_qp)
		err = fake.on_modify_qp(&fake.modify_qp_req);
	return err;
}

int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		     struct ibv_qp_init_attr *init_attr, struct ibv_query_qp *cmd,
		     size_t cmd_size)
{
	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	return fake_fail();
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	if (fake.on_destroy)
		fake.on_destroy();
	return fake_fail();
}

int ibv_cmd_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return fake_fail();
}

int ibv_cmd_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return fake_fail();
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va,
		   int access, struct verbs_mr *vmr, struct ibv_reg_mr *cmd,
		   size_t cmd_size, struct ib_uverbs_reg_mr_resp *resp,
		   size_t resp_size)
{
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.lkey = fake.next_handle++ << 8;
	vmr->ibv_mr.rkey = vmr->ibv_mr.lkey;
	return fake_fail();
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
			  uint64_t iova, int fd, int access, struct verbs_mr *vmr MR_ATTRS)
{
	return fake_fail();
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr,
		     size_t length, uint64_t hca_va, int access,
		     struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t cmd_sz,
		     struct ib_uverbs_rereg_mr_resp *resp, size_t resp_sz)
{
	return fake_fail();
}

int ibv_cmd_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		      uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sges)
{
	return fake_fail();
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	return fake_fail();
}

int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw,
		     struct ibv_alloc_mw *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_mw_resp *resp, size_t resp_size)
{
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = fake.next_handle++ << 8;
	return fake_fail();
}

int ibv_cmd_dealloc_mw(struct ibv_mw *mw)
{
	return fake_fail();
}

/*
 * Returns the buffer for the answer of attribute @id, which fill_attr_out_ptr() must have added
 * last.
 */
static void *attr_out(struct ibv_command_buffer *cmd, uint16_t id)
{
	if (cmd->next_attr[-1].attr_id != id)
		abort();
	return (void *)(uintptr_t)cmd->next_attr[-1].data;
}

static void fake_dm(struct ohca_dm_resp *resp)
{
	resp->mmap_key = FAKE_PAGE;
	resp->mmap_size = FAKE_DM_SIZE;
	resp->length = fake.dm_length;
}

int ibv_cmd_alloc_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr,
		     struct verbs_dm *dm, struct ibv_command_buffer *link)
{
	int err = fake_fail();

	if (err)
		return err;
	dm->dm.context = context;
	fake_dm(attr_out(link, OHCA_ATTR_ALLOC_DM_RESP));
	fake.dms++;
	return 0;
}

int ibv_cmd_free_dm(struct verbs_dm *dm)
{
	int err = fake_fail();

	if (!err)
		fake.dms--;
	return err;
}

int ibv_cmd_reg_dm_mr(struct ibv_pd *pd, struct verbs_dm *dm, uint64_t offset,
		      size_t length, unsigned int access, struct verbs_mr *vmr,
		      struct ibv_command_buffer *link)
{
	return fake_fail();
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	errno = fake_fail();
	vmr->ibv_mr.handle = handle;
	return errno ? -1 : 0;
}

int ibv_cmd_query_context(struct ibv_context *context, struct ibv_command_buffer *driver_buf)
{
	fake_context(attr_out(driver_buf, OHCA_ATTR_QUERY_CONTEXT_RESP));
	return fake_fail();
}

/*
 * The provider's own methods, both for an object of another process. The first attribute is the
 * handle.
 */
int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *cmd)
{
	const struct ib_uverbs_attr *handle = &cmd->hdr.attrs[0];
	struct ohca_alloc_pd_resp *pd;

	errno = fake_fail();
	if (errno)
		return -1;
	if (cmd->hdr.object_id == UVERBS_OBJECT_DM && cmd->hdr.method_id == OHCA_METHOD_DM_QUERY &&
	    handle->attr_id == OHCA_ATTR_QUERY_DM_HANDLE) {
		fake_dm(attr_out(cmd, OHCA_ATTR_QUERY_DM_RESP));
	} else if (cmd->hdr.object_id == UVERBS_OBJECT_PD &&
		   cmd->hdr.method_id == OHCA_METHOD_PD_QUERY &&
		   handle->attr_id == OHCA_ATTR_QUERY_PD_HANDLE) {
		pd = attr_out(cmd, OHCA_ATTR_QUERY_PD_RESP);
		pd->pdn = FAKE_PDN(handle->data);
	} else {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return 0;
}

/* what tests call */

/** fake_open - opens the device; unset fields of struct fake_kernel get their defaults */
struct ibv_context *fake_open(void)
{
	struct verbs_context *vctx;

	if (!fake.hw_version) {
		fake.hw_version = OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, OHCA_MAJOR);
		fake.features = ~0ull;
		fake.max_inline = OHCA_MAX_INLINE;
		fake.max_sge = OHCA_MAX_SGE;
		fake.ports = 1;
	}
	if (fake.next_handle < 16)
		fake.next_handle = 16;
	if (uar_fd < 0) {
		uar_fd = memfd_create("uar", 0);
		if (uar_fd < 0 || ftruncate(uar_fd, FAKE_PAGE + FAKE_DM_SIZE))
			abort();
		uar = mmap(NULL, FAKE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, uar_fd, 0);
		if (uar == MAP_FAILED)
			abort();
	}
	memset(uar, 0xff, FAKE_PAGE);
	vctx = driver->alloc_context(&the_device, uar_fd, NULL);
	return vctx ? &vctx->context : NULL;
}

/** fake_import - imports the same context, as another process does */
struct ibv_context *fake_import(void)
{
	struct verbs_context *vctx = driver->import_context(&the_device, uar_fd);

	return vctx ? &vctx->context : NULL;
}

/** fake_close - closes the context */
void fake_close(struct ibv_context *ibctx)
{
	ops.free_context(ibctx);
}

void fake_clock(uint64_t ns)
{
	uar[OHCA_UAR_CLOCK / 8] = htole64(ns);
}

/** fake_doorbell - value last written at @offset, FAKE_NO_DOORBELL if none since the last call */
uint64_t fake_doorbell(struct ibv_context *ibctx, unsigned int offset)
{
	uint64_t v = le64toh(uar[offset / 8]);

	uar[offset / 8] = FAKE_NO_DOORBELL;
	return v;
}

/** fake_cqe - the CQE for the device's free running producer index @pi */
struct ohca_hw_cqe *fake_cqe(struct ohca_cq *cq, uint32_t pi)
{
	return (struct ohca_hw_cqe *)((uint8_t *)cq->buf.addr + OHCA_CQ_RING_OFFSET) +
	       (pi & ((1u << cq->log_size) - 1));
}

/**
 * fake_complete_as - writes @cqe at producer index @pi as the device does, with the right owner bit
 */
void fake_complete_as(struct ohca_cq *cq, uint32_t pi, const struct ohca_hw_cqe *cqe)
{
	struct ohca_hw_cqe *to = fake_cqe(cq, pi);
	uint8_t owner = !(pi >> cq->log_size & 1);

	memcpy(to, cqe, offsetof(struct ohca_hw_cqe, owner));
	__atomic_store_n(&to->owner, owner, __ATOMIC_RELEASE);
}

static void complete(struct ohca_cq *cq, uint32_t pi, uint64_t wr_id, uint32_t qpn,
		     uint32_t idx, uint8_t flags)
{
	const struct ohca_hw_cqe cqe = {
		.wr_id = htole64(wr_id), .qp_num = htole32(qpn), .byte_len = htole32(pi),
		.timestamp = htole64(1000ull + pi), .wqe_idx = htole32(idx), .flags = flags,
	};

	fake_complete_as(cq, pi, &cqe);
}

/** fake_complete - writes a good CQE at producer index @pi */
void fake_complete(struct ohca_cq *cq, uint32_t pi, uint64_t wr_id, uint32_t qpn)
{
	complete(cq, pi, wr_id, qpn, 0, 0);
}

/** fake_complete_xrc - the same for an XRC SRQ; @qpn is the number of the target */
void fake_complete_xrc(struct ohca_cq *cq, uint32_t pi, uint64_t wr_id, uint32_t srqn,
		       uint32_t qpn)
{
	complete(cq, pi, wr_id, qpn, srqn, OHCA_CQE_SRQ | OHCA_CQE_XRC);
}
