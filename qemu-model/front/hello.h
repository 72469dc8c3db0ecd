/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What users say of an HCA, as HELLO has it (front/proto.h). */
#ifndef OHCA_FRONT_HELLO_H
#define OHCA_FRONT_HELLO_H

#include <stdbool.h>

#include "proto.h"

#define OHCA_HELLO_SPEEDS	"sdr, ddr, qdr, fdr, edr, hdr, ndr and xdr"
#define OHCA_HELLO_WIDTHS	"1x, 2x, 4x, 8x and 12x"

/** ohca_hello_speed() - the speeds up to @name are supported. Return: false: it is none. */
bool ohca_hello_speed(struct ohca_front_hello *m, const char *name);

/** ohca_hello_width() - the widths up to @name are supported. Return: false: it is none. */
bool ohca_hello_width(struct ohca_front_hello *m, const char *name);

/**
 * ohca_hello_guid() - a NodeGUID nobody else has, of a @random number
 *
 * It has our OUI, with the local bit, and 40 random bits. Its first byte is not 2, although that
 * would be the simplest local one: a target's service ID is its GUID, and service IDs that begin with 2
 * are for the operating system to give out (IBTA vol 1, annex A3).
 */
uint64_t ohca_hello_guid(uint64_t random);

#endif /* OHCA_FRONT_HELLO_H */
