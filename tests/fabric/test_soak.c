// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A fabric with one switch in its own thread and four end ports in theirs sends all to all on two
 * lanes; each thread sleeps when it is idle. In the first part no packet may be lost, duplicated,
 * damaged or reordered. In the second part links retrain and nodes detach and attach again; packets
 * that arrive must be correct, and afterwards everything must work again.
 *
 * test_soak [SECONDS] of the second part
 */
#include "ep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "fabric/graph/generate.h"
#include "fabric/serve.h"

#define EPS	4u
#define VLS	2u
#define COUNT	5000u		/* packets for each pair and lane */
#define HDR	(IB_LRH_LEN + IB_BTH_LEN)

/* Follows the headers of every packet. */
struct stamp {
	uint32_t from, to, vl, seq, life, seed;
};

struct node {
	struct ep ep;
	unsigned int id;
	pthread_t thread;
	unsigned int rand;
	uint32_t life;			/* changes when the node restarts */
	uint32_t tx[EPS][VLS], rx[EPS][VLS];
	uint32_t rx_life[EPS][VLS];	/* lanes may overtake others */
	uint64_t received;
	bool trouble;			/* missing packets are no failure */
};

static char path[64];
static atomic_uint failures;
static atomic_bool stop;
static atomic_uint done;

#define FAIL(...) do {								\
	if (atomic_fetch_add(&failures, 1) < 10) {				\
		fprintf(stderr, "FAIL: " __VA_ARGS__);				\
		fputc('\n', stderr);						\
	}									\
} while (0)

static void fill(uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245u + 12345;
		p[i] = (uint8_t)(seed >> 16);
	}
}

static bool send_one(struct node *n, unsigned int to, unsigned int vl)
{
	size_t body = sizeof(struct stamp) + (rand_r(&n->rand) % 8 ?
		      (unsigned int)rand_r(&n->rand) % 16 : (unsigned int)rand_r(&n->rand) % 1000) * 4;
	size_t len = HDR + body + IB_ICRC_LEN;
	struct stamp s = { n->id, to, vl, n->tx[to][vl], n->life, (uint32_t)rand_r(&n->rand) };
	uint8_t *p = ohca_link_tx_begin(n->ep.l, vl, len);

	if (!p)
		return false;
	ib_build_bth(ib_build_lrh(p, (uint8_t)vl, (uint8_t)vl, IB_LNH_IBA_LOCAL,
				  (uint16_t)(to + 2), (uint16_t)(len / 4), (uint16_t)(n->id + 2)),
		     IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 1, false, 0);
	memcpy(p + HDR, &s, sizeof(s));
	fill(p + HDR + sizeof(s), len - HDR - sizeof(s), s.seed);
	ohca_link_tx_commit(n->ep.l, vl, len, 0);
	n->tx[to][vl]++;
	return true;
}

static void check_one(struct node *n, const struct ohca_link_frame *f)
{
	uint8_t want[OHCA_LINK_MAX_FRAME];
	struct stamp s;
	size_t rest = f->len - HDR - sizeof(s);

	if (f->len < HDR + sizeof(s) + IB_ICRC_LEN) {
		FAIL("node %u got a packet of %u bytes", n->id, f->len);
		return;
	}
	memcpy(&s, f->data + HDR, sizeof(s));
	if (s.from >= EPS || s.to != n->id || s.vl != f->vl) {
		FAIL("node %u VL %u got a packet of %u for %u VL %u", n->id, f->vl, s.from, s.to,
		     s.vl);
		return;
	}
	fill(want, rest, s.seed);
	if (memcmp(want, f->data + HDR + sizeof(s), rest))
		FAIL("node %u got a damaged packet from %u", n->id, s.from);
	if (s.life != n->rx_life[s.from][s.vl]) {
		if (s.life < n->rx_life[s.from][s.vl])
			FAIL("node %u got a packet of an earlier life of %u", n->id, s.from);
		n->rx_life[s.from][s.vl] = s.life;
		n->rx[s.from][s.vl] = 0;
	}
	if (n->trouble ? s.seq < n->rx[s.from][s.vl] : s.seq != n->rx[s.from][s.vl])
		FAIL("node %u expected %u from %u on VL %u, got %u", n->id,
		     n->rx[s.from][s.vl], s.from, s.vl, s.seq);
	n->rx[s.from][s.vl] = s.seq + 1;
	n->received++;
}

