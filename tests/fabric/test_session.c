// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The responses of a fabric to a long sequence of SMPs, GMPs, control requests and time, which a
 * generator with a seed chooses, are as recorded (recorded.h). That includes asynchronous events:
 * traps, cables that flap, scripts, MADs on slow wires.
 */
#include "recorded.h"
#include "subnet.h"

#include "fabric/control/control.h"
#include "fabric/fault/script.h"
#include "ib/mlnx.h"
#include "ib/pma.h"

#define STEPS	700u	/* in a session */

static struct recorded rec;
static uint64_t rng;
static FILE *out;	/* the outcome of a step */
static uint8_t last[IB_SMP_DATA_LEN];

static uint32_t any(uint32_t n)
{
	return fab_random(&rng) % n;
}

static bool tell(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	if (f->port[port].node % 3)
		return false;
	fprintf(out, "port %u gets %u-%u %u-%u sl %u ", port, mad->slid, mad->dlid, mad->sqp,
		mad->dqp, mad->sl);
	for (unsigned int i = 0; i < IB_MAD_LEN; i++)
		fprintf(out, "%02x", ((const uint8_t *)&mad->mad)[i]);
	putc('\n', out);
	memcpy(last, mad->smp.data, sizeof(last));
	return true;
}

static enum fab_occupant who(void *ctx, uint32_t port)
{
	(void)ctx;
	if (port == PORT)
		return FAB_SUBNET_MANAGER;
	return f->port[port].node % 5 ? FAB_NOBODY : FAB_PROGRAM;
}

/* ---- MADs ---------------------------------------------------------------------- */

static const struct {
	uint16_t attr;
	uint32_t mods[6];
} smps[] = {
	{ IB_SMP_ATTR_NODE_DESC, { 0, 0, 0, 0, 0, 1 } },
	{ IB_SMP_ATTR_NODE_INFO, { 0, 0, 0, 0, 0, 2 } },
	{ IB_SMP_ATTR_SWITCH_INFO, { 0, 0, 0, 0, 0, 1 } },
	{ IB_SMP_ATTR_GUID_INFO, { 0, 0, 0, 0, 1, 99 } },
	{ IB_SMP_ATTR_PORT_INFO, { 0, 1, 2, 3, 4, 5 } },
	{ IB_SMP_ATTR_PORT_INFO, { 0, 1, 2, 3, 4, 1 } },
	{ IB_SMP_ATTR_PKEY_TABLE, { 0, 1, 0x10000, 0x20001, 4, 0x40000 } },
	{ IB_SMP_ATTR_SL2VL, { 0, 0x102, 0x201, 0x10000, 0x20001, 0x301 } },
	{ IB_SMP_ATTR_VLARB, { 0x10000, 0x10001, 0x20002, 0x30003, 0x40004, 0 } },
	{ IB_SMP_ATTR_LFT, { 0, 0, 1, 2, 767, 768 } },
	{ IB_SMP_ATTR_MFT, { 0, 1, 127, 128, 0x10000000, 2 } },
	{ IB_SMP_ATTR_SM_INFO, { 0, 0, 0, 0, 0, 1 } },
	{ IB_SMP_ATTR_NOTICE, { 0, 0, 0, 0, 0, 1 } },
	{ 0x31, { 0, 0, 0, 0, 0, 0 } },
	{ IB_SMP_ATTR_MLNX_EXT_PORT_INFO, { 0, 1, 2, 3, 4, 0x80000001 } },
};

/* The data of an earlier response, with some bytes changed. */
static void some_data(uint8_t *data, unsigned int n)
{
	memcpy(data, last, n < sizeof(last) ? n : sizeof(last));
	for (unsigned int i = any(4); i; i--) {
		const uint32_t at = any(n);

		data[at] = (uint8_t)any(256);
	}
}

static uint8_t a_method(void)
{
	if (any(2))
		return IB_METHOD_GET;
	return any(8) ? IB_METHOD_SET : (uint8_t)any(256);
}

