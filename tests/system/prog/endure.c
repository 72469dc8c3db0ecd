// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Verified traffic over RC that survives the loss of devices, ports and peers.
 *
 * A process has one session after another. A session ends when something is lost: both sides free
 * all objects and connect again. The errors of a loss are known. Any other error ends the program,
 * above all wrong data. A file shows the progress: sessions, blocks, messages.
 *
 * alltoall runs such a process for each other node, with messages of all kinds. It restarts
 * processes that are killed.
 */
#include "kinds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT	(PEER_PORT + 1)
#define NODES	8
#define BLOCK	32768u
#define SLOTS	8u
#define PATIENCE_MS	90000	/* for a completion, and for the event of a lost device */

/* wr_id: a block, its number, its count, the block read back; a receive */
enum { WRITTEN = 1, TOLD, COUNTED, BACK, RECEIVED };

/** enum loss - the reason for the end of a session; @NOT_READY: it has not begun */
enum loss { NONE, NOT_READY, PEER, PATH, DEVICE };

static const char * const losses[] = {
	"nothing", "a device that is not ready", "the peer", "the path", "the device",
};

/** struct memory - registered memory; @count: counter in the server, to which the client adds */
struct memory {
	uint8_t src[BLOCK], dst[BLOCK];
	uint64_t count, before;
	uint32_t told[16], heard[SLOTS][16];
};

static struct memory mem;

/**
 * struct session - one connection and its objects
 * @client: this side requests
 * @all: with messages of all kinds
 * @blocks: verified blocks
 */
struct session {
	bool client, all;
	int sock;
	struct kinds k;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct peer_info me, you;
	uint32_t blocks;
};

static uint32_t sessions, total, messages;
static char state[64] = "/tmp/endure.state";

static void tell_state(void)
{
	static int fd = -1;
	char text[64];

	if (fd < 0)
		fd = open(state, O_WRONLY | O_CREAT, 0644);
	snprintf(text, sizeof(text), "%10u %10u %10u\n", sessions, total, messages);
	if (pwrite(fd, text, strlen(text), 0) < 0)
		fail("%s: %s", state, strerror(errno));
}

/* @what has failed: the error must be that of a device that is lost or not ready. */
static enum loss refused(const char *what, int error)
{
	if (error != EIO && error != ENODEV && error != ETIMEDOUT)
		fail("%s: %s", what, strerror(error));
	return NOT_READY;
}

static enum loss device(struct session *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port;

	if (!list)
		fail("ibv_get_device_list: %s", strerror(errno));
	/* the listed device may be removed before it is opened, which causes any error */
	s->ctx = list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	if (!s->ctx)
		return NOT_READY;
	fcntl(s->ctx->async_fd, F_SETFL, fcntl(s->ctx->async_fd, F_GETFL) | O_NONBLOCK);
	if (ibv_query_port(s->ctx, 1, &port) || port.state != IBV_PORT_ACTIVE)
		return NOT_READY;
	s->me.lid = port.lid;
	return NONE;
}

static enum loss objects(struct session *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = SLOTS, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	s->pd = ibv_alloc_pd(s->ctx);
	if (!s->pd)
		return refused("ibv_alloc_pd", errno);
	s->mr = ibv_reg_mr(s->pd, &mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC);
	if (!s->mr)
		return refused("ibv_reg_mr", errno);
	/* one CQ for all: the first error is the cause of the others */
	s->cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0);
	if (!s->cq)
		return refused("ibv_create_cq", errno);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->pd, &init);
	if (!s->qp)
		return refused("ibv_create_qp", errno);
	if (s->all) {
		int rc = kinds_open(&s->k, s->ctx, s->pd, s->cq);

		if (rc)
			return refused("kinds_open", rc);
	}
	s->me.addr = (uintptr_t)&mem;
	s->me.rkey = s->mr->rkey;
	s->me.qpn = s->qp->qp_num;
	s->me.psn = (s->qp->qp_num * 2654435761u) & 0xffffff;
	return NONE;
}

static int receive(struct session *s, uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)mem.heard[slot], 4, s->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = RECEIVED, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(s->qp, &wr, &bad);
}

static bool exchange(struct session *s, const void *out, void *in, size_t size)
{
	return send(s->sock, out, size, 0) == (ssize_t)size &&
	       recv(s->sock, in, size, MSG_WAITALL) == (ssize_t)size;
}

static enum loss connected(struct session *s)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_2048, .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.sq_psn = s->me.psn, .timeout = 15, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	uint32_t ready = 1;
	int rc = ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_ACCESS_FLAGS);

	for (uint32_t i = 0; !rc && i < SLOTS; i++)
		rc = receive(s, i);
	if (rc)
		return refused("to INIT", rc);
	mem.count = 0;
	if (!exchange(s, &s->me, &s->you, sizeof(s->me)))
		return PEER;
	if (s->all && !exchange(s, &s->k.me, &s->k.you, sizeof(s->k.me)))
		return PEER;
	a.qp_state = IBV_QPS_RTR;
	a.dest_qp_num = s->you.qpn;
	a.rq_psn = s->you.psn;
	a.ah_attr = (struct ibv_ah_attr) { .dlid = s->you.lid, .port_num = 1 };
	rc = ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			   IBV_QP_MIN_RNR_TIMER);
	a.qp_state = IBV_QPS_RTS;
	if (!rc)
		rc = ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	if (!rc && s->all)
		rc = kinds_connect(&s->k, s->pd, s->you.lid);
	if (rc)
		return refused("to RTS", rc);
	return exchange(s, &ready, &ready, sizeof(ready)) ? NONE : PEER;
}

