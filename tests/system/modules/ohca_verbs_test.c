// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs as kernel consumers use them, over loopback: operations that processes cannot use and that
 * no module of Debian's kernel uses completely. Two RC QPs on one CQ, once for each poll context of
 * the core. If a check fails, loading fails, and the log contains the reason.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/mr_pool.h>

#include "compat.h"
#include "connect.h"

#define CHUNK		65536u			/* bytes of the source buffer */
#define CHUNK_PAGES	(CHUNK / PAGE_SIZE)
#define RECVS		8u
#define RESIZE_MSGS	500u
#define RESIZE_MOST	40u			/* receives outstanding */
#define RESIZE_WRITES	6u			/* WRITEs outstanding */
#define FREES		200u			/* CQs freed with a pending event */
#define POOL		16u
#define POOL_PAGES	512u
#define WAIT		(30 * HZ)

/* struct vt_op - one outstanding work request */
struct vt_op {
	struct ib_cqe cqe;
	struct completion done;
	struct ib_wc wc;
};

/*
 * struct vt - one round; @qp: requester and responder, both @connected; @pages: of @mr, in @sgt, as
 * @mapped pieces; @buf: bytes at @dma
 */
struct vt {
	struct ib_device *dev;
	enum ib_poll_context ctx;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2];
	bool connected;
	struct ib_mr *mr;
	struct sg_table sgt;
	u32 pages;
	int mapped;
	u8 *buf;
	u64 dma;
	struct vt_op send, recv[RECVS];
	u32 steps;
};

#define VT_FAIL(t, ret, fmt, ...)						\
	({									\
		pr_err("polling %d: " fmt "\n", (t)->ctx, ##__VA_ARGS__);	\
		(ret);								\
	})

static void vt_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct vt_op *op = container_of(wc->wr_cqe, struct vt_op, cqe);

	op->wc = *wc;
	complete(&op->done);
}

static void vt_begin(struct vt_op *op)
{
	op->cqe.done = vt_done;
	init_completion(&op->done);
}

/* The completion must have status @want. */
static int vt_wait(struct vt *t, struct vt_op *op, enum ib_wc_status want, const char *what)
{
	unsigned long end = jiffies + WAIT;

	if (t->ctx == IB_POLL_DIRECT) {
		while (!completion_done(&op->done) && time_before(jiffies, end)) {
			ib_process_cq_direct(t->cq, -1);
			cond_resched();
		}
	}
	if (!wait_for_completion_timeout(&op->done, t->ctx == IB_POLL_DIRECT ? 1 : WAIT))
		return VT_FAIL(t, -ETIMEDOUT, "%s: no completion", what);
	if (op->wc.status != want)
		return VT_FAIL(t, -EIO, "%s: %s", what, ib_wc_status_msg(op->wc.status));
	t->steps++;
	return 0;
}

static int vt_send(struct vt *t, struct ib_send_wr *wr, enum ib_wc_status want,
		   const char *what)
{
	int ret;

	vt_begin(&t->send);
	wr->wr_cqe = &t->send.cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	ret = ib_post_send(t->qp[0], wr, NULL);
	return ret ? VT_FAIL(t, ret, "%s: not posted, %d", what, ret) :
		     vt_wait(t, &t->send, want, what);
}

static int vt_recv(struct vt *t, struct vt_op *op)
{
	struct ib_recv_wr wr = { .wr_cqe = &op->cqe };

	vt_begin(op);
	return ib_post_recv(t->qp[1], &wr, NULL);
}

/* ---- connection ------------------------------------------------------------------------- */

static int vt_open(struct vt *t)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = { .max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	int i, ret;

	t->pd = ib_alloc_pd(t->dev, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(t->pd))
		return PTR_ERR(t->pd);
	t->cq = ib_alloc_cq(t->dev, NULL, 128, 0, t->ctx);
	if (IS_ERR(t->cq))
		return PTR_ERR(t->cq);
	init.send_cq = t->cq;
	init.recv_cq = t->cq;
	for (i = 0; i < 2; i++) {
		t->qp[i] = ib_create_qp(t->pd, &init);
		if (IS_ERR(t->qp[i]))
			return PTR_ERR(t->qp[i]);
	}
	ret = connect_qp(t->qp[0], t->qp[1]->qp_num, 0, 12);
	if (!ret)
		ret = connect_qp(t->qp[1], t->qp[0]->qp_num, 0, 12);
	t->connected = !ret;
	return ret;
}