static void address(struct fab_mad *mad)
{
	mad->dlid = any(8) ? LID(any(f->nodes)) : any(2) ? 0xc001 : (uint16_t)any(65536);
	mad->slid = f->port[PORT].pi.lid;
	mad->sl = (uint8_t)any(4);
	if (any(4))
		return;
	mad->has_grh = true;
	mad->grh.hoplimit = 3;
	memset(mad->grh.sgid, 0x11, sizeof(mad->grh.sgid));
	memset(mad->grh.dgid, 0x22, sizeof(mad->grh.dgid));
}

static struct fab_mad an_smp(void)
{
	const unsigned int k = any(IB_ARRAY_SIZE(smps));
	const bool dr = any(4);
	const uint8_t method = a_method();
	struct fab_mad mad = new_mad(dr ? IB_CLASS_SUBN_DR : IB_CLASS_SUBN_LID, method,
				     smps[k].attr, smps[k].mods[any(6)]);
	const unsigned int hops = any(6);

	some_data(mad.smp.data, IB_SMP_DATA_LEN);
	mad.smp.hdr.tid = ib_to_be64(rng);
	if (!dr) {
		address(&mad);
		return mad;
	}
	mad.smp.dr_slid = mad.smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	for (unsigned int i = 1; i <= hops; i++)
		mad.smp.init_path[i] = (uint8_t)(1 + any(4));
	mad.smp.init_path[1] = (uint8_t)(1 + !any(16));
	ib_smp_set_hops(&mad.smp, 0, (uint8_t)hops);
	if (any(12))
		return mad;
	/* one part of the route uses LIDs */
	if (any(2))
		mad.smp.dr_slid = ib_to_be16(LID(HOST));
	else
		mad.smp.dr_dlid = ib_to_be16(LID(any(f->nodes)));
	mad.dlid = LID(any(f->nodes));
	mad.slid = LID(HOST);
	return mad;
}

static const uint16_t perf[] = {
	IB_ATTR_CLASS_PORT_INFO, IB_PMA_ATTR_SAMPLES_CONTROL, IB_PMA_ATTR_SAMPLES_RESULT,
	IB_PMA_ATTR_PORT_COUNTERS, IB_PMA_ATTR_PORT_COUNTERS, IB_PMA_ATTR_PORT_COUNTERS_EXT,
	IB_PMA_ATTR_PORT_COUNTERS_EXT, 0x15, 0x16, 0x17, 0x18, 0x36, 0x77,
};

static struct fab_mad a_gmp(void)
{
	static const uint8_t classes[] = {
		IB_CLASS_PERF, IB_CLASS_PERF, IB_CLASS_PERF, IB_CLASS_MLNX, IB_CLASS_SUBN_ADM,
		IB_CLASS_CC, 0x32,
	};
	static const uint16_t mlnx[] = { 0x50, 0x17 };
	const uint8_t class = classes[any(IB_ARRAY_SIZE(classes))];
	const uint8_t method = a_method();
	const uint16_t attr = class == IB_CLASS_MLNX ? mlnx[any(IB_ARRAY_SIZE(mlnx))] :
						       perf[any(IB_ARRAY_SIZE(perf))];
	struct fab_mad mad = new_mad(class, method, attr, 0);
	uint8_t *data = (uint8_t *)&mad.mad + IB_PMA_DATA_OFF;

	some_data(data, IB_SMP_DATA_LEN);
	data[1] = (uint8_t)(any(16) ? any(5) : 255);	/* PortSelect */
	mad.mad.hdr.tid = ib_to_be64(rng);
	address(&mad);
	mad.sqp = mad.dqp = 1;
	return mad;
}

static void send_one(void)
{
	struct fab_mad mad = any(3) ? an_smp() : a_gmp();
	const uint32_t at = 1 + any(f->ports - 1);
	enum fab_fate fate;

	if (any(8) || !fab_port_num(f, at))
		fate = fab_mgmt_send(&m, PORT, &mad, now);
	else
		fate = fab_mgmt_arrive(&m, at, &mad, now);
	fprintf(out, "fate %u\n", fate);
}

/* ---- requests ------------------------------------------------------------------ */

