// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions with on-demand paging: keys and states, page faults, prefetches, and the limits of
 * tables. The test decides when the memory of these regions becomes available.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/pci.h>
#include <rdma/ib_umem_odp.h>

#include "fake.h"
#include "fatal.h"
#include "fault.h"
#include "odp.h"
#include "ohca_test.h"
#include "paged.h"
#include "prefetch.h"
#include "uctx.h"
#include "verbs.h"

#define PATIENCE	(20 * HZ)
#define LOG_FAULTS	9	/* more faults than a work queue runs at a time by default */
#define FAULTS		BIT(LOG_FAULTS)
#define PDN		5

/**
 * struct memory - a device with a region whose memory is missing, and one whose memory is present
 * @f: the device
 * @slow: region with key 1 << 8, whose populate() waits for @come
 * @quick: region with key 2 << 8
 * @pd: PD of both
 * @come: completed when the memory of @slow becomes available
 * @waiting: calls of populate() of @slow
 * @brought: calls of populate() of @quick
 * @resumed: PAGE_FAULT_RESUME commands
 * @failed: PAGE_FAULT_RESUME commands with OHCA_FAULT_FAILED
 */
struct memory {
	struct ohca_fake *f;
	struct ohca_paged *slow;
	struct ohca_paged *quick;
	struct ohca_pd pd;
	struct completion come;
	atomic_t waiting;
	atomic_t brought;
	atomic_t resumed;
	atomic_t failed;
};

static struct memory *memory_of(struct ohca_paged *p)
{
	return (struct memory *)p->start;
}

static int populate_slow(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	struct memory *m = memory_of(p);

	atomic_inc(&m->waiting);
	wait_for_completion(&m->come);
	return 0;
}

static int populate_quick(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	atomic_inc(&memory_of(p)->brought);
	return want == OHCA_WANT_WRITE ? -EFAULT : 0;
}

static const struct ohca_paged_ops slow_ops = { .populate = populate_slow };
static const struct ohca_paged_ops quick_ops = { .populate = populate_quick };

static void count_resume(struct ohca_fake *f, const struct ohca_hw_aqe *aqe)
{
	struct memory *m = f->priv;

	if (aqe->hdr.opcode != OHCA_CMD_PAGE_FAULT_RESUME)
		return;
	if (le32_to_cpu(aqe->fault_resume.flags) & OHCA_FAULT_FAILED)
		atomic_inc(&m->failed);
	atomic_inc(&m->resumed);
}

/* A region of 1 MiB with iova 0. It has no release(). */
static struct ohca_paged *make_region(struct kunit *test, struct memory *m, u32 key,
				      const struct ohca_paged_ops *ops)
{
	struct ohca_paged *p = ohca_paged_alloc(m->f->dev, 0, (uintptr_t)m, 1 << 20, PAGE_SHIFT,
						IB_ACCESS_LOCAL_WRITE, ops);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->key = key;
	p->pdn = PDN;
	KUNIT_ASSERT_EQ(test, 0, ohca_paged_insert(p));
	return p;
}

static struct memory *make_memory(struct kunit *test)
{
	struct memory *m = ohca_test_alloc(test, sizeof(*m));
	struct ohca_dev *dev;

	m->f = ohca_fake_make(test);
	m->f->cmd = count_resume;
	m->f->priv = m;
	dev = m->f->dev;
	xa_init(&dev->paged);
	ohca_fatal_init(dev);
	ohca_flush_init(dev);
	dev->features = BIT_ULL(OHCA_FEATURE_ODP);
	dev->attr.log_max_faults = LOG_FAULTS;
	m->pd.ibpd.device = &dev->ibdev;
	m->pd.pdn = PDN;
	init_completion(&m->come);
	KUNIT_ASSERT_EQ(test, 0, ohca_faults_init(dev));
	m->slow = make_region(test, m, 1 << 8, &slow_ops);
	m->quick = make_region(test, m, 2 << 8, &quick_ops);
	return m;
}

