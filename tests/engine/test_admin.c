/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Registers, handshake, admin queue, PDs, multicast, doorbells, reset. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/limits.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/object/mcast.h"
#include "engine/transport/to_agents.h"
#include "fake_xport.h"
#include "host.h"

#define GUID	0x0002c90000000100ull

static int setup(void **state)
{
	struct host *h = host_new(2, GUID);

	host_start(h);
	memset(&fake, 0, sizeof(fake));
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	host_free(*state);
	return 0;
}

static uint32_t status(struct host *h)
{
	return (uint32_t)ohca_mmio_read(h->e, OHCA_REG_STATUS, 4);
}

static uint32_t reason(struct host *h)
{
	return (uint32_t)ohca_mmio_read(h->e, OHCA_REG_FATAL_REASON, 4);
}

/* ---- registers ---- */

static void test_identity(void **state)
{
	struct host *h = *state;

	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_MAGIC, 4), OHCA_MAGIC);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_VERSION, 4), 0x10000);
	assert_int_equal(ohca_mmio_read(h->e, 0, 8), OHCA_MAGIC | 0x10000ull << 32);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_LIMITS, 4),
			 HOST_UARS | HOST_VECTORS << 16);
	assert_int_not_equal(ohca_mmio_read(h->e, OHCA_REG_TIMEOUTS, 4) & 0xffff, 0);
	assert_int_not_equal(ohca_mmio_read(h->e, OHCA_REG_TIMEOUTS, 4) >> 16, 0);
	/* addresses without a register, bad sizes, bad alignment */
	assert_int_equal(ohca_mmio_read(h->e, 0x800, 8), 0);
	assert_int_equal(ohca_mmio_read(h->e, 0x1000, 4), 0);
	assert_int_equal(ohca_mmio_read(h->e, ~0ull - 3, 4), 0);
	assert_int_equal(ohca_mmio_read(h->e, 0, 2), 0);
	assert_int_equal(ohca_mmio_read(h->e, 2, 4), 0);
	ohca_mmio_write(h->e, 0x1000, ~0ull, 4);
	ohca_mmio_write(h->e, 0, ~0ull, 8);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_MAGIC, 4), OHCA_MAGIC);
}

static void test_halves(void **state)
{
	struct host *h = *state;

	ohca_mmio_write(h->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	ohca_mmio_write(h->e, OHCA_REG_AQ_BASE, 0x11223000, 4);
	ohca_mmio_write(h->e, OHCA_REG_AQ_BASE + 4, 0x55667788, 4);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_AQ_BASE, 8), 0x5566778811223000ull);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_AQ_BASE + 4, 4), 0x55667788);
	ohca_mmio_write(h->e, OHCA_REG_ACQ_BASE, 0x123456789000, 8);
	ohca_mmio_write(h->e, OHCA_REG_ACQ_BASE + 4, 0x99, 4);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_ACQ_BASE, 8), 0x9956789000);
	ohca_mmio_write(h->e, OHCA_REG_FEATURES_ACK, 0x100000003, 8);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_FEATURES_ACK, 8), 0x100000003);
	ohca_mmio_write(h->e, OHCA_REG_FEATURES_ACK + 4, 0, 4);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_FEATURES_ACK, 8), 3);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_FEATURES, 8) & 1, 1);
	/* the handshake ends when the device is enabled */
	host_enable(h, ~0ull);
	ohca_mmio_write(h->e, OHCA_REG_AQ_BASE, 0, 8);
	ohca_mmio_write(h->e, OHCA_REG_PAGE_SHIFT, 3, 4);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_AQ_BASE, 8), h->aq);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_PAGE_SHIFT, 4), 12);
}

static void try_enable(struct host *h, uint32_t reg, uint64_t val, unsigned int size)
{
	ohca_mmio_write(h->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	ohca_mmio_write(h->e, OHCA_REG_AQ_BASE, h->aq, 8);
	ohca_mmio_write(h->e, OHCA_REG_ACQ_BASE, h->acq, 8);
	ohca_mmio_write(h->e, OHCA_REG_AQ_LOG_SIZE, 4, 4);
	ohca_mmio_write(h->e, reg, val, size);
	ohca_mmio_write(h->e, OHCA_REG_CTRL, OHCA_CTRL_ENABLE, 4);
}

static void test_bad_enable(void **state)
{
	static const struct {
		uint32_t reg, size;
		uint64_t val;
	} bad[] = {
		{ OHCA_REG_PAGE_SHIFT, 4, 11 },
		{ OHCA_REG_PAGE_SHIFT, 4, 17 },
		{ OHCA_REG_AQ_LOG_SIZE, 4, 1 },
		{ OHCA_REG_AQ_LOG_SIZE, 4, 9 },
		{ OHCA_REG_AQ_LOG_SIZE, 4, 0xffffffff },
		{ OHCA_REG_AQ_BASE, 8, 0x1004 },
		{ OHCA_REG_ACQ_BASE, 8, 0x800 },
		{ OHCA_REG_AQ_BASE, 8, 0xfffffffffffff000 },
		{ OHCA_REG_FEATURES_ACK, 8, 1ull << 63 },
		{ OHCA_REG_FEATURES_ACK, 8, 1ull << 40 },
	};
	struct host *h = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		try_enable(h, bad[i].reg, bad[i].val, bad[i].size);
		assert_int_equal(status(h), OHCA_STATUS_READY | OHCA_STATUS_FATAL);
		assert_int_equal(reason(h), OHCA_FATAL_BAD_ENABLE);
		/* only a reset ends this state */
		ohca_mmio_write(h->e, OHCA_REG_CTRL, OHCA_CTRL_ENABLE, 4);
		assert_int_equal(status(h), OHCA_STATUS_READY | OHCA_STATUS_FATAL);
	}
	try_enable(h, OHCA_REG_PAGE_SHIFT, 16, 4);
	assert_int_equal(status(h), OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
}

/* ---- admin queue ---- */

static void test_aq_wraps(void **state)
{
	struct host *h = *state;
	uint64_t before = host_counter(h, OHCA_CNT_CMDS);

	for (unsigned int i = 0; i < 100; i++) {
		struct ohca_hw_aqe c = { 0 };

		assert_int_equal(host_cmd(h, OHCA_CMD_NOP, &c, NULL), OHCA_ADMIN_OK);
	}
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS) - before, 100);
}

