/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QP0 and QP1: the answers of their agents, the packets for software, and ports that are not
 * Active.
 */
#include "engine/base/limits.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "ib/packet.h"
#include "rig.h"

static void special(struct rig *r, unsigned int i, uint8_t type, struct host_qp *qp)
{
	struct host_qp_init in = { .type = type, .special = true, .port = 1,
				   .flags = OHCA_QP_PRIVILEGED, .scq = &r->scq[i],
				   .rcq = &r->rcq[i] };
	struct ohca_hw_sge s = host_sge(r->mr[i].iova + 65536, 296, r->mr[i].key);

	assert_int_equal(host_qp_create(r->h[i], qp, &in), 0);
	host_qp_datagram(qp, 0, type == OHCA_QPT_GSI ? IB_QKEY_GSI : 0);
	host_post_recv(qp, 1, &s, 1);
	host_post_recv(qp, 2, &s, 1);
}

static void send_mad(struct rig *r, struct host_qp *qp, uint64_t wr_id, uint16_t dlid,
		     const void *mad)
{
	struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, wr_id);
	struct ohca_hw_av av = { .dlid = dlid, .dqpn = qp->qpn,
				 .qkey = qp->type == OHCA_QPT_GSI ? IB_QKEY_GSI : 0 };
	unsigned int i = qp->h == r->h[0] ? 0 : 1;

	host_buf_write(r->h[i], &r->mr[i].buf, 0, mad, 256);
	memcpy(w.b + 16, &av, sizeof(av));
	w.nseg = 4;
	wqe_sge(&w, r->mr[i].iova, 256, r->mr[i].key);
	wqe_post(qp, &w);
}

/* The far agent answers a request; requests that it does not know are passed to software. */
static void mads(bool loop)
{
	struct ib_smp s = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID, .class_version = 1,
			 .method = IB_METHOD_GET, .attr_id = ib_to_be16(IB_SMP_ATTR_NODE_INFO),
			 .tid = 0x1234 },
	};
	struct ib_mad m = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1,
			 .method = IB_METHOD_GET, .attr_id = ib_to_be16(1), .tid = 0x99 },
	};
	struct host_qp smi[2], gsi[2];
	struct ohca_hw_cqe c;
	struct rig r;
	uint16_t dlid = loop ? 1 : 2;
	unsigned int n = loop ? 1 : 2;

	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD, .loop = loop });
	for (unsigned int i = 0; i < n; i++) {
		special(&r, i, OHCA_QPT_SMI, &smi[i]);
		special(&r, i, OHCA_QPT_GSI, &gsi[i]);
	}
	send_mad(&r, &smi[0], 10, dlid, &s);
	rig_run(&r);
	wc(&r.scq[0], 10, WC_SUCCESS);
	c = wc(&r.rcq[0], 1, WC_SUCCESS);
	assert_int_equal(c.qp_num, 0);
	assert_int_equal(c.src_qp, 0);
	assert_int_equal(c.byte_len, 296);
	assert_int_equal(c.slid, dlid);
	host_buf_read(r.h[0], &r.mr[0].buf, 65536 + 40, &s, 256);
	assert_int_equal(s.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(s.hdr.tid, 0x1234);

	send_mad(&r, &gsi[0], 11, dlid, &m);
	rig_run(&r);
	wc(&r.scq[0], 11, WC_SUCCESS);
	c = wc(&r.rcq[0], 1, WC_SUCCESS);
	assert_int_equal(c.qp_num, 1);
	assert_int_equal(c.src_qp, 1);
	host_buf_read(r.h[0], &r.mr[0].buf, 65536 + 40, &m, 256);
	assert_int_equal(m.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(m.hdr.tid, 0x99);

	/* MADs of connection management are for software */
	m.hdr.mgmt_class = IB_CLASS_CM;
	m.hdr.method = IB_METHOD_SEND;
	send_mad(&r, &gsi[0], 12, dlid, &m);
	rig_run(&r);
	wc(&r.scq[0], 12, WC_SUCCESS);
	c = wc(&r.rcq[n - 1], loop ? 2 : 1, WC_SUCCESS);
	assert_int_equal(c.qp_num, 1);
	assert_int_equal(c.slid, 1);
	for (unsigned int i = 0; i < n; i++) {
		host_qp_destroy(&smi[i]);
		host_qp_destroy(&gsi[i]);
	}
	rig_down(&r);
}

/* MADs for software that has no QP, or no receive WQE, are counted as dropped. */
static void test_mads_dropped(void **state)
{
	static const uint8_t classes[] = { IB_CLASS_SUBN_LID, IB_CLASS_CM };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
	for (unsigned int k = 0; k < 2; k++) {
		const uint8_t type = k ? OHCA_QPT_GSI : OHCA_QPT_SMI;
		const struct ohca_port_counters *c = &r.h[1]->e->port[0].cnt;
		uint64_t bad_qp = host_counter(r.h[1], OHCA_CNT_RX_BAD_QP);
		uint64_t no_wqe = host_counter(r.h[1], OHCA_CNT_RX_NO_WQE);
		uint64_t dropped = k ? c->qp1_dropped : c->vl15_dropped;
		uint64_t other = k ? c->vl15_dropped : c->qp1_dropped;
		struct host_qp qp[2];
		struct ib_mad m = {
			.hdr = { .base_version = 1, .mgmt_class = classes[k], .class_version = 1,
				 .method = k ? IB_METHOD_SEND : IB_METHOD_TRAP,
				 .attr_id = ib_to_be16(IB_SMP_ATTR_NOTICE), .tid = 0x99 },
		};

		special(&r, 0, type, &qp[0]);
		send_mad(&r, &qp[0], 1, 2, &m);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_QP), bad_qp + 1);
		assert_int_equal(k ? c->qp1_dropped : c->vl15_dropped, dropped + 1);
		/* there are two receive WQEs */
		special(&r, 1, type, &qp[1]);
		for (unsigned int i = 1; i <= 3; i++) {
			send_mad(&r, &qp[0], i, 2, &m);
			rig_run(&r);
			wc(&r.scq[0], i, WC_SUCCESS);
			if (i < 3)
				wc(&r.rcq[1], i, WC_SUCCESS);
		}
		no_wc(&r.rcq[1]);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_NO_WQE), no_wqe + 1);
		assert_int_equal(k ? c->qp1_dropped : c->vl15_dropped, dropped + 2);
		assert_int_equal(k ? c->vl15_dropped : c->qp1_dropped, other);
		for (unsigned int i = 0; i < 2; i++)
			host_qp_destroy(&qp[i]);
	}
	rig_down(&r);
}

