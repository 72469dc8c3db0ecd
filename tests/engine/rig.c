/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two connected QPs for tests of the transport. See rig.h. */
#include <stdio.h>

#include "rig.h"

static uint8_t pattern(uint32_t seed, uint64_t i)
{
	uint64_t x = (i >> 3) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;

	x ^= x >> 29;
	return (uint8_t)(x >> (8 * (i & 7)));
}

static void side_up(struct rig *r, unsigned int i)
{
	const struct rig_opt *o = &r->opt;
	struct host *h = r->h[i];
	struct host_qp_init in = {
		.type = o->type,
		.flags = (o->privileged ? OHCA_QP_PRIVILEGED : 0) |
			 (o->signal_all ? OHCA_QP_SIGNAL_ALL : 0),
		.log_sq = o->log_sq,
		.log_rq = o->log_rq,
		.scq = &r->scq[i],
		.rcq = &r->rcq[i],
	};

	h->scatter = o->scatter;
	host_cq_create(h, &r->scq[i], 12, 0);
	host_cq_create(h, &r->rcq[i], 12, 0);
	r->srq_pdn[i] = o->srq_pd ? host_pd(h, 0) : h->pdn;
	if (o->type == OHCA_QPT_XRC_INI && i == 1) {
		r->xrcdn = in.xrcdn = host_xrcd(h);
		in.type = OHCA_QPT_XRC_TGT;
		assert_int_equal(host_xrc_srq_create(h, &r->srq[1], 6, h->pdn, r->xrcdn,
						     &r->rcq[1]), 0);
	} else if (o->tags && i == 1) {
		assert_int_equal(host_tm_srq_create(h, &r->srq[1], 6, r->srq_pdn[1], o->tags,
						    4, &r->rcq[1]), 0);
		in.srq = &r->srq[1];
		in.no_sq = true;
	} else if (o->srq) {
		host_srq_create(h, &r->srq[i], 6, r->srq_pdn[i], 0, 0);
		in.srq = &r->srq[i];
	}
	assert_int_equal(host_qp_create(h, &r->qp[i], &in), 0);
	host_mr_create(h, &r->mr[i], RIG_MR_LEN, h->pdn,
		       OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE |
		       OHCA_ACCESS_REMOTE_READ | OHCA_ACCESS_REMOTE_ATOMIC |
		       OHCA_ACCESS_MW_BIND | OHCA_ACCESS_FLUSH_GLOBAL |
		       OHCA_ACCESS_FLUSH_PERSISTENT);
}

void rig_up(struct rig *r, struct rig_opt opt)
{
	memset(r, 0, sizeof(*r));
	if (!opt.type)
		opt.type = OHCA_QPT_RC;
	if (!opt.mtu)
		opt.mtu = 3;
	if (!opt.log_sq)
		opt.log_sq = 6;
	if (!opt.log_rq)
		opt.log_rq = 6;
	r->opt = opt;
	if (opt.loop) {
		r->h[0] = r->h[1] = host_new(1, 0x0002c90000000100ull);
		r->nh = 1;
		host_start(r->h[0]);
		host_cable(r->h[0], 0, true);
		host_settle(r->h, 1);
		host_port_set(r->h[0], 0, 1, 4);
	} else {
		host_pair(r->h, opt.two_ports ? 2 : 1);
		r->nh = 2;
	}
	for (unsigned int i = 0; i < r->nh; i++) {
		struct ohca_hw_eqe e;

		while (host_eq_poll(r->h[i], &r->h[i]->async, &e))
			;
		host_eq_db(r->h[i], &r->h[i]->async, true);
	}
	side_up(r, 0);
	side_up(r, 1);
	for (unsigned int i = 0; i < 2 && !opt.cold; i++) {
		if (opt.type == OHCA_QPT_UD)
			host_qp_datagram(&r->qp[i], 0, RIG_QKEY);
		else
			host_qp_connect(&r->qp[i], 0, opt.loop ? 1 : (uint16_t)(2 - i),
					r->qp[1 - i].qpn, opt.mtu, opt.psn[i], opt.psn[1 - i]);
	}
}

