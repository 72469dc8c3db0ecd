// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Limits that ibv_query_device() announces. Each limit can be reached, and used where possible; a
 * request beyond it is refused with the right errno. A process gets those objects that the kernel
 * does not use itself; the caller compares their number.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SPAN	4096u

static struct ibv_device_attr dev;
static struct peer p = { .sock = -1 };

static void refused(const char *what, const void *obj, int want)
{
	if (obj)
		fail("%s: one past the limit is accepted", what);
	if (errno != want)
		fail("%s: one past the limit: %s, not %s", what, strerror(errno), strerror(want));
}

/* ---- objects --------------------------------------------------------------------------- */

static void *make_pd(void)
{
	return ibv_alloc_pd(p.ctx);
}

static int end_pd(void *o)
{
	return ibv_dealloc_pd(o);
}

static void *make_cq(void)
{
	return ibv_create_cq(p.ctx, 1, NULL, NULL, 0);
}

static int end_cq(void *o)
{
	return ibv_destroy_cq(o);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = p.scq, .recv_cq = p.rcq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return ibv_create_qp(p.pd, &init);
}

static int end_qp(void *o)
{
	return ibv_destroy_qp(o);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(p.pd, &init);
}

static int end_srq(void *o)
{
	return ibv_destroy_srq(o);
}

static void *make_mr(void)
{
	return ibv_reg_mr(p.pd, p.buf, 64, IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *o)
{
	return ibv_dereg_mr(o);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
}

static int end_mw(void *o)
{
	return ibv_dealloc_mw(o);
}

/*
 * Creates objects until that fails, twice, because freed objects must be available again. @own:
 * objects that exist already
 */
static void objects(const char *name, int limit, int own, void *(*make)(void), int (*end)(void *))
{
	void **o = calloc((size_t)limit + 1, sizeof(*o));
	int n = 0, before = 0;

	for (int round = 0; round < 2; round++) {
		for (n = 0; n <= limit && (o[n] = make()); n++)
			;
		refused(name, n > limit ? o[limit] : NULL, ENOMEM);
		for (int i = 0; i < n; i++)
			if (end(o[i]))
				fail("%s: destroying number %d: %s", name, i, strerror(errno));
		if (round && n != before)
			fail("%s: %d at first, %d then", name, before, n);
		before = n;
	}
	printf("%s: %d announced, %d had\n", name, limit, n + own);
	free(o);
}

static void all_objects(void)
{
	objects("pd", dev.max_pd, 2, make_pd, end_pd);
	objects("cq", dev.max_cq, 2, make_cq, end_cq);
	objects("qp", dev.max_qp, 1, make_qp, end_qp);
	objects("srq", dev.max_srq, 0, make_srq, end_srq);
	objects("mr", dev.max_mr, 3, make_mr, end_mr);
	objects("mw", dev.max_mw, 3, make_mw, end_mw);
}

/* ---- sizes of queues --------------------------------------------------------------------- */

static struct ibv_qp *sized_qp(struct ibv_cq *cq, int send_wr, int recv_wr, int send_sge,
			       int recv_sge, int inl)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = (uint32_t)send_wr, .max_recv_wr = (uint32_t)recv_wr,
			 .max_send_sge = (uint32_t)send_sge, .max_recv_sge = (uint32_t)recv_sge,
			 .max_inline_data = (uint32_t)inl },
	};

	return ibv_create_qp(p.pd, &init);
}

static void sge_list(struct ibv_sge *sge, uint32_t off, uint32_t part)
{
	for (int i = 0; i < dev.max_sge; i++)
		sge[i] = (struct ibv_sge) { (uintptr_t)p.buf + off + (uint32_t)i * part, part,
					    p.mr->lkey };
}