static void test_mads(void **state)
{
	(void)state;
	mads(false);
}

static void test_mads_loop(void **state)
{
	(void)state;
	mads(true);
}

/* A port that is not ACTIVE passes SMPs and nothing else. */
static void test_smp_init(void **state)
{
	struct ib_smp s = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_DR, .class_version = 1,
			 .method = IB_METHOD_GET, .class_specific = ib_to_be16(0x0101),
			 .attr_id = ib_to_be16(IB_SMP_ATTR_NODE_INFO), .tid = 0x77 },
	};
	struct host_qp smi, gsi;
	struct rig r;

	(void)state;
	s.dr_slid = s.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	s.init_path[1] = 1;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
	special(&r, 0, OHCA_QPT_SMI, &smi);
	special(&r, 0, OHCA_QPT_GSI, &gsi);
	host_cable(r.h[0], 0, false);
	rig_run(&r);
	host_cable(r.h[0], 0, true);
	rig_run(&r);
	rig_recv(&r, 1, 5, 0, 200);
	rig_send(&r, 0, 3, 0, 10);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_SUCCESS);
	send_mad(&r, &smi, 10, IB_LID_PERMISSIVE, &s);
	rig_run(&r);
	wc(&r.scq[0], 10, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	wc(&r.rcq[0], 1, WC_SUCCESS);
	host_buf_read(r.h[0], &r.mr[0].buf, 65536 + 40, &s, 256);
	assert_int_equal(s.hdr.method, IB_METHOD_GET_RESP);
	host_qp_destroy(&smi);
	host_qp_destroy(&gsi);
	rig_down(&r);
}

/*
 * A request for SMInfo of a manager contains its M_Key, which software does not get; it gets the
 * rest.
 */
static void test_mkey_hidden(void **state)
{
	struct ib_smp s = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID, .class_version = 1,
			 .method = IB_METHOD_GET, .attr_id = ib_to_be16(IB_SMP_ATTR_SM_INFO),
			 .tid = 0x88 },
	};
	struct ohca_hw_aqe c = HOST_AQE(modify_port, .port = 1, .set_caps = IB_CAP_SM);
	struct host_qp smi[2];
	struct rig r;

	(void)state;
	s.mkey = ib_to_be64(0x1234567);
	s.data[5] = 0x77;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
	for (unsigned int i = 0; i < 2; i++)
		special(&r, i, OHCA_QPT_SMI, &smi[i]);
	assert_int_equal(host_cmd(r.h[1], OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_OK);
	send_mad(&r, &smi[0], 1, 2, &s);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_SUCCESS);
	host_buf_read(r.h[1], &r.mr[1].buf, 65536 + 40, &s, 256);
	assert_true(ib_be16(s.hdr.attr_id) == IB_SMP_ATTR_SM_INFO && s.hdr.tid == 0x88);
	assert_int_equal(s.data[5], 0x77);
	assert_true(ib_be64(s.mkey) == 0);
	for (unsigned int i = 0; i < 2; i++)
		host_qp_destroy(&smi[i]);
	rig_down(&r);
}

/* Return: the number of completions of receives of side @i. */
static unsigned int received(struct rig *r, unsigned int i)
{
	struct ohca_hw_cqe c;
	unsigned int n = 0;

	while (host_cq_poll(&r->rcq[i], &c))
		n++;
	return n;
}

static uint64_t discarded(const struct rig *r)
{
	return r->h[0]->e->port[0].cnt.xmit_discards;
}

