// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio-user/serve.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vfio-user/say.h"
#include "vfio-user/socket.h"

#define BURST	64u	/* messages of the VMM before other events are processed */

/*
 * Capabilities of the server; max_msg_fds is the number of eventfds that the VMM passes at a time.
 */
static const char serve_caps[] =
	"{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":4096,\"max_dma_maps\":1024,"
	"\"pgsizes\":4096}}";

_Static_assert(VU_FDS == 16 && VU_XFER == 4096 && VU_MAPS == 1024, "serve_caps");

/**
 * struct vu_serve - a VMM that is served
 * @open: VERSION was answered, and there is a card
 * @end: the connection ends, because of @why, if that is not empty
 * @refused: number of messages that were refused
 */
struct vu_serve {
	const struct vu_cfg *cfg;
	int sock;
	bool open, end;
	const char *why;
	unsigned int refused;
	struct vu_message in;
	struct vu_card card;
};

static void serve_end(struct vu_serve *s, const char *why)
{
	s->end = true;
	s->why = why;
}

/* ---- answers ---------------------------------------------------------------------------- */

/* Answer with @len bytes of @head, and @more bytes of @data. */
static void serve_answer_more(struct vu_serve *s, const void *head, size_t len, const void *data,
			      size_t more)
{
	if (!vu_socket_reply(s->sock, &s->in.hdr, 0, head, len, data, more))
		serve_end(s, "it does not read its messages");
}

static void serve_answer(struct vu_serve *s, const void *head, size_t len)
{
	serve_answer_more(s, head, len, NULL, 0);
}

/* Answer that the device does not have the requested part; a VMM may ask for any. */
static void serve_none(struct vu_serve *s)
{
	if (!vu_socket_reply(s->sock, &s->in.hdr, EINVAL, NULL, 0, NULL, 0))
		serve_end(s, "it does not read its messages");
}

/* Refuse a command by an errno, and print the reason. */
static void serve_refuse(struct vu_serve *s, int error, const char *why)
{
	if (s->refused++ < VU_COMPLAINTS)
		vu_say("command %u of the VMM is refused: %s", s->in.hdr.command, why);
	if (!vu_socket_reply(s->sock, &s->in.hdr, error, NULL, 0, NULL, 0))
		serve_end(s, "it does not read its messages");
}

static void serve_error(struct vu_serve *s, int error)
{
	serve_refuse(s, error, strerror(error));
}

/* ---- commands --------------------------------------------------------------------------- */

/* The payload behind the header. */
static const uint8_t *serve_data(const struct vu_serve *s)
{
	return s->in.byte + sizeof(struct vu_hdr);
}

static uint32_t serve_len(const struct vu_serve *s)
{
	return s->in.hdr.size - (uint32_t)sizeof(struct vu_hdr);
}

static void serve_version(struct vu_serve *s)
{
	struct vu_version v;

	memcpy(&v, serve_data(s), sizeof(v));
	if (s->open || v.major != VU_MAJOR) {
		serve_refuse(s, EPROTO, s->open ? "it sent VERSION twice" :
			     "its version of vfio-user is not 0.x");
		serve_end(s, "");
		return;
	}
	if (!vu_card_open(&s->card, s->cfg)) {
		serve_refuse(s, EHOSTDOWN, "there is no HCA");
		serve_end(s, "");
		return;
	}
	s->open = true;
	v.minor = VU_MINOR;
	serve_answer_more(s, &v, sizeof(v), serve_caps, sizeof(serve_caps));
}

static void serve_map(struct vu_serve *s)
{
	struct vu_dma_map d;
	int fd = s->in.fds ? s->in.fd[0] : -1, error;
	const char *why = "DMA_MAP has more than one descriptor, or its argsz is too small";

	memcpy(&d, serve_data(s), sizeof(d));
	error = s->in.fds > 1 || d.argsz < sizeof(d) ? EINVAL : vu_card_map(&s->card, &d, &fd, &why);
	if (s->in.fds && fd < 0)
		s->in.fds = 0;
	if (error)
		serve_refuse(s, error, why);
	else
		serve_answer(s, NULL, 0);
}

