// SPDX-License-Identifier: GPL-2.0-or-later
/* The order of timers, and the number that run in one turn. */
#include "subnet.h"

#include "fabric/base/calendar.h"

#define TIMERS	300u

static struct fab_timer timer[TIMERS];

/* The earliest time, found by a search of all timers. */
static uint64_t least(unsigned int *set)
{
	uint64_t ns = UINT64_MAX;

	*set = 0;
	for (unsigned int i = 0; i < TIMERS; i++) {
		if (!timer[i].set)
			continue;
		++*set;
		if (timer[i].due_ns < ns)
			ns = timer[i].due_ns;
	}
	return ns;
}

/* Timers are set, moved and removed in any order: fab_timers_due() is always the earliest time. */
static void first(void **st)
{
	struct fab_timers h = { NULL };
	uint64_t r = 1, last = 0;
	unsigned int set;

	(void)st;
	for (unsigned int i = 0; i < 20000; i++) {
		struct fab_timer *t = NULL;
		uint64_t due;

		r = r * 6364136223846793005u + 1;
		t = &timer[(r >> 33) % TIMERS];
		due = (r >> 45) % 8 ? (r >> 48) % 1000 : UINT64_MAX;
		fab_timer_set(&h, t, due);
		assert_int_equal(t->due_ns, due);
		assert_int_equal(t->set, due != UINT64_MAX);
		assert_int_equal(fab_timers_due(&h), least(&set));
	}
	/* each timer is due once, in order of time */
	for (assert_true(set > TIMERS / 2); set; set--) {
		assert_true(fab_timers_due(&h) >= last);
		last = fab_timers_due(&h);
		fab_timer_set(&h, h.first, UINT64_MAX);
	}
	assert_null(h.first);
	assert_int_equal(least(&set), UINT64_MAX);
}

#define ENTRIES	1000u

/* An entry of a calendar is due once, exactly at its time, however far away that is. */
static void calendar(void **st)
{
	static struct fab_calendar c;
	static struct fab_entry entry[ENTRIES];
	unsigned int waits = 0, came = 0;
	uint64_t r = 1, last;

	(void)st;
	assert_null(fab_calendar_next(&c));
	c.now_ns = 1000000000;
	for (unsigned int i = 0; i < 100000; i++) {
		struct fab_entry *e = &entry[i % ENTRIES];
		bool any = false;

		r = r * 6364136223846793005u + 1;
		/* UINT64_MAX: it was due */
		if (i < ENTRIES || e->due_ns == UINT64_MAX) {
			e->due_ns = c.now_ns + (r >> 24 & ((1ull << r % 40) - 1));
			fab_calendar_add(&c, e);
			waits++;
		}
		if (i < ENTRIES || r >> 62)
			continue;
		last = c.now_ns;
		for (e = fab_calendar_next(&c); e; e = e->next) {
			assert_true(c.now_ns >= last);
			assert_int_equal(e->due_ns, c.now_ns);
			e->due_ns = UINT64_MAX;
			any = true;
			waits--;
			came++;
		}
		/* no other entry has that time */
		for (unsigned int k = 0; any && k < ENTRIES; k++)
			assert_true(entry[k].due_ns > c.now_ns);
	}
	assert_true(came > 10000);
	while (waits) {
		last = c.now_ns;
		for (struct fab_entry *e = fab_calendar_next(&c); e; e = e->next) {
			assert_int_equal(e->due_ns, c.now_ns);
			waits--;
		}
		assert_true(c.now_ns >= last);
	}
	assert_null(fab_calendar_next(&c));
}

/* Every host of a large fabric has a trap to send: one turn sends a limited number. */
static void turn(void **st)
{
	static const uint8_t details[54];
	unsigned int hosts = 0;

	(void)st;
	m.now_ns = now;
	for (uint32_t i = 0; i < f->nodes; i++) {
		struct fab_port *p = &f->port[fab_port_of(&f->node[i], 1)];

		if (f->node[i].sw != FAB_NONE)
			continue;
		p->pi.state = IB_PS_ACTIVE;
		p->pi.lid = LID(i);
		p->pi.sm_lid = LID(HOST);
		fab_raise_trap(&m, fab_port_of(&f->node[i], 1), IB_NOTICE_INFO,
			       IB_TRAP_CAP_MASK_CHANGE, details);
		hosts++;
	}
	assert_in_range(hosts, FAB_TIMER_TURN + 1, 2 * FAB_TIMER_TURN);
	for (unsigned int i = 0; i < 2; i++) {
		/* the hosts repeat their traps, but not early */
		assert_int_equal(m.deadline_ns > now, i);
		now = m.deadline_ns;
		fab_mgmt_timer(&m, now);
		assert_int_equal(m.stats.traps, i * hosts + FAB_TIMER_TURN);
		assert_int_equal(m.deadline_ns, now);
		fab_mgmt_timer(&m, now);
		assert_int_equal(m.stats.traps, (i + 1) * hosts);
	}
}

static int setup_large(void **st)
{
	(void)st;
	begin(from_spec("fat-tree:36"));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first),
		cmocka_unit_test(calendar),
		cmocka_unit_test_setup_teardown(turn, setup_large, teardown),
	};

	return cmocka_run_group_tests_name("timers", tests, NULL, NULL);
}
