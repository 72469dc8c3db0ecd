/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The packets that a port accepts (IBTA vol 1, 9.6.1): the test catches a good packet, changes one
 * place at a time, and gives it to the engine. At last the good packet arrives.
 */
#include <stdlib.h>

#include "engine/base/port.h"
#include "engine/base/state.h"
#include "ib/crc.h"
#include "ib/packet.h"
#include "rig.h"

struct caught {
	uint8_t data[5000];
	uint32_t len;
};

static enum host_fate catch(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	struct caught *c = arg;

	(void)from;
	(void)port;
	memcpy(c->data, frame, len);
	c->len = len;
	return HOST_DROP;
}

/* Gives @c to side 1; with @icrc as a packet whose ICRC is present. */
static void inject(struct rig *r, const struct caught *c, bool icrc)
{
	host_rx(r->h[1], 0, c->data[0] >> 4, c->data, c->len, icrc ? OHCA_RX_ICRC : 0);
	rig_run(r);
}

/* Return: whether the WRITE or the SEND has arrived, by the first byte of side 1's memory. */
static bool arrived(struct rig *r)
{
	return *(uint8_t *)host_buf_ptr(r->h[1], &r->mr[1].buf, 50) != 0;
}

static void caught_write(struct rig *r, struct caught *c, struct rig_opt opt)
{
	rig_up(r, opt);
	host_hook_set(r->h[0], 0, catch, c);
	memset(host_buf_ptr(r->h[0], &r->mr[0].buf, 0), 0x77, 101);
	if (opt.type == OHCA_QPT_UD) {
		rig_recv(r, 1, 5, 0, 200);
		rig_send(r, 0, 1, 0, 101);
	} else {
		rig_write(r, 0, 1, 0, 0, 101);
	}
	rig_run(r);
	host_hook_set(r->h[0], 0, NULL, NULL);
	assert_true(c->len > 100);
}

/** struct spoil - byte @off of the packet is xored with @x; @cnt must count it */
struct spoil {
	const char *what;
	unsigned int off;
	uint8_t x;
	enum ohca_counter cnt;
};

static void spoilt(uint8_t type, const struct spoil *s, unsigned int n)
{
	struct caught c, bad;
	struct rig r;

	caught_write(&r, &c, (struct rig_opt){ .type = type, .mtu = 1 });
	for (unsigned int i = 0; i < n; i++) {
		uint64_t before = host_counter(r.h[1], s[i].cnt);

		bad = c;
		bad.data[s[i].off] ^= s[i].x;
		inject(&r, &bad, false);
		if (host_counter(r.h[1], s[i].cnt) != before + 1)
			fail_msg("%s: not counted", s[i].what);
		if (arrived(&r))
			fail_msg("%s: accepted", s[i].what);
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
		no_event(r.h[1]);
	}
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
}

static void test_rc(void **state)
{
	static const struct spoil s[] = {
		{ "link version", 0, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "management lane", 0, 0xf0, OHCA_CNT_RX_BAD_PKT },
		{ "raw", 1, 0x02, OHCA_CNT_RX_BAD_PKT },
		{ "GRH that is none", 1, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "DLID of another", 3, 0x04, OHCA_CNT_RX_BAD_PKT },
		{ "DLID 0", 3, 0x02, OHCA_CNT_RX_BAD_PKT },
		{ "multicast DLID", 2, 0xc0, OHCA_CNT_RX_BAD_PKT },
		{ "length", 5, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "SLID of another", 7, 0x08, OHCA_CNT_RX_BAD_QP },
		{ "multicast SLID", 6, 0xc0, OHCA_CNT_RX_BAD_PKT },
		{ "opcode of UC", 8, 0x20, OHCA_CNT_RX_BAD_QP },
		{ "opcode of RD", 8, 0x40, OHCA_CNT_RX_BAD_QP },
		{ "transport version", 9, 0x01, OHCA_CNT_RX_BAD_PKT },
		{ "P_Key", 11, 0x01, OHCA_CNT_RX_BAD_PKEY },
		{ "invalid P_Key", 10, 0x7f, OHCA_CNT_RX_BAD_PKEY },
		{ "no such QP", 15, 0x40, OHCA_CNT_RX_BAD_QP },
		{ "QP out of range", 13, 0x40, OHCA_CNT_RX_BAD_QP },
	};

	(void)state;
	spoilt(OHCA_QPT_RC, s, sizeof(s) / sizeof(s[0]));
}

