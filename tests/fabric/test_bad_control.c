// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests to the control socket with a wrong byte, or cut short: each has a reply. A request that
 * is refused does not change the fabric; any other one changes only the port that it names.
 */
#include "bad_state.h"

#include <jansson.h>

#include "fabric/control/control.h"
#include "fabric/mgmt/counter.h"
#include "fabric/fault/fault.h"
#include "fabric/fault/script.h"
#include "fabric/graph/names.h"

/* Four switches with a host each. */
#define SPEC	"ring:4"

#define ASKS	12u	/* the first ones change nothing */

static const char *const good[] = {
	"{\"command\": \"status\"}",
	"{\"command\": \"topology\", \"first\": 1}",
	"{\"command\": \"topology\", \"file\": true}",
	"{\"command\": \"counters\", \"first\": 0}",
	"{\"command\": \"changes\", \"since\": 0}",
	"{\"command\": \"lft\", \"node\": \"switch1\", \"first\": 3}",
	"{\"command\": \"tables\", \"first\": 0}",
	"{\"command\": \"script\", \"log\": 0}",
	"{\"command\": \"expect\", \"node\": \"switch1\", \"port\": 2, \"state\": \"Init\"}",
	"{\"command\": \"expect\", \"counter\": \"links_up\", \"above\": 7}",
	"{\"command\": \"trace\", \"from\": \"host1\", \"to\": \"9\"}",
	"{\"command\": \"capture\", \"ports\": [\"host1:1\", \"switch2:1\"], \"count\": 4}",
	"{\"command\": \"link\", \"state\": \"down\", \"node\": \"switch1\", \"port\": 2}",
	"{\"command\": \"link\", \"state\": \"flap\", \"node\": \"switch1\", \"port\": 2, "
		"\"down_ns\": 5000000, \"interval_ns\": 9000000, \"count\": 2}",
	"{\"command\": \"link\", \"state\": \"degrade\", \"node\": \"switch1\", \"port\": 2, "
		"\"width\": 1, \"speed\": \"DDR\"}",
	"{\"command\": \"delay\", \"node\": \"switch1\", \"port\": 2, \"time_ns\": 20000}",
	"{\"command\": \"script\", \"text\": \"at 1s link down switch1:any\\n\", \"replace\": true}",
	"{\"command\": \"node\", \"state\": \"kill\", \"node\": \"host2\"}",
	"{\"command\": \"loss\", \"node\": \"switch2\", \"port\": 1, \"rate\": 0.25, \"seed\": 7}",
	"{\"command\": \"corrupt\", \"node\": \"host1\", \"port\": 1, \"rate\": 1}",
	"{\"command\": \"drop\", \"node\": \"switch1\", \"attribute\": \"PortInfo\", \"nth\": 3}",
	"{\"command\": \"preset\", \"node\": \"switch1\", \"port\": 1, "
		"\"counter\": \"SymbolErrorCounter\", \"value\": 90}",
};

static struct fab *f;
static struct fab_mgmt m;
static struct port_state *was;
static unsigned int errors, answers;

static void renew(void)
{
	fab_script_stop(&m);
	fab_free(f);
	free(was);
	f = from_spec(SPEC);
	fab_mgmt_init(&m, f, NULL, NULL);
	was = state_of(f);
}

static bool counts(uint32_t p)
{
	struct ohca_port_counters c;

	fab_counters(&m, p, &c);
	for (unsigned int i = 0; i < FAB_COUNTERS; i++)
		if (fab_counter(&c, i) && strcmp(fab_counter_name(i), "LinkDownedCounter"))
			return true;
	return false;
}

static bool drops(void)
{
	return m.mad_faults;
}

/* Return: whether a change is to happen later. */
static bool waits(void)
{
	for (unsigned int i = 0; i < FAB_FLAPS; i++)
		if (m.flap[i].port != FAB_NO_PORT)
			return true;
	return m.script;
}

/* Return: whether nothing has changed in the fabric. */
static bool unchanged(void)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (counts(p))
			return false;
	return first_change(f, was) == FAB_NO_PORT && !drops() && !waits();
}

/* Checks that only the node that the request names has changed; a script changes it later. */
static void near_named(const struct bad *b)
{
	json_t *in = json_loadb((const char *)b->p, b->len, 0, NULL);
	const char *name = json_string_value(json_object_get(in, "node"));
	const uint32_t node = name ? fab_find_node(f, name) : FAB_NONE;

	assert_int_equal(node == FAB_NONE, m.script != NULL);
	assert_true(m.script ? first_change(f, was) == FAB_NO_PORT : only_near(f, was, node));
	for (uint32_t p = 1; p < f->ports; p++)
		assert_true(!counts(p) || f->port[p].node == node);
	for (unsigned int i = 0; i < m.mad_faults; i++)
		assert_true(m.mad_fault[i].nth && m.mad_fault[i].node == node);
	json_decref(in);
}

/* Return: whether the reply is an error. */
static bool is_error(const char *text)
{
	json_t *v = json_loads(text, 0, NULL), *error = json_object_get(v, "error");
	const bool yes = error;

	assert_true(json_is_object(v));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	if (yes)
		assert_true(strlen(json_string_value(error)) > 20);
	json_decref(v);
	return yes;
}

static void try(struct bad *b)
{
	struct fab_spool_cfg cfg = { .n = 0 };
	char *text = fab_control_answer(&m, NULL, (const char *)b->p, b->len, &cfg);

	assert_non_null(text);
	assert_in_range(cfg.n, 0, 2);
	if (is_error(text)) {
		assert_int_equal(cfg.n, 0);
		errors++;
		if (!unchanged())
			fail_msg("%.*s: %s", (int)b->len, b->p, text);
	} else {
		answers++;
		if (!unchanged()) {
			near_named(b);
			renew();
		}
	}
	free(text);
}

/* Each valid request has an effect, except those that only ask. */
static void intact(void **st)
{
	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(good); i++) {
		struct fab_spool_cfg cfg = { .n = 0 };
		char *text = fab_control_answer(&m, NULL, good[i], strlen(good[i]), &cfg);

		assert_false(is_error(text));
		assert_int_equal(unchanged(), i < ASKS);
		free(text);
		renew();
	}
}

static void truncated(void **st)
{
	(void)st;
	errors = answers = 0;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(good); i++)
		each_truncation(good[i], strlen(good[i]), try, NULL);
	assert_int_equal(answers, 0);
	assert_true(errors > 500);
}

static void flipped(void **st)
{
	(void)st;
	errors = answers = 0;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(good); i++)
		each_flip(good[i], strlen(good[i]), 0, strlen(good[i]), try, NULL);
	/* numbers, blanks and names of nodes may change to valid ones */
	assert_in_range(answers, 20, errors / 10);
}

static int setup(void **st)
{
	(void)st;
	renew();
	return 0;
}

static int teardown(void **st)
{
	(void)st;
	fab_script_stop(&m);
	fab_free(f);
	free(was);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intact),
		cmocka_unit_test(truncated),
		cmocka_unit_test(flipped),
	};

	return cmocka_run_group_tests_name("bad requests", tests, setup, teardown);
}
