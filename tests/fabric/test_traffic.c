// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The packets that four machines receive from a long mix of packets are as recorded (recorded.h):
 * valid and invalid ones, unicast and multicast, with faults, changes of tables, scarce credits and
 * time, which a generator with a seed chooses. So are the counters of all ports and a capture.
 */
#include "recorded.h"
#include "hosts.h"

#include "fabric/control/control.h"
#include "fabric/data/gsi.h"
#include "fabric/watch/capture.h"
#include "ib/crc.h"
#include "ib/pma.h"

#define STEPS	500u	/* in a run */

static struct recorded rec;
static uint64_t rng;
static FILE *out;		/* the outcome of a step */
static struct fab_capture *capture;
static bool capture_room;
static unsigned int stuck;	/* the machine that accepts nothing; HOSTS or more: none */

static uint32_t any(uint32_t n)
{
	return fab_random(&rng) % n;
}

static bool captured(void *ctx, const void *buf, size_t len)
{
	(void)ctx;
	if (!capture_room)
		return false;
	if (out)
		fprintf(out, "captured %zu bytes, %08lx\n", len, crc32(0, buf, (unsigned int)len));
	return true;
}

static uint16_t some_lid(void)
{
	static const uint16_t odd[] = { 0, 0xffff, 63, 64, 0xbfff, IB_LID_MCAST_MIN, 0xc000 + 4095,
					0xc000 + 4096, 0xfffe };

	switch (any(8)) {
	case 0:
		return odd[any(IB_ARRAY_SIZE(odd))];
	case 1:
		return (uint16_t)(IB_LID_MCAST_MIN + any(4));
	case 2:
		return LID(any(f->nodes));
	default:
		return host[any(HOSTS)].lid;
	}
}

/* A valid or an invalid packet. */
static void a_packet(unsigned int i)
{
	static const size_t sizes[] = { 24, 28, 64, 64, 256, 300, 1024, 2048, 2200, 4096, 4216 };
	static uint8_t pkt[OHCA_LINK_MAX_FRAME];
	static const uint16_t keys[] = { 0xffff, 0x7fff, 0x8001, 1, 0x1234, 0 };
	const unsigned int vl = any(4), sl = any(16), lnh = any(8) ? IB_LNH_IBA_LOCAL : any(4);
	const uint8_t op = any(4) ? IB_OP_UC_SEND_ONLY : (uint8_t)any(256);
	const uint16_t key = keys[any(8) ? 0 : any(IB_ARRAY_SIZE(keys))];
	const uint32_t qp = any(8) ? 7 : any(3), psn = any(9);
	const uint16_t dlid = some_lid();
	size_t len = sizes[any(IB_ARRAY_SIZE(sizes))], head;
	uint32_t icrc = 0;
	uint8_t *p;
	void *b;

	if (lnh == IB_LNH_IBA_GLOBAL && len < 64)
		len = 64;
	memset(pkt, (int)any(256), len);
	p = ib_build_lrh(pkt, (uint8_t)vl, (uint8_t)sl, (uint8_t)lnh, dlid, (uint16_t)(len / 4),
			 host[i].lid);
	head = lnh == IB_LNH_IBA_GLOBAL ? IB_GRH_LEN : 0;
	if (head)
		memset(p, 0x60, head);
	ib_build_bth(p + head, op, 0, 0, key, qp, false, psn);
	if (!host[i].l)
		return;
	if (any(3) && ib_icrc(pkt, len - IB_ICRC_LEN, &icrc))
		ib_icrc_put(pkt + len - IB_ICRC_LEN, icrc);
	if (!any(16)) {
		const uint32_t at = any(IB_LRH_LEN);

		pkt[at] ^= (uint8_t)(1u << any(8));
	}
	if (!any(32))
		len -= 4;
	b = ohca_link_tx_begin(host[i].l, vl, len);
	fprintf(out, "host %u lane %u, %zu bytes: %d\n", i, vl, len, b != NULL);
	if (!b)
		return;
	memcpy(b, pkt, len);
	ohca_link_tx_commit(host[i].l, vl, len, any(2) ? 0 : OHCA_FRAME_ICRC);
	ohca_link_kick(host[i].l);
}

/* Large packets to one machine or a group, more than there are credits for. */
static void a_flood(unsigned int i)
{
	const unsigned int to = stuck < HOSTS ? stuck : any(HOSTS), vl = any(2);
	const unsigned int len = 4 * (200 + any(800));
	const uint16_t dlid = any(3) ? host[to].lid : (uint16_t)(IB_LID_MCAST_MIN + any(2));
	unsigned int n = 0;

	while (host[i].l && n < 60 && send_data(i, vl, dlid, len, (uint8_t)n))
		if (++n % 8 == 0)
			pump_once();
	fprintf(out, "host %u sends %u of %u bytes to 0x%x\n", i, n, len, dlid);
}

