// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Scripts of faults: their grammar, and their times, which are virtual. test_replay.c tests the
 * effects of the same script and seed.
 */
#include "scripts.h"

#include "fabric/fault/fault.h"
#include "fabric/fault/words.h"
#include "fabric/graph/names.h"

/* ---- the grammar --------------------------------------------------------------- */

static int stop(void **st)
{
	fab_script_stop(&m);
	return teardown(st);
}

/* Line of the first error of @text, which must be @says. */
static json_int_t script_error(const char *text, const char *says)
{
	json_t *v = script(text, NULL), *first = json_array_get(json_object_get(v, "errors"), 0);
	const char *error = json_string_value(json_object_get(first, "error"));
	json_int_t line;

	if (!error || !strstr(error, says))
		fail_msg("'%s': %s", text, error ? error : "plays");
	line = json_integer_value(json_object_get(first, "line"));
	json_decref(v);
	return line;
}

static void test_errors(void **st)
{
	static const struct {
		const char *text;
		unsigned int line;
		const char *says;
	} wrong[] = {
		{ "", 1, "at 1s link down NODE:PORT" },
		{ "# nothing\n\n", 2, "at 1s link down NODE:PORT" },
		{ "link down leaf1:1", 1, "begin the line with at TIME" },
		{ "\n at 1 link down leaf1:1", 2, "'1' is not a time" },
		{ "at", 1, "is not a time" },
		{ "at 25h link down leaf1:1", 1, "'25h' is not a time" },
		{ "at 86401s link down leaf1:1", 1, "up to a day" },
		{ "at -1s link down leaf1:1", 1, "is not a time" },
		{ "at 1e3s link down leaf1:1", 1, "is not a time" },
		{ "at nans link down leaf1:1", 1, "is not a time" },
		{ "at 1s", 1, "'' is not a fault: write link, node" },
		{ "at 1s\nlink down", 1, "is not a fault" },
		{ "at 1s pull leaf1:1", 1, "'pull' is not a fault" },
		{ "at 1s status", 1, "'status' is not a fault" },
		{ "at 1s script x", 1, "'script' is not a fault" },
		{ "at 1s link down", 1, "write link up|down" },
		{ "at 1s link down leaf1:1 --width 1", 1, "leave out \"width\"" },
		{ "at 1s link down leaf1:1 leaf1:2", 1, "write link up|down" },
		{ "at 1s link down leaf9:1", 1, "there is no node 'leaf9'" },
		{ "at 1s link down leaf1:any:1", 1, "there is no node 'leaf1:any'" },
		{ "at 1s link down leaf1:5", 1, "a number from 0 to 4" },
		{ "at 1s link down leaf1:0", 1, "which has a cable" },
		{ "at 1s link flap leaf1:1 --down 1s --interval 1s", 1, "longer by as much" },
		{ "at 1s node kill leaf9", 1, "as topology shows it" },
		{ "at 1s swap leaf1:1", 1, "write swap NODE:PORT" },
		{ "at 1s swap leaf1:1 leaf2:9", 1, "which has another cable" },
		{ "at 1s swap leaf1:1 leaf1:1", 1, "which has another cable" },
		{ "at 1s swap leaf1:1 host1:1", 1, "which has another cable" },
		{ "at 1s swap leaf1:1 leaf2", 1, "which has another cable" },
		{ "at 1s loss leaf1:1 2", 1, "a number from 0 to 1" },
		{ "at 1s ber leaf1:1 2", 1, "from 1e-18 to 1" },
		{ "at 1s ber leaf1:1 1e-19", 1, "from 1e-18 to 1" },
		{ "at 1s ber leaf1:1", 1, "write ber NODE:PORT RATE" },
		{ "at 1s corrupt leaf1:1 0.5 --burst 3", 1, "leave out \"burst\"" },
		{ "at 1s loss leaf1:1 0.5 --burst -3", 1, "give \"burst\"" },
		{ "at 1s delay leaf1:1 1", 1, "write delay NODE:PORT TIME" },
		{ "at 1s stall leaf1:1 0", 1, "from 1 ns to a day" },
		{ "at 1s stall leaf1:1 5", 1, "write stall NODE:PORT" },
		{ "at 1s stall leaf1:1 --burst 3", 1, "leave out \"burst\"" },
		{ "at 1s resume leaf1", 1, "write resume NODE:PORT" },
		{ "at 1s credits leaf1:4 15 1", 1, "from 0 to 14" },
		{ "at 1s credits leaf1:4 0 2049", 1, "from 0 to 2048" },
		{ "at 1s credits leaf1:1 0 1", 1, "leads to another one" },
		{ "at 1s credits host1:1 0 1", 1, "leads to another one" },
		{ "at 1s preset leaf1:1 Errors 1", 1, "as counters shows it" },
		{ "at 1s expect", 1, "write expect NODE:PORT Down" },
		{ "at 1s expect leaf1:1 Up", 1, "which is \"Down\"" },
		{ "at 1s expect leaf1:any Down", 1, "give \"node\" and \"port\"" },
		{ "at 1s expect leaf1:1 Errors is 1", 1, "give \"node\"" },
		{ "at 1s expect leaf1:1 PortXmitWait over 1", 1, "leave out \"over\"" },
		{ "at 1s expect leaf1:1 PortXmitWait is -1", 1, "a number" },
		{ "at 1s expect errors is 1", 1, "links_active" },
		{ "at 1s expect traps 1", 1, "write expect NODE:PORT" },
		{ "at 1s link up leaf1:1 --within 1s", 1, "--within is for" },
		{ "every 1s for 2s expect traps is 0 --within 1s", 1, "--within is for" },
		{ "at 1s expect traps is 0 --within 90000s", 1, "--within is for" },
		{ "every 1s link down leaf1:1", 1, "write for TIME instead of 'link'" },
		{ "every 1s for 1d link down leaf1:1", 1, "'1d' is not a time" },
		{ "every 1s from for 1s link down leaf1:1", 1, "'for' is not a time" },
		{ "every 0 for 1s link down leaf1:1", 1, "repeat it every 1ms" },
		{ "every 1ms for 1001s link down leaf1:1", 1, "1000000 times" },
		{ "every 1s for 0 link down leaf1:1", 1, "repeat it every 1ms" },
		{ "every", 1, "is not a time" },
		{ "about 1ms for 2000s link down leaf1:1", 1, "1000000 times" },
		{ "about 0 for 1s link down leaf1:1", 1, "repeat it every 1ms" },
		{ "about 1s for 2s expect traps is 0 --within 1s", 1, "--within is for" },
		{ "every 1s for", 1, "is not a time" },
		{ "every 1s from", 1, "is not a time" },
		{ "at 1s link down 'leaf1:1", 1, "a quote is open" },
		{ "at 1s link down leaf1:1 \"", 1, "a quote is open" },
		{ "when", 1, "'' does not begin a condition" },
		{ "when links_up below 3 do link up leaf1:1", 1, "'links_up' does not begin a condition" },
		{ "when for 1s do link up leaf1:1", 1, "'for' does not begin a condition" },
		{ "when links_up below 3 for 1s link up leaf1:1", 1, "'links_up' does not begin a condition" },
		{ "when links_up below 3 for 1 do link up leaf1:1", 1, "'1' is not a time" },
		{ "when links_up below 3 from x for 1s do link up leaf1:1", 1, "'x' is not a time" },
		{ "when links_up below for 1s do link up leaf1:1", 1, "'links_up' does not begin a condition" },
		{ "when traps is 0 --within 1s for 1s do link up leaf1:1", 1, "'traps' does not begin a condition" },
		{ "when leaf9:1 Down for 1s do link up leaf1:1", 1, "there is no node 'leaf9'" },
		{ "when leaf1:1 Up for 1s do link up leaf1:1", 1, "which is \"Down\"" },
		{ "when traps is 0 for 1s do", 1, "'' is not a fault" },
		{ "when traps is 0 for 1s do link up leaf9:1", 1, "there is no node 'leaf9'" },
		{ "when traps is 0 for 1s do expect traps is 0 --within 1s", 1, "--within is for" },
		{ "at 1s a b c d e f g h i j k l m n o p q r s t u v w x y", 1, "too many words" },
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(wrong); i++)
		assert_int_equal(script_error(wrong[i].text, wrong[i].says), wrong[i].line);
	assert_null(m.script);
}

