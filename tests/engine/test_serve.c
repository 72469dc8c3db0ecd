/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The loop of ohca-fabric with HCAs in its process: the thread of the loop has them, another one
 * plays the processes of their machines, which ring doorbells and look at memory.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/state.h"
#include "fabric/fault/fault.h"
#include "fabric/graph/generate.h"
#include "fabric/mgmt/mgmt.h"
#include "fabric/serve.h"
#include "rig.h"

#define LEN	100000u
#define TRIES	200u		/* messages, of which some find the loop asleep, some awake */
#define LIMIT_MS	20000u
#define LID(i)	(uint16_t)(10 + (i))

/** struct side - an HCA at a place of the fabric */
struct side {
	struct loop_world *w;
	unsigned int place;	/* port of the switch */
	struct host_seat seat;
	struct fab_hca *hca;
	struct host *h;
	struct host_cq cq;
	struct host_mr mr;
	struct host_qp qp;
};

struct loop_world {
	struct fab *f;
	struct fab_data *d;
	struct fab_hcas *hcas;
	struct side side[2];
	struct fab_serve_hooks hooks;
	struct fab_serve_cfg cfg;
	int pipe[2];
	pthread_t thread;
	atomic_bool ready;
	const char *why;	/* it is not what the tests need, or NULL */
	jmp_buf out;		/* of loop_ready() */
	bool lossy;		/* a cable loses a sixteenth of all packets */
	int rc;
};

static const struct fab_node *the_switch(const struct loop_world *w)
{
	for (uint32_t i = 0; i < w->f->nodes; i++)
		if (w->f->node[i].sw != FAB_NONE)
			return &w->f->node[i];
	return NULL;
}

/* ---- in the loop's thread ------------------------------------------------------ */

/* What is wrong there is for the test's thread to say. */
__attribute__((noreturn)) static void give_up(struct loop_world *w, const char *what)
{
	w->why = what;
	longjmp(w->out, 1);
}

#define NEED(w, what) do {		\
	if (!(what))			\
		give_up(w, #what);	\
} while (0)

static ohca_engine *seat_make(void *arg, struct host *h)
{
	struct side *s = arg;
	const struct fab_hca_range memory = { HOST_BASE, h->mem_size, h->mem, false, NULL };
	const struct fab_hca_cfg cfg = {
		.engine = h->cfg,
		.place = { fab_port_of(the_switch(s->w), s->place) },
		.irq = host_irq,
		.arg = h,
	};

	s->hca = fab_hca_new(s->w->hcas, &cfg);
	NEED(s->w, s->hca);
	NEED(s->w, fab_hca_memory(s->hca, &memory, 1));
	return fab_hca_engine(s->hca);
}

static bool seat_turn(void *arg)
{
	const struct side *s = arg;

	return fab_hcas_turn(s->w->hcas);
}

/* The loop frees it. */
static void seat_leave(void *arg)
{
	(void)arg;
}

/* Set of attribute @attr at the switch, from the host at its first port, which gets no answer. */
static void set(struct loop_world *w, uint16_t attr, uint32_t mod, const uint8_t data[64])
{
	struct fab_mad mad = { .dlid = IB_LID_PERMISSIVE, .slid = IB_LID_PERMISSIVE };
	const uint32_t manager = w->f->port[fab_port_of(the_switch(w), 1)].peer;

	mad.smp.hdr = (struct ib_mad_hdr){
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_SMP_CLASS_VERSION,
		.mgmt_class = IB_CLASS_SUBN_DR,
		.method = IB_METHOD_SET,
		.attr_id = ib_to_be16(attr),
		.attr_mod = ib_to_be32(mod),
	};
	mad.smp.dr_slid = mad.smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	mad.smp.init_path[1] = 1;
	ib_smp_set_hops(&mad.smp, 0, 1);
	memcpy(mad.smp.data, data, 64);
	fab_mgmt_send(fab_data_mgmt(w->d), manager, &mad, fab_data_host_ns(w->d));
}

static void set_port(struct loop_world *w, unsigned int num, uint8_t state)
{
	struct ib_port_info pi = w->f->port[fab_port_of(the_switch(w), num)].pi;
	uint8_t d[64] = { 0 };

	pi.state = state;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	ib_port_info_pack(&pi, d);
	set(w, IB_SMP_ATTR_PORT_INFO, num, d);
	NEED(w, w->f->port[fab_port_of(the_switch(w), num)].pi.state == state);
}

static void settle(struct loop_world *w)
{
	while (fab_hcas_turn(w->hcas) | fab_data_round(w->d))
		;
}

static void side_up(struct loop_world *w, unsigned int i)
{
	struct side *s = &w->side[i];

	s->w = w;
	s->place = i + 2;
	s->seat = (struct host_seat){
		.make = seat_make,
		.turn = seat_turn,
		.leave = seat_leave,
		.arg = s,
	};
	s->h = host_new_seat(1, 0x1000 * (i + 1), &s->seat);
	host_start(s->h);
	settle(w);
	set_port(w, s->place, IB_PS_ARMED);
	set_port(w, s->place, IB_PS_ACTIVE);
	host_port_set(s->h, 0, LID(i), IB_PS_ACTIVE);
	host_cq_create(s->h, &s->cq, 8, 0);
	host_mr_create(s->h, &s->mr, 2 * LEN, s->h->pdn, 0xf);
	NEED(w, !host_qp_create(s->h, &s->qp, &(struct host_qp_init){
		.type = OHCA_QPT_RC, .scq = &s->cq, .rcq = &s->cq }));
}

