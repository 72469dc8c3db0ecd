// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of the control socket and their replies (Documentation/control.rst). A reply covers a
 * part of the fabric, so that the owner thread returns to its MADs within about a millisecond.
 */
#include "control.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "requests.h"
#include "fabric/base/sandbox.h"
#include "fabric/base/spin.h"
#include "fabric/fault/words.h"
#include "fabric/mgmt/counter.h"
#include "fabric/fault/journal.h"
#include "fabric/fault/script.h"
#include "fabric/graph/topo_file.h"
#include "fabric/watch/trace.h"
#include "fabric/graph/names.h"

#define PAGE_LIDS	4096u	/* of lft */
#define PAGE_CHANGES	512u	/* of changes */

/* jansson leaves out members for which it has no memory; an incomplete reply is not sent. */
static bool starved;

static void *json_memory(size_t n)
{
	void *p = malloc(n);

	starved |= !p;
	return p;
}

json_t *fab_guid_json(uint64_t guid)
{
	return json_sprintf("0x%016" PRIx64, guid);
}

json_t *fab_text_json(const char *text, size_t len)
{
	json_t *v = json_stringn(text, len);
	char *p;

	if (v)
		return v;
	p = json_memory(len + 1);
	for (size_t i = 0; p && i < len; i++)
		p[i] = (uint8_t)text[i] < 0x80 ? text[i] : '?';
	v = p ? json_stringn(p, len) : NULL;
	free(p);
	return v;
}

json_t *fab_desc_json(const struct fab_desc *d)
{
	return fab_text_json(d->text, strnlen(d->text, FAB_DESC_LEN));
}

/* ---- status -------------------------------------------------------------------- */

static json_t *counts_json(uint64_t get, uint64_t set)
{
	return json_pack("{s:I, s:I}", "Get", (json_int_t)get, "Set", (json_int_t)set);
}

static json_t *smps_json(const struct fab_mgmt_stats *st)
{
	json_t *v = json_object();
	uint64_t get = 0, set = 0;

	for (unsigned int i = 0; i < 256; i++) {
		const char *name = fab_attribute_short(IB_CLASS_SUBN_LID, i < 0x80 ? i : 0xff00 | i);

		if (!st->get[i] && !st->set[i])
			continue;
		if (name)
			json_object_set_new(v, name, counts_json(st->get[i], st->set[i]));
		get += name ? 0 : st->get[i];
		set += name ? 0 : st->set[i];
	}
	if (get || set)
		json_object_set_new(v, "others", counts_json(get, set));
	return v;
}

/* The faults for requests, and their counts. */
static json_t *mad_faults_json(const struct fab_mgmt *m)
{
	json_t *list = m->mad_faults ? json_array() : NULL;

	for (unsigned int i = 0; i < m->mad_faults; i++) {
		const struct fab_mad_fault *x = &m->mad_fault[i];
		char name[FAB_ATTRIBUTE_LEN];

		fab_attribute_name(&x->attr, name);
		json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:I}",
						      "guid", fab_guid_json(m->f->node[x->node].guid),
						      "attribute", name, "nth", (json_int_t)x->nth,
						      "delay_ns", (json_int_t)x->delay_ns,
						      "status", x->status,
						      "seen", (json_int_t)x->seen,
						      "dropped", (json_int_t)x->dropped,
						      "delayed", (json_int_t)x->delayed,
						      "refused", (json_int_t)x->refused));
	}
	return list;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* The counts of data packets. */
