/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hostile peer: libFuzzer sends packets to an engine with connected RC, UC, UD, XRC, SMI and GSI
 * QPs, one of them with a tag list. The QPs also have requests of their own outstanding.
 *
 * The input is a list of packets. Each begins as one that the QP could expect, with a PSN near the
 * right one and a good key; then a few of its bytes are changed.
 */
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/object/tm.h"
#include "engine/transport/xport.h"
#include "host.h"
#include "reach.h"
#include "renew.h"

#define MEM		(2u << 20)
#define MR_LEN		65536u
#define MAX_PKTS	200u
#define QKEY		7u

struct input {
	const uint8_t *p, *end;
};

struct peer {
	struct host *h;
	struct input in;
	struct host_cq cq;
	struct host_srq srq, tm_srq, xrc_srq[3];	/* the last: of another domain */
	/* far: at the second port, at a lower rate, with an alternate path from the first port */
	struct host_qp rc, rc_srq, rc_tm, uc, ud, smi, gsi, ini, tgt, far;
	uint32_t xrcdn[2];
	struct host_mr mr;
};

static uint8_t get(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static uint32_t get32(struct input *in)
{
	uint32_t v = get(in);

	for (unsigned int i = 0; i < 3; i++)
		v = v << 8 | get(in);
	return v;
}

/* Offsets and lengths: most are small, or at the end of the region. */
static uint32_t near(struct input *in)
{
	uint8_t b = get(in);

	return b < 200 ? b * 4u : b < 250 ? MR_LEN - (b - 200u) * 8u : get32(in);
}

static struct host_qp *pick(struct peer *p, uint8_t b)
{
	struct host_qp *all[] = { &p->rc, &p->tgt, &p->rc, &p->rc_srq, &p->uc, &p->ud, &p->smi,
				  &p->gsi };

	if ((b & 7) == 2 && b & 8)
		return &p->ini;
	if ((b & 7) == 0 && b & 8)
		return &p->rc_tm;
	if ((b & 7) == 3 && b & 8)
		return &p->far;
	return all[b & 7];
}

/* A PSN at or near the one that the QP expects for this opcode. */
static uint32_t psn(struct peer *p, const struct host_qp *q, const struct ib_opcode_info *op)
{
	const struct ohca_xport *xp = p->h->e->qp[q->handle]->xp;
	uint8_t b = get(&p->in);

	/* ahead of the expected one, where that is allowed */
	if (p->h->e->any_order && b >= 96 && b < 160)
		return ib_psn_add(xp->resp.epsn, b - 95u);
	return ib_psn_add(op->flags & IB_OPF_RESPONSE ? xp->req.una : xp->resp.epsn,
			  b < 160 ? 0 : (uint32_t)(int32_t)(int8_t)b);
}

static uint8_t *ext_headers(struct peer *p, uint8_t *h, const struct ib_opcode_info *op,
			    uint32_t payload)
{
	struct input *in = &p->in;

	if (op->hdrs & IB_HDR_RDETH)
		h = ib_build_rdeth(h, 1);
	if (op->hdrs & IB_HDR_DETH)
		h = ib_build_deth(h, get(in) < 240 ? QKEY : IB_QKEY_GSI, get(in));
	if (op->hdrs & IB_HDR_XRCETH) {
		uint8_t b = get(in);

		h = ib_build_xrceth(h, b < 150 ? p->xrc_srq[0].srqn :
				       b < 220 ? p->xrc_srq[1].srqn :
				       b < 235 ? p->xrc_srq[2].srqn :
				       b < 250 ? p->srq.srqn : get32(in));
	}
	if (op->hdrs & IB_HDR_RETH)
		h = ib_build_reth(h, p->mr.iova + near(in), get(in) < 240 ? p->mr.key : get32(in),
				  get(in) < 100 ? payload : near(in));
	if (op->hdrs & IB_HDR_ATOMIC_ETH)
		h = ib_build_atomic(h, p->mr.iova + (near(in) & ~(get(in) < 240 ? 7u : 0u)),
				    get(in) < 240 ? p->mr.key : get32(in), get(in), get(in));
	if (op->hdrs & IB_HDR_AETH) {
		uint8_t b = get(in);

		h = ib_build_aeth(h, b < 128 ? 0x1f : b < 192 ? 0x60 | (b & 7) : b, get(in));
	}
	if (op->hdrs & IB_HDR_ATOMIC_ACK_ETH)
		h = ib_build_atomic_ack(h, get(in));
	if (op->hdrs & IB_HDR_IMMDT)
		h = ib_build_immdt(h, get(in));
	if (op->hdrs & IB_HDR_IETH)
		h = ib_build_ieth(h, get(in) < 200 ? p->mr.key : get32(in));
	return h;
}

/* Headers TMH and RVH that could be valid. */
static void tag_headers(struct peer *p, uint8_t *h, uint32_t room)
{
	struct input *in = &p->in;
	uint8_t hdr[OHCA_TMH_LEN + OHCA_RVH_LEN] = { 0 };
	uint32_t v;

	hdr[0] = get(in) % 5;
	hdr[15] = get(in) & 7;
	ib_put_be64(hdr + 16, p->mr.iova + near(in));
	v = get(in) < 240 ? p->mr.key : get32(in);
	for (unsigned int i = 0; i < 4; i++)
		hdr[24 + i] = (uint8_t)(v >> (24 - 8 * i));
	v = near(in);
	for (unsigned int i = 0; i < 4; i++)
		hdr[28 + i] = (uint8_t)(v >> (24 - 8 * i));
	memcpy(h, hdr, room < sizeof(hdr) ? room : sizeof(hdr));
}

/* Posts a list operation; it may overwrite one that the device has not executed. */
static void list_op(struct peer *p, uint8_t b)
{
	struct input *in = &p->in;
	struct ohca_hw_tm_wqe w = {
		.opcode = b & 3, .flags = b >> 2 & 3, .handle = get(in) & 15,
		.unexpected = get(in) & 7, .tag = get(in) & 7, .mask = get(in) & 7, .num_sge = 1,
		.sge = host_sge(p->mr.iova + 8192, near(in), p->mr.key),
	};

	if (w.opcode != OHCA_TM_ADD) {
		w.num_sge = get(in) == 0xff;
		memset(&w.sge, 0, sizeof(w.sge));
	}
	if (w.opcode == OHCA_TM_SYNC)
		w.handle = 0;
	if (get(in) == 0xff)
		((uint8_t *)&w)[get(in) % sizeof(w)] = get(in);
	host_tm_op(&p->tm_srq, &w);
}

static void packet(struct peer *p)
{
	static const uint8_t trans[] = {
		[OHCA_QPT_SMI] = IB_TRANS_UD, [OHCA_QPT_GSI] = IB_TRANS_UD,
		[OHCA_QPT_RC] = IB_TRANS_RC, [OHCA_QPT_UC] = IB_TRANS_UC,
		[OHCA_QPT_UD] = IB_TRANS_UD, [OHCA_QPT_XRC_INI] = IB_TRANS_XRC,
		[OHCA_QPT_XRC_TGT] = IB_TRANS_XRC,
	};
	static const uint16_t sizes[] = { 0, 1, 8, 255, 256, 256, 256, 256, 300, 1024, 16, 32, 64 };
	struct input *in = &p->in;
	uint8_t b = get(in), vl, opcode, flags;
	struct host_qp *q = pick(p, b);
	bool mad = q == &p->smi || q == &p->gsi;
	bool grh = (b & 8) && q != &p->smi && q != &p->rc_tm && q != &p->far;
	/* for a QP with two paths: which path, and with or without MigReq */
	uint8_t way = q == &p->far ? get(in) : 0;
	unsigned int port = way & 1 ? 0 : q == &p->far;
	const struct ib_opcode_info *op;
	uint32_t payload = mad ? 256 : sizes[get(in) % 13], pad = ib_pad(payload), len;
	static uint8_t buf[4400];
	uint8_t *h = buf;

	opcode = trans[q->type];
	opcode |= opcode == IB_TRANS_UD ? IB_OPN_SEND_ONLY + (get(in) & 1) : get(in) % 24;
	if (b & 16 && get(in) > 250)
		opcode = get(in);
	op = &ib_opcodes[opcode];
	if (!(op->flags & IB_OPF_PAYLOAD))
		payload = pad = 0;
	vl = q == &p->smi ? 15 : 0;
	len = 8 + (grh ? 40 : 0) + (op->hdr_len ? op->hdr_len : 12) + payload + pad + 4;
	h = ib_build_lrh(h, vl, 0, grh ? 3 : 2, grh && b & 32 ? 0xc001 : port ? 3 : 1,
			 (uint16_t)(len / 4), port ? 4 : 2);
	if (grh) {
		static const uint8_t mgid[16] = { 0xff, 1 };
		uint8_t gid[16] = { 0xfe, 0x80 };

		ib_put_be64(gid + 8, p->h->cfg.node_guid + 1);
		h = ib_build_grh(h, 0, 0, (uint16_t)(len - 48), 1, gid, b & 32 ? mgid : gid);
	}
	h = ib_build_bth(h, opcode, (b & 64 ? IB_BTH_SE : 0) | (way & 2 ? IB_BTH_MIGREQ : 0),
			 (uint8_t)pad, 0xffff,
			 grh && b & 32 ? IB_QP_MULTICAST : q->qpn, b & 128, psn(p, q, op));
	h = ext_headers(p, h, op, payload);
	for (unsigned int i = 0; i < (mad ? 64u : 8u) && i < payload; i++)
		h[i] = get(in);
	if (q == &p->rc_tm)
		tag_headers(p, h, payload);
	for (unsigned int n = get(in) & 3; n; n--) {
		uint8_t at = get(in);

		if (at < len)
			buf[at] = get(in);
	}
	if (get(in) == 0xff)
		len = get(in) * 4u;
	vl = buf[0] >> 4;
	/* a block of exactly its size, so that ASan detects reads past the end */
	h = malloc(len ? len : 1);
	memcpy(h, buf, len);
	flags = get(in);
	host_rx(p->h, port, vl, h, len, flags >= 0xf8 ? flags & 7 : 0);
	free(h);
}

/* Posts a request of the engine, so that responses have one to answer. */
static void request(struct peer *p, struct host_qp *q, uint8_t b)
{
	struct {
		struct ohca_hw_wqe_ctrl c;
		struct ohca_hw_wqe_raddr r;
		struct ohca_hw_sge s[2];
		uint8_t room[OHCA_SEG_SIZE];
	} w = {
		.c = { .nseg = 3, .flags = OHCA_WQE_SIGNALED },
		.r = { .raddr = p->mr.iova, .rkey = p->mr.key },
	};
	struct ohca_hw_sge s = host_sge(p->mr.iova, 600, p->mr.key);

	w.s[0] = s;
	if (q->sq_pi - ((struct ohca_hw_db *)host_buf_ptr(p->h, &q->buf, 0))->sq_ci > 60)
		return;
	switch (b & 3) {
	case 0:
		w.c.opcode = OHCA_OP_RDMA_READ;
		break;
	case 1:
		w.c.opcode = OHCA_OP_FETCH_ADD;
		w.c.nseg = 4;
		memset(&w.s[0], 0, sizeof(w.s[0]));
		w.s[1] = s;
		w.s[1].length = 8;
		break;
	case 2:
		w.c.opcode = OHCA_OP_RDMA_WRITE;
		break;
	default:
		w.c.opcode = OHCA_OP_SEND;
		w.c.nseg = 2;
		memcpy(&w.r, &s, sizeof(s));
	}
	if (q == &p->ini) {
		struct ohca_hw_wqe_xrc x = { .srqn = b >> 2 };

		memmove(w.s, &w.r, sizeof(w.r) + sizeof(w.s));
		memcpy(&w.r, &x, sizeof(x));
		w.c.nseg++;
	}
	host_post_wqe(q, &w, w.c.nseg);
}

static void make(struct peer *p, struct host_qp *q, uint8_t type, bool srq)
{
	struct host_qp_init in = { .type = type, .special = type == OHCA_QPT_SMI,
				   .port = type < OHCA_QPT_RC, .scq = &p->cq, .rcq = &p->cq,
				   .no_sq = q == &p->rc_tm,
				   .srq = q == &p->rc_tm ? &p->tm_srq : srq ? &p->srq : NULL };
	struct ohca_hw_sge s = host_sge(p->mr.iova + 4096, 600, p->mr.key);

	in.xrcdn = p->xrcdn[0];
	if (host_qp_create(p->h, q, &in))
		abort();
	if (q == &p->far) {
		p->h->static_rate = 2;
		host_qp_connect(q, 1, 4, 77, 1, 0xffff00, 0xfffffa);
		p->h->static_rate = 0;
	} else if (type != OHCA_QPT_UD && type >= OHCA_QPT_RC)
		host_qp_connect(q, 0, 2, 77, 1, 0xffff00, 0xfffffa);
	else
		host_qp_datagram(q, 0, type == OHCA_QPT_UD ? QKEY : IB_QKEY_GSI);
	for (unsigned int i = 0; i < 8 && type < OHCA_QPT_XRC_INI; i++) {
		if (srq)
			host_srq_post(in.srq, i, &s, 1);
		else
			host_post_recv(q, i, &s, 1);
	}
}

/*
 * Loads an alternate path into the QP with two paths: by the first port if it uses the second, or
 * back.
 */
static void rearm(struct peer *p)
{
	const struct ohca_qp *qp = ohca_qp_get(p->h->e, p->far.handle);
	unsigned int port = !qp->port;
	struct ohca_hw_qp_attr a = {
		.path_mig_state = OHCA_MIG_REARM, .alt_timeout = 8,
		.alt_av = { .port = (uint8_t)(port + 1), .dlid = (uint16_t)(2 + 2 * port) },
	};

	reached(REACH_REARM, !host_qp_modify(&p->far, OHCA_ATTR_ALT_PATH |
					     OHCA_ATTR_PATH_MIG_STATE, &a));
}

/* Moves the same QP to SQD, changes attributes, and moves it back. */
static void change(struct peer *p)
{
	struct input *in = &p->in;
	uint8_t b = get(in), c = get(in);
	struct ohca_hw_qp_attr a = {
		.state = OHCA_QPS_SQD, .timeout = b & 31, .retry_cnt = b >> 5, .rnr_retry = c >> 5,
		.max_rd_atomic = c & 3, .max_dest_rd_atomic = c >> 2 & 3, .min_rnr_timer = b & 31,
	};
	uint32_t mask = (uint32_t)get(in) << 8 | get(in);

	if (host_qp_modify(&p->far, OHCA_ATTR_STATE, &a))
		return;
	mask &= OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT | OHCA_ATTR_RNR_RETRY |
		OHCA_ATTR_MAX_RD_ATOMIC | OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER;
	reached(REACH_SQD, !host_qp_modify(&p->far, mask, &a) && mask);
	if (b & 64)
		host_step(&p->h, 1);
	a.state = OHCA_QPS_RTS;
	host_qp_modify(&p->far, OHCA_ATTR_STATE, &a);
}

static void set_up(struct peer *p)
{
	static const struct ohca_cfg cfg = {
		.node_guid = 0x100, .num_ports = 2, .vl_cap = 8, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .speed_ext_sup = 3, .num_vectors = 4, .num_uars = 2,
		.log_max_qp = 5, .log_max_cq = 4, .log_max_srq = 3, .log_max_mr = 5,
		.node_desc = "fuzz",
	};
	struct ohca_hw_aqe c = { 0 };
	struct host *h = renewed(&cfg, MEM);

	p->h = h;
	ohca_any_order(h->e, 0);
	host_start(h);
	for (unsigned int i = 0; i < 2; i++) {
		host_cable(h, i, true);
		host_settle(&h, 1);
		host_port_set(h, i, (uint16_t)(1 + 2 * i), IB_PS_ACTIVE);
	}
	host_cq_create(h, &p->cq, 8, 0);
	host_srq_create(h, &p->srq, 4, h->pdn, 0, 2);
	host_mr_create(h, &p->mr, MR_LEN, h->pdn, 0x1f);
	for (unsigned int i = 0; i < 2; i++)
		p->xrcdn[i] = host_xrcd(h);
	for (unsigned int i = 0; i < 3; i++) {
		struct ohca_hw_sge s = host_sge(p->mr.iova + 4096, 600, p->mr.key);

		/* the PD of the second SRQ has no right to the memory */
		if (host_xrc_srq_create(h, &p->xrc_srq[i], 4, i == 1 ? host_pd(h, 0) : h->pdn,
					p->xrcdn[i / 2], &p->cq))
			abort();
		for (unsigned int k = 0; k < 8; k++)
			host_srq_post(&p->xrc_srq[i], k, &s, 1);
	}
	make(p, &p->tgt, OHCA_QPT_XRC_TGT, false);
	make(p, &p->ini, OHCA_QPT_XRC_INI, false);
	make(p, &p->rc, OHCA_QPT_RC, false);
	make(p, &p->rc_srq, OHCA_QPT_RC, true);
	if (host_tm_srq_create(h, &p->tm_srq, 4, h->pdn, 10, 3, &p->cq))
		abort();
	make(p, &p->rc_tm, OHCA_QPT_RC, true);
	make(p, &p->uc, OHCA_QPT_UC, false);
	make(p, &p->ud, OHCA_QPT_UD, false);
	make(p, &p->far, OHCA_QPT_RC, false);
	rearm(p);
	make(p, &p->smi, OHCA_QPT_SMI, false);
	make(p, &p->gsi, OHCA_QPT_GSI, false);
	c.mcast.qp = p->ud.handle;
	c.mcast.mgid[0] = 0xff;
	c.mcast.mgid[1] = 1;
	if (host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct peer p = { .in = { data, data + size } };

	set_up(&p);
	for (unsigned int i = 0; i < MAX_PKTS && p.in.p < p.in.end; i++) {
		uint8_t b = get(&p.in);

		switch (b & 15) {
		case 0:
			host_run(&p.h, 1, 1000ull << (b >> 4));
			break;
		case 1:
		case 2:
			request(&p, (b & 0xc0) == 0x40 ? &p.far :
				    b & 128 ? b & 64 ? &p.ini : &p.rc_srq : &p.rc, b >> 4);
			break;
		case 3:
			host_step(&p.h, 1);
			if (b & 16)
				list_op(&p, b >> 4);
			break;
		case 4:
			p.h->pieces = b & 16;
			break;
		case 5:
			if (b == 0xe5)
				host_cmd_handle(p.h, OHCA_CMD_DESTROY_SRQ, p.xrc_srq[0].srqn, 0);
			if (b == 0xd5)
				rearm(&p);
			if (b == 0xc5)
				change(&p);
			if (b == 0xa5)
				ohca_any_order(p.h->e, p.h->e->any_order ^ 1);
			if (b == 0xf5)
				host_cmd_handle(p.h, OHCA_CMD_DEREG_MR, p.mr.key, 0);
			break;
		default:
			packet(&p);
			reached(REACH_AHEAD, p.h->e->qp[p.rc.handle]->xp->ahead);
		}
	}
	host_run(&p.h, 1, 40 * HOST_MS);
	reach_look(p.h);
	host_qp_destroy(&p.rc);
	host_run(&p.h, 1, 40 * HOST_MS);
	host_buf_free(&p.far.buf);
	host_buf_free(&p.rc_srq.buf);
	host_buf_free(&p.rc_tm.buf);
	host_buf_free(&p.tm_srq.buf);
	host_buf_free(&p.ini.buf);
	for (unsigned int i = 0; i < 3; i++)
		host_buf_free(&p.xrc_srq[i].buf);
	host_buf_free(&p.uc.buf);
	host_buf_free(&p.ud.buf);
	host_buf_free(&p.smi.buf);
	host_buf_free(&p.gsi.buf);
	host_buf_free(&p.cq.buf);
	host_buf_free(&p.srq.buf);
	host_buf_free(&p.mr.buf);
	retire(p.h);
	return 0;
}
