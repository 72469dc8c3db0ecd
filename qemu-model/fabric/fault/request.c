// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests that change the fabric (fault.h), and their replies. */
#include "request.h"

#include <stdio.h>
#include <string.h>

#include "fabric/mgmt/counter.h"
#include "expect.h"
#include "fault.h"
#include "journal.h"
#include "fabric/graph/topology.h"
#include "fabric/graph/names.h"

#define LINK_STATES "give \"state\": \"up\", \"down\", \"flap\", \"degrade\" or \"restore\""
#define FLAP_HINT "give \"down_ns\" from 1000000, \"interval_ns\" that is longer by as much, " \
	"and \"count\" from 1 to 1000000, or leave them out"
#define LATE_HINT "give \"time_ns\", at most a day; 0: no delay"
#define MANY_ATTRIBUTES "16 attributes are dropped, late or refused already: let one of them be 0"
#define SECOND	1000000000ll
#define DAY	(86400 * SECOND)
#define LEAST_BER	1e-18		/* of the bits of a packet */
#define MS	1000000ll		/* shortest time between two changes of a cable */

static json_t *deny(struct fab_request *r, const char *why)
{
	snprintf(r->why, sizeof(r->why), "%s", why);
	return NULL;
}

static json_t *done(void)
{
	return json_pack("{s:b}", "done", 1);
}

/*
 * The integer member @key of the request, from 0 to @most; @missing: there is none; -1: not valid.
 */
static json_int_t member_int(const struct fab_request *r, const char *key, json_int_t most,
			     json_int_t missing)
{
	const json_t *v = json_object_get(r->in, key);
	const json_int_t n = json_integer_value(v);

	if (!v)
		return missing;
	return json_is_integer(v) && n >= 0 && n <= most ? n : -1;
}

/* A random port of @node that has a cable, or FAB_NO_PORT. */
static uint32_t any_port(const struct fab_request *r, uint32_t node)
{
	const struct fab_node *n = &r->m->f->node[node];
	uint32_t p = FAB_NO_PORT, cables = 0, which;

	for (unsigned int i = 1; i <= n->nports; i++)
		cables += r->m->f->port[fab_port_of(n, i)].peer != FAB_NO_PORT;
	if (!cables)
		return FAB_NO_PORT;
	which = r->dry ? 0 : fab_random(&r->m->rng) % cables;
	for (unsigned int i = 1; i <= n->nports; i++) {
		p = fab_port_of(n, i);
		if (r->m->f->port[p].peer != FAB_NO_PORT && !which--)
			break;
	}
	return p;
}

void fab_request_unknown(struct fab_request *r, const char *what, const char *name,
			 const char *todo)
{
	const int n = snprintf(r->why, sizeof(r->why), "there is no %s '%.80s': %s; ", what, name,
			       todo);

	fab_names_near(r->m->f, name, r->why + n, sizeof(r->why) - (size_t)n);
}

uint32_t fab_request_node(struct fab_request *r)
{
	if (r->found)
		return r->at;
	r->at = r->node ? fab_find_node(r->m->f, r->node) : FAB_NONE;
	r->found = r->at != FAB_NONE;
	if (!r->found)
		fab_request_unknown(r, "node", r->node ? r->node : "", "give \"node\", its "
				    "NodeDescription as topology shows it, or a GUID");
	return r->at;
}

/* The port that the request names. Return: FAB_NO_PORT: r->why lists the ports. */
static uint32_t named_port(struct fab_request *r)
{
	const struct fab *f = r->m->f;
	const json_int_t num = member_int(r, "port", FAB_MAX_NODE_PORTS, -1);
	const char *any = json_string_value(json_object_get(r->in, "port"));
	const uint32_t i = fab_request_node(r);
	uint32_t p = FAB_NO_PORT;

	if (i == FAB_NONE)
		return FAB_NO_PORT;
	if (any && !strcmp(any, "any"))
		p = any_port(r, i);
	else if (num >= (json_int_t)fab_first_num(&f->node[i]) && num <= f->node[i].nports)
		p = fab_port_of(&f->node[i], (unsigned int)num);
	if (p == FAB_NO_PORT)
		snprintf(r->why, sizeof(r->why), "give \"port\", a number from %u to %u, or "
			 "\"any\" which has a cable: '%.64s' has no other",
			 fab_first_num(&f->node[i]), f->node[i].nports, f->desc[i].text);
	else
		r->num = fab_port_num(f, p);
	return p;
}