static void test_aq_overflow(void **state)
{
	struct host *h = *state;

	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, h->aq_pi + 17, 4);
	assert_false(ohca_poll(h->e, 64));
	assert_int_equal(reason(h), OHCA_FATAL_AQ_OVERFLOW);
	/* nothing runs any more; a reset helps */
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, h->aq_pi + 1, 4);
	assert_false(ohca_poll(h->e, 64));
	host_start(h);
	assert_int_equal(status(h), OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
}

static void test_fatal_event(void **state)
{
	struct host *h = *state;
	struct ohca_hw_eqe eqe;

	host_settle(&h, 1);
	h->irqs[0] = 0;
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, h->aq_pi + 17, 4);
	ohca_poll(h->e, 64);
	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_DEVICE_FATAL);
	assert_int_equal(h->irqs[0], 1);
}

static void test_aq_dma(void **state)
{
	struct host *h = *state;

	h->hole = h->aq;
	h->hole_len = 4096;
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, h->aq_pi + 1, 4);
	ohca_poll(h->e, 64);
	assert_int_equal(reason(h), OHCA_FATAL_AQ_DMA);
	h->hole_len = 0;
	host_start(h);
	h->hole = h->acq;
	h->hole_len = 4096;
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, h->aq_pi + 1, 4);
	ohca_poll(h->e, 64);
	assert_int_equal(reason(h), OHCA_FATAL_AQ_DMA);
}

static void test_aq_interrupt(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c = { 0 };

	h->irqs[0] = 0;
	host_cmd(h, OHCA_CMD_NOP, &c, NULL);
	assert_int_equal(h->irqs[0], 0);
	ohca_mmio_write(h->e, OHCA_REG_AQ_INTR, 1, 4);
	host_cmd(h, OHCA_CMD_NOP, &c, NULL);
	assert_int_equal(h->irqs[0], 1);
}