/* A script with errors is not played. The reply lists them, up to a limit. */
static void test_many_errors(void **st)
{
	static char text[64 * FAB_SCRIPT_LINES];
	json_t *v;
	size_t at = 0;

	(void)st;
	v = script("at 1s x\nat 1s link down leaf1:1\nat y\n", NULL);
	assert_int_equal(json_array_size(json_object_get(v, "errors")), 2);
	assert_null(m.script);
	json_decref(v);
	for (unsigned int i = 0; i < 100; i++)
		at += (size_t)sprintf(text + at, "x\n");
	v = script(text, NULL);
	assert_int_equal(json_array_size(json_object_get(v, "errors")), FAB_SCRIPT_ERRORS);
	json_decref(v);
	at = 0;
	for (unsigned int i = 0; i <= FAB_SCRIPT_LINES; i++)
		at += (size_t)sprintf(text + at, "at 1s link down leaf1:1\n");
	v = script(text, NULL);
	assert_non_null(strstr(json_string_value(json_object_get(v, "error")),
			       "line 1025: the script has too many faults"));
	json_decref(v);
}

/* A zero byte is an error of its line; the rest is not read. */
static void test_zero(void **st)
{
	static const char text[] = "at 1s link up leaf1:1\nat 1s link up leaf1:1\0x\n";
	struct fab_script_error e[FAB_SCRIPT_ERRORS];
	uint64_t ends;

	(void)st;
	assert_int_equal(fab_script_start(&m, text, sizeof(text) - 1, e, &ends), 1);
	assert_int_equal(e[0].line, 2);
	assert_string_equal(e[0].text, "a byte is 0 after 'at 1s link up leaf1:1': write text");
	assert_null(m.script);
}

