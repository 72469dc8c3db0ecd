/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time until an HCA of the fabric's process has a turn while others are busy, counted in their
 * turns, and in units of work (engine/base/work.h). The others do all that is expensive: their
 * fronts ring everything and call all the time, their command queues never end, and they send
 * without pause.
 */
#define HOSTS	6u
#include "world.h"

#include "engine/base/work.h"

#define TRIES	40u
#define PASSES	8u		/* that a message may need: its packet, its ACK, its completion */

enum { HONEST, PEER, FIRST_BUSY };

/** struct waiting - the HCA that waits, and its results */
static struct waiting {
	struct world *w;
	const ohca_engine *honest;
	void (*post)(struct world *w);
	unsigned int until_post;	/* turns of others until it gets work; 0: it has work */
	bool waits;
	unsigned int turns, most_turns;	/* of others */
	uint64_t work, most_work;
} now;

bool __real_ohca_poll(ohca_engine *e, unsigned int budget);
bool __wrap_ohca_poll(ohca_engine *e, unsigned int budget);

/* A turn of any HCA. */
bool __wrap_ohca_poll(ohca_engine *e, unsigned int budget)
{
	const uint64_t work = e->work;
	bool more;

	if (e == now.honest && now.waits) {
		now.waits = false;
		now.most_turns = now.turns > now.most_turns ? now.turns : now.most_turns;
		now.most_work = now.work > now.most_work ? now.work : now.most_work;
	}
	more = __real_ohca_poll(e, budget);
	if (now.waits) {
		now.turns++;
		now.work += e->work - work;
	}
	if (now.until_post && !--now.until_post) {
		now.waits = true;
		now.turns = 0;
		now.work = 0;
		now.post(now.w);
	}
	return more;
}

/* ---- the busy ones ------------------------------------------------------------- */

static struct host_qp honest_qp[2], busy_qp[HOSTS][2];

/* Everything is rung, and the flag for messages is set without one. */
static void storm(struct node *n)
{
	for (unsigned int k = 0; k < OHCA_RING_NUM; k++) {
		for (unsigned int i = 0; i < n->bells.ring[k].words; i++)
			n->bells.ring[k].bits[i] = UINT64_MAX;
		for (unsigned int i = 0; i < n->bells.ring[k].sums; i++)
			n->bells.ring[k].sum[i] = UINT64_MAX;
	}
	*n->bells.pending |= OHCA_PEND_ENGINE | OHCA_PEND_ATTN;
}

/* The command queue is full, whatever the device has executed. */
static void commands(struct node *n)
{
	struct ohca_hw_aqe *c = host_ptr(n->h, n->h->aq);

	for (unsigned int i = 0; i < 16; i++) {
		c[i] = HOST_AQE(handle, .handle = 0xffffff);
		c[i].hdr.opcode = OHCA_CMD_DESTROY_QP;
		c[i].hdr.cookie = i;
	}
	ohca_doorbells_admin(&n->bells, n->h->e->aq_ci + 16);
}

/* There is more to send than a turn sends, to a busy one, too. */
static void sends(struct world *w, unsigned int i)
{
	const unsigned int to = i + 1 < w->n ? i + 1 : (unsigned int)PEER;
	struct host_qp *qp = busy_qp[i];
	struct ohca_hw_cqe c;

	if (!qp[0].qpn)
		connect_rc(w, i, to, qp, OHCA_QPT_UC);
	else if (!host_cq_poll(&w->node[i].cq, &c))
		return;
	rdma(&qp[0], &w->node[i], &w->node[to], OHCA_OP_RDMA_WRITE, 0, 0, 1 << 20);
}

static void busy(struct world *w, unsigned int n)
{
	for (unsigned int i = FIRST_BUSY; i < FIRST_BUSY + n; i++) {
		sends(w, i);
		commands(&w->node[i]);
		storm(&w->node[i]);
	}
}

/* ---- the waiting one ----------------------------------------------------------- */

static void post(struct world *w)
{
	rdma(&honest_qp[0], &w->node[HONEST], &w->node[PEER], OHCA_OP_RDMA_WRITE, 0, 4096, 8);
}

/*
 * With @n busy others a doorbell waits for two turns of each at most: it may arrive just after the
 * loop has looked, and the loop looks again when each HCA that it found has had a turn. A doorbell
 * does wait that long, so the bound is tight.
 */
static void wait_for(struct world *w, unsigned int n)
{
	struct ohca_hw_cqe c;

	now = (struct waiting){ .w = w, .honest = w->h[HONEST]->e, .post = post };
	for (unsigned int i = 0; i < TRIES; i++) {
		unsigned int passes = 0;

		/* after each turn of a pass, one after the other */
		for (now.until_post = 1 + i % (2 * n); now.until_post || !host_cq_poll(
		     &w->node[HONEST].cq, &c); passes += !now.until_post) {
			assert_true(passes < PASSES);
			busy(w, n);
			fab_hcas_attn(w->hcas);
			fab_hcas_turn(w->hcas);
			fab_data_round(w->net->d);
		}
		assert_int_equal(c.status, WC_SUCCESS);
	}
	printf("%u busy HCAs: %u turns, %llu units of work\n", n, now.most_turns,
	       (unsigned long long)now.most_work);
	assert_in_range(now.most_turns, n, 2 * n);
	assert_true(now.most_work <= 2 * n * OHCA_POLL_WORK(FAB_HCA_BURST));
}

static void test_doorbell(void **state)
{
	struct world *w = *state;

	connect_rc(w, HONEST, PEER, honest_qp, OHCA_QPT_RC);
	pump(w);
	for (unsigned int n = 1; n <= HOSTS - FIRST_BUSY; n++)
		wait_for(w, n);
	now = (struct waiting){ 0 };
	for (unsigned int i = 0; i < 2; i++)
		host_buf_free(&honest_qp[i].buf);
	for (unsigned int i = FIRST_BUSY; i < HOSTS; i++)
		for (unsigned int k = 0; k < 2; k++)
			host_buf_free(&busy_qp[i][k].buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_doorbell, setup_paged, teardown),
	};

	return cmocka_run_group_tests_name("waiting for a turn", tests, NULL, NULL);
}