static void free_region(struct ohca_paged *p)
{
	ohca_paged_dereg_begin(p);
	ohca_paged_remove(p);
	/* waits for work on the region */
	ohca_obj_release(&p->obj);
	kfree(p);
}

static void free_memory(struct memory *m)
{
	struct ohca_dev *dev = m->f->dev;

	complete_all(&m->come);
	free_region(m->slow);
	free_region(m->quick);
	ohca_faults_free(dev);
	xa_destroy(&dev->paged);
	ohca_fatal_stop(dev);
	ohca_test_end(dev);
}

static bool becomes(const atomic_t *n, int want)
{
	unsigned long end = jiffies + PATIENCE;

	while (atomic_read(n) != want && time_before(jiffies, end))
		usleep_range(100, 500);
	return atomic_read(n) == want;
}

static bool fault(struct memory *m, u32 slot, u32 key, u64 addr, u8 flags)
{
	struct ohca_hw_fault_eqe eqe = {
		.type = OHCA_EVENT_PAGE_FAULT, .flags = flags, .id = cpu_to_le32(slot),
		.addr = cpu_to_le64(addr), .length = cpu_to_le32(64), .key = cpu_to_le32(key),
	};

	return ohca_fault_event(m->f->dev, &eqe);
}

/* ---- page faults ---- */

/* An event is accepted if its slot is free, and answered according to populate(). */
static void fault_slots(struct kunit *test)
{
	struct memory *m = make_memory(test);
	struct task_struct *t = ohca_fake_start(test, m->f);
	struct ohca_hw_fault_eqe eqe = { .type = OHCA_EVENT_PAGE_FAULT + 1 };

	KUNIT_EXPECT_FALSE(test, ohca_fault_event(m->f->dev, &eqe));
	KUNIT_EXPECT_FALSE(test, fault(m, FAULTS, m->quick->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, fault(m, 0, m->quick->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 1));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&m->failed));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&m->brought));
	/* the length is a hint: after a failure the driver tries the first byte alone */
	KUNIT_EXPECT_TRUE(test, fault(m, 0, m->quick->key, 0, OHCA_FAULT_WRITE));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 2));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&m->failed));
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&m->brought));
	/* unknown key: the device repeats the access and fails it */
	KUNIT_EXPECT_TRUE(test, fault(m, 0, 3 << 8, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 3));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&m->failed));
	/* an address behind the end of the region */
	KUNIT_EXPECT_TRUE(test, fault(m, 0, m->quick->key, 1 << 20, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 4));
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&m->failed));
	/* a slot is busy until the fault is answered */
	KUNIT_EXPECT_TRUE(test, fault(m, 7, m->slow->key, 0, 0));
	KUNIT_EXPECT_FALSE(test, fault(m, 7, m->slow->key, 0, 0));
	KUNIT_EXPECT_FALSE(test, fault(m, 7 | 1 << OHCA_FAULT_SLOT_BITS, m->quick->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, fault(m, 8, m->quick->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 5));
	complete_all(&m->come);
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 6));
	KUNIT_EXPECT_TRUE(test, fault(m, 7, m->quick->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 7));
	free_memory(m);
	kthread_stop(t);
}

/* Faults in all slots are resolved concurrently. */
static void fault_all(struct kunit *test)
{
	struct memory *m = make_memory(test);
	struct task_struct *t = ohca_fake_start(test, m->f);
	u32 i;

	for (i = 0; i < FAULTS - 1; i++)
		KUNIT_EXPECT_TRUE(test, fault(m, i, m->slow->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->waiting, FAULTS - 1));
	KUNIT_EXPECT_TRUE(test, fault(m, i, m->quick->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 1));
	complete_all(&m->come);
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, FAULTS));
	free_memory(m);
	kthread_stop(t);
}

/* ---- prefetches ---- */

/** struct adviser - a thread that makes @want prefetch calls; @done: calls that have returned */
struct adviser {
	struct memory *m;
	int want;
	atomic_t done;
	int wrong;
	struct completion ended;
};