static uint8_t state_of(const char *port)
{
	return f->port[fab_find_port(f, port)].pi.state;
}

/* Each fault takes effect at its time by the fabric's clock, in order. */
static void test_times(void **st)
{
	uint64_t failed;

	(void)st;
	plays("# two cables\n"
	      "at 20ms link up 'leaf1':1\n"
	      "at 10ms link down \"lea\"f1:1  # the first\n"
	      "every 10ms from 5ms for 21ms preset leaf2:1 SymbolErrorCounter 7\r\n"
	      "at 0 link down leaf3:1", 25 * MS);
	assert_int_equal(fab_script_left(&m, &failed), 6);
	assert_int_equal(fab_script_timer(&m, now), 5 * MS);
	assert_int_equal(state_of("leaf3:1"), IB_PS_DOWN);
	assert_int_equal(state_of("leaf1:1"), IB_PS_INIT);
	assert_int_equal(fab_script_timer(&m, now + 9999999), 1);
	assert_int_equal(fab_script_left(&m, &failed), 4);
	assert_int_equal(state_of("leaf1:1"), IB_PS_INIT);
	assert_int_equal(fab_script_timer(&m, now + 10 * MS), 5 * MS);
	assert_int_equal(state_of("leaf1:1"), IB_PS_DOWN);
	/* late: all lines that are due are executed, in order */
	assert_int_equal(fab_script_timer(&m, now + 1000 * MS), UINT64_MAX);
	assert_int_equal(state_of("leaf1:1"), IB_PS_INIT);
	assert_int_equal(fab_script_left(&m, &failed), 0);
	assert_int_equal(failed, 0);
}

/* The log entry of line number @n that was executed. */
static void became(uint64_t n, uint64_t ms, unsigned int line, const char *why)
{
	const struct fab_script_entry *e = fab_script_entry(&m, n);

	assert_non_null(e);
	assert_int_equal(e->ns, ms * MS);
	assert_int_equal(e->line, line);
	assert_string_equal(e->why, why);
}

/*
 * Runs the timer each ms from @from to @to after the script's begin. Return: ns until the next
 * line.
 */
