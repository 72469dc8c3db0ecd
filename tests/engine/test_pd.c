/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Protection domains: the keys that a QP accepts when its SRQ has a PD of its own. */
#include "rig.h"

#define RIGHTS (OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ)

static void up(struct rig *r, uint8_t type, struct host_mr *mr)
{
	rig_up(r, (struct rig_opt){ .type = type, .srq = true, .srq_pd = true });
	host_mr_create(r->h[1], mr, 8192, r->srq_pdn[1], RIGHTS);
}

static void recv_to(struct rig *r, uint64_t wr_id, const struct host_mr *mr)
{
	struct ohca_hw_sge s = host_sge(mr->iova, 4096, mr->key);

	host_srq_post(&r->srq[1], wr_id, &s, 1);
}

/* A WQE of the SRQ names memory of the SRQ's PD, not of the QP's. */
static void test_recv(void **state)
{
	static const uint8_t types[] = { OHCA_QPT_RC, OHCA_QPT_UC, OHCA_QPT_UD };
	struct host_mr mr;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 3; k++) {
		unsigned int grh = types[k] == OHCA_QPT_UD ? 40 : 0;
		uint8_t got[2000], want[2000];

		up(&r, types[k], &mr);
		rig_fill(&r, 0, 0, sizeof(want), k);
		host_buf_read(r.h[0], &r.mr[0].buf, 0, want, sizeof(want));
		recv_to(&r, 1, &mr);
		rig_send(&r, 0, 2, 0, sizeof(want));
		rig_run(&r);
		wc(&r.scq[0], 2, WC_SUCCESS);
		wc(&r.rcq[1], 1, WC_SUCCESS);
		host_buf_read(r.h[1], &mr.buf, grh, got, sizeof(got));
		assert_memory_equal(got, want, sizeof(want));
		/* memory of the QP's PD is refused */
		recv_to(&r, 3, &r.mr[1]);
		rig_send(&r, 0, 4, 0, 100);
		rig_run(&r);
		wc(&r.scq[0], 4, types[k] == OHCA_QPT_RC ? WC_REM_OP : WC_SUCCESS);
		assert_int_equal(wc(&r.rcq[1], 3, WC_LOC_PROT).vendor_err, OHCA_VE_PD);
		host_buf_free(&mr.buf);
		rig_down(&r);
	}
}

/* Memory that a peer names must be of the QP's PD, and so must be memory that the QP sends. */
static void test_remote(void **state)
{
	struct host_mr mr;
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		up(&r, OHCA_QPT_RC, &mr);
		rig_write(&r, 0, 1, 0, 0, 5000);
		rig_read(&r, 1, 2, 0, 0, 5000);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		wc(&r.scq[1], 2, WC_SUCCESS);
		if (k == 0) {
			w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 3);
			wqe_raddr(&w, mr.iova, mr.key);
			wqe_sge(&w, r.mr[0].iova, 100, r.mr[0].key);
			wqe_post(&r.qp[0], &w);
		} else {
			w = wqe_new(OHCA_OP_RDMA_READ, OHCA_WQE_SIGNALED, 3);
			wqe_raddr(&w, r.mr[0].iova, r.mr[0].key);
			wqe_sge(&w, mr.iova, 100, mr.key);
			wqe_post(&r.qp[1], &w);
		}
		rig_run(&r);
		wc(&r.scq[k], 3, k ? WC_LOC_PROT : WC_REM_ACCESS);
		host_buf_free(&mr.buf);
		rig_down(&r);
	}
}

/* A tagged buffer is of the SRQ's PD, for an eager message and for the READ of a rendezvous. */
static void test_tagged(void **state)
{
	struct ohca_hw_tm_wqe add = { .opcode = OHCA_TM_ADD, .mask = ~0ull, .num_sge = 1 };
	uint8_t got[3000], want[3000];
	struct host_mr mr;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		rig_up(&r, (struct rig_opt){ .tags = 4, .srq_pd = true });
		host_mr_create(r.h[1], &mr, 8192, r.srq_pdn[1], RIGHTS);
		rig_fill(&r, 0, 0, sizeof(want), 7 + k);
		/* TMH: operation, then the tag; RVH: address, R_Key and length of the data */
		memset(host_buf_ptr(r.h[0], &r.mr[0].buf, 4096), 0, 32);
		*(uint8_t *)host_buf_ptr(r.h[0], &r.mr[0].buf, 4096) = k ? 1 : 3;
		*(uint8_t *)host_buf_ptr(r.h[0], &r.mr[0].buf, 4096 + 15) = 9;
		if (k) {
			uint64_t be = __builtin_bswap64(r.mr[0].iova);
			uint32_t rvh[2] = { __builtin_bswap32(r.mr[0].key),
					    __builtin_bswap32(sizeof(want)) };

			host_buf_write(r.h[0], &r.mr[0].buf, 4096 + 16, &be, 8);
			host_buf_write(r.h[0], &r.mr[0].buf, 4096 + 24, rvh, 8);
			rig_recv(&r, 0, 4, 8192, 100);
		} else {
			host_buf_read(r.h[0], &r.mr[0].buf, 0, want, sizeof(want));
			host_buf_write(r.h[0], &r.mr[0].buf, 4096 + 16, want, sizeof(want));
		}
		add.tag = 9;
		add.sge = host_sge(mr.iova, sizeof(want), mr.key);
		host_tm_op(&r.srq[1], &add);
		rig_run(&r);
		rig_send(&r, 0, 5, 4096, k ? 32 : 16 + sizeof(want));
		rig_run(&r);
		wc(&r.scq[0], 5, WC_SUCCESS);
		host_buf_read(r.h[0], &r.mr[0].buf, 0, want, sizeof(want));
		host_buf_read(r.h[1], &mr.buf, 0, got, sizeof(got));
		assert_memory_equal(got, want, sizeof(want));
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
		host_buf_free(&mr.buf);
		rig_down(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recv),
		cmocka_unit_test(test_remote),
		cmocka_unit_test(test_tagged),
	};

	return cmocka_run_group_tests_name("protection domains", tests, NULL, NULL);
}