/* Whether the program got the event of a lost device. Events of ports are ignored. */
static bool told(struct session *s)
{
	struct ibv_async_event ev;
	bool fatal = false;

	while (!ibv_get_async_event(s->ctx, &ev)) {
		switch (ev.event_type) {
		case IBV_EVENT_DEVICE_FATAL:
			fatal = true;
			break;
		case IBV_EVENT_CQ_ERR:
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			fail("event %s", ibv_event_type_str(ev.event_type));
		default:
			break;
		}
		ibv_ack_async_event(&ev);
	}
	return fatal;
}

/*
 * @why shows that the device is lost. The program must get the event, and no further completions.
 */
static enum loss device_lost(struct session *s, const char *why)
{
	int64_t end = ms_now() + PATIENCE_MS;

	while (!told(s)) {
		if (ms_now() > end)
			fail("after %u blocks: %s, but the device is not lost", s->blocks, why);
		usleep(10000);
	}
	return DEVICE;
}

static bool peer_left(struct session *s)
{
	char c;

	return recv(s->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ||
	       (errno != EAGAIN && errno != EINTR);
}

/* Waits for the completions whose bits are in @want, whatever their order. */
static enum loss await(struct session *s, uint32_t want)
{
	int64_t last = ms_now();
	unsigned int nap = 50;
	struct ibv_wc wc;

	for (unsigned int n = 0; want; n++) {
		int got = ibv_poll_cq(s->cq, 1, &wc);

		if (got < 0)
			return device_lost(s, "ibv_poll_cq");
		if (got && wc.status == IBV_WC_RETRY_EXC_ERR)
			return PATH;
		if (got && wc.status == IBV_WC_WR_FLUSH_ERR)
			return device_lost(s, "a flushed request");
		if (got && wc.status)
			fail("after %u blocks: %s", s->blocks, ibv_wc_status_str(wc.status));
		if (got) {
			uint32_t bit = wc.wr_id < KINDS_GOT ? 1u << wc.wr_id :
				       kinds_got(&s->k, &wc, s->blocks);

			if (!bit)
				return device_lost(s, "ibv_post_srq_recv");
			if (!(want & bit))
				fail("after %u blocks: %#x is due and %#x came", s->blocks, want,
				     bit);
			want &= ~bit;
			last = ms_now();
			continue;
		}
		if (n % 16)
			continue;
		if (told(s))
			return DEVICE;
		if (peer_left(s))
			return PEER;
		if (ms_now() - last > PATIENCE_MS)
			fail("after %u blocks: nothing comes any more, %#x is due", s->blocks,
			     want);
		usleep(nap);
		nap = nap < 5000 ? nap * 2 : nap;
	}
	return NONE;
}

/* Posts one request of @len bytes at @here; @there is an offset in the peer's memory. */
static int request(struct session *s, enum ibv_wr_opcode op, uint64_t id, void *here, uint32_t len,
		   size_t there)
{
	struct ibv_sge sge = { (uintptr_t)here, len, s->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = s->you.addr + there;
		wr.wr.atomic.rkey = s->you.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = s->you.addr + there;
		wr.wr.rdma.rkey = s->you.rkey;
	}
	return ibv_post_send(s->qp, &wr, &bad);
}

static enum loss ask(struct session *s)
{
	uint32_t i = s->blocks, want = 1u << WRITTEN | 1u << TOLD | 1u << COUNTED | 1u << BACK |
				       1u << RECEIVED;
	enum loss lost;

	fill(mem.src, BLOCK, i);
	memset(mem.dst, 0xee, BLOCK);
	mem.told[0] = i;
	if (request(s, IBV_WR_RDMA_WRITE, WRITTEN, mem.src, BLOCK, offsetof(struct memory, dst)) ||
	    request(s, IBV_WR_SEND, TOLD, mem.told, 4, 0) ||
	    request(s, IBV_WR_ATOMIC_FETCH_AND_ADD, COUNTED, &mem.before, 8,
		    offsetof(struct memory, count)) ||
	    request(s, IBV_WR_RDMA_READ, BACK, mem.dst, BLOCK, offsetof(struct memory, dst)))
		return device_lost(s, "ibv_post_send");
	if (s->all && kinds_ask(&s->k, i))
		return device_lost(s, "kinds_ask");
	lost = await(s, want | (s->all ? KINDS_ASKED : 0));
	if (lost)
		return lost;
	if (mem.before != i)
		fail("block %u: wrong data, the count is %llu", i, (unsigned long long)mem.before);
	if (mem.heard[i % SLOTS][0] != i)
		fail("block %u: wrong data, the answer is to %u", i, mem.heard[i % SLOTS][0]);
	check(mem.dst, BLOCK, i, "what was read back");
	return receive(s, i % SLOTS) ? device_lost(s, "ibv_post_recv") : NONE;
}

/*
 * The previous response may be acknowledged only after the next block arrives, because an ACK can
 * be lost.
 */
static enum loss answer(struct session *s)
{
	uint32_t i = s->blocks;
	enum loss lost = await(s, 1u << RECEIVED | (i ? 1u << TOLD : 0) |
				  (s->all ? KINDS_ANSWERED : 0));

	if (lost)
		return lost;
	if (s->all)
		kinds_loose(&s->k, i);
	if (mem.heard[i % SLOTS][0] != i)
		fail("block %u: wrong data, number %u came", i, mem.heard[i % SLOTS][0]);
	check(mem.dst, BLOCK, i, "what was written");
	mem.told[0] = i;
	if (receive(s, i % SLOTS) || request(s, IBV_WR_SEND, TOLD, mem.told, 4, 0))
		return device_lost(s, "a post");
	return NONE;
}

/* After a loss all objects can be freed, whether the device is present or not. */
static void give_back(struct session *s, enum loss lost)
{
	if (lost == DEVICE && (ibv_create_cq(s->ctx, 16, NULL, NULL, 0) || errno != EIO))
		fail("a CQ of a device that is lost: %s", strerror(errno));
	if (s->all)
		kinds_close(&s->k);
	if (s->qp)
		must(ibv_destroy_qp(s->qp), "ibv_destroy_qp");
	if (s->cq)
		must(ibv_destroy_cq(s->cq), "ibv_destroy_cq");
	if (s->mr)
		must(ibv_dereg_mr(s->mr), "ibv_dereg_mr");
	if (s->pd)
		must(ibv_dealloc_pd(s->pd), "ibv_dealloc_pd");
	if (s->ctx)
		must(ibv_close_device(s->ctx), "ibv_close_device");
	close(s->sock);
}

static void session(struct session *s)
{
	enum loss lost = device(s);

	if (!lost)
		lost = objects(s);
	if (!lost)
		lost = connected(s);
	if (!lost)
		sessions++;
	while (!lost) {
		lost = s->client ? ask(s) : answer(s);
		if (lost)
			break;
		s->blocks++;
		total++;
		/* requests of this side, or messages that it received */
		messages += s->client ? 4 : 1 + (s->all ? 3 : 0);
		tell_state();
	}
	messages += s->k.came;
	if (s->blocks)
		printf("session %u: %u blocks, lost %s\n", sessions, s->blocks, losses[lost]);
	give_back(s, lost);
}

static int listener(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 1))
		fail("listen: %s", strerror(errno));
	return fd;
}

