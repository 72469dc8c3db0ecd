// SPDX-License-Identifier: GPL-2.0-or-later
/* Nodes and ports by name; see names.h. */
#include "names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A NodeDescription, or a part of a longer name. */
struct name_key {
	const char *text;
	size_t len;
};

static bool desc_is(const void *ctx, uint32_t index, const void *key)
{
	const struct fab *f = ctx;
	const char *desc = f->desc[index].text;
	const struct name_key *k = key;

	return strnlen(desc, FAB_DESC_LEN) == k->len && !memcmp(desc, k->text, k->len);
}

static bool node_guid_is(const void *ctx, uint32_t index, const void *key)
{
	const struct fab *f = ctx;

	return f->node[index].guid == *(const uint64_t *)key;
}

static bool port_guid_is(const void *ctx, uint32_t index, const void *key)
{
	const struct fab *f = ctx;

	return f->port[index].guid == *(const uint64_t *)key;
}

static uint32_t find_desc(const struct fab *f, const char *text, size_t len)
{
	const struct name_key key = { text, len };

	return len > FAB_DESC_LEN ? FAB_NONE :
	       fab_hash_find(&f->by_desc, fab_hash_bytes(text, len), desc_is, f, &key);
}

/* Add a description; the first node with it keeps it. Return: false: out of memory. */
static bool add_desc(struct fab *f, uint32_t node)
{
	const char *desc = f->desc[node].text;
	const struct name_key key = { desc, strnlen(desc, FAB_DESC_LEN) };
	const uint32_t hash = fab_hash_bytes(desc, key.len);

	return fab_hash_find(&f->by_desc, hash, desc_is, f, &key) != FAB_NONE ||
	       fab_hash_add(&f->by_desc, hash, node);
}

/* The same for the PortGUID of port @p, if it has one. */
static bool add_port_guid(struct fab *f, uint32_t p)
{
	const uint64_t guid = f->port[p].guid;
	const uint32_t hash = fab_hash_u64(guid);

	return !guid ||
	       fab_hash_find(&f->by_port_guid, hash, port_guid_is, f, &guid) != FAB_NONE ||
	       fab_hash_add(&f->by_port_guid, hash, p);
}

bool fab_names_seal(struct fab *f)
{
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		if (!add_desc(f, i))
			return false;
		for (unsigned int k = fab_first_num(n); k <= fab_last_end(n); k++)
			if (!add_port_guid(f, fab_port_of(n, k)))
				return false;
	}
	return true;
}

uint32_t fab_find_guid(const struct fab *f, uint64_t guid)
{
	return fab_hash_find(&f->by_guid, fab_hash_u64(guid), node_guid_is, f, &guid);
}

/* Parse the @len bytes @text as *@guid. Return: false: not a GUID. */
static bool is_guid(const char *text, size_t len, uint64_t *guid)
{
	const bool marked = len > 2 && (!memcmp(text, "0x", 2) ||
					(strchr("SHR", text[0]) && text[1] == '-'));
	uint64_t v = 0;

	if (marked) {
		text += 2;
		len -= 2;
	}
	if (marked ? len > 16 : len != 16)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isxdigit((unsigned char)text[i]))
			return false;
		v = v << 4 | (uint64_t)(isdigit((unsigned char)text[i]) ? text[i] - '0' :
					tolower((unsigned char)text[i]) - 'a' + 10);
	}
	*guid = v;
	return v;
}

uint32_t fab_port_with_guid(const struct fab *f, uint64_t guid)
{
	const uint32_t p = fab_hash_find(&f->by_port_guid, fab_hash_u64(guid), port_guid_is, f,
					 &guid);

	return p != FAB_NONE ? p : FAB_NO_PORT;
}

static uint32_t find_node(const struct fab *f, const char *text, size_t len)
{
	uint32_t i = FAB_NONE, p;
	uint64_t guid = 0;
	const bool is = is_guid(text, len, &guid);

	/*
	 * programs use this form: a machine, which chooses its name, must not be able to claim it
	 */
	if (is && len == strlen("0x0123456789abcdef"))
		i = fab_find_guid(f, guid);
	if (i == FAB_NONE)
		i = find_desc(f, text, len);
	if (i != FAB_NONE || !is)
		return i;
	i = fab_find_guid(f, guid);
	if (i != FAB_NONE)
		return i;
	p = fab_port_with_guid(f, guid);
	return p != FAB_NO_PORT ? f->port[p].node : FAB_NONE;
}

uint32_t fab_find_node(const struct fab *f, const char *name)
{
	return find_node(f, name, strlen(name));
}

uint32_t fab_find_port(const struct fab *f, const char *name)
{
	const char *colon = strrchr(name, ':');
	unsigned long num;
	uint32_t i;
	char *end;

	if (!colon || !isdigit((unsigned char)colon[1]))
		return FAB_NO_PORT;
	i = find_node(f, name, (size_t)(colon - name));
	num = strtoul(colon + 1, &end, 10);
	if (i == FAB_NONE || *end || num < fab_first_num(&f->node[i]) || num > f->node[i].nports)
		return FAB_NO_PORT;
	return fab_port_of(&f->node[i], (unsigned int)num);
}

uint32_t fab_find_port_guid(const struct fab *f, const char *name)
{
	uint64_t guid;

	return is_guid(name, strlen(name), &guid) ? fab_port_with_guid(f, guid) : FAB_NO_PORT;
}

/* ---- unknown names ------------------------------------------------------------- */

/* Length of the common beginning of @name and NodeDescription @desc. */
static unsigned int alike(const char *name, const char *desc)
{
	unsigned int n = 0;

	while (n < FAB_DESC_LEN && name[n] &&
	       tolower((unsigned char)name[n]) == tolower((unsigned char)desc[n]))
		n++;
	return n;
}

void fab_names_near(const struct fab *f, const char *name, char *text, size_t size)
{
	uint32_t near[FAB_NAMES_NEAR];
	unsigned int score[FAB_NAMES_NEAR], n = 0, k;
	int len;

	for (uint32_t i = 0; i < f->nodes; i++) {
		const unsigned int a = alike(name, f->desc[i].text);

		if (n == FAB_NAMES_NEAR && a <= score[n - 1])
			continue;
		n += n < FAB_NAMES_NEAR;
		for (k = n - 1; k && score[k - 1] < a; k--) {
			score[k] = score[k - 1];
			near[k] = near[k - 1];
		}
		score[k] = a;
		near[k] = i;
	}
	len = snprintf(text, size, "the nearest are ");
	for (k = 0; k < n && len >= 0 && (size_t)len < size; k++)
		len += snprintf(text + len, size - (size_t)len, "%s'%.64s'", k ? ", " : "",
				f->desc[near[k]].text);
}
