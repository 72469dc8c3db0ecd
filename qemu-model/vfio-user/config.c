// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio-user/config.h"

#include <linux/pci_regs.h>
#include <string.h>

#include "ohca_regs.h"

#define EXPRESS		0x40u			/* offset of the capabilities */
#define MSIX		(EXPRESS + 0x3cu)
#define UAR_STRIDE	(1u << 16)		/* the largest: PAGE_SHIFT of 16 */

static void config_put(uint8_t *at, uint32_t off, uint32_t val, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		at[off + i] = (uint8_t)(val >> (8 * i));
}

/* Add a BAR of @bytes; @wide: of 64 bits, which uses the next one, too. */
static void config_bar(struct vu_config *c, unsigned int i, uint64_t bytes, bool wide)
{
	const uint32_t at = PCI_BASE_ADDRESS_0 + 4 * i;
	const uint64_t mask = ~(bytes - 1);

	c->bar[i] = bytes;
	config_put(c->byte, at, PCI_BASE_ADDRESS_SPACE_MEMORY |
		   (wide ? PCI_BASE_ADDRESS_MEM_TYPE_64 : 0), 4);
	config_put(c->writable, at, (uint32_t)mask, 4);
	if (wide)
		config_put(c->writable, at + 4, (uint32_t)(mask >> 32), 4);
}

/* The link of a device without hardware: 2.5 GT/s, one lane, as QEMU's devices have. */
static void config_express(struct vu_config *c)
{
	const uint32_t link = PCI_EXP_LNKCAP_SLS_2_5GB | 1u << 4;

	config_put(c->byte, EXPRESS, PCI_CAP_ID_EXP, 2);
	config_put(c->byte, EXPRESS + PCI_EXP_FLAGS, 2, 2);
	config_put(c->byte, EXPRESS + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_RBER | PCI_EXP_DEVCAP_FLR, 4);
	config_put(c->writable, EXPRESS + PCI_EXP_DEVCTL, PCI_EXP_DEVCTL_CERE |
		   PCI_EXP_DEVCTL_NFERE | PCI_EXP_DEVCTL_FERE | PCI_EXP_DEVCTL_URRE, 2);
	config_put(c->byte, EXPRESS + PCI_EXP_LNKCAP, link, 4);
	config_put(c->byte, EXPRESS + PCI_EXP_LNKSTA, link, 2);
}

static void config_msix(struct vu_config *c, unsigned int vectors)
{
	config_put(c->byte, MSIX, PCI_CAP_ID_MSIX | EXPRESS << 8, 2);
	config_put(c->byte, MSIX + PCI_MSIX_FLAGS, vectors - 1, 2);
	config_put(c->writable, MSIX + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL, 2);
	config_put(c->byte, MSIX + PCI_MSIX_TABLE, OHCA_BAR_MSIX, 4);
	config_put(c->byte, MSIX + PCI_MSIX_PBA, VU_MSIX_PBA | OHCA_BAR_MSIX, 4);
}

void vu_config_init(struct vu_config *c, unsigned int vectors, unsigned int uars)
{
	memset(c, 0, sizeof(*c));
	config_put(c->byte, PCI_VENDOR_ID, OHCA_PCI_VENDOR_ID, 2);
	config_put(c->byte, PCI_DEVICE_ID, OHCA_PCI_DEVICE_ID_PF, 2);
	config_put(c->byte, PCI_STATUS, PCI_STATUS_CAP_LIST, 2);
	config_put(c->byte, PCI_REVISION_ID, OHCA_MAJOR, 1);
	config_put(c->byte, PCI_CLASS_DEVICE, OHCA_PCI_CLASS, 2);
	config_put(c->byte, PCI_SUBSYSTEM_VENDOR_ID, OHCA_PCI_VENDOR_ID, 2);
	config_put(c->byte, PCI_SUBSYSTEM_ID, OHCA_PCI_DEVICE_ID_PF, 2);
	config_put(c->byte, PCI_CAPABILITY_LIST, MSIX, 1);
	config_put(c->writable, PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER |
		   PCI_COMMAND_PARITY | PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE, 2);
	config_put(c->writable, PCI_CACHE_LINE_SIZE, 0xff, 1);
	config_bar(c, OHCA_BAR_CTRL, OHCA_CTRL_BAR_SIZE, true);
	config_bar(c, OHCA_BAR_UAR, (uint64_t)uars * UAR_STRIDE, true);
	config_bar(c, OHCA_BAR_MSIX, VU_MSIX_BYTES, false);
	config_express(c);
	config_msix(c, vectors);
}

void vu_config_reset(struct vu_config *c)
{
	for (uint32_t i = 0; i < VU_CONFIG_BYTES; i++)
		c->byte[i] &= (uint8_t)~c->writable[i];
}

bool vu_config_write(struct vu_config *c, uint32_t off, const uint8_t *data, uint32_t n)
{
	/* the bit always reads as 0 */
	const uint32_t flr = EXPRESS + PCI_EXP_DEVCTL + 1;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = &c->byte[off + i], mask = c->writable[off + i];

		*at = (uint8_t)((*at & ~mask) | (data[i] & mask));
	}
	return flr >= off && flr - off < n && data[flr - off] & PCI_EXP_DEVCTL_BCR_FLR >> 8;
}

bool vu_config_master(const struct vu_config *c)
{
	return c->byte[PCI_COMMAND] & PCI_COMMAND_MASTER;
}
