// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio-user/card.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ohca_hw.h"
#include "vfio-user/say.h"

#define MS	1000000ull
#define SHIFT	12u		/* of UAR pages, until the driver sets another one */

static uint64_t card_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec;
}

/* ---- the HCA ---------------------------------------------------------------------------- */

static void card_later(struct vu_card *c, unsigned int ms)
{
	c->due_ns = card_now_ns() + ms * MS;
}

/* If the HCA is lost, print that, and begin to connect again. */
static void card_see(struct vu_card *c)
{
	const char *why = c->there ? ohca_front_lost(c->f) : NULL;

	if (!why)
		return;
	vu_say("lost the HCA: %s; trying to get it back", why);
	c->there = c->told = false;
	vu_mem_forget(&c->mem);
	c->retry_ms = VU_RETRY_MS;
	card_later(c, VU_RETRY_MS);
}

/* Return: as ohca_front_call() */
static int card_call(struct vu_card *c, enum ohca_front_type type, void *msg, size_t len)
{
	int r = c->there ? ohca_front_call(c->f, type, msg, len, -1, NULL) : -1;

	card_see(c);
	return r;
}

/* Pass the guest's memory to the HCA; an HCA that cannot access it is given up. */
static void card_tell(struct vu_card *c)
{
	const char *why = vu_mem_tell(&c->mem, c->f, vu_config_master(&c->config));

	if (why && c->there)
		ohca_front_lose(c->f, why);
	card_see(c);
}

/* The driver sets the stride of UAR pages in a register. */
static void card_stride(struct vu_card *c)
{
	const uint64_t shift = ohca_front_reg(c->f, OHCA_REG_PAGE_SHIFT, 4);

	c->shift = shift >= SHIFT && shift <= 16 ? (unsigned int)shift : SHIFT;
}

static void card_adopt(struct vu_card *c, struct ohca_front *f)
{
	ohca_front_free(c->f);
	c->f = f;
	c->there = true;
	c->seen = false;
	card_stride(c);
}

bool vu_card_open(struct vu_card *c, const struct vu_cfg *cfg)
{
	struct ohca_front_err err;
	struct ohca_front *f;

	memset(c, 0, sizeof(*c));
	c->cfg = cfg;
	vu_config_init(&c->config, VU_VECTORS, cfg->uars);
	vu_irq_init(&c->irq);
	vu_mem_init(&c->mem);
	f = ohca_front_connect(cfg->fabric, &cfg->hello, -1, VU_START_MS, &err);
	if (!f) {
		vu_say("%s", err.text);
		return false;
	}
	card_adopt(c, f);
	return true;
}

void vu_card_close(struct vu_card *c)
{
	struct ohca_front_hdr m;

	if (c->there)
		ohca_front_call(c->f, OHCA_FRONT_BYE, &m, sizeof(m), -1, NULL);
	ohca_front_free(c->f);
	ohca_front_free(c->trying);
	vu_irq_free(&c->irq);
	vu_mem_free(&c->mem);
}

static void card_failed(struct vu_card *c, const struct ohca_front_err *err)
{
	/* that no process listens is not printed: it is the normal state meanwhile */
	if (!c->told && !err->absent) {
		vu_say("%s; trying again", err->text);
		c->told = true;
	}
	c->retry_ms = 2 * c->retry_ms < VU_RETRY_MAX_MS ? 2 * c->retry_ms : VU_RETRY_MAX_MS;
	card_later(c, c->retry_ms);
}

/* Why @f, which exists, cannot be used: it does not accept the memory; NULL: it can be used. */
static const char *card_useless(struct vu_card *c, struct ohca_front *f)
{
	const char *why = vu_mem_tell(&c->mem, f, vu_config_master(&c->config));

	return why ? why : ohca_front_lost(f);
}

