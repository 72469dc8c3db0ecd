// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * One function per command. All run in process context, may sleep, and return 0 or a
 * negative errno (ohca_cmd_exec()). Structures named "in" are in the device's byte
 * order; numbers are in CPU byte order.
 */
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

#include "aq.h"
#include "dev.h"
#include "fatal.h"

/*
 * Executes a command whose completion is one number of at most 24 bits. If the device returns a
 * larger number, the driver resets it: the driver cannot destroy the object, and the caller frees
 * the object's memory.
 */
static int ohca_cmd_create(struct ohca_dev *dev, struct ohca_cmd *cmd, u32 *handle)
{
	int ret = ohca_cmd_exec(dev, cmd);

	if (ret)
		return ret;
	*handle = le32_to_cpu(cmd->resp.handle.handle);
	if (*handle > OHCA_MAX_HANDLE) {
		dev_err_ratelimited(&dev->pdev->dev, "%s returned handle %#x\n",
				    ohca_op_name(cmd->aqe.hdr.opcode), *handle);
		ohca_fatal(dev, "the device returned a handle that is too large");
		return -EIO;
	}
	return 0;
}

/** ohca_cmd_query_device - read the device's attributes into @attr */
int ohca_cmd_query_device(struct ohca_dev *dev, struct ohca_hw_device_attr *attr)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_QUERY_DEVICE };

	cmd.out = attr;
	cmd.out_len = sizeof(*attr);
	cmd.out_addr = &cmd.aqe.mbox.addr;
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_modify_device - set the NodeDescription, 64 bytes at @node_desc */
int ohca_cmd_modify_device(struct ohca_dev *dev, const char *node_desc)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_MODIFY_DEVICE };

	cmd.in = node_desc;
	cmd.in_len = IB_DEVICE_NODE_DESC_MAX;
	cmd.in_addr = &cmd.aqe.mbox.addr;
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_modify_port - set and clear CapabilityMask bits; @flags: OHCA_MODIFY_PORT_* */
int ohca_cmd_modify_port(struct ohca_dev *dev, u8 port, u8 flags, u32 set, u32 clr)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_MODIFY_PORT };

	cmd.aqe.modify_port.port = port;
	cmd.aqe.modify_port.flags = flags;
	cmd.aqe.modify_port.set_caps = cpu_to_le32(set);
	cmd.aqe.modify_port.clr_caps = cpu_to_le32(clr);
	return ohca_cmd_exec(dev, &cmd);
}

/**
 * ohca_cmd_mad_ifc - have the device's SMA or PMA process a MAD
 * @dev: the device
 * @port: from 1
 * @flags: OHCA_MAD_IFC_*, without OHCA_MAD_IFC_HAS_WC
 * @in: 256-byte request
 * @wc: its receive completion, or NULL
 * @out: set to the 256-byte response on success
 * @must: ohca_cmd.must
 * @verdict: set to enum ohca_mad_verdict on success
 */
int ohca_cmd_mad_ifc(struct ohca_dev *dev, u8 port, u8 flags, const void *in,
		     const struct ohca_hw_mad_in_wc *wc, void *out, bool must, u8 *verdict)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_MAD_IFC, .must = must };
	u8 req[IB_MGMT_MAD_SIZE + sizeof(*wc)];
	int ret;

	memcpy(req, in, IB_MGMT_MAD_SIZE);
	cmd.in = req;
	cmd.in_len = IB_MGMT_MAD_SIZE;
	cmd.in_addr = &cmd.aqe.mad_ifc.in_addr;
	if (wc) {
		memcpy(req + IB_MGMT_MAD_SIZE, wc, sizeof(*wc));
		cmd.in_len += sizeof(*wc);
		flags |= OHCA_MAD_IFC_HAS_WC;
	}
	cmd.out = out;
	cmd.out_len = IB_MGMT_MAD_SIZE;
	cmd.out_addr = &cmd.aqe.mad_ifc.out_addr;
	cmd.aqe.mad_ifc.port = port;
	cmd.aqe.mad_ifc.flags = flags;
	ret = ohca_cmd_exec(dev, &cmd);
	if (!ret)
		*verdict = cmd.resp.mad_ifc.verdict;
	return ret;
}

/** ohca_cmd_query_counters - read @num counters, which must fit into a mailbox */
int ohca_cmd_query_counters(struct ohca_dev *dev, __le64 *values, u32 num)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_QUERY_COUNTERS };

	cmd.out = values;
	cmd.out_len = num * sizeof(*values);
	cmd.out_addr = &cmd.aqe.mbox.addr;
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_alloc_counters - allocate a counter set; @set: set to its number, from 1 */
int ohca_cmd_alloc_counters(struct ohca_dev *dev, u32 *set)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_ALLOC_COUNTERS };

	return ohca_cmd_create(dev, &cmd, set);
}

