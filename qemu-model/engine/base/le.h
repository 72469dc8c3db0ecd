/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Conversion of __leNN, the byte order of the hardware interface, to and from CPU order. */
#ifndef OHCA_BASE_LE_H
#define OHCA_BASE_LE_H

#include <stdint.h>

#include "ib/types.h"
#include "ohca_hw.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline uint16_t ohca_le16(__le16 v) { return (IB_FORCE uint16_t)v; }
static inline uint32_t ohca_le32(__le32 v) { return (IB_FORCE uint32_t)v; }
static inline uint64_t ohca_le64(__le64 v) { return (IB_FORCE uint64_t)v; }
#else
static inline uint16_t ohca_le16(__le16 v) { return __builtin_bswap16((IB_FORCE uint16_t)v); }
static inline uint32_t ohca_le32(__le32 v) { return __builtin_bswap32((IB_FORCE uint32_t)v); }
static inline uint64_t ohca_le64(__le64 v) { return __builtin_bswap64((IB_FORCE uint64_t)v); }
#endif

static inline __le16 ohca_to_le16(uint16_t v)
{
	return (IB_FORCE __le16)ohca_le16((IB_FORCE __le16)v);
}

static inline __le32 ohca_to_le32(uint32_t v)
{
	return (IB_FORCE __le32)ohca_le32((IB_FORCE __le32)v);
}

static inline __le64 ohca_to_le64(uint64_t v)
{
	return (IB_FORCE __le64)ohca_le64((IB_FORCE __le64)v);
}

#endif /* OHCA_BASE_LE_H */
