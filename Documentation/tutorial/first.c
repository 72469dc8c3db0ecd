// SPDX-License-Identifier: GPL-2.0-or-later
/* A first program with verbs: one node writes into the memory of another. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TCP_PORT "18700"
#define SIZE 4096

/* The data that one end sends to the other by TCP. Both have the same byte order. */
struct end {
	uint16_t lid;
	uint32_t qpn, rkey;
	uint64_t addr;
};

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

/* Returns a TCP connection: accepts one if @host is NULL, else connects to @host. */
static int meet(const char *host)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM,
				  .ai_flags = host ? 0 : AI_PASSIVE }, *a;
	int s, on = 1;

	check(!getaddrinfo(host, TCP_PORT, &hints, &a), "getaddrinfo");
	s = socket(a->ai_family, a->ai_socktype, 0);
	if (!host) {
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		check(!bind(s, a->ai_addr, a->ai_addrlen) && !listen(s, 1), "listen");
		return accept(s, NULL, NULL);
	}
	check(!connect(s, a->ai_addr, a->ai_addrlen), "connect");
	return s;
}

int main(int argc, char **argv)
{
	const char *host = argc > 1 ? argv[1] : NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);
	check(list && list[0], "no device");
	struct ibv_context *ctx = ibv_open_device(list[0]);
	check(ctx != NULL, "open");

	/* A protection domain, memory that the other end may write, and a completion queue. */
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	char *buf = calloc(1, SIZE);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, SIZE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	check(mr && cq, "objects");

	/* A queue pair for a reliable connection. */
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	check(qp != NULL, "QP");

	/* Both ends exchange their addresses. */
	struct ibv_port_attr port;
	check(!ibv_query_port(ctx, 1, &port), "port");
	struct end mine = { port.lid, qp->qp_num, mr->rkey, (uintptr_t)buf }, other;
	int s = meet(host);
	check(write(s, &mine, sizeof(mine)) == sizeof(mine), "write");
	check(recv(s, &other, sizeof(other), MSG_WAITALL) == sizeof(other), "recv");
	printf("LID %u, QP %#x; the other end: LID %u, QP %#x\n", mine.lid, mine.qpn, other.lid,
	       other.qpn);

	/* The states of the queue pair: INIT, ready to receive, ready to send. */
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS), "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = other.qpn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .dlid = other.lid, .port_num = 1 },
	};
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER), "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
				     .rnr_retry = 7, .max_rd_atomic = 1 };
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
	/* Both ends must be ready before one of them sends. */
	char ready = 0;
	check(write(s, &ready, 1) == 1 && read(s, &ready, 1) == 1, "ready");

	if (host) {
		strcpy(buf, "written by RDMA");
		struct ibv_sge sge = { (uintptr_t)buf, SIZE, mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED }, *bad;
		wr.wr.rdma.remote_addr = other.addr;
		wr.wr.rdma.rkey = other.rkey;
		check(!ibv_post_send(qp, &wr, &bad), "post");
		struct ibv_wc wc;
		while (!ibv_poll_cq(cq, 1, &wc))
			;
		printf("completed: %s\n", ibv_wc_status_str(wc.status));
	}
	/* The server's program has not done anything for the transfer. */
	check(write(s, &ready, 1) == 1 && read(s, &ready, 1) == 1, "done");
	if (!host)
		printf("the memory has: %s\n", buf);
	return 0;
}
