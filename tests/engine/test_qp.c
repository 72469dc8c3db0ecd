/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Queue pairs: creation, every transition, attributes, errors; MADs to special QPs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/to_agents.h"
#include "fake_xport.h"
#include "host.h"

struct rig {
	struct host *h;
	struct host_cq cq;
	struct host_qp qp;
};

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	memset(&fake, 0, sizeof(fake));
	r->h = host_new(2, 0x100);
	host_start(r->h);
	host_cq_create(r->h, &r->cq, 4, 0);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	host_buf_free(&r->cq.buf);
	host_free(r->h);
	free(r);
	return 0;
}

static int make(struct rig *r, uint8_t type, uint8_t port)
{
	struct host_qp_init in = { .type = type, .special = true, .port = port,
				   .scq = &r->cq, .rcq = &r->cq };

	return host_qp_create(r->h, &r->qp, &in);
}

static struct ohca_hw_qp_attr good_attr(uint8_t state)
{
	return (struct ohca_hw_qp_attr){
		.state = state, .port = 1, .path_mtu = 3, .dest_qpn = 9, .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .qkey = 0x1111, .rq_psn = 0x123, .sq_psn = 0x456,
		.av = { .dlid = 3 }, .alt_av = { .dlid = 3, .port = 2 },
	};
}

/* ---- creation ---- */

static void test_create_refused(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;
	struct ohca_hw_aqe good = HOST_AQE(create_qp, .pdn = h->pdn, .send_cqn = r->cq.cqn,
						   .recv_cqn = r->cq.cqn, .type = OHCA_QPT_RC,
						   .log_rq_stride = 6), c;
	uint32_t pd1 = host_pd(h, 1);
	struct host_cq cq1;
	struct host_srq srq;

	host_cq_create(h, &cq1, 2, 1);
	host_srq_create(h, &srq, 2, pd1, 1, 0);
	good.create_qp.pl.root = host_pages(h, 1);
	good.create_qp.pl.npages = 1;
	good.create_qp.pl.page_shift = 12;
#define REFUSED(field, value, syn)						\
	c = good;								\
	c.create_qp.field = (value);						\
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_QP, &c, NULL),		\
			 OHCA_ADMIN_BAD_PARAM);					\
	assert_int_equal(h->syndrome, syn)
	REFUSED(pdn, 99, 0x18);
	REFUSED(pdn, pd1, 0x1c);		/* of another doorbell page */
	REFUSED(uar, 1, 0x1c);
	REFUSED(uar, 0xffffffff, 0x1c);
	REFUSED(send_cqn, 99, 0x20);
	REFUSED(send_cqn, cq1.cqn, 0x20);
	REFUSED(recv_cqn, 99, 0x24);
	REFUSED(recv_cqn, cq1.cqn, 0x24);
	REFUSED(srqn, 1, 0x28);
	REFUSED(flags, OHCA_QP_SRQ, 0x28);	/* that SRQ is of another doorbell page */
	REFUSED(type, 5, 0x2c);
	REFUSED(port, 1, 0x2d);
	REFUSED(flags, 0x20, 0x2e);
	REFUSED(flags, OHCA_QP_SRQ | OHCA_QP_NO_RQ, 0x2e);
	REFUSED(log_sq, 19, 0x2f);
	REFUSED(log_rq, 15, 0x30);
	REFUSED(log_rq_stride, 5, 0x31);
	REFUSED(log_rq_stride, 10, 0x31);
	REFUSED(reserved, 1, 0x32);
	REFUSED(log_sq, 6, 0x08);		/* larger than the list */
	REFUSED(type, OHCA_QPT_SMI, 0x2d);	/* without a port */
	/* a process has no special QP and no privileges */
	good.create_qp.uar = 1;
	good.create_qp.pdn = pd1;
	good.create_qp.send_cqn = good.create_qp.recv_cqn = cq1.cqn;
	REFUSED(flags, OHCA_QP_PRIVILEGED, 0x2e);
	good.create_qp.port = 1;
	REFUSED(type, OHCA_QPT_GSI, 0x1c);
	good.create_qp.port = 0;
