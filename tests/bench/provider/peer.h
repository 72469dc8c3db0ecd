/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Another provider of the same rdma-core over faked queues: its objects are made here, with what its
 * hot operations read, because its kernel driver and its device would make them.
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
 * struct peer - what tests/bench/provider/bench.c does with our provider
 * @setup: makes the QP and the CQ; with datagrams, or connected, which a provider may lack
 * @qp, @cq: set by @setup; @ah: for datagrams; @ex: NULL: no builders
 * @post_send, @post_recv, @poll_cq: the operations
 * @device: the device has taken everything
 * @complete: it has written one more CQE, of a send
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

/** peer_memory() - zeroed, on a page of its own; ends the process if there is none */
void *peer_memory(size_t n);

#endif