static void test_ud(void **state)
{
	static const struct spoil s[] = {
		{ "P_Key", 11, 0x01, OHCA_CNT_RX_BAD_PKEY },
		{ "Q_Key", 23, 0x01, OHCA_CNT_RX_BAD_QKEY },
		{ "opcode of RC", 8, 0x60, OHCA_CNT_RX_BAD_QP },
		{ "multicast without GRH", 2, 0xc0, OHCA_CNT_RX_BAD_PKT },
	};

	(void)state;
	spoilt(OHCA_QPT_UD, s, sizeof(s) / sizeof(s[0]));
}

static uint8_t *changes;

void __real_ohca_dma_enter(ohca_engine *e);
void __wrap_ohca_dma_enter(ohca_engine *e);

/* The peer changes the DLID of the packet as soon as the engine has read its headers. */
void __wrap_ohca_dma_enter(ohca_engine *e)
{
	if (changes)
		changes[3] ^= 0x04;
	__real_ohca_dma_enter(e);
}

/* The engine executes what it has checked, whatever the frame contains afterwards. */
static void test_changed(void **state)
{
	struct caught c;
	uint8_t dlid;
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	dlid = c.data[3];
	changes = c.data;
	host_rx(r.h[1], 0, c.data[0] >> 4, c.data, c.len, 0);
	changes = NULL;
	assert_int_not_equal(c.data[3], dlid);
	assert_true(arrived(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), 0);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
}

static enum host_fate tee(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			  uint32_t len)
{
	catch(arg, from, port, frame, len);
	return HOST_DELIVER;
}

/* While a READ is being answered, a duplicate can only request a part of it. */
static void test_dup_read(void **state)
{
	struct caught c, dup;
	struct rig r;

	(void)state;
	for (unsigned int other = 0; other < 2; other++) {
		rig_up(&r, (struct rig_opt){ .mtu = 1 });
		rig_fill(&r, 1, 0x10000, 0x10000, 1);
		host_hook_set(r.h[0], 0, tee, &c);
		r.h[1]->port[0].credits = 0;
		rig_read(&r, 0, 1, 0, 0x10000, 1000);
		rig_run(&r);
		dup = c;
		if (other)
			dup.data[IB_LRH_LEN + IB_BTH_LEN + 6] ^= 0x10;
		inject(&r, &dup, false);
		r.h[1]->port[0].credits = 64;
		rig_time(&r, 1000);
		wc(&r.scq[0], 1, WC_SUCCESS);
		rig_check(&r, 0, 0, 1000, 1);
		host_hook_set(r.h[0], 0, NULL, NULL);
		rig_down(&r);
	}
}

/*
 * A packet that is cut at any place, or longer than its header says, is dropped, and not read past
 * its end.
 */
static void test_length(void **state)
{
	struct caught c;
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	for (uint32_t len = 0; len < c.len; len++) {
		uint8_t *exact = malloc(len + 1);

		memcpy(exact, c.data, len);
		host_rx(r.h[1], 0, 0, exact, len, len & 1 ? OHCA_RX_ICRC : 0);
		free(exact);
	}
	host_rx(r.h[1], 0, 0, c.data, c.len + 4, 0);
	/* the length in the LRH is right, but too short for the opcode */
	for (uint32_t len = 8; len < 44; len += 4) {
		uint8_t *exact = malloc(len);

		memcpy(exact, c.data, len);
		ib_put_be16(exact + 4, (uint16_t)(len / 4));
		host_rx(r.h[1], 0, 0, exact, len, 0);
		free(exact);
	}
	rig_run(&r);
	assert_false(arrived(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), c.len + 1 + 9);
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_down(&r);
}

