// SPDX-License-Identifier: GPL-2.0
/*
 * A kernel consumer of a device that lies. Threads send to themselves as fast as they can, by two
 * RC QPs each, one of which has an SRQ. Half of them wait for events, the others poll. They ignore
 * statuses. If a thread gets no completions or events, or only flushed completions, it creates new
 * queues.
 *
 * The driver guarantees, whatever the device says: a WQE completes once, after it was posted, in
 * the order of its queue, and no receive is longer than its buffer.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>

#include "connect.h"

#define LEGS		4
#define QPS		2
#define DEPTH		64u		/* sends, and receives, of a QP */
#define SRQ_DEPTH	512u
#define BATCH		16u
#define LEN		64u		/* bytes of a receive */
#define BUF		4096u
#define PATIENCE	(HZ / 10)	/* for a completion */
#define MISSED		3u		/* missing events in a row that are accepted */

/* wr_id: the kind, and a number that counts from 0, or for an SRQ a slot */
enum dv_kind { DV_SEND, DV_RECV = QPS, DV_SRQ, DV_KINDS };

/*
 * struct dv_leg - one thread; @posted, @done: WQEs of each kind; @slot: of the SRQ, whether it is
 * outstanding; @missed: events in a row that were missing although completions arrived; @flushed:
 * flushed completions in a row
 */
struct dv_leg {
	struct ib_device *dev;
	struct task_struct *task;
	bool events;
	wait_queue_head_t wait;
	bool event;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *qp[QPS];
	u32 posted[DV_KINDS], done[DV_KINDS];
	bool slot[SRQ_DEPTH];
	u32 missed, flushed;
	u8 *buf;
	u64 dma;
};

static void dv_comp(struct ib_cq *cq, void *context)
{
	struct dv_leg *l = context;

	WRITE_ONCE(l->event, true);
	wake_up(&l->wait);
}

static void dv_event(struct ib_event *event, void *context)
{
}

/* ---- queues --------------------------------------------------------------------------------- */

static void dv_close(struct dv_leg *l)
{
	int i;

	for (i = 0; i < QPS; i++) {
		if (l->qp[i])
			ib_destroy_qp(l->qp[i]);
		l->qp[i] = NULL;
	}
	if (l->srq)
		ib_destroy_srq(l->srq);
	l->srq = NULL;
	if (l->cq)
		ib_destroy_cq(l->cq);
	l->cq = NULL;
}

/* Creates new queues. After an error dv_close() destroys those that exist. */
static int dv_open(struct dv_leg *l)
{
	struct ib_cq_init_attr ca = { .cqe = QPS * 2 * DEPTH + SRQ_DEPTH };
	struct ib_srq_init_attr sa = { .attr = { .max_wr = SRQ_DEPTH, .max_sge = 1 } };
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_ALL_WR, .event_handler = dv_event,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	void *p;
	int i, ret;

	memset(l->posted, 0, sizeof(l->posted));
	memset(l->done, 0, sizeof(l->done));
	memset(l->slot, 0, sizeof(l->slot));
	l->missed = 0;
	l->flushed = 0;
	p = ib_create_cq(l->dev, dv_comp, dv_event, l, &ca);
	if (IS_ERR(p))
		return PTR_ERR(p);
	l->cq = p;
	p = ib_create_srq(l->pd, &sa);
	if (IS_ERR(p))
		return PTR_ERR(p);
	l->srq = p;
	init.send_cq = l->cq;
	init.recv_cq = l->cq;
	for (i = 0; i < QPS; i++) {
		init.srq = i ? l->srq : NULL;
		init.cap.max_recv_wr = i ? 0 : DEPTH;
		p = ib_create_qp(l->pd, &init);
		if (IS_ERR(p))
			return PTR_ERR(p);
		l->qp[i] = p;
		ret = connect_qp(l->qp[i], l->qp[i]->qp_num, IB_MTU_1024, 1);
		if (ret)
			return ret;
	}
	return l->events ? ib_req_notify_cq(l->cq, IB_CQ_NEXT_COMP) : 0;
}

