/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hostile application: libFuzzer writes send and receive WQEs, producer indices and keys of QPs
 * that are connected to each other by loopback, while they run.
 *
 * The input is a program: a byte selects an action, those after it are operands. WQEs begin as good
 * ones; then a few of their bytes are changed.
 */
#include <stdlib.h>

#include "engine/transport/sq.h"
#include "host.h"
#include "renew.h"

#define MEM	(2u << 20)
#define MR_LEN	65536u
#define MAX_OPS	300u
#define QKEY	7u

struct input {
	const uint8_t *p, *end;
};

struct app {
	struct host *h;
	struct input in;
	struct host_cq cq;
	struct host_qp qp[5];	/* RC, RC, UC, UC, UD */
	struct host_mr mr;
	uint32_t frmr, mw;
	struct host_buf pages;
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

static uint32_t near(struct input *in)
{
	uint8_t b = get(in);

	return b < 200 ? b * 8u : b < 250 ? MR_LEN - (b - 200u) * 8u : get32(in);
}

static uint32_t key(struct app *a)
{
	uint8_t b = get(&a->in);

	return b < 200 ? a->mr.key : b < 225 ? a->frmr : b < 250 ? a->mw : get32(&a->in);
}

static unsigned int put_sges(struct app *a, uint8_t *w, unsigned int at)
{
	unsigned int n = get(&a->in);

	n = n < 200 ? n & 3 : n % 34;
	for (unsigned int i = 0; i < n; i++) {
		struct ohca_hw_sge s = host_sge(a->mr.iova + near(&a->in), near(&a->in), key(a));

		if (get(&a->in) < 200)
			s.length &= 2047;
		memcpy(w + 16 * at++, &s, sizeof(s));
	}
	return at;
}

static unsigned int put_inline(struct app *a, struct ohca_hw_wqe_ctrl *c, unsigned int at)
{
	unsigned int len = get(&a->in) * 2u;

	c->flags = (uint16_t)((c->flags & 0x3f) | OHCA_WQE_INLINE |
			      OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, len));
	return at + (len + 15) / 16;
}