/* A machine detaches, or attaches again. */
static void come_or_go(unsigned int i)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	if (host[i].l) {
		ohca_link_free(host[i].l);
		host[i].l = NULL;
		pump(NULL);
		return;
	}
	ohca_link_cfg_init(&cfg);
	cfg.port_guid = f->port[fab_port_of(&f->node[node_of[i]], 1)].guid;
	cfg.node_guid = f->node[node_of[i]].guid;
	snprintf(cfg.desc, sizeof(cfg.desc), "machine %u again", i);
	if (!connect_host(&host[i], &cfg, &err)) {
		host[i].l = NULL;
		fprintf(out, "%s\n", err.text);
	}
	host[i].lid = LID(node_of[i]);
}

static void a_mad(unsigned int i)
{
	const uint8_t class = any(2) ? IB_CLASS_PERF : (uint8_t)any(16);
	const uint8_t method = any(2) ? IB_METHOD_GET : IB_METHOD_SET;
	struct fab_mad mad = new_mad(class, method, any(2) ? IB_PMA_ATTR_PORT_COUNTERS :
				     IB_PMA_ATTR_PORT_COUNTERS_EXT, 0);
	uint8_t *data = (uint8_t *)&mad.mad + IB_PMA_DATA_OFF;
	uint8_t pkt[512];
	size_t len;

	memset(data, any(2) ? 0xff : 0, 64);
	data[1] = (uint8_t)any(5);
	mad.mad.hdr.tid = ib_to_be64(rng);
	mad.dlid = some_lid();
	mad.slid = host[i].lid;
	mad.dqp = mad.sqp = 1;
	mad.sl = (uint8_t)any(16);
	if (!any(4)) {
		mad.has_grh = true;
		memset(&mad.grh, 0x33, sizeof(mad.grh));
	}
	len = fab_mad_packet(pkt, &mad, (uint8_t)any(4));
	fprintf(out, "GMP: %d\n", host[i].l && ep_send_raw(&host[i], pkt[0] >> 4, pkt, len));
}

static void an_smp(unsigned int i)
{
	static const uint16_t attrs[] = {
		IB_SMP_ATTR_NODE_INFO, IB_SMP_ATTR_PORT_INFO, IB_SMP_ATTR_LFT,
		IB_SMP_ATTR_SWITCH_INFO, IB_SMP_ATTR_SM_INFO,
	};
	const uint16_t attr = attrs[any(IB_ARRAY_SIZE(attrs))];
	const unsigned int mod = any(5), hops = any(5);
	uint8_t route[4];
	struct ib_smp smp;

	for (unsigned int k = 0; k < 4; k++)
		route[k] = (uint8_t)(1 + any(4));
	route[0] = 1;
	ep_smp_init(&host[i], &smp, IB_METHOD_GET, attr, mod, NULL, hops, route);
	if (!any(4)) {
		smp.hdr.mgmt_class = IB_CLASS_SUBN_LID;
		smp.hdr.class_specific = 0;
	}
	fprintf(out, "SMP: %d\n", host[i].l && ep_send_smp(&host[i], &smp, some_lid()));
}

/* NODE and PORT are a port of a switch with a cable. */
static const char * const requests[] = {
	"'loss','node':'NODE','port':PORT,'rate':0.3", "'loss','node':'NODE','port':PORT,'rate':0",
	"'loss','node':'NODE','port':PORT,'rate':0", "'corrupt','node':'NODE','port':PORT,'rate':0",
	"'corrupt','node':'NODE','port':PORT,'rate':0.3,'seed':4",
	"'delay','node':'NODE','port':PORT,'time_ns':300000",
	"'delay','node':'NODE','port':PORT,'time_ns':0",
	"'delay','node':'NODE','port':PORT,'time_ns':0",
	"'link','node':'NODE','port':PORT,'state':'flap','down_ns':1000000",
	"'link','node':'NODE','port':PORT,'state':'degrade','width':1",
	"'link','node':'NODE','port':PORT,'state':'restore'",
	"'preset','node':'NODE','port':PORT,'counter':'PortXmitWait','value':5",
	"'trace','from':'host2','to':'host8'",
	"'trace','from':'host4','to':'host6','multicast':49153",
	"'counters','node':'NODE'",
};