/* ---- posting -------------------------------------------------------------------------------- */

static int dv_receives(struct dv_leg *l)
{
	struct ib_sge sge = { .addr = l->dma, .length = LEN, .lkey = l->pd->local_dma_lkey };
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	int ret;
	u32 i;

	while (l->posted[DV_RECV] - l->done[DV_RECV] < DEPTH) {
		wr.wr_id = (u64)DV_RECV << 32 | l->posted[DV_RECV];
		ret = ib_post_recv(l->qp[0], &wr, NULL);
		if (ret)
			return ret;
		l->posted[DV_RECV]++;
	}
	for (i = 0; i < SRQ_DEPTH; i++) {
		if (l->slot[i])
			continue;
		wr.wr_id = (u64)DV_SRQ << 32 | i;
		ret = ib_post_srq_recv(l->srq, &wr, NULL);
		if (ret)
			return ret;
		l->slot[i] = true;
	}
	return 0;
}

static int dv_send(struct dv_leg *l, u32 i)
{
	static const enum ib_wr_opcode ops[] = {
		IB_WR_SEND, IB_WR_SEND_WITH_IMM, IB_WR_RDMA_WRITE, IB_WR_RDMA_WRITE_WITH_IMM,
		IB_WR_RDMA_READ,
	};
	struct ib_sge sge = { .addr = l->dma, .length = 8, .lkey = l->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = ops[get_random_u32_below(ARRAY_SIZE(ops))],
			.sg_list = &sge, .num_sge = 1,
			.wr_id = (u64)(DV_SEND + i) << 32 | l->posted[DV_SEND + i] },
		.remote_addr = l->dma + BUF / 2, .rkey = l->pd->unsafe_global_rkey,
	};
	int ret = ib_post_send(l->qp[i], &wr.wr, NULL);

	if (!ret)
		l->posted[DV_SEND + i]++;
	return ret;
}

static int dv_post(struct dv_leg *l)
{
	int ret = dv_receives(l);
	u32 i, n;

	for (i = 0; i < QPS; i++)
		for (n = 0; n < BATCH && !ret; n++)
			if (l->posted[DV_SEND + i] - l->done[DV_SEND + i] < DEPTH / 2)
				ret = dv_send(l, i);
	return ret;
}

/* ---- completions ---------------------------------------------------------------------------- */

static void dv_take(struct dv_leg *l, const struct ib_wc *wc)
{
	u32 kind = wc->wr_id >> 32, n = (u32)wc->wr_id;
	bool ok;

	if (kind == DV_SRQ) {
		ok = n < SRQ_DEPTH && l->slot[n];
		if (ok)
			l->slot[n] = false;
	} else {
		ok = kind < DV_SRQ && n == l->done[kind] && n != l->posted[kind];
		if (ok)
			l->done[kind] = n + 1;
	}
	l->flushed = wc->status == IB_WC_WR_FLUSH_ERR ? l->flushed + 1 : 0;
	WARN_ONCE(!ok, "completion of %u, %u, which is not outstanding\n", kind, n);
	WARN_ONCE(kind >= DV_RECV && wc->status == IB_WC_SUCCESS && wc->opcode == IB_WC_RECV &&
		  wc->byte_len > LEN, "receive of %u bytes\n", wc->byte_len);
	WARN_ONCE(wc->status > IB_WC_GENERAL_ERR, "status %u\n", wc->status);
}

static u32 dv_poll(struct dv_leg *l)
{
	struct ib_wc wc[8];
	u32 total = 0;
	int i, n;

	while ((n = ib_poll_cq(l->cq, ARRAY_SIZE(wc), wc)) > 0) {
		for (i = 0; i < n; i++)
			dv_take(l, &wc[i]);
		total += n;
		if (total > 4 * DEPTH)
			break;
	}
	return total;
}

