/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each counter of a port against its definition (IBTA volume 1, 16.1.3.5 and 16.1.4). */
#include "engine/base/le.h"
#include "engine/base/state.h"
#include "engine/transport/madq.h"
#include "ib/crc.h"
#include "rig.h"

#define MS_TICKS	1000u		/* ticks of PortXmitWait in a millisecond */

static const struct ohca_port_counters *counted(struct rig *r, unsigned int i)
{
	return &r->h[i]->e->port[0].cnt;
}

/* PortCountersExtended of side @i, as its driver reads it. */
static struct ib_pma_port_counters_ext ask(struct rig *r, unsigned int i)
{
	struct ib_pma_port_counters_ext v;
	struct ib_mad m;

	memset(&m, 0, sizeof(m));
	m.hdr.base_version = m.hdr.class_version = 1;
	m.hdr.mgmt_class = IB_CLASS_PERF;
	m.hdr.method = IB_METHOD_GET;
	m.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_PORT_COUNTERS_EXT);
	((uint8_t *)&m)[IB_PMA_DATA_OFF + 1] = 1;
	assert_int_equal(host_mad_ifc(r->h[i], 0, (uint8_t *)&m), OHCA_MAD_REPLY);
	assert_int_equal(m.hdr.status, 0);
	ib_pma_pce_unpack((uint8_t *)&m + IB_PMA_DATA_OFF, &v);
	return v;
}

/** struct caught - the last packet of side 0 */
struct caught {
	uint8_t data[5000];
	uint32_t len;
	unsigned int num;
};

static enum host_fate catch(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	struct caught *c = arg;

	(void)from, (void)port;
	memcpy(c->data, frame, len);
	c->len = len;
	c->num++;
	return HOST_DROP;
}

static enum host_fate count(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	(void)from, (void)port, (void)frame, (void)len;
	++*(unsigned int *)arg;
	return HOST_DELIVER;
}

/* ---- received packets --------------------------------------------------------------------- */

static void test_damaged(void **state)
{
	const struct ohca_port_counters *c;
	struct ohca_port_counters was;
	struct ohca_frame f;
	struct caught k = { .num = 0 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	host_hook_set(r.h[0], 0, catch, &k);
	rig_write(&r, 0, 1, 0, 0, 100);
	rig_run(&r);
	c = counted(&r, 1);
	f = (struct ohca_frame){ .data = k.data, .len = k.len };

	/* End of Bad Packet: a switch on the way has counted the error */
	was = *c;
	f.flags = OHCA_RX_EBP;
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(c->rcv_remote_phys_errors, was.rcv_remote_phys_errors + 1);
	assert_int_equal(c->rcv_errors, was.rcv_errors);
	assert_int_equal(c->rcv_pkts, was.rcv_pkts + 1);
	assert_int_equal(c->rcv_data, was.rcv_data + k.len / 4);

	/* a VCRC that is present is checked */
	was = *c;
	f.flags = OHCA_RX_VCRC;
	f.vcrc = (uint16_t)~ib_vcrc(k.data, k.len);
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(c->rcv_errors, was.rcv_errors + 1);
	assert_int_equal(c->rcv_local_phys_errors, was.rcv_local_phys_errors + 1);
	assert_int_equal(c->rcv_malformed, was.rcv_malformed);
	assert_int_equal(c->rcv_pkts, was.rcv_pkts + 1);

	/* and so is an ICRC */
	was = *c;
	f.flags = OHCA_RX_ICRC;
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(c->rcv_errors, was.rcv_errors + 1);
	assert_int_equal(c->rcv_local_phys_errors, was.rcv_local_phys_errors + 1);
	assert_int_equal(c->rcv_malformed, was.rcv_malformed);

	/* a bad length is malformed; a bad transport header is no error of the link */
	was = *c;
	f.flags = 0;
	f.len -= 4;
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(c->rcv_errors, was.rcv_errors + 1);
	assert_int_equal(c->rcv_malformed, was.rcv_malformed + 1);
	f.len += 4;
	k.data[9] ^= 1;			/* TVer */
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(c->rcv_errors, was.rcv_errors + 1);
	assert_int_equal(c->rcv_pkts, was.rcv_pkts + 2);
	k.data[9] ^= 1;
	assert_int_equal(*(uint8_t *)host_buf_ptr(r.h[1], &r.mr[1].buf, 0), 0);

	/* none of these affected the connection */
	f.flags = OHCA_RX_VCRC;
	f.vcrc = ib_vcrc(k.data, k.len);
	ohca_rx(r.h[1]->e, 0, &f);
	host_hook_set(r.h[0], 0, NULL, NULL);
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
}

/* A link that fails counts; one that the subnet manager takes down does not. */
static void test_link_downed(void **state)
{
	struct ib_port_info pi;
	struct ib_smp s;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	assert_int_equal(ask(&r, 0).link_downed, 0);
	for (unsigned int i = 1; i <= 3; i++) {
		host_cable(r.h[0], 0, false);
		rig_run(&r);
		host_cable(r.h[0], 0, true);
		rig_run(&r);
		assert_int_equal(ask(&r, 0).link_downed, i);
	}
	memset(&s, 0, sizeof(s));
	s.hdr.base_version = s.hdr.class_version = 1;
	s.hdr.mgmt_class = IB_CLASS_SUBN_LID;
	s.hdr.method = IB_METHOD_GET;
	s.hdr.attr_id = ib_to_be16(IB_SMP_ATTR_PORT_INFO);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&s), OHCA_MAD_REPLY);
	ib_port_info_unpack(s.data, &pi);
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_POLLING;
	ib_port_info_pack(&pi, s.data);
	s.hdr.method = IB_METHOD_SET;
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&s), OHCA_MAD_REPLY);
	rig_run(&r);
	assert_int_equal(ask(&r, 0).link_downed, 3);
	/* the other end has lost its peer */
	assert_true(ask(&r, 1).link_downed > 0);
	rig_down(&r);
}

