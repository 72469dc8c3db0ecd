/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HCAs with fronts: the contents of a page, at each time. The tests are the fronts, in this
 * process, and use the page alone.
 */
#include "world.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/object/doorbell.h"
#include "fabric/data/hport_priv.h"
#include "fabric/fault/fault.h"
#include "fabric/hca/hca_priv.h"
#include "front/proto.h"

#define MS		HOST_MS
#define MESSAGES	2000u	/* of a thread; the owner is asleep or awake */
#define LIMIT_MS	20000
#define WITHIN		1000000u	/* turns of an owner that is awake */

static struct fab_hport *hport(struct world *w, unsigned int i)
{
	return net_port(w->net, w->node[i].ep.port)->hport;
}

/* Posts an RC WRITE of 8 bytes from node 0 to node 1. */
static void post(struct world *w, struct host_qp qp[2], uint32_t seed)
{
	fill(&w->node[0], 0, 8, seed);
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 4096, 8);
}

static void came(struct world *w, uint32_t seed)
{
	wc(&w->node[0].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	check(&w->node[1], 4096, 8, seed);
}

/* ---- registers ---------------------------------------------------------------- */

/* The registers of the page equal those of BAR 0. */
static void same(const struct node *n)
{
	for (uint32_t i = 0; i < OHCA_PAGE_REGS; i++)
		assert_int_equal(n->page->reg[i], ohca_mmio_read(n->h->e, 4 * i, 4));
	/* all other registers read as 0 */
	for (uint32_t off = 4 * OHCA_PAGE_REGS; off < OHCA_CTRL_BAR_SIZE; off += 4)
		assert_int_equal(ohca_mmio_read(n->h->e, off, 4), 0);
	for (uint32_t off = 0; off < 4 * OHCA_PAGE_REGS; off += 4)
		assert_int_equal(fab_hca_read_reg(n->hca, off, 4), n->page->reg[off / 4]);
}

static void test_registers(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	_Atomic uint32_t *reg = n->page->reg;

	same(n);
	assert_int_equal(reg[OHCA_REG_MAGIC / 4], OHCA_MAGIC);
	assert_int_equal(reg[OHCA_REG_STATUS / 4], OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
	assert_int_equal(n->page->clock_ok, 1);
	assert_true(n->page->clock == ohca_page_clock_word(0, true));
	fab_hca_write_reg(n->hca, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	assert_int_equal(reg[OHCA_REG_STATUS / 4], OHCA_STATUS_READY);
	assert_int_equal(n->page->clock_ok, 0);
	same(n);
	fab_hca_write_reg(n->hca, OHCA_REG_FEATURES_ACK, 1ull << OHCA_FEATURE_CLOCK | 1, 8);
	assert_int_equal(n->page->clock_ok, 1);
	fab_hca_write_reg(n->hca, OHCA_REG_AQ_LOG_SIZE, 99, 4);
	assert_int_equal(reg[OHCA_REG_AQ_LOG_SIZE / 4], 99);
	/* values that it refuses */
	fab_hca_write_reg(n->hca, OHCA_REG_CTRL, OHCA_CTRL_ENABLE, 4);
	assert_int_equal(reg[OHCA_REG_STATUS / 4], OHCA_STATUS_READY | OHCA_STATUS_FATAL);
	assert_int_equal(reg[OHCA_REG_FATAL_REASON / 4], OHCA_FATAL_BAD_ENABLE);
	same(n);
	/* whatever the front has written there */
	memset((void *)(uintptr_t)reg, 0xff, 4 * OHCA_PAGE_REGS);
	fab_hca_reset(n->hca);
	assert_int_equal(reg[OHCA_REG_STATUS / 4], OHCA_STATUS_READY);
	same(n);
}

/* A failure in a turn is visible in the page. */
static void test_fatal(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];

	ohca_doorbells_admin(&n->bells, n->h->aq_pi + 1000);
	assert_true(fab_hcas_turn(w->hcas));
	assert_int_equal(n->page->reg[OHCA_REG_STATUS / 4],
			 OHCA_STATUS_READY | OHCA_STATUS_ENABLED | OHCA_STATUS_FATAL);
	assert_int_equal(n->page->reg[OHCA_REG_FATAL_REASON / 4], OHCA_FATAL_AQ_OVERFLOW);
	/* a device that has failed executes nothing more */
	ohca_doorbells_admin(&n->bells, 0);
	front_ring(n, 0, OHCA_UAR_EQ, n->h->comp.eqn);
	while (fab_hcas_turn(w->hcas))
		;
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
}

/* Only a read by message returns a lie; no page contains one. */
static void test_lies(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	unsigned int lies = 0;

	ohca_set_lies(n->h->e, 1, OHCA_LIE_REGISTER, 2);
	for (unsigned int i = 0; i < 100; i++)
		lies += fab_hca_read_reg(n->hca, OHCA_REG_MAGIC, 4) != OHCA_MAGIC;
	assert_in_range(lies, 20, 80);
	ohca_set_lies(n->h->e, 1, 0, 0);
	same(n);
}

/* A configuration that does not fit a page is refused. */
static void test_unfit(void **state)
{
	struct world *w = *state;
	struct fab_hca_cfg cfg = {
		.engine = w->h[0]->cfg,
		.place = { net_index(w->net, HOSTS + 2) },
		.page = w->node[0].page,
	};

	cfg.engine.num_vectors = OHCA_PAGE_VECTORS + 1;
	assert_null(fab_hca_new(w->hcas, &cfg));
	cfg.engine.num_vectors = 1;
	cfg.engine.log_max_qp = 17;
	assert_null(fab_hca_new(w->hcas, &cfg));
	/* and the HCAs that are there continue */
	assert_ptr_equal(w->hcas->paged, w->node[HOSTS - 1].hca);
}

/* ---- turns --------------------------------------------------------------------- */

/* A doorbell in the page gives its HCA a turn, and no other one; a message does not. */
static void test_pending(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[1];

	pump(w);
	assert_false(fab_hcas_turn(w->hcas));
	front_ring(n, 0, OHCA_UAR_EQ, n->h->comp.eqn | OHCA_EQ_DB_ARM | (uint64_t)n->h->comp.ci << 32);
	assert_int_equal(*n->bells.pending, OHCA_PEND_EQ);
	assert_true(fab_hcas_turn(w->hcas));
	assert_int_equal(*n->bells.pending, 0);
	assert_false(fab_hcas_turn(w->hcas));
	ohca_doorbells_admin(&n->bells, n->h->aq_pi);
	assert_true(fab_hcas_turn(w->hcas));
	assert_int_equal(*n->bells.pending, 0);
	/* bits without a meaning */
	*n->bells.pending = ~(OHCA_PEND_ATTN | OHCA_PEND_ENGINE);
	assert_false(fab_hcas_turn(w->hcas));
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
	atomic_fetch_or(n->bells.pending, OHCA_PEND_ATTN);
	assert_false(fab_hcas_sleep(w->hcas));
	assert_false(fab_hcas_turn(w->hcas));
	fab_hcas_attn(w->hcas);
	assert_int_equal(n->attns, 1);
	assert_int_equal(w->node[0].attns + w->node[2].attns, 0);
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
	/* together with a doorbell, which stays for the turn */
	front_ring(n, 0, OHCA_UAR_EQ, n->h->comp.eqn | (uint64_t)n->h->comp.ci << 32);
	atomic_fetch_or(n->bells.pending, OHCA_PEND_ATTN);
	fab_hcas_attn(w->hcas);
	assert_int_equal(n->attns, 2);
	assert_int_equal(*n->bells.pending & (OHCA_PEND_ENGINE | OHCA_PEND_ATTN), OHCA_PEND_EQ);
	assert_true(fab_hcas_turn(w->hcas));
}

/* An HCA that always rings everything has no more turns than others, whose messages arrive. */
static void test_greedy(void **state)
{
	struct world *w = *state;
	struct node *bad = &w->node[2];
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	for (uint32_t i = 0; i < 50; i++) {
		post(w, qp, i);
		for (unsigned int k = 0; k < 10; k++) {
			*bad->bells.pending = UINT32_MAX;
			memset((void *)(uintptr_t)bad->bells.ring[OHCA_RING_SQ].bits, 0xff,
			       8 * bad->bells.ring[OHCA_RING_SQ].words);
			memset((void *)(uintptr_t)bad->bells.ring[OHCA_RING_SQ].sum, 0xff,
			       8 * bad->bells.ring[OHCA_RING_SQ].sums);
			*bad->bells.aq_db = bad->h->aq_pi;
			fab_hcas_attn(w->hcas);
			/* its own turn, and at most those of the two and one more */
			assert_true(fab_hcas_turn(w->hcas));
			fab_data_round(w->net->d);
		}
		came(w, i);
	}
	assert_int_equal(bad->attns, 500);
	pump(w);
	done(qp);
}

/* When all is done only a doorbell has to wake the owner. */
static void test_idle(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	for (uint32_t i = 0; i < 3; i++) {
		post(w, qp, i);
		pass(w, MS);
		came(w, i);
	}
	pass(w, 1000 * MS);
	assert_true(fab_hcas_due(w->hcas) == UINT64_MAX);
	assert_true(net_timers(w->net) == UINT64_MAX);
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
	done(qp);
}

/* ---- interrupts ------------------------------------------------------------------ */

/* Node 1 arms its CQ, and node 0 completes a WRITE there: vector 0 of the completion EQ. */
static void arm(struct node *n)
{
	struct ohca_hw_eqe eqe;

	while (host_eq_poll(n->h, &n->h->comp, &eqe))
		n->cq.sn++;
	host_eq_db(n->h, &n->h->comp, true);
	host_cq_arm(&n->cq, false);
}

/*
 * The front is notified once, until it reads the vectors; vectors raised meanwhile are among them.
 */
static void test_irq(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	struct host_qp qp[2];
	unsigned int told;
	uint64_t bits;

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	pump(w);
	w->deaf = true;
	told = n->told;
	for (unsigned int i = 0; i < 3; i++) {
		arm(n);
		post(w, qp, i);
		pump(w);
		came(w, i);
		assert_int_equal(n->told, told + 1);
		assert_int_equal(n->page->irq_any, 1);
	}
	bits = n->page->irq[0];
	assert_int_not_equal(bits, 0);
	/* it reads them late: a vector raised in between causes a new notification */
	atomic_exchange(&n->page->irq_any, 0);
	arm(n);
	post(w, qp, 7);
	pump(w);
	came(w, 7);
	assert_int_equal(n->told, told + 2);
	assert_int_equal(atomic_exchange(&n->page->irq[0], 0), bits);
	/* without a vector there is no notification */
	atomic_exchange(&n->page->irq_any, 0);
	post(w, qp, 8);
	pump(w);
	came(w, 8);
	assert_int_equal(n->told, told + 2);
	assert_int_equal(n->page->irq_any, 0);
	done(qp);
}

/* A reset clears vectors that are not reported yet. */
static void test_irq_reset(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	unsigned int told;

	pump(w);
	told = n->told;
	fab_page_irq(n->hca, 100);
	assert_int_equal(n->page->irq[1], 1ull << 36);
	fab_hca_reset(n->hca);
	while (fab_hcas_turn(w->hcas))
		;
	assert_int_equal(n->told, told);
	assert_int_equal(n->page->irq_any, 0);
	/* a pause does not */
	n->page->irq[1] = 0;
	w->deaf = true;
	fab_page_irq(n->hca, 100);
	fab_hca_run(n->hca, false);
	assert_int_equal(n->told, told + 1);
	assert_int_equal(n->page->irq_any, 1);
	assert_int_equal(n->page->irq[1], 1ull << 36);
}

/* ---- pauses --------------------------------------------------------------------- */

/* The clock stops while the machine is paused, and continues from there. */
static void test_clock(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	const uint64_t begin = w->net->now_ns;

	assert_int_equal(ohca_now(n->h->e), begin);
	fab_hca_run(n->hca, false);
	fab_hca_run(n->hca, false);
	assert_true(n->page->clock == ohca_page_clock_word(begin, false));
	w->net->now_ns += 5 * MS;
	assert_int_equal(ohca_now(n->h->e), begin);
	assert_true(n->page->clock == ohca_page_clock_word(begin, false));
	fab_hca_run(n->hca, true);
	fab_hca_run(n->hca, true);
	assert_true(n->page->clock == ohca_page_clock_word(-(uint64_t)(5 * MS), true));
	assert_int_equal(ohca_now(n->h->e), begin);
	w->net->now_ns += MS;
	assert_int_equal(ohca_now(n->h->e), begin + MS);
	/* the link has not changed */
	assert_int_equal(n->h->e->port[0].state, IB_PS_ACTIVE);
	fab_hca_run(n->hca, false);
	w->net->now_ns += 2 * MS;
	fab_hca_run(n->hca, true);
	assert_true(ohca_page_clock(n->page->clock, w->net->now_ns) == begin + MS);
	/* a reset does not affect the clock */
	fab_hca_reset(n->hca);
	assert_true(n->page->clock == ohca_page_clock_word(-(uint64_t)(7 * MS), true));
}

/**
 * struct reader - a vCPU that reads the clock of @page at the time @now
 * @changes: readings that differ from the one before
 */
struct reader {
	struct ohca_page *page;
	uint64_t now;
	_Atomic unsigned int changes, wrong;
	_Atomic bool end;
};

static void *read_clock(void *arg)
{
	struct reader *r = arg;
	uint64_t was = 0;

	while (!atomic_load(&r->end)) {
		const uint64_t is = atomic_load(&r->page->clock);

		r->wrong += ohca_page_clock(is, r->now) != r->now;
		r->changes += is != was;
		was = is;
	}
	return NULL;
}

/* A read while the machine is paused, or continues, returns the right time. */
static void test_clock_torn(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	struct reader r = { .page = n->page, .now = w->net->now_ns };
	pthread_t thread;

	assert_true(r.now);
	assert_int_equal(pthread_create(&thread, NULL, read_clock, &r), 0);
	/* with one processor it gets one reading in a time slice */
	for (unsigned int i = 0; r.changes < 1000; i++)
		fab_hca_run(n->hca, i % 2);
	fab_hca_run(n->hca, true);
	atomic_store(&r.end, true);
	pthread_join(thread, NULL);
	assert_int_equal(r.wrong, 0);
}

/*
 * QEMU of one release and a daemon of another share a page: a change of the layout needs a new
 * version.
 */
static void test_layout(void **state)
{
	const struct ohca_db_sizes sizes = {
		.max = { [OHCA_DB_QP] = 1024, [OHCA_DB_CQ] = 512, [OHCA_DB_SRQ] = 64 }, .uars = 16,
	};

	(void)state;
	assert_int_equal(OHCA_FRONT_VERSION, 4);
	assert_int_equal(offsetof(struct ohca_page, reg), 0);
	assert_int_equal(offsetof(struct ohca_page, clock), 128);
	assert_int_equal(offsetof(struct ohca_page, clock_ok), 136);
	assert_int_equal(offsetof(struct ohca_page, slow_reads), 140);
	assert_int_equal(offsetof(struct ohca_page, asleep), 192);
	assert_int_equal(offsetof(struct ohca_page, irq_any), 256);
	assert_int_equal(offsetof(struct ohca_page, dirty), 260);
	assert_int_equal(offsetof(struct ohca_page, irq), 320);
	assert_int_equal(offsetof(struct ohca_page, map_head), 576);
	assert_int_equal(offsetof(struct ohca_page, map_tail), 640);
	assert_int_equal(sizeof(struct ohca_page), 704);
	/* bit 0 is set if the clock runs */
	assert_int_equal(ohca_page_clock_word(5, true), 11);
	assert_int_equal(ohca_page_clock_word(5, false), 10);
	assert_int_equal(OHCA_PAGE_BYTES(ohca_doorbells_bytes(&sizes)), 24576);
}

/* Doorbells of a paused machine wait, and do not keep the owner awake. */
static void test_paused_sender(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	pump(w);
	fab_hca_run(w->node[0].hca, false);
	post(w, qp, 3);
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
	pass(w, 100 * MS);
	no_wc(&w->node[0].cq);
	assert_int_not_equal(*w->node[0].bells.pending, 0);
	assert_false(fab_hcas_turn(w->hcas));
	/* but its messages are read */
	atomic_fetch_or(w->node[0].bells.pending, OHCA_PEND_ATTN);
	assert_false(fab_hcas_sleep(w->hcas));
	fab_hcas_attn(w->hcas);
	assert_int_equal(w->node[0].attns, 1);
	fab_hca_run(w->node[0].hca, true);
	pass(w, MS);
	came(w, 3);
	done(qp);
}

/* A machine that is paused while it sends stops there, and continues later. */
static void test_paused_midway(void **state)
{
	struct world *w = *state;
	const struct ohca_port_counters *ctr = &w->h[0]->e->port[0].cnt;
	struct host_qp qp[2];
	uint64_t sent;

	connect_rc(w, 0, 1, qp, OHCA_QPT_UC);
	pump(w);
	fill(&w->node[0], 0, 1 << 20, 2);
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 1 << 20);
	sent = ctr->xmit_pkts;
	fab_hcas_turn(w->hcas);
	assert_in_range(ctr->xmit_pkts - sent, 1, 255);
	/* it has more to do */
	assert_false(fab_hcas_sleep(w->hcas));
	fab_hca_run(w->node[0].hca, false);
	sent = ctr->xmit_pkts;
	pass(w, MS);
	assert_int_equal(ctr->xmit_pkts, sent);
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
	fab_hca_run(w->node[0].hca, true);
	pass(w, MS);
	wc(&w->node[0].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	check(&w->node[1], 0, 1 << 20, 2);
	done(qp);
}

/* Packets for a paused machine wait at the switch, SMPs are dropped, and memory does not change. */
static void test_paused_receiver(void **state)
{
	struct world *w = *state;
	struct node *y = &w->node[1];
	const uint64_t dropped = fab_hport_dropped(hport(w, 1));
	uint8_t *mem;
	struct host_qp qp[2];
	struct ib_smp smp;
	const uint8_t path[2] = { 1, (uint8_t)y->ep.port };

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	pump(w);
	fab_hca_run(y->hca, false);
	mem = malloc(y->h->mem_size);
	assert_non_null(mem);
	memcpy(mem, y->h->mem, y->h->mem_size);
	post(w, qp, 9);
	pump(w);
	assert_false(hport(w, 1)->ops->room(hport(w, 1)->ctx, 0, 1, 0));
	ep_smp_init(w->sm, &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, path);
	assert_true(ep_send_smp(w->sm, &smp, 0));
	pump(w);
	assert_int_equal(fab_hport_dropped(hport(w, 1)), dropped + 1);
	/* long enough for its timers, not for HOQLife */
	pass(w, MS);
	no_wc(&w->node[0].cq);
	assert_memory_equal(mem, y->h->mem, y->h->mem_size);
	free(mem);
	fab_hca_run(y->hca, true);
	pass(w, MS);
	came(w, 9);
	done(qp);
}

/* A deadline moves by the length of the pause. */
static void test_paused_deadline(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];
	uint64_t due;

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	pump(w);
	/* nothing arrives, so it is sent again after a timeout */
	assert_true(fab_fault_wire(&w->net->m, net_index(w->net, w->node[0].ep.port), UINT32_MAX, 0,
				   1));
	post(w, qp, 1);
	pump(w);
	due = fab_hcas_due(w->hcas);
	assert_true(due > 0 && due < 10000 * MS);
	fab_hca_run(w->node[0].hca, false);
	w->net->now_ns += due + MS;
	while (fab_hcas_turn(w->hcas))
		;
	assert_true(fab_hcas_due(w->hcas) > due);
	fab_hca_run(w->node[0].hca, true);
	pump(w);
	assert_int_equal(fab_hcas_due(w->hcas), due);
	assert_int_equal(host_counter(w->h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	assert_true(fab_fault_wire(&w->net->m, net_index(w->net, w->node[0].ep.port), 0, 0, 1));
	pass(w, due);
	assert_int_equal(host_counter(w->h[0], OHCA_CNT_ACK_TIMEOUT), 1);
	came(w, 1);
	done(qp);
}

/* A cable is pulled, and plugged in again, while the machine is paused. */
static void test_paused_link(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	const uint32_t p = net_index(w->net, n->ep.port);
	const struct ohca_port_counters *ctr = &n->h->e->port[0].cnt;
	const uint64_t was = ctr->link_downed;

	/* pulled and plugged in; pulled; plugged in */
	for (unsigned int i = 0; i < 3; i++) {
		struct ohca_hw_eqe eqe;

		while (host_eq_poll(n->h, &n->h->async, &eqe))
			;
		host_eq_db(n->h, &n->h->async, true);
		pump(w);
		fab_hca_run(n->hca, false);
		if (i < 2) {
			assert_true(fab_fault_link(&w->net->m, p, false, w->net->now_ns));
			pump(w);
		}
		if (i != 1) {
			assert_true(fab_fault_link(&w->net->m, p, true, w->net->now_ns));
			pump(w);
		}
		/* neither the HCA nor the machine's memory changes */
		assert_int_equal(n->h->e->port[0].state, i == 2 ? IB_PS_DOWN : i ? IB_PS_INIT :
				 IB_PS_ACTIVE);
		assert_false(host_eq_poll(n->h, &n->h->async, &eqe));
		fab_hca_run(n->hca, true);
		pump(w);
		assert_int_equal(n->h->e->port[0].state, i == 1 ? IB_PS_DOWN : IB_PS_INIT);
		assert_int_equal(ctr->link_downed - was, i ? 2 : 1);
	}
}

/* A machine that is paused is reset, and an HCA is freed while it is paused. */
static void test_paused_reset(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[HOSTS - 1];

	fab_hca_run(n->hca, false);
	fab_hca_reset(n->hca);
	assert_int_equal(n->page->reg[OHCA_REG_STATUS / 4], OHCA_STATUS_READY);
	assert_false(fab_hcas_turn(w->hcas));
	pump(w);
	assert_int_equal(net_pi(w->net, n->ep.port)->state, IB_PS_DOWN);
	fab_hca_run(n->hca, true);
	pump(w);
	host_start(n->h);
	pump(w);
	assert_int_equal(net_pi(w->net, n->ep.port)->state, IB_PS_INIT);
	fab_hca_run(n->hca, false);
	pump(w);
}

/* ---- sleep ------------------------------------------------------------------------ */

/** struct front - another thread, which posts and waits for its completions */
struct front {
	struct world *w;
	struct host_qp *qp;
	int wake;			/* an eventfd */
	_Atomic bool end;
	unsigned int writes;		/* to the eventfd */
	_Atomic unsigned int completed;
	_Atomic bool failed;
};

static void front_rung(struct front *f, struct node *n)
{
	if (atomic_load(&n->page->asleep) && atomic_exchange(&n->page->asleep, 0)) {
		f->writes++;
		eventfd_write(f->wake, 1);
	}
}

static void *front_thread(void *arg)
{
	struct front *f = arg;
	struct node *n = &f->w->node[0];
	struct ohca_hw_cqe c;

	/* the first one finds it asleep */
	while (!atomic_load(&n->page->asleep))
		sched_yield();
	for (unsigned int i = 0; i < MESSAGES && !f->failed; i++) {
		rdma(f->qp, n, &f->w->node[1], OHCA_OP_RDMA_WRITE, 0, 4096, 8);
		front_rung(f, n);
		while (!host_cq_poll(&n->cq, &c) && !f->failed)
			sched_yield();
		/* the owner may be asleep by now, or about to sleep */
		for (unsigned int k = 0; k < i % 64 * 16; k++)
			__asm__ volatile("");
		f->completed++;
	}
	f->end = true;
	eventfd_write(f->wake, 1);
	return NULL;
}

/* No doorbell is lost to a sleep, and an owner that is awake is not woken. */
static void test_sleep(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];
	struct front f = { .w = w, .qp = qp, .wake = eventfd(0, 0) };
	unsigned int tries = 0;
	pthread_t thread;

	assert_true(f.wake >= 0);
	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	pump(w);
	assert_int_equal(pthread_create(&thread, NULL, front_thread, &f), 0);
	while (!f.end) {
		struct pollfd p = { f.wake, POLLIN, 0 };
		eventfd_t n;

		while (fab_hcas_turn(w->hcas) | fab_data_round(w->net->d))
			;
		tries++;
		if (!fab_hcas_sleep(w->hcas))
			continue;
		if (poll(&p, 1, LIMIT_MS) != 1)
			f.failed = true;
		fab_hcas_awake(w->hcas);
		if (f.failed)
			break;
		eventfd_read(f.wake, &n);
	}
	pthread_join(thread, NULL);
	assert_false(f.failed);
	assert_int_equal(f.completed, MESSAGES);
	/* at most one for each time that the page announced a sleep */
	assert_true(f.writes <= tries);
	assert_true(f.writes > 0);
	close(f.wake);
	done(qp);
}

/* Each front reads the sleep in its own page. */
static void test_asleep(void **state)
{
	struct world *w = *state;

	pump(w);
	for (unsigned int i = 0; i < HOSTS; i++)
		assert_int_equal(w->node[i].page->asleep, 0);
	assert_true(fab_hcas_sleep(w->hcas));
	for (unsigned int i = 0; i < HOSTS; i++)
		assert_int_equal(w->node[i].page->asleep, 1);
	fab_hcas_awake(w->hcas);
	for (unsigned int i = 0; i < HOSTS; i++)
		assert_int_equal(w->node[i].page->asleep, 0);
	front_ring(&w->node[1], 0, OHCA_UAR_EQ, 0);
	assert_false(fab_hcas_sleep(w->hcas));
	for (unsigned int i = 0; i < HOSTS; i++)
		assert_int_equal(w->node[i].page->asleep, 0);
	/* one that was freed is left out */
	pump(w);
	host_buf_free(&w->node[HOSTS - 1].cq.buf);
	host_buf_free(&w->node[HOSTS - 1].mr.buf);
	host_free(w->h[HOSTS - 1]);
	w->n--;
	pump(w);
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
}

/* After an access that has found no memory, the HCA maps none. */
static void test_vanished(void **state)
{
	struct world *w = *state;
	struct fab_hca *h = w->node[0].hca;
	bool vanished = false;
	size_t len = 8;

	h->cfg.vanished = &vanished;
	assert_ptr_equal(fab_hca_map(h, HOST_BASE, &len, OHCA_DMA_READ), w->h[0]->mem);
	vanished = true;
	/* neither where the last range has it, nor elsewhere */
	assert_null(fab_hca_map(h, HOST_BASE, &len, OHCA_DMA_READ));
	h->reach.hit = NULL;
	assert_null(fab_hca_map(h, HOST_BASE, &len, OHCA_DMA_WRITE));
	vanished = false;
	assert_ptr_equal(fab_hca_map(h, HOST_BASE, &len, OHCA_DMA_WRITE), w->h[0]->mem);
	h->cfg.vanished = NULL;
}

/*
 * A ring of mappings that is full whenever it is read: each time it has one for the next page from
 * @next on. @most: the most entries that were read in a turn, or between two.
 */
static struct {
	uint64_t next;
	unsigned int users, most;
} ring;

static unsigned int ring_maps(void *arg)
{
	struct node *n = arg;
	const struct fab_hca_range r = { ring.next, FAB_HCA_PAGE, n->h->mem, false, NULL };

	assert_true(fab_iotlb_map(&fab_hca_reach(n->hca)->iotlb, &r, &ring.users));
	ring.next += FAB_HCA_PAGE;
	if (n->hca->mapped + OHCA_PAGE_MAPS > ring.most)
		ring.most = n->hca->mapped + OHCA_PAGE_MAPS;
	return OHCA_PAGE_MAPS;
}

#define RING_AT	(1ull << 40)

/* Posts a work request with @n local addresses from @at on, each in a page of its own. */
static void ring_post(struct host_qp *qp, struct node *to, uint8_t op, uint64_t at, unsigned int n)
{
	struct wqe q = wqe_new(op, OHCA_WQE_SIGNALED, op);

	wqe_raddr(&q, to->mr.iova, to->mr.key);
	for (unsigned int i = 0; i < n; i++)
		wqe_sge(&q, at + i * FAB_HCA_PAGE, 8, OHCA_LOCAL_DMA_LKEY);
	wqe_post(qp, &q);
}

/* Connects nodes 0 and 1; node 0 may use bus addresses, and has the ring. */
static void ring_connect(struct world *w, struct host_qp qp[2])
{
	for (unsigned int k = 0; k < 2; k++) {
		struct node *n = &w->node[k];
		const struct host_qp_init in = { .type = OHCA_QPT_RC, .scq = &n->cq, .rcq = &n->cq,
						 .log_sq = 8, .flags = OHCA_QP_PRIVILEGED };

		assert_int_equal(host_qp_create(n->h, &qp[k], &in), 0);
	}
	for (unsigned int k = 0; k < 2; k++)
		host_qp_connect(&qp[k], 0, LID(!k), qp[!k].qpn, 5, 100 + k, 101 - k);
	ring.next = RING_AT;
	ring.most = 0;
	w->node[0].hca->cfg.maps = ring_maps;
}

/*
 * After a full ring of mappings further work requests, and frames, wait for another turn of the
 * HCA: all addresses are found, and each time one ring is read.
 */
static void test_full_rings(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	ring_connect(w, qp);
	for (unsigned int i = 0; i < 2; i++) {
		const uint8_t op = i ? OHCA_OP_RDMA_READ : OHCA_OP_RDMA_WRITE;
		const uint64_t at = ring.next;

		for (unsigned int k = 0; k < 8; k++)
			ring_post(&qp[0], &w->node[1], op, at + k * FAB_HCA_PAGE, 1);
		pass(w, MS);
		for (unsigned int k = 0; k < 8; k++)
			wc(&w->node[0].cq, op, WC_SUCCESS);
		assert_int_equal(ring.most, OHCA_PAGE_MAPS);
	}
	done(qp);
}

/* A work request for which the ring is filled again and again causes the read of two. */
static void test_endless_ring(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	struct host_qp qp[2];

	ring_connect(w, qp);
	/* what was read for frames does not count */
	n->hca->mapped = FAB_HCA_MAPS;
	ring_post(&qp[0], &w->node[1], OHCA_OP_RDMA_WRITE, RING_AT, 2);
	pass(w, MS);
	wc(&n->cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	ring_post(&qp[0], &w->node[1], OHCA_OP_RDMA_WRITE, ring.next, 20);
	pass(w, MS);
	wc(&n->cq, OHCA_OP_RDMA_WRITE, WC_LOC_PROT);
	assert_int_equal(ring.most, 2 * OHCA_PAGE_MAPS);
	done(qp);
}

int main(void)
{
#define P(name) cmocka_unit_test_setup_teardown(test_##name, setup_paged, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout), P(registers), P(fatal), P(lies), P(unfit), P(pending), P(greedy), P(idle), P(irq),
		P(irq_reset), P(clock), P(clock_torn), P(paused_sender), P(paused_midway), P(paused_receiver),
		P(paused_deadline), P(paused_link), P(paused_reset), P(sleep), P(asleep),
		P(vanished), P(full_rings), P(endless_ring),
	};

	return cmocka_run_group_tests_name("HCAs with fronts", tests, NULL, NULL);
}
