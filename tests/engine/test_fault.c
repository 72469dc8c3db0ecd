/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Page faults: objects that are destroyed while one is open, and the slots for them under load. */
#include <stdlib.h>

#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "engine/transport/sched.h"
#include "engine/transport/xport.h"
#include "odp_rig.h"

/* ---- destroyed meanwhile ----------------------------------------------------------------- */

static void test_gone(void **state)
{
	for (unsigned int how = 0; how < 6; how++) {
		struct ohca_hw_fault_eqe f[2];
		struct odp t;

		(void)state;
		odp_up(&t, (struct rig_opt){ 0 });
		rig_recv(&t.r, 1, 70, 0, PAGE);
		rig_write(&t.r, 1, 1, 0, 0, PAGE);	/* waits for its own pages */
		odp_pages(&t, 0, 0, 1, RW);
		rig_send(&t.r, 0, 2, 0, PAGE);		/* side 1 waits for the receive's */
		rig_time(&t.r, 3);
		assert_true(odp_fault(&t, 1, &f[0]));
		assert_true(odp_fault(&t, 1, &f[1]));
		odp_none(&t);
		switch (how) {
		case 0:
			rig_modify(&t.r.qp[1], OHCA_QPS_ERR);
			rig_run(&t.r);
			wc(&t.r.scq[1], 1, WC_WR_FLUSH);
			wc(&t.r.rcq[1], 70, WC_WR_FLUSH);
			break;
		case 1:
			rig_modify(&t.r.qp[1], OHCA_QPS_RESET);
			break;
		case 2:
			assert_int_equal(host_cmd_handle(t.r.h[1], OHCA_CMD_DESTROY_QP,
							 t.r.qp[1].handle, 0), 0);
			break;
		case 3:
		case 4:
			assert_int_equal(host_cmd_handle(t.r.h[1], OHCA_CMD_DEREG_MR, t.r.mr[1].key,
							 0), 0);
			break;
		case 5:
			ohca_mmio_write(t.r.h[1]->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
			ohca_mmio_write(t.r.h[0]->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
			for (unsigned int i = 0; i < 2; i++) {
				t.r.h[i]->aq_pi = 0;
				host_buf_free(&t.r.mr[i].buf);
				host_buf_free(&t.r.qp[i].buf);
				host_buf_free(&t.r.scq[i].buf);
				host_buf_free(&t.r.rcq[i].buf);
				host_free(t.r.h[i]);
			}
			continue;
		}
		rig_time(&t.r, 5);
		assert_int_equal(odp_resume(&t, 1, f[1].id, how != 4), 0);
		assert_int_equal(odp_resume(&t, 1, f[0].id, how != 4), 0);
		rig_time(&t.r, 100);
		odp_none(&t);
		if (how >= 3) {
			/* the first request fails: the key is gone, or there was no page */
			struct ohca_hw_cqe c;

			assert_true(host_cq_poll(&t.r.scq[1], &c));
			assert_int_not_equal(c.status, WC_SUCCESS);
			assert_true(host_cq_poll(&t.r.rcq[1], &c));
			assert_int_not_equal(c.status, WC_SUCCESS);
			assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
		}
		if (how == 2) {
			struct host_qp_init in = { .scq = &t.r.scq[1], .rcq = &t.r.rcq[1] };

			host_buf_free(&t.r.qp[1].buf);
			assert_int_equal(host_qp_create(t.r.h[1], &t.r.qp[1], &in), 0);
		}
		odp_down(&t);
	}
}

/* An answer to a page fault has no effect if its request was served before. */
static void test_late(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	odp_pages(&t, 0, 0, 1, RW);
	rig_write(&t.r, 0, 1, 0, 0, 64);
	rig_run(&t.r);
	f = odp_want(&t, 1, 0, 64, true);
	odp_pages(&t, 1, 0, 1, RW);
	rig_time(&t.r, 5);	/* the request is sent again */
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(odp_resume(&t, 1, f.id, false), 0);
	rig_write(&t.r, 0, 2, 0, 0, 64);
	rig_run(&t.r);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	odp_down(&t);
}

/* ---- load ------------------------------------------------------------------------------------ */

/*
 * More page faults than one doorbell page may have: a QP without a slot waits, and gets its turn.
 */
static void test_many(void **state)
{
	enum { QPS = OHCA_MAX_FAULTS + 40, MOST = OHCA_MAX_FAULTS / 2 };
	static struct host_qp qp[QPS];
	struct ohca_hw_fault_eqe f[QPS];
	unsigned int n = 0, told = 0, done = 0;
	struct ohca_hw_cqe c;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .loop = true });
	for (unsigned int i = 0; i < QPS; i++) {
		struct host_qp_init in = { .type = OHCA_QPT_UD, .log_sq = 4, .log_rq = 1,
					   .scq = &t.r.scq[0], .rcq = &t.r.rcq[0] };
		struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, i);

		assert_int_equal(host_qp_create(t.r.h[0], &qp[i], &in), 0);
		host_qp_datagram(&qp[i], 0, RIG_QKEY);
		wqe_av(&w, 1, qp[i].qpn, RIG_QKEY);
		wqe_sge(&w, t.r.mr[0].iova + (uint64_t)i * PAGE, 64, t.r.mr[0].key);
		wqe_post(&qp[i], &w);
	}
	rig_time(&t.r, 10);
	while (odp_fault(&t, 0, &f[n]))
		n++;
	assert_int_equal(n, MOST);
	/* one of those that wait is destroyed; the first answer lets another one in */
	host_qp_destroy(&qp[QPS - 1]);
	for (told = 0; told < n; told++) {
		odp_pages(&t, 0, (f[told].addr - t.r.mr[0].iova) / PAGE, 1, RW);
		assert_int_equal(odp_resume(&t, 0, f[told].id, true), 0);
		rig_time(&t.r, 1);
		while (n < QPS && odp_fault(&t, 0, &f[n]))
			n++;
		/* one has tried and has the slot; it did not wake the others */
		for (unsigned int i = 0; told < 10 && i < QPS - 1; i++) {
			const struct ohca_xport *xp = t.r.h[0]->e->qp[qp[i].handle]->xp;

			assert_true(xp->sched.on == OHCA_XP_OFF ||
				    xp->sched.fault_gen != t.r.h[0]->e->sched->fault_gen);
		}
	}
	assert_int_equal(n, QPS - 1);
	rig_run(&t.r);
	while (host_cq_poll(&t.r.scq[0], &c)) {
		assert_int_equal(c.status, WC_SUCCESS);
		done++;
	}
	assert_int_equal(done, QPS - 1);
	for (unsigned int i = 0; i < QPS - 1; i++)
		host_qp_destroy(&qp[i]);
	odp_down(&t);
}

