/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A driver that makes as many objects as the device has numbers for, by commands without a wait. */
#ifndef OHCA_TEST_FILL_H
#define OHCA_TEST_FILL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/cmd.h"
#include "engine/base/job.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/context.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/dm.h"
#include "engine/object/eq.h"
#include "engine/object/mcast.h"
#include "engine/object/mr.h"
#include "engine/object/odp.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "engine/object/xrc.h"
#include "host.h"

/** struct fill - numbers of objects; there are as many CQs, SRQs, PDs, domains and sets as QPs */
struct fill {
	uint32_t windows, qps, list_pages, odp_nodes;
};

typedef int fill_cmd(struct ohca_cmd *c);

/* Return: the handle. */
static inline uint32_t fill_one(ohca_engine *e, fill_cmd *cmd, struct ohca_hw_aqe aqe)
{
	struct ohca_cmd c = { .e = e, .aqe = aqe };
	int rc;

	ohca_dma_enter(e);
	do {
		ohca_work_begin(e, OHCA_CMD_WORK);
		rc = cmd(&c);
	} while (rc == OHCA_CMD_MORE);
	ohca_dma_exit(e);
	ohca_job_end(e);
	assert_int_equal(rc, OHCA_ADMIN_OK);
	return ohca_le32(c.rsp.handle.handle);
}

/* Makes a list of @n pages, all entries of which name the same page; so do its lowest tables. */
static inline struct ohca_hw_pl fill_list(struct host *h, uint32_t n)
{
	uint64_t at = host_pages(h, 1);

	for (unsigned int level = 0; level < 3; level++) {
		const uint64_t table = host_pages(h, 1);

		for (unsigned int i = 0; i < 512; i++)
			((uint64_t *)host_ptr(h, table))[i] = at;
		at = table;
	}
	return (struct ohca_hw_pl){ .root = at, .npages = n, .page_shift = 12, .levels = 3 };
}

/* Makes regions of all kinds, and windows; half of the windows are bound to the region and a QP. */
static inline void fill_mrs(struct host *h, const struct fill *f, uint32_t qpn)
{
	struct ohca_hw_wqe_reg bind = { .access = OHCA_ACCESS_REMOTE_READ, .length = 4096 };
	ohca_engine *e = h->e;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pl = fill_list(h, f->list_pages),
					.length = (uint64_t)f->list_pages << 12, .pdn = h->pdn,
					.access = OHCA_ACCESS_MW_BIND, .type = OHCA_MR_USER);
	uint64_t *page = host_ptr(h, h->mbox[0]);
	uint32_t key = fill_one(e, ohca_cmd_reg_mr, c);

	bind.mr_key = key;
	for (uint32_t i = 0; i < f->windows; i++) {
		c = HOST_AQE(reg_mr, .pdn = h->pdn, .type = i % 64 ? OHCA_MR_MW1 : OHCA_MR_MW2);
		key = fill_one(e, ohca_cmd_reg_mr, c);
		bind.key = key;
		if (i % 2 == 0)
			assert_int_equal(ohca_mw_bind(e, e->qp[qpn], &bind), 0);
	}
	c = HOST_AQE(reg_mr, .length = 100, .pdn = h->pdn, .type = OHCA_MR_FRMR);
	fill_one(e, ohca_cmd_reg_mr, c);
	if (!f->odp_nodes)
		return;
	*page = HOST_BASE | OHCA_ODP_READ;
	c = HOST_AQE(reg_mr, .pl.page_shift = 12, .length = (uint64_t)f->odp_nodes << 21,
		     .pdn = h->pdn, .type = OHCA_MR_ODP);
	key = fill_one(e, ohca_cmd_reg_mr, c);
	for (uint32_t i = 0; i < f->odp_nodes; i++) {
		c = HOST_AQE(update_mr, .first = 512 * i, .npages = 1, .key = key,
			     .addr = h->mbox[0]);
		fill_one(e, ohca_cmd_update_mr_pages, c);
	}
}

/* A command without fields. */
static inline struct ohca_hw_aqe fill_plain(void)
{
	return (struct ohca_hw_aqe){ .hdr = { 0 } };
}

/* Makes object @i of each kind that has as many objects as QPs. Return: the QP's handle. */
static inline uint32_t fill_queues(struct host *h, uint32_t i)
{
	const struct ohca_hw_pl pl = { .root = HOST_BASE, .npages = 8, .page_shift = 12 };
	ohca_engine *e = h->e;
	uint32_t cqn, qpn;
	struct ohca_hw_aqe c;

	c = HOST_AQE(create_cq, .pl = pl, .eqn = h->comp.eqn, .log_size = 2);
	cqn = fill_one(e, ohca_cmd_create_cq, c);
	c = HOST_AQE(modify_cq, .cqn = cqn, .count = 100, .period_us = 60000);
	fill_one(e, ohca_cmd_modify_cq, c);
	c = HOST_AQE(create_qp, .pl = pl, .pdn = h->pdn, .send_cqn = cqn, .recv_cqn = cqn,
		     .type = i % 8 ? OHCA_QPT_RC : OHCA_QPT_UD,
		     .log_rq_stride = OHCA_MIN_LOG_RQ_STRIDE);
	qpn = fill_one(e, ohca_cmd_create_qp, c);
	c = HOST_AQE(create_srq, .pl = pl, .pdn = h->pdn,
		     .log_stride = OHCA_MIN_LOG_RQ_STRIDE);
	fill_one(e, ohca_cmd_create_srq, c);
	c = HOST_AQE(alloc_pd, .uar = 0);
	fill_one(e, ohca_cmd_alloc_pd, c);
	fill_one(e, ohca_cmd_alloc_xrcd, fill_plain());
	if (i < OHCA_MAX_COUNTER_SETS - 1)
		fill_one(e, ohca_cmd_alloc_counters, fill_plain());
	if (i % 8 == 0 && i / 8 < OHCA_MAX_MCAST_GRP) {
		c = HOST_AQE(mcast, .qp = qpn, .mgid = { 0xff, 0x12, 0, (uint8_t)(i >> 3),
							 (uint8_t)(i >> 11) });
		fill_one(e, ohca_cmd_attach_mcast, c);
	}
	if (i < e->cfg.dm_size >> 12) {
		c = HOST_AQE(alloc_dm, .length = 1);
		fill_one(e, ohca_cmd_alloc_dm, c);
	}
	return qpn;
}

/** fill() - makes all of @f; the driver has started the device and has an EQ for page faults */
static inline void fill_all(struct host *h, const struct fill *f)
{
	uint32_t qpn = 0;

	for (uint32_t i = 0; i < f->qps; i++)
		qpn = fill_queues(h, i);
	if (f->windows)
		fill_mrs(h, f, qpn);
}

#endif