static void test_bad_commands(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c;

	for (unsigned int op = 0x42; op < 256; op++) {
		if (op == OHCA_CMD_UPDATE_MR_PAGES || op == OHCA_CMD_PAGE_FAULT_RESUME ||
		    op == OHCA_CMD_ALLOC_XRCD || op == OHCA_CMD_DEALLOC_XRCD ||
		    op == OHCA_CMD_ALLOC_DM || op == OHCA_CMD_FREE_DM)
			continue;
		if (op >= OHCA_CMD_ALLOC_COUNTERS && op <= OHCA_CMD_BIND_COUNTERS)
			continue;
		memset(&c, 0, sizeof(c));
		assert_int_equal(host_cmd(h, (uint8_t)op, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
	}
	memset(&c, 0, sizeof(c));
	c.hdr.reserved = 1;
	assert_int_equal(host_cmd(h, OHCA_CMD_NOP, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 1);
	memset(&c, 0, sizeof(c));
	c.hdr.function = 1;
	assert_int_equal(host_cmd(h, OHCA_CMD_NOP, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 2);
	/* every byte after the fields of a command is reserved */
	memset(&c, 0, sizeof(c));
	c.body[55] = 1;
	assert_int_equal(host_cmd(h, OHCA_CMD_NOP, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 63);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, 0xffffffff, 0),
			 OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, 0, 0x1000),
			 OHCA_ADMIN_BAD_PARAM);
}

static void test_features(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c = { 0 };

	host_enable(h, 1);
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_SRQ, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
	assert_int_equal(host_cmd(h, OHCA_CMD_RESIZE_CQ, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
	assert_int_equal(host_cmd(h, OHCA_CMD_RESIZE_SRQ, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
	assert_int_equal(host_cmd(h, OHCA_CMD_RESIZE_QP, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
	assert_int_equal(host_cmd(h, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
}

static void test_query_device(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c = HOST_AQE(mbox, .addr = h->mbox[0]);
	struct ohca_hw_device_attr a;

	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_DEVICE, &c, NULL), OHCA_ADMIN_OK);
	memcpy(&a, host_ptr(h, h->mbox[0]), sizeof(a));
	assert_int_equal(ib_be64(a.node_guid), GUID);
	assert_int_equal(ib_be64(a.sys_image_guid), GUID);
	assert_int_equal(a.max_qp, 256 - 4);
	assert_int_equal(a.max_mr, 1024 - 2);
	assert_int_equal(a.num_ports, 2);
	assert_int_equal(a.num_counters, OHCA_CNT_NUM);
	assert_int_equal(a.max_pkeys, 128);
	assert_int_equal(a.max_sge, 30);
	assert_int_equal(a.dm_size, HOST_DM);
	/* mailboxes: alignment and memory */
	c.mbox.addr = h->mbox[0] + 8;
	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_DEVICE, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 8);
	c.mbox.addr = 0;
	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_DEVICE, &c, NULL), OHCA_ADMIN_DMA);
	assert_int_equal(h->syndrome, 8);
}

static void test_query_counters(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c = HOST_AQE(mbox, .addr = h->mbox[0]);
	const __le64 *v = host_ptr(h, h->mbox[0]);

	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_COUNTERS, &c, NULL), OHCA_ADMIN_OK);
	/* as it was while the command ran */
	assert_int_equal(v[OHCA_CNT_CMDS], host_counter(h, OHCA_CNT_CMDS) - 1);
	assert_int_equal(ohca_counter(h->e, OHCA_CNT_NUM), 0);
}

/* ---- PDs and limits ---- */

static void test_pds(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c = HOST_AQE(alloc_pd, .uar = HOST_UARS);
	struct host_mr mr;
	uint32_t pd = host_pd(h, 3);
	unsigned int n = 0;

	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_PD, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 8);
	host_mr_create(h, &mr, 100, pd, 0);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, pd, 0), OHCA_ADMIN_BUSY);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEREG_MR, mr.key, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, pd, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, pd, 0), OHCA_ADMIN_BAD_HANDLE);
	host_buf_free(&mr.buf);
	/* all of the 256, and not one more */
	memset(&c, 0, sizeof(c));
	while (host_cmd(h, OHCA_CMD_ALLOC_PD, &c, NULL) == OHCA_ADMIN_OK)
		n++;
	assert_int_equal(n, 255);	/* host_start() has one */
	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_PD, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, 77, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_PD, &c, NULL), OHCA_ADMIN_OK);
}

/* Every limit that QUERY_DEVICE reports is accepted; one more is not. */
static void test_limits(void **state)
{
	/* a command does not read the memory of a queue that it makes */
	const struct ohca_hw_pl pl = { .root = 1ull << 44, .npages = 1u << 16,
				       .page_shift = 12 };
	struct host *h = *state;
	struct ohca_hw_aqe c = HOST_AQE(mbox, .addr = h->mbox[0]);
	struct ohca_hw_device_attr a;
	uint8_t more;

	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_DEVICE, &c, NULL), OHCA_ADMIN_OK);
	memcpy(&a, host_ptr(h, h->mbox[0]), sizeof(a));
#define BOTH(op, member, field, limit)							\
	for (more = 0; more < 2; more++) {						\
		c.member.field = (limit) + more;					\
		assert_int_equal(host_cmd(h, op, &c, NULL), more ? OHCA_ADMIN_BAD_PARAM :	\
				 OHCA_ADMIN_OK);					\
	}
	c = HOST_AQE(create_eq, .pl = pl);
	BOTH(OHCA_CMD_CREATE_EQ, create_eq, log_size, 20);
	c = HOST_AQE(create_cq, .pl = pl, .eqn = h->comp.eqn);
	BOTH(OHCA_CMD_CREATE_CQ, create_cq, log_size, a.log_max_cqe);
	c = HOST_AQE(create_srq, .pl = pl, .pdn = h->pdn, .log_stride = 9);
	BOTH(OHCA_CMD_CREATE_SRQ, create_srq, log_size, a.log_max_srq_wqes);
	c = HOST_AQE(create_qp, .pl = pl, .pdn = h->pdn, .type = OHCA_QPT_RC,
		     .log_rq_stride = 9);
	BOTH(OHCA_CMD_CREATE_QP, create_qp, log_rq, a.log_max_rq_wqes);
	c.create_qp.log_rq = 0;
	BOTH(OHCA_CMD_CREATE_QP, create_qp, log_sq, a.log_max_sq_bbs);
	c = HOST_AQE(reg_mr, .pl = pl, .pdn = h->pdn);
	c.reg_mr.pl.npages = 1u << 10;
	c.reg_mr.pl.page_shift = 30;
	BOTH(OHCA_CMD_REG_MR, reg_mr, length, a.max_mr_size);
	c = HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_FRMR);
	BOTH(OHCA_CMD_REG_MR, reg_mr, length, a.max_frmr_pages);
