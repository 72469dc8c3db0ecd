// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses OHCA_UMAD; see place.h. */
#include "place.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Generated NodeGUIDs, different from those of generated topologies; the last byte is for ports. */
#define SLOT_GUIDS	0x5254ff0000000000ull
#define NAME_GUIDS	0x5254fe0000000000ull

uint64_t um_place_slot(unsigned int slot)
{
	return SLOT_GUIDS | (uint64_t)(slot + 1) << 8;
}

/* FNV-1a, 32 bits: it only has to distinguish the names of one fabric. */
static uint64_t guid_of_name(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return NAME_GUIDS | (uint64_t)h << 8;
}

/* Parse the digits of a number in base 16 or 10. Return: false: other characters, or too many. */
static bool digits(const char *s, unsigned int base, uint64_t max, uint64_t *value)
{
	static const char hex[] = "0123456789abcdef";
	const char *d;

	*value = 0;
	if (!*s)
		return false;
	for (; *s; s++) {
		d = memchr(hex, tolower((unsigned char)*s), base);
		if (!d || *value > (max - (uint64_t)(d - hex)) / base)
			return false;
		*value = *value * base + (uint64_t)(d - hex);
	}
	return true;
}

bool um_place_seconds(const char *text, unsigned int *seconds)
{
	uint64_t value;

	if (!digits(text, 10, 86400, &value))
		return false;
	*seconds = (unsigned int)value;
	return true;
}

/* Split NAME,GUID or one of them; a name may contain commas. Return: the length of the name. */
static size_t split_place(const char *text, uint64_t *guid)
{
	const char *last = strrchr(text, ',');
	const char *number = last ? last + 1 : text;

	if (number[0] != '0' || tolower((unsigned char)number[1]) != 'x' ||
	    !digits(number + 2, 16, UINT64_MAX, guid))
		return strlen(text);
	return last ? (size_t)(last - text) : 0;
}

int um_place_parse(const char *text, struct um_place *place, char *why, size_t size)
{
	const size_t path = text ? strcspn(text, ",") : 0;
	uint64_t guid = UINT64_MAX;
	size_t name = 0;

	memset(place, 0, sizeof(*place));
	if (!path) {
		snprintf(why, size, "OHCA_UMAD must be SOCKET[,NAME][,0xGUID], with the SOCKET of "
			 "'ohca-fabric serve --listen SOCKET', or tcp:HOST:PORT of --listen-tcp");
		return -1;
	}
	if (path >= sizeof(place->path)) {
		snprintf(why, size, "OHCA_UMAD: the path of the socket has %zu characters, at most %zu "
			 "are possible", path, sizeof(place->path) - 1);
		return -1;
	}
	memcpy(place->path, text, path);
	if (!text[path])
		return 0;
	name = split_place(text + path + 1, &guid);
	if (name >= sizeof(place->name)) {
		snprintf(why, size, "OHCA_UMAD: the name has %zu characters, a NodeDescription has at "
			 "most %zu", name, sizeof(place->name) - 1);
		return -1;
	}
	if (!guid) {
		snprintf(why, size, "OHCA_UMAD: the GUID must not be 0");
		return -1;
	}
	memcpy(place->name, text + path + 1, name);
	if (guid != UINT64_MAX)
		place->guid = guid;
	else if (name)
		place->guid = guid_of_name(place->name);
	return 0;
}