/* With smp=off SMPs of software are dropped, even those to its own port. */
static void test_smp_off_send(void **state)
{
	const struct {
		uint16_t dlid;
		uint8_t class, method;
		uint16_t hops;
	} lie[] = {
		{ 2, IB_CLASS_SUBN_LID, IB_METHOD_GET, 0 },
		{ 2, IB_CLASS_SUBN_LID, IB_METHOD_SET, 0 },
		{ 2, IB_CLASS_SUBN_LID, IB_METHOD_TRAP, 0 },
		{ 2, IB_CLASS_PERF, IB_METHOD_GET, 0 },
		{ 1, IB_CLASS_SUBN_LID, IB_METHOD_GET, 0 },
		{ IB_LID_PERMISSIVE, IB_CLASS_SUBN_DR, IB_METHOD_GET, 0x0101 },
		{ IB_LID_PERMISSIVE, IB_CLASS_SUBN_DR, IB_METHOD_GET_RESP, 0x0101 },
	};
	struct host_qp smi[2], gsi[2];
	struct rig r;

	(void)state;
	for (unsigned int off = 0; off < 2; off++) {
		unsigned int came = 0;

		rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
		r.h[0]->e->cfg.smp_off = off;
		for (unsigned int i = 0; i < 2; i++) {
			special(&r, i, OHCA_QPT_SMI, &smi[i]);
			special(&r, i, OHCA_QPT_GSI, &gsi[i]);
		}
		for (unsigned int i = 0; i < sizeof(lie) / sizeof(lie[0]); i++) {
			struct ib_smp s = {
				.hdr = { .base_version = 1, .mgmt_class = lie[i].class,
					 .class_version = 1, .method = lie[i].method,
					 .class_specific = ib_to_be16(lie[i].hops),
					 .attr_id = ib_to_be16(IB_SMP_ATTR_NODE_INFO), .tid = i },
			};
			uint64_t frames = r.h[0]->port[0].frames, gone = discarded(&r);

			s.dr_slid = s.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
			s.init_path[1] = 1;
			send_mad(&r, &smi[0], i, lie[i].dlid, &s);
			rig_run(&r);
			wc(&r.scq[0], i, WC_SUCCESS);
			came += received(&r, 0) + received(&r, 1);
			if (!off)
				continue;
			assert_int_equal(r.h[0]->port[0].frames, frames);
			assert_int_equal(discarded(&r), gone + 1);
		}
		assert_int_equal(!came, off);
		for (unsigned int i = 0; i < 2; i++) {
			host_qp_destroy(&smi[i]);
			host_qp_destroy(&gsi[i]);
		}
		rig_down(&r);
	}
}

/* The agent of a port with smp=off answers the manager, and software receives nothing at QP0. */
static void test_smp_off_receive(void **state)
{
	static const struct {
		uint8_t method;
		uint16_t attr;
		bool answer;
		uint16_t status;
	} lie[] = {
		{ IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, true, IB_MAD_OK },
		{ IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, true, IB_MAD_OK },
		{ IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, true, IB_MAD_BAD_METHOD_ATTR },
		{ IB_METHOD_TRAP, IB_SMP_ATTR_NOTICE, false, 0 },
		{ IB_METHOD_GET_RESP, IB_SMP_ATTR_NODE_INFO, false, 0 },
	};
	struct host_qp smi[2];
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
	r.h[0]->e->cfg.smp_off = true;
	for (unsigned int i = 0; i < 2; i++)
		special(&r, i, OHCA_QPT_SMI, &smi[i]);
	for (unsigned int i = 0; i < sizeof(lie) / sizeof(lie[0]); i++) {
		struct ohca_hw_sge sge = host_sge(r.mr[1].iova + 65536, 296, r.mr[1].key);
		struct ib_smp s = {
			.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID,
				 .class_version = 1, .method = lie[i].method,
				 .attr_id = ib_to_be16(lie[i].attr), .tid = 0x55 },
		};
		uint64_t dropped = r.h[0]->e->port[0].cnt.vl15_dropped;

		ib_pkey_block_put(s.data, 0, IB_DEFAULT_PKEY);
		host_post_recv(&smi[1], 3, &sge, 1);
		send_mad(&r, &smi[1], i, 1, &s);
		rig_run(&r);
		wc(&r.scq[1], i, WC_SUCCESS);
		assert_int_equal(received(&r, 0), 0);
		assert_int_equal(received(&r, 1), lie[i].answer);
		assert_int_equal(r.h[0]->e->port[0].cnt.vl15_dropped, dropped + !lie[i].answer);
		if (!lie[i].answer)
			continue;
		host_buf_read(r.h[1], &r.mr[1].buf, 65536 + 40, &s, 256);
		assert_int_equal(s.hdr.method, IB_METHOD_GET_RESP);
		assert_int_equal(ib_be16(s.hdr.status), lie[i].status);
	}
	for (unsigned int i = 0; i < 2; i++)
		host_qp_destroy(&smi[i]);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mads_dropped),
		cmocka_unit_test(test_mads),
		cmocka_unit_test(test_mads_loop),
		cmocka_unit_test(test_smp_init),
		cmocka_unit_test(test_mkey_hidden),
		cmocka_unit_test(test_smp_off_send),
		cmocka_unit_test(test_smp_off_receive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