/* The ICRC is checked only if it is present. */
static void test_icrc(void **state)
{
	struct caught c;
	struct rig r;
	uint32_t icrc;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	inject(&r, &c, true);
	assert_false(arrived(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), 1);
	assert_int_equal(ib_icrc(c.data, c.len - 4, &icrc), 0);
	ib_icrc_put(c.data + c.len - 4, icrc);
	c.data[40] ^= 1;
	inject(&r, &c, true);
	assert_false(arrived(&r));
	c.data[40] ^= 1;
	inject(&r, &c, true);
	assert_true(arrived(&r));
	rig_down(&r);
}

/* A frame that was damaged on the way is dropped, and counted at the port by the kind of damage. */
static void test_damaged(void **state)
{
	const struct ohca_port_counters *cnt;
	struct ohca_frame f;
	struct caught c;
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	cnt = &r.h[1]->e->port[0].cnt;
	f = (struct ohca_frame){ .data = c.data, .len = c.len, .vl = c.data[0] >> 4 };
	f.flags = OHCA_RX_EBP;
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(cnt->rcv_remote_phys_errors, 1);
	assert_int_equal(cnt->rcv_errors, 0);
	assert_int_equal(cnt->rcv_local_phys_errors, 0);
	f.flags = OHCA_RX_VCRC;
	f.vcrc = (uint16_t)(ib_vcrc(c.data, c.len) ^ 1);
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(cnt->rcv_errors, 1);
	assert_int_equal(cnt->rcv_local_phys_errors, 1);
	assert_int_equal(cnt->rcv_malformed, 0);
	/* a frame of a lane that differs from its header */
	f.flags = 0;
	f.vl ^= 1;
	ohca_rx(r.h[1]->e, 0, &f);
	assert_int_equal(cnt->rcv_errors, 2);
	assert_int_equal(cnt->rcv_malformed, 1);
	assert_int_equal(cnt->rcv_remote_phys_errors, 1);
	/* and one of half a header */
	f.vl ^= 1;
	f.len = IB_LRH_LEN - 1;
	ohca_rx(r.h[1]->e, 0, &f);
	rig_run(&r);
	assert_false(arrived(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), 4);
	f.len = c.len;
	f.flags = OHCA_RX_VCRC;
	f.vcrc ^= 1;
	ohca_rx(r.h[1]->e, 0, &f);
	rig_run(&r);
	assert_true(arrived(&r));
	assert_int_equal(cnt->rcv_errors, 2);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), 4);
	rig_down(&r);
}

/* A port below Armed accepts no data; data makes an Armed port Active. */
static void test_port_state(void **state)
{
	struct caught c;
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .mtu = 1 });
	host_cable(r.h[1], 0, false);
	rig_run(&r);
	inject(&r, &c, false);
	host_cable(r.h[1], 0, true);
	rig_run(&r);
	inject(&r, &c, false);
	assert_false(arrived(&r));
	host_port_set(r.h[1], 0, 2, IB_PS_ARMED);
	host_port_set(r.h[0], 0, 1, IB_PS_ACTIVE);
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
}

/* With a GRH in the QP's path, the GRH of a packet must be its reverse. */
static void test_grh(void **state)
{
	struct ohca_hw_qp_attr a[2];
	struct caught c = { .len = 0 }, bad;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .cold = true });
	for (unsigned int i = 0; i < 2; i++) {
		static const uint8_t prefix[8] = { 0xfe, 0x80 };

		a[i] = rig_attr(&r, i);
		a[i].av.flags = OHCA_AV_GRH;
		a[i].av.hop_limit = 1;
		memcpy(a[i].av.dgid, prefix, 8);
		ib_put_be64(a[i].av.dgid + 8, r.h[1 - i]->cfg.node_guid + 1);
		rig_connect(&r, i, a[i]);
	}
	host_hook_set(r.h[0], 0, catch, &c);
	memset(host_buf_ptr(r.h[0], &r.mr[0].buf, 0), 0x77, 101);
	rig_write(&r, 0, 1, 0, 0, 101);
	rig_run(&r);
	host_hook_set(r.h[0], 0, NULL, NULL);
	for (unsigned int off = 16; off < 48; off += 5) {
		bad = c;
		bad.data[off] ^= 2;
		inject(&r, &bad, false);
		assert_false(arrived(&r));
	}
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_QP), 7);
	/* the GID of the QP is not in the table any more */
	r.h[1]->e->port[0].gid_valid[0] = false;
	inject(&r, &c, false);
	assert_false(arrived(&r));
	r.h[1]->e->port[0].gid_valid[0] = true;
	inject(&r, &c, false);
	assert_true(arrived(&r));
	rig_down(&r);
}