void rig_down(struct rig *r)
{
	for (unsigned int i = 0; i < 2; i++) {
		host_qp_destroy(&r->qp[i]);
		if (i == 1 && (r->opt.type == OHCA_QPT_XRC_INI || r->opt.tags)) {
			host_cmd_handle(r->h[1], OHCA_CMD_DESTROY_SRQ, r->srq[1].srqn, 0);
			host_buf_free(&r->srq[1].buf);
		}
		host_cq_destroy(&r->scq[i]);
		host_cq_destroy(&r->rcq[i]);
		if (r->opt.srq)
			host_buf_free(&r->srq[i].buf);
		host_buf_free(&r->mr[i].buf);
	}
	for (unsigned int i = 0; i < r->nh; i++)
		host_free(r->h[i]);
}

struct ohca_hw_qp_attr rig_attr(struct rig *r, unsigned int i)
{
	return (struct ohca_hw_qp_attr){
		.port = 1,
		.access = OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ |
			  OHCA_ACCESS_REMOTE_ATOMIC | OHCA_ACCESS_FLUSH_GLOBAL |
			  OHCA_ACCESS_FLUSH_PERSISTENT,
		.path_mtu = r->opt.mtu,
		.dest_qpn = r->qp[1 - i].qpn,
		.sq_psn = r->opt.psn[i],
		.rq_psn = r->opt.psn[1 - i],
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 10,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.av = { .dlid = r->opt.loop ? 1 : (uint16_t)(2 - i) },
	};
}

void rig_connect(struct rig *r, unsigned int i, struct ohca_hw_qp_attr a)
{
	bool rc = r->opt.type == OHCA_QPT_RC;

	a.state = OHCA_QPS_INIT;
	assert_int_equal(host_qp_modify(&r->qp[i], OHCA_ATTR_STATE | OHCA_ATTR_PKEY_INDEX |
					OHCA_ATTR_PORT | OHCA_ATTR_ACCESS, &a), 0);
	a.state = OHCA_QPS_RTR;
	assert_int_equal(host_qp_modify(&r->qp[i], OHCA_ATTR_STATE | OHCA_ATTR_AV |
					OHCA_ATTR_PATH_MTU | OHCA_ATTR_DEST_QPN |
					OHCA_ATTR_RQ_PSN |
					(rc ? OHCA_ATTR_MAX_DEST_RD_ATOMIC |
					      OHCA_ATTR_MIN_RNR_TIMER : 0), &a), 0);
	a.state = OHCA_QPS_RTS;
	assert_int_equal(host_qp_modify(&r->qp[i], OHCA_ATTR_STATE | OHCA_ATTR_SQ_PSN |
					(rc ? OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT |
					      OHCA_ATTR_RNR_RETRY | OHCA_ATTR_MAX_RD_ATOMIC : 0),
					&a), 0);
}

void rig_modify(struct host_qp *qp, uint8_t state)
{
	struct ohca_hw_qp_attr a = { .state = state };

	assert_int_equal(host_qp_modify(qp, OHCA_ATTR_STATE, &a), 0);
}

void rig_run(struct rig *r)
{
	host_settle(r->h, r->nh);
}

void rig_time(struct rig *r, uint64_t ms)
{
	host_run(r->h, r->nh, ms * HOST_MS);
}

void rig_fill(struct rig *r, unsigned int i, uint64_t off, uint32_t len, uint32_t seed)
{
	for (uint32_t k = 0; k < len; k++)
		*(uint8_t *)host_buf_ptr(r->h[i], &r->mr[i].buf, off + k) = pattern(seed, k);
}

void rig_check(struct rig *r, unsigned int i, uint64_t off, uint32_t len, uint32_t seed)
{
	for (uint32_t k = 0; k < len; k++) {
		uint8_t v = *(uint8_t *)host_buf_ptr(r->h[i], &r->mr[i].buf, off + k);

		if (v != pattern(seed, k))
			fail_msg("side %u: byte %u of %u is %02x, not %02x", i, k, len, v,
				 pattern(seed, k));
	}
}

