/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * IP datagrams over InfiniBand (RFC 4391): checksums and segmentation of TCP.
 *
 * The functions work on the payload of a UD packet: 4 bytes of encapsulation header, an
 * IPv4 header, and TCP or UDP. Pure functions; any context.
 */
#ifndef OHCA_ENGINE_IPOIB_H
#define OHCA_ENGINE_IPOIB_H

#include <stdbool.h>
#include <stdint.h>

#define OHCA_IPOIB_HDR_LEN	4u

/**
 * struct ohca_tso - headers of a large TCP segment, checked
 * @ip: offset of the IPv4 header; @tcp: of the TCP header; @len: of both and what precedes
 */
struct ohca_tso {
	uint8_t ip, tcp, len;
};

/**
 * ohca_ip_fill - compute the checksums of a datagram
 * @p: payload; the IPv4 header checksum and, unless it is a fragment, that of TCP or UDP
 *	are written
 * @len: its bytes
 *
 * A payload that is not IPv4 stays unchanged.
 */
void ohca_ip_fill(uint8_t *p, uint32_t len);

/**
 * ohca_ip_ok - whether a datagram has all checksums and they are right
 * @p: payload, which may change meanwhile: then the result is for the bytes read
 * @len: its bytes
 */
bool ohca_ip_ok(const uint8_t *p, uint32_t len);

/** ohca_tso_check - are the @len bytes at @p headers down to TCP's? false: no */
bool ohca_tso_check(const uint8_t *p, uint32_t len, struct ohca_tso *t);

/**
 * ohca_tso_segment - make the headers those of one segment
 * @p: the packet: headers, then data; all headers' bytes are as in the original
 * @t: from ohca_tso_check()
 * @index: number of the segment, from 0
 * @off: bytes of data before it
 * @n: its bytes of data
 * @last: it is the last segment
 */
void ohca_tso_segment(uint8_t *p, const struct ohca_tso *t, uint32_t index, uint32_t off,
		      uint32_t n, bool last);

#endif