static json_t *data_json(const struct fab_data *d)
{
	const struct fab_data_counts *n = fab_data_counts(d);
	json_t *drops = json_object();

	for (unsigned int i = FAB_DROP_NONE + 1; i < FAB_DROPS; i++)
		if (n->drop[i])
			json_object_set_new(drops, fab_drop_name(i),
					    json_integer((json_int_t)n->drop[i]));
	return json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "delivered", (json_int_t)n->delivered, "dropped", drops,
			 "hops", (json_int_t)n->hops, "forks", (json_int_t)n->forks,
			 "copies", (json_int_t)n->copies, "mads_in", (json_int_t)n->mads_in,
			 "mads_out", (json_int_t)n->mads_out,
			 "buffer_bytes", (json_int_t)n->buffer_bytes,
			 "link_bytes", (json_int_t)fab_data_link_bytes(d),
			 "capture_bytes", (json_int_t)n->capture_bytes,
			 "stood_ns", (json_int_t)n->stood_ns,
			 "rate_scale", (json_int_t)fab_data_rate_scale(d),
			 "late_ns", (json_int_t)n->late_ns,
			 "fecns", (json_int_t)n->fecns);
}

/* The state of the daemon's waiting. */
static json_t *spin_json(const struct fab_data *d)
{
	const struct fab_spin *s = d ? fab_data_spin(d) : NULL;

	return s ? json_pack("{s:I, s:b, s:b, s:I, s:I}", "window_ns", (json_int_t)s->window_ns,
			     "auto", s->automatic, "busy", s->busy,
			     "runnable", (json_int_t)s->runnable,
			     "processors", (json_int_t)s->processors) : NULL;
}

/* The machines whose HCAs the daemon hosts. */
static json_t *fronts_json(const struct fab_data *d)
{
	struct fab_front_stats st;

	if (!d || !fab_data_fronts(d, &st))
		return NULL;
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "machines", (json_int_t)st.machines,
			 "memory_bytes", (json_int_t)st.memory_bytes,
			 "memory_refused", (json_int_t)st.memory_refused,
			 "object_bytes", (json_int_t)st.object_bytes,
			 "objects_refused", (json_int_t)st.objects_refused);
}

/* The rights that the daemon has given up. */
static json_t *sandbox_json(void)
{
	const struct fab_sandbox *s = fab_sandbox();

	return json_pack("{s:i, s:b}", "landlock_abi", s->landlock_abi, "seccomp", s->seccomp);
}

static json_t *status(struct fab_request *r)
{
	const struct fab *f = r->m->f;
	const struct fab_mgmt_stats *st = &r->m->stats;
	struct fab_link_counts links;
	uint32_t hosts = 0;
	json_t *sms = json_array();
	uint64_t left, failed, bytes = fab_bytes(f);

	if (r->data)
		bytes += fab_data_bytes(r->data);
	for (uint32_t i = 0; i < f->nodes; i++)
		hosts += f->node[i].type == IB_NODE_CHANNEL_ADAPTER;
	for (uint32_t i = 1; i < f->ports; i++) {
		const struct fab_port *a = &f->port[i];

		if (a->guid && (a->pi.cap_mask & IB_CAP_SM))
			json_array_append_new(sms, json_pack("{s:o, s:i}", "guid",
							     fab_guid_json(a->guid), "lid",
							     a->pi.lid));
	}
	fab_count_links(f, &links);
	left = fab_script_left(r->m, &failed);
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, "
			 "s:I, s:I, s:I, s:o*, s:o*, s:o*, s:o*, s:o*, s:o, s:f}",
			 "switches", f->switches, "channel_adapters", hosts,
			 "routers", f->nodes - f->switches - hosts, "cables", links.cables,
			 "links_up", links.up, "links_active", links.active, "subnet_managers", sms,
			 "smps", smps_json(st), "other_mads", (json_int_t)st->other,
			 "hops", (json_int_t)st->hops, "lost_mads", (json_int_t)st->lost,
			 "traps", (json_int_t)st->traps,
			 "script_left", (json_int_t)left, "script_failed", (json_int_t)failed,
			 "script_late_ns", (json_int_t)fab_script_late(r->m),
			 "flaps_skipped", (json_int_t)st->flaps_skipped,
			 "memory_bytes", (json_int_t)bytes,
			 "mad_faults", mad_faults_json(r->m),
			 "data", r->data ? data_json(r->data) : NULL, "spin", spin_json(r->data),
			 "adaptive", fab_adaptive_json(f, r->data),
			 "hosted", fronts_json(r->data), "sandbox", sandbox_json(),
			 "cpu_seconds", cpu_seconds());
}

