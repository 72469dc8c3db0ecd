// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages of more than one MAD; see rmpp.h. */
#include "rmpp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSION		1u
#define SEGMENT		220u		/* bytes behind the RMPP header (13.6.2) */
#define WINDOW		64u
#define ACK_MS		2000u
#define MIN_RETRIES	3u
#define RECV_NS		40000000000ll	/* after that the sender has stopped */
#define DONE_NS		10000000000ll	/* a segment may be repeated this long after the last */

enum type { DATA = 1, ACK = 2, STOP = 3, ABORT = 4 };

#define ACTIVE		1u
#define FIRST		2u
#define LAST		4u

/* RMPPStatus of an ABORT (13.6.2.2) */
#define BAD_TYPE	118u
#define BAD_SEGMENT	122u
#define BAD_VERSION	124u
#define NO_RESOURCES	1u

/* The RMPP header follows the common one. */
struct header {
	uint8_t version;
	uint8_t type;
	uint8_t time_flags;		/* RRespTime 7:3, flags 2:0 */
	uint8_t status;
	__be32 segment;
	__be32 length;			/* PayloadLength, or NewWindowLast of an ACK */
} IB_PACKED;

struct um_rmpp_send {
	struct um_rmpp_send *next;
	uint32_t agent;
	ib_mad_addr_t to;
	uint8_t *msg;
	size_t len;
	size_t offset;			/* of the data */
	uint32_t segments, acked, sent, last;
	unsigned int timeout_ms, retries, left;
	int64_t due_ns;
};

struct um_rmpp_recv {
	struct um_rmpp_recv *next;
	uint32_t agent;
	ib_mad_addr_t from;
	struct ib_mad first;
	uint8_t *msg;			/* NULL when it is complete */
	size_t len, room;
	size_t offset;
	uint32_t segment, last;
	int64_t due_ns;
};

static struct header *header(void *mad)
{
	return (void *)((uint8_t *)mad + sizeof(struct ib_mad_hdr));
}

static const struct header *header_of(const void *mad)
{
	return (const void *)((const uint8_t *)mad + sizeof(struct ib_mad_hdr));
}

/* Offset of the data of a class; 0: a class without RMPP. */
static size_t data_offset(uint8_t class)
{
	if (class == IB_CLASS_SUBN_ADM)
		return 56;
	if (class >= 0x30 && class <= 0x4f)	/* vendor classes with an OUI */
		return 40;
	if (class == IB_CLASS_DEV_MGT || class == 0x10 || class == 0x12)
		return 64;
	return 0;
}

bool um_rmpp_is(const void *mad)
{
	const struct ib_mad_hdr *h = mad;

	return data_offset(h->mgmt_class) && header_of(mad)->time_flags & ACTIVE;
}

_Static_assert(sizeof(struct ib_mad_hdr) + sizeof(struct header) == UM_RMPP_HEADERS, "13.6.2");

/* Whether a MAD is from the other end of a transaction: the same TID, class and LID. */
static bool is_of(const void *ours, const ib_mad_addr_t *to, const struct ib_mad *mad,
		  const ib_mad_addr_t *from)
{
	const struct ib_mad_hdr *h = ours;

	return h->tid == mad->hdr.tid && h->mgmt_class == mad->hdr.mgmt_class &&
	       to->lid == from->lid;
}

/* ---- sending ------------------------------------------------------------------- */

static void free_send(struct um_rmpp *r, struct um_rmpp_send **at)
{
	struct um_rmpp_send *s = *at;

	*at = s->next;
	r->nsends--;
	free(s->msg);
	free(s);
}

