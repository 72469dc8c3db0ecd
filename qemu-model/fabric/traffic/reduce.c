// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * All-reduce: all hosts have a vector, and at the end each has the sum of all; see traffic.h. The
 * vector has as many pieces as there are hosts, whose sizes differ by at most one byte. First each
 * host gets the sum of a piece, then all get all sums:
 *
 *	ring		each host sends a piece to the next one in each of 2 (n - 1) steps
 *	halving		hosts exchange half of their data with one at half of the previous distance,
 *			and then the same in reverse: 2 log2 n steps
 *
 * A message is a step of a host. It begins when the previous one has left, and the data that the
 * host receives in the previous step has arrived.
 */
#include "traffic_priv.h"

bool traffic_is_reduce(const struct fab_traffic *t)
{
	return t->cfg.pattern == FAB_PATTERN_ALL_REDUCE_RING ||
	       t->cfg.pattern == FAB_PATTERN_ALL_REDUCE_HALVING;
}

/* Number of steps of one all-reduce. */
static uint32_t steps_of(const struct fab_traffic *t)
{
	if (t->cfg.pattern == FAB_PATTERN_ALL_REDUCE_RING)
		return 2 * (t->hosts - 1);
	return 2 * (uint32_t)__builtin_ctz(t->hosts);
}

const char *traffic_reduce_plan(struct fab_traffic *t)
{
	const uint64_t reduces = t->cfg.messages ? t->cfg.messages : 1;

	if (t->cfg.load < 100)
		return "an all-reduce does not support --load";
	if (t->cfg.size < t->hosts)
		return "an all-reduce needs a byte or more for each host";
	if (t->cfg.pattern == FAB_PATTERN_ALL_REDUCE_HALVING && t->hosts & (t->hosts - 1))
		return "halving needs 2, 4, 8, ... hosts";
	if (reduces * steps_of(t) > FAB_TRAFFIC_MESSAGES)
		return "more than 16,777,216 messages";
	t->reduces = (uint32_t)reduces;
	t->cfg.messages = (uint32_t)(reduces * steps_of(t));
	return NULL;
}

/* Distance of the hosts that exchange data in step @i, there and back. */
static uint32_t distance(const struct fab_traffic *t, uint32_t i)
{
	const uint32_t half = steps_of(t) / 2, step = i % (2 * half);

	return step < half ? t->hosts >> (step + 1) : 1u << (step - half);
}

uint32_t traffic_reduce_target(const struct fab_traffic *t, uint32_t from, uint32_t i)
{
	if (t->cfg.pattern == FAB_PATTERN_ALL_REDUCE_RING)
		return (from + 1) % t->hosts;
	return from ^ distance(t, i);
}

/* Bytes of @n pieces from @first on. */
static uint32_t bytes_of(const struct fab_traffic *t, uint64_t first, uint32_t n)
{
	return (uint32_t)((first + n) * t->cfg.size / t->hosts - first * t->cfg.size / t->hosts);
}

uint32_t traffic_reduce_bytes(const struct fab_traffic *t, uint32_t from, uint32_t i)
{
	const uint32_t step = i % steps_of(t);
	uint32_t n, first = from;

	/* the piece that arrived in the previous step */
	if (t->cfg.pattern == FAB_PATTERN_ALL_REDUCE_RING)
		return bytes_of(t, (from + 2 * t->hosts - step) % t->hosts, 1);
	n = distance(t, i);
	/* in the first half what the other one goes on with, then what this one has the sums of */
	if (step < steps_of(t) / 2)
		first = from ^ n;
	return bytes_of(t, first & ~(n - 1), n);
}

bool traffic_reduce_waits(const struct fab_traffic *t, uint32_t from, uint32_t i)
{
	const struct traffic_message *msg;
	uint32_t source;

	if (!i)
		return false;
	source = t->cfg.pattern == FAB_PATTERN_ALL_REDUCE_RING ? (from + t->hosts - 1) % t->hosts :
								 from ^ distance(t, i - 1);
	msg = &t->msg[source * t->cfg.messages + i - 1];
	return !msg->begin_ns || msg->left;
}