/** ohca_cmd_bind_counters - bind a QP to counter set @set; 0: unbind it */
int ohca_cmd_bind_counters(struct ohca_dev *dev, u32 handle, u32 set)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_BIND_COUNTERS };

	cmd.aqe.bind_counters.qp = cpu_to_le32(handle);
	cmd.aqe.bind_counters.set = cpu_to_le32(set);
	return ohca_cmd_exec(dev, &cmd);
}

/**
 * ohca_cmd_query_counter_set - read the counters of a set
 * @dev: the device
 * @set: the set; set 0 counts what no other set counts
 * @port: with set 0: from 1: only the counters of this port; else 0
 * @values: set to the counters on success
 * @num: number of counters, which must fit into a mailbox
 */
int ohca_cmd_query_counter_set(struct ohca_dev *dev, u32 set, u8 port, __le64 *values, u32 num)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_QUERY_COUNTER_SET };

	cmd.aqe.query_counter_set.set = cpu_to_le32(set);
	cmd.aqe.query_counter_set.port = port;
	cmd.out = values;
	cmd.out_len = num * sizeof(*values);
	cmd.out_addr = &cmd.aqe.query_counter_set.addr;
	return ohca_cmd_exec(dev, &cmd);
}

/**
 * ohca_cmd_query_context - read the device's state of an object
 * @dev: the device
 * @kind: enum ohca_context_kind
 * @handle: number of the object
 * @ctx: structure of this kind, set on success
 * @size: its bytes
 *
 * Return: as ohca_cmd_exec(); -EOPNOTSUPP if the device lacks OHCA_FEATURE_QUERY_CONTEXT.
 */
int ohca_cmd_query_context(struct ohca_dev *dev, enum ohca_context_kind kind, u32 handle,
			   void *ctx, size_t size)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_QUERY_CONTEXT };

	if (!ohca_has(dev, OHCA_FEATURE_QUERY_CONTEXT))
		return -EOPNOTSUPP;
	cmd.aqe.query_context.handle = cpu_to_le32(handle);
	cmd.aqe.query_context.kind = kind;
	cmd.out = ctx;
	cmd.out_len = size;
	cmd.out_addr = &cmd.aqe.query_context.addr;
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_create_eq - create an EQ; @eqn: set to its number */
int ohca_cmd_create_eq(struct ohca_dev *dev, const struct ohca_cmd_create_eq *in, u32 *eqn)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_CREATE_EQ };

	cmd.aqe.create_eq = *in;
	return ohca_cmd_create(dev, &cmd, eqn);
}

/** ohca_cmd_alloc_pd - allocate a PD of doorbell page @uar; @pdn: set to its number */
int ohca_cmd_alloc_pd(struct ohca_dev *dev, u32 uar, u32 *pdn)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_ALLOC_PD };

	cmd.aqe.alloc_pd.uar = cpu_to_le32(uar);
	return ohca_cmd_create(dev, &cmd, pdn);
}

/** ohca_cmd_alloc_xrcd - allocate an XRC domain; @xrcdn: set to its number */
int ohca_cmd_alloc_xrcd(struct ohca_dev *dev, u32 *xrcdn)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_ALLOC_XRCD };

	return ohca_cmd_create(dev, &cmd, xrcdn);
}

/** ohca_cmd_create_cq - create a CQ; @cqn: set to its number */
int ohca_cmd_create_cq(struct ohca_dev *dev, const struct ohca_cmd_create_cq *in, u32 *cqn)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_CREATE_CQ };

	cmd.aqe.create_cq = *in;
	return ohca_cmd_create(dev, &cmd, cqn);
}

/** ohca_cmd_modify_cq - moderate a CQ: an event after @count CQEs or @period us */
int ohca_cmd_modify_cq(struct ohca_dev *dev, u32 cqn, u16 count, u16 period)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_MODIFY_CQ };

	cmd.aqe.modify_cq.cqn = cpu_to_le32(cqn);
	cmd.aqe.modify_cq.count = cpu_to_le16(count);
	cmd.aqe.modify_cq.period_us = cpu_to_le16(period);
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_resize_cq - move a CQ to a new buffer */
int ohca_cmd_resize_cq(struct ohca_dev *dev, const struct ohca_cmd_resize_cq *in)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_RESIZE_CQ };

	cmd.aqe.resize_cq = *in;
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_create_srq - create an SRQ; @srqn: set to its number */
int ohca_cmd_create_srq(struct ohca_dev *dev, const struct ohca_cmd_create_srq *in, u32 *srqn)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_CREATE_SRQ };

	cmd.aqe.create_srq = *in;
	return ohca_cmd_create(dev, &cmd, srqn);
}