uint64_t rig_get64(struct rig *r, unsigned int i, uint64_t off)
{
	uint64_t v;

	memcpy(&v, host_buf_ptr(r->h[i], &r->mr[i].buf, off), 8);
	return v;
}

void rig_put64(struct rig *r, unsigned int i, uint64_t off, uint64_t v)
{
	memcpy(host_buf_ptr(r->h[i], &r->mr[i].buf, off), &v, 8);
}

/* ---- WQEs ---- */

static void *seg(struct wqe *w, unsigned int n)
{
	void *p = w->b + w->nseg * OHCA_SEG_SIZE;

	w->nseg += n;
	return p;
}

struct wqe wqe_new(uint8_t op, uint16_t flags, uint64_t wr_id)
{
	struct wqe w;
	struct ohca_hw_wqe_ctrl c = { .opcode = op, .flags = flags, .wr_id = wr_id };

	memset(&w, 0, sizeof(w));
	memcpy(seg(&w, 1), &c, sizeof(c));
	return w;
}

void wqe_xrc(struct wqe *w, uint32_t srqn)
{
	struct ohca_hw_wqe_xrc x = { .srqn = srqn };

	memcpy(seg(w, 1), &x, sizeof(x));
}

void wqe_imm(struct wqe *w, uint32_t be_imm)
{
	memcpy(w->b + offsetof(struct ohca_hw_wqe_ctrl, imm), &be_imm, 4);
}

void wqe_inv(struct wqe *w, uint32_t key)
{
	memcpy(w->b + offsetof(struct ohca_hw_wqe_ctrl, inv_key), &key, 4);
}

void wqe_raddr(struct wqe *w, uint64_t addr, uint32_t rkey)
{
	struct ohca_hw_wqe_raddr a = { .raddr = addr, .rkey = rkey };

	memcpy(seg(w, 1), &a, sizeof(a));
}

void wqe_atomic(struct wqe *w, uint64_t swap_add, uint64_t compare)
{
	struct ohca_hw_wqe_atomic a = { .swap_add = swap_add, .compare = compare };

	memcpy(seg(w, 1), &a, sizeof(a));
}

void wqe_masks(struct wqe *w, uint64_t swap, uint64_t compare)
{
	struct ohca_hw_wqe_atomic_masks m = { .swap = swap, .compare = compare };

	memcpy(w->b + 16 * w->nseg++, &m, sizeof(m));
}

void wqe_flush(struct wqe *w, uint32_t len, uint8_t placement, uint8_t level)
{
	struct ohca_hw_wqe_flush f = { .length = len, .placement = placement, .level = level };

	memcpy(w->b + 16 * w->nseg++, &f, sizeof(f));
}

void wqe_sge(struct wqe *w, uint64_t addr, uint32_t len, uint32_t key)
{
	struct ohca_hw_sge s = host_sge(addr, len, key);

	memcpy(seg(w, 1), &s, sizeof(s));
}

void wqe_inline(struct wqe *w, const void *data, uint32_t len)
{
	struct ohca_hw_wqe_ctrl *c = (struct ohca_hw_wqe_ctrl *)(void *)w->b;

	c->flags |= (uint16_t)(OHCA_WQE_INLINE | OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, len));
	memcpy(seg(w, (len + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE), data, len);
}

void wqe_av(struct wqe *w, uint16_t dlid, uint32_t dqpn, uint32_t qkey)
{
	struct ohca_hw_av av = { .dlid = dlid, .dqpn = dqpn, .qkey = qkey };

	memcpy(seg(w, 3), &av, sizeof(av));
}

void wqe_post(struct host_qp *qp, struct wqe *w)
{
	w->b[offsetof(struct ohca_hw_wqe_ctrl, nseg)] = (uint8_t)w->nseg;
	host_post_wqe(qp, w->b, w->nseg);
}

/* ---- work requests ---- */

static struct wqe new_wr(struct rig *r, uint8_t op, uint64_t wr_id)
{
	struct wqe w = wqe_new(op, OHCA_WQE_SIGNALED, wr_id);

	if (r->opt.type == OHCA_QPT_XRC_INI)
		wqe_xrc(&w, r->srq[1].srqn);
	return w;
}

