// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A fabric of one switch with three machines that send any bytes: SMPs of both classes, GMPs, data
 * packets, timers, links that retrain and close.
 */
#include "link_ends.h"

#include "fabric/data/data_priv.h"
#include "fabric/graph/generate.h"

#define EPS	3u
#define HDR	(IB_LRH_LEN + IB_BTH_LEN + IB_DETH_LEN)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ohca_link_phy phy = { true, 255, 255, 255 };

static struct fab_mgmt m;
static struct fab_data *d;
static uint32_t node;		/* the switch */

static bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static uint32_t port_of(unsigned int num)
{
	return fab_port_of(&m.f->node[node], num);
}

static void look(void)
{
	for (unsigned int i = 1; i <= EPS; i++) {
		fab_data_woke(d, port_of(i));
		fab_data_ctrl(d, port_of(i));
	}
}

static void pump(struct ohca_link *ep[EPS])
{
	for (int i = 0; i < 3; i++) {
		look();
		fab_data_round(d);
		for (unsigned int k = 0; k < EPS; k++) {
			struct ohca_link_frame f;

			ohca_link_ctrl(ep[k]);
			for (unsigned int vl = 0; vl < 16; vl++)
				for (int n = 0; n < 8 && ohca_link_rx_peek(ep[k], vl, &f); n++)
					ohca_link_rx_release(ep[k], vl);
			ohca_link_kick(ep[k]);
			ohca_link_awake(ep[k]);
		}
	}
}

/* Five hosts at a switch; hosts without a machine are switched off. */
static struct fab *new_fabric(void)
{
	struct fab *f = fab_new();
	char why[256];

	if (!f)
		abort();
	f->vls = 2;
	if (!fab_generate(f, "star:5", why, sizeof(why)) || !fab_seal(f))
		abort();
	for (uint32_t i = 0; i < f->nodes; i++) {
		if (f->node[i].sw != FAB_NONE)
			node = i;
		else
			fab_switch_off(f, i);
	}
	return f;
}

/* The state that an SM would set up; the input may change all of it. */
static void set_up(struct fab *f)
{
	struct fab_switch *s = &f->sw[f->node[node].sw];

	f->port[port_of(0)].pi.lid = 1;
	f->port[port_of(0)].pi.sm_lid = 2;
	s->si.linear_top = 5;
	s->lft = malloc(IB_LFT_PER_BLOCK);
	s->lft_blocks = 1;
	s->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*s->mft));
	if (!s->lft || !s->mft)
		abort();
	s->mft[0] = calloc(IB_MFT_PER_BLOCK * s->mft_positions, sizeof(**s->mft));
	if (!s->mft[0])
		abort();
	memset(s->lft, IB_LFT_NO_PORT, IB_LFT_PER_BLOCK);
	s->lft[1] = 0;
	for (unsigned int i = 1; i <= EPS; i++) {
		s->lft[i + 1] = (uint8_t)i;
		f->port[port_of(i)].pi.state = IB_PS_ACTIVE;
		s->mft[0][0] |= (uint16_t)(1u << i);
	}
	m.epoch++;
}

static void timers(uint8_t op)
{
	struct fab_extra *x = fab_extra(m.f, port_of(0));

	if (op & 64) {
		x->trap[op / 8 % FAB_TRAPS].next_ns = 1;
		m.deadline_ns = 1;
	}
	fab_mgmt_timer(&m, fab_data_host_ns(d));
	fab_data_timer(d);
}

