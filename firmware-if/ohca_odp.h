/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: memory regions whose pages come and go.
 *
 * A region of type OHCA_MR_ODP begins without a page. OHCA_CMD_UPDATE_MR_PAGES names
 * pages and takes them back. An access to a page that is not there, or not there for
 * writing, stops the queue that wants it; the device tells of it in the EQ of kind
 * OHCA_EQ_FAULT, once, and goes on after OHCA_CMD_PAGE_FAULT_RESUME with the same number.
 */
#ifndef OHCA_ODP_H
#define OHCA_ODP_H

#include "ohca_types.h"

/** enum ohca_eq_kind - what an EQ is for */
enum ohca_eq_kind {
	OHCA_EQ_COMP	= 0,	/* completion events */
	OHCA_EQ_ASYNC	= 1,	/* asynchronous and port events; one a device */
	OHCA_EQ_FAULT	= 2,	/* page faults; one a device */
};

/* A page: its bus address, aligned to the page size, and what may be done with it. */
#define OHCA_ODP_READ		OHCA_GENMASK64(0, 0)
#define OHCA_ODP_WRITE		OHCA_GENMASK64(1, 1)
#define OHCA_ODP_ADDR		OHCA_GENMASK64(63, 12)
#define OHCA_ODP_BATCH		512u	/* pages that one command names at most */

/**
 * struct ohca_cmd_update_mr - name pages of a region, or take pages back
 * @addr: mailbox with @npages __le64: OHCA_ODP_ADDR and rights; one without rights is
 *	no page. 0 with OHCA_UPDATE_MR_INVALIDATE
 * @first: first page, counted from the start of the region's first page
 * @npages: pages; at most OHCA_ODP_BATCH without OHCA_UPDATE_MR_INVALIDATE
 * @key: the region
 * @flags: OHCA_UPDATE_MR_*
 *
 * The completion is a fence: pages that were taken back or replaced are not accessed
 * any more. A command that fails with NO_RESOURCE may have named some of its pages; one
 * that takes back does not fail so.
 */
struct ohca_cmd_update_mr {
	__le64 addr;
	__le64 first;
	__le64 npages;
	__le32 key;
	__le32 flags;
};

#define OHCA_UPDATE_MR_INVALIDATE	OHCA_BIT(0)	/* the pages are taken back */

/**
 * struct ohca_cmd_fault_resume - answer a page fault
 * @id: as in the event
 * @flags: OHCA_FAULT_FAILED
 *
 * The access is tried again, unless it has failed. Each fault is answered once, also
 * when the QP that had it is gone.
 */
struct ohca_cmd_fault_resume {
	__le32 id;
	__le32 flags;
};

#define OHCA_FAULT_FAILED	OHCA_BIT(0)	/* no page can be had: the access fails */

/**
 * struct ohca_hw_fault_eqe - entry of the EQ for page faults
 * @type: OHCA_EVENT_PAGE_FAULT
 * @flags: OHCA_FAULT_WRITE
 * @reserved0: zero
 * @id: number of the fault: OHCA_FAULT_SLOT is below 1 << log_max_faults and belongs to
 *	no other fault that is not answered; the rest changes each time
 * @addr: first byte that is missing, as the region counts: from its iova
 * @length: bytes that are going to be accessed from there on, at least 1; a hint
 * @key: the region; of an access through a window: the region behind it
 * @reserved1: zero
 * @phase: as of struct ohca_hw_eqe
 */
struct ohca_hw_fault_eqe {
	__u8 type;
	__u8 flags;
	__le16 reserved0;
	__le32 id;
	__le64 addr;
	__le32 length;
	__le32 key;
	__u8 reserved1[7];
	__u8 phase;
};

OHCA_ASSERT_SIZE(struct ohca_hw_fault_eqe, 32);
OHCA_ASSERT_OFFSET(struct ohca_hw_fault_eqe, phase, 31);
#define OHCA_FAULT_WRITE	OHCA_BIT(0)	/* the page will be written */
#define OHCA_FAULT_SLOT_BITS	12u
#define OHCA_FAULT_SLOT		OHCA_GENMASK(11, 0)

/*
 * What a transport does without losing more than time when a page is missing; bits of
 * enum ibv_odp_transport_cap_bits.
 */
#define OHCA_ODP_CAP_SEND	OHCA_BIT(0)
#define OHCA_ODP_CAP_RECV	OHCA_BIT(1)
#define OHCA_ODP_CAP_RDMA_WRITE	OHCA_BIT(2)
#define OHCA_ODP_CAP_RDMA_READ	OHCA_BIT(3)
#define OHCA_ODP_CAP_ATOMIC	OHCA_BIT(4)
#define OHCA_ODP_CAP_SRQ_RECV	OHCA_BIT(5)

#endif /* OHCA_ODP_H */
