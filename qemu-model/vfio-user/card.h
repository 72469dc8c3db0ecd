/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card as the VMM has it: its regions, memory and vectors, and the HCA in the fabric's process
 * behind them, as long as there is one. If it goes, STATUS says AWAY, and it is asked for again.
 * One thread; a call of the fabric's process waits as front/client.h says.
 */
#ifndef OHCA_VFIO_USER_CARD_H
#define OHCA_VFIO_USER_CARD_H

#include <poll.h>

#include "front/client.h"
#include "vfio-user/config.h"
#include "vfio-user/irq.h"
#include "vfio-user/mem.h"

#define VU_VECTORS	32u
#define VU_START_MS	4000	/* that HELLO may take; a VMM waits 5 s for its first answer */
#define VU_AGAIN_MS	2000	/* that it may take later */
#define VU_RETRY_MS	100	/* between attempts to connect again: at first, and at most */
#define VU_RETRY_MAX_MS	2000

/**
 * struct vu_cfg - what the user says
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
 * @trying: has said HELLO, or NULL
 * @due_ns: when @trying has had its time, or is tried again
 * @retry_ms: between attempts; @told: why the last one failed
 * @shift: log2 of the stride of UAR pages
 * @seen: the guest's admin queue was found in its memory
 */
struct vu_card {
	const struct vu_cfg *cfg;
	struct ohca_front *f, *trying;
	bool there, told, seen;
	uint64_t due_ns;
	unsigned int retry_ms;
	unsigned int shift;
	struct vu_config config;
	struct vu_irq irq;
	struct vu_mem mem;
};

/** vu_card_open() - have an HCA made for a new VMM. Return: false: there is none, which was said. */
bool vu_card_open(struct vu_card *c, const struct vu_cfg *cfg);

/** vu_card_close() - the VMM has gone, and so does the HCA */
void vu_card_close(struct vu_card *c);

/** vu_card_reset() - as power-on; all DMA has ended when it returns */
void vu_card_reset(struct vu_card *c);

/** vu_card_size() - bytes of region @i of VU_REGIONS */
uint64_t vu_card_size(const struct vu_card *c, uint32_t i);

/**
 * vu_card_read() - the VMM reads @n bytes of region @i at @off; all three are not checked
 * @buf: VU_XFER bytes
 *
 * Return: errno, or 0.
 */
int vu_card_read(struct vu_card *c, uint32_t i, uint64_t off, uint8_t *buf, uint32_t n);

/** vu_card_write() - it writes them. Return: errno, or 0. */
int vu_card_write(struct vu_card *c, uint32_t i, uint64_t off, const uint8_t *buf, uint32_t n);

/** vu_card_map() - DMA_MAP, as vu_mem_map(), and it is told */
int vu_card_map(struct vu_card *c, const struct vu_dma_map *d, int *fd, const char **why);

/** vu_card_unmap() - DMA_UNMAP; no DMA there when it returns. Return: errno, or 0. */
int vu_card_unmap(struct vu_card *c, const struct vu_dma_unmap *d);

/** vu_card_flush() - tell the VMM of vectors that the HCA has raised */
void vu_card_flush(struct vu_card *c);

/**
 * vu_card_poll() - what the card waits for
 * @p: two entries that are filled in
 *
 * Return: milliseconds after which vu_card_work() is due in any case; -1: none.
 */
int vu_card_poll(const struct vu_card *c, struct pollfd p[2]);

/** vu_card_work() - after poll() with these entries */
void vu_card_work(struct vu_card *c, const struct pollfd p[2]);

#endif /* OHCA_VFIO_USER_CARD_H */