/*
 * The SM has set another prefix of the subnet: the default prefix is still valid, others are not.
 */
static void test_prefix(void **state)
{
	static const uint8_t subnet[8] = { 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1 };
	struct ohca_hw_qp_attr a;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		/* there are no responses, so only one GID is checked */
		rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UC, .cold = true });
		memcpy(r.h[1]->e->port[0].gid[0], subnet, 8);
		for (unsigned int i = 0; i < 2; i++) {
			a = rig_attr(&r, i);
			a.av.flags = OHCA_AV_GRH;
			memcpy(a.av.dgid, (uint8_t [8]){ 0xfe, 0x80 }, 8);
			ib_put_be64(a.av.dgid + 8, r.h[1 - i]->cfg.node_guid + 1);
			if (i == 0 && k)
				a.av.dgid[7] = 1;
			rig_connect(&r, i, a);
		}
		memset(host_buf_ptr(r.h[0], &r.mr[0].buf, 0), 0x77, 101);
		rig_write(&r, 0, 1, 0, 0, 101);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(arrived(&r), !k);
		rig_down(&r);
	}
}

/* ---- requests and responses made by hand ---- */

/** struct made - a packet to side 1; @len: RETH.DMALen */
struct made {
	const char *what;
	uint8_t op;
	int32_t psn;
	uint32_t payload, len;
	uint32_t want;		/* AETH syndrome of the response; NONE; SILENT */
};
#define NONE	0x100u
#define NAK_INV	0x61u

static void send_made(struct rig *r, const struct made *m)
{
	static struct caught c;
	const struct ib_opcode_info *op = &ib_opcodes[m->op];
	uint8_t *h, pad = ib_pad(m->payload);

	memset(&c, 0, sizeof(c));
	c.len = 8 + op->hdr_len + m->payload + pad + 4;
	h = ib_build_lrh(c.data, 0, 0, IB_LNH_IBA_LOCAL, 2, (uint16_t)(c.len / 4), 1);
	h = ib_build_bth(h, m->op, 0, pad, 0xffff, r->qp[1].qpn, true, (uint32_t)m->psn);
	if (op->hdrs & IB_HDR_RETH)
		h = ib_build_reth(h, r->mr[1].iova, r->mr[1].key, m->len);
	if (op->hdrs & IB_HDR_ATOMIC_ETH)
		h = ib_build_atomic(h, r->mr[1].iova, r->mr[1].key, 1, 0);
	if (op->hdrs & IB_HDR_AETH)
		h = ib_build_aeth(h, (uint8_t)m->len, 0);
	inject(r, &c, false);
}