/* The same, with a cable. */
static uint32_t cabled_port(struct fab_request *r)
{
	const uint32_t p = named_port(r);

	if (p == FAB_NO_PORT || r->m->f->port[p].peer != FAB_NO_PORT)
		return p;
	snprintf(r->why, sizeof(r->why), "port %u of '%.64s' has no cable: give a \"port\" which "
		 "has a cable", fab_port_num(r->m->f, p),
		 r->m->f->desc[r->m->f->port[p].node].text);
	return FAB_NO_PORT;
}

/* Whether the member "state" is @text. */
static bool state_is(const struct fab_request *r, const char *text)
{
	const char *v = json_string_value(json_object_get(r->in, "state"));

	return v && !strcmp(v, text);
}

/* Whether @word is one of @words. */
static bool is_one_of(const char *words, const char *word)
{
	const size_t len = strlen(word);

	while (*words) {
		const size_t n = strcspn(words, " ");

		if (n == len && !memcmp(words, word, n))
			return true;
		words += n + (words[n] == ' ');
	}
	return false;
}

bool fab_request_only(struct fab_request *r, const char *keys)
{
	const char *key;
	json_t *member;

	json_object_foreach(r->in, key, member) {
		if (strcmp(key, "command") && !is_one_of(keys, key)) {
			snprintf(r->why, sizeof(r->why), "leave out \"%.80s\": give %s", key,
				 keys);
			return false;
		}
	}
	return true;
}

static json_t *flap(struct fab_request *r, uint32_t p)
{
	const json_int_t down = member_int(r, "down_ns", DAY, SECOND);
	const json_int_t interval = member_int(r, "interval_ns", DAY, 2 * down);
	const json_int_t count = member_int(r, "count", 1000000, 1);

	if (!fab_request_only(r, "node port state down_ns interval_ns count"))
		return NULL;
	if (down < MS || interval < down + MS || count < 1)
		return deny(r, FLAP_HINT);
	if (r->dry)
		return done();
	if (!fab_fault_flap(r->m, p, (uint64_t)down, (uint64_t)interval, (uint32_t)count,
			    r->m->now_ns))
		return deny(r, "16 other cables flap already: let one be up or down");
	return done();
}

/* Whether both ends of the cable at @p can train with @at_most. */
static bool have_common(const struct fab *f, uint32_t p, struct fab_limit at_most)
{
	const struct ib_port_info *a = &f->port[p].pi, *b = &f->port[f->port[p].peer].pi;

	return a->width_supported & b->width_supported & at_most.width &&
	       ((a->speed_supported & b->speed_supported & at_most.speed) ||
		(a->speed_ext_supported & b->speed_ext_supported & at_most.speed_ext));
}

static json_t *degrade(struct fab_request *r, uint32_t p)
{
	const json_t *speed = json_object_get(r->in, "speed");
	const json_int_t width = member_int(r, "width", 12, 0);
	struct fab_limit at_most;

	if (!fab_request_only(r, "node port state width speed"))
		return NULL;
	if (width < 0 || (!width && !speed) || (speed && !json_is_string(speed)) ||
	    !fab_rate_limit((unsigned int)width, json_string_value(speed), &at_most))
		return deny(r, "give \"width\", 1, 2, 4, 8 or 12, or \"speed\", SDR, DDR, QDR, "
			    "FDR10, FDR, EDR, HDR, NDR or XDR, or both");
	if (!have_common(r->m->f, p, at_most))
		return deny(r, "its ports have no width and speed so low: give a higher one");
	if (r->dry)
		return done();
	if (!fab_fault_degrade(r->m, p, at_most, r->m->now_ns))
		return deny(r, "out of memory");
	return done();
}