static void send_wqe(struct app *a)
{
	static const uint8_t ops[] = {
		OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_WRITE_IMM, OHCA_OP_SEND, OHCA_OP_SEND_IMM,
		OHCA_OP_RDMA_READ, OHCA_OP_CMP_SWAP, OHCA_OP_FETCH_ADD, OHCA_OP_LOCAL_INV,
		OHCA_OP_BIND_MW, OHCA_OP_SEND_INV, OHCA_OP_TSO, OHCA_OP_REG_MR,
		OHCA_OP_MASKED_FETCH_ADD,
		OHCA_OP_FLUSH, OHCA_OP_ATOMIC_WRITE, OHCA_OP_RDMA_READ,
	};
	struct input *in = &a->in;
	uint8_t w[64 * 16] = { 0 }, b = get(in), op = ops[get(in) & 15];
	struct host_qp *q = &a->qp[b % 5];
	struct ohca_hw_wqe_ctrl c = { .opcode = op, .flags = b >> 3 & 7, .wr_id = b };
	struct ohca_hw_wqe_raddr r = { .raddr = a->mr.iova + near(in), .rkey = key(a) };
	struct ohca_hw_wqe_atomic at = { .swap_add = get(in), .compare = get(in) };
	struct ohca_hw_av av = { .dlid = 1, .dqpn = a->qp[4].qpn, .qkey = QKEY };
	struct ohca_hw_wqe_reg reg = {
		.key = op == OHCA_OP_REG_MR ? a->frmr : a->mw, .access = get(in) & 0x3f,
		.iova = a->mr.iova + near(in), .length = near(in), .pl = a->pages.pl,
		.mr_key = a->mr.key,
	};
	unsigned int n = 1;

	if (op == OHCA_OP_SEND_INV || op == OHCA_OP_LOCAL_INV)
		c.inv_key = key(a);
	if (q == &a->qp[4]) {
		memcpy(w + 16, &av, sizeof(av));
		n = 4;
		c.flags |= b & 32 ? OHCA_WQE_IP_CSUM : 0;
		if (op == OHCA_OP_TSO) {
			/* encapsulation, IPv4, TCP */
			static const uint8_t hdr[48] = { 8, 0, 0, 0, 0x45, [13] = 6, [36] = 0x50 };
			struct ohca_hw_wqe_tso t = { .mss = near(in), .hlen = 44 };

			memcpy(w + 64, &t, sizeof(t));
			memcpy(w + 80, hdr, sizeof(hdr));
			n = put_sges(a, w, 8);
		}
	} else if (op == OHCA_OP_REG_MR || op == OHCA_OP_BIND_MW) {
		reg.key += get(in) < 200;
		if (op == OHCA_OP_REG_MR)
			a->frmr = reg.key;
		else
			a->mw = reg.key;
		memcpy(w + 16, &reg, sizeof(reg));
		n = 4;
	} else if (op <= OHCA_OP_RDMA_WRITE_IMM || op == OHCA_OP_RDMA_READ) {
		memcpy(w + 16 * n++, &r, 16);
	} else if (op == OHCA_OP_ATOMIC_WRITE) {
		memcpy(w + 16 * n++, &r, 16);
	} else if (op == OHCA_OP_FLUSH) {
		struct ohca_hw_wqe_flush f = { .length = near(in), .placement = get(in) & 7,
					       .level = get(in) & 3 };

		memcpy(w + 16 * n++, &r, 16);
		memcpy(w + 16 * n++, &f, 16);
	} else if (ohca_op_is_atomic(op)) {
		memcpy(w + 16 * n++, &r, 16);
		memcpy(w + 16 * n++, &at, 16);
		if (ohca_op_is_masked(op))
			memcpy(w + 16 * n++, &at, 16);
	}
	if (!ohca_op_is_local(op) && op != OHCA_OP_TSO && op != OHCA_OP_FLUSH)
		n = b & 64 ? put_inline(a, &c, n) : put_sges(a, w, n);
	c.nseg = (uint8_t)n;
	memcpy(w, &c, sizeof(c));
	for (unsigned int k = get(in) & 3; k; k--) {
		uint8_t pos = get(in);

		w[pos] = get(in);
	}
	host_post_wqe(q, w, n);
}

static void recv_wqe(struct app *a)
{
	struct host_qp *q = &a->qp[get(&a->in) % 5];
	struct ohca_hw_sge s[7];
	unsigned int n = get(&a->in) & 7;
	uint64_t slot = q->rq_pi & ((1u << q->log_rq) - 1);
	uint8_t b;

	n = n == 7 ? 6 : n;
	for (unsigned int i = 0; i < n; i++)
		s[i] = host_sge(a->mr.iova + near(&a->in), near(&a->in), key(a));
	host_post_recv(q, 1, s, n);
	b = get(&a->in);
	if (b & 128)
		*(uint8_t *)host_buf_ptr(a->h, &q->buf, 512 + (slot << q->log_stride) + (b & 127)) =
			get(&a->in);
}

/* Moves a QP to any state, also from ERR or SQE. */
static void modify(struct app *a)
{
	uint8_t b = get(&a->in);
	unsigned int i = b % 5;
	struct ohca_hw_qp_attr to = { .state = b >> 5, .en_sqd_notify = 1 };
	int status;

	host_qp_modify(&a->qp[i], OHCA_ATTR_STATE | (to.state == OHCA_QPS_SQD ?
						    OHCA_ATTR_EN_SQD_NOTIFY : 0), &to);
	if (to.state != OHCA_QPS_RESET)
		return;
	if (i == 4)
		status = host_qp_try_datagram(&a->qp[i], 0, QKEY);
	else
		status = host_qp_try_connect(&a->qp[i], 0, 1, a->qp[i ^ 1].qpn, 1, 0xfffff0,
					     0xfffff0);
	/* in RTR the QP receives messages of others, which may move it to ERR before RTS */
	if (status && (status != OHCA_ADMIN_BAD_STATE || host_qp_query(&a->qp[i], &to) ||
		       to.state != OHCA_QPS_ERR))
		abort();
}

