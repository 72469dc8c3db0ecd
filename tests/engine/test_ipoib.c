/* SPDX-License-Identifier: GPL-2.0-or-later */
/* IP datagrams on UD: checksums, their verification, and large TCP segments. */
#include "engine/engine.h"
#include "engine/transport/ipoib.h"
#include "rig.h"

#define HDR	4u
#define CSUM_OK	4u
#define MSS	1000u

/* The checksum as RFC 1071 defines it, one word at a time. */
static uint16_t plain_sum(const uint8_t *p, uint32_t n, uint32_t s)
{
	for (uint32_t i = 0; i < n; i++)
		s += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (s >> 16)
		s = (s >> 16) + (s & 0xffff);
	return (uint16_t)s;
}

/* Return: whether both checksums of a datagram are right. */
static bool right(const uint8_t *p)
{
	const uint8_t *ip = p + HDR;
	uint32_t ihl = 4u * (ip[0] & 15), n = ib_get_be16(ip + 2) - ihl;

	return plain_sum(ip, ihl, 0) == 0xffff &&
	       plain_sum(ip + ihl, n, plain_sum(ip + 12, 8, ip[9] + n)) == 0xffff;
}

/*
 * Writes the headers of a datagram of @n bytes of data. @opt: words of options. Return: their
 * length.
 */
static uint32_t headers(uint8_t *p, uint8_t proto, uint32_t n, uint32_t opt)
{
	uint32_t ihl = 20 + 4 * opt, l4 = proto == 6 ? 20 + 4 * opt : 8;
	uint8_t *ip = p + HDR, *t = ip + ihl;

	memset(p, 0, HDR + ihl + l4);
	p[0] = 8;
	ip[0] = (uint8_t)(0x40 | ihl / 4);
	ib_put_be16(ip + 2, (uint16_t)(ihl + l4 + n));
	ib_put_be16(ip + 4, 0xfffe);
	ip[8] = 64;
	ip[9] = proto;
	ib_put_be32(ip + 12, 0x0a4d0001);
	ib_put_be32(ip + 16, 0x0a4d0002);
	ib_put_be32(t, 0x12345678);
	if (proto == 6) {
		ib_put_be32(t + 4, 0xfffffff0);
		t[12] = (uint8_t)(l4 / 4 << 4);
		t[13] = 0x80 | 0x10 | 0x08 | 0x01;	/* CWR ACK PSH FIN */
	} else {
		ib_put_be16(t + 4, (uint16_t)(l4 + n));
	}
	memset(ip + 20, 1, 4 * opt);
	memset(t + l4 - (proto == 6 ? 4 * opt : 0), 1, proto == 6 ? 4 * opt : 0);
	return HDR + ihl + l4;
}

static struct rig_opt ud(void)
{
	return (struct rig_opt){ .type = OHCA_QPT_UD, .mtu = 4, .log_sq = 8 };
}

static void post(struct rig *r, uint16_t flags, uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_SEND, (uint16_t)(OHCA_WQE_SIGNALED | flags), 1);

	wqe_av(&w, 2, r->qp[1].qpn, RIG_QKEY);
	wqe_sge(&w, r->mr[0].iova, len, r->mr[0].key);
	wqe_post(&r->qp[0], &w);
}

/* Sends the @len bytes at @p and receives them there. Return: the flags of the completion. */
static uint32_t send(struct rig *r, uint16_t flags, uint8_t *p, uint32_t len)
{
	struct ohca_hw_cqe c;

	host_buf_write(r->h[0], &r->mr[0].buf, 0, p, len);
	rig_recv(r, 1, 2, 0, 2088);
	post(r, flags, len);
	rig_run(r);
	wc(&r->scq[0], 1, WC_SUCCESS);
	c = wc(&r->rcq[1], 2, WC_SUCCESS);
	assert_int_equal(c.byte_len, len + 40);
	host_buf_read(r->h[1], &r->mr[1].buf, 40, p, len);
	return c.wc_flags;
}

static void test_fill(void **state)
{
	uint8_t p[2048];
	struct rig r;

	(void)state;
	rig_up(&r, ud());
	for (unsigned int i = 0; i < 400; i++) {
		uint8_t proto = i & 1 ? 6 : 17;
		uint32_t opt = i % 7, n = i * 13 % 1900, hlen = headers(p, proto, n, opt);

		for (uint32_t k = 0; k < n; k++)
			p[hlen + k] = i < 3 ? 0xff : (uint8_t)(k * i + i);
		/* any value in the place of the checksums */
		ib_put_be16(p + HDR + 10, (uint16_t)(i * 7));
		assert_int_equal(send(&r, OHCA_WQE_IP_CSUM, p, hlen + n), CSUM_OK);
		assert_true(right(p));
		/* one wrong bit anywhere in the protected bytes is detected */
		p[HDR + i % (hlen + n - HDR)] ^= 1u << i % 8;
		if (p[HDR + 9] == proto)
			assert_int_equal(send(&r, 0, p, hlen + n) & CSUM_OK, 0);
	}
	rig_down(&r);
}

