/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Engines in two subnets with a router between them, by links and hosted by the fabric: RC and UD
 * with GRHs. Each subnet has its own subnet manager, and both have the same LIDs.
 */
#define HOSTS 2u
#include "world.h"

#include "fabric/graph/names.h"

#define PREFIX(i)	(0xfec0000000000001ull + (i))
#define ROUTER_LID	9u
#define ROUTER_PORT	8u
#define MANAGER_GUID(i)	(0x900u + 0x100 * (i))	/* its PortGUID is one more */
#define QKEY		0x11u

/* Adds a switch with a manager at port 1, engine @i at port 2 and the router at port 8. */
static uint32_t add_subnet(struct fab *f, unsigned int i, uint32_t router)
{
	const uint32_t sw = fab_add_node(f, IB_NODE_SWITCH_DEVICE, ROUTER_PORT, 0xa0 + i, "sw", 2);
	const uint64_t guid[2] = { MANAGER_GUID(i), 0x1000 * (i + 1) };

	for (unsigned int k = 0; k < 2; k++) {
		const uint32_t n = fab_add_node(f, IB_NODE_CHANNEL_ADAPTER, 1, guid[k], "host", 4);

		fab_cable(f, fab_port_of(&f->node[sw], k + 1), fab_port_of(&f->node[n], 1));
	}
	fab_cable(f, fab_port_of(&f->node[sw], ROUTER_PORT), fab_port_of(&f->node[router], i + 1));
	return sw;
}

/* Sends a Get or Set to the node behind port @port of the switch of @sm. */
static void behind(struct ep *sm, unsigned int port, uint8_t method, uint16_t attr, uint32_t mod,
		   uint8_t data[64])
{
	const uint8_t path[2] = { 1, (uint8_t)port };
	struct ib_smp smp;

	ep_smp_init(sm, &smp, method, attr, mod, data, 2, path);
	assert_int_equal(ep_query(sm, &smp), 0);
	memcpy(data, smp.data, 64);
}

static void set_end(struct ep *sm, unsigned int port, uint32_t num, uint16_t lid, uint64_t prefix,
		    uint8_t state)
{
	struct ib_port_info pi;
	uint8_t b[64] = { 0 };

	behind(sm, port, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, num, b);
	ib_port_info_unpack(b, &pi);
	pi.lid = lid;
	pi.gid_prefix = prefix;
	pi.sm_lid = SM_LID;
	pi.mtu = pi.mtu_cap;
	pi.state = state;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	pi.down_default = 0;
	ib_port_info_pack(&pi, b);
	behind(sm, port, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, num, b);
}

/* Sets up the subnet of engine @i, as its manager. */
static void manage(struct world *w, unsigned int i)
{
	struct ep *sm = &w->net->ep[i];
	uint8_t b[64];

	assert_int_equal(ep_bring_up(sm, 1), 0);
	memset(b, IB_LFT_NO_PORT, sizeof(b));
	b[1] = 0;
	b[SM_LID] = 1;
	b[LID(0)] = 2;
	b[ROUTER_LID] = ROUTER_PORT;
	assert_int_equal(ep_switch(sm, IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, b), 0);
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++) {
		set_end(sm, 2, 1, LID(0), PREFIX(i), state);
		set_end(sm, ROUTER_PORT, i + 1, ROUTER_LID, PREFIX(i), state);
		assert_int_equal(ep_set_state(sm, 2, state), 0);
		assert_int_equal(ep_set_state(sm, ROUTER_PORT, state), 0);
	}
	assert_int_equal(w->h[i]->e->port[0].lid, LID(0));
	assert_int_equal(w->h[i]->e->port[0].state, IB_PS_ACTIVE);
}

