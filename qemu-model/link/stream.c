// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A link and its socket: frames in the rings of one direction are sent by the socket, and received
 * frames are put into the rings of the other.
 *
 * A frame stays in the sender's ring until its credits return, so it is sent from there, many in
 * one call; the receiver has room for it, because of its credits. Neither end allocates, or waits.
 * Impossible data ends the link.
 */
#include "link_priv.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define IN_BYTES	(256u << 10)	/* received in one call */
#define OUT_BYTES	4096u		/* messages and credits that wait for the socket */
#define FRAMES		64u		/* sent in one call, by TCP */
#define PACKET_BYTES	(64u << 10)	/* of frames in one call on a host: all or none */
#define WRITES		16u		/* calls in one link_stream_kick() */
#define READS		4u		/* calls in one ohca_link_ctrl(), by TCP */
#define PAGES		64u		/* of packets in one ohca_link_ctrl(), on a host */
#define PAGE_BYTES	4096u

/**
 * struct part - a frame that is partly in the socket
 * @rec: its record
 * @data: its address in the ring
 * @done: bytes of both that are in the socket; @rec and @data have more
 */
struct part {
	struct ohca_wire_rec rec;
	const uint8_t *data;
	size_t len;
	size_t done;
};

/**
 * struct link_stream - the socket's side of a link
 * @blocked: the socket accepts nothing now, or it is another link's turn; @l->my_wake becomes
 *	readable when it accepts more
 * @dead: it never will
 * @packets: the socket has packets, which it accepts and returns as a whole
 * @turn: lane that is first in the next call
 * @dropped: tx_vl15_dropped that was sent to the peer
 * @part: a frame that is not completely in the socket, if its @len is not 0
 * @out: [@out_len] messages and credits that follow
 * @in: [@in_at, @in_len) received data that is not processed yet
 */
struct link_stream {
	bool blocked, dead, packets;
	unsigned int turn;
	uint32_t dropped;
	struct part part;
	size_t out_len, in_at, in_len;
	uint8_t out[OUT_BYTES];
	uint8_t in[IN_BYTES];
};

int link_stream_new(struct ohca_link *l)
{
	struct link_stream *s = malloc(sizeof(*s));

	if (!s)
		return -1;
	/* not the buffers: their pages are allocated when they are used */
	memset(s, 0, offsetof(struct link_stream, out));
	s->packets = !link_is_tcp(l->sock);
	l->my_wake = epoll_create1(EPOLL_CLOEXEC);
	if (l->my_wake < 0) {
		free(s);
		return -1;
	}
	l->stream = s;
	return 0;
}

void link_stream_free(struct ohca_link *l)
{
	free(l->stream);
	l->stream = NULL;
}

size_t link_stream_bytes(const struct ohca_link *l)
{
	return sizeof(*l->stream);
}

/* ---- sending ------------------------------------------------------------------- */

/*
 * Nothing can be sent any more, errno has the reason. Received data is still processed, up to the
 * end, which the shutdown causes if the socket itself has no error.
 */
static void die(struct ohca_link *l)
{
	l->stream->dead = true;
	/* the peer may have sent a reason before the connection ended */
	if (errno != EPIPE && errno != ECONNRESET && !l->error[0])
		snprintf(l->error, sizeof(l->error), "the connection is lost: %s", strerror(errno));
	shutdown(l->sock, SHUT_RDWR);
}

static void block(struct ohca_link *l)
{
	struct epoll_event ev = { .events = EPOLLOUT };

	l->stream->blocked = true;
	/* without memory for it no event would wake the link */
	if (epoll_ctl(l->my_wake, EPOLL_CTL_ADD, l->sock, &ev))
		die(l);
}

static void link_stream_put(struct link_stream *s, unsigned int kind, const void *body, size_t len)
{
	const struct ohca_wire_rec rec = { .kind = (uint8_t)kind, .len = htole16((uint16_t)len) };

	memcpy(s->out + s->out_len, &rec, sizeof(rec));
	memcpy(s->out + s->out_len + sizeof(rec), body, len);
	s->out_len += sizeof(rec) + len;
}

static bool has_room(const struct link_stream *s, size_t len)
{
	return s->out_len + sizeof(struct ohca_wire_rec) + len <= OUT_BYTES;
}

static uint32_t lanes_with_frames(const struct ohca_link *l)
{
	uint32_t mask = 0;

	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++)
		mask |= (uint32_t)(l->tx[vl].sent != l->tx[vl].fctbs) << vl;
	return mask;
}

static uint32_t fccl_of(const struct rx_lane *r)
{
	return (r->pos + r->lane.blocks) & FC_MASK;
}

/*
 * Credits are sent by themselves if they are an eighth of a lane, or if the peer may have less
 * credits than a longest frame needs. Otherwise they are sent together with other data.
 */
