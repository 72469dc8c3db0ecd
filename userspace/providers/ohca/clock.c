// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The device's clock, which is the clock of completion timestamps, and the time of day. */

#include <time.h>

#include "ohca.h"

#define OHCA_NS_PER_S 1000000000ull
#define OHCA_WALL_TRIES 8
#define OHCA_WALL_QUICK 20000u /* ns; the thread was not preempted between the readings */
#define OHCA_WALL_GOOD (OHCA_NS_PER_S / 10)

static uint32_t ohca_clock_half(struct ohca_context *ctx, unsigned int half)
{
	return le32toh(mmio_read32_le(ctx->uar + OHCA_UAR_CLOCK + 4 * half));
}

/** ohca_device_ns - read the clock; the device has OHCA_FEATURE_CLOCK */
uint64_t ohca_device_ns(struct ohca_context *ctx)
{
	uint32_t high, low;

	/* Reads of 32 bits are atomic everywhere; the upper half changes every 4 seconds. */
	high = ohca_clock_half(ctx, 1);
	low = ohca_clock_half(ctx, 0);
	if (ohca_clock_half(ctx, 1) != high) {
		high = ohca_clock_half(ctx, 1);
		low = ohca_clock_half(ctx, 0);
	}
	return (uint64_t)high << 32 | low;
}

/** ohca_query_rt_values - ibv_query_rt_values_ex(); the result is in tv_nsec alone */
int ohca_query_rt_values(struct ibv_context *ibctx,
			 struct ibv_values_ex *values)
{
	struct ohca_context *ctx = to_octx(ibctx);

	if (!check_comp_mask(values->comp_mask, IBV_VALUES_MASK_RAW_CLOCK))
		return ohca_errno(EINVAL);
	if (!ohca_has_feature(ctx, OHCA_FEATURE_CLOCK))
		return ohca_errno(EOPNOTSUPP);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = ohca_device_ns(ctx);
	}
	return 0;
}

static uint64_t ohca_time_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * OHCA_NS_PER_S + ts.tv_nsec;
}

/* The best of a few tries: the thread may be preempted between two of the three readings. */
static void ohca_wall_measure(struct ohca_cq *cq)
{
	struct ohca_context *ctx = to_octx(cq->vcq.cq.context);
	uint64_t best = UINT64_MAX, before, took, dev;
	unsigned int i;

	for (i = 0; i < OHCA_WALL_TRIES && best > OHCA_WALL_QUICK; i++) {
		before = ohca_time_ns(CLOCK_REALTIME);
		dev = ohca_device_ns(ctx);
		took = ohca_time_ns(CLOCK_REALTIME) - before;
		if (took < best) {
			best = took;
			cq->wall_offset = before + took / 2 - dev;
		}
	}
}

/**
 * ohca_wallclock_ns - the time of day of a timestamp
 * @cq: CQ with its lock held
 * @device_ns: a timestamp
 *
 * The two clocks are compared again after a tenth of a second: the time of day may be set,
 * and in a virtual machine their rates can differ by percents.
 */
uint64_t ohca_wallclock_ns(struct ohca_cq *cq, uint64_t device_ns)
{
	uint64_t now = ohca_time_ns(CLOCK_MONOTONIC);

	if (now >= cq->wall_until) {
		ohca_wall_measure(cq);
		cq->wall_until = now + OHCA_WALL_GOOD;
	}
	return device_ns + cq->wall_offset;
}