static void serve_unmap(struct vu_serve *s)
{
	struct vu_dma_unmap d;
	int error;

	memcpy(&d, serve_data(s), sizeof(d));
	error = d.argsz < sizeof(d) ? EINVAL : vu_card_unmap(&s->card, &d);
	if (error)
		serve_error(s, error);
	else
		serve_answer(s, &d, sizeof(d));
}

static void serve_device_info(struct vu_serve *s)
{
	struct vu_device_info d;

	memcpy(&d, serve_data(s), sizeof(d));
	if (d.argsz < sizeof(d)) {
		serve_error(s, EINVAL);
		return;
	}
	/* the VMM may ignore errors of DMA_MAP, but not this one */
	if (s->card.mem.refused) {
		serve_refuse(s, EINVAL, "the card needs all guest memory, and some was refused");
		return;
	}
	d = (struct vu_device_info){
		.argsz = sizeof(d), .flags = VU_DEVICE_HAS_RESET | VU_DEVICE_IS_PCI,
		.regions = VU_REGIONS, .irqs = VU_IRQS,
	};
	serve_answer(s, &d, sizeof(d));
}

static void serve_region_info(struct vu_serve *s)
{
	struct vu_region_info d;

	memcpy(&d, serve_data(s), sizeof(d));
	if (d.argsz < sizeof(d) || d.index >= VU_REGIONS) {
		serve_error(s, EINVAL);
		return;
	}
	d = (struct vu_region_info){
		.argsz = sizeof(d), .index = d.index, .size = vu_card_size(&s->card, d.index),
	};
	if (d.size)
		d.flags = VU_REGION_READABLE | VU_REGION_WRITABLE;
	serve_answer(s, &d, sizeof(d));
}

static void serve_irq_info(struct vu_serve *s)
{
	struct vu_irq_info d;

	memcpy(&d, serve_data(s), sizeof(d));
	if (d.argsz < sizeof(d)) {
		serve_error(s, EINVAL);
		return;
	}
	if (d.index >= VU_IRQS) {
		serve_none(s);
		return;
	}
	d = (struct vu_irq_info){ .argsz = sizeof(d), .index = d.index };
	if (d.index == VU_MSIX) {
		d.flags = VU_IRQ_EVENTFD;
		d.count = VU_VECTORS;
	}
	serve_answer(s, &d, sizeof(d));
}

static void serve_set_irqs(struct vu_serve *s)
{
	struct vu_irq_set d;
	int error;

	memcpy(&d, serve_data(s), sizeof(d));
	error = d.argsz < sizeof(d) ? EINVAL :
		vu_irq_set(&s->card.irq, VU_VECTORS, &d, serve_data(s) + sizeof(d),
			   serve_len(s) - (uint32_t)sizeof(d), s->in.fd, s->in.fds);
	if (error) {
		serve_error(s, error);
		return;
	}
	/* all descriptors are kept by the card */
	s->in.fds = 0;
	serve_answer(s, NULL, 0);
}

static void serve_read(struct vu_serve *s)
{
	uint8_t buf[VU_XFER];
	struct vu_access d;
	int error;

	memcpy(&d, serve_data(s), sizeof(d));
	error = vu_card_read(&s->card, d.region, d.off, buf, d.count);
	if (error)
		serve_error(s, error);
	else
		serve_answer_more(s, &d, sizeof(d), buf, d.count);
}

static void serve_write(struct vu_serve *s)
{
	struct vu_access d;
	int error;

	memcpy(&d, serve_data(s), sizeof(d));
	error = d.count > serve_len(s) - sizeof(d) ? EINVAL :
		vu_card_write(&s->card, d.region, d.off, serve_data(s) + sizeof(d), d.count);
	if (error)
		serve_error(s, error);
	else
		serve_answer(s, &d, sizeof(d));
}

static void serve_reset(struct vu_serve *s)
{
	vu_card_reset(&s->card);
	serve_answer(s, NULL, 0);
}

