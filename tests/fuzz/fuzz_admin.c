/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest without good intentions: libFuzzer writes admin queue entries, mailboxes, page
 * tables and rings, rings doorbells, pokes registers, pulls memory and cables away, while
 * its QPs send. Two ports of one engine are joined, so that what a QP sends comes back.
 *
 * The input is a program: one byte says what to do, the bytes after it are operands. What
 * it writes are mostly good commands with a few bytes changed; otherwise nothing would get
 * past the first check.
 */
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/management/mad.h"
#include "engine/object/context.h"
#include "engine/object/cq.h"
#include "engine/object/eq.h"
#include "engine/object/fault.h"
#include "engine/object/mr.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "host.h"
#include "ohca_hw.h"

#define MEM		(2u << 20)
#define SCRATCH		64u	/* pages that commands point into */
#define MAX_OPS		400u
#define START_PAGES	120u	/* what start() takes */
#define MR_LEN		(8u * HOST_PAGE)
enum { QP_RC0, QP_RC1, QP_UC0, QP_UC1, QP_UD, QPS };

struct input {
	const uint8_t *p, *end;
};

struct guest {
	struct host *h;
	struct input in;
	uint64_t scratch;
	bool wild;		/* registers were poked: no command can be waited for */
	uint32_t qp, cq, srq, mr, pd, eq, dm, xrcd;	/* last ones made */
	/* good ones, until commands spoil them */
	struct host_cq cqs;
	struct host_srq srqs;
	struct host_qp qps[QPS];
	struct host_mr mem;
};

