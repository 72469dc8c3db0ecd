// SPDX-License-Identifier: GPL-2.0-or-later
/* Rails between two processes, which fail and are connected again. See session.h. */
#include "session.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define DRAIN_MS	20000
#define PORT_MS		20	/* between two checks of a port that is down */
#define IDLE_POLLS	300

/* Words of the session itself; those of patterns are smaller. */
enum { FENCE = 0x100, READY, ROUND, OVER };

static bool rail_poll(struct session *s, unsigned int r);

/* ---- words by TCP ------------------------------------------------------------------- */

void session_swap(struct session *s, const uint64_t *mine, uint64_t *theirs, size_t n)
{
	tcp_swap(&s->tcp, mine, theirs, n * 8);
}

void session_tell(struct session *s, const uint64_t word[SESSION_WORDS])
{
	tcp_send(&s->tcp, word, SESSION_WORDS * 8);
}

static void tell(struct session *s, uint64_t kind, uint64_t a, uint64_t b, uint64_t c)
{
	session_tell(s, (uint64_t[SESSION_WORDS]) { kind, a, b, c });
}

/* ---- a rail fails and recovers ------------------------------------------------------ */

static uint32_t outstanding(const struct session *s, unsigned int r)
{
	uint32_t n = 0;

	for (unsigned int q = 0; q < s->is->qps; q++)
		n += s->rail[r].sends[q] + s->rail[r].recvs[q];
	return n;
}

static void settle(struct session *s, unsigned int r)
{
	struct session_rail *n = &s->rail[r];

	if (n->up || n->fenced || n->peer_epoch != n->epoch)
		return;
	n->fenced = true;
	s->is->fenced(s, r);
}

/* Afterwards its QPs have no outstanding requests, and receive nothing. */
static void fence(struct session *s, unsigned int r, uint32_t epoch)
{
	const int64_t end = ms_now() + DRAIN_MS;
	struct session_rail *n = &s->rail[r];

	if (n->up) {
		s->lost++;
		printf("rail %u fails\n", r);
	}
	n->up = false;
	n->fenced = false;
	n->said = false;
	n->heard = false;
	n->next = 0;
	n->epoch = epoch;
	for (unsigned int q = 0; q < s->is->qps; q++)
		qp_to_err(n->qp[q]);
	while (outstanding(s, r)) {
		rail_poll(s, r);
		if (ms_now() > end)
			fail("rail %u: %u WQEs are not flushed", r, outstanding(s, r));
	}
	for (unsigned int q = 0; q < s->is->qps; q++)
		hca_qp_again(n->qp[q]);
	tell(s, FENCE, r, epoch, 0);
	for (unsigned int i = 0; s->is->all && i < s->n; i++)
		if (s->rail[i].up)
			fence(s, i, s->rail[i].epoch + 1);
}

static void rail_connect(struct session *s, unsigned int r)
{
	struct session_rail *n = &s->rail[r];

	for (unsigned int q = 0; q < s->is->qps; q++)
		hca_qp_rts(n->qp[q], &(struct hca_path) {
			.lid = n->lid, .gid = n->gid, .grh = s->is->grh, .qpn = n->qpn[q],
			.rq_psn = hca_psn(n->qpn[q], n->epoch),
			.sq_psn = hca_psn(n->qp[q]->qp_num, n->epoch), .timeout = HCA_TIMEOUT,
		});
	n->up = true;
	if (s->is->connected)
		s->is->connected(s, r);
}

/* Connects the rail when both ports are ACTIVE, as both sides know. */
static void heal(struct session *s, unsigned int r)
{
	struct session_rail *n = &s->rail[r];

	if (n->up || !n->fenced)
		return;
	if (!n->said && ms_now() >= n->next) {
		n->next = ms_now() + PORT_MS;
		n->said = hca_active(&s->hca[r]);
		if (n->said)
			tell(s, READY, r, n->epoch, s->hca[r].lid);
	}
	if (!n->said || !n->heard)
		return;
	rail_connect(s, r);
	s->healed++;
	printf("rail %u is back\n", r);
}

/* ---- completions -------------------------------------------------------------------- */

unsigned int session_room(const struct session *s, unsigned int r, unsigned int q)
{
	const struct session_rail *n = &s->rail[r];

	/* each send may follow one that is not signaled */
	return n->up && n->sends[q] < HCA_DEPTH / 2 ? HCA_DEPTH / 2 - n->sends[q] : 0;
}

void session_send(struct session *s, unsigned int r, unsigned int q, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	for (struct ibv_send_wr *w = wr; w; w = w->next) {
		if (w->wr_id & SESSION_QUIET)
			continue;
		w->send_flags |= IBV_SEND_SIGNALED;
		s->rail[r].sends[q]++;
	}
	must(ibv_post_send(s->rail[r].qp[q], wr, &bad), "ibv_post_send");
}