#undef REFUSED
	assert_int_equal(fake.created, 0);
	c = good;
	fake.fail_create = 1;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_QP, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
	fake.fail_create = 0;
	/* none of these left a reference or a number */
	for (unsigned int n = 0; n < 252; n++) {
		c = good;
		assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_QP, &c, NULL), OHCA_ADMIN_OK);
	}
	c = good;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_QP, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
	for (unsigned int n = 4; n < 256; n++)
		assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_QP, n, 0), OHCA_ADMIN_OK);
	host_cq_destroy(&cq1);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, srq.srqn, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, pd1, 0), OHCA_ADMIN_OK);
	assert_int_equal(h->e->page_entries, 0);
	host_buf_free(&srq.buf);
}

static void test_references(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;

	assert_int_equal(make(r, OHCA_QPT_RC, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, r->cq.cqn, 0), OHCA_ADMIN_BUSY);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, h->pdn, 0), OHCA_ADMIN_BUSY);
	host_qp_destroy(&r->qp);
	assert_int_equal(fake.destroyed, 1);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_QP, r->qp.handle, 0),
			 OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, r->cq.cqn, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, h->pdn, 0), OHCA_ADMIN_OK);
}

static void test_special(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;

	for (uint8_t port = 1; port <= 2; port++) {
		assert_int_equal(make(r, OHCA_QPT_SMI, port), OHCA_ADMIN_OK);
		assert_int_equal(r->qp.handle, 2 * (port - 1));
		host_buf_free(&r->qp.buf);
		assert_int_equal(make(r, OHCA_QPT_SMI, port), OHCA_ADMIN_BUSY);
		assert_int_equal(make(r, OHCA_QPT_GSI, port), OHCA_ADMIN_OK);
		assert_int_equal(r->qp.handle, 2 * (port - 1) + 1);
		host_buf_free(&r->qp.buf);
	}
	assert_int_equal(make(r, OHCA_QPT_GSI, 3), OHCA_ADMIN_BAD_PARAM);
	assert_ptr_equal(ohca_qp_by_wire(h->e, 1, 0), ohca_qp_get(h->e, 2));
	assert_ptr_equal(ohca_qp_by_wire(h->e, 0, 1), ohca_qp_get(h->e, 1));
	/* handles 2 and 3 are not used as QP numbers */
	assert_null(ohca_qp_by_wire(h->e, 0, 2));
	assert_null(ohca_qp_by_wire(h->e, 0, 3));
	assert_null(ohca_qp_by_wire(h->e, 2, 0));
	assert_null(ohca_qp_by_wire(h->e, 0, 0xffffff));
	assert_int_equal(make(r, OHCA_QPT_RC, 0), OHCA_ADMIN_OK);
	assert_int_equal(r->qp.handle, 4);
	assert_ptr_equal(ohca_qp_by_wire(h->e, 0, 4), ohca_qp_get(h->e, 4));
	assert_ptr_equal(ohca_qp_by_wire(h->e, 1, 4), ohca_qp_get(h->e, 4));
	host_qp_destroy(&r->qp);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_QP, 2, 0), OHCA_ADMIN_OK);
	assert_int_equal(make(r, OHCA_QPT_SMI, 2), OHCA_ADMIN_OK);
	host_buf_free(&r->qp.buf);
}

/* ---- transitions ---- */

#define INIT_RC	(OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT | OHCA_ATTR_ACCESS)
#define INIT_UD	(OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT | OHCA_ATTR_QKEY)
#define RTR_UC	(OHCA_ATTR_AV | OHCA_ATTR_PATH_MTU | OHCA_ATTR_DEST_QPN | OHCA_ATTR_RQ_PSN)
#define RTR_RC	(RTR_UC | OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER)
#define RTS_RC	(OHCA_ATTR_SQ_PSN | OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT | \
		 OHCA_ATTR_RNR_RETRY | OHCA_ATTR_MAX_RD_ATOMIC)

static uint32_t need(uint8_t type, uint8_t to)
{
	bool rc = type == OHCA_QPT_RC, uc = type == OHCA_QPT_UC;

	switch (to) {
	case OHCA_QPS_INIT:
		return rc || uc ? INIT_RC : type == OHCA_QPT_UD ? INIT_UD :
		       OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_QKEY;
	case OHCA_QPS_RTR:
		return rc ? RTR_RC : uc ? RTR_UC : 0;
	case OHCA_QPS_RTS:
		return rc ? RTS_RC : OHCA_ATTR_SQ_PSN;
	default:
		return 0;
	}
}

