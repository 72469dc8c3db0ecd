// SPDX-License-Identifier: GPL-2.0-or-later
/* One process on one machine: domains and allocators, windows, event moderation, memory. */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MARK	0x5ea1ed0ff1ce0b0bull

/* ---- parent domains --------------------------------------------------------------- */

enum { RES_QP = 1, RES_SRQ, RES_CQ, RES_NUM };

/** struct arena - requests to the allocator */
struct arena {
	void *addr[RES_NUM];
	size_t size[RES_NUM];
	unsigned int allocs[RES_NUM], frees[RES_NUM];
	unsigned int deny, standard;	/* resource types to refuse, and those for the library */
};

static void *arena_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			 uint64_t type)
{
	struct arena *a = context;
	void *p;

	if (type < RES_QP || type >= RES_NUM)
		fail("allocator asked for resource type %llu", (unsigned long long)type);
	if (type == a->deny)
		return NULL;
	if (type == a->standard)
		return IBV_ALLOCATOR_USE_DEFAULT;
	p = aligned_alloc(alignment, size);
	if (!p)
		fail("out of memory");
	/* the library has to clear it */
	memset(p, 0xa5, size);
	a->addr[type] = p;
	a->size[type] = size;
	a->allocs[type]++;
	return p;
}

static void arena_free(struct ibv_pd *pd, void *context, void *ptr, uint64_t type)
{
	struct arena *a = context;

	if (type < RES_QP || type >= RES_NUM || ptr != a->addr[type])
		fail("allocator got back what it never gave");
	a->frees[type]++;
	free(ptr);
}

static bool contains(const void *mem, size_t size, uint64_t v)
{
	return memmem(mem, size, &v, sizeof(v)) != NULL;
}

static struct ibv_cq *domain_cq(struct ibv_context *ctx, struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static void domains(void)
{
	struct ibv_parent_domain_init_attr attr = {
		.alloc = arena_alloc, .free = arena_free,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
	};
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_td_init_attr td_attr = { .comp_mask = 0 };
	struct peer p = { .sock = -1 };
	struct ibv_pd *parent, *inner;
	struct ibv_cq *cq;
	struct arena a = { .deny = 0 };
	struct ibv_srq *srq;
	struct ibv_td *td;

	peer_open(&p, IBV_QPT_RC);
	inner = p.pd;
	td = ibv_alloc_td(p.ctx, &td_attr);
	if (!td)
		fail("ibv_alloc_td: %s", strerror(errno));
	attr.pd = inner;
	attr.td = td;
	attr.pd_context = &a;
	parent = ibv_alloc_parent_domain(p.ctx, &attr);
	if (!parent)
		fail("ibv_alloc_parent_domain: %s", strerror(errno));
	if (ibv_dealloc_td(td) != EBUSY || ibv_dealloc_pd(inner) == 0)
		fail("a domain went while another names it");

	/* queues in the consumer's own memory, without locks */
	cq = domain_cq(p.ctx, parent);
	srq = ibv_create_srq(parent, &srq_attr);
	if (!cq || !srq)
		fail("CQ or SRQ: %s", strerror(errno));
	if (ibv_destroy_qp(p.qp) || ibv_destroy_cq(p.scq))
		fail("destroy");
	p.scq = cq;
	p.qp = peer_qp(&p, parent);
	peer_connect(&p);
	for (unsigned int i = 1; i < RES_NUM; i++)
		if (a.allocs[i] != 1)
			fail("%u allocations of type %u", a.allocs[i], i);
	fill(p.buf, 4096, 9);
	for (unsigned int i = 0; i < 200; i++) {
		send_post(&p, IBV_WR_RDMA_WRITE, MARK, 0, 4096, PEER_BUF / 2);
		wc_expect(p.scq, MARK, IBV_WC_SUCCESS, "WRITE");
	}
	check(p.buf + PEER_BUF / 2, 4096, 9, "WRITE");
	/* the WQE and the completion are where the allocator put them */
	if (!contains(a.addr[RES_QP], a.size[RES_QP], MARK) ||
	    !contains(a.addr[RES_CQ], a.size[RES_CQ], MARK))
		fail("the queues are not in the allocator's memory");
	if (ibv_dealloc_pd(parent) != EBUSY)
		fail("a parent domain went while queues refer to it");
	if (ibv_destroy_srq(srq) || ibv_destroy_qp(p.qp) || ibv_destroy_cq(p.scq))
		fail("destroy");
	for (unsigned int i = 1; i < RES_NUM; i++)
		if (a.frees[i] != 1)
			fail("%u frees of type %u", a.frees[i], i);

	/* refuse one, leave one to the library */
	a.deny = RES_CQ;
	if (domain_cq(p.ctx, parent) || errno != ENOMEM)
		fail("a CQ without memory");
	a.deny = 0;
	a.standard = RES_CQ;
	cq = domain_cq(p.ctx, parent);
	if (!cq || ibv_destroy_cq(cq) || a.allocs[RES_CQ] != 1 || a.frees[RES_CQ] != 1)
		fail("a CQ in the library's memory");
	if (ibv_dealloc_pd(parent) || ibv_dealloc_td(td))
		fail("dealloc");
	p.qp = NULL;
	p.scq = ibv_create_cq(p.ctx, 1, NULL, NULL, 0);
	peer_close(&p);
	printf("queues lay in the allocator's memory\n");
}

/* ---- windows of type 2 ------------------------------------------------------------ */

#define WINDOW	4096u	/* offset and length */

/* Two QPs connected to each other: the requester, and one of @pd. */
static void pair_make(struct peer *p, struct ibv_pd *pd, struct ibv_qp *qp[2])
{
	struct peer_info to = p->me;

	qp[0] = peer_qp(p, p->pd);
	qp[1] = peer_qp(p, pd);
	for (unsigned int i = 0; i < 2; i++) {
		to.qpn = qp[!i]->qp_num;
		peer_rts(p, qp[i], &to, to.psn);
	}
}

static void pair_destroy(struct ibv_qp *qp[2])
{
	if (ibv_destroy_qp(qp[0]) || ibv_destroy_qp(qp[1]))
		fail("ibv_destroy_qp");
}

static void post(struct peer *p, struct ibv_qp *qp, struct ibv_send_wr *wr,
		 enum ibv_wc_status status, const char *what)
{
	struct ibv_send_wr *bad;

	wr->wr_id = 7;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(qp, wr, &bad))
		fail("%s: %s", what, strerror(errno));
	wc_expect(p->scq, 7, status, what);
}