static int adviser_thread(void *data)
{
	struct adviser *a = data;
	struct ib_sge sge = { .length = 64, .lkey = a->m->slow->key };
	int i;

	for (i = 0; i < a->want; i++) {
		if (ohca_advise_mr(&a->m->pd.ibpd, IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1,
				   NULL))
			a->wrong++;
		atomic_inc(&a->done);
	}
	complete(&a->ended);
	return 0;
}

/*
 * Prefetches of missing memory do not delay a fault, even if all other slots have faults of missing
 * memory. The caller waits if too many prefetches are queued.
 */
static void prefetch_aside(struct kunit *test)
{
	struct memory *m = make_memory(test);
	struct task_struct *t = ohca_fake_start(test, m->f);
	struct adviser *a = ohca_test_alloc(test, sizeof(*a));
	unsigned long end = jiffies + PATIENCE;
	u32 i;

	a->m = m;
	a->want = 1100;
	init_completion(&a->ended);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(adviser_thread, a, "ohca-adviser")));
	/* wait until all queued prefetches run and the thread waits in the next one */
	while (atomic_read(&a->done) != a->want &&
	       atomic_read(&m->waiting) != OHCA_PREFETCH_ALL + 1 && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_EXPECT_EQ(test, OHCA_PREFETCH_ALL, atomic_read(&a->done));
	KUNIT_EXPECT_EQ(test, OHCA_PREFETCH_ALL, atomic_read(&m->f->dev->prefetches));
	for (i = 0; i < FAULTS - 1; i++)
		KUNIT_EXPECT_TRUE(test, fault(m, i, m->slow->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->waiting, OHCA_PREFETCH_ALL + 1 + FAULTS - 1));
	KUNIT_EXPECT_TRUE(test, fault(m, i, m->quick->key, 0, 0));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, 1));
	complete_all(&m->come);
	KUNIT_EXPECT_TRUE(test, wait_for_completion_timeout(&a->ended, PATIENCE));
	KUNIT_EXPECT_EQ(test, 0, a->wrong);
	KUNIT_EXPECT_TRUE(test, becomes(&m->waiting, a->want + FAULTS - 1));
	KUNIT_EXPECT_TRUE(test, becomes(&m->resumed, FAULTS));
	KUNIT_EXPECT_TRUE(test, becomes(&m->f->dev->prefetches, 0));
	free_memory(m);
	kthread_stop(t);
}

/* Limits of the queued prefetches of a context and of all contexts. */
static void prefetch_limits(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_ucontext *ctx = ohca_test_alloc(test, 5 * sizeof(*ctx));
	u32 i, k;

	for (i = 0; i < OHCA_PREFETCH_ALL / OHCA_PREFETCH_CONTEXT; i++) {
		for (k = 0; k < OHCA_PREFETCH_CONTEXT; k++)
			KUNIT_EXPECT_TRUE(test, ohca_prefetch_admit(dev, &ctx[i]));
		KUNIT_EXPECT_FALSE(test, ohca_prefetch_admit(dev, &ctx[i]));
	}
	KUNIT_EXPECT_FALSE(test, ohca_prefetch_admit(dev, &ctx[i]));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&ctx[i].prefetches));
	KUNIT_EXPECT_FALSE(test, ohca_prefetch_admit(dev, NULL));
	ohca_prefetch_leave(dev, &ctx[0]);
	KUNIT_EXPECT_TRUE(test, ohca_prefetch_admit(dev, NULL));
	KUNIT_EXPECT_FALSE(test, ohca_prefetch_admit(dev, &ctx[i]));
	ohca_prefetch_leave(dev, NULL);
	KUNIT_EXPECT_TRUE(test, ohca_prefetch_admit(dev, &ctx[0]));
	ohca_test_end(dev);
}

/* ---- keys and states ---- */

/** struct leaver - a thread that ends the deregistration of @p; @refused: by an abort */
struct leaver {
	struct ohca_paged *p;
	bool refused;
	struct completion ended;
};

