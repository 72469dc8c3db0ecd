// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two processes share an XRC domain by a file. The parent creates the target. Both have an XRC SRQ
 * in the domain. The child opens the target and has the initiator; it uses the target after the
 * parent's objects are destroyed.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NAME	"/tmp/ohca-xrcd"
#define LEN		10000u
#define HALF		(PEER_BUF / 2)

/** struct side - objects of one process; @sock: to the other */
struct side {
	struct peer p;
	int fd, sock;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
};

static void need(bool ok, const char *what)
{
	if (!ok)
		fail("%s: %s", what, strerror(errno));
}

static void srq_open(struct side *s)
{
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = s->p.pd, .xrcd = s->xrcd, .cq = s->p.rcq,
	};

	s->srq = ibv_create_srq_ex(s->p.ctx, &sa);
	need(s->srq, "ibv_create_srq_ex");
	need(!ibv_get_srq_num(s->srq, &s->srqn), "ibv_get_srq_num");
}

static void side_open(struct side *s, int flags)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = flags,
	};
	struct peer *p = &s->p;

	p->ctx = device_open();
	s->fd = open(FILE_NAME, O_RDWR | (flags & O_CREAT), 0600);
	need(s->fd >= 0, FILE_NAME);
	xa.fd = s->fd;
	s->xrcd = ibv_open_xrcd(p->ctx, &xa);
	need(s->xrcd, "ibv_open_xrcd");
	p->pd = ibv_alloc_pd(p->ctx);
	p->scq = ibv_create_cq(p->ctx, 16, NULL, NULL, 0);
	p->rcq = ibv_create_cq(p->ctx, 16, NULL, NULL, 0);
	need(p->pd && p->scq && p->rcq, "PD or CQ");
	need(!posix_memalign((void **)&p->buf, 4096, PEER_BUF), "memory");
	memset(p->buf, 0, PEER_BUF);
	p->mr = ibv_reg_mr(p->pd, p->buf, PEER_BUF, all);
	need(p->mr, "ibv_reg_mr");
	srq_open(s);
}

static void side_close(struct side *s)
{
	struct peer *p = &s->p;

	if (s->srq)
		need(!ibv_destroy_srq(s->srq), "ibv_destroy_srq");
	need(!ibv_close_xrcd(s->xrcd), "ibv_close_xrcd");
	need(!ibv_destroy_cq(p->scq) && !ibv_destroy_cq(p->rcq), "ibv_destroy_cq");
	need(!ibv_dereg_mr(p->mr) && !ibv_dealloc_pd(p->pd), "PD");
	need(!ibv_close_device(p->ctx), "ibv_close_device");
	free(p->buf);
	close(s->fd);
}

static void post_recv(struct side *s, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)s->p.buf + HALF, LEN, s->p.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	need(!ibv_post_srq_recv(s->srq, &wr, &bad), "ibv_post_srq_recv");
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS), "to INIT");
}

static void to_rts(struct side *s, struct ibv_qp *qp, uint32_t dqpn, bool target)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = dqpn,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = 4, .ah_attr = { .port_num = 1 },
	};

	need(!ibv_query_port(s->p.ctx, 1, &port), "ibv_query_port");
	a.ah_attr.dlid = port.lid;
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    (target ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
	     "to RTR");
	a.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			    (target ? 0 : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_MAX_QP_RD_ATOMIC)), "to RTS");
}

/* Sends a message of the child to SRQ @srqn. */
static void send_to(struct side *s, enum ibv_wr_opcode op, uint32_t srqn, uint64_t wr_id,
		    const struct peer_info *to, enum ibv_wc_status status)
{
	struct ibv_sge sge = { (uintptr_t)s->p.buf, LEN, s->p.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = srqn,
		.wr.rdma = { to->addr + HALF, to->rkey },
	};

	send_post_raw(&s->p, &wr);
	wc_expect(s->p.scq, wr_id, status, "child's message");
}

static void swap(struct side *s, const void *out, void *in, size_t size)
{
	s->p.sock = s->sock;
	tcp_swap(&s->p, out, in, size);
}

static void step(struct side *s, uint32_t n)
{
	s->p.sock = s->sock;
	sync_at(&s->p, n);
}

static struct peer_info info(const struct side *s, uint32_t qpn)
{
	return (struct peer_info){ .addr = (uintptr_t)s->p.buf, .rkey = s->p.mr->rkey,
				   .qpn = qpn, .psn = s->srqn };
}

/*
 * A target that enters the error state causes an event; the core delivers it to the process that
 * created it.
 */
static void last_wqe(struct side *s, struct ibv_qp_init_attr_ex *qa)
{
	struct ibv_qp *tgt = ibv_create_qp_ex(s->p.ctx, qa);

	need(tgt, "second target");
	to_init(tgt);
	qp_to_err(tgt);
	event_expect(s->p.ctx, IBV_EVENT_QP_LAST_WQE_REACHED);
	need(!ibv_destroy_qp(tgt), "ibv_destroy_qp");
}

