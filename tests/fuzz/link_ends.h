/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Both ends of a link in one thread, for fuzzing: the handshake's inside is included,
 * so that no listener and no second thread is needed. No call of a link enters the kernel (sys.h).
 */
#ifndef FUZZ_LINK_ENDS_H
#define FUZZ_LINK_ENDS_H

#include "link/hello.c"
#include "sys.h"

/** struct input - what is left of the fuzzer's bytes; zeros when they are used up. */
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

/** take() - up to @max bytes into @buf. Return: how many there were. */
static inline size_t take(struct input *in, void *buf, size_t max)
{
	size_t n = (size_t)(in->end - in->p);

	if (n > max)
		n = max;
	memcpy(buf, in->p, n);
	in->p += n;
	return n;
}

/** ends_hello() - a connected socket pair; the connecting side has said HELLO. */
static inline bool ends_hello(int sv[2], const struct ohca_link_cfg *c)
{
	struct ohca_wire_hello h;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv))
		abort();
	link_hello_fill(&h, c);
	return !link_send(sv[1], &h, sizeof(h));
}

/** ends_meet() - handshake; @a listens with @ca, @b connects with @cb. Never fails. */
static inline void ends_meet(const struct ohca_link_cfg *ca, const struct ohca_link_cfg *cb,
			     struct ohca_link **a, struct ohca_link **b)
{
	struct ohca_link_cfg peer;
	struct ohca_link_err err;
	int sv[2];

	if (!ends_hello(sv, cb) || ohca_link_hello_recv(sv[0], NULL, &peer, &err) != 1)
		abort();
	*a = ohca_link_hello_reply(sv[0], &peer, ca, &err);
	if (!*a || ohca_link_connect_finish(sv[1], cb, b, &err) != 1)
		abort();
}

/** ends_settle() - let both handle what the other said, events ignored. */
static inline void ends_settle(struct ohca_link *a, struct ohca_link *b)
{
	for (int i = 0; i < 8; i++) {
		ohca_link_ctrl(a);
		ohca_link_ctrl(b);
	}
}

#endif /* FUZZ_LINK_ENDS_H */