#undef BOTH
}

/* The lowest number that no table has, and the highest number. */
static void test_handles(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t max;
	} t[] = {
		{ OHCA_CMD_DESTROY_EQ, 64 }, { OHCA_CMD_DEALLOC_PD, 256 },
		{ OHCA_CMD_DESTROY_CQ, 256 }, { OHCA_CMD_DESTROY_SRQ, 64 },
		{ OHCA_CMD_DESTROY_QP, 256 }, { OHCA_CMD_DEREG_MR, 1024 << 8 },
		{ OHCA_CMD_QUERY_SRQ, 64 },
	};
	struct host *h = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pdn = 256);
	struct host_cq cq;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(host_cmd_handle(h, t[i].op, t[i].max, 0),
				 OHCA_ADMIN_BAD_HANDLE);
		assert_int_equal(host_cmd_handle(h, t[i].op, t[i].max - 1, 0),
				 OHCA_ADMIN_BAD_HANDLE);
		assert_int_equal(host_cmd_handle(h, t[i].op, ~0u, 0), OHCA_ADMIN_BAD_HANDLE);
	}
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x28);
	host_cq_create(h, &cq, 2, 0);
	host_cq_destroy(&cq);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, cq.cqn, 0),
			 OHCA_ADMIN_BAD_HANDLE);
}

/* ---- multicast ---- */

static void mcast_cmd(struct ohca_hw_aqe *c, const struct host_qp *qp, uint16_t n)
{
	memset(c, 0, sizeof(*c));
	c->mcast.qp = qp->handle;
	c->mcast.mlid = 0xc000;
	c->mcast.mgid[0] = 0xff;
	c->mcast.mgid[14] = (uint8_t)(n >> 8);
	c->mcast.mgid[15] = (uint8_t)n;
}