static void parent(struct side *s)
{
	struct ibv_qp_init_attr_ex qa = { .qp_type = IBV_QPT_XRC_RECV,
					  .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct peer_info me, you;
	struct ibv_qp *tgt;
	struct ibv_wc wc;

	side_open(s, O_CREAT);
	qa.xrcd = s->xrcd;
	last_wqe(s, &qa);
	tgt = ibv_create_qp_ex(s->p.ctx, &qa);
	need(tgt, "target");
	to_init(tgt);
	post_recv(s, 1);
	me = info(s, tgt->qp_num);
	swap(s, &me, &you, sizeof(me));
	to_rts(s, tgt, you.qpn, true);
	step(s, 1);
	/* the child has sent to this process */
	step(s, 2);
	wc = wc_expect(s->p.rcq, 1, IBV_WC_SUCCESS, "parent's receive");
	if (wc.byte_len != LEN || wc.qp_num != tgt->qp_num)
		fail("%u bytes from QP %u", wc.byte_len, wc.qp_num);
	check(s->p.buf + HALF, LEN, 7, "parent's data");
	memset(s->p.buf + HALF, 0, LEN);
	step(s, 3);
	/* the child has written to this process's memory, through its SRQ */
	step(s, 4);
	check(s->p.buf + HALF, LEN, 7, "parent's memory");
	/* destroy all objects here; the target belongs to the child, too */
	need(!ibv_destroy_qp(tgt), "ibv_destroy_qp");
	side_close(s);
	step(s, 5);
}

/*
 * Two SRQs have completions that were not polled. One SRQ is destroyed, and its completions with
 * it.
 */
static void srq_goes(struct side *s, const struct peer_info *me)
{
	struct ibv_srq *first = s->srq;
	uint32_t srqn = s->srqn;
	struct ibv_wc wc;

	post_recv(s, 13);
	post_recv(s, 14);
	srq_open(s);
	post_recv(s, 15);
	send_to(s, IBV_WR_SEND, srqn, 7, me, IBV_WC_SUCCESS);
	send_to(s, IBV_WR_SEND, s->srqn, 8, me, IBV_WC_SUCCESS);
	send_to(s, IBV_WR_SEND, srqn, 9, me, IBV_WC_SUCCESS);
	need(!ibv_destroy_srq(first), "ibv_destroy_srq");
	wc_expect(s->p.rcq, 15, IBV_WC_SUCCESS, "the other SRQ's receive");
	if (ibv_poll_cq(s->p.rcq, 1, &wc))
		fail("a receive of an SRQ that is gone");
}

static void child(struct side *s)
{
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
	};
	struct ibv_qp_open_attr oa = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE, .qp_type = IBV_QPT_XRC_RECV,
	};
	struct peer_info me, you;
	struct ibv_qp *tgt;

	side_open(s, 0);
	qa.pd = s->p.pd;
	qa.send_cq = s->p.scq;
	s->p.qp = ibv_create_qp_ex(s->p.ctx, &qa);
	need(s->p.qp, "initiator");
	to_init(s->p.qp);
	me = info(s, s->p.qp->qp_num);
	swap(s, &me, &you, sizeof(me));
	oa.xrcd = s->xrcd;
	oa.qp_num = you.qpn;
	tgt = ibv_open_qp(s->p.ctx, &oa);
	need(tgt, "ibv_open_qp");
	to_rts(s, s->p.qp, you.qpn, false);
	fill(s->p.buf, LEN, 7);
	post_recv(s, 11);
	step(s, 1);
	send_to(s, IBV_WR_SEND, you.psn, 1, &you, IBV_WC_SUCCESS);
	send_to(s, IBV_WR_SEND, s->srqn, 2, &me, IBV_WC_SUCCESS);
	wc_expect(s->p.rcq, 11, IBV_WC_SUCCESS, "child's receive");
	check(s->p.buf + HALF, LEN, 7, "child's data");
	step(s, 2);
	step(s, 3);
	send_to(s, IBV_WR_RDMA_WRITE, you.psn, 3, &you, IBV_WC_SUCCESS);
	step(s, 4);
	step(s, 5);
	/* the parent has destroyed its objects; the target and the child's SRQ work */
	post_recv(s, 12);
	send_to(s, IBV_WR_SEND, s->srqn, 4, &me, IBV_WC_SUCCESS);
	wc_expect(s->p.rcq, 12, IBV_WC_SUCCESS, "child's receive");
	send_to(s, IBV_WR_RDMA_READ, s->srqn, 5, &me, IBV_WC_SUCCESS);
	check(s->p.buf, LEN, 7, "child's data read back");
	srq_goes(s, &me);
	/* the parent's SRQ is destroyed, too */
	send_to(s, IBV_WR_SEND, you.psn, 6, &you, IBV_WC_REM_INV_REQ_ERR);
	if (qp_state(tgt) != IBV_QPS_ERR)
		fail("the target is not in error");
	need(!ibv_destroy_qp(s->p.qp) && !ibv_destroy_qp(tgt), "ibv_destroy_qp");
	side_close(s);
}

/* The parent creates the domain before the child opens it without O_CREAT. */
static void lead(struct side *s)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = open(FILE_NAME, O_RDWR | O_CREAT, 0600), .oflags = O_CREAT,
	};
	struct ibv_context *ctx = device_open();
	struct ibv_xrcd *first;

	need(xa.fd >= 0, FILE_NAME);
	first = ibv_open_xrcd(ctx, &xa);
	need(first, "ibv_open_xrcd");
	xa.oflags |= O_EXCL;
	if (ibv_open_xrcd(ctx, &xa))
		fail("a domain was created twice");
	step(s, 0);
	parent(s);
	need(!ibv_close_xrcd(first) && !ibv_close_device(ctx), "the domain's first handle");
	close(xa.fd);
}

void xrc_main(const char *name)
{
	struct side s = { .fd = -1 };
	int sv[2], status;
	pid_t pid;

	if (strcmp(name, "share"))
		fail("no such test: %s", name);
	unlink(FILE_NAME);
	need(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv), "socketpair");
	pid = fork();
	need(pid >= 0, "fork");
	s.sock = sv[pid > 0];
	close(sv[pid == 0]);
	if (!pid) {
		step(&s, 0);
		child(&s);
		exit(0);
	}
	lead(&s);
	need(waitpid(pid, &status, 0) == pid, "waitpid");
	if (status)
		fail("the child ended with %#x", status);
	unlink(FILE_NAME);
	printf("shared\n");
}
