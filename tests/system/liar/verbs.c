// SPDX-License-Identifier: GPL-2.0-or-later
/* Random verbs, on objects that exist or not. */
#define _GNU_SOURCE
#include "liar.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST	12		/* objects of each kind */
#define ARENA	(4u << 20)	/* bytes, registered in parts */

enum kind { CTX, PD, PARENT, CQ, CHANNEL, MR, MW, SRQ, QP, AH, XRCD, DM, MAP, KINDS };

static struct {
	void *p;
	size_t len;
} all[KINDS][MOST];
static unsigned int have[KINDS];
static uint8_t *arena;
/* Memory that the provider has allocated for queues; it gets overwritten. */
static struct {
	uint8_t *at;
	size_t len;
} queues[64];

static void put(enum kind k, void *p, size_t len)
{
	if (p && have[k] < MOST) {
		all[k][have[k]].len = len;
		all[k][have[k]++].p = p;
	}
}

static void *get(enum kind k)
{
	return have[k] ? all[k][rnd(have[k])].p : NULL;
}

static void *take(enum kind k, size_t *len)
{
	unsigned int i;
	void *p;

	if (!have[k])
		return NULL;
	i = rnd(have[k]);
	p = all[k][i].p;
	if (len)
		*len = all[k][i].len;
	all[k][i] = all[k][--have[k]];
	return p;
}

static struct ibv_context *ctx(void)
{
	return get(CTX);
}

/* A protection domain of either kind. */
static struct ibv_pd *pd(void)
{
	return rnd(3) ? get(PD) : get(PARENT);
}

static void *alloc(struct ibv_pd *p, void *arg, size_t size, size_t alignment, uint64_t type)
{
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int i = rnd(64);

	if (m == MAP_FAILED)
		return NULL;
	queues[i].at = m;
	queues[i].len = size;
	return m;
}

/* The memory is not freed, because the process is short. */
static void release(struct ibv_pd *p, void *arg, void *ptr, uint64_t type)
{
}

static void open_context(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (c)
		fcntl(c->async_fd, F_SETFL, O_NONBLOCK);
	put(CTX, c, 0);
	ibv_free_device_list(list);
}

static void make_pd(void)
{
	struct ibv_parent_domain_init_attr init = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = alloc, .free = release, .pd_context = queues,
	};

	if (!ctx())
		return;
	put(PD, ibv_alloc_pd(ctx()), 0);
	init.pd = get(PD);
	if (init.pd)
		put(PARENT, ibv_alloc_parent_domain(init.pd->context, &init), 0);
}

static void make_memory(void)
{
	struct ibv_alloc_dm_attr dm = { .length = rnd(2) ? 4096 : odd_value() };
	size_t at = rnd(ARENA), len = rnd(2) ? rnd(ARENA) : rnd(9000);
	unsigned int access = rnd(2) ? 7 : odd_value() & 0xff;
	struct ibv_pd *p = pd();

	if (!p)
		return;
	switch (rnd(8)) {
	case 7:
		/* the whole address space */
		put(MR, ibv_reg_mr_iova2(p, NULL, SIZE_MAX, 0, access | IBV_ACCESS_ON_DEMAND), 0);
		break;
	case 0:
		put(DM, ibv_alloc_dm(p->context, &dm), dm.length);
		break;
	case 1:
		if (get(DM))
			put(MR, ibv_reg_dm_mr(p, get(DM), rnd(4096), rnd(4096),
					      access | IBV_ACCESS_ZERO_BASED), 0);
		break;
	case 2:
		put(MW, ibv_alloc_mw(p, 1 + rnd(2)), 0);
		break;
	case 3:
		if (get(MR))
			ibv_rereg_mr(get(MR), rnd(8), p, arena + at, len, access);
		break;
	case 4:
		put(MR, ibv_reg_mr_iova2(p, rnd(8) ? arena : NULL, rnd(8) ? len : SIZE_MAX,
					 odd_value(), access | IBV_ACCESS_ON_DEMAND), 0);
		break;
	default:
		put(MR, ibv_reg_mr(p, arena + at, at + len > ARENA && rnd(8) ? ARENA - at : len,
				   access), 0);
	}
}

