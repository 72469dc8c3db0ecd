// SPDX-License-Identifier: GPL-2.0-or-later
/* Objects: handshake, sizes and limits, domains, and failures that leave nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake.h"

static struct ibv_context *ctx;

static int setup(void **state)
{
	memset(&fake, 0, sizeof(fake));
	ctx = fake_open();
	return !ctx;
}

static int teardown(void **state)
{
	fake_close(ctx);
	return fake.bufs || fake.opens;
}

static void handshake(void **state)
{
	struct ohca_context *octx = to_octx(ctx);

	assert_int_equal(fake.context_req.hw_major, OHCA_MAJOR);
	assert_int_equal(octx->num_ports, 1);
	assert_int_equal(fake.opens, 1);

	/* after each failure nothing is open and errno has the reason */
	fake.fail = EPROTO;
	assert_null(fake_open());
	assert_int_equal(errno, EPROTO);
	fake.hw_version = OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, OHCA_MAJOR + 1);
	assert_null(fake_open());
	assert_int_equal(errno, EPROTO);
	fake.hw_version = OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, OHCA_MAJOR);
	fake.max_inline = OHCA_MAX_INLINE + 1;
	assert_null(fake_open());
	fake.max_inline = OHCA_MAX_INLINE;
	fake.max_sge = OHCA_MAX_SGE + 1;
	assert_null(fake_open());
	fake.max_sge = 0;
	assert_null(fake_open());
	fake.max_sge = OHCA_MAX_SGE;
	fake.ports = OHCA_MAX_PORTS + 1;
	assert_null(fake_open());
	assert_int_equal(fake.opens, 1);
	fake.ports = 1;
}

static void device_version(void **state)
{
	struct ibv_device_attr_ex attr;

	assert_int_equal(ops.query_device_ex(ctx, NULL, &attr, sizeof(attr)), 0);
	assert_string_equal(attr.orig_attr.fw_ver, "1.2.3");
}

/* The clock is in the doorbell page. */
static void device_clock(void **state)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	fake_clock(0x123456789abcdefull);
	assert_int_equal(ops.query_rt_values(ctx, &v), 0);
	assert_int_equal(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_int_equal(v.raw_clock.tv_sec, 0);
	assert_int_equal(v.raw_clock.tv_nsec, 0x123456789abcdefull);
	v.comp_mask |= 2;
	assert_int_equal(ops.query_rt_values(ctx, &v), EINVAL);
	v.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	to_octx(ctx)->features &= ~(1ull << OHCA_FEATURE_CLOCK);
	assert_int_equal(ops.query_rt_values(ctx, &v), EOPNOTSUPP);
}

