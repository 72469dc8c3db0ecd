/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MSI-X vectors and the eventfds that notify the VMM. A vector that is raised while it has no
 * eventfd stays pending until it gets one, as in a device while a vector is masked: the VMM removes
 * all eventfds and sets them again when the guest enables one more vector. No global, no thread.
 */
#ifndef OHCA_VFIO_USER_IRQ_H
#define OHCA_VFIO_USER_IRQ_H

#include <stdint.h>

#include "vfio-user/config.h"
#include "vfio-user/proto.h"

/**
 * struct vu_irq - vectors
 * @fd: eventfd of each, or -1
 * @pending: a bit for each that was raised, and whose eventfd was not written yet
 */
struct vu_irq {
	int fd[VU_VECTORS_MAX];
	uint64_t pending[VU_VECTORS_MAX / 64];
};

/** vu_irq_init() - initialise: no vector has an eventfd */
void vu_irq_init(struct vu_irq *irq);

/** vu_irq_free() - close all eventfds, and clear pending vectors */
void vu_irq_free(struct vu_irq *irq);

/** vu_irq_clear() - clear pending vectors: the device was reset */
void vu_irq_clear(struct vu_irq *irq);

/**
 * vu_irq_raise() - raise the vectors of @vec, a bit for each of VU_VECTORS_MAX
 *
 * It does not block, unless the VMM clears O_NONBLOCK of an eventfd whose counter it has filled.
 */
void vu_irq_raise(struct vu_irq *irq, const uint64_t *vec);

/**
 * vu_irq_set() - SET_IRQS
 * @vectors: number of vectors
 * @s: not checked before
 * @data, @len: the bytes behind it
 * @fd: [@fds] descriptors that were passed with it; those that are kept become -1
 *
 * Return: errno, or 0. With errno nothing has changed.
 */
int vu_irq_set(struct vu_irq *irq, unsigned int vectors, const struct vu_irq_set *s,
	       const uint8_t *data, uint32_t len, int *fd, unsigned int fds);

#endif /* OHCA_VFIO_USER_IRQ_H */