static uint8_t get(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static uint64_t get_n(struct input *in, unsigned int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | get(in);
	return v;
}

/* The attributes that a QP needs to get to a state. */
static uint32_t needed(ohca_engine *e, uint32_t qpn, uint8_t to)
{
	const struct ohca_qp *qp = ohca_qp_get(e, qpn);
	bool rc = qp && qp->type == OHCA_QPT_RC, uc = qp && qp->type == OHCA_QPT_UC;
	uint32_t m = OHCA_ATTR_STATE;

	if (to == OHCA_QPS_INIT)
		m |= OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT |
		     (rc || uc ? OHCA_ATTR_ACCESS : OHCA_ATTR_QKEY);
	else if (to == OHCA_QPS_RTR && (rc || uc))
		m |= OHCA_ATTR_AV | OHCA_ATTR_PATH_MTU | OHCA_ATTR_DEST_QPN | OHCA_ATTR_RQ_PSN |
		     (rc ? OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER : 0);
	else if (to == OHCA_QPS_RTS && qp && qp->state == OHCA_QPS_RTR)
		m |= OHCA_ATTR_SQ_PSN |
		     (rc ? OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT | OHCA_ATTR_RNR_RETRY |
			   OHCA_ATTR_MAX_RD_ATOMIC : 0);
	return m;
}

/* An object number: mostly the last one, or one near it. */
static uint32_t handle(struct guest *g, uint32_t last)
{
	uint8_t b = get(&g->in);

	return b < 128 ? last : b < 250 ? b & 15 : (uint32_t)get_n(&g->in, 4);
}

static uint64_t page(struct guest *g)
{
	return g->scratch + (uint64_t)(get(&g->in) % SCRATCH) * HOST_PAGE;
}

static struct ohca_hw_pl list(struct guest *g)
{
	uint8_t b = get(&g->in);

	return (struct ohca_hw_pl){
		.root = page(g),
		.npages = 1u << (b & 7),
		.page_shift = 12,
		.levels = b >> 6,
	};
}

/* A command that would be good, as far as its kind goes. */
static void compose(struct guest *g, uint8_t op, struct ohca_hw_aqe *c)
{
	struct host *h = g->h;
	const struct ohca_srq *srq;
	uint8_t b = get(&g->in);

	switch (op) {
	case OHCA_CMD_CREATE_EQ:
		c->create_eq = (struct ohca_cmd_create_eq){
			.pl = list(g), .log_size = 5 + (b & 3), .vector = b >> 6,
		};
		break;
	case OHCA_CMD_CREATE_CQ:
		c->create_cq = (struct ohca_cmd_create_cq){
			.pl = list(g), .eqn = b & 64 ? g->eq : h->comp.eqn, .log_size = b & 7,
			.uar = b >> 7,
		};
		break;
	case OHCA_CMD_RESIZE_CQ:
		c->resize_cq = (struct ohca_cmd_resize_cq){
			.pl = list(g), .cqn = handle(g, g->cq), .log_size = b & 7, .ci = b >> 4,
		};
		break;
	case OHCA_CMD_MODIFY_CQ:
		c->modify_cq = (struct ohca_cmd_modify_cq){
			.cqn = handle(g, g->cq), .count = b & 15, .period_us = b >> 4,
		};
		break;
	case OHCA_CMD_CREATE_SRQ:
		c->create_srq = (struct ohca_cmd_create_srq){
			.pl = list(g), .pdn = handle(g, g->pd), .limit = b & 3,
			.log_size = b & 7, .log_stride = 6 + (b >> 6),
		};
		if ((b & 0x38) == 0x08) {
			c->create_srq.type = OHCA_SRQT_TM;
			c->create_srq.log_ops = b & 3;
			c->create_srq.num_tags = 1 + (b & 7);
		} else if ((b & 0x38) == 0x10) {
			c->create_srq.type = OHCA_SRQT_XRC;
			c->create_srq.xrcdn = handle(g, g->xrcd);
		}
		if (c->create_srq.type)
			c->create_srq.cqn = handle(g, g->cq);
		break;
	case OHCA_CMD_RESIZE_SRQ:
		c->resize_srq = (struct ohca_cmd_resize_srq){
			.pl = list(g), .srqn = handle(g, g->srq), .log_size = b & 7,
			.flags = b >> 7, .limit = b & 0x80 ? b >> 4 & 7 : 0,
		};
		break;
	case OHCA_CMD_MODIFY_SRQ:
		c->modify_srq = (struct ohca_cmd_modify_srq){
			.srqn = handle(g, g->srq), .limit = b & 15,
		};
		break;
	case OHCA_CMD_CREATE_QP:
		c->create_qp = (struct ohca_cmd_create_qp){
			.pl = list(g), .pdn = handle(g, g->pd), .send_cqn = handle(g, g->cq),
			.recv_cqn = handle(g, g->cq), .type = b % 5,
			.port = b % 5 < 2 ? 1 + (b >> 7) : 0,
			.flags = b & 16 ? OHCA_QP_PRIVILEGED : 0, .log_sq = 4,
			.log_rq = 3, .log_rq_stride = 6 + (b >> 6),
		};
		if (b & 32) {
			c->create_qp.flags |= OHCA_QP_SRQ;
			c->create_qp.srqn = handle(g, g->srq);
			srq = ohca_srq_get(h->e, c->create_qp.srqn);
			if (srq && srq->tm)
				c->create_qp.log_sq = 0;
		}
		break;
	case OHCA_CMD_MODIFY_QP:
		c->modify_qp.handle = handle(g, g->qp);
		c->modify_qp.attr_mask = b & 128 ? (uint32_t)get_n(&g->in, 4) :
						   needed(h->e, c->modify_qp.handle, b & 7);
		c->modify_qp.addr = page(g);
		if (!(b & 64)) {
			struct ohca_hw_qp_attr a = {
				.state = b & 7, .path_mtu = 1 + (b >> 3 & 3),
				.dest_qpn = handle(g, g->qp), .access = 15, .max_rd_atomic = 2,
				.max_dest_rd_atomic = 2, .port = 1, .timeout = 8,
				.retry_cnt = 1, .rnr_retry = 1, .min_rnr_timer = 1,
				.qkey = 0x80010000, .av = { .dlid = 1 + (b >> 5 & 1) },
			};

			memcpy(host_ptr(h, c->modify_qp.addr), &a, sizeof(a));
		}
		break;
	case OHCA_CMD_RESIZE_QP:
		c->resize_qp = (struct ohca_cmd_resize_qp){
			.pl = list(g), .handle = handle(g, g->qp), .log_sq = b & 7,
			.log_rq = b & 0x80 ? b >> 4 & 7 : 0,
		};
		/* any byte in each field */
		if ((b & 0x78) == 0x78) {
			c->resize_qp.log_sq = get(&g->in);
			c->resize_qp.log_rq = get(&g->in);
			c->resize_qp.reserved = get(&g->in);
		}
		break;
	case OHCA_CMD_REG_MR:
	case OHCA_CMD_REREG_MR:
		c->reg_mr = (struct ohca_cmd_reg_mr){
			.pdn = handle(g, g->pd), .type = b % 6, .access = b >> 3,
		};
		if (c->reg_mr.type == 5 && b & 128) {
			c->reg_mr.type = OHCA_MR_ODP;
			c->reg_mr.pl.page_shift = 12;
			c->reg_mr.length = (uint64_t)HOST_PAGE << (b & 15);
		} else if (c->reg_mr.type == OHCA_MR_USER) {
			c->reg_mr.pl = list(g);
			c->reg_mr.length = (uint64_t)c->reg_mr.pl.npages << 12;
		} else if (c->reg_mr.type == OHCA_MR_FRMR) {
			c->reg_mr.length = 4;
		} else if (c->reg_mr.type == OHCA_MR_DM) {
			c->reg_mr.dm = handle(g, g->dm);
			c->reg_mr.length = b << 4;
			c->reg_mr.pl_offset = get(&g->in);
			c->reg_mr.access |= OHCA_ACCESS_ZERO_BASED;
		}
		if (op == OHCA_CMD_REREG_MR) {
			c->reg_mr.key = handle(g, g->mr);
			c->reg_mr.rereg = 1 + (b & 7);
		}
		break;
	case OHCA_CMD_UPDATE_MR_PAGES:
		c->update_mr = (struct ohca_cmd_update_mr){
			.addr = page(g), .first = get(&g->in) & 31, .npages = b & 15,
			.key = handle(g, g->mr), .flags = b >> 7,
		};
		if (c->update_mr.flags & OHCA_UPDATE_MR_INVALIDATE)
			c->update_mr.addr = 0;
		break;
	case OHCA_CMD_PAGE_FAULT_RESUME:
		c->fault_resume.id = b & 1 ? (uint32_t)get_n(&g->in, 4) : h->e->fault[b >> 1].id;
		c->fault_resume.flags = get(&g->in) & 1;
		break;
	case OHCA_CMD_DEALLOC_XRCD:
		c->handle.handle = handle(g, g->xrcd);
		break;
	case OHCA_CMD_BIND_COUNTERS:
		c->bind_counters.qp = handle(g, g->qp);
		c->bind_counters.set = b & 3;
		break;
	case OHCA_CMD_QUERY_CONTEXT:
		c->query_context = (struct ohca_cmd_query_context){
			.kind = b & 7, .addr = page(g), .handle = handle(g, b & 1 ? g->qp : g->srq),
		};
		break;
	case OHCA_CMD_ATTACH_MCAST:
	case OHCA_CMD_DETACH_MCAST:
		c->mcast.qp = handle(g, g->qp);
		c->mcast.mgid[0] = 0xff;
		c->mcast.mgid[15] = b & 3;
		break;
	case OHCA_CMD_MAD_IFC:
		c->mad_ifc = (struct ohca_cmd_mad_ifc){
			.in_addr = page(g), .out_addr = page(g), .port = 1 + (b & 1),
			.flags = b >> 6,
		};
		break;
	case OHCA_CMD_MODIFY_PORT:
		c->modify_port = (struct ohca_cmd_modify_port){
			.port = 1 + (b & 1), .set_caps = b & 2, .clr_caps = b & 4 ? 1u << 16 : 0,
		};
		break;
	case OHCA_CMD_ALLOC_PD:
		c->alloc_pd.uar = b >> 7;
		break;
	case OHCA_CMD_DESTROY_CQ:
		c->handle.handle = handle(g, g->cq);
		break;
	case OHCA_CMD_DESTROY_SRQ:
	case OHCA_CMD_QUERY_SRQ:
		c->handle.handle = handle(g, g->srq);
		break;
	case OHCA_CMD_DESTROY_QP:
		c->handle.handle = handle(g, g->qp);
		break;
	case OHCA_CMD_QUERY_QP:
		c->handle.handle = handle(g, g->qp);
		c->handle.addr = page(g);
		break;
	case OHCA_CMD_DESTROY_EQ:
		c->handle.handle = handle(g, g->eq);
		break;
	case OHCA_CMD_DEALLOC_PD:
		c->handle.handle = handle(g, g->pd);
		break;
	case OHCA_CMD_ALLOC_DM:
		c->alloc_dm.length = (uint64_t)b << 6;
		c->alloc_dm.log_align = b >> 4;
		break;
	case OHCA_CMD_FREE_DM:
		c->handle.handle = handle(g, g->dm);
		break;
	case OHCA_CMD_DEREG_MR:
		c->handle.handle = handle(g, g->mr);
		break;
	case OHCA_CMD_QUERY_DEVICE:
	case OHCA_CMD_MODIFY_DEVICE:
	case OHCA_CMD_QUERY_COUNTERS:
		c->mbox.addr = page(g);
		break;
	default:
		for (unsigned int i = 0; i < sizeof(c->body); i++)
			c->body[i] = get(&g->in);
	}
	/* and a few bytes otherwise */
	if (b & 1)
		return;
	for (unsigned int n = get(&g->in) & 3; n; n--) {
		uint8_t at = get(&g->in) % sizeof(c->body);

		c->body[at] = get(&g->in);
	}
}

static void command(struct guest *g)
{
	static const uint8_t ops[] = {
		OHCA_CMD_NOP, OHCA_CMD_QUERY_DEVICE, OHCA_CMD_MODIFY_DEVICE,
		OHCA_CMD_MODIFY_PORT, OHCA_CMD_MAD_IFC, OHCA_CMD_QUERY_COUNTERS,
		OHCA_CMD_CREATE_EQ, OHCA_CMD_DESTROY_EQ, OHCA_CMD_ALLOC_PD, OHCA_CMD_DEALLOC_PD,
		OHCA_CMD_CREATE_CQ, OHCA_CMD_DESTROY_CQ, OHCA_CMD_MODIFY_CQ, OHCA_CMD_RESIZE_CQ,
		OHCA_CMD_CREATE_SRQ, OHCA_CMD_DESTROY_SRQ, OHCA_CMD_MODIFY_SRQ,
		OHCA_CMD_QUERY_SRQ, OHCA_CMD_CREATE_QP, OHCA_CMD_DESTROY_QP, OHCA_CMD_MODIFY_QP,
		OHCA_CMD_QUERY_QP, OHCA_CMD_REG_MR, OHCA_CMD_DEREG_MR, OHCA_CMD_REREG_MR,
		OHCA_CMD_ATTACH_MCAST, OHCA_CMD_DETACH_MCAST, OHCA_CMD_ALLOC_DM, OHCA_CMD_FREE_DM,
	};
	/* behind whole rounds of the first */
	static const uint8_t more[] = {
		OHCA_CMD_UPDATE_MR_PAGES, OHCA_CMD_PAGE_FAULT_RESUME, OHCA_CMD_ALLOC_XRCD,
		OHCA_CMD_DEALLOC_XRCD, OHCA_CMD_ALLOC_COUNTERS, OHCA_CMD_BIND_COUNTERS,
		OHCA_CMD_QUERY_CONTEXT, OHCA_CMD_RESIZE_SRQ, OHCA_CMD_RESIZE_QP,
	};
	enum { FIRST = 8 * sizeof(ops), LAST = FIRST + sizeof(more) };
	struct host *h = g->h;
	uint8_t b = get(&g->in);
	uint8_t op = b < FIRST ? ops[b % sizeof(ops)] : b < LAST ? more[b - FIRST] : get(&g->in);
	struct ohca_hw_aqe c = { 0 };
	struct ohca_hw_acqe r;

	compose(g, op, &c);
	/* the admin rings must not have been pulled away: host_cmd() waits for them */
	h->hole_len = 0;
	if (g->wild || !ohca_running(h->e) || host_cmd(h, op, &c, &r))
		return;
	switch (op) {
	case OHCA_CMD_CREATE_EQ:
		g->eq = r.handle.handle;
		break;
	case OHCA_CMD_ALLOC_PD:
		g->pd = r.handle.handle;
		break;
	case OHCA_CMD_CREATE_CQ:
		g->cq = r.handle.handle;
		break;
	case OHCA_CMD_CREATE_SRQ:
		g->srq = r.handle.handle;
		break;
	case OHCA_CMD_CREATE_QP:
		g->qp = r.handle.handle;
		break;
	case OHCA_CMD_REG_MR:
		g->mr = r.handle.handle;
		break;
	case OHCA_CMD_ALLOC_DM:
		g->dm = r.handle.handle;
		break;
	case OHCA_CMD_ALLOC_XRCD:
		g->xrcd = r.handle.handle;
		break;
	default:
		break;
	}
}

/* A page table over scratch pages, or bytes of the input. */
static void write_memory(struct guest *g)
{
	uint64_t at = page(g);
	uint8_t b = get(&g->in);
	uint8_t *p = host_ptr(g->h, at);

	if (b & 128) {
		for (unsigned int i = 0; i < 64; i++)
			((uint64_t *)(void *)p)[i] = g->scratch +
				(uint64_t)((i * (b & 7) + b) % SCRATCH) * HOST_PAGE;
		return;
	}
	p += (b & 63) * 64;
	for (unsigned int n = 1 + get(&g->in) % 64; n; n--)
		*p++ = get(&g->in);
}

static void doorbell(struct guest *g)
{
	uint8_t b = get(&g->in);
	uint32_t off = (b & 7) * 8u;
	uint64_t v;

	switch (off) {
	case OHCA_UAR_SRQ:
		v = g->srq;
		break;
	case OHCA_UAR_CQ_ARM:
		v = g->cq | (uint64_t)(b >> 3 & 7) << 24;
		break;
	case OHCA_UAR_EQ:
		v = g->h->comp.eqn | (uint64_t)get(&g->in) << 16;
		break;
	default:
		v = g->qp;
	}
	v |= (uint64_t)get(&g->in) << 32;
	if (b & 64)
		v = get_n(&g->in, 8);
	ohca_doorbell(g->h->e, b >> 7, off, v, b == 0x55 ? 4 : 8);
}

static void port(struct guest *g)
{
	uint8_t b = get(&g->in);
	struct ib_smp s = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID, .class_version = 1,
			 .method = b & 1 ? IB_METHOD_SET : IB_METHOD_GET,
			 .attr_id = ib_to_be16(0x10 + (b >> 3 & 31)) },
	};

	if (b & 2) {
		host_cable(g->h, 0, b & 4);
		return;
	}
	for (unsigned int i = 0; i < sizeof(s.data) && (b & 1); i++)
		s.data[i] = get(&g->in);
	g->h->hole_len = 0;
	if (!g->wild && ohca_running(g->h->e))
		host_mad_ifc(g->h, b >> 2 & 1, (uint8_t *)&s);
}

