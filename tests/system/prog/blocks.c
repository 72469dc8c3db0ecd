// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A store of keys and values that transfers as InfiniStore does: only the server uses RDMA. A
 * client SENDs a request with a key and the address of its memory. The server READs the value into
 * its own blocks, or WRITEs its blocks to the client, and SENDs a status at the end. Connections
 * have no GRH, a CQ each, and one request at a time; CQs of an adapter share a completion channel.
 * A request whose connection fails is repeated on another rail, so each request can be executed
 * twice.
 */
#include "session.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#define BLOCK		(64u << 10)
#define BLOCKS		(ROUND_MOST / BLOCK + 64)
#define VALUES		32u
#define WINDOW		16u	/* concurrent READs or WRITEs of a connection */
#define RECVS		4u
#define JOBS		(HCA_RAILS * SESSION_QPS)
#define MOST_MANY	(256u << 10)	/* a larger value is transferred alone */
#define NONE		0xffffffffu

enum { PUT = 1, GET, DELETE };
enum { OK = 200, MISSING = 404, FULL = 507 };	/* immediate data of a response */

/** struct request - sent by SEND, in big-endian words */
struct request {
	uint64_t op, key, len, addr, rkey;
};

/* ---- the server: values in blocks --------------------------------------------------- */

/** struct value - @len 0: unused; @block: numbers of its blocks, in order */
struct value {
	uint64_t key;
	uint32_t len, block[ROUND_MOST / BLOCK];
};

/** struct work - of a connection; @is.op 0: none; @at: bytes posted, @flying: WQEs */
struct work {
	struct request is;
	struct value *value;
	uint32_t at, flying;
};

static uint8_t *pool;
static struct ibv_mr *pool_mr[HCA_RAILS];
static uint32_t unused[BLOCKS], nunused;
static struct value values[VALUES];
static struct work work[HCA_RAILS][SESSION_QPS];

/* ---- the client: requests ----------------------------------------------------------- */

enum { WAITS = 1, RUNS, DONE };

/** struct job - a value that is put, got and deleted; @r, @q: the connection that it uses */
struct job {
	uint64_t key;
	uint32_t off, len, state, r, q;
};

static uint8_t *mem;
static struct ibv_mr *mem_mr[HCA_RAILS];
static struct job job[JOBS];
static uint32_t njobs;

/* ---- both --------------------------------------------------------------------------- */

static struct request *request[HCA_RAILS];	/* received, RECVS of each QP */
static struct ibv_mr *request_mr[HCA_RAILS];

static void open_store(struct session *s)
{
	if (s->client)
		mem = zeroes(ROUND_MOST + 4096);
	else
		pool = zeroes((size_t)BLOCKS * BLOCK);
	for (unsigned int r = 0; r < s->n; r++) {
		const size_t size = SESSION_QPS * RECVS * sizeof(struct request);

		request[r] = zeroes(size);
		request_mr[r] = hca_reg(&s->hca[r], request[r], size);
		if (s->client)
			mem_mr[r] = hca_reg(&s->hca[r], mem, ROUND_MOST + 4096);
		else
			pool_mr[r] = hca_reg(&s->hca[r], pool, (size_t)BLOCKS * BLOCK);
	}
	while (nunused < BLOCKS) {
		unused[nunused] = nunused;
		nunused++;
	}
}

static void take_one(struct session *s, unsigned int r, unsigned int q, uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)&request[r][q * RECVS + i], sizeof(struct request),
			       request_mr[r]->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	session_recv(s, r, q, &wr);
}

static void connected(struct session *s, unsigned int r)
{
	for (unsigned int q = 0; q < s->is->qps; q++)
		for (unsigned int i = 0; i < RECVS; i++)
			take_one(s, r, q, i);
}

static uint32_t nblocks(uint32_t len)
{
	return (len + BLOCK - 1) / BLOCK;
}

/* ---- the server --------------------------------------------------------------------- */

static struct value *find(uint64_t key, uint32_t len)
{
	for (unsigned int i = 0; i < VALUES; i++)
		if (values[i].len && values[i].key == key && (!len || values[i].len == len))
			return &values[i];
	return NULL;
}

static void drop(struct value *v)
{
	for (uint32_t i = 0; i < nblocks(v->len); i++)
		unused[nunused++] = v->block[i];
	v->len = 0;
}

static struct value *make(uint64_t key, uint32_t len)
{
	struct value *v = find(key, 0);

	if (v)
		drop(v);
	for (unsigned int i = 0; i < VALUES && nblocks(len) <= nunused; i++) {
		if (values[i].len)
			continue;
		v = &values[i];
		v->key = key;
		v->len = len;
		for (uint32_t b = 0; b < nblocks(len); b++)
			v->block[b] = unused[--nunused];
		return v;
	}
	return NULL;
}

static void answer(struct session *s, unsigned int r, unsigned int q, uint32_t status)
{
	struct ibv_send_wr wr = { .wr_id = NONE, .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htonl(status) };

	work[r][q].is.op = 0;
	/* if the connection has failed the client repeats the request */
	if (session_room(s, r, q))
		session_send(s, r, q, &wr);
}

/* Posts WQEs as far as the window allows; at the end it sends the status. */
static void go_on(struct session *s, unsigned int r, unsigned int q)
{
	struct work *w = &work[r][q];

	while (w->at < w->is.len && w->flying < WINDOW && session_room(s, r, q)) {
		const uint32_t b = w->value->block[w->at / BLOCK];
		const uint32_t n = least((uint32_t)w->is.len - w->at, BLOCK);
		struct ibv_sge sge = { (uintptr_t)pool + (uint64_t)b * BLOCK, n, pool_mr[r]->lkey };
		struct ibv_send_wr wr = {
			.wr_id = w->at, .sg_list = &sge, .num_sge = 1,
			.opcode = w->is.op == PUT ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			.wr.rdma = { w->is.addr + w->at, (uint32_t)w->is.rkey },
		};

		session_send(s, r, q, &wr);
		w->flying++;
		w->at += n;
	}
	if (w->at == w->is.len && !w->flying)
		answer(s, r, q, OK);
}

