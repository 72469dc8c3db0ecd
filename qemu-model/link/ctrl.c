// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages of an established link: training, loss of the peer.
 */
#include "link_priv.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Messages handled by one ohca_link_ctrl(); the rest waits for the next poll. */
#define CTRL_BUDGET	16

/*
 * Trainings of the peer that the data of one recv() may contain. The peer begins one after our
 * answer to the previous one, and one more if it answers a training of ours meanwhile. Each makes
 * us send an answer.
 */
#define PEER_TRAININGS	4

enum { PHYS_POLLING = 2, PHYS_DISABLED = 3, PHYS_LINKUP = 5 };

int link_err(struct ohca_link_err *err, int code, int sys, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (!err)
		return -1;
	memset(err, 0, sizeof(*err));
	err->code = code;
	err->sys = sys;
	va_start(ap, fmt);
	n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (sys && n >= 0 && (size_t)n < sizeof(err->text))
		snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", strerror(sys));
	return -1;
}

void link_hdr_init(struct ohca_wire_hdr *h, unsigned int type, size_t len)
{
	h->magic = htole32(OHCA_WIRE_MAGIC);
	h->version = htole16(OHCA_LINK_VERSION);
	h->type = htole16((uint16_t)type);
	h->len = htole32((uint32_t)len);
	h->rsvd = 0;
}

void link_error_msg(struct ohca_wire_error *e, int code, const char *text)
{
	const size_t n = strlen(text);

	memset(e, 0, sizeof(*e));
	link_hdr_init(&e->hdr, OHCA_WIRE_ERROR, sizeof(*e));
	e->code = htole32((uint32_t)code);
	memcpy(e->text, text, n < sizeof(e->text) ? n : sizeof(e->text) - 1);
}

/* Copy the peer's text without control characters, for terminals and logs. */
static void copy_text(char *to, size_t size, const uint8_t *from, size_t len)
{
	size_t i;

	for (i = 0; i + 1 < size && i < len && from[i]; i++)
		to[i] = from[i] >= 0x20 && from[i] < 0x7f ? (char)from[i] : '?';
	to[i] = 0;
}

static int other_version(unsigned int version, struct ohca_link_err *err)
{
	return link_err(err, OHCA_LINK_E_VERSION, 0,
			"the peer uses version %u of the link protocol, this program uses %u: use "
			"ohca-fabric and libohca-umad of the same release", version, OHCA_LINK_VERSION);
}

int link_check_hdr(const void *buf, size_t len, struct ohca_link_err *err)
{
	struct ohca_wire_hdr h;
	unsigned int version;

	if (len < sizeof(h))
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer does not use the OpenHCA link protocol");
	memcpy(&h, buf, sizeof(h));
	version = le16toh(h.version);
	if (le32toh(h.magic) != OHCA_WIRE_MAGIC)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer does not use the OpenHCA link protocol");
	if (le32toh(h.len) != len)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer sent a message of %zu bytes whose length is %u", len,
				le32toh(h.len));
	/* ERROR messages of every version are accepted. */
	if (le16toh(h.type) == OHCA_WIRE_ERROR && len >= sizeof(h) + 4) {
		struct ohca_wire_error e;
		char text[sizeof(e.text)];

		memset(&e, 0, sizeof(e));
		memcpy(&e, buf, len < sizeof(e) ? len : sizeof(e));
		/* the peer's text calls us the peer: use our own */
		if (le32toh(e.code) == OHCA_LINK_E_VERSION && version != OHCA_LINK_VERSION)
			return other_version(version, err);
		copy_text(text, sizeof(text), e.text, sizeof(e.text));
		return link_err(err, (int)le32toh(e.code), 0, "the peer refused: %s", text);
	}
	if (version != OHCA_LINK_VERSION)
		return other_version(version, err);
	return le16toh(h.type);
}

/* ---- training ------------------------------------------------------------------ */

