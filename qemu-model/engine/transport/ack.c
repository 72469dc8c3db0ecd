/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Acknowledgements and congestion notifications as packets, and the queue of those that are sent
 * outside of the turns of QPs.
 */
#include <string.h>

#include "engine/base/work.h"
#include "engine/transport/ack.h"
#include "engine/transport/sched.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "ib/cc.h"
#include "ib/packet.h"

static bool cnp_out(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *path,
		    const struct ohca_ack *a)
{
	const uint32_t len = path->hdr_len + IB_BTH_LEN + IB_CNP_DATA_LEN + IB_ICRC_LEN;
	struct ohca_tx tx;
	uint8_t *bth;

	if (!ohca_tx_open(e, t, path, len, &tx))
		return false;
	bth = tx.buf + path->hdr_len;
	memset(ib_build_bth(bth, IB_OP_CNP, a->migreq, 0, path->pkey, a->dqpn, false, 0), 0,
	       IB_CNP_DATA_LEN);
	ib_set_becn(bth);
	ohca_tx_close(e, &tx);
	return true;
}

bool ohca_ack_out(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *path,
		  const struct ohca_ack *a)
{
	struct ohca_tx tx;
	uint8_t *h;

	if (a->opcode == IB_OP_CNP)
		return cnp_out(e, t, path, a);
	if (!ohca_tx_open(e, t, path, ohca_ack_len(path), &tx))
		return false;
	h = ib_build_bth(tx.buf + path->hdr_len, a->opcode, a->migreq, 0, path->pkey,
			 a->dqpn, false, a->psn);
	ib_build_aeth(h, a->syndrome, a->msn);
	ohca_tx_close(e, &tx);
	return true;
}

void ohca_ack_later(ohca_engine *e, const struct ohca_path *path, const struct ohca_ack *a)
{
	struct ohca_lateq *q = &e->sched->late[path->port];

	if (q->head - q->tail >= OHCA_LATE_ACKS) {
		q->tail++;
		e->port[path->port].cnt.xmit_discards++;
	}
	q->slot[q->head++ & (OHCA_LATE_ACKS - 1)] = (struct ohca_late){ *path, *a };
	e->sched->mads_due = true;
}

bool ohca_acks_run(ohca_engine *e, unsigned int port)
{
	struct ohca_lateq *q = &e->sched->late[port];
	struct ohca_turn t = ohca_turn_of(NULL);

	while (q->head != q->tail && !q->blocked) {
		const struct ohca_late *l = &q->slot[q->tail & (OHCA_LATE_ACKS - 1)];

		if (!ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_WQE);
		if (ohca_ack_out(e, &t, &l->path, &l->ack))
			q->tail++;
		else if (t.wait == OHCA_WAIT_LOOP)
			return false;
		else
			q->blocked = true;
	}
	return true;
}
