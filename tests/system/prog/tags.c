// SPDX-License-Identifier: GPL-2.0-or-later
/* Tag matching: the server has an SRQ with tags, the client sends it messages. */
#include "peer.h"

#include <errno.h>
#include <infiniband/tm_types.h>
#include <stdio.h>
#include <string.h>

#define NTAGS	16
#define HDRS	(sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh))
#define EAGER	5000u		/* bytes of data */
#define RNDV	400000u
#define DATA	(1u << 20)	/* offset of the data of a rendezvous, and of their buffer */
#define FIN_AT	65536u

struct tags {
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t seen;
};

/* ---- server ---- */

static uint32_t add(struct peer *p, struct tags *t, uint64_t tag, uint32_t off, uint32_t len,
		    int flags)
{
	struct ibv_sge sge = { (uintptr_t)p->buf + off, len, p->mr->lkey };
	struct ibv_ops_wr wr = {
		.wr_id = 900, .opcode = IBV_WR_TAG_ADD, .flags = flags,
		.tm = { .unexpected_cnt = t->seen, .add = {
			.recv_wr_id = 100 + tag, .sg_list = &sge, .num_sge = 1, .tag = tag,
			.mask = UINT64_MAX } },
	}, *bad;
	int rc = ibv_post_srq_ops(t->srq, &wr, &bad);

	if (rc)
		fail("TAG_ADD: %s", strerror(rc));
	return wr.tm.handle;
}

static void op(struct tags *t, enum ibv_ops_wr_opcode opcode, uint32_t handle, int flags)
{
	struct ibv_ops_wr wr = { .wr_id = 901, .opcode = opcode, .flags = flags,
				 .tm = { .unexpected_cnt = t->seen, .handle = handle } }, *bad;
	int rc = ibv_post_srq_ops(t->srq, &wr, &bad);

	if (rc)
		fail("list operation %d: %s", opcode, strerror(rc));
}

static struct ibv_wc expect(struct tags *t, uint64_t wr_id, enum ibv_wc_status status,
			    enum ibv_wc_opcode opcode, unsigned int flags, const char *what)
{
	struct ibv_wc wc = wc_expect(t->cq, wr_id, status, what);

	if (wc.opcode != opcode || wc.wc_flags != flags)
		fail("%s: opcode %u flags %#x, not %u and %#x", what, wc.opcode, wc.wc_flags,
		     opcode, flags);
	return wc;
}

/* The same by the extended polling interface, which reports tags. */
static void expect_info(struct tags *t, uint64_t wr_id, uint64_t tag)
{
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_wc_tm_info info;
	int64_t end = ms_now() + 10000;
	int rc;

	while ((rc = ibv_start_poll(t->ex, &none)) == ENOENT && ms_now() < end)
		;
	if (rc)
		fail("ibv_start_poll: %s", strerror(rc));
	ibv_wc_read_tm_info(t->ex, &info);
	if (t->ex->wr_id != wr_id || t->ex->status || info.tag != tag || info.priv != 0x1234)
		fail("wr_id %lu status %u tag %lu priv %#x", t->ex->wr_id, t->ex->status,
		     info.tag, info.priv);
	ibv_end_poll(t->ex);
}

static void serve_open(struct peer *p, struct tags *t)
{
	struct ibv_cq_init_attr_ex ca = { .cqe = 128,
					  .wc_flags = IBV_WC_STANDARD_FLAGS |
						      IBV_WC_EX_WITH_TM_INFO };
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM, .pd = p->pd,
		.tm_cap = { .max_num_tags = NTAGS, .max_ops = NTAGS },
	};
	struct ibv_qp_init_attr qa = { .send_cq = p->scq, .qp_type = IBV_QPT_RC };

	t->ex = ibv_create_cq_ex(p->ctx, &ca);
	if (!t->ex)
		fail("ibv_create_cq_ex: %s", strerror(errno));
	sa.cq = qa.recv_cq = t->cq = ibv_cq_ex_to_cq(t->ex);
	qa.srq = t->srq = ibv_create_srq_ex(p->ctx, &sa);
	if (!t->srq)
		fail("ibv_create_srq_ex: %s", strerror(errno));
	p->qp = peer_qp_of(p, p->pd, &qa);
}

/* All tags can be used again, however they were removed. */
static void all_tags(struct peer *p, struct tags *t)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD }, *bad;
	uint32_t h[NTAGS];

	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < NTAGS; i++)
			h[i] = add(p, t, i, 0, 64, i == NTAGS - 1 ? IBV_OPS_SIGNALED : 0);
		expect(t, 900, IBV_WC_SUCCESS, IBV_WC_TM_ADD, 0, "the last tag");
		if (ibv_post_srq_ops(t->srq, &wr, &bad) != ENOMEM || bad != &wr)
			fail("one tag more than there are");
		for (uint32_t i = 0; i < NTAGS; i++)
			op(t, IBV_WR_TAG_DEL, h[i], i == NTAGS - 1 ? IBV_OPS_SIGNALED : 0);
		expect(t, 901, IBV_WC_SUCCESS, IBV_WC_TM_DEL, 0, "removal of the last tag");
	}
}

