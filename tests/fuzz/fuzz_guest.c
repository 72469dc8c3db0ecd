/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that lies in every way at once: one stream of bytes is MMIO, the contents of DMA, the
 * admin queue, WQEs and the wire. Two ports of one engine are joined, and the input adds frames of
 * its own. Memory also changes between two reads of the device.
 *
 * The input is a program. The first byte selects whether the guest is strict: then it names no
 * memory but its own, and the device may write to no other.
 */
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/xport.h"
#include "guest.h"
#include "ib/crc.h"
#include "ib/packet.h"
#include "reach.h"
#include "renew.h"

#define MAX_OPS		400u
#define RAW_PENDING	8u	/* raw commands that are not executed yet, at most */
/* Most mappings of one ohca_poll() with a budget of 64: packets, WQEs, steps of commands. */
#define TURN_MAPS	400000u
#define TURN_BYTES	(8ull << 20)

/** struct touch - a byte that changes at the @after-th mapping of memory by the device */
struct touch {
	uint32_t after;
	uint8_t at, by;
};

/** struct liar - the guest, and its changes while the device reads */
struct liar {
	struct guest g;
	struct touch touch;
	bool quiet;	/* a command is outstanding: its queues must not change */
	uint64_t maps;
};

static void on_map(void *arg, struct host *h, uint64_t addr, size_t n, int prot)
{
	struct liar *l = arg;

	l->maps++;
	if (l->quiet || !l->touch.after || prot & OHCA_DMA_WRITE || --l->touch.after)
		return;
	/* a strict guest changes no page list, no command and no mailbox */
	if (l->g.strict && addr < l->g.mem.buf.page[0])
		return;
	((uint8_t *)host_ptr(h, addr))[l->touch.at % n] ^= l->touch.by;
}

/* Polls once and checks that the poll is bounded. */
static void turn(struct liar *l, unsigned int budget)
{
	uint64_t bytes = l->g.h->dma_bytes;

	l->maps = 0;
	ohca_poll(l->g.h->e, budget);
	if (l->maps > TURN_MAPS || l->g.h->dma_bytes - bytes > TURN_BYTES)
		abort();
}

static void registers(struct liar *l, uint8_t b)
{
	struct guest *g = &l->g;
	uint32_t off = (uint32_t)get_n(&g->in, 2);
	unsigned int size = 1u << (b >> 5 & 3);
	ohca_engine *e = g->h->e;

	if (off & 0x8000)
		off &= 0x4f;
	if (b & 128) {
		ohca_mmio_read(e, off, size);
		return;
	}
	if (off & 0x4000) {
		ohca_doorbell(e, (uint32_t)off >> 12 & 3, off & 0xfff, get_n(&g->in, 8), size);
		return;
	}
	if (g->strict && off + size > OHCA_REG_AQ_BASE && off < OHCA_REG_AQ_LOG_SIZE)
		return;
	ohca_mmio_write(e, off, get_n(&g->in, 8), size);
	g->wild = true;
}

/* Writes a command without waiting for it, or any bytes in place of one. */
static void raw_command(struct liar *l, uint8_t b)
{
	struct guest *g = &l->g;
	struct host *h = g->h;
	struct ohca_hw_aqe c;

	if (g->wild || !ohca_running(h->e))
		return;
	guest_compose(g, &c);
	if (b & 128 && !g->strict)
		for (unsigned int n = get(&g->in) & 7; n; n--) {
			unsigned int at = get(&g->in) % sizeof(c);

			((uint8_t *)&c)[at] = get(&g->in);
		}
	while (ohca_running(h->e) && h->aq_pi - h->e->aq_ci >= RAW_PENDING)
		turn(l, 1);
	memcpy(host_ptr(h, h->aq + (h->aq_pi & 15) * sizeof(c)), &c, sizeof(c));
	h->aq_pi++;
	ohca_admin_doorbell(h->e, h->aq_pi + (b == 0xff ? get(&g->in) : 0));
	g->wild = b == 0xff;
}