/* Full queues of full WQEs: all requests complete, in order; one more is refused. */
static void full_queues(struct ibv_cq *cq)
{
	int wr = dev.max_qp_wr, done = 0;
	struct ibv_sge in[64], out[64];
	struct ibv_recv_wr rwr = { .sg_list = in, .num_sge = dev.max_sge }, *rbad;
	struct ibv_send_wr swr = {
		.sg_list = out, .num_sge = dev.max_sge, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *sbad;
	struct peer_info me = { .psn = 1 };
	struct ibv_port_attr port;
	struct ibv_wc wc[64];
	uint32_t len = (uint32_t)dev.max_sge * 8;
	uint64_t next[2] = { 0, 0 };

	p.qp = sized_qp(cq, wr, wr, dev.max_sge, dev.max_sge, 0);
	if (!p.qp)
		fail("a QP of max_qp_wr and max_sge: %s", strerror(errno));
	if (ibv_query_port(p.ctx, 1, &port))
		fail("port");
	me.lid = port.lid;
	me.qpn = p.qp->qp_num;
	if (ibv_modify_qp(p.qp, &(struct ibv_qp_attr) { .qp_state = IBV_QPS_INIT, .port_num = 1 },
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("to INIT");
	sge_list(in, SPAN, 8);
	sge_list(out, 0, 8);
	fill(p.buf, len, 5);
	for (rwr.wr_id = 0; rwr.wr_id < (uint64_t)wr; rwr.wr_id++)
		if (ibv_post_recv(p.qp, &rwr, &rbad))
			fail("receive %llu of %d is refused", (unsigned long long)rwr.wr_id, wr);
	if (ibv_post_recv(p.qp, &rwr, &rbad) != ENOMEM)
		fail("a receive more than max_qp_wr is not refused with ENOMEM");
	peer_rts(&p, p.qp, &me, 1);
	/* no request may complete before all are posted: the queue waits in SQD */
	if (ibv_modify_qp(p.qp, &(struct ibv_qp_attr) { .qp_state = IBV_QPS_SQD }, IBV_QP_STATE))
		fail("to SQD");
	for (swr.wr_id = 0; swr.wr_id < (uint64_t)wr; swr.wr_id++)
		if (ibv_post_send(p.qp, &swr, &sbad))
			fail("send %llu of %d is refused", (unsigned long long)swr.wr_id, wr);
	/* as many as fit; that may be more than requested, but is limited */
	for (; swr.wr_id <= 2 * (uint64_t)wr && !ibv_post_send(p.qp, &swr, &sbad); swr.wr_id++)
		;
	if (swr.wr_id > 2 * (uint64_t)wr || ibv_post_send(p.qp, &swr, &sbad) != ENOMEM)
		fail("sends without end are not refused with ENOMEM");
	if (ibv_modify_qp(p.qp, &(struct ibv_qp_attr) { .qp_state = IBV_QPS_RTS }, IBV_QP_STATE))
		fail("to RTS");
	for (int64_t end = ms_now() + 60000; done < 2 * wr && ms_now() < end;) {
		int n = ibv_poll_cq(cq, 64, wc);

		for (int i = 0; i < n; i++, done++) {
			bool recv = wc[i].opcode & IBV_WC_RECV;

			if (wc[i].status || wc[i].wr_id != next[recv]++ ||
			    (recv && wc[i].byte_len != len))
				fail("full queues: %s, wr_id %llu",
				     ibv_wc_status_str(wc[i].status),
				     (unsigned long long)wc[i].wr_id);
		}
	}
	if (done != 2 * wr)
		fail("full queues: %d completions of %d", done, 2 * wr);
	check(p.buf + SPAN, len, 5, "full queues");
	ibv_destroy_qp(p.qp);
	p.qp = NULL;
	printf("queues: %d WQEs of %d SGEs each way\n", wr, dev.max_sge);
}

static void sizes_of_qps(void)
{
	const int wr = dev.max_qp_wr, sge = dev.max_sge;
	struct ibv_qp *qp = sized_qp(p.scq, 1, 1, 1, 1, 512);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int inl;

	if (!qp || ibv_query_qp(qp, &a, IBV_QP_CAP, &init))
		fail("a QP with 512 bytes inline: %s", strerror(errno));
	inl = (int)a.cap.max_inline_data;
	ibv_destroy_qp(qp);
	refused("max_send_wr", sized_qp(p.scq, wr + 1, 1, 1, 1, 0), EINVAL);
	refused("max_recv_wr", sized_qp(p.scq, 1, wr + 1, 1, 1, 0), EINVAL);
	refused("max_send_sge", sized_qp(p.scq, 1, 1, sge + 1, 1, 0), EINVAL);
	refused("max_recv_sge", sized_qp(p.scq, 1, 1, 1, sge + 1, 0), EINVAL);
	refused("max_inline_data", sized_qp(p.scq, 1, 1, 1, 1, inl + 1), EINVAL);
	printf("inline: %d\n", inl);
}

static void sizes_of_cqs(void)
{
	struct ibv_cq *cq = ibv_create_cq(p.ctx, dev.max_cqe, NULL, NULL, 0);

	if (!cq || cq->cqe < dev.max_cqe)
		fail("a CQ of max_cqe: %s", strerror(errno));
	full_queues(cq);
	if (ibv_resize_cq(cq, dev.max_cqe + 1) != EINVAL)
		fail("a CQ grows beyond max_cqe");
	if (ibv_resize_cq(cq, 1) || ibv_resize_cq(cq, dev.max_cqe))
		fail("a CQ does not go from max_cqe to 1 and back");
	ibv_destroy_cq(cq);
	refused("max_cqe", ibv_create_cq(p.ctx, dev.max_cqe + 1, NULL, NULL, 0), EINVAL);
	printf("cqe: %d\n", dev.max_cqe);
}

static void sizes_of_srqs(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = (uint32_t)dev.max_srq_wr,
						    .max_sge = (uint32_t)dev.max_srq_sge } };
	struct ibv_srq *srq = ibv_create_srq(p.pd, &init);
	struct ibv_sge sge[64];
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = dev.max_srq_sge }, *bad;
	int n;

	if (!srq)
		fail("an SRQ of max_srq_wr and max_srq_sge: %s", strerror(errno));
	sge_list(sge, 0, 8);
	for (n = 0; n < dev.max_srq_wr; n++)
		if (ibv_post_srq_recv(srq, &wr, &bad))
			fail("receive %d of %d of the SRQ is refused", n, dev.max_srq_wr);
	if (ibv_post_srq_recv(srq, &wr, &bad) != ENOMEM)
		fail("a receive more than max_srq_wr is not refused with ENOMEM");
	ibv_destroy_srq(srq);
	init.attr.max_wr++;
	refused("max_srq_wr", ibv_create_srq(p.pd, &init), EINVAL);
	init.attr.max_wr--;
	init.attr.max_sge++;
	refused("max_srq_sge", ibv_create_srq(p.pd, &init), EINVAL);
	printf("srq_wr: %d of %d SGEs\n", dev.max_srq_wr, dev.max_srq_sge);
}