static void serve(struct session *s, unsigned int r, unsigned int q, const struct request *raw)
{
	struct work *w = &work[r][q];
	struct value *v;

	if (w->is.op)
		fail("rail %u, QP %u: a request before the answer to the last", r, q);
	*w = (struct work) { .is = { be64toh(raw->op), be64toh(raw->key), be64toh(raw->len),
				     be64toh(raw->addr), be64toh(raw->rkey) } };
	if (!w->is.len || w->is.len > ROUND_MOST || w->is.op < PUT || w->is.op > DELETE)
		fail("a request %llu of %llu bytes", (unsigned long long)w->is.op,
		     (unsigned long long)w->is.len);
	v = w->is.op == PUT ? make(w->is.key, (uint32_t)w->is.len) :
		find(w->is.key, (uint32_t)w->is.len);
	if (w->is.op == DELETE) {
		if (v)
			drop(v);
		answer(s, r, q, OK);
	} else if (!v) {
		answer(s, r, q, w->is.op == PUT ? FULL : MISSING);
	} else {
		w->value = v;
		go_on(s, r, q);
	}
}

/* ---- the client --------------------------------------------------------------------- */

static void ask(struct session *s, uint64_t op, struct job *j)
{
	struct request out = { htobe64(op), htobe64(j->key), htobe64(j->len),
			       htobe64((uintptr_t)mem + j->off), htobe64(mem_mr[j->r]->rkey) };
	struct ibv_sge sge = { (uintptr_t)&out, sizeof(out), 0 };
	struct ibv_send_wr wr = {
		.wr_id = NONE, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};

	j->state = RUNS;
	session_send(s, j->r, j->q, &wr);
}

static struct job *job_of(unsigned int r, unsigned int q)
{
	for (uint32_t i = 0; i < njobs; i++)
		if (job[i].state == RUNS && job[i].r == r && job[i].q == q)
			return &job[i];
	return NULL;
}

/* Each waiting job gets the next free connection on a rail that is up. */
static void start(struct session *s, uint64_t op)
{
	static uint32_t turn;

	for (uint32_t i = 0; i < njobs; i++) {
		for (uint32_t k = 0; k < JOBS && job[i].state == WAITS; k++, turn++) {
			const unsigned int r = turn % s->n, q = turn / s->n % s->is->qps;

			if (!session_room(s, r, q) || job_of(r, q))
				continue;
			job[i].r = r;
			job[i].q = q;
			ask(s, op, &job[i]);
		}
	}
}

static void all(struct session *s, uint64_t op)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < njobs; i++)
		job[i].state = WAITS;
	while (done < njobs) {
		start(s, op);
		session_wait(s);
		done = 0;
		for (uint32_t i = 0; i < njobs; i++)
			done += job[i].state == DONE;
	}
}

/* Values of this size on all connections; a large one alone. */
static void put_get(struct session *s, uint32_t len, uint32_t number)
{
	njobs = len > MOST_MANY ? 1 : s->n * s->is->qps;
	for (uint32_t i = 0; i < njobs; i++)
		job[i] = (struct job) { (uint64_t)number << 8 | i, i * len, len, 0, 0, 0 };
	for (uint32_t i = 0; i < njobs; i++)
		fill(mem + job[i].off, len, number * JOBS + i);
	all(s, PUT);
	memset(mem, 0xee, (size_t)njobs * len + 1);
	all(s, GET);
	for (uint32_t i = 0; i < njobs; i++)
		check(mem + job[i].off, len, number * JOBS + i, "GET");
	if (mem[(size_t)njobs * len] != 0xee)
		fail("a GET of %u bytes wrote past them", len);
	all(s, DELETE);
}

static void answered(unsigned int r, unsigned int q, uint32_t status)
{
	struct job *j = job_of(r, q);

	if (!j || status != OK)
		fail("rail %u, QP %u: status %u%s", r, q, status, j ? "" : ", and nobody asked");
	j->state = DONE;
}

/* ---- completions -------------------------------------------------------------------- */

static void completed(struct session *s, unsigned int r, unsigned int q, const struct ibv_wc *wc)
{
	const uint64_t i = wc->wr_id & ~SESSION_RECV;

	if (wc->status != IBV_WC_SUCCESS)
		return;
	if (wc->wr_id & SESSION_RECV) {
		if (s->client)
			answered(r, q, ntohl(wc->imm_data));
		else
			serve(s, r, q, &request[r][q * RECVS + i]);
		if (s->rail[r].up)
			take_one(s, r, q, i);
	} else if (wc->wr_id != NONE) {
		work[r][q].flying--;
		go_on(s, r, q);
	}
}

/* The server forgets its work on the rail, and the client repeats the requests. */
static void fenced(struct session *s, unsigned int r)
{
	for (unsigned int q = 0; q < s->is->qps; q++)
		work[r][q] = (struct work) { 0 };
	for (uint32_t i = 0; i < njobs; i++)
		if (job[i].state == RUNS && job[i].r == r)
			job[i].state = WAITS;
}

const struct pattern blocks = {
	.name = "blocks", .qps = SESSION_QPS, .own_cqs = true, .open = open_store,
	.connected = connected, .completed = completed, .fenced = fenced, .round = put_get,
};