static json_t *link_fault(struct fab_request *r)
{
	const struct fab_limit all = { 0xff, 0xff, 0xff };
	const uint32_t p = cabled_port(r);
	bool ok;

	if (p == FAB_NO_PORT)
		return NULL;
	if (state_is(r, "flap"))
		return flap(r, p);
	if (state_is(r, "degrade"))
		return degrade(r, p);
	if (!state_is(r, "up") && !state_is(r, "down") && !state_is(r, "restore"))
		return deny(r, LINK_STATES);
	if (!fab_request_only(r, "node port state"))
		return NULL;
	if (r->dry)
		return done();
	ok = state_is(r, "restore") ? fab_fault_degrade(r->m, p, all, r->m->now_ns) :
				      fab_fault_link(r->m, p, state_is(r, "up"), r->m->now_ns);
	return ok ? done() : deny(r, "out of memory");
}

static json_t *swap(struct fab_request *r)
{
	const char *with = json_string_value(json_object_get(r->in, "with"));
	const struct fab *f = r->m->f;
	const uint32_t p = cabled_port(r);
	uint32_t q;

	if (p == FAB_NO_PORT || !fab_request_only(r, "node port with"))
		return NULL;
	q = with ? fab_find_port(f, with) : FAB_NO_PORT;
	if (q == FAB_NO_PORT || f->port[q].peer == FAB_NO_PORT || q == p || f->port[q].peer == p)
		return deny(r, "give \"with\", NODE:PORT, which has another cable");
	if (fab_outside(f, p) || fab_outside(f, q))
		return deny(r, "a machine, or another daemon, is at one of the cables: give ports whose cables "
			    "have none");
	if (r->dry)
		return done();
	return fab_fault_swap(r->m, p, q, r->m->now_ns) ? done() : deny(r, "out of memory");
}

/* Find the attribute and the node that the request names. Return: false: r->why has the error. */
static bool named_attribute(struct fab_request *r, struct fab_attribute *a, uint32_t *node)
{
	const char *text = json_string_value(json_object_get(r->in, "attribute"));

	*node = fab_request_node(r);
	if (*node == FAB_NONE)
		return false;
	if (text && fab_attribute_find(text, a))
		return true;
	deny(r, "give \"attribute\": a name as PathRecord, with its class if several have it as "
	     "Perf:ClassPortInfo, a number as SubnAdm:0x35, or all of Subn, SubnAdm, Perf, DevMgt, ComMgt or CC");
	return false;
}

/* Delay requests of a node. */
static json_t *late(struct fab_request *r, json_int_t ns)
{
	struct fab_attribute a;
	uint32_t node;

	if (!fab_request_only(r, "node attribute time_ns") || !named_attribute(r, &a, &node))
		return NULL;
	if (ns < 0)
		return deny(r, LATE_HINT);
	if (r->dry)
		return done();
	return fab_fault_late(r->m, node, &a, (uint64_t)ns) ? done() : deny(r, MANY_ATTRIBUTES);
}

static json_t *delay(struct fab_request *r)
{
	const json_int_t ns = member_int(r, "time_ns", DAY, -1);
	uint32_t p;

	if (json_object_get(r->in, "attribute"))
		return late(r, ns);
	p = cabled_port(r);
	if (p == FAB_NO_PORT)
		return NULL;
	if (!fab_request_only(r, "node port time_ns"))
		return NULL;
	if (ns < 0)
		return deny(r, LATE_HINT);
	if (r->dry)
		return done();
	return fab_fault_delay(r->m, p, (uint64_t)ns) ? done() : deny(r, "out of memory");
}