static bool is_worth(const struct rx_lane *r)
{
	return ((fccl_of(r) - r->told) & FC_MASK) >= r->lane.blocks / 8 ||
	       ((r->told - r->fctbs) & FC_MASK) < link_blocks(&r->lane, OHCA_LINK_MAX_FRAME);
}

bool link_stream_is_due(const struct ohca_link *l)
{
	for (uint32_t mask = l->rx_news; mask; mask &= mask - 1)
		if (is_worth(&l->rx[__builtin_ctz(mask)]))
			return true;
	return l->stream->dropped != (uint32_t)l->tx_vl15_dropped;
}

static void put_credits(struct ohca_link *l, bool goes)
{
	const uint32_t dropped = (uint32_t)l->tx_vl15_dropped;
	struct link_stream *s = l->stream;
	struct ohca_wire_credit c = { .vl15_dropped = htole32(dropped) };

	if (!((goes && l->rx_news) || link_stream_is_due(l)) || !has_room(s, sizeof(c)))
		return;
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++) {
		l->rx[vl].told = fccl_of(&l->rx[vl]);
		c.fccl[vl] = htole16((uint16_t)l->rx[vl].told);
	}
	l->rx_news = 0;
	s->dropped = dropped;
	link_stream_put(s, OHCA_WIRE_CREDIT, &c, sizeof(c));
}

/* Make the record of the frame at block @at of lane @vl. Return: its credits. */
static uint32_t make_record(const struct ohca_link *l, unsigned int vl, uint32_t at,
			    struct part *p)
{
	const struct lane *lane = &l->tx[vl].lane;
	const uint32_t idx = at & (lane->blocks - 1);
	const struct frame_desc *d = &lane->desc[idx];

	*p = (struct part){
		.rec = {
			.kind = OHCA_WIRE_FRAME,
			.vl = (uint8_t)vl,
			.len = htole16(d->len),
			.flags = htole16(d->flags),
			.vcrc = htole16(d->vcrc),
		},
		.data = lane->data + ((size_t)idx << lane->bshift),
		.len = d->len,
	};
	return link_blocks(lane, d->len);
}

static unsigned int put_part(struct iovec *iov, const struct part *p)
{
	const size_t done = p->done, head = sizeof(p->rec);
	unsigned int n = 0;

	if (done < head) {
		iov[n].iov_base = (uint8_t *)(uintptr_t)&p->rec + done;
		iov[n++].iov_len = head - done;
	}
	iov[n].iov_base = (void *)(uintptr_t)(p->data + (done > head ? done - head : 0));
	iov[n++].iov_len = p->len - (done > head ? done - head : 0);
	return n;
}

static size_t left_of(const struct part *p)
{
	return p->len ? sizeof(p->rec) + p->len - p->done : 0;
}

/* Collect frames, of the lanes in turn. Return: how many. */
static unsigned int link_stream_collect(struct ohca_link *l, struct part *frame)
{
	struct link_stream *s = l->stream;
	uint32_t at[OHCA_WIRE_LANES], mask = lanes_with_frames(l);
	unsigned int n = 0, vl = s->turn;
	size_t bytes = 0;

	if (!mask)
		return 0;
	for (unsigned int i = 0; i < OHCA_WIRE_LANES; i++)
		at[i] = l->tx[i].sent;
	while (mask && n < FRAMES && (!s->packets || bytes < PACKET_BYTES)) {
		if (mask >> vl & 1) {
			at[vl] = (at[vl] + make_record(l, vl, at[vl], &frame[n])) & FC_MASK;
			bytes += frame[n++].len;
			if (at[vl] == l->tx[vl].fctbs)
				mask &= ~(1u << vl);
		}
		vl = (vl + 1) % OHCA_WIRE_LANES;
	}
	s->turn = vl;
	return n;
}

/*
 * The socket has accepted @n bytes of a part, the messages, and the frames. Return: whether of all.
 */
static bool taken(struct ohca_link *l, size_t n, const struct part *frame, unsigned int frames)
{
	struct link_stream *s = l->stream;
	size_t k = left_of(&s->part);

	k = n < k ? n : k;
	s->part.done += k;
	n -= k;
	if (left_of(&s->part))
		return false;
	s->part.len = 0;
	k = n < s->out_len ? n : s->out_len;
	s->out_len -= k;
	memmove(s->out, s->out + k, s->out_len);
	n -= k;
	if (s->out_len)
		return false;
	for (unsigned int i = 0; i < frames; i++) {
		struct tx_lane *t = &l->tx[frame[i].rec.vl];

		if (!n)
			return false;
		t->sent = (t->sent + link_blocks(&t->lane, frame[i].len)) & FC_MASK;
		k = left_of(&frame[i]);
		if (n < k) {
			s->part = frame[i];
			s->part.done = n;
			return false;
		}
		n -= k;
	}
	return true;
}