/* Moves r->qp from RESET to @state. */
static void bring(struct rig *r, uint8_t state)
{
	struct ohca_hw_qp_attr a;

	for (uint8_t s = OHCA_QPS_INIT; s <= OHCA_QPS_RTS && s <= state; s++) {
		a = good_attr(s);
		assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE |
						need(r->qp.type, s), &a), OHCA_ADMIN_OK);
	}
	if (state == OHCA_QPS_SQE) {
		/* the transport causes this transition */
		ohca_qp_sqe(r->h->e, ohca_qp_get(r->h->e, r->qp.handle), 0);
	} else if (state > OHCA_QPS_RTS) {
		a = good_attr(state);
		assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a), OHCA_ADMIN_OK);
	}
	assert_int_equal(ohca_qp_get(r->h->e, r->qp.handle)->state, state);
}

static bool legal(uint8_t from, uint8_t to)
{
	/* rows: from; columns: RESET INIT RTR RTS SQD SQE ERR */
	static const char table[7][8] = {
		"yy-----", "yyy---y", "y--y--y", "y--yy-y", "y--yy-y", "y--y--y", "y-----y",
	};

	return table[from][to] == 'y';
}

static void test_transitions(void **state)
{
	struct rig *r = *state;

	for (uint8_t type = OHCA_QPT_SMI; type <= OHCA_QPT_UD; type++) {
		assert_int_equal(make(r, type, type <= OHCA_QPT_GSI ? 1 : 0), OHCA_ADMIN_OK);
		for (uint8_t from = 0; from < 7; from++) {
			if (from == OHCA_QPS_SQE && type == OHCA_QPT_RC)
				continue;
			for (uint8_t to = 0; to < 9; to++) {
				struct ohca_hw_qp_attr a = good_attr(OHCA_QPS_RESET);
				uint32_t m = from + 1 == to || (from == 0 && to == 1) ?
					     need(type, to) : 0;
				int want = to < 7 && legal(from, to) ? OHCA_ADMIN_OK :
					   OHCA_ADMIN_BAD_STATE;

				host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a);
				bring(r, from);
				a = good_attr(to);
				fake.states = 0;
				assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE | m,
								&a), want);
				assert_int_equal(fake.states, want == OHCA_ADMIN_OK);
				assert_int_equal(ohca_qp_get(r->h->e, r->qp.handle)->state,
						 want ? from : to);
				if (!want)
					assert_int_equal(fake.last_old, from);
			}
		}
		host_qp_destroy(&r->qp);
	}
}

/* A transition without any one of its required attributes is refused. */
static void test_required(void **state)
{
	struct rig *r = *state;

	for (uint8_t type = OHCA_QPT_SMI; type <= OHCA_QPT_UD; type++) {
		assert_int_equal(make(r, type, type <= OHCA_QPT_GSI ? 1 : 0), OHCA_ADMIN_OK);
		for (uint8_t to = OHCA_QPS_INIT; to <= OHCA_QPS_RTS; to++) {
			uint32_t m = need(type, to);
			struct ohca_hw_qp_attr a = good_attr(OHCA_QPS_RESET);

			host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a);
			bring(r, to - 1);
			a = good_attr(to);
			for (uint32_t bit = 1; bit && bit <= m; bit <<= 1) {
				if (!(m & bit))
					continue;
				assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE |
								(m & ~bit), &a),
						 OHCA_ADMIN_BAD_STATE);
			}
			/* the current state, if given, must be right */
			a.cur_state = to;
			assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE | m |
							OHCA_ATTR_CUR_STATE, &a),
					 OHCA_ADMIN_BAD_STATE);
			a.cur_state = to - 1;
			assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE | m |
							OHCA_ATTR_CUR_STATE, &a),
					 OHCA_ADMIN_OK);
		}
		host_qp_destroy(&r->qp);
	}
}