/* Receive all packets, send a few. Return: whether anything happened. */
static bool turn(struct node *n, uint32_t limit)
{
	struct ohca_link_frame f;
	bool busy = false;

	for (unsigned int vl = 0; vl < VLS; vl++) {
		for (int k = 0; k < 64 && ohca_link_rx_peek(n->ep.l, vl, &f); k++) {
			check_one(n, &f);
			ohca_link_rx_release(n->ep.l, vl);
			busy = true;
		}
	}
	for (unsigned int k = 0; k < 16; k++) {
		unsigned int to = (unsigned int)rand_r(&n->rand) % EPS;
		unsigned int vl = (unsigned int)rand_r(&n->rand) % VLS;

		if (to != n->id && n->tx[to][vl] < limit && send_one(n, to, vl))
			busy = true;
	}
	/* The random choices may have missed packets that remain to be sent. */
	for (unsigned int to = 0; !busy && to < EPS; to++)
		for (unsigned int vl = 0; vl < VLS; vl++)
			if (to != n->id && n->tx[to][vl] < limit && send_one(n, to, vl))
				busy = true;
	simple_step(n->ep.l);
	return busy;
}

static bool join_fabric(struct node *n)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x10 + n->id;
	cfg.want_port = (uint8_t)(n->id + 1);
	cfg.vl_cap = VLS;
	n->ep.port = n->id + 1;
	n->ep.lid = (uint16_t)(n->id + 2);
	n->ep.l = ohca_link_connect(path, &cfg, 30000, &err);
	if (!n->ep.l) {
		FAIL("node %u: %s", n->id, err.text);
		return false;
	}
	ohca_link_train(n->ep.l, &phy);
	return true;
}

static void *peace(void *arg)
{
	struct node *n = arg;
	uint64_t all = (uint64_t)(EPS - 1) * VLS * COUNT;

	while (n->received < all && !failures) {
		if (!turn(n, COUNT) && !simple_nap(n->ep.l, 30000)) {
			FAIL("node %u waits in vain, %lu of %lu received", n->id,
			     (unsigned long)n->received, (unsigned long)all);
			break;
		}
	}
	/* Other nodes may still send to this one: keep the link up. */
	done++;
	while (done < EPS)
		if (!turn(n, COUNT))
			simple_nap(n->ep.l, 10);
	return NULL;
}

/* Node 0 is the subnet manager: it activates ports that have come up again. */
static void manage(struct node *n)
{
	for (unsigned int i = 1; i < EPS; i++)
		ep_set_state(&n->ep, i + 1, IB_PS_ACTIVE);
}

static void *war(void *arg)
{
	struct ohca_link_phy phy = ep_phy();
	struct node *n = arg;

	while (!stop) {
		if (!turn(n, UINT32_MAX))
			simple_nap(n->ep.l, 2);
		while (ohca_link_ctrl(n->ep.l) != OHCA_LINK_EV_NONE)
			;
		if (n->id == 0) {
			if (rand_r(&n->rand) % 512 == 0)
				manage(n);
			continue;
		}
		switch (rand_r(&n->rand) % 2048) {
		case 0:
			ohca_link_train(n->ep.l, &phy);
			break;
		case 1:		/* the node restarts; sequence numbers begin at zero */
			ohca_link_free(n->ep.l);
			n->life++;
			memset(n->tx, 0, sizeof(n->tx));
			if (!join_fabric(n))
				return NULL;
			break;
		case 2:		/* a protocol violation: the fabric detaches the node */
			send(ohca_link_ctrl_fd(n->ep.l), "evil one", 8,
			     MSG_DONTWAIT | MSG_NOSIGNAL);
			break;
		default:
			break;
		}
		if (ohca_link_ctrl_fd(n->ep.l) < 0) {
			ohca_link_free(n->ep.l);
			n->life++;
			memset(n->tx, 0, sizeof(n->tx));
			if (!join_fabric(n))
				return NULL;
		}
	}
	return NULL;
}

static atomic_bool is_ready;

static void ready(void *arg, struct fab_data *d, struct fab_hcas *hcas)
{
	(void)arg;
	(void)d;
	(void)hcas;
	is_ready = true;
}

static bool stop_loop(void *arg, int fd)
{
	(void)arg;
	(void)fd;
	return false;
}

struct loop_arg {
	struct fab *f;
	struct fab_serve_cfg cfg;
};