/** struct process - one of those that share the device: a doorbell page, and UD QPs on it */
struct process {
	struct host_cq cq;
	struct host_qp qp[OHCA_MAX_FAULTS];
	uint32_t pdn, uar, key, told, qps;
};

static void process_up(struct odp *t, struct process *p, uint32_t uar)
{
	struct host *h = t->r.h[0];
	struct ohca_cmd_reg_mr in = {
		.pl.page_shift = 12, .iova = t->r.mr[0].iova, .length = t->r.mr[0].len,
		.access = ALL, .type = OHCA_MR_ODP,
	};

	*p = (struct process){ .uar = uar };
	p->pdn = in.pdn = host_pd(h, uar);
	host_cq_create(h, &p->cq, 8, uar);
	assert_int_equal(odp_reg(h, &in, &p->key), 0);
}

static void process_down(struct process *p)
{
	for (unsigned int i = 0; i < p->qps; i++)
		host_qp_destroy(&p->qp[i]);
	host_buf_free(&p->cq.buf);
}

/* QP @i of a process sends from page @i of its region, which is not present. */
static void process_send(struct odp *t, struct process *p, unsigned int i)
{
	struct host_qp_init in = { .type = OHCA_QPT_UD, .log_sq = 1, .log_rq = 1, .pdn = p->pdn,
				   .uar = p->uar, .scq = &p->cq, .rcq = &p->cq };
	struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, i);

	assert_int_equal(host_qp_create(t->r.h[0], &p->qp[i], &in), 0);
	host_qp_datagram(&p->qp[i], 0, RIG_QKEY);
	wqe_av(&w, 1, p->qp[i].qpn, RIG_QKEY);
	wqe_sge(&w, t->r.mr[0].iova + (uint64_t)i * PAGE, 64, p->key);
	wqe_post(&p->qp[i], &w);
}