static void test_mcast(void **state)
{
	struct host *h = *state;
	struct host_cq cq;
	struct host_qp ud, rc;
	struct host_qp_init in = { .scq = &cq, .rcq = &cq };
	struct ohca_hw_aqe c;
	uint8_t mgid[16] = { 0xff };

	host_cq_create(h, &cq, 4, 0);
	assert_int_equal(host_qp_create(h, &rc, &in), 0);
	in.type = OHCA_QPT_UD;
	assert_int_equal(host_qp_create(h, &ud, &in), 0);
	mcast_cmd(&c, &rc, 0);
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	mcast_cmd(&c, &ud, 0);
	c.mcast.mgid[0] = 0xfe;
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	for (uint16_t i = 0; i < 300; i++) {
		mcast_cmd(&c, &ud, i);
		assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
	}
	/* a QP that attaches twice, with any MLID, is one member and must detach twice */
	mcast_cmd(&c, &ud, 0);
	c.mcast.mlid = 0xc001;
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
	assert_non_null(ohca_mcast_find(h->e, mgid));
	assert_int_equal(ohca_mcast_find(h->e, mgid)->num, 1);
	assert_int_equal(host_cmd(h, OHCA_CMD_DETACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
	assert_int_equal(ohca_mcast_find(h->e, mgid)->num, 1);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_QP, ud.handle, 0), OHCA_ADMIN_BUSY);
	for (uint16_t i = 0; i < 299; i++) {
		mcast_cmd(&c, &ud, i);
		assert_int_equal(host_cmd(h, OHCA_CMD_DETACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
		assert_int_equal(host_cmd(h, OHCA_CMD_DETACH_MCAST, &c, NULL),
				 OHCA_ADMIN_BAD_PARAM);
	}
	assert_null(ohca_mcast_find(h->e, mgid));
	/* a reset removes the last one */
	ohca_reset(h->e);
	mgid[14] = 299 >> 8;
	mgid[15] = 299 & 0xff;
	assert_null(ohca_mcast_find(h->e, mgid));
	host_buf_free(&cq.buf);
	host_buf_free(&ud.buf);
	host_buf_free(&rc.buf);
}

static void test_mcast_limit(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c;
	struct host_cq cq;
	struct host_qp ud;
	struct host_qp_init in = { .scq = &cq, .rcq = &cq, .type = OHCA_QPT_UD };

	host_cq_create(h, &cq, 4, 0);
	assert_int_equal(host_qp_create(h, &ud, &in), 0);
	for (uint16_t i = 0; i < OHCA_MAX_MCAST_GRP; i++) {
		mcast_cmd(&c, &ud, i);
		assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
	}
	mcast_cmd(&c, &ud, OHCA_MAX_MCAST_GRP);
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
	/* one leaves, another one joins; also after a reset */
	mcast_cmd(&c, &ud, 5);
	assert_int_equal(host_cmd(h, OHCA_CMD_DETACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
	mcast_cmd(&c, &ud, OHCA_MAX_MCAST_GRP);
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
	mcast_cmd(&c, &ud, 5);
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
	host_start(h);
	host_buf_free(&cq.buf);
	host_cq_create(h, &cq, 4, 0);
	host_buf_free(&ud.buf);
	assert_int_equal(host_qp_create(h, &ud, &in), 0);
	mcast_cmd(&c, &ud, 5);
	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), OHCA_ADMIN_OK);
	host_buf_free(&cq.buf);
	host_buf_free(&ud.buf);
}

/* ---- doorbells ---- */

static void test_doorbells(void **state)
{
	struct host *h = *state;
	struct host_cq cq;
	struct host_qp qp;
	struct host_qp_init in = { .scq = &cq, .rcq = &cq, .uar = 2, .pdn = host_pd(h, 2) };

	host_cq_create(h, &cq, 4, 2);
	assert_int_equal(host_qp_create(h, &qp, &in), 0);
	memset(&fake, 0, sizeof(fake));

	ohca_doorbell(h->e, 2, OHCA_UAR_SQ, qp.handle, 8);
	ohca_doorbell(h->e, 2, OHCA_UAR_SQ, qp.handle, 8);
	ohca_doorbell(h->e, 2, OHCA_UAR_RQ, qp.handle, 8);
	ohca_poll(h->e, 64);
	assert_int_equal(fake.kicks_sq, 1);
	assert_int_equal(fake.kicks_rq, 1);
	assert_int_equal(fake.last_handle, qp.handle);

	/* through the page of another process, for no object, of invalid form */
	ohca_doorbell(h->e, 1, OHCA_UAR_SQ, qp.handle, 8);
	ohca_doorbell(h->e, 0, OHCA_UAR_CQ_ARM, cq.cqn, 8);
	ohca_doorbell(h->e, HOST_UARS, OHCA_UAR_SQ, qp.handle, 8);
	ohca_doorbell(h->e, 1, OHCA_UAR_EQ, 0, 8);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_UAR), 4);
	ohca_doorbell(h->e, 2, OHCA_UAR_SQ, 0xffffff, 8);
	ohca_doorbell(h->e, 2, OHCA_UAR_SRQ, 5, 8);
	ohca_doorbell(h->e, 2, OHCA_UAR_CQ_ARM, 200, 8);
	ohca_doorbell(h->e, 0, OHCA_UAR_EQ, 0xffff, 8);
	ohca_doorbell(h->e, 2, 0x28, 0, 8);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_HANDLE), 5);
	ohca_doorbell(h->e, 2, OHCA_UAR_SQ, qp.handle, 4);
	ohca_doorbell(h->e, 2, OHCA_UAR_SQ + 4, qp.handle, 8);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_SIZE), 2);
	ohca_poll(h->e, 64);
	assert_int_equal(fake.kicks_sq, 1);

	/* an EQ that does not exist is detected when the doorbell is served */
	ohca_doorbell(h->e, 0, OHCA_UAR_EQ, 60, 8);
	ohca_poll(h->e, 64);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_HANDLE), 6);

	/* rung, then destroyed: the doorbell has no effect */
	ohca_doorbell(h->e, 2, OHCA_UAR_SQ, qp.handle, 8);
	host_qp_destroy(&qp);
	ohca_poll(h->e, 64);
	ohca_doorbell(h->e, 2, OHCA_UAR_SQ, qp.handle, 8);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_HANDLE), 7);
	host_cq_destroy(&cq);
	ohca_doorbell(h->e, 2, OHCA_UAR_CQ_ARM, cq.cqn, 8);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_HANDLE), 8);
}

static void test_doorbell_bitmap(void **state)
{
	struct ohca_cfg cfg = ((struct host *)*state)->cfg;
	struct host *h;
	struct host_cq cq;
	struct host_qp_init in = { .scq = &cq, .rcq = &cq, .log_sq = 1, .log_rq = 1 };
	struct host_qp qp = { 0 };
	unsigned int made = 0;

	/* more numbers than one summary word covers */
	cfg.log_max_qp = 13;
	h = host_new_cfg(&cfg, HOST_MEM);
	host_start(h);
	host_cq_create(h, &cq, 4, 0);
	memset(&fake, 0, sizeof(fake));
	while (made < 5000 && host_qp_create(h, &qp, &in) == 0) {
		made++;
		host_buf_free(&qp.buf);
	}
	assert_int_equal(made, 5000);
	for (unsigned int i = 0; i < 5000; i += 7)
		ohca_doorbell(h->e, 0, OHCA_UAR_SQ, 4 + i, 8);
	ohca_poll(h->e, 64);
	assert_int_equal(fake.kicks_sq, 5000 / 7 + 1);
	ohca_reset(h->e);
	while (ohca_sweep(h->e))
		;
	assert_int_equal(fake.destroyed, 5000);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* ---- reset ---- */

static void test_reset(void **state)
{
	struct host *h = *state;
	struct host_cq cq;
	struct host_qp qp;
	struct host_mr mr;
	struct host_srq srq;
	struct host_qp_init in = { .scq = &cq, .rcq = &cq, .srq = &srq };
	uint32_t key;

	host_cq_create(h, &cq, 4, 0);
	host_srq_create(h, &srq, 4, h->pdn, 0, 0);
	assert_int_equal(host_qp_create(h, &qp, &in), 0);
	h->scatter = true;
	host_mr_create(h, &mr, 20000, h->pdn, 1);
	h->scatter = false;
	key = mr.key;
	assert_int_equal(h->e->page_entries, 5);
	ohca_mmio_write(h->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	assert_int_equal(status(h), OHCA_STATUS_READY);
	assert_int_equal(h->e->page_entries, 0);
	/* doorbells of the old life have no effect; polls free the rest */
	ohca_doorbell(h->e, 0, OHCA_UAR_SQ, qp.handle, 8);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_HANDLE), 1);
	assert_false(ohca_poll(h->e, 64));
	assert_int_equal(fake.destroyed, 1);
	host_start(h);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_QP, qp.handle, 0),
			 OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEREG_MR, key, 0), OHCA_ADMIN_BAD_HANDLE);
	host_buf_free(&cq.buf);
	host_buf_free(&srq.buf);
	host_buf_free(&qp.buf);
	host_buf_free(&mr.buf);
}