static void a_request(uint32_t p)
{
	const char *t = requests[any(IB_ARRAY_SIZE(requests))];
	char text[512] = "{\"command\":", *at = text + strlen(text), *reply, *end;

	for (; *t; t++) {
		if (!strncmp(t, "NODE", 4) || !strncmp(t, "PORT", 4)) {
			at += *t == 'N' ? sprintf(at, "%s", f->desc[f->port[p].node].text) :
					  sprintf(at, "%u", fab_port_num(f, p));
			t += 3;
		} else {
			*at++ = *t == '\'' ? '"' : *t;
		}
	}
	strcpy(at, "}");
	m.now_ns = now;
	reply = fab_control_answer(&m, d, text, strlen(text), NULL);
	/* without the protocol's version */
	end = reply ? strstr(reply, ", \"version\"") : NULL;
	fprintf(out, "%s\n%.*s\n", text, end ? (int)(end - reply) : reply ? (int)strlen(reply) : 4,
		reply ? reply : "none");
	free(reply);
}

/* Changes a table of the switch at port @p, or its PortInfo. */
static void a_change(uint32_t p)
{
	const struct fab_node *n = &f->node[f->port[p].node];
	struct fab_switch *sw = &f->sw[n->sw];
	struct ib_port_info *pi = &f->port[p].pi;
	struct ib_sl2vl map;

	switch (any(10)) {
	case 0:
		pi->part_enf_in = any(2);
		pi->part_enf_out = any(2);
		break;
	case 1:
		pi->filter_raw_in = any(2);
		pi->filter_raw_out = any(2);
		break;
	case 2:
		pi->hoq_life = (uint8_t)(any(2) ? 19 : any(8));
		break;
	case 3:
		sw->si.life_time = (uint8_t)(any(2) ? 0 : any(12));
		break;
	case 4:
		pi->vl_stall_count = (uint8_t)any(4);
		break;
	case 5:
		pi->mtu = (uint8_t)(1 + any(5));
		break;
	case 6:
		sw->si.def_mcast_not_primary = (uint8_t)any(5);
		sw->si.def_mcast_primary = (uint8_t)any(5);
		break;
	case 7:
		add_member(f->port[p].node, any(4), fab_port_num(f, p));
		break;
	case 8:
		ib_sl2vl_init(&map, 1 + any(4));
		if (any(2))
			map.vl[any(16)] = 15;
		fab_pool_put(&f->sl2vl, f->port[p].sl2vl);
		f->port[p].sl2vl = fab_pool_get(&f->sl2vl, &map);
		break;
	default:
		for (unsigned int num = 1; num <= n->nports; num++)
			f->port[fab_port_of(n, num)].pi.hoq_life = (uint8_t)any(8);
		fab_changed(&m, fab_port_of(n, 0));
	}
	fab_changed(&m, p);
}

/* A subnet manager activates all links that are up. */
static void activate_all(void)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].pi.state >= IB_PS_INIT)
			f->port[p].pi.state = IB_PS_ACTIVE;
	m.epoch++;
}

/* Receives the arrived packets, all or some of them. */
static void take(void)
{
	static uint8_t pkt[OHCA_LINK_MAX_FRAME];

	for (unsigned int i = 0; i < HOSTS; i++) {
		for (unsigned int vl = 0; vl < 16; vl++) {
			unsigned int most = any(4) ? 100 : any(3);
			size_t len;

			if (vl >= 8 && vl != IB_MGMT_VL)
				continue;
			while (host[i].l && i != stuck && most-- &&
			       (len = ep_recv(&host[i], vl, pkt, sizeof(pkt))))
				fprintf(out, "host %u lane %u has %zu bytes, %08lx\n", i, vl, len,
					crc32(0, pkt, (unsigned int)len));
		}
	}
}

static void show(void)
{
	struct ohca_port_counters c;

	for (uint32_t p = 1; p < f->ports; p++) {
		fab_counters(&m, p, &c);
		fprintf(out, "port %u state %u", p, f->port[p].pi.state);
		for (unsigned int i = 0; i < RECORDED_COUNTERS; i++)
			fprintf(out, " %llu", (unsigned long long)((const uint64_t *)&c)[i]);
		putc('\n', out);
	}
	for (unsigned int i = 0; i < FAB_DROPS; i++)
		fprintf(out, "%s %llu ", fab_drop_name(i), (unsigned long long)d->n.drop[i]);
	fprintf(out, "delivered %llu hops %llu forks %llu copies %llu in %llu out %llu stood %llu "
		"bytes %llu\n",
		(unsigned long long)d->n.delivered, (unsigned long long)d->n.hops,
		(unsigned long long)d->n.forks, (unsigned long long)d->n.copies,
		(unsigned long long)d->n.mads_in, (unsigned long long)d->n.mads_out,
		(unsigned long long)d->n.stood_ns, (unsigned long long)d->n.buffer_bytes);
	fprintf(out, "%s\n", said);
	said[0] = 0;
}