/* A UDP checksum of zero is sent as ones, because zero means that there is none. */
static void test_zero(void **state)
{
	uint8_t p[64];
	struct rig r;
	uint32_t hlen = headers(p, 17, 2, 0);
	uint16_t s;

	(void)state;
	rig_up(&r, ud());
	memset(p + hlen, 0, 2);
	s = plain_sum(p + HDR + 20, 10, plain_sum(p + HDR + 12, 8, 17 + 10));
	ib_put_be16(p + hlen, (uint16_t)~s);
	assert_int_equal(send(&r, OHCA_WQE_IP_CSUM, p, hlen + 2), CSUM_OK);
	assert_int_equal(ib_get_be16(p + hlen - 2), 0xffff);
	/* and without a checksum nothing is reported */
	ib_put_be16(p + hlen - 2, 0);
	assert_int_equal(send(&r, 0, p, hlen + 2), 0);
	rig_down(&r);
}

/*
 * A packet that is no complete IPv4 datagram with TCP or UDP is neither changed nor reported as
 * good.
 */
static void test_others(void **state)
{
	uint8_t p[256], q[256];
	struct rig r;

	(void)state;
	rig_up(&r, ud());
	for (unsigned int k = 0; k < 8; k++) {
		uint32_t len = headers(p, 6, 100, 0) + 100;

		for (uint32_t i = len - 100; i < len; i++)
			p[i] = (uint8_t)i;
		switch (k) {
		case 0:
			p[0] = 0x86, p[1] = 0xdd;	/* IPv6 */
			break;
		case 1:
			p[HDR] = 0x65;
			break;
		case 2:
			p[HDR] = 0x44;			/* the header is too short */
			break;
		case 3:
			ib_put_be16(p + HDR + 2, (uint16_t)(len - HDR + 1));
			break;
		case 4:
			ib_put_be16(p + HDR + 2, 19);
			break;
		case 5:
			len = HDR + 19;
			break;
		case 6:
			len = 3;
			break;
		default:
			p[0] = 8, p[1] = 6;		/* ARP */
		}
		memcpy(q, p, len);
		assert_int_equal(send(&r, OHCA_WQE_IP_CSUM, p, len), 0);
		assert_memory_equal(p, q, len);
	}
	/* of a fragment and of another protocol, only the IP header */
	for (unsigned int k = 0; k < 2; k++) {
		uint32_t len = headers(p, 6, 100, 0) + 100;

		memset(p + len - 100, 5, 100);
		if (k)
			p[HDR + 9] = 1;
		else
			ib_put_be16(p + HDR + 6, 0x2000);
		memcpy(q, p, len);
		assert_int_equal(send(&r, OHCA_WQE_IP_CSUM, p, len), 0);
		assert_int_equal(plain_sum(p + HDR, 20, 0), 0xffff);
		assert_memory_equal(p + HDR + 20, q + HDR + 20, len - HDR - 20);
	}
	rig_down(&r);
}

static struct wqe tso(struct rig *r, const uint8_t *hdr, uint16_t hlen, uint16_t mss, uint32_t len)
{
	struct ohca_hw_wqe_tso t = { .mss = mss, .hlen = hlen };
	struct wqe w = wqe_new(OHCA_OP_TSO, OHCA_WQE_SIGNALED, 1);

	wqe_av(&w, 2, r->qp[1].qpn, RIG_QKEY);
	memcpy(w.b + 16 * w.nseg++, &t, sizeof(t));
	memcpy(w.b + 16 * w.nseg, hdr, hlen);
	w.nseg += (hlen + 15) / 16;
	wqe_sge(&w, r->mr[0].iova + 11, len / 3, r->mr[0].key);
	wqe_sge(&w, r->mr[0].iova + 11 + len / 3, len - len / 3, r->mr[0].key);
	return w;
}

