// SPDX-License-Identifier: GPL-2.0-or-later
/* bench-NAME CASE COUNT: the cases of bench.c for another provider (struct peer). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define BATCH	16

static char data[64] = "payload";
static struct ibv_sge sge;
static struct ibv_send_wr wr[BATCH], *bad;
static struct ibv_recv_wr rwr[BATCH], *rbad;
static struct ibv_wc wc[BATCH];

void *peer_memory(size_t n)
{
	size_t size = (n + 4095) / 4096 * 4096;
	void *p = aligned_alloc(4096, size);

	if (!p)
		abort();
	return memset(p, 0, size);
}

static void work_requests(bool ud)
{
	int i;

	sge = (struct ibv_sge){ (uintptr_t)data, sizeof(data), 0x1234 };
	for (i = 0; i < BATCH; i++) {
		wr[i].wr_id = i;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].opcode = ud ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		if (ud) {
			wr[i].wr.ud.ah = peer.ah;
			wr[i].wr.ud.remote_qpn = PEER_QPN;
		} else {
			wr[i].wr.rdma.remote_addr = 0x1000;
		}
		rwr[i].wr_id = i;
		rwr[i].sg_list = &sge;
		rwr[i].num_sge = 1;
	}
}

static void chain(int n)
{
	wr[n - 1].next = NULL;
	rwr[n - 1].next = NULL;
	while (--n) {
		wr[n - 1].next = &wr[n];
		rwr[n - 1].next = &rwr[n];
	}
}

static int do_send(int n)
{
	chain(n);
	peer.device();
	return peer.post_send(peer.qp, wr, &bad);
}

static int do_recv(int n)
{
	chain(n);
	peer.device();
	return peer.post_recv(peer.qp, rwr, &rbad);
}

static int do_builder(bool ud)
{
	struct ibv_qp_ex *ex = peer.ex;

	peer.device();
	ex->wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_rdma_write(ex, 1, 2);
	if (ud)
		ex->wr_set_ud_addr(ex, peer.ah, PEER_QPN, 1);
	ex->wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
	return ex->wr_complete(ex);
}

static int do_poll(int n, int room)
{
	int i;

	peer.device();
	for (i = 0; i < n; i++)
		peer.complete();
	return peer.poll_cq(peer.cq, room, wc) != n;
}

static int run(const char *name, bool ud)
{
	if (!strcmp(name, "write") || !strcmp(name, "inline") || !strcmp(name, "ud"))
		return do_send(1);
	if (!strcmp(name, "write8") || !strcmp(name, "ud8"))
		return do_send(8);
	if (!strcmp(name, "recv"))
		return do_recv(1);
	if (!strcmp(name, "recv8"))
		return do_recv(8);
	if (!strcmp(name, "builder") || !strcmp(name, "builder-ud"))
		return peer.ex ? do_builder(ud) : -1;
	if (!strcmp(name, "poll0"))
		return do_poll(0, 1);
	if (!strcmp(name, "poll1"))
		return do_poll(1, 16);
	if (!strcmp(name, "poll16"))
		return do_poll(16, 16);
	return -1;
}

int main(int argc, char **argv)
{
	const char *name = argc == 3 ? argv[1] : "";
	long count = argc == 3 ? atol(argv[2]) : 0;
	const bool ud = strstr(name, "ud");
	int err = 0;

	if (!peer.setup(&peer, ud) && !peer.setup(&peer, !ud)) {
		fprintf(stderr, "no QP\n");
		return 1;
	}
	work_requests(ud);
	if (!strcmp(name, "inline"))
		wr[0].send_flags |= IBV_SEND_INLINE;
	while (count-- > 0 && !err)
		err = run(name, ud);
	if (err)
		fprintf(stderr, "%s: failed (%d)\n", name, err);
	return !!err;
}