static uint8_t *headers(struct guest *g, uint8_t *p, const struct ib_opcode_info *op)
{
	struct input *in = &g->in;

	if (op->hdrs & IB_HDR_DETH)
		p = ib_build_deth(p, get(in) < 240 ? 0x11 : IB_QKEY_GSI, get(in));
	if (op->hdrs & IB_HDR_RETH)
		p = ib_build_reth(p, g->mem.iova + 8u * get(in), g->mem.key + (get(in) == 0xff),
				  (uint32_t)get_n(in, get(in) == 0xff ? 4 : 1));
	if (op->hdrs & IB_HDR_ATOMIC_ETH)
		p = ib_build_atomic(p, g->mem.iova + 8u * get(in), g->mem.key, get(in), get(in));
	if (op->hdrs & IB_HDR_AETH)
		p = ib_build_aeth(p, get(in), get(in));
	if (op->hdrs & IB_HDR_ATOMIC_ACK_ETH)
		p = ib_build_atomic_ack(p, get(in));
	if (op->hdrs & IB_HDR_IMMDT)
		p = ib_build_immdt(p, get(in));
	if (op->hdrs & IB_HDR_IETH)
		p = ib_build_ieth(p, g->mr);
	return p;
}

/* Composes a packet with the PSN that a peer could send next to a QP. Return: its length. */
static uint32_t compose_frame(struct guest *g, uint8_t b, uint8_t *buf)
{
	static const uint8_t trans[QPS] = { IB_TRANS_RC, IB_TRANS_RC, IB_TRANS_UC, IB_TRANS_UC,
					    IB_TRANS_UD };
	struct input *in = &g->in;
	unsigned int i = b % QPS;
	const struct ohca_qp *qp = ohca_qp_get(g->h->e, g->qps[i].qpn);
	uint8_t o = get(in), opcode = trans[i];
	const struct ib_opcode_info *op;
	uint32_t psn = 0, len, payload;
	uint8_t *p;

	opcode |= i == QP_UD ? IB_OPN_SEND_ONLY + (o & 1) : o % 24;
	op = &ib_opcodes[opcode];
	if (qp && qp->xp)
		psn = op->flags & IB_OPF_RESPONSE ? qp->xp->req.una : qp->xp->resp.epsn;
	payload = op->flags & IB_OPF_PAYLOAD ? (o & 0xc0) * 4u : 0;
	len = IB_LRH_LEN + (op->hdr_len ? op->hdr_len : IB_BTH_LEN) + payload + 4;
	p = ib_build_lrh(buf, 0, 0, IB_LNH_IBA_LOCAL, (uint16_t)(1 + (i & 1)), (uint16_t)(len / 4),
			 (uint16_t)(2 - (i & 1)));
	p = ib_build_bth(p, opcode, b & 16 ? IB_BTH_SE : 0, 0, 0xffff, g->qps[i].qpn, b & 32,
			 ib_psn_add(psn, (uint32_t)(int32_t)(int8_t)(b & 64 ? get(in) : 0)));
	p = headers(g, p, op);
	for (unsigned int k = 0; k < payload; k++)
		p[k] = k < 8 ? get(in) : (uint8_t)k;
	return len;
}

/* Receives a frame: a good one, one with changed bytes, or any bytes; with right or wrong CRCs. */
static void frame(struct guest *g)
{
	static uint8_t buf[8192];
	struct ohca_frame f = { 0 };
	struct input *in = &g->in;
	uint8_t b = get(in), how = get(in), *data;
	uint32_t crc;

	f.len = compose_frame(g, b, buf);
	if (how & 1)
		for (unsigned int n = get(in) & 3; n; n--) {
			uint8_t at = get(in);

			buf[at] = get(in);
		}
	if ((how & 6) == 6)
		f.len = 4u * get(in);
	f.flags = how >> 3 & 7;
	f.vl = how & 64 ? get(in) & 15 : buf[0] >> 4;
	/* a block of exactly its size, so that ASan detects reads past the end */
	data = malloc(f.len ? f.len : 1);
	if (!data)
		abort();
	memcpy(data, buf, f.len);
	if (f.len >= 24 && !ib_icrc(data, f.len - 4, &crc) && how < 240)
		ib_icrc_put(data + f.len - 4, crc);
	f.vcrc = how < 240 ? ib_vcrc(data, f.len) : b;
	f.data = data;
	ohca_rx(g->h->e, (b & 128 ? b : b % QPS) & 1, &f);
	free(data);
}