/* ---- memory: scattered pages, registered by REG_MR --------------------------------------- */

static int vt_pages(struct vt *t)
{
	struct scatterlist *sg;
	struct page *page;
	u32 i;

	t->pages = t->dev->attrs.max_fast_reg_page_list_len;
	if (t->pages < 512)
		return VT_FAIL(t, -EINVAL, "page lists of %u pages only", t->pages);
	t->mr = ib_alloc_mr(t->pd, IB_MR_TYPE_MEM_REG, t->pages + 1);
	if (PTR_ERR(t->mr) != -EINVAL)
		return VT_FAIL(t, -EINVAL, "a page more than the device has is allowed");
	t->mr = ib_alloc_mr(t->pd, IB_MR_TYPE_MEM_REG, t->pages);
	if (IS_ERR(t->mr))
		return PTR_ERR(t->mr);
	if (sg_alloc_table(&t->sgt, t->pages, GFP_KERNEL))
		return -ENOMEM;
	for_each_sg(t->sgt.sgl, sg, t->pages, i) {
		page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!page)
			return -ENOMEM;
		sg_set_page(sg, page, PAGE_SIZE, 0);
	}
	t->buf = kmalloc(CHUNK, GFP_KERNEL);
	if (!t->buf)
		return -ENOMEM;
	t->dma = ib_dma_map_single(t->dev, t->buf, CHUNK, DMA_BIDIRECTIONAL);
	return ib_dma_mapping_error(t->dev, t->dma) ? -EIO : 0;
}

static int vt_reg(struct vt *t)
{
	struct ib_reg_wr reg = { .wr.opcode = IB_WR_REG_MR, .mr = t->mr, .access = ACCESS };
	int n;

	ib_update_fast_reg_key(t->mr, ib_inc_rkey(t->mr->rkey));
	/* an IOMMU may merge pages into fewer pieces, but keeps all bytes */
	n = ib_map_mr_sg(t->mr, t->sgt.sgl, t->mapped, NULL, PAGE_SIZE);
	if (n != t->mapped || t->mr->length != t->pages * PAGE_SIZE)
		return VT_FAIL(t, -EINVAL, "%d of %d pieces in the region", n, t->mapped);
	reg.key = t->mr->rkey;
	return vt_send(t, &reg.wr, IB_WC_SUCCESS, "REG_MR");
}

static int vt_rdma(struct vt *t, enum ib_wr_opcode op, u64 off, u32 len, enum ib_wc_status want,
		   const char *what)
{
	struct ib_sge sge = { .addr = t->dma, .length = len, .lkey = t->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = op, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = t->mr->iova + off, .rkey = t->mr->rkey,
	};

	return vt_send(t, &wr.wr, want, what);
}

static u8 vt_mark(u32 chunk)
{
	return (chunk * 31 + 1) & 0xff;
}

/* WRITEs to all pages by their one key; compares READs and the pages. */
static int vt_data(struct vt *t)
{
	u32 chunks = t->pages / CHUNK_PAGES, i;
	struct scatterlist *sg;
	int ret;

	for (i = 0; i < chunks; i++) {
		memset(t->buf, vt_mark(i), CHUNK);
		ret = vt_rdma(t, IB_WR_RDMA_WRITE, (u64)i * CHUNK, CHUNK, IB_WC_SUCCESS, "WRITE");
		if (ret)
			return ret;
	}
	for (i = 0; i < chunks; i += chunks - 1) {
		memset(t->buf, 0, CHUNK);
		ret = vt_rdma(t, IB_WR_RDMA_READ, (u64)i * CHUNK, CHUNK, IB_WC_SUCCESS, "READ");
		if (ret)
			return ret;
		if (memchr_inv(t->buf, vt_mark(i), CHUNK))
			return VT_FAIL(t, -EIO, "READ of chunk %u is wrong", i);
	}
	for_each_sg(t->sgt.sgl, sg, t->pages, i)
		if (memchr_inv(sg_virt(sg), vt_mark(i / CHUNK_PAGES), PAGE_SIZE))
			return VT_FAIL(t, -EIO, "page %u is wrong", i);
	return 0;
}

