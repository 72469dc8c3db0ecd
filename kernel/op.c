// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Names and classes of the commands.
 */
#include <linux/kernel.h>

#include "aq.h"

/** struct ohca_op - a command; @name: without OHCA_CMD_; @class: enum ohca_op_class */
struct ohca_op {
	const char *name;
	enum ohca_op_class class;
};

static const struct ohca_op ohca_ops_known[] = {
	[OHCA_CMD_NOP] = { "NOP", OHCA_OP_DRIVER },
	[OHCA_CMD_QUERY_DEVICE] = { "QUERY_DEVICE", OHCA_OP_DRIVER },
	[OHCA_CMD_MODIFY_DEVICE] = { "MODIFY_DEVICE", OHCA_OP_DRIVER },
	[OHCA_CMD_MODIFY_PORT] = { "MODIFY_PORT", OHCA_OP_DRIVER },
	[OHCA_CMD_MAD_IFC] = { "MAD_IFC", OHCA_OP_CONSUMER },
	[OHCA_CMD_QUERY_COUNTERS] = { "QUERY_COUNTERS", OHCA_OP_CONSUMER },
	[OHCA_CMD_QUERY_CONTEXT] = { "QUERY_CONTEXT", OHCA_OP_CONSUMER },
	[OHCA_CMD_CREATE_EQ] = { "CREATE_EQ", OHCA_OP_DRIVER },
	[OHCA_CMD_DESTROY_EQ] = { "DESTROY_EQ", OHCA_OP_TEARDOWN },
	[OHCA_CMD_ALLOC_PD] = { "ALLOC_PD", OHCA_OP_CONSUMER },
	[OHCA_CMD_DEALLOC_PD] = { "DEALLOC_PD", OHCA_OP_TEARDOWN },
	[OHCA_CMD_CREATE_CQ] = { "CREATE_CQ", OHCA_OP_CONSUMER },
	[OHCA_CMD_DESTROY_CQ] = { "DESTROY_CQ", OHCA_OP_TEARDOWN },
	[OHCA_CMD_MODIFY_CQ] = { "MODIFY_CQ", OHCA_OP_CONSUMER },
	[OHCA_CMD_RESIZE_CQ] = { "RESIZE_CQ", OHCA_OP_CONSUMER },
	[OHCA_CMD_CREATE_SRQ] = { "CREATE_SRQ", OHCA_OP_CONSUMER },
	[OHCA_CMD_DESTROY_SRQ] = { "DESTROY_SRQ", OHCA_OP_TEARDOWN },
	[OHCA_CMD_MODIFY_SRQ] = { "MODIFY_SRQ", OHCA_OP_CONSUMER },
	[OHCA_CMD_QUERY_SRQ] = { "QUERY_SRQ", OHCA_OP_CONSUMER },
	[OHCA_CMD_RESIZE_SRQ] = { "RESIZE_SRQ", OHCA_OP_CONSUMER },
	[OHCA_CMD_CREATE_QP] = { "CREATE_QP", OHCA_OP_CONSUMER },
	[OHCA_CMD_DESTROY_QP] = { "DESTROY_QP", OHCA_OP_TEARDOWN },
	[OHCA_CMD_MODIFY_QP] = { "MODIFY_QP", OHCA_OP_CONSUMER },
	[OHCA_CMD_QUERY_QP] = { "QUERY_QP", OHCA_OP_CONSUMER },
	[OHCA_CMD_RESIZE_QP] = { "RESIZE_QP", OHCA_OP_CONSUMER },
	[OHCA_CMD_REG_MR] = { "REG_MR", OHCA_OP_CONSUMER },
	[OHCA_CMD_DEREG_MR] = { "DEREG_MR", OHCA_OP_TEARDOWN },
	[OHCA_CMD_REREG_MR] = { "REREG_MR", OHCA_OP_CONSUMER },
	[OHCA_CMD_ATTACH_MCAST] = { "ATTACH_MCAST", OHCA_OP_CONSUMER },
	[OHCA_CMD_DETACH_MCAST] = { "DETACH_MCAST", OHCA_OP_TEARDOWN },
	[OHCA_CMD_ALLOC_XRCD] = { "ALLOC_XRCD", OHCA_OP_CONSUMER },
	[OHCA_CMD_DEALLOC_XRCD] = { "DEALLOC_XRCD", OHCA_OP_TEARDOWN },
	[OHCA_CMD_ALLOC_DM] = { "ALLOC_DM", OHCA_OP_CONSUMER },
	[OHCA_CMD_FREE_DM] = { "FREE_DM", OHCA_OP_TEARDOWN },
	[OHCA_CMD_UPDATE_MR_PAGES] = { "UPDATE_MR_PAGES", OHCA_OP_DRIVER },
	[OHCA_CMD_PAGE_FAULT_RESUME] = { "PAGE_FAULT_RESUME", OHCA_OP_DRIVER },
	[OHCA_CMD_ALLOC_COUNTERS] = { "ALLOC_COUNTERS", OHCA_OP_CONSUMER },
	[OHCA_CMD_FREE_COUNTERS] = { "FREE_COUNTERS", OHCA_OP_TEARDOWN },
	[OHCA_CMD_QUERY_COUNTER_SET] = { "QUERY_COUNTER_SET", OHCA_OP_DRIVER },
	[OHCA_CMD_BIND_COUNTERS] = { "BIND_COUNTERS", OHCA_OP_DRIVER },
};

/** ohca_op_name - name of a command, enum ohca_admin_op, for log and debugfs; any context */
const char *ohca_op_name(u8 op)
{
	if (op >= ARRAY_SIZE(ohca_ops_known) || !ohca_ops_known[op].name)
		return "unknown";
	return ohca_ops_known[op].name;
}

/** ohca_op_class - class of a command, enum ohca_admin_op; any context */
enum ohca_op_class ohca_op_class(u8 op)
{
	return op < ARRAY_SIZE(ohca_ops_known) ? ohca_ops_known[op].class : OHCA_OP_CONSUMER;
}