/* @trying has answered, or its time is over. */
static void card_answer(struct vu_card *c)
{
	struct ohca_front_err err = { .text = "no answer to HELLO" };
	int r = ohca_front_welcome(c->trying, 0, &err);
	struct ohca_front *f = c->trying;
	const char *why;

	if (!r && card_now_ns() < c->due_ns)
		return;
	c->trying = NULL;
	why = r > 0 ? card_useless(c, f) : err.text;
	if (why) {
		if (why != err.text)
			snprintf(err.text, sizeof(err.text), "%s", why);
		vu_mem_forget(&c->mem);
		ohca_front_free(f);
		card_failed(c, &err);
		return;
	}
	card_adopt(c, f);
	vu_say("the HCA is connected again");
}

static void card_try(struct vu_card *c)
{
	struct ohca_front_err err;

	c->trying = ohca_front_start(c->cfg->fabric, &c->cfg->hello, -1, &err);
	if (c->trying)
		card_later(c, VU_AGAIN_MS);
	else
		card_failed(c, &err);
}

static void card_was_reset(struct vu_card *c)
{
	if (c->there)
		ohca_front_irq_clear(c->f);
	vu_irq_clear(&c->irq);
	c->seen = false;
	card_stride(c);
}

void vu_card_reset(struct vu_card *c)
{
	struct ohca_front_hdr m;

	card_call(c, OHCA_FRONT_RESET, &m, sizeof(m));
	vu_config_reset(&c->config);
	card_tell(c);
	card_was_reset(c);
}

/* ---- regions ---------------------------------------------------------------------------- */

uint64_t vu_card_size(const struct vu_card *c, uint32_t i)
{
	return i < VU_BARS ? c->config.bar[i] : i == VU_CONFIG ? VU_CONFIG_BYTES : 0;
}

/* Whether an access is a word: 1, 2, 4 or 8 bytes, aligned. */
static bool card_is_word(uint64_t off, uint32_t n)
{
	return n && n <= 8 && !(n & (n - 1)) && !(off & (n - 1));
}

static uint64_t card_ctrl_read(const struct vu_card *c, uint64_t off, uint32_t n)
{
	if (n < 4)
		return 0;
	return c->there ? ohca_front_reg(c->f, off, n) : ohca_front_away(off, n);
}

/* The device's clock, or all ones if there is no HCA. */
static uint64_t card_uar_read(const struct vu_card *c, uint64_t off, uint32_t n)
{
	return c->there ? ohca_front_clock(c->f, (uint32_t)off & ((1u << c->shift) - 1), n) :
			  UINT64_MAX;
}

static uint64_t card_msix_read(const struct vu_card *c, uint64_t off, uint32_t n)
{
	uint64_t val = 0;

	/* the VMM itself implements the table */
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t byte = off + i - VU_MSIX_PBA;

		if (off + i >= VU_MSIX_PBA && byte < VU_VECTORS_MAX / 8)
			val |= (c->irq.pending[byte / 8] >> (8 * (byte % 8)) & 0xff) << (8 * i);
	}
	return val;
}

int vu_card_read(struct vu_card *c, uint32_t i, uint64_t off, uint8_t *buf, uint32_t n)
{
	const uint64_t size = vu_card_size(c, i);
	uint64_t val;

	if (off > size || n > size - off || n > VU_XFER)
		return EINVAL;
	if (i == VU_CONFIG) {
		memcpy(buf, c->config.byte + off, n);
		return 0;
	}
	if (!card_is_word(off, n))
		return EINVAL;
	if (i == OHCA_BAR_CTRL)
		val = card_ctrl_read(c, off, n);
	else if (i == OHCA_BAR_UAR)
		val = card_uar_read(c, off, n);
	else
		val = card_msix_read(c, off, n);
	val = htole64(val);
	memcpy(buf, &val, n);
	return 0;
}

/*
 * Check the memory: private memory of the VMM has a descriptor, too, but what the guest writes
 * there is not in the file. So the first command of the driver must be visible in it.
 */
static void card_look(struct vu_card *c, uint32_t pi)
{
	const uint32_t mask = (1u << (ohca_front_reg(c->f, OHCA_REG_AQ_LOG_SIZE, 4) & 15)) - 1;
	const struct ohca_hw_aqe none = { 0 };
	struct ohca_hw_aqe e;

	if (c->seen || c->warned)
		return;
	c->seen = true;
	if (!vu_mem_read(&c->mem, ohca_front_reg(c->f, OHCA_REG_AQ_BASE, 8) +
			 ((pi - 1) & mask) * sizeof(e), &e, sizeof(e)) ||
	    memcmp(&e, &none, sizeof(e)))
		return;
	c->warned = true;
	vu_say("the guest's first command is not in shared memory: the memory backend needs "
	       "share=on");
}