/* Send once. Return: whether there may be more to send. */
static bool send_some(struct ohca_link *l)
{
	struct link_stream *s = l->stream;
	struct iovec iov[2 + 1 + 2 * FRAMES];
	struct part frame[FRAMES];
	struct msghdr m = { .msg_iov = iov };
	unsigned int frames, n = 0;
	ssize_t r;

	frames = link_stream_collect(l, frame);
	put_credits(l, frames || s->out_len || s->part.len);
	if (s->part.len)
		n += put_part(iov, &s->part);
	if (s->out_len) {
		iov[n].iov_base = s->out;
		iov[n++].iov_len = s->out_len;
	}
	for (unsigned int i = 0; i < frames; i++)
		n += put_part(iov + n, &frame[i]);
	if (!n)
		return false;
	m.msg_iovlen = n;
	r = sendmsg(l->sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r < 0 && errno == EINTR)
		return true;
	if (r < 0 && errno != EAGAIN) {
		die(l);
		return false;
	}
	stat_add(&l->sends, 1);
	if (r < 0 || !taken(l, (size_t)r, frame, frames)) {
		block(l);
		return false;
	}
	return lanes_with_frames(l);
}

void link_stream_kick(struct ohca_link *l)
{
	struct link_stream *s = l->stream;

	for (unsigned int i = 0; i < WRITES; i++)
		if (s->blocked || s->dead || l->sock < 0 || !send_some(l))
			return;
	/*
	 * other links have their turn; the event of my_wake continues, also for a link that sleeps
	 */
	block(l);
}

void link_stream_writable(struct ohca_link *l)
{
	struct epoll_event ev = { 0 };

	if (!l->stream->blocked || l->sock < 0)
		return;
	l->stream->blocked = false;
	epoll_ctl(l->my_wake, EPOLL_CTL_DEL, l->sock, &ev);
	link_stream_kick(l);
}

bool link_stream_idle(const struct ohca_link *l)
{
	return l->stream->blocked || ohca_link_is_sent(l);
}

bool ohca_link_is_sent(const struct ohca_link *l)
{
	const struct link_stream *s = l->stream;

	return s->dead || !(s->part.len | s->out_len | lanes_with_frames(l));
}

int link_stream_post(struct ohca_link *l, const void *msg, size_t len)
{
	struct link_stream *s = l->stream;

	if (s->dead) {
		errno = EPIPE;
		return -1;
	}
	if (!has_room(s, len)) {
		errno = EAGAIN;
		return -1;
	}
	link_stream_put(s, OHCA_WIRE_MESSAGE, msg, len);
	link_stream_kick(l);
	return 0;
}

void link_stream_forget(struct ohca_link *l)
{
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++)
		l->tx[vl].sent = l->tx[vl].fctbs;
}

/* ---- receiving ----------------------------------------------------------------- */

static bool broken(struct ohca_link *l, const char *what, unsigned int v)
{
	snprintf(l->error, sizeof(l->error), "the peer violates the link protocol: %s %u", what, v);
	return false;
}

static bool take_frame(struct ohca_link *l, const struct ohca_wire_rec *rec, const uint8_t *body)
{
	struct rx_lane *r;
	uint32_t n, idx;

	if (rec->vl >= OHCA_WIRE_LANES || !l->rx[rec->vl].lane.blocks)
		return broken(l, "a frame of VL", rec->vl);
	if (rec->len < OHCA_LINK_MIN_FRAME || rec->len > OHCA_LINK_MAX_FRAME)
		return broken(l, "frame length", rec->len);
	if (rec->flags & ~OHCA_FRAME_FLAGS)
		return broken(l, "frame flags", rec->flags);
	r = &l->rx[rec->vl];
	n = link_blocks(&r->lane, rec->len);
	if (((r->told - r->fctbs) & FC_MASK) < n)
		return broken(l, "credits exceeded, VL", rec->vl);
	idx = r->fctbs & (r->lane.blocks - 1);
	memcpy(r->lane.data + ((size_t)idx << r->lane.bshift), body, rec->len);
	r->lane.desc[idx] = (struct frame_desc){
		.len = rec->len, .flags = rec->flags, .vcrc = rec->vcrc,
	};
	r->fctbs = (r->fctbs + n) & FC_MASK;
	return true;
}

/*
 * Set the credit limit: it never decreases, and never exceeds the buffer, counted from the frames
 * that are in the socket, since the peer can have received no others.
 */
static bool take_credit(struct ohca_link *l, const uint8_t *body)
{
	struct ohca_wire_credit c;

	memcpy(&c, body, sizeof(c));
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++) {
		struct tx_lane *t = &l->tx[vl];
		const uint32_t now = (le16toh(c.fccl[vl]) - t->sent) & FC_MASK;
		const uint32_t was = (t->fccl - t->sent) & FC_MASK;

		if (!t->lane.blocks)
			continue;
		if (now > t->lane.blocks || was > now)
			return broken(l, "impossible credit limit, VL", vl);
		t->fccl = (t->sent + now) & FC_MASK;
	}
	l->rx_vl15_dropped = le32toh(c.vl15_dropped);
	return true;
}