static void test_vl15_dropped(void **state)
{
	uint64_t before;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	before = ask(&r, 0).vl15_dropped;
	r.h[0]->port[0].vl15_dropped = 5;
	assert_int_equal(ask(&r, 0).vl15_dropped, before + 5);
	r.h[0]->port[0].vl15_dropped = 7;
	assert_int_equal(ask(&r, 0).vl15_dropped, before + 7);
	assert_int_equal(ask(&r, 0).vl15_dropped, before + 7);
	rig_down(&r);
}

/* ---- sent packets ------------------------------------------------------------------------- */

/* Makes the agent of side 0 send @n SMPs to side 1. */
static void smps(struct rig *r, unsigned int n)
{
	struct ohca_hw_av av = { .dlid = ohca_to_le16(r->h[1]->e->port[0].lid) };
	uint8_t mad[256] = { 1, IB_CLASS_SUBN_LID, 1, IB_METHOD_GET };

	ib_put_be16(mad + 16, IB_SMP_ATTR_NODE_INFO);
	while (n--)
		ohca_mad_send(r->h[0]->e, 0, IB_QP0, &av, IB_DEFAULT_PKEY, 0, mad);
}

/* Packets on VL15 count as the others do, at both ends. */
static void test_vl15_counts(void **state)
{
	struct ohca_port_counters was[2];
	unsigned int left[2] = { 0, 0 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	rig_run(&r);
	for (unsigned int i = 0; i < 2; i++) {
		was[i] = *counted(&r, i);
		host_hook_set(r.h[i], 0, count, &left[i]);
	}
	smps(&r, 3);
	rig_run(&r);
	assert_int_equal(left[0], 3);
	assert_int_equal(left[1], 3);
	for (unsigned int i = 0; i < 2; i++) {
		const struct ohca_port_counters *c = counted(&r, i);

		assert_int_equal(c->xmit_pkts - was[i].xmit_pkts, 3);
		assert_int_equal(c->ucast_xmit_pkts - was[i].ucast_xmit_pkts, 3);
		assert_int_equal(c->rcv_pkts - was[i].rcv_pkts, 3);
		assert_int_equal(c->ucast_rcv_pkts - was[i].ucast_rcv_pkts, 3);
		/* LRH, BTH, DETH, MAD, ICRC */
		assert_int_equal(c->xmit_data - was[i].xmit_data, 3 * 72);
		assert_int_equal(c->rcv_data - was[i].rcv_data, 3 * 72);
	}
	rig_down(&r);
}

/*
 * VL15 has no credits: a packet without room is lost, none waits, and the next packet is complete,
 * even if one was begun and never finished.
 */
static void test_vl15_lost(void **state)
{
	struct ohca_port_counters was;
	unsigned int left = 0;
	struct host_qp smi;
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	assert_int_equal(host_qp_create(r.h[0], &smi, &(struct host_qp_init){
		.special = true, .type = OHCA_QPT_SMI, .port = 1, .scq = &r.scq[0], .rcq = &r.rcq[0] }), 0);
	host_qp_datagram(&smi, 0, 0);
	rig_run(&r);
	was = *counted(&r, 0);
	host_hook_set(r.h[0], 0, count, &left);
	r.h[0]->port[0].credits = 0;
	smps(&r, 2);
	host_step(r.h, 2);
	assert_int_equal(left, 0);
	assert_int_equal(counted(&r, 0)->xmit_pkts - was.xmit_pkts, 2);
	assert_int_equal(counted(&r, 0)->xmit_wait, was.xmit_wait);

	/* begun without room, with a bad L_Key */
	w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 9);
	wqe_av(&w, 2, 0, 0);
	wqe_sge(&w, r.mr[0].iova, 256, 0xdead00);
	wqe_post(&smi, &w);
	host_step(r.h, 2);
	r.h[0]->port[0].credits = 64;
	wc(&r.scq[0], 9, WC_LOC_PROT);
	smps(&r, 1);
	rig_run(&r);
	assert_int_equal(left, 1);
	assert_int_equal(counted(&r, 0)->xmit_pkts - was.xmit_pkts, 3);
	host_qp_destroy(&smi);
	rig_down(&r);
}