/* ---- nodes --------------------------------------------------------------------- */

const char *fab_type_name(const struct fab_node *n)
{
	return n->type == IB_NODE_SWITCH_DEVICE ? "switch" :
	       n->type == IB_NODE_ROUTER_DEVICE ? "router" : "channel adapter";
}

const char *fab_state_name(uint8_t state)
{
	static const char *const names[] = { "?", "Down", "Init", "Armed", "Active" };

	return names[state <= IB_PS_ACTIVE ? state : 0];
}

static json_t *port_topology(const struct fab_mgmt *m, uint32_t p)
{
	const struct fab *f = m->f;
	const struct fab_port *a = &f->port[p], *b = &f->port[a->peer];
	/*
	 * in the graph a machine's port is always Down: the switch's end has the state of its link
	 */
	const uint32_t at = fab_machine_at(f, p);
	const struct ib_port_info *pi = at != FAB_NO_PORT ? &f->port[at].pi : &a->pi;
	json_t *v = json_pack("{s:i, s:s}", "port", fab_port_num(f, p), "state",
			      fab_state_name(pi->state));
	char rate[16];

	if (a->guid) {
		json_object_set_new(v, "guid", fab_guid_json(a->guid));
		json_object_set_new(v, "lid", json_integer(fab_end_lid(f, p)));
		json_object_set_new(v, "lmc", json_integer(fab_end_lmc(f, p)));
	}
	if (a->peer == FAB_NO_PORT)
		return v;
	if (pi->state != IB_PS_DOWN)
		json_object_set_new(v, "rate",
				    json_string(topo_rate_name(topo_rate_of(pi), rate)));
	json_object_set_new(v, "peer", fab_guid_json(f->node[b->node].guid));
	json_object_set_new(v, "peer_port", json_integer(fab_port_num(f, a->peer)));
	return v;
}

/* JSON's integers end at INT64_MAX; a larger counter keeps that value. */
static json_t *json_count(uint64_t v)
{
	return json_integer(v > INT64_MAX ? INT64_MAX : (json_int_t)v);
}

static json_t *port_counters(const struct fab_mgmt *m, uint32_t p)
{
	json_t *v = json_pack("{s:i}", "port", fab_port_num(m->f, p));
	struct ohca_port_counters c;

	fab_counters(m, p, &c);
	for (unsigned int i = 0; i < FAB_COUNTERS; i++)
		if (fab_counter(&c, i))
			json_object_set_new(v, fab_counter_name(i),
					    json_count(fab_counter(&c, i)));
	return v;
}

static json_t *node_json(const struct fab_mgmt *m, uint32_t i,
			 json_t *(*port)(const struct fab_mgmt *m, uint32_t p))
{
	const struct fab_node *n = &m->f->node[i];
	json_t *ports = json_array();

	for (unsigned int k = fab_first_num(n); k <= n->nports; k++)
		json_array_append_new(ports, port(m, fab_port_of(n, k)));
	return json_pack("{s:o, s:o, s:s, s:o}", "guid", fab_guid_json(n->guid), "description",
			 fab_desc_json(&m->f->desc[i]), "type", fab_type_name(n), "ports", ports);
}

bool fab_request_page(struct fab_request *r, uint32_t *end)
{
	*end = r->m->f->nodes;
	if (!r->node)
		return true;
	r->first = fab_request_node(r);
	*end = r->first + 1;
	return r->first != FAB_NONE;
}

/* Nodes, each with the result of @port for its ports. */
static json_t *nodes(struct fab_request *r,
		     json_t *(*port)(const struct fab_mgmt *m, uint32_t p))
{
	const struct fab *f = r->m->f;
	uint32_t i, ports = 0, end;
	json_t *list, *v;

	if (!fab_request_page(r, &end))
		return NULL;
	list = json_array();
	for (i = r->first; i < end && ports < FAB_PAGE_PORTS; i++) {
		ports += f->node[i].nports;
		json_array_append_new(list, node_json(r->m, i, port));
	}
	v = json_pack("{s:o}", "nodes", list);
	if (i < end)
		json_object_set_new(v, "next", json_integer(i));
	return v;
}

