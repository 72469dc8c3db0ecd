/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MSI-X vectors and the eventfds by which the VMM is told of them. What is raised while a vector has
 * none is kept until it has one, as the device does while a vector is masked: the VMM takes
 * eventfds away and gives them back when the guest has one more vector. No global, no thread.
 */
#ifndef OHCA_VFIO_USER_IRQ_H
#define OHCA_VFIO_USER_IRQ_H

#include <stdint.h>

#include "vfio-user/config.h"
#include "vfio-user/proto.h"

/**
 * struct vu_irq - vectors
 * @fd: eventfd of each, or -1
 * @pending: a bit for each that was raised and not told
 */
struct vu_irq {
	int fd[VU_VECTORS_MAX];
	uint64_t pending[VU_VECTORS_MAX / 64];
};

/** vu_irq_init() - no vector has an eventfd */
void vu_irq_init(struct vu_irq *irq);

/** vu_irq_free() - close all eventfds, and forget what is pending */
void vu_irq_free(struct vu_irq *irq);

/** vu_irq_clear() - forget what is pending: the device was reset */
void vu_irq_clear(struct vu_irq *irq);

/**
 * vu_irq_raise() - raise the vectors of @vec, a bit for each of VU_VECTORS_MAX
 *
 * It does not block, unless the VMM clears O_NONBLOCK of an eventfd whose counter it has filled.
 */
void vu_irq_raise(struct vu_irq *irq, const uint64_t *vec);

/**
 * vu_irq_set() - SET_IRQS
 * @vectors: that there are
 * @s: not checked
 * @data, @len: what follows it
 * @fd: descriptors that came along, @fds of them; those that are kept become -1
 *
 * Return: errno, or 0. With errno nothing has changed.
 */
int vu_irq_set(struct vu_irq *irq, unsigned int vectors, const struct vu_irq_set *s,
	       const uint8_t *data, uint32_t len, int *fd, unsigned int fds);

#endif /* OHCA_VFIO_USER_IRQ_H */
