/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MODIFY_QP: legal transitions, and their required and optional attributes (IBTA vol 1, 10.3.1 and
 * 11.2.5.2). Other attributes are refused: attributes that packets under way depend on, such as the
 * path MTU and the PSNs, must not change.
 */
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/apm.h"
#include "engine/object/eq.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

#define A(name)		OHCA_ATTR_##name
#define MODIFY_KNOWN	(A(CAP) | (A(CAP) - 1) | A(DEST_QPN))

/* MODIFY_QP does not change the capabilities of a QP. */
#define MODIFY_REFUSED	A(CAP)

enum service { SVC_RC, SVC_UC, SVC_UD, SVC_SPECIAL, SVC_XRC_INI, SVC_XRC_TGT, SVC_NUM };

/**
 * struct transition - one legal transition
 * @from, @to: enum ohca_qp_state
 * @services: bit n: service n has it; zero: all have it
 * @need: required attributes beside the state, by service
 * @may: optional attributes, by service
 */
struct transition {
	uint8_t from, to;
	uint8_t services;
	uint32_t need[SVC_NUM], may[SVC_NUM];
};

#define UNRELIABLE	(1u << SVC_UC | 1u << SVC_UD | 1u << SVC_SPECIAL)
#define INIT_CONNECTED	(A(PKEY_INDEX) | A(PORT) | A(ACCESS))
#define RTR_CONNECTED	(A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN))

/* Optional attributes of transitions to RTS. */
#define RTS_MAY {								\
		[SVC_RC] = A(ACCESS) | A(MIN_RNR_TIMER) | A(ALT_PATH) |		\
			   A(PATH_MIG_STATE),					\
		[SVC_UC] = A(ACCESS) | A(ALT_PATH) | A(PATH_MIG_STATE),		\
		[SVC_UD] = A(QKEY),						\
		[SVC_SPECIAL] = A(QKEY),					\
		[SVC_XRC_INI] = A(ACCESS) | A(ALT_PATH) | A(PATH_MIG_STATE),	\
		[SVC_XRC_TGT] = A(ACCESS) | A(MIN_RNR_TIMER) | A(ALT_PATH) |	\
				A(PATH_MIG_STATE),				\
	}