/* Builds a UD packet around a MAD whose bytes are from the input. */
static size_t make_mad(struct input *in, uint8_t *pkt, uint8_t op)
{
	static const uint8_t attrs[] = { 0x02, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18,
					 0x19, 0x1b, 0x20, 0x1d, 0x01 };
	bool gsi = op & 1, dr = op & 2;
	struct ib_smp smp;
	uint8_t *p;

	memset(&smp, 0, sizeof(smp));
	smp.hdr.base_version = 1;
	smp.hdr.mgmt_class = gsi ? IB_CLASS_PERF : dr ? IB_CLASS_SUBN_DR : IB_CLASS_SUBN_LID;
	smp.hdr.class_version = 1;
	smp.hdr.method = op & 4 ? IB_METHOD_SET : IB_METHOD_GET;
	smp.hdr.attr_id = ib_to_be16(attrs[get8(in) % sizeof(attrs)]);
	smp.hdr.attr_mod = ib_to_be32((uint32_t)get16(in) << 16 | get8(in));
	smp.dr_slid = smp.dr_dlid = ib_to_be16(0xffff);
	smp.init_path[1] = 1;
	smp.init_path[2] = get8(in) % 6;
	if (dr)
		ib_smp_set_hops(&smp, 1, op & 8 ? 2 : 1);
	if (op & 16)
		take(in, smp.data, 64);
	for (unsigned int n = op & 32 ? get8(in) % 8 : 0; n; n--) {
		unsigned int at = get8(in);

		((uint8_t *)&smp)[at] = get8(in);
	}
	p = ib_build_lrh(pkt, gsi ? 0 : 15, 0, IB_LNH_IBA_LOCAL, op & 2 ? 0xffff : 1,
			 ib_pkt_words(HDR, IB_MAD_LEN), 2);
	if (gsi)
		ib_put_be16(pkt + 2, 1);
	p = ib_build_bth(p, IB_OP_UD_SEND_ONLY, 0, 0, 0xffff, gsi, false, 0);
	p = ib_build_deth(p, gsi ? IB_QKEY_GSI : 0, gsi);
	memcpy(p, &smp, sizeof(smp));
	memset(p + sizeof(smp), 0, 4);
	for (unsigned int n = op & 64 ? get8(in) % 4 : 0; n; n--) {
		unsigned int at = get8(in) % HDR;

		pkt[at] = get8(in);
	}
	return HDR + IB_MAD_LEN + 4;
}

static void put(struct ohca_link *l, unsigned int vl, const void *pkt, size_t len)
{
	void *b = ohca_link_tx_begin(l, vl, len);

	if (!b)
		return;
	memcpy(b, pkt, len);
	ohca_link_tx_commit(l, vl, len, 0);
	ohca_link_kick(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* for half of the inputs wires have rates, so that packets wait */
	const struct fab_data_cfg cfg = { .hoq_scale = 1, .rate_scale = size & 1 ? 100 : 0 };
	struct input in = { data, data + size };
	struct ohca_link *ep[EPS], *l;
	struct fab *f = new_fabric();
	struct ohca_link_cfg ca, cb;

	fab_mgmt_init(&m, f, nobody, NULL);
	d = fab_data_new(&m, &cfg);
	if (!d)
		abort();
	for (unsigned int i = 0; i < EPS; i++) {
		fab_data_link_cfg(d, port_of(i + 1), &ca);
		ohca_link_cfg_init(&cb);
		cb.port_guid = 100 + i;
		ends_meet(&ca, &cb, &l, &ep[i]);
		if (!fab_data_attach(d, port_of(i + 1), l))
			abort();
		ohca_link_train(ep[i], &phy);
	}
	pump(ep);
	set_up(f);

	for (int ops = 0; ops < 200 && in.p < in.end; ops++) {
		uint8_t op = get8(&in), pkt[700] = { 0 };
		unsigned int e = op / 8 % EPS;
		size_t n;

		switch (op % 8) {
		case 0:
		case 1:
		case 2:
			op = get8(&in);
			n = make_mad(&in, pkt, op);
			put(ep[e], op & 1 ? 0 : 15, pkt, n);
			break;
		case 3:		/* a data packet with some header */
			n = 12 + get8(&in) % 150 * 4u;
			ib_build_bth(ib_build_lrh(pkt, op / 64 & 1, 0, 2, (uint16_t)(2 + op / 32),
						  (uint16_t)(n / 4), 2), 0x24, 0, 0, 0xffff, 5,
				     false, 0);
			for (unsigned int k = get8(&in) % 4; k; k--) {
				unsigned int at = get8(&in) % 24;

				pkt[at] = get8(&in);
			}
			put(ep[e], op / 64 & 1, pkt, n);
			break;
		case 4:		/* any bytes */
			n = take(&in, pkt, 12 + op);
			put(ep[e], op & 64 ? 15 : 0, pkt, n < 12 ? 12 : n);
			break;
		case 5:
			timers(op);
			break;
		case 6:
			ohca_link_train(ep[e], &phy);
			break;
		default:
			pump(ep);
		}
	}
	pump(ep);
	for (unsigned int i = 0; i < EPS; i++)
		ohca_link_free(ep[i]);
	look();
	/* packets that waited at the switch are discarded, 64 of a lane in a round */
	for (unsigned int i = 0; fab_data_round(d); i++)
		if (i == 100)
			abort();
	if (d->blocked || d->flying)
		abort();
	fab_data_free(d);
	fab_free(f);
	return 0;
}