static uint64_t step(unsigned int from, unsigned int to)
{
	uint64_t next = 0;

	for (unsigned int ms = from; ms <= to; ms++)
		next = fab_script_timer(&m, now + ms * MS);
	return next;
}

/* An expectation is true at its time, or within a time; else the line has failed. */
static void test_expect(void **st)
{
	uint64_t failed;

	(void)st;
	plays("at 10ms expect leaf1:1 Init\n"
	      "at 10ms expect leaf1:1 Down\n"
	      "at 10ms expect leaf1:1 Down --within 10ms\n"
	      "at 20ms link down leaf1:1\n"
	      "at 21ms expect host1:1 Down\n"
	      "at 21ms expect leaf1:1 LinkDownedCounter above 0\n"
	      "at 21ms expect leaf1:1 LinkDownedCounter below 1\n"
	      "at 22ms expect links_up is 15\n"
	      "at 22ms expect links_active is 1\n"
	      "at 23ms expect leaf1:1 Init --within 1500us", 24500000);
	assert_int_equal(step(0, 10), MS);
	assert_int_equal(fab_script_left(&m, &failed), 8);
	assert_int_equal(failed, 1);
	assert_int_equal(step(11, 20), MS);
	/* true since the last check */
	assert_int_equal(fab_script_left(&m, &failed), 6);
	assert_int_equal(failed, 2);
	assert_int_equal(step(21, 25), UINT64_MAX);
	assert_int_equal(fab_script_left(&m, &failed), 0);
	assert_int_equal(fab_script_played(&m), 10);
	became(0, 10, 1, "");
	became(1, 10, 2, "it is Init, which was not expected");
	became(2, 20, 3, "it is Init, which was not expected");
	became(3, 20, 4, "");
	became(4, 21, 5, "");
	became(5, 21, 6, "");
	became(6, 21, 7, "LinkDownedCounter is 1, which was not expected");
	became(7, 22, 8, "");
	became(8, 22, 9, "links_active is 0, which was not expected");
	assert_int_equal(fab_script_entry(&m, 9)->ns, 24500000);
	assert_string_equal(fab_script_entry(&m, 9)->why, "it is Down, which was not expected");
	assert_int_equal(failed, 5);
	assert_null(fab_script_entry(&m, 10));
}

/*
 * A line with a condition is executed once, when the condition is true. If it never is, the line is
 * skipped and has not failed.
 */
static void test_condition(void **st)
{
	uint64_t failed;

	(void)st;
	plays("when leaf1:1 Down for 50ms do link down leaf1:2\n"
	      "when leaf1:1 LinkDownedCounter above 0 from 30ms for 20ms do expect leaf1:2 Init\n"
	      "when links_up below 9 for 40ms do node kill spine1\n"
	      "at 10500us link down leaf1:1\n", 50 * MS);
	assert_int_equal(step(0, 10), 500000);
	assert_int_equal(fab_script_left(&m, &failed), 4);
	assert_int_equal(fab_script_timer(&m, now + 10600000), 400000);
	assert_int_equal(state_of("leaf1:2"), IB_PS_INIT);
	assert_int_equal(step(11, 60), UINT64_MAX);
	assert_int_equal(state_of("leaf1:2"), IB_PS_DOWN);
	assert_int_equal(fab_script_entry(&m, 0)->ns, 10500000);
	became(1, 11, 1, "");
	became(2, 30, 2, "it is Down, which was not expected");
	became(3, 40, 3, "");
	assert_true(fab_script_entry(&m, 3)->skipped && !fab_script_entry(&m, 1)->skipped);
	assert_int_equal(fab_script_left(&m, &failed), 0);
	assert_int_equal(failed, 1);
	assert_int_equal(state_of("spine1:1"), IB_PS_INIT);
	/* a late daemon does not repeat missed checks, and executes the lines that were due */
	plays("when leaf1:1 Init for 9s do link up leaf1:2\nat 10ms link up leaf1:1", 9000 * (json_int_t)MS);
	fab_script_timer(&m, now);
	fab_script_timer(&m, now + 5000 * (uint64_t)MS);
	became(0, 10, 2, "");
	became(1, 5000, 1, "");
	assert_int_equal(state_of("leaf1:2"), IB_PS_INIT);
	/* the last check is at the end of the time, which counts from its begin */
	plays("when links_up below 1 from 2ms for 1500us do link up leaf1:2\n", 3500000);
	step(0, 5);
	assert_int_equal(fab_script_entry(&m, 0)->ns, 3500000);
	assert_true(fab_script_entry(&m, 0)->skipped);
}

