// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages by SRQ, XRC, UC and UD. Each carries its number as immediate data; its contents depend
 * on number and kind.
 */
#include "kinds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define SLOTS		8u	/* of each receive queue */
#define SIZE		5000u
#define UD_SIZE		2000u
#define GRH		40u
#define PSN		0x123u
#define QUEUES		4u	/* SRQ, XRC's SRQ, UC, UD */

static struct {
	uint8_t out[KINDS][SIZE + 8];
	uint8_t in[QUEUES * SLOTS][SIZE + 8];
} mem;

static uint32_t size_of(enum kind kind)
{
	return kind == KIND_UD ? UD_SIZE : SIZE;
}

static int receive(struct kinds *k, uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)mem.in[slot], SIZE, k->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = KINDS_GOT + slot, .sg_list = &sge, .num_sge = 1 };

	switch (slot / SLOTS) {
	case 0:
		return ibv_post_srq_recv(k->srq, &wr, &bad);
	case 1:
		return ibv_post_srq_recv(k->xsrq, &wr, &bad);
	case 2:
		return ibv_post_recv(k->qp[KIND_UC], &wr, &bad);
	default:
		return ibv_post_recv(k->qp[KIND_UD], &wr, &bad);
	}
}

static int make_queues(struct kinds *k, struct ibv_context *ctx, struct ibv_pd *pd,
		       struct ibv_cq *cq)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = SLOTS, .max_sge = 1 } };
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex xsrq = {
		.attr = { .max_wr = SLOTS, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = pd,
		.cq = cq, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
				       IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
	};

	k->mr = ibv_reg_mr(pd, &mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE);
	if (!k->mr)
		return errno;
	k->loose = ibv_create_cq(ctx, 2 * SLOTS, NULL, NULL, 0);
	if (!k->loose)
		return errno;
	k->srq = ibv_create_srq(pd, &srq);
	if (!k->srq)
		return errno;
	k->xrcd = ibv_open_xrcd(ctx, &xrcd);
	if (!k->xrcd)
		return errno;
	xsrq.xrcd = k->xrcd;
	k->xsrq = ibv_create_srq_ex(ctx, &xsrq);
	if (!k->xsrq)
		return errno;
	return ibv_get_srq_num(k->xsrq, &k->me.srqn);
}