/* The named port, which receives packets in the graph, or a host's by a link. */
static uint32_t taking_port(struct fab_request *r)
{
	const uint32_t p = cabled_port(r);
	const struct fab *f = r->m->f;

	if (p == FAB_NO_PORT || !fab_outside(f, p) || f->node[f->port[p].node].sw == FAB_NONE)
		return p;
	deny(r, "a machine, or another daemon, is at this port: give the \"port\" of a host");
	return FAB_NO_PORT;
}

static json_t *stall(struct fab_request *r)
{
	const json_int_t ns = member_int(r, "time_ns", DAY, 0);
	const uint32_t p = taking_port(r);

	if (p == FAB_NO_PORT)
		return NULL;
	if (!fab_request_only(r, "node port time_ns"))
		return NULL;
	if (ns < 0 || (!ns && json_object_get(r->in, "time_ns")))
		return deny(r, "give \"time_ns\", from 1 ns to a day, or leave it out: until resume");
	if (r->dry)
		return done();
	return fab_fault_port_stall(r->m, p, ns ? r->m->now_ns + (uint64_t)ns : UINT64_MAX) ?
	       done() : deny(r, "out of memory");
}

static json_t *resume(struct fab_request *r)
{
	const uint32_t p = taking_port(r);

	if (p == FAB_NO_PORT || !fab_request_only(r, "node port"))
		return NULL;
	if (!r->dry)
		fab_fault_port_resume(r->m, p);
	return done();
}

static bool is_switch_port(const struct fab *f, uint32_t p)
{
	return f->node[f->port[p].node].sw != FAB_NONE && !fab_outside(f, p);
}

static json_t *credits(struct fab_request *r)
{
	const json_int_t vl = member_int(r, "vl", FAB_WIRE_LANES - 1, -1);
	const json_int_t blocks = member_int(r, "blocks", FAB_WIRE_BLOCKS, -1);
	const struct fab *f = r->m->f;
	const uint32_t p = cabled_port(r);

	if (p == FAB_NO_PORT)
		return NULL;
	if (!fab_request_only(r, "node port vl blocks"))
		return NULL;
	if (vl < 0 || blocks < 0)
		return deny(r, "give \"vl\", from 0 to 14, and \"blocks\", from 0 to 2048, of 64 bytes");
	if (!is_switch_port(f, p) || !is_switch_port(f, f->port[p].peer))
		return deny(r, "give a \"port\" of a switch whose cable leads to another one: hosts have "
			    "credits of their own");
	if (r->dry)
		return done();
	if (blocks && f->port[p].pi.state == IB_PS_DOWN)
		return deny(r, "the link is down: wait until it has trained");
	return fab_fault_credits(r->m, p, (unsigned int)vl, (uint16_t)blocks) ? done() :
										deny(r, "out of memory");
}

static json_t *node_fault(struct fab_request *r)
{
	uint32_t i;

	if (!fab_request_only(r, "node state"))
		return NULL;
	if (!state_is(r, "kill") && !state_is(r, "revive"))
		return deny(r, "give \"state\", which is \"kill\" or \"revive\"");
	i = fab_request_node(r);
	if (i == FAB_NONE)
		return NULL;
	if (r->dry)
		return done();
	if (!fab_fault_node(r->m, i, state_is(r, "revive"), r->m->now_ns))
		return deny(r, "out of memory");
	return done();
}

/* The default seed of the cable at port @p. */
static uint64_t wire_seed(const struct fab_mgmt *m, uint32_t p)
{
	return fab_random_state(fab_random_state(m->seed) + p);
}

/* Probability of 2^32; at least 1 if @rate is not 0. */
static uint32_t chance(double rate)
{
	const uint32_t of = rate < 1 ? (uint32_t)(rate * 4294967296.0) : UINT32_MAX;

	return of || rate <= 0 ? of : 1;
}

/*
 * Probability that a burst begins, behind a packet that is not lost, if @rate of all are lost and a
 * burst is @burst packets on the average (E. N. Gilbert, "Capacity of a burst-noise channel",
 * 1960); @burst 0: losses are independent.
 */
