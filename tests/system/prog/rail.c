// SPDX-License-Identifier: GPL-2.0-or-later
/* Links over several rails: clear-to-sends, messages in parts, completions. See rail.h. */
#include "rail.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#define SELF_TIMEOUT	12

/* ---- setup -------------------------------------------------------------------------- */

/* Rail 0 uses LIDs only, the others LIDs and GRHs. */
static bool with_grh(unsigned int r)
{
	return r > 0;
}

static void self_connect(struct rails *rs, unsigned int r)
{
	const uint32_t qpn = rs->rail[r].self->qp_num;

	hca_qp_rts(rs->rail[r].self, &(struct hca_path) {
		.lid = rs->hca[r].lid, .gid = rs->hca[r].gid, .grh = with_grh(r), .qpn = qpn,
		.rq_psn = hca_psn(qpn, 0), .sq_psn = hca_psn(qpn, 0), .timeout = SELF_TIMEOUT,
	});
}

static void uc_open(struct rails *rs, struct link *l, unsigned int r)
{
	struct hca *hca = &rs->hca[r];
	struct lane *n = &l->lane[r];

	n->uc_cq = hca_cq(hca, 4 * UC_RECVS, true);
	n->uc = hca_qp(hca, n->uc_cq, IBV_QPT_UC);
	n->uc_buf = zeroes(2 * UC_RECVS * sizeof(*n->uc_buf));
	n->uc_mr = must_have(ibv_reg_mr(hca->pd, n->uc_buf, 2 * UC_RECVS * sizeof(*n->uc_buf),
					IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
}

static void uc_connect(struct link *l, unsigned int r)
{
	struct lane *n = &l->lane[r];

	hca_qp_rts(n->uc, &(struct hca_path) {
		.lid = n->lid, .gid = n->gid, .grh = with_grh(r), .qpn = n->uc_qpn,
	});
	uc_recvs(n);
}

void rails_reg(struct rails *rs, void *buf, size_t len, struct ibv_mr *mr[RAILS])
{
	for (unsigned int r = 0; r < rs->n; r++)
		mr[r] = hca_reg(&rs->hca[r], buf, len);
}

void rails_open(struct rails *rs, int rank)
{
	memset(rs, 0, sizeof(*rs));
	rs->rank = rank;
	rs->n = hca_open_all(rs->hca);
	for (unsigned int r = 0; r < rs->n; r++) {
		struct hca *hca = &rs->hca[r];
		struct rail *rail = &rs->rail[r];

		rail->self_cq = hca_cq(hca, 4, false);
		rail->self = hca_qp(hca, rail->self_cq, IBV_QPT_RC);
		rail->read_mr = must_have(ibv_reg_mr(hca->pd, rail->read, sizeof(rail->read),
						     IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
		self_connect(rs, r);
	}
}

void recv_one(struct lane *n, unsigned int q)
{
	struct ibv_recv_wr wr = { .wr_id = RAIL_WR(RAIL_RECV, 0, q) }, *bad;

	must(ibv_post_recv(n->qp[q], &wr, &bad), "ibv_post_recv");
	n->recvs++;
}

void lane_connect(struct link *l, unsigned int r)
{
	struct lane *n = &l->lane[r];

	for (unsigned int q = 0; q < RAIL_QPS; q++) {
		for (unsigned int i = 0; i < HCA_DEPTH; i++)
			recv_one(n, q);
		hca_qp_rts(n->qp[q], &(struct hca_path) {
			.lid = n->lid, .gid = n->gid, .grh = with_grh(r), .qpn = n->qpn[q],
			.rq_psn = hca_psn(n->qpn[q], n->epoch),
			.sq_psn = hca_psn(n->qp[q]->qp_num, n->epoch), .timeout = HCA_TIMEOUT,
		});
	}
	n->up = true;
}

/* Values of one rail that both sides exchange by TCP. */
static void swap_lane(struct rails *rs, struct link *l, unsigned int r)
{
	uint64_t me[8], you[8];
	struct peer p = { .sock = l->sock };
	struct lane *n = &l->lane[r];

	me[0] = be64toh(rs->hca[r].gid.global.subnet_prefix);
	me[1] = be64toh(rs->hca[r].gid.global.interface_id);
	me[2] = rs->hca[r].lid;
	me[3] = n->uc->qp_num;
	me[4] = l->fifo_mr[r]->rkey;
	me[5] = (uintptr_t)l->fifo;
	for (unsigned int q = 0; q < RAIL_QPS; q++)
		me[6 + q] = n->qp[q]->qp_num;
	tcp_swap(&p, me, you, sizeof(me));
	l->peer_fifo_rkey[r] = (uint32_t)you[4];
	l->peer_fifo = you[5];
	n->lid = (uint16_t)you[2];
	n->uc_qpn = (uint32_t)you[3];
	for (unsigned int q = 0; q < RAIL_QPS; q++)
		n->qpn[q] = (uint32_t)you[6 + q];
	n->gid.global.subnet_prefix = htobe64(you[0]);
	n->gid.global.interface_id = htobe64(you[1]);
	uc_connect(l, r);
	lane_connect(l, r);
	sync_at(&p, r);
}

struct link *rails_link(struct rails *rs, int peer, int sock)
{
	struct link *l = zeroes(sizeof(*l));

	l->peer = peer;
	l->sock = sock;
	l->next_out = 1;
	l->next_in = 1;
	l->fifo = zeroes(SLOTS * sizeof(struct cts));
	l->stage = zeroes((size_t)SLOTS * SLICE);
	rails_reg(rs, (void *)l->fifo, SLOTS * sizeof(struct cts), l->fifo_mr);
	rails_reg(rs, l->stage, (size_t)SLOTS * SLICE, l->stage_mr);
	for (unsigned int i = 0; i < SLOTS; i++)
		l->in[(i + 1) % SLOTS].seq = i + 1;
	for (unsigned int r = 0; r < rs->n; r++) {
		struct lane *n = &l->lane[r];

		n->cq = hca_cq(&rs->hca[r], 3 * HCA_DEPTH * RAIL_QPS, true);
		for (unsigned int q = 0; q < RAIL_QPS; q++)
			n->qp[q] = hca_qp(&rs->hca[r], n->cq, IBV_QPT_RC);
		uc_open(rs, l, r);
		swap_lane(rs, l, r);
	}
	rs->link[rs->nlinks++] = l;
	return l;
}

/* ---- sending ------------------------------------------------------------------------ */

static void part_of(const struct out *o, unsigned int part, uint32_t *off, uint32_t *len)
{
	uint32_t each = o->parts == 1 ? o->len : (o->len / o->parts + 127) & ~127u;

	*off = part * each;
	*len = part + 1 == o->parts ? o->len - *off : each;
}

/* Chooses the rail of a part: the next one that is up. False: there is none. */
static bool rail_for(const struct rails *rs, const struct link *l, uint64_t turn, unsigned int *r)
{
	for (unsigned int i = 0; i < rs->n; i++) {
		*r = (unsigned int)((turn + i) % rs->n);
		if (l->lane[*r].up && l->lane[*r].sends < HCA_DEPTH / 2)
			return true;
	}
	return false;
}

static bool send_part(struct rails *rs, struct link *l, struct out *o, unsigned int part)
{
	const unsigned int slot = (unsigned int)(o->seq % SLOTS);
	const volatile struct cts *c = &l->fifo[slot];
	struct ibv_send_wr wr[2] = {}, *bad;
	struct ibv_sge sge;
	uint32_t off, len;
	unsigned int r, q;

	if (!rail_for(rs, l, o->parts == 1 ? o->seq : part, &r))
		return false;
	part_of(o, part, &off, &len);
	q = (unsigned int)(o->parts == 1 ? o->seq / rs->n : part / RAILS) % RAIL_QPS;
	sge = (struct ibv_sge) { (uintptr_t)o->buf + off, len, o->mr[r]->lkey };
	for (unsigned int i = 0; i < 2; i++) {
		wr[i].wr.rdma.remote_addr = be64toh(c->addr) + off;
		wr[i].wr.rdma.rkey = (uint32_t)be64toh(c->rkey[r]);
	}
	wr[0].sg_list = &sge;
	wr[0].num_sge = 1;
	wr[0].opcode = IBV_WR_RDMA_WRITE;
	wr[0].wr_id = RAIL_WR(RAIL_MORE, o->seq, part);
	wr[0].next = &wr[1];
	wr[1].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr[1].wr_id = RAIL_WR(RAIL_PART, o->seq, part);
	wr[1].send_flags = IBV_SEND_SIGNALED;
	wr[1].imm_data = htonl((uint32_t)o->seq << 6 | o->parts << 3 | part);
	if (o->parts == 1) {	/* short: the data are sent with the immediate data */
		wr[1].sg_list = &sge;
		wr[1].num_sge = 1;
	} else {
		rs->splits++;
	}
	must(ibv_post_send(l->lane[r].qp[q], o->parts == 1 ? &wr[1] : wr, &bad), "ibv_post_send");
	l->lane[r].sends++;
	rs->parts++;
	o->todo &= ~(1u << part);
	o->flying[r] |= 1u << part;
	return true;
}

/* Notifies the peer of the address for the message of a slot. */
static bool send_cts(struct rails *rs, struct link *l, unsigned int slot)
{
	struct in *in = &l->in[slot];
	struct cts c = { .addr = htobe64((uintptr_t)l->stage + (uint64_t)slot * SLICE),
			 .seq = htobe64(in->seq) };
	struct ibv_sge sge = { (uintptr_t)&c, sizeof(c), 0 };
	struct ibv_send_wr wr = {
		.wr_id = RAIL_WR(RAIL_CTS, in->seq, 0), .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	}, *bad;
	unsigned int r;

	if (!rail_for(rs, l, in->seq, &r))
		return false;
	for (unsigned int i = 0; i < rs->n; i++)
		c.rkey[i] = htobe64(l->stage_mr[i]->rkey);
	wr.wr.rdma.remote_addr = l->peer_fifo + slot * sizeof(c);
	wr.wr.rdma.rkey = l->peer_fifo_rkey[r];
	must(ibv_post_send(l->lane[r].qp[0], &wr, &bad), "ibv_post_send");
	l->lane[r].sends++;
	in->cts = CTS_FLYING;
	in->cts_rail = r;
	return true;
}

void link_push(struct rails *rs, struct link *l)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		if (l->in[i].cts == CTS_TODO && !send_cts(rs, l, i))
			return;
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct out *o = &l->out[i];

		/* words of a CTS are written in the order of their addresses, seq last */
		if (!o->todo || be64toh(l->fifo[i].seq) != o->seq)
			continue;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		for (unsigned int part = 0; part < o->parts; part++)
			if (o->todo >> part & 1 && !send_part(rs, l, o, part))
				return;
	}
}

bool link_can_send(const struct link *l)
{
	return !l->out[l->next_out % SLOTS].parts;
}

void link_send(struct rails *rs, struct link *l, const uint8_t *buf, uint32_t len,
	       struct ibv_mr *mr[RAILS])
{
	struct out *o = &l->out[l->next_out % SLOTS];

	if (o->parts || len > SLICE)
		fail("a message of %u bytes does not fit", len);
	*o = (struct out) { .seq = l->next_out++, .buf = buf, .len = len, .mr = mr };
	o->parts = len > SPLIT ? PARTS : 1;
	o->todo = (1u << o->parts) - 1;
	link_push(rs, l);
}

bool link_idle(const struct link *l)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		if (l->out[i].parts)
			return false;
	return true;
}

/* ---- receiving ---------------------------------------------------------------------- */

/*
 * A READ of the message's memory by a QP that is connected to itself. It follows all acknowledged
 * WRITEs; data in another device's memory are complete after it. If the port is down, the next
 * rail's QP does it.
 */
static void flush(struct rails *rs, struct link *l, unsigned int slot)
{
	const int64_t end = ms_now() + 60000;

	for (unsigned int i = 0; ms_now() < end; i++) {
		unsigned int r = (rs->flusher + i) % rs->n;
		struct rail *rail = &rs->rail[r];
		struct ibv_sge sge = { (uintptr_t)rail->read, 1, rail->read_mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)l->stage + slot * SLICE, l->stage_mr[r]->rkey },
		}, *bad;
		struct ibv_wc wc;

		rail->read[0] = (uint8_t)~l->stage[slot * SLICE];
		must(ibv_post_send(rail->self, &wr, &bad), "ibv_post_send");
		if (!wc_get(rail->self_cq, &wc, 20000))
			fail("rank %d: no completion of a READ on rail %u", rs->rank, r);
		if (wc.status == IBV_WC_SUCCESS) {
			if (rail->read[0] != l->stage[slot * SLICE])
				fail("rank %d: a READ of itself has other data", rs->rank);
			rs->reads++;
			rs->flusher = r;
			return;
		}
		if (wc.status != IBV_WC_RETRY_EXC_ERR)
			fail("rank %d: READ: %s", rs->rank, ibv_wc_status_str(wc.status));
		hca_qp_again(rail->self);
		self_connect(rs, r);
	}
	fail("rank %d: no rail is up", rs->rank);
}

const uint8_t *link_ready(struct rails *rs, struct link *l)
{
	const unsigned int slot = (unsigned int)(l->next_in % SLOTS);
	const struct in *in = &l->in[slot];

	if (!in->parts || in->got != (1u << in->parts) - 1)
		return NULL;
	flush(rs, l, slot);
	return l->stage + (size_t)slot * SLICE;
}

void link_take(struct rails *rs, struct link *l)
{
	struct in *in = &l->in[l->next_in % SLOTS];

	/* the CTS of this message has arrived, whatever its completion will be */
	*in = (struct in) { .seq = l->next_in + SLOTS };
	l->next_in++;
	link_push(rs, l);
}
