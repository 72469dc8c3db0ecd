// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The peer of a link, on the same host or by TCP, sends any bytes as its first message, and as
 * records after a valid one. Our side may lose the link, but nothing else fails: it then has a
 * reason, never blocks, and leaves no descriptor open.
 */
#include "link_ends.h"

#include <endian.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int fd, const void *buf, size_t len)
{
	if (send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		/* our side has closed, or does not read now */
	}
}

/* A valid HELLO of the peer with some bytes changed. */
static void hello(struct input *in, uint8_t buf[OHCA_WIRE_MSG_MAX], unsigned int changes)
{
	struct ohca_wire_hello h;
	struct ohca_link_cfg c;

	ohca_link_cfg_init(&c);
	c.vl_cap = 2;
	link_hello_fill(&h, &c);
	h.vls = 2;
	memset(buf, 0, OHCA_WIRE_MSG_MAX);
	memcpy(buf, &h, sizeof(h));
	for (unsigned int i = 0; i < changes && in->p < in->end; i++) {
		const unsigned int at = get16(in) % OHCA_WIRE_MSG_MAX;

		buf[at] = get8(in);
	}
}

/*
 * Our side listens or has connected; the first message of the peer is [@len] @buf. Return: NULL if
 * refused.
 */
static struct ohca_link *meet(const int sv[2], const uint8_t *buf, size_t len, bool listens)
{
	uint8_t nonce[OHCA_LINK_NONCE];
	struct ohca_link_cfg c, peer;
	struct ohca_link_err err = { 0 };
	struct ohca_link *l = NULL;
	int r;

	ohca_link_cfg_init(&c);
	c.vl_cap = 2;
	c.token = "a token of the fuzzer";
	if (!listens) {
		put(sv[1], buf, len);
		r = ohca_link_connect_finish(sv[0], &c, &l, &err);
		if ((r < 0 && !err.code) || (r > 0) != !!l)
			abort();
		if (!r)
			close(sv[0]);
		return l;
	}
	if (ohca_link_greet(sv[0], nonce, &err))
		abort();
	put(sv[1], buf, len);
	r = ohca_link_hello_recv(sv[0], NULL, &peer, &err);
	if (r <= 0) {
		if (!err.code)
			abort();
		close(sv[0]);
		return NULL;
	}
	if (ohca_link_proven(&peer, nonce, c.token))
		abort();
	return ohca_link_hello_reply(sv[0], &peer, &c, &err);
}

static void touch(struct ohca_link *l)
{
	volatile uint8_t sum = 0;

	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++) {
		struct ohca_link_frame f;

		for (int n = 0; n < 8 && ohca_link_rx_peek(l, vl, &f); n++) {
			if (f.len < OHCA_LINK_MIN_FRAME || f.len > OHCA_LINK_MAX_FRAME)
				abort();
			for (uint32_t i = 0; i < f.len; i++)
				sum = (uint8_t)(sum + f.data[i]);
			ohca_link_rx_release(l, vl);
		}
	}
}

static void record(int fd, uint8_t kind, uint8_t vl, uint16_t len, uint16_t flags, const void *body)
{
	const struct ohca_wire_rec r = {
		.kind = kind, .vl = vl, .len = htole16(len), .flags = htole16(flags),
	};

	put(fd, &r, sizeof(r));
	put(fd, body, len);
}