/*
 * An expectation within a time waits that long even if the daemon was late, because other programs
 * could do nothing meanwhile. The following lines wait for it.
 */
static void test_expect_late(void **st)
{
	uint64_t failed;

	(void)st;
	plays("at 10ms expect leaf1:1 Down --within 5s\n"
	      "at 5020ms link down leaf1:2\n", 5020 * (json_int_t)MS);
	now += 10000 * (uint64_t)MS;
	for (unsigned int i = 0; i < 4990; i++, now += MS) {
		fab_script_timer(&m, now);
		if (fab_script_played(&m))
			fail_msg("it was played after %u ms", i);
	}
	assert_true(fab_fault_link(&m, fab_find_port(f, "leaf1:1"), false, now));
	fab_script_timer(&m, now);
	assert_int_equal(fab_script_played(&m), 1);
	assert_string_equal(fab_script_entry(&m, 0)->why, "");
	assert_in_range(fab_script_timer(&m, now), MS, 50 * MS);
	/* no longer than that */
	fab_script_stop(&m);
	plays("at 0 expect leaf1:1 Init --within 5ms\nat 6ms link up leaf1:1\n", 6 * MS);
	for (unsigned int i = 0; i < 7; i++, now += MS)
		fab_script_timer(&m, now + 100 * MS);
	assert_int_equal(fab_script_played(&m), 2);
	assert_int_equal(fab_script_left(&m, &failed), 0);
	assert_int_equal(failed, 1);
	became(0, 5, 1, "it is Down, which was not expected");
}

/*
 * Times at which the line of a script "about 10 ms for 20 s" is executed; [2048]. Return: how many.
 */
static uint64_t times_by_chance(unsigned int seed, uint64_t *ns)
{
	json_t *v;
	uint64_t n, left;

	m.seed = seed;
	v = script("about 10ms from 1s for 20s expect traps is 0", "replace");
	assert_int_equal(json_integer_value(json_object_get(v, "ends_ns")), 21000 * (json_int_t)MS);
	json_decref(v);
	assert_int_equal(fab_script_left(&m, &left), 1);
	while (!fab_script_timer(&m, now + 30000 * (uint64_t)MS))
		;
	n = fab_script_played(&m);
	assert_in_range(n, 1, 2048);
	for (uint64_t i = 0; i < n; i++)
		ns[i] = fab_script_entry(&m, i)->ns;
	assert_in_range(ns[n - 1], 1000 * (uint64_t)MS, 21000 * (uint64_t)MS - 1);
	assert_int_equal(fab_script_left(&m, &left), 0);
	return n;
}

/*
 * A Poisson process: the mean count is right, the intervals are exponentially distributed, and the
 * seed determines them.
 */