static void large(struct rig *r, uint32_t len, uint32_t opt, bool hindered)
{
	uint32_t npkt = len ? (len + MSS - 1) / MSS : 1, hlen, at = 0;
	uint8_t hdr[128], p[2048];
	struct ohca_hw_cqe c;
	struct wqe w;

	hlen = headers(hdr, 6, 0, opt);
	rig_fill(r, 0, 11, len, len);
	for (uint32_t i = 0; i < npkt; i++)
		rig_recv(r, 1, i, 4096 * i, 2088);
	w = tso(r, hdr, (uint16_t)hlen, MSS, len);
	if (hindered)
		r->h[0]->port[0].credits = 1;
	wqe_post(&r->qp[0], &w);
	rig_run(r);
	r->h[0]->port[0].credits = 64;
	c = wc(&r->scq[0], 1, WC_SUCCESS);
	assert_int_equal(c.opcode, 7);
	for (uint32_t i = 0; i < npkt; i++, at += MSS) {
		uint32_t n = i + 1 < npkt ? MSS : len - at, ihl = 20 + 4 * opt;
		bool last = i + 1 == npkt;

		c = wc(&r->rcq[1], i, WC_SUCCESS);
		assert_int_equal(c.byte_len, 40 + hlen + n);
		assert_int_equal(c.wc_flags, CSUM_OK);
		host_buf_read(r->h[1], &r->mr[1].buf, 4096 * i + 40, p, hlen + n);
		assert_true(right(p));
		assert_int_equal(ib_get_be16(p + HDR + 2), hlen - HDR + n);
		assert_int_equal(ib_get_be16(p + HDR + 4), (uint16_t)(0xfffe + i));
		assert_int_equal(ib_get_be32(p + HDR + ihl + 4), 0xfffffff0 + at);
		assert_int_equal(p[HDR + ihl + 13],
				 0x10 | (i ? 0 : 0x80) | (last ? 0x09 : 0));
		/* the data, and of the headers only the fields that must change */
		host_buf_read(r->h[0], &r->mr[0].buf, 11 + at, p, n);
		for (uint32_t k = 0; k < n; k++)
			assert_int_equal(p[k], ((uint8_t *)host_buf_ptr(r->h[1], &r->mr[1].buf,
								4096 * i + 40 + hlen + k))[0]);
	}
	no_wc(&r->rcq[1]);
}

static void test_tso(void **state)
{
	static const uint32_t len[] = { 0, 1, MSS - 1, MSS, MSS + 1, 10 * MSS, 15001 };
	struct rig r;

	(void)state;
	rig_up(&r, ud());
	r.opt.log_rq = 5;
	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (uint32_t opt = 0; opt <= 10; opt += 5)
			large(&r, len[i], opt, i & 1);
	rig_down(&r);
}

/* An invalid large segment completes with an error, and no packet of it leaves. */
static void test_tso_bad(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < 10; k++) {
		uint32_t status = k == 7 ? WC_LOC_LEN : WC_LOC_QP_OP;
		struct rig_opt opt = ud();
		uint8_t hdr[144];
		uint64_t frames;
		struct rig r;
		struct wqe w;
		uint16_t hlen, mss = MSS;

		if (k == 8)
			opt.type = OHCA_QPT_RC;
		rig_up(&r, opt);
		hlen = (uint16_t)headers(hdr, 6, 0, 0);
		switch (k) {
		case 0:
			hlen--;
			break;
		case 1:
			hdr[HDR] = 0x46;
			break;
		case 2:
			hdr[HDR + 9] = 17;
			break;
		case 3:
			hdr[HDR + 32] = 0x40;
			break;
		case 4:
			mss = 0;
			break;
		case 5:
			hlen = 129;
			break;
		case 6:
			hdr[0] = 0x86;
			break;
		case 7:
			mss = 4096 - 43;
			break;
		default:
			break;
		}
		w = tso(&r, hdr, hlen, mss, 5000);
		if (k == 9)	/* headers that end past the WQE */
			w.nseg = 6;
		frames = r.h[0]->port[0].frames;
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, status);
		assert_int_equal(r.h[0]->port[0].frames, frames);
		rig_down(&r);
	}
}

/* SQD waits until a large segment that was begun is sent completely. */
static void test_tso_drain(void **state)
{
	struct ohca_hw_qp_attr a = { .state = OHCA_QPS_SQD, .en_sqd_notify = 1 };
	uint8_t hdr[128];
	struct rig r;
	struct wqe w;
	uint32_t hlen = headers(hdr, 6, 0, 0);

	(void)state;
	rig_up(&r, ud());
	r.h[0]->port[0].credits = 2;
	w = tso(&r, hdr, (uint16_t)hlen, MSS, 5 * MSS);
	wqe_post(&r.qp[0], &w);
	wqe_post(&r.qp[0], &w);
	ohca_poll(r.h[0]->e, 64);
	assert_int_equal(r.h[0]->port[0].frames, 2);
	assert_int_equal(host_qp_modify(&r.qp[0], OHCA_ATTR_STATE | OHCA_ATTR_EN_SQD_NOTIFY, &a), 0);
	no_wc(&r.scq[0]);
	rig_run(&r);
	assert_int_equal(r.h[0]->port[0].frames, 5);
	wc(&r.scq[0], 1, WC_SUCCESS);
	no_wc(&r.scq[0]);
	event(r.h[0], OHCA_EVENT_SQ_DRAINED, r.qp[0].handle);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fill), cmocka_unit_test(test_zero),
		cmocka_unit_test(test_others), cmocka_unit_test(test_tso),
		cmocka_unit_test(test_tso_bad), cmocka_unit_test(test_tso_drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