/* NODE, PORT and OTHER are placeholders. */
static const char * const requests[] = {
	"'link','node':'NODE','port':PORT,'state':'down'",
	"'link','node':'NODE','port':PORT,'state':'up'",
	"'link','node':'NODE','port':PORT,'state':'up'",
	"'link','node':'NODE','port':'any','state':'down'",
	"'link','node':'NODE','port':'any','state':'up'",
	"'link','node':'NODE','port':'any','state':'flap','down_ns':2000000,'count':3",
	"'link','node':'NODE','port':PORT,'state':'flap','down_ns':1000000,'interval_ns':2000000,"
		"'count':9",
	"'link','node':'NODE','port':PORT,'state':'flap','down_ns':999999",
	"'link','node':'NODE','port':PORT,'state':'flap','interval_ns':86400000000000,"
		"'count':1000000",
	"'link','node':'NODE','port':PORT,'state':'flap','interval_ns':86400000000001",
	"'link','node':'NODE','port':PORT,'state':'flap','interval_ns':1000999999",
	"'link','node':'NODE','port':PORT,'state':'flap','count':0",
	"'link','node':'NODE','port':PORT,'state':'flap','count':1000001",
	"'link','node':'NODE','port':PORT,'state':'degrade','width':1",
	"'link','node':'NODE','port':PORT,'state':'degrade','width':4,'speed':'QDR'",
	"'link','node':'NODE','port':PORT,'state':'degrade','speed':'FDR10'",
	"'link','node':'NODE','port':PORT,'state':'degrade','speed':'SDR'",
	"'link','node':'NODE','port':PORT,'state':'degrade','width':3",
	"'link','node':'NODE','port':PORT,'state':'degrade','width':13",
	"'link','node':'NODE','port':PORT,'state':'degrade'",
	"'link','node':'NODE','port':PORT,'state':'degrade','speed':7",
	"'link','node':'NODE','port':PORT,'state':'restore'",
	"'link','node':'NODE','port':PORT,'state':'restore','width':4",
	"'link','node':'NODE','port':PORT,'state':'open'", "'link','node':'NODE','port':PORT",
	"'link','port':PORT,'state':'up'", "'link','node':'NODE','state':'up'",
	"'node','node':'OTHER','state':'kill'", "'node','node':'OTHER','state':'revive'",
	"'node','node':'NODE','state':'revive'", "'node','node':'NODE','state':'burn'",
	"'node','state':'kill'", "'node','node':'NODE','state':'kill','port':1",
	"'loss','node':'NODE','port':PORT,'rate':0.25",
	"'loss','node':'NODE','port':PORT,'rate':1,'seed':9",
	"'loss','node':'NODE','port':PORT,'rate':0",
	"'loss','node':'NODE','port':PORT,'rate':1e-30,'seed':0",
	"'loss','node':'NODE','port':PORT,'rate':1.01",
	"'loss','node':'NODE','port':PORT,'rate':-0.1",
	"'loss','node':'NODE','port':PORT,'rate':'x'",
	"'loss','node':'NODE','port':PORT,'rate':0,'seed':-1",
	"'corrupt','node':'NODE','port':PORT,'rate':0.5,'seed':3",
	"'corrupt','node':'NODE','port':'any','rate':0",
	"'delay','node':'NODE','port':PORT,'time_ns':3000",
	"'delay','node':'NODE','port':PORT,'time_ns':0",
	"'delay','node':'NODE','port':PORT,'time_ns':86400000000001",
	"'delay','node':'NODE','port':PORT",
	"'drop','node':'NODE','attribute':'Subn:PORT','nth':3",
	"'drop','node':'NODE','attribute':'PortInfo','nth':2",
	"'drop','node':'NODE','attribute':'PortInfo','nth':0",
	"'drop','node':'NODE','attribute':'NodeInfo','nth':1",
	"'drop','node':'NODE','attribute':'NodeInfo','nth':0",
	"'drop','node':'NODE','attribute':'Subn:65536','nth':0",
	"'drop','node':'NODE','attribute':'Perf:1','nth':4294967296", "'drop','node':'NODE','nth':1",
	"'preset','node':'NODE','port':PORT,'counter':'PortRcvData','value':9223372036854775807",
	"'preset','node':'NODE','port':PORT,'counter':'SymbolErrorCounter','value':65535",
	"'preset','node':'NODE','port':PORT,'counter':'PortXmitPkts','value':0",
	"'preset','node':'NODE','port':PORT,'counter':'VL15Dropped','value':-1",
	"'preset','node':'NODE','port':PORT,'counter':'Nothing','value':1",
	"'preset','node':'NODE','port':PORT,'value':1",
	"'script','text':'at 0 link down NODE:PORT\\n"
		"every 2ms from 1ms for 9ms loss NODE:PORT 0.5 7\\n"
		"at 4ms link up NODE:PORT\\nat 4ms node kill OTHER\\nat 3.5ms delay NODE:any 20us'",
	"'script','replace':true,'text':'"
		"every 1ms for 40ms link flap NODE:any --down 1ms --interval 3ms --count 2 # 3\\n"
		"every 5ms from 2us for 20ms preset \\\\'NODE\\\\':PORT PortXmitWait 0x77\\n"
		"at 30ms node revive OTHER\\nat 1ms corrupt NODE:PORT 1e-3\\n"
		"at 50ms drop OTHER NodeInfo 2'",
	"'script','text':'at 1s\\nat x link up NODE:PORT\\nevery 1us for 1s node kill NODE\\n"
		"every 1ms for 0 node kill NODE\\nfrom 1s\\nevery 1s from 1s\\n"
		"at 1s link up NODE:99\\nat 1s walk\\nat 2s \\\\'a'",
	"'script','text':''", "'script','text':'# nothing'", "'script','stop':true",
	"'script','stop':false",
	"'script','text':'at 1s node kill NODE','stop':true", "'script','text':1",
	"'script','replace':1",
	"'script','replace':false,'text':'at 9ms node kill NODE'",
	"'topology','node':'NODE'", "'topology','node':'OTHER','file':true", "'topology','first':3",
	"'topology','first':99", "'topology','first':-1", "'topology','first':'x'",
	"'topology','odd':1",
	"'counters','node':'NODE'", "'counters','first':5", "'counters','node':'nobody'",
	"'lft','node':'NODE'", "'lft','node':'OTHER','first':2", "'lft'",
	"'trace','from':'NODE','to':'OTHER'", "'trace','from':'OTHER','to':'PORT'",
	"'trace','from':'OTHER:1','to':'NODE','multicast':49152", "'trace','from':'NODE'",
	"'trace','from':'NODE','to':'OTHER','multicast':49151", "'trace','from':'x','to':'y'",
	"'trace','from':'OTHER','to':'NODE','multicast':65535",
	"'trace','from':'OTHER','to':'0xc000'",
	"'capture','ports':['NODE:PORT']", "'stat'", "1", "'status','file':1", "'status'",
	"'status'",
};