static double begin_rate(double rate, json_int_t burst)
{
	return burst && rate < 1 ? rate / ((double)burst * (1 - rate)) : rate;
}

/*
 * Set a fault of a cable. @corrupt: damage packets, do not lose them. The other fault of the two
 * stays.
 */
static json_t *wire_fault(struct fab_request *r, bool corrupt)
{
	const json_t *v = json_object_get(r->in, "rate");
	const double rate = json_number_value(v);
	const json_int_t seed = member_int(r, "seed", INT64_MAX, 0);
	const json_int_t burst = member_int(r, "burst", 1000000, 0);
	const struct fab_extra *x;
	uint32_t was[2] = { 0, 0 }, stays = 0, p;

	if (!fab_request_only(r, corrupt ? "node port rate seed" : "node port rate seed burst"))
		return NULL;
	if (!json_is_number(v) || !(rate >= 0 && rate <= 1) || seed < 0)
		return deny(r, "give \"rate\", a number from 0 to 1, and perhaps \"seed\", a "
			    "number from 0");
	if (burst < 0)
		return deny(r, "give \"burst\", a number from 1 to 1000000, or leave it out");
	p = cabled_port(r);
	if (p == FAB_NO_PORT)
		return NULL;
	if (r->dry)
		return done();
	x = fab_extra_of(r->m->f, p);
	if (x && x->fault) {
		was[0] = x->fault->loss;
		was[1] = x->fault->corrupt;
		stays = x->fault->stays;
	}
	was[corrupt] = chance(begin_rate(rate, burst));
	if (!corrupt)
		stays = burst ? chance(1 - 1.0 / (double)burst) : was[0];
	if (!fab_fault_wire(r->m, p, was[0], was[1], json_object_get(r->in, "seed") ?
			    (uint64_t)seed : wire_seed(r->m, p)))
		return deny(r, "out of memory");
	fab_fault_burst(r->m, p, stays);
	return done();
}

static json_t *errors(struct fab_request *r)
{
	const json_t *v = json_object_get(r->in, "rate");
	const double rate = json_number_value(v);
	const json_int_t seed = member_int(r, "seed", INT64_MAX, 0);
	uint32_t p;

	if (!fab_request_only(r, "node port rate seed"))
		return NULL;
	if (!json_is_number(v) || !(rate == 0 || (rate >= LEAST_BER && rate <= 1)) || seed < 0)
		return deny(r, "give \"rate\", of bits, a number from 1e-18 to 1, or 0, and perhaps "
			    "\"seed\", a number from 0");
	p = cabled_port(r);
	if (p == FAB_NO_PORT)
		return NULL;
	if (r->dry)
		return done();
	if (!fab_fault_errors(r->m, p, rate > 0 ? (uint64_t)(1 / rate + 0.5) : 0,
			      json_object_get(r->in, "seed") ? (uint64_t)seed : wire_seed(r->m, p)))
		return deny(r, "out of memory");
	return done();
}

static json_t *loss(struct fab_request *r)
{
	return wire_fault(r, false);
}

static json_t *corrupt(struct fab_request *r)
{
	return wire_fault(r, true);
}

static json_t *drop_fault(struct fab_request *r)
{
	const json_int_t nth = member_int(r, "nth", UINT32_MAX, -1);
	struct fab_attribute a;
	uint32_t node;

	if (!fab_request_only(r, "node attribute nth") || !named_attribute(r, &a, &node))
		return NULL;
	if (nth < 0)
		return deny(r, "give \"nth\": each nth request with the attribute is lost, 0: none");
	if (r->dry)
		return done();
	return fab_fault_drop(r->m, node, &a, (uint32_t)nth) ? done() : deny(r, MANY_ATTRIBUTES);
}