/** ohca_cmd_modify_srq - arm the limit event of an SRQ; @limit in WQEs, 0 disarms */
int ohca_cmd_modify_srq(struct ohca_dev *dev, u32 srqn, u32 limit)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_MODIFY_SRQ };

	cmd.aqe.modify_srq.srqn = cpu_to_le32(srqn);
	cmd.aqe.modify_srq.limit = cpu_to_le32(limit);
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_query_srq - read the armed limit of an SRQ; @limit: in WQEs, 0 if none */
int ohca_cmd_query_srq(struct ohca_dev *dev, u32 srqn, u32 *limit)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_QUERY_SRQ };
	int ret;

	cmd.aqe.handle.handle = cpu_to_le32(srqn);
	ret = ohca_cmd_exec(dev, &cmd);
	if (!ret)
		*limit = le32_to_cpu(cmd.resp.query_srq.limit);
	return ret;
}

/** ohca_cmd_resize_srq - move an SRQ to a new buffer; @pi: index up to which the device copied */
int ohca_cmd_resize_srq(struct ohca_dev *dev, const struct ohca_cmd_resize_srq *in, u32 *pi)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_RESIZE_SRQ };
	int ret;

	cmd.aqe.resize_srq = *in;
	ret = ohca_cmd_exec(dev, &cmd);
	if (!ret)
		*pi = le32_to_cpu(cmd.resp.handle.handle);
	return ret;
}

/** ohca_cmd_create_qp - create a QP; @handle: set to its handle */
int ohca_cmd_create_qp(struct ohca_dev *dev, const struct ohca_cmd_create_qp *in, u32 *handle)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_CREATE_QP };

	cmd.aqe.create_qp = *in;
	return ohca_cmd_create(dev, &cmd, handle);
}

/**
 * ohca_cmd_modify_qp - change attributes of a QP
 * @dev: the device
 * @handle: the QP
 * @mask: attributes to change, OHCA_ATTR_*
 * @attr: their new values
 * @must: the caller cannot fail, because it stops a kernel QP; ohca_cmd.must
 */
int ohca_cmd_modify_qp(struct ohca_dev *dev, u32 handle, u32 mask,
		       const struct ohca_hw_qp_attr *attr, bool must)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_MODIFY_QP, .must = must };

	cmd.aqe.modify_qp.handle = cpu_to_le32(handle);
	cmd.aqe.modify_qp.attr_mask = cpu_to_le32(mask);
	cmd.in = attr;
	cmd.in_len = sizeof(*attr);
	cmd.in_addr = &cmd.aqe.modify_qp.addr;
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_query_qp - read the attributes of a QP */
int ohca_cmd_query_qp(struct ohca_dev *dev, u32 handle, struct ohca_hw_qp_attr *attr)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_QUERY_QP };

	cmd.aqe.handle.handle = cpu_to_le32(handle);
	cmd.out = attr;
	cmd.out_len = sizeof(*attr);
	cmd.out_addr = &cmd.aqe.handle.addr;
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_resize_qp - move a QP to a new buffer; @out: indices up to which the device copied */
int ohca_cmd_resize_qp(struct ohca_dev *dev, const struct ohca_cmd_resize_qp *in,
		       struct ohca_resp_resize_qp *out)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_RESIZE_QP };
	int ret;

	cmd.aqe.resize_qp = *in;
	ret = ohca_cmd_exec(dev, &cmd);
	if (!ret)
		*out = cmd.resp.resize_qp;
	return ret;
}

/**
 * ohca_cmd_reg_mr - register or change a memory region or window
 * @dev: the device
 * @op: OHCA_CMD_REG_MR or OHCA_CMD_REREG_MR
 * @in: the command
 * @key: set to the L_Key and R_Key on success
 */
int ohca_cmd_reg_mr(struct ohca_dev *dev, u8 op, const struct ohca_cmd_reg_mr *in, u32 *key)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = op };
	int ret;

	cmd.aqe.reg_mr = *in;
	ret = ohca_cmd_exec(dev, &cmd);
	if (!ret)
		*key = le32_to_cpu(cmd.resp.handle.handle);
	return ret;
}

