/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queue pairs: the part that commands use.
 *
 * States (IBTA vol 1, 10.3.1; transitions and attributes are in qp_modify.c):
 *
 *	RESET --> INIT --> RTR --> RTS <--> SQD		to RESET from everywhere, to ERR
 *	                           | ^			from all but RESET
 *	            error of a     v |  MODIFY_QP	ERR also by the device:
 *	            send WQE       SQE			ohca_qp_error()
 *	            (UC, UD)
 *
 * INIT accepts receive WQEs. RTR also receives packets. RTS also sends. SQD completes the WQEs that
 * it has begun to send. SQE flushes the send queue and receives. ERR flushes both queues.
 */
#ifndef OHCA_OBJECT_QP_H
#define OHCA_OBJECT_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/async.h"
#include "engine/base/guestmem.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/engine.h"
#include "engine/object/srq.h"
#include "ib/packet.h"
#include "ohca_hw.h"

struct ohca_alt_path;
struct ohca_cmd;
struct ohca_counter_set;
struct ohca_cq;
struct ohca_pd;
struct ohca_xport;
struct ohca_xrcd;

/**
 * struct ohca_qp - queue pair
 *
 * Sending a message needs the first two cache lines, receiving needs the first three.
 * @handle: number in doorbells and CQEs; @wire_qpn: number on the wire
 * @uar: its doorbell page; XRC_TGT: that of the SRQ that the last request named, or 0
 * @xp: the transport's part
 * @counters: set of counters that it is bound to, or NULL
 * @xrcd: XRC domain of an XRC_TGT QP, else NULL; @target: on the list of this domain. Such a QP has
 *	no reference to @pd, @rcq and @srq, see xrc.c
 * @mig_state: enum ohca_mig_state; @alt: the alternate path; may be NULL in MIGRATED only
 * @going: it is being destroyed or reset: it sends and receives nothing
 * @rq_ci: consumer index of the RQ; @rq_pi: producer index of the RQ, as last read
 * @av: primary path, little-endian as the driver gave it
 * @mig_refused: PATH_MIG_ERR was raised since the last rearm
 * @qkey, @dest_qpn, @access, @pkey_index, @path_mtu (1 to 5), @timeout, @retry_cnt, @rnr_retry,
 * @min_rnr_timer, @max_rd_atomic, @max_dest_rd_atomic: attributes, in CPU order
 * @rq_psn, @sq_psn: as set by MODIFY_QP
 * @windows: type 2 memory windows that are bound to it
 */
struct ohca_qp {
	_Alignas(OHCA_CACHE_LINE)
	uint32_t handle;
	uint32_t wire_qpn;
	uint8_t type;		/* enum ohca_qp_type */
	uint8_t state;		/* enum ohca_qp_state */
	uint8_t flags;		/* OHCA_QP_* */
	uint8_t port;		/* index from 0; valid from INIT on */
	uint32_t uar;
	struct ohca_xport *xp;
	struct ohca_pd *pd;
	struct ohca_cq *scq;
	struct ohca_counter_set *counters;
	struct ohca_srq *srq;
	struct ohca_xrcd *xrcd;

	struct ohca_pages buf;
	uint64_t sq_off, rq_off;
	uint32_t dest_qpn, access;
	uint16_t pkey_index;
	uint8_t log_sq, log_rq, log_rq_stride;
	uint8_t path_mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t mig_state;
	bool going;
	bool en_sqd_notify, sqd_draining;

	struct ohca_cq *rcq;
	uint32_t rq_ci;
	uint32_t rq_pi;
	struct ohca_hw_av av;

	struct ohca_alt_path *alt;
	uint32_t qkey;
	uint32_t rq_psn, sq_psn;
	uint32_t mcast_refs;
	struct ohca_list target;
	struct ohca_list windows;
	struct ohca_async async;
	bool mig_refused;
};

_Static_assert(offsetof(struct ohca_qp, buf) == OHCA_CACHE_LINE &&
	       offsetof(struct ohca_qp, rcq) == 2 * OHCA_CACHE_LINE &&
	       offsetof(struct ohca_qp, alt) == 3 * OHCA_CACHE_LINE,
	       "what messages need is in three cache lines");

/* MigReq in the BTH of packets that the QP sends (IBTA vol 1, 17.2.8) */
static inline uint8_t ohca_qp_migreq(const struct ohca_qp *qp)
{
	return qp->mig_state == OHCA_MIG_MIGRATED ? IB_BTH_MIGREQ : 0;
}

/* Whether its service is reliable: RC or XRC. */
static inline bool ohca_qp_reliable(const struct ohca_qp *qp)
{
	return qp->type == OHCA_QPT_RC || qp->type == OHCA_QPT_XRC_INI ||
	       qp->type == OHCA_QPT_XRC_TGT;
}

/*
 * The PD of the L_Keys in receive WQEs and tagged buffers: the SRQ's, which may differ from the
 * QP's (IBTA vol 1, 10.2.9.2). R_Keys, and L_Keys of send WQEs, belong to the QP's PD.
 */
static inline const struct ohca_pd *ohca_recv_pd(const struct ohca_qp *qp)
{
	return qp->srq ? qp->srq->pd : qp->pd;
}

/* Whether it sends datagrams: UD, SMI or GSI */
static inline bool ohca_qp_datagram(const struct ohca_qp *qp)
{
	return qp->type == OHCA_QPT_SMI || qp->type == OHCA_QPT_GSI ||
	       qp->type == OHCA_QPT_UD;
}

/* QP by its number on the wire at a port (0 and 1 are the port's SMI and GSI) */
struct ohca_qp *ohca_qp_by_wire(ohca_engine *e, unsigned int port, uint32_t qpn);
/* QP 0 or 1 of a port, for MADs that the agents do not handle. NULL: none, or QP 0 with smp_off */
struct ohca_qp *ohca_qp_of_software(ohca_engine *e, unsigned int port, uint32_t qpn);
/*
 * Move to ERR because of an error. @ev: asynchronous event to raise, or 0. Calls ohca_xp_state().
 * The transport may call it at any point of packet handling. It has no effect on a QP that is in
 * ERR or RESET, or is being reset or destroyed.
 */
void ohca_qp_error(ohca_engine *e, struct ohca_qp *qp, enum ohca_event ev, uint32_t vendor_err);
/* Move an RTS UC, UD, SMI or GSI QP to SQE after a send completed in error */
void ohca_qp_sqe(ohca_engine *e, struct ohca_qp *qp, uint32_t vendor_err);
/* The object with this number; NULL: there is none. */
struct ohca_qp *ohca_qp_get(ohca_engine *e, uint32_t handle);
/* Free the object at destroy or reset; nothing refers to it, and no window is bound to it. */
void ohca_qp_free(ohca_engine *e, struct ohca_qp *qp);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_create_qp(struct ohca_cmd *c);
int ohca_cmd_destroy_qp(struct ohca_cmd *c);
int ohca_cmd_modify_qp(struct ohca_cmd *c);
int ohca_cmd_query_qp(struct ohca_cmd *c);
int ohca_cmd_resize_qp(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_QP_H */