/* The library checks what the kernel reports about device memory, and every access to it. */
static void device_memory(void **state)
{
	static const struct {
		uint64_t offset;
		size_t len;
		int err;
	} access[] = {
		{ 0, 6000, 0 }, { 5996, 4, 0 }, { 6000, 0, 0 }, { 0, 6004, EFAULT },
		{ 5996, 8, EFAULT }, { 6004, 0, EFAULT }, { UINT64_MAX - 3, 8, EFAULT },
		{ 4, SIZE_MAX - 3, EFAULT }, { 2, 4, EINVAL }, { 4, 6, EINVAL },
	};
	static const uint64_t bad[] = { 0, FAKE_DM_SIZE + 1, UINT64_MAX };
	struct ibv_alloc_dm_attr attr = { .length = 6000 };
	uint8_t in[8192], out[8192];
	struct ibv_dm *dm, *twin;

	fake.dm_length = 6000;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = i * 7;
	dm = ops.alloc_dm(ctx, &attr);
	assert_non_null(dm);
	for (size_t i = 0; i < sizeof(access) / sizeof(access[0]); i++) {
		assert_int_equal(dm->memcpy_to_dm(dm, access[i].offset, in, access[i].len),
				 access[i].err);
		assert_int_equal(dm->memcpy_from_dm(out, dm, access[i].offset, access[i].len),
				 access[i].err);
	}
	/* host memory has no alignment */
	assert_int_equal(dm->memcpy_to_dm(dm, 0, in + 1, 6000), 0);
	twin = ops.import_dm(ctx, 17);
	assert_non_null(twin);
	assert_int_equal(twin->handle, 17);
	assert_int_equal(twin->memcpy_from_dm(out + 3, twin, 0, 6000), 0);
	assert_memory_equal(in + 1, out + 3, 6000);
	ops.unimport_dm(twin);
	fake.fail = EBUSY;
	assert_int_equal(ops.free_dm(dm), EBUSY);
	assert_int_equal(ops.free_dm(dm), 0);

	attr.comp_mask = 1;
	assert_null(ops.alloc_dm(ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fake.dm_length = bad[i];
		assert_null(ops.alloc_dm(ctx, &attr));
		assert_int_equal(errno, EPROTO);
		assert_null(ops.import_dm(ctx, 17));
		assert_int_equal(errno, EPROTO);
	}
	fake.fail = ENOMEM;
	assert_null(ops.alloc_dm(ctx, &attr));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(fake.dms, 0);
	to_octx(ctx)->features &= ~(1ull << OHCA_FEATURE_DM);
	assert_null(ops.alloc_dm(ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ops.import_dm(ctx, 17));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* A context of another process, and imported objects. */
static void import(void **state)
{
	struct ibv_context *other = fake_import();
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	assert_non_null(other);
	assert_int_equal(fake.opens, 2);
	pd = ops.import_pd(other, 20);
	assert_non_null(pd);
	assert_int_equal(pd->handle, 20);
	assert_ptr_equal(pd->context, other);
	mr = ops.import_mr(pd, 21);
	assert_non_null(mr);
	assert_int_equal(mr->handle, 21);
	fake.fail = ENOENT;
	assert_null(ops.import_mr(pd, 22));
	assert_int_equal(errno, ENOENT);
	fake.fail = ENOENT;
	assert_null(ops.import_pd(other, 22));
	assert_int_equal(errno, ENOENT);
	ops.unimport_mr(mr);
	ops.unimport_pd(pd);
	fake_close(other);
	fake.fail = EPROTO;
	assert_null(fake_import());
	assert_int_equal(errno, EPROTO);
	fake.hw_version = OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, OHCA_MAJOR + 1);
	assert_null(fake_import());
	fake.hw_version = OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, OHCA_MAJOR);
	assert_int_equal(fake.opens, 1);
}

static void cq_sizes(void **state)
{
	static const int bad[] = { 0, -1, (1 << 20) + 1, INT32_MAX };
	struct ibv_cq_init_attr_ex attr = { .cqe = 10 };
	struct ibv_cq *cq;
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_null(ops.create_cq(ctx, bad[i], NULL, 0));
		assert_int_equal(errno, EINVAL);
	}
	for (i = 1; i <= 1u << 20; i = i * 3 + 1) {
		cq = ops.create_cq(ctx, i, NULL, 3);
		assert_non_null(cq);
		assert_true(cq->cqe >= i && cq->cqe < 2 * i);
		assert_int_equal(1 << fake.cq_req.log_size, cq->cqe);
		assert_true(fake.cq_req.buf_size >= ohca_cq_buf_size(fake.cq_req.log_size));
		assert_int_equal(fake.cq_req.buf_addr % 4096, 0);
		assert_int_equal(fake.cmd_cqe, i);
		assert_int_equal(fake.cmd_vector, 3);
		assert_int_equal(ops.destroy_cq(cq), 0);
	}
	cq = ops.create_cq(ctx, 1 << 20, NULL, 0);
	assert_non_null(cq);
	assert_int_equal(ops.destroy_cq(cq), 0);

	/* unsupported fields are refused */
	for (i = 0; i < 12; i++) {
		struct ibv_cq_ex *ex;

		attr.wc_flags = 1 << i;
		errno = 0;
		ex = ops.create_cq_ex(ctx, &attr);
		assert_true(!ex == (attr.wc_flags == IBV_WC_EX_WITH_CVLAN ||
				    attr.wc_flags == IBV_WC_EX_WITH_FLOW_TAG));
		if (ex)
			assert_int_equal(ops.destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
		else
			assert_int_equal(errno, EOPNOTSUPP);
	}
	attr.wc_flags = 0;
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	assert_null(ops.create_cq_ex(ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);

	fake.fail = ENOSPC;	/* first in ibv_dontfork_range() */
	assert_null(ops.create_cq(ctx, 5, NULL, 0));
	assert_int_equal(errno, ENOMEM);
}

static void locks(void **state)
{
	struct ibv_td_init_attr tattr = {};
	struct ibv_parent_domain_init_attr pattr = {};
	struct ibv_cq_init_attr_ex attr = { .cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS };
	struct ibv_qp_init_attr qattr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_pd *pd = ops.alloc_pd(ctx), *parent;
	struct ibv_td *td;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	cq = ibv_cq_ex_to_cq(ops.create_cq_ex(ctx, &attr));
	assert_true(to_ocq(cq)->lock.needed);
	ops.destroy_cq(cq);
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq = ibv_cq_ex_to_cq(ops.create_cq_ex(ctx, &attr));
	assert_false(to_ocq(cq)->lock.needed);
	ops.destroy_cq(cq);

	td = ops.alloc_td(ctx, &tattr);
	assert_non_null(td);
	pattr.pd = pd;
	pattr.td = td;
	parent = ops.alloc_parent_domain(ctx, &pattr);
	assert_non_null(parent);
	assert_int_equal(parent->handle, pd->handle);
	assert_int_equal(ops.dealloc_td(td), EBUSY);
	assert_int_equal(ops.dealloc_pd(pd), EBUSY);

	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	attr.parent_domain = pd;
	assert_null(ops.create_cq_ex(ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.parent_domain = parent;
	cq = ibv_cq_ex_to_cq(ops.create_cq_ex(ctx, &attr));
	assert_false(to_ocq(cq)->lock.needed);
	qattr.send_cq = cq;
	qattr.recv_cq = cq;
	qp = ops.create_qp(pd, &qattr);
	assert_true(to_oqp(qp)->sq.lock.needed && to_oqp(qp)->rq.lock.needed);
	ops.destroy_qp(qp);
	qp = ops.create_qp(parent, &qattr);
	assert_false(to_oqp(qp)->sq.lock.needed || to_oqp(qp)->rq.lock.needed);
	assert_int_equal(ops.dealloc_pd(parent), EBUSY);
	ops.destroy_qp(qp);
	assert_int_equal(ops.dealloc_pd(parent), EBUSY);
	ops.destroy_cq(cq);
	assert_int_equal(ops.dealloc_pd(parent), 0);
	assert_int_equal(ops.dealloc_td(td), 0);
	assert_int_equal(ops.dealloc_pd(pd), 0);
}

struct arena {
	int allocs;
	int frees;
	uint64_t types;
	void *answer;	/* returned instead of memory, if set */
	int refuse;
};

static void *arena_alloc(struct ibv_pd *pd, void *context, size_t size,
			 size_t alignment, uint64_t type)
{
	struct arena *a = context;
	void *p;

	if (a->refuse)
		return NULL;
	if (a->answer)
		return a->answer;
	a->allocs++;
	a->types |= 1 << type;
	if (posix_memalign(&p, alignment, size))
		return NULL;
	memset(p, 0xee, size);
	return p;
}

static void arena_free(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	struct arena *a = context;

	a->frees++;
	free(p);
}

static void allocators(void **state)
{
	struct arena a = {};
	struct ibv_parent_domain_init_attr pattr = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = arena_alloc,
		.free = arena_free,
		.pd_context = &a,
	};
	struct ibv_cq_init_attr_ex cattr = { .cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_srq_init_attr sattr = { .attr = { 5, 1, 0 } };
	struct ibv_qp_init_attr qattr = { .qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_pd *pd = ops.alloc_pd(ctx), *parent;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	pattr.pd = pd;
	parent = ops.alloc_parent_domain(ctx, &pattr);
	cattr.parent_domain = parent;
	cq = ibv_cq_ex_to_cq(ops.create_cq_ex(ctx, &cattr));
	/* memory of an allocator is zeroed, so it has no CQEs to poll */
	assert_int_equal(ops.poll_cq(cq, 1, &wc), 0);
	srq = ops.create_srq(parent, &sattr);
	qattr.send_cq = cq;
	qattr.recv_cq = cq;
	qp = ops.create_qp(parent, &qattr);
	assert_int_equal(a.types, 1 << OHCA_RES_QP | 1 << OHCA_RES_CQ | 1 << OHCA_RES_SRQ);
	assert_int_equal(to_oqp(qp)->db->sq_event, 0);
	assert_int_equal(fake.bufs, 0);
	ops.destroy_qp(qp);
	ops.destroy_srq(srq);
	assert_int_equal(a.frees, 2);

	a.answer = IBV_ALLOCATOR_USE_DEFAULT;
	qp = ops.create_qp(parent, &qattr);
	assert_int_equal(fake.bufs, 1);
	ops.destroy_qp(qp);
	assert_int_equal(fake.bufs, 0);
	assert_int_equal(a.frees, 2);

	a.refuse = 1;
	assert_null(ops.create_qp(parent, &qattr));
	assert_int_equal(errno, ENOMEM);
	assert_null(ops.create_srq(parent, &sattr));
	assert_int_equal(errno, ENOMEM);
	ops.destroy_cq(cq);
	assert_int_equal(a.allocs, a.frees);
	assert_int_equal(ops.dealloc_pd(parent), 0);
	assert_int_equal(ops.dealloc_pd(pd), 0);
}

/* As many WQEs as the limits report can be posted, whatever was asked for. */
static void qp_caps(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	struct ibv_cq *cq = ops.create_cq(ctx, 10, NULL, 0);
	uint8_t data[OHCA_MAX_INLINE] = { 0 };
	struct ibv_ah_attr ah_attr = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah = ops.create_ah(pd, &ah_attr);
	uint32_t t, wr, sge, inl;

	for (t = 0; t < 3; t++)
	for (wr = 0; wr <= 300; wr = wr * 3 + 1)
	for (sge = 0; sge <= OHCA_MAX_SGE; sge += 6)
	for (inl = 0; inl <= OHCA_MAX_INLINE; inl = inl * 4 + 2) {
		struct ibv_qp_init_attr a = {
			.qp_type = types[t], .send_cq = cq, .recv_cq = cq,
			.cap = { wr, wr / 2, sge, sge, inl },
		};
		struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS }, q;
		struct ibv_sge list[OHCA_MAX_SGE] = { { 0 } };
		struct ibv_send_wr swr = {
			.sg_list = list, .opcode = IBV_WR_SEND,
			.wr.ud = { .ah = ah },
		}, *bad;
		struct ibv_recv_wr rwr = { .sg_list = list }, *rbad;
		struct ibv_qp_init_attr init;
		struct ibv_qp *qp = ops.create_qp(pd, &a);
		uint32_t i;

		assert_non_null(qp);
		assert_true(a.cap.max_send_wr >= wr && a.cap.max_recv_wr >= wr / 2);
		assert_true(a.cap.max_send_sge >= sge && a.cap.max_recv_sge >= sge);
		assert_true(a.cap.max_inline_data >= inl);
		assert_true(a.cap.max_send_sge <= OHCA_MAX_SGE);
		assert_true(a.cap.max_recv_sge <= OHCA_MAX_SGE);
		assert_true(a.cap.max_inline_data <= OHCA_MAX_INLINE);
		assert_int_equal(ops.query_qp(qp, &q, IBV_QP_CAP, &init), 0);
		assert_memory_equal(&q.cap, &a.cap, sizeof(a.cap));
		assert_memory_equal(&init.cap, &a.cap, sizeof(a.cap));
		assert_true(fake.qp_req.buf_size >=
			    ohca_qp_buf_size(1, fake.qp_req.log_rq, fake.qp_req.log_rq_stride,
					     fake.qp_req.log_sq));
		assert_int_equal(fake.qp_req.buf_addr % 4096, 0);
		assert_int_equal(to_oqp(qp)->handle, qp->qp_num);

		ops.modify_qp(qp, &rts, IBV_QP_STATE);
		/* the SQ does not extend past the end of the buffer */
		assert_true((uintptr_t)to_oqp(qp)->sq.end <=
			    fake.qp_req.buf_addr + fake.qp_req.buf_size);
		for (i = 0; i < a.cap.max_send_wr; i++) {
			if (i & 1) {
				swr.num_sge = a.cap.max_send_sge;
				swr.send_flags = 0;
				list[0].length = 0;
			} else {
				swr.num_sge = 1;
				swr.send_flags = IBV_SEND_INLINE;
				list[0].addr = (uintptr_t)data;
				list[0].length = a.cap.max_inline_data;
			}
			assert_int_equal(ops.post_send(qp, &swr, &bad), 0);
		}
		rwr.num_sge = a.cap.max_recv_sge;
		for (i = 0; i < a.cap.max_recv_wr; i++)
			assert_int_equal(ops.post_recv(qp, &rwr, &rbad), 0);
		assert_int_equal(ops.post_recv(qp, &rwr, &rbad), ENOMEM);
		assert_int_equal(ops.destroy_qp(qp), 0);
	}
	ops.destroy_ah(ah);
	ops.destroy_cq(cq);
	ops.dealloc_pd(pd);
}

static void qp_refused(void **state)
{
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	struct ibv_cq *cq = ops.create_cq(ctx, 10, NULL, 0);
	static const struct {
		enum ibv_qp_type type;
		struct ibv_qp_cap cap;
		int err;
	} t[] = {
		{ IBV_QPT_RC, { UINT32_MAX, 1, 1, 1, 0 }, EINVAL },
		{ IBV_QPT_RC, { 1, UINT32_MAX, 1, 1, 0 }, EINVAL },
		{ IBV_QPT_RC, { 1, (1 << 14) + 1, 1, 1, 0 }, EINVAL },
		{ IBV_QPT_RC, { (1 << 14) + 1, 1, 1, 1, 0 }, EINVAL },
		{ IBV_QPT_RC, { 1 << 17, 1, 30, 1, 0 }, EINVAL },
		{ IBV_QPT_RC, { 1, 1, OHCA_MAX_SGE + 1, 1, 0 }, EINVAL },
		{ IBV_QPT_RC, { 1, 1, 1, OHCA_MAX_SGE + 1, 0 }, EINVAL },
		{ IBV_QPT_RC, { 1, 1, 1, 1, OHCA_MAX_INLINE + 1 }, EINVAL },
		{ IBV_QPT_RAW_PACKET, { 1, 1, 1, 1, 0 }, EOPNOTSUPP },
		{ IBV_QPT_DRIVER, { 1, 0, 1, 0, 0 }, EOPNOTSUPP },
	};
	struct ibv_qp_init_attr_ex ex = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .pd = pd,
		.cap = { 1, 1, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_TSO | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	unsigned int i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_qp_init_attr a = { .qp_type = t[i].type, .send_cq = cq,
					      .recv_cq = cq, .cap = t[i].cap };

		errno = 0;
		assert_null(ops.create_qp(pd, &a));
		assert_int_equal(errno, t[i].err);
		assert_memory_equal(&a.cap, &t[i].cap, sizeof(a.cap));
	}
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
	ex.qp_type = IBV_QPT_UD;
	ex.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);

	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ex.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
	ex.create_flags |= IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
	ex.create_flags = 0;
	ex.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
	ex.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS;
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EINVAL);
	ex.comp_mask |= IBV_QP_INIT_ATTR_PD;
	ex.send_cq = NULL;
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EINVAL);
	ex.send_cq = cq;
	ex.recv_cq = NULL;
	assert_null(ops.create_qp_ex(ctx, &ex));
	assert_int_equal(errno, EINVAL);
	ex.recv_cq = cq;
	assert_int_equal(fake.bufs, 1);
	/* flags count only if the mask includes them */
	for (i = 0; i < 2; i++) {
		struct ibv_qp *qp;

		ex.create_flags = i ? IBV_QP_CREATE_SCATTER_FCS :
				      IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
		if (i)
			ex.comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
		qp = ops.create_qp_ex(ctx, &ex);
		assert_non_null(qp);
		assert_int_equal(ops.destroy_qp(qp), 0);
	}
	assert_int_equal(fake.bufs, 1);
	ops.destroy_cq(cq);
	ops.dealloc_pd(pd);
}

/* Destroying or resetting a QP removes its completions from both CQs. */
static void qp_clean(void **state)
{
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	struct ibv_cq *scq = ops.create_cq(ctx, 8, NULL, 0);
	struct ibv_cq *rcq = ops.create_cq(ctx, 8, NULL, 0);
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .send_cq = scq, .recv_cq = rcq,
				      .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp *one = ops.create_qp(pd, &a), *two = ops.create_qp(pd, &a);
	struct ibv_wc wc[8];
	int i;

	for (i = 0; i < 4; i++) {
		fake_complete(to_ocq(scq), i, i, (i & 1 ? one : two)->qp_num);
		fake_complete(to_ocq(rcq), i, i, (i & 1 ? two : one)->qp_num);
	}
	assert_int_equal(ops.modify_qp(one, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ops.poll_cq(scq, 8, wc), 2);
	assert_int_equal(wc[0].wr_id, 0);
	assert_int_equal(wc[1].wr_id, 2);
	/* a command that fails changes nothing */
	fake.fail = EIO;
	assert_int_equal(ops.destroy_qp(two), EIO);
	assert_int_equal(ops.destroy_qp(two), 0);
	assert_int_equal(ops.poll_cq(rcq, 8, wc), 0);
	assert_int_equal(ops.destroy_qp(one), 0);
	ops.destroy_cq(rcq);
	ops.destroy_cq(scq);
	ops.dealloc_pd(pd);
}

/*
 * Destroying an XRC SRQ removes its completions and keeps those of others: of an SRQ with the same
 * CQ, and of QPs. The completions stay, too, if the target or a QP with the same number is
 * destroyed.
 */
static void srq_clean(void **state)
{
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	struct ibv_cq *cq = ops.create_cq(ctx, 16, NULL, 0);
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
				      .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_srq_init_attr_ex ex = {
		.attr = { .max_wr = 1, .max_sge = 1 }, .pd = pd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
	};
	struct ibv_srq *one = ops.create_srq_ex(ctx, &ex), *two = ops.create_srq_ex(ctx, &ex);
	struct ibv_qp *qp = ops.create_qp(pd, &a);
	uint32_t n1 = to_osrq(one)->rq.number, n2 = to_osrq(two)->rq.number;
	struct ibv_wc wc[8];

	/* numbers of QPs and of SRQs are independent */
	fake_complete_xrc(to_ocq(cq), 0, 10, n1, qp->qp_num);
	fake_complete_xrc(to_ocq(cq), 1, 20, n2, qp->qp_num);
	fake_complete(to_ocq(cq), 2, 30, n1);
	fake_complete_xrc(to_ocq(cq), 3, 11, n1, n2);
	fake_complete(to_ocq(cq), 4, 31, qp->qp_num);
	fake_complete_xrc(to_ocq(cq), 5, 21, n2, n1);
	fake.fail = EBUSY;
	assert_int_equal(ops.destroy_srq(one), EBUSY);
	assert_int_equal(ohca_cq_pending(to_ocq(cq)), 6);
	assert_int_equal(ops.destroy_srq(one), 0);
	assert_int_equal(ohca_cq_pending(to_ocq(cq)), 4);
	assert_int_equal(ops.destroy_qp(qp), 0);
	assert_int_equal(ops.poll_cq(cq, 8, wc), 3);
	assert_int_equal(wc[0].wr_id, 20);
	assert_int_equal(wc[1].wr_id, 30);
	assert_int_equal(wc[2].wr_id, 21);
	assert_int_equal(ops.destroy_srq(two), 0);
	ops.destroy_cq(cq);
	ops.dealloc_pd(pd);
}

static void ah_checks(void **state)
{
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	const struct ibv_ah_attr good = {
		.dlid = 7, .sl = 15, .src_path_bits = 127, .is_global = 1, .port_num = 1,
		.grh = { .sgid_index = 7, .flow_label = 0xfffff },
	};
	struct ibv_ah_attr a = good;
	struct ibv_ah *ah = ops.create_ah(pd, &a);

	assert_non_null(ah);
	ops.destroy_ah(ah);
#define BAD(field, value)                                                      \
	do {                                                                   \
		a = good;                                                      \
		a.field = value;                                               \
		errno = 0;                                                     \
		assert_null(ops.create_ah(pd, &a));                            \
		assert_int_equal(errno, EINVAL);                               \
	} while (0)
	BAD(port_num, 0);
	BAD(port_num, 2);
	BAD(sl, 16);
	BAD(src_path_bits, 128);
	BAD(grh.sgid_index, 8);
	BAD(grh.flow_label, 0x100000);
	/* without a GRH its fields are ignored */
	a = good;
	a.is_global = 0;
	a.grh.sgid_index = 200;
	ah = ops.create_ah(pd, &a);
	assert_non_null(ah);
	assert_int_equal(to_oah(ah)->av.flags, 0);
	ops.destroy_ah(ah);
	ops.dealloc_pd(pd);
}

/* ibv_dealloc_pd() of a PD in use returns EBUSY and sets errno to it. */
static void pd_is_busy(struct ibv_pd *pd)
{
	errno = 0;
	assert_int_equal(ops.dealloc_pd(pd), EBUSY);
	assert_int_equal(errno, EBUSY);
}

/* A PD of any kind stays while it has AHs. */
static void ah_keeps_pd(void **state)
{
	struct ibv_td_init_attr tattr = {};
	struct ibv_ah_attr a = { .dlid = 7, .port_num = 1 };
	struct ibv_pd *pd = ops.alloc_pd(ctx), *parent;
	struct ibv_parent_domain_init_attr pattr = { .pd = pd, .td = ops.alloc_td(ctx, &tattr) };
	struct ibv_ah *one = ops.create_ah(pd, &a), *two = ops.create_ah(pd, &a);

	pd_is_busy(pd);
	assert_int_equal(ops.destroy_ah(one), 0);
	pd_is_busy(pd);
	assert_int_equal(ops.destroy_ah(two), 0);
	/* an AH that could not be made does not count */
	a.sl = 16;
	assert_null(ops.create_ah(pd, &a));
	a.sl = 0;
	/* no port has DLID 0 */
	a.dlid = 0;
	one = ops.create_ah(pd, &a);
	assert_non_null(one);
	assert_int_equal(ops.destroy_ah(one), 0);
	a.dlid = 7;
	parent = ops.alloc_parent_domain(ctx, &pattr);
	assert_non_null(parent);
	one = ops.create_ah(parent, &a);
	pd_is_busy(parent);
	assert_int_equal(ops.destroy_ah(one), 0);
	assert_int_equal(ops.dealloc_pd(parent), 0);
	assert_int_equal(ops.dealloc_td(pattr.td), 0);
	assert_int_equal(ops.dealloc_pd(pd), 0);
}

static void srq_checks(void **state)
{
	static const struct ibv_srq_attr bad[] = {
		{ 0, 1, 0 }, { (1 << 14) + 1, 1, 0 }, { 1, OHCA_MAX_SGE + 1, 0 },
	};
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	struct ibv_srq_init_attr_ex ex = {
		.attr = { 100, 2, 0 }, .pd = pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_TM,
	};
	struct ibv_srq_attr q;
	struct ibv_srq *srq;
	uint32_t num;
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ibv_srq_init_attr a = { .attr = bad[i] };

		errno = 0;
		assert_null(ops.create_srq(pd, &a));
		assert_int_equal(errno, EINVAL);
	}
	assert_null(ops.create_srq_ex(ctx, &ex));
	assert_int_equal(errno, EINVAL);
	to_octx(ctx)->features &= ~(1ull << OHCA_FEATURE_TM);
	assert_null(ops.create_srq_ex(ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
	ex.srq_type = IBV_SRQT_TM + 1;
	assert_null(ops.create_srq_ex(ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
	ex.srq_type = IBV_SRQT_BASIC;
	srq = ops.create_srq_ex(ctx, &ex);
	assert_non_null(srq);
	assert_int_equal(ex.attr.max_wr, 128);
	assert_int_equal(ex.attr.max_sge, 3);
	assert_int_equal(ops.query_srq(srq, &q), 0);
	assert_int_equal(q.max_wr, 128);
	assert_int_equal(q.max_sge, 3);
	assert_int_equal(ops.get_srq_num(srq, &num), 0);
	assert_int_equal(num, to_osrq(srq)->rq.number);
	assert_true(fake.srq_req.buf_size >=
		    ohca_srq_buf_size(fake.srq_req.log_size, fake.srq_req.log_stride));
	ops.destroy_srq(srq);
	/* an XRC SRQ needs an XRC domain and a CQ */
	ex.srq_type = IBV_SRQT_XRC;
	assert_null(ops.create_srq_ex(ctx, &ex));
	assert_int_equal(errno, EINVAL);
	ex.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	ex.cq = ops.create_cq(ctx, 8, NULL, 0);
	srq = ops.create_srq_ex(ctx, &ex);
	assert_non_null(srq);
	assert_int_equal(ops.get_srq_num(srq, &num), 0);
	assert_int_equal(num, to_osrq(srq)->rq.number);
	ops.destroy_srq(srq);
	ops.destroy_cq(ex.cq);
	ops.dealloc_pd(pd);
}

/* XRC domains and targets: a target accepts no posts, and no memory of it is mapped. */
static void xrc(void **state)
{
	struct ibv_xrcd_init_attr xattr = { 0 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.cap = { 9, 9, 9, 9, 9 },
	};
	struct ibv_qp_open_attr open = { .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr rwr = { 0 }, *rbad;
	int bufs = fake.bufs;
	struct ibv_qp *qp, *same;

	fake.fail = EACCES;
	assert_null(ops.open_xrcd(ctx, &xattr));
	assert_int_equal(errno, EACCES);
	init.xrcd = ops.open_xrcd(ctx, &xattr);
	assert_non_null(init.xrcd);
	fake.fail = EPERM;
	assert_null(ops.create_qp_ex(ctx, &init));
	assert_int_equal(errno, EPERM);
	qp = ops.create_qp_ex(ctx, &init);
	assert_non_null(qp);
	assert_int_equal(init.cap.max_send_wr, 0);
	open.qp_num = qp->qp_num;
	fake.fail = ENOENT;
	assert_null(ops.open_qp(ctx, &open));
	assert_int_equal(errno, ENOENT);
	same = ops.open_qp(ctx, &open);
	assert_non_null(same);
	assert_int_equal(same->qp_num, qp->qp_num);
	assert_int_equal(fake.bufs, bufs);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp *q = i ? same : qp;

		attr.qp_state = IBV_QPS_RTS;
		assert_int_equal(ops.modify_qp(q, &attr, IBV_QP_STATE), 0);
		assert_int_equal(ops.post_send(q, &wr, &bad), EINVAL);
		assert_int_equal(ops.post_recv(q, &rwr, &rbad), EINVAL);
		attr.qp_state = IBV_QPS_RESET;
		assert_int_equal(ops.modify_qp(q, &attr, IBV_QP_STATE), 0);
		assert_int_equal(ops.destroy_qp(q), 0);
	}
	fake.fail = EBUSY;
	assert_int_equal(ops.close_xrcd(init.xrcd), EBUSY);
	assert_int_equal(ops.close_xrcd(init.xrcd), 0);
}

/* Features that the device lacks are refused. */
static void features(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_qp_init_attr_ex qp = {
		.qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH,
	};
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	struct ibv_cq *cq = ops.create_cq(ctx, 1, NULL, 0);
	struct ibv_cq_ex *timed;

	for (int i = 0; i < 3; i++) {
		/* the time of day needs the clock, too */
		to_octx(ctx)->features = i == 1 ? 1ull << OHCA_FEATURE_TIMESTAMP : 0;
		attr.wc_flags = i ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK :
				    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
		assert_null(ops.create_cq_ex(ctx, &attr));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	to_octx(ctx)->features = ~(1ull << OHCA_FEATURE_CLOCK);
	assert_null(ops.create_cq_ex(ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	to_octx(ctx)->features = 1ull << OHCA_FEATURE_TIMESTAMP | 1ull << OHCA_FEATURE_CLOCK;
	/* only a CQ of a program that asks for timestamps has them */
	for (int i = 0; i < 3; i++) {
		const uint64_t flags = i == 2 ? 0 : i ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP :
						    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

		attr.wc_flags = IBV_WC_STANDARD_FLAGS | flags;
		timed = ops.create_cq_ex(ctx, &attr);
		assert_non_null(timed);
		assert_int_equal(fake.cmd_wc_flags, flags);
		ops.destroy_cq(ibv_cq_ex_to_cq(timed));
	}
	to_octx(ctx)->features = 0;
	assert_int_equal(ops.resize_cq(cq, 5), EOPNOTSUPP);
	assert_null(ops.alloc_mw(pd, IBV_MW_TYPE_2));
	assert_int_equal(errno, EOPNOTSUPP);
	qp.send_cq = qp.recv_cq = cq;
	qp.pd = pd;
	assert_null(ops.create_qp_ex(ctx, &qp));
	assert_int_equal(errno, EOPNOTSUPP);
	ops.destroy_cq(cq);
	ops.dealloc_pd(pd);
}

/* A builder that libibverbs lacks is refused, whatever the device supports. */
static void lacked_builders(void **state)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH,
	};
	struct ibv_qp *qp;

	to_octx(ctx)->features = ~0ull;
	init.pd = ops.alloc_pd(ctx);
	init.send_cq = init.recv_cq = ops.create_cq(ctx, 1, NULL, 0);
	qp = ops.create_qp_ex(ctx, &init);
	if (qp)
		assert_int_equal(ops.destroy_qp(qp), 0);
	else
		assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(!!qp, OHCA_RDMA_CORE >= 45);
	ops.destroy_cq(init.send_cq);
	ops.dealloc_pd(init.pd);
}

/* Posts one request by each interface: both return the same error, or 0. */
static int post_both(struct ibv_qp *ibqp, struct ibv_ah *ah, enum ibv_wr_opcode op,
		     unsigned int flags)
{
	struct ibv_mw mw = { .rkey = 0x100 };
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_mw_bind_info info = {};
	struct ibv_send_wr wr = { .opcode = op, .send_flags = flags, .sg_list = &sge,
				  .num_sge = 1 }, *bad;
	struct ibv_qp_ex *ex = &to_oqp(ibqp)->vqp.qp_ex;
	uint64_t inl = 0;
	int err;

	if (ah)
		wr.wr.ud.ah = ah;
	if (op == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = &mw;
		wr.bind_mw.rkey = mw.rkey;
	}
	if (flags & IBV_SEND_INLINE)
		sge.addr = (uintptr_t)&inl;
	err = ops.post_send(ibqp, &wr, &bad);
	ex->wr_start(ex);
	ex->wr_flags = flags & ~IBV_SEND_INLINE;
	if (op == IBV_WR_BIND_MW && ex->wr_bind_mw) {
		ex->wr_bind_mw(ex, &mw, mw.rkey, &info);
	} else if (op == IBV_WR_LOCAL_INV && ex->wr_local_inv) {
		ex->wr_local_inv(ex, 1);
	} else if (op == IBV_WR_SEND_WITH_INV && ex->wr_send_inv) {
		ex->wr_send_inv(ex, 1);
	} else if (op == IBV_WR_SEND) {
		ex->wr_send(ex);
	} else {
		/* the QP has no builder for it */
		ex->wr_abort(ex);
		return err;
	}
	if (ah)
		ex->wr_set_ud_addr(ex, ah, 1, 1);
	if (op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_INV)
		ex->wr_set_sge(ex, 1, 0x1000, 8);
	assert_int_equal(ex->wr_complete(ex), err);
	return err;
}

/* A request that needs a feature that the device or the QP's type lacks is refused and not sent. */
static void posted_features(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		enum ibv_wr_opcode op;
		unsigned int flags;
		uint64_t builder;
		uint64_t feature;	/* bit that allows it; ~0: none does */
	} t[] = {
		{ IBV_QPT_RC, IBV_WR_BIND_MW, 0, IBV_QP_EX_WITH_BIND_MW, OHCA_FEATURE_MW },
		{ IBV_QPT_UC, IBV_WR_BIND_MW, 0, IBV_QP_EX_WITH_BIND_MW, OHCA_FEATURE_MW },
		{ IBV_QPT_RC, IBV_WR_LOCAL_INV, 0, IBV_QP_EX_WITH_LOCAL_INV, OHCA_FEATURE_FRMR },
		{ IBV_QPT_RC, IBV_WR_SEND_WITH_INV, 0, IBV_QP_EX_WITH_SEND_WITH_INV,
		  OHCA_FEATURE_FRMR },
		{ IBV_QPT_UD, IBV_WR_SEND, IBV_SEND_IP_CSUM, IBV_QP_EX_WITH_SEND,
		  OHCA_FEATURE_UD_CSUM },
		{ IBV_QPT_UD, IBV_WR_SEND, IBV_SEND_IP_CSUM | IBV_SEND_INLINE,
		  IBV_QP_EX_WITH_SEND, OHCA_FEATURE_UD_CSUM },
		{ IBV_QPT_RC, IBV_WR_SEND, IBV_SEND_IP_CSUM, IBV_QP_EX_WITH_SEND, ~0ull },
		{ IBV_QPT_RC, IBV_WR_SEND, IBV_SEND_IP_CSUM | IBV_SEND_INLINE,
		  IBV_QP_EX_WITH_SEND, ~0ull },
		{ IBV_QPT_UC, IBV_WR_SEND, IBV_SEND_IP_CSUM, IBV_QP_EX_WITH_SEND, ~0ull },
		{ IBV_QPT_RC, IBV_WR_BIND_MW, IBV_SEND_IP_CSUM, IBV_QP_EX_WITH_BIND_MW, ~0ull },
	};
	struct ibv_pd *pd = ops.alloc_pd(ctx);
	struct ibv_cq *cq = ops.create_cq(ctx, 1, NULL, 0);
	struct ibv_ah_attr ah_attr = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah = ops.create_ah(pd, &ah_attr);
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp;

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (unsigned int has = 0; has < 2; has++) {
			struct ibv_qp_init_attr_ex a = {
				.qp_type = t[i].type, .send_cq = cq, .recv_cq = cq, .pd = pd,
				.cap = { 8, 1, 1, 1, 8 },
				.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
				.send_ops_flags = t[i].builder,
			};

			to_octx(ctx)->features = ~0ull;
			if (!has && t[i].feature != ~0ull)
				to_octx(ctx)->features &= ~(1ull << t[i].feature);
			qp = ops.create_qp_ex(ctx, &a);
			if (!t[i].flags && !has) {
				/* the QP cannot have a builder for it either */
				assert_null(qp);
				assert_int_equal(errno, EOPNOTSUPP);
				a.send_ops_flags = IBV_QP_EX_WITH_SEND;
				qp = ops.create_qp_ex(ctx, &a);
			}
			assert_non_null(qp);
			ops.modify_qp(qp, &rts, IBV_QP_STATE);
			assert_int_equal(post_both(qp, t[i].type == IBV_QPT_UD ? ah : NULL,
						   t[i].op, t[i].flags),
					 has && t[i].feature != ~0ull ? 0 : EINVAL);
			ops.destroy_qp(qp);
		}
	}
	ops.destroy_ah(ah);
	ops.destroy_cq(cq);
	ops.dealloc_pd(pd);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(handshake), T(device_version), T(device_clock), T(device_memory),
		T(import), T(cq_sizes), T(locks),
		T(allocators),
		T(qp_caps), T(qp_refused), T(qp_clean), T(srq_clean), T(ah_checks), T(ah_keeps_pd),
		T(srq_checks), T(xrc),
		T(features), T(lacked_builders), T(posted_features),
	};

	return cmocka_run_group_tests_name("provider: objects", tests, NULL, NULL);
}