/* Optional attributes, by IBTA vol 1, 11.2.5.2. */
static uint32_t may(uint8_t type, uint8_t from, uint8_t to)
{
	bool rc = type == OHCA_QPT_RC, connected = rc || type == OHCA_QPT_UC;
	uint32_t key = connected ? OHCA_ATTR_ACCESS : OHCA_ATTR_QKEY;

	switch (from << 4 | to) {
	case OHCA_QPS_RESET << 4 | OHCA_QPS_INIT:
		return type <= OHCA_QPT_GSI ? OHCA_ATTR_PORT : 0;
	case OHCA_QPS_INIT << 4 | OHCA_QPS_INIT:
		return key | OHCA_ATTR_PKEY_INDEX |
		       (type <= OHCA_QPT_GSI ? 0 : OHCA_ATTR_PORT);
	case OHCA_QPS_INIT << 4 | OHCA_QPS_RTR:
		return key | OHCA_ATTR_PKEY_INDEX | (connected ? OHCA_ATTR_ALT_PATH : 0);
	case OHCA_QPS_RTR << 4 | OHCA_QPS_RTS:
	case OHCA_QPS_RTS << 4 | OHCA_QPS_RTS:
	case OHCA_QPS_SQD << 4 | OHCA_QPS_RTS:
		return key | (rc ? OHCA_ATTR_MIN_RNR_TIMER : 0) |
		       (connected ? OHCA_ATTR_ALT_PATH | OHCA_ATTR_PATH_MIG_STATE : 0);
	case OHCA_QPS_SQE << 4 | OHCA_QPS_RTS:
		return key;
	case OHCA_QPS_RTS << 4 | OHCA_QPS_SQD:
		return OHCA_ATTR_EN_SQD_NOTIFY;
	case OHCA_QPS_SQD << 4 | OHCA_QPS_SQD:
		return key | OHCA_ATTR_PKEY_INDEX |
		       (connected ? OHCA_ATTR_AV | OHCA_ATTR_ALT_PATH |
				    OHCA_ATTR_PATH_MIG_STATE : 0) |
		       (rc ? OHCA_ATTR_PORT | OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT |
			     OHCA_ATTR_RNR_RETRY | OHCA_ATTR_MAX_RD_ATOMIC |
			     OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER : 0);
	default:
		return 0;
	}
}

/* Each attribute with each transition: accepted or refused; a refusal changes nothing. */
static void test_optional(void **state)
{
	struct rig *r = *state;

	for (uint8_t type = OHCA_QPT_SMI; type <= OHCA_QPT_UD; type++) {
		assert_int_equal(make(r, type, type <= OHCA_QPT_GSI ? 1 : 0), OHCA_ADMIN_OK);
		for (unsigned int pair = 0; pair < 49; pair++) {
			uint8_t from = pair / 7, to = pair % 7;
			uint32_t m = from + 1 == to ? need(type, to) : 0;

			if (!legal(from, to) || (from == OHCA_QPS_SQE && type == OHCA_QPT_RC))
				continue;
			for (uint32_t bit = OHCA_ATTR_EN_SQD_NOTIFY; bit <= OHCA_ATTR_DEST_QPN;
			     bit <<= 1) {
				struct ohca_hw_qp_attr a = good_attr(OHCA_QPS_RESET);
				struct ohca_hw_qp_attr before, after;
				bool ok = (m | may(type, from, to)) & bit;

				if (bit & OHCA_ATTR_CAP)
					continue;
				host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a);
				bring(r, from);
				host_qp_query(&r->qp, &before);
				a = good_attr(to);
				a.path_mtu = 5;
				a.rq_psn = a.sq_psn = 0x777;
				assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE | m | bit,
								&a),
						 ok ? OHCA_ADMIN_OK : OHCA_ADMIN_BAD_STATE);
				host_qp_query(&r->qp, &after);
				if (!ok)
					assert_memory_equal(&before, &after, sizeof(before));
			}
		}
		host_qp_destroy(&r->qp);
	}
}

/* ---- attributes ---- */

