// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio-user/irq.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void vu_irq_init(struct vu_irq *irq)
{
	memset(irq, 0, sizeof(*irq));
	for (unsigned int i = 0; i < VU_VECTORS_MAX; i++)
		irq->fd[i] = -1;
}

static void vector_set(struct vu_irq *irq, unsigned int i, int fd)
{
	if (irq->fd[i] >= 0)
		close(irq->fd[i]);
	irq->fd[i] = fd;
}

void vu_irq_clear(struct vu_irq *irq)
{
	memset(irq->pending, 0, sizeof(irq->pending));
}

void vu_irq_free(struct vu_irq *irq)
{
	for (unsigned int i = 0; i < VU_VECTORS_MAX; i++)
		vector_set(irq, i, -1);
	vu_irq_clear(irq);
}

/* Write the eventfds of pending vectors. */
static void irq_flush(struct vu_irq *irq)
{
	const uint64_t one = 1;

	for (unsigned int i = 0; i < VU_VECTORS_MAX; i++) {
		const uint64_t bit = 1ull << (i % 64);

		if (!(irq->pending[i / 64] & bit) || irq->fd[i] < 0)
			continue;
		irq->pending[i / 64] &= ~bit;
		/* a full counter already notifies the VMM */
		if (write(irq->fd[i], &one, sizeof(one)) < 0)
			continue;
	}
}

void vu_irq_raise(struct vu_irq *irq, const uint64_t *vec)
{
	uint64_t any = 0;

	for (unsigned int i = 0; i < VU_VECTORS_MAX / 64; i++)
		any |= irq->pending[i] |= vec[i];
	if (any)
		irq_flush(irq);
}

/*
 * Whether a descriptor is an eventfd; if so, set O_NONBLOCK: its writes do not block as long as the
 * VMM, which shares the file description, does not clear the flag.
 */
static bool irq_is_eventfd(int fd)
{
	static const char kind[] = "anon_inode:[eventfd]";
	char path[64], name[sizeof(kind)];
	int flags = fcntl(fd, F_GETFL);
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name));
	return n == (ssize_t)sizeof(kind) - 1 && !memcmp(name, kind, sizeof(kind) - 1) &&
	       flags >= 0 && !fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* VU_IRQ_BOOL, or VU_IRQ_NONE without @data: raise vectors as the device does. */
static void irq_trigger(struct vu_irq *irq, const struct vu_irq_set *s, const uint8_t *data)
{
	uint64_t vec[VU_VECTORS_MAX / 64] = { 0 };

	for (uint32_t i = 0; i < s->count; i++)
		if (!data || data[i])
			vec[(s->start + i) / 64] |= 1ull << ((s->start + i) % 64);
	vu_irq_raise(irq, vec);
}

/* Set the eventfds of the vectors; without any, remove them. */
static int irq_fds(struct vu_irq *irq, const struct vu_irq_set *s, int *fd, unsigned int fds)
{
	if (fds && fds != s->count)
		return EINVAL;
	for (unsigned int i = 0; i < fds; i++)
		if (!irq_is_eventfd(fd[i]))
			return EINVAL;
	for (uint32_t i = 0; i < s->count; i++) {
		vector_set(irq, s->start + i, fds ? fd[i] : -1);
		if (fds)
			fd[i] = -1;
	}
	irq_flush(irq);
	return 0;
}

int vu_irq_set(struct vu_irq *irq, unsigned int vectors, const struct vu_irq_set *s,
	       const uint8_t *data, uint32_t len, int *fd, unsigned int fds)
{
	if (s->index != VU_MSIX || s->start > vectors || s->count > vectors - s->start)
		return EINVAL;
	if (fds && s->flags != (VU_IRQ_FDS | VU_IRQ_TRIGGER))
		return EINVAL;
	switch (s->flags) {
	case VU_IRQ_FDS | VU_IRQ_TRIGGER:
		return irq_fds(irq, s, fd, fds);
	case VU_IRQ_BOOL | VU_IRQ_TRIGGER:
		if (len < s->count)
			return EINVAL;
		irq_trigger(irq, s, data);
		return 0;
	case VU_IRQ_NONE | VU_IRQ_TRIGGER:
		if (s->count) {
			irq_trigger(irq, s, NULL);
			return 0;
		}
		/* MSI-X is off */
		for (unsigned int i = 0; i < VU_VECTORS_MAX; i++)
			vector_set(irq, i, -1);
		return 0;
	default:
		return EINVAL;
	}
}
