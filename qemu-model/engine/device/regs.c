/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Control registers (BAR 0): identity, handshake, reset. */
#include "engine/base/features.h"
#include "engine/base/state.h"
#include "engine/device/admin.h"
#include "engine/management/mad.h"
#include "engine/object/fatal.h"
#include "ohca_hw.h"

#define TIMEOUT_RESET_MS	5000u
#define TIMEOUT_CMD_MS		30000u
#define MIN_PAGE_SHIFT		12u
#define MAX_PAGE_SHIFT		16u

/* Value of the register that contains byte @off; *@base: offset of this register. */
static uint64_t reg_read(ohca_engine *e, uint64_t off, uint64_t *base)
{
	*base = off;
	switch (off) {
	case OHCA_REG_MAGIC:
		return OHCA_MAGIC;
	case OHCA_REG_VERSION:
		return OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, OHCA_MAJOR) |
		       OHCA_FIELD_PREP(OHCA_VERSION_MINOR, OHCA_MINOR);
	case OHCA_REG_FEATURES:
	case OHCA_REG_FEATURES + 4:
		*base = OHCA_REG_FEATURES;
		return ohca_features(e);
	case OHCA_REG_FEATURES_ACK:
	case OHCA_REG_FEATURES_ACK + 4:
		*base = OHCA_REG_FEATURES_ACK;
		return atomic_load(&e->features_ack);
	case OHCA_REG_STATUS:
		return atomic_load(&e->status);
	case OHCA_REG_PAGE_SHIFT:
		return atomic_load(&e->page_shift);
	case OHCA_REG_TIMEOUTS:
		return OHCA_FIELD_PREP(OHCA_TIMEOUTS_RESET, TIMEOUT_RESET_MS) |
		       OHCA_FIELD_PREP(OHCA_TIMEOUTS_CMD, TIMEOUT_CMD_MS);
	case OHCA_REG_FATAL_REASON:
		return atomic_load(&e->fatal_reason);
	case OHCA_REG_LIMITS:
		return OHCA_FIELD_PREP(OHCA_LIMITS_UARS, e->cfg.num_uars) |
		       OHCA_FIELD_PREP(OHCA_LIMITS_VECTORS, (uint32_t)e->cfg.num_vectors);
	case OHCA_REG_AQ_BASE:
	case OHCA_REG_AQ_BASE + 4:
		*base = OHCA_REG_AQ_BASE;
		return atomic_load(&e->aq_base);
	case OHCA_REG_ACQ_BASE:
	case OHCA_REG_ACQ_BASE + 4:
		*base = OHCA_REG_ACQ_BASE;
		return atomic_load(&e->acq_base);
	case OHCA_REG_AQ_LOG_SIZE:
		return atomic_load(&e->aq_log_size);
	case OHCA_REG_AQ_INTR:
		return atomic_load(&e->aq_intr);
	default:
		return 0;
	}
}

static bool reg_is_64(uint64_t off)
{
	return off == OHCA_REG_FEATURES || off == OHCA_REG_FEATURES_ACK ||
	       off == OHCA_REG_AQ_BASE || off == OHCA_REG_ACQ_BASE;
}

uint64_t ohca_mmio_read(ohca_engine *e, uint64_t off, unsigned int size)
{
	uint64_t base, v;

	if ((size != 4 && size != 8) || off >= OHCA_CTRL_BAR_SIZE || (off & (size - 1)))
		return 0;
	v = reg_read(e, off, &base);
	if (size == 4)
		return (uint32_t)(off == base ? v : v >> 32);
	if (reg_is_64(off))
		return v;
	/* a 64-bit access to two 32-bit registers */
	return (uint32_t)v | ohca_mmio_read(e, off + 4, 4) << 32;
}

static void enable(ohca_engine *e)
{
	uint32_t shift = atomic_load(&e->page_shift);
	uint32_t log = atomic_load(&e->aq_log_size);
	uint64_t aq = atomic_load(&e->aq_base), acq = atomic_load(&e->acq_base);
	uint64_t bytes = (uint64_t)OHCA_AQ_ENTRY_SIZE << OHCA_AQ_MAX_LOG_SIZE;

	if (atomic_load(&e->status) != OHCA_STATUS_READY)
		return;
	if (shift < MIN_PAGE_SHIFT || shift > MAX_PAGE_SHIFT || log < OHCA_AQ_MIN_LOG_SIZE ||
	    log > OHCA_AQ_MAX_LOG_SIZE || (aq & 4095) || (acq & 4095) || aq + bytes < aq ||
	    acq + bytes < acq || (atomic_load(&e->features_ack) & ~ohca_features(e))) {
		ohca_fatal(e, OHCA_FATAL_BAD_ENABLE);
		return;
	}
	ohca_aq_reset(e);
	atomic_store(&e->status, OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
	ohca_mad_enable(e);
	e->ops.kick(e->h);
}

/* Replace the high or low half of a 64-bit register, or all of it. */
static void write64(_Atomic uint64_t *reg, bool high, uint64_t val, unsigned int size)
{
	uint64_t old = atomic_load(reg);

	if (size == 4)
		val = high ? (old & 0xffffffffu) | val << 32
			   : (old & ~0xffffffffull) | (uint32_t)val;
	atomic_store(reg, val);
}

void ohca_mmio_write(ohca_engine *e, uint64_t off, uint64_t val, unsigned int size)
{
	bool setup = !(atomic_load(&e->status) & OHCA_STATUS_ENABLED);

	if ((size != 4 && size != 8) || off >= OHCA_CTRL_BAR_SIZE || (off & (size - 1)))
		return;
	if (size == 8 && !reg_is_64(off)) {
		ohca_mmio_write(e, off, (uint32_t)val, 4);
		ohca_mmio_write(e, off + 4, val >> 32, 4);
		return;
	}
	switch (off) {
	case OHCA_REG_CTRL:
		if (val & OHCA_CTRL_RESET)
			ohca_reset(e);
		else if (val & OHCA_CTRL_ENABLE)
			enable(e);
		break;
	case OHCA_REG_AQ_DB:
		ohca_admin_doorbell(e, (uint32_t)val);
		break;
	case OHCA_REG_AQ_INTR:
		atomic_store(&e->aq_intr, (uint32_t)val & 1u);
		break;
	/* the other registers of the handshake are read-only while the device runs */
	case OHCA_REG_FEATURES_ACK:
	case OHCA_REG_FEATURES_ACK + 4:
		if (setup)
			write64(&e->features_ack, off != OHCA_REG_FEATURES_ACK, val, size);
		break;
	case OHCA_REG_PAGE_SHIFT:
		if (setup)
			atomic_store(&e->page_shift, (uint32_t)val);
		break;
	case OHCA_REG_AQ_BASE:
	case OHCA_REG_AQ_BASE + 4:
		if (setup)
			write64(&e->aq_base, off != OHCA_REG_AQ_BASE, val, size);
		break;
	case OHCA_REG_ACQ_BASE:
	case OHCA_REG_ACQ_BASE + 4:
		if (setup)
			write64(&e->acq_base, off != OHCA_REG_ACQ_BASE, val, size);
		break;
	case OHCA_REG_AQ_LOG_SIZE:
		if (setup)
			atomic_store(&e->aq_log_size, (uint32_t)val);
		break;
	default:
		break;
	}
}