static void test_bad_config(void **state)
{
	struct host *h = *state;
	struct ohca_cfg cfg = h->cfg;
	const struct ohca_host_ops ops = { 0 };

	assert_null(ohca_new(&cfg, &ops, h));
	assert_null(ohca_new(NULL, &h->e->ops, h));
	cfg.num_ports = 3;
	assert_null(ohca_new(&cfg, &h->e->ops, h));
	cfg = h->cfg;
	cfg.vl_cap = 3;
	assert_null(ohca_new(&cfg, &h->e->ops, h));
	cfg = h->cfg;
	cfg.log_max_mr = 21;
	assert_null(ohca_new(&cfg, &h->e->ops, h));
	cfg = h->cfg;
	memset(cfg.node_desc, 'x', sizeof(cfg.node_desc));
	assert_null(ohca_new(&cfg, &h->e->ops, h));
}

/*
 * Reports of the host about a port that does not exist have no effect, even if there is memory for
 * it.
 */
static void test_no_port(void **state)
{
	struct host *h = host_new(1, GUID);
	const struct ohca_link_rate rate = { .width = 2, .speed = 4, .speed_ext = 0 };
	const uint8_t frame[32] = { 0 };
	const struct ohca_frame f = { .data = frame, .len = sizeof(frame) };
	static struct ohca_port before[2], after[2];
	struct ohca_hw_eqe eqe;

	(void)state;
	static_assert(OHCA_MAX_PORTS == 2, "all are compared");
	host_start(h);
	while (host_eq_poll(h, &h->async, &eqe))
		;
	memcpy(before, h->e->port, sizeof(before));
	for (unsigned int port = 1; port < 3; port++) {
		memset(&fake, 0, sizeof(fake));
		ohca_link_change(h->e, port, &rate);
		ohca_link_change(h->e, port, NULL);
		ohca_tx_ready(h->e, port, 1);
		ohca_rx(h->e, port, &f);
		host_settle(&h, 1);
		assert_int_equal(fake.ports, 0);
		memcpy(after, h->e->port, sizeof(after));
		assert_memory_equal(before, after, sizeof(before));
		assert_false(host_eq_poll(h, &h->async, &eqe));
	}
	host_free(h);
}

/* ---- management ---- */

static void test_mad_ifc(void **state)
{
	struct host *h = *state;
	struct ib_smp s = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID,
				     .class_version = 1, .method = IB_METHOD_GET,
				     .attr_id = ib_to_be16(IB_SMP_ATTR_NODE_INFO) } };
	struct ohca_hw_aqe c = HOST_AQE(mad_ifc, .in_addr = h->mbox[0], .out_addr = h->mbox[1],
					      .port = 3);
	struct ib_node_info ni;

	assert_int_equal(host_mad_ifc(h, 1, (uint8_t *)&s), OHCA_MAD_REPLY);
	ib_node_info_unpack(s.data, &ni);
	assert_int_equal(ni.node_guid, GUID);
	assert_int_equal(ni.port_guid, GUID + 2);
	assert_int_equal(ni.num_ports, 2);
	assert_int_equal(ni.local_port, 2);
	assert_int_equal(host_cmd(h, OHCA_CMD_MAD_IFC, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 24);
	c.mad_ifc.port = 1;
	c.mad_ifc.flags = 0x80;
	assert_int_equal(host_cmd(h, OHCA_CMD_MAD_IFC, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.mad_ifc.flags = 0;
	c.mad_ifc.reserved = 1;
	assert_int_equal(host_cmd(h, OHCA_CMD_MAD_IFC, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.mad_ifc.reserved = 0;
	c.mad_ifc.in_addr = 0;
	assert_int_equal(host_cmd(h, OHCA_CMD_MAD_IFC, &c, NULL), OHCA_ADMIN_DMA);
}

/* With smp=off a driver can read its own port and change nothing; no port has a manager. */
static void test_smp_off(void **state)
{
	struct host *h = *state;
	struct ib_smp get = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID,
				       .class_version = 1, .method = IB_METHOD_GET,
				       .attr_id = ib_to_be16(IB_SMP_ATTR_PKEY_TABLE) } };
	struct ohca_hw_aqe c = HOST_AQE(modify_port, .port = 1,
					.set_caps = IB_CAP_SM);
	struct ib_smp s;

	for (unsigned int off = 0; off < 2; off++) {
		h->e->cfg.smp_off = off;
		assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL),
				 off ? OHCA_ADMIN_BAD_PARAM : OHCA_ADMIN_OK);
		s = get;
		s.hdr.method = IB_METHOD_SET;
		ib_pkey_block_put(s.data, 0, IB_DEFAULT_PKEY);
		ib_pkey_block_put(s.data, 1, (uint16_t)(0x8001 + off));
		assert_int_equal(host_mad_ifc(h, 0, (uint8_t *)&s), OHCA_MAD_REPLY);
		assert_int_equal(ib_be16(s.hdr.status), off ? IB_MAD_BAD_METHOD_ATTR : IB_MAD_OK);
		s = get;
		assert_int_equal(host_mad_ifc(h, 0, (uint8_t *)&s), OHCA_MAD_REPLY);
		assert_int_equal(ib_be16(s.hdr.status), IB_MAD_OK);
		assert_int_equal(ib_pkey_block_get(s.data, 1), 0x8001);
		s = get;
		s.hdr.method = IB_METHOD_TRAP_REPRESS;
		assert_int_equal(host_mad_ifc(h, 0, (uint8_t *)&s), OHCA_MAD_CONSUMED);
	}
}

