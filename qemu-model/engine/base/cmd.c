/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Helpers of commands: page lists and the mailbox. */
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/guestmem.h"
#include "engine/base/job.h"
#include "engine/base/le.h"
#include "engine/base/lies.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "ohca_hw.h"

int ohca_cmd_pages(struct ohca_cmd *c, struct ohca_pages *p, const struct ohca_hw_pl *pl,
		   uint64_t bytes, uint32_t max, size_t off)
{
	int rc = ohca_pages_load_some(c->e, &c->e->job.walk, p, pl, bytes, max);

	if (rc == OHCA_ADMIN_BAD_PARAM || rc == OHCA_ADMIN_DMA)
		c->syndrome = (uint16_t)off;
	return rc;
}

int ohca_cmd_buf(struct ohca_cmd *c, const struct ohca_hw_pl *pl, uint64_t bytes, size_t off)
{
	struct ohca_job *job = &c->e->job;
	int rc;

	if (job->loaded)
		return OHCA_ADMIN_OK;
	rc = ohca_cmd_pages(c, &job->buf, pl, bytes, OHCA_MAX_QUEUE_PAGES, off);
	job->loaded = rc == OHCA_ADMIN_OK;
	return rc;
}

void ohca_cmd_buf_take(struct ohca_cmd *c, struct ohca_pages *p)
{
	struct ohca_job *job = &c->e->job;

	ohca_pages_free(c->e, p);
	*p = job->buf;
	memset(&job->buf, 0, sizeof(job->buf));
}

bool ohca_job_end_some(ohca_engine *e)
{
	if (!ohca_walk_end_some(e, &e->job.walk) || !ohca_pages_free_some(e, &e->job.buf))
		return false;
	ohca_job_end(e);
	return true;
}

void ohca_job_end(ohca_engine *e)
{
	ohca_walk_end(e, &e->job.walk);
	ohca_pages_free(e, &e->job.buf);
	memset(&e->job, 0, sizeof(e->job));
}

/* Read the mailbox address at byte @at of the entry; sets the syndrome to @at. */
static int mbox_addr(struct ohca_cmd *c, size_t at, uint64_t *addr)
{
	__le64 le;

	memcpy(&le, (const uint8_t *)&c->aqe + at, sizeof(le));
	*addr = ohca_le64(le);
	c->syndrome = (uint16_t)at;
	return (*addr & (OHCA_MAILBOX_SIZE - 1)) ||
	       *addr + (OHCA_MAILBOX_SIZE - 1) < *addr ? OHCA_ADMIN_BAD_PARAM : OHCA_ADMIN_OK;
}

int ohca_cmd_mbox_read(struct ohca_cmd *c, size_t at, size_t off, void *buf, size_t n)
{
	uint64_t addr;
	int rc = mbox_addr(c, at, &addr);

	if (rc)
		return rc;
	return ohca_dma_read(c->e, addr + off, buf, n) ? OHCA_ADMIN_DMA : OHCA_ADMIN_OK;
}

static int lie_write(struct ohca_cmd *c, uint64_t addr, const void *buf, size_t n)
{
	uint8_t copy[OHCA_MAILBOX_SIZE];

	buf = ohca_lie_in_mbox(c->e, c->aqe.hdr.opcode, copy, buf, n);
	return ohca_dma_write(c->e, addr, buf, n) ? OHCA_ADMIN_DMA : OHCA_ADMIN_OK;
}

int ohca_cmd_mbox_write(struct ohca_cmd *c, size_t at, size_t off, const void *buf, size_t n)
{
	uint64_t addr;
	int rc = mbox_addr(c, at, &addr);

	if (rc)
		return rc;
	if (ohca_lies(c->e))
		return lie_write(c, addr + off, buf, n);
	return ohca_dma_write(c->e, addr + off, buf, n) ? OHCA_ADMIN_DMA : OHCA_ADMIN_OK;
}
