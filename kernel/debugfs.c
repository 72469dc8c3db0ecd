// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The state of the device and its queues, for debugging:
 * /sys/kernel/debug/ohca/<PCI address>/{device,aq,eq,cq,qp,srq}. A line of each file names the
 * columns; "device" has names and values instead. Columns "hw_*" are the device's state; they are
 * "-" if the device is dead or does not have the feature QUERY_CONTEXT.
 *
 * A reader holds a reference to the object that it prints. The driver removes the directory before
 * it destroys the objects; removal waits for readers.
 */
#include <linux/debugfs.h>
#include <linux/io.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "aq.h"
#include "cq.h"
#include "debugfs.h"
#include "dev.h"
#include "eq.h"
#include "obj.h"
#include "pci.h"
#include "qp.h"
#include "srq.h"

static struct dentry *ohca_debugfs_root;

static int ohca_device_show(struct seq_file *m, void *v)
{
	struct ohca_dev *dev = m->private;
	const struct ohca_hw_device_attr *a = &dev->attr;

	seq_printf(m, "name %s\n", dev_name(&dev->ibdev.dev));
	seq_printf(m, "version %u.%u\n", OHCA_FIELD_GET(OHCA_VERSION_MAJOR, dev->version),
		   OHCA_FIELD_GET(OHCA_VERSION_MINOR, dev->version));
	seq_printf(m, "features %#llx\n", dev->features);
	seq_printf(m, "status %#x\n", readl(dev->regs + OHCA_REG_STATUS));
	seq_printf(m, "fatal_reason %#x\n", readl(dev->regs + OHCA_REG_FATAL_REASON));
	seq_printf(m, "state %s%s%s\n", ohca_is_dead(dev) ? "dead" : "alive",
		   ohca_is_quiet(dev) ? " quiet" : "", ohca_is_wedged(dev) ? " wedged" : "");
	seq_printf(m, "max_qp %u\nmax_cq %u\nmax_mr %u\nmax_pd %u\nmax_srq %u\n",
		   le32_to_cpu(a->max_qp), le32_to_cpu(a->max_cq), le32_to_cpu(a->max_mr),
		   le32_to_cpu(a->max_pd), le32_to_cpu(a->max_srq));
	seq_printf(m, "odp_children %d\n", atomic_read(&dev->odp_children));
	seq_printf(m, "bad_cqes %d\nbad_eqes %d\nlate_eqes %d\n", atomic_read(&dev->bad_cqes),
		   atomic_read(&dev->bad_eqes), atomic_read(&dev->late_eqes));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ohca_device);

