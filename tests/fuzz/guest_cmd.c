/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands of the hostile guest. See guest.h. */
#include "engine/base/state.h"
#include "engine/object/fault.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "guest.h"
#include "reach.h"

/* The attributes that a QP needs for the transition to a state. */
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

struct ohca_hw_pl guest_list(struct guest *g)
{
	uint8_t b = get(&g->in);
	struct ohca_hw_pl pl = {
		.root = guest_page(g),
		.npages = 1u << (b & 7),
		.page_shift = 12,
		.levels = b >> 6,
	};
	uint64_t left = SCRATCH - (pl.root - g->scratch) / HOST_PAGE;

	if (g->strict && !pl.levels && pl.npages > left)
		pl.npages = (uint32_t)left;
	return pl;
}

/* Composes a command that is good in its form. */
static void body(struct guest *g, uint8_t op, struct ohca_hw_aqe *c)
{
	struct host *h = g->h;
	const struct ohca_srq *srq;
	uint8_t b = get(&g->in);

	switch (op) {
	case OHCA_CMD_CREATE_EQ:
		c->create_eq = (struct ohca_cmd_create_eq){
			.pl = guest_list(g), .log_size = 5 + (b & 3), .vector = b >> 6,
		};
		break;
	case OHCA_CMD_CREATE_CQ:
		c->create_cq = (struct ohca_cmd_create_cq){
			.pl = guest_list(g), .eqn = b & 64 ? g->eq : h->comp.eqn, .log_size = b & 7,
			.uar = b >> 7,
		};
		break;
	case OHCA_CMD_RESIZE_CQ:
		c->resize_cq = (struct ohca_cmd_resize_cq){
			.pl = guest_list(g), .cqn = handle(g, g->cq), .log_size = b & 7,
			.ci = b >> 4,
		};
		break;
	case OHCA_CMD_MODIFY_CQ:
		c->modify_cq = (struct ohca_cmd_modify_cq){
			.cqn = handle(g, g->cq), .count = b & 15, .period_us = b >> 4,
		};
		break;
	case OHCA_CMD_CREATE_SRQ:
		c->create_srq = (struct ohca_cmd_create_srq){
			.pl = guest_list(g), .pdn = handle(g, g->pd), .limit = b & 3,
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
			.pl = guest_list(g), .srqn = handle(g, g->srq), .log_size = b & 7,
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
			.pl = guest_list(g), .pdn = handle(g, g->pd), .send_cqn = handle(g, g->cq),
			.recv_cqn = handle(g, g->cq), .type = b % 5,
			.port = b % 5 < 2 ? 1 + (b >> 7) : 0,
			.flags = b & 16 && !g->strict ? OHCA_QP_PRIVILEGED : 0,
			.log_sq = 4, .log_rq = 3, .log_rq_stride = 6 + (b >> 6),
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
		c->modify_qp.addr = guest_page(g);
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
			.pl = guest_list(g), .handle = handle(g, g->qp), .log_sq = b & 7,
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
		if (g->strict && c->reg_mr.type == OHCA_MR_DMA)
			c->reg_mr.type = OHCA_MR_USER;
		if (c->reg_mr.type == 5 && b & 128) {
			c->reg_mr.type = OHCA_MR_ODP;
			c->reg_mr.pl.page_shift = 12;
			c->reg_mr.length = (uint64_t)HOST_PAGE << (b & 15);
		} else if (c->reg_mr.type == OHCA_MR_USER) {
			c->reg_mr.pl = guest_list(g);
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
			.addr = guest_page(g), .first = get(&g->in) & 31, .npages = b & 15,
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
			.kind = b & 7, .addr = guest_page(g),
			.handle = handle(g, b & 1 ? g->qp : g->srq),
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
			.in_addr = guest_page(g), .out_addr = guest_page(g), .port = 1 + (b & 1),
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
		c->handle.addr = guest_page(g);
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
		c->mbox.addr = guest_page(g);
		break;
	default:
		for (unsigned int i = 0; i < sizeof(c->body); i++)
			c->body[i] = get(&g->in);
	}
	/* and a few changed bytes */
	if (b & 1 || g->strict)
		return;
	for (unsigned int n = get(&g->in) & 3; n; n--) {
		uint8_t at = get(&g->in) % sizeof(c->body);

		c->body[at] = get(&g->in);
	}
}

/* Attributes of the input for a QP that works; most of them are good. */
static struct ohca_hw_qp_attr attributes(struct guest *g, unsigned int i, uint8_t state)
{
	struct input *in = &g->in;
	uint8_t b = get(in), c = get(in);

	/*
	 * the primary path is that of guest.c or the reverse; the alternate path is the other one
	 */
	return (struct ohca_hw_qp_attr){
		.state = state, .port = (uint8_t)(1 + (b & 1)), .access = b & 15,
		.timeout = c & 31, .retry_cnt = b >> 5, .rnr_retry = c >> 5,
		.max_rd_atomic = b & 3, .max_dest_rd_atomic = b >> 2 & 3,
		.min_rnr_timer = c & 31, .pkey_index = c == 0xff, .qkey = 0x11,
		.path_mig_state = b & 128 ? OHCA_MIG_MIGRATED : OHCA_MIG_REARM,
		.av = { .dlid = (uint16_t)(2 - (b & 1)), .static_rate = c & 16 ? c & 15 : 0,
			.sl = b >> 4 & 1 },
		.alt_av = { .port = (uint8_t)(2 - (i & 1)), .dlid = (uint16_t)(1 + (i & 1)),
			    .static_rate = c & 32 ? 2 : 0 },
		.alt_timeout = 8,
	};
}

void guest_change(struct guest *g)
{
	static const uint32_t rc = OHCA_ATTR_PORT | OHCA_ATTR_AV | OHCA_ATTR_TIMEOUT |
		OHCA_ATTR_RETRY_CNT | OHCA_ATTR_RNR_RETRY | OHCA_ATTR_MAX_RD_ATOMIC |
		OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER;
	static const uint32_t both = OHCA_ATTR_AV | OHCA_ATTR_ACCESS | OHCA_ATTR_PKEY_INDEX;
	static const uint32_t alt = OHCA_ATTR_ALT_PATH | OHCA_ATTR_PATH_MIG_STATE;
	uint8_t b = get(&g->in);
	unsigned int i = b % QPS;
	struct host_qp *q = &g->qps[i];
	const struct ohca_qp *qp = ohca_qp_get(g->h->e, q->handle);
	uint32_t mask = 0, some = (uint32_t)get_n(&g->in, 4);
	struct ohca_hw_qp_attr a;
	uint8_t state;

	g->h->hole_len = 0;
	if (g->wild || !ohca_running(g->h->e) || !qp)
		return;
	state = qp->state;
	a = attributes(g, i, state);
	if (b & 64) {
		/* to SQD and back */
		a.state = state == OHCA_QPS_SQD ? OHCA_QPS_RTS : OHCA_QPS_SQD;
		mask = OHCA_ATTR_STATE;
	} else if (b & 128 && i != QP_UD) {
		mask = a.path_mig_state ? alt : OHCA_ATTR_PATH_MIG_STATE;
	} else if (state == OHCA_QPS_SQD) {
		mask = some & (i == QP_UD ? OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_QKEY :
			       i <= QP_RC1 ? rc | both : both);
	} else {
		mask = some & (i == QP_UD ? OHCA_ATTR_QKEY : OHCA_ATTR_ACCESS);
	}
	if (host_qp_modify(q, mask, &a))
		return;
	reached(REACH_SQD, state == OHCA_QPS_SQD && !(mask & OHCA_ATTR_STATE) && mask);
	reached(REACH_REARM, mask & OHCA_ATTR_ALT_PATH);
}

void guest_compose(struct guest *g, struct ohca_hw_aqe *c)
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
	/* after eight rounds of the first list */
	static const uint8_t more[] = {
		OHCA_CMD_UPDATE_MR_PAGES, OHCA_CMD_PAGE_FAULT_RESUME, OHCA_CMD_ALLOC_XRCD,
		OHCA_CMD_DEALLOC_XRCD, OHCA_CMD_ALLOC_COUNTERS, OHCA_CMD_BIND_COUNTERS,
		OHCA_CMD_QUERY_CONTEXT, OHCA_CMD_RESIZE_SRQ, OHCA_CMD_RESIZE_QP,
	};
	enum { FIRST = 8 * sizeof(ops), LAST = FIRST + sizeof(more) };
	uint8_t b = get(&g->in);

	memset(c, 0, sizeof(*c));
	c->hdr.opcode = b < FIRST ? ops[b % sizeof(ops)] : b < LAST ? more[b - FIRST] : get(&g->in);
	body(g, c->hdr.opcode, c);
}

void guest_command(struct guest *g)
{
	struct host *h = g->h;
	struct ohca_hw_acqe r;
	struct ohca_hw_aqe c;

	guest_compose(g, &c);
	/* the admin rings must be mapped, because host_cmd() waits for them */
	h->hole_len = 0;
	if (g->wild || !ohca_running(h->e) || host_cmd(h, c.hdr.opcode, &c, &r))
		return;
	switch (c.hdr.opcode) {
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
