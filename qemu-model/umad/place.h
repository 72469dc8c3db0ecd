/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The place of a process in a fabric: the value of OHCA_UMAD. */
#ifndef OHCA_UMAD_PLACE_H
#define OHCA_UMAD_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Processes without a name that a fabric may have at a time. */
#define UM_SLOTS	64u

/**
 * struct um_place - a place in a fabric
 * @path: the fabric's socket, or tcp:HOST:PORT
 * @name: NodeDescription; that of a host in the topology to replace that host; "": not given
 * @guid: NodeGUID, host byte order; 0: neither it nor a name was given, and the process uses one of
 *	um_place_slot()
 */
struct um_place {
	char path[108];
	char name[64];
	uint64_t guid;
};

/**
 * um_place_parse() - parse SOCKET[,NAME][,0xGUID]
 * @text: the value of OHCA_UMAD
 * @place: filled in
 * @why: the reason of a failure, one line without newline
 * @size: of @why
 *
 * A name without a GUID gets a GUID that is computed from the name, the same each time.
 *
 * Return: 0, or -1 if @text is not of that form.
 */
int um_place_parse(const char *text, struct um_place *place, char *why, size_t size);

/**
 * um_place_seconds() - parse a number of seconds, at most a day. Return: false: @text is not valid
 */
bool um_place_seconds(const char *text, unsigned int *seconds);

/** um_place_slot() - NodeGUID number @slot, from 0, for processes without a name */
uint64_t um_place_slot(unsigned int slot);

#endif