static void test_bad_attributes(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_qp_attr a;

	assert_int_equal(make(r, OHCA_QPT_RC, 0), OHCA_ADMIN_OK);
	bring(r, OHCA_QPS_INIT);
#define REFUSED(mask, field, value)							\
	a = good_attr(OHCA_QPS_INIT);							\
	a.field = (value);								\
	assert_int_equal(host_qp_modify(&r->qp, mask, &a), OHCA_ADMIN_BAD_PARAM);	\
	assert_int_equal(r->h->syndrome, 64 + offsetof(struct ohca_hw_qp_attr, field))
	REFUSED(OHCA_ATTR_PKEY_INDEX, pkey_index, 128);
	REFUSED(OHCA_ATTR_PORT, port, 0);
	REFUSED(OHCA_ATTR_PORT, port, 3);
	REFUSED(OHCA_ATTR_PATH_MTU, path_mtu, 0);
	REFUSED(OHCA_ATTR_PATH_MTU, path_mtu, 6);
	REFUSED(OHCA_ATTR_TIMEOUT, timeout, 32);
	REFUSED(OHCA_ATTR_RETRY_CNT, retry_cnt, 8);
	REFUSED(OHCA_ATTR_RNR_RETRY, rnr_retry, 8);
	REFUSED(OHCA_ATTR_MIN_RNR_TIMER, min_rnr_timer, 32);
	REFUSED(OHCA_ATTR_MAX_RD_ATOMIC, max_rd_atomic, 129);
	REFUSED(OHCA_ATTR_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 129);
	REFUSED(OHCA_ATTR_DEST_QPN, dest_qpn, 0x1000000);
	REFUSED(OHCA_ATTR_PATH_MIG_STATE, path_mig_state, 1);
	REFUSED(OHCA_ATTR_PATH_MIG_STATE, path_mig_state, 2);
	REFUSED(OHCA_ATTR_ALT_PATH, alt_pkey_index, 128);
	REFUSED(OHCA_ATTR_ALT_PATH, alt_timeout, 32);
	REFUSED(OHCA_ATTR_ALT_PATH, alt_av.port, 0);
	REFUSED(OHCA_ATTR_ALT_PATH, alt_av.port, 3);
	REFUSED(OHCA_ATTR_ALT_PATH, alt_av.sl, 16);
	REFUSED(OHCA_ATTR_EN_SQD_NOTIFY, en_sqd_notify, 2);
	REFUSED(OHCA_ATTR_AV, av.sl, 16);
	REFUSED(OHCA_ATTR_AV, av.src_path_bits, 128);
	REFUSED(OHCA_ATTR_AV, av.flags, 2);
	REFUSED(OHCA_ATTR_AV, av.flow_tclass, 1u << 28);
	REFUSED(OHCA_ATTR_AV, av.port, 3);
	REFUSED(OHCA_ATTR_AV, av.reserved[0], 1);
#undef REFUSED
	a = good_attr(OHCA_QPS_INIT);
	assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_CAP, &a), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 12);
	assert_int_equal(host_qp_modify(&r->qp, 1u << 21, &a), OHCA_ADMIN_BAD_PARAM);
	host_qp_destroy(&r->qp);
}