static void forget(struct guest *g)
{
	host_buf_free(&g->cqs.buf);
	host_buf_free(&g->srqs.buf);
	host_buf_free(&g->mem.buf);
	for (unsigned int i = 0; i < QPS; i++)
		host_buf_free(&g->qps[i].buf);
}

/* Queue pairs that are connected, and all that they need. */
static void objects(struct guest *g)
{
	struct host_qp_init in = { .scq = &g->cqs, .rcq = &g->cqs, .log_sq = 4, .log_rq = 3,
				   .flags = OHCA_QP_PRIVILEGED };
	struct host *h = g->h;

	host_cq_create(h, &g->cqs, 6, 0);
	host_srq_create(h, &g->srqs, 3, h->pdn, 0, 2);
	host_mr_create(h, &g->mem, MR_LEN, h->pdn, 0x1f);
	for (unsigned int i = 0; i < QPS; i++) {
		in.type = i <= QP_RC1 ? OHCA_QPT_RC : i <= QP_UC1 ? OHCA_QPT_UC : OHCA_QPT_UD;
		in.srq = i == QP_RC1 ? &g->srqs : NULL;
		if (host_qp_create(h, &g->qps[i], &in))
			abort();
	}
	for (unsigned int i = 0; i < QP_UD; i++)
		host_qp_connect(&g->qps[i], i & 1, 2 - (i & 1), g->qps[i ^ 1].qpn, 1, i, i ^ 1);
	host_qp_datagram(&g->qps[QP_UD], 0, 0x11);
	g->qp = g->qps[QP_RC0].handle;
	g->cq = g->cqs.cqn;
	g->srq = g->srqs.srqn;
	g->mr = g->mem.key;
}