/* Counts the page faults of each process; with @answer they are served. */
static void process_faults(struct odp *t, struct process *p, unsigned int n, bool answer)
{
	struct ohca_hw_fault_eqe f;

	for (unsigned int idle = 0; idle < 3; idle++) {
		rig_time(&t->r, 1);
		while (odp_fault(t, 0, &f)) {
			uint64_t page = t->r.mr[0].buf.page[0] | RW;

			idle = 0;
			for (unsigned int i = 0; i < n; i++)
				if (p[i].key == f.key)
					p[i].told++;
			if (!answer)
				continue;
			assert_int_equal(odp_update(t->r.h[0], f.key,
						    (f.addr - t->r.mr[0].iova) / PAGE, 1, &page), 0);
			assert_int_equal(odp_resume(t, 0, f.id, true), 0);
		}
	}
}

/*
 * Pages that are never served block no slot of another process, whether one process waits for them
 * or four.
 */
static void test_share(void **state)
{
	enum { HOGS = 4 };
	static struct process p[HOGS + 1];
	struct process *victim = &p[HOGS];
	struct ohca_hw_cqe c;
	uint32_t free_slots = OHCA_MAX_FAULTS;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .loop = true });
	for (unsigned int i = 0; i <= HOGS; i++)
		process_up(&t, &p[i], i + 1);
	for (unsigned int i = 0; i < HOGS; i++) {
		for (p[i].qps = 0; p[i].qps < free_slots / 2 + 8; p[i].qps++)
			process_send(&t, &p[i], p[i].qps);
		process_faults(&t, p, HOGS, false);
		/* as many as are left, and the others stay free */
		assert_int_equal(p[i].told, free_slots / 2);
		free_slots -= p[i].told;
		process_send(&t, victim, victim->qps++);
		process_faults(&t, victim, 1, true);
		assert_int_equal(victim->told, i + 1);
		rig_run(&t.r);
		assert_true(host_cq_poll(&victim->cq, &c));
		assert_int_equal(c.status, WC_SUCCESS);
		assert_int_equal(c.wr_id, i);
	}
	for (unsigned int i = 0; i < HOGS; i++)
		process_down(&p[i]);
	process_down(victim);
	odp_down(&t);
}

/*
 * No slot is free for the page of a READ response. The requester of the same QP continues: its own
 * page is served, and it sends later requests.
 */
