/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The objects of a driver are freed step by step after a reset, or when the device is freed: the
 * reset and each step have a bound of work (base/work.h), whatever their number, and other HCAs
 * continue in between.
 */
#include "world.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/le.h"
#include "engine/base/mem.h"
#include "engine/object/doorbell.h"
#include "engine/object/mr_access.h"
#include "fabric/hca/hca_priv.h"
#include "fill.h"

#define STEP	(OHCA_SWEEP_WORK + OHCA_WORK_ONE)

static uint64_t wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000;
}

static struct host *machine(unsigned int log_mr, unsigned int log_qp, uint64_t mem_max)
{
	struct ohca_cfg cfg = {
		.node_guid = 0x10, .num_ports = 1, .vl_cap = 1, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .num_vectors = HOST_VECTORS, .num_uars = HOST_UARS,
		.log_max_qp = (uint8_t)log_qp, .log_max_cq = (uint8_t)log_qp,
		.log_max_srq = (uint8_t)log_qp, .log_max_mr = (uint8_t)log_mr,
		.dm_size = 16u << 20, .mem_max = mem_max,
	};

	return host_new_cfg(&cfg, HOST_MEM);
}

static void start(struct host *h)
{
	struct host_eq faults;

	host_start(h);
	host_eq_create(h, &faults, 8, OHCA_EQ_FAULT, 0);
}

/* Nothing is left of a life (the objects between two resets). */
static void check_empty(const ohca_engine *d)
{
	assert_int_equal(d->mem_used, 0);
	assert_int_equal(d->page_entries, 0);
	assert_int_equal(d->num_odp | d->num_tags | d->num_mcast_grp | d->mcast_total, 0);
	assert_int_equal(d->qp_ids.num, OHCA_FIRST_QP);
	assert_int_equal(d->mr_ids.num, 2);
	assert_int_equal(d->set_ids.num, 1);
	assert_int_equal(d->cq_ids.num | d->srq_ids.num | d->pd_ids.num | d->xrcd_ids.num |
			 d->dm_ids.num, 0);
	assert_true(ohca_list_empty(&d->dm_used));
	for (unsigned int i = 0; i < OHCA_MAX_EQ; i++)
		assert_null(d->eq[i]);
}

/* All numbers of all kinds, freed by a reset and by the end of the device. */
static void test_full(void **state)
{
	const struct fill all = {
		.windows = (1u << 20) - 5, .qps = (1u << 16) - OHCA_FIRST_QP,
		.list_pages = 1u << 20, .odp_nodes = 1000,
	};
	struct host *h = machine(20, 16, 4ull << 30);

	(void)state;
	for (unsigned int end = 0; end < 2; end++) {
		uint64_t work, us, most = 0, most_us = 0;
		unsigned int steps = 0;
		bool more = true;

		start(h);
		fill_all(h, &all);
		assert_int_equal(h->e->mr_ids.num, 1u << 20);
		work = h->e->work;
		us = wall_us();
		if (end)
			ohca_retire(h->e);
		else
			ohca_reset(h->e);
		us = wall_us() - us;
		work = h->e->work - work;
		print_message("%s: %llu units of %u, %llu us\n", end ? "end" : "reset",
			      (unsigned long long)work, OHCA_FENCE_WORK, (unsigned long long)us);
		assert_true(work && work <= OHCA_FENCE_WORK);
		assert_int_equal(h->e->mem_used, 0);
		for (; more; steps++) {
			work = h->e->work;
			us = wall_us();
			more = end ? ohca_sweep(h->e) : ohca_poll(h->e, 64);
			us = wall_us() - us;
			work = h->e->work - work;
			most = work > most ? work : most;
			most_us = us > most_us ? us : most_us;
		}
		print_message("%u steps, the longest %llu units of %u, %llu us\n", steps,
			      (unsigned long long)most, STEP, (unsigned long long)most_us);
		assert_true(most <= STEP);
		assert_true(steps > 1000);
		assert_int_equal(h->e->num_dead, 0);
		if (!end)
			check_empty(h->e->spare);
	}
	host_free(h);
}

