// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults during traffic: a script in virtual time; see traffic.h. */
#include "traffic_priv.h"

#include <stdio.h>

#define LOOK_NS	10000u	/* between two checks of the script, at a rate scale of 1 */

bool traffic_faults_begin(struct fab_traffic *t, char *why, size_t len)
{
	static struct fab_script_error error[FAB_SCRIPT_ERRORS];
	uint64_t ends_ns;

	t->fault_ns = UINT64_MAX;
	if (!t->cfg.script)
		return true;
	t->m->now_ns = t->now_ns;
	t->m->look_ns = (uint64_t)LOOK_NS * t->cfg.rate_scale;
	if (fab_script_start(t->m, t->cfg.script->text, t->cfg.script->len, error, &ends_ns)) {
		snprintf(why, len, "line %u: %s", error[0].line, error[0].text);
		return false;
	}
	t->has_faults = true;
	t->fault_ns = t->now_ns;
	return true;
}

void traffic_faults_turn(struct fab_traffic *t)
{
	const uint64_t next = fab_script_timer(t->m, t->now_ns);

	fab_mgmt_timer(t->m, t->now_ns);
	/* links that have trained become Active at once, and tables stay */
	fab_routes_active(t->f);
	t->m->epoch++;
	t->has_faults = next != UINT64_MAX;
	t->fault_ns = next != UINT64_MAX ? t->now_ns + next : UINT64_MAX;
	if (t->m->deadline_ns < t->fault_ns)
		t->fault_ns = t->m->deadline_ns;
}

uint64_t traffic_faults_end(struct fab_traffic *t)
{
	const struct fab_script_entry *e;
	uint64_t failed;

	if (!t->cfg.script)
		return 0;
	for (uint64_t n = 0; n < fab_script_played(t->m); n++) {
		e = fab_script_entry(t->m, n);
		if (e)
			t->cfg.script->played(t->cfg.script->arg, e);
	}
	fab_script_left(t->m, &failed);
	return failed;
}
