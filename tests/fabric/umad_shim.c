// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libibumad's interface over a link to ohca-fabric, so that the unmodified OpenSM and
 * infiniband-diags can be run as machines of a fabric without any virtual machine:
 *
 *	OHCA_FABRIC=/path OHCA_GUID=1 LD_PRELOAD=umad_shim.so opensm -o ...
 *
 * Each process is an end node of its own: a channel adapter with one port, the SMA
 * (ib/sma.h) and the PMA of the model. Only what those tools need: SMPs, single-packet
 * GS MADs, no RMPP. With OHCA_WAIT_ACTIVE set the port is opened when the subnet manager
 * made it Active.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/umad.h>

#include "ep.h"
#include "ib/pma_agent.h"
#include "ib/portinfo.h"
#include "ib/sma.h"

#define PKEYS		(4u * IB_PKEYS_PER_BLOCK)	/* as many as an HCA has */
#define TRAPS		4
#define CA		"ohca_test"
#define MAX_AGENTS	16
#define MAX_QUEUE	256
#define MAX_PENDING	64
#define UMAD		(sizeof(struct ib_user_mad) + IB_MAD_LEN)

struct umad_msg {
	struct ib_user_mad h;
	uint8_t mad[IB_MAD_LEN];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	pthread_t thread;
	bool open, stop;
	int fd;				/* readable while the queue is not empty */
	uint64_t guid;
	struct ep ep;
	struct ib_port_info pi;
	uint16_t pkeys[PKEYS];
	uint64_t guids[IB_GUIDS_PER_BLOCK];
	uint32_t link_due;
	char desc[IB_SMP_DATA_LEN];
	struct ib_sma sma;
	struct ib_sma_end end;
	struct ib_trap trap[TRAPS];
	struct ib_sl2vl sl2vl;
	struct ib_vlarb arb;
	struct ohca_port_counters ctr;
	struct ib_pma_port pma_port;
	struct {
		bool used;
		uint8_t class;
		uint64_t methods[2];
	} agent[MAX_AGENTS];
	struct umad_msg queue[MAX_QUEUE];
	unsigned int head, count;
	struct {
		bool used;
		int64_t deadline;
		struct umad_msg m;
	} pending[MAX_PENDING];
} s = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- to the user --------------------------------------------------------------- */

static void push(const struct umad_msg *m)
{
	uint64_t one = 1;

	if (s.count == MAX_QUEUE)
		return;
	s.queue[(s.head + s.count++) % MAX_QUEUE] = *m;
	pthread_cond_broadcast(&s.cond);
	if (write(s.fd, &one, sizeof(one)) < 0)
		abort();
}

/* A MAD for some agent of this process. Return: whether one wants it. */
static bool deliver(const void *mad, uint16_t slid, uint8_t sl, uint32_t qpn)
{
	const struct ib_mad_hdr *h = mad;
	unsigned int id = (unsigned int)(ib_be64(h->tid) >> 32) - 1;
	uint8_t class = h->mgmt_class;
	struct umad_msg m = { .h.length = UMAD };

	if (h->method & IB_METHOD_RESP) {
		bool known = false;

		for (unsigned int i = 0; i < MAX_PENDING; i++) {
			struct ib_mad_hdr *p = (void *)s.pending[i].m.mad;

			if (s.pending[i].used && p->tid == h->tid) {
				s.pending[i].used = false;
				known = true;
			}
		}
		if (!known || id >= MAX_AGENTS || !s.agent[id].used)
			return false;
	} else {
		for (id = 0; id < MAX_AGENTS; id++)
			if (s.agent[id].used && s.agent[id].class == class &&
			    s.agent[id].methods[h->method / 64] >> (h->method % 64) & 1)
				break;
		if (id == MAX_AGENTS)
			return false;
	}
	m.h.agent_id = id;
	m.h.addr.lid = ib_to_be16(slid);
	m.h.addr.sl = sl;
	m.h.addr.qpn = ib_to_be32(qpn);
	m.h.addr.qkey = ib_to_be32(qpn == 1 ? IB_QKEY_GSI : 0);
	memcpy(m.mad, mad, IB_MAD_LEN);
	push(&m);
	return true;
}