static void test_one_side(void **state)
{
	enum { TAKEN = 50, OF_PAGE = 100 };
	static struct ohca_xport no_turn;
	struct ohca_hw_fault_eqe f;
	struct ohca_engine *e;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	e = odp_host(&t, 1)->e;
	rig_fill(&t.r, 1, 0, 64, 1);
	rig_fill(&t.r, 1, 8 * PAGE, 64, 2);
	odp_pages(&t, 0, 0, 4, RW);
	rig_write(&t.r, 1, 1, 0, PAGE, 64);
	rig_run(&t.r);
	f = odp_want(&t, 1, 0, 64, false);
	/* other QPs of the doorbell page have used its slots */
	e->num_faults += TAKEN;
	e->uar_faults[t.r.qp[1].uar] += OF_PAGE;
	rig_read(&t.r, 0, 2, 0, 8 * PAGE, 64);
	rig_run(&t.r);
	odp_none(&t);
	assert_int_equal(e->qp[t.r.qp[1].handle]->xp->sched.on, OHCA_XP_WAIT_FAULT);
	odp_pages(&t, 1, 0, 1, RW);
	assert_int_equal(odp_resume(&t, 1, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[1], 1, WC_SUCCESS);
	rig_check(&t.r, 0, PAGE, 64, 1);
	rig_write(&t.r, 1, 3, 0, 2 * PAGE, 64);
	rig_run(&t.r);
	wc(&t.r.scq[1], 3, WC_SUCCESS);
	rig_check(&t.r, 0, 2 * PAGE, 64, 1);
	/* the response still waits for its slot */
	odp_none(&t);
	e->num_faults -= TAKEN;
	e->uar_faults[t.r.qp[1].uar] -= OF_PAGE;
	/* the QP that was woken before it has no turn, because its lane has no credits */
	e->sched->fault_next = &no_turn;
	ohca_xp_fault_room(e, 1);
	rig_run(&t.r);
	f = odp_want(&t, 1, 8 * PAGE, 64, false);
	odp_pages(&t, 1, 8, 1, RW);
	assert_int_equal(odp_resume(&t, 1, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	rig_check(&t.r, 0, 0, 64, 2);
	odp_down(&t);
}

/*
 * A free slot wakes the first QP that may use it; QPs of a page with all of its slots get no turn.
 */
static void test_refused(void **state)
{
	static struct process p[2];
	const struct ohca_xport *waits;
	struct ohca_hw_fault_eqe f;
	struct ohca_sched *s;
	uint32_t id = 0;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .loop = true });
	s = t.r.h[0]->e->sched;
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t most = OHCA_MAX_FAULTS >> (i + 1);

		process_up(&t, &p[i], i + 1);
		while (p[i].qps < most + 8 - 7 * i)
			process_send(&t, &p[i], p[i].qps++);
		rig_time(&t.r, 1);
		while (odp_fault(&t, 0, &f)) {
			p[i].told++;
			id = f.id;
		}
		assert_int_equal(p[i].told, most);
	}
	/* one of the second process is answered; eight of the first have waited longer */
	waits = t.r.h[0]->e->qp[p[1].qp[p[1].qps - 1].handle]->xp;
	assert_int_equal(waits->sched.on, OHCA_XP_WAIT_FAULT);
	assert_int_equal(odp_resume(&t, 0, id, false), 0);
	assert_ptr_equal(s->fault_next, waits);
	rig_run(&t.r);
	assert_true(odp_fault(&t, 0, &f));
	assert_int_equal(f.key, p[1].key);
	odp_none(&t);
	process_down(&p[0]);
	process_down(&p[1]);
	odp_down(&t);
}

