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

/* Headers that begin a message for an SRQ with tags, as in libibverbs' tm_types.h. */
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
	OHCA_TAG_TAKEN,		/* by a message */
};

/**
 * struct ohca_tag - a tagged buffer
 * @link: on a list of struct ohca_tm, or of the QP whose rendezvous it is for
 * @hdr: TMH and, of a rendezvous, RVH of the message that has taken it
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
 * @list: tags that take part in matching, in order; @wait: tags added while the counts of
 *	unexpected messages differed
 * @seen: unexpected messages; @told: the consumer's last count of them
 * @ci: list operations executed
 */
struct ohca_tm {
	struct ohca_list list, wait;
	uint16_t seen, told;
	uint32_t num_tags;
	uint32_t ci;
	uint8_t log_ops;
	struct ohca_tag tag[];
};

/* The first tag that matches, taken off the list; NULL if there is none */
struct ohca_tag *ohca_tm_take(struct ohca_srq *srq, uint64_t tag);
/* a message is unexpected, or will not have been: its receive failed */
void ohca_tm_unexpected(struct ohca_tm *tm);
void ohca_tm_not_unexpected(struct ohca_tm *tm);
/* whether the consumer should send its count soon */
bool ohca_tm_far_behind(const struct ohca_tm *tm);
/* fill in the fields of a CQE for the SRQ and the message that has taken @t (or NULL) */
void ohca_tm_cqe(const struct ohca_srq *srq, const struct ohca_tag *t, struct ohca_hw_cqe *c);
/* the message that has taken @t is complete: frees @t, and reports it in @c */
void ohca_tm_done(struct ohca_srq *srq, struct ohca_tag *t, struct ohca_hw_cqe *c);
/* The tag list of an SRQ whose queue is there. OHCA_ADMIN_OK or _NO_RESOURCE */
int ohca_tm_create(ohca_engine *e, struct ohca_srq *srq, uint32_t num_tags, uint8_t log_ops);
void ohca_tm_free(ohca_engine *e, struct ohca_srq *srq);
/* copy its list operations to where they are in @dst with 1 << @log_size WQEs; 0 or -1 */
int ohca_tm_copy(ohca_engine *e, const struct ohca_srq *srq, const struct ohca_pages *dst,
		 uint8_t log_size);
/* Execute list operations that are posted, as many as a turn and the allowance cover; the SRQ is
 * marked as rung if there may be more. */
void ohca_tm_run(ohca_engine *e, struct ohca_srq *srq);

#endif /* OHCA_OBJECT_TM_H */
