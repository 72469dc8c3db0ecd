/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Width, speed, rate and timer codes; see rate.h. */
#include "rate.h"

uint8_t ib_mtu_code(uint32_t bytes)
{
	uint8_t code = 0;

	while (code < IB_MTU_CODE_4096 && ib_mtu_bytes((uint8_t)(code + 1)) <= bytes)
		code++;
	return code;
}

uint32_t ib_width_lanes(uint8_t width)
{
	switch (width) {
	case IB_WIDTH_1X:	return 1;
	case IB_WIDTH_2X:	return 2;
	case IB_WIDTH_4X:	return 4;
	case IB_WIDTH_8X:	return 8;
	case IB_WIDTH_12X:	return 12;
	default:		return 0;
	}
}

/* Nominal rate of one lane, Mb/s; 0 if a code is invalid. */
static uint32_t lane_mbps(uint8_t speed, uint8_t ext)
{
	switch (ext) {
	case 0:
		break;
	case IB_SPEED_EXT_FDR:	return 14000;
	case IB_SPEED_EXT_EDR:	return 25000;
	case IB_SPEED_EXT_HDR:	return 50000;
	case IB_SPEED_EXT_NDR:	return 100000;
	case IB_SPEED_EXT_XDR:	return 200000;
	default:		return 0;
	}
	switch (speed) {
	case IB_SPEED_SDR:	return 2500;
	case IB_SPEED_DDR:	return 5000;
	case IB_SPEED_QDR:
	case IB_SPEED_FDR10:	return 10000;
	default:		return 0;
	}
}

uint32_t ib_link_mbps(uint8_t width, uint8_t speed, uint8_t ext)
{
	return ib_width_lanes(width) * lane_mbps(speed, ext);
}

uint32_t ib_link_data_kbps(uint8_t width, uint8_t speed, uint8_t ext)
{
	const uint32_t lanes = ib_width_lanes(width), kbps = lane_mbps(speed, ext) * 1000;

	if (ext == IB_SPEED_EXT_FDR)
		return lanes * 13636364;
	return !ext && speed < IB_SPEED_FDR10 ? lanes * (kbps / 10 * 8) : lanes * kbps;
}

static const uint32_t rate_mbps[] = {
	[IB_RATE_CODE_2_5] = 2500,	[IB_RATE_CODE_10] = 10000,
	[IB_RATE_CODE_30] = 30000,	[IB_RATE_CODE_5] = 5000,
	[IB_RATE_CODE_20] = 20000,	[IB_RATE_CODE_40] = 40000,
	[IB_RATE_CODE_60] = 60000,	[IB_RATE_CODE_80] = 80000,
	[IB_RATE_CODE_120] = 120000,	[IB_RATE_CODE_14] = 14000,
	[IB_RATE_CODE_56] = 56000,	[IB_RATE_CODE_112] = 112000,
	[IB_RATE_CODE_168] = 168000,	[IB_RATE_CODE_25] = 25000,
	[IB_RATE_CODE_100] = 100000,	[IB_RATE_CODE_200] = 200000,
	[IB_RATE_CODE_300] = 300000,	[IB_RATE_CODE_28] = 28000,
	[IB_RATE_CODE_50] = 50000,	[IB_RATE_CODE_400] = 400000,
	[IB_RATE_CODE_600] = 600000,	[IB_RATE_CODE_800] = 800000,
	[IB_RATE_CODE_1200] = 1200000,	[IB_RATE_CODE_1600] = 1600000,
};

uint32_t ib_rate_mbps(uint8_t rate)
{
	return rate < IB_ARRAY_SIZE(rate_mbps) ? rate_mbps[rate] : 0;
}

uint8_t ib_rate_code(uint8_t width, uint8_t speed, uint8_t ext)
{
	uint32_t mbps = ib_link_mbps(width, speed, ext);

	for (uint8_t i = 0; mbps && i < IB_ARRAY_SIZE(rate_mbps); i++)
		if (rate_mbps[i] == mbps)
			return i;
	return 0;
}

uint8_t ib_best_bit(uint8_t mask)
{
	return mask ? (uint8_t)(1u << (31 - __builtin_clz(mask))) : 0;
}

uint8_t ib_best_width(uint8_t mask)
{
	static const uint8_t order[] = {
		IB_WIDTH_12X, IB_WIDTH_8X, IB_WIDTH_4X, IB_WIDTH_2X, IB_WIDTH_1X,
	};

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(order); i++)
		if (mask & order[i])
			return order[i];
	return 0;
}

uint64_t ib_rnr_timer_ns(uint8_t code)
{
	static const uint32_t us10[32] = {	/* units of 10 us */
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
		256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
		16384, 24576, 32768, 49152,
	};

	return us10[code & 31] * 10000ull;
}
