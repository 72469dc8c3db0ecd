/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: tracepoints, /sys/kernel/tracing/events/ohca: commands with their times, page
 * faults, counter sets that are freed, failure and recovery of the device. The device has a trace
 * of its own.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ohca

#if !defined(OHCA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define OHCA_TRACE_H

#include <linux/math64.h>
#include <linux/pci.h>
#include <linux/tracepoint.h>

#include "dev.h"

#define OHCA_TRACE_PCI	16	/* bytes of the name of a PCI function */

TRACE_EVENT(ohca_cmd,

	TP_PROTO(const struct ohca_dev *dev, u8 op, int ret, u64 ns),
	TP_ARGS(dev, op, ret, ns),
	TP_STRUCT__entry(
		__array(char, pci, OHCA_TRACE_PCI)
		__array(char, name, 24)
		__field(int, ret)
		__field(u64, us)
	),
	TP_fast_assign(
		strscpy(__entry->pci, pci_name(dev->pdev), OHCA_TRACE_PCI);
		strscpy(__entry->name, ohca_op_name(op), 24);
		__entry->ret = ret;
		__entry->us = div_u64(ns, 1000);
	),
	TP_printk("%s %s ret %d, %llu us", __entry->pci, __entry->name, __entry->ret,
		  __entry->us)
);

TRACE_EVENT(ohca_fault,

	TP_PROTO(const struct ohca_dev *dev, u32 id, u32 key, u64 va, u32 len, bool write, int ret),
	TP_ARGS(dev, id, key, va, len, write, ret),
	TP_STRUCT__entry(
		__array(char, pci, OHCA_TRACE_PCI)
		__field(u32, id)
		__field(u32, key)
		__field(u64, va)
		__field(u32, len)
		__field(bool, write)
		__field(int, ret)
	),
	TP_fast_assign(
		strscpy(__entry->pci, pci_name(dev->pdev), OHCA_TRACE_PCI);
		__entry->id = id;
		__entry->key = key;
		__entry->va = va;
		__entry->len = len;
		__entry->write = write;
		__entry->ret = ret;
	),
	TP_printk("%s fault %u: key %#x, %s %u bytes at %#llx, ret %d", __entry->pci, __entry->id,
		  __entry->key, __entry->write ? "write" : "read", __entry->len, __entry->va,
		  __entry->ret)
);

/* The current task unbinds the last QP of the set. @type: type of its QPs, or -1 for any type. */
TRACE_EVENT(ohca_counters,

	TP_PROTO(const struct ohca_dev *dev, u32 set, int type, u64 tx, u64 tx_bytes, u64 rx,
		 u64 rx_bytes),
	TP_ARGS(dev, set, type, tx, tx_bytes, rx, rx_bytes),
	TP_STRUCT__entry(
		__array(char, pci, OHCA_TRACE_PCI)
		__field(u32, set)
		__field(int, type)
		__field(u64, tx)
		__field(u64, tx_bytes)
		__field(u64, rx)
		__field(u64, rx_bytes)
	),
	TP_fast_assign(
		strscpy(__entry->pci, pci_name(dev->pdev), OHCA_TRACE_PCI);
		__entry->set = set;
		__entry->type = type;
		__entry->tx = tx;
		__entry->tx_bytes = tx_bytes;
		__entry->rx = rx;
		__entry->rx_bytes = rx_bytes;
	),
	TP_printk("%s set %u: QPs of type %d, sent: %llu packets, %llu bytes, received: %llu packets, %llu bytes",
		  __entry->pci, __entry->set, __entry->type, __entry->tx, __entry->tx_bytes,
		  __entry->rx, __entry->rx_bytes)
);

TRACE_EVENT(ohca_fatal,

	TP_PROTO(const struct ohca_dev *dev, const char *why, u32 reason),
	TP_ARGS(dev, why, reason),
	TP_STRUCT__entry(
		__array(char, pci, OHCA_TRACE_PCI)
		__array(char, why, 64)
		__field(u32, reason)
	),
	TP_fast_assign(
		strscpy(__entry->pci, pci_name(dev->pdev), OHCA_TRACE_PCI);
		strscpy(__entry->why, why, 64);
		__entry->reason = reason;
	),
	TP_printk("%s %s (reason %#x)", __entry->pci, __entry->why, __entry->reason)
);

TRACE_EVENT(ohca_recover,

	TP_PROTO(struct pci_dev *pdev, unsigned int attempt, int ret),
	TP_ARGS(pdev, attempt, ret),
	TP_STRUCT__entry(
		__array(char, pci, OHCA_TRACE_PCI)
		__field(unsigned int, attempt)
		__field(int, ret)
	),
	TP_fast_assign(
		strscpy(__entry->pci, pci_name(pdev), OHCA_TRACE_PCI);
		__entry->attempt = attempt;
		__entry->ret = ret;
	),
	TP_printk("%s attempt %u, ret %d", __entry->pci, __entry->attempt, __entry->ret)
);

#endif /* OHCA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
