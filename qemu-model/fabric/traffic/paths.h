/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service levels of paths, as in PathRecords of a subnet administration. */
#ifndef OHCA_FABRIC_TRAFFIC_PATHS_H
#define OHCA_FABRIC_TRAFFIC_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** struct fab_path - SL of packets between two LIDs; @ends: source LID << 16 | destination LID */
struct fab_path {
	uint32_t ends;
	uint8_t sl;
};

/** struct fab_paths - [@n] paths, sorted by @ends; other paths have another SL */
struct fab_paths {
	struct fab_path *path;
	size_t n;
};

/**
 * fab_paths_read() - read lines of SLID, DLID and SL, as numbers; # begins a comment
 * @p: empty; for fab_paths_end()
 * @line: number of the wrong line; 0: out of memory, or @in cannot be read
 *
 * Of two lines with the same LIDs one is used. Return: false: failed.
 */
bool fab_paths_read(struct fab_paths *p, FILE *in, unsigned int *line);

/**
 * fab_paths_sl() - SL of packets from @slid to @dlid; @otherwise: @p is NULL or has no such path
 */
uint8_t fab_paths_sl(const struct fab_paths *p, uint16_t slid, uint16_t dlid, uint8_t otherwise);

/** fab_paths_end() - free the array of @p */
void fab_paths_end(struct fab_paths *p);

#endif