static void resets(struct liar *l, uint8_t b)
{
	struct guest *g = &l->g;

	if (b & 32)
		ohca_reset(g->h->e);
	else
		ohca_mmio_write(g->h->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	must_be_empty(g->h->e);
	g->wild = true;
	if (b & 128)
		guest_start(g);
}

/* Events of the host: credits, links, memory that has become persistent. */
static void events(struct guest *g, uint8_t b)
{
	struct ohca_link_rate rate = { .width = get(&g->in), .speed = b >> 5, .speed_ext = b >> 6 };
	struct host *h = g->h;

	switch (get(&g->in) % 6) {
	case 0:
		h->port[b >> 7].credits = b >> 5 & 3 ? 64 : 0;
		h->port[b >> 7].blocked |= b & 32 ? 0xffff : 0;
		break;
	case 1:
		ohca_tx_ready(h->e, b >> 7, (uint16_t)get_n(&g->in, 2));
		break;
	case 2:
		ohca_link_change(h->e, b >> 7, b & 64 ? NULL : &rate);
		break;
	case 3:
		h->persist_later = b & 128;
		break;
	case 4:
		if (h->persist_num)
			ohca_persisted(h->e, h->persist_tag[--h->persist_num]);
		break;
	default:
		ohca_persisted(h->e, get_n(&g->in, 2));
	}
}

static void consume(struct guest *g, uint8_t b)
{
	struct ohca_hw_eqe eqe;
	struct ohca_hw_cqe cqe;

	if (g->wild)
		return;
	for (unsigned int n = 0; n < 64 && host_eq_poll(g->h, &g->h->comp, &eqe); n++)
		;
	host_eq_db(g->h, &g->h->comp, b & 128);
	for (unsigned int n = 0; n < 64 && host_cq_poll(&g->cqs, &cqe); n++)
		;
	host_cq_arm(&g->cqs, b & 64);
}

static void step(struct liar *l, uint8_t b)
{
	struct guest *g = &l->g;
	struct host *h = g->h;

	switch (b % 24) {
	case 0:
		host_run(&h, 1, 1000ull << (b >> 4));
		break;
	case 1:
		h->hole = guest_page(g);
		h->hole_len = (uint64_t)(b >> 5) * HOST_PAGE;
		break;
	case 2:
		h->pieces = b & 32;
		break;
	case 3:
		l->quiet = true;
		guest_port(g);
		break;
	case 4:
		registers(l, b);
		break;
	case 5:
		l->quiet = true;
		resets(l, b);
		break;
	case 6:
	case 7:
		guest_write(g);
		break;
	case 8:
	case 9:
	case 10:
		guest_post(g);
		break;
	case 11:
	case 12:
		guest_doorbell(g);
		break;
	case 13:
		turn(l, b & 32 ? 1 : 64);
		break;
	case 14:
		host_step(&h, 1);
		break;
	case 15:
	case 16:
	case 17:
		frame(g);
		break;
	case 18:
		events(g, b);
		break;
	case 19:
		consume(g, b);
		break;
	case 20:
		l->touch = (struct touch){ .after = 1 + get(&g->in), .at = get(&g->in),
					   .by = get(&g->in) };
		break;
	case 21:
		raw_command(l, b);
		break;
	case 22:
		l->quiet = true;
		guest_change(g);
		break;
	default:
		l->quiet = true;
		guest_command(g);
	}
	l->quiet = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct liar l = { 0 };
	struct guest *g = &l.g;
	struct host *h;

	guest_new(g, data, size, size && (data[0] & 1));
	h = g->h;
	get(&g->in);
	h->on_map = on_map;
	h->on_map_arg = &l;
	for (unsigned int i = 0; i < MAX_OPS && g->in.p < g->in.end; i++)
		step(&l, get(&g->in));
	l.touch.after = 0;
	host_run(&h, 1, HOST_MS);
	if (!g->wild && ohca_running(h->e))
		reach_look(h);
	guest_end(g);
	return 0;
}
