// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The capabilities that each transport announces for memory that is not pinned, tested while a
 * thread removes pages. A message that may be lost (UC and UD, at the receiver) is either lost or
 * correct.
 */
#define _GNU_SOURCE
#include "paged.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN		(64 * PAGE)
#define ROUNDS		30u	/* minimum of a lane */
#define DISTURBANCES	100u	/* minimum of removals meanwhile */
#define RUN_MS		50000	/* two of them before main()'s alarm */
#define XRCD_FILE	"/tmp/ohca-transports"

/**
 * struct lane - two connected QPs of this process; @a sends
 * @type: of @a; IBV_QPT_XRC_SEND: @b is a target
 * @srq: receive queue of @b, or NULL
 */
struct lane {
	struct peer *p;
	enum ibv_qp_type type;
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_ah *ah;
	uint32_t srqn;
	int fd;
};

/**
 * struct area - memory that is not pinned
 * @m: address for the device; @cpu: address for this process
 * @fd: file of the memory, or -1
 * @reads: the device does not write to it
 */
struct area {
	struct ibv_mr *mr;
	uint8_t *m, *cpu;
	int fd;
	bool reads;
};

/* ---- removal of pages ---------------------------------------------------------------- */

/** struct thief - the thread that removes pages */
struct thief {
	struct area *area[2];
	atomic_uint done;
	atomic_bool stop;
	pthread_t thread;
};

static void protect(struct area *a, size_t first, size_t n)
{
	/* the process writes at another address if the device only reads */
	int other = a->reads && a->fd >= 0 ? PROT_READ : PROT_READ | PROT_WRITE | PROT_EXEC;

	if (mprotect(a->m + first * PAGE, n * PAGE, other) ||
	    mprotect(a->m + first * PAGE, n * PAGE, PROT_READ | PROT_WRITE))
		fail("mprotect: %s", strerror(errno));
}

static void copy_on_write(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (!pid)
		_exit(0);
	if (waitpid(pid, &status, 0) != pid || status)
		fail("a child ended with %#x", status);
}

/* The contents stay: in the file, in swap space, or shared with a child. */
static void take(struct area *a, uint64_t r)
{
	size_t first = r % 48, n = 1 + (r >> 8) % 16;
	uint8_t *m = a->m + first * PAGE;

	switch ((r >> 16) % 3) {
	case 0:
		protect(a, first, n);
		break;
	case 1:
		if (madvise(m, n * PAGE, MADV_PAGEOUT))
			fail("MADV_PAGEOUT: %s", strerror(errno));
		break;
	default:
		if (a->fd < 0)
			copy_on_write();
		else if ((r >> 24) % 2 ? madvise(m, n * PAGE, MADV_DONTNEED) :
			 mmap(m, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fd,
			      (off_t)(first * PAGE)) != m)
			fail("DONTNEED or mmap: %s", strerror(errno));
	}
}

static void *thief(void *arg)
{
	struct thief *t = arg;
	uint64_t state = 11;

	while (!atomic_load(&t->stop)) {
		uint64_t r = rnd(&state);

		take(t->area[r >> 32 & 1], r);
		atomic_fetch_add(&t->done, 1);
	}
	return NULL;
}

static void area_make(struct peer *p, struct area *a, bool file)
{
	a->fd = file ? paged_file(LEN, 0) : -1;
	a->m = paged_map(LEN, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, a->fd);
	a->cpu = file ? paged_map(LEN, MAP_SHARED, a->fd) : a->m;
	memset(a->cpu, 0, LEN);
	a->mr = paged_reg(p, a->m, LEN, ODP);
}

static void area_free(struct area *a)
{
	paged_dereg(a->mr);
	if (a->m)
		munmap(a->m, LEN);
	if (a->fd < 0)
		return;
	munmap(a->cpu, LEN);
	close(a->fd);
}

/* ---- lanes ------------------------------------------------------------------------------ */

static void done(bool ok, const char *what)
{
	if (!ok)
		fail("%s: %s", what, strerror(errno));
}