static int leaver_thread(void *data)
{
	struct leaver *l = data;

	/* so that the other thread usually waits; the test also passes if it does not */
	usleep_range(20000, 30000);
	if (l->refused)
		ohca_paged_dereg_abort(l->p);
	else
		ohca_paged_remove(l->p);
	complete(&l->ended);
	return 0;
}

/* The device may reuse a key while the driver still has the old region. */
static void key_again(struct kunit *test)
{
	struct memory *m = make_memory(test);
	struct ohca_dev *dev = m->f->dev;
	struct leaver *l = ohca_test_alloc(test, sizeof(*l));
	struct ohca_paged *p = ohca_paged_alloc(dev, 0, 0, PAGE_SIZE, PAGE_SHIFT, 0, &quick_ops);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->key = m->slow->key;
	/* an error of the device: the old region is not being deregistered */
	KUNIT_EXPECT_EQ(test, -EBUSY, ohca_paged_insert(p));
	l->p = m->slow;
	init_completion(&l->ended);
	ohca_paged_dereg_begin(m->slow);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(leaver_thread, l, "ohca-leaver")));
	KUNIT_EXPECT_EQ(test, 0, ohca_paged_insert(p));
	wait_for_completion(&l->ended);
	KUNIT_EXPECT_PTR_EQ(test, &p->obj, xa_load(&dev->paged, p->key));
	ohca_paged_remove(p);
	KUNIT_EXPECT_EQ(test, 0, ohca_paged_insert(m->slow));
	/* the same if the deregistration of the old region is aborted */
	l->refused = true;
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(leaver_thread, l, "ohca-leaver")));
	KUNIT_EXPECT_EQ(test, -EBUSY, ohca_paged_insert(p));
	wait_for_completion(&l->ended);
	kfree(p);
	free_memory(m);
}

/* A refused command is an error only while the region is LIVE. */
static void states(struct kunit *test)
{
	struct memory *m = make_memory(test);
	struct task_struct *t = ohca_fake_start(test, m->f);
	struct ohca_dev *dev = m->f->dev;
	struct ohca_paged *p = m->quick;
	__le64 page = 0;
	u32 ci;

	dev->pdev->error_state = pci_channel_io_perm_failure; /* no configuration space */
	writel(OHCA_STATUS_READY, dev->regs + OHCA_REG_STATUS);
	KUNIT_EXPECT_EQ(test, 0, ohca_paged_set(p, p->start, &page, 1));
	m->f->refuse = OHCA_ADMIN_BAD_HANDLE;
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_paged_set(p, p->start, &page, 1));
	ohca_paged_dereg_begin(p);
	/* no page is set, because the key may belong to another region */
	ci = m->f->ci;
	KUNIT_EXPECT_EQ(test, 0, ohca_paged_set(p, p->start, &page, 1));
	KUNIT_EXPECT_EQ(test, ci, m->f->ci);
	ohca_paged_invalidate(p, p->start, 1);
	KUNIT_EXPECT_EQ(test, ci + 1, m->f->ci);
	KUNIT_EXPECT_FALSE(test, ohca_is_dead(dev));
	ohca_paged_dereg_abort(p);
	ohca_paged_invalidate(p, p->start, 1);
	KUNIT_EXPECT_TRUE(test, ohca_is_dead(dev));
	KUNIT_EXPECT_EQ(test, -EPERM, ({
		p->writable = false;
		ohca_paged_populate(p, 0, 8, OHCA_WANT_WRITE);
	}));
	KUNIT_EXPECT_EQ(test, -EFAULT, ohca_paged_populate(p, 0, (1 << 20) + 1, OHCA_WANT_READ));
	KUNIT_EXPECT_EQ(test, -EFAULT, ohca_paged_populate(p, U64_MAX, 2, OHCA_WANT_READ));
	KUNIT_EXPECT_EQ(test, 0, ohca_paged_populate(p, 0, 0, OHCA_WANT_READ));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&m->brought));
	kthread_stop(t);
	free_memory(m);
}

/* ---- tables of address spaces ---- */

