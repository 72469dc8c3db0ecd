/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A QP that posts, for tests of the WQEs. */
#ifndef POST_H
#define POST_H

#include "fake.h"

#define QKEY	0x11111111u
#define DQPN	0x123456u

/**
 * struct env - objects that setup() makes; make_qp() adds the QP
 * @ctx: the device
 * @pd: protection domain of all
 * @cq: for sends and receives
 * @ah: of a destination with a GRH
 * @qp: the QP, or NULL
 * @ibqp: the same as an object of libibverbs; teardown() destroys it
 * @ex: the same, for builders
 */
struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	struct ohca_qp *qp;
	struct ibv_qp *ibqp;
	struct ibv_qp_ex *ex;
};

/* 64 bytes to send, and the SGE for them. */
extern struct ibv_sge sge;
extern const uint8_t sge_bytes[16];

/* The record of the QP's doorbells. */
struct ohca_hw_db *db(struct env *e);
/* Block @pi of the SQ's ring; @pi runs freely. */
void *bb(struct env *e, uint32_t pi);
void set_state(struct env *e, enum ibv_qp_state state);
void make_qp(struct env *e, enum ibv_qp_type type, struct ibv_qp_cap cap);

/* Run before and after each test; @state is the struct env. */
int setup(void **state);
int teardown(void **state);

/* Posts a list of work requests. Return: the result of post_send. */
int post(struct env *e, struct ibv_send_wr *wr);

#endif /* POST_H */