/* Commands wait while two lives are not swept, so an engine uses at most twice its budget. */
static void test_twice(void **state)
{
	const struct fill some = { .windows = 20000, .qps = 500, .list_pages = 5000 };
	struct host *h = machine(16, 10, 0);
	const uint64_t max = h->e->mem_max;
	unsigned int waits = 0;
	uint64_t cmds, used;

	(void)state;
	for (unsigned int life = 0; life < 2; life++) {
		start(h);
		/* the sweep of the first one continues meanwhile, but is not done */
		fill_all(h, &some);
		used = h->e->mem_used;
		/* nearly all of the budget: the new life has a whole one */
		assert_true(ohca_mem_reserve(h->e, max - used));
		ohca_mem_release(h->e, max - used);
		ohca_reset(h->e);
		assert_int_equal(h->e->mem_used, 0);
		assert_int_equal(h->e->num_dead, life + 1);
	}
	/* a life without a command leaves nothing to sweep */
	ohca_reset(h->e);
	ohca_reset(h->e);
	assert_int_equal(h->e->num_dead, 2);
	host_enable(h, 0);
	cmds = host_counter(h, OHCA_CNT_CMDS);
	((struct ohca_hw_aqe *)host_ptr(h, h->aq))->hdr.opcode = OHCA_CMD_NOP;
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, ++h->aq_pi, 4);
	while (h->e->num_dead == 2) {
		assert_int_equal(host_counter(h, OHCA_CNT_CMDS), cmds);
		assert_true(host_poll(h, 64));
		waits++;
	}
	assert_true(waits > 1);
	host_poll(h, 64);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS), cmds + 1);
	assert_int_equal(h->e->num_dead, 1);
	/* the end, in the middle of the sweep */
	host_free(h);
}

/* A key or number of one life is not valid in the next, swept or not. */
static void test_keys(void **state)
{
	struct host *h = machine(2, 3, 0);
	struct ohca_hw_aqe c;
	uint32_t was = 0;

	(void)state;
	for (unsigned int i = 0; i < 300; i++) {
		uint32_t key, tag = i * 7 + 1;
		struct ohca_mr *mr;

		start(h);
		c = HOST_AQE(reg_mr, .length = 4, .pdn = h->pdn, .type = OHCA_MR_FRMR);
		key = fill_one(h->e, ohca_cmd_reg_mr, c);
		if (key >> 8 != 2)
			key = fill_one(h->e, ohca_cmd_reg_mr, c);
		assert_int_equal(key >> 8, 2);
		assert_int_not_equal(key, was);
		/* a consumer chooses the next tag, or any */
		mr = h->e->mr[2];
		mr->key = 2u << 8 | (uint8_t)(i % 2 ? key + 1 : tag);
		was = mr->key;
		assert_ptr_equal(ohca_mr_get(h->e, was), mr);
		ohca_reset(h->e);
		assert_null(ohca_mr_get(h->e, was));
		if (i % 3 == 0)
			host_poll(h, 64);
	}
	host_free(h);
}

/* Numbers of a life that has ended have no doorbells, and those of the next life keep theirs. */
static void test_doorbells(void **state)
{
	const struct fill some = { .windows = 100, .qps = 200, .list_pages = 10 };
	struct host *h = machine(10, 10, 0);
	const struct ohca_doorbells *b = &h->e->db->at;
	uint64_t bad;

	(void)state;
	start(h);
	fill_all(h, &some);
	assert_int_equal(b->owner[OHCA_DB_QP][200], 1);
	ohca_doorbell(h->e, 0, OHCA_UAR_SQ, 200, 8);
	ohca_reset(h->e);
	bad = host_counter(h, OHCA_CNT_DB_BAD_HANDLE);
	for (unsigned int kind = 0; kind < OHCA_DB_NUM; kind++)
		for (uint32_t i = 0; i < 1024; i++)
			assert_int_equal(b->owner[kind][i], 0);
	ohca_doorbell(h->e, 0, OHCA_UAR_SQ, 200, 8);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_HANDLE), bad + 1);
	/* the sweep removes no doorbell from the numbers of the next life */
	start(h);
	h->e->qp_ids.next = OHCA_FIRST_QP;
	fill_queues(h, 1);
	assert_int_equal(b->owner[OHCA_DB_QP][OHCA_FIRST_QP], 1);
	while (ohca_sweep(h->e))
		;
	assert_int_equal(b->owner[OHCA_DB_QP][OHCA_FIRST_QP], 1);
	assert_non_null(h->e->qp[OHCA_FIRST_QP]);
	host_free(h);
}

/* ---- neighbours --------------------------------------------------------------------- */

/* Turns of the fabric's process while HCA 2 is swept. */
struct meanwhile {
	unsigned int turns, writes;
};

