// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hostile process at a fabric: HELLOs of all kinds, any bytes on the socket, in records, and in
 * frames.
 */
#include "ep.h"
#include "liar.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../link/raw.h"

#define STEPS	400u
#define SOCKETS	100u

static uint64_t state;
static uint64_t *lies;

static uint32_t rnd(uint32_t n)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)((z ^ z >> 31) % n);
}

static void lied(void)
{
	__atomic_fetch_add(lies, 1, __ATOMIC_RELAXED);
}

static void spoil(void *at, size_t len, unsigned int n)
{
	for (; n; n--)
		((uint8_t *)at)[rnd((uint32_t)len)] = (uint8_t)(rnd(2) ? rnd(256) : rnd(8));
}

static int dial(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path, path, strlen(path));
	if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof(a))) {
		close(s);
		return -1;
	}
	return s;
}

/* Sends a message, now and then with descriptors that are not expected. */
static void say(int sock, void *msg, size_t len)
{
	char room[CMSG_SPACE(8 * sizeof(int))] = { 0 };
	struct iovec iov = { msg, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[8], n = rnd(4) ? 0 : 1 + (int)rnd(8);

	for (int i = 0; i < n; i++)
		fds[i] = rnd(2) ? memfd_create("liar", MFD_CLOEXEC) : dup(sock);
	if (n) {
		m.msg_control = room;
		m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, (size_t)n * sizeof(int));
	}
	sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	lied();
}

/*
 * Sends HELLOs that are invalid, or nearly valid; then nothing, more, or the end of the connection.
 */
static void strangers(const char *path)
{
	int s[SOCKETS];
	unsigned int n = rnd(4) ? 1 + rnd(4) : SOCKETS;

	for (unsigned int i = 0; i < n; i++) {
		union {
			struct ohca_wire_hello h;
			uint8_t b[1024];
		} m = { 0 };

		s[i] = dial(path);
		if (s[i] < 0)
			continue;
		link_hdr_init(&m.h.hdr, OHCA_WIRE_HELLO, sizeof(m.h));
		m.h.port_guid = htole64(0x10 + rnd(8));
		m.h.node_type = 1;
		m.h.want_port = (uint8_t)rnd(8);
		m.h.vl_cap = 2;
		m.h.mtu_cap = 5;
		m.h.shift_max = 6;
		m.h.width_sup = 7;
		m.h.speed_sup = 7;
		spoil(&m, sizeof(m.h), rnd(6));
		if (rnd(4))
			say(s[i], &m, rnd(4) ? sizeof(m.h) : rnd(sizeof(m)));
		if (!rnd(4))
			shutdown(s[i], (int)rnd(3));
	}
	usleep(rnd(20000));
	for (unsigned int i = 0; i < n; i++)
		if (s[i] >= 0)
			close(s[i]);
}

/* ---- with a link ---- */

static size_t a_mad(uint8_t *pkt, bool gsi)
{
	static const uint8_t methods[] = { IB_METHOD_GET, IB_METHOD_SET, IB_METHOD_SET,
					   IB_METHOD_SET, IB_METHOD_GET_RESP, IB_METHOD_TRAP,
					   IB_METHOD_TRAP_REPRESS };
	static const uint8_t attrs[] = { 0x02, 0x10, 0x11, 0x12, 0x14, 0x15, 0x15, 0x16, 0x17, 0x18,
					 0x19, 0x1b, 0x20 };
	bool dr = rnd(2);
	struct ib_smp smp;
	size_t len;

	memset(&smp, 0, sizeof(smp));
	smp.hdr.base_version = 1;
	smp.hdr.mgmt_class = gsi ? IB_CLASS_PERF : dr ? IB_CLASS_SUBN_DR : IB_CLASS_SUBN_LID;
	smp.hdr.class_version = 1;
	smp.hdr.method = methods[rnd(sizeof(methods))];
	smp.hdr.attr_id = ib_to_be16(attrs[rnd(sizeof(attrs))]);
	smp.hdr.attr_mod = ib_to_be32(rnd(2) ? rnd(8) : rnd(4) << 16 | rnd(8));
	smp.hdr.tid = ib_to_be64(rnd(1000));
	smp.mkey = ib_to_be64(rnd(2) ? 0 : rnd(UINT32_MAX));
	smp.dr_slid = ib_to_be16(IB_LID_PERMISSIVE);
	smp.dr_dlid = smp.dr_slid;
	for (unsigned int i = 1; i < 6; i++) {
		smp.init_path[i] = (uint8_t)rnd(8);
		smp.ret_path[i] = (uint8_t)rnd(8);
	}
	if (dr)
		ib_smp_set_hops(&smp, (uint8_t)(rnd(8) ? 1 : rnd(256)),
				(uint8_t)(rnd(8) ? 1 + rnd(2) : rnd(256)));
	if (rnd(4))
		spoil(smp.data, sizeof(smp.data), rnd(64));
	if (!rnd(4))
		spoil(&smp, sizeof(smp), rnd(16));
	len = ep_build(pkt, gsi ? 0 : IB_MGMT_VL, 0, (uint16_t)(dr ? IB_LID_PERMISSIVE : rnd(6)),
		       (uint16_t)(rnd(2) ? IB_LID_PERMISSIVE : rnd(6)), gsi, gsi ? IB_QKEY_GSI : 0,
		       IB_DEFAULT_PKEY, &smp);
	if (!rnd(8))
		spoil(pkt, EP_SMP_HDR, rnd(4));
	return len;
}

