/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The messages of vfio-user that a PCI device with MSI-X needs which accesses no memory by
 * messages. They follow each other in the stream of a UNIX socket. Each begins with struct vu_hdr,
 * and all numbers are in host byte order. The client is the virtual machine monitor (VMM).
 * Structures and numbers behind the header are those of linux/vfio.h.
 */
#ifndef OHCA_VFIO_USER_PROTO_H
#define OHCA_VFIO_USER_PROTO_H

#include <stdint.h>

#define VU_MAJOR	0u
#define VU_MINOR	0u
#define VU_XFER		4096u		/* most bytes of a region access */
#define VU_MESSAGE	8192u		/* longest message of the VMM, in bytes */
#define VU_FDS		16u		/* most descriptors of a message */

/** enum vu_command - commands of the VMM; the missing numbers are not supported */
enum vu_command {
	VU_VERSION = 1,
	VU_DMA_MAP = 2,
	VU_DMA_UNMAP = 3,
	VU_DEVICE_INFO = 4,
	VU_REGION_INFO = 5,
	VU_IRQ_INFO = 7,
	VU_SET_IRQS = 8,
	VU_REGION_READ = 9,
	VU_REGION_WRITE = 10,
	VU_DEVICE_RESET = 13,
};

#define VU_TYPE		0xfu		/* of vu_hdr.flags */
#define VU_TYPE_COMMAND	0x0u
#define VU_TYPE_REPLY	0x1u
#define VU_NO_REPLY	0x10u
#define VU_ERROR	0x20u

/**
 * struct vu_hdr - begin of every message
 * @id: of a command, any number; of a reply, that of its command
 * @command: enum vu_command
 * @size: length of the whole message in bytes
 * @flags: VU_TYPE, and VU_NO_REPLY of a command or VU_ERROR of a reply
 * @error: errno, if VU_ERROR; then the reply ends here
 */
struct vu_hdr {
	uint16_t id;
	uint16_t command;
	uint32_t size;
	uint32_t flags;
	uint32_t error;
};

/** struct vu_version - VERSION, both ways; a terminated string in JSON may follow */
struct vu_version {
	uint16_t major;
	uint16_t minor;
};

#define VU_DMA_READ	0x1u
#define VU_DMA_WRITE	0x2u

/** struct vu_dma_map - DMA_MAP, with the descriptor of the memory; @off is an offset in its file */
struct vu_dma_map {
	uint32_t argsz;
	uint32_t flags;
	uint64_t off;
	uint64_t iova;
	uint64_t len;
};

#define VU_UNMAP_ALL	0x2u

/** struct vu_dma_unmap - DMA_UNMAP, both ways */
struct vu_dma_unmap {
	uint32_t argsz;
	uint32_t flags;			/* VU_UNMAP_ALL: @iova and @len are 0 */
	uint64_t iova;
	uint64_t len;
};

#define VU_DEVICE_HAS_RESET	0x1u
#define VU_DEVICE_IS_PCI	0x2u

/** struct vu_device_info - DEVICE_INFO, both ways */
struct vu_device_info {
	uint32_t argsz;
	uint32_t flags;
	uint32_t regions;
	uint32_t irqs;
};

/** enum vu_region - indices of regions; BARs are those before VU_ROM */
enum vu_region { VU_BARS = 6, VU_ROM = 6, VU_CONFIG = 7, VU_REGIONS = 9 };

#define VU_REGION_READABLE	0x1u
#define VU_REGION_WRITABLE	0x2u

/** struct vu_region_info - REGION_INFO, both ways */
struct vu_region_info {
	uint32_t argsz;
	uint32_t flags;
	uint32_t index;
	uint32_t cap_off;
	uint64_t size;
	uint64_t off;
};

/**
 * enum vu_irq_index - kinds of interrupts; those of errors and requests, with higher numbers, are
 *	not supported
 */
enum vu_irq_index { VU_MSIX = 2, VU_IRQS = 3 };

#define VU_IRQ_EVENTFD	0x1u

/** struct vu_irq_info - IRQ_INFO, both ways */
struct vu_irq_info {
	uint32_t argsz;
	uint32_t flags;
	uint32_t index;
	uint32_t count;
};

#define VU_IRQ_NONE	0x01u		/* of vu_irq_set.flags: there is no data */
#define VU_IRQ_BOOL	0x02u		/* a byte for each vector */
#define VU_IRQ_FDS	0x04u		/* with descriptors, or none: these vectors lose theirs */
#define VU_IRQ_TRIGGER	0x20u

/** struct vu_irq_set - SET_IRQS */
struct vu_irq_set {
	uint32_t argsz;
	uint32_t flags;
	uint32_t index;
	uint32_t start;
	uint32_t count;
};

/** struct vu_access - REGION_READ and REGION_WRITE, both ways; data follow */
struct vu_access {
	uint64_t off;
	uint32_t region;
	uint32_t count;
};

_Static_assert(sizeof(struct vu_hdr) == 16, "struct vu_hdr");
_Static_assert(sizeof(struct vu_version) == 4, "struct vu_version");
_Static_assert(sizeof(struct vu_dma_map) == 32, "struct vu_dma_map");
_Static_assert(sizeof(struct vu_dma_unmap) == 24, "struct vu_dma_unmap");
_Static_assert(sizeof(struct vu_device_info) == 16, "struct vu_device_info");
_Static_assert(sizeof(struct vu_region_info) == 32, "struct vu_region_info");
_Static_assert(sizeof(struct vu_irq_info) == 16, "struct vu_irq_info");
_Static_assert(sizeof(struct vu_irq_set) == 20, "struct vu_irq_set");
_Static_assert(sizeof(struct vu_access) == 16, "struct vu_access");

#endif /* OHCA_VFIO_USER_PROTO_H */
