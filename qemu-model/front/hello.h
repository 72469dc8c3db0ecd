/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The properties of an HCA that users configure, as in HELLO (front/proto.h). */
#ifndef OHCA_FRONT_HELLO_H
#define OHCA_FRONT_HELLO_H

#include <stdbool.h>

#include "proto.h"

#define OHCA_HELLO_SPEEDS	"sdr, ddr, qdr, fdr, edr, hdr, ndr and xdr"
#define OHCA_HELLO_WIDTHS	"1x, 2x, 4x, 8x and 12x"

/** ohca_hello_speed() - support the speeds up to @name. Return: false: there is no such speed. */
bool ohca_hello_speed(struct ohca_front_hello *m, const char *name);

/** ohca_hello_width() - support the widths up to @name. Return: false: there is no such width. */
bool ohca_hello_width(struct ohca_front_hello *m, const char *name);

/**
 * ohca_hello_guid() - a unique NodeGUID from a @random number
 *
 * It has our OUI, with the local bit, and 40 random bits. Its first byte is not 2, although that
 * would be the simplest local one: a target's service ID is its GUID, and the operating system
 * assigns service IDs that begin with 2 (IBTA vol 1, annex A3).
 */
uint64_t ohca_hello_guid(uint64_t random);

#endif /* OHCA_FRONT_HELLO_H */