/* For each command: its function, its smallest length, and whether it may have descriptors. */
static const struct {
	void (*serve)(struct vu_serve *s);
	uint32_t least;
	bool fds;
} serve_commands[] = {
	[VU_VERSION] = { serve_version, sizeof(struct vu_version), false },
	[VU_DMA_MAP] = { serve_map, sizeof(struct vu_dma_map), true },
	[VU_DMA_UNMAP] = { serve_unmap, sizeof(struct vu_dma_unmap), false },
	[VU_DEVICE_INFO] = { serve_device_info, sizeof(struct vu_device_info), false },
	[VU_REGION_INFO] = { serve_region_info, sizeof(struct vu_region_info), false },
	[VU_IRQ_INFO] = { serve_irq_info, sizeof(struct vu_irq_info), false },
	[VU_SET_IRQS] = { serve_set_irqs, sizeof(struct vu_irq_set), true },
	[VU_REGION_READ] = { serve_read, sizeof(struct vu_access), false },
	[VU_REGION_WRITE] = { serve_write, sizeof(struct vu_access), false },
	[VU_DEVICE_RESET] = { serve_reset, 0, false },
};

static void serve_message(struct vu_serve *s)
{
	const unsigned int command = s->in.hdr.command;

	if (!s->open && command != VU_VERSION)
		serve_end(s, "its first message is not VERSION");
	else if (command >= sizeof(serve_commands) / sizeof(serve_commands[0]) ||
		 !serve_commands[command].serve)
		serve_error(s, EOPNOTSUPP);
	else if (serve_len(s) < serve_commands[command].least ||
		 (s->in.fds && !serve_commands[command].fds))
		serve_error(s, EINVAL);
	else
		serve_commands[command].serve(s);
}

/* ---- the loop --------------------------------------------------------------------------- */

/* Process messages of the VMM. */
static void serve_pass(struct vu_serve *s)
{
	const char *why;

	for (unsigned int i = 0; i < BURST && !s->end; i++) {
		switch (vu_socket_get(s->sock, &s->in, &why)) {
		case VU_GOT_PART:
			return;
		case VU_GOT_END:
			serve_end(s, why);
			break;
		case VU_GOT_MESSAGE:
			serve_message(s);
			vu_message_free(&s->in);
			break;
		}
	}
}

void vu_serve_one(const struct vu_cfg *cfg, int sock, int stop)
{
	struct vu_serve *s = calloc(1, sizeof(*s));
	struct pollfd p[4] = {
		{ .fd = stop, .events = POLLIN },
		{ .fd = sock, .events = POLLIN },
		{ .fd = -1 },
		{ .fd = -1 },
	};

	if (!s) {
		vu_say("out of memory");
		close(sock);
		return;
	}
	s->cfg = cfg;
	s->sock = sock;
	while (!s->end) {
		const int ms = s->open ? vu_card_poll(&s->card, p + 2) : -1;

		if (poll(p, 4, ms) < 0 && errno != EINTR)
			serve_end(s, strerror(errno));
		if (p[0].revents)
			break;
		if (p[1].revents)
			serve_pass(s);
		if (!s->open)
			continue;
		/* without a card before poll() its entries have no events */
		vu_card_work(&s->card, p + 2);
		vu_card_flush(&s->card);
	}
	if (s->end && *s->why)
		vu_say("disconnected the VMM: %s", s->why);
	if (s->refused)
		vu_say("%u messages of the VMM were refused", s->refused);
	vu_message_free(&s->in);
	if (s->open)
		vu_card_close(&s->card);
	close(sock);
	free(s);
}

bool vu_serve(const struct vu_cfg *cfg, int listener, int stop)
{
	struct pollfd p[2] = {
		{ .fd = stop, .events = POLLIN },
		{ .fd = listener, .events = POLLIN },
	};

	for (;;) {
		int sock;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[0].revents)
			return true;
		sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (sock >= 0)
			vu_serve_one(cfg, sock, stop);
		else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			break;
	}
	vu_say("waiting for a VMM: %s", strerror(errno));
	return false;
}