bool link_stream_state(struct ohca_link *l, const uint16_t *fctbs)
{
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++) {
		struct rx_lane *r = &l->rx[vl];
		const uint32_t was = (r->fctbs - r->pos) & FC_MASK;
		const uint32_t now = (fctbs[vl] - r->pos) & FC_MASK;

		if (!r->lane.blocks)
			continue;
		/* blocks in between were not sent; while the link is up all are */
		if (now > ((r->told - r->pos) & FC_MASK) || was > now ||
		    (l->state.up && was != now))
			return false;
		r->fctbs = fctbs[vl];
	}
	return true;
}

/*
 * Find the next record. Return: 1: @rec and @body, 0: it is not complete yet, -1: it is not valid.
 */
static int next_record(struct ohca_link *l, struct ohca_wire_rec *rec, const uint8_t **body)
{
	struct link_stream *s = l->stream;
	const size_t have = s->in_len - s->in_at;
	size_t most;

	if (have < sizeof(*rec))
		return 0;
	memcpy(rec, s->in + s->in_at, sizeof(*rec));
	rec->len = le16toh(rec->len);
	rec->flags = le16toh(rec->flags);
	rec->vcrc = le16toh(rec->vcrc);
	most = rec->kind == OHCA_WIRE_FRAME ? OHCA_LINK_MAX_FRAME :
	       rec->kind == OHCA_WIRE_MESSAGE ? OHCA_WIRE_MSG_MAX :
	       rec->kind == OHCA_WIRE_CREDIT ? sizeof(struct ohca_wire_credit) : 0;
	if (!most || rec->len > most || !rec->len ||
	    (rec->kind == OHCA_WIRE_CREDIT && rec->len != most)) {
		broken(l, most ? "a record of length" : "a record of kind",
		       most ? rec->len : rec->kind);
		return -1;
	}
	if (have < sizeof(*rec) + rec->len)
		return 0;
	*body = s->in + s->in_at + sizeof(*rec);
	s->in_at += sizeof(*rec) + rec->len;
	return 1;
}

unsigned int link_stream_reads(const struct ohca_link *l)
{
	return l->stream->packets ? PAGES : READS;
}

/*
 * What is left of @reads after a call that has received @n bytes. A packet costs one, and its
 * pages.
 */
static unsigned int reads_after(const struct link_stream *s, unsigned int reads, ssize_t n)
{
	const unsigned int cost = s->packets ? 1 + (unsigned int)n / PAGE_BYTES : 1;

	return cost < reads ? reads - cost : 0;
}

/* Receive into the free part of the buffer. Return: as recv(); *@all: the socket is empty now. */
static ssize_t receive(struct ohca_link *l, bool *all)
{
	struct link_stream *s = l->stream;
	size_t room;
	ssize_t n;

	s->in_len -= s->in_at;
	memmove(s->in, s->in + s->in_at, s->in_len);
	s->in_at = 0;
	l->peer_trainings = 0;
	room = IN_BYTES - s->in_len;
	n = link_recv(l->sock, l->cfg.closer, s->in + s->in_len, room);
	/* the peer has closed without reading all: its data is behind this error */
	if (n < 0 && errno == ECONNRESET && s->packets)
		n = link_recv(l->sock, l->cfg.closer, s->in + s->in_len, room);
	*all = s->packets ? n <= 0 : n < (ssize_t)room;
	s->in_len += n > 0 ? (size_t)n : 0;
	return n;
}

ssize_t link_stream_recv(struct ohca_link *l, uint8_t *buf, unsigned int *reads)
{
	bool all = false;

	for (;;) {
		struct ohca_wire_rec rec;
		const uint8_t *body;
		ssize_t n;
		int r;

		while ((r = next_record(l, &rec, &body)) > 0) {
			if (rec.kind == OHCA_WIRE_MESSAGE) {
				memcpy(buf, body, rec.len);
				return rec.len;
			}
			if (rec.kind == OHCA_WIRE_FRAME ? !take_frame(l, &rec, body) :
			    !take_credit(l, body))
				return STREAM_BROKEN;
		}
		if (r < 0)
			return STREAM_BROKEN;
		if (all || !*reads) {
			errno = EAGAIN;
			return -1;
		}
		n = receive(l, &all);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			snprintf(l->error, sizeof(l->error), "the connection is lost: %s",
				 strerror(errno));
			return 0;
		}
		if (n <= 0)
			return n;
		*reads = reads_after(l->stream, *reads, n);
	}
}