static void test_query(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_qp_attr a;

	struct ohca_hw_qp_attr b = {
		.path_mtu = 2, .rq_psn = 0x123456, .sq_psn = 0xffffff,
		.dest_qpn = 0xabcdef, .access = OHCA_ACCESS_REMOTE_READ, .pkey_index = 127,
		.en_sqd_notify = 1, .max_rd_atomic = 128, .max_dest_rd_atomic = 127,
		.min_rnr_timer = 31, .port = 2, .timeout = 30, .retry_cnt = 6, .rnr_retry = 5,
		.av = { .dlid = 0xbfff, .sl = 15, .src_path_bits = 127, .flags = OHCA_AV_GRH,
			.static_rate = 3, .sgid_index = 255, .hop_limit = 9, .port = 2,
			.flow_tclass = 0xfffffff, .dgid = { 0xfe, 1, 2 } },
		.alt_av = { .dlid = 0x1234, .sl = 7, .static_rate = 5, .port = 1, .dgid = { 3 } },
		.alt_pkey_index = 126, .alt_timeout = 29, .path_mig_state = 1,
	};
	struct ohca_hw_aqe c = HOST_AQE(handle, .addr = r->h->mbox[0], .reserved = 1);

	assert_int_equal(make(r, OHCA_QPT_RC, 0), OHCA_ADMIN_OK);
	/* everything that RC has, at its limits */
	for (b.state = OHCA_QPS_INIT; b.state <= OHCA_QPS_SQD; b.state++)
		assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE |
						need(OHCA_QPT_RC, b.state) |
						(b.state == OHCA_QPS_SQD ?
						 OHCA_ATTR_EN_SQD_NOTIFY : 0) |
						(b.state == OHCA_QPS_RTS ?
						 OHCA_ATTR_ALT_PATH |
						 OHCA_ATTR_PATH_MIG_STATE : 0), &b),
				 OHCA_ADMIN_OK);
	assert_int_equal(host_qp_query(&r->qp, &a), OHCA_ADMIN_OK);
	b.state = b.cur_state = OHCA_QPS_SQD;
	assert_memory_equal(&a, &b, sizeof(a));
	c.handle.handle = r->qp.handle;
	assert_int_equal(host_cmd(r->h, OHCA_CMD_QUERY_QP, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 12);
	a = good_attr(OHCA_QPS_RESET);
	assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a), OHCA_ADMIN_OK);
	bring(r, OHCA_QPS_RTS);
	assert_int_equal(host_qp_query(&r->qp, &a), OHCA_ADMIN_OK);
	assert_int_equal(a.state, OHCA_QPS_RTS);
	assert_int_equal(a.path_mtu, 3);
	assert_int_equal(a.dest_qpn, 9);
	assert_int_equal(a.rq_psn, 0x123);
	assert_int_equal(a.sq_psn, 0x456);
	assert_int_equal(a.port, 1);
	assert_int_equal(a.timeout, 14);
	assert_int_equal(a.av.dlid, 3);
	/* RESET clears them */
	a = good_attr(OHCA_QPS_RESET);
	assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a), OHCA_ADMIN_OK);
	assert_int_equal(host_qp_query(&r->qp, &a), OHCA_ADMIN_OK);
	assert_int_equal(a.state, OHCA_QPS_RESET);
	memset(&b, 0, sizeof(b));
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(host_cmd_handle(r->h, OHCA_CMD_QUERY_QP, r->qp.handle, 8),
			 OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 16);
	assert_int_equal(host_cmd_handle(r->h, OHCA_CMD_QUERY_QP, 0xffffff, r->h->mbox[0]),
			 OHCA_ADMIN_BAD_HANDLE);
	host_qp_destroy(&r->qp);
	/* and the Q_Key of a datagram QP */
	assert_int_equal(make(r, OHCA_QPT_UD, 0), OHCA_ADMIN_OK);
	bring(r, OHCA_QPS_RTS);
	assert_int_equal(host_qp_query(&r->qp, &a), OHCA_ADMIN_OK);
	assert_int_equal(a.qkey, 0x1111);
	assert_int_equal(a.sq_psn, 0x456);
	host_qp_destroy(&r->qp);
}

/* A driver that does not know APM has no path to migrate to. */
static void test_no_apm(void **state)
{
	struct host *h = host_new(2, 0x100);
	struct rig r = { .h = h };
	struct ohca_hw_qp_attr a = good_attr(OHCA_QPS_RTS);

	(void)state;
	host_start_with(h, ~(1ull << OHCA_FEATURE_APM));
	host_cq_create(h, &r.cq, 4, 0);
	assert_int_equal(make(&r, OHCA_QPT_RC, 0), OHCA_ADMIN_OK);
	bring(&r, OHCA_QPS_RTR);
	a.path_mig_state = OHCA_MIG_REARM;
	assert_int_equal(host_qp_modify(&r.qp, OHCA_ATTR_STATE | RTS_RC | OHCA_ATTR_ALT_PATH |
					OHCA_ATTR_PATH_MIG_STATE, &a), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 12);
	assert_int_equal(host_qp_modify(&r.qp, OHCA_ATTR_STATE | RTS_RC |
					OHCA_ATTR_PATH_MIG_STATE, &a), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 64 + offsetof(struct ohca_hw_qp_attr, path_mig_state));
	host_qp_destroy(&r.qp);
	host_buf_free(&r.cq.buf);
	host_free(h);
}

/* ---- errors ---- */