static void say(struct input *in, struct ohca_link *us, int fd)
{
	uint8_t op = get8(in), buf[OHCA_LINK_MAX_FRAME + 8] = { 0 };
	struct ohca_wire_credit c = { 0 };
	struct ohca_wire_state m = { 0 };
	size_t n;

	switch (op % 8) {
	case 0:		/* any bytes */
		put(fd, buf, take(in, buf, 1 + op / 8));
		break;
	case 1:		/* a record of any kind */
		n = take(in, buf, 8);
		record(fd, op / 8 % 5, op / 64, get16(in) % sizeof(buf), n ? buf[0] : 0, buf);
		break;
	case 2:		/* a frame */
	case 3:
		n = 12 + get16(in) % (OHCA_LINK_MAX_FRAME - 11);
		memset(buf, op, n);
		record(fd, OHCA_WIRE_FRAME, op & 64 ? 15 : op / 8 % 2, (uint16_t)n, op / 128, buf);
		break;
	case 4:		/* credits, valid except for a small change */
		for (unsigned int vl = 0; vl < 16; vl++)
			c.fccl[vl] = htole16((uint16_t)(us->tx[vl].fctbs +
							(vl < 2 ? OHCA_LINK_BLOCKS : 0)));
		c.fccl[15] = htole16((uint16_t)(us->tx[15].fctbs + OHCA_WIRE_VL15_BLOCKS));
		c.fccl[op / 8 % 2] = htole16((uint16_t)(le16toh(c.fccl[op / 8 % 2]) - get8(in) + 3));
		record(fd, OHCA_WIRE_CREDIT, 0, sizeof(c), 0, &c);
		break;
	case 5:		/* a training */
	case 6:
		link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
		m.seq = htole32(1 + op / 64);
		m.ack = htole32(op & 8 ? us->seq : get8(in));
		m.enabled = !(op & 16);
		m.width_en = m.speed_en = m.speed_ext_en = 0xff;
		for (unsigned int vl = 0; vl < 16; vl++)
			m.fctbs[vl] = htole16((uint16_t)(us->rx[vl].fctbs +
							 (op & 32 ? get8(in) : 0)));
		record(fd, OHCA_WIRE_MESSAGE, 0, sizeof(m), 0, &m);
		break;
	default:
		if (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) < 0)
			shutdown(fd, op == 255 ? SHUT_WR : SHUT_RD);
	}
}

static void established(struct input *in, struct ohca_link *us, int fd)
{
	static const struct ohca_link_phy phy = { true, 255, 255, 255 };
	unsigned int spins = 0;

	ohca_link_train(us, &phy);
	for (unsigned int ops = 0; ops < 200 && in->p < in->end; ops++) {
		const uint8_t op = get8(in);
		void *b;

		say(in, us, fd);
		if (op & 1)
			ohca_link_ctrl(us);
		if (op & 2)
			touch(us);
		if (op & 4 && (b = ohca_link_tx_begin(us, op / 64 % 2, 100 + op))) {
			memset(b, op, 100 + op);
			ohca_link_tx_commit(us, op / 64 % 2, 100 + op, 0);
		}
		if (op & 8)
			ohca_link_kick(us);
		if ((op & 48) == 48)
			ohca_link_train(us, &phy);
		else if (op & 16 && ohca_link_prepare_sleep(us) && op & 128)
			ohca_link_awake(us);
	}
	/*
	 * Whatever happened, our side can sleep or gets an event within a bounded number of
	 * attempts.
	 */
	while (!ohca_link_prepare_sleep(us)) {
		touch(us);
		while (ohca_link_ctrl(us) != OHCA_LINK_EV_NONE)
			;
		if (++spins > 5000)
			abort();
	}
	if (ohca_link_ctrl_fd(us) < 0 && !ohca_link_error(us)[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t how = get8(&in), buf[OHCA_WIRE_MSG_MAX];
	const bool tcp = how & 64;
	struct ohca_link *us;
	int first, sv[2];

	ends_pair(tcp ? SOCK_STREAM : SOCK_SEQPACKET, sv);
	first = sv[0];
	hello(&in, buf, how % 8 ? 0 : how / 8 % 8);
	us = meet(sv, buf, tcp ? sizeof(buf) : how % 8 ? sizeof(struct ohca_wire_hello) :
			   1 + get16(&in) % (sizeof(buf) - 1), how & 128);
	if (us)
		established(&in, us, sv[1]);
	ohca_link_free(us);
	close(sv[1]);
	ends_pair(SOCK_STREAM, sv);
	if (sv[0] != first)
		abort();
	close(sv[0]);
	close(sv[1]);
	return 0;
}
