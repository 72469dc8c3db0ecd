// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A process that writes arbitrary data to its own queues and doorbell page. The device must report
 * the error to that process, and no other process may be affected.
 */
#include "peer.h"
#include "raw.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void expect_op_err(struct raw *r, const char *what, uint32_t vendor_err)
{
	struct ibv_wc wc = wc_expect(r->p.scq, 77, IBV_WC_LOC_QP_OP_ERR, what);

	if (wc.vendor_err != vendor_err)
		fail("%s: vendor_err %#x instead of %#x", what, wc.vendor_err, vendor_err);
	if (qp_state(r->p.qp) != IBV_QPS_ERR)
		fail("%s: the QP is not in ERR", what);
}

/* WQEs that are malformed by the contract; the completion of each names the error. */
static void wqe(void)
{
	static const struct {
		const char *what;
		uint8_t opcode, nseg;
		uint16_t flags;
		uint32_t vendor_err;
	} bad[] = {
		{ "unknown opcode", 0x15, 3, OHCA_WQE_SIGNALED, OHCA_VE_WQE_OPCODE },
		{ "kernel's opcode", OHCA_OP_REG_MR, 4, OHCA_WQE_SIGNALED, OHCA_VE_WQE_OPCODE },
		{ "no segment", OHCA_OP_RDMA_WRITE, 0, OHCA_WQE_SIGNALED, OHCA_VE_WQE_SIZE },
		{ "address missing", OHCA_OP_RDMA_WRITE, 1, OHCA_WQE_SIGNALED, OHCA_VE_WQE_SIZE },
		{ "255 segments", OHCA_OP_RDMA_WRITE, 255, OHCA_WQE_SIGNALED, OHCA_VE_WQE_SIZE },
		{ "longer than posted", OHCA_OP_RDMA_WRITE, 20, OHCA_WQE_SIGNALED,
		  OHCA_VE_WQE_SIZE },
		{ "inline length", OHCA_OP_RDMA_WRITE, 3,
		  OHCA_WQE_SIGNALED | OHCA_WQE_INLINE | OHCA_WQE_INLINE_LEN, OHCA_VE_WQE_SIZE },
		{ "inline READ", OHCA_OP_RDMA_READ, 3,
		  OHCA_WQE_SIGNALED | OHCA_WQE_INLINE | 16 << 6, OHCA_VE_WQE_FLAGS },
	};
	uint8_t bb[OHCA_BB_SIZE];
	struct raw r;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct ohca_hw_wqe_ctrl *c = (void *)bb;

		raw_open(&r);
		/* first a valid one, posted in the same way */
		raw_post(&r, raw_good(&r, bb), 1);
		wc_expect(r.p.scq, 77, IBV_WC_SUCCESS, "good WQE");
		raw_good(&r, bb);
		c->opcode = bad[i].opcode;
		c->nseg = bad[i].nseg;
		c->flags = bad[i].flags;
		raw_post(&r, bb, 1);
		expect_op_err(&r, bad[i].what, bad[i].vendor_err);
		raw_close(&r);
	}
	printf("%zu malformed WQEs refused\n", sizeof(bad) / sizeof(*bad));
}

/* Random bytes: no completion is required, only that destroying the QP works. */
static void noise(void)
{
	uint64_t seed = 42, v;
	uint8_t bb[8 * OHCA_BB_SIZE];
	unsigned int errors = 0;
	struct ibv_wc wc;
	struct raw r;

	for (unsigned int i = 0; i < 40; i++) {
		raw_open(&r);
		for (unsigned int k = 0; k < sizeof(bb); k += 8) {
			v = rnd(&seed);
			memcpy(bb + k, &v, 8);
		}
		if (i & 1) {	/* a plausible header before the noise */
			bb[0] &= 15;
			bb[1] %= 12;
		}
		raw_post(&r, bb, 8);
		qp_to_err(r.p.qp);
		while (wc_get(r.p.scq, &wc, 20))
			errors += wc.status != IBV_WC_SUCCESS;
		raw_close(&r);
	}
	if (errors < 10)
		fail("only %u errors from noise", errors);
	printf("%u errors from noise\n", errors);
}