static void test_error(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;
	struct ohca_hw_eqe eqe;
	struct ohca_qp *qp;

	assert_int_equal(make(r, OHCA_QPT_RC, 0), OHCA_ADMIN_OK);
	qp = ohca_qp_get(h->e, r->qp.handle);
	/* RESET has no errors */
	ohca_qp_error(h->e, qp, OHCA_EVENT_QP_FATAL, 1);
	assert_int_equal(qp->state, OHCA_QPS_RESET);
	bring(r, OHCA_QPS_RTS);
	fake.states = 0;
	ohca_qp_error(h->e, qp, OHCA_EVENT_QP_ACCESS_ERR, 1);
	ohca_qp_error(h->e, qp, OHCA_EVENT_QP_FATAL, 1);
	assert_int_equal(fake.states, 1);
	assert_int_equal(fake.last_old, OHCA_QPS_RTS);
	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_QP_ACCESS_ERR);
	assert_int_equal(eqe.handle, r->qp.handle);
	assert_false(host_eq_poll(h, &h->async, &eqe));
	/* RC has no SQE; for other types the transport is notified */
	ohca_qp_sqe(h->e, qp, 1);
	assert_int_equal(qp->state, OHCA_QPS_ERR);
	host_qp_destroy(&r->qp);
	assert_int_equal(make(r, OHCA_QPT_UD, 0), OHCA_ADMIN_OK);
	bring(r, OHCA_QPS_RTS);
	fake.states = 0;
	ohca_qp_sqe(h->e, ohca_qp_get(h->e, r->qp.handle), 1);
	ohca_qp_sqe(h->e, ohca_qp_get(h->e, r->qp.handle), 1);
	assert_int_equal(fake.states, 1);
	host_qp_destroy(&r->qp);
}

static void test_last_wqe(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;
	struct host_qp_init in = { .scq = &r->cq, .rcq = &r->cq };
	struct ohca_hw_qp_attr a = good_attr(OHCA_QPS_ERR);
	struct ohca_hw_eqe eqe;
	struct host_srq srq;

	host_srq_create(h, &srq, 4, h->pdn, 0, 0);
	in.srq = &srq;
	assert_int_equal(host_qp_create(h, &r->qp, &in), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, srq.srqn, 0), OHCA_ADMIN_BUSY);
	bring(r, OHCA_QPS_RTS);
	assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a), OHCA_ADMIN_OK);
	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_LAST_WQE);
	/* once */
	assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE, &a), OHCA_ADMIN_OK);
	assert_false(host_eq_poll(h, &h->async, &eqe));
	host_qp_destroy(&r->qp);
	host_buf_free(&srq.buf);
}

static void test_state_fails(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_qp_attr a = good_attr(OHCA_QPS_RTR);

	assert_int_equal(make(r, OHCA_QPT_RC, 0), OHCA_ADMIN_OK);
	bring(r, OHCA_QPS_INIT);
	fake.fail_state = 1;
	assert_int_equal(host_qp_modify(&r->qp, OHCA_ATTR_STATE | RTR_RC, &a),
			 OHCA_ADMIN_NO_RESOURCE);
	fake.fail_state = 0;
	assert_int_equal(ohca_qp_get(r->h->e, r->qp.handle)->state, OHCA_QPS_ERR);
	host_qp_destroy(&r->qp);
}

/* ---- MADs from the wire ---- */

static struct ib_smp smp_get(uint8_t class, uint16_t attr)
{
	return (struct ib_smp){
		.hdr = { .base_version = 1, .mgmt_class = class, .class_version = 1,
			 .method = IB_METHOD_GET, .attr_id = ib_to_be16(attr) },
		.dr_slid = ib_to_be16(0xffff), .dr_dlid = ib_to_be16(0xffff),
	};
}

/* Headers of a datagram to QP @dqpn, from QP 0x77 on LID 3. */
static void packet(uint8_t *hdr, struct ib_pkt_info *pkt, uint32_t dqpn)
{
	uint8_t *p = ib_build_lrh(hdr, dqpn ? 0 : 15, 4, IB_LNH_IBA_LOCAL, 1,
				  (8 + 12 + 8 + 256 + 4) / 4, 3);

	p = ib_build_bth(p, IB_OP_UD_SEND_ONLY, 0, 0, 0x7fff, dqpn, false, 0);
	ib_build_deth(p, dqpn ? IB_QKEY_GSI : 0, dqpn ? 0x77 : 0);
	assert_int_equal(ib_hdr_parse(hdr, 28, 288, 0, pkt), 0);
}