static void go_down(struct ohca_link *l)
{
	if (atomic_load_explicit(&l->up, memory_order_relaxed)) {
		atomic_store(&l->up, 0);
		l->training++;
		l->ev_down = true;
	}
	l->state.up = false;
	l->state.width = 0;
	l->state.speed = 0;
	l->state.speed_ext = 0;
	l->state.phys = l->phy.enabled && l->seq ? PHYS_POLLING : PHYS_DISABLED;
}

static void close_link(struct ohca_link *l)
{
	go_down(l);
	link_close_sock(l->cfg.closer, l->sock);
	l->sock = -1;
	l->state.phys = PHYS_POLLING;
}

static int send_state(struct ohca_link *l)
{
	struct ohca_wire_state m = {
		.seq = htole32(l->seq),
		.ack = htole32(l->peer_seen ? l->peer_state.seq : 0),
		.enabled = l->phy.enabled,
		.width_en = l->phy.width_en,
		.speed_en = l->phy.speed_en,
		.speed_ext_en = l->phy.speed_ext_en,
	};

	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++)
		m.fctbs[vl] = htole16((uint16_t)l->tx[vl].fctbs);
	l->sent_seq = l->seq;
	link_stream_forget(l);
	return link_stream_post(l, &m, sizeof(m));
}

/* With these errors recv() reports the end, too. */
static bool peer_gone(int e)
{
	return e == EPIPE || e == ECONNRESET || e == ENOTCONN;
}

/* The widest of @mask: by lanes, not by code. */
static uint8_t widest(uint8_t mask)
{
	/* 12x, 8x, 4x, 2x, 1x */
	static const uint8_t order[] = { 8, 4, 2, 16, 1 };

	for (unsigned int i = 0; i < sizeof(order); i++)
		if (mask & order[i])
			return order[i];
	return 0;
}

static uint8_t top_bit(uint8_t mask)
{
	return mask ? (uint8_t)(1u << (31 - __builtin_clz(mask))) : 0;
}

static void try_up(struct ohca_link *l)
{
	const struct ohca_wire_state *p = &l->peer_state;
	uint8_t width, speed, ext;

	if (l->state.up || !l->seq || !l->peer_seen || !l->phy.enabled || !p->enabled ||
	    p->ack != l->seq)
		return;
	width = widest(l->phy.width_en & l->cfg.width_sup & p->width_en & l->peer.width_sup);
	speed = top_bit(l->phy.speed_en & l->cfg.speed_sup & p->speed_en & l->peer.speed_sup);
	ext = top_bit(l->phy.speed_ext_en & l->cfg.speed_ext_sup & p->speed_ext_en &
		      l->peer.speed_ext_sup);
	if (!width || (!speed && !ext))
		return;
	if (!link_rx_resync(l, p->fctbs)) {
		l->rx_broken = true;
		snprintf(l->error, sizeof(l->error), "impossible FCTBS in training");
		return;
	}
	l->state.up = true;
	l->state.phys = PHYS_LINKUP;
	l->state.width = width;
	/* With an extended speed active, LinkSpeedActive still shows the best of SDR-QDR. */
	l->state.speed = speed ? speed : 4;
	l->state.speed_ext = ext;
	stat_add(&l->retrains, 1);
	atomic_store(&l->up, 1);
}

/*
 * Whether the peer has acknowledged the last STATE of a training. If not, further trainings
 * wait: at most one message is outstanding, in addition to answers to the peer's own, so that the
 * socket does not fill up while the peer is stopped.
 */
static bool acknowledged(const struct ohca_link *l)
{
	return !l->sent_seq || (l->peer_seen && l->peer_state.ack == l->sent_seq);
}