static json_t *refuse(struct fab_request *r)
{
	const json_int_t status = member_int(r, "status", UINT16_MAX, -1);
	struct fab_attribute a;
	uint32_t node;

	if (!fab_request_only(r, "node attribute status") || !named_attribute(r, &a, &node))
		return NULL;
	if (a.mgmt_class == IB_CLASS_SUBN_LID || a.mgmt_class == IB_CLASS_CM)
		return deny(r, "give an \"attribute\" of Perf, SubnAdm, DevMgt or CC: SMPs are not refused, and "
			    "messages of ComMgt have no answer");
	if (status < 0)
		return deny(r, "give \"status\", from 1 to 65535, as 12: unsupported, 28: invalid; 0: none");
	if (r->dry)
		return done();
	return fab_fault_refuse(r->m, node, &a, (uint16_t)status) ? done() : deny(r, MANY_ATTRIBUTES);
}

static json_t *guid(struct fab_request *r)
{
	const char *as = json_string_value(json_object_get(r->in, "as"));
	const struct fab *f = r->m->f;
	uint32_t node, other = FAB_NONE;

	if (!fab_request_only(r, "node as"))
		return NULL;
	node = fab_request_node(r);
	if (node == FAB_NONE)
		return NULL;
	if (as && strcmp(as, "0"))
		other = fab_find_node(f, as);
	if (!as || (strcmp(as, "0") && other == FAB_NONE)) {
		fab_request_unknown(r, "node", as ? as : "", "give \"as\", the node whose GUIDs it reports, or "
				    "itself, or \"0\"");
		return NULL;
	}
	for (unsigned int i = fab_first_num(&f->node[node]); i <= f->node[node].nports; i++)
		if (fab_machine_at(f, fab_port_of(&f->node[node], i)) != FAB_NO_PORT)
			return deny(r, "a machine is attached there and reports its own GUIDs: give another \"node\"");
	if (!r->dry)
		fab_fault_guid(r->m->f, node, other);
	return done();
}

static json_t *preset(struct fab_request *r)
{
	const char *name = json_string_value(json_object_get(r->in, "counter"));
	const char *word = json_string_value(json_object_get(r->in, "value"));
	const bool stuck = word && !strcmp(word, "stuck");
	const json_int_t v = stuck ? 0 : member_int(r, "value", INT64_MAX, -1);
	uint32_t p;

	if (!fab_request_only(r, "node port counter value"))
		return NULL;
	p = named_port(r);
	if (p == FAB_NO_PORT)
		return NULL;
	if (v < 0 || !name || fab_counter_number(name) == FAB_COUNTERS)
		return deny(r, "give \"counter\", a name as counters shows it, and \"value\", a "
			    "number from 0, or \"stuck\"");
	if (r->dry)
		return done();
	return (stuck ? fab_fault_stick(r->m->f, p, name) : fab_fault_preset(r->m->f, p, name, (uint64_t)v)) ?
	       done() : deny(r, "out of memory");
}

static const struct {
	const char *name;
	json_t *(*answer)(struct fab_request *r);
} commands[] = {
	{ "link", link_fault },
	{ "node", node_fault },
	{ "swap", swap },
	{ "loss", loss },
	{ "ber", errors },
	{ "corrupt", corrupt },
	{ "delay", delay },
	{ "stall", stall },
	{ "resume", resume },
	{ "credits", credits },
	{ "drop", drop_fault },
	{ "refuse", refuse },
	{ "guid", guid },
	{ "preset", preset },
	{ "expect", fab_request_expect },
};

static unsigned int find_command(const char *command)
{
	unsigned int i;

	for (i = 0; i < IB_ARRAY_SIZE(commands) && strcmp(command, commands[i].name); i++)
		;
	return i;
}

bool fab_is_fault_command(const char *command)
{
	return find_command(command) < IB_ARRAY_SIZE(commands);
}

json_t *fab_request_fault(struct fab_request *r, const char *command)
{
	json_t *reply = commands[find_command(command)].answer(r);

	if (reply && !r->dry && strcmp(command, "expect"))
		fab_journal_add(r);
	return reply;
}