static void *loop_thread(void *arg)
{
	struct loop_arg *a = arg;

	if (fab_serve(a->f, &a->cfg))
		FAIL("the fabric's loop failed");
	return NULL;
}

/* Six hosts at a switch with the smallest buffers, so that they wait for credits most often. */
static bool start(struct loop_arg *a, const struct fab_serve_hooks *hooks, pthread_t *th)
{
	char why[256];

	a->f = fab_new();
	if (!a->f)
		return false;
	a->f->vls = VLS;
	if (!fab_generate(a->f, "star:6", why, sizeof(why)) || !fab_seal(a->f))
		return false;
	a->cfg = (struct fab_serve_cfg){
		.listen = path,
		.hosts_off = true,
		.quiet = true,
		.data = { .shift = 0, .hoq_scale = 1 },
		.hooks = hooks,
	};
	if (pthread_create(th, NULL, loop_thread, a))
		return false;
	while (!is_ready)
		usleep(1000);
	return true;
}

/* Counters of port @n of the switch. */
static const struct ohca_port_counters *counters(struct fab *f, unsigned int n)
{
	for (uint32_t i = 0; i < f->nodes; i++)
		if (f->node[i].sw != FAB_NONE)
			return &fab_extra(f, fab_port_of(&f->node[i], n))->ctr;
	abort();
}

static void run(struct node *node, void *(*fn)(void *), unsigned int seconds)
{
	for (unsigned int i = 0; i < EPS; i++)
		pthread_create(&node[i].thread, NULL, fn, &node[i]);
	if (seconds) {
		sleep(seconds);
		stop = true;
	}
	for (unsigned int i = 0; i < EPS; i++)
		pthread_join(node[i].thread, NULL);
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 1 ? (unsigned int)atoi(argv[1]) : 8;
	static struct node node[EPS];
	char dir[] = "/tmp/ohca-soak-XXXXXX";
	struct fab_serve_hooks hooks = { .ready = ready, .event = stop_loop };
	struct loop_arg la = { 0 };
	pthread_t th;
	int p[2];

	if (!mkdtemp(dir) || pipe(p))
		return 1;
	snprintf(path, sizeof(path), "%s/s", dir);
	hooks.fd = p[0];
	if (!start(&la, &hooks, &th))
		return 1;
	for (unsigned int i = 0; i < EPS; i++) {
		node[i].id = i;
		node[i].rand = i + 1;
		if (!join_fabric(&node[i]) || simple_up(node[i].ep.l, 30000))
			return 1;
	}
	struct ep eps[EPS];

	for (unsigned int i = 0; i < EPS; i++)
		eps[i] = node[i].ep;
	if (ep_bring_up(eps, EPS))
		FAIL("bring-up");
	node[0].ep.tid = eps[0].tid;

	run(node, peace, 0);
	printf("soak: %u packets in peace\n", EPS * (EPS - 1) * VLS * COUNT);

	for (unsigned int i = 0; i < EPS; i++)
		node[i].trouble = true;
	if (!failures)
		run(node, war, seconds);
	/* Afterwards everything works as in the first part. */
	for (unsigned int i = 0; i < EPS && !failures; i++) {
		ohca_link_free(node[i].ep.l);
		node[i].life++;
		node[i].received = 0;
		node[i].trouble = false;
		memset(node[i].tx, 0, sizeof(node[i].tx));
	}
	for (unsigned int i = 0; i < EPS && !failures; i++)
		if (!join_fabric(&node[i]) || simple_up(node[i].ep.l, 30000))
			FAIL("node %u does not come up again", i);
	if (!failures) {
		if (ep_set_state(&node[0].ep, 1, IB_PS_ACTIVE))
			FAIL("port 1");
		manage(&node[0]);
		done = 0;
		run(node, peace, 0);
	}
	for (unsigned int i = 0; i < EPS; i++)
		ohca_link_free(node[i].ep.l);
	if (write(p[1], "x", 1) != 1)
		FAIL("pipe");
	pthread_join(th, NULL);
	for (unsigned int i = 1; i <= EPS; i++)
		printf("soak: port %u went down %lu times\n", i,
		       (unsigned long)counters(la.f, i)->link_downed);
	if (!counters(la.f, 2)->link_downed)
		FAIL("there was no trouble at all");
	fab_free(la.f);
	close(p[0]);
	close(p[1]);
	rmdir(dir);
	puts(failures ? "FAIL: soak" : "PASS: soak");
	return failures ? 1 : 0;
}