static void frame(struct ohca_link *l)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME + 64];
	unsigned int vl = rnd(3);
	size_t len;
	void *b;

	memset(pkt, (int)rnd(256), sizeof(pkt));
	if (rnd(2)) {
		len = a_mad(pkt, !rnd(4));
		vl = pkt[0] >> 4;
	} else {
		len = rnd(8) ? 64 + 4 * rnd(1000) : rnd(sizeof(pkt));
		ib_build_bth(ib_build_lrh(pkt, (uint8_t)vl, (uint8_t)rnd(16), IB_LNH_IBA_LOCAL,
					  (uint16_t)(rnd(8) ? rnd(8) : 0xc000 + rnd(4)),
					  (uint16_t)(rnd(8) ? len / 4 : rnd(2048)),
					  (uint16_t)rnd(8)),
			     (uint8_t)rnd(256), 0, 0, (uint16_t)(rnd(2) ? 0xffff : rnd(65536)),
			     rnd(8), false, rnd(1u << 24));
	}
	if (!rnd(16))
		vl = rnd(16);
	b = ohca_link_tx_begin(l, vl, len);
	if (!b)
		return;
	memcpy(b, pkt, len);
	ohca_link_tx_commit(l, vl, len, rnd(8) ? 0 : (unsigned int)rnd(16));
	lied();
}

/* Sends a record of @len bytes; now and then with a header of random bytes. */
static void record(struct ohca_link *l, uint8_t kind, const void *body, size_t len)
{
	uint8_t buf[sizeof(struct ohca_wire_rec) + OHCA_LINK_MAX_FRAME];
	struct ohca_wire_rec rec = {
		.kind = kind, .vl = (uint8_t)(rnd(3) == 2 ? IB_MGMT_VL : rnd(2)),
		.len = htole16((uint16_t)len),
	};

	if (!rnd(4))
		spoil(&rec, sizeof(rec), 1 + rnd(3));
	memcpy(buf, &rec, sizeof(rec));
	memcpy(buf + sizeof(rec), body, len);
	if (l->sock >= 0)
		say(l->sock, buf, rnd(8) ? sizeof(rec) + len : rnd((uint32_t)(sizeof(rec) + len)));
}

/* Sends credits that do not exist, and frames that this end does not count. */
static void scribble(struct ohca_link *l)
{
	uint8_t frame[OHCA_LINK_MAX_FRAME] = { 0 };
	struct ohca_wire_credit c;

	lied();
	if (rnd(2)) {
		record(l, OHCA_WIRE_FRAME, frame, 1 + rnd(sizeof(frame)));
		return;
	}
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++)
		c.fccl[vl] = htole16((uint16_t)((l->rx[vl].pos + l->rx[vl].lane.blocks) & FC_MASK));
	c.vl15_dropped = rnd(UINT32_MAX);
	c.rsvd = 0;
	spoil(c.fccl, sizeof(c.fccl), rnd(4));
	record(l, OHCA_WIRE_CREDIT, &c, sizeof(c));
}

static void training(struct ohca_link *l)
{
	const struct ohca_link_phy phy = { rnd(8), (uint8_t)(rnd(4) ? 255 : rnd(256)),
					   (uint8_t)(rnd(4) ? 255 : rnd(256)), (uint8_t)rnd(256) };
	struct ohca_wire_state m = { 0 };

	if (rnd(2)) {
		ohca_link_train(l, &phy);
		lied();
		return;
	}
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	m.seq = htole32(rnd(4) ? rnd(8) : rnd(UINT32_MAX));
	m.ack = htole32(rnd(4) ? l->peer_state.seq : rnd(8));
	m.enabled = (uint8_t)rnd(2);
	m.width_en = (uint8_t)rnd(256);
	m.speed_en = m.width_en;
	m.speed_ext_en = m.width_en;
	spoil(m.fctbs, sizeof(m.fctbs), rnd(4));
	if (!rnd(4))
		spoil(&m, sizeof(m), rnd(4));
	record(l, OHCA_WIRE_MESSAGE, &m, rnd(8) ? sizeof(m) : rnd(sizeof(m)));
}

static void drain(struct ohca_link *l)
{
	struct ohca_link_frame f;

	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++)
		for (int n = 0; n < 64 && ohca_link_rx_peek(l, vl, &f); n++)
			ohca_link_rx_release(l, vl);
	while (ohca_link_ctrl(l) != OHCA_LINK_EV_NONE)
		;
}

static void neighbour(const char *path)
{
	const struct ohca_link_phy phy = ep_phy();
	bool deaf = !rnd(3), rude = rnd(2);
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	struct ohca_link *l;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x10 + rnd(8);
	cfg.node_type = (uint8_t)(1 + rnd(3));
	cfg.want_port = (uint8_t)(rnd(2) ? 0 : rnd(8));
	cfg.vl_cap = rnd(2) ? 2 : 8;
	cfg.shift_pref = (uint8_t)rnd(7);
	l = ohca_link_connect(path, &cfg, 1000, &err);
	lied();
	if (!l)
		return;
	ohca_link_train(l, &phy);
	simple_up(l, 200);
	for (unsigned int i = 0; i < STEPS && l->sock >= 0; i++) {
		if (!rnd(rude ? 16 : 200))
			scribble(l);
		else if (!rnd(rude ? 32 : 100))
			training(l);
		else
			for (unsigned int n = 1 + rnd(16); n; n--)
				frame(l);
		if (!deaf)
			drain(l);
		ohca_link_kick(l);
		if (!rnd(4))
			usleep(rnd(2000));
	}
	if (!rnd(2))
		ohca_link_free(l);
}

void liar_run(const char *path, uint64_t seed, uint64_t *count)
{
	state = seed;
	lies = count;
	for (unsigned int n = 1 + rnd(4); n; n--)
		if (rnd(3))
			neighbour(path);
		else
			strangers(path);
}