static void test_ports(void **state)
{
	struct host *h = *state;
	struct ohca_hw_eqe eqe;
	bool active = false, lid = false;

	assert_int_equal(h->e->port[0].state, IB_PS_DOWN);
	host_cable(h, 0, true);
	host_settle(&h, 1);
	assert_int_equal(h->e->port[0].state, IB_PS_INIT);
	assert_int_equal(h->e->port[1].state, IB_PS_DOWN);
	host_port_set(h, 0, 7, IB_PS_ACTIVE);
	assert_int_equal(h->e->port[0].state, IB_PS_ACTIVE);
	assert_int_equal(h->e->port[0].lid, 7);
	assert_int_equal(h->e->port[0].pkey[0], 0xffff);
	assert_int_equal(h->e->port[0].op_vls, 8);
	assert_int_equal(h->e->port[0].mtu, 5);
	assert_int_equal(h->e->port[0].sl2vl[1], 1);
	assert_true(h->e->port[0].gid_valid[0]);
	assert_int_equal(ib_get_be64(h->e->port[0].gid[0] + 8), GUID + 1);
	while (host_eq_poll(h, &h->async, &eqe)) {
		assert_int_equal(eqe.handle, 0);
		assert_int_equal(eqe.port, 1);
		active |= eqe.type == OHCA_EVENT_PORT_ACTIVE;
		lid |= eqe.type == OHCA_EVENT_LID_CHANGE;
	}
	assert_true(active);
	assert_true(lid);
	host_eq_db(h, &h->async, true);
	host_cable(h, 0, false);
	host_settle(&h, 1);
	assert_int_equal(h->e->port[0].state, IB_PS_DOWN);
	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_PORT_ERR);
	/* a GID at the end of the table is found, and not after it was removed */
	for (unsigned int k = 0; k < 2; k++) {
		struct ib_smp guids = {
			.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID,
				 .class_version = 1, .method = IB_METHOD_SET,
				 .attr_id = ib_to_be16(IB_SMP_ATTR_GUID_INFO),
				 .attr_mod = ib_to_be32(31) },
		};
		uint8_t gid[16];

		ib_put_be64(guids.data + 56, k ? 0 : 0x1234);
		assert_int_equal(host_mad_ifc(h, 0, (uint8_t *)&guids), OHCA_MAD_REPLY);
		memcpy(gid, h->e->port[0].gid[0], 8);
		ib_put_be64(gid + 8, 0x1234);
		assert_int_equal(ohca_gid_find(&h->e->port[0], gid), k ? -1 : 255);
		assert_int_equal(ohca_gid_find(&h->e->port[0], h->e->port[0].gid[0]), 0);
		assert_int_equal(h->e->port[0].num_gids, k ? 1 : 256);
		assert_int_equal(h->e->port[0].gid_valid[255], !k);
		assert_int_equal(ib_get_be64(h->e->port[0].gid[255] + 8), k ? 0 : 0x1234);
	}
	/* a reset clears the LID; the link comes back with ENABLE */
	host_cable(h, 0, true);
	host_settle(&h, 1);
	host_start(h);
	host_settle(&h, 1);
	assert_int_equal(h->e->port[0].lid, 0);
	assert_int_equal(h->e->port[0].state, IB_PS_INIT);
}