/* The key of all memory, which NVMe, SRP and iSER use without a registration. */
static int vt_global(struct vt *t)
{
	struct ib_sge sge = { .addr = t->dma, .length = 8, .lkey = t->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = t->dma + 8, .rkey = t->pd->unsafe_global_rkey,
	};
	u64 *word = (u64 *)t->buf;
	int ret;

	word[0] = 0x0123456789abcdef;
	word[1] = 0;
	ret = vt_send(t, &wr.wr, IB_WC_SUCCESS, "WRITE to all memory");
	if (!ret && READ_ONCE(word[1]) != word[0])
		ret = VT_FAIL(t, -EIO, "WRITE to all memory is not there");
	word[0] = 0;
	wr.wr.opcode = IB_WR_RDMA_READ;
	if (!ret)
		ret = vt_send(t, &wr.wr, IB_WC_SUCCESS, "READ of all memory");
	if (!ret && READ_ONCE(word[0]) != word[1])
		ret = VT_FAIL(t, -EIO, "READ of all memory is wrong");
	return ret;
}

/* ---- atomics ------------------------------------------------------------------------------ */

/* An atomic changes the first 8 bytes of the region from @from to @to. */
static int vt_atomic(struct vt *t, struct ib_atomic_wr *wr, u64 from, u64 to, const char *what)
{
	struct ib_sge sge = { .addr = t->dma, .length = 8, .lkey = t->pd->local_dma_lkey };
	u64 *word = sg_virt(t->sgt.sgl), *old = (u64 *)t->buf;
	int ret;

	*word = from;
	*old = 0;
	wr->wr.sg_list = &sge;
	wr->wr.num_sge = 1;
	wr->remote_addr = t->mr->iova;
	wr->rkey = t->mr->rkey;
	ret = vt_send(t, &wr->wr, IB_WC_SUCCESS, what);
	if (ret)
		return ret;
	if (READ_ONCE(*old) != from || READ_ONCE(*word) != to)
		return VT_FAIL(t, -EIO, "%s: %llx became %llx, not %llx; %llx returned", what, from,
			       *word, to, *old);
	return 0;
}

static int vt_atomics(struct vt *t)
{
	struct ib_atomic_wr swap = { .wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP,
				     .compare_add = 5, .swap = 77 };
	struct ib_atomic_wr add = { .wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 23 };
	/* the lower half is compared, the byte above it swapped */
	struct ib_atomic_wr mswap = { .wr.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP,
				      .compare_add = 0x1111111122222222,
				      .compare_add_mask = 0x00000000ffffffff,
				      .swap = 0xabababababababab,
				      .swap_mask = 0x000000ff00000000 };
	/* a carry does not leave a field of 16 bits, which a set bit of the mask ends */
	struct ib_atomic_wr madd = { .wr.opcode = IB_WR_MASKED_ATOMIC_FETCH_AND_ADD,
				     .compare_add = 0x0001000000010001,
				     .compare_add_mask = 0x8000800080008000 };
	struct vt_step {
		struct ib_atomic_wr *wr;
		u64 from, to;
		const char *what;
	} step[] = {
		{ &swap, 5, 77, "compare and swap" },
		{ &swap, 6, 6, "compare and swap of another value" },
		{ &add, 77, 100, "fetch and add" },
		{ &mswap, 0x0000000022222222, 0x000000ab22222222, "masked swap" },
		{ &mswap, 0x1111111122222223, 0x1111111122222223, "masked swap of another" },
		{ &madd, 0xffff0000ffffffff, 0x0000000000000000, "masked add" },
	};
	int i, ret = 0;

	for (i = 0; i < ARRAY_SIZE(step) && !ret; i++)
		ret = vt_atomic(t, step[i].wr, step[i].from, step[i].to, step[i].what);
#ifdef TEST_HAS_ATOMIC_WRITE
	if (ret)
		return ret;
	*(u64 *)t->buf = 0x0123456789abcdef;
	ret = vt_rdma(t, IB_WR_ATOMIC_WRITE, 8, 8, IB_WC_SUCCESS, "ATOMIC WRITE");
	if (!ret && READ_ONCE(((u64 *)sg_virt(t->sgt.sgl))[1]) != 0x0123456789abcdef)
		ret = VT_FAIL(t, -EIO, "ATOMIC WRITE is not there");
#endif
	return ret;
}

