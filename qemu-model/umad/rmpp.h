/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RMPP (IBTA volume 1, 13.6): messages of more than one MAD, in segments that the receiver
 * acknowledges by windows. A message has the form that libibumad's users know: the headers of one
 * segment, then the data of all.
 *
 * Pure logic: callers pass the time, MADs are sent by struct um_rmpp_ops. The owner serializes
 * calls; its functions may not call back.
 */
#ifndef OHCA_UMAD_RMPP_H
#define OHCA_UMAD_RMPP_H

#include <infiniband/umad.h>

#include "ib/mad.h"

/* Longest message: the records of 400,000 nodes. */
#define UM_RMPP_MAX	(64u << 20)
/*
 * Transactions at a time. A new one that is received replaces the oldest complete one, or if none
 * is complete, the oldest one.
 */
#define UM_RMPP_SENDS	256u
#define UM_RMPP_RECVS	64u

/**
 * struct um_rmpp_ops - functions of the owner
 * @send: send one MAD to @to
 * @received: a message for @agent was received; @msg is freed by the caller
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
 * @recvs: messages that are being received, and recent complete ones, the newest first
 * @nsends: number of @sends
 * @nrecvs: number of @recvs
 */
struct um_rmpp {
	const struct um_rmpp_ops *ops;
	struct um_rmpp_send *sends;
	struct um_rmpp_recv *recvs;
	unsigned int nsends;
	unsigned int nrecvs;
};

#define UM_RMPP_HEADERS	36u	/* bytes of the common header and that of RMPP */

/**
 * um_rmpp_is() - whether a MAD of UM_RMPP_HEADERS bytes or more, or the first one of a message, is
 *	a part of an RMPP transaction
 */
bool um_rmpp_is(const void *mad);

/**
 * um_rmpp_send() - send a message
 * @agent: its number, for @failed
 * @to: destination
 * @msg: copied; the fields of the RMPP header except for RRespTime are written
 * @len: bytes
 * @timeout_ms: for an acknowledgment; 0: 2 s
 * @retries: number of repetitions of a window; at least 3
 * @now_ns: time
 *
 * Return: 0; -ENOMEM; -EMSGSIZE: longer than UM_RMPP_MAX or shorter than its headers; -ENOSPC: too
 * many at a time.
 */
int um_rmpp_send(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *to, const void *msg,
		 size_t len, unsigned int timeout_ms, unsigned int retries, int64_t now_ns);

/**
 * um_rmpp_receive() - process a received MAD for which um_rmpp_is() is true
 * @agent: its recipient, for @received
 *
 * Return: whether it is the next segment of a message, and not a repeated one, or the
 * acknowledgment of a whole message.
 */
bool um_rmpp_receive(struct um_rmpp *r, uint32_t agent, const ib_mad_addr_t *from,
		     const struct ib_mad *mad, int64_t now_ns);

/** um_rmpp_timer() - do what is due. Return: when to call again, INT64_MAX: not needed */
int64_t um_rmpp_timer(struct um_rmpp *r, int64_t now_ns);

/** um_rmpp_forget() - end all transactions of an agent, without a call of @failed */
void um_rmpp_forget(struct um_rmpp *r, uint32_t agent);

#endif
