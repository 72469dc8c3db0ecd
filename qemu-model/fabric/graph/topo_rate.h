/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rates of links in topology files, numbered from 1: width and speed. Private to graph/.
 */
#ifndef OHCA_FABRIC_TOPO_RATE_H
#define OHCA_FABRIC_TOPO_RATE_H

#include <stddef.h>

#include "ib/smp.h"
#include "topo_text.h"

#define TOPO_RATE_UNKNOWN	255u	/* "4x???": the tool does not know it */

/** topo_rate_name() - text of a rate, "4xEDR" */
const char *topo_rate_name(uint8_t rate, char buf[16]);

/** topo_rate() - number of the rate @s[@len], as "4xEDR"; TOPO_RATE_UNKNOWN; 0: not valid */
uint8_t topo_rate(const char *s, size_t len);

/**
 * topo_rate_by_speed() - number of a rate
 * @width: "4x" or "4"
 * @gbps: Gb/s of a lane as in lists of OpenSM and ibdiagnet, or its name: "25", "EDR"
 *
 * Return: as topo_rate()
 */
uint8_t topo_rate_by_speed(const struct topo_name *width, const struct topo_name *gbps);

/** topo_rate_lanes() - lanes of a rate, as in its name */
const char *topo_rate_lanes(uint8_t rate);

/** topo_rate_speed() - name of its speed */
const char *topo_rate_speed(uint8_t rate);

/** topo_rate_gbps() - speed of a lane as in OpenSM's lists, "25" */
const char *topo_rate_gbps(uint8_t rate);

/** topo_rate_mbps() - @rate, which is neither 0 nor unknown, in Mb/s; 2xNDR and 4xHDR are equal */
uint32_t topo_rate_mbps(uint8_t rate);

/** topo_rate_lower() - the rate with fewer Gb/s; if they are equal, the one with fewer lanes */
uint8_t topo_rate_lower(uint8_t a, uint8_t b);

/** topo_rate_set() - set in @pi the widths and speeds that a port with that rate supports */
void topo_rate_set(uint8_t rate, struct ib_port_info *pi);

/** topo_rate_of() - rate of a link that is up */
uint8_t topo_rate_of(const struct ib_port_info *pi);

#endif
