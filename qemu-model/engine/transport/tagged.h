/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages for an SRQ with tags, and their rendezvous. */
#ifndef OHCA_TRANSPORT_TAGGED_H
#define OHCA_TRANSPORT_TAGGED_H

#include <stdint.h>

#include "engine/base/list.h"
#include "engine/engine.h"

struct ohca_hw_cqe;
struct ohca_qp;
struct ohca_rwqe;
struct ohca_rxpkt;
struct ohca_swqe;
struct ohca_tag;
struct ohca_xport;

/**
 * struct ohca_rndv - rendezvous of a QP with an SRQ with tags
 * @list: tags in use whose data the QP reads or will read, in order
 * @next: the first tag whose READ is not in the window; NULL: none
 * @reads: READs in the window
 */
struct ohca_rndv {
	struct ohca_list list;
	struct ohca_tag *next;
	uint32_t reads;
};

int ohca_tagged_create(ohca_engine *e, struct ohca_qp *qp);	/* 0 or -1 (memory) */
/* Drop all rendezvous; their tags complete as flushed. */
void ohca_tagged_reset(ohca_engine *e, struct ohca_xport *xp);
/* Take the buffer for the message that @p begins: a tag or a receive WQE. As ohca_rwqe_take() */
int ohca_tagged_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		     struct ohca_rwqe *r);
/* Report the match before the data is complete. -1: the CQ has no room */
int ohca_tagged_match(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r);
/* Queue the READ of the rendezvous that uses @r. -1: the CQ has no room */
int ohca_tagged_read(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r);
/* Fill in the CQE @c of the complete receive that uses @r. */
void ohca_tagged_cqe(struct ohca_qp *qp, struct ohca_rwqe *r, uint8_t status,
		     struct ohca_hw_cqe *c);
/* Create the next send WQE of a rendezvous. NULL: there is none, or no room */
struct ohca_swqe *ohca_tagged_next(ohca_engine *e, struct ohca_qp *qp);
/* A send WQE of a rendezvous is complete. */
void ohca_tagged_sent(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		      uint8_t status, uint16_t ve);

#endif /* OHCA_TRANSPORT_TAGGED_H */