/* Work requests that are good, but for a byte now and then. */
static void post(struct guest *g)
{
	uint8_t b = get(&g->in), at = get(&g->in);
	struct host_qp *qp = &g->qps[b % QPS];
	bool ud = b % QPS == QP_UD;
	struct ohca_hw_sge sge = host_sge(g->mem.iova + at, 16u * (b >> 4), g->mem.key);
	struct ohca_hw_wqe_ctrl ctrl = { .wr_id = at, .flags = OHCA_WQE_SIGNALED };
	struct ohca_hw_wqe_raddr raddr = { .raddr = g->mem.iova + 8u * at, .rkey = g->mem.key };
	struct ohca_hw_wqe_atomic atomic = { .swap_add = b, .compare = at };
	struct ohca_hw_av av = { .dqpn = g->qps[QP_UD].qpn, .qkey = 0x11,
				 .dlid = (uint16_t)(1 + (b & 1)) };
	struct ohca_hw_wqe_reg reg = { .key = g->mr, .access = at, .iova = g->mem.iova,
				       .length = at, .mr_key = g->mem.key };
	uint8_t wqe[16 * 16] = { 0 };
	unsigned int n = 1;

	if (b & 8) {
		if (qp == &g->qps[QP_RC1])
			host_srq_post(&g->srqs, at, &sge, 1);
		else
			host_post_recv(qp, at, &sge, 1);
		return;
	}
#define SEG(x) do { memcpy(wqe + 16 * n, &(x), sizeof(x)); n += sizeof(x) / 16; } while (0)
	ctrl.opcode = ud ? OHCA_OP_SEND + (at & 1) : at % 12;
	if (ctrl.opcode == 11)
		ctrl.opcode = OHCA_OP_REG_MR;
	if (ud)
		SEG(av);
	switch (ctrl.opcode) {
	case OHCA_OP_CMP_SWAP:
	case OHCA_OP_FETCH_ADD:
		sge.length = 8;
		SEG(raddr);
		SEG(atomic);
		SEG(sge);
		break;
	case OHCA_OP_RDMA_WRITE:
	case OHCA_OP_RDMA_WRITE_IMM:
	case OHCA_OP_RDMA_READ:
		sge.length *= 16;
		SEG(raddr);
		SEG(sge);
		break;
	case OHCA_OP_REG_MR:
		reg.pl = list(g);
		/* fallthrough */
	case OHCA_OP_BIND_MW:
		SEG(reg);
		break;
	case OHCA_OP_LOCAL_INV:
		ctrl.inv_key = g->mr;
		break;
	default:
		ctrl.inv_key = g->mr;
		SEG(sge);
	}
#undef SEG
	ctrl.nseg = (uint8_t)n;
	memcpy(wqe, &ctrl, sizeof(ctrl));
	if (at >= 0xf0)
		wqe[get(&g->in) % (16 * n)] = get(&g->in);
	host_post_wqe(qp, wqe, n);
}