static const struct transition transitions[] = {
	{ OHCA_QPS_RESET, OHCA_QPS_INIT, 0, {
		[SVC_RC] = INIT_CONNECTED,
		[SVC_UC] = INIT_CONNECTED,
		[SVC_UD] = A(PKEY_INDEX) | A(PORT) | A(QKEY),
		[SVC_SPECIAL] = A(PKEY_INDEX) | A(QKEY),
		[SVC_XRC_INI] = INIT_CONNECTED,
		[SVC_XRC_TGT] = INIT_CONNECTED,
	}, { [SVC_SPECIAL] = A(PORT) } },
	{ OHCA_QPS_INIT, OHCA_QPS_INIT, 0, { 0 }, {
		[SVC_RC] = INIT_CONNECTED,
		[SVC_UC] = INIT_CONNECTED,
		[SVC_UD] = A(PKEY_INDEX) | A(PORT) | A(QKEY),
		[SVC_SPECIAL] = A(PKEY_INDEX) | A(QKEY),
		[SVC_XRC_INI] = INIT_CONNECTED,
		[SVC_XRC_TGT] = INIT_CONNECTED,
	} },
	{ OHCA_QPS_INIT, OHCA_QPS_RTR, 0, {
		[SVC_RC] = RTR_CONNECTED | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER),
		[SVC_UC] = RTR_CONNECTED,
		[SVC_XRC_INI] = RTR_CONNECTED,
		[SVC_XRC_TGT] = RTR_CONNECTED | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER),
	}, {
		[SVC_RC] = A(ACCESS) | A(PKEY_INDEX) | A(ALT_PATH),
		[SVC_UC] = A(ACCESS) | A(PKEY_INDEX) | A(ALT_PATH),
		[SVC_XRC_INI] = A(ACCESS) | A(PKEY_INDEX) | A(ALT_PATH),
		[SVC_XRC_TGT] = A(ACCESS) | A(PKEY_INDEX) | A(ALT_PATH),
		[SVC_UD] = A(PKEY_INDEX) | A(QKEY),
		[SVC_SPECIAL] = A(PKEY_INDEX) | A(QKEY),
	} },
	{ OHCA_QPS_RTR, OHCA_QPS_RTS, 0, {
		[SVC_RC] = A(SQ_PSN) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) |
			   A(MAX_RD_ATOMIC),
		[SVC_UC] = A(SQ_PSN),
		[SVC_UD] = A(SQ_PSN),
		[SVC_SPECIAL] = A(SQ_PSN),
		[SVC_XRC_INI] = A(SQ_PSN) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) |
				A(MAX_RD_ATOMIC),
		/* consumers set these two for XRC_INI and XRC_TGT, A14.4 */
		[SVC_XRC_TGT] = A(SQ_PSN) | A(TIMEOUT),
	}, RTS_MAY },
	{ OHCA_QPS_RTS, OHCA_QPS_RTS, 0, { 0 }, RTS_MAY },
	{ OHCA_QPS_RTS, OHCA_QPS_SQD, 0, { 0 }, {
		A(EN_SQD_NOTIFY), A(EN_SQD_NOTIFY), A(EN_SQD_NOTIFY), A(EN_SQD_NOTIFY),
		A(EN_SQD_NOTIFY), A(EN_SQD_NOTIFY),
	} },
	{ OHCA_QPS_SQD, OHCA_QPS_RTS, 0, { 0 }, RTS_MAY },
	{ OHCA_QPS_SQD, OHCA_QPS_SQD, 0, { 0 }, {
		[SVC_RC] = A(PORT) | A(AV) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) |
			   A(MAX_RD_ATOMIC) | A(MAX_DEST_RD_ATOMIC) | A(ACCESS) |
			   A(PKEY_INDEX) | A(MIN_RNR_TIMER) | A(ALT_PATH) |
			   A(PATH_MIG_STATE),
		[SVC_UC] = A(AV) | A(ACCESS) | A(PKEY_INDEX) | A(ALT_PATH) |
			   A(PATH_MIG_STATE),
		[SVC_XRC_INI] = A(PORT) | A(AV) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) |
				A(MAX_RD_ATOMIC) | A(ACCESS) | A(PKEY_INDEX) |
				A(ALT_PATH) | A(PATH_MIG_STATE),
		[SVC_XRC_TGT] = A(PORT) | A(AV) | A(TIMEOUT) | A(MAX_DEST_RD_ATOMIC) |
				A(ACCESS) | A(PKEY_INDEX) | A(MIN_RNR_TIMER) |
				A(ALT_PATH) | A(PATH_MIG_STATE),
		[SVC_UD] = A(PKEY_INDEX) | A(QKEY),
		[SVC_SPECIAL] = A(PKEY_INDEX) | A(QKEY),
	} },
	{ OHCA_QPS_SQE, OHCA_QPS_RTS, UNRELIABLE, { 0 }, {
		[SVC_UC] = A(ACCESS),
		[SVC_UD] = A(QKEY),
		[SVC_SPECIAL] = A(QKEY),
	} },
};

static enum service service_of(const struct ohca_qp *qp)
{
	switch (qp->type) {
	case OHCA_QPT_RC:
		return SVC_RC;
	case OHCA_QPT_UC:
		return SVC_UC;
	case OHCA_QPT_UD:
		return SVC_UD;
	case OHCA_QPT_XRC_INI:
		return SVC_XRC_INI;
	case OHCA_QPT_XRC_TGT:
		return SVC_XRC_TGT;
	default:
		return SVC_SPECIAL;
	}
}