static void make_cq(void)
{
	struct ibv_context *c = ctx();
	struct ibv_comp_channel *ch = rnd(2) ? get(CHANNEL) : NULL;
	struct ibv_cq_init_attr_ex ex = {
		.cqe = 1 + rnd(300), .channel = ch, .comp_vector = rnd(3),
		.wc_flags = odd_value() & 0x7ff, .comp_mask = odd_value() & 7,
		.flags = rnd(4), .parent_domain = get(PARENT),
	};

	if (!c)
		return;
	switch (rnd(5)) {
	case 0:
		ch = ibv_create_comp_channel(c);
		if (ch)
			fcntl(ch->fd, F_SETFL, O_NONBLOCK);
		put(CHANNEL, ch, 0);
		break;
	case 1:
		put(CQ, ibv_create_cq_ex(c, &ex), 0);
		break;
	case 2:
		if (get(CQ))
			ibv_resize_cq(get(CQ), rnd(2) ? rnd(1000) : odd_value());
		break;
	default:
		put(CQ, ibv_create_cq(c, rnd(8) ? 1 + rnd(100) : odd_value(), NULL, ch, rnd(4)), 0);
	}
}

static void make_srq(void)
{
	struct ibv_srq_init_attr_ex ex = {
		.attr = { .max_wr = 1 + rnd(200), .max_sge = 1 + rnd(4), .srq_limit = rnd(9) },
		.comp_mask = rnd(2) ? 31 : odd_value() & 63,
		.srq_type = rnd(4), .pd = pd(), .xrcd = get(XRCD), .cq = get(CQ),
		.tm_cap = { .max_num_tags = rnd(70), .max_ops = rnd(70) },
	};
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = 3, .fd = -1, .oflags = O_CREAT };
	struct ibv_context *c = ctx();

	if (!c)
		return;
	/* libibverbs uses these without checks */
	if (!rnd(3))
		put(XRCD, ibv_open_xrcd(c, &xrcd), 0);
	else if (rnd(3) && ex.pd && ex.cq && (ex.xrcd || ex.srq_type != IBV_SRQT_XRC))
		put(SRQ, ibv_create_srq_ex(c, &ex), 0);
	else if (get(SRQ))
		ibv_modify_srq(get(SRQ), &ex.attr, rnd(4));
}

static void make_qp(void)
{
	static const enum ibv_qp_type types[] = {
		IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV,
		IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER,
	};
	struct ibv_qp_init_attr_ex ex = {
		.qp_type = types[rnd(sizeof(types) / sizeof(*types))],
		.send_cq = get(CQ), .recv_cq = get(CQ), .srq = rnd(3) ? NULL : get(SRQ),
		.cap = { .max_send_wr = rnd(200), .max_recv_wr = rnd(200),
			 .max_send_sge = rnd(8), .max_recv_sge = rnd(8),
			 .max_inline_data = rnd(2) ? 0 : rnd(300) },
		.sq_sig_all = rnd(2), .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd(),
		.xrcd = get(XRCD),
	};
	struct ibv_qp_open_attr open = {
		.comp_mask = 15, .qp_num = rnd(200), .xrcd = ex.xrcd, .qp_type = IBV_QPT_XRC_RECV,
	};

	if (!ctx())
		return;
	if (ex.qp_type == IBV_QPT_XRC_RECV)
		ex.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	if (!rnd(8))
		ex.comp_mask |= odd_value() & 0xff;
	if (!rnd(16) && ex.xrcd)
		put(QP, ibv_open_qp(ctx(), &open), 0);
	else if (ex.comp_mask & IBV_QP_INIT_ATTR_XRCD ? !!ex.xrcd : ex.pd && ex.send_cq)
		put(QP, ibv_create_qp_ex(ctx(), &ex), 0);
}

/* The next state with about the right attributes. */
static void modify_qp(void)
{
	struct ibv_qp *qp = get(QP);
	struct ibv_qp_attr a = {
		.qp_state = qp ? rnd(3) ? qp->state + 1 : rnd(8) : 0, .port_num = rnd(8) ? 1 : rnd(4),
		.path_mtu = 1 + rnd(5), .dest_qp_num = rnd(2) && qp ? qp->qp_num : rnd(300),
		.rq_psn = rnd(1 << 24), .sq_psn = rnd(1 << 24), .qkey = rnd(3),
		.qp_access_flags = rnd(256), .max_rd_atomic = rnd(20),
		.max_dest_rd_atomic = rnd(20), .min_rnr_timer = rnd(32), .timeout = 1 + rnd(8),
		.retry_cnt = rnd(8), .rnr_retry = rnd(8),
		.ah_attr = { .dlid = rnd(6), .port_num = rnd(8) ? 1 : rnd(4), .sl = rnd(16),
			     .is_global = !rnd(4), .static_rate = rnd(24) },
	};
	static const int want[] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT,
		[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
		[IBV_QPS_ERR + 1] = 0,
	};
	int mask = IBV_QP_STATE;

	if (!qp)
		return;
	if (a.qp_state <= IBV_QPS_ERR)
		mask |= want[a.qp_state];
	if (a.qp_state == IBV_QPS_INIT)
		mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	if (qp->qp_type == IBV_QPT_UD && a.qp_state == IBV_QPS_RTR)
		mask = IBV_QP_STATE;
	if (qp->qp_type == IBV_QPT_UD && a.qp_state == IBV_QPS_RTS)
		mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (!rnd(6))
		mask ^= 1 << rnd(26);
	ibv_modify_qp(qp, &a, mask);
}

