/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A QP whose queues and doorbell page a program writes itself. */
#ifndef RAW_H
#define RAW_H

#include "peer.h"

#include "ohca_hw.h"

#define RES_QP	1	/* resource_type of the provider's allocator calls */
#define RES_CQ	3

/** struct raw - a QP connected to itself, and its memory */
struct raw {
	struct peer p;
	struct ibv_pd *parent;
	uint8_t *mem[4];	/* by resource type */
	size_t size[4];
	uint8_t *sq;
	uint32_t pi;
	volatile uint8_t *uar;
};

/** raw_open - creates a QP in RTS, connected to itself; ends the program on error */
void raw_open(struct raw *r);

/** raw_close - frees everything of raw_open() */
void raw_close(struct raw *r);

/** raw_db - the doorbell record of the QP */
struct ohca_hw_db *raw_db(struct raw *r);

/** raw_ring - rings a doorbell: @reg of the page @uar, for the object @handle */
void raw_ring(volatile uint8_t *uar, uint32_t reg, uint32_t handle, uint32_t index);

/** raw_post - copies @bbs basic blocks to the SQ unchanged, and rings */
void raw_post(struct raw *r, const void *wqe, uint32_t bbs);

/**
 * raw_good - writes a valid RDMA WRITE of 64 bytes to @bb, which the caller may change; returns @bb
 */
uint8_t *raw_good(struct raw *r, uint8_t bb[OHCA_BB_SIZE]);

#endif
