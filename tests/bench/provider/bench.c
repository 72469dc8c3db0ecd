// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * bench CASE COUNT: repeats one hot operation of the provider over faked queues, for an instruction
 * counter. It measures no time itself. See run.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake.h"

#define BATCH	16

static struct ibv_context *ctx;
static struct ibv_qp *qp;
static struct ohca_qp *oqp;
static struct ibv_cq_ex *cqex;
static struct ibv_cq *cq;
static struct ohca_cq *ocq;
static struct ibv_qp_ex *ex;
static struct ibv_ah *ah;
static uint32_t cq_pi;
static char data[64] = "payload";

static struct ibv_sge sge;
static struct ibv_send_wr wr[BATCH], *bad;
static struct ibv_recv_wr rwr[BATCH], *rbad;
static struct ibv_wc wc[BATCH];

static void setup(bool ud, bool single)
{
	struct ibv_td_init_attr tattr = {};
	struct ibv_parent_domain_init_attr pattr = {};
	struct ibv_ah_attr ah_attr = { .dlid = 1, .port_num = 1, .is_global = 1 };
	struct ibv_cq_init_attr_ex cattr = { .cqe = 1024, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = ud ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = { 128, 128, 1, 1, 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ud ? IBV_QP_EX_WITH_SEND : 0x3ff,
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_pd *pd;
	int i;

	ctx = fake_open();
	pd = ops.alloc_pd(ctx);
	if (single) {
		pattr.pd = pd;
		pattr.td = ops.alloc_td(ctx, &tattr);
		pd = ops.alloc_parent_domain(ctx, &pattr);
		cattr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		cattr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	}
	ah = ops.create_ah(pd, &ah_attr);
	cqex = ops.create_cq_ex(ctx, &cattr);
	cq = ibv_cq_ex_to_cq(cqex);
	ocq = to_ocq(cq);
	attr.pd = pd;
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ops.create_qp_ex(ctx, &attr);
	oqp = to_oqp(qp);
	ex = &oqp->vqp.qp_ex;
	ops.modify_qp(qp, &rts, IBV_QP_STATE);

	sge = (struct ibv_sge){ (uintptr_t)data, sizeof(data), 0x1234 };
	for (i = 0; i < BATCH; i++) {
		wr[i].wr_id = i;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].opcode = ud ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		if (ud) {
			wr[i].wr.ud.ah = ah;
			wr[i].wr.ud.remote_qpn = 5;
		} else {
			wr[i].wr.rdma.remote_addr = 0x1000;
		}
		rwr[i].wr_id = i;
		rwr[i].sg_list = &sge;
		rwr[i].num_sge = 1;
	}
}

/* The device has executed everything; @ring: it sleeps and needs a doorbell. */
static void device(bool ring)
{
	struct ohca_hw_db *db = oqp->db;

	db->sq_ci = db->sq_pi;
	db->rq_ci = db->rq_pi;
	db->sq_event = ring ? db->sq_pi : htole32(le32toh(db->sq_pi) - 1);
	db->rq_event = htole32(le32toh(db->rq_pi) - 1);
}

static void chain(int n)
{
	wr[n - 1].next = NULL;
	rwr[n - 1].next = NULL;
	while (--n) {
		wr[n - 1].next = &wr[n];
		rwr[n - 1].next = &rwr[n];
	}
}

static int do_send(int n, bool ring)
{
	chain(n);
	device(ring);
	return ops.post_send(qp, wr, &bad);
}

static int do_recv(int n)
{
	chain(n);
	device(false);
	return ops.post_recv(qp, rwr, &rbad);
}

static int do_builder(bool ring, bool inl)
{
	device(ring);
	ex->wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_rdma_write(ex, 1, 2);
	if (inl)
		ex->wr_set_inline_data(ex, data, sizeof(data));
	else
		ex->wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
	return ex->wr_complete(ex);
}

static int do_poll(int n, int room)
{
	int i;

	for (i = 0; i < n; i++)
		fake_complete(ocq, cq_pi++, i, 1);
	return ops.poll_cq(cq, room, wc) != n;
}

static int do_poll_ex(int n)
{
	struct ibv_poll_cq_attr attr = {};
	int i, err;

	for (i = 0; i < n; i++)
		fake_complete(ocq, cq_pi++, i, 1);
	err = cqex->start_poll(cqex, &attr);
	for (i = 1; i < n; i++)
		err |= cqex->next_poll(cqex);
	cqex->end_poll(cqex);
	return err;
}

int main(int argc, char **argv)
{
	const char *name = argc == 3 ? argv[1] : "";
	long count = argc == 3 ? atol(argv[2]) : 0;
	bool single = false;
	int err = 0;

	if (!strncmp(name, "td-", 3)) {
		single = true;
		name += 3;
	}
	setup(!strcmp(name, "ud"), single);
	if (!strcmp(name, "inline"))
		wr[0].send_flags |= IBV_SEND_INLINE;
	while (count-- > 0 && !err) {
		if (!strcmp(name, "write") || !strcmp(name, "inline") || !strcmp(name, "ud"))
			err = do_send(1, true);
		else if (!strcmp(name, "write-quiet"))
			err = do_send(1, false);
		else if (!strcmp(name, "write8"))
			err = do_send(8, true);
		else if (!strcmp(name, "recv"))
			err = do_recv(1);
		else if (!strcmp(name, "recv8"))
			err = do_recv(8);
		else if (!strcmp(name, "builder"))
			err = do_builder(true, false);
		else if (!strcmp(name, "builder-inline"))
			err = do_builder(true, true);
		else if (!strcmp(name, "poll0"))
			err = do_poll(0, 1);
		else if (!strcmp(name, "poll1"))
			err = do_poll(1, 16);
		else if (!strcmp(name, "poll16"))
			err = do_poll(16, 16);
		else if (!strcmp(name, "cqex1"))
			err = do_poll_ex(1);
		else if (!strcmp(name, "cqex16"))
			err = do_poll_ex(16);
		else
			err = -1;
	}
	if (err)
		fprintf(stderr, "bench %s: failed (%d)\n", name, err);
	return !!err;
}
