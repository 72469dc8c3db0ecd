/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Adapters of one process, and QPs on them, for programs that use all rails of a node. */
#ifndef HCA_H
#define HCA_H

#include "peer.h"

#define HCA_RAILS	2u	/* at most, one adapter each */
#define HCA_DEPTH	64u	/* WQEs of each queue */
#define HCA_INLINE	64u	/* bytes */
/* 67 ms; with the retries a QP that is cut off fails within 1 to 2 s */
#define HCA_TIMEOUT	14

/** struct hca - an adapter; @lid: of port 1; @gid: the first one of port 1, big endian */
struct hca {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	uint16_t lid;
	union ibv_gid gid;
};

/** struct hca_path - to the QP at the other end; @grh: with a GRH beside the LID */
struct hca_path {
	uint16_t lid;
	union ibv_gid gid;
	bool grh;
	uint32_t qpn, rq_psn, sq_psn;
	uint8_t timeout;
};

/**
 * hca_open_all - the first adapters, %HCA_RAILS at most, with PD and a channel that does not block
 *
 * Each must be of InfiniBand, and ACTIVE. Returns how many there are, 1 at least.
 */
unsigned int hca_open_all(struct hca hca[HCA_RAILS]);

/** hca_active - whether port 1 is ACTIVE; its LID becomes @h->lid */
bool hca_active(struct hca *h);

/** hca_reg - a region that peers may WRITE and READ, by ibv_reg_mr_iova2(), relaxed ordering */
struct ibv_mr *hca_reg(struct hca *h, void *buf, size_t len);

/** hca_cq - a CQ of @cqe entries, whose events come by the adapter's channel if @events */
struct ibv_cq *hca_cq(struct hca *h, unsigned int cqe, bool events);

/** hca_qp - a QP of %HCA_DEPTH, in INIT, that peers may WRITE to and READ from */
struct ibv_qp *hca_qp(struct hca *h, struct ibv_cq *cq, enum ibv_qp_type type);

/** hca_qp_again - by RESET to INIT */
void hca_qp_again(struct ibv_qp *qp);

/** hca_qp_rts - from INIT to RTS */
void hca_qp_rts(struct ibv_qp *qp, const struct hca_path *to);

/** hca_psn - where a QP of this number begins when it is connected for the @epoch'th time */
uint32_t hca_psn(uint32_t qpn, uint32_t epoch);

/**
 * hca_sleep - until an adapter's channel has an event, @fd (-1: none) has input, or @ms are over
 *
 * Takes the events. Returns whether there was anything.
 */
bool hca_sleep(const struct hca *hca, unsigned int n, int fd, int ms);

#endif
