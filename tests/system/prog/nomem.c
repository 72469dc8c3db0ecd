// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Each allocation of the kernel during a verb fails once: the first, the second, and so on until
 * the verb ends before the next one would fail. The verb fails then with ENOMEM or works without
 * that memory. A verb that destroys an object succeeds with the next try at the latest.
 *
 * The kernel's fault injection of slabs, by /proc/thread-self/fail-nth
 * (Documentation/fault-injection/fault-injection.rst of Linux), counts the allocations of this
 * thread.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST	500u	/* limit of the allocations of one verb */
#define CQES	500

static struct {
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr, *odp;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_cq *cq, *queue;
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *ud;
	struct ibv_ah *ah;
	struct ibv_xrcd *xrcd;
	struct ibv_port_attr port;
	union ibv_gid mgid;
	uint8_t *buf;
} x;

/*
 * Lets the n-th allocation from now on fail; 0: none. Returns whether the previous one has failed.
 */
static bool arm(unsigned int n)
{
	static int fd = -1;
	char text[16] = "";
	unsigned long left;

	if (fd < 0)
		fd = open("/proc/thread-self/fail-nth", O_RDWR);
	if (fd < 0)
		fail("fail-nth: %s", strerror(errno));
	if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
		fail("fail-nth, read: %s", strerror(errno));
	left = strtoul(text, NULL, 10);
	snprintf(text, sizeof(text), "%u", n);
	if (pwrite(fd, text, strlen(text), 0) < 0)
		fail("fail-nth, written: %s", strerror(errno));
	return !left;
}

/* The result of a verb: 0 or an errno. */
static int made(const void *object)
{
	return object ? 0 : errno;
}

static int context_make(void)
{
	x.ctx = ibv_open_device(x.list[0]);
	return made(x.ctx);
}

static int context_undo(void)
{
	return ibv_close_device(x.ctx);
}

static int pd_make(void)
{
	x.pd = ibv_alloc_pd(x.ctx);
	return made(x.pd);
}

static int pd_undo(void)
{
	return ibv_dealloc_pd(x.pd);
}

static int mr_make(void)
{
	x.mr = ibv_reg_mr(x.pd, x.buf, PEER_BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_MW_BIND);
	return made(x.mr);
}

static int mr_undo(void)
{
	return ibv_dereg_mr(x.mr);
}

static int odp_make(void)
{
	x.odp = ibv_reg_mr(x.pd, x.buf, PEER_BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	return made(x.odp);
}

static int odp_undo(void)
{
	return ibv_dereg_mr(x.odp);
}

static int rereg_make(void)
{
	return ibv_rereg_mr(x.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, x.buf + 4096,
			    PEER_BUF / 2, 0) ? errno : 0;
}

static int mw_make(void)
{
	x.mw = ibv_alloc_mw(x.pd, IBV_MW_TYPE_2);
	return made(x.mw);
}

static int mw_undo(void)
{
	return ibv_dealloc_mw(x.mw);
}

static int dm_make(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };

	x.dm = ibv_alloc_dm(x.ctx, &attr);
	return made(x.dm);
}

static int dm_undo(void)
{
	return ibv_free_dm(x.dm);
}

static int xrcd_make(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};

	x.xrcd = ibv_open_xrcd(x.ctx, &attr);
	return made(x.xrcd);
}

static int xrcd_undo(void)
{
	return ibv_close_xrcd(x.xrcd);
}

static int channel_make(void)
{
	x.channel = ibv_create_comp_channel(x.ctx);
	return made(x.channel);
}

static int channel_undo(void)
{
	return ibv_destroy_comp_channel(x.channel);
}

static int cq_make(void)
{
	x.cq = ibv_create_cq(x.ctx, CQES, NULL, x.channel, 0);
	return made(x.cq);
}

static int cq_undo(void)
{
	return ibv_destroy_cq(x.cq);
}

static int resize_make(void)
{
	return ibv_resize_cq(x.cq, x.cq->cqe > 2 * CQES ? CQES : 4 * CQES);
}

static int srq_make(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 64, .max_sge = 4 } };

	x.srq = ibv_create_srq(x.pd, &attr);
	return made(x.srq);
}

static int srq_undo(void)
{
	return ibv_destroy_srq(x.srq);
}

static int srq_resize_make(void)
{
	struct ibv_srq_attr attr = { .max_wr = 512 };

	return ibv_modify_srq(x.srq, &attr, IBV_SRQ_MAX_WR);
}

static struct ibv_qp *qp_of(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type, .send_cq = x.cq, .recv_cq = x.cq,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 2,
			 .max_recv_sge = 2 },
	};

	return ibv_create_qp(x.pd, &attr);
}

static int qp_make(void)
{
	x.qp = qp_of(IBV_QPT_RC);
	return made(x.qp);
}

static int qp_undo(void)
{
	return ibv_destroy_qp(x.qp);
}

static int ud_make(void)
{
	x.ud = qp_of(IBV_QPT_UD);
	return made(x.ud);
}

static int ud_undo(void)
{
	return ibv_destroy_qp(x.ud);
}

