/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trap queue: order, repeats, rate, TrapRepress, room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ib/trap.h"

#define SLOTS 4u

static struct ib_trap slot[SLOTS];
static struct ib_trap_queue q;

static int setup(void **st)
{
	static const struct ib_trap_room room = { .slots = SLOTS, .security = 3, .each = 2 };

	(void)st;
	ib_trap_init(&q, slot, &room, 0);
	return 0;
}

static struct ib_notice event(uint16_t trap, uint8_t detail)
{
	return (struct ib_notice){
		.type = trap >= IB_TRAP_BAD_MKEY ? IB_NOTICE_SECURITY : IB_NOTICE_URGENT,
		.trap = trap,
		.details = { detail },
	};
}

static void post(uint16_t trap, uint8_t detail, uint64_t now)
{
	const struct ib_notice n = event(trap, detail);

	ib_trap_post(&q, &n, now);
}

static bool repress(uint64_t tid, uint16_t trap, uint8_t detail)
{
	const struct ib_notice n = event(trap, detail);

	return ib_trap_repress(&q, tid, &n);
}

static void order(void **st)
{
	const struct ib_trap *t;

	(void)st;
	assert_null(ib_trap_first(&q));
	assert_true(ib_trap_deadline(&q) == UINT64_MAX);
	post(144, 1, 5);
	post(144, 2, 7);
	post(144, 1, 9);
	assert_true(ib_trap_deadline(&q) == 5);
	t = ib_trap_first(&q);
	assert_true(t->tid == 1 && t->n.count == 1 && t->next_ns == 5);
	assert_null(ib_trap_due(&q, 4, 0));
	assert_ptr_equal(ib_trap_due(&q, 5, 0), t);
	assert_true(t->next_ns == 5 + IB_TRAP_MIN_PERIOD_NS);
	/*
	 * TrapRepress matches by transaction though the details differ; Set(Notice) matches by
	 * details
	 */
	assert_false(repress(99, 144, 0));
	assert_false(repress(1, 128, 0));
	assert_true(repress(1, 144, 0));
	assert_non_null(ib_trap_first(&q));
	assert_int_equal(ib_trap_first(&q)->n.details[0], 2);
	assert_false(repress(99, 144, 2));
	assert_true(repress(0, 144, 2));
	assert_null(ib_trap_first(&q));
	assert_int_equal(q.repressed, 2);
}

/* A TrapRepress that was sent before the trap was posted anew does not remove the new one. */
static void news(void **st)
{
	const uint64_t timeout = 2 * IB_TRAP_MIN_PERIOD_NS;
	const struct ib_trap *t;

	(void)st;
	post(128, 1, 1000);
	assert_int_equal(ib_trap_due(&q, 1000, timeout)->tid, 1);
	post(128, 1, 1001);
	post(128, 1, 1002);
	assert_false(repress(1, 128, 1));
	/* it is due, but the manager has until SubnetTimeOut */
	assert_true(ib_trap_deadline(&q) == 1000 + timeout);
	assert_null(ib_trap_due(&q, 1000 + timeout - 1, timeout));
	t = ib_trap_due(&q, 1000 + timeout, timeout);
	assert_true(t && t->tid == 2 && t->n.count == 2);
	assert_true(repress(2, 128, 1));
	assert_true(ib_trap_deadline(&q) == UINT64_MAX);
	/* nor does a TrapRepress that arrives twice because the trap was sent twice */
	post(128, 1, 1003);
	assert_false(repress(2, 128, 1));
	/* the last of several traps 128 replaces the others, and has the right LID */
	post(128, 7, 1004);
	t = ib_trap_first(&q);
	assert_true(t->tid == 3 && t->n.details[0] == 7);
	assert_true(repress(3, 128, 0));
	assert_null(ib_trap_first(&q));

	/* a repeated violation is no news for the manager, so the TrapRepress removes it */
	post(256, 1, 0);
	assert_int_equal(ib_trap_due(&q, 4 * timeout, timeout)->tid, 4);
	post(256, 1, 0);
	assert_true(repress(4, 256, 1));
	assert_null(ib_trap_first(&q));
}

/*
 * Time between any two traps, and between repeats of one; the one that has waited longest is first.
 */
static void rate(void **st)
{
	const uint64_t timeout = IB_TRAP_MIN_PERIOD_NS / 10;
	uint64_t last = 0, now;
	unsigned int sent[3] = { 0 };

	(void)st;
	post(257, 0, 1);
	post(258, 1, 2);
	post(128, 2, 3);
	for (now = 1; now < 4 * IB_TRAP_MIN_PERIOD_NS; now += timeout / 7) {
		const struct ib_trap *t = ib_trap_due(&q, now, timeout);

		assert_null(ib_trap_due(&q, now, timeout));
		if (!t)
			continue;
		assert_true(!last || now - last >= timeout);
		last = now;
		sent[t->n.details[0]]++;
	}
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(sent[i], 4);
	ib_trap_clear(&q);
	post(128, 2, now);
	assert_true(ib_trap_deadline(&q) >= last + timeout);
}

static void room(void **st)
{
	unsigned int sent = 0;

	(void)st;
	post(257, 0, 0);
	post(257, 1, 0);
	post(257, 2, 0);		/* one kind leaves room for another */
	assert_int_equal(q.dropped, 1);
	post(256, 3, 0);
	post(258, 4, 0);		/* and all leave room for the node's own */
	assert_int_equal(q.dropped, 2);
	post(128, 5, 0);
	assert_int_equal(q.dropped, 2);
	post(144, 6, 0);
	assert_int_equal(q.dropped, 3);
	/* no more traps than slots, and each one is given up after its repeats */
	for (unsigned int i = 0; i < 1000; i++)
		sent += !!ib_trap_due(&q, (i + 1) * IB_TRAP_MIN_PERIOD_NS, 0);
	assert_int_equal(sent, SLOTS * (1 + IB_TRAP_MAX_REPEATS));
	assert_null(ib_trap_first(&q));
	assert_int_equal(q.dropped, 3 + SLOTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(order, setup),
		cmocka_unit_test_setup(news, setup),
		cmocka_unit_test_setup(rate, setup),
		cmocka_unit_test_setup(room, setup),
	};

	return cmocka_run_group_tests_name("traps", tests, NULL, NULL);
}
