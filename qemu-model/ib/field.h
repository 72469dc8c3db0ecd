/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table-driven bit field codec for MAD attributes.
 *
 * A layout is an array of fields. The same array packs and unpacks, so the two directions always
 * agree. Bit 0 is the most significant bit of byte 0, as in the specification. Any thread may call.
 */
#ifndef OHCA_IB_FIELD_H
#define OHCA_IB_FIELD_H

#include "types.h"

/**
 * struct ib_field - one field of an attribute
 * @bit: first bit in the attribute
 * @width: bits; more than 64 means an array of bytes
 * @off: offset of the member in the host structure
 * @size: bytes of the member: 1, 2, 4, 8, or width / 8 of an array
 */
struct ib_field {
	uint16_t bit;
	uint16_t width;
	uint16_t off;
	uint16_t size;
};

#define IB_FIELD(type, member, bit_, width_) \
	{ (bit_), (width_), offsetof(struct type, member), sizeof(((struct type *)0)->member) }

/** ib_fields_pack() - zero @len bytes at @buf and write the fields of @host there. */
void ib_fields_pack(const struct ib_field *f, unsigned int n, const void *host, uint8_t *buf,
		    size_t len);

/** ib_fields_unpack() - read all fields from @buf into @host. */
void ib_fields_unpack(const struct ib_field *f, unsigned int n, const uint8_t *buf, void *host);

/** ib_bits_get() - @width (1..64) bits from bit @bit. */
uint64_t ib_bits_get(const uint8_t *buf, unsigned int bit, unsigned int width);

/** ib_bits_put() - write @width (1..64) bits at bit @bit; other bits do not change. */
void ib_bits_put(uint8_t *buf, unsigned int bit, unsigned int width, uint64_t v);

#endif
