// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A QP whose queues and doorbell page a program writes itself.
 *
 * A parent domain's allocator provides the queues' memory; the doorbell page is found in
 * /proc/self/maps.
 */
#include "raw.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MAGIC	0x0ca0feedc0ffee11ull

static void *alloc(struct ibv_pd *pd, void *arg, size_t size, size_t alignment, uint64_t type)
{
	struct raw *r = arg;
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED || type > 3)
		return NULL;
	r->mem[type] = m;
	r->size[type] = size;
	return m;
}

static void release(struct ibv_pd *pd, void *arg, void *ptr, uint64_t type)
{
	struct raw *r = arg;

	munmap(ptr, r->size[type]);
}

/* Doorbell pages of this process, in the order of their mappings; at most @max. */
static unsigned int uars(volatile uint8_t **page, unsigned int max)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512], perm[8];
	unsigned int n = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "/dev/infiniband/uverbs") &&
		    sscanf(line, "%lx-%lx %7s", &from, &to, perm) == 3 && perm[1] == 'w' &&
		    n < max)
			page[n++] = (volatile uint8_t *)from;
	if (f)
		fclose(f);
	return n;
}

static volatile uint8_t *new_uar(volatile uint8_t **old, unsigned int num_old)
{
	volatile uint8_t *now[8];
	unsigned int n = uars(now, 8), k;

	for (unsigned int i = 0; i < n; i++) {
		for (k = 0; k < num_old && old[k] != now[i]; k++)
			;
		if (k == num_old)
			return now[i];
	}
	fail("no doorbell page in /proc/self/maps");
}

void raw_ring(volatile uint8_t *uar, uint32_t reg, uint32_t handle, uint32_t index)
{
	*(volatile uint64_t *)(uar + reg) = (uint64_t)index << 32 | handle;
}

struct ohca_hw_db *raw_db(struct raw *r)
{
	return (struct ohca_hw_db *)r->mem[RES_QP];
}

/* One valid WRITE shows where the SQ is. */
void raw_open(struct raw *r)
{
	struct ibv_parent_domain_init_attr init = {
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = alloc, .free = release, .pd_context = r,
	};
	struct peer *p = &r->p;
	volatile uint8_t *old[8];
	unsigned int n = uars(old, 8);
	uint64_t magic = MAGIC;

	memset(r, 0, sizeof(*r));
	p->sock = -1;
	p->client = true;
	peer_open(p, IBV_QPT_RC);
	r->uar = new_uar(old, n);
	init.pd = p->pd;
	r->parent = ibv_alloc_parent_domain(p->ctx, &init);
	if (!r->parent)
		fail("ibv_alloc_parent_domain: %s", strerror(errno));
	ibv_destroy_qp(p->qp);
	p->qp = peer_qp(p, r->parent);
	peer_connect(p);
	send_post(p, IBV_WR_RDMA_WRITE, MAGIC, 0, 8, 4096);
	wc_expect(p->scq, MAGIC, IBV_WC_SUCCESS, "good WRITE");
	r->sq = memmem(r->mem[RES_QP], r->size[RES_QP], &magic, 8);
	if (!r->sq)
		fail("the WQE is not in the queue's memory");
	r->sq -= offsetof(struct ohca_hw_wqe_ctrl, wr_id);
	r->pi = raw_db(r)->sq_pi;
}

void raw_close(struct raw *r)
{
	ibv_destroy_qp(r->p.qp);
	r->p.qp = NULL;
	ibv_dealloc_pd(r->parent);
	peer_close(&r->p);
}

void raw_post(struct raw *r, const void *wqe, uint32_t bbs)
{
	memcpy(r->sq + r->pi * OHCA_BB_SIZE, wqe, bbs * OHCA_BB_SIZE);
	r->pi += bbs;
	atomic_thread_fence(memory_order_seq_cst);
	*(volatile uint32_t *)&raw_db(r)->sq_pi = r->pi;
	atomic_thread_fence(memory_order_seq_cst);
	raw_ring(r->uar, OHCA_UAR_SQ, r->p.qp->qp_num, r->pi);
}

uint8_t *raw_good(struct raw *r, uint8_t bb[OHCA_BB_SIZE])
{
	struct ohca_hw_wqe_ctrl *c = (void *)bb;
	struct ohca_hw_wqe_raddr *ra = (void *)(bb + 16);
	struct ohca_hw_sge *sge = (void *)(bb + 32);

	memset(bb, 0, OHCA_BB_SIZE);
	c->opcode = OHCA_OP_RDMA_WRITE;
	c->nseg = 3;
	c->flags = OHCA_WQE_SIGNALED;
	c->wr_id = 77;
	ra->raddr = r->p.you.addr + 8192;
	ra->rkey = r->p.you.rkey;
	sge->addr = (uintptr_t)r->p.buf;
	sge->length = 64;
	sge->lkey = r->p.mr->lkey;
	return bb;
}
