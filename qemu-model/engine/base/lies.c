/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lies of the device, see lies.h. */
#include <string.h>

#include "engine/base/features.h"
#include "engine/base/le.h"
#include "engine/base/lies.h"
#include "ib/smp.h"

#define NO_HANDLE	(1u << 24)	/* a number that no object has */
#define FAR		(1u << 24)	/* WQEs; every ring is smaller */
#define GUID_CAP	50u		/* offset of GUIDCap in PortInfo (14.2.5.6) */
#define MOST_LESS	4u		/* most answers with smaller sizes after a reset */
#define RARE		16u		/* one of so many lies that make the driver reset happens */

void ohca_set_lies(ohca_engine *e, uint64_t seed, unsigned int kinds, uint32_t one_of)
{
	atomic_store(&e->lies.one_of, 0);
	atomic_store(&e->lies.state, seed);
	atomic_store(&e->lies.kinds, kinds);
	atomic_store(&e->lies.one_of, one_of);
}

uint64_t ohca_lies_told(const ohca_engine *e)
{
	return atomic_load_explicit(&e->lies.told, memory_order_relaxed);
}

uint64_t ohca_lies_number(ohca_engine *e, uint64_t n)
{
	const uint64_t step = 0x9e3779b97f4a7c15ull;
	uint64_t z = atomic_fetch_add_explicit(&e->lies.state, step, memory_order_relaxed) + step;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

bool ohca_lies_turn(ohca_engine *e, unsigned int kind)
{
	uint32_t one_of = atomic_load_explicit(&e->lies.one_of, memory_order_relaxed);

	return one_of && atomic_load_explicit(&e->lies.kinds, memory_order_relaxed) & kind &&
	       !ohca_lies_number(e, one_of);
}

void ohca_lies_tell(ohca_engine *e)
{
	atomic_fetch_add_explicit(&e->lies.told, 1, memory_order_relaxed);
}

/* Change a field. Return: false if the new value equals the old one. */
static bool change(ohca_engine *e, uint8_t *at, size_t len)
{
	static const uint64_t edges[] = {
		0, 1, 2, 3, 7, 255, 4095, 65535, 65536, (1u << 24) - 1, INT32_MAX, 1u << 31,
		UINT32_MAX, INT64_MAX, UINT64_MAX,
	};
	size_t size = (size_t)1 << ohca_lies_number(e, 4);
	__le64 le;
	uint64_t v;
	bool same;

	if (size > len)
		size = 1;
	switch (ohca_lies_number(e, 4)) {
	case 0:
		at[ohca_lies_number(e, len)] ^= (uint8_t)(1u << ohca_lies_number(e, 8));
		return true;
	case 1:
		v = ohca_lies_number(e, UINT64_MAX);
		break;
	case 2:
		v = ohca_lies_number(e, 64);
		break;
	default:
		v = edges[ohca_lies_number(e, sizeof(edges) / sizeof(edges[0]))];
	}
	le = ohca_to_le64(v);
	at += ohca_lies_number(e, len / size) * size;
	same = !memcmp(at, &le, size);
	memcpy(at, &le, size);
	return !same;
}

void ohca_lies_change(ohca_engine *e, void *at, size_t len)
{
	while (!change(e, at, len))
		;
}

uint64_t ohca_lie_in_register(ohca_engine *e, uint64_t v, unsigned int size)
{
	__le64 le = ohca_to_le64(v);

	if (!ohca_lies(e) || !ohca_lies_turn(e, OHCA_LIE_REGISTER))
		return v;
	ohca_lies_change(e, &le, size);
	ohca_lies_tell(e);
	return ohca_le64(le);
}

/* ---- entries ---------------------------------------------------------------------- */

/* Change a field that describes the result of the WQE, not one that identifies the WQE. */
static void lie_in_result(ohca_engine *e, struct ohca_hw_cqe *cqe)
{
	struct {
		void *at;
		size_t len;
	} field[] = {
		{ &cqe->status, sizeof(cqe->status) },
		{ &cqe->opcode, sizeof(cqe->opcode) },
		{ &cqe->vendor_err, sizeof(cqe->vendor_err) },
		{ &cqe->byte_len, sizeof(cqe->byte_len) },
		{ &cqe->imm, sizeof(cqe->imm) },
		{ &cqe->src_qp, sizeof(cqe->src_qp) },
		{ &cqe->wc_flags, sizeof(cqe->wc_flags) },
		{ &cqe->tag, sizeof(cqe->tag) },
		{ &cqe->timestamp, sizeof(cqe->timestamp) },
	};
	uint64_t i = ohca_lies_number(e, sizeof(field) / sizeof(field[0]));

	ohca_lies_change(e, field[i].at, field[i].len);
	ohca_lies_tell(e);
}

/* Change the entry so that it names no outstanding WQE of any queue. */
static void lie_in_place(ohca_engine *e, struct ohca_hw_cqe *cqe, bool kernel)
{
	uint32_t far = FAR << ohca_lies_number(e, 8);

	cqe->wqe_idx = ohca_to_le32(ohca_le32(cqe->wqe_idx) ^ far);
	if (kernel)
		cqe->wr_id = ohca_to_le64(ohca_le64(cqe->wr_id) | far);
	ohca_lies_tell(e);
}

/*
 * Change the entry so that it names a WQE that does not exist, or one that is complete. Return:
 * true to write the entry twice instead.
 */
static bool lie_in_name(ohca_engine *e, struct ohca_hw_cqe *cqe, bool kernel)
{
	uint32_t v = (uint32_t)ohca_lies_number(e, 1ull << 32);

	switch (ohca_lies_number(e, 5)) {
	case 0:
		cqe->qp_num = ohca_to_le32(v | NO_HANDLE);
		ohca_lies_tell(e);
		return false;
	case 1:
		/*
		 * not if a new WQE may have the same index: in an SRQ, or in the next round of a
		 * ring whose indices do not run free
		 */
		return !(cqe->flags & OHCA_CQE_SRQ) && ohca_feature(e, OHCA_FEATURE_QP_RESIZE);
	case 2:
		if (!(cqe->flags & (OHCA_CQE_SRQ | OHCA_CQE_XRC | OHCA_CQE_TM)) &&
		    ohca_feature(e, OHCA_FEATURE_QP_RESIZE)) {
			cqe->wqe_idx = ohca_to_le32(ohca_le32(cqe->wqe_idx) - 1 - v % 256);
			ohca_lies_tell(e);
			return false;
		}
		break;
	case 3:
		cqe->flags ^= (uint8_t)v;
		break;
	default:
		break;
	}
	lie_in_place(e, cqe, kernel);
	return false;
}

bool ohca_lie_in_cqe(ohca_engine *e, struct ohca_hw_cqe *cqe, bool kernel)
{
	if (ohca_lies_turn(e, OHCA_LIE_CQE_RESULT))
		lie_in_result(e, cqe);
	return ohca_lies_turn(e, OHCA_LIE_CQE_NAME) && lie_in_name(e, cqe, kernel);
}

void ohca_lie_in_eqe(ohca_engine *e, void *eqe)
{
	if (!ohca_lies_turn(e, OHCA_LIE_EQE))
		return;
	ohca_lies_change(e, eqe, offsetof(struct ohca_hw_eqe, phase));
	ohca_lies_tell(e);
}

/* ---- commands --------------------------------------------------------------------- */

/* Make a size of 1, 2 or 4 bytes smaller. Return: false if it was 0. */
static bool lessen(ohca_engine *e, uint8_t *at, size_t len)
{
	unsigned int shift = 1 + (unsigned int)ohca_lies_number(e, 8 * len);
	__le32 le = 0;
	uint32_t v;

	memcpy(&le, at, len);
	v = ohca_le32(le);
	le = ohca_to_le32(shift < 32 ? v >> shift : 0);
	memcpy(at, &le, len);
	return v;
}

#define SIZE(field) \
	{ offsetof(struct ohca_hw_device_attr, field), \
	  sizeof(((struct ohca_hw_device_attr *)0)->field) }

/* Make one of the device's sizes smaller. */
static bool lessen_attr(ohca_engine *e, uint8_t *attr, size_t n)
{
	static const struct {
		size_t at, len;
	} size[] = {
		SIZE(max_qp), SIZE(max_cq), SIZE(max_mr), SIZE(max_pd), SIZE(max_srq), SIZE(max_eq),
		SIZE(max_frmr_pages), SIZE(log_max_sq_bbs), SIZE(log_max_rq_wqes),
		SIZE(log_max_srq_wqes), SIZE(log_max_cqe), SIZE(max_sge), SIZE(max_sge_rd),
		SIZE(max_inline), SIZE(max_pkeys), SIZE(num_ports), SIZE(log_max_gids),
		SIZE(num_counters), SIZE(log_max_faults),
	};
	uint64_t i = ohca_lies_number(e, sizeof(size) / sizeof(size[0]));

	return size[i].at + size[i].len <= n && lessen(e, attr + size[i].at, size[i].len);
}

/* Make the GUIDCap of a PortInfo smaller. */
static bool lessen_port_info(ohca_engine *e, uint8_t *mad, size_t n)
{
	const struct ib_mad_hdr *hdr = (const void *)mad;

	return n == IB_MAD_LEN && ib_mad_is_smp(hdr) &&
	       ib_be16(hdr->attr_id) == IB_SMP_ATTR_PORT_INFO &&
	       lessen(e, mad + offsetof(struct ib_smp, data) + GUID_CAP, 1);
}

/* Make a size smaller, if the answer contains one and is one of the first after a reset. */
static bool lie_in_size(ohca_engine *e, uint8_t opcode, uint8_t *out, size_t n)
{
	struct ohca_lies *l = &e->lies;
	bool less;

	if (!ohca_lies_turn(e, OHCA_LIE_LESS))
		return false;
	if (!l->less_set) {
		l->less_set = true;
		l->less = 1 + (uint32_t)ohca_lies_number(e, MOST_LESS);
	}
	if (!l->less)
		return false;
	less = (opcode == OHCA_CMD_QUERY_DEVICE && lessen_attr(e, out, n)) ||
	       (opcode == OHCA_CMD_MAD_IFC && lessen_port_info(e, out, n));
	l->less -= less;
	return less;
}

const void *ohca_lie_in_mbox(ohca_engine *e, uint8_t opcode, void *copy, const void *buf, size_t n)
{
	bool lie;

	if (n > OHCA_MAILBOX_SIZE)
		return buf;
	memcpy(copy, buf, n);
	lie = lie_in_size(e, opcode, copy, n);
	if (ohca_lies_turn(e, OHCA_LIE_OUTPUT)) {
		ohca_lies_change(e, copy, n);
		lie = true;
	}
	if (lie)
		ohca_lies_tell(e);
	return copy;
}

void ohca_lies_reset(ohca_engine *e)
{
	e->lies.is_late = false;
	e->lies.less_set = false;
}

/*
 * As ohca_lies_turn(), but rarely true if @ends_device: a driver resets a device that refuses to
 * destroy an object, or that returned a wrong number for it. Such lies leave little time for
 * others.
 */
static bool command_turn(ohca_engine *e, unsigned int kind, bool ends_device)
{
	if (ends_device && atomic_load_explicit(&e->lies.one_of, memory_order_relaxed) > 1 &&
	    ohca_lies_number(e, RARE))
		return false;
	return ohca_lies_turn(e, kind);
}

static bool destroys(uint8_t opcode)
{
	switch (opcode) {
	case OHCA_CMD_DESTROY_EQ:
	case OHCA_CMD_DEALLOC_PD:
	case OHCA_CMD_DESTROY_CQ:
	case OHCA_CMD_DESTROY_SRQ:
	case OHCA_CMD_DESTROY_QP:
	case OHCA_CMD_DEREG_MR:
	case OHCA_CMD_DEALLOC_XRCD:
	case OHCA_CMD_FREE_DM:
	case OHCA_CMD_FREE_COUNTERS:
		return true;
	default:
		return false;
	}
}

/* Whether the answer contains the number of a new object. */
static bool creates(uint8_t opcode)
{
	switch (opcode) {
	case OHCA_CMD_CREATE_EQ:
	case OHCA_CMD_ALLOC_PD:
	case OHCA_CMD_CREATE_CQ:
	case OHCA_CMD_CREATE_SRQ:
	case OHCA_CMD_CREATE_QP:
	case OHCA_CMD_REG_MR:
	case OHCA_CMD_REREG_MR:
	case OHCA_CMD_ALLOC_XRCD:
	case OHCA_CMD_ALLOC_DM:
	case OHCA_CMD_ALLOC_COUNTERS:
		return true;
	default:
		return false;
	}
}

/* Whether the driver relies on the success of a command: it frees memory then, or waits. */
static bool is_relied_on(uint8_t opcode)
{
	switch (opcode) {
	case OHCA_CMD_NOP:
	case OHCA_CMD_QUERY_DEVICE:
	case OHCA_CMD_MODIFY_DEVICE:
	case OHCA_CMD_MODIFY_PORT:
	case OHCA_CMD_MAD_IFC:
	case OHCA_CMD_QUERY_COUNTERS:
	case OHCA_CMD_QUERY_CONTEXT:
	case OHCA_CMD_CREATE_EQ:
	case OHCA_CMD_ALLOC_PD:
	case OHCA_CMD_CREATE_CQ:
	case OHCA_CMD_MODIFY_CQ:
	case OHCA_CMD_CREATE_SRQ:
	case OHCA_CMD_MODIFY_SRQ:
	case OHCA_CMD_QUERY_SRQ:
	case OHCA_CMD_CREATE_QP:
	case OHCA_CMD_QUERY_QP:
	case OHCA_CMD_REG_MR:
	case OHCA_CMD_ATTACH_MCAST:
	case OHCA_CMD_ALLOC_XRCD:
	case OHCA_CMD_ALLOC_DM:
	case OHCA_CMD_ALLOC_COUNTERS:
	case OHCA_CMD_QUERY_COUNTER_SET:
	case OHCA_CMD_BIND_COUNTERS:
		return false;
	default:
		return true;
	}
}

/* Whether the driver relies on the refusal of a command: it frees the new buffer then. */
static bool moves(uint8_t opcode)
{
	return opcode == OHCA_CMD_RESIZE_CQ || opcode == OHCA_CMD_RESIZE_SRQ ||
	       opcode == OHCA_CMD_RESIZE_QP || opcode == OHCA_CMD_REREG_MR;
}

bool ohca_lie_in_status(ohca_engine *e, uint8_t opcode, bool *execute, int *status)
{
	if (!command_turn(e, OHCA_LIE_STATUS, destroys(opcode)))
		return false;
	*execute = !moves(opcode) && ohca_lies_number(e, 2);
	*status = (int)ohca_lies_number(e, OHCA_ADMIN_DMA + 4);
	if (!*status && (*execute || is_relied_on(opcode)))
		*status = OHCA_ADMIN_DMA + 4;
	return true;
}

enum ohca_late ohca_lie_in_answer(ohca_engine *e, struct ohca_hw_acqe *rsp)
{
	const size_t body = offsetof(struct ohca_hw_acqe, body);

	if (command_turn(e, OHCA_LIE_OUTPUT, creates(rsp->opcode))) {
		rsp->opcode ^= (uint8_t)ohca_lies_number(e, 256);
		ohca_lies_change(e, &rsp->syndrome, sizeof(rsp->syndrome));
		/* most answers consist of one number */
		ohca_lies_change(e, rsp->body, sizeof(rsp->handle.handle));
		ohca_lies_change(e, (uint8_t *)rsp + body,
				 offsetof(struct ohca_hw_acqe, phase) - body);
		ohca_lies_tell(e);
	}
	if (!ohca_lies_turn(e, OHCA_LIE_ANSWER))
		return OHCA_ANSWER_NOW;
	ohca_lies_tell(e);
	switch (ohca_lies_number(e, 4)) {
	case 0:
		ohca_lies_change(e, &rsp->cookie, sizeof(rsp->cookie));
		return OHCA_ANSWER_NOW;
	case 1:
		return OHCA_ANSWER_LATE;
	default:
		return OHCA_ANSWER_TWICE;
	}
}