static void send_segment(struct um_rmpp *r, const struct um_rmpp_send *s, uint32_t n)
{
	const size_t size = IB_MAD_LEN - s->offset, begin = s->offset + (n - 1) * size;
	const size_t bytes = s->len - begin < size ? s->len - begin : size;
	struct ib_mad mad = { 0 };
	struct header *h = header(&mad);

	memcpy(&mad, s->msg, s->offset);
	memcpy((uint8_t *)&mad + s->offset, s->msg + begin, bytes);
	h->version = VERSION;
	h->type = DATA;
	h->time_flags = (uint8_t)((h->time_flags & ~7u) | ACTIVE | (n == 1 ? FIRST : 0) |
				  (n == s->segments ? LAST : 0));
	h->status = 0;
	h->segment = ib_to_be32(n);
	h->length = 0;
	/* the header of the class counts in each segment */
	if (n == s->segments)
		h->length = ib_to_be32((uint32_t)(bytes + s->offset - (IB_MAD_LEN - SEGMENT)));
	else if (n == 1)
		h->length = ib_to_be32((uint32_t)(s->len - s->offset + s->segments *
						  (s->offset - (IB_MAD_LEN - SEGMENT))));
	r->ops->send(&s->to, &mad);
}

static void send_window(struct um_rmpp *r, struct um_rmpp_send *s, int64_t now_ns)
{
	s->due_ns = now_ns + s->timeout_ms * 1000000ll;
	while (s->sent < s->last && s->sent < s->segments)
		send_segment(r, s, ++s->sent);
}

int um_rmpp_send(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *to, const void *msg,
		 size_t len, unsigned int timeout_ms, unsigned int retries, int64_t now_ns)
{
	const struct ib_mad_hdr *h = msg;
	const size_t offset = data_offset(h->mgmt_class);
	struct um_rmpp_send *s;

	if (len < offset || len > UM_RMPP_MAX)
		return -EMSGSIZE;
	if (r->nsends == UM_RMPP_SENDS)
		return -ENOSPC;
	s = calloc(1, sizeof(*s));
	if (s)
		s->msg = malloc(len);
	if (!s || !s->msg) {
		free(s);
		return -ENOMEM;
	}
	memcpy(s->msg, msg, len);
	s->len = len;
	s->offset = offset;
	s->agent = agent;
	s->to = *to;
	s->segments = (uint32_t)((len - offset + IB_MAD_LEN - offset - 1) / (IB_MAD_LEN - offset));
	s->segments += !s->segments;
	s->timeout_ms = timeout_ms && timeout_ms < ACK_MS ? timeout_ms : ACK_MS;
	s->retries = retries > MIN_RETRIES ? retries : MIN_RETRIES;
	s->left = s->retries;
	s->last = 1;
	s->next = r->sends;
	r->sends = s;
	r->nsends++;
	send_window(r, s, now_ns);
	return 0;
}

static struct um_rmpp_send **find_send(struct um_rmpp *r, const struct ib_mad *mad,
				       const ib_mad_addr_t *from)
{
	struct um_rmpp_send **at = &r->sends;

	while (*at && !is_of((*at)->msg, &(*at)->to, mad, from))
		at = &(*at)->next;
	return at;
}

static void fail_send(struct um_rmpp *r, struct um_rmpp_send **at)
{
	r->ops->failed((*at)->agent, &(*at)->to, (*at)->msg);
	free_send(r, at);
}

/* Process an ACK. Return: as um_rmpp_receive() */
static bool receive_ack(struct um_rmpp *r, const struct ib_mad *mad, const ib_mad_addr_t *from,
			int64_t now_ns)
{
	const uint32_t n = ib_be32(header_of(mad)->segment);
	const uint32_t last = ib_be32(header_of(mad)->length);
	struct um_rmpp_send **at = find_send(r, mad, from), *s = *at;

	/* ignore an older one that was delayed */
	if (!s || n > s->sent || last < s->last || n < s->acked)
		return false;
	if (n > s->acked)
		s->left = s->retries;
	s->acked = n;
	s->last = last;
	if (n < s->segments) {
		send_window(r, s, now_ns);
		return false;
	}
	free_send(r, at);
	return true;
}

/* ---- receiving ----------------------------------------------------------------- */