/* ---- the agents of the port ---------------------------------------------------- */

static void agent_port(void *ctx, unsigned int num, struct ib_sma_port *v)
{
	(void)ctx;
	(void)num;
	*v = (struct ib_sma_port){
		.pi = &s.pi,
		.link_due = &s.link_due,
		.pkey = s.pkeys,
		.num_pkeys = PKEYS,
		.arb = &s.arb,
		.guid = s.guids,
		.num_guids = IB_GUIDS_PER_BLOCK,
		.end = &s.end,
	};
}

static struct ib_sl2vl *agent_sl2vl(void *ctx, unsigned int in, unsigned int out)
{
	(void)ctx;
	(void)in;
	(void)out;
	return &s.sl2vl;
}

static void agent_changed(void *ctx, unsigned int num, uint32_t what)
{
	(void)ctx;
	(void)num;
	(void)what;
	s.ep.lid = s.pi.lid;
}

static void agent_send_trap(void *ctx, unsigned int num, const struct ib_smp *trap)
{
	(void)ctx;
	(void)num;
	ep_send_smp(&s.ep, trap, s.pi.sm_lid);
}

/* What a Set wants of the link, after the answer has left. */
static void link_act(void)
{
	struct ohca_link_phy phy = ep_phy();

	if (!(s.link_due & (IB_PI_EFF_LINK_DOWN | IB_PI_EFF_LINK_DISABLE)))
		return;
	phy.enabled = !(s.link_due & IB_PI_EFF_LINK_DISABLE);
	s.link_due = 0;
	ohca_link_train(s.ep.l, &phy);
}

/* An SMP for this node: its agent, or a manager in the process. Return: @smp is a response. */
static bool sma(struct ib_smp *smp, uint16_t slid, bool from_wire)
{
	const struct ib_sma_in in = {
		.port = 1, .from_wire = from_wire, .slid = slid,
		.now_ns = (uint64_t)now_ms() * 1000000,
	};
	const struct ib_smp copy = *smp;
	enum ib_sma_verdict v;
	uint8_t out;

	v = ib_sma_process(&s.sma, &in, smp, &out);
	if (v == IB_SMA_UNHANDLED && !deliver(smp, slid, 0, 0)) {
		*smp = copy;
		v = ib_sma_unclaimed(&s.sma, &in, smp, &out);
	}
	return v == IB_SMA_REPLY;
}

static void rx_smp(const uint8_t *pkt, const struct ib_pkt_info *pi)
{
	struct ib_smp smp;
	uint8_t out;

	memcpy(&smp, pkt + pi->hdr_len, sizeof(smp));
	if (ib_smp_is_dr(&smp) && ib_smp_returning(&smp)) {
		if (ib_dr_recv(&smp, false, 1, 1, &out) == IB_DR_LOCAL)
			deliver(&smp, pi->slid, 0, 0);
		return;
	}
	if (sma(&smp, pi->slid, true))
		ep_send_smp(&s.ep, &smp, pi->slid);
	link_act();
}

static void send_gsi(uint16_t dlid, uint8_t sl, const void *mad)
{
	uint8_t pkt[512];

	ep_send_raw(&s.ep, 0, pkt, ep_build(pkt, 0, sl, dlid, s.ep.lid, 1, IB_QKEY_GSI,
					    s.pkeys[0], mad));
	s.ctr.xmit_pkts++;
	s.ctr.xmit_data += EP_SMP_PKT / 4;
}

static struct ib_pma_port *pma_port(void *ctx, unsigned int num)
{
	(void)num;
	return ctx;
}