static void test_made(void **state)
{
	static const struct made m[] = {
		{ "short first", IB_OP_RC_WRITE_FIRST, 0, 255, 1000, NAK_INV },
		{ "long first", IB_OP_RC_WRITE_FIRST, 0, 512, 1000, NAK_INV },
		{ "first that is all", IB_OP_RC_WRITE_FIRST, 0, 256, 256, NAK_INV },
		{ "only that is not all", IB_OP_RC_WRITE_ONLY, 0, 100, 101, NAK_INV },
		{ "only that is more", IB_OP_RC_WRITE_ONLY, 0, 100, 99, NAK_INV },
		{ "middle without first", IB_OP_RC_WRITE_MIDDLE, 0, 256, 0, NAK_INV },
		{ "SEND longer than the path's MTU", IB_OP_RC_SEND_ONLY, 0, 512, 0, NAK_INV },
		{ "more than 2 GiB", IB_OP_RC_READ_REQUEST, 0, 0, 0x80000001, NAK_INV },
		{ "duplicate READ that reaches too far", IB_OP_RC_READ_REQUEST, -1, 0, 1000, NONE },
		{ "duplicate atomic never seen", IB_OP_RC_FETCH_ADD, -5, 0, 0, NONE },
		{ "future", IB_OP_RC_WRITE_ONLY, 1, 8, 8, 0x60 },
		{ "good", IB_OP_RC_WRITE_ONLY, 0, 8, 8, 0x00 },
		{ "half of all PSNs away", IB_OP_RC_WRITE_ONLY, -0x800000 + 1, 8, 8, 0x00 },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		struct caught out = { .len = 0 };
		struct rig r;

		rig_up(&r, (struct rig_opt){ .mtu = 1 });
		rig_recv(&r, 1, 5, 0, 4096);
		host_hook_set(r.h[1], 0, catch, &out);
		send_made(&r, &m[i]);
		if (m[i].want == NONE ? out.len != 0 :
		    out.len != 28 || out.data[8] != IB_OP_RC_ACK || out.data[20] != m[i].want)
			fail_msg("%s: answer of %u bytes, opcode %02x, syndrome %02x", m[i].what,
				 out.len, out.data[8], out.data[20]);
		assert_int_equal(rig_state(&r.qp[1]), m[i].want == NAK_INV ? OHCA_QPS_ERR :
						      OHCA_QPS_RTS);
		rig_down(&r);
	}
}

/* Last packets that are empty or, for a WRITE, too short or too long. */
static void test_made_last(void **state)
{
	static const uint32_t len[] = { 0, 43, 45, 256, 0 };

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		struct made first = { "", i < 4 ? IB_OP_RC_WRITE_FIRST : IB_OP_RC_SEND_FIRST, 0,
				      256, 300, 0 };
		struct made last = { "", i < 4 ? IB_OP_RC_WRITE_LAST : IB_OP_RC_SEND_LAST, 1,
				     len[i], 0, 0 };
		struct caught out = { .len = 0 };
		struct rig r;

		rig_up(&r, (struct rig_opt){ .mtu = 1 });
		rig_recv(&r, 1, 5, 0, 1000);
		send_made(&r, &first);
		host_hook_set(r.h[1], 0, catch, &out);
		send_made(&r, &last);
		assert_int_equal(out.data[20], NAK_INV);
		rig_down(&r);
	}
}

/* Responses that match no request change nothing. */
static void test_ghosts(void **state)
{
	static const struct made m[] = {
		{ "ACK of what was not sent", IB_OP_RC_ACK, 101, 0, 0x1f, 0 },
		{ "NAK of what was not sent", IB_OP_RC_ACK, 101, 0, 0x62, 0 },
		{ "old ACK", IB_OP_RC_ACK, 99, 0, 0x1f, 0 },
		{ "old NAK", IB_OP_RC_ACK, 99, 0, 0x62, 0 },
		{ "old RNR NAK", IB_OP_RC_ACK, 99, 0, 0x21, 0 },
		{ "reserved NAK", IB_OP_RC_ACK, 100, 0, 0x7f, 0 },
		{ "reserved kind", IB_OP_RC_ACK, 100, 0, 0x40, 0 },
		{ "old READ response", IB_OP_RC_READ_RESP_ONLY, 99, 0, 0x1f, 0 },
	};
	struct made good = { "ACK", IB_OP_RC_ACK, 100, 0, 0x1f, 0 };
	struct caught drop;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .psn = { 0, 100 } });
	host_hook_set(r.h[1], 0, catch, &drop);
	rig_write(&r, 1, 1, 0, 0, 8);
	rig_run(&r);
	for (unsigned int i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		send_made(&r, &m[i]);
		no_wc(&r.scq[1]);
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
	}
	send_made(&r, &good);
	wc(&r.scq[1], 1, WC_SUCCESS);
	rig_down(&r);
}