static void free_recv(struct um_rmpp *r, struct um_rmpp_recv **at)
{
	struct um_rmpp_recv *v = *at;

	*at = v->next;
	r->nrecvs--;
	free(v->msg);
	free(v);
}

/* Answer a segment, in the other direction. */
static void answer_segment(struct um_rmpp *r, const ib_mad_addr_t *to, const struct ib_mad *mad,
			   enum type t, uint8_t status, uint32_t segment, uint32_t last)
{
	struct ib_mad out = { 0 };
	struct header *h = header(&out);

	memcpy(&out, mad, data_offset(mad->hdr.mgmt_class));
	out.hdr.method ^= IB_METHOD_RESP;
	h->version = VERSION;
	h->type = t;
	h->time_flags = ACTIVE;
	h->status = status;
	h->segment = ib_to_be32(segment);
	h->length = ib_to_be32(last);
	r->ops->send(to, &out);
}

static void drop_oldest(struct um_rmpp *r)
{
	struct um_rmpp_recv **drop = NULL, **at;

	/* the newest is the first one; a complete one only answers repeated segments */
	for (at = &r->recvs; *at; at = &(*at)->next)
		if (!drop || (*drop)->msg || !(*at)->msg)
			drop = at;
	free_recv(r, drop);
}

static struct um_rmpp_recv *begin_recv(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *from,
				       const struct ib_mad *mad)
{
	struct um_rmpp_recv *v = calloc(1, sizeof(*v));

	if (v)
		v->msg = malloc(2 * IB_MAD_LEN);
	if (!v || !v->msg) {
		free(v);
		return NULL;
	}
	if (r->nrecvs == UM_RMPP_RECVS)
		drop_oldest(r);
	v->agent = agent;
	v->from = *from;
	v->first = *mad;
	v->room = 2 * IB_MAD_LEN;
	v->offset = data_offset(mad->hdr.mgmt_class);
	v->len = v->offset;
	v->last = 1;
	memcpy(v->msg, mad, v->offset);
	v->next = r->recvs;
	r->recvs = v;
	r->nrecvs++;
	return v;
}

/* Bytes of data in a segment; the header of the last one has the number of fill bytes. */
static size_t bytes_of(const struct um_rmpp_recv *v, const struct header *h)
{
	const size_t all = IB_MAD_LEN - v->offset, class = v->offset - (IB_MAD_LEN - SEGMENT);
	const uint32_t length = ib_be32(h->length);

	if (!(h->time_flags & LAST) || length < class || length > SEGMENT)
		return all;
	return length - class;
}

static bool append_segment(struct um_rmpp_recv *v, const struct ib_mad *mad, size_t bytes)
{
	if (v->len + bytes > v->room) {
		uint8_t *p = v->room * 2 <= UM_RMPP_MAX ? realloc(v->msg, v->room * 2) : NULL;

		if (!p)
			return false;
		v->msg = p;
		v->room *= 2;
	}
	memcpy(v->msg + v->len, (const uint8_t *)mad + v->offset, bytes);
	v->len += bytes;
	return true;
}

static struct um_rmpp_recv **find_recv(struct um_rmpp *r, uint32_t agent, const struct ib_mad *mad,
				       const ib_mad_addr_t *from)
{
	struct um_rmpp_recv **at = &r->recvs;

	while (*at && ((*at)->agent != agent || !is_of(&(*at)->first, &(*at)->from, mad, from)))
		at = &(*at)->next;
	return at;
}

static void complete_recv(struct um_rmpp *r, struct um_rmpp_recv *v, int64_t now_ns)
{
	uint8_t *msg = v->msg;

	v->msg = NULL;
	v->due_ns = now_ns + DONE_NS;
	/* the ACK must not end the window earlier than before: it would look like an old one */
	answer_segment(r, &v->from, &v->first, ACK, 0, v->segment, v->last);
	r->ops->received(v->agent, &v->from, msg, v->len);
	free(msg);
}