static void rx_gsi(const uint8_t *pkt, const struct ib_pkt_info *pi)
{
	struct ib_pma pma = {
		.port = pma_port, .ctx = &s.pma_port, .nports = 1, .first_port = 1, .resp_time = 8,
	};
	struct ib_mad mad;

	s.ctr.rcv_pkts++;
	s.ctr.rcv_data += pi->words;
	memcpy(&mad, pkt + pi->hdr_len, sizeof(mad));
	if (mad.hdr.mgmt_class == IB_CLASS_PERF && !(mad.hdr.method & IB_METHOD_RESP)) {
		if (ib_pma_process(&pma, &mad, &mad, 0) == IB_PMA_REPLY)
			send_gsi(pi->slid, pi->sl, &mad);
		return;
	}
	if (deliver(&mad, pi->slid, pi->sl, 1) ||
	    (mad.hdr.method != IB_METHOD_GET && mad.hdr.method != IB_METHOD_SET))
		return;
	ib_mad_make_resp(&mad.hdr, IB_MAD_BAD_METHOD_ATTR);
	send_gsi(pi->slid, pi->sl, &mad);
}

/* ---- from the user ------------------------------------------------------------- */

static void transmit(const struct umad_msg *m)
{
	struct ib_smp smp;
	uint8_t out;

	memcpy(&smp, m->mad, sizeof(smp));
	if (!ib_mad_is_smp(&smp.hdr)) {
		send_gsi(ib_be16(m->h.addr.lid), m->h.addr.sl, m->mad);
		return;
	}
	if (!ib_smp_is_dr(&smp)) {
		uint16_t dlid = ib_be16(m->h.addr.lid);

		if (dlid != s.ep.lid)
			ep_send_smp(&s.ep, &smp, dlid);
		else if (sma(&smp, dlid, false))
			deliver(&smp, dlid, 0, 0);
		link_act();
		return;
	}
	switch (ib_dr_send(&smp, false, 1, &out)) {
	case IB_DR_FORWARD:
		ep_send_smp(&s.ep, &smp, 0);
		break;
	case IB_DR_LOCAL:
		if (!ib_smp_returning(&smp) && sma(&smp, IB_LID_PERMISSIVE, false)) {
			/* The way back of no hops. */
			ib_smp_set_hops(&smp, 0, ib_smp_hop_cnt(&smp));
			deliver(&smp, IB_LID_PERMISSIVE, 0, 0);
		}
		link_act();
		break;
	default:
		break;
	}
}

static void expire(void)
{
	int64_t now = now_ms();

	for (unsigned int i = 0; i < MAX_PENDING; i++) {
		struct umad_msg *m = &s.pending[i].m;

		if (!s.pending[i].used || s.pending[i].deadline > now)
			continue;
		if (m->h.retries) {
			m->h.retries--;
			s.pending[i].deadline = now + m->h.timeout_ms;
			transmit(m);
			continue;
		}
		s.pending[i].used = false;
		m->h.status = ETIMEDOUT;
		push(m);
	}
}

static void link_up(void)
{
	struct ohca_link_state st;
	const struct ohca_link_cfg *p = ohca_link_peer(s.ep.l);

	ohca_link_get_state(s.ep.l, &st);
	ib_port_negotiate(&s.pi, st.width, st.speed, st.speed_ext, p->mtu_cap,
			  p->vl_cap >= 15 ? 5 : p->vl_cap >= 8 ? 4 : p->vl_cap >= 4 ? 3 :
			  p->vl_cap);
	ib_port_link_up(&s.pi);
}

static void link_down(void)
{
	ib_trap_clear(&s.end.traps);
	ib_port_link_down(&s.pi, s.pi.phys_state == IB_PHYS_DISABLED ? IB_PHYS_DISABLED :
								       IB_PHYS_POLLING);
}

static void *io(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&s.lock);
	while (!s.stop) {
		struct pollfd pf[2] = {
			{ .fd = ohca_link_event_fd(s.ep.l), .events = POLLIN },
			{ .fd = ohca_link_ctrl_fd(s.ep.l), .events = POLLIN },
		};
		enum ohca_link_event ev;
		uint8_t pkt[512];

		while ((ev = ohca_link_ctrl(s.ep.l)) != OHCA_LINK_EV_NONE) {
			if (ev == OHCA_LINK_EV_UP)
				link_up();
			else
				link_down();
		}
		for (unsigned int vl = 0; vl < 16; vl++) {
			struct ib_pkt_info pi;
			size_t len;

			while ((len = ep_recv(&s.ep, vl, pkt, sizeof(pkt)))) {
				if (ib_pkt_parse(pkt, len, &pi) != IB_PKT_OK ||
				    pi.opcode != IB_OP_UD_SEND_ONLY ||
				    pi.payload_len != IB_MAD_LEN)
					continue;
				if (vl == 15)
					rx_smp(pkt, &pi);
				else if (pi.dqpn == 1)
					rx_gsi(pkt, &pi);
			}
		}
		expire();
		ib_sma_timer(&s.sma, (uint64_t)now_ms() * 1000000);
		if (!ohca_link_prepare_sleep(s.ep.l))
			continue;
		pthread_mutex_unlock(&s.lock);
		poll(pf, 2, 10);
		pthread_mutex_lock(&s.lock);
		ohca_link_awake(s.ep.l, true);
	}
	pthread_mutex_unlock(&s.lock);
	return NULL;
}

