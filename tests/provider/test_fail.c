// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Each step that makes an object fails once: the program's memory, mapped memory, the kernel. The
 * call reports the reason and leaves nothing behind; the next attempt succeeds. An object that the
 * kernel does not destroy stays complete. Linked with --wrap, so that this file allocates for the
 * provider.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "fake.h"

/**
 * struct memory - @live: pieces allocated or mapped and not freed; @fail_at: which one fails, 1:
 * the next
 */
static struct {
	unsigned int fail_at;
	int live;
} memory;

void *__real_calloc(size_t num, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void __real_free(void *p);
void *__real_mmap(void *p, size_t n, int prot, int flags, int fd, off_t off);
int __real_munmap(void *p, size_t n);
void *__wrap_calloc(size_t num, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void __wrap_free(void *p);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t off);
int __wrap_munmap(void *p, size_t n);

static bool refused(void)
{
	if (!memory.fail_at || --memory.fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

static void *given(void *p)
{
	memory.live += p && p != MAP_FAILED;
	return p;
}

void *__wrap_calloc(size_t num, size_t n)
{
	return refused() ? NULL : given(__real_calloc(num, n));
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return refused() ? NULL : given(__real_aligned_alloc(align, n));
}

void __wrap_free(void *p)
{
	memory.live -= !!p;
	__real_free(p);
}

void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t off)
{
	return refused() ? MAP_FAILED : given(__real_mmap(p, n, prot, flags, fd, off));
}

int __wrap_munmap(void *p, size_t n)
{
	memory.live--;
	return __real_munmap(p, n);
}

/* ---- the objects -------------------------------------------------------------------- */

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_xrcd *xrcd;
static struct ibv_dm *dm;

static void *make_pd(void)
{
	return ops.alloc_pd(ctx);
}

static int end_pd(void *p)
{
	return ops.dealloc_pd(p);
}

static void *import_pd(void)
{
	struct ibv_pd *p = ops.import_pd(ctx, 5);

	if (p) {
		assert_ptr_equal(p->context, ctx);
		assert_int_equal(p->handle, 5);
		assert_int_equal(to_opd(p)->pdn, FAKE_PDN(5));
	}
	return p;
}

static int unimport_pd(void *p)
{
	ops.unimport_pd(p);
	return 0;
}

static void *make_td(void)
{
	struct ibv_td_init_attr attr = {};

	return ops.alloc_td(ctx, &attr);
}

static int end_td(void *p)
{
	return ops.dealloc_td(p);
}

static void *make_parent(void)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd };

	return ops.alloc_parent_domain(ctx, &attr);
}

static void *make_cq(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };

	return ops.create_cq_ex(ctx, &attr);
}

static int end_cq(void *p)
{
	return ops.destroy_cq(ibv_cq_ex_to_cq(p));
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { 5, 1, 0 } };

	return ops.create_srq(pd, &attr);
}

static int end_srq(void *p)
{
	return ops.destroy_srq(p);
}

static void *make_tags(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_TM, .pd = pd, .cq = cq,
		.tm_cap = { .max_num_tags = 3, .max_ops = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	};

	return ops.create_srq_ex(ctx, &attr);
}

static void *make_xrc_srq(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_XRC, .pd = pd, .cq = cq, .xrcd = xrcd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
	};

	return ops.create_srq_ex(ctx, &attr);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .pd = pd,
		.cap = { 4, 4, 1, 1, 0 }, .send_ops_flags = IBV_QP_EX_WITH_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};

	return ops.create_qp_ex(ctx, &attr);
}

static int end_qp(void *p)
{
	return ops.destroy_qp(p);
}

static void *make_target(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.cap = { 4, 4, 1, 1, 0 },
	};
	struct ibv_qp *p = ops.create_qp_ex(ctx, &attr);

	if (p) {
		assert_int_equal(attr.cap.max_send_wr | attr.cap.max_recv_wr, 0);
		assert_int_equal(to_oqp(p)->handle, p->qp_num);
	}
	return p;
}

static void *open_target(void)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = 17, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp *p = ops.open_qp(ctx, &attr);

	if (p)
		assert_int_equal(to_oqp(p)->handle, 17);
	return p;
}

static void *make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
	};

	return ops.open_xrcd(ctx, &attr);
}

static int end_xrcd(void *p)
{
	return ops.close_xrcd(p);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .dlid = 1, .port_num = 1 };

	return ops.create_ah(pd, &attr);
}

static int end_ah(void *p)
{
	return ops.destroy_ah(p);
}

static void *make_mr(void)
{
	return ops.reg_mr(pd, (void *)0x1000, 100, 0x7000, IBV_ACCESS_LOCAL_WRITE);
}

static int end_mr(void *p)
{
	return ops.dereg_mr(verbs_get_mr(p));
}

static void *make_dmabuf(void)
{
	return ops.reg_dmabuf_mr(pd, 0, 100, 0x7000, 3, IBV_ACCESS_LOCAL_WRITE);
}