/* Random pages are removed while messages are outstanding in both directions. */
static void test_churn(void **state)
{
	enum { OPS = 600, AREA = 64 * PAGE, SLOTS = 16, SLOT = AREA / SLOTS };
	const char *given = getenv("SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0) : 1;
	uint32_t x = seed | 1;

	(void)state;
	print_message("seed %u\n", seed);
	for (unsigned int loop = 0; loop < 2; loop++) {
		unsigned int sent[2] = { 0 }, done[2] = { 0 }, faults = 0;
		uint64_t sum[2] = { 0 };
		struct odp t;

		odp_up(&t, (struct rig_opt){ .loop = loop, .scatter = true, .mtu = 3,
					     .log_sq = 7 });
		/*
		 * side i: sources at 0, targets of the other side at AREA, targets of READs at 2
		 * AREA
		 */
		for (unsigned int i = 0; i < 2; i++) {
			rig_fill(&t.r, i, 0, AREA, i + 1);
			rig_put64(&t.r, i, 3 * AREA, 0);
		}
		while (done[0] + done[1] < 2 * OPS) {
			struct ohca_hw_cqe c;

			for (unsigned int i = 0; i < 2; i++) {
				x = x * 1664525u + 1013904223u;
				while (sent[i] < OPS && sent[i] - done[i] < 12) {
					uint64_t at = (uint64_t)(sent[i] % SLOTS) * SLOT;
					uint32_t len = 1 + (x >> 8) % (SLOT - 8);

					switch (x >> 28 & 3) {
					case 0:
						rig_read(&t.r, i, sent[i], 2 * AREA + at, at, len);
						break;
					case 1:
						rig_atomic(&t.r, i, OHCA_OP_FETCH_ADD, sent[i],
							   3 * AREA + 64, 3 * AREA, x & 0xff, 0);
						sum[1 - i] += x & 0xff;
						break;
					default:
						rig_write(&t.r, i, sent[i], at, AREA + at, len);
					}
					sent[i]++;
					x = x * 1664525u + 1013904223u;
				}
				odp_pages(&t, i, (x >> 8) % 200, 1 + (x >> 20) % 20, 0);
			}
			faults += odp_serve(&t, RW);
			for (unsigned int i = 0; i < 2; i++)
				while (host_cq_poll(&t.r.scq[i], &c)) {
					assert_int_equal(c.status, WC_SUCCESS);
					assert_int_equal(c.wr_id, done[i]);	/* in order */
					done[i]++;
				}
		}
		assert_in_range(faults, OPS / 4, 100000);
		for (unsigned int i = 0; i < 2; i++) {
			assert_int_equal(rig_get64(&t.r, i, 3 * AREA), sum[i]);
			/* every copy is complete: each slot begins with the data that was sent */
			for (unsigned int s = 0; s < SLOTS; s++)
				for (unsigned int to = 1; to < 3; to++) {
					uint8_t a, b;

					host_buf_read(odp_host(&t, i), &t.r.mr[i].buf,
						      (uint64_t)to * AREA + s * SLOT, &a, 1);
					host_buf_read(odp_host(&t, 1 - i), &t.r.mr[1 - i].buf,
						      s * SLOT, &b, 1);
					if (a)
						assert_int_equal(a, b);
				}
		}
		odp_none(&t);
		odp_down(&t);
	}
}

/*
 * A request is lost, and the one after it waits for a page. No timer runs meanwhile. After the
 * wait, with or without a page, the lost one is sent again.
 */
static void test_lost_before(void **state)
{
	for (unsigned int ok = 0; ok < 2; ok++) {
		struct ohca_hw_fault_eqe f;
		struct odp t;
		uint32_t key;

		(void)state;
		odp_up(&t, (struct rig_opt){ 0 });
		key = t.r.mr[0].key;
		t.r.mr[1].key = t.pinned[1];
		host_hook_set(t.r.h[0], 0, host_drop, NULL);
		t.r.mr[0].key = t.pinned[0];
		rig_write(&t.r, 0, 1, 0, 0, 64);
		t.r.mr[0].key = key;
		rig_write(&t.r, 0, 2, PAGE, 64, 64);
		rig_run(&t.r);
		f = odp_want(&t, 0, PAGE, 64, false);
		host_hook_set(t.r.h[0], 0, NULL, NULL);
		rig_time(&t.r, 60000);
		no_wc(&t.r.scq[0]);
		assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
		if (ok)
			odp_pages(&t, 0, 1, 1, RW);
		assert_int_equal(odp_resume(&t, 0, f.id, ok), 0);
		rig_time(&t.r, 100);
		wc(&t.r.scq[0], 1, WC_SUCCESS);
		wc(&t.r.scq[0], 2, ok ? WC_SUCCESS : WC_LOC_PROT);
		odp_down(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_one_side),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_churn),
		cmocka_unit_test(test_lost_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