/* ---- libibumad ----------------------------------------------------------------- */

int umad_init(void)
{
	const char *guid = getenv("OHCA_GUID");

	s.guid = guid ? strtoull(guid, NULL, 16) : 1;
	return getenv("OHCA_FABRIC") ? 0 : -1;
}

/* The library's own versions ask the kernel which layout it has. */
size_t umad_size(void)
{
	return sizeof(struct ib_user_mad);
}

void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

int umad_set_pkey(void *umad, int pkey_index)
{
	((struct ib_user_mad *)umad)->addr.pkey_index = (uint16_t)pkey_index;
	return 0;
}

int umad_get_pkey(void *umad)
{
	return ((struct ib_user_mad *)umad)->addr.pkey_index;
}

int umad_done(void)
{
	return 0;
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	if (max < 1)
		return 0;
	strcpy(cas[0], CA);
	return 1;
}

struct umad_device_node *umad_get_ca_device_list(void)
{
	struct umad_device_node *n = calloc(1, sizeof(*n));

	if (n)
		n->ca_name = CA;
	return n;
}

void umad_free_ca_device_list(struct umad_device_node *head)
{
	free(head);
}

static void agents_init(void)
{
	static const struct ib_trap_room room = { .slots = TRAPS, .security = 2, .each = 1 };
	static const struct ib_sma_ops ops = {
		.port = agent_port,
		.sl2vl = agent_sl2vl,
		.changed = agent_changed,
		.send_trap = agent_send_trap,
	};
	static const struct ib_port_profile prof = {
		.width = 3, .speed = 7, .speed_ext = 3, .mtu_cap = 5, .vl_cap = 4,
		.vlarb_cap = 8, .guid_cap = 8,
		.cap_mask = IB_CAP_NOTICE | IB_CAP_TRAP | IB_CAP_SL_MAP | IB_CAP_CLIENT_REREG,
	};

	ib_port_info_init(&s.pi, &prof, 1, IB_PI_CA);
	s.pkeys[0] = IB_DEFAULT_PKEY;
	s.guids[0] = s.guid;
	snprintf(s.desc, sizeof(s.desc), "host%u " CA, (unsigned int)s.guid);
	ib_trap_init(&s.end.traps, s.trap, &room, 1);
	s.end.lease_ns = UINT64_MAX;
	s.sma = (struct ib_sma){
		.ops = &ops,
		.sys_guid = s.guid,
		.node_guid = s.guid,
		.vendor_id = 0x1234,
		.num_ports = 1,
		.type = IB_NODE_CHANNEL_ADAPTER,
		.desc = s.desc,
	};
	s.pma_port.ctr = &s.ctr;
	ib_sl2vl_init(&s.sl2vl, 8);
	ib_vlarb_init(&s.arb, 8, 8);
}