/* ---- invalidation, pools, draining ---------------------------------------------------------- */

/* Invalidated locally, registered again, invalidated by the peer: then no access is allowed. */
static int vt_invalidate(struct vt *t)
{
	struct ib_send_wr inv = { .opcode = IB_WR_LOCAL_INV };
	struct ib_send_wr send = { .opcode = IB_WR_SEND_WITH_INV };
	int ret;

	inv.ex.invalidate_rkey = t->mr->rkey;
	ret = vt_send(t, &inv, IB_WC_SUCCESS, "LOCAL_INV");
	if (!ret)
		ret = vt_reg(t);
	if (!ret)
		ret = vt_rdma(t, IB_WR_RDMA_WRITE, 0, 4096, IB_WC_SUCCESS, "WRITE, new key");
	if (!ret)
		ret = vt_recv(t, &t->recv[0]);
	if (ret)
		return ret;
	send.ex.invalidate_rkey = t->mr->rkey;
	ret = vt_send(t, &send, IB_WC_SUCCESS, "SEND_WITH_INV");
	if (!ret)
		ret = vt_wait(t, &t->recv[0], IB_WC_SUCCESS, "receive of SEND_WITH_INV");
	if (ret)
		return ret;
	if (!(t->recv[0].wc.wc_flags & IB_WC_WITH_INVALIDATE) ||
	    t->recv[0].wc.ex.invalidate_rkey != t->mr->rkey)
		return VT_FAIL(t, -EIO, "flags %#x, key %#x invalidated", t->recv[0].wc.wc_flags,
			       t->recv[0].wc.ex.invalidate_rkey);
	return vt_rdma(t, IB_WR_RDMA_WRITE, 0, 4096, IB_WC_REM_ACCESS_ERR,
		       "WRITE with a key taken back");
}

static int vt_pool(struct vt *t)
{
	struct ib_mr *mr[POOL];
	int i, ret;

	ret = ib_mr_pool_init(t->qp[0], &t->qp[0]->rdma_mrs, POOL, IB_MR_TYPE_MEM_REG, POOL_PAGES,
			      0);
	if (ret)
		return VT_FAIL(t, ret, "no pool of regions: %d", ret);
	for (i = 0; i < POOL; i++) {
		mr[i] = ib_mr_pool_get(t->qp[0], &t->qp[0]->rdma_mrs);
		if (!mr[i])
			return VT_FAIL(t, -EINVAL, "%d of %u regions in the pool", i, POOL);
	}
	if (ib_mr_pool_get(t->qp[0], &t->qp[0]->rdma_mrs))
		return VT_FAIL(t, -EINVAL, "more regions than the pool has");
	while (i--)
		ib_mr_pool_put(t->qp[0], &t->qp[0]->rdma_mrs, mr[i]);
	ib_mr_pool_destroy(t->qp[0], &t->qp[0]->rdma_mrs);
	return 0;
}

/* After a QP is drained, all posted requests have completed. */
static int vt_drain(struct vt *t)
{
	int i, ret;

	for (i = 0; i < RECVS; i++) {
		ret = vt_recv(t, &t->recv[i]);
		if (ret)
			return ret;
	}
	ib_drain_qp(t->qp[0]);
	ib_drain_qp(t->qp[1]);
	for (i = 0; i < RECVS; i++)
		if (!completion_done(&t->recv[i].done) ||
		    t->recv[i].wc.status != IB_WC_WR_FLUSH_ERR)
			return VT_FAIL(t, -EIO, "receive %d is not flushed when drained", i);
	t->steps++;
	return 0;
}

