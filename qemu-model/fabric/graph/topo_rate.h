/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rates of links as topology files have them, numbered from 1: width and speed. Private to graph/.
 */
#ifndef OHCA_FABRIC_TOPO_RATE_H
#define OHCA_FABRIC_TOPO_RATE_H

#include <stddef.h>

#include "ib/smp.h"
#include "topo_text.h"

#define TOPO_RATE_UNKNOWN	255u	/* "4x???": the tool could not find it out */

/** topo_rate_name() - text of a rate, "4xEDR" */
const char *topo_rate_name(uint8_t rate, char buf[16]);

/** topo_rate() - number of the rate @s[@len], as "4xEDR"; TOPO_RATE_UNKNOWN; 0 if it is none */
uint8_t topo_rate(const char *s, size_t len);

/**
 * topo_rate_by_speed() - number of a rate
 * @width: "4x" or "4"
 * @gbps: Gb/s of a lane as lists of OpenSM and ibdiagnet have it, or its name: "25", "EDR"
 *
 * Return: as topo_rate()
 */
uint8_t topo_rate_by_speed(const struct topo_name *width, const struct topo_name *gbps);

/** topo_rate_lanes() - lanes of a rate, as its name has it */
const char *topo_rate_lanes(uint8_t rate);

/** topo_rate_speed() - name of its speed */
const char *topo_rate_speed(uint8_t rate);

/** topo_rate_gbps() - speed of a lane as OpenSM's lists have it, "25" */
const char *topo_rate_gbps(uint8_t rate);

/** topo_rate_mbps() - @rate, which is none of 0 and unknown, in Mb/s; those of 2xNDR and 4xHDR are equal */
uint32_t topo_rate_mbps(uint8_t rate);

/** topo_rate_lower() - the rate with fewer Gb/s, of two that have as many the one of fewer lanes */
uint8_t topo_rate_lower(uint8_t a, uint8_t b);

/** topo_rate_set() - what a port with that rate supports */
void topo_rate_set(uint8_t rate, struct ib_port_info *pi);

/** topo_rate_of() - rate of a link that is up */
uint8_t topo_rate_of(const struct ib_port_info *pi);

#endif