/* Whether the transition of @qp to state @to with the attributes @mask is legal. */
static bool transition_ok(const struct ohca_qp *qp, uint8_t to, uint32_t mask)
{
	enum service svc = service_of(qp);

	mask &= ~(A(STATE) | A(CUR_STATE));
	/* legal from every state, but not from RESET to ERR (IBTA vol 1, figure 124) */
	if (to == OHCA_QPS_RESET || to == OHCA_QPS_ERR)
		return !mask && (to == OHCA_QPS_RESET || qp->state != OHCA_QPS_RESET);
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from == qp->state && t->to == to &&
		    (!t->services || (t->services & 1u << svc)))
			return (mask & t->need[svc]) == t->need[svc] &&
			       !(mask & ~(t->need[svc] | t->may[svc]));
	}
	return false;
}

/* Check an address vector; @at: its offset in the mailbox, for the syndrome */
static int check_av(struct ohca_cmd *c, const struct ohca_hw_av *av, size_t at)
{
#define BAD_AV(member) (c->syndrome = (uint16_t)(OHCA_AQ_ENTRY_SIZE + at +	\
			offsetof(struct ohca_hw_av, member)), OHCA_ADMIN_BAD_PARAM)
	if (av->sl > 15)
		return BAD_AV(sl);
	if (av->src_path_bits > 127)
		return BAD_AV(src_path_bits);
	if (av->flags & ~OHCA_AV_GRH)
		return BAD_AV(flags);
	if (ohca_le32(av->flow_tclass) & ~(OHCA_AV_FLOW_LABEL | OHCA_AV_TCLASS))
		return BAD_AV(flow_tclass);
	if (av->port > c->e->cfg.num_ports)
		return BAD_AV(port);
	for (size_t i = 0; i < sizeof(av->reserved); i++)
		if (av->reserved[i])
			return BAD_AV(reserved);
	return OHCA_ADMIN_OK;
#undef BAD_AV
}

#define BAD(member) OHCA_BAD_MBOX(c, struct ohca_hw_qp_attr, member)

static int check_alt(struct ohca_cmd *c, const struct ohca_hw_qp_attr *a)
{
	if (ohca_le16(a->alt_pkey_index) >= OHCA_MAX_PKEYS)
		return BAD(alt_pkey_index);
	if (a->alt_timeout > 31)
		return BAD(alt_timeout);
	if (a->alt_av.port < 1)
		return BAD(alt_av.port);
	return check_av(c, &a->alt_av, offsetof(struct ohca_hw_qp_attr, alt_av));
}

/*
 * Check the attributes of path migration. Only the device sets ARMED, after a packet of the peer. A
 * driver that replaces the alternate path of an armed QP must rearm it. MIGRATED is refused in
 * REARM, since a peer that is not armed would not migrate. Without OHCA_FEATURE_APM no QP has an
 * alternate path.
 */
static int check_mig(struct ohca_cmd *c, const struct ohca_qp *qp,
		     const struct ohca_hw_qp_attr *a, uint32_t mask)
{
	bool set = mask & A(PATH_MIG_STATE), rearm = set && a->path_mig_state == OHCA_MIG_REARM;

	if (set && a->path_mig_state &&
	    (!rearm || !(qp->alt || mask & A(ALT_PATH))))
		return BAD(path_mig_state);
	if (mask & A(ALT_PATH) && qp->mig_state == OHCA_MIG_ARMED && !rearm)
		return OHCA_ADMIN_BAD_STATE;
	if (set && !rearm && qp->mig_state == OHCA_MIG_REARM)
		return OHCA_ADMIN_BAD_STATE;
	return mask & A(ALT_PATH) ? check_alt(c, a) : OHCA_ADMIN_OK;
}