static void a_request(void)
{
	const char *t = requests[any(IB_ARRAY_SIZE(requests))];
	const uint32_t node = any(f->nodes), other = any(f->nodes);
	char text[2048] = "{\"command\":", *at = text + strlen(text), *reply, *end;

	for (; *t; t++) {
		if (!strncmp(t, "NODE", 4) || !strncmp(t, "OTHER", 5)) {
			at += sprintf(at, "S-%016llx", (unsigned long long)
				      f->node[*t == 'N' ? node : other].guid);
			t += *t == 'N' ? 3 : 4;
		} else if (!strncmp(t, "PORT", 4)) {
			at += sprintf(at, "%u", any(5));
			t += 3;
		} else if (*t == '\\' && t[1] == '\\') {
			t++;			/* a quotation mark of the script */
			*at++ = *++t;
		} else {
			*at++ = *t == '\'' ? '"' : *t;
		}
	}
	strcpy(at, "}");
	fprintf(out, "%s\n", text);
	m.now_ns = now;
	reply = fab_control_answer(&m, NULL, text, strlen(text), NULL);
	/* without sizes of structures, what the host has and does, and the protocol's version */
	end = reply ? strstr(reply, ", \"memory_bytes\"") : NULL;
	if (reply && !end)
		end = strstr(reply, ", \"version\"");
	fprintf(out, "%.*s\n", end ? (int)(end - reply) : reply ? (int)strlen(reply) : 4,
		reply ? reply : "none");
	free(reply);
}

/* ---- sessions ------------------------------------------------------------------ */

