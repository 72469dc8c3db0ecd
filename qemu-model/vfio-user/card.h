/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card for the VMM: its regions, memory and vectors, and the HCA in the fabric's process that
 * implements it. If there is no HCA, STATUS is AWAY, and the card connects again.
 * One thread; a call of the fabric's process waits as front/client.h describes.
 */
#ifndef OHCA_VFIO_USER_CARD_H
#define OHCA_VFIO_USER_CARD_H

#include <poll.h>

#include "front/client.h"
#include "vfio-user/config.h"
#include "vfio-user/irq.h"
#include "vfio-user/mem.h"

#define VU_VECTORS	32u
#define VU_START_MS	4000	/* longest wait for WELCOME; a VMM waits 5 s for its first answer */
#define VU_AGAIN_MS	2000	/* the same when the card connects again */
#define VU_RETRY_MS	100	/* between attempts to connect again: at first, and at most */
#define VU_RETRY_MAX_MS	2000

/**
 * struct vu_cfg - configuration by the user
 * @fabric: socket of the fabric
 * @uars: UAR pages, a power of two
 * @hello: the HCA
 */
struct vu_cfg {
	const char *fabric;
	unsigned int uars;
	struct ohca_front_hello hello;
};

/**
 * struct vu_card - a card
 * @f: the HCA, perhaps a lost one
 * @there: it is not lost
 * @trying: has sent HELLO, or NULL
 * @due_ns: end of the wait of @trying, or time of the next attempt
 * @retry_ms: between attempts; @told: the failure of the last one was printed
 * @shift: log2 of the stride of UAR pages
 * @seen: the first command since the last reset was checked
 * @warned: a command that is not in shared memory was reported: once for each VMM, since the guest
 *	may repeat it
 */
struct vu_card {
	const struct vu_cfg *cfg;
	struct ohca_front *f, *trying;
	bool there, told, seen, warned;
	uint64_t due_ns;
	unsigned int retry_ms;
	unsigned int shift;
	struct vu_config config;
	struct vu_irq irq;
	struct vu_mem mem;
};

/** vu_card_open() - create the HCA for a new VMM. Return: false: failed; the error was printed. */
bool vu_card_open(struct vu_card *c, const struct vu_cfg *cfg);

/** vu_card_close() - free the HCA, after the VMM has disconnected */
void vu_card_close(struct vu_card *c);

/** vu_card_reset() - reset to the state after power-on; all DMA has ended when it returns */
void vu_card_reset(struct vu_card *c);

/** vu_card_size() - bytes of region @i of VU_REGIONS */
uint64_t vu_card_size(const struct vu_card *c, uint32_t i);

/**
 * vu_card_read() - the VMM reads @n bytes of region @i at @off, none of which is checked before
 * @buf: VU_XFER bytes
 *
 * Return: errno, or 0.
 */
int vu_card_read(struct vu_card *c, uint32_t i, uint64_t off, uint8_t *buf, uint32_t n);

/** vu_card_write() - the VMM writes them. Return: errno, or 0. */
int vu_card_write(struct vu_card *c, uint32_t i, uint64_t off, const uint8_t *buf, uint32_t n);

/** vu_card_map() - DMA_MAP, as vu_mem_map(), also for the HCA */
int vu_card_map(struct vu_card *c, const struct vu_dma_map *d, int *fd, const char **why);

/**
 * vu_card_unmap() - DMA_UNMAP; there is no DMA to it any more when it returns. Return: errno, or 0.
 */
int vu_card_unmap(struct vu_card *c, const struct vu_dma_unmap *d);

/** vu_card_flush() - notify the VMM of vectors that the HCA has raised */
void vu_card_flush(struct vu_card *c);

/**
 * vu_card_poll() - the events for which the card waits
 * @p: two entries that are filled in
 *
 * Return: milliseconds after which vu_card_work() is due in any case; -1: none.
 */
int vu_card_poll(const struct vu_card *c, struct pollfd p[2]);

/** vu_card_work() - after poll() with these entries */
void vu_card_work(struct vu_card *c, const struct pollfd p[2]);

#endif /* OHCA_VFIO_USER_CARD_H */
