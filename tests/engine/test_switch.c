/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Engines at a switch, by links and hosted by the fabric: the normal use of a fabric. */
#include "world.h"

/* ---- tests ---- */

static void test_discovery(void **state)
{
	struct world *w = *state;
	struct ib_node_info ni;
	uint8_t d[64];

	for (unsigned int i = 0; i < HOSTS; i++) {
		memset(d, 0, sizeof(d));
		assert_int_equal(hca(w, i, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
		ib_node_info_unpack(d, &ni);
		assert_int_equal(ni.node_guid, 0x1000 * (i + 1));
		assert_int_equal(ni.node_type, IB_NODE_CHANNEL_ADAPTER);
		memset(d, 0, sizeof(d));
		assert_int_equal(hca(w, i, IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0, d), 0);
		assert_string_equal((char *)d, "test host");
		/* an unknown attribute is refused, and not left unanswered */
		assert_int_equal(hca(w, i, IB_METHOD_GET, 0xff90, 0, d),
				 IB_MAD_BAD_METHOD_ATTR);
		assert_int_equal(w->h[i]->e->port[0].state, IB_PS_ACTIVE);
		assert_int_equal(w->h[i]->e->port[0].mtu, 5);
	}
}

/* Every pair, every operation, more than the links have credits for. */
static void test_rc(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2];

	for (unsigned int a = 0; a < HOSTS; a++) {
		unsigned int b = (a + 1) % HOSTS;
		struct node *x = &w->node[a], *y = &w->node[b];
		struct ohca_hw_sge sge = host_sge(y->mr.iova + 0x1000, 70000, y->mr.key);
		struct wqe q = wqe_new(OHCA_OP_SEND_IMM, OHCA_WQE_SIGNALED, 99);
		struct ohca_hw_cqe c;

		connect_rc(w, a, b, qp, OHCA_QPT_RC);
		fill(x, 0, 1 << 20, a);
		rdma(&qp[0], x, y, OHCA_OP_RDMA_WRITE, 0, 1 << 20, 1 << 20);
		pump(w);
		wc(&x->cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
		check(y, 1 << 20, 1 << 20, a);
		rdma(&qp[0], x, y, OHCA_OP_RDMA_READ, 1 << 20, 1 << 20, 300001);
		pump(w);
		wc(&x->cq, OHCA_OP_RDMA_READ, WC_SUCCESS);
		check(x, 1 << 20, 300001, a);

		host_post_recv(&qp[1], 77, &sge, 1);
		wqe_imm(&q, 0x12345678);
		wqe_sge(&q, x->mr.iova + 5, 69999, x->mr.key);
		wqe_post(&qp[0], &q);
		pump(w);
		wc(&x->cq, 99, WC_SUCCESS);
		c = wc(&y->cq, 77, WC_SUCCESS);
		assert_int_equal(c.byte_len, 69999);
		assert_int_equal(c.imm, 0x12345678);

		*(uint64_t *)host_buf_ptr(y->h, &y->mr.buf, 8) = 40 + a;
		q = wqe_new(OHCA_OP_FETCH_ADD, OHCA_WQE_SIGNALED, 5);
		wqe_raddr(&q, y->mr.iova + 8, y->mr.key);
		wqe_atomic(&q, 2, 0);
		wqe_sge(&q, x->mr.iova, 8, x->mr.key);
		wqe_post(&qp[0], &q);
		pump(w);
		wc(&x->cq, 5, WC_SUCCESS);
		assert_int_equal(*(uint64_t *)host_buf_ptr(x->h, &x->mr.buf, 0), 40 + a);
		assert_int_equal(*(uint64_t *)host_buf_ptr(y->h, &y->mr.buf, 8), 42 + a);
		assert_int_equal(host_counter(x->h, OHCA_CNT_ACK_TIMEOUT), 0);
		done(qp);
	}
}

/* All to all at once: lanes fill up, nothing is lost. */
static void test_congestion(void **state)
{
	struct world *w = *state;
	struct host_qp qp[HOSTS][2];

	for (unsigned int a = 0; a < HOSTS; a++) {
		connect_rc(w, a, (a + 1) % HOSTS, qp[a], OHCA_QPT_UC);
		fill(&w->node[a], 0, 1 << 20, a);
	}
	for (unsigned int a = 0; a < HOSTS; a++)
		rdma(&qp[a][0], &w->node[a], &w->node[(a + 1) % HOSTS], OHCA_OP_RDMA_WRITE, 0,
		     1 << 20, 1 << 20);
	pump(w);
	for (unsigned int a = 0; a < HOSTS; a++) {
		wc(&w->node[a].cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
		check(&w->node[(a + 1) % HOSTS], 1 << 20, 1 << 20, a);
		done(qp[a]);
	}
}

static void attach(struct host_qp *qp, const uint8_t mgid[16], uint16_t mlid)
{
	struct ohca_hw_aqe c = HOST_AQE(mcast, .qp = qp->handle, .mlid = mlid);

	memcpy(c.mcast.mgid, mgid, 16);
	assert_int_equal(host_cmd(qp->h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
}

static void test_multicast(void **state)
{
	static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, [15] = 1 };
	struct world *w = *state;
	struct host_qp qp[HOSTS];
	struct ib_switch_info si;
	struct ohca_hw_av av = { .dqpn = 0xffffff, .qkey = 0x11, .dlid = 0xc000,
				 .flags = OHCA_AV_GRH, .hop_limit = 1 };
	struct wqe q = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 1);
	struct ohca_hw_cqe c;
	uint16_t mask = 0;
	uint8_t d[64] = { 0 };

	for (unsigned int i = 0; i < HOSTS; i++) {
		struct node *n = &w->node[i];
		struct host_qp_init in = { .type = OHCA_QPT_UD, .scq = &n->cq, .rcq = &n->cq };
		struct ohca_hw_sge sge = host_sge(n->mr.iova, 2048, n->mr.key);

		assert_int_equal(host_qp_create(n->h, &qp[i], &in), 0);
		host_qp_datagram(&qp[i], 0, 0x11);
		attach(&qp[i], mgid, 0xc000);
		host_post_recv(&qp[i], 50 + i, &sge, 1);
		mask |= (uint16_t)(1u << n->ep.port);
	}
	assert_int_equal(ep_switch(w->sm, IB_METHOD_GET, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	si.mcast_top = 0xc01f;
	ib_switch_info_pack(&si, d);
	assert_int_equal(ep_switch(w->sm, IB_METHOD_SET, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	memset(d, 0, sizeof(d));
	ib_mft_block_put(d, 0, mask);
	assert_int_equal(ep_switch(w->sm, IB_METHOD_SET, IB_SMP_ATTR_MFT, 0, d), 0);

	fill(&w->node[0], 4096, 1500, 3);
	memcpy(av.dgid, mgid, 16);
	memcpy(q.b + 16 * q.nseg, &av, sizeof(av));
	q.nseg += 3;
	wqe_sge(&q, w->node[0].mr.iova + 4096, 1500, w->node[0].mr.key);
	wqe_post(&qp[0], &q);
	pump(w);
	for (unsigned int i = 1; i < HOSTS; i++) {
		c = wc(&w->node[i].cq, 50 + i, WC_SUCCESS);
		assert_int_equal(c.byte_len, 1540);
		assert_int_equal(c.slid, LID(0));
		assert_int_equal(c.src_qp, qp[0].qpn);
		check(&w->node[i], 40, 1500, 3);
	}
	/* the sender's own copy, once, by loopback; and its completion */
	for (unsigned int k = 0; k < 2; k++) {
		assert_true(host_cq_poll(&w->node[0].cq, &c));
		assert_int_equal(c.status, WC_SUCCESS);
		assert_true(c.wr_id == 1 || c.wr_id == 50);
	}
	no_wc(&w->node[0].cq);
	for (unsigned int i = 0; i < HOSTS; i++)
		host_buf_free(&qp[i].buf);
}

/* A node reads a counter of another node's PMA from QP1, by LID. */
static void test_pma(void **state)
{
	struct world *w = *state;
	struct node *x = &w->node[0], *y = &w->node[1];
	struct host_qp_init in = { .special = true, .type = OHCA_QPT_GSI, .port = 1,
				   .flags = OHCA_QP_PRIVILEGED, .scq = &x->cq, .rcq = &x->cq };
	struct ohca_hw_sge sge = host_sge(x->mr.iova + 4096, 512, x->mr.key);
	struct ib_mad mad = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF,
				       .class_version = 1, .method = IB_METHOD_GET,
				       .attr_id = ib_to_be16(IB_PMA_ATTR_PORT_COUNTERS_EXT),
				       .tid = ib_to_be64(0x77) } };
	struct wqe q = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 1);
	struct ib_pma_port_counters_ext pc;
	struct host_qp qp;
	uint8_t got[256];

	mad.data[IB_PMA_DATA_OFF - sizeof(mad.hdr) + 1] = 1;	/* PortSelect */
	assert_int_equal(host_qp_create(x->h, &qp, &in), 0);
	host_qp_datagram(&qp, 0, IB_QKEY_GSI);
	host_post_recv(&qp, 2, &sge, 1);
	host_buf_write(x->h, &x->mr.buf, 0, &mad, sizeof(mad));
	wqe_av(&q, LID(1), 1, IB_QKEY_GSI);
	wqe_sge(&q, x->mr.iova, 256, x->mr.key);
	wqe_post(&qp, &q);
	pump(w);
	wc(&x->cq, 1, WC_SUCCESS);
	assert_int_equal(wc(&x->cq, 2, WC_SUCCESS).byte_len, 40 + 256);
	host_buf_read(x->h, &x->mr.buf, 4096 + 40, got, sizeof(got));
	memcpy(&mad, got, sizeof(mad));
	assert_int_equal(mad.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(ib_be16(mad.hdr.status), 0);
	assert_int_equal(ib_be64(mad.hdr.tid), 0x77);
	ib_pma_pce_unpack(got + IB_PMA_DATA_OFF, &pc);
	assert_int_equal(pc.rcv_pkts, y->h->e->port[0].cnt.rcv_pkts);
	assert_true(pc.rcv_pkts >= 1);
	host_buf_free(&qp.buf);
}

/* A node is freed while another one writes to it: a clear error, and the third one continues. */
static void test_loss_of_a_node(void **state)
{
	struct world *w = *state;
	struct host_qp qp[2], other[2];
	struct node *x = &w->node[0], *y = &w->node[2], *z = &w->node[1];

	connect_rc(w, 0, 2, qp, OHCA_QPT_RC);
	connect_rc(w, 0, 1, other, OHCA_QPT_RC);
	fill(x, 0, 1 << 20, 9);
	rdma(&qp[0], x, y, OHCA_OP_RDMA_WRITE, 0, 0, 1 << 20);
	/* some of its 256 packets are outstanding */
	for (unsigned int i = 0; i < 2; i++) {
		if (w->hcas)
			fab_hcas_turn(w->hcas);
		else
			host_step(w->h, HOSTS);
		fab_data_round(w->net->d);
	}
	assert_true(x->h->e->port[0].cnt.xmit_pkts > 10);
	no_wc(&x->cq);
	if (w->hcas) {
		host_qp_destroy(&qp[1]);
		host_buf_free(&y->cq.buf);
		host_buf_free(&y->mr.buf);
		host_free(w->h[--w->n]);
	} else {
		ohca_link_free(y->ep.l);
		y->ep.l = NULL;
	}
	pass(w, 2000 * HOST_MS);
	wc(&x->cq, OHCA_OP_RDMA_WRITE, WC_RETRY_EXC);
	assert_int_equal(host_counter(x->h, OHCA_CNT_RETRY_EXCEEDED), 1);
	assert_int_equal(net_pi(w->net, y->ep.port)->state, IB_PS_DOWN);
	if (!w->hcas)
		assert_int_equal(y->h->e->port[0].state, IB_PS_DOWN);
	rdma(&other[0], x, z, OHCA_OP_RDMA_WRITE, 0, 0, 1 << 20);
	pass(w, HOST_MS);
	wc(&x->cq, OHCA_OP_RDMA_WRITE, WC_SUCCESS);
	check(z, 0, 1 << 20, 9);
	host_qp_destroy(&qp[0]);
	if (!w->hcas)
		host_qp_destroy(&qp[1]);
	done(other);
}

/* A Set of PortInfo at the adapter determines the next training of the link (ibportstate). */
static void test_width_speed(void **state)
{
	struct world *w = *state;
	struct ib_port_info pi, sw;
	uint8_t d[64] = { 0 };
	int status;

	assert_int_equal(hca(w, 0, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1, d), 0);
	ib_port_info_unpack(d, &pi);
	assert_int_equal(pi.width_active, IB_WIDTH_4X);
	assert_int_equal(pi.speed_ext_active, IB_SPEED_EXT_EDR);
	/* 0, 1: and the Set trains; 2: the other end trains */
	for (unsigned int i = 0; i < 3; i++) {
		pi.width_enabled = i == 1 ? IB_WIDTH_1X | IB_WIDTH_4X : IB_WIDTH_1X;
		pi.speed_enabled = IB_SPEED_SDR | IB_SPEED_DDR;
		pi.speed_ext_enabled = i == 1 ? IB_SPEED_EXT_FDR : IB_SPEED_EXT_DISABLE;
		pi.state = i < 2 ? IB_PS_DOWN : IB_PS_NO_CHANGE;
		pi.phys_state = i < 2 ? IB_PHYS_POLLING : IB_PHYS_NO_CHANGE;
		ib_port_info_pack(&pi, d);
		/*
		 * AM bit 31: with extended speeds. The training may destroy the answer on a link.
		 */
		status = hca(w, 0, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 1u << 31 | 1, d);
		if (w->hcas)
			assert_int_equal(status, 0);
		pump(w);
		if (i == 2) {
			sw = *net_pi(w->net, w->node[0].ep.port);
			assert_int_equal(sw.width_active, IB_WIDTH_4X);
			sw.state = IB_PS_DOWN;
			sw.phys_state = IB_PHYS_POLLING;
			ib_port_info_pack(&sw, d);
			assert_int_equal(ep_switch(w->sm, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO,
						   1u << 31 | w->node[0].ep.port, d), 0);
		}
		pass(w, 50 * HOST_MS);
		assert_int_equal(hca(w, 0, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1u << 31 | 1, d),
				 0);
		ib_port_info_unpack(d, &pi);
		assert_int_equal(pi.state, IB_PS_INIT);
		assert_int_equal(pi.width_active, i == 1 ? IB_WIDTH_4X : IB_WIDTH_1X);
		assert_int_equal(pi.speed_active, IB_SPEED_DDR);
		assert_int_equal(pi.speed_ext_active, i == 1 ? IB_SPEED_EXT_FDR : 0);
		/* both ends agree */
		sw = *net_pi(w->net, w->node[0].ep.port);
		assert_int_equal(sw.width_active, pi.width_active);
		assert_int_equal(sw.speed_active, pi.speed_active);
		assert_int_equal(sw.speed_ext_active, pi.speed_ext_active);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(discovery), T(rc), T(congestion), T(multicast), T(pma), T(loss_of_a_node),
		T(width_speed),
	};
#undef T
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup_hosted, teardown)
	const struct CMUnitTest hosted[] = {
		T(discovery), T(rc), T(congestion), T(multicast), T(pma), T(loss_of_a_node),
		T(width_speed),
	};

	return cmocka_run_group_tests_name("through a switch", tests, NULL, NULL) |
	       cmocka_run_group_tests_name("hosted by the fabric", hosted, NULL, NULL);
}