static void rdma(struct rig *r, unsigned int i, uint8_t op, uint64_t wr_id, uint64_t off,
		 uint64_t roff, uint32_t len)
{
	struct wqe w = new_wr(r, op, wr_id);

	wqe_raddr(&w, r->mr[1 - i].iova + roff, r->mr[1 - i].key);
	if (len)
		wqe_sge(&w, r->mr[i].iova + off, len, r->mr[i].key);
	wqe_post(&r->qp[i], &w);
}

void rig_write(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint64_t roff,
	       uint32_t len)
{
	rdma(r, i, OHCA_OP_RDMA_WRITE, wr_id, off, roff, len);
}

void rig_read(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint64_t roff,
	      uint32_t len)
{
	rdma(r, i, OHCA_OP_RDMA_READ, wr_id, off, roff, len);
}

void rig_send(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint32_t len)
{
	struct wqe w = new_wr(r, OHCA_OP_SEND, wr_id);

	if (r->opt.type == OHCA_QPT_UD)
		wqe_av(&w, r->opt.loop ? 1 : (uint16_t)(2 - i), r->qp[1 - i].qpn, RIG_QKEY);
	if (len)
		wqe_sge(&w, r->mr[i].iova + off, len, r->mr[i].key);
	wqe_post(&r->qp[i], &w);
}

void rig_atomic(struct rig *r, unsigned int i, uint8_t op, uint64_t wr_id, uint64_t off,
		uint64_t roff, uint64_t swap_add, uint64_t compare)
{
	struct wqe w = new_wr(r, op, wr_id);

	wqe_raddr(&w, r->mr[1 - i].iova + roff, r->mr[1 - i].key);
	wqe_atomic(&w, swap_add, compare);
	wqe_sge(&w, r->mr[i].iova + off, 8, r->mr[i].key);
	wqe_post(&r->qp[i], &w);
}

void rig_recv(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint32_t len)
{
	struct ohca_hw_sge s = host_sge(r->mr[i].iova + off, len, r->mr[i].key);

	if (r->opt.srq || r->opt.type == OHCA_QPT_XRC_INI)
		host_srq_post(&r->srq[i], wr_id, &s, len ? 1 : 0);
	else
		host_post_recv(&r->qp[i], wr_id, &s, len ? 1 : 0);
}

void rig_greet(struct rig *r, unsigned int i)
{
	rig_send(r, i, 0, 0, 0);
	rig_run(r);
	wc(&r->scq[i], 0, WC_SUCCESS);
	wc(&r->rcq[1 - i], 0, WC_SUCCESS);
}

/* ---- results ---- */

struct ohca_hw_cqe wc_(struct host_cq *cq, uint64_t wr_id, uint32_t status, const char *file,
		       int line)
{
	struct ohca_hw_cqe c;

	if (!host_cq_poll(cq, &c)) {
		print_error("no completion, wr_id %llu wanted\n", (unsigned long long)wr_id);
		_fail(file, line);
	}
	if (c.wr_id != wr_id || c.status != status) {
		print_error("completion of %llu with status %u vendor error %#x, wanted %llu "
			    "with %u\n", (unsigned long long)c.wr_id, c.status, c.vendor_err,
			    (unsigned long long)wr_id, status);
		_fail(file, line);
	}
	return c;
}

void event_(struct host *h, uint8_t type, uint32_t handle, const char *file, int line)
{
	struct ohca_hw_eqe e = { 0 };

	if (!host_eq_poll(h, &h->async, &e) || e.type != type || e.handle != handle) {
		print_error("event %#x of %#x, wanted %#x of %#x\n", e.type, e.handle, type,
			    handle);
		_fail(file, line);
	}
	host_eq_db(h, &h->async, true);
}

void no_event(struct host *h)
{
	struct ohca_hw_eqe e;

	if (host_eq_poll(h, &h->async, &e))
		fail_msg("event %#x of %#x", e.type, e.handle);
}

uint8_t rig_state(struct host_qp *qp)
{
	struct ohca_hw_qp_attr a;

	assert_int_equal(host_qp_query(qp, &a), 0);
	return a.state;
}