/* ---- an SRQ and a QP that are resized -------------------------------------------------------- */

/*
 * struct vt_queue - a thread's queue; @srq: it posts there, or NULL: to @qp itself; @op: all
 * receives, in order; @done: completed; @failed: an errno; @write: outstanding WRITEs; @written:
 * completed ones
 */
struct vt_queue {
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct vt_op *op;
	u32 done;
	int failed;
	struct vt_op write[RESIZE_WRITES];
	u32 written;
};

static int vt_poster(void *arg)
{
	struct vt_queue *s = arg;
	u32 i = 0;
	int ret;

	while (!kthread_should_stop()) {
		struct ib_recv_wr wr = {};

		if (i == RESIZE_MSGS || i - READ_ONCE(s->done) >= RESIZE_MOST) {
			usleep_range(20, 50);
			continue;
		}
		wr.wr_cqe = &s->op[i].cqe;
		ret = s->srq ? ib_post_srq_recv(s->srq, &wr, NULL) : ib_post_recv(s->qp, &wr, NULL);
		if (!ret)
			i++;
		else if (ret != -ENOMEM)
			WRITE_ONCE(s->failed, ret);
		cond_resched();
	}
	return 0;
}

/* Empty WRITEs, several outstanding at all times: they use no receive. */
static int vt_writer(void *arg)
{
	struct vt_queue *s = arg;
	u32 posted = 0, done = 0;
	int ret;

	while (!kthread_should_stop() || done != posted) {
		struct vt_op *op = &s->write[posted % RESIZE_WRITES];
		struct ib_rdma_wr wr = {
			.wr = { .opcode = IB_WR_RDMA_WRITE, .send_flags = IB_SEND_SIGNALED,
				.wr_cqe = &op->cqe },
		};

		if (!kthread_should_stop() && posted - done < RESIZE_WRITES) {
			vt_begin(op);
			ret = ib_post_send(s->qp, &wr.wr, NULL);
			if (!ret) {
				posted++;
				continue;
			}
		} else {
			op = &s->write[done % RESIZE_WRITES];
			ret = wait_for_completion_timeout(&op->done, WAIT) ? 0 : -ETIMEDOUT;
			if (!ret && op->wc.status != IB_WC_SUCCESS)
				ret = -EIO;
			done++;
		}
		if (ret) {
			WRITE_ONCE(s->failed, ret);
			break;
		}
	}
	WRITE_ONCE(s->written, done);
	while (!kthread_should_stop())
		usleep_range(20, 50);
	return 0;
}

static int vt_resize(struct vt_queue *s, u32 send, u32 recv)
{
	struct ib_srq_attr sa = { .max_wr = recv };
	struct ib_qp_init_attr init;
	struct ib_qp_attr a;
	int ret;

	if (s->srq)
		return ib_modify_srq(s->srq, &sa, IB_SRQ_MAX_WR);
	ret = ib_query_qp(s->qp, &a, IB_QP_CAP, &init);
	if (ret)
		return ret;
	a.cap.max_send_wr = send;
	a.cap.max_recv_wr = recv;
	ret = ib_modify_qp(s->qp, &a, IB_QP_CAP);
	if (!ret)
		ret = ib_query_qp(s->qp, &a, IB_QP_CAP, &init);
	if (!ret && (a.cap.max_send_wr != send || a.cap.max_recv_wr != recv))
		ret = -EIO;
	return ret;
}

/*
 * One thread posts receives. If a QP is resized, another one posts WRITEs. This one resizes and
 * sends: each message uses the next receive.
 */
