/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checksums of IP datagrams over InfiniBand, and large TCP segments; see ipoib.h. */
#include <string.h>

#include "ib/field.h"
#include "ib/types.h"
#include "engine/transport/ipoib.h"

#define PROTO_TCP	6u
#define PROTO_UDP	17u
#define IP_MIN		20u
#define TCP_MIN		20u
#define UDP_LEN		8u
#define FRAGMENT	0x3fffu		/* MF and the offset */

#define TCP_CWR		0x80u		/* in the first segment only (RFC 3168, 6.1.2) */
#define TCP_FIN		0x01u		/* in the last segment only */
#define TCP_PSH		0x08u		/* the same */

/* Add 16-bit words in memory order to @s, with carries. */
static uint64_t sum(const uint8_t *p, uint32_t n, uint64_t s)
{
	uint64_t w;
	uint16_t h;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		s += w;
		s += s < w;
	}
	/* fold to about 32 bits, so that the sums below cannot overflow */
	s = (s >> 32) + (s & 0xffffffff);
	for (; n >= 2; n -= 2, p += 2) {
		memcpy(&h, p, 2);
		s += h;
	}
	if (n) {
		h = 0;
		memcpy(&h, p, 1);
		s += h;
	}
	return s;
}

/* Fold to 16 bits. The words were summed in memory order, so the result is in memory order. */
static uint16_t fold(uint64_t s)
{
	s = (s >> 32) + (s & 0xffffffff);
	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	s = (s >> 16) + (s & 0xffff);
	return (uint16_t)s;
}

/**
 * struct layout - the layout of a datagram
 * @ip: offset of the IPv4 header; @ihl: its bytes
 * @l4: offset of the IPv4 payload; @n: its bytes
 * @proto: PROTO_TCP or PROTO_UDP; 0: another protocol, or a fragment
 * @csum: offset of the checksum in the IPv4 payload
 */
struct layout {
	uint32_t ip, ihl, l4, n;
	uint8_t proto;
	uint8_t csum;
};

static bool find(const uint8_t *p, uint32_t len, struct layout *l)
{
	uint8_t h[OHCA_IPOIB_HDR_LEN + IP_MIN];
	uint32_t total;

	memset(l, 0, sizeof(*l));
	if (len < sizeof(h))
		return false;
	/* the payload may change, so check and use a copy */
	memcpy(h, p, sizeof(h));
	l->ip = OHCA_IPOIB_HDR_LEN;
	l->ihl = 4u * (h[l->ip] & 0xf);
	total = ib_get_be16(h + l->ip + 2);
	if (h[0] != 0x08 || h[1] != 0x00 || h[l->ip] >> 4 != 4 || l->ihl < IP_MIN ||
	    total < l->ihl || total > len - l->ip)
		return false;
	l->l4 = l->ip + l->ihl;
	l->n = total - l->ihl;
	if (ib_get_be16(h + l->ip + 6) & FRAGMENT)
		return true;
	if (h[l->ip + 9] == PROTO_TCP && l->n >= TCP_MIN) {
		l->proto = PROTO_TCP;
		l->csum = 16;
	} else if (h[l->ip + 9] == PROTO_UDP && l->n >= UDP_LEN) {
		l->proto = PROTO_UDP;
		l->csum = 6;
	}
	return true;
}

/* Sum of the words that the TCP or UDP checksum covers: pseudo header, header and data. */
static uint64_t sum_l4(const uint8_t *p, const struct layout *l)
{
	uint8_t pseudo[4] = { 0, l->proto };

	ib_put_be16(pseudo + 2, (uint16_t)l->n);
	return sum(p + l->l4, l->n, sum(p + l->ip + 12, 8, sum(pseudo, sizeof(pseudo), 0)));
}

void ohca_ip_fill(uint8_t *p, uint32_t len)
{
	struct layout l;
	uint16_t c;

	if (!find(p, len, &l))
		return;
	memset(p + l.ip + 10, 0, 2);
	c = (uint16_t)~fold(sum(p + l.ip, l.ihl, 0));
	memcpy(p + l.ip + 10, &c, 2);
	if (!l.proto)
		return;
	memset(p + l.l4 + l.csum, 0, 2);
	c = (uint16_t)~fold(sum_l4(p, &l));
	/* zero means that there is no checksum (RFC 768) */
	if (!c && l.proto == PROTO_UDP)
		c = 0xffff;
	memcpy(p + l.l4 + l.csum, &c, 2);
}

bool ohca_ip_ok(const uint8_t *p, uint32_t len)
{
	struct layout l;

	if (!find(p, len, &l) || !l.proto)
		return false;
	if (l.proto == PROTO_UDP && !p[l.l4 + 6] && !p[l.l4 + 7])
		return false;
	return fold(sum(p + l.ip, l.ihl, 0)) == 0xffff && fold(sum_l4(p, &l)) == 0xffff;
}

bool ohca_tso_check(const uint8_t *p, uint32_t len, struct ohca_tso *t)
{
	uint32_t ihl, doff;

	if (len < OHCA_IPOIB_HDR_LEN + IP_MIN + TCP_MIN || len > UINT8_MAX || p[0] != 0x08 || p[1])
		return false;
	p += OHCA_IPOIB_HDR_LEN;
	ihl = 4u * (p[0] & 0xf);
	if (p[0] >> 4 != 4 || ihl < IP_MIN || OHCA_IPOIB_HDR_LEN + ihl + TCP_MIN > len ||
	    p[9] != PROTO_TCP || ib_get_be16(p + 6) & FRAGMENT)
		return false;
	doff = 4u * (p[ihl + 12] >> 4);
	if (doff < TCP_MIN || OHCA_IPOIB_HDR_LEN + ihl + doff != len)
		return false;
	t->ip = OHCA_IPOIB_HDR_LEN;
	t->tcp = (uint8_t)(OHCA_IPOIB_HDR_LEN + ihl);
	t->len = (uint8_t)len;
	return true;
}

void ohca_tso_segment(uint8_t *p, const struct ohca_tso *t, uint32_t index, uint32_t off,
		      uint32_t n, bool last)
{
	uint8_t *ip = p + t->ip, *tcp = p + t->tcp;

	ib_put_be16(ip + 2, (uint16_t)(t->len - t->ip + n));
	ib_put_be16(ip + 4, (uint16_t)(ib_get_be16(ip + 4) + index));
	ib_put_be32(tcp + 4, ib_get_be32(tcp + 4) + off);
	if (index)
		tcp[13] &= (uint8_t)~TCP_CWR;
	if (!last)
		tcp[13] &= (uint8_t)~(TCP_FIN | TCP_PSH);
	ohca_ip_fill(p, t->len + n);
}