/* Nodes as a part of a topology file. */
static json_t *topology_text(struct fab_request *r)
{
	const struct fab *f = r->m->f;
	uint32_t i, ports = 0, end;
	char *text = NULL;
	bool ok = true;
	size_t len = 0;
	FILE *out;
	json_t *v;

	if (!fab_request_page(r, &end))
		return NULL;
	out = open_memstream(&text, &len);
	if (!out)
		return NULL;
	for (i = r->first; ok && i < end && ports < FAB_PAGE_PORTS; i++) {
		ports += f->node[i].nports;
		ok = fab_topology_write_node(f, i, out);
	}
	/* without memory only the prints fail: ferror() and fclose() return 0 */
	if (fclose(out) || !ok || !text) {
		free(text);
		return NULL;
	}
	v = json_pack("{s:o}", "text", fab_text_json(text, len));
	free(text);
	if (i < end)
		json_object_set_new(v, "next", json_integer(i));
	return v;
}

static json_t *topology(struct fab_request *r)
{
	return json_is_true(json_object_get(r->in, "file")) ? topology_text(r) :
							      nodes(r, port_topology);
}

static json_t *port_counts(struct fab_request *r)
{
	return nodes(r, port_counters);
}

/* ---- changes ------------------------------------------------------------------- */

static void append_end(json_t *list, const struct fab_mgmt *m, uint32_t p)
{
	json_t *v = port_topology(m, p);

	json_object_set_new(v, "node", fab_guid_json(m->f->node[m->f->port[p].node].guid));
	json_array_append_new(list, v);
}

/*
 * The current states of both ends of the cables that may have changed: a client that has read the
 * topology at @since knows all states with these. Repetitions do no harm.
 */
static json_t *changes(struct fab_request *r)
{
	const struct fab_log *log = &r->m->log;
	const json_t *since = json_object_get(r->in, "since");
	uint64_t at = since ? (uint64_t)json_integer_value(since) : log->count;
	const bool all = at > log->count || log->count - at > FAB_LOG;
	uint32_t last = FAB_NO_PORT;
	json_t *list = json_array();

	if (all)
		at = log->count;
	for (unsigned int n = 0; at < log->count && n < PAGE_CHANGES; n++, at++) {
		const uint32_t p = log->port[at % FAB_LOG], peer = r->m->f->port[p].peer;

		/* changes of the two ends of a link follow each other */
		if (p == last || (peer == last && last != FAB_NO_PORT))
			continue;
		last = p;
		append_end(list, r->m, p);
		if (peer != FAB_NO_PORT)
			append_end(list, r->m, peer);
	}
	return json_pack("{s:I, s:b, s:b, s:o}", "since", (json_int_t)at, "all", all, "more",
			 at < log->count, "ports", list);
}

/* ---- forwarding tables --------------------------------------------------------- */

static json_t *lft(struct fab_request *r)
{
	const struct fab *f = r->m->f;
	const uint32_t i = fab_request_node(r);
	json_t *ports, *v;
	const struct fab_switch *sw;
	uint32_t lid = r->first, end;

	if (i == FAB_NONE)
		return NULL;
	if (f->node[i].sw == FAB_NONE) {
		snprintf(r->why, sizeof(r->why), "'%.64s' is not a switch: give \"node\", a switch as "
			 "topology shows it", f->desc[i].text);
		return NULL;
	}
	ports = json_array();
	sw = &f->sw[f->node[i].sw];
	end = sw->lft_blocks * IB_LFT_PER_BLOCK;
	if (end > sw->si.linear_top + 1u)
		end = sw->si.linear_top + 1u;
	for (; lid < end && lid - r->first < PAGE_LIDS; lid++)
		json_array_append_new(ports, json_integer(sw->lft[lid]));
	v = json_pack("{s:o, s:I, s:o}", "guid", fab_guid_json(f->node[i].guid), "first",
		      (json_int_t)r->first, "lft", ports);
	if (lid < end)
		json_object_set_new(v, "next", json_integer(lid));
	return v;
}