static int ensure_open(void)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_err err;
	struct ohca_link_cfg cfg;

	if (s.open)
		return 0;
	agents_init();
	ohca_link_cfg_init(&cfg);
	cfg.node_guid = cfg.port_guid = s.guid;
	snprintf(cfg.desc, sizeof(cfg.desc), "host%u", (unsigned int)s.guid);
	s.ep.l = ohca_link_connect(getenv("OHCA_FABRIC"), &cfg, 30000, &err);
	if (!s.ep.l) {
		fprintf(stderr, "umad_shim: %s\n", err.text);
		return -1;
	}
	s.fd = eventfd(0, EFD_SEMAPHORE);
	ohca_link_train(s.ep.l, &phy);
	if (s.fd < 0 || pthread_create(&s.thread, NULL, io, NULL))
		return -1;
	s.open = true;
	for (int i = 0; i < 2000; i++) {
		bool ok;

		pthread_mutex_lock(&s.lock);
		ok = s.pi.state >= (getenv("OHCA_WAIT_ACTIVE") ? IB_PS_ACTIVE : IB_PS_INIT);
		pthread_mutex_unlock(&s.lock);
		if (ok)
			return 0;
		usleep(10000);
	}
	fprintf(stderr, "umad_shim: the port did not come up\n");
	return -1;
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	(void)ca_name;
	(void)portnum;
	if (ensure_open())
		return -1;
	memset(port, 0, sizeof(*port));
	pthread_mutex_lock(&s.lock);
	strcpy(port->ca_name, CA);
	port->portnum = 1;
	port->base_lid = s.pi.lid;
	port->lmc = s.pi.lmc;
	port->sm_lid = s.pi.sm_lid;
	port->sm_sl = s.pi.sm_sl;
	port->state = s.pi.state;
	port->phys_state = s.pi.phys_state;
	port->rate = 100;
	port->capmask = ib_to_be32(s.pi.cap_mask);
	port->gid_prefix = ib_to_be64(s.pi.gid_prefix);
	port->port_guid = ib_to_be64(s.guid);
	port->pkeys_size = PKEYS;
	port->pkeys = malloc(sizeof(s.pkeys));
	if (port->pkeys)
		memcpy(port->pkeys, s.pkeys, sizeof(s.pkeys));
	strcpy(port->link_layer, "InfiniBand");
	pthread_mutex_unlock(&s.lock);
	return 0;
}

int umad_release_port(umad_port_t *port)
{
	free(port->pkeys);
	port->pkeys = NULL;
	return 0;
}

int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	(void)ca_name;
	memset(ca, 0, sizeof(*ca));
	strcpy(ca->ca_name, CA);
	ca->node_type = 1;
	ca->numports = 1;
	ca->node_guid = ca->system_guid = ib_to_be64(s.guid);
	ca->ports[1] = calloc(1, sizeof(umad_port_t));
	return umad_get_port(CA, 1, ca->ports[1]);
}

int umad_release_ca(umad_ca_t *ca)
{
	if (ca->ports[1])
		umad_release_port(ca->ports[1]);
	free(ca->ports[1]);
	ca->ports[1] = NULL;
	return 0;
}

int umad_get_ca_portguids(const char *ca_name, __be64 *guids, int max)
{
	(void)ca_name;
	if (max < 2)
		return -ENOMEM;
	guids[0] = 0;
	guids[1] = ib_to_be64(s.guid);
	return 2;
}

int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	(void)ca_name;
	(void)portnum;
	pthread_mutex_lock(&s.lock);
	s.pi.cap_mask |= IB_CAP_SM;
	pthread_mutex_unlock(&s.lock);
	snprintf(path, (size_t)max, "/dev/null");
	return 0;
}

int umad_open_port(const char *ca_name, int portnum)
{
	(void)ca_name;
	(void)portnum;
	return ensure_open() ? -EIO : 0;
}

int umad_close_port(int portid)
{
	(void)portid;
	return 0;
}

int umad_get_fd(int portid)
{
	(void)portid;
	return s.fd;
}

static int add_agent(int class, const uint64_t methods[2])
{
	int i;

	pthread_mutex_lock(&s.lock);
	for (i = 0; i < MAX_AGENTS && s.agent[i].used; i++)
		;
	if (i < MAX_AGENTS) {
		s.agent[i].used = true;
		s.agent[i].class = (uint8_t)class;
		memcpy(s.agent[i].methods, methods, 16);
	}
	pthread_mutex_unlock(&s.lock);
	return i < MAX_AGENTS ? i : -ENOMEM;
}

int umad_register(int portid, int class, int version, uint8_t rmpp, long mask[16 / sizeof(long)])
{
	uint64_t m[2] = { 0 };

	(void)portid;
	(void)version;
	(void)rmpp;
	if (mask)
		memcpy(m, mask, sizeof(m));
	return add_agent(class, m);
}