/* From any state of an earlier try. */
static int connect_make(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RESET, .port_num = 1, .path_mtu = IBV_MTU_2048,
		.dest_qp_num = x.qp->qp_num, .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = { .dlid = x.port.lid, .port_num = 1 },
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
	};
	int rc = ibv_modify_qp(x.qp, &attr, IBV_QP_STATE);

	attr.qp_state = IBV_QPS_INIT;
	if (!rc)
		rc = ibv_modify_qp(x.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	if (!rc)
		rc = ibv_modify_qp(x.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	if (!rc)
		rc = ibv_modify_qp(x.qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return rc;
}

static int query_make(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(x.qp, &attr, IBV_QP_STATE, &init);
}

static int ah_make(void)
{
	struct ibv_ah_attr attr = { .dlid = x.port.lid, .port_num = 1 };

	x.ah = ibv_create_ah(x.pd, &attr);
	return made(x.ah);
}

static int ah_undo(void)
{
	return ibv_destroy_ah(x.ah);
}

static int group_make(void)
{
	return ibv_attach_mcast(x.ud, &x.mgid, 0xc005);
}

static int group_undo(void)
{
	return ibv_detach_mcast(x.ud, &x.mgid, 0xc005);
}

/* In order of dependency. undo: NULL if the step can be repeated without it. */
static const struct step {
	const char *name;
	int (*make)(void);
	int (*undo)(void);
} steps[] = {
	{ "open_device", context_make, context_undo },
	{ "alloc_pd", pd_make, pd_undo },
	{ "open_xrcd", xrcd_make, xrcd_undo },
	{ "alloc_dm", dm_make, dm_undo },
	{ "create_comp_channel", channel_make, channel_undo },
	{ "reg_mr", mr_make, mr_undo },
	{ "rereg_mr", rereg_make, NULL },
	{ "reg_mr ODP", odp_make, odp_undo },
	{ "alloc_mw", mw_make, mw_undo },
	{ "create_cq", cq_make, cq_undo },
	{ "resize_cq", resize_make, NULL },
	{ "create_srq", srq_make, srq_undo },
	{ "modify_srq", srq_resize_make, NULL },
	{ "create_qp", qp_make, qp_undo },
	{ "modify_qp", connect_make, NULL },
	{ "query_qp", query_make, NULL },
	{ "create_ah", ah_make, ah_undo },
	{ "create_qp UD", ud_make, ud_undo },
	{ "attach_mcast", group_make, group_undo },
};

/*
 * Whether this is an error of missing memory. ib_core returns EAGAIN if pages cannot be mapped. If
 * a file cannot be opened libibverbs tries another one, so the first step may have any error.
 */
static bool due(const struct step *s, int rc)
{
	return rc == ENOMEM || rc == EAGAIN || s == steps;
}

/* Each allocation of make fails once. Return: how many. */
static unsigned int make_all(const struct step *s)
{
	for (unsigned int n = 1; n <= MOST; n++) {
		bool failed;
		int rc;

		arm(n);
		errno = 0;
		rc = s->make();
		failed = arm(0);
		if (rc && (!failed || !due(s, rc)))
			fail("%s: %d (%s), allocation %u failed: %d", s->name, rc, strerror(rc),
			     n, failed);
		if (!rc && s->undo && s->undo())
			fail("%s is not undone: %s", s->name, strerror(errno));
		if (!failed)
			return n - 1;
	}
	fail("%s: more than %u allocations", s->name, MOST);
}

/* Each allocation of undo fails once. Return: how many. The object exists at the end. */
static unsigned int undo_all(const struct step *s)
{
	for (unsigned int n = 1; n <= MOST; n++) {
		bool failed;
		int rc = s->make();

		if (rc)
			fail("%s: %s", s->name, strerror(rc));
		if (!s->undo)
			return 0;
		arm(n);
		rc = s->undo();
		failed = arm(0);
		if (rc && (!failed || s->undo()))
			fail("%s is not undone: %d, allocation %u failed: %d", s->name, rc, n,
			     failed);
		if (!failed) {
			rc = s->make();
			if (rc)
				fail("%s: %s", s->name, strerror(rc));
			return n - 1;
		}
	}
	fail("%s: more than %u allocations to undo it", s->name, MOST);
}

void nomem_main(void)
{
	const unsigned int many = sizeof(steps) / sizeof(*steps);
	unsigned int sum = 0;

	x.list = ibv_get_device_list(NULL);
	if (!x.list || !*x.list)
		fail("no device");
	if (posix_memalign((void **)&x.buf, 4096, PEER_BUF))
		fail("no memory");
	memset(x.buf, 1, PEER_BUF);
	memcpy(x.mgid.raw, "\xff\x12\x40\x1b\xff\xff\0\0\0\0\0\0\x4f\x48\x43\x41", 16);
	for (unsigned int i = 0; i < many; i++) {
		unsigned int made, undone;

		made = make_all(steps + i);
		undone = undo_all(steps + i);
		printf("%s: %u and %u allocations\n", steps[i].name, made, undone);
		sum += made + undone;
		if (!i && ibv_query_port(x.ctx, 1, &x.port))
			fail("ibv_query_port");
	}
	for (unsigned int i = many; i--;)
		if (steps[i].undo && steps[i].undo())
			fail("%s at the end", steps[i].name);
	free(x.buf);
	ibv_free_device_list(x.list);
	printf("each of %u allocations failed once\n", sum);
}