/* Limits of the table entries of an address space and of all address spaces. */
static void table_limits(struct kunit *test)
{
	struct ohca_odp_mm *odp = ohca_test_alloc(test, 3 * sizeof(*odp));
	u64 limit = ohca_odp_limit();

	KUNIT_EXPECT_FALSE(test, ohca_odp_charge(&odp[0], limit + 1));
	KUNIT_EXPECT_FALSE(test, ohca_odp_charge(&odp[0], U64_MAX));
	KUNIT_EXPECT_TRUE(test, ohca_odp_charge(&odp[0], limit - 1));
	KUNIT_EXPECT_TRUE(test, ohca_odp_charge(&odp[0], 1));
	KUNIT_EXPECT_FALSE(test, ohca_odp_charge(&odp[0], 1));
	KUNIT_EXPECT_TRUE(test, ohca_odp_charge(&odp[1], limit));
	/* a third address space, possibly of another device */
	KUNIT_EXPECT_FALSE(test, ohca_odp_charge(&odp[2], 1));
	KUNIT_EXPECT_EQ(test, 0, odp[2].entries);
	ohca_odp_uncharge(&odp[0], 10);
	KUNIT_EXPECT_FALSE(test, ohca_odp_charge(&odp[2], 11));
	KUNIT_EXPECT_TRUE(test, ohca_odp_charge(&odp[2], 10));
	KUNIT_EXPECT_FALSE(test, ohca_odp_charge(&odp[0], 1));
	ohca_odp_uncharge(&odp[0], limit - 10);
	ohca_odp_uncharge(&odp[1], limit);
	ohca_odp_uncharge(&odp[2], 10);
	KUNIT_EXPECT_TRUE(test, ohca_odp_charge(&odp[2], limit));
	ohca_odp_uncharge(&odp[2], limit);
}

/* The victim has no pages, or is the oldest, but is never the only child of another region. */
static void victims(struct kunit *test)
{
	struct ohca_odp_mm *odp = ohca_test_alloc(test, sizeof(*odp));
	struct ohca_paged *p = ohca_test_alloc(test, 3 * sizeof(*p));
	struct ohca_child *child = ohca_test_alloc(test, 6 * sizeof(*child));
	/* two children of the first region, one of the second, three of the third */
	static const u8 of[] = { 1, 0, 2, 0, 2, 2 };
	u32 i;

	INIT_LIST_HEAD(&odp->children);
	for (i = 0; i < ARRAY_SIZE(of); i++) {
		child[i].umem = ohca_test_alloc(test, sizeof(*child[i].umem));
		child[i].umem->npages = 1;
		child[i].p = &p[of[i]];
		child[i].p->nchildren++;
		list_add_tail(&child[i].link, &odp->children);
	}
	/* the oldest child is the only one of its region, so only that region may lose it */
	KUNIT_EXPECT_PTR_EQ(test, &child[1], ohca_child_victim(odp, &p[0]));
	KUNIT_EXPECT_PTR_EQ(test, &child[1], ohca_child_victim(odp, &p[2]));
	KUNIT_EXPECT_PTR_EQ(test, &child[0], ohca_child_victim(odp, &p[1]));
	child[4].umem->npages = 0;
	KUNIT_EXPECT_PTR_EQ(test, &child[4], ohca_child_victim(odp, &p[0]));
	child[0].umem->npages = 0;
	KUNIT_EXPECT_PTR_EQ(test, &child[4], ohca_child_victim(odp, &p[0]));
	KUNIT_EXPECT_PTR_EQ(test, &child[0], ohca_child_victim(odp, &p[1]));
}

static struct kunit_case paged_cases[] = {
	KUNIT_CASE(fault_slots),
	KUNIT_CASE(fault_all),
	KUNIT_CASE(prefetch_aside),
	KUNIT_CASE(prefetch_limits),
	KUNIT_CASE(key_again),
	KUNIT_CASE(states),
	KUNIT_CASE(table_limits),
	KUNIT_CASE(victims),
	{}
};

static struct kunit_suite paged_suite = {
	.name = "ohca-paged",
	.test_cases = paged_cases,
};

kunit_test_suite(paged_suite);