static void time_passes(void)
{
	static const uint32_t ns[] = { 1000, 1000000, 3000000, 50000000, 1000000000 };

	now += 1 + any(ns[any(IB_ARRAY_SIZE(ns))]);
	fprintf(out, "script %llu\n", (unsigned long long)fab_script_timer(&m, now));
	fab_mgmt_timer(&m, now);
	fprintf(out, "due %llu\n", (unsigned long long)(m.deadline_ns - now));
}

/* The state of the fabric, apart from MADs. */
static void show(void)
{
	struct ohca_port_counters c;
	uint8_t d[IB_SMP_DATA_LEN];

	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_extra *x = fab_extra_of(f, p);

		fab_counters(&m, p, &c);
		ib_port_info_pack(&f->port[p].pi, d);
		for (unsigned int i = 0; i < sizeof(d); i++)
			fprintf(out, "%02x", d[i]);
		for (unsigned int i = 0; i < RECORDED_COUNTERS; i++)
			fprintf(out, " %llu", (unsigned long long)((const uint64_t *)&c)[i]);
		if (x && x->fault)
			fprintf(out, " lost %llu downs %u", (unsigned long long)x->fault->lost,
				x->fault->downs);
		putc('\n', out);
	}
	fprintf(out, "hops %llu lost %llu traps %llu other %llu skipped %llu epoch %u flights %u\n",
		(unsigned long long)m.stats.hops, (unsigned long long)m.stats.lost,
		(unsigned long long)m.stats.traps, (unsigned long long)m.stats.other,
		(unsigned long long)m.stats.flaps_skipped, m.epoch, m.flights);
	fab_topology_write(f, out);
}

static void step(unsigned int i)
{
	size_t len;
	char *text, what[32];

	out = open_memstream(&text, &len);
	assert_non_null(out);
	switch (any(8)) {
	case 0:
		a_request();
		break;
	case 1:
		time_passes();
		break;
	case 2:
		if (!any(8))
			fab_mgmt_set_issm(&m, PORT, any(2), now);
		break;
	default:
		send_one();
	}
	if (i % 8 == 0)
		show();
	fclose(out);
	snprintf(what, sizeof(what), "at %llu", (unsigned long long)now);
	recorded_case(&rec, what, text, len);
	free(text);
}

static void session(struct fab *fabric, const char *name, uint64_t seed, bool up)
{
	begin(fabric);
	recorded_section(&rec, name);
	if (up)
		subnet_up();
	m.deliver = tell;
	m.occupied = who;
	rng = fab_random_state(seed);
	memset(last, 0, sizeof(last));
	for (unsigned int i = 0; i < STEPS; i++)
		step(i);
	fab_script_stop(&m);
	fab_mad_forget(&m);
	fab_free(f);
}

static struct fab *planned(const struct fab_plan *plan)
{
	struct fab *g = fab_new();
	char why[512];

	assert_non_null(g);
	if (!fab_generate_plan(g, plan, NULL, why, sizeof(why)))
		fail_msg("%s", why);
	assert_true(fab_seal(g));
	return g;
}

static void sessions(void **st)
{
	static const char text[] =
		"Ca 2 \"a\"\n[1] \"s\"[1]\n[2] \"t\"[2]\n"
		"Switch 4 \"s\" # \"s\" base port 0 lid 0 lmc 0\n"
		"[1] \"a\"[1]\n[2] \"r\"[1]\n[3] \"t\"[3]\n"
		"Switch 4 \"t\"\n[2] \"a\"[2]\n[3] \"s\"[3]\n"
		"[4] \"b\"[1]\nRt 2 \"r\"\n[1] \"s\"[2]\nCa 1 \"b\"\n[1] \"t\"[4]\n";
	struct errors e;

	(void)st;
	recorded_begin(&rec, "session");
	session(from_spec("fat-tree:4"), "fat-tree:4", 1, true);
	session(from_spec("ring:3"), "ring:3", 2, true);
	session(planned(&(struct fab_plan){ .spec = "star:3", .nvidia = true, .speed = "EDR" }),
		"nvidia", 3, true);
	session(from_text(text, sizeof(text) - 1, &e), "two ports", 4, false);
	session(from_spec("ring:3,2"), "not up", 5, false);
	recorded_end(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sessions),
	};

	return cmocka_run_group_tests_name("sessions of management", tests, NULL, NULL);
}
