/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The wires between a switch and its HCAs, with links and with HCAs that the fabric hosts:
 * counters, captures, faults, packets that wait. Both kinds must behave in the same way.
 */
#include "world.h"

#include <errno.h>
#include <poll.h>

#include "fabric/data/hport_priv.h"
#include "fabric/fault/fault.h"
#include "fabric/hca/hca_priv.h"
#include "fabric/watch/capture.h"
#include "fabric/watch/pcapng.h"

#define MS	HOST_MS
#define ROUNDS	20u	/* of a test that sends an SMP in each round */

/* The port of the switch at which node @i is, in the graph; and the node's own port. */
static uint32_t near_port(struct world *w, unsigned int i)
{
	return net_index(w->net, w->node[i].ep.port);
}

static uint32_t far_port(struct world *w, unsigned int i)
{
	return w->net->f->port[near_port(w, i)].peer;
}

static struct ohca_port_counters *engine_ctr(struct world *w, unsigned int i)
{
	return &w->h[i]->e->port[0].cnt;
}

/* Writes @len bytes from node 0 to node 1 by RC, within @ns. */
static void write_in(struct world *w, struct host_qp *qp, uint32_t len, uint64_t ns)
{
	fill(&w->node[0], 0, len, len);
	rdma(qp, &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 1 << 20, len);
	pass(w, ns);
	wc(&w->node[0].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	check(&w->node[1], 1 << 20, len, len);
}

/* Packets that leave one end of a wire arrive at the other. */
static void test_counters(void **state)
{
	struct world *w = *state;
	struct ohca_port_counters was[4], *is[4] = {
		engine_ctr(w, 0), net_ctr(w->net, w->node[0].ep.port),
		net_ctr(w->net, w->node[1].ep.port), engine_ctr(w, 1),
	};
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	for (unsigned int i = 0; i < 4; i++)
		was[i] = *is[i];
	write_in(w, &qp[0], 10 * 4096, MS);
	for (unsigned int i = 0; i < 4; i++) {
		const bool there = i % 2;	/* the WRITE arrives, the ACK leaves */
		const uint64_t in = is[i]->rcv_pkts - was[i].rcv_pkts;
		const uint64_t out = is[i]->xmit_pkts - was[i].xmit_pkts;

		assert_int_equal(there ? in : out, 10);
		assert_int_equal(there ? out : in, 1);
		assert_int_equal(is[i]->xmit_wait, was[i].xmit_wait);
		assert_int_equal(is[i]->rcv_errors, was[i].rcv_errors);
	}
	assert_int_equal(is[1]->rcv_data - was[1].rcv_data, is[0]->xmit_data - was[0].xmit_data);
	assert_int_equal(is[3]->rcv_data - was[3].rcv_data, is[2]->xmit_data - was[2].xmit_data);
	assert_true(is[3]->rcv_data - was[3].rcv_data > 10 * 1024);
	done(qp);
}

/* A cable that loses packets: both ends count the losses, and the message arrives. */
static void test_loss(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	assert_true(fab_fault_wire(&w->net->m, near_port(w, 0), 1u << 28, 0, 1));
	assert_true(fab_fault_wire(&w->net->m, near_port(w, 1), 1u << 28, 0, 2));
	write_in(w, &qp[0], 1 << 20, 2000 * MS);
	assert_true(fab_extra_of(w->net->f, far_port(w, 0))->fault->lost > 0);
	assert_true(fab_extra_of(w->net->f, near_port(w, 1))->fault->lost > 0);
	assert_int_equal(net_ctr(w->net, w->node[0].ep.port)->symbol_error,
			 fab_extra_of(w->net->f, far_port(w, 0))->fault->lost);
	assert_int_equal(engine_ctr(w, 1)->rcv_local_phys_errors,
			 fab_extra_of(w->net->f, near_port(w, 1))->fault->lost);
	assert_int_equal(w->net->d->n.drop[FAB_DROP_LOSS],
			 fab_extra_of(w->net->f, far_port(w, 0))->fault->lost +
			 fab_extra_of(w->net->f, far_port(w, 1))->fault->lost +
			 fab_extra_of(w->net->f, near_port(w, 0))->fault->lost +
			 fab_extra_of(w->net->f, near_port(w, 1))->fault->lost);
	done(qp);
}

/* A cable that damages packets: an engine that checks the ICRC detects it, a switch does not. */
static void test_damage(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	for (unsigned int i = 0; i < 2; i++) {
		/* the end of the cable by which the WRITE leaves */
		const uint32_t p = i ? near_port(w, 1) : far_port(w, 0);
		uint64_t was = engine_ctr(w, 1)->rcv_local_phys_errors;

		assert_true(fab_fault_wire(&w->net->m, p, 0, 1u << 28, i));
		pump(w);
		write_in(w, &qp[0], 1 << 20, 2000 * MS);
		was = engine_ctr(w, 1)->rcv_local_phys_errors - was;
		assert_true(was > 10);
		assert_int_equal(was, fab_extra_of(w->net->f, p)->fault->corrupted);
		assert_true(fab_fault_wire(&w->net->m, p, 0, 0, 0));
		pump(w);
	}
	assert_int_equal(net_ctr(w->net, w->node[0].ep.port)->rcv_errors, 0);
	done(qp);
}

/* A cable with a delay: packets arrive when they are due, in both directions. */
static void test_delay(void **state)
{
	struct world *w = *state;
	struct node *x = &w->node[0], *y = &w->node[1];
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	fill(x, 0, 8, 5);
	/* there, and there, and back */
	assert_true(fab_fault_delay(&w->net->m, far_port(w, 0), MS / 4));
	assert_true(fab_fault_delay(&w->net->m, near_port(w, 1), MS / 2));
	assert_true(fab_fault_delay(&w->net->m, far_port(w, 1), MS));
	pump(w);
	rdma(&qp[0], x, y, OHCA_OP_RDMA_WRITE, 0, 4096, 8);
	pass(w, MS * 3 / 4 - 1);
	assert_int_not_equal(*(uint8_t *)host_buf_ptr(y->h, &y->mr.buf, 4096), pattern(0, 5));
	pass(w, 1);
	check(y, 4096, 8, 5);
	pass(w, MS - 1);
	no_wc(&x->cq);
	pass(w, 1);
	wc(&x->cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	done(qp);
}

/*
 * A cable that is pulled and plugged in: both ends detect it, and a message sent meanwhile arrives.
 */
static void test_pulled(void **state)
{
	struct world *w = *state;
	struct ib_port_info *pi = net_pi(w->net, w->node[1].ep.port);
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	assert_true(fab_fault_link(&w->net->m, near_port(w, 1), false, w->net->now_ns));
	pump(w);
	assert_int_equal(pi->state, IB_PS_DOWN);
	assert_int_equal(w->h[1]->e->port[0].state, IB_PS_DOWN);
	assert_int_equal(w->h[0]->e->port[0].state, IB_PS_ACTIVE);
	fill(&w->node[0], 0, 5000, 3);
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 5000);
	pass(w, MS);
	assert_true(fab_fault_link(&w->net->m, near_port(w, 1), true, w->net->now_ns));
	pump(w);
	assert_int_equal(pi->state, IB_PS_INIT);
	assert_int_equal(w->h[1]->e->port[0].state, IB_PS_INIT);
	set_state(w, 1, IB_PS_ARMED);
	assert_int_equal(ep_set_state(w->sm, w->node[1].ep.port, IB_PS_ACTIVE), 0);
	set_state(w, 1, IB_PS_ACTIVE);
	pass(w, 1000 * MS);
	wc(&w->node[0].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	check(&w->node[1], 0, 5000, 3);
	done(qp);
}

/** struct taken - blocks of a capture: packets by interface */
struct taken {
	unsigned int packets[4];
};

static bool take(void *ctx, const void *buf, size_t len)
{
	struct taken *t = ctx;
	uint32_t word[3];

	if (len >= sizeof(word)) {
		memcpy(word, buf, sizeof(word));
		if (word[0] == PCAPNG_PACKET)
			t->packets[word[2]]++;
	}
	return true;
}

/* A capture has each packet once for each port, received and sent. */
static void test_capture(void **state)
{
	struct world *w = *state;
	const uint32_t ports[2] = { near_port(w, 0), near_port(w, 1) };
	struct taken t = { 0 };
	struct fab_capture *c;
	struct host_qp qp[2];
	uint8_t d[64] = { 0 };

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	c = fab_capture_start(w->net->d, ports, 2, 0, false, take, &t);
	assert_non_null(c);
	write_in(w, &qp[0], 3 * 4096, MS);
	assert_int_equal(t.packets[0], 3);	/* from node 0 */
	assert_int_equal(t.packets[1], 1);	/* the ACK, to it */
	assert_int_equal(t.packets[2], 1);
	assert_int_equal(t.packets[3], 3);
	/* and an SMP, there and back */
	assert_int_equal(hca(w, 1, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	assert_int_equal(t.packets[2], 2);
	assert_int_equal(t.packets[3], 4);
	fab_capture_stop(c);
	done(qp);
}

/* Two nodes send to one: nothing is lost. */
static void test_incast(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2][2];

	for (unsigned int i = 0; i < 2; i++) {
		connect_rc(w, 2 * i, 1, qp[i], OHCA_QPT_UC);
		fill(&w->node[2 * i], 0, 1 << 20, i);
		rdma(&qp[i][0], &w->node[2 * i], &w->node[1], OHCA_OP_RDMA_WRITE, 0, i << 20,
		     1 << 20);
	}
	pump(w);
	for (unsigned int i = 0; i < 2; i++) {
		wc(&w->node[2 * i].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
		check(&w->node[1], i << 20, 1 << 20, i);
		done(qp[i]);
	}
}

/* ---- only HCAs that the fabric hosts ---- */

/*
 * One node sends more than the other one accepts without a turn: packets wait at the switch, then
 * at the sender for room there. When the receiver has turns again, all of it arrives.
 */
static void test_no_room(void **state)
{
	struct world *w = *state;
	struct node *x = &w->node[0], *y = &w->node[1];
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_UC);
	fill(x, 0, 1 << 20, 7);
	rdma(&qp[0], x, y, OHCA_OP_RDMA_WRITE, 0, 0, 1 << 20);
	fab_data_refresh(w->net->d);
	for (unsigned int i = 0; i < 100; i++)
		ohca_poll(x->h->e, 64);
	assert_true(w->net->d->n.copies > 10);
	/* only from now on each pass asks all HCAs */
	assert_true(w->hcas->refused);
	assert_true(engine_ctr(w, 0)->xmit_pkts < 256);
	no_wc(&x->cq);
	pass(w, MS);
	wc(&x->cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	check(y, 0, 1 << 20, 7);
	assert_false(w->hcas->refused);
	assert_true(net_ctr(w->net, y->ep.port)->xmit_discards == 0);
	done(qp);
}

/*
 * If there are more MADs by VL15 than the switch has room for until its next round, the rest is
 * VL15Dropped.
 */
static void test_vl15(void **state)
{
	struct world *w = *state;
	struct node *x = &w->node[0];
	const struct ohca_port_counters *sw = net_ctr(w->net, x->ep.port);
	struct host_qp_init in = { .special = true, .type = OHCA_QPT_SMI, .port = 1, .log_sq = 8,
				   .flags = OHCA_QP_PRIVILEGED, .scq = &x->cq, .rcq = &x->cq };
	const uint64_t in_before = w->net->d->n.mads_in;
	struct host_qp qp;

	assert_int_equal(host_qp_create(x->h, &qp, &in), 0);
	host_qp_datagram(&qp, 0, 0);
	for (unsigned int i = 0; i < 100; i++) {
		struct wqe q = wqe_new(OHCA_OP_SEND, 0, i);

		wqe_av(&q, IB_LID_PERMISSIVE, IB_QP0, 0);
		wqe_sge(&q, x->mr.iova, IB_MAD_LEN, x->mr.key);
		wqe_post(&qp, &q);
	}
	for (unsigned int i = 0; i < 10; i++)
		ohca_poll(x->h->e, 64);
	assert_int_equal(sw->vl15_dropped, 100 - FAB_HPORT_MADS);
	pump(w);
	assert_int_equal(w->net->d->n.mads_in - in_before, FAB_HPORT_MADS);
	host_buf_free(&qp.buf);
}

/* A packet of an HCA on a link whose ends both sleep wakes the peer. */
static void test_idle_link(void **state)
{
	struct world *w = *state;
	struct node *n = &w->node[0];
	struct host_qp_init in = { .type = OHCA_QPT_UD, .scq = &n->cq, .rcq = &n->cq };
	struct pollfd p = { .fd = ohca_link_ctrl_fd(w->sm->l), .events = POLLIN };
	struct wqe q = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 1);
	struct ohca_link_frame f;
	struct host_qp qp;

	assert_int_equal(host_qp_create(n->h, &qp, &in), 0);
	host_qp_datagram(&qp, 0, 0x11);
	wqe_av(&q, SM_LID, 5, 0x11);
	wqe_sge(&q, n->mr.iova, 100, n->mr.key);
	pump(w);
	assert_true(ohca_link_prepare_sleep(w->sm->l));
	assert_true(fab_data_sleep(w->net->d));
	assert_int_equal(poll(&p, 1, 0), 0);

	wqe_post(&qp, &q);
	assert_true(fab_hcas_turn(w->hcas));
	fab_data_round(w->net->d);
	assert_int_equal(poll(&p, 1, 0), 1);
	simple_take(w->sm->l);
	assert_true(ohca_link_rx_peek(w->sm->l, 0, &f));
	ohca_link_rx_release(w->sm->l, 0);
	wc(&n->cq, 1, WC_SUCCESS);
	host_qp_destroy(&qp);
}

/* The log of the fabric has the trace events that were asked for. */
static void test_trace(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	assert_int_equal(fab_hca_events("ohca_none"), 0);
	assert_int_equal(fab_hca_events("ohca_*"), (1u << OHCA_TR_NUM) - 1);
	w->net->log[0] = 0;
	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	assert_null(strstr(w->net->log, " ohca_"));
	done(qp);
	fab_hcas_trace(w->hcas, fab_hca_events("ohca_qp_*"));
	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	assert_non_null(strstr(w->net->log, " ohca_qp_state 0x"));
	write_in(w, &qp[0], 100, MS);
	assert_null(strstr(w->net->log, " ohca_pkt 0x"));
	fab_hcas_trace(w->hcas, fab_hca_events("ohca_p[k]t"));
	write_in(w, &qp[0], 100, MS);
	assert_non_null(strstr(w->net->log, " ohca_pkt 0x"));
	done(qp);
}

/* An HCA with two ports at the switch writes to itself: it accepts no packet while it sends. */
static void test_two_ports(void **state)
{
	struct world *w = *state;
	struct node n = { .w = w, .ep.port = HOSTS + 2 };
	struct host_qp_init in = { .type = OHCA_QPT_RC, .scq = &n.cq, .rcq = &n.cq };
	struct host_qp qp[2];
	uint8_t d[64] = { 0 };

	n.seat = (struct host_seat){
		.make = seat_make,
		.turn = seat_turn,
		.leave = seat_leave,
		.arg = &n,
	};
	n.h = host_new_seat(2, 0x9000, &n.seat);
	n.h->now = &w->net->now_ns;
	host_start(n.h);
	host_cq_create(n.h, &n.cq, 8, 0);
	host_mr_create(n.h, &n.mr, MR_LEN, n.h->pdn, 0xf);
	pump(w);
	assert_int_equal(ep_switch(w->sm, IB_METHOD_GET, IB_SMP_ATTR_LFT, 0, d), 0);
	for (unsigned int i = 0; i < 2; i++) {
		d[20 + i] = (uint8_t)(n.ep.port + i);
		assert_int_equal(ep_set_state(w->sm, n.ep.port + i, IB_PS_ACTIVE), 0);
		host_port_set(n.h, i, (uint16_t)(20 + i), IB_PS_ACTIVE);
		assert_int_equal(host_qp_create(n.h, &qp[i], &in), 0);
	}
	assert_int_equal(ep_switch(w->sm, IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, d), 0);
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&qp[i], i, (uint16_t)(21 - i), qp[!i].qpn, 5, 100 + i, 101 - i);
	fill(&n, 0, 1 << 20, 4);
	rdma(&qp[0], &n, &n, OHCA_OP_RDMA_WRITE, 0, 1 << 20, 1 << 20);
	pump(w);
	wc(&n.cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	check(&n, 1 << 20, 1 << 20, 4);
	assert_true(w->net->d->n.copies >= 256);
	done(qp);
	host_buf_free(&n.cq.buf);
	host_buf_free(&n.mr.buf);
	host_free(n.h);
}

/* Gives an HCA these @n ranges. Return: 0 or errno. */
static int memory_errno(struct fab_hca *h, const struct fab_hca_range *r, unsigned int n)
{
	return fab_hca_memory(h, r, n) ? 0 : errno;
}

/* An HCA has access to the memory of its last table, and invalid ranges change nothing. */
static void test_memory(void **state)
{
	struct world *w = *state;
	struct node *y = &w->node[1];
	uint8_t *mem = y->h->mem;
	const uint64_t half = y->h->mem_size / 2;
	const struct fab_hca_range two[2] = {
		{ HOST_BASE, half, mem, false, NULL }, { HOST_BASE + half, half, mem + half, false, NULL },
	};
	const struct fab_hca_range wrong[][2] = {
		/* in the wrong order */
		{ { HOST_BASE + half, half, mem + half, false, NULL }, { HOST_BASE, half, mem, false, NULL } },
		{ { HOST_BASE, half, mem, false, NULL }, { HOST_BASE + half - 4096, 4096, mem, false, NULL } },
		{ { HOST_BASE, half, mem, false, NULL }, { HOST_BASE, half, mem, false, NULL } },
		{ { HOST_BASE, half + 1, mem, false, NULL }, { 1ull << 62, 4096, mem, false, NULL } },
		{ { HOST_BASE + 8, half, mem, false, NULL }, { 1ull << 62, 4096, mem, false, NULL } },
		{ { HOST_BASE, 0, mem, false, NULL }, { 1ull << 62, 4096, mem, false, NULL } },
		{ { HOST_BASE, half, NULL, false, NULL }, { 1ull << 62, 4096, mem, false, NULL } },
		{ { 0, 4096, mem, false, NULL }, { UINT64_MAX - 4095, 8192, mem, false, NULL } },
	};
	const uint64_t page = y->mr.buf.page[(1 << 20) / HOST_PAGE], off = page - HOST_BASE;
	const struct fab_hca_range three[3] = {
		{ HOST_BASE, off, mem, false, NULL },
		{ page, HOST_PAGE, mem + off, true, NULL },
		{ page + HOST_PAGE, 2 * half - off - HOST_PAGE, mem + off + HOST_PAGE, false, NULL },
	};
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	assert_true(fab_hca_memory(y->hca, two, 2));
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(memory_errno(y->hca, wrong[i], 2), EINVAL);
	assert_int_equal(memory_errno(y->hca, two, FAB_HCA_RANGES + 1), EINVAL);
	write_in(w, &qp[0], 20000, MS);
	assert_true(fab_hca_memory(y->hca, three, 3));
	rdma(&qp[0], &w->node[0], y, OHCA_OP_RDMA_WRITE, 4096, 1 << 20, 8);
	pass(w, MS);
	/* read-only memory: an error of the responder */
	wc(&w->node[0].cq, OHCA_OP_RDMA_WRITE, WC_REM_OP);
	check(y, 1 << 20, 8, 20000);
	done(qp);
}

/* ---- HCAs that are freed, or busy ---- */

/* Frees all HCAs of the fabric, without a turn in between. */
static void all_leave(struct world *w)
{
	while (w->n) {
		struct node *n = &w->node[--w->n];

		host_buf_free(&n->cq.buf);
		host_buf_free(&n->mr.buf);
		host_free(n->h);
	}
	/* their objects are freed before the owner sleeps */
	while (fab_hcas_turn(w->hcas)) {
		assert_int_equal(fab_hcas_due(w->hcas), 0);
		assert_false(fab_hcas_sleep(w->hcas));
	}
	assert_int_equal(fab_hcas_due(w->hcas), UINT64_MAX);
	assert_true(fab_hcas_sleep(w->hcas));
	fab_hcas_awake(w->hcas);
	assert_false(fab_hcas_turn(w->hcas));
}

/* The last HCA is freed before its deadline: nothing is due any more. */
static void test_gone_due(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	assert_true(fab_fault_wire(&w->net->m, near_port(w, 0), UINT32_MAX, 0, 1));
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 8);
	pump(w);
	no_wc(&w->node[0].cq);
	assert_true(fab_hcas_due(w->hcas) < 10000 * MS);
	w->net->now_ns += 10000 * MS;
	assert_int_equal(fab_hcas_due(w->hcas), 0);
	host_buf_free(&qp[0].buf);
	host_buf_free(&qp[1].buf);
	all_leave(w);
}

/* The last HCA is freed before the turn that a doorbell has asked for. */
static void test_gone_kicked(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	pump(w);
	rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 8);
	assert_false(fab_hcas_sleep(w->hcas));
	host_buf_free(&qp[0].buf);
	host_buf_free(&qp[1].buf);
	all_leave(w);
}

/* The subnet manager asks node 1 for its NodeInfo; the answer is read later. */
static void ask(struct world *w)
{
	const uint8_t path[2] = { 1, (uint8_t)w->node[1].ep.port };
	struct ib_smp smp;

	ep_smp_init(w->sm, &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, path);
	assert_true(ep_send_smp(w->sm, &smp, 0));
	net_round(w->net);
}

/* Return: the number of answers to the subnet manager. */
static unsigned int take_answers(struct world *w)
{
	struct ib_smp smp;
	unsigned int n = 0;

	while (ep_recv_smp(w->sm, &smp))
		n += smp.hdr.method == IB_METHOD_GET_RESP;
	return n;
}

static struct fab_hport *hport(struct world *w, unsigned int i)
{
	return net_port(w->net, w->node[i].ep.port)->hport;
}

/*
 * Two nodes send more than a third one accepts without a turn: each SMP arrives, and is answered.
 */
static void test_busy(void **state)
{
	struct world *w = *state;
	struct fab_hport *h = hport(w, 1);
	struct host_qp qp[2][2];
	unsigned int answers = 0, full = 0;

	for (unsigned int i = 0; i < 2; i++) {
		connect_rc(w, 2 * i, 1, qp[i], OHCA_QPT_UC);
		for (unsigned int k = 0; k < 4; k++)
			rdma(&qp[i][0], &w->node[2 * i], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0,
			     1 << 20);
	}
	for (unsigned int i = 0; i < ROUNDS; i++) {
		fab_hcas_turn(w->hcas);
		full += !h->ops->room(h->ctx, 0, 1, 0);
		ask(w);
		answers += take_answers(w);
	}
	pump(w);
	answers += take_answers(w);
	assert_true(full > 0);
	assert_int_equal(fab_hport_dropped(h), 0);
	assert_int_equal(answers, ROUNDS);
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int k = 0; k < 4; k++)
			wc(&w->node[2 * i].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
		done(qp[i]);
	}
}