/* A Set of the SM for a link takes effect at the link; violations are counted. */
static void test_port_effects(void **state)
{
	struct host *h = *state;
	struct ib_smp s = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID,
				     .class_version = 1, .method = IB_METHOD_GET,
				     .attr_id = ib_to_be16(IB_SMP_ATTR_PORT_INFO),
				     .attr_mod = ib_to_be32(1) } };
	struct ohca_hw_aqe c = HOST_AQE(modify_port, .port = 1,
					.flags = OHCA_MODIFY_PORT_RESET_QKEY_CNTR);
	struct ib_key_violation v = { .lid1 = 3, .lid2 = 7 };
	struct ib_port_info pi;

	host_cable(h, 0, true);
	host_settle(&h, 1);
	host_port_set(h, 0, 7, IB_PS_ACTIVE);
	memset(&fake, 0, sizeof(fake));
	ohca_mad_bad_pkey(h->e, 0, &v);
	ohca_mad_bad_qkey(h->e, 0, &v);
	ohca_mad_bad_qkey(h->e, 0, &v);
	host_mad_ifc(h, 0, (uint8_t *)&s);
	ib_port_info_unpack(s.data, &pi);
	assert_int_equal(pi.pkey_violations, 1);
	assert_int_equal(pi.qkey_violations, 2);
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_OK);
	/* traps go to the SM's LID from QP0 */
	host_run(&h, 1, HOST_MS);
	assert_true(fake.mads >= 1);
	assert_int_equal(fake.mad_qp, 0);
	assert_int_equal(fake.mad_av.dlid, 1);
	assert_int_equal(fake.mad[3], IB_METHOD_TRAP);
	/* a link that is set to Down trains again; a disabled one stays down */
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	ib_port_info_pack(&pi, s.data);
	s.hdr.method = IB_METHOD_SET;
	s.hdr.status = 0;
	host_mad_ifc(h, 0, (uint8_t *)&s);
	host_run(&h, 1, HOST_MS);
	assert_int_equal(h->e->port[0].state, IB_PS_INIT);
	assert_true(h->port[0].enabled);
	pi.phys_state = IB_PHYS_DISABLED;
	pi.qkey_violations = 0;
	ib_port_info_pack(&pi, s.data);
	s.hdr.method = IB_METHOD_SET;
	s.hdr.status = 0;
	host_mad_ifc(h, 0, (uint8_t *)&s);
	host_run(&h, 1, HOST_MS);
	assert_int_equal(h->e->port[0].state, IB_PS_DOWN);
	assert_false(h->port[0].enabled);
	assert_false(h->e->port[0].link_up);
	ib_port_info_unpack(s.data, &pi);
	assert_int_equal(pi.qkey_violations, 0);
	/* the host reported the link of a port up before the device was enabled */
	host_start(h);
	host_settle(&h, 1);
	assert_int_equal(h->e->port[0].state, IB_PS_INIT);
	assert_true(h->e->port[0].link_up);
}

static void test_modify_port(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c = HOST_AQE(modify_port, .port = 1, .set_caps = IB_CAP_SM);
	struct ohca_hw_aqe d = HOST_AQE(mbox, .addr = h->mbox[0]);
	struct ib_smp s = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID,
				     .class_version = 1, .method = IB_METHOD_GET,
				     .attr_id = ib_to_be16(IB_SMP_ATTR_PORT_INFO) } };
	struct ib_port_info pi;

	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_OK);
	host_mad_ifc(h, 0, (uint8_t *)&s);
	ib_port_info_unpack(s.data, &pi);
	assert_true(pi.cap_mask & IB_CAP_SM);
	c.modify_port.set_caps = 1u << 31;
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.modify_port.set_caps = c.modify_port.clr_caps = IB_CAP_SM;
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 16);
	c.modify_port.set_caps = 0;
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_OK);
	c.modify_port.clr_caps = 0;
	c.modify_port.flags = 2;
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.modify_port.flags = 0;
	c.modify_port.reserved = 1;
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.modify_port.reserved = 0;
	c.modify_port.port = 0;
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_PORT, &c, NULL), OHCA_ADMIN_BAD_PARAM);

	strcpy(host_ptr(h, h->mbox[0]), "node one");
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_DEVICE, &d, NULL), OHCA_ADMIN_OK);
	s.hdr.method = IB_METHOD_GET;
	s.hdr.status = 0;
	s.hdr.attr_id = ib_to_be16(IB_SMP_ATTR_NODE_DESC);
	host_mad_ifc(h, 0, (uint8_t *)&s);
	assert_string_equal((char *)s.data, "node one");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(identity), T(halves), T(bad_enable), T(aq_wraps), T(aq_overflow),
		T(fatal_event), T(aq_dma), T(aq_interrupt), T(bad_commands), T(features),
		T(query_device), T(query_counters), T(pds), T(limits), T(handles), T(mcast),
		T(mcast_limit), T(doorbells), T(doorbell_bitmap), T(reset), T(bad_config),
		cmocka_unit_test(test_no_port),
		T(mad_ifc), T(smp_off), T(ports), T(port_effects), T(modify_port),
	};

	return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
