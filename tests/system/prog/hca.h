/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Adapters of one process, and QPs on them, for programs that use all rails of a node. */
#ifndef HCA_H
#define HCA_H

#include "peer.h"

#define HCA_RAILS	2u	/* maximum, one adapter each */
#define HCA_DEPTH	64u	/* WQEs of each queue */
#define HCA_INLINE	64u	/* bytes */
/* 67 ms; with the retries a QP without a connection fails within 1 to 2 s */
#define HCA_TIMEOUT	14

/** struct hca - an adapter; @lid: of port 1; @gid: the first one of port 1, big endian */
struct hca {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	uint16_t lid;
	union ibv_gid gid;
};

/** struct hca_path - address of the QP at the other end; @grh: with a GRH in addition to the LID */
struct hca_path {
	uint16_t lid;
	union ibv_gid gid;
	bool grh;
	uint32_t qpn, rq_psn, sq_psn;
	uint8_t timeout;
};

/**
 * hca_open_all - opens the first adapters, %HCA_RAILS at most, with PD and a nonblocking channel
 *
 * Each must be an InfiniBand device with an ACTIVE port. Returns their number, at least 1.
 */
unsigned int hca_open_all(struct hca hca[HCA_RAILS]);

/** hca_active - whether port 1 is ACTIVE; sets @h->lid to its LID */
bool hca_active(struct hca *h);

/** hca_reg - a region for WRITEs and READs of peers, by ibv_reg_mr_iova2(), relaxed ordering */
struct ibv_mr *hca_reg(struct hca *h, void *buf, size_t len);

/** hca_cq - a CQ of @cqe entries; @events: with events by the adapter's channel */
struct ibv_cq *hca_cq(struct hca *h, unsigned int cqe, bool events);

/** hca_qp - a QP of depth %HCA_DEPTH in INIT, for WRITEs and READs of peers */
struct ibv_qp *hca_qp(struct hca *h, struct ibv_cq *cq, enum ibv_qp_type type);

/** hca_qp_again - moves a QP to RESET and INIT */
void hca_qp_again(struct ibv_qp *qp);

/** hca_qp_rts - moves a QP from INIT to RTS */
void hca_qp_rts(struct ibv_qp *qp, const struct hca_path *to);

/** hca_psn - first PSN of a QP with this number for connection number @epoch */
uint32_t hca_psn(uint32_t qpn, uint32_t epoch);

/**
 * hca_sleep - until an adapter's channel has an event, @fd (-1: none) has input, or @ms are over
 *
 * Consumes the events. Returns whether there was anything.
 */
bool hca_sleep(const struct hca *hca, unsigned int n, int fd, int ms);

#endif