/* ---- READs and atomics, P_Keys, memory ------------------------------------------------------ */

/* @init, @resp: outstanding requests as requester and as responder. Return: errno of RTR or RTS */
static int connect_with(int init, int resp)
{
	struct ibv_qp *qp = peer_qp(&p, p.pd);
	struct ibv_port_attr port;
	struct ibv_qp_attr a;
	int rc;

	ibv_query_port(p.ctx, 1, &port);
	a = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = (uint8_t)resp,
		.ah_attr = { .dlid = port.lid, .port_num = 1 },
	};
	rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = (uint8_t)init,
	};
	if (!rc)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	if (rc) {
		ibv_destroy_qp(qp);
		return rc;
	}
	/* as many outstanding READs as the send queue holds */
	p.qp = qp;
	p.you = (struct peer_info) { .addr = (uintptr_t)p.buf, .rkey = p.mr->rkey };
	fill(p.buf, 65536, 9);
	for (uint32_t i = 0; i < 64; i++)
		send_post(&p, IBV_WR_RDMA_READ, i, 65536 + i * 1024, 1024, i * 1024);
	for (uint32_t i = 0; i < 64; i++)
		wc_expect(p.scq, i, IBV_WC_SUCCESS, "READ");
	check(p.buf + 65536, 65536, 9, "READs");
	p.qp = NULL;
	ibv_destroy_qp(qp);
	return 0;
}

static void reads(void)
{
	if (connect_with(dev.max_qp_init_rd_atom, dev.max_qp_rd_atom))
		fail("max_qp_init_rd_atom and max_qp_rd_atom are refused");
	if (connect_with(dev.max_qp_init_rd_atom + 1, 1) != EINVAL)
		fail("more than max_qp_init_rd_atom is not refused with EINVAL");
	if (connect_with(1, dev.max_qp_rd_atom + 1) != EINVAL)
		fail("more than max_qp_rd_atom is not refused with EINVAL");
	printf("rd_atom: %d, %d\n", dev.max_qp_init_rd_atom, dev.max_qp_rd_atom);
}

static void pkeys(void)
{
	__be16 key;

	if (ibv_query_pkey(p.ctx, 1, dev.max_pkeys - 1, &key))
		fail("the last P_Key cannot be read");
	if (!ibv_query_pkey(p.ctx, 1, dev.max_pkeys, &key))
		fail("a P_Key past the last can be read");
	printf("pkeys: %u\n", dev.max_pkeys);
}

static void mr_size(void)
{
	uint64_t size = dev.max_mr_size + SPAN;
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (m == MAP_FAILED)
		fail("address space of max_mr_size: %s", strerror(errno));
	refused("max_mr_size", ibv_reg_mr(p.pd, m, dev.max_mr_size + 1, IBV_ACCESS_LOCAL_WRITE),
		EINVAL);
	munmap(m, size);
	printf("mr_size: %llu\n", (unsigned long long)dev.max_mr_size);
}