static void test_about(void **st)
{
	static uint64_t ns[2048], again[2048];
	uint64_t all = 0, long_ones = 0, n, last;

	(void)st;
	for (unsigned int seed = 1; seed <= 20; seed++) {
		n = times_by_chance(seed, ns);
		all += n;
		last = 1000 * (uint64_t)MS;
		for (uint64_t i = 0; i < n; i++) {
			assert_true(ns[i] >= last);
			/* e^-2 of the intervals */
			long_ones += ns[i] - last > 20 * MS;
			last = ns[i];
		}
	}
	/* 40,000 within five standard deviations, and 13.5 % of them */
	assert_in_range(all, 39000, 41000);
	assert_in_range(long_ones, 5050, 5780);
	n = times_by_chance(20, again);
	assert_memory_equal(ns, again, n * sizeof(*ns));
	times_by_chance(21, again);
	assert_memory_not_equal(ns, again, 100 * sizeof(*ns));
	/* never, with most seeds */
	plays("about 10s for 1ms link down leaf1:1", MS);
	assert_int_equal(fab_script_timer(&m, now), UINT64_MAX);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

/*
 * The time to read a script depends on the length of its text, not on the number of random events.
 */
static void test_much_by_chance(void **st)
{
	static char text[40 * FAB_SCRIPT_LINES + 8];
	const uint64_t begin = cpu_ns();
	uint64_t failed;
	json_t *v;
	size_t at = 0;

	(void)st;
	for (unsigned int i = 0; i < FAB_SCRIPT_LINES; i++)
		at += (size_t)sprintf(text + at, "about 1ms for 990s expect traps is 0\n");
	plays(text, 990000 * (json_int_t)MS);
	assert_int_equal(fab_script_left(&m, &failed), FAB_SCRIPT_LINES);
	strcat(text, "at x");
	v = script(text, "replace");
	assert_non_null(json_object_get(v, "errors"));
	json_decref(v);
	/* about 20 ms; drawing all times at once takes more than 10 s */
	assert_in_range(cpu_ns() - begin, 0, 2000 * (uint64_t)MS);
}

/* Number of packets lost of a million on the wire of leaf1:4, in *@bursts bursts. */
static unsigned int lost_of(const char *text, unsigned int *bursts)
{
	struct fab_fault *x;
	unsigned int lost = 0;
	bool was = false;

	json_decref(script(text, "replace"));
	fab_script_timer(&m, now);
	x = fab_extra(f, fab_find_port(f, "leaf1:4"))->fault;
	*bursts = 0;
	for (unsigned int i = 0; i < 1000000; i++) {
		const bool loses = fab_fault_loses(x, 64);

		lost += loses;
		*bursts += loses && !was;
		was = loses;
	}
	return lost;
}

/*
 * As many packets are lost in bursts as without; the mean length of a burst is the configured one.
 */
static void test_burst(void **st)
{
	unsigned int n, bursts;

	(void)st;
	n = lost_of("at 0 loss leaf1:4 0.1", &bursts);
	assert_in_range(n, 98500, 101500);
	assert_in_range(bursts, 88500, 91500);
	n = lost_of("at 0 loss leaf1:4 0.1 --burst 20", &bursts);
	assert_in_range(n, 91000, 109000);
	assert_in_range(n * 10 / bursts, 190, 210);
	/* damage has no bursts, and does not change those of loss */
	n = lost_of("at 0 corrupt leaf1:4 0.5", &bursts);
	assert_in_range(n * 10 / bursts, 190, 210);
	n = lost_of("at 0 loss leaf1:4 0.1 --burst 1", &bursts);
	assert_int_equal(n, bursts);
	assert_int_equal(lost_of("at 0 loss leaf1:4 1 --burst 5", &bursts) > 700000, 1);
	assert_int_equal(lost_of("at 0 loss leaf1:4 0 --burst 5", &bursts), 0);
}

/* The log contains the last lines that were executed. */
static void test_log(void **st)
{
	(void)st;
	plays("every 1ms for 5s expect traps is 0", 4999 * (json_int_t)MS);
	while (!fab_script_timer(&m, now + 5000 * (uint64_t)MS))
		;
	assert_int_equal(fab_script_played(&m), 5000);
	assert_null(fab_script_entry(&m, 5000 - FAB_SCRIPT_LOG - 1));
	became(5000 - FAB_SCRIPT_LOG, 5000 - FAB_SCRIPT_LOG, 1, "");
	became(4999, 4999, 1, "");
}

/* The counter that all lines of the following scripts set. */
static uint64_t value(void)
{
	return fab_extra(f, fab_find_port(f, "leaf1:1"))->ctr.symbol_error;
}

/*
 * Each of many lines is executed at its time, those of the same time in order, at any interval of
 * checks.
 */
static void test_order(void **st)
{
	static char text[64 * 500];
	unsigned int at[500];
	uint64_t rng = fab_random_state(3), last = 0;
	size_t n = 0;

	(void)st;
	for (unsigned int i = 0; i < 500; i++) {
		at[i] = fab_random(&rng) % 50;
		last = at[i] > last ? at[i] : last;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "at %ums preset leaf1:1 "
				      "SymbolErrorCounter %u\n", at[i], i + 1);
	}
	plays(text, last * MS);
	for (unsigned int ms = 0; ms < 50; ms += 1 + ms % 3) {
		unsigned int want = 0;

		for (unsigned int i = 1; i < 500; i++)
			if (at[i] <= ms && (at[want] > ms || at[i] >= at[want]))
				want = i;
		while (!fab_script_timer(&m, now + ms * MS))
			;
		if (at[want] <= ms)
			assert_int_equal(value(), want + 1);
	}
}