/* A GSI QP accepts only its own Q_Key, and any P_Key of the port. */
static void test_gsi_keys(void **state)
{
	struct ib_mad m = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1,
			 .method = IB_METHOD_GET, .attr_id = ib_to_be16(1) },
	};
	struct caught c = { .len = 8 + 12 + 8 + 256 + 4 };
	struct rig r;
	uint8_t *h;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
	for (unsigned int i = 0; i < 3; i++) {
		struct caught out = { .len = 0 };

		host_hook_set(r.h[1], 0, catch, &out);
		h = ib_build_lrh(c.data, 0, 0, IB_LNH_IBA_LOCAL, 2, (uint16_t)(c.len / 4), 1);
		h = ib_build_bth(h, IB_OP_UD_SEND_ONLY, 0, 0, i == 1 ? 0x1234 : 0xffff, 1, false, 0);
		h = ib_build_deth(h, i == 2 ? 7 : IB_QKEY_GSI, 1);
		memcpy(h, &m, 256);
		inject(&r, &c, false);
		if (i == 0) {
			assert_int_equal(out.len, c.len);
			assert_int_equal(out.data[28 + 3], IB_METHOD_GET_RESP);
		} else {
			assert_true(out.len == 0 || out.data[0] >> 4 == 15);
		}
	}
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKEY), 1);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_QKEY), 1);
	rig_down(&r);
}

/* An agent answers with the P_Key of the request, whatever else is in the table. */
static void test_gsi_reply_pkey(void **state)
{
	struct ib_mad m = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1,
			 .method = IB_METHOD_GET, .attr_id = ib_to_be16(1) },
	};
	struct caught c = { .len = 8 + 12 + 8 + 256 + 4 }, out = { .len = 0 };
	struct ohca_port *port;
	struct rig r;
	uint8_t *h;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
	port = &r.h[1]->e->port[0];
	port->pkey[0] = 0;
	port->pkey[3] = 0x9234;
	host_hook_set(r.h[1], 0, catch, &out);
	h = ib_build_lrh(c.data, 0, 0, IB_LNH_IBA_LOCAL, 2, (uint16_t)(c.len / 4), 1);
	h = ib_build_bth(h, IB_OP_UD_SEND_ONLY, 0, 0, 0x1234, 1, false, 0);
	h = ib_build_deth(h, IB_QKEY_GSI, 1);
	memcpy(h, &m, 256);
	inject(&r, &c, false);
	assert_int_equal(out.len, c.len);
	assert_int_equal(out.data[28 + 3], IB_METHOD_GET_RESP);
	assert_int_equal(out.data[10] << 8 | out.data[11], 0x9234);
	assert_int_equal(port->cnt.xmit_discards, 0);
	rig_down(&r);
}

/* Violations of P_Key and Q_Key cause traps to the subnet manager. */
static void test_traps(void **state)
{
	struct caught c, bad, out = { .len = 0 };
	struct rig r;

	(void)state;
	caught_write(&r, &c, (struct rig_opt){ .type = OHCA_QPT_UD });
	host_hook_set(r.h[1], 0, catch, &out);
	bad = c;
	bad.data[11] ^= 1;
	inject(&r, &bad, false);
	assert_int_equal(out.len, 8 + 12 + 8 + 256 + 4);
	assert_int_equal(out.data[0] >> 4, 15);
	assert_int_equal(out.data[28 + 3], IB_METHOD_TRAP);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rc),
		cmocka_unit_test(test_ud),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_dup_read),
		cmocka_unit_test(test_icrc),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_port_state),
		cmocka_unit_test(test_grh),
		cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_made_last),
		cmocka_unit_test(test_ghosts),
		cmocka_unit_test(test_gsi_keys),
		cmocka_unit_test(test_gsi_reply_pkey),
		cmocka_unit_test(test_traps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
