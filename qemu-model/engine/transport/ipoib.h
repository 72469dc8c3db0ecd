/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * IP datagrams over InfiniBand (RFC 4391): checksums and segmentation of TCP.
 *
 * The functions use the payload of a UD packet: 4 bytes of encapsulation header, an IPv4 header,
 * and TCP or UDP. They keep no state; any thread may call.
 */
#ifndef OHCA_ENGINE_IPOIB_H
#define OHCA_ENGINE_IPOIB_H

#include <stdbool.h>
#include <stdint.h>

#define OHCA_IPOIB_HDR_LEN	4u

/**
 * struct ohca_tso - headers of a large TCP segment, checked
 * @ip, @tcp: offsets of the IPv4 and TCP headers
 * @len: bytes of all headers
 */
struct ohca_tso {
	uint8_t ip, tcp, len;
};

/**
 * ohca_ip_fill - compute the checksums of a datagram
 * @p: payload; the function writes the IPv4 header checksum and, unless it is a fragment, the TCP
 *	or UDP checksum
 * @len: its bytes
 *
 * Does not change a payload that is not IPv4.
 */
void ohca_ip_fill(uint8_t *p, uint32_t len);

/**
 * ohca_ip_ok - whether a datagram has all checksums and they are right
 * @p: payload; if it changes at the same time, the result is for the bytes that were read
 * @len: its bytes
 */
bool ohca_ip_ok(const uint8_t *p, uint32_t len);

/** ohca_tso_check - whether the @len bytes at @p are exactly the headers through TCP; sets *@t */
bool ohca_tso_check(const uint8_t *p, uint32_t len, struct ohca_tso *t);

/**
 * ohca_tso_segment - change the headers to those of one segment
 * @p: the packet: the original headers, then data
 * @t: from ohca_tso_check()
 * @index: number of the segment, from 0
 * @off: bytes of data before it
 * @n: bytes of its data
 * @last: it is the last segment
 */
void ohca_tso_segment(uint8_t *p, const struct ohca_tso *t, uint32_t index, uint32_t off,
		      uint32_t n, bool last);

#endif
