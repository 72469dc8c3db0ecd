/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The hostile guest: memory, requests, ports. See guest.h. */
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/object/doorbell.h"
#include "guest.h"
#include "renew.h"

#define START_PAGES	200u	/* that guest_start() uses at most */

/*
 * Sets a number of the input to 0 if it is by chance the address of a page that the guest does not
 * own.
 */
static void own_only(struct guest *g, uint64_t *v)
{
	uint64_t off = *v - HOST_BASE;

	if (off < g->h->mem_size && !(g->h->page_state[off / HOST_PAGE] & HOST_PAGE_GIVEN))
		*v = 0;
}

void guest_write(struct guest *g)
{
	uint64_t at = guest_page(g);
	uint8_t b = get(&g->in);
	uint8_t *p = host_ptr(g->h, at);

	if (b & 128) {
		for (unsigned int i = 0; i < 64; i++)
			((uint64_t *)(void *)p)[i] = g->scratch +
				(uint64_t)((i * (b & 7) + b) % SCRATCH) * HOST_PAGE;
		return;
	}
	p += (b & 63) * 64;
	for (unsigned int n = 1 + get(&g->in) % 64, i = 0; i < n; i++)
		p[i] = get(&g->in);
	for (unsigned int i = 0; i < 64 / 8 && g->strict; i++)
		own_only(g, (uint64_t *)(void *)p + i);
}

/* Another process writes a word of the doorbell page. */
static void bells(struct guest *g)
{
	struct ohca_db_sizes sizes;
	uint32_t at = get(&g->in);

	at |= (uint32_t)get(&g->in) << 8;
	if (!ohca_doorbell_sizes(&g->h->cfg, &sizes))
		abort();
	at %= (uint32_t)(ohca_doorbells_bytes(&sizes) / 8);
	((_Atomic uint64_t *)(void *)g->h->e->db->at.pending)[at] = get_n(&g->in, 8);
	atomic_fetch_or(g->h->e->db->at.pending, OHCA_PEND_ENGINE);
}

void guest_doorbell(struct guest *g)
{
	uint8_t b = get(&g->in);
	uint32_t off = (b & 7) * 8u;
	uint64_t v;

	switch (off) {
	case 0x38:
		bells(g);
		return;
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

void guest_port(struct guest *g)
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

/* Makes connected queue pairs and all that they need. */
static void objects(struct guest *g)
{
	struct host_qp_init in = { .scq = &g->cqs, .rcq = &g->cqs, .log_sq = 4, .log_rq = 3,
				   .flags = g->strict ? 0 : OHCA_QP_PRIVILEGED };
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

/* Posts work requests that are good except for a byte now and then. */
void guest_post(struct guest *g)
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
		reg.pl = guest_list(g);
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
	if (ctrl.opcode == OHCA_OP_REG_MR && g->strict)
		return;
	if (at >= 0xf0)
		wqe[get(&g->in) % (16 * n)] = get(&g->in);
	host_post_wqe(qp, wqe, n);
}

void guest_start(struct guest *g)
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

void guest_new(struct guest *g, const uint8_t *data, size_t size, bool strict)
{
	static const struct ohca_cfg cfg = {
		.node_guid = 0x100, .num_ports = 2, .vl_cap = 8, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .speed_ext_sup = 3, .num_vectors = 4, .num_uars = 2,
		.log_max_qp = 5, .log_max_cq = 4, .log_max_srq = 3, .log_max_mr = 5,
		.dm_size = 65536, .mem_max = 256 << 10, .node_desc = "fuzz",
	};

	*g = (struct guest){ .h = renewed(&cfg, GUEST_MEM), .in = { data, data + size },
			     .strict = strict };
	g->h->guard = strict;
	host_connect(g->h, 0, g->h, 1);
	g->scratch = host_pages(g->h, SCRATCH);
	guest_start(g);
}

void guest_end(struct guest *g)
{
	forget(g);
	retire(g->h);
}
