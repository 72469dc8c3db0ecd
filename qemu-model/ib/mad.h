/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Management datagrams: the common header, classes, methods and statuses
 * (IBTA volume 1, 13.4). A MAD is 256 bytes; every field is big-endian.
 */
#ifndef OHCA_IB_MAD_H
#define OHCA_IB_MAD_H

#include "types.h"

#define IB_MAD_LEN		256u
#define IB_MAD_BASE_VERSION	1u

enum ib_mgmt_class {
	IB_CLASS_SUBN_LID	= 0x01,
	IB_CLASS_SUBN_ADM	= 0x03,
	IB_CLASS_PERF		= 0x04,
	IB_CLASS_BM		= 0x05,
	IB_CLASS_DEV_MGT	= 0x06,
	IB_CLASS_CM		= 0x07,
	IB_CLASS_SNMP		= 0x08,
	IB_CLASS_MLNX		= 0x0A,	/* see mlnx.h */
	IB_CLASS_CC		= 0x21,
	IB_CLASS_SUBN_DR	= 0x81,
};

enum ib_mad_method {
	IB_METHOD_GET		= 0x01,
	IB_METHOD_SET		= 0x02,
	IB_METHOD_SEND		= 0x03,
	IB_METHOD_TRAP		= 0x05,
	IB_METHOD_REPORT	= 0x06,
	IB_METHOD_TRAP_REPRESS	= 0x07,
	IB_METHOD_GET_TABLE	= 0x12,	/* 0x12 to 0x15: subnet administration (15.2.2) */
	IB_METHOD_GET_TRACE_TABLE = 0x13,
	IB_METHOD_GET_MULTI	= 0x14,
	IB_METHOD_DELETE	= 0x15,
	IB_METHOD_RESP		= 0x80,	/* R bit */
	IB_METHOD_GET_RESP	= 0x81,
	IB_METHOD_REPORT_RESP	= 0x86,
	IB_METHOD_GET_TABLE_RESP = 0x92,	/* subnet administration (15.2.2) */
};

/* Status of the common header (13.4.7); in DR SMPs bit 15 is D instead. */
enum ib_mad_status {
	IB_MAD_OK		= 0x0000,
	IB_MAD_BUSY		= 0x0001,
	IB_MAD_REDIRECT		= 0x0002,
	IB_MAD_BAD_VERSION	= 0x0004,	/* base or class version not supported */
	IB_MAD_BAD_METHOD	= 0x0008,
	IB_MAD_BAD_METHOD_ATTR	= 0x000C,	/* method/attribute pair not supported */
	IB_MAD_BAD_FIELD	= 0x001C,	/* invalid value in attribute or modifier */
	IB_SMP_DIRECTION	= 0x8000,	/* D: returning */
};

/* Common attributes (13.4.8). */
enum ib_common_attr {
	IB_ATTR_CLASS_PORT_INFO	= 0x0001,
	IB_ATTR_NOTICE		= 0x0002,
	IB_ATTR_INFORM_INFO	= 0x0003,
};

/**
 * struct ib_mad_hdr - common header (13.4.2), 24 bytes
 *
 * @class_specific: in DR SMPs hop pointer (15:8) and hop count (7:0)
 */
struct ib_mad_hdr {
	uint8_t	base_version;
	uint8_t	mgmt_class;
	uint8_t	class_version;
	uint8_t	method;
	__be16	status;
	__be16	class_specific;
	__be64	tid;
	__be16	attr_id;
	__be16	rsvd;
	__be32	attr_mod;
} IB_PACKED;
static_assert(sizeof(struct ib_mad_hdr) == 24, "MAD header");

/** struct ib_mad - a MAD: common header and data. */
struct ib_mad {
	struct ib_mad_hdr hdr;
	uint8_t	data[232];
} IB_PACKED;
static_assert(sizeof(struct ib_mad) == IB_MAD_LEN, "MAD");

/* The RMPP header, after the common header in classes that use RMPP (13.6.2). */
enum ib_rmpp {
	IB_RMPP_TYPE		= 1,	/* offset of RMPPType in struct ib_mad.data */
	IB_RMPP_FLAGS		= 2,	/* offset of RMPPFlags, with RRespTime in bits 7:3 */
	IB_RMPP_ACTIVE		= 0x01,	/* RMPPFlags */
	IB_RMPP_DATA		= 1,	/* this and the next: values of RMPPType */
	IB_RMPP_ACK		= 2,
	IB_RMPP_STOP		= 3,
	IB_RMPP_ABORT		= 4,
};

/** ib_mad_is_smp() - whether it is of a subnet management class, LID routed or directed route. */
static inline bool ib_mad_is_smp(const struct ib_mad_hdr *h)
{
	return h->mgmt_class == IB_CLASS_SUBN_LID || h->mgmt_class == IB_CLASS_SUBN_DR;
}

/** ib_mad_make_resp() - turn a copied request into GetResp with @status (no D bit). */
static inline void ib_mad_make_resp(struct ib_mad_hdr *h, uint16_t status)
{
	h->method = IB_METHOD_GET_RESP;
	h->status = ib_to_be16(status);
}

/**
 * ib_mad_refuse() - answer a MAD that has no receiver and is no SMP
 *
 * Return: true if it is a Get or Set, turned into the response with IB_MAD_BAD_METHOD_ATTR.
 */
static inline bool ib_mad_refuse(struct ib_mad_hdr *h)
{
	if (h->method != IB_METHOD_GET && h->method != IB_METHOD_SET)
		return false;
	ib_mad_make_resp(h, IB_MAD_BAD_METHOD_ATTR);
	return true;
}

#endif