static void xrc_connect(struct peer *p, struct ibv_qp *qp, uint32_t dqpn, bool target)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_4096, .dest_qp_num = dqpn, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 12, .timeout = p->timeout, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 4, .ah_attr = { .dlid = p->me.lid, .port_num = 1 },
	};

	done(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS), "to INIT");
	a.qp_state = IBV_QPS_RTR;
	done(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | (target ? IBV_QP_MAX_DEST_RD_ATOMIC |
						      IBV_QP_MIN_RNR_TIMER : 0)), "to RTR");
	a.qp_state = IBV_QPS_RTS;
	done(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			    (target ? 0 : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					  IBV_QP_MAX_QP_RD_ATOMIC)), "to RTS");
}

static void xrc_up(struct lane *l)
{
	struct ibv_xrcd_init_attr xa = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT,
	};
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = l->p->pd, .cq = l->p->rcq,
	};
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = l->p->pd,
		.send_cq = l->p->scq, .cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};
	struct ibv_qp_init_attr_ex ta = { .qp_type = IBV_QPT_XRC_RECV,
					  .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	l->fd = open(XRCD_FILE, O_RDWR | O_CREAT, 0600);
	xa.fd = l->fd;
	l->xrcd = ibv_open_xrcd(l->p->ctx, &xa);
	done(l->xrcd, "ibv_open_xrcd");
	sa.xrcd = l->xrcd;
	ta.xrcd = l->xrcd;
	l->srq = ibv_create_srq_ex(l->p->ctx, &sa);
	done(l->srq && !ibv_get_srq_num(l->srq, &l->srqn), "ibv_create_srq_ex");
	l->a = ibv_create_qp_ex(l->p->ctx, &qa);
	l->b = ibv_create_qp_ex(l->p->ctx, &ta);
	done(l->a && l->b, "ibv_create_qp_ex");
	xrc_connect(l->p, l->a, l->b->qp_num, false);
	xrc_connect(l->p, l->b, l->a->qp_num, true);
}

static void lane_up(struct lane *l, struct peer *p, enum ibv_qp_type type)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_qp_init_attr init = {
		.send_cq = p->scq, .recv_cq = p->rcq, .qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_ah_attr ah = { .dlid = p->me.lid, .port_num = 1 };
	struct peer_info to = p->me;

	memset(l, 0, sizeof(*l));
	l->p = p;
	l->type = type;
	if (type == IBV_QPT_XRC_SEND) {
		xrc_up(l);
		return;
	}
	p->type = type;
	l->a = peer_qp_of(p, p->pd, &init);
	if (type == IBV_QPT_RC) {
		l->srq = ibv_create_srq(p->pd, &sa);
		done(l->srq, "ibv_create_srq");
		init.srq = l->srq;
	}
	l->b = peer_qp_of(p, p->pd, &init);
	to.psn = 9;
	to.qpn = l->b->qp_num;
	peer_rts(p, l->a, &to, 9);
	to.qpn = l->a->qp_num;
	peer_rts(p, l->b, &to, 9);
	p->type = IBV_QPT_RC;
	if (type != IBV_QPT_UD)
		return;
	l->ah = ibv_create_ah(p->pd, &ah);
	done(l->ah, "ibv_create_ah");
}

static void lane_down(struct lane *l, enum ibv_qp_state a, enum ibv_qp_state b)
{
	if (qp_state(l->a) != a || qp_state(l->b) != b)
		fail("the QPs of transport %d are in the states %d and %d", l->type, qp_state(l->a),
		     qp_state(l->b));
	done(!ibv_destroy_qp(l->a) && !ibv_destroy_qp(l->b), "ibv_destroy_qp");
	if (l->srq)
		done(!ibv_destroy_srq(l->srq), "ibv_destroy_srq");
	if (l->ah)
		done(!ibv_destroy_ah(l->ah), "ibv_destroy_ah");
	if (l->xrcd) {
		done(!ibv_close_xrcd(l->xrcd), "ibv_close_xrcd");
		close(l->fd);
		unlink(XRCD_FILE);
	}
}