/*
 * A script with too much to do at once, or after a long pause, is executed in turns, and reports
 * that.
 */
static void test_turns(void **st)
{
	static char text[64 * FAB_SCRIPT_LINES];
	uint64_t left, failed;
	unsigned int turns;
	json_t *v;
	size_t n = 0;

	(void)st;
	for (unsigned int i = 0; i < FAB_SCRIPT_LINES; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "every 1ms for 3ms preset leaf1:1 "
				      "SymbolErrorCounter %u\n", i);
	plays(text, 2 * MS);
	left = fab_script_left(&m, &failed);
	assert_int_equal(left, 3 * FAB_SCRIPT_LINES);
	assert_int_equal(fab_script_late(&m), 0);
	for (turns = 0; !fab_script_timer(&m, now + 10 * MS); turns++) {
		m.now_ns = now + 10 * MS;
		assert_int_equal(left - fab_script_left(&m, &failed), FAB_SCRIPT_TURN);
		left = fab_script_left(&m, &failed);
		assert_true(fab_script_late(&m) >= 8 * MS);
		if (turns)
			continue;
		v = status_json();
		assert_int_equal(json_integer_value(json_object_get(v, "script_late_ns")), 10 * MS);
		json_decref(v);
	}
	assert_in_range(turns, 3 * FAB_SCRIPT_LINES / FAB_SCRIPT_TURN - 1,
			3 * FAB_SCRIPT_LINES / FAB_SCRIPT_TURN);
	assert_int_equal(value(), FAB_SCRIPT_LINES - 1);
	assert_int_equal(fab_script_left(&m, &failed), 0);
	assert_int_equal(fab_script_late(&m), 0);
}

/* The number of the script that plays. */
static json_int_t number_now(void)
{
	const char *ask = "{\"command\": \"script\", \"log\": 0}";
	char *answer = fab_control_answer(&m, NULL, ask, strlen(ask), NULL);
	json_t *v = json_loads(answer, 0, NULL);
	const json_int_t number = json_integer_value(json_object_get(v, "script"));

	json_decref(v);
	free(answer);
	return number;
}

/* A second script waits for the first, or replaces it; an invalid one replaces nothing. */
static void test_replace(void **st)
{
	const char *halt = "{\"command\": \"script\", \"stop\": true}";
	json_int_t number;
	uint64_t failed;
	json_t *v;

	(void)st;
	assert_int_equal(number_now(), 0);
	plays("at 10ms link down leaf1:1", 10 * MS);
	number = number_now();
	assert_int_not_equal(number, 0);
	v = script("at 10ms link down leaf1:2", NULL);
	assert_non_null(strstr(json_string_value(json_object_get(v, "error")), "--replace"));
	json_decref(v);
	v = script("at 10ms link down", "replace");
	assert_non_null(json_object_get(v, "error"));
	json_decref(v);
	assert_int_equal(fab_script_left(&m, &failed), 1);
	assert_int_equal(number_now(), number);
	v = script("at 1ms link down leaf1:2\nat 2ms link down leaf1:3", "replace");
	assert_non_null(json_object_get(v, "done"));
	assert_int_equal(json_integer_value(json_object_get(v, "script")), number_now());
	assert_int_not_equal(number_now(), number);
	json_decref(v);
	assert_int_equal(fab_script_timer(&m, now + MS), MS);
	assert_int_equal(state_of("leaf1:2"), IB_PS_DOWN);
	v = script("at 1s x", "stop");
	assert_non_null(json_object_get(v, "error"));
	json_decref(v);
	free(fab_control_answer(&m, NULL, halt, strlen(halt), NULL));
	assert_int_equal(number_now(), 0);
	assert_int_equal(fab_script_timer(&m, now + 10000 * MS), UINT64_MAX);
	assert_int_equal(state_of("leaf1:1"), IB_PS_INIT);
	assert_int_equal(state_of("leaf1:3"), IB_PS_INIT);
	/* a script that has ended does not delay the next */
	plays("at 0 link down leaf1:1", 0);
	fab_script_timer(&m, now);
	plays("at 0 link up leaf1:1", 0);
}

