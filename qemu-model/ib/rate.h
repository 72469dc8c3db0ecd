/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MTU, width, speed and rate codes (IBTA volume 1, 14.2.5.6 and 15.2.5.16).
 */
#ifndef OHCA_IB_RATE_H
#define OHCA_IB_RATE_H

#include "types.h"

enum ib_mtu_code {
	IB_MTU_CODE_256		= 1,
	IB_MTU_CODE_512		= 2,
	IB_MTU_CODE_1024	= 3,
	IB_MTU_CODE_2048	= 4,
	IB_MTU_CODE_4096	= 5,
};

/* PortInfo.LinkWidth*: one bit each. */
enum ib_width_bits {
	IB_WIDTH_1X	= 1,
	IB_WIDTH_4X	= 2,
	IB_WIDTH_8X	= 4,
	IB_WIDTH_12X	= 8,
	IB_WIDTH_2X	= 16,
	IB_WIDTH_SET_SUPPORTED = 255,	/* LinkWidthEnabled: enable all supported */
};

/*
 * PortInfo.LinkSpeed*: one bit each. PortInfo does not define FDR10 and shows it as QDR; it is in
 * MLNXExtendedPortInfo (mlnx.h). Masks of speeds have an additional bit for it, above those of the
 * field.
 */
enum ib_speed_bits {
	IB_SPEED_SDR	= 1,
	IB_SPEED_DDR	= 2,
	IB_SPEED_QDR	= 4,
	IB_SPEED_SET_SUPPORTED = 15,
	IB_SPEED_FDR10	= 16,
};

/*
 * PortInfo.LinkSpeedExt* and, from IB_SPEED_EXT2_SHIFT on, PortInfo.LinkSpeedExt*2: one bit each.
 * Masks of extended speeds contain both fields, so a faster speed is a higher bit.
 */
#define IB_SPEED_EXT2_SHIFT	5u
enum ib_speed_ext_bits {
	IB_SPEED_EXT_FDR = 1,
	IB_SPEED_EXT_EDR = 2,
	IB_SPEED_EXT_HDR = 4,
	IB_SPEED_EXT_NDR = 8,
	IB_SPEED_EXT_XDR = 1 << IB_SPEED_EXT2_SHIFT,
	IB_SPEED_EXT_DISABLE = 30,	/* LinkSpeedExtEnabled: no speed of either field */
	IB_SPEED_EXT_SET_SUPPORTED = 31,
	IB_SPEED_EXT2_SET_SUPPORTED = 7,	/* LinkSpeedExtEnabled2 */
};

/* PathRecord.Rate and static rate codes. */
enum ib_rate_code {
	IB_RATE_CODE_CURRENT	= 0,
	IB_RATE_CODE_2_5	= 2,
	IB_RATE_CODE_10		= 3,
	IB_RATE_CODE_30		= 4,
	IB_RATE_CODE_5		= 5,
	IB_RATE_CODE_20		= 6,
	IB_RATE_CODE_40		= 7,
	IB_RATE_CODE_60		= 8,
	IB_RATE_CODE_80		= 9,
	IB_RATE_CODE_120	= 10,
	IB_RATE_CODE_14		= 11,
	IB_RATE_CODE_56		= 12,
	IB_RATE_CODE_112	= 13,
	IB_RATE_CODE_168	= 14,
	IB_RATE_CODE_25		= 15,
	IB_RATE_CODE_100	= 16,
	IB_RATE_CODE_200	= 17,
	IB_RATE_CODE_300	= 18,
	IB_RATE_CODE_28		= 19,
	IB_RATE_CODE_50		= 20,
	IB_RATE_CODE_400	= 21,
	IB_RATE_CODE_600	= 22,
	IB_RATE_CODE_800	= 23,
	IB_RATE_CODE_1200	= 24,
	IB_RATE_CODE_1600	= 25,
};

/** ib_mtu_bytes() - bytes of an MTU code, 0 if the code is invalid. */
static inline uint32_t ib_mtu_bytes(uint8_t code)
{
	return code >= IB_MTU_CODE_256 && code <= IB_MTU_CODE_4096 ? 128u << code : 0;
}

/** ib_mtu_code() - largest code whose MTU is at most @bytes, 0 if there is none. */
uint8_t ib_mtu_code(uint32_t bytes);

/** ib_width_lanes() - lanes of one LinkWidth bit, 0 if it is not exactly one. */
uint32_t ib_width_lanes(uint8_t width);

/**
 * ib_link_mbps() - nominal rate of a link, Mb/s
 * @width: LinkWidthActive
 * @speed: LinkSpeedActive; ignored if @ext is not 0
 * @ext: LinkSpeedExtActive
 *
 * SDR 4X is 10000, EDR 4X 100000. Return: 0 if a code is invalid.
 */
uint32_t ib_link_mbps(uint8_t width, uint8_t speed, uint8_t ext);

/**
 * ib_link_data_kbps() - data rate of a link, without the bits that its encoding adds, kb/s
 *
 * Arguments: as of ib_link_mbps(). SDR, DDR and QDR send 10 bits for 8, so SDR 4X has 8,000,000.
 * FDR sends 66 bits for 64 at 14.0625 Gb/s a lane. The nominal rates of later speeds are their data
 * rates.
 *
 * Return: 0 if a code is invalid.
 */
uint32_t ib_link_data_kbps(uint8_t width, uint8_t speed, uint8_t ext);

/** ib_rate_mbps() - Mb/s of a rate code, 0 if the code is invalid. */
uint32_t ib_rate_mbps(uint8_t rate);

/** ib_rate_code() - rate code of a link, 0 if there is none. */
uint8_t ib_rate_code(uint8_t width, uint8_t speed, uint8_t ext);

/** ib_best_bit() - the highest bit that is set in a speed mask, 0 if none is. */
uint8_t ib_best_bit(uint8_t mask);

/** ib_best_width() - the widest bit of a LinkWidth mask (2X is between 1X and 4X). */
uint8_t ib_best_width(uint8_t mask);

/**
 * ib_time_ns() - 4.096 us * 2^code, the encoding of ACK timeout and packet lifetime
 *
 * Return: ns; a code above 31 counts as 31.
 */
static inline uint64_t ib_time_ns(uint8_t code)
{
	return 4096ull << (code < 31 ? code : 31);
}

/** ib_rnr_timer_ns() - delay of an RNR NAK timer code 0..31, ns (9.7.5.2.8, table 45). */
uint64_t ib_rnr_timer_ns(uint8_t code);

#endif