static int setup_routed(void **state, bool hosted)
{
	struct world *w = calloc(1, sizeof(*w));
	struct fab *f = fab_new();
	const uint32_t router = fab_add_node(f, IB_NODE_ROUTER_DEVICE, 2, 0xc0, "router", 6);
	const uint32_t sw[2] = { add_subnet(f, 0, router), add_subnet(f, 1, router) };
	struct ohca_link_err err;

	assert_true(fab_seal(f));
	w->net = net_of(f, sw[0], 3);
	net_stop_clock(w->net);
	for (unsigned int i = 0; i < 2; i++, w->net->n++) {
		assert_int_equal(net_attach(w->net, &w->net->ep[i], MANAGER_GUID(i) + 1, 0, NULL,
					    &err), 0);
		w->net->ep[i].drive = pump;
		w->net->ep[i].arg = w;
	}
	w->sm = &w->net->ep[0];
	if (hosted)
		w->hcas = fab_hcas_new(w->net->d);
	for (unsigned int i = 0; i < HOSTS; i++) {
		struct node *n = &w->node[i];

		w->net->sw = sw[i];
		if (hosted)
			host_node(w, i, 2);
		else
			connect_node(w, i);
		n->h->now = &w->net->now_ns;
		w->n++;
		host_start(n->h);
		host_cq_create(n->h, &n->cq, 8, 0);
		host_mr_create(n->h, &n->mr, MR_LEN, n->h->pdn, 0xf);
		n->h->hop_limit = 64;
		ib_put_be64(n->h->dgid, PREFIX(!i));
		ib_put_be64(n->h->dgid + 8, 0x1000 * (!i + 1) + 1);
	}
	pump(w);
	for (unsigned int i = 0; i < HOSTS; i++)
		manage(w, i);
	*state = w;
	return 0;
}

static int setup_links(void **state)
{
	return setup_routed(state, false);
}

static int setup_hcas(void **state)
{
	return setup_routed(state, true);
}

static struct ohca_port_counters *router_counters(const struct world *w, unsigned int num)
{
	const uint32_t i = fab_find_node(w->net->f, "router");

	return &fab_extra(w->net->f, fab_port_of(&w->net->f->node[i], num))->ctr;
}

static void connect_pair(struct world *w, struct host_qp qp[2], uint16_t lid)
{
	for (unsigned int k = 0; k < 2; k++) {
		struct node *n = &w->node[k];
		struct host_qp_init in = { .type = OHCA_QPT_RC, .scq = &n->cq, .rcq = &n->cq };

		assert_int_equal(host_qp_create(n->h, &qp[k], &in), 0);
	}
	for (unsigned int k = 0; k < 2; k++)
		host_qp_connect(&qp[k], 0, lid, qp[!k].qpn, 5, 100 + k, 101 - k);
}

/* A ping and its reply, and more RDMA than the credits allow at once, in both directions. */
static void test_rc_across(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	connect_pair(w, qp, ROUTER_LID);
	for (unsigned int k = 0; k < 10; k++) {
		struct node *from = &w->node[k % 2], *to = &w->node[!(k % 2)];
		struct ohca_hw_sge sge = host_sge(to->mr.iova + 4096, 3000, to->mr.key);
		struct wqe q = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, k);

		host_post_recv(&qp[!(k % 2)], 50 + k, &sge, 1);
		fill(from, 0, 3000, k);
		wqe_sge(&q, from->mr.iova, 3000, from->mr.key);
		wqe_post(&qp[k % 2], &q);
		pump(w);
		wc(&from->cq, k, WC_SUCCESS);
		assert_int_equal(wc(&to->cq, 50 + k, WC_SUCCESS).byte_len, 3000);
		check(to, 4096, 3000, k);
	}
	for (unsigned int k = 0; k < 2; k++) {
		struct node *x = &w->node[k], *y = &w->node[!k];

		fill(x, 0, 1 << 20, 77 + k);
		rdma(&qp[k], x, y, OHCA_OP_RDMA_WRITE, 0, 1 << 20, 1 << 20);
		pump(w);
		wc(&x->cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
		check(y, 1 << 20, 1 << 20, 77 + k);
		rdma(&qp[k], x, y, OHCA_OP_RDMA_READ, 1 << 20, 1 << 20, 300001);
		pump(w);
		wc(&x->cq, OHCA_OP_RDMA_READ, WC_SUCCESS);
		check(x, 1 << 20, 300001, 77 + k);
		assert_int_equal(host_counter(x->h, OHCA_CNT_ACK_TIMEOUT), 0);
		assert_true(router_counters(w, 2 - k)->xmit_pkts > 256);
		assert_int_equal(router_counters(w, k + 1)->rcv_switch_relay_errors, 0);
	}
	done(qp);
}