static void start(struct guest *g)
{
	struct host *h = g->h;

	if ((h->next_page + START_PAGES) * HOST_PAGE > h->mem_size)
		return;
	h->hole_len = 0;
	host_cable(h, 0, true);
	forget(g);
	host_start(h);
	g->wild = false;
	g->pd = h->pdn;
	host_settle(&h, 1);
	host_port_set(h, 0, 1, IB_PS_ACTIVE);
	host_port_set(h, 1, 2, IB_PS_ACTIVE);
	objects(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ohca_cfg cfg = {
		.node_guid = 0x100, .num_ports = 2, .vl_cap = 8, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .speed_ext_sup = 3, .num_vectors = 4, .num_uars = 2,
		.log_max_qp = 5, .log_max_cq = 4, .log_max_srq = 3, .log_max_mr = 5,
		.dm_size = 65536, .node_desc = "fuzz",
	};
	struct guest g = { .in = { data, data + size } };
	struct host *h = host_new_cfg(&cfg, MEM);
	uint8_t b;

	g.h = h;
	h->e->mem_max = 256 << 10;
	host_connect(h, 0, h, 1);
	g.scratch = host_pages(h, SCRATCH);
	start(&g);
	for (unsigned int i = 0; i < MAX_OPS && g.in.p < g.in.end; i++) {
		b = get(&g.in);
		switch (b % 16) {
		case 0:
			host_run(&h, 1, 1000ull << (b >> 4));
			break;
		case 1:
			h->hole = page(&g);
			h->hole_len = (uint64_t)(b >> 4) * HOST_PAGE;
			break;
		case 2:
			h->pieces = b & 16;
			break;
		case 3:
			port(&g);
			break;
		case 4:
			ohca_mmio_write(h->e, get(&g.in) & ~3u, get_n(&g.in, 8), b & 16 ? 4 : 8);
			g.wild = true;
			break;
		case 5:
			if (b >= 0xf0)
				start(&g);
			break;
		case 6:
		case 7:
			write_memory(&g);
			break;
		case 8:
		case 12:
			post(&g);
			break;
		case 9:
		case 10:
			doorbell(&g);
			break;
		case 11:
			for (unsigned int n = 0; n < 4; n++)
				host_step(&h, 1);
			break;
		default:
			command(&g);
		}
	}
	host_run(&h, 1, HOST_MS);
	forget(&g);
	host_free(h);
	return 0;
}