static void write_through(struct peer *p, struct ibv_qp *qp, uint32_t rkey,
			  enum ibv_wc_status status, const char *what)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, WINDOW, p->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { (uintptr_t)p->buf + WINDOW, rkey },
	};

	fill(p->buf, WINDOW, rkey);
	memset(p->buf + WINDOW, 0, WINDOW);
	post(p, qp, &wr, status, what);
	if (!status)
		check(p->buf + WINDOW, WINDOW, rkey, what);
}

static uint32_t bind(struct peer *p, struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = { mr, (uintptr_t)p->buf + WINDOW, WINDOW,
				       IBV_ACCESS_REMOTE_WRITE },
		},
	};

	post(p, qp, &wr, IBV_WC_SUCCESS, "bind");
	mw->rkey = wr.bind_mw.rkey;
	return mw->rkey;
}

static void invalidate(struct peer *p, struct ibv_qp *qp, uint32_t rkey,
		       enum ibv_wc_status status)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey };

	post(p, qp, &wr, status, "invalidate");
}

/* A window is valid only for the QP through which it was bound, while that QP exists. */
static void windows(void)
{
	const unsigned int type_2a = IBV_DEVICE_MEM_WINDOW_TYPE_2A,
			   type_2b = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	struct peer p = { .sock = -1 };
	struct ibv_device_attr attr;
	struct ibv_qp *first[2], *other[2], *stranger[2], *later[2];
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	unsigned int kind;
	uint32_t key;

	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	if (ibv_query_device(p.ctx, &attr))
		fail("ibv_query_device");
	kind = attr.device_cap_flags & (type_2a | type_2b);
	if (!(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) ||
	    (kind != type_2a && kind != type_2b))
		fail("capabilities %#x", attr.device_cap_flags);
	mr = ibv_reg_mr(p.pd, p.buf, PEER_BUF, ALL | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
	if (!mr || !mw)
		fail("memory window: %s", strerror(errno));
	pair_make(&p, p.pd, first);
	pair_make(&p, p.pd, other);
	pair_make(&p, p.pd2, stranger);
	key = bind(&p, first[1], mw, mr);
	write_through(&p, first[0], key, IBV_WC_SUCCESS, "to its QP");
	write_through(&p, other[0], key, IBV_WC_REM_ACCESS_ERR, "to another QP");
	write_through(&p, stranger[0], key, IBV_WC_REM_ACCESS_ERR, "to another PD's QP");
	invalidate(&p, p.qp, key, IBV_WC_MW_BIND_ERR);
	write_through(&p, first[0], key, IBV_WC_SUCCESS, "after others have tried");
	if (ibv_dereg_mr(mr) != EBUSY)
		fail("a region went while a window was bound to it");

	if (ibv_destroy_qp(first[1]))
		fail("ibv_destroy_qp");
	pair_make(&p, p.pd, later);
	write_through(&p, later[0], key, IBV_WC_REM_ACCESS_ERR, "its QP has gone");
	pair_destroy(later);
	pair_make(&p, p.pd, later);
	key = bind(&p, later[1], mw, mr);
	write_through(&p, later[0], key, IBV_WC_SUCCESS, "bound again");
	invalidate(&p, later[1], key, IBV_WC_SUCCESS);
	write_through(&p, later[0], key, IBV_WC_REM_ACCESS_ERR, "invalidated");
	pair_destroy(other);
	pair_destroy(stranger);
	pair_destroy(later);
	if (ibv_destroy_qp(first[0]))
		fail("ibv_destroy_qp");
	if (ibv_dealloc_mw(mw) || ibv_dereg_mr(mr))
		fail("the window does not go");
	peer_close(&p);
	printf("windows of type %s belong to their QP\n", kind == type_2a ? "2A" : "2B");
}

/* ---- moderation ------------------------------------------------------------------- */

#define MOD_COUNT	8
#define MOD_US		65535

static bool event_in(struct ibv_comp_channel *ch, int ms)
{
	struct pollfd f = { .fd = ch->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&f, 1, ms) != 1)
		return false;
	if (ibv_get_cq_event(ch, &cq, &context))
		fail("ibv_get_cq_event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void complete(struct peer *p, unsigned int n)
{
	while (n--) {
		send_post(p, IBV_WR_RDMA_WRITE, 1, 0, 8, 64);
		wc_expect(p->scq, 1, IBV_WC_SUCCESS, "WRITE");
	}
}

static void moderation(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = MOD_COUNT, .cq_period = MOD_US },
	};
	struct peer p = { .sock = -1 };
	struct ibv_comp_channel *ch;
	unsigned int held = 0;
	int64_t begin, took;

	peer_open(&p, IBV_QPT_RC);
	if (ibv_destroy_qp(p.qp) || ibv_destroy_cq(p.scq))
		fail("destroy");
	ch = ibv_create_comp_channel(p.ctx);
	p.scq = ch ? ibv_create_cq(p.ctx, 64, NULL, ch, 0) : NULL;
	if (!p.scq)
		fail("CQ: %s", strerror(errno));
	p.qp = peer_qp(&p, p.pd);
	peer_connect(&p);
	ibv_req_notify_cq(p.scq, 0);
	complete(&p, 1);
	if (!event_in(ch, 5000))
		fail("no event without moderation");
	if (ibv_modify_cq(p.scq, &attr))
		fail("ibv_modify_cq: %s", strerror(errno));
	for (unsigned int round = 0; round < 50 && held < 3; round++) {
		ibv_req_notify_cq(p.scq, 0);
		begin = ms_now();
		complete(&p, MOD_COUNT - 1);
		/* on a busy machine the period may have ended: then this proves nothing */
		if (event_in(ch, 0)) {
			if (ms_now() - begin < MOD_US / 1000)
				fail("an event after %d completions", MOD_COUNT - 1);
			continue;
		}
		complete(&p, 1);
		if (!event_in(ch, 5000))
			fail("no event after %d completions", MOD_COUNT);
		held++;
	}
	if (!held)
		fail("the machine is too busy for this test");
	/* fewer completions cause an event at the end of the period */
	ibv_req_notify_cq(p.scq, 0);
	begin = ms_now();
	complete(&p, 2);
	if (!event_in(ch, 5000))
		fail("no event after the period");
	took = ms_now() - begin;
	if (took < MOD_US / 1000 - 2)
		fail("an event after %lld ms instead of %d", (long long)took, MOD_US / 1000);
	attr.moderate.cq_count = 0;
	attr.moderate.cq_period = 0;
	if (ibv_modify_cq(p.scq, &attr))
		fail("ibv_modify_cq: %s", strerror(errno));
	ibv_req_notify_cq(p.scq, 0);
	complete(&p, 1);
	if (!event_in(ch, 5000))
		fail("no event after moderation");
	peer_close_on(&p);
	if (ibv_destroy_comp_channel(ch) || ibv_dealloc_pd(p.pd) || ibv_close_device(p.ctx))
		fail("cannot close");
	printf("events moderated\n");
}