static void *make_dm_mr(void)
{
	return ops.reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
}

static void *import_mr(void)
{
	struct ibv_mr *p = ops.import_mr(pd, 9);

	if (p)
		assert_int_equal(p->handle, 9);
	return p;
}

static int unimport_mr(void *p)
{
	ops.unimport_mr(p);
	return 0;
}

static void *make_mw(void)
{
	return ops.alloc_mw(pd, IBV_MW_TYPE_1);
}

static int end_mw(void *p)
{
	return ops.dealloc_mw(p);
}

static void *make_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };

	return ops.alloc_dm(ctx, &attr);
}

static int end_dm(void *p)
{
	return ops.free_dm(p);
}

static void *import_dm(void)
{
	struct ibv_dm *p = ops.import_dm(ctx, 7);

	if (p) {
		assert_int_equal(p->handle, 7);
		assert_ptr_equal(p->context, ctx);
		assert_int_equal(p->comp_mask, IBV_DM_MASK_HANDLE);
	}
	return p;
}

static int unimport_dm(void *p)
{
	ops.unimport_dm(p);
	return 0;
}

static void *open_again(void)
{
	return fake_open();
}

static void *import_context(void)
{
	return fake_import();
}

static int end_context(void *p)
{
	fake_close(p);
	return 0;
}

/**
 * struct kind - a kind of object
 * @memory: its allocations; @first: the first one that may fail, 0: all of them
 * @calls: its calls of the library and the kernel; for a @queue the first one is that for its
 *   memory (ENOMEM)
 * @held: the kernel may refuse to destroy it
 * @feature: bit of the device's feature that it needs, plus one; 0: none
 */
static const struct kind {
	const char *name;
	void *(*make)(void);
	int (*end)(void *);
	unsigned int memory, first;
	unsigned int calls;
	bool queue, held;
	unsigned int feature;
} kinds[] = {
	{ "PD", make_pd, end_pd, 1, 0, 1, false, true, 0 },
	{ "imported PD", import_pd, unimport_pd, 1, 0, 1, false, false, 0 },
	{ "thread domain", make_td, end_td, 1, 0, 0, false, false, 0 },
	{ "parent domain", make_parent, end_pd, 1, 0, 0, false, false, 0 },
	{ "CQ", make_cq, end_cq, 2, 0, 2, true, true, 0 },
	{ "SRQ", make_srq, end_srq, 2, 0, 2, true, true, 0 },
	{ "SRQ with tags", make_tags, end_srq, 3, 0, 2, true, true,
	  OHCA_FEATURE_TM + 1 },
	{ "XRC SRQ", make_xrc_srq, end_srq, 2, 0, 2, true, true,
	  OHCA_FEATURE_XRC + 1 },
	{ "QP", make_qp, end_qp, 2, 0, 2, true, true, 0 },
	{ "target", make_target, end_qp, 1, 0, 1, false, true, 0 },
	{ "opened target", open_target, end_qp, 1, 0, 1, false, true, 0 },
	{ "XRC domain", make_xrcd, end_xrcd, 1, 0, 1, false, true,
	  OHCA_FEATURE_XRC + 1 },
	{ "AH", make_ah, end_ah, 1, 0, 0, false, false, 0 },
	{ "MR", make_mr, end_mr, 1, 0, 1, false, true, 0 },
	{ "MR of a DMA-BUF", make_dmabuf, end_mr, 1, 0, 1, false, true, 0 },
	{ "MR of device memory", make_dm_mr, end_mr, 1, 0, 1, false, true, 0 },
	{ "imported MR", import_mr, unimport_mr, 1, 0, 1, false, false, 0 },
	{ "MW", make_mw, end_mw, 1, 0, 1, false, true,
	  OHCA_FEATURE_MW + 1 },
	{ "device memory", make_dm, end_dm, 2, 0, 1, false, true,
	  OHCA_FEATURE_DM + 1 },
	{ "imported device memory", import_dm, unimport_dm, 2, 0, 1, false, false,
	  OHCA_FEATURE_DM + 1 },
	/* the first allocation is that of libibverbs */
	{ "context", open_again, end_context, 2, 1, 2, false, false, 0 },
	{ "imported context", import_context, end_context, 2, 1, 2, false, false, 0 },
};

/** struct before - what exists before an attempt */
struct before {
	int live, bufs, dms, opens;
	int pd_refs;
};

static struct before before(void)
{
	return (struct before){ memory.live, fake.bufs, fake.dms, fake.opens,
				atomic_load(&to_opd(pd)->refs) };
}

static void same(const struct before *b)
{
	const struct before now = before();

	assert_memory_equal(b, &now, sizeof(now));
}

static int setup(void **state)
{
	memset(&fake, 0, sizeof(fake));
	fake.dm_length = 4096;
	ctx = fake_open();
	pd = ops.alloc_pd(ctx);
	cq = ops.create_cq(ctx, 8, NULL, 0);
	xrcd = make_xrcd();
	dm = make_dm();
	return !(ctx && pd && cq && xrcd && dm);
}

