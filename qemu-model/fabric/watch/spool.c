// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures that are written to descriptors; see spool.h. */
#include "spool.h"

#include "fabric/data/data_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void spool_append(struct fab_spool *s, const uint8_t *b, uint32_t len)
{
	const uint32_t to = (s->at + s->len) % FAB_SPOOL_BYTES;
	const uint32_t first = len < FAB_SPOOL_BYTES - to ? len : FAB_SPOOL_BYTES - to;

	memcpy(s->ring + to, b, first);
	memcpy(s->ring, b + first, len - first);
	s->len += len;
}

/* Write what waits. Return: false: nothing more can be written; errno has the reason. */
static bool push(struct fab_spool *s)
{
	while (s->len && !s->gone) {
		const uint32_t room = FAB_SPOOL_BYTES - s->at;
		const uint32_t want = s->len < room ? s->len : room;
		ssize_t n = s->is_socket ? send(s->fd, s->ring + s->at, want,
						MSG_DONTWAIT | MSG_NOSIGNAL) :
					   write(s->fd, s->ring + s->at, want);

		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0) {
			s->gone = n == 0 || errno != EINTR;
			continue;
		}
		s->len -= (uint32_t)n;
		s->at = s->len ? (s->at + (uint32_t)n) % FAB_SPOOL_BYTES : 0;
	}
	return !s->gone;
}

/* @write of a capture: append whole blocks, or nothing. */
static bool spool_take(void *ctx, const void *buf, size_t len)
{
	struct fab_spool *s = ctx;
	const uint32_t last = s->c ? FAB_SPOOL_LAST : 0;

	if (len > FAB_SPOOL_BYTES - last - s->len)
		push(s);
	if (s->gone || len > FAB_SPOOL_BYTES - last - s->len)
		return false;
	spool_append(s, buf, (uint32_t)len);
	return true;
}

void fab_spool_end(struct fab_spool *s)
{
	struct fab_capture *c = s->c;

	/* the room that is reserved for the end is used now */
	s->c = NULL;
	fab_capture_stop(c);
}

bool fab_spool_flush(struct fab_spool *s)
{
	if (s->c && fab_capture_full(s->c))
		fab_spool_end(s);
	return push(s);
}

struct fab_spool *fab_spool_new(struct fab_data *d, const struct fab_spool_cfg *cfg, int fd)
{
	struct fab_spool *s = malloc(sizeof(*s));
	struct stat st;

	if (!s)
		return NULL;
	/* not the ring: its pages are allocated when they are used */
	memset(s, 0, offsetof(struct fab_spool, ring));
	s->fd = fd;
	s->is_socket = !fstat(fd, &st) && S_ISSOCK(st.st_mode);
	if (cfg->hello)
		spool_append(s, (const uint8_t *)cfg->hello, (uint32_t)strlen(cfg->hello));
	s->c = fab_capture_start(d, cfg->port, cfg->n, cfg->limit, cfg->links, spool_take, s);
	if (s->c) {
		s->d = d;
		d->n.capture_bytes += sizeof(*s);
		return s;
	}
	free(s);
	return NULL;
}

void fab_spool_free(struct fab_spool *s)
{
	if (!s)
		return;
	fab_spool_end(s);
	push(s);
	s->d->n.capture_bytes -= sizeof(*s);
	free(s);
}
