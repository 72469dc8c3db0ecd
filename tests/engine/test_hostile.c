/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Doorbells that another process writes at any time with any values: numbers that do not exist,
 * bits without summary bits, summary bits without bits, any other words and owners. The cost of a
 * poll is bounded, other processes continue, and a reset clears everything.
 */
#include "engine/base/work.h"
#include "engine/object/doorbell.h"
#include "engine/object/to_transport.h"
#include "rig.h"

#define BUDGET		64u
#define MEM		(8u << 20)
#define ONLY_DOORBELLS	(OHCA_WORK_DOORBELLS + OHCA_WORK_ONE)
#define TURNS		200u

/* Makes a machine with tables of 1 << @log numbers. */
static struct host *machine(uint8_t log)
{
	struct ohca_cfg cfg = {
		.node_guid = 0x10, .num_ports = 1, .vl_cap = 1, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .num_vectors = HOST_VECTORS, .num_uars = HOST_UARS,
		.log_max_qp = log < 3 ? 3 : log, .log_max_cq = log, .log_max_srq = log,
		.log_max_mr = 10,
	};
	struct host *h = host_new_cfg(&cfg, MEM);

	host_start(h);
	while (host_poll(h, BUDGET))
		;
	memset(&h->most, 0, sizeof(h->most));
	return h;
}

static struct ohca_doorbells *bells(struct host *h)
{
	return &h->e->db->at;
}

static void fill(_Atomic uint64_t *at, size_t n, uint64_t v)
{
	for (size_t i = 0; i < n; i++)
		at[i] = v;
}

/* Sets the bits of all numbers to @bits, and the summary bits to @sums. */
static void ring_all(struct host *h, uint64_t bits, uint64_t sums)
{
	struct ohca_doorbells *db = bells(h);

	for (unsigned int k = 0; k < OHCA_RING_NUM; k++) {
		fill(db->ring[k].bits, db->ring[k].words, bits);
		fill(db->ring[k].sum, db->ring[k].sums, sums);
	}
	*db->pending = UINT32_MAX;
}

/* The same with all bits of every other word, too. */
static void everything(struct host *h)
{
	struct ohca_doorbells *db = bells(h);

	ring_all(h, UINT64_MAX, UINT64_MAX);
	fill(db->eq, OHCA_DB_EQS, UINT64_MAX);
	fill(db->arm, db->size.max[OHCA_DB_CQ], UINT64_MAX);
	fill(db->bad, OHCA_DB_BAD_NUM, UINT64_MAX);
	for (unsigned int k = 0; k < OHCA_DB_NUM; k++)
		for (uint32_t i = 0; i < db->size.max[k]; i++)
			db->owner[k][i] = UINT32_MAX;
}

/* Nothing is accessed past a table, of any size. */
static void test_sizes(void **state)
{
	(void)state;
	for (uint8_t log = 1; log <= 13; log++)
		for (unsigned int i = 0; i < 2; i++) {
			struct host *h = machine(log);

			everything(h);
			/* EQs count an invalid index */
			for (unsigned int n = 0; host_poll(h, BUDGET); n++)
				assert_true(n < 200);
			assert_int_equal(*bells(h)->pending, OHCA_PEND_ATTN);
			host_free(h);
		}
}

/* Everything is rung before every poll, in the largest tables, without any objects. */
static void test_always(void **state)
{
	struct host *h = machine(16);

	(void)state;
	for (unsigned int i = 0; i < TURNS; i++) {
		everything(h);
		assert_true(host_poll(h, BUDGET));
	}
	host_attack(h, "all doorbells at every turn", ONLY_DOORBELLS);
	host_free(h);
}

/* Reading words without a bit is work, too, and is bounded. */
static void test_sums(void **state)
{
	const unsigned int words = OHCA_WORK_DOORBELLS / OHCA_WORK_LOOK;
	struct host *h = machine(16);
	unsigned int left = 0;

	(void)state;
	for (unsigned int i = 0; i < TURNS; i++) {
		ring_all(h, 0, UINT64_MAX);
		assert_true(host_poll(h, BUDGET));
	}
	for (unsigned int k = 0; k < OHCA_RING_NUM; k++)
		for (unsigned int s = 0; s < bells(h)->ring[k].sums; s++)
			left += (unsigned int)__builtin_popcountll(bells(h)->ring[k].sum[s]);
	assert_in_range(left, 4 * 1024 - words - OHCA_RING_NUM, 4 * 1024 - words / 2);
	host_attack(h, "sums of doorbells without bits", ONLY_DOORBELLS);
	/* and after some polls all of it is done */
	for (unsigned int n = 0; host_poll(h, BUDGET); n++)
		assert_true(n < 10);
	host_free(h);
}