/* Invalid indices in the doorbell record. */
static void indices(void)
{
	uint64_t seed = 7, before;
	struct raw r;

	for (unsigned int i = 0; i < 20; i++) {
		raw_open(&r);
		before = hw_counter(r.p.ctx, "doorbell_bad_index");
		*(volatile uint32_t *)&raw_db(&r)->sq_pi = r.pi + 100000 + (uint32_t)rnd(&seed) / 4;
		*(volatile uint32_t *)&raw_db(&r)->rq_pi = (uint32_t)rnd(&seed);
		atomic_thread_fence(memory_order_seq_cst);
		raw_ring(r.uar, OHCA_UAR_SQ, r.p.qp->qp_num, 1);
		raw_ring(r.uar, OHCA_UAR_RQ, r.p.qp->qp_num, 1);
		event_expect(r.p.ctx, IBV_EVENT_QP_FATAL);
		if (hw_counter(r.p.ctx, "doorbell_bad_index") <= before)
			fail("doorbell_bad_index did not count");
		if (qp_state(r.p.qp) != IBV_QPS_ERR)
			fail("the QP is not in ERR");
		raw_close(&r);
	}
	printf("bad indices refused\n");
}

static void counted(struct raw *r, const char *name, uint64_t before, uint64_t n)
{
	uint64_t now = hw_counter(r->p.ctx, name);

	if (now != before + n)
		fail("%s went from %llu to %llu instead of up by %llu", name,
		     (unsigned long long)before, (unsigned long long)now, (unsigned long long)n);
}

/* Doorbells for objects of others, for unknown objects, or of a wrong size. */
static void doorbells(void)
{
	uint8_t bb[OHCA_BB_SIZE];
	struct raw a, b;
	uint64_t n;

	raw_open(&a);
	raw_open(&b);
	if (a.uar == b.uar)
		fail("two processes' contexts share a doorbell page");

	/* b's QP by a's page: b has posted, but nothing happens */
	n = hw_counter(a.p.ctx, "doorbell_bad_uar");
	for (unsigned int i = 0; i < 100; i++)
		raw_ring(a.uar, OHCA_UAR_SQ, b.p.qp->qp_num, 99);
	raw_ring(a.uar, OHCA_UAR_RQ, b.p.qp->qp_num, 99);
	raw_ring(a.uar, OHCA_UAR_SQ, 0, 1);		/* the kernel's QP0 */
	raw_ring(a.uar, OHCA_UAR_SQ, 1, 1);		/* and QP1 */
	raw_ring(a.uar, OHCA_UAR_EQ, 0, 1);		/* the kernel's event queue */
	counted(&a, "doorbell_bad_uar", n, 104);

	n = hw_counter(a.p.ctx, "doorbell_bad_handle");
	raw_ring(a.uar, OHCA_UAR_SQ, 0xffffff, 1);
	raw_ring(a.uar, OHCA_UAR_SRQ, 0xfffffe, 1);
	raw_ring(a.uar, OHCA_UAR_CQ_ARM, 0xfffffd, 1);
	counted(&a, "doorbell_bad_handle", n, 3);

	n = hw_counter(a.p.ctx, "doorbell_bad_size");
	*(volatile uint32_t *)(a.uar + OHCA_UAR_SQ) = a.p.qp->qp_num;
	*(volatile uint16_t *)(a.uar + OHCA_UAR_RQ) = 1;
	*(volatile uint8_t *)(a.uar + OHCA_UAR_CQ_ARM) = 1;
	counted(&a, "doorbell_bad_size", n, 3);

	/* outside the doorbells of the page */
	for (unsigned int off = 0x28; off < 4096; off += 8)
		raw_ring(a.uar, off, a.p.qp->qp_num, 1);

	/* both QPs still work */
	raw_post(&a, raw_good(&a, bb), 1);
	wc_expect(a.p.scq, 77, IBV_WC_SUCCESS, "WQE after bad doorbells");
	raw_post(&b, raw_good(&b, bb), 1);
	wc_expect(b.p.scq, 77, IBV_WC_SUCCESS, "WQE after bad doorbells");
	raw_close(&a);
	raw_close(&b);
	printf("bad doorbells refused\n");
}