/* PortXmitDiscards and its parts. */
static void test_discards(void **state)
{
	struct ohca_port_counters was;
	const struct ohca_port_counters *c;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UC, .mtu = 3 });
	c = counted(&r, 0);
	was = *c;
	/* the MTU of the neighbour is smaller than that of the QP */
	r.h[0]->e->port[0].mtu = 1;
	rig_write(&r, 0, 1, 0, 0, 1000);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(c->xmit_discards - was.xmit_discards, 1);
	assert_int_equal(c->xmit_mtu_discards - was.xmit_mtu_discards, 1);
	assert_int_equal(c->xmit_inactive_discards, was.xmit_inactive_discards);
	assert_int_equal(c->xmit_pkts, was.xmit_pkts);

	host_cable(r.h[0], 0, false);
	rig_run(&r);
	was = *c;
	rig_write(&r, 0, 2, 0, 0, 100);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(c->xmit_discards - was.xmit_discards, 1);
	assert_int_equal(c->xmit_inactive_discards - was.xmit_inactive_discards, 1);
	rig_down(&r);
}

/*
 * More responses than the engine keeps for want of credits: the rest counts as discards, not as
 * VL15Dropped.
 */
static void test_mad_overflow(void **state)
{
	struct ohca_port_counters was;
	const struct ohca_port_counters *c;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	rig_run(&r);
	c = counted(&r, 0);
	was = *c;
	host_hook_set(r.h[0], 0, host_drop, NULL);
	smps(&r, 40);			/* 32 are kept until the next poll */
	rig_run(&r);
	assert_int_equal(c->xmit_discards - was.xmit_discards, 8);
	assert_int_equal(c->vl15_dropped, was.vl15_dropped);
	rig_down(&r);
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* Lets time pass without credits. */
static void stand(struct rig *r, uint64_t ms)
{
	*r->h[0]->now += ms * HOST_MS;
	host_step(r->h, 2);
}

/* PortXmitWait is right while the port waits, when it may send, and when it has nothing to send. */
static void test_xmit_wait(void **state)
{
	const struct ohca_port_counters *c;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UC, .mtu = 1 });
	c = counted(&r, 0);
	r.h[0]->port[0].credits = 0;
	rig_write(&r, 0, 1, 0, 0, 100);
	host_step(r.h, 2);
	stand(&r, 20);
	assert_int_equal(ask(&r, 0).xmit_wait, 20 * MS_TICKS);
	assert_int_equal(c->xmit_wait_vl[0], 20 * MS_TICKS);
	stand(&r, 30);
	assert_int_equal(ask(&r, 0).xmit_wait, 50 * MS_TICKS);
	r.h[0]->port[0].credits = 64;
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_time(&r, 40);
	assert_int_equal(ask(&r, 0).xmit_wait, 50 * MS_TICKS);

	/* the packet that waits is removed: later time does not count */
	r.h[0]->port[0].credits = 0;
	rig_write(&r, 0, 2, 0, 0, 100);
	host_step(r.h, 2);
	stand(&r, 10);
	host_qp_destroy(&r.qp[0]);
	stand(&r, 500);
	r.h[0]->port[0].credits = 64;
	assert_int_equal(host_qp_create(r.h[0], &r.qp[0], &(struct host_qp_init){
		.type = OHCA_QPT_UC, .scq = &r.scq[0], .rcq = &r.rcq[0] }), 0);
	host_qp_connect(&r.qp[0], 0, 2, r.qp[1].qpn, 1, 0, 0);
	rig_write(&r, 0, 3, 0, 0, 100);
	rig_run(&r);
	assert_int_equal(ask(&r, 0).xmit_wait, 60 * MS_TICKS);
	assert_int_equal(c->xmit_wait_vl[0], 60 * MS_TICKS);
	rig_down(&r);
}