static int vt_resize_traffic(struct vt *t, struct vt_queue *s)
{
	static const u32 sizes[] = { 8, 300, 64, 4, 1024, 40, 1, 128 };
	struct task_struct *poster, *writer = NULL;
	u32 i, resized = 0;
	int ret = 0;

	poster = kthread_run(vt_poster, s, "vt_poster");
	if (IS_ERR(poster))
		return PTR_ERR(poster);
	/* with direct polling this thread needs all completions */
	if (!s->srq && t->ctx != IB_POLL_DIRECT) {
		writer = kthread_run(vt_writer, s, "vt_writer");
		if (IS_ERR(writer)) {
			kthread_stop(poster);
			return PTR_ERR(writer);
		}
	}
	for (i = 0; i < RESIZE_MSGS && !ret; i++) {
		u32 size = sizes[i % ARRAY_SIZE(sizes)], other = sizes[i % (ARRAY_SIZE(sizes) - 1)];
		struct ib_send_wr send = { .opcode = IB_WR_SEND };

		/* there must always be room for the writer's requests and one message */
		ret = vt_resize(s, max(other, RESIZE_WRITES + 1), size);
		resized += !ret;
		if (ret && (ret != -EINVAL || size >= RESIZE_MOST)) {
			ret = VT_FAIL(t, ret, "%s to %u: %d", s->srq ? "SRQ" : "QP", size, ret);
			break;
		}
		ret = vt_send(t, &send, IB_WC_SUCCESS, "SEND while resized");
		if (!ret)
			ret = vt_wait(t, &s->op[i], IB_WC_SUCCESS, "receive while resized");
		if (!ret && i + 1 < RESIZE_MSGS && completion_done(&s->op[i + 1].done))
			ret = VT_FAIL(t, -EIO, "receives out of order at %u", i);
		if (!ret)
			ret = READ_ONCE(s->failed);
		WRITE_ONCE(s->done, i + 1);
	}
	kthread_stop(poster);
	if (writer) {
		kthread_stop(writer);
		if (!ret)
			ret = READ_ONCE(s->failed);
		if (!ret && s->written < RESIZE_MSGS)
			ret = VT_FAIL(t, -EIO, "%u WRITEs only", s->written);
	}
	if (!ret && resized < RESIZE_MSGS / 4)
		ret = VT_FAIL(t, -EIO, "resized %u times only", resized);
	return ret;
}

static int vt_srq_refused(struct vt *t, struct vt_queue *s)
{
	struct ib_srq_attr a = {};
	int ret;

	if (ib_modify_srq(s->srq, &a, IB_SRQ_MAX_WR) != -EINVAL)
		return VT_FAIL(t, -EIO, "an SRQ of no size is allowed");
	a.max_wr = t->dev->attrs.max_srq_wr + 1;
	if (ib_modify_srq(s->srq, &a, IB_SRQ_MAX_WR) != -EINVAL)
		return VT_FAIL(t, -EIO, "an SRQ past max_srq_wr is allowed");
	a.max_wr = 200;
	a.srq_limit = 201;
	if (ib_modify_srq(s->srq, &a, IB_SRQ_MAX_WR | IB_SRQ_LIMIT) != -EINVAL)
		return VT_FAIL(t, -EIO, "a limit past the size is allowed");
	a.max_wr = t->dev->attrs.max_srq_wr;
	ret = ib_modify_srq(s->srq, &a, IB_SRQ_MAX_WR);
	if (!ret)
		ret = ib_query_srq(s->srq, &a);
	if (ret || a.max_wr != t->dev->attrs.max_srq_wr)
		return VT_FAIL(t, ret ? ret : -EIO, "max_srq_wr: %d, %u", ret, a.max_wr);
	return 0;
}

/* Each change is refused, and the QP stays unchanged. */
static int vt_qp_refused(struct vt *t, struct vt_queue *s)
{
	struct ib_qp_attr a = { .qp_state = IB_QPS_RTS }, good;
	u32 most = t->dev->attrs.max_qp_wr;
	struct ib_qp_init_attr init;
	int ret;

	ret = vt_resize(s, most, most);
	if (!ret)
		ret = vt_resize(s, 5, 7);
	if (!ret)
		ret = ib_query_qp(s->qp, &good, IB_QP_CAP, &init);
	if (ret)
		return VT_FAIL(t, ret, "max_qp_wr: %d", ret);
	if (vt_resize(s, most + 1, 7) != -EINVAL || vt_resize(s, 5, most + 1) != -EINVAL)
		return VT_FAIL(t, -EIO, "a QP past max_qp_wr is allowed");
	a.cap = good.cap;
	if (ib_modify_qp(s->qp, &a, IB_QP_CAP | IB_QP_STATE) != -EINVAL)
		return VT_FAIL(t, -EIO, "a state along with the size is allowed");
	a.cap.max_send_sge++;
	if (ib_modify_qp(s->qp, &a, IB_QP_CAP) != -EINVAL)
		return VT_FAIL(t, -EIO, "another max_send_sge is allowed");
	ret = ib_query_qp(s->qp, &a, IB_QP_CAP, &init);
	if (ret || memcmp(&a.cap, &good.cap, sizeof(a.cap)))
		return VT_FAIL(t, ret ? ret : -EIO, "what was refused has changed the QP");
	return 0;
}