/*
 * Without a turn, a port accepts as many SMPs as it can store answers; the others are VL15Dropped.
 */
static void test_smps(void **state)
{
	struct world *w = *state;
	const uint64_t discards = engine_ctr(w, 1)->xmit_discards;

	for (unsigned int i = 0; i < FAB_HCA_SMPS + 5; i++)
		ask(w);
	assert_int_equal(fab_hport_dropped(hport(w, 1)), 5);
	pump(w);
	assert_int_equal(take_answers(w), FAB_HCA_SMPS);
	assert_int_equal(engine_ctr(w, 1)->xmit_discards, discards);
}

/* A lane that the HCA does not have is refused; only a lack of room counts as VL15Dropped. */
static void test_takes(void **state)
{
	struct world *w = *state;
	struct fab_hport *h = hport(w, 1);

	assert_true(h->vls < FAB_DATA_LANES);
	assert_true(fab_hport_takes(h, 0, 1, 0));
	assert_true(fab_hport_takes(h, h->vls - 1u, 1, 0));
	assert_false(fab_hport_takes(h, h->vls, 1, 0));
	assert_true(fab_hport_takes(h, IB_MGMT_VL, 1, 0));
	/* the link goes down, is down, and comes up */
	assert_true(fab_fault_link(&w->net->m, near_port(w, 1), false, w->net->now_ns));
	assert_false(fab_hport_takes(h, IB_MGMT_VL, 1, 0));
	pump(w);
	assert_false(fab_hport_takes(h, IB_MGMT_VL, 1, 0));
	assert_int_equal(fab_hport_dropped(h), 0);
	assert_true(fab_fault_link(&w->net->m, near_port(w, 1), true, w->net->now_ns));
	pump(w);
	assert_true(fab_hport_takes(h, IB_MGMT_VL, 1, 0));
}

