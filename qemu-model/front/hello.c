// SPDX-License-Identifier: GPL-2.0-or-later
#include "front/hello.h"

#include <strings.h>

/* LinkSpeedSupported and LinkSpeedExtSupported of PortInfo. */
static const struct {
	const char *name;
	uint8_t speed, ext;
} hello_speeds[] = {
	{ "sdr", 1, 0 },
	{ "ddr", 3, 0 },
	{ "qdr", 7, 0 },
	{ "fdr", 7, 1 },
	{ "edr", 7, 3 },
	{ "hdr", 7, 7 },
	{ "ndr", 7, 15 },
	{ "xdr", 7, 47 },
};

/* LinkWidthSupported of PortInfo. */
static const struct {
	const char *name;
	uint8_t width;
} hello_widths[] = {
	{ "1x", 1 },
	{ "2x", 17 },
	{ "4x", 3 },
	{ "8x", 7 },
	{ "12x", 11 },
};

bool ohca_hello_speed(struct ohca_front_hello *m, const char *name)
{
	for (unsigned int i = 0; i < sizeof(hello_speeds) / sizeof(hello_speeds[0]); i++) {
		if (strcasecmp(name, hello_speeds[i].name))
			continue;
		m->speed_sup = hello_speeds[i].speed;
		m->speed_ext_sup = hello_speeds[i].ext;
		return true;
	}
	return false;
}

bool ohca_hello_width(struct ohca_front_hello *m, const char *name)
{
	for (unsigned int i = 0; i < sizeof(hello_widths) / sizeof(hello_widths[0]); i++) {
		if (strcasecmp(name, hello_widths[i].name))
			continue;
		m->width_sup = hello_widths[i].width;
		return true;
	}
	return false;
}

uint64_t ohca_hello_guid(uint64_t random)
{
	return 0x0600ca0000000000ull | (random & 0xfffffffff0ull);
}
