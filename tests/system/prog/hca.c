// SPDX-License-Identifier: GPL-2.0-or-later
/* All adapters of a node and QPs on them. See hca.h. */
#include "hca.h"

#include <fcntl.h>
#include <poll.h>

#define RETRIES		5
#define READS		4	/* outstanding, of one QP */

/* ---- adapters ----------------------------------------------------------------------- */

bool hca_active(struct hca *h)
{
	struct ibv_port_attr port;

	must(ibv_query_port(h->ctx, 1, &port), "ibv_query_port");
	if (port.link_layer != IBV_LINK_LAYER_INFINIBAND)
		fail("%s is not of InfiniBand", ibv_get_device_name(h->ctx->device));
	h->lid = port.lid;
	return port.state == IBV_PORT_ACTIVE;
}

unsigned int hca_open_all(struct hca hca[HCA_RAILS])
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int n = 0;

	for (; list && list[n] && n < HCA_RAILS; n++) {
		struct hca *h = &hca[n];

		h->ctx = must_have(ibv_open_device(list[n]), "ibv_open_device");
		h->pd = must_have(ibv_alloc_pd(h->ctx), "ibv_alloc_pd");
		h->channel = must_have(ibv_create_comp_channel(h->ctx), "channel");
		fcntl(h->channel->fd, F_SETFL, O_NONBLOCK);
		if (!hca_active(h))
			fail("%s is not ACTIVE", ibv_get_device_name(list[n]));
		must(ibv_query_gid(h->ctx, 1, 0, &h->gid), "ibv_query_gid");
	}
	if (!n)
		fail("no verbs device");
	ibv_free_device_list(list);
	return n;
}

struct ibv_mr *hca_reg(struct hca *h, void *buf, size_t len)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;

	return must_have(ibv_reg_mr_iova2(h->pd, buf, len, (uintptr_t)buf, access),
			 "ibv_reg_mr_iova2");
}

struct ibv_cq *hca_cq(struct hca *h, unsigned int cqe, bool events)
{
	return must_have(ibv_create_cq(h->ctx, (int)cqe, NULL, events ? h->channel : NULL, 0),
			 "ibv_create_cq");
}

bool hca_sleep(const struct hca *hca, unsigned int n, int fd, int ms)
{
	struct pollfd f[HCA_RAILS + 1];
	struct ibv_cq *cq;
	void *arg;

	for (unsigned int r = 0; r < n; r++)
		f[r] = (struct pollfd) { .fd = hca[r].channel->fd, .events = POLLIN };
	f[n] = (struct pollfd) { .fd = fd, .events = POLLIN };
	if (poll(f, n + 1, ms) <= 0)
		return false;
	for (unsigned int r = 0; r < n; r++)
		while (!ibv_get_cq_event(hca[r].channel, &cq, &arg))
			ibv_ack_cq_events(cq, 1);
	return true;
}

/* ---- QPs ---------------------------------------------------------------------------- */

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			   IBV_QP_ACCESS_FLAGS), "to INIT");
}

struct ibv_qp *hca_qp(struct hca *h, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = HCA_DEPTH, .max_recv_wr = HCA_DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = HCA_INLINE },
	};
	struct ibv_qp *qp = must_have(ibv_create_qp(h->pd, &init), "ibv_create_qp");

	to_init(qp);
	return qp;
}

void hca_qp_again(struct ibv_qp *qp)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	must(ibv_modify_qp(qp, &reset, IBV_QP_STATE), "to RESET");
	to_init(qp);
}

void hca_qp_rts(struct ibv_qp *qp, const struct hca_path *to)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = to->qpn,
		.rq_psn = to->rq_psn, .sq_psn = to->sq_psn, .max_dest_rd_atomic = READS,
		.max_rd_atomic = READS, .min_rnr_timer = 12, .timeout = to->timeout,
		.retry_cnt = RETRIES, .rnr_retry = 7,
		.ah_attr = { .dlid = to->lid, .port_num = 1, .is_global = to->grh,
			     .grh = { .dgid = to->gid, .hop_limit = 64 } },
	};
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	int rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	must(ibv_modify_qp(qp, &a, rtr), "to RTR");
	a.qp_state = IBV_QPS_RTS;
	must(ibv_modify_qp(qp, &a, rts), "to RTS");
}

uint32_t hca_psn(uint32_t qpn, uint32_t epoch)
{
	return ((qpn + epoch * 77777u) * 2654435761u) >> 8;
}