/* ---- memory ----------------------------------------------------------------------- */

static uint8_t *pages(size_t size, int flags)
{
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
		       -1, 0);

	if (m == MAP_FAILED)
		fail("%zu bytes of memory: %s", size, strerror(errno));
	return m;
}

static int write_to(struct peer *p, uint64_t raddr, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, len, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};
	struct ibv_wc wc;

	send_post_raw(p, &wr);
	if (!wc_get(p->scq, &wc, 20000))
		fail("no completion");
	return wc.status;
}

static void writes(struct peer *p, const void *at, uint64_t raddr, uint32_t rkey, uint32_t len,
		   uint32_t seed, const char *what)
{
	int status;

	fill(p->buf, len, seed);
	status = write_to(p, raddr, rkey, len);
	if (status)
		fail("%s: %s", what, ibv_wc_status_str(status));
	check(at, len, seed, what);
}

static struct ibv_qp *target;	/* responder: a single QP would flush its own request */

/* Creates two QPs, connected to each other. */
static void connect_two(struct peer *p)
{
	struct ibv_port_attr port;
	struct peer_info a = { .psn = 1 }, b = { .psn = 2 };

	if (ibv_query_port(p->ctx, 1, &port))
		fail("ibv_query_port");
	if (ibv_destroy_qp(p->qp) || (target && ibv_destroy_qp(target)))
		fail("ibv_destroy_qp");
	p->qp = peer_qp(p, p->pd);
	target = peer_qp(p, p->pd);
	a.qpn = p->qp->qp_num;
	b.qpn = target->qp_num;
	a.lid = b.lid = port.lid;
	peer_rts(p, p->qp, &b, a.psn);
	peer_rts(p, target, &a, b.psn);
}

