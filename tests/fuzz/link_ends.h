/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Both ends of a link in one thread, for fuzzing, and the fuzzer's bytes.
 */
#ifndef FUZZ_LINK_ENDS_H
#define FUZZ_LINK_ENDS_H

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "link/link_priv.h"

/** struct input - the rest of the fuzzer's bytes; zeros when they are used up. */
struct input {
	const uint8_t *p, *end;
};

static inline uint8_t get8(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static inline uint16_t get16(struct input *in)
{
	uint8_t lo = get8(in);

	return (uint16_t)(lo | get8(in) << 8);
}

/** take() - copies up to @max bytes into @buf. Return: how many there were. */
static inline size_t take(struct input *in, void *buf, size_t max)
{
	size_t n = (size_t)(in->end - in->p);

	if (n > max)
		n = max;
	memcpy(buf, in->p, n);
	in->p += n;
	return n;
}

/** ends_pair() - a pair of sockets of @type; SOCK_STREAM behaves as TCP */
static inline void ends_pair(int type, int sv[2])
{
	if (socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv))
		abort();
}

/** ends_meet() - makes the handshake; @a listens with @ca, @b connects with @cb. Never fails. */
static inline void ends_meet(const struct ohca_link_cfg *ca, const struct ohca_link_cfg *cb,
			     struct ohca_link **a, struct ohca_link **b)
{
	struct ohca_wire_hello h;
	struct ohca_link_cfg peer;
	struct ohca_link_err err;
	int sv[2];

	ends_pair(SOCK_SEQPACKET, sv);
	link_hello_fill(&h, cb);
	if (link_send(sv[1], &h, sizeof(h)) ||
	    ohca_link_hello_recv(sv[0], NULL, &peer, &err) != 1)
		abort();
	*a = ohca_link_hello_reply(sv[0], &peer, ca, &err);
	if (!*a || ohca_link_connect_finish(sv[1], cb, b, &err) != 1)
		abort();
}

#endif /* FUZZ_LINK_ENDS_H */