static void card_ctrl_write(struct vu_card *c, uint64_t off, uint64_t val, uint32_t n)
{
	struct ohca_front_reg m = {
		.off = htole32((uint32_t)off), .size = (uint8_t)n,
		.flags = OHCA_FRONT_REG_WRITE, .value = htole64(val),
	};

	if (n < 4 || !c->there)
		return;
	if (off == OHCA_REG_AQ_DB && n == 4) {
		card_look(c, (uint32_t)val);
		ohca_front_admin(c->f, (uint32_t)val);
		return;
	}
	card_call(c, OHCA_FRONT_REG, &m, sizeof(m));
	if (off == OHCA_REG_CTRL && val & OHCA_CTRL_RESET)
		card_was_reset(c);
	else
		card_stride(c);
}

int vu_card_write(struct vu_card *c, uint32_t i, uint64_t off, const uint8_t *buf, uint32_t n)
{
	const uint64_t size = vu_card_size(c, i);
	const bool master = vu_config_master(&c->config);
	uint64_t val = 0;

	if (off > size || n > size - off || n > VU_XFER)
		return EINVAL;
	if (i == VU_CONFIG) {
		if (vu_config_write(&c->config, (uint32_t)off, buf, n))
			vu_card_reset(c);
		else if (vu_config_master(&c->config) != master)
			card_tell(c);
		return 0;
	}
	if (!card_is_word(off, n))
		return EINVAL;
	memcpy(&val, buf, n);
	val = le64toh(val);
	if (i == OHCA_BAR_CTRL)
		card_ctrl_write(c, off, val, n);
	else if (i == OHCA_BAR_UAR)
		ohca_front_ring(c->f, (uint32_t)(off >> c->shift),
				(uint32_t)off & ((1u << c->shift) - 1), val, n);
	return 0;
}

/* ---- memory ----------------------------------------------------------------------------- */

int vu_card_map(struct vu_card *c, const struct vu_dma_map *d, int *fd, const char **why)
{
	int error = vu_mem_map(&c->mem, c->f, d, fd, why);

	if (!error && vu_config_master(&c->config))
		card_tell(c);
	card_see(c);
	return error;
}

int vu_card_unmap(struct vu_card *c, const struct vu_dma_unmap *d)
{
	int error = vu_mem_unmap(&c->mem, d);

	if (!error)
		card_tell(c);
	return error;
}

/* ---- events ----------------------------------------------------------------------------- */

void vu_card_flush(struct vu_card *c)
{
	uint64_t vec[OHCA_PAGE_VECTORS / 64];

	if (c->there && ohca_front_irq_any(c->f) && ohca_front_irqs(c->f, VU_VECTORS, vec))
		vu_irq_raise(&c->irq, vec);
}

int vu_card_poll(const struct vu_card *c, struct pollfd p[2])
{
	const uint64_t now = c->there ? 0 : card_now_ns();

	p[0] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[1] = p[0];
	if (c->there) {
		p[0].fd = ohca_front_sock(c->f);
		p[1].fd = ohca_front_irq_sock(c->f);
		return -1;
	}
	if (c->trying)
		p[0].fd = ohca_front_sock(c->trying);
	return now < c->due_ns ? (int)((c->due_ns - now + MS - 1) / MS) : 0;
}

void vu_card_work(struct vu_card *c, const struct pollfd p[2])
{
	if (c->there) {
		if (p[1].revents && ohca_front_irq_read(c->f))
			vu_card_flush(c);
		if (p[0].revents || p[1].revents & (POLLHUP | POLLERR))
			ohca_front_event(c->f);
		card_see(c);
	} else if (c->trying) {
		if (p[0].revents || card_now_ns() >= c->due_ns)
			card_answer(c);
	} else if (card_now_ns() >= c->due_ns) {
		card_try(c);
	}
}