static int check_attr(struct ohca_cmd *c, const struct ohca_qp *qp,
		      const struct ohca_hw_qp_attr *a, uint32_t mask)
{
	if (mask & A(PKEY_INDEX) && ohca_le16(a->pkey_index) >= OHCA_MAX_PKEYS)
		return BAD(pkey_index);
	if (mask & A(PORT) && (a->port < 1 || a->port > c->e->cfg.num_ports ||
			       (service_of(qp) == SVC_SPECIAL && a->port != qp->port + 1)))
		return BAD(port);
	if (mask & A(PATH_MTU) && (a->path_mtu < 1 || a->path_mtu > c->e->cfg.mtu_cap))
		return BAD(path_mtu);
	if (mask & A(TIMEOUT) && a->timeout > 31)
		return BAD(timeout);
	if (mask & A(RETRY_CNT) && a->retry_cnt > 7)
		return BAD(retry_cnt);
	if (mask & A(RNR_RETRY) && a->rnr_retry > 7)
		return BAD(rnr_retry);
	if (mask & A(MIN_RNR_TIMER) && a->min_rnr_timer > 31)
		return BAD(min_rnr_timer);
	if (mask & A(MAX_RD_ATOMIC) && a->max_rd_atomic > OHCA_MAX_RD_ATOMIC)
		return BAD(max_rd_atomic);
	if (mask & A(MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > OHCA_MAX_RD_ATOMIC)
		return BAD(max_dest_rd_atomic);
	if (mask & A(DEST_QPN) && ohca_le32(a->dest_qpn) > IB_QPN_MASK)
		return BAD(dest_qpn);
	if (mask & A(EN_SQD_NOTIFY) && a->en_sqd_notify > 1)
		return BAD(en_sqd_notify);
	if (mask & A(AV)) {
		int rc = check_av(c, &a->av, offsetof(struct ohca_hw_qp_attr, av));

		if (rc)
			return rc;
	}
	return check_mig(c, qp, a, mask);
}

static void apply_attr(const ohca_engine *e, struct ohca_qp *qp, const struct ohca_hw_qp_attr *a,
		       uint32_t mask)
{
	uint32_t rights = OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ |
			  OHCA_ACCESS_REMOTE_ATOMIC;

	if (ohca_feature(e, OHCA_FEATURE_MPE))
		rights |= OHCA_ACCESS_FLUSH_GLOBAL | OHCA_ACCESS_FLUSH_PERSISTENT;
	if (mask & A(PKEY_INDEX))
		qp->pkey_index = ohca_le16(a->pkey_index);
	if (mask & A(PORT))
		qp->port = a->port - 1;
	if (mask & A(QKEY))
		qp->qkey = ohca_le32(a->qkey);
	if (mask & A(ACCESS))
		qp->access = ohca_le32(a->access) & rights;
	if (mask & A(AV))
		qp->av = a->av;
	if (mask & A(PATH_MTU))
		qp->path_mtu = a->path_mtu;
	if (mask & A(TIMEOUT))
		qp->timeout = a->timeout;
	if (mask & A(RETRY_CNT))
		qp->retry_cnt = a->retry_cnt;
	if (mask & A(RNR_RETRY))
		qp->rnr_retry = a->rnr_retry;
	if (mask & A(RQ_PSN))
		qp->rq_psn = ohca_le32(a->rq_psn) & IB_PSN_MASK;
	if (mask & A(SQ_PSN))
		qp->sq_psn = ohca_le32(a->sq_psn) & IB_PSN_MASK;
	if (mask & A(MIN_RNR_TIMER))
		qp->min_rnr_timer = a->min_rnr_timer;
	if (mask & A(MAX_RD_ATOMIC))
		qp->max_rd_atomic = a->max_rd_atomic;
	if (mask & A(MAX_DEST_RD_ATOMIC))
		qp->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & A(DEST_QPN))
		qp->dest_qpn = ohca_le32(a->dest_qpn);
	if (mask & A(EN_SQD_NOTIFY))
		qp->en_sqd_notify = a->en_sqd_notify;
	if (mask & A(ALT_PATH))
		ohca_mig_load(qp, a);
	if (mask & A(PATH_MIG_STATE) && a->path_mig_state == OHCA_MIG_REARM)
		ohca_mig_rearm(qp);
}

/* Clear all attributes except those of CREATE_QP, for RESET. */
static void forget_attr(ohca_engine *e, struct ohca_qp *qp)
{
	qp->rq_ci = qp->rq_pi = 0;
	qp->qkey = qp->dest_qpn = qp->access = 0;
	qp->rq_psn = qp->sq_psn = 0;
	qp->pkey_index = 0;
	qp->path_mtu = 0;
	qp->max_rd_atomic = qp->max_dest_rd_atomic = 0;
	qp->min_rnr_timer = qp->timeout = qp->retry_cnt = qp->rnr_retry = 0;
	qp->en_sqd_notify = qp->sqd_draining = false;
	memset(&qp->av, 0, sizeof(qp->av));
	ohca_mig_forget(e, qp);
	if (service_of(qp) != SVC_SPECIAL)
		qp->port = 0;
}

