// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many QPs and many MRs in one process: created, used, destroyed. Each step is timed; the steps of
 * the last quarter of the objects should take as long as those of the first. Other processes use
 * the processor, too, so the fastest tenth of each quarter is compared: a linear search slows down
 * every step, a busy machine only some. If a busy machine slows down a whole quarter, the caller
 * runs this program again.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOWER	3	/* allowed factor of the last quarter; a search is far slower */

static uint32_t *took;	/* nanoseconds of each step of a phase */

static int64_t ns_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Sorts @n steps from @from on. Return: microseconds of the fastest tenth. */
static double quick(uint32_t from, uint32_t n)
{
	qsort(took + from, n, sizeof(*took), by_value);
	return took[from + n / 10] / 1000.0;
}

/* Calls @work for 0 to @n - 1. */
static void phase(const char *name, uint32_t n, void (*work)(struct peer *p, uint32_t i),
		  struct peer *p)
{
	int64_t begin = ns_now(), at = begin, now;
	double first, last;

	for (uint32_t i = 0; i < n; i++) {
		work(p, i);
		now = ns_now();
		took[i] = now - at > UINT32_MAX ? UINT32_MAX : (uint32_t)(now - at);
		at = now;
	}
	first = quick(0, n / 4);
	last = quick(n - n / 4, n / 4);
	printf("%-12s %6u in %6.2f s; quick ones of the first quarter %7.2f us, the last %7.2f\n",
	       name, n, (double)(at - begin) / 1e9, first, last);
	if (last > SLOWER * first + 20)
		printf("slower %s: the last quarter costs %.1f times what the first did\n", name,
		       last / first);
}

static struct ibv_qp **qps;
static struct ibv_mr **mrs;

static void qp_make(struct peer *p, uint32_t i)
{
	struct ibv_qp_init_attr init = {
		.send_cq = p->scq, .recv_cq = p->rcq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	qps[i] = ibv_create_qp(p->pd, &init);
	if (!qps[i])
		fail("QP %u: %s", i, strerror(errno));
}

/* Each QP is connected to itself. */
static void qp_connect(struct peer *p, uint32_t i)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct peer_info me = { .qpn = qps[i]->qp_num, .lid = p->me.lid, .psn = i & 0xffffff };
	int rc = ibv_modify_qp(qps[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_ACCESS_FLAGS);

	if (rc)
		fail("QP %u to INIT: %s", i, strerror(rc));
	peer_rts(p, qps[i], &me, me.psn);
}

static void qp_use(struct peer *p, uint32_t i)
{
	volatile uint64_t *to = (uint64_t *)(p->buf + 4096);

	*(volatile uint64_t *)p->buf = ~(uint64_t)i;
	p->qp = qps[i];
	send_post(p, IBV_WR_RDMA_WRITE, i, 0, 8, 4096);
	wc_expect(p->scq, i, IBV_WC_SUCCESS, "WRITE");
	if (*to != ~(uint64_t)i)
		fail("QP %u wrote %#llx", i, (unsigned long long)*to);
}

static void qp_end(struct peer *p, uint32_t i)
{
	if (ibv_destroy_qp(qps[i]))
		fail("QP %u is not destroyed", i);
}

static void mr_make(struct peer *p, uint32_t i)
{
	mrs[i] = ibv_reg_mr(p->pd, p->buf + (i % (PEER_BUF / 64)) * 64, 64,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mrs[i])
		fail("MR %u: %s", i, strerror(errno));
}

static void mr_use(struct peer *p, uint32_t i)
{
	struct ibv_mr *from = mrs[i], *to = mrs[i ^ 1];
	struct ibv_sge sge = { (uintptr_t)from->addr, 8, from->lkey };
	struct ibv_send_wr wr = {
		.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)to->addr, .rkey = to->rkey },
	};

	*(volatile uint64_t *)from->addr = i;
	send_post_raw(p, &wr);
	wc_expect(p->scq, i, IBV_WC_SUCCESS, "WRITE");
	if (*(volatile uint64_t *)to->addr != i)
		fail("MR %u: wrong data", i);
}

static void mr_end(struct peer *p, uint32_t i)
{
	if (ibv_dereg_mr(mrs[i]))
		fail("MR %u is not deregistered", i);
}

void scale_main(uint32_t nqp, uint32_t nmr)
{
	struct peer p = { .sock = -1 };
	struct ibv_qp *own;

	alarm(280);
	setvbuf(stdout, NULL, _IOLBF, 0);
	qps = calloc(nqp, sizeof(*qps));
	mrs = calloc(nmr, sizeof(*mrs));
	took = calloc(nqp > nmr ? nqp : nmr, sizeof(*took));
	if (!qps || !mrs || !took)
		fail("memory");
	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	own = p.qp;
	phase("QP create", nqp, qp_make, &p);
	phase("QP connect", nqp, qp_connect, &p);
	phase("QP use", nqp, qp_use, &p);
	p.qp = own;
	phase("MR register", nmr, mr_make, &p);
	phase("MR use", nmr & ~1u, mr_use, &p);
	phase("MR end", nmr, mr_end, &p);
	phase("QP destroy", nqp, qp_end, &p);
	peer_close(&p);
	free(qps);
	free(mrs);
	free(took);
	printf("scale end\n");
}
