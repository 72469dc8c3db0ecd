/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Big-endian wire types and unaligned access helpers.
 *
 * InfiniBand headers and MADs are big-endian. A value of a __beNN type is in wire order; only the
 * helpers below convert it. The type names are those of <linux/types.h>, so this header can be used
 * with firmware-if headers, and sparse checks __bitwise types. Any thread may call.
 */
#ifndef OHCA_IB_TYPES_H
#define OHCA_IB_TYPES_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__linux__)
#include <linux/types.h>
#else
typedef unsigned short __be16;
typedef unsigned int __be32;
typedef unsigned long long __be64;
#endif

#ifdef __CHECKER__
#define IB_FORCE __attribute__((force))
#else
#define IB_FORCE
#endif

#define IB_PACKED __attribute__((packed))
#define IB_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/** ib_get_be16() - read 2 big-endian bytes at any alignment. */
static inline uint16_t ib_get_be16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] << 8 | b[1]);
}

/** ib_get_be32() - read 4 big-endian bytes at any alignment. */
static inline uint32_t ib_get_be32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/** ib_get_be64() - read 8 big-endian bytes at any alignment. */
static inline uint64_t ib_get_be64(const void *p)
{
	const uint8_t *b = p;

	return (uint64_t)ib_get_be32(b) << 32 | ib_get_be32(b + 4);
}

/*
 * For single stores in host order: a compiler does not always combine stores of successive bytes.
 */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IB_SWAP(bits, v)	__builtin_bswap##bits(v)
#else
#define IB_SWAP(bits, v)	(v)
#endif

/** ib_put_be16() - write @v as 2 big-endian bytes at any alignment. */
static inline void ib_put_be16(void *p, uint16_t v)
{
	v = IB_SWAP(16, v);
	memcpy(p, &v, sizeof(v));
}

/** ib_put_be24() - write the low 24 bits of @v as 3 big-endian bytes. */
static inline void ib_put_be24(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)(v >> 16);
	b[1] = (uint8_t)(v >> 8);
	b[2] = (uint8_t)v;
}

/** ib_put_be32() - write @v as 4 big-endian bytes at any alignment. */
static inline void ib_put_be32(void *p, uint32_t v)
{
	v = IB_SWAP(32, v);
	memcpy(p, &v, sizeof(v));
}

/** ib_put_be64() - write @v as 8 big-endian bytes at any alignment. */
static inline void ib_put_be64(void *p, uint64_t v)
{
	v = IB_SWAP(64, v);
	memcpy(p, &v, sizeof(v));
}

/** ib_be16() - wire order to host order. */
static inline uint16_t ib_be16(__be16 v)
{
	return ib_get_be16(&v);
}

/** ib_be32() - wire order to host order. */
static inline uint32_t ib_be32(__be32 v)
{
	return ib_get_be32(&v);
}

/** ib_be64() - wire order to host order. */
static inline uint64_t ib_be64(__be64 v)
{
	return ib_get_be64(&v);
}

/** ib_to_be16() - host order to wire order. */
static inline __be16 ib_to_be16(uint16_t v)
{
	__be16 r;

	ib_put_be16(&r, v);
	return r;
}

/** ib_to_be32() - host order to wire order. */
static inline __be32 ib_to_be32(uint32_t v)
{
	__be32 r;

	ib_put_be32(&r, v);
	return r;
}

/** ib_to_be64() - host order to wire order. */
static inline __be64 ib_to_be64(uint64_t v)
{
	__be64 r;

	ib_put_be64(&r, v);
	return r;
}

#endif
