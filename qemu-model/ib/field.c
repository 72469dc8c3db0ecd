/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bit field codec; see field.h. */
#include "field.h"

uint64_t ib_bits_get(const uint8_t *buf, unsigned int bit, unsigned int width)
{
	uint64_t v = 0;

	while (width) {
		unsigned int room = 8 - bit % 8;
		unsigned int n = width < room ? width : room;
		unsigned int part = (unsigned int)(buf[bit / 8] >> (room - n)) & ((1u << n) - 1);

		v = v << n | part;
		bit += n;
		width -= n;
	}
	return v;
}

void ib_bits_put(uint8_t *buf, unsigned int bit, unsigned int width, uint64_t v)
{
	while (width) {
		unsigned int room = 8 - bit % 8;
		unsigned int n = width < room ? width : room;
		unsigned int mask = ((1u << n) - 1) << (room - n);
		unsigned int part = (unsigned int)(v >> (width - n)) << (room - n);

		buf[bit / 8] = (uint8_t)((buf[bit / 8] & ~mask) | (part & mask));
		bit += n;
		width -= n;
	}
}

static uint64_t load(const void *p, unsigned int size)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (size) {
	case 1:
		return *(const uint8_t *)p;
	case 2:
		memcpy(&v16, p, 2);
		return v16;
	case 4:
		memcpy(&v32, p, 4);
		return v32;
	default:
		memcpy(&v64, p, 8);
		return v64;
	}
}

static void store(void *p, unsigned int size, uint64_t v)
{
	uint16_t v16 = (uint16_t)v;
	uint32_t v32 = (uint32_t)v;

	switch (size) {
	case 1:
		*(uint8_t *)p = (uint8_t)v;
		break;
	case 2:
		memcpy(p, &v16, 2);
		break;
	case 4:
		memcpy(p, &v32, 4);
		break;
	default:
		memcpy(p, &v, 8);
		break;
	}
}

void ib_fields_pack(const struct ib_field *f, unsigned int n, const void *host, uint8_t *buf,
		    size_t len)
{
	memset(buf, 0, len);
	for (; n; n--, f++) {
		const uint8_t *m = (const uint8_t *)host + f->off;

		if (f->width > 64)
			memcpy(buf + f->bit / 8, m, f->size);
		else
			ib_bits_put(buf, f->bit, f->width, load(m, f->size));
	}
}

void ib_fields_unpack(const struct ib_field *f, unsigned int n, const uint8_t *buf, void *host)
{
	for (; n; n--, f++) {
		uint8_t *m = (uint8_t *)host + f->off;

		if (f->width > 64)
			memcpy(m, buf + f->bit / 8, f->size);
		else
			store(m, f->size, ib_bits_get(buf, f->bit, f->width));
	}
}