static void make_world(struct loop_world *w)
{
	struct ib_switch_info si = w->f->sw[the_switch(w)->sw].si;
	uint8_t b[64] = { 0 };

	si.linear_top = LID(1);
	ib_switch_info_pack(&si, b);
	set(w, IB_SMP_ATTR_SWITCH_INFO, 0, b);
	memset(b, IB_LFT_NO_PORT, sizeof(b));
	for (unsigned int i = 0; i < 2; i++)
		b[LID(i)] = (uint8_t)(i + 2);
	set(w, IB_SMP_ATTR_LFT, 0, b);
	for (unsigned int i = 0; i < 2; i++)
		side_up(w, i);
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&w->side[i].qp, 0, LID(!i), w->side[!i].qp.qpn, 5, 100 + i,
				101 - i);
	settle(w);
	if (w->lossy)
		NEED(w, fab_fault_wire(fab_data_mgmt(w->d), fab_port_of(the_switch(w), 2),
				       1u << 28, 0, 1));
}

static void loop_ready(void *arg, struct fab_data *d, struct fab_hcas *hcas)
{
	struct loop_world *w = arg;

	w->d = d;
	w->hcas = hcas;
	if (!setjmp(w->out))
		make_world(w);
	atomic_store(&w->ready, true);
}

static bool loop_event(void *arg, int fd)
{
	(void)arg;
	(void)fd;
	return false;
}

static void *loop_thread(void *arg)
{
	struct loop_world *w = arg;

	w->rc = fab_serve(w->f, &w->cfg);
	return NULL;
}

/* ---- in the machines' ---------------------------------------------------------- */

/* The next completion of @cq, which comes without a call of the engine. */
static struct ohca_hw_cqe wait_cqe(struct host_cq *cq)
{
	struct timespec now;
	time_t end;
	struct ohca_hw_cqe c;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + LIMIT_MS / 1000;
	while (!host_cq_poll(cq, &c)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > end)
			fail_msg("no completion");
		usleep(100);
	}
	atomic_thread_fence(memory_order_acquire);
	return c;
}

/* A doorbell wakes the loop, and a message is done, whether it slept or not. */
static void test_doorbells(void **state)
{
	struct loop_world *w = *state;
	struct side *x = &w->side[0], *y = &w->side[1];

	for (unsigned int n = 0; n < TRIES; n++) {
		const uint32_t len = n % 8 ? 8 : LEN;
		struct wqe q = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, n);

		for (uint32_t i = 0; i < len; i++)
			*(uint8_t *)host_buf_ptr(x->h, &x->mr.buf, i) = (uint8_t)(i + n);
		wqe_raddr(&q, y->mr.iova, y->mr.key);
		wqe_sge(&q, x->mr.iova, len, x->mr.key);
		/* some of the time it has gone to sleep by now */
		if (n % 3 == 0)
			usleep(1000);
		wqe_post(&x->qp, &q);
		assert_int_equal(wait_cqe(&x->cq).wr_id, n);
		for (uint32_t i = 0; i < len; i++)
			assert_int_equal(*(uint8_t *)host_buf_ptr(y->h, &y->mr.buf, i),
					 (uint8_t)(i + n));
	}
}

/* What is lost is sent again when the engine's time for it is over: the loop sleeps no longer. */
static void test_deadlines(void **state)
{
	struct loop_world *w = *state;
	struct side *x = &w->side[0], *y = &w->side[1];

	for (unsigned int n = 0; n < TRIES; n++) {
		struct wqe q = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, n);

		wqe_raddr(&q, y->mr.iova, y->mr.key);
		wqe_sge(&q, x->mr.iova, 8, x->mr.key);
		wqe_post(&x->qp, &q);
		assert_int_equal(wait_cqe(&x->cq).status, WC_SUCCESS);
	}
}

/* ---- both ---------------------------------------------------------------------- */

static int setup_loop(void **state, bool lossy)
{
	struct loop_world *w = calloc(1, sizeof(*w));
	char why[1024];

	assert_non_null(w);
	w->lossy = lossy;
	w->f = fab_new();
	if (!fab_generate(w->f, "star:4", why, sizeof(why)))
		fail_msg("%s", why);
	assert_true(fab_seal(w->f));
	assert_non_null(the_switch(w));
	assert_int_equal(pipe(w->pipe), 0);
	w->hooks = (struct fab_serve_hooks){ w->pipe[0], loop_ready, loop_event, w };
	w->cfg.hooks = &w->hooks;
	w->cfg.quiet = true;
	w->cfg.data.hoq_scale = 1;
	assert_int_equal(pthread_create(&w->thread, NULL, loop_thread, w), 0);
	for (unsigned int i = 0; !atomic_load(&w->ready); i++) {
		assert_true(i < LIMIT_MS);
		usleep(1000);
	}
	if (w->why)
		fail_msg("the loop's thread needs %s", w->why);
	*state = w;
	return 0;
}

static int setup(void **state)
{
	return setup_loop(state, false);
}

static int setup_lossy(void **state)
{
	return setup_loop(state, true);
}

static int teardown(void **state)
{
	struct loop_world *w = *state;

	assert_int_equal(write(w->pipe[1], "x", 1), 1);
	pthread_join(w->thread, NULL);
	assert_int_equal(w->rc, 0);
	if (w->lossy)
		assert_true(fab_extra_of(w->f, fab_port_of(the_switch(w), 2))->fault->lost > 0);
	for (unsigned int i = 0; i < 2; i++) {
		host_buf_free(&w->side[i].qp.buf);
		host_buf_free(&w->side[i].cq.buf);
		host_buf_free(&w->side[i].mr.buf);
		host_free(w->side[i].h);
	}
	close(w->pipe[0]);
	close(w->pipe[1]);
	fab_free(w->f);
	free(w);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_doorbells, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deadlines, setup_lossy, teardown),
	};

	return cmocka_run_group_tests_name("hosted by ohca-fabric's loop", tests, NULL, NULL);
}