/* Starts a session of sampling as the driver does, with the clock of the card. */
static void test_samples(void **state)
{
	struct ib_mad m;
	uint8_t *d = (uint8_t *)&m + IB_PMA_DATA_OFF;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UC, .mtu = 1 });
	memset(&m, 0, sizeof(m));
	m.hdr.base_version = m.hdr.class_version = 1;
	m.hdr.mgmt_class = IB_CLASS_PERF;
	m.hdr.method = IB_METHOD_SET;
	m.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_SAMPLES_CONTROL);
	d[1] = 1;
	ib_put_be32(d + 28, 10 * MS_TICKS);
	ib_put_be32(d + 32, 20 * MS_TICKS);
	ib_put_be16(d + 38, IB_PMA_SAMPLE_XMIT_PKTS);
	ib_put_be16(d + 40, IB_PMA_SAMPLE_XMIT_WAIT);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&m), OHCA_MAD_REPLY);
	assert_true(m.hdr.status == 0 && d[11] == IB_PMA_SAMPLE_STARTED);
	rig_write(&r, 0, 1, 0, 0, 100);
	rig_time(&r, 15);
	rig_write(&r, 0, 2, 0, 0, 600);			/* 3 packets */
	rig_run(&r);
	/* waits for 20 ms, of which 15 are in the interval */
	r.h[0]->port[0].credits = 0;
	rig_write(&r, 0, 3, 0, 0, 100);
	host_step(r.h, 2);
	*r.h[0]->now += 15 * HOST_MS;
	host_step(r.h, 2);
	stand(&r, 5);
	r.h[0]->port[0].credits = 64;
	rig_run(&r);
	memset(&m, 0, sizeof(m));
	m.hdr.base_version = m.hdr.class_version = 1;
	m.hdr.mgmt_class = IB_CLASS_PERF;
	m.hdr.method = IB_METHOD_GET;
	m.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_SAMPLES_RESULT);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&m), OHCA_MAD_REPLY);
	assert_true(m.hdr.status == 0 && ib_get_be16(d + 2) == IB_PMA_SAMPLE_DONE);
	assert_int_equal(ib_get_be32(d + 4), 3);
	assert_int_equal(ib_get_be32(d + 8), 15 * MS_TICKS);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_link_downed),
		cmocka_unit_test(test_vl15_dropped),
		cmocka_unit_test(test_vl15_counts),
		cmocka_unit_test(test_vl15_lost),
		cmocka_unit_test(test_discards),
		cmocka_unit_test(test_mad_overflow),
		cmocka_unit_test(test_xmit_wait),
		cmocka_unit_test(test_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