/* Execute a legal transition to RESET. It takes several steps if the QP uses many tags. */
static int to_reset(struct ohca_cmd *c, struct ohca_qp *qp, uint32_t mask)
{
	ohca_engine *e = c->e;
	uint8_t old = qp->state;

	e->job.begun = true;
	qp->going = true;
	ohca_xp_last_words(e, qp);
	if (!ohca_xp_tags_flush(e, qp))
		return OHCA_CMD_MORE;
	qp->going = false;
	forget_attr(e, qp);
	qp->state = OHCA_QPS_RESET;
	if (old != OHCA_QPS_RESET)
		ohca_trace(e, OHCA_TR_QP_STATE, qp->handle, old, OHCA_QPS_RESET, 0);
	ohca_xp_state(e, qp, old, mask);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_modify_qp(struct ohca_cmd *c)
{
	struct ohca_qp *qp = ohca_qp_get(c->e, ohca_le32(c->aqe.modify_qp.handle));
	uint32_t mask = ohca_le32(c->aqe.modify_qp.attr_mask);
	struct ohca_hw_qp_attr a;
	uint8_t old, to;
	int rc;

	if (!qp)
		return OHCA_ADMIN_BAD_HANDLE;
	if (c->e->job.begun)
		return to_reset(c, qp, mask);
	if (mask & (~MODIFY_KNOWN | MODIFY_REFUSED) ||
	    (mask & A(ALT_PATH) && !ohca_feature(c->e, OHCA_FEATURE_APM)))
		return OHCA_BAD(c, modify_qp.attr_mask);
	rc = ohca_cmd_mbox_read(c, OHCA_AT(modify_qp.addr), 0, &a, sizeof(a));
	if (rc)
		return rc;
	c->syndrome = 0;
	old = qp->state;
	if (mask & A(CUR_STATE) && a.cur_state != old)
		return OHCA_ADMIN_BAD_STATE;
	to = mask & A(STATE) ? a.state : old;
	rc = check_attr(c, qp, &a, mask);
	if (rc)
		return rc;
	if (!transition_ok(qp, to, mask))
		return OHCA_ADMIN_BAD_STATE;
	if (mask & A(ALT_PATH) && !qp->alt) {
		qp->alt = ohca_alt_alloc(c->e);
		if (!qp->alt)
			return OHCA_ADMIN_NO_RESOURCE;
	}
	if (to == OHCA_QPS_RESET)
		return to_reset(c, qp, mask);
	if (old == OHCA_QPS_RESET && ohca_xp_reserve(c->e, qp))
		return OHCA_ADMIN_NO_RESOURCE;
	/* the attribute is of one transition to SQD, not of later ones */
	if (to == OHCA_QPS_SQD && old != OHCA_QPS_SQD)
		qp->en_sqd_notify = false;
	apply_attr(c->e, qp, &a, mask);
	qp->state = to;
	if (to != old)
		ohca_trace(c->e, OHCA_TR_QP_STATE, qp->handle, old, to, 0);
	if (ohca_xp_state(c->e, qp, old, mask)) {
		/* the transport has started only in part, so the QP can only be reset */
		ohca_qp_error(c->e, qp, (enum ohca_event)0, 0);
		return OHCA_ADMIN_NO_RESOURCE;
	}
	if (mask & A(PATH_MIG_STATE) && a.path_mig_state == OHCA_MIG_MIGRATED)
		ohca_mig_go(c->e, qp);
	if (to == OHCA_QPS_ERR && old != OHCA_QPS_ERR && (qp->srq || qp->xrcd))
		ohca_async_event(c->e, OHCA_EVENT_LAST_WQE, &qp->async);
	return OHCA_ADMIN_OK;
}
