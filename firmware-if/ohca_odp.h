/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: memory regions with on-demand paging.
 *
 * A region of type OHCA_MR_ODP has no pages at first. OHCA_CMD_UPDATE_MR_PAGES adds and
 * removes pages. An access to a page that is not present, or not writable, is a page fault:
 * the device reports it once, in the EQ of kind OHCA_EQ_FAULT, and the access waits. After
 * OHCA_CMD_PAGE_FAULT_RESUME with the id of the fault the device repeats the access.
 */
#ifndef OHCA_ODP_H
#define OHCA_ODP_H

#include "ohca_types.h"

/** enum ohca_eq_kind - purpose of an EQ */
enum ohca_eq_kind {
	OHCA_EQ_COMP	= 0,	/* completion events */
	OHCA_EQ_ASYNC	= 1,	/* asynchronous and port events; one per device */
	OHCA_EQ_FAULT	= 2,	/* page faults; one per device */
};

/* A page: its bus address, aligned to the page size, and the rights of the device. */
#define OHCA_ODP_READ		OHCA_GENMASK64(0, 0)
#define OHCA_ODP_WRITE		OHCA_GENMASK64(1, 1)
#define OHCA_ODP_ADDR		OHCA_GENMASK64(63, 12)
#define OHCA_ODP_BATCH		512u	/* pages that one command can add */

/**
 * struct ohca_cmd_update_mr - add pages to a region, or remove pages
 * @addr: mailbox with @npages __le64: OHCA_ODP_ADDR and rights; an entry without rights
 *	is no page. 0 with OHCA_UPDATE_MR_INVALIDATE
 * @first: first page, counted from the start of the region's first page
 * @npages: pages; at most OHCA_ODP_BATCH without OHCA_UPDATE_MR_INVALIDATE
 * @key: the region
 * @flags: OHCA_UPDATE_MR_*
 *
 * The completion is a fence: after it the device does not access pages that were removed
 * or replaced. If the command fails with NO_RESOURCE, the device may have added some of the
 * pages. A removal does not fail with NO_RESOURCE.
 */
struct ohca_cmd_update_mr {
	__le64 addr;
	__le64 first;
	__le64 npages;
	__le32 key;
	__le32 flags;
};

#define OHCA_UPDATE_MR_INVALIDATE	OHCA_BIT(0)	/* remove the pages */

/**
 * struct ohca_cmd_fault_resume - answer a page fault
 * @id: id of the fault in its event
 * @flags: OHCA_FAULT_FAILED
 *
 * The device repeats the access; with OHCA_FAULT_FAILED it fails the access. The driver
 * answers each fault once, also when the QP of the fault is destroyed.
 */
struct ohca_cmd_fault_resume {
	__le32 id;
	__le32 flags;
};

#define OHCA_FAULT_FAILED	OHCA_BIT(0)	/* there is no page: the access fails */

/**
 * struct ohca_hw_fault_eqe - entry of the EQ for page faults
 * @type: OHCA_EVENT_PAGE_FAULT
 * @flags: OHCA_FAULT_WRITE
 * @reserved0: zero
 * @id: number of the fault: its bits OHCA_FAULT_SLOT are below 1 << log_max_faults and differ
 *	from those of all unanswered faults; the other bits change each time
 * @addr: address of the first byte that is missing; the region begins at its iova
 * @length: bytes that will be accessed from there on, at least 1; a hint
 * @key: the region; of an access through a window: the region that the window is bound to
 * @reserved1: zero
 * @phase: as in struct ohca_hw_eqe
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
 * Operations of a transport that a missing page only delays; bits of
 * enum ibv_odp_transport_cap_bits.
 */
#define OHCA_ODP_CAP_SEND	OHCA_BIT(0)
#define OHCA_ODP_CAP_RECV	OHCA_BIT(1)
#define OHCA_ODP_CAP_RDMA_WRITE	OHCA_BIT(2)
#define OHCA_ODP_CAP_RDMA_READ	OHCA_BIT(3)
#define OHCA_ODP_CAP_ATOMIC	OHCA_BIT(4)
#define OHCA_ODP_CAP_SRQ_RECV	OHCA_BIT(5)

#endif /* OHCA_ODP_H */