static void time_passes(void)
{
	static const uint32_t ns[] = { 1000, 100000, 400000, 5000000, 60000000 };

	now += 1 + any(ns[any(IB_ARRAY_SIZE(ns))]);
	pump_once();
	fprintf(out, "due %llu\n", (unsigned long long)fab_data_timer(d));
}

static void some_capture(const uint32_t *ports)
{
	uint64_t limit;

	if (capture) {
		capture_room = any(2);
		fprintf(out, "full: %d\n", fab_capture_full(capture));
		if (any(3))
			return;
		capture_room = true;
		fab_capture_stop(capture);
		capture = NULL;
		return;
	}
	capture_room = true;
	limit = any(2) ? 0 : 1 + any(30);
	capture = fab_capture_start(d, ports, 4, limit, any(2), captured, NULL);
	assert_non_null(capture);
}

static void step(unsigned int i)
{
	uint32_t cabled[4];
	size_t len;
	char *text, what[32];

	out = open_memstream(&text, &len);
	assert_non_null(out);
	for (unsigned int k = 0; k < 4;) {
		const uint32_t p = 1 + any(f->ports - 1);
		bool other = f->port[p].peer != FAB_NO_PORT &&
			     f->node[f->port[p].node].sw != FAB_NONE;

		for (unsigned int j = 0; j < k; j++)
			other = other && cabled[j] != p;
		if (other)
			cabled[k++] = p;
	}
	if (!any(6))
		activate_all();
	switch (any(16)) {
	case 0:
		a_request(cabled[0]);
		break;
	case 1:
		a_change(cabled[0]);
		break;
	case 2:
		a_mad(any(HOSTS));
		break;
	case 3:
		an_smp(any(HOSTS));
		break;
	case 4:
		some_capture(cabled);
		break;
	case 5:
		time_passes();
		break;
	case 6:
	case 7:
		pump(NULL);
		take();
		break;
	case 8:
	case 9:
		a_flood(any(HOSTS));
		break;
	case 10:
		if (!any(4))
			come_or_go(any(HOSTS));
		else if (any(2))
			stuck = any(2 * HOSTS);
		break;
	default:
		for (unsigned int k = 1 + any(8); k; k--)
			a_packet(any(HOSTS));
		pump_once();
	}
	if (i % 8 == 0)
		show();
	fclose(out);
	out = NULL;
	snprintf(what, sizeof(what), "at %llu", (unsigned long long)now);
	recorded_case(&rec, what, text, len);
	free(text);
}

static void run(struct fab *fabric, const char *name, uint64_t seed, const uint32_t *nodes)
{
	recorded_section(&rec, name);
	begin_hosts(fabric);
	for (unsigned int i = 0; i < HOSTS; i++)
		place(i, nodes[i]);
	rng = fab_random_state(seed);
	stuck = HOSTS;
	/* groups of all machines of one switch, and of all machines if there is only one switch */
	for (uint32_t p = 1; p < f->ports; p++) {
		if (f->node[f->port[p].node].sw == FAB_NONE || !fab_port_num(f, p))
			continue;
		if (f->node[f->port[f->port[p].peer].node].sw == FAB_NONE)
			add_member(f->port[p].node, 1, fab_port_num(f, p));
		if (f->switches == 1)
			add_member(f->port[p].node, 0, fab_port_num(f, p));
	}
	for (unsigned int i = 0; i < STEPS; i++)
		step(i);
	fab_capture_stop(capture);
	capture = NULL;
	/* some packets are in flight */
	memset(counts_anew, 1, sizeof(counts_anew));
	teardown_hosts(NULL);
}

static void runs(void **st)
{
	(void)st;
	recorded_begin(&rec, "traffic");
	run(from_spec("fat-tree:4"), "fat-tree:4", 1, (const uint32_t []){ 1, 3, 5, 7 });
	run(from_spec("star:6"), "star:6", 2, (const uint32_t []){ 1, 2, 3, 5 });
	run(from_spec("ring:4,2"), "ring:4", 3, (const uint32_t []){ 1, 2, 4, 7 });
	run(from_spec("star:5"), "star:5", 4, (const uint32_t []){ 1, 2, 3, 4 });
	recorded_end(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs),
	};

	return cmocka_run_group_tests_name("traffic of machines", tests, NULL, NULL);
}
