// SPDX-License-Identifier: GPL-2.0-or-later
/* The journal has the last commands of requests and scripts, in the words of a command line. */
#include "subnet.h"

#include <inttypes.h>
#include <jansson.h>

#include "fabric/control/control.h"
#include "fabric/fault/journal.h"
#include "fabric/fault/request.h"
#include "fabric/fault/script.h"
#include "fabric/fault/words.h"

#define MS	1000000ull

static struct fab_journal journal;

static int setup_journal(void **st)
{
	const int rc = setup(st);

	memset(&journal, 0, sizeof(journal));
	m.journal = &journal;
	return rc;
}

static int teardown_journal(void **st)
{
	fab_script_stop(&m);
	m.journal = NULL;
	return teardown(st);
}

static json_t *reply_to(const char *request)
{
	char *text;
	json_t *v;

	m.now_ns = now;
	text = fab_control_answer(&m, NULL, request, strlen(request), NULL);
	assert_non_null(text);
	v = json_loads(text, 0, NULL);
	free(text);
	return v;
}

/* Executes @words of a command line, as a client sends them. Return: whether it succeeded. */
static bool command(const char *words)
{
	char copy[256], *word[16], *rest = copy;
	const char *why;
	json_t *v, *reply;
	char *text;
	int n = 0;
	bool ok;

	snprintf(copy, sizeof(copy), "%s", words);
	while ((word[n] = strtok_r(n ? NULL : copy, " ", &rest)))
		n++;
	v = fab_fault_words(word[0], n - 1, word + 1, &why);
	assert_non_null(v);
	text = json_dumps(v, 0);
	reply = reply_to(text);
	ok = json_object_get(reply, "done");
	json_decref(reply);
	json_decref(v);
	free(text);
	return ok;
}

/* Each command is recorded as it was written. */
static void test_words(void **st)
{
	static const char *const lines[] = {
		"link down leaf1:1", "link up leaf1:1", "link restore leaf1:1",
		"link flap leaf1:1 --down 20ms --interval 1500ms --count 3",
		"link degrade leaf1:1 --width 1 --speed SDR", "node kill leaf2", "node revive leaf2",
		"swap leaf1:1 leaf2:1", "loss leaf1:1 0.001 7 --burst 3", "loss leaf1:1 0.123456789", "loss leaf1:1 0",
		"ber leaf1:1 1e-09",
		"corrupt leaf1:1 0.25", "delay leaf1:1 20us", "delay leaf1:1 0", "delay leaf1 PortInfo 5ms",
		"stall leaf1:1 1s", "stall leaf1:1", "resume leaf1:1", "drop leaf1 NodeInfo 2",
		"refuse leaf1 PortCounters 12", "guid leaf1 leaf2", "preset leaf1:1 SymbolErrorCounter 9",
		"preset leaf1:1 SymbolErrorCounter stuck",
	};

	(void)st;
	journal.pid = 77;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(lines); i++) {
		if (!command(lines[i]))
			fail_msg("%s", lines[i]);
		assert_int_equal(journal.count, i + 1);
		assert_string_equal(journal.entry[i].text, lines[i]);
		assert_int_equal(journal.entry[i].pid, 77);
		assert_int_equal(journal.entry[i].ns, now);
	}
	/* commands that are refused, or that change nothing */
	assert_false(command("link down leaf9:1"));
	assert_false(command("expect leaf1:1 Active"));
	assert_true(command("expect leaf1:1 Down"));
	json_decref(reply_to("{\"command\": \"status\"}"));
	assert_int_equal(journal.count, IB_ARRAY_SIZE(lines));
}

/* A port that is chosen at random is recorded by its number. */
static void test_chosen(void **st)
{
	unsigned int num;
	char end;

	(void)st;
	assert_true(command("link down leaf1:any"));
	assert_int_equal(sscanf(journal.entry[0].text, "link down leaf1:%u%c", &num, &end), 1);
	assert_int_equal(f->port[fab_port_of(&f->node[8], num)].pi.state, IB_PS_DOWN);
}

/* Adaptive routing is recorded with its options. */
static void test_adaptive(void **st)
{
	(void)st;
	json_decref(reply_to("{\"command\": \"adaptive\", \"state\": \"on\", \"first\": 0, \"order\": \"any\", "
			     "\"sls\": 32829, \"gap_ns\": 2000000}"));
	json_decref(reply_to("{\"command\": \"adaptive\", \"state\": \"off\", \"node\": \"leaf1\"}"));
	assert_int_equal(journal.count, 2);
	assert_string_equal(journal.entry[0].text, "adaptive on --order any --sls 0,2-5,15 --gap 2ms");
	assert_string_equal(journal.entry[1].text, "adaptive off leaf1");
}