/* A random port has a cable, is another one each time, and depends on the seed. */
static void test_any(void **st)
{
	uint8_t state[3][4];

	(void)st;
	for (unsigned int run = 0; run < 3; run++) {
		unsigned int down = 0;

		m.seed = run / 2;
		plays("every 1ms for 2ms link down spine1:any", MS);
		fab_script_timer(&m, now + MS);
		for (unsigned int i = 0; i < 4; i++) {
			const uint32_t p = fab_find_port(f, "spine1:1") + i;

			state[run][i] = f->port[p].pi.state;
			down += state[run][i] == IB_PS_DOWN;
			fab_fault_link(&m, p, true, now);
		}
		assert_in_range(down, 1, 2);
	}
	assert_memory_equal(state[0], state[1], 4);
	/* a node without a cable has no such port */
	f->port[f->port[PORT].peer].peer = FAB_NO_PORT;
	f->port[PORT].peer = FAB_NO_PORT;
	assert_int_equal(script_error("at 0 link down host1:any", "which has a cable"), 1);
}

/* ---- words ----------------------------------------------------------------------- */

/* A port is the part after the last colon of a word: a decimal number, or any. */
static void test_port_words(void **st)
{
	static const struct {
		const char *word, *node;
		json_int_t port;	/* 0: any */
	} words[] = {
		{ "leaf1:36", "leaf1", 36 }, { "leaf1:010", "leaf1", 10 },
		{ "a b:1:254", "a b:1", 254 }, { "leaf1:any", "leaf1", 0 },
		{ "leaf1:", NULL, 0 }, { ":1", NULL, 0 }, { "leaf1", NULL, 0 },
		{ "leaf1:1a", NULL, 0 }, { "leaf1:0x10", NULL, 0 }, { "leaf1:some", NULL, 0 },
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(words); i++) {
		char state[] = "down", word[32];
		char *w[] = { state, word };
		const char *why = NULL;
		json_t *v, *port;

		strcpy(word, words[i].word);
		v = fab_fault_words("link", 2, w, &why);
		assert_int_equal(!!v, !!words[i].node);
		if (!v) {
			assert_non_null(why);
			continue;
		}
		port = json_object_get(v, "port");
		assert_string_equal(json_string_value(json_object_get(v, "node")), words[i].node);
		assert_string_equal(json_string_value(json_object_get(v, "state")), "down");
		if (words[i].port)
			assert_int_equal(json_integer_value(port), words[i].port);
		else
			assert_string_equal(json_string_value(port), "any");
		json_decref(v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_errors, setup, stop),
		cmocka_unit_test_setup_teardown(test_many_errors, setup, stop),
		cmocka_unit_test_setup_teardown(test_zero, setup, stop),
		cmocka_unit_test(test_port_words),
		cmocka_unit_test_setup_teardown(test_times, setup, stop),
		cmocka_unit_test_setup_teardown(test_expect, setup, stop),
		cmocka_unit_test_setup_teardown(test_condition, setup, stop),
		cmocka_unit_test_setup_teardown(test_expect_late, setup, stop),
		cmocka_unit_test_setup_teardown(test_log, setup, stop),
		cmocka_unit_test_setup_teardown(test_about, setup, stop),
		cmocka_unit_test_setup_teardown(test_much_by_chance, setup, stop),
		cmocka_unit_test_setup_teardown(test_burst, setup, stop),
		cmocka_unit_test_setup_teardown(test_order, setup, stop),
		cmocka_unit_test_setup_teardown(test_turns, setup, stop),
		cmocka_unit_test_setup_teardown(test_replace, setup, stop),
		cmocka_unit_test_setup_teardown(test_any, setup, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
