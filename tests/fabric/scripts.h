/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Scripts of faults that a fabric plays, by requests of the control socket. */
#ifndef SCRIPTS_H
#define SCRIPTS_H

#include <jansson.h>

#include "hosts.h"

#include "fabric/control/control.h"
#include "fabric/fault/script.h"

#define MS	1000000u

/* Return: the reply to command script with @text, and @more members. */
static inline json_t *script(const char *text, const char *more)
{
	json_t *v = json_pack("{s:s, s:s}", "command", "script", "text", text), *reply;
	char *ask, *answer;

	assert_non_null(v);
	if (more)
		json_object_set_new(v, more, json_true());
	ask = json_dumps(v, 0);
	m.now_ns = now;
	answer = fab_control_answer(&m, NULL, ask, strlen(ask), NULL);
	reply = json_loads(answer, 0, NULL);
	json_decref(v);
	free(ask);
	free(answer);
	return reply;
}

/* Return: the reply to command status. */
static inline json_t *status_json(void)
{
	const char *ask = "{\"command\": \"status\"}";
	char *answer = fab_control_answer(&m, NULL, ask, strlen(ask), NULL);
	json_t *reply = json_loads(answer, 0, NULL);

	free(answer);
	return reply;
}

/* Plays the script, which must end at @ends_ns. */
static inline void plays(const char *text, json_int_t ends_ns)
{
	json_t *v = script(text, NULL);

	if (json_object_get(v, "error"))
		fail_msg("%s", json_string_value(json_object_get(v, "error")));
	assert_int_equal(json_integer_value(json_object_get(v, "ends_ns")), ends_ns);
	json_decref(v);
}

#endif