/* A name is in quotes if a script needs them. */
static void test_quoted(void **st)
{
	static const char text[] =
		"switchguid=0xaa\nSwitch 8 \"S-00000000000000aa\" # \"it's # 1\"\n[1] \"H-0000000000000099\"[1]\n"
		"caguid=0x99\nCa 2 \"H-0000000000000099\" # \"a host\"\n[1](77) \"S-00000000000000aa\"[1]\n";
	struct errors e;

	(void)st;
	fab_free(f);
	begin(from_text(text, sizeof(text) - 1, &e));
	m.journal = &journal;
	json_decref(reply_to("{\"command\": \"node\", \"state\": \"kill\", \"node\": \"it's # 1\"}"));
	json_decref(reply_to("{\"command\": \"stall\", \"node\": \"a host\", \"port\": 1}"));
	assert_int_equal(journal.count, 2);
	assert_string_equal(journal.entry[0].text, "node kill \"it's # 1\"");
	assert_string_equal(journal.entry[1].text, "stall 'a host':1");
}

/* A name neither ends a line nor needs more room than there is. */
static void test_any_name(void **st)
{
	char name[2 * FAB_JOURNAL_TEXT];
	struct fab_request r = { .m = &m, .node = "a\nb\033[2J" };

	(void)st;
	r.in = json_pack("{s:s, s:s, s:s}", "command", "node", "state", "kill", "node", r.node);
	fab_journal_add(&r);
	assert_string_equal(journal.entry[0].text, "node kill a?b?[2J");
	json_decref(r.in);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	r.node = name;
	r.in = json_pack("{s:s, s:s, s:s}", "command", "node", "state", "kill", "node", name);
	fab_journal_add(&r);
	assert_int_equal(strlen(journal.entry[1].text), FAB_JOURNAL_TEXT - 1);
	json_decref(r.in);
}

/*
 * Lines of a script are recorded at their times, with the number that the script got at its start.
 */
static void test_script(void **st)
{
	json_t *v = reply_to("{\"command\": \"script\", \"text\": \"# two\\nevery 1ms for 2ms link down leaf1:1\\n"
			     "at 1ms expect leaf1:1 Down\\n\"}");
	char want[64];

	(void)st;
	assert_non_null(json_object_get(v, "done"));
	json_decref(v);
	fab_script_timer(&m, now + MS);
	assert_int_equal(journal.count, 3);
	snprintf(want, sizeof(want), "script number %" PRIu64, fab_script_number(&m));
	assert_string_equal(journal.entry[0].text, want);
	for (unsigned int i = 1; i < 3; i++) {
		assert_string_equal(journal.entry[i].text, "link down leaf1:1");
		assert_int_equal(journal.entry[i].ns, now + (i - 1) * MS);
		assert_int_equal(journal.entry[i].script, fab_script_number(&m));
		assert_int_equal(journal.entry[i].line, 2);
	}
	json_decref(reply_to("{\"command\": \"script\", \"log\": 0}"));
	json_decref(reply_to("{\"command\": \"script\", \"stop\": true}"));
	assert_int_equal(journal.count, 4);
	assert_string_equal(journal.entry[3].text, "script --stop");
}

/* The journal keeps the last FAB_JOURNAL commands; it is read in parts. */
static void test_log(void **st)
{
	uint64_t first = 0, parts = 0, seen = 0;

	(void)st;
	for (unsigned int i = 0; i < FAB_JOURNAL + 10; i++)
		command(i % 2 ? "link up leaf1:1" : "link down leaf1:1");
	for (json_int_t next = 0; next >= 0; parts++) {
		char ask[64];
		json_t *v, *e;
		size_t i;

		snprintf(ask, sizeof(ask), "{\"command\": \"log\", \"first\": %d}", (int)next);
		v = reply_to(ask);
		json_array_foreach(json_object_get(v, "log"), i, e) {
			const json_int_t number = json_integer_value(json_object_get(e, "number"));

			first = seen++ ? first : (uint64_t)number;
			assert_int_equal(number, first + seen - 1);
			assert_string_equal(json_string_value(json_object_get(e, "text")),
					    number % 2 ? "link up leaf1:1" : "link down leaf1:1");
		}
		assert_int_equal(json_integer_value(json_object_get(v, "now_ns")), now);
		next = json_object_get(v, "next") ? json_integer_value(json_object_get(v, "next")) : -1;
		json_decref(v);
	}
	assert_int_equal(first, 10);
	assert_int_equal(seen, FAB_JOURNAL);
	assert_int_equal(parts, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_words, setup_journal, teardown_journal),
		cmocka_unit_test_setup_teardown(test_chosen, setup_journal, teardown_journal),
		cmocka_unit_test_setup_teardown(test_adaptive, setup_journal, teardown_journal),
		cmocka_unit_test_setup_teardown(test_quoted, setup_journal, teardown_journal),
		cmocka_unit_test_setup_teardown(test_any_name, setup_journal, teardown_journal),
		cmocka_unit_test_setup_teardown(test_script, setup_journal, teardown_journal),
		cmocka_unit_test_setup_teardown(test_log, setup_journal, teardown_journal),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
