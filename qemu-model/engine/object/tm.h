/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tag lists of SRQs. */
#ifndef OHCA_OBJECT_TM_H
#define OHCA_OBJECT_TM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/list.h"
#include "engine/engine.h"
#include "engine/object/rwqe.h"

struct ohca_hw_cqe;
struct ohca_pages;
struct ohca_srq;

/* A message for an SRQ with tags begins with these headers, as in libibverbs' tm_types.h. */
#define OHCA_TMH_LEN	16u
#define OHCA_RVH_LEN	16u
enum ohca_tmh_op {
	OHCA_TMH_NO_TAG	= 0,
	OHCA_TMH_RNDV	= 1,
	OHCA_TMH_FIN	= 2,
	OHCA_TMH_EAGER	= 3,
};

enum ohca_tag_state {
	OHCA_TAG_FREE,
	OHCA_TAG_LISTED,	/* on the list or waiting for it */
	OHCA_TAG_TAKEN,		/* in use by a message */
};

/**
 * struct ohca_tag - a tagged buffer
 * @link: on a list of struct ohca_tm, or of the QP that receives its rendezvous
 * @tag, @mask: it matches the tag of a message if (message tag & @mask) == @tag
 * @hdr: TMH, and RVH of a rendezvous, of the message that uses it
 */
struct ohca_tag {
	struct ohca_list link;
	uint64_t wr_id;
	uint64_t tag, mask;
	struct ohca_sge sge;
	uint8_t num_sge;
	uint8_t state;		/* enum ohca_tag_state */
	uint8_t hdr[OHCA_TMH_LEN + OHCA_RVH_LEN];
};

/**
 * struct ohca_tm - tag list of an SRQ
 * @list: tags that messages are matched with, in order
 * @wait: tags that were added while @seen and @told differed
 * @seen: unexpected messages, modulo 2^16; @told: the consumer's last count of them
 * @num_tags: size of @tag
 * @ci: list operations executed
 * @log_ops: log2 of the size of the ring of list operations
 */
struct ohca_tm {
	struct ohca_list list, wait;
	uint16_t seen, told;
	uint32_t num_tags;
	uint32_t ci;
	uint8_t log_ops;
	struct ohca_tag tag[];
};

/* Remove the first tag that matches @tag from the list. Return: the tag; NULL: none matches */
struct ohca_tag *ohca_tm_take(ohca_engine *e, struct ohca_srq *srq, uint64_t tag);
/* Count an unexpected message; count it back because its receive failed */
void ohca_tm_unexpected(struct ohca_tm *tm);
void ohca_tm_not_unexpected(struct ohca_tm *tm);
/* Whether the consumer should send its count soon */
bool ohca_tm_far_behind(const struct ohca_tm *tm);
/* Set the fields of a CQE for the SRQ and for the message that uses @t (or NULL) */
void ohca_tm_cqe(const struct ohca_srq *srq, const struct ohca_tag *t, struct ohca_hw_cqe *c);
/* The message that uses @t is complete: free @t, and report that in @c */
void ohca_tm_done(struct ohca_srq *srq, struct ohca_tag *t, struct ohca_hw_cqe *c);
/* Create the tag list of an SRQ. OHCA_ADMIN_OK or _NO_RESOURCE */
int ohca_tm_create(ohca_engine *e, struct ohca_srq *srq, uint32_t num_tags, uint8_t log_ops);
void ohca_tm_free(ohca_engine *e, struct ohca_srq *srq);
/*
 * RESIZE_SRQ: copy the list operations to their place in the new buffer, job->buf, which is for
 * 1 << @log_size WQEs, as far as the allowance of work covers. OHCA_ADMIN_OK, _DMA or OHCA_CMD_MORE
 */
int ohca_tm_move(ohca_engine *e, const struct ohca_srq *srq, uint8_t log_size);
/*
 * Execute posted list operations, as many as a turn and the allowance of work cover. Rings the
 * doorbell of the SRQ again if there may be more.
 */
void ohca_tm_run(ohca_engine *e, struct ohca_srq *srq);

#endif /* OHCA_OBJECT_TM_H */