static int vt_queue(struct vt *t, bool shared)
{
	struct ib_srq_init_attr sa = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_REQ_WR,
		.send_cq = t->cq, .recv_cq = t->cq,
		.cap = { .max_send_wr = RESIZE_WRITES + 1, .max_recv_wr = shared ? 0 : 16,
			 .max_send_sge = 1 },
	};
	struct ib_qp *mine = t->qp[0];
	struct vt_queue s = {};
	int i, ret;

	s.op = kvcalloc(RESIZE_MSGS, sizeof(*s.op), GFP_KERNEL);
	if (!s.op)
		return -ENOMEM;
	for (i = 0; i < RESIZE_MSGS; i++)
		vt_begin(&s.op[i]);
	if (shared) {
		s.srq = ib_create_srq(t->pd, &sa);
		if (IS_ERR(s.srq)) {
			ret = PTR_ERR(s.srq);
			goto out_op;
		}
	}
	/* connected to itself */
	init.srq = s.srq;
	s.qp = ib_create_qp(t->pd, &init);
	if (IS_ERR(s.qp)) {
		ret = PTR_ERR(s.qp);
		goto out_srq;
	}
	ret = connect_qp(s.qp, s.qp->qp_num, 0, 12);
	if (ret)
		goto out_qp;
	t->qp[0] = s.qp;
	ret = vt_resize_traffic(t, &s);
	t->qp[0] = mine;
	if (!ret)
		ret = shared ? vt_srq_refused(t, &s) : vt_qp_refused(t, &s);
	/* after a failure no outstanding request may use a freed vt_op */
	if (ret)
		ib_drain_qp(s.qp);
out_qp:
	ib_destroy_qp(s.qp);
out_srq:
	if (s.srq)
		ib_destroy_srq(s.srq);
out_op:
	kvfree(s.op);
	return ret;
}

static int vt_srq(struct vt *t)
{
	return vt_queue(t, true);
}

static int vt_qp(struct vt *t)
{
	return vt_queue(t, false);
}

/* ---- CQs that are freed with a pending event ------------------------------------------------ */

/*
 * Moderation delays the event of the last completion until after the QP is destroyed: while the
 * core frees the CQ, or just before. The CQ's poller must not start after it was stopped.
 */
static int vt_free_one(struct vt *t, u16 period)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = 2, .max_send_sge = 1 },
	};
	struct ib_rdma_wr wr = { .wr.opcode = IB_WR_RDMA_WRITE, .wr.wr_cqe = &t->send.cqe };
	struct ib_cq *cq = ib_alloc_cq(t->dev, NULL, 4, 0, t->ctx);
	struct ib_qp *qp;
	int ret;

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ib_create_qp(t->pd, &init);
	if (IS_ERR(qp)) {
		ib_free_cq(cq);
		return PTR_ERR(qp);
	}
	ret = rdma_set_cq_moderation(cq, 100, period);
	if (!ret)
		ret = connect_qp(qp, qp->qp_num, 0, 12);
	vt_begin(&t->send);
	if (!ret)
		ret = ib_post_send(qp, &wr.wr, NULL);
	usleep_range(200, 300);
	ib_destroy_qp(qp);
	ib_free_cq(cq);
	return ret;
}