/* ---- requests ------------------------------------------------------------------ */

static const struct {
	const char *name;
	json_t *(*answer)(struct fab_request *r);
} commands[] = {
	{ "status", status },
	{ "topology", topology },
	{ "counters", port_counts },
	{ "changes", changes },
	{ "lft", lft },
	{ "tables", fab_request_tables },
	{ "capture", fab_request_capture },
	{ "trace", fab_request_trace },
	{ "script", fab_request_script },
	{ "adaptive", fab_request_adaptive },
	{ "log", fab_request_log },
	{ "run", fab_request_run },
};

/* Check members of the request @v. Return: its command, or NULL, r->why has the error. */
static const char *parse_request(struct fab_request *r, json_t *v)
{
	const char *command = json_string_value(json_object_get(v, "command")), *key;
	json_t *member;

	if (command && (fab_is_fault_command(command) || !strcmp(command, "script"))) {
		r->node = json_string_value(json_object_get(v, "node"));
		return command;
	}
	json_object_foreach(v, key, member) {
		if (!strcmp(key, "first") && json_is_integer(member) &&
		    json_integer_value(member) >= 0 && json_integer_value(member) <= UINT32_MAX) {
			r->first = (uint32_t)json_integer_value(member);
		} else if (!strcmp(key, "node") && json_is_string(member)) {
			r->node = json_string_value(member);
		} else if (strcmp(key, "command") &&
			   !(!strcmp(key, "since") && json_is_integer(member)) &&
			   !(!strcmp(key, "file") && json_is_boolean(member)) &&
			   !fab_is_capture_member(key) && !fab_is_trace_member(key) &&
			   !fab_is_adaptive_member(key) &&
			   !fab_is_run_member(key)) {
			snprintf(r->why, sizeof(r->why),
				 "a request has \"command\", and some have \"first\", a "
				 "number from 0, and \"node\", a text: leave out all else");
			return NULL;
		}
	}
	if (!command)
		snprintf(r->why, sizeof(r->why), "send a JSON object with a command, such as "
			 "{\"command\": \"status\"}");
	return command;
}

static json_t *run_command(struct fab_request *r, const char *command)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(commands); i++) {
		json_t *reply;

		if (strcmp(command, commands[i].name))
			continue;
		reply = commands[i].answer(r);
		/* a request of several parts is added once */
		if (json_object_get(reply, "done") && !r->first)
			fab_journal_add(r);
		return reply;
	}
	if (fab_is_fault_command(command))
		return fab_request_fault(r, command);
	snprintf(r->why, sizeof(r->why), "there is no such command: use status, topology, "
		 "counters, changes, lft, tables, trace, capture, script, adaptive, log, run, "
		 FAB_FAULT_VERBS);
	return NULL;
}

char *fab_control_answer(struct fab_mgmt *m, const struct fab_data *d, const char *text,
			 size_t len, struct fab_spool_cfg *capture)
{
	struct fab_request r = { .m = m, .data = d, .capture = capture };
	const char *command;
	char *reply = NULL;
	json_t *in, *out = NULL;
	size_t n;

	starved = false;
	json_set_alloc_funcs(json_memory, free);
	in = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	r.in = in;
	command = parse_request(&r, in);
	if (command)
		out = run_command(&r, command);
	json_decref(in);
	if (!out && r.why[0])
		out = json_pack("{s:o, s:i}", "error", fab_text_json(r.why, strlen(r.why)),
				"version", FAB_CONTROL_VERSION);
	n = out ? json_dumpb(out, NULL, 0, 0) : 0;
	if (n)
		reply = malloc(n + 2);
	if (reply && json_dumpb(out, reply, n, 0) == n && !starved) {
		memcpy(reply + n, "\n", 2);
	} else {
		free(reply);
		reply = NULL;
	}
	json_decref(out);
	return reply;
}