/* If the hop limit is used up, the requester retries until it gives up. */
static void test_hop_limit(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	w->h[0]->hop_limit = 1;
	connect_pair(w, qp, ROUTER_LID);
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 1 << 20, 100);
	pass(w, 1000 * HOST_MS);
	wc(&w->node[0].cq, OHCA_OP_RDMA_WRITE, WC_RETRY_EXC);
	assert_true(w->net->d->n.drop[FAB_DROP_HOP_LIMIT] > 1);
	assert_int_equal(router_counters(w, 1)->rcv_switch_relay_errors,
			 w->net->d->n.drop[FAB_DROP_HOP_LIMIT]);
	done(qp);
}

static void post_ud(struct node *n, struct host_qp *qp, uint32_t dqpn, uint16_t lid,
		    const uint8_t dgid[16])
{
	struct ohca_hw_av av = { .dqpn = dqpn, .qkey = QKEY, .dlid = lid, .flags = OHCA_AV_GRH,
				 .hop_limit = 64 };
	struct wqe q = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 1);

	memcpy(av.dgid, dgid, sizeof(av.dgid));
	memcpy(q.b + 16 * q.nseg, &av, sizeof(av));
	q.nseg += 3;
	wqe_sge(&q, n->mr.iova, 1000, n->mr.key);
	wqe_post(qp, &q);
}

/* A datagram; the answer goes to the source in its GRH and its SLID. */
static void test_ud_across(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];
	struct ohca_hw_cqe c;
	struct ib_grh grh;

	for (unsigned int k = 0; k < 2; k++) {
		struct node *n = &w->node[k];
		struct host_qp_init in = { .type = OHCA_QPT_UD, .scq = &n->cq, .rcq = &n->cq };
		struct ohca_hw_sge sge = host_sge(n->mr.iova + 4096, 2048, n->mr.key);

		assert_int_equal(host_qp_create(n->h, &qp[k], &in), 0);
		host_qp_datagram(&qp[k], 0, QKEY);
		host_post_recv(&qp[k], 50 + k, &sge, 1);
		fill(n, 0, 1000, k);
	}
	post_ud(&w->node[0], &qp[0], qp[1].qpn, ROUTER_LID, w->h[0]->dgid);
	pump(w);
	wc(&w->node[0].cq, 1, WC_SUCCESS);
	c = wc(&w->node[1].cq, 51, WC_SUCCESS);
	assert_int_equal(c.byte_len, 1040);
	assert_int_equal(c.slid, ROUTER_LID);
	check(&w->node[1], 4096 + 40, 1000, 0);
	host_buf_read(w->h[1], &w->node[1].mr.buf, 4096, &grh, sizeof(grh));
	assert_int_equal(grh.hoplimit, 63);
	assert_memory_equal(grh.dgid, w->h[0]->dgid, 16);
	assert_memory_equal(grh.sgid, w->h[1]->dgid, 16);

	post_ud(&w->node[1], &qp[1], c.src_qp, c.slid, grh.sgid);
	pump(w);
	wc(&w->node[1].cq, 1, WC_SUCCESS);
	assert_int_equal(wc(&w->node[0].cq, 50, WC_SUCCESS).byte_len, 1040);
	check(&w->node[0], 4096 + 40, 1000, 1);
	done(qp);
}

int main(void)
{
#define T(name, how) cmocka_unit_test_setup_teardown(name, setup_##how, teardown)
	const struct CMUnitTest tests[] = {
		T(test_rc_across, links), T(test_rc_across, hcas),
		T(test_ud_across, links), T(test_ud_across, hcas),
		T(test_hop_limit, links), T(test_hop_limit, hcas),
	};

	return cmocka_run_group_tests_name("engines at a router", tests, NULL, NULL);
}