/* ---- messages, tags ----------------------------------------------------------------------- */

/* The longest message, gathered from and scattered to pieces; and one with one byte more. */
static void message(void)
{
	const uint32_t parts = 16;
	struct peer_info me = { .psn = 1 };
	struct ibv_port_attr port;
	struct ibv_sge in[16], out[17];
	struct ibv_recv_wr rwr = { .sg_list = in, .num_sge = 16 }, *bad;
	struct ibv_send_wr swr = { .sg_list = out, .num_sge = 16, .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED };
	uint8_t *mem;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint32_t part;

	if (ibv_query_port(p.ctx, 1, &port) || port.max_msg_sz % parts)
		fail("max_msg_sz");
	part = port.max_msg_sz / parts;
	mem = mmap(NULL, 2 * (size_t)part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	mr = mem == MAP_FAILED ? NULL : ibv_reg_mr(p.pd, mem, 2 * (size_t)part,
						   IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		fail("two buffers of %u bytes: %s", part, strerror(errno));
	for (uint32_t i = 0; i < parts; i++) {
		out[i] = (struct ibv_sge) { (uintptr_t)mem, part, mr->lkey };
		in[i] = (struct ibv_sge) { (uintptr_t)mem + part, part, mr->lkey };
	}
	out[parts] = (struct ibv_sge) { (uintptr_t)mem, 1, mr->lkey };
	fill(mem, part, 3);
	p.qp = sized_qp(p.scq, 4, 4, 17, 16, 0);
	if (!p.qp ||
	    ibv_modify_qp(p.qp, &(struct ibv_qp_attr) { .qp_state = IBV_QPS_INIT, .port_num = 1 },
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("QP: %s", strerror(errno));
	me.lid = port.lid;
	me.qpn = p.qp->qp_num;
	peer_rts(&p, p.qp, &me, 1);
	if (ibv_post_recv(p.qp, &rwr, &bad))
		fail("receive");
	send_post_raw(&p, &swr);
	for (int i = 0; i < 2; i++)
		if (!wc_get(p.scq, &wc, 60000) || wc.status ||
		    (wc.opcode == IBV_WC_RECV && wc.byte_len != port.max_msg_sz))
			fail("a message of max_msg_sz: %s", ibv_wc_status_str(wc.status));
	if (memcmp(mem, mem + part, part))
		fail("what arrived of a message of max_msg_sz is wrong");
	swr.num_sge++;
	send_post_raw(&p, &swr);
	wc_expect(p.scq, 0, IBV_WC_LOC_LEN_ERR, "a byte more than max_msg_sz");
	ibv_destroy_qp(p.qp);
	p.qp = NULL;
	ibv_dereg_mr(mr);
	munmap(mem, 2 * (size_t)part);
	printf("msg: %u\n", port.max_msg_sz);
}

/* Posts @num operations in one call. Return: how many were accepted. */
static uint32_t tag_ops(struct ibv_srq *srq, uint32_t num, enum ibv_ops_wr_opcode opcode, int want)
{
	struct ibv_ops_wr *wr = calloc(num, sizeof(*wr)), *bad = NULL;
	uint32_t n;
	int rc;

	for (n = 0; n < num; n++) {
		wr[n].opcode = opcode;
		wr[n].next = n + 1 < num ? &wr[n + 1] : NULL;
	}
	wr[num - (want ? 2 : 1)].flags = IBV_OPS_SIGNALED;
	rc = ibv_post_srq_ops(srq, wr, &bad);
	if (rc != want)
		fail("%u list operations %d: %s", num, opcode, strerror(rc));
	n = bad ? (uint32_t)(bad - wr) : num;
	free(wr);
	wc_expect(p.rcq, 0, IBV_WC_SUCCESS, "the last list operation");
	return n;
}

static void tags(void)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 1, .max_sge = 1 }, .pd = p.pd, .cq = p.rcq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
	};
	struct ibv_device_attr_ex x;
	struct ibv_tm_cap *cap = &init.tm_cap;
	struct ibv_srq *srq;

	if (ibv_query_device_ex(p.ctx, NULL, &x) || !x.tm_caps.max_num_tags)
		fail("no tags");
	cap->max_num_tags = x.tm_caps.max_num_tags;
	cap->max_ops = x.tm_caps.max_ops;
	srq = ibv_create_srq_ex(p.ctx, &init);
	if (!srq)
		fail("an SRQ of max_num_tags and max_ops: %s", strerror(errno));
	/* the device gets them when the call ends: none is executed before */
	if (tag_ops(srq, x.tm_caps.max_ops, IBV_WR_TAG_SYNC, 0) != x.tm_caps.max_ops ||
	    tag_ops(srq, x.tm_caps.max_ops + 1, IBV_WR_TAG_SYNC, ENOMEM) != x.tm_caps.max_ops)
		fail("max_ops is not what fits");
	if (tag_ops(srq, x.tm_caps.max_num_tags + 1, IBV_WR_TAG_ADD, ENOMEM) !=
	    x.tm_caps.max_num_tags)
		fail("max_num_tags is not what fits");
	ibv_destroy_srq(srq);
	cap->max_num_tags = x.tm_caps.max_num_tags + 1;
	refused("max_num_tags", ibv_create_srq_ex(p.ctx, &init), EINVAL);
	cap->max_num_tags--;
	cap->max_ops = x.tm_caps.max_ops + 1;
	refused("max_ops", ibv_create_srq_ex(p.ctx, &init), EINVAL);
	printf("tags: %u, %u operations\n", x.tm_caps.max_num_tags, x.tm_caps.max_ops);
}

/* ---- multicast ------------------------------------------------------------------------------- */

static union ibv_gid group(uint32_t n)
{
	union ibv_gid g = { .raw = { 0xff, 0x12, 0xa0, 0x1b } };

	memcpy(g.raw + 12, &n, sizeof(n));
	return g;
}

static void mcast(void)
{
	int qps = dev.max_mcast_qp_attach + 1, n, rc;
	struct ibv_qp **qp = calloc((size_t)qps, sizeof(struct ibv_qp *));
	union ibv_gid g = group(0);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };

	for (n = 0; n < qps; n++) {
		qp[n] = make_qp();
		if (!qp[n] || ibv_modify_qp(qp[n], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					    IBV_QP_PORT | IBV_QP_QKEY))
			fail("QP %d for multicast: %s", n, strerror(errno));
	}
	for (n = 0; n < dev.max_mcast_qp_attach; n++)
		if (ibv_attach_mcast(qp[n], &g, 0xc001))
			fail("QP %d of %d is not attached", n, dev.max_mcast_qp_attach);
	rc = ibv_attach_mcast(qp[n], &g, 0xc001);
	if (rc != ENOMEM)
		fail("a QP more than max_mcast_qp_attach: %s", strerror(rc));
	for (n = 1; n < dev.max_mcast_grp; n++) {
		g = group((uint32_t)n);
		rc = ibv_attach_mcast(qp[0], &g, 0xc001);
		if (rc)
			fail("group %d of %d: %s", n, dev.max_mcast_grp, strerror(rc));
	}
	g = group((uint32_t)n);
	rc = ibv_attach_mcast(qp[0], &g, 0xc001);
	if (rc != ENOMEM)
		fail("a group more than max_mcast_grp: %s", strerror(rc));
	for (n = 0; n < dev.max_mcast_grp; n++) {
		g = group((uint32_t)n);
		if (ibv_detach_mcast(qp[0], &g, 0xc001))
			fail("group %d is not left", n);
	}
	g = group(0);
	for (n = 1; n < dev.max_mcast_qp_attach; n++)
		if (ibv_detach_mcast(qp[n], &g, 0xc001))
			fail("QP %d is not detached", n);
	for (n = 0; n < qps; n++)
		if (ibv_destroy_qp(qp[n]))
			fail("QP %d is not destroyed", n);
	free(qp);
	printf("mcast: %d groups, %d QPs\n", dev.max_mcast_grp, dev.max_mcast_qp_attach);
}

void limits_main(const char *what)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} part[] = {
		{ "objects", all_objects }, { "qp", sizes_of_qps }, { "cq", sizes_of_cqs },
		{ "srq", sizes_of_srqs }, { "reads", reads }, { "pkeys", pkeys },
		{ "mr_size", mr_size }, { "mcast", mcast }, { "message", message }, { "tags", tags },
	};
	bool found = false;

	peer_open(&p, IBV_QPT_RC);
	if (ibv_query_device(p.ctx, &dev))
		fail("ibv_query_device");
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		if (!strcmp(what, part[i].name)) {
			/*
			 * the QP of peer_open() counts as one of the objects; other parts do not
			 * use it
			 */
			if (i) {
				ibv_destroy_qp(p.qp);
				p.qp = NULL;
			}
			part[i].run();
			found = true;
		}
	if (!found)
		fail("no such limit: %s", what);
	peer_close(&p);
	printf("limits end\n");
}