/* One turn, in which two others write to each other without end. */
static void turn(struct world *w, struct host_qp qp[2], struct meanwhile *m)
{
	struct ohca_hw_cqe c;

	m->turns++;
	fab_hcas_turn(w->hcas);
	fab_data_round(w->net->d);
	if (!host_cq_poll(&w->node[0].cq, &c))
		return;
	assert_int_equal(c.status, WC_SUCCESS);
	m->writes++;
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 4096);
}

static void check_meanwhile(const struct meanwhile *m, const char *what)
{
	print_message("%s: %u writes of others in %u turns\n", what, m->writes, m->turns);
	assert_true(m->turns > 20);
	assert_true(m->writes >= m->turns / 3);
}

static void test_neighbours(void **state)
{
	const struct fill some = { .windows = 900, .qps = 50, .list_pages = 1u << 20 };
	struct world *w = *state;
	struct meanwhile m = { 0 };
	struct node *n = &w->node[2];
	ohca_engine *e = n->h->e;
	struct host_qp qp[2];
	uint64_t work;

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 4096);
	fill_all(n->h, &some);
	fab_hca_reset(n->hca);
	assert_int_equal(e->num_dead, 1);
	while (e->num_dead) {
		work = e->work;
		turn(w, qp, &m);
		/* it had one turn, and perhaps another one because of its neighbours */
		assert_true(e->work - work <= 2 * STEP);
		assert_true(!e->num_dead || fab_hcas_due(w->hcas) == 0);
	}
	check_meanwhile(&m, "reset");
	/* while its machine is paused the sweep waits, and continues then */
	host_start(n->h);
	fill_all(n->h, &some);
	fab_hca_run(n->hca, false);
	fab_hca_reset(n->hca);
	for (unsigned int i = 0; i < 100; i++)
		turn(w, qp, &m);
	assert_int_equal(e->num_dead, 1);
	fab_hca_run(n->hca, true);
	while (e->num_dead)
		turn(w, qp, &m);
	/* its front ends while a life before it is swept; page and memory are freed at once */
	host_start(n->h);
	fill_all(n->h, &some);
	fab_hca_reset(n->hca);
	host_start(n->h);
	fill_all(n->h, &some);
	host_buf_free(&n->cq.buf);
	host_buf_free(&n->mr.buf);
	work = e->work;
	host_free(n->h);
	w->n--;
	assert_int_equal(w->hcas->num_gone, 1);
	assert_true(e->work - work <= OHCA_FENCE_WORK);
	memset(&m, 0, sizeof(m));
	while (w->hcas->gone) {
		turn(w, qp, &m);
		assert_int_equal(fab_hcas_sleep(w->hcas), !w->hcas->gone && !w->hcas->first);
		fab_hcas_awake(w->hcas);
	}
	check_meanwhile(&m, "end");
	pump(w);
	done(qp);
}

/*
 * The number of HCAs that are not swept is bounded, and the process may end before they are swept.
 */
static void test_gone(void **state)
{
	struct world *w = *state;
	struct fab_hca_cfg cfg = {
		.engine = w->h[0]->cfg,
		.place = { net_index(w->net, HOSTS + 2) },
	};
	const struct fill few = { .windows = 900, .qps = 5, .list_pages = 1u << 20 };
	const struct fab_hca *first = NULL;

	for (unsigned int i = 0; i < FAB_HCA_GONE; i++) {
		struct fab_hca *h = fab_hca_new(w->hcas, &cfg);

		assert_non_null(h);
		fab_hca_free(h);
		first = first ? first : h;
		/* it does not wait for those that are freed later */
		assert_ptr_equal(w->hcas->gone, first);
	}
	assert_null(fab_hca_new(w->hcas, &cfg));
	assert_int_equal(errno, EBUSY);
	while (w->hcas->num_gone == FAB_HCA_GONE)
		fab_hcas_turn(w->hcas);
	fab_hca_free(fab_hca_new(w->hcas, &cfg));
	fill_all(w->h[1], &few);
	fab_hca_reset(w->node[1].hca);
	fill_all(w->h[2], &few);
}

int main(void)
{
#define H(name) cmocka_unit_test_setup_teardown(test_##name, setup_hosted, teardown)
#define P(name) cmocka_unit_test_setup_teardown(test_##name, setup_paged, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full), cmocka_unit_test(test_twice),
		cmocka_unit_test(test_keys), cmocka_unit_test(test_doorbells),
		H(neighbours), P(neighbours), H(gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
