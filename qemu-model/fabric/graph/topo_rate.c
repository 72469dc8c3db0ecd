// SPDX-License-Identifier: GPL-2.0-or-later
/* Rates of links in ibnetdiscover's format: width, x, speed. */
#include "topo_rate.h"

#include <stdio.h>
#include <string.h>

#include "ib/rate.h"
#include "topology.h"

#define SPEEDS	9u	/* of each width */

static const struct {
	char text[4];
	uint8_t active;		/* the one bit */
	uint8_t all;		/* that a port of this width supports */
} widths[] = {
	{ "1", IB_WIDTH_1X, IB_WIDTH_1X },
	{ "2", IB_WIDTH_2X, IB_WIDTH_1X | IB_WIDTH_2X },
	{ "4", IB_WIDTH_4X, IB_WIDTH_1X | IB_WIDTH_4X },
	{ "8", IB_WIDTH_8X, IB_WIDTH_1X | IB_WIDTH_4X | IB_WIDTH_8X },
	{ "12", IB_WIDTH_12X, IB_WIDTH_1X | IB_WIDTH_4X | IB_WIDTH_12X },
};

static const struct {
	char text[8];
	uint8_t speed;		/* that a port of this speed supports */
	uint8_t ext;
	char gbps[8];		/* of a lane, in lists of OpenSM and ibdiagnet */
} speeds[SPEEDS] = {
	{ "SDR", 1, 0, "2.5" },
	{ "DDR", 3, 0, "5" },
	{ "QDR", 7, 0, "10" },
	{ "FDR10", 7 | IB_SPEED_FDR10, 0, "FDR10" },
	{ "FDR", 7, 1, "14" },
	{ "EDR", 7, 3, "25" },
	{ "HDR", 7, 7, "50" },
	{ "NDR", 7, 15, "100" },
	{ "XDR", 7, 15 | IB_SPEED_EXT_XDR, "200" },
};

uint8_t topo_rate(const char *s, size_t len)
{
	const char *x = memchr(s, 'x', len);

	/* ibnetdiscover writes ?? for an unknown width, ??? for an unknown speed */
	if (len > 2 && !memcmp(s + len - 3, "???", 3))
		return TOPO_RATE_UNKNOWN;
	if (!x)
		return len > 2 && !memcmp(s, "??", 2) ? TOPO_RATE_UNKNOWN : 0;
	for (unsigned int w = 0; w < IB_ARRAY_SIZE(widths); w++) {
		size_t n = strlen(widths[w].text);

		if ((size_t)(x - s) != n || memcmp(s, widths[w].text, n))
			continue;
		for (unsigned int i = 0; i < SPEEDS; i++)
			if (len == n + 1 + strlen(speeds[i].text) &&
			    !memcmp(x + 1, speeds[i].text, len - n - 1))
				return (uint8_t)(w * SPEEDS + i + 1);
	}
	return 0;
}

const char *topo_rate_name(uint8_t rate, char buf[16])
{
	snprintf(buf, 16, "%sx%s", widths[(rate - 1) / SPEEDS].text,
		 speeds[(rate - 1) % SPEEDS].text);
	return buf;
}

uint8_t topo_rate_by_speed(const struct topo_name *width, const struct topo_name *gbps)
{
	const uint32_t len = width->len - (width->len && width->p[width->len - 1] == 'x');

	if (topo_is(gbps, "??") || topo_is(width, "??"))
		return TOPO_RATE_UNKNOWN;
	for (unsigned int w = 0; w < IB_ARRAY_SIZE(widths); w++) {
		if (strlen(widths[w].text) != len || memcmp(width->p, widths[w].text, len))
			continue;
		for (unsigned int i = 0; i < SPEEDS; i++)
			if (topo_is(gbps, speeds[i].gbps) || topo_is(gbps, speeds[i].text))
				return (uint8_t)(w * SPEEDS + i + 1);
	}
	return topo_is(gbps, "???") ? TOPO_RATE_UNKNOWN : 0;
}

const char *topo_rate_lanes(uint8_t rate)
{
	return widths[(rate - 1) / SPEEDS].text;
}

const char *topo_rate_speed(uint8_t rate)
{
	return speeds[(rate - 1) % SPEEDS].text;
}

const char *topo_rate_gbps(uint8_t rate)
{
	return speeds[(rate - 1) % SPEEDS].gbps;
}

uint32_t topo_rate_mbps(uint8_t rate)
{
	const unsigned int i = (rate - 1u) % SPEEDS;

	return ib_link_mbps(widths[(rate - 1) / SPEEDS].active, ib_best_bit(speeds[i].speed),
			    ib_best_bit(speeds[i].ext));
}

uint8_t topo_rate_lower(uint8_t a, uint8_t b)
{
	const uint32_t ma = topo_rate_mbps(a), mb = topo_rate_mbps(b);

	return ma < mb || (ma == mb && a < b) ? a : b;
}

void topo_rate_set(uint8_t rate, struct ib_port_info *pi)
{
	pi->width_supported = widths[(rate - 1) / SPEEDS].all;
	pi->speed_supported = speeds[(rate - 1) % SPEEDS].speed;
	pi->speed_ext_supported = speeds[(rate - 1) % SPEEDS].ext;
}

uint8_t topo_rate_of(const struct ib_port_info *pi)
{
	unsigned int w, i;

	for (w = 0; w < IB_ARRAY_SIZE(widths) - 1; w++)
		if (widths[w].active == pi->width_active)
			break;
	for (i = 0; i < SPEEDS - 1; i++)
		if (pi->speed_ext_active ? ib_best_bit(speeds[i].ext) == pi->speed_ext_active :
					   ib_best_bit(speeds[i].speed) == pi->speed_active)
			break;
	return (uint8_t)(w * SPEEDS + i + 1);
}

/* Mask of all widths of at most @lanes. Return: 0: there is no width with @lanes. */
static uint8_t widths_to(unsigned int lanes)
{
	uint8_t mask = 0;
	bool any = false;

	for (unsigned int w = 0; w < IB_ARRAY_SIZE(widths); w++) {
		if (ib_width_lanes(widths[w].active) <= lanes)
			mask |= widths[w].active;
		any |= ib_width_lanes(widths[w].active) == lanes;
	}
	return any ? mask : 0;
}

bool fab_rate_limit(unsigned int lanes, const char *speed, struct fab_limit *at_most)
{
	unsigned int i = 0;

	*at_most = (struct fab_limit){ 0xff, 0xff, 0xff };
	if (lanes)
		at_most->width = widths_to(lanes);
	if (!speed)
		return at_most->width;
	while (i < SPEEDS && strcmp(speeds[i].text, speed))
		i++;
	if (i == SPEEDS)
		return false;
	at_most->speed = speeds[i].speed;
	at_most->speed_ext = speeds[i].ext;
	return at_most->width;
}
