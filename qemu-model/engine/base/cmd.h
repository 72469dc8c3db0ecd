/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Helpers for a command in execution: its fields, page lists and mailbox. The owner calls. */
#ifndef OHCA_BASE_CMD_H
#define OHCA_BASE_CMD_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/guestmem.h"
#include "engine/base/le.h"
#include "engine/engine.h"
#include "ohca_hw.h"

/**
 * struct ohca_cmd - a command in execution
 * @aqe: private copy of the AQ entry
 * @rsp: the answer
 * @syndrome: offset of the field that was refused
 */
struct ohca_cmd {
	ohca_engine *e;
	struct ohca_hw_aqe aqe;
	struct ohca_hw_acqe rsp;
	uint16_t syndrome;
};

/* Refuse a field of the AQ entry: set the syndrome. Value: OHCA_ADMIN_BAD_PARAM */
#define OHCA_BAD(c, member)							\
	((c)->syndrome = (uint16_t)offsetof(struct ohca_hw_aqe, member),	\
	 OHCA_ADMIN_BAD_PARAM)
/* Refuse a field of the mailbox; its syndrome is its offset there plus the size of the AQ entry. */
#define OHCA_BAD_MBOX(c, type, member)						\
	((c)->syndrome = (uint16_t)(OHCA_AQ_ENTRY_SIZE + offsetof(type, member)),	\
	 OHCA_ADMIN_BAD_PARAM)

/* Set the command's result to @handle. */
static inline void ohca_cmd_result(struct ohca_cmd *c, uint32_t handle)
{
	c->rsp.handle.handle = ohca_to_le32(handle);
}

/*
 * Load a page list of the command: @member of the entry, for @bytes, with at most @max pages. If
 * the list is refused, the syndrome is its offset. Value: OHCA_CMD_MORE or enum ohca_admin_status.
 * On OHCA_CMD_MORE the command returns that and runs again from the beginning, so all that it does
 * before must be repeatable.
 */
#define OHCA_CMD_PAGES(c, p, member, bytes, max)				\
	ohca_cmd_pages((c), (p), &(c)->aqe.member, (bytes), (max),		\
		       offsetof(struct ohca_hw_aqe, member))
int ohca_cmd_pages(struct ohca_cmd *c, struct ohca_pages *p, const struct ohca_hw_pl *pl,
		   uint64_t bytes, uint32_t max, size_t off);
/* The same for the new buffer of a queue: e->job.buf until ohca_cmd_buf_take(). */
#define OHCA_CMD_BUF(c, member, bytes)						\
	ohca_cmd_buf((c), &(c)->aqe.member, (bytes), offsetof(struct ohca_hw_aqe, member))
int ohca_cmd_buf(struct ohca_cmd *c, const struct ohca_hw_pl *pl, uint64_t bytes, size_t off);
/* Replace *@p by e->job.buf, after the copy to it is complete. */
void ohca_cmd_buf_take(struct ohca_cmd *c, struct ohca_pages *p);

/*
 * Read or write @n bytes at @off of a mailbox. @at: offset in the AQ entry of the mailbox's
 * address, OHCA_AT(member). The address must be a multiple of 4 KiB. enum ohca_admin_status
 */
#define OHCA_AT(member)		offsetof(struct ohca_hw_aqe, member)
int ohca_cmd_mbox_read(struct ohca_cmd *c, size_t at, size_t off, void *buf, size_t n);
int ohca_cmd_mbox_write(struct ohca_cmd *c, size_t at, size_t off, const void *buf, size_t n);

#endif /* OHCA_BASE_CMD_H */