/* Access with the key must fail; afterwards there are new QPs. */
static void refused(struct peer *p, uint64_t raddr, uint32_t rkey, const char *what)
{
	int status = write_to(p, raddr, rkey, 64);

	if (status != IBV_WC_REM_ACCESS_ERR)
		fail("%s: %s", what, ibv_wc_status_str(status));
	connect_two(p);
}

static void rereg(struct peer *p, uint8_t *a, uint8_t *b)
{
	struct ibv_mr *mr = ibv_reg_mr(p->pd, a + 100, 50000, ALL);
	int rc;

	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	writes(p, a + 100, (uintptr_t)a + 100, mr->rkey, 50000, 1, "before");
	/* other memory of another length */
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b + 77, 90000, 0);
	if (rc)
		fail("new translation: %d, %s", rc, strerror(errno));
	writes(p, b + 77, (uintptr_t)b + 77, mr->rkey, 90000, 2, "new translation");
	check(a + 100, 50000, 1, "what was registered before");
	refused(p, (uintptr_t)a + 100, mr->rkey, "old address");
	/* another protection domain, and back */
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, p->pd2, NULL, 0, 0);
	if (rc)
		fail("new PD: %d, %s", rc, strerror(errno));
	refused(p, (uintptr_t)b + 77, mr->rkey, "other PD");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, p->pd, NULL, 0,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (rc)
		fail("new PD and rights: %d, %s", rc, strerror(errno));
	refused(p, (uintptr_t)b + 77, mr->rkey, "right taken away");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL);
	if (rc)
		fail("new rights: %d, %s", rc, strerror(errno));
	writes(p, b + 77, (uintptr_t)b + 77, mr->rkey, 90000, 4, "new rights");
	/* two changes at a time */
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL,
			  a, 60000, IBV_ACCESS_REMOTE_READ);
	if (rc)
		fail("new translation and rights: %d, %s", rc, strerror(errno));
	refused(p, (uintptr_t)a, mr->rkey, "right taken away with the translation");
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD, p->pd2,
			  b, 60000, 0);
	if (rc)
		fail("new translation and PD: %d, %s", rc, strerror(errno));
	refused(p, (uintptr_t)b, mr->rkey, "other PD with the translation");
	/* all at once */
	rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			  IBV_REREG_MR_CHANGE_ACCESS, p->pd, a, PEER_BUF, ALL);
	if (rc)
		fail("everything: %d, %s", rc, strerror(errno));
	writes(p, a + PEER_BUF - 4096, (uintptr_t)a + PEER_BUF - 4096, mr->rkey, 4096, 3,
	       "everything new");
	if (ibv_dereg_mr(mr))
		fail("ibv_dereg_mr");
}

