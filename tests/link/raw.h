/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that a test writes into the socket of a link, past the link. */
#ifndef TEST_LINK_RAW_H
#define TEST_LINK_RAW_H

#include <endian.h>
#include <string.h>

#include "link/link_priv.h"

/** raw_record() - sends a record whose body is @body. Return: 0 or -1 with errno. */
static inline int raw_record(int sock, const struct ohca_wire_rec *rec, const void *body)
{
	uint8_t buf[sizeof(*rec) + UINT16_MAX];
	const struct ohca_wire_rec le = {
		.kind = rec->kind, .vl = rec->vl, .len = htole16(rec->len),
		.flags = htole16(rec->flags), .vcrc = htole16(rec->vcrc),
	};

	memcpy(buf, &le, sizeof(le));
	memcpy(buf + sizeof(le), body, rec->len);
	return link_send(sock, buf, sizeof(le) + rec->len);
}

/** raw_message() - sends a message. Return: 0 or -1 with errno. */
static inline int raw_message(int sock, const void *msg, size_t len)
{
	return raw_record(sock, &(struct ohca_wire_rec){ .kind = OHCA_WIRE_MESSAGE,
							 .len = (uint16_t)len }, msg);
}

#endif