/**
 * ohca_cmd_update_mr - set pages of a region, or invalidate them
 * @dev: the device
 * @key: the region
 * @first: index of the first page
 * @n: number of pages; with @pages at most OHCA_ODP_BATCH
 * @pages: pages in the device's encoding; NULL: invalidate
 *
 * Allocates no memory, because reclaim may wait for this function.
 */
int ohca_cmd_update_mr(struct ohca_dev *dev, u32 key, u64 first, u64 n, const __le64 *pages)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_UPDATE_MR_PAGES };

	cmd.aqe.update_mr.first = cpu_to_le64(first);
	cmd.aqe.update_mr.npages = cpu_to_le64(n);
	cmd.aqe.update_mr.key = cpu_to_le32(key);
	if (pages) {
		cmd.in = pages;
		cmd.in_len = n * sizeof(*pages);
		cmd.in_addr = &cmd.aqe.update_mr.addr;
	} else {
		cmd.aqe.update_mr.flags = cpu_to_le32(OHCA_UPDATE_MR_INVALIDATE);
	}
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_fault_resume - answer page fault @id: repeat the access or, with @failed, fail it */
int ohca_cmd_fault_resume(struct ohca_dev *dev, u32 id, bool failed)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_PAGE_FAULT_RESUME };

	cmd.aqe.fault_resume.id = cpu_to_le32(id);
	cmd.aqe.fault_resume.flags = cpu_to_le32(failed ? OHCA_FAULT_FAILED : 0);
	return ohca_cmd_exec(dev, &cmd);
}

/**
 * ohca_cmd_alloc_dm - allocate device memory
 * @dev: the device
 * @length: bytes
 * @log_align: log2 of the alignment in bytes
 * @handle: set to its handle on success
 * @offset: set to the offset in BAR 5 in bytes on success; not checked
 */
int ohca_cmd_alloc_dm(struct ohca_dev *dev, u64 length, u8 log_align, u32 *handle, u64 *offset)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = OHCA_CMD_ALLOC_DM };
	int ret;

	cmd.aqe.alloc_dm.length = cpu_to_le64(length);
	cmd.aqe.alloc_dm.log_align = log_align;
	ret = ohca_cmd_exec(dev, &cmd);
	if (ret)
		return ret;
	*handle = le32_to_cpu(cmd.resp.alloc_dm.handle);
	*offset = le64_to_cpu(cmd.resp.alloc_dm.offset);
	return 0;
}

/** ohca_cmd_mcast - attach a QP to a group (@op: OHCA_CMD_ATTACH_MCAST), or detach it */
int ohca_cmd_mcast(struct ohca_dev *dev, u8 op, u32 handle, const union ib_gid *mgid, u16 mlid)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = op };

	cmd.aqe.mcast.qp = cpu_to_le32(handle);
	cmd.aqe.mcast.mlid = cpu_to_le16(mlid);
	memcpy(cmd.aqe.mcast.mgid, mgid->raw, sizeof(cmd.aqe.mcast.mgid));
	return ohca_cmd_exec(dev, &cmd);
}

/** ohca_cmd_handle - execute a command whose only parameter is an object's number */
int ohca_cmd_handle(struct ohca_dev *dev, u8 op, u32 handle)
{
	struct ohca_cmd cmd = { .aqe.hdr.opcode = op };

	cmd.aqe.handle.handle = cpu_to_le32(handle);
	return ohca_cmd_exec(dev, &cmd);
}

/**
 * ohca_cmd_destroy - destroy an object
 * @dev: the device
 * @op: the command that destroys it
 * @handle: its number
 *
 * Process context. The core expects that every destroy succeeds, so the driver resets a device that
 * refuses the command. When this returns the device no longer uses the object's memory.
 */
void ohca_cmd_destroy(struct ohca_dev *dev, u8 op, u32 handle)
{
	if (ohca_cmd_handle(dev, op, handle))
		ohca_fatal(dev, "the device did not destroy an object");
}

/**
 * ohca_cmd_undo - undo the creation of an object
 * @dev: the device
 * @op: the command that destroys it
 * @handle: its number
 * @err: reason; -EBUSY: another object has this number already
 *
 * Process context. The driver resets a device that refuses the command, or that returned a number
 * twice. When this returns the device no longer uses the object's memory.
 */
void ohca_cmd_undo(struct ohca_dev *dev, u8 op, u32 handle, int err)
{
	if (err == -EBUSY)
		ohca_fatal(dev, "the device returned a handle that is in use");
	else
		ohca_cmd_destroy(dev, op, handle);
}
