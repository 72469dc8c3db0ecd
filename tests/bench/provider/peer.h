/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Another provider of the same rdma-core over faked queues. This code makes the objects, with the
 * fields that hot operations read, in place of the provider's kernel driver and device.
 */
#ifndef OHCA_BENCH_PEER_H
#define OHCA_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define PEER_DEPTH	128u
#define PEER_CQES	1024u
#define PEER_QPN	5u

/**
 * struct peer - the operations that tests/bench/provider/bench.c measures
 * @setup: makes the QP and the CQ, for datagrams or connected; false if the provider has no such QP
 * @qp, @cq: set by @setup; @ah: for datagrams; @ex: NULL if there are no builders
 * @post_send, @post_recv, @poll_cq: the operations
 * @device: marks everything as executed by the device
 * @complete: writes one more CQE, of a send
 */
struct peer {
	bool (*setup)(struct peer *p, bool ud);
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	void (*device)(void);
	void (*complete)(void);
};

/* Each program has one. */
extern struct peer peer;

/** peer_memory() - zeroed memory that begins at a page; ends the process if there is none */
void *peer_memory(size_t n);

#endif
