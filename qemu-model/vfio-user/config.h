/* SPDX-License-Identifier: GPL-2.0-or-later */
/* PCI configuration space of an OpenHCA card: that of -device ohca. No global, no thread. */
#ifndef OHCA_VFIO_USER_CONFIG_H
#define OHCA_VFIO_USER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define VU_CONFIG_BYTES	4096u
#define VU_MSIX_BYTES	4096u		/* of the BAR with the table and the pending bits */
#define VU_MSIX_PBA	2048u		/* offset of the pending bits */
#define VU_VECTORS_MAX	(VU_MSIX_PBA / 16)

/**
 * struct vu_config - configuration space
 * @byte: its contents
 * @writable: bits that the VMM can write
 * @bar: bytes of each BAR, a power of two; 0: there is none, or it is the upper half of one
 */
struct vu_config {
	uint8_t byte[VU_CONFIG_BYTES];
	uint8_t writable[VU_CONFIG_BYTES];
	uint64_t bar[6];
};

/**
 * vu_config_init() - initialise, with @vectors of MSI-X, 1 to VU_VECTORS_MAX; @uars: a power of two
 */
void vu_config_init(struct vu_config *c, unsigned int vectors, unsigned int uars);

/** vu_config_reset() - set all writable bits to 0 */
void vu_config_reset(struct vu_config *c);

/**
 * vu_config_write() - the VMM writes @n bytes at @off, which are inside
 *
 * Return: whether it requests a function-level reset, which the caller must do.
 */
bool vu_config_write(struct vu_config *c, uint32_t off, const uint8_t *data, uint32_t n);

/** vu_config_master() - whether the device may access memory */
bool vu_config_master(const struct vu_config *c);

#endif /* OHCA_VFIO_USER_CONFIG_H */