static int teardown(void **state)
{
	memory.fail_at = 0;
	if (ops.free_dm(dm) || ops.close_xrcd(xrcd) || ops.destroy_cq(cq) || ops.dealloc_pd(pd))
		return -1;
	fake_close(ctx);
	return fake.bufs || fake.opens || fake.dms;
}

static void no_memory(void **state)
{
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *k = &kinds[i];
		const struct before b = before();
		void *p;

		print_message("%s\n", k->name);
		for (unsigned int n = k->first; n < k->memory; n++) {
			memory.fail_at = n + 1;
			errno = 0;
			assert_null(k->make());
			assert_int_equal(errno, ENOMEM);
			assert_int_equal(memory.fail_at, 0);
			same(&b);
		}
		memory.fail_at = k->memory + 1;
		p = k->make();
		assert_non_null(p);
		assert_int_equal(memory.fail_at, 1);
		memory.fail_at = 0;
		assert_int_equal(memory.live - b.live, k->memory);
		assert_int_equal(k->end(p), 0);
		same(&b);
	}
}

static void refusals(void **state)
{
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *k = &kinds[i];
		const struct before b = before();
		struct before made;
		void *p;

		print_message("%s\n", k->name);
		for (unsigned int n = 0; n < k->calls; n++) {
			fake.skip = n;
			fake.fail = EDOM;
			errno = 0;
			assert_null(k->make());
			assert_int_equal(errno, k->queue && n == 0 ? ENOMEM : EDOM);
			assert_int_equal(fake.fail, 0);
			same(&b);
		}
		p = k->make();
		assert_non_null(p);
		if (k->held) {
			made = before();
			fake.fail = EBUSY;
			assert_int_equal(k->end(p), EBUSY);
			same(&made);
		}
		assert_int_equal(k->end(p), 0);
		same(&b);
	}
}

/* An object needs its own feature and no other one. */
static void features(void **state)
{
	struct ohca_context *octx = to_octx(ctx);
	const uint64_t all = octx->features;

	for (unsigned int f = 0; f < 64; f++) {
		octx->features = all & ~(1ull << f);
		for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			void *p;

			if (kinds[i].end == end_context)
				continue;
			errno = 0;
			p = kinds[i].make();
			assert_int_equal(!p, kinds[i].feature == f + 1);
			if (p)
				assert_int_equal(kinds[i].end(p), 0);
			else
				assert_int_equal(errno, EOPNOTSUPP);
		}
	}
	octx->features = all;
}

/* The free function of a queue's memory gets the same type as the allocation. */
static uint64_t asked, back;

static void *lend(struct ibv_pd *parent, void *context, size_t size, size_t align, uint64_t type)
{
	asked = type;
	return __real_aligned_alloc(align, size);
}

static void take(struct ibv_pd *parent, void *context, void *p, uint64_t type)
{
	assert_ptr_equal(context, &asked);
	back = type;
	__real_free(p);
}

static void lent(void **state)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd, .alloc = lend, .free = take, .pd_context = &asked,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
	};
	struct ibv_cq_init_attr_ex cattr = { .cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_pd *own = pd;
	struct ibv_cq_ex *ex;
	void *p;

	pd = ops.alloc_parent_domain(ctx, &attr);
	assert_non_null(pd);
	cattr.parent_domain = pd;
	ex = ops.create_cq_ex(ctx, &cattr);
	assert_int_equal(asked, OHCA_RES_CQ);
	assert_int_equal(ops.resize_cq(ibv_cq_ex_to_cq(ex), 20), 0);
	assert_int_equal(back, OHCA_RES_CQ);
	back = 0;
	assert_int_equal(end_cq(ex), 0);
	assert_int_equal(back, OHCA_RES_CQ);
	p = make_srq();
	assert_int_equal(fake.srq_attrs, IBV_SRQ_INIT_ATTR_PD);
	assert_int_equal(asked, OHCA_RES_SRQ);
	assert_int_equal(end_srq(p), 0);
	assert_int_equal(back, OHCA_RES_SRQ);
	p = make_tags();
	assert_int_equal(asked, OHCA_RES_SRQ);
	back = 0;
	assert_int_equal(end_srq(p), 0);
	assert_int_equal(back, OHCA_RES_SRQ);
	p = make_qp();
	assert_int_equal(asked, OHCA_RES_QP);
	/* the domain cannot be freed while anything of it exists */
	assert_int_equal(ops.dealloc_pd(pd), EBUSY);
	assert_int_equal(end_qp(p), 0);
	assert_int_equal(back, OHCA_RES_QP);
	/* the same for a QP that cannot be made */
	fake.fail = EDOM;
	back = 0;
	assert_null(make_qp());
	assert_int_equal(back, OHCA_RES_QP);
	assert_int_equal(ops.dealloc_pd(pd), 0);
	pd = own;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = { T(no_memory), T(refusals), T(features), T(lent) };

	return cmocka_run_group_tests_name("provider: failures", tests, NULL, NULL);
}