/* A read-only region becomes writable in place, wherever it begins. */
static void rereg_writable(struct peer *p, uint8_t *a)
{
	static const int extra[] = { 0, IBV_ACCESS_ZERO_BASED };
	int rc;

	for (int i = 0; i < 2; i++) {
		uint64_t at = extra[i] ? 0 : (uintptr_t)a + 50;
		struct ibv_mr *mr = ibv_reg_mr(p->pd, a + 50, 70000,
					       IBV_ACCESS_REMOTE_READ | extra[i]);
		uint32_t key = mr ? mr->rkey : 0;

		if (!mr)
			fail("for reading: %s", strerror(errno));
		refused(p, at, key, "region for reading");
		fill(a + 50, 70000, 5);
		/* it cannot change between zero-based and address-based */
		if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  ALL | (extra[i] ^ IBV_ACCESS_ZERO_BASED)))
			fail("another base without a new translation");
		rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL | extra[i]);
		if (rc || mr->rkey != key)
			fail("right to write: %d, %s", rc, strerror(errno));
		check(a + 50, 70000, 5, "data of a region that became writable");
		writes(p, a + 50, at, key, 70000, 6, "right to write");
		if (ibv_dereg_mr(mr))
			fail("ibv_dereg_mr");
	}
}

static void memory(void)
{
	const size_t huge = 8u << 20;
	struct peer p = { .sock = -1 };
	struct ibv_mr *mr;
	uint8_t *a = pages(PEER_BUF, 0), *b = pages(PEER_BUF, 0), *mem;

	peer_open(&p, IBV_QPT_RC);
	connect_two(&p);
	/* zero-based: remote addresses are offsets */
	mr = ibv_reg_mr(p.pd, a + 333, 100000, ALL | IBV_ACCESS_ZERO_BASED);
	if (!mr)
		fail("zero based: %s", strerror(errno));
	writes(&p, a + 333 + 5000, 5000, mr->rkey, 95000, 1, "zero based");
	refused(&p, (uintptr_t)a + 333, mr->rkey, "address of a zero based region");
	refused(&p, 100000 - 63, mr->rkey, "end of a zero based region");
	ibv_dereg_mr(mr);
	/* an address chosen by the consumer */
	mr = ibv_reg_mr_iova(p.pd, a + 333, 100000, 0x123456789000ull + 333, ALL);
	if (!mr)
		fail("iova: %s", strerror(errno));
	writes(&p, a + 333 + 10, 0x123456789000ull + 343, mr->rkey, 99990, 2, "iova");
	ibv_dereg_mr(mr);
	/* a hint without effect */
	mr = ibv_reg_mr(p.pd, a, PEER_BUF, ALL | IBV_ACCESS_RELAXED_ORDERING);
	if (!mr)
		fail("relaxed ordering: %s", strerror(errno));
	writes(&p, a, (uintptr_t)a, mr->rkey, 100000, 3, "relaxed ordering");
	ibv_dereg_mr(mr);
	rereg(&p, a, b);
	rereg_writable(&p, a);
	/* huge pages, from the middle of the first to the middle of the last */
	mem = pages(huge, MAP_HUGETLB);
	mr = ibv_reg_mr(p.pd, mem + 12345, huge - 54321, ALL | IBV_ACCESS_HUGETLB);
	if (!mr)
		fail("huge pages: %s", strerror(errno));
	for (size_t off = 12345; off + 600000 < huge - 54321; off += 600000)
		writes(&p, mem + off, (uintptr_t)mem + off, mr->rkey, 600000, (uint32_t)off,
		       "huge pages");
	ibv_dereg_mr(mr);
	munmap(mem, huge);
	/* the same, not pinned: the first access is to the third page, the last ones to all */
	mem = pages(huge, MAP_HUGETLB);
	mr = ibv_reg_mr(p.pd, mem + 12345, huge - 54321,
			ALL | IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND);
	if (!mr)
		fail("huge pages that are not pinned: %s", strerror(errno));
	writes(&p, mem + (5 << 20), (uintptr_t)mem + (5 << 20), mr->rkey, 600000, 4,
	       "the third huge page");
	for (size_t off = 12345; off + 600000 < huge - 54321; off += 600000)
		writes(&p, mem + off, (uintptr_t)mem + off, mr->rkey, 600000, (uint32_t)off,
		       "huge pages that are not pinned");
	ibv_dereg_mr(mr);
	munmap(mem, huge);
	munmap(a, PEER_BUF);
	munmap(b, PEER_BUF);
	if (ibv_destroy_qp(target))
		fail("ibv_destroy_qp");
	peer_close(&p);
	printf("every kind of memory worked\n");
}

