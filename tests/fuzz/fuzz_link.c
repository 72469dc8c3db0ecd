// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A link's hostile peer: garbage as HELLO, as answer to a HELLO, on the control socket
 * and in shared memory. Ours may lose the link, nothing else; it may not hang either.
 */
#include "link_ends.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_hello(struct input *in)
{
	struct ohca_link_cfg cfg, peer;
	uint8_t buf[OHCA_WIRE_MSG_MAX + 64] = { 0 };
	struct ohca_link_err err;
	size_t n;
	int sv[2];

	ohca_link_cfg_init(&cfg);
	ends_hello(sv, &cfg);
	if (recv(sv[0], buf, sizeof(buf), 0) < 0)
		abort();
	/* A right HELLO with some bytes changed. */
	n = get16(in) % sizeof(buf);
	if (!n)
		n = sizeof(struct ohca_wire_hello);
	while (in->p < in->end) {
		unsigned int at = get8(in);

		buf[at] = get8(in);
	}
	if (send(sv[1], buf, n, 0) < 0)
		abort();
	if (ohca_link_hello_recv(sv[0], NULL, &peer, &err) == 1) {
		ohca_link_free(ohca_link_hello_reply(sv[0], &peer, &cfg, &err));
	} else {
		if (!err.code || !memchr(err.text, 0, sizeof(err.text)))
			abort();
		close(sv[0]);
	}
	close(sv[1]);
}

/* A listener that answers wrongly. */
static void fuzz_answer(struct input *in)
{
	int fds[NFDS] = { -1, -1, -1 };
	struct ohca_link_cfg cfg;
	struct ohca_link_err err = { 0 };
	struct ohca_wire_hello h;
	struct ohca_link *l = NULL;
	uint8_t how = get8(in);
	int sv[2], rc;

	ohca_link_cfg_init(&cfg);
	ends_hello(sv, &cfg);
	link_hello_fill(&h, &cfg);
	h.vls = 1;
	h.mem_size = htole64(shm_size(1, 0));
	for (unsigned int i = 0; i < 20 && in->p < in->end; i++) {
		unsigned int at = get8(in) % sizeof(h);

		((uint8_t *)&h)[at] = get8(in);
	}
	fds[0] = how & 1 ? memfd_create("x", MFD_CLOEXEC) : shm_create(1, how >> 6);
	for (unsigned int i = 1; i < NFDS; i++) {
		if (how >> i & 1)
			fds[i] = memfd_create("pipe:[1]", MFD_CLOEXEC);
		else
			close(wake_create(&fds[i], &err));
	}
	err.code = 0;
	if (how & 8) {
		if (send(sv[0], &h, sizeof(h), 0) < 0)
			abort();
	} else if (send_hello_fds(sv[0], &h, fds)) {
		abort();
	}
	link_close_all(NULL, fds, NFDS);
	if (how & 16)
		shutdown(sv[0], SHUT_RDWR);
	rc = ohca_link_connect_finish(sv[1], &cfg, &l, &err);
	/* the answer has come */
	if (!rc || (rc < 0 && !err.code) || (rc > 0) != !!l)
		abort();
	ohca_link_free(l);
	close(sv[0]);
}

static void touch(struct ohca_link *l)
{
	uint32_t mask = ohca_link_rx_pending(l);
	volatile uint8_t sum = 0;

	for (unsigned int vl = 0; vl < OHCA_SHM_LANES; vl++) {
		struct ohca_link_frame f;

		for (int n = 0; n < 8 && ohca_link_rx_peek(l, vl, &f) > 0; n++) {
			if (!(mask & (1u << vl)) && !n)
				mask |= 1u << vl;
			if (f.len < OHCA_LINK_MIN_FRAME || f.len > OHCA_LINK_MAX_FRAME)
				abort();
			for (uint32_t i = 0; i < f.len; i++)
				sum = (uint8_t)(sum + f.data[i]);
			ohca_link_rx_release(l, vl);
		}
	}
}

static void fuzz_established(struct input *in)
{
	static const struct ohca_link_phy phy = { true, 255, 255, 255 };
	struct ohca_link *us, *peer;
	struct ohca_link_cfg c;
	unsigned int spins = 0;

	ohca_link_cfg_init(&c);
	c.vl_cap = 2;
	c.shift_pref = get8(in) & 1;
	ends_meet(&c, &c, &us, &peer);
	ohca_link_train(us, &phy);
	ohca_link_train(peer, &phy);
	ends_settle(us, peer);

	for (int ops = 0; ops < 300 && in->p < in->end; ops++) {
		uint8_t op = get8(in), buf[OHCA_LINK_MAX_FRAME] = { 0 };
		struct ohca_wire_state m;
		struct tx_lane *t;
		size_t n;
		void *b;

		switch (op % 10) {
		case 0:		/* a frame of the peer */
		case 1:		/* one of ours */
			n = get16(in) % (OHCA_LINK_MAX_FRAME + 2);
			b = ohca_link_tx_begin(op % 10 ? us : peer, op / 10 % 3, n);
			if (b) {
				memset(b, op, n);
				ohca_link_tx_commit(op % 10 ? us : peer, op / 10 % 3, n, op / 80);
			}
			break;
		case 2:		/* control words */
			n = get16(in) % sizeof(struct ohca_shm_ctl);
			((uint8_t *)peer->map.ctl)[n] = get8(in);
			break;
		case 3:		/* the descriptor that comes next, or the one before */
			t = &peer->tx[op / 10 % 2];
			n = (t->fctbs - (op & 64 ? 1 : 0)) & (t->lane.blocks - 1);
			take(in, &t->lane.desc[n], sizeof(t->lane.desc[n]));
			shm_store(&peer->tx_dir->fctbs[op / 10 % 2], t->fctbs + get16(in) % 80);
			break;
		case 4:		/* anything on the socket */
			n = take(in, buf, op / 10 * 4);
			if (peer->sock >= 0)
				send(peer->sock, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
			break;
		case 5:		/* a STATE that looks right */
			memset(&m, 0, sizeof(m));
			link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
			take(in, &m.seq, 16);
			m.ack = op & 64 ? htole32(us->seq) : m.ack;
			m.fctbs[0] = htole16(get16(in));
			if (peer->sock >= 0)
				link_send(peer->sock, &m, sizeof(m));
			break;
		case 6:
			ohca_link_train(op & 64 ? us : peer, &phy);
			break;
		case 7:
			touch(us);
			ohca_link_kick(us);
			break;
		case 8:
			if (ohca_link_prepare_sleep(us))
				ohca_link_awake(us, true);
			break;
		default:
			ends_settle(us, peer);
		}
		ohca_link_ctrl(us);
	}
	/* Whatever happened, ours can go to sleep or is told why not, in bounded time. */
	while (!ohca_link_prepare_sleep(us)) {
		touch(us);
		while (ohca_link_ctrl(us) != OHCA_LINK_EV_NONE)
			;
		if (++spins > 5000)
			abort();
	}
	ohca_link_free(us);
	ohca_link_free(peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	switch (get8(&in) % 8) {
	case 0:
		fuzz_hello(&in);
		break;
	case 1:
		fuzz_answer(&in);
		break;
	default:
		fuzz_established(&in);
	}
	sys_end();
	return 0;
}
