/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Invariant and variant CRCs (IBTA volume 1, 7.8).
 *
 * Functions without state: tables are constant data, nothing needs to be initialized, and any
 * thread may call.
 */
#ifndef OHCA_IB_CRC_H
#define OHCA_IB_CRC_H

#include <sys/uio.h>

#include "types.h"

/**
 * ib_icrc_iov() - ICRC of a packet in pieces
 * @iov: pieces from LRH to the last pad byte, without the ICRC itself
 * @n: number of pieces; the first holds LRH, GRH if any, and BTH
 * @icrc: the CRC as a number; use ib_icrc_put() to store it
 *
 * Variant fields count as ones, whatever they contain (7.8.1): LRH.VL, or with a GRH the whole LRH
 * and the GRH's traffic class, flow label and hop limit; the FECN/BECN byte of the BTH.
 *
 * Return: 0, or -1 when the first piece does not hold the headers or the packet
 * is raw (raw packets have no ICRC).
 */
int ib_icrc_iov(const struct iovec *iov, unsigned int n, uint32_t *icrc);

/** ib_icrc() - ib_icrc_iov() of one contiguous piece. */
int ib_icrc(const uint8_t *pkt, size_t len, uint32_t *icrc);

/** ib_icrc_put() - store an ICRC in wire order (least significant byte first). */
static inline void ib_icrc_put(void *p, uint32_t icrc)
{
	uint8_t *b = p;

	b[0] = (uint8_t)icrc;
	b[1] = (uint8_t)(icrc >> 8);
	b[2] = (uint8_t)(icrc >> 16);
	b[3] = (uint8_t)(icrc >> 24);
}

/** ib_icrc_get() - read an ICRC from the wire. */
static inline uint32_t ib_icrc_get(const void *p)
{
	const uint8_t *b = p;

	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/**
 * ib_icrc_ok() - check the ICRC at the end of a whole packet
 * @pkt: packet from LRH
 * @len: bytes from LRH to ICRC inclusive
 *
 * Return: true if it is right; false also if the packet is too short or raw.
 */
bool ib_icrc_ok(const uint8_t *pkt, size_t len);

#define IB_VCRC_INIT 0xffffu

/** ib_vcrc_update() - continue a VCRC; start with IB_VCRC_INIT, end with ib_vcrc_final(). */
uint16_t ib_vcrc_update(uint16_t crc, const void *data, size_t len);

/** ib_vcrc_final() - the VCRC as a number. */
static inline uint16_t ib_vcrc_final(uint16_t crc)
{
	return (uint16_t)~crc;
}

/**
 * ib_vcrc() - VCRC of contiguous bytes: LRH through ICRC, or a raw packet's LRH through payload.
 */
static inline uint16_t ib_vcrc(const void *data, size_t len)
{
	return ib_vcrc_final(ib_vcrc_update(IB_VCRC_INIT, data, len));
}

/** ib_vcrc_put() - store a VCRC in wire order (least significant byte first). */
static inline void ib_vcrc_put(void *p, uint16_t vcrc)
{
	uint8_t *b = p;

	b[0] = (uint8_t)vcrc;
	b[1] = (uint8_t)(vcrc >> 8);
}

/** ib_vcrc_get() - read a VCRC from the wire. */
static inline uint16_t ib_vcrc_get(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] | b[1] << 8);
}

#endif