static void post(void)
{
	struct ibv_mr *mr = get(MR);
	struct ibv_sge sge = {
		.addr = mr && rnd(8) ? (uintptr_t)mr->addr + rnd(64) : odd_value(),
		.length = rnd(16) ? rnd(9000) : odd_value(), .lkey = mr && rnd(8) ? mr->lkey : odd_value(),
	};
	struct ibv_send_wr wr = {
		.wr_id = rnd(100), .sg_list = &sge, .num_sge = rnd(8) ? 1 : rnd(9),
		.opcode = rnd(16), .send_flags = rnd(64), .imm_data = rnd(100),
		.wr.rdma = { .remote_addr = sge.addr, .rkey = mr ? mr->rkey : odd_value() },
	}, *bad;
	struct ibv_recv_wr recv = { .wr_id = rnd(100), .sg_list = &sge, .num_sge = rnd(2) }, *bad_recv;
	struct ibv_qp *qp = get(QP);
	struct ibv_mw *mw = get(MW);

	/* libibverbs uses these without checks */
	if (wr.opcode == IBV_WR_BIND_MW) {
		if (!mw || !mr)
			return;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = mw->rkey + rnd(2);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = mr, .addr = sge.addr, .length = sge.length, .mw_access_flags = rnd(64),
		};
	}
	if (wr.num_sge > 1)
		wr.num_sge = 0;
	if (!qp || qp->qp_type == IBV_QPT_XRC_RECV)
		return;
	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = get(AH);
		wr.wr.ud.remote_qpn = rnd(200);
		wr.wr.ud.remote_qkey = rnd(3);
		if (!wr.wr.ud.ah)
			return;
	}
	wr.send_flags &= ~IBV_SEND_INLINE;
	switch (rnd(4)) {
	case 0:
		if (!qp->srq)
			ibv_post_recv(qp, &recv, &bad_recv);
		break;
	case 1:
		if (get(SRQ))
			ibv_post_srq_recv(get(SRQ), &recv, &bad_recv);
		break;
	default:
		ibv_post_send(qp, &wr, &bad);
	}
}

static void poll_all(void)
{
	struct ibv_wc wc[8];
	char text[256];

	for (unsigned int i = 0; i < have[CQ]; i++) {
		ibv_poll_cq(all[CQ][i].p, 8, wc);
		ibv_req_notify_cq(all[CQ][i].p, rnd(2));
	}
	for (unsigned int i = 0; i < have[CTX]; i++)
		if (read(((struct ibv_context *)all[CTX][i].p)->async_fd, text, rnd(256)) < 0)
			continue;
	for (unsigned int i = 0; i < have[CHANNEL]; i++)
		if (read(((struct ibv_comp_channel *)all[CHANNEL][i].p)->fd, text, rnd(256)) < 0)
			continue;
}

static void make_ah(void)
{
	struct ibv_ah_attr a = { .dlid = rnd(6), .port_num = rnd(8) ? 1 : rnd(4), .sl = rnd(16),
				 .is_global = !rnd(3), .static_rate = rnd(24) };
	union ibv_gid mgid = { .raw = { 0xff, 0x12, 0x40, 0x1b, [15] = rnd(4) } };
	struct ibv_pd *p = pd();
	struct ibv_qp *qp = get(QP);

	if (p && rnd(2))
		put(AH, ibv_create_ah(p, &a), 0);
	else if (qp && rnd(2))
		ibv_attach_mcast(qp, &mgid, 0xc000 + rnd(4));
	else if (qp)
		ibv_detach_mcast(qp, &mgid, 0xc000 + rnd(4));
}

