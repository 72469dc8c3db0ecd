// SPDX-License-Identifier: GPL-2.0-or-later
/* Rates of links as ibnetdiscover writes them: width, x, speed. */
#include "topo_file.h"

#include <stdio.h>
#include <string.h>

#include "ib/rate.h"

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
} speeds[SPEEDS] = {
	{ "SDR", 1, 0 },
	{ "DDR", 3, 0 },
	{ "QDR", 7, 0 },
	{ "FDR10", 7 | IB_SPEED_FDR10, 0 },
	{ "FDR", 7, 1 },
	{ "EDR", 7, 3 },
	{ "HDR", 7, 7 },
	{ "NDR", 7, 15 },
	{ "XDR", 7, 15 | IB_SPEED_EXT_XDR },
};

uint8_t topo_rate(const char *s, size_t len)
{
	const char *x = memchr(s, 'x', len);

	if (!x)
		return 0;
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

/* All widths of at most @lanes. Return: 0: none has so many. */
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