static void serve(struct peer *p, struct tags *t)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, 4096, p->mr->lkey };
	struct ibv_recv_wr rwr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
	uint32_t h;

	all_tags(p, t);
	add(p, t, 5, 0, 8192, 0);
	add(p, t, 6, DATA, RNDV, 0);
	add(p, t, 7, 16384, 100, IBV_OPS_SIGNALED);
	expect(t, 900, IBV_WC_SUCCESS, IBV_WC_TM_ADD, 0, "TAG_ADD");
	sync_at(p, 1);
	/* eager, in more than one packet */
	expect(t, 105, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, "eager, match");
	expect(t, 105, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, "eager, data");
	check(p->buf, EAGER, 11, "eager message");
	/* rendezvous */
	expect_info(t, 106, 6);
	if (expect(t, 106, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID,
		   "rendezvous").byte_len != RNDV)
		fail("length of the rendezvous");
	check(p->buf + DATA, RNDV, 12, "rendezvous");
	/* one that does not fit */
	expect(t, 107, IBV_WC_TM_RNDV_INCOMPLETE, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, "no room");
	if (p->buf[16384] != IBV_TMH_RNDV)
		fail("headers of the rendezvous that does not fit");
	/* unexpected: new tags wait until the consumer has seen it */
	for (int i = 0; i < 2; i++)
		if (ibv_post_srq_recv(t->srq, &rwr, &bad))
			fail("ibv_post_srq_recv");
	sync_at(p, 2);
	expect(t, 5, IBV_WC_SUCCESS, IBV_WC_TM_RECV, 0, "unexpected");
	h = add(p, t, 9, 0, 8192, IBV_OPS_SIGNALED);
	expect(t, 900, IBV_WC_SUCCESS, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ, "TAG_ADD behind");
	t->seen++;
	op(t, IBV_WR_TAG_SYNC, 0, IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC);
	expect(t, 901, IBV_WC_SUCCESS, IBV_WC_TM_SYNC, 0, "TAG_SYNC");
	sync_at(p, 3);
	expect(t, 5, IBV_WC_SUCCESS, IBV_WC_TM_NO_TAG, 0, "message without tag");
	op(t, IBV_WR_TAG_DEL, h, IBV_OPS_SIGNALED);
	expect(t, 901, IBV_WC_SUCCESS, IBV_WC_TM_DEL, 0, "TAG_DEL");
	op(t, IBV_WR_TAG_DEL, h, IBV_OPS_SIGNALED);
	expect(t, 901, IBV_WC_TM_ERR, IBV_WC_TM_DEL, 0, "TAG_DEL once more");
	all_tags(p, t);
	wc_none(t->cq, 50, "after all");
}

/* ---- client ---- */

/* A message with its headers at the begin of the buffer. */
static void message(struct peer *p, uint8_t opcode, uint64_t tag, uint32_t len)
{
	struct ibv_tmh tmh = { .opcode = opcode, .app_ctx = htobe32(0x1234),
			       .tag = htobe64(tag) };
	struct ibv_rvh rvh = { .va = htobe64((uintptr_t)p->buf + DATA),
			       .rkey = htobe32(p->mr->rkey), .len = htobe32(RNDV) };

	memcpy(p->buf, &tmh, sizeof(tmh));
	if (opcode == IBV_TMH_RNDV)
		memcpy(p->buf + sizeof(tmh), &rvh, sizeof(rvh));
	send_post(p, IBV_WR_SEND, 1, 0, len, 0);
	wc_expect(p->scq, 1, IBV_WC_SUCCESS, "message");
}

static void ask(struct peer *p)
{
	struct ibv_wc wc;

	sync_at(p, 1);
	fill(p->buf + sizeof(struct ibv_tmh), EAGER, 11);
	message(p, IBV_TMH_EAGER, 5, sizeof(struct ibv_tmh) + EAGER);
	fill(p->buf + DATA, RNDV, 12);
	recv_post(p, 2, FIN_AT, 64);
	message(p, IBV_TMH_RNDV, 6, HDRS);
	wc = wc_expect(p->rcq, 2, IBV_WC_SUCCESS, "FIN");
	if (wc.byte_len != HDRS || p->buf[FIN_AT] != IBV_TMH_FIN)
		fail("FIN: %u bytes, opcode %u", wc.byte_len, p->buf[FIN_AT]);
	message(p, IBV_TMH_RNDV, 7, HDRS);
	sync_at(p, 2);
	message(p, IBV_TMH_EAGER, 9, 64);
	sync_at(p, 3);
	message(p, IBV_TMH_NO_TAG, 9, 64);
}

static void tags(struct peer *p)
{
	struct ibv_device_attr_ex attr;
	struct tags t = { 0 };

	if (ibv_query_device_ex(p->ctx, NULL, &attr) || !(attr.tm_caps.flags & IBV_TM_CAP_RC) ||
	    attr.tm_caps.max_rndv_hdr_size < HDRS || attr.tm_caps.max_num_tags < NTAGS)
		fail("no tag matching");
	if (ibv_destroy_qp(p->qp))
		fail("ibv_destroy_qp");
	if (p->client)
		p->qp = peer_qp(p, p->pd);
	else
		serve_open(p, &t);
	peer_reconnect(p, 0);
	if (p->client)
		ask(p);
	else
		serve(p, &t);
	sync_at(p, 4);
	if (ibv_destroy_qp(p->qp) ||
	    (t.srq && (ibv_destroy_srq(t.srq) || ibv_destroy_cq(t.cq))))
		fail("destroying an SRQ with tags");
	p->qp = NULL;
}

const struct scenario tag_scenarios[] = {
	{ "tags", tags, IBV_QPT_RC, false },
	{ NULL, NULL, 0, false },
};