/* Posts, waits, polls. Return: an errno if the queues are unusable. */
static int dv_turn(struct dv_leg *l, unsigned long *last)
{
	bool told = true;
	int ret = dv_post(l);
	u32 n;

	if (ret)
		return ret;
	if (l->events) {
		told = wait_event_timeout(l->wait, READ_ONCE(l->event), 2);
		WRITE_ONCE(l->event, false);
	} else {
		usleep_range(50, 200);
	}
	n = dv_poll(l);
	if (l->events)
		ib_req_notify_cq(l->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
	l->missed = told || !n ? 0 : l->missed + 1;
	if (n)
		*last = jiffies;
	return time_after(jiffies, *last + PATIENCE) || l->missed > MISSED ||
	       l->flushed > SRQ_DEPTH ? -ETIMEDOUT : 0;
}

static int dv_run(void *arg)
{
	struct dv_leg *l = arg;
	unsigned long last;
	int ret;

	set_user_nice(current, MAX_NICE);	/* the node must stay responsive */
	while (!kthread_should_stop()) {
		last = jiffies;
		ret = dv_open(l);
		while (!ret && !kthread_should_stop()) {
			ret = dv_turn(l, &last);
			cond_resched();
		}
		dv_close(l);
		usleep_range(1000, 2000);
	}
	return 0;
}

/* ---- the device ----------------------------------------------------------------------------- */

static void dv_end(struct dv_leg *l)
{
	if (l->task)
		kthread_stop(l->task);
	if (l->dma)
		ib_dma_unmap_single(l->dev, l->dma, BUF, DMA_BIDIRECTIONAL);
	kfree(l->buf);
	if (l->pd)
		ib_dealloc_pd(l->pd);
}

static int dv_begin(struct dv_leg *l, struct ib_device *dev, int i)
{
	struct task_struct *task;
	struct ib_pd *pd;

	l->dev = dev;
	l->events = i & 1;
	init_waitqueue_head(&l->wait);
	pd = ib_alloc_pd(dev, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	l->pd = pd;
	l->buf = kzalloc(BUF, GFP_KERNEL);
	if (!l->buf)
		return -ENOMEM;
	l->dma = ib_dma_map_single(dev, l->buf, BUF, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(dev, l->dma)) {
		l->dma = 0;
		return -EIO;
	}
	task = kthread_run(dv_run, l, "deceived/%d", i);
	if (IS_ERR(task))
		return PTR_ERR(task);
	l->task = task;
	return 0;
}

static void dv_remove(struct ib_device *dev, void *data);

static struct ib_client dv_client;

static int dv_add(struct ib_device *dev)
{
	struct dv_leg *legs;
	int i, ret = 0;

	if (strncmp(dev_name(&dev->dev), "ohca", 4))
		return -EOPNOTSUPP;
	legs = kvcalloc(LEGS, sizeof(*legs), GFP_KERNEL);
	if (!legs)
		return -ENOMEM;
	for (i = 0; i < LEGS && !ret; i++)
		ret = dv_begin(&legs[i], dev, i);
	if (ret)
		dv_remove(dev, legs);
	else
		ib_set_client_data(dev, &dv_client, legs);
	return ret;
}

static void dv_remove(struct ib_device *dev, void *data)
{
	struct dv_leg *legs = data;
	int i;

	for (i = 0; i < LEGS; i++)
		dv_end(&legs[i]);
	kvfree(legs);
}

static struct ib_client dv_client = { .name = "deceived", .add = dv_add, .remove = dv_remove };

static int __init dv_init(void)
{
	return ib_register_client(&dv_client);
}
module_init(dv_init);

static void __exit dv_exit(void)
{
	ib_unregister_client(&dv_client);
}
module_exit(dv_exit);

MODULE_DESCRIPTION("A consumer of a device that lies");
MODULE_LICENSE("GPL");