static void ask(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_srq_attr srq;
	struct ibv_port_attr port;
	struct ibv_qp_attr qp;
	union ibv_gid gid;

	if (ctx()) {
		ibv_query_port(ctx(), rnd(4), &port);
		ibv_query_gid(ctx(), rnd(3), rnd(300), &gid);
	}
	if (get(QP))
		ibv_query_qp(get(QP), &qp, odd_value(), &init);
	if (get(SRQ))
		ibv_query_srq(get(SRQ), &srq);
}

static void map(void)
{
	size_t len = 4096u * (1 + rnd(4));
	uint64_t at = rnd(3) ? rnd(3000) * 4096 : odd_value() & ~4095ull;
	struct ibv_context *c = ctx();
	uint8_t *m;

	if (!c)
		return;
	shared->calls++;
	shared->lies++;
	m = mmap(NULL, len, rnd(8) ? PROT_READ | PROT_WRITE : rnd(8),
		 rnd(8) ? MAP_SHARED : MAP_PRIVATE, c->cmd_fd, at);
	if (m == MAP_FAILED)
		return;
	shared->taken++;
	put(MAP, m, len);
	if (!rnd(4))
		mprotect(m, 4096, rnd(8));
}

/* Writes invalid WQEs, indices and doorbells to queues and mapped pages. */
static void scribble(void)
{
	unsigned int q = rnd(64);
	size_t len;
	void *m;

	if (queues[q].at)
		for (unsigned int n = rnd(8); n; n--) {
			uint64_t v = odd_value();

			memcpy(queues[q].at + rnd(queues[q].len / 4) * 4, &v, 4);
		}
	/* a page may be mapped read-only */
	m = take(MAP, &len);
	if (m && !mprotect(m, len, PROT_READ | PROT_WRITE)) {
		for (unsigned int n = rnd(8); n; n--)
			*(volatile uint64_t *)((uint8_t *)m + rnd(512) * 8) = odd_value();
		if (rnd(2))
			munmap(m, len);
	}
	/* pages of registered memory are removed and added */
	if (!rnd(4))
		madvise(arena + rnd(ARENA / 4096) * 4096, 4096, MADV_DONTNEED);
}

static void destroy(void)
{
	enum kind k = rnd(KINDS);
	void *p = k == MAP ? NULL : take(k, NULL);

	if (!p)
		return;
	switch (k) {
	case CTX:
		/*
		 * with its objects, which the kernel destroys; the provider's cleanup is not tested
		 */
		close(((struct ibv_context *)p)->cmd_fd);
		break;
	case PD:
	case PARENT:
		ibv_dealloc_pd(p);
		break;
	case CQ:
		ibv_destroy_cq(p);
		break;
	case CHANNEL:
		ibv_destroy_comp_channel(p);
		break;
	case MR:
		ibv_dereg_mr(p);
		break;
	case MW:
		ibv_dealloc_mw(p);
		break;
	case SRQ:
		ibv_destroy_srq(p);
		break;
	case QP:
		ibv_destroy_qp(p);
		break;
	case AH:
		ibv_destroy_ah(p);
		break;
	case XRCD:
		ibv_close_xrcd(p);
		break;
	case DM:
		ibv_free_dm(p);
		break;
	default:
		break;
	}
}

/* Creates a child, which has the same descriptors and mappings for a moment. */
static void have_child(void)
{
	pid_t child = fork();

	if (child)
		return;
	for (unsigned int n = rnd(6); n; n--) {
		lie_again();
		scribble();
	}
	if (rnd(2))
		kill(getpid(), SIGKILL);
	_exit(0);
}

void verbs_run(unsigned int steps)
{
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		return;
	/* begin without lies, so that there are objects */
	lie_about(0);
	open_context();
	make_pd();
	for (int i = 0; i < 3; i++) {
		make_cq();
		make_memory();
	}
	for (unsigned int i = 0; i < steps; i++) {
		static void (*const what[])(void) = {
			make_pd, make_memory, make_memory, make_cq, make_cq, make_srq, make_qp, make_qp,
			modify_qp, modify_qp, modify_qp, modify_qp, post, post, post, poll_all,
			make_ah, ask, map, scribble, destroy, destroy, destroy,
			lie_again, lie_again, lie_again, lie_again, lie_again, lie_again,
		};

		lie_about(i % 3 ? 0 : 3);
		what[rnd(sizeof(what) / sizeof(*what))]();
		if (!rnd(200))
			open_context();
		if (!rnd(100))
			have_child();
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