/* Process a segment. Return: as um_rmpp_receive() */
static bool receive_data(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *from,
			 const struct ib_mad *mad, int64_t now_ns)
{
	const struct header *h = header_of(mad);
	const uint32_t n = ib_be32(h->segment);
	struct um_rmpp_recv **at = find_recv(r, agent, mad, from), *v = *at;

	if (!v) {
		if (n != 1 || !(h->time_flags & FIRST))
			return false;
		v = begin_recv(r, agent, from, mad);
		if (!v) {
			answer_segment(r, from, mad, ABORT, NO_RESOURCES, 0, 0);
			return false;
		}
		at = &r->recvs;
	} else if (!v->msg || n <= v->segment) {
		/* repeated: the acknowledgment was lost */
		answer_segment(r, from, mad, ACK, 0, v->segment, v->last);
		return false;
	}
	if (n > v->last) {
		answer_segment(r, from, mad, ABORT, BAD_SEGMENT, 0, 0);
		free_recv(r, at);
		return false;
	}
	/* an earlier one was lost: the sender repeats from there */
	if (n != v->segment + 1)
		return false;
	if (!append_segment(v, mad, bytes_of(v, h))) {
		answer_segment(r, from, mad, ABORT, NO_RESOURCES, 0, 0);
		free_recv(r, at);
		return false;
	}
	v->segment = n;
	v->due_ns = now_ns + RECV_NS;
	if (h->time_flags & LAST) {
		complete_recv(r, v, now_ns);
	} else if (n == v->last) {
		v->last += WINDOW;
		answer_segment(r, from, mad, ACK, 0, n, v->last);
	}
	return true;
}

bool um_rmpp_receive(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *from,
		     const struct ib_mad *mad, int64_t now_ns)
{
	const struct header *h = header_of(mad);
	struct um_rmpp_send **send;
	struct um_rmpp_recv **recv;

	if (h->type == STOP || h->type == ABORT) {
		send = find_send(r, mad, from);
		if (*send)
			fail_send(r, send);
		recv = find_recv(r, agent, mad, from);
		if (*recv)
			free_recv(r, recv);
	} else if (h->version != VERSION) {
		answer_segment(r, from, mad, ABORT, BAD_VERSION, 0, 0);
	} else if (h->type == DATA) {
		return receive_data(r, agent, from, mad, now_ns);
	} else if (h->type == ACK) {
		return receive_ack(r, mad, from, now_ns);
	} else {
		answer_segment(r, from, mad, ABORT, BAD_TYPE, 0, 0);
	}
	return false;
}

/* ---- time ---------------------------------------------------------------------- */

int64_t um_rmpp_timer(struct um_rmpp *r, int64_t now_ns)
{
	struct um_rmpp_send **s = &r->sends;
	struct um_rmpp_recv **v = &r->recvs;
	int64_t due = INT64_MAX;

	while (*s) {
		if ((*s)->due_ns <= now_ns && !(*s)->left--) {
			fail_send(r, s);
			continue;
		}
		if ((*s)->due_ns <= now_ns) {
			(*s)->sent = (*s)->acked;
			send_window(r, *s, now_ns);
		}
		due = (*s)->due_ns < due ? (*s)->due_ns : due;
		s = &(*s)->next;
	}
	while (*v) {
		if ((*v)->due_ns <= now_ns) {
			free_recv(r, v);
			continue;
		}
		due = (*v)->due_ns < due ? (*v)->due_ns : due;
		v = &(*v)->next;
	}
	return due;
}

void um_rmpp_forget(struct um_rmpp *r, uint32_t agent)
{
	struct um_rmpp_send **s = &r->sends;
	struct um_rmpp_recv **v = &r->recvs;

	while (*s) {
		if ((*s)->agent == agent)
			free_send(r, s);
		else
			s = &(*s)->next;
	}
	while (*v) {
		if ((*v)->agent == agent)
			free_recv(r, v);
		else
			v = &(*v)->next;
	}
}