static int ohca_aq_show(struct seq_file *m, void *v)
{
	static const char * const states[] = {
		[OHCA_SLOT_FREE] = "free",
		[OHCA_SLOT_BUSY] = "busy",
		[OHCA_SLOT_PENDING] = "pending",
	};
	struct ohca_dev *dev = m->private;
	struct ohca_aq *aq = &dev->aq;
	u32 i;

	spin_lock_irq(&aq->lock);
	seq_printf(m, "pi %u ci %u completed %u stray %u%s%s\n", aq->pi, aq->ci, aq->completed,
		   aq->stray, aq->polled ? " polled" : "", aq->dead ? " dead" : "");
	seq_puts(m, "slot state opcode generation\n");
	for (i = 0; i < OHCA_AQ_SLOTS; i++)
		seq_printf(m, "%u %s %s %u\n", i, states[aq->slots[i].state],
			   aq->slots[i].gen ? ohca_op_name(aq->slots[i].opcode) : "-",
			   aq->slots[i].gen);
	spin_unlock_irq(&aq->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ohca_aq);

static void ohca_eq_line(struct seq_file *m, struct ohca_dev *dev, struct ohca_eq *eq)
{
	static const char * const kinds[] = {
		[OHCA_EQ_ASYNC] = "async",
		[OHCA_EQ_COMP] = "comp",
		[OHCA_EQ_FAULT] = "fault",
	};
	struct ohca_hw_eq_context ctx;

	seq_printf(m, "%u %u %u %u", eq->eqn, eq->vector, 1u << eq->log_size, READ_ONCE(eq->ci));
	if (ohca_cmd_query_context(dev, OHCA_CONTEXT_EQ, eq->eqn, &ctx, sizeof(ctx)))
		seq_puts(m, " - - - -\n");
	else
		seq_printf(m, " %u %u %u %s%s%s\n", le32_to_cpu(ctx.pi), le32_to_cpu(ctx.ci),
			   le32_to_cpu(ctx.refs),
			   ctx.kind < ARRAY_SIZE(kinds) ? kinds[ctx.kind] : "unknown",
			   ctx.flags & OHCA_EQC_ARMED ? ",armed" : "",
			   ctx.flags & OHCA_EQC_BACKLOG ? ",backlog" : "");
}

static int ohca_eq_show(struct seq_file *m, void *v)
{
	struct ohca_dev *dev = m->private;
	u32 i;

	seq_puts(m, "eqn vector size ci hw_pi hw_ci hw_cqs hw_flags\n");
	ohca_eq_line(m, dev, &dev->async_eq);
	if (ohca_has_odp(dev))
		ohca_eq_line(m, dev, &dev->fault_eq);
	for (i = 0; i < dev->num_comp_eqs; i++)
		ohca_eq_line(m, dev, &dev->comp_eqs[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ohca_eq);

static void ohca_cq_line(struct seq_file *m, struct ohca_dev *dev, struct ohca_obj *obj)
{
	struct ohca_cq *cq = container_of(obj, struct ohca_cq, obj);
	struct ohca_hw_cq_context ctx;

	seq_printf(m, "%u %s %u %u", cq->cqn, cq->umem ? "user" : "kernel",
		   1u << READ_ONCE(cq->log_size), cq->eq->eqn);
	if (cq->umem)
		seq_puts(m, " - -");
	else
		seq_printf(m, " %u %u", READ_ONCE(cq->ci), READ_ONCE(cq->arm_sn));
	if (ohca_cmd_query_context(dev, OHCA_CONTEXT_CQ, cq->cqn, &ctx, sizeof(ctx)))
		seq_puts(m, " - - - - -\n");
	else
		seq_printf(m, " %u %u %u %u %s%s%s%s%s\n", le32_to_cpu(ctx.pi),
			   le32_to_cpu(ctx.ci), le32_to_cpu(ctx.told_pi),
			   le32_to_cpu(ctx.events),
			   ctx.flags & OHCA_CQC_ERROR ? "error" : "ok",
			   ctx.flags & OHCA_CQC_ARMED ? ",armed" : "",
			   ctx.flags & OHCA_CQC_SOLICITED ? ",solicited" : "",
			   ctx.flags & OHCA_CQC_EQE_OUT ? ",event_out" : "",
			   ctx.flags & OHCA_CQC_EQE_DUE ? ",event_due" : "");
}

static void ohca_qp_line(struct seq_file *m, struct ohca_dev *dev, struct ohca_obj *obj)
{
	struct ohca_qp *qp = container_of(obj, struct ohca_qp, obj);
	struct ohca_hw_qp_context c;

	seq_printf(m, "%u %u %d %s %d", qp->handle, qp->ibqp.qp_num, qp->ibqp.qp_type,
		   qp->user ? "user" : "kernel", READ_ONCE(qp->state));
	if (qp->user)
		seq_puts(m, " - - - -");
	else
		seq_printf(m, " %u %u %u %u", READ_ONCE(qp->sq.head), READ_ONCE(qp->sq.tail),
			   READ_ONCE(qp->rq.head), READ_ONCE(qp->rq.tail));
	if (ohca_cmd_query_context(dev, OHCA_CONTEXT_QP, qp->handle, &c, sizeof(c)))
		seq_puts(m, " - - - - - - - - - -\n");
	else
		seq_printf(m, " %u %u %u %u %u %u %u %u %u %s%s%s\n", c.state,
			   le32_to_cpu(c.sq_pi), le32_to_cpu(c.sq_ci), le32_to_cpu(c.rq_ci),
			   le32_to_cpu(c.una_psn), le32_to_cpu(c.max_psn),
			   le32_to_cpu(c.expected_psn), c.retry_left, le32_to_cpu(c.counters),
			   c.wait ? "" : "ok",
			   c.wait & OHCA_QPC_RNR_WAIT ? "rnr_wait" : "",
			   c.wait & OHCA_QPC_NAK_SENT ? ",nak_sent" : "");
}

static void ohca_srq_line(struct seq_file *m, struct ohca_dev *dev, struct ohca_obj *obj)
{
	struct ohca_srq *srq = container_of(obj, struct ohca_srq, obj);
	struct ohca_hw_srq_context ctx;

	seq_printf(m, "%u %s %u", srq->srqn, srq->umem ? "user" : "kernel",
		   1u << READ_ONCE(srq->log));
	if (srq->umem)
		seq_puts(m, " -");
	else
		seq_printf(m, " %u", READ_ONCE(srq->head));
	if (ohca_cmd_query_context(dev, OHCA_CONTEXT_SRQ, srq->srqn, &ctx, sizeof(ctx)))
		seq_puts(m, " - - - -\n");
	else
		seq_printf(m, " %u %u %u %s\n", le32_to_cpu(ctx.ci), le32_to_cpu(ctx.limit),
			   le32_to_cpu(ctx.refs), ctx.flags & OHCA_SRQC_ERROR ? "error" : "ok");
}

/**
 * struct ohca_list - a file with one line for each object of a kind
 * @ops: operations; container_of() of them is this structure
 * @columns: first line, also of a file without objects
 * @objs: offset of the array of objects in struct ohca_dev, bytes
 * @line: prints one object
 */
struct ohca_list {
	const struct seq_operations ops;
	const char *columns;
	size_t objs;
	void (*line)(struct seq_file *m, struct ohca_dev *dev, struct ohca_obj *obj);
};

static const struct ohca_list *ohca_list_of(struct seq_file *m)
{
	return container_of(m->op, struct ohca_list, ops);
}

static struct ohca_obj *ohca_list_find(struct seq_file *m, unsigned long *index)
{
	return ohca_obj_next(m->private + ohca_list_of(m)->objs, index);
}

/*
 * The position is the object's number plus one. So a read that continues with a new buffer starts
 * at the right object, even if objects were created or destroyed meanwhile.
 */
static void *ohca_list_start(struct seq_file *m, loff_t *pos)
{
	unsigned long index = *pos - 1;
	struct ohca_obj *obj;

	if (!*pos)
		return SEQ_START_TOKEN;
	obj = ohca_list_find(m, &index);
	if (obj)
		*pos = index + 1;
	return obj;
}

static void ohca_list_stop(struct seq_file *m, void *v)
{
	if (v && v != SEQ_START_TOKEN)
		ohca_obj_put(v);
}

static void *ohca_list_next(struct seq_file *m, void *v, loff_t *pos)
{
	unsigned long index = *pos;
	struct ohca_obj *obj;

	ohca_list_stop(m, v);
	obj = ohca_list_find(m, &index);
	*pos = index + 1;
	return obj;
}

static int ohca_list_show(struct seq_file *m, void *v)
{
	const struct ohca_list *list = ohca_list_of(m);

	if (v == SEQ_START_TOKEN)
		seq_printf(m, "%s\n", list->columns);
	else
		list->line(m, m->private, v);
	return 0;
}

static int ohca_list_open(struct inode *inode, struct file *file, const struct ohca_list *list)
{
	int ret = seq_open(file, &list->ops);

	if (!ret)
		((struct seq_file *)file->private_data)->private = inode->i_private;
	return ret;
}

#define OHCA_LIST(name, header)								\
static const struct ohca_list ohca_##name##_list = {					\
	.ops = {									\
		.start = ohca_list_start,						\
		.next = ohca_list_next,							\
		.stop = ohca_list_stop,							\
		.show = ohca_list_show,							\
	},										\
	.columns = header,								\
	.objs = offsetof(struct ohca_dev, name##s),					\
	.line = ohca_##name##_line,							\
};											\
											\
static int ohca_##name##_open(struct inode *inode, struct file *file)			\
{											\
	return ohca_list_open(inode, file, &ohca_##name##_list);			\
}											\
											\
static const struct file_operations ohca_##name##_fops = {				\
	.owner = THIS_MODULE,								\
	.open = ohca_##name##_open,							\
	.read = seq_read,								\
	.llseek = seq_lseek,								\
	.release = seq_release,								\
}

#define OHCA_QP_COLUMNS								\
	"handle qpn type owner state sq_head sq_tail rq_head rq_tail hw_state"		\
	" hw_sq_pi hw_sq_ci hw_rq_ci hw_una_psn hw_max_psn hw_expected_psn"		\
	" hw_retries hw_counters hw_flags"

OHCA_LIST(cq, "cqn owner size eqn ci arm_sn hw_pi hw_ci hw_told hw_events hw_flags");
OHCA_LIST(qp, OHCA_QP_COLUMNS);
OHCA_LIST(srq, "srqn owner size head hw_ci hw_limit hw_qps hw_flags");

/** ohca_debugfs_add - add the directory of a device that is registered */
void ohca_debugfs_add(struct ohca_dev *dev)
{
	struct dentry *dir = debugfs_create_dir(pci_name(dev->pdev), ohca_debugfs_root);

	dev->debugfs = dir;
	debugfs_create_file("device", 0400, dir, dev, &ohca_device_fops);
	debugfs_create_file("aq", 0400, dir, dev, &ohca_aq_fops);
	debugfs_create_file("eq", 0400, dir, dev, &ohca_eq_fops);
	debugfs_create_file("cq", 0400, dir, dev, &ohca_cq_fops);
	debugfs_create_file("qp", 0400, dir, dev, &ohca_qp_fops);
	debugfs_create_file("srq", 0400, dir, dev, &ohca_srq_fops);
}

/** ohca_debugfs_remove - remove the directory of a device; process context, waits for readers */
void ohca_debugfs_remove(struct ohca_dev *dev)
{
	debugfs_remove_recursive(dev->debugfs);
	dev->debugfs = NULL;
}

/** ohca_debugfs_init - add the directory of all devices; called when the module is loaded */
void ohca_debugfs_init(void)
{
	ohca_debugfs_root = debugfs_create_dir(OHCA_DRV_NAME, NULL);
}

/** ohca_debugfs_exit - remove that directory; called when the module is unloaded */
void ohca_debugfs_exit(void)
{
	debugfs_remove_recursive(ohca_debugfs_root);
}