static void receive(struct lane *l, uint8_t *at, uint32_t len, const struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)at, len, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 }, *bad;

	done(!(l->srq ? ibv_post_srq_recv(l->srq, &wr, &bad) : ibv_post_recv(l->b, &wr, &bad)),
	     "post_recv");
}

/* From @at of @mr to @there of @key, or the opposite direction. */
static void op_ends(struct lane *l, enum ibv_wr_opcode opcode, uint8_t *at, const struct ibv_mr *mr,
		    uint8_t *there, uint32_t key, uint32_t len, enum ibv_wc_status status,
		    const char *what)
{
	struct ibv_sge sge = { (uintptr_t)at, len, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = l->srqn,
	}, *bad;

	if (l->type == IBV_QPT_UD) {
		wr.wr.ud.ah = l->ah;
		wr.wr.ud.remote_qpn = l->b->qp_num;
		wr.wr.ud.remote_qkey = PEER_QKEY;
	} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)there;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = PAGED_ADD;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)there;
		wr.wr.rdma.rkey = key;
	}
	done(!ibv_post_send(l->a, &wr, &bad), "ibv_post_send");
	wc_expect(l->p->scq, 7, status, what);
}

static void op(struct lane *l, enum ibv_wr_opcode opcode, uint8_t *at, const struct ibv_mr *mr,
	       uint8_t *there, uint32_t key, uint32_t len, const char *what)
{
	op_ends(l, opcode, at, mr, there, key, len, IBV_WC_SUCCESS, what);
}

/* ---- operations -------------------------------------------------------------------------- */

/* Both sides lack pages: nothing is lost, and nothing is executed twice. */
static void reliable(struct lane *l, struct area *from, struct area *to, uint32_t i)
{
	uint64_t was, now, got;

	fill(from->cpu, LEN, i);
	receive(l, to->m, LEN, to->mr);
	op(l, IBV_WR_SEND, from->m, from->mr, NULL, 0, LEN, "send");
	wc_expect(l->p->rcq, 8, IBV_WC_SUCCESS, "receive");
	check(to->cpu, LEN, i, "received");
	fill(from->cpu, LEN, i + 1);
	op(l, IBV_WR_RDMA_WRITE, from->m, from->mr, to->m, to->mr->rkey, LEN, "write");
	check(to->cpu, LEN, i + 1, "written");
	fill(to->cpu, LEN, i + 2);
	op(l, IBV_WR_RDMA_READ, from->m, from->mr, to->m, to->mr->rkey, LEN, "read");
	check(from->cpu, LEN, i + 2, "read");
	for (uint32_t off = 0; off < LEN; off += 16 * PAGE) {
		memcpy(&was, to->cpu + off, 8);
		op(l, IBV_WR_ATOMIC_FETCH_AND_ADD, from->m + LEN - 8 - off, from->mr,
		   to->m + off, to->mr->rkey, 8, "atomic");
		memcpy(&now, to->cpu + off, 8);
		memcpy(&got, from->cpu + LEN - 8 - off, 8);
		if (got != was || now != was + PAGED_ADD)
			fail("an atomic of transport %d was not done once", l->type);
	}
}

static uint32_t size_of(const struct lane *l)
{
	return l->type == IBV_QPT_UD ? 2048 : 5 * PAGE;
}

/* The sender waits for its pages: every message arrives. */
static void sends(struct lane *l, struct area *from, uint32_t i)
{
	uint32_t n = size_of(l), off = (i % 50) * PAGE + 3000, grh = l->type == IBV_QPT_UD ? 40 : 0;

	fill(from->cpu + off, n, i);
	receive(l, l->p->buf, n + grh, l->p->mr);
	op(l, IBV_WR_SEND, from->m + off, from->mr, NULL, 0, n, "send");
	wc_expect(l->p->rcq, 8, IBV_WC_SUCCESS, "receive");
	check(l->p->buf + grh, n, i, "sent");
}

/*
 * A repeated message may arrive late, and must not be mistaken for the next one. Packets of a port
 * to itself keep their order: after the last one has arrived, none is outstanding.
 */