static int meet(const char *host, uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct hostent *h = gethostbyname(host);

	if (!h)
		fail("no host %s", host);
	memcpy(&sa.sin_addr, h->h_addr, sizeof(sa.sin_addr));
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return fd;
	close(fd);
	return -1;
}

/* Sessions with the peer at @port of @host, or with a client here. */
static void endure(double seconds, const char *host, uint16_t port, bool all)
{
	int64_t end = ms_now() + (int64_t)(seconds * 1000);
	int listens = host ? -1 : listener(port), one = 1;
	struct timeval patience = { .tv_sec = 20 };

	alarm((unsigned int)seconds + 60);
	/* destroying an object of a removed device is no error */
	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
	tell_state();
	while (ms_now() < end) {
		struct session s = { .client = host, .all = all };

		s.sock = host ? meet(host, port) : accept(listens, NULL, NULL);
		if (s.sock >= 0) {
			setsockopt(s.sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
			setsockopt(s.sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			session(&s);
		}
		usleep(200000);
	}
	printf("%u blocks in %u sessions\n", total, sessions);
}

void endure_main(double seconds, const char *host)
{
	endure(seconds, host, PORT, false);
}

static pid_t start(double seconds, int node, int other)
{
	pid_t pid = fork();
	char host[16];

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid)
		return pid;
	snprintf(host, sizeof(host), "node%d", other);
	snprintf(state, sizeof(state), "/tmp/endure.state.%d", other);
	/* the lower node of a pair listens, at a port for each other node */
	endure(seconds, other < node ? host : NULL,
	       (uint16_t)(PORT + (other < node ? node : other)), true);
	exit(0);
}

void alltoall_main(double seconds, int node, int nodes)
{
	pid_t pids[NODES + 1] = { 0 };

	if (node < 1 || node > nodes || nodes > NODES)
		fail("node %d of %d", node, nodes);
	alarm((unsigned int)seconds + 60);
	for (int other = 1; other <= nodes; other++)
		if (other != node)
			pids[other] = start(seconds, node, other);
	for (;;) {
		int status, other;
		pid_t pid = wait(&status);

		if (pid < 0)
			return;
		for (other = 1; other <= nodes && pids[other] != pid; other++)
			;
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && other <= nodes)
			pids[other] = start(seconds, node, other);
		else if (status)
			fail("the process for node %d has ended with %#x", other, status);
	}
}
