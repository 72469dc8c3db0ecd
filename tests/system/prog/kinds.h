/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages by SRQ, XRC, UC and UD, in addition to the RC messages of a session in endure.c. */
#ifndef KINDS_H
#define KINDS_H

#include "peer.h"

/** enum kind - QPs of one session; those of @KIND_XRC_IN receive only */
enum kind { KIND_SRQ, KIND_SRQ2, KIND_XRC, KIND_UC, KIND_UD, KIND_XRC_IN, KINDS };

/* wr_id of sends is KINDS_SENT + kind, of receives KINDS_GOT + slot; bits of awaited completions */
#define KINDS_SENT	8u
#define KINDS_GOT	32u
#define KINDS_GOT_BIT	16u
/* bits that the requesting side awaits, and those of the responding side */
#define KINDS_ASKED	(0x1fu << KINDS_SENT)
#define KINDS_ANSWERED	(7u << KINDS_GOT_BIT)

/** struct kinds_info - numbers that both sides exchange */
struct kinds_info {
	uint32_t qpn[KINDS], srqn;
};

/**
 * struct kinds - objects of one session
 * @loose: completions of messages that may be lost: UC and UD
 * @next: smallest possible number of the next block by UC; @came: messages received by UC and UD
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

/** kinds_open - creates all objects; reliable completions go to @cq; 0 or an errno */
int kinds_open(struct kinds *k, struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_cq *cq);

/** kinds_connect - connects to @k->you at a LID; 0 or an errno */
int kinds_connect(struct kinds *k, struct ibv_pd *pd, uint32_t lid);

/** kinds_ask - sends one message of each kind with @number; 0 or an errno */
int kinds_ask(struct kinds *k, uint32_t number);

/** kinds_got - checks a reliable message of @number. Return: its bit; 0: posting failed */
uint32_t kinds_got(struct kinds *k, const struct ibv_wc *wc, uint32_t number);

/** kinds_loose - checks messages received by UC and UD; none is newer than @number */
void kinds_loose(struct kinds *k, uint32_t number);

/** kinds_close - destroys all objects, also after an incomplete kinds_open() */
void kinds_close(struct kinds *k);

#endif