static void settled(struct lane *l)
{
	static uint32_t number = 1u << 31;	/* of no round */
	uint8_t *at = l->p->buf + PEER_BUF / 2;
	uint32_t got;

	do {
		number++;
		memcpy(l->p->buf, &number, 4);
		receive(l, at, size_of(l) + 40, l->p->mr);
		op(l, IBV_WR_SEND, l->p->buf, l->p->mr, NULL, 0, 64, "send the last one");
		wc_expect(l->p->rcq, 8, IBV_WC_SUCCESS, "receive the last one");
		memcpy(&got, at + (l->type == IBV_QPT_UD ? 40 : 0), 4);
	} while (got != number);
}

/*
 * A receiver without pages loses the message, and its WQE receives the next one. The message is
 * repeated until one arrives completely; the number at its start identifies a late one.
 */
static unsigned int receives(struct lane *l, struct area *to, uint32_t i)
{
	uint32_t n = size_of(l), off = (i % 50) * PAGE + 3000, got;
	uint8_t *at = to->cpu + off + (l->type == IBV_QPT_UD ? 40 : 0);
	unsigned int tries = 0;
	struct ibv_wc wc;

	fill(l->p->buf, n, i);
	memcpy(l->p->buf, &i, 4);
	receive(l, to->m + off, n + 40, to->mr);
	do {
		if (++tries > 1000)
			fail("transport %d: no message gets through", l->type);
		op(l, IBV_WR_SEND, l->p->buf, l->p->mr, NULL, 0, n, "send");
		if (!wc_get(l->p->rcq, &wc, 10))
			continue;
		if (wc.wr_id != 8 || wc.status)
			fail("transport %d: receive: %s", l->type, ibv_wc_status_str(wc.status));
		memcpy(&got, at, 4);
		if (got != i)
			receive(l, to->m + off, n + 40, to->mr);
		else
			break;
	} while (1);
	fill(l->p->buf, n, i);
	if (memcmp(at + 4, l->p->buf + 4, n - 4))
		fail("transport %d: what came is not what was sent", l->type);
	if (tries > 1)
		settled(l);
	return tries - 1;
}

static bool is_reliable(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
}

/* The place of the memory that is removed for good. */
enum gone { GONE_SENDER, GONE_RECEIVER, GONE_WRITTEN };

static void unmap(struct area *a)
{
	munmap(a->m, LEN);
	a->m = NULL;
}

/* munmap() of memory in use: an error on its side, and for a requester that has addressed it. */
static void gone(struct peer *p, enum ibv_qp_type type, enum gone where)
{
	bool rel = is_reliable(type);
	struct area from = { 0 }, to = { 0 };
	struct lane l;
	uint8_t *src, *dst;

	lane_up(&l, p, type);
	area_make(p, &from, false);
	area_make(p, &to, true);
	src = from.m;
	dst = to.m;
	sends(&l, &from, 1);
	if (!rel)
		receives(&l, &to, 2);
	else
		reliable(&l, &from, &to, 2);
	receive(&l, dst, 5 * PAGE, to.mr);
	if (where == GONE_SENDER) {
		unmap(&from);
		op_ends(&l, IBV_WR_SEND, src, from.mr, NULL, 0, 2048, IBV_WC_LOC_PROT_ERR,
			"send what is not there");
		lane_down(&l, rel ? IBV_QPS_ERR : IBV_QPS_SQE, IBV_QPS_RTS);
	} else if (where == GONE_RECEIVER) {
		unmap(&to);
		op_ends(&l, IBV_WR_SEND, src, from.mr, NULL, 0, 2048,
			rel ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS, "send to what is not there");
		wc_expect(p->rcq, 8, IBV_WC_LOC_PROT_ERR, "receive into what is not there");
		lane_down(&l, rel ? IBV_QPS_ERR : IBV_QPS_RTS, IBV_QPS_ERR);
	} else {
		unmap(&to);
		op_ends(&l, IBV_WR_RDMA_WRITE, src, from.mr, dst, to.mr->rkey, LEN,
			IBV_WC_REM_ACCESS_ERR, "write to what is not there");
		lane_down(&l, IBV_QPS_ERR, IBV_QPS_ERR);
	}
	area_free(&from);
	area_free(&to);
}