static int vt_free(struct vt *t)
{
	int ret = 0;
	u32 i;

	if (t->ctx != IB_POLL_WORKQUEUE && t->ctx != IB_POLL_SOFTIRQ)
		return 0;
	for (i = 0; i < FREES && !ret; i++)
		ret = vt_free_one(t, 200 + i * 37 % 2000);
	return ret ? VT_FAIL(t, ret, "CQ %u that is told of: %d", i, ret) : 0;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void vt_close(struct vt *t)
{
	struct scatterlist *sg;
	int i;

	for (i = 0; i < 2; i++) {
		if (IS_ERR_OR_NULL(t->qp[i]))
			continue;
		/* in RESET a QP cannot move to ERR; it has nothing to drain */
		if (t->connected)
			ib_drain_qp(t->qp[i]);
		ib_destroy_qp(t->qp[i]);
	}
	if (t->mapped)
		ib_dma_unmap_sg(t->dev, t->sgt.sgl, t->sgt.orig_nents, DMA_BIDIRECTIONAL);
	if (t->sgt.sgl) {
		for_each_sg(t->sgt.sgl, sg, t->sgt.orig_nents, i)
			if (sg_page(sg))
				__free_page(sg_page(sg));
		sg_free_table(&t->sgt);
	}
	if (t->dma)
		ib_dma_unmap_single(t->dev, t->dma, CHUNK, DMA_BIDIRECTIONAL);
	kfree(t->buf);
	if (!IS_ERR_OR_NULL(t->mr))
		ib_dereg_mr(t->mr);
	if (!IS_ERR_OR_NULL(t->cq))
		ib_free_cq(t->cq);
	if (!IS_ERR_OR_NULL(t->pd))
		ib_dealloc_pd(t->pd);
}

static int vt_round(struct ib_device *dev, enum ib_poll_context ctx)
{
	static int (*const part[])(struct vt *t) = {
		vt_reg, vt_data, vt_global, vt_atomics, vt_pool, vt_srq, vt_qp, vt_free,
		vt_invalidate, vt_drain,
	};
	struct vt *t = kzalloc(sizeof(*t), GFP_KERNEL);
	int i, ret;

	if (!t)
		return -ENOMEM;
	t->dev = dev;
	t->ctx = ctx;
	ret = vt_open(t);
	if (!ret)
		ret = vt_pages(t);
	if (!ret) {
		t->mapped = ib_dma_map_sg(dev, t->sgt.sgl, t->pages, DMA_BIDIRECTIONAL);
		ret = t->mapped ? 0 : -EIO;
	}
	for (i = 0; i < ARRAY_SIZE(part) && !ret; i++)
		ret = part[i](t);
	if (ret)
		pr_err("polling %d: part %d failed: %d\n", ctx, i, ret);
	else
		pr_info("polling %d: %u steps, regions of %u pages\n", ctx, t->steps, t->pages);
	vt_close(t);
	kfree(t);
	return ret;
}

static int ways = 4;
module_param(ways, int, 0);
MODULE_PARM_DESC(ways, "how many ways of polling");

static struct ib_device *vt_dev;

/* Keeps a reference to the device; this module need not stay its client. */
static int vt_add(struct ib_device *dev)
{
	if (!strcmp(dev_name(&dev->dev), "ohca_0") && ib_device_try_get(dev))
		vt_dev = dev;
	return -EOPNOTSUPP;
}

static struct ib_client vt_client = {
	.name = "ohca_verbs_test",
	.add = vt_add,
};

static int __init vt_init(void)
{
	static const enum ib_poll_context ctx[] = {
		IB_POLL_DIRECT, IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE, IB_POLL_UNBOUND_WORKQUEUE,
	};
	int i, ret = ib_register_client(&vt_client);

	if (ret)
		return ret;
	ib_unregister_client(&vt_client);
	if (!vt_dev)
		return -ENODEV;
	for (i = 0; i < ARRAY_SIZE(ctx) && i < ways && !ret; i++)
		ret = vt_round(vt_dev, ctx[i]);
	ib_device_put(vt_dev);
	return ret;
}
module_init(vt_init);

static void __exit vt_exit(void)
{
}
module_exit(vt_exit);

MODULE_DESCRIPTION("Kernel verbs over loopback");
MODULE_LICENSE("GPL");