/* Writes a producer index, or any byte of the rings. */
static void poke(struct app *a)
{
	struct host_qp *q = &a->qp[get(&a->in) % 5];
	struct ohca_hw_db *db = host_buf_ptr(a->h, &q->buf, 0);
	uint8_t b = get(&a->in);

	if (b < 64) {
		db->sq_pi += b;
	} else if (b < 128) {
		db->rq_pi += b & 63;
	} else {
		uint64_t off = get32(&a->in) % ((uint64_t)q->buf.npages * HOST_PAGE);

		*(uint8_t *)host_buf_ptr(a->h, &q->buf, off) = get(&a->in);
	}
	ohca_doorbell(a->h->e, 0, OHCA_UAR_SQ, q->handle, 8);
	ohca_doorbell(a->h->e, 0, OHCA_UAR_RQ, q->handle, 8);
}

static uint32_t reg(struct host *h, uint8_t type, uint64_t length)
{
	struct ohca_hw_aqe c = { .reg_mr = { .length = length, .pdn = h->pdn, .type = type } };
	struct ohca_hw_acqe r;

	if (host_cmd(h, OHCA_CMD_REG_MR, &c, &r))
		abort();
	return r.handle.handle;
}

static void set_up(struct app *a)
{
	static const struct ohca_cfg cfg = {
		.node_guid = 0x100, .num_ports = 1, .vl_cap = 8, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .speed_ext_sup = 3, .num_vectors = 4, .num_uars = 2,
		.log_max_qp = 5, .log_max_cq = 4, .log_max_srq = 3, .log_max_mr = 5,
		.node_desc = "fuzz",
	};
	static const uint8_t types[5] = { OHCA_QPT_RC, OHCA_QPT_RC, OHCA_QPT_UC, OHCA_QPT_UC,
					  OHCA_QPT_UD };
	struct host *h = renewed(&cfg, MEM);

	a->h = h;
	host_start(h);
	host_cable(h, 0, true);
	host_settle(&h, 1);
	host_port_set(h, 0, 1, IB_PS_ACTIVE);
	host_cq_create(h, &a->cq, 10, 0);
	host_mr_create(h, &a->mr, MR_LEN, h->pdn, 0x1f);
	host_buf_alloc(h, &a->pages, 4 * HOST_PAGE);
	a->frmr = reg(h, OHCA_MR_FRMR, 4);
	a->mw = reg(h, OHCA_MR_MW2, 0);
	for (unsigned int i = 0; i < 5; i++) {
		struct host_qp_init in = { .type = types[i], .scq = &a->cq, .rcq = &a->cq,
					   .log_sq = 5, .log_rq = 4,
					   .flags = OHCA_QP_PRIVILEGED };

		if (host_qp_create(h, &a->qp[i], &in))
			abort();
	}
	for (unsigned int i = 0; i < 4; i++)
		host_qp_connect(&a->qp[i], 0, 1, a->qp[i ^ 1].qpn, 1, 0xfffff0, 0xfffff0);
	host_qp_datagram(&a->qp[4], 0, QKEY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct app a = { .in = { data, data + size } };
	struct ohca_hw_cqe c;

	set_up(&a);
	for (unsigned int i = 0; i < MAX_OPS && a.in.p < a.in.end; i++) {
		uint8_t b = get(&a.in);

		switch (b & 15) {
		case 0:
			host_run(&a.h, 1, 1000ull << (b >> 4));
			break;
		case 1:
			for (unsigned int n = 1 + (b >> 4); n; n--)
				host_step(&a.h, 1);
			break;
		case 2:
			while (host_cq_poll(&a.cq, &c))
				;
			break;
		case 3:
			modify(&a);
			break;
		case 4:
			if (b & 64)
				poke(&a);
			break;
		case 5:
			a.h->pieces = b & 16;
			break;
		case 6:
		case 7:
		case 8:
			recv_wqe(&a);
			break;
		default:
			send_wqe(&a);
		}
	}
	host_run(&a.h, 1, 20 * HOST_MS);
	for (unsigned int i = 0; i < 5; i++)
		host_qp_destroy(&a.qp[i]);
	host_cq_destroy(&a.cq);
	host_buf_free(&a.mr.buf);
	host_buf_free(&a.pages);
	retire(a.h);
	return 0;
}