void session_recv(struct session *s, unsigned int r, unsigned int q, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	wr->wr_id |= SESSION_RECV;
	must(ibv_post_recv(s->rail[r].qp[q], wr, &bad), "ibv_post_recv");
	s->rail[r].recvs[q]++;
}

static unsigned int qp_of(const struct session *s, unsigned int r, uint32_t qpn)
{
	for (unsigned int q = 0; q < s->is->qps; q++)
		if (s->rail[r].qp[q]->qp_num == qpn)
			return q;
	fail("rail %u: a completion of QP %#x", r, qpn);
}

/* Return: whether it has failed. */
static bool complete(struct session *s, unsigned int r, const struct ibv_wc *wc)
{
	const unsigned int q = qp_of(s, r, wc->qp_num);
	struct session_rail *n = &s->rail[r];

	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_RETRY_EXC_ERR &&
	    wc->status != IBV_WC_WR_FLUSH_ERR)
		fail("rail %u, QP %u: %s", r, q, ibv_wc_status_str(wc->status));
	if (wc->wr_id & SESSION_RECV)
		n->recvs[q]--;
	else if (!(wc->wr_id & SESSION_QUIET))
		n->sends[q]--;
	s->done += wc->status == IBV_WC_SUCCESS;
	if (!(wc->wr_id & SESSION_QUIET))
		s->is->completed(s, r, q, wc);
	return wc->status != IBV_WC_SUCCESS;
}

static bool cq_poll(struct session *s, unsigned int r, struct ibv_cq *cq, bool *bad)
{
	struct ibv_wc wc[16];
	bool some = false;
	int got;

	do {
		got = ibv_poll_cq(cq, 16, wc);
		if (got < 0)
			fail("ibv_poll_cq: %d", got);
		for (int i = 0; i < got; i++)
			*bad |= complete(s, r, &wc[i]);
		some |= got > 0;
	} while (got == 16);
	return some;
}

static unsigned int ncqs(const struct session *s)
{
	return s->is->own_cqs ? s->is->qps : 1;
}

/* Return: whether there was something. */
static bool rail_poll(struct session *s, unsigned int r)
{
	bool some = false, bad = false;

	for (unsigned int i = 0; i < ncqs(s); i++)
		some |= cq_poll(s, r, s->rail[r].cq[i], &bad);
	if (bad && s->rail[r].up)
		fence(s, r, s->rail[r].epoch + 1);
	return some;
}

/* ---- received words ----------------------------------------------------------------- */

static struct session_rail *rail_told(struct session *s, uint64_t r)
{
	if (r >= s->n)
		fail("the other side says something of rail %llu", (unsigned long long)r);
	return &s->rail[r];
}

static void hear(struct session *s, const uint64_t *word)
{
	const unsigned int r = (unsigned int)word[1];
	const uint32_t epoch = (uint32_t)word[2];
	struct session_rail *n;

	switch (word[0]) {
	case FENCE:
		n = rail_told(s, word[1]);
		n->peer_epoch = epoch;
		if (epoch > n->epoch)
			fence(s, r, epoch);
		settle(s, r);
		break;
	case READY:
		n = rail_told(s, word[1]);
		if (epoch != n->epoch)
			break;
		n->heard = true;
		n->lid = (uint16_t)word[3];
		break;
	case ROUND:
		s->rounds = (uint32_t)word[1];
		s->begun = ms_now();
		rounds_tell(s->is->name, 1, s->rounds, s->lost, s->healed);
		break;
	case OVER:
		s->over = true;
		break;
	default:
		if (!s->is->told)
			fail("a word of %llu by TCP", (unsigned long long)word[0]);
		s->is->told(s, word);
	}
}

static bool tcp_poll(struct session *s)
{
	uint64_t word[SESSION_WORDS];
	bool some = false;
	int got;

	/* whole messages only: a part of one stays in the socket */
	while (!s->over) {
		got = (int)recv(s->tcp.sock, word, sizeof(word), MSG_PEEK | MSG_DONTWAIT);
		if (!got || (got < 0 && errno != EAGAIN))
			fail("the other side is gone");
		if (got < (int)sizeof(word))
			break;
		tcp_recv(&s->tcp, word, sizeof(word));
		hear(s, word);
		some = true;
	}
	return some;
}

static bool poll_all(struct session *s)
{
	bool some = tcp_poll(s);

	for (unsigned int r = 0; r < s->n; r++) {
		some |= rail_poll(s, r);
		heal(s, r);
	}
	return some;
}