/* Numbers are served in turn, from the end of the last poll, whatever is set meanwhile. */
static void test_in_turn(void **state)
{
	struct host *h = machine(16);
	struct ohca_db_ring *r = &bells(h)->ring[OHCA_RING_SQ];
	unsigned int n;

	(void)state;
	/* the last number, after words whose summary bits are set without need */
	ohca_doorbells_set(bells(h), OHCA_RING_SQ, 65535);
	for (n = 0; r->bits[1023]; n++) {
		assert_true(n < 4);
		for (unsigned int k = 0; k < OHCA_RING_NUM; k++)
			fill(bells(h)->ring[k].sum, bells(h)->ring[k].sums, UINT64_MAX);
		*bells(h)->pending = OHCA_PEND_ENGINE;
		host_poll(h, BUDGET);
	}
	assert_true(n > 1);
	while (host_poll(h, BUDGET))
		;
	/* numbers before the start are served afterwards */
	h->e->db->next[OHCA_RING_SQ] = 200;
	for (unsigned int i = 1; i < 8; i++)
		ohca_doorbells_set(bells(h), OHCA_RING_SQ, 50 * i);
	host_poll(h, BUDGET);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(r->bits[i], 0);
	host_free(h);
}

/* A machine that rings everything, even what it does not own, still sends. */
static void test_traffic(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (uint32_t n = 0; n < 50; n++) {
		rig_write(&r, 0, n, 0, 0, 5000);
		for (unsigned int i = 0; i < 20; i++) {
			for (unsigned int k = 0; k < 2; k++) {
				struct ohca_doorbells *db = bells(r.h[k]);

				ring_all(r.h[k], UINT64_MAX, UINT64_MAX);
				fill(db->arm, db->size.max[OHCA_DB_CQ], 0x0123456789abcdefull * n);
				fill(db->eq, OHCA_DB_EQS, OHCA_EQ_WORD_VALID | 77 * n);
			}
			host_step(r.h, 2);
		}
		wc(&r.scq[0], n, WC_SUCCESS);
	}
	assert_true(host_counter(r.h[0], OHCA_CNT_DB_BAD_INDEX) > 0);
	rig_down(&r);
}

/* A bit without its summary bit is not found, and a reset clears it. */
static void test_stale(void **state)
{
	struct host *h = machine(13);
	struct ohca_doorbells *db = bells(h);

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		ring_all(h, UINT64_MAX, i ? UINT64_MAX : 0);
		fill(db->eq, OHCA_DB_EQS, OHCA_EQ_WORD_VALID);
		h->e->db->next[OHCA_RING_CQ] = 7;
		ohca_reset(h->e);
		for (unsigned int k = 0; k < OHCA_RING_NUM; k++) {
			for (uint32_t w = 0; w < db->ring[k].words; w++)
				assert_int_equal(db->ring[k].bits[w], 0);
			for (uint32_t s = 0; s < db->ring[k].sums; s++)
				assert_int_equal(db->ring[k].sum[s], 0);
			assert_int_equal(h->e->db->next[k], 0);
		}
		for (uint32_t n = 0; n < OHCA_DB_EQS; n++)
			assert_int_equal(db->eq[n], 0);
		/* the engine does not clear the host's own bit */
		assert_int_equal(*db->pending, OHCA_PEND_ATTN);
	}
	host_free(h);
}

/* A new CQ is not armed, whatever its word contained before. */
static void test_arm(void **state)
{
	struct host *h = machine(6);
	_Atomic uint64_t *arm = bells(h)->arm;
	struct host_cq cq;

	(void)state;
	fill(arm, 64, UINT64_MAX);
	host_cq_create(h, &cq, 4, 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(arm[i], i == cq.cqn ? 0 : UINT64_MAX);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* Before ENABLE no doorbell counts: the host may sleep. */
static void test_before(void **state)
{
	struct host *h = host_new(1, 0x10);

	(void)state;
	ohca_doorbell(h->e, 0, OHCA_UAR_EQ, 0, 8);
	ohca_admin_doorbell(h->e, 5);
	*bells(h)->pending |= OHCA_PEND_ATTN | 1u << 31;
	assert_true(ohca_db_pending(h->e));
	assert_false(ohca_poll(h->e, BUDGET));
	assert_false(ohca_db_pending(h->e));
	assert_int_equal(*bells(h)->pending, OHCA_PEND_ATTN);
	/* and no command was posted */
	host_start(h);
	host_free(h);
}

/* The producer index of the admin queue is invalid: the device fails, as with the register. */
static void test_admin(void **state)
{
	struct host *h = machine(6);

	(void)state;
	atomic_fetch_add(bells(h)->aq_db, 1u << 31);
	/* with or without its bit: the device checks the index */
	ohca_poll(h->e, BUDGET);
	assert_int_equal(h->e->fatal_reason, OHCA_FATAL_AQ_OVERFLOW);
	assert_false(ohca_poll(h->e, BUDGET));
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes), cmocka_unit_test(test_always),
		cmocka_unit_test(test_sums), cmocka_unit_test(test_in_turn),
		cmocka_unit_test(test_traffic),
		cmocka_unit_test(test_stale), cmocka_unit_test(test_arm),
		cmocka_unit_test(test_before),
		cmocka_unit_test(test_admin),
	};

	return cmocka_run_group_tests_name("hostile doorbells", tests, NULL, NULL);
}
