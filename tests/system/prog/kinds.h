/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages by SRQ, XRC, UC and UD, beside those by RC of a session that endure.c keeps. */
#ifndef KINDS_H
#define KINDS_H

#include "peer.h"

/** enum kind - QPs of one session; those of @KIND_XRC_IN receive only */
enum kind { KIND_SRQ, KIND_SRQ2, KIND_XRC, KIND_UC, KIND_UD, KIND_XRC_IN, KINDS };

/* wr_id of sends is KINDS_SENT + kind, of receives KINDS_GOT + slot; bits of what is waited for */
#define KINDS_SENT	8u
#define KINDS_GOT	32u
#define KINDS_GOT_BIT	16u
/* what who asks waits for, and who answers */
#define KINDS_ASKED	(0x1fu << KINDS_SENT)
#define KINDS_ANSWERED	(7u << KINDS_GOT_BIT)

/** struct kinds_info - what one side tells the other */
struct kinds_info {
	uint32_t qpn[KINDS], srqn;
};

/**
 * struct kinds - what they consist of
 * @loose: completions of what may be lost on its way: UC and UD
 * @next: number of the next block by UC, at least; @came: messages by UC and UD
 */
struct kinds {
	struct ibv_mr *mr;
	struct ibv_cq *loose;
	struct ibv_srq *srq, *xsrq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp[KINDS];
	struct ibv_ah *ah;
	struct kinds_info me, you;
	uint32_t next, came;
};

/** kinds_open - all objects; reliable completions go to @cq; 0 or an errno */
int kinds_open(struct kinds *k, struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq);

/** kinds_connect - to @k->you at a LID; 0 or an errno */
int kinds_connect(struct kinds *k, struct ibv_pd *pd, uint32_t lid);

/** kinds_ask - one message of each kind, numbered; 0 or an errno */
int kinds_ask(struct kinds *k, uint32_t number);

/** kinds_got - a reliable message, which must be of @number: its bit, 0 if nothing can be posted */
uint32_t kinds_got(struct kinds *k, const struct ibv_wc *wc, uint32_t number);

/** kinds_loose - the messages by UC and UD that came; none is newer than @number */
void kinds_loose(struct kinds *k, uint32_t number);

/** kinds_close - everything that was made, even if that was not all */
void kinds_close(struct kinds *k);

#endif