static void dump(const struct session *s)
{
	for (unsigned int r = 0; r < s->n; r++) {
		const struct session_rail *n = &s->rail[r];

		printf("rail %u: epoch %u, the peer's %u, %s%s%s%s, outstanding %u\n", r, n->epoch,
		       n->peer_epoch, n->up ? "up" : "down", n->fenced ? ", fenced" : "",
		       n->said ? ", said READY" : "", n->heard ? ", heard READY" : "",
		       outstanding(s, r));
	}
}

void session_wait(struct session *s)
{
	static unsigned int idle;

	if (ms_now() - s->begun > ROUND_LATE_MS) {
		dump(s);
		fail("round %u hangs", s->rounds);
	}
	if (poll_all(s)) {
		idle = 0;
		return;
	}
	if (++idle < IDLE_POLLS)
		return;
	for (unsigned int r = 0; r < s->n; r++)
		for (unsigned int i = 0; i < ncqs(s); i++)
			must(ibv_req_notify_cq(s->rail[r].cq[i], 0), "ibv_req_notify_cq");
	if (poll_all(s))
		return;
	if (hca_sleep(s->hca, s->n, s->tcp.sock, PORT_MS))
		idle = 0;
}

/* ---- both sides --------------------------------------------------------------------- */

static void rail_open(struct session *s, unsigned int r)
{
	uint64_t me[3 + SESSION_QPS] = {
		s->hca[r].lid, be64toh(s->hca[r].gid.global.subnet_prefix),
		be64toh(s->hca[r].gid.global.interface_id),
	};
	struct session_rail *n = &s->rail[r];
	uint64_t you[3 + SESSION_QPS];

	for (unsigned int q = 0; q < s->is->qps; q++) {
		if (q < ncqs(s))
			n->cq[q] = hca_cq(&s->hca[r], 2 * HCA_DEPTH * s->is->qps / ncqs(s), true);
		n->qp[q] = hca_qp(&s->hca[r], n->cq[s->is->own_cqs ? q : 0], IBV_QPT_RC);
		me[3 + q] = n->qp[q]->qp_num;
	}
	session_swap(s, me, you, 3 + SESSION_QPS);
	n->lid = (uint16_t)you[0];
	for (unsigned int q = 0; q < s->is->qps; q++)
		n->qpn[q] = (uint32_t)you[3 + q];
	n->gid.global.subnet_prefix = htobe64(you[1]);
	n->gid.global.interface_id = htobe64(you[2]);
}

static void next_round(struct session *s, uint32_t len)
{
	s->begun = ms_now();
	s->is->round(s, len, s->rounds);
	tell(s, ROUND, ++s->rounds, 0, 0);
	rounds_tell(s->is->name, 2, s->rounds, s->lost, s->healed);
	if (len == ROUND_MOST)
		printf("%u MiB in %d ms\n", len >> 20, (int)(ms_now() - s->begun));
}

static void all_rounds(struct session *s, double seconds)
{
	const int64_t end = ms_now() + (int64_t)(seconds * 1000);
	uint64_t dice = 1;

	/* both kinds of rounds for each size */
	for (unsigned int i = 0; i < 2 * ROUND_SIZES && seconds == 0; i++)
		next_round(s, round_sizes[i / 2]);
	while (seconds > 0 && rounds_go_on(s->is->name, end))
		next_round(s, round_size(&dice));
	tell(s, OVER, 0, 0, 0);
}

/* Waits for the client's remaining messages before the connection is closed. */
static void part(struct session *s)
{
	uint64_t word[SESSION_WORDS];

	tell(s, OVER, 0, 0, 0);
	while (recv(s->tcp.sock, word, sizeof(word), 0) > 0)
		;
}

void session_main(const struct pattern *is, double seconds, const char *host)
{
	static struct session s;

	/* longer than all time limits of other processes */
	alarm((unsigned int)seconds + 900);
	s.is = is;
	s.client = host != NULL;
	s.tcp.sock = peer_meet(host);
	s.n = hca_open_all(s.hca);
	is->open(&s);
	for (unsigned int r = 0; r < s.n; r++)
		rail_open(&s, r);
	for (unsigned int r = 0; r < s.n; r++)
		rail_connect(&s, r);
	sync_at(&s.tcp, 1);
	s.begun = ms_now();
	if (s.client)
		all_rounds(&s, seconds);
	while (!s.over)
		session_wait(&s);
	if (!s.client)
		part(&s);
	printf("%s: %u rounds verified on %u rails, %llu completions, %llu rails failed, "
	       "%llu came back\n", is->name, s.rounds, s.n, (unsigned long long)s.done,
	       (unsigned long long)s.lost, (unsigned long long)s.healed);
}