static int make_qp(struct kinds *k, enum kind kind, struct ibv_context *ctx, struct ibv_pd *pd,
		   struct ibv_cq *cq)
{
	static const enum ibv_qp_type types[KINDS] = {
		IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_XRC_SEND, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV,
	};
	bool loose = kind == KIND_UC || kind == KIND_UD, srq = kind <= KIND_SRQ2;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = types[kind], .send_cq = cq, .recv_cq = loose ? k->loose : cq,
		.srq = srq ? k->srq : NULL, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = loose ? SLOTS : 0,
			 .max_recv_sge = loose },
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = PEER_QKEY };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (kind == KIND_XRC_IN) {
		init = (struct ibv_qp_init_attr_ex) {
			.qp_type = IBV_QPT_XRC_RECV, .xrcd = k->xrcd,
			.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		};
	}
	k->qp[kind] = ibv_create_qp_ex(ctx, &init);
	if (!k->qp[kind])
		return errno;
	k->me.qpn[kind] = k->qp[kind]->qp_num;
	return ibv_modify_qp(k->qp[kind], &a, mask |
			     (kind == KIND_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int kinds_open(struct kinds *k, struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq)
{
	int rc = make_queues(k, ctx, pd, cq);

	for (enum kind kind = 0; !rc && kind < KINDS; kind++)
		rc = make_qp(k, kind, ctx, pd, cq);
	for (uint32_t slot = 0; !rc && slot < QUEUES * SLOTS; slot++)
		rc = receive(k, slot);
	return rc;
}

static int connect_qp(struct kinds *k, enum kind kind, uint32_t lid)
{
	enum kind there = kind == KIND_XRC ? KIND_XRC_IN : kind == KIND_XRC_IN ? KIND_XRC : kind;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .rq_psn = PSN, .sq_psn = PSN,
		.dest_qp_num = k->you.qpn[there], .min_rnr_timer = 12, .timeout = 15,
		.retry_cnt = 7, .rnr_retry = 7, .ah_attr = { .dlid = lid, .port_num = 1 },
	};
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN, rc;

	if (kind != KIND_UD)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (kind != KIND_UD && kind != KIND_UC) {
		if (kind != KIND_XRC)
			rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		if (kind != KIND_XRC_IN)
			rts |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		rts |= IBV_QP_TIMEOUT;
	}
	rc = ibv_modify_qp(k->qp[kind], &a, rtr);
	a.qp_state = IBV_QPS_RTS;
	return rc ? rc : ibv_modify_qp(k->qp[kind], &a, rts);
}

int kinds_connect(struct kinds *k, struct ibv_pd *pd, uint32_t lid)
{
	struct ibv_ah_attr ah = { .dlid = lid, .port_num = 1 };
	int rc = 0;

	for (enum kind kind = 0; !rc && kind < KINDS; kind++)
		rc = connect_qp(k, kind, lid);
	if (rc)
		return rc;
	k->ah = ibv_create_ah(pd, &ah);
	return k->ah ? 0 : errno;
}

int kinds_ask(struct kinds *k, uint32_t number)
{
	int rc = 0;

	for (enum kind kind = 0; !rc && kind <= KIND_UD; kind++) {
		struct ibv_sge sge = { (uintptr_t)mem.out[kind], size_of(kind), k->mr->lkey };
		struct ibv_send_wr *bad, wr = {
			.wr_id = KINDS_SENT + kind, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
			.imm_data = htonl(number),
		};

		fill(mem.out[kind], size_of(kind), number * KINDS + kind);
		if (kind == KIND_UD) {
			wr.wr.ud.ah = k->ah;
			wr.wr.ud.remote_qpn = k->you.qpn[KIND_UD];
			wr.wr.ud.remote_qkey = PEER_QKEY;
		} else if (kind == KIND_XRC) {
			wr.qp_type.xrc.remote_srqn = k->you.srqn;
		}
		rc = ibv_post_send(k->qp[kind], &wr, &bad);
	}
	return rc;
}

static enum kind kind_of(struct kinds *k, uint32_t qpn)
{
	for (enum kind kind = 0; kind < KINDS; kind++)
		if (k->me.qpn[kind] == qpn)
			return kind == KIND_XRC_IN ? KIND_XRC : kind;
	fail("a completion of QP %#x, which is none of these", qpn);
}

/* Checks that a message is complete and of its kind. */
static void verify(const struct ibv_wc *wc, enum kind kind)
{
	static const char * const names[] = { "SRQ", "second SRQ", "XRC", "UC", "UD" };
	uint32_t skip = kind == KIND_UD ? GRH : 0;

	if (wc->byte_len != size_of(kind) + skip || !(wc->wc_flags & IBV_WC_WITH_IMM))
		fail("%s: wrong data, %u bytes", names[kind], wc->byte_len);
	check(mem.in[wc->wr_id - KINDS_GOT] + skip, size_of(kind),
	      ntohl(wc->imm_data) * KINDS + kind, names[kind]);
}

uint32_t kinds_got(struct kinds *k, const struct ibv_wc *wc, uint32_t number)
{
	enum kind kind = kind_of(k, wc->qp_num);

	verify(wc, kind);
	if (ntohl(wc->imm_data) != number)
		fail("wrong data, message %u when %u is due", ntohl(wc->imm_data), number);
	return receive(k, (uint32_t)wc->wr_id - KINDS_GOT) ? 0 : 1u << (KINDS_GOT_BIT + kind);
}

void kinds_loose(struct kinds *k, uint32_t number)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(k->loose, 1, &wc) > 0) {
		enum kind kind;
		uint32_t came;

		/* another completion shows the cause */
		if (wc.status == IBV_WC_WR_FLUSH_ERR)
			continue;
		if (wc.status)
			fail("UC or UD: %s", ibv_wc_status_str(wc.status));
		kind = kind_of(k, wc.qp_num);
		verify(&wc, kind);
		came = ntohl(wc.imm_data);
		if (came > number || (kind == KIND_UC && came < k->next))
			fail("wrong data, UC or UD message %u at %u", came, number);
		if (kind == KIND_UC)
			k->next = came + 1;
		k->came++;
		if (receive(k, (uint32_t)wc.wr_id - KINDS_GOT))
			return;
	}
}

void kinds_close(struct kinds *k)
{
	if (k->ah)
		must(ibv_destroy_ah(k->ah), "ibv_destroy_ah");
	for (enum kind kind = 0; kind < KINDS; kind++)
		if (k->qp[kind])
			must(ibv_destroy_qp(k->qp[kind]), "ibv_destroy_qp");
	if (k->xsrq)
		must(ibv_destroy_srq(k->xsrq), "ibv_destroy_srq of XRC");
	if (k->xrcd)
		must(ibv_close_xrcd(k->xrcd), "ibv_close_xrcd");
	if (k->srq)
		must(ibv_destroy_srq(k->srq), "ibv_destroy_srq");
	if (k->loose)
		must(ibv_destroy_cq(k->loose), "ibv_destroy_cq");
	if (k->mr)
		must(ibv_dereg_mr(k->mr), "ibv_dereg_mr");
}
