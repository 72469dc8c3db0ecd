/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RMPP (IBTA volume 1, 13.6): messages of more than one MAD, in segments that the receiver
 * acknowledges by windows. A message is what libibumad's users have: the headers of one segment,
 * then the data of all.
 *
 * Pure logic: time is passed in, MADs leave by struct um_rmpp_ops. The owner serializes calls; none
 * of its functions may call back.
 */
#ifndef OHCA_UMAD_RMPP_H
#define OHCA_UMAD_RMPP_H

#include <infiniband/umad.h>

#include "ib/mad.h"

/* A message is at most so long: the records of 400,000 nodes. */
#define UM_RMPP_MAX	(64u << 20)
/*
 * Transactions at a time. One that is received makes room for another: the oldest one that is
 * complete, or if none is, the oldest one.
 */
#define UM_RMPP_SENDS	256u
#define UM_RMPP_RECVS	64u

/**
 * struct um_rmpp_ops - what the owner does
 * @send: one MAD to @to
 * @received: a message has come for @agent; @msg is freed by the caller
 * @failed: a message of @agent did not arrive; @msg as it was sent
 */
struct um_rmpp_ops {
	void (*send)(const ib_mad_addr_t *to, const struct ib_mad *mad);
	void (*received)(uint32_t agent, const ib_mad_addr_t *from, const uint8_t *msg, size_t len);
	void (*failed)(uint32_t agent, const ib_mad_addr_t *to, const uint8_t *msg);
};

struct um_rmpp_send;
struct um_rmpp_recv;

/**
 * struct um_rmpp - all transactions
 * @ops: the owner's
 * @sends: messages that are sent
 * @recvs: messages that are received, and those that were a short time ago, the newest first
 * @nsends: how many
 * @nrecvs: how many
 */
struct um_rmpp {
	const struct um_rmpp_ops *ops;
	struct um_rmpp_send *sends;
	struct um_rmpp_recv *recvs;
	unsigned int nsends;
	unsigned int nrecvs;
};

#define UM_RMPP_HEADERS	36u	/* bytes of the common header and that of RMPP */

/** um_rmpp_is() - a MAD of UM_RMPP_HEADERS bytes or more, or the first one of a message, is a part of an RMPP transaction */
bool um_rmpp_is(const void *mad);

/**
 * um_rmpp_send() - send a message
 * @agent: its number, for @failed
 * @to: where
 * @msg: a copy is kept; the fields of the RMPP header beside RRespTime are written
 * @len: bytes
 * @timeout_ms: for an acknowledgment; 0: 2 s
 * @retries: how often a window is sent again; at least 3
 * @now_ns: time
 *
 * Return: 0; -ENOMEM; -EMSGSIZE: longer than UM_RMPP_MAX or shorter than its headers; -ENOSPC: too
 * many at a time.
 */
int um_rmpp_send(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *to, const void *msg,
		 size_t len, unsigned int timeout_ms, unsigned int retries, int64_t now_ns);

/**
 * um_rmpp_receive() - a MAD for which um_rmpp_is() holds has come
 * @agent: whose it is, for @received
 *
 * Return: whether it is the next segment of a message, and not a repeated one, or the acknowledgment of
 * a whole one.
 */
bool um_rmpp_receive(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *from,
		     const struct ib_mad *mad, int64_t now_ns);

/** um_rmpp_timer() - what is due; Return: when to call again, INT64_MAX: not by itself */
int64_t um_rmpp_timer(struct um_rmpp *r, int64_t now_ns);

/** um_rmpp_forget() - end all transactions of an agent, without a word to it */
void um_rmpp_forget(struct um_rmpp *r, uint32_t agent);

#endif