/* A clock that advances at each reading. */
static uint64_t ticking(void *arg)
{
	struct net *t = arg;

	return t->now_ns += 100;
}

/* The timestamp of a completion is when it was made: after the WR was posted, and in order. */
static void test_timestamps(void **state)
{
	struct world *w = *state;
	struct node *x = &w->node[0];
	struct host_qp qp[2];
	uint64_t last;

	connect_rc(w, 0, 1, qp, OHCA_QPT_UC);
	pump(w);
	w->net->d->cfg.clock = ticking;
	w->net->d->cfg.arg = w->net;
	for (unsigned int i = 0; i < 3; i++)
		rdma(&qp[0], x, &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 8);
	last = w->net->now_ns;
	fab_hcas_turn(w->hcas);
	for (unsigned int i = 0; i < 3; i++) {
		const uint64_t at = wc(&x->cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS).timestamp;

		assert_true(at > last);
		last = at;
	}
	w->net->d->cfg.clock = net_clock;
	done(qp);
}

static bool no_memory;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
	return no_memory ? NULL : __real_malloc(n);
}

/*
 * Packets on a cable with a delay that need memory, and there is none: each one arrived, and is
 * dropped.
 */
static void test_delay_no_memory(void **state)
{
	struct world *w = *state;
	const struct ohca_port_counters *sw = net_ctr(w->net, w->node[0].ep.port);
	const uint64_t *drop = w->net->d->n.drop;
	struct host_qp qp[2];
	uint64_t came;

	connect_rc(w, 0, 1, qp, OHCA_QPT_UC);
	assert_true(fab_fault_wire(&w->net->m, far_port(w, 0), 1u << 31, 0, 1));
	assert_true(fab_fault_delay(&w->net->m, far_port(w, 0), MS));
	pump(w);
	came = sw->rcv_pkts;
	assert_int_equal(drop[FAB_DROP_MEMORY], 0);
	for (unsigned int i = 0; i < 32; i++)
		rdma(&qp[0], &w->node[0], &w->node[1], OHCA_OP_RDMA_WRITE, 0, 0, 8);
	no_memory = true;
	fab_hcas_turn(w->hcas);
	no_memory = false;
	assert_int_equal(sw->rcv_pkts - came, 32);
	assert_int_equal(drop[FAB_DROP_MEMORY], 32);
	assert_int_equal(w->net->d->flying, 0);
	for (unsigned int i = 0; i < 32; i++)
		wc(&w->node[0].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	done(qp);
}

/* Secrets that a guest must not know differ between HCAs, unless their configuration sets them. */
static void test_hash_seed(void **state)
{
	struct world *w = *state;
	struct fab_hca_cfg cfg = {
		.engine = w->h[0]->cfg,
		.place = { net_index(w->net, HOSTS + 2) },
	};
	struct fab_hca *h;

	cfg.engine.hash_seed = 77;
	h = fab_hca_new(w->hcas, &cfg);
	assert_non_null(h);
	assert_int_equal(fab_hca_engine(h)->cfg.hash_seed, 77);
	fab_hca_free(h);
	for (unsigned int i = 0; i < HOSTS; i++) {
		const uint64_t seed = w->h[i]->e->cfg.hash_seed;

		assert_int_not_equal(seed, 0);
		assert_int_not_equal(seed, w->h[(i + 1) % HOSTS]->e->cfg.hash_seed);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
#define H(name) cmocka_unit_test_setup_teardown(test_##name, setup_hosted, teardown)
#define P(name) cmocka_unit_test_setup_teardown(test_##name, setup_paged, teardown)
	const struct CMUnitTest links[] = {
		T(counters), T(loss), T(damage), T(delay), T(pulled), T(capture), T(incast),
	};
	const struct CMUnitTest hosted[] = {
		H(counters), H(loss), H(damage), H(delay), H(pulled), H(capture), H(incast),
		H(no_room), H(vl15), H(idle_link), H(trace), H(two_ports), H(memory), H(gone_due), H(gone_kicked), H(busy),
		H(smps), H(takes), H(timestamps), H(delay_no_memory), H(hash_seed),
	};

	const struct CMUnitTest paged[] = {
		P(counters), P(loss), P(damage), P(delay), P(pulled), P(capture), P(incast),
		P(vl15), P(idle_link), P(two_ports), P(memory), P(gone_due), P(gone_kicked), P(busy), P(smps),
		P(timestamps),
	};

	return cmocka_run_group_tests_name("wires by links", links, NULL, NULL) |
	       cmocka_run_group_tests_name("wires to hosted HCAs", hosted, NULL, NULL) |
	       cmocka_run_group_tests_name("wires to hosted HCAs with fronts", paged, NULL, NULL);
}