static void test_mads(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;
	struct ib_smp s = smp_get(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO);
	struct ib_pkt_info pkt;
	uint8_t hdr[128];

	ohca_dma_enter(h->e);
	packet(hdr, &pkt, 0);
	assert_true(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
	assert_int_equal(fake.mads, 1);
	assert_int_equal(fake.mad_qp, 0);
	assert_int_equal(fake.mad_av.dlid, 3);
	assert_int_equal(fake.mad_av.sl, 4);
	assert_int_equal(fake.mad[3], IB_METHOD_GET_RESP);
	assert_int_equal(host_counter(h, OHCA_CNT_MADS_RX), 1);
	/* directed route: permissive LIDs */
	s = smp_get(IB_CLASS_SUBN_DR, IB_SMP_ATTR_NODE_INFO);
	ib_smp_set_hops(&s, 1, 1);
	assert_true(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
	assert_int_equal(fake.mads, 2);
	assert_int_equal(fake.mad_av.dlid, 0xffff);
	assert_int_equal(fake.mad_slid, 0xffff);
	/* performance: to the QP that asked */
	s = smp_get(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO);
	packet(hdr, &pkt, 1);
	assert_true(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
	assert_int_equal(fake.mads, 3);
	assert_int_equal(fake.mad_qp, 1);
	assert_int_equal(fake.mad_av.dqpn, 0x77);
	assert_int_equal(fake.mad_av.qkey, IB_QKEY_GSI);
	assert_int_equal(fake.mad_pkey, 0xffff);
	assert_int_equal(fake.mad[3], IB_METHOD_GET_RESP);
	/* with a GRH if the request had one, from the LID and P_Key of the request */
	{
		struct ohca_port *p = &h->e->port[0];
		uint8_t *q;

		p->lid = 8;
		p->lmc = 2;
		p->pkey[0] = 0x7fff;
		p->pkey[3] = 0x8123;
		p->gid_valid[5] = 1;
		p->num_gids = 6;
		memset(p->gid[5], 0x55, 16);
		q = ib_build_lrh(hdr, 0, 4, IB_LNH_IBA_GLOBAL, 10,
				 (8 + 40 + 12 + 8 + 256 + 4) / 4, 3);
		memset(fake.mad, 0x66, 16);
		q = ib_build_grh(q, 0x21, 0x12345, 12 + 8 + 256 + 4, 3, fake.mad, p->gid[5]);
		q = ib_build_bth(q, IB_OP_UD_SEND_ONLY, 0, 0, 0x0123, 1, false, 0);
		ib_build_deth(q, IB_QKEY_GSI, 0x77);
		assert_int_equal(ib_hdr_parse(hdr, 68, 328, 0, &pkt), 0);
		assert_true(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
		assert_int_equal(fake.mads, 4);
		assert_int_equal(fake.mad_pkey, 0x8123);
		assert_int_equal(fake.mad_slid, 10);
		assert_int_equal(fake.mad_av.flags, OHCA_AV_GRH);
		assert_int_equal(fake.mad_av.sgid_index, 5);
		assert_int_equal(fake.mad_av.flow_tclass, 0x2112345);
		assert_int_equal(fake.mad_av.dgid[0], 0x66);
		/* the same GID with the default prefix */
		memcpy(((struct ib_grh *)(void *)(hdr + IB_LRH_LEN))->dgid,
		       "\xfe\x80\0\0\0\0\0", 8);
		fake.mad_av.sgid_index = 0;
		assert_true(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
		assert_int_equal(fake.mad_av.sgid_index, 5);
		fake.mads = 3;
		packet(hdr, &pkt, 1);
	}
	/* for software: delivered if it has a QP; otherwise a request gets an error */
	s = smp_get(0x32, 0x10);
	assert_true(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
	assert_int_equal(fake.mads, 4);
	assert_int_equal(ib_get_be16(fake.mad + 4), IB_MAD_BAD_METHOD_ATTR);
	s.hdr.method = IB_METHOD_GET_RESP;
	assert_false(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
	assert_int_equal(make(r, OHCA_QPT_GSI, 1), OHCA_ADMIN_OK);
	bring(r, OHCA_QPS_RTS);
	s.hdr.method = IB_METHOD_GET;
	assert_false(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
	assert_int_equal(fake.mads, 4);
	/* an SMP to QP1 is no SMP for the agent */
	s = smp_get(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO);
	assert_false(ohca_mad_rx(h->e, 0, &pkt, hdr, (uint8_t *)&s));
	ohca_dma_exit(h->e);
	host_qp_destroy(&r->qp);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(create_refused), T(references), T(special), T(transitions), T(required), T(optional),
		T(bad_attributes), T(query), cmocka_unit_test(test_no_apm), T(error), T(last_wqe), T(state_fails), T(mads),
	};

	return cmocka_run_group_tests_name("queue pairs", tests, NULL, NULL);
}