/* ---- multicast -------------------------------------------------------------------- */

/* A UD QP attached to one MGID with two MLIDs is detached twice, or when its process ends. */
static void mcast(void)
{
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	union ibv_gid mgid = { .raw = { 0xff, 0x12, 0xa0, [15] = 1 } };

	if (!pd || !cq)
		fail("PD or CQ: %s", strerror(errno));
	for (int round = 0; round < 2; round++) {
		struct ibv_qp *qp = ibv_create_qp(pd, &init);

		if (!qp)
			fail("ibv_create_qp: %s", strerror(errno));
		for (uint16_t mlid = 0xc001; mlid < 0xc003; mlid++)
			if (ibv_attach_mcast(qp, &mgid, mlid))
				fail("attach %#x: %s", mlid, strerror(errno));
		if (!ibv_destroy_qp(qp))
			fail("a QP was destroyed that is attached");
		if (round)
			break;
		for (uint16_t mlid = 0xc001; mlid < 0xc003; mlid++)
			if (ibv_detach_mcast(qp, &mgid, mlid))
				fail("detach %#x: %s", mlid, strerror(errno));
		if (ibv_destroy_qp(qp))
			fail("ibv_destroy_qp: %s", strerror(errno));
	}
	printf("attached and detached\n");
}

void local_main(const char *name)
{
	if (!strcmp(name, "share"))
		share_main();
	else if (!strcmp(name, "dm"))
		dm_main();
	else if (!strcmp(name, "doorbells"))
		doorbells_main();
	else if (!strcmp(name, "fork"))
		fork_main(false);
	else if (!strcmp(name, "fork-init"))
		fork_main(true);
	else if (!strcmp(name, "domains"))
		domains();
	else if (!strcmp(name, "moderation"))
		moderation();
	else if (!strcmp(name, "memory"))
		memory();
	else if (!strcmp(name, "windows"))
		windows();
	else if (!strcmp(name, "mcast"))
		mcast();
	else if (!strcmp(name, "channels"))
		channels_main();
	else if (!strcmp(name, "supplied"))
		supplied_main();
	else if (!strcmp(name, "narrow"))
		narrow_main();
	else if (!strcmp(name, "lost"))
		lost_main();
	else if (!strcmp(name, "nomem"))
		nomem_main();
	else
		fail("no such scenario: %s", name);
}