int umad_register_oui(int portid, int class, uint8_t rmpp, uint8_t oui[3],
		      long mask[16 / sizeof(long)])
{
	(void)oui;
	return umad_register(portid, class, 1, rmpp, mask);
}

int umad_register2(int portid, struct umad_reg_attr *a, uint32_t *id)
{
	int r = add_agent(a->mgmt_class, a->method_mask);

	(void)portid;
	if (r < 0)
		return -r;
	*id = (uint32_t)r;
	return 0;
}

int umad_unregister(int portid, int id)
{
	(void)portid;
	pthread_mutex_lock(&s.lock);
	if (id >= 0 && id < MAX_AGENTS)
		s.agent[id].used = false;
	pthread_mutex_unlock(&s.lock);
	return 0;
}

int umad_send(int portid, int id, void *umad, int length, int timeout_ms, int retries)
{
	struct umad_msg m = { 0 };
	struct ib_mad_hdr *h = (void *)m.mad;
	unsigned int i;

	(void)portid;
	if (length < 0)
		return -EINVAL;
	memcpy(&m.h, umad, sizeof(m.h));
	memcpy(m.mad, (uint8_t *)umad + sizeof(m.h),
	       (size_t)length < IB_MAD_LEN ? (size_t)length : IB_MAD_LEN);
	m.h.agent_id = (uint32_t)id;
	m.h.status = 0;
	m.h.timeout_ms = (uint32_t)timeout_ms;
	m.h.retries = (uint32_t)retries;
	m.h.length = UMAD;
	pthread_mutex_lock(&s.lock);
	if (!(h->method & IB_METHOD_RESP) && h->method != IB_METHOD_TRAP_REPRESS)
		h->tid = ib_to_be64((ib_be64(h->tid) & 0xffffffff) | (uint64_t)(id + 1) << 32);
	if (timeout_ms > 0) {
		for (i = 0; i < MAX_PENDING && s.pending[i].used; i++)
			;
		if (i == MAX_PENDING) {
			pthread_mutex_unlock(&s.lock);
			return -ENOSPC;
		}
		s.pending[i].used = true;
		s.pending[i].deadline = now_ms() + timeout_ms;
		s.pending[i].m = m;
	}
	transmit(&m);
	pthread_mutex_unlock(&s.lock);
	return 0;
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	volatile bool timed_out = false;
	volatile int id = 0;
	struct timespec ts;
	uint64_t n;

	(void)portid;
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += timeout_ms / 1000;
	ts.tv_nsec += timeout_ms % 1000 * 1000000l;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	pthread_mutex_lock(&s.lock);
	/* OpenSM ends its receiver by cancelling it here. */
	pthread_cleanup_push(unlock, &s.lock);
	while (!s.count && !timed_out) {
		if (timeout_ms < 0)
			pthread_cond_wait(&s.cond, &s.lock);
		else
			timed_out = !timeout_ms ||
				    pthread_cond_timedwait(&s.cond, &s.lock, &ts) == ETIMEDOUT;
	}
	if (s.count) {
		struct umad_msg *m = &s.queue[s.head];

		memcpy(umad, &m->h, sizeof(m->h));
		memcpy((uint8_t *)umad + sizeof(m->h), m->mad,
		       (size_t)*length < IB_MAD_LEN ? (size_t)*length : IB_MAD_LEN);
		*length = IB_MAD_LEN;
		id = (int)m->h.agent_id;
		s.head = (s.head + 1) % MAX_QUEUE;
		s.count--;
		timed_out = false;
		if (read(s.fd, &n, sizeof(n)) < 0)
			abort();
	}
	pthread_cleanup_pop(1);
	if (timed_out) {
		errno = ETIMEDOUT;
		return -ETIMEDOUT;
	}
	return id;
}

int umad_poll(int portid, int timeout_ms)
{
	struct pollfd pf = { .fd = s.fd, .events = POLLIN };

	(void)portid;
	return poll(&pf, 1, timeout_ms) == 1 ? 0 : -ETIMEDOUT;
}