static bool take_state(struct ohca_link *l, const void *buf, size_t len)
{
	struct ohca_wire_state m;
	bool news;

	if (len < sizeof(m))
		return false;
	memcpy(&m, buf, sizeof(m));
	m.seq = le32toh(m.seq);
	m.ack = le32toh(m.ack);
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++)
		m.fctbs[vl] = le16toh(m.fctbs[vl]) & FC_MASK;
	if (!m.seq || m.enabled > 1)
		return false;
	news = !l->peer_seen || l->peer_state.seq != m.seq;
	if (news && ++l->peer_trainings > PEER_TRAININGS)
		return false;
	if (news)
		go_down(l);
	if (!link_stream_state(l, m.fctbs))
		return false;
	l->peer_state = m;
	l->peer_seen = true;
	/* Send an answer, or the training that waited. A peer that never reads loses its link. */
	if (l->seq && (news || (l->sent_seq != l->seq && acknowledged(l))) && send_state(l) &&
	    !peer_gone(errno))
		return false;
	return true;
}

int ohca_link_train(struct ohca_link *l, const struct ohca_link_phy *phy)
{
	if (l->sock < 0)
		return -1;
	l->phy = *phy;
	if (!++l->seq)
		l->seq = 1;
	go_down(l);
	if (!acknowledged(l))
		return 0;
	if (send_state(l)) {
		if (peer_gone(errno))
			return 0;
		/* ohca_link_ctrl() reports it: the peer does not read its socket. */
		snprintf(l->error, sizeof(l->error), "the peer does not answer: %s",
			 strerror(errno));
		l->rx_broken = true;
		return -1;
	}
	return 0;
}

void ohca_link_set_phy(struct ohca_link *l, const struct ohca_link_phy *phy)
{
	l->phy.width_en = phy->width_en;
	l->phy.speed_en = phy->speed_en;
	l->phy.speed_ext_en = phy->speed_ext_en;
}

/* Send the reason to the peer, if its socket accepts it. */
static void send_error(struct ohca_link *l)
{
	struct ohca_wire_error e;

	link_error_msg(&e, OHCA_LINK_E_PEER, l->error);
	(void)link_stream_post(l, &e, sizeof(e));
}

static enum ohca_link_event broke(struct ohca_link *l)
{
	l->rx_broken = true;
	send_error(l);
	close_link(l);
	return OHCA_LINK_EV_ERROR;
}

enum ohca_link_event ohca_link_ctrl(struct ohca_link *l)
{
	union {
		uint8_t b[OHCA_WIRE_MSG_MAX];
		struct ohca_wire_hdr align;
	} buf;
	unsigned int reads = link_stream_reads(l);
	struct ohca_link_err err;

	for (int i = 0;; i++) {
		ssize_t n;
		int type;

		if (l->ev_down) {
			l->ev_down = false;
			return OHCA_LINK_EV_DOWN;
		}
		if (l->sock < 0)
			return OHCA_LINK_EV_NONE;
		if (l->rx_broken)
			return broke(l);
		if (!l->state.up) {
			try_up(l);
			if (l->rx_broken)
				return broke(l);
			if (l->state.up)
				return OHCA_LINK_EV_UP;
		}
		/* Data outside of the socket must not wait: only the socket stays readable. */
		if (i == CTRL_BUDGET)
			reads = 0;
		n = link_stream_recv(l, buf.b, &reads);
		if (n == STREAM_BROKEN)
			return broke(l);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return OHCA_LINK_EV_NONE;
		if (n <= 0) {
			if (!l->error[0])
				snprintf(l->error, sizeof(l->error), "the peer closed the link");
			close_link(l);
			l->ev_down = false;
			return OHCA_LINK_EV_CLOSED;
		}
		type = link_check_hdr(buf.b, (size_t)n, &err);
		if (type < 0) {
			snprintf(l->error, sizeof(l->error), "%s", err.text);
			return broke(l);
		}
		if (type == OHCA_WIRE_STATE && !take_state(l, buf.b, (size_t)n)) {
			snprintf(l->error, sizeof(l->error), "training failed");
			return broke(l);
		}
		/* Unknown types are sent by a peer with more features, and are ignored. */
	}
}

void ohca_link_get_state(const struct ohca_link *l, struct ohca_link_state *st)
{
	*st = l->state;
}

const char *ohca_link_error(const struct ohca_link *l)
{
	return l->error;
}

int ohca_link_ctrl_fd(const struct ohca_link *l)
{
	return l->sock;
}