/* More completions than a CQ can hold. */
static void cq_overrun(void)
{
	struct ibv_cq *small;
	uint8_t bb[OHCA_BB_SIZE];
	uint64_t before;
	struct raw r;

	raw_open(&r);
	before = hw_counter(r.p.ctx, "cq_overflow");
	small = ibv_create_cq(r.p.ctx, 4, NULL, NULL, 0);
	if (!small)
		fail("ibv_create_cq: %s", strerror(errno));
	ibv_destroy_qp(r.p.qp);
	ibv_destroy_cq(r.p.scq);
	r.p.scq = small;
	r.p.qp = peer_qp(&r.p, r.parent);
	peer_connect(&r.p);
	for (unsigned int i = 0; i < 16; i++)
		send_post(&r.p, IBV_WR_RDMA_WRITE, i, 0, 64, 4096);
	event_expect(r.p.ctx, IBV_EVENT_CQ_ERR);
	if (hw_counter(r.p.ctx, "cq_overflow") <= before)
		fail("cq_overflow did not count");
	raw_close(&r);

	raw_open(&r);
	raw_post(&r, raw_good(&r, bb), 1);
	wc_expect(r.p.scq, 77, IBV_WC_SUCCESS, "another CQ after the overrun");
	raw_close(&r);
	printf("CQ overrun reported\n");
}

/* A consumer index beyond the producer index. */
static void cq_record(void)
{
	struct ohca_hw_db *rec;
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_cq_ex *cq;
	struct raw r;

	raw_open(&r);
	attr.parent_domain = r.parent;
	cq = ibv_create_cq_ex(r.p.ctx, &attr);
	if (!cq)
		fail("ibv_create_cq_ex: %s", strerror(errno));
	rec = (struct ohca_hw_db *)r.mem[RES_CQ];
	ibv_destroy_qp(r.p.qp);
	ibv_destroy_cq(r.p.scq);
	r.p.scq = ibv_cq_ex_to_cq(cq);
	r.p.qp = peer_qp(&r.p, r.parent);
	peer_connect(&r.p);
	*(volatile uint32_t *)&rec->cq_ci = 0x80000000u;
	for (unsigned int i = 0; i < 16; i++)
		send_post(&r.p, IBV_WR_RDMA_WRITE, i, 0, 64, 4096);
	event_expect(r.p.ctx, IBV_EVENT_CQ_ERR);
	/* the CQ is destroyed before its domain */
	ibv_destroy_qp(r.p.qp);
	ibv_destroy_cq(r.p.scq);
	r.p.scq = ibv_create_cq(r.p.ctx, 4, NULL, NULL, 0);
	r.p.qp = peer_qp(&r.p, r.parent);
	raw_close(&r);
	printf("bad consumer index reported\n");
}

/* munmap() of memory that the device uses: it is pinned, so nothing fails. */
static void unmap(void)
{
	struct raw r;

	raw_open(&r);
	for (unsigned int i = 0; i < 16; i++)
		send_post(&r.p, IBV_WR_RDMA_WRITE, i, 0, PEER_BUF / 2, PEER_BUF / 2);
	munmap(r.p.buf, PEER_BUF);
	for (unsigned int i = 0; i < 16; i++)
		wc_expect(r.p.scq, i, IBV_WC_SUCCESS, "WRITE of unmapped memory");
	raw_close(&r);
	printf("unmapped memory stayed pinned\n");
}

/* Many requests are outstanding, and the process exits without destroying anything. */
static void crash(void)
{
	static struct raw r[8];
	uint8_t bb[OHCA_BB_SIZE];

	for (unsigned int i = 0; i < 8; i++) {
		raw_open(&r[i]);
		for (unsigned int k = 0; k < 16; k++)
			recv_post(&r[i].p, k, 0, 4096);
		for (unsigned int k = 0; k < 16; k++)
			send_post(&r[i].p, IBV_WR_RDMA_WRITE, k, 0, PEER_BUF / 2, PEER_BUF / 2);
		r[i].pi = raw_db(&r[i])->sq_pi;
		raw_post(&r[i], memset(bb, 0xff, sizeof(bb)), 1);
	}
	printf("crashing\n");
	fflush(stdout);
	_exit(0);
}

void hostile_main(const char *name)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenarios[] = {
		{ "wqe", wqe }, { "noise", noise }, { "indices", indices },
		{ "doorbells", doorbells }, { "cq_overrun", cq_overrun },
		{ "cq_record", cq_record }, { "unmap", unmap }, { "crash", crash },
	};

	for (unsigned int i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (!strcmp(name, scenarios[i].name)) {
			scenarios[i].run();
			return;
		}
	}
	fail("no such scenario: %s", name);
}