static void run(struct peer *p, enum ibv_qp_type type, bool file, unsigned int *lost)
{
	struct area from = { .reads = type == IBV_QPT_UC || type == IBV_QPT_UD }, to = { 0 };
	struct thief t = { .area = { &from, &to } };
	uint64_t faults = hw_counter(p->ctx, "page_faults");
	int64_t end = ms_now() + RUN_MS;
	struct lane l;
	uint32_t i;

	lane_up(&l, p, type);
	area_make(p, &from, file);
	area_make(p, &to, !file);
	done(!pthread_create(&t.thread, NULL, thief, &t), "pthread_create");
	for (i = 0; i < ROUNDS || atomic_load(&t.done) < DISTURBANCES; i++) {
		if (ms_now() > end)
			fail("transport %d: %u rounds, %u disturbances", type, i,
			     atomic_load(&t.done));
		if (is_reliable(type)) {
			reliable(&l, &from, &to, i);
		} else {
			sends(&l, &from, i);
			*lost += receives(&l, &to, i);
		}
	}
	atomic_store(&t.stop, true);
	pthread_join(t.thread, NULL);
	lane_down(&l, IBV_QPS_RTS, IBV_QPS_RTS);
	area_free(&from);
	area_free(&to);
	faults = hw_counter(p->ctx, "page_faults") - faults;
	printf("transport %d, %s: %u rounds, %u disturbances, %llu faults\n", type,
	       file ? "from a file" : "to a file", i, atomic_load(&t.done),
	       (unsigned long long)faults);
	if (faults < ROUNDS)
		fail("pages were hardly missed");
}

/* The device announces exactly the operations that run() tests. */
static void announced(struct peer *p)
{
	const uint32_t xrc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
			     IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex attr;

	done(!ibv_query_device_ex(p->ctx, NULL, &attr), "ibv_query_device_ex");
	if (attr.odp_caps.general_caps != (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT) ||
	    attr.odp_caps.per_transport_caps.rc_odp_caps != (xrc | IBV_ODP_SUPPORT_RECV) ||
	    attr.odp_caps.per_transport_caps.uc_odp_caps != IBV_ODP_SUPPORT_SEND ||
	    attr.odp_caps.per_transport_caps.ud_odp_caps != IBV_ODP_SUPPORT_SEND ||
	    attr.xrc_odp_caps != xrc)
		fail("announced: %#llx rc %#x uc %#x ud %#x xrc %#x",
		     (unsigned long long)attr.odp_caps.general_caps,
		     attr.odp_caps.per_transport_caps.rc_odp_caps,
		     attr.odp_caps.per_transport_caps.uc_odp_caps,
		     attr.odp_caps.per_transport_caps.ud_odp_caps, attr.xrc_odp_caps);
}

bool transports(struct peer *p, const char *name)
{
	static const struct {
		const char *name;
		enum ibv_qp_type type;
	} all[] = {
		{ "odp_srq", IBV_QPT_RC }, { "odp_xrc", IBV_QPT_XRC_SEND }, { "odp_uc", IBV_QPT_UC },
		{ "odp_ud", IBV_QPT_UD },
	};
	unsigned int lost = 0, i = 0;

	while (i < 4 && strcmp(name, all[i].name))
		i++;
	if (i == 4)
		return false;
	announced(p);
	run(p, all[i].type, false, &lost);
	run(p, all[i].type, true, &lost);
	/* at least one loss is required, otherwise its effect would not have been tested */
	if (!is_reliable(all[i].type) && !lost)
		fail("%s: nothing was lost", name);
	gone(p, all[i].type, GONE_SENDER);
	gone(p, all[i].type, GONE_RECEIVER);
	if (is_reliable(all[i].type))
		gone(p, all[i].type, GONE_WRITTEN);
	return true;
}
